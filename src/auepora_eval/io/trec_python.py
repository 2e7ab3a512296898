"""TREC lines read with what every installation has: NumPy finds the columns, msgspec reads the scores."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import msgspec
import numpy as np

from .trec_blocks import Block, Cells, Column, Words, blocks
from .trec_order import Floats, Ints, Lines

__all__ = ["level_of", "qrels_lines", "run_lines"]

_CACHE_BITS = 16
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, as Knuth hashes


def run_lines(data: bytes) -> Lines[Floats] | None:
    """The lines of a run, or ``None`` if there is none or something in them needs a closer look."""
    queries = _Numbered()
    rows: list[Ints] = []
    docs: list[Cells] = []
    scores: list[Floats] = []
    for block in blocks(data, 6, more=True):
        values = None if block is None else _scores(block)
        if block is None or values is None:
            return None
        rows.append(queries.rows(block))
        docs.append(block.cells(2))
        scores.append(values)
    return Lines(queries.names(), np.concatenate(rows), Column(docs), np.concatenate(scores)) if rows else None


def qrels_lines(data: bytes) -> Lines[list[int]] | None:
    """The lines of qrels, or ``None`` if there is none or something in them needs a closer look."""
    queries = _Numbered()
    known = _Levels()
    rows: list[Ints] = []
    docs: list[Cells] = []
    levels: list[int] = []
    for block in blocks(data, 4):
        if block is None:
            return None
        try:
            levels += map(known.__getitem__, block.cells(3).joined.split())
        except ValueError:
            return None
        rows.append(queries.rows(block))
        docs.append(block.cells(2))
    return Lines(queries.names(), np.concatenate(rows), Column(docs), levels) if rows else None


def level_of(text: bytes) -> int:
    """The level that ``text`` stands for; anything but an integer is a ``ValueError``."""
    if b"_" in text:  # Python reads 1_000 as a number
        raise ValueError
    return int(text)


class _Levels(dict[bytes, int]):
    """Levels by their texts: few distinct levels, many lines."""

    def __missing__(self, text: bytes) -> int:
        level = self[text] = level_of(text)
        return level


class _Numbered:
    """The queries, numbered by first appearance."""

    def __init__(self) -> None:
        # By the bytes of their ids, read as a number: an id holds no zero byte, so that no two ids have the same.
        self._numbers: defaultdict[int, int] = defaultdict(count().__next__)
        self._cached_words = np.zeros(1 << _CACHE_BITS, dtype=np.uint64)
        self._cached_numbers = np.zeros(1 << _CACHE_BITS, dtype=np.int64)

    def names(self) -> list[str]:
        return [word.to_bytes((word.bit_length() + 7) // 8, "little").decode() for word in self._numbers]

    def rows(self, block: Block) -> Ints:
        """Per line the number of its query."""
        words = block.words(0)
        if words is None:
            changed = block.changes(0)
            cells = block.cells(0, only=changed).joined.split()
            numbers = self._looked_up([int.from_bytes(cell, "little") for cell in cells])
        else:
            changed = np.concatenate(([True], words[1:] != words[:-1]))
            numbers = self._cached(words[changed])
        return np.repeat(numbers, np.diff(np.flatnonzero(changed), append=len(block)))

    def _cached(self, words: Words) -> Ints:
        # Each word has one place in the cache, by the upper bits of a product that all its bytes take part in.
        places = ((words * _SPREAD) >> np.uint64(64 - _CACHE_BITS)).astype(np.int64)
        numbers = self._cached_numbers[places]
        missed = np.flatnonzero(self._cached_words[places] != words)
        if len(missed):
            numbers[missed] = self._looked_up(words[missed].tolist())
            self._cached_words[places[missed]] = words[missed]  # of several for one place the last stays, in both
            self._cached_numbers[places[missed]] = numbers[missed]
        return numbers

    def _looked_up(self, words: list[int]) -> Ints:
        return np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))


_JSON_NUMBERS = msgspec.json.Decoder(list[float])


def _scores(block: Block) -> Floats | None:
    """The scores as ``float`` reads them; ``None`` if one is not a number."""
    cells = block.cells(4, b",").joined[:-1]
    try:
        # Nearly all scores are numbers as JSON writes them, and msgspec reads those several times faster than float().
        scores = _JSON_NUMBERS.decode(b"[%b]" % cells)
    except msgspec.DecodeError:
        if b"_" in cells:
            return None
        try:
            scores = list(map(float, cells.split(b",")))
        except ValueError:
            return None
    values = np.fromiter(scores, np.float64, len(scores))
    if len(values) != len(block) or np.isnan(values).any():  # more numbers than cells: a cell held a comma
        return None
    return values
