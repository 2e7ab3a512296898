"""Comparisons as plain tables, Markdown, CSV, one sentence and notebook HTML."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from ..core.targets import TARGETS
from ..core.types import TargetCategory
from ..render.charts.chart import Chart
from ..render.charts.intervals import forest_chart
from ..render.charts.layout import clean_label
from ..render.html import SECONDS, html_table, metric_range, with_chart
from ..render.markdown import escape_markdown, markdown_table
from ..render.tables import escape_line_breaks, format_value, table
from .leaderboard import (
    Leaderboard,
    LeaderboardMetric,
    LeaderboardPair,
    alternative_differences,
    failure_notes,
    missing_note,
    run_labels,
    signed,
)
from .types import CompareReport, ComparisonKind, MetricComparison

if TYPE_CHECKING:
    from .queries import QueryChange

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


# --- CSV: a row per metric, and per pair of runs where there are several ---------------------------------------------

COLUMNS = (
    "run_a",
    "run_b",
    "metric",
    "target",
    "a",
    "b",
    "delta",
    "low",
    "high",
    "p_value",
    "p_adjusted",
    "verdict",
    "primary",
    "wins",
    "losses",
    "draws",
    "n",
    "clusters",
    "delta_completed",
    "effect_size",
    "mde",
    "low_adjusted",
    "high_adjusted",
)


def comparison_csv(report: CompareReport) -> str:
    """A row per metric, with every digit; unknown values are empty cells."""
    return _to_csv((report.run_a, report.run_b, one) for one in report.metrics)


def leaderboard_csv(board: Leaderboard) -> str:
    """A row per metric and pair of runs."""
    return _to_csv(
        (board.run_ids[pair.first], board.run_ids[pair.second], pair.comparison)
        for one in board.metrics
        for pair in one.pairs
    )


def _to_csv(rows: Iterable[tuple[str, str, MetricComparison]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run_a, run_b, one in rows:
        low, high = one.interval or (None, None)
        values = {**one.to_dict(), "run_a": run_a, "run_b": run_b, "metric": one.name, "low": low, "high": high}
        values["low_adjusted"], values["high_adjusted"] = one.interval_adjusted or (None, None)
        writer.writerow([values[name] for name in COLUMNS])
    return text.getvalue().rstrip("\n")


# --- one sentence: on how many primary metrics B is better or worse, and by how much ---------------------------------

_TARGETS = (
    TargetCategory.GENERATION_CORRECTNESS,
    TargetCategory.GENERATION_RELEVANCE,
    TargetCategory.GENERATION_FAITHFULNESS,
    TargetCategory.RETRIEVAL_ACCURACY,
    TargetCategory.RETRIEVAL_RELEVANCE,
)
_PREFERRED = ("token_f1", "exact_match")


@dataclass(frozen=True, slots=True)
class ComparisonSummary:
    """A comparison as one sentence, with the overall outcome on the primary metrics."""

    sentence: str
    outcome: Literal["better", "worse", "open"]
    """``open`` where there is neither better nor worse, or both."""


def comparison_summary(report: CompareReport, names: tuple[str, str] | None = None) -> ComparisonSummary:
    """The comparison in one sentence. Sentence and outcome cover the primary metrics only."""
    primary = [one for one in report.metrics if one.primary]
    if not primary:
        return ComparisonSummary("The two runs have no metric in common that can be compared.", "open")
    counts = {verdict: sum(one.verdict == verdict for one in primary) for verdict in ("better", "worse", "equal")}
    counts["open"] = len(primary) - sum(counts.values())
    verdicts = ", ".join(f"{what} on {count}" for what, count in counts.items() if count)
    of_all = "metric" if len(primary) == len(report.metrics) else "primary metric"
    a, b = ("A", "B") if names is None else (f"A ({names[0]})", f"B ({names[1]})")
    sentence = f"Of {len(primary):,} {of_all}{'s' * (len(primary) != 1)}, {b} against {a} is {verdicts}"
    main = _headline_metric(primary)
    outcome: Literal["better", "worse", "open"] = "open"
    if bool(counts["better"]) != bool(counts["worse"]):
        outcome = "better" if counts["better"] else "worse"
    return ComparisonSummary(f"{sentence}{'' if main is None else f'; {_describe_change(main)}'}.", outcome)


def _headline_metric(primary: Sequence[MetricComparison]) -> MetricComparison | None:
    """The most important primary metric: those of answers before those of retrieval, then any other."""

    def weight(one: MetricComparison) -> tuple[int, bool]:
        rank = next((place for place, target in enumerate(_TARGETS) if target.name == one.target), len(_TARGETS))
        return rank, one.name not in _PREFERRED

    return min((one for one in primary if one.delta is not None), key=weight, default=None)


def _describe_change(one: MetricComparison) -> str:
    """The difference of a metric in words."""
    assert one.delta is not None
    if one.delta == 0:
        return f"{one.name} stays at {_value(one.b)}"
    ends = one.shown_interval
    interval = "" if ends is None else f", 95 % interval {_signed(ends[0])} to {_signed(ends[1])}"
    p = one.p_value if one.p_adjusted is None else one.p_adjusted
    chance = "" if p is None else f", p {'< 0.0001' if p < 0.0001 else f'{p:.4f}'}"
    way = "rises" if one.delta > 0 else "falls"
    return f"{one.name} {way} from {_value(one.a)} to {_value(one.b)} ({_signed(one.delta)}{interval}{chance})"


def _value(value: float | None) -> str:
    return "n/a" if value is None else format_value(value)


def _signed(value: float) -> str:
    return format_value(0.0) if value == 0 else f"{'+' if value > 0 else '−'}{format_value(abs(value))}"


# --- plain tables for a terminal -------------------------------------------------------------------------------------

MAX_QUERIES_LISTED = 10
"""How many queries of a kind are listed."""
_MARKS = {"better": "+", "worse": "-", "equal": "=", "inconclusive": ""}


def comparison_text(report: CompareReport, *, names: tuple[str, str] | None = None) -> str:
    """The whole comparison: summary, differences of configuration, every metric, golden queries that changed."""
    parts = [escape_line_breaks(comparison_summary(report, names).sentence)]
    ids = (report.run_a, report.run_b)
    runs = ids if names is None else tuple(f"{run}  {name}" for run, name in zip(ids, names, strict=True))
    parts.append(f"A  {escape_line_breaks(runs[0])}\nB  {escape_line_breaks(runs[1])}")
    if report.notes:
        parts.append("\n".join(map(escape_line_breaks, report.notes)))
    if report.metrics:
        parts.append(comparison_table(report.metrics))
    if failed := [*filter(None, [missing_note(report.missing)]), *failure_notes(report)]:
        parts.append("\n".join(failed))
    if report.refused:
        parts.append(
            "\n".join(escape_line_breaks(f"not compared: {name} ({why})") for name, why in report.refused.items())
        )
    queries = _query_lines(report)
    if queries:
        parts.append(queries)
    return "\n\n".join(parts)


def comparison_table(metrics: Sequence[MetricComparison]) -> str:
    """A row per metric by target: both values, their difference with interval and p-value, wins, losses, verdict."""
    rows: list[list[str]] = []
    for target, entry in TARGETS.items():
        group = [one for one in metrics if TargetCategory[one.target] is target]
        for position, one in enumerate(group):
            rows.append([entry.title if position == 0 else "", *_row(one)])
    headers = ["target", "metric", "A", "B", "B - A", "95 % interval", "p", "won/lost", "verdict"]
    text = table(rows, headers=headers, right=(2, 3, 4, 6))
    notes = _metric_notes(metrics)
    return "\n".join([text, *(["", *map(escape_line_breaks, notes)] if notes else [])])


def _row(one: MetricComparison) -> list[str]:
    mark, ends = " ?" if one.flags and one.interval is not None else "", one.shown_interval
    interval = "" if ends is None else f"{signed(ends[0])} … {signed(ends[1])}{mark}"
    p = one.p_adjusted if one.primary else one.p_value
    shown = "" if p is None else f"{p:.4f}" if p >= 0.0001 else "<.0001"
    verdict = f"{_MARKS[one.verdict]} {one.verdict}".strip() + (", negligible" if one.negligible else "")
    return [
        one.name,
        "n/a" if one.a is None else format_value(one.a),
        "n/a" if one.b is None else format_value(one.b),
        "n/a" if one.delta is None else signed(one.delta),
        interval,
        shown,
        f"{one.wins}/{one.losses}",
        verdict if one.primary else "exploratory",
    ]


def _metric_notes(metrics: Sequence[MetricComparison]) -> list[str]:
    lines = []
    sizes = {(one.n, one.clusters) for one in metrics}
    if len(sizes) == 1:
        n, clusters = sizes.pop()
        lines.append(f"over {n} samples" + (f" in {clusters} clusters" if clusters != n else ""))
    elif sizes:
        lines.append(f"over up to {max(n for n, _ in sizes)} samples")
    adjusted = sum(one.primary for one in metrics)
    if adjusted > 1:
        lines.append(f"p-values and intervals are adjusted for {adjusted} metrics")
    if any(not one.primary for one in metrics):
        lines.append("exploratory: not among the primary metrics; nothing is adjusted, and no verdict is given")
    if any(one.flags and one.interval is not None for one in metrics):
        lines.append("? few or skewed samples: the interval may be too narrow")
    for one in metrics:
        if one.primary and one.verdict == "inconclusive" and one.n_needed is not None:
            lines.append(f"{one.name}: a difference that matters would need {one.n_needed} samples")
        if other := alternative_differences(one):
            lines.append(f"{one.name}: {other}")
        if one.note:
            lines.append(f"{one.name}: {one.note}")
    open_ones = [one for one in metrics if one.verdict == "inconclusive" and one.mde is not None and one.primary]
    if open_ones and not any(one.n_needed is not None for one in metrics):
        shown = ", ".join(f"{one.name} {format_value(one.mde or 0.0)}" for one in open_ones[:5])
        lines.append(f"smallest difference these samples would show: {shown}{', …' if len(open_ones) > 5 else ''}")
    return lines


def _query_lines(report: CompareReport) -> str:
    if not report.per_query:
        unknown = report.deltas.get("without_known_place")
        return f"golden queries: {unknown} not compared, chunks changed and places are not known" if unknown else ""
    counts = Counter(one.kind for one in report.per_query)
    counts_text = ", ".join(f"{counts[kind]} {kind.value.lower()}" for kind in ComparisonKind if counts[kind])
    match = report.deltas.get("chunker_version_match", "exact")
    how = "" if match == "exact" else "; chunks are matched by where they lie in their document"
    lines = [f"golden queries: {counts_text}{how}"]
    if match != "exact":
        lines.append(f"  {_rank_metrics(report)}")
    for kind in (ComparisonKind.REGRESSION, ComparisonKind.LOSS):
        ones = [one for one in report.per_query if one.kind is kind]
        for one in ones[:MAX_QUERIES_LISTED]:
            ranks = f"{one.a_hit_rank or 'miss'} -> {one.b_hit_rank or 'miss'}"
            note = f"  ({escape_line_breaks(one.note)})" if one.note else ""
            lines.append(f"  {kind.value.lower():<10}  {escape_line_breaks(one.query_id)}  {ranks}{note}")
        if len(ones) > MAX_QUERIES_LISTED:
            lines.append(f"  ... and {len(ones) - MAX_QUERIES_LISTED} more")
    return "\n".join(lines)


def _rank_metrics(report: CompareReport) -> str:
    """Hit rates and MRR of both runs, as the ranks of golden queries give them."""
    a, b = report.aggregate_a, report.aggregate_b
    pairs = [(f"hit@{k}", a.hit_at_k[k], b.hit_at_k.get(k)) for k in a.hit_at_k]
    pairs.append(("MRR", a.mrr, b.mrr))
    return ", ".join(
        f"{name} {format_value(first)} -> {format_value(second)}"
        for name, first, second in pairs
        if first is not None and second is not None
    )


# --- Markdown: two runs on one page ----------------------------------------------------------------------------------

MAX_MARKDOWN_QUERIES = 200
"""How many queries of a kind are listed; the rest is counted."""

_NAMES = {
    "mrr": "MRR",
    "citation_coverage": "citation coverage",
    "groundedness": "groundedness",
    "empty_result_rate": "empty result rate",
    "refusal_correctness": "refusal correctness",
}
_MATCHING_TEXT = {
    "exact": "Chunks are matched by their ids.",
    "fallback_doc_span": (
        "The two runs have different chunks, so chunks are matched by where they lie in their document: a query is hit "
        "at the first rank up to which the chunks of the expected document together cover at least half of the "
        "expected span. Hit rates and MRR are computed from these ranks; what is stored with the runs stays as it was."
    ),
}
_LISTED_KINDS = (ComparisonKind.REGRESSION, ComparisonKind.LOSS, ComparisonKind.WIN)
_TITLES = {
    ComparisonKind.REGRESSION: "Regressions: found in A, not in B",
    ComparisonKind.LOSS: "Losses: further down in B",
    ComparisonKind.WIN: "Wins: found in B only, or further up",
}


def render_report_md(
    report: CompareReport,
    *,
    names: tuple[str, str] | None = None,
    changes: Sequence[QueryChange] | None = None,
    judged_by: str = "",
) -> str:
    """The page: which runs, what differs, aggregates, metrics, and the queries that changed.

    ``names`` are those of the runs, which the report knows by their ids. ``changes`` are what ``explain_changes`` found
    by the metric ``judged_by``.
    """
    a, b = _runs(report, names)
    parts = [
        f"# {b} against {a}",
        *([f"**{escape_markdown(comparison_summary(report, names).sentence)}**"] if report.metrics else []),
        f"A is {a}, B is {b}; differences are B − A.",
        *_markdown_notes(report.notes),
        *_aggregates(report),
        *_metrics(report.metrics, report.missing),
        *_refused(report.refused),
        *_markdown_queries(report),
        *([] if changes is None else _changes(changes, judged_by)),
    ]
    return "\n\n".join(parts) + "\n"


def _runs(report: CompareReport, names: tuple[str, str] | None) -> tuple[str, str]:
    a, b = escape_markdown(report.run_a), escape_markdown(report.run_b)
    return (a, b) if names is None else (f"{escape_markdown(names[0])} ({a})", f"{escape_markdown(names[1])} ({b})")


def _markdown_notes(notes: Sequence[str]) -> list[str]:
    if not notes:
        return ["## What differs", "Nothing that the runs tell of."]
    return ["## What differs", "\n".join(f"- {escape_markdown(note)}" for note in notes)]


def _aggregates(report: CompareReport) -> list[str]:
    a, b = report.aggregate_a, report.aggregate_b
    rows = [(f"hit@{k}", a.hit_at_k[k], b.hit_at_k.get(k)) for k in a.hit_at_k]
    rows.append((_NAMES["mrr"], a.mrr, b.mrr))
    rows += [(f"recall@{k} of documents", a.recall_at_k_doc[k], b.recall_at_k_doc.get(k)) for k in a.recall_at_k_doc]
    rows += [(_NAMES[name], getattr(a, name), getattr(b, name)) for name in _NAMES if name != "mrr"]
    lines = [
        [name, _number(first), _number(second), _markdown_signed(None if None in (first, second) else second - first)]  # type: ignore[operator]
        for name, first, second in rows
    ]
    lines.append(["queries", str(a.total_queries), str(b.total_queries), ""])
    lines.append(["failed queries", str(a.failed_queries), str(b.failed_queries), ""])
    matched = _MATCHING_TEXT.get(str(report.deltas.get("chunker_version_match")), "")
    failed = [f"- {line}" for line in failure_notes(report)[1:]]
    paragraphs = filter(None, [matched, "\n".join(failed)])
    return ["## Golden queries", *paragraphs, markdown_table(["", "A", "B", "B − A"], lines, right=(1, 2, 3))]


def _metrics(metrics: Sequence[MetricComparison], missing: Sequence[int]) -> list[str]:
    if not metrics:
        return []
    rows = [
        [
            escape_markdown(one.name),
            _number(one.a),
            _number(one.b),
            _markdown_signed(one.delta),
            _interval(one),
            _probability(one.p_value),
            _probability(one.p_adjusted),
            f"{one.wins} / {one.losses} / {one.draws}",
            str(one.n) if one.clusters in (0, one.n) else f"{one.n} in {one.clusters}",
            _markdown_verdict(one),
            escape_markdown(
                "; ".join(filter(None, [*one.flags, alternative_differences(one), one.note, _samples_needed(one)]))
            ),
        ]
        for one in metrics
    ]
    headers = ["metric", "A", "B", "B − A", "95 % interval", "p", "p adjusted", "better / worse / same", "n", "verdict"]
    shown = 11 if any(row[10] for row in rows) else 10
    table = markdown_table([*headers, "remark"][:shown], [row[:shown] for row in rows], right=(1, 2, 3, 5, 6))
    text = "Over the samples of both runs; failures of a system count at the worst value."
    primary = sum(one.primary for one in metrics)
    if primary > 1:
        text += f" Intervals are adjusted for {primary} metrics, as is the adjusted p-value; a verdict needs both."
    if primary < len(metrics):
        text += " Exploratory metrics are not among the primary ones: no verdict is given, and nothing is adjusted."
    lacking = missing_note(missing)
    return ["## Metrics", text, *([f"- {lacking}"] if lacking else []), table]


def _refused(refused: Mapping[str, str]) -> list[str]:
    if not refused:
        return []
    rows = [[escape_markdown(name), escape_markdown(why)] for name, why in refused.items()]
    return ["## Not compared", markdown_table(["metric", "why"], rows)]


def _markdown_queries(report: CompareReport) -> list[str]:
    counted = Counter(query.kind for query in report.per_query)
    counts = ", ".join(f"{counted[kind]} {_plural(kind, counted[kind])}" for kind in ComparisonKind)
    sentence = f"{counts}."
    left_out = [
        f"{count} {what}"
        for key, what in (
            ("only_in_a", "in A only"),
            ("only_in_b", "in B only"),
            ("without_expected_chunk", "without an expected chunk"),
            ("without_known_place", "whose expected chunks lie nobody knows where"),
        )
        if (count := _count(report.deltas.get(key)))
    ]
    if left_out:
        sentence += f" Not compared: {', '.join(left_out)}."
    parts = ["## Queries", sentence]
    for kind in _LISTED_KINDS:
        listed = [query for query in report.per_query if query.kind is kind]
        if not listed:
            continue
        rows = [
            [
                escape_markdown(query.query_id),
                _rank(query.a_hit_rank),
                _rank(query.b_hit_rank),
                escape_markdown(query.note or ""),
            ]
            for query in listed[:MAX_MARKDOWN_QUERIES]
        ]
        parts += [
            f"### {_TITLES[kind]}",
            markdown_table(["query", "rank in A", "rank in B", "note"], rows, right=(1, 2)),
        ]
        if len(listed) > MAX_MARKDOWN_QUERIES:
            parts.append(f"And {len(listed) - MAX_MARKDOWN_QUERIES} more.")
    return parts


def _changes(changes: Sequence[QueryChange], judged_by: str) -> list[str]:
    heading = "## Why queries got worse"
    if not changes:
        return [heading, f"No query got worse by {escape_markdown(judged_by)}."]
    counts = Counter(str(one.cause) for one in changes)
    causes = ", ".join(f"{escape_markdown(cause)} {count}" for cause, count in counts.items())
    queries = "query" if len(changes) == 1 else "queries"
    rows = [
        [escape_markdown(one.sample_id), escape_markdown(one.cause), escape_markdown(one.detail)]
        for one in changes[:MAX_MARKDOWN_QUERIES]
    ]
    parts = [heading, f"{len(changes)} {queries} got worse by {escape_markdown(judged_by)}: {causes}."]
    parts.append(markdown_table(["query", "cause", "what was seen"], rows))
    return (
        parts if len(changes) <= MAX_MARKDOWN_QUERIES else [*parts, f"And {len(changes) - MAX_MARKDOWN_QUERIES} more."]
    )


# --- cells of Markdown tables ----------------------------------------------------------------------------------------


def _number(value: float | None) -> str:
    return "n/a" if value is None or value != value else format_value(value)


def _markdown_signed(value: float | None) -> str:
    if value is None or value != value:
        return "n/a"
    return f"{'+' if value > 0 else ''}{format_value(value)}" if value else format_value(0.0)


def _interval(one: MetricComparison) -> str:
    ends = one.shown_interval
    return "n/a" if ends is None else f"{_markdown_signed(ends[0])} to {_markdown_signed(ends[1])}"


def _probability(value: float | None) -> str:
    if value is None:
        return "n/a"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _markdown_verdict(one: MetricComparison) -> str:
    """The verdict; a metric that is not primary has none."""
    return f"**{one.verdict}**" + (" (negligible)" if one.negligible else "") if one.primary else "exploratory"


def _samples_needed(one: MetricComparison) -> str | None:
    return None if one.n_needed is None else f"{one.n_needed} samples would be needed"


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _plural(kind: ComparisonKind, count: int) -> str:
    word = kind.value.lower()
    return word if count == 1 else f"{word}es" if word.endswith("s") else f"{word}s"


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


# --- notebook HTML: a table of differences with verdicts, and a forest plot ------------------------------------------


def forest_rows(metrics: Iterable[MetricComparison]) -> list[dict[str, Any]]:
    """The rows of ``forest_chart``, by target."""
    titles = {target.name: entry.title for target, entry in TARGETS.items()}
    order = list(titles)
    rows = []
    for one in sorted(metrics, key=lambda one: order.index(one.target) if one.target in titles else len(order)):
        low, high = one.shown_interval or (None, None)
        ends = metric_range(one.name)
        row: dict[str, Any] = {
            "name": one.name,
            "group": titles.get(one.target, one.target),
            "delta": one.delta,
            "low": low,
            "high": high,
            "verdict": one.verdict,
            "primary": one.primary,
            "n": one.n,
            "note": one.note or "no difference is defined",
        }
        if one.target == TargetCategory.LATENCY.name and "throughput" not in one.name:
            row["scale"] = SECONDS
        rows.append(row if ends is None else {**row, "range": ends})
    return rows


def forest_plot(report: CompareReport, *, names: tuple[str, str] = ("A", "B"), title: str | None = None) -> Chart:
    """A forest plot of every metric's difference; metrics that were not compared are listed with the reason."""
    rows = forest_rows(report.metrics)
    rows += [
        {"name": name, "delta": None, "note": why, "group": "Not compared"} for name, why in report.refused.items()
    ]
    return forest_chart(rows, names=names, title=title or f"Differences, {names[1]} − {names[0]}")


def comparison_html(report: CompareReport) -> str:
    """The comparison as HTML."""
    rows = [
        [
            one.name,
            _value(one.a),
            _value(one.b),
            "" if one.delta is None else f"{one.delta:+.4f}",
            "" if (ends := one.shown_interval) is None else f"{ends[0]:+.4f} … {ends[1]:+.4f}",
            "" if one.p_adjusted is None else f"{one.p_adjusted:.4f}",
            one.verdict if one.primary else "",
            str(one.n),
        ]
        for one in report.metrics
    ]
    headers = ["Metric", "A", "B", "B − A", "95 % interval", "p, adjusted", "Verdict", "n"]
    table = html_table(headers, rows, right=(1, 2, 3, 5, 7)) if rows else "<p>no metric was compared</p>"
    heading = f"<p>A: {_escape_label(report.run_a)}, B: {_escape_label(report.run_b)}</p>"
    lacking = missing_note(report.missing)
    notes = "".join(f"<li>{_escape_label(note)}</li>" for note in [*([lacking] if lacking else []), *report.notes])
    notes += "".join(
        f"<li>not compared: {_escape_label(name)} ({_escape_label(why)})</li>" for name, why in report.refused.items()
    )
    return with_chart(heading + table + (f"<ul>{notes}</ul>" if notes else ""), forest_plot(report))


def _escape_label(text: str) -> str:
    return escape(clean_label(text, longest=1000))
