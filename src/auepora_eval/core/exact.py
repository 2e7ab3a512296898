"""Exact sums: the value ``math.fsum`` gives, from whole arrays, and mergeable in any order without changing a bit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["ExactSum", "exact_sum"]

# Sums are kept as one integer in units of 2**-_UNIT, fine enough for the smallest float there is (2**-1074).
_UNIT = 1200
# Digits of 31 bits: 2**22 of them can be added in float64 and every partial sum is still an exact integer. Scores of a
# metric are close enough in size that two digits represent nearly all of them.
_DIGIT = 31
_MAX_VALUES = 1 << 22


class ExactSum:
    """A running sum without rounding error; ``value`` rounds once, at the end."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total = 0

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Add finite numbers."""
        for start in range(0, len(values), _MAX_VALUES):
            self._add(values[start : start + _MAX_VALUES])

    def _add(self, values: npt.NDArray[np.float64]) -> None:
        # Split each number into digits, most significant first. Scaling by powers of two and taking off the
        # integer part are exact, so adding up one digit position at a time is integer arithmetic in disguise.
        largest = max(float(values.max()), -float(values.min()))
        if not largest:
            return
        exponent = math.frexp(largest)[1] - _DIGIT
        # Multiplying is several times faster than ldexp and as exact, as long as the factor is a float.
        rest = values * math.ldexp(1.0, -exponent) if -1000 < exponent < 1000 else np.ldexp(values, -exponent)
        if exponent > 0 and not np.array_equal(np.ldexp(rest, exponent), values):
            # Numbers so small compared with the largest that scaling loses bits; rare enough to add one by one.
            for numerator, denominator in map(float.as_integer_ratio, values.tolist()):
                self._total += numerator * ((1 << _UNIT) // denominator)
            return
        digits = np.empty_like(rest)
        while True:
            np.trunc(rest, out=digits)
            self._total += int(digits.sum()) << (_UNIT + exponent)
            rest -= digits
            if not (rest.max() or rest.min()):  # on floats faster than any()
                return
            rest *= 1 << _DIGIT
            exponent -= _DIGIT

    def merge(self, other: ExactSum) -> None:
        """Add another running sum."""
        self._total += other._total

    @property
    def value(self) -> float:
        """The correctly rounded sum (dividing integers rounds once, half to even)."""
        return self._total / (1 << _UNIT)


def exact_sum(values: npt.NDArray[np.float64]) -> float:
    """The correctly rounded sum of finite numbers, bit for bit ``math.fsum(values)``."""
    total = ExactSum()
    total.add(values)
    return total.value
