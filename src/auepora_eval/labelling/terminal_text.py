"""Text in terminal cells: width, wrapping and truncation, without control characters."""

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
    """The text with control characters escaped and lone surrogates replaced; its only line end is ``\\n``."""
    plain = text.replace("\r\n", "\n").translate(_LINE_ENDS)
    return escape_control_characters(plain.encode("utf-8", "replace").decode() if not plain.isascii() else plain)


def one_line(text: str) -> str:
    """The sanitised text on one line."""
    return sanitise(text).replace("\n", " ")


@lru_cache(maxsize=1 << 12)
def _width(character: str) -> int:
    if character == _SOFT_HYPHEN:
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cell_width(text: str) -> int:
    """Width of a text in cells."""
    return len(text) if text.isascii() else sum(map(_width, text))


def truncate(text: str, width: int) -> str:
    """The text in at most ``width`` cells, with an ellipsis if it is truncated."""
    if cell_width(text) <= width:
        return text
    return _prefix(text, width - 1) + "…" if width > 0 else ""


def _prefix(text: str, width: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += _width(character)
        if used > width:
            return text[:index]
    return text


@lru_cache(maxsize=1 << 9)
def wrap(text: str, width: int) -> tuple[str, ...]:
    """The lines of a text, each of at most ``width`` cells, broken between words if possible.

    The text is sanitised first. A character wider than the line is dropped.
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
        *whole, line = _split_word(word_left, width)
        yield from whole
    yield line.rstrip()


def _split_word(word: str, width: int) -> list[str]:
    """Pieces of a word that is too long for a line; a character wider than a line is dropped."""
    pieces, start, used = [], 0, 0
    for index, character in enumerate(word):
        size = _width(character)
        if used + size > width:
            if used:
                pieces.append(word[start:index])
            start, used = index, 0
            if size > width:
                start = index + 1
                continue
        used += size
    return [*pieces, word[start:]]


def _words(text: str) -> Iterator[str]:
    """Units between which a line may break: a word with its leading blanks, or a wide character."""
    start, inside = 0, False
    for index, character in enumerate(text):
        wide = _width(character) == 2
        begins = (character == " " and inside) or (wide and index > start)
        if begins:
            yield text[start:index]
            start, inside = index, False
        if character != " ":
            inside = True
    yield text[start:]
