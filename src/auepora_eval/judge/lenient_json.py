"""Reads objects out of what a model wrote: JSON, and what models write when they mean JSON.

Beyond JSON it knows quotes of other kinds, Python's ``True``, ``False`` and ``None``, keys without quotes, trailing
commas and line breaks inside texts. It never repairs: what cannot be read to its end is no object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ObjectScan", "ParsedObject", "find_objects", "parse_whole_object", "replace_lone_surrogates"]

_BLANK = re.compile(r"[\s\u200b\ufeff]*")
_TEXTS = {  # by the character that opens it; what closes it may not stand inside unless escaped
    opening: re.compile(rf"[^{closing}\\]*(?:\\.[^{closing}\\]*)*(?P<end>[{closing}])", re.DOTALL)
    for opening, closing in {'"': '"', "'": "'", "“": "“”", "”": "“”", "„": "“”", "‘": "‘’", "’": "‘’"}.items()
}
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_LONGEST_NUMBER = 40
_DEEPEST = 32
_BRACE = re.compile(r"[{}]")


class _NoObjectError(Exception):
    """Here is a brace, but nothing that could be an object."""


class _BrokenError(Exception):
    """An object begins here that cannot be read to its end."""


class _CutError(_BrokenError):
    """An object begins here, and the text ends before it does."""


@dataclass(frozen=True, slots=True)
class ParsedObject:
    """One object of a text."""

    value: dict[str, Any]
    spans: dict[str, tuple[int, int]]
    """Where the values of its own keys stand in the text."""
    end: int


@dataclass(frozen=True, slots=True)
class ObjectScan:
    """The complete objects of a text that stand in no other one, in order."""

    objects: list[ParsedObject] = field(default_factory=list)
    broken: bool = False
    """Whether another one begins that cannot be read."""
    truncated: bool = False
    """Whether the text ends inside of one."""


def find_objects(text: str) -> ObjectScan:
    """All objects of a text. Nothing is taken out of an object that is broken, for its parts mean something else."""
    found: list[ParsedObject] = []
    broken = False
    at = text.find("{")
    while at >= 0:
        try:
            found.append(_read(text, at))
            resume = found[-1].end
        except _NoObjectError:
            resume = at + 1
        except _CutError:
            return ObjectScan(found, broken, truncated=True)
        except _BrokenError:
            broken, resume = True, _balanced_end(text, at)
        at = text.find("{", resume) if resume >= 0 else -1
    return ObjectScan(found, broken)


def parse_whole_object(text: str) -> ParsedObject | None:
    """The object that a text is, if it is one from its first brace to its last."""
    at = _skip(text, 0)
    if not text.startswith("{", at):
        return None
    try:
        found = _read(text, at)
    except (_NoObjectError, _BrokenError):
        return None
    return found if _skip(text, found.end) == len(text) else None


def _read(text: str, at: int) -> ParsedObject:
    spans: dict[str, tuple[int, int]] = {}
    value, end = _object(text, at, 1, spans)
    return ParsedObject(value, spans, end)


def _object(
    text: str, at: int, depth: int, spans: dict[str, tuple[int, int]] | None = None
) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        try:
            key, at = _key(text, at)
        except _BrokenError:
            if found or depth > 1 or at >= len(text):
                raise
            raise _NoObjectError from None
        start = _skip(text, at)
        value, end = _value(text, start, depth)
        if key in found and found[key] != value:
            raise _BrokenError(f"'{key}' stands twice")
        found[key] = value
        if spans is not None:
            spans[key] = start, end
        at = _after(text, end, "}")
    return found, at + 1


def _array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        value, end = _value(text, at, depth)
        found.append(value)
        at = _after(text, end, "]")
    return found, at + 1


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
    if text[at : at + 1] in _TEXTS:
        key, at = _text(text, at)
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
        if depth >= _DEEPEST:
            raise _BrokenError("nested too deeply")
        return (_object if first == "{" else _array)(text, at, depth + 1)
    if first in _TEXTS:
        return _text(text, at)
    if number := _NUMBER.match(text, at):
        return _number(number[0]), number.end()
    if (word := _WORD.match(text, at)) and word[0] in _CONSTANTS:
        return _CONSTANTS[word[0]], word.end()
    raise _failure(text, word.end() if word else at)


def _text(text: str, at: int) -> tuple[str, int]:
    found = _TEXTS[text[at]].match(text, at + 1)
    if found is None:
        raise _CutError
    inside = text[at + 1 : found.start("end")]
    return replace_lone_surrogates(_ESCAPE.sub(_unescaped, inside) if "\\" in inside else inside), found.end()


def replace_lone_surrogates(text: str) -> str:
    """A text that can be encoded: halves of characters, which escapes may give, are joined or replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return _ESCAPED.get(found[2], found[0])


def _number(text: str) -> int | float:
    if len(text) > _LONGEST_NUMBER:
        raise _BrokenError("a number without end")
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if value in (float("inf"), float("-inf")):
        raise _BrokenError("no number is that large")
    return value


def _failure(text: str, at: int) -> _BrokenError:
    return _CutError() if at >= len(text) else _BrokenError(f"at {at}")


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _balanced_end(text: str, at: int) -> int:
    """Behind the brace that closes the one at ``at`` by count alone; -1 if none does."""
    depth = 0
    for brace in _BRACE.finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return -1
