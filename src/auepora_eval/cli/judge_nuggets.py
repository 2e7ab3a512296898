"""``auepora judge nuggets``: generate nuggets from documents with a judge, or assign nuggets to answers."""

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
    from ..judge.nuggets import NuggetReport


@click.command(name="nuggets")
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
    """Generate nuggets for each question of DATASET: facts of the relevant documents that a good answer contains.

    Review the file before you use it for nugget_recall. With --assign, the judge compares answers with existing
    nuggets, and the file says for each nugget whether the answer supports it.

    \b
    auepora judge nuggets data.jsonl -o nuggets.jsonl --plan plan.yaml
    auepora judge nuggets data.jsonl -o nuggets.jsonl --retrieved outputs.jsonl --judge-model small
    auepora judge nuggets data.jsonl -o assigned.jsonl --assign outputs.jsonl --nuggets nuggets.jsonl --plan plan.yaml
    """
    from ..io.join import load_dataset
    from ..io.labels import write_nuggets
    from ..judge.nuggets import assign_nuggets, make_nuggets
    from ..runs.judging import select_judge
    from .judge_options import echo_usage
    from .options import refuse_input_as_output

    if assign is not None and retrieved is not None:
        raise click.UsageError(
            "give --retrieved to generate nuggets or --assign to compare answers with nuggets, not both"
        )
    if nuggets is not None and assign is None:
        raise click.UsageError("--nuggets goes with --assign")
    inputs = (dataset, retrieved, assign, nuggets, corpus)
    refuse_input_as_output(output, [path for path in inputs if path is not None])
    judges = judge.judges(judging.changes())
    if judges is None:
        raise click.UsageError("no judge is given; use --plan or --judge-model")
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
    echo_usage(session)


def _outputs(
    samples: list[EvaluationSample], path: str | None, corpus: str | None
) -> list[SystemOutputs | None] | None:
    if path is None:
        return None
    from ..io.join import load_outputs

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
