"""Charts of curves with bands, trends over runs, and histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, cycle, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ...stats.bootstrap import quantile_of
from .chart import (
    TOOLTIP,
    Chart,
    Json,
    Row,
    band_channel,
    build_spec,
    colour_channel,
    describe_row,
    has_unit_range,
    list_first,
    message_spec,
    number_channel,
    row_values,
    style_channel,
    view,
    with_field,
)
from .intervals import interval_chart, value_span
from .layout import (
    DASHES,
    MUTED,
    SERIES,
    SHAPES,
    TEXT,
    AxisRange,
    clean_label,
    count_range,
    describe,
    finite_number,
    format_number,
    linear_range,
    log_range,
    pluralize,
    unique_labels,
)
from .svg import format_tick

Curves = Mapping[str, Sequence[Row]] | Mapping[str, Mapping[str, Sequence[Row]]]
"""Lines by name; or by the name of a panel, and in it by name."""
MAX_LINES = len(SERIES)
"""The number of distinguishable lines of a panel."""
MAX_PANELS = 12
MAX_POINTS = 400
"""The number of points drawn per line, evenly chosen."""
MAX_BREAKS = 8
"""The number of breaks of a trend that are marked."""
_CURVE_HEIGHT = 220.0
_TREND_HEIGHT = 130.0
_LOG_K_RATIO = 20


def curve_over_k(curves: Curves, *, title: str = "Retrieval over the cut-off k", axis: str = "k") -> Chart:
    """A line per name over k: points have ``k`` and ``value``, and may have ``low`` and ``high``.

    ``{metric: {run: points}}`` makes a panel per metric.
    """
    return _lines_chart(_panels(curves, "k"), title, axis)


def noise_curve(
    curves: Mapping[str, Sequence[Row]],
    *,
    title: str = "Metrics as noise grows",
    axis: str = "rate",
    scaled: Collection[str] = (),
) -> Chart:
    """A line per metric over the perturbation level: points have ``level`` (a rate or an arm's name) and ``value``.

    ``low`` and ``high`` are optional. Metrics in ``scaled`` get their own axis. Arms have no order, so they are drawn
    as a row per arm instead.
    """
    if any(finite_number(point.get("level")) is None for point in chain.from_iterable(curves.values())):
        rows = [
            {**point, "name": point.get("level"), "group": name, **({"scale": name} if name in scaled else {})}
            for name, points in curves.items()
            for point in points
        ]
        return interval_chart(rows, title=title)
    return _lines_chart(_panels(curves, "level"), title, axis, scaled)


_Panel = tuple[str, dict[str, list[Row]]]
"""A title, and lines by name."""


def _panels(curves: Curves, key: str) -> list[_Panel]:
    """The lines by panel, each point with its position."""
    panels: list[_Panel] = []
    plain: dict[str, list[Row]] = {}
    for name, lines in curves.items():
        if isinstance(lines, Mapping):
            panels.append((name, {line: _with_positions(points, key) for line, points in lines.items()}))
        else:
            plain[name] = _with_positions(lines, key)
    return [("", plain), *panels] if plain else panels


def _with_positions(points: Sequence[Row], key: str) -> list[Row]:
    return [{**point, "at": at} for point in points if (at := finite_number(point.get(key))) is not None]


def _lines_chart(panels: Sequence[_Panel], title: str, axis: str, scaled: Collection[str] = ()) -> Chart:
    heading = clean_label(title)
    views: list[Json] = []
    parts: list[str] = []
    empty: list[str] = []
    for group, lines in panels:
        labels = dict(zip(lines, unique_labels(lines), strict=True))
        shared: dict[str, list[Row]] = {}
        own: list[dict[str, list[Row]]] = []
        for name, points in lines.items():
            valued = [point for point in points if row_values(point)]
            line_name = f"{clean_label(group)}, {labels[name]}" if group else labels[name]
            if not valued:
                empty.append(line_name)
                continue
            parts.append(f"{line_name} {_point_text(valued[0])} and {_point_text(valued[-1])}")
            if group or (name not in scaled and all(map(has_unit_range, valued))):
                shared[labels[name]] = points
            else:
                own.append({labels[name]: points})
        names = list(shared)
        together = [{name: shared[name] for name in names[i : i + MAX_LINES]} for i in range(0, len(names), MAX_LINES)]
        views += [_line_panel(panel, clean_label(axis), clean_label(group)) for panel in [*together, *own]]
    if not views:
        return Chart(message_spec(heading, "no point of a line has a value"))
    more = [f"{len(views) - MAX_PANELS} more panels not drawn"] if len(views) > MAX_PANELS else []
    more += [f"no value: {list_first(empty, 'line')}"] if empty else []
    text = describe([list_first(parts, "line"), *more])
    return Chart(build_spec(views[:MAX_PANELS], title=heading, description=text, subtitle=more))


def _point_text(point: Row) -> str:
    return f"{format_number(row_values(point)[0])} at {point['at']:g}"


def _line_panel(
    curves: Mapping[str, Sequence[Row]], axis: str, group: str, names: Mapping[float, str] | None = None
) -> Json:
    """A panel of lines. ``names`` are the names of positions that are no numbers of interest."""
    every = list(chain.from_iterable(curves.values()))
    along = _number_axis(every, axis)
    if names is not None:
        along = number_channel("at", linear_range(list(names)), title=axis, grid=False, labels=False)
    up = number_channel("value", value_span(every))
    rows, ranged = [], []
    for label, points in curves.items():
        for at, values, part in _ordered_points(points):
            row = {"at": at, "value": values[0], "line": label, "part": f"{label} {part}"}
            text = f"{label} at {at:g}" if names is None else f"{label}, {names[at]}"
            rows.append({**row, "tip": describe_row(text, values)})
            if len(values) == 3:
                ranged.append({**row, "low": values[1], "high": values[2]})
    colours = dict(zip(curves, cycle(SERIES), strict=False))
    legend = len(curves) > 1
    colour, parted = colour_channel("line", colours, shown=legend), {"field": "part", "type": "nominal"}
    banded: Json = {
        "x": along,
        "y": with_field(up, "low"),
        "y2": {"field": "high"},
        "color": colour,
        "detail": parted,
    }
    line: Json = {
        "x": along,
        "y": up,
        "color": colour,
        "strokeDash": style_channel("line", dict(zip(curves, cycle(DASHES), strict=False)), shown=legend),
        "detail": parted,
    }
    point: Json = {
        "x": along,
        "y": up,
        "color": colour,
        "shape": style_channel("line", dict(zip(curves, cycle(SHAPES), strict=False)), shown=legend),
        "tooltip": TOOLTIP,
    }
    band: Json = {"type": "area", "opacity": 0.13}
    if len({row["at"] for row in rows}) < 2:  # an area over a single position has no width
        band = {"type": "rule", "strokeWidth": 1.5, "opacity": 0.5}
        del banded["detail"]
    marks = {"type": "point", "filled": True, "opacity": 1, "size": 45}
    layers: list[Json] = [
        *([{"data": {"values": ranged}, "mark": band, "encoding": banded}] if ranged else []),
        {"data": {"values": rows}, "mark": {"type": "line", "strokeWidth": 2}, "encoding": line},
        {"data": {"values": rows}, "mark": marks, "encoding": point},
    ]
    alone = next(iter(curves)) if len(curves) == 1 else ""
    return view(layers, height=_CURVE_HEIGHT, title=", ".join(filter(None, [group, alone])))


def trend_chart(lines: Mapping[str, Sequence[Row]], name: str, *, title: str | None = None) -> Chart:
    """A metric over runs in the order of time, a line per dataset.

    A point has ``value``, and may have ``low`` and ``high``; ``time`` (a text that sorts as time), ``run`` (its name),
    and ``change``: why its value is not comparable with the one before it, where the line is broken.
    """
    heading = clean_label(title or f"{name} over runs")
    shown = {line: [point for point in points if row_values(point)] for line, points in list(lines.items())[:MAX_LINES]}
    every = sorted(chain.from_iterable(shown.values()), key=lambda point: str(point.get("time")))
    if not every:
        return Chart(message_spec(heading, f"no run has a value of {clean_label(name)}"))
    places = {id(point): float(place) for place, point in enumerate(every, 1)}
    labels = dict(zip(shown, unique_labels(shown), strict=True))
    curves: dict[str, list[Row]] = {}
    breaks: list[tuple[float, str]] = []
    for line, points in shown.items():
        drawn = curves.setdefault(labels[line], [])
        for row in sorted(points, key=lambda row: places[id(row)]):
            at = places[id(row)]
            if row.get("change") and drawn:
                drawn.append({"at": at - 0.5})
                breaks.append((at - 0.5, f"{_day(row)} {labels[line]}: {clean_label(row['change'])}"))
            drawn.append({**row, "at": at})
    breaks.sort()
    ends = " to ".join(dict.fromkeys([_day(every[0]), _day(every[-1])]))
    names = {places[id(point)]: f"{clean_label(point.get('run'))}, {clean_label(point.get('time'))}" for point in every}
    panel = _line_panel(
        {line: some for line, some in curves.items() if some}, f"runs in order of time, {ends}", "", names
    )
    panel["height"] = _TREND_HEIGHT
    subtitle = [f"{number}: {text}" for number, (_, text) in enumerate(breaks[:MAX_BREAKS], 1)]
    subtitle += [f"and {pluralize(len(breaks) - MAX_BREAKS, 'more change')}"] if len(breaks) > MAX_BREAKS else []
    rest = list(lines)[MAX_LINES:]
    subtitle += [f"not drawn: {list_first([clean_label(name) for name in rest], 'dataset')}"] if rest else []
    if breaks:
        along = panel["layer"][-1]["encoding"]["x"]
        marks = [(at, str(number)) for number, (at, _) in enumerate(breaks[:MAX_BREAKS], 1)]
        panel = {**panel, "layer": [*_marker_layers(marks, along), *panel["layer"]]}
    parts = [
        f"{line} {_run_text(some[0], names)} and {_run_text(some[-1], names)}" for line, some in curves.items() if some
    ]
    text = describe([list_first(parts, "line"), *subtitle])
    return Chart(build_spec([panel], title=heading, description=text, subtitle=subtitle))


def _day(point: Row) -> str:
    return clean_label(str(point.get("time"))[:10])


def _run_text(point: Row, names: Mapping[float, str]) -> str:
    return f"{format_number(row_values(point)[0])} in {names[point['at']]}"


def looks_chart(
    looks: Sequence[Row],
    *,
    title: str = "Looks of the sequential test",
    null: float = 0.0,
    margin: float | None = None,
    units: int | None = None,
) -> Chart:
    """The mean with its repeated interval at each look of a sequential test, and its boundaries.

    A look has ``units``, ``mean``, ``low``, ``high``, and may have ``verdict``. A mean outside the boundaries decides:
    they lie as far from ``null``, no difference or a threshold, as the ends of the interval from the mean. ``margin``
    is the difference that counts as equal. ``units`` is the end of the axis, by default the last look.
    """
    heading = clean_label(title)
    rows: list[Json] = [
        {"at": at, **dict(zip(("value", "low", "high"), values, strict=True)), "verdict": look.get("verdict")}
        for look in looks
        if (at := finite_number(look.get("units"))) is not None
        and len(values := row_values({**look, "value": look.get("mean")})) == 3
    ]
    if not rows:
        return Chart(message_spec(heading, "there was no look yet"))
    sides = [
        {"at": row["at"], "value": null + way * abs(row[end] - row["value"]), "side": side}
        for end, side, way in (("low", "upper", 1.0), ("high", "lower", -1.0))
        for row in rows
    ]
    margins = [] if margin is None else [null - margin, null + margin]
    ends = [*(row["low"] for row in rows), *(row["high"] for row in rows)]
    up = number_channel("value", linear_range([*ends, *(row["value"] for row in sides), *margins, null], zero=False))
    places = [*(row["at"] for row in rows), *([] if units is None else [units])]
    along = number_channel("at", linear_range(places, zero=True), title="units judged", grid=False)
    band = {"x": along, "y": with_field(up, "low"), "y2": {"field": "high"}}
    wide = len({row["at"] for row in rows}) > 1
    area = {"type": "area", "opacity": 0.13} if wide else {"type": "rule", "strokeWidth": 1.5, "opacity": 0.5}
    drawn = [{**row, "tip": _look_text(row)} for row in rows]
    line = {"type": "line", "strokeWidth": 2, "color": SERIES[0]}
    dashes = {"strokeWidth": 1.5, "color": SERIES[1], "strokeDash": [4, 3]}
    points = {"type": "point", "filled": True, "opacity": 1, "size": 45, "color": SERIES[0]}
    boundary: Json = {"data": {"values": sides}, "mark": {"type": "line", **dashes}, "encoding": {"x": along, "y": up}}
    boundary["encoding"]["detail"] = {"field": "side", "type": "nominal"}
    if not wide:  # a line of one point is not visible
        half = 0.04 * max(places)
        short = [
            {**side, "start": max(side["at"] - half, 0.0), "end": min(side["at"] + half, max(places))} for side in sides
        ]
        boundary = {"data": {"values": short}, "mark": {"type": "rule", **dashes}}
        boundary["encoding"] = {"x": with_field(along, "start"), "x2": {"field": "end"}, "y": up}
    rule = {"type": "rule", "color": MUTED, "strokeWidth": 1}
    layers: list[Json] = [
        {"data": {"values": rows}, "mark": {**area, "color": SERIES[0]}, "encoding": band},
        {"data": {"values": [{"value": null}]}, "mark": rule, "encoding": {"y": up}},
        boundary,
        {"data": {"values": drawn}, "mark": line, "encoding": {"x": along, "y": up}},
        {"data": {"values": drawn}, "mark": points, "encoding": {"x": along, "y": up, "tooltip": TOOLTIP}},
    ]
    if margins:
        lines = [{"value": margin} for margin in margins]
        dotted = {**rule, "strokeDash": [1, 3]}
        layers.insert(2, {"data": {"values": lines}, "mark": dotted, "encoding": {"y": up}})
    subtitle = ["band: repeated interval; dashed: boundaries" + ("; dotted: the margin of equal" if margins else "")]
    text = describe([_look_text(drawn[0]), *([_look_text(drawn[-1])] if len(drawn) > 1 else [])])
    return Chart(build_spec([view(layers, height=_CURVE_HEIGHT)], title=heading, description=text, subtitle=subtitle))


def _look_text(row: Row) -> str:
    verdict = f", {clean_label(row['verdict'])}" if row.get("verdict") else ""
    label = f"{row['at']:g} judged"
    return f"{describe_row(label, row_values(row), signed=True)}{verdict}"


def _ordered_points(points: Sequence[Row]) -> list[tuple[float, list[float], int]]:
    """The sorted positions of points, their numbers, and the part of the line; a gap starts a new part."""
    placed = sorted(((float(point["at"]), row_values(point)) for point in points), key=itemgetter(0))
    if len(placed) > MAX_POINTS:
        placed = [placed[round(i * (len(placed) - 1) / (MAX_POINTS - 1))] for i in range(MAX_POINTS)]
    ordered, part = [], 0
    for at, ends in placed:
        if ends:
            ordered.append((at, ends, part))
        else:
            part += 1
    return ordered


def _number_axis(points: Sequence[Row], axis: str) -> Json:
    positions = sorted({float(point["at"]) for point in points})
    wide = len(positions) > 1 and positions[0] > 0 and positions[-1] / positions[0] > _LOG_K_RATIO
    span = (log_range if wide else linear_range)([positions[0], positions[-1]])
    return number_channel("at", _with_ticks(span, positions), title=axis, grid=False)


def _with_ticks(span: AxisRange, positions: Sequence[float]) -> AxisRange:
    """The axis with a tick at every position, where these are few and far enough apart."""
    shares = [math.log(place) if span.log else place for place in positions]
    near = min((b - a for a, b in pairwise(shares)), default=1.0) * 15 < shares[-1] - shares[0]
    return span if near or len(positions) > 8 else AxisRange(span.low, span.high, tuple(positions), ".6~g", span.log)


def quality_by_rank(rows: Sequence[Row], name: str, *, title: str | None = None) -> Chart:
    """Answer quality by the rank of the first relevant document.

    A row has ``rank`` (a number, a range such as ``6–10``, or ``none``), ``value``, ``low``, ``high`` and ``n``.
    """
    heading = clean_label(title or f"{name} by the rank of the first relevant document")
    valued = [row for row in rows[:60] if row_values(row)]
    if not valued:
        return Chart(message_spec(heading, "no answer has both a score and a rank"))
    labels = unique_labels(row.get("rank", "") for row in rows[:60])
    along = band_channel("rank", labels, title="rank of the first relevant document")
    up = number_channel("value", value_span(valued), title=clean_label(name))
    named = [(label, row_values(row), row.get("n")) for label, row in zip(labels, rows, strict=False)]
    counts = [{"rank": label, "text": f"n {n}"} for label, _, n in named if n is not None]
    drawn = [
        {
            "rank": label,
            "value": values[0],
            "tip": describe_row(f"rank {label}", values) + ("" if n is None else f", n = {n}"),
        }
        for label, values, n in named
        if values
    ]
    ranged = [{"rank": label, "low": values[1], "high": values[2]} for label, values, _ in named if len(values) == 3]
    interval = {"x": along, "y": with_field(up, "low"), "y2": {"field": "high"}}
    text = {"type": "text", "align": "center", "baseline": "bottom", "dy": -6, "color": MUTED}
    layers: list[Json] = [
        {
            "data": {"values": ranged},
            "mark": {"type": "rule", "strokeWidth": 2, "color": SERIES[0]},
            "encoding": interval,
        },
        {
            "data": {"values": drawn},
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 70, "color": SERIES[0]},
            "encoding": {"x": along, "y": up, "tooltip": TOOLTIP},
        },
        {
            "data": {"values": counts},
            "mark": text,
            "encoding": {"x": along, "y": {"value": 0}, "text": {"field": "text", "type": "nominal"}},
        },
    ]
    description = describe([list_first([str(row["tip"]) for row in drawn], "rank")])
    return Chart(build_spec([view(layers, height=180.0)], title=heading, description=description))


# --- histograms of scores and latencies, with the same bins for all runs of a chart ----------------------------------

Floats = npt.NDArray[np.float64]
Values = Sequence[float | None] | Mapping[str, Sequence[float | None]]
"""Values of one run, or of several by name."""
_Markers = Sequence[tuple[float, str]]
"""Values marked by a line, with their labels."""
_Drawer = Callable[[str, _Markers], Json]
"""Draws the histogram of one run, given its name."""
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

    def drawer(runs: Mapping[str, Floats], every: Floats) -> _Drawer:
        distinct = np.unique(every)
        if len(distinct) <= _MAX_BARS:
            return _bar_drawer(distinct, runs, clean_label(name))
        inside = bool(distinct[0] >= 0 and distinct[-1] <= 1)
        unit = inside and (bounds is None or tuple(map(finite_number, bounds)) == (0.0, 1.0))
        span = linear_range((), within=(0.0, 1.0)) if unit else linear_range(distinct[[0, -1]].tolist())
        return _histogram_drawer(span, runs, clean_label(name))

    def summary(scores: Floats) -> tuple[str, _Markers]:
        mean, median = format_number(float(scores.mean())), format_number(quantile_of(scores, 0.5))
        text = f"{pluralize(len(scores), 'sample')}, mean {mean}, median {median}"
        return text, [(float(scores.mean()), f"mean {mean}")]

    return _histograms(values, title or f"{name}: distribution over samples", "score", drawer, summary)


def latency_chart(
    seconds: Values,
    *,
    name: str = "latency",
    quantiles: Sequence[float] = (0.5, 0.9, 0.99),
    unit: str = "s",
    title: str | None = None,
) -> Chart:
    """The distribution of latencies with quantile lines; on a log scale where the range is wide."""

    def drawer(runs: Mapping[str, Floats], every: Floats) -> _Drawer:
        low, high = float(every.min()), float(every.max())
        logarithms = low > 0 and high / low > _LOG_SCALE_RATIO
        span = log_range([low, high]) if logarithms else linear_range([low, high], zero=low >= 0)
        return _histogram_drawer(span, runs, f"{clean_label(name)} ({unit})")

    def summary(times: Floats) -> tuple[str, _Markers]:
        markers = [(quantile_of(times, q), f"p{q * 100:g}") for q in quantiles]
        texts = [pluralize(len(times), "answer"), *(f"{text} {format_number(at)} {unit}" for at, text in markers)]
        return ", ".join(texts), markers

    return _histograms(seconds, title or f"{name}: how long answers took", "timing", drawer, summary)


def _histograms(
    values: Values,
    title: str,
    what: str,
    drawer: Callable[[Mapping[str, Floats], Floats], _Drawer],
    summary: Callable[[Floats], tuple[str, _Markers]],
) -> Chart:
    """A histogram per run. ``drawer`` sets up the axes that all runs share; ``summary`` describes the values of one."""
    heading = clean_label(title)
    runs, missing = _values_by_run(values)
    if not runs:
        count = sum(missing.values())
        empty = f"none of {pluralize(count, 'sample')} has a {what}" if count else "there are no samples"
        return Chart(message_spec(heading, empty))
    draw = drawer(runs, np.concatenate(list(runs.values())))
    views, parts = [], []
    for run, numbers in runs.items():
        text, markers = summary(numbers)
        without = f", {missing[run]:,} without a {what}" if missing[run] else ""
        parts.append(f"{run}: {text}{without}" if run else f"{text}{without}")
        views.append(draw(run, markers))
    return Chart(build_spec(views, title=heading, description=describe(parts), subtitle=parts))


def _values_by_run(values: Values) -> tuple[dict[str, Floats], dict[str, int]]:
    """The drawable numbers of each run, and the number of missing ones."""
    by_run = dict(values) if isinstance(values, Mapping) else {"": values}
    drawable: dict[str, Floats] = {}
    missing: dict[str, int] = {}
    for run, run_values in list(by_run.items())[:_MAX_RUNS]:
        name = clean_label(run)
        drawn = [value for value in map(finite_number, run_values) if value is not None]
        missing[name] = len(run_values) - len(drawn)
        if drawn:
            drawable[name] = np.array(drawn, dtype=np.float64)
    return drawable, missing


def _histogram_drawer(span: AxisRange, runs: Mapping[str, Floats], axis: str) -> _Drawer:
    """A function that draws one run over shared bins."""
    if span.log:
        edges = np.logspace(math.log10(span.low), math.log10(span.high), BINS + 1)
        edges[0], edges[-1] = span.low, span.high
    else:
        edges = np.linspace(span.low, span.high, BINS + 1)
    counts = {run: np.histogram(values, edges)[0] for run, values in runs.items()}
    most = count_range(max(int(each.max()) for each in counts.values()))
    along, up = number_channel("low", span, title=axis, grid=False), number_channel("count", most, title="samples")

    def draw(run: str, markers: _Markers) -> Json:
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
            [{"data": {"values": rows}, "mark": bars, "encoding": encoding}, *_marker_layers(markers, along)],
            height=_HISTOGRAM_HEIGHT,
            title=run,
        )

    return draw


def _marker_layers(marks: _Markers, along: Json) -> list[Json]:
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


def _bar_drawer(distinct: Floats, runs: Mapping[str, Floats], axis: str) -> _Drawer:
    """A function that draws one run with a bar per distinct value."""
    labels = {float(value): format_tick(float(value), ".6~g") for value in distinct}
    if len(set(labels.values())) < len(labels):  # equal to six digits
        labels = {value: repr(value) for value in labels}
    counts = {run: {value: int((values == value).sum()) for value in labels} for run, values in runs.items()}
    most = count_range(max(max(each.values()) for each in counts.values()))
    along, up = band_channel("value", list(labels.values()), title=axis), number_channel("count", most, title="samples")

    def draw(run: str, markers: _Markers) -> Json:
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
