"""``auepora judge try``: judge a few samples of a plan, and show prompts, replies, scores and cost."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from .console import quiet_option
from .judge_options import STOPPED_EARLY, JudgingOptions, ScoringProgress, limit_options, usage_text
from .options import complete_run, store_option

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command(name="try")
@click.argument("plan", type=click.Path())
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Judge metric; repeatable; default: all of the plan.",
)
@click.option("-n", "--samples", type=click.IntRange(min=1), default=10, show_default=True, help="Number of samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draw of samples.")
@click.option(
    "--run", metavar="RUN", shell_complete=complete_run, help="Use the outputs of this stored run; no system is called."
)
@limit_options
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def command(
    plan: str,
    metrics: tuple[str, ...],
    samples: int,
    seed: int,
    run: str | None,
    judging: JudgingOptions,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Judge a few samples of the PLAN by its judge metrics, before a full run.

    Shows the rendered prompts, the raw replies, the scores and the cost. Samples are drawn at random. Judges the saved
    outputs of the plan, or with --run those of a stored run; otherwise calls the system of the plan for the drawn
    samples. No run is stored. Judgements are kept in the cache of the plan: the run does not pay for them again.

    The exit code is 3 if no judgement can be used.

    \b
    auepora judge try plan.yaml -m cites_policy
    auepora judge try plan.yaml -m cites_policy -n 3 --max-cost 0.10
    auepora judge try plan.yaml -m tone --run latest --json -o trial.json
    """
    from ..render.markdown import report_markdown
    from ..render.terminal import report_text
    from ..runs.trial import try_metrics
    from .options import output_format, refuse_input_as_output, write_out

    form = "json" if as_json else output_format(output)
    if form == "csv":
        raise click.UsageError("a trial cannot be written as CSV; write .json, .md or text")
    refuse_input_as_output(output, [plan])
    with ScoringProgress() as line:
        callbacks: list[Callable[[int, int, int], None]] = []

        def on_progress(done: int, requested: int, failed: int) -> None:
            if not callbacks:
                callbacks.append(line.start_judging())
            callbacks[0](done, requested, failed)

        trial = try_metrics(
            plan,
            metrics,
            count=samples,
            seed=seed,
            run=run,
            store=store,
            changes=judging.changes(),
            progress=on_progress,
        )
    if form == "json":
        write_out(json.dumps(trial.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), output)
    else:
        page = trial.report(f"Judging: {usage_text(trial.usage)}.")
        write_out(report_markdown(page).rstrip("\n") if form == "markdown" else report_text(page), output)
    if trial.requests and all(one.error is not None for one in trial.requests):
        sys.exit(STOPPED_EARLY)
