"""Reports of stored runs as one file: one run, a comparison of two, or a leaderboard of more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from .._version import __version__
from ..compare.analysis import OVERLAP_NOTE
from ..compare.leaderboard import Leaderboard, LeaderboardMetric, build_leaderboard
from ..compare.rendering import comparison_summary, missing_note
from ..compare.runs import compare_runs, golden_report
from ..compare.stores import Store, open_store
from ..compare.types import CompareReport, MetricComparison, QueryComparison
from ..core.targets import TARGETS
from ..core.types import MetricResult, TargetCategory
from ..errors import AueporaError, BadValueError
from ..render import charts
from ..render.blocks import (
    Block,
    Cell,
    Details,
    Figure,
    Prose,
    Report,
    ReportSection,
    ReportVerdict,
    Row,
    RowGroup,
    Table,
    TableColumn,
    Tone,
    simple_table,
)
from ..render.html import (
    describe_result,
    format_time,
    pluralize,
    render_overview,
    render_page,
    result_row,
    seconds_text,
    shorten,
    value_text,
)
from ..render.markdown import report_markdown
from ..runtime.files import atomic_write
from ..runtime.processes import gc_paused
from ..store.records import RunRecord, RunStatus
from ..store.runs import CachedStore, RunStore
from .browser.pack import build_browser
from .comparison_sections import (
    changed_section,
    comparison_section,
    p_value_text,
    signed_text,
    split_section,
    verdict_cell,
    wins_section,
)
from .plots import ANSWERS
from .run_sections import (
    GateCheck,
    card_link,
    cards_section,
    check_stored_gates,
    failures_section,
    gates_section,
    gates_summary,
    judges_section,
    provenance_section,
)
from .score_sections import (
    distributions_section,
    latency_section,
    retrieval_sections,
    runs_scores_section,
    scores_section,
    slices_section,
)
from .stored_run import StoredRun, score_column

# --- one run: the verdict in one sentence, and the sections ----------------------------------------------------------

RETRIEVAL = (TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY)


def run_subtitle(run: StoredRun) -> str:
    """Run id, time, dataset and tags."""
    record = run.record
    times = f", each asked {record.repeats} times" if record.repeats > 1 else ""
    tags = f", tagged {', '.join(record.tags)}" if record.tags else ""
    return (
        f"{record.run_id}, {format_time(record.created_at)}: {pluralize(record.num_samples, 'query', 'queries')} of "
        f"{record.dataset_name}{times}{tags}"
    )


def run_verdict(run: StoredRun) -> ReportVerdict:
    """The main metric, failures and gates of a run."""
    record, (done, failed) = run.record, run.counts
    points: list[str] = []
    tone: Tone = ""
    expected = record.num_samples * max(record.repeats, 1)
    if record.status is not RunStatus.FINISHED:
        tone = "open"
        why = f": {shorten(record.message)}" if record.message else ""
        points.append(
            f"The run is {record.status.value}, with {done:,} of {pluralize(expected, 'answer')} stored{why}."
        )
    if failed:
        tone = "bad" if failed == done else "open"
    unmeasured = [one for one in run.results if one.details.get("num_measure_failed")]
    if unmeasured:
        points.append(
            f"{pluralize(len(unmeasured), 'metric')} could not be measured on some queries: "
            f"{', '.join(one.name for one in unmeasured[:5])}{' and others' if len(unmeasured) > 5 else ''}."
        )
    gates = check_stored_gates(run)
    if gates is not None:
        points.append(gates_summary(gates))
    if isinstance(gates, str):
        tone = tone or "open"
    elif gates is not None:
        tone = {"passed": tone or "good", "failed": "bad", "inconclusive": tone or "open"}[gates.status]
    failures = "no answer failed" if not failed else f"{failed:,} of {pluralize(done, 'answer')} failed"
    best = main_result(run)
    if not record.num_samples:
        return ReportVerdict(f"{record.name} has no queries, so there is nothing to tell.", "open", points)
    if not run.results:
        message = f"{record.name} has no results yet: {pluralize(done, 'answer')} stored, {failures}."
        return ReportVerdict(message, "open", points)
    if best is None:
        return ReportVerdict(f"{record.name} was scored, and no metric has a value; {failures}.", "bad", points)
    queries = pluralize(record.num_samples, "query", "queries")
    sentence = f"On {queries} of {record.dataset_name}, {describe_result(best)}; {failures}."
    return ReportVerdict(sentence, tone, [*_secondary_points(run, best), *points])


def _secondary_points(run: StoredRun, best: MetricResult) -> list[str]:
    """The first metric of retrieval, where the main one judges answers; and how long answers took."""
    points = []
    if best.target not in RETRIEVAL:
        found = sorted((one for one in run.results if one.target in RETRIEVAL and one.defined), key=_retrieval_order)
        points += [f"Retrieval: {describe_result(one)}." for one in found[:1]]
    times = run.timings.get("end_to_end")
    if times is not None:
        middle, slow = np.quantile(times, (0.5, 0.95), method="inverted_cdf").tolist()
        points.append(
            f"Latency: half of the answers took up to {seconds_text(middle)}, 95 % up to {seconds_text(slow)}."
        )
    return points


def _retrieval_order(result: MetricResult) -> int:
    return RETRIEVAL.index(result.target)


def main_result(run: StoredRun) -> MetricResult | None:
    """The result of the main metric; ``None`` where no metric has a value."""
    from ..compare.metrics import main_metric

    defined = [one for one in run.results if one.defined]
    try:
        found = run.find_result(main_metric(run.record, run.results, run.record, run.results).name)
    except AueporaError:
        found = None
    if found is not None and found.defined:
        return found
    return next((one for one in defined if one.target is not TargetCategory.LATENCY), defined[0] if defined else None)


def answers_result(run: StoredRun) -> MetricResult | None:
    """The main result that judges answers; ``None`` where no such metric has scores per query."""
    best = main_result(run)
    if best is not None and best.target in ANSWERS and len(score_column(best)):
        return best
    listed = [one for one in run.results if one.target in ANSWERS and one.defined and len(score_column(one))]
    return min(listed, key=lambda one: ANSWERS.index(one.target), default=None)


def run_sections(run: StoredRun) -> list[ReportSection]:
    """The sections of a run; those that would be empty are left out."""
    best = main_result(run)
    sections = [
        gates_section(check_stored_gates(run)),
        scores_section(run),
        slices_section([run], None if best is None else best.name),
        distributions_section([run]),
        latency_section([run]),
        *retrieval_sections([run], answers_result(run)),
        failures_section([run]),
        judges_section([run]),
        cards_section([run]),
        provenance_section([run]),
    ]
    return [one for one in sections if one is not None]


# --- two runs: the verdict in one sentence, and the sections ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Two runs with their comparison, or the reason why there is none."""

    a: StoredRun
    b: StoredRun
    report: CompareReport | None
    refused: str = ""
    gates: GateCheck = None

    @property
    def main(self) -> MetricComparison | None:
        """The comparison of the main metric."""
        from ..compare.metrics import main_metric

        if self.report is None:
            return None
        try:
            name = main_metric(self.a.record, self.a.results, self.b.record, self.b.results).name
        except AueporaError:
            name = ""
        by_name = {one.name: one for one in self.report.metrics}
        return by_name.get(name) or next((one for one in self.report.metrics if one.delta is not None), None)


def compare_stored_runs(a: StoredRun, b: StoredRun) -> ComparedRuns:
    """Compare run B with run A; runs on different datasets are compared over their common queries."""
    gates = check_stored_gates(b, a.record)
    try:
        report = compare_runs(a.record.run_id, b.record.run_id, store=a.store, other_dataset=True, aggregates=False)
    except AueporaError as error:
        return ComparedRuns(a, b, _golden_report_only(a, b), str(error), gates)
    return ComparedRuns(a, b, report, gates=gates)


def _golden_report_only(a: StoredRun, b: StoredRun) -> CompareReport | None:
    """The comparison of golden queries, where no metric can be compared."""
    try:
        report = golden_report(a.store, a.record, b.record, aggregates=False)
    except AueporaError:
        return None
    return report if report.per_query else None


def comparison_subtitle(compared: ComparedRuns) -> str:
    """Which runs they are."""
    return "; ".join(
        f"{run.label} ({run.record.run_id}, {format_time(run.record.created_at)})" for run in (compared.a, compared.b)
    )


def comparison_verdict(compared: ComparedRuns) -> ReportVerdict:
    """The verdict on the primary metrics, the main metric, and further points."""
    a, b = compared.a, compared.b
    if compared.refused or compared.report is None:
        what = "The two runs" if compared.report is None else "The metrics of the two runs"
        return ReportVerdict(f"{what} cannot be compared: {compared.refused}", "bad", _points(compared))
    summary = comparison_summary(Leaderboard.of_pair(compared.report, (a.record.name, b.record.name)))
    tones: dict[str, Tone] = {"better": "good", "worse": "bad", "open": "open"}
    worse = [one for one in compared.report.metrics if one.primary and one.verdict == "worse"]
    return ReportVerdict(summary.sentence, tones[summary.outcome], _points(compared, worse))


def _points(compared: ComparedRuns, worse: Sequence[MetricComparison] = ()) -> list[str]:
    points = []
    report = compared.report
    if worse:
        names = ", ".join(one.name for one in worse[:6])
        points.append(f"Worse: {names}{' and others' if len(worse) > 6 else ''}.")
    if report is not None:
        kinds = report.deltas.get("kinds") or {}
        if report.per_query:
            kind_counts = ", ".join(
                f"{count:,} {kind.lower()}{_plural(kind, count)}" for kind, count in kinds.items() if count
            )
            points.append(f"Of {pluralize(len(report.per_query), 'golden query', 'golden queries')}: {kind_counts}.")
        points += [f"{shorten(note)}." for note in report.notes]
        if report.refused:
            points.append(f"Not compared: {', '.join(report.refused)} (see below).")
    if compared.a.record.fingerprint != compared.b.record.fingerprint:
        points.append("The runs were made on different datasets; they are compared over the queries that both have.")
    for run in (compared.a, compared.b):
        done, failed = run.counts
        if failed:
            points.append(f"{run.label}: {failed:,} of {pluralize(done, 'answer')} failed.")
        if run.record.status != "finished":
            points.append(f"{run.label} is {run.record.status.value}.")
    if compared.gates is not None:
        points.append(gates_summary(compared.gates, " of B"))
    return points


def _plural(kind: str, count: int) -> str:
    return "" if count == 1 else "es" if kind.endswith("s") else "s"


def comparison_sections(compared: ComparedRuns) -> list[ReportSection]:
    """The sections of a comparison; those that would be empty are left out."""
    a, b = compared.a, compared.b
    both = (a, b)
    main = compared.main
    sections: list[ReportSection | None] = []
    sections.append(gates_section(compared.gates))
    if compared.refused or compared.report is None:
        sections.append(ReportSection("deltas", "Differences", [Prose(compared.refused, tone="bad")]))
    else:
        sections += [comparison_section(a, b, compared.report), wins_section(a, b, compared.report, main)]
    if compared.report is not None:
        sections += [changed_section(a, b, compared.report), split_section(a, b)]
    sections += [
        runs_scores_section(both),
        slices_section(both, None if main is None else main.name),
        distributions_section(both),
        latency_section(both),
        *retrieval_sections(both, answers_result(b)),
        failures_section(both),
        judges_section(both),
        cards_section(both),
        provenance_section(both),
    ]
    return [one for one in sections if one is not None]


# --- three or more runs: a leaderboard with significant differences, and all pairs -----------------------------------


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
    blocks: list[Block] = []
    results = [] if main is None else [(run, one) for run in runs if (one := run.find_result(main.name)) is not None]
    if main is not None and results:
        chart = charts.interval_chart(
            [{**result_row(one, run.label), "scale": main.name} for run, one in results], title=main.name
        )
        blocks.append(Figure(chart, f"{main.name} of each run over all its queries, with 95 % intervals."))
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
    if lacking := missing_note(leaderboard):
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


# --- the report file -------------------------------------------------------------------------------------------------

MARKDOWN = (".md", ".markdown")
_QUERY_LINK = re.compile(r'href="#q/([^"]*)"')


def write_report(
    runs: str | RunRecord | Sequence[str | RunRecord],
    path: str | Path = "report.html",
    *,
    store: Store = None,
    baseline: str | RunRecord | None = None,
    title: str | None = None,
    all_queries: bool = False,
) -> Path:
    """Write a report of stored runs to one file and return its path: HTML, or Markdown for a name in ``.md``.

    One run is shown by itself, two are compared (the second with the first), more make a leaderboard. ``baseline`` is
    put before the others. Runs are named as in ``RunStore.find``: an id or its prefix, a name, ``latest``. The HTML is
    self-contained: no network, no other file. Of more than 20,000 queries it lists a part, unless ``all_queries`` is
    set; its numbers are over all queries in any case.
    """
    path = Path(path)
    with open_store(store) as opened, gc_paused():
        records = _records(opened, runs, baseline)
        content = build_report(CachedStore(opened), records, title=title)
        if path.suffix.lower() in MARKDOWN:
            pieces: Iterable[str] = [report_markdown(content.report)]
        else:
            pieces = _report_html(content, all_queries=all_queries)
        with atomic_write(path) as file:
            for piece in pieces:
                file.write(piece.encode("utf-8", "replace"))
    return path


def _report_html(content: ReportContent, *, all_queries: bool) -> Iterator[str]:
    """The page of a report with its query browser, piece by piece."""
    overview = render_overview(content.report)
    browser = build_browser(
        content.runs[0].store,
        [run.record for run in content.runs],
        all_queries=all_queries,
        linked={unquote(unescape(one)) for one in _QUERY_LINK.findall(overview)},
        main=content.main,
        compared=content.compared,
    )
    return render_page(content.report, overview, browser)


def _records(
    store: RunStore, runs: str | RunRecord | Sequence[str | RunRecord], baseline: str | RunRecord | None
) -> list[RunRecord]:
    listed = [runs] if isinstance(runs, (str, RunRecord)) else list(runs)
    named = listed if baseline is None else [baseline, *listed]
    records = [store.find(one) if isinstance(one, str) else one for one in named]
    if not records:
        raise BadValueError("name a run to report on; `auepora runs` lists them")
    ids = [one.run_id for one in records]
    for run_id in ids:
        if ids.count(run_id) > 1:
            raise BadValueError(f"{run_id} is listed twice; name each run once")
    return records


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A report, and what its query browser takes from it."""

    report: Report
    runs: Sequence[StoredRun]
    main: str | None
    """The name of the main metric."""
    compared: Mapping[str, Sequence[QueryComparison]] = field(default_factory=dict)
    """The queries of a run that was compared with the first, by run id."""


def build_report(store: RunStore, records: Sequence[RunRecord], *, title: str | None = None) -> ReportContent:
    """Build the report of one, two or more runs."""
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    if len(records) == 1:
        run = StoredRun(store, records[0])
        best = main_result(run)
        report = Report(title or run.record.name, run_subtitle(run), run_verdict(run), run_sections(run), made)
        return ReportContent(report, [run], None if best is None else best.name)
    runs = [StoredRun(store, record, _run_letter(index)) for index, record in enumerate(records)]
    if len(runs) == 2:
        compared = compare_stored_runs(*runs)
        report = Report(
            title or f"{runs[1].record.name} against {runs[0].record.name}",
            comparison_subtitle(compared),
            comparison_verdict(compared),
            comparison_sections(compared),
            made,
        )
        per_query = {} if compared.report is None else {runs[1].record.run_id: compared.report.per_query}
        return ReportContent(report, runs, None if compared.main is None else compared.main.name, per_query)
    leaderboard = leaderboard_or_error(runs)
    main = None if isinstance(leaderboard, str) else _main_metric(runs, leaderboard)
    report = Report(
        title or f"{len(runs)} runs against each other",
        leaderboard_subtitle(runs),
        leaderboard_verdict(runs, leaderboard),
        leaderboard_sections(runs, leaderboard),
        made,
    )
    return ReportContent(report, runs, None if main is None else main.name)


def _run_letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else str(index + 1)
