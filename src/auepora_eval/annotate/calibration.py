"""Calibration of a judge: its scores by sample compared with human labels."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..compare.pairing import lookup_metric
from ..compare.stores import biased_metrics, read_register, record_bias, register_decision
from ..core.metrics_base import sample_clusters
from ..core.results import two_stage_details
from ..core.scores import Scores, Status
from ..core.types import MetricResult
from ..errors import BadValueError, DataFileError, did_you_mean
from ..io.labels import Label
from ..io.values import parse_json
from ..judge.ratings import Scale
from ..render.tables import format_value
from ..runtime.files import read_lines
from ..stats.agreement import (
    agreement_report,
    alpha_report,
    kappa_report,
    kendall_report,
    pearson_report,
    spearman_report,
)
from ..stats.calibration import (
    CorrectedMean,
    auroc_report,
    balanced_accuracy_report,
    brier_score,
    confusion,
    corrected_difference,
    corrected_mean,
    expected_calibration_error,
    reliability_table,
)
from ..stats.intervals import Bools, Estimate, Floats, Ints, mean_interval
from ..stats.permutation import association_p_value
from ..stats.probabilities import probability_calibration
from ..stats.sampling import with_zeros
from ..stats.sequential import SequentialResult
from ..stats.stacking import ENOUGH_LABELS, Calibrator, fit_calibrator
from ..store.records import RunRecord
from ..store.runs import RunStore, samples_contain
from .agreement import AggregatedLabels, aggregate_labels, rater_agreement, reject_tuning_labels, select_labels
from .calibration_report import (
    CHANCE_P_VALUE,
    CalibrationReport,
    Disagreement,
    Evidence,
    JudgeCalibration,
    conclude,
    count_of,
)
from .draws import PEOPLE_ONLY, LabelDraw, record_verdict
from .sample_weights import SampleWeights, joint_weights, representative_labels, weigh_samples
from .session import load_population

# --- scores by sample, from a metric of a stored run or from a file --------------------------------------------------

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
        {one: float(value) for one, value, is_counted in zip(ids, values, counted, strict=True) if is_counted},
        result.name,
        record.name,
        (record.run_id, record.name),
        (low, high),
        meta.higher_score_is_better,
        clusters,
        {one: outcome for one, outcome, is_counted in zip(ids, outcomes, counted, strict=True) if not is_counted},
        _answer_reader(store, record, result.name, result.signature or ""),
        tuple(notes),
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
    unknown = next((one for one in scored.scores if one not in set(ids)), None)
    if unknown is not None:
        raise BadValueError(f"{record.run_id} has no sample '{unknown}'{did_you_mean(unknown, ids)}")
    return replace(
        scored,
        name=record.name,
        run_names=(record.run_id, record.name),
        clusters=clusters,
        without_score={one: "no score in the file" for one in ids if one not in scored.scores},
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
    scored = [one for one in results if isinstance(one.scores, Scores)]
    if name is not None:
        found = next((one for one in scored if one.name == name), None)
        if found is None:
            known = [one.name for one in scored]
            hint = did_you_mean(name, known, otherwise=f"; there are {', '.join(known) or 'none'}")
            raise BadValueError(
                f"{record.run_id} ({record.name}) has no scores of '{name}'{hint}; "
                f"`auepora rescore {record.run_id} -m {name}` computes them"
            )
        return found
    by_judge = [one for one in scored if one.name in judge_metrics(store, record)]
    if len(by_judge) == 1:
        return by_judge[0]
    several = "several metrics that a judge gave" if by_judge else "no metric that a judge gave"
    names = [one.name for one in by_judge or scored]
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
        for one in store.judgements(record.run_id) if metric else ():
            if one.position in id_by_position and (one.metric, one.signature, one.repeat) == (metric, signature, 0):
                answer = one.body.get("answer")
                rationale = answer.get("rationale") if isinstance(answer, Mapping) else None
                if isinstance(rationale, str) and rationale:
                    reasons.setdefault(id_by_position[one.position], rationale)
        return {one: ShownAnswer(questions.get(one, ""), texts.get(one) or "", reasons.get(one, "")) for one in ids}

    return read


# --- comparison with human labels: agreement, calibration error, corrected mean --------------------------------------

_RIGHT_FROM = 0.5
_CORRELATIONS = {"pearson": pearson_report, "spearman": spearman_report, "kendall": kendall_report}


def calibrate(
    labels: Iterable[Label],
    scores: SampleScores | Mapping[str, float],
    other: SampleScores | None = None,
    *,
    threshold: float | None = None,
    scale: str | None = None,
    tuned_on: Collection[str] = (),
    leave_out_tuned: bool = False,
    finite: bool = False,
    bins: int = 10,
    seed: int = 0,
    draws: Mapping[str, list[LabelDraw]] | None = None,
    assume_random: bool = False,
) -> CalibrationReport:
    """Compare scores with human labels; with an ``other`` run, compare both, and their difference (other - first).

    ``scores`` are a number per sample id, or those of ``load_run_scores`` or ``read_score_file``. ``threshold`` is the
    score from which on an answer counts as right, by default half way between worst and best. ``scale`` is that of
    labels which are numbers. Labels used to tune the prompt, because they are marked so or because their sample is in
    ``tuned_on``, are rejected, or left out if that is allowed. The labelled samples must be drawn at random: ``draws``
    are those recorded by `auepora label`, by run, and labels may name their draw and probability themselves. Other
    labels are refused, unless they cover all answers or ``assume_random`` states that they are a random sample. Labels
    of samples that a person picked are never used. ``finite`` restricts the corrected means to the given samples.
    """
    labels = list(labels)
    runs = [scores if isinstance(scores, SampleScores) else SampleScores(dict(scores))]
    runs += [] if other is None else [other]
    if other is not None and not all(run.run_names for run in runs):
        raise BadValueError("two sets of scores need run_names each, so that labels can name the run they belong to")
    if other is not None and set(runs[0].run_names) & set(other.run_names) and runs[0].run_names != other.run_names:
        # Two runs with the same name: labels must use their ids.
        runs = [replace(run, run_names=tuple(run.run_names)[:1]) for run in runs]
    label_scale = None if scale is None else Scale.parse(scale)
    rated: list[Label] = []
    prepared = []
    for run in runs:
        other_names = {name for one in runs for name in one.run_names} - set(run.run_names)
        own_labels = [label for label in labels if label.run not in other_names]
        selected, left_out = select_labels(own_labels, names=run.run_names, metric=run.metric, alone=other is None)
        kept, tuned = reject_tuning_labels(selected, tuned_on, leave_out=leave_out_tuned)
        if tuned:
            left_out["tuned"] = tuned
        human = aggregate_labels(kept, label_scale)
        ids = _labelled_ids(run, human, left_out)
        weights = weigh_samples(kept, ids, run.scores, draws, run.run_names, assume_random=assume_random)
        # Examples for a prompt are chosen by their labels: without them the draw is not complete.
        weights = replace(weights, labelled=frozenset(label.sample_id for label in selected if not label.tuning))
        rated += representative_labels(kept, draws or {}, run.run_names) if weights.basis == "draw" else kept
        prepared.append(_LabelledRun(run, human, left_out, ids, weights))
    calibrations = tuple(_calibrate_run(one, threshold, finite=finite, bins=bins, seed=seed) for one in prepared)
    report = CalibrationReport(rater_agreement(rated, seed=seed), calibrations, finite=finite)
    if other is None:
        return report
    first, second = prepared
    if report.judges:
        report = replace(report, bias=_bias_difference(first, second, threshold, finite=finite))
    reason = first.weights.reason_without_verdict or second.weights.reason_without_verdict
    draw = _comparison_draw(first, second)
    design = None if draw is None else draw.comparison
    if draw is not None and design is not None:
        report = replace(report, delta=design.delta, forecast=design.forecast)
        if design.looks:
            return replace(report, sequential=_evaluate_looks(first, second, draw))
        if reason is not None:
            return replace(report, no_verdict=reason)
    trusted = all(one.conclusion.p_chance < CHANCE_P_VALUE for one in calibrations)
    at_95, at_90 = (
        _difference(first, second, threshold, finite=finite, use_scores=trusted, level=level) for level in (0.95, 0.9)
    )
    return replace(report, difference=at_95, equivalence=at_90.interval, no_verdict=reason)


def _comparison_draw(first: _LabelledRun, second: _LabelledRun) -> LabelDraw | None:
    """The draw for the difference of these two runs, if the labels come from one."""
    draw = next((one for one in first.weights.draws if one.comparison is not None), None)
    if draw is None or draw not in second.weights.draws:
        return None
    if draw.run not in first.run.run_names:
        raise BadValueError(f"the comparison was designed as {draw.key}; name the runs in this order")
    return draw


def _evaluate_looks(first: _LabelledRun, second: _LabelledRun, draw: LabelDraw) -> SequentialResult:
    """The sequential test of the labels, in the order of the draw up to the first sample without both labels."""
    values: list[float] = []
    for one in draw.sample_ids:
        if one not in first.weights.labelled or one not in second.weights.labelled:
            break
        difference = second.human.values.get(one, math.nan) - first.human.values.get(one, math.nan)
        values.append(draw.proportion_drawn_from * difference)  # of all samples, those with equal answers included
    sequential = draw.sequential
    assert sequential is not None
    return sequential.evaluate(values)


@dataclass(frozen=True, slots=True)
class _LabelledRun:
    """The scores of a run with its labels, and which of them may be used."""

    run: SampleScores
    human: AggregatedLabels
    left_out: Counter[str]
    ids: list[str]
    """Samples with a label and a score."""
    weights: SampleWeights


def _calibrate_run(
    labelled: _LabelledRun, threshold: float | None, *, finite: bool, bins: int, seed: int
) -> JudgeCalibration:
    run, human, sample_weights = labelled.run, labelled.human, labelled.weights
    ids = sample_weights.uniform_part(labelled.ids)
    usable = [one for one in labelled.ids if one in sample_weights.ids]
    cut = _threshold(run, threshold)
    label = np.array([human.values[one] for one in ids])
    score = np.array([run.scores[one] for one in ids])
    right = label >= _RIGHT_FROM
    verdict = np.array([run.verdict(one, cut) for one in score], dtype=np.bool_)
    signed = score if run.higher_is_better else -score
    chance = _probabilities(run, score)
    probabilities = None if chance is None else probability_calibration(chance, right, seed=seed)
    table = confusion(verdict, right)
    if human.binary:
        alpha, level = alpha_report([right.tolist(), verdict.tolist()], "nominal", seed=seed), "nominal"
    elif chance is not None:
        alpha, level = alpha_report([label.tolist(), chance.tolist()], "interval", seed=seed), "interval"
    else:
        alpha, level = Estimate(None, None, len(ids), "the scores are not on the scale of the labels"), "interval"
    disagreements = judge_disagreements(run, {one: human.values[one] for one in ids}, threshold)
    kappa, auroc = kappa_report(right.tolist(), verdict.tolist(), seed=seed), auroc_report(signed, right, seed=seed)
    # Which samples are drawn depends on their scores at most, so that this test may use all labels.
    p_chance = association_p_value(
        np.array([run.scores[one] for one in usable]) * (1 if run.higher_is_better else -1),
        np.array([human.values[one] for one in usable]),
        seed=seed,
    )
    corrected = _corrected(labelled, cut, finite=finite, use_scores=p_chance < CHANCE_P_VALUE)
    predicted = _predictions(run, ids, cut)
    excess = predicted - label
    conclusion = conclude(
        run.title,
        Evidence(
            labelled=len(ids),
            p_chance=p_chance,
            same_labels=bool(np.ptp(label) == 0),
            same_scores=bool(np.ptp(predicted) == 0),
            auroc=auroc,
            kappa=kappa,
            excess=mean_interval(excess, clusters=_clusters(run, ids), lowest=-1.0, highest=1.0),
            mean_excess=float(excess.mean()),
            corrects=corrected.weight > 0,
        ),
    )
    return JudgeCalibration(
        run.name,
        run.metric,
        cut,
        threshold is not None,
        run.higher_is_better,
        len(ids),
        agreement_report(right.tolist(), verdict.tolist()),
        kappa,
        alpha,
        level,
        auroc,
        table,
        table.tpr(),
        table.tnr(),
        balanced_accuracy_report(table),
        *_calibration_errors(chance, right, bins),
        () if chance is None else reliability_table(chance, right, bins=bins),
        corrected,
        disagreements,
        conclusion,
        dict(labelled.left_out),
        (*run.notes, *_notes(run, human), *sample_weights.notes, *_uniform_note(len(ids), len(usable))),
        {name: report(signed.tolist(), label.tolist(), seed=seed) for name, report in _CORRELATIONS.items()},
        sample_weights.basis,
        probabilities,
    )


def judge_disagreements(
    run: SampleScores, labels: Mapping[str, float], threshold: float | None = None
) -> tuple[Disagreement, ...]:
    """The answers on which the judge and the human labels disagree, the largest difference first.

    ``labels`` are numbers from 0 to 1 by sample, as in ``AggregatedLabels``; those without a score are left out.
    """
    cut, found = _threshold(run, threshold), []
    for sample_id in labels.keys() & run.scores.keys():
        label, score = labels[sample_id], run.scores[sample_id]
        verdict = run.verdict(score, cut)
        if verdict != (label >= _RIGHT_FROM):
            chance = run.probability(score) if run.bounded else float(verdict)
            found.append((-abs(label - chance), sample_id, label, score))
    answers = run.answers([sample_id for _, sample_id, _, _ in found])
    return tuple(
        Disagreement(sample_id, float(label), float(score), **asdict(answers.get(sample_id, ShownAnswer())))
        for _, sample_id, label, score in sorted(found)
    )


def _uniform_note(measured: int, usable: int) -> list[str]:
    if measured == usable:
        return []
    return [
        f"agreement is measured on {measured} of {usable} labels, a part of the draw with equal probabilities; "
        "the corrected mean weights all of them"
    ]


def _labelled_ids(run: SampleScores, human: AggregatedLabels, left_out: Counter[str]) -> list[str]:
    """The samples with a label and a score; others are counted in ``left_out``."""
    if human.ties:
        left_out["tied"] = len(human.ties)
    ids = [one for one in human.values if one in run.scores]
    no_score = sum(one in run.without_score for one in human.values)
    unknown = [one for one in human.values if one not in run.scores and one not in run.without_score]
    left_out.update({"no_score": no_score, "unknown_sample": len(unknown)})
    for name in [name for name, count in left_out.items() if not count]:
        del left_out[name]
    if not ids:
        reasons = ", ".join(f"{name} {count}" for name, count in left_out.items()) or "there is none"
        hint = did_you_mean(unknown[0], list(run.scores)) if unknown else ""
        if left_out.get("by_model"):
            reasons += "; labels by a model do not calibrate a judge: some answers need human labels"
        if left_out.get("chosen"):
            reasons += "; labels of samples that a person picked say nothing about the others: draw some at random"
        first = f"; the first is of sample '{unknown[0]}'{hint}" if unknown else ""
        raise BadValueError(f"no label can be compared with {run.metric} of {run.name}: {reasons}{first}")
    return ids


def _threshold(run: SampleScores, given: float | None) -> float:
    if given is not None:
        if not math.isfinite(given):
            raise BadValueError(f"the threshold must be a finite number, not {given!r}")
        return given
    if not run.bounded:
        raise BadValueError(
            f"scores of {run.metric} have no lower or upper bound, so there is no midpoint: set --threshold "
            "(threshold=), the score from which an answer counts as right"
        )
    return (run.range[0] + run.range[1]) / 2


def _probabilities(run: SampleScores, scores: Floats) -> Floats | None:
    """The scores as probabilities of being right; ``None`` if their range is unbounded."""
    return np.array([run.probability(one) for one in scores]) if run.bounded else None


def _calibration_errors(chance: Floats | None, right: Bools, bins: int) -> tuple[Estimate, Estimate, Estimate]:
    n = len(right)
    if chance is None:
        why = Estimate(None, None, n, "scores without a worst and a best value are no chances")
        return why, why, why
    width, mass = (expected_calibration_error(chance, right, bins=bins, binning=how) for how in ("width", "mass"))
    return Estimate(width, None, n), Estimate(mass, None, n), Estimate(brier_score(chance, right), None, n)


def _predictions(run: SampleScores, ids: list[str], cut: float) -> Floats:
    scores = np.array([run.scores[one] for one in ids])
    chances = _probabilities(run, scores)
    return np.array([float(run.verdict(one, cut)) for one in scores]) if chances is None else chances


def _clusters(run: SampleScores, ids: list[str]) -> Ints | None:
    found = run.clusters
    return None if found is None else np.array([found[one] for one in ids], dtype=np.intp)


def _labels_of_drawn(ids: list[str], human: AggregatedLabels, sample_weights: SampleWeights) -> Floats:
    return np.array(
        [human.values[one] if one in sample_weights.ids and one in human.values else math.nan for one in ids]
    )


def _column(ids: list[str], values: Mapping[str, float] | None) -> Floats | None:
    return None if values is None else np.array([values.get(one, 0.0) for one in ids])


def _corrected(labelled: _LabelledRun, cut: float, *, finite: bool, use_scores: bool) -> CorrectedMean:
    run, human = labelled.run, labelled.human
    ids = [one for one in run.scores if one not in labelled.weights.equal_answers]
    return corrected_mean(
        _predictions(run, ids, cut),
        _labels_of_drawn(ids, human, labelled.weights),
        clusters=_clusters(run, ids),
        weights=_column(ids, labelled.weights.strata_weights),
        probabilities=_column(ids, labelled.weights.probabilities),
        binary=human.binary,
        lowest=0.0,
        highest=1.0,
        finite=finite,
        use_scores=use_scores,
    )


def _common_samples(
    first: _LabelledRun, second: _LabelledRun, threshold: float | None
) -> tuple[list[str], SampleWeights, list[Floats], list[Floats]]:
    """The samples of both runs, their weights, and the predictions and labels of each run."""
    runs = first.run, second.run
    everything = [name for name in first.run.scores if name in second.run.scores]
    sample_weights = joint_weights(first.weights, second.weights, everything)
    ids = [one for one in everything if one not in sample_weights.equal_answers]
    if not sample_weights.ids:
        raise BadValueError(
            f"no sample has a label of both its answers, of {runs[0].name} and of {runs[1].name}: label the same "
            "samples of both runs"
        )
    labels = [_labels_of_drawn(ids, one.human, sample_weights) for one in (first, second)]
    predictions = [_predicted_labels(run, ids, threshold) for run in runs]
    return ids, sample_weights, predictions, labels


def _bias_difference(
    first: _LabelledRun, second: _LabelledRun, threshold: float | None, *, finite: bool
) -> CorrectedMean:
    """By how much more the judge overrates the answers of the second run, from the labels alone."""
    ids, sample_weights, predictions, labels = _common_samples(first, second, threshold)
    excess = (predictions[1] - predictions[0]) - (labels[1] - labels[0])
    return corrected_mean(
        np.zeros(len(ids)),
        excess,
        clusters=_clusters(second.run, ids),
        weights=_column(ids, sample_weights.strata_weights),
        probabilities=_column(ids, sample_weights.probabilities),
        lowest=-2.0,
        highest=2.0,
        finite=finite,
        use_scores=False,
    )


def _difference(
    first: _LabelledRun,
    second: _LabelledRun,
    threshold: float | None,
    *,
    finite: bool,
    use_scores: bool,
    level: float = 0.95,
) -> CorrectedMean:
    ids, sample_weights, predictions, labels = _common_samples(first, second, threshold)
    found = corrected_difference(
        *predictions,
        *labels,
        clusters=_clusters(second.run, ids),
        weights=_column(ids, sample_weights.strata_weights),
        probabilities=_column(ids, sample_weights.probabilities),
        binary=first.human.binary and second.human.binary,
        lowest=0.0,
        highest=1.0,
        finite=finite,
        use_scores=use_scores,
        level=level,
    )
    runs = first.run, second.run
    everything = [name for name in first.run.scores if name in second.run.scores]
    if len(ids) == len(everything):
        return found
    differs = np.array([one not in sample_weights.equal_answers for one in everything], dtype=np.float64)
    proportion = mean_interval(differs, clusters=_clusters(runs[1], everything), binary=True, level=level)
    assert proportion is not None
    first_mean, second_mean = (float(_predicted_labels(run, everything, threshold).mean()) for run in runs)
    return with_zeros(found, proportion, scores_mean=second_mean - first_mean, samples=len(everything), finite=finite)


def _predicted_labels(run: SampleScores, ids: list[str], threshold: float | None) -> Floats:
    """The predictions for the difference of two runs; by default the scores."""
    if run.predictions is None:
        return _predictions(run, ids, _threshold(run, threshold))
    return np.array([run.predictions[one] for one in ids])


def _notes(run: SampleScores, human: AggregatedLabels) -> Iterator[str]:
    if human.adjudicated:
        yield f"{count_of(human.adjudicated, 'label')} settled between annotators"
    if not human.binary:
        yield "labels are numbers: for verdicts, those from the middle of their scale on count as right"
    if run.without_score:
        yield (
            f"{count_of(len(run.without_score), 'sample')} without a score; "
            f"the corrected mean is of the {len(run.scores)} others"
        )


# --- predicted labels of two runs, for a draw where they are uncertain -----------------------------------------------


def predict_labels(
    store: RunStore, record: RunRecord, metric: str, features: Sequence[str] = (), coefficients: Sequence[float] = ()
) -> dict[str, float]:
    """The predicted label of each answer: the score of the metric from 0 to 1, or a calibrator on several metrics."""
    if not features:
        scored = load_run_scores(store, record, metric)
        if not scored.bounded:
            raise BadValueError(
                f"{metric} has no finite range, so that its scores do not predict labels; choose another"
            )
        return {one: scored.probability(score) for one, score in scored.scores.items()}
    table = _feature_table(store, record, features)
    if not table:
        return {}
    found = Calibrator(tuple(coefficients)).predict(list(table.values()))
    return dict(zip(table, found.tolist(), strict=True))


def fit_earlier_labels(
    store: RunStore,
    records: Sequence[RunRecord],
    metric: str,
    labels: Iterable[Label],
    draws: Mapping[str, list[LabelDraw]] | None = None,
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Metrics and coefficients of a calibrator, from labels of earlier runs; the labels of ``records`` are not used.

    The features are the metric and all other bounded metrics that the runs have in common. The calibrator decides which
    samples are drawn and how narrow an interval gets, and never whether it is valid. Labels need a draw, recorded or
    named, or must cover all answers of their run: the forecast depends on them.
    """
    compared = {name for record in records for name in (record.run_id, record.name)}
    by_run: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        if label.run is not None and label.run not in compared:
            by_run[label.run].append(label)
    earlier = {run: store.find(run) for run in by_run}
    names = [_bounded_metrics(store, record) for record in (*records, *earlier.values())]
    features = (metric, *sorted(set.intersection(*names) - {metric}))
    labelled = []
    for run, record in earlier.items():
        kept, _ = select_labels(by_run[run], names=(record.run_id, record.name), metric=metric)
        table, human = _feature_table(store, record, features), aggregate_labels(kept)
        labelled.append((record, kept, table, {one: value for one, value in human.values.items() if one in table}))
    count = sum(len(values) for *_, values in labelled)
    if count < ENOUGH_LABELS:
        raise BadValueError(
            f"there are {count} labels of answers of earlier runs with a score; a calibrator needs at least "
            f"{ENOUGH_LABELS}: leave --history out, or label more of an earlier run"
        )
    rows: list[list[float]] = []
    target: list[float] = []
    weights: list[float] = []
    for record, kept, table, values in labelled:
        try:
            usable = weigh_samples(kept, values, table, draws, (record.run_id, record.name))
        except BadValueError as error:
            raise BadValueError(
                f"the labels of {record.name} are not of a random sample, so that they predict no others; leave "
                "--history out, or draw samples of it with `auepora label`"
            ) from error
        rows += [table[one] for one in values if one in usable.ids]
        target += [value for one, value in values.items() if one in usable.ids]
        weights += [usable.relative_weights.get(one, 1.0) for one in values if one in usable.ids]
    return features, fit_calibrator(rows, target, weights=weights).coefficients


def _bounded_metrics(store: RunStore, record: RunRecord) -> set[str]:
    scored = [one for one in store.results(record.run_id) if isinstance(one.scores, Scores)]
    return {one.name for one in scored if all(map(math.isfinite, lookup_metric(one, record, {}).range))}


def _feature_table(store: RunStore, record: RunRecord, features: Sequence[str]) -> dict[str, list[float]]:
    """The scores from 0 to 1 of the samples with a score of the first metric; another one that is missing is 0.5."""
    first, *others = (load_run_scores(store, record, name) for name in features)
    return {
        one: [
            first.probability(score),
            *(other.probability(other.scores[one]) if one in other.scores else 0.5 for other in others),
        ]
        for one, score in first.scores.items()
    }


# --- stored runs with labels: the scores to calibrate, and the register of verdicts ----------------------------------


def labelled_metric(labels: Iterable[Label]) -> str | None:
    """The metric that all labels name; ``None`` if they name none or several."""
    names = {label.metric for label in labels}
    return next(iter(names)) if len(names) == 1 else None


def load_compared_scores(
    store: RunStore, records: Sequence[RunRecord], metric: str | None, draws: Mapping[str, Sequence[LabelDraw]]
) -> list[SampleScores]:
    """The scores of one run or two, with the predicted labels if the draw of a comparison has a calibrator."""
    draw = comparison_draw(draws, records)
    design = None if draw is None else draw.comparison
    name = metric or (None if design is None else design.name)
    found = [load_run_scores(store, record, name) for record in records]
    if design is None or not design.features:
        return found
    calibrator = design.name, design.features, design.coefficients
    return [
        replace(one, predictions=predict_labels(store, record, *calibrator))
        for one, record in zip(found, records, strict=True)
    ]


def comparison_draw(draws: Mapping[str, Sequence[LabelDraw]], records: Sequence[RunRecord]) -> LabelDraw | None:
    """The recorded draw for the difference of two runs, if there is one."""
    run_ids = {record.run_id for record in records}
    of_first = draws.get(records[0].run_id, ()) if len(run_ids) == 2 else ()
    return next((one for one in of_first if set(one.runs) == run_ids), None)


def register_verdict(
    store: RunStore,
    records: Sequence[RunRecord],
    report: CalibrationReport,
    draws: Mapping[str, Sequence[LabelDraw]],
) -> CalibrationReport:
    """Record the verdict in the register of the store; returns the report with how often the test set decided.

    Nothing is recorded where the store object does not record decisions.
    """
    metric, reason = report.judged[0].metric, report.bias_sentence
    if reason is not None or metric in biased_metrics(store, records):
        record_bias(store, records, metric, reason)
    if report.verdict is None:
        return report
    draw = comparison_draw(draws, records)
    if draw is None:
        register = register_decision(store, records, "comparison", {report.judged[0].metric: report.verdict})
    else:
        if store.records_decisions:
            record_verdict(store, records[0], draw, report.verdict)
        register = read_register(store, {one.fingerprint for one in records}, draw.runs)
    return replace(report, register=register)
