"""The gold of a query: marks and ranks of retrieved documents, gold passages, rankings joined by their documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...core.conventions import Match
from ...core.types import Document, EvaluationSample
from ...errors import AueporaError
from ...features.matching import (
    MATCH_WORDS,
    GoldRank,
    GoldUnit,
    chunk_levels,
    first_rank,
    gold_ranks,
    gold_units,
    has_spans,
    merge_spans,
)
from ...features.rankings import parse_level

Ranges = list[tuple[int, int]]
"""Start and end (exclusive) positions, in ascending order."""


class Hit(NamedTuple):
    """How a retrieved document hits gold, and the level of it."""

    how: str
    """How gold was matched, such as ``by document``; empty if by its id."""
    level: int | None


Hits = dict[int, Hit]
"""Hits by rank."""

# --- gold passages and hits ------------------------------------------------------------------------------------------


class GoldMarks:
    """The gold of one sample, and the marks of retrieved documents."""

    def __init__(self, sample: EvaluationSample, match: Match = "id") -> None:
        """``match`` is the way of the run in which gold is matched. By span and text, the documents need texts."""
        self.match = match
        self.levels: dict[str, int] = {}
        self.annotated = sample.relevant_docs is not None
        self._parents: set[str] = set()
        self._passages: dict[str, list[tuple[int, int]]] = {}
        for document in sample.relevant_docs or ():
            level = relevance(document)
            self.levels[document.doc_id] = max(level, self.levels.get(document.doc_id, level))
            if level > 0:
                self._parents.add(document.parent)
                if document.span is not None:
                    self._passages.setdefault(document.parent, []).append(document.span)
        expected = sample.metadata.get("expected_doc_ids")
        if isinstance(expected, (list, tuple)):
            self._parents.update(one for one in expected if isinstance(one, str))
        self._not_relevant = {document.doc_id for document in sample.candidate_docs or ()} - self.levels.keys()
        self._has_groups = bool(sample.relevant_groups)
        self._units: list[GoldUnit] = []
        if match != "id" or self._has_groups or has_spans(sample):
            with suppress(AueporaError):  # a level that is not an integer
                self._units = gold_units(sample, match)

    def ranks(self, documents: Sequence[Document]) -> dict[str, GoldRank]:
        """The hit of each retrieved gold document, at which its unit is found."""
        found: dict[str, GoldRank] = {}
        if not self._units:  # ids suffice
            for doc_id, rank in first_ranks(documents).items():
                if self.levels.get(doc_id, 0) > 0:
                    found[doc_id] = GoldRank(rank, "id")
        for unit, at in zip(self._units, gold_ranks(self._units, documents, self.match), strict=True):
            if at.rank is None:
                continue
            for passage in unit.passages:
                found[passage.doc_id] = first_rank([at, found.get(passage.doc_id, at)])
        return found

    def gold_ranks(self, documents: Sequence[Document]) -> dict[str, int]:
        """The rank of each retrieved gold document."""
        return {doc_id: at.rank for doc_id, at in self.ranks(documents).items() if at.rank is not None}

    def first_rank(self, documents: Sequence[Document]) -> int | None:
        """The rank of the first gold document."""
        return first_rank(self.ranks(documents).values()).rank

    def hits(self, documents: Sequence[Document]) -> Hits:
        """Every rank at which gold is found or a chunk is relevant. A chunk that is returned again is not again."""
        found: Hits = {}
        if self._has_groups or self.match != "id":
            levels = chunk_levels(self._units, documents, self.match)
            for rank in first_ranks(documents).values():
                if (level := levels[rank - 1]) is not None:
                    found[rank] = Hit(f"by {MATCH_WORDS[self.match]}".removeprefix("by id"), level)
        for doc_id, at in self.ranks(documents).items():
            assert at.rank is not None
            found[at.rank] = Hit(f"by {at.by}".removeprefix("by id"), self.levels[doc_id])
        return found

    def marks(self, documents: Sequence[Document]) -> list[str]:
        """Per position ``gold``, ``again`` (the same id), ``part`` (same document), ``not`` (judged so) or nothing."""
        return [mark for mark, _ in self.explained_marks(documents)]

    def explained_marks(self, documents: Sequence[Document]) -> list[tuple[str, Hit]]:
        """The mark of each document, how it was matched, and its level."""
        hits = self.hits(documents)
        seen: set[str] = set()
        explained = []
        for rank, document in enumerate(documents, 1):
            hit = Hit("", self.levels.get(document.doc_id))
            mark = "gold" if rank in hits else self._mark_without_hit(document, hit.level, document.doc_id in seen)
            explained.append((mark, hits.get(rank, hit)))
            seen.add(document.doc_id)
        return explained

    def _mark_without_hit(self, document: Document, level: int | None, is_again: bool) -> str:
        if level is not None and level > 0:  # another passage, or below a hit by span
            return "again" if is_again else "part"
        if level == 0 or document.doc_id in self._not_relevant:
            return "not"
        return "part" if document.parent in self._parents else ""

    def gold_passages(self, document: Document) -> Ranges:
        """The ranges of gold passages in the text of a document whose span in its parent is known."""
        passages = self._passages.get(document.parent)
        own = (0, len(document.text)) if document.parent == document.doc_id else None
        span = document.span or own
        if not passages or not document.text or span is None or span[1] - span[0] != len(document.text):
            return []  # no gold, an unknown place, or a text that does not match its span
        first, last = span
        if any(start <= first and last <= end for start, end in passages):
            return []  # the whole document is gold
        return [(start - first, end - first) for start, end in merge_spans(span, passages)]


def relevance(document: Document) -> int:
    """The relevance level of a gold document; 1 where it is not an integer."""
    metadata: Mapping[str, object] = document.metadata
    try:
        return parse_level(metadata.get("relevance", 1), document.doc_id, "")
    except AueporaError:
        return 1


def first_ranks(documents: Sequence[Document]) -> dict[str, int]:
    """The first rank of each id."""
    ranks: dict[str, int] = {}
    for rank, document in enumerate(documents, 1):
        ranks.setdefault(document.doc_id, rank)
    return ranks
