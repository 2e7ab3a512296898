"""Accumulators: collect or reduce the outcomes of a metric batch by batch, and build its result."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.batch import Batch
from ..core.conventions import Signature
from ..core.metrics_base import BatchMetric, Metric, RunInfo, assemble_result, make_result, run_signature
from ..core.reduce import Clusters, Fold, StatMeans
from ..core.scores import Score, Scores, Status
from ..core.slices import Grouping, Rows
from ..core.types import MetricResult
from ..errors import AueporaWarning, MetricDefinitionError
from ..judge.metric import pairs_in_worker


class CollectingAccumulator:
    """Keeps all outcomes of a metric."""

    def __init__(self, metric: BatchMetric, run: RunInfo, *, keep_scores: bool = True, joined: bool = False) -> None:
        """``joined`` says that outcomes are already paired with those of other samples."""
        self.metric = metric
        self._joined = joined
        self.signature: Signature = run_signature(metric, run)
        self._run = run
        self._keep_scores = keep_scores
        self._parts: list[Scores] = []

    def add(self, scores: Scores, groups: Mapping[tuple[str, str], Rows]) -> None:
        """Add the outcomes of the next batch, and its rows by slice and group."""
        if self._joined and not self._keep_scores and scores.keys is not None:
            # Samples are paired already; those in no pair are only counted.
            used = zip(scores.keys, scores.counted.tolist(), strict=True)
            scores = replace(scores, keys=tuple(key if counted else None for key, counted in used))
        self._parts.append(scores)

    def result(self, grouping: Grouping) -> MetricResult:
        """The result of all batches."""
        scores = Scores.concat(self._parts)
        paired = scores if self._joined else self.metric.pair_samples(scores)
        clusters = grouping.clusters()
        result = self._result_of(paired, clusters, keep_scores=self._keep_scores)
        result.slices = {
            name: {
                group: self._result_of(
                    paired.take(rows) if self._joined else self.metric.select(scores, paired, rows),
                    None if clusters is None else clusters[rows],
                )
                for group, rows in groups.items()
            }
            for name, groups in grouping.rows().items()
        }
        return result

    def _result_of(self, scores: Scores, clusters: Clusters | None, *, keep_scores: bool = False) -> MetricResult:
        return make_result(self.metric, scores, signature=self.signature, keep_scores=keep_scores, clusters=clusters)


class StreamingAccumulator(CollectingAccumulator):
    """Reduces the outcomes of a metric as they come, in constant memory."""

    def __init__(self, metric: BatchMetric, run: RunInfo) -> None:
        super().__init__(metric, run)
        self._all: Fold = metric.reducer.fold()
        self._completed: Fold = metric.reducer.fold()
        self._tally: Counter[tuple[Status, str]] = Counter()
        self._means = StatMeans(metric.stat_names)
        self._counted = 0
        self._groups: dict[tuple[str, str], StreamingAccumulator] = {}

    def add(self, scores: Scores, groups: Mapping[tuple[str, str], Rows]) -> None:
        """Add the outcomes of the next batch, and its rows by slice and group."""
        self._all.add(scores)
        self._completed.add(scores.take(scores.status == Status.SCORED) if scores.status.any() else scores)
        self._tally.update(scores.tally())
        self._means.add(scores)
        self._counted += int(scores.counted.sum())
        for key, rows in groups.items():
            if key not in self._groups:
                self._groups[key] = StreamingAccumulator(self.metric, self._run)
            self._groups[key].add(scores.take(rows), {})

    def result(self, grouping: Grouping) -> MetricResult:
        """The result of all batches."""
        # Clusters are unknown without keeping samples: no interval is better than one that is too narrow.
        alone = grouping.clusters() is None
        result = self._folded(alone=alone)
        result.slices = {
            name: {group: self._groups[name, group]._folded(alone=alone) for group in groups}
            for name, groups in grouping.rows().items()
        }
        return result

    def _folded(self, *, alone: bool) -> MetricResult:
        interval = self._all.interval(*self.metric.range, binary=self.metric.binary) if alone else None
        failed = sum(n for (status, _), n in self._tally.items() if status is Status.MEASURE_FAILED)
        return assemble_result(
            self.metric,
            value=self._all.value(),
            completed=self._completed.value(),
            bounds=self._all.bounds(failed, *self.metric.range) if failed else None,
            num_samples=self._counted,
            tally=dict(self._tally),
            further=self._means.values(),
            signature=self.signature,
            scores=None,
            interval=interval,
        )


def make_accumulator(
    metric: BatchMetric, run: RunInfo, *, keep_scores: bool, joined: bool = False
) -> CollectingAccumulator:
    """The accumulator of a metric: it keeps all outcomes if they are requested, or if the metric pairs them.

    ``joined`` says that batches include the parents of their variants, and the worker pairs them.
    """
    if keep_scores or must_keep_scores(metric, joined=joined):
        paired = joined and pairs_in_worker(metric)
        return CollectingAccumulator(metric, run, keep_scores=keep_scores, joined=paired)
    return StreamingAccumulator(metric, run)


def must_keep_scores(metric: BatchMetric, *, joined: bool = False) -> bool:
    """Whether the result of a metric needs all its outcomes, even if the caller does not want them."""
    return metric.needs_all and not (joined and pairs_in_worker(metric) and not metric.details_need_all)


def compute_result(metric: Metric, batch: Batch) -> MetricResult:
    """The result of a user's metric that only implements ``compute``; if it raises, it has no value."""
    try:
        result = metric.compute(list(batch.samples), batch.present_outputs())
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        warnings.warn(f"metric '{metric.name}' raised {message}; it has no value", AueporaWarning, stacklevel=5)
        return MetricResult(metric.name, metric.target, 0.0, {"num_samples": 0, "error": message}, defined=False)
    if not isinstance(result, MetricResult):
        raise MetricDefinitionError(f"{type(metric).__name__}.compute returned {result!r}, not a MetricResult")
    if result.signature is None:
        kind = type(metric)
        result.signature = str(Signature(metric.name, {"by": f"{kind.__module__}.{kind.__qualname__}"}))
    value = math.nan if result.value is None else float(result.value)
    result.value, result.defined = (value, result.defined) if math.isfinite(value) else (0.0, False)
    if result.scores is not None and not isinstance(result.scores, Scores):
        scores = _user_scores(metric, list(result.scores), len(batch))
        result.scores, result.outcomes = scores, result.outcomes or scores.outcomes
    return result


def _user_scores(metric: Metric, values: Sequence[Any], n: int) -> Scores:
    if len(values) != n:
        raise MetricDefinitionError(
            f"{type(metric).__name__}.compute returned {len(values)} scores for {n} samples; give one per sample, "
            "None where it was not scored"
        )
    return Scores.from_list([Score.skip("not_scored") if value is None else Score(value) for value in values])
