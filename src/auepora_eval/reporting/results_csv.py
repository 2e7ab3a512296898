"""Results as CSV, for spreadsheets: a row per metric and group of each slice; and every score, a row per sample."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from ..core.result_columns import METRIC_COLUMNS, metric_columns
from ..core.results import Results
from ..core.types import MetricResult

__all__ = ["COLUMNS", "results_csv", "scores_csv"]

COLUMNS = tuple(name for name in METRIC_COLUMNS if name != "coverage")  # it follows from the counts


def results_csv(results: Iterable[MetricResult]) -> str:
    """The results as CSV with all digits; undefined and unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = metric_columns(list(results), slices=True)
    writer.writerow(COLUMNS)
    writer.writerows(zip(*(columns[name].values for name in COLUMNS), strict=True))
    return text.getvalue().rstrip("\n")


def scores_csv(results: Results) -> str:
    """Every score of every sample, a column per metric; skipped and excluded scores are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    scored = [(result.name, list(result.scores)) for result in results if result.scores is not None]
    writer.writerow(["sample_id", *(name for name, _ in scored)])
    for row, sample_id in enumerate(results.sample_ids):
        writer.writerow([sample_id, *(column[row] for _, column in scored)])
    return text.getvalue().rstrip("\n")
