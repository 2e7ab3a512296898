"""A number with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .interval import Interval

__all__ = ["Estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a statistic came to over so many units."""

    value: float | None
    """``None`` where it is not defined."""
    interval: Interval | None
    units: int
    """How many things it was computed from."""
    why_undefined: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "value": self.value,
            "interval": None if self.interval is None else [self.interval.low, self.interval.high],
            "units": self.units,
            "why_undefined": self.why_undefined,
        }
