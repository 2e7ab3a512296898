"""Lines with bands: metrics over the cut-off k, over noise, and answers over the rank of the first hit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .chart import Chart
from .panels import TIP, Row, ends_of, first_few, in_words, is_unit
from .spec import Json, bands, coloured, dashed, message_spec, numbers, place, shaped, spec_of, view
from .theme import DASHES, MUTED, SERIES, SHAPES
from .ticks import Span, linear_span, log_span
from .words import in_chart, number, shown_number, told, unique_labels

__all__ = ["curve_over_k", "noise_curve", "quality_by_rank"]

Curves = Mapping[str, Sequence[Row]]
MOST_LINES = 8
MOST_POINTS = 400
"""So many points of a line are drawn, evenly chosen."""
_HEIGHT = 220.0
_APART = 20


def curve_over_k(curves: Curves, *, title: str = "Retrieval over the cut-off k", axis: str = "k") -> Chart:
    """A line per name over k: points have ``k`` and ``value``, and may have ``low`` and ``high``."""
    return _lines_chart(
        {name: [{**one, "at": one.get("k")} for one in points] for name, points in curves.items()}, title, axis
    )


def noise_curve(
    curves: Curves, *, title: str = "Metrics as noise grows", axis: str = "rate", scaled: Collection[str] = ()
) -> Chart:
    """A line per metric over what is made worse: points have ``level`` (a rate, or the name of an arm) and ``value``.

    ``low`` and ``high`` are as elsewhere. Metrics in ``scaled`` stand on an axis of their own.
    """
    return _lines_chart(
        {name: [{**one, "at": one.get("level")} for one in points] for name, points in curves.items()},
        title,
        axis,
        scaled,
    )


def _lines_chart(curves: Curves, title: str, axis: str, scaled: Collection[str] = ()) -> Chart:
    heading = in_chart(title)
    names = list(curves)[: 2 * MOST_LINES]
    labels = dict(zip(names, unique_labels(names), strict=True))
    groups: dict[str, list[str]] = {}
    empty = []
    for name in names:
        valued = [one for one in curves[name] if ends_of(one) and one["at"] is not None]
        if not valued:
            empty.append(labels[name])
            continue
        unit = name not in scaled and all(map(is_unit, valued))
        groups.setdefault("" if unit else name, []).append(name)
    if not groups:
        return Chart(message_spec(heading, "no point of a line has a value"))
    views, parts = [], []
    for group, members in groups.items():
        for start in range(0, len(members), MOST_LINES):
            chosen = {labels[name]: curves[name] for name in members[start : start + MOST_LINES]}
            views.append(_lines(chosen, in_chart(axis), own=bool(group)))
    for name in names:
        valued = [one for one in curves[name] if ends_of(one)]
        if valued:
            first, last = valued[0], valued[-1]
            parts.append(
                f"{labels[name]} {shown_number(ends_of(first)[0])} at {_level(first['at'])} and "
                f"{shown_number(ends_of(last)[0])} at {_level(last['at'])}"
            )
    more = [f"{len(curves) - len(names)} more lines not drawn"] if len(curves) > len(names) else []
    more += [f"no value: {', '.join(empty)}"] if empty else []
    return Chart(spec_of(views, title=heading, description=told([first_few(parts, "line"), *more]), subtitle=more))


def _level(at: Any) -> str:
    found = number(at)
    return in_chart(at) if found is None else f"{found:g}"


def _lines(curves: Mapping[str, Sequence[Row]], axis: str, *, own: bool) -> Json:
    every = [one for points in curves.values() for one in points if one["at"] is not None]
    named = any(number(one["at"]) is None for one in every)
    along = _named_axis(every, axis) if named else _number_axis(every, axis)
    ends = [end for one in every for end in ends_of(one)]
    span = linear_span(ends, zero=True) if own else linear_span((), within=(0.0, 1.0))
    up = numbers("value", span)
    rows, ranged = [], []
    for label, points in curves.items():
        for one in _in_order(points, named):
            found = ends_of(one["row"])
            at = _level(one["row"]["at"]) if named else number(one["row"]["at"])
            row = {"at": at, "value": found[0], "line": label, "part": f"{label} {one['part']}"}
            rows.append({**row, "tip": in_words(f"{label} at {_level(at)}", found)})
            if len(found) == 3:
                ranged.append({**row, "low": found[1], "high": found[2]})
    colours = {label: SERIES[place_ % len(SERIES)] for place_, label in enumerate(curves)}
    dashes = {label: DASHES[place_ % len(DASHES)] for place_, label in enumerate(curves)}
    shapes = {label: SHAPES[place_ % len(SHAPES)] for place_, label in enumerate(curves)}
    legend = len(curves) > 1
    colour, part = coloured("line", colours, shown=legend), {"field": "part", "type": "nominal"}
    banded: Json = {
        "x": along,
        "y": place(up, "low"),
        "y2": {"field": "high"},
        "color": {**colour, "legend": None},
        "detail": part,
    }
    line: Json = {
        "x": along,
        "y": up,
        "color": colour,
        "strokeDash": dashed("line", dashes, shown=legend),
        "detail": part,
    }
    point: Json = {"x": along, "y": up, "color": colour, "shape": shaped("line", shapes, shown=legend), "tooltip": TIP}
    lone = named or len({row["at"] for row in rows}) < 2
    band = {"type": "rule", "strokeWidth": 1.5, "opacity": 0.5} if lone else {"type": "area", "opacity": 0.13}
    if lone:
        del banded["detail"]
    layers: list[Json] = [{"data": {"values": ranged}, "mark": band, "encoding": banded}] if ranged else []
    if not lone or not named:
        layers.append({"data": {"values": rows}, "mark": {"type": "line", "strokeWidth": 2}, "encoding": line})
    marks = {"type": "point", "filled": True, "opacity": 1, "size": 45}
    layers.append({"data": {"values": rows}, "mark": marks, "encoding": point})
    title = next(iter(curves)) if len(curves) == 1 else ""
    return view(layers, height=_HEIGHT, title=title)


def _in_order(points: Sequence[Row], named: bool) -> list[dict[str, Any]]:
    """The points with a value, by where they stand; a gap begins another part of the line."""
    placed = [one for one in points if one["at"] is not None]
    if not named:
        placed = sorted(
            (one for one in placed if number(one["at"]) is not None), key=lambda one: number(one["at"]) or 0.0
        )
    if len(placed) > MOST_POINTS:
        placed = [placed[round(i * (len(placed) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]
    found, part = [], 0
    for one in placed:
        if ends_of(one):
            found.append({"row": one, "part": part})
        else:
            part += 1
    return found


def _number_axis(points: Sequence[Row], axis: str) -> Json:
    places = sorted({found for one in points if (found := number(one["at"])) is not None})
    if len(places) > 1 and places[0] > 0 and places[-1] / places[0] > _APART:
        return numbers("at", _ticked(log_span([places[0], places[-1]]), places), title=axis, grid=False)
    return numbers("at", _ticked(linear_span([places[0], places[-1]]), places), title=axis, grid=False)


def _ticked(span: Span, places: Sequence[float]) -> Span:
    """The span with a tick at every place, where those are few."""
    if len(places) > 8 or (
        len(places) > 1 and min(map(float.__sub__, places[1:], places)) * 15 < places[-1] - places[0] and not span.log
    ):
        return span
    return Span(span.low, span.high, tuple(places), "~g", span.log)


def _named_axis(points: Sequence[Row], axis: str) -> Json:
    labels = list(dict.fromkeys(_level(one["at"]) for one in points))
    slanted = max(map(len, labels)) * len(labels) > 60
    return bands("at", labels, title=axis, angle=-40 if slanted else 0)


def quality_by_rank(rows: Sequence[Row], name: str, *, title: str | None = None) -> Chart:
    """How good answers are, by the rank at which the first relevant document stands.

    A row has ``rank`` (a number, a range such as ``6–10``, or ``none``), ``value``, ``low``, ``high`` and ``n``.
    """
    heading = in_chart(title or f"{name} by the rank of the first relevant document")
    valued = [row for row in rows[:60] if ends_of(row)]
    if not valued:
        return Chart(message_spec(heading, "no answer has both a score and a rank"))
    labels = unique_labels(row.get("rank", "") for row in rows[:60])
    along = bands("rank", labels, title="rank of the first relevant document", angle=-40 if len(labels) > 12 else 0)
    unit = all(map(is_unit, valued))
    ends = [end for row in valued for end in ends_of(row)]
    up = numbers(
        "value", linear_span((), within=(0.0, 1.0)) if unit else linear_span(ends, zero=True), title=in_chart(name)
    )
    drawn, ranged, counts = [], [], []
    for label, row in zip(labels, rows, strict=False):
        found, n = ends_of(row), row.get("n")
        if n is not None:
            counts.append({"rank": label, "text": f"n {n}"})
        if not found:
            continue
        tip = in_words(f"rank {label}", found) + ("" if n is None else f", n = {n}")
        drawn.append({"rank": label, "value": found[0], "tip": tip})
        if len(found) == 3:
            ranged.append({"rank": label, "low": found[1], "high": found[2]})
    interval = {"x": along, "y": place(up, "low"), "y2": {"field": "high"}}
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
            "encoding": {"x": along, "y": up, "tooltip": TIP},
        },
        {
            "data": {"values": counts},
            "mark": text,
            "encoding": {"x": along, "y": {"value": 0}, "text": {"field": "text", "type": "nominal"}},
        },
    ]
    description = told([first_few([str(row["tip"]) for row in drawn], "rank")])
    return Chart(spec_of([view(layers, height=180.0)], title=heading, description=description))
