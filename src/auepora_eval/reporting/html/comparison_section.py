"""The differences between two runs: drawn as a forest, and as a table with intervals, p-values and verdicts."""

from __future__ import annotations

from ...compare.remarks import failure_remarks, missing_remark, other_readings
from ...compare.types import CompareReport, MetricComparison
from ...core.targets import TARGETS
from ..tables import figure
from .blocks import Block, Bullets, Cell, Column, Fold, Group, Prose, Row, Section, Table, Tone, bare_table
from .cards_section import card_link
from .figures import forest_figure
from .stored_run import StoredRun
from .wording import amount, value_text

__all__ = ["comparison_section", "probability", "signed_text", "verdict_cell"]

_SIGNS = {"better": "▲", "worse": "▼", "equal": "=", "inconclusive": "?"}
_TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "equal": "", "inconclusive": "open"}


def signed_text(value: float | None) -> str:
    """A difference with its sign."""
    if value is None or value != value:
        return "n/a"
    return figure(0.0) if value == 0 else f"{'+' if value > 0 else '−'}{figure(abs(value))}"


def probability(value: float | None) -> str:
    """A p-value."""
    return "" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def verdict_cell(one: MetricComparison) -> Cell:
    """The verdict in a word, a sign and a colour."""
    if not one.primary:
        return Cell("exploratory", tone="muted")
    note = "negligible" if one.negligible else ""
    return Cell(one.verdict, tone=_TONES[one.verdict], sign=_SIGNS[one.verdict], note=note)


def comparison_section(a: StoredRun, b: StoredRun, report: CompareReport) -> Section:
    """Every metric that both runs have."""
    blocks: list[Block] = []
    if report.metrics:
        drawn = forest_figure(report.metrics, (a.called, b.called))
        if drawn is not None:
            blocks.append(drawn)
        blocks.append(_table(report))
        blocks += [Prose(one, tone="muted") for one in _remarks(report)]
    else:
        blocks.append(Prose("There is no metric that both runs have and that follows the same rules.", tone="open"))
    if report.refused:
        rows: list[Row] = [[Cell(name), why] for name, why in report.refused.items()]
        blocks.append(
            Fold(
                f"Not compared: {amount(len(rows), 'metric')}",
                [bare_table([Column("metric"), Column("why")], rows)],
                is_open=not report.metrics,
            )
        )
    failed = [*filter(None, [missing_remark(report.missing)]), *failure_remarks(report)]
    if failed:
        blocks.append(Bullets(failed))
    return Section("deltas", "Differences", blocks, "B − A, over the queries that both runs have.")


def _table(report: CompareReport) -> Table:
    groups = []
    for target, entry in TARGETS.items():
        rows: list[Row] = [_row(one) for one in report.metrics if one.target == target.name]
        if rows:
            groups.append(Group(rows, entry.title))
    columns = [
        Column("metric"),
        Column("verdict", brief=True),
        Column("A", number=True),
        Column("B", number=True),
        Column("B − A", number=True),
        Column("95 % interval", number=True),
        Column("p adjusted", number=True),
        Column("won / lost", number=True, minor=True),
        Column("n", number=True, minor=True),
    ]
    return Table(columns, groups)


def _row(one: MetricComparison) -> Row:
    doubt = " ?" if one.flags and one.interval is not None else ""
    ends = one.shown_interval
    interval = "" if ends is None else f"{signed_text(ends[0])} to {signed_text(ends[1])}{doubt}"
    n = f"{one.n:,}" if one.clusters in (0, one.n) else f"{one.n:,} in {one.clusters:,}"
    told = [] if one.higher_is_better else ["lower is better"]
    told += [text for text in (other_readings(one), one.note) if text]
    if one.n_needed is not None:
        told.append(f"{amount(one.n_needed, 'sample')} would be needed")
    p = one.p_adjusted if one.primary else one.p_value
    return [
        Cell(one.name, href=card_link(one.name), note="; ".join(told)),
        verdict_cell(one),
        value_text(one.a),
        value_text(one.b),
        signed_text(one.delta),
        interval,
        Cell(probability(p), note="" if one.primary or p is None else "not adjusted"),
        f"{one.wins:,} / {one.losses:,}",
        n,
    ]


def _remarks(report: CompareReport) -> list[str]:
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
