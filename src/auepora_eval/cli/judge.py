"""The group ``auepora judge`` with its commands ``try``, ``nuggets`` and ``relevance``, and ``auepora prefer``."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..io.grades import Grade, GradeKey, provenance_path, read_grades, write_grades
from ..io.join import load_dataset, load_outputs
from .console import echo, echo_err, json_text, quiet_option
from .help_pages import Command
from .judge_options import (
    STOPPED_EARLY,
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    judge_options,
    judge_policy,
    judging_options,
    limit_options,
    make_judge_session,
)
from .judge_usage import echo_usage, preview_text, usage_text
from .main import LazyGroup
from .options import (
    complete_run,
    open_store,
    output_format,
    refuse_input_as_output,
    render_document,
    render_page,
    store_option,
    write_out,
)

if TYPE_CHECKING:
    from ..core.types import EvaluationSample, SystemOutputs
    from ..judge.nuggets import NuggetReport


# --- auepora judge ---------------------------------------------------------------------------------------------------

COMMANDS = {
    "Commands": {
        "bias": ("judge_calibrate:bias_command", "Show how a judge depends on length, position and model family."),
        "calibrate": ("judge_calibrate:calibrate_command", "Compare a judge, or any metric, with human labels."),
        "nuggets": ("judge:nuggets_command", "Generate nuggets from documents, or assign them to answers."),
        "relevance": ("judge:relevance_command", "Grade pooled documents and write qrels with provenance."),
        "try": ("judge:try_command", "Judge a few samples of a plan and show prompts, replies and cost."),
    }
}


@click.group(name="judge", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Label data with a judge, and compare a judge with human labels.

    \b
    auepora judge bias latest --labels human.jsonl
    auepora judge calibrate latest --labels human.jsonl
    auepora judge nuggets data.jsonl -o nuggets.jsonl --plan plan.yaml
    auepora judge relevance pool.jsonl --judge-model small -o qrels.txt
    auepora judge try plan.yaml -m cites_policy
    """


# --- auepora judge try -----------------------------------------------------------------------------------------------


@click.command(name="try", cls=Command)
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
@click.option("--repeat", type=click.IntRange(min=1), metavar="N", help="Judge each answer N times; show the spread.")
@click.option(
    "--separate", is_flag=True, help="Ask each question to a decision model alone, too; show whether answers change."
)
@limit_options
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def try_command(
    plan: str,
    metrics: tuple[str, ...],
    samples: int,
    seed: int,
    run: str | None,
    repeat: int | None,
    separate: bool,
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
    from ..runs.trial import try_metrics

    form = output_format(output, as_json=as_json, no_csv="a trial cannot be written as CSV; write .json, .md or text")
    refuse_input_as_output(output, [plan])
    with ScoringProgress() as line:
        trial = try_metrics(
            plan,
            metrics,
            count=samples,
            seed=seed,
            run=run,
            store=store,
            changes=judging.settings | replace(judging, repeats=repeat or judging.repeats).limits(),
            progress=line.show_judging,
            separate=separate,
        )
    page = partial(trial.report, f"Judging: {usage_text(trial.usage)}.")
    write_out(render_page(form, trial.to_dict(), page), output)
    if trial.requests and all(request.error is not None for request in trial.requests):
        sys.exit(STOPPED_EARLY)


# --- auepora judge nuggets -------------------------------------------------------------------------------------------


@click.command(name="nuggets", cls=Command)
@click.argument("dataset", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="Write the nuggets to this file (JSONL).")
@click.option(
    "--retrieved", type=click.Path(), help="Use the documents that these outputs retrieved, not the relevant documents."
)
@click.option(
    "--assign", type=click.Path(), help="Generate no nuggets: judge which nuggets of DATASET these outputs support."
)
@click.option("--nuggets", type=click.Path(), help="With --assign: JSONL file with the nuggets.")
@click.option("--corpus", type=click.Path(), help="JSONL file with the texts of documents given by id.")
@click.option(
    "--most", type=click.IntRange(min=1), default=30, show_default=True, help="Maximum number of nuggets per question."
)
@click.option(
    "--at-a-time",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Documents, or nuggets, per call of the judge.",
)
@click.option(
    "--judge", "judge_name", metavar="NAME", help="Resource of the plan to use as judge, if there are several."
)
@judge_options
@limit_options
@quiet_option
def nuggets_command(
    dataset: str,
    output: str,
    retrieved: str | None,
    assign: str | None,
    nuggets: str | None,
    corpus: str | None,
    most: int,
    at_a_time: int,
    judge_name: str | None,
    judge: JudgeOptions,
    judging: JudgingOptions,
) -> None:
    """Generate nuggets for each question of DATASET: facts of the relevant documents that a good answer contains.

    Review the file before you use it for nugget_recall. With --assign, the judge compares answers with existing
    nuggets, and the file says for each nugget whether the answer supports it.

    \b
    auepora judge nuggets data.jsonl -o nuggets.jsonl --plan plan.yaml
    auepora judge nuggets data.jsonl -o nuggets.jsonl --retrieved outputs.jsonl --judge-model small
    auepora judge nuggets data.jsonl -o assigned.jsonl --assign outputs.jsonl --nuggets nuggets.jsonl --plan plan.yaml
    """
    from ..io.labels import write_nuggets
    from ..judge.nuggets import assign_nuggets, make_nuggets
    from ..runs.judging import select_judge

    if assign is not None and retrieved is not None:
        raise click.UsageError(
            "give --retrieved to generate nuggets or --assign to compare answers with nuggets, not both"
        )
    if nuggets is not None and assign is None:
        raise click.UsageError("--nuggets goes with --assign")
    refuse_input_as_output(output, [dataset, retrieved, assign, nuggets, corpus])
    judges = judge.judges(judging.changes())
    if judges is None:
        raise click.UsageError("no judge is given; use --plan or --judge-model")
    samples = list(load_dataset(dataset, corpus=corpus, nuggets=nuggets))
    answers = _outputs(samples, retrieved or assign, corpus)
    with ScoringProgress() as line:
        critic, session = select_judge(judges, judge_name), make_judge_session(judges, line)
        if assign is not None:
            found = assign_nuggets(
                samples,
                answers or [],
                critic,
                at_a_time=at_a_time,
                run_id=Path(assign).name.partition(".")[0],
                judging=session,
            )
        else:
            found = make_nuggets(samples, critic, outputs=answers, most=most, at_a_time=at_a_time, judging=session)
    _require_some(found, making=assign is None)
    write_nuggets(found.topics, output)
    count = sum(len(topic.nuggets) for topic in found.topics)
    echo_err(f"wrote {output}: {count} nuggets of {len(found.topics)} questions")
    if found.failed:
        echo_err(f"not judged: {len(found.failed)} ({_reasons(found)})", always=True)
    echo_usage(session)


def _outputs(
    samples: list[EvaluationSample], path: str | None, corpus: str | None
) -> list[SystemOutputs | None] | None:
    if path is None:
        return None

    by_id = load_outputs(path, corpus=corpus)
    return [by_id.get(sample.sample_id) for sample in samples]


def _require_some(found: NuggetReport, *, making: bool) -> None:
    from ..errors import BadValueError

    if found.topics:
        return
    if found.failed:
        raise BadValueError(f"the judge failed on every question ({_reasons(found)})")
    raise BadValueError(
        "no question has a document with text; give a corpus (--corpus) or outputs (--retrieved)"
        if making
        else "no question has nuggets; give a file of nuggets (--nuggets)"
    )


def _reasons(found: NuggetReport) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in Counter(found.failed.values()).items())


# --- auepora judge relevance -----------------------------------------------------------------------------------------


@click.command(name="relevance", cls=Command)
@click.argument("pool", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="Qrels file to write; existing grades are kept.")
@click.option(
    "--labels",
    "label_files",
    multiple=True,
    type=click.Path(),
    help="Human grades, which take precedence: qrels, query<tab>document<tab>grade, or JSON lines; repeatable.",
)
@click.option("--again", is_flag=True, help="Discard earlier grades of models and grade again.")
@click.option(
    "--judge", "judge_name", metavar="NAME", help="Resource of the plan to use as judge, if there are several."
)
@click.option("--prompt", type=click.Path(), help="Prompt file to use instead of the built-in prompt.")
@judge_options
@judging_options
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def relevance_command(
    pool: str,
    output: str,
    label_files: tuple[str, ...],
    again: bool,
    judge_name: str | None,
    prompt: str | None,
    judge: JudgeOptions,
    judging: JudgingOptions,
    as_json: bool,
) -> None:
    """Grade the documents of a POOL with a judge, from 0 (unrelated to the question) to 3 (answers it fully).

    Grades are written as qrels. The file with the suffix .provenance.jsonl records for each grade whether it comes from
    a person, a model, or a person who corrected a model. Existing grades are not requested again, so the same command
    resumes an interrupted run and retries failures. Human grades take precedence: those of --labels, and those edited
    in the qrels by hand. Without a judge, only labels are written.

    The exit code is 3 if documents are left without a grade.

    \b
    auepora judge relevance pool.jsonl --judge-model small --judge-url http://127.0.0.1:8080/v1 -o qrels.txt
    auepora judge relevance pool.jsonl --plan plan.yaml -o qrels.txt --preview
    auepora judge relevance pool.jsonl --labels human.tsv -o qrels.txt
    """
    from ..grades.pool import read_pool
    from ..grades.relevance import judge_relevance, merge_known_grades, preview_relevance, write_known_grades
    from ..runs.judging import select_judge
    from ..runtime.secrets import Secrets

    for written in (output, str(provenance_path(output))):
        refuse_input_as_output(written, [pool, *label_files, prompt])
    documents = read_pool(pool)
    labels = _labels(label_files)
    before = read_grades(output)
    if again:
        before = {key: grade for key, grade in before.items() if grade.by != "model"}
    known = merge_known_grades(documents, before, labels)
    if again:
        known = {key: grade for key, grade in known.items() if grade.by != "model"}
    judges = judge.judges(judging.changes())
    if judges is None:
        if judging.preview or not labels:
            raise click.UsageError("no judge is given; use --judge-model or --plan, or only --labels")
        report, session = write_known_grades(documents, known, output), None
    elif judging.preview:
        critic = select_judge(judges, judge_name, need_key=False)
        would = preview_relevance(documents, critic, known=known, policy=judge_policy(judges), prompt=prompt)
        write_out(preview_text(would, as_json=as_json), None)
        return
    else:
        critic = select_judge(judges, judge_name)
        if again and Path(output).exists():
            write_grades(output, list(before.values()))
        with ScoringProgress() as line:
            session = make_judge_session(judges, line)
            report = judge_relevance(
                documents, critic, output, known=known, judging=session, prompt=prompt, secrets=Secrets(judges.secrets)
            )
    if as_json:
        usage = {} if session is None else {"judging": session.usage_log.total.to_dict()}
        echo(json_text({**report.to_dict(), "file": output, **usage}))
    else:
        echo(report.to_text())
    if session is not None:
        echo_usage(session)
    if report.num_other_prompt:
        echo_err(f"{report.num_other_prompt:,} grades by another model or prompt were kept; --again grades them again")
    if report.grades:
        echo_err(f"wrote {output} and {provenance_path(output)}")
    if report.num_failed and session is not None:
        echo_err(f"{report.num_failed:,} documents have no grade; the same command retries them", always=True)
        sys.exit(STOPPED_EARLY)


def _labels(paths: tuple[str, ...]) -> dict[GradeKey, Grade]:
    """The human grades of all these files; for one document, the last file counts."""
    from ..grades.human_grades import read_human_grades

    return dict(chain.from_iterable(read_human_grades(path).items() for path in paths))


# --- auepora prefer --------------------------------------------------------------------------------------------------


@click.command(name="prefer", cls=Command)
@click.argument("run_a", shell_complete=complete_run)
@click.argument("run_b", shell_complete=complete_run)
@click.option(
    "--judge", "judge_name", metavar="NAME", help="Resource of the plan to use as judge, if there are several."
)
@click.option("--prompt", type=click.Path(), help="Prompt file to use instead of the built-in prompt.")
@judge_options
@limit_options
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, else Markdown).")
def prefer_command(
    run_a: str,
    run_b: str,
    judge_name: str | None,
    prompt: str | None,
    judge: JudgeOptions,
    judging: JudgingOptions,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Let a judge compare the answers of RUN_A and RUN_B on the samples they share.

    Each pair is judged in both orders. An answer wins if it is preferred in both, otherwise it is a tie. The judge is
    that of the plan of RUN_B, of --plan, or of --judge-model. The exit code is 0 whatever the result.

    \b
    auepora prefer baseline latest
    auepora prefer baseline latest --plan plan.yaml --judge strict
    auepora prefer baseline latest --judge-model small --judge-url http://127.0.0.1:8080/v1
    """
    from ..runs.judging import judges_of_run, prefer_runs, select_judge

    form = output_format(output, as_json=as_json, no_csv="preferences cannot be written as CSV; write .json or .md")
    changes = judging.changes()
    with open_store(store, output=output) as found, ScoringProgress() as line:
        record_a, record_b = found.find(run_a), found.find(run_b)
        every = [{"use": name} for name in record_b.plan.get("resources") or ()]
        judges = judge.judges(changes, has_plan=True) or judges_of_run(found, record_b, every, changes=changes)
        critic = select_judge(judges, judge_name)
        session = make_judge_session(judges, line, store=found.file)
        report = prefer_runs(found, record_a, record_b, critic, judging=session, prompt=prompt)
    document = {**report.to_dict(), "judging": session.usage_log.total.to_dict()}
    text = report.to_text() if output is None else report.to_markdown().rstrip("\n")
    write_out(render_document(form, document, markdown=text, text=text), output)
    echo_usage(session)
