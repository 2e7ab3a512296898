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
from ..compare.metrics import rank_metrics
from ..compare.stores import Store, open_store
from ..compare.types import QueryComparison, run_labels
from ..core.results import controls_warnings, display_name
from ..core.types import MetricResult, TargetCategory
from ..errors import BadValueError
from ..io.sample_sets import set_label
from ..render.blocks import Report, ReportSection, ReportVerdict, Tone, without_none
from ..render.html import (
    describe_result,
    format_time,
    pluralize,
    render_overview,
    render_page,
    seconds_text,
    shorten,
)
from ..render.markdown import report_markdown
from ..runtime.files import write_text
from ..runtime.processes import gc_paused
from ..store.records import RunRecord, RunStatus
from ..store.runs import CachedStore, RunStore
from .browser.listing import build_browser
from .comparison_sections import compare_stored_runs, comparison_sections, comparison_verdict
from .plots import ANSWERS
from .run_sections import (
    GateCheck,
    StoredRun,
    cards_section,
    check_stored_gates,
    failures_section,
    find_runs,
    gates_section,
    gates_summary,
    judges_section,
    provenance_section,
    score_column,
)
from .score_sections import (
    distributions_section,
    latency_section,
    retrieval_sections,
    runs_scores_section,
    scores_section,
    sequential_section,
    slices_section,
    two_stage_section,
)

# --- one run: the verdict in one sentence, and the sections ----------------------------------------------------------

RETRIEVAL = (TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY)


def run_subtitle(run: StoredRun) -> str:
    """Run id, time, dataset and tags."""
    record = run.record
    times = f", each asked {record.repeats} times" if record.repeats > 1 else ""
    tags = f", tagged {', '.join(record.tags)}" if record.tags else ""
    return (
        f"{record.run_id}, {format_time(record.created_at)}: {pluralize(record.num_samples, 'query', 'queries')} of "
        f"{record.dataset_name}{set_label(record.plan)}{times}{tags}"
    )


def run_verdict(run: StoredRun, gates: GateCheck, *, timings: bool = True) -> ReportVerdict:
    """The main metric, failures and gates of a run; with ``timings`` also its latency, read from all outputs."""
    record, (done, failed) = run.record, run.counts
    tone, points = run_notes(run, gates)
    if record.status is not RunStatus.FINISHED:
        expected = record.num_samples * max(record.repeats, 1)
        why = f": {shorten(record.message)}" if record.message else ""
        points.insert(
            0, f"The run is {record.status.value}, with {done:,} of {pluralize(expected, 'answer')} stored{why}."
        )
    failures = "no answer failed" if not failed else f"{failed:,} of {pluralize(done, 'answer')} failed"
    best = run.find_result(run.main_metric)
    if not record.num_samples:
        return ReportVerdict(f"{record.name} has no queries, so there is nothing to tell.", "open", points)
    if not run.results:
        message = f"{record.name} has no results yet: {pluralize(done, 'answer')} stored, {failures}."
        return ReportVerdict(message, "open", points)
    if best is None:
        return ReportVerdict(f"{record.name} was scored, and no metric has a value; {failures}.", "bad", points)
    queries = pluralize(record.num_samples, "query", "queries")
    measured = best.details.num_samples if best.details.counts_samples else record.num_samples
    part = "" if measured == record.num_samples else f"{measured:,} of "
    sentence = f"On {part}{queries} of {record.dataset_name}, {describe_result(best)}; {failures}."
    return ReportVerdict(sentence, tone, [*_secondary_points(run, best, timings), *points])


def run_notes(run: StoredRun, gates: GateCheck) -> tuple[Tone, list[str]]:
    """What limits the numbers of a run, and the outcome of its gates; with the tone of its verdict."""
    done, failed = run.counts
    tone: Tone = "" if run.record.status is RunStatus.FINISHED else "open"
    if failed:
        tone = "bad" if failed == done else "open"
    points = [f"{note[0].upper()}{note[1:]}." for note in run.gold_notes]
    unmeasured = [result for result in run.results if result.details.num_measure_failed]
    if unmeasured:
        names = ", ".join(display_name(result) for result in unmeasured[:5])
        others = " and others" if len(unmeasured) > 5 else ""
        points.append(f"{pluralize(len(unmeasured), 'metric')} could not be measured on some queries: {names}{others}.")
    for result in run.results:
        if result.details.controls.usable is False:
            tone = "bad"
            points.append(f"{controls_warnings(result)[0]}.")
    points += [run.licence_note] if run.licence_note else []
    if gates is not None:
        points.append(gates_summary(gates))
    if isinstance(gates, str):
        tone = tone or "open"
    elif gates is not None:
        tone = {"passed": tone or "good", "failed": "bad", "inconclusive": tone or "open"}[gates.status]
    return tone, points


def _secondary_points(run: StoredRun, best: MetricResult, timings: bool) -> list[str]:
    """The first metric of answers or of retrieval, whichever the main one is not; and how long answers took."""
    points = []
    if best.target not in RETRIEVAL:
        found = [result for target in RETRIEVAL for result in run.results if result.target is target and result.defined]
        points += [f"Retrieval: {describe_result(result)}." for result in found[:1]]
    elif (answers := answers_result(run)) is not None:
        points.append(f"Answers: {describe_result(answers)}.")
    times = run.timings.get("end_to_end") if timings else None
    if times is not None:
        middle, slow = np.quantile(times, (0.5, 0.95), method="inverted_cdf").tolist()
        points.append(
            f"Latency: half of the answers took up to {seconds_text(middle)}, 95 % up to {seconds_text(slow)}."
        )
    return points


def answers_result(run: StoredRun) -> MetricResult | None:
    """The main result that judges answers; ``None`` where no such metric has scores per query."""
    listed = {result.name: result for result in run.results if result.target in ANSWERS and len(score_column(result))}
    return next((listed[name] for name in rank_metrics(run.record, list(listed.values()))), None)


def run_sections(run: StoredRun, gates: GateCheck) -> list[ReportSection]:
    """The sections of a run; those that would be empty are left out."""
    own = [gates_section(gates), scores_section(run)]
    return without_none(*own, *_common_sections([run], run.main_metric or None))


def _common_sections(runs: Sequence[StoredRun], main: str | None) -> list[ReportSection | None]:
    """The sections that reports of one run and of several have, given the name of the main metric."""
    return [
        sequential_section(runs),
        two_stage_section(runs),
        slices_section(runs, main),
        distributions_section(runs),
        latency_section(runs),
        *retrieval_sections(runs, answers_result(runs[-1])),
        failures_section(runs),
        judges_section(runs),
        cards_section(runs),
        provenance_section(runs),
    ]


# --- the report file -------------------------------------------------------------------------------------------------

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

    Args:
        runs: One or more runs.
        path: The file to write.
        store: An open store, or the path or URL of one; by default ``$AUEPORA_STORE``, else ``runs.sqlite``.
        title: Of the report.

    Returns:
        The path of the file.

    Example:
        >>> write_report(["baseline", "candidate"], "report.md", store="runs.sqlite").name
        'report.md'
    """
    path = Path(path)
    with open_store(store) as opened, gc_paused():
        records = _records(opened, runs, baseline)
        content = build_report(CachedStore(opened), records, title=title)
        if path.suffix.lower() in (".md", ".markdown"):
            pieces: Iterable[str] = [report_markdown(content.report)]
        else:
            pieces = report_html(content, all_queries=all_queries)
        write_text(path, pieces)
    return path


def report_html(content: ReportContent, *, all_queries: bool = False) -> Iterator[str]:
    """The page of a report with its query browser, piece by piece."""
    overview = render_overview(content.report)
    browser = build_browser(
        content.runs[0].store,
        [run.record for run in content.runs],
        all_queries=all_queries,
        linked={unquote(unescape(address)) for address in _QUERY_LINK.findall(overview)},
        main=content.main,
        compared=content.compared,
        side_by_side=content.side_by_side,
    )
    return render_page(content.report, overview, browser)


def _records(
    store: RunStore, runs: str | RunRecord | Sequence[str | RunRecord], baseline: str | RunRecord | None
) -> list[RunRecord]:
    listed = [runs] if isinstance(runs, (str, RunRecord)) else list(runs)
    if not listed:
        raise BadValueError("name a run to report on; `auepora runs` lists them")
    return find_runs(store, listed if baseline is None else [baseline, *listed])


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A report, and what its query browser takes from it."""

    report: Report
    runs: Sequence[StoredRun]
    main: str | None
    """The name of the main metric."""
    compared: Mapping[str, Sequence[QueryComparison]] = field(default_factory=dict)
    """The queries of a run that was compared with the first, by run id."""
    side_by_side: bool = False
    """Whether a query is shown in all runs at once."""


def build_report(store: RunStore, records: Sequence[RunRecord], *, title: str | None = None) -> ReportContent:
    """Build the report of one run, or of two or more that are compared."""
    made = f"made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by auepora {__version__}"
    if len(records) == 1:
        run = StoredRun(store, records[0])
        gates = check_stored_gates(run)
        verdict, sections = run_verdict(run, gates), run_sections(run, gates)
        report = Report(title or run.record.name, run_subtitle(run), verdict, sections, made)
        return ReportContent(report, [run], run.main_metric or None)
    letters = run_labels(len(records))
    runs = [StoredRun(store, record, letter) for record, letter in zip(records, letters, strict=True)]
    compared = compare_stored_runs(runs)
    main = None if compared.main is None else compared.main.name
    names = f"{records[1].name} against {records[0].name}" if len(runs) == 2 else f"{len(runs)} runs against each other"
    subtitle = "; ".join(f"{run.label} ({run.record.run_id}, {format_time(run.record.created_at)})" for run in runs)
    present = without_none(*comparison_sections(compared), runs_scores_section(runs), *_common_sections(runs, main))
    report = Report(title or names, subtitle, comparison_verdict(compared), present, made)
    per_query = {} if compared.report is None else {runs[1].record.run_id: compared.report.per_query}
    return ReportContent(report, runs, main, per_query)
