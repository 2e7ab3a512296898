"""``auepora report``: stored runs as one HTML file, or as Markdown."""

from __future__ import annotations

import click

from .console import echo_err, quiet_option
from .options import complete_run, open_store, store_option


@click.command(name="report")
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option("--baseline", metavar="RUN", help="Run that the others are compared with.", shell_complete=complete_run)
@click.option("--title", help="Title of the report; default: the names of the runs.")
@click.option(
    "--all-queries", is_flag=True, help="List all queries, also above 20,000; the file and memory grow with them."
)
@store_option
@quiet_option
@click.option("--open", "show", is_flag=True, help="Open the report in the browser.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="report.html",
    show_default=True,
    help="File to write; .md writes Markdown.",
)
def command(
    runs: tuple[str, ...],
    baseline: str | None,
    title: str | None,
    all_queries: bool,
    store: str | None,
    show: bool,
    output: str,
) -> None:
    """Write a report of stored RUNS: one run (default: the latest), a comparison of two, or a leaderboard of more.

    The HTML is one file that needs no network. It shows the verdict, scores by target with intervals, slices,
    distributions, latency, curves, causes, and a searchable list of queries: all of them up to 20,000, of more the
    failures, changes and a sample. With two runs, the first is the baseline. The exit code is 0 whatever the verdict.

    \b
    auepora report
    auepora report nightly -o nightly.html
    auepora report baseline latest
    auepora report latest --baseline main -o report.md
    """
    from pathlib import Path

    from ..render.terminal import progress
    from ..report.pages import write_report

    with open_store(store, output=output) as found, progress("building the report"):
        path = write_report(
            runs or ("latest",), output, store=found, baseline=baseline, title=title, all_queries=all_queries
        )
    echo_err(f"wrote {path}")
    if show:
        click.launch(Path(path).absolute().as_uri())
