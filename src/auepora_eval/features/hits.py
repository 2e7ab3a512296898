"""Hits: at which positions the gold documents of each query were returned. Every ranking metric is a sum over them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, count, repeat
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, batch_feature
from ..core.conventions import Conventions, Match
from ..core.types import Document, EvaluationSample
from ..errors import BadTypeError, DuplicateIdError
from .matching import (
    GoldUnit,
    chunk_levels,
    gold_units,
    is_resolvable,
    is_text_elsewhere,
    span_of,
    unit_ranks,
)
from .rankings import (
    HIGHEST_LEVEL,
    VIEW_KEYS,
    Gold,
    GoldLists,
    IdOnlyOutputs,
    IdOnlySamples,
    RankingColumns,
    rankings,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
RankingView: TypeAlias = "Callable[[Batch], RankingColumns] | UnitView"
"""Selects gold and returned ids: ``rankings``, ``judged_rankings`` or ``document_rankings``; or gold units."""

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
    level: Ints
    """Judged level of each."""
    returned: Ints
    """Per query the number of positions."""
    annotated: Bools
    """Per query whether it has gold at all (an empty list counts)."""
    gold_count: Ints
    """Per query the number of ids with a level."""
    gold_level: Ints
    """The levels of all gold ids, query after query."""

    def query_range(self, start: int, stop: int) -> GoldPositions:
        """The positions of a range of queries."""
        hits = slice(*np.searchsorted(self.row, [start, stop]).tolist())
        golds = slice(int(self.gold_count[:start].sum()), int(self.gold_count[:stop].sum()))
        return GoldPositions(
            row=self.row[hits] - start,
            rank=self.rank[hits],
            level=self.level[hits],
            returned=self.returned[start:stop],
            annotated=self.annotated[start:stop],
            gold_count=self.gold_count[start:stop],
            gold_level=self.gold_level[golds],
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
    if isinstance(view, UnitView):
        return batch.feature(gold_positions_key(view.key), view.positions)
    return batch.feature(gold_positions_key(view_key(batch, view)), lambda b: _find_positions(view(b)))


def gold_positions_key(view: str = rankings.__name__) -> tuple[str, str]:
    """The feature key of the positions in a view of the rankings."""
    return "found", view


def hits(batch: Batch, conventions: Conventions, view: RankingView = rankings) -> Hits:
    """The hits of a batch under these conventions."""
    key = ("hits", view_key(batch, view), conventions.min_relevance, conventions.depth)
    depth = None if isinstance(view, UnitView) else conventions.depth  # units are matched within the depth
    return batch.feature(key, lambda b: _filter_relevant(gold_positions(b, view), conventions.min_relevance, depth))


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


def ideal_ranking(batch: Batch, view: RankingView = rankings) -> IdealRanking:
    """The ideal ranking of each query in a batch."""
    return batch.feature(("ideal_ranking", view_key(batch, view)), partial(_ideal_ranking, view=view))


def _ideal_ranking(batch: Batch, view: RankingView) -> IdealRanking:
    positions = gold_positions(batch, view)
    row = positions.gold_rows()
    rank = np.arange(len(row)) - (np.cumsum(positions.gold_count) - positions.gold_count)[row]
    # Query and level in one integer: sorting integers is faster than argsort. Rows are sorted already.
    row_keys = row * _ROW_KEY
    return IdealRanking(row, rank, row_keys - np.sort(row_keys - positions.gold_level))


def view_key(batch: Batch, view: RankingView) -> str:
    """The name of a view; views with the same columns share one key."""
    if isinstance(view, UnitView):
        return view.key
    return rankings.__name__ if view(batch) is rankings(batch) else view.__name__


def _filter_relevant(positions: GoldPositions, min_relevance: int, depth: int | None) -> Hits:
    keep, returned = positions.level >= min_relevance, positions.returned
    row, rank = positions.row[keep], positions.rank[keep]
    is_gold = positions.gold_level >= min_relevance
    gold = np.bincount(positions.gold_rows()[is_gold], minlength=len(positions.gold_count))
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
    level, gold_level = np.ones_like(row), np.ones(int(gold_count.sum()), np.int64)
    if found_ids is not None:
        level, gold_level = _levels(gold, row, found_ids)
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


def _levels(gold: Sequence[Gold], row: Ints, found_ids: Sequence[str]) -> tuple[Ints, Ints]:
    """The level of each returned gold id and of each gold id."""
    each = (entry.values() if isinstance(entry, dict) else repeat(1, len(entry)) for entry in gold)
    gold_level = np.fromiter(chain.from_iterable(each), np.int64)
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


# --- gold units, matched as the conventions name: one view of the rankings for each kind of metric -------------------

UnitPositions = Literal["reached", "placed", "chunks"]
"""What a metric reads of matched units. ``reached``: the rank of the chunk that completes a unit. ``placed``: the same,
but each position holds one unit, so that a unit completed by the same chunk as another takes the next position.
``chunks``: the positions of relevant chunks."""


@dataclass(frozen=True, slots=True)
class MatchedSample:
    """The gold units of one sample, in the order in which they are reached, and the relevant chunks."""

    units: Sequence[GoldUnit]
    """Those that were reached come first."""
    reached: Sequence[int]
    """The 1-based rank of the chunk that completes a unit, for the units that are reached."""
    unresolved: int
    """The number of units that could not be found in any ranking, because of their form."""
    documents: Sequence[Document]
    match: Match
    near: Sequence[int]
    """The ranks of the documents that may be relevant."""

    @property
    def placed(self) -> list[int]:
        """The 1-based position of each reached unit; no two are equal."""
        places: list[int] = []
        last = 0
        for rank in self.reached:
            last = max(rank, last + 1)
            places.append(last)
        return places

    def relevant_chunks(self) -> dict[int, int]:
        """The level of each relevant chunk by its 1-based rank; of a chunk that is returned twice the first."""
        documents = [self.documents[rank - 1] for rank in self.near]
        seen: set[object] = set()
        found: dict[int, int] = {}
        for rank, doc, level in zip(self.near, documents, chunk_levels(self.units, documents, self.match), strict=True):
            chunk = doc.doc_id if self.match == "id" else (doc.doc_id, span_of(doc), doc.text)
            if level is not None and chunk not in seen:
                found[rank] = level
            seen.add(chunk)
        return found

    def position_within(self, k: int | None) -> int | None:
        """The last position of ``unit_ranking`` that holds what was reached within rank ``k``."""
        if k is None:
            return None
        return max([k, *self.placed[: bisect_right(self.reached, k)]])

    def unit_ranking(self) -> tuple[dict[str, int], list[str]]:
        """Units with their levels, and a ranking with one unit or document at each position, for plain definitions."""
        keys, places = _distinct([unit.doc_id for unit in self.units]), self.placed
        levels = {key: unit.level for key, unit in zip(keys, self.units, strict=True)}
        ids = [doc.doc_id for doc in self.documents]
        ids += [""] * (max(places, default=0) - len(ids))
        for position, doc_id in enumerate(ids):
            if doc_id in levels:  # the chunk has the id of a unit that it does not complete
                ids[position] = f"{doc_id} (chunk)"
        for key, place in zip(keys, places, strict=False):
            ids[place - 1] = key
        return levels, ids

    def chunk_ranking(self) -> tuple[dict[str, int], list[str]]:
        """The relevant chunks with their levels, and the returned ids."""
        ids = _distinct([doc.doc_id for doc in self.documents])
        return {ids[rank - 1]: level for rank, level in self.relevant_chunks().items()}, ids

    def units_elsewhere(self) -> list[GoldUnit]:
        """The missed units whose text is retrieved in another document, which is no hit."""
        missed = self.units[len(self.reached) :] if self.match == "text" else ()
        return [unit for unit in missed if is_text_elsewhere(unit, self.documents)]


def _distinct(names: Iterable[str]) -> list[str]:
    """The names; one that occurred before is followed by its place."""
    distinct: dict[str, None] = {}
    for place, name in enumerate(names, 1):
        while name in distinct:
            name = f"{name} ({place})"  # noqa: PLW2901
        distinct[name] = None
    return list(distinct)


def match_sample(
    sample: EvaluationSample,
    documents: Sequence[Document],
    match: Match,
    *,
    lowest: int = 1,
    near: Sequence[int] | None = None,
) -> MatchedSample:
    """Match the gold units of a sample, of this level or higher, with the retrieved documents.

    ``near`` are the ranks of the documents that may be relevant; by default all.
    """
    near = range(1, len(documents) + 1) if near is None else near
    every = gold_units(sample, match, min_relevance=lowest)
    units = [unit for unit in every if is_resolvable(unit, documents, match)]
    ranks = [found.rank for found in unit_ranks(units, [documents[rank - 1] for rank in near], match)]
    reached = [(near[rank - 1], unit) for rank, unit in zip(ranks, units, strict=True) if rank is not None]
    reached.sort(key=_reading_order)
    in_order = [unit for _, unit in reached]
    in_order += [unit for rank, unit in zip(ranks, units, strict=True) if rank is None]
    return MatchedSample(
        in_order, [rank for rank, _ in reached], len(every) - len(units), documents=documents, match=match, near=near
    )


def _reading_order(found: tuple[int, GoldUnit]) -> tuple[int, int]:
    """By rank; of units completed by one chunk, the higher level first."""
    rank, unit = found
    return rank, -unit.level


@dataclass(frozen=True, slots=True)
class UnitView:
    """The gold units of each query and their positions: a view of the rankings of a batch."""

    match: Match
    reads: UnitPositions
    lowest: int = 1
    """The lowest level of a unit. Lower ones are judged not relevant."""
    depth: int | None = None

    @property
    def key(self) -> str:
        """A name for the features of this view."""
        return f"units:{self.match}:{self.reads}:{self.lowest}:{self.depth}"

    def matched(self, batch: Batch) -> Sequence[MatchedSample | None]:
        """The units of each query; ``None`` where nothing is annotated."""
        return batch.feature(("matched", self.match, self.lowest, self.depth), self._match)

    def unresolved(self, batch: Batch) -> Bools:
        """Per query whether it has gold, but none that could be found."""
        matched = self.matched(batch)
        return np.array([found is not None and found.unresolved > 0 and not found.units for found in matched], np.bool_)

    def positions(self, batch: Batch) -> GoldPositions:
        """The positions of the units, or of the relevant chunks."""
        ranks: list[int] = []
        levels: list[int] = []
        gold_levels: list[int] = []
        hit_counts, gold_counts, returned = np.zeros((3, len(batch)), np.int64)
        matched = self.matched(batch)
        for row, found in enumerate(matched):
            if found is None:
                continue
            if self.reads == "chunks":
                chunks = found.relevant_chunks()
                reached, unit_levels = list(chunks), list(chunks.values())
            else:
                reached = found.placed if self.reads == "placed" else list(found.reached)
                unit_levels = [unit.level for unit in found.units]
            ranks += reached
            levels += unit_levels[: len(reached)]
            gold_levels += unit_levels
            hit_counts[row], gold_counts[row] = len(reached), len(unit_levels)
            returned[row] = max(len(found.documents), *reached[-1:], 0)  # units may be placed beyond the end
        return GoldPositions(
            row=np.repeat(np.arange(len(batch)), hit_counts),
            rank=_ints(ranks) - 1,
            level=_ints(levels),
            returned=returned,
            annotated=np.array([found is not None for found in matched], np.bool_),
            gold_count=gold_counts,
            gold_level=_ints(gold_levels),
        )

    def _match(self, batch: Batch) -> list[MatchedSample | None]:
        matched: list[MatchedSample | None] = []
        # Reading the ids validates the documents.
        for sample, output, ids in zip(batch.samples, batch.outputs, rankings(batch).ranked, strict=True):
            if sample.relevant_docs is None:
                matched.append(None)
                continue
            documents = [item.doc for item in output.retrieved[: self.depth]] if ids and output is not None else []
            near = None if self.match == "text" else _ranks_near(sample.relevant_docs, ids[: self.depth], documents)
            found = match_sample(sample, documents, self.match, lowest=self.lowest, near=near)
            if found.units_elsewhere():
                batch.note("the text of gold was retrieved in another document, which is no hit", sample.sample_id)
            matched.append(found)
        return matched


def _ranks_near(gold: Sequence[Document], ids: Sequence[str], documents: Sequence[Document]) -> list[int]:
    """The ranks of the documents that have the id or the parent of a gold document. Others cannot be relevant."""
    names = {passage.doc_id for passage in gold}
    names.update([passage.parent for passage in gold])
    parents = [doc.parent_id for doc in documents]
    if names.isdisjoint(ids) and names.isdisjoint(parents):
        return []
    ranked = zip(count(1), ids, parents, strict=False)
    return [rank for rank, doc_id, parent in ranked if doc_id in names or parent in names]


@batch_feature
def has_groups(batch: Batch) -> bool:
    """Whether the gold of any sample is grouped."""
    return any(sample.relevant_groups for sample in batch.samples)


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
        features[has_groups.__name__,] = False
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
