"""``auepora judge relevance``: grade pooled documents with a judge, and write qrels with provenance."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import echo, echo_err, quiet_option
from .judge_options import (
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    judge_options,
    judge_policy,
    judging_options,
    make_judge_session,
    preview_text,
)

if TYPE_CHECKING:
    from ..annotate.relevance import RelevanceReport
    from ..io.grades import Grade, GradeKey


@click.command(name="relevance")
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
def command(
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
    from ..annotate.pool import read_pool
    from ..annotate.relevance import judge_relevance, merge_known_grades, preview_relevance, write_known_grades
    from ..io.grades import provenance_path, read_grades, write_grades
    from ..runs.judging import select_judge
    from ..runtime.secrets import Secrets
    from .judge_options import STOPPED_EARLY, echo_usage
    from .options import refuse_input_as_output, write_out

    for written in (output, str(provenance_path(output))):
        refuse_input_as_output(written, [pool, *label_files, *([] if prompt is None else [prompt])])
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
        echo(json.dumps({**report.to_dict(), "file": output, **usage}, indent=2, ensure_ascii=False))
    else:
        echo(_summary(report))
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
    from ..annotate.pool import read_human_grades

    return {key: grade for path in paths for key, grade in read_human_grades(path).items()}


def _summary(report: RelevanceReport) -> str:
    from ..io.grades import provenance_counts
    from ..render.tables import table

    levels = sorted({one.grade for one in report.grades})
    rows = []
    for by in provenance_counts(report.grades):
        given = [one.grade for one in report.grades if one.by == by]
        rows.append([by, *(str(given.count(level)) for level in levels), str(len(given))])
    headers = ["graded by", *map(str, levels), "all"]
    lines = [table(rows, headers=headers, right=range(1, len(headers)))] if rows else ["nothing is graded"]
    if report.failed:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(report.failed.items()))
        lines.append(f"{report.num_failed:,} without a grade ({reasons})")
    return "\n\n".join(lines)
