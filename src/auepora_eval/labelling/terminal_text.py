"""Texts as cells of a terminal: how wide they are, wrapped and cut to fit, with nothing that moves the cursor."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ..reporting.control_characters import escape_control_characters

__all__ = ["cell_width", "one_line", "sanitise", "truncate", "wrap"]

_TAB = "    "
_LINE_ENDS = str.maketrans({"\u2028": "\n", "\u2029": "\n", "\t": _TAB})
_SOFT_HYPHEN = "\u00ad"


def sanitise(text: str) -> str:
    """The text with control characters written out, and without half characters; its only line end is ``\\n``."""
    plain = text.replace("\r\n", "\n").translate(_LINE_ENDS)
    return escape_control_characters(plain.encode("utf-8", "replace").decode() if not plain.isascii() else plain)


def one_line(text: str) -> str:
    """The same, in one line."""
    return sanitise(text).replace("\n", " ")


@lru_cache(maxsize=1 << 12)
def _width(character: str) -> int:
    if character == _SOFT_HYPHEN:
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cell_width(text: str) -> int:
    """How many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def truncate(text: str, width: int) -> str:
    """The text in at most so many cells; where something is cut off, an ellipsis says so."""
    if cell_width(text) <= width:
        return text
    return _fitting(text, width - 1) + "…" if width > 0 else ""


def _fitting(text: str, width: int) -> str:
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return text[:place]
    return text


@lru_cache(maxsize=1 << 9)
def wrap(text: str, width: int) -> tuple[str, ...]:
    """The lines of a text, each of at most ``width`` cells, broken between words where that is possible.

    The text is made safe first. A character wider than the line is left out.
    """
    paragraphs = sanitise(text).split("\n")
    return tuple(line for paragraph in paragraphs for line in _paragraph(paragraph.rstrip(), max(1, width)))


def _paragraph(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in _words(text):
        size = cell_width(word)
        if cell_width(line) + size <= width:
            line += word
            continue
        if line.strip():
            yield line.rstrip()
            line, word_left = "", word.lstrip(" ")
        else:
            line, word_left = "", line + word
        *whole, line = _chopped(word_left, width)
        yield from whole
    yield line.rstrip()


def _chopped(word: str, width: int) -> list[str]:
    """Pieces of a word that is too long for a line, in one pass; a character wider than a line is left out."""
    pieces, start, taken = [], 0, 0
    for place, character in enumerate(word):
        size = _width(character)
        if taken + size > width:
            if taken:
                pieces.append(word[start:place])
            start, taken = place, 0
            if size > width:
                start = place + 1
                continue
        taken += size
    return [*pieces, word[start:]]


def _words(text: str) -> Iterator[str]:
    """Pieces a line may be broken between: a word with the blanks before it; a wide character is a word."""
    start, inside = 0, False
    for place, character in enumerate(text):
        wide = _width(character) == 2
        begins = (character == " " and inside) or (wide and place > start)
        if begins:
            yield text[start:place]
            start, inside = place, False
        if character != " ":
            inside = True
    yield text[start:]
