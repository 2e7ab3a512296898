"""What a number or an interval says about a threshold, and how that is put into words."""

from __future__ import annotations

from ..reporting.tables import format_value
from .kinds import Operator
from .report import GateStatus

__all__ = ["describe_relation", "format_interval", "format_number", "holds", "interval_status", "value_status"]

_TOLERANCE = 1e-12
"""Numbers nearer than this are the same: 0.79 - 0.80 is -0.01, whatever the last bit says."""
_PASSED_WORDS: dict[Operator, str] = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_FAILED_WORDS: dict[Operator, str] = {">=": "below", ">": "not above", "<=": "above", "<": "not below"}


def holds(value: float, operator: Operator, threshold: float) -> bool:
    """Whether ``value operator threshold``, numbers that differ in their last bits being the same."""
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
    """``passed`` where all of the interval holds, ``failed`` where none of it does, else ``inconclusive``.

    ``shift`` is by how much it lies elsewhere.
    """
    ends = [holds(end + shift, operator, threshold) for end in interval]
    return "passed" if all(ends) else "inconclusive" if any(ends) else "failed"


def describe_relation(value: float, operator: Operator, threshold: float) -> str:
    """How a value lies to a threshold: ``0.7833, below 0.8``."""
    words = _PASSED_WORDS if holds(value, operator, threshold) else _FAILED_WORDS
    return f"{format_number(value, threshold)}, {words[operator]} {threshold:g}"


def format_number(value: float, beside: float | None = None) -> str:
    """A number with four decimals, or as many as it takes to tell it from another."""
    short = format_value(value)
    alike = beside is not None and float(short) == beside and not _is_close(value, beside)
    return f"{value:.12g}" if alike else short


def format_interval(interval: tuple[float, float]) -> str:
    """An interval in words."""
    return f"95 % interval {format_value(interval[0])} to {format_value(interval[1])}"


def _is_close(value: float, other: float) -> bool:
    return abs(value - other) <= _TOLERANCE * max(1.0, abs(other))
