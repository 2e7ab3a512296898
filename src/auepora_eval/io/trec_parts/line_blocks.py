"""Columns of a text file at NumPy's speed: all white space of a block is found at once, and only what is wanted is cut.

Most cells of a TREC file are never looked at, so no Python object is made for them. White space is what
``bytes.split`` takes for it, in runs of any length; a line end is ``\\n``; blank lines do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["CellBytes", "LineBlock", "TextColumn", "iter_blocks"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_BLOCK_BYTES = 1 << 19  # what is made from a block on the way fits the processor's cache
_NEWLINE, _SPACE = 10, 32
_WORD = 8
_MAX_FAST_BYTES = 64  # bytes: longer cells are rare, and take the slower way
# For 0 to 8 bytes: the bits of a little-endian word that they fill.
_BYTE_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype="<u8")


@dataclass(frozen=True, slots=True)
class CellBytes:
    """Texts of one column, one after the other, each with one byte behind it."""

    joined: bytes
    sizes: Ints
    """Of each, with that byte."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Some whole lines. Valid until the next block is taken."""

    text: Bytes
    """The lines, and at least 64 bytes of anything behind them."""
    starts: Ints
    """Where each cell starts: a row for each line that is not blank, a column for each column."""
    ends: Ints
    """The white space behind each cell."""

    def __len__(self) -> int:
        return len(self.starts)

    def cells(self, column: int, end: bytes = b"\n", only: Bools | None = None) -> CellBytes:
        """The cells of one column, of all lines or only of some, with ``end`` behind each."""
        starts, ends = self.starts[:, column], self.ends[:, column]
        if only is not None:
            starts, ends = starts[only], ends[only]
        sizes = ends - starts + 1
        found = _gather(self.text, starts, sizes)
        found[np.cumsum(sizes) - 1] = ord(end)
        return CellBytes(found.tobytes(), sizes)

    def words(self, column: int) -> Words | None:
        """The cells of one column as numbers, their bytes being the digits, the least first; none beyond 8 bytes."""
        starts = self.starts[:, column]
        sizes = self.ends[:, column] - starts
        return None if sizes.max() > _WORD else _load_words(self.text, starts, sizes)

    def tails(self, column: int, size: int) -> Bytes | None:
        """The last bytes of each cell, so many, as a row; those of a shorter cell begin with what stands before it."""
        starts = self.ends[:, column] - size
        if starts[0] < 0:
            return None
        return np.ndarray(len(self.text) - size + 1, f"V{size}", self.text, strides=(1,))[starts].view((np.uint8, size))

    def changes(self, column: int) -> Bools:
        """Where a cell differs from the one in the line above; the first line always does, very long cells may."""
        changed = np.ones(len(self), dtype=np.bool_)
        starts = self.starts[:, column]
        sizes = self.ends[:, column] - starts
        longest = int(sizes.max())
        if longest <= _MAX_FAST_BYTES:
            changed[1:] = sizes[1:] != sizes[:-1]
            for place in range(0, longest, _WORD):
                word = _load_words(self.text, starts + place, sizes - place)
                changed[1:] |= word[1:] != word[:-1]
        return changed


class TextColumn:
    """One column of all lines, as its blocks gave it, with a line end behind each cell."""

    def __init__(self, parts: Sequence[CellBytes]) -> None:
        self._parts = parts

    def texts(self, order: Ints | None = None) -> list[str]:
        """The cells as texts, in the order of the lines or in another.

        Texts that are used one after the other should be made one after the other: then they are neighbours in memory.
        """
        found: list[str] = []
        for part in self._parts if order is None else self._reorder(order):
            found += part.joined.decode().split("\n")
            found.pop()
        return found

    def _reorder(self, order: Ints) -> Iterator[CellBytes]:
        text = np.frombuffer(b"".join([*(part.joined for part in self._parts), bytes(_MAX_FAST_BYTES)]), dtype=np.uint8)
        sizes = np.concatenate([part.sizes for part in self._parts])
        starts = np.cumsum(sizes) - sizes
        lines = max(_BLOCK_BYTES * len(sizes) // len(text), 1)  # of which a part is cut at a time
        for first in range(0, len(order), lines):
            wanted = order[first : first + lines]
            yield CellBytes(_gather(text, starts[wanted], sizes[wanted]).tobytes(), sizes[wanted])


def iter_blocks(data: bytes, columns: int, *, more: bool = False) -> Iterator[LineBlock | None]:
    """The lines of ``data``, block by block, if each has so many ``columns`` (or more, of which the first count).

    ``None`` ends the iteration where a line has not, or where a byte is such that only ``bytes.split`` should decide.
    """
    whole = np.frombuffer(data, dtype=np.uint8)
    start = 0
    space = np.empty(0, dtype=np.uint8)
    while start < len(data):
        stop = _end_of_block(data, start)
        size = stop - start
        if len(space) < size + 2 + _MAX_FAST_BYTES:
            space = np.zeros(size + 2 + _MAX_FAST_BYTES, dtype=np.uint8)
        # A line end on both sides, so that every cell has white space around it.
        space[0] = space[size + 1] = _NEWLINE
        space[1 : size + 1] = whole[start:stop]
        found = _split_cells(space[: size + 1 + (data[stop - 1] != _NEWLINE)], columns, more)
        if found is None:
            yield None
            return
        if len(found[0]):
            yield LineBlock(space, *found)
        start = stop


def _load_words(text: Bytes, starts: Ints, sizes: Ints) -> Words:
    """The first bytes from each start, up to 8 and up to these sizes, as numbers, the first being the least digit."""
    words: Words = np.ndarray(len(text) - _WORD + 1, "<u8", text, strides=(1,))
    # A start too near to the end is one of which no byte counts.
    found: Words = words[np.minimum(starts, len(words) - 1)] & _BYTE_MASKS[np.clip(sizes, 0, _WORD)]
    return found


def _gather(text: Bytes, starts: Ints, sizes: Ints) -> Bytes:
    """The pieces of ``text`` of these sizes that start there, one after the other."""
    longest = int(sizes.max())
    if longest > _MAX_FAST_BYTES:
        wanted = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return text[wanted + np.arange(len(wanted))]
    # As many bytes from every start, each lot copied as one item; then those that are too many are left out.
    lot = f"V{longest}"
    lots = np.ndarray(len(text) - longest + 1, lot, text, strides=(1,))[starts].view(np.uint8)
    if sizes.min() == longest:
        return lots
    kept = np.tri(longest + 1, longest, -1, dtype=np.bool_).view(lot)[:, 0][sizes].view(np.bool_)
    return lots[kept]


def _end_of_block(data: bytes, start: int) -> int:
    if len(data) - start <= _BLOCK_BYTES:
        return len(data)
    stop = data.rfind(b"\n", start, start + _BLOCK_BYTES)
    if stop < 0:  # a line longer than a block
        stop = data.find(b"\n", start + _BLOCK_BYTES)
    return len(data) if stop < 0 else stop + 1


def _split_cells(text: Bytes, columns: int, more: bool) -> tuple[Ints, Ints] | None:
    """Starts and ends of the cells of each line, or ``None`` if these lines are not regular."""
    white = np.flatnonzero(text <= _SPACE)
    kinds = text[white]
    newline = kinds == _NEWLINE
    usual = np.count_nonzero(newline) + np.count_nonzero(kinds == _SPACE)
    if usual < len(kinds) and ((kinds < 9) | ((kinds > 13) & (kinds != _SPACE))).any():
        return None  # bytes.split cuts at 9 to 13 and 32; other control characters are part of a cell
    apart = np.diff(white) > 1
    if apart.all():
        starts, ends = white[:-1] + 1, white[1:]
    else:
        starts, ends = white[:-1][apart] + 1, white[1:][apart]
        newline = np.logical_or.reduceat(newline, np.concatenate(([0], np.flatnonzero(apart) + 1)))
    lines = np.flatnonzero(newline)  # each white space with a line end, by the number of the cell behind it
    widths = np.diff(lines)
    if not len(widths):
        return starts.reshape(0, columns), ends.reshape(0, columns)
    fewest, most = int(widths.min()), int(widths.max())
    if fewest < columns or (most > columns and not more):
        return None
    if fewest == most:
        return starts.reshape(-1, most), ends.reshape(-1, most)
    wanted = lines[:-1, np.newaxis] + np.arange(columns)
    return starts[wanted], ends[wanted]
