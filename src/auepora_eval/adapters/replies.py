"""What replies hold besides documents: texts of messages, structured answers, tokens; and earlier turns to send."""

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
    """The answer in a text, a message, a mapping or a pydantic model; ``None`` where it is none of these.

    What is structured keeps its structure, and is JSON as a text: an empty text would pass for a refusal.
    """
    if isinstance(value, str):
        return Response(str(value))
    content = getattr(value, "content", None)
    if isinstance(content, (str, list)):  # a message; a list holds parts of it, some of them texts
        return Response(content if isinstance(content, str) else "".join(map(_part, content)))
    fields = value if isinstance(value, Mapping) else dump_model(value)
    if fields is None:
        return None
    structured = to_json_value(fields)
    return Response(json.dumps(structured, ensure_ascii=False), structured)


def dump_model(value: Any) -> Mapping[str, Any] | None:
    """What a pydantic model holds; ``None`` where it is not one."""
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
    """The tokens of several reports, added up under the names that outputs use."""
    total: dict[str, Any] = {}
    for report in reports:
        if not isinstance(report, Mapping):
            continue
        one: dict[str, int] = {}
        for name, spellings in _TOKENS.items():
            held = next((report[key] for key in spellings if isinstance(report.get(key), int)), None)
            if held is not None:
                one[name] = held
        if one:
            one.setdefault("total_tokens", sum(one.values()))
        for name, number in one.items():
            total[name] = total.get(name, 0) + number
    return total


def earlier_turns(sample: EvaluationSample) -> list[tuple[str, str]]:
    """The role and the text of every earlier turn that has both."""
    turns = [(turn.get("role"), turn.get("content")) for turn in sample.history]
    return [(role, text) for role, text in turns if isinstance(role, str) and isinstance(text, str)]
