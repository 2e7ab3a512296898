"""The short form of a comparison: the verdict, the primary metrics, and everything that speaks against them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter

from ..features.matching import MATCH_WORDS
from ..render.blocks import Cell, Row, Table, TableColumn, simple_table
from ..render.short import (
    PLACE,
    ShortForm,
    first_names,
    group_messages,
    rounded,
    rounded_interval,
)
from ..render.tables import UNRELIABLE_NOTE
from ..render.terminal import cut_text
from ..store.records import RunRecord, plan_conventions
from ..store.runs import RunStore
from .queries import QueryChange
from .rendering import (
    comparison_summary,
    count_verdicts,
    kinds_sentence,
    matching_note,
    register_note,
    starred_runs,
    verdict_cell,
)
from .runs import Leaderboard, LeaderboardMetric
from .types import CompareReport, MetricComparison

_SIGNATURES = re.compile(r"'[^']*' and '[^']*' were computed differently")
_MOST_METRICS = 4
"""Number of primary metrics that a table of several runs has as columns."""
_MOST_LABEL = 18


def failed_answers(store: RunStore, record: RunRecord) -> str:
    """How many answers of a run failed or are missing: ``41 failed, 3 missing of 135``; empty where all is well."""
    stored, failed = store.counts(record.run_id)
    expected = record.num_samples * max(record.repeats, 1)
    counts = {"failed": failed, "missing": expected - stored}
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count > 0)
    return f"{listed} of {expected:,} answers" if listed else ""


def comparison_short(
    board: Leaderboard,
    records: Sequence[RunRecord],
    failed: Sequence[str],
    *,
    report: CompareReport | None = None,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
    commands: Sequence[tuple[str, str]] = (),
) -> ShortForm:
    """The comparison in the short form.

    ``failed`` is the text of ``failed_answers`` of each run; ``report`` and ``changes`` are those of
    ``comparison_page``.
    """
    tables = [_primary_table(board) if len(board.run_ids) == 2 else _ranking_table(board)]
    if changes:
        rows: list[Row] = [[one.sample_id, str(one.cause), one.detail] for one in changes]
        tables.append(simple_table([f"worse by {board.metric_label(judged_by)}", "cause", "what was seen"], rows))
    problems = [f"{label}: {text}" for label, text in zip(board.labels, failed, strict=True) if text]
    different = [note for note in board.notes if " in A, " in note]
    notes = [
        ("runs", _runs_text(board, records)),
        ("failed", "; ".join(problems) or "no answer failed, and none is missing"),
        *_against_notes(board),
        ("gold", _gold_text(board, records)),
        ("chunks", (report and matching_note(report)) or ""),
        ("queries", kinds_sentence(report) if report is not None and report.per_query else ""),
        ("differs", first_names(different, separator="; ")),
        *(("note", note) for note in board.notes if note not in different),
        ("looks", register_note(board) or ""),
    ]
    return ShortForm(_conclusion(board, problems), tables, notes, commands)


def _conclusion(board: Leaderboard, problems: Sequence[str]) -> str:
    """The verdict on the primary metrics, and what speaks against it."""
    summary = comparison_summary(board)
    primary = [one for one in board.comparisons if one.primary]
    if not primary or len(board.run_ids) > 2:
        return "; ".join([summary.sentence.rstrip("."), *problems])
    counts = count_verdicts(primary)
    counts["inconclusive"] = counts.pop("open")
    word = {"better": "Better", "worse": "Worse", "open": "Open"}[summary.outcome]
    if summary.outcome == "open" and (counts["better"] or counts["worse"]):
        word = "Mixed"
    counts["not compared"] = len(board.refused_primary)
    verdicts = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    total = sum(counts.values())
    worse = [board.metric_label(one.metric) for one in board.guardrails if one.state == "worse"]
    against = {"guardrail worse": worse, "worse and not primary": [board.metric_label(name) for name in board.fallen]}
    listed = [f"{what}: {first_names(names, 1)}" for what, names in against.items() if names]
    sentence = f"{word}: B against A on {total} primary metric{'s' * (total != 1)}: {verdicts}"
    return "; ".join([sentence, *problems, *listed])


# --- tables -----------------------------------------------------------------------------------------------------------


def _primary_table(board: Leaderboard) -> Table:
    """The primary metrics of two runs: the main one first, then those that are worse."""
    primary = [metric.pairs[0].comparison for metric in board.valued if metric.primary]
    rows: list[Row] = []
    for one in [*primary[:1], *sorted(primary[1:], key=attrgetter("verdict"), reverse=True)]:
        ends = one.shown_interval
        doubt = " ?" if one.flags and ends else ""
        difference = [rounded(one.delta, ends, sign="+"), f"{rounded_interval(ends, sign='+')}{doubt}"]
        rows.append([one.label or one.name, rounded(one.a, ends), rounded(one.b, ends), *difference, verdict_cell(one)])
    numbers = [TableColumn(name, number=True) for name in ("A", "B", "B − A", "95 % interval")]
    return simple_table(["primary metric", *numbers, "verdict"], rows)


def _ranking_table(board: Leaderboard) -> Table:
    """Several runs in the order of the main metric, with their values on the first primary metrics."""
    primary = [metric for metric in board.valued if metric.primary][:_MOST_METRICS]
    rows = [_run_row(board, run, primary) for run in (primary[0].ranking if primary else ())]
    return simple_table(["run", *(TableColumn(cut_text(one.label, _MOST_LABEL), number=True) for one in primary)], rows)


def _run_row(board: Leaderboard, run: int, metrics: Sequence[LeaderboardMetric]) -> Row:
    row: Row = [f"{board.labels[run]} {board.names[run]}"]
    for metric in metrics:
        text = rounded(metric.values[run], metric.pairs[0].comparison.shown_interval)
        row.append(Cell(text, sign="★" if run in starred_runs(metric) else ""))
    return row


# --- notes ------------------------------------------------------------------------------------------------------------


def _runs_text(board: Leaderboard, records: Sequence[RunRecord]) -> str:
    """The runs by name, or by id where names are equal, and the number of samples."""
    unique = len(set(board.names)) == len(board.names)
    named = board.names if unique else board.run_ids
    listed = ", ".join(f"{label} {name}" for label, name in zip(board.labels, named, strict=True))
    part = "" if board.sample_set is None else f" of the set {board.sample_set}"
    return f"{listed}; {board.samples:,} samples{part}"


def _against_notes(board: Leaderboard) -> Iterator[tuple[str, str]]:
    """What fell, guardrails that are not within their margin, and primary metrics that are doubted or not compared."""
    fallen = [one for one in board.comparisons if one.name in board.fallen]
    yield "fell", first_names([_fall_text(one) for one in fallen])
    open_guardrails = [one for one in board.guardrails if one.state != "within_margin"]
    yield "guardrails", "; ".join(one.describe(board.metric_label(one.metric)) for one in open_guardrails)
    doubts: list[tuple[str, str]] = []
    for one in board.comparisons:
        label = one.label or one.name
        if one.primary and one.flags and one.interval is not None:
            doubts.append((label, UNRELIABLE_NOTE))
        if one.primary and one.doubt and one.note:
            doubts.append((label, one.note))
    yield "flagged", "; ".join(group_messages(doubts))
    refused = [(board.metric_label(name), _plain_reason(name, why)) for name, why in board.refused.items()]
    primary = [board.metric_label(name) for name in board.refused_primary]
    for label, is_primary in (("not compared", True), ("others not", False)):
        yield label, "; ".join(group_messages(found for found in refused if (found[0] in primary) == is_primary))


def _plain_reason(name: str, reason: str) -> str:
    """Why a metric was not compared, without its name and signature, so that equal reasons are equal texts."""
    text = _SIGNATURES.sub("computed differently", reason)
    return text.replace(name, PLACE)


def _fall_text(one: MetricComparison) -> str:
    ends = one.shown_interval
    return f"{one.label or one.name} {rounded(one.a, ends)} → {rounded(one.b, ends)}"


def _gold_text(board: Leaderboard, records: Sequence[RunRecord]) -> str:
    """How gold was matched; empty where it was by id in all runs."""
    ways = {one.match or "id" for one in board.comparisons} | {plan_conventions(record).match for record in records}
    listed = [MATCH_WORDS[way] for way in sorted(ways)]
    return "" if ways == {"id"} else f"matched by {' and by '.join(listed)}"
