"""Whether the chunks changed between two runs, and what each run retrieved and answered for a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from ..core.batch import Batch
from ..core.types import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from ..features.hits import GoldDocument, Matching, first_rank, gold_documents, gold_ranks, span_of
from ..features.rankings import RankingColumns, document_rankings
from ..features.refusals import RefusalDetector
from ..store.records import RunRecord
from ..store.rows import PERTURBED_TAG
from ..store.runs import RunStore
from .golden import ChunkLocations, id_or_span
from .stores import RunOutputs, chunker_versions, read_run_outputs

Documents = dict[str, Document]
"""What a run retrieved, by id."""
_MOST_CHANGED = 20
"""Fewer than one in this many ids may name another text or span: documents are edited now and then."""


@dataclass(frozen=True, slots=True)
class ChunkChange:
    """That two runs have different chunks, or that the gold has other chunks than both."""

    reason: str
    """How that is known."""
    by_version: bool = False
    """Whether the ``chunker_version`` of the runs differs."""
    ids_reused: bool = False
    """Whether ids that both runs retrieved name another passage in each."""
    parents_known: bool = True
    """Whether the parent document of all gold is known, so that documents can be compared."""
    gold_only: bool = False
    """Whether the chunks of both runs may be the same, and only the gold has others."""

    @property
    def description(self) -> str:
        """Why ids cannot be compared."""
        return self.reason if self.gold_only else f"chunks were cut differently ({self.reason})"


@dataclass(frozen=True, slots=True)
class SameIds:
    """The ids that two runs have in common, and how many of them name the same passage."""

    common: int = 0
    same: int = 0
    different: int = 0

    @property
    def changed(self) -> bool:
        """Whether more ids name another passage than edited documents would explain."""
        return self.different > 0 and self.different * _MOST_CHANGED >= self.same + self.different


def chunk_change_among(runs: Sequence[RunOutputs], queries: Sequence[EvaluationSample]) -> ChunkChange | None:
    """The first change of chunks between any two of several runs."""
    pairs = (chunk_change(one, other, queries) for one, other in combinations(runs, 2))
    return next((change for change in pairs if change is not None), None)


def chunk_change(run_a: RunOutputs, run_b: RunOutputs, queries: Sequence[EvaluationSample]) -> ChunkChange | None:
    """The change of chunks between two runs; ``None`` where nothing shows one.

    The chunks changed where both runs name a ``chunker_version`` and they differ, where ids that both retrieved name
    another text or span in each, or where a run never returned a gold id although its chunks cover the gold spans.
    """
    gold = {query.sample_id: gold_documents(query) for query in queries}
    docs = _documents(run_a), _documents(run_b)
    every = _counts(run_a, run_b, docs, docs[0].keys() & docs[1].keys())
    of_gold = _counts(run_a, run_b, docs, {one.doc_id for ones in gold.values() for one in ones})
    reused = every.changed or of_gold.changed
    documents = {item.doc.parent_id for run in (run_a, run_b) for item in _retrieved(run)}
    parents = all(
        passage.parent_id is not None or passage.doc_id in documents
        for query in queries
        if "expected_doc_ids" not in (query.metadata or {})
        for one in gold[query.sample_id]
        for passage in one.passages
    )
    version_a, version_b = chunker_versions(run_a.record, run_b.record)
    if None not in (version_a, version_b) and version_a != version_b:
        return ChunkChange(f"chunker_version {version_a} and {version_b}", True, reused, parents or not reused)
    if reused:
        counts = every if every.changed else of_gold
        reason = (
            f"{counts.different} of {counts.same + counts.different} {'' if every.changed else 'gold '}ids that both "
            "runs retrieved name another text or span in each"
        )
        return ChunkChange(reason, False, True, parents)
    return _gold_never_returned(run_a, run_b, gold, docs, every, parents)


def same_id_counts(run_a: RunOutputs, run_b: RunOutputs) -> SameIds:
    """How many ids both runs retrieved, and whether they name the same passages.

    Texts are not compared if the documents of a run were perturbed.
    """
    docs = _documents(run_a), _documents(run_b)
    return _counts(run_a, run_b, docs, docs[0].keys() & docs[1].keys())


def _counts(run_a: RunOutputs, run_b: RunOutputs, docs: tuple[Documents, Documents], ids: Iterable[str]) -> SameIds:
    docs_a, docs_b = docs
    texts = not any(PERTURBED_TAG in run.record.tags for run in (run_a, run_b))
    common = same = different = 0
    for doc_id in ids:
        if doc_id not in docs_a or doc_id not in docs_b:
            continue
        common += 1
        one, other = docs_a[doc_id], docs_b[doc_id]
        span, other_span = span_of(one), span_of(other)
        keys = (run_a.text_keys.get(doc_id), run_b.text_keys.get(doc_id)) if texts else (None, None)
        if None not in (one.parent_id, other.parent_id) and one.parent_id != other.parent_id:
            different += 1
        elif span is not None and other_span is not None:
            # The same location with another text is the same chunk.
            same, different = same + (span == other_span), different + (span != other_span)
        elif None not in keys:
            same, different = same + (keys[0] == keys[1]), different + (keys[0] != keys[1])
    return SameIds(common, same, different)


def _documents(run: RunOutputs) -> Documents:
    """Every retrieved document by its id, without a span where a run gives one id several."""
    found: dict[str, Document] = {}
    for item in _retrieved(run):
        doc = item.doc
        first = found.setdefault(doc.doc_id, doc)
        if first is not doc and (first.span != doc.span or first.parent_id != doc.parent_id):
            found[doc.doc_id] = Document(doc.doc_id)
    return found


def _retrieved(run: RunOutputs) -> Iterator[RetrievedDocument]:
    for outputs in run.outputs:
        for output in outputs.values():
            yield from output.retrieved


def _gold_never_returned(
    run_a: RunOutputs,
    run_b: RunOutputs,
    gold: Mapping[str, Sequence[GoldDocument]],
    docs: tuple[Documents, Documents],
    ids: SameIds,
    parents_known: bool,
) -> ChunkChange | None:
    """The change that the gold shows: a run has none of the gold ids, and yet the passages they name."""
    gold_ids = {one.doc_id for ones in gold.values() for one in ones}
    runs = {"A": run_a, "B": run_b}
    without = [name for name, found in zip("AB", docs, strict=True) if gold_ids.isdisjoint(found)]
    if not gold_ids or not without:
        return None
    places = _locate_gold(gold, docs)
    covering = [name for name in without if _hits_gold(runs[name], places, by="span")]
    if len(covering) == 2:
        reason = "neither run ever returns a gold id, and the chunks of both cover gold spans"
        return ChunkChange(reason, parents_known=parents_known, gold_only=True)
    if covering and not ids.same:
        reason = f"run {covering[0]} never returns a gold id, and its chunks cover gold spans"
        return ChunkChange(reason, parents_known=parents_known)
    if len(without) == 1 and not ids.common and _hits_gold(runs[without[0]], places, by="document"):
        reason = f"run {without[0]} never returns a gold id, and the two runs have no id in common, but documents"
        return ChunkChange(reason, parents_known=parents_known)
    return None


def _locate_gold(
    gold: Mapping[str, Sequence[GoldDocument]], docs: tuple[Documents, Documents]
) -> dict[str, list[GoldDocument]]:
    """The gold with parents and spans, those of a hit where the gold itself has none."""

    def place(passage: Document) -> Document:
        if passage.parent_id is not None and span_of(passage) is not None:
            return passage
        known = [found[passage.doc_id] for found in docs if passage.doc_id in found]
        return next((doc for doc in known if span_of(doc) is not None), next(iter(known), passage))

    return {
        query_id: [GoldDocument(one.doc_id, one.level, tuple(map(place, one.passages))) for one in ones]
        for query_id, ones in gold.items()
    }


def _hits_gold(run: RunOutputs, gold: Mapping[str, Sequence[GoldDocument]], *, by: str) -> bool:
    """Whether any output hits gold by a span, or at least by its document."""
    kinds = ("span",) if by == "span" else ("span", "document")
    return any(
        first_rank(gold_ranks(ones, [item.doc for item in output.retrieved], "place")).by in kinds
        for outputs in run.outputs
        for query_id, ones in gold.items()
        if ones and (output := outputs.get(query_id)) is not None and output.error is None
    )


# --- outputs of each run for a query: failures, documents, answers ---------------------------------------------------


class GoldRanks(NamedTuple):
    """Ranks of gold: for each level of relevance, the highest first, the ranks of gold of at least that level."""

    levels: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> int | None:
        """The rank of the first gold document of any level."""
        return min((rank for ranks in self.levels for rank in ranks), default=None)


@dataclass(frozen=True, slots=True)
class QueryOutput:
    """The outputs of one run for one query, over all repeats."""

    failed: float
    """The proportion of repeats that failed; 0 or 1 without repeats."""
    refused: float
    """The proportion of repeats that refused to answer."""
    context: tuple[Any, ...] | None
    """The ranking of the first output that did not fail; ``None`` if all failed."""
    answers: tuple[Any, ...]
    """The answer of each output that did not fail; empty if the system only retrieves."""
    gold: GoldRanks | None
    """``None`` where no gold is annotated."""
    error: str | None = None
    """The error of the first failed output."""


def paired_outputs(
    store: RunStore, record_a: RunRecord, record_b: RunRecord, sample_ids: Iterable[str]
) -> Iterator[tuple[str, QueryOutput, QueryOutput]]:
    """Each of these samples, in the order of run B, with the outputs of both runs.

    Gold is run B's. If the chunks of the runs differ, ids of chunks mean nothing: gold is then a location in a
    document, or the document if a span is unknown.
    """
    run_a, run_b = read_run_outputs(store, record_a), read_run_outputs(store, record_b)
    change = chunk_change(run_a, run_b, run_b.samples)
    names = set(sample_ids)
    samples = [sample for sample in run_b.samples if sample.sample_id in names]
    matching: dict[str, Matching]
    if change is None or change.gold_only:
        expected = {one.sample_id: gold_documents(one) for one in samples}
        runs = [*run_a.outputs, *run_b.outputs]
        matching = {name: id_or_span(gold, [one.get(name) for one in runs]) for name, gold in expected.items()}
    else:
        expected = _located_gold_of_runs(run_a, run_b, samples, change)
        matching = dict.fromkeys(expected, "place")
    outputs_a, outputs_b = (_query_outputs(samples, run, expected, matching) for run in (run_a, run_b))
    for sample, output_a, output_b in zip(samples, outputs_a, outputs_b, strict=True):
        yield sample.sample_id, output_a, output_b


def _located_gold_of_runs(
    run_a: RunOutputs, run_b: RunOutputs, samples: Sequence[EvaluationSample], change: ChunkChange
) -> dict[str, list[GoldDocument]]:
    by_age = sorted([run_a, run_b], key=lambda run: (run.record.created_at, run.record.run_id))
    places = ChunkLocations(samples, by_age, ids_reused=change.ids_reused)
    return {sample.sample_id: places.expected(sample) for sample in samples}


def _query_outputs(
    samples: Sequence[EvaluationSample],
    run: RunOutputs,
    expected: Mapping[str, Sequence[GoldDocument]],
    matching: Mapping[str, Matching],
) -> list[QueryOutput]:
    by_sample = [[outputs.get(sample.sample_id) for outputs in run.outputs] for sample in samples]
    answered_by_sample = [[one for one in repeats if one is not None and one.error is None] for repeats in by_sample]
    documents = document_rankings(
        Batch(samples, [answered[0] if answered else None for answered in answered_by_sample])
    )
    detector = RefusalDetector()
    query_outputs = []
    for row, (sample, repeats, answered) in enumerate(zip(samples, by_sample, answered_by_sample, strict=True)):
        errors = [one.error for one in repeats if one is not None and one.error is not None]
        missing = None if len(answered) == len(repeats) else "no output is stored"
        gold, how = expected[sample.sample_id], matching[sample.sample_id]
        query_outputs.append(
            QueryOutput(
                failed=(len(repeats) - len(answered)) / len(repeats),
                refused=sum(detector.refused(sample, one) is True for one in answered) / len(repeats),
                context=_context(answered[0], how) if answered else None,
                answers=tuple(_answer(one) for one in answered if one.response is not None),
                gold=_gold_ranks(gold, answered[0] if answered else None, how)
                if gold or gold_documents(sample)
                else _listed_gold_ranks(documents, row),
                error=errors[0] if errors else missing,
            )
        )
    return query_outputs


def _context(output: SystemOutputs, matching: Matching) -> tuple[Any, ...]:
    """The documents in their order; if chunks differ between runs, only chunks of the same location are the same."""
    documents = [item.doc for item in output.retrieved]
    if matching != "place":
        return tuple(document.doc_id for document in documents)
    return tuple((one.parent, object() if one.span is None else tuple(one.span)) for one in documents)


def _answer(output: SystemOutputs) -> tuple[Any, ...]:
    """The answer and its citations."""
    response = output.response
    assert response is not None
    cited = None if output.citations is None else tuple(output.citations)
    return response.text, repr(response.structured), repr(response.sentences), cited


def _gold_ranks(gold: Sequence[GoldDocument], output: SystemOutputs | None, matching: Matching) -> GoldRanks | None:
    """The ranks of gold, level by level; ``None`` if it is unknown what its ids name."""
    if not gold:
        return None
    ranks = gold_ranks(gold, [] if output is None else [item.doc for item in output.retrieved], matching)
    hits = [(one.level, found.rank) for one, found in zip(gold, ranks, strict=True) if found.rank is not None]
    return _by_level({one.level for one in gold}, hits)


def _listed_gold_ranks(documents: RankingColumns, row: int) -> GoldRanks | None:
    """The ranks of the documents that the sample lists as expected; ``None`` if it lists none."""
    gold = documents.gold[row] or {}
    levels = gold if isinstance(gold, dict) else dict.fromkeys(gold, 1)
    known = {level for level in levels.values() if level > 0}
    if not known:
        return None
    first: dict[str, int] = {}
    for rank, doc_id in enumerate(documents.ranked[row], 1):
        if doc_id in levels:
            first.setdefault(doc_id, rank)
    return _by_level(known, [(levels[doc_id], rank) for doc_id, rank in first.items()])


def _by_level(levels: Iterable[int], hits: Sequence[tuple[int, int]]) -> GoldRanks:
    return GoldRanks(
        tuple(tuple(sorted(rank for own, rank in hits if own >= level)) for level in sorted(levels, reverse=True))
    )
