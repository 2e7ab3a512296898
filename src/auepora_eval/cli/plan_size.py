"""``auepora plan-size``: the questions, repeats, labels and judge calls that a comparison needs, from a pilot run."""

from __future__ import annotations

import click

from ..store.connect import default_store
from .console import quiet_option
from .help_pages import Command
from .options import complete_run, output_format, refuse_input_as_output, render_document, store_option, write_out


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
    from ..runs.pilot import plan_size

    form = output_format(output, as_json=as_json, no_csv="sizes cannot be written as CSV; write .json, .md or text")
    if metrics and not runs:
        raise click.UsageError("-m names a metric of a pilot: give a run")
    refuse_input_as_output(output, [default_store(store)])
    size = plan_size(
        delta,
        runs,
        metrics=metrics,
        store=default_store(store),
        power=power,
        alpha=alpha,
        questions=questions,
        question_cost=question_cost,
        correlation=correlation,
    )
    write_out(render_document(form, size.to_dict(), markdown=size.to_markdown(), text=size.to_text()), output)
