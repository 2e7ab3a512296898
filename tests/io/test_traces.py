"""Traces: every shape they are exported in gives the same outputs; the rules; what is refused and with which words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import evaluate
from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, DataFileError
from auepora_eval.io.codec import text_id
from auepora_eval.io.formats import guess_format
from auepora_eval.io.join import (
    align_outputs,
    iter_outputs,
    iter_samples,
    load_dataset,
    load_outputs,
    read_outputs_file,
)
from auepora_eval.io.problems import Problems

Row = dict[str, Any]
TRACE = "0af7651916cd43dd8448eb211c80319c"
START = 1_735_689_600_000_000_000  # 2025-01-01T00:00:00Z
MS = 1_000_000


def span(
    number: int, parent: int | None, start: int, end: int, attributes: Row, trace: str = TRACE, **more: Any
) -> Row:
    """One span in no particular shape; times in milliseconds after the start."""
    made = {"name": f"s{number}", "trace": trace, "id": f"{number:016x}", "parent": parent and f"{parent:016x}"}
    return made | {"start": START + start * MS, "end": START + end * MS, "attributes": attributes} | more


KIND = "openinference.span.kind"
ASKED = {KIND: "CHAIN", "input.value": "Who wrote Faust?", "session.id": "c1", "metadata": '{"sample_id": "q1"}'}
SPANS = [  # as an exporter writes them: the inner ones end first
    span(
        *(2, 1, 10, 60),
        {
            KIND: "RETRIEVER",
            "input.value": "Faust author",
            "retrieval.documents.0.document.id": "d1",
            "retrieval.documents.0.document.content": "Faust is a play.",
            "retrieval.documents.0.document.score": 0.5,
            "retrieval.documents.1.document.id": 2,
            "retrieval.documents.1.document.content": "Goethe wrote Faust.",
            "retrieval.documents.1.document.score": 0.25,
            "retrieval.documents.1.document.metadata": '{"page": 7}',
        },
    ),
    span(
        *(3, 1, 60, 80),
        {
            KIND: "RERANKER",
            "reranker.query": "Faust author",
            "reranker.input_documents.0.document.id": "d1",
            "reranker.output_documents.0.document.content": "Goethe wrote Faust.",
            "reranker.output_documents.0.document.score": 3,
            "reranker.output_documents.1.document.id": "d1",
            "reranker.output_documents.1.document.content": "Faust is a play.",
        },
    ),
    span(
        *(4, 1, 80, 380),
        {
            KIND: "LLM",
            "llm.model_name": "small",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Answer from these documents: ...",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "Goethe.",
            "llm.token_count.prompt": 40,
            "llm.token_count.completion": 2,
        },
    ),
    span(1, None, 0, 400, {**ASKED, "output.value": "Goethe wrote it."}),
]
GOETHE = Document(text_id("Goethe wrote Faust."), "Goethe wrote Faust.")
WANT = SystemOutputs(
    [RetrievedDocument(GOETHE, 3.0, 1), RetrievedDocument(Document("d1", "Faust is a play."), None, 2)],
    Response("Goethe wrote it."),
    {"end_to_end": 0.4, "retrieval": 0.07, "generation": 0.3, "started": 1735689600.0},
    {"trace_id": TRACE},
    steps=[{"query": "Faust author", "retrieved": ["d1", "2"], "timing": 0.05}],
    usage={"total_tokens": 42, "input_tokens": 40, "output_tokens": 2, "models": ["small"]},
)


# --- shapes ----------------------------------------------------------------------------------------------------------


def iso(nanoseconds: int) -> str:
    return f"2025-01-01T00:00:00.{(nanoseconds - START) // 1000:06d}+00:00"


def nest_attributes(attributes: Row) -> Row:
    """As Phoenix keeps them: objects in objects, lists of documents and messages."""
    made: Row = {}
    for key, value in attributes.items():
        *way, last = key.split(".")
        holder = made
        for step in way:
            holder = holder.setdefault(step, {})
        holder[last] = value
    return lists(made)  # type: ignore[no-any-return]


def lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value and all(key.isdecimal() for key in value):
        return [lists(value[key]) for key in sorted(value, key=int)]
    return {key: lists(item) for key, item in value.items()}


def list_attributes(attributes: Row) -> Row:
    """As in the columns of Phoenix's table: a list under the name of the list, dots inside its items."""
    made: Row = {}
    for key, value in attributes.items():
        name, dot, rest = next(
            (
                (key[: key.index(f".{digit}.")], digit, key[key.index(f".{digit}.") + 3 :])
                for digit in "01"
                if f".{digit}." in key
            ),
            (key, "", ""),
        )
        if not dot:
            made[key] = value
            continue
        rows = made.setdefault(name, [])
        rows.extend({} for _ in range(int(dot) + 1 - len(rows)))
        rows[int(dot)][rest] = value
    return made


def flatten(row: Row) -> Row:
    return {
        "name": row["name"],
        "context": {"trace_id": row["trace"], "span_id": row["id"]},
        "parent_id": row["parent"],
        "start_time": iso(row["start"]),
        "end_time": iso(row["end"]),
        "status_code": row.get("status", "OK"),
        "status_message": row.get("message", ""),
        "attributes": row["attributes"],
        "events": row.get("events", []),
    }


def phoenix(row: Row) -> Row:
    return {**flatten(row), "span_kind": row["attributes"][KIND], "attributes": nest_attributes(row["attributes"])}


def console(row: Row) -> Row:
    made = flatten(row) | {"status": {"status_code": "OK"}, "kind": "SpanKind.INTERNAL", "links": []}
    made["context"] = {"trace_id": f"0x{row['trace']}", "span_id": f"0x{row['id']}", "trace_state": "[]"}
    return made | {"parent_id": row["parent"] and f"0x{row['parent']}"}


def table(row: Row) -> Row:
    columns = {f"attributes.{key}": value for key, value in list_attributes(row["attributes"]).items()}
    ids = {"context.trace_id": row["trace"], "context.span_id": row["id"], "parent_id": row["parent"]}
    empty = {f"attributes.{key}": float("nan") for key in ("llm.token_count.total", "llm.cost.total")}
    times = {"start_time": row["start"] // MS, "end_time": row["end"] // MS}
    return {**empty, **columns, **ids, **times, "status_code": "UNSET"}


def otlp_value(value: Any) -> Row:
    if isinstance(value, str):
        return {"stringValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def otlp(rows: list[Row]) -> Row:
    spans = [
        {
            "traceId": row["trace"],
            "spanId": row["id"],
            "parentSpanId": row["parent"] or "",
            "name": row["name"],
            "kind": 1,
            "startTimeUnixNano": str(row["start"]),
            "endTimeUnixNano": str(row["end"]),
            "attributes": [{"key": key, "value": otlp_value(value)} for key, value in row["attributes"].items()],
            "status": {},
        }
        for row in rows
    ]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def lines(rows: list[Row], shape: Callable[[Row], Row]) -> str:
    return "".join(json.dumps(shape(row)) + "\n" for row in rows)


def to_camel_case(row: Row) -> Row:
    ids = {"traceId": row["trace"], "spanId": row["id"], "parentSpanId": row["parent"]}
    times = {"startTime": [row["start"] // 10**9, row["start"] % 10**9], "endTime": row["end"] / 1e9}
    return {**ids, **times, "attributes": json.dumps(row["attributes"])}


SHAPES: dict[str, Callable[[list[Row]], str]] = {
    "flat attributes": lambda rows: lines(rows, flatten),
    "out of order": lambda rows: lines(rows[::-1], flatten),
    "nested attributes": lambda rows: lines(rows, phoenix),
    "columns of a table": lambda rows: lines(rows, table),
    "camel case, other times": lambda rows: lines(rows, to_camel_case),
    "console": lambda rows: "\n".join(json.dumps(console(row), indent=4) for row in rows),
    "an array": lambda rows: json.dumps([flatten(row) for row in rows]),
    "an array over lines": lambda rows: json.dumps([phoenix(row) for row in rows], indent=2),
    "an array, a span per line": lambda rows: "[" + ",\n".join(json.dumps(flatten(row)) for row in rows) + "]",
    "a page of an API": lambda rows: json.dumps({"data": [phoenix(row) for row in rows], "next_cursor": None}),
    "OTLP in one line": lambda rows: json.dumps(otlp(rows)),
    "OTLP, a span per line": lambda rows: "\n".join(json.dumps(otlp([row])) for row in rows),
    "a span exported twice": lambda rows: lines([*rows, rows[0]], flatten),
}


def write_file(path: Path, rows: list[Row] | str) -> Path:
    path.write_text(rows if isinstance(rows, str) else SHAPES["flat attributes"](rows))
    return path


@pytest.mark.parametrize("shape", SHAPES)
def test_all_export_formats_are_equivalent(tmp_path: Path, shape: str) -> None:
    path = write_file(tmp_path / "t.jsonl", SHAPES[shape](SPANS))
    assert guess_format(path, "outputs").name == "traces"
    got = load_outputs(path)["q1"]
    if "times" in shape:  # seconds as a float have microsecond precision at best
        got.timings["end_to_end"] = round(got.timings["end_to_end"], 6)
        got.timings |= {key: round(got.timings[key], 6) for key in ("retrieval", "generation")}
        got.steps[0]["timing"] = round(got.steps[0]["timing"], 6)
    assert got == WANT
    assert list(load_dataset(path)) == [EvaluationSample("q1", "Who wrote Faust?", cluster_id="c1")]


def test_gen_ai_attributes(tmp_path: Path) -> None:
    rows = [
        span(1, None, 0, 500, {"http.request.method": "POST"}),
        span(2, 1, 0, 400, {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c7"}),
        span(
            *(3, 2, 10, 110),
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.retrieval.query.text": "capital of France",
                "gen_ai.retrieval.documents": '[{"id": "b", "score": 0.9}, {"id": "a", "score": 0.8}]',
            },
        ),
        span(
            *(4, 2, 110, 300),
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m",
                "gen_ai.response.model": "m-1",
                "gen_ai.usage.input_tokens": 100,
                "gen_ai.usage.output_tokens": 10,
                "gen_ai.output.messages": json.dumps(
                    [
                        {
                            "role": "assistant",
                            "parts": [{"type": "reasoning", "content": "?"}, {"type": "text", "content": "Paris"}],
                        }
                    ]
                ),
            },
        ),
    ]
    path = write_file(tmp_path / "t.jsonl", rows)
    assert list(load_dataset(path)) == [EvaluationSample(TRACE, "capital of France", cluster_id="c7")]
    got = load_outputs(path)[TRACE]
    assert [item.doc.doc_id for item in got.retrieved] == ["b", "a"]
    assert got.response == Response("Paris")
    assert got.timings == {"end_to_end": 0.5, "retrieval": 0.1, "generation": 0.19, "started": START / 1e9}
    assert got.usage == {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, "models": ["m-1"]}


# --- rules -----------------------------------------------------------------------------------------------------------

JSON = {"input.mime_type": "application/json"}
QUERIES: list[tuple[Row, str | None, str]] = [  # the root's attributes, the query, why
    ({"input.value": "Who?"}, "Who?", "a text"),
    ({"input.value": '{"question": "Who?"}'}, "Who?", "JSON"),
    ({"input.value": {"query": "Who?"}}, "Who?", "an object"),
    ({"input": {"value": '{"input": {"query": "Who?"}}'}}, "Who?", "JSON in JSON, nested"),
    ({"input.value": '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi!"}, '
      '{"role": "user", "content": [{"type": "text", "text": "Who?"}]}]}'}, "Who?", "the last message of the user"),
    ({"input.value": '{"messages": [{"type": "human", "kwargs": {"content": "Who?"}}]}'}, "Who?", "LangChain's message"),
    ({"input.value": '{"question": "Who?"}', "input.mime_type": "text/plain"}, '{"question": "Who?"}', "declared as plain text"),
    ({"input.value": '"Faust"'}, '"Faust"', "a phrase in quotes"),
    ({"input.value": '"Faust"', **JSON}, "Faust", "a JSON text in quotes"),
    ({"input.value": "[2024]"}, "[2024]", "brackets"),
    ({"input.value": "{broken"}, "{broken", "no JSON after all"),
    ({"input.value": '{"a": 1}'}, '{"a": 1}', "JSON without a usual key"),
    ({"input.value": 7}, "7", "a number"),
    ({"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Who?"}]}]'}, "Who?", "GenAI"),
    ({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Who?"}, "Who?", "OpenLLMetry"),
    ({"traceloop.entity.input": '{"input": "Who?"}'}, "Who?", "OpenLLMetry's workflow"),
    ({"input.value": None}, None, "null"),
    ({"input.value": True}, None, "true"),
    ({}, None, "nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "want", "why"), QUERIES, ids=[row[-1] for row in QUERIES])
def test_the_query(tmp_path: Path, attributes: Row, want: str | None, why: str) -> None:
    path = write_file(tmp_path / "t.jsonl", [span(1, None, 0, 1, {KIND: "CHAIN", **attributes})])
    if want is not None:
        assert [sample.query for sample in load_dataset(path)] == [want], why
        return
    with pytest.raises(DataFileError, match=r":1: trace '0af7.*' has no query: there is neither 'input.value'"):
        load_dataset(path)
    assert list(load_outputs(path)) == [TRACE]  # an output needs no query


ANSWERS: list[tuple[Row, Row, str | None, str]] = [  # attributes of the root, of the model, the answer, why
    ({"output.value": "Paris"}, {"output.value": "Lyon"}, "Paris", "the root's text"),
    ({"output.value": '{"answer": "Paris", "sources": []}'}, {}, "Paris", "the root's JSON"),
    ({"output.value": '{"choices": [{"message": {"role": "assistant", "content": "Paris"}}]}'}, {}, "Paris", "choices"),
    ({"output.value": '{"messages": [{"type": "human", "content": "?"}, {"type": "ai", "content": "Paris"}]}'}, {},
     "Paris", "the last message of the model"),
    ({}, {"llm.output_messages.0.message.content": "Paris"}, "Paris", "the model's message"),
    ({"output.value": '{"ids": [1]}'}, {"llm.output_messages.0.message.content": "Paris"}, "Paris", "JSON without text"),
    ({}, {"llm.output_messages.0.message.contents.0.message_content.type": "text",
          "llm.output_messages.0.message.contents.0.message_content.text": "Paris"}, "Paris", "contents of a message"),
    ({}, {"llm": {"output_messages": [{"message": {"role": "assistant", "content": "Paris"}}]}}, "Paris", "nested"),
    ({}, {"gen_ai.completion.0.content": "Paris"}, "Paris", "OpenLLMetry"),
    ({}, {"output.value": "Paris"}, "Paris", "the model's output"),
    ({"output.value": '{"city": "Paris"}'}, {}, '{"city": "Paris"}', "a structured answer"),
    ({"output.value": ""}, {"output.value": "Paris"}, "", "an empty text is an answer"),
    ({}, {}, None, "contents were not traced"),
]  # fmt: skip


@pytest.mark.parametrize(("root", "model", "want", "why"), ANSWERS, ids=[row[-1] for row in ANSWERS])
def test_the_answer(tmp_path: Path, root: Row, model: Row, want: str | None, why: str) -> None:
    rows = [span(1, None, 0, 9, {KIND: "CHAIN", **root}), span(2, 1, 1, 2, {KIND: "LLM", **model})]
    response = load_outputs(write_file(tmp_path / "t.jsonl", rows))[TRACE].response
    assert (None if response is None else response.text) == want, why
    if why == "a structured answer":
        assert response is not None
        assert response.structured == {"city": "Paris"}


def test_answer_from_an_event(tmp_path: Path) -> None:
    events = [
        {"name": "gen_ai.user.message", "attributes": {"content": '[{"text": "Where?"}]'}},
        {"name": "gen_ai.choice", "attributes": {"message": "Paris"}},
    ]
    path = write_file(tmp_path / "t.jsonl", [span(1, None, 0, 1, {"gen_ai.operation.name": "chat"}, events=events)])
    assert load_outputs(path)[TRACE].response == Response("Paris")
    assert [sample.query for sample in load_dataset(path)] == ["Where?"]


def retriever(number: int, parent: int | None, start: int, end: int, *ids: str) -> Row:
    made = {f"retrieval.documents.{index}.document.id": one for index, one in enumerate(ids)}
    return span(number, parent, start, end, {KIND: "RETRIEVER", "input.value": f"hop {number}", **made})


def model(number: int, parent: int | None, start: int, end: int, **attributes: Any) -> Row:
    return span(
        number, parent, start, end, {KIND: "LLM", **{key.replace("__", "."): v for key, v in attributes.items()}}
    )


TOKENS = "llm__token_count__total"
CHAIN = span(1, None, 0, 100, {KIND: "CHAIN", "input.value": "?"})
RULES: list[tuple[list[Row], Row, str]] = [  # spans, what the output has, why
    ([CHAIN, retriever(2, 1, 0, 10, "a"), retriever(3, 1, 20, 40, "b", "c")],
     {"retrieved": "bc", "steps": ["a", "bc"], "retrieval": 0.03}, "the last retriever; every one is a step"),
    ([CHAIN, retriever(3, 1, 20, 40, "b"), retriever(2, 1, 0, 10, "a")],
     {"retrieved": "b", "steps": ["a", "b"]}, "last by time, not by line"),
    ([CHAIN, retriever(2, 1, 0, 10, "a"), retriever(3, 1, 20, 40)],
     {"retrieved": "a", "steps": ["a", ""]}, "a call that lists nothing is a step"),
    ([CHAIN, retriever(2, 1, 0, 50, "c"), retriever(3, 2, 0, 20, "a"), retriever(4, 2, 20, 40, "b")],
     {"retrieved": "c", "steps": ["c"], "retrieval": 0.05}, "retrievers inside a retriever are part of it"),
    ([CHAIN, retriever(2, 1, 0, 50), retriever(3, 2, 0, 20, "a")],
     {"retrieved": "a", "steps": ["a"], "retrieval": 0.05}, "unless it lists nothing itself"),
    ([CHAIN, model(2, 1, 0, 50, **{TOKENS: 7}), model(3, 2, 0, 40, **{TOKENS: 7})],
     {"total_tokens": 7, "generation": 0.05}, "a model traced at two heights counts once"),
    ([CHAIN, model(2, 1, 0, 50), model(3, 2, 0, 40, **{TOKENS: 7}), model(4, 1, 50, 60, **{TOKENS: 2.0})],
     {"total_tokens": 9, "generation": 0.06}, "tokens from where they are"),
    ([CHAIN, span(2, 1, 0, 9, {KIND: "EVALUATOR"}), model(3, 2, 0, 9, llm__output_messages=[{"content": "4/5"}])],
     {"response": None, "generation": None}, "what an evaluator asks is not the system's"),
    ([span(1, None, 0, 9, {KIND: "AGENT", "gen_ai.usage.input_tokens": 3, "llm.cost.total": 0.5})],
     {"input_tokens": 3, "cost": 0.5}, "the root counts where no model does"),
    ([span(1, 9, 0, 9, {KIND: "CHAIN", "output.value": "x"}), span(2, 1, 1, 2, {KIND: "TOOL", "output.value": "y"})],
     {"response": "x", "end_to_end": 0.009}, "no root: the one whose parent is missing"),
    ([span(1, 2, 5, 9, {KIND: "CHAIN", "output.value": "x"}), span(2, 1, 0, 9, {KIND: "CHAIN", "output.value": "y"})],
     {"response": "y"}, "parents in a circle: the earliest"),
    ([span(1, 1, 0, 9, {KIND: "LLM", "output.value": "x"})], {"response": "x", "generation": 0.009}, "its own parent"),
    ([span(1, None, 5, 9, {KIND: "CHAIN", "output.value": "x"}), span(2, None, 0, 2, {KIND: "CHAIN", "output.value": "y"})],
     {"response": "y", "end_to_end": 0.002}, "two roots: the earlier"),
    ([span(1, None, 0, 9, {}), span(2, 1, 1, 4, {KIND: "CHAIN", "output.value": "x", "sample_id": TRACE})],
     {"response": "x", "end_to_end": 0.009}, "a root of another kind gives the time alone"),
    ([span(1, None, 0, 9, {"input.value": "?", "output.value": "x"}), model(2, 1, 1, 4)],
     {"response": "x"}, "a root may do without a kind"),
    ([span(1, None, 0, 9, {KIND: "RETRIEVER", "output.value": "[]", "retrieval.documents": []})],
     {"response": None, "retrieved": "", "steps": [""]}, "a retriever alone"),
    ([{**CHAIN, "end": START}], {"end_to_end": 0.0}, "no duration"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "want", "why"), RULES, ids=[row[-1] for row in RULES])
def test_rules(tmp_path: Path, rows: list[Row], want: Row, why: str) -> None:
    got = load_outputs(write_file(tmp_path / "t.jsonl", rows))[TRACE]
    seen = {
        "retrieved": "".join(item.doc.doc_id for item in got.retrieved),
        "steps": ["".join(step["retrieved"]) for step in got.steps],
        "response": None if got.response is None else got.response.text,
        **got.usage,
        **{key: got.timings.get(key) for key in ("end_to_end", "retrieval", "generation")},
    }
    assert {key: seen[key] for key in want} == want, why


STATUS: list[tuple[Row, str, str]] = [  # what the span has more, the error, why
    ({"status": "ERROR"}, "error", "nothing but the status"),
    ({"status": "ERROR", "message": "no answer"}, "error: no answer", "message of the status"),
    ({"status": "STATUS_CODE_ERROR", "message": "x"}, "error: x", "OTLP's name"),
    ({"status": "ERROR", "message": "x", "events": [
        {"name": "exception", "attributes": {"exception.type": "openai.RateLimitError", "exception.message": "429"}}]},
     "rate_limit_error: 429", "an exception"),
    ({"status": "ERROR", "events": [{"name": "exception", "attributes": [
        {"key": "exception.type", "value": {"stringValue": "HTTPError"}}]}]}, "http_error", "an exception's type alone"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "want", "why"), STATUS, ids=[row[-1] for row in STATUS])
def test_failed_root_span(tmp_path: Path, more: Row, want: str, why: str) -> None:
    rows = [span(1, None, 0, 1, {KIND: "CHAIN"}, **more), span(2, 1, 0, 1, {KIND: "TOOL"}, status="ERROR")]
    assert load_outputs(write_file(tmp_path / "t.jsonl", rows))[TRACE].error == want, why


def test_failed_step_is_not_a_system_failure(tmp_path: Path) -> None:
    rows = [span(1, None, 0, 1, {KIND: "CHAIN"}), span(2, 1, 0, 1, {KIND: "TOOL"}, status="ERROR")]
    assert load_outputs(write_file(tmp_path / "t.jsonl", rows))[TRACE].error is None


def test_several_traces(tmp_path: Path) -> None:
    rows = [
        span(1, None, 0, 1, {KIND: "CHAIN", "auepora.sample_id": "b"}, trace="2"),
        span(1, None, 0, 1, {"http.route": "/health"}, trace="3"),
        span(1, None, 0, 1, {KIND: "EMBEDDING"}, trace="4"),
        span(2, 1, 0, 1, {KIND: "RETRIEVER"}, trace="1"),
        span(1, None, 0, 1, {KIND: "CHAIN", "metadata": {"sample_id": 7}}, trace="1"),
        retriever(2, 1, 0, 1, "x") | {"trace": "2"},
    ]
    path = write_file(tmp_path / "t.jsonl", rows)
    assert [(read.line, read.sample_id) for read in iter_outputs(path)] == [(1, "b"), (5, "7")]
    read = read_outputs_file(path)
    assert not read.answers_only
    assert read.outputs["7"].retrieved == []
    assert read.outputs["b"].extra == {"trace_id": "2"}


def test_system_without_retrieval(tmp_path: Path) -> None:
    assert read_outputs_file(write_file(tmp_path / "t.jsonl", [model(1, None, 0, 1)])).answers_only


def test_numbers_from_a_trace(tmp_path: Path) -> None:
    path = write_file(tmp_path / "t.jsonl", SPANS)
    sample = EvaluationSample("q1", "Who wrote Faust?", [Document("d1")], reference_answer=Response("Goethe wrote it."))
    results = evaluate([sample], align_outputs([sample], load_outputs(path)).outputs, ["mrr", "exact_match"])
    assert [result.value for result in results] == [1 / 2, 1.0]


def test_text_ids_are_stable() -> None:
    assert text_id("Goethe wrote Faust.") == "b51343834baed351"
    assert text_id("a") != text_id("b")
    assert text_id("\ud800") == text_id("\ud800")


# --- what is refused -------------------------------------------------------------------------------------------------

DOCUMENT = "retrieval.documents.0.document"
ROOT = flatten(CHAIN)
BAD: list[tuple[str | Row, str]] = [  # the file, or a span; the message after the path
    ("", ": the file is empty; each line must be a span, or an OTLP bundle of spans"),
    ("{}", ":1: a span has no trace id; expected 'trace_id', 'traceId' or 'context.trace_id'"),
    ("1", ":1: each line must be a span, or an OTLP bundle of spans: a JSON object"),
    (json.dumps(ROOT) + '\n{"a"\n', ":2: not valid JSON: "),
    (json.dumps(ROOT) + '\n{"a": "\\ud800"}\n', ":2: field 'a' holds half of a surrogate pair, which is not valid text"),
    ("{\n" + '"a": 1\n"b": 2}', ":3: not valid JSON: expecting ',' delimiter near column 1"),
    ("[" * 100_000, ": the file is empty; each line must be a span"),
    ('{"a":' * 100_000, ":1: the values are nested too deeply"),
    ('{\n"a":' * 100_000, ":1: the values are nested too deeply"),
    ('{"resourceSpans": 1}', ":1: field 'resourceSpans' must be an array"),
    ('{"resourceSpans": [{"scopeSpans": [1]}]}', ":1: field 'scopeSpans' must hold objects"),
    (ROOT | {"context": {"trace_id": ""}}, ":1: a span has no trace id; "),
    (ROOT | {"context": {"trace_id": "0x000"}}, ":1: a span has no trace id; "),
    (ROOT | {"context": {"trace_id": [1]}}, ":1: field 'context.trace_id' must be a string or an integer, not an array"),
    (ROOT | {"context": {"trace_id": 10**200}}, ":1: field 'context.trace_id' is too large a number"),
    (ROOT | {"end_time": iso(START - MS)[:-9] + "Z"}, ":1: field 'end_time' must be a time such as "),
    (ROOT | {"start_time": iso(START + 250 * MS)}, ":1: the span 's1' ends 0.15 s before it starts"),
    (ROOT | {"start_time": "noon"}, ":1: field 'start_time' must be a time such as '2025-01-31T12:00:00Z', not 'noon'"),
    (ROOT | {"start_time": {}}, ":1: field 'start_time' must be a time such as '2025-01-31T12:00:00Z', not this value"),
    (ROOT | {"start_time": 10**30}, ":1: field 'start_time' must be a time such as "),
    (ROOT | {"attributes": 3}, ":1: field 'attributes' must be an object, or an array of keys and values"),
    (ROOT | {"attributes": [3]}, ":1: field 'attributes' must hold objects with 'key' and 'value'"),
    (ROOT | {"attributes": {"a": 1}}, ": no trace in it is a request to a retriever or a model; spans say so by "
     "'openinference.span.kind' or 'gen_ai.operation.name'"),
    ({f"{DOCUMENT}.id": 1.5}, f":1: attribute '{DOCUMENT}.id' must be a string or an integer, not a number"),
    ({f"{DOCUMENT}.content": [1]}, f":1: attribute '{DOCUMENT}.content' must be a string, not an array"),
    ({f"{DOCUMENT}.score": 1}, ":1: attribute 'retrieval.documents.0' has neither 'document.id' nor 'document.content'"),
    ({f"{DOCUMENT}.id": "a", f"{DOCUMENT}.score": "1"}, f":1: attribute '{DOCUMENT}.score' must be a number, not a string"),
    ({f"{DOCUMENT}.id": "a", f"{DOCUMENT}.score": 10**400}, f":1: attribute '{DOCUMENT}.score' is too large a number"),
    ({"retrieval.documents": [None]}, ":1: attribute 'retrieval.documents.0' must be a document (an object), not null"),
    ({"llm.token_count.total": -1}, ":1: attribute 'llm.token_count.total' must be a number of tokens, not -1"),
    ({"llm.token_count.total": True}, ":1: attribute 'llm.token_count.total' must be a number, not true or false"),
    ({"auepora.sample_id": []}, ":1: attribute 'auepora.sample_id' must be a string or an integer, not an array"),
    (json.dumps(ROOT) + "\n" + json.dumps(ROOT | {"attributes": {}}),
     f":2: span '{1:016x}' is already on line 1, with different content"),
    (lines([span(1, None, 0, 1, ASKED, trace="a"), span(1, None, 0, 1, ASKED, trace="b")], flatten),
     ":2: sample_id 'q1' is already on line 1; each id may come once (trace 'b' has it too: put each repeat in a file "
     "of its own)"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD, ids=[row[-1][:70] for row in BAD])
def test_bad_files(tmp_path: Path, content: str | Row, message: str) -> None:
    if isinstance(content, dict):
        given = content if "context" in content else ROOT | {"attributes": {KIND: "RETRIEVER", **content}}
        content = json.dumps(given)
    path = write_file(tmp_path / "t.jsonl", content)
    with pytest.raises(AueporaError) as caught:
        load_outputs(path, "traces")
    assert str(caught.value).startswith(f"{path}{message}")


def test_all_problems_are_collected(tmp_path: Path) -> None:
    broken = json.dumps(flatten(span(2, 1, 0, 1, {KIND: "RETRIEVER", f"{DOCUMENT}.id": 1.5}, trace="a")))
    good = json.dumps(flatten(span(1, None, 0, 1, {KIND: "CHAIN"}, trace="b")))
    path = write_file(tmp_path / "t.jsonl", f'{good}\n{{"a"\n{broken}\n{json.dumps(ROOT)}\n')
    problems = Problems(collect_all=True)
    assert [read.sample_id for read in iter_outputs(path, "traces", problems)] == ["b", TRACE]
    assert [problem.line for problem in problems.found] == [2, 3]


def test_problems_on_one_line_have_a_record_number(tmp_path: Path) -> None:
    bad = flatten(span(2, 1, 0, 1, {KIND: "RETRIEVER", f"{DOCUMENT}.id": 1.5, "llm.token_count.total": -1}))
    want = [
        f":1: record 2: attribute '{DOCUMENT}.id' must be a string or an integer, not a number",
        ":1: record 2: attribute 'llm.token_count.total' must be a number of tokens, not -1",
        ":1: record 2: field 'start_time' must be a time such as '2025-01-31T12:00:00Z', not 'noon'",
    ]
    for value in ([ROOT, bad | {"start_time": "noon"}], {"spans": [ROOT, bad | {"start_time": "noon"}]}):
        path = write_file(tmp_path / "t.json", json.dumps(value))
        problems = Problems(collect_all=True)
        list(iter_outputs(path, "traces", problems))
        assert sorted(str(problem).removeprefix(str(path)) for problem in problems.found) == sorted(want)


def test_invalid_span_in_indented_json(tmp_path: Path) -> None:
    pretty = [json.dumps(console(row), indent=4) for row in SPANS]
    path = write_file(tmp_path / "t.jsonl", "\n".join(["{", '    "name": 1', "    {}", "}", *pretty]))
    problems = Problems(collect_all=True)
    assert [read.output for read in iter_outputs(path, "traces", problems)] == [WANT]
    assert [str(problem) for problem in problems.found] == [
        f"{path}:3: not valid JSON: expecting ',' delimiter near column 5"
    ]


# --- whatever the bytes ----------------------------------------------------------------------------------------------


def check_reader(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for read in (iter_outputs, iter_samples):
        try:
            strict = len(list(read(path, "traces")))
        except AueporaError:
            strict = -1
        problems = Problems(collect_all=True)
        try:
            collected = len(list(read(path, "traces", problems)))
        except AueporaError:
            continue  # the file itself cannot be read
        assert (strict == -1) == bool(problems.found)
        assert strict in (-1, collected)


@given(
    content=st.binary(max_size=200)
    | st.text('{}[]",:\n 0.1eaN\\u\ud800', max_size=60).map(lambda t: t.encode(errors="replace"))
)
def test_bytes(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    check_reader(tmp_path_factory.mktemp("t") / "t.jsonl", content)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("0") | st.just("{}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["0", "id", "role", "content"]), inner),
    max_leaves=4,
)


@given(data=st.data(), shape=st.sampled_from(list(SHAPES)))
def test_mutated_files(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, shape: str) -> None:
    values = [json.loads(line) for line in SHAPES["flat attributes"](SPANS).splitlines()]
    if shape.startswith("OTLP"):
        values = [otlp(SPANS)]
    elif shape.startswith("nested"):
        values = [phoenix(row) for row in SPANS]
    for _ in range(data.draw(st.integers(1, 3))):
        places = list(iter_positions(values))
        holder, key = data.draw(st.sampled_from(places))
        holder[key] = data.draw(JUNK)
    content = "\n".join(json.dumps(value) for value in values).encode()
    check_reader(tmp_path_factory.mktemp("t") / "t.jsonl", content)
    text = bytearray(SHAPES[shape](SPANS).encode())
    at = data.draw(st.integers(0, len(text) - 1))
    text[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=4))
    check_reader(tmp_path_factory.mktemp("t") / "t.jsonl", bytes(text))


def iter_positions(value: Any) -> Any:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from iter_positions(item)
