"""Comparisons as plain tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..core.targets import TARGETS
from ..core.types import TargetCategory
from ..reporting.tables import escape_line_breaks, format_value, table
from .report_notes import alternative_differences, failure_notes, missing_note, signed
from .summary import comparison_summary
from .types import CompareReport, ComparisonKind, MetricComparison

__all__ = ["comparison_table", "comparison_text"]

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
