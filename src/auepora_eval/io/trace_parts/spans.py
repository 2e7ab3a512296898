"""Spans: one step of a traced request, from whichever of the usual JSON shapes it was exported in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ...core.types import RetrievedDocument
from ..codec import LineError
from ..error_collector import ErrorCollector
from ..json_values import read_values
from ..problem_messages import TOO_DEEP, quote_text
from ..reader_types import Problems
from .attributes import (
    get_path,
    parse_id,
    retrieved_documents,
    span_kind,
    to_json_object,
    token_usage,
)
from .span_texts import Events, span_answer, span_query

__all__ = ["NANOSECONDS_PER_SECOND", "TraceSpan", "read_spans"]

_TRACE = ("context.trace_id", "trace_id", "traceId", "context.traceId", "spanContext.traceId", "traceID")
_SPAN = ("context.span_id", "span_id", "spanId", "context.spanId", "spanContext.spanId", "spanID")
_PARENT = ("parent_id", "parentId", "parentSpanId", "parent_span_id", "parentSpanContext.spanId")
_START = ("start_time", "startTimeUnixNano", "start_time_unix_nano", "startTime")
_END = ("end_time", "endTimeUnixNano", "end_time_unix_nano", "endTime")
_BUNDLES = ("resourceSpans", "resource_spans")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NANOSECONDS = 1 << 63
NANOSECONDS_PER_SECOND = 10**9
"""In nanoseconds."""
_CONVERSATION = ("session.id", "gen_ai.conversation.id")
_MODEL = ("llm.model_name", "llm.response.model_name", "gen_ai.response.model", "gen_ai.request.model")


@dataclass(frozen=True, slots=True, eq=False)
class TraceSpan:
    """One step of a request, with what an evaluation can use of it; the rest (prompts, tools, ...) is let go."""

    line: int
    trace_id: str
    span_id: str | None
    parent_id: str | None
    kind: str
    """``retriever``, ``reranker``, ``llm``, ``chain``, ...; empty where it is none of the AI kinds."""
    start: int | None
    """In nanoseconds since 1970."""
    end: int | None
    query: str | None = None
    answer: str | None = None
    structured: dict[str, Any] | None = None
    """What it put out, where that is a JSON object in which no text stands out."""
    documents: list[RetrievedDocument] | None = None
    usage: dict[str, float] = field(default_factory=dict)
    model: str | None = None
    error: str | None = None
    sample_id: str | None = None
    conversation: str | None = None
    record: int | None = None
    """Which span of the file, or of a bundle, it is where several are on its line."""

    @property
    def duration(self) -> int | None:
        """How long it took, in nanoseconds."""
        return None if self.start is None or self.end is None else self.end - self.start

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.duration is None else self.duration / NANOSECONDS_PER_SECOND

    @property
    def content(self) -> tuple[Any, ...]:
        """Everything but the place: the same for a span that was exported twice."""
        return tuple(getattr(self, name) for name in self.__slots__ if name not in ("line", "record"))


def read_spans(path: Path, problems: Problems) -> Iterator[TraceSpan | str]:
    """The spans of a file; for one that is a problem, the id of its trace instead, where that is known."""
    for _, line, place, value in read_values(path, problems, loose=True):
        parts = ErrorCollector()
        try:
            records = list(_records(value, parts))
            parts.require()
        except (LineError, RecursionError) as error:
            problems.add_all(path, line, _messages(error), record=place)
            continue
        for number, one in enumerate(records, start=1):
            record = number if len(records) > 1 else place
            trace_id = None
            try:
                trace_id = _id(one, _TRACE)
                yield _span(one, line, record, trace_id)
            except (LineError, RecursionError) as error:
                problems.add_all(path, line, _messages(error), record=record)
                if trace_id is not None:
                    yield trace_id


def _messages(error: Exception) -> tuple[str, ...]:
    return error.messages if isinstance(error, LineError) else (TOO_DEEP,)


def _records(value: Any, parts: ErrorCollector) -> Iterator[Mapping[str, Any]]:
    """The spans in one JSON value: itself, a list of them, those of an OTLP bundle, or a page of an API."""
    if isinstance(value, list):
        for item in value:
            yield from _records(item, parts)
        return
    if not isinstance(value, Mapping):
        raise LineError("each line must be a span, or an OTLP bundle of spans: a JSON object")
    if bundle := next((name for name in _BUNDLES if name in value), None):
        for resource in _objects(value, bundle, parts):
            for scope in (scope for name in _SCOPES for scope in _objects(resource, name, parts)):
                yield from _objects(scope, "spans", parts)
        return
    page = next((name for name in ("data", "spans") if isinstance(value.get(name), list)), None)
    if page is not None and _id(value, _TRACE) is None:
        yield from _objects(value, page, parts)
        return
    yield value


def _objects(holder: Mapping[str, Any], name: str, parts: ErrorCollector) -> list[Mapping[str, Any]]:
    return parts.make(_object_list, holder, name) or []


def _object_list(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    held = holder.get(name)
    if held is not None and not isinstance(held, list):
        raise LineError(f"field {quote_text(name)} must be an array")
    if not all(isinstance(item, Mapping) for item in held or ()):
        raise LineError(f"field {quote_text(name)} must hold objects")
    return held or []


def _span(record: Mapping[str, Any], line: int, place: int | None, trace_id: str | None) -> TraceSpan:
    parts = ErrorCollector()
    attributes = parts.make(_attributes, record) or {}
    kind = span_kind(record, attributes)
    events = parts.make(_events, record) or []
    answer, structured = span_answer(attributes, kind, events)
    model = next((value for value in (get_path(attributes, name) for name in _MODEL) if isinstance(value, str)), None)
    if trace_id is None:
        parts.make(_raise_missing_trace_id)
    made = TraceSpan(
        line,
        trace_id or "",
        parts.make(_id, record, _SPAN),
        parts.make(_id, record, _PARENT),
        kind,
        parts.make(_time, record, _START),
        parts.make(_time, record, _END),
        span_query(attributes, kind, events),
        answer,
        structured,
        parts.make(retrieved_documents, attributes, kind),
        parts.make(token_usage, attributes) or {},
        model,
        _error(record, attributes, events),
        parts.make(_attribute_id, attributes, ("auepora.sample_id", "sample_id", "metadata.sample_id")),
        parts.make(_attribute_id, attributes, _CONVERSATION),
        place,
    )
    parts.make(_check_times, made, record.get("name"))
    parts.require()
    return made


def _raise_missing_trace_id() -> None:
    raise LineError("a span has no trace id; expected 'trace_id', 'traceId' or 'context.trace_id'")


def _check_times(span: TraceSpan, name: Any) -> None:
    if span.duration is not None and span.duration < 0:
        called = f"the span {quote_text(name)}" if isinstance(name, str) else "a span"
        raise LineError(f"{called} ends {-span.duration / NANOSECONDS_PER_SECOND:g} s before it starts")


def _id(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """An id of the span's own; zeros stand for none."""
    for name in names:
        try:
            value = parse_id(get_path(record, name), name)
        except LineError as error:
            raise LineError(str(error).replace("attribute", "field", 1)) from error
        if value is not None and (bare := value.strip().removeprefix("0x")).strip("0"):
            return bare
    return None


def _attribute_id(attributes: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((value for value in (parse_id(get_path(attributes, name), name) for name in names) if value), None)


def _attributes(record: Mapping[str, Any]) -> dict[str, Any]:
    """By name; from an object, from OTLP's list of keys and values, and from the columns of a table of spans."""
    columns = {key.removeprefix("attributes."): value for key, value in record.items() if key.startswith("attributes.")}
    held = record.get("attributes")
    if isinstance(held, str):
        held = to_json_object(held)
    if held is None:
        return columns
    if isinstance(held, list):
        held = _otlp_attributes(held)
    if not isinstance(held, Mapping):
        raise LineError("field 'attributes' must be an object, or an array of keys and values")
    return {**held, **columns}


def _otlp_attributes(pairs: list[Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for pair in pairs:
        if not isinstance(pair, Mapping) or not isinstance(pair.get("key"), str):
            raise LineError("field 'attributes' must hold objects with 'key' and 'value'")
        made[pair["key"]] = _otlp_value(pair.get("value"))
    return made


def _otlp_value(value: Any) -> Any:
    """What an OTLP value is: its one key names the type, and large integers are written as texts."""
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
    held = record.get("events")
    named = [event for event in held if isinstance(event, Mapping)] if isinstance(held, list) else []
    return [(str(event.get("name")), _attributes(event)) for event in named]


def _time(record: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = record.get(name)
        if value in (None, 0, "0", ""):
            continue
        moment = _nanoseconds(value, nano="nano" in name.lower())
        if moment is None or abs(moment) >= _MAX_NANOSECONDS:
            what = quote_text(value) if isinstance(value, str) else "what is there"
            raise LineError(f"field {quote_text(name)} must be a time such as '2025-01-31T12:00:00Z', not {what}")
        return moment
    return None


def _nanoseconds(value: Any, *, nano: bool) -> int | None:
    """A moment from ISO 8601, from a number since 1970 or from JavaScript's pair of seconds and nanoseconds."""
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
    # Nobody writes the unit down; at any time since 1973 these four differ by their size alone.
    unit = 1 if nano else next((unit for limit, unit in _TIME_UNITS if abs(value) < limit), 1)
    return value * unit if isinstance(value, int) else int(value * unit)


_TIME_UNITS = ((10**11, NANOSECONDS_PER_SECOND), (10**14, 10**6), (10**17, 10**3))
"""Seconds, milliseconds, microseconds: below which size, and how many nanoseconds each."""


def _error(record: Mapping[str, Any], attributes: Mapping[str, Any], events: Events) -> str | None:
    """Why the span failed: a word, and what the exception or the status says."""
    codes = [get_path(record, name) for name in ("status.status_code", "status.code", "status_code")]
    if not any(code in (2, "2") or (isinstance(code, str) and code.upper().endswith("ERROR")) for code in codes):
        return None
    raised = next((values for name, values in reversed(events) if name == "exception"), {})
    kind, said = (
        get_path(raised, "exception.type") or get_path(attributes, "error.type"),
        get_path(raised, "exception.message"),
    )
    if not isinstance(said, str) or not said:
        names = ("status.description", "status.message", "status_message")
        said = next((text for text in (get_path(record, name) for name in names) if isinstance(text, str) and text), "")
    word = _snake_case(kind) if isinstance(kind, str) else "error"
    return f"{word}: {said}" if said else word


def _snake_case(name: str) -> str:
    """The last part of a class's name as a reason: ``rate_limit_error`` of ``openai.RateLimitError``."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.split(r"[.:]", name)[-1])
    return "_".join(parts).lower() or "error"
