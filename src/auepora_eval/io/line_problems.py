"""Everything that is wrong with a line, not only the first: what is wrong is noted, mended, and looked past."""

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
"""So many problems of one line are told; whoever has more has another kind of file."""
_MORE_PROBLEMS = "there are more problems on this line"

_PLACEHOLDERS: dict[str, Any] = {
    "null": None,
    "str": "?",
    "object": {"text": ""},  # all that any object needs which cannot be left out, nor be a text instead
    "array": [],
    "int": 0,
    "float": 0,
    "bool": False,
}
"""What is put in the place of a value that is no good, by the type that was wanted; the first that fits."""
_WITH_PATH = re.compile(r"(?s)(.*) - at `\$\.?([^`]*)`")
_FIELD_ERROR = re.compile(r"(?s)Object (contains unknown|missing required) field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


@dataclass(frozen=True, slots=True)
class LineProblems:
    """What is wrong with a line, and whose line it is as far as it says so."""

    messages: list[str]
    sample_id: str | None


def find_line_problems(line: bytes, role: Role, first: str) -> LineProblems:
    """Every problem of a line that could not be decoded; ``first`` is the one that decoding met, and is always told."""
    row, shape = (CheckedSampleRow, SAMPLE_SHAPE) if role == "samples" else (CheckedOutputRow, OUTPUT_SHAPE)
    found, raw = _find_problems(line, row, shape, first)
    sample_id = raw.get("sample_id") if isinstance(raw, dict) else None
    return LineProblems(found, sample_id if isinstance(sample_id, str) and sample_id else None)


def report_line_problems(
    path: Path, number: int, line: bytes, role: Role, first: str, problems: Problems, once: UniqueIds | None = None
) -> None:
    """Raise the first problem of a sample or an output, or take all of them down, and whose it is."""
    if not problems.gather:
        problems.add(path, number, first)
    found = find_line_problems(line, role, first)
    problems.add_all(path, number, found.messages)
    if found.sample_id is not None and (once is None or once.is_new(found.sample_id, number)):
        problems.unreadable_ids.add(found.sample_id)


def find_struct_problems(data: bytes, kind: Any, shape: RowSchema, first: str) -> list[str]:
    """Every problem of JSON that does not make a struct of this kind, ``first`` among them."""
    return _find_problems(data, kind, shape, first)[0]


def _find_problems(line: bytes, kind: Any, shape: RowSchema, first: str) -> tuple[list[str], Any]:
    """Everything that is wrong, and the values as they were."""
    found: list[str] = []
    try:
        text = line.decode()
    except UnicodeDecodeError:
        found.append(first)  # it says which byte; with a mark in its place the rest can be read all the same
        text = line.decode(errors="replace")
    try:
        raw: Any = json.loads(text, parse_float=_parse_number)
    except (ValueError, RecursionError):
        return list(dict.fromkeys([*found, first])), None
    given = copy(raw)
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
        except UnicodeEncodeError:  # a line that is nothing but such a text: it was told as the first
            break
        at = _WITH_PATH.fullmatch(message)
        if at is None or at[2] not in added:  # else it is about what was put in place of something missing
            found.append(noticed)
        if len(found) > MAX_PROBLEMS or not _repair(raw, message):
            break
        if named := _FIELD_ERROR.fullmatch(at[1] if at else message):
            added.add(f"{at[2]}.{named[2]}" if at and at[2] else named[2])
    found = list(dict.fromkeys(found if first in found else [first, *found]))
    return (found if len(found) <= MAX_PROBLEMS else [*found[:MAX_PROBLEMS], _MORE_PROBLEMS]), given


def _parse_number(text: str) -> float:
    value = float(text)
    return OverflowedFloat(value) if math.isinf(value) else value


def _repair(raw: Any, message: str) -> bool:
    """Put something acceptable where msgspec found a mistake; whether that was possible."""
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
            holder[named[2]] = "?"  # every field that must be there may be a text
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
    """Replace one value by what may stand there."""
    wanted = _EXPECTED.match(message)
    kinds = wanted[1].split(" | ") if wanted else ["null"]
    stand_in = next((value for kind, value in _PLACEHOLDERS.items() if kind in kinds), "?")
    key = _first_non_numeric_key(holder) if step is None else step
    if isinstance(holder, dict) and key in holder:
        known: Any = key
    elif isinstance(holder, list) and isinstance(key, int) and key < len(holder):
        known = key
    else:
        return False
    holder[known] = copy(stand_in)
    return True


def _first_non_numeric_key(holder: Any) -> str | None:
    """The key that msgspec leaves out of a path (``timings[...]``); the only such values are numbers."""
    for key, value in holder.items() if isinstance(holder, dict) else ():
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(key)
    return None
