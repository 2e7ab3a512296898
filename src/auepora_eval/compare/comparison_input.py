"""What is asked of a metric of two runs."""

from __future__ import annotations

from dataclasses import dataclass

from .run_pairs import MetricPair

__all__ = ["ComparisonInput"]


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonInput:
    """A metric of two runs, and what is asked of it."""

    pair: MetricPair
    target: str
    primary: bool = True
    margin: float | None = None
    notes: tuple[str, ...] = ()
    stored: tuple[float, float] | None = None
    """The runs' own values, for a metric whose scores do not tell them; only where the runs have the same samples."""
    own_spread: tuple[float | None, float | None] | None = None
    repeats: tuple[int, int] = (1, 1)
    runs: tuple[int, int] = (0, 1)
    """Which runs these are, where there are more than two."""
    withheld_reason: str | None = None
    """Why there is no verdict by word overlap with the question, whatever the numbers say."""
