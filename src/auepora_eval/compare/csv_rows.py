"""Comparisons as CSV, for spreadsheets: a row per metric, and per pair of runs where there are several."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from .leaderboard import Leaderboard
from .types import CompareReport, MetricComparison

__all__ = ["COLUMNS", "comparison_csv", "leaderboard_csv"]

COLUMNS = (
    "run_a",
    "run_b",
    "metric",
    "target",
    "a",
    "b",
    "delta",
    "low",
    "high",
    "p_value",
    "p_adjusted",
    "verdict",
    "primary",
    "wins",
    "losses",
    "draws",
    "n",
    "clusters",
    "delta_completed",
    "effect_size",
    "mde",
    "low_adjusted",
    "high_adjusted",
)


def comparison_csv(report: CompareReport) -> str:
    """A row per metric, with every digit; unknown values are empty cells."""
    return _to_csv((report.run_a, report.run_b, one) for one in report.metrics)


def leaderboard_csv(board: Leaderboard) -> str:
    """A row per metric and pair of runs."""
    return _to_csv(
        (board.run_ids[pair.first], board.run_ids[pair.second], pair.comparison)
        for one in board.metrics
        for pair in one.pairs
    )


def _to_csv(rows: Iterable[tuple[str, str, MetricComparison]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run_a, run_b, one in rows:
        low, high = one.interval or (None, None)
        values = {**one.to_dict(), "run_a": run_a, "run_b": run_b, "metric": one.name, "low": low, "high": high}
        values["low_adjusted"], values["high_adjusted"] = one.interval_adjusted or (None, None)
        writer.writerow([values[name] for name in COLUMNS])
    return text.getvalue().rstrip("\n")
