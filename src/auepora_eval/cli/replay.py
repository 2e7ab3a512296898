"""``auepora replay``: split a difference between two runs into retrieval and generation."""

from __future__ import annotations

import json
import sys

import click

from .console import echo_err, quiet_option
from .judge_options import INTERRUPTED, STOPPED_EARLY, RunProgress
from .options import complete_run, store_option


@click.command(name="replay")
@click.argument("run_a", metavar="A", shell_complete=complete_run)
@click.argument("run_b", metavar="B", shell_complete=complete_run)
@click.argument("plan", type=click.Path())
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Metric to use instead of those of run B; repeatable.",
)
@click.option("--fresh", is_flag=True, help="Call the generator again even if its answers are stored.")
@click.option("--retry-failed", is_flag=True, help="Retry failed calls.")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@quiet_option
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else the table).")
def command(
    run_a: str,
    run_b: str,
    plan: str,
    metrics: tuple[str, ...],
    fresh: bool,
    retry_failed: bool,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Split the difference between runs A and B into a retrieval part and a generation part.

    The generator of run B, built by PLAN, answers from the documents of run A. The answers are stored as a new run.
    B - A is exactly the sum of the two parts. The system must have a separate retriever and generator.

    \b
    auepora replay baseline latest plan.yaml
    auepora replay latest~1 latest plan.yaml -m token_f1 --json
    """
    from ..errors import BadValueError
    from ..plan.prepare import prepare, read_plan
    from ..runs.replay import swap_replay
    from ..runs.run import closing_system
    from ..runtime.secrets import Secrets
    from ..store.connect import default_store
    from ..store.runs import RunStore
    from ..systems.calls import Stop
    from .console import stdout_to_stderr, stop_on_signals
    from .options import output_format, parse_specs, refuse_input_as_output, write_out

    form = "json" if as_json else output_format(output)
    refuse_input_as_output(output, [plan])
    stop = Stop()
    with RunProgress() as progress, stdout_to_stderr(), stop_on_signals(stop):
        read = read_plan(plan)
        if read.system is None:
            raise BadValueError(f"{plan} has saved outputs and no system; name the plan that run B was made by")
        where = default_store(store, read.store)
        refuse_input_as_output(output, [where])
        system = prepare(read).system
        secrets = Secrets(read.secrets)
        with (
            secrets.redact_errors(),
            closing_system(system, secrets),
            RunStore.open(where, secrets=read.secrets, create=False) as found,
        ):
            report = swap_replay(
                system,
                found,
                found.find(run_a),
                found.find(run_b),
                parse_specs(metrics),
                planned=read.resolved["system"],
                policy=read.policy,
                fresh=fresh,
                retry_failed=retry_failed,
                stop=stop,
                watcher=progress.callbacks(),
            )
    if report.outcome.ended != "finished":
        echo_err(f"Stopped: {report.outcome.message}; the same command resumes it", always=True)
        sys.exit(INTERRUPTED if report.outcome.ended == "stopped" else STOPPED_EARLY)
    if form == "json":
        write_out(json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), output)
    else:
        from ..render.terminal import blocks_text

        write_out(report.to_markdown() if form == "markdown" else blocks_text(report.blocks), output)
