"""``auepora report``, ``plot`` and ``export``: stored runs written as pages, charts and plain files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..render.tables import results_csv, save_parquet, scores_csv, table
from ..render.terminal import progress
from ..runtime.files import write_lines
from ..store.records import RunRecord
from ..store.runs import RunStore
from .console import echo, echo_err, quiet_option
from .help_pages import Command
from .judgements import judgement_lines
from .options import complete_run, open_store, raw_csv, raw_option, store_option
from .runs import run_dict

# --- auepora report --------------------------------------------------------------------------------------------------


@click.command(name="report", cls=Command)
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
def report_command(
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
    from ..report.pages import write_report

    with open_store(store, output=output) as found, progress("building the report"):
        path = write_report(
            runs or ("latest",), output, store=found, baseline=baseline, title=title, all_queries=all_queries
        )
    echo_err(f"wrote {path}")
    if show:
        click.launch(Path(path).absolute().as_uri())


# --- auepora plot ----------------------------------------------------------------------------------------------------


def _complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..report.stored_plots import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


@click.command(name="plot", cls=Command)
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
def plot_command(
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
    from ..report.stored_plots import KINDS

    rows = [[name, kind.runs, kind.metrics, kind.summary] for name, kind in KINDS.items()]
    return table(rows, headers=["kind", "of", "-m", "shows"])


# --- auepora export --------------------------------------------------------------------------------------------------

JUDGEMENTS = "judgements.jsonl"


@click.command(name="export", cls=Command)
@click.argument("run", shell_complete=complete_run)
@click.argument("folder", type=click.Path(), required=False)
@click.option("-o", "--output", type=click.Path(), metavar="DIR", help="The folder, as FOLDER.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.option("--parquet", is_flag=True, help="Also write results.parquet and scores.parquet; needs pyarrow.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print the names of the files as JSON.")
@raw_option
def export_command(
    run: str, folder: str | None, output: str | None, force: bool, parquet: bool, store: str | None, as_json: bool
) -> None:
    """Write the stored RUN as plain files into FOLDER (default: a folder with the id of the run).

    dataset.jsonl and outputs.jsonl can be scored with `auepora score`. results.json has all values and scores,
    results.csv one row per metric and slice, scores.csv one row per sample, run.json the metadata of the run. Each
    repeat has its own outputs file. judgements.jsonl has the judgements, if there are any; a plan replays it as a
    resource: {recorded: judgements.jsonl}. With --parquet, both tables are also written as Parquet; scores.parquet has
    the outcome of each sample.

    \b
    auepora export latest
    auepora export nightly -o exported --force
    """
    if folder is not None and output is not None:
        raise click.UsageError("FOLDER and -o are the same; give one of them")
    with open_store(store) as found:
        record = found.find(run)
        target = Path(folder or output or record.run_id)
        names = ["dataset.jsonl", *_output_names(record), "results.json", "results.csv", "scores.csv", "run.json"]
        names += ["results.parquet", "scores.parquet"] if parquet else []
        if any(found.judgement_counts(record.run_id)):
            names.append(JUDGEMENTS)
        there = [name for name in names if (target / name).exists()]
        if there and not force:
            raise click.UsageError(f"{target / there[0]} exists; --force overwrites it")
        target.mkdir(parents=True, exist_ok=True)
        _write(found, record, target, parquet=parquet)
        if JUDGEMENTS in names:
            write_lines(target / JUDGEMENTS, judgement_lines(found, record))
    paths = [str(target / name) for name in names]
    echo(json.dumps(paths) if as_json else "\n".join(paths))


def _output_names(record: RunRecord) -> list[str]:
    return ["outputs.jsonl", *(f"outputs-{repeat}.jsonl" for repeat in range(1, record.repeats))]


def _write(store: RunStore, record: RunRecord, target: Path, *, parquet: bool) -> None:
    from ..io.jsonl import save_jsonl_dataset, save_jsonl_outputs

    with progress(f"writing {target}"):
        results = store.results(record.run_id)
        if parquet:  # first, because pyarrow may be missing
            save_parquet(results, target / "results.parquet")
            save_parquet(results, target / "scores.parquet", per_query=True)
        save_jsonl_dataset(store.samples(record.run_id), target / "dataset.jsonl")
        for repeat, name in enumerate(_output_names(record)):
            rows = ((row.sample_id, row.output) for row in store.outputs(record.run_id, repeat=repeat))
            save_jsonl_outputs(rows, target / name)
        texts = {
            "results.json": results.to_json(per_query=True),
            "results.csv": results_csv(results, raw=raw_csv()),
            "scores.csv": scores_csv(results, raw=raw_csv()),
            "run.json": json.dumps(run_dict(record, store.counts(record.run_id)), indent=2, ensure_ascii=False),
        }
        for name, text in texts.items():
            write_lines(target / name, [text.encode()])
