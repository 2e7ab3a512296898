"""Spans of a trace file (OpenInference, OpenTelemetry GenAI, OpenLLMetry), each with the fields an evaluation uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from ..core.types import Document, RetrievedDocument
from .codec import ErrorCollector, LineError, text_id
from .problems import TOO_DEEP, Problems, quote_text, type_name
from .values import parse_json, read_values

# --- attributes of a span: the names of OpenInference, OpenTelemetry GenAI and OpenLLMetry ---------------------------
# Attributes are flat (``retrieval.documents.0.document.id``), nested, or mixed; lists and objects may be JSON
# strings. ``get_path`` and ``get_list`` handle all of them.

KINDS = frozenset(
    ("llm", "embedding", "chain", "retriever", "reranker", "tool", "agent", "guardrail", "evaluator", "prompt")
)
_OPERATIONS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion"), "llm"),
    **dict.fromkeys(("invoke_agent", "create_agent"), "agent"),
    "invoke_workflow": "chain",
    "retrieval": "retriever",
    "rerank": "reranker",
    "embeddings": "embedding",
    "execute_tool": "tool",
}
_TOKEN_ATTRIBUTES = {
    "input_tokens": ("llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("llm.token_count.completion", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached_prompt_tokens": ("llm.token_count.prompt_details.cache_read", "gen_ai.usage.cache_read.input_tokens"),
    "total_tokens": ("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
}
_DOCUMENT_ATTRIBUTES = {
    "retriever": ("retrieval.documents", "gen_ai.retrieval.documents"),
    "reranker": ("reranker.output_documents", "retrieval.documents", "gen_ai.retrieval.documents"),
}


def get_path(node: Any, path: str) -> Any:
    """Return the value at a dotted path, where a dot may be part of a key or a level; ``None`` if there is none.

    If there are both a JSON string and flat keys below it (``metadata`` and ``metadata.id``), both are searched.
    """
    if isinstance(node, str):
        node = to_json_object(node)
    if not isinstance(node, dict):
        return None
    value = node.get(path)
    if value is not None:
        return value
    for head, rest in _split_points(path):
        inner = node.get(head)
        if inner is not None and (value := get_path(inner, rest)) is not None:
            return value
    return None


@cache
def _split_points(path: str) -> tuple[tuple[str, str], ...]:
    """Return ``path`` split in two at each of its dots; cached, since there are few paths."""
    dots = [index for index, letter in enumerate(path) if letter == "."]
    return tuple((path[:dot], path[dot + 1 :]) for dot in dots)


def get_list(node: Any, path: str) -> list[Any] | None:
    """Return the list at a dotted path: an array, a JSON string, or keys with an index; ``None``: no list."""
    value = get_path(node, path)
    if isinstance(value, str):
        value = parse_json_text(value)
    if isinstance(value, list):
        return value
    if isinstance(value, Mapping):
        return _by_position("", value)
    if not isinstance(node, Mapping):
        return None
    collected = _by_position(f"{path}.", node)
    for head, rest in _split_points(path):
        if collected is None and isinstance(node.get(head), Mapping):
            collected = get_list(node[head], rest)
    return collected


def _by_position(prefix: str, node: Mapping[str, Any]) -> list[Any] | None:
    by_position: dict[int, Any] = {}
    for key, value in node.items():
        if not key.startswith(prefix):
            continue
        number, _, rest = key.removeprefix(prefix).partition(".")
        if not number.isdecimal() or len(number) > 9:
            continue
        if not rest:
            by_position[int(number)] = value
        elif isinstance(item := by_position.setdefault(int(number), {}), dict):
            item[rest] = value
    return [by_position[position] for position in sorted(by_position)] or None


def parse_json_text(text: str) -> Any:
    """Parse a JSON string; ``None`` if it is not JSON."""
    try:
        return parse_json(text.encode())
    except LineError:
        return None


def parse_id(value: Any, name: str) -> str | None:
    """Return an id, which may be an integer; ``None`` if it is missing or empty."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return format_integer(value, name)
    raise LineError(f"attribute {quote_text(name)} must be a string or an integer, not {type_name(value)}")


def format_integer(value: int, name: str) -> str:
    """Return an integer as a string."""
    if value.bit_length() > 256:  # Python limits the digits of an integer
        raise LineError(f"attribute {quote_text(name)} is too large a number")
    return str(value)


def span_kind(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> str:
    """Return the kind of a span in lower case: ``retriever``, ``llm``, ...; empty if it is unknown."""
    for value in (get_path(attributes, "openinference.span.kind"), record.get("span_kind")):
        if isinstance(value, str) and value.lower() in KINDS:
            return value.lower()
    for name in ("gen_ai.operation.name", "llm.request.type"):
        value = get_path(attributes, name)
        if isinstance(value, str) and value.lower() in _OPERATIONS:
            return _OPERATIONS[value.lower()]
    return ""


def retrieved_documents(attributes: Mapping[str, Any], kind: str) -> list[RetrievedDocument] | None:
    """Return the documents of a retriever or reranker, best first; ``None`` if it does not list them."""
    for name in _DOCUMENT_ATTRIBUTES.get(kind, ()):
        listed = get_list(attributes, name)
        if listed is not None:
            return [_parse_document(item, f"{name}.{index}", index + 1) for index, item in enumerate(listed)]
    return None


def _parse_document(item: Any, name: str, rank: int) -> RetrievedDocument:
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, Mapping):
        raise LineError(f"attribute {quote_text(name)} must be a document (an object), not {type_name(item)}")
    text = get_first(item, "document.content", "content", "text", "page_content")
    if not isinstance(text, str | None):
        raise LineError(f"attribute {quote_text(name + '.document.content')} must be a string, not {type_name(text)}")
    doc_id = parse_id(get_first(item, "document.id", "id"), f"{name}.document.id")
    if doc_id is None and not text:
        raise LineError(f"attribute {quote_text(name)} has neither 'document.id' nor 'document.content'")
    score = _parse_number(get_first(item, "document.score", "score"), f"{name}.document.score")
    given = get_first(item, "document.metadata", "metadata")
    metadata = to_json_object(given)
    if metadata is None:
        metadata = {} if given is None else {"metadata": given}
    return RetrievedDocument(Document(doc_id or text_id(text or ""), text or "", metadata), score, rank)


def get_first(node: Any, *paths: str) -> Any:
    """Return the value at the first path that has one."""
    values = (get_path(node, path) for path in paths)
    return next((value for value in values if value is not None), None)


def _first_text(node: Any, paths: Sequence[str]) -> str:
    """Return the first text at one of these paths that is not empty; an empty one if there is none."""
    for path in paths:
        text = get_path(node, path)
        if isinstance(text, str) and text:
            return text
    return ""


def to_json_object(value: Any) -> dict[str, Any] | None:
    """Return an object, or the object in a JSON string."""
    if isinstance(value, str):
        value = parse_json_text(value) if value.lstrip()[:1] == "{" else None
    return dict(value) if isinstance(value, Mapping) else None


def _parse_number(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LineError(f"attribute {quote_text(name)} must be a number, not {type_name(value)}")
    try:
        return float(value)
    except OverflowError as error:
        raise LineError(f"attribute {quote_text(name)} is too large a number") from error


def token_usage(attributes: Mapping[str, Any]) -> dict[str, float]:
    """Return tokens and cost of one span; tokens are integers, which tables may write as ``12.0``."""
    counted: dict[str, float] = {}
    for key, names in _TOKEN_ATTRIBUTES.items():
        for name in names:
            value = _parse_number(get_path(attributes, name), name)
            if value is not None and (value < 0 or not value.is_integer()):
                raise LineError(f"attribute {quote_text(name)} must be a number of tokens, not {value:g}")
            if value is not None:
                counted.setdefault(key, int(value))
    cost = _parse_number(get_path(attributes, "llm.cost.total"), "llm.cost.total")
    return counted if cost is None else {**counted, "cost": cost}


# --- query and answer of a span: from its input and output, its messages, its events ---------------------------------

Events = list[tuple[str, dict[str, Any]]]
"""The events of a span: their names and attributes."""

_USER = frozenset({"user", "human"})
_ASSISTANT = frozenset({"assistant", "ai", "model"})
_ROLES = _USER | _ASSISTANT | {"system", "developer", "tool", "function"}
_MESSAGE_ATTRIBUTES = {
    "input": ("llm.input_messages", "gen_ai.input.messages", "gen_ai.prompt"),
    "output": ("llm.output_messages", "gen_ai.output.messages", "gen_ai.completion"),
}
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
    text = _span_text(attributes, kind, events, answer=False)
    value = get_path(attributes, "input.value")
    return value if text is None and isinstance(value, str) else text


def span_answer(attributes: Mapping[str, Any], kind: str, events: Events) -> tuple[str | None, dict[str, Any] | None]:
    """Return the text of the output of a span; or the JSON object, if it has no text."""
    if kind in ("retriever", "reranker", "embedding"):
        return None, None
    text = _span_text(attributes, kind, events, answer=True)
    return text, None if text is not None else to_json_object(get_path(attributes, "output.value"))


def _span_text(attributes: Mapping[str, Any], kind: str, events: Events, *, answer: bool) -> str | None:
    """Return the text of the input or output of a span; of a model, its messages come first."""
    side = "output" if answer else "input"
    whole = _attribute_text(attributes, f"{side}.value", f"{side}.mime_type", answer=answer)
    from_messages = _text_of_messages(attributes, events, _MESSAGE_ATTRIBUTES[side], answer=answer)
    preferred, other = (from_messages, whole) if kind == "llm" else (whole, from_messages)
    text = other if preferred is None else preferred
    return _attribute_text(attributes, f"traceloop.entity.{side}", "", answer=answer) if text is None else text


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
        parts = (_nested_text(item, answer) for item in value)
        return next((text for text in parts if text is not None), None)
    if not isinstance(value, Mapping):
        return None
    keys = _ANSWER_KEYS if answer else _QUERY_KEYS
    texts = (_nested_text(value[key], answer) for key in keys if key in value)
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


# --- reading of spans from the common JSON export formats ------------------------------------------------------------

_TRACE = ("context.trace_id", "trace_id", "traceId", "context.traceId", "spanContext.traceId", "traceID")
_SPAN = ("context.span_id", "span_id", "spanId", "context.spanId", "spanContext.spanId", "spanID")
_PARENT = ("parent_id", "parentId", "parentSpanId", "parent_span_id", "parentSpanContext.spanId")
_START = ("start_time", "startTimeUnixNano", "start_time_unix_nano", "startTime")
_END = ("end_time", "endTimeUnixNano", "end_time_unix_nano", "endTime")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOSECONDS = 1 << 63
NANOSECONDS_PER_SECOND = 10**9
_FIRST_TOKEN_SECONDS = ("gen_ai.response.time_to_first_chunk", "gen_ai.response.time_to_first_token")
"""Seconds since the start of the span: the names of OpenTelemetry and of Sentry."""
_COMPLETION_START = "langfuse.observation.completion_start_time"
_FIRST_TOKEN_EVENTS = frozenset(("First Token Stream Event", "llm.content.completion.chunk"))
"""Events of OpenInference (the first token) and OpenLLMetry (every part of the answer)."""
_EVENT_TIME = ("timestamp", "timeUnixNano", "time_unix_nano", "time")
_MODEL = ("llm.model_name", "llm.response.model_name", "gen_ai.response.model", "gen_ai.request.model")


@dataclass(frozen=True, slots=True, eq=False)
class TraceSpan:
    """One step of a request, with the fields that an evaluation uses; others (prompts, tools, ...) are dropped."""

    line: int
    trace_id: str
    span_id: str | None
    parent_id: str | None
    kind: str
    """``retriever``, ``reranker``, ``llm``, ``chain``, ...; empty for any other kind."""
    start: int | None
    """In nanoseconds since 1970."""
    end: int | None
    query: str | None = None
    answer: str | None = None
    structured: dict[str, Any] | None = None
    """The output, if it is a JSON object without a text field."""
    documents: list[RetrievedDocument] | None = None
    usage: dict[str, float] = field(default_factory=dict)
    model: str | None = None
    error: str | None = None
    sample_id: str | None = None
    conversation: str | None = None
    first_token: int | None = None
    """When the first token of a streamed answer came, in nanoseconds since 1970."""
    record: int | None = None
    """The number of the span in the file or bundle, if several are on its line."""

    @property
    def duration(self) -> int | None:
        """The duration in nanoseconds."""
        return None if self.start is None or self.end is None else self.end - self.start

    @property
    def seconds(self) -> float | None:
        """The duration in seconds."""
        return None if self.duration is None else self.duration / NANOSECONDS_PER_SECOND

    @property
    def content(self) -> tuple[Any, ...]:
        """All fields except the position: equal for a span that was exported twice."""
        return tuple(getattr(self, name) for name in self.__slots__ if name not in ("line", "record"))


def read_spans(path: Path, problems: Problems) -> Iterator[TraceSpan | str]:
    """Yield the spans of a file; for an invalid one, the id of its trace if it is known."""
    for _, line, place, value in read_values(path, problems, loose=True):
        errors = ErrorCollector()
        try:
            records = list(_records(value, errors))
            errors.raise_errors()
        except (LineError, RecursionError) as error:
            problems.add_all(path, line, _messages(error), record=place)
            continue
        for number, span in enumerate(records, start=1):
            record = number if len(records) > 1 else place
            trace_id = None
            try:
                trace_id = _id(span, _TRACE)
                yield _span(span, line, record, trace_id)
            except (LineError, RecursionError) as error:
                problems.add_all(path, line, _messages(error), record=record)
                if trace_id is not None:
                    yield trace_id


def _messages(error: Exception) -> tuple[str, ...]:
    return error.messages if isinstance(error, LineError) else (TOO_DEEP,)


def _records(value: Any, errors: ErrorCollector) -> Iterator[Mapping[str, Any]]:
    """Yield the spans in one JSON value: a span, a list, an OTLP bundle, or a page of an API."""
    if isinstance(value, list):
        for item in value:
            yield from _records(item, errors)
        return
    if not isinstance(value, Mapping):
        raise LineError("each line must be a span, or an OTLP bundle of spans: a JSON object")
    if bundle := next((name for name in ("resourceSpans", "resource_spans") if name in value), None):
        for resource in _objects(value, bundle, errors):
            for name in _SCOPES:
                for scope in _objects(resource, name, errors):
                    yield from _objects(scope, "spans", errors)
        return
    page = next((name for name in ("data", "spans") if isinstance(value.get(name), list)), None)
    if page is not None and _id(value, _TRACE) is None:
        yield from _objects(value, page, errors)
        return
    yield value


def _objects(holder: Mapping[str, Any], name: str, errors: ErrorCollector) -> list[Mapping[str, Any]]:
    return errors.call(_object_list, holder, name) or []


def _object_list(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    items = holder.get(name)
    if items is not None and not isinstance(items, list):
        raise LineError(f"field {quote_text(name)} must be an array")
    if not all(isinstance(item, Mapping) for item in items or ()):
        raise LineError(f"field {quote_text(name)} must hold objects")
    return items or []


def _first_token(record: Mapping[str, Any], attributes: Mapping[str, Any], start: int | None) -> int | None:
    """Return when the first token of a streamed answer came, in nanoseconds since 1970."""
    for name in _FIRST_TOKEN_SECONDS:
        seconds = _parse_number(get_path(attributes, name), name)
        if seconds is not None and start is not None:
            return start + round(seconds * NANOSECONDS_PER_SECOND)
    written = get_path(attributes, _COMPLETION_START)
    if isinstance(written, str):  # Langfuse writes it as JSON: in quotes
        return _time({_COMPLETION_START: written.strip('"')}, (_COMPLETION_START,))
    streamed = [event for event in _event_records(record) if event.get("name") in _FIRST_TOKEN_EVENTS]
    moments = [_time(event, _EVENT_TIME) for event in streamed]
    return min((moment for moment in moments if moment is not None), default=None)


def _span(record: Mapping[str, Any], line: int, place: int | None, trace_id: str | None) -> TraceSpan:
    errors = ErrorCollector()
    attributes = errors.call(_attributes, record) or {}
    kind = span_kind(record, attributes)
    events = errors.call(_events, record) or []
    answer, structured = span_answer(attributes, kind, events)
    start = errors.call(_time, record, _START)
    if trace_id is None:
        errors.add("a span has no trace id; expected 'trace_id', 'traceId' or 'context.trace_id'")
    span = TraceSpan(
        line,
        trace_id or "",
        span_id=errors.call(_id, record, _SPAN),
        parent_id=errors.call(_id, record, _PARENT),
        kind=kind,
        start=start,
        end=errors.call(_time, record, _END),
        query=span_query(attributes, kind, events),
        answer=answer,
        structured=structured,
        documents=errors.call(retrieved_documents, attributes, kind),
        usage=errors.call(token_usage, attributes) or {},
        model=_first_text(attributes, _MODEL) or None,
        error=_error(record, attributes, events),
        sample_id=errors.call(_attribute_id, attributes, ("auepora.sample_id", "sample_id", "metadata.sample_id")),
        conversation=errors.call(_attribute_id, attributes, ("session.id", "gen_ai.conversation.id")),
        first_token=errors.call(_first_token, record, attributes, start),
        record=place,
    )
    if span.duration is not None and span.duration < 0:
        name = record.get("name")
        what = f"the span {quote_text(name)}" if isinstance(name, str) else "a span"
        errors.add(f"{what} ends {-span.duration / NANOSECONDS_PER_SECOND:g} s before it starts")
    if start is not None and span.first_token is not None and span.first_token < start:
        errors.add(
            f"a span has its first token {(start - span.first_token) / NANOSECONDS_PER_SECOND:g} s before it starts"
        )
    errors.raise_errors()
    return span


def _id(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return an id of the span; zeros mean that there is none."""
    for name in names:
        try:
            value = parse_id(get_path(record, name), name)
        except LineError as error:
            raise LineError(str(error).replace("attribute", "field", 1)) from error
        if value is not None and (bare := value.strip().removeprefix("0x")).strip("0"):
            return bare
    return None


def _attribute_id(attributes: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    ids = (parse_id(get_path(attributes, name), name) for name in names)
    return next((value for value in ids if value), None)


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes by name; from an object, OTLP's list of keys and values, or the columns of a table of spans."""
    columns = {key.removeprefix("attributes."): value for key, value in record.items() if key.startswith("attributes.")}
    values = record.get("attributes")
    if isinstance(values, str):
        values = to_json_object(values)
    if values is None:
        return columns
    if isinstance(values, list):
        values = _otlp_attributes(values)
    if not isinstance(values, Mapping):
        raise LineError("field 'attributes' must be an object, or an array of keys and values")
    return {**values, **columns}


def _otlp_attributes(pairs: list[Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for pair in pairs:
        if not isinstance(pair, Mapping) or not isinstance(pair.get("key"), str):
            raise LineError("field 'attributes' must hold objects with 'key' and 'value'")
        attributes[pair["key"]] = _otlp_value(pair.get("value"))
    return attributes


def _otlp_value(value: Any) -> Any:
    """Return an OTLP value: its only key names the type, and large integers are strings."""
    if not isinstance(value, Mapping):
        return value
    for key, inner in value.items():
        name = key.replace("_value", "Value")
        if name == "intValue" and isinstance(inner, str) and re.fullmatch(r"-?[0-9]{1,20}", inner):
            return int(inner)
        if name in ("arrayValue", "kvlistValue"):
            values = inner.get("values") if isinstance(inner, Mapping) else None
            values = values if isinstance(values, list) else []
            return _otlp_attributes(values) if name == "kvlistValue" else [_otlp_value(item) for item in values]
        return inner
    return None


def _events(record: Mapping[str, Any]) -> Events:
    return [(str(event.get("name")), _attributes(event)) for event in _event_records(record)]


def _event_records(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events = record.get("events")
    if not isinstance(events, list):
        return []
    return [event for event in events if isinstance(event, Mapping)]


def _time(record: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = record.get(name)
        if value in (None, 0, "0", ""):
            continue
        moment = _nanoseconds(value, nano="nano" in name.lower())
        if moment is None or abs(moment) >= _MAX_NANOSECONDS:
            what = quote_text(value) if isinstance(value, str) else "this value"
            raise LineError(f"field {quote_text(name)} must be a time such as '2025-01-31T12:00:00Z', not {what}")
        return moment
    return None


def _nanoseconds(value: Any, *, nano: bool) -> int | None:
    """Parse a time: ISO 8601, a number since 1970, or JavaScript's pair of seconds and nanoseconds."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value):
        value = int(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        except (ValueError, OverflowError):
            return None
        return since // timedelta(microseconds=1) * 1000
    if isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value):
        return int(value[0] * NANOSECONDS_PER_SECOND + value[1])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # The unit is not given; for any time since 1973 the magnitude determines it.
    unit = 1 if nano else next((unit for limit, unit in _TIME_UNITS if abs(value) < limit), 1)
    return value * unit if isinstance(value, int) else int(value * unit)


_TIME_UNITS = ((10**11, NANOSECONDS_PER_SECOND), (10**14, 10**6), (10**17, 10**3))
"""Seconds, milliseconds, microseconds: the upper limit of the value, and the nanoseconds per unit."""


def _error(record: Mapping[str, Any], attributes: Mapping[str, Any], events: Events) -> str | None:
    """Return why the span failed: a reason, and the message of the exception or the status."""
    codes = [get_path(record, name) for name in ("status.status_code", "status.code", "status_code")]
    if not any(code in (2, "2") or (isinstance(code, str) and code.upper().endswith("ERROR")) for code in codes):
        return None
    raised = next((values for name, values in reversed(events) if name == "exception"), {})
    kind, message = (
        get_path(raised, "exception.type") or get_path(attributes, "error.type"),
        get_path(raised, "exception.message"),
    )
    if not isinstance(message, str) or not message:
        names = ("status.description", "status.message", "status_message")
        message = _first_text(record, names)
    reason = _snake_case(kind) if isinstance(kind, str) else "error"
    return f"{reason}: {message}" if message else reason


def _snake_case(name: str) -> str:
    """Return the last part of a class name as a reason: ``rate_limit_error`` of ``openai.RateLimitError``."""
    return "_".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.split(r"[.:]", name)[-1])).lower() or "error"
