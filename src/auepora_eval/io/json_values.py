"""JSON values of a file: one per line, written over several lines, or the items of one array."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from .files import read_bytes, read_lines
from .hints import Shape
from .problems import TOO_DEEP, decoding_problem, first_odd
from .reading import Problems

__all__ = ["JsonError", "json_value", "read_values"]

_NO_SHAPE = Shape("values", {}, "", ())
_BETWEEN = re.compile(r"[\s,\[\]]*")


class JsonError(ValueError):
    """Bytes that are no JSON value; the message says why."""


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# Python's tools write NaN and Infinity, which JSON has not: what is no number is taken as missing.
_DECODER = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite)


def read_values(path: Path, problems: Problems) -> Iterator[tuple[int, Any]]:
    """The values with the line each begins on; lines that are no JSON go to the problems."""
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    start = first[1].strip()
    try:
        json_value(start)
    except JsonError:
        if start == b"{" or start.startswith(b"["):
            yield from _spread(path, problems)
            return
    for number, line in itertools.chain([first], lines):
        try:
            value = json_value(line)
        except JsonError as error:
            problems.add(path, number, str(error))
            continue
        for item in value if isinstance(value, list) else [value]:
            yield number, item


def json_value(data: bytes) -> Any:
    """The one value in ``data``; NaN and Infinity in it are taken as null."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        try:
            value = _DECODER.decode(data.decode())
        except (ValueError, RecursionError):
            raise JsonError(decoding_problem(data, error, _NO_SHAPE)) from error
    if odd := first_odd(value):
        raise JsonError(odd)
    return value


def _spread(path: Path, problems: Problems) -> Iterator[tuple[int, Any]]:
    """Values over several lines, one after the other or with commas between them, in an array or not."""
    text = read_bytes(path).decode()
    line, counted = 1, 0
    position = _after(_BETWEEN, text, 0)
    while position < len(text):
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            at, message = (error.lineno, error.msg) if isinstance(error, json.JSONDecodeError) else (line, str(error))
            problems.add(path, at, TOO_DEEP if isinstance(error, RecursionError) else f"not valid JSON: {message}")
            end = _next_start(text, position)
        else:
            if odd := first_odd(value):
                problems.add(path, line, odd)
            else:
                yield line, value
        position = _after(_BETWEEN, text, end)


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _next_start(text: str, position: int) -> int:
    """Where the next value may begin after a broken one: on a line with a brace below the brace of the broken one."""
    indent = text[text.rfind("\n", 0, position) + 1 : position]
    column = f"[ \\t]{{{len(indent)}}}" if not indent.strip(" \t") else "[ \\t]*"
    found = re.compile(rf"\n{column}(?=\{{)").search(text, position)
    return found.end() if found else len(text)
