"""Results in the short form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.results import Results, display_name, registered_name, script_note
from ..core.types import MetricResult
from ..render.blocks import Row, TableColumn, simple_table, without_empty_columns
from ..render.short import MAX_LINES, WIDTH, ShortForm, group_messages, grouped_warnings, rounded, rounded_interval
from ..render.tables import UNRELIABLE_NOTE, result_note
from ..render.terminal import cut_text, text_width
from .judge_options import run_failure

_TITLES = ("metric", "value", "95 % interval", "mean of (samples)")
_LEAST_NOTE = 20
"""Width of what a value is a mean of, at least."""
_ONLY_SKIPPED = re.compile(r"\d+ of \d+; \d+ skipped \([^;]*\)")
_MOST_NAMED = 3
"""Number of values in the conclusion."""
_FIRST = ("token_f1", "exact_match", "recall", "ndcg", "hallucination_rate", "rejection_f1", "mean_latency[end_to_end]")
"""Metrics that come first where a plan names no primary ones."""


def results_short(
    results: Results,
    plan: Mapping[str, Any],
    *,
    failed: str,
    head: str = "",
    notes: Iterable[tuple[str, str | None]] = (),
    commands: Sequence[tuple[str, str]] = (),
) -> ShortForm:
    """Results in the short form: the primary metrics and guardrails of the plan, or else all that there is room for.

    ``failed`` says how many outputs failed, as ``failed_samples`` does; nothing is said without it.
    """
    names = [*(plan.get("primary") or ()), *(plan.get("guardrails") or ())]
    chosen = [result for result in results if result.name in names]
    first = {registered_name(result): result for result in results}  # the one with the deepest cut-off
    listed = chosen or [*(first[name] for name in _FIRST if name in first), *results]
    rows: list[Row] = []
    doubts: list[tuple[str, str]] = []
    for result in {result.name: result for result in listed}.values():
        ends = result.interval if result.defined else None
        name, is_doubtful = display_name(result), bool(ends and result.details.interval.flags)
        interval = f"{rounded_interval(ends)}{' ?' * is_doubtful}"
        rows.append([name, rounded(result.known_value, ends), interval, result_note(result)])
        doubts += [(name, UNRELIABLE_NOTE)] * is_doubtful
    long_notes = _cut_notes(rows)
    values = ", ".join(f"{name} {value}" for name, value, *_ in rows[:_MOST_NAMED])
    every = [
        ("failed", failed),
        ("flagged", "; ".join(group_messages(doubts))),
        *(("mean of", note) for note in long_notes),
        ("gold", (results.gold_match or {}).get("sentence")),
        *((name, _groups_text(result, name)) for result in listed[:1] for name in result.slices),
        *(("warning", warning) for warning in [script_note(results), *grouped_warnings(results)]),
        *notes,
        ("not shown", f"{len(results) - len(rows)} of {len(results)} metrics" * (len(rows) < len(results))),
    ]
    failure = run_failure(results) if results else None
    shown = f"{head}: {values}" if head and values else f"{head}{values}"
    conclusion = f"Failed: {failure}; {shown}" if failure else f"{shown}; {failed}".removesuffix("; ")
    columns = [TableColumn(title, number=title == "value") for title in _TITLES]
    return ShortForm(conclusion, [without_empty_columns(simple_table(columns, rows))], notes=every, commands=commands)


def _cut_notes(rows: Sequence[Row]) -> list[str]:
    """Cut the last cells of rows to the width that the others leave; returns the whole texts of those cut, grouped.

    A note of skipped samples alone is only cut. Rows that there is no room for stay as they are.
    """
    shown = rows[:MAX_LINES]
    widths = [max(text_width(str(cell)) for cell in column) for column in zip(_TITLES, *shown, strict=True)]
    room = max(WIDTH - sum(widths[:-1]) - 2 * len(widths[:-1]), _LEAST_NOTE)
    cut: list[tuple[str, str]] = []
    for row in shown:
        name, note = str(row[0]), str(row[-1])
        row[-1] = cut_text(note, room)
        if row[-1] != note and not _ONLY_SKIPPED.fullmatch(note):
            cut.append((name, note))
    return group_messages(cut)


def _groups_text(result: MetricResult, name: str) -> str:
    """The values of a metric in the groups of a slice."""
    parts = [f"{group} {rounded(part.known_value, part.interval)}" for group, part in result.slices[name].items()]
    return f"{display_name(result)}: {', '.join(parts)}"
