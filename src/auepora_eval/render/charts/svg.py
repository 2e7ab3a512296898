"""The SVG renderer of specs: stacked views with scales, axes, layers and legends."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import chain, pairwise
from typing import Any

from ...errors import BadValueError
from .layout import BACKGROUND, LINE, MUTED, SERIES, TEXT, Theme, css_colour, plain_colour, strip_invalid_xml

# --- SVG elements as escaped text; no style, no script, no external references ---------------------------------------

Attribute = str | float | None


def element(name: str, attributes: dict[str, Attribute] | None = None, *children: str) -> str:
    """An element. Children are markup already: ``escape_text`` escapes text. An attribute of ``None`` is left out."""
    attribute_text = "".join(
        f' {key}="{_value(value)}"' for key, value in (attributes or {}).items() if value is not None and value != ""
    )
    return f"<{name}{attribute_text}>{''.join(children)}</{name}>" if children else f"<{name}{attribute_text}/>"


def escape_text(text: str) -> str:
    """Escape a text for use as content."""
    return escape(strip_invalid_xml(text), quote=False)


def path_data(places: list[tuple[float, float]]) -> str:
    """The path data of a line through points."""
    return "M" + "L".join(f"{_number(x)},{_number(y)}" for x, y in places)


def _value(value: str | float) -> str:
    return escape_text(value).replace('"', "&quot;") if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# --- the shapes of points; the size is the area of the surrounding square --------------------------------------------

_CORNERS: dict[str, list[tuple[float, float]]] = {
    "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "diamond": [(0, -1), (1, 0), (0, 1), (-1, 0)],
    "triangle-up": [(0, -0.866), (1, 0.866), (-1, 0.866)],
    "triangle-down": [(0, 0.866), (-1, -0.866), (1, -0.866)],
    "cross": [
        (-1, -0.4), (-0.4, -0.4), (-0.4, -1), (0.4, -1), (0.4, -0.4), (1, -0.4),
        (1, 0.4), (0.4, 0.4), (0.4, 1), (-0.4, 1), (-0.4, 0.4), (-1, 0.4),
    ],
}  # fmt: skip


def symbol(shape: str, at: tuple[float, float], size: float, paint: dict[str, Attribute], *inside: str) -> str:
    """A point of a shape at a position."""
    (x, y), half = at, math.sqrt(size) / 2
    if shape == "circle":
        return element("circle", {"cx": x, "cy": y, "r": half, **paint}, *inside)
    if shape not in _CORNERS:
        raise BadValueError(f"unknown shape {shape!r}; supported are circle, {', '.join(_CORNERS)}")
    corners = " ".join(f"{x + half * right:.2f},{y + half * down:.2f}" for right, down in _CORNERS[shape])
    return element("polygon", {"points": corners, **paint}, *inside)


# --- scales: the positions of values in a plot -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NumberScale:
    """Maps numbers to pixels, linearly or logarithmically."""

    domain: tuple[float, float]
    pixels: tuple[float, float]
    log: bool = False

    def __call__(self, value: Any) -> float:
        """The position of a number."""
        low, high = self.domain
        start, end = self.pixels
        if self.log:
            share = (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))
        else:
            share = (value - low) / (high - low)
        return start + share * (end - start)


@dataclass(frozen=True, slots=True)
class BandScale:
    """Maps names to bands of equal width."""

    places: Mapping[str, int]
    start: float
    step: float
    width: float

    def __call__(self, value: Any) -> float:
        """The middle of a name's band."""
        return self.left(value) + self.width / 2

    def left(self, value: Any) -> float:
        """The start of a name's band."""
        return self.start + self.places[value] * self.step


Scale = NumberScale | BandScale


def build_scale(channel: Mapping[str, Any], length: float, *, upwards: bool = False) -> Scale:
    """The scale of a channel over ``length`` pixels; numbers may run upwards."""
    scale_spec = channel["scale"]
    kind, domain = scale_spec["type"], scale_spec["domain"]
    if kind == "band":
        inner = scale_spec["paddingInner"]
        step = length / max(1.0, len(domain) - inner + 2 * scale_spec["paddingOuter"])
        start = (length - step * (len(domain) - inner)) / 2
        return BandScale({name: place for place, name in enumerate(domain)}, start, step, step * (1 - inner))
    if kind not in ("linear", "log"):
        raise BadValueError(f"unknown scale type {kind!r}; supported are linear, log and band")
    return NumberScale((domain[0], domain[1]), (length, 0.0) if upwards else (0.0, length), kind == "log")


# --- number formats of ticks: the subset of d3-format that our specs use ---------------------------------------------

_FIXED = re.compile(r"\.(\d)f")


def format_tick(value: float, form: str) -> str:
    """Format a number: ``.2f`` with two decimals, ``d`` as an integer, ``.6~g`` with up to six digits.

    >>> formatted(-0.5, ".1f"), formatted(1e7, ".6~g")
    ('−0.5', '1e+7')
    """
    fixed = _FIXED.fullmatch(form)
    if fixed:
        text = f"{value:.{fixed[1]}f}"
    elif form == "d":
        text = f"{value:.0f}"
    elif form == ".6~g":
        text = re.sub(r"e([+-])0*(\d)", r"e\1\2", f"{value:.6g}")
    else:
        raise BadValueError(f"unknown number format {form!r}; supported are '.2f', 'd' and '.6~g'")
    if text.startswith("-"):
        text = text[1:] if not text.strip("-0.") else f"−{text[1:]}"
    return text


# --- estimated text widths, without a font; rather too wide than too narrow ------------------------------------------

BOLD = 1.14
"""The width factor of bold letters."""

_NARROW = frozenset("iljtfrI.,:;'|!()[]{}/\\ -")
_WIDE = frozenset("mwMW@%…—")


def measure_width(text: str, size: float) -> float:
    """The width of a text in pixels."""
    return sum(map(_char_width, text)) * size


def truncate(text: str, limit: float, size: float) -> str:
    """The text, or its beginning with an ellipsis where it is wider than ``limit``."""
    if measure_width(text, size) <= limit:
        return text
    room = limit - measure_width("…", size)
    kept = 0
    for mark in text:
        room -= _char_width(mark) * size
        if room < 0:
            break
        kept += 1
    return f"{text[:kept].rstrip()}…"


def wrap_lines(text: str, limit: float, size: float) -> list[str]:
    """Wrap a text into lines that fit; a word that is wider than a line is truncated."""
    lines: list[str] = []
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and measure_width(joined, size) <= limit:
            lines[-1] = joined
        else:
            lines.append(truncate(word, limit, size))
    return lines


def _char_width(mark: str) -> float:
    if mark in _NARROW:
        return 0.38
    if mark in _WIDE:
        return 0.98
    if mark < "\x7f":
        return 0.72 if mark.isupper() else 0.63
    if unicodedata.combining(mark):
        return 0.0
    return 1.08 if unicodedata.east_asian_width(mark) in "WF" else 0.68


# --- the marks of one layer as SVG: points, rules, ticks, bars, rectangles, lines, areas and texts -------------------

Paint = Callable[[str], str]
"""Maps a colour of a spec to its SVG value."""
Row = Mapping[str, Any]
TEXT_SIZE = 11.0
_ANCHORS = {"left": "start", "center": "middle", "right": "end"}
_BASELINES = {"middle": 0.35, "top": 0.8, "bottom": -0.2, "alphabetic": 0.0}
"""The baseline shift of a text in font sizes; the SVG attribute for it is not supported everywhere."""


def lookup_range(channel: Mapping[str, Any], row: Row) -> Any:
    """The range value of a row in a channel with an ordinal scale."""
    scale = channel["scale"]
    return scale["range"][scale["domain"].index(row[channel["field"]])]


def dash_attribute(dash: Sequence[int] | None) -> str | None:
    """The SVG attribute of a dash; ``None`` for a solid line."""
    return None if not dash or list(dash) == [1, 0] else ",".join(map(str, dash))


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a view with its scales. Every mark has a position on both axes, except rules across the plot."""

    mark: Mapping[str, Any]
    encoding: Mapping[str, Any]
    rows: Sequence[Row]
    view: ChartView

    def render(self, number: int) -> str:
        """Its marks as a group; ``number`` is its index in the view."""
        kind = self.mark["type"]
        if kind in ("line", "area"):
            marks = [self._path(rows) for rows in self._series()]
        else:
            draw = {
                "point": self._point,
                "rule": self._rule,
                "bar": self._rectangle,
                "rect": self._rectangle,
                "text": self._text,
            }.get(kind)
            if draw is None:
                raise BadValueError(f"unknown mark type {kind!r}")
            marks = [self._wrap_link(draw(row), row) for row in self.rows]
        return element("g", {"class": f"marks mark-{kind} layer-{number}"}, *marks) if marks else ""

    def overhang(self) -> tuple[float, float, float]:
        """How far its texts extend to the left of the plot, to the right, and above."""
        left = right = above = 0.0
        for row in self.rows if self.mark["type"] == "text" else ():
            size = self.mark.get("fontSize", TEXT_SIZE)
            wide = measure_width(str(row[self.encoding["text"]["field"]]), size)
            at = self._position("x", row) + self.mark.get("dx", 0)
            share = {"left": 0.0, "center": 0.5, "right": 1.0}[self.mark["align"]]
            left = max(left, wide * share - at)
            right = max(right, at + wide * (1 - share) - self.view.width)
            lowered = _BASELINES[self.mark["baseline"]] * size
            above = max(above, size - lowered - self._position("y", row) - self.mark.get("dy", 0))
        return left, right, above

    # --- channel values ----------------------------------------------------------------------------------------------

    def _position(self, name: str, row: Row) -> float:
        """The position of a row in a channel: the middle of a band."""
        channel = self.encoding[name]
        if "value" in channel:
            fixed = channel["value"]
            room = {"width": self.view.width, "height": self.view.height}
            return room[fixed] if isinstance(fixed, str) else float(fixed)
        return self.view.scales[name[0]](row[channel["field"]])

    def _style(self, name: str, row: Row, otherwise: Any = None) -> Any:
        """The style of a row in a channel, else that of the mark."""
        channel = self.encoding.get(name)
        return self.mark.get(name, otherwise) if channel is None else lookup_range(channel, row)

    def _colour(self, row: Row) -> str:
        return self.view.paint(self._style("color", row, SERIES[0]))

    def _stroke(self, row: Row) -> dict[str, Attribute]:
        return {
            "stroke": self._colour(row),
            "stroke-width": self.mark.get("strokeWidth", 1),
            "stroke-dasharray": dash_attribute(self._style("strokeDash", row)),
            "opacity": self.mark.get("opacity"),
        }

    def _fill(self, row: Row) -> dict[str, Attribute]:
        opacity = self._style("opacity", row)
        return {"fill": self._colour(row), "opacity": None if opacity == 1 else opacity}

    def _tooltip(self, row: Row) -> list[str]:
        channel = self.encoding.get("tooltip")
        return [] if channel is None else [element("title", None, escape_text(str(row[channel["field"]])))]

    def _wrap_link(self, mark: str, row: Row) -> str:
        channel = self.encoding.get("href")
        target = "" if channel is None else str(row[channel["field"]] or "")
        # Only links inside the page: anything else could run code.
        return element("a", {"href": target}, mark) if target.startswith("#") else mark

    # --- marks -------------------------------------------------------------------------------------------------------

    def _point(self, row: Row) -> str:
        channel = self.encoding.get("size")
        size = self.mark.get("size", 60) if channel is None else row[channel["field"]]
        at = self._position("x", row), self._position("y", row)
        return symbol(self._style("shape", row, "circle"), at, size, self._fill(row), *self._tooltip(row))

    def _rule(self, row: Row) -> str:
        x1, x2 = self._rule_ends("x", row, self.view.width)
        y1, y2 = self._rule_ends("y", row, self.view.height)
        ends: dict[str, Attribute] = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        return element("line", {**ends, **self._stroke(row)}, *self._tooltip(row))

    def _rule_ends(self, name: str, row: Row, length: float) -> tuple[float, float]:
        """The ends of a rule along an axis; without a channel it crosses the plot."""
        if name not in self.encoding:
            return 0.0, length
        start = self._position(name, row)
        return start, self._position(f"{name}2", row) if f"{name}2" in self.encoding else start

    def _rectangle(self, row: Row) -> str:
        (left, right), (top, bottom) = self._extent("x", row), self._extent("y", row)
        attributes: dict[str, Attribute] = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        return element("rect", {**attributes, **self._fill(row)}, *self._tooltip(row))

    def _extent(self, name: str, row: Row) -> tuple[float, float]:
        """The start and end of a rectangle: its band, or between two values."""
        scale = self.view.scales[name]
        if isinstance(scale, BandScale):
            start = scale.left(row[self.encoding[name]["field"]])
            return start, start + scale.width
        low, high = sorted([self._position(name, row), self._position(f"{name}2", row)])
        return low, high

    def _text(self, row: Row) -> str:
        size = self.mark.get("fontSize", TEXT_SIZE)
        attributes: dict[str, Attribute] = {
            "x": self._position("x", row) + self.mark.get("dx", 0),
            "y": self._position("y", row) + self.mark.get("dy", 0) + _BASELINES[self.mark["baseline"]] * size,
            "text-anchor": _ANCHORS[self.mark["align"]],
            "font-size": size,
        }
        text = escape_text(str(row[self.encoding["text"]["field"]]))
        return element("text", {**attributes, **self._fill(row)}, text, *self._tooltip(row))

    def _series(self) -> list[list[Row]]:
        """The rows of each line or area, grouped by style."""
        fields = [self.encoding[name]["field"] for name in ("color", "strokeDash", "detail") if name in self.encoding]
        series: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            series.setdefault(tuple(row[field] for field in fields), []).append(row)
        return list(series.values())

    def _path(self, rows: list[Row]) -> str:
        upper = [(self._position("x", row), self._position("y", row)) for row in rows]
        if self.mark["type"] == "line":
            return element("path", {"d": path_data(upper), "fill": "none", **self._stroke(rows[0])})
        lower = [(self._position("x", row), self._position("y2", row)) for row in reversed(rows)]
        return element("path", {"d": f"{path_data([*upper, *lower])}Z", **self._fill(rows[0])})


# --- legends: the meaning of colours, shapes and dashes, in a line above a view --------------------------------------

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
        for name in ("color", "shape", "strokeDash", "opacity"):
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
        parts.append(symbol(entry.looks.get("shape", "circle"), (middle, y), 60, {"fill": colour}))
    elif entry.kinds & {"bar", "rect", "area"} and not parts:
        parts.append(symbol("square", (middle, y), 100, {"fill": colour, "opacity": entry.looks.get("opacity")}))
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

    @cached_property
    def scales(self) -> dict[str, Scale]:
        """The scale of each axis."""
        axes = {"x": self.width, "y": self.height}
        channels = self._channels.items()
        return {name: build_scale(channel, axes[name], upwards=name == "y") for name, channel in channels}

    @cached_property
    def layers(self) -> list[Layer]:
        """Its layers, on their scales."""
        listed = self.spec["layer"]
        return [Layer(layer["mark"], layer["encoding"], layer["data"]["values"], self) for layer in listed]

    @cached_property
    def _legend(self) -> tuple[str, float]:
        """The legend of its colours and shapes, and its height."""
        return render_legend(self.spec["layer"], self.width + self.right, self.paint)

    @property
    def left(self) -> float:
        """The room that the vertical axis needs."""
        labels = [measure_width(label.text, TEXT_SIZE) for label in self._labels("y")]
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
        axis = max(label.row for label in labels) * _LABEL_LINE + TEXT_SIZE + _LABEL_PADDING if labels else 2.0
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
        return self._channels.get(name, {}).get("axis") or {}

    def _labels(self, name: str) -> list[_AxisLabel]:
        """The displayed labels of an axis."""
        axis, scale = self._axis(name), self.scales.get(name)
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
        left = max((label.width / 2 - label.at for label in labels), default=0.0)
        right = max((label.width / 2 + label.at - self.width for label in labels), default=0.0)
        return max(left, 0.0), max(right, 0.0)

    def _grid(self, name: str) -> str:
        axis, scale = self._axis(name), self.scales.get(name)
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
        for label in self._labels(name):
            x, y = (
                (label.at, self.height + _LABEL_PADDING + 0.8 * TEXT_SIZE + label.row * _LABEL_LINE)
                if name == "x"
                else (-_LABEL_PADDING - self._left_text_width, label.at + 0.35 * TEXT_SIZE)
            )
            attributes: dict[str, Attribute] = {
                "x": x,
                "y": y,
                "text-anchor": "end" if name == "y" else "middle",
                "font-size": TEXT_SIZE,
                "fill": self.paint(TEXT if name == "y" else MUTED),
            }
            parts.append(
                element("text", attributes, escape_text(label.text), *_full_text_tooltip(label.text, label.full))
            )
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
        abs(other.at - label.at) < ((label.width + other.width) / 2 + _LABEL_GAP if name == "x" else TEXT_SIZE)
        for label, other in pairwise(kept)
    ):
        kept = kept[::2]
    return kept


def _place_in_rows(labels: list[_AxisLabel]) -> list[_AxisLabel]:
    """Put names below a plot into two rows where they would overlap; names without room are left out."""
    ends = [-math.inf, -math.inf]
    placed = []
    for label in labels:
        row = next((row for row, end in enumerate(ends) if end + _LABEL_GAP <= label.at - label.width / 2), None)
        if row is not None:
            ends[row] = label.at + label.width / 2
            placed.append(replace(label, row=row))
    return placed


# --- the whole spec as SVG: its title and its stacked views ----------------------------------------------------------

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

    views, total = _sized_views(spec, width, paint)
    parts, top = _heading(spec, paint, total) if heading else ([], _EDGE)
    bottom = top
    for view, left, y in _place_views(spec, views, top):
        parts.append(element("g", {"class": "view", "transform": f"translate({left:.2f},{y:.2f})"}, view.render()))
        bottom = y + view.height + view.below
    return _root(spec, total, bottom + _EDGE, parts, theme)


def plot_areas(spec: Mapping[str, Any], width: float) -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of the plot of each view, in the units of the SVG with that total width."""
    views, total = _sized_views(spec, width, css_colour)
    _, top = _heading(spec, css_colour, total)
    return [(left, y, view.width, view.height) for view, left, y in _place_views(spec, views, top)]


def _sized_views(spec: Mapping[str, Any], width: float | None, paint: Paint) -> tuple[list[ChartView], float]:
    """The views, and the total width of the SVG."""
    views = _views(spec, None if width is None else plot_width(spec, width), paint)
    around = max(view.left for view in views) + max(view.right for view in views) + 2 * _EDGE
    return views, max(view.width for view in views) + around


def _place_views(
    spec: Mapping[str, Any], views: Sequence[ChartView], top: float
) -> Iterable[tuple[ChartView, float, float]]:
    """Each view with the left and upper end of its plot."""
    left, y = max(view.left for view in views) + _EDGE, top
    for number, view in enumerate(views):
        y += view.above + (0 if number == 0 else float(spec.get("spacing", 18)))
        yield view, left, y
        y += view.height + view.below


def plot_width(spec: Mapping[str, Any], width: float) -> float:
    """The plot width for a total ``width``."""
    inner = float(spec["vconcat"][0]["width"])
    for _ in range(3):  # labels may need less or more room once the plot is narrower
        views = _views(spec, inner, css_colour)
        around = max(view.left for view in views) + max(view.right for view in views) + 2 * _EDGE
        inner = max(_NARROWEST, width - around)
    return inner


def _views(spec: Mapping[str, Any], inner: float | None, paint: Paint) -> list[ChartView]:
    return [ChartView(view, float(inner or view["width"]), paint) for view in spec["vconcat"]]


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
    layers = chain.from_iterable(view["layer"] for view in spec["vconcat"])
    linked = any("href" in layer["encoding"] for layer in layers)
    attributes: dict[str, Attribute] = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {width:.0f} {height:.0f}",
        "width": round(width),
        "height": round(height),
        "role": "group" if linked else "img",  # links inside an image do not work
        "aria-labelledby": f"chart-{digest}-title chart-{digest}-desc",
        "font-family": "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif",
        "class": "chart",
    }
    ground: dict[str, Attribute] = {"width": "100%", "height": "100%"}
    words = [
        element("title", {"id": f"chart-{digest}-title"}, escape_text(spec["title"]["text"])),
        element("desc", {"id": f"chart-{digest}-desc"}, escape_text(spec["description"])),
    ]
    behind = [] if theme is None else [element("rect", {**ground, "fill": plain_colour(BACKGROUND, theme)})]
    return element("svg", attributes, *words, *behind, *parts)
