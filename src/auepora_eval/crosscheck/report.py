"""Results of a cross-check: compared metric and method, number of cases, largest deviation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

__all__ = ["MODEL_TOLERANCE", "TOLERANCE", "CrossCheck", "DeviationTally", "merge_checks", "relative_deviation"]

TOLERANCE = 1e-9
MODEL_TOLERANCE = 1e-4
"""For float32 models, whose last digits depend on the batch."""


def relative_deviation(ours: float | None, theirs: float | None) -> float:
    """|a − b| / max(1, |b|); infinite where one side has a number and the other has none."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf
    if math.isnan(ours) or math.isnan(theirs):
        return math.inf
    return abs(ours - theirs) / max(1.0, abs(theirs))


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """One metric compared with another way to compute it."""

    metric: str
    against: str
    cases: int
    largest: float
    worst_case: str = ""
    """The case with the largest deviation."""
    tolerance: float = TOLERANCE

    @property
    def agrees(self) -> bool:
        """Whether no case deviates by more than the tolerance."""
        return self.largest <= self.tolerance


class DeviationTally:
    """Collects the deviations of one metric from another way to compute it."""

    def __init__(self, metric: str, against: str, *, tolerance: float = TOLERANCE) -> None:
        self.metric, self.against, self.tolerance = metric, against, tolerance
        self.cases, self.largest, self.worst = 0, 0.0, ""

    def add(self, ours: float | None, theirs: float | None, case: str) -> None:
        """Add one case."""
        self.cases += 1
        distance = relative_deviation(ours, theirs)
        if distance > self.largest:
            self.largest, self.worst = distance, f"{case}: {ours} against {theirs}"

    def check(self) -> CrossCheck:
        """The result."""
        return CrossCheck(self.metric, self.against, self.cases, self.largest, self.worst, self.tolerance)


def merge_checks(checks: Iterable[CrossCheck]) -> list[CrossCheck]:
    """One result per metric and method: the sum of the cases, the largest deviation."""
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
