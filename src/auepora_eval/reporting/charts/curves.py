"""Lines with bands: metrics over the cut-off k, over noise, and answers over the rank of the first hit."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter

from .chart import Chart
from .intervals import interval_chart
from .labels import clean_label, describe, finite_number, format_number, unique_labels
from .panels import TOOLTIP, Row, describe_row, has_unit_range, list_first, row_values
from .spec import (
    Json,
    band_channel,
    build_spec,
    colour_channel,
    dash_channel,
    message_spec,
    number_channel,
    shape_channel,
    view,
    with_field,
)
from .theme import DASHES, MUTED, SERIES, SHAPES
from .ticks import AxisRange, linear_range, log_range

__all__ = ["curve_over_k", "noise_curve", "quality_by_rank"]

Curves = Mapping[str, Sequence[Row]] | Mapping[str, Mapping[str, Sequence[Row]]]
"""Lines by name; or by the name of a panel, and in it by name."""
MAX_LINES = len(SERIES)
"""The number of distinguishable lines of a panel."""
MAX_PANELS = 12
MAX_POINTS = 400
"""The number of points drawn per line, evenly chosen."""
_CURVE_HEIGHT = 220.0
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
    if any(finite_number(one.get("level")) is None for points in curves.values() for one in points):
        rows = [
            {**one, "name": one.get("level"), "group": name, **({"scale": name} if name in scaled else {})}
            for name, points in curves.items()
            for one in points
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
    return [{**one, "at": at} for one in points if (at := finite_number(one.get(key))) is not None]


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
            valued = [one for one in points if row_values(one)]
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
        views += [_line_panel(one, clean_label(axis), clean_label(group)) for one in [*together, *own]]
    if not views:
        return Chart(message_spec(heading, "no point of a line has a value"))
    more = [f"{len(views) - MAX_PANELS} more panels not drawn"] if len(views) > MAX_PANELS else []
    more += [f"no value: {list_first(empty, 'line')}"] if empty else []
    text = describe([list_first(parts, "line"), *more])
    return Chart(build_spec(views[:MAX_PANELS], title=heading, description=text, subtitle=more))


def _point_text(point: Row) -> str:
    return f"{format_number(row_values(point)[0])} at {point['at']:g}"


def _line_panel(curves: Mapping[str, Sequence[Row]], axis: str, group: str) -> Json:
    every = [one for points in curves.values() for one in points]
    along = _number_axis(every, axis)
    ends = [end for one in every for end in row_values(one)]
    unit = all(has_unit_range(one) for one in every if row_values(one))
    span = linear_range((), within=(0.0, 1.0)) if unit else linear_range(ends, zero=True)
    up = number_channel("value", span)
    rows, ranged = [], []
    for label, points in curves.items():
        for at, values, part in _ordered_points(points):
            row = {"at": at, "value": values[0], "line": label, "part": f"{label} {part}"}
            rows.append({**row, "tip": describe_row(f"{label} at {at:g}", values)})
            if len(values) == 3:
                ranged.append({**row, "low": values[1], "high": values[2]})
    colours = {label: SERIES[index % len(SERIES)] for index, label in enumerate(curves)}
    dashes = {label: DASHES[index % len(DASHES)] for index, label in enumerate(curves)}
    shapes = {label: SHAPES[index % len(SHAPES)] for index, label in enumerate(curves)}
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
        "strokeDash": dash_channel("line", dashes, shown=legend),
        "detail": parted,
    }
    point: Json = {
        "x": along,
        "y": up,
        "color": colour,
        "shape": shape_channel("line", shapes, shown=legend),
        "tooltip": TOOLTIP,
    }
    band: Json = {"type": "area", "opacity": 0.13}
    if len({row["at"] for row in rows}) < 2:  # an area over a single position has no width
        band = {"type": "rule", "strokeWidth": 1.5, "opacity": 0.5}
        del banded["detail"]
    layers: list[Json] = [{"data": {"values": ranged}, "mark": band, "encoding": banded}] if ranged else []
    layers.append({"data": {"values": rows}, "mark": {"type": "line", "strokeWidth": 2}, "encoding": line})
    marks = {"type": "point", "filled": True, "opacity": 1, "size": 45}
    layers.append({"data": {"values": rows}, "mark": marks, "encoding": point})
    alone = next(iter(curves)) if len(curves) == 1 else ""
    return view(layers, height=_CURVE_HEIGHT, title=", ".join(filter(None, [group, alone])))


def _ordered_points(points: Sequence[Row]) -> list[tuple[float, list[float], int]]:
    """The sorted positions of points, their numbers, and the part of the line; a gap starts a new part."""
    placed = sorted(((float(one["at"]), row_values(one)) for one in points), key=itemgetter(0))
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
    positions = sorted({float(one["at"]) for one in points})
    if len(positions) > 1 and positions[0] > 0 and positions[-1] / positions[0] > _LOG_K_RATIO:
        return number_channel(
            "at", _with_ticks(log_range([positions[0], positions[-1]]), positions), title=axis, grid=False
        )
    return number_channel(
        "at", _with_ticks(linear_range([positions[0], positions[-1]]), positions), title=axis, grid=False
    )


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
    along = band_channel(
        "rank", labels, title="rank of the first relevant document", angle=-40 if len(labels) > 12 else 0
    )
    unit = all(map(has_unit_range, valued))
    ends = [end for row in valued for end in row_values(row)]
    up = number_channel(
        "value", linear_range((), within=(0.0, 1.0)) if unit else linear_range(ends, zero=True), title=clean_label(name)
    )
    drawn, ranged, counts = [], [], []
    for label, row in zip(labels, rows, strict=False):
        values, n = row_values(row), row.get("n")
        if n is not None:
            counts.append({"rank": label, "text": f"n {n}"})
        if not values:
            continue
        tip = describe_row(f"rank {label}", values) + ("" if n is None else f", n = {n}")
        drawn.append({"rank": label, "value": values[0], "tip": tip})
        if len(values) == 3:
            ranged.append({"rank": label, "low": values[1], "high": values[2]})
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
