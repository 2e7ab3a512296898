"""Hits: at which positions the gold documents of each query were returned. Every ranking metric is a sum over them.

A hit is the first position of a gold id; a repeated id counts once and occupies all its positions. Arrays are ordered
by query and then by rank, and ``np.bincount`` adds in that order, which is what makes the sums equal, bit for bit, to
a plain loop over the ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import Conventions
from ..core.errors import BadTypeError, DuplicateIdError
from .rankings import Gold, GoldLists, RankingColumns, rankings

__all__ = [
    "GoldPositions",
    "Hits",
    "IdealRanking",
    "RankingView",
    "capped_gold",
    "early_hits",
    "gold_positions",
    "gold_positions_key",
    "has_judgement",
    "hits",
    "hits_within",
    "ideal_ranking",
    "log_discounts",
    "reject_duplicates",
    "sum_by_query",
    "view_key",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
RankingView = Callable[[Batch], RankingColumns]
"""Selects gold and returned ids: ``rankings``, ``judged_rankings`` or ``document_rankings``."""

_EMPTY: frozenset[str] = frozenset()
_MANY_LOOKUPS = 400


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


def ideal_ranking(batch: Batch) -> IdealRanking:
    """The ideal ranking of each query in a batch."""
    return batch.feature("best_ranking", lambda b: _ideal_ranking(gold_positions(b)))


def _ideal_ranking(positions: GoldPositions) -> IdealRanking:
    row = positions.gold_rows()
    rank = np.arange(len(row)) - (np.cumsum(positions.gold_count) - positions.gold_count)[row]
    if positions.gold_level is None:
        return IdealRanking(row, rank, np.ones_like(row))
    # Query and level in one integer: sorting integers is much faster than argsort.
    highest = positions.gold_level.max(initial=0)
    levels = highest - positions.gold_level.min(initial=0) + 1
    falling = row * levels + (highest - positions.gold_level)
    falling.sort()
    return IdealRanking(row, rank, highest - falling % levels)


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


def has_judgement(batch: Batch) -> Bools:
    """Per query whether it has any judgement: a level of at least 0, or a candidate document."""
    return batch.feature("has_judgement", _has_judgement)


def _has_judgement(batch: Batch) -> Bools:
    positions = gold_positions(batch)
    if positions.gold_level is None:
        judged = positions.gold_count > 0
    else:
        judged = np.bincount(positions.gold_rows()[positions.gold_level >= 0], minlength=len(batch)) > 0
    for query in np.flatnonzero(~judged & positions.annotated).tolist():
        judged[query] = bool(batch.samples[query].candidate_docs)
    return judged


def reject_duplicates(batch: Batch) -> None:
    """Raise where a ranking contains an id twice, for conventions under which that is an error."""
    batch.feature("no_duplicates", _reject_duplicates)


def _reject_duplicates(batch: Batch) -> bool:
    columns = rankings(batch)
    if columns.known_distinct:
        return True
    for query, ids in enumerate(columns.ranked):
        if len(set(ids)) != len(ids) and columns.gold[query] is not None:
            seen: set[str] = set()
            twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
            raise DuplicateIdError(
                f"query '{columns.ids[query]}': '{twice}' was returned twice, which the conventions forbid; "
                'remove the repetition, or count its first position: duplicates "first" (--duplicates first)'
            )
    return True


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
