"""The evaluation: all metrics in one pass over batches of samples and outputs, or over bare rankings."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from ..core.batch import Batch, check_samples, warn_notes
from ..core.conventions import Conventions, Signature
from ..core.details import ControlDetails
from ..core.metric_hooks import for_samples, pair_samples, require_repeats, select_scores
from ..core.metrics_base import (
    BatchMetric,
    Metric,
    RunInfo,
    add_groups_option,
    assemble_result,
    is_judged,
    make_result,
    run_signature,
    with_conventions,
    with_match,
)
from ..core.plan import EvaluationPlan, require_distinct_names, with_distinct_names
from ..core.reduce import Clusters, Fold, StatMeans
from ..core.registry import Spec, expand_metric, metric
from ..core.results import Results, query_texts
from ..core.scores import Score, Scores, Status
from ..core.slices import BatchMembership, Grouping, Rows, SliceSpec, map_groups, parse_slices, require_slice_values
from ..core.types import EvaluationSample, MetricResult, SystemOutputs, TargetCategory
from ..errors import (
    AlignmentError,
    AueporaWarning,
    BadTypeError,
    BadValueError,
    MetricDefinitionError,
    MissingFieldError,
)
from ..features.hits import PrecomputedHits
from ..features.rankings import rankings_batch
from ..options import PositiveInt, check_arguments
from ..runtime.processes import gc_paused
from .data_checks import DataCheck
from .executors import (
    BatchSource,
    Executor,
    ExecutorName,
    Notes,
    Scorable,
    SourcedBatch,
    make_executor,
    with_judges,
)
from .gold_match import GoldReading, MatchChoice, Pair

if TYPE_CHECKING:
    from ..judge.controls import JudgeControls
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession

# --- accumulators: collect or reduce the outcomes of a metric batch by batch, and build its result -------------------


class CollectingAccumulator:
    """Keeps all outcomes of a metric."""

    def __init__(self, metric: BatchMetric, run: RunInfo, *, keep_scores: bool = True) -> None:
        self.metric = metric
        self.signature: Signature = run_signature(metric, run)
        self._run = run
        self._keep_scores = keep_scores
        self._passes: list[list[Scores]] = []

    def start_pass(self) -> None:
        """Start the next pass over all samples; there are several where a system has answered several times."""
        self._passes.append([])

    def add(self, scores: Scores, groups: Mapping[tuple[str, str], Rows]) -> None:
        """Add the outcomes of the next batch, and its rows by slice and group."""
        self._passes[-1].append(scores)

    def result(self, grouping: Grouping) -> MetricResult:
        """The result of all batches."""
        whole = [Scores.concat(batches) for batches in self._passes]
        paired = [pair_samples(self.metric, scores) for scores in whole]
        clusters = grouping.clusters()

        def reduce_group(rows: Rows) -> MetricResult:
            passes = [
                select_scores(self.metric, scores, pairs, rows) for scores, pairs in zip(whole, paired, strict=True)
            ]
            own_clusters = None if clusters is None else clusters[rows]
            return self._reduce(passes, own_clusters, keep_scores=False)

        result = self._reduce(paired, clusters, keep_scores=self._keep_scores)
        result.slices = map_groups(grouping.rows(), reduce_group)
        return result

    def _reduce(self, passes: Sequence[Scores], clusters: Clusters | None, *, keep_scores: bool) -> MetricResult:
        """The result of the outcomes of each pass."""
        (scores,) = passes
        return make_result(self.metric, scores, signature=self.signature, keep_scores=keep_scores, clusters=clusters)


class StreamingAccumulator(CollectingAccumulator):
    """Reduces the outcomes of a metric as they come, in constant memory."""

    def __init__(self, metric: BatchMetric, run: RunInfo) -> None:
        super().__init__(metric, run)
        self._all: Fold = metric.reducer.fold()
        self._completed: Fold = metric.reducer.fold()
        self._tally: Counter[tuple[Status, str]] = Counter()
        self._means = StatMeans(metric.metadata.stat_names)
        self._cuts: Counter[int] = Counter()
        self._counted = 0
        self._groups: dict[tuple[str, str], StreamingAccumulator] = {}

    def add(self, scores: Scores, groups: Mapping[tuple[str, str], Rows]) -> None:
        """Add the outcomes of the next batch, and its rows by slice and group."""
        self._all.add(scores)
        self._completed.add(scores.take(scores.status == Status.SCORED) if scores.status.any() else scores)
        self._tally.update(scores.tally())
        self._means.add(scores)
        self._cuts += scores.count_cuts()
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
        for name, groups in grouping.rows().items():
            result.slices[name] = {group: self._groups[name, group]._folded(alone=alone) for group in groups}
        return result

    def _folded(self, *, alone: bool) -> MetricResult:
        interval = self._all.interval(*self.metric.range, binary=self.metric.metadata.binary) if alone else None
        failed = sum(n for (status, _), n in self._tally.items() if status is Status.MEASURE_FAILED)
        return assemble_result(
            self.metric,
            value=self._all.value(),
            completed=self._completed.value(),
            bounds=self._all.bounds(failed, *self.metric.range) if failed else None,
            num_samples=self._counted,
            tally=dict(self._tally),
            cuts=self._cuts,
            further=self._means.values(),
            signature=self.signature,
            scores=None,
            interval=interval,
        )


def make_accumulator(metric: BatchMetric, run: RunInfo, *, keep_scores: bool) -> CollectingAccumulator:
    """The accumulator of a metric: it keeps all outcomes if they are requested, or if the metric needs all of them."""
    if keep_scores or metric.metadata.needs_all:
        return CollectingAccumulator(metric, run, keep_scores=keep_scores)
    return StreamingAccumulator(metric, run)


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
        values = list(result.scores)
        if len(values) != len(batch):
            raise MetricDefinitionError(
                f"{type(metric).__name__}.compute returned {len(values)} scores for {len(batch)} samples; give one per "
                "sample, None where it was not scored"
            )
        scores = Scores.from_list([Score.skip("not_scored") if number is None else Score(number) for number in values])
        result.scores, result.outcomes = scores, result.outcomes or scores.outcomes
    return result


# --- the evaluation: all metrics in one pass over batches of samples and outputs, or over bare rankings --------------

Metrics = EvaluationPlan | Iterable[Spec | Metric] | Spec | Metric
Progress = Callable[[int], None]
"""Called with the number of samples of each finished batch."""

BATCH_SIZE = 1024


class EvaluationOptions(TypedDict, total=False):
    """The options that all evaluations have in common; ``evaluate`` describes them."""

    conventions: str | Conventions
    slices: Iterable[SliceSpec] | SliceSpec
    executor: ExecutorName | Executor
    workers: int | None
    keep_scores: bool
    run: RunInfo | None
    judging: JudgeSession | JudgePolicy | None
    progress: Progress | None


class Evaluation:
    """One evaluation: metrics, the executor that scores them, and what is recorded about the samples.

    Every public function of this package that evaluates makes one, and gives it batches to score.
    """

    def __init__(
        self,
        metrics: Metrics,
        conventions: str | Conventions = "auepora",
        *,
        slices: Iterable[SliceSpec] | SliceSpec = (),
        executor: ExecutorName | Executor = "serial",
        workers: int | None = None,
        keep_scores: bool = True,
        run: RunInfo | None = None,
        judging: JudgeSession | JudgePolicy | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.metrics = resolve_metrics(metrics, conventions)
        self.slices = parse_slices(slices)
        self._executor, self._workers = executor, workers
        self._keep_scores = keep_scores
        self._run = run or RunInfo()
        self._judging, self._progress = judging, progress
        self._check: DataCheck | None = None
        self._validated = False
        self.keep = keep_scores or any(
            not isinstance(metric, BatchMetric) or metric.metadata.needs_all for metric in self.metrics
        )
        """Whether ids and the rows of groups are kept."""
        self.grouping = Grouping(self.slices, keep=self.keep)
        """Ids, clusters and groups of the samples of the current pass."""

    def validate(self, samples: Sequence[EvaluationSample]) -> None:
        """Raise where all samples are known and a metric or a slice does not fit them, before anything is scored."""
        EvaluationPlan(self.metrics).validate_dataset(samples)
        require_slice_values(self.slices, samples)
        self.adapt(samples)
        self._validated = True

    def adapt(self, samples: Iterable[EvaluationSample]) -> None:
        """Adapt the metrics to all samples, which are read only where a metric needs them."""
        adapted: list[Metric] = []
        for chosen in self.metrics:
            if isinstance(chosen, BatchMetric):
                adapted.append(for_samples(chosen, samples))
            else:
                adapted.append(chosen)
        self.metrics = adapted

    def require_batch_metrics(self) -> None:
        """Raise for a metric that only computes over all samples at once."""
        for own_metric in self.metrics:
            if not isinstance(own_metric, BatchMetric):
                raise MetricDefinitionError(
                    f"metric '{own_metric.name}' implements only 'compute', which needs all samples at once; "
                    "use evaluate(), or write it as a SampleMetric"
                )

    @property
    def fields(self) -> frozenset[str]:
        """The fields that the metrics require, unless it is known that samples have them."""
        if self._validated:
            return frozenset()
        return frozenset[str]().union(*(metric.required_fields() for metric in self.metrics))

    def batches(self, pairs: Iterable[Pair], size: int) -> Iterator[Batch]:
        """Batches of samples with their outputs."""
        check = self._check = self._check or DataCheck()
        memory: dict[Hashable, Any] = {}
        source, fields = iter(pairs), self.fields
        while chunk := list(itertools.islice(source, size)):
            samples, outputs = _unzip(chunk)
            if not self._validated:
                check_samples(samples)
            self.grouping.add(samples, fields - self.grouping.annotated, outputs)
            check.add(samples, outputs)
            yield Batch(samples, outputs, memory=memory)

    def score(
        self,
        *passes: Iterable[Scorable],
        accumulator: type[CollectingAccumulator] | None = None,
        compute: Callable[[Metric, Grouping], MetricResult] | None = None,
        pause_gc: bool = False,
        stacklevel: int = 4,
    ) -> Results:
        """Score the batches of each pass and reduce the outcomes to results.

        ``compute`` gives the result of a metric that only computes over all samples at once. Garbage collection may be
        paused where batches come from lists, but not where a generator of the caller may produce garbage of its own.
        """
        for chosen in self.metrics:
            if isinstance(chosen, BatchMetric):
                require_repeats(chosen, len(passes))
        make = accumulator or make_accumulator
        accumulators = {
            metric.name: make(metric.for_run(self._run), self._run, keep_scores=self._keep_scores)
            for metric in self.metrics
            if isinstance(metric, BatchMetric)
        }
        notes: list[Notes] = []
        with make_executor(self._executor, self._workers) as opened, gc_paused() if pause_gc else nullcontext():
            executor = with_judges(opened, self.metrics, self._judging)
            for batches in passes:
                self.grouping = Grouping(self.slices, keep=self.keep)
                notes += self._score_pass(batches, list(accumulators.values()), executor)
        if notes:
            warn_notes(notes, stacklevel=stacklevel)
        results = Results()
        for own_metric in self.metrics:
            if own_metric.name in accumulators:
                results.append(accumulators[own_metric.name].result(self.grouping))
            else:
                assert compute is not None  # streams refuse metrics that only compute
                results.append(compute(own_metric, self.grouping))
            if "relevant_groups" in self.grouping.annotated:
                add_groups_option(own_metric, results[-1])
        if len(passes) == 1:  # means over repeats do not say which outcomes occur together
            self._add_joint_details(results)
        _add_controls(results, self.metrics, getattr(executor, "controls", None))
        results.sample_ids = self.grouping.ids if self._keep_scores else ()
        results.failed_outputs = self.grouping.failed_outputs
        if self._check is not None:
            self._check.finish(self.metrics, results)
        if not self._validated:
            _require_annotated(self.grouping, self.metrics, results)
        return results

    def _add_joint_details(self, results: Results) -> None:
        """Add the details that metrics compute from the scores of each other, where these are kept."""
        scored = [
            (metric, result.scores, result)
            for metric, result in zip(self.metrics, results, strict=True)
            if isinstance(metric, BatchMetric) and isinstance(result.scores, Scores)
        ]
        for chosen_metric, scores, result in scored:
            others = [(other, column) for other, column, _ in scored if other is not chosen_metric]
            if hasattr(chosen_metric, "joint_details"):
                result.details |= chosen_metric.joint_details(scores, others, self.grouping.clusters())

    def _score_pass(
        self, batches: Iterable[Scorable], accumulators: Sequence[CollectingAccumulator], executor: Executor
    ) -> Iterator[Notes]:
        """Pass the outcomes of every batch to the accumulators, and yield the warnings of metrics."""
        for accumulator in accumulators:
            accumulator.start_pass()
        for scored in executor.score(batches, [accumulator.metric for accumulator in accumulators]):
            if scored.members is not None:
                self.grouping.add_membership(scored.members)
            groups = self.grouping.next_batch()
            for accumulator, scores in zip(accumulators, scored.scores, strict=True):
                accumulator.add(scores, groups)
            if scored.notes:
                yield scored.notes
            if self._progress is not None:
                self._progress(scored.size)


def _add_controls(results: Results, metrics: Sequence[Metric], controls: JudgeControls | None) -> None:
    """Add the verdicts on control items to the details of each metric that calls a judge."""
    if controls is not None:
        judged = {metric.name for metric in metrics if isinstance(metric, BatchMetric) and is_judged(metric)}
        for result in results:
            if result.name in judged:
                result.details.controls = ControlDetails(controls.details(result.name))


def evaluate(
    samples: Iterable[EvaluationSample],
    outputs: Iterable[SystemOutputs | None] | Mapping[str, SystemOutputs],
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    executor: ExecutorName | Executor = "serial",
    workers: int | None = None,
    batch_size: int = BATCH_SIZE,
    keep_scores: bool = True,
    run: RunInfo | None = None,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
    match: MatchChoice | None = None,
) -> Results:
    """Score samples and outputs by all metrics in one pass.

    Outputs are aligned with the samples, or a mapping from sample id to output. One that is ``None``, or not in the
    mapping, is missing. ``slices`` break every result down by group: by label (``"labels.lang"``), by metadata
    (``"metadata.source.kind"``) or by a function of the sample (``{"long": lambda s: len(s.query) > 80}``).

    ``executor="processes"`` scores batches in several processes (``workers``, by default one per
    processor) and gives the same numbers to the last bit; a ``ProcessExecutor`` of your own is used and left open.
    ``judging`` configures the calls of judges, where a metric needs one.

    ``match`` is how gold is matched with retrieved documents: by ``"id"``, ``"span"``, ``"text"`` or ``"parent"``, or
    ``"auto"``, which decides by what samples and outputs contain. By default the conventions say it.

    Args:
        samples: The samples.
        outputs: One per sample, or by sample id.
        metrics: Names, mappings with options, or metrics.
        conventions: A preset, or conventions.
        batch_size: Samples per batch.
        keep_scores: Whether the results keep the scores of samples.
        run: Facts about the run for metrics that need them.
        progress: Called with the number of newly scored samples.

    Returns:
        A list of results, one per metric, with ``by_name``.

    Example:
        >>> evaluate(samples, outputs, ["recall@1"]).by_name["recall@1"].value
        0.5
    """
    evaluation = Evaluation(
        metrics,
        conventions,
        slices=slices,
        executor=executor,
        workers=workers,
        keep_scores=keep_scores,
        run=run,
        judging=judging,
        progress=progress,
    )
    sample_list = as_sequence(samples, "samples")
    check_samples(sample_list)
    output_list = (
        [outputs.get(row.sample_id) for row in sample_list]
        if isinstance(outputs, Mapping)
        else as_sequence(outputs, "outputs")
    )
    AlignmentError.check(len(sample_list), len(output_list))
    evaluation.validate(sample_list)
    size = check_batch_size(batch_size)

    def rows_batch(rows: Rows | None) -> Batch:
        whole = Batch(sample_list, output_list)
        return whole if rows is None else whole.take(rows)

    pairs: Iterable[Pair] = zip(sample_list, output_list, strict=True)
    reading = None if match is None else GoldReading(pairs, Conventions.of(conventions), match)
    if reading is not None:
        evaluation.metrics = [with_match(part, reading.resolved.match) for part in evaluation.metrics]
        pairs = reading.count(reading.pairs())
    results = evaluation.score(evaluation.batches(pairs, size), compute=partial(_compute, rows_batch), pause_gc=True)
    if reading is not None:
        reading.finish(evaluation.metrics, results)
    if results.sample_ids and isinstance(samples, (list, tuple)):
        results.texts = query_texts(sample_list, output_list)
    return results


def evaluate_stream(
    pairs: Iterable[Pair],
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    executor: ExecutorName | Executor = "serial",
    workers: int | None = None,
    batch_size: int = BATCH_SIZE,
    keep_scores: bool = True,
    run: RunInfo | None = None,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
    samples: Iterable[EvaluationSample] | None = None,
) -> Results:
    """Score pairs of sample and output as they come. With ``keep_scores=False`` memory does not grow with the data.

    ``samples`` are all samples; they are read only if they decide the tokenizer of ``bleu``. Without them those of the
    first batch decide, and it is an error if all references together would have decided otherwise.

    Metrics that pair samples, or break results down by group (``needs_all``), are the exception: their scores are kept
    internally, since a variant may come long after its parent.

    Args:
        pairs: Samples with their outputs.
        metrics: As for ``evaluate``; so are ``conventions``, ``slices``, ``executor``, ``workers``, ``batch_size``,
            ``run``, ``judging`` and ``progress``.

    Returns:
        The results, as ``evaluate`` gives them.

    Example:
        >>> evaluate_stream(zip(samples, outputs), ["recall@1"])[0].value
        0.5
    """
    evaluation = Evaluation(
        metrics,
        conventions,
        slices=slices,
        executor=executor,
        workers=workers,
        keep_scores=keep_scores,
        run=run,
        judging=judging,
        progress=progress,
    )
    evaluation.require_batch_metrics()
    size = check_batch_size(batch_size)
    if samples is not None:
        evaluation.adapt(samples)
        return evaluation.score(evaluation.batches(pairs, size))
    source, chosen, characters = iter(pairs), evaluation.metrics, Counter[str]()
    first = list(itertools.islice(source, size))
    evaluation.adapt(_unzip(first)[0])
    every: Iterable[Pair] = itertools.chain(first, source)
    if any(
        isinstance(chosen_metric, BatchMetric)
        and for_samples(chosen_metric, _samples_with({"中": 1})) is not chosen_metric
        for chosen_metric in chosen
    ):
        every = _counted(every, characters)
    results = evaluation.score(evaluation.batches(every, size))
    for before, used in zip(chosen, evaluation.metrics, strict=True):
        if characters and isinstance(before, BatchMetric) and isinstance(used, BatchMetric):
            decided = for_samples(before, _samples_with(characters)).signature
            if decided != used.signature:
                raise BadValueError(
                    f"'{before.name}': all references together decide for '{decided}', those of the first {len(first)} "
                    f"samples for '{used.signature}'; name the tokenizer, or use evaluate"
                )
    return results


def _samples_with(characters: Mapping[str, int]) -> Iterator[EvaluationSample]:
    """Samples whose references have these characters so many times."""
    for character, count in characters.items():
        yield EvaluationSample("", "", reference_answers=[character * count])


def _counted(pairs: Iterable[Pair], characters: Counter[str]) -> Iterator[Pair]:
    """The pairs, while the characters of their references are counted."""
    for sample, output in pairs:
        characters.update("".join(sample.references))
        yield sample, output


def evaluate_sources(
    sources: Iterable[BatchSource],
    metrics: Metrics,
    *,
    gold: GoldReading | None = None,
    samples: Iterable[EvaluationSample] = (),
    **options: Unpack[EvaluationOptions],
) -> Results:
    """Score batches that the workers read themselves, such as ranges of files; otherwise like ``evaluate_stream``.

    A source is a batch: its size decides how much is read at once and changes no result. ``gold`` gets the counts of
    all samples. ``samples`` are all samples; they are read only if they decide the tokenizer of ``bleu``.
    """
    evaluation = Evaluation(metrics, **options)
    evaluation.require_batch_metrics()
    evaluation.adapt(samples)
    slice_tuple, keep, fields = tuple(evaluation.slices), evaluation.keep, evaluation.fields
    counts_gold = gold is not None and gold.counts_all
    results = evaluation.score(SourcedBatch(source, slice_tuple, keep, fields, counts_gold) for source in sources)
    if gold is not None:
        gold.add_sums(evaluation.grouping.gold_sums)
    return results


def _require_annotated(grouping: Grouping, metrics: Sequence[Metric], results: Results) -> None:
    """Raise where a slice or a metric needs a field that no sample had."""
    grouping.require_groups()
    if results and any(result.details.num_scored + result.details.num_skipped for result in results):
        for metric in metrics:
            for name in metric.required_fields():
                if name not in grouping.annotated:
                    raise MissingFieldError(name, metric.name)


def resolve_metrics(metrics: Metrics, conventions: str | Conventions = "auepora") -> list[Metric]:
    """Metric objects from specs, objects or a plan, with these conventions unless they have their own."""
    if isinstance(metrics, EvaluationPlan):
        listed: Iterable[Spec | Metric] = metrics.metrics
    elif isinstance(metrics, (str, Mapping, Metric)):
        listed = [metrics]
    else:
        listed = as_sequence(metrics, "metrics")
    common = Conventions.of(conventions)
    chosen = list(itertools.chain.from_iterable(expand_metric(metric(spec)) for spec in listed))
    for chosen_metric in chosen:
        for attribute in ("name", "target"):
            if not hasattr(chosen_metric, attribute):
                raise MetricDefinitionError(
                    f"{type(chosen_metric).__name__} has no '{attribute}'; set it on the class or in __init__"
                )
        if not isinstance(chosen_metric.target, TargetCategory):
            raise MetricDefinitionError(
                f"the target of metric '{chosen_metric.name}' is {chosen_metric.target!r}, not a TargetCategory"
            )
    chosen = with_distinct_names(chosen)
    require_distinct_names(chosen)
    return [with_conventions(chosen_metric, common) for chosen_metric in chosen]


T = TypeVar("T")


def as_sequence(values: Iterable[T], what: str) -> Sequence[T]:
    """The values as a sequence."""
    if isinstance(values, (list, tuple)):
        return values
    try:
        return list(values)
    except TypeError:
        raise BadTypeError(f"{what} must be a list, not a {type(values).__name__}") from None


def _unzip(pairs: list[Pair]) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    try:
        return [sample for sample, _ in pairs], [output for _, output in pairs]
    except (TypeError, ValueError):
        raise BadTypeError("a stream is made of pairs of a sample and its output (or None)") from None


@check_arguments
def check_batch_size(batch_size: PositiveInt) -> int:
    """The batch size; raises unless it is an integer >= 1."""
    return batch_size


def _compute(rows_batch: Callable[[Rows | None], Batch], metric: Metric, grouping: Grouping) -> MetricResult:
    """The result of a metric that only computes, over all samples and over each group."""

    def compute_rows(rows: Rows | None) -> MetricResult:
        return compute_result(metric, rows_batch(rows))

    result = compute_rows(None)
    result.slices = map_groups(grouping.rows(), compute_rows)
    return result


# --- bare rankings: document ids alone, or precomputed hits ----------------------------------------------------------

# Bare ids are cheap to score, so that the fixed cost of a batch matters; larger batches still fit the cache.
RANKINGS_BATCH_SIZE = 16_384


def evaluate_rankings(
    gold: Iterable[Collection[str] | Mapping[str, int] | None] | Mapping[str, Collection[str] | Mapping[str, int]],
    ranked: Iterable[Sequence[str] | None] | Mapping[str, Sequence[str]],
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    ids: Iterable[str] | None = None,
    keep_scores: bool = True,
) -> Results:
    """Score bare rankings: per query the gold ids (or ``{id: level}``) and the returned ids, best first.

    A ranking of ``None`` is a missing output, gold of ``None`` a query that was not annotated. ``ids`` name the queries
    (their numbers by default). Given as mappings from query id, the queries of ``gold`` are scored.

    Args:
        ranked: The returned ids of each query.
        metrics: As for ``evaluate``; so are ``conventions`` and ``keep_scores``.

    Returns:
        The results, as ``evaluate`` gives them.

    Example:
        >>> evaluate_rankings([["a"], ["b"]], [["a", "c"], ["c", "b"]], ["mrr"])[0].value
        0.75
    """
    evaluation = Evaluation(metrics, conventions, keep_scores=keep_scores)
    if isinstance(gold, Mapping) != isinstance(ranked, Mapping):
        raise BadTypeError("gold and rankings must both be mappings from query id, or both be sequences")
    if isinstance(gold, Mapping) and isinstance(ranked, Mapping):
        ids, columns = list(gold), [ranked.get(query) for query in gold]
        gold, ranked = list(gold.values()), columns
    golds, rankings = as_sequence(gold, "gold"), as_sequence(ranked, "rankings")
    AlignmentError.check(len(golds), len(rankings), what=("gold entries", "rankings"))
    names = list(map(repr, range(len(golds))) if ids is None else map(str, ids))
    AlignmentError.check(len(golds), len(names), what=("gold entries", "ids"))

    def part(start: int, stop: int) -> Batch:
        return rankings_batch(golds[start:stop], rankings[start:stop], names[start:stop])

    return _evaluate_ids(evaluation, part, names, annotated=any(entry is not None for entry in golds))


def evaluate_hits(
    rankings: PrecomputedHits,
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    keep_scores: bool = True,
) -> Results:
    """Score rankings whose hits the reader has found already."""
    evaluation = Evaluation(metrics, conventions, keep_scores=keep_scores)
    return _evaluate_ids(evaluation, rankings.batch, list(rankings.ids), annotated=True)


def _evaluate_ids(
    evaluation: Evaluation, part: Callable[[int, int], Batch], names: list[str], *, annotated: bool
) -> Results:
    """Score batches of bare ids, of which ``part`` makes any range."""
    # Metrics that need more than gold ids are refused, as for a dataset of such samples.
    evaluation.validate([EvaluationSample("", "", relevant_docs=[] if annotated else None)] if names else [])

    def batches() -> Iterator[Batch]:
        for start in range(0, len(names), RANKINGS_BATCH_SIZE):
            stop = min(start + RANKINGS_BATCH_SIZE, len(names))
            evaluation.grouping.add_membership(BatchMembership(stop - start, tuple(names[start:stop])))
            yield part(start, stop)

    return evaluation.score(
        batches(), compute=partial(_compute, lambda _: part(0, len(names))), pause_gc=True, stacklevel=5
    )
