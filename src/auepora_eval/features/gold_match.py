"""Which retrieved documents are hits for which gold: by id, or by the characters of the gold passage that they cover.

This is the only place that decides it. A gold document is hit at the rank of its id. Where no gold id of the sample is
returned, or the returned ones are other passages, the gold spans decide: a gold document is hit at the first rank at
which the retrieved chunks of its parent, taken together up to that rank, cover at least half of its span.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..core.types import Document, EvaluationSample, SystemOutputs
from .rankings import parse_level

__all__ = [
    "GoldDocument",
    "GoldRank",
    "Matching",
    "ParentSpan",
    "Span",
    "covered_characters",
    "first_gold_rank",
    "first_rank",
    "gold_documents",
    "gold_ranks",
    "has_spans",
    "span_of",
]

Span = tuple[int, int]
ParentSpan = tuple[str, int, int]
"""A parent's id, a first character, and one past the last."""
Matching = Literal["id_or_span", "id", "place"]
"""``id_or_span``: the ids, and the spans where no gold id is returned. ``id``: the ids alone. ``place``: for chunks
that were re-chunked, where ids are not comparable: the span, and the same parent where one side has no span."""


class GoldRank(NamedTuple):
    """Where a gold document is hit; ``rank`` is ``None`` where it is not."""

    rank: int | None
    by: Literal["id", "span", "document"] | None = None


@dataclass(frozen=True, slots=True)
class GoldDocument:
    """A gold document with its highest level, and the passages given for it."""

    doc_id: str
    level: int
    passages: tuple[Document, ...]


def span_of(doc: Document) -> Span | None:
    """The span of a document; ``None`` also for an empty or malformed one."""
    if doc.span is None:
        return None
    try:
        start, end = doc.span
        return (start, end) if start < end else None
    except (TypeError, ValueError):
        return None


def has_spans(sample: EvaluationSample) -> bool:
    """Whether any gold document of a sample has a span."""
    return any(span_of(doc) is not None for doc in sample.relevant_docs or ())


def covered_characters(pieces: Iterable[ParentSpan]) -> int:
    """The number of characters covered by the spans, each counted once.

    >>> covered([("a", 0, 10), ("a", 5, 12), ("b", 0, 3)])
    15
    """
    total, parent, reached = 0, "", 0
    for owner, start, end in sorted(pieces):
        if owner != parent:
            parent, reached = owner, 0
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total


def gold_documents(sample: EvaluationSample, *, min_relevance: int | None = 1) -> list[GoldDocument]:
    """The relevant documents of a sample, each id once; those of every level where ``min_relevance`` is ``None``."""
    levels: dict[str, int] = {}
    passages: dict[str, list[Document]] = {}
    for doc in sample.relevant_docs or ():
        level = parse_level((doc.metadata or {}).get("relevance", 1), doc.doc_id, sample.sample_id)
        levels[doc.doc_id] = max(level, levels.get(doc.doc_id, level))
        passages.setdefault(doc.doc_id, []).append(doc)
    return [
        GoldDocument(doc_id, level, tuple(passages[doc_id]))
        for doc_id, level in levels.items()
        if min_relevance is None or level >= min_relevance
    ]


def gold_ranks(
    gold: Sequence[GoldDocument], documents: Sequence[Document], matching: Matching = "id_or_span"
) -> list[GoldRank]:
    """The rank at which each gold document is hit among the documents retrieved, in the order of ``gold``."""
    if matching == "place":
        return [first_rank(_place_rank(passage, documents) for passage in one.passages) for one in gold]
    by_id = [_id_rank(one, documents) for one in gold]
    if matching == "id" or any(one.rank is not None for one in by_id):
        return by_id
    return [first_rank(_span_rank(passage, documents) for passage in one.passages) for one in gold]


def first_gold_rank(
    sample: EvaluationSample, output: SystemOutputs | None, *, min_relevance: int = 1, depth: int | None = None
) -> GoldRank:
    """The first rank at which an output hits any gold of its sample, by id or by span; a failed one hits nothing."""
    if output is None or output.error is not None:
        return GoldRank(None)
    gold = gold_documents(sample, min_relevance=None)
    ranks = gold_ranks(gold, [item.doc for item in output.retrieved])
    relevant_ranks = (rank for one, rank in zip(gold, ranks, strict=True) if one.level >= min_relevance)
    found = first_rank(relevant_ranks)
    return found if depth is None or found.rank is None or found.rank <= depth else GoldRank(None)


def first_rank(ranks: Iterable[GoldRank]) -> GoldRank:
    """The first of several ranks; of two equal ones, a match by id or span precedes one by document."""
    hits = [one for one in ranks if one.rank is not None]
    return min(hits, key=lambda one: (one.rank, one.by == "document"), default=GoldRank(None))


def _id_rank(gold: GoldDocument, docs: Sequence[Document]) -> GoldRank:
    for rank, doc in enumerate(docs, 1):
        if doc.doc_id == gold.doc_id and not all(_is_other_passage(passage, doc) for passage in gold.passages):
            return GoldRank(rank, "id")
    return GoldRank(None)


def _is_other_passage(passage: Document, doc: Document) -> bool:
    """Whether a document with the same id is known to be another passage."""
    gold_span, span = span_of(passage), span_of(doc)
    if gold_span is None or span is None:
        return False
    if None not in (passage.parent_id, doc.parent_id) and passage.parent_id != doc.parent_id:
        return True
    return not _covers_half(gold_span, [span])


def _span_rank(passage: Document, docs: Sequence[Document]) -> GoldRank:
    """The first rank up to which the chunks of the passage's parent cover half of it."""
    gold_span, parent = span_of(passage), passage.parent
    if gold_span is None:
        return GoldRank(None)
    spans: list[Span] = []
    for rank, doc in enumerate(docs, 1):
        if doc.parent != parent:
            continue
        span = span_of(doc)
        if span is None:
            if doc.parent_id is not None or doc.span is not None:
                continue
            span = gold_span  # a whole document covers all of its passages
        spans.append(span)
        if _covers_half(gold_span, spans):
            return GoldRank(rank, "span")
    return GoldRank(None)


def _place_rank(passage: Document, docs: Sequence[Document]) -> GoldRank:
    """Like ``_span_rank``, but a chunk of the same parent suffices if either has no span."""
    gold_span, parent = span_of(passage), passage.parent
    spans: list[Span] = []
    for rank, doc in enumerate(docs, 1):
        if doc.parent != parent:
            continue
        span = span_of(doc)
        if gold_span is None or span is None:
            return GoldRank(rank, "document")
        spans.append(span)
        if _covers_half(gold_span, spans):
            return GoldRank(rank, "span")
    return GoldRank(None)


def _covers_half(gold_span: Span, spans: Iterable[Span]) -> bool:
    """Whether the spans together cover at least half of the gold span."""
    start, end = gold_span
    common = [("", max(start, first), min(end, last)) for first, last in spans if first < end and start < last]
    return 2 * covered_characters(common) >= end - start
