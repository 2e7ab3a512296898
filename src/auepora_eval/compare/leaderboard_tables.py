"""A leaderboard as plain tables for a terminal and as Markdown: the runs' values, then every pair."""

from __future__ import annotations

from collections.abc import Iterator

from ..reporting.markdown import escape_markdown, markdown_table
from ..reporting.tables import escape_line_breaks, format_value, table
from .leaderboard import Leaderboard, LeaderboardMetric, LeaderboardPair
from .report_notes import alternative_differences, missing_note, run_labels, signed
from .types import MetricComparison

__all__ = ["leaderboard_markdown", "leaderboard_text"]

_PAIR_HEADERS = ["metric", "runs", "difference", "95 % interval", "p", "verdict"]


def leaderboard_text(board: Leaderboard) -> str:
    """The leaderboard for a terminal: each run's values, then every pair with interval and verdict."""
    letters = _letters(board)
    runs = zip(letters, board.run_ids, board.names, strict=True)
    parts = ["\n".join(f"{letter}  {run}  {escape_line_breaks(name)}" for letter, run, name in runs)]
    if board.metrics:
        values = [_values(one, letters) for one in board.metrics]
        parts.append(table(values, headers=_value_headers(letters), right=range(1, len(letters) + 1)))
        parts.append(table(list(_pairs(board, letters)), headers=_PAIR_HEADERS, right=(2, 4)))
    notes = [
        *_leaderboard_notes(board, letters),
        *(f"not compared: {name} ({why})" for name, why in board.refused.items()),
    ]
    return "\n\n".join([*parts, "\n".join(map(escape_line_breaks, notes))])


def leaderboard_markdown(board: Leaderboard) -> str:
    """The leaderboard as a page of Markdown."""
    letters = _letters(board)
    rows = zip(letters, map(escape_markdown, board.run_ids), map(escape_markdown, board.names), strict=True)
    parts = [f"# {len(letters)} runs against each other", markdown_table(["", "run", "name"], list(rows))]
    if board.metrics:
        values = [_markdown_cells(_values(one, letters)) for one in board.metrics]
        parts += ["## Metrics", markdown_table(_value_headers(letters), values, right=range(1, len(letters) + 1))]
        pairs = [_markdown_cells(row) for row in _pairs(board, letters, repeat_name=True)]
        parts += ["## Every two runs", markdown_table(_PAIR_HEADERS, pairs, right=(2, 4))]
    parts.append("\n".join(f"- {escape_markdown(note)}" for note in _leaderboard_notes(board, letters)))
    if board.refused:
        refused = [[escape_markdown(name), escape_markdown(why)] for name, why in board.refused.items()]
        parts += ["## Not compared", markdown_table(["metric", "why"], refused)]
    return "\n\n".join(parts)


def _markdown_cells(row: list[str]) -> list[str]:
    """Escape a row: its first cell is a name with any characters, the others are generated here."""
    return [
        escape_markdown(row[0]),
        *(cell.replace("*", "\\*").replace("<", "&lt;").replace(">", "&gt;") for cell in row[1:]),
    ]


def _letters(board: Leaderboard) -> list[str]:
    return run_labels(len(board.run_ids))


def _value_headers(letters: list[str]) -> list[str]:
    return ["metric", *letters, "surely better"]


def _values(one: LeaderboardMetric, letters: list[str]) -> list[str]:
    unbeaten = set(one.unbeaten()) if one.primary else set()
    cells = [
        "n/a" if value is None else format_value(value) + ("*" if run in unbeaten else " ")
        for run, value in enumerate(one.values)
    ]
    beats = [
        f"{letters[pair.second]}>{letters[pair.first]}"
        if pair.comparison.verdict == "better"
        else f"{letters[pair.first]}>{letters[pair.second]}"
        for pair in one.pairs
        if pair.comparison.verdict in ("better", "worse")
    ]
    return [one.name, *cells, " ".join(beats) if one.primary else "exploratory"]


def _pairs(board: Leaderboard, letters: list[str], *, repeat_name: bool = False) -> Iterator[list[str]]:
    for metric in board.metrics:
        for position, pair in enumerate(metric.pairs):
            one = pair.comparison
            name = metric.name if position == 0 or repeat_name else ""
            p = one.p_adjusted if one.primary else one.p_value
            yield [
                name,
                _difference(pair, letters),
                "n/a" if one.delta is None else signed(one.delta),
                "" if (ends := one.shown_interval) is None else f"{signed(ends[0])} … {signed(ends[1])}",
                "" if p is None else f"{p:.4f}" if p >= 0.0001 else "<.0001",
                _pair_verdict(one, letters[pair.second]),
            ]


def _difference(pair: LeaderboardPair, letters: list[str]) -> str:
    return f"{letters[pair.second]} - {letters[pair.first]}"


def _pair_verdict(one: MetricComparison, second: str) -> str:
    if not one.primary:
        return "exploratory"
    text = f"{second} {one.verdict}" if one.verdict in ("better", "worse") else one.verdict
    return text + (", negligible" if one.negligible else "")


def _leaderboard_notes(board: Leaderboard, letters: list[str]) -> list[str]:
    samples = "sample" if board.samples == 1 else f"{board.samples} samples"
    lines = [f"over the {samples} that all runs have; * no other run is surely better"]
    if lacking := missing_note(board.missing, letters):
        lines.append(lacking)
    if any(not one.primary for one in board.metrics):
        lines.append("exploratory: not among the primary metrics; nothing is adjusted, and no verdict is given")
    for metric in board.metrics:
        for pair in metric.pairs:
            compared = pair.comparison
            notes = filter(None, [_pair_samples_needed(compared), alternative_differences(compared), compared.note])
            lines += [f"{metric.name}, {_difference(pair, letters)}: {one}" for one in notes]
    return [*lines, *board.notes]


def _pair_samples_needed(one: MetricComparison) -> str | None:
    if not one.primary or one.verdict != "inconclusive" or one.n_needed is None:
        return None
    return f"a difference that matters would need {one.n_needed} samples"
