"""Scales: the positions of values in a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import BadValueError

__all__ = ["BandScale", "NumberScale", "Scale", "build_scale"]


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
