"""Comparison of numbers and intervals with thresholds, and its wording."""

from __future__ import annotations

from ..reporting.tables import format_value
from .kinds import Operator
from .report import GateStatus

__all__ = ["describe_relation", "format_interval", "format_number", "holds", "interval_status", "value_status"]

_TOLERANCE = 1e-12
"""Numbers closer than this are equal: 0.79 - 0.80 is -0.01, despite rounding."""
_PASSED_WORDS: dict[Operator, str] = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_FAILED_WORDS: dict[Operator, str] = {">=": "below", ">": "not above", "<=": "above", "<": "not below"}


def holds(value: float, operator: Operator, threshold: float) -> bool:
    """Whether ``value operator threshold``, up to rounding."""
    same = _is_close(value, threshold)
    if operator in (">=", "<=") and same:
        return True
    return not same and (value > threshold if operator in (">", ">=") else value < threshold)


def value_status(value: float, operator: Operator, threshold: float) -> GateStatus:
    """``passed`` or ``failed``, by one number."""
    return "passed" if holds(value, operator, threshold) else "failed"


def interval_status(
    interval: tuple[float, float], operator: Operator, threshold: float, shift: float = 0.0
) -> GateStatus:
    """``passed`` where both ends satisfy the condition, ``failed`` where neither does, else ``inconclusive``.

    ``shift`` is added to both ends.
    """
    ends = [holds(end + shift, operator, threshold) for end in interval]
    return "passed" if all(ends) else "inconclusive" if any(ends) else "failed"


def describe_relation(value: float, operator: Operator, threshold: float) -> str:
    """A value and its relation to a threshold: ``0.7833, below 0.8``."""
    words = _PASSED_WORDS if holds(value, operator, threshold) else _FAILED_WORDS
    return f"{format_number(value, threshold)}, {words[operator]} {threshold:g}"


def format_number(value: float, other: float | None = None) -> str:
    """A number with four decimals, or with as many as it takes to differ from ``other``."""
    short = format_value(value)
    looks_equal = other is not None and float(short) == other and not _is_close(value, other)
    return f"{value:.12g}" if looks_equal else short


def format_interval(interval: tuple[float, float]) -> str:
    """An interval as text."""
    return f"95 % interval {format_value(interval[0])} to {format_value(interval[1])}"


def _is_close(value: float, other: float) -> bool:
    return abs(value - other) <= _TOLERANCE * max(1.0, abs(other))
