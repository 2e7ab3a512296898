"""The evaluation: all metrics in one pass over batches of samples and outputs, or over bare rankings."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.batch import Batch, check_samples, warn_notes
from ..core.conventions import Conventions, Signature
from ..core.metrics_base import (
    BatchMetric,
    Metric,
    RunInfo,
    assemble_result,
    make_result,
    pairs_in_worker,
    run_signature,
    with_conventions,
)
from ..core.plan import EvaluationPlan, require_distinct_names, with_distinct_names
from ..core.reduce import Clusters, Fold, StatMeans
from ..core.registry import Spec, metric
from ..core.results import Results
from ..core.scores import Score, Scores, Status
from ..core.slices import Grouping, Rows, SliceSpec, parse_slices, require_slice_values
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
from ..runtime.processes import gc_paused
from .data_checks import DataCheck
from .executors import (
    BatchSource,
    Executor,
    ExecutorName,
    Scorable,
    SerialExecutor,
    SourcedBatch,
    make_executor,
    with_judges,
)

if TYPE_CHECKING:
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession

# --- accumulators: collect or reduce the outcomes of a metric batch by batch, and build its result -------------------


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
        self._means = StatMeans(metric.metadata.stat_names)
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
        interval = self._all.interval(*self.metric.range, binary=self.metric.metadata.binary) if alone else None
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
    return metric.metadata.needs_all and not (
        joined and pairs_in_worker(metric) and not metric.metadata.details_need_all
    )


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


# --- the evaluation: all metrics in one pass over batches of samples and outputs, or over bare rankings --------------

Metrics = EvaluationPlan | Iterable[Spec | Metric] | Spec | Metric
Progress = Callable[[int], None]
"""Called with the number of samples of each finished batch."""

BATCH_SIZE = 1024


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
) -> Results:
    """Score samples and outputs by all metrics in one pass.

    Outputs are aligned with the samples, or a mapping from sample id to output. One that is ``None``, or not in the
    mapping, is missing. ``slices`` break every result down by group: by label (``"labels.lang"``), by metadata
    (``"metadata.source.kind"``) or by a function of the sample (``{"long": lambda s: len(s.query) > 80}``).

    ``executor="processes"`` scores batches in several processes (``workers``, by default one per
    processor) and gives the same numbers to the last bit; a ``ProcessExecutor`` of your own is used and left open.
    ``judging`` configures the calls of judges, where a metric needs one.
    """
    chosen = resolve_metrics(metrics, conventions)
    sample_list = as_sequence(samples, "samples")
    check_samples(sample_list)
    output_list = (
        [outputs.get(row.sample_id) for row in sample_list]
        if isinstance(outputs, Mapping)
        else as_sequence(outputs, "outputs")
    )
    if len(sample_list) != len(output_list):
        raise AlignmentError(len(sample_list), len(output_list))
    EvaluationPlan(chosen).validate_dataset(sample_list)
    size = check_batch_size(batch_size)
    memory: dict[Hashable, Any] = {}
    grouping, check = Grouping(parse_slices(slices), keep=True), DataCheck()
    require_slice_values(grouping.slices, sample_list)

    def batches() -> Iterator[Batch]:
        for start in range(0, len(sample_list), size):
            part = sample_list[start : start + size]
            grouping.add(part)
            check.add(part, output_list[start : start + size])
            yield Batch(part, output_list[start : start + size], memory=memory)

    def make_batch(chosen_rows: Rows | None = None) -> Batch:
        if chosen_rows is None:
            return Batch(sample_list, output_list)
        return Batch([sample_list[row] for row in chosen_rows], [output_list[row] for row in chosen_rows])

    with make_executor(executor, workers) as scoring:
        return run_metrics(
            batches(),
            chosen,
            run or RunInfo(),
            keep_scores,
            progress,
            executor=with_judges(scoring, chosen, judging),
            grouping=grouping,
            make_batch=make_batch,
            check=check,
        )


def evaluate_stream(
    pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]],
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
) -> Results:
    """Score pairs of sample and output as they come. With ``keep_scores=False`` memory does not grow with the data.

    Metrics that pair samples, or break results down by group (``needs_all``), are the exception: their scores are kept
    internally, since a variant may come long after its parent.
    """
    chosen = resolve_metrics(metrics, conventions)
    _require_batch_metrics(chosen)
    size = check_batch_size(batch_size)
    grouping, check = Grouping(parse_slices(slices), keep=keep_scores or _any_keeps_scores(chosen)), DataCheck()
    memory: dict[Hashable, Any] = {}
    fields = {name for one in chosen for name in one.required_fields()}

    def batches() -> Iterator[Batch]:
        source = iter(pairs)
        while chunk := list(itertools.islice(source, size)):
            samples, outputs = _unzip(chunk)
            check_samples(samples)
            grouping.add(samples, fields - grouping.annotated)
            check.add(samples, outputs)
            yield Batch(samples, outputs, memory=memory)

    with make_executor(executor, workers) as scoring:
        results = run_metrics(
            batches(),
            chosen,
            run or RunInfo(),
            keep_scores,
            progress,
            executor=with_judges(scoring, chosen, judging),
            grouping=grouping,
            make_batch=None,
            check=check,
        )
    _require_annotated(grouping, chosen, results)
    return results


def evaluate_sources(
    sources: Iterable[BatchSource],
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    slices: Iterable[SliceSpec] | SliceSpec = (),
    executor: ExecutorName | Executor = "serial",
    workers: int | None = None,
    keep_scores: bool = True,
    joined: bool = False,
    run: RunInfo | None = None,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
) -> Results:
    """Score batches that the workers read themselves, such as ranges of files; otherwise like ``evaluate_stream``.

    A source is a batch: its size decides how much is read at once and changes no result. With ``joined`` each source
    also reads the parents of its variants (``FamilySource``), so that metrics over pairs need not wait for all samples.
    """
    chosen = resolve_metrics(metrics, conventions)
    _require_batch_metrics(chosen)
    grouping = Grouping(parse_slices(slices), keep=keep_scores or _any_keeps_scores(chosen, joined=joined))
    fields = frozenset(name for one in chosen for name in one.required_fields())
    slice_tuple = tuple(grouping.slices)
    batches = (SourcedBatch(source, slice_tuple, grouping.keep, fields, joined) for source in sources)
    with make_executor(executor, workers) as scoring:
        results = run_metrics(
            batches,
            chosen,
            run or RunInfo(),
            keep_scores,
            progress,
            executor=with_judges(scoring, chosen, judging),
            grouping=grouping,
            make_batch=None,
            joined=joined,
        )
    _require_annotated(grouping, chosen, results)
    return results


def _require_batch_metrics(metrics: Sequence[Metric]) -> None:
    for one in metrics:
        if not isinstance(one, BatchMetric):
            raise MetricDefinitionError(
                f"metric '{one.name}' implements only 'compute', which needs all samples at once; "
                "use evaluate(), or write it as a SampleMetric"
            )


def _any_keeps_scores(metrics: Sequence[Metric], *, joined: bool = False) -> bool:
    """Whether a metric keeps all scores, even if the caller does not want them."""
    return any(isinstance(one, BatchMetric) and must_keep_scores(one, joined=joined) for one in metrics)


def _require_annotated(grouping: Grouping, metrics: Sequence[Metric], results: Results) -> None:
    """Raise where a slice or a metric needs a field that no sample had."""
    grouping.require_groups()
    if results and any(result.details["num_scored"] + result.details["num_skipped"] for result in results):
        for one in metrics:
            for name in one.required_fields():
                if name not in grouping.annotated:
                    raise MissingFieldError(name, one.name)


def resolve_metrics(metrics: Metrics, conventions: str | Conventions = "auepora") -> list[Metric]:
    """Metric objects from specs, objects or a plan, with these conventions unless they have their own."""
    if isinstance(metrics, EvaluationPlan):
        listed: Iterable[Spec | Metric] = metrics.metrics
    elif isinstance(metrics, (str, Mapping, Metric)):
        listed = [metrics]
    else:
        listed = as_sequence(metrics, "metrics")
    common = Conventions.of(conventions)
    chosen = [metric(one) for one in listed]
    for one in chosen:
        for attribute in ("name", "target"):
            if not hasattr(one, attribute):
                raise MetricDefinitionError(
                    f"{type(one).__name__} has no '{attribute}'; set it on the class or in __init__"
                )
        if not isinstance(one.target, TargetCategory):
            raise MetricDefinitionError(f"the target of metric '{one.name}' is {one.target!r}, not a TargetCategory")
    chosen = with_distinct_names(chosen)
    require_distinct_names(chosen)
    return [with_conventions(one, common) for one in chosen]


T = TypeVar("T")


def as_sequence(values: Iterable[T], what: str) -> Sequence[T]:
    """The values as a sequence."""
    if isinstance(values, (list, tuple)):
        return values
    try:
        return list(values)
    except TypeError:
        raise BadTypeError(f"{what} must be a list, not a {type(values).__name__}") from None


def _unzip(
    pairs: list[tuple[EvaluationSample, SystemOutputs | None]],
) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    try:
        return [sample for sample, _ in pairs], [output for _, output in pairs]
    except (TypeError, ValueError):
        raise BadTypeError("a stream is made of pairs of a sample and its output (or None)") from None


def check_batch_size(batch_size: int) -> int:
    """The batch size; raises unless it is an integer >= 1."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise BadValueError(f"batch_size must be an integer >= 1, not {batch_size!r}")
    return batch_size


def collect_scores(
    batches: Iterable[Scorable],
    accumulators: Sequence[CollectingAccumulator],
    executor: Executor,
    grouping: Grouping,
    progress: Progress | None,
    *,
    stacklevel: int = 3,
) -> None:
    """Score every batch and pass the outcomes to the accumulators; warnings of metrics are emitted at the end."""
    notes: list[dict[str, tuple[int, str]]] = []
    for scored in executor.score(batches, [accumulator.metric for accumulator in accumulators]):
        if scored.members is not None:
            grouping.add_membership(scored.members)
        groups = grouping.next_batch()
        for accumulator, scores in zip(accumulators, scored.scores, strict=True):
            accumulator.add(scores, groups)
        if scored.notes:
            notes.append(scored.notes)
        if progress is not None:
            progress(scored.size)
    if notes:
        warn_notes(notes, stacklevel=stacklevel)


def run_metrics(
    batches: Iterable[Scorable],
    metrics: Sequence[Metric],
    run: RunInfo,
    keep_scores: bool,
    progress: Progress | None,
    *,
    executor: Executor,
    grouping: Grouping,
    make_batch: Callable[[Rows | None], Batch] | None,
    joined: bool = False,
    check: DataCheck | None = None,
    stacklevel: int = 5,
) -> Results:
    """Score batches and reduce the outcomes to results. ``check`` has seen the samples and outputs of the batches."""
    accumulators = {
        one.name: make_accumulator(one.for_run(run), run, keep_scores=keep_scores, joined=joined)
        for one in metrics
        if isinstance(one, BatchMetric)
    }
    # Over lists garbage collection is paused for the whole pass; over a stream only while we score, since the caller's
    # generator may produce garbage of its own.
    with gc_paused() if make_batch is not None else nullcontext():
        collect_scores(batches, list(accumulators.values()), executor, grouping, progress, stacklevel=stacklevel)
    results = Results()
    everything: Batch | None = None
    for one in metrics:
        if one.name in accumulators:
            results.append(accumulators[one.name].result(grouping))
        else:
            assert make_batch is not None  # streams refuse metrics that only compute
            everything = everything or make_batch(None)
            result = compute_result(one, everything)
            result.slices = {
                name: {group: compute_result(one, make_batch(rows)) for group, rows in groups.items()}
                for name, groups in grouping.rows().items()
            }
            results.append(result)
    results.sample_ids = grouping.ids if keep_scores else ()
    if check is not None:
        check.finish(metrics, results)
    return results


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
    """
    chosen = resolve_metrics(metrics, conventions)
    if isinstance(gold, Mapping) != isinstance(ranked, Mapping):
        raise BadTypeError("gold and rankings must both be mappings from query id, or both be sequences")
    if isinstance(gold, Mapping) and isinstance(ranked, Mapping):
        ids, columns = list(gold), [ranked.get(query) for query in gold]
        gold, ranked = list(gold.values()), columns
    golds, rankings = as_sequence(gold, "gold"), as_sequence(ranked, "rankings")
    if len(golds) != len(rankings):
        raise AlignmentError(len(golds), len(rankings), what=("gold entries", "rankings"))
    names = list(map(repr, range(len(golds))) if ids is None else map(str, ids))
    if len(names) != len(golds):
        raise AlignmentError(len(golds), len(names), what=("gold entries", "ids"))
    if golds:
        _require_gold_only(chosen, annotated=any(entry is not None for entry in golds))

    def part(start: int, stop: int) -> Batch:
        return rankings_batch(golds[start:stop], rankings[start:stop], names[start:stop])

    return _evaluate_batches(part, names, chosen, keep_scores)


def evaluate_hits(
    rankings: PrecomputedHits,
    metrics: Metrics,
    *,
    conventions: str | Conventions = "auepora",
    keep_scores: bool = True,
) -> Results:
    """Score rankings whose hits the reader has found already."""
    chosen = resolve_metrics(metrics, conventions)
    _require_gold_only(chosen, annotated=True)
    return _evaluate_batches(rankings.batch, list(rankings.ids), chosen, keep_scores)


def _require_gold_only(metrics: list[Metric], *, annotated: bool) -> None:
    """Raise for metrics that need more than gold ids, before anything is computed."""
    EvaluationPlan(metrics).validate_dataset([EvaluationSample("", "", relevant_docs=[] if annotated else None)])


def _evaluate_batches(
    make_part: Callable[[int, int], Batch], names: list[str], metrics: Sequence[Metric], keep_scores: bool
) -> Results:
    size, total = RANKINGS_BATCH_SIZE, len(names)
    grouping = Grouping((), keep=True)
    grouping.ids = names
    return run_metrics(
        (make_part(start, min(start + size, total)) for start in range(0, total, size)),
        metrics,
        RunInfo(),
        keep_scores,
        None,
        executor=SerialExecutor(),
        grouping=grouping,
        make_batch=lambda _: make_part(0, total),
        stacklevel=6,
    )
