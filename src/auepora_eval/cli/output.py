"""Where results go: to stdout or to a file, in the format its name asks for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from .console import echo_err

if TYPE_CHECKING:
    from ..core.results import Results

__all__ = ["output_format", "refuse_input_as_output", "render_results", "require_per_query", "write_out"]


def output_format(output: str | None) -> Literal["csv", "json", "markdown", "table"]:
    """What the name of the file asks for; ``r.json.gz`` is JSON as well."""
    name = (output or "").lower().removesuffix(".gz")
    if name.endswith(".json"):
        return "json"
    if name.endswith(".csv"):
        return "csv"
    return "markdown" if name.endswith((".md", ".markdown")) else "table"


def require_per_query(wanted: bool, form: str) -> None:
    """Raise where scores of samples are asked for in a form that has no place for them."""
    if wanted and form not in ("csv", "json"):
        raise click.UsageError("--per-query goes with --json, or with -o FILE.csv")


def render_results(results: Results, form: str, said: str, *, per_query: bool = False) -> str:
    """Results as text in the form asked for; tables end with what is ``said``.

    The figures mean little without the definitions behind them, so the two travel together.
    """
    from ..reporting.tables import results_markdown, results_table, slices_tables

    if form == "json":
        return results.to_json(per_query=per_query)
    if form == "csv":
        from ..reporting.results_csv import results_csv, scores_csv

        return scores_csv(results) if per_query else results_csv(results)
    markdown = form == "markdown"
    whole = results_markdown(results) if markdown else results_table(results)
    return "\n\n".join([whole, *slices_tables(results, markdown=markdown), said])


def refuse_input_as_output(output: str | None, inputs: Sequence[str], *, option: str = "-o") -> None:
    """Raise where writing would destroy what is read, under whatever name; or what is about to be made: a store.

    ``option`` is what names the output.
    """
    for path in inputs:
        if output is None or "://" in path:
            continue
        try:
            same = os.path.samefile(output, path)
        except OSError:  # one of them is not there: reading or writing will say so
            if os.path.abspath(output) == os.path.abspath(path):
                raise click.UsageError(f"{option} {output} is where {path} will be; write to another file") from None
            continue
        # Reading from and writing to the same terminal or device destroys nothing.
        if same and os.path.isfile(path):
            raise click.UsageError(f"{option} {output} is the input {path}; write to another file")


def write_out(text: str, output: str | None) -> None:
    """Print, or write to a file (whole or not at all)."""
    if output in (None, "-", "/dev/stdout"):  # stdout by any name: what is there already must not be truncated
        from ..reporting.control_characters import escape_control_characters

        click.echo(escape_control_characters(text))
        return
    from ..io.files import write_lines

    assert output is not None
    write_lines(Path(output), [text.encode()])
    echo_err(f"wrote {output}")
