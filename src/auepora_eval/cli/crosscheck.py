"""``auepora crosscheck``: every metric computed twice, and against other tools where they are installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from .console import echo_err

if TYPE_CHECKING:
    from ..crosscheck import CrossCheck


DEVIATES = 1
_MODEL_CASES = 50
"""Limit on cases with a model, which scores one pair of texts at a time."""


@click.command(name="crosscheck")
@click.option("--cases", default=200, show_default=True, type=click.IntRange(min=1), help="Generated cases per metric.")
@click.option("--seed", default=0, show_default=True, help="Seed of the generated cases.")
@click.option("--peers/--no-peers", default=True, show_default=True, help="Also compare with other tools.")
@click.option(
    "--model", type=click.Path(), help="Folder with a sentence-transformers model; also checks the semantic metrics."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(cases: int, seed: int, peers: bool, model: str | None, as_json: bool) -> None:
    """Compare every metric with its plain definition and with other tools.

    The deviation is |a - b| / max(1, |b|). The exit code is 1 if one is above 1e-9, or above 1e-4 for a metric that
    uses a model.

    \b
    auepora crosscheck
    auepora crosscheck --no-peers --cases 1000 --json
    auepora crosscheck --model models/all-MiniLM-L6-v2
    """
    from ..crosscheck import PEERS, TOLERANCE, merge_checks, model_checks, peer_checks, plain_checks, roc_checks

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
        _print_json(checks, absent)
    else:
        _print_table(checks)
        for check in wrong:
            click.echo(f"deviates: {check.metric} against {check.against}: {check.worst_case}")
        _print_defects()
        if absent:
            click.echo(f"not installed: {', '.join(absent)}")
        less = " (1e-4 where a model computes)" if model is not None else ""
        click.echo(f"{len(checks) - len(wrong)} of {len(checks)} agree within {TOLERANCE:g}{less}")
    if wrong:
        sys.exit(DEVIATES)


def _print_table(checks: list[CrossCheck]) -> None:
    from ..render.tables import table

    rows = [
        [check.metric, check.against, str(check.cases), f"{check.largest:.1e}", "ok" if check.agrees else "DEVIATES"]
        for check in sorted(checks, key=lambda check: (check.metric, check.against))
    ]
    click.echo(table(rows, headers=["metric", "against", "cases", "largest deviation", ""], right=(2, 3)))


def _print_defects() -> None:
    from ..crosscheck import DEFECTS
    from ..render.tables import table

    rows = [[defect.peer, defect.metric, defect.what] for defect in DEFECTS]
    click.echo(f"\n{table(rows, headers=['other tool', 'its', 'is left out: known defect'])}\n")


def _print_json(checks: list[CrossCheck], absent: list[str]) -> None:
    import json
    import math
    from dataclasses import asdict

    from ..crosscheck import DEFECTS

    document = {
        "schema": 1,
        "agree": all(check.agrees for check in checks),
        "checks": [
            {**asdict(check), "largest": None if math.isinf(check.largest) else check.largest, "agrees": check.agrees}
            for check in checks
        ],
        "not_installed": absent,
        "known_defects": [asdict(defect) for defect in DEFECTS],
    }
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
