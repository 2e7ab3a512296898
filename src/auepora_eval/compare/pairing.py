"""The scores of one metric in two runs, paired by sample and made comparable."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

import numpy as np

from ..core.clusters import any_clustered, cluster_ids, cluster_key
from ..core.conventions import PRESETS, Conventions, Match
from ..core.metric_hooks import is_paired, joins_repeats, score_rounding, worst_varies
from ..core.metrics_base import (
    BatchMetric,
    Metric,
    RunInfo,
    has_signature,
    with_match,
)
from ..core.reduce import Clusters, Mean, Reducer, SumsReducer, mean
from ..core.results import two_stage_details
from ..core.scores import Scores, Status
from ..core.types import MetricResult, TargetCategory
from ..engine.evaluate import resolve_metrics
from ..engine.repeats import mean_over_repeats
from ..errors import AueporaError, BadValueError, UnknownRunError
from ..io.sample_sets import SampleSet
from ..runtime.processes import gc_paused
from ..stats.difference import PairedStatistics, log_ratio_interval, paired_differences
from ..stats.intervals import Bools, Floats, Ints
from ..stats.permutation import SwapStatistic
from ..store.records import RunRecord, RunStatus, plan_conventions, run_info
from ..store.runs import RunStore, decisions, iter_samples

_MAX_REPEATED = 50
"""How many outputs of two runs are compared to see whether one repeats the other."""

# --- shared samples of several runs: their ids, their rows in each run, and their clusters ---------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SharedSamples:
    """Samples that all of some runs have, in the order of the first run's dataset."""

    ids: list[str]
    rows: list[Ints]
    """For each run their positions in its dataset."""
    clusters: Clusters | None
    """A cluster number per sample; ``None`` if there are no clusters."""
    only: list[int]
    """For each run how many of its samples some other run lacks."""
    sample_set: SampleSet | None = None
    """The set that they are restricted to."""
    selecting: Mapping[str, str] = field(default_factory=dict)
    """The runs whose outcomes selected the samples, in words: ``selecting_runs``."""

    def take(self, scores: Scores, run: int) -> Scores:
        """The scores of these samples in one of the runs; the same object if they are all of its samples in order."""
        rows = self.rows[run]
        whole = len(rows) == len(scores) and np.array_equal(rows, np.arange(len(rows)))
        return scores if whole else scores.take(rows)


@gc_paused()
def shared_samples(
    store: RunStore, records: Sequence[RunRecord], *, other_dataset: bool = False, samples: SampleSet | None = None
) -> SharedSamples:
    """The samples that all of these runs have, or those of a set that all must have. No text of a document is read.

    Runs that have not ended, runs of different datasets (unless ``other_dataset`` is set) and runs without a sample in
    common are refused. A run on a set of samples of the other run's dataset is a part of the same dataset.
    """
    found = _shared_samples(store, records, other_dataset=other_dataset)
    found = found if samples is None else _restrict_to_set(store, records, found, samples)
    return replace(found, selecting=selecting_runs(store, records, samples))


def _shared_samples(store: RunStore, records: Sequence[RunRecord], *, other_dataset: bool) -> SharedSamples:
    for record in records:
        _require_ended(store, record)
    first = records[0]
    for record in records[1:]:
        if not other_dataset and _dataset(record) != _dataset(first):
            raise BadValueError(
                f"{_run_label(first)} and {_run_label(record)} ran on different datasets ('{first.dataset_name}', "
                f"{first.num_samples} samples, and '{record.dataset_name}', {record.num_samples}); to compare them on "
                "the samples whose ids both have, pass other_dataset=True or --other-dataset"
            )
    ids: list[str] = []
    families: list[tuple[bool, str]] = []
    clustered = False
    for sample in iter_samples(store, first.run_id, texts=False):
        ids.append(sample.sample_id)
        families.append(cluster_key(sample))
        clustered = clustered or any_clustered([sample])
    codes = cluster_ids(ids, families) if clustered else None
    if all(record.fingerprint == first.fingerprint for record in records):
        return SharedSamples(ids, [np.arange(len(ids), dtype=np.intp)] * len(records), codes, [0] * len(records))
    names_by_run = [ids, *(store.sample_ids(record.run_id) for record in records[1:])]
    in_all = set(ids).intersection(*names_by_run)
    common = [name for name in ids if name in in_all]
    if not common:
        raise BadValueError(
            f"{' and '.join(map(_run_label, records))} have no sample in common: no sample_id is in both datasets"
        )
    rows = [positions_of(names, common) for names in names_by_run]
    shared = None if codes is None else codes[rows[0]]
    return SharedSamples(common, rows, shared, [len(names) - len(common) for names in names_by_run])


def positions_of(names: Iterable[str], wanted: Iterable[str]) -> Ints:
    """The positions of the wanted ones among these names."""
    places = {name: place for place, name in enumerate(names)}
    return np.array([places[name] for name in wanted], dtype=np.intp)


def _dataset(record: RunRecord) -> str:
    """The fingerprint of the dataset of a run; for a run on a set of samples, of that which the set was saved from."""
    chosen = SampleSet.from_plan(record.plan)
    checked = chosen is not None and chosen.fingerprint is not None  # the content of its samples, when the run started
    return chosen.dataset or record.fingerprint if chosen is not None and checked else record.fingerprint


def _restrict_to_set(
    store: RunStore, records: Sequence[RunRecord], shared: SharedSamples, samples: SampleSet
) -> SharedSamples:
    """The samples of a set; raises if a run lacks one of them, or has one with other content."""
    known, wanted = frozenset(shared.ids), frozenset(samples.ids)
    for record in records:
        if not wanted <= known:
            samples.require_known(frozenset(store.sample_ids(record.run_id)), _run_label(record))
    kept = np.array([place for place, sample_id in enumerate(shared.ids) if sample_id in wanted], dtype=np.intp)
    rows = [positions[kept] for positions in shared.rows]
    for fingerprint in {record.fingerprint for record in records} - {samples.dataset}:
        number = next(place for place, record in enumerate(records) if record.fingerprint == fingerprint)
        own = SampleSet.from_plan(records[number].plan)
        if samples.fingerprint is not None and (own is None or own.fingerprint != samples.fingerprint):
            found = iter_samples(store, records[number].run_id, positions=frozenset(rows[number].tolist()))
            samples.require_content(found, _run_label(records[number]))
    clusters = None if shared.clusters is None else shared.clusters[kept]
    return SharedSamples([shared.ids[place] for place in kept.tolist()], rows, clusters, shared.only, samples)


def selecting_runs(store: RunStore, records: Sequence[RunRecord], samples: SampleSet | None = None) -> dict[str, str]:
    """The runs whose outcomes selected the samples of a comparison, by its set or that of one of its runs, in words.

    A run with the same outputs as one that selected the samples, such as a repeat of a deterministic system, has the
    outcomes that selected them, too.
    """
    on_sets = [record for record in records if record.plan.get("samples")]
    own = [SampleSet.from_plan(record.plan, store.sample_ids(record.run_id)) for record in on_sets]
    found: dict[str, str] = {}
    for chosen in filter(None, [samples, *own]):
        for run_id in chosen.runs:
            found |= {record.run_id: record.run_id for record in records if record.run_id == run_id}
            others = [record.run_id for record in records if record.run_id not in found]
            repeats = _repeats(store, run_id, others, chosen.ids)
            found |= {repeated: f"{run_id}, whose outputs {repeated} repeats" for repeated in repeats}
    return found


def _repeats(store: RunStore, run_id: str, others: Iterable[str], ids: Sequence[str]) -> Iterator[str]:
    """Those of the other runs that returned the same answer and ranking for 9 of 10 samples, or more."""
    with suppress(UnknownRunError):  # a run that selected the samples may be deleted
        expected = _outputs_by_sample(store, run_id, ids[:_MAX_REPEATED])
        for other in others:
            found = _outputs_by_sample(store, other, ids[:_MAX_REPEATED])
            same = sum(expected.get(sample_id) == output for sample_id, output in found.items())
            if same and same >= 0.9 * len(found):
                yield other


def _outputs_by_sample(store: RunStore, run_id: str, ids: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """The answers and rankings of some samples, by sample id; without failed and empty outputs."""
    places = {sample_id: place for place, sample_id in enumerate(store.sample_ids(run_id))}
    found = {}
    for sample_id in places.keys() & ids:
        for stored in store.outputs(run_id, repeat=0, position=places[sample_id], texts=False):
            response, retrieved = stored.output.response, stored.output.retrieved
            if (response is not None or retrieved) and stored.output.error is None:
                text = "" if response is None else response.text
                found[sample_id] = text, [hit.doc.doc_id for hit in retrieved]
    return found


def selection_note(selecting: Mapping[str, str]) -> str:
    """Why runs have no verdict on samples that their own outcomes selected."""
    return (
        f"the samples were selected by the outcomes of {' and '.join(selecting.values())}; chance alone makes means on "
        "them too low or too high (regression to the mean): exploratory, without a verdict; compare other runs on "
        "these samples, or these runs on all samples"
    )


def _require_ended(store: RunStore, record: RunRecord) -> None:
    if record.status not in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
        return
    problem = f"{_run_label(record)} is interrupted; resume it first"
    if record.status is RunStatus.RUNNING:
        problem = f"{_run_label(record)} is still running (process {record.process}); wait for it to end"
    if names := metrics_judged_until(store, record):
        problem += (
            f"; it is judged until {', '.join(names)} is decided, and before that a p-value is not sequentially valid"
        )
    raise BadValueError(problem)


def metrics_judged_until(store: RunStore, record: RunRecord) -> list[str]:
    """The metrics of the sequential design that a run is judged by; empty if it has none."""
    found = decisions(store, fingerprint=record.fingerprint, kind="sequential", run_id=record.run_id)
    of_run = [decision.metrics for decision in found if decision.body.get("run_id") == record.run_id]
    return list(chain.from_iterable(of_run))


def _run_label(record: RunRecord) -> str:
    return f"{record.run_id} ({record.name})"


# --- the metric behind a stored result: its reducer, range and direction ---------------------------------------------

_MATCH = re.compile(r"\|match:(\w+)")
_TOP_K = re.compile(r"\|(?:\w+\.)*top_k:\d+")
_NO_SCORES = "no scores per sample, so there is no interval and no test"
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
    worst_varies: bool = False
    """Whether each sample has a worst value of its own, which only its stored score shows."""
    counts_failures: bool = True
    """Whether the convention counts a failed output at the worst value."""
    has_direction: bool = True
    """Whether a difference can be better or worse; the proportion of one of several classes only differs."""
    reads: float = 0
    """How many ranks it looks for gold in: infinite for all, 0 for a metric that compares no ranking with gold."""
    function_of: str = ""
    """The name of the metric whose score decides this one, with the same options in its name; else empty."""
    label: str = ""
    """The name for display; empty if it is the name."""
    joins_repeats: bool = False
    """Whether scores are made of all repeats together."""

    @property
    def direction(self) -> bool | None:
        """Whether higher is better; ``None`` if neither is."""
        return self.higher_is_better if self.has_direction else None

    @property
    def worst(self) -> float:
        """The worst score there can be; infinite where there is none."""
        return self.range[0 if self.higher_score_is_better else 1]

    @property
    def best(self) -> float:
        """The best score there can be; infinite where there is none."""
        return self.range[1 if self.higher_score_is_better else 0]

    @property
    def is_mean(self) -> bool:
        """Whether the value is the plain mean of the scores, so that per-sample differences suffice."""
        if not isinstance(self.reducer, Mean):
            return False
        return type(self.reducer).value is Mean.value and type(self.reducer).interval is Mean.interval

    @property
    def counts_missing(self) -> bool:
        """Whether a missing output counts at the worst value; else a comparison with missing outputs has no verdict."""
        in_scores = self.worst_varies and self.missing == "fail" and self.counts_failures
        return (self.worst_failed is not None or in_scores) and self.is_mean and not self.is_paired


def lookup_metric(result: MetricResult, record: RunRecord, metric_objects: Mapping[str, Metric]) -> MetricMeta:
    """The metadata of a result's metric, from the object of its name, the run's plan, or its name alone.

    A metric is accepted if its signature is the stored one, or if its reducer gives the stored value for the stored
    scores. A metric that is not registered counts as a mean if its value is the mean of its scores.
    """
    scores = result.scores if isinstance(result.scores, Scores) else None
    known = find_metric(result, record, metric_objects)
    if known is not None:
        return metric_meta(known, scores)
    if scores is None:
        return MetricMeta(None, note=_NO_SCORES)
    given = result.details.lower_is_better
    lower = result.target is TargetCategory.LATENCY if given is None else bool(given)
    direction = "lower" if lower else "higher"
    if _reproduces_value(Mean(), scores, result):
        note = f"not known in this process: compared as a mean, {direction} taken for better"
        return MetricMeta(Mean(), higher_is_better=not lower, higher_score_is_better=not lower, note=note)
    note = "not known in this process, and not the mean of its scores: there is no interval and no test"
    return MetricMeta(None, higher_is_better=not lower, higher_score_is_better=not lower, note=note)


def find_metric(
    result: MetricResult, record: RunRecord, metric_objects: Mapping[str, Metric] = MappingProxyType({})
) -> BatchMetric | None:
    """The metric that computed a stored result; ``None`` if it is not known in this process."""
    scores = result.scores if isinstance(result.scores, Scores) else None
    for metric in likely_metrics(result, record, metric_objects):
        if not isinstance(metric, BatchMetric):
            continue
        if has_signature(metric, run_info(record), result.signature) or (
            scores is not None and _reproduces_value(metric.reducer, scores, result)
        ):
            return metric
    return None


def metric_meta(metric: BatchMetric, scores: Scores | None) -> MetricMeta:
    """The metadata of a metric with these scores."""
    width = None if scores is None or scores.stats is None else scores.stats.shape[1]
    worst_stats = metric.worst_stats
    if worst_stats is not None and width not in (None, len(worst_stats)):  # a critic may change them
        worst_stats = None
    return MetricMeta(
        None if scores is None else metric.reducer,
        range=metric.range,
        higher_is_better=metric.higher_is_better,
        higher_score_is_better=getattr(metric, "higher_score_is_better", metric.higher_is_better),
        binary=metric.metadata.binary,
        note=_NO_SCORES if scores is None else None,
        worst_stats=worst_stats,
        rounding=score_rounding(metric),
        by_chunk_id=metric.metadata.by_chunk_id and metric.active_conventions.match == "id",
        by_parent_id=metric.metadata.by_parent_id,
        worst_failed=metric.worst,
        missing=metric.active_conventions.missing,
        is_paired=is_paired(metric) and metric.metadata.needs_all,
        worst_varies=worst_varies(metric),
        counts_failures=metric.active_conventions.on_system_failure == "worst",
        has_direction=metric.metadata.has_direction,
        reads=_ranks_read(metric),
        function_of=_deciding_metric(metric),
        joins_repeats=joins_repeats(metric),
    )


def _deciding_metric(metric: BatchMetric) -> str:
    """The name of the metric that this one is a function of: ``support_density[k=5]`` for that of the other."""
    registered = getattr(type(metric), "registered_as", metric.name)
    decided_by = metric.metadata.function_of
    return decided_by and metric.name.replace(registered, decided_by, 1)


def _ranks_read(metric: BatchMetric) -> float:
    """How many ranks a metric looks for gold in."""
    attribute = metric.metadata.reads_depth
    if not attribute or "relevant_docs" not in metric.required_fields():
        return 0
    depth: float | None = getattr(metric, attribute)
    return math.inf if depth is None else depth


def _reproduces_value(reducer: Reducer, scores: Scores, result: MetricResult) -> bool:
    """Whether this reducer gives the stored value for the stored scores; for a corrected mean, that of the scores."""
    stage = two_stage_details(result)
    expected = result.value if stage is None or stage["scores_mean"] is None else stage["scores_mean"]
    try:
        fold, folded = mean_over_repeats(reducer, scores)
        value = fold.value(folded)
    except Exception:  # a reducer of another metric got statistics that do not fit
        return False
    if math.isnan(value) or not result.defined:
        return math.isnan(value) and not result.defined
    return bool(abs(value - expected) <= _TOLERANCE * max(1.0, abs(expected)))


def likely_metrics(result: MetricResult, record: RunRecord, metric_objects: Mapping[str, Metric]) -> Iterator[Metric]:
    """Metrics that may have produced this result, the most likely first."""
    facts, rules, name = run_info(record), plan_conventions(record), result.name
    build = partial(_build, facts=facts, match=result_match(result))
    if name in metric_objects:
        yield from build(metric_objects[name], rules)
    for spec in record.plan.get("metrics") or ():
        for metric in build(spec, rules):
            if metric.name == name:
                yield metric
    # Scored again later, perhaps by other conventions than the plan's, or under a name of its own.
    for spec in dict.fromkeys((name, (result.signature or name).partition("|")[0])):
        for conventions in (rules, *PRESETS.values()):
            yield from build(spec, conventions)


def _build(spec: Any, rules: Conventions, *, facts: RunInfo, match: Any) -> Iterator[Metric]:
    try:
        (metric,) = resolve_metrics([spec], rules)
        metric = with_match(metric, match)
    except AueporaError:  # not registered in this process, or with options that it no longer has
        return
    yield metric.for_run(facts) if isinstance(metric, BatchMetric) else metric


def result_match(result: MetricResult) -> Match:
    """How gold is matched in a result."""
    matched = _MATCH.search(result.signature or "")
    return "id" if matched is None else cast(Match, matched[1])


def without_top_k(signature: str | None) -> str | None:
    """A signature without the number of documents that were asked for: lists of different lengths are compared."""
    return None if signature is None else _TOP_K.sub("", signature)


def comparable_signature(signature: str | None) -> str | None:
    """A signature without what may differ in a comparison: also without the way to match gold, which it can change."""
    return None if signature is None else without_top_k(_MATCH.sub("", signature))


# --- memory: large runs are read metric by metric --------------------------------------------------

_MAX_SCORES = 1 << 21
"""How many scores of a run are kept in memory: all metrics of most runs, few of a run with a million samples."""


T = TypeVar("T")


def kept_results(scores: int) -> int:
    """How many results, or pairs of results, with so many scores each are kept in memory."""
    return max(1, _MAX_SCORES // max(scores, 1))


# --- paired scores: which samples enter, and how ---------------------------------------------------------------------

Fill = Literal["low", "high"]
"""Failed measurements filled with the values that make the difference smallest, or largest."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricPair:
    """A metric's scores in two runs on the same samples, in the same order."""

    name: str
    definition: MetricMeta
    first: Scores
    second: Scores
    missing: tuple[int, int] = (0, 0)
    """How many outputs each run lacks."""
    at_worst: tuple[Bools, Bools] | None = None
    """Which samples of each run have a worst value because their output is missing."""

    @property
    def measure_failures(self) -> int:
        """How many samples have a failed measurement in either run, even if the other run skipped them."""
        failed = (self.first.status == Status.MEASURE_FAILED) | (self.second.status == Status.MEASURE_FAILED)
        return int(failed.sum())

    def without_failures(self, *, second: bool) -> MetricPair:
        """The pair on the samples that one of the systems answered."""
        failed = (self.second if second else self.first).status == Status.SYSTEM_FAILED
        return replace(self, first=exclude_rows(self.first, failed), second=exclude_rows(self.second, failed))

    @property
    def is_fillable(self) -> bool:
        """Whether measurements failed, and the values that they may have had are bounded."""
        return self.measure_failures > 0 and self.can_fill

    @property
    def can_fill(self) -> bool:
        """Whether failed measurements can be bounded: the metric is a mean with a finite range."""
        return self.definition.is_mean and all(map(math.isfinite, self.definition.range))


@dataclass(frozen=True, slots=True, eq=False)
class RunPairScores:
    """The paired scores that enter a comparison. At most one of ``values``, ``sums`` and ``fold`` is set."""

    first: Scores
    second: Scores
    """Scores that enter: NaN for samples that do not."""
    a: float
    b: float
    values: tuple[Floats, Floats] | None = None
    """For a mean over the same samples in both runs: their scores, NaN for other samples."""
    sums: PairedStatistics | None = None
    """For a value computed from sums; the samples need not be the same."""
    fold: SwapStatistic | None = None
    """For any other value."""
    of_rows: tuple[Callable[[Ints], float], Callable[[Ints], float]] | None = None
    """With ``fold``: each run's value over some of the samples in ``used``."""

    @property
    def used(self) -> Bools:
        """Which samples enter, in either run."""
        return self.first.counted | self.second.counted

    @property
    def both(self) -> Bools:
        """Which samples have a score in both."""
        return self.first.counted & self.second.counted

    @property
    def differences(self) -> Floats:
        """The second run's score minus the first's on each sample; NaN where one of the two has no score."""
        return paired_differences(self.first.values, self.second.values)

    @property
    def has_test(self) -> bool:
        """Whether there is a test of the difference."""
        return self.values is not None or self.sums is not None or self.fold is not None

    @property
    def identical(self) -> bool:
        """Whether both runs have the same values, and at least one sample is scored in both."""
        scored = (self.first.status == Status.SCORED) & (self.second.status == Status.SCORED)
        if not scored.any():
            return False
        if self.sums is not None:
            return np.array_equal(self.sums.first, self.sums.second)
        if self.fold is not None:
            return not self.fold.differs.any()
        return self.values is not None and not self.differences[self.used].any()

    @property
    def delta(self) -> float:
        """The second run's value minus the first's; NaN if a run has no value."""
        if self.values is not None and self.used.any() and not self.differences[self.used].any():
            return 0.0  # without rounding errors
        return self.b - self.a


def pair_scores(pair: MetricPair, fill: Fill | None = None) -> RunPairScores:
    """The paired scores of a metric.

    A failure without a score (a failed measurement, or a failed output of a metric without a worst value, such as
    latency) excludes its sample from both runs. With ``fill``, failed measurements count at an end of the range.
    """
    first, second = pair.first, pair.second
    if fill is not None and pair.can_fill:
        low, high = pair.definition.range
        up, down = (low, high) if fill == "high" else (high, low)
        first, second = _fill_failed(first, up), _fill_failed(second, down)
    excluded = failed_without_value(first) | failed_without_value(second)
    first, second = exclude_rows(first, excluded), exclude_rows(second, excluded)
    if pair.definition.reducer is None:
        return RunPairScores(first, second, math.nan, math.nan)
    if pair.definition.is_mean:
        return _pair_means(first, second)
    reducer = pair.definition.reducer
    a, b = reduce_or_nan(reducer, first), reduce_or_nan(reducer, second)
    if isinstance(reducer, SumsReducer) and first.stats is not None and second.stats is not None:
        low, high = pair.definition.range
        table = PairedStatistics(_zero_excluded(first), _zero_excluded(second), _reduce_rows(reducer), low, high)
        return RunPairScores(first, second, a, b, sums=table)
    if any(reducer.interval(scores, *pair.definition.range) is not None for scores in (first, second)):
        return _pair_folds(reducer, first, second)
    # A value without an interval in one run, since its samples cannot be resampled or swapped one by one.
    return RunPairScores(first, second, a, b)


NO_VERDICT = "no verdict: an answer that refuses or fails takes less; compare the quality of the answers, too"

Ratio = tuple[float, float, float]
"""A ratio and the ends of its 95 % interval."""


def ratio_of_amounts(reading: RunPairScores, clusters: Clusters | None) -> Ratio | None:
    """The second run's amount over the first's, paired; ``None`` where an amount is 0 or there is one unit."""
    used = reading.used
    if reading.values is not None:
        factors, divisors = [reading.values[1][used]], [reading.values[0][used]]
    elif reading.sums is not None and reading.sums.first.shape[1] == 2:
        first, second = reading.sums.first[used], reading.sums.second[used]
        factors, divisors = [second[:, 0], first[:, 1]], [first[:, 0], second[:, 1]]
    else:
        return None
    return log_ratio_interval(factors, divisors, clusters=None if clusters is None else clusters[used])


def completed_difference(pair: MetricPair) -> float:
    """The difference over the samples that both systems answered."""
    return pair_scores(pair.without_failures(second=False).without_failures(second=True)).delta


def _pair_means(first: Scores, second: Scores) -> RunPairScores:
    a, b = mean(first.values[first.counted]), mean(second.values[second.counted])
    if np.array_equal(first.counted, second.counted):
        return RunPairScores(first, second, a, b, values=(first.values, second.values))
    # Which samples a metric applies to may depend on the answers, for instance on refusals. Then the value is a ratio,
    # a sum over a count, and both of them vary.
    tables = [np.column_stack([np.nan_to_num(scores.values, nan=0.0), scores.counted]) for scores in (first, second)]
    return RunPairScores(first, second, a, b, sums=PairedStatistics(tables[0], tables[1], _ratio))


def _ratio(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.nan)


def _pair_folds(reducer: Reducer, first: Scores, second: Scores) -> RunPairScores:
    """A value of any reducer, over the samples scored in both runs, so that a swap keeps their count."""
    both = first.counted & second.counted
    first, second = exclude_rows(first, ~both), exclude_rows(second, ~both)
    rows = np.flatnonzero(both)
    n = len(rows)
    places = np.arange(n)
    joined = Scores.concat([first.take(rows), second.take(rows)])
    has_values_only = joined.stats is None and joined.keys is None and joined.repeats is None

    def value_at(chosen: Ints) -> float:
        if has_values_only:  # read ten thousand times, so nothing else is copied
            values = joined.values[chosen]
            return reducer.value(Scores(values, np.zeros(len(values), np.uint8), np.zeros(len(values), np.int16)))
        return reducer.value(joined.take(chosen))

    def difference(swapped: Bools) -> float:
        before = places + n * swapped[rows]
        return value_at(2 * places + n - before) - value_at(before)

    def value_of_second(drawn: Ints) -> float:
        return value_at(drawn + n)

    return RunPairScores(
        first,
        second,
        value_at(places),
        value_of_second(places),
        fold=SwapStatistic(difference, both & (first.values != second.values)),
        of_rows=(value_at, value_of_second),
    )


def _reduce_rows(reducer: SumsReducer) -> Callable[[Floats], Floats]:
    return lambda sums: np.array([reducer.from_sums(row) for row in sums.tolist()], dtype=np.float64)


def reduce_or_nan(reducer: Reducer, scores: Scores) -> float:
    """The value of a reducer; NaN if it raises because not all that it reads is stored."""
    try:
        return reducer.value(scores)
    except Exception:  # it reads something besides the scores, such as answers, that was not stored
        return math.nan


def failed_without_value(scores: Scores) -> Bools:
    """A mask of the samples that failed and have no score."""
    failed: Bools = (scores.status == Status.SYSTEM_FAILED) | (scores.status == Status.MEASURE_FAILED)
    return failed & ~scores.counted


def _fill_failed(scores: Scores, value: float) -> Scores:
    failed = (scores.status == Status.MEASURE_FAILED) & ~scores.counted
    return scores.replaced(failed, Status.MEASURE_FAILED, "filled", value) if failed.any() else scores


def exclude_rows(scores: Scores, rows: Bools) -> Scores:
    """The scores with some samples excluded from the reducer."""
    return scores.replaced(rows, Status.SKIPPED, "left_out", math.nan) if rows.any() else scores


def _zero_excluded(scores: Scores) -> Floats:
    """The statistics with zeros for samples that do not enter."""
    assert scores.stats is not None
    return np.where(scores.counted[:, None] & np.isfinite(scores.stats), scores.stats, 0.0)


# --- missing outputs: a sample without an output counts like one on which the system failed --------------------------
# A convention may skip missing outputs in the value of a single run. In a comparison that would let a run win by
# leaving out hard samples, so here they count at the metric's worst value, whatever the convention.

REASON = "missing_output"


@dataclass(frozen=True, slots=True, eq=False)
class MissingOutputs:
    """How many outputs a run lacks, sample by sample."""

    counts: Ints
    """Per sample how many of its repeats have no output."""
    repeats: int = 1

    @property
    def total(self) -> int:
        """How many outputs are missing."""
        return int(self.counts.sum())

    def take(self, rows: Ints) -> MissingOutputs:
        """The same for some of the samples."""
        return MissingOutputs(self.counts[rows], self.repeats)


def missing_outputs(store: RunStore, record: RunRecord, results: Iterable[MetricResult]) -> MissingOutputs:
    """Which samples of a run have no stored output.

    A run without any stored output whose ``results`` report no missing output was scored elsewhere: then none counts
    as missing.
    """
    repeats = max(record.repeats, 1)
    stored, _ = store.counts(record.run_id)
    counts = np.zeros(record.num_samples, dtype=np.intp)
    if 0 < stored < record.num_samples * repeats:
        counts += repeats
        answered = [position for position, _ in store.done(record.run_id) if position in range(record.num_samples)]
        np.subtract.at(counts, answered, 1)
    elif not stored and any(
        isinstance(result.scores, Scores) and result.scores.with_reason(REASON).any() for result in results
    ):
        counts += repeats
    return MissingOutputs(counts, repeats)


def fill_with_worst(scores: Scores, missing: MissingOutputs, definition: MetricMeta) -> tuple[Scores, Bools]:
    """The scores of a run with missing outputs at the worst value, and a mask of the changed samples.

    Nothing changes for a metric that has no worst value or is not a mean (``MetricMeta.counts_missing``), nor for
    samples that the metric does not apply to.
    """
    nowhere: Bools = np.zeros(len(scores), dtype=np.bool_)
    if not definition.counts_missing or not missing.total:
        return scores, nowhere
    missing_rows: Bools = scores.with_reason(REASON)
    if definition.worst_failed is None:  # the stored scores are the worst values of their samples
        return scores, missing_rows
    if definition.missing == "zero":
        missing_rows |= (scores.status == Status.SCORED) & (missing.counts == missing.repeats)
    partly: Bools = nowhere
    if definition.missing == "skip":
        partly = ~missing_rows & scores.counted & (missing.counts > 0)
    if not missing_rows.any() and not partly.any():
        return scores, nowhere
    worst = definition.worst_failed
    proportion = missing.counts / missing.repeats
    values = np.where(missing_rows, worst, scores.values + proportion * (worst - scores.values))
    filled = scores.replaced(missing_rows, Status.SYSTEM_FAILED, REASON, worst, definition.worst_stats)
    return filled.replaced(partly, Status.SCORED, "", values) if partly.any() else filled, missing_rows | partly
