"""Messages about invalid rows: errors of msgspec, translated to field names and plain words."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from .hints import RowSchema, unknown_key_hint

__all__ = [
    "BAD_SPAN",
    "TOO_DEEP",
    "OverflowedFloat",
    "decoding_problem",
    "first_invalid_value",
    "non_finite_message",
    "quote_text",
    "replace_invalid_values",
    "too_large_message",
    "value_problem",
]

TOO_DEEP = "the values are nested too deeply"
BAD_SPAN = "span"
"""The message of a document whose span runs backwards; msgspec adds the path of the document."""


class OverflowedFloat(float):
    """An infinite float that was a finite number in the file, too large for a float."""


_WITH_PATH = re.compile(r"(?s)(.*) - at `\$\.?([^`]*)`")
_UNKNOWN = re.compile(r"(?s)Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_EMPTY = "Expected `str` of length >= 1"  # only ids have a minimum length
_MALFORMED = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_SPAN = re.compile(r"(.*\bspan)(?:\[\d\])?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


def decoding_problem(line: bytes, error: Exception, schema: RowSchema) -> str:
    """Return why ``line`` could not be decoded, given the error of the decoder."""
    try:
        text = line.decode()
    except UnicodeDecodeError as bad:
        return f"byte 0x{line[bad.start]:02x} in column {_column(line, bad.start)} is not valid UTF-8"
    if isinstance(error, RecursionError):
        return TOO_DEEP
    raw = _load_leniently(text)
    if isinstance(error, msgspec.ValidationError):
        return value_problem(error, raw, schema)
    invalid = first_invalid_value(raw)
    return _syntax_message(line, str(error)) if invalid is None else invalid


def value_problem(error: Exception, raw: object, schema: RowSchema) -> str:
    """Return why the values ``raw`` are not a valid row, given the error of msgspec."""
    message, path = str(error), ""
    if found := _WITH_PATH.fullmatch(message):
        message, path = found[1], found[2]
    if message == BAD_SPAN:
        path = _join_path(path, "span")
    if found := _UNKNOWN.fullmatch(message):
        return f"unknown field {quote_text(_join_path(path, found[1]))}{unknown_key_hint(path, found[1], raw, schema)}"
    if found := _MISSING.fullmatch(message):
        return f"field {quote_text(_join_path(path, found[1]))} is missing"
    if "out of range" in message:
        return too_large_message(
            next((one[0] for one in _invalid_values(raw) if isinstance(one[1], float)), _complete_path(path, raw))
        )
    if found := _SPAN.fullmatch(path):
        return f"field {quote_text(found[1])} must be [start, end] with 0 <= start <= end"
    if message == _EMPTY:
        return f"field {quote_text(path)} is empty; an id needs at least one character"
    if found := _EXPECTED.fullmatch(message):
        expected, got = found[1].split(" | "), found[2]
        if not path:
            return f"each line must be one JSON object, not {_type_name(got, expected)}"
        types = " or ".join(", ".join(_TYPE_NAMES.get(kind, kind) for kind in expected).rsplit(", ", 1))
        quotes = "; ids are strings, so put it in quotes" if path == "sample_id" and got in ("int", "float") else ""
        return f"field {quote_text(_complete_path(path, raw))} must be {types}, not {_type_name(got, expected)}{quotes}"
    return f"field {quote_text(path)}: {message}" if path else message


def first_invalid_value(raw: object) -> str | None:
    """Return a message about the first number or string that JSON in UTF-8 cannot represent, or ``None``."""
    return next((_invalid_value_message(path, value) for path, value, _, _ in _invalid_values(raw)), None)


def replace_invalid_values(raw: object) -> list[str]:
    """Replace all numbers and strings that JSON in UTF-8 cannot represent, and return messages about them."""
    found = list(_invalid_values(raw))
    for _, value, holder, place in sorted(
        found, key=lambda one: one[3] is None
    ):  # keys last: values are found by their keys
        if place is None:
            moved = holder.pop(value)
            holder[_LONE_SURROGATE.sub("?", str(value))] = moved
        else:
            holder[place] = 0 if isinstance(value, float) else _LONE_SURROGATE.sub("?", value)
    return list(dict.fromkeys(_invalid_value_message(path, value) for path, value, _, _ in found))


def _invalid_value_message(path: str, value: float | str) -> str:
    if isinstance(value, OverflowedFloat):
        return too_large_message(path)
    if isinstance(value, float):
        return non_finite_message(path, value)
    return f"field {quote_text(path)} holds half of a surrogate pair, which is not valid text"


def non_finite_message(path: str, value: float) -> str:
    """Return the message for a number that is not finite."""
    name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return f"field {quote_text(path)} is {name}; numbers must be finite"


def too_large_message(path: str) -> str:
    """Return the message for a number above the largest float, or an integer above Python's limit."""
    return f"field {quote_text(path)} is too large a number"


def quote_text(text: str, limit: int = 80) -> str:
    """Return ``text`` in quotes, escaped for printing, and shortened to ``limit`` characters."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def _invalid_values(raw: object) -> Iterator[tuple[str, float | str, Any, Any]]:
    """Yield numbers that are not finite and strings that are not valid UTF-8, in reading order.

    Each with its path, the object or array that contains it, and its key or index there (``None`` for a key itself).
    """
    # An explicit stack: the data may be nested deeper than the recursion limit.
    pending: list[tuple[str, object, Any, Any]] = [("", raw, [raw], 0)]
    while pending:
        path, value, holder, place = pending.pop()
        if isinstance(value, dict):
            pending.extend([(_join_path(path, str(key)), item, value, key) for key, item in value.items()][::-1])
            pending.extend((path, key, value, None) for key in value)
        elif isinstance(value, list):
            pending.extend([(f"{path}[{index}]", item, value, index) for index, item in enumerate(value)][::-1])
        elif (isinstance(value, float) and not math.isfinite(value)) or (
            isinstance(value, str) and _LONE_SURROGATE.search(value)
        ):
            yield path, value, holder, place


def _join_path(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _complete_path(path: str, raw: object) -> str:
    """Return ``path`` with the key that msgspec omits (``timings[...]``)."""
    holder = path.partition("[...]")[0]
    values = raw.get(holder) if isinstance(raw, dict) else None
    if holder != path and isinstance(values, dict):
        for key, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                return _join_path(holder, str(key))
    return holder


def _type_name(kind: str, expected: Sequence[str]) -> str:
    if kind == "int":
        return "a number"
    if kind == "float":
        return "a number with decimals" if "int" in expected else "a number"
    return _TYPE_NAMES.get(kind, f"a {kind}")


def _load_leniently(text: str) -> Any:
    """Parse with the standard library: it accepts NaN, Infinity and lone surrogates, which messages can then name."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _syntax_message(line: bytes, message: str) -> str:
    if found := _MALFORMED.fullmatch(message):
        return f"not valid JSON: {found[1]} near column {_column(line, int(found[2]))}"
    if message == "Input data was truncated":
        return "not valid JSON: the line ends too early (each line must hold one whole object)"
    return f"not valid JSON: {message}"


def _column(line: bytes, offset: int) -> int:
    return len(line[:offset].decode(errors="replace")) + 1
