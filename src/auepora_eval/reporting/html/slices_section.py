"""Slices: how every metric does in each group of samples."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.results import display_name
from ...core.types import MetricResult
from .blocks import Block, Cell, Details, Prose, ReportSection, Row, TableColumn, simple_table
from .figures import slices_figure
from .formatting import interval_text, value_text
from .stored_run import StoredRun

__all__ = ["slices_section"]

MAX_COLUMNS = 8
"""Up to this number, groups are columns; otherwise each is a row."""
MAX_ROWS = 100


def slices_section(runs: Sequence[StoredRun], main: str | None) -> ReportSection | None:
    """Each slice by group; the main metric is drawn."""
    names = list(dict.fromkeys(name for run in runs for result in run.results for name in result.slices))
    if not names:
        return None
    blocks: list[Block] = []
    for name in names:
        content: list[Block] = []
        figure = slices_figure(runs, name, main)
        if figure is not None:
            content.append(figure)
        for run in runs:
            content += _tables(run, name, main, folded=len(runs) > 1)
        blocks.append(Details(f"By {name}", content, is_open=name == names[0] and len(names) < 4))
    lead = (
        "Every metric told apart by group. ▲ and ▼: the whole interval of a group lies above or below the value of "
        "all; among many groups some will by chance."
    )
    return ReportSection("slices", "Slices", blocks, lead)


def _tables(run: StoredRun, name: str, main: str | None, *, folded: bool) -> list[Block]:
    with_parts = [(one, _parts(one, name)) for one in run.results if name in one.slices]
    groups = list(dict.fromkeys(group for _, parts in with_parts for group in parts))
    if not groups:
        return []
    if len(groups) <= MAX_COLUMNS:
        rows: list[Row] = [
            [Cell(display_name(one)), *(_cell(one, parts.get(group)) for group in groups)] for one, parts in with_parts
        ]
        columns = [TableColumn("metric"), *(TableColumn(group, number=True) for group in groups)]
        table = simple_table(columns, rows, caption="value, interval, and how many samples it is of")
        return [Details(f"All metrics of {run.label}", [table])] if folded else [table]
    main_or_first = next(((one, parts) for one, parts in with_parts if one.name == main), with_parts[0])
    result, parts = main_or_first
    rows = [[Cell(group), _cell(result, parts[group])] for group in list(parts)[:MAX_ROWS]]
    content: list[Block] = [simple_table([name, TableColumn(result.name, number=True)], rows, caption=run.label)]
    if len(parts) > MAX_ROWS:
        content.append(
            Prose(f"And {len(parts) - MAX_ROWS} more groups; `auepora show` has all, and every metric.", "muted")
        )
    return content


def _parts(result: MetricResult, name: str) -> dict[str, MetricResult]:
    return {group: part for group, part in result.slices[name].items() if isinstance(part, MetricResult)}


def _cell(whole: MetricResult, part: MetricResult | None) -> Cell:
    if part is None:
        return Cell("", tone="muted")
    n = part.details.get("num_samples", 0)
    if not part.defined:
        return Cell("n/a", tone="muted", note=f"n {n:,}")
    sign = ""
    if part.interval is not None and whole.defined:
        sign = "▲" if part.interval[0] > whole.value else "▼" if part.interval[1] < whole.value else ""
    ends = f"{interval_text(part.interval)}, " if part.interval is not None else ""
    return Cell(value_text(part.value), sign=sign, note=f"{ends}n {n:,}")
