"""Rankings in which the gold was found by whoever read them: arrays, and texts only for those who ask for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from ..core.batch import Batch
from .hits import GoldPositions, gold_positions_key
from .id_only import IdOnlyOutputs, IdOnlySamples
from .rankings import VIEW_KEYS, Gold, RankingColumns

__all__ = ["PrecomputedHits"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class PrecomputedHits:
    """Where the gold of each query was returned. Every query is annotated; one without a line is a missing output."""

    ids: Sequence[str]
    positions: GoldPositions
    read_gold: Callable[[], Sequence[Gold]]
    """Makes the gold of all queries, level by id."""
    read_ranked: Callable[[], Sequence[Sequence[str]]]
    """Makes the rankings of all queries."""
    distinct: bool
    """Whether no ranking holds an id twice; false also where that is not sure."""

    @cached_property
    def _gold(self) -> Sequence[Gold]:
        return self.read_gold()

    @cached_property
    def _ranked(self) -> Sequence[Sequence[str]]:
        return self.read_ranked()

    def batch(self, start: int, stop: int) -> Batch:
        """Some of the queries. Its samples and outputs are made only if a metric asks for them."""
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
    """Some of what is made when the first of it is asked for."""

    def __init__(self, whole: Callable[[], Sequence[T]], start: int, stop: int) -> None:
        self._whole, self._start, self._stop = whole, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, index: int) -> T:  # type: ignore[override]
        return self._whole()[range(self._start, self._stop)[index]]

    def __iter__(self) -> Iterator[T]:
        return iter(self._whole()[self._start : self._stop])
