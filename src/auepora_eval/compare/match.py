"""Where a query's first expected chunk stands: by its id or span, or by its place where the chunks were cut anew.

``features.gold_match`` decides what is a hit. This module knows where the chunks lie that golden queries expect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..core.types import Document, EvaluationSample, SystemOutputs
from ..features.gold_match import GoldDocument, Matching, first_rank, gold_documents, gold_ranks, span_of
from .golden import expected_ids
from .stores import RunOutputs

__all__ = ["DEPTH", "ChunkLocations", "Rank", "id_or_span", "rank_of"]

DEPTH = 10
"""Ranks beyond this are misses."""


class Rank(NamedTuple):
    """Where the first expected chunk stands."""

    position: int | None
    document_only: bool = False
    """Whether only the document was the same, a span being unknown."""
    by_span: bool = False
    """Whether chunks of other ids cover the expected span."""


def rank_of(expected: Sequence[GoldDocument], output: SystemOutputs, matching: Matching) -> Rank:
    """The first position at which an expected chunk is hit."""
    rank, by = first_rank(gold_ranks(expected, [item.doc for item in output.retrieved[:DEPTH]], matching))
    return Rank(rank, by == "document", by == "span")


def id_or_span(expected: Sequence[GoldDocument], outputs: Iterable[SystemOutputs | None]) -> Matching:
    """How one query is matched in all of these outputs: by id where any of them returns an expected id, else by span.

    So that outputs that are compared are matched alike.
    """
    given = ([item.doc for item in output.retrieved] for output in outputs if output is not None and not output.error)
    by_id = any(one.rank is not None for documents in given for one in gold_ranks(expected, documents, "id"))
    return "id" if by_id else "id_or_span"


class ChunkLocations:
    """Where chunks lie that golden queries expect, for runs whose chunks were cut differently.

    A golden query's own ``parent_id`` and ``span`` come first. Where it has none, a stored hit of that id tells, in the
    first of the runs that has one. Where ``ids_reused``, an id names another passage in each run: then only a hit of
    the first run tells the span, and a chunk of unknown parent is expected nowhere.
    """

    def __init__(
        self, queries: Sequence[EvaluationSample], runs: Sequence[RunOutputs], *, ids_reused: bool = False
    ) -> None:
        wanted = {doc_id for query in queries for doc_id in expected_ids(query)}
        self.unknown: set[str] = set()
        """Expected chunks of which neither the golden queries nor a hit tells where they lie, so that their document
        stands in."""
        self.ambiguous: set[str] = set()
        """Expected chunks that lie in another place in each run, where only the hits tell."""
        self._of_hits: list[dict[str, Document]] = [_located_hits(run, wanted) for run in runs]
        self._ids_reused = ids_reused

    def expected(self, query: EvaluationSample) -> list[GoldDocument]:
        """The places that a query expects: spans within documents, and documents of which any chunk will do.

        Empty where nobody knows what the expected ids name.
        """
        found: list[GoldDocument] = []
        unknown: list[GoldDocument] = []
        for one in gold_documents(query):
            places = [place for passage in one.passages if (place := self._place(passage)) is not None]
            if places:
                found.append(GoldDocument(one.doc_id, one.level, tuple(places)))
            else:
                unknown.append(one)
        if not unknown:
            return found
        listed = (query.metadata or {}).get("expected_doc_ids")
        if self._ids_reused and not listed:
            return found
        self.unknown.update(one.doc_id for one in unknown)
        if listed:
            # A chunk of unknown place is looked for in the expected documents that no other chunk accounts for.
            known = {place.parent for one in found for place in one.passages}
            level = max(one.level for one in unknown)
            return found + [GoldDocument(name, level, (Document(name),)) for name in listed if name not in known]
        return found + unknown

    def _place(self, doc: Document) -> Document | None:
        """The chunk with its parent and span, as far as they are known; ``None`` where nothing is."""
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
            hits = [hit if hit is own else Document(hit.doc_id, parent_id=hit.parent_id) for hit in hits]
            hits = [hit for hit in hits if hit is own or hit.parent_id is not None]
        told = next((hit for hit in hits if span_of(hit) is not None), hits[0] if hits else None)
        if told is None:
            return doc if doc.parent_id is not None or span is not None else None
        return Document(doc.doc_id, parent_id=told.parent, span=told.span if span is None else span)


def _located_hits(run: RunOutputs, wanted: set[str]) -> dict[str, Document]:
    """The expected chunks among a run's hits that say where they lie: the first of each, or the first with a span."""
    found: dict[str, Document] = {}
    for outputs in run.outputs:
        for output in outputs.values():
            for hit in output.retrieved:
                doc = hit.doc
                if doc.doc_id not in wanted or (doc.parent_id is None and span_of(doc) is None):
                    continue
                first = found.get(doc.doc_id)
                if first is None or (span_of(first) is None and span_of(doc) is not None):
                    found[doc.doc_id] = doc
    return found
