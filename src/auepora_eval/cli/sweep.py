"""``auepora sweep``: run the configurations of a plan, and say which of them to ship."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..plan.sweep import SweepOptions
from ..render.terminal import blocks_text, progress
from .console import echo_err, quiet_option, stdout_to_stderr, stop_on_signals
from .help_pages import Command
from .judge_options import INTERRUPTED, STOPPED_EARLY, JudgingOptions, judging_options
from .judge_usage import preview_text
from .options import (
    grouped_options,
    open_store,
    output_format,
    refuse_input_as_output,
    render_document,
    samples_option,
    store_option,
    write_out,
)
from .run import resume_command

if TYPE_CHECKING:
    from ..store.records import StoredOutput


sweep_options = grouped_options(
    "options",
    SweepOptions,
    {
        "name": click.option("--name", help="Name of the sweep; default: the name of the plan."),
        "store": store_option,
        "limit": click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N samples."),
        "samples": samples_option,
        "tags": click.option("--tag", "tags", multiple=True, help="Tag the runs; repeatable."),
        "resume": click.option(
            "--resume", is_flag=True, help="Resume the sweep of this name; prints the answer if all is done."
        ),
        "retry_failed": click.option(
            "--retry-failed", is_flag=True, help="With --resume: retry failed configurations and samples."
        ),
        "parallel": click.option(
            "--parallel",
            type=click.IntRange(min=1, max=32),
            default=1,
            show_default=True,
            metavar="N",
            help="Run this many configurations at a time; each makes as many calls at a time as the plan says.",
        ),
        "eliminate": click.option(
            "--eliminate",
            is_flag=True,
            help="Ask tenths of the questions, and let a configuration leave as soon as it is worse than another one.",
        ),
    },
)
"""How a sweep is run, passed to the command as one argument, ``options``."""


@click.command(name="sweep", cls=Command)
@click.argument("plan", type=click.Path())
@click.argument("sweep_name", metavar="[NAME]", required=False)
@sweep_options
@click.option("--all", "is_whole", is_flag=True, help="Show all configurations, and the effect of each parameter.")
@judging_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@quiet_option
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.html, .json, .md, else the table).")
def command(
    plan: str,
    sweep_name: str | None,
    options: SweepOptions,
    is_whole: bool,
    judging: JudgingOptions,
    as_json: bool,
    output: str | None,
) -> None:
    """Run the configurations of a PLAN on the same questions, and say which of them to ship.

    The section 'sweep' of the plan names the values to combine. All configurations are checked before anything is
    spent; each is a stored run. The answer names the configurations that cannot be distinguished from the best, those
    that are better or worse than the baseline, and the cheapest that is not worse than the best by 'delta'. The exit
    code is 3 if the sweep is not complete, or if no configuration finished.

    'auepora sweep show NAME' shows the answer of a stored sweep.

    \b
    auepora sweep plan.yaml --preview
    auepora sweep plan.yaml --parallel 4
    auepora sweep plan.yaml --resume
    auepora sweep plan.yaml --eliminate
    auepora sweep show my-sweep --all
    """
    form = output_format(
        output, as_json=as_json, no_csv="a sweep cannot be written as CSV; write .json, .md or a table"
    )
    if (sweep_name is not None) != (plan == "show"):
        raise click.UsageError("write auepora sweep PLAN, or auepora sweep show NAME")
    if sweep_name is not None:
        show(sweep_name, options.store, form, output, is_whole=is_whole)
        return
    if options.retry_failed and not options.resume:
        raise click.UsageError("--retry-failed goes with --resume")
    from ..plan.source import read_source
    from ..runs.run import RunCallbacks
    from ..sweep.run import SweepRunner, prepare_sweep
    from ..systems.calls import Stop

    source = read_source(Path(plan)).with_settings(judging.settings)
    prepared = prepare_sweep(source, options, judging.limits())
    refuse_input_as_output(output, [plan, prepared.where])
    if judging.preview:
        from ..runs.preview import preview_plan

        found, notes = preview_plan(
            prepared.plans[0],
            store=options.store,
            limit=options.limit,
            sample_set=prepared.sample_set,
            requests=prepared.requests,
        )
        what = f"{len(prepared.plans)} configurations on {len(prepared.samples):,} questions"
        notes = [f"{what}: {prepared.calls:,} calls to the system; the judge calls are those of one", *notes]
        write_out(preview_text(found, as_json=form == "json", notes=notes, first=1), output)
        return
    stop = Stop()
    words = ["--resume", "--eliminate"] if options.eliminate else ["--resume"]
    with progress("asking", prepared.calls or None, rate=True) as advance, stdout_to_stderr(), stop_on_signals(stop):

        def answered(rows: Sequence[StoredOutput]) -> None:
            advance(len(rows))

        runner = SweepRunner(prepared, options, stop=stop, watcher=RunCallbacks(answered=answered), announce=echo_err)
        stopped = runner.run()
    if stopped:
        echo_err(f"Stopped: {stopped}", always=True)
        echo_err(f"To resume: {resume_command('sweep', words)}", always=True)
    if stopped and not runner.records:  # there is nothing to show
        sys.exit(STOPPED_EARLY)
    is_answered = show(prepared.sweep.name, prepared.where, form, output, is_whole=is_whole)
    if stop.finishing and not runner.meter.problem:
        sys.exit(INTERRUPTED)
    if not is_answered:
        sys.exit(STOPPED_EARLY)


def show(name: str, store: str | None, form: str, output: str | None, *, is_whole: bool) -> bool:
    """Print the answer of a stored sweep; returns whether it has a conclusion."""
    from ..render.markdown import blocks_markdown
    from ..store.sweeps import find_sweep
    from ..sweep.answer import answer_sweep
    from ..sweep.rendering import answer_blocks, answer_document, write_sweep_report

    with open_store(store, output=output) as opened:
        answer = answer_sweep(opened, find_sweep(opened, name))
        if output is not None and output.lower().endswith((".html", ".htm")):
            write_sweep_report(opened, answer, output)
            echo_err(f"wrote {output}")
            output = None
    blocks = answer_blocks(answer, is_whole=is_whole)
    document = answer_document(answer)
    write_out(render_document(form, document, markdown=blocks_markdown(blocks), text=blocks_text(blocks)), output)
    return bool(answer.kept)
