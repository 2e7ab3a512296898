"""A comparison of two runs as one page of Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..reporting.markdown import escape_markdown, markdown_table
from ..reporting.tables import format_value
from .report_notes import alternative_differences, failure_notes, missing_note
from .summary import comparison_summary
from .types import CompareReport, ComparisonKind, MetricComparison

if TYPE_CHECKING:
    from .causes import QueryChange

__all__ = ["render_report_md"]

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


# --- cells -----------------------------------------------------------------------------------------------------------


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
