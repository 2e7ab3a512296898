"""Matching of gold with retrieved documents: by id, by span, by text or by parent document.

A gold unit is what counts once: a gold document, a passage, or a group of documents that contain the same fact. The
functions here are plain definitions for one sample. ``features.hits`` makes columns of them for whole batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from ..core.conventions import Match
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..text.scripts import auto_tokens, is_unspaced, word_bounds
from .rankings import highest_levels

FOUND_FROM = 0.45
"""The covered proportion from which a unit is found. Not one half: a passage whose two halves are chunks of unequal
lengths would be hit by one of them or not by the chance of word lengths."""
MIN_WORDS = 10
MIN_CHARACTERS = 20
"""Shorter gold texts are no evidence for a passage: names and numbers occur in many. The second figure is for scripts
without spaces."""
_NGRAM = 3

Span = tuple[int, int]
ParentSpan = tuple[str, int, int]
"""A parent's id, a first character, and one past the last."""
Trigrams = frozenset[tuple[str, ...]]


class GoldRank(NamedTuple):
    """Where a gold unit is found; ``rank`` is ``None`` where it is not."""

    rank: int | None
    by: Literal["id", "span", "text", "document"] | None = None


@dataclass(frozen=True, slots=True)
class GoldUnit:
    """A unit of gold with its highest level, and the passages given for it. It is found at its first passage."""

    doc_id: str
    """The id of its first document, or of the parent where gold is matched by document."""
    level: int
    passages: tuple[Document, ...]


# --- spans -----------------------------------------------------------------------------------------------------------


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

    >>> covered_characters([("a", 0, 10), ("a", 5, 12), ("b", 0, 3)])
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


def covered_proportion(passage: Document, spans: Iterable[Span]) -> float:
    """The proportion of a passage that spans of its document cover: of its words where its text is known.

    >>> covered_proportion(Document("a", "one two six", span=(0, 11)), [(0, 5), (5, 9)])
    0.6666666666666666
    """
    own = span_of(passage)
    if own is None:
        return 0.0
    first, last = own
    pieces = _merge(own, spans)
    starts, ends = word_bounds(passage.text) if len(passage.text) == last - first else ((), ())
    if not starts:
        return sum(end - start for start, end in pieces) / (last - first)
    covered = 0
    for start, end in pieces:
        covered += max(bisect_right(ends, end - first) - bisect_left(starts, start - first), 0)
    return covered / len(starts)


def _merge(own: Span, spans: Iterable[Span]) -> list[Span]:
    """The parts of a span that others cover, in order; overlapping and adjacent ones as one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        start, end = max(start, own[0]), min(end, own[1])  # noqa: PLW2901
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


# --- texts -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2048)
def trigrams(text: str) -> Trigrams:
    """The distinct trigrams of words of a text; of characters in scripts without spaces."""
    tokens = auto_tokens(text)
    return frozenset(tuple(tokens[start : start + _NGRAM]) for start in range(len(tokens) - _NGRAM + 1))


@lru_cache(maxsize=2048)
def is_evidence(text: str) -> bool:
    """Whether a gold text is long enough to be recognised in a chunk."""
    if is_unspaced(text):
        return len(auto_tokens(text)) >= MIN_CHARACTERS
    return len(auto_tokens(text)) >= MIN_WORDS


def is_other_document(passage: Document, doc: Document) -> bool:
    """Whether a passage and a retrieved chunk are known to be of different documents."""
    return passage.parent_id is not None and doc.parent_id is not None and passage.parent_id != doc.parent_id


# --- units -----------------------------------------------------------------------------------------------------------


def gold_units(sample: EvaluationSample, match: Match = "id", *, min_relevance: int | None = 1) -> list[GoldUnit]:
    """The gold units of a sample; those of every level where ``min_relevance`` is ``None``.

    Documents of one group are one unit. Matched by document, all gold of one parent is one unit.
    """
    passages: dict[str, list[Document]] = {}
    for doc in sample.relevant_docs or ():
        passages.setdefault(doc.doc_id, []).append(doc)
    levels = highest_levels(sample)
    units: dict[object, GoldUnit] = {}
    for ids in _unit_ids(sample, passages):
        documents = tuple(doc for doc_id in ids for doc in passages[doc_id])
        key: object = ids
        name = ids[0]
        if match == "parent":
            key = frozenset(doc.parent for doc in documents)
            name = documents[0].parent
        level = max(levels[doc_id] for doc_id in ids)
        if key in units:
            earlier = units[key]
            level, documents = max(level, earlier.level), earlier.passages + documents
        units[key] = GoldUnit(name, level, documents)
    return [unit for unit in units.values() if min_relevance is None or unit.level >= min_relevance]


def _unit_ids(sample: EvaluationSample, passages: dict[str, list[Document]]) -> list[tuple[str, ...]]:
    """The ids of the documents of each unit, in the order of the gold."""
    groups = getattr(sample, "relevant_groups", None)
    if not groups:
        return [(doc_id,) for doc_id in passages]
    grouped = {doc_id for group in groups for doc_id in group}
    units = [tuple(doc_id for doc_id in passages if doc_id in group) for group in groups]
    units += [(doc_id,) for doc_id in passages if doc_id not in grouped]
    return [ids for ids in dict.fromkeys(units) if ids]


def unit_ranks(units: Sequence[GoldUnit], documents: Sequence[Document], match: Match) -> list[GoldRank]:
    """The rank at which each unit is found, in the order of the units.

    By ``span`` and ``text``, a unit without a usable span or text is found by its id.
    """
    if match == "id" or match == "parent":
        names = _names(units, documents, match)
        return [_name_rank(unit, names, documents, match) for unit in units]
    rank_of = _span_rank if match == "span" else _text_rank
    return [first_rank(rank_of(passage, documents) for passage in unit.passages) for unit in units]


def _names(units: Sequence[GoldUnit], documents: Sequence[Document], match: Match) -> list[str]:
    """What each retrieved document is compared by: its id, or the document that it is part of.

    A document with the id of a gold document is part of the same one.
    """
    if match != "parent":
        return [doc.doc_id for doc in documents]
    parents: dict[str, str] = {}
    for unit in units:
        parents |= {passage.doc_id: passage.parent for passage in unit.passages}
    return [parents.get(doc.doc_id, doc.parent) for doc in documents]


def _unit_names(unit: GoldUnit, match: Match) -> set[str]:
    return {passage.parent if match == "parent" else passage.doc_id for passage in unit.passages}


def _name_rank(unit: GoldUnit, names: Sequence[str], documents: Sequence[Document], match: Match) -> GoldRank:
    own = _unit_names(unit, match)
    for rank, name in enumerate(names, 1):
        if name in own:
            by_id = documents[rank - 1].doc_id in _unit_names(unit, "id")
            return GoldRank(rank, "id" if by_id else "document")
    return GoldRank(None)


def _span_rank(passage: Document, documents: Sequence[Document]) -> GoldRank:
    """The first rank up to which the chunks of the passage's document cover it."""
    gold_span, parent = span_of(passage), passage.parent
    if gold_span is None:
        return _id_rank([passage], documents)
    spans: list[Span] = []
    for rank, doc in enumerate(documents, 1):
        if doc.parent != parent:
            continue
        span = span_of(doc)
        if span is None:
            if not _is_whole(doc):
                continue
            span = gold_span  # a whole document covers all of its passages
        spans.append(span)
        if covered_proportion(passage, spans) >= FOUND_FROM:
            return GoldRank(rank, "span")
    return GoldRank(None)


def _is_whole(doc: Document) -> bool:
    """Whether a retrieved document is a whole document, not a chunk of unknown place."""
    return doc.span is None and doc.parent == doc.doc_id


def _text_rank(passage: Document, documents: Sequence[Document]) -> GoldRank:
    """The first rank up to which the chunks contain enough of the passage's text."""
    if not is_evidence(passage.text):
        return _id_rank([passage], documents)
    wanted = trigrams(passage.text)
    missing = set(wanted)
    for rank, doc in enumerate(documents, 1):
        if not doc.text or is_other_document(passage, doc):
            continue
        missing -= trigrams(doc.text)
        if len(wanted) - len(missing) >= FOUND_FROM * len(wanted):
            return GoldRank(rank, "text")
    return GoldRank(None)


def is_text_elsewhere(unit: GoldUnit, documents: Sequence[Document]) -> bool:
    """Whether the text of a unit would be found if chunks of other documents counted."""
    if not any(is_other_document(passage, doc) for passage in unit.passages for doc in documents):
        return False
    placeless = tuple(replace(passage, parent_id=None) for passage in unit.passages)
    return unit_ranks([replace(unit, passages=placeless)], documents, "text")[0].rank is not None


def is_resolvable(unit: GoldUnit, documents: Sequence[Document], match: Match) -> bool:
    """Whether a unit could be found by its form and by the fields of the retrieved documents.

    It does not depend on whether the unit was retrieved: an empty ranking can resolve every unit, and misses it.
    """
    if match in ("id", "parent") or not documents:
        return True
    if match == "span":
        usable = [passage for passage in unit.passages if span_of(passage) is not None]
        readable = any(span_of(doc) is not None or _is_whole(doc) for doc in documents)
    else:
        usable = [passage for passage in unit.passages if is_evidence(passage.text)]
        readable = any(doc.text for doc in documents)
    if usable and readable:
        return True
    without = [passage for passage in unit.passages if passage not in usable]
    return any(passage.doc_id.strip() for passage in without)


def chunk_levels(units: Sequence[GoldUnit], documents: Sequence[Document], match: Match) -> list[int | None]:
    """For each retrieved document the highest level at which it is relevant; ``None`` if at none.

    By ``span`` and ``text`` a chunk is relevant at a level if it contains enough of a unit of that level or higher, or
    if enough of it lies in such units. By document every chunk of a gold document is relevant.
    """
    names = _names(units, documents, match)
    levels = sorted({unit.level for unit in units}, reverse=True)
    found: list[int | None] = []
    for doc, name in zip(documents, names, strict=True):
        relevant = (level for level in levels if _is_relevant(doc, name, units, level, match=match))
        found.append(next(relevant, None))
    return found


def _is_relevant(doc: Document, name: str, units: Sequence[GoldUnit], level: int, *, match: Match) -> bool:
    """Whether a chunk is relevant to units of this level or higher."""
    high = [unit for unit in units if unit.level >= level]
    if match == "id" or match == "parent":
        return any(name in _unit_names(unit, match) for unit in high)
    if any(found.rank is not None for found in unit_ranks(high, [doc], match)):
        return True
    passages = [passage for unit in high for passage in unit.passages]
    return _lies_in_spans(doc, passages) if match == "span" else _lies_in_texts(doc, passages)


def _lies_in_spans(doc: Document, passages: Iterable[Document]) -> bool:
    """Whether enough of a chunk lies in gold passages."""
    spans = [span_of(passage) for passage in passages if passage.parent == doc.parent]
    return covered_proportion(doc, [span for span in spans if span is not None]) >= FOUND_FROM


def _lies_in_texts(doc: Document, passages: Iterable[Document]) -> bool:
    """Whether enough of a chunk is text of gold passages."""
    chunk = trigrams(doc.text)
    gold: set[tuple[str, ...]] = set()
    for passage in passages:
        if is_evidence(passage.text) and not is_other_document(passage, doc):
            gold |= trigrams(passage.text)
    return bool(chunk) and len(chunk & gold) >= FOUND_FROM * len(chunk)


# --- ranks of gold for pages, causes and golden queries --------------------------------------------------------------


def gold_ranks(units: Sequence[GoldUnit], documents: Sequence[Document], match: Match = "id") -> list[GoldRank]:
    """The rank at which each unit is found, in the order of the units.

    By id, where no id of the units is returned, or the returned ones are other passages, the gold spans decide.
    """
    if match != "id":
        return unit_ranks(units, documents, match)
    by_id = id_ranks(units, documents)
    if any(found.rank is not None for found in by_id):
        return by_id
    return [
        first_rank(_span_rank(passage, documents) for passage in unit.passages if span_of(passage) is not None)
        for unit in units
    ]


def id_ranks(units: Sequence[GoldUnit], documents: Sequence[Document]) -> list[GoldRank]:
    """The ranks by id alone. A document with the id of a unit that is known to be another passage is no hit."""
    return [_id_rank(unit.passages, documents) for unit in units]


def first_gold_rank(
    sample: EvaluationSample,
    output: SystemOutputs | None,
    *,
    min_relevance: int = 1,
    depth: int | None = None,
    match: Match = "id",
) -> GoldRank:
    """The first rank at which an output hits any gold of its sample; a failed one hits nothing."""
    if output is None or output.error is not None:
        return GoldRank(None)
    units = gold_units(sample, match, min_relevance=None)
    ranks = gold_ranks(units, [item.doc for item in output.retrieved], match)
    relevant_ranks = (rank for unit, rank in zip(units, ranks, strict=True) if unit.level >= min_relevance)
    found = first_rank(relevant_ranks)
    return found if depth is None or found.rank is None or found.rank <= depth else GoldRank(None)


def first_rank(ranks: Iterable[GoldRank]) -> GoldRank:
    """The first of several ranks; of two equal ones, another match precedes one by document."""
    found = [rank for rank in ranks if rank.rank is not None]
    return min(found, key=lambda rank: (rank.rank, rank.by == "document"), default=GoldRank(None))


def _id_rank(passages: Sequence[Document], documents: Sequence[Document]) -> GoldRank:
    ids = {passage.doc_id for passage in passages}
    for rank, doc in enumerate(documents, 1):
        if doc.doc_id in ids:
            same_id = [passage for passage in passages if passage.doc_id == doc.doc_id]
            if not all(is_other_passage(passage, doc) for passage in same_id):
                return GoldRank(rank, "id")
    return GoldRank(None)


def is_other_passage(passage: Document, doc: Document) -> bool:
    """Whether a document with the same id is known to be another passage."""
    gold_span, span = span_of(passage), span_of(doc)
    if gold_span is None or span is None:
        return False
    return is_other_document(passage, doc) or covered_proportion(passage, [span]) < FOUND_FROM
