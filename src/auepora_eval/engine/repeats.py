"""Several outputs per sample: the mean of each sample's repeats is its score, and their spread is reported."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Unpack

import numpy as np

from ..core.batch import check_samples
from ..core.conventions import Signature
from ..core.details import RepeatDetails, ResultDetails
from ..core.metric_hooks import join_repeats, joins_repeats
from ..core.metrics_base import BatchMetric, Metric, RunInfo, assemble_result, make_result
from ..core.reduce import Clusters, Mean, Reducer, StatMeans, SumsReducer, mean
from ..core.results import Results
from ..core.scores import AnswerSpans, Scores, Status
from ..core.slices import Grouping, SliceSpec
from ..core.types import EvaluationSample, MetricResult, SystemOutputs
from ..errors import AlignmentError, BadValueError
from ..stats.intervals import Floats, Interval, Ints
from .evaluate import BATCH_SIZE, CollectingAccumulator, Evaluation, EvaluationOptions, Metrics, evaluate
from .gold_match import Pair

# --- aggregation over repeats: means per sample, means of values, and the spread -------------------------------------

_FAILED = (Status.SYSTEM_FAILED, Status.MEASURE_FAILED)


def result_over_repeats(
    metric: BatchMetric,
    parts: Sequence[Scores],
    *,
    signature: Signature,
    clusters: Clusters | None,
    keep_scores: bool = True,
) -> MetricResult:
    """The result of a metric from the outcomes of each repeat.

    A mean is the mean of the samples' means; any other value is the mean of the repeats' values. An identical repeat
    changes neither. Counts in ``details`` are numbers of samples.
    """
    values = [metric.reducer.value(part) for part in parts]
    if len(parts) == 1 or joins_repeats(metric):
        joined = join_scores(metric, parts)
        result = make_result(metric, joined, signature=signature, keep_scores=keep_scores, clusters=clusters)
    else:
        means = per_sample_means(parts)
        repeated = replace(means, repeats=tuple(parts))
        stats = StatMeans(metric.metadata.stat_names)
        stats.add(means)
        further = merge_details([metric.further_details(part, clusters) for part in parts])
        value = metric.reducer.value(means) if isinstance(metric.reducer, Mean) else _mean(values)
        result = assemble_result(
            metric,
            value=value,
            completed=math.nan,
            bounds=None,
            num_samples=int(means.counted.sum()),
            tally=means.tally(),
            cuts=means.count_cuts(),
            further={**stats.values(), **further},
            signature=signature,
            # Where the number is not computed from the means, the scores of each repeat are kept as well.
            scores=None if not keep_scores else means if isinstance(metric.reducer, Mean) else repeated,
            interval=_interval(metric, repeated, clusters),
        )
        _add_completed(metric, result, parts)
        _add_bounds(metric, result, parts)
    result.details.repeats = RepeatDetails(repeat_spread(values, parts))
    return result


def mean_over_repeats(reducer: Reducer, scores: Scores) -> tuple[Reducer, Scores]:
    """A reducer and scores such that the reduced value is the mean over the repeats.

    For a reducer of sums the statistics of the repeats become further columns. Scores without repeats are returned
    unchanged.
    """
    if scores.repeats is None:
        return reducer, scores
    if not isinstance(reducer, SumsReducer):
        return _MeanOverRepeats(reducer), scores
    tables = [np.where(part.counted[:, None], part.stats, 0.0) for part in scores.repeats if part.stats is not None]
    if len(tables) < len(scores.repeats):
        return _MeanOverRepeats(reducer), scores
    return _MeanOverRepeatSums(reducer, len(tables)), replace(scores, stats=np.hstack(tables), repeats=None)


class _MeanOverRepeats(Reducer):
    """The mean of a reducer's values over the repeats."""

    def __init__(self, reducer: Reducer) -> None:
        self.name, self._reducer = reducer.name, reducer

    def value(self, scores: Scores) -> float:
        """The mean over the repeats in which the number is defined."""
        return _mean([self._reducer.value(part) for part in scores.repeats or (scores,)])

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """By resampling samples with all their repeats; None where a single repeat has no interval."""
        from ..stats.bootstrap import bootstrap_interval_of

        repeats = scores.repeats or (scores,)
        rows = np.flatnonzero(np.any([part.counted for part in repeats], axis=0))
        parts, clusters = [part.take(rows) for part in repeats], None if clusters is None else clusters[rows]
        own = [self._reducer.interval(part, low, high, clusters=clusters) for part in parts]
        if all(interval is None for interval in own):
            return None
        found = bootstrap_interval_of(
            lambda drawn: _mean([self._reducer.value(part.take(drawn)) for part in parts]),
            len(rows),
            clusters=clusters,
            lowest=low,
            highest=high,
        )
        # Flags of the intervals of single repeats apply to this one as well.
        if found is None:
            return None
        flags = dict.fromkeys(found.flags)
        for interval in own:
            flags |= dict.fromkeys(() if interval is None else interval.flags)
        return replace(found, flags=tuple(flags))


class _MeanOverRepeatSums(SumsReducer):
    """The mean over repeats of a reducer of sums; the statistics of the repeats are consecutive columns."""

    def __init__(self, reducer: SumsReducer, repeats: int) -> None:
        self.name, self._reducer, self._repeats = reducer.name, reducer, repeats

    def from_sums(self, sums: Sequence[float]) -> float:
        """The mean over the repeats in which the number is defined."""
        width = len(sums) // self._repeats
        return _mean(
            [self._reducer.from_sums(sums[place * width : (place + 1) * width]) for place in range(self._repeats)]
        )


def _add_completed(metric: BatchMetric, result: MetricResult, parts: Sequence[Scores]) -> None:
    """Add ``value_completed`` over the answered repeats, where some repeats of a sample failed."""
    failed = [part.status == Status.SYSTEM_FAILED for part in parts]
    if not any(rows.any() for rows in failed):
        return
    answered = [
        part.replaced(rows, Status.SKIPPED, "failed", math.nan) for part, rows in zip(parts, failed, strict=True)
    ]
    if isinstance(metric.reducer, Mean):
        completed = metric.reducer.value(per_sample_means(answered))
    else:
        completed = _mean([metric.reducer.value(part) for part in answered])
    result.details.value_completed = None if math.isnan(completed) else completed


def _add_bounds(metric: BatchMetric, result: MetricResult, parts: Sequence[Scores]) -> None:
    """Add ``bounds`` for samples that could not be measured in some repeat."""
    unmeasured = [part.status == Status.MEASURE_FAILED for part in parts]
    if not any(rows.any() for rows in unmeasured):
        return
    ends = [metric.reducer.bounds(part, *metric.range) for part in parts]
    if any(end is None for end in ends):
        return
    found = [end for end in ends if end is not None]
    lows, highs = zip(*found, strict=True)
    low, high = math.fsum(lows) / len(found), math.fsum(highs) / len(found)
    result.details.bounds = [min(low, result.value), max(high, result.value)] if result.defined else [low, high]


def join_scores(metric: BatchMetric, parts: Sequence[Scores]) -> Scores:
    """The scores of all repeats as one per sample: their means, or what the metric makes of them."""
    return join_repeats(metric, parts, per_sample_means(parts))


def per_sample_means(parts: Sequence[Scores]) -> Scores:
    """Per sample the mean over its repeats that count, and the best of their outcomes.

    A sample that was scored in any repeat is scored; failed repeats enter its mean at the value they count.
    """
    if len(parts) == 1:
        return parts[0]
    values = np.stack([part.values for part in parts])
    counts = (~np.isnan(values)).sum(axis=0)
    totals = np.array([math.fsum(column[~np.isnan(column)]) for column in values.T])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(counts > 0, totals / counts, np.nan)
    status = np.stack([part.status for part in parts])
    chosen: Ints = np.argmin(_RANK[status], axis=0)  # the repeat whose outcome represents all of them
    columns = np.arange(status.shape[1])
    names: dict[str, int] = {"": 0}
    codes = np.empty_like(status, dtype=np.int16)
    for repeat, part in enumerate(parts):
        merged_codes = [names.setdefault(name, len(names)) for name in part.reason_names]
        codes[repeat] = np.array(merged_codes, dtype=np.int16)[part.reason_codes]
    stats = None
    if all(part.stats is not None for part in parts):
        wide = np.stack([part.stats for part in parts if part.stats is not None])
        with np.errstate(invalid="ignore", divide="ignore"):
            defined = ~np.isnan(wide)
            stats = np.where(defined.any(axis=0), np.nansum(wide, axis=0) / defined.sum(axis=0), np.nan)
    merged = Scores(
        means,
        status[chosen, columns],
        reason_codes=codes[chosen, columns],
        reason_names=tuple(names),
        stats=stats,
        keys=_merge_keys(parts),
    )
    if all(part.cuts is None for part in parts):
        return merged
    return replace(merged, cuts=np.max([part.known_cuts for part in parts], axis=0))


def _merge_keys(parts: Sequence[Scores]) -> tuple[Any, ...] | None:
    """The keys of the first repeat; of keys that are spans of an answer, those of all repeats."""
    each = [part.keys or (None,) * len(part) for part in parts]
    if not any(isinstance(key, AnswerSpans) for key in chain.from_iterable(each)):
        return parts[0].keys
    merged = []
    for several in zip(*each, strict=True):
        marked = [(repeat, key) for repeat, key in enumerate(several) if isinstance(key, AnswerSpans)]
        spans = tuple(span._replace(repeat=repeat) for repeat, key in marked for span in key.spans)
        merged.append(AnswerSpans(spans) if marked else None)
    return tuple(merged)


_RANK = np.array([0, 3, 1, 2])
"""Precedence of outcomes: scored, system failure, failed measurement, skip."""


# --- confidence intervals ------------------------------------------------------------------------------------


def _interval(metric: BatchMetric, scores: Scores, clusters: Clusters | None) -> Interval | None:
    """The interval by resampling samples, each with all its repeats."""
    reducer, (low, high) = metric.reducer, metric.range
    if isinstance(reducer, Mean):
        # The mean of zeros and ones may lie between them, and then it is not a proportion.
        counted = scores.values[scores.counted]
        binary = metric.metadata.binary and bool(((counted == 0) | (counted == 1)).all())
        return reducer.interval(scores, low, high, binary=binary, clusters=clusters)
    over_repeats, scores = mean_over_repeats(reducer, scores)
    found = over_repeats.interval(scores, low, high, clusters=clusters)
    return None if found is None or found.method == "all_equal" else found


def _mean(values: Sequence[float]) -> float:
    """The mean of the values that are not NaN; NaN where there is none."""
    defined = [value for value in values if not math.isnan(value)]
    return math.fsum(defined) / len(defined) if defined else math.nan


# --- details ----------------------------------------------------------------------------------------------------------


def merge_details(each: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the details of several repeats: values that are equal in all, and means of fractions that differ.

    A count, string or interval that differs between repeats is left out.
    """
    merged: dict[str, Any] = {}
    for key in each[0] if each else ():
        values = [details.get(key) for details in each]
        if all(isinstance(value, Mapping) for value in values):
            merged[key] = merge_details([value for value in values if isinstance(value, Mapping)])
        elif all(key in details for details in each) and all(value == values[0] for value in values):
            merged[key] = values[0]
        elif all(value is None or isinstance(value, float) for value in values):
            found = _mean([value for value in values if value is not None])
            merged[key] = None if math.isnan(found) else found
    return merged


def repeat_spread(values: Sequence[float], parts: Sequence[Scores] = ()) -> dict[str, Any]:
    """The value of each repeat, their standard deviation, that within samples, and counts of calls."""
    defined = [value for value in values if not math.isnan(value)]
    spread: dict[str, Any] = {
        "count": len(values),
        "values": [None if math.isnan(value) else value for value in values],
        "sd": statistics.stdev(defined) if len(defined) > 1 else None,
    }
    if parts:
        spread["sd_within_samples"] = _sd_within_samples(np.stack([part.values for part in parts]))
        spread |= _count_calls(parts)
    return spread


def _count_calls(parts: Sequence[Scores]) -> dict[str, int]:
    """Number of applicable calls, how many of them count, and how many failed, by reason."""
    counts: Counter[tuple[Status, str]] = Counter()
    for part in parts:
        counts.update(part.tally())
    applicable = {outcome: count for outcome, count in counts.items() if outcome[0] is not Status.SKIPPED}
    reasons: Counter[str] = Counter()
    for (status, reason), count in sorted(applicable.items()):
        if status in _FAILED:
            reasons[f"failed_{reason}"] += count
    return {
        "num_calls": sum(applicable.values()),
        "num_counted": sum(int(part.counted.sum()) for part in parts),
        "num_system_failed": sum(count for (status, _), count in applicable.items() if status is Status.SYSTEM_FAILED),
        "num_measure_failed": sum(
            count for (status, _), count in applicable.items() if status is Status.MEASURE_FAILED
        ),
        **reasons,
    }


def _sd_within_samples(values: Floats) -> float | None:
    """The root of the mean variance between the repeats of a sample; ``None`` where no sample has two of them."""
    several = (~np.isnan(values)).sum(axis=0) > 1
    return math.sqrt(mean(np.nanvar(values[:, several], axis=0, ddof=1))) if several.any() else None


# --- evaluation: one pass per repeat ---------------------------------------------------------------------------------

Outputs = Iterable[SystemOutputs | None]


def evaluate_repeats(
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Outputs]],
    metrics: Metrics,
    *,
    batch_size: int = BATCH_SIZE,
    **options: Unpack[EvaluationOptions],
) -> Results:
    """Score several outputs of a system for each sample.

    ``repeats`` are functions that return one output per sample, in order, on every call. A sample's score is the mean
    over its repeats, so that the interval is about samples and not calls. Metrics that are not means (BLEU, quantiles)
    have the mean of the repeats' values, and their interval resamples samples with all their repeats.
    ``details.repeats`` contains the value of each repeat, the spread within samples, and how many calls failed: a
    sample is failed only where all its repeats are.
    """
    evaluation = Evaluation(metrics, **options)
    check_samples(samples)
    evaluation.validate(samples)
    if not repeats:
        raise BadValueError("there must be at least one repeat to score")
    return evaluation.score(
        *(evaluation.batches(_pairs(samples, outputs), batch_size) for outputs in repeats),
        accumulator=RepeatAccumulator,
        compute=partial(_compute_over_repeats, samples, repeats, slices=evaluation.slices, run=options.get("run")),
    )


def _pairs(samples: Sequence[EvaluationSample], outputs: Callable[[], Outputs]) -> Iterator[Pair]:
    source, count = iter(outputs()), 0
    for count, pair in enumerate(zip(samples, source, strict=False), start=1):  # noqa: B007 -- the last count is used
        yield pair
    if count < len(samples):
        raise AlignmentError(len(samples), count)
    if next(source, _END) is not _END:
        raise AlignmentError(len(samples), count + 1)


_END: Any = object()


def _compute_over_repeats(
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Outputs]],
    metric: Metric,
    _: Grouping,
    *,
    slices: Iterable[SliceSpec],
    run: RunInfo | None,
) -> MetricResult:
    """The mean over repeats of a metric that only implements ``compute``; it has no scores per sample to average."""
    each = [evaluate(samples, list(outputs()), [metric], slices=slices, run=run)[0] for outputs in repeats]
    result = _mean_result(each)
    for name, groups in each[0].slices.items():
        for group in groups:
            result.slices[name][group] = _mean_result([repeat.slices[name][group] for repeat in each])
    return result


def _mean_result(each: Sequence[MetricResult]) -> MetricResult:
    values = [math.nan if result.known_value is None else result.value for result in each]
    defined = [value for value in values if not math.isnan(value)]
    first = each[0]
    first.details = ResultDetails(merge_details([result.details for result in each]))
    first.details.repeats = RepeatDetails(repeat_spread(values))
    first.value, first.defined = (math.fsum(defined) / len(defined), True) if defined else (0.0, False)
    first.scores = first.outcomes = first.interval = None
    return first


class RepeatAccumulator(CollectingAccumulator):
    """Collects a metric's outcomes, repeat by repeat."""

    def _reduce(self, passes: Sequence[Scores], clusters: Clusters | None, *, keep_scores: bool) -> MetricResult:
        return result_over_repeats(
            self.metric, passes, signature=self.signature, clusters=clusters, keep_scores=keep_scores
        )
