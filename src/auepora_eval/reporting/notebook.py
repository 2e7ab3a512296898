"""Results as notebook HTML: a table by target with intervals, and a chart; no script, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..core.results import Results, display_name
from ..core.targets import TARGETS
from ..core.types import MetricResult
from .charts.chart import Chart
from .charts.intervals import interval_chart
from .charts.labels import clean_label
from .result_rows import interval_rows
from .tables import format_value, result_note

__all__ = ["html_table", "results_html", "with_chart"]

MAX_ROWS = 500


def results_html(results: Results) -> str:
    """The results as HTML."""
    if not results:
        return "<p>no results</p>"
    rows: list[list[str]] = []
    for target, entry in TARGETS.items():
        group = [result for result in results if result.target is target]
        for index, one in enumerate(group):
            value = format_value(one.value) if one.defined else "n/a"
            rows.append([entry.title if index == 0 else "", display_name(one), value, _interval(one), result_note(one)])
    table = html_table(["Target", "Metric", "Value", "95 % interval", "Mean of"], rows, right=(2,))
    has_unreliable = any(row[3].endswith("?") for row in rows)
    doubtful = "<p>? few or skewed samples: the interval may be too narrow</p>" if has_unreliable else ""
    return with_chart(table + doubtful, interval_chart(interval_rows(results)))


def _interval(result: MetricResult) -> str:
    if result.interval is None or not result.defined:
        return ""
    low, high = map(format_value, result.interval)
    return f"{low} – {high}" + (" ?" if (result.details.get("interval") or {}).get("flags") else "")


def html_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """An HTML table of plain texts, which are escaped; empty columns are left out."""
    kept = rows[:MAX_ROWS]
    shown = [c for c in range(len(headers)) if c < 2 or any(row[c] for row in kept)]

    def cell(name: str, column: int, text: str) -> str:
        side = "right" if column in right else "left"
        aligned = f' style="text-align: {side}{"; white-space: nowrap" if len(text) < 40 else ""}"'
        scope = ' scope="col"' if name == "th" else ""
        return f"<{name}{scope}{aligned}>{escape(clean_label(text, longest=400))}</{name}>"

    head = "".join(cell("th", c, headers[c]) for c in shown)
    body = "".join(f"<tr>{''.join(cell('td', c, row[c]) for c in shown)}</tr>" for row in kept)
    more = f"<p>and {len(rows) - len(kept):,} more rows</p>" if len(rows) > len(kept) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def with_chart(html: str, chart: Chart) -> str:
    """HTML with a chart below it, in the light theme with its own background."""
    return f"<div>{html}{chart.to_svg(theme='light')}</div>"
