"""Builders of Vega-Lite specs, for the subset that ``svg`` renders.

Domains, ticks and heights are always explicit, so that every tool draws the same chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .theme import LINE, MUTED, TEXT
from .ticks import AxisRange

__all__ = [
    "LABEL_LIMIT",
    "SCHEMA",
    "WIDTH",
    "Json",
    "band_channel",
    "build_spec",
    "colour_channel",
    "dash_channel",
    "legend",
    "message_spec",
    "number_channel",
    "opacity_channel",
    "shape_channel",
    "view",
    "with_field",
]

Json = dict[str, Any]
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
WIDTH = 460
"""The width of the plot without labels."""
LABEL_LIMIT = 240
"""The maximum width of an axis label; longer ones are truncated."""
_FONT_SIZE = 11


def view(layers: Sequence[Json], *, height: float, width: float = WIDTH, title: str | None = None) -> Json:
    """One plot: layers on the same scales."""
    view_spec: Json = {"width": width, "height": height, "layer": list(layers)}
    return (
        view_spec
        if not title
        else {"title": {"text": title, "anchor": "start", "frame": "group", "fontSize": 12}, **view_spec}
    )


def build_spec(views: Sequence[Json], *, title: str, description: str, subtitle: Sequence[str] = ()) -> Json:
    """A whole spec: one view, or several stacked vertically."""
    heading: Json = {"text": title, "anchor": "start", "frame": "bounds"}
    if subtitle:
        heading["subtitle"] = list(subtitle)
    # The title of the whole chart; views have their own.
    top: Json = {"$schema": SCHEMA, "title": heading, "description": description, "config": _config()}
    # Each view explains its own colours and shapes.
    apart = dict.fromkeys(("color", "shape", "strokeDash", "opacity"), "independent")
    return {**top, "vconcat": list(views), "spacing": 18, "resolve": {"scale": apart}}


def message_spec(title: str, message: str) -> Json:
    """A spec that shows a message instead of an empty chart."""
    layer = {
        "data": {"values": [{"text": message}]},
        "mark": {"type": "text", "align": "left", "baseline": "middle", "color": MUTED, "fontSize": 12},
        "encoding": {"x": {"value": 4}, "y": {"value": 20}, "text": {"field": "text", "type": "nominal"}},
    }
    return build_spec([view([layer], height=40)], title=title, description=f"{title}: {message}")


def number_channel(
    field: str, span: AxisRange, *, title: str | None = None, grid: bool = True, labels: bool = True
) -> Json:
    """A quantitative channel with its scale and axis."""
    scale: Json = {"type": "log" if span.log else "linear", "domain": [span.low, span.high], "nice": False}
    if not span.log:
        scale["zero"] = False
    axis: Json = {
        "title": title,
        "values": list(span.ticks),
        "format": span.tick_format,
        "grid": grid,
        "labels": labels,
    }
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


def band_channel(field: str, domain: Sequence[str], *, title: str | None = None, angle: int = 0) -> Json:
    """A nominal channel with a band scale and axis; labels below a plot may be rotated."""
    axis: Json = {"title": title, "labelLimit": LABEL_LIMIT, "labelAngle": angle, "grid": False}
    scale = {"type": "band", "domain": list(domain), "paddingInner": 0.3, "paddingOuter": 0.15}
    return {"field": field, "type": "nominal", "scale": scale, "axis": axis}


def with_field(channel: Json, field: str) -> Json:
    """Another field on the scale of a channel."""
    return {**channel, "field": field}


def legend() -> Json:
    """A legend above the plot."""
    return {"orient": "top", "title": None, "labelLimit": 320}


def colour_channel(field: str, colours: Mapping[str, str], *, shown: bool = True) -> Json:
    """A colour per name."""
    channel = _nominal_channel(field, list(colours), list(colours.values()), shown=shown)
    if shown:
        channel["legend"]["symbolOpacity"] = 1
    return channel


def shape_channel(field: str, shapes: Mapping[str, str], *, shown: bool = True) -> Json:
    """A shape per name."""
    return _nominal_channel(field, list(shapes), list(shapes.values()), shown=shown)


def dash_channel(field: str, dashes: Mapping[str, Sequence[int]], *, shown: bool = True) -> Json:
    """A dash per name."""
    return _nominal_channel(field, list(dashes), [list(one) for one in dashes.values()], shown=shown)


def opacity_channel(field: str, opacities: Mapping[str, float]) -> Json:
    """An opacity per name."""
    return {**_nominal_channel(field, list(opacities), list(opacities.values()), shown=True), "type": "ordinal"}


def _nominal_channel(field: str, domain: list[str], values: list[Any], *, shown: bool) -> Json:
    scale = {"type": "ordinal", "domain": domain, "range": values}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend() if shown else None}


def _config() -> Json:
    """The Vega-Lite config, so that other tools draw it like ``svg``."""
    return {
        "view": {"stroke": None},
        "axis": {
            "domain": False,
            "ticks": False,
            "labelColor": MUTED,
            "labelFontSize": _FONT_SIZE,
            "labelPadding": 6,
            "titleColor": MUTED,
            "titleFontSize": _FONT_SIZE,
            "titleFontWeight": "normal",
            "gridColor": LINE,
        },
        "axisY": {"labelColor": TEXT},
        "legend": {"labelColor": TEXT, "labelFontSize": _FONT_SIZE, "orient": "top"},
        "title": {"color": TEXT, "fontSize": 14, "subtitleColor": MUTED, "subtitleFontSize": _FONT_SIZE},
        "text": {"fontSize": _FONT_SIZE, "color": TEXT},
    }
