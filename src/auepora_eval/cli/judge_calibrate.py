"""``auepora judge calibrate`` and ``bias``: compare a judge with human labels, and find what it depends on."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from ..labels.draws import LabelDraw, read_all_draws
from .console import quiet_option
from .help_pages import Command
from .options import (
    ALL_TABLES,
    all_option,
    complete_run,
    is_short,
    open_store,
    output_format,
    refuse_input_as_output,
    render_document,
    store_option,
    write_out,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..calibration.report import CalibrationReport
    from ..calibration.scores import SampleScores
    from ..io.labels import Label
    from ..store.records import RunRecord
    from ..store.runs import RunStore


MAX_SHOWN = 20
"""Default number of disagreements to show."""


@click.command(name="calibrate", cls=Command)
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option(
    "--labels",
    "label_files",
    multiple=True,
    required=True,
    type=click.Path(),
    help="Human labels: JSON lines as written by `auepora label`; repeatable.",
)
@click.option("-m", "--metric", metavar="NAME", help="Metric to compare; default: the judge metric of the run.")
@click.option(
    "--scores",
    type=click.Path(),
    help='File with scores to use instead of a metric: {"sample_id": ..., "score": ...} per line.',
)
@click.option(
    "--threshold",
    type=float,
    metavar="NUMBER",
    help="Lowest score that counts as right; default: the middle of the range.",
)
@click.option("--scale", metavar="1-5", help="Scale of numeric labels; default: 0-1.")
@click.option(
    "--tuned-on",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Samples used to tune the prompt; their labels are refused; repeatable.",
)
@click.option("--leave-out-tuned", is_flag=True, help="Leave these labels out instead of refusing them.")
@click.option(
    "--assume-random",
    is_flag=True,
    help="State that labels without a recorded draw are of a random sample; the result repeats it.",
)
@click.option("--these-samples", is_flag=True, help="Estimate the mean of these samples only, not of their population.")
@click.option(
    "--learn-weights",
    type=click.Path(),
    metavar="FILE",
    help="Learn the weights of a stacked vote from the labels and the stored votes of a panel, and write them here.",
)
@click.option(
    "--show", type=click.IntRange(min=0), default=MAX_SHOWN, show_default=True, help="Number of disagreements to show."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@store_option
@quiet_option
@all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def calibrate_command(
    runs: tuple[str, ...],
    label_files: tuple[str, ...],
    metric: str | None,
    scores: str | None,
    threshold: float | None,
    scale: str | None,
    tuned_on: tuple[str, ...],
    leave_out_tuned: bool,
    assume_random: bool,
    these_samples: bool,
    learn_weights: str | None,
    show: int,
    seed: int,
    store: str | None,
    every: bool,
    as_json: bool,
    output: str | None,
) -> None:
    """Compare a metric of the stored RUN (default: the latest) with human labels.

    Reports the agreement between annotators, the agreement of the judge with them, and the disagreements. Then
    estimates the mean that annotators would give to all answers, from their labels and the scores of all answers. With
    two runs, also estimates the difference, second - first. Any metric can be compared, not only judge metrics. The
    last line gives the verdict: usable, usable with correction or not usable, with the reason.

    The labelled answers must be drawn at random, as by `auepora label`, or be all answers; other labels are refused.
    Two runs get a verdict when the drawn samples are labelled, or at the looks that `auepora label --for` fixed.

    With --learn-weights the judge is a panel: its members are weighted by 30 to 100 labels, and the report is about the
    stacked vote. Each labelled answer is scored by weights that its own label did not enter.

    \b
    auepora judge calibrate latest --labels human.jsonl
    auepora judge calibrate latest --labels ann.jsonl --labels bob.jsonl -m llm_faithfulness --threshold 0.75
    auepora judge calibrate baseline latest --labels human.jsonl -m token_f1
    auepora judge calibrate --scores scores.jsonl --labels human.jsonl
    auepora judge calibrate latest --labels human.jsonl --learn-weights weights.json
    """
    from ..calibration.calibrate import calibrate, labelled_metric, register_verdict
    from ..calibration.report import calibration_short
    from ..calibration.scores import read_score_file
    from ..io.sample_sets import read_ids
    from ..labels.agreement import read_annotations

    if len(runs) > 2:
        raise click.UsageError("give one run, or two to compare")
    if scores is not None and (metric is not None or len(runs) > 1):
        raise click.UsageError("--scores replaces -m; use it with one run or none")
    if learn_weights is not None and (scores is not None or len(runs) > 1):
        raise click.UsageError("--learn-weights takes one run, without --scores")
    form = output_format(
        output, as_json=as_json, no_csv="calibrations cannot be written as CSV; write .json, .md or text"
    )
    inputs = [*label_files, *tuned_on, scores]
    refuse_input_as_output(output, inputs)
    refuse_input_as_output(learn_weights, [*inputs, output], option="--learn-weights")
    labels = read_annotations(label_files)

    options: dict[str, Any] = {
        "scale": scale,
        "tuned_on": set(chain.from_iterable(read_ids(path) for path in tuned_on)),
        "leave_out_tuned": leave_out_tuned,
        "seed": seed,
        "draws": read_all_draws(label_files),
        "assume_random": assume_random,
    }

    def measure(scored: Sequence[SampleScores]) -> CalibrationReport:
        return calibrate(labels, *scored, threshold=threshold, finite=these_samples, **options)

    if scores is not None and not runs:
        report = measure([read_score_file(scores)])
    else:
        with open_store(store, output=output) as found:
            names, named = runs or ("latest",), metric or labelled_metric(labels)
            if learn_weights is None:
                records = [found.find(name) for name in names]
                if len({record.run_id for record in records}) < len(records):
                    raise click.UsageError(f"{' and '.join(names)} are the same run, {records[0].run_id}")
                report = measure(_run_scores(found, records, named, scores, options["draws"]))
                report = register_verdict(found, records, report, options["draws"])
            else:
                report = measure(
                    [_learn_weights(found, names[0], labels, metric=named, path=learn_weights, options=options)]
                )
    text = report.to_text(shown=show)
    if is_short(form, output, every=every):
        text = calibration_short(report, [ALL_TABLES]).text()
    markdown = report.to_markdown(shown=show).rstrip("\n")
    write_out(render_document(form, report.to_dict(), markdown=markdown, text=text), output)


def _run_scores(
    store: RunStore,
    records: Sequence[RunRecord],
    metric: str | None,
    scores: str | None,
    draws: Mapping[str, Sequence[LabelDraw]],
) -> list[SampleScores]:
    from ..calibration.calibrate import load_compared_scores
    from ..calibration.scores import attach_answers, read_score_file

    if scores is not None:
        return [attach_answers(read_score_file(scores), store, records[0])]
    return load_compared_scores(store, records, metric, draws)


def _learn_weights(
    store: RunStore, run: str, labels: Sequence[Label], *, metric: str | None, path: str, options: Mapping[str, Any]
) -> SampleScores:
    """Write the weights of the panel of a run; returns the scores of its stacked vote."""
    from ..calibration.panel_weights import learn_weights, write_weights
    from ..render.terminal import progress

    record = store.find(run)
    with progress("reading votes", record.num_samples, rate=True) as advance:
        weights, scored = learn_weights(store, record, labels, metric, on_progress=advance, **options)
    write_weights(weights, path)
    return scored


# --- auepora judge bias ----------------------------------------------------------------------------------------------


@click.command(name="bias", cls=Command)
@click.argument("runs", nargs=-1, shell_complete=complete_run)
@click.option(
    "--labels",
    "label_files",
    multiple=True,
    type=click.Path(),
    help="Human labels: JSON lines as written by `auepora label`; repeatable. Without them: an association.",
)
@click.option("-m", "--metric", metavar="NAME", help="Metric to examine; default: the judge metric of the run.")
@click.option("--scale", metavar="1-5", help="Scale of numeric labels; default: 0-1.")
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="RUN=FAMILY",
    help="Model family of a run, if its configuration does not name a known model; repeatable.",
)
@click.option("--judge-family", metavar="FAMILY", help="Model family of the judge, if its name does not tell.")
@click.option(
    "--preferences",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Report of `auepora prefer --json -o FILE`, for the effect of position; repeatable.",
)
@click.option(
    "--assume-random",
    is_flag=True,
    help="State that labels without a recorded draw are of a random sample; the result repeats it.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@store_option
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("-o", "--output", type=click.Path(), help="Write to this file (.json, .md, else text).")
def bias_command(
    runs: tuple[str, ...],
    label_files: tuple[str, ...],
    metric: str | None,
    scale: str | None,
    families: tuple[str, ...],
    judge_family: str | None,
    preferences: tuple[str, ...],
    assume_random: bool,
    seed: int,
    store: str | None,
    as_json: bool,
    output: str | None,
) -> None:
    """Show how the judge of the stored RUNs (default: the latest) depends on length, family and position.

    With human labels the outcome is the judge's score minus the label: a dependence is a bias of the judge. Without
    them the outcome is the score, and a dependence is an association: longer answers may be better. Intervals come from
    resampling questions. Give runs of several systems to compare answers of the judge's own model family with others.

    \b
    auepora judge bias latest --labels human.jsonl
    auepora judge bias gpt-run llama-run --labels human.jsonl -m llm_faithfulness --family llama-run=llama
    auepora judge bias latest --preferences preferred.json
    """
    from ..calibration.bias import measure_bias
    from ..labels.agreement import read_annotations

    form = output_format(
        output, as_json=as_json, no_csv="a bias report cannot be written as CSV; write .json, .md or text"
    )
    refuse_input_as_output(output, [*label_files, *preferences])
    named = dict(_family_option(text) for text in families)
    labels = read_annotations(label_files) if label_files else None
    with open_store(store, output=output) as found:
        records = [found.find(run) for run in runs or ("latest",)]
        given = {found.find(run).run_id: family for run, family in named.items()}
        if len({record.run_id for record in records}) < len(records):
            raise click.UsageError("a run is named twice; name every run once")
        report = measure_bias(
            found,
            records,
            metric=metric,
            labels=labels,
            scale=scale,
            families=given,
            judge_family=judge_family and judge_family.lower(),
            preferences=preferences,
            seed=seed,
            draws=read_all_draws(label_files),
            assume_random=assume_random,
        )
    write_out(
        render_document(form, report.to_dict(), markdown=report.to_markdown().rstrip("\n"), text=report.to_text()),
        output,
    )


def _family_option(text: str) -> tuple[str, str]:
    run, equals, family = text.rpartition("=")
    if not equals or not run or not family:
        raise click.UsageError(f"--family {text}: write RUN=FAMILY, such as --family latest=llama")
    return run, family.lower()
