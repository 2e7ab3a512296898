"""Answers and token usage in replies, and earlier turns to send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.results import to_json_value
from ..core.types import EvaluationSample, Response

__all__ = ["dump_model", "earlier_turns", "extract_response", "sum_token_usage"]

_TOKENS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "total_tokens": ("total_tokens",),
}


def extract_response(value: Any) -> Response | None:
    """The response in a string, a message, a mapping or a pydantic model; ``None`` for anything else.

    A structured answer also gets its JSON as text: an empty text would count as a refusal.
    """
    if isinstance(value, str):
        return Response(str(value))
    content = getattr(value, "content", None)
    if isinstance(content, (str, list)):  # a message; a list contains its parts, some of them text
        return Response(content if isinstance(content, str) else "".join(map(_part, content)))
    fields = value if isinstance(value, Mapping) else dump_model(value)
    if fields is None:
        return None
    structured = to_json_value(fields)
    return Response(json.dumps(structured, ensure_ascii=False), structured)


def dump_model(value: Any) -> Mapping[str, Any] | None:
    """The fields of a pydantic model; ``None`` for anything else."""
    if isinstance(value, type) or not any(kind.__module__.startswith("pydantic.") for kind in type(value).__mro__):
        return None
    fields = value.model_dump()
    return fields if isinstance(fields, Mapping) else None


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def sum_token_usage(reports: Iterable[Any]) -> dict[str, Any]:
    """The sum of several usage reports, under the names that outputs use."""
    total: dict[str, Any] = {}
    for report in reports:
        if not isinstance(report, Mapping):
            continue
        counts: dict[str, int] = {}
        for name, spellings in _TOKENS.items():
            count = next((report[key] for key in spellings if isinstance(report.get(key), int)), None)
            if count is not None:
                counts[name] = count
        if counts:
            counts.setdefault("total_tokens", sum(counts.values()))
        for name, number in counts.items():
            total[name] = total.get(name, 0) + number
    return total


def earlier_turns(sample: EvaluationSample) -> list[tuple[str, str]]:
    """The role and the text of every earlier turn that has both."""
    turns = [(turn.get("role"), turn.get("content")) for turn in sample.history]
    return [(role, text) for role, text in turns if isinstance(role, str) and isinstance(text, str)]
