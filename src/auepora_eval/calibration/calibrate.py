"""Calibration of a judge: its scores compared with human labels; agreement, calibration error, corrected mean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

import numpy as np

from ..compare.stores import biased_metrics, read_register, record_bias, register_decision
from ..errors import BadValueError, did_you_mean
from ..io.labels import Label
from ..judge.ratings import Scale
from ..labels.agreement import AggregatedLabels, aggregate_labels, rater_agreement, reject_tuning_labels, select_labels
from ..labels.draws import LabelDraw, record_verdict
from ..labels.sample_weights import SampleWeights, joint_weights, representative_labels, weigh_samples
from ..render.tables import plural
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
from ..store.records import RunRecord
from ..store.runs import RunStore
from .earlier_labels import predict_labels
from .report import CHANCE_P_VALUE, CalibrationReport, Disagreement, Evidence, JudgeCalibration, conclude
from .scores import SampleScores, ShownAnswer, load_run_scores

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

    Args:
        labels: Human labels.
        leave_out_tuned: Leave out labels used for tuning instead of rejecting them.
        bins: Of the calibration error.
        seed: Of resampling, which ``draws`` do not need.

    Returns:
        A report with agreement, corrected means and a conclusion.

    Example:
        >>> from auepora_eval.labels.agreement import Label
        >>> labels = [Label(f"q{number}", "right" if number < 5 else "wrong", "ann") for number in range(8)]
        >>> scores = {f"q{number}": 1.0 if number < 4 else 0.0 for number in range(8)}
        >>> report = calibrate(labels, scores, assume_random=True)
        >>> report.judged[0].agreement.value
        0.875
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
        other_names = set(chain.from_iterable(other_run.run_names for other_run in runs)) - set(run.run_names)
        own_labels = [label for label in labels if label.run not in other_names]
        selected, left_out = select_labels(own_labels, names=run.run_names, metric=run.metric, alone=other is None)
        kept, tuned = reject_tuning_labels(selected, tuned_on, leave_out=leave_out_tuned)
        left_out["tuned"] = tuned
        human = aggregate_labels(kept, label_scale)
        ids = _labelled_ids(run, human, left_out)
        weights = weigh_samples(kept, ids, run.scores, draws, run.run_names, assume_random=assume_random)
        # Examples for a prompt are chosen by their labels: without them the draw is not complete.
        weights = replace(weights, labelled=frozenset(label.sample_id for label in selected if not label.tuning))
        rated += representative_labels(kept, draws or {}, run.run_names) if weights.basis == "draw" else kept
        prepared.append(_LabelledRun(run, human, left_out, ids, weights))
    calibrations = tuple(_calibrate_run(run, threshold, finite=finite, bins=bins, seed=seed) for run in prepared)
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
    trusted = all(calibration.conclusion.p_chance < CHANCE_P_VALUE for calibration in calibrations)
    at_95, at_90 = (
        _difference(first, second, threshold, finite=finite, use_scores=trusted, level=level) for level in (0.95, 0.9)
    )
    return replace(report, difference=at_95, equivalence=at_90.interval, no_verdict=reason)


def _comparison_draw(first: _LabelledRun, second: _LabelledRun) -> LabelDraw | None:
    """The draw for the difference of these two runs, if the labels come from one."""
    draw = next((draw for draw in first.weights.draws if draw.comparison is not None), None)
    if draw is None or draw not in second.weights.draws:
        return None
    if draw.run not in first.run.run_names:
        raise BadValueError(f"the comparison was designed as {draw.key}; name the runs in this order")
    return draw


def _evaluate_looks(first: _LabelledRun, second: _LabelledRun, draw: LabelDraw) -> SequentialResult:
    """The sequential test of the labels, in the order of the draw up to the first sample without both labels."""
    values: list[float] = []
    for sample_id in draw.sample_ids:
        if sample_id not in first.weights.labelled or sample_id not in second.weights.labelled:
            break
        difference = second.human.values.get(sample_id, math.nan) - first.human.values.get(sample_id, math.nan)
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
    usable = [sample_id for sample_id in labelled.ids if sample_id in sample_weights.ids]
    cut = _threshold(run, threshold)
    label = np.array([human.values[sample_id] for sample_id in ids])
    score = np.array([run.scores[sample_id] for sample_id in ids])
    right = label >= _RIGHT_FROM
    verdict = np.array([run.verdict(value, cut) for value in score], dtype=np.bool_)
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
    disagreements = judge_disagreements(run, {sample_id: human.values[sample_id] for sample_id in ids}, threshold)
    kappa, auroc = kappa_report(right.tolist(), verdict.tolist(), seed=seed), auroc_report(signed, right, seed=seed)
    # Which samples are drawn depends on their scores at most, so that this test may use all labels.
    p_chance = association_p_value(
        np.array([run.scores[sample_id] for sample_id in usable]) * (1 if run.higher_is_better else -1),
        np.array([human.values[sample_id] for sample_id in usable]),
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
    width_error, mass_error, brier = _calibration_errors(chance, right, bins)
    return JudgeCalibration(
        run.name,
        run.metric,
        threshold=cut,
        threshold_given=threshold is not None,
        higher_is_better=run.higher_is_better,
        labelled=len(ids),
        agreement=agreement_report(right.tolist(), verdict.tolist()),
        kappa=kappa,
        alpha=alpha,
        alpha_level=level,
        auroc=auroc,
        confusion=table,
        tpr=table.tpr(),
        tnr=table.tnr(),
        balanced_accuracy=balanced_accuracy_report(table),
        calibration_error=width_error,
        calibration_error_equal_mass=mass_error,
        brier=brier,
        reliability=() if chance is None else reliability_table(chance, right, bins=bins),
        corrected=corrected,
        disagreements=disagreements,
        conclusion=conclusion,
        left_out=dict(labelled.left_out),
        notes=(*run.notes, *_notes(run, human), *sample_weights.notes, *_uniform_note(len(ids), len(usable))),
        correlations={
            name: report(signed.tolist(), label.tolist(), seed=seed) for name, report in _CORRELATIONS.items()
        },
        basis=sample_weights.basis,
        probabilities=probabilities,
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
    ids = [value for value in human.values if value in run.scores]
    no_score = sum(value in run.without_score for value in human.values)
    unknown = [value for value in human.values if value not in run.scores and value not in run.without_score]
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
    return np.array([run.probability(score) for score in scores]) if run.bounded else None


def _calibration_errors(chance: Floats | None, right: Bools, bins: int) -> tuple[Estimate, Estimate, Estimate]:
    n = len(right)
    if chance is None:
        why = Estimate(None, None, n, "scores without a worst and a best value are no chances")
        return why, why, why
    width, mass = (expected_calibration_error(chance, right, bins=bins, binning=how) for how in ("width", "mass"))
    return Estimate(width, None, n), Estimate(mass, None, n), Estimate(brier_score(chance, right), None, n)


def _predictions(run: SampleScores, ids: list[str], cut: float) -> Floats:
    scores = np.array([run.scores[sample_id] for sample_id in ids])
    chances = _probabilities(run, scores)
    return np.array([float(run.verdict(score, cut)) for score in scores]) if chances is None else chances


def _clusters(run: SampleScores, ids: list[str]) -> Ints | None:
    found = run.clusters
    return None if found is None else np.array([found[sample_id] for sample_id in ids], dtype=np.intp)


def _labels_of_drawn(ids: list[str], human: AggregatedLabels, sample_weights: SampleWeights) -> Floats:
    drawn = {sample_id: value for sample_id, value in human.values.items() if sample_id in sample_weights.ids}
    return np.array([drawn.get(sample_id, math.nan) for sample_id in ids])


def _column(ids: list[str], values: Mapping[str, float] | None) -> Floats | None:
    return None if values is None else np.array([values.get(sample_id, 0.0) for sample_id in ids])


def _corrected(labelled: _LabelledRun, cut: float, *, finite: bool, use_scores: bool) -> CorrectedMean:
    run, human = labelled.run, labelled.human
    ids = [score for score in run.scores if score not in labelled.weights.equal_answers]
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
    ids = [sample_id for sample_id in everything if sample_id not in sample_weights.equal_answers]
    if not sample_weights.ids:
        raise BadValueError(
            f"no sample has a label of both its answers, of {runs[0].name} and of {runs[1].name}: label the same "
            "samples of both runs"
        )
    labels = [_labels_of_drawn(ids, run.human, sample_weights) for run in (first, second)]
    return ids, sample_weights, [_predicted_labels(run, ids, threshold) for run in runs], labels


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
    everything = [name for name in first.run.scores if name in second.run.scores]
    if len(ids) == len(everything):
        return found
    differs = np.array([sample_id not in sample_weights.equal_answers for sample_id in everything], dtype=np.float64)
    proportion = mean_interval(differs, clusters=_clusters(second.run, everything), binary=True, level=level)
    assert proportion is not None
    runs = first.run, second.run
    first_mean, second_mean = (float(_predicted_labels(run, everything, threshold).mean()) for run in runs)
    return with_zeros(found, proportion, scores_mean=second_mean - first_mean, samples=len(everything), finite=finite)


def _predicted_labels(run: SampleScores, ids: list[str], threshold: float | None) -> Floats:
    """The predictions for the difference of two runs; by default the scores."""
    if run.predictions is None:
        return _predictions(run, ids, _threshold(run, threshold))
    return np.array([run.predictions[sample_id] for sample_id in ids])


def _notes(run: SampleScores, human: AggregatedLabels) -> Iterator[str]:
    if human.adjudicated:
        yield f"{human.adjudicated} {plural(human.adjudicated, 'label')} settled between annotators"
    if not human.binary:
        yield "labels are numbers: for verdicts, those from the middle of their scale on count as right"
    if run.without_score:
        yield (
            f"{len(run.without_score)} {plural(len(run.without_score), 'sample')} without a score; "
            f"the corrected mean is of the {len(run.scores)} others"
        )


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
        replace(run, predictions=predict_labels(store, record, *calibrator))
        for run, record in zip(found, records, strict=True)
    ]


def comparison_draw(draws: Mapping[str, Sequence[LabelDraw]], records: Sequence[RunRecord]) -> LabelDraw | None:
    """The recorded draw for the difference of two runs, if there is one."""
    run_ids = {record.run_id for record in records}
    of_first = draws.get(records[0].run_id, ()) if len(run_ids) == 2 else ()
    return next((draw for draw in of_first if set(draw.runs) == run_ids), None)


def register_verdict(
    store: RunStore,
    records: Sequence[RunRecord],
    report: CalibrationReport,
    draws: Mapping[str, Sequence[LabelDraw]],
) -> CalibrationReport:
    """Record the verdict in the register of the store; returns the report with how often the test set decided.

    Nothing is recorded where the store object does not record decisions.
    """
    metric, reason = report.judged[0].metric, report.describe_bias()
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
        register = read_register(store, {record.fingerprint for record in records}, draw.runs)
    return replace(report, register=register)
