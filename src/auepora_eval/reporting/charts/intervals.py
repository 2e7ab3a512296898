"""Values with their intervals: a dot and a line per metric, metrics of one kind on one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .chart import Chart
from .spec import Json, bands, dashed, message_spec, numbers, place, spec_of, view
from .theme import MUTED, SERIES, TEXT
from .ticks import Span, linear_span
from .words import counted, in_chart, number, shown_number, told, unique_labels

__all__ = ["MOST_ROWS", "interval_chart", "slices_chart"]

MOST_ROWS = 200
"""So many rows are drawn; of more, the rest is told as a number."""
_STEP = 22.0
_SURE, _UNSURE = "95 % interval", "few or skewed samples: may be too narrow"
_NO_VALUE = "no value"
Row = Mapping[str, Any]


def interval_chart(rows: Sequence[Row], *, title: str = "Scores with 95 % intervals") -> Chart:
    """A dot and an interval per row, grouped.

    A row has ``name`` and ``value``, and may have ``low`` and ``high``; ``group``, under which it stands; ``range``,
    the two ends that its metric can reach (without it, values between 0 and 1 are taken to be of that range);
    ``scale``, a name that rows on one axis share; ``doubt``, where the interval may claim too much; ``note`` in the place of a
    value that is not there; and ``n``. What has no value is said, not drawn.
    """
    kept = list(rows[:MOST_ROWS])
    if not kept:
        return Chart(message_spec(title, "there are no results"))
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in kept:
        panels.setdefault((str(row.get("group") or ""), _scale_name(row)), []).append(row)
    views, before = [], None
    for (group, _), members in panels.items():
        heading = in_chart(group, longest=80) if group and group != before else None
        views.append(_panel(members, heading))
        before = group
    valued = [row for row in kept if number(row.get("value")) is not None]
    parts = [
        _listed(kept),
        f"{len(kept) - len(valued)} of {len(kept)} have no value" if len(valued) < len(kept) else "",
    ]
    more = f"and {counted(len(rows) - len(kept), 'row')} more that are not drawn" if len(rows) > len(kept) else ""
    return Chart(
        spec_of(views, title=in_chart(title), description=told([*parts, more]), subtitle=[more] if more else ())
    )


def slices_chart(rows: Sequence[Row], name: str, *, whole: float | None = None, title: str | None = None) -> Chart:
    """One metric in every group of every slice.

    Rows have ``slice``, ``group``, ``value`` and what they may have in ``interval_chart``.

    ``whole`` is the value over all samples, drawn as a line.
    """
    heading = title or f"{in_chart(name)} by slice"
    kept = list(rows[:MOST_ROWS])
    if not kept:
        return Chart(message_spec(heading, "there are no slices"))
    overall = number(whole)
    span = _span(kept, extra=[] if overall is None else [overall])
    views = []
    for one in dict.fromkeys(str(row.get("slice") or "") for row in kept):
        members = [{**row, "name": row.get("group", "")} for row in kept if str(row.get("slice") or "") == one]
        views.append(_panel(members, in_chart(one, longest=80) or None, span=span, whole=overall))
    subtitle = [] if overall is None else [f"the dashed line is the value over all samples, {shown_number(overall)}"]
    if len(rows) > len(kept):
        subtitle.append(f"and {counted(len(rows) - len(kept), 'group')} more that are not drawn")
    text = told([_listed([{**row, "name": f"{row.get('slice')} {row.get('group')}"} for row in kept]), *subtitle])
    return Chart(spec_of(views, title=heading, description=text, subtitle=subtitle))


def _scale_name(row: Row) -> str:
    """Which rows share an axis: those of the range from 0 to 1, else those of one name but for its cut-off."""
    if row.get("scale"):
        return f"scale {row['scale']}"
    return "unit" if _is_unit(row) else str(row.get("name", "")).partition("@")[0]


def _is_unit(row: Row) -> bool:
    given = row.get("range")
    if given is not None:
        return tuple(map(number, given)) == (0.0, 1.0)
    return all(0 <= one <= 1 for one in _ends(row))


def _ends(row: Row) -> list[float]:
    """The numbers of a row that are drawn: none of them where it has no value."""
    value = number(row.get("value"))
    if value is None:
        return []
    low, high = number(row.get("low")), number(row.get("high"))
    return [value] if low is None or high is None else [value, low, high]


def _span(rows: Sequence[Row], extra: Sequence[float] = ()) -> Span:
    ends = [*(end for row in rows for end in _ends(row)), *extra]
    if all(map(_is_unit, rows)) and all(0 <= end <= 1 for end in ends):
        return linear_span((), within=(0.0, 1.0))
    return linear_span(ends, zero=True)


def _panel(rows: Sequence[Row], title: str | None, *, span: Span | None = None, whole: float | None = None) -> Json:
    span = span or _span(rows)
    labels = unique_labels(row.get("name", "") for row in rows)
    across = bands("name", labels)
    along = numbers("value", span)
    drawn, lines, words, missing = [], [], [], []
    for label, row in zip(labels, rows, strict=True):
        ends = _ends(row)
        if not ends:
            missing.append({"name": label, "text": in_chart(row.get("note") or _NO_VALUE, longest=60)})
            continue
        tip = _told(label, row)
        drawn.append({"name": label, "value": ends[0], "tip": tip})
        words.append({"name": label, "text": shown_number(ends[0])})
        if len(ends) == 3:
            sure = _UNSURE if row.get("doubt") else _SURE
            lines.append({"name": label, "low": ends[1], "high": ends[2], "sure": sure, "tip": tip})
    doubtful = any(line["sure"] == _UNSURE for line in lines)
    layers: list[Json] = []
    if whole is not None:
        rule = {"type": "rule", "color": MUTED, "strokeDash": [4, 3]}
        layers.append({"data": {"values": [{"value": whole}]}, "mark": rule, "encoding": {"x": along}})
    if lines:
        encoding: Json = {
            "x": place(along, "low"),
            "x2": {"field": "high"},
            "y": across,
            "tooltip": {"field": "tip", "type": "nominal"},
        }
        if doubtful:
            encoding["strokeDash"] = dashed("sure", {_SURE: [1, 0], _UNSURE: [3, 2]})
        mark = {"type": "rule", "color": SERIES[0], "strokeWidth": 2}
        layers.append({"data": {"values": lines}, "mark": mark, "encoding": encoding})
    points = {"type": "point", "filled": True, "opacity": 1, "size": 60, "color": SERIES[0]}
    encoding = {"x": along, "y": across, "tooltip": {"field": "tip", "type": "nominal"}}
    layers.append({"data": {"values": drawn}, "mark": points, "encoding": encoding})
    beside = {"type": "text", "align": "left", "baseline": "middle", "dx": 10, "color": TEXT}
    layers.append({"data": {"values": words}, "mark": beside, "encoding": _written(across, {"value": "width"})})
    if missing:
        inside = {"type": "text", "align": "left", "baseline": "middle", "dx": 4, "color": MUTED}
        layers.append({"data": {"values": missing}, "mark": inside, "encoding": _written(across, {"value": 0})})
    return view(layers, height=_STEP * len(rows), title=title)


def _written(across: Json, x: Json) -> Json:
    return {"x": x, "y": across, "text": {"field": "text", "type": "nominal"}}


def _told(label: str, row: Row) -> str:
    ends = _ends(row)
    text = f"{label}: {shown_number(ends[0])}"
    if len(ends) == 3:
        text += f" ({shown_number(ends[1])} to {shown_number(ends[2])})"
    n = row.get("n")
    return f"{text}, n = {n}" if n is not None else text


def _listed(rows: Sequence[Row]) -> str:
    """The first few values, in words."""
    valued = [row for row in rows if _ends(row)]
    shown = [_told(in_chart(row.get("name", "")), row) for row in valued[:6]]
    if len(valued) > 6:
        shown.append(f"and {counted(len(valued) - 6, 'more value', 'more values')}")
    return ", ".join(shown) or "no row has a value"
