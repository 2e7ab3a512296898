"""``auepora judge calibrate``: a judge, or any other metric, held against labels of people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from .console import quiet_option
from .stores import complete_run, open_store, store_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..calibrating.report import CalibrationReport
    from ..calibrating.sample_scores import SampleScores
    from ..io.labels import Label
    from ..store.runs import RunStore

__all__ = ["command"]

MAX_SHOWN = 20
"""So many disagreements are shown."""


@click.command(name="calibrate")
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option(
    "--labels",
    "label_files",
    multiple=True,
    required=True,
    type=click.Path(),
    help="What people said: JSON lines as `auepora label` writes them; repeatable.",
)
@click.option("-m", "--metric", metavar="NAME", help="The metric; by default the one that a judge gave.")
@click.option(
    "--scores",
    type=click.Path(),
    help='Scores of a file instead of a metric\'s: {"sample_id": ..., "score": ...} per line.',
)
@click.option(
    "--threshold",
    type=float,
    metavar="NUMBER",
    help="The score from which on an answer counts as right; by default half way between worst and best.",
)
@click.option("--scale", metavar="1-5", help="The scale of labels that are numbers; by default 0-1.")
@click.option(
    "--tuned-on",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Samples that served to tune the prompt, whose labels are refused; repeatable.",
)
@click.option("--leave-out-tuned", is_flag=True, help="Leave such labels out instead.")
@click.option(
    "--these-samples", is_flag=True, help="Corrected means about these samples alone, not about such samples."
)
@click.option("--show", type=click.IntRange(min=0), default=MAX_SHOWN, show_default=True, help="So many disagreements.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draws.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def command(
    runs: tuple[str, ...],
    label_files: tuple[str, ...],
    metric: str | None,
    scores: str | None,
    threshold: float | None,
    scale: str | None,
    tuned_on: tuple[str, ...],
    leave_out_tuned: bool,
    these_samples: bool,
    show: int,
    seed: int,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Hold a metric of a stored RUN (by default the latest) against labels of people.

    First how far people agree with each other, where there are several; then how far the judge agrees with them, and
    where it does not; then the mean that people would give to all answers, from the labels of some and the scores of
    all. With two runs also the difference, second - first. Any metric will do, not only those that ask a judge. The
    last line says whether the judge is usable, usable with correction, or not usable, and why.

    \b
    auepora judge calibrate latest --labels human.jsonl
    auepora judge calibrate latest --labels ann.jsonl --labels bob.jsonl -m llm_faithfulness --threshold 0.75
    auepora judge calibrate baseline latest --labels human.jsonl -m token_f1
    auepora judge calibrate --scores scores.jsonl --labels human.jsonl
    """
    from ..calibrating.measure import calibrate
    from ..calibrating.sample_scores import read_ids, read_score_file
    from ..calibrating.sample_weights import read_all_draws
    from ..labelling.human_labels import read_annotations
    from .output import output_format, refuse_input_as_output, write_out

    if len(runs) > 2:
        raise click.UsageError("give one run, or two to compare")
    if scores is not None and (metric is not None or len(runs) > 1):
        raise click.UsageError("--scores takes the place of -m, and goes with one run or none")
    form = "json" if as_json else output_format(output)
    if form == "csv":
        raise click.UsageError("a calibration has no CSV; write .json, .md or text")
    refuse_input_as_output(output, [*label_files, *tuned_on, *([] if scores is None else [scores])])
    labels = read_annotations(label_files)
    seen = {one for path in tuned_on for one in read_ids(path)}

    def measured(scored: Sequence[SampleScores]) -> CalibrationReport:
        return calibrate(
            labels,
            *scored,
            threshold=threshold,
            scale=scale,
            tuned_on=seen,
            leave_out_tuned=leave_out_tuned,
            finite=these_samples,
            seed=seed,
            draws=read_all_draws(label_files),
        )

    if scores is not None and not runs:
        report = measured([read_score_file(scores)])
    else:
        with open_store(store, output=output) as found:
            report = measured(_run_scores(found, runs or ("latest",), metric or _labelled_metric(labels), scores))
    if form == "json":
        write_out(json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), output)
    elif form == "markdown":
        write_out(report.to_markdown(shown=show).rstrip("\n"), output)
    else:
        write_out(report.to_text(shown=show), output)


def _labelled_metric(labels: Sequence[Label]) -> str | None:
    """The metric that all labels are about, where they name one."""
    named = {label.metric for label in labels}
    return next(iter(named)) if len(named) == 1 else None


def _run_scores(store: RunStore, runs: Sequence[str], metric: str | None, scores: str | None) -> list[SampleScores]:
    from ..calibrating.sample_scores import attach_answers, load_run_scores, read_score_file

    records = [store.find(one) for one in runs]
    if len(records) == 2 and records[0].run_id == records[1].run_id:
        raise click.UsageError(f"{runs[0]} and {runs[1]} are the same run, {records[0].run_id}")
    if scores is not None:
        return [attach_answers(read_score_file(scores), store, records[0])]
    return [load_run_scores(store, record, metric) for record in records]
