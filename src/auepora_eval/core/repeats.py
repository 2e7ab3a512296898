"""Several outputs per sample: the mean of each sample's repeats is its score, and their spread is reported."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from .batch import Batch, check_samples
from .conventions import Conventions
from .engine import BATCH_SIZE, Metrics, Progress, collect, evaluate, resolve_metrics
from .errors import AlignmentError, BadValueError
from .executors import Executor, ExecutorName, chosen_executor
from .metrics_base import BatchMetric, Metric, RunFacts
from .plan import EvaluationPlan
from .reduce import Clusters, Mean, mean
from .results import Results
from .scores import Scores, Status
from .scoring import make_result
from .slices import Grouping, Rows, SliceSpec, require_members, slices_of
from .tally import KeptScores
from .types import EvaluationSample, MetricResult, SystemOutputs

__all__ = ["RepeatedScores", "evaluate_repeats"]

Outputs = Iterable[SystemOutputs | None]


def evaluate_repeats(
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Outputs]],
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    executor: ExecutorName | Executor = "serial",
    workers: int | None = None,
    batch_size: int = BATCH_SIZE,
    run: RunFacts | None = None,
    progress: Progress | None = None,
) -> Results:
    """Score outputs that a system gave to the same samples several times.

    ``repeats`` are functions that give one output per sample, in order, anew each time they are called. A sample's
    score is the mean over its repeats, so that the interval speaks of samples and not of calls; what is no mean
    (BLEU, quantiles) is computed over all outputs, drawn by sample. ``details["repeats"]`` has the value of each
    repeat and how far the repeats of one sample lie apart.
    """
    chosen = resolve_metrics(metrics, conventions)
    check_samples(samples)
    EvaluationPlan(chosen).validate_dataset(samples)
    groups, facts = slices_of(slices), run or RunFacts()
    require_members(groups, samples)
    if not repeats:
        raise BadValueError("there must be at least one repeat to score")
    tallies = {one.name: RepeatedScores(one.for_run(facts), facts) for one in chosen if isinstance(one, BatchMetric)}
    grouping = Grouping(groups, keep=True)
    with chosen_executor(executor, workers) as scoring:
        for outputs in repeats:
            grouping = Grouping(groups, keep=True)
            for tally in tallies.values():
                tally.begin()
            collect(
                _batches(samples, outputs(), batch_size, grouping),
                list(tallies.values()),
                scoring,
                grouping,
                progress,
                stacklevel=4,
            )
    results = [
        tallies[one.name].result(grouping)
        if one.name in tallies
        else _computed(one, samples, repeats, slices=groups, run=facts)
        for one in chosen
    ]
    return Results(results, sample_ids=[sample.sample_id for sample in samples])


def _batches(samples: Sequence[EvaluationSample], outputs: Outputs, size: int, grouping: Grouping) -> Iterator[Batch]:
    memory: dict[Hashable, Any] = {}
    source, given = iter(outputs), 0
    for start in range(0, len(samples), size):
        part = samples[start : start + size]
        answers = list(islice(source, len(part)))
        given += len(answers)
        if len(answers) != len(part):
            raise AlignmentError(len(samples), given)
        grouping.add(part)
        yield Batch(part, answers, memory=memory)
    if next(source, _END) is not _END:
        raise AlignmentError(len(samples), given + 1)


_END: Any = object()


def _computed(
    metric: Metric,
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Outputs]],
    *,
    slices: Iterable[SliceSpec],
    run: RunFacts,
) -> MetricResult:
    """The mean over repeats of a user's metric that only computes; it has no score per sample to average."""
    each = [evaluate(samples, list(outputs()), [metric], slices=slices, run=run)[0] for outputs in repeats]
    result = _mean_of(each)
    result.slices = {
        name: {group: _mean_of([one.slices[name][group] for one in each]) for group in groups}
        for name, groups in each[0].slices.items()
    }
    return result


def _mean_of(each: Sequence[MetricResult]) -> MetricResult:
    first, values = each[0], [one.value if one.defined else math.nan for one in each]
    there = [value for value in values if not math.isnan(value)]
    first.details["repeats"] = _spread(values)
    first.value, first.defined = (math.fsum(there) / len(there), True) if there else (0.0, False)
    first.scores = first.outcomes = first.interval = None
    return first


class RepeatedScores(KeptScores):
    """Collects a metric's outcomes, repeat by repeat."""

    def __init__(self, metric: BatchMetric, run: RunFacts) -> None:
        super().__init__(metric, run)
        self._repeats: list[list[Scores]] = []

    def begin(self) -> None:
        """What comes next belongs to the next repeat."""
        self._repeats.append([])

    def add(self, scores: Scores, groups: Mapping[tuple[str, str], Rows]) -> None:
        """Take in the outcomes of the next batch of the repeat that was begun last."""
        self._repeats[-1].append(scores)

    def result(self, grouping: Grouping) -> MetricResult:
        """The result of all repeats."""
        whole = [Scores.concat(parts) for parts in self._repeats]
        joined = [self.metric.joined(scores) for scores in whole]
        clusters = grouping.clusters()
        result = self._over_repeats(joined, clusters, keep_scores=True)
        result.slices = {
            name: {
                group: self._over_repeats(
                    [self.metric.taken(one, other, rows) for one, other in zip(whole, joined, strict=True)],
                    None if clusters is None else clusters[rows],
                )
                for group, rows in groups.items()
            }
            for name, groups in grouping.rows().items()
        }
        return result

    def _over_repeats(
        self, parts: Sequence[Scores], clusters: Clusters | None, *, keep_scores: bool = False
    ) -> MetricResult:
        values = [self.metric.reducer.value(part) for part in parts]
        means = per_sample_means(parts)
        if isinstance(self.metric.reducer, Mean) and not self.metric.needs_all:
            result = self._result_of(means, clusters, keep_scores=keep_scores)
            self._settle_completed(result, parts)
        else:
            # All outputs together; those of one sample stay together when samples are drawn anew.
            units = np.arange(len(means), dtype=np.intp) if clusters is None else clusters
            pooled = Scores.concat(parts)
            result = make_result(
                self.metric,
                pooled,
                signature=self.signature,
                keep_scores=False,
                clusters=np.tile(units, len(parts)),
            )
            if keep_scores:
                result.scores, result.outcomes = means, means.outcomes
        result.details["repeats"] = _spread(values, parts)
        return result

    def _settle_completed(self, result: MetricResult, parts: Sequence[Scores]) -> None:
        """``value_completed`` over what was answered, where some of a sample's repeats failed and others did not."""
        if not any((part.status == Status.SYSTEM_FAILED).any() for part in parts):
            return
        answered = [
            part.replaced(part.status == Status.SYSTEM_FAILED, Status.SKIPPED, "failed", math.nan) for part in parts
        ]
        completed = self.metric.reducer.value(per_sample_means(answered))
        result.details["value_completed"] = None if math.isnan(completed) else completed


def per_sample_means(parts: Sequence[Scores]) -> Scores:
    """Per sample the mean over its repeats that count, and the best of their outcomes.

    A sample that was scored once is scored; its mean holds the failed repeats at what they count.
    """
    if len(parts) == 1:
        return parts[0]
    values = np.stack([part.values for part in parts])
    counts = (~np.isnan(values)).sum(axis=0)
    totals = np.array([math.fsum(column[~np.isnan(column)]) for column in values.T])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(counts > 0, totals / counts, np.nan)
    status = np.stack([part.status for part in parts])
    chosen = _first_by_rank(status)
    columns = np.arange(status.shape[1])
    names: dict[str, int] = {"": 0}
    codes = np.stack(
        [
            np.array([names.setdefault(name, len(names)) for name in part.reason_names], dtype=np.int16)[
                part.reason_codes
            ]
            for part in parts
        ]
    )
    stats = None
    if all(part.stats is not None for part in parts):
        wide = np.stack([part.stats for part in parts if part.stats is not None])
        with np.errstate(invalid="ignore", divide="ignore"):
            there = ~np.isnan(wide)
            stats = np.where(there.any(axis=0), np.nansum(wide, axis=0) / there.sum(axis=0), np.nan)
    return Scores(means, status[chosen, columns], codes[chosen, columns], tuple(names), stats, parts[0].keys)


_RANK = np.array([0, 3, 1, 2])
"""How much an outcome says: scored, then a failure of the system, then one of the measurement, then a skip."""


def _first_by_rank(status: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Per sample the repeat whose outcome stands for all of them."""
    chosen: npt.NDArray[np.intp] = np.argmin(_RANK[status], axis=0)
    return chosen


def _spread(values: Sequence[float], parts: Sequence[Scores] = ()) -> dict[str, Any]:
    """The value of each repeat, how far they lie apart, and how far the repeats of one sample do."""
    there = [value for value in values if not math.isnan(value)]
    spread: dict[str, Any] = {
        "count": len(values),
        "values": [None if math.isnan(value) else value for value in values],
        "sd": statistics.stdev(there) if len(there) > 1 else None,
    }
    if parts:
        spread["sd_within_samples"] = _within(np.stack([part.values for part in parts]))
        spread["num_system_failed"] = sum(int((part.status == Status.SYSTEM_FAILED).sum()) for part in parts)
        spread["num_measure_failed"] = sum(int((part.status == Status.MEASURE_FAILED).sum()) for part in parts)
    return spread


def _within(values: npt.NDArray[np.float64]) -> float | None:
    """The root of the mean variance between the repeats of a sample; ``None`` where no sample has two of them."""
    several = (~np.isnan(values)).sum(axis=0) > 1
    if not several.any():
        return None
    return math.sqrt(mean(np.nanvar(values[:, several], axis=0, ddof=1)))
