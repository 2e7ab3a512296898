"""The layout of TREC lines, and their columns with NumPy: white space of a block is found at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice, pairwise
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from .formats import parse_trec_level

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_BLOCK_BYTES = 1 << 19  # the temporary arrays of a block fit into the CPU cache
_NEWLINE, _SPACE = 10, 32
_WORD = 8
_MAX_FAST_BYTES = 64  # bytes: longer cells are rare and use a slower path
_PADDING = b"\n" + bytes(_MAX_FAST_BYTES)
"""Follows a file, and a newline precedes it, so that every cell is surrounded by white space."""
# For 0 to 8 bytes: the mask of their bits in a little-endian word.
_BYTE_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype="<u8")


@dataclass(frozen=True, slots=True)
class TrecLayout:
    """The columns of the lines of a file: a query, a document and a number among them."""

    names: tuple[str, ...]
    value: int
    """The column of the number."""
    parse: Callable[[bytes], float]
    """Parses the number; anything else is a ``ValueError``."""
    kind: str
    may_have_more: bool = False
    """Whether a line may have further columns, which are ignored."""


def parse_score(text: bytes) -> float:
    """Parse a score; anything but a number is a ``ValueError``."""
    score = float(text)
    if math.isnan(score) or b"_" in text:  # Python accepts 1_000 as a number
        raise ValueError
    return score


QUERY, DOCUMENT = 0, 2
"""The columns of query and document, in both layouts."""
QRELS = TrecLayout(("query", "iteration", "document", "level"), 3, parse_trec_level, "an integer")
RUN = TrecLayout(("query", "Q0", "document", "rank", "score", "tag"), 4, parse_score, "a number", may_have_more=True)


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Some complete lines."""

    offset: int
    """The position of the block in the file."""
    text: Bytes
    """The lines, followed by at least 64 bytes."""
    starts: Ints
    """The start of each cell: a row for each line that is not blank, a column for each column."""
    ends: Ints
    """The end of each cell."""

    def __len__(self) -> int:
        return len(self.starts)

    def cells(self, column: int, separator: bytes = b"\n") -> bytes:
        """Return the cells of one column, each followed by a separator."""
        return _join_cells(self.text, self.starts[:, column], self.ends[:, column], separator)

    def words(self, column: int) -> Words | None:
        """Return the cells of one column as little-endian integers; ``None`` if a cell is longer than 8 bytes."""
        starts = self.starts[:, column]
        sizes = self.ends[:, column] - starts
        if sizes.max() > _WORD:
            return None
        words: Words = np.ndarray(len(self.text) - _WORD + 1, "<u8", self.text, strides=(1,))
        found: Words = words[starts] & _BYTE_MASKS[sizes]
        return found


class TextColumn:
    """The cells of one column of all lines."""

    def __init__(self, text: Bytes, starts: Ints, ends: Ints) -> None:
        self._text, self._starts, self._ends = text, starts, ends

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the cells as strings, in the order of the lines or in another.

        Strings that are used in sequence should be created in sequence, so that they are adjacent in memory.
        """
        found: list[str] = []
        step = max(_BLOCK_BYTES * len(self._starts) // len(self._text), 1)
        for first in range(0, len(self._starts), step):
            lines = slice(first, first + step)
            chosen = lines if order is None else order[lines]
            found += _join_cells(self._text, self._starts[chosen], self._ends[chosen]).decode().split("\n")
            found.pop()
        return found


class IrregularLineError(Exception):
    """A line that must be read by ``bytes.split`` and ``float``."""


def iter_blocks(padded: bytes, layout: TrecLayout) -> Iterator[LineBlock]:
    """Yield the lines of a padded file in blocks.

    A line with another number of columns, or with a control character, is an ``IrregularLineError``.
    """
    text = np.frombuffer(padded, dtype=np.uint8)
    start, end = 0, len(padded) - len(_PADDING)
    while start < end:
        stop = padded.rfind(b"\n", start + 1, start + 1 + _BLOCK_BYTES)
        if stop < 0:  # a line longer than a block
            stop = padded.index(b"\n", start + 1)
        starts, ends = _split_cells(text[start : stop + 1], layout)
        if len(starts):
            yield LineBlock(start, text[start:], starts, ends)
        start = stop


def _join_cells(text: Bytes, starts: Ints, ends: Ints, separator: bytes = b"\n") -> bytes:
    """Return pieces of ``text``, each followed by a separator."""
    sizes = ends - starts + 1
    joined = _gather(text, starts, sizes)
    joined[np.cumsum(sizes) - 1] = ord(separator)
    return joined.tobytes()


def _gather(text: Bytes, starts: Ints, sizes: Ints) -> Bytes:
    """Return the concatenated pieces of ``text`` with these starts and sizes."""
    longest = int(sizes.max())
    if longest > _MAX_FAST_BYTES:
        offsets = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return text[offsets + np.arange(len(offsets))]
    # Copy the same number of bytes from every start as one item, then drop the surplus bytes.
    item = f"V{longest}"
    padded = np.ndarray(len(text) - longest + 1, item, text, strides=(1,))[starts].view(np.uint8)
    if sizes.min() == longest:
        return padded
    kept = np.tri(longest + 1, longest, -1, dtype=np.bool_).view(item)[:, 0][sizes].view(np.bool_)
    return padded[kept]


def _split_cells(text: Bytes, layout: TrecLayout) -> tuple[Ints, Ints]:
    """Return starts and ends of the cells of each line."""
    columns = len(layout.names)
    white = np.flatnonzero(text <= _SPACE)
    kinds = text[white]
    newline = kinds == _NEWLINE
    usual = np.count_nonzero(newline) + np.count_nonzero(kinds == _SPACE)
    if usual < len(kinds) and ((kinds < 9) | ((kinds > 13) & (kinds != _SPACE))).any():
        raise IrregularLineError  # bytes.split splits at 9 to 13 and 32; other control characters are part of a cell
    apart = np.diff(white) > 1
    if apart.all():
        starts, ends = white[:-1] + 1, white[1:]
    else:
        starts, ends = white[:-1][apart] + 1, white[1:][apart]
        newline = np.logical_or.reduceat(newline, np.concatenate(([0], np.flatnonzero(apart) + 1)))
    lines = np.flatnonzero(newline)  # each white space with a newline, by the number of the next cell
    widths = np.diff(lines)
    if not len(widths):
        return starts.reshape(0, columns), ends.reshape(0, columns)
    fewest, most = int(widths.min()), int(widths.max())
    if fewest < columns or (most > columns and not layout.may_have_more):
        raise IrregularLineError
    if fewest == most:
        return starts.reshape(-1, most), ends.reshape(-1, most)
    cells = lines[:-1, np.newaxis] + np.arange(columns)
    return starts[cells], ends[cells]


# --- lines as columns, and their conversion to rankings and judged levels by query -----------------------------------


class DocIds(Protocol):
    """The document ids of all lines, converted to strings on demand."""

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the ids in the order of the lines, or in another."""


DocIdsT = TypeVar("DocIdsT", bound=DocIds, covariant=True)


@dataclass(frozen=True, slots=True)
class TrecLines(Generic[DocIdsT]):
    """The lines of a file in their order, and the ids of their queries by first occurrence."""

    queries: list[str]
    rows: Ints
    """The query of each line, as an index in ``queries``."""
    docs: DocIdsT
    values: npt.NDArray[Any]
    """The score or level of each line: floats without NaN, or integers."""


@dataclass(frozen=True, slots=True)
class LineOrder:
    """The order of the lines of a run: by query, then by score descending."""

    lines: Ints | None
    """The line at each position; ``None`` if the lines are already in order."""
    counts: Ints
    """The number of lines of each query."""
    starts: Ints
    """The position of the first line of each query."""
    ties: tuple[Ints, Ints]
    """The ranges of equal scores within a query: first positions, and positions after the last."""

    def lines_at(self, positions: Ints) -> Ints:
        """Return the lines at some positions."""
        return positions if self.lines is None else self.lines[positions]


def sort_lines(lines: TrecLines[DocIds]) -> LineOrder:
    """Return the order of the lines of a run, except within ties."""
    rows, scores = lines.rows, lines.values
    counts = np.bincount(rows, minlength=len(lines.queries))
    ends = np.cumsum(counts)
    order = None
    same = rows[1:] == rows[:-1]
    if (rows[1:] < rows[:-1]).any() or _has_increase(scores, same):
        same = np.ones(len(same), dtype=np.bool_)
        same[ends[:-1] - 1] = False
        order = _order_by_rounded(rows, len(lines.queries), scores)
        if _has_increase(scores[order], same):
            order = np.lexsort((-scores, rows))
        scores = scores[order]
    return LineOrder(order, counts, ends - counts, _tie_ranges(np.flatnonzero(same & (scores[1:] == scores[:-1]))))


def _has_increase(scores: Floats, same: Bools) -> bool:
    """Whether a score is above the previous one of its query."""
    return bool((same & (scores[1:] > scores[:-1])).any())


def _order_by_rounded(rows: Ints, queries: int, scores: Floats) -> Ints:
    """Sort the lines by query and score descending, with scores rounded to the remaining bits."""
    # Query, score and line in one integer: NumPy sorts integers many times faster than it computes argsort.
    line_bits = (len(rows) - 1).bit_length()
    score_bits = max(64 - line_bits - (queries - 1).bit_length(), 0)
    below = _steps_below_best(scores)
    below >>= np.uint64(max(int(below.max()).bit_length() - score_bits, 0))
    below <<= np.uint64(line_bits)
    below |= rows.view(np.uint64) << np.uint64(line_bits + score_bits)
    below |= np.arange(len(rows), dtype=np.uint64)
    below.sort()
    below &= np.uint64((1 << line_bits) - 1)
    return below.view(np.int64)


def _steps_below_best(scores: Floats) -> npt.NDArray[np.uint64]:
    """Return the number of floats between each score and the highest."""
    bits = scores.view(np.int64)
    rising = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # the bits of negative numbers are in reverse order
    below: npt.NDArray[np.uint64] = rising.max().view(np.uint64) - rising.view(np.uint64)
    return below


def _tie_ranges(tied: Ints) -> tuple[Ints, Ints]:
    """Return starts and ends of ranges of ties; ``tied`` are the positions that tie with the next."""
    if not len(tied):
        return tied, tied
    breaks = np.flatnonzero(np.diff(tied) > 1)
    return tied[np.concatenate(([0], breaks + 1))], tied[np.concatenate((breaks, [len(tied) - 1]))] + 2


def rankings(lines: TrecLines[DocIds]) -> dict[str, list[str]]:
    """Return documents by query, best first: by score descending, ties by id descending."""
    order = sort_lines(lines)
    docs = _sort_ties(lines.docs, order)
    bounds = [*order.starts.tolist(), len(docs)]
    return {query: docs[start:stop] for query, (start, stop) in zip(lines.queries, pairwise(bounds), strict=True)}


def judgements(lines: TrecLines[DocIds]) -> dict[str, dict[str, int]]:
    """Return levels by query and document, in file order. Of several levels for one document the highest counts."""
    rows, levels, order = lines.rows, lines.values, None
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, levels = rows[order], levels[order]
    docs = lines.docs.texts(order)
    pairs = zip(docs, levels.tolist(), strict=True)
    judged = [dict(islice(pairs, count)) for count in np.bincount(rows, minlength=len(lines.queries)).tolist()]
    if sum(map(len, judged)) < len(docs):
        for row, doc, level in zip(rows.tolist(), docs, levels.tolist(), strict=True):
            judged[row][doc] = max(level, judged[row][doc])
    return dict(zip(lines.queries, judged, strict=True))


def _sort_ties(docs: DocIds, order: LineOrder) -> list[str]:
    """Return the ids in that order, each range of ties by id descending."""
    texts = docs.texts(order.lines)
    starts, stops = order.ties
    # Strings compare by code points, which is the order of their UTF-8 bytes and of strcmp in trec_eval.
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        texts[start:stop] = sorted(texts[start:stop], reverse=True)
    return texts


# --- the reader without Arrow: NumPy finds the columns ---------------------------------------------------------------

_CACHE_BITS = 16
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio, as Knuth hashes


def read_columns(data: bytes, layout: TrecLayout) -> TrecLines[TextColumn] | None:
    """Read the lines of a file; ``None`` if there are none or they must be read one by one."""
    queries = _QueryNumbering()
    read_values = _read_scores if layout is RUN else _read_levels
    padded = b"".join((b"\n", data, _PADDING))
    blocks: list[tuple[Ints, npt.NDArray[Any], Ints, Ints]] = []
    try:
        for block in iter_blocks(padded, layout):
            starts, ends = block.starts[:, DOCUMENT] + block.offset, block.ends[:, DOCUMENT] + block.offset
            blocks.append((queries.rows(block), read_values(block), starts, ends))
    except IrregularLineError:
        return None
    if not blocks:
        return None
    rows, values, starts, ends = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    docs = TextColumn(np.frombuffer(padded, dtype=np.uint8), starts, ends)
    return TrecLines(queries.names(), rows, docs, values)


class _QueryNumbering:
    """Numbers queries by first occurrence."""

    def __init__(self) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._cached_words = np.zeros(1 << _CACHE_BITS, dtype=np.uint64)
        self._cached_numbers = np.zeros(1 << _CACHE_BITS, dtype=np.int64)

    def names(self) -> list[str]:
        return [query.decode() for query in self._numbers]

    def rows(self, block: LineBlock) -> Ints:
        """Return the number of the query of each line."""
        words = block.words(QUERY)
        if words is None:
            return self._look_up(block.cells(QUERY).split())
        changed = np.concatenate(([True], words[1:] != words[:-1]))
        numbers = self._look_up_cached(words[changed])
        return np.repeat(numbers, np.diff(np.flatnonzero(changed), append=len(block)))

    def _look_up_cached(self, words: Words) -> Ints:
        # Each word has one slot in the cache, by the upper bits of a multiplicative hash.
        places = ((words * HASH_FACTOR) >> np.uint64(64 - _CACHE_BITS)).astype(np.int64)
        numbers = self._cached_numbers[places]
        missed = np.flatnonzero(self._cached_words[places] != words)
        if len(missed):
            # NumPy removes zero bytes from the end of a string; an id contains none.
            numbers[missed] = self._look_up(words[missed].view("S8").tolist())
            # The last of several words for one slot wins, in both arrays.
            self._cached_words[places[missed]] = words[missed]
            self._cached_numbers[places[missed]] = numbers[missed]
        return numbers

    def _look_up(self, queries: list[bytes]) -> Ints:
        return np.fromiter(map(self._numbers.__getitem__, queries), np.int64, len(queries))


_JSON_NUMBERS = msgspec.json.Decoder(list[float])


def _read_scores(block: LineBlock) -> Floats:
    """Return the scores as ``float`` parses them."""
    cells = block.cells(RUN.value, b",")[:-1]
    try:
        # Nearly all scores are valid JSON numbers, which msgspec parses several times faster than float().
        scores = _JSON_NUMBERS.decode(b"[%b]" % cells)
    except msgspec.DecodeError:
        try:
            scores = list(map(RUN.parse, cells.split(b",")))
        except ValueError as error:
            raise IrregularLineError from error
    if len(scores) != len(block):  # a cell contains a comma
        raise IrregularLineError
    return np.fromiter(scores, np.float64, len(scores))


def _read_levels(block: LineBlock) -> Ints:
    cells = block.cells(QRELS.value).split()
    try:
        level_of = {text: QRELS.parse(text) for text in set(cells)}
        return np.fromiter(map(level_of.__getitem__, cells), np.int64, len(cells))
    except (ValueError, OverflowError) as error:
        raise IrregularLineError from error
