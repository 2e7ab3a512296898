"""Coerce a parsed reply to the requested schema, where there is exactly one way to do it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["SchemaMismatchError", "coerce_to_schema", "normalise_name", "parse_number"]

_NUMBER_TEXT = re.compile(
    r"(?P<number>[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?)(?:\s*(?:/|out\s+of)\s*(?P<best>[0-9]{1,15}(?:\.0{1,15})?))?"
)
_BOUNDS: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", lambda value, bound: value < bound, "below {}"),
    ("exclusiveMinimum", lambda value, bound: value <= bound, "not above {}"),
    ("maximum", lambda value, bound: value > bound, "above {}"),
    ("exclusiveMaximum", lambda value, bound: value >= bound, "not below {}"),
)
_SPACES = re.compile(r"[\s_-]+")


class SchemaMismatchError(Exception):
    """A value that does not fit the schema; ``reason`` is that of a ``JudgeError``."""

    def __init__(self, message: str, reason: str = "unparseable") -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


def coerce_to_schema(value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The answer coerced to the schema: names and labels as spelled there, numbers parsed, extra keys dropped."""
    coerced = _coerce(value, schema, "the answer")
    problem = _checker(json.dumps(schema, sort_keys=True, default=dict))(coerced)
    if problem is not None:
        raise SchemaMismatchError(f"it does not fit the schema: {problem}")
    assert isinstance(coerced, dict)
    return coerced


def parse_number(text: str, schema: Mapping[str, Any]) -> int | float | None:
    """The number in a string: ``4``, or ``4/5`` and ``4 out of 5`` if 5 is the maximum; else ``None``."""
    match = _NUMBER_TEXT.fullmatch(text.strip())
    if match is None:
        return None
    if match["best"] is not None:
        best = schema.get("maximum")
        if not isinstance(best, (int, float)) or float(match["best"]) != best:
            raise SchemaMismatchError(f"'{text.strip()}' is on another scale")
    return float(match["number"]) if "." in match["number"] else int(match["number"])


def _coerce(value: Any, schema: Any, where: str) -> Any:
    if not isinstance(schema, Mapping):
        return value
    if "enum" in schema or "const" in schema:
        return _label(value, schema["enum"] if "enum" in schema else [schema["const"]], where)
    kinds = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kinds, (list, tuple)):
        return _any_kind(value, kinds, schema, where)
    maker = _KINDS.get(kinds) if isinstance(kinds, str) else None
    return maker(value, schema, where) if maker else value


def _any_kind(value: Any, kinds: list[Any] | tuple[Any, ...], schema: Mapping[str, Any], where: str) -> Any:
    """Coerce to the type the value already has; else to the only type that it can be coerced to."""
    coerced: list[Any] = []
    first_error: SchemaMismatchError | None = None
    for kind in kinds:
        try:
            one = _coerce(value, {**schema, "type": kind}, where)
        except SchemaMismatchError as error:
            first_error = error if first_error is None or error.reason == "out_of_range" else first_error
            continue
        if one == value and type(one) is type(value):
            return one
        coerced.append(one)
    if len(coerced) != 1:
        raise first_error or SchemaMismatchError(f"{where} can be read in several ways")
    return coerced[0]


def _coerce_to_object(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    if not isinstance(value, dict):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not an object")
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return value
    required = schema.get("required", ())
    by_fold: dict[str, list[str]] = {}
    for key in value:
        by_fold.setdefault(normalise_name(key), []).append(key)
    coerced = {}
    for name, inner in properties.items():
        keys = [name] if name in value else by_fold.get(normalise_name(name), [])
        if len(keys) > 1:
            raise SchemaMismatchError(f"{where} has '{name}' several times")
        if keys and not (value[keys[0]] is None and name not in required and not _may_be_null(inner)):
            coerced[name] = _coerce(value[keys[0]], inner, f"'{name}'")
        elif name in required:
            raise SchemaMismatchError(f"{where} has no '{name}'")
    return coerced


def _coerce_array(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    if not isinstance(value, list):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not a list")
    items = schema.get("items")
    return [_coerce(one, items, f"item {number} of {where}") for number, one in enumerate(value, 1)]


def _coerce_number(value: Any, schema: Mapping[str, Any], where: str) -> int | float:
    number = parse_number(value, schema) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not a number")
    try:
        is_finite = math.isfinite(number)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise SchemaMismatchError(f"{where} is no number that can be counted with", "out_of_range")
    if schema.get("type") == "integer":
        if number != int(number):
            raise SchemaMismatchError(f"{where} is {number}, not a whole number")
        number = int(number)
    for name, is_beyond, words in _BOUNDS:
        bound = schema.get(name)
        if isinstance(bound, (int, float)) and not isinstance(bound, bool) and is_beyond(number, bound):
            raise SchemaMismatchError(f"{where} is {_short_repr(number)}, {words.format(bound)}", "out_of_range")
    return number


def _coerce_string(value: Any, schema: Mapping[str, Any], where: str) -> str:
    if not isinstance(value, str):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not a text")
    return value


def _boolean(value: Any, schema: Mapping[str, Any], where: str) -> bool:
    if isinstance(value, bool):
        return value
    parsed = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if parsed is None:
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, neither true nor false")
    return parsed


def _null(value: Any, schema: Mapping[str, Any], where: str) -> None:
    if value is not None:
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not null")


_KINDS: dict[str, Callable[[Any, Mapping[str, Any], str], Any]] = {
    "array": _coerce_array,
    "boolean": _boolean,
    "integer": _coerce_number,
    "null": _null,
    "number": _coerce_number,
    "object": _coerce_to_object,
    "string": _coerce_string,
}


def _label(value: Any, labels: Any, where: str) -> Any:
    """The matching label: an equal one, or the only one that differs in case and surrounding marks alone."""
    for label in labels:
        if type(label) is type(value) and label == value:
            return label
    folded = normalise_name(value).strip(".!") if isinstance(value, str) else None
    matches = [label for label in labels if _same_label(folded, label) or _same_number(value, label)]
    if len(matches) != 1:
        numbers = not any(isinstance(one, (bool, str)) for one in (value, *labels))
        message = f"{where} is {_short_repr(value)}, none of {', '.join(map(str, labels)):.200}"
        raise SchemaMismatchError(message, "out_of_range" if numbers else "unparseable")
    return matches[0]


def _same_label(folded: str | None, label: Any) -> bool:
    return isinstance(label, str) and folded is not None and normalise_name(label) == folded


def _same_number(value: Any, label: Any) -> bool:
    if isinstance(label, bool) or not isinstance(label, (int, float)) or isinstance(value, bool):
        return False
    if isinstance(value, str):
        value = parse_number(value, {})
    return isinstance(value, (int, float)) and value == label


def normalise_name(text: str) -> str:
    """A name or label in normal form: without differences in case, blanks and surrounding marks."""
    return _SPACES.sub("_", text.strip().strip("*`\"'").casefold())


def _may_be_null(schema: Any) -> bool:
    kinds = schema.get("type", "null") if isinstance(schema, Mapping) else "null"
    return kinds == "null" or (isinstance(kinds, (list, tuple)) and "null" in kinds)


def _short_repr(value: Any) -> str:
    """A value in a message; short, because the message is sent back to the judge."""
    return f"{value!r:.40}"


@lru_cache(maxsize=256)
def _checker(schema: str) -> Callable[[Any], str | None]:
    """A function that returns the first schema violation; the schema is JSON and no remote reference is fetched."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    loaded = json.loads(schema)
    validator = validator_for(loaded, default=Draft202012Validator)(loaded, registry=Registry())

    def check(answer: Any) -> str | None:
        fault = next(iter(validator.iter_errors(answer)), None)
        return None if fault is None else f"{fault.message:.200}"

    return check
