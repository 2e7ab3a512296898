"""Two-stage judging: cheap scores of all samples, an expensive judge on a draw of them, and corrected means."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.details import IntervalDetails
from ..core.metrics_base import (
    BatchMetric,
    Metric,
    RunInfo,
    is_judged,
    precheck,
    run_signature,
    sample_clusters,
    sample_rows,
)
from ..core.results import Results
from ..core.scores import NOT_JUDGED, Scores, Status
from ..core.slices import Slice
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..engine.evaluate import evaluate
from ..engine.executors import Executor
from ..engine.targets import COMPLETE_OUTPUT
from ..errors import AueporaWarning, BadValueError
from ..judge.critic import JudgePolicy
from ..judge.metric import JudgedMetric
from ..judge.preview import Preview, preview
from ..plan.model import MIN_BUDGET, TwoStageSettings
from ..stats.calibration import MAX_WEIGHT, CorrectedMean, corrected_mean
from ..stats.intervals import Bools, Floats, Ints, interval_ends
from ..stats.sampling import (
    Forecast,
    StratifiedDraw,
    expected_errors,
    forecast,
    join_empty_strata,
    strata_of,
    stratified_draw,
)
from ..stats.stacking import Calibrator, cross_fit, fit_calibrator
from ..store.records import RunRecord
from ..store.runs import RunStore, result_summaries, result_with_scores
from .job import ScoringJob, ScoringStep

_SEARCHED_RUNS = 50
"""Number of runs in which earlier scores and judgements are searched."""
_MIN_HISTORY = 50
"""Number of judgements of an earlier run from which scores are calibrated; also of the draw, for cross-fitting."""
_MIN_OF_EACH = 5
"""The least sum of scores, and of what is missing to the best score, for cross-fitting."""
_SAMPLES_PER_STRATUM = 4
_MAX_STRATA = 6
_MIN_LABELS = 3
_DIGITS = 6
"""Digits of stored predictions."""


# --- draws: the samples that the expensive judge scores --------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class JudgeDraw:
    """The samples that the expensive judge scores, drawn within strata of the predicted score."""

    metric: str
    cheap: str
    seed: int
    budget: Mapping[str, float]
    """As in the plan: ``samples`` or ``cost``."""
    run_id: str
    """The run for which it was drawn; other runs on the same samples use the same draw."""
    strata: Ints
    """The stratum of each sample of the dataset; -1 where the metric does not apply to the sample."""
    drawn: tuple[str, ...]
    """The ids of the drawn samples, in random order."""
    forecast: Mapping[str, Any]
    features: tuple[str, ...] = ()
    """The metrics from which scores are predicted, where an earlier run has calibrated them."""
    calibrator: Calibrator | None = None
    history: str | None = None
    """The run whose judgements calibrated the predictions."""

    def to_dict(self, ids: Sequence[str]) -> dict[str, Any]:
        """For the details of a result; ``ids`` are those of the samples of the dataset."""
        by_id = dict(zip(ids, self.strata.tolist(), strict=True))
        sizes = np.bincount(self.strata[self.strata >= 0])
        allocation = np.bincount([by_id[sample_id] for sample_id in self.drawn], minlength=len(sizes))
        return {
            "metric": self.metric,
            "cheap": self.cheap,
            "seed": self.seed,
            "budget": dict(self.budget),
            "run_id": self.run_id,
            "sizes": sizes.tolist(),
            "allocation": allocation.tolist(),
            "probabilities": (allocation / sizes).tolist(),
            "strata": self.strata.tolist(),
            "drawn": list(self.drawn),
            "features": list(self.features),
            "calibrator": None if self.calibrator is None else list(self.calibrator.coefficients),
            "history": self.history,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], forecast: Mapping[str, Any]) -> JudgeDraw:
        """The draw in the details of a result."""
        coefficients = stored["calibrator"]
        kept = {key: stored[key] for key in ("metric", "cheap", "seed", "budget", "run_id", "history")}
        return cls(
            **kept,
            strata=np.array(stored["strata"], dtype=np.intp),
            drawn=tuple(stored["drawn"]),
            forecast=forecast,
            features=tuple(stored["features"]),
            calibrator=None if coefficients is None else Calibrator(tuple(coefficients)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """One metric of the expensive judge, with what is known before that judge is asked."""

    metric: JudgedMetric
    cheap: MetricResult
    first: Mapping[str, MetricResult]
    """The results of all other metrics by name."""
    signature: str


class TwoStageStep(ScoringStep):
    """Scores all samples with the cheap metrics, then a draw of them with the expensive judge, and corrects the means.

    The draw is stored before the expensive judge is asked; another run on the same samples uses the same draw.
    """

    def __init__(self, settings: TwoStageSettings) -> None:
        self._settings = settings
        self._metrics: list[Metric] = []
        self._expensive: list[JudgedMetric] = []
        self._draws: dict[str, JudgeDraw] = {}
        self._first = Results([])
        """The results of the metrics that the expensive judge does not score."""

    def wrap(self, job: ScoringJob, executor: Executor) -> Executor:
        """Score what needs no expensive judge and draw the samples for it, which has the pass over all samples left.

        The session leaves out the samples that were not drawn.
        """
        settings, session, samples = self._settings, job.session, job.rows
        chosen = _expensive_metrics(job.scored, settings)
        if session is None or not chosen:
            return executor
        self._metrics, self._expensive = job.scored, chosen
        known = check_draws(job.store, job.record, chosen, settings, samples, run=job.info)
        budgets = {
            metric.name: _budget(settings, metric, samples, job.outputs[0], session.policy, repeats=job.record.repeats)
            for metric in chosen
            if known[metric.name] is None
        }
        self._first = job.evaluate([metric for metric in job.scored if metric.name not in settings.metrics], executor)
        for metric in chosen:
            draw = self._draw(job, metric, known[metric.name], budgets.get(metric.name))
            if draw is not None:
                self._draws[metric.name] = draw
        ids = {sample.sample_id for sample in samples}
        exclusions: dict[str, set[str]] = {}
        for metric in chosen:
            drawn = self._draws[metric.name].drawn if metric.name in self._draws else ()
            exclusions[metric.name] = ids.difference(drawn)
        session.exclusions = exclusions
        job.scored, job.progress = list(chosen), None
        return executor

    def _draw(
        self, job: ScoringJob, metric: JudgedMetric, known: JudgeDraw | None, budget: int | None
    ) -> JudgeDraw | None:
        """The stored draw for a metric, or a new one; ``None`` where there are no cheap scores to draw by."""
        settings = self._settings
        by_name = self._first.by_name
        cheap = by_name.get(settings.metrics[metric.name])
        if cheap is None or not isinstance(cheap.scores, Scores):
            raise BadValueError(
                f"two-stage judging of '{metric.name}' needs the scores of '{settings.metrics[metric.name]}'"
            )
        if known is None and not np.isfinite(_answer_scores(cheap)).any():
            status = cheap.scores.status
            if (status == Status.MEASURE_FAILED).any() or not (status == Status.SYSTEM_FAILED).any():
                again = f"rescore the run when '{settings.cheap}' works"
                advice = again if settings.cheap_is_judge else "name another cheap metric"
                warnings.warn(
                    f"{metric.name}: '{settings.expensive}' was not asked, because {cheap.name} has scored no sample; "
                    f"{advice}",
                    AueporaWarning,
                    stacklevel=2,
                )
            return None  # such a draw would be that of all later runs on these samples, too
        stage = _Stage(metric, cheap, by_name, str(run_signature(metric.for_run(job.info), job.info)))
        draw = known
        if draw is None:
            assert budget is not None
            draw = _new_draw(job, stage, settings, budget)
        _store_draw(job, stage, draw)
        return draw

    def finish(self, job: ScoringJob, results: Results) -> Results:
        """The results of both stages, those of the expensive judge corrected, in the order of the metrics."""
        if not self._expensive:
            return results
        assert job.session is not None
        job.add_usage(self._first)
        job.session.exclusions = {}
        for metric in self._expensive:
            if metric.name in self._draws:
                correction = _Correction(
                    metric,
                    results.by_name[metric.name],
                    draw=self._draws[metric.name],
                    first=self._first.by_name,
                    settings=self._settings,
                    samples=job.rows,
                )
                correction.apply(job.groups)
        return _join_results(self._metrics, self._first, results)


def _expensive_metrics(metrics: Sequence[Metric], settings: TwoStageSettings) -> list[JudgedMetric]:
    return [metric for metric in metrics if isinstance(metric, JudgedMetric) and metric.name in settings.metrics]


def check_draws(
    store: RunStore,
    record: RunRecord,
    metrics: Sequence[Metric],
    settings: TwoStageSettings,
    samples: Sequence[EvaluationSample],
    *,
    run: RunInfo,
) -> dict[str, JudgeDraw | None]:
    """The stored draw for each metric of the expensive judge, ``None`` where there is none yet.

    Nothing is called: an error about the seed or the number of samples costs nothing.
    """
    found = {}
    for metric in _expensive_metrics(metrics, settings):
        applies = int(_applies(metric, samples).sum())
        if applies < MIN_BUDGET:
            raise BadValueError(
                f"two-stage judging of '{metric.name}' needs at least {MIN_BUDGET} samples that it applies to; "
                f"there are {applies}"
            )
        found[metric.name] = _find_draw(store, record, metric, str(run_signature(metric.for_run(run), run)), settings)
    return found


def _join_results(metrics: Sequence[Metric], first: Results, second: Results) -> Results:
    found = {**first.by_name, **second.by_name}
    joined = Results([found[metric.name] for metric in metrics], sample_ids=first.sample_ids)
    joined.failure = first.failure or second.failure
    joined.warnings = list(dict.fromkeys([*first.warnings, *second.warnings]))
    return joined


def _budget(
    settings: TwoStageSettings,
    metric: JudgedMetric,
    samples: Sequence[EvaluationSample],
    outputs: Callable[[], Iterable[SystemOutputs | None]],
    policy: JudgePolicy,
    *,
    repeats: int = 1,
) -> int:
    """The number of samples to draw; an amount of money is divided by the estimated cost of a sample.

    A sample may take several judgements: of a panel, or of ``repeats`` outputs whose cost is that of the first.
    """
    if settings.budget is not None:
        return settings.budget
    assert settings.budget_cost is not None
    batch = Batch(samples, list(outputs()))
    estimate = preview(samples, batch.outputs, [metric], replace(policy, cache=None, controls=0))
    asked = {
        sample.sample_id
        for sample, output, answered in sample_rows(metric, batch)
        if precheck(metric, sample, output, answered=answered) is None
    }
    cost = estimate.total.cost
    if not cost or not asked or estimate.models_without_price:
        unknown = ", ".join(estimate.models_without_price) or f"the judge of '{metric.name}'"
        raise BadValueError(
            f"judge.budget_cost: no price is known for {unknown}; write it under 'prices', or give 'budget', a number "
            "of samples"
        )
    found = int(settings.budget_cost / len(settings.metrics) / (cost * repeats / len(asked)))
    if found < MIN_BUDGET:
        raise BadValueError(
            f"judge.budget_cost: {settings.budget_cost:g} pays for judgements of {found} samples by "
            f"'{metric.name}', and at least {MIN_BUDGET} are needed"
        )
    return found


def _applies(metric: JudgedMetric, samples: Sequence[EvaluationSample]) -> Bools:
    """Which samples the metric applies to, whatever the system returned."""
    return np.array(
        [precheck(metric, sample, COMPLETE_OUTPUT, answered=True) is None for sample in samples], dtype=np.bool_
    )


def _find_draw(
    store: RunStore, record: RunRecord, metric: JudgedMetric, signature: str, settings: TwoStageSettings
) -> JudgeDraw | None:
    """The draw of an earlier run on the same samples, or of this run if it was interrupted."""
    wanted = _budget_dict(settings)
    for run in [record, *_other_runs(store, record, limit=None)]:
        if run.fingerprint != record.fingerprint:
            continue
        for result in result_summaries(store, run.run_id, every_signature=True):
            stages = result.details.two_stage
            if result.name != metric.name or result.signature != signature or not stages:
                continue
            draw = JudgeDraw.from_dict(stages["draw"], stages["forecast"])
            if draw.cheap != settings.metrics[metric.name] or dict(draw.budget) != wanted:
                continue
            if draw.seed != settings.seed:
                raise BadValueError(
                    f"judge.seed: run {run.run_id} has a draw for '{draw.metric}' on these samples with seed "
                    f"{draw.seed}, not {settings.seed}; all runs use the same draw, so that they can be compared; "
                    f"write 'seed: {draw.seed}'"
                )
            return draw
    return None


def _budget_dict(settings: TwoStageSettings) -> dict[str, float]:
    if settings.budget is not None:
        return {"samples": settings.budget}
    assert settings.budget_cost is not None
    return {"cost": settings.budget_cost}


def _other_runs(store: RunStore, record: RunRecord, *, limit: int | None = _SEARCHED_RUNS) -> list[RunRecord]:
    return [run for run in store.runs(limit=limit) if run.run_id != record.run_id]


def _new_draw(job: ScoringJob, stage: _Stage, settings: TwoStageSettings, budget: int) -> JudgeDraw:
    samples = job.rows
    applies = np.flatnonzero(_applies(stage.metric, samples))
    features, calibrator, run_id = _history(job.store, job.record, stage) or ((), None, None)
    predictions = _predict(stage.cheap, stage.first, features, calibrator)[applies]
    errors = expected_errors(predictions, calibrated=calibrator is not None)
    drawn = _draw_by_strata(predictions, errors, budget, settings.seed)
    strata = np.full(len(samples), -1, dtype=np.intp)
    strata[applies] = drawn.strata
    return JudgeDraw(
        stage.metric.name,
        stage.cheap.name,
        seed=settings.seed,
        budget=_budget_dict(settings),
        run_id=job.record.run_id,
        strata=strata,
        drawn=tuple(samples[place].sample_id for place in applies[drawn.positions]),
        forecast=_scaled_forecast(stage.metric, forecast(errors, predictions, drawn.probabilities)),
        features=features,
        calibrator=calibrator,
        history=run_id,
    )


def _draw_by_strata(predictions: Floats, errors: Floats, n: int, seed: int) -> StratifiedDraw:
    """At most ``n`` samples by strata of their predicted score."""
    n = min(n, len(predictions))
    codes = strata_of(predictions, min(_MAX_STRATA, max(1, n // _SAMPLES_PER_STRATUM)))
    return stratified_draw(codes, errors, n, seed=seed)


def _scaled_forecast(metric: BatchMetric, found: Forecast) -> dict[str, Any]:
    """A forecast of scores from 0 to 1 in the units of the metric."""
    low, high = _bounds(metric.range)
    scale = high - low if math.isfinite(high - low) else 1.0
    scaled = found.to_dict()
    for name in ("half_width", "labels_half_width", "decidable_difference"):
        scaled[name] *= scale
    return scaled


def _store_draw(job: ScoringJob, stage: _Stage, draw: JudgeDraw) -> None:
    """Store a result without scores that has the draw, so that an interrupted run resumes with it.

    A result of the run that has this draw already is kept, also if the new judgements are interrupted.
    """
    metric, n, run_id = stage.metric, len(job.rows), job.record.run_id
    ids = [sample.sample_id for sample in job.rows]
    stored = {
        (summary.name, summary.signature): summary.details.two_stage
        for summary in result_summaries(job.store, run_id, every_signature=True)
    }
    if stored.get((metric.name, stage.signature), {}).get("draw") == draw.to_dict(ids):
        return
    details: dict[str, Any] = {"num_samples": 0, "num_skipped": n, f"skipped_{NOT_JUDGED}": n}
    details |= {"two_stage": {"draw": draw.to_dict(ids), "forecast": dict(draw.forecast)}}
    result = MetricResult(metric.name, metric.target, 0.0, details, signature=stage.signature, defined=False)
    job.store.put_results(run_id, [result], reducers={metric.name: metric.reducer.name})


# --- previews: the size of the draw, and a forecast before the expensive judge is asked ------------------------------


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The samples that judges would be asked about, once for each repeat, and the answers to them."""

    samples: Sequence[EvaluationSample]
    outputs: Sequence[SystemOutputs | None]
    are_known: bool = True
    """Whether the system gave all of them; otherwise some are stand-ins."""


def preview_in_two_stages(
    settings: TwoStageSettings,
    metrics: Sequence[Metric],
    answers: JudgedAnswers,
    policy: JudgePolicy,
    *,
    store: RunStore | None,
    record: RunRecord | None = None,
) -> Preview:
    """Estimate two-stage judging, with a forecast of each interval where cheap scores are known.

    They are computed if that needs no judge and the answers are those of the system, else those of the run, or of the
    latest run that has them. The samples that are counted are a random draw.
    """
    distinct = {sample.sample_id: sample for sample in answers.samples}  # repeats have the same samples
    samples = list(distinct.values())
    exclusions: dict[str, set[str]] = {}
    stages: dict[str, dict[str, Any]] = {}
    for metric in _expensive_metrics(metrics, settings):
        ids = [samples[row].sample_id for row in np.flatnonzero(_applies(metric, samples)).tolist()]
        n = min(_budget(settings, metric, answers.samples, lambda: answers.outputs, policy), len(ids))
        drawn = np.random.default_rng(settings.seed).permutation(len(ids))[:n]
        exclusions[metric.name] = set(distinct).difference(ids[place] for place in drawn.tolist())
        cheap = next(known for known in metrics if known.name == settings.metrics[metric.name])
        scores, source = _known_scores(cheap, answers, store, record) or (None, None)
        stages[metric.name] = {
            "judge": settings.expensive,
            "cheap": cheap.name,
            "samples": len(ids),
            "drawn": n,
            "forecast": None if scores is None else _forecast_of(metric, scores, n),
            "forecast_from": source,
        }
    found = preview(answers.samples, answers.outputs, metrics, policy, exclusions)
    found.two_stage = stages
    return found


def _known_scores(
    cheap: Metric, answers: JudgedAnswers, store: RunStore | None, record: RunRecord | None
) -> tuple[Floats, str] | None:
    """Cheap scores from 0 to 1 without those that are missing, and where they come from."""
    if answers.are_known and isinstance(cheap, BatchMetric) and not is_judged(cheap):
        scores = evaluate(answers.samples, answers.outputs, [cheap])[0].scores
        if isinstance(scores, Scores) and scores.counted.any():
            return _unit_scores(scores.values[scores.counted]), "these answers"
    if store is None:
        return None
    for run in [*([] if record is None else [record]), *store.runs(limit=_SEARCHED_RUNS)]:
        for summary in result_summaries(store, run.run_id):
            if summary.name == cheap.name:
                scores = result_with_scores(store, run.run_id, summary).scores
                if isinstance(scores, Scores) and scores.counted.sum() >= MIN_BUDGET:
                    return _unit_scores(scores.values[scores.counted]), run.run_id
    return None


def _forecast_of(metric: BatchMetric, predictions: Floats, n: int) -> dict[str, Any]:
    """The forecast of a draw of ``n`` samples by uncalibrated predictions."""
    errors = expected_errors(predictions, calibrated=False)
    drawn = _draw_by_strata(predictions, errors, n, 0)
    return _scaled_forecast(metric, forecast(errors, predictions, drawn.probabilities))


# --- predicted scores of the expensive judge -------------------------------------------------------------------------


def _bounds(limits: tuple[float, float]) -> tuple[float, float]:
    return min(limits), max(limits)


def _unit_scores(values: Floats) -> Floats:
    """Scores between 0 and 1: as they are if they lie there, else scaled; samples without a score have the mean."""
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(values), 0.5)
    low, high = float(values[known].min()), float(values[known].max())
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    scaled = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    return np.where(known, scaled, scaled[known].mean())


def _answer_scores(result: MetricResult) -> Floats:
    """The scores of answers that exist; NaN elsewhere, also where a failed answer counts."""
    assert isinstance(result.scores, Scores)
    return np.where(result.scores.status == Status.SCORED, result.scores.values, np.nan)


def _feature_columns(results: Iterable[MetricResult]) -> Floats:
    return np.column_stack([_unit_scores(_answer_scores(result)) for result in results])


def _predict(
    cheap: MetricResult,
    first: Mapping[str, MetricResult],
    features: Sequence[str],
    calibrator: Calibrator | None,
) -> Floats:
    """The predicted score of each sample, from 0 to 1."""
    if calibrator is None or any(name not in first for name in features):
        return _unit_scores(_answer_scores(cheap))
    return calibrator.predict(_feature_columns(first[name] for name in features))


def _history(store: RunStore, record: RunRecord, stage: _Stage) -> tuple[tuple[str, ...], Calibrator, str] | None:
    """A calibrator from the latest other run that the same expensive judge has scored, with its features."""
    low, high = _bounds(stage.metric.range)
    if not math.isfinite(high - low):
        return None
    for run in _other_runs(store, record):
        stored = {summary.name: summary for summary in result_summaries(store, run.run_id)}
        known, cheap = stored.get(stage.metric.name), stored.get(stage.cheap.name)
        if known is None or cheap is None:
            continue
        if (known.signature, cheap.signature) != (stage.signature, stage.cheap.signature):
            continue
        judged = result_with_scores(store, run.run_id, known)
        if not isinstance(judged.scores, Scores) or (judged.scores.status == Status.SCORED).sum() < _MIN_HISTORY:
            continue
        names = [stage.cheap.name, *(name for name in stage.first if name != stage.cheap.name)]
        found = {
            name: result_with_scores(store, run.run_id, stored[name])
            for name in names
            if name in stored and stored[name].signature == stage.first[name].signature
        }
        features = [name for name in found if _is_feature(found[name]) and _is_feature(stage.first[name])]
        if features[:1] != [stage.cheap.name] or any(
            len(found[name].scores or ()) != run.num_samples for name in features
        ):
            continue
        labels = (_answer_scores(judged) - low) / (high - low)
        rows = np.flatnonzero(np.isfinite(labels))
        weights = _draw_weights(judged, rows)
        table = _feature_columns(found[name] for name in features)[rows]
        return tuple(features), fit_calibrator(table, labels[rows], weights=weights), run.run_id
    return None


def _draw_weights(judged: MetricResult, rows: Ints) -> Floats | None:
    """One over the inclusion probabilities of the judged samples; ``None`` where all samples were judged."""
    stages = judged.details.two_stage
    if not stages:
        return None
    strata = np.array(stages["draw"]["strata"], dtype=np.intp)[rows]
    return 1 / np.array(stages["draw"]["probabilities"])[strata]


def _is_feature(result: MetricResult) -> bool:
    """Whether scores of a metric may predict those of the judge: numbers from 0 to 1, most of them known."""
    if not isinstance(result.scores, Scores):
        return False
    known = result.scores.values[result.scores.status == Status.SCORED]
    return 2 * len(known) > len(result.scores) and bool(((known >= 0) & (known <= 1)).all())


# --- corrected means -------------------------------------------------------------------------------------------------


class _Correction:
    """Corrects the result of one metric of the expensive judge."""

    def __init__(
        self,
        metric: BatchMetric,
        result: MetricResult,
        *,
        draw: JudgeDraw,
        first: Mapping[str, MetricResult],
        settings: TwoStageSettings,
        samples: Sequence[EvaluationSample],
    ) -> None:
        assert isinstance(result.scores, Scores)
        self.result, self.draw, self.settings, self.samples = result, draw, settings, samples
        self.cheap = first[draw.cheap]
        scores = result.scores
        self.scored = scores.status == Status.SCORED
        self.failed = (scores.status == Status.SYSTEM_FAILED) & scores.counted
        is_drawn = np.isin(np.array([sample.sample_id for sample in samples]), draw.drawn)
        unusable = is_drawn & (scores.status == Status.MEASURE_FAILED)
        self.unusable = unusable
        self.population = self.scored | self.failed | scores.with_reason(NOT_JUDGED) | unusable
        self.labels = np.where(self.scored | self.failed, scores.values, np.nan)
        self.strata = np.where(self.failed, draw.strata.max() + 1, draw.strata)  # known without a judge
        self.clusters = sample_clusters(samples)
        self.low, self.high = _bounds(metric.range)
        known = scores.values[self.scored]
        self.binary = metric.metadata.binary and bool(np.isin(known, (0.0, 1.0)).all())
        self.predictions, self.calibration = self._predictions(first)

    def _predictions(self, first: Mapping[str, MetricResult]) -> tuple[Floats, str]:
        """The predicted scores, rounded as they are stored, and how they were calibrated."""
        scale = self.high - self.low
        draw, cheap = self.draw, self.cheap
        found, how = _predict(cheap, first, draw.features, draw.calibrator), "none"
        unit = (self.labels - self.low) / scale if math.isfinite(scale) else self.labels
        labelled = np.flatnonzero(self.scored)
        total = float(unit[labelled].sum())
        if draw.calibrator is not None and all(name in first for name in draw.features):
            how = "history"
        elif (
            math.isfinite(scale) and len(labelled) >= _MIN_HISTORY and min(total, len(labelled) - total) >= _MIN_OF_EACH
        ):
            features = [cheap, *(result for result in first.values() if result is not cheap and _is_feature(result))]
            sizes = np.bincount(self.strata[self.population], minlength=self.strata.max() + 1)
            counts = np.bincount(self.strata[labelled], minlength=len(sizes))
            shares = counts / np.maximum(sizes, 1)
            known = np.where(self.scored, unit, np.nan)
            found = cross_fit(
                _feature_columns(features),
                known,
                probabilities=np.where(self.scored, shares[self.strata], 1.0),
                clusters=self.clusters,
            )
            how = "cross-fitting"
        if math.isfinite(scale):
            found = self.low + scale * found
        elif how == "none":
            found = _answer_scores(cheap)
            found = np.where(np.isfinite(found), found, np.nanmean(found) if np.isfinite(found).any() else 0.0)
        found = np.where(self.failed, self.labels, found)
        return np.round(found, _DIGITS), how

    def mean(self, rows: Bools, *, finite: bool = False, judge_alone: bool = False) -> CorrectedMean | None:
        """The corrected mean of some samples, or that of the expensive judge alone; ``None`` with too few labels."""
        inside = rows & self.population
        labels = self.labels[inside]
        if (self.scored & rows).sum() < _MIN_LABELS:
            return None
        strata = join_empty_strata(self.strata[inside], np.isfinite(labels))
        shares = np.bincount(strata, np.isfinite(labels)) / np.maximum(np.bincount(strata), 1)
        return corrected_mean(
            self.predictions[inside],
            labels,
            strata=None if judge_alone else strata,
            probabilities=shares[strata] if judge_alone else None,
            clusters=None if self.clusters is None else self.clusters[inside],
            binary=self.binary,
            lowest=self.low,
            highest=self.high,
            finite=finite,
            use_scores=not judge_alone,
        )

    def apply(self, slices: Sequence[Slice]) -> None:
        """Set value, interval and details of the result and of its slices."""
        every = np.ones(len(self.samples), dtype=np.bool_)
        draw = self.draw
        predictions: list[float | None] = self.predictions.tolist()
        for place in np.flatnonzero(~self.population).tolist():
            predictions[place] = None
        further = {
            "calibration": self.calibration,
            "history": draw.history,
            "forecast": dict(draw.forecast),
            "draw": draw.to_dict([sample.sample_id for sample in self.samples]),
            "predictions": predictions,
        }
        self._apply(self.result, every, further)
        for slice_ in slices:
            groups = [slice_.groups(sample) for sample in self.samples]
            for name, part in self.result.slices.get(slice_.name, {}).items():
                self._apply(part, np.array([name in some for some in groups], dtype=np.bool_), {})

    def _apply(self, result: MetricResult, rows: Bools, further: Mapping[str, Any]) -> None:
        expensive = self.settings.expensive
        population = int((rows & self.population).sum())
        found, these, alone = self.mean(rows), self.mean(rows, finite=True), self.mean(rows, judge_alone=True)
        assert isinstance(self.cheap.scores, Scores)
        cheap = self.cheap.scores.values[rows & self.cheap.scores.counted]
        by_judge = self.settings.cheap if self.settings.cheap_is_judge else None
        details: dict[str, Any] = {
            "target": f"what '{expensive}' would say of answers like these",
            "samples": population,
            "budget": dict(self.draw.budget),
            "drawn": len(self.draw.drawn),
            "judged": int((self.scored & rows).sum()),
            "failed": int((self.unusable & rows).sum()),
            "system_failures": int((self.failed & rows).sum()),
            "value": None if found is None else found.value,
            "interval": None if found is None else interval_ends(found.interval),
            "scores_mean": result.value if result.defined else None,
            "weight": None if found is None else found.weight,
            "cap": MAX_WEIGHT,
            "these": {
                "target": f"what '{expensive}' would say of these {population:,} answers",
                "interval": None if these is None else interval_ends(these.interval),
            },
            "cheap": {
                "metric": self.cheap.name,
                "judge": by_judge,
                "value": float(cheap.mean()) if len(cheap) else None,
                "interval": None if self.cheap.interval is None or further == {} else list(self.cheap.interval),
            },
            "expensive": {
                "judge": expensive,
                "value": None if alone is None else alone.value,
                "interval": None if alone is None else interval_ends(alone.interval),
            },
        }
        for key in ("bounds", "value_completed", "interval"):
            result.details.pop(key, None)
        result.details.two_stage = {**details, **further}
        result.defined = found is not None
        result.value = 0.0 if found is None else found.value
        interval = None if found is None else found.interval
        result.interval = None if interval is None else (interval.low, interval.high)
        if interval is not None:
            method = f"corrected ({interval.method})"
            result.details.interval = IntervalDetails(method=method, units=interval.units, flags=list(interval.flags))
