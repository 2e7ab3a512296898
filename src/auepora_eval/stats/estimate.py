"""An estimate: a value with its interval, or the reason why it is undefined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .interval import Interval

__all__ = ["Estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The value of a statistic with its interval and its number of units."""

    value: float | None
    """``None`` where it is not defined."""
    interval: Interval | None
    units: int
    """How many independent units it was computed from."""
    why_undefined: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "value": self.value,
            "interval": None if self.interval is None else [self.interval.low, self.interval.high],
            "units": self.units,
            "why_undefined": self.why_undefined,
        }
