"""Layout of charts: labels, colours of both themes, axis ranges and ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from ...errors import BadValueError
from ..tables import format_value, pluralize as pluralize
from ..terminal import escape_control_characters, escape_line_breaks

MAX_LABEL_LENGTH = 200
"""The maximum length of a label; an axis may show less."""
_MAX_DRAWABLE = 1e300
"""Beyond this, the difference of two numbers may overflow."""


def strip_invalid_xml(text: str) -> str:
    r"""The text without what XML forbids.

    >>> strip_invalid_xml("a\x00b\ud800c")
    'abc'
    """
    return "".join(
        mark
        for mark in text
        if mark in "\t\n\r" or "\x20" <= mark <= "\ud7ff" or "\ue000" <= mark <= "\ufffd" or mark >= "\U00010000"
    )


def clean_label(text: Any, *, longest: int = MAX_LABEL_LENGTH) -> str:
    r"""Clean a label: one line, control characters escaped, truncated.

    >>> clean_label("a\x00b\nc")
    'a\\u0000b\\nc'
    """
    line = strip_invalid_xml(escape_control_characters(escape_line_breaks(str(text)[: longest + 1])))
    return f"{line[: longest - 1]}…" if len(line) > longest else line


def unique_labels(names: Iterable[Any]) -> list[str]:
    """Clean labels, made unique: a repeated one gets a number."""
    seen: set[str] = set()
    labels = []
    for name in names:
        label = plain = clean_label(name)
        again = 1
        while label in seen:
            again += 1
            label = f"{plain} ({again})"
        seen.add(label)
        labels.append(label)
    return labels


def finite_number(value: Any) -> float | None:
    """A drawable number; ``None`` for anything else, infinite or huge."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) <= _MAX_DRAWABLE else None


def format_number(value: float) -> str:
    """A value as chart text: four decimals as in tables, fewer digits where it is large.

    >>> format_number(0.5), format_number(12345.678), format_number(-2e9)
    ('0.5000', '12345.7', '−2e+09')
    """
    digits = 3 if abs(value) >= 1e7 else 6
    text = f"{value:.{digits}g}" if abs(value) >= 100 else format_value(value)
    return text.replace("-", "−", 1) if text.startswith("-") else text


def describe(parts: Sequence[str]) -> str:
    """Join the parts of a chart's description, with a full stop."""
    text = "; ".join(part for part in parts if part)
    return f"{text}." if text and not text.endswith((".", "!", "?")) else text


# --- colours of charts: light theme colours in specs, CSS variables, and the dark theme ------------------------------

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
    if theme not in get_args(Theme):
        raise BadValueError(f"unknown theme {theme!r}; choose {' and '.join(get_args(Theme))}")
    return cast(Theme, theme)


def apply_theme(spec: Mapping[str, Any], theme: Theme) -> dict[str, Any]:
    """The spec in the colours of a theme, with its background, for tools without style sheets."""
    coloured = _replace_colours(spec, theme)
    assert isinstance(coloured, dict)
    return {**coloured, "background": plain_colour(BACKGROUND, theme)}


def _replace_colours(value: Any, theme: Theme) -> Any:
    """Replace colour strings, except in data and texts: a metric may be named like a colour."""
    if isinstance(value, Mapping):
        replaced = {}
        for key, inner in value.items():
            is_text = key in ("data", "domain", "text", "description")
            is_text |= key == "title" and not isinstance(inner, Mapping)
            replaced[key] = inner if is_text else _replace_colours(inner, theme)
        return replaced
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_replace_colours(inner, theme) for inner in value]
    return plain_colour(value, theme) if isinstance(value, str) else value


# --- axis ranges and ticks at round numbers --------------------------------------------------------------------------

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class AxisRange:
    """A numeric axis: its ends, its ticks, and their format (in d3-format notation)."""

    low: float
    high: float
    ticks: tuple[float, ...]
    tick_format: str
    log: bool = False


def linear_range(
    values: Iterable[float],
    *,
    zero: bool = False,
    within: tuple[float, float] | None = None,
    count: int = 5,
) -> AxisRange:
    """The range from a round number below all values to one above them.

    ``zero`` includes 0, ``within`` includes these two ends.
    """
    included = [*values, *(within or ()), *([0.0] if zero else [])]
    low, high = (min(included), max(included)) if included else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):  # practically equal
        room = max(abs(low), abs(high)) * 0.1 or 1.0
        low, high = (low - room if low != 0 else 0.0), high + room
    step = _step((high - low) / count)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    ticks = tuple(_round(multiple * step, step) for multiple in range(first, last + 1))
    return AxisRange(ticks[0], ticks[-1], ticks, _tick_format(step, ticks))


def count_range(highest: float) -> AxisRange:
    """The range from 0 to an integer, with ticks at integers."""
    span = linear_range([0.0, max(1.0, highest)], count=4)
    ticks = tuple(tick for tick in span.ticks if tick == int(tick))
    return AxisRange(0.0, span.high, ticks, "d" if span.high < 1e6 else ".6~g")


def log_range(values: Iterable[float]) -> AxisRange:
    """The range for positive values, with ticks at powers of ten, and between them where there are few."""
    positive = [value for value in values if value > 0] or [1.0]
    lowest, highest = min(positive), max(positive)
    first, last = math.floor(math.log10(lowest) + 1e-9), math.ceil(math.log10(highest) - 1e-9)
    last = max(last, first + 1)
    every = [_power(power) * part for power in range(first, last + 1) for part in (1.0, 2.0, 5.0)]
    low = max((tick for tick in every if tick <= lowest * (1 + 1e-9)), default=_power(first))
    high = min((tick for tick in every if tick >= highest * (1 - 1e-9) and tick > low), default=_power(last))
    ticks = [tick for tick in every if low <= tick <= high]
    if len(ticks) > 9:
        apart = math.ceil((last - first) / 8)
        ticks = [_power(power) for power in range(first, last + 1, apart) if low <= _power(power) <= high]
    return AxisRange(low, high, tuple(ticks), ".6~g", log=True)


def _power(power: int) -> float:
    return float(f"1e{power}")


def _step(rough: float) -> float:
    """The next round step size."""
    if rough <= 0:
        return 1.0
    power = math.floor(math.log10(rough))
    scale = _power(power)
    return next(part * scale for part in _STEPS if part * scale >= rough * (1 - 1e-9))


def _round(value: float, step: float) -> float:
    """The multiple of a step without rounding noise: 0.6 and not 0.6000000000000001."""
    digits = max(0, 2 - math.floor(math.log10(step)))
    return round(value, digits) + 0.0 if digits <= 300 else value  # no negative zero


def _tick_format(step: float, ticks: tuple[float, ...]) -> str:
    decimals = next((d for d in range(7) if abs(round(step, d) - step) < step * 1e-6), 7)
    return f".{decimals}f" if decimals < 7 and max(map(abs, ticks)) < 1e6 else ".6~g"
