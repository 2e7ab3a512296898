"""The short form of a comparison: the verdict, the primary metrics, and everything that speaks against them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter

from ..core.grouping import group_pairs
from ..features.matching import MATCH_WORDS
from ..render.blocks import Block, Cell, DefinitionList, Prose, Row, Table, TableColumn, simple_table
from ..render.short import (
    ShortForm,
    failed_samples,
    first_names,
    group_messages,
    rounded,
    rounded_interval,
)
from ..render.tables import UNRELIABLE_NOTE
from ..store.records import RunRecord, plan_conventions
from ..store.runs import RunStore
from .queries import QueryChange
from .rendering import (
    comparison_summary,
    count_verdicts,
    failure_notes,
    kinds_sentence,
    matching_note,
    register_note,
    starred_runs,
    verdict_cell,
)
from .runs import Leaderboard, LeaderboardMetric
from .types import CompareReport, MetricComparison

_SIGNATURES = re.compile(r"'[^']*' and '[^']*' were computed differently")
_MOST_GROUPS = 3
"""Number of reasons for which metrics were not compared."""
_MOST_METRICS = 3
"""Number of primary metrics that a table of several runs has as columns."""


def failed_in_run(store: RunStore, record: RunRecord) -> tuple[int, str]:
    """How many outputs of a stored run failed or are missing, as a number and in words."""
    return failed_samples(store.counts(record.run_id), record.num_samples, record.repeats)


def comparison_short(
    store: RunStore,
    records: Sequence[RunRecord],
    board: Leaderboard,
    *,
    report: CompareReport | None = None,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
    commands: Sequence[tuple[str, str]] = (),
) -> ShortForm:
    """The comparison of these runs in the short form; ``report`` and ``changes`` are those of ``comparison_page``."""
    tables = [_primary_table(board)] if len(records) == 2 else [_ranking_table(board)]
    if changes:
        rows: list[Row] = [[change.sample_id, str(change.cause), change.detail] for change in changes]
        tables.append(simple_table([f"worse by {board.metric_label(judged_by)}", "cause", "what was seen"], rows))
    failed = dict(zip(board.labels, (failed_in_run(store, record) for record in records), strict=True))
    ways = {comparison.match or "id" for comparison in board.comparisons} | {
        plan_conventions(record).match for record in records
    }
    different = [note for note in board.notes if " in A, " in note]
    golden = report if report is not None and report.per_query else None
    notes: list[tuple[str, str | None]] = [
        ("runs", _runs_text(board)),
        ("failed", "; ".join(f"{label}: {text}" for label, (_, text) in failed.items())),
        *_against_notes(board),
        ("gold by", ", ".join(MATCH_WORDS[way] for way in sorted(ways - {"id"}))),
        ("queries", None if golden is None else f"{kinds_sentence(golden)} {matching_note(golden) or ''}"),
        ("differs", first_names(different, separator="; ")),
        *(("note", note) for note in board.notes if note not in different),
        ("looks", register_note(board)),
    ]
    problems = [f"{label}: {text}" for label, (count, text) in failed.items() if count]
    return ShortForm(_conclusion(board, problems), tables, notes=notes, commands=commands)


def comparison_blocks(report: CompareReport) -> list[Block]:
    """The comparison of two runs as it is printed: without what only their store knows."""
    board = Leaderboard.of_pair(report)
    notes = [("runs", _runs_text(board)), *_against_notes(board), *(("note", note) for note in board.notes)]
    pairs = [(name, text) for name, text in notes if text]
    return [Prose(_conclusion(board, failure_notes(report))), _primary_table(board), DefinitionList(pairs)]


def _conclusion(board: Leaderboard, problems: Sequence[str]) -> str:
    """The verdict on the primary metrics, and what speaks against it."""
    summary = comparison_summary(board)
    primary = [comparison for comparison in board.comparisons if comparison.primary]
    if not primary or len(board.run_ids) > 2:
        return "; ".join([summary.sentence.rstrip("."), *problems])
    counts = count_verdicts(primary)
    word = summary.outcome.capitalize()
    if summary.outcome == "open" and (counts["better"] or counts["worse"]):
        word = "Mixed"
    elif counts["equal"] == len(primary) and not board.refused_primary:
        word = "Equal"
    counts["not compared"] = len(board.refused_primary)
    verdicts = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    total = sum(counts.values())
    states = group_pairs((guardrail.state, board.metric_label(guardrail.metric)) for guardrail in board.guardrails)
    against = {
        "guardrail worse": states.get("worse", []),
        "guardrail inconclusive": states.get("inconclusive", []),
        "worse and not primary": [board.metric_label(name) for name in board.fallen],
    }
    listed = [f"{what}: {first_names(names, 1)}" for what, names in against.items() if names]
    metrics = f"{total} primary metric{'s' * (total != 1)}"
    sentence = f"{word}: B against A on {metrics}: {verdicts}"
    if 0 < counts.get(summary.outcome, 0) < total:
        sentence = f"{word} on {counts[summary.outcome]} of {metrics}: B against A: {verdicts}"
    return "; ".join([sentence, *problems, *listed])


# --- tables -----------------------------------------------------------------------------------------------------------


def _primary_table(board: Leaderboard) -> Table:
    """The primary metrics of two runs: the main one first, then those that are worse."""
    primary = [metric.pairs[0].comparison for metric in board.valued if metric.primary]
    rows: list[Row] = []
    for name in [*primary[:1], *sorted(primary[1:], key=attrgetter("verdict"), reverse=True)]:
        ends = name.shown_interval
        doubt = " ?" if name.flags and ends else ""
        difference = [rounded(name.delta, ends, sign="+"), f"{rounded_interval(ends, sign='+')}{doubt}"]
        rows.append(
            [name.label or name.name, rounded(name.a, ends), rounded(name.b, ends), *difference, verdict_cell(name)]
        )
    numbers = [TableColumn(name, number=True) for name in ("A", "B", "B − A", "95 % interval")]
    return simple_table(["primary metric", *numbers, "verdict"], rows)


def _ranking_table(board: Leaderboard) -> Table:
    """Several runs in the order of the main metric, with their values on the first primary metrics."""
    primary = [metric for metric in board.valued if metric.primary][:_MOST_METRICS]
    columns = [TableColumn("run"), *(TableColumn(metric.label, number=True) for metric in primary)]
    order = primary[0].ranking if primary else []
    return simple_table(columns, [_run_row(board, run, primary) for run in order])


def _run_row(board: Leaderboard, run: int, metrics: Sequence[LeaderboardMetric]) -> Row:
    row: Row = [f"{board.labels[run]} {board.names[run]}"]
    for metric in metrics:
        value = rounded(metric.values[run], metric.pairs[0].comparison.shown_interval)
        row.append(Cell(value, sign="★" * (run in starred_runs(metric))))
    return row


# --- notes ------------------------------------------------------------------------------------------------------------


def _runs_text(board: Leaderboard) -> str:
    """The runs by name, or by id where names are equal, and the number of samples."""
    named = board.names if len(set(board.names)) == len(board.names) else board.run_ids
    listed = ", ".join(f"{label} {name}" for label, name in zip(board.labels, named, strict=True))
    return f"{listed}; {board.samples:,} samples"


def _against_notes(board: Leaderboard) -> Iterator[tuple[str, str]]:
    """What fell, guardrails that are not within their margin, and primary metrics that are doubted or not compared."""
    fallen = [comparison for comparison in board.comparisons if comparison.name in board.fallen]
    yield "fell", first_names([_fall_text(comparison) for comparison in fallen])
    open_guardrails = [guardrail for guardrail in board.guardrails if guardrail.state != "within_margin"]
    for guardrail in open_guardrails[:_MOST_GROUPS]:
        yield "guardrails", guardrail.describe(board.metric_label(guardrail.metric), short=True)
    yield (
        "guardrails",
        first_names([board.metric_label(open_guardrail.metric) for open_guardrail in open_guardrails[_MOST_GROUPS:]]),
    )
    doubts: list[tuple[str, str]] = []
    for comparison in board.comparisons:
        label = comparison.label or comparison.name
        if comparison.primary and comparison.flags and comparison.interval is not None:
            doubts.append((label, UNRELIABLE_NOTE))
        if comparison.primary and comparison.doubt and comparison.note:
            doubts.append((label, comparison.note))
    yield from (("flagged", text) for text in group_messages(doubts))
    plain = {name: _SIGNATURES.sub("computed differently", why) for name, why in board.refused.items()}
    refused = [(board.metric_label(name), why.replace(name, "METRIC")) for name, why in plain.items()]
    primary = [board.metric_label(name) for name in board.refused_primary]
    for label, is_primary in (("not compared", True), ("others not", False)):
        groups = group_messages(found for found in refused if (found[0] in primary) == is_primary)
        yield from ((label, text) for text in groups[:_MOST_GROUPS])
        yield label, f"and for {len(groups) - _MOST_GROUPS} more reasons" * (len(groups) > _MOST_GROUPS)


def _fall_text(found: MetricComparison) -> str:
    ends = found.shown_interval
    return f"{found.label or found.name} {rounded(found.a, ends)} → {rounded(found.b, ends)}"
