"""The OpenAI-compatible critic with a real server on 127.0.0.1, including its failures."""

import asyncio
import json
import logging
import math
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError, JudgeError
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from auepora_eval.judge.openai import OpenAICritic, build_messages, close_schema, response_format, status_error
from auepora_eval.judge.prompting import Prompt
from auepora_eval.judge.ratings import ClassScale, RatingPrompt
from auepora_eval.net.client import find_proxy, parse_address
from helpers.judge_server import FAULTS, Asked, JudgeServer, Reply

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
}
REQUEST = JudgeRequest("Rate this answer.", SCHEMA, system="You are strict.", weighted="score")
KEY = "sk-very-secret-key-0123456789"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


def judge(critic: OpenAICritic, *requests: JudgeRequest) -> list[Judgement | JudgeError]:
    """What becomes of the requests, one after the other, on a loop of their own."""

    async def ask() -> list[Judgement | JudgeError]:
        found: list[Judgement | JudgeError] = []
        try:
            for request in requests or (REQUEST,):
                try:
                    found.append(await critic.judge(request))
                except JudgeError as error:
                    found.append(error)
        finally:
            await critic.aclose()
        return found

    return asyncio.run(ask())


def answered(critic: OpenAICritic, request: JudgeRequest = REQUEST) -> Judgement:
    (found,) = judge(critic, request)
    assert isinstance(found, Judgement), found
    return found


def failed(critic: OpenAICritic, request: JudgeRequest = REQUEST) -> JudgeError:
    (found,) = judge(critic, request)
    assert isinstance(found, JudgeError), found
    return found


def test_request_and_reply() -> None:
    with JudgeServer('{"score": 4}') as server:
        found = answered(OpenAICritic("judge-7b", base_url=server.base_url))
        (asked,) = server.asked
    assert found == Judgement({"score": 4}, Usage(6, 2), raw='{"score": 4}')
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer none"
    assert asked.body == {
        "model": "judge-7b",
        "messages": [
            {"role": "system", "content": "You are strict."},
            {"role": "user", "content": "Rate this answer."},
        ],
        "temperature": 0.0,
        "seed": 0,
        "max_tokens": 2048,
        "response_format": response_format(SCHEMA, "json_schema"),
    }


def test_unset_options_are_not_sent_and_extra_fields_are() -> None:
    with JudgeServer() as server:
        critic = OpenAICritic(
            "m", base_url=server.base_url, temperature=None, seed=None, max_tokens=None, schema="none",
            extra={"top_p": 0.5}, headers={"X-Team": "blue"},
        )  # fmt: skip
        answered(critic, JudgeRequest("Rate it.", SCHEMA))
        (asked,) = server.asked
    assert set(asked.body) == {"model", "messages", "top_p"}
    assert asked.headers["x-team"] == "blue"
    (message,) = asked.body["messages"]
    assert message["content"].startswith("Rate it.\n\nAnswer with one JSON object. Its JSON schema is {")
    assert message["content"].endswith('it looks like this: {"score": <whole number from 1 to 5>}')
    assert json.dumps(SCHEMA) in message["content"]


def test_each_repeated_judgement_has_a_seed_of_its_own() -> None:
    requests = [JudgeRequest("Rate it.", SCHEMA, repeat=number) for number in range(3)]
    with JudgeServer() as server:
        critic = OpenAICritic("m", base_url=server.base_url, seed=7, temperature=1)
        judge(critic, *requests)
        assert [asked.body["seed"] for asked in server.asked] == [7, 8, 9]
    assert [critic.cache_key(one)["seed"] for one in requests] == [7, 8, 9]


# --- what goes wrong -------------------------------------------------------------------------------------------------

ONCE = [  # fault, reason, whether to ask again, whether it lasts, why
    ("429", "rate_limited", True, False, "too many requests"),
    ("500", "server_error", True, False, "an error of the server"),
    ("503", "server_error", True, False, "overloaded"),
    ("401", "unauthorized", False, True, "a wrong key"),
    ("404", "model_not_found", False, True, "a wrong model"),
    ("context", "context_too_long", False, False, "a prompt that is too long"),
    ("filter_400", "content_filter", False, False, "a prompt that is filtered"),
    ("filter", "content_filter", False, False, "an answer that is filtered"),
    ("length", "cut_off", False, False, "an answer that is too long"),
    ("empty", "empty_answer", False, False, "an empty answer"),
    ("refusal", "refused", False, False, "a judge that declines"),
    ("not_json", "server_error", True, False, "a page instead of JSON"),
    ("truncated", "server_error", True, False, "half of a JSON"),
    ("cut", "server_error", True, False, "a connection that ends in the middle"),
    ("close", "server_error", True, False, "a connection that ends at once"),
]


@pytest.mark.parametrize(("fault", "reason", "retry", "lasting"), [pytest.param(*row[:4], id=row[4]) for row in ONCE])
def test_every_error_has_its_reason_without_retries(fault: str, reason: str, retry: bool, lasting: bool) -> None:
    with JudgeServer(at={0: fault}) as server:
        critic = OpenAICritic("m", base_url=server.base_url)
        first, second = judge(critic, REQUEST, REQUEST)
        assert isinstance(first, JudgeError)
        assert (first.reason, first.retry, first.lasting) == (reason, retry, lasting)
        assert isinstance(second, Judgement)  # the critic itself is as good as before
        assert len(server.asked) == 2
        assert server.faults == {fault: 1}


def test_a_silent_server_times_out() -> None:
    with JudgeServer(at={0: "hang"}) as server:
        error = failed(OpenAICritic("m", base_url=server.base_url, timeout=2))
    assert (error.reason, error.retry) == ("timeout", True)


def test_an_unreachable_server() -> None:
    with JudgeServer() as server:
        gone = server.base_url
    error = failed(OpenAICritic("m", base_url=gone))
    assert (error.reason, error.retry, error.lasting) == ("unreachable", True, False)
    assert "is it running?" in error.message


def test_retry_after_is_passed_on() -> None:
    waits = [({"Retry-After": "7"}, 7.0), ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25), ({}, None)]
    for headers, want in waits:
        busy = Reply(status=429, body={"error": {"message": "busy"}}, headers=headers)
        with JudgeServer(busy) as server:
            assert failed(OpenAICritic("m", base_url=server.base_url)).retry_after == want


STATUSES = [  # status, body, reason, lasting, why
    (400, {"error": {"message": "max context size exceeded", "type": "exceed_context_size_error"}}, "context_too_long", False, "llama.cpp, too long"),
    (400, {"error": "prompt is too long: 9000 tokens"}, "context_too_long", False, "a bare message"),
    (413, "", "context_too_long", False, "too large for the door"),
    (403, {"error": {"message": "Country not supported"}}, "unauthorized", True, "not from here"),
    (403, {"error": {"message": "Your input was flagged"}}, "content_filter", False, "moderated"),
    (400, {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "content_filter", False, "a code within"),
    (402, {"error": {"message": "Payment required"}}, "rate_limited", True, "nothing left to spend"),
    (429, {"error": {"message": "x", "code": "insufficient_quota"}}, "rate_limited", True, "no quota: waiting does not help"),
    (400, {"error": {"message": "Invalid model name passed in model=m"}}, "model_not_found", True, "a proxy's word for it"),
    (404, '{"detail":"Not Found"}', "model_not_found", True, "a wrong path"),
    (400, {"error": {"message": "temperature is not supported"}}, "bad_request", False, "something else"),
    (422, {"detail": [{"msg": "bad", "input": "context length content_filter"}]}, "bad_request", False, "words of the prompt that are quoted"),
    (501, "", "bad_request", False, "not there at all"),
    (408, "", "server_error", False, "too slow for it"),
    (599, "<html>" + "x" * 5000, "server_error", False, "a status without a name"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "body", "reason", "lasting"), [pytest.param(*row[:4], id=row[4]) for row in STATUSES]
)
def test_error_statuses_of_services(status: int, body: Any, reason: str, lasting: bool) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    error = status_error(status, text, url="http://x/v1", variable="K")
    assert (error.reason, error.lasting) == (reason, lasting)
    assert len(error.message) < 500


ODD = [  # body, reason, why
    ({"choices": []}, "server_error", "no choices"),
    ({"choices": [{}]}, "server_error", "no message"),
    ({"choices": [{"message": {"content": None}}]}, "empty_answer", "no content"),
    ({"choices": [{"message": {"content": ["x"]}}], "usage": "much"}, "empty_answer", "parts that are none"),
    ({"choices": None}, "server_error", "choices that are none"),
    ([], "server_error", "a list"),
    ({"error": {"message": "slow down", "code": 429}}, "rate_limited", "an error with a good status"),
    ({"error": "oops"}, "server_error", "an error with a good status and no code"),
]


@pytest.mark.parametrize(("body", "reason"), [pytest.param(*row[:2], id=row[2]) for row in ODD])
def test_malformed_replies(body: Any, reason: str) -> None:
    with JudgeServer(Reply(body=json.dumps(body).encode())) as server:
        assert failed(OpenAICritic("m", base_url=server.base_url)).reason == reason


def test_message_parts_and_lone_surrogates() -> None:
    text = [{"type": "text", "text": '{"score": 4'}, {"type": "text", "text": "}\ud800"}]
    body = {"choices": [{"message": {"content": text}}]}
    with JudgeServer(Reply(body=body)) as server:
        found = answered(OpenAICritic("m", base_url=server.base_url))
    assert found.answer == {"score": 4}
    assert found.raw == '{"score": 4}\ufffd'


# --- the second try --------------------------------------------------------------------------------------------------


def test_an_unparseable_reply_is_repaired_once() -> None:
    for fault, why in (("prose", "there is no object"), ("far_off", "'score' is 1889, above 5")):
        with JudgeServer('{"score": 2}', at={0: fault}) as server:
            found = answered(OpenAICritic("m", base_url=server.base_url))
            first, second = server.asked
        content = FAULTS[fault].content
        assert found.answer == {"score": 2}
        assert found.repaired
        *before, quoted, instruction = second.body["messages"]
        assert before == first.body["messages"]
        assert quoted == {"role": "assistant", "content": content}
        assert why in instruction["content"]
        assert json.dumps(SCHEMA) in instruction["content"]
        words = [sum(len(one["content"].split()) for one in asked.body["messages"]) for asked in (first, second)]
        assert found.usage == Usage(sum(words), len(str(content).split()) + 2)


def test_two_unparseable_replies_fail_with_both_texts() -> None:
    with JudgeServer(at={0: "prose", 1: "far_off"}) as server:
        error = failed(OpenAICritic("m", base_url=server.base_url))
        assert len(server.asked) == 2
    assert (error.reason, error.retry) == ("out_of_range", False)
    assert error.raw is not None
    assert error.raw.startswith("What a fine answer, truly.")
    assert error.raw.endswith('{"score": 1889}')
    assert error.tokens[1] == 7
    with JudgeServer("x" * 90_000) as server:
        error = failed(OpenAICritic("m", base_url=server.base_url))
    assert len(error.raw or "") < 10_000


def test_no_repair_with_the_last_call_of_a_budget() -> None:
    with JudgeServer(at={0: "prose"}) as server:
        error = failed(OpenAICritic("m", base_url=server.base_url), replace(REQUEST, may_repair=False))
        assert len(server.asked) == 1
    assert (error.reason, error.calls, error.raw) == ("unparseable", 1, FAULTS["prose"].content)


def test_other_failures_are_counted_but_not_repaired() -> None:
    with JudgeServer("I cannot judge this.") as server:
        error = failed(OpenAICritic("m", base_url=server.base_url))
        assert len(server.asked) == 1
    assert (error.reason, error.tokens) == ("refused", (6, 4))
    with JudgeServer(at={0: "prose", 1: "429"}) as server:
        error = failed(OpenAICritic("m", base_url=server.base_url))
    assert (error.reason, error.retry, error.tokens) == ("rate_limited", True, (6, 5))


# --- what servers refuse to be asked for -----------------------------------------------------------------------------


def refusing(*refused: str, words: str = "{} is not supported") -> Any:
    """A server that knows none of these fields."""

    def answer(asked: Asked) -> str | Reply:
        form = (asked.body.get("response_format") or {}).get("type")
        for one in refused:
            if one in asked.body or one == form:
                return Reply(status=400, body={"error": {"message": words.format(one)}})
        return '{"score": 4}'

    return answer


STEPS = [  # refused, words, forms asked for at first, form asked for then
    (("json_schema",), "{} is not supported", ["json_schema", "json_object"], "json_object"),
    (("json_schema", "json_object"), "{} is not supported", ["json_schema", "json_object", None], None),
    (("json_schema",), "no", ["json_schema", "json_object"], "json_object"),
    (("json_schema", "json_object"), "Bad Request", ["json_schema", "json_object", None], None),
]


@pytest.mark.parametrize(("refused", "words", "first", "then"), STEPS)
def test_fallback_happens_once_with_one_warning(
    refused: tuple[str, ...], words: str, first: list[Any], then: Any
) -> None:
    with JudgeServer(refusing(*refused, words=words)) as server:
        critic = OpenAICritic("m", base_url=server.base_url)
        with pytest.warns(AueporaWarning, match="takes no response_format by schema") as caught:
            found = judge(critic, REQUEST, REQUEST)
        forms = [(asked.body.get("response_format") or {}).get("type") for asked in server.asked]
    assert [one.answer for one in found if isinstance(one, Judgement)] == [{"score": 4}] * 2
    assert forms == [*first, then]
    assert len(caught) == 1


def test_an_explicit_schema_mode_has_no_fallback() -> None:
    with JudgeServer(refusing("json_schema")) as server:
        error = failed(OpenAICritic("m", base_url=server.base_url, schema="json_schema"))
        assert len(server.asked) == 1
    assert error.reason == "bad_request"


def test_a_request_rejected_in_every_mode_changes_nothing() -> None:
    bad = {0: "x", 1: "y", 2: "z"}
    at = {number: Reply(status=400, body={"error": {"message": message}}) for number, message in bad.items()}
    with JudgeServer(at=at) as server:
        first, second = judge(OpenAICritic("m", base_url=server.base_url), REQUEST, REQUEST)
        assert server.asked[-1].schema is not None
    assert isinstance(first, JudgeError)
    assert "HTTP 400 Bad Request: x" in str(first)  # what the server said to the whole question
    assert isinstance(second, Judgement)


def test_max_completion_tokens_fallback() -> None:
    words = "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead."
    with JudgeServer(refusing("max_tokens", words=words)) as server:
        judge(OpenAICritic("m", base_url=server.base_url, max_tokens=9), REQUEST, REQUEST)
        assert ["max_tokens" in asked.body for asked in server.asked] == [True, False, False]
        assert server.asked[-1].body["max_completion_tokens"] == 9


# --- probabilities ---------------------------------------------------------------------------------------------------


def with_logprobs(**chances: float) -> Reply:
    pieces = ['{"score": ', "4", "}"]
    others = [{"token": token.strip("_"), "logprob": math.log(chance)} for token, chance in chances.items()]
    listed = [{"token": one, "logprob": 0.0, "top_logprobs": others if one == "4" else []} for one in pieces]
    return Reply('{"score": 4}', logprobs=listed)


def test_scores_weighted_by_probability() -> None:
    with JudgeServer(with_logprobs(_4=0.5, _5=0.25, _1=0.25)) as server:
        found = answered(OpenAICritic("m", base_url=server.base_url, logprobs=True))
        plain = answered(OpenAICritic("m", base_url=server.base_url))
        assert (server.asked[0].body["logprobs"], server.asked[0].body["top_logprobs"]) == (True, 20)
        assert "logprobs" not in server.asked[1].body
    assert found.answer == {"score": 4}
    assert found.weighted == pytest.approx(3.5)
    assert found.mass == 1.0
    assert plain.weighted is None


def test_classes_weighted_by_probability() -> None:
    pieces = ['{"score": "', "fair", '"}']
    others = [{"token": token, "logprob": math.log(chance)} for token, chance in {"fair": 0.6, "good": 0.4}.items()]
    listed = [{"token": one, "logprob": 0.0, "top_logprobs": others if one == "fair" else []} for one in pieces]
    scale = ClassScale.parse({"poor": 0, "fair": 0.5, "good": 1})
    question = RatingPrompt(
        Prompt("p", 1, "", "{{answer}} {{scale}} {{form}}"), {"answer": "x"}, scale, rationale=False
    )
    with JudgeServer(Reply('{"score": "fair"}', logprobs=listed)) as server:
        critic = OpenAICritic("m", base_url=server.base_url, logprobs=True)
        ((_, request),) = question.requests(critic, 0)
        (found,) = judge(critic, request)
        assert server.asked[0].schema["properties"]["score"] == {"type": "string", "enum": ["poor", "fair", "good"]}
    assert isinstance(found, Judgement)
    assert found.weighted == pytest.approx(0.6 * 0.5 + 0.4)
    assert found.mass == pytest.approx(1.0)


def test_missing_probabilities_fall_back_to_the_plain_score() -> None:
    with JudgeServer(with_logprobs(_4=0.5, _x=0.5)) as server:
        found = answered(OpenAICritic("m", base_url=server.base_url, logprobs=True))
    assert (found.scores, found.weighted) == ({"score": 4.0}, None)
    assert found.mass == pytest.approx(0.5)
    with JudgeServer() as server:
        found = answered(OpenAICritic("m", base_url=server.base_url, logprobs=True))
    assert (found.scores, found.weighted, found.mass) == ({"score": 4.0}, None, None)


def test_logprobs_fallback() -> None:
    with JudgeServer(refusing("logprobs")) as server:
        critic = OpenAICritic("m", base_url=server.base_url, logprobs=True)
        with pytest.warns(AueporaWarning, match="tells no probabilities"):
            judge(critic, REQUEST, REQUEST)
        assert ["logprobs" in asked.body for asked in server.asked] == [True, False, False]
        assert all(asked.schema for asked in server.asked)  # nothing else is given up


# --- keys ------------------------------------------------------------------------------------------------------------


def test_the_key_comes_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", f" {KEY}\n")
    with JudgeServer() as server:
        answered(OpenAICritic("m", base_url=server.base_url, api_key_env="JUDGE_KEY"))
        assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_no_call_to_a_hosted_service_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for base_url, variable in ((None, "JUDGE_KEY"), ("https://judge.example.com/v1", "JUDGE_KEY")):
        error = failed(OpenAICritic("m", base_url=base_url, api_key_env=variable))
        assert (error.reason, error.lasting, error.retry) == ("no_key", True, False)
        assert "JUDGE_KEY" in error.message
    assert failed(OpenAICritic("m", api_key_env=None)).reason == "no_key"
    monkeypatch.setenv("JUDGE_KEY", "naïve key")
    assert failed(OpenAICritic("m", api_key_env="JUDGE_KEY")).reason == "no_key"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "10.1.2.3", "192.168.0.9", "[::1]", "vllm", "gpu.local"])
def test_a_private_server_needs_no_key(host: str) -> None:
    assert OpenAICritic("m", base_url=f"http://{host}:8000/v1")._key() == "none"


def test_no_key_is_ever_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    echoed = f"bad key {KEY} and token-of-mine-123 for user:pass-word@"
    replies = [Reply(status=status, body={"error": {"message": echoed}}) for status in (400, 401, 429, 500)]
    for reply in [*replies, Reply(echoed), Reply(body=echoed.encode())]:
        with JudgeServer(reply) as server:
            critic = OpenAICritic(
                "m",
                base_url=server.base_url.replace("://", "://user:pass-word@"),
                headers={"X-Gate": "token-of-mine-123"},
                schema="none",
            )
            error = failed(critic)
            assert server.asked[0].headers["x-gate"] == "token-of-mine-123"
        shown = [
            str(error),
            repr(error),
            error.message,
            error.raw,
            repr(critic),
            critic.name,
            critic.cache_key(REQUEST),
        ]
        for secret in (KEY, "token-of-mine-123", "pass-word"):
            assert secret not in str(shown)
            assert secret not in caplog.text
        assert (error.__cause__, error.__context__) == (None, None)


# --- a critic as a value ---------------------------------------------------------------------------------------------

NAMES: list[tuple[dict[str, Any], str]] = [
    ({}, "openai:m"),
    ({"temperature": 0.7}, "openai:m,temperature=0.7"),
    ({"temperature": 1}, "openai:m,temperature=1.0"),
    ({"temperature": None}, "openai:m,temperature=default"),
    ({"schema": "none"}, "openai:m,schema=none"),
    ({"logprobs": True}, "openai:m,weighted"),
    ({"seed": 5, "max_tokens": 9, "timeout": 1, "headers": {"A": "b"}}, "openai:m"),
]


@pytest.mark.parametrize(("options", "want"), NAMES)
def test_names_show_options_that_change_scores(options: dict[str, Any], want: str) -> None:
    assert OpenAICritic("m", **options).name == want


def test_extra_fields_are_part_of_the_name_and_no_name_breaks_a_signature() -> None:
    one, two = (OpenAICritic("a|b", extra={"top_p": share}).name for share in (0.1, 0.2))
    assert one != two
    assert one.startswith("openai:a/b,extra=")


def test_cache_keys_differ_with_the_body() -> None:
    plain = OpenAICritic("m")
    others = [
        OpenAICritic("n"),
        OpenAICritic("m", base_url="http://localhost:1/v1"),
        OpenAICritic("m", temperature=1),
        OpenAICritic("m", seed=1),
        OpenAICritic("m", max_tokens=1),
        OpenAICritic("m", schema="none"),
        OpenAICritic("m", logprobs=True),
        OpenAICritic("m", extra={"top_p": 0.1}),
    ]
    keys = [json.dumps(one.cache_key(REQUEST), sort_keys=True) for one in [plain, *others]]
    assert len(set(keys)) == len(keys)
    same = OpenAICritic("m", base_url="https://api.openai.com/v1/", headers={"A": "b"}, timeout=3)
    assert same.cache_key(REQUEST) == plain.cache_key(REQUEST)
    weighted, without = others[-2], JudgeRequest("Rate it.", SCHEMA)
    assert weighted.cache_key(without) == plain.cache_key(without)  # nothing to weigh: the same is sent


def test_a_critic_pickles_without_its_connections() -> None:
    async def twice(critic: OpenAICritic) -> OpenAICritic:
        await critic.judge(REQUEST)
        copy: OpenAICritic = pickle.loads(pickle.dumps(critic))
        await critic.aclose()
        return copy

    with JudgeServer() as server:
        copy = asyncio.run(twice(OpenAICritic("m", base_url=server.base_url, temperature=0.5)))
        assert answered(copy).answer == {"score": 4}
        assert server.asked[0].body == server.asked[1].body


def test_a_critic_works_on_several_loops() -> None:
    with JudgeServer(latency=0.05) as server:
        critic = OpenAICritic("m", base_url=server.base_url)
        for _ in range(2):
            answered(critic)

        async def many() -> list[Judgement]:
            try:
                return list(await asyncio.gather(*(critic.judge(REQUEST) for _ in range(64))))
            finally:
                await critic.aclose()

        assert len(asyncio.run(many())) == 64
        assert server.most_at_once > 1


def test_a_cancelled_judgement_leaves_no_connection() -> None:
    async def give_up(critic: OpenAICritic) -> Judgement:
        task = asyncio.create_task(critic.judge(REQUEST))
        while not server.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        try:
            return await critic.judge(REQUEST)
        finally:
            await critic.aclose()

    with JudgeServer(at={0: "hang"}) as server:
        assert asyncio.run(give_up(OpenAICritic("m", base_url=server.base_url))).answer == {"score": 4}


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def place(base_url: str | None = None) -> Any:
        return OpenAICritic("m", base_url=base_url).cache_key(REQUEST)["base_url"]

    assert place() == "https://api.openai.com/v1"
    assert place("http://localhost:8000/v1/chat/completions") == "http://localhost:8000/v1"
    assert place("http://me:secret@localhost:8000/v1/") == "http://localhost:8000/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    assert place() == "http://localhost:1/v1"


def test_a_query_string_in_the_base_url_is_sent() -> None:
    with JudgeServer() as server:
        answered(OpenAICritic("m", base_url=f"{server.base_url}?version=7"))
        assert server.asked[0].path == "/v1/chat/completions?version=7"


def test_private_hosts_bypass_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with JudgeServer() as nobody:
        dead = nobody.base_url
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, dead)
    with JudgeServer() as server:
        assert answered(OpenAICritic("m", base_url=server.base_url)).answer == {"score": 4}
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert failed(OpenAICritic("m", base_url="https://judge.invalid/v1")).reason == "unreachable"  # by the proxy
    address = parse_address("https://judge.invalid/v1")
    assert find_proxy(address) == dead
    monkeypatch.setenv("no_proxy", "judge.invalid")
    assert find_proxy(address) is None


def test_connections_are_reused() -> None:
    with JudgeServer(latency=0.02) as server:
        critic = OpenAICritic("m", base_url=server.base_url)

        async def waves() -> None:
            for _ in range(3):
                await asyncio.gather(*(critic.judge(REQUEST) for _ in range(8)))
            await critic.aclose()

        asyncio.run(waves())
        assert len(server.asked) == 24
        assert server.connections == 8


BAD: list[tuple[dict[str, Any], str]] = [
    ({"base_url": "localhost:8000"}, "must begin with http"),
    ({"base_url": 7}, "url must be a string"),
    ({"headers": {"A": "b\nc"}}, "line break"),
    ({"extra": {"model": "x"}}, "'model' is an option of its own"),
    ({"extra": {"x": math.inf}}, "extra is not JSON"),
    ({"extra": ["x"]}, "extra must map"),
]


@pytest.mark.parametrize(("options", "words"), BAD, ids=[str(row[0]) for row in BAD])
def test_invalid_options_raise_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises((BadValueError, BadTypeError), match=words):
        OpenAICritic(**{"model": "m", **options})


def test_the_package_is_imported_with_the_first_request() -> None:
    code = (
        "import sys; from auepora_eval.judge.openai import OpenAICritic; OpenAICritic('m'); "
        "sys.exit('aiohttp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_schema_example() -> None:
    inner = {"type": "object", "properties": {"verdict": {"enum": ["yes", "no"]}, "sure": {"type": "boolean"}}}
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": inner},
            "why": {"type": "string"},
            "share": {"type": "number"},
            "more": {},
        },
    }
    text = build_messages(JudgeRequest("?", schema), "none")[-1]["content"]
    wanted = '{"list": [{"verdict": <"yes" or "no">, "sure": <true or false>}, ...], "why": "<text>", '
    assert text.endswith(wanted + '"share": <number>, "more": <anything>}')


def test_schemas_are_closed_and_strict_where_nothing_is_optional() -> None:
    assert response_format(SCHEMA, "none") is None
    assert response_format(SCHEMA, "json_object") == {"type": "json_object"}
    inner = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    optional = {"type": "object", "properties": {"list": inner}, "required": ["list"]}
    for schema, strict in ((SCHEMA, True), (optional, False), ({"type": "object"}, False)):
        form = response_format(schema, "json_schema")
        assert form is not None
        assert form["json_schema"]["strict"] is strict
    assert close_schema(optional)["properties"]["list"]["items"]["additionalProperties"] is False
    assert "additionalProperties" not in optional
    assert close_schema({"properties": {}, "additionalProperties": True})["additionalProperties"] is True


@pytest.fixture(autouse=True)
def _no_warning_is_lost() -> Iterator[None]:
    """Warnings from other threads and from what is collected are errors as well."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
