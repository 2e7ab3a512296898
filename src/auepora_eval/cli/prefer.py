"""``auepora prefer``: compare the answers of two stored runs with a judge."""

from __future__ import annotations

import json

import click

from .console import quiet_option
from .judge_options import (
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    judge_options,
    limit_options,
    make_judge_session,
)
from .options import complete_run, open_store, store_option


@click.command(name="prefer")
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
def command(
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
    from .judge_options import echo_usage
    from .options import output_format, write_out

    form = "json" if as_json else output_format(output)
    if form == "csv":
        raise click.UsageError("preferences cannot be written as CSV; write .json or .md")
    changes = judging.changes()
    with open_store(store, output=output) as found, ScoringProgress() as line:
        record_a, record_b = found.find(run_a), found.find(run_b)
        every = [{"use": name} for name in record_b.plan.get("resources") or ()]
        judges = judge.judges(changes) or judges_of_run(found, record_b, every, changes=changes)
        critic = select_judge(judges, judge_name)
        session = make_judge_session(judges, line, store=found.file)
        report = prefer_runs(found, record_a, record_b, critic, judging=session, prompt=prompt)
    if form == "json":
        document = {**report.to_dict(), "judging": session.usage_log.total.to_dict()}
        write_out(json.dumps(document, indent=2, ensure_ascii=False), output)
    else:
        write_out(report.to_text() if output is None else report.to_markdown().rstrip("\n"), output)
    echo_usage(session)
