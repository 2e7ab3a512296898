"""Results in few lines: digits by the interval, repeated messages in groups, and the layout of the short form."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from ..core.results import Results
from .blocks import Row, Table, simple_table
from .tables import format_value
from .terminal import MAX_CELL_WIDTH, aligned, blocks_text, cut_text, printable, text_width

# --- digits: two significant ones of the half-width of the interval --------------------------------------------------

_FEWEST, _MOST = 2, 4
Ends = tuple[float, float] | None


def decimals(ends: Ends, numbers: Sequence[float] = (), other: float | None = None) -> int:
    """The number of decimals of a value with this interval, 2 to 4: two significant digits of the half-width.

    Without an interval, and with one of no width, all four are shown. Numbers that are compared with another one have
    as many decimals as it takes to see on which side of it they are.

    >>> decimals((0.087, 0.301)), decimals((0.771, 0.890)), decimals(None), decimals((0.087, 0.301), [0.1999], 0.2)
    (2, 3, 4, 4)
    """
    half = 0.0 if ends is None else (ends[1] - ends[0]) / 2
    if not math.isfinite(half) or half <= 0:
        return _MOST
    exponent = int(f"{half:.1e}".partition("e")[2])
    digits = min(max(1 - exponent, _FEWEST), _MOST)
    while (
        other is not None and digits < _MOST and any(_side(round(n, digits), other) != _side(n, other) for n in numbers)
    ):
        digits += 1
    return digits


def _side(number: float, other: float) -> int:
    """1 above the other number, 0 where they are equal, -1 below it."""
    return (number > other) - (number < other)


def rounded(value: float | None, ends: Ends = None, *, sign: str = "") -> str:
    """A value with as many decimals as its interval allows; ``n/a`` where there is none.

    With ``sign="+"`` a positive value has its sign. Very small values have three significant digits.

    >>> rounded(0.8306, (0.7709, 0.8903)), rounded(0.1942, (0.087, 0.3015), sign="+"), rounded(0.00003)
    ('0.831', '+0.19', '3.00e-05')
    """
    if value is None or math.isnan(value):
        return "n/a"
    text = format_value(abs(value), decimals(ends))
    mark = "−" if value < 0 else sign * bool(value)
    return f"{mark}{text}"


def rounded_interval(ends: Ends, *, sign: str = "") -> str:
    """The ends of an interval, with the decimals of its value."""
    between = " to " if sign else " – "
    return "" if ends is None else between.join(rounded(end, ends, sign=sign) for end in ends)


# --- groups of equal messages ----------------------------------------------------------------------------------------


def first_names(names: Sequence[str], limit: int = 3, separator: str = ", ") -> str:
    """The first names of a list, and how many more there are."""
    more = len(names) - limit
    shown = separator.join(names[:limit])
    return shown if more <= 0 else f"{shown} and {more} more"


def group_messages(found: Iterable[tuple[str, str]]) -> list[str]:
    """Messages after the places they are about: each once, with the first three places and how many more there are.

    >>> group_messages([("mrr", "no scores"), ("map", "no scores"), ("bleu", "no mean")])
    ['mrr, map: no scores', 'bleu: no mean']
    """
    groups: dict[str, list[str]] = {}
    for place, message in dict.fromkeys(found):
        groups.setdefault(message, []).append(place)
    return [f"{first_names(places)}: {message}" for message, places in groups.items()]


def grouped_warnings(results: Results) -> list[str]:
    """The warnings about data and scores; one that several metrics have occurs once, with the first of them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for warning in results.warnings:
        name = next((result.name for result in results if f" {result.name}" in warning), "")
        found.setdefault(warning.replace(name, "") if name else warning, []).append((name, warning))
    messages = []
    for (_, first), *more in found.values():
        also = first_names([name for name, _ in more])
        messages.append(f"{first} (and {len(more)} more: {also})" if more else first)
    return messages


def failed_samples(counts: tuple[int, int], samples: int, repeats: int = 1) -> tuple[int, str]:
    """How many outputs of a run failed or are missing, of all its samples, as a number and in words.

    ``counts`` are the outputs that there are, and how many of them failed, as ``RunStore.counts`` has them. Where
    a sample has several outputs, outputs are counted.

    >>> failed_samples((135, 3), 135), failed_samples((58, 4), 20, repeats=3)
    ((3, '3 of 135 samples failed'), (6, '4 of 60 outputs failed, 2 missing'))
    """
    stored, failed = counts
    expected = samples * max(repeats, 1)
    what = "outputs" if repeats > 1 else "samples"
    missing = f", {expected - stored:,} missing" * (stored < expected)
    return failed + expected - stored, f"{failed:,} of {expected:,} {what} failed{missing}"


# --- the layout ------------------------------------------------------------------------------------------------------

WIDTH, MAX_LINES = 100, 25
_MOST_LINES = 3
"""Lines of the conclusion, and of a note."""
_WARNINGS = ("failed", "inconclusive", "flagged", "warning", "not compared", "guardrails", "mean of")
"""Ends of the labels of warnings, which are cut last where there is little room."""
_LINES = [(3, 3), (2, 3), (1, 3), (1, 2), (1, 1)]
"""Lines of a note, and of a warning, from what is wanted to what must suffice."""
_LEAST_ROWS = 6
"""Rows of a table that come before the second line of a note."""


@dataclass(frozen=True, slots=True)
class ShortForm:
    """A result in at most 25 lines of 100 columns. Everything but rows of tables always appears."""

    conclusion: str
    tables: Sequence[Table] = ()
    """Tables of one group; their last rows are left out, and counted, where there is no room."""
    notes: Sequence[tuple[str, str | None]] = ()
    """What must be said, under a label each; those without a text are left out."""
    commands: Sequence[tuple[str, str]] = ()
    """What can be done next, and the command for it, which is never cut."""

    def text(self) -> str:
        """The conclusion, the tables, the notes and the commands."""
        head = _wrapped(self.conclusion, WIDTH, _MOST_LINES)
        commands = aligned([[what, printable(command)] for what, command in self.commands], right=()).splitlines()
        tables = [table for table in self.tables if table.groups[0].rows]
        room = MAX_LINES - len(head) - sum(-(-text_width(line) // WIDTH) for line in commands)
        room -= 3 * len(tables) + 1 + bool(commands)  # heads of tables, and empty lines between the parts
        wanted = [len(table.groups[0].rows) for table in tables]
        notes = _note_lines(self.notes, room - sum(min(count, _LEAST_ROWS) for count in wanted))
        room -= len(notes)
        parts = [head]
        for at, table in enumerate(tables):  # what the others leave, but at least an equal share
            lines = _table_lines(table, max(room - sum(wanted[at + 1 :]), room // (len(tables) - at)))
            room -= len(lines) - 2
            parts.append(lines)
        return "\n\n".join("\n".join(part) for part in (*parts, notes, commands) if part)


def _table_lines(table: Table, room: int) -> list[str]:
    """The table with at most so many lines below its head, the last of which counts the rows left out.

    The names in its first column are cut where it is too wide.
    """
    rows = table.groups[0].rows
    shown = rows if len(rows) <= room else rows[: max(room - 1, 0)]
    lines = blocks_text([simple_table(table.columns, shown)]).splitlines()
    over = max((text_width(line) for line in lines), default=0) - WIDTH
    if over > 0:
        most = min(max(text_width(str(row[0])) for row in shown), MAX_CELL_WIDTH) - over
        cut: list[Row] = [[_cut_name(str(row[0]), most), *row[1:]] for row in shown]
        lines = blocks_text([simple_table(table.columns, cut)]).splitlines()
    return lines if shown is rows else [*lines, f"and {len(rows) - len(shown):,} more"]


def _cut_name(text: str, most: int) -> str:
    """A name with at most so many columns; its unit is not cut off."""
    name, mark, unit = text.rpartition(" (")
    end = mark + unit
    return (
        f"{cut_text(name, most - text_width(end))}{end}" if mark and text_width(text) > most else cut_text(text, most)
    )


def _note_lines(notes: Sequence[tuple[str, str | None]], room: int) -> list[str]:
    """The notes beside their labels, each on fewer lines where there is little room."""
    given = [(label, text) for label, text in notes if text]
    width = max((text_width(label) for label, _ in given), default=0) + 2
    lines: list[str] = []
    for of_note, of_warning in _LINES:
        rows: list[tuple[str, str]] = []
        for label, text in given:
            most = of_warning if label.endswith(_WARNINGS) else of_note
            rows += zip([label, *repeat("", most)], _wrapped(text, WIDTH - width, most), strict=False)
        lines = aligned(rows, right=()).splitlines()
        if len(lines) <= room:
            break
    return lines


def _wrapped(text: str, width: int, most: int) -> list[str]:
    """A text in lines of this width; what is over the most lines is cut."""
    shown = printable(text)
    wide = max(text_width(shown) - len(shown), 0)  # characters that take two columns
    narrow = max(width - wide, width // 2)
    return textwrap.wrap(shown, narrow, max_lines=most, placeholder=" …") or [""]
