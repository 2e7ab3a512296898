"""The section of metric cards: formula, conventions and sample counts of each metric."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ...core.results import display_name
from ...core.types import MetricResult
from ...explaining.cards import Card, ReasonCount, SampleCounts, card
from ...explaining.metric_lookup import resolve_result_metric
from .blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    DefinitionList,
    Details,
    DetailsGrid,
    Prose,
    ReportSection,
    Row,
    TableColumn,
    simple_table,
)
from .formatting import describe_result, value_text
from .stored_run import StoredRun

__all__ = ["card_link", "cards_section"]


def card_link(name: str) -> str:
    """The link to the card of a metric; the name is hashed, since an anchor allows fewer characters."""
    return f"#{_anchor(name)}"


def _anchor(name: str) -> str:
    return f"card/{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def cards_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """A card per metric; for a metric of several runs, that of the last run."""
    latest_results: dict[str, tuple[StoredRun, MetricResult]] = {}
    for run in runs:
        latest_results.update({one.name: (run, one) for one in run.results})
    if not latest_results:
        return None
    cards = [
        Details(display_name(one), _blocks(run, one), anchor=_anchor(name))
        for name, (run, one) in latest_results.items()
    ]
    lead = (
        "Open a metric to see its formula, its conventions and the samples it stands on. "
        "`auepora explain` derives the score of any single query step by step."
    )
    return ReportSection("cards", "What the numbers are", [DetailsGrid(cards)], lead)


def _blocks(run: StoredRun, result: MetricResult) -> list[Block]:
    card_data = card(result, resolve_result_metric(result, run.record, {}).metric)
    blocks: list[Block] = [Prose(card_data.summary)]
    if card_data.formula:
        blocks.append(Code(card_data.formula))
    blocks += [Prose(paragraph) for paragraph in card_data.text]
    blocks.append(DefinitionList(_card_facts(run, result, card_data)))
    if card_data.choices:
        rows: list[Row] = [[Cell(one.key), Cell(one.value, code=True), one.words] for one in card_data.choices]
        blocks.append(simple_table([TableColumn("choice"), TableColumn("here"), TableColumn("what it means")], rows))
    notes = [*(() if card_data.samples is None else _reasons(card_data.samples)), *card_data.notes]
    if notes:
        blocks.append(Bullets(notes))
    return blocks


def _card_facts(run: StoredRun, result: MetricResult, card_data: Card) -> list[tuple[str, str | Cell]]:
    facts: list[tuple[str, str | Cell]] = [
        (f"in {run.letter}" if run.letter else "here", f"{describe_result(result)}."),
        ("judges", f"{card_data.target_title}: {card_data.question}"),
        ("range", f"{card_data.range_text}, {card_data.direction}"),
        ("made of scores", card_data.reducer),
        ("a failed answer", card_data.failure),
        ("convention", card_data.convention),
    ]
    if card_data.samples is not None:
        facts.append(("samples", _samples(card_data.samples)))
    if card_data.interval is not None:
        facts.append(("interval", "; ".join([card_data.interval.words, *card_data.interval.doubts])))
    if card_data.value_completed is not None:
        facts.append(("answered only", value_text(card_data.value_completed)))
    if card_data.bounds is not None:
        facts.append(
            ("all measured", f"between {value_text(card_data.bounds[0])} and {value_text(card_data.bounds[1])}")
        )
    facts.append(("signature", Cell(card_data.signature or "none", code=True)))
    if card_data.reference:
        facts.append(("reference", card_data.reference))
    return [(name, value) for name, value in facts if value]


def _samples(counts: SampleCounts) -> str:
    return (
        f"{counts.counted:,} of {counts.total:,} are in the value; {counts.scored:,} scored, {counts.skipped:,} "
        f"skipped, {counts.system_failed:,} failed by the system, {counts.measure_failed:,} not measured"
    )


def _reasons(counts: SampleCounts) -> list[str]:
    return [_reason("skipped", one) for one in counts.skips] + [_reason("failed", one) for one in counts.failures]


def _reason(outcome: str, one: ReasonCount) -> str:
    needed = f"; {one.needed}" if one.needed else ""
    return f"{one.count:,} {outcome} ({one.reason}): {one.words}{needed}"
