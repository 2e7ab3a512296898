"""Rating scales: the range of a judge's numbers, and their normalisation to [0, 1]."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

from ..core.errors import BadValueError, JudgeError

__all__ = ["Scale"]

_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:-|\u2013|\.\.)\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Scale:
    """From the worst number to the best one.

    >>> Scale.parse("1-5").normalised(4)
    0.75
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise BadValueError(f"a scale goes from a number to a larger one, not from {self.low!r} to {self.high!r}")

    @classmethod
    def parse(cls, text: object) -> Scale:
        """Read ``0-1``, ``1-5``, ``0-10`` or ``0-100``."""
        if not isinstance(text, str):
            raise _not_a_scale(text)
        return _parse(text)

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}"

    @property
    def is_integer(self) -> bool:
        """Whether answers are integers: on 1 to 5 they are labels, on 0 to 1 they are continuous."""
        return self.low.is_integer() and self.high.is_integer() and self.high - self.low > 1

    @property
    def description(self) -> str:
        """The scale in words, for a prompt."""
        if self.is_integer:
            return f"a whole number from {self.low:g} (worst) to {self.high:g} (best)"
        middle = f"{(self.low + self.high) / 2:g}"
        return f"a number from {self.low:g} (worst) to {self.high:g} (best), such as {middle} half way"

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        if self.is_integer:
            return {"type": "integer", "minimum": int(self.low), "maximum": int(self.high)}
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def normalise(self, answer: object) -> float:
        """An answer mapped to [0, 1]: on a scale from 1 to 5, (x - 1) / 4.

        Anything but a number on the scale is a ``JudgeError``: a server once answered 1889 on a scale to 5.
        """
        if isinstance(answer, bool) or not isinstance(answer, Real) or not math.isfinite(answer):
            raise JudgeError("unparseable", f"the judge gave {answer!r:.80} where a number was asked for")
        value = float(answer)
        if not self.low <= value <= self.high:
            raise JudgeError("out_of_range", f"the judge gave {value!r} on a scale of {self}")
        return (value - self.low) / (self.high - self.low)


@lru_cache(maxsize=64)
def _parse(text: str) -> Scale:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise _not_a_scale(text)
    return Scale(float(match[1]), float(match[2]))


def _not_a_scale(given: object) -> BadValueError:
    return BadValueError(f"a scale is written '0-1' or '1-5', from the worst number to the best; not {given!r:.80}")
