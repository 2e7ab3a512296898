"""Values with their intervals: a dot and a line per metric, metrics of one kind on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from .chart import Chart
from .labels import clean_label, describe, finite_number, format_number, unique_labels
from .panels import (
    MAX_ROWS,
    ROW_HEIGHT,
    TOOLTIP,
    Row,
    describe_row,
    group_into_panels,
    has_unit_range,
    list_first,
    omitted_rows_note,
    row_values,
    text_layer,
)
from .spec import Json, band_channel, build_spec, dash_channel, message_spec, number_channel, view, with_field
from .theme import MUTED, SERIES, TEXT
from .ticks import AxisRange, linear_range

__all__ = ["interval_chart", "slices_chart"]

_RELIABLE, _UNRELIABLE = "95 % interval", "may be too narrow: few or skewed samples"
_NO_VALUE = "no value"


def interval_chart(rows: Sequence[Row], *, title: str = "Scores with 95 % intervals") -> Chart:
    """A dot and an interval per row, grouped.

    A row has ``name`` and ``value``, and may have ``low`` and ``high``; ``group``, its heading; ``range``, the range
    of its metric (by default 0 to 1 for values between them); ``scale``, a name that rows on one axis share;
    ``doubt``, true where the interval may be too narrow; ``note``, shown instead of a missing value; and ``n``.
    """
    heading = clean_label(title)
    kept = list(rows[:MAX_ROWS])
    if not kept:
        return Chart(message_spec(heading, "there are no results"))
    unreliable = any(row.get("doubt") and len(row_values(row)) == 3 for row in kept)
    views = [
        _interval_panel(members, clean_label(group, longest=80), unreliable=unreliable, legend=index == 0)
        for index, (group, members) in enumerate(group_into_panels(kept))
    ]
    without = sum(not row_values(row) for row in kept)
    missing, more = f"{without} of {len(kept)} have no value" if without else "", omitted_rows_note(rows)
    text = describe([_summary(kept), missing, more])
    return Chart(build_spec(views, title=heading, description=text, subtitle=[more] if more else ()))


def slices_chart(rows: Sequence[Row], name: str, *, whole: float | None = None, title: str | None = None) -> Chart:
    """One metric in every group of every slice.

    Rows have ``slice``, ``group``, ``value`` and the optional keys of ``interval_chart``. ``whole`` is the value over
    all samples, drawn as a line.
    """
    heading = clean_label(title or f"{name} by slice")
    kept = list(rows[:MAX_ROWS])
    if not kept:
        return Chart(message_spec(heading, "there are no slices"))
    overall = finite_number(whole)
    span = _span(kept, extra=[] if overall is None else [overall])
    unreliable = any(row.get("doubt") and len(row_values(row)) == 3 for row in kept)
    views: list[Json] = []
    for one in dict.fromkeys(str(row.get("slice") or "") for row in kept):
        members = [{**row, "name": row.get("group", "")} for row in kept if str(row.get("slice") or "") == one]
        name_ = clean_label(one, longest=80)
        views.append(_interval_panel(members, name_, unreliable=unreliable, legend=not views, span=span, whole=overall))
    subtitle = [] if overall is None else [f"the dashed line is the value over all samples, {format_number(overall)}"]
    subtitle += filter(None, [omitted_rows_note(rows, "group")])
    text = describe([_summary([{**row, "name": f"{row.get('slice')} {row.get('group')}"} for row in kept]), *subtitle])
    return Chart(build_spec(views, title=heading, description=text, subtitle=subtitle))


def _span(rows: Sequence[Row], extra: Sequence[float] = ()) -> AxisRange:
    ends = [*(end for row in rows for end in row_values(row)), *extra]
    if all(map(has_unit_range, rows)) and all(0 <= end <= 1 for end in ends):
        return linear_range((), within=(0.0, 1.0))
    return linear_range(ends, zero=True)


def _interval_panel(
    rows: Sequence[Row],
    title: str,
    *,
    unreliable: bool,
    legend: bool,
    span: AxisRange | None = None,
    whole: float | None = None,
) -> Json:
    """Rows on one axis. ``unreliable``: any interval of the chart is; ``legend``: this panel explains it."""
    labels = unique_labels(row.get("name", "") for row in rows)
    across = band_channel("name", labels)
    along = number_channel("value", span or _span(rows))
    drawn: list[Json] = []
    lines: list[Json] = []
    words: list[Json] = []
    missing: list[Json] = []
    for label, row in zip(labels, rows, strict=True):
        ends = row_values(row)
        if not ends:
            missing.append({"name": label, "text": clean_label(row.get("note") or _NO_VALUE, longest=60)})
            continue
        tip = _row_text(label, row)
        drawn.append({"name": label, "value": ends[0], "tip": tip})
        words.append({"name": label, "text": format_number(ends[0])})
        if len(ends) == 3:
            reliability = _UNRELIABLE if row.get("doubt") else _RELIABLE
            lines.append({"name": label, "low": ends[1], "high": ends[2], "sure": reliability, "tip": tip})
    layers: list[Json] = []
    if whole is not None:
        rule = {"type": "rule", "color": MUTED, "strokeDash": [4, 3]}
        layers.append({"data": {"values": [{"value": whole}]}, "mark": rule, "encoding": {"x": along}})
    if lines or (unreliable and legend):
        encoding: Json = {"x": with_field(along, "low"), "x2": {"field": "high"}, "y": across, "tooltip": TOOLTIP}
        if unreliable:
            encoding["strokeDash"] = dash_channel("sure", {_RELIABLE: [1, 0], _UNRELIABLE: [3, 2]}, shown=legend)
        mark = {"type": "rule", "color": SERIES[0], "strokeWidth": 2}
        layers.append({"data": {"values": lines}, "mark": mark, "encoding": encoding})
    points = {"type": "point", "filled": True, "opacity": 1, "size": 60, "color": SERIES[0]}
    encoding = {"x": along, "y": across, "tooltip": TOOLTIP}
    layers.append({"data": {"values": drawn}, "mark": points, "encoding": encoding})
    layers.append(text_layer(words, {"value": "width"}, across, colour=TEXT, dx=10))
    if missing:
        layers.append(text_layer(missing, {"value": 0}, across, colour=MUTED, dx=4))
    return view(layers, height=ROW_HEIGHT * len(rows), title=title)


def _row_text(label: str, row: Row) -> str:
    text, n = describe_row(label, row_values(row)), row.get("n")
    return f"{text}, n = {n}" if n is not None else text


def _summary(rows: Sequence[Row]) -> str:
    """The first few values as text."""
    shown = [_row_text(clean_label(row.get("name", "")), row) for row in rows if row_values(row)]
    return list_first(shown, "value") or "no row has a value"
