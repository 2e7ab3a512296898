"""The marks of one layer as SVG elements, with scales, number formats and text widths."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from ...errors import BadValueError
from .layout import SERIES, strip_invalid_xml

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
    return escape(strip_invalid_xml(text))


def path_data(places: list[tuple[float, float]]) -> str:
    """The path data of a line through points."""
    return "M" + "L".join(f"{_number(x)},{_number(y)}" for x, y in places)


def _value(value: str | float) -> str:
    return escape(strip_invalid_xml(value), {'"': "&quot;"}) if isinstance(value, str) else _number(value)


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


def symbol(shape: str, x: float, y: float, size: float, paint: dict[str, Attribute], *inside: str) -> str:
    """A point of a shape at a position."""
    half = math.sqrt(size) / 2
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
        return _band_scale(domain, length, scale_spec["paddingInner"], scale_spec["paddingOuter"])
    if kind not in ("linear", "log"):
        raise BadValueError(f"unknown scale type {kind!r}; supported are linear, log and band")
    return NumberScale((domain[0], domain[1]), (length, 0.0) if upwards else (0.0, length), kind == "log")


def _band_scale(domain: Sequence[str], length: float, inner: float, outer: float) -> BandScale:
    step = length / max(1.0, len(domain) - inner + 2 * outer)
    start = (length - step * (len(domain) - inner)) / 2
    return BandScale({name: place for place, name in enumerate(domain)}, start, step, step * (1 - inner))


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
    x: Scale | None
    y: Scale | None
    width: float
    height: float
    paint: Paint

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
            right = max(right, at + wide * (1 - share) - self.width)
            lowered = _BASELINES[self.mark["baseline"]] * size
            above = max(above, size - lowered - self._position("y", row) - self.mark.get("dy", 0))
        return left, right, above

    # --- channel values ----------------------------------------------------------------------------------------------

    def _position(self, name: str, row: Row) -> float:
        """The position of a row in a channel: the middle of a band."""
        channel = self.encoding[name]
        if "value" in channel:
            fixed = channel["value"]
            return {"width": self.width, "height": self.height}[fixed] if isinstance(fixed, str) else float(fixed)
        scale = self.x if name.startswith("x") else self.y
        assert scale is not None
        return scale(row[channel["field"]])

    def _style(self, name: str, row: Row, otherwise: Any = None) -> Any:
        """The style of a row in a channel, else that of the mark."""
        channel = self.encoding.get(name)
        return self.mark.get(name, otherwise) if channel is None else lookup_range(channel, row)

    def _colour(self, row: Row) -> str:
        return self.paint(self._style("color", row, SERIES[0]))

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
        x, y = self._position("x", row), self._position("y", row)
        return symbol(self._style("shape", row, "circle"), x, y, size, self._fill(row), *self._tooltip(row))

    def _rule(self, row: Row) -> str:
        x1, x2 = self._rule_ends("x", row, self.width)
        y1, y2 = self._rule_ends("y", row, self.height)
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
        scale = self.x if name == "x" else self.y
        if isinstance(scale, BandScale):
            start = scale.left(row[self.encoding[name]["field"]])
            return start, start + scale.width
        one, other = sorted([self._position(name, row), self._position(f"{name}2", row)])
        return one, other

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
