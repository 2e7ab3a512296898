"""The report of three or more runs: a leaderboard with significant differences, and all pairs."""

from __future__ import annotations

from collections.abc import Sequence

from ...compare.leaderboard import Leaderboard, LeaderboardMetric, build_leaderboard
from ...compare.question_overlap import OVERLAP_NOTE
from ...compare.report_notes import missing_note
from ...core.errors import AueporaError
from ...core.targets import TARGETS
from .blocks import (
    Cell,
    Details,
    Prose,
    ReportSection,
    ReportVerdict,
    Row,
    RowGroup,
    Table,
    TableColumn,
    simple_table,
    without_none,
)
from .cards_section import card_link, cards_section
from .comparison_section import p_value_text, signed_text, verdict_cell
from .distributions_section import distributions_section
from .failures_section import failures_section
from .figures import leaderboard_figure
from .formatting import format_time, pluralize, value_text
from .judges_section import judges_section
from .latency_section import latency_section
from .provenance import provenance_section
from .retrieval_section import retrieval_sections
from .run_page import answers_result, main_result
from .scores_section import runs_scores_section
from .slices_section import slices_section
from .stored_run import StoredRun

__all__ = ["leaderboard_or_error", "leaderboard_sections", "leaderboard_subtitle", "leaderboard_verdict"]


def leaderboard_or_error(runs: Sequence[StoredRun]) -> Leaderboard | str:
    """The leaderboard of the runs, or why they cannot be compared."""
    try:
        return build_leaderboard(runs[0].store, [run.record for run in runs], other_dataset=True)
    except AueporaError as error:
        return str(error)


def leaderboard_subtitle(runs: Sequence[StoredRun]) -> str:
    """Which runs they are."""
    return "; ".join(f"{run.label} ({format_time(run.record.created_at)})" for run in runs)


def leaderboard_verdict(runs: Sequence[StoredRun], leaderboard: Leaderboard | str) -> ReportVerdict:
    """The best run by the main metric, and which others are significantly worse."""
    points = [
        f"{run.label}: {run.counts[1]:,} of {pluralize(run.counts[0], 'answer')} failed."
        for run in runs
        if run.counts[1]
    ]
    if isinstance(leaderboard, str):
        return ReportVerdict(f"These runs cannot be compared: {leaderboard}", "bad", points)
    main = _main_metric(runs, leaderboard)
    if main is None:
        return ReportVerdict("These runs have no metric in common that can be compared.", "open", points)
    first = main.ranking[0]
    unbeaten = main.unbeaten()
    called = [run.label for run in runs]
    number = value_text(main.values[first])
    head = f"By {main.name}, {called[first]} is first with {number}"
    if not main.primary:
        return ReportVerdict(f"{head}; the metric is not among the primary ones.", "open", points)
    if _beaten_runs(main, first) == set(range(len(runs))) - {first}:
        return ReportVerdict(f"{head}, and surely better than every other run.", "good", points)
    others = ", ".join(called[one] for one in unbeaten if one != first)
    rest = f"{others} may be as good" if others else "for every other run there is one that is surely better"
    return ReportVerdict(f"{head}; {rest}.", "open", points)


def _beaten_runs(one: LeaderboardMetric, run: int) -> set[int]:
    """The runs that a run is significantly better than."""
    sure = {
        (pair.second, pair.first) if pair.comparison.verdict == "better" else (pair.first, pair.second)
        for pair in one.pairs
        if pair.comparison.verdict in ("better", "worse")
    }
    return {worse for better, worse in sure if better == run}


def _main_metric(runs: Sequence[StoredRun], leaderboard: Leaderboard) -> LeaderboardMetric | None:
    best = main_result(runs[-1])
    by_name = {one.name: one for one in leaderboard.metrics if any(value is not None for value in one.values)}
    if best is not None and best.name in by_name:
        return by_name[best.name]
    return next(iter(by_name.values()), None)


def leaderboard_sections(runs: Sequence[StoredRun], leaderboard: Leaderboard | str) -> list[ReportSection]:
    """The sections of a leaderboard."""
    main = None if isinstance(leaderboard, str) else _main_metric(runs, leaderboard)
    sections: list[ReportSection | None] = []
    if isinstance(leaderboard, str):
        sections.append(ReportSection("league", "League", [Prose(leaderboard, tone="bad")]))
    else:
        sections.append(_leaderboard_section(runs, leaderboard, main))
    sections += [
        runs_scores_section(runs),
        slices_section(runs, None if main is None else main.name),
        distributions_section(runs),
        latency_section(runs),
        *retrieval_sections(runs, answers_result(runs[-1])),
        failures_section(runs),
        judges_section(runs),
        cards_section(runs),
        provenance_section(runs),
    ]
    return [one for one in sections if one is not None]


def _leaderboard_section(
    runs: Sequence[StoredRun], leaderboard: Leaderboard, main: LeaderboardMetric | None
) -> ReportSection:
    blocks = without_none(None if main is None else leaderboard_figure(runs, main.name))
    columns = [
        TableColumn("metric"),
        *(TableColumn(run.label, number=True) for run in runs),
        TableColumn("surely better"),
    ]
    groups = []
    for target, entry in TARGETS.items():
        rows: list[Row] = [_row(runs, one) for one in leaderboard.metrics if one.target == target.name]
        if rows:
            groups.append(RowGroup(rows, entry.title))
    if groups:
        blocks.append(Table(columns, groups))
        blocks.append(Details("Every two runs", [_pairs_table(runs, leaderboard)]))
    if leaderboard.refused:
        refused: list[Row] = [[Cell(name), why] for name, why in leaderboard.refused.items()]
        blocks.append(
            Details(f"Not compared: {pluralize(len(refused), 'metric')}", [simple_table(["metric", "why"], refused)])
        )
    if lacking := missing_note(leaderboard.missing, [run.letter for run in runs]):
        blocks.append(Prose(lacking, tone="muted"))
    queries = pluralize(leaderboard.samples, "query", "queries")
    lead = f"Over the {queries} that all runs have. ★ no other run is surely better."
    return ReportSection(
        "league", "League", blocks or [Prose("There is no metric that all runs have.", tone="open")], lead
    )


def _row(runs: Sequence[StoredRun], one: LeaderboardMetric) -> Row:
    unbeaten = set(one.unbeaten()) if one.primary else set()
    letters = [run.letter for run in runs]
    beats = [
        f"{letters[pair.second]} > {letters[pair.first]}"
        if pair.comparison.verdict == "better"
        else f"{letters[pair.first]} > {letters[pair.second]}"
        for pair in one.pairs
        if pair.comparison.verdict in ("better", "worse")
    ]
    cells = [
        Cell(value_text(value), sign="★" if index in unbeaten and len(unbeaten) < len(runs) else "")
        for index, value in enumerate(one.values)
    ]
    better_text = ", ".join(beats) or "none" if one.primary else "exploratory"
    overlap = any(OVERLAP_NOTE in (pair.comparison.note or "") for pair in one.pairs)
    note = "; ".join(filter(None, [OVERLAP_NOTE * overlap, "lower is better" * (not one.higher_is_better)]))
    return [
        Cell(one.name, note=note, href=card_link(one.name)),
        *cells,
        Cell(better_text, tone="" if beats else "muted"),
    ]


def _pairs_table(runs: Sequence[StoredRun], leaderboard: Leaderboard) -> Table:
    columns = [
        TableColumn("metric"),
        TableColumn("runs", brief=True),
        TableColumn("difference", number=True),
        TableColumn("95 % interval", number=True),
        TableColumn("p adjusted", number=True),
        TableColumn("verdict on the first", brief=True),
    ]
    rows: list[Row] = []
    for metric in leaderboard.metrics:
        for pair in metric.pairs:
            one = pair.comparison
            shown = one.shown_interval
            ends = "" if shown is None else f"{signed_text(shown[0])} to {signed_text(shown[1])}"
            rows.append(
                [
                    Cell(metric.name),
                    f"{runs[pair.second].letter} − {runs[pair.first].letter}",
                    signed_text(one.delta),
                    ends,
                    p_value_text(one.p_adjusted if one.primary else one.p_value),
                    verdict_cell(one),
                ]
            )
    return simple_table(columns, rows)
