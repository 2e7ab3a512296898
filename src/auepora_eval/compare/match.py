"""The rank of a query's first expected chunk: matched by id or span, or by its location if documents were rechunked.

``features.gold_match`` decides what is a hit. This module locates the chunks that golden queries expect.
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
    """The rank of the first expected chunk."""

    position: int | None
    document_only: bool = False
    """Whether only the document was the same because a span is unknown."""
    by_span: bool = False
    """Whether chunks with other ids cover the expected span."""


def rank_of(expected: Sequence[GoldDocument], output: SystemOutputs, matching: Matching) -> Rank:
    """The first position at which an expected chunk is hit."""
    rank, by = first_rank(gold_ranks(expected, [item.doc for item in output.retrieved[:DEPTH]], matching))
    return Rank(rank, by == "document", by == "span")


def id_or_span(expected: Sequence[GoldDocument], outputs: Iterable[SystemOutputs | None]) -> Matching:
    """How one query is matched in all of these outputs: by id if any of them returns an expected id, else by span.

    All outputs that are compared are matched in the same way.
    """
    rankings = (
        [item.doc for item in output.retrieved] for output in outputs if output is not None and not output.error
    )
    by_id = any(one.rank is not None for documents in rankings for one in gold_ranks(expected, documents, "id"))
    return "id" if by_id else "id_or_span"


class ChunkLocations:
    """Locations (document and span) of the chunks that golden queries expect, for runs with different chunks.

    A golden query's own ``parent_id`` and ``span`` come first. If it has none, a stored hit of that id is used, from
    the first of the runs that has one. With ``ids_reused``, an id names another passage in each run: then the span
    comes from a hit of the first run only, and a chunk of unknown parent has no location.
    """

    def __init__(
        self, queries: Sequence[EvaluationSample], runs: Sequence[RunOutputs], *, ids_reused: bool = False
    ) -> None:
        expected = {doc_id for query in queries for doc_id in expected_ids(query)}
        self.unknown: set[str] = set()
        """Expected chunks without a known span, for which any chunk of their document counts."""
        self.ambiguous: set[str] = set()
        """Expected chunks with another location in each run, known from hits only."""
        self._of_hits: list[dict[str, Document]] = [_located_hits(run, expected) for run in runs]
        self._ids_reused = ids_reused

    def expected(self, query: EvaluationSample) -> list[GoldDocument]:
        """The locations that a query expects: spans within documents, or documents of which any chunk counts.

        Empty if it is unknown what the expected ids name.
        """
        found: list[GoldDocument] = []
        unknown: list[GoldDocument] = []
        for one in gold_documents(query):
            places = [place for passage in one.passages if (place := self._locate(passage)) is not None]
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
            # A chunk of unknown location is expected in the listed documents that no other chunk accounts for.
            known = {place.parent for one in found for place in one.passages}
            level = max(one.level for one in unknown)
            return found + [GoldDocument(name, level, (Document(name),)) for name in listed if name not in known]
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
            hits = [hit if hit is own else Document(hit.doc_id, parent_id=hit.parent_id) for hit in hits]
            hits = [hit for hit in hits if hit is own or hit.parent_id is not None]
        located = next((hit for hit in hits if span_of(hit) is not None), hits[0] if hits else None)
        if located is None:
            return doc if doc.parent_id is not None or span is not None else None
        return Document(doc.doc_id, parent_id=located.parent, span=located.span if span is None else span)


def _located_hits(run: RunOutputs, expected: set[str]) -> dict[str, Document]:
    """The expected chunks among a run's hits with a known location: the first of each id, or the first with a span."""
    found: dict[str, Document] = {}
    for outputs in run.outputs:
        for output in outputs.values():
            for hit in output.retrieved:
                doc = hit.doc
                if doc.doc_id not in expected or (doc.parent_id is None and span_of(doc) is None):
                    continue
                first = found.get(doc.doc_id)
                if first is None or (span_of(first) is None and span_of(doc) is not None):
                    found[doc.doc_id] = doc
    return found
