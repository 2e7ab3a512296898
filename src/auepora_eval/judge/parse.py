"""Reads a judge's answer by the schema that was asked for, however it was written down; where in doubt, not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..core.errors import JudgeError
from ..core.secrets import CUT
from ..text.refusal import built_in_patterns, declines, folded_patterns
from .fitting import MisfitError, fit, folded_name, number_text
from .lenient_json import Found, find_objects, whole_object

__all__ = ["Reading", "parse_answer", "read_answer", "shortened"]

LONGEST = 100_000
"""Characters: a longer answer is not read."""
KEPT = 4_000
"""Characters of an answer that are kept beside an error."""

_OPEN = re.compile(r"<(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
_MARKUP = re.compile(r"```[\w-]*|~~~[\w-]*|[*`\"“”]|^\s*[#>]+", re.MULTILINE)
_LONGEST_LINE = 200
_DIGITS = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_LABEL_WORDS = (
    "my", "the", "final", "overall", "total", "score", "rating", "grade", "judgement", "judgment", "verdict", "is",
)  # fmt: skip
_REFUSED_WITHIN = 300
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
class Reading:
    """An answer that fits its schema, and where it was read."""

    answer: dict[str, Any]
    spans: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Where in the text the values of its own keys stand, for those that stand there once."""


def parse_answer(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in a judge's text, as an object that fits the schema.

    ``JudgeError`` says why there is none: ``empty_answer``, ``refused``, ``out_of_range``, ``cut_off`` or
    ``unparseable``. A text that can be read in two ways is unparseable.
    """
    return read_answer(text, schema).answer


def read_answer(text: str, schema: Mapping[str, Any]) -> Reading:
    """``parse_answer``, and where the values stand."""
    if len(text) > LONGEST:
        raise _error("unparseable", f"the answer is longer than {LONGEST} characters", text)
    if not text.strip("\ufeff\u200b \t\r\n"):
        raise _error("empty_answer", "the judge said nothing", text)
    try:
        whole = whole_object(text)
        return _reading(whole, schema) if whole else _read_prose(_without_thoughts(text), schema)
    except MisfitError as error:
        raise _error(error.reason, error.message, text) from None


def shortened(text: str, length: int = KEPT) -> str:
    """The beginning and the end of a text that is too long to keep."""
    if len(text) <= length:
        return text
    return f"{text[: length // 2]} {CUT} {text[-(length // 2) :]}"


def _error(reason: str, message: str, text: str) -> JudgeError:
    return JudgeError(reason, message, raw=shortened(text))


def _reading(found: Found, schema: Mapping[str, Any]) -> Reading:
    return Reading(fit(found.value, schema), found.spans)


def _without_thoughts(text: str) -> str:
    """The text with what the judge thought aloud blanked, so that everything stays where it is."""
    opening, closings = _OPEN.search(text), list(_CLOSE.finditer(text))
    if closings:
        start = opening.start() if opening and opening.start() < closings[-1].start() else 0
        text = _blanked(text, start, closings[-1].end())
        opening = _OPEN.search(text)
    if opening:
        text = _blanked(text, opening.start(), len(text))
    if not text.strip():
        raise MisfitError("the judge thought aloud and came to no answer", "cut_off" if opening else "empty_answer")
    return text


def _blanked(text: str, start: int, end: int) -> str:
    return text[:start] + " " * (end - start) + text[end:]


def _read_prose(text: str, schema: Mapping[str, Any]) -> Reading:
    objects = find_objects(text)
    if objects.cut:
        raise MisfitError("the answer ends in the middle of an object")
    answers = [one for one in objects.found if _is_answer(one.value, schema)]
    if answers:
        return _agreed(answers, schema)
    if not objects.found and not objects.broken and (bare := _bare(text, schema)):
        return bare
    if declines(text.strip()[:_REFUSED_WITHIN], _refusals()):
        raise MisfitError("the judge declined to judge", "refused")
    if objects.found:
        _reading(objects.found[0], schema)  # says what is missing
    told = "the object in the answer cannot be read" if objects.broken else "there is no object in the answer"
    raise MisfitError(told)


def _is_answer(value: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Whether an object is meant as the answer: it has what the schema requires, or something of it if nothing is."""
    folded = set(map(folded_name, value))
    if required := schema.get("required"):
        return all(folded_name(name) in folded for name in required)
    return any(folded_name(name) in folded for name in schema.get("properties", ()))


def _agreed(answers: list[Found], schema: Mapping[str, Any]) -> Reading:
    readings: list[Reading] = []
    misfits: list[MisfitError] = []
    for one in answers:
        try:
            readings.append(_reading(one, schema))
        except MisfitError as error:
            misfits.append(error)
    if (readings and misfits) or any(one.answer != readings[0].answer for one in readings):
        raise MisfitError("the answer holds several objects that say different things")
    if misfits:
        raise misfits[0]
    return readings[0] if len(readings) == 1 else Reading(readings[0].answer)


def _bare(text: str, schema: Mapping[str, Any]) -> Reading | None:
    """A number or a label alone, where the schema asks for just one; beside other text only behind ``Score:``."""
    required = list(schema.get("required", ()))
    inner = schema.get("properties", {}).get(required[0]) if len(required) == 1 else None
    if not isinstance(inner, Mapping) or not (inner.get("type") in ("number", "integer") or "enum" in inner):
        return None
    plain = _MARKUP.sub(lambda found: " " * len(found[0]), text)
    alone = len(plain.strip().splitlines()) == 1
    readings: list[Reading] = []
    at = 0
    for line in plain.splitlines(keepends=True):
        found = _value_line(required[0]).match(line) if len(line) <= _LONGEST_LINE else None
        if found is not None and ((found["label"] and found["mark"]) or alone):
            reading = _one(required[0], found["value"], inner, schema, at + found.start("value"))
            if reading is None and not alone and any(map(str.isdigit, found["value"])):
                raise MisfitError("the answer names a value that cannot be read")
            readings += [reading] if reading else []
        at += len(line)
    if any(one.answer != readings[0].answer for one in readings):
        raise MisfitError("the answer names several values")
    return readings[0] if len(readings) == 1 else Reading(readings[0].answer) if readings else None


def _one(name: str, said: str, inner: Mapping[str, Any], schema: Mapping[str, Any], start: int) -> Reading | None:
    value = said if "enum" in inner else number_text(said, inner)
    if value is None:
        return None
    try:
        answer = fit({name: value}, schema)
    except MisfitError as error:
        if error.reason == "out_of_range":
            raise
        return None
    digits = _DIGITS.match(said)
    return Reading(answer, {name: (start, start + digits.end())} if digits else {})


@lru_cache(maxsize=64)
def _value_line(name: str) -> re.Pattern[str]:
    """A line with a value; before it what says that it is one."""
    known = sorted({*_LABEL_WORDS, name, *name.split("_")}, key=lambda word: (-len(word), word))
    words = "|".join(map(re.escape, known))
    before = rf"\s*(?P<label>(?:(?:{words})\b\s*){{0,6}})(?P<mark>[:=]|(?<=\bis)|(?<=\bis )|)"
    return re.compile(rf"{before}\s*(?P<value>\S.*?)\s*[.!]?\s*$", re.IGNORECASE)


@lru_cache(maxsize=1)
def _refusals() -> tuple[str, ...]:
    return folded_patterns([*_DECLINED, *built_in_patterns()])
