"""Metadata of the metric behind a stored result: its reducer, range and direction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.conventions import PRESETS, Conventions
from ..core.engine import resolve_metrics
from ..core.errors import AueporaError
from ..core.metrics_base import BatchMetric, Metric, RunInfo
from ..core.reduce import Mean, Reducer
from ..core.repeat_aggregation import mean_over_repeats
from ..core.scores import Scores
from ..core.types import MetricResult, TargetCategory
from ..store.records import RunRecord
from ..store.stored_plan import plan_conventions, run_info

__all__ = ["MetricMeta", "likely_metrics", "lookup_metric"]

_TOLERANCE = 1e-9
"""The largest relative difference between a recomputed and a stored value for the reducer to be the right one."""


@dataclass(frozen=True, slots=True)
class MetricMeta:
    """What a comparison needs to know about a metric."""

    reducer: Reducer | None
    """``None`` if it is unknown how the value follows from the scores, or if there are no scores."""
    range: tuple[float, float] = (-math.inf, math.inf)
    higher_is_better: bool = True
    higher_score_is_better: bool = True
    """The same for the score of one sample, which may differ: throughput is better if higher, its timings if lower."""
    binary: bool = False
    note: str | None = None
    worst_stats: Sequence[float] | None = None
    """The statistics of a failed output, if the value is computed from statistics."""
    rounding: float = 0.0
    """Two scores of a sample that differ by at most this are equal."""
    by_chunk_id: bool = False
    """Whether ids of chunks are compared, which mean nothing if documents were chunked differently."""
    by_parent_id: bool = False
    """Whether ids of the documents that chunks are parts of are compared."""
    worst_failed: float | None = None
    """The score of a failed output; ``None`` if it has none."""
    missing: str = "fail"
    """How the convention counts a missing output in the value of a single run."""
    is_paired: bool = False
    """Whether the score of a sample depends on the outputs of other samples."""

    @property
    def worst(self) -> float:
        """The worst score there can be; infinite where there is none."""
        return self.range[0 if self.higher_score_is_better else 1]

    @property
    def is_mean(self) -> bool:
        """Whether the value is the plain mean of the scores, so that per-sample differences suffice."""
        if not isinstance(self.reducer, Mean):
            return False
        return type(self.reducer).value is Mean.value and type(self.reducer).interval is Mean.interval

    @property
    def counts_missing(self) -> bool:
        """Whether a missing output counts at the worst value; else a comparison with missing outputs has no verdict."""
        return self.worst_failed is not None and self.is_mean and not self.is_paired


def lookup_metric(result: MetricResult, record: RunRecord, metric_objects: Mapping[str, Metric]) -> MetricMeta:
    """The metadata of a result's metric, from the object of its name, the run's plan, or its name alone.

    A metric is accepted if its signature is the stored one, or if its reducer gives the stored value for the stored
    scores. A metric that is not registered counts as a mean if its value is the mean of its scores.
    """
    scores = result.scores if isinstance(result.scores, Scores) else None
    for one in likely_metrics(result, record, metric_objects):
        if not isinstance(one, BatchMetric):
            continue
        if str(one.signature.with_options(**one.run_signature_options(run_info(record)))) == result.signature or (
            scores is not None and _reproduces_value(one.reducer, scores, result)
        ):
            return _meta_of(one, scores)
    if scores is None:
        return MetricMeta(None, note="no scores per sample, so there is no interval and no test")
    lower = bool(result.details.get("lower_is_better", result.target is TargetCategory.LATENCY))
    direction = "lower" if lower else "higher"
    if _reproduces_value(Mean(), scores, result):
        note = f"not known in this process: compared as a mean, {direction} taken for better"
        return MetricMeta(Mean(), higher_is_better=not lower, higher_score_is_better=not lower, note=note)
    note = "not known in this process, and not the mean of its scores: there is no interval and no test"
    return MetricMeta(None, higher_is_better=not lower, higher_score_is_better=not lower, note=note)


def _meta_of(one: BatchMetric, scores: Scores | None) -> MetricMeta:
    width = None if scores is None or scores.stats is None else scores.stats.shape[1]
    worst_stats = one.worst_stats
    return MetricMeta(
        None if scores is None else one.reducer,
        one.range,
        one.higher_is_better,
        one.higher_score_is_better,
        one.binary,
        "no scores per sample, so there is no interval and no test" if scores is None else None,
        worst_stats if worst_stats is None or width in (None, len(worst_stats)) else None,  # a critic may change them
        one.rounding,
        one.by_chunk_id,
        one.by_parent_id,
        one.worst,
        one.active_conventions.missing,
        one.is_paired and one.needs_all,
    )


def _reproduces_value(reducer: Reducer, scores: Scores, result: MetricResult) -> bool:
    """Whether this reducer gives the stored value for the stored scores."""
    try:
        fold, folded = mean_over_repeats(reducer, scores)
        value = fold.value(folded)
    except Exception:  # a reducer of another metric got statistics that do not fit
        return False
    if math.isnan(value) or not result.defined:
        return math.isnan(value) and not result.defined
    return abs(value - result.value) <= _TOLERANCE * max(1.0, abs(result.value))


def likely_metrics(result: MetricResult, record: RunRecord, metric_objects: Mapping[str, Metric]) -> Iterator[Metric]:
    """Metrics that may have produced this result, the most likely first."""
    facts, rules, name = run_info(record), plan_conventions(record), result.name
    if name in metric_objects:
        yield from _build(metric_objects[name], rules, facts)
    for spec in record.plan.get("metrics") or ():
        for one in _build(spec, rules, facts):
            if one.name == name:
                yield one
    # Scored again later, perhaps by other conventions than the plan's, or under a name of its own.
    plain = (result.signature or name).partition("|")[0]
    for spec in dict.fromkeys((name, plain)):
        for conventions in (rules, *PRESETS.values()):
            yield from _build(spec, conventions, facts)


def _build(spec: Any, rules: Conventions, facts: RunInfo) -> Iterator[Metric]:
    try:
        (one,) = resolve_metrics([spec], rules)
    except AueporaError:  # not registered in this process, or with options that it no longer has
        return
    yield one.for_run(facts) if isinstance(one, BatchMetric) else one
