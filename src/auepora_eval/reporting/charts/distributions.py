"""Histograms of scores and latencies, with the same bins for all runs of a chart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...stats.quantile import quantile_of
from .chart import Chart
from .labels import clean_label, describe, finite_number, format_number, pluralize
from .panels import TOOLTIP
from .spec import Json, band_channel, build_spec, message_spec, number_channel, view, with_field
from .svg.formats import format_tick
from .theme import MUTED, SERIES, TEXT
from .ticks import AxisRange, count_range, linear_range, log_range

__all__ = ["distribution_chart", "latency_chart"]

Floats = npt.NDArray[np.float64]
Values = Sequence[float | None] | Mapping[str, Sequence[float | None]]
"""Values of one run, or of several by name."""
BINS = 20
_MAX_BARS = 8
"""Up to this number of distinct values, each has a bar instead of bins."""
_HISTOGRAM_HEIGHT = 140.0
_MIN_LABEL_GAP = 0.09
"""The minimum distance of two labels on one line, as a fraction of the axis."""
_MAX_RUNS = 8
_LOG_SCALE_RATIO = 30.0
"""The ratio of the longest to the shortest time from which a log scale is used."""


def distribution_chart(
    values: Values,
    name: str,
    *,
    bounds: tuple[float, float] | None = None,
    title: str | None = None,
) -> Chart:
    """The distribution of a metric's scores over samples, of one run or of several by name.

    ``bounds`` is the range of the metric. Samples without a score are counted, not drawn.
    """
    heading = clean_label(title or f"{name}: distribution over samples")
    runs, missing = _values_by_run(values)
    every = np.concatenate(list(runs.values())) if runs else np.zeros(0)
    if not len(every):
        return Chart(message_spec(heading, _empty_message(missing)))
    distinct = np.unique(every)
    if len(distinct) <= _MAX_BARS:
        draw = _bar_drawer(distinct, runs, clean_label(name))
    else:
        value_range = None if bounds is None else tuple(map(finite_number, bounds))
        unit = value_range == (0.0, 1.0) if value_range is not None else bool(distinct[0] >= 0 and distinct[-1] <= 1)
        inside = bool(distinct[0] >= 0 and distinct[-1] <= 1)
        span = linear_range((), within=(0.0, 1.0)) if unit and inside else linear_range(distinct[[0, -1]].tolist())
        draw = _histogram_drawer(span, runs, clean_label(name))
    views, parts = [], []
    for run, scores in runs.items():
        mean, median = float(scores.mean()), quantile_of(scores, 0.5)
        about = f"{pluralize(len(scores), 'sample')}, mean {format_number(mean)}, median {format_number(median)}"
        without = f", {missing[run]:,} without a score" if missing[run] else ""
        parts.append(f"{run}: {about}{without}" if run else f"{about}{without}")
        marks = [(mean, f"mean {format_number(mean)}")]
        views.append(draw(scores, run, marks))
    return Chart(build_spec(views, title=heading, description=describe(parts), subtitle=parts))


def latency_chart(
    seconds: Values,
    *,
    name: str = "latency",
    quantiles: Sequence[float] = (0.5, 0.9, 0.99),
    unit: str = "s",
    title: str | None = None,
) -> Chart:
    """The distribution of latencies with quantile lines; on a log scale where the range is wide."""
    heading = clean_label(title or f"{name}: how long answers took")
    runs, missing = _values_by_run(seconds)
    every = np.concatenate(list(runs.values())) if runs else np.zeros(0)
    if not len(every):
        return Chart(message_spec(heading, _empty_message(missing, what="timing")))
    low, high = float(every.min()), float(every.max())
    logarithms = low > 0 and high / low > _LOG_SCALE_RATIO and len(every) > 1
    span = log_range([low, high]) if logarithms else linear_range([low, high], zero=low >= 0)
    draw = _histogram_drawer(span, runs, f"{clean_label(name)} ({unit})")
    views, parts = [], []
    for run, times in runs.items():
        marks = [(quantile_of(times, q), f"p{q * 100:g}") for q in quantiles]
        about = ", ".join(f"{text} {format_number(at)} {unit}" for at, text in marks)
        about = f"{pluralize(len(times), 'answer')}, {about}"
        without = f", {missing[run]:,} without a timing" if missing[run] else ""
        parts.append(f"{run}: {about}{without}" if run else f"{about}{without}")
        views.append(draw(times, run, marks))
    return Chart(build_spec(views, title=heading, description=describe(parts), subtitle=parts))


def _values_by_run(values: Values) -> tuple[dict[str, Floats], dict[str, int]]:
    """The drawable numbers of each run, and the number of missing ones."""
    by_run = dict(values) if isinstance(values, Mapping) else {"": values}
    drawable: dict[str, Floats] = {}
    missing: dict[str, int] = {}
    for run, run_values in list(by_run.items())[:_MAX_RUNS]:
        name = clean_label(run)
        drawn = [one for one in map(finite_number, run_values) if one is not None]
        missing[name] = len(run_values) - len(drawn)
        if drawn:
            drawable[name] = np.array(drawn, dtype=np.float64)
    return drawable, missing


def _empty_message(missing: Mapping[str, int], what: str = "score") -> str:
    count = sum(missing.values())
    return f"none of {pluralize(count, 'sample')} has a {what}" if count else "there are no samples"


def _histogram_drawer(span: AxisRange, runs: Mapping[str, Floats], axis: str) -> Any:
    """A function that draws one run over shared bins."""
    if span.log:
        edges = np.logspace(math.log10(span.low), math.log10(span.high), BINS + 1)
        edges[0], edges[-1] = span.low, span.high
    else:
        edges = np.linspace(span.low, span.high, BINS + 1)
    counts = {run: np.histogram(values, edges)[0] for run, values in runs.items()}
    most = count_range(max(int(each.max()) for each in counts.values()))
    along, up = number_channel("low", span, title=axis, grid=False), number_channel("count", most, title="samples")

    def draw(values: Floats, run: str, marks: Sequence[tuple[float, str]]) -> Json:
        rows = [
            {
                "low": low,
                "high": high,
                "count": count,
                "zero": 0,
                "tip": f"{format_number(low)} to {format_number(high)}: {count}",
            }
            for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts[run].tolist(), strict=True)
            if count
        ]
        encoding: Json = {
            "x": along,
            "x2": {"field": "high"},
            "y": up,
            "y2": {"field": "zero"},
            "tooltip": TOOLTIP,
        }
        bars = {"type": "rect", "color": SERIES[0], "opacity": 0.75}
        return view(
            [{"data": {"values": rows}, "mark": bars, "encoding": encoding}, *_marker_layers(marks, along)],
            height=_HISTOGRAM_HEIGHT,
            title=run,
        )

    return draw


def _marker_layers(marks: Sequence[tuple[float, str]], along: Json) -> list[Json]:
    """Vertical lines at some values, with their labels above."""
    rule = {"type": "rule", "color": TEXT, "strokeDash": [4, 3]}
    layers: list[Json] = [
        {"data": {"values": [{"at": at} for at, _ in marks]}, "mark": rule, "encoding": {"x": with_field(along, "at")}}
    ]
    last: list[float] = []  # the position of the last label on each line of labels
    for at, text in marks:
        share = _axis_fraction(at, along["scale"])
        line = next((index for index, before in enumerate(last) if share - before >= _MIN_LABEL_GAP), len(last))
        last[line : line + 1] = [share]
        mark = {"type": "text", "align": "center", "baseline": "bottom", "dy": -2 - 13 * line, "color": TEXT}
        encoding = {"x": with_field(along, "at"), "y": {"value": 0}, "text": {"field": "text", "type": "nominal"}}
        layers.append({"data": {"values": [{"at": at, "text": text}]}, "mark": mark, "encoding": encoding})
    return layers


def _axis_fraction(value: float, scale: Mapping[str, Any]) -> float:
    """The position of a value on an axis, from 0 to 1."""
    low, high = scale["domain"]
    if scale["type"] == "log":
        return math.log(value / low) / math.log(high / low)
    return float((value - low) / (high - low))


def _bar_drawer(distinct: Floats, runs: Mapping[str, Floats], axis: str) -> Any:
    """A function that draws one run with a bar per distinct value."""
    labels = {float(value): format_tick(float(value), ".6~g") for value in distinct}
    if len(set(labels.values())) < len(labels):  # equal to six digits
        labels = {value: repr(value) for value in labels}
    counts = {run: {value: int((values == value).sum()) for value in labels} for run, values in runs.items()}
    most = count_range(max(max(each.values()) for each in counts.values()))
    along, up = band_channel("value", list(labels.values()), title=axis), number_channel("count", most, title="samples")

    def draw(values: Floats, run: str, marks: Sequence[tuple[float, str]]) -> Json:
        rows = [
            {"value": label, "count": counts[run][value], "zero": 0, "tip": f"{label}: {counts[run][value]}"}
            for value, label in labels.items()
        ]
        encoding: Json = {"x": along, "y": up, "y2": {"field": "zero"}, "tooltip": TOOLTIP}
        written = [{**row, "text": f"{row['count']:,}"} for row in rows]
        words = {"type": "text", "align": "center", "baseline": "bottom", "dy": -3, "color": MUTED}
        return view(
            [
                {
                    "data": {"values": rows},
                    "mark": {"type": "bar", "color": SERIES[0], "opacity": 0.75},
                    "encoding": encoding,
                },
                {
                    "data": {"values": written},
                    "mark": words,
                    "encoding": {"x": along, "y": up, "text": {"field": "text", "type": "nominal"}},
                },
            ],
            height=_HISTOGRAM_HEIGHT,
            title=run,
        )

    return draw
