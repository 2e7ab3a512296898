"""Two runs query by query: who won, which queries changed, and why they did."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import numpy as np

from ...compare.causes import Cause, QueryChange, cause_counts, explain_changes
from ...compare.main_metric import main_metric
from ...compare.types import CompareReport, ComparisonKind, MetricComparison, QueryComparison
from ...core.errors import AueporaError
from .blocks import Block, Bullets, Cell, Column, Fold, Prose, Row, Section, bare_table
from .figures import changes_figure, scatter_figure, wins_figure
from .stored_run import StoredRun, column_of
from .wording import amount, short, value_text

__all__ = ["changed_section", "query_link", "wins_section"]

LISTED = 50
"""So many queries of a kind are listed; the browser below has all."""
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
_MATCHED = (
    "The two runs have different chunks, so chunks are matched by where they lie in their document: a query is hit at "
    "the first rank up to which the chunks of the expected document together cover at least half of the expected span. "
    "Hit rates and ranks of both runs are computed so."
)


def query_link(sample_id: str) -> str:
    """The place in this page where a query is opened."""
    return f"#q/{quote(sample_id, safe='', errors='replace')}"


def wins_section(a: StoredRun, b: StoredRun, report: CompareReport, main: MetricComparison | None) -> Section | None:
    """Wins and losses by metric, and the main metric query by query."""
    blocks: list[Block] = []
    drawn = wins_figure(report.metrics, (a.called, b.called))
    if drawn is not None:
        blocks.append(drawn)
    if main is not None:
        first, second = a.named(main.name), b.named(main.name)
        if first is not None and second is not None:
            places = {sample_id: place for place, sample_id in enumerate(a.results.sample_ids)}
            pairs = [(places[one], at) for at, one in enumerate(b.results.sample_ids) if one in places]
            column_a, column_b = column_of(first), column_of(second)
            if pairs and len(column_a) and len(column_b):
                in_a, in_b = (np.array(side, dtype=np.intp) for side in zip(*pairs, strict=True))
                ids = [b.results.sample_ids[at] for at in in_b.tolist()]
                blocks.append(scatter_figure(a, b, main.name, column_a[in_a], column_b[in_b], ids))
    return Section("queries-won", "Wins and losses", blocks) if blocks else None


def changed_section(a: StoredRun, b: StoredRun, report: CompareReport) -> Section | None:
    """Golden queries that changed, and why queries got worse or better."""
    blocks: list[Block] = []
    if report.deltas.get("chunker_version_match") == "fallback_doc_span":
        blocks.append(Prose(_MATCHED, tone="open"))
    blocks += _explained(a, b)
    for kind, title in _KINDS:
        listed = [one for one in report.per_query if one.kind is kind]
        if listed:
            blocks.append(_golden(f"{title} ({len(listed):,})", listed, is_open=kind is ComparisonKind.REGRESSION))
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
    return Section("changed", "What changed, query by query", blocks) if blocks else None


def _golden(title: str, listed: list[QueryComparison], *, is_open: bool) -> Fold:
    rows: list[Row] = [
        [
            Cell(short(one.query_id, 120), href=query_link(one.query_id)),
            _rank(one.a_hit_rank),
            _rank(one.b_hit_rank),
            short(one.note or ""),
        ]
        for one in listed[:LISTED]
    ]
    columns = [Column("query"), Column("rank in A", number=True), Column("rank in B", number=True), Column("note")]
    blocks: list[Block] = [bare_table(columns, rows)]
    if len(listed) > LISTED:
        blocks.append(Prose(f"And {len(listed) - LISTED:,} more.", tone="muted"))
    return Fold(title, blocks, is_open=is_open and len(listed) <= 10)


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _explained(a: StoredRun, b: StoredRun) -> list[Block]:
    """Why queries got worse and better, by the metric that matters most."""
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
    told = f"By {judged_by.name} {amount(len(worse), 'query', 'queries')} got worse and {len(better):,} better."
    blocks: list[Block] = [
        Prose(f"{told} A cause is the first thing that is seen to differ; that it made the difference is likely.")
    ]
    figures = changes_figure(cause_counts(worse), cause_counts(better))
    if figures is not None:
        blocks.append(figures)
    blocks.append(_counts(worse, better))
    if worse:
        blocks.append(_changes(f"Queries that got worse ({len(worse):,})", worse))
    return blocks


def _is_worse(one: QueryChange, *, higher_is_better: bool) -> bool:
    if one.b_score is None:
        return True
    return one.a_score is not None and (one.b_score < one.a_score) is higher_is_better


def _counts(worse: list[QueryChange], better: list[QueryChange]) -> Block:
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
    return bare_table([Column("cause"), Column("the query got", brief=True), Column("queries", number=True)], rows)


def _changes(title: str, listed: list[QueryChange]) -> Fold:
    def fall(one: QueryChange) -> float:
        return float("inf") if one.a_score is None or one.b_score is None else abs(one.b_score - one.a_score)

    rows: list[Row] = [
        [
            Cell(short(one.sample_id, 120), href=query_link(one.sample_id)),
            value_text(one.a_score),
            value_text(one.b_score),
            str(one.cause),
            short(one.detail),
        ]
        for one in sorted(listed, key=fall, reverse=True)[:LISTED]
    ]
    columns = [
        Column("query"),
        Column("A", number=True),
        Column("B", number=True),
        Column("cause"),
        Column("what was seen"),
    ]
    blocks: list[Block] = [bare_table(columns, rows)]
    if len(listed) > LISTED:
        blocks.append(Bullets([f"and {len(listed) - LISTED:,} more, which fell less"]))
    return Fold(title, blocks)
