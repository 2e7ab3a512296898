"""Hashes of query-document pairs, and the lookup of judged pairs among retrieved ones."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from .text_hashing import Hashes, VectorizedTexts
from .trec_lines import Ints

__all__ = ["GoldPairs", "collect_gold_pairs", "hash_pairs"]

_QUERY_FACTOR = np.uint64(0x5851F42D4C957F2D)
"""Distributes the query numbers over all 64 bits."""
_SLOTS_PER_PAIR = 32
_MAX_SLOT_BITS = 22


def hash_pairs(queries: Ints, docs: VectorizedTexts, pool: Executor) -> Hashes:
    """Return a hash for each line, equal for equal pairs. Collisions are possible but rare."""
    keys = docs.hashes(pool)
    keys += queries.view(np.uint64) * _QUERY_FACTOR
    return keys


@dataclass(frozen=True, slots=True)
class GoldPairs:
    """The judged documents of all queries, each once: by query, then in file order."""

    lines: Ints
    """The line of each pair."""
    queries: Ints
    levels: Ints
    _keys: Hashes
    """The keys in ascending order."""
    _numbers: Ints
    """The number of the pair of each key."""

    def match(self, keys: Hashes) -> tuple[Ints, Ints]:
        """Return the positions of the keys of judged pairs, and the numbers of these pairs."""
        # Most keys belong to no judged pair: a table of their leading bits excludes them without a search.
        bits = min((len(self._keys) * _SLOTS_PER_PAIR).bit_length(), _MAX_SLOT_BITS)
        shift = np.uint64(64 - bits)
        taken = np.zeros(1 << bits, dtype=np.bool_)
        taken[self._keys >> shift] = True
        positions = np.flatnonzero(taken.take((keys >> shift).view(np.int64)))
        candidates = keys[positions]
        nearest = np.minimum(np.searchsorted(self._keys, candidates), len(self._keys) - 1)
        same = self._keys[nearest] == candidates
        return positions[same], self._numbers[nearest[same]]


def collect_gold_pairs(queries: Ints, docs: VectorizedTexts, levels: Ints, pool: Executor) -> GoldPairs | None:
    """Return the judged pairs of some lines; ``None`` if two keys collide. Of several levels the highest counts."""
    keys = hash_pairs(queries, docs, pool)
    order = np.argsort(keys)
    ordered = keys[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if len(again):
        order = np.lexsort((-levels, keys))
        one, two = order[again - 1], order[again]
        if (queries[one] != queries[two]).any() or not docs.equal(one, docs, two):
            return None
        order = np.delete(order, again)
    lines = np.sort(order)
    if (queries[lines[1:]] < queries[lines[:-1]]).any():
        lines = lines[np.argsort(queries[lines], kind="stable")]
    number = np.empty(len(queries), dtype=np.int64)
    number[lines] = np.arange(len(lines))
    return GoldPairs(lines, queries[lines], levels[lines], keys[order], number[order])
