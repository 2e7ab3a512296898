"""The query and the answer of a span: from its input and output, its messages, its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .attributes import format_integer, get_first, get_list, get_path, parse_json_text, to_json_object

__all__ = ["Events", "span_answer", "span_query"]

Events = list[tuple[str, dict[str, Any]]]
"""The events of a span: their names and attributes."""

_USER = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "ai", "model"})
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}
_QUERY_KEYS = ("input", "question", "query", "messages", "query_str", "user_input", "prompt", "text", "content")
_ANSWER_KEYS = (
    *("output", "answer", "response", "result", "final_answer", "text", "content"),
    *("message", "messages", "choices", "generations", "kwargs"),
)


def span_query(attributes: Mapping[str, Any], kind: str, events: Events) -> str | None:
    """Return the query of a request, a retriever or a model."""
    for name in ("gen_ai.retrieval.query.text", "reranker.query"):
        if kind in ("retriever", "reranker") and isinstance(text := get_path(attributes, name), str):
            return text
    whole = _attribute_text(attributes, "input.value", "input.mime_type", answer=False)
    from_messages = _text_of_messages(
        attributes, events, ("llm.input_messages", "gen_ai.input.messages", "gen_ai.prompt"), answer=False
    )
    one, other = (from_messages, whole) if kind == "llm" else (whole, from_messages)
    if one is not None or other is not None:
        return other if one is None else one
    whole = _attribute_text(attributes, "traceloop.entity.input", "", answer=False)
    value = get_path(attributes, "input.value")
    return value if whole is None and isinstance(value, str) else whole


def span_answer(attributes: Mapping[str, Any], kind: str, events: Events) -> tuple[str | None, dict[str, Any] | None]:
    """Return the text of the output of a span; or the JSON object, if it has no text."""
    if kind in ("retriever", "reranker", "embedding"):
        return None, None
    whole = _attribute_text(attributes, "output.value", "output.mime_type", answer=True)
    names = ("llm.output_messages", "gen_ai.output.messages", "gen_ai.completion")
    from_messages = _text_of_messages(attributes, events, names, answer=True)
    one, other = (from_messages, whole) if kind == "llm" else (whole, from_messages)
    text = other if one is None else one
    if text is None:
        text = _attribute_text(attributes, "traceloop.entity.output", "", answer=True)
    return text, None if text is not None else to_json_object(get_path(attributes, "output.value"))


def _attribute_text(attributes: Mapping[str, Any], name: str, mime_type: str, *, answer: bool) -> str | None:
    value, content_type = get_path(attributes, name), get_path(attributes, mime_type)
    if isinstance(value, str) and content_type == "text/plain":
        return value
    return _unwrap_json(value, answer=answer, is_json=content_type == "application/json")


def _text_of_messages(
    attributes: Mapping[str, Any], events: Events, names: tuple[str, ...], *, answer: bool
) -> str | None:
    for name in names:
        listed = get_list(attributes, name) or []
        # The messages of a model are alternative answers to the same query: the first one counts.
        for messages in [[message] for message in listed] if answer else [listed]:
            if (text := _last_message_text(messages, answer=answer)) is not None:
                return text
    event, key = ("gen_ai.choice", "message") if answer else ("gen_ai.user.message", "content")
    contents = [values.get(key) for name, values in events if name == event]
    return next((text for value in reversed(contents) if (text := _unwrap_json(value, answer=answer))), None)


def _unwrap_json(value: Any, *, answer: bool, is_json: bool = False) -> str | None:
    """Return the text of an input or output: the value, or a known key of its JSON; ``None``: there is no text.

    Without the MIME type of JSON, only objects are parsed: ``"Faust"`` and ``[2024]`` may be questions.
    """
    if not isinstance(value, str):
        return _nested_text(value, answer)
    parsed = parse_json_text(value) if is_json or value.lstrip()[:1] in ("{", "[") else None
    if not is_json and isinstance(parsed, list) and not any(isinstance(item, Mapping) for item in parsed):
        parsed = None
    return value if parsed is None else _nested_text(parsed, answer)


def _nested_text(value: Any, answer: bool) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return format_integer(value, "value") if isinstance(value, int) else str(value)
    if isinstance(value, list):
        if any(_message_role(item) for item in value):
            return _last_message_text(value, answer=answer)
        return next((text for text in (_nested_text(item, answer) for item in value) if text is not None), None)
    if not isinstance(value, Mapping):
        return None
    texts = (_nested_text(value[key], answer) for key in (_ANSWER_KEYS if answer else _QUERY_KEYS) if key in value)
    return next((text for text in texts if text is not None), None)


def _last_message_text(messages: Sequence[Any], *, answer: bool) -> str | None:
    """Return the last message of the user, or of the model; a message without a role may be either."""
    roles = _ASSISTANT if answer else _USER
    for message in reversed(messages):
        text, role = _message_content(message), _message_role(message)
        if text and (not role or role in roles):
            return text
    return None


def _message_role(message: Any) -> str:
    role = get_first(message, "message.role", "role", "type")
    return role.lower() if isinstance(role, str) and role.lower() in _ROLES else ""


def _message_content(message: Any) -> str | None:
    content = get_first(message, "message.content", "content", "kwargs.content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else None
    for name in ("message.contents", "parts"):
        parts = get_list(message, name) if parts is None else parts
    texts = list(_text_parts(parts or ()))
    return "\n".join(texts) if texts else None


def _text_parts(parts: Sequence[Any]) -> Iterator[str]:
    for part in parts:
        text = part if isinstance(part, str) else get_first(part, "message_content.text", "text", "content")
        kind = get_first(part, "message_content.type", "type")
        if isinstance(text, str) and kind in (None, "text", "output_text", "input_text"):
            yield text
