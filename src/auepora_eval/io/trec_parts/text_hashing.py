"""Vectorised hashing, comparison and sorting of a column of strings, in words of eight bytes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .trec_lines import Bools, Ints

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Hashes", "VectorizedTexts"]

Hashes = npt.NDArray[np.uint64]

_WORD = 8
_CHUNK = 1 << 15
"""The number of strings that are hashed at once: temporary arrays fit into the CPU cache."""
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class VectorizedTexts:
    """The strings of a column, in their order."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        # Padding of one word on both sides, so that a word can be read before any end and from any start.
        margin = np.zeros(_WORD, dtype=np.uint8)
        contents, bounds, length = [margin], [np.full(1, _WORD)], _WORD
        for chunk in column.chunks:
            own, ends = _string_bytes(chunk)
            contents.append(own)
            bounds.append(ends + length)
            length += len(own)
        content = np.concatenate([*contents, margin])
        self._words, self._leading_words = _word_view(content, "<u8"), _word_view(content, ">u8")
        ends = np.concatenate(bounds)
        self._ends, self._lengths = ends[1:], np.diff(ends)

    def __len__(self) -> int:
        return len(self._ends)

    def hashes(self, pool: Executor) -> Hashes:
        """Return a hash for each string. Hashes may collide: equal hashes need a comparison of the strings."""
        hashes = self._lengths.astype(np.uint64)

        def mix(start: int) -> None:
            chunk = slice(start, start + _CHUNK)
            own = hashes[chunk]
            for which, word in self._words_of(self._ends[chunk], self._lengths[chunk]):
                mixed = (own[which] ^ word) * _HASH_FACTOR
                own[which] = mixed ^ (mixed >> _HALF)

        list(pool.map(mix, range(0, len(hashes), _CHUNK)))
        return hashes

    def equal(self, lines: Ints, other: VectorizedTexts, other_lines: Ints) -> bool:
        """Whether these strings are equal to the other ones, pairwise."""
        lengths = self._lengths[lines]
        if (lengths != other._lengths[other_lines]).any():
            return False
        ours = self._words_of(self._ends[lines], lengths)
        theirs = other._words_of(other._ends[other_lines], lengths)
        return all(bool((one == two).all()) for (_, one), (_, two) in zip(ours, theirs, strict=True))

    def descending(self, lines: Ints, groups: Ints) -> Ints:
        """Return the position of each string after sorting every group in descending order of code points.

        ``groups`` is the first position of the group of each line, and a group has as many positions as lines. The
        order of equal strings is undefined. No string contains NUL.
        """
        # UTF-8 sorts as its code points: each further word separates strings that were equal so far.
        place = groups.copy()
        live = np.arange(len(lines))
        longest = int(self._lengths[lines].max(initial=0))
        for offset in range(0, longest + 1, _WORD):
            word = ~self._leading(lines[live], offset)
            order = np.lexsort((word, place[live]))
            live, word = live[order], word[order]
            own = place[live]
            new_group = _starts_of_runs(own)
            new = new_group | _starts_of_runs(word)
            place[live] = own + _last_marked(new) - _last_marked(new_group)
            live = live[~(new & np.append(new[1:], True))]
            if not len(live):
                return place
        place[live] += np.arange(len(live)) - _last_marked(_starts_of_runs(place[live]))
        return place

    def _words_of(self, ends: Ints, lengths: Ints) -> Iterator[tuple[Ints | slice, Hashes]]:
        """Yield words that cover every byte of these strings, with the indexes of the strings."""
        # The last eight bytes come first: only for a shorter string must some bits be removed.
        tail = self._words[ends - _WORD]
        if lengths.min(initial=_WORD) < _WORD:
            tail >>= (8 * (_WORD - np.clip(lengths, 1, _WORD))).astype(np.uint64)
            tail[lengths == 0] = 0
        yield slice(None), tail
        which: Ints | slice = slice(None)
        at, left = ends - lengths, lengths
        while True:
            further = np.flatnonzero(left > _WORD)
            if not len(further):
                return
            if len(further) < len(left):
                which = further if isinstance(which, slice) else which[further]
                at, left = at[further], left[further]
            yield which, self._words[at]
            at, left = at + _WORD, left - _WORD

    def _leading(self, lines: Ints, offset: int) -> Hashes:
        """Return eight bytes of each string from an offset, as a big-endian integer; 0 past its end."""
        lengths = self._lengths[lines]
        at = self._ends[lines] - lengths + np.minimum(offset, lengths)
        words: Hashes = self._leading_words[at].astype(np.uint64)
        words &= _PREFIX_MASKS[np.clip(lengths - offset, 0, _WORD)]
        return words


_PREFIX_MASKS: Hashes = np.array(
    [0, *(2**64 - 2 ** (64 - 8 * count) for count in range(1, _WORD + 1))], dtype=np.uint64
)
"""Masks for the first 0 to 8 bytes of a word."""


def _word_view(content: npt.NDArray[np.uint8], order: str) -> Hashes:
    """Return a view of the word that begins at each byte."""
    return np.ndarray(len(content) - _WORD + 1, dtype=order, buffer=content, strides=(1,))


def _string_bytes(chunk: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Return the concatenated bytes of all strings, and the end of each."""
    _, offsets, data = chunk.buffers()
    bounds = np.frombuffer(offsets or bytes(8), dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    first, last = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
    content = np.frombuffer(data, dtype=np.uint8)[first:last] if last > first else np.empty(0, dtype=np.uint8)
    return content, bounds[1:] - first


def _starts_of_runs(values: npt.NDArray[np.generic]) -> Bools:
    """Return whether each value differs from the previous one; true for the first."""
    differs = np.ones(len(values), dtype=np.bool_)
    differs[1:] = values[1:] != values[:-1]
    return differs


def _last_marked(marks: Bools) -> Ints:
    """Return the last marked position up to each position."""
    latest: Ints = np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))
    return latest
