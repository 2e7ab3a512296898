"""``auepora run``: run a plan, or resume an interrupted run."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err, quiet_option
from .data_warnings import show_warnings
from .executors import ExecutorChoice, executor_options
from .gate_output import junit_option, plan_files, publish, refuse_inputs_as_reports
from .judge_options import JudgingOptions, judging_options, preview_text
from .perturbed_options import perturb_options
from .run_progress import INTERRUPTED, STOPPED_EARLY, RunProgress, resume_options, run_failure
from .score import PRESETS
from .stores import conventions_label, store_option

if TYPE_CHECKING:
    from ..gates.report import GateReport
    from ..running.run import RunOutcome

__all__ = ["command"]

DEFAULT_STORE = "runs.sqlite"


@click.command(name="run")
@click.argument("plan", type=click.Path())
@click.option("--name", help="Name of the run; default: the name of the plan.")
@click.option("--tag", "tags", multiple=True, help="Tag the run; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Run only the first N samples.")
@click.option("--resume", is_flag=True, help="Resume the latest unfinished run of this plan.")
@click.option("--retry-failed", is_flag=True, help="With --resume: retry failed samples.")
@click.option("--run", "run_name", metavar="RUN", help="With --resume: resume this run.")
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Metric to use instead of those of the plan; repeatable.",
)
@click.option("--conventions", type=click.Choice(PRESETS), help="Conventions to use instead of those of the plan.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent calls.")
@click.option("--keep-going", is_flag=True, help="Do not stop after 20 connection errors in a row.")
@executor_options
@perturb_options
@click.option("--against", metavar="RUN", help="Baseline run of the gates of the plan.")
@click.option("--no-gates", is_flag=True, help="Do not check the gates of the plan.")
@junit_option
@judging_options
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--per-query", is_flag=True, help="With --json: the score of every sample too; with .csv: those alone.")
@quiet_option
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .csv, .md, else the table).")
def command(
    plan: str,
    name: str | None,
    tags: tuple[str, ...],
    limit: int | None,
    resume: bool,
    retry_failed: bool,
    run_name: str | None,
    metrics: tuple[str, ...],
    conventions: str | None,
    concurrency: int | None,
    keep_going: bool,
    executor: ExecutorChoice,
    perturb: tuple[str, ...],
    perturb_corpus: str | None,
    against: str | None,
    no_gates: bool,
    junit: str | None,
    judging: JudgingOptions,
    store: str | None,
    as_json: bool,
    per_query: bool,
    output: str | None,
) -> None:
    """Run a PLAN: call the system, store its outputs, score them and store the results.

    The whole plan is checked before the system is called. Outputs are stored as they arrive, so that --resume continues
    after a crash or Ctrl-C. A sample on which the system fails is stored as a failure. The gates of the plan are
    checked at the end. The exit code is 0 if every sample has an outcome and every gate passed; 1 if a gate failed; 3
    if the run stopped early, if more than half of the samples are system failures, if a judge metric has no scored
    sample or if a gate is inconclusive; 130 after Ctrl-C.

    With --perturb the system runs once per rate with perturbed retrieved documents, and a curve shows the effect on
    every metric. Gates are not checked then.

    \b
    auepora run plan.yaml
    auepora run plan.yaml --limit 20
    auepora run plan.yaml --resume --retry-failed
    auepora run plan.yaml --tag nightly --json -o results.json
    auepora run plan.yaml --against main --junit gates.xml
    auepora run plan.yaml --preview
    auepora run plan.yaml --perturb noise=0,0.2,0.4,0.6,0.8
    """
    from ..calling.stop import Stop
    from ..running.plans import run_plan
    from .interrupts import stdout_to_stderr, stop_on_signals
    from .output import output_format, require_per_query, write_out
    from .specs import parse_specs

    if (retry_failed or run_name is not None) and not resume:
        raise click.UsageError("--retry-failed and --run go with --resume")
    form = "json" if as_json else output_format(output)
    require_per_query(per_query, form)
    if no_gates and (against is not None or junit is not None):
        raise click.UsageError("--against and --junit go with gates; leave out --no-gates")
    changes: dict[str, Any] = {
        "name": name,
        "metrics": parse_specs(metrics) or None,
        "conventions": conventions,
        "run.concurrency": concurrency,
        "run.keep_going": keep_going or None,
        **executor.changes(),
    }
    changes = {key: value for key, value in changes.items() if value is not None} | (
        {"gates": None} if no_gates else {}
    )
    changes |= judging.changes()
    if judging.preview:
        from ..running.previews import preview_plan

        if perturb:
            raise click.UsageError("--preview estimates one run: leave out --perturb")
        found, notes = preview_plan(plan, store=store, changes=changes, limit=limit, resume=resume, run=run_name)
        write_out(preview_text(found, as_json=form == "json", notes=notes), output)
        return
    if perturb or perturb_corpus is not None:
        from .run_perturbed import run_sweep

        refuse_inputs_as_reports(plan_files(plan, {**changes, "gates": None}, store), junit=None, output=output)
        run_sweep(plan, perturb, perturb_corpus, changes, form, output)
        return
    if junit is not None:
        _require_gates(plan, changes)
    refuse_inputs_as_reports(plan_files(plan, changes, store), junit=junit, output=output)
    stop, progress = Stop(), RunProgress()
    try:
        with progress, stdout_to_stderr(), stop_on_signals(stop):
            outcome = run_plan(
                plan,
                store=store,
                changes=changes,
                limit=limit,
                tags=tags,
                resume=resume,
                run=run_name,
                retry_failed=retry_failed,
                against=against,
                stop=stop,
                watcher=progress.callbacks(),
            )
    except KeyboardInterrupt:
        if progress.run_id is not None:
            echo_err(f"To resume: {_run_resume_command(progress.run_id)}", always=True)
        raise
    if outcome.gates is not None:  # before printing: the reader of stdout may have closed the pipe
        publish(outcome.gates, outcome.record, junit=junit)
    if outcome.results is not None:
        show_warnings(outcome.results)
        footer = f"conventions: {conventions_label(outcome.record)}"
        write_out(_results_document(outcome, form, footer, per_query=per_query), output)
    if outcome.gates is not None and form in ("csv", "json"):
        _echo_gates(outcome.gates, always=form == "csv")  # JSON contains them
    _finish_run(outcome)


def _results_document(outcome: RunOutcome, form: str, footer: str, *, per_query: bool) -> str:
    """The results and, except in CSV, the outcome of the gates."""
    from .output import render_results

    results, report = outcome.results, outcome.gates
    assert results is not None
    if report is None or form == "csv":
        return render_results(results, form, footer, per_query=per_query)
    if form == "json":
        document = {**results.to_dict(per_query=per_query), "gates": report.to_dict()}
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    from ..gates.rendering import gates_markdown, gates_table

    gates = gates_markdown(report) if form == "markdown" else gates_table(report)
    return "\n\n".join([render_results(results, form, footer), gates])


def _echo_gates(report: GateReport, *, always: bool) -> None:
    from ..gates.rendering import gates_table

    echo_err(gates_table(report), always=always)


def _require_gates(plan: str, changes: dict[str, Any]) -> None:
    """Raise if the plan has no gates: a JUnit file without test cases would look like success."""
    from ..planfile.read import read_plan

    if not read_plan(plan, changes=changes).gates:
        raise click.UsageError(f"--junit writes the outcome of gates, and {plan} has none; write them under 'gates:'")


def _run_resume_command(run_id: str) -> str:
    """The command that resumes this run."""
    again, note = resume_options()
    plan = str(click.get_current_context().params["plan"])
    return note + shlex.join(["auepora", "run", plan, "--resume", "--run", run_id, *again])


def _store_argument(store: object) -> str:
    """The option that names the store, unless it is the default or contains a password."""
    from ..core.secrets import url_secrets

    if store in (None, DEFAULT_STORE) or url_secrets(str(store)):
        return ""
    return f" --store {shlex.quote(str(store))}"


def _finish_run(outcome: RunOutcome) -> None:
    """Print the outcome and exit with its code."""
    record, resume = outcome.record, _run_resume_command(outcome.record.run_id)
    if outcome.ended == "finished":
        if outcome.failed:
            again = f"; {resume} --retry-failed retries them" if "system" in record.plan else ""
            echo_err(f"Warning: {outcome.failed} of {outcome.asked} answers failed{again}")
        if outcome.report is not None:
            echo_err(f"wrote {outcome.report}")
        elsewhere = _store_argument(outcome.store)
        echo_err(f"stored as {record.run_id} ({record.name}); auepora show {record.run_id}{elsewhere}")
        if any(one.details.get("judging", {}).get("failed") for one in outcome.results or ()):
            echo_err(f"auepora show {record.run_id} --failures{elsewhere} shows why answers were not judged")
        problem = None if outcome.results is None else run_failure(outcome.results)
        if problem is not None:
            echo_err(f"Error: {problem}", always=True)
            sys.exit(STOPPED_EARLY)
        if outcome.gates is not None and outcome.gates.exit_code:
            sys.exit(outcome.gates.exit_code)
        return
    echo_err(
        f"{'Stopped' if outcome.ended == 'stopped' else 'Error'}: {outcome.message or record.message}", always=True
    )
    if outcome.unreachable:  # retry the samples that failed for that reason
        resume += " --retry-failed"
    echo_err(f"{outcome.asked} answers are stored. To resume: {resume}", always=True)
    if outcome.unreachable:
        echo_err(
            "With --keep-going (or 'keep_going: true' under 'run:') a run does not stop for this reason.", always=True
        )
    sys.exit(INTERRUPTED if outcome.ended == "stopped" else STOPPED_EARLY)
