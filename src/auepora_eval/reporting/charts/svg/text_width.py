"""Estimated text widths, without a font; rather too wide than too narrow."""

from __future__ import annotations

import unicodedata

__all__ = ["BOLD", "measure_width", "truncate", "wrap_lines"]

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
