"""Usage, models and first-token times as systems, frameworks and traces report them."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from auepora_eval.core.registry import metric
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.features.usage import CACHED, token_count
from auepora_eval.io.formats import get_format
from auepora_eval.io.problems import Problems
from auepora_eval.systems.adapters import sum_token_usage
from auepora_eval.systems.json_mapping import ReplyPaths
from auepora_eval.systems.langchain import TraceCallback
from helpers.builders import sample

REPORTS: list[tuple[list[Any], dict[str, Any], str]] = [
    (
        [{"input_tokens": 5, "output_tokens": 2, "model": "m"}, {"prompt_tokens": 1, "completion_tokens": 1, "model": "m"}],
        {"input_tokens": 6, "output_tokens": 3, "total_tokens": 9, "model": "m"},
        "calls of one model",
    ),
    (
        [{"input_tokens": 5, "output_tokens": 0, "model": "a"}, {"input_tokens": 1, "output_tokens": 1, "model": "b"}],
        {
            "input_tokens": 6, "output_tokens": 1, "total_tokens": 7,
            "by_model": {
                "a": {"input_tokens": 5, "output_tokens": 0, "total_tokens": 5},
                "b": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
            },
        },
        "calls of two models",
    ),
    (
        [{"input_tokens": 5, "input_token_details": {"cache_read": 4}}],
        {"input_tokens": 5, "total_tokens": 5, "cached_prompt_tokens": 4},
        "cached tokens",
    ),
    ([None, {}, {"model": "m"}], {}, "nothing is known"),
]  # fmt: skip


@pytest.mark.parametrize(("reports", "wanted"), [row[:2] for row in REPORTS], ids=[row[2] for row in REPORTS])
def test_reports_are_added_up(reports: list[Any], wanted: dict[str, Any]) -> None:
    assert sum_token_usage(reports) == wanted


def test_a_chain_reports_its_model_and_its_first_token() -> None:
    callback = TraceCallback()
    callback.on_llm_start(run_id=1)
    assert "first_token" not in callback.timings
    callback.on_llm_new_token("a", run_id=1)
    first = callback.timings["first_token"]
    callback.on_llm_new_token("b", run_id=1)
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    message = SimpleNamespace(usage_metadata=usage, response_metadata={"model_name": "large"})
    callback.on_llm_end(SimpleNamespace(generations=[[SimpleNamespace(message=message)]]), run_id=1)
    assert callback.usage == {**usage, "model": "large"}
    assert callback.timings["first_token"] == first
    assert first <= callback.timings["generation"] + 1


def test_replies_of_an_endpoint_have_a_model_and_a_first_token() -> None:
    paths = ReplyPaths({"answer": "text", "usage": "usage", "model": "model", "first_token": "ms.first?"})
    reply = {
        "text": "yes",
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
        "model": "large",
        "ms": {"first": 0.2},
    }
    output = paths.outputs(json.dumps(reply).encode(), sample())
    assert output.usage == {"prompt_tokens": 9, "completion_tokens": 1, "model": "large"}
    assert output.timings == {"first_token": 0.2}
    cost: Any = metric({"total_cost": {"prices": {"large": {"prompt": 1, "completion": 1}}}})
    assert cost.score_one(sample(), output).value == pytest.approx(10 / 1e6)


def span(number: int, model: str | None, tokens: int | None, **attributes: Any) -> dict[str, Any]:
    """A span of a trace: the root without a number, model calls with one."""
    own = (
        {}
        if model is None
        else {"llm.model_name": model, "llm.token_count.prompt": tokens, "llm.token_count.completion": 1}
    )
    return {
        "name": "call",
        "context": {"trace_id": "t", "span_id": f"s{number}"},
        "parent_id": None if number == 0 else "s0",
        "start_time": f"2025-01-01T00:00:0{number}Z",
        "end_time": f"2025-01-01T00:00:0{number + 1}Z",
        "attributes": {"openinference.span.kind": "CHAIN" if model is None else "LLM", "input.value": "Who?",
                       "output.value": "Goethe", **own, **attributes},
    }  # fmt: skip


def read_trace(folder: Path, spans: list[dict[str, Any]]) -> Any:
    path = folder / "traces.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in spans))
    (parsed,) = get_format("traces").read("outputs", path, Problems())
    return parsed.output


def test_traces_report_the_usage_of_each_model(tmp_path: Path) -> None:
    cached = {"llm.token_count.prompt_details.cache_read": 3}
    output = read_trace(tmp_path, [span(0, None, None), span(1, "small", 5), span(2, "large", 7, **cached)])
    usage = output.usage
    assert usage["models"] == ["small", "large"]
    assert usage["by_model"]["small"]["input_tokens"] == 5
    assert token_count(usage["by_model"]["large"], CACHED) == 3
    prices = {"small": {"prompt": 1}, "large": {"prompt": 2, "cached_prompt": 0}}
    cost: Any = metric({"total_cost": {"prices": prices}})
    assert cost.score_one(sample(), output).value == pytest.approx((5 + 2 * 4) / 1e6)


CHUNK = "llm.content.completion.chunk"
FIRST_TOKENS: list[tuple[dict[str, Any], list[dict[str, Any]], float | None, str]] = [
    ({"gen_ai.response.time_to_first_chunk": 0.25}, [], 2.25, "OpenTelemetry counts from the start of its span"),
    ({"gen_ai": {"response": {"time_to_first_token": 0.5}}}, [], 2.5, "Sentry, nested attributes"),
    ({"langfuse.observation.completion_start_time": '"2025-01-01T00:00:02.125Z"'}, [], 2.125, "Langfuse writes JSON"),
    ({}, [{"name": "First Token Stream Event", "timestamp": "2025-01-01T00:00:02.75Z"}], 2.75, "OpenInference"),
    (
        {},
        [{"name": CHUNK, "timeUnixNano": "1735689602900000000"}, {"name": CHUNK, "timeUnixNano": "1735689602500000000"}],
        2.5,
        "OpenLLMetry has an event per part: the first counts",
    ),
    ({}, [{"name": "exception", "timestamp": "2025-01-01T00:00:02.75Z"}, {"name": CHUNK}], None, "no event with a time"),
    ({}, [], None, "an answer that was not streamed"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attributes", "events", "wanted"), [row[:3] for row in FIRST_TOKENS], ids=[row[3] for row in FIRST_TOKENS]
)
def test_traces_have_the_first_token_of_the_last_model_call(
    tmp_path: Path, attributes: dict[str, Any], events: list[dict[str, Any]], wanted: float | None
) -> None:
    answering = {**span(2, "large", 7, **attributes), "events": events}
    output = read_trace(tmp_path, [span(0, None, None), span(1, "small", 5), answering])
    assert output.timings.get("first_token") == wanted


def test_a_first_token_of_an_earlier_model_call_does_not_count(tmp_path: Path) -> None:
    early, late = ({"gen_ai.response.time_to_first_chunk": seconds} for seconds in (0.5, 0.25))
    output = read_trace(tmp_path, [span(0, None, None), span(1, "small", 5, **early), span(2, "large", 7, **late)])
    assert output.timings["first_token"] == 2.25


def test_a_first_token_before_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(span(2, "large", 7, **{"gen_ai.response.time_to_first_chunk": -1.5})))
    with pytest.raises(DataFileError, match=r":1: a span has its first token 1\.5 s before it starts"):
        list(get_format("traces").read("outputs", path, Problems()))


def test_a_wrong_number_of_tokens_is_an_error() -> None:
    with pytest.raises(BadValueError, match="prompt_tokens must be a number of tokens, not -3"):
        token_count({"prompt_tokens": -3}, "prompt_tokens")
