"""Axis ranges and ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["AxisRange", "count_range", "linear_range", "log_range"]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class AxisRange:
    """A numeric axis: its ends, its ticks, and their format (in d3-format notation)."""

    low: float
    high: float
    ticks: tuple[float, ...]
    tick_format: str
    log: bool = False


def linear_range(
    values: Iterable[float],
    *,
    zero: bool = False,
    within: tuple[float, float] | None = None,
    count: int = 5,
) -> AxisRange:
    """The range from a round number below all values to one above them.

    ``zero`` includes 0, ``within`` includes these two ends.
    """
    included = [*values, *(within or ()), *([0.0] if zero else [])]
    low, high = (min(included), max(included)) if included else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # practically equal
        room = max(abs(low), abs(high)) * 0.1 or 1.0
        low, high = (low - room if low != 0 else 0.0), high + room
    step = _step((high - low) / count)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    ticks = tuple(_round(multiple * step, step) for multiple in range(first, last + 1))
    return AxisRange(ticks[0], ticks[-1], ticks, _tick_format(step, ticks))


def count_range(highest: float) -> AxisRange:
    """The range from 0 to an integer, with ticks at integers."""
    span = linear_range([0.0, max(1.0, highest)], count=4)
    ticks = tuple(tick for tick in span.ticks if tick == int(tick))
    return AxisRange(0.0, span.high, ticks, "d" if span.high < 1e6 else ".6~g")


def log_range(values: Iterable[float]) -> AxisRange:
    """The range for positive values, with ticks at powers of ten, and between them where there are few."""
    positive = [value for value in values if value > 0] or [1.0]
    lowest, highest = min(positive), max(positive)
    first, last = math.floor(math.log10(lowest) + 1e-9), math.ceil(math.log10(highest) - 1e-9)
    last = max(last, first + 1)
    every = [_power(power) * part for power in range(first, last + 1) for part in (1.0, 2.0, 5.0)]
    low = max((tick for tick in every if tick <= lowest * (1 + 1e-9)), default=_power(first))
    high = min((tick for tick in every if tick >= highest * (1 - 1e-9) and tick > low), default=_power(last))
    ticks = [tick for tick in every if low <= tick <= high]
    if len(ticks) > 9:
        apart = math.ceil((last - first) / 8)
        ticks = [_power(power) for power in range(first, last + 1, apart) if low <= _power(power) <= high]
    return AxisRange(low, high, tuple(ticks), ".6~g", log=True)


def _power(power: int) -> float:
    return float(f"1e{power}")


def _step(rough: float) -> float:
    """The next round step size."""
    if rough <= 0:
        return 1.0
    power = math.floor(math.log10(rough))
    scale = _power(power)
    return next(part * scale for part in _STEPS if part * scale >= rough * (1 - 1e-9))


def _round(value: float, step: float) -> float:
    """The multiple of a step without rounding noise: 0.6 and not 0.6000000000000001."""
    digits = max(0, 2 - math.floor(math.log10(step)))
    return round(value, digits) + 0.0 if digits <= 300 else value  # no negative zero


def _tick_format(step: float, ticks: tuple[float, ...]) -> str:
    decimals = next((d for d in range(7) if abs(round(step, d) - step) < step * 1e-6), 7)
    return f".{decimals}f" if decimals < 7 and max(map(abs, ticks)) < 1e6 else ".6~g"
