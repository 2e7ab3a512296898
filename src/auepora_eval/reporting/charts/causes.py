"""Why answers were wrong: a bar per cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chart import Chart
from .labels import clean_label, describe, finite_number, unique_labels
from .panels import TOOLTIP, list_first, text_layer
from .spec import Json, band_channel, build_spec, message_spec, number_channel, view, with_field
from .theme import SERIES, TEXT
from .ticks import AxisRange, linear_range

__all__ = ["causes_chart"]

_ROW_HEIGHT = 26.0
_MAX_CAUSES = 40


def causes_chart(shares: Mapping[str, Any], *, title: str = "Why answers were wrong") -> Chart:
    """A bar per cause, in the order given.

    Each has a count, a proportion between 0 and 1, or ``{count, share, low, high}`` of which any may be missing. Where
    all counts are known, proportions follow from them.
    """
    heading = clean_label(title)
    shown_causes = dict(list(shares.items())[:_MAX_CAUSES])
    parts = {name: dict(one) if isinstance(one, Mapping) else _bare_number(one) for name, one in shown_causes.items()}
    total = sum(finite_number(one.get("count")) or 0.0 for one in parts.values())
    rows: list[Json] = []
    for label, one in zip(unique_labels(parts), parts.values(), strict=True):
        count, share = finite_number(one.get("count")), finite_number(one.get("share"))
        if share is None and count is not None and total > 0:
            share = count / total
        if share is None:
            continue
        words = f"{share:.0%}" if count is None else f"{count:,.0f} ({share:.0%})"
        low, high = finite_number(one.get("low")), finite_number(one.get("high"))
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
