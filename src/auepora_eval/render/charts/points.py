"""The chart of configurations by what they cost and how good they are."""

from __future__ import annotations

from collections.abc import Sequence

from .chart import TOOLTIP, Chart, Row, build_spec, list_first, message_spec, number_channel, symbol_channels, view
from .layout import MUTED, SERIES, clean_label, describe, finite_number, format_number, linear_range, unique_labels

MAX_POINTS = 200
EFFICIENT = "no other is at least as good, cheap and fast"
_OTHERS = "others"
_STYLES = {EFFICIENT: ("diamond", SERIES[0]), _OTHERS: ("circle", MUTED)}
_HEIGHT = 240.0


def pareto_chart(rows: Sequence[Row], name: str, cost: str, *, title: str | None = None) -> Chart:
    """A point per configuration: its cost on the x axis, its quality on the y axis, both as values without a test.

    A row has ``name``, ``value``, ``cost`` and ``efficient``, whether no other configuration is at least as good in all
    respects.
    """
    heading = clean_label(title or f"{name} by {cost}, by the values alone")
    drawn: list[Row] = []
    parts = []
    for label, row in zip(unique_labels(row.get("name", "") for row in rows), rows[:MAX_POINTS], strict=False):
        value, amount = finite_number(row.get("value")), finite_number(row.get("cost"))
        if value is None or amount is None:
            continue
        tip = f"{label}: {format_number(value)} at {format_number(amount)}"
        group = EFFICIENT if row.get("efficient") else _OTHERS
        drawn.append({"value": value, "cost": amount, "group": group, "tip": tip})
        if group == EFFICIENT:
            parts.append(tip)
    if not drawn:
        return Chart(message_spec(heading, "no configuration has both a value and a cost"))
    along = number_channel("cost", linear_range([row["cost"] for row in drawn]), title=clean_label(cost))
    up = number_channel("value", linear_range([row["value"] for row in drawn]), title=clean_label(name))
    symbols = symbol_channels("group", _STYLES)
    mark = {"type": "point", "filled": True, "opacity": 0.9, "size": 80}
    encoding = {"x": along, "y": up, **symbols, "tooltip": TOOLTIP}
    layer = {"data": {"values": drawn}, "mark": mark, "encoding": encoding}
    description = describe([list_first(parts, "configuration"), f"{len(drawn)} configurations"])
    return Chart(build_spec([view([layer], height=_HEIGHT)], title=heading, description=description))
