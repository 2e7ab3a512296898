"""The shapes of points; the size is the area of the surrounding square."""

from __future__ import annotations

import math

from ....core.errors import BadValueError
from .xml import Attribute, element

__all__ = ["symbol"]

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


def symbol(
    shape: str, x: float, y: float, size: float, paint: dict[str, Attribute], *inside: str, name: str = ""
) -> str:
    """A point of a shape at a position."""
    half = math.sqrt(size) / 2
    named: dict[str, Attribute] = {"class": name}
    if shape == "circle":
        return element("circle", {**named, "cx": x, "cy": y, "r": half, **paint}, *inside)
    if shape not in _CORNERS:
        raise BadValueError(f"unknown shape {shape!r}; supported are circle, {', '.join(_CORNERS)}")
    corners = " ".join(f"{x + half * right:.2f},{y + half * down:.2f}" for right, down in _CORNERS[shape])
    return element("polygon", {**named, "points": corners, **paint}, *inside)
