"""What is sent to a server that speaks as OpenAI's does: messages, the schema, and what a server lets one ask for."""

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
"""Part of cache keys: to be raised when what is sent for the same request changes."""
_LOWER: dict[str, SchemaMode] = {"json_schema": "json_object", "json_object": "none"}
_WORDS = {"json_object": "the prompt and JSON mode", "none": "the prompt alone"}
_ABOUT_SCHEMA = re.compile(r"response.?format|json.?(schema|object)|schema|grammar|structured|guided", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerCapabilities:
    """What a server is asked for, given what it is known to refuse."""

    schema: SchemaMode
    tokens_field: str = "max_tokens"
    logprobs: bool = False
    allow_fallback: bool = False

    def fallback_for(self, message: str) -> Fallback | None:
        """What to ask for instead, or nothing."""
        if "max_completion_tokens" in message and self.tokens_field == "max_tokens":
            return Fallback(replace(self, tokens_field="max_completion_tokens"))
        if self.logprobs and "logprobs" in message:
            lost = "tells no probabilities: scores are not weighted by them"
            return Fallback(replace(self, logprobs=False), {"logprobs": lost})
        if self.allow_fallback and self.schema in _LOWER:
            lower = _LOWER[self.schema]
            lost = f"takes no response_format by schema: answers are asked for by {_WORDS[lower]}"
            return Fallback(replace(self, schema=lower), {"schema": lost}, bool(_ABOUT_SCHEMA.search(message)))
        return None


@dataclass(frozen=True, slots=True)
class Fallback:
    """Another way to ask."""

    capabilities: ServerCapabilities
    losses: Mapping[str, str] = field(default_factory=dict)
    """What is lost by it, for a warning."""
    is_explicit: bool = True
    """Whether the server said that this is what it refuses; where it did not, it may be something else."""


def build_messages(request: JudgeRequest, mode: SchemaMode) -> list[dict[str, str]]:
    """The conversation so far: instructions and the question, with the schema where it cannot be sent apart."""
    messages = [{"role": "system", "content": request.system}] if request.system else []
    prompt = request.prompt
    if mode != "json_schema":
        prompt = f"{prompt}\n\nAnswer with one JSON object. {_form(request.schema)}"
    return [*messages, {"role": "user", "content": prompt}]


def repair_messages(answer: str, why: str, schema: Mapping[str, Any]) -> list[dict[str, str]]:
    """What is said after an answer that cannot be used."""
    told = (
        f"This answer cannot be used: {why}. Judge again, by the same instructions, and answer with nothing but one "
        f"JSON object. {_form(schema)}"
    )
    return [{"role": "assistant", "content": shorten(answer)}, {"role": "user", "content": told}]


def response_format(schema: Mapping[str, Any], mode: SchemaMode) -> dict[str, Any] | None:
    """How the form of the answer is asked for."""
    if mode == "none":
        return None
    if mode == "json_object":
        return {"type": "json_object"}
    held = close_schema(schema)
    wanted = {"name": "judgement", "schema": held, "strict": _is_strict(held)}
    return {"type": "json_schema", "json_schema": wanted}


def close_schema(schema: Any) -> Any:
    """A schema whose objects take no keys that they do not name, unless they say so themselves."""
    if isinstance(schema, Mapping):
        held = {key: close_schema(inner) for key, inner in schema.items()}
        if "properties" in held:
            held.setdefault("additionalProperties", False)
        return held
    return [close_schema(one) for one in schema] if isinstance(schema, (list, tuple)) else schema


def _is_strict(schema: Any) -> bool:
    """Whether a schema keeps the rules under which services guarantee it: nothing optional, nothing extra."""
    if isinstance(schema, Mapping):
        named = schema.get("properties")
        if isinstance(named, Mapping):
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(named):
                return False
        elif schema.get("type") == "object":
            return False
        return all(map(_is_strict, schema.values()))
    return all(map(_is_strict, schema)) if isinstance(schema, list) else True


def _form(schema: Mapping[str, Any]) -> str:
    """The form of an answer in words; shown last as it looks, for small models copy what they were shown last."""
    written = json.dumps(schema, ensure_ascii=False, default=dict)
    return f"Its JSON schema is {written}, so that it looks like this: {_look(schema)}"


def _look(schema: Any) -> str:
    """What fits a schema, with what is to be filled in named between angle brackets."""
    if not isinstance(schema, Mapping):
        return "<anything>"
    if "enum" in schema:
        return f"<{' or '.join(json.dumps(label, ensure_ascii=False) for label in schema['enum'])}>"
    kind = schema.get("type")
    if isinstance(schema.get("properties"), Mapping):
        return (
            "{" + ", ".join(f"{json.dumps(key)}: {_look(inner)}" for key, inner in schema["properties"].items()) + "}"
        )
    if kind == "array":
        return f"[{_look(schema.get('items'))}, ...]"
    if kind in ("integer", "number"):
        what = "whole number" if kind == "integer" else "number"
        least, most = schema.get("minimum"), schema.get("maximum")
        return f"<{what}{'' if least is None or most is None else f' from {least} to {most}'}>"
    return {"string": '"<text>"', "boolean": "<true or false>"}.get(str(kind), "<anything>")
