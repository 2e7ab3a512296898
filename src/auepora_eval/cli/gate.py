"""``auepora gate``: check a stored run against gates; JUnit XML and the step summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import AueporaError, BadValueError, DataFileError, StoreError
from ..plan.gates import Gate, needs_baseline, parse_gates, require_known_names
from ..store.connect import default_store
from ..store.records import RunRecord, RunStatus
from .console import echo_err, quiet_option
from .help_pages import Command
from .options import (
    ALL_TABLES,
    all_option,
    complete_run,
    find_samples,
    is_short,
    open_store,
    output_format,
    refuse_input_as_output,
    render_document,
    samples_option,
    store_option,
    write_out,
)

if TYPE_CHECKING:
    from ..core.results import Results
    from ..gates import GateReport
    from ..io.sample_sets import SampleSet
    from ..plan.model import Plan
    from ..render.short import ShortForm
    from ..store.runs import RunStore

_MOST_GATES, _MOST_WARNINGS = 12, 3
"""Numbers of gates and of warnings in the short form."""

# --- output, shared by ``auepora gate`` and ``auepora run``: JUnit XML and the step summary --------------------------

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
junit_option = click.option(
    "--junit",
    type=click.Path(),
    metavar="FILE",
    help="Write the gates to this file as JUnit XML, one test case per gate.",
)


def plan_files(plan: Plan, store: str | None) -> list[str]:
    """The plan file itself and every file that the plan reads or writes."""
    sources = [source for source in (plan.dataset, plan.outputs) if source is not None]
    files = chain.from_iterable((source.path, source.corpus, source.nuggets) for source in sources)
    read = [str(file) for file in files if file is not None]
    return [str(plan.source.path), *read, default_store(store, plan.store)]


def refuse_inputs_as_reports(inputs: Sequence[str], *, junit: str | None, output: str | None) -> None:
    """Raise if a gate report would overwrite an input or another report."""
    refuse_input_as_output(output, inputs)
    refuse_input_as_output(junit, inputs, option="--junit")
    refuse_input_as_output(os.environ.get(SUMMARY_VARIABLE) or None, inputs, option=f"${SUMMARY_VARIABLE}")
    if junit is not None and output is not None and os.path.realpath(junit) == os.path.realpath(output):
        raise click.UsageError(f"--junit {junit} is where {output} will be; write to another file")


def publish(report: GateReport, record: RunRecord, *, junit: str | None, warn: bool = True) -> None:
    """Print the warnings, if wanted, write JUnit XML if requested, and append to ``$GITHUB_STEP_SUMMARY`` if set."""
    if warn:
        echo_err(*(f"Warning: {warning}" for warning in report.warnings))
    if junit is not None:
        from ..report.junit import junit_xml
        from ..runtime.files import write_lines

        write_lines(Path(junit), [junit_xml(report, name=f"auepora: {record.name}").encode()])
        echo_err(f"wrote {junit}")
    try:
        append_step_summary(report, heading=f"Gates of {record.name} ({record.run_id})")
    except AueporaError as error:  # a summary that cannot be written does not change the outcome
        echo_err(f"Warning: {error}")


def append_step_summary(report: GateReport, *, heading: str) -> str | None:
    """Append the report to the file ``$GITHUB_STEP_SUMMARY``; returns its path, or ``None`` where it is not set."""
    from ..report.gate_table import gates_markdown

    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        return None
    text = gates_markdown(report, heading=heading)
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{text}\n\n")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise DataFileError(path, None, f"the summary of {SUMMARY_VARIABLE} cannot be written: {problem}") from error
    return path


# --- the command -----------------------------------------------------------------------------------------------------


@click.command(name="gate", cls=Command)
@click.argument("run", default="latest", shell_complete=complete_run)
@click.option("-g", "--gate", "texts", multiple=True, metavar="GATE", help="Condition on the run; repeatable.")
@click.option("--plan", type=click.Path(), help="Check the gates of this plan.")
@click.option(
    "--against",
    metavar="RUN",
    help="Baseline run; default: the latest earlier run with the same name and samples that did not fail its gates.",
    shell_complete=complete_run,
)
@click.option("--other-dataset", is_flag=True, help="Compare on the common samples if the datasets differ.")
@junit_option
@samples_option
@store_option
@quiet_option
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else the table).")
def command(
    run: str,
    texts: tuple[str, ...],
    plan: str | None,
    against: str | None,
    other_dataset: bool,
    junit: str | None,
    samples: str | None,
    store: str | None,
    every: bool,
    as_json: bool,
    output: str | None,
) -> None:
    """Check the stored RUN against gates: those of -g and --plan, else those of the plan of the run.

    The system is not called and no metric is computed; a gate that compares runs computes that comparison. The run is
    tagged gates-passed, gates-failed or gates-open with the outcome of the gates of its plan, or of -g if its plan has
    none. The exit code is 0 if every gate passed, 1 if one failed, 3 if none failed and one is inconclusive.

    With --samples the gates are about the samples of a set, and the run is not tagged.

    \b
    auepora gate latest -g 'recall@5 >= 0.80' -g 'mean_latency[end_to_end] < 2'
    auepora gate nightly --against main -g 'delta(ndcg@10) > -0.01' -g 'not worse(token_f1, by=0.02)'
    auepora gate latest --plan plan.yaml --junit gates.xml
    """
    from ..report.gate_table import gates_markdown, gates_table

    form = output_format(output, as_json=as_json, no_csv="gates are written as .json, .md or as a table")
    given: list[Gate | str] = list(texts)
    read: list[str] = []
    if plan is not None:
        from ..plan.prepare import read_plan

        planned = read_plan(plan)
        if not planned.gates:
            raise click.UsageError(f"{plan} has no gates; write them under 'gates:', or give them with -g")
        given, read = [*planned.gates, *texts], plan_files(planned, store)
    gates = parse_gates(given)
    refuse_inputs_as_reports([*read, default_store(store)], junit=junit, output=output)
    chosen = find_samples(samples, default_store(store))
    with open_store(store) as found:
        record = found.find(run)
        report = _check(found, record, gates, against, other_dataset=other_dataset, samples=chosen)
        if chosen is None and (plan is not None or not (gates and record.plan.get("gates"))):
            _store_outcome(found, record, report)
        short = is_short(form, output, every=every)
        shown = _short_gates(found, record, report) if short else gates_table(report)
    publish(report, record, junit=junit, warn=not short)  # first: the reader of stdout may have closed the pipe
    write_out(render_document(form, report.to_dict(), markdown=gates_markdown(report), text=shown), output)
    if report.exit_code:
        sys.exit(report.exit_code)


def gates_short(
    report: GateReport,
    *,
    failed: str = "",
    about: Sequence[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] = (),
) -> ShortForm:
    """The gates in the short form, failed ones first, with what else must be said; ``failed`` answers are named."""
    from ..gates import CheckedGate, brief_reason
    from ..render.short import ShortForm, group_messages
    from ..render.tables import UNRELIABLE_NOTE
    from ..report.gate_table import GATE_SIGNS

    ordered = sorted(report.visible_outcomes, key=attrgetter("status"))  # failed, inconclusive, passed
    doubtful = [outcome for outcome in ordered if isinstance(outcome, CheckedGate) and outcome.is_doubtful]
    doubts = [(outcome.metric or outcome.gate, UNRELIABLE_NOTE) for outcome in doubtful]
    notes = [
        *(
            (f"{GATE_SIGNS[outcome.status]} {outcome.status}", f"{outcome.gate}: {brief_reason(outcome)}")
            for outcome in ordered[:_MOST_GATES]
        ),
        ("gates", f"and {len(ordered) - _MOST_GATES} more" * (len(ordered) > _MOST_GATES)),
        ("answers", failed),
        *about,
        ("flagged", "; ".join(group_messages(doubts))),
        *(("warning", warning) for warning in report.warnings[:_MOST_WARNINGS]),
        ("warnings", f"and {len(report.warnings) - _MOST_WARNINGS} more" * (len(report.warnings) > _MOST_WARNINGS)),
        *(("note", source.note or "") for source in (report.sample_set, report.register) if source is not None),
    ]
    against = "" if report.against is None else f", compared with {report.against}"
    return ShortForm(f"{report.status.capitalize()}: {report.headline}{against}", notes=notes, commands=commands)


def _short_gates(store: RunStore, record: RunRecord, report: GateReport) -> str:
    """The gates in the short form, with the failed answers of the run and its baseline."""
    from ..compare.short import failed_in_run
    from .runs import gold_note

    compared = [record] if report.against is None else [record, store.find(report.against)]
    failed = [f"{run.name}: {failed_in_run(store, run)[1]}" for run in compared]
    return gates_short(report, failed="; ".join(failed), about=[gold_note(compared)], commands=[ALL_TABLES]).text()


def _check(
    store: RunStore,
    record: RunRecord,
    given: list[Gate],
    against: str | None,
    *,
    other_dataset: bool,
    samples: SampleSet | None,
) -> GateReport:
    from ..gates import check_run

    gates = given or parse_gates(record.plan.get("gates") or ())
    if not gates:
        raise click.UsageError(
            f"there is no gate to check: the plan of {record.run_id} has none; give one with -g 'recall@5 >= 0.80', "
            "or a plan that has some with --plan"
        )
    if against is not None and not any(map(needs_baseline, gates)):
        echo_err(f"Warning: no gate compares runs, so --against {against} changes nothing")
        against = None
    results = _results(store, record)
    slices = list(dict.fromkeys(chain.from_iterable(result.slices for result in results)))
    gates = require_known_names(
        gates,
        [result.name for result in results],
        slices=slices,
        otherwise=f"; auepora rescore {record.run_id} -m computes further ones",
    )
    baseline = None if against is None else store.find(against).require_finished()
    return check_run(
        store,
        record,
        results,
        gates,
        baseline=baseline,
        strict=baseline is not None,
        other_dataset=other_dataset,
        samples=samples,
    )


def _store_outcome(store: RunStore, record: RunRecord, report: GateReport) -> None:
    """Tag the run with the outcome of its gates. A read-only store only causes a warning."""
    from ..gates import tag_gate_outcome

    try:
        tag_gate_outcome(store, record.run_id, report)
    except StoreError as error:
        echo_err(f"Warning: the outcome of the gates is not stored with {record.run_id}: {error}")


def _results(store: RunStore, record: RunRecord) -> Results:
    """The results of a finished run; raises if there are none."""
    if record.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED):
        advice = "let it finish" if record.status is RunStatus.RUNNING else "resume it first"
        raise BadValueError(f"{record.run_id} is {record.status.value}; {advice}")
    results = store.results(record.run_id)
    if not results:
        raise BadValueError(
            f"{record.run_id} has no results because it was not scored; resume it, or score it with auepora rescore"
        )
    return results
