"""The section of differences between two runs: a forest chart, and a table with intervals, p-values and verdicts."""

from __future__ import annotations

from ...compare.report_notes import alternative_differences, failure_notes, missing_note
from ...compare.types import CompareReport, MetricComparison
from ...core.targets import TARGETS
from ..tables import format_value
from .blocks import (
    Block,
    Bullets,
    Cell,
    Details,
    Prose,
    ReportSection,
    Row,
    RowGroup,
    Table,
    TableColumn,
    Tone,
    simple_table,
)
from .cards_section import card_link
from .figures import forest_figure
from .formatting import pluralize, value_text
from .stored_run import StoredRun

__all__ = ["comparison_section", "p_value_text", "signed_text", "verdict_cell"]

_SIGNS = {"better": "▲", "worse": "▼", "equal": "=", "inconclusive": "?"}
_TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "equal": "", "inconclusive": "open"}


def signed_text(value: float | None) -> str:
    """A difference with its sign."""
    if value is None or value != value:
        return "n/a"
    return format_value(0.0) if value == 0 else f"{'+' if value > 0 else '−'}{format_value(abs(value))}"


def p_value_text(value: float | None) -> str:
    """A p-value as text."""
    return "" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def verdict_cell(one: MetricComparison) -> Cell:
    """The verdict as a word, a sign and a colour."""
    if not one.primary:
        return Cell("exploratory", tone="muted")
    note = "negligible" if one.negligible else ""
    return Cell(one.verdict, tone=_TONES[one.verdict], sign=_SIGNS[one.verdict], note=note)


def comparison_section(a: StoredRun, b: StoredRun, report: CompareReport) -> ReportSection:
    """Every metric that both runs have."""
    blocks: list[Block] = []
    if report.metrics:
        drawn = forest_figure(report.metrics, (a.label, b.label))
        if drawn is not None:
            blocks.append(drawn)
        blocks.append(_table(report))
        blocks += [Prose(one, tone="muted") for one in _footnotes(report)]
    else:
        blocks.append(Prose("There is no metric that both runs have and that follows the same rules.", tone="open"))
    if report.refused:
        rows: list[Row] = [[Cell(name), why] for name, why in report.refused.items()]
        blocks.append(
            Details(
                f"Not compared: {pluralize(len(rows), 'metric')}",
                [simple_table([TableColumn("metric"), TableColumn("why")], rows)],
                is_open=not report.metrics,
            )
        )
    failed = [*filter(None, [missing_note(report.missing)]), *failure_notes(report)]
    if failed:
        blocks.append(Bullets(failed))
    return ReportSection("deltas", "Differences", blocks, "B − A, over the queries that both runs have.")


def _table(report: CompareReport) -> Table:
    groups = []
    for target, entry in TARGETS.items():
        rows: list[Row] = [_row(one) for one in report.metrics if one.target == target.name]
        if rows:
            groups.append(RowGroup(rows, entry.title))
    columns = [
        TableColumn("metric"),
        TableColumn("verdict", brief=True),
        TableColumn("A", number=True),
        TableColumn("B", number=True),
        TableColumn("B − A", number=True),
        TableColumn("95 % interval", number=True),
        TableColumn("p adjusted", number=True),
        TableColumn("won / lost", number=True, minor=True),
        TableColumn("n", number=True, minor=True),
    ]
    return Table(columns, groups)


def _row(one: MetricComparison) -> Row:
    mark = " ?" if one.flags and one.interval is not None else ""
    ends = one.shown_interval
    interval = "" if ends is None else f"{signed_text(ends[0])} to {signed_text(ends[1])}{mark}"
    n = f"{one.n:,}" if one.clusters in (0, one.n) else f"{one.n:,} in {one.clusters:,}"
    notes = [] if one.higher_is_better else ["lower is better"]
    notes += [text for text in (alternative_differences(one), one.note) if text]
    if one.n_needed is not None:
        notes.append(f"{pluralize(one.n_needed, 'sample')} would be needed")
    p = one.p_adjusted if one.primary else one.p_value
    return [
        Cell(one.name, href=card_link(one.name), note="; ".join(notes)),
        verdict_cell(one),
        value_text(one.a),
        value_text(one.b),
        signed_text(one.delta),
        interval,
        Cell(p_value_text(p), note="" if one.primary or p is None else "not adjusted"),
        f"{one.wins:,} / {one.losses:,}",
        n,
    ]


def _footnotes(report: CompareReport) -> list[str]:
    lines = []
    adjusted = sum(one.primary for one in report.metrics)
    if adjusted > 1:
        lines.append(
            f"p-values and intervals are adjusted for {adjusted} metrics: a verdict needs a p-value below .05 and an "
            "interval without 0."
        )
    if any(not one.primary for one in report.metrics):
        lines.append("Exploratory: not among the primary metrics; no verdict is given.")
    if any(one.flags and one.interval is not None for one in report.metrics):
        lines.append("? few or skewed samples: the interval may be too narrow.")
    if any(one.clusters not in (0, one.n) for one in report.metrics):
        lines.append("n in c: so many samples in so many clusters, which belong together.")
    return lines
