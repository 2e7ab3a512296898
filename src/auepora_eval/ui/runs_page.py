"""The list of runs: search, facets, the trend of a metric, tags, and the choice of runs to compare."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date
from itertools import pairwise
from typing import Any

from markupsafe import escape
from starlette.responses import RedirectResponse, Response

from ..compare.depths import cut_above
from ..compare.filters import Condition
from ..compare.match import coarsest, matched_result
from ..compare.metrics import equal_metrics, main_metric_name, rank_metrics, size_notes
from ..compare.pairing import lookup_metric, result_match, without_top_k
from ..core.conventions import Match, Signature
from ..core.results import display_name, metric_labels, system_cost
from ..core.types import MetricResult
from ..errors import AueporaError, BadValueError
from ..features.matching import MATCH_WORDS
from ..render import charts
from ..render.blocks import Cell, Figure
from ..render.html import interval_text, metric_range, seconds_text, value_text
from ..report.score_sections import value_bar
from ..store.records import RunRecord, RunStatus, utc_now
from ..store.runs import all_result_summaries, count_all_outputs, latest_result_times
from .page_request import Fields, PageRequest, page_route
from .workbench import Workbench, load_templates, make_url, render_template

PAGE_SIZE = 50
TREND_RUNS = 200
"""The number of runs in the trend, the latest ones."""
FACETS = {"status": "Outcome", "dataset": "Dataset", "tag": "Tag"}
SORTS = ("began", "name", "dataset", "metric", "failures", "duration", "cost")
MAX_TAG_LENGTH = 100
STATUS_TONES = {"failed": "bad", "stopped": "open", "interrupted": "open", "running": ""}

# --- the filter of the address ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are listed, in which order, as in the address of the page."""

    q: str = ""
    dataset: str = ""
    tag: str = ""
    status: str = ""
    since: date | None = None
    until: date | None = None
    metric: str = ""
    """The metric in the list and in the trend; empty: the main metric of each run."""
    sort: str = "-began"
    page: int = 1

    @classmethod
    def from_params(cls, params: Fields) -> RunFilter:
        """The filter of an address; ``BadValueError`` names a parameter with a wrong value."""
        sort = params.get("sort") or "-began"
        if sort.removeprefix("-") not in SORTS:
            raise BadValueError(f"sort must be one of {', '.join(SORTS)}, with '-' for descending, not {sort!r}")
        return cls(
            q=params.get("q", "").strip(),
            dataset=params.get("dataset", ""),
            tag=params.get("tag", ""),
            status=params.choice("status", ["", *RunStatus]),
            since=params.day("since"),
            until=params.day("until"),
            metric=params.get("metric", ""),
            sort=sort,
            page=params.page(),
        )

    def to_params(self, **changes: Any) -> dict[str, Any]:
        """The parameters of the address; a change of the filter leads to its first page."""
        values = {name: getattr(self, name) for name in self.__slots__} | ({"page": 1} if changes else {}) | changes
        default = {"sort": "-began", "page": 1}
        return {name: value for name, value in values.items() if value and value != default.get(name)}

    def accepts(self, record: RunRecord, *, without: str = "") -> bool:
        """Whether a run is listed; ``without`` names a facet that is ignored."""
        began = record.created_at.astimezone(UTC).date()
        return (
            (not self.dataset or without == "dataset" or record.dataset_name == self.dataset)
            and (not self.tag or without == "tag" or self.tag in record.tags)
            and (not self.status or without == "status" or record.status.value == self.status)
            and (self.since is None or began >= self.since)
            and (self.until is None or began <= self.until)
            and (not self.q or _contains_words(record, self.q))
        )


def _contains_words(record: RunRecord, words: str) -> bool:
    """Whether every word is in the name, id, dataset, tags, commit or message of a run."""
    parts = (record.name, record.run_id, record.dataset_name, *record.tags, record.commit or "", record.message or "")
    text = "\n".join(parts).casefold()
    return all(word in text for word in words.casefold().split())


# --- results of runs, without scores ---------------------------------------------------------------------------------

KEPT_DETAILS = ("judged", "judged_depth", "num_measure_failed", "num_samples")


@dataclass(frozen=True, slots=True)
class ResultSummaries:
    """The results of a run by name without scores and slices, and which of them is its main metric."""

    version: object
    """Changes with the results."""
    by_name: Mapping[str, MetricResult]
    ranked: Sequence[str] = ()
    """The metrics with a value, the most important first; those that tell the run from others before all."""
    main: str = ""
    """The main metric, chosen by the results of all runs."""

    def find(self, name: str) -> MetricResult | None:
        """The result of that name, or of the main metric where it is empty."""
        return self.by_name.get(name or self.main)

    def label(self, name: str) -> str:
        """The name of a metric for display."""
        return display_name(self.by_name[name]) if name in self.by_name else name


def read_results(workbench: Workbench, records: Sequence[RunRecord]) -> dict[str, ResultSummaries]:
    """The results of each run; those that have not changed since the last request are not read again."""
    times = latest_result_times(workbench.store)
    known: dict[str, ResultSummaries] = workbench.cached(("", "runs"), dict, size=4_000_000)
    found = {
        one.run_id: earlier
        for one in records
        if (earlier := known.get(one.run_id)) is not None and earlier.version == times.get(one.run_id)
    }
    missing = [one for one in records if one.run_id not in found]
    summaries = all_result_summaries(workbench.store, [one.run_id for one in missing if one.run_id in times])
    for one in missing:
        results = {result.name: result for result in summaries.get(one.run_id, ())}
        for result in results.values():
            result.slices = {}
            result.details = {name: result.details[name] for name in KEPT_DETAILS if name in result.details}
        ranked = rank_metrics(one, list(results.values()))
        found[one.run_id] = ResultSummaries(times.get(one.run_id), results, ranked)
    known.clear()  # without deleted runs
    known.update(found)
    equal = equal_metrics(records, {run_id: list(summary.by_name.values()) for run_id, summary in found.items()})
    for record in records:
        summary = found[record.run_id]
        main = main_metric_name(record, summary.ranked, equal)
        telling = [name for name in summary.ranked if (record.fingerprint, name) not in equal]
        found[record.run_id] = replace(summary, ranked=[*telling, *summary.ranked], main=main)
    return found


def count_answers(workbench: Workbench, records: Sequence[RunRecord]) -> dict[str, tuple[int, int]]:
    """The number of outputs of each run, and of failed ones; those of finished runs are counted once."""
    known: dict[tuple[str, object], tuple[int, int]] = workbench.cached(("", "outputs"), dict, size=500_000)
    keys = {one.run_id: (one.run_id, one.finished_at) for one in records if one.status is RunStatus.FINISHED}
    found = {run_id: known[key] for run_id, key in keys.items() if key in known}
    counts = count_all_outputs(workbench.store, [one.run_id for one in records if one.run_id not in found])
    known.update((keys[run_id], count) for run_id, count in counts.items() if run_id in keys)
    return found | counts


# --- rows of the list ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as a row of the list."""

    record: RunRecord
    result: MetricResult | None
    counts: tuple[int, int]
    """The number of outputs, and of failed ones."""
    judged: MetricResult | None
    """The retrieval metric that records which proportion of the documents is judged."""
    size: str = ""
    """The number of samples of the value, where it differs from that of other rows."""
    system_cost: float | None = None
    """The cost of all answers, where the run has prices."""

    @property
    def is_unusable(self) -> bool:
        """Whether every answer of the run failed."""
        return 0 < self.counts[1] == self.counts[0]

    @property
    def tone(self) -> str:
        """The tone of the status."""
        return STATUS_TONES.get(self.record.status.value, "")

    @property
    def answers(self) -> str:
        """The number of answers, where some are missing."""
        expected = self.record.num_samples * max(self.record.repeats, 1)
        return "" if self.counts[0] == expected else f"{self.counts[0]:,} of {expected:,} answers"

    @property
    def metric_name(self) -> str:
        """The name of the metric for display."""
        return "" if self.result is None else display_name(self.result)

    @property
    def value(self) -> Cell:
        """The value of the metric with its interval."""
        one = self.result
        if one is None:
            return Cell("none", tone="muted")
        low, high = metric_range(one.name, one.signature) or (0.0, 0.0)
        notes = [interval_text(one.interval), self.size]
        return Cell(
            value_text(one.value if one.defined else None),
            note="; ".join(note for note in notes if note),
            bar=value_bar(one, low, high),
        )

    @property
    def failures_url(self) -> str:
        """The queries with failed answers."""
        return make_url("/queries", run=self.record.run_id, where="answer=failed")

    @property
    def num_unmeasured(self) -> int:
        """The number of queries that the metric could not score, such as those on which a judge failed."""
        return 0 if self.result is None else int(self.result.details.get("num_measure_failed") or 0)

    @property
    def unmeasured_url(self) -> str:
        """The queries that the metric could not score."""
        name = "" if self.result is None else self.result.name
        return make_url(
            "/queries", run=self.record.run_id, where=str(Condition("metric", name, value="measure-failed"))
        )

    @property
    def judged_text(self) -> str:
        """The judged proportion of the returned documents."""
        share = None if self.judged is None else self.judged.details.get("judged")
        return "" if share is None else f"{100 * share:.0f} %"

    @property
    def judged_depth(self) -> str:
        """The documents that the judged proportion is about."""
        depth = None if self.judged is None else self.judged.details.get("judged_depth")
        return "of all" if depth is None else f"of the first {depth}"

    @property
    def judged_url(self) -> str:
        """The queries whose score may rise when more documents are judged."""
        below = Condition("metric", "" if self.judged is None else self.judged.name, operator="<", value="1")
        return make_url("/queries", run=self.record.run_id, where=str(below), sort=below.key)

    @property
    def seconds(self) -> float | None:
        """The duration; of a run in progress until now."""
        end = utc_now() if self.record.status is RunStatus.RUNNING else self.record.finished_at
        return None if end is None else (end - self.record.created_at).total_seconds()

    @property
    def duration(self) -> str:
        """The duration as text."""
        return "" if self.seconds is None else seconds_text(max(self.seconds, 0.0))

    @property
    def cost(self) -> float | None:
        """The cost of judging."""
        total = (self.record.usage or {}).get("total")
        found = total.get("cost") if isinstance(total, Mapping) else None
        return float(found) if isinstance(found, int | float) else None

    @property
    def tags(self) -> list[tuple[str, Any]]:
        """Each tag, and the same unchanged for the value of a field."""
        return [(one, escape(one)) for one in self.record.tags]


def sort_records(
    workbench: Workbench, records: Sequence[RunRecord], run_filter: RunFilter, results: Mapping[str, ResultSummaries]
) -> list[RunRecord]:
    """The runs in the order of the filter; runs without a value are last, and equal ones newest first."""
    key = run_filter.sort.removeprefix("-")
    if key == "began":
        return list(records) if run_filter.sort == "-began" else list(reversed(records))
    failed = count_answers(workbench, records) if key == "failures" else {}

    def value(record: RunRecord) -> Any:
        row = RunRow(record, results[record.run_id].find(run_filter.metric), failed.get(record.run_id, (0, 0)), None)
        if key == "metric":
            return row.result.value if row.result is not None and row.result.defined else None
        names = {"name": record.name.casefold(), "dataset": record.dataset_name.casefold()}
        return names.get(
            key, {"failures": row.counts[1] + row.num_unmeasured, "duration": row.seconds, "cost": row.cost}.get(key)
        )

    values = [(value(one), one) for one in records]
    present = sorted(
        (pair for pair in values if pair[0] is not None), key=lambda pair: pair[0], reverse=run_filter.sort != key
    )
    return [one for _, one in present] + [one for found, one in values if found is None]


def make_rows(
    workbench: Workbench, records: Sequence[RunRecord], results: Mapping[str, ResultSummaries], metric: str
) -> list[RunRow]:
    """The rows of a page of the list."""
    counts = count_answers(workbench, records)
    shown = [results[record.run_id].find(metric) for record in records]
    rows = []
    for record, result, size in zip(records, shown, size_notes(shown), strict=True):
        judged = _judged_result(result, results[record.run_id])
        spent = system_cost(results[record.run_id].by_name.values())
        rows.append(RunRow(record, result, counts[record.run_id], judged, size, spent))
    return rows


def _judged_result(shown: MetricResult | None, found: ResultSummaries) -> MetricResult | None:
    """The result with a judged proportion: the one that is shown, or the one of the longest ranking."""
    judged = [one for one in found.by_name.values() if one.details.get("judged") is not None]
    if shown in judged:
        return shown
    return max(judged, key=lambda one: one.details.get("judged_depth") or math.inf, default=None)


@dataclass(frozen=True, slots=True)
class Facet:
    """A menu of the values of runs, each with the number of runs that choosing it would list."""

    name: str
    title: str
    current: str
    choices: Sequence[tuple[str, Any, int]]
    """The text of a choice, its value unchanged, and the number of runs."""


def make_facets(records: Sequence[RunRecord], run_filter: RunFilter) -> list[Facet]:
    """The facets, each counted over the runs that the other filters accept."""
    facets = []
    for name, title in FACETS.items():
        counts: Counter[str] = Counter()
        for one in records:
            if run_filter.accepts(one, without=name):
                own = {"status": (one.status.value,), "dataset": (one.dataset_name,), "tag": one.tags}[name]
                counts.update(own)
        current = getattr(run_filter, name)
        counts.setdefault(current, 0)
        listed = sorted(((one, n) for one, n in counts.items() if one), key=lambda pair: (-pair[1], pair[0]))
        if listed:
            facets.append(Facet(name, title, current, [(one, escape(one), n) for one, n in listed]))
    return facets


# --- the trend of a metric -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """A run of a trend."""

    record: RunRecord
    result: MetricResult
    """With gold matched in the coarsest way of the runs on its dataset."""
    is_recomputed: bool = False
    problem: str = ""
    """Why gold cannot be matched in that way, or where the rankings are cut."""

    @property
    def signature(self) -> str:
        """What must be the same in comparable values: lists of another length are compared, if hits are counted."""
        found = self.result.signature or ""
        return found if "|p:returned" in found or "ap:hits" in found else without_top_k(found) or ""

    def change_from(self, before: TrendPoint) -> str:
        """Why its value is not comparable with the one before it; empty where it is."""
        changes = [] if before.record.fingerprint == self.record.fingerprint else ["other questions or gold"]
        changes += dict.fromkeys(point.problem for point in (before, self) if point.problem)
        if before.signature != self.signature:
            changes.append(_signature_change(before.signature, self.signature))
        return ", ".join(changes)

    def to_row(self, change: str) -> dict[str, Any]:
        """The point of ``trend_chart``."""
        result = self.result
        low, high = result.interval or (None, None)
        return {
            "value": result.value,
            "low": low,
            "high": high,
            "time": f"{self.record.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}",
            "run": self.record.name,
            "change": change,
            "range": metric_range(result.name, result.signature),
        }


def trend_points(
    workbench: Workbench, records: Sequence[RunRecord], results: Mapping[str, ResultSummaries], metric: str
) -> dict[str, list[TrendPoint]]:
    """The runs with a value of a metric by dataset, oldest first, given newest first."""
    found: dict[str, list[tuple[RunRecord, MetricResult]]] = {}
    for record in reversed(records):
        result = results[record.run_id].find(metric)
        if result is not None and result.defined:
            found.setdefault(record.dataset_name, []).append((record, result))
    points = {}
    for dataset, runs in found.items():
        match = coarsest([result_match(result) for _, result in runs])
        points[dataset] = [_trend_point(workbench, record, result, match) for record, result in runs]
    return points


def _trend_point(workbench: Workbench, record: RunRecord, result: MetricResult, match: Match) -> TrendPoint:
    def read() -> TrendPoint:
        matched = matched_result(workbench.store, record, result, match)
        if isinstance(matched, str):
            return TrendPoint(record, result, problem=matched)
        cut = cut_above(workbench.store, record, lookup_metric(matched, record, {}))
        problem = "" if cut is None else f"the saved lists of {record.name} end at {cut}"
        return TrendPoint(record, replace(matched, scores=None, outcomes=None), matched is not result, problem)

    return workbench.cached((record.run_id, "trend", result.signature, result.value, match), read, size=5_000)


def trend_lines(points: Mapping[str, Sequence[TrendPoint]]) -> dict[str, list[dict[str, Any]]]:
    """The points of ``trend_chart`` by dataset."""
    lines = {}
    for dataset, listed in points.items():
        changes = [point.change_from(before) for before, point in pairwise(listed)]
        lines[dataset] = [point.to_row(change) for point, change in zip(listed, ["", *changes], strict=True)]
    return lines


def match_sentences(points: Mapping[str, Sequence[TrendPoint]]) -> list[str]:
    """How gold is matched in all runs on a dataset, where it was not the same."""
    sentences = []
    for dataset, listed in points.items():
        if again := sum(point.is_recomputed for point in listed):
            way = MATCH_WORDS[coarsest([result_match(point.result) for point in listed])]
            sentences.append(f"{dataset}: gold is matched by {way} in all runs; {again} values were computed again.")
    return sentences


def _signature_change(before: str, now: str) -> str:
    """What differs between two signatures."""
    try:
        first, second = Signature.parse(before), Signature.parse(now)
        fields = [
            f"{name} {first.options.get(name, 'default')} → {second.options.get(name, 'default')}"
            if name in {**first.options, **second.options}
            else name
            for name in first.differences(second)
        ]
    except AueporaError:  # the signature of a user's metric, or none
        return "other signature"
    return f"other signature ({', '.join(fields)})"


def trend_figure(
    workbench: Workbench, records: Sequence[RunRecord], results: Mapping[str, ResultSummaries], metric: str
) -> Figure:
    """The trend of a metric over the latest of these runs."""
    valued = [one for one in records if (found := results[one.run_id].find(metric)) is not None and found.defined]
    shown = valued[:TREND_RUNS]
    points = trend_points(workbench, shown, results, metric)
    label = next((display_name(point.result) for listed in points.values() for point in listed), metric)
    chart = charts.trend_chart(trend_lines(points), label)
    sentences = [
        "95 % intervals. A line is broken where values are not comparable; in shorter lists missing ranks count as no "
        "hit. Runs without a usable answer are left out.",
        *match_sentences(points),
    ]
    if len(valued) > len(shown):
        sentences.append(f"The latest {len(shown):,} of {len(valued):,} runs.")
    return Figure(chart, " ".join(sentences), 1200)


# --- pages -----------------------------------------------------------------------------------------------------------


def prepare(workbench: Workbench) -> None:
    """Load what the first page needs. An error of the store is shown on the page."""
    load_templates("layout.html", "blocks.html", "runs.html", "runs_list.html", "runs_tags.html")
    load_templates("macros.html", "label_parts.html", "label_item.html")  # the queue of a large batch opens at once
    with suppress(AueporaError):
        read_results(workbench, workbench.store.runs())


def runs_page(request: PageRequest) -> Response:
    """The list of runs; with ``fragment=list`` without the frame, with ``fragment=trend`` the trend alone.

    With ``compare`` the chosen runs are compared, the oldest first.
    """
    workbench, params = request.workbench, request.parameters
    if "compare" in params:
        return compare_chosen(workbench, params.getlist("run"))
    run_filter = RunFilter.from_params(params)
    records = workbench.store.runs()
    if not records:
        return render_template(request, "runs.html", total=0, commands=start_commands(workbench))
    results = read_results(workbench, records)
    listed = [one for one in records if run_filter.accepts(one)]
    main_names = Counter(results[one.run_id].main for one in listed if results[one.run_id].main)
    trend_metric = run_filter.metric or next((name for name, _ in main_names.most_common(1)), "")
    fragment = params.get("fragment")
    if fragment == "trend":
        rows = make_rows(workbench, listed, results, trend_metric)
        usable = [row.record for row in rows if not row.is_unusable]
        figure = trend_figure(workbench, usable, results, trend_metric)
        return render_template(request, "block_list.html", listed=[figure])
    metrics = Counter(name for one in listed for name in results[one.run_id].by_name)
    if run_filter.metric:
        metrics.setdefault(run_filter.metric, 0)
    pages = max(1, -(-len(listed) // PAGE_SIZE))
    run_filter = replace(run_filter, page=min(run_filter.page, pages))
    start = (run_filter.page - 1) * PAGE_SIZE
    ordered = sort_records(workbench, listed, run_filter, results)
    context: dict[str, Any] = {
        "filter": run_filter,
        "total": len(records),
        "found": len(listed),
        "pages": pages,
        "start": start,
        "rows": make_rows(workbench, ordered[start : start + PAGE_SIZE], results, run_filter.metric),
        "facets": make_facets(records, run_filter),
        "metrics": [(name, escape(name), count) for name, count in sorted(metrics.items())],
        "metric_labels": metric_labels(*[results[one.run_id].by_name.values() for one in listed]),
        "trend_metric": trend_metric,
        "trend_url": make_url("/runs", **run_filter.to_params(page=None), fragment="trend") if trend_metric else "",
        "query": escape(make_url("/runs", **run_filter.to_params()).partition("?")[2]),
    }
    return render_template(request, "runs_list.html" if fragment == "list" else "runs.html", **context)


def start_commands(workbench: Workbench) -> list[tuple[str, str]]:
    """The commands that make a run in an empty store, each with its purpose."""
    file = workbench.store.file
    store = "" if file is None else f" --store {shlex.quote(str(file))}"
    return [
        ("See it work, with two small systems and a store of their own:", "auepora demo"),
        ("Write a plan for your dataset and your system:", "auepora init data.jsonl --system my_app:build"),
        ("Run the plan. The run appears on this page:", f"auepora run plan.yaml{store}"),
    ]


def compare_chosen(workbench: Workbench, run_ids: Sequence[str]) -> Response:
    """Redirect to the comparison of runs, in the order of time."""
    records = [workbench.find(one) for one in dict.fromkeys(run_ids)]
    if len(records) < 2:
        raise BadValueError("choose two or more runs to compare them")
    records.sort(key=lambda one: (one.created_at, one.run_id))
    return RedirectResponse(make_url("/compare", run=[one.run_id for one in records]), 303)


def change_tags(request: PageRequest) -> Response:
    """Add the tag in ``add``, or remove the one in ``remove``; a script gets the new cell, a form the page again."""
    store, fields, run_id = request.workbench.store, request.form_fields, request.run.run_id
    added, removed = fields.get("add", "").strip(), fields.get("remove")
    if removed is not None:
        store.untag(run_id, removed)
    elif not added:
        raise BadValueError("a tag needs at least one character")
    elif len(added) > MAX_TAG_LENGTH:
        raise BadValueError(f"a tag has at most {MAX_TAG_LENGTH} characters, not {len(added):,}")
    else:
        store.tag(run_id, added)
    query = fields.get("query", "")
    if not fields.get("fragment"):
        return RedirectResponse(f"/runs?{query}" if query else "/runs", 303)
    row, run_filter = RunRow(store.get(run_id), None, (0, 0), None), RunFilter.from_params(Fields(query))
    return render_template(request, "runs_tags.html", row=row, filter=run_filter, query=escape(query))


ROUTES = [
    page_route("/runs", runs_page),
    page_route("/runs/{run_id:path}/tags", change_tags, method="POST"),
]
