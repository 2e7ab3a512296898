"""``auepora plan-size``: the questions, repeats, labels and judge calls that a comparison needs, from a pilot run."""

from __future__ import annotations

from dataclasses import asdict

import click

from .console import quiet_option
from .help_pages import Command
from .options import complete_run, open_store, output_format, render_document, store_option, write_out


@click.command(name="plan-size", cls=Command)
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option(
    "--delta", type=click.FloatRange(min=0, min_open=True), required=True, help="Smallest difference that matters."
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="Probability to detect it.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Significance level, two-sided.",
)
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Metric of the pilot; repeatable.")
@click.option("--questions", type=click.IntRange(min=2), help="Questions at hand: how many repeats would they need?")
@click.option(
    "--question-cost",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Cost of one more question, in the currency of the judge's prices.",
)
@click.option(
    "--correlation",
    type=click.FloatRange(-1, 1, max_open=True),
    default=0.5,
    show_default=True,
    help="Of the scores of two systems, where the pilot is one run.",
)
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def command(
    runs: tuple[str, ...],
    delta: float,
    power: float,
    alpha: float,
    metrics: tuple[str, ...],
    questions: int | None,
    question_cost: float,
    correlation: float,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Compute how many questions, repeats, labels and judge calls detect a difference of --delta.

    RUNS are a pilot: two runs on the same questions show how far their scores differ from question to question. One run
    shows the spread of its own scores; --correlation is then an assumption. Without a run, 0/1 scores are assumed. A
    run with repeats shows whether more questions or more repeats help.

    \b
    auepora plan-size --delta 0.05
    auepora plan-size --delta 0.05 --power 0.9 baseline latest
    auepora plan-size --delta 0.03 latest -m llm_correctness --questions 200
    """
    from ..render.markdown import blocks_markdown
    from ..render.terminal import blocks_text
    from ..runs.pilot import SizeRequest, assumed_pilot, metric_size, read_pilot, size_blocks

    no_csv = "sizes cannot be written as CSV; write .json, .md or text"
    form = output_format(output, as_json=as_json, no_csv=no_csv)
    if len(runs) > 2:
        raise click.UsageError("a pilot is one run or two runs")
    if metrics and not runs:
        raise click.UsageError("-m names a metric of a pilot: give a run")
    request = SizeRequest(delta, power, alpha, questions, question_cost, correlation)
    names: list[str] = []
    shown = "without a pilot"
    if runs:
        with open_store(store, output=output) as found:
            records = [found.find(run) for run in runs]
            pilot = list(read_pilot(found, records, request, metrics))
        names = [record.name for record in records]
        shown = f"from the pilot {' and '.join(names)}, {records[-1].num_samples:,} questions"
    else:
        pilot = list(assumed_pilot(request))
    sizes = [metric_size(one, request, labels=bool(metrics) or place == 0) for place, one in enumerate(pilot)]
    document = {**asdict(request), "runs": names, "metrics": [asdict(size) for size in sizes]}
    blocks = size_blocks(sizes, request, shown, details=bool(metrics) or not runs)
    text = render_document(form, document, markdown=blocks_markdown(blocks), text=blocks_text(blocks))
    write_out(text, output)
