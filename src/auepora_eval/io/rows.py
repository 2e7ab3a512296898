"""Records of any file that holds a list of them: a JSON array, a JSON object per line, or a table (CSV, TSV)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .codec import LineError
from .files import plain_suffix, read_bytes, read_lines
from .hints import Shape
from .problems import TOO_DEEP, decoding_problem, first_odd, shown
from .reading import Problems

__all__ = ["Record", "decode_object", "is_table", "read_records"]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SHAPE = Shape("records", {"": ()}, "records", ())
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
_TOO_LONG = "an integer has too many digits"
_SPACE = re.compile(r"[ \t\r\n]*")

Found = dict[str, Any] | LineError


class Record(NamedTuple):
    """One record, and where it stands."""

    number: int
    """Counted from 1 over all records, those that cannot be read included."""
    line: int
    """The line it begins on."""
    values: dict[str, Any]


def is_table(path: Path) -> bool:
    """Whether the name says that the file has columns: there every value is a text, and an empty one is absent."""
    return plain_suffix(path) in _DELIMITERS


def read_records(path: Path, problems: Problems) -> Iterator[Record]:
    """The records of a file, one after the other."""
    found = _table(path) if is_table(path) else _json(path)
    number = 0
    for number, (line, values) in enumerate(found, start=1):
        if isinstance(values, LineError):
            problems.add(path, line, str(values))
        else:
            yield Record(number, line, values)
    if number == 0:
        problems.add(path, None, "there is no record in the file")


def decode_object(data: bytes) -> dict[str, Any]:
    """One JSON object. ``NaN`` as a value of its own is absent, as Python's ``json`` writes what pandas lacks."""
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            too_long = isinstance(error, msgspec.ValidationError)  # Python's limit on the digits of an integer
            raise LineError(_TOO_LONG if too_long else decoding_problem(data, error, _SHAPE)) from error
        return _checked(value)
    return _object(value)


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise LineError(f"each record must be one JSON object, not {_KINDS.get(type(value), 'a number')}")


def _checked(value: object) -> dict[str, Any]:
    """An object of the standard library's reader, which takes what no JSON can hold."""
    values = {key: item for key, item in _object(value).items() if item == item}
    odd = first_odd(values)
    if odd is not None:
        raise LineError(odd)
    return values


def _decoded(data: bytes) -> Found:
    try:
        return decode_object(data)
    except LineError as error:
        return error


# --- JSON ------------------------------------------------------------------------------------------------------------


def _json(path: Path) -> Iterator[tuple[int, Found]]:
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    if first[1].lstrip().startswith(b"["):
        lines.close()  # type: ignore[attr-defined]  # it is a generator
        yield from _array(read_bytes(path))
        return
    for number, line in itertools.chain([first], lines):
        yield number, _decoded(line)


def _array(data: bytes) -> Iterator[tuple[int, Found]]:
    try:
        pieces = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (ValueError, RecursionError):
        yield from _array_slowly(data.decode())
        return
    line, end = 1, 0
    for piece in pieces:
        raw = bytes(piece)
        start = data.index(raw, end)  # only commas and white space lie between: the first place is the right one
        line += data.count(b"\n", end, start)
        yield line, _decoded(raw)
        end = start + len(raw)
        line += raw.count(b"\n")


def _array_slowly(text: str) -> Iterator[tuple[int, Found]]:
    """An array that strict JSON refuses, record by record, up to where it cannot be read at all."""
    decoder = json.JSONDecoder()
    place = text.index("[") + 1
    expected = "a record"
    while True:
        place = _after_space(text, place)
        line = text.count("\n", 0, place) + 1
        if text.startswith("]", place):
            rest = _after_space(text, place + 1)
            if rest < len(text):
                yield (
                    text.count("\n", 0, rest) + 1,
                    LineError("not valid JSON: there is more after the end of the list"),
                )
            return
        try:
            value, place = decoder.raw_decode(text, place)
        except RecursionError:
            yield line, LineError(TOO_DEEP)
            return
        except ValueError as error:
            yield line, LineError(f"not valid JSON: {_reason(error, text, place, expected)}")
            return
        try:
            yield line, _checked(value)
        except LineError as error:
            yield line, error
        place = _after_space(text, place)
        if text.startswith(",", place):
            place += 1
        elif not text.startswith("]", place):
            line = text.count("\n", 0, place) + 1
            problem = "the file ends before the list does" if place == len(text) else "a comma is missing"
            yield line, LineError(f"not valid JSON: {problem}")
            return


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    assert found is not None
    return found.end()


def _reason(error: ValueError, text: str, place: int, expected: str) -> str:
    if place == len(text):
        return f"the file ends where {expected} should be"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[:1].lower()}{error.msg[1:]} on line {error.lineno} near column {error.colno}"
    return _TOO_LONG


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(path: Path) -> Iterator[tuple[int, Found]]:
    rows = _rows(read_bytes(path).decode(), _DELIMITERS[plain_suffix(path)])
    line, header = next(rows, (1, []))
    problem = header if isinstance(header, LineError) else _header_problem(header)
    if problem is not None:
        yield line, problem
        return
    assert not isinstance(header, LineError)
    for line, cells in rows:
        if isinstance(cells, LineError):
            yield line, cells
        elif len(cells) != len(header):
            yield line, LineError(f"the row has {len(cells)} cells, but there are {len(header)} columns")
        else:
            # A column without a name is the index that pandas writes.
            yield line, {name: cell for name, cell in zip(header, cells, strict=True) if name and cell}


def _header_problem(header: list[str]) -> LineError | None:
    for place, name in enumerate(header):
        if name and name in header[:place]:
            return LineError(f"two columns have the name {shown(name)}")
    return None


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | LineError]]:
    """The rows that are not blank, each with the line it begins on.

    The standard library's reader refuses cells above 128 KiB, unless a limit is lifted for the whole program.
    """
    cell = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|((?!")[^{delimiter}\r\n]*))({delimiter}|\r\n|\r|\n|\Z)')
    place = 0
    line = first_line = 1
    cells: list[str] = []
    while place < len(text) or cells:
        found = cell.match(text, place)
        if found is None:
            yield line, LineError("a cell begins with a quotation mark, but has none at its end")
            return
        quoted, plain, end = found.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        line += found[0].count("\n")
        place = found.end()
        if end != delimiter:
            if cells != [""]:
                yield first_line, cells
            cells, first_line = [], line
