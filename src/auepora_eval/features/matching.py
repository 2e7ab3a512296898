"""Matching of gold with retrieved documents: by id, by span, by text or by parent document.

A gold unit is what counts once: a gold document, a passage, or a group of documents that contain the same fact. The
functions here are plain definitions for one sample. ``features.hits`` makes columns of them for whole batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from operator import attrgetter, itemgetter
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
MATCH_WORDS: dict[Match, str] = {"id": "id", "span": "span", "text": "text", "parent": "document"}
"""The ways in words: gold is matched by id, by span, by text or by document."""

Span = tuple[int, int]
ParentSpan = tuple[str, int, int]
"""A parent's id, a first character, and one past the last."""
Matching = Match | Literal["exact_id", "place"]
"""How gold is found: in a way of runs; by the ids of the same passages alone (``exact_id``); or by ``place``, for
chunks that were cut differently: by span, and by the same parent where one side has no span."""


class GoldRank(NamedTuple):
    """Where a gold unit is found; ``rank`` is ``None`` where it is not."""

    rank: int | None
    by: Literal["id", "span", "text", "document"] | None = None


_MISSED = GoldRank(None)


class GoldUnit(NamedTuple):
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
    pieces = merge_spans(own, spans)
    starts, ends = word_bounds(passage.text) if len(passage.text) == last - first else ((), ())
    if not starts:
        return sum(end - start for start, end in pieces) / (last - first)
    covered = 0
    for start, end in pieces:
        covered += max(bisect_right(ends, end - first) - bisect_left(starts, start - first), 0)
    return covered / len(starts)


def merge_spans(own: Span, spans: Iterable[Span]) -> list[Span]:
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
def trigrams(text: str) -> frozenset[tuple[str, ...]]:
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

    Documents of one group are one unit. By span and text, each passage of a document is a unit of its own. Matched by
    document, all gold of one parent is one unit.
    """
    key_of = _PASSAGE_KEYS[match]
    passages: dict[Hashable, list[Document]] = {}
    for doc in sample.relevant_docs or ():
        passages.setdefault(key_of(doc), []).append(doc)
    levels = highest_levels(sample, key=key_of)
    units: dict[Hashable, GoldUnit] = {}
    for keys in _unit_keys(sample, passages):
        level = max([levels[key] for key in keys])
        documents = tuple(chain.from_iterable([passages[key] for key in keys]))
        key: Hashable = keys
        name = documents[0].doc_id
        if match == "parent":
            key = frozenset([doc.parent for doc in documents])
            name = documents[0].parent
        if key in units:
            level, documents = max(level, units[key].level), units[key].passages + documents
        units[key] = GoldUnit(name, level, documents)
    return [unit for unit in units.values() if min_relevance is None or unit.level >= min_relevance]


def _id_and_span(doc: Document) -> Hashable:
    return doc.doc_id, span_of(doc)


_PASSAGE_KEYS: dict[Match, Callable[[Document], Hashable]] = {
    "id": attrgetter("doc_id"),
    "span": _id_and_span,
    "text": attrgetter("doc_id", "text"),
    "parent": attrgetter("doc_id"),
}
"""What is equal in gold that is given twice."""


def _unit_keys(sample: EvaluationSample, passages: dict[Hashable, list[Document]]) -> list[tuple[Hashable, ...]]:
    """The keys of the passages of each unit, in the order of the gold."""
    groups = sample.relevant_groups
    if not groups:
        return [(key,) for key in passages]
    ids = {key: found[0].doc_id for key, found in passages.items()}
    grouped = set(chain.from_iterable(groups))
    units = [tuple(key for key in passages if ids[key] in group) for group in groups]
    units += [(key,) for key in passages if ids[key] not in grouped]
    return [keys for keys in dict.fromkeys(units) if keys]


def unit_ranks(units: Sequence[GoldUnit], documents: Sequence[Document], matching: Matching) -> list[GoldRank]:
    """The rank at which each unit is found, in the order of the units.

    By ``span`` and ``text``, a unit without a usable span or text is found by its id.
    """
    rank_of = _RANK_RULES[matching]
    return [first_rank([rank_of(passage, documents) for passage in unit.passages]) for unit in units]


def first_rank(ranks: Iterable[GoldRank]) -> GoldRank:
    """The first of several ranks; of two equal ones, another match precedes one by document."""
    found = [((at.rank, at.by == "document"), at) for at in ranks if at.rank is not None]
    return min(found, key=itemgetter(0), default=(None, _MISSED))[1]


def _id_rank(passage: Document, documents: Sequence[Document]) -> GoldRank:
    ids = [doc.doc_id for doc in documents]
    return GoldRank(ids.index(passage.doc_id) + 1, "id") if passage.doc_id in ids else _MISSED


def _exact_id_rank(passage: Document, documents: Sequence[Document]) -> GoldRank:
    """The rank of the first document with the passage's id that is not known to be another passage."""
    for rank, doc in enumerate(documents, 1):
        if doc.doc_id == passage.doc_id and not is_other_passage(passage, doc):
            return GoldRank(rank, "id")
    return _MISSED


def is_other_passage(passage: Document, doc: Document) -> bool:
    """Whether a document with the same id is known to be another passage."""
    span = span_of(doc)
    if span is None or span_of(passage) is None:
        return False
    return is_other_document(passage, doc) or covered_proportion(passage, [span]) < FOUND_FROM


def _document_rank(passage: Document, documents: Sequence[Document]) -> GoldRank:
    """The rank of the first chunk of the passage's document, or of a document with its id."""
    doc_id, parent = passage.doc_id, passage.parent
    for rank, doc in enumerate(documents, 1):
        if doc.doc_id == doc_id:
            return GoldRank(rank, "id")
        if doc.parent == parent:
            return GoldRank(rank, "document")
    return _MISSED


def _place_rank(passage: Document, documents: Sequence[Document]) -> GoldRank:
    """The rank by span; a chunk of the same parent suffices if either has no span."""
    same_parent = [(rank, doc) for rank, doc in enumerate(documents, 1) if doc.parent == passage.parent]
    spans: list[Span] = []
    for rank, doc in same_parent:
        span = span_of(doc)
        if span is None or span_of(passage) is None:
            return GoldRank(rank, "document")
        spans.append(span)
        if covered_proportion(passage, spans) >= FOUND_FROM:
            return GoldRank(rank, "span")
    return _MISSED


def _covered_rank(passage: Document, documents: Sequence[Document], by: Literal["span", "text"]) -> GoldRank:
    """The first rank up to which the documents cover enough of a passage."""
    if not is_usable(passage, by):
        return _exact_id_rank(passage, documents)
    for rank, proportion in covered_by_rank(passage, documents, by):
        if proportion >= FOUND_FROM:
            return GoldRank(rank, by)
    return _MISSED


_RANK_RULES: dict[Matching, Callable[[Document, Sequence[Document]], GoldRank]] = {
    "id": _id_rank,
    "exact_id": _exact_id_rank,
    "span": partial(_covered_rank, by="span"),
    "text": partial(_covered_rank, by="text"),
    "parent": _document_rank,
    "place": _place_rank,
}


def is_usable(passage: Document, by: Match) -> bool:
    """Whether a gold passage has the span, or enough text, by which it is found."""
    return is_evidence(passage.text) if by == "text" else span_of(passage) is not None


def covered_by_rank(passage: Document, documents: Sequence[Document], by: Match) -> Iterator[tuple[int, float]]:
    """The covered proportion of a usable passage, at each rank whose document may cover more of it."""
    return _covered_by_texts(passage, documents) if by == "text" else _covered_by_spans(passage, documents)


def _covered_by_spans(passage: Document, documents: Sequence[Document]) -> Iterator[tuple[int, float]]:
    spans: list[Span] = []
    for rank, doc in enumerate(documents, 1):
        # A whole document covers all of its passages.
        span = span_of(passage) if _is_whole(doc) else span_of(doc)
        if span is not None and doc.parent == passage.parent:
            spans.append(span)
            yield rank, covered_proportion(passage, spans)


def _covered_by_texts(passage: Document, documents: Sequence[Document]) -> Iterator[tuple[int, float]]:
    wanted = trigrams(passage.text)
    missing = set(wanted)
    for rank, doc in enumerate(documents, 1):
        if doc.text and not is_other_document(passage, doc):
            missing -= trigrams(doc.text)
            yield rank, (len(wanted) - len(missing)) / len(wanted)


def _is_whole(doc: Document) -> bool:
    """Whether a retrieved document is a whole document, not a chunk of unknown place."""
    return doc.span is None and doc.parent == doc.doc_id


def is_text_elsewhere(unit: GoldUnit, documents: Sequence[Document]) -> bool:
    """Whether the text of a unit would be found if chunks of other documents counted."""
    if all(passage.parent_id is None for passage in unit.passages):
        return False
    placeless = tuple(replace(passage, parent_id=None) for passage in unit.passages)
    return unit_ranks([unit._replace(passages=placeless)], documents, "text")[0].rank is not None


def is_resolvable(unit: GoldUnit, documents: Sequence[Document], match: Match) -> bool:
    """Whether a unit could be found by its form and by the fields of the retrieved documents.

    It does not depend on whether the unit was retrieved: an empty ranking can resolve every unit, and misses it.
    """
    if match in ("id", "parent") or not documents:
        return True
    if match == "span":
        readable = any(span_of(doc) is not None or _is_whole(doc) for doc in documents)
    else:
        readable = any(doc.text for doc in documents)
    usable = [passage for passage in unit.passages if is_usable(passage, match)]
    by_id = [passage for passage in unit.passages if not is_usable(passage, match)]
    return (readable and bool(usable)) or any(passage.doc_id.strip() for passage in by_id)


def chunk_levels(units: Sequence[GoldUnit], documents: Sequence[Document], match: Match) -> list[int | None]:
    """For each retrieved document the highest level at which it is relevant; ``None`` if at none.

    By ``span`` and ``text`` a chunk is relevant at a level if it contains enough of a unit of that level or higher, or
    if enough of it lies in such units. By document every chunk of a gold document is relevant.
    """
    return [_chunk_level(doc, units, match) for doc in documents]


def _chunk_level(doc: Document, units: Sequence[GoldUnit], match: Match) -> int | None:
    for level in sorted({unit.level for unit in units}, reverse=True):
        passages = [unit.passages for unit in units if unit.level >= level]
        if is_relevant_chunk(doc, list(chain.from_iterable(passages)), match):
            return level
    return None


def is_relevant_chunk(doc: Document, passages: Sequence[Document], match: Match) -> bool:
    """Whether a chunk contains enough of a gold passage, or enough of it lies in passages."""
    rank_of = _RANK_RULES[match]
    if any(rank_of(passage, [doc]).rank is not None for passage in passages):
        return True
    if match == "span":
        spans = [span_of(passage) for passage in passages if passage.parent == doc.parent]
        return covered_proportion(doc, [span for span in spans if span is not None]) >= FOUND_FROM
    return match == "text" and _lies_in_texts(doc, passages)


def _lies_in_texts(doc: Document, passages: Iterable[Document]) -> bool:
    """Whether enough of a chunk is text of gold passages."""
    if not trigrams(doc.text):
        return False
    usable = [passage for passage in passages if is_evidence(passage.text)]
    return any(proportion >= FOUND_FROM for _, proportion in _covered_by_texts(doc, usable))


# --- ranks of gold for pages, causes and golden queries --------------------------------------------------------------


def gold_ranks(units: Sequence[GoldUnit], documents: Sequence[Document], matching: Matching = "id") -> list[GoldRank]:
    """The rank at which each unit is found, in the order of the units.

    By id, where no id of the units is returned, or the returned ones are other passages, the gold spans decide.
    """
    if matching != "id":
        return unit_ranks(units, documents, matching)
    by_id = unit_ranks(units, documents, "exact_id")
    is_found = any(found.rank is not None for found in by_id)
    return by_id if is_found else unit_ranks(units, documents, "span")


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
        return _MISSED
    units = gold_units(sample, match, min_relevance=None)
    ranks = gold_ranks(units, [item.doc for item in output.retrieved], match)
    found = first_rank(rank for unit, rank in zip(units, ranks, strict=True) if unit.level >= min_relevance)
    return found if depth is None or found.rank is None or found.rank <= depth else _MISSED
