"""Text formats of numbers, counts, times and results, shared by all sections."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ...core.results import display_name
from ...core.types import MetricResult
from ..tables import format_value

__all__ = [
    "describe_result",
    "format_time",
    "interval_text",
    "percentage",
    "pluralize",
    "reason_counts",
    "seconds_text",
    "shorten",
    "value_text",
]

MAX_LENGTH = 300


def pluralize(n: int, what: str, many: str | None = None) -> str:
    """``1 query``, ``1,200 queries``."""
    return f"{n:,} {what if n == 1 else many or what + 's'}"


def value_text(value: float | None) -> str:
    """A value to four decimals; ``n/a`` where there is none."""
    return "n/a" if value is None or value != value else format_value(value)


def interval_text(ends: tuple[float, float] | None) -> str:
    """The ends of an interval."""
    return "" if ends is None else f"{format_value(ends[0])} – {format_value(ends[1])}"


def describe_result(result: MetricResult) -> str:
    """A result as a sentence part: its name, value and interval."""
    if not result.defined:
        return f"{display_name(result)} has no value"
    ends = f" (95 % interval {interval_text(result.interval)})" if result.interval is not None else ""
    return f"{display_name(result)} is {format_value(result.value)}{ends}"


def percentage(part: int, whole: int) -> str:
    """A proportion in percent."""
    return "0 %" if not whole else f"{100 * part / whole:.3g} %"


def seconds_text(value: float) -> str:
    """A duration with a unit: ``1.7 ms``, ``2.35 s``, ``3.2 min``."""
    if value != value:
        return "n/a"
    if abs(value) < 0.001:
        return f"{value * 1e6:.3g} µs"
    if abs(value) < 1:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if abs(value) < 120 else f"{value / 60:.3g} min"


def reason_counts(details: Mapping[str, Any], prefix: str) -> dict[str, int]:
    """The number of samples per reason, from the details of a result."""
    return {
        key.removeprefix(prefix): int(count)
        for key, count in details.items()
        if key.startswith(prefix) and isinstance(count, int) and count
    }


def shorten(text: str, longest: int = MAX_LENGTH) -> str:
    """The start of a text on one line."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def format_time(moment: datetime | None) -> str:
    """A time in UTC."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
