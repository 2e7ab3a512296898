"""A comparison as one page of Markdown, for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..reporting.tables import figure
from .types import CompareReport, ComparisonKind, MetricComparison

__all__ = ["render_report_md"]

SHOWN = 200
"""So many queries of a kind are listed; the rest is counted."""

_NAMES = {
    "mrr": "MRR",
    "citation_coverage": "citation coverage",
    "groundedness": "groundedness",
    "empty_result_rate": "empty result rate",
    "refusal_correctness": "refusal correctness",
}
_MATCHED = {
    "exact": "Chunks are matched by their ids.",
    "fallback_doc_span": (
        "The two runs were made with different chunkers, so chunks are matched by where they lie in their document: a "
        "hit shares at least half of the shorter of the two spans with an expected one. Hit rates and MRR are computed "
        "from these ranks; what is stored with the runs stays as it was."
    ),
}
_LISTED = (ComparisonKind.REGRESSION, ComparisonKind.LOSS, ComparisonKind.WIN)
_TITLES = {
    ComparisonKind.REGRESSION: "Regressions: found in A, not in B",
    ComparisonKind.LOSS: "Losses: further down in B",
    ComparisonKind.WIN: "Wins: found in B only, or further up",
}
_MARKS = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(?:[#+\-=]|\d+(?=[.)]))")


def render_report_md(report: CompareReport) -> str:
    """The page: which runs, what differs, aggregates, metrics, and the queries that changed."""
    parts = [
        f"# {_text(report.run_b)} against {_text(report.run_a)}",
        f"A is {_text(report.run_a)}, B is {_text(report.run_b)}; differences are B − A.",
        *_notes(report.notes),
        *_aggregates(report),
        *_metrics(report.metrics),
        *_refused(report.refused),
        *_queries(report),
    ]
    return "\n\n".join(parts) + "\n"


def _notes(notes: Sequence[str]) -> list[str]:
    if not notes:
        return ["## What differs", "Nothing that the runs tell of."]
    return ["## What differs", "\n".join(f"- {_text(note)}" for note in notes)]


def _aggregates(report: CompareReport) -> list[str]:
    a, b = report.aggregate_a, report.aggregate_b
    rows = [(f"hit@{k}", a.hit_at_k[k], b.hit_at_k.get(k)) for k in a.hit_at_k]
    rows.append((_NAMES["mrr"], a.mrr, b.mrr))
    rows += [(f"recall@{k} of documents", a.recall_at_k_doc[k], b.recall_at_k_doc.get(k)) for k in a.recall_at_k_doc]
    rows += [(_NAMES[name], getattr(a, name), getattr(b, name)) for name in _NAMES if name != "mrr"]
    lines = [
        [name, _number(first), _number(second), _signed(None if None in (first, second) else second - first)]  # type: ignore[operator]
        for name, first, second in rows
    ]
    lines.append(["queries", str(a.total_queries), str(b.total_queries), ""])
    lines.append(["failed queries", str(a.failed_queries), str(b.failed_queries), ""])
    matched = _MATCHED.get(str(report.deltas.get("chunker_version_match")), "")
    return ["## Golden queries", *filter(None, [matched]), _table(["", "A", "B", "B − A"], lines, right=(1, 2, 3))]


def _metrics(metrics: Sequence[MetricComparison]) -> list[str]:
    if not metrics:
        return []
    rows = [
        [
            _text(one.name),
            _number(one.a),
            _number(one.b),
            _signed(one.delta),
            _interval(one),
            _probability(one.p_value),
            _probability(one.p_adjusted) if one.primary else "exploratory",
            f"{one.wins} / {one.losses} / {one.draws}",
            str(one.n) if one.clusters in (0, one.n) else f"{one.n} in {one.clusters}",
            f"**{one.verdict}**" + (" (negligible)" if one.negligible else ""),
            _text("; ".join(filter(None, [*one.flags, one.note, _needed(one)]))),
        ]
        for one in metrics
    ]
    headers = ["metric", "A", "B", "B − A", "95 % interval", "p", "p adjusted", "better / worse / same", "n", "verdict"]
    shown = 11 if any(row[10] for row in rows) else 10
    table = _table([*headers, "remark"][:shown], [row[:shown] for row in rows], right=(1, 2, 3, 5, 6))
    return ["## Metrics", "Over the samples of both runs; failures of a system count at the worst value.", table]


def _refused(refused: Mapping[str, str]) -> list[str]:
    if not refused:
        return []
    rows = [[_text(name), _text(why)] for name, why in refused.items()]
    return ["## Not compared", _table(["metric", "why"], rows)]


def _queries(report: CompareReport) -> list[str]:
    counted = Counter(query.kind for query in report.per_query)
    told = ", ".join(f"{counted[kind]} {_plural(kind, counted[kind])}" for kind in ComparisonKind)
    sentence = f"{told}."
    left_out = [
        f"{count} {what}"
        for key, what in (
            ("only_in_a", "in A only"),
            ("only_in_b", "in B only"),
            ("without_expected_chunk", "without an expected chunk"),
        )
        if (count := _count(report.deltas.get(key)))
    ]
    if left_out:
        sentence += f" Not compared: {', '.join(left_out)}."
    parts = ["## Queries", sentence]
    for kind in _LISTED:
        listed = [query for query in report.per_query if query.kind is kind]
        if not listed:
            continue
        rows = [
            [_text(query.query_id), _rank(query.a_hit_rank), _rank(query.b_hit_rank), _text(query.note or "")]
            for query in listed[:SHOWN]
        ]
        parts += [f"### {_TITLES[kind]}", _table(["query", "rank in A", "rank in B", "note"], rows, right=(1, 2))]
        if len(listed) > SHOWN:
            parts.append(f"And {len(listed) - SHOWN} more.")
    return parts


# --- cells -----------------------------------------------------------------------------------------------------------


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    rule = ["---:" if column in right else "---" for column in range(len(headers))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headers, rule, *rows])


def _text(text: str) -> str:
    """Any text as one line that Markdown and HTML show as it is."""
    line = " ".join("".join(mark if mark.isprintable() else " " for mark in str(text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _MARKS.sub(lambda mark: f"\\{mark.group()}", line)
    return _BLOCK_START.sub(lambda mark: _escaped_start(mark.group()), line)


def _escaped_start(start: str) -> str:
    """The beginning of a line that would make it a heading or an item of a list."""
    return f"{start}\\" if start.isdigit() else f"\\{start}"


def _number(value: float | None) -> str:
    return "n/a" if value is None or value != value else figure(value)


def _signed(value: float | None) -> str:
    if value is None or value != value:
        return "n/a"
    return f"{'+' if value > 0 else ''}{figure(value)}" if value else figure(0.0)


def _interval(one: MetricComparison) -> str:
    return "n/a" if one.interval is None else f"{_signed(one.interval[0])} to {_signed(one.interval[1])}"


def _probability(value: float | None) -> str:
    if value is None:
        return "n/a"
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def _needed(one: MetricComparison) -> str | None:
    return None if one.n_needed is None else f"{one.n_needed} samples would be needed"


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _plural(kind: ComparisonKind, count: int) -> str:
    word = kind.value.lower()
    return word if count == 1 else f"{word}es" if word.endswith("s") else f"{word}s"


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
