"""``auepora plot``: a chart of stored runs, as SVG, PNG, HTML or Vega-Lite specification."""

from __future__ import annotations

import click

from .console import echo_err, quiet_option
from .options import complete_run, open_store, store_option


def _complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..report.stored_plots import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command(name="plot")
@click.argument("kind", required=False, shell_complete=_complete_kind)
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Metric to plot; repeatable.")
@click.option("--title", help="Title of the chart.")
@click.option("--theme", type=click.Choice(["light", "dark"]), default="light", show_default=True)
@click.option("--width", type=click.FloatRange(100, 10_000), help="Width of the image in pixels.")
@store_option
@quiet_option
@click.option(
    "-o", "--output", type=click.Path(), help="File to write: .svg, .png, .html, or .json for the specification."
)
def command(
    kind: str | None,
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    title: str | None,
    theme: str,
    width: float | None,
    store: str | None,
    output: str | None,
) -> None:
    """Plot stored RUNS (default: the latest). Without KIND, list the kinds.

    Without -o, write KIND.svg. PNG needs the extra `report`: pip install 'auepora-eval[report]'.

    \b
    auepora plot
    auepora plot scores latest -o scores.svg
    auepora plot distribution baseline latest -m token_f1 -o spread.png --theme dark
    auepora plot forest baseline latest -o differences.json
    """
    if kind is None:
        click.echo(_kinds())
        return
    from ..render.charts.chart import chart_format
    from ..render.charts.layout import require_theme
    from ..report.stored_plots import plot_runs

    target = output or f"{kind}.svg"
    chart_format(target)
    with open_store(store, output=target) as found:
        chart = plot_runs(kind, runs or ("latest",), store=found, metrics=metrics)
    if title:
        chart = chart.with_title(title)
    chart.save(target, width=width, theme=require_theme(theme))
    echo_err(f"wrote {target}")


def _kinds() -> str:
    from ..render.tables import table
    from ..report.stored_plots import KINDS

    rows = [[name, kind.runs, kind.metrics, kind.summary] for name, kind in KINDS.items()]
    return table(rows, headers=["kind", "of", "-m", "shows"])
