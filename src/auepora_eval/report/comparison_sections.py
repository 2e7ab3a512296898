"""The comparison of two or more runs in a report: verdict, differences, queries, retrieval or generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..compare.metrics import main_metric
from ..compare.queries import Cause, QueryChange, cause_counts, explain_changes
from ..compare.rendering import (
    comparison_summary,
    failure_notes,
    guardrails_table,
    kinds_sentence,
    matching_note,
    metrics_table,
    pairs_table,
    query_details,
    refused_details,
    split_table,
    table_notes,
)
from ..compare.runs import (
    Leaderboard,
    LeaderboardMetric,
    MetricSplit,
    build_leaderboard,
    compare_runs,
    golden_report,
    split_difference,
)
from ..compare.types import CompareReport
from ..core.metrics_base import BatchMetric
from ..core.results import display_name
from ..core.scores import Scores
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
    ReportVerdict,
    Row,
    Table,
    TableColumn,
    Tone,
    select_columns,
    simple_table,
)
from ..render.charts.queries import MAX_POINTS
from ..render.html import pluralize, result_row, shorten, value_text
from ..store.records import RunRecord, plan_conventions, run_info
from ..store.rows import REPLAY_TAG
from .plots import plot_comparison, plot_scatter, plot_split, win_rows
from .run_sections import (
    GALLERY_WIDTH,
    GateCheck,
    StoredRun,
    card_link,
    check_stored_gates,
    gates_section,
    gates_summary,
    score_column,
)


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Two or more runs with their comparison, or the reason why there is none."""

    runs: Sequence[StoredRun]
    board: Leaderboard | None = None
    error: str = ""
    """Why the metrics cannot be compared."""
    report: CompareReport | None = None
    """The golden queries of two runs."""
    gates: GateCheck = None
    """The gates of the second of two runs."""

    @property
    def main(self) -> LeaderboardMetric | None:
        """The main metric of the runs."""
        return None if self.board is None else next(iter(self.board.valued), None)


def compare_stored_runs(
    runs: Sequence[StoredRun], *, other_dataset: bool = True, gates: bool = True, **options: Any
) -> ComparedRuns:
    """Compare runs with each other; runs on different datasets are compared over their common queries.

    Without ``other_dataset``, runs on different datasets are not compared. ``gates`` says whether the gates of the
    second of two runs are checked. The other options are those of ``build_leaderboard``.
    """
    store, records = runs[0].store, [run.record for run in runs]
    if len(runs) > 2:
        try:
            board = build_leaderboard(store, records, other_dataset=other_dataset, **options)
            return ComparedRuns(runs, board.record_in(store, records))
        except AueporaError as error:
            return ComparedRuns(runs, error=str(error))
    checked = check_stored_gates(runs[1], records[0]) if gates else None
    a, b = (record.run_id for record in records)
    try:
        report = compare_runs(a, b, store=store, other_dataset=other_dataset, aggregates=False, **options)
    except AueporaError as error:
        return ComparedRuns(runs, None, str(error), _golden_queries(runs), checked)
    return ComparedRuns(runs, Leaderboard.of_pair(report, [record.name for record in records]), "", report, checked)


def _golden_queries(runs: Sequence[StoredRun]) -> CompareReport | None:
    """The comparison of golden queries, where no metric can be compared."""
    try:
        report = golden_report(runs[0].store, runs[0].record, runs[1].record, aggregates=False)
    except AueporaError:
        return None
    return report if report.per_query else None


def comparison_verdict(compared: ComparedRuns) -> ReportVerdict:
    """The verdict on the primary metrics in one sentence, and further points."""
    if compared.board is None:
        what = "The metrics of these runs" if compared.report is not None else "These runs"
        return ReportVerdict(f"{what} cannot be compared: {compared.error}", "bad", _points(compared))
    summary = comparison_summary(compared.board)
    tones: dict[str, Tone] = {"better": "good", "worse": "bad", "open": "open"}
    return ReportVerdict(summary.sentence, tones[summary.outcome], _points(compared))


def _points(compared: ComparedRuns) -> list[str]:
    points: list[str] = []
    board, report = compared.board, compared.report
    if report is not None and report.per_query:
        count = pluralize(len(report.per_query), "golden query", "golden queries")
        points.append(f"Of {count}: {kinds_sentence(report)}")
    if board is not None:
        points += [f"{shorten(note)}." for note in board.notes]
        refused = ", ".join([board.metric_label(name) for name in board.refused])
        points += [f"Not compared: {refused} (see below)."] if refused else []
    if len({run.record.fingerprint for run in compared.runs}) > 1:
        points.append("The runs were made on different datasets; they are compared over the queries that all have.")
    for run in compared.runs:
        done, failed = run.counts
        if failed:
            points.append(f"{run.label}: {failed:,} of {pluralize(done, 'answer')} failed.")
        if run.record.status != "finished":
            points.append(f"{run.label} is {run.record.status.value}.")
    points += dict.fromkeys(run.licence_note for run in compared.runs if run.licence_note)
    if compared.gates is not None:
        points.append(gates_summary(compared.gates, " of B"))
    return points


def comparison_sections(compared: ComparedRuns) -> list[ReportSection | None]:
    """The sections on the comparison: differences of all runs, and of two runs also their queries."""
    sections = [gates_section(compared.gates), _differences_section(compared)]
    if len(compared.runs) == 2:
        a, b = compared.runs
        sections.append(wins_section(compared))
        if compared.report is not None:
            sections += [_changed_section(a, b, compared.report), split_section(a, b)]
    return sections


# --- every metric of all runs ----------------------------------------------------------------------------------------


def _differences_section(compared: ComparedRuns) -> ReportSection:
    """Every metric that the runs have in common."""
    two, board = len(compared.runs) == 2, compared.board
    name, title = ("deltas", "Differences") if two else ("leaderboard", "Leaderboard")
    if board is None:
        return ReportSection(name, title, [Prose(compared.error, tone="bad")])
    blocks = guardrails_table(board)
    if board.metrics:
        table = metrics_table(board, href=card_link)
        blocks += [_differences_figure(compared), with_verdict_first(table) if two else table]
        blocks += [] if two else [Details("Every two runs", [pairs_table(board)])]
    else:
        blocks.append(Prose("There is no metric that the runs have in common and that follows the same rules.", "open"))
    blocks += refused_details(board)
    notes = [*table_notes(board), *([] if compared.report is None else failure_notes(compared.report))]
    blocks += [Bullets(notes)] if notes else []
    queries = pluralize(board.samples, "query", "queries")
    return ReportSection(name, title, blocks, f"Over the {queries} that all runs have.")


def with_verdict_first(table: Table) -> Table:
    """The table with its last column, the verdict, next to the names, where narrow screens show it."""
    last = len(table.columns) - 1
    return select_columns(table, [0, last, *range(1, last)])


def _differences_figure(compared: ComparedRuns) -> Figure:
    """The differences of two runs, or the main metric of several."""
    assert compared.board is not None
    runs = compared.runs
    if len(runs) > 2:
        return main_metric_figure(runs, compared.board)
    names = runs[0].label, runs[1].label
    chart = plot_comparison(compared.board.comparisons, names=names, title="Differences, B − A")
    return Figure(chart, "B − A with 95 % intervals. The shape tells the verdict, and so does the table below.")


def main_metric_figure(runs: Sequence[StoredRun], board: Leaderboard) -> Figure:
    """The main metric of several runs."""
    main = next(iter(board.valued), board.metrics[0])
    results = [(run, result) for run in runs if (result := run.find_result(main.name)) is not None]
    rows = [{**result_row(result, run.label), "scale": main.name} for run, result in results]
    caption = f"{main.label} of each run over all its queries, with 95 % intervals."
    return Figure(charts.interval_chart(rows, title=main.label), caption)


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
_SQUARE = 560
"""The width of a figure as high as wide."""


def query_link(sample_id: str) -> str:
    """The link that opens a query in this page."""
    return f"#q/{quote(sample_id, safe='', errors='replace')}"


def wins_section(compared: ComparedRuns) -> ReportSection | None:
    """Wins and losses of two runs by metric, and the main metric query by query."""
    a, b = compared.runs
    main = compared.main
    blocks: list[Block] = []
    names = (a.label, b.label)
    rows = [] if compared.board is None else win_rows(compared.board.comparisons)
    if rows:
        caption = "On how many queries B does better and worse than A, by each metric."
        blocks.append(Figure(charts.wins_losses_chart(rows, names=names), caption))
    results = [] if main is None else [run.find_result(main.name) for run in (a, b)]
    if main is not None and all(result is not None and len(score_column(result)) for result in results):
        chart = plot_scatter(
            a.results,
            b.results,
            main.name,
            names=names,
            higher_is_better=main.higher_is_better,
            links=len(b.results.sample_ids) <= MAX_POINTS,
        )
        caption = f"{main.label} of every query in both runs. A point leads to its query."
        blocks.append(Figure(chart, caption, _SQUARE))
    return ReportSection("queries-won", "Wins and losses", blocks) if blocks else None


def _changed_section(a: StoredRun, b: StoredRun, report: CompareReport) -> ReportSection | None:
    """Golden queries that changed, and why queries got worse or better."""
    matching = matching_note(report)
    blocks: list[Block] = [] if matching is None else [Prose(matching, tone="open")]
    blocks += [*_cause_blocks(a, b), *query_details(report, limit=MAX_LISTED, href=query_link)]
    return ReportSection("changed", "What changed, query by query", blocks) if blocks else None


def _cause_blocks(a: StoredRun, b: StoredRun) -> list[Block]:
    """The causes of queries that got worse or better by the main metric."""
    try:
        judged_by = main_metric(a.record, a.results, b.record, b.results)
        changes = explain_changes(a.store, a.record, b.record, metric=judged_by.name, worse_only=False)
    except AueporaError:
        return []
    worse = [change for change in changes if is_worse(change, higher_is_better=judged_by.higher_is_better)]
    better = [change for change in changes if not is_worse(change, higher_is_better=judged_by.higher_is_better)]
    if not changes:
        return [Prose(f"No query changed by {judged_by.label}.")]
    summary = f"By {judged_by.label} {pluralize(len(worse), 'query', 'queries')} got worse and {len(better):,} better."
    blocks: list[Block] = [
        Prose(f"{summary} A cause is the first thing that is seen to differ; that it made the difference is likely.")
    ]
    figures = [
        Figure(
            charts.causes_chart({str(cause).replace("_", " "): n for cause, n in counts.items()}, title=title),
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


def is_worse(change: QueryChange, *, higher_is_better: bool) -> bool:
    """Whether the query got worse from the first run to the second; otherwise it got better."""
    if change.b_score is None:
        return True
    return change.a_score is not None and (change.b_score < change.a_score) is higher_is_better


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
    def fall(change: QueryChange) -> float:
        return (
            float("inf") if change.a_score is None or change.b_score is None else abs(change.b_score - change.a_score)
        )

    rows: list[Row] = [
        [
            Cell(shorten(change.sample_id, 120), href=query_link(change.sample_id)),
            value_text(change.a_score),
            value_text(change.b_score),
            str(change.cause),
            shorten(change.detail),
        ]
        for change in sorted(listed, key=fall, reverse=True)[:MAX_LISTED]
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
    # The whole difference of a retrieval metric comes from retrieval, so it is not drawn.
    of_answers = [split for split in splits if not split.target.startswith("RETRIEVAL")]
    chart = plot_split((of_answers or splits)[:MAX_DRAWN])
    figure = Figure(chart, "B − A, and what other documents and another generator made of it.")
    lead = (
        f"In {replay.run_id} B's generator answered from A's documents. B − A is exactly the sum of the two parts, "
        "over the queries that have a score in all three runs."
    )
    return ReportSection("split", title, [figure, split_table(splits)], lead)


def find_replay(a: StoredRun, b: StoredRun) -> RunRecord | None:
    """The latest finished replay of these two runs."""
    wanted = {"contexts": a.record.run_id, "generator": b.record.run_id}
    for record in a.store.runs(tag=REPLAY_TAG, status="finished"):
        system = record.plan.get("system")
        replay = system.get("replay") if isinstance(system, Mapping) else None
        if isinstance(replay, Mapping) and wanted.items() <= replay.items():
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
    for spec in replay.plan.get("metrics") or [result.name for result in replayed.results]:
        try:
            (metric,) = resolve_metrics([spec], rules)
        except AueporaError:  # it needs a judge, or is not registered here
            continue
        result = replayed.find_result(metric.name)
        if result is None or not isinstance(metric, BatchMetric):
            continue
        keys = (metric.name, result.signature)
        if all(keys in scores for scores in scores_by_run):
            first, middle, last = (scores[keys] for scores in scores_by_run)
            bound, ids, label = metric.for_run(facts), b.results.sample_ids, display_name(result)
            splits.append(split_difference(bound, ids, first, middle, last, clusters=b.clusters, label=label))
    return splits


def _scores(run: StoredRun) -> dict[tuple[str, str | None], Scores]:
    found = run.store.results(run.record.run_id, every_signature=True)
    return {(result.name, result.signature): result.scores for result in found if isinstance(result.scores, Scores)}
