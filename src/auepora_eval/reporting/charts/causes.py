"""Why answers were wrong: a bar per cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chart import Chart
from .panels import TIP, first_few, text_layer
from .spec import Json, bands, message_spec, numbers, place, spec_of, view
from .theme import SERIES, TEXT
from .ticks import Span, linear_span
from .words import in_chart, number, told, unique_labels

__all__ = ["causes_chart"]

_STEP = 26.0
_MOST = 40


def causes_chart(shares: Mapping[str, Any], *, title: str = "Why answers were wrong") -> Chart:
    """A bar per cause, in the order given.

    Each has a count, or ``{count, share, low, high}`` of which any may be missing; a share between 0 and 1 that is
    given alone is one. Where all counts are known shares follow from them.
    """
    heading = in_chart(title)
    given = dict(list(shares.items())[:_MOST])
    parts = {name: dict(one) if isinstance(one, Mapping) else _alone(one) for name, one in given.items()}
    total = sum(number(one.get("count")) or 0.0 for one in parts.values())
    rows: list[Json] = []
    for label, one in zip(unique_labels(parts), parts.values(), strict=True):
        count, share = number(one.get("count")), number(one.get("share"))
        if share is None and count is not None and total > 0:
            share = count / total
        if share is None:
            continue
        words = f"{share:.0%}" if count is None else f"{count:,.0f} ({share:.0%})"
        low, high = number(one.get("low")), number(one.get("high"))
        row: Json = {"cause": label, "share": share, "zero": 0, "text": words, "tip": f"{label}: {words}"}
        rows.append(row if low is None or high is None else {**row, "low": low, "high": high})
    if not rows:
        return Chart(message_spec(heading, "no wrong answer has a known cause"))
    ends = [row[key] for row in rows for key in ("share", "high") if key in row]
    span = linear_span([0.0, *ends], zero=True)
    along = numbers("share", Span(span.low, span.high, span.ticks, span.form), title="share")
    across = bands("cause", [row["cause"] for row in rows])
    bar: Json = {"x": along, "x2": {"field": "zero"}, "y": across, "tooltip": TIP}
    layers: list[Json] = [
        {"data": {"values": rows}, "mark": {"type": "bar", "color": SERIES[0], "opacity": 0.75}, "encoding": bar}
    ]
    ranged = [row for row in rows if "low" in row]
    if ranged:
        interval = {"x": place(along, "low"), "x2": {"field": "high"}, "y": across}
        rule = {"type": "rule", "color": TEXT, "strokeWidth": 1.5}
        layers.append({"data": {"values": ranged}, "mark": rule, "encoding": interval})
    layers.append(text_layer(rows, {"value": "width"}, across, colour=TEXT, dx=10))
    text = told([first_few([row["tip"] for row in rows], "cause", most=10)])
    return Chart(spec_of([view(layers, height=_STEP * len(rows))], title=heading, description=text))


def _alone(value: Any) -> dict[str, Any]:
    """A bare number: a share where it lies between 0 and 1, else a count."""
    found = number(value)
    share = found is not None and not isinstance(value, int) and 0 <= found <= 1
    return {"share": found} if share else {"count": found}
