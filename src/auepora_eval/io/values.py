"""JSON values of a file with their lines, and detection of repeated keys."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import DataFileError
from ..runtime.files import read_bytes, read_lines
from .codec import LineError
from .problems import TOO_DEEP, Problems, RowSchema, decoding_problem, first_invalid_value, quote_text, walk_json

# --- repeated keys of a JSON object: the last one counts, which is usually a mistake ---------------------------------


class _ObjectWithRepeats(dict[str, Any]):
    """An object with repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def repeated_keys(data: bytes | str) -> list[str]:
    """Return the paths of all repeated keys; none if the data is not JSON."""
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        found = True
        return _ObjectWithRepeats(pairs)

    try:
        value = json.loads(data, object_pairs_hook=build)
    except (ValueError, RecursionError):
        return []
    paths: list[str] = []
    for path, item, _, _ in walk_json(value) if found else ():
        if isinstance(item, _ObjectWithRepeats):
            prefix = f"{path}." if path else ""
            paths += [f"{prefix}{key}" for key in item.repeated]
    return paths


def warn_repeated_keys(
    path: Path, line: int | None, data: bytes | str, problems: Problems, *, record: int | None = None
) -> None:
    """Warn about repeated keys if problems are collected; plain reading does not check for them."""
    if not problems.collect_all:
        return
    for key in repeated_keys(data):
        message = f"field {quote_text(key)} occurs twice in its object; the last one counts"
        problems.warnings.add(f"repeated {key}", message, path=path, line=line, record=record)


# --- JSON values: one per line, written over several lines, or the items of one array --------------------------------

TOO_LONG = "an integer has too many digits"
_NO_SCHEMA = RowSchema("values", {}, "", ())
_SPACE = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s,\[\]]*")
_UNEXPECTED_END = "not valid JSON: the file ends"

Piece = tuple[int, bytes | LineError]
"""The line on which a value begins, and its bytes or the error."""


class _SeparatorError(LineError):
    """An error between two values; it belongs to neither."""


class JsonValue(NamedTuple):
    """One value of a file, with its position."""

    number: int
    """Counted from 1 over all values, including those that cannot be read."""
    line: int
    """The line on which it begins."""
    record: int | None
    """The number again if other values begin on the same line, which is then ambiguous."""
    value: Any


def _parse_finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# Python writes NaN and Infinity, which JSON does not have: they are read as null.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_parse_finite)


@contextmanager
def errors_at(path: Path, line: int | None) -> Iterator[None]:
    """Add file and line to an error about a record."""
    try:
        yield
    except LineError as error:
        raise DataFileError(path, line, str(error)) from error


def parse_json(data: bytes) -> Any:
    """Parse the one value in ``data``; NaN and Infinity are read as null."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = _DECODER.decode(data.decode())
        except (ValueError, RecursionError):
            raise LineError(decoding_problem(data, error, _NO_SCHEMA)) from error
    if problem := first_invalid_value(value):
        raise LineError(problem)
    return value


def read_values(
    path: Path, problems: Problems, decode: Callable[[bytes], Any] = parse_json, *, loose: bool = False
) -> Iterator[JsonValue]:
    """Yield the values of a file; invalid ones are added to the problems.

    ``decode`` converts bytes to a value, or raises ``LineError``. A ``loose`` file may contain several arrays, and
    commas and the end may be missing, as in the log of a running program.
    """
    return _decode_pieces(path, problems, _pieces(path, loose=loose), decode)


def read_array(
    path: Path, problems: Problems, array: bytes, first_line: int, decode: Callable[[bytes], Any] = parse_json
) -> Iterator[JsonValue]:
    """Yield the items of a JSON array that begins on ``first_line`` of a file."""
    pieces = ((line + first_line - 1, data) for line, data in _split_values(array, loose=False))
    return _decode_pieces(path, problems, _mark_shared_lines(pieces), decode)


def _decode_pieces(
    path: Path,
    problems: Problems,
    pieces: Iterator[tuple[int, bytes | LineError, bool]],
    decode: Callable[[bytes], Any],
) -> Iterator[JsonValue]:
    number = 0
    for line, data, shared in pieces:
        number += not isinstance(data, _SeparatorError)
        record = number if shared else None
        try:
            if isinstance(data, LineError):
                raise data
            value = decode(data)
        except LineError as error:
            problems.add_all(path, line, error.messages, record=record)
            continue
        warn_repeated_keys(path, line, data, problems, record=record)
        yield JsonValue(number, line, record, value)


def syntax_problem(path: Path) -> tuple[int, str] | None:
    """Return the first line of a file that is not JSON, with the reason; ``None`` if all of it is JSON."""
    for line, data, _ in _pieces(path, loose=False):
        try:
            if isinstance(data, LineError):
                raise data
            parse_json(data)
        except LineError as error:
            return line, str(error)
    return None


# --- pieces of a file: one JSON value each ---------------------------------------------------------------------------


def _pieces(path: Path, *, loose: bool) -> Iterator[tuple[int, bytes | LineError, bool]]:
    """Yield the pieces of a file, each with whether another begins on the same line."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    start = first[1].strip()
    if start == b"{" or (start.startswith(b"[") and not (loose and _is_complete(start))):
        lines.close()  # type: ignore[attr-defined]  # it is a generator
        yield from _mark_shared_lines(_split_values(read_bytes(path, is_document=True), loose=loose))
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
    """Split values over several lines, or the items of an array."""
    try:
        pieces = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (ValueError, RecursionError):
        yield from _JsonScanner(data.decode(), loose=loose).pieces()
        return
    line, end = 1, 0
    for piece in pieces:
        raw = bytes(piece)
        start = data.index(raw, end)  # only commas and white space lie between: the first match is the right one
        line += data.count(b"\n", end, start)
        yield line, raw
        end = start + len(raw)
        line += raw.count(b"\n")


class _JsonScanner:
    """Scans a text value by value and skips invalid parts: consecutive values, or one array."""

    def __init__(self, text: str, *, loose: bool) -> None:
        self._text = text
        self._loose = loose
        self._line, self._counted_to = 1, 0

    def pieces(self) -> Iterator[Piece]:
        text = self._text
        position = _match_end(_SPACE, text, 0)
        in_array = text.startswith("[", position)
        position = self._skip(position + 1 if in_array else position)
        while position < len(text):
            if in_array and text.startswith("]", position):
                rest = _match_end(_SPACE, text, position + 1)
                if rest < len(text):
                    yield self._separator_error(rest, "not valid JSON: there is more after the end of the list")
                return
            piece, position = self._piece(position)
            yield piece
            position = self._skip(position)
            if not in_array or self._loose:
                continue
            if position == len(text):
                if not isinstance(piece[1], LineError):  # otherwise the invalid value consumed the end
                    yield self._separator_error(position, f"{_UNEXPECTED_END} before the list does")
                return
            if text.startswith(",", position):
                position = self._skip(position + 1)
            elif not text.startswith("]", position) and not isinstance(piece[1], LineError):
                yield self._separator_error(position, "not valid JSON: a comma is missing")
        if in_array and not self._loose:
            yield self._separator_error(position, f"{_UNEXPECTED_END} where a record should be")

    def _skip(self, position: int) -> int:
        return _match_end(_SEPARATORS if self._loose else _SPACE, self._text, position)

    def _piece(self, position: int) -> tuple[Piece, int]:
        """Return the value that begins here, or its error; and the position to continue at."""
        try:
            _, end = _DECODER.raw_decode(self._text, position)
        except json.JSONDecodeError as error:
            reason = f"{error.msg[:1].lower()}{error.msg[1:]} near column {error.colno}"
            if error.pos >= len(self._text.rstrip()):
                reason = "the file ends too early"
            return (error.lineno, LineError(f"not valid JSON: {reason}")), self._next_start(position)
        except (ValueError, RecursionError) as error:
            message = TOO_DEEP if isinstance(error, RecursionError) else TOO_LONG
            return (self._line_at(position), LineError(message)), self._next_start(position)
        return (self._line_at(position), self._text[position:end].encode()), end

    def _separator_error(self, position: int, message: str) -> Piece:
        return self._line_at(position), _SeparatorError(message)

    def _line_at(self, position: int) -> int:
        self._line += self._text.count("\n", self._counted_to, position)
        self._counted_to = position
        return self._line

    def _next_start(self, position: int) -> int:
        """Return the next position where a value may begin: a line with a brace at the same indentation."""
        indent = self._text[self._text.rfind("\n", 0, position) + 1 : position]
        column = f"[ \\t]{{{len(indent)}}}" if not indent.strip(" \t") else "[ \\t]*"
        found = re.compile(rf"\n{column}(?=\{{)").search(self._text, position)
        return found.end() if found else len(self._text)


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
