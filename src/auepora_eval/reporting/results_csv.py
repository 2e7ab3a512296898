"""Results as CSV, for spreadsheets: a row per metric and group of each slice; and every score, a row per sample."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from ..core.results import Results
from ..core.types import MetricResult

__all__ = ["COLUMNS", "results_csv", "scores_csv"]

COLUMNS = (
    "metric",
    "target",
    "slice",
    "group",
    "value",
    "low",
    "high",
    "num_samples",
    "skipped",
    "failed",
    "signature",
)


def results_csv(results: Iterable[MetricResult]) -> str:
    """The results with every digit they have; what is not defined, or not known, is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for result in results:
        writer.writerow(_row(result, result))
        for name, groups in result.slices.items():
            writer.writerows(_row(result, part, name, group) for group, part in groups.items())
    return text.getvalue().rstrip("\n")


def scores_csv(results: Results) -> str:
    """Every score of every sample, a column per metric; one that was skipped, or left out of the mean, is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    scored = [(result.name, list(result.scores)) for result in results if result.scores is not None]
    writer.writerow(["sample_id", *(name for name, _ in scored)])
    for row, sample_id in enumerate(results.sample_ids):
        writer.writerow([sample_id, *(column[row] for _, column in scored)])
    return text.getvalue().rstrip("\n")


def _row(whole: MetricResult, part: MetricResult, name: str = "", group: str = "") -> list[object]:
    low, high = (None, None) if part.interval is None or not part.defined else part.interval
    counts = [part.details.get(key) for key in ("num_samples", "num_skipped", "num_failed")]
    value = part.value if part.defined else None
    return [whole.name, whole.target.name, name, group, value, low, high, *counts, whole.signature]
