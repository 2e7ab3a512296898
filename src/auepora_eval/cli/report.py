"""``auepora report``: stored runs as one HTML file, or as Markdown."""

from __future__ import annotations

import click

from .console import echo_err, quiet_option
from .stores import complete_run, open_store, store_option

__all__ = ["command"]


@click.command(name="report")
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option(
    "--baseline", metavar="RUN", help="The run that the others are held against.", shell_complete=complete_run
)
@click.option("--title", help="What the report is called; by default after its runs.")
@store_option
@quiet_option
@click.option("--open", "show", is_flag=True, help="Open it in the browser.")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    default="report.html",
    show_default=True,
    help="The file to write; .md: Markdown.",
)
def command(
    runs: tuple[str, ...], baseline: str | None, title: str | None, store: str | None, show: bool, output: str
) -> None:
    """Write one file that shows stored RUNS: one by itself (by default the latest), two compared, more as a league.

    The HTML works from disk, without network or any other file: the verdict, scores by target with intervals, slices,
    distributions, latency, curves, causes, and every query to search and open. Of two runs the first is what the second
    is held against. Exits with 0 whatever the runs say.

    \b
    auepora report
    auepora report nightly -o nightly.html
    auepora report baseline latest
    auepora report latest --baseline main -o report.md
    """
    from pathlib import Path

    from ..reporting.html.page import write_report
    from ..reporting.progress import progress

    with open_store(store, output=output) as found, progress("building the report"):
        path = write_report(runs or ("latest",), output, store=found, baseline=baseline, title=title)
    echo_err(f"wrote {path}")
    if show:
        click.launch(Path(path).absolute().as_uri())
