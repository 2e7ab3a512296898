"""Dense numbers for 64-bit keys: equal keys get equal numbers, thousands of keys per numpy call.

A dictionary would do the same one key at a time. Here every key of an array tries a slot of a table at once; where two
different keys meet in one slot the first to come keeps it, and the others try the next table, under another hash. Keys
are compared in full before a number is given, so that the hash decides about speed alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["IdTable"]

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int32]

_FREE = -1
_MIN_BITS = 10
# Odd multipliers without pattern (fractional digits of square roots), one per table; they repeat after the last.
_MULTIPLIERS = tuple(
    np.uint64(m)
    for m in (0x9E3779B97F4A7C15, 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1)
)


class IdTable:
    """Numbers keys from 0 on. ``number`` gives new keys a number, ``find`` only looks."""

    def __init__(self) -> None:
        self._tables: list[Ids] = []
        self._keys: Keys = np.empty(0, np.uint64)
        self.count = 0
        """How many different keys have a number."""

    def get_or_add(self, keys: Keys) -> Ids:
        """The number of each key."""
        if self._tables and 2 * self.count > len(self._tables[0]):
            self._rehash()
        result, pending, level = np.empty(len(keys), np.int32), None, 0
        while True:
            chunk = keys if pending is None else keys[pending]
            if not len(chunk):
                return result
            if level == len(self._tables):
                self._tables.append(_empty_table(len(chunk)))
            table = self._tables[level]
            slots = _slots(chunk, level, table)
            ids = self._claim_slots(table, slots, chunk)
            pending = _assign(result, ids, self._keys.take(ids) == chunk, pending)
            level += 1

    def find(self, keys: Keys) -> Ids:
        """The number of each key, -1 for one that has none."""
        result, pending = np.full(len(keys), _FREE, np.int32), None
        for level, table in enumerate(self._tables):
            chunk = keys if pending is None else keys[pending]
            ids = table.take(_slots(chunk, level, table))
            # A free slot ends the search, since a key that had come this way would have taken it: not found, -1.
            pending = _assign(result, ids, (self._keys.take(ids) == chunk) | (ids == _FREE), pending)
        if pending is not None:
            result[pending] = _FREE
        return result

    def _rehash(self) -> None:
        """Start over with a larger first table, for a numbering that has grown: every key keeps its number."""
        result = np.arange(self.count, dtype=np.int32)
        self._tables = []
        while len(result):
            table = _empty_table(2 * len(result))
            keys = self._keys.take(result)
            slots = _slots(keys, len(self._tables), table)
            table[slots] = result
            self._tables.append(table)
            result = result[table.take(slots) != result]

    def _claim_slots(self, table: Ids, slots: npt.NDArray[np.int64], chunk: Keys) -> Ids:
        """Who holds each slot, after the free ones were given to a key that wants them; of several keys, to any."""
        ids = table.take(slots)
        candidates = np.flatnonzero(ids == _FREE)
        if not len(candidates):
            return ids
        contested = slots.take(candidates)
        table[contested] = candidates  # the last to write stays
        winners = candidates[table.take(contested) == candidates]
        first = self.count
        self.count += len(winners)
        if self.count > len(self._keys):
            self._keys = np.resize(self._keys, max(2 * len(self._keys), self.count, 1 << _MIN_BITS))
        self._keys[first : self.count] = chunk.take(winners)
        table[slots.take(winners)] = np.arange(first, self.count, dtype=np.int32)
        ids[candidates] = table.take(contested)
        return ids


def _assign(
    result: Ids, ids: Ids, same: npt.NDArray[np.bool_], pending: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64]:
    """Write down what was found and return where it was somebody else's; a later table overwrites those."""
    wrong = np.flatnonzero(~same)
    if pending is None:
        result[:] = ids
        return wrong
    result[pending] = ids
    return pending[wrong]


def _empty_table(keys: int) -> Ids:
    """A table with room enough that most of this many keys find a slot of their own."""
    bits = max(_MIN_BITS, (2 * keys).bit_length())
    return np.full(1 << bits, _FREE, np.int32)


def _slots(keys: Keys, level: int, table: Ids) -> npt.NDArray[np.int64]:
    """The slot of each key: the top bits of a product, where every bit of the key has a say."""
    bits = len(table).bit_length() - 1
    hashed = keys * _MULTIPLIERS[level % len(_MULTIPLIERS)]
    # Past the last multiplier the product is stirred again, so that no two levels hash alike.
    for _ in range(level // len(_MULTIPLIERS)):
        hashed = (hashed ^ (hashed >> np.uint64(31))) * _MULTIPLIERS[0]
    return (hashed >> np.uint64(64 - bits)).view(np.int64)
