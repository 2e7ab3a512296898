"""All problems of one line, not only the first: each is recorded and repaired, then decoding is tried again."""

from __future__ import annotations

import json
import math
import re
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from .codec import OUTPUT_SHAPE, SAMPLE_SHAPE, CheckedOutputRow, CheckedSampleRow
from .formats import Role
from .hints import RowSchema
from .problem_messages import BAD_SPAN, TOO_DEEP, OverflowedFloat, replace_invalid_values, value_problem
from .reader_types import Problems, UniqueIds

__all__ = ["LineProblems", "find_line_problems", "find_struct_problems", "report_line_problems"]

MAX_PROBLEMS = 50
"""How many problems of one line are reported; a line with more is probably of another format."""
_MORE_PROBLEMS = "there are more problems on this line"

_PLACEHOLDERS: dict[str, Any] = {
    "null": None,
    "str": "?",
    "object": {"text": ""},  # every required field of any object that cannot be a string instead
    "array": [],
    "int": 0,
    "float": 0,
    "bool": False,
}
"""The replacement of an invalid value by its expected type; the first type that is allowed is used."""
_WITH_PATH = re.compile(r"(?s)(.*) - at `\$\.?([^`]*)`")
_FIELD_ERROR = re.compile(r"(?s)Object (contains unknown|missing required) field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


@dataclass(frozen=True, slots=True)
class LineProblems:
    """The problems of a line, and its sample id where it can be read."""

    messages: list[str]
    sample_id: str | None


def find_line_problems(line: bytes, role: Role, first: str) -> LineProblems:
    """Return every problem of a line that could not be decoded; ``first`` is the decoding error and always included."""
    row, shape = (CheckedSampleRow, SAMPLE_SHAPE) if role == "samples" else (CheckedOutputRow, OUTPUT_SHAPE)
    found, raw = _find_problems(line, row, shape, first)
    sample_id = raw.get("sample_id") if isinstance(raw, dict) else None
    return LineProblems(found, sample_id if isinstance(sample_id, str) and sample_id else None)


def report_line_problems(
    path: Path, number: int, line: bytes, role: Role, first: str, problems: Problems, once: UniqueIds | None = None
) -> None:
    """Raise the first problem of a sample or an output, or record all of them with the sample id."""
    if not problems.collect_all:
        problems.add(path, number, first)
    found = find_line_problems(line, role, first)
    problems.add_all(path, number, found.messages)
    if found.sample_id is not None and (once is None or once.is_new(found.sample_id, number)):
        problems.unreadable_ids.add(found.sample_id)


def find_struct_problems(data: bytes, kind: Any, shape: RowSchema, first: str) -> list[str]:
    """Return every problem of JSON that does not fit a struct of this type, ``first`` included."""
    return _find_problems(data, kind, shape, first)[0]


def _find_problems(line: bytes, kind: Any, shape: RowSchema, first: str) -> tuple[list[str], Any]:
    """Return the problems, and the values before repair."""
    found: list[str] = []
    try:
        text = line.decode()
    except UnicodeDecodeError:
        found.append(first)  # it names the byte; with a replacement character the rest can be read
        text = line.decode(errors="replace")
    try:
        raw: Any = json.loads(text, parse_float=_parse_number)
    except (ValueError, RecursionError):
        return list(dict.fromkeys([*found, first])), None
    original = copy(raw)
    found += replace_invalid_values(raw)
    added: set[str] = set()
    for _ in range(2 * MAX_PROBLEMS):
        try:
            msgspec.convert(raw, kind)
            break
        except msgspec.ValidationError as error:
            message, noticed = str(error), value_problem(error, raw, shape)
        except RecursionError:
            found.append(TOO_DEEP)
            break
        except UnicodeEncodeError:  # the line is one invalid string: reported as the first problem
            break
        at = _WITH_PATH.fullmatch(message)
        if at is None or at[2] not in added:  # otherwise the message is about a placeholder for a missing field
            found.append(noticed)
        if len(found) > MAX_PROBLEMS or not _repair(raw, message):
            break
        if named := _FIELD_ERROR.fullmatch(at[1] if at else message):
            added.add(f"{at[2]}.{named[2]}" if at and at[2] else named[2])
    found = list(dict.fromkeys(found if first in found else [first, *found]))
    return (found if len(found) <= MAX_PROBLEMS else [*found[:MAX_PROBLEMS], _MORE_PROBLEMS]), original


def _parse_number(text: str) -> float:
    value = float(text)
    return OverflowedFloat(value) if math.isinf(value) else value


def _repair(raw: Any, message: str) -> bool:
    """Replace the value that msgspec rejected by a valid one; return whether that was possible."""
    path = ""
    if at := _WITH_PATH.fullmatch(message):
        message, path = at[1], at[2]
    steps: list[str | int | None] = [
        None if step[0] == "[...]" else int(step[2]) if step[2] else step[1] for step in _STEP.finditer(path)
    ]
    named = _FIELD_ERROR.fullmatch(message)
    if named is None and (message == BAD_SPAN or "span" in steps):
        return _remove(_value_at(raw, steps[: steps.index("span")] if "span" in steps else steps), "span")
    if named is not None:
        holder = _value_at(raw, steps)
        if named[1] == "contains unknown":
            return _remove(holder, named[2])
        if isinstance(holder, dict):
            holder[named[2]] = "?"  # every required field may be a string
        return isinstance(holder, dict)
    return bool(steps) and _replace(_value_at(raw, steps[:-1]), steps[-1], message)


def _value_at(raw: Any, steps: list[str | int | None]) -> Any:
    for step in steps:
        try:
            raw = raw[step]
        except (LookupError, TypeError):
            return None
    return raw


def _remove(holder: Any, key: str) -> bool:
    return isinstance(holder, dict) and holder.pop(key, holder) is not holder


def _replace(holder: Any, step: str | int | None, message: str) -> bool:
    """Replace one value by a placeholder of the expected type."""
    expected = _EXPECTED.match(message)
    kinds = expected[1].split(" | ") if expected else ["null"]
    placeholder = next((value for kind, value in _PLACEHOLDERS.items() if kind in kinds), "?")
    key = _first_non_numeric_key(holder) if step is None else step
    if isinstance(holder, dict) and key in holder:
        known: Any = key
    elif isinstance(holder, list) and isinstance(key, int) and key < len(holder):
        known = key
    else:
        return False
    holder[known] = copy(placeholder)
    return True


def _first_non_numeric_key(holder: Any) -> str | None:
    """Return the key that msgspec omits from a path (``timings[...]``); such values are always numbers."""
    for key, value in holder.items() if isinstance(holder, dict) else ():
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(key)
    return None
