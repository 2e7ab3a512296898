"""``auepora run``: run a plan, resume an interrupted run, or run it at several perturbation rates."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..plan.source import PlanSource, read_source
from ..store.connect import DEFAULT_STORE, default_store
from .console import echo, echo_err, quiet_option, stdout_to_stderr, stop_on_signals
from .gate import gates_short, junit_option, plan_files, publish, refuse_inputs_as_reports
from .help_pages import Command
from .judge_options import (
    INTERRUPTED,
    STOPPED_EARLY,
    JudgingOptions,
    StopOptions,
    exit_with_errors,
    run_failure,
    scoring_judge_options,
    stop_options,
)
from .judge_usage import preview_text
from .options import (
    ExecutorChoice,
    all_option,
    executor_options,
    find_samples,
    is_short,
    match_option,
    output_format,
    parse_specs,
    raw_option,
    refuse_input_as_output,
    render_document,
    render_results,
    require_per_query,
    samples_option,
    show_warnings,
    store_option,
    target_option,
    write_out,
)
from .run_progress import RunProgress, resume_options
from .score import PRESETS

if TYPE_CHECKING:
    from ..core.results import Results
    from ..core.types import TargetCategory
    from ..runs.outcome import RunOutcome
    from ..runs.run import RunCallbacks
    from ..systems.calls import Stop

# --- ``--perturb``: run the system of a plan at each rate, and print the curve ---------------------------------------

_SINGLE_RUN_OPTIONS = {
    "run_name": "--run",
    "against": "--against",
    "junit": "--junit",
    "per_query": "--per-query",
    "until_decided": "--until-decided",
    "samples": "--samples",
}
"""Options that apply to a single run."""


def run_sweep(
    plan: PlanSource,
    perturb: tuple[str, ...],
    corpus: str | None,
    changes: Mapping[str, Any],
    *,
    form: str,
    output: str | None,
) -> None:
    """Run the plan at each rate, print the curve, and exit with its exit code."""
    from ..perturb.documents import Sweep
    from ..report.plots import curve_markdown, curve_text
    from ..runs.perturbed import run_perturbed

    params = click.get_current_context().params
    _refuse_single_run_options(params, perturb, form)
    sweep = Sweep.parse(perturb[0])
    payloads = params["perturb_payloads"]
    if payloads is not None and sweep.kind != "inject":
        raise click.UsageError(f"--perturb-payloads goes with inject, and {sweep} uses none: leave it out")
    if corpus is not None and "noise" not in sweep.perturbs:
        raise click.UsageError(f"--perturb-corpus goes with noise, and {sweep} uses none: leave it out")
    refuse_input_as_output(output, [corpus, payloads])
    given = {"--perturb-corpus": corpus, "--perturb-payloads": payloads}
    words = ["--perturb", str(sweep)]
    for option, value in given.items():
        words += [] if value is None else [option, value]
    resume = resume_command("run", [*words, "--resume"])
    with show_run_progress(lambda _: resume) as (stop, watcher):
        runs = run_perturbed(
            plan,
            sweep,
            corpus=corpus,
            payloads=payloads,
            store=params["store"],
            changes=changes,
            limit=params["limit"],
            tags=params["tags"],
            resume=params["resume"],
            retry_failed=params["retry_failed"],
            stop=stop,
            watcher=watcher,
        )
    if runs.curve is None:
        echo_early_end(runs.last, f"{runs.last.record.name}: ")
        echo_err(f"To resume: {resume}", always=True)
        sys.exit(INTERRUPTED if runs.last.ended == "stopped" else STOPPED_EARLY)
    curve = runs.curve
    write_out(render_document(form, curve.to_dict(), markdown=curve_markdown(curve), text=curve_text(curve)), output)
    together = "" if runs.together is None else f"; all arms together as {runs.together.record.run_id}"
    finish_runs({sweep.label(level): outcome for level, outcome in runs.outcomes.items()}, together)


@contextmanager
def show_run_progress(resume: Callable[[str], str] | None = None) -> Iterator[tuple[Stop, RunCallbacks]]:
    """Show the progress of runs, and stop on signals; an interruption names the command to ``resume`` a run."""
    from ..systems.calls import Stop

    stop, progress = Stop(), RunProgress()
    try:
        with progress, stdout_to_stderr(), stop_on_signals(stop):
            yield stop, progress.callbacks()
    except KeyboardInterrupt:
        if resume is not None and progress.run_id is not None:
            echo_err(f"To resume: {resume(progress.run_id)}", always=True)
        raise


def resume_command(command: str, words: list[str]) -> str:
    """The command that resumes a run or a sweep, with the options that were given."""
    again, note = resume_options()
    plan = str(click.get_current_context().params["plan"])
    return note + shlex.join(["auepora", command, plan, *words, *again])


def echo_early_end(outcome: RunOutcome, label: str = "") -> None:
    """Print why a run ended early, with the traceback of the user's code."""
    what = "Stopped" if outcome.ended == "stopped" else "Error"
    echo_err(f"{what}: {label}{outcome.message or outcome.record.message}", always=True)
    if outcome.traceback:
        echo_err(outcome.traceback, always=True)


def _refuse_single_run_options(params: Mapping[str, Any], perturb: tuple[str, ...], form: str) -> None:
    if not perturb:
        option = "--perturb-corpus" if params["perturb_corpus"] is not None else "--perturb-payloads"
        raise click.UsageError(f"{option} goes with --perturb")
    if len(perturb) > 1:
        raise click.UsageError("give --perturb once: one curve at a time")
    for name, option in _SINGLE_RUN_OPTIONS.items():
        if params[name]:
            raise click.UsageError(f"{option} applies to one run, and --perturb makes several")
    if form == "csv":
        raise click.UsageError("curves cannot be written as CSV; write .json, .md or a table")


def finish_runs(outcomes: Mapping[str, RunOutcome], note: str = "") -> None:
    """Print the failures of several runs, by label, and where they are stored; exit if one failed as a whole."""
    problems = []
    for label, outcome in outcomes.items():
        if outcome.failed:
            echo_err(f"Warning: {label}: {outcome.failed} of {outcome.asked} answers failed")
        problem = None if outcome.results is None else run_failure(outcome.results)
        if problem is not None:
            problems.append(f"{label}: {problem}")
    run_ids = ", ".join(outcome.record.run_id for outcome in outcomes.values())
    echo_err(f"stored as {run_ids}{note}")
    if problems:
        exit_with_errors(*problems)


# --- the command -----------------------------------------------------------------------------------------------------


@click.command(name="run", cls=Command)
@click.argument("plan", type=click.Path())
@click.option("--name", help="Name of the run; default: the name of the plan.")
@click.option("--tag", "tags", multiple=True, help="Tag the run; repeatable.")
@samples_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Run only the first N samples.")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the latest unfinished run of this plan; prints the results if all are finished.",
)
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
@target_option("computes all metrics that the data supports for it, instead of those of the plan")
@click.option(
    "--conventions",
    type=click.Choice(PRESETS),
    metavar="PRESET",
    help=f"Conventions to use instead of those of the plan; {', '.join(PRESETS)}.",
)
@match_option(None, "default: that of the plan, else auto")
@click.option("--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent calls.")
@click.option(
    "--keep-going",
    is_flag=True,
    help="Do not stop where the first 10 calls all fail in the same way, nor after 20 connection errors in a row.",
)
@executor_options
@click.option(
    "--perturb",
    multiple=True,
    metavar="KIND=RATES",
    help="Perturb documents, a run per rate, as in noise=0,0.2; noise, drop, counterfactual, "
    "empty, shuffle, duplicate, inject, or arms=none,original,edited.",
)
@click.option(
    "--perturb-corpus",
    type=click.Path(),
    metavar="FILE",
    help="With --perturb noise: draw noise documents from this corpus (JSONL).",
)
@click.option(
    "--perturb-payloads",
    type=click.Path(),
    metavar="FILE",
    help="With --perturb inject: adversarial documents (JSONL) to use instead of the built-in ones.",
)
@click.option("--against", metavar="RUN", help="Baseline run of the gates of the plan.")
@click.option("--no-gates", is_flag=True, help="Do not check the gates of the plan.")
@junit_option
@scoring_judge_options
@stop_options
@store_option
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--per-query", is_flag=True, help="With --json: the score of every sample too; with .csv: those alone.")
@quiet_option
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .csv, .md, else the table).")
@raw_option
def command(
    plan: str,
    name: str | None,
    tags: tuple[str, ...],
    samples: str | None,
    limit: int | None,
    resume: bool,
    retry_failed: bool,
    run_name: str | None,
    metrics: tuple[str, ...],
    targets: tuple[TargetCategory, ...],
    conventions: str | None,
    match: str | None,
    concurrency: int | None,
    keep_going: bool,
    executor: ExecutorChoice,
    perturb: tuple[str, ...],
    perturb_corpus: str | None,
    perturb_payloads: str | None,
    against: str | None,
    no_gates: bool,
    junit: str | None,
    judging: JudgingOptions,
    stop: StopOptions,
    store: str | None,
    every: bool,
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

    With --until-decided the judge is asked in a random order, and judging stops when the comparison with a run is
    decided; see docs/statistics/early-stopping.md.

    \b
    auepora run plan.yaml
    auepora run plan.yaml --limit 20
    auepora run plan.yaml --set run.top_k=3
    auepora run plan.yaml --samples refunds
    auepora run plan.yaml --target correctness --target latency
    auepora run plan.yaml --resume --retry-failed
    auepora run plan.yaml --tag nightly --json -o results.json
    auepora run plan.yaml --against main --junit gates.xml
    auepora run plan.yaml --preview
    auepora run plan.yaml --until-decided main --delta 0.05
    auepora run plan.yaml --perturb noise=0,0.2,0.4,0.6,0.8
    """
    from ..plan.prepare import read_plan
    from ..plan.sections import judging_note
    from ..runs.run import run_plan
    from ..store.records import conventions_label

    if (retry_failed or run_name is not None) and not resume:
        raise click.UsageError("--retry-failed and --run go with --resume")
    form = output_format(output, as_json=as_json)
    require_per_query(per_query, form)
    if no_gates and (against is not None or junit is not None):
        raise click.UsageError("--against and --junit go with gates; leave out --no-gates")
    changes: dict[str, Any] = {
        "name": name,
        "metrics": parse_specs(metrics) or None,
        "conventions": conventions,
        "gold.match": match,
        "run.concurrency": concurrency,
        "run.keep_going": keep_going or None,
        **executor.changes(),
    }
    changes = {key: value for key, value in changes.items() if value is not None} | (
        {"gates": None} if no_gates else {}
    )
    if metrics or targets:  # what the plan names of either is replaced
        changes |= {"metrics": changes.get("metrics"), "targets": [target.name.lower() for target in targets] or None}
    if judging.preview and perturb:
        raise click.UsageError("--preview estimates one run: leave out --perturb")
    changes |= judging.limits() | stop.changes()
    source = read_source(Path(plan)).with_settings(judging.settings)
    if perturb or perturb_corpus is not None or perturb_payloads is not None:
        unchecked = read_plan(source, changes={**changes, "gates": None})
        refuse_inputs_as_reports(plan_files(unchecked, store), junit=None, output=output)
        run_sweep(source, perturb, perturb_corpus, changes, form=form, output=output)
        return
    read = read_plan(source, changes=changes)
    if note := judging_note(read):
        echo_err(note)
    chosen = find_samples(samples, default_store(store, read.store))
    if judging.preview:
        from ..runs.preview import preview_plan

        found, notes = preview_plan(read, store=store, limit=limit, resume=resume, run=run_name, sample_set=chosen)
        write_out(preview_text(found, as_json=form == "json", notes=notes), output)
        return
    if junit is not None and not read.gates:  # a JUnit file without test cases would look like success
        raise click.UsageError(f"--junit writes the outcome of gates, and {plan} has none; write them under 'gates:'")
    refuse_inputs_as_reports(plan_files(read, store), junit=junit, output=output)
    with show_run_progress(lambda run_id: resume_command("run", ["--resume", "--run", run_id])) as (signal, watcher):
        outcome = run_plan(
            read,
            store=store,
            limit=limit,
            tags=tags,
            resume=resume,
            run=run_name,
            retry_failed=retry_failed,
            against=against,
            stop=signal,
            watcher=watcher,
            samples=chosen,
        )
    short = is_short(form, output, every=every)
    if outcome.gates is not None:  # before printing: the reader of stdout may have closed the pipe
        publish(outcome.gates, outcome.record, junit=junit, warn=not short)
    if outcome.results is not None and short:
        echo(_short_results(outcome, outcome.results))
    elif outcome.results is not None:
        show_warnings(outcome.results)
        footer = f"conventions: {conventions_label(outcome.record)}"
        write_out(_results_document(outcome, form, footer, per_query=per_query), output)
    if outcome.gates is not None and form in ("csv", "json"):
        from ..report.gate_table import gates_table

        echo_err(gates_table(outcome.gates), always=form == "csv")  # JSON contains them
    _finish_run(outcome)


def _results_document(outcome: RunOutcome, form: str, footer: str, *, per_query: bool) -> str:
    """The results and, except in CSV, the outcome of the gates."""
    results, report = outcome.results, outcome.gates
    assert results is not None
    if report is None or form == "csv":
        return render_results(results, form, footer, per_query=per_query)
    if form == "json":
        document = {**results.to_dict(per_query=per_query), "gates": report.to_dict()}
        return render_document(form, document, markdown="", text="")
    from ..report.gate_table import gates_markdown, gates_table

    gates = gates_markdown(report) if form == "markdown" else gates_table(report)
    return "\n\n".join([render_results(results, form, footer), gates])


def _short_results(outcome: RunOutcome, results: Results) -> str:
    """The primary metrics and the gates in the short form."""
    from ..render.short import failed_samples
    from .short_results import results_short

    record = outcome.record
    head, notes = record.name, list[tuple[str, str | None]]()
    if outcome.gates is not None:
        gates = gates_short(outcome.gates)
        head, notes = f"{gates.conclusion}; {record.name}", list(gates.notes)
    shown = f"auepora show {record.run_id} --all{_store_argument(outcome.store)}"
    _, failed = failed_samples(outcome.counts, record.num_samples, record.repeats)
    return results_short(
        results, record.plan, failed=failed, head=head, notes=notes, commands=[("all metrics", shown)]
    ).text()


def _store_argument(store: object) -> str:
    """The option that names the store, unless it is the default or contains a password."""
    from ..runtime.secrets import url_secrets

    is_shown = store not in (None, DEFAULT_STORE) and not url_secrets(str(store))
    return f" --store {shlex.quote(str(store))}" if is_shown else ""


def _finish_run(outcome: RunOutcome) -> None:
    """Print the outcome and exit with its code."""
    record, resume = outcome.record, resume_command("run", ["--resume", "--run", outcome.record.run_id])
    if outcome.ended == "finished":
        if outcome.message:
            echo_err(f"{record.run_id}: {outcome.message}")
        if outcome.failed:
            again = f"; {resume} --retry-failed retries them" if "system" in record.plan else ""
            echo_err(f"Warning: {outcome.failed} of {outcome.asked} answers failed{again}")
        if outcome.report is not None:
            echo_err(f"wrote {outcome.report}")
        elsewhere = _store_argument(outcome.store)
        echo_err(f"stored as {record.run_id} ({record.name}); auepora show {record.run_id}{elsewhere}")
        if any(result.details.judging.get("failed") for result in outcome.results or ()):
            echo_err(f"auepora show {record.run_id} --failures{elsewhere} shows why answers were not judged")
        problem = None if outcome.results is None else run_failure(outcome.results)
        if problem is not None:
            exit_with_errors(problem)
        if outcome.gates is not None and outcome.gates.exit_code:
            sys.exit(outcome.gates.exit_code)
        return
    echo_early_end(outcome)
    again = " --retry-failed" if outcome.unreachable else ""  # the samples that failed for that reason
    stored = f"{outcome.asked - outcome.failed} answers and {outcome.failed} failures are stored"
    echo_err(f"{stored}. To resume: {resume}{again}", always=True)
    if outcome.unreachable:
        echo_err(
            "With --keep-going (or 'keep_going: true' under 'run:') a run does not stop for this reason.", always=True
        )
    sys.exit(INTERRUPTED if outcome.ended == "stopped" else STOPPED_EARLY)
