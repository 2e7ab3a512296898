"""Notes on failures in a comparison: how many there are, and the difference without them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..core.results import empty_answers
from ..core.types import TargetCategory
from ..reporting.tables import format_value
from ..store.runs import RunStore
from .types import CompareReport, MetricComparison

if TYPE_CHECKING:
    from .leaderboard import LeaderboardMetric

__all__ = ["alternative_differences", "empty_answer_notes", "failure_notes", "missing_note", "run_labels", "signed"]

_ROUNDING = 1e-9


def signed(value: float) -> str:
    """A difference with its sign."""
    return format_value(value) if value < 0 else f"+{format_value(value or 0.0)}"  # without negative zero


def alternative_differences(one: MetricComparison) -> str | None:
    """The difference without system failures, if it is another, and its bounds if measurements failed."""
    parts = []
    completed = one.delta_completed
    if completed is not None and one.delta is not None and not math.isclose(completed, one.delta, abs_tol=_ROUNDING):
        parts.append(f"{signed(completed)} over the samples that both systems answered")
    if one.bounds is not None:
        low, high = one.bounds
        parts.append(f"with failed measurements at their worst and best: {signed(low)} … {signed(high)}")
    return "; ".join(parts) or None


def missing_note(missing: Sequence[int], names: Sequence[str] = "AB") -> str | None:
    """A note with the number of missing outputs of each run; ``None`` if none is missing."""
    if not any(missing):
        return None
    counts = ", ".join(f"{count} in {name}" for name, count in zip(names, missing, strict=True))
    return f"missing outputs: {counts}; in a comparison they count as failed, at the worst value of a metric"


def empty_answer_notes(
    store: RunStore, run_ids: Sequence[str], metrics: Sequence[MetricComparison | LeaderboardMetric]
) -> list[str]:
    """Notes on runs (named A, B, ...) with many empty answers, if abstention metrics are compared."""
    names = [one.name for one in metrics if one.target == TargetCategory.NEGATIVE_REJECTION.name]
    notes = []
    for label, run_id in zip(run_labels(len(run_ids)), run_ids, strict=True):
        found = next(filter(None, (empty_answers(store.result(run_id, name)) for name in names)), None)
        if found is not None:
            notes.append(f"{label}: {found}; abstention metrics count an empty answer as a refusal")
    return notes


def run_labels(count: int) -> list[str]:
    """The labels of runs in a comparison: A, B, ..., Z, 27, ..."""
    return [chr(ord("A") + place) if place < 26 else str(place + 1) for place in range(count)]


def failure_notes(report: CompareReport) -> list[str]:
    """How many queries failed in each run; empty if none did."""
    counts = {"A": report.aggregate_a, "B": report.aggregate_b}
    if not any(one.failed_queries for one in counts.values()):
        return []
    failed = " and ".join(f"{one.failed_queries} of {one.total_queries} in {run}" for run, one in counts.items())
    lines = [f"failed: {failed}"]
    for run, one in counts.items():
        if one.failed_queries and one.failed_queries == one.total_queries:
            lines.append(f"{run} failed on every sample: these numbers say nothing about its answers")
    return lines
