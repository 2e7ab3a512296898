"""Results as columns: a row per metric (and optionally per group of a slice), or a row per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .errors import BadValueError
from .frames import ColumnKind, FrameColumn
from .types import MetricResult

__all__ = ["METRIC_COLUMNS", "metric_columns", "sample_columns"]

METRIC_COLUMNS: dict[str, ColumnKind] = {
    "metric": "text",
    "target": "text",
    "slice": "text",
    "group": "text",
    "value": "number",
    "low": "number",
    "high": "number",
    "num_samples": "count",
    "coverage": "number",
    "skipped": "count",
    "failed": "count",
    "signature": "text",
}
"""The columns of a metric, or of one group of a slice, and their kinds."""


def metric_columns(results: Sequence[MetricResult], *, slices: bool = False) -> dict[str, FrameColumn]:
    """A row per metric; with ``slices`` also one per group of each slice, which the columns slice and group name."""
    rows = [row for result in results for row in _rows(result, slices=slices)]
    kinds = {name: kind for name, kind in METRIC_COLUMNS.items() if slices or name not in ("slice", "group")}
    return {name: FrameColumn(kind, [row[name] for row in rows]) for name, kind in kinds.items()}


def sample_columns(results: Sequence[MetricResult], sample_ids: Sequence[str]) -> dict[str, FrameColumn]:
    """A row per sample: its id, and per metric its score (none where it has none) and its outcome."""
    columns = {"sample_id": FrameColumn("text", list(sample_ids))}
    for result in results:
        if result.scores is None:
            continue
        scores = list(result.scores)
        if len(scores) != len(sample_ids):
            raise BadValueError(
                f"{result.name} has {len(scores)} scores for {len(sample_ids)} sample ids; the numbers must be equal"
            )
        # Scores of a user's own metric have no outcomes: they are scored or skipped.
        outcomes = list(result.outcomes or ["skipped" if score is None else "scored" for score in scores])
        columns[result.name] = FrameColumn("number", scores)
        columns[f"{result.name}.outcome"] = FrameColumn("text", outcomes)
    return columns


def _rows(result: MetricResult, *, slices: bool) -> Iterator[dict[str, Any]]:
    yield _row(result, result, None, None)
    if slices:
        for name, groups in result.slices.items():
            for group, part in groups.items():
                if isinstance(part, MetricResult):
                    yield _row(result, part, name, str(group))


def _row(whole: MetricResult, part: MetricResult, name: str | None, group: str | None) -> dict[str, Any]:
    low, high = (None, None) if part.interval is None or not part.defined else part.interval
    counts = {key: part.details.get(f"num_{key}") for key in ("samples", "skipped", "failed")}
    return {
        "metric": whole.name,
        "target": whole.target.name,
        "slice": name,
        "group": group,
        "value": part.value if part.defined else None,
        "low": low,
        "high": high,
        "num_samples": counts["samples"],
        "coverage": _coverage(part),
        "skipped": counts["skipped"],
        "failed": counts["failed"],
        "signature": whole.signature,
    }


def _coverage(result: MetricResult) -> float | None:
    """The proportion of samples that the value is a mean of; None for a metric without outcomes."""
    try:
        total = sum(int(result.details[f"num_{key}"]) for key in ("scored", "skipped", "failed"))
        return int(result.details["num_samples"]) / total if total else None
    except (KeyError, TypeError, ValueError):  # details of a user's own metric may be anything
        return None
