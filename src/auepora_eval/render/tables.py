"""Results as dictionaries, Markdown tables, plain text tables, CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..core.results import (
    METRIC_COLUMNS,
    Results,
    coverage,
    display_name,
    empty_answers,
    judged_coverage,
    metric_columns,
)
from ..core.targets import TARGETS
from ..core.types import MetricResult
from ..runtime.files import atomic_write

_UNRELIABLE_MARK = "?"
"""Marks an interval that may be too narrow."""


_MAX_CELL_LENGTH = 80
_BREAKS = {ord(mark): repr(mark)[1:-1] for mark in "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"}


def escape_line_breaks(text: str) -> str:
    """Escape tabs and line breaks, so that a cell cannot break its row."""
    return text.translate(_BREAKS)


def table(rows: Sequence[Sequence[str]], *, headers: Sequence[str], right: Sequence[int] = ()) -> str:
    """A plain text table; the columns in ``right`` are right-aligned.

    Each cell is one line, and truncated where it is very long, except in the last column.
    """
    headers, *rows = (
        [_fit_cell(cell, last=i == len(headers) - 1) for i, cell in enumerate(row)] for row in [headers, *rows]
    )
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(headers), "  ".join("-" * width for width in widths), *map(line, rows)])


def _fit_cell(cell: str, *, last: bool) -> str:
    line = escape_line_breaks(cell)
    return line if last or len(line) <= _MAX_CELL_LENGTH else f"{line[: _MAX_CELL_LENGTH - 1]}…"


def results_table(results: Results) -> str:
    """A table of results by target, with intervals. Coverage is shown where any sample was not scored."""
    rows = _result_rows(results)
    headers = ["target", "metric", "value", "95 % interval", "mean of"]
    shown = [column for column in range(5) if column < 3 or any(row[column] for row in rows)]
    text = table([[row[c] for c in shown] for row in rows], headers=[headers[c] for c in shown], right=(2,))
    return _with_footnote(text, rows)


def results_markdown(results: Results) -> str:
    """The same as a Markdown table; ``results_to_markdown`` has no intervals."""
    from .markdown import escape_markdown, markdown_table

    rows = _result_rows(results)
    headers = ["Target", "Metric", "Value", "95 % interval", "Mean of"]
    shown = [column for column in range(5) if column < 3 or any(row[column] for row in rows)]
    cells = [[row[c] if c in (2, 3) else escape_markdown(row[c]) for c in shown] for row in rows]
    return _with_footnote(markdown_table([headers[c] for c in shown], cells, right=(2,)), rows)


def _result_rows(results: Results) -> list[list[str]]:
    rows: list[list[str]] = []
    for target, entry in TARGETS.items():
        group = [result for result in results if result.target is target]
        for position, result in enumerate(group):
            value = format_value(result.value) if result.defined else "n/a"
            title = entry.title if position == 0 else ""
            rows.append([title, display_name(result), value, _interval(result), result_note(result)])
            rows += _breakdown_rows(result)
    return rows


def runs_table(results: Mapping[str, Results]) -> str:
    """The values and intervals of several runs in one table by target; metrics in the order of the first run."""
    rows: list[list[str]] = []
    by_name = {run: {one.name: one for one in each} for run, each in results.items()}
    every = {one.name: one for each in results.values() for one in each}
    for target, entry in TARGETS.items():
        group = [one for one in every.values() if one.target is target]
        for position, one in enumerate(group):
            cells = [_cell(run_results.get(one.name)) for run_results in by_name.values()]
            rows.append([entry.title if position == 0 else "", display_name(one), *cells])
    text = table(rows, headers=["target", "metric", *results], right=())
    doubtful = any(cell.endswith(_UNRELIABLE_MARK) for row in rows for cell in row[2:])
    return f"{text}\n\n{_UNRELIABLE_MARK} few or skewed samples: the interval may be too narrow" if doubtful else text


def _cell(result: MetricResult | None) -> str:
    if result is None:
        return ""
    if not result.defined:
        return "n/a"
    interval = _interval(result)
    return (
        f"{format_value(result.value)}  ({interval})".replace(f" {_UNRELIABLE_MARK})", f") {_UNRELIABLE_MARK}")
        if interval
        else format_value(result.value)
    )


_GROUPS = ("scenarios", "by_noise_ratio", "causes")
"""Keys of details that break a result down by group: scenarios, noise ratios, failure causes."""


def _breakdown_rows(result: MetricResult) -> list[list[str]]:
    """A row per group of the metric's own breakdown, where there is more than one."""
    rows = []
    for key in _GROUPS:
        groups = result.details.get(key) or {}
        for name, part in groups.items() if len(groups) > 1 else ():
            value = part.get("value", part.get("share"))
            count = next((part[key] for key in ("num_noisy", "num_samples", "count") if key in part), "")
            ends = part.get("interval")
            interval = "" if ends is None else " – ".join(map(format_value, ends))
            rows.append(["", f"  {name}", "n/a" if value is None else format_value(value), interval, str(count)])
    return rows


def result_note(result: MetricResult) -> str:
    """The coverage of a value, or why it is undefined."""
    because = "" if result.defined else result.details.get("undefined_because", "")
    notes = [because, coverage(result), _spread(result), judged_coverage(result), empty_answers(result)]
    return "; ".join(filter(None, notes))


def _spread(result: MetricResult) -> str:
    """The standard deviation over repeats, where there are several."""
    repeats = result.details.get("repeats") or {}
    if repeats.get("count", 1) < 2 or repeats.get("sd") is None:
        return ""
    return f"{repeats['count']} repeats, sd {format_value(repeats['sd'])}"


def slices_tables(results: Results, *, markdown: bool = False) -> list[str]:
    """A table per slice: every metric in every group."""
    names = dict.fromkeys(name for result in results for name in result.slices)
    return [_slice_table(results, name, markdown=markdown) for name in names]


def _slice_table(results: Results, name: str, *, markdown: bool) -> str:
    rows: list[list[str]] = []
    for result in results:
        for position, (group, part) in enumerate(result.slices.get(name, {}).items()):
            value = format_value(part.value) if part.defined else "n/a"
            title = display_name(result) if position == 0 or markdown else ""
            rows.append([title, group, value, _interval(part), _counts(part)])
    headers = ["metric", name, "value", "95 % interval", "mean of"]
    if not markdown:
        return _with_footnote(table(rows, headers=headers, right=(2,)), rows)
    from .markdown import escape_markdown, markdown_table

    headers[1] = escape_markdown(headers[1])
    shown = [[escape_markdown(title), escape_markdown(group), *numbers] for title, group, *numbers in rows]
    return _with_footnote(markdown_table(headers, shown), rows)


def _counts(part: MetricResult) -> str:
    """The coverage of a group; the number of samples even where all were scored."""
    return coverage(part) or str(part.details.get("num_samples", ""))


def _with_footnote(text: str, rows: Sequence[Sequence[str]]) -> str:
    doubtful = any(row[3].endswith(_UNRELIABLE_MARK) for row in rows)
    return f"{text}\n\n{_UNRELIABLE_MARK} few or skewed samples: the interval may be too narrow" if doubtful else text


def _interval(result: MetricResult) -> str:
    """The interval, marked where it may be too narrow."""
    if result.interval is None or not result.defined:
        return ""
    low, high = map(format_value, result.interval)
    flags = result.details.get("interval", {}).get("flags")
    return f"{low} – {high}" + (f" {_UNRELIABLE_MARK}" if flags else "")


def format_value(value: float) -> str:
    """Four decimals, or three significant digits of very small numbers."""
    return f"{value:.2e}" if 0 < abs(value) < 0.00005 else f"{value:.4f}"


# --- CSV: a row per metric and group of each slice, or a row per sample ----------------------------------------------

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


# --- Parquet (extra ``parquet``): the same rows ----------------------------------------------------------------------


def save_results_parquet(results: Results, path: str | Path) -> None:
    """Write ``results.to_frame(slices=True)`` atomically."""
    _save(results.to_frame("arrow", slices=True), Path(path))


def save_scores_parquet(results: Results, path: str | Path) -> None:
    """Write ``results.to_frame(per_query=True)`` atomically."""
    _save(results.to_frame("arrow", per_query=True), Path(path))


def _save(table: object, path: Path) -> None:
    from pyarrow import parquet

    with atomic_write(path) as file:
        parquet.write_table(table, file, compression="zstd", write_page_checksum=True)
