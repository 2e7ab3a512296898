"""One view: its scales, axes, layers and legend, and their layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from ..theme import LINE, MUTED, TEXT
from .formats import format_tick
from .legends import Legend, build_legend
from .marks import TEXT_SIZE, Layer, Paint
from .scales import BandScale, Scale, build_scale
from .text_width import BOLD, measure_width, truncate
from .xml import Attribute, element, escape_text

__all__ = ["ChartView"]

_TITLE_SIZE = 12.0
_LABEL_PADDING = 8.0
"""Between a label and the plot."""


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
        return [Layer(one, x, y, self.width, self.height, self.paint) for one in self.spec["layer"]]

    @cached_property
    def legend(self) -> Legend:
        """The legend of its colours and shapes."""
        return build_legend(self.spec["layer"])

    @property
    def left(self) -> float:
        """The room that the vertical axis needs."""
        labels = [measure_width(text, TEXT_SIZE) for text, _ in self._labels("y")]
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
        return self._heading_height + max(layer.overhang()[2] for layer in self.layers)

    @property
    def _heading_height(self) -> float:
        return (_TITLE_SIZE + 10 if "title" in self.spec else 0.0) + self.legend.height(self.width + self.right)

    @property
    def below(self) -> float:
        """The room that the horizontal axis needs."""
        labels = self._labels("x")
        axis = TEXT_SIZE + _LABEL_PADDING if labels else 2.0
        if labels and self._axis("x").get("labelAngle"):
            axis = (
                _LABEL_PADDING
                + TEXT_SIZE
                + max(measure_width(text, TEXT_SIZE) for text, _ in labels) * math.sin(math.radians(40))
            )
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
        legend = self.legend.render(self.width + self.right, self.paint)
        if legend:
            parts.append(element("g", {"transform": f"translate(0,{top:g})"}, legend))
        parts += [self._grid("x"), self._grid("y"), *(layer.render(number) for number, layer in enumerate(self.layers))]
        parts += [self._render_axis("x"), self._render_axis("y")]
        return "".join(parts)

    # --- axes --------------------------------------------------------------------------------------------------------

    def _axis(self, name: str) -> Mapping[str, Any]:
        channel = self._channels.get(name)
        axis: Mapping[str, Any] = {} if channel is None else channel.get("axis") or {}
        return axis

    def _labels(self, name: str) -> list[tuple[str, float]]:
        """The displayed labels of an axis and their positions."""
        axis, scale = self._axis(name), self._scale(name)
        if scale is None or not axis or axis.get("labels") is False:
            return []
        if isinstance(scale, BandScale):
            limit = axis["labelLimit"]
            return [(truncate(label, limit, TEXT_SIZE), scale(label)) for label in scale.places]
        return _thin_labels([(format_tick(value, axis["format"]), scale(value)) for value in axis["values"]], name)

    def _overhang(self) -> tuple[float, float]:
        """How far the labels below the plot extend beyond its sides."""
        left = right = 0.0
        slanted = bool(self._axis("x").get("labelAngle"))
        for text, at in self._labels("x"):
            wide = measure_width(text, TEXT_SIZE)
            left = max(left, (wide * math.cos(math.radians(40)) if slanted else wide / 2) - at)
            right = max(right, (0.0 if slanted else wide / 2) + at - self.width)
        return left, right

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
        slanted = name == "x" and bool(self._axis("x").get("labelAngle"))
        full = self._full_labels(name)
        for (text, at), whole in zip(self._labels(name), full, strict=True):
            x, y = (
                (at, self.height + _LABEL_PADDING + 0.8 * TEXT_SIZE)
                if name == "x"
                else (-_LABEL_PADDING - self._left_text_width, at + 0.35 * TEXT_SIZE)
            )
            anchor = "end" if name == "y" or slanted else "middle"
            attributes: dict[str, Attribute] = {"x": x, "y": y, "text-anchor": anchor, "font-size": TEXT_SIZE}
            if slanted:
                attributes["transform"] = f"rotate(-40 {x:.1f} {y:.1f})"
            colour = self.paint(TEXT if name == "y" else MUTED)
            parts.append(
                element("text", {**attributes, "fill": colour}, escape_text(text), *_full_text_tooltip(text, whole))
            )
        title = self._axis(name).get("title")
        if title:
            parts.append(self._axis_title(name, title))
        return element("g", {"class": f"axis axis-{name}"}, *parts) if parts else ""

    def _full_labels(self, name: str) -> list[str]:
        scale = self._scale(name)
        if isinstance(scale, BandScale):
            return list(scale.places) if self._labels(name) else []
        return [text for text, _ in self._labels(name)]

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
    return [] if shown_text == whole else [element("title", None, escape_text(whole))]


def _thin_labels(labels: list[tuple[str, float]], name: str) -> list[tuple[str, float]]:
    """Drop every other number label while two would overlap."""
    kept = labels
    while len(kept) > 2 and any(
        abs(after - before)
        < ((measure_width(one, TEXT_SIZE) + measure_width(other, TEXT_SIZE)) / 2 if name == "x" else TEXT_SIZE)
        for (one, before), (other, after) in pairwise(kept)
    ):
        kept = kept[::2]
    return kept
