"""What a number or an interval says about a threshold, and how that is put into words."""

from __future__ import annotations

from ..reporting.tables import figure
from .kinds import Operator
from .report import GateStatus

__all__ = ["decided", "holds", "interval_status", "number", "relation", "span"]

_SAME = 1e-12
"""Numbers nearer than this are the same: 0.79 - 0.80 is -0.01, whatever the last bit says."""
_YES: dict[Operator, str] = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
_NO: dict[Operator, str] = {">=": "below", ">": "not above", "<=": "above", "<": "not below"}


def holds(value: float, operator: Operator, threshold: float) -> bool:
    """Whether ``value operator threshold``, numbers that differ in their last bits being the same."""
    same = _same(value, threshold)
    if operator in (">=", "<=") and same:
        return True
    return not same and (value > threshold if operator in (">", ">=") else value < threshold)


def decided(value: float, operator: Operator, threshold: float) -> GateStatus:
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


def relation(value: float, operator: Operator, threshold: float) -> str:
    """How a value lies to a threshold: ``0.7833, below 0.8``."""
    words = _YES if holds(value, operator, threshold) else _NO
    return f"{number(value, threshold)}, {words[operator]} {threshold:g}"


def number(value: float, beside: float | None = None) -> str:
    """A number with four decimals, or as many as it takes to tell it from another."""
    short = figure(value)
    alike = beside is not None and float(short) == beside and not _same(value, beside)
    return f"{value:.12g}" if alike else short


def span(interval: tuple[float, float]) -> str:
    """An interval in words."""
    return f"95 % interval {figure(interval[0])} to {figure(interval[1])}"


def _same(value: float, other: float) -> bool:
    return abs(value - other) <= _SAME * max(1.0, abs(other))
