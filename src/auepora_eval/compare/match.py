"""Where a query's first expected chunk stands: by its id, or by its place where the chunks were cut anew.

Ids belong to one way of cutting documents into chunks. Two runs whose ``chunker_version`` differs are therefore both
matched by place alone: a hit is a chunk of the same parent whose span shares at least half of the shorter of the two
with an expected span. That an id is the same says nothing then: numbered ids (``guide-3``) mean another passage after
every change of the chunker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..core.types import Document, EvaluationSample, SystemOutputs
from .golden import expected_ids
from .stores import RunAnswers

__all__ = ["DEPTH", "Expected", "Places", "Rank", "rank_by_id", "rank_by_place", "shares_half"]

DEPTH = 10
"""Ranks beyond this are misses."""

Span = tuple[int, int]


class Rank(NamedTuple):
    """Where the first expected chunk stands."""

    position: int | None
    document_only: bool = False
    """Whether only the document was the same, a span being unknown."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The places a query expects: spans within documents, and documents of which any chunk will do."""

    spans: tuple[tuple[str, Span], ...]
    documents: frozenset[str]


def shares_half(one: Span, other: Span) -> bool:
    """Whether two spans share at least half of the shorter one."""
    shared = min(one[1], other[1]) - max(one[0], other[0])
    return shared > 0 and 2 * shared >= min(one[1] - one[0], other[1] - other[0])


def rank_by_id(expected: Iterable[str], output: SystemOutputs) -> Rank:
    """The first position that holds an expected chunk."""
    wanted = set(expected)
    for position, hit in enumerate(output.retrieved[:DEPTH], 1):
        if hit.doc.doc_id in wanted:
            return Rank(position)
    return Rank(None)


def rank_by_place(expected: Expected, output: SystemOutputs) -> Rank:
    """The first position that holds a chunk from an expected place."""
    for position, hit in enumerate(output.retrieved[:DEPTH], 1):
        parent, span = hit.doc.parent, _span(hit.doc)
        wanted = [other for document, other in expected.spans if document == parent]
        if span is not None and any(shares_half(span, other) for other in wanted):
            return Rank(position)
        if parent in expected.documents or (span is None and wanted):
            return Rank(position, document_only=True)
    return Rank(None)


class Places:
    """Where chunks lie that golden queries expect.

    A golden query's own ``parent_id`` and ``span`` come first. Where it has none, a stored hit of that id tells, in the
    first of the runs that has one.
    """

    def __init__(self, queries: Sequence[EvaluationSample], runs: Sequence[RunAnswers]) -> None:
        wanted = {doc_id for query in queries for doc_id in expected_ids(query)}
        each = [_places(run, wanted) for run in runs]
        self.unknown: set[str] = set()
        """Expected chunks of which neither the golden queries nor a hit tells where they lie."""
        self.ambiguous: set[str] = set()
        """Expected chunks that lie in another place in each run, where only the hits tell."""
        self._of_hits: list[dict[str, Document]] = each

    def expected(self, query: EvaluationSample) -> Expected:
        """The places that a query expects."""
        ids = set(expected_ids(query))
        spans: dict[tuple[str, Span], None] = {}
        documents: set[str] = set()
        unknown: list[str] = []
        for doc in query.relevant_docs or ():
            if doc.doc_id not in ids:
                continue
            place = self._place(doc)
            if place is None:
                unknown.append(doc.doc_id)
            elif (span := _span(place)) is not None:
                spans[place.parent, span] = None
            else:
                documents.add(place.parent)
        if unknown:
            self.unknown.update(unknown)
            known = documents | {document for document, _ in spans}
            listed = (query.metadata or {}).get("expected_doc_ids")
            # A chunk of unknown place is looked for in the expected documents that no other chunk accounts for.
            documents |= set(listed) - known if listed else set(unknown)
        return Expected(tuple(spans), frozenset(documents))

    def _place(self, doc: Document) -> Document | None:
        """The chunk with its parent and span, as far as they are known; ``None`` where nothing is."""
        span = _span(doc)
        if doc.parent_id is not None and span is not None:
            return doc
        hits = [found for places in self._of_hits if (found := places.get(doc.doc_id)) is not None]
        if doc.parent_id is not None:
            hits = [hit for hit in hits if hit.parent == doc.parent_id]
        if len({(hit.parent, hit.span) for hit in hits if _span(hit) is not None}) > 1 and span is None:
            self.ambiguous.add(doc.doc_id)
        told = next((hit for hit in hits if _span(hit) is not None), hits[0] if hits else None)
        if told is None:
            return doc if doc.parent_id is not None or span is not None else None
        return Document(doc.doc_id, parent_id=told.parent, span=told.span if span is None else span)


def _places(run: RunAnswers, wanted: set[str]) -> dict[str, Document]:
    """The expected chunks among a run's hits that say where they lie: the first of each, or the first with a span."""
    found: dict[str, Document] = {}
    for outputs in run.outputs:
        for output in outputs.values():
            for hit in output.retrieved:
                doc = hit.doc
                if doc.doc_id not in wanted or (doc.parent_id is None and _span(doc) is None):
                    continue
                held = found.get(doc.doc_id)
                if held is None or (_span(held) is None and _span(doc) is not None):
                    found[doc.doc_id] = doc
    return found


def _span(doc: Document) -> Span | None:
    """The span of a chunk; an empty one says no more than none."""
    return None if doc.span is None or doc.span[0] >= doc.span[1] else (doc.span[0], doc.span[1])
