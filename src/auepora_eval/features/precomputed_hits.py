"""Rankings whose hits the reader has found already: arrays, with ids loaded only on access."""

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
