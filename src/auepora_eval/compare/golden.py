"""Golden queries of a run: the rank of the first expected chunk, and the aggregate of their metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.batch import require_distinct_ids
from ..core.conventions import Conventions, Match
from ..core.metrics_base import Metric
from ..core.plan import with_corpus_ids
from ..core.results import Results
from ..core.types import Document, EvaluationSample, SystemOutputs, UnknownRanking
from ..engine.evaluate import EvaluationOptions, evaluate_stream, resolve_metrics
from ..engine.repeats import evaluate_repeats
from ..errors import AueporaWarning, BadValueError
from ..features.matching import (
    GoldUnit,
    Matching,
    first_rank,
    gold_ranks,
    gold_units,
    has_spans,
    span_of,
    unit_ranks,
)
from ..render.short import first_names
from ..runtime.processes import gc_paused
from ..store.records import RunRecord, RunStatus, plan_conventions
from ..store.runs import RunStore
from .pairing import positions_of
from .stores import Positions, RunOutputs, Store, open_store, run_outputs
from .types import AggregateMetrics

Golden = str | Path | Iterable[EvaluationSample]
"""The path of a file of samples (golden YAML or any other supported format), or the samples."""

MAX_IDS_SHOWN = 10
"""How many ids a message names; the rest is counted."""


def golden_queries(golden: Golden) -> list[EvaluationSample]:
    """The golden queries, in their order."""
    if isinstance(golden, (str, Path)):
        from ..io.join import load_dataset

        return list(load_dataset(golden))
    queries = list(golden)
    if not queries:
        raise BadValueError("there is no golden query; give at least one, or leave golden out to use those of the run")
    require_distinct_ids(queries)
    return queries


def known_queries(
    queries: Sequence[EvaluationSample], known: Collection[str], *, where: str
) -> tuple[list[EvaluationSample], list[str]]:
    """The golden queries whose ids are ``known``, and warnings about the others; an error if none is known.

    ``where`` names the run in messages.
    """
    known_ids = set(known)
    found = [query for query in queries if query.sample_id in known_ids]
    unknown = [query.sample_id for query in queries if query.sample_id not in known_ids]
    if not found:
        raise BadValueError(
            f"no golden query is known to {where}: the golden queries are {format_ids(unknown)}, "
            f"what was asked {format_ids(sorted(known_ids))}; do the two belong together?"
        )
    messages = []
    if unknown:
        messages.append(f"{_queries(unknown, 'golden ')} unknown to {where}, left out: {format_ids(unknown)}")
    rest = sorted(known_ids - {query.sample_id for query in queries})
    if rest:
        messages.append(f"{_queries(rest)} in {where} and not among the golden ones, left out: {format_ids(rest)}")
    return found, messages


def expected_ids(sample: EvaluationSample) -> list[str]:
    """The ids of the chunks that a query expects, each once: those judged relevant."""
    return [gold_unit.doc_id for gold_unit in gold_units(sample)]


def format_ids(ids: Sequence[str]) -> str:
    """The first ids, and how many more there are."""
    return first_names([repr(doc_id) for doc_id in ids], MAX_IDS_SHOWN) or "none"


def _queries(ids: Sequence[str], kind: str = "") -> str:
    return f"1 {kind}query is" if len(ids) == 1 else f"{len(ids)} {kind}queries are"


# --- queries that two runs have in common --------------------------------------------------------------------------

QueryRow = tuple[EvaluationSample, Sequence[SystemOutputs | None], Sequence[SystemOutputs | None]]
"""A query with the output of each repeat of two runs; ``None`` where there is none."""


class SharedQueries:
    """The queries that two runs have, in the order of ``golden``, else of run B; they are read anew on every pass."""

    def __init__(self, run_a: RunOutputs, run_b: RunOutputs, golden: Sequence[EvaluationSample] | None = None) -> None:
        self.runs = run_a, run_b
        self.source: Iterable[EvaluationSample] = run_b.samples if golden is None else golden
        self.only: tuple[list[str], list[str]] = [], []
        """The ids that only one of the runs has, sorted."""
        self._chosen: Container[str] | None = None
        every = np.arange(run_b.record.num_samples, dtype=np.intp)
        self.positions: tuple[Positions, Positions] = every, every
        if golden is not None or run_a.record.fingerprint != run_b.record.fingerprint:
            in_a, in_b = run_a.positions(), run_b.positions()
            ids_a, ids_b, asked = set(in_a), set(in_b), [*in_b]
            if golden is not None:
                asked = [query.sample_id for query in golden]
                ids_a, ids_b = ids_a.intersection(asked), ids_b.intersection(asked)
            self.only = sorted(ids_a - ids_b), sorted(ids_b - ids_a)
            chosen = [name for name in asked if name in in_a and name in in_b]
            self._chosen = set(chosen)
            self.positions = positions_of(in_a, chosen), positions_of(in_b, chosen)

    def __len__(self) -> int:
        return len(self.positions[0])

    def __iter__(self) -> Iterator[EvaluationSample]:
        chosen = self._chosen
        return (query for query in self.source if chosen is None or query.sample_id in chosen)

    def among(self, ids: Container[str]) -> SharedQueries:
        """Those of the queries with these ids."""
        rows = np.array([row for row, query in enumerate(self) if query.sample_id in ids], dtype=np.intp)
        part = copy(self)
        part._chosen, part.positions = ids, (self.positions[0][rows], self.positions[1][rows])
        return part

    def outputs(self, side: int, repeat: int) -> Iterator[SystemOutputs | None]:
        """The output of each query in one of the runs."""
        return self.runs[side].outputs_at(self.positions[side], repeat)

    def rows(self) -> Iterator[QueryRow]:
        """Each query with the outputs of both runs, in all repeats."""
        return zip(self, self._outputs_of_repeats(0), self._outputs_of_repeats(1), strict=True)

    def _outputs_of_repeats(self, side: int) -> Iterator[tuple[SystemOutputs | None, ...]]:
        repeats = [self.outputs(side, repeat) for repeat in range(self.runs[side].repeats)]
        return zip(*repeats, strict=True)


# --- the rank of a query's first expected chunk: by id or span, or by its location in the document -------------------
# ``features.matching`` decides what is a hit. This module locates the chunks that golden queries expect.

DEPTH = 10
"""Ranks beyond this are misses."""


class Rank(NamedTuple):
    """The rank of the first expected chunk."""

    position: int | None
    document_only: bool = False
    """Whether only the document was the same because a span is unknown."""
    by_span: bool = False
    """Whether chunks with other ids cover the expected span."""


def is_failed(output: SystemOutputs | None) -> bool:
    """Whether a system gave no output, or failed."""
    return output is None or output.error is not None


def documents_of(output: SystemOutputs | None) -> list[Document]:
    """The retrieved documents; none of a failed or missing output."""
    if output is None or output.error is not None:
        return []
    return [hit.doc for hit in output.retrieved]


def rank_of(expected: Sequence[GoldUnit], output: SystemOutputs | None, matching: Matching) -> Rank:
    """The first position at which an expected chunk is hit; a failed or missing output has none."""
    rank, by = first_rank(gold_ranks(expected, documents_of(output)[:DEPTH], matching))
    return Rank(rank, by == "document", by == "span")


class GoldFinder:
    """Finds what queries expect in the outputs of two runs, in one way for all outputs of a query."""

    def __init__(self, match: Match, places: ChunkLocations | None = None, *, is_possible: bool = True) -> None:
        """With ``places``, chunks are matched by their location; without ``is_possible``, nothing is."""
        self._match, self._places, self._is_possible = match, places, is_possible

    def find(self, query: EvaluationSample, outputs: Iterable[SystemOutputs | None]) -> tuple[list[GoldUnit], Matching]:
        """What a query expects, empty if it is unknown where that lies, and how it is matched in all of these outputs.

        By id, spans decide where no output returns an expected id.
        """
        if not self._is_possible:
            return [], "id"
        if self._places is not None:
            return self._places.expected(query), "place"
        units = gold_units(query, self._match)
        if self._match != "id":
            return units, self._match
        if not has_spans(query):
            return units, "exact_id"
        for output in outputs:
            if any(found.rank is not None for found in unit_ranks(units, documents_of(output), "exact_id")):
                return units, "exact_id"
        return units, "id"


class ChunkLocations:
    """Locations (document and span) of the chunks that golden queries expect, for runs with different chunks.

    A golden query's own ``parent_id`` and ``span`` come first. If it has none, a stored hit of that id is used, from
    the first of the runs that has one. With ``ids_reused``, an id names another passage in each run: then the span
    comes from a hit of the first run only, and a chunk of unknown parent has no location.
    """

    def __init__(
        self, queries: Iterable[EvaluationSample], runs: Sequence[RunOutputs], *, ids_reused: bool = False
    ) -> None:
        expected = set(chain.from_iterable(expected_ids(query) for query in queries))
        self.unknown: set[str] = set()
        """Expected chunks without a known span, for which any chunk of their document counts."""
        self.ambiguous: set[str] = set()
        """Expected chunks with another location in each run, known from hits only."""
        self.first_run = runs[0].record.run_id
        self._of_hits: list[dict[str, Document]] = [_located_hits(run, expected) for run in runs]
        self._ids_reused = ids_reused

    def expected(self, query: EvaluationSample) -> list[GoldUnit]:
        """The locations that a query expects: spans within documents, or documents of which any chunk counts.

        Empty if it is unknown what the expected ids name.
        """
        found: list[GoldUnit] = []
        unknown: list[GoldUnit] = []
        for gold_unit in gold_units(query):
            places = [place for passage in gold_unit.passages if (place := self._locate(passage)) is not None]
            if places:
                found.append(GoldUnit(gold_unit.doc_id, gold_unit.level, tuple(places)))
            else:
                unknown.append(gold_unit)
        if not unknown:
            return found
        listed = (query.metadata or {}).get("expected_doc_ids")
        if self._ids_reused and not listed:
            return found
        self.unknown.update(unit.doc_id for unit in unknown)
        if listed:
            # A chunk of unknown location is expected in the listed documents that no other chunk accounts for.
            passages = chain.from_iterable(unit.passages for unit in found)
            known = {place.parent for place in passages}
            level = max(unit.level for unit in unknown)
            return found + [GoldUnit(name, level, (Document(name),)) for name in listed if name not in known]
        return found + unknown

    def _locate(self, doc: Document) -> Document | None:
        """The chunk with its parent and span as far as known; ``None`` if neither is."""
        span = span_of(doc)
        if doc.parent_id is not None and span is not None:
            return doc
        hits = [found for places in self._of_hits if (found := places.get(doc.doc_id)) is not None]
        if doc.parent_id is not None:
            hits = [hit for hit in hits if hit.parent == doc.parent_id]
        if len({(hit.parent, hit.span) for hit in hits if span_of(hit) is not None}) > 1 and span is None:
            self.ambiguous.add(doc.doc_id)
        if self._ids_reused:
            own = self._of_hits[0].get(doc.doc_id)
            parents = [Document(hit.doc_id, parent_id=hit.parent_id) for hit in hits if hit is not own]
            hits = [hit for hit in hits if hit is own] + [hit for hit in parents if hit.parent_id is not None]
        located = next((hit for hit in hits if span_of(hit) is not None), hits[0] if hits else None)
        if located is None:
            return doc if doc.parent_id is not None or span is not None else None
        return Document(doc.doc_id, parent_id=located.parent, span=located.span if span is None else span)


def _located_hits(run: RunOutputs, expected: set[str]) -> dict[str, Document]:
    """The expected chunks among a run's hits with a known location: the first of each id, or the first with a span."""
    found: dict[str, Document] = {}
    for row in run.stored(None, None):
        for hit in row.output.retrieved:
            doc = hit.doc
            if doc.doc_id not in expected or (doc.parent_id is None and span_of(doc) is None):
                continue
            first = found.get(doc.doc_id)
            if first is None or (span_of(first) is None and span_of(doc) is not None):
                found[doc.doc_id] = doc
    return found


# --- the aggregate of a stored run, computed by the conventions ``golden`` -------------------------------------------

CorpusIds = str | Path | Iterable[str]
"""The path of a corpus (JSONL), or the ids of its documents."""

GOLDEN_CONVENTIONS = Conventions.of("golden")
DIGITS = 4
"""How many decimals are stored."""
_SCALAR_METRICS = ("mrr", "citation_coverage", "groundedness", "empty_result_rate", "refusal_correctness")


def with_ranks(aggregate: AggregateMetrics, ranks: Sequence[int | None]) -> AggregateMetrics:
    """The aggregate with hit rates and MRR from the ranks of queries; ``None`` is a miss."""
    places = np.array(ranks, np.float64)  # NaN for a miss
    if not len(places):
        return replace(aggregate, hit_at_k=dict.fromkeys(GOLDEN_CONVENTIONS.k_values), mrr=None)
    hits = {k: float(np.mean(places <= k)) for k in GOLDEN_CONVENTIONS.k_values}
    return replace(aggregate, hit_at_k=hits, mrr=math.fsum(np.nan_to_num(1 / places)) / len(places))


def compute_aggregate(
    run_id: str, *, store: Store = None, golden: Golden | None = None, corpus: CorpusIds | None = None
) -> AggregateMetrics:
    """The golden-query metrics of a stored run, unrounded; ``None`` where no query enters one. No system is called.

    ``run_id`` is whatever ``RunStore.find`` takes: an id, the beginning of one, a name, ``latest``. Expected chunks are
    read from ``golden``, a file or samples, else from the samples stored with the run. Golden queries that the run
    lacks, and queries of the run that are not golden, are left out and named in a warning; if none is common, that
    is an error. Citations must name documents of ``corpus``, else documents that were retrieved. If the run has
    repeats, a query's value is the mean over its outputs.
    """
    with open_store(store) as opened:
        run = run_outputs(opened, opened.find(run_id))
        samples = None
        if golden is not None:
            samples, messages = known_queries(golden_queries(golden), run.positions(), where=run.record.run_id)
            for message in messages:
                warnings.warn(message, AueporaWarning, stacklevel=2)
        missing = run.unanswered
        if missing and run.record.status is not RunStatus.FINISHED:
            warnings.warn(
                f"{run.record.run_id} is {run.record.status} and lacks {missing} answers; they count as failed",
                AueporaWarning,
                stacklevel=2,
            )
        return aggregate_of(run, samples, corpus=corpus)


def store_aggregate(run_id: str, agg: AggregateMetrics, *, store: Store = None) -> None:
    """Write a run's aggregate into ``eval_runs.aggregate_json``: four decimals, ``null`` if undefined."""
    with open_store(store) as opened:
        opened.set_aggregate(opened.find(run_id).run_id, agg.to_dict(digits=DIGITS))


def store_missing_aggregate(
    store: RunStore, record: RunRecord, *, corpus: CorpusIds | None = None, again: bool = False
) -> None:
    """Store the aggregate of a run with expected chunks, unless it has one; ``again`` replaces it.

    A run without any known ranking has none.
    """
    if record.aggregate is not None and not again:
        return
    run = run_outputs(store, record)
    rankings = (row.output.retrieved for row in run.stored(None, None) if row.output.error is None)
    unknown = isinstance(next(rankings, None), UnknownRanking) and all(
        isinstance(ranking, UnknownRanking) for ranking in rankings
    )
    if any(map(expected_ids, run.samples)) and not unknown:
        store_aggregate(record.run_id, aggregate_of(run, corpus=corpus), store=store)


def corpus_ids(corpus: CorpusIds) -> list[str]:
    """The ids of a corpus, from its file or as given."""
    if not isinstance(corpus, (str, Path)):
        return list(corpus)
    from ..io.corpus import Corpus

    with Corpus.open(corpus) as opened:
        return list(opened.ids)


@gc_paused()
def aggregate_of(
    run: RunOutputs, samples: Sequence[EvaluationSample] | None = None, *, corpus: CorpusIds | None = None
) -> AggregateMetrics:
    """The metrics over these queries of a run, or over all; a query without an output counts as failed."""
    positions = np.arange(run.record.num_samples, dtype=np.intp)
    if samples is not None:
        positions = positions_of(run.positions(), [sample.sample_id for sample in samples])
    queries = run.samples if samples is None else samples
    match = plan_conventions(run.record).match
    spans = False

    def pairs(repeat: int) -> Iterator[Pair]:
        nonlocal spans
        for query, output in zip(queries, run.outputs_at(positions, repeat), strict=True):
            spans = spans or has_spans(query)
            yield query, output

    aggregate = compute_metrics(pairs, run.repeats, corpus=corpus)
    if match == "id" and not spans:
        return aggregate
    # Hit rates and MRR are those of the ranks at which gold is hit by its span, or as the run matches it.
    ranks = []
    for repeat in range(run.repeats):
        for query, output in pairs(repeat):
            if gold := gold_units(query, match):
                ranks.append(rank_of(gold, output, match))
    if match == "id" and not any(rank.by_span for rank in ranks):
        return aggregate
    return with_ranks(aggregate, [rank.position for rank in ranks])


Pair = tuple[EvaluationSample, SystemOutputs | None]
"""A query and its output in a run."""


def compute_metrics(
    pairs: Callable[[int], Iterator[Pair]], repeats: int, *, corpus: CorpusIds | None = None
) -> AggregateMetrics:
    """The metrics of queries with their outputs in each repeat, chunks matched by id.

    ``pairs`` takes the number of a repeat.
    """
    failed = bytearray()

    def counted(repeat: int) -> Iterator[Pair]:
        for row, (query, output) in enumerate(pairs(repeat)):
            if row == len(failed):
                failed.append(False)
            failed[row] |= is_failed(output)
            yield query, output

    values = {result.name: result.value for result in _results(counted, repeats, corpus) if result.defined}
    return aggregate_metrics(values, len(failed), sum(failed))


def aggregate_metrics(values: Mapping[str, float | None], queries: int, failed: int) -> AggregateMetrics:
    """The aggregate of these values by the names of their metrics; ``None`` for others."""
    return AggregateMetrics(
        hit_at_k={k: values.get(f"hit_rate@{k}") for k in GOLDEN_CONVENTIONS.k_values},
        recall_at_k_doc={k: values.get(f"recall_doc@{k}") for k in GOLDEN_CONVENTIONS.k_values},
        total_queries=queries,
        failed_queries=failed,
        **{name: values.get(name) for name in _SCALAR_METRICS},
    )


def aggregate_deltas(a: AggregateMetrics, b: AggregateMetrics) -> dict[str, Any]:
    """b - a for each metric, with JSON keys; ``None`` where one of the two is undefined."""

    def difference(first: Any, second: Any) -> Any:
        if isinstance(first, Mapping):
            return {str(k): difference(first[k], second.get(k)) for k in first}
        return None if first is None or second is None else second - first

    ours, others = asdict(a), asdict(b)
    return {name: difference(ours[name], others[name]) for name in ours if not name.endswith("_queries")}


@cache
def _golden_metrics() -> tuple[Metric, ...]:
    specs = [f"{name}@{k}" for name, k in product(("hit_rate", "recall_doc"), GOLDEN_CONVENTIONS.k_values)]
    return tuple(resolve_metrics([*specs, *_SCALAR_METRICS], GOLDEN_CONVENTIONS))


def _results(pairs: Callable[[int], Iterator[Pair]], repeats: int, corpus: CorpusIds | None) -> Results:
    annotated = any(query.relevant_docs is not None for query, _ in pairs(0))
    # A metric whose annotation no query has is undefined; the engine would raise an error.
    chosen = list(_golden_metrics())
    if not annotated:
        chosen = [metric for metric in chosen if "relevant_docs" not in metric.required_fields()]
    if corpus is not None:
        chosen = with_corpus_ids(chosen, partial(corpus_ids, corpus))
    return evaluate_pairs(pairs, repeats, chosen, EvaluationOptions(keep_scores=repeats > 1))


def evaluate_pairs(
    pairs: Callable[[int], Iterator[Pair]], repeats: int, metrics: Sequence[Metric], options: EvaluationOptions
) -> Results:
    """The results of metrics over samples with their outputs in each repeat; ``pairs`` takes the number of a repeat."""
    if repeats == 1:
        return evaluate_stream(pairs(0), metrics, **options)
    samples = [sample for sample, _ in pairs(0)]
    outputs = [partial(_outputs, pairs, repeat) for repeat in range(repeats)]
    return evaluate_repeats(samples, outputs, metrics, **options)


def _outputs(pairs: Callable[[int], Iterator[Pair]], repeat: int) -> Iterator[SystemOutputs | None]:
    return (output for _, output in pairs(repeat))
