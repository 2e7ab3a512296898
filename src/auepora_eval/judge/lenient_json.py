"""Lenient parser for the JSON objects in a model's reply.

Beyond JSON it accepts other kinds of quotes, Python's ``True``, ``False`` and ``None``, keys without quotes, trailing
commas and line breaks inside strings. It never repairs: an object that cannot be parsed to its end is rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ObjectScan", "ParsedObject", "find_objects", "parse_whole_object", "replace_lone_surrogates"]

_BLANK = re.compile(r"[\s\u200b\ufeff]*")
_STRINGS = {  # by opening quote; the closing quote must be escaped inside
    opening: re.compile(rf"[^{closing}\\]*(?:\\.[^{closing}\\]*)*(?P<end>[{closing}])", re.DOTALL)
    for opening, closing in {'"': '"', "'": "'", "“": "“”", "”": "“”", "„": "“”", "‘": "‘’", "’": "‘’"}.items()
}
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_MAX_NUMBER_CHARS = 40
_MAX_DEPTH = 32
_BRACE = re.compile(r"[{}]")


class _NoObjectError(Exception):
    """A brace that does not start an object."""


class _BrokenError(Exception):
    """An object that cannot be parsed to its end."""


class _TruncatedError(_BrokenError):
    """An object that is not closed before the text ends."""


@dataclass(frozen=True, slots=True)
class ParsedObject:
    """One object in a text."""

    value: dict[str, Any]
    spans: dict[str, tuple[int, int]]
    """Positions in the text of the values of its own keys."""
    end: int


@dataclass(frozen=True, slots=True)
class ObjectScan:
    """The outermost complete objects of a text, in order."""

    objects: list[ParsedObject] = field(default_factory=list)
    broken: bool = False
    """Whether there is an object that cannot be parsed."""
    truncated: bool = False
    """Whether the text ends inside an object."""


def find_objects(text: str) -> ObjectScan:
    """All objects of a text. The parts of a broken object are ignored, because they mean something else."""
    objects: list[ParsedObject] = []
    broken = False
    at = text.find("{")
    while at >= 0:
        try:
            objects.append(_read(text, at))
            resume = objects[-1].end
        except _NoObjectError:
            resume = at + 1
        except _TruncatedError:
            return ObjectScan(objects, broken, truncated=True)
        except _BrokenError:
            broken, resume = True, _balanced_end(text, at)
        at = text.find("{", resume) if resume >= 0 else -1
    return ObjectScan(objects, broken)


def parse_whole_object(text: str) -> ParsedObject | None:
    """The object if the whole text is one; else ``None``."""
    at = _skip(text, 0)
    if not text.startswith("{", at):
        return None
    try:
        parsed = _read(text, at)
    except (_NoObjectError, _BrokenError):
        return None
    return parsed if _skip(text, parsed.end) == len(text) else None


def _read(text: str, at: int) -> ParsedObject:
    spans: dict[str, tuple[int, int]] = {}
    value, end = _parse_object(text, at, 1, spans)
    return ParsedObject(value, spans, end)


def _parse_object(
    text: str, at: int, depth: int, spans: dict[str, tuple[int, int]] | None = None
) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        try:
            key, at = _key(text, at)
        except _BrokenError:
            if members or depth > 1 or at >= len(text):
                raise
            raise _NoObjectError from None
        start = _skip(text, at)
        value, end = _value(text, start, depth)
        if key in members and members[key] != value:
            raise _BrokenError(f"'{key}' stands twice")
        members[key] = value
        if spans is not None:
            spans[key] = start, end
        at = _after(text, end, "}")
    return members, at + 1


def _parse_array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        value, end = _value(text, at, depth)
        items.append(value)
        at = _after(text, end, "]")
    return items, at + 1


def _after(text: str, at: int, closing: str) -> int:
    """Where the next item begins, or where the closing bracket stands."""
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if not text.startswith(closing, at):
        raise _failure(text, at)
    return at


def _key(text: str, at: int) -> tuple[str, int]:
    """A key and where its value may begin."""
    if text[at : at + 1] in _STRINGS:
        key, at = _parse_string(text, at)
    elif word := _WORD.match(text, at):
        key, at = word[0], word.end()
    else:
        raise _failure(text, at)
    at = _skip(text, at)
    if not text.startswith(":", at):
        raise _failure(text, at)
    return key, at + 1


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    first = text[at : at + 1]
    if first in ("{", "["):
        if depth >= _MAX_DEPTH:
            raise _BrokenError("nested too deeply")
        return (_parse_object if first == "{" else _parse_array)(text, at, depth + 1)
    if first in _STRINGS:
        return _parse_string(text, at)
    if number := _NUMBER.match(text, at):
        return _parse_number(number[0]), number.end()
    if (word := _WORD.match(text, at)) and word[0] in _CONSTANTS:
        return _CONSTANTS[word[0]], word.end()
    raise _failure(text, word.end() if word else at)


def _parse_string(text: str, at: int) -> tuple[str, int]:
    match = _STRINGS[text[at]].match(text, at + 1)
    if match is None:
        raise _TruncatedError
    inside = text[at + 1 : match.start("end")]
    return replace_lone_surrogates(_ESCAPE.sub(_unescape, inside) if "\\" in inside else inside), match.end()


def replace_lone_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which escapes may produce, replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[0])


def _parse_number(text: str) -> int | float:
    if len(text) > _MAX_NUMBER_CHARS:
        raise _BrokenError("a number without end")
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if value in (float("inf"), float("-inf")):
        raise _BrokenError("no number is that large")
    return value


def _failure(text: str, at: int) -> _BrokenError:
    return _TruncatedError() if at >= len(text) else _BrokenError(f"at {at}")


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _balanced_end(text: str, at: int) -> int:
    """The position after the brace that balances the one at ``at``; -1 if there is none."""
    depth = 0
    for brace in _BRACE.finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return -1
