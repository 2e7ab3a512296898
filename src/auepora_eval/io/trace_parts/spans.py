"""Spans of traced requests, read from the common JSON export formats."""

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
_CONVERSATION = ("session.id", "gen_ai.conversation.id")
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


def _records(value: Any, errors: ErrorCollector) -> Iterator[Mapping[str, Any]]:
    """Yield the spans in one JSON value: a span, a list, an OTLP bundle, or a page of an API."""
    if isinstance(value, list):
        for item in value:
            yield from _records(item, errors)
        return
    if not isinstance(value, Mapping):
        raise LineError("each line must be a span, or an OTLP bundle of spans: a JSON object")
    if bundle := next((name for name in _BUNDLES if name in value), None):
        for resource in _objects(value, bundle, errors):
            for scope in (scope for name in _SCOPES for scope in _objects(resource, name, errors)):
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


def _span(record: Mapping[str, Any], line: int, place: int | None, trace_id: str | None) -> TraceSpan:
    errors = ErrorCollector()
    attributes = errors.call(_attributes, record) or {}
    kind = span_kind(record, attributes)
    events = errors.call(_events, record) or []
    answer, structured = span_answer(attributes, kind, events)
    model = next((value for value in (get_path(attributes, name) for name in _MODEL) if isinstance(value, str)), None)
    if trace_id is None:
        errors.call(_raise_missing_trace_id)
    span = TraceSpan(
        line,
        trace_id or "",
        errors.call(_id, record, _SPAN),
        errors.call(_id, record, _PARENT),
        kind,
        errors.call(_time, record, _START),
        errors.call(_time, record, _END),
        span_query(attributes, kind, events),
        answer,
        structured,
        errors.call(retrieved_documents, attributes, kind),
        errors.call(token_usage, attributes) or {},
        model,
        _error(record, attributes, events),
        errors.call(_attribute_id, attributes, ("auepora.sample_id", "sample_id", "metadata.sample_id")),
        errors.call(_attribute_id, attributes, _CONVERSATION),
        place,
    )
    errors.call(_check_times, span, record.get("name"))
    errors.raise_errors()
    return span


def _raise_missing_trace_id() -> None:
    raise LineError("a span has no trace id; expected 'trace_id', 'traceId' or 'context.trace_id'")


def _check_times(span: TraceSpan, name: Any) -> None:
    if span.duration is not None and span.duration < 0:
        name_clause = f"the span {quote_text(name)}" if isinstance(name, str) else "a span"
        raise LineError(f"{name_clause} ends {-span.duration / NANOSECONDS_PER_SECOND:g} s before it starts")


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
    return next((value for value in (parse_id(get_path(attributes, name), name) for name in names) if value), None)


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
    events = record.get("events")
    named = [event for event in events if isinstance(event, Mapping)] if isinstance(events, list) else []
    return [(str(event.get("name")), _attributes(event)) for event in named]


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
        message = next(
            (text for text in (get_path(record, name) for name in names) if isinstance(text, str) and text), ""
        )
    reason = _snake_case(kind) if isinstance(kind, str) else "error"
    return f"{reason}: {message}" if message else reason


def _snake_case(name: str) -> str:
    """Return the last part of a class name as a reason: ``rate_limit_error`` of ``openai.RateLimitError``."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.split(r"[.:]", name)[-1])
    return "_".join(parts).lower() or "error"
