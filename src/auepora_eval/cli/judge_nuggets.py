"""``auepora judge nuggets``: have a judge gather nuggets from documents, or say which of them answers have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .console import echo_err, quiet_option
from .judge_options import (
    JudgeOptions,
    JudgingOptions,
    ScoringProgress,
    judge_options,
    limit_options,
    make_judge_session,
)

if TYPE_CHECKING:
    from ..core.types import EvaluationSample, SystemOutputs
    from ..judge.nugget_generation import NuggetReport

__all__ = ["command"]


@click.command(name="nuggets")
@click.argument("dataset", type=click.Path())
@click.option("-o", "--output", type=click.Path(), required=True, help="Write the nuggets to this file (JSONL).")
@click.option("--retrieved", type=click.Path(), help="Read what these outputs retrieved, not the relevant documents.")
@click.option("--assign", type=click.Path(), help="Make none: say which nuggets of DATASET these outputs have.")
@click.option("--nuggets", type=click.Path(), help="With --assign: take the nuggets of this file (JSONL).")
@click.option("--corpus", type=click.Path(), help="JSONL with the texts of documents that are named by id.")
@click.option("--most", type=click.IntRange(min=1), default=30, show_default=True, help="Keep this many at most.")
@click.option(
    "--at-a-time",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Documents, or nuggets, per question.",
)
@click.option("--judge", "judge_name", metavar="NAME", help="Which resource of the plan judges, where it has several.")
@judge_options
@limit_options
@quiet_option
def command(
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
    """Have a judge gather the facts that a good answer to each question of DATASET holds, from relevant documents.

    Look the file over before you score with it (nugget_recall). With --assign, answers are held against nuggets that
    are there, and the file says for each nugget whether the answer supports it.

    \b
    auepora judge nuggets data.jsonl -o nuggets.jsonl --plan plan.yaml
    auepora judge nuggets data.jsonl -o nuggets.jsonl --retrieved outputs.jsonl --judge-model small
    auepora judge nuggets data.jsonl -o assigned.jsonl --assign outputs.jsonl --nuggets nuggets.jsonl --plan plan.yaml
    """
    from ..io.load import load_dataset
    from ..io.nuggets import write_nuggets
    from ..judge.nugget_generation import assign_nuggets, make_nuggets
    from ..running.preference import select_judge
    from .judgements import usage_text
    from .output import refuse_input_as_output

    if assign is not None and retrieved is not None:
        raise click.UsageError("give --retrieved to make nuggets or --assign to hold answers against them, not both")
    if nuggets is not None and assign is None:
        raise click.UsageError("--nuggets goes with --assign")
    given = (dataset, retrieved, assign, nuggets, corpus)
    refuse_input_as_output(output, [path for path in given if path is not None])
    judges = judge.judges(judging.changes())
    if judges is None:
        raise click.UsageError("say who judges: --plan, or --judge-model")
    samples = list(load_dataset(dataset, corpus=corpus, nuggets=nuggets))
    answers = _outputs(samples, retrieved or assign, corpus)
    with ScoringProgress() as line:
        critic, session = select_judge(judges, judge_name), make_judge_session(judges, line)
        if assign is not None:
            name = Path(assign).name.partition(".")[0]
            found = assign_nuggets(samples, answers or [], critic, at_a_time=at_a_time, run_id=name, judging=session)
        else:
            found = make_nuggets(samples, critic, outputs=answers, most=most, at_a_time=at_a_time, judging=session)
    _require_some(found, making=assign is None)
    write_nuggets(found.topics, output)
    count = sum(len(topic.nuggets) for topic in found.topics)
    echo_err(f"wrote {output}: {count} nuggets of {len(found.topics)} questions")
    if found.failed:
        echo_err(f"not judged: {len(found.failed)} ({_reasons(found)})", always=True)
    if session.usage_log.total.judgements:
        echo_err(f"judging: {usage_text(session.usage_log.total.to_dict())}")


def _outputs(
    samples: list[EvaluationSample], path: str | None, corpus: str | None
) -> list[SystemOutputs | None] | None:
    if path is None:
        return None
    from ..io.load import load_outputs

    by_id = load_outputs(path, corpus=corpus)
    return [by_id.get(sample.sample_id) for sample in samples]


def _require_some(found: NuggetReport, *, making: bool) -> None:
    from ..core.errors import BadValueError

    if found.topics:
        return
    if found.failed:
        raise BadValueError(f"the judge failed on every question ({_reasons(found)})")
    raise BadValueError(
        "no question has a document with a text to read; name a corpus (--corpus), or outputs (--retrieved)"
        if making
        else "no question has nuggets to hold answers against; name a file of them (--nuggets)"
    )


def _reasons(found: NuggetReport) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in Counter(found.failed.values()).items())
