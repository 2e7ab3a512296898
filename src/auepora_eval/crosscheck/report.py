"""The rows of a cross-check: what was held against what, on how many cases, and how far apart they were."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = ["MODEL_TOLERANCE", "TOLERANCE", "CrossCheck", "DeviationTally", "merge_checks", "relative_deviation"]

TOLERANCE = 1e-9
MODEL_TOLERANCE = 1e-4
"""For what a model computes in float32, whose last digits depend on what else is in the batch."""


def relative_deviation(ours: float | None, theirs: float | None) -> float:
    """|a − b| / max(1, |b|); infinite where one side has a number and the other has none."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    if math.isnan(ours) or math.isnan(theirs):
        return math.inf
    return abs(ours - theirs) / max(1.0, abs(theirs))


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """One metric held against one other way to compute it."""

    metric: str
    against: str
    cases: int
    largest: float
    worst_case: str = ""
    """Where the largest deviation was seen."""
    tolerance: float = TOLERANCE

    @property
    def agrees(self) -> bool:
        """Whether no case deviates by more than the tolerance."""
        return self.largest <= self.tolerance


class DeviationTally:
    """Collects the deviations of one metric against one other way."""

    def __init__(self, metric: str, against: str, *, tolerance: float = TOLERANCE) -> None:
        self.metric, self.against, self.tolerance = metric, against, tolerance
        self.cases, self.largest, self.worst = 0, 0.0, ""

    def add(self, ours: float | None, theirs: float | None, case: str) -> None:
        """Take in one case."""
        self.cases += 1
        apart = relative_deviation(ours, theirs)
        if apart > self.largest:
            self.largest, self.worst = apart, f"{case}: {ours} against {theirs}"

    def check(self) -> CrossCheck:
        """The row."""
        return CrossCheck(self.metric, self.against, self.cases, self.largest, self.worst, self.tolerance)


def merge_checks(checks: Iterable[CrossCheck]) -> list[CrossCheck]:
    """One row per metric and opponent: cases added up, the largest deviation kept."""
    rows: dict[tuple[str, str], CrossCheck] = {}
    for check in checks:
        key = (check.metric, check.against)
        seen = rows.get(key)
        if seen is None:
            rows[key] = check
        else:
            worst = check if check.largest > seen.largest else seen
            rows[key] = replace(worst, cases=seen.cases + check.cases)
    return list(rows.values())
