"""Plain tables for the terminal: aligned columns that read well without colour and survive a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..core.results import Results, coverage, display_name
from ..core.targets import TARGETS

__all__ = ["figure", "results_table", "table", "write_out"]


def table(rows: Sequence[Sequence[str]], *, headers: Sequence[str], right: Sequence[int] = ()) -> str:
    """Columns as wide as their content; the columns numbered in ``right`` are aligned to the right."""
    widths = [max(len(row[i]) for row in [headers, *rows]) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(headers), "  ".join("-" * width for width in widths), *map(line, rows)])


def results_table(results: Results) -> str:
    """Results grouped by Auepora target. Coverage is shown where any sample was not scored."""
    rows: list[list[str]] = []
    for target, entry in TARGETS.items():
        group = [result for result in results if result.target is target]
        for position, result in enumerate(group):
            value = figure(result.value) if result.defined else "n/a"
            rows.append([entry.title if position == 0 else "", display_name(result), value, coverage(result)])
    headers = ["target", "metric", "value", "coverage"]
    if not any(row[3] for row in rows):
        rows, headers = [row[:3] for row in rows], headers[:3]
    return table(rows, headers=headers, right=(2,))


def figure(value: float) -> str:
    """Four decimals, or three digits of what would vanish behind them."""
    return f"{value:.2e}" if 0 < abs(value) < 0.00005 else f"{value:.4f}"


def write_out(text: str, output: str | None) -> None:
    """Print, or write to a file (whole or not at all)."""
    if output is None:
        click.echo(text)
        return
    from ..io.files import write_lines

    write_lines(Path(output), [text.encode()])
    click.echo(f"wrote {output}", err=True)
