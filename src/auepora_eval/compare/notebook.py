"""Comparisons as a notebook shows them: a table of differences with verdicts, and a forest plot; everything escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from ..core.targets import TARGETS
from ..core.types import TargetCategory
from ..reporting.charts.chart import Chart
from ..reporting.charts.forest import forest_chart
from ..reporting.charts.labels import clean_label
from ..reporting.notebook import html_table, with_chart
from ..reporting.result_rows import SECONDS, metric_range
from ..reporting.tables import format_value
from .report_notes import missing_note
from .types import CompareReport, MetricComparison

__all__ = ["comparison_html", "forest_plot", "forest_rows"]


def forest_rows(metrics: Iterable[MetricComparison]) -> list[dict[str, Any]]:
    """The rows of ``forest_chart``, by target."""
    titles = {target.name: entry.title for target, entry in TARGETS.items()}
    order = list(titles)
    rows = []
    for one in sorted(metrics, key=lambda one: order.index(one.target) if one.target in titles else len(order)):
        low, high = one.shown_interval or (None, None)
        ends = metric_range(one.name)
        row: dict[str, Any] = {
            "name": one.name,
            "group": titles.get(one.target, one.target),
            "delta": one.delta,
            "low": low,
            "high": high,
            "verdict": one.verdict,
            "primary": one.primary,
            "n": one.n,
            "note": one.note or "no difference is defined",
        }
        if one.target == TargetCategory.LATENCY.name and "throughput" not in one.name:
            row["scale"] = SECONDS
        rows.append(row if ends is None else {**row, "range": ends})
    return rows


def forest_plot(report: CompareReport, *, names: tuple[str, str] = ("A", "B"), title: str | None = None) -> Chart:
    """A forest plot of every metric's difference; metrics that were not compared are listed with the reason."""
    rows = forest_rows(report.metrics)
    rows += [
        {"name": name, "delta": None, "note": why, "group": "Not compared"} for name, why in report.refused.items()
    ]
    return forest_chart(rows, names=names, title=title or f"Differences, {names[1]} − {names[0]}")


def comparison_html(report: CompareReport) -> str:
    """The comparison as HTML."""
    rows = [
        [
            one.name,
            _value(one.a),
            _value(one.b),
            "" if one.delta is None else f"{one.delta:+.4f}",
            "" if (ends := one.shown_interval) is None else f"{ends[0]:+.4f} … {ends[1]:+.4f}",
            "" if one.p_adjusted is None else f"{one.p_adjusted:.4f}",
            one.verdict if one.primary else "",
            str(one.n),
        ]
        for one in report.metrics
    ]
    headers = ["Metric", "A", "B", "B − A", "95 % interval", "p, adjusted", "Verdict", "n"]
    table = html_table(headers, rows, right=(1, 2, 3, 5, 7)) if rows else "<p>no metric was compared</p>"
    heading = f"<p>A: {_escape_label(report.run_a)}, B: {_escape_label(report.run_b)}</p>"
    lacking = missing_note(report.missing)
    notes = "".join(f"<li>{_escape_label(note)}</li>" for note in [*([lacking] if lacking else []), *report.notes])
    notes += "".join(
        f"<li>not compared: {_escape_label(name)} ({_escape_label(why)})</li>" for name, why in report.refused.items()
    )
    return with_chart(heading + table + (f"<ul>{notes}</ul>" if notes else ""), forest_plot(report))


def _value(value: float | None) -> str:
    return "n/a" if value is None else format_value(value)


def _escape_label(text: str) -> str:
    return escape(clean_label(text, longest=1000))
