"""Metric cards: what each number is, by which formula and convention, and on how many samples it stands."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ...core.errors import AueporaError
from ...core.registry import metric_info
from ...core.results import display_name
from ...core.signature import Signature
from ...core.targets import TARGETS
from ...core.types import MetricResult
from ..metric_cards import MetricCard, metric_card
from ..plain_math import plain_math
from .blocks import Block, Cell, Code, Facts, Fold, Prose, Section, Shelf
from .stored_run import StoredRun
from .wording import counted

__all__ = ["card_link", "cards_section"]

_METHODS = {
    "t": "Student's t over clusters, or samples where each is on its own",
    "wilson": "Wilson's interval of a share",
    "bootstrap": "bootstrap",
}


def card_link(name: str) -> str:
    """Where the card of a metric is; a name may hold anything, a place in a page may not."""
    return f"#{_anchor(name)}"


def _anchor(name: str) -> str:
    return f"card/{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def cards_section(runs: Sequence[StoredRun]) -> Section | None:
    """A card per metric; of one that several runs have, that of the last of them."""
    held: dict[str, tuple[StoredRun, MetricResult]] = {}
    for run in runs:
        held.update({one.name: (run, one) for one in run.results})
    if not held:
        return None
    folds = [Fold(display_name(one), _card(run, one), anchor=_anchor(name)) for name, (run, one) in held.items()]
    return Section(
        "cards", "What the numbers are", [Shelf(folds)], "Open a metric to see its formula and its conventions."
    )


def _card(run: StoredRun, result: MetricResult) -> list[Block]:
    card = _registered(result)
    blocks: list[Block] = []
    if card is not None:
        blocks.append(Prose(card.summary))
        if card.formula:
            blocks.append(Code(plain_math(card.formula)))
        blocks += [Prose(paragraph) for paragraph in card.text]
    else:
        blocks.append(Prose("A metric that is not known in this process: there is nothing to say about its formula."))
    blocks.append(Facts(_facts(run, result, card)))
    return blocks


def _registered(result: MetricResult) -> MetricCard | None:
    name = re.split(r"[|@\[]", result.signature or result.name, maxsplit=1)[0]
    try:
        return metric_card(metric_info(name))
    except (AueporaError, ValueError):
        return None


def _facts(run: StoredRun, result: MetricResult, card: MetricCard | None) -> list[tuple[str, str | Cell]]:
    details, definition = result.details, run.definition(result)
    target = TARGETS[result.target]
    facts: list[tuple[str, str | Cell]] = [
        ("here" if not run.letter else f"in {run.letter}", f"{counted(result)}."),
        ("target", f"{target.title}: {target.pair}"),
        ("better", "higher" if definition.higher_is_better else "lower"),
    ]
    if card is not None:
        facts.append(("range", card.range_text))
        facts.append(("a failed answer", card.failures))
    facts.append(
        (
            "samples",
            f"{details.get('num_samples', 'not told')} in the value; {details.get('num_scored', 'not told')} scored, "
            f"{details.get('num_skipped', 0)} skipped, {details.get('num_system_failed', 0)} failed by the system, "
            f"{details.get('num_measure_failed', 0)} not measured",
        )
    )
    interval = details.get("interval")
    if result.interval is not None and isinstance(interval, dict):
        method = str(interval.get("method", ""))
        flags = "".join(f", {flag}" for flag in interval.get("flags") or ())
        facts.append(("interval", f"{_METHODS.get(method, method)}, {interval.get('units', '?')} units{flags}"))
    facts += [(f"choice {key}", value) for key, value in _choices(result.signature).items()]
    facts.append(("signature", Cell(result.signature or "none", code=True)))
    if card is not None and card.reference:
        facts.append(("reference", card.reference))
    return facts


def _choices(signature: str | None) -> dict[str, str]:
    try:
        return dict(Signature.parse(signature or "").choices)
    except AueporaError:
        return {}
