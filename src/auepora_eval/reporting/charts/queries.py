"""Two runs query by query: each query's two scores, and how many were won and lost."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from .chart import Chart
from .panels import MOST_ROWS, TIP, Row, first_few, left_over, text_layer
from .spec import Json, bands, coloured, faded, message_spec, numbers, shaped, spec_of, view
from .theme import BAD, GOOD, MUTED, SERIES
from .ticks import Span, linear_span
from .words import counted, in_chart, number, shown_number, told, unique_labels

__all__ = ["MOST_POINTS", "scatter_chart", "wins_losses_chart"]

MOST_POINTS = 2000
"""Beyond so many queries they are counted in squares."""
_SIDE = 320.0
_SQUARES = 25
_LEVELS = (0.25, 0.45, 0.7, 1.0)
_NAMED = 5
_STEP = 26.0


def scatter_chart(
    a: Sequence[float | None],
    b: Sequence[float | None],
    ids: Sequence[str],
    *,
    name: str = "score",
    names: tuple[str, str] = ("A", "B"),
    higher_is_better: bool = True,
    links: bool = False,
    title: str | None = None,
) -> Chart:
    """A point per query: its score in run A to the right, in run B upwards. On the dashed line both are the same.

    Queries at one place are one larger point. With ``links`` a point leads to ``#q/<id>``, where a report shows the
    query. More than 2,000 queries are counted in squares.
    """
    heading = in_chart(title or f"{name}, query by query")
    pairs = [
        (x, y, one)
        for x, y, one in zip(map(number, a), map(number, b), ids, strict=True)
        if x is not None and y is not None
    ]
    if not pairs:
        return Chart(message_spec(heading, "no query has a score in both runs"))
    values = np.array([[x, y] for x, y, _ in pairs])
    inside = bool(values.min() >= 0 and values.max() <= 1)
    span = linear_span((), within=(0.0, 1.0)) if inside else linear_span([float(values.min()), float(values.max())])
    first, second = (in_chart(one, longest=40) for one in names)
    sides = _sides(first, second, higher_is_better)
    counts = [int((values[:, 1] > values[:, 0]).sum()), int((values[:, 1] < values[:, 0]).sum())]
    about = (
        f"{counted(len(pairs), 'query', 'queries')}: {second} higher on {counts[0]:,}, {first} on {counts[1]:,}, "
        f"the same on {len(pairs) - sum(counts):,}"
    )
    without = len(ids) - len(pairs)
    left_out = f"{without:,} without a score in both runs" if without else ""
    along, up = numbers("a", span, title=f"{name}, {first}"), numbers("b", span, title=f"{name}, {second}")
    for channel in (along, up):
        channel["axis"]["title"] = in_chart(channel["axis"]["title"])
    line = {
        "data": {"values": [{"a": span.low, "b": span.low, "a2": span.high, "b2": span.high}]},
        "mark": {"type": "rule", "color": MUTED, "strokeDash": [4, 3]},
        "encoding": {"x": along, "y": up, "x2": {"field": "a2"}, "y2": {"field": "b2"}},
    }
    several = len(pairs) > MOST_POINTS
    marks = _squares(values, span, along, up) if several else _points(pairs, along, up, sides, links=links)
    made = view([marks, line] if several else [line, marks], height=_SIDE, width=_SIDE)
    subtitle = [about, *filter(None, [left_out])]
    return Chart(spec_of([made], title=heading, description=told(subtitle), subtitle=subtitle))


def _sides(first: str, second: str, higher_is_better: bool) -> dict[str, tuple[str, str]]:
    """What a point above the line, below it and on it means, and looks like."""
    above, below = (second, first) if higher_is_better else (first, second)
    good, bad = ("triangle-up", GOOD), ("triangle-down", BAD)
    looks = (good, bad) if higher_is_better else (bad, good)
    labels = unique_labels([f"{above} better", f"{below} better", "the same"])
    return dict(zip(labels, (*looks, ("circle", MUTED)), strict=True))


def _points(
    pairs: Sequence[tuple[float, float, str]],
    along: Json,
    up: Json,
    sides: dict[str, tuple[str, str]],
    *,
    links: bool,
) -> Json:
    above, below, same = sides
    places: dict[tuple[float, float], list[str]] = {}
    for x, y, one in pairs:
        places.setdefault((x, y), []).append(one)
    rows: list[Json] = []
    for (x, y), members in places.items():
        who = ", ".join(in_chart(one, longest=60) for one in members[:_NAMED])
        if len(members) > _NAMED:
            who = f"{len(members):,} queries: {who}, …"
        row: Json = {
            "a": x,
            "b": y,
            "side": above if y > x else below if y < x else same,
            "size": round(30 + 18 * len(members) ** 0.7, 1),
            "tip": f"{who}: {shown_number(x)} and {shown_number(y)}",
        }
        rows.append({**row, "href": f"#q/{quote(members[0], safe='', errors='replace')}"} if links else row)
    encoding: Json = {
        "x": along,
        "y": up,
        "color": coloured("side", {name: look[1] for name, look in sides.items()}),
        "shape": shaped("side", {name: look[0] for name, look in sides.items()}),
        "size": {"field": "size", "type": "quantitative", "scale": None, "legend": None},
        "tooltip": TIP,
    }
    if links:
        encoding["href"] = {"field": "href", "type": "nominal"}
    mark = {"type": "point", "filled": True, "opacity": 0.7}
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _squares(values: npt.NDArray[np.float64], span: Span, along: Json, up: Json) -> Json:
    edges = np.linspace(span.low, span.high, _SQUARES + 1)
    counts, _, _ = np.histogram2d(values[:, 0], values[:, 1], bins=[edges, edges])
    held = np.sort(counts[counts > 0])
    limits = sorted({int(held[min(len(held) - 1, round(share * (len(held) - 1)))]) for share in (0.5, 0.8, 0.95, 1.0)})
    names = [
        f"{low + 1:,}–{high:,} queries" if high > low + 1 else f"{high:,} {'query' if high == 1 else 'queries'}"
        for low, high in zip([0, *limits[:-1]], limits, strict=True)
    ]
    rows = []
    for x, y in np.argwhere(counts > 0).tolist():
        level = next(place for place, limit in enumerate(limits) if counts[x, y] <= limit)
        row = {"a": float(edges[x]), "a2": float(edges[x + 1]), "b": float(edges[y]), "b2": float(edges[y + 1])}
        rows.append({**row, "count": names[level], "tip": f"{int(counts[x, y]):,} queries"})
    levels = _LEVELS[-len(names) :]
    opacity = faded("count", dict(zip(names, levels, strict=True)))
    encoding = {
        "x": along,
        "x2": {"field": "a2"},
        "y": up,
        "y2": {"field": "b2"},
        "opacity": opacity,
        "tooltip": TIP,
    }
    return {"data": {"values": rows}, "mark": {"type": "rect", "color": SERIES[0]}, "encoding": encoding}


def wins_losses_chart(
    rows: Sequence[Row], *, names: tuple[str, str] = ("A", "B"), title: str = "Wins and losses, query by query"
) -> Chart:
    """How many queries run B won (to the right) and lost (to the left).

    A row has ``name``, ``wins``, ``losses`` and ``draws``, and may have ``regressions``: queries that were found before
    and are not any more, which are told apart from losses.
    """
    heading = in_chart(title)
    kept = list(rows[:MOST_ROWS])
    if not kept:
        return Chart(message_spec(heading, "no query was compared"))
    labels = unique_labels(row.get("name", "") for row in kept)
    first, second = (in_chart(one, longest=40) for one in names)
    won, lost, gone = unique_labels([f"{second} better", f"{second} worse", "not found any more"])
    bars: list[Json] = []
    left: list[Json] = []
    right: list[Json] = []
    parts = []
    for label, row in zip(labels, kept, strict=True):
        wins, losses, draws, regressions = (_count(row.get(key)) for key in ("wins", "losses", "draws", "regressions"))
        spans = [(won, 0, wins), (lost, -losses, 0), (gone, -losses - regressions, -losses)]
        bars += [
            {"name": label, "from": low, "to": high, "side": side, "tip": f"{label}: {high - low:,} {side}"}
            for side, low, high in spans
            if high > low
        ]
        text = f"{losses:,} + {regressions:,} gone" if regressions else f"{losses:,}"
        left.append({"name": label, "at": -losses - regressions, "text": text})
        right.append({"name": label, "at": wins, "text": f"{wins:,} · {draws:,} the same"})
        parts.append(f"{label}: {wins:,} won, {losses + regressions:,} lost, {draws:,} the same")
    shown = {won: GOOD, lost: BAD, **({gone: SERIES[3]} if any(bar["side"] == gone for bar in bars) else {})}
    most = max([1, *(abs(one["at"]) for one in [*left, *right])])
    # Room for the numbers beyond the bars.
    along = numbers("from", Span(-1.35 * most, 1.35 * most, (0.0,), "d"), labels=False)
    across = bands("name", labels)
    encoding: Json = {"x": along, "x2": {"field": "to"}, "y": across, "color": coloured("side", shown), "tooltip": TIP}
    layers: list[Json] = [
        {"data": {"values": bars}, "mark": {"type": "bar", "opacity": 0.85}, "encoding": encoding},
        {
            "data": {"values": [{"from": 0}]},
            "mark": {"type": "rule", "color": MUTED},
            "encoding": {"x": along},
        },
        text_layer(left, {**along, "field": "at"}, across, colour=MUTED, dx=-6, align="right"),
        text_layer(right, {**along, "field": "at"}, across, colour=MUTED, dx=6),
    ]
    more = [left_over(rows)] if left_over(rows) else []
    text = told([f"{second} against {first}", first_few(parts, "row"), *more])
    made = view(layers, height=_STEP * len(kept))
    return Chart(spec_of([made], title=heading, description=text, subtitle=more))


def _count(value: object) -> int:
    found = number(value)
    return 0 if found is None else int(found)
