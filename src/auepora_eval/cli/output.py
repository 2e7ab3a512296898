"""Writing results to stdout or to a file, in the format of its suffix."""

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
    """The format that the suffix of the file selects; ``r.json.gz`` is JSON too."""
    name = (output or "").lower().removesuffix(".gz")
    if name.endswith(".json"):
        return "json"
    if name.endswith(".csv"):
        return "csv"
    return "markdown" if name.endswith((".md", ".markdown")) else "table"


def require_per_query(per_query: bool, form: str) -> None:
    """Raise if scores of samples are requested in a format that cannot hold them."""
    if per_query and form not in ("csv", "json"):
        raise click.UsageError("--per-query goes with --json, or with -o FILE.csv")


def render_results(results: Results, form: str, footer: str, *, per_query: bool = False) -> str:
    """The results in a format; tables end with ``footer``, the line that names the conventions."""
    from ..reporting.tables import results_markdown, results_table, slices_tables

    if form == "json":
        return results.to_json(per_query=per_query)
    if form == "csv":
        from ..reporting.results_csv import results_csv, scores_csv

        return scores_csv(results) if per_query else results_csv(results)
    markdown = form == "markdown"
    whole = results_markdown(results) if markdown else results_table(results)
    return "\n\n".join([whole, *slices_tables(results, markdown=markdown), footer])


def refuse_input_as_output(output: str | None, inputs: Sequence[str], *, option: str = "-o") -> None:
    """Raise if ``output`` is one of ``inputs`` (also under another name), or will become one, such as a new store.

    ``option`` is the option that names the output.
    """
    for path in inputs:
        if output is None or "://" in path:
            continue
        try:
            same = os.path.samefile(output, path)
        except OSError:  # one of them does not exist: reading or writing reports that
            if os.path.abspath(output) == os.path.abspath(path):
                raise click.UsageError(f"{option} {output} is where {path} will be; write to another file") from None
            continue
        # Using one terminal or device for both overwrites nothing.
        if same and os.path.isfile(path):
            raise click.UsageError(f"{option} {output} is the input {path}; write to another file")


def write_out(text: str, output: str | None) -> None:
    """Print, or write a file atomically."""
    if output in (None, "-", "/dev/stdout"):  # stdout under any name, which must not be truncated
        from ..reporting.control_characters import escape_control_characters

        click.echo(escape_control_characters(text))
        return
    from ..io.files import write_lines

    assert output is not None
    write_lines(Path(output), [text.encode()])
    echo_err(f"wrote {output}")
