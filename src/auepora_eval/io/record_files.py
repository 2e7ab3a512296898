"""Records of a file: a JSON array, a JSON object per line, or a table (CSV, TSV)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from .codec import LineError
from .files import plain_suffix, read_bytes
from .hints import RowSchema
from .json_values import TOO_LONG, read_values
from .problem_messages import decoding_problem, first_invalid_value, quote_text
from .reader_types import Problems

__all__ = ["Record", "decode_object", "is_table", "read_records"]

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SHAPE = RowSchema("records", {"": ()}, "records", ())
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}

ParsedRow = dict[str, Any] | LineError


class Record(NamedTuple):
    """One record with its position in the file."""

    number: int
    """Counted from 1 over all records, including those that cannot be read."""
    line: int
    """The line on which it begins."""
    record: int | None
    """The number again if other records begin on the same line."""
    values: dict[str, Any]


def is_table(path: Path) -> bool:
    """Whether the suffix is that of a table, in which every value is a string and an empty one is missing."""
    return plain_suffix(path) in _DELIMITERS


def read_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield the records of a file."""
    before = len(problems.found)
    last = None
    for last in _table_records(path, problems) if is_table(path) else _json_records(path, problems):
        yield last
    if last is None and len(problems.found) == before:
        problems.add(path, None, "there is no record in the file")


def _json_records(path: Path, problems: Problems) -> Iterator[Record]:
    return map(Record._make, read_values(path, problems, decode_object))


def _table_records(path: Path, problems: Problems) -> Iterator[Record]:
    for number, (line, values) in enumerate(_table(path), start=1):
        if isinstance(values, LineError):
            problems.add(path, line, str(values))
        else:
            yield Record(number, line, None, values)


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode one JSON object. ``NaN`` is a missing value, as pandas writes it."""
    try:
        value = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            too_long = isinstance(error, msgspec.ValidationError)  # Python's limit on the digits of an integer
            raise LineError(TOO_LONG if too_long else decoding_problem(data, error, _SHAPE)) from error
        return _check_object(value)
    return _require_object(value)


def _require_object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise LineError(f"each record must be one JSON object, not {_KINDS.get(type(value), 'a number')}")


def _check_object(value: object) -> dict[str, Any]:
    """Check an object of the standard library's reader, which accepts values that are not JSON."""
    values = {key: item for key, item in _require_object(value).items() if item == item}
    problem = first_invalid_value(values)
    if problem is not None:
        raise LineError(problem)
    return values


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(path: Path) -> Iterator[tuple[int, ParsedRow]]:
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
            # A column without a name is the index of pandas.
            yield line, {name: cell for name, cell in zip(header, cells, strict=True) if name and cell}


def _header_problem(header: list[str]) -> LineError | None:
    for place, name in enumerate(header):
        if name and name in header[:place]:
            return LineError(f"two columns have the name {quote_text(name)}")
    return None


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | LineError]]:
    """Yield the rows that are not blank, each with its first line.

    The standard library's reader rejects cells above 128 KiB, unless a limit of the whole program is raised.
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
