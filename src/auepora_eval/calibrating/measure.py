"""Scores held against labels: agreement, calibration, and the mean that people would have given."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError, did_you_mean
from ..io.labels import Label
from ..judge.scale import Scale
from ..labelling.draw import LabelDraw
from ..labelling.human_labels import (
    AggregatedLabels,
    aggregate_labels,
    rater_agreement,
    reject_tuning_labels,
    select_labels,
)
from ..stats.agreement import agreement_report, alpha_report, kappa_report
from ..stats.association import association_p_value
from ..stats.calibration import (
    auroc_report,
    balanced_accuracy_report,
    brier_score,
    confusion,
    expected_calibration_error,
    reliability_table,
)
from ..stats.correlation import kendall_report, pearson_report, spearman_report
from ..stats.estimate import Estimate
from ..stats.interval import mean_interval
from ..stats.prediction_powered import CorrectedMean, corrected_difference, corrected_mean
from .conclusion import CHANCE_P_VALUE, Conclusion, conclude
from .report import CalibrationReport, Disagreement, JudgeCalibration, count_of
from .sample_scores import SampleScores
from .sample_weights import SampleWeights, weigh_samples

__all__ = ["calibrate"]

Floats = npt.NDArray[np.float64]

_HALF = 0.5
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
) -> CalibrationReport:
    """Hold scores against what people said; with those of an ``other`` run, both, and their difference (other - first).

    ``scores`` are a number per sample id, or those of ``load_run_scores`` or ``read_score_file``. ``threshold`` is the
    score from which on an answer counts as right, by default half way between worst and best. ``scale`` is that of
    labels which are numbers. Labels that served to tune the prompt, because they say so or because their sample is in
    ``tuned_on``, are refused, or left out where that is allowed. The labelled samples must be a random draw for the
    corrected means to be right; ``draws`` are those noted by `auepora label`, by run, where there are any. ``finite``
    makes corrected means about the samples at hand and no others.
    """
    labels = list(labels)
    runs = [scores if isinstance(scores, SampleScores) else SampleScores(dict(scores))]
    runs += [] if other is None else [other]
    if other is not None and not all(run.run_names for run in runs):
        raise BadValueError(
            "two sets of scores need run_names each, so that labels can say whose answer they are about"
        )
    if other is not None and set(runs[0].run_names) & set(other.run_names) and runs[0].run_names != other.run_names:
        # Two runs of one name: labels must name them by their ids.
        runs = [_by_id(one) for one in runs]
    steps = None if scale is None else Scale.parse(scale)
    about: list[list[Label]] = []
    done = []
    for run in runs:
        beside = {name for one in runs for name in one.run_names} - set(run.run_names)
        own = [label for label in labels if label.run not in beside]
        kept, left_out = select_labels(own, names=run.run_names, metric=run.metric, alone=other is None)
        kept, tuned = reject_tuning_labels(kept, tuned_on, leave_out=leave_out_tuned)
        if tuned:
            left_out["tuned"] = tuned
        about.append(kept)
        done.append((run, aggregate_labels(kept, steps), left_out))
    judged = tuple(
        _judged(run, said, left_out, threshold, draws, finite=finite, bins=bins, seed=seed)
        for run, said, left_out in done
    )
    people = rater_agreement((label for kept in about for label in kept), seed=seed)
    difference = None
    if other is not None:
        trusted = all(one.conclusion.p_chance < CHANCE_P_VALUE for one in judged)
        difference = _difference(
            runs[0], other, done[0][1], done[1][1], threshold, draws, finite=finite, use_scores=trusted
        )
    return CalibrationReport(people, judged, difference, finite)


def _by_id(run: SampleScores) -> SampleScores:
    return replace(run, run_names=tuple(run.run_names)[:1])


def _judged(
    run: SampleScores,
    said: AggregatedLabels,
    left_out: Counter[str],
    threshold: float | None,
    draws: Mapping[str, list[LabelDraw]] | None,
    *,
    finite: bool,
    bins: int,
    seed: int,
) -> JudgeCalibration:
    ids = _labelled(run, said, left_out)
    stands = weigh_samples(ids, draws, run.run_names)
    cut = _threshold(run, threshold)
    label = np.array([said.values[one] for one in ids])
    score = np.array([run.scores[one] for one in ids])
    right = label >= _HALF
    verdict = np.array([run.verdict(one, cut) for one in score], dtype=np.bool_)
    signed = score if run.higher_is_better else -score
    chance = _chances(run, score)
    table = confusion(verdict, right)
    if said.binary:
        alpha, level = alpha_report([right.tolist(), verdict.tolist()], "nominal", seed=seed), "nominal"
    elif chance is not None:
        alpha, level = alpha_report([label.tolist(), chance.tolist()], "interval", seed=seed), "interval"
    else:
        alpha, level = Estimate(None, None, len(ids), "the scores are not on the scale of the labels"), "interval"
    apart = [place for place in range(len(ids)) if verdict[place] != right[place]]
    told = run.answers([ids[place] for place in apart])
    far = np.abs(label - (verdict if chance is None else chance))
    disagreements = [
        Disagreement(ids[p], float(label[p]), float(score[p]), *_texts(told.get(ids[p])))
        for p in sorted(apart, key=lambda p: (-far[p], ids[p]))
    ]
    agreed, area = kappa_report(right.tolist(), verdict.tolist(), seed=seed), auroc_report(signed, right, seed=seed)
    p_chance = association_p_value(signed, label, seed=seed)
    corrected = _corrected(run, said, cut, stands, finite=finite, use_scores=p_chance < CHANCE_P_VALUE)
    return JudgeCalibration(
        run.name,
        run.metric,
        cut,
        threshold is not None,
        run.higher_is_better,
        len(ids),
        agreement_report(right.tolist(), verdict.tolist()),
        agreed,
        alpha,
        level,
        area,
        table,
        table.tpr(),
        table.tnr(),
        balanced_accuracy_report(table),
        *_errors(chance, right, bins),
        () if chance is None else reliability_table(chance, right, bins=bins),
        corrected,
        tuple(disagreements),
        _conclusion(run, ids, label, cut, p_chance, area, agreed, corrects=corrected.weight > 0),
        dict(left_out),
        (*run.notes, *_notes(run, said), *stands.notes),
        {name: report(signed.tolist(), label.tolist(), seed=seed) for name, report in _CORRELATIONS.items()},
    )


def _conclusion(
    run: SampleScores,
    ids: list[str],
    label: Floats,
    cut: float,
    p_chance: float,
    area: Estimate,
    agreed: Estimate,
    *,
    corrects: bool,
) -> Conclusion:
    score = _predictions(run, ids, cut)
    excess = score - label
    return conclude(
        run.title,
        labelled=len(ids),
        p_chance=p_chance,
        same_labels=bool(np.ptp(label) == 0),
        same_scores=bool(np.ptp(score) == 0),
        auroc=area,
        kappa=agreed,
        excess=mean_interval(excess, clusters=_clusters(run, ids), lowest=-1.0, highest=1.0),
        mean_excess=float(excess.mean()),
        corrects=corrects,
    )


def _labelled(run: SampleScores, said: AggregatedLabels, left_out: Counter[str]) -> list[str]:
    """The samples with a label and a score; what else there is goes to ``left_out``."""
    if said.ties:
        left_out["tied"] = len(said.ties)
    ids = [one for one in said.values if one in run.scores]
    without = sum(one in run.without_score for one in said.values)
    unknown = [one for one in said.values if one not in run.scores and one not in run.without_score]
    left_out.update({"no_score": without, "unknown_sample": len(unknown)})
    for name in [name for name, count in left_out.items() if not count]:
        del left_out[name]
    if not ids:
        because = ", ".join(f"{name} {count}" for name, count in left_out.items()) or "there is none"
        hint = did_you_mean(unknown[0], list(run.scores)) if unknown else ""
        if left_out.get("by_model"):
            because += "; labels given by a model say nothing about a judge, so people must label some answers"
        first = f"; the first is of sample '{unknown[0]}'{hint}" if unknown else ""
        raise BadValueError(f"no label can be held against {run.metric} of {run.name}: {because}{first}")
    return ids


def _threshold(run: SampleScores, given: float | None) -> float:
    if given is not None:
        if not math.isfinite(given):
            raise BadValueError(f"the threshold must be a finite number, not {given!r}")
        return given
    if not run.bounded:
        raise BadValueError(
            f"scores of {run.metric} have no worst or no best value, so there is no middle: say with --threshold "
            "(threshold=) from which score on an answer counts as right"
        )
    return (run.range[0] + run.range[1]) / 2


def _chances(run: SampleScores, scores: Floats) -> Floats | None:
    """The scores between 0 and 1, read as chances of being right; ``None`` where they have no ends."""
    return np.array([run.probability(one) for one in scores]) if run.bounded else None


def _errors(chance: Floats | None, right: npt.NDArray[np.bool_], bins: int) -> tuple[Estimate, Estimate, Estimate]:
    n = len(right)
    if chance is None:
        why = Estimate(None, None, n, "scores without a worst and a best value are no chances")
        return why, why, why
    width, mass = (expected_calibration_error(chance, right, bins=bins, binning=how) for how in ("width", "mass"))
    return Estimate(width, None, n), Estimate(mass, None, n), Estimate(brier_score(chance, right), None, n)


def _predictions(run: SampleScores, ids: list[str], cut: float) -> Floats:
    scores = np.array([run.scores[one] for one in ids])
    chances = _chances(run, scores)
    return np.array([float(run.verdict(one, cut)) for one in scores]) if chances is None else chances


def _clusters(run: SampleScores, ids: list[str]) -> npt.NDArray[np.intp] | None:
    found = run.clusters
    return None if found is None else np.array([found[one] for one in ids], dtype=np.intp)


def _drawn_labels(ids: list[str], said: AggregatedLabels, stands: SampleWeights) -> Floats:
    return np.array([said.values[one] if one in stands.ids and one in said.values else math.nan for one in ids])


def _weights(ids: list[str], stands: SampleWeights) -> Floats | None:
    found = stands.weights
    return None if found is None else np.array([found.get(one, 0.0) for one in ids])


def _corrected(
    run: SampleScores, said: AggregatedLabels, cut: float, stands: SampleWeights, *, finite: bool, use_scores: bool
) -> CorrectedMean:
    ids = list(run.scores)
    labels = _drawn_labels(ids, said, stands)
    return corrected_mean(
        _predictions(run, ids, cut),
        labels,
        clusters=_clusters(run, ids),
        weights=_weights(ids, stands),
        binary=said.binary,
        lowest=0.0,
        highest=1.0,
        finite=finite,
        use_scores=use_scores,
    )


def _difference(
    first: SampleScores,
    second: SampleScores,
    one: AggregatedLabels,
    two: AggregatedLabels,
    threshold: float | None,
    draws: Mapping[str, list[LabelDraw]] | None,
    *,
    finite: bool,
    use_scores: bool,
) -> CorrectedMean:
    ids = [name for name in first.scores if name in second.scores]
    both = [name for name in ids if name in one.values and name in two.values]
    stands = min((weigh_samples(both, draws, run.run_names) for run in (first, second)), key=lambda each: len(each.ids))
    if not both:
        raise BadValueError(
            f"no sample has a label of both its answers, of {first.name} and of {second.name}: label the same samples "
            "of both runs"
        )
    labels = [_drawn_labels(ids, said, stands) for said in (one, two)]
    cuts = [_threshold(run, threshold) for run in (first, second)]
    return corrected_difference(
        _predictions(first, ids, cuts[0]),
        _predictions(second, ids, cuts[1]),
        labels[0],
        labels[1],
        clusters=_clusters(second, ids),
        weights=_weights(ids, stands),
        binary=one.binary and two.binary,
        lowest=0.0,
        highest=1.0,
        finite=finite,
        use_scores=use_scores,
    )


def _notes(run: SampleScores, said: AggregatedLabels) -> list[str]:
    notes = []
    if said.adjudicated:
        notes.append(f"{count_of(said.adjudicated, 'label')} settled between annotators")
    if not said.binary:
        notes.append("labels are numbers: for verdicts, those from the middle of their scale on count as right")
    if run.without_score:
        notes.append(
            f"{count_of(len(run.without_score), 'sample')} without a score; "
            f"the corrected mean is of the {len(run.scores)} others"
        )
    return notes


def _texts(answer: Any) -> tuple[str, str, str]:
    return ("", "", "") if answer is None else (answer.question, answer.answer, answer.rationale)
