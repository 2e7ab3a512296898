"""Requests to OpenAI-compatible servers: messages, the schema, and fallbacks for what a server does not support."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .critic import JudgeRequest
from .parse import shorten

__all__ = [
    "REVISION",
    "Fallback",
    "SchemaMode",
    "ServerCapabilities",
    "build_messages",
    "close_schema",
    "repair_messages",
    "response_format",
]

SchemaMode = Literal["auto", "json_schema", "json_object", "none"]
REVISION = 1
"""Part of cache keys: raise it when the body sent for the same request changes."""
_NEXT_MODE: dict[str, SchemaMode] = {"json_schema": "json_object", "json_object": "none"}
_MODE_NAMES = {"json_object": "the prompt and JSON mode", "none": "the prompt alone"}
_SCHEMA_ERROR = re.compile(r"response.?format|json.?(schema|object)|schema|grammar|structured|guided", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """The request features to use, given what the server is known to reject."""

    schema: SchemaMode
    tokens_field: str = "max_tokens"
    logprobs: bool = False
    allow_fallback: bool = False

    def fallback_for(self, message: str) -> Fallback | None:
        """The fallback after a rejected request, or ``None``."""
        if "max_completion_tokens" in message and self.tokens_field == "max_tokens":
            return Fallback(replace(self, tokens_field="max_completion_tokens"))
        if self.logprobs and "logprobs" in message:
            loss = "tells no probabilities: scores are not weighted by them"
            return Fallback(replace(self, logprobs=False), {"logprobs": loss})
        if self.allow_fallback and self.schema in _NEXT_MODE:
            lower = _NEXT_MODE[self.schema]
            loss = f"takes no response_format by schema: answers are asked for by {_MODE_NAMES[lower]}"
            return Fallback(replace(self, schema=lower), {"schema": loss}, bool(_SCHEMA_ERROR.search(message)))
        return None


@dataclass(frozen=True, slots=True)
class Fallback:
    """A request with fewer features."""

    capabilities: ServerCapabilities
    losses: Mapping[str, str] = field(default_factory=dict)
    """What is lost by it, for a warning."""
    is_explicit: bool = True
    """Whether the server named this feature as the problem; if not, it may be another one."""


def build_messages(request: JudgeRequest, mode: SchemaMode) -> list[dict[str, str]]:
    """System and user message, with the schema in the prompt if it cannot be sent separately."""
    messages = [{"role": "system", "content": request.system}] if request.system else []
    prompt = request.prompt
    if mode != "json_schema":
        prompt = f"{prompt}\n\nAnswer with one JSON object. {_schema_instruction(request.schema)}"
    return [*messages, {"role": "user", "content": prompt}]


def repair_messages(answer: str, why: str, schema: Mapping[str, Any]) -> list[dict[str, str]]:
    """The messages that follow a reply that cannot be parsed."""
    instruction = (
        f"This answer cannot be used: {why}. Judge again, by the same instructions, and answer with nothing but one "
        f"JSON object. {_schema_instruction(schema)}"
    )
    return [{"role": "assistant", "content": shorten(answer)}, {"role": "user", "content": instruction}]


def response_format(schema: Mapping[str, Any], mode: SchemaMode) -> dict[str, Any] | None:
    """The ``response_format`` of a request."""
    if mode == "none":
        return None
    if mode == "json_object":
        return {"type": "json_object"}
    closed = close_schema(schema)
    json_schema = {"name": "judgement", "schema": closed, "strict": _is_strict(closed)}
    return {"type": "json_schema", "json_schema": json_schema}


def close_schema(schema: Any) -> Any:
    """The schema with ``additionalProperties: false`` on every object that does not set it."""
    if isinstance(schema, Mapping):
        closed = {key: close_schema(inner) for key, inner in schema.items()}
        if "properties" in closed:
            closed.setdefault("additionalProperties", False)
        return closed
    return [close_schema(one) for one in schema] if isinstance(schema, (list, tuple)) else schema


def _is_strict(schema: Any) -> bool:
    """Whether a schema satisfies the rules of strict mode: nothing optional, nothing extra."""
    if isinstance(schema, Mapping):
        named = schema.get("properties")
        if isinstance(named, Mapping):
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(named):
                return False
        elif schema.get("type") == "object":
            return False
        return all(map(_is_strict, schema.values()))
    return all(map(_is_strict, schema)) if isinstance(schema, list) else True


def _schema_instruction(schema: Mapping[str, Any]) -> str:
    """The schema as a sentence; the example comes last, because small models copy what they saw last."""
    schema_json = json.dumps(schema, ensure_ascii=False, default=dict)
    return f"Its JSON schema is {schema_json}, so that it looks like this: {_example(schema)}"


def _example(schema: Any) -> str:
    """An example that fits a schema, with placeholders in angle brackets."""
    if not isinstance(schema, Mapping):
        return "<anything>"
    if "enum" in schema:
        return f"<{' or '.join(json.dumps(label, ensure_ascii=False) for label in schema['enum'])}>"
    kind = schema.get("type")
    if isinstance(schema.get("properties"), Mapping):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)}: {_example(inner)}" for key, inner in schema["properties"].items())
            + "}"
        )
    if kind == "array":
        return f"[{_example(schema.get('items'))}, ...]"
    if kind in ("integer", "number"):
        what = "whole number" if kind == "integer" else "number"
        least, most = schema.get("minimum"), schema.get("maximum")
        return f"<{what}{'' if least is None or most is None else f' from {least} to {most}'}>"
    return {"string": '"<text>"', "boolean": "<true or false>"}.get(str(kind), "<anything>")
