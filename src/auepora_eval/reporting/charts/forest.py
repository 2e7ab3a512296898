"""Differences with their intervals and verdicts; and the same split into retrieval and generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .chart import Chart
from .panels import MOST_ROWS, STEP, TIP, Row, ends_of, first_few, in_words, left_over, panels, text_layer
from .spec import Json, bands, coloured, message_spec, numbers, place, shaped, spec_of, view
from .theme import BAD, GOOD, MUTED, SERIES, TEXT
from .ticks import linear_span
from .words import in_chart, number, shown_number, told, unique_labels

__all__ = ["VERDICTS", "forest_chart", "split_chart"]

VERDICTS: Mapping[str, tuple[str, str]] = {
    "better": ("triangle-up", GOOD),
    "worse": ("triangle-down", BAD),
    "equal": ("square", SERIES[0]),
    "inconclusive": ("circle", MUTED),
    "not tested": ("diamond", MUTED),
}
"""What each verdict looks like."""
_NOT_TESTED = "not tested"
_PARTS = {"retrieval": ("square", SERIES[0]), "generation": ("triangle-up", SERIES[1]), "together": ("circle", MUTED)}


def forest_chart(
    rows: Sequence[Row], *, title: str = "Differences, B − A", names: tuple[str, str] = ("A", "B")
) -> Chart:
    """A difference with its interval and verdict per metric.

    A row has ``name`` and ``delta``, and may have ``low`` and ``high``; ``verdict`` (``better``, ``worse``, ``equal``,
    ``inconclusive``); ``primary``, without which a verdict is not shown; ``group``, ``range``, ``scale`` and ``n`` as
    in ``interval_chart``; and ``note`` in the place of a difference that is not there. ``names`` are those of the runs.
    """
    heading = in_chart(title)
    kept = list(rows[:MOST_ROWS])
    if not kept:
        return Chart(message_spec(heading, "no metric was compared"))
    verdicts = [_verdict(row) for row in kept if ends_of(row, "delta")]
    present = {name: look for name, look in VERDICTS.items() if name in verdicts}
    grouped = panels(kept, "delta")
    views = [
        _panel(members, in_chart(group, longest=80), present, legend=place_ == 0)
        for place_, (group, members) in enumerate(grouped)
    ]
    first, second = (in_chart(name, longest=40) for name in names)
    subtitle = [f"right of zero: {second} has more; the verdict says whether that is better"]
    subtitle += filter(None, [left_over(rows)])
    counts = [f"{verdicts.count(name)} {name}" for name in present]
    listed = first_few(
        [
            f"{in_words(in_chart(row.get('name', '')), ends_of(row, 'delta'), signed=True)}, {_verdict(row)}"
            for row in kept
            if ends_of(row, "delta")
        ],
        "metric",
    )
    text = told([f"{second} against {first}: {', '.join(counts) or 'nothing could be compared'}", listed])
    return Chart(spec_of(views, title=heading, description=text, subtitle=subtitle))


def _verdict(row: Row) -> str:
    verdict = str(row.get("verdict") or _NOT_TESTED)
    return verdict if verdict in VERDICTS and row.get("primary", True) else _NOT_TESTED


def _panel(rows: Sequence[Row], title: str, present: Mapping[str, tuple[str, str]], *, legend: bool) -> Json:
    labels = unique_labels(row.get("name", "") for row in rows)
    span = linear_span([end for row in rows for end in ends_of(row, "delta")], zero=True)
    across, along = bands("name", labels), numbers("delta", span)
    drawn: list[Json] = []
    missing: list[Json] = []
    for label, row in zip(labels, rows, strict=True):
        ends = ends_of(row, "delta")
        if not ends:
            missing.append({"name": label, "text": in_chart(row.get("note") or "not compared", longest=60)})
            continue
        verdict = _verdict(row)
        sign = "+" if ends[0] > 0 else ""
        words = f"{sign}{shown_number(ends[0])}" + ("" if verdict == _NOT_TESTED else f" {verdict}")
        tip = f"{in_words(label, ends, signed=True)}, {verdict}" + (f", n = {row['n']}" if "n" in row else "")
        low, high = (ends[1], ends[2]) if len(ends) == 3 else (ends[0], ends[0])
        drawn.append(
            {"name": label, "delta": ends[0], "low": low, "high": high, "verdict": verdict, "text": words, "tip": tip}
        )
    colours = coloured("verdict", {name: look[1] for name, look in present.items()}, shown=legend)
    shapes = shaped("verdict", {name: look[0] for name, look in present.items()}, shown=legend)
    layers = _with_zero(drawn, along, across, colours, shapes)
    layers.append(text_layer(drawn, {"value": "width"}, across, colour=TEXT, dx=10))
    if missing:
        layers.append(text_layer(missing, {"value": 0}, across, colour=MUTED, dx=4))
    return view(layers, height=STEP * len(rows), title=title)


def _with_zero(drawn: Sequence[Json], along: Json, across: Json, colours: Json, shapes: Json) -> list[Json]:
    """A line at zero, intervals, and points on them."""
    zero = {"type": "rule", "color": MUTED, "strokeWidth": 1}
    intervals: Json = {
        "x": place(along, "low"),
        "x2": {"field": "high"},
        "y": across,
        "color": colours,
    }
    values: Json = {"x": along, "y": across, "color": colours, "shape": shapes, "tooltip": TIP}
    lines, points = {"type": "rule", "strokeWidth": 2}, {"type": "point", "filled": True, "opacity": 1, "size": 80}
    ranged = [row for row in drawn if row["low"] != row["high"]]
    return [
        {"data": {"values": [{"delta": 0}]}, "mark": zero, "encoding": {"x": along}},
        {"data": {"values": ranged}, "mark": lines, "encoding": intervals},
        {"data": {"values": list(drawn)}, "mark": points, "encoding": values},
    ]


def split_chart(rows: Sequence[Row], *, title: str = "Where the difference comes from") -> Chart:
    """Each metric's difference, and the parts of it that came from other documents and from another generator.

    A row has ``name``, and ``retrieval``, ``generation`` and ``delta``: a number each, or ``{value, low, high}``.
    """
    heading = in_chart(title)
    kept = list(rows[:40])
    if not kept:
        return Chart(message_spec(heading, "no difference was split"))
    views, told_parts = [], []
    for number_, row in enumerate(kept):
        parts = {part: _part(row.get("delta" if part == "together" else part)) for part in _PARTS}
        label = in_chart(row.get("name", ""), longest=80)
        views.append(_split_panel(label, parts, legend=number_ == 0))
        amounts = [f"{part} {_signed(one['value'])}" for part, one in parts.items() if number(one["value"]) is not None]
        told_parts.append(f"{label}: {', '.join(amounts) or 'no value'}")
    more = [f"{len(rows) - len(kept)} more metrics not drawn"] if len(rows) > len(kept) else []
    text = told([first_few(told_parts, "metric"), *more])
    return Chart(spec_of(views, title=heading, description=text, subtitle=more))


def _part(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {"value": given}


def _split_panel(label: str, parts: Mapping[str, Mapping[str, Any]], *, legend: bool) -> Json:
    rows = [{"name": part, **one} for part, one in parts.items()]
    span = linear_span([end for row in rows for end in ends_of(row)], zero=True)
    across, along = bands("name", list(_PARTS)), numbers("delta", span)
    drawn, missing = [], []
    for row in rows:
        ends = ends_of(row)
        if not ends:
            missing.append({"name": row["name"], "text": "no value"})
            continue
        low, high = (ends[1], ends[2]) if len(ends) == 3 else (ends[0], ends[0])
        tip = in_words(f"{label}, {row['name']}", ends, signed=True)
        drawn.append(
            {"name": row["name"], "delta": ends[0], "low": low, "high": high, "text": _signed(ends[0]), "tip": tip}
        )
    colours = coloured("name", {name: look[1] for name, look in _PARTS.items()}, shown=False)
    shapes = shaped("name", {name: look[0] for name, look in _PARTS.items()}, shown=False)
    layers = _with_zero(drawn, along, across, colours, shapes)
    layers.append(text_layer(drawn, {"value": "width"}, across, colour=TEXT, dx=10))
    if missing:
        layers.append(text_layer(missing, {"value": 0}, across, colour=MUTED, dx=4))
    return view(layers, height=STEP * len(_PARTS), title=label)


def _signed(value: Any) -> str:
    found = number(value)
    return "no value" if found is None else f"{'+' if found > 0 else ''}{shown_number(found)}"
