"""Metric cards: what each number is, by which formula and convention, and on how many samples it stands."""

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
    """Where the card of a metric is; a name may hold anything, a place in a page may not."""
    return f"#{_anchor(name)}"


def _anchor(name: str) -> str:
    return f"card/{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def cards_section(runs: Sequence[StoredRun]) -> ReportSection | None:
    """A card per metric; of one that several runs have, that of the last of them."""
    held: dict[str, tuple[StoredRun, MetricResult]] = {}
    for run in runs:
        held.update({one.name: (run, one) for one in run.results})
    if not held:
        return None
    folds = [Details(display_name(one), _blocks(run, one), anchor=_anchor(name)) for name, (run, one) in held.items()]
    lead = (
        "Open a metric to see its formula, its conventions and the samples it stands on. "
        "`auepora explain` derives the score of any single query step by step."
    )
    return ReportSection("cards", "What the numbers are", [DetailsGrid(folds)], lead)


def _blocks(run: StoredRun, result: MetricResult) -> list[Block]:
    told = card(result, resolve_result_metric(result, run.record, {}).metric)
    blocks: list[Block] = [Prose(told.summary)]
    if told.formula:
        blocks.append(Code(told.formula))
    blocks += [Prose(paragraph) for paragraph in told.text]
    blocks.append(DefinitionList(_facts(run, result, told)))
    if told.choices:
        rows: list[Row] = [[Cell(one.key), Cell(one.value, code=True), one.words] for one in told.choices]
        blocks.append(simple_table([TableColumn("choice"), TableColumn("here"), TableColumn("what it means")], rows))
    notes = [*(() if told.samples is None else _reasons(told.samples)), *told.notes]
    if notes:
        blocks.append(Bullets(notes))
    return blocks


def _facts(run: StoredRun, result: MetricResult, told: Card) -> list[tuple[str, str | Cell]]:
    facts: list[tuple[str, str | Cell]] = [
        (f"in {run.letter}" if run.letter else "here", f"{describe_result(result)}."),
        ("judges", f"{told.target_title}: {told.question}"),
        ("range", f"{told.range_text}, {told.direction}"),
        ("made of scores", told.reducer),
        ("a failed answer", told.failure),
        ("convention", told.convention),
    ]
    if told.samples is not None:
        facts.append(("samples", _samples(told.samples)))
    if told.interval is not None:
        facts.append(("interval", "; ".join([told.interval.words, *told.interval.doubts])))
    if told.value_completed is not None:
        facts.append(("answered only", value_text(told.value_completed)))
    if told.bounds is not None:
        facts.append(("all measured", f"between {value_text(told.bounds[0])} and {value_text(told.bounds[1])}"))
    facts.append(("signature", Cell(told.signature or "none", code=True)))
    if told.reference:
        facts.append(("reference", told.reference))
    return [(name, value) for name, value in facts if value]


def _samples(told: SampleCounts) -> str:
    return (
        f"{told.counted:,} of {told.total:,} are in the value; {told.scored:,} scored, {told.skipped:,} skipped, "
        f"{told.system_failed:,} failed by the system, {told.measure_failed:,} not measured"
    )


def _reasons(told: SampleCounts) -> list[str]:
    return [_reason("skipped", one) for one in told.skips] + [_reason("failed", one) for one in told.failures]


def _reason(outcome: str, one: ReasonCount) -> str:
    needed = f"; {one.needed}" if one.needed else ""
    return f"{one.count:,} {outcome} ({one.reason}): {one.words}{needed}"
