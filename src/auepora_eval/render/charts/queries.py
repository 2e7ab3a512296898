"""Charts of two runs query by query, and of the causes of wrong answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from ...core.grouping import group_pairs
from .chart import (
    MAX_ROWS,
    TOOLTIP,
    Chart,
    Json,
    Row,
    band_channel,
    build_spec,
    colour_channel,
    list_first,
    message_spec,
    number_channel,
    omitted_rows_note,
    style_channel,
    symbol_channels,
    text_layer,
    view,
    with_field,
)
from .layout import (
    BAD,
    GOOD,
    MUTED,
    SERIES,
    TEXT,
    AxisRange,
    clean_label,
    describe,
    finite_number,
    format_number,
    linear_range,
    pluralize,
    unique_labels,
)

MAX_POINTS = 2000
"""Beyond this number of queries a heatmap replaces the points."""
_PLOT_SIZE = 320.0
_GRID_SIZE = 25
_MAX_LISTED_IDS = 5
_ROW_HEIGHT = 26.0


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
    """A point per query: its score in run A on the x axis, in run B on the y axis. On the dashed line they are equal.

    Queries at one position are one larger point. With ``links`` a point links to ``#q/<id>``, where a report shows the
    query. More than 2,000 queries become a heatmap.
    """
    heading = clean_label(title or f"{name}, query by query")
    pairs = [
        (x, y, sample_id)
        for x, y, sample_id in zip(map(finite_number, a), map(finite_number, b), ids, strict=True)
        if x is not None and y is not None
    ]
    if not pairs:
        return Chart(message_spec(heading, "no query has a score in both runs"))
    values = np.array([[x, y] for x, y, _ in pairs])
    inside = bool(values.min() >= 0 and values.max() <= 1)
    span = linear_range((), within=(0.0, 1.0)) if inside else linear_range([float(values.min()), float(values.max())])
    first, second = (clean_label(name, longest=40) for name in names)
    sides = _point_styles(first, second, higher_is_better)
    counts = [int((values[:, 1] > values[:, 0]).sum()), int((values[:, 1] < values[:, 0]).sum())]
    about = (
        f"{pluralize(len(pairs), 'query', 'queries')}: {second} higher on {counts[0]:,}, {first} on {counts[1]:,}, "
        f"the same on {len(pairs) - sum(counts):,}"
    )
    without = len(ids) - len(pairs)
    left_out = f"{without:,} without a score in both runs" if without else ""
    along, up = (
        number_channel("a", span, title=f"{name}, {first}"),
        number_channel("b", span, title=f"{name}, {second}"),
    )
    for channel in (along, up):
        channel["axis"]["title"] = clean_label(channel["axis"]["title"])
    line = {
        "data": {"values": [{"a": span.low, "b": span.low, "a2": span.high, "b2": span.high}]},
        "mark": {"type": "rule", "color": MUTED, "strokeDash": [4, 3]},
        "encoding": {"x": along, "y": up, "x2": {"field": "a2"}, "y2": {"field": "b2"}},
    }
    several = len(pairs) > MAX_POINTS
    marks = _heatmap_layer(values, span, along, up) if several else _point_layer(pairs, along, up, sides, links=links)
    chart_view = view([marks, line] if several else [line, marks], height=_PLOT_SIZE, width=_PLOT_SIZE)
    subtitle = [about, *filter(None, [left_out])]
    return Chart(build_spec([chart_view], title=heading, description=describe(subtitle), subtitle=subtitle))


def _point_styles(first: str, second: str, higher_is_better: bool) -> dict[str, tuple[str, str]]:
    """The label, shape and colour of points above, below and on the line."""
    above, below = (second, first) if higher_is_better else (first, second)
    good, bad = ("triangle-up", GOOD), ("triangle-down", BAD)
    looks = (good, bad) if higher_is_better else (bad, good)
    labels = unique_labels([f"{above} better", f"{below} better", "the same"])
    return dict(zip(labels, (*looks, ("circle", MUTED)), strict=True))


def _point_layer(
    pairs: Sequence[tuple[float, float, str]],
    along: Json,
    up: Json,
    sides: dict[str, tuple[str, str]],
    *,
    links: bool,
) -> Json:
    above, below, same = sides
    rows: list[Json] = []
    for (x, y), members in group_pairs(((x, y), sample_id) for x, y, sample_id in pairs).items():
        who = ", ".join(clean_label(member, longest=60) for member in members[:_MAX_LISTED_IDS])
        if len(members) > _MAX_LISTED_IDS:
            who = f"{len(members):,} queries: {who}, …"
        row: Json = {
            "a": x,
            "b": y,
            "side": above if y > x else below if y < x else same,
            "size": round(30 + 18 * len(members) ** 0.7, 1),
            "tip": f"{who}: {format_number(x)} and {format_number(y)}",
        }
        rows.append({**row, "href": f"#q/{quote(members[0], safe='', errors='replace')}"} if links else row)
    encoding: Json = {
        "x": along,
        "y": up,
        **symbol_channels("side", sides),
        "size": {"field": "size", "type": "quantitative", "scale": None, "legend": None},
        "tooltip": TOOLTIP,
    }
    if links:
        encoding["href"] = {"field": "href", "type": "nominal"}
    mark = {"type": "point", "filled": True, "opacity": 0.7}
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _heatmap_layer(values: npt.NDArray[np.float64], span: AxisRange, along: Json, up: Json) -> Json:
    edges = np.linspace(span.low, span.high, _GRID_SIZE + 1)
    counts, _, _ = np.histogram2d(values[:, 0], values[:, 1], bins=[edges, edges])
    cell_counts = np.sort(counts[counts > 0])
    limits = sorted(
        {
            int(cell_counts[min(len(cell_counts) - 1, round(share * (len(cell_counts) - 1)))])
            for share in (0.5, 0.8, 0.95, 1.0)
        }
    )
    names = [
        f"{low + 1:,}–{high:,} queries" if high > low + 1 else f"{high:,} {'query' if high == 1 else 'queries'}"
        for low, high in zip([0, *limits[:-1]], limits, strict=True)
    ]
    rows = []
    for x, y in np.argwhere(counts > 0).tolist():
        level = next(index for index, limit in enumerate(limits) if counts[x, y] <= limit)
        row = {"a": float(edges[x]), "a2": float(edges[x + 1]), "b": float(edges[y]), "b2": float(edges[y + 1])}
        rows.append({**row, "count": names[level], "tip": f"{int(counts[x, y]):,} queries"})
    levels = (0.25, 0.45, 0.7, 1.0)[-len(names) :]
    opacity = style_channel("count", dict(zip(names, levels, strict=True)), kind="ordinal")
    encoding = {
        "x": along,
        "x2": {"field": "a2"},
        "y": up,
        "y2": {"field": "b2"},
        "opacity": opacity,
        "tooltip": TOOLTIP,
    }
    return {"data": {"values": rows}, "mark": {"type": "rect", "color": SERIES[0]}, "encoding": encoding}


def wins_losses_chart(
    rows: Sequence[Row], *, names: tuple[str, str] = ("A", "B"), title: str = "Wins and losses, query by query"
) -> Chart:
    """How many queries run B won (to the right) and lost (to the left).

    A row has ``name``, ``wins``, ``losses`` and ``draws``, and may have ``regressions``: queries that were hit before
    and are not any more, shown separately from losses.
    """
    heading = clean_label(title)
    kept = list(rows[:MAX_ROWS])
    if not kept:
        return Chart(message_spec(heading, "no query was compared"))
    labels = unique_labels(row.get("name", "") for row in kept)
    first, second = (clean_label(name, longest=40) for name in names)
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
    most = max([1, *(abs(bar["at"]) for bar in [*left, *right])])
    # Room for the numbers beyond the bars.
    along = number_channel("from", AxisRange(-1.35 * most, 1.35 * most, (0.0,), "d"), labels=False)
    across = band_channel("name", labels)
    encoding: Json = {
        "x": along,
        "x2": {"field": "to"},
        "y": across,
        "color": colour_channel("side", shown),
        "tooltip": TOOLTIP,
    }
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
    more = [omitted_rows_note(rows)] if omitted_rows_note(rows) else []
    text = describe([f"{second} against {first}", list_first(parts, "row"), *more])
    chart_view = view(layers, height=_ROW_HEIGHT * len(kept))
    return Chart(build_spec([chart_view], title=heading, description=text, subtitle=more))


def _count(value: object) -> int:
    number = finite_number(value)
    return 0 if number is None else int(number)


# --- causes of wrong answers: a bar per cause ------------------------------------------------------------------------

_MAX_CAUSES = 40


def causes_chart(shares: Mapping[str, Any], *, title: str = "Why answers were wrong") -> Chart:
    """A bar per cause, in the order given.

    Each has a count, a proportion between 0 and 1, or ``{count, share, low, high}`` of which any may be missing. Where
    all counts are known, proportions follow from them.
    """
    heading = clean_label(title)
    shown_causes = dict(list(shares.items())[:_MAX_CAUSES])
    parts = {
        name: dict(cause) if isinstance(cause, Mapping) else _bare_number(cause) for name, cause in shown_causes.items()
    }
    total = sum(finite_number(part.get("count")) or 0.0 for part in parts.values())
    rows: list[Json] = []
    for label, part in zip(unique_labels(parts), parts.values(), strict=True):
        count, share = finite_number(part.get("count")), finite_number(part.get("share"))
        if share is None and count is not None and total > 0:
            share = count / total
        if share is None:
            continue
        words = f"{share:.0%}" if count is None else f"{count:,.0f} ({share:.0%})"
        low, high = finite_number(part.get("low")), finite_number(part.get("high"))
        row: Json = {"cause": label, "share": share, "zero": 0, "text": words, "tip": f"{label}: {words}"}
        rows.append(row if low is None or high is None else {**row, "low": low, "high": high})
    if not rows:
        return Chart(message_spec(heading, "no wrong answer has a known cause"))
    ends = [row[key] for row in rows for key in ("share", "high") if key in row]
    span = linear_range([0.0, *ends], zero=True)
    along = number_channel("share", AxisRange(span.low, span.high, span.ticks, span.tick_format), title="share")
    across = band_channel("cause", [row["cause"] for row in rows])
    bar: Json = {"x": along, "x2": {"field": "zero"}, "y": across, "tooltip": TOOLTIP}
    layers: list[Json] = [
        {"data": {"values": rows}, "mark": {"type": "bar", "color": SERIES[0], "opacity": 0.75}, "encoding": bar}
    ]
    ranged = [row for row in rows if "low" in row]
    if ranged:
        interval = {"x": with_field(along, "low"), "x2": {"field": "high"}, "y": across}
        rule = {"type": "rule", "color": TEXT, "strokeWidth": 1.5}
        layers.append({"data": {"values": ranged}, "mark": rule, "encoding": interval})
    layers.append(text_layer(rows, {"value": "width"}, across, colour=TEXT, dx=10))
    text = describe([list_first([row["tip"] for row in rows], "cause", most=10)])
    return Chart(build_spec([view(layers, height=_ROW_HEIGHT * len(rows))], title=heading, description=text))


def _bare_number(value: Any) -> dict[str, Any]:
    """A bare number: a proportion where it is a float between 0 and 1, else a count."""
    number = finite_number(value)
    is_proportion = number is not None and not isinstance(value, int) and 0 <= number <= 1
    return {"share": number} if is_proportion else {"count": number}
