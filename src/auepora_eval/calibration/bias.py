"""Bias of a judge: how its scores, minus human labels, depend on length, position and model family."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ..core.grouping import group_pairs
from ..errors import BadValueError, DataFileError
from ..io.labels import Label
from ..judge.critic import model_family, model_names
from ..judge.ratings import Scale
from ..labels.agreement import aggregate_labels, reject_tuning_labels, select_labels
from ..labels.draws import LabelDraw
from ..labels.sample_weights import weigh_samples
from ..render.block_report import BlockReport
from ..render.blocks import Block, Bullets, DefinitionList, Details, Prose, Row, TableColumn, simple_table
from ..render.tables import UNRELIABLE_NOTE
from ..stats.agreement import slope_report
from ..stats.intervals import Estimate, Floats, Interval, Ints, interval_ends, mean_interval
from ..store.records import RunRecord
from ..store.runs import RunStore
from .scores import SampleScores, load_run_scores

MIN_ANSWERS = 20
"""Fewer answers, or fewer labelled ones where there are labels, do not show a dependence."""
_MEMBERS = re.compile(r"[(),]\s*")
"""Separators of the members in the name of a panel."""
BIAS, ASSOCIATION = "bias", "association"


# --- the report ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BiasEffect:
    """How the judge depends on one property of answers."""

    property: str
    """``length``, ``family`` or ``position``."""
    estimate: Estimate
    """Points of score, on a scale from 0 to 1; 0 without an effect."""
    unit: str
    num_answers: int
    details: Mapping[str, Any] = field(default_factory=dict)

    def flags(self) -> list[str]:
        """Why the interval may be too narrow."""
        interval = self.estimate.interval
        return [] if interval is None else list(interval.flags)

    def to_dict(self) -> dict[str, Any]:
        """The effect as a JSON object."""
        counts = {"flags": self.flags(), "unit": self.unit, "num_answers": self.num_answers}
        return {"property": self.property, **self.estimate.to_dict(), **counts, **self.details}

    def row(self) -> Row:
        """The effect as a row of a table."""
        value, counts = self.estimate.value, [f"{self.num_answers:,}", f"{self.estimate.units:,}"]
        shown = "n/a" if value is None else f"{value:+.4f}"
        return [self.property, shown, _interval_text(self.estimate.interval), self.unit, *counts]

    def sentence(self, relation: str) -> str:
        """The effect in words."""
        interval = self.estimate.interval
        if self.estimate.value is None:
            return f"{self.property}: not known, {self.estimate.why_undefined}"
        if interval is None or interval.low <= 0 <= interval.high:
            return f"{self.property}: no {relation} is shown; the interval contains 0"
        is_positive, effect = self.estimate.value > 0, f"({self.estimate.value:+.4f} {self.unit})"
        if self.property == "position":
            return f"position: the answer shown first wins {'more' if is_positive else 'less'} often {effect}"
        what = "scores minus labels are" if relation == BIAS else "scores are"
        return f"{self.property}: {what} {'higher' if is_positive else 'lower'} {effect}"


@dataclass(frozen=True, slots=True)
class BiasReport(BlockReport):
    """The effects on one judge metric of one or several runs."""

    metric: str
    judge: str
    judge_families: tuple[str, ...]
    """The model family of the judge, of a panel those of its members; empty if it is not known."""
    runs: tuple[Mapping[str, Any], ...]
    """Id, name, family and number of answers of each run."""
    relation: str
    """``bias``: of scores minus human labels. ``association``: of scores alone."""
    effects: tuple[BiasEffect, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            "schema": 1,
            "metric": self.metric,
            "judge": {"name": self.judge, "families": list(self.judge_families)},
            "runs": [dict(run) for run in self.runs],
            "relation": self.relation,
            "outcome": _OUTCOMES[self.relation],
            "effects": [effect.to_dict() for effect in self.effects],
            "notes": list(self.notes),
        }

    def blocks(self) -> list[Block]:
        """A row per effect, and notes."""
        columns = [TableColumn(name) for name in ("property", "effect", "95 % interval", "unit")]
        columns += [TableColumn(name, number=True) for name in ("answers", "questions")]
        rows = [effect.row() for effect in self.effects]
        facts: list[tuple[str, Any]] = [
            ("metric", self.metric),
            ("judge", f"{self.judge}, family {' and '.join(self.judge_families) or 'unknown'}"),
            *((str(run["run_id"]), f"{run['name']}, family {run['family'] or 'unknown'}") for run in self.runs),
            ("outcome", _OUTCOMES[self.relation]),
        ]
        blocks: list[Block] = [DefinitionList(facts), simple_table(columns, rows)]
        blocks.append(Bullets([effect.sentence(self.relation) for effect in self.effects]))
        blocks += [Prose(note) for note in self.notes]
        if any(effect.flags() for effect in self.effects):
            blocks.append(Prose(UNRELIABLE_NOTE))
        return [Details(f"{self.relation.capitalize()} of the judge of {self.metric}", blocks, is_open=True)]


_OUTCOMES = {
    BIAS: "judge's score minus human label, both from 0 (worst) to 1 (best)",
    ASSOCIATION: "judge's score from 0 (worst) to 1 (best), without human labels: an association, which need not be a "
    "fault of the judge",
}


def _interval_text(interval: Interval | None) -> str:
    if interval is None:
        return "n/a"
    return f"{interval.low:+.4f} – {interval.high:+.4f}" + (" ?" if interval.flags else "")


# --- the answers of stored runs, with scores and labels --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer with what may explain its score."""

    score: float
    """From 0 (worst) to 1 (best)."""
    label: float | None
    """The human label on the same scale."""
    length: int
    """Characters without blanks."""
    cluster: str
    run_id: str
    family: str | None

    @property
    def outcome(self) -> float:
        """The score, minus the label if there is one."""
        return self.score if self.label is None else self.score - self.label


def run_family(record: RunRecord) -> str | None:
    """The model family of the system of a run, by the models that its configuration names, else by its name."""
    described = [record.config, record.plan.get("system"), record.plan.get("outputs")]
    names = chain.from_iterable(model_names(description) for description in described)
    return next(filter(None, map(model_family, [*names, record.name])), None)


def measure_bias(
    store: RunStore,
    records: Sequence[RunRecord],
    *,
    metric: str | None = None,
    labels: Iterable[Label] | None = None,
    scale: str | None = None,
    families: Mapping[str, str] | None = None,
    judge_family: str | None = None,
    preferences: Iterable[str | Path] = (),
    seed: int = 0,
    draws: Mapping[str, list[LabelDraw]] | None = None,
    assume_random: bool = False,
) -> BiasReport:
    """How the scores of a judge depend on the length of answers, on their model family and on their position.

    With ``labels`` the outcome is the score minus the human label, on the labelled answers; without them it is the
    score, and a dependence is an association. ``metric`` is by default the only judge metric of the runs, and ``scale``
    that of numeric labels. ``families`` gives the model family of runs, by id or name, where their configuration does
    not, and ``judge_family`` that of the judge. ``preferences`` are reports of ``auepora prefer`` as JSON.
    Intervals come from resampling questions. Labels need a draw, as in ``calibrate``: ``draws`` are the recorded ones
    by run, and ``assume_random`` states that the labelled answers are a random sample.
    """
    families = dict(families or {})
    label_list = None if labels is None else list(labels)
    if label_list is not None and not label_list:
        raise BadValueError("there are no labels; leave them out to see how the scores themselves depend")
    loaded = [load_run_scores(store, record, metric) for record in records]
    judge = _common_judge(store, records, loaded)
    named = [judge_family] if judge_family else map(model_family, _MEMBERS.split(judge))
    judge_families = tuple(sorted(filter(None, set(named))))
    answers: list[JudgedAnswer] = []
    runs: list[Mapping[str, Any]] = []
    notes: list[str] = []
    for record, scored in zip(records, loaded, strict=True):
        family = families.pop(record.run_id, None) or families.pop(record.name, None) or run_family(record)
        human: Mapping[str, float] | None = None
        if label_list is not None:
            alone = len(records) == 1
            human, about = _labels_of(scored, label_list, scale, draws, alone=alone, assume_random=assume_random)
            notes += about
        own = list(_answers(store, record, scored, human, family))
        answers += own
        runs.append({"run_id": record.run_id, "name": record.name, "family": family, "num_answers": len(own)})
        notes += [f"{record.run_id}: {note}" for note in scored.notes]
    if families:
        raise BadValueError(f"--family names '{next(iter(families))}', which is none of the runs")
    relation = ASSOCIATION if label_list is None else BIAS
    _require_enough(answers, relation, loaded, notes)
    effects = [_length_effect(answers, seed), _family_effect(answers, judge_families, seed)]
    effects += [_position_effect(Path(path)) for path in preferences]
    if any(effect.property == "position" for effect in effects):
        notes.append("position: each pair was judged in both orders, so that which answer is better cancels out")
    return BiasReport(
        loaded[0].metric,
        judge,
        judge_families=judge_families,
        runs=tuple(runs),
        relation=relation,
        effects=tuple(effects),
        notes=tuple(notes),
    )


def _common_judge(store: RunStore, records: Sequence[RunRecord], loaded: Sequence[SampleScores]) -> str:
    """The judge that all runs have in common, by the signatures of their results."""
    names = {scored.metric for scored in loaded}
    if len(names) > 1:
        raise BadValueError(f"the runs have different judge metrics ({', '.join(sorted(names))}): select one with -m")
    judges = {}
    for record, scored in zip(records, loaded, strict=True):
        parts = (store.result(record.run_id, scored.metric).signature or "").split("|")
        options = dict(part.partition(":")[::2] for part in parts[1:])
        judges[record.run_id] = options.get("critic") or options.get("verifier") or parts[0]
        if not scored.bounded:
            raise BadValueError(f"the scores of {scored.metric} have no finite range, so labels cannot be subtracted")
    if len(set(judges.values())) > 1:
        listed = ", ".join(f"{run_id} by {name}" for run_id, name in judges.items())
        raise BadValueError(f"the runs were judged by different judges ({listed}); give runs of one judge")
    return next(iter(judges.values()))


def _labels_of(
    scored: SampleScores,
    labels: Sequence[Label],
    scale: str | None,
    draws: Mapping[str, list[LabelDraw]] | None,
    *,
    alone: bool,
    assume_random: bool,
) -> tuple[Mapping[str, float], list[str]]:
    """The human labels of a run by sample, with equal inclusion probabilities, and notes on them and on the others."""
    kept, others = select_labels(labels, names=scored.run_names, metric=scored.metric, alone=alone)
    kept, tuned = reject_tuning_labels(kept, (), leave_out=True)
    human = aggregate_labels(kept, None if scale is None else Scale.parse(scale))
    reasons = {
        "labels by a model": others["by_model"],
        "labels of another metric": others["other_metric"],
        "labels of samples that a person picked": others["chosen"],
        "labels that were used to tune the prompt": tuned,
        "answers whose annotators are evenly split": len(human.ties),
    }
    notes = [f"left out: {count} {what}" for what, count in reasons.items() if count]
    ids = [value for value in human.values if value in scored.scores]
    if not ids:
        return human.values, notes
    weights = weigh_samples(kept, ids, scored.scores, draws, scored.run_names, assume_random=assume_random)
    used = weights.uniform_part(ids)
    notes += [f"{scored.name}: {note}" for note in weights.notes if weights.basis != "census"]
    if len(used) < len(weights.ids):
        notes.append(
            f"{scored.name}: the bias is measured on {len(used)} labels, a part of the draw with equal probabilities"
        )
    return {sample_id: human.values[sample_id] for sample_id in used}, notes


def _answers(
    store: RunStore,
    record: RunRecord,
    scored: SampleScores,
    human: Mapping[str, float] | None,
    family: str | None,
) -> Iterator[JudgedAnswer]:
    """The answers of a run that have a score, a text and, if there are labels, a label."""
    clusters = {sample.sample_id: sample.cluster for sample in store.samples(record.run_id, texts=False)}
    for row in store.outputs(record.run_id, repeat=0, texts=False):
        name, response = row.sample_id, row.output.response
        length = 0 if response is None else len("".join(response.text.split()))
        if name in scored.scores and length and (human is None or name in human):
            score, label = scored.probability(scored.scores[name]), None if human is None else human[name]
            yield JudgedAnswer(score, label, length=length, cluster=clusters[name], run_id=record.run_id, family=family)


def _require_enough(
    answers: Sequence[JudgedAnswer], relation: str, loaded: Sequence[SampleScores], notes: Sequence[str]
) -> None:
    if len(answers) >= MIN_ANSWERS:
        return
    if relation == ASSOCIATION:
        raise BadValueError(f"there are {len(answers)} answers with a score; a dependence needs at least {MIN_ANSWERS}")
    metric = loaded[0].metric
    left_out = [note for note in notes if note.startswith("left out: ")]
    if not answers:
        what_to_do = "; ".join(left_out) or "compare the sample ids and the field 'run' of the labels with the runs"
        raise BadValueError(f"no label is about an answer that has a score of {metric}; {what_to_do}")
    because = f" ({'; '.join(left_out)})" if left_out else ""
    raise BadValueError(
        f"{len(answers)} answers have a label and a score of {metric}{because}; a bias needs at least {MIN_ANSWERS}: "
        "label more with `auepora label`, or leave the labels out to see how the scores themselves depend"
    )


# --- the effects -----------------------------------------------------------------------------------------------------


def _length_effect(answers: Sequence[JudgedAnswer], seed: int) -> BiasEffect:
    lengths = np.log2([answer.length for answer in answers])
    estimate = _slope(answers, lengths, "all answers have the same length", seed)
    details = {
        "per_sd": None if estimate.value is None else estimate.value * float(lengths.std(ddof=1)),
        "median_characters": float(np.median([answer.length for answer in answers])),
    }
    return BiasEffect("length", estimate, "per doubling of characters", len(answers), details)


def _family_effect(answers: Sequence[JudgedAnswer], judge_families: Sequence[str], seed: int) -> BiasEffect:
    unit = "judge's family minus others"
    known = [answer for answer in answers if answer.family is not None]
    by_family = group_pairs((str(answer.family), answer) for answer in known)
    means = {family: _mean(by_family[family]) for family in sorted(by_family)}
    details = {"families": means, "num_unknown": len(answers) - len(known)}
    own = np.array([float(answer.family in judge_families) for answer in known])
    if not judge_families:
        why = "the model family of the judge is not known; name it with --judge-family"
    elif len(set(own.tolist())) < 2:
        judge = " and ".join(judge_families)
        of = f"the judge's family, {judge}" if own.any() else f"other families than the judge's, {judge}"
        why = f"all answers whose family is known are of {of}" if known else "the families of the answers are not known"
    else:
        return BiasEffect("family", _slope(known, own, "", seed), unit, len(known), details)
    return BiasEffect(
        "family", Estimate(None, None, len({answer.cluster for answer in known}), why), unit, len(known), details
    )


def _mean(answers: Sequence[JudgedAnswer]) -> dict[str, Any]:
    values = np.array([answer.outcome for answer in answers])
    interval = mean_interval(values, clusters=_clusters(answers), lowest=-1.0, highest=1.0)
    return {
        "mean": math.fsum(values) / len(values),
        "interval": interval_ends(interval),
        "num_answers": len(answers),
    }


def _slope(answers: Sequence[JudgedAnswer], column: Floats, why: str, seed: int) -> Estimate:
    outcomes = np.array([answer.outcome for answer in answers])
    return slope_report(column, outcomes, clusters=_clusters(answers), why_constant=why, seed=seed)


def _clusters(answers: Sequence[JudgedAnswer]) -> Ints:
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(answer.cluster, len(codes)) for answer in answers], dtype=np.intp)


def _position_effect(path: Path) -> BiasEffect:
    """The effect of the first position, from a report of ``auepora prefer``: how far its rate lies from one half."""
    unit = "rate of the first position minus 0.5"
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        position, pairs = report["position"], report["per_query"]
        rate, ends, decided = position["first_rate"], position["interval"], int(position["num_decided"])
    except OSError as error:
        raise DataFileError(path, None, f"cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataFileError(path, None, "is no report of `auepora prefer A B --json -o FILE`") from error
    units = sum(bool({pair.get("a_first"), pair.get("b_first")} & {"first", "second"}) for pair in pairs)
    if rate is None:
        return BiasEffect("position", Estimate(None, None, 0, "every verdict is a tie"), unit, 0, {"file": str(path)})
    interval = None if ends is None else Interval(ends[0] - 0.5, ends[1] - 0.5, "t", units)
    return BiasEffect("position", Estimate(rate - 0.5, interval, units), unit, decided, {"file": str(path)})
