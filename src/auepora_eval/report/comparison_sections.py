"""Report sections on two runs: differences, queries, and the split into retrieval and generation."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from ..compare.leaderboard import Leaderboard
from ..compare.metrics import main_metric
from ..compare.queries import Cause, QueryChange, cause_counts, explain_changes
from ..compare.rendering import alternative_differences, failure_notes, missing_note
from ..compare.runs import DifferencePart, MetricSplit, split_difference
from ..compare.types import CompareReport, ComparisonKind, MetricComparison, QueryComparison
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..core.targets import TARGETS
from ..engine.evaluate import resolve_metrics
from ..errors import AueporaError
from ..render import charts
from ..render.blocks import (
    Block,
    Bullets,
    Cell,
    Code,
    Details,
    Figure,
    Gallery,
    Prose,
    ReportSection,
    Row,
    RowGroup,
    Table,
    TableColumn,
    Tone,
    simple_table,
)
from ..render.charts.queries import MAX_POINTS
from ..render.html import pluralize, shorten, value_text
from ..render.tables import format_value
from ..store.records import RunRecord, plan_conventions, run_info
from ..store.rows import REPLAY_TAG
from .plots import plot_comparison, plot_scatter, plot_split, win_rows
from .run_sections import GALLERY_WIDTH, card_link
from .stored_run import StoredRun, score_column

_SIGNS = {"better": "▲", "worse": "▼", "equal": "=", "inconclusive": "?"}
_TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "equal": "", "inconclusive": "open"}


def signed_text(value: float | None) -> str:
    """A difference with its sign."""
    if value is None or value != value:
        return "n/a"
    return format_value(0.0) if value == 0 else f"{'+' if value > 0 else '−'}{format_value(abs(value))}"


def p_value_text(value: float | None) -> str:
    """A p-value as text."""
    return "" if value is None else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def verdict_cell(one: MetricComparison) -> Cell:
    """The verdict as a word, a sign and a colour."""
    if not one.primary:
        return Cell("exploratory", tone="muted")
    note = "negligible" if one.negligible else ""
    return Cell(one.verdict, tone=_TONES[one.verdict], sign=_SIGNS[one.verdict], note=note)


def comparison_section(a: StoredRun, b: StoredRun, report: CompareReport) -> ReportSection:
    """Every metric that both runs have."""
    blocks: list[Block] = []
    if report.metrics:
        chart = plot_comparison(report.metrics, names=(a.label, b.label), title="Differences, B − A")
        blocks.append(
            Figure(chart, "B − A with 95 % intervals. The shape tells the verdict, and so does the table below.")
        )
        blocks.append(_table(report))
        blocks += [Prose(one, tone="muted") for one in _footnotes(report)]
    else:
        blocks.append(Prose("There is no metric that both runs have and that follows the same rules.", tone="open"))
    if report.refused:
        rows: list[Row] = [[Cell(name), why] for name, why in report.refused.items()]
        blocks.append(
            Details(
                f"Not compared: {pluralize(len(rows), 'metric')}",
                [simple_table([TableColumn("metric"), TableColumn("why")], rows)],
                is_open=not report.metrics,
            )
        )
    failed = [*filter(None, [missing_note(Leaderboard.of_pair(report))]), *failure_notes(report)]
    if failed:
        blocks.append(Bullets(failed))
    return ReportSection("deltas", "Differences", blocks, "B − A, over the queries that both runs have.")


def _table(report: CompareReport) -> Table:
    groups = []
    for target, entry in TARGETS.items():
        rows: list[Row] = [_row(one) for one in report.metrics if one.target == target.name]
        if rows:
            groups.append(RowGroup(rows, entry.title))
    columns = [
        TableColumn("metric"),
        TableColumn("verdict", brief=True),
        TableColumn("A", number=True),
        TableColumn("B", number=True),
        TableColumn("B − A", number=True),
        TableColumn("95 % interval", number=True),
        TableColumn("p adjusted", number=True),
        TableColumn("won / lost", number=True, minor=True),
        TableColumn("n", number=True, minor=True),
    ]
    return Table(columns, groups)


def _row(one: MetricComparison) -> Row:
    mark = " ?" if one.flags and one.interval is not None else ""
    ends = one.shown_interval
    interval = "" if ends is None else f"{signed_text(ends[0])} to {signed_text(ends[1])}{mark}"
    n = f"{one.n:,}" if one.clusters in (0, one.n) else f"{one.n:,} in {one.clusters:,}"
    notes = [] if one.higher_is_better else ["lower is better"]
    notes += [text for text in (alternative_differences(one), one.note) if text]
    if one.n_needed is not None:
        notes.append(f"{pluralize(one.n_needed, 'sample')} would be needed")
    p = one.p_adjusted if one.primary else one.p_value
    return [
        Cell(one.name, href=card_link(one.name), note="; ".join(notes)),
        verdict_cell(one),
        value_text(one.a),
        value_text(one.b),
        signed_text(one.delta),
        interval,
        Cell(p_value_text(p), note="" if one.primary or p is None else "not adjusted"),
        f"{one.wins:,} / {one.losses:,}",
        n,
    ]


def _footnotes(report: CompareReport) -> list[str]:
    lines = []
    adjusted = sum(one.primary for one in report.metrics)
    if adjusted > 1:
        lines.append(
            f"p-values and intervals are adjusted for {adjusted} metrics: a verdict needs a p-value below .05 and an "
            "interval without 0."
        )
    if any(not one.primary for one in report.metrics):
        lines.append("Exploratory: not among the primary metrics; no verdict is given.")
    if any(one.flags and one.interval is not None for one in report.metrics):
        lines.append("? few or skewed samples: the interval may be too narrow.")
    if any(one.clusters not in (0, one.n) for one in report.metrics):
        lines.append("n in c: so many samples in so many clusters, which belong together.")
    return lines


# --- query by query: wins and losses, changed queries and their causes -----------------------------------------------

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
_SQUARE = 560
"""The width of a figure as high as wide."""
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
    names = (a.label, b.label)
    rows = win_rows(report.metrics)
    if rows:
        caption = "On how many queries B does better and worse than A, by each metric."
        blocks.append(Figure(charts.wins_losses_chart(rows, names=names), caption))
    results = [] if main is None else [run.find_result(main.name) for run in (a, b)]
    if main is not None and all(one is not None and len(score_column(one)) for one in results):
        chart = plot_scatter(
            a.results,
            b.results,
            main.name,
            names=names,
            higher_is_better=main.higher_is_better,
            links=len(b.results.sample_ids) <= MAX_POINTS,
        )
        caption = f"{main.name} of every query in both runs. A point leads to its query."
        blocks.append(Figure(chart, caption, _SQUARE))
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
    figures = [
        Figure(
            charts.causes_chart({str(one).replace("_", " "): n for one, n in counts.items()}, title=title),
            caption,
            GALLERY_WIDTH,
        )
        for counts, title, caption in (
            (
                cause_counts(worse),
                "Queries that got worse",
                "The first difference that is seen, for each query that got worse.",
            ),
            (cause_counts(better), "Queries that got better", "The same for each query that got better."),
        )
        if counts
    ]
    blocks.append(Gallery(figures))
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


# --- the split into retrieval and generation, where a replay is stored -----------------------------------------------

MAX_DRAWN = 8
"""The number of metrics drawn; the table has all."""


def split_section(a: StoredRun, b: StoredRun) -> ReportSection | None:
    """The two parts of the differences, or the command that produces them."""
    replay = find_replay(a, b)
    splits = [] if replay is None else stored_splits(a, b, replay)
    title = "Retrieval or generation?"
    if replay is None or not splits:
        message = (
            "A replay tells them apart: B's generator answers from A's documents. This stores one, PLAN being the plan "
            "that B was made by; a report made afterwards shows the two parts here."
        )
        command = f"auepora replay {a.record.run_id} {b.record.run_id} PLAN"
        return ReportSection("split", title, [Prose(message, tone="muted"), Code(command)])
    rows: list[Row] = [
        [
            Cell(one.name),
            value_text(one.a),
            value_text(one.b),
            *map(_part_cell, (one.delta, one.retrieval, one.generation)),
            f"{one.n:,}",
        ]
        for one in splits
    ]
    columns = [
        TableColumn("metric"),
        TableColumn("A", number=True),
        TableColumn("B", number=True),
        TableColumn("B − A", number=True),
        TableColumn("from retrieval", number=True),
        TableColumn("from generation", number=True),
        TableColumn("n", number=True),
    ]
    blocks: list[Block] = []
    # The whole difference of a retrieval metric comes from retrieval, so it is not drawn.
    of_answers = [one for one in splits if not one.target.startswith("RETRIEVAL")]
    chart = plot_split((of_answers or splits)[:MAX_DRAWN])
    blocks.append(Figure(chart, "B − A, and what other documents and another generator made of it."))
    blocks.append(simple_table(columns, rows))
    lead = (
        f"In {replay.run_id} B's generator answered from A's documents. B − A is exactly the sum of the two parts, "
        "over the queries that have a score in all three runs."
    )
    return ReportSection("split", title, blocks, lead)


def find_replay(a: StoredRun, b: StoredRun) -> RunRecord | None:
    """The latest finished replay of these two runs."""
    for record in a.store.runs(tag=REPLAY_TAG, status="finished"):
        replay_plan = (
            (record.plan.get("system") or {}).get("replay") if isinstance(record.plan.get("system"), Mapping) else None
        )
        if (
            isinstance(replay_plan, Mapping)
            and replay_plan.get("contexts") == a.record.run_id
            and replay_plan.get("generator") == b.record.run_id
        ):
            return record
    return None


def stored_splits(a: StoredRun, b: StoredRun, replay: RunRecord) -> list[MetricSplit]:
    """The splits of the metrics that all three runs have with the same signature."""
    if not a.record.fingerprint == b.record.fingerprint == replay.fingerprint:
        return []
    replayed = StoredRun(a.store, replay)
    scores_by_run = [_scores(run) for run in (a, replayed, b)]
    rules, facts = plan_conventions(replay), run_info(replay)
    splits = []
    for spec in replay.plan.get("metrics") or [one.name for one in replayed.results]:
        try:
            (metric,) = resolve_metrics([spec], rules)
        except AueporaError:  # it needs a judge, or is not registered here
            continue
        result = replayed.find_result(metric.name)
        keys = (metric.name, None if result is None else result.signature)
        if isinstance(metric, BatchMetric) and all(keys in one for one in scores_by_run):
            first, middle, last = (one[keys] for one in scores_by_run)
            bound = metric.for_run(facts)
            assert isinstance(bound, BatchMetric)
            splits.append(split_difference(bound, b.results.sample_ids, first, middle, last, b.clusters))
    return splits


def _scores(run: StoredRun) -> dict[tuple[str, str | None], Scores]:
    found = run.store.results(run.record.run_id, every_signature=True)
    return {(one.name, one.signature): one.scores for one in found if isinstance(one.scores, Scores)}


def _part_cell(part: DifferencePart) -> Cell:
    ends = "" if part.interval is None else f"{signed_text(part.interval[0])} to {signed_text(part.interval[1])}"
    return Cell(signed_text(part.value), note=ends)
