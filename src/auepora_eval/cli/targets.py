"""``auepora targets``: what can be judged, by which metrics, and what a dataset has for it."""

from __future__ import annotations

from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

import click

from ..core.targets import TARGETS
from ..engine.targets import TargetSupport, possible_metrics, support_by_specs
from .console import echo, json_text, quiet_option
from .help_pages import Command
from .options import columns_option

if TYPE_CHECKING:
    from ..io.validate import Validation

WIDTH = 100
"""The longest line."""


@click.command(name="targets", cls=Command)
@click.argument("dataset", required=False, type=click.Path())
@click.argument("outputs", required=False, type=click.Path())
@columns_option()
@quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(dataset: str | None, outputs: str | None, columns: dict[str, str] | None, as_json: bool) -> None:
    """List the targets: what each compares, its metrics, and the annotations that it needs.

    Of a DATASET, with or without OUTPUTS: the metrics that it supports, what it has of the annotations, and what is
    missing. Name a target with --target in score, run, rescore, metrics and init, or under `targets` in a plan.

    \b
    auepora targets
    auepora targets data.jsonl
    auepora targets data.jsonl outputs.jsonl --json
    """
    from ..io.validate import validate_files

    targets, checked = list(TARGETS), None
    if dataset is None:
        specs = [metric.name for metric in possible_metrics(targets)]
        support = support_by_specs(targets, specs, timings_known=False)
    else:
        checked = validate_files(dataset, outputs, columns=columns, targets=targets)
        support = checked.targets
    if checked is not None and checked.problems:
        raise click.UsageError(f"{checked.problems[0]}; `auepora validate` lists all problems of the data")
    rows = [_target_dict(found, checked) for found in support]
    if as_json:
        echo(json_text({"schema": 1, "targets": rows}))
        return
    for row in rows:
        echo(f"{_paragraph(row)}\n")


def _target_dict(found: TargetSupport, checked: Validation | None) -> dict[str, Any]:

    target = TARGETS[found.target]
    needs = [*target.needs, *target.reads]
    counts = {} if checked is None else {name: checked.describe_count(name) for name in needs}
    return {
        "target": target.name,
        "aliases": list(target.aliases),
        "question": target.question,
        "compares": target.pair,
        "needs": needs,
        "has": counts,
        "primary": found.primary,
        "metrics": found.patterns,
        "judged": list(found.judged),
        "missing": found.problem or None,
    }


def _paragraph(row: dict[str, Any]) -> str:
    """The lines of one target."""
    lines = {
        "compares": row["compares"],
        "needs": ", ".join(row["needs"]),
        "data": ", ".join(f"{name} in {count}" for name, count in row["has"].items()),
        "primary": ", ".join(row["primary"]),
        "metrics": ", ".join(row["metrics"]),
        "judge": ", ".join(row["judged"]),
        "missing": row["missing"],
    }
    also = f" (also {', '.join(row['aliases'])})" * bool(row["aliases"])
    shown = [f"{row['target']}{also}\n  {row['question']}"]
    wrapper = TextWrapper(WIDTH, subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False)
    shown += [wrapper.fill(f"  {label:<9} {text}") for label, text in lines.items() if text]
    return "\n".join(shown)
