"""``auepora run``: a plan carried out, or one that was interrupted taken up again."""

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
@click.option("--name", help="What to call the run; by default the plan's name.")
@click.option("--tag", "tags", multiple=True, help="Tag the run; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N samples: a quick try.")
@click.option("--resume", is_flag=True, help="Go on with the latest run of this plan that did not end.")
@click.option("--retry-failed", is_flag=True, help="With --resume: ask again what failed.")
@click.option("--run", "run_name", metavar="RUN", help="With --resume: go on with this run.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="SPEC", help="Instead of the plan's metrics; repeatable."
)
@click.option("--conventions", type=click.Choice(PRESETS), help="Instead of the plan's conventions.")
@click.option("--concurrency", type=click.IntRange(min=1), help="How many calls may be in flight.")
@click.option("--keep-going", is_flag=True, help="Do not stop after 20 connection errors in a row.")
@executor_options
@perturb_options
@click.option("--against", metavar="RUN", help="The run that the plan's gates compare with.")
@click.option("--no-gates", is_flag=True, help="Do not check the plan's gates.")
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
    """Carry out a PLAN: ask the system, store what it answers, score it, store the numbers.

    The plan is checked in full before the system is called once. Answers are stored as they arrive, so that --resume
    goes on after a crash or Ctrl-C with what is missing. A sample on which the system fails is a recorded outcome.
    Gates of the plan are checked at the end. Exits with 0 when every sample has an outcome and every gate passed, 1
    when a gate failed, 3 when the run stopped early, when more than half of the samples are system failures, when a
    judge metric has no scored sample or when a gate cannot be told, 130 after Ctrl-C.

    With --perturb the system runs once for each rate, and what it retrieves is made worse on purpose: a curve tells
    what that does to every metric. Gates are not checked then.

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
            raise click.UsageError("--preview tells of one run: leave out --perturb")
        found, remarks = preview_plan(plan, store=store, changes=changes, limit=limit, resume=resume, run=run_name)
        write_out(preview_text(found, as_json=form == "json", remarks=remarks), output)
        return
    if perturb or perturb_corpus is not None:
        from .run_perturbed import run_sweep

        refuse_inputs_as_reports(plan_files(plan, {**changes, "gates": None}, store), junit=None, output=output)
        run_sweep(plan, perturb, perturb_corpus, changes, form, output)
        return
    if junit is not None:
        _require_gates(plan, changes)
    refuse_inputs_as_reports(plan_files(plan, changes, store), junit=junit, output=output)
    stop, teller = Stop(), RunProgress()
    try:
        with teller, stdout_to_stderr(), stop_on_signals(stop):
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
                watcher=teller.callbacks(),
            )
    except KeyboardInterrupt:
        if teller.run_id is not None:
            echo_err(f"To go on: {_resume_command(teller.run_id)}", always=True)
        raise
    if outcome.gates is not None:  # before anything is printed: its reader may have left
        publish(outcome.gates, outcome.record, junit=junit)
    if outcome.results is not None:
        show_warnings(outcome.results)
        said = f"conventions: {conventions_label(outcome.record)}"
        write_out(_document(outcome, form, said, per_query=per_query), output)
    if outcome.gates is not None and form in ("csv", "json"):
        _echo_gates(outcome.gates, always=form == "csv")  # JSON holds them itself
    _finish(outcome)


def _document(outcome: RunOutcome, form: str, said: str, *, per_query: bool) -> str:
    """The results and, except in CSV, how the gates went."""
    from .output import render_results

    results, report = outcome.results, outcome.gates
    assert results is not None
    if report is None or form == "csv":
        return render_results(results, form, said, per_query=per_query)
    if form == "json":
        document = {**results.to_dict(per_query=per_query), "gates": report.to_dict()}
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    from ..gates.rendering import gates_markdown, gates_table

    told = gates_markdown(report) if form == "markdown" else gates_table(report)
    return "\n\n".join([render_results(results, form, said), told])


def _echo_gates(report: GateReport, *, always: bool) -> None:
    from ..gates.rendering import gates_table

    echo_err(gates_table(report), always=always)


def _require_gates(plan: str, changes: dict[str, Any]) -> None:
    """Refuse to write a report of gates for a plan that has none: no test case at all looks like success."""
    from ..planfile.read import read_plan

    if not read_plan(plan, changes=changes).gates:
        raise click.UsageError(f"--junit writes how gates went, and {plan} has none; write them under 'gates:'")


def _resume_command(run_id: str) -> str:
    """The command line that was given, made into one that goes on with this run."""
    again, note = resume_options()
    plan = str(click.get_current_context().params["plan"])
    return note + shlex.join(["auepora", "run", plan, "--resume", "--run", run_id, *again])


def _store_argument(store: object) -> str:
    """The option that names the store, where it is not the usual one and holds no password."""
    from ..core.secrets import url_secrets

    if store in (None, DEFAULT_STORE) or url_secrets(str(store)):
        return ""
    return f" --store {shlex.quote(str(store))}"


def _finish(outcome: RunOutcome) -> None:
    """Say what is worth knowing at the end, and exit with what the outcome means."""
    record, resume = outcome.record, _resume_command(outcome.record.run_id)
    if outcome.ended == "finished":
        if outcome.failed:
            again = f"; {resume} --retry-failed asks them again" if "system" in record.plan else ""
            echo_err(f"Warning: {outcome.failed} of {outcome.asked} answers failed{again}")
        if outcome.report is not None:
            echo_err(f"wrote {outcome.report}")
        elsewhere = _store_argument(outcome.store)
        echo_err(f"stored as {record.run_id} ({record.name}); auepora show {record.run_id}{elsewhere}")
        if any(one.details.get("judging", {}).get("failed") for one in outcome.results or ()):
            echo_err(
                f"auepora show {record.run_id} --failures{elsewhere} tells why there are answers that were not judged"
            )
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
    if outcome.unreachable:  # what failed for that reason is asked again
        resume += " --retry-failed"
    echo_err(f"{outcome.asked} answers are stored. To go on: {resume}", always=True)
    if outcome.unreachable:
        echo_err("With --keep-going (or 'keep_going: true' under 'run:') a run does not stop for that.", always=True)
    sys.exit(INTERRUPTED if outcome.ended == "stopped" else STOPPED_EARLY)
