"""Parse a judge's reply to the requested schema, whatever its format; an ambiguous reply is rejected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..core.errors import JudgeError
from ..core.secrets import ELLIPSIS
from ..text.refusal import built_in_patterns, is_refusal, normalize_patterns
from .coerce import SchemaMismatchError, coerce_to_schema, normalise_name, parse_number
from .lenient_json import ParsedObject, find_objects, parse_whole_object

__all__ = ["ParsedAnswer", "parse_answer", "read_answer", "shorten"]

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
    *(f"{cannot} {verb}" for cannot in _CANNOT for verb in _JUDGE),
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
    answers = [one for one in objects.objects if _is_answer(one.value, schema)]
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
    for one in answers:
        try:
            readings.append(_coerce_object(one, schema))
        except SchemaMismatchError as error:
            errors.append(error)
    if (readings and errors) or any(one.answer != readings[0].answer for one in readings):
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
    if any(one.answer != readings[0].answer for one in readings):
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
