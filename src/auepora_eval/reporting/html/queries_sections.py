"""The sections of two runs query by query: wins and losses, changed queries and their causes."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import numpy as np

from ...compare.causes import Cause, QueryChange, cause_counts, explain_changes
from ...compare.main_metric import main_metric
from ...compare.types import CompareReport, ComparisonKind, MetricComparison, QueryComparison
from ...core.errors import AueporaError
from .blocks import Block, Bullets, Cell, Details, Prose, ReportSection, Row, TableColumn, simple_table
from .figures import changes_figure, scatter_figure, wins_figure
from .formatting import pluralize, shorten, value_text
from .stored_run import StoredRun, score_column

__all__ = ["changed_section", "query_link", "wins_section"]

MAX_LISTED = 50
"""The number of queries listed per kind; the query browser has all."""
CAUSES: Mapping[Cause, str] = {
    Cause.FAILED: "B failed, A did not",
    Cause.REFUSED: "B declined to answer, A answered",
    Cause.LOST: "B returned fewer of the relevant documents",
    Cause.RANKED_LOWER: "relevant documents stand further down in B",
    Cause.ANSWER_CHANGED: "the same documents, another answer",
    Cause.IGNORED: "relevant documents stand as far up, and the answer made less of them",
    Cause.CONTEXT_CHANGED: "other documents, none of them known to be relevant",
    Cause.UNEXPLAINED: "nothing that was looked at differs",
    Cause.RECOVERED: "A failed, B did not",
    Cause.ANSWERED: "A declined to answer, B answered",
    Cause.FOUND: "B returned more of the relevant documents",
    Cause.RANKED_HIGHER: "relevant documents stand further up in B",
    Cause.USED: "relevant documents stood as far up in A, and its answer made less of them",
}
_KINDS = (
    (ComparisonKind.REGRESSION, "Regressions: found in A, not in B"),
    (ComparisonKind.LOSS, "Losses: further down in B"),
    (ComparisonKind.WIN, "Wins: found in B only, or further up"),
)
_SPAN_MATCH_NOTE = (
    "The two runs have different chunks, so chunks are matched by where they lie in their document: a query is hit at "
    "the first rank up to which the chunks of the expected document together cover at least half of the expected span. "
    "Hit rates and ranks of both runs are computed so."
)


def query_link(sample_id: str) -> str:
    """The link that opens a query in this page."""
    return f"#q/{quote(sample_id, safe='', errors='replace')}"


def wins_section(
    a: StoredRun, b: StoredRun, report: CompareReport, main: MetricComparison | None
) -> ReportSection | None:
    """Wins and losses by metric, and the main metric query by query."""
    blocks: list[Block] = []
    drawn = wins_figure(report.metrics, (a.label, b.label))
    if drawn is not None:
        blocks.append(drawn)
    if main is not None:
        first, second = a.find_result(main.name), b.find_result(main.name)
        if first is not None and second is not None:
            index_in_a = {sample_id: index for index, sample_id in enumerate(a.results.sample_ids)}
            pairs = [(index_in_a[one], at) for at, one in enumerate(b.results.sample_ids) if one in index_in_a]
            column_a, column_b = score_column(first), score_column(second)
            if pairs and len(column_a) and len(column_b):
                in_a, in_b = (np.array(side, dtype=np.intp) for side in zip(*pairs, strict=True))
                ids = [b.results.sample_ids[at] for at in in_b.tolist()]
                blocks.append(scatter_figure(a, b, main.name, column_a[in_a], column_b[in_b], ids))
    return ReportSection("queries-won", "Wins and losses", blocks) if blocks else None


def changed_section(a: StoredRun, b: StoredRun, report: CompareReport) -> ReportSection | None:
    """Golden queries that changed, and why queries got worse or better."""
    blocks: list[Block] = []
    if report.deltas.get("chunker_version_match") == "fallback_doc_span":
        blocks.append(Prose(_SPAN_MATCH_NOTE, tone="open"))
    blocks += _cause_blocks(a, b)
    for kind, title in _KINDS:
        listed = [one for one in report.per_query if one.kind is kind]
        if listed:
            blocks.append(
                _golden_query_table(f"{title} ({len(listed):,})", listed, is_open=kind is ComparisonKind.REGRESSION)
            )
    left = [
        f"{count:,} {what}"
        for key, what in (
            ("only_in_a", "in A only"),
            ("only_in_b", "in B only"),
            ("without_expected_chunk", "without an expected document"),
            ("without_known_place", "whose expected chunks lie nobody knows where"),
        )
        if (count := report.deltas.get(key))
    ]
    if left:
        blocks.append(Prose(f"Golden queries not compared: {', '.join(left)}.", tone="muted"))
    return ReportSection("changed", "What changed, query by query", blocks) if blocks else None


def _golden_query_table(title: str, listed: list[QueryComparison], *, is_open: bool) -> Details:
    rows: list[Row] = [
        [
            Cell(shorten(one.query_id, 120), href=query_link(one.query_id)),
            _rank(one.a_hit_rank),
            _rank(one.b_hit_rank),
            shorten(one.note or ""),
        ]
        for one in listed[:MAX_LISTED]
    ]
    columns = [
        TableColumn("query"),
        TableColumn("rank in A", number=True),
        TableColumn("rank in B", number=True),
        TableColumn("note"),
    ]
    blocks: list[Block] = [simple_table(columns, rows)]
    if len(listed) > MAX_LISTED:
        blocks.append(Prose(f"And {len(listed) - MAX_LISTED:,} more.", tone="muted"))
    return Details(title, blocks, is_open=is_open and len(listed) <= 10)


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _cause_blocks(a: StoredRun, b: StoredRun) -> list[Block]:
    """The causes of queries that got worse or better by the main metric."""
    try:
        judged_by = main_metric(a.record, a.results, b.record, b.results)
        changes = explain_changes(a.store, a.record, b.record, metric=judged_by.name, worse_only=False)
    except AueporaError:
        return []
    better_when_higher = judged_by.higher_is_better
    worse = [one for one in changes if _is_worse(one, higher_is_better=better_when_higher)]
    better = [one for one in changes if not _is_worse(one, higher_is_better=better_when_higher)]
    if not changes:
        return [Prose(f"No query changed by {judged_by.name}.")]
    summary = f"By {judged_by.name} {pluralize(len(worse), 'query', 'queries')} got worse and {len(better):,} better."
    blocks: list[Block] = [
        Prose(f"{summary} A cause is the first thing that is seen to differ; that it made the difference is likely.")
    ]
    figures = changes_figure(cause_counts(worse), cause_counts(better))
    if figures is not None:
        blocks.append(figures)
    blocks.append(_cause_table(worse, better))
    if worse:
        blocks.append(_change_list(f"Queries that got worse ({len(worse):,})", worse))
    return blocks


def _is_worse(one: QueryChange, *, higher_is_better: bool) -> bool:
    if one.b_score is None:
        return True
    return one.a_score is not None and (one.b_score < one.a_score) is higher_is_better


def _cause_table(worse: list[QueryChange], better: list[QueryChange]) -> Block:
    rows: list[Row] = []
    for sign, word, listed in (("▼", "worse", worse), ("▲", "better", better)):
        rows += [
            [
                Cell(CAUSES.get(cause, str(cause)), note=str(cause)),
                Cell(word, tone="bad" if word == "worse" else "good", sign=sign),
                f"{count:,}",
            ]
            for cause, count in cause_counts(listed).items()
        ]
    return simple_table(
        [TableColumn("cause"), TableColumn("the query got", brief=True), TableColumn("queries", number=True)], rows
    )


def _change_list(title: str, listed: list[QueryChange]) -> Details:
    def fall(one: QueryChange) -> float:
        return float("inf") if one.a_score is None or one.b_score is None else abs(one.b_score - one.a_score)

    rows: list[Row] = [
        [
            Cell(shorten(one.sample_id, 120), href=query_link(one.sample_id)),
            value_text(one.a_score),
            value_text(one.b_score),
            str(one.cause),
            shorten(one.detail),
        ]
        for one in sorted(listed, key=fall, reverse=True)[:MAX_LISTED]
    ]
    columns = [
        TableColumn("query"),
        TableColumn("A", number=True),
        TableColumn("B", number=True),
        TableColumn("cause"),
        TableColumn("what was seen"),
    ]
    blocks: list[Block] = [simple_table(columns, rows)]
    if len(listed) > MAX_LISTED:
        blocks.append(Bullets([f"and {len(listed) - MAX_LISTED:,} more, which fell less"]))
    return Details(title, blocks)
