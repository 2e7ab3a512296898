"""Several outputs per sample: the mean of each sample's repeats is its score, and their spread is reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..judge.executor import with_judges
from .accumulators import CollectingAccumulator
from .batch import Batch, check_samples
from .conventions import Conventions
from .data_checks import DataCheck
from .engine import BATCH_SIZE, Metrics, Progress, collect_scores, evaluate, resolve_metrics
from .errors import AlignmentError, BadValueError
from .executors import Executor, ExecutorName, make_executor
from .metrics_base import BatchMetric, Metric, RunInfo
from .plan import EvaluationPlan
from .reduce import Clusters
from .repeat_aggregation import merge_details, repeat_spread, result_over_repeats
from .results import Results
from .scores import Scores
from .slices import Grouping, Rows, SliceSpec, parse_slices, require_slice_values
from .types import EvaluationSample, MetricResult, SystemOutputs

if TYPE_CHECKING:
    from ..judge.policy import JudgePolicy
    from ..judge.session import JudgeSession

__all__ = ["RepeatAccumulator", "evaluate_repeats"]

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
    run: RunInfo | None = None,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
) -> Results:
    """Score several outputs of a system for each sample.

    ``repeats`` are functions that return one output per sample, in order, on every call. A sample's score is the mean
    over its repeats, so that the interval is about samples and not calls. Metrics that are not means (BLEU, quantiles)
    have the mean of the repeats' values, and their interval resamples samples with all their repeats.
    ``details["repeats"]`` contains the value of each repeat, the spread within samples, and how many calls failed: a
    sample is failed only where all its repeats are.
    """
    chosen = resolve_metrics(metrics, conventions)
    check_samples(samples)
    EvaluationPlan(chosen).validate_dataset(samples)
    groups, facts = parse_slices(slices), run or RunInfo()
    require_slice_values(groups, samples)
    if not repeats:
        raise BadValueError("there must be at least one repeat to score")
    accumulators = {
        one.name: RepeatAccumulator(one.for_run(facts), facts) for one in chosen if isinstance(one, BatchMetric)
    }
    grouping, check = Grouping(groups, keep=True), DataCheck()
    with make_executor(executor, workers) as base_executor:
        scoring = with_judges(base_executor, chosen, judging)
        for outputs in repeats:
            grouping = Grouping(groups, keep=True)
            for accumulator in accumulators.values():
                accumulator.begin()
            collect_scores(
                _batches(samples, outputs(), batch_size, grouping, check),
                list(accumulators.values()),
                scoring,
                grouping,
                progress,
                stacklevel=4,
            )
    results = [
        accumulators[one.name].result(grouping)
        if one.name in accumulators
        else _compute_over_repeats(one, samples, repeats, slices=groups, run=facts)
        for one in chosen
    ]
    whole = Results(results, sample_ids=[sample.sample_id for sample in samples])
    check.finish(chosen, whole)
    return whole


def _batches(
    samples: Sequence[EvaluationSample], outputs: Outputs, size: int, grouping: Grouping, check: DataCheck
) -> Iterator[Batch]:
    memory: dict[Hashable, Any] = {}
    source, num_outputs = iter(outputs), 0
    for start in range(0, len(samples), size):
        part = samples[start : start + size]
        answers = list(islice(source, len(part)))
        num_outputs += len(answers)
        if len(answers) != len(part):
            raise AlignmentError(len(samples), num_outputs)
        grouping.add(part)
        check.add(part, answers)
        yield Batch(part, answers, memory=memory)
    if next(source, _END) is not _END:
        raise AlignmentError(len(samples), num_outputs + 1)


_END: Any = object()


def _compute_over_repeats(
    metric: Metric,
    samples: Sequence[EvaluationSample],
    repeats: Sequence[Callable[[], Outputs]],
    *,
    slices: Iterable[SliceSpec],
    run: RunInfo,
) -> MetricResult:
    """The mean over repeats of a metric that only implements ``compute``; it has no scores per sample to average."""
    each = [evaluate(samples, list(outputs()), [metric], slices=slices, run=run)[0] for outputs in repeats]
    result = _mean_result(each)
    result.slices = {
        name: {group: _mean_result([one.slices[name][group] for one in each]) for group in groups}
        for name, groups in each[0].slices.items()
    }
    return result


def _mean_result(each: Sequence[MetricResult]) -> MetricResult:
    first, values = each[0], [one.value if one.defined else math.nan for one in each]
    defined = [value for value in values if not math.isnan(value)]
    first.details = {**merge_details([one.details for one in each]), "repeats": repeat_spread(values)}
    first.value, first.defined = (math.fsum(defined) / len(defined), True) if defined else (0.0, False)
    first.scores = first.outcomes = first.interval = None
    return first


class RepeatAccumulator(CollectingAccumulator):
    """Collects a metric's outcomes, repeat by repeat."""

    def __init__(self, metric: BatchMetric, run: RunInfo) -> None:
        super().__init__(metric, run)
        self._repeats: list[list[Scores]] = []

    def begin(self) -> None:
        """Start the next repeat."""
        self._repeats.append([])

    def add(self, scores: Scores, groups: Mapping[tuple[str, str], Rows]) -> None:
        """Add the outcomes of the next batch of the current repeat."""
        self._repeats[-1].append(scores)

    def result(self, grouping: Grouping) -> MetricResult:
        """The result of all repeats."""
        whole = [Scores.concat(parts) for parts in self._repeats]
        paired = [self.metric.pair_samples(scores) for scores in whole]
        clusters = grouping.clusters()
        result = self._over_repeats(paired, clusters, keep_scores=True)
        result.slices = {
            name: {
                group: self._over_repeats(
                    [self.metric.select(one, other, rows) for one, other in zip(whole, paired, strict=True)],
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
        return result_over_repeats(
            self.metric, parts, signature=self.signature, clusters=clusters, keep_scores=keep_scores
        )
