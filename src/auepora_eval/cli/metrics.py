"""``auepora metrics`` and ``crosscheck``: the metrics, explained and compared with other implementations."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..core.registry import MetricInfo, metric_info
from ..render.tables import table
from ..report.cards import MetricCard, metric_card, metric_cards
from .console import echo_err, json_text
from .help_pages import Command
from .options import target_option

if TYPE_CHECKING:
    from ..core.types import TargetCategory
    from ..crosscheck import CrossCheck


# --- auepora metrics -------------------------------------------------------------------------------------------------


@click.command(name="metrics", cls=Command)
@click.argument("name", required=False)
@target_option("lists its metrics alone")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def metrics_command(name: str | None, targets: tuple[TargetCategory, ...], as_json: bool) -> None:
    """List the metrics, or explain the metric NAME.

    Write the options of a metric after a colon: auepora score ... -m ndcg@10:gain_scheme=linear,as=mine

    \b
    auepora metrics
    auepora metrics --target faithfulness
    auepora metrics ndcg
    auepora metrics recall@5 --json
    """
    if name is not None and targets:
        raise click.UsageError("give NAME or --target, not both")
    if name is not None:
        info = metric_info(name)  # any form: mrr, mrr@10, or mrr[@k] as in the list
        card = metric_card(info)
        text = f"{card.to_text()}\n\n{_option_example(info)}"
        click.echo(json_text(_card_dict(card)) if as_json else text)
        return
    cards = [card for card in metric_cards() if not targets or card.target in targets]
    if as_json:
        click.echo(json_text([_card_dict(card) for card in cards]))
        return
    click.echo(_listing(cards))
    if any(card.higher_is_better is False for card in cards):
        click.echo(f"\n{LOWER} lower is better")
    echo_err("\n`auepora metrics NAME` explains one.")


LOWER = "↓"


def _listing(cards: Sequence[MetricCard]) -> str:
    """One line per metric for a pipe; for a terminal, wrapped paragraphs under a heading per target."""
    import shutil
    from textwrap import wrap

    from ..core.targets import TARGETS

    order = list(TARGETS)
    cards = sorted(cards, key=lambda c: (order.index(c.target) if c.target in order else len(order), c.name))
    narrow = sys.stdout.isatty()
    left = 2 + max(len(card.pattern) for card in cards) + 2 + max(len(_range(card)) for card in cards) + 2
    room = max(20, shutil.get_terminal_size().columns - left)
    rows: list[list[str]] = []
    last = None
    for card in cards:
        title = TARGETS[card.target].title if card.target is not None else "Other"
        if narrow:
            first, *more = wrap(card.summary, room) or [""]
            if title != last:
                rows += [["", "", ""]] * bool(rows) + [[title, "", ""]]
            rows.append([f"  {card.pattern}", _range(card), first])
            rows += [["", "", line] for line in more]
        else:
            rows.append(["" if title == last else title, card.pattern, _range(card), card.summary])
        last = title
    headers = ["metric", "range", "what it says"]
    return table(rows, headers=headers if narrow else ["target", *headers])


def _range(card: MetricCard) -> str:
    if card.range is None and card.follows_base:
        return "varies"  # the full text of the card would leave no room for the summary
    return f"{card.range_text} {LOWER}" if card.higher_is_better is False else card.range_text


def _option_example(info: MetricInfo) -> str:
    """An example of this metric after ``-m`` with an option."""
    import inspect

    python_only = info.metadata.python_options
    own = [name for name in info.options if name != info.at and name not in info.keys and name not in python_only]
    options = [f"{name}=VALUE" for name in own[:1]]
    if not own and "retrieved" in info.metadata.reads:
        options = ["min_relevance=2"]  # a convention is an option of every metric; this one applies to rankings
    spec = info.name if info.at is None else f"{info.name}@10"
    if info.keys:
        defaults = {key: info.parameters[key].default for key in info.keys}
        shown = [key if default is inspect.Parameter.empty else str(default) for key, default in defaults.items()]
        spec += f"[{','.join(shown)}]"
    return f"Set options on the command line after a colon: -m '{spec}:{','.join([*options, 'as=NAME'])}'"


def _card_dict(card: MetricCard) -> dict[str, object]:
    fields = asdict(card)
    fields["target"] = None if card.target is None else card.target.name
    fields["prompts"] = dict(card.prompts)
    if card.range is not None:
        fields["range"] = [None if math.isinf(bound) else bound for bound in card.range]
    return fields


# --- auepora crosscheck ----------------------------------------------------------------------------------------------

_MODEL_CASES = 50
"""Limit on cases with a model, which scores one pair of texts at a time."""


@click.command(name="crosscheck", cls=Command)
@click.option("--cases", default=200, show_default=True, type=click.IntRange(min=1), help="Generated cases per metric.")
@click.option("--seed", default=0, show_default=True, help="Seed of the generated cases.")
@click.option("--peers/--no-peers", default=True, show_default=True, help="Also compare with other tools.")
@click.option(
    "--model", type=click.Path(), help="Folder with a sentence-transformers model; also checks the semantic metrics."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def crosscheck_command(cases: int, seed: int, peers: bool, model: str | None, as_json: bool) -> None:
    """Compare every metric with its plain definition and with other tools.

    The deviation is |a - b| / max(1, |b|). The exit code is 1 if one is above 1e-9, or above 1e-4 for a metric that
    uses a model.

    \b
    auepora crosscheck
    auepora crosscheck --no-peers --cases 1000 --json
    auepora crosscheck --model models/all-MiniLM-L6-v2
    """
    from ..crosscheck import (
        DEFECTS,
        PEERS,
        TOLERANCE,
        merge_checks,
        model_checks,
        peer_checks,
        plain_checks,
        roc_checks,
    )

    echo_err("checking against the plain definitions")
    checks = [*plain_checks(cases, seed=seed), *roc_checks(cases, seed=seed)]
    if model is not None:
        echo_err("checking the semantic metrics")
        checks += model_checks(min(cases, _MODEL_CASES), seed=seed, model=model)
    absent = []
    for name, peer in PEERS.items() if peers else ():
        if not peer.installed:
            absent.append(name)
            continue
        note = " (it compiles for about a minute)" if name == "ranx" else ""
        echo_err(f"checking against {name}{note}")
        checks += peer_checks(name, cases, seed=seed)
    checks = merge_checks(checks)
    wrong = [check for check in checks if not check.agrees]
    if as_json:
        document = {
            "schema": 1,
            "agree": all(check.agrees for check in checks),
            "checks": [_check_document(check) for check in checks],
            "not_installed": absent,
            "known_defects": [asdict(defect) for defect in DEFECTS],
        }
        click.echo(json_text(document))
    else:
        rows = []
        for check in sorted(checks, key=lambda check: (check.metric, check.against)):
            state = "ok" if check.agrees else "DEVIATES"
            rows.append([check.metric, check.against, str(check.cases), f"{check.largest:.1e}", state])
        click.echo(table(rows, headers=["metric", "against", "cases", "largest deviation", ""], right=(2, 3)))
        for check in wrong:
            click.echo(f"deviates: {check.metric} against {check.against}: {check.worst_case}")
        defects = [[defect.peer, defect.metric, defect.what] for defect in DEFECTS]
        click.echo(f"\n{table(defects, headers=['other tool', 'its', 'is left out: known defect'])}\n")
        if absent:
            click.echo(f"not installed: {', '.join(absent)}")
        less = " (1e-4 where a model computes)" if model is not None else ""
        click.echo(f"{len(checks) - len(wrong)} of {len(checks)} agree within {TOLERANCE:g}{less}")
    if wrong:
        sys.exit(1)


def _check_document(check: CrossCheck) -> dict[str, Any]:
    largest = None if math.isinf(check.largest) else check.largest
    return {**asdict(check), "largest": largest, "agrees": check.agrees}
