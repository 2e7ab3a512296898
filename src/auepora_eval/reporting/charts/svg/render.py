"""A whole spec as SVG: its title and its stacked views."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..theme import BACKGROUND, MUTED, TEXT, Theme, css_colour, plain_colour
from .marks import Paint
from .text_width import BOLD, wrap_lines
from .views import ChartView
from .xml import Attribute, element, escape_text

__all__ = ["plot_width", "render_svg"]

_FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif"
_EDGE = 6.0
_NARROWEST = 120.0
_HEADING, _SUB = 14.0, 11.0


def render_svg(
    spec: Mapping[str, Any], *, width: float | None = None, theme: Theme | None = None, heading: bool = True
) -> str:
    """The spec as one SVG element.

    ``width`` is the total width. Without a ``theme`` colours are CSS variables with the light theme as the fallback;
    with one they are literal, and the background is painted. ``heading`` says whether the title is drawn; screen
    readers get it either way.
    """

    def paint(colour: str) -> str:
        return css_colour(colour) if theme is None else plain_colour(colour, theme)

    inner = None if width is None else plot_width(spec, width)
    views = _views(spec, inner, paint)
    left, right = max(view.left for view in views) + _EDGE, max(view.right for view in views) + _EDGE
    total = max(view.width for view in views) + left + right
    title, y = _heading(spec, paint, total) if heading else ([], _EDGE)
    parts = [*title]
    for number, view in enumerate(views):
        y += view.above + (0 if number == 0 else float(spec.get("spacing", 18)))
        parts.append(element("g", {"class": "view", "transform": f"translate({left:.2f},{y:.2f})"}, view.render()))
        y += view.height + view.below
    return _root(spec, total, y + _EDGE, parts, theme)


def plot_width(spec: Mapping[str, Any], width: float) -> float:
    """The plot width for a total ``width``."""
    inner = float(spec["vconcat"][0]["width"])
    for _ in range(3):  # labels may need less or more room once the plot is narrower
        views = _views(spec, inner, css_colour)
        around = max(view.left for view in views) + max(view.right for view in views) + 2 * _EDGE
        inner = max(_NARROWEST, width - around)
    return inner


def _views(spec: Mapping[str, Any], inner: float | None, paint: Paint) -> list[ChartView]:
    return [ChartView(one, float(one["width"]) if inner is None else inner, paint) for one in spec["vconcat"]]


def _lines(spec: Mapping[str, Any], total: float) -> list[tuple[str, float]]:
    """The lines of the heading, with their sizes."""
    title = spec["title"]
    heading_lines = [(title["text"], _HEADING), *((line, _SUB) for line in title.get("subtitle", ()))]
    room = {_HEADING: (total - 2 * _EDGE) / BOLD, _SUB: total - 2 * _EDGE}
    return [(line, size) for text, size in heading_lines for line in wrap_lines(text, room[size], size)]


def _heading(spec: Mapping[str, Any], paint: Paint, total: float) -> tuple[list[str], float]:
    parts, y = [], _EDGE
    for text, size in _lines(spec, total):
        y += size + 3
        text_attributes: dict[str, Attribute] = {"x": _EDGE, "y": y, "font-size": size}
        if size == _HEADING:
            text_attributes |= {"font-weight": "600", "fill": paint(TEXT)}
        else:
            text_attributes["fill"] = paint(MUTED)
        parts.append(element("text", text_attributes, escape_text(text)))
    return parts, y + 12


def _root(spec: Mapping[str, Any], width: float, height: float, parts: list[str], theme: Theme | None) -> str:
    # The same chart has the same ids; two charts of a page have different ones.
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True, default=str).encode(errors="replace")).hexdigest()[:12]
    linked = any("href" in layer["encoding"] for view in spec["vconcat"] for layer in view["layer"])
    attributes: dict[str, Attribute] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {width:.0f} {height:.0f}",
        "width": round(width),
        "height": round(height),
        "role": "group" if linked else "img",  # links inside an image do not work
        "aria-labelledby": f"chart-{digest}-title chart-{digest}-desc",
        "font-family": _FONT,
        "class": "chart",
    }
    ground: dict[str, Attribute] = {"width": "100%", "height": "100%"}
    return element(
        "svg",
        attributes,
        element("title", {"id": f"chart-{digest}-title"}, escape_text(spec["title"]["text"])),
        element("desc", {"id": f"chart-{digest}-desc"}, escape_text(spec["description"])),
        *([] if theme is None else [element("rect", {**ground, "fill": plain_colour(BACKGROUND, theme)})]),
        *parts,
    )
