"""Colours of charts: light theme colours in specs, CSS variables, and the dark theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from ...core.errors import BadValueError

__all__ = [
    "BACKGROUND",
    "BAD",
    "DASHES",
    "GOOD",
    "LINE",
    "MUTED",
    "SERIES",
    "SHAPES",
    "TEXT",
    "Theme",
    "apply_theme",
    "css_colour",
    "plain_colour",
    "require_theme",
]

Theme = Literal["light", "dark"]

TEXT, MUTED, LINE, BACKGROUND = "#1b1e23", "#5c6570", "#d9dde2", "#ffffff"
GOOD, BAD = "#1a7f4b", "#c0392b"
SERIES = ("#4269d0", "#c4621b", "#1f8a82", "#b3478f", "#7a7a1c", "#6b5b95")
"""The colours of series. A spec is always written in the colours of the light theme."""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
"""Dashes and shapes accompany the colours, so that series differ without them."""

_VARIABLES = {
    TEXT: "--fg",
    MUTED: "--muted",
    LINE: "--line",
    BACKGROUND: "--bg",
    GOOD: "--good",
    BAD: "--bad",
    **{colour: f"--chart-{number}" for number, colour in enumerate(SERIES, start=1)},
}
_DARK = {
    TEXT: "#e8eaed",
    MUTED: "#a3acb8",
    LINE: "#3a4048",
    BACKGROUND: "#16181c",
    GOOD: "#5fd08f",
    BAD: "#ff8a7a",
    **dict(zip(SERIES, ("#8fa8ff", "#f0a35e", "#5ecfc4", "#f08cc8", "#cfcf6a", "#b9a7ef"), strict=True)),
}


def css_colour(colour: str) -> str:
    """The colour as a CSS variable with the colour itself as the fallback.

    >>> css_colour("#4269d0")
    'var(--chart-1, #4269d0)'
    """
    variable = _VARIABLES.get(colour)
    return colour if variable is None else f"var({variable}, {colour})"


def plain_colour(colour: str, theme: Theme) -> str:
    """The colour in a theme."""
    return _DARK.get(colour, colour) if theme == "dark" else colour


def require_theme(theme: str) -> Theme:
    """The theme of that name."""
    for known in get_args(Theme):
        if theme == known:
            return known  # type: ignore[no-any-return]
    raise BadValueError(f"unknown theme {theme!r}; choose {' and '.join(get_args(Theme))}")


def apply_theme(spec: Mapping[str, Any], theme: Theme) -> dict[str, Any]:
    """The spec in the colours of a theme, with its background, for tools without style sheets."""
    coloured = _replace_colours(spec, theme)
    assert isinstance(coloured, dict)
    return {**coloured, "background": plain_colour(BACKGROUND, theme)}


def _replace_colours(value: Any, theme: Theme) -> Any:
    """Replace colour strings, except in data and texts: a metric may be named like a colour."""
    if isinstance(value, Mapping):
        return {
            key: inner
            if key in ("data", "domain", "text", "title", "description")
            and not (key == "title" and isinstance(inner, Mapping))
            else _replace_colours(inner, theme)
            for key, inner in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_replace_colours(inner, theme) for inner in value]
    return plain_colour(value, theme) if isinstance(value, str) else value
