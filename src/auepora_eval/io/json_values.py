"""JSON values of a file: one per line, written over several lines, or the items of one array.

A file is first cut into pieces, one for each value, which whoever reads them makes into what they need: spans, records.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .codec import LineError
from .files import read_bytes, read_lines
from .hints import RowSchema
from .problem_messages import TOO_DEEP, decoding_problem, first_invalid_value
from .reader_types import Problems
from .repeated_keys import warn_repeated_keys

__all__ = ["TOO_LONG", "JsonValue", "parse_json", "read_values", "syntax_problem"]

TOO_LONG = "an integer has too many digits"
_NO_SCHEMA = RowSchema("values", {}, "", ())
_SPACE = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s,\[\]]*")
_UNEXPECTED_END = "not valid JSON: the file ends"

Piece = tuple[int, bytes | LineError]
"""The line on which a value begins, and its bytes, or why there is none."""


class _SeparatorError(LineError):
    """What is wrong between two values; it is in none of them."""


class JsonValue(NamedTuple):
    """One value of a file, and where it stands."""

    number: int
    """Counted from 1 over all values, those that cannot be read included."""
    line: int
    """The line it begins on."""
    record: int | None
    """The number again where other values begin on the same line, which then does not tell where it is."""
    value: Any


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# Python's tools write NaN and Infinity, which JSON has not: what is no number is taken as missing.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_parse_finite)


def parse_json(data: bytes) -> Any:
    """The one value in ``data``; NaN and Infinity in it are taken as null."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = _DECODER.decode(data.decode())
        except (ValueError, RecursionError):
            raise LineError(decoding_problem(data, error, _NO_SCHEMA)) from error
    if odd := first_invalid_value(value):
        raise LineError(odd)
    return value


def read_values(
    path: Path, problems: Problems, decode: Callable[[bytes], Any] = parse_json, *, loose: bool = False
) -> Iterator[JsonValue]:
    """The values of a file, one after the other; what is none goes to the problems.

    ``decode`` makes a value of its bytes, or raises ``LineError``. In a ``loose`` file arrays may follow one another,
    and commas and the end may be missing: such is what a program leaves that writes as it goes.
    """
    number = 0
    for line, data, shared in _pieces(path, loose=loose):
        number += not isinstance(data, _SeparatorError)
        record = number if shared else None
        try:
            if isinstance(data, LineError):
                raise data
            value = decode(data)
        except LineError as error:
            problems.add_all(path, line, error.messages, record=record)
            continue
        if problems.gather:
            warn_repeated_keys(path, line, data, problems, record=record)
        yield JsonValue(number, line, record, value)


def syntax_problem(path: Path) -> tuple[int, str] | None:
    """The first line of a file that is no JSON, and why; ``None`` where all of it is."""
    for line, data, _ in _pieces(path, loose=False):
        try:
            if isinstance(data, LineError):
                raise data
            parse_json(data)
        except LineError as error:
            return line, str(error)
    return None


# --- pieces ----------------------------------------------------------------------------------------------------------


def _pieces(path: Path, *, loose: bool) -> Iterator[tuple[int, bytes | LineError, bool]]:
    """The pieces of a file, and of each whether another begins on the same line."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    start = first[1].strip()
    if start == b"{" or (start.startswith(b"[") and not (loose and _is_complete(start))):
        lines.close()  # type: ignore[attr-defined]  # it is a generator
        yield from _mark_shared_lines(_split_values(read_bytes(path), loose=loose))
        return
    for number, line in itertools.chain([first], lines):
        yield number, line, False


def _is_complete(data: bytes) -> bool:
    try:
        parse_json(data)
    except LineError:
        return False
    return True


def _mark_shared_lines(pieces: Iterator[Piece]) -> Iterator[tuple[int, bytes | LineError, bool]]:
    before = 0
    piece = next(pieces, None)
    while piece is not None:
        after = next(pieces, None)
        line, data = piece
        if isinstance(data, _SeparatorError):
            yield line, data, False
        else:
            together = after is not None and after[0] == line and not isinstance(after[1], _SeparatorError)
            yield line, data, together or line == before
            before = line
        piece = after


def _split_values(data: bytes, *, loose: bool) -> Iterator[Piece]:
    """Values over several lines, or the items of an array."""
    try:
        pieces = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (ValueError, RecursionError):
        yield from _JsonScanner(data.decode(), loose=loose).pieces()
        return
    line, end = 1, 0
    for piece in pieces:
        raw = bytes(piece)
        start = data.index(raw, end)  # only commas and white space lie between: the first place is the right one
        line += data.count(b"\n", end, start)
        yield line, raw
        end = start + len(raw)
        line += raw.count(b"\n")


class _JsonScanner:
    """Goes through a text value by value, past what is broken: values one after the other, or one array."""

    def __init__(self, text: str, *, loose: bool) -> None:
        self._text = text
        self._loose = loose
        self._line, self._counted = 1, 0

    def pieces(self) -> Iterator[Piece]:
        text = self._text
        place = _match_end(_SPACE, text, 0)
        in_array = text.startswith("[", place)
        place = self._skip(place + 1 if in_array else place)
        while place < len(text):
            if in_array and text.startswith("]", place):
                rest = _match_end(_SPACE, text, place + 1)
                if rest < len(text):
                    yield self._separator_error(rest, "not valid JSON: there is more after the end of the list")
                return
            piece, place = self._piece(place)
            yield piece
            place = self._skip(place)
            if not in_array or self._loose:
                continue
            if place == len(text):
                if not isinstance(piece[1], LineError):  # else the broken one has swallowed the end
                    yield self._separator_error(place, f"{_UNEXPECTED_END} before the list does")
                return
            if text.startswith(",", place):
                place = self._skip(place + 1)
            elif not text.startswith("]", place) and not isinstance(piece[1], LineError):
                yield self._separator_error(place, "not valid JSON: a comma is missing")
        if in_array and not self._loose:
            yield self._separator_error(place, f"{_UNEXPECTED_END} where a record should be")

    def _skip(self, place: int) -> int:
        return _match_end(_SEPARATORS if self._loose else _SPACE, self._text, place)

    def _piece(self, place: int) -> tuple[Piece, int]:
        """The value that begins here, or why there is none; and where to go on."""
        try:
            _, end = _DECODER.raw_decode(self._text, place)
        except json.JSONDecodeError as error:
            reason = f"{error.msg[:1].lower()}{error.msg[1:]} near column {error.colno}"
            if error.pos >= len(self._text.rstrip()):
                reason = "the file ends too early"
            return (error.lineno, LineError(f"not valid JSON: {reason}")), self._next_start(place)
        except (ValueError, RecursionError) as error:
            message = TOO_DEEP if isinstance(error, RecursionError) else TOO_LONG
            return self._error_piece(place, message), self._next_start(place)
        return (self._line_at(place), self._text[place:end].encode()), end

    def _separator_error(self, place: int, message: str) -> Piece:
        return self._line_at(place), _SeparatorError(message)

    def _error_piece(self, place: int, message: str) -> Piece:
        return self._line_at(place), LineError(message)

    def _line_at(self, place: int) -> int:
        self._line += self._text.count("\n", self._counted, place)
        self._counted = place
        return self._line

    def _next_start(self, place: int) -> int:
        """Where a value may begin after a broken one: on a line with a brace below that of the broken one."""
        indent = self._text[self._text.rfind("\n", 0, place) + 1 : place]
        column = f"[ \\t]{{{len(indent)}}}" if not indent.strip(" \t") else "[ \\t]*"
        found = re.compile(rf"\n{column}(?=\{{)").search(self._text, place)
        return found.end() if found else len(self._text)


def _match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place
