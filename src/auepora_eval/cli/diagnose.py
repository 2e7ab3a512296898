"""``auepora diagnose`` and ``replay``: which part of a system fails, and which part makes two runs differ."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err, quiet_option
from .gate import plan_files
from .help_pages import Command
from .judge_options import INTERRUPTED, STOPPED_EARLY, JudgingOptions, judging_options
from .options import (
    all_option,
    complete_run,
    is_short,
    open_store,
    output_format,
    parse_specs,
    refuse_input_as_output,
    render_document,
    store_option,
    write_out,
)
from .run import echo_early_end, finish_runs, resume_command, show_run_progress

if TYPE_CHECKING:
    from ..runs.diagnose import Diagnosis


# --- auepora diagnose ------------------------------------------------------------------------------------------------

ARMS = "none,oracle,retrieved,mixed"
_NEXT = [("all tables", "the same command with --resume --all")]
"""What can be done after a diagnosis."""


@click.command(name="diagnose", cls=Command)
@click.argument("plan", type=click.Path())
@click.option(
    "--arms",
    default=ARMS,
    show_default=True,
    metavar="ARMS",
    help="Documents that the questions are answered with: none, oracle (gold), retrieved, mixed (gold among retrieved "
    "distractors), each (one document at a time).",
)
@click.option(
    "--correct",
    metavar="SPEC",
    help="Metric that says whether an answer is right; default: that of failure_attribution in the plan, else a metric "
    "of 0 and 1, else containment.",
)
@click.option("--correct-from", type=float, metavar="X", help="Score from which an answer is right; default: 1.")
@click.option(
    "--k", type=click.IntRange(min=1), metavar="K", help="Documents that the generator reads; default: top_k."
)
@click.option(
    "--mirage",
    type=click.Choice(["retrieved", "mixed"]),
    default="retrieved",
    show_default=True,
    help="Arm with distractors for the classes of MIRAGE.",
)
@click.option(
    "--erag",
    "measures",
    multiple=True,
    metavar="MEASURE",
    help="With the arm each: eRAG measure such as ndcg@5; repeatable. Default: precision and hit_rate.",
)
@click.option("--utility", metavar="SPEC", help="With the arm each: metric that labels documents; default: --correct.")
@click.option(
    "--corpus",
    type=click.Path(),
    metavar="FILE",
    help="JSONL corpus with the texts of gold documents that the dataset does not contain.",
)
@click.option("--config", metavar="RUN", help="Use the values of this run, such as one of a sweep.")
@click.option("--name", help="Name of the runs; default: the name of the plan.")
@click.option("--tag", "tags", multiple=True, help="Tag the runs; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N samples.")
@click.option("--resume", is_flag=True, help="Resume the latest diagnosis of this plan, or add arms to it.")
@click.option("--retry-failed", is_flag=True, help="With --resume: retry failed samples.")
@click.option(
    "-m",
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Metric to use instead of those of the plan; repeatable.",
)
@click.option("--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent calls.")
@judging_options
@store_option
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@quiet_option
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.html, .json, .md, else the tables).")
def command(
    plan: str,
    arms: str,
    correct: str | None,
    correct_from: float | None,
    k: int | None,
    mirage: str,
    measures: tuple[str, ...],
    utility: str | None,
    corpus: str | None,
    config: str | None,
    name: str | None,
    tags: tuple[str, ...],
    limit: int | None,
    resume: bool,
    retry_failed: bool,
    metrics: tuple[str, ...],
    concurrency: int | None,
    judging: JudgingOptions,
    store: str | None,
    every: bool,
    as_json: bool,
    output: str | None,
) -> None:
    """Find out which part of the system of a PLAN fails: the retriever, the documents or the generator.

    The same questions are answered without documents, with the gold documents only, with those that the system
    retrieves, and with gold among retrieved distractors. Each arm is a stored run; oracle and retrieved are run twice
    to measure the randomness of the system. The system must take documents: a retriever and a generator, or an endpoint
    or command with 'documents: true'. Samples without gold documents are left out. Gates are not checked.

    \b
    auepora diagnose plan.yaml
    auepora diagnose plan.yaml --preview
    auepora diagnose plan.yaml --correct token_f1 --correct-from 0.5 -o diagnosis.html
    auepora diagnose plan.yaml --arms none,oracle,retrieved,mixed,each --resume
    """
    from ..plan.prepare import read_plan
    from ..plan.source import read_source
    from ..plan.sweep import with_values_of_run
    from ..runs.diagnose import (
        DEFAULT_MEASURES,
        DiagnosisOptions,
        diagnose_plan,
        parse_arms,
        preview_diagnosis,
    )
    from ..runs.perturbed import ProgressOptions

    if retry_failed and not resume:
        raise click.UsageError("--retry-failed goes with --resume")
    chosen = parse_arms(arms)
    for option, given in (("--erag", measures), ("--utility", utility)):
        if given and "each" not in chosen:
            raise click.UsageError(f"{option} goes with the arm each: add it to --arms")
    form = output_format(
        output, as_json=as_json, no_csv="a diagnosis cannot be written as CSV; write .html, .json, .md or a table"
    )
    options = DiagnosisOptions(
        chosen,
        correct=_spec(correct),
        correct_from=correct_from,
        k=k,
        mirage_from=mirage,
        measures=measures or DEFAULT_MEASURES,
        utility=_spec(utility),
        corpus=corpus,
    )
    changes: dict[str, Any] = {
        "name": name,
        "metrics": parse_specs(metrics) or None,
        "run.concurrency": concurrency,
    }
    changes = {key: value for key, value in changes.items() if value is not None} | judging.limits()
    source = read_source(Path(plan))
    if config is not None:
        with open_store(store or read_plan(source).store) as opened:
            source = with_values_of_run(source, opened.find(config))
    source = source.with_settings(judging.settings)
    read = read_plan(source, changes={**changes, "gates": None})
    refuse_input_as_output(output, [*plan_files(read, store), corpus])
    if judging.preview:
        from ..report.diagnosis import preview_text

        found = preview_diagnosis(source, options, store=store, changes=changes, limit=limit)
        text = preview_text(found.calls, found.questions, found.judging.to_text(), found.judge_calls)
        write_out(render_document(form, found.to_dict(), markdown=text, text=text), output)
        return
    again = resume_command("diagnose", [*_repeated_options(), "--resume"])
    with show_run_progress(lambda _: again) as (stop, watcher):
        diagnosis = diagnose_plan(
            source,
            options,
            store=store,
            changes=changes,
            limit=limit,
            tags=tags,
            progress=ProgressOptions(resume, retry_failed, stop, watcher),
        )
    if diagnosis.numbers is None:
        echo_early_end(diagnosis.last, f"{diagnosis.last.record.name}: ")
        echo_err(f"To resume: {again}", always=True)
        sys.exit(INTERRUPTED if diagnosis.last.ended == "stopped" else STOPPED_EARLY)
    _write(diagnosis, form, output, every=every)
    finish_runs(diagnosis.outcomes)


def _spec(text: str | None) -> Any:
    return None if text is None else parse_specs([text])[0]


def _repeated_options() -> list[str]:
    """The given options of a diagnosis that must be repeated to resume it."""
    params = click.get_current_context().params
    names = {
        "--correct": "correct",
        "--correct-from": "correct_from",
        "--k": "k",
        "--utility": "utility",
        "--corpus": "corpus",
        "--config": "config",
    }
    words = [] if params["arms"] == ARMS else ["--arms", params["arms"]]
    words += [] if params["mirage"] == "retrieved" else ["--mirage", params["mirage"]]
    for measure in params["measures"]:
        words += ["--erag", measure]
    for option, key in names.items():
        words += [] if params[key] is None else [option, str(params[key])]
    return words


def _write(diagnosis: Diagnosis, form: str, output: str | None, *, every: bool) -> None:
    from ..report.diagnosis import diagnosis_short, write_diagnosis

    numbers, notes, correct = diagnosis.numbers, diagnosis.notes, diagnosis.correct
    assert numbers is not None
    if output is not None and output.lower().endswith((".html", ".htm")):
        with open_store(diagnosis.store) as store:
            write_diagnosis(
                store, diagnosis.arm_records, output,
                title=diagnosis.name, numbers=numbers, correct=correct, metric=diagnosis.metric, notes=notes,
            )  # fmt: skip
        echo_err(f"wrote {output}")
        output = None
    text = diagnosis.to_text()
    if is_short(form, output, every=every):
        from ..render.short import failed_samples, group_messages
        from .runs import gold_note

        failed: list[tuple[str, str]] = []
        for label, arm in diagnosis.outcomes.items():
            _, counted = failed_samples(arm.counts, arm.record.num_samples, arm.record.repeats)
            failed.append((label.removeprefix("arm="), counted))
        about = [("failed", "; ".join(group_messages(failed))), gold_note(diagnosis.arm_records)]
        text = diagnosis_short(numbers, correct, notes, about=about, commands=_NEXT).text()
    write_out(render_document(form, diagnosis.to_dict(), markdown=diagnosis.to_markdown(), text=text), output)


# --- auepora replay --------------------------------------------------------------------------------------------------


@click.command(name="replay", cls=Command)
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
def replay_command(
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
    from ..plan.prepare import read_plan
    from ..runs.replay import swap_replay
    from ..runs.run import open_plan

    form = output_format(output, as_json=as_json)
    refuse_input_as_output(output, [plan])
    with show_run_progress() as (stop, watcher):
        read = read_plan(plan)
        if read.system is None:
            raise BadValueError(f"{plan} has saved outputs and no system; name the plan that run B was made by")
        with (
            open_store(store or read.store, output=output),  # a missing store is an error
            open_plan(read, store=store, is_checked=True) as (request, found, _),
        ):
            report = swap_replay(
                request.system,
                found,
                found.find(run_a),
                found.find(run_b),
                parse_specs(metrics),
                planned=read.resolved["system"],
                policy=read.policy,
                fresh=fresh,
                retry_failed=retry_failed,
                stop=stop,
                watcher=watcher,
            )
    if report.outcome.ended != "finished":
        echo_err(f"Stopped: {report.outcome.message}; the same command resumes it", always=True)
        sys.exit(INTERRUPTED if report.outcome.ended == "stopped" else STOPPED_EARLY)
    write_out(render_document(form, report.to_dict(), markdown=report.to_markdown(), text=report.to_text()), output)
