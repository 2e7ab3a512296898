"""Labels and descriptions on charts: single-line XML-safe texts, unique names, formatted numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..control_characters import escape_control_characters
from ..tables import escape_line_breaks, format_value

__all__ = [
    "MAX_LABEL_LENGTH",
    "clean_label",
    "describe",
    "finite_number",
    "format_number",
    "pluralize",
    "strip_invalid_xml",
    "unique_labels",
]

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


def pluralize(count: int, one: str, several: str | None = None) -> str:
    """``1 query``, ``1,200 queries``."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def describe(parts: Sequence[str]) -> str:
    """Join the parts of a chart's description, with a full stop."""
    text = "; ".join(part for part in parts if part)
    return f"{text}." if text and not text.endswith((".", "!", "?")) else text
