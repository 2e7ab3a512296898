"""The length of the longest common subsequence of two sequences, a whole table row at a time in one integer.

The textbook table has a row per item of one sequence and a column per item of the other; a cell holds the LCS length
of the two prefixes. Along a row the numbers start at 0 and grow by 0 or 1 per column, so a row is known by *where* it
grows: one bit per column, and the LCS is the number of places where the last row grows. Going to the next row is then
an addition on long integers (Crochemore et al. 2001; Hyyrö, "Bit-parallel LCS-length computation revisited", 2004),
some thirty cells per machine operation instead of one per turn of a Python loop.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .vocabulary import TokenIds

__all__ = ["lcs_length", "lcs_lengths", "lcs_positions"]

# Token ids as characters: ids from here on are shifted past the surrogates, which are not characters.
_SURROGATES, _HOW_MANY, _CHARACTERS = 0xD800, 0x800, 0x110000


def lcs_length(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The most items that occur in the same order in ``a`` and in ``b``; items are equal as dictionary keys are."""
    columns, rows = (a, b) if len(a) <= len(b) else (b, a)  # masks cost columns squared: keep them few
    masks: dict[Hashable, int] = {}
    for column, item in enumerate(columns):
        masks[item] = masks.get(item, 0) | 1 << column

    # A set bit is a column where the row does not grow. Before the first item of `rows` none does.
    every = (1 << len(columns)) - 1
    flat = every
    for item in rows:
        if mask := masks.get(item):
            # Cut the row into blocks, each a run of flat columns up to and with the next one that grows. A match in a
            # block lets the row grow at the first matching column instead. The sum does this to all blocks at once:
            # the match's bit turns to 0 and its carry runs up to set the bit that ended the block. The difference
            # brings back the flat columns the carry passed. A carry out of the last block is an LCS longer by one.
            matches = flat & mask
            flat = ((flat + matches) | (flat - matches)) & every
    return len(columns) - flat.bit_count()


def lcs_positions(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[int]:
    """The positions in ``a`` of one longest common subsequence with ``b``.

    Of several, the one that is found by walking back from the end and, at a fork, going down in ``a`` unless a step
    down in ``b`` loses less: the choice of the rouge-score package, whose union over sentences depends on it.
    """
    masks: dict[Hashable, int] = {}
    for column, item in enumerate(b):
        masks[item] = masks.get(item, 0) | 1 << column
    every = flat = (1 << len(b)) - 1
    grows = [0]  # per row the columns where it grows; a cell is the number of those before it
    for item in a:
        if mask := masks.get(item):
            matches = flat & mask
            flat = ((flat + matches) | (flat - matches)) & every
        grows.append(every & ~flat)
    row, column, found = len(a), len(b), []
    while row and column:
        if a[row - 1] == b[column - 1]:
            row, column = row - 1, column - 1
            found.append(row)
        elif _cell(grows[row], column - 1) > _cell(grows[row - 1], column):
            column -= 1
        else:
            row -= 1
    return found[::-1]


def _cell(grows: int, column: int) -> int:
    """The number in a row's table cell: how often the row grows before it."""
    return (grows & ((1 << column) - 1)).bit_count()


def lcs_lengths(first: TokenIds, second: TokenIds) -> npt.NDArray[np.int64]:
    """``lcs_length`` of each text of ``first`` with its counterpart in ``second``.

    Tokens become characters of one string each, on which rapidfuzz runs the same recurrence in compiled code.
    """
    most = max(first.ids.max(initial=0), second.ids.max(initial=0))
    if most >= _CHARACTERS - _HOW_MANY:  # more different tokens than there are characters
        return np.array([lcs_length(a, b) for a, b in zip(_lists(first), _lists(second), strict=True)], np.int64)
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cpdist

    lengths = cpdist(_strings(first), _strings(second), scorer=LCSseq.similarity, dtype=np.int32)
    return np.asarray(lengths, np.int64)


def _lists(texts: TokenIds) -> list[list[int]]:
    ids, bounds = texts.ids.tolist(), texts.bounds.tolist()
    return [ids[start:end] for start, end in pairwise(bounds)]


def _strings(texts: TokenIds) -> list[str]:
    codes = texts.ids.astype("<u4")
    codes[codes >= _SURROGATES] += _HOW_MANY
    joined, bounds = codes.tobytes().decode("utf-32-le"), texts.bounds.tolist()
    return [joined[start:end] for start, end in pairwise(bounds)]
