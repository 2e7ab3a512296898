"""The trend of a metric over runs: the chart, and the small one above the list of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import chain, pairwise
from typing import Any

from ..compare.depths import cut_above
from ..compare.match import coarsest, matched_result
from ..compare.pairing import lookup_metric, result_match, without_top_k
from ..core.conventions import Match, Signature
from ..core.results import display_name
from ..core.types import MetricResult
from ..errors import AueporaError
from ..features.matching import MATCH_WORDS
from ..render import charts
from ..render.blocks import Figure
from ..render.html import metric_range
from ..store.records import RunRecord
from .numbers import metric_number
from .run_table import ResultSummaries, RunRow, count_answers
from .workbench import Workbench, run_url

TREND_RUNS = 200
"""The number of runs in the trend, the latest ones."""

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
    valued = [
        record for record in records if (found := results[record.run_id].find(metric)) is not None and found.defined
    ]
    shown = valued[:TREND_RUNS]
    points = trend_points(workbench, shown, results, metric)
    label = next((display_name(point.result) for point in chain.from_iterable(points.values())), metric)
    chart = charts.trend_chart(trend_lines(points), label)
    sentences = [
        "95 % intervals. A line is broken where values are not comparable; in shorter lists missing ranks count as no "
        "hit. Runs without a usable answer are left out.",
        *match_sentences(points),
    ]
    if len(valued) > len(shown):
        sentences.append(f"The latest {len(shown):,} of {len(valued):,} runs.")
    return Figure(chart, " ".join(sentences), 1200)


# --- the small trend above the list ----------------------------------------------------------------------------------

STRIP_RUNS = 60
"""The number of runs in the small trend, the latest ones."""
STRIP_WIDTH, STRIP_HEIGHT = 420, 56


def trend_strip(
    workbench: Workbench,
    records: Sequence[RunRecord],
    results: Mapping[str, ResultSummaries],
    metric: str,
    baseline: RunRecord | None,
) -> dict[str, Any] | None:
    """The trend of a metric over the latest runs, given newest first; ``None`` where fewer than two have a value.

    It has marks in the order of time, where those of failed runs have no height, a line within each series, and the
    ends of the axis.
    """
    shown = records[:STRIP_RUNS]
    counts = count_answers(workbench, shown)
    rows = [RunRow(record, results[record.run_id], counts[record.run_id]) for record in shown]
    failed = {row.record.run_id for row in rows if row.has_failed}
    points = trend_points(workbench, [record for record in shown if record.run_id not in failed], results, metric)
    found = {point.record.run_id: point.result for point in chain.from_iterable(points.values())}
    if len(found) < 2:
        return None
    values = [result.value for result in found.values()]
    values += chain.from_iterable(result.interval or () for result in found.values())
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    listed = [record for record in reversed(shown) if record.run_id in found or record.run_id in failed]
    step = (STRIP_WIDTH - 20) / max(len(listed) - 1, 1)

    def height(value: float) -> float:
        share = float(value - low) / float(span)
        return round(STRIP_HEIGHT - 8 - share * (STRIP_HEIGHT - 16), 1)

    marks = {}
    for place, record in enumerate(listed):
        mark = {"name": record.name, "url": run_url(record), "x": round(10 + place * step, 1), "ends": (), "y": None}
        result = found.get(record.run_id)
        if result is not None:
            ends = [height(end) for end in result.interval or ()]
            mark |= {"text": metric_number(result, result.value), "ends": ends, "y": height(result.value)}
        marks[record.run_id] = mark
    line = ""
    for series in points.values():
        for before, point in pairwise(series):
            start, end = before.record.created_at, point.record.created_at
            crashed = [run for run in listed if run.run_id in failed and start < run.created_at < end]
            if not crashed and not point.change_from(before):
                first, last = marks[before.record.run_id], marks[point.record.run_id]
                line += f"M{first['x']} {first['y']}L{last['x']} {last['y']}"
    newest = next(found[record.run_id] for record in shown if record.run_id in found)
    base = None if baseline is None else results[baseline.run_id].find(metric)
    is_drawn = base is not None and base.defined and low <= base.value <= high
    return {
        "marks": list(marks.values()),
        "path": line,
        "low": metric_number(newest, low),
        "high": metric_number(newest, high),
        "base": height(base.value) if base is not None and is_drawn else None,
        "latest": metric_number(newest, newest.value),
        "interval": " – ".join(metric_number(newest, end) for end in newest.interval or ()),
    }
