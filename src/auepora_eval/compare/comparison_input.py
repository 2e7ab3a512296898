"""The input of the comparison of one metric of two runs."""

from __future__ import annotations

from dataclasses import dataclass

from .run_pairs import MetricPair

__all__ = ["ComparisonInput"]


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonInput:
    """One metric of two runs, with the options and notes of its comparison."""

    pair: MetricPair
    target: str
    primary: bool = True
    margin: float | None = None
    notes: tuple[str, ...] = ()
    stored: tuple[float, float] | None = None
    """The stored values of the runs, for a metric without usable scores; only if the runs have the same samples."""
    own_spread: tuple[float | None, float | None] | None = None
    repeats: tuple[int, int] = (1, 1)
    runs: tuple[int, int] = (0, 1)
    """The indices of the two runs among all runs compared."""
    withheld_reason: str | None = None
    """Why there is no verdict by word overlap with the question, whatever the numbers."""
