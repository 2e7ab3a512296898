"""Legends: the meaning of colours, shapes and dashes, in a line above a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..theme import MUTED, TEXT
from .marks import TEXT_SIZE, Paint
from .symbols import symbol
from .text_width import measure_width, truncate
from .xml import Attribute, element, escape_text

__all__ = ["Legend", "build_legend"]

_CHANNELS = ("color", "shape", "strokeDash", "opacity")
_ROW_HEIGHT = 18.0
_SYMBOL_WIDTH = 22.0
"""The width of the symbol before a name."""
_GAP = 16.0


@dataclass(slots=True)
class _LegendEntry:
    """One name of a legend, with its style in each channel."""

    name: str
    looks: dict[str, Any] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    """The marks that use it."""


@dataclass(frozen=True, slots=True)
class Legend:
    """The entries of a view's legend, wrapped into lines."""

    entries: Sequence[_LegendEntry]
    limit: float

    def lines(self, width: float) -> list[list[_LegendEntry]]:
        """The entries, line by line."""
        lines: list[list[_LegendEntry]] = [[]]
        used = 0.0
        for entry in self.entries:
            wide = self._width(entry)
            if lines[-1] and used + wide > width:
                lines.append([])
                used = 0.0
            lines[-1].append(entry)
            used += wide
        return [line for line in lines if line]

    def height(self, width: float) -> float:
        """The height in pixels."""
        lines = len(self.lines(width))
        return lines * _ROW_HEIGHT + 6 if lines else 0.0

    def render(self, width: float, paint: Paint) -> str:
        """The legend as SVG, relative to its upper left corner."""
        parts = []
        for number, line in enumerate(self.lines(width)):
            x, y = 0.0, number * _ROW_HEIGHT + _ROW_HEIGHT / 2
            for entry in line:
                parts.append(_entry_symbol(entry, x, y, paint))
                label = truncate(entry.name, min(self.limit, width - _SYMBOL_WIDTH), TEXT_SIZE)
                text_attributes: dict[str, Attribute] = {
                    "x": x + _SYMBOL_WIDTH,
                    "y": y + 0.35 * TEXT_SIZE,
                    "font-size": TEXT_SIZE,
                    "fill": paint(TEXT),
                }
                parts.append(element("text", text_attributes, escape_text(label)))
                x += self._width(entry)
        return element("g", {"class": "legend"}, *parts) if parts else ""

    def _width(self, entry: _LegendEntry) -> float:
        return _SYMBOL_WIDTH + min(self.limit, measure_width(entry.name, TEXT_SIZE)) + _GAP


def build_legend(layers: Sequence[Mapping[str, Any]]) -> Legend:
    """The legend of a view: every name once, whichever channels and layers show it."""
    entries: dict[str, _LegendEntry] = {}
    limit = 320.0
    for layer in layers:
        for name in _CHANNELS:
            channel = layer["encoding"].get(name)
            if channel is None or channel.get("legend") is None:
                continue
            limit = channel["legend"].get("labelLimit", limit)
            for label, look in zip(channel["scale"]["domain"], channel["scale"]["range"], strict=True):
                entry = entries.setdefault(label, _LegendEntry(label))
                entry.looks[name] = look
                entry.kinds.add(layer["mark"]["type"])
                entry.looks.setdefault("plain", layer["mark"].get("color", MUTED))
    return Legend(list(entries.values()), limit)


def _entry_symbol(entry: _LegendEntry, x: float, y: float, paint: Paint) -> str:
    colour = paint(entry.looks.get("color", entry.looks["plain"]))
    middle, parts = x + _SYMBOL_WIDTH / 2 - 3, []
    if entry.kinds & {"line", "rule"}:
        dash = entry.looks.get("strokeDash")
        dashes = None if not dash or list(dash) == [1, 0] else ",".join(map(str, dash))
        line: dict[str, Attribute] = {
            "x1": x,
            "y1": y,
            "x2": x + _SYMBOL_WIDTH - 6,
            "y2": y,
            "stroke": colour,
            "stroke-width": 2.0,
        }
        parts.append(element("line", {**line, "stroke-dasharray": dashes}))
    if "point" in entry.kinds:
        parts.append(symbol(entry.looks.get("shape", "circle"), middle, y, 60, {"fill": colour}))
    elif entry.kinds & {"bar", "rect", "area"} and not parts:
        parts.append(symbol("square", middle, y, 100, {"fill": colour, "opacity": entry.looks.get("opacity")}))
    return "".join(parts)
