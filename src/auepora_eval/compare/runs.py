"""The whole comparison of two stored runs, and its split into retrieval and generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.metrics_base import BatchMetric, Metric
from ..core.reduce import Clusters, exact_sum
from ..core.scores import Scores
from ..runtime.processes import gc_paused
from ..stats.intervals import encode_clusters
from ..store.records import RunRecord
from ..store.runs import RunStore
from .analysis import Adjustment, Analysis, Margin, finite_or_none
from .chunks import RunOutputsCache, outputs_cache
from .golden import CorpusIds, Golden, aggregate_deltas, corpus_ids, golden_queries
from .leaderboard import build_leaderboard
from .pairing import MetricPair, metric_meta
from .queries import compare_run_outputs, require_same_chunks
from .stores import Store, open_store, version_notes
from .types import CompareReport, ComparisonInput

# --- comparison by golden queries, as a report that metrics can be added to ------------------------------------------


@gc_paused()
def golden_report(
    store: RunStore,
    record_a: RunRecord,
    record_b: RunRecord,
    *,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
    aggregates: bool = True,
    corpus: CorpusIds | None = None,
    answers: RunOutputsCache | None = None,
) -> CompareReport:
    """Compare two runs by their golden queries: aggregates, their differences, each query. No other metric is in it.

    The aggregates are over the queries that both runs have, with the same expected chunks, so that they can be
    subtracted. If chunks are matched by location or span, hit rates and MRR are those of these ranks; stored values do
    not change. Without ``aggregates`` only queries and failures are counted. Citations must name documents of
    ``corpus``, else documents that were retrieved. ``answers`` is a cache of outputs that were read before.
    """
    if strict_chunker_version:
        require_same_chunks(record_a, record_b)
    answers = outputs_cache(store) if answers is None else answers
    run_a, run_b = answers.of(record_a), answers.of(record_b)
    queries = compare_run_outputs(
        run_a,
        run_b,
        golden=None if golden is None else golden_queries(golden),
        strict_chunker_version=strict_chunker_version,
        aggregates=aggregates,
        corpus=None if corpus is None else corpus_ids(corpus),
        answers=answers,
    )
    a, b = queries.aggregate_a, queries.aggregate_b
    return CompareReport(
        run_a=record_a.run_id,
        run_b=record_b.run_id,
        aggregate_a=a,
        aggregate_b=b,
        deltas={**queries.deltas(), **aggregate_deltas(a, b), "metrics": {}},
        per_query=queries.per_query,
        notes=[*version_notes(record_a, record_b, unanswered=(run_a.unanswered, run_b.unanswered)), *queries.notes],
    )


# --- the whole comparison: golden queries, every metric, other differences -------------------------------------------


def compare_runs(
    run_id_a: str,
    run_id_b: str,
    *,
    store: Store = None,
    golden: Golden | None = None,
    strict_chunker_version: bool = False,
    delta: Margin = None,
    primary: Sequence[str] | None = None,
    adjust: Adjustment = "max-t",
    metrics: Sequence[str | Metric] | None = None,
    other_dataset: bool = False,
    aggregates: bool = True,
    corpus: CorpusIds | None = None,
    seed: int = 0,
) -> CompareReport:
    """Compare run B with run A. Differences are B - A, over the samples that both have. No document's text is read.

    Runs are named as ``RunStore.find`` takes them: an id or the beginning of one, a name, ``latest``, ``latest~1``.
    ``golden`` names the golden queries if they are not the samples stored with the runs. ``delta`` is the largest
    difference that does not matter, ``primary`` the metrics that share one 5 %; see ``build_leaderboard``. Without
    ``aggregates`` the metrics of golden queries are not computed again from what is stored. ``corpus`` names the
    documents that golden answers may cite: the path of a corpus, or its ids.
    """
    with open_store(store) as opened:
        record_a, record_b = opened.find(run_id_a), opened.find(run_id_b)
        if strict_chunker_version:
            require_same_chunks(record_a, record_b)
        answers = outputs_cache(opened)
        queries = None if golden is None else golden_queries(golden)
        board = build_leaderboard(
            opened,
            [record_a, record_b],
            delta=delta,
            primary=primary,
            adjust=adjust,
            metrics=metrics,
            other_dataset=other_dataset,
            seed=seed,
            golden=queries,
            answers=answers,
        )
        report = golden_report(
            opened,
            record_a,
            record_b,
            golden=queries,
            strict_chunker_version=strict_chunker_version,
            aggregates=aggregates,
            corpus=corpus,
            answers=answers,
        )
    missing_a, missing_b = board.missing
    return replace(
        report,
        notes=[*report.notes, *board.notes],
        deltas={**report.deltas, "metrics": {one.name: one.to_dict() for one in board.comparisons}},
        metrics=board.comparisons,
        refused=board.refused,
        missing=(missing_a, missing_b),
    )


# --- the split of a difference into a part from retrieval and a part from generation ---------------------------------
# Between run A and run B is a third run, in which B's generator answered from A's documents. On every sample
#
# B - A = (B - replayed) + (replayed - A)
#
# where the first part differs only in the documents, and the second only in the generator.


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """A difference with its interval and p-value."""

    value: float | None
    """``None`` where no sample has a score in all three runs."""
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    """By sign flips; ``None`` for metrics that are not means. Not adjusted for several metrics."""
    flags: tuple[str, ...] = ()
    """Why the coverage of the interval may be below its level."""


@dataclass(frozen=True, slots=True)
class MetricSplit:
    """One metric's difference between two runs, in its parts, over the samples that have a score in all three."""

    name: str
    target: str
    a: float | None
    replayed: float | None
    """B's generator on A's documents."""
    b: float | None
    delta: DifferencePart
    """b - a, which is the sum of the two parts."""
    retrieval: DifferencePart
    """b - replayed: the same generator, other documents."""
    generation: DifferencePart
    """replayed - a: the same documents, another generator."""
    n: int
    units: int
    """Clusters if there are any, samples otherwise."""
    left_out: int
    """Samples without a score in one of the three."""
    scores: Mapping[str, tuple[float, float, float]] = field(repr=False, default_factory=dict)
    """By the id of a sample its scores in A, replayed, and in B."""

    def to_dict(self) -> dict[str, Any]:
        """The split as a JSON object, without the scores."""
        values = asdict(self)
        del values["scores"]
        return values


def split_difference(
    metric: BatchMetric,
    sample_ids: Sequence[str],
    first: Scores,
    replayed: Scores,
    second: Scores,
    clusters: Clusters | None = None,
) -> MetricSplit:
    """Split the difference between two runs, given a metric's scores in both and in the replay, sample by sample."""
    scored = first.counted & replayed.counted & second.counted
    rows = np.flatnonzero(scored)
    a, r, b = (scores.take(rows) for scores in (first, replayed, second))
    inside = None if clusters is None else clusters[rows]
    codes = encode_clusters(inside, len(rows))
    delta, retrieval, generation = _parts(metric, [(a, b), (r, b), (a, r)], inside)
    names = [sample_ids[row] for row in rows.tolist()]
    columns = zip(a.values.tolist(), r.values.tolist(), b.values.tolist(), strict=True)
    return MetricSplit(
        metric.name,
        metric.target.name,
        a=finite_or_none(metric.reducer.value(a)),
        replayed=finite_or_none(metric.reducer.value(r)),
        b=finite_or_none(metric.reducer.value(b)),
        delta=delta,
        retrieval=retrieval,
        generation=generation,
        n=len(rows),
        units=len(rows) if codes is None else len(np.unique(codes)),
        left_out=len(scored) - len(rows),
        scores=dict(zip(names, columns, strict=True)),
    )


def _parts(
    metric: BatchMetric, pairs: Sequence[tuple[Scores, Scores]], clusters: Clusters | None
) -> Iterator[DifferencePart]:
    """Each difference with its interval. Those of metrics that are not means add up in total, not sample by sample."""
    definition = metric_meta(metric, pairs[0][0])
    inputs = [
        ComparisonInput(metric.name, definition, partial(MetricPair, metric.name, definition, before, after), "")
        for before, after in pairs
    ]
    analysis = Analysis(inputs, clusters)
    for place, (before, after) in enumerate(pairs):
        value, p_value = metric.reducer.value(after) - metric.reducer.value(before), None
        if definition.is_mean and len(before):
            # One exact sum: each part is rounded once, so that the parts add up to rounding.
            value = exact_sum(np.concatenate([after.values, -before.values])) / len(before)
            p_value = float(analysis.p_values[place])
        interval = analysis.intervals[place]
        ends = None if interval is None else (interval.low, interval.high)
        yield DifferencePart(finite_or_none(value), ends, p_value, () if interval is None else interval.flags)
