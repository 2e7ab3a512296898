"""One view: its scales, axes, layers and legend, and how much room each of them takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from ..theme import LINE, MUTED, TEXT
from .formats import formatted
from .legends import Legend, legend_of
from .letters import BOLD, cut_to, width_of
from .marks import TEXT_SIZE, Layer, Paint
from .scales import Bands, Scale, scale_of
from .xml import Attribute, element, shown

__all__ = ["View"]

_TITLE = 12.0
_AWAY = 8.0
"""Between a label and the plot."""


@dataclass(frozen=True)
class View:
    """A view of a spec, so and so wide. Margins are what labels need around the plot."""

    spec: Mapping[str, Any]
    width: float
    paint: Paint

    @property
    def height(self) -> float:
        """The height of the plot itself."""
        return float(self.spec["height"])

    @cached_property
    def _channels(self) -> dict[str, Mapping[str, Any]]:
        """By axis the channel that describes it: all layers say the same."""
        found: dict[str, Mapping[str, Any]] = {}
        for layer in self.spec["layer"]:
            for name in ("x", "y"):
                channel = layer["encoding"].get(name)
                if channel is not None and "scale" in channel:
                    found.setdefault(name, channel)
        return found

    def _scale(self, name: str) -> Scale | None:
        channel = self._channels.get(name)
        if channel is None:
            return None
        return scale_of(channel, self.width if name == "x" else self.height, upwards=name == "y")

    @cached_property
    def layers(self) -> list[Layer]:
        """Its layers, on their scales."""
        x, y = self._scale("x"), self._scale("y")
        return [Layer(one, x, y, self.width, self.height, self.paint) for one in self.spec["layer"]]

    @cached_property
    def legend(self) -> Legend:
        """What its colours and shapes mean."""
        return legend_of(self.spec["layer"])

    @property
    def left(self) -> float:
        """The room that the vertical axis needs."""
        labels = [width_of(text, TEXT_SIZE) for text, _ in self._labels("y")]
        axis = max(labels, default=0.0) + (_AWAY if labels else 0.0)
        title = TEXT_SIZE + 8 if self._axis("y").get("title") else 0.0
        return max(self._aside + axis + title, self._overhang()[0])

    @cached_property
    def _aside(self) -> float:
        """How far texts reach out of the plot to the left; the labels of the axis stand beyond them."""
        return max(layer.reach()[0] for layer in self.layers)

    @property
    def right(self) -> float:
        """The room that what stands beside the plot needs."""
        return max([4.0, *(layer.reach()[1] for layer in self.layers), self._overhang()[1]])

    @property
    def above(self) -> float:
        """The room of its title and legend."""
        return self._headed + max(layer.reach()[2] for layer in self.layers)

    @property
    def _headed(self) -> float:
        return (_TITLE + 10 if "title" in self.spec else 0.0) + self.legend.height(self.width + self.right)

    @property
    def below(self) -> float:
        """The room that the horizontal axis needs."""
        labels = self._labels("x")
        axis = TEXT_SIZE + _AWAY if labels else 2.0
        if labels and self._axis("x").get("labelAngle"):
            axis = _AWAY + TEXT_SIZE + max(width_of(text, TEXT_SIZE) for text, _ in labels) * math.sin(math.radians(40))
        return axis + (TEXT_SIZE + 6 if self._axis("x").get("title") else 0.0)

    def drawn(self) -> str:
        """Everything, with the upper left corner of the plot at zero."""
        parts = []
        top = -self.above
        if "title" in self.spec:
            place: dict[str, Attribute] = {"x": 0, "y": top + _TITLE, "font-size": _TITLE, "font-weight": "600"}
            whole = self.spec["title"]["text"]
            title = cut_to(whole, (self.width + self.right) / BOLD, _TITLE)
            parts.append(element("text", {**place, "fill": self.paint(TEXT)}, shown(title), *_in_full(title, whole)))
            top += _TITLE + 10
        legend = self.legend.drawn(self.width + self.right, self.paint)
        if legend:
            parts.append(element("g", {"transform": f"translate(0,{top:g})"}, legend))
        parts += [self._grid("x"), self._grid("y"), *(layer.drawn(number) for number, layer in enumerate(self.layers))]
        parts += [self._axis_drawn("x"), self._axis_drawn("y")]
        return "".join(parts)

    # --- axes --------------------------------------------------------------------------------------------------------

    def _axis(self, name: str) -> Mapping[str, Any]:
        channel = self._channels.get(name)
        axis: Mapping[str, Any] = {} if channel is None else channel.get("axis") or {}
        return axis

    def _labels(self, name: str) -> list[tuple[str, float]]:
        """The labels of an axis, as they are shown, and where."""
        axis, scale = self._axis(name), self._scale(name)
        if scale is None or not axis or axis.get("labels") is False:
            return []
        if isinstance(scale, Bands):
            limit = axis["labelLimit"]
            return [(cut_to(label, limit, TEXT_SIZE), scale(label)) for label in scale.places]
        return _apart([(formatted(value, axis["format"]), scale(value)) for value in axis["values"]], name)

    def _overhang(self) -> tuple[float, float]:
        """How far the labels below the plot reach beyond it."""
        left = right = 0.0
        slanted = bool(self._axis("x").get("labelAngle"))
        for text, at in self._labels("x"):
            wide = width_of(text, TEXT_SIZE)
            left = max(left, (wide * math.cos(math.radians(40)) if slanted else wide / 2) - at)
            right = max(right, (0.0 if slanted else wide / 2) + at - self.width)
        return left, right

    def _grid(self, name: str) -> str:
        axis, scale = self._axis(name), self._scale(name)
        if scale is None or isinstance(scale, Bands) or not axis.get("grid"):
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

    def _axis_drawn(self, name: str) -> str:
        parts = []
        slanted = name == "x" and bool(self._axis("x").get("labelAngle"))
        full = self._full_labels(name)
        for (text, at), whole in zip(self._labels(name), full, strict=True):
            x, y = (
                (at, self.height + _AWAY + 0.8 * TEXT_SIZE)
                if name == "x"
                else (-_AWAY - self._aside, at + 0.35 * TEXT_SIZE)
            )
            anchor = "end" if name == "y" or slanted else "middle"
            place: dict[str, Attribute] = {"x": x, "y": y, "text-anchor": anchor, "font-size": TEXT_SIZE}
            if slanted:
                place["transform"] = f"rotate(-40 {x:.1f} {y:.1f})"
            colour = self.paint(TEXT if name == "y" else MUTED)
            parts.append(element("text", {**place, "fill": colour}, shown(text), *_in_full(text, whole)))
        title = self._axis(name).get("title")
        if title:
            parts.append(self._axis_title(name, title))
        return element("g", {"class": f"axis axis-{name}"}, *parts) if parts else ""

    def _full_labels(self, name: str) -> list[str]:
        scale = self._scale(name)
        if isinstance(scale, Bands):
            return list(scale.places) if self._labels(name) else []
        return [text for text, _ in self._labels(name)]

    def _axis_title(self, name: str, whole: str) -> str:
        title = cut_to(whole, self.width if name == "x" else self.height, TEXT_SIZE)
        inside = [shown(title), *_in_full(title, whole)]
        common: dict[str, Attribute] = {"text-anchor": "middle", "font-size": TEXT_SIZE, "fill": self.paint(MUTED)}
        if name == "x":
            return element("text", {"x": self.width / 2, "y": self.height + self.below - 2, **common}, *inside)
        x, y = -self.left + TEXT_SIZE, self.height / 2
        turned: dict[str, Attribute] = {"x": x, "y": y, "transform": f"rotate(-90 {x:.1f} {y:.1f})"}
        return element("text", {**turned, **common}, *inside)


def _in_full(shown_text: str, whole: str) -> list[str]:
    """Where a text was cut, the whole of it for the pointer."""
    return [] if shown_text == whole else [element("title", None, shown(whole))]


def _apart(labels: list[tuple[str, float]], name: str) -> list[tuple[str, float]]:
    """The labels of numbers: where two would run into each other, every other one of them."""
    kept = labels
    while len(kept) > 2 and any(
        abs(after - before)
        < ((width_of(one, TEXT_SIZE) + width_of(other, TEXT_SIZE)) / 2 if name == "x" else TEXT_SIZE)
        for (one, before), (other, after) in pairwise(kept)
    ):
        kept = kept[::2]
    return kept
