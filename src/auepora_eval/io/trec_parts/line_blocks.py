"""Columns of a text file with NumPy: the white space of a block is found at once, and only needed cells are copied.

Most cells of a TREC file are not used, so no Python object is created for them. White space is that of
``bytes.split``, in runs of any length; a line end is ``\\n``; blank lines are skipped.
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

_BLOCK_BYTES = 1 << 19  # the temporary arrays of a block fit into the CPU cache
_NEWLINE, _SPACE = 10, 32
_WORD = 8
_MAX_FAST_BYTES = 64  # bytes: longer cells are rare and use a slower path
# For 0 to 8 bytes: the mask of their bits in a little-endian word.
_BYTE_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], dtype="<u8")


@dataclass(frozen=True, slots=True)
class CellBytes:
    """Concatenated cells of one column, each followed by one separator byte."""

    joined: bytes
    sizes: Ints
    """The length of each cell, including the separator."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Some complete lines. Valid until the next block is requested."""

    text: Bytes
    """The lines, followed by at least 64 bytes of padding."""
    starts: Ints
    """The start of each cell: a row for each line that is not blank, a column for each column."""
    ends: Ints
    """The end of each cell."""

    def __len__(self) -> int:
        return len(self.starts)

    def cells(self, column: int, end: bytes = b"\n", only: Bools | None = None) -> CellBytes:
        """Return the cells of one column, of all lines or only of some, each followed by ``end``."""
        starts, ends = self.starts[:, column], self.ends[:, column]
        if only is not None:
            starts, ends = starts[only], ends[only]
        sizes = ends - starts + 1
        found = _gather(self.text, starts, sizes)
        found[np.cumsum(sizes) - 1] = ord(end)
        return CellBytes(found.tobytes(), sizes)

    def words(self, column: int) -> Words | None:
        """Return the cells of one column as little-endian integers; ``None`` if a cell is longer than 8 bytes."""
        starts = self.starts[:, column]
        sizes = self.ends[:, column] - starts
        return None if sizes.max() > _WORD else _load_words(self.text, starts, sizes)

    def tails(self, column: int, size: int) -> Bytes | None:
        """Return the last ``size`` bytes of each cell as a row; a shorter cell is preceded by the bytes before it."""
        starts = self.ends[:, column] - size
        if starts[0] < 0:
            return None
        return np.ndarray(len(self.text) - size + 1, f"V{size}", self.text, strides=(1,))[starts].view((np.uint8, size))

    def changes(self, column: int) -> Bools:
        """Return where a cell differs from that of the previous line; the first line does, very long cells may."""
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
    """One column of all lines, as cells of its blocks."""

    def __init__(self, parts: Sequence[CellBytes]) -> None:
        self._parts = parts

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the cells as strings, in the order of the lines or in another.

        Strings that are used in sequence should be created in sequence, so that they are adjacent in memory.
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
        lines = max(_BLOCK_BYTES * len(sizes) // len(text), 1)  # copied at a time
        for first in range(0, len(order), lines):
            chosen = order[first : first + lines]
            yield CellBytes(_gather(text, starts[chosen], sizes[chosen]).tobytes(), sizes[chosen])


def iter_blocks(data: bytes, columns: int, *, more: bool = False) -> Iterator[LineBlock | None]:
    """Yield the lines of ``data`` in blocks, if each has this number of ``columns`` (or ``more``, which are ignored).

    ``None`` ends the iteration at an irregular line, or at a control character that ``bytes.split`` must handle.
    """
    whole = np.frombuffer(data, dtype=np.uint8)
    start = 0
    space = np.empty(0, dtype=np.uint8)
    while start < len(data):
        stop = _end_of_block(data, start)
        size = stop - start
        if len(space) < size + 2 + _MAX_FAST_BYTES:
            space = np.zeros(size + 2 + _MAX_FAST_BYTES, dtype=np.uint8)
        # A newline on both sides, so that every cell is surrounded by white space.
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
    """Return the first bytes from each start, up to 8 and up to these sizes, as little-endian integers."""
    words: Words = np.ndarray(len(text) - _WORD + 1, "<u8", text, strides=(1,))
    # For a start near the end, no byte counts.
    found: Words = words[np.minimum(starts, len(words) - 1)] & _BYTE_MASKS[np.clip(sizes, 0, _WORD)]
    return found


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


def _end_of_block(data: bytes, start: int) -> int:
    if len(data) - start <= _BLOCK_BYTES:
        return len(data)
    stop = data.rfind(b"\n", start, start + _BLOCK_BYTES)
    if stop < 0:  # a line longer than a block
        stop = data.find(b"\n", start + _BLOCK_BYTES)
    return len(data) if stop < 0 else stop + 1


def _split_cells(text: Bytes, columns: int, more: bool) -> tuple[Ints, Ints] | None:
    """Return starts and ends of the cells of each line; ``None`` if the lines are not regular."""
    white = np.flatnonzero(text <= _SPACE)
    kinds = text[white]
    newline = kinds == _NEWLINE
    usual = np.count_nonzero(newline) + np.count_nonzero(kinds == _SPACE)
    if usual < len(kinds) and ((kinds < 9) | ((kinds > 13) & (kinds != _SPACE))).any():
        return None  # bytes.split splits at 9 to 13 and 32; other control characters are part of a cell
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
    if fewest < columns or (most > columns and not more):
        return None
    if fewest == most:
        return starts.reshape(-1, most), ends.reshape(-1, most)
    cells = lines[:-1, np.newaxis] + np.arange(columns)
    return starts[cells], ends[cells]
