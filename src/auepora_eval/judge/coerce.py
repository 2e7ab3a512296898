"""Makes what was read fit the schema that was asked for, where there is one way to do it."""

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
    """A value that cannot be made to fit; ``reason`` is that of a ``JudgeError``."""

    def __init__(self, message: str, reason: str = "unparseable") -> None:
        self.reason, self.message = reason, message
        super().__init__(message)


def coerce_to_schema(value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The answer by the schema: names and labels in their own spelling, numbers as numbers, what is extra left out."""
    fitted = _coerce(value, schema, "the answer")
    fault = _checker(json.dumps(schema, sort_keys=True, default=dict))(fitted)
    if fault is not None:
        raise SchemaMismatchError(f"it does not fit the schema: {fault}")
    assert isinstance(fitted, dict)
    return fitted


def parse_number(text: str, schema: Mapping[str, Any]) -> int | float | None:
    """The number that a text is: ``4``, or ``4/5`` and ``4 out of 5`` where 5 is the best there is."""
    found = _NUMBER_TEXT.fullmatch(text.strip())
    if found is None:
        return None
    if found["best"] is not None:
        best = schema.get("maximum")
        if not isinstance(best, (int, float)) or float(found["best"]) != best:
            raise SchemaMismatchError(f"'{text.strip()}' is on another scale")
    return float(found["number"]) if "." in found["number"] else int(found["number"])


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
    """By the kind that the value is of already; where it is of none, by the only one it can be made of."""
    made: list[Any] = []
    told: SchemaMismatchError | None = None
    for kind in kinds:
        try:
            one = _coerce(value, {**schema, "type": kind}, where)
        except SchemaMismatchError as error:
            told = error if told is None or error.reason == "out_of_range" else told
            continue
        if one == value and type(one) is type(value):
            return one
        made.append(one)
    if len(made) != 1:
        raise told or SchemaMismatchError(f"{where} can be read in several ways")
    return made[0]


def _object(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    if not isinstance(value, dict):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not an object")
    named = schema.get("properties")
    if not isinstance(named, Mapping):
        return value
    required = schema.get("required", ())
    by_fold: dict[str, list[str]] = {}
    for key in value:
        by_fold.setdefault(normalise_name(key), []).append(key)
    fitted = {}
    for name, inner in named.items():
        keys = [name] if name in value else by_fold.get(normalise_name(name), [])
        if len(keys) > 1:
            raise SchemaMismatchError(f"{where} has '{name}' several times")
        if keys and not (value[keys[0]] is None and name not in required and not _may_be_null(inner)):
            fitted[name] = _coerce(value[keys[0]], inner, f"'{name}'")
        elif name in required:
            raise SchemaMismatchError(f"{where} has no '{name}'")
    return fitted


def _array(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    if not isinstance(value, list):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not a list")
    items = schema.get("items")
    return [_coerce(one, items, f"item {number} of {where}") for number, one in enumerate(value, 1)]


def _number(value: Any, schema: Mapping[str, Any], where: str) -> int | float:
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


def _string(value: Any, schema: Mapping[str, Any], where: str) -> str:
    if not isinstance(value, str):
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not a text")
    return value


def _boolean(value: Any, schema: Mapping[str, Any], where: str) -> bool:
    if isinstance(value, bool):
        return value
    said = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if said is None:
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, neither true nor false")
    return said


def _null(value: Any, schema: Mapping[str, Any], where: str) -> None:
    if value is not None:
        raise SchemaMismatchError(f"{where} is {_short_repr(value)}, not null")


_KINDS: dict[str, Callable[[Any, Mapping[str, Any], str], Any]] = {
    "array": _array,
    "boolean": _boolean,
    "integer": _number,
    "null": _null,
    "number": _number,
    "object": _object,
    "string": _string,
}


def _label(value: Any, labels: Any, where: str) -> Any:
    """The label that is meant: the same one, or the only one that is the same but for case and marks around it."""
    for label in labels:
        if type(label) is type(value) and label == value:
            return label
    folded = normalise_name(value).strip(".!") if isinstance(value, str) else None
    meant = [label for label in labels if _same_label(folded, label) or _same_number(value, label)]
    if len(meant) != 1:
        numbers = not any(isinstance(one, (bool, str)) for one in (value, *labels))
        told = f"{where} is {_short_repr(value)}, none of {', '.join(map(str, labels)):.200}"
        raise SchemaMismatchError(told, "out_of_range" if numbers else "unparseable")
    return meant[0]


def _same_label(folded: str | None, label: Any) -> bool:
    return isinstance(label, str) and folded is not None and normalise_name(label) == folded


def _same_number(value: Any, label: Any) -> bool:
    if isinstance(label, bool) or not isinstance(label, (int, float)) or isinstance(value, bool):
        return False
    if isinstance(value, str):
        value = parse_number(value, {})
    return isinstance(value, (int, float)) and value == label


def normalise_name(text: str) -> str:
    """A name or a label without what people and models spell differently: case, blanks, marks around it."""
    return _SPACES.sub("_", text.strip().strip("*`\"'").casefold())


def _may_be_null(schema: Any) -> bool:
    kinds = schema.get("type", "null") if isinstance(schema, Mapping) else "null"
    return kinds == "null" or (isinstance(kinds, (list, tuple)) and "null" in kinds)


def _short_repr(value: Any) -> str:
    """A value in a message: short, for it is sent back to the judge."""
    return f"{value!r:.40}"


@lru_cache(maxsize=256)
def _checker(schema: str) -> Callable[[Any], str | None]:
    """What is wrong with an answer by a schema, given as JSON; nothing is ever fetched for it."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    held = json.loads(schema)
    validator = validator_for(held, default=Draft202012Validator)(held, registry=Registry())

    def check(answer: Any) -> str | None:
        fault = next(iter(validator.iter_errors(answer)), None)
        return None if fault is None else f"{fault.message:.200}"

    return check
