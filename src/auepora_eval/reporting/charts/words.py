"""Names and sentences on charts: any text as one line that XML can hold, every name of a chart once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..printable import printable
from ..tables import figure, one_line

__all__ = ["LONGEST", "counted", "in_chart", "in_xml", "number", "shown_number", "told", "unique_labels"]

LONGEST = 200
"""So many characters of a name are kept; an axis shows fewer."""
_LARGEST = 1e300
"""Beyond it, the distance of two numbers is none any more."""


def in_xml(text: str) -> str:
    r"""The text without what XML forbids.

    >>> in_xml("a\x00b\ud800c")
    'abc'
    """
    return "".join(
        mark
        for mark in text
        if mark in "\t\n\r" or "\x20" <= mark <= "\ud7ff" or "\ue000" <= mark <= "\ufffd" or mark >= "\U00010000"
    )


def in_chart(text: Any, *, longest: int = LONGEST) -> str:
    r"""Any name as a chart shows it: one line, control characters written out, cut where it is endless.

    >>> in_chart("a\x00b\nc")
    'a\\u0000b\\nc'
    """
    line = in_xml(printable(one_line(str(text)[: longest + 1])))
    return f"{line[: longest - 1]}…" if len(line) > longest else line


def unique_labels(names: Iterable[Any]) -> list[str]:
    """Names as a chart shows them, each once: a second of the same look gets a number."""
    seen: set[str] = set()
    labels = []
    for name in names:
        label = plain = in_chart(name)
        again = 1
        while label in seen:
            again += 1
            label = f"{plain} ({again})"
        seen.add(label)
        labels.append(label)
    return labels


def number(value: Any) -> float | None:
    """A number that can be drawn; ``None`` for what is none, not finite, or beyond all measure."""
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and abs(found) <= _LARGEST else None


def shown_number(value: float) -> str:
    """A value on a chart: four decimals as in tables, fewer digits where it is large.

    >>> shown_number(0.5), shown_number(12345.678), shown_number(-2e9)
    ('0.5000', '12345.7', '−2e+09')
    """
    digits = 3 if abs(value) >= 1e7 else 6
    text = f"{value:.{digits}g}" if abs(value) >= 100 else figure(value)
    return text.replace("-", "−", 1) if text.startswith("-") else text


def counted(count: int, one: str, several: str | None = None) -> str:
    """``1 query``, ``1,200 queries``."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def told(parts: Sequence[str]) -> str:
    """Parts of a sentence as one, with a full stop."""
    text = "; ".join(part for part in parts if part)
    return f"{text}." if text and not text.endswith((".", "!", "?")) else text
