"""Request templates: JSON values whose strings contain placeholders such as ``{query}``.

Placeholders cannot name the gold of a sample, and its labels and metadata are sent only if the template names them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import BadTypeError, BadValueError, SystemCallError, did_you_mean
from ..core.types import EvaluationSample
from .json_paths import JsonPath, PathNotFoundError, parse_path

__all__ = ["Template", "default_request", "json_text"]

_PLAIN = ("query", "sample_id", "top_k", "history")
_NESTED = ("labels", "metadata")
_NAMES = (*_PLAIN, *_NESTED)
_MARKS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def default_request(sample: EvaluationSample, top_k: int) -> dict[str, Any]:
    """The request without a template; it has a history only if the sample has one."""
    question: dict[str, Any] = {"sample_id": sample.sample_id, "query": sample.query, "top_k": top_k}
    if sample.history:
        question["history"] = sample.history
    return question


def json_text(value: object) -> str:
    """``value`` as ASCII JSON; ``bad_request`` if JSON cannot represent it."""
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SystemCallError("bad_request", f"the question cannot be written as JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """One ``{...}``."""

    path: JsonPath

    def value(self, facts: Mapping[str, Any]) -> Any:
        try:
            return self.path.find(facts, inside=f"sample '{facts['sample_id']}'")
        except PathNotFoundError as error:
            if self.path.optional:
                return None
            raise SystemCallError(
                "bad_request", f"{error}, and the request asks for it; '{{{self.path.text}?}}' may be absent"
            ) from error


@dataclass(frozen=True, slots=True)
class _Text:
    """A string with placeholders."""

    parts: tuple[str | _Placeholder, ...]

    def fill(self, facts: Mapping[str, Any]) -> Any:
        if len(self.parts) == 1 and isinstance(self.parts[0], _Placeholder):
            return self.parts[0].value(facts)  # alone, a value keeps its type
        return "".join(part if isinstance(part, str) else _inline(part.value(facts)) for part in self.parts)


class Template:
    """A JSON value whose strings contain placeholders; checked when it is created, filled for each sample.

    ``{query}``, ``{sample_id}``, ``{top_k}``, ``{history}``, ``{labels.lang}`` and ``{metadata.a.b}`` are known. A
    string that is one placeholder and nothing else becomes the value itself (``"{top_k}"`` becomes ``5``); otherwise
    strings are inserted as they are and other values as JSON. ``{{`` and ``}}`` are braces. Keys are not changed.
    """

    def __init__(self, value: object, *, what: str = "request") -> None:
        self._value = _compile(value, what)

    def fill(self, sample: EvaluationSample, top_k: int) -> Any:
        """The request for ``sample``; ``SystemCallError`` if it lacks a label or metadata that the template names."""
        facts = {
            "query": sample.query,
            "sample_id": sample.sample_id,
            "top_k": top_k,
            "history": sample.history,
            "labels": sample.labels,
            "metadata": sample.metadata,
        }
        return _fill(self._value, facts)


def _compile(value: object, where: str) -> Any:
    if isinstance(value, str):
        return _Text(tuple(_parts(value, where)))
    if isinstance(value, Mapping):
        _refuse_unquoted(value, where)
        for key in value:
            if not isinstance(key, str):
                raise BadTypeError(f"{where} has the key {key!r}; keys must be texts")
        return {key: _compile(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_compile(item, f"{where}[{place}]") for place, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise BadTypeError(f"{where} holds {value!r:.80}, which JSON cannot carry; put it in quotes")


def _refuse_unquoted(value: Mapping[Any, Any], where: str) -> None:
    """Refuse ``{query}`` without quotes, which YAML reads as a mapping with one empty key."""
    if len(value) == 1:
        ((key, inner),) = value.items()
        if inner is None and isinstance(key, str) and key.partition(".")[0] in _NAMES:
            raise BadValueError(f'{where}: write the placeholder in quotes: "{{{key}}}"')


def _parts(text: str, where: str) -> list[str | _Placeholder]:
    parts: list[str | _Placeholder] = []
    position = 0
    for mark in _MARKS.finditer(text):
        if before := text[position : mark.start()]:
            parts.append(before)
        position = mark.end()
        if mark[0] in ("{{", "}}"):
            parts.append(mark[0][0])
        elif mark[1] is None:
            raise BadValueError(
                f"{where}: a single '{mark[0]}' in {text!r:.80}; write '{mark[0] * 2}' for the character"
            )
        else:
            parts.append(_placeholder(mark[1], where))
    if rest := text[position:]:
        parts.append(rest)
    return parts


def _placeholder(name: str, where: str) -> _Placeholder:
    first = name.strip().removesuffix("?").partition(".")[0].partition("[")[0]
    listing = f"; known are {', '.join(f'{{{known}}}' for known in _PLAIN)}, {{labels.NAME}} and {{metadata.NAME}}"
    if first not in _NAMES:
        raise BadValueError(
            f"{where}: there is no placeholder '{{{name}}}'{did_you_mean(first, _NAMES, otherwise=listing)}"
        )
    path = parse_path(name, what=f"{where}: '{{{name}}}'")
    if first in _PLAIN and len(path.steps) > 1 and first != "history":
        raise BadValueError(f"{where}: '{{{name}}}' leads into '{first}', which holds nothing; write '{{{first}}}'")
    return _Placeholder(path)


def _fill(value: Any, facts: Mapping[str, Any]) -> Any:
    if isinstance(value, _Text):
        return value.fill(facts)
    if isinstance(value, dict):
        return {key: _fill(item, facts) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, facts) for item in value]
    return value


def _inline(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)
