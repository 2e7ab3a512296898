"""The results of runs, and the table of runs: settings that differ, metrics with intervals, and differences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Any

from ..compare.metrics import equal_metrics, main_metric_name, rank_metrics, size_notes
from ..core.results import display_name, metric_labels, system_cost
from ..core.types import MetricResult
from ..queries.filters import Condition
from ..render.html import interval_text, pluralize, seconds_text, value_text
from ..report.score_sections import value_bar
from ..store.records import RunRecord, RunStatus, utc_now
from ..store.runs import all_result_summaries, count_all_outputs, latest_result_times
from .numbers import metric_difference, metric_number
from .run_filter import CONFIG, RunFilter, run_texts
from .workbench import Workbench, make_url

# --- results of runs, without scores ---------------------------------------------------------------------------------

KEPT_DETAILS = ("judged", "judged_depth", "num_measure_failed", "num_samples", "total", "repeats")


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
    found: dict[str, ResultSummaries] = {}
    for record in records:
        earlier = known.get(record.run_id)
        if earlier is not None and earlier.version == times.get(record.run_id):
            found[record.run_id] = earlier
    missing = [record for record in records if record.run_id not in found]
    summaries = all_result_summaries(workbench.store, [record.run_id for record in missing if record.run_id in times])
    for record in missing:
        results = {result.name: result for result in summaries.get(record.run_id, ())}
        for result in results.values():
            result.slices = {}
            result.details = {name: result.details[name] for name in KEPT_DETAILS if name in result.details}
        ranked = rank_metrics(record, list(results.values()))
        found[record.run_id] = ResultSummaries(times.get(record.run_id), results, ranked)
    known.clear()  # without deleted runs
    known.update(found)
    equal = equal_metrics(records, {run_id: list(summary.by_name.values()) for run_id, summary in found.items()})
    for record in records:
        summary = found[record.run_id]
        main = main_metric_name(record, summary.ranked, equal)
        apart = [name for name in summary.ranked if (record.fingerprint, name) not in equal]
        found[record.run_id] = replace(summary, ranked=[*apart, *summary.ranked], main=main)
    return found


def count_answers(workbench: Workbench, records: Sequence[RunRecord]) -> dict[str, tuple[int, int]]:
    """The number of outputs of each run, and of failed ones; those of finished runs are counted once."""
    known: dict[tuple[str, object], tuple[int, int]] = workbench.cached(("", "outputs"), dict, size=500_000)
    keys = {
        record.run_id: (record.run_id, record.finished_at) for record in records if record.status is RunStatus.FINISHED
    }
    found = {run_id: known[key] for run_id, key in keys.items() if key in known}
    counts = count_all_outputs(workbench.store, [record.run_id for record in records if record.run_id not in found])
    known.update((keys[run_id], count) for run_id, count in counts.items() if run_id in keys)
    return found | counts


# --- rows of the list ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunCell:
    """What a row has in a column."""

    text: str = ""
    note: str = ""
    """The title: the name, the value with all digits, its interval and its number of samples."""
    is_unusual: bool = False
    """Whether a setting differs from that of most runs."""
    bar: tuple[float, float, float] | None = None
    """The ends of the interval and the value, as parts of the scale of the column."""
    base: float | None = None
    """The value of the baseline on the same scale."""
    difference: str = ""
    size: str = ""
    """The number of samples, where it differs from that of other rows."""
    url: str = ""
    label: str = ""
    """The name of the link for screen readers."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as a row of the list."""

    record: RunRecord
    results: ResultSummaries
    counts: tuple[int, int] = (0, 0)
    """The number of outputs, and of failed ones."""
    cells: Sequence[RunCell] = ()
    is_baseline: bool = False

    @property
    def is_unusable(self) -> bool:
        """Whether every answer of the run failed."""
        return 0 < self.counts[1] == self.counts[0]

    @property
    def has_failed(self) -> bool:
        """Whether the run has no values that can be shown."""
        ended = self.record.status not in (RunStatus.FINISHED, RunStatus.RUNNING)
        return self.is_unusable or (ended and not self.results.by_name)

    @property
    def problem(self) -> str:
        """Why a run has no values."""
        expected = self.record.num_samples * max(self.record.repeats, 1)
        words = [f"{self.counts[0]:,} of {expected:,} asked"] if self.counts[0] < expected else []
        words += [f"{self.counts[1]:,} failed"] if self.counts[1] else []
        text = ", ".join(words)
        return f"{text}: {self.record.message}" if self.record.message else text

    @property
    def num_unmeasured(self) -> int:
        """The number of queries that the main metric could not score, such as those on which a judge failed."""
        main = self.results.find("")
        return 0 if main is None else main.details.num_measure_failed

    @property
    def seconds(self) -> float | None:
        """The duration; of a run in progress until now."""
        end = utc_now() if self.record.status is RunStatus.RUNNING else self.record.finished_at
        return None if end is None else max((end - self.record.created_at).total_seconds(), 0.0)

    @property
    def system_cost(self) -> float | None:
        """The cost of all answers, where the run has prices."""
        return system_cost(self.results.by_name.values())

    @property
    def most_judged(self) -> MetricResult | None:
        """The result with a judged proportion of the returned documents that reads the most of them."""
        judged = [result for result in self.results.by_name.values() if result.details.judged is not None]
        return max(judged, key=lambda result: result.details.judged_depth or math.inf, default=None)

    @property
    def cost(self) -> float | None:
        """The cost of judging."""
        total = (self.record.usage or {}).get("total")
        found = total.get("cost") if isinstance(total, Mapping) else None
        return float(found) if isinstance(found, int | float) else None


def sort_records(
    workbench: Workbench, records: Sequence[RunRecord], run_filter: RunFilter, results: Mapping[str, ResultSummaries]
) -> list[RunRecord]:
    """The runs in the order of the filter; runs without a value are last, and equal ones newest first."""
    key = run_filter.sort.removeprefix("-")
    if key == "began":
        return list(records) if run_filter.sort == "-began" else list(reversed(records))
    counts = count_answers(workbench, records)
    values = []
    for record in records:
        row = RunRow(record, results[record.run_id], counts[record.run_id])
        values.append((_sort_value(row, key), record))
    known = [pair for pair in values if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=run_filter.sort != key)
    return [record for _, record in known] + [record for value, record in values if value is None]


def _sort_value(row: RunRow, key: str) -> Any:
    """What a run is sorted by; ``None`` where it has no such value."""
    if key in ("name", "dataset"):
        return run_texts(row.record, key)[0].casefold()
    if key.startswith(CONFIG):
        value = row.record.config.get(key.removeprefix(CONFIG))
        is_number = isinstance(value, int | float)
        return None if value is None else (not is_number, value if is_number else str(value))
    if key in EXTRAS:
        failures, judged = row.counts[1] + row.num_unmeasured, row.most_judged
        share = None if judged is None else judged.details.judged
        costs = {"cost": row.cost, "system_cost": row.system_cost}
        return {"failures": failures, "judged": share, "duration": row.seconds, **costs}[key]
    result = None if row.is_unusable else row.results.find("" if key == "metric" else key)
    return result.value if result is not None and result.defined else None


# --- columns: settings that differ, metrics, and more ----------------------------------------------------------------

EXTRAS = {
    "dataset": "dataset",
    "failures": "failures",
    "judged": "judged",
    "duration": "duration",
    "system_cost": "system cost",
    "cost": "judge cost",
}
"""Columns beside settings and metrics, with their titles."""
MAX_SETTINGS, MAX_METRICS = 3, 4
"""The number of settings and of metrics in columns that nobody chose."""


@dataclass(frozen=True, slots=True)
class RunColumn:
    """A column of the list."""

    key: str
    """``config.KEY``, the name of a metric, or one of ``EXTRAS``; the sort key, too."""
    title: str
    usual: str = ""
    """The most common value of a setting."""
    scale: tuple[float, float] | None = None
    """The range of the intervals of a metric."""
    is_number: bool = True
    base: MetricResult | None = None
    """The result of the baseline."""
    baseline: RunRecord | None = None

    @property
    def kind(self) -> str:
        """What it shows: ``config``, ``metric`` or ``extra``."""
        if self.key.startswith(CONFIG):
            return "config"
        return "extra" if self.key in EXTRAS else "metric"


def varied_settings(records: Sequence[RunRecord]) -> dict[str, Counter[str]]:
    """The settings with several values, those of most runs first, with the number of runs of each value."""
    values: dict[str, Counter[str]] = {}
    for record in records:
        for name in record.config:
            key = f"{CONFIG}{name}"
            values.setdefault(key, Counter()).update(run_texts(record, key))
    varied = {key: found for key, found in values.items() if len(found) > 1}
    return dict(sorted(varied.items(), key=lambda pair: -pair[1].total()))


def default_metrics(records: Sequence[RunRecord], results: Mapping[str, ResultSummaries]) -> list[str]:
    """The most common primary metrics; without any, the main metrics of the runs and the next of the newest run."""
    primary = Counter(tuple(record.plan.get("primary") or ()) for record in records)
    primary.pop((), None)
    if primary:
        return list(primary.most_common(1)[0][0])[:MAX_METRICS]
    mains = Counter(main for record in records if (main := results[record.run_id].main))
    names = [name for name, _ in mains.most_common(MAX_METRICS)]
    counts = Counter(chain.from_iterable(dict.fromkeys(results[record.run_id].ranked) for record in records))
    return list(dict.fromkeys([*names, *(name for name, _ in counts.most_common())]))[: MAX_METRICS - 1]


class RunTable:
    """The columns and rows of a page of the list."""

    def __init__(
        self,
        workbench: Workbench,
        run_filter: RunFilter,
        listed: Sequence[RunRecord],
        page: Sequence[RunRecord],
        results: Mapping[str, ResultSummaries],
        baseline: RunRecord | None,
    ) -> None:
        self.results, self.baseline = results, baseline
        shown = list(page)
        if baseline is not None:
            shown = [baseline, *(record for record in page if record.run_id != baseline.run_id)]
        counts = count_answers(workbench, shown)
        self.rows = []
        for record in shown:
            is_baseline = baseline is not None and record.run_id == baseline.run_id
            row = RunRow(record, results[record.run_id], counts[record.run_id], is_baseline=is_baseline)
            self.rows.append(row)
        self.settings = varied_settings(listed)
        self.metrics = Counter(chain.from_iterable(results[record.run_id].by_name for record in listed))
        self.primary = default_metrics(listed, results)
        self.labels = metric_labels(*[results[record.run_id].by_name.values() for record in listed])
        self.columns = self._columns(run_filter)
        self._fill_rows()

    def _columns(self, run_filter: RunFilter) -> list[RunColumn]:
        """The chosen columns, else those of the page, without empty ones."""
        keys = run_filter.columns
        if not keys:
            extras = ["dataset"] if len({row.record.dataset_name for row in self.rows}) > 1 else []
            settings = list(varied_settings([row.record for row in self.rows]))[:MAX_SETTINGS]
            keys = (*extras, *settings, *self.primary, "failures", "system_cost", "cost")
        columns = [self._column(key) for key in keys]
        return [column for column in columns if any(self._cell(column, row).text for row in self.rows)]

    def _column(self, key: str) -> RunColumn:
        if key in EXTRAS:
            return RunColumn(key, EXTRAS[key], is_number=key != "dataset")
        if key.startswith(CONFIG):
            values = self.settings.get(key, Counter())
            usual = values.most_common(1)[0][0] if values else ""
            return RunColumn(key, key.removeprefix(CONFIG), usual, is_number=_is_number(usual))
        results = [row.results.by_name.get(key) for row in self.rows]
        ends: list[float] = []
        for result in results:
            if result is not None and result.defined:
                ends += result.interval or ()
        scale = (min(ends), max(ends)) if ends and min(ends) < max(ends) else None
        base = None if self.baseline is None else self.results[self.baseline.run_id].by_name.get(key)
        return RunColumn(key, self.labels.get(key, key), scale=scale, base=base, baseline=self.baseline)

    def _fill_rows(self) -> None:
        sizes = {}
        for column in self.columns:
            if column.kind == "metric":
                listed = [row.results.by_name.get(column.key) for row in self.rows if not row.has_failed]
                sizes[column.key] = iter(size_notes(listed))
        for place, row in enumerate(self.rows):
            cells = []
            for column in self.columns:
                cell = self._cell(column, row)
                if column.key in sizes and not row.has_failed:
                    cell = replace(cell, size=next(sizes[column.key]))
                cells.append(cell)
            self.rows[place] = replace(row, cells=cells)

    def _cell(self, column: RunColumn, row: RunRow) -> RunCell:
        if column.kind == "config":
            text = ", ".join(run_texts(row.record, column.key))
            return RunCell(text, note=f"{column.title}: {text}", is_unusual=text != column.usual)
        if column.kind == "metric":
            return RunCell() if row.has_failed else _metric_cell(column, row)
        if column.key == "dataset":
            queries = pluralize(row.record.num_samples, "query", "queries")
            return RunCell(row.record.dataset_name, note=f"{row.record.dataset_name}: {queries}")
        if column.key == "failures":
            return RunCell() if row.has_failed else _failures_cell(row)
        if column.key == "judged":
            return _judged_cell(row)
        if column.key == "duration":
            return RunCell("" if row.seconds is None else seconds_text(row.seconds))
        cost = row.cost if column.key == "cost" else row.system_cost
        return RunCell("" if cost is None else f"{cost:.4g}")

    @property
    def choices(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """What the menu of columns offers, in groups: key, title and note of each column."""
        settings = [(key, key.removeprefix(CONFIG), f"{len(values)} values") for key, values in self.settings.items()]
        primary = [name for name in self.primary if name in self.metrics]
        others = [name for name in sorted(self.metrics) if name not in primary]
        metrics = [(name, self.labels[name], "primary") for name in primary]
        metrics += [(name, self.labels[name], "") for name in others]
        extras = [(key, title, "") for key, title in EXTRAS.items()]
        return [("Settings that differ", settings), ("Metrics", metrics), ("More", extras)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _metric_cell(column: RunColumn, row: RunRow) -> RunCell:
    """The value of a metric, its interval on the scale of the column, and the difference to the baseline."""
    result = row.results.by_name.get(column.key)
    if result is None or not result.defined:
        return RunCell()
    low, high = column.scale or (0.0, 0.0)
    base, baseline = column.base, column.baseline
    place, difference = None, ""
    is_same = baseline is not None and baseline.fingerprint == row.record.fingerprint
    if base is not None and base.defined and is_same:  # on other questions a difference says nothing
        place = (base.value - low) / (high - low) if column.scale else None
        difference = "base" if row.is_baseline else metric_difference(result, result.value - base.value)
    ends = f", 95 % interval {interval_text(result.interval)}" if result.interval is not None else ""
    note = f"{display_name(result)} {value_text(result.value)}{ends}, n = {result.details.num_samples:,}"
    return RunCell(
        metric_number(result, result.value), note, bar=value_bar(result, low, high), base=place, difference=difference
    )


def _failures_cell(row: RunRow) -> RunCell:
    """The failed answers of a run, and the queries that its main metric could not score."""
    run_id, failed = row.record.run_id, row.counts[1]
    if failed:
        url = make_url("/queries", run=run_id, where="answer=failed")
        text = f"{failed:,} failed"
        return RunCell(text, url=url, label=f"{failed:,} failed answers of {row.record.name:.60}: show the queries")
    main = row.results.find("")
    if main is None or not row.num_unmeasured:
        return RunCell()
    condition = Condition("metric", main.name, value="measure-failed")
    text = f"{row.num_unmeasured:,} not measured"
    label = f"{display_name(main)}: {text} of {row.record.name:.60}: show the queries"
    return RunCell(text, url=make_url("/queries", run=run_id, where=str(condition)), label=label)


def _judged_cell(row: RunRow) -> RunCell:
    """The judged proportion of the returned documents; it opens the queries whose score may rise with more grades."""
    found = row.most_judged
    if found is None:
        return RunCell()
    depth = found.details.judged_depth
    of = "of all" if depth is None else f"of the first {depth}"
    below = Condition("metric", found.name, operator="<", value="1")
    url = make_url("/queries", run=row.record.run_id, where=str(below), sort=below.key)
    share = f"{100 * (found.details.judged or 0.0):.0f} %"
    label = f"{share} {of} documents of {row.record.name:.60} are judged: show the queries below 1"
    return RunCell(share, note=of, url=url, label=label)
