"""Numbers for pages: as many digits as their intervals allow, differences with a sign, and relative times."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from ..core.results import UNITS, registered_name
from ..core.types import MetricResult
from ..render.html import format_time, metric_range, seconds_text
from ..store.records import utc_now

MINUS = "\u2212"


def decimals_of(interval: tuple[float, float] | None) -> int:
    """Two to four decimals: the last one is not finer than half of the half-width of the interval."""
    if interval is None:
        return 2
    half = (interval[1] - interval[0]) / 2
    return next((decimals for decimals in (2, 3) if half * 10**decimals >= 2), 4 if half > 0 else 2)


def with_minus(text: str) -> str:
    """A number with the sign U+2212."""
    return text.replace("-", MINUS)


def is_proportion(result: MetricResult) -> bool:
    """Whether the values of the metric are from 0 to 1."""
    return metric_range(result.name, result.signature) == (0.0, 1.0)


def metric_number(result: MetricResult, value: float) -> str:
    """A value of the metric, with the digits of the result and its unit."""
    if UNITS.get(registered_name(result).partition("[")[0]) == "s":
        return with_minus(seconds_text(value))
    is_small = result.interval is not None and abs(value) < 10 and decimals_of(result.interval) < 4
    if is_small or is_proportion(result):
        return with_minus(f"{value:.{decimals_of(result.interval)}f}")
    return with_minus(f"{value:.4g}")


def interval_numbers(result: MetricResult, unit: str = "") -> str:
    """The ends of the interval; with their units where one differs from that of the value."""
    if result.interval is None or not result.defined:
        return ""
    ends = [metric_number(result, end) for end in result.interval]
    if all(end.partition(" ")[2] == unit for end in ends):
        ends = [end.partition(" ")[0] for end in ends]
    return " – ".join(ends)


def metric_difference(result: MetricResult, difference: float) -> str:
    """A difference with its sign; ``= 0`` where there is none."""
    text = metric_number(result, abs(difference))
    if not any(digit in text for digit in "123456789"):
        return "= 0"
    return f"{'+' if difference > 0 else MINUS}{text}"


def time_of(text: str) -> str:
    """A time in ISO format, as the other times; another text as it is."""
    with suppress(ValueError):
        return format_time(datetime.fromisoformat(text))
    return text


def time_ago(moment: datetime, now: datetime | None = None) -> str:
    """A time as people say it: ``5 min ago``; the day where it is longer ago than a month."""
    passed = (now or utc_now()) - moment
    minutes = int(passed.total_seconds() // 60)
    if passed > timedelta(days=30):
        return f"{moment:%Y-%m-%d}"
    if passed >= timedelta(days=2):
        return f"{passed.days} days ago"
    if minutes >= 120:
        return f"{minutes // 60} h ago"
    return f"{minutes} min ago" if minutes > 0 else "just now"
