"""Traces of a running system (OpenInference, OpenTelemetry GenAI): one output per trace, and its query as a sample.

Spans come in any order, so a file is read completely before the first output; of each span only the fields that an
evaluation uses are kept. ``docs/formats.md`` states the rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..core.types import STARTED, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from ..features.usage import sum_usage, usage_of_models
from .formats import Format, looks_like_traces, register_format
from .problems import ParsedOutput, ParsedSample, Problems
from .trace_spans import NANOSECONDS_PER_SECOND, TraceSpan, read_spans


@dataclass(frozen=True, slots=True)
class _Trace:
    """The spans of one request, by start, without those of evaluators."""

    trace_id: str
    root: TraceSpan
    entry: TraceSpan
    """The span of the request: the root, or (below a web server's span, say) the first of an AI kind."""
    retrievers: list[list[TraceSpan]]
    """Each call, followed by its nested calls of the same kind."""
    rerankers: list[list[TraceSpan]]
    models: list[list[TraceSpan]]
    searches: list[list[TraceSpan]]
    """Retrievers and rerankers together: a reranker inside a retriever takes part of its time, not more."""

    @property
    def sample_id(self) -> str:
        return self.root.sample_id or self.entry.sample_id or self.trace_id

    @property
    def is_request(self) -> bool:
        """Whether the trace is a request; a file may contain traces of other parts of a program."""
        has_content = bool(self.entry.kind) or self.entry.query is not None or bool(self.searches or self.models)
        return has_content and self.entry.kind not in ("embedding", "evaluator")

    @property
    def query(self) -> str | None:
        calls = [call[0] for call in (*self.retrievers, *self.models)]
        return next((span.query for span in (self.entry, *calls) if span.query is not None), None)


def read_trace_samples(path: Path, problems: Problems) -> Iterator[ParsedSample]:
    """Yield the query of each trace as a sample to annotate."""
    for trace in _read_traces(path, problems):
        line, record, query = trace.entry.line, trace.entry.record, trace.query
        if query is None:
            sources = "'input.value', a retriever's query nor a user's message"
            message = f"trace {trace.trace_id!r} has no query: there is neither {sources}"
            problems.add(path, line, message, record=record)
        elif problems.is_new(path, trace.sample_id, line, record=record, hint=_duplicate_hint(trace)):
            conversation = trace.root.conversation or trace.entry.conversation
            yield ParsedSample(line, EvaluationSample(trace.sample_id, query, cluster_id=conversation), record)


def read_trace_outputs(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the output of each trace."""
    traces = _read_traces(path, problems)
    # An agent may answer without a search, and then its ranking is empty; a file without any search is that of a
    # system without retrieval.
    has_retrieved = any(trace.searches for trace in traces)
    for trace in traces:
        line, record = trace.entry.line, trace.entry.record
        if problems.is_new(path, trace.sample_id, line, record=record, hint=_duplicate_hint(trace)):
            yield ParsedOutput(line, trace.sample_id, _output(trace), has_retrieved, record)


def _duplicate_hint(trace: _Trace) -> str:
    return f" (trace {trace.trace_id!r} has it too: put each repeat in a file of its own)"


def _output(trace: _Trace) -> SystemOutputs:
    return SystemOutputs(
        retrieved=_retrieved(trace),
        response=_response(trace),
        timings=_timings(trace),
        extra={"trace_id": trace.trace_id},
        error=trace.root.error or trace.entry.error,
        steps=[_step(call) for call in trace.retrievers],
        usage=_usage(trace),
    )


def _retrieved(trace: _Trace) -> list[RetrievedDocument]:
    """Return the documents of the last reranker that lists any, else of the last retriever."""
    for calls in (trace.rerankers, trace.retrievers):
        for call in reversed(calls):
            if listed := _documents(call):
                return listed
    return []


def _documents(call: Sequence[TraceSpan]) -> list[RetrievedDocument]:
    """Return the documents of a call, else the last ones of its nested calls."""
    own = call[0].documents
    inner = (span.documents for span in reversed(call[1:]) if span.documents)
    return own if own is not None else next(inner, [])


def _response(trace: _Trace) -> Response | None:
    for span in [trace.entry, *chain.from_iterable(reversed(trace.models))]:
        if span.answer is not None:
            return Response(span.answer)
    structured = trace.entry.structured
    if structured is None or not trace.models:
        return None
    # The text is what the user saw; an empty one would count as a refusal.
    return Response(json.dumps(structured, ensure_ascii=False), structured)


def _timings(trace: _Trace) -> dict[str, float]:
    first_tokens = [span.first_token for span in chain.from_iterable(reversed(trace.models))]
    timings = {
        "end_to_end": trace.root.seconds,
        "retrieval": _seconds(trace.searches),
        "generation": _seconds(trace.models),
        "first_token": _seconds_since(trace.root.start, first_tokens),
        STARTED: None if trace.root.start is None else trace.root.start / 1e9,
    }
    return {key: value for key, value in timings.items() if value is not None}


def _seconds(calls: Sequence[Sequence[TraceSpan]]) -> float | None:
    known = [duration for call in calls if (duration := call[0].duration) is not None]
    return sum(known) / NANOSECONDS_PER_SECOND if known else None  # summed as integers: 0.05 + 0.01 is not quite 0.06


def _seconds_since(start: int | None, moments: Sequence[int | None]) -> float | None:
    """Return the seconds from the start to the first known moment; ``None`` where clocks disagree about the order."""
    moment = next((moment for moment in moments if moment is not None), None)
    if start is None or moment is None or moment < start:
        return None
    return (moment - start) / NANOSECONDS_PER_SECOND


def _step(call: Sequence[TraceSpan]) -> dict[str, Any]:
    step: dict[str, Any] = {"query": call[0].query, "retrieved": [item.doc.doc_id for item in _documents(call)]}
    return step if call[0].seconds is None else {**step, "timing": call[0].seconds}


def _usage(trace: _Trace) -> dict[str, Any]:
    """Sum the usage of the model calls; a call without usage counts as its nested calls."""
    spans: list[TraceSpan] = []
    for call in trace.models:
        spans += call[:1] if call[0].usage else [span for span in call[1:] if span.usage]
    reports: list[dict[str, Any]] = [{**span.usage, "model": span.model} for span in spans] or [trace.entry.usage]
    models = {span.model: None for span in chain.from_iterable(trace.models) if span.model is not None}
    parts = usage_of_models(reports) if len(models) > 1 else {}
    return {**sum_usage(reports), "models": list(models), **parts} if models else sum_usage(reports)


def _read_traces(path: Path, problems: Problems) -> list[_Trace]:
    """Return the requests in a file, in the order of their first span."""
    spans_by_trace: dict[str, dict[object, TraceSpan]] = {}
    broken: set[str] = set()
    for span in read_spans(path, problems):
        if isinstance(span, str):
            broken.add(span)
            continue
        spans = spans_by_trace.setdefault(span.trace_id, {})
        earlier = spans.setdefault(span.span_id or len(spans), span)
        if earlier is not span and earlier.content != span.content:
            there = f"on line {earlier.line}" if earlier.record is None else f"in record {earlier.record}"
            message = f"span {span.span_id!r} is already {there}, with different content"
            problems.add(path, span.line, message, record=span.record)
    traces = [
        _build_trace(trace_id, list(spans.values()))
        for trace_id, spans in spans_by_trace.items()
        if trace_id not in broken
    ]
    requests = [trace for trace in traces if trace.is_request]
    if not spans_by_trace and not broken:
        problems.add(path, None, "the file is empty; each line must be a span, or an OTLP bundle of spans")
    elif not requests and not broken:
        attributes = "'openinference.span.kind' or 'gen_ai.operation.name'"
        problems.add(path, None, f"no trace in it is a request to a retriever or a model; spans say so by {attributes}")
    return requests


def _build_trace(trace_id: str, spans: list[TraceSpan]) -> _Trace:
    spans.sort(key=lambda span: (span.start is None, span.start or 0))
    known = {span.span_id for span in spans}
    # A span without a parent; else one whose parent is not in the file; else, in a cycle of parents, the first span.
    orphans = (span for span in spans if span.parent_id not in known)
    root = next((span for span in spans if span.parent_id is None), None) or next(orphans, spans[0])
    entry = root
    if not root.kind and root.query is None and root.answer is None:
        entry = next((call[0] for call in _outermost_calls(spans, lambda span: bool(span.kind))), root)
    judges = _outermost_calls(spans, lambda span: span.kind == "evaluator", whole=True)
    judging = {id(span) for span in chain.from_iterable(judges)}
    spans = [span for span in spans if id(span) not in judging]
    return _Trace(
        trace_id,
        root,
        entry,
        retrievers=_outermost_calls(spans, lambda span: span.kind == "retriever"),
        rerankers=_outermost_calls(spans, lambda span: span.kind == "reranker"),
        models=_outermost_calls(spans, lambda span: span.kind == "llm"),
        searches=_outermost_calls(spans, lambda span: span.kind in ("retriever", "reranker")),
    )


def _outermost_calls(
    spans: Sequence[TraceSpan], chosen: Callable[[TraceSpan], bool], *, whole: bool = False
) -> list[list[TraceSpan]]:
    """Return the outermost chosen spans, each followed by the chosen ones (``whole``: all) inside it.

    Libraries trace one call at several levels; counting all spans would count the call several times.
    """
    by_id = {span.span_id: span for span in spans if span.span_id is not None}
    outermost: dict[int, TraceSpan | None] = {}
    for span in spans:
        ancestors: dict[int, TraceSpan] = {}
        above: TraceSpan | None = span
        while above is not None and id(above) not in outermost and id(above) not in ancestors:
            ancestors[id(above)] = above
            above = None if above.parent_id is None else by_id.get(above.parent_id)
        top = None if above is None else outermost.get(id(above))
        for passed in reversed(ancestors.values()):
            top = passed if top is None and chosen(passed) else top
            outermost[id(passed)] = top
    calls: dict[int, list[TraceSpan]] = {}
    for span in spans:
        top = outermost[id(span)]
        if top is span:
            calls.setdefault(id(top), []).insert(0, span)
        elif top is not None and (whole or chosen(span)):
            calls.setdefault(id(top), []).append(span)
    return list(calls.values())


FORMAT = register_format(
    Format(
        "traces",
        "spans of OpenInference or OpenTelemetry GenAI",
        looks_like_traces,
        read_trace_samples,
        read_trace_outputs,
        sample_fields=frozenset({"sample_id", "query", "cluster_id"}),
        one_file=True,
        output_fields=frozenset({"retrieved", "response", "timings", "extra", "error", "steps", "usage"}),
    )
)
