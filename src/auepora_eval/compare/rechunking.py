"""Whether the chunks changed between two runs: detected by ``chunker_version``, or by the stored outputs.

Ids belong to one chunking of the documents. After a change of the chunk size the same id names another passage, or
the gold ids do not occur any more, and every metric that compares ids collapses although retrieval does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..core.types import Document, EvaluationSample, RetrievedDocument
from ..features.gold_match import GoldDocument, first_rank, gold_documents, gold_ranks, span_of
from ..store.run_rows import PERTURBED_TAG
from .stores import RunOutputs
from .versions import chunker_versions

__all__ = ["ChunkChange", "chunk_change", "chunk_change_among", "same_id_counts"]

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
