"""Rendering of explanations for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core.derivation import Cell, DerivationStep, StepTable, format_number
from ..reporting.markdown import escape_markdown, markdown_table
from ..reporting.tables import escape_line_breaks, format_value, table
from .cards import Card, ReasonCount
from .types import Explanation, Influence, QueryExplanation, RecomputationCheck, Reduction, RepeatExplanation

__all__ = ["card_lines", "explanation_markdown", "explanation_text"]

MAX_ROWS = 50
"""The number of table rows shown."""
MAX_WIDTH = 600
"""The number of characters of a cell or sentence shown; JSON has all."""


@dataclass(frozen=True, slots=True)
class _Style:
    """Formats the parts for a terminal or as Markdown."""

    markdown: bool

    def heading(self, text: str) -> str:
        """A heading."""
        return (
            f"## {escape_markdown(text)}"
            if self.markdown
            else f"{escape_line_breaks(text)}\n{'-' * len(escape_line_breaks(text))}"
        )

    def text(self, text: str) -> str:
        """A sentence."""
        cut = text if len(text) <= 4 * MAX_WIDTH else f"{text[: 4 * MAX_WIDTH]}…"
        return escape_markdown(cut) if self.markdown else escape_line_breaks(cut)

    def item(self, text: str) -> str:
        """A list item."""
        return f"- {self.text(text)}" if self.markdown else f"  {self.text(text)}"

    def grid(self, headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
        """A table, truncated to the first rows."""
        right = [i for i in range(len(headers)) if rows and all(_is_number(row[i]) for row in rows)]
        shown = [[_cell(cell) for cell in row] for row in rows[:MAX_ROWS]]
        if self.markdown:
            safe = [
                [
                    escape_markdown(text) if isinstance(cell, str) else text
                    for text, cell in zip(cells, row, strict=True)
                ]
                for cells, row in zip(shown, rows, strict=False)
            ]
            text = markdown_table(list(map(escape_markdown, headers)), safe, right=right)
        else:
            text = "\n".join(f"  {line}" for line in table(shown, headers=headers, right=right).splitlines())
        more = len(rows) - len(shown)
        return f"{text}\n\n{self.text(f'... and {more} more rows; --json has all')}" if more > 0 else text


def _is_number(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (int, float)):
        return format_number(cell)
    return cell if len(cell) <= MAX_WIDTH else f"{cell[:MAX_WIDTH]}…"


def explanation_text(explanation: Explanation) -> str:
    """For a terminal."""
    return _explanation(explanation, _Style(markdown=False))


def explanation_markdown(explanation: Explanation) -> str:
    """As a Markdown page."""
    return _explanation(explanation, _Style(markdown=True))


def _explanation(explanation: Explanation, style: _Style) -> str:
    title = f"{explanation.card.title} of {explanation.run} ({explanation.run_id})"
    parts = [f"# {escape_markdown(title)}" if style.markdown else escape_line_breaks(title)]
    parts += ["\n".join(map(style.item, explanation.notes))] if explanation.notes else []
    if explanation.query is None:
        parts += card_lines(explanation.card, style)
        parts += [] if explanation.reduction is None else _reduction_lines(explanation.reduction, style)
    else:
        parts += _short_card(explanation.card, style)
        parts += _query(explanation.query, style)
    return "\n\n".join(parts)


def card_lines(card: Card, style: _Style | None = None) -> list[str]:
    """The parts of a card: summary, facts, options and samples."""
    style = style or _Style(markdown=False)
    parts = [style.text(card.summary)]
    if card.formula:
        parts.append(f"    {escape_line_breaks(card.formula)}")
    parts += [style.text(paragraph) for paragraph in card.text]
    facts = [
        ("value", "none" if card.value is None else f"{format_value(card.value)}  ({card.value!r})"),
        ("95 % interval", _interval(card)),
        ("without failures", "" if card.value_completed is None else format_value(card.value_completed)),
        ("had all been measured", "" if card.bounds is None else " to ".join(map(format_value, card.bounds))),
        ("range", f"{card.range_text}, {card.direction}"),
        ("target", f"{card.target_title}: {card.question}"),
        ("made of", card.reducer),
        ("a failed answer", card.failure),
        ("conventions", card.convention),
        ("signature", card.signature or "none"),
        ("reference", card.reference),
    ]
    rows = [fact for fact in facts if fact[1]]
    parts += [style.heading("The number"), style.grid(("", ""), rows) if style.markdown else _facts(rows)]
    if card.choices:
        listed = [(one.key, one.value, one.words) for one in card.choices]
        parts += [style.heading("Its choices"), style.grid(("choice", "value", "which means"), listed)]
    parts += _samples(card, style)
    parts += [style.text(note) for note in card.notes]
    return parts


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {escape_line_breaks(text)}" for name, text in rows)


def _interval(card: Card) -> str:
    if card.interval is None:
        return "" if card.value is None else "none"
    one = card.interval
    doubts = f"; {', '.join(one.doubts)}" if one.doubts else ""
    return f"{format_value(one.low)} to {format_value(one.high)}, by {one.words}{doubts}"


def _samples(card: Card, style: _Style) -> list[str]:
    one = card.samples
    if one is None:
        return []
    parts = [style.heading("The samples it stands on")]
    left = f"{one.counted} of {one.total} are in the value: {one.scored} scored"
    if one.system_failed:
        how = "left out" if one.failed_counts_as is None else f"counted as {format_number(one.failed_counts_as)}"
        left += f", {one.system_failed} on which the system failed, {how}"
    if one.measure_failed:
        left += f"; {one.measure_failed} could not be measured"
    if one.skipped:
        left += f"; {one.skipped} are skipped, since the question does not apply"
    parts.append(style.text(left))
    rows = [(kind, r.reason, r.count, _reason_text(r)) for kind, members in _reason_groups(card) for r in members]
    if rows:
        parts.append(style.grid(("", "reason", "samples", "which means"), rows))
    return parts


def _reason_groups(card: Card) -> list[tuple[str, tuple[ReasonCount, ...]]]:
    assert card.samples is not None
    return [("skipped", card.samples.skips), ("failed", card.samples.failures)]


def _reason_text(one: ReasonCount) -> str:
    return one.words if one.needed is None else f"{one.words}; to have a score: {one.needed}"


def _reduction_lines(one: Reduction, style: _Style) -> list[str]:
    parts = [style.heading("From scores to the value"), style.text(f"{one.words[:1].upper()}{one.words[1:]}.")]
    if one.total is not None and one.n:
        parts.append(
            style.text(
                f"sum of scores {format_number(one.total)} / {one.n} samples = {format_number(one.total / one.n)}"
            )
        )
    parts.append(style.text(_check_text(one.check, "value")))
    for what, members in (("Lowest scores", one.lowest), ("Highest scores", one.highest)):
        if members:
            parts.append(style.heading(what))
            has_failures = any(influence.outcome != "scored" for influence in members)
            headers = ("query", "score", "outcome")[: 3 if has_failures else 2]
            parts.append(style.grid(headers, [_influence_row(influence)[: len(headers)] for influence in members]))
    return parts


def _influence_row(one: Influence) -> tuple[Cell, ...]:
    return one.sample_id, one.score, "" if one.outcome == "scored" else one.outcome


def _check_text(check: RecomputationCheck, what: str) -> str:
    stored = "none" if check.stored is None else repr(check.stored)
    computed = "none" if check.computed is None else repr(check.computed)
    why = f" ({check.why})" if check.why else ""
    if check.stored is None and check.verdict == "equal":
        return f"No {what} is stored, and none comes of computing it again."
    return {
        "equal": f"The stored {what} is {stored}; computed again, it is equal to the last digit.",
        "rounding": f"The stored {what} is {stored}; computed again, {computed}: the same but for rounding{why}.",
        "differs": f"The stored {what} is {stored}; computed again, it is {computed}. They differ: {check.why}.",
        "not computed": f"The stored {what} is {stored}; it was not computed again{why}.",
    }[check.verdict]


def _short_card(card: Card, style: _Style) -> list[str]:
    parts = [style.text(card.summary)]
    if card.formula:
        parts.append(f"    {escape_line_breaks(card.formula)}")
    if card.choices:
        parts.append("\n".join(style.item(f"{one.key} {one.value}: {one.words}") for one in card.choices))
    return parts


def _query(one: QueryExplanation, style: _Style) -> list[str]:
    parts = [style.heading(f"Query {one.sample_id}"), style.text(one.query)]
    for answer in one.answers:
        if len(one.answers) > 1:
            parts.append(style.heading(f"Answer {answer.repeat + 1}"))
        parts += _answer(answer, style)
    if len(one.answers) > 1:
        values = [answer.counts_as for answer in one.answers if answer.counts_as is not None]
        shown = " + ".join(map(format_number, values))
        if values:
            parts.append(style.text(f"The mean over its answers: ({shown}) / {len(values)}"))
    parts.append(style.text(_check_text(one.check, "score")))
    return parts


def _answer(one: RepeatExplanation, style: _Style) -> list[str]:
    if one.derivation is not None:
        return [_step(place, step, style) for place, step in enumerate(one.derivation.steps, start=1)]
    counts = "it leaves the value" if one.counts_as is None else f"it counts as {format_number(one.counts_as)}"
    status, _, reason = one.outcome.partition(":")
    message = {
        "skipped": f"Skipped, since the question does not apply ({reason}): {one.words}.",
        "system_failed": f"The system failed ({reason}): {one.words}; {counts}.",
        "measure_failed": f"It could not be measured ({reason}): {one.words}; {counts}.",
    }.get(status, f"{one.outcome}; {counts}.")
    parts = [style.text(message)]
    if one.needed is not None:
        parts.append(style.text(f"To have a score: {one.needed}."))
    return parts


def _step(place: int, step: DerivationStep, style: _Style) -> str:
    text = f"{place}. {style.text(step.text)}"
    return text if step.table is None else f"{text}\n{_step_table(step.table, style)}"


def _step_table(one: StepTable, style: _Style) -> str:
    show: Callable[[str], str] = (lambda text: f"\n{text}") if style.markdown else (lambda text: text)
    return show(style.grid(one.headers, one.rows)) if one.rows else style.item("none")
