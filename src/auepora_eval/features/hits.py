"""Hits: at which positions the gold documents of each query were returned. Every ranking metric is a sum over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, repeat
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, batch_feature
from ..core.conventions import Conventions
from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadTypeError, DuplicateIdError
from .rankings import (
    HIGHEST_LEVEL,
    VIEW_KEYS,
    Gold,
    GoldLists,
    IdOnlyOutputs,
    IdOnlySamples,
    RankingColumns,
    highest_levels,
    rankings,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
RankingView = Callable[[Batch], RankingColumns]
"""Selects gold and returned ids: ``rankings``, ``judged_rankings`` or ``document_rankings``."""

_EMPTY: frozenset[str] = frozenset()
_MANY_LOOKUPS = 400
_ROW_KEY = 2 * HIGHEST_LEVEL + 1
"""Larger than the difference of two levels."""


@dataclass(frozen=True, slots=True)
class GoldPositions:
    """The first position of every returned gold id, and the levels of all gold ids."""

    row: Ints
    rank: Ints
    """0-based position in the ranking."""
    level: Ints | None
    """Judged level of each; ``None`` where every level in the batch is 1."""
    returned: Ints
    """Per query the number of positions."""
    annotated: Bools
    """Per query whether it has gold at all (an empty list counts)."""
    gold_count: Ints
    """Per query the number of ids with a level."""
    gold_level: Ints | None
    """The levels of all gold ids, query after query; ``None`` where all are 1."""

    def query_range(self, start: int, stop: int) -> GoldPositions:
        """The positions of a range of queries."""
        hits = slice(*np.searchsorted(self.row, [start, stop]).tolist())
        golds = slice(int(self.gold_count[:start].sum()), int(self.gold_count[:stop].sum()))
        return GoldPositions(
            row=self.row[hits] - start,
            rank=self.rank[hits],
            level=None if self.level is None else self.level[hits],
            returned=self.returned[start:stop],
            annotated=self.annotated[start:stop],
            gold_count=self.gold_count[start:stop],
            gold_level=None if self.gold_level is None else self.gold_level[golds],
        )

    def gold_rows(self) -> Ints:
        """The query of each entry of ``gold_level``."""
        return np.repeat(np.arange(len(self.gold_count)), self.gold_count)


@dataclass(frozen=True, slots=True)
class Hits:
    """The positions of relevant documents, for one threshold of relevance and one depth."""

    row: Ints
    rank: Ints
    place: Ints
    """0-based index of the hit within its query."""
    gold: Ints
    """Per query |G|."""
    returned: Ints
    """Per query |R|."""

    def __len__(self) -> int:
        return len(self.gold)


@dataclass(frozen=True, slots=True)
class IdealRanking:
    """The gold of each query by descending level, query after query."""

    row: Ints
    rank: Ints
    """0-based position in the ideal ranking."""
    level: Ints


def gold_positions(batch: Batch, view: RankingView = rankings) -> GoldPositions:
    """The positions of judged ids in one view of the rankings of a batch."""
    return batch.feature(gold_positions_key(view_key(batch, view)), lambda b: _find_positions(view(b)))


def gold_positions_key(view: str = rankings.__name__) -> tuple[str, str]:
    """The feature key of the positions in a view of the rankings."""
    return "found", view


def hits(batch: Batch, conventions: Conventions, view: RankingView = rankings) -> Hits:
    """The hits of a batch under these conventions."""
    key = ("hits", view_key(batch, view), conventions.min_relevance, conventions.depth)
    return batch.feature(
        key, lambda b: _filter_relevant(gold_positions(b, view), conventions.min_relevance, conventions.depth)
    )


def early_hits(batch: Batch, conventions: Conventions, k: int, view: RankingView = rankings) -> Ints:
    """Which of the hits lie in the first ``k`` positions."""
    key = ("early_hits", view_key(batch, view), conventions.min_relevance, conventions.depth, k)
    return batch.feature(key, lambda b: np.flatnonzero(hits(b, conventions, view).rank < k))


def hits_within(batch: Batch, conventions: Conventions, k: int | None, view: RankingView = rankings) -> Ints:
    """Per query the number of hits in the first ``k`` positions."""
    key = ("hits_within", view_key(batch, view), conventions.min_relevance, conventions.depth, k)

    def count(batch: Batch) -> Ints:
        all_hits = hits(batch, conventions, view)
        row = all_hits.row if k is None else all_hits.row[early_hits(batch, conventions, k, view)]
        return np.bincount(row, minlength=len(all_hits))

    return batch.feature(key, count)


@batch_feature
def ideal_ranking(batch: Batch) -> IdealRanking:
    """The ideal ranking of each query in a batch."""
    positions = gold_positions(batch)
    row = positions.gold_rows()
    rank = np.arange(len(row)) - (np.cumsum(positions.gold_count) - positions.gold_count)[row]
    if positions.gold_level is None:
        return IdealRanking(row, rank, np.ones_like(row))
    # Query and level in one integer: sorting integers is faster than argsort. Rows are sorted already.
    row_keys = row * _ROW_KEY
    return IdealRanking(row, rank, row_keys - np.sort(row_keys - positions.gold_level))


def view_key(batch: Batch, view: RankingView) -> str:
    """The name of a view; views with the same columns share one key."""
    return rankings.__name__ if view(batch) is rankings(batch) else view.__name__


def _filter_relevant(positions: GoldPositions, min_relevance: int, depth: int | None) -> Hits:
    row, rank, gold, returned = positions.row, positions.rank, positions.gold_count, positions.returned
    if positions.level is not None:
        assert positions.gold_level is not None  # both, or neither
        keep = positions.level >= min_relevance
        row, rank = row[keep], rank[keep]
        gold = np.bincount(positions.gold_rows()[positions.gold_level >= min_relevance], minlength=len(gold))
    elif min_relevance > 1:  # every level is 1
        row, rank, gold = row[:0], rank[:0], np.zeros_like(gold)
    if depth is not None:
        row, rank = row[rank < depth], rank[rank < depth]
        returned = np.minimum(returned, depth)
    per_query = np.bincount(row, minlength=len(gold))
    first = np.cumsum(per_query) - per_query
    return Hits(row, rank, np.arange(len(row)) - first[row], gold, returned)


def capped_gold(all_hits: Hits, k: int | None, conventions: Conventions) -> Ints:
    """Per query min(|G|, k), the maximum number of hits within the cut-off; K_eff caps it at |R|."""
    most = all_hits.gold if k is None else np.minimum(all_hits.gold, k)
    return np.minimum(most, all_hits.returned) if conventions.k_policy == "effective" else most


def sum_by_query(row: Ints, weights: Floats, queries: int) -> Floats:
    """Per query the sum of its hits' weights, added in rank order."""
    return np.asarray(np.bincount(row, weights, minlength=queries), dtype=np.float64)


@batch_feature
def has_judgement(batch: Batch) -> Bools:
    """Per query whether it has any judgement: a level of at least 0, or a candidate document."""
    positions = gold_positions(batch)
    if positions.gold_level is None:
        judged = positions.gold_count > 0
    else:
        judged = np.bincount(positions.gold_rows()[positions.gold_level >= 0], minlength=len(batch)) > 0
    for query in np.flatnonzero(~judged & positions.annotated).tolist():
        judged[query] = bool(batch.samples[query].candidate_docs)
    return judged


@batch_feature
def reject_duplicates(batch: Batch) -> None:
    """Raise where a ranking contains an id twice, for conventions under which that is an error."""
    columns = rankings(batch)
    if columns.known_distinct:
        return
    for query, ids in enumerate(columns.ranked):
        if len(set(ids)) != len(ids) and columns.gold[query] is not None:
            seen: set[str] = set()
            twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
            raise DuplicateIdError(
                f"query '{columns.ids[query]}': '{twice}' was returned twice, which the conventions forbid; "
                'remove the repetition, or count its first position: duplicates "first" (--duplicates first)'
            )


def _find_positions(columns: RankingColumns) -> GoldPositions:
    kinds = {frozenset} if isinstance(columns.gold, GoldLists) else set(map(type, columns.gold))
    annotated = np.ones(len(columns.gold), dtype=np.bool_)
    gold: Sequence[Gold] = columns.gold  # type: ignore[assignment]
    if type(None) in kinds:
        annotated = np.fromiter((entry is not None for entry in columns.gold), np.bool_, len(gold))
        gold = [_EMPTY if entry is None else entry for entry in columns.gold]
    graded = dict in kinds
    found_ids: list[str] | None = [] if graded else None
    # Sets are created one by one when needed, and lists are checked instead of them, which is faster.
    sets: Iterable[Any] = map(frozenset, gold) if graded else gold
    listed = columns.gold.lists if isinstance(columns.gold, GoldLists) else gold
    try:
        left, counts, gold_count, returned = _lookup_ids(listed, sets, columns.ranked, found_ids)
    except TypeError:
        _raise_non_string_id(columns)
        raise
    row = np.repeat(np.arange(len(gold)), counts)
    level, gold_level = (None, None) if found_ids is None else _levels(gold, row, found_ids)
    return GoldPositions(
        row=row,
        rank=returned[row] - 1 - left,
        level=level,
        returned=returned,
        annotated=annotated,
        gold_count=gold_count,
        gold_level=gold_level,
    )


def _lookup_ids(
    gold: Iterable[Collection[str]],
    sets: Iterable[frozenset[str] | set[str]],
    ranked: Iterable[Sequence[str]],
    found_ids: list[str] | None,
) -> tuple[Ints, Ints, Ints, Ints]:
    """For each gold id that was returned, in order, how many ids follow its first position; per query hits, |G|, |R|.

    Looking up every returned id once, in C, is nearly the whole cost of evaluating a ranking. ``isdisjoint`` stops at
    the first id that is gold and leaves the iterator behind it, so that going on from there finds the next one.
    """
    left: list[int] = []
    counts: list[int] = []
    sizes: list[int] = []
    lengths: list[int] = []
    count, size, length, starts_with = counts.append, sizes.append, lengths.append, "".startswith
    for listed, known, ids in zip(gold, sets, ranked, strict=True):
        # The tuple form of startswith rejects anything but strings, without copying a character; only an empty id makes
        # it stop early, and then joining checks all.
        if starts_with(tuple(listed)):
            "".join(listed)
        returned = tuple(ids)
        if starts_with(returned):
            "".join(returned)
        to_come: Any = iter(returned)
        how_many = to_come.__length_hint__
        length(many := len(returned))
        none_in = (known if many < _MANY_LOOKUPS else _resize_set(known)).isdisjoint
        first: dict[str, int] = {}
        while not none_in(to_come):
            rest = how_many()
            doc_id = returned[~rest]
            if doc_id not in first:
                first[doc_id] = rest
        left += first.values()
        count(len(first))
        size(len(known))
        if found_ids is not None:
            found_ids += first
    return _ints(left), _ints(counts), _ints(sizes), _ints(lengths)


def _resize_set(known: Collection[str]) -> set[str]:
    """The same ids in a larger hash table, so that lookups have fewer collisions."""
    roomy = set(known)
    roomy.update(known)  # resizes the table before it finds that nothing is new
    return roomy


def _ints(values: list[int]) -> Ints:
    return np.fromiter(values, np.int64, len(values))


def _raise_non_string_id(columns: RankingColumns) -> None:
    golds = columns.gold.lists if isinstance(columns.gold, GoldLists) else columns.gold
    for query, gold, ranked in zip(columns.ids, golds, columns.ranked, strict=True):
        for what, ids in (("gold", gold or ()), ("returned", ranked)):
            for doc_id in ids:
                if not isinstance(doc_id, str):
                    raise BadTypeError(
                        f"sample '{query}': the {what} id {doc_id!r} is of type {type(doc_id).__name__}; "
                        "document ids must be strings"
                    ) from None


def _levels(gold: Sequence[Gold], row: Ints, found_ids: Sequence[str]) -> tuple[Ints | None, Ints | None]:
    """The level of each returned gold id and of each gold id; ``None`` for both where all are 1."""
    each = (entry.values() if isinstance(entry, dict) else repeat(1, len(entry)) for entry in gold)
    gold_level = np.fromiter(chain.from_iterable(each), np.int64)
    if (gold_level == 1).all():
        return None, None
    level = [
        entry[doc_id] if isinstance(entry := gold[query], dict) else 1
        for query, doc_id in zip(row.tolist(), found_ids, strict=True)
    ]
    return np.array(level, dtype=np.int64), gold_level


@lru_cache(maxsize=8)
def _log_table(size: int) -> Floats:
    return np.array([math.log2(rank + 2) for rank in range(size)])


def log_discounts(*ranks: Ints) -> Floats:
    """Table of log2(r + 1) of 1-based ranks r, indexed by the 0-based rank, large enough for the given ranks."""
    size = max(int(several.max(initial=0)) for several in ranks) + 1
    return _log_table(1 << size.bit_length())


# --- matching of retrieved documents and gold: by id, or by the characters of the gold passage -----------------------
# This is the only place that decides it. A gold document is hit at the rank of its id. Where no gold id of the sample
# is returned, or the returned ones are other passages, the gold spans decide: a gold document is hit at the first rank
# at which the retrieved chunks of its parent, taken together up to that rank, cover at least half of its span.

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
    passages: dict[str, list[Document]] = {}
    for doc in sample.relevant_docs or ():
        passages.setdefault(doc.doc_id, []).append(doc)
    return [
        GoldDocument(doc_id, level, tuple(passages[doc_id]))
        for doc_id, level in highest_levels(sample).items()
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


# --- precomputed hits: arrays from the reader, with ids loaded only on access ----------------------------------------

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PrecomputedHits:
    """The positions of the gold of each query. Every query is annotated; one without documents is a missing output."""

    ids: Sequence[str]
    positions: GoldPositions
    read_gold: Callable[[], Sequence[Gold]]
    """Returns the gold of all queries, level by id."""
    read_ranked: Callable[[], Sequence[Sequence[str]]]
    """Returns the rankings of all queries."""
    distinct: bool
    """Whether no ranking contains an id twice; false also where that is unknown."""

    @cached_property
    def _gold(self) -> Sequence[Gold]:
        return self.read_gold()

    @cached_property
    def _ranked(self) -> Sequence[Sequence[str]]:
        return self.read_ranked()

    def batch(self, start: int, stop: int) -> Batch:
        """The batch of a range of queries. Its samples and outputs are created only if a metric needs them."""
        found = self.positions.query_range(start, stop)
        ranked = _LazySlice(lambda: self._ranked, start, stop)
        gold = _LazySlice(lambda: self._gold, start, stop)
        columns = RankingColumns(gold, ranked, self.ids[start:stop], self.distinct)
        missing = found.returned == 0
        # As for bare ids: levels are judged ones, and each id is its own document.
        features: dict[Hashable, Any] = dict.fromkeys(VIEW_KEYS, columns)
        features |= {"missing": missing, "failures": [None] * len(missing), gold_positions_key(): found}
        return Batch(IdOnlySamples(columns), IdOnlyOutputs(columns, missing), features=features)


class _LazySlice(Sequence[T], Generic[T]):
    """A slice of a sequence that is created on first access."""

    def __init__(self, whole: Callable[[], Sequence[T]], start: int, stop: int) -> None:
        self._whole, self._start, self._stop = whole, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, index: int) -> T:  # type: ignore[override]
        return self._whole()[range(self._start, self._stop)[index]]

    def __iter__(self) -> Iterator[T]:
        return iter(self._whole()[self._start : self._stop])
