"""What is sent to an OpenAI-compatible endpoint, and what becomes of its faults."""

import asyncio
import contextlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from auepora_eval import JudgePolicy, JudgeSession, StructuredCritic
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from helpers.golden import check_golden
from helpers.judge_server import FAULTS, Asked, JudgeServer, Reply
from helpers.virtual_time import run_virtually

SCORE: dict[str, Any] = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["rationale", "score"],
    "additionalProperties": False,
}
VERDICTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"number": {"type": "integer"}, "verdict": {"type": "string", "enum": ["full", "none"]}},
                "required": ["number", "verdict"],
            },
        },
        "sure": {"type": "boolean"},
        "share": {"type": "number"},
    },
    "required": ["verdicts"],
}
REQUEST = JudgeRequest("Rate this answer. 東京", SCORE, system="You are strict.", weighted="score")
LISTED = JudgeRequest("Check these.", VERDICTS, prompt_id="support/1/abc", metric="m", sample_id="q1", repeat=3)
GOOD = '{"rationale": "fine", "score": 4}'
TOKENS = [
    {"token": '{"rationale": "fine", "score": ', "logprob": 0.0, "bytes": None, "top_logprobs": []},
    {
        "token": "4",
        "logprob": -0.6931471805599453,
        "bytes": [52],
        "top_logprobs": [
            {"token": "4", "logprob": -0.6931471805599453},
            {"token": " 5", "logprob": -1.3862943611198906},
            {"token": "3", "logprob": -1.6094379124341003},
            {"token": "x", "logprob": -3.0},
        ],
    },
    {"token": "}", "logprob": 0.0, "bytes": None, "top_logprobs": []},
]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


def as_record(outcome: Judgement | JudgeError, port: int) -> dict[str, Any]:
    """A judgement, or why there is none; the port differs each time."""
    if isinstance(outcome, Judgement):
        return {
            "answer": dict(outcome.answer),
            "usage": [outcome.usage.prompt_tokens, outcome.usage.completion_tokens],
            "raw": outcome.raw,
            "weighted": outcome.weighted,
            "mass": outcome.mass,
            "repaired": outcome.repaired,
        }
    return {
        "reason": outcome.reason,
        "message": outcome.message.replace(f":{port}", ":PORT"),
        "raw": outcome.raw,
        "retry": outcome.retry,
        "retry_after": outcome.retry_after,
        "lasting": outcome.lasting,
        "tokens": list(outcome.tokens),
        "calls": outcome.calls,
    }


def judged(server: JudgeServer, options: Mapping[str, Any], *requests: JudgeRequest, path: str = "") -> list[Any]:
    """What becomes of requests, one after the other."""
    from auepora_eval import OpenAICritic

    critic = OpenAICritic("small", base_url=server.base_url + path, **options)

    async def ask() -> list[Any]:
        found: list[Any] = []
        try:
            for request in requests:
                try:
                    found.append(as_record(await critic.judge(request), server.port))
                except JudgeError as error:
                    found.append(as_record(error, server.port))
        finally:
            await critic.aclose()
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        return asyncio.run(ask())


# --- requests --------------------------------------------------------------------------------------------------------

HEADERS = ("authorization", "content-type", "x-team", "api-key")


def as_sent(asked: Asked) -> dict[str, Any]:
    """A request as it arrived; of the headers those that we set."""
    headers = {name: asked.headers[name] for name in HEADERS if name in asked.headers}
    return {"path": asked.path, "headers": headers, "body": asked.body}


def refuses(*words: str) -> Any:
    """A server that refuses bodies with any of these fields, and says which."""

    def reply(asked: Asked) -> Reply | str:
        for word in words:
            if word in asked.body:
                body = {"error": {"message": f"{word} is not supported", "type": "invalid_request_error"}}
                return Reply(status=400, body=body)
        return GOOD

    return reply


def once(first: str, then: str = GOOD) -> Any:
    return lambda asked: first if len(asked.body["messages"]) == 2 else then


SENT: dict[str, tuple[Any, dict[str, Any], tuple[JudgeRequest, ...], str]] = {
    "default": (GOOD, {}, (REQUEST, LISTED), ""),
    "nothing optional": (GOOD, {"temperature": None, "seed": None, "max_tokens": None}, (REQUEST,), ""),
    "temperature and seed": (GOOD, {"temperature": 0.7, "seed": 5, "max_tokens": 64}, (LISTED,), ""),
    "json_schema": (GOOD, {"schema": "json_schema"}, (REQUEST,), ""),
    "json_object": (GOOD, {"schema": "json_object"}, (REQUEST, LISTED), ""),
    "no schema": (GOOD, {"schema": "none"}, (REQUEST,), ""),
    "logprobs": (Reply(GOOD, logprobs=TOKENS), {"logprobs": True}, (REQUEST, LISTED), ""),
    "logprobs of no use": (Reply(GOOD, logprobs=TOKENS[:1]), {"logprobs": True}, (REQUEST,), ""),
    "extra and headers": (
        GOOD,
        {"extra": {"top_k": 1, "chat_template_kwargs": {"thinking": False}}, "headers": {"X-Team": "golden-team"}},
        (REQUEST,),
        "",
    ),
    "address with a query": (GOOD, {}, (REQUEST,), "/chat/completions?api-version=2030-01-01"),
    "repair": (once('{"rationale": "fine", "score": 9}'), {}, (REQUEST,), ""),
    "repair of no use": (once("Four.", "Still four."), {}, (REQUEST,), ""),
    "repair not allowed": (once("Four."), {}, (replace(REQUEST, may_repair=False),), ""),
    "repair in json_object mode": (once("Four."), {"schema": "json_object"}, (REQUEST,), ""),
    "no response_format": (refuses("response_format"), {}, (REQUEST, LISTED), ""),
    "no response_format, not to be changed": (refuses("response_format"), {"schema": "json_schema"}, (REQUEST,), ""),
    "no max_tokens": (
        lambda asked: FAULTS["no_max_tokens"] if "max_tokens" in asked.body else GOOD,
        {},
        (REQUEST, LISTED),
        "",
    ),
    "no logprobs": (refuses("logprobs"), {"logprobs": True}, (REQUEST,), ""),
}


def test_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of requests by the options of the critic, and by what the server refuses."""
    monkeypatch.setenv("OPENAI_API_KEY", "golden-key-0123456789")
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    monkeypatch.setitem(FAULTS, "no_max_tokens", Reply(status=400, body={"error": {"message": message}}))
    found: dict[str, Any] = {}
    for name, (answer, options, requests, path) in SENT.items():
        with JudgeServer(answer) as server:
            outcomes = judged(server, options, *requests, path=path)
            for outcome in outcomes:
                outcome.pop("message", None)  # wording; what is sent back to the judge is in the requests
            # Most of a body is the same in all of them: a line each keeps the file small.
            found[name] = {"sent": [json.dumps(as_sent(one)) for one in server.asked], "outcomes": outcomes}
    check_golden("judge/openai_requests.json", found)


# --- faults ----------------------------------------------------------------------------------------------------------


def error(status: int, message: str, code: Any = None, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Reply(status=status, body=body, headers={name.replace("_", "-"): one for name, one in headers.items()})


MORE: dict[str, Reply] = {
    "402": error(402, "Pay first"),
    "403": error(403, "Forbidden"),
    "403 by a filter": error(403, "Flagged by moderation"),
    "408": error(408, "Request timeout"),
    "409": error(409, "Conflict"),
    "413": error(413, "Too large"),
    "422": error(422, "Unprocessable"),
    "429, retry after two seconds": error(429, "Slow down", Retry_After="2"),
    "429, retry after milliseconds": error(429, "Slow down", retry_after_ms="1500"),
    "429, retry after nonsense": error(429, "Slow down", Retry_After="soon"),
    "429, no quota": error(429, "You exceeded your current quota", "insufficient_quota"),
    "501": error(501, "Not implemented"),
    "502, HTML": Reply(status=502, body=b"<html>Bad gateway</html>"),
    "503, retry after": error(503, "Overloaded", Retry_After="3"),
    "529": error(529, "Overloaded"),
    "400, plain text": Reply(status=400, body=b"no such thing"),
    "400, unknown model": error(400, "Invalid model name 'small'"),
    "400, detail": Reply(status=400, body={"detail": "field required"}),
    "404, empty": Reply(status=404, body=b""),
    "200 with an error": Reply(body={"error": {"message": "Busy", "code": 503}}),
    "200 with an error without a code": Reply(body={"error": "broken"}),
    "200 with a list": Reply(body=b"[]"),
    "200 with no choices": Reply(body={"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}),
    "200 with no message": Reply(body={"choices": [{"finish_reason": "stop"}]}),
    "200 with content in parts": Reply(
        body={"choices": [{"message": {"content": [{"type": "text", "text": GOOD[:10]}, {"text": GOOD[10:]}]}}]}
    ),
    "200 without usage": Reply(body={"choices": [{"message": {"content": GOOD}, "finish_reason": "stop"}]}),
    "200 with odd usage": Reply(
        body={"choices": [{"message": {"content": GOOD}}], "usage": {"prompt_tokens": -3, "completion_tokens": "5"}}
    ),
    "length with a whole object": Reply(GOOD, finish="length"),
    "refusal in the text": Reply("I cannot judge this answer."),
}
QUICK = [name for name in FAULTS if name != "hang"]


def test_faults() -> None:
    """Each fault as the critic reports it, and as a session ends it after one retry.

    Messages are wording and have their own file.
    """
    from auepora_eval import OpenAICritic

    found: dict[str, Any] = {}
    wording: dict[str, str] = {}
    faults = {**{name: FAULTS[name] for name in QUICK}, **MORE}

    async def asked(server: JudgeServer, *, timeout: float = 20.0) -> Any:
        records: list[Any] = []
        policy = JudgePolicy(retries=1, backoff=0, timeout=timeout, concurrency=1)
        critic = OpenAICritic("small", base_url=server.base_url)
        async with JudgeSession(policy, on_record=records.append) as session:
            for request in (REQUEST, LISTED):
                with contextlib.suppress(JudgeError):
                    await session.ask(critic, request)
        return [[one.reason, one.attempts, one.calls, one.repaired] for one in records]

    def shown(name: str, outcome: dict[str, Any]) -> dict[str, Any]:
        if "message" in outcome:
            wording[name] = outcome.pop("message")
        return outcome

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        for name, fault in faults.items():
            with JudgeServer(fault) as server:
                (outcome,) = judged(server, {}, replace(REQUEST, may_repair=False))
            found[name] = {"critic": shown(name, outcome)}
            # Waits that the server asks for are kept, so that they would take time here.
            if not any(header.lower().startswith("retry-after") for header in fault.headers):
                with JudgeServer(fault) as server:
                    found[name]["session"] = asyncio.run(asked(server))
                    found[name]["requests"] = len(server.asked)
        with JudgeServer(FAULTS["hang"]) as server:
            (outcome,) = judged(server, {"timeout": 0.2}, REQUEST)
            found["hang, the critic's limit"] = {"critic": shown("hang, the critic's limit", outcome)}
        with JudgeServer(FAULTS["hang"]) as server:
            found["hang, the session's limit"] = {"session": asyncio.run(asked(server, timeout=0.2))}
        with JudgeServer(GOOD) as server:
            pass
        (outcome,) = judged(server, {}, REQUEST)  # nobody listens any more
        outcome["message"] = outcome["message"].split(" (")[0]  # then comes what the system says
        found["refused connection"] = {"critic": shown("refused connection", outcome)}
    check_golden("judge/openai_faults.json", found)
    check_golden("judge/openai_fault_wording.json", wording)


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints elsewhere need a key; nothing is sent."""
    from auepora_eval import OpenAICritic

    monkeypatch.setenv("BAD_KEY", "two words")
    found: dict[str, Any] = {}
    for name, options in {
        "no key": {},
        "another variable": {"api_key_env": "OTHER_KEY"},
        "no variable": {"api_key_env": None},
        "not a key": {"api_key_env": "BAD_KEY"},
        "key in a header": {"headers": {"api-key": "golden-key-0123456789"}},
        "this machine": {"base_url": "http://localhost:1/v1"},
        "private network": {"base_url": "http://192.168.0.7/v1"},
        "name without a dot": {"base_url": "http://judge/v1"},
        "public name": {"base_url": "http://judge.example/v1"},
    }.items():
        critic = OpenAICritic("small", **options)  # type: ignore[arg-type]
        try:
            critic.require_key()
            found[name] = [critic.name, "ready"]
        except JudgeError as problem:
            found[name] = [critic.name, problem.reason, problem.lasting]
    check_golden("judge/openai_keys.json", found)


# --- retries ---------------------------------------------------------------------------------------------------------


class Failing(StructuredCritic):
    """Raises the same error so many times per request, then answers; keeps the time of every call."""

    name = "failing"

    def __init__(self, problem: JudgeError | Exception, times: int, seconds: float = 0.0) -> None:
        self.problem, self.times, self.seconds = problem, times, seconds
        self.calls: list[tuple[float, str]] = []

    async def judge(self, request: JudgeRequest) -> Judgement:
        loop = asyncio.get_running_loop()
        self.calls.append((round(loop.time(), 6), request.sample_id))
        await asyncio.sleep(self.seconds)
        if sum(one == request.sample_id for _, one in self.calls) <= self.times:
            raise self.problem
        return Judgement({"rationale": "fine", "score": 4}, Usage(10, 2))


def busy(**options: Any) -> JudgeError:
    return JudgeError("rate_limited", "slow down", retry=True, **options)


def test_retries() -> None:
    """When calls are repeated, in virtual time: backoff, waits that a server asks for, and when a critic is given up."""
    server_error = JudgeError("server_error", "500", retry=True)
    cases: dict[str, tuple[Failing, JudgePolicy, int]] = {
        "backoff": (Failing(server_error, 4), JudgePolicy(concurrency=1), 1),
        "too many failures": (Failing(server_error, 9), JudgePolicy(concurrency=1, retries=2), 2),
        "rate limit": (Failing(busy(), 2), JudgePolicy(concurrency=4), 3),
        "rate limit with a wait": (Failing(busy(retry_after=7.0), 1), JudgePolicy(concurrency=2), 2),
        "a wait that is too long": (Failing(busy(retry_after=600.0), 1), JudgePolicy(concurrency=2), 1),
        "not repeated": (Failing(JudgeError("unparseable", "?"), 1), JudgePolicy(), 2),
        "lasting": (Failing(JudgeError("unauthorized", "no", lasting=True), 1), JudgePolicy(concurrency=1), 3),
        "lost connection": (Failing(ConnectionResetError("reset"), 1), JudgePolicy(backoff=2.0), 1),
        "time limit": (Failing(server_error, 0, seconds=9.0), JudgePolicy(timeout=3.0, retries=1), 1),
        "given up": (Failing(busy(retry_after=60.0), 99), JudgePolicy(concurrency=1, retries=1), 4),
    }
    found: dict[str, Any] = {}
    for name, (critic, policy, count) in cases.items():
        records: list[Any] = []

        async def scene(critic: Failing, policy: JudgePolicy, count: int, records: list[Any]) -> None:
            requests = [replace(REQUEST, prompt=f"{number}", sample_id=f"q{number}") for number in range(count)]
            async with JudgeSession(policy, on_record=records.append) as session:
                asking = (session.ask(critic, request) for request in requests)
                await asyncio.gather(*asking, return_exceptions=True)

        run_virtually(scene(critic, policy, count, records))
        ends = [[one.sample_id, one.reason, one.attempts, one.calls, round(one.seconds, 6)] for one in records]
        found[name] = {"calls": [list(one) for one in critic.calls], "ends": ends}
    check_golden("judge/retries.json", found)
