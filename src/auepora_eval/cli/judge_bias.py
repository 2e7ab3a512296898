"""``auepora judge bias``: how a judge depends on the length, position and model family of answers."""

from __future__ import annotations

import json

import click

from .console import quiet_option
from .options import complete_run, open_store, store_option


@click.command(name="bias")
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
def command(
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
    from ..annotate.agreement import read_annotations
    from ..annotate.bias import measure_bias
    from ..annotate.draws import read_all_draws
    from .options import output_format, refuse_input_as_output, write_out

    form = "json" if as_json else output_format(output)
    if form == "csv":
        raise click.UsageError("a bias report cannot be written as CSV; write .json, .md or text")
    refuse_input_as_output(output, [*label_files, *preferences])
    named = dict(_family_option(text) for text in families)
    labels = read_annotations(label_files) if label_files else None
    with open_store(store, output=output) as found:
        records = [found.find(one) for one in runs or ("latest",)]
        given = {found.find(run).run_id: family for run, family in named.items()}
        if len({one.run_id for one in records}) < len(records):
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
    if form == "json":
        write_out(json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False), output)
    else:
        write_out(report.to_markdown().rstrip("\n") if form == "markdown" else report.to_text(), output)


def _family_option(text: str) -> tuple[str, str]:
    run, equals, family = text.rpartition("=")
    if not equals or not run or not family:
        raise click.UsageError(f"--family {text}: write RUN=FAMILY, such as --family latest=llama")
    return run, family.lower()
