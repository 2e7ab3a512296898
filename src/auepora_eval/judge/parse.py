"""Parse a judge's reply to the requested schema, whatever its format; an ambiguous reply is rejected."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from ..errors import JudgeError
from ..runtime.secrets import ELLIPSIS
from ..text.refusal import built_in_patterns, is_refusal, normalize_patterns

# --- coercion to the requested schema, where there is exactly one way to do it ---------------------------------------

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
            changed = _coerce(value, {**schema, "type": kind}, where)
        except SchemaMismatchError as error:
            first_error = error if first_error is None or error.reason == "out_of_range" else first_error
            continue
        if changed == value and type(changed) is type(value):
            return changed
        coerced.append(changed)
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
    return [_coerce(inner, items, f"item {number} of {where}") for number, inner in enumerate(value, 1)]


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
        numbers = not any(isinstance(label, (bool, str)) for label in (value, *labels))
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


# --- lenient parser for the JSON objects in a model's reply ----------------------------------------------------------
# Beyond JSON it accepts other kinds of quotes, Python's ``True``, ``False`` and ``None``, keys without quotes, trailing
# commas and line breaks inside strings. It never repairs: an object that cannot be parsed to its end is rejected.

_BLANK = re.compile(r"[\s\u200b\ufeff]*")
_STRINGS = {  # by opening quote; the closing quote must be escaped inside
    opening: re.compile(rf"[^{closing}\\]*(?:\\.[^{closing}\\]*)*(?P<end>[{closing}])", re.DOTALL)
    for opening, closing in {'"': '"', "'": "'", "“": "“”", "”": "“”", "„": "“”", "‘": "‘’", "’": "‘’"}.items()
}
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_MAX_NUMBER_CHARS = 40
_MAX_DEPTH = 32
_BRACE = re.compile(r"[{}]")


class _NoObjectError(Exception):
    """A brace that does not start an object."""


class _BrokenError(Exception):
    """An object that cannot be parsed to its end."""


class _TruncatedError(_BrokenError):
    """An object that is not closed before the text ends."""


@dataclass(frozen=True, slots=True)
class ParsedObject:
    """One object in a text."""

    value: dict[str, Any]
    spans: dict[str, tuple[int, int]]
    """Positions in the text of the values of its own keys."""
    end: int


@dataclass(frozen=True, slots=True)
class ObjectScan:
    """The outermost complete objects of a text, in order."""

    objects: list[ParsedObject] = field(default_factory=list)
    broken: bool = False
    """Whether there is an object that cannot be parsed."""
    truncated: bool = False
    """Whether the text ends inside an object."""


def find_objects(text: str) -> ObjectScan:
    """All objects of a text. The parts of a broken object are ignored, because they mean something else."""
    objects: list[ParsedObject] = []
    broken = False
    at = text.find("{")
    while at >= 0:
        try:
            objects.append(_read(text, at))
            resume = objects[-1].end
        except _NoObjectError:
            resume = at + 1
        except _TruncatedError:
            return ObjectScan(objects, broken, truncated=True)
        except _BrokenError:
            broken, resume = True, _balanced_end(text, at)
        at = text.find("{", resume) if resume >= 0 else -1
    return ObjectScan(objects, broken)


def parse_whole_object(text: str) -> ParsedObject | None:
    """The object if the whole text is one; else ``None``."""
    at = _skip(text, 0)
    if not text.startswith("{", at):
        return None
    try:
        parsed = _read(text, at)
    except (_NoObjectError, _BrokenError):
        return None
    return parsed if _skip(text, parsed.end) == len(text) else None


def _read(text: str, at: int) -> ParsedObject:
    spans: dict[str, tuple[int, int]] = {}
    value, end = _parse_object(text, at, 1, spans)
    return ParsedObject(value, spans, end)


def _parse_object(
    text: str, at: int, depth: int, spans: dict[str, tuple[int, int]] | None = None
) -> tuple[dict[str, Any], int]:
    members: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        try:
            key, at = _key(text, at)
        except _BrokenError:
            if members or depth > 1 or at >= len(text):
                raise
            raise _NoObjectError from None
        start = _skip(text, at)
        value, end = _value(text, start, depth)
        if key in members and members[key] != value:
            raise _BrokenError(f"'{key}' stands twice")
        members[key] = value
        if spans is not None:
            spans[key] = start, end
        at = _after(text, end, "}")
    return members, at + 1


def _parse_array(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        value, end = _value(text, at, depth)
        items.append(value)
        at = _after(text, end, "]")
    return items, at + 1


def _after(text: str, at: int, closing: str) -> int:
    """Where the next item begins, or where the closing bracket stands."""
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if not text.startswith(closing, at):
        raise _failure(text, at)
    return at


def _key(text: str, at: int) -> tuple[str, int]:
    """A key and where its value may begin."""
    if text[at : at + 1] in _STRINGS:
        key, at = _parse_string(text, at)
    elif word := _WORD.match(text, at):
        key, at = word[0], word.end()
    else:
        raise _failure(text, at)
    at = _skip(text, at)
    if not text.startswith(":", at):
        raise _failure(text, at)
    return key, at + 1


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    first = text[at : at + 1]
    if first in ("{", "["):
        if depth >= _MAX_DEPTH:
            raise _BrokenError("nested too deeply")
        return (_parse_object if first == "{" else _parse_array)(text, at, depth + 1)
    if first in _STRINGS:
        return _parse_string(text, at)
    if number := _NUMBER.match(text, at):
        return _parse_number(number[0]), number.end()
    if (word := _WORD.match(text, at)) and word[0] in _CONSTANTS:
        return _CONSTANTS[word[0]], word.end()
    raise _failure(text, word.end() if word else at)


def _parse_string(text: str, at: int) -> tuple[str, int]:
    match = _STRINGS[text[at]].match(text, at + 1)
    if match is None:
        raise _TruncatedError
    inside = text[at + 1 : match.start("end")]
    return replace_lone_surrogates(_ESCAPE.sub(_unescape, inside) if "\\" in inside else inside), match.end()


def replace_lone_surrogates(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which escapes may produce, replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[0])


def _parse_number(text: str) -> int | float:
    if len(text) > _MAX_NUMBER_CHARS:
        raise _BrokenError("a number without end")
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if value in (float("inf"), float("-inf")):
        raise _BrokenError("no number is that large")
    return value


def _failure(text: str, at: int) -> _BrokenError:
    return _TruncatedError() if at >= len(text) else _BrokenError(f"at {at}")


def _skip(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _balanced_end(text: str, at: int) -> int:
    """The position after the brace that balances the one at ``at``; -1 if there is none."""
    depth = 0
    for brace in _BRACE.finditer(text, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return -1


# --- the answer in a reply of any format; an ambiguous reply is rejected ---------------------------------------------

MAX_ANSWER_CHARS = 100_000
"""A longer reply is rejected."""
MAX_KEPT_CHARS = 4_000
"""Characters of a reply that are stored with an error."""

_OPEN = re.compile(r"<(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
_MARKUP = re.compile(r"```[\w-]*|~~~[\w-]*|[*`\"“”]|^\s*[#>]+", re.MULTILINE)
_MAX_LINE_CHARS = 200
_DIGITS = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_LABEL_WORDS = (
    "my", "the", "final", "overall", "total", "score", "rating", "grade", "judgement", "judgment", "verdict", "is",
)  # fmt: skip
_REFUSAL_PREFIX_CHARS = 300
_CANNOT = (
    "i cannot", "i can't", "i can not", "i am unable to", "i'm unable to", "i am not able to", "i'm not able to",
    "i won't", "i will not",
)  # fmt: skip
_JUDGE = (
    "judge", "evaluate", "assess", "rate", "score", "grade", "help", "assist", "comply", "provide", "determine",
    "do that", "fulfil", "fulfill", "give a score", "make a judgement",
)  # fmt: skip
_DECLINED = (
    *(" ".join(words) for words in product(_CANNOT, _JUDGE)),
    "as an ai", "as a language model", "i must decline", "i decline to", "i refuse to", "i'm sorry, but",
    "i am sorry, but",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """An answer that fits its schema, and the positions of its values."""

    answer: dict[str, Any]
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Positions in the text of the values of its own keys, for those that occur once."""


def parse_answer(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in a judge's reply, as an object that fits the schema.

    The reason of a ``JudgeError`` is ``empty_answer``, ``refused``, ``out_of_range``, ``cut_off`` or
    ``unparseable``. A reply that can be read in two ways is unparseable.
    """
    return read_answer(text, schema).answer


def read_answer(text: str, schema: Mapping[str, Any]) -> ParsedAnswer:
    """``parse_answer`` with the positions of the values."""
    if len(text) > MAX_ANSWER_CHARS:
        raise _error("unparseable", f"the answer is longer than {MAX_ANSWER_CHARS} characters", text)
    if not text.strip("\ufeff\u200b \t\r\n"):
        raise _error("empty_answer", "the judge said nothing", text)
    try:
        whole = parse_whole_object(text)
        return _coerce_object(whole, schema) if whole else _read_prose(_blank_thoughts(text), schema)
    except SchemaMismatchError as error:
        raise _error(error.reason, error.message, text) from None


def shorten(text: str, length: int = MAX_KEPT_CHARS) -> str:
    """A long text reduced to its beginning and end."""
    if len(text) <= length:
        return text
    return f"{text[: length // 2]} {ELLIPSIS} {text[-(length // 2) :]}"


def _error(reason: str, message: str, text: str) -> JudgeError:
    return JudgeError(reason, message, raw=shorten(text))


def _coerce_object(parsed: ParsedObject, schema: Mapping[str, Any]) -> ParsedAnswer:
    return ParsedAnswer(coerce_to_schema(parsed.value, schema), parsed.spans)


def _blank_thoughts(text: str) -> str:
    """The text with thinking blocks blanked, so that positions stay the same."""
    opening, closings = _OPEN.search(text), list(_CLOSE.finditer(text))
    if closings:
        start = opening.start() if opening and opening.start() < closings[-1].start() else 0
        text = _blank(text, start, closings[-1].end())
        opening = _OPEN.search(text)
    if opening:
        text = _blank(text, opening.start(), len(text))
    if not text.strip():
        raise SchemaMismatchError(
            "the judge thought aloud and came to no answer", "cut_off" if opening else "empty_answer"
        )
    return text


def _blank(text: str, start: int, end: int) -> str:
    return text[:start] + " " * (end - start) + text[end:]


def _read_prose(text: str, schema: Mapping[str, Any]) -> ParsedAnswer:
    objects = find_objects(text)
    if objects.truncated:
        raise SchemaMismatchError("the answer ends in the middle of an object")
    answers = [found for found in objects.objects if _is_answer(found.value, schema)]
    if answers:
        return _single_reading(answers, schema)
    if not objects.objects and not objects.broken and (value := _read_bare_value(text, schema)):
        return value
    if is_refusal(text.strip()[:_REFUSAL_PREFIX_CHARS], _refusals()):
        raise SchemaMismatchError("the judge declined to judge", "refused")
    if objects.objects:
        _coerce_object(objects.objects[0], schema)  # raises with what is missing
    message = "the object in the answer cannot be read" if objects.broken else "there is no object in the answer"
    raise SchemaMismatchError(message)


def _is_answer(value: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether an object is the answer: it has all required keys, or any known key if none is required."""
    folded = set(map(normalise_name, value))
    if required := schema.get("required"):
        return all(normalise_name(name) in folded for name in required)
    return any(normalise_name(name) in folded for name in schema.get("properties", ()))


def _single_reading(answers: list[ParsedObject], schema: Mapping[str, Any]) -> ParsedAnswer:
    readings: list[ParsedAnswer] = []
    errors: list[SchemaMismatchError] = []
    for answer in answers:
        try:
            readings.append(_coerce_object(answer, schema))
        except SchemaMismatchError as error:
            errors.append(error)
    if (readings and errors) or any(reading.answer != readings[0].answer for reading in readings):
        raise SchemaMismatchError("the answer holds several objects that say different things")
    if errors:
        raise errors[0]
    return readings[0] if len(readings) == 1 else ParsedAnswer(readings[0].answer)


def _read_bare_value(text: str, schema: Mapping[str, Any]) -> ParsedAnswer | None:
    """A bare number or label, if the schema asks for just one; within other text only after ``Score:``."""
    required = list(schema.get("required", ()))
    inner = schema.get("properties", {}).get(required[0]) if len(required) == 1 else None
    if not isinstance(inner, Mapping) or not (inner.get("type") in ("number", "integer") or "enum" in inner):
        return None
    plain = _MARKUP.sub(lambda found: " " * len(found[0]), text)
    alone = len(plain.strip().splitlines()) == 1
    readings: list[ParsedAnswer] = []
    at = 0
    for line in plain.splitlines(keepends=True):
        found = _value_line(required[0]).match(line) if len(line) <= _MAX_LINE_CHARS else None
        if found is not None and ((found["label"] and found["mark"]) or alone):
            reading = _coerce_value(required[0], found["value"], inner, schema, at + found.start("value"))
            if reading is None and not alone and any(map(str.isdigit, found["value"])):
                raise SchemaMismatchError("the answer names a value that cannot be read")
            readings += [reading] if reading else []
        at += len(line)
    if any(reading.answer != readings[0].answer for reading in readings):
        raise SchemaMismatchError("the answer names several values")
    return readings[0] if len(readings) == 1 else ParsedAnswer(readings[0].answer) if readings else None


def _coerce_value(
    name: str, value_text: str, inner: Mapping[str, Any], schema: Mapping[str, Any], start: int
) -> ParsedAnswer | None:
    value = value_text if "enum" in inner else parse_number(value_text, inner)
    if value is None:
        return None
    try:
        answer = coerce_to_schema({name: value}, schema)
    except SchemaMismatchError as error:
        if error.reason == "out_of_range":
            raise
        return None
    digits = _DIGITS.match(value_text)
    return ParsedAnswer(answer, {name: (start, start + digits.end())} if digits else {})


@lru_cache(maxsize=64)
def _value_line(name: str) -> re.Pattern[str]:
    """A pattern for a line with a value after an optional label."""
    known = sorted({*_LABEL_WORDS, name, *name.split("_")}, key=lambda word: (-len(word), word))
    words = "|".join(map(re.escape, known))
    before = rf"\s*(?P<label>(?:(?:{words})\b\s*){{0,6}})(?P<mark>[:=]|(?<=\bis)|(?<=\bis )|)"
    return re.compile(rf"{before}\s*(?P<value>\S.*?)\s*[.!]?\s*$", re.IGNORECASE)


@lru_cache(maxsize=1)
def _refusals() -> tuple[str, ...]:
    return normalize_patterns([*_DECLINED, *built_in_patterns()])
