"""A vectorised hash table from 64-bit keys to consecutive ids: thousands of keys per numpy call.

A dictionary would do the same one key at a time. Here all keys of an array try a slot of a table at once; where two
different keys collide, the first keeps the slot, and the others try the next table with another hash. Keys are compared
in full, so that the hash affects only speed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["IdTable"]

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int32]

_FREE = -1
_MIN_BITS = 10
# Odd multipliers (fractional digits of square roots), one per table; they repeat after the last.
_MULTIPLIERS = tuple(
    np.uint64(m)
    for m in (0x9E3779B97F4A7C15, 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1)
)


class IdTable:
    """Assigns ids from 0 to keys. ``get_or_add`` adds new keys, ``find`` does not."""

    def __init__(self) -> None:
        self._tables: list[Ids] = []
        self._keys: Keys = np.empty(0, np.uint64)
        self.count = 0
        """The number of different keys."""

    def get_or_add(self, keys: Keys) -> Ids:
        """The id of each key; new keys are added."""
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
        """The id of each key, -1 for an unknown one."""
        result, pending = np.full(len(keys), _FREE, np.int32), None
        for level, table in enumerate(self._tables):
            chunk = keys if pending is None else keys[pending]
            ids = table.take(_slots(chunk, level, table))
            # A free slot ends the search, since the key would have been stored there.
            pending = _assign(result, ids, (self._keys.take(ids) == chunk) | (ids == _FREE), pending)
        if pending is not None:
            result[pending] = _FREE
        return result

    def _rehash(self) -> None:
        """Rebuild with a larger first table; every key keeps its id."""
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
        """The id in each slot, after assigning free slots to one of the keys that hash to them."""
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
    """Store the ids found and return the positions of collisions; a later table overwrites those."""
    wrong = np.flatnonzero(~same)
    if pending is None:
        result[:] = ids
        return wrong
    result[pending] = ids
    return pending[wrong]


def _empty_table(keys: int) -> Ids:
    """A table large enough that most of this number of keys have a slot of their own."""
    bits = max(_MIN_BITS, (2 * keys).bit_length())
    return np.full(1 << bits, _FREE, np.int32)


def _slots(keys: Keys, level: int, table: Ids) -> npt.NDArray[np.int64]:
    """The slot of each key: the top bits of a product, which depend on every bit of the key."""
    bits = len(table).bit_length() - 1
    hashed = keys * _MULTIPLIERS[level % len(_MULTIPLIERS)]
    # Past the last multiplier the product is mixed again, so that all levels hash differently.
    for _ in range(level // len(_MULTIPLIERS)):
        hashed = (hashed ^ (hashed >> np.uint64(31))) * _MULTIPLIERS[0]
    return (hashed >> np.uint64(64 - bits)).view(np.int64)
