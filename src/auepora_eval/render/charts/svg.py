"""The SVG renderer of specs: stacked views with scales, axes, layers and legends."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from .layout import BACKGROUND, LINE, MUTED, TEXT, Theme, css_colour, plain_colour
from .svg_marks import (
    BOLD,
    TEXT_SIZE,
    Attribute,
    BandScale,
    Layer,
    Paint,
    Scale,
    build_scale,
    dash_attribute,
    element,
    escape_text,
    format_tick,
    measure_width,
    symbol,
    truncate,
    wrap_lines,
)

# --- legends: the meaning of colours, shapes and dashes, in a line above a view --------------------------------------

_CHANNELS = ("color", "shape", "strokeDash", "opacity")
_ROW_HEIGHT = 18.0
_SYMBOL_WIDTH = 22.0
"""The width of the symbol before a name."""
_GAP = 16.0
_NAME_LIMIT = 320.0
"""The width that a name may take."""


@dataclass(slots=True)
class _LegendEntry:
    """One name of a legend, with its style in each channel."""

    name: str
    looks: dict[str, Any] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    """The marks that use it."""


def render_legend(layers: Sequence[Mapping[str, Any]], width: float, paint: Paint) -> tuple[str, float]:
    """The legend of a view as SVG, wrapped into lines, and its height; every name once, whichever layers show it."""
    parts: list[str] = []
    x, y = 0.0, _ROW_HEIGHT / 2
    for entry in _legend_entries(layers):
        wide = _SYMBOL_WIDTH + min(_NAME_LIMIT, measure_width(entry.name, TEXT_SIZE)) + _GAP
        if x and x + wide > width:
            x, y = 0.0, y + _ROW_HEIGHT
        label = truncate(entry.name, min(_NAME_LIMIT, width - _SYMBOL_WIDTH), TEXT_SIZE)
        attributes: dict[str, Attribute] = {
            "x": x + _SYMBOL_WIDTH,
            "y": y + 0.35 * TEXT_SIZE,
            "font-size": TEXT_SIZE,
            "fill": paint(TEXT),
        }
        parts += [_entry_symbol(entry, x, y, paint), element("text", attributes, escape_text(label))]
        x += wide
    return (element("g", {"class": "legend"}, *parts), y + _ROW_HEIGHT / 2 + 6) if parts else ("", 0.0)


def _legend_entries(layers: Sequence[Mapping[str, Any]]) -> Iterable[_LegendEntry]:
    entries: dict[str, _LegendEntry] = {}
    for layer in layers:
        for name in _CHANNELS:
            channel = layer["encoding"].get(name) or {}
            scale = channel["scale"] if channel.get("legend") else {"domain": (), "range": ()}
            for label, look in zip(scale["domain"], scale["range"], strict=True):
                entry = entries.setdefault(label, _LegendEntry(label))
                entry.looks[name] = look
                entry.kinds.add(layer["mark"]["type"])
                entry.looks.setdefault("plain", layer["mark"].get("color", MUTED))
    return entries.values()


def _entry_symbol(entry: _LegendEntry, x: float, y: float, paint: Paint) -> str:
    colour = paint(entry.looks.get("color", entry.looks["plain"]))
    middle, parts = x + _SYMBOL_WIDTH / 2 - 3, []
    if entry.kinds & {"line", "rule"}:
        line: dict[str, Attribute] = {
            "x1": x,
            "y1": y,
            "x2": x + _SYMBOL_WIDTH - 6,
            "y2": y,
            "stroke": colour,
            "stroke-width": 2.0,
        }
        parts.append(element("line", {**line, "stroke-dasharray": dash_attribute(entry.looks.get("strokeDash"))}))
    if "point" in entry.kinds:
        parts.append(symbol(entry.looks.get("shape", "circle"), middle, y, 60, {"fill": colour}))
    elif entry.kinds & {"bar", "rect", "area"} and not parts:
        parts.append(symbol("square", middle, y, 100, {"fill": colour, "opacity": entry.looks.get("opacity")}))
    return "".join(parts)


# --- one view: its scales, axes, layers and legend, and their layout -------------------------------------------------

_TITLE_SIZE = 12.0
_LABEL_PADDING = 8.0
"""Between a label and the plot."""
_LABEL_GAP = 4.0
"""Between two labels of one row."""
_LABEL_LINE = 13.0


@dataclass(frozen=True, slots=True)
class _AxisLabel:
    """A label of an axis: its text and position along the axis."""

    text: str
    at: float
    full: str = ""
    """The text before it was truncated."""
    row: int = 0

    @property
    def width(self) -> float:
        """Its estimated width."""
        return measure_width(self.text, TEXT_SIZE)


@dataclass(frozen=True)
class ChartView:
    """A view of a spec at a given width. Margins hold the labels around the plot."""

    spec: Mapping[str, Any]
    width: float
    paint: Paint

    @property
    def height(self) -> float:
        """The height of the plot itself."""
        return float(self.spec["height"])

    @cached_property
    def _channels(self) -> dict[str, Mapping[str, Any]]:
        """The channel of each axis; all layers have the same one."""
        channels: dict[str, Mapping[str, Any]] = {}
        for layer in self.spec["layer"]:
            for name in ("x", "y"):
                channel = layer["encoding"].get(name)
                if channel is not None and "scale" in channel:
                    channels.setdefault(name, channel)
        return channels

    def _scale(self, name: str) -> Scale | None:
        channel = self._channels.get(name)
        if channel is None:
            return None
        return build_scale(channel, self.width if name == "x" else self.height, upwards=name == "y")

    @cached_property
    def layers(self) -> list[Layer]:
        """Its layers, on their scales."""
        x, y = self._scale("x"), self._scale("y")
        return [
            Layer(one["mark"], one["encoding"], one["data"]["values"], x, y, self.width, self.height, self.paint)
            for one in self.spec["layer"]
        ]

    @cached_property
    def _legend(self) -> tuple[str, float]:
        """The legend of its colours and shapes, and its height."""
        return render_legend(self.spec["layer"], self.width + self.right, self.paint)

    @property
    def left(self) -> float:
        """The room that the vertical axis needs."""
        labels = [measure_width(one.text, TEXT_SIZE) for one in self._labels("y")]
        axis = max(labels, default=0.0) + (_LABEL_PADDING if labels else 0.0)
        title = TEXT_SIZE + 8 if self._axis("y").get("title") else 0.0
        return max(self._left_text_width + axis + title, self._overhang()[0])

    @cached_property
    def _left_text_width(self) -> float:
        """How far texts extend to the left of the plot; axis labels are placed beyond them."""
        return max(layer.overhang()[0] for layer in self.layers)

    @property
    def right(self) -> float:
        """The room for texts to the right of the plot."""
        return max([4.0, *(layer.overhang()[1] for layer in self.layers), self._overhang()[1]])

    @property
    def above(self) -> float:
        """The room for title and legend."""
        title = _TITLE_SIZE + 10 if "title" in self.spec else 0.0
        return title + self._legend[1] + max(layer.overhang()[2] for layer in self.layers)

    @property
    def below(self) -> float:
        """The room that the horizontal axis needs."""
        labels = self._labels("x")
        axis = max(one.row for one in labels) * _LABEL_LINE + TEXT_SIZE + _LABEL_PADDING if labels else 2.0
        return axis + (TEXT_SIZE + 6 if self._axis("x").get("title") else 0.0)

    def render(self) -> str:
        """The view as SVG, with the upper left corner of the plot at zero."""
        parts = []
        top = -self.above
        if "title" in self.spec:
            attributes: dict[str, Attribute] = {
                "x": 0,
                "y": top + _TITLE_SIZE,
                "font-size": _TITLE_SIZE,
                "font-weight": "600",
            }
            whole = self.spec["title"]["text"]
            title = truncate(whole, (self.width + self.right) / BOLD, _TITLE_SIZE)
            parts.append(
                element(
                    "text",
                    {**attributes, "fill": self.paint(TEXT)},
                    escape_text(title),
                    *_full_text_tooltip(title, whole),
                )
            )
            top += _TITLE_SIZE + 10
        if self._legend[0]:
            parts.append(element("g", {"transform": f"translate(0,{top:g})"}, self._legend[0]))
        parts += [self._grid("x"), self._grid("y"), *(layer.render(number) for number, layer in enumerate(self.layers))]
        parts += [self._render_axis("x"), self._render_axis("y")]
        return "".join(parts)

    # --- axes --------------------------------------------------------------------------------------------------------

    def _axis(self, name: str) -> Mapping[str, Any]:
        channel = self._channels.get(name)
        axis: Mapping[str, Any] = {} if channel is None else channel.get("axis") or {}
        return axis

    def _labels(self, name: str) -> list[_AxisLabel]:
        """The displayed labels of an axis."""
        axis, scale = self._axis(name), self._scale(name)
        if scale is None or not axis or axis.get("labels") is False:
            return []
        if not isinstance(scale, BandScale):
            labels = [_AxisLabel(format_tick(value, axis["format"]), scale(value)) for value in axis["values"]]
            return _thin_labels(labels, name)
        limit = axis["labelLimit"]
        labels = [_AxisLabel(truncate(label, limit, TEXT_SIZE), scale(label), label) for label in scale.places]
        return _place_in_rows(labels) if name == "x" else labels

    def _overhang(self) -> tuple[float, float]:
        """How far the labels below the plot extend beyond its sides."""
        labels = self._labels("x")
        left = max((one.width / 2 - one.at for one in labels), default=0.0)
        right = max((one.width / 2 + one.at - self.width for one in labels), default=0.0)
        return max(left, 0.0), max(right, 0.0)

    def _grid(self, name: str) -> str:
        axis, scale = self._axis(name), self._scale(name)
        if scale is None or isinstance(scale, BandScale) or not axis.get("grid"):
            return ""
        lines = []
        for value in axis["values"]:
            at = scale(value)
            ends: dict[str, Attribute] = (
                {"x1": at, "y1": 0, "x2": at, "y2": self.height}
                if name == "x"
                else {"x1": 0, "y1": at, "x2": self.width, "y2": at}
            )
            lines.append(element("line", {**ends, "stroke": self.paint(LINE), "stroke-width": 1}))
        return element("g", {"class": "grid"}, *lines)

    def _render_axis(self, name: str) -> str:
        parts = []
        for one in self._labels(name):
            x, y = (
                (one.at, self.height + _LABEL_PADDING + 0.8 * TEXT_SIZE + one.row * _LABEL_LINE)
                if name == "x"
                else (-_LABEL_PADDING - self._left_text_width, one.at + 0.35 * TEXT_SIZE)
            )
            attributes: dict[str, Attribute] = {
                "x": x,
                "y": y,
                "text-anchor": "end" if name == "y" else "middle",
                "font-size": TEXT_SIZE,
                "fill": self.paint(TEXT if name == "y" else MUTED),
            }
            parts.append(element("text", attributes, escape_text(one.text), *_full_text_tooltip(one.text, one.full)))
        title = self._axis(name).get("title")
        if title:
            parts.append(self._axis_title(name, title))
        return element("g", {"class": f"axis axis-{name}"}, *parts) if parts else ""

    def _axis_title(self, name: str, whole: str) -> str:
        title = truncate(whole, self.width if name == "x" else self.height, TEXT_SIZE)
        inside = [escape_text(title), *_full_text_tooltip(title, whole)]
        common: dict[str, Attribute] = {"text-anchor": "middle", "font-size": TEXT_SIZE, "fill": self.paint(MUTED)}
        if name == "x":
            return element("text", {"x": self.width / 2, "y": self.height + self.below - 2, **common}, *inside)
        x, y = -self.left + TEXT_SIZE, self.height / 2
        turned: dict[str, Attribute] = {"x": x, "y": y, "transform": f"rotate(-90 {x:.1f} {y:.1f})"}
        return element("text", {**turned, **common}, *inside)


def _full_text_tooltip(shown_text: str, whole: str) -> list[str]:
    """A tooltip with the full text, where the text was truncated."""
    return [] if shown_text == (whole or shown_text) else [element("title", None, escape_text(whole))]


def _thin_labels(labels: list[_AxisLabel], name: str) -> list[_AxisLabel]:
    """Drop every other number label while two would overlap."""
    kept = labels
    while len(kept) > 2 and any(
        abs(other.at - one.at) < ((one.width + other.width) / 2 + _LABEL_GAP if name == "x" else TEXT_SIZE)
        for one, other in pairwise(kept)
    ):
        kept = kept[::2]
    return kept


def _place_in_rows(labels: list[_AxisLabel]) -> list[_AxisLabel]:
    """Put names below a plot into two rows where they would overlap; names without room are left out."""
    ends = [-math.inf, -math.inf]
    placed = []
    for one in labels:
        row = next((row for row, end in enumerate(ends) if end + _LABEL_GAP <= one.at - one.width / 2), None)
        if row is not None:
            ends[row] = one.at + one.width / 2
            placed.append(replace(one, row=row))
    return placed


# --- the whole spec as SVG: its title and its stacked views ----------------------------------------------------------

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


def _heading(spec: Mapping[str, Any], paint: Paint, total: float) -> tuple[list[str], float]:
    """The lines of the heading, and where the first view begins."""
    title, room = spec["title"], total - 2 * _EDGE
    lines = [(line, _HEADING) for line in wrap_lines(title["text"], room / BOLD, _HEADING)]
    lines += [(line, _SUB) for text in title.get("subtitle", ()) for line in wrap_lines(text, room, _SUB)]
    parts, y = [], _EDGE
    for text, size in lines:
        y += size + 3
        weight = {"font-weight": "600", "fill": paint(TEXT)} if size == _HEADING else {"fill": paint(MUTED)}
        parts.append(element("text", {"x": _EDGE, "y": y, "font-size": size, **weight}, escape_text(text)))
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
