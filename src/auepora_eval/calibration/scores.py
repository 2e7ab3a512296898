"""Scores by sample that are compared with labels: those of a metric of a stored run, or of a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from ..compare.pairing import lookup_metric
from ..core.metrics_base import sample_clusters
from ..core.results import two_stage_details
from ..core.scores import Scores, Status
from ..core.types import MetricResult
from ..errors import BadValueError, DataFileError, did_you_mean
from ..io.values import parse_json
from ..labels.draws import PEOPLE_ONLY
from ..labels.items import load_population
from ..render.tables import format_value
from ..runtime.files import read_lines
from ..store.records import RunRecord
from ..store.runs import RunStore, samples_contain

_MAX_LISTED = 12
"""Maximum number of metrics listed in a message."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What a report shows of a sample: question, answer, and the judge's rationale."""

    question: str = ""
    answer: str = ""
    rationale: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SampleScores:
    """The scores of one metric, by sample."""

    scores: Mapping[str, float]
    """Scores by sample id; samples without a score are missing."""
    metric: str = "scores"
    name: str = "scores"
    """The name of the run."""
    run_names: Collection[str] = ()
    """Names that a label may use for the run; empty if labels of any run count."""
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool = True
    clusters: Mapping[str, int] | None = None
    """Cluster number by sample id."""
    without_score: Mapping[str, str] = field(default_factory=dict)
    """Reason for a missing score, by sample id."""
    answers: Callable[[Collection[str]], Mapping[str, ShownAnswer]] = lambda ids: {}
    """Function that returns questions and answers of these samples."""
    notes: tuple[str, ...] = ()
    predictions: Mapping[str, float] | None = None
    """Predicted labels by sample id, for the difference of two runs; by default the scores, from 0 to 1."""

    @property
    def title(self) -> str:
        """The metric, and the run if it has a different name."""
        return self.metric if self.metric == self.name else f"{self.metric} of {self.name}"

    @property
    def bounded(self) -> bool:
        """Whether the range of scores is finite, so that they can be mapped to [0, 1]."""
        return all(map(math.isfinite, self.range))

    def probability(self, score: float) -> float:
        """A score mapped to [0, 1], 1 being the best."""
        low, high = self.range
        probability = min(max((score - low) / (high - low), 0.0), 1.0)
        return probability if self.higher_is_better else 1 - probability

    def verdict(self, score: float, threshold: float) -> bool:
        """Whether a score counts as right."""
        return score >= threshold if self.higher_is_better else score <= threshold


def load_run_scores(store: RunStore, record: RunRecord, metric: str | None = None) -> SampleScores:
    """The stored scores of a metric of a run; by default of the only judged metric. Without a judge all are 0.5."""
    if metric == PEOPLE_ONLY:
        _, clusters = _ids_and_clusters(store, record)
        unknown = dict.fromkeys(load_population(store, record.run_id).strata, 0.5)
        return SampleScores(unknown, PEOPLE_ONLY, record.name, (record.run_id, record.name), clusters=clusters)
    result = _select_result(store, record, list(store.results(record.run_id)), metric)
    assert isinstance(result.scores, Scores)
    meta = lookup_metric(result, record, {})
    ids, clusters = _ids_and_clusters(store, record)
    # Failed answers cannot be labelled, though they may count with the worst score.
    counted = result.scores.counted & (result.scores.status == Status.SCORED)
    outcomes = list(result.outcomes or ())
    notes = []
    if record.repeats > 1:
        notes.append(f"scores are means over {record.repeats} repeats; labels are taken to be about the first answers")
    low, high = meta.range
    values = result.scores.values
    stage = two_stage_details(result)
    if stage is not None:
        predicted = np.array(stage["predictions"], dtype=np.float64)
        counted = np.isfinite(predicted) & (result.scores.status != Status.SYSTEM_FAILED)
        values = predicted
        notes += _two_stage_notes(result.name, stage)
    return SampleScores(
        dict(compress(zip(ids, values.tolist(), strict=True), counted)),
        result.name,
        name=record.name,
        run_names=(record.run_id, record.name),
        range=(low, high),
        higher_is_better=meta.higher_score_is_better,
        clusters=clusters,
        without_score=dict(compress(zip(ids, outcomes, strict=True), ~counted)),
        answers=_answer_reader(store, record, result.name, result.signature or ""),
        notes=tuple(notes),
    )


def _two_stage_notes(name: str, stage: Mapping[str, Any]) -> Iterator[str]:
    """What the scores are of a metric that was judged in two stages, and its other correction."""
    judge, ends = stage["expensive"]["judge"], stage["interval"]
    yield (
        f"{name} was judged in two stages: the scores compared here are those predicted for '{judge}', not its "
        "judgements, and labels correct them to what people would say of all answers"
    )
    if stage["value"] is not None and ends is not None:
        value, low, high = map(format_value, (stage["value"], *ends))
        yield f"two-stage judging corrects them to {stage['target']}: {value} (95 % interval {low} to {high})"


def read_score_file(path: str | Path) -> SampleScores:
    """The scores of a file with an object per line: ``{"sample_id": "q1", "score": 0.8}``."""
    path = Path(path)
    scores: dict[str, float] = {}
    for number, line in read_lines(path):
        row = parse_json(line)
        if not isinstance(row, dict) or not isinstance(row.get("sample_id"), str) or "score" not in row:
            raise DataFileError(path, number, 'each line must be an object such as {"sample_id": "q1", "score": 0.8}')
        score = row["score"]
        if isinstance(score, bool):
            score = float(score)
        if not isinstance(score, int | float) or not math.isfinite(score):
            raise DataFileError(path, number, f"the score of '{row['sample_id']}' must be a finite number")
        if row["sample_id"] in scores:
            raise DataFileError(
                path, number, f"sample '{row['sample_id']}' has a score already; keep the one that counts"
            )
        scores[row["sample_id"]] = float(score)
    if not scores:
        raise DataFileError(path, None, "there is no score in it")
    within = all(0 <= score <= 1 for score in scores.values())
    return SampleScores(scores, path.stem, path.stem, range=(0.0, 1.0) if within else (-math.inf, math.inf))


def attach_answers(scored: SampleScores, store: RunStore, record: RunRecord) -> SampleScores:
    """Scores of a file, attached to the answers of a stored run."""
    ids, clusters = _ids_and_clusters(store, record)
    unknown = next((score for score in scored.scores if score not in set(ids)), None)
    if unknown is not None:
        raise BadValueError(f"{record.run_id} has no sample '{unknown}'{did_you_mean(unknown, ids)}")
    return replace(
        scored,
        name=record.name,
        run_names=(record.run_id, record.name),
        clusters=clusters,
        without_score={sample_id: "no score in the file" for sample_id in ids if sample_id not in scored.scores},
        answers=_answer_reader(store, record, "", ""),
    )


def _ids_and_clusters(store: RunStore, record: RunRecord) -> tuple[list[str], dict[str, int] | None]:
    """The ids of the samples of a run, and the cluster number of each, if there are clusters."""
    ids = store.sample_ids(record.run_id)
    if not any(samples_contain(store, record.run_id, name) for name in ('"cluster_id"', '"variant_of"')):
        return ids, None
    codes = sample_clusters(store.samples(record.run_id, texts=False))
    return ids, None if codes is None else dict(zip(ids, codes.tolist(), strict=True))


def _select_result(store: RunStore, record: RunRecord, results: list[MetricResult], name: str | None) -> MetricResult:
    scored = [result for result in results if isinstance(result.scores, Scores)]
    if name is not None:
        found = next((run for run in scored if run.name == name), None)
        if found is None:
            known = [run.name for run in scored]
            hint = did_you_mean(name, known, otherwise=f"; there are {', '.join(known) or 'none'}")
            raise BadValueError(
                f"{record.run_id} ({record.name}) has no scores of '{name}'{hint}; "
                f"`auepora rescore {record.run_id} -m {name}` computes them"
            )
        return found
    by_judge = [run for run in scored if run.name in judge_metrics(store, record)]
    if len(by_judge) == 1:
        return by_judge[0]
    several = "several metrics that a judge gave" if by_judge else "no metric that a judge gave"
    names = [run.name for run in by_judge or scored]
    listed = ", ".join(names[:_MAX_LISTED]) + (
        f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    )
    there = f"there are {listed}" if names else "it has no scores at all"
    raise BadValueError(f"{record.run_id} ({record.name}) has {several}: choose the metric (-m); {there}")


def judge_metrics(store: RunStore, record: RunRecord) -> set[str]:
    """The metrics of a run that a judge gave."""
    return {judgement.metric for judgement in store.judgements(record.run_id)}


def _answer_reader(
    store: RunStore, record: RunRecord, metric: str, signature: str
) -> Callable[[Collection[str]], Mapping[str, ShownAnswer]]:
    """A function that reads the requested answers from the store while it is open."""

    def read(ids: Collection[str]) -> Mapping[str, ShownAnswer]:
        if not ids:
            return {}
        wanted_ids = set(ids)
        samples = store.samples(record.run_id, texts=False)
        questions = {sample.sample_id: sample.query for sample in samples if sample.sample_id in wanted_ids}
        id_by_position = {
            position: sample.sample_id for position, sample in enumerate(samples) if sample.sample_id in wanted_ids
        }
        texts = {
            row.sample_id: row.output.response.text
            for row in store.outputs(record.run_id, repeat=0, texts=False)
            if row.sample_id in wanted_ids and row.output.response is not None
        }
        reasons: dict[str, str] = {}
        for judgement in store.judgements(record.run_id) if metric else ():
            if judgement.position in id_by_position and (judgement.metric, judgement.signature, judgement.repeat) == (
                metric,
                signature,
                0,
            ):
                answer = judgement.body.get("answer")
                rationale = answer.get("rationale") if isinstance(answer, Mapping) else None
                if isinstance(rationale, str) and rationale:
                    reasons.setdefault(id_by_position[judgement.position], rationale)
        return {
            sample_id: ShownAnswer(questions.get(sample_id, ""), texts.get(sample_id) or "", reasons.get(sample_id, ""))
            for sample_id in ids
        }

    return read
