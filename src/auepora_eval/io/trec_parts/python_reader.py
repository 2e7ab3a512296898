"""Reader of TREC lines without Arrow: NumPy finds the columns, and parses scores of the same format."""

from __future__ import annotations

from collections import defaultdict
from itertools import count

import msgspec
import numpy as np

from .line_blocks import CellBytes, LineBlock, TextColumn, Words, iter_blocks
from .trec_lines import Floats, Ints, TrecLines

__all__ = ["parse_level", "qrels_lines", "run_lines"]

_CACHE_BITS = 16
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, as Knuth hashes


def run_lines(data: bytes) -> TrecLines[Floats] | None:
    """Read the lines of a run; ``None`` if there are none or the plain reader must handle them."""
    queries = _QueryNumbering()
    rows: list[Ints] = []
    docs: list[CellBytes] = []
    scores: list[Floats] = []
    for block in iter_blocks(data, 6, more=True):
        values = None if block is None else _read_scores(block)
        if block is None or values is None:
            return None
        rows.append(queries.rows(block))
        docs.append(block.cells(2))
        scores.append(values)
    return TrecLines(queries.names(), np.concatenate(rows), TextColumn(docs), np.concatenate(scores)) if rows else None


def qrels_lines(data: bytes) -> TrecLines[list[int]] | None:
    """Read the lines of qrels; ``None`` if there are none or the plain reader must handle them."""
    queries = _QueryNumbering()
    known = _LevelCache()
    rows: list[Ints] = []
    docs: list[CellBytes] = []
    levels: list[int] = []
    for block in iter_blocks(data, 4):
        if block is None:
            return None
        try:
            levels += map(known.__getitem__, block.cells(3).joined.split())
        except ValueError:
            return None
        rows.append(queries.rows(block))
        docs.append(block.cells(2))
    return TrecLines(queries.names(), np.concatenate(rows), TextColumn(docs), levels) if rows else None


def parse_level(text: bytes) -> int:
    """Parse a level; anything but an integer is a ``ValueError``."""
    if b"_" in text:  # Python accepts 1_000 as a number
        raise ValueError
    return int(text)


class _LevelCache(dict[bytes, int]):
    """A cache of parsed levels: there are few distinct levels and many lines."""

    def __missing__(self, text: bytes) -> int:
        level = self[text] = parse_level(text)
        return level


class _QueryNumbering:
    """Numbers queries by first occurrence."""

    def __init__(self) -> None:
        # Keys are the bytes of the ids as an integer: ids contain no zero byte, so they are unique.
        self._numbers: defaultdict[int, int] = defaultdict(count().__next__)
        self._cached_words = np.zeros(1 << _CACHE_BITS, dtype=np.uint64)
        self._cached_numbers = np.zeros(1 << _CACHE_BITS, dtype=np.int64)

    def names(self) -> list[str]:
        return [word.to_bytes((word.bit_length() + 7) // 8, "little").decode() for word in self._numbers]

    def rows(self, block: LineBlock) -> Ints:
        """Return the number of the query of each line."""
        words = block.words(0)
        if words is None:
            changed = block.changes(0)
            cells = block.cells(0, only=changed).joined.split()
            numbers = self._look_up([int.from_bytes(cell, "little") for cell in cells])
        else:
            changed = np.concatenate(([True], words[1:] != words[:-1]))
            numbers = self._look_up_cached(words[changed])
        return np.repeat(numbers, np.diff(np.flatnonzero(changed), append=len(block)))

    def _look_up_cached(self, words: Words) -> Ints:
        # Each word has one slot in the cache, by the upper bits of a multiplicative hash.
        places = ((words * _HASH_FACTOR) >> np.uint64(64 - _CACHE_BITS)).astype(np.int64)
        numbers = self._cached_numbers[places]
        missed = np.flatnonzero(self._cached_words[places] != words)
        if len(missed):
            numbers[missed] = self._look_up(words[missed].tolist())
            self._cached_words[places[missed]] = words[
                missed
            ]  # the last of several words for one slot wins, in both arrays
            self._cached_numbers[places[missed]] = numbers[missed]
        return numbers

    def _look_up(self, words: list[int]) -> Ints:
        return np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))


_JSON_NUMBERS = msgspec.json.Decoder(list[float])
_SCORE_COLUMN = 4  # its column
_MINUS, _POINT, _ZERO = b"-.0"
_EXACT_DIGITS = 15  # this many digits are exact in a double


def _read_scores(block: LineBlock) -> Floats | None:
    """Return the scores as ``float`` parses them; ``None`` if one is not a number."""
    values = _read_aligned_scores(block)
    if values is not None:
        return values
    cells = block.cells(_SCORE_COLUMN, b",").joined[:-1]
    try:
        # Nearly all scores are valid JSON numbers, which msgspec parses several times faster than float().
        scores = _JSON_NUMBERS.decode(b"[%b]" % cells)
    except msgspec.DecodeError:
        if b"_" in cells:
            return None
        try:
            scores = list(map(float, cells.split(b",")))
        except ValueError:
            return None
    values = np.fromiter(scores, np.float64, len(scores))
    if len(values) != len(block) or np.isnan(values).any():  # more numbers than cells: a cell contains a comma
        return None
    return values


def _read_aligned_scores(block: LineBlock) -> Floats | None:
    """Return the scores if all have the same number of decimals and few digits: digits are parsed column by column."""
    text, starts, ends = block.text, block.starts[:, _SCORE_COLUMN], block.ends[:, _SCORE_COLUMN]
    negative = text[starts] == _MINUS
    sizes = ends - starts - negative
    longest, shortest = int(sizes.max()), int(sizes.min())
    _, point, fraction = text[starts[0] : ends[0]].tobytes().partition(b".")
    if shortest < max(len(fraction), 1) + len(point) or longest > _EXACT_DIGITS + len(point):
        return None
    if point and (text[ends - 1 - len(fraction)] != _POINT).any():
        return None
    digits = block.tails(_SCORE_COLUMN, longest)
    if digits is None:
        return None
    digits -= _ZERO
    places = list(range(longest))
    if point:
        digits[:, places.pop(-1 - len(fraction))] = 0
    if shortest < longest:
        digits *= np.tri(longest + 1, longest, -1, dtype=np.uint8)[:, ::-1][sizes]  # bytes before a score become 0
    if digits.max() > 9:
        return None
    values = np.zeros(len(block))
    for place in places:
        values *= 10.0
        values += digits[:, place]
    # Both are exact integers, so their quotient is the nearest double, as float() gives.
    values /= float(10 ** len(fraction))
    return np.negative(values, out=values, where=negative)
