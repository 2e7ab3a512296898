"""Mean cosines of vectors with each other, from sums of vectors: in time that grows with the vectors, not the pairs.

With every vector at length one, the cosines of u with all vectors add up to u · S, where S is the sum of them all. S is
summed without rounding error in units of 2⁻⁵², so that no bit of a result depends on the order of the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..text.id_table import IdTable
from ..text.vocabulary import TokenIds

__all__ = ["cosines_to_others", "cosines_within", "word_cosines_to_others"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Numbers up to 1 as two halves of 26 bits: up to 2**27 of them add up in float64 and every sum is an exact integer.
_HALF = float(1 << 26)
_KEY_HALF = np.uint64(32)
_AT_ONCE = 1 << 12


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Numbers between -1 and 1 as whole multiples of 2**-26, and of 2**-52 for what is left."""
    upper = np.trunc(numbers * _HALF)
    return upper, np.rint((numbers * _HALF - upper) * _HALF)


def _whole(upper: Floats, lower: Floats) -> Floats:
    return upper / _HALF + lower / (_HALF * _HALF)


def cosines_within(units: Floats, counts: Integers) -> Floats:
    """The mean cosine over the pairs within each group of vectors of length one.

    The groups follow each other in ``units`` and have two vectors at least. Of m vectors, the square of their sum is m
    and twice the cosines of their pairs.
    """
    sums = np.add.reduceat(units, np.cumsum(counts) - counts, axis=0)
    cosines: Floats = ((sums * sums).sum(axis=1) - counts) / (counts * (counts - 1))
    return cosines


def cosines_to_others(units: Floats) -> Floats:
    """The mean cosine of each vector of length one with all others; there are two at least."""
    parts = [units[start : start + _AT_ONCE] for start in range(0, len(units), _AT_ONCE)]
    upper, lower = np.zeros(units.shape[1]), np.zeros(units.shape[1])
    for part in parts:
        above, below = _halves(part)
        upper += above.sum(axis=0)
        lower += below.sum(axis=0)
    total = _whole(upper, lower)
    return _without_itself(np.concatenate([(part * total).sum(axis=1) for part in parts]))


def word_cosines_to_others(texts: TokenIds) -> Floats:
    """The mean cosine of the word counts of each text with those of all others; each has a word, and there are two.

    A text is the vector of how often each word occurs in it. S holds, word by word, what the word weighs in all texts
    together; a text meets it once for every word it has, in the order in which it has them.
    """
    rows, n = texts.rows, len(texts)
    weights = 1 / np.sqrt(_squared_lengths(texts))
    upper, lower = (_sums_by(texts.ids, half.take(rows)) for half in _halves(weights))
    met = _sums_by(rows, _whole(upper, lower).take(texts.ids), n)
    return _without_itself(met * weights)


def _squared_lengths(texts: TokenIds) -> Floats:
    """Per text the squares of how often each word occurs in it, added up; whole numbers, so exact."""
    rows = texts.rows
    numbering = IdTable()
    numbers = numbering.get_or_add((rows.astype(np.uint64) << _KEY_HALF) | texts.ids.astype(np.uint64))
    counts = np.bincount(numbers, minlength=numbering.count)
    row_of = np.zeros(numbering.count, np.int64)
    row_of[numbers] = rows
    return _sums_by(row_of, (counts * counts).astype(np.float64), len(texts))


def _sums_by(codes: npt.NDArray[np.integer[Any]], weights: Floats, least: int = 0) -> Floats:
    """The weights of each code, added up one after the other."""
    sums: Floats = np.bincount(codes, weights=weights, minlength=least).astype(np.float64, copy=False)
    return sums


def _without_itself(sums: Floats) -> Floats:
    """The mean cosine with the others, from the sum of the cosines with all, of which that with itself is 1."""
    means: Floats = (sums - 1) / (len(sums) - 1)
    return means
