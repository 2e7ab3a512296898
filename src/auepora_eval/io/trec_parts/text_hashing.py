"""A column of texts as words of eight bytes: many texts hashed, compared and ordered at once."""

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
"""So many texts are hashed at once: what is made on the way stays in the processor's cache."""
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class VectorizedTexts:
    """The texts of a column, in their order."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        # A word more on both sides, so that one can be read before any text's end and from any text's start.
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
        """A number for each text, the same for equal ones. Others may share it: texts have to be compared as well."""
        hashes = self._lengths.astype(np.uint64)

        def mix(start: int) -> None:
            stretch = slice(start, start + _CHUNK)
            own = hashes[stretch]
            for which, word in self._words_of(self._ends[stretch], self._lengths[stretch]):
                mixed = (own[which] ^ word) * _HASH_FACTOR
                own[which] = mixed ^ (mixed >> _HALF)

        list(pool.map(mix, range(0, len(hashes), _CHUNK)))
        return hashes

    def equal(self, lines: Ints, other: VectorizedTexts, other_lines: Ints) -> bool:
        """Whether each of these texts is the same as the one beside it."""
        lengths = self._lengths[lines]
        if (lengths != other._lengths[other_lines]).any():
            return False
        ours = self._words_of(self._ends[lines], lengths)
        theirs = other._words_of(other._ends[other_lines], lengths)
        return all(bool((one == two).all()) for (_, one), (_, two) in zip(ours, theirs, strict=True))

    def descending(self, lines: Ints, groups: Ints) -> Ints:
        """The place of each text where every group is brought into descending order by code points.

        ``groups`` has the first place of its group for each of the lines, and a group takes as many places as it has
        lines. Which of two equal texts comes first is left open. No text has a NUL.
        """
        # UTF-8 is ordered as its code points are: one word after the other tells apart what was equal before.
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
        """Words that hold every byte of these texts, and each time which of the texts they are of."""
        # The last eight bytes come first: only of a text that is shorter does a part have to go.
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
        """Of each text the eight bytes from there on, as a number that is larger for the later text; 0 past its end."""
        lengths = self._lengths[lines]
        at = self._ends[lines] - lengths + np.minimum(offset, lengths)
        words: Hashes = self._leading_words[at].astype(np.uint64)
        words &= _PREFIX_MASKS[np.clip(lengths - offset, 0, _WORD)]
        return words


_PREFIX_MASKS: Hashes = np.array(
    [0, *(2**64 - 2 ** (64 - 8 * count) for count in range(1, _WORD + 1))], dtype=np.uint64
)
"""Masks that leave so many bytes of a word, the foremost ones."""


def _word_view(content: npt.NDArray[np.uint8], order: str) -> Hashes:
    """The word that begins at each byte."""
    return np.ndarray(len(content) - _WORD + 1, dtype=order, buffer=content, strides=(1,))


def _string_bytes(chunk: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """The bytes of all texts, one after the other, and where each text ends."""
    _, offsets, data = chunk.buffers()
    bounds = np.frombuffer(offsets or bytes(8), dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    first, last = (int(bounds[0]), int(bounds[-1])) if len(bounds) else (0, 0)
    content = np.frombuffer(data, dtype=np.uint8)[first:last] if last > first else np.empty(0, dtype=np.uint8)
    return content, bounds[1:] - first


def _starts_of_runs(values: npt.NDArray[np.generic]) -> Bools:
    """Of each whether it is another than the one before; so is the first."""
    differs = np.ones(len(values), dtype=np.bool_)
    differs[1:] = values[1:] != values[:-1]
    return differs


def _last_marked(marks: Bools) -> Ints:
    """Of each place the latest one that is marked, itself included."""
    latest: Ints = np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))
    return latest
