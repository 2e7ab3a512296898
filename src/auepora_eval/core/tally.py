"""What becomes of outcomes while an evaluation runs: kept or folded, per metric, until they are a result."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .batch import Batch
from .errors import AueporaWarning, MetricDefinitionError
from .metrics_base import BatchMetric, Metric, RunFacts
from .reduce import Clusters, Fold, StatMeans
from .scores import Score, Scores, Status
from .scoring import any_clustered, make_result, result_of
from .signature import Signature
from .types import EvaluationSample, MetricResult

__all__ = ["FoldedScores", "KeptScores", "StreamClusters", "computed_result"]


class StreamClusters:
    """Which samples of a stream belong together: in full where scores are kept, else only whether any do."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._numbers: dict[str, int] = {}
        self._codes: list[int] = []
        self._any = False

    def add(self, samples: Sequence[EvaluationSample]) -> None:
        """Take in the next samples."""
        self._any = self._any or any_clustered(samples)
        if self._keep:
            numbers = self._numbers
            self._codes += [numbers.setdefault(sample.cluster, len(numbers)) for sample in samples]

    def codes(self) -> Clusters | None:
        """A number per cluster, sample by sample; None where no sample belongs to one."""
        return np.array(self._codes, dtype=np.intp) if self._any else None


class KeptScores:
    """Collects a metric's outcomes, all of them."""

    def __init__(self, metric: BatchMetric, run: RunFacts) -> None:
        self.metric = metric
        self.signature: Signature = metric.signature.adding(**metric.run_choices(run))
        self._parts: list[Scores] = []

    def add(self, scores: Scores) -> None:
        """Take in the outcomes of the next batch."""
        self._parts.append(scores)

    def result(self, clusters: Clusters | None) -> MetricResult:
        """The result of all batches."""
        return make_result(self.metric, Scores.concat(self._parts), signature=self.signature, clusters=clusters)


class FoldedScores(KeptScores):
    """Folds a metric's outcomes as they come and forgets them."""

    def __init__(self, metric: BatchMetric, run: RunFacts) -> None:
        super().__init__(metric, run)
        self._all: Fold = metric.reducer.fold()
        self._completed: Fold = metric.reducer.fold()
        self._tally: Counter[tuple[Status, str]] = Counter()
        self._means = StatMeans(metric.stat_names)
        self._counted = 0

    def add(self, scores: Scores) -> None:
        """Take in the outcomes of the next batch."""
        self._all.add(scores)
        self._completed.add(scores.take(scores.status == Status.SCORED) if scores.status.any() else scores)
        self._tally.update(scores.tally())
        self._means.add(scores)
        self._counted += int(scores.counted.sum())

    def result(self, clusters: Clusters | None) -> MetricResult:
        """The result of all batches."""
        value = self._all.value()
        # Which samples belong together cannot be told without keeping them: no interval rather than one too narrow.
        alone = clusters is None
        interval = self._all.interval(*self.metric.range, binary=self.metric.binary) if alone else None
        failed = sum(n for (status, _), n in self._tally.items() if status is Status.MEASURE_FAILED)
        bounds = None
        if failed and all(map(math.isfinite, self.metric.range)):
            bounds = self._all.bounds(failed, *self.metric.range)
        return result_of(
            self.metric,
            value=value,
            completed=self._completed.value(),
            bounds=bounds,
            num_samples=self._counted,
            tally=dict(self._tally),
            means=self._means.values(),
            signature=self.signature,
            scores=None,
            interval=interval,
        )


def computed_result(metric: Metric, batch: Batch) -> MetricResult:
    """The result of a user's metric that only implements ``compute``; if it raises, the others keep their numbers."""
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
        scores = _own_scores(metric, list(result.scores), len(batch))
        result.scores, result.outcomes = scores, result.outcomes or scores.outcomes
    return result


def _own_scores(metric: Metric, given: Sequence[Any], n: int) -> Scores:
    if len(given) != n:
        raise MetricDefinitionError(
            f"{type(metric).__name__}.compute returned {len(given)} scores for {n} samples; give one per sample, "
            "None where it was not scored"
        )
    return Scores.from_list([Score.skip("not_scored") if value is None else Score(value) for value in given])
