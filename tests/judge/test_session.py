"""The judge session: shared calls, retries, timeouts, permanent failures, records, usage, shutdown."""

import asyncio
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, Score, SystemOutputs, TargetCategory, evaluate
from auepora_eval.errors import AueporaWarning, BadValueError, JudgeError
from auepora_eval.judge.critic import (
    JudgeClient,
    Judgement,
    JudgePolicy,
    JudgeRequest,
    LLMCritic,
    Price,
    StructuredCritic,
    Usage,
)
from auepora_eval.judge.limits import JudgementRecord
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.judge.session import JudgeSession
from auepora_eval.runtime.secrets import Secrets
from helpers.processes import Process
from helpers.scripted_critic import SCHEMA, Scripted, request
from helpers.virtual_time import run_virtually

BUSY = JudgeError("rate_limited", "slow down", retry=True)
BROKEN = JudgeError("server_error", "500", retry=True)


async def asked(session: JudgeSession, critic: Any, requests: list[JudgeRequest]) -> list[Judgement | BaseException]:
    return await asyncio.gather(*(session.ask(critic, one) for one in requests), return_exceptions=True)


def judged(
    policy: JudgePolicy, critic: Any, requests: list[JudgeRequest], **options: Any
) -> tuple[list[Any], JudgeSession]:
    async def scene() -> tuple[list[Any], JudgeSession]:
        async with JudgeSession(policy, **options) as session:
            return await asked(session, critic, requests), session

    return run_virtually(scene())


def reasons(answers: list[Any]) -> list[str | None]:
    return [one.reason if isinstance(one, JudgeError) else None for one in answers]


# --- repetitions -----------------------------------------------------------------------------------------------------

REPEATED: list[tuple[Callable[[], BaseException], int, str | None, int, str]] = [
    (lambda: BUSY, 2, None, 3, "rate limited twice"),
    (lambda: BROKEN, 5, None, 6, "broken as often as repetitions are allowed"),
    (lambda: BROKEN, 6, "server_error", 6, "broken once too often"),
    (lambda: JudgeError("unparseable", "?", raw="hm"), 1, "unparseable", 1, "an answer that will not get better"),
    (lambda: ConnectionResetError("reset"), 3, None, 4, "a connection lost, raised as it is"),
    (lambda: ValueError("mistake"), 1, "critic_raised", 1, "a mistake in the critic"),
    (lambda: SystemExit(3), 1, "critic_raised", 1, "a critic that would end the process"),
    (asyncio.CancelledError, 1, "critic_raised", 1, "a critic that says it was cancelled"),
]


@pytest.mark.parametrize(("error", "times", "reason", "calls", "why"), REPEATED, ids=[row[-1] for row in REPEATED])
def test_transient_failures_are_retried(
    error: Callable[[], BaseException], times: int, reason: str | None, calls: int, why: str
) -> None:
    critic = Scripted(lambda _, number: error() if number <= times else 0.5)
    answers, session = judged(JudgePolicy(retries=5), critic, [request()])
    assert reasons(answers) == [reason]
    assert len(critic.asked) == calls == session.usage_log.total.calls
    assert session.usage_log.total.retried == calls - 1


def test_retry_after_pauses_all_requests() -> None:
    begun: list[float] = []

    def script(one: JudgeRequest, number: int) -> Any:
        begun.append(asyncio.get_running_loop().time())
        return JudgeError("rate_limited", "", retry=True, retry_after=30) if one.prompt == "0" and number == 1 else 0.5

    critic = Scripted(script, seconds=1)
    answers, _ = judged(JudgePolicy(concurrency=4), critic, [request(str(n)) for n in range(20)])
    assert reasons(answers) == [None] * 20
    # The first four answers come after a second, among them the refusal; nobody else begins before its time is up.
    assert [one for one in begun if one < 32] == [1, 1, 1, 1]
    assert len(begun) == 21


def test_backoff_grows_while_a_server_is_down_and_restarts_after_a_success() -> None:
    times: list[float] = []

    def script(one: JudgeRequest, number: int) -> Any:
        times.append(asyncio.get_running_loop().time())
        return BROKEN

    judged(JudgePolicy(backoff=8), Scripted(script), [request()])
    waits = [after - before for before, after in pairwise(times)]
    assert len(waits) == 5
    assert all(wait <= 8 * 2**number for number, wait in enumerate(waits))
    assert max(waits) > 8

    times.clear()
    longest = 0.0

    def shaky(one: JudgeRequest, number: int) -> Any:
        nonlocal longest
        now = asyncio.get_running_loop().time()
        if one.prompt == "bad":
            longest = max(longest, now - times[-1]) if times else 0.0
            times.append(now)
            return BROKEN
        return 0.5

    # While others are answered all the time, no repetition waits longer than the first.
    judged(
        JudgePolicy(backoff=8, concurrency=2),
        Scripted(shaky, 0.1),
        [request("bad"), *map(request, map(str, range(900)))],
    )
    assert len(times) == 6
    assert longest <= 8 + 1


def test_concurrency_falls_after_rejections() -> None:
    critic = Scripted(seconds=0.2)

    def script(one: JudgeRequest, number: int) -> Any:
        return BUSY if critic.inside >= 4 else 0.5

    critic.script = script
    answers, session = judged(JudgePolicy(concurrency=32), critic, [request(str(n)) for n in range(400)])
    assert reasons(answers) == [None] * 400
    assert session.usage_log.total.retried < 150


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancelled", "ignores that it was cancelled"])
def test_a_call_that_takes_too_long_times_out(stubborn: bool) -> None:
    class Slow(StructuredCritic):
        async def judge(self, request: JudgeRequest) -> Judgement:
            while True:
                try:
                    await asyncio.sleep(1000)
                    return Judgement({"score": 1})
                except asyncio.CancelledError:
                    if not stubborn:
                        raise

    answers, session = judged(JudgePolicy(timeout=5, retries=1), Slow(), [request()])
    assert reasons(answers) == ["timeout"]
    assert session.usage_log.to_dict()["total"]["failed"] == {"timeout": 1}
    assert session.usage_log.total.calls == 2


def test_a_permanent_failure_stops_all_calls() -> None:
    critic = Scripted(lambda *_: JudgeError("unauthorized", "wrong key", lasting=True), seconds=1)

    async def scene() -> None:
        async with JudgeSession(JudgePolicy(concurrency=4)) as session:
            assert (
                reasons(await asked(session, critic, [request(str(n)) for n in range(100)])) == ["unauthorized"] * 100
            )
            assert asyncio.get_running_loop().time() == 1
        async with session:
            assert reasons(await asked(session, critic, [request("later")])) == ["unauthorized"]
            assert reasons(await asked(session, Scripted(), [request("later")])) == [None]
        assert len(critic.asked) == 4

    run_virtually(scene())


def test_a_permanent_failure_reaches_requests_waiting_for_a_retry() -> None:
    def script(one: JudgeRequest, number: int) -> Any:
        if one.prompt == "first":
            return JudgeError("server_error", "", retry=True, retry_after=100)
        return JudgeError("unauthorized", "wrong key", lasting=True)

    async def scene() -> None:
        critic = Scripted(script, seconds=1)
        async with JudgeSession(JudgePolicy(concurrency=4)) as session:
            answers = await asked(session, critic, [request("first"), request("second")])
        assert reasons(answers) == ["unauthorized", "unauthorized"]
        assert asyncio.get_running_loop().time() < 2

    run_virtually(scene())


SILENT: list[tuple[Any, float, dict[str, Any], tuple[float, float], str]] = [  # what it does, for how long, ..., ends
    (JudgeError("unreachable", "nobody", retry=True), 0.0, {}, (120, 190), "nobody takes connections"),
    (0.5, 1000.0, {"timeout": 0.5, "retries": 1}, (120, 190), "hangs, and one is not patient"),
    (0.5, 1000.0, {"timeout": 30}, (6 * 30, 6 * 30 + 120), "hangs, and one is patient"),
    (BUSY, 0.1, {}, (120, 190), "refuses all and does not say for how long"),
    (JudgeError("rate_limited", "?", retry=True, retry_after=60), 0.0, {}, (6 * 60, 6 * 60 + 120), "asks to wait"),
    (BROKEN, 20.0, {"retries": 20, "backoff": 0.1}, (21 * 20, 21 * 80), "is broken, and one is very patient"),
]


@pytest.mark.parametrize(("reply", "seconds", "policy", "ends", "why"), SILENT, ids=[row[-1] for row in SILENT])
def test_circuit_breaker_opens_for_a_judge_that_never_replies(
    reply: Any, seconds: float, policy: dict[str, Any], ends: tuple[float, float], why: str
) -> None:
    async def scene() -> tuple[list[Any], float]:
        async with JudgeSession(JudgePolicy(**policy)) as session:
            answers: list[Any] = []
            for batch in range(40):
                questions = [request(f"{batch} {n}") for n in range(50)]
                answers += await asked(session, critic, questions)
            return answers, asyncio.get_running_loop().time()

    critic = Scripted(lambda *_: reply, seconds)
    answers, ended = run_virtually(scene())
    assert None not in reasons(answers)
    assert ends[0] <= ended <= ends[1]
    assert "no further call is made" in str(answers[-1])


def test_circuit_breaker_stays_closed_with_occasional_replies() -> None:
    """Each question fails for minutes, but there is always one that is answered."""

    def script(one: JudgeRequest, number: int) -> Any:
        return 0.5 if one.prompt.endswith("0") else BROKEN

    critic = Scripted(script, seconds=10)
    answers, _ = judged(JudgePolicy(concurrency=4, retries=1), critic, [request(str(n)) for n in range(200)])
    assert [one is None for one in reasons(answers)] == [n % 10 == 0 for n in range(200)]
    assert "no further call is made" not in "".join(map(str, answers))


# --- one call for equal questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_identical_requests_share_one_call(kept: bool) -> None:
    critic = Scripted(seconds=1, kept=kept)
    requests = [request("same", metric=f"m{n}", sample_id=str(n)) for n in range(5)] + [request("other")]
    requests += [request("same", repeat=1), request("same", system="x"), request("same", prompt_id="p/2")]
    records: list[JudgementRecord] = []
    _, session = judged(JudgePolicy(), critic, requests, on_record=records.append)
    assert len(critic.asked) == 5
    assert [one.shared for one in records].count(True) == 4
    assert session.usage_log.total.calls == 5
    assert session.usage_log.total.prompt_tokens == 500
    assert {one.metric for one in records} == {"m0", "m1", "m2", "m3", "m4", ""}


def test_a_shared_call_is_cancelled_only_with_its_last_caller() -> None:
    async def scene() -> None:
        critic = Scripted(seconds=10)
        async with JudgeSession() as session:
            first, second = (asyncio.ensure_future(session.ask(critic, request())) for _ in range(2))
            await asyncio.sleep(1)
            first.cancel()
            assert (await second).scores == {"score": 0.5}
            assert len(critic.asked) == 1
            alone = asyncio.ensure_future(session.ask(critic, request("alone")))
            await asyncio.sleep(1)
            assert critic.inside == 1
            alone.cancel()
            await asyncio.sleep(0.1)
            assert critic.inside == 0
            # Its place is free again.
            assert (await session.ask(critic, request("alone"))).scores == {"score": 0.5}

    run_virtually(scene())


def test_concurrency_limit_holds_and_order_is_kept() -> None:
    critic = Scripted(lambda one, _: int(one.prompt) / 1000, seconds=1)
    answers, _ = judged(JudgePolicy(concurrency=7), critic, [request(str(n)) for n in range(100)])
    assert critic.most_inside == 7
    assert [one.scores["score"] for one in answers] == [n / 1000 for n in range(100)]


# --- simple critics --------------------------------------------------------------------------------------------------


class Simple(LLMCritic):
    def __init__(self, value: Any) -> None:
        self.value = value
        self.metadata_seen: list[Any] = []

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        self.metadata_seen.append(metadata)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value  # type: ignore[no-any-return]


class OneFloat:
    def __float__(self) -> float:
        return 1.0


VALUES: list[tuple[Any, str | None, str]] = [
    (0.25, None, "a number"),
    (1, None, "a whole number"),
    (OneFloat(), None, "what can be a number, as numpy's can"),
    (1889, "out_of_range", "far beyond the scale"),
    (-0.1, "out_of_range", "below the scale"),
    (math.nan, "unparseable", "no number"),
    (math.inf, "unparseable", "an endless number"),
    (None, "unparseable", "nothing"),
    ("0.5", "unparseable", "a text"),
    (True, "unparseable", "a truth value"),
    (10**400, "unparseable", "a number beyond all numbers"),
    (ValueError("mistake"), "critic_raised", "a mistake"),
    (StopIteration(), "critic_raised", "what cannot be raised across threads"),
    (SystemExit(1), "critic_raised", "an exit"),
    (KeyboardInterrupt(), "critic_raised", "an interrupt of its own"),
    (JudgeError("refused", "no"), "refused", "a reason of its own"),
]


@pytest.mark.parametrize(("value", "reason", "why"), VALUES, ids=[row[-1] for row in VALUES])
def test_the_result_of_a_simple_critic_is_checked(value: Any, reason: str | None, why: str) -> None:
    async def scene() -> list[Any]:
        async with JudgeSession(JudgePolicy(retries=0)) as session:
            return await asked(session, critic, [request(metadata={"scale": "0-1"})])

    critic = Simple(value)
    (answer,) = asyncio.run(scene())
    assert reasons([answer]) == [reason]
    assert critic.metadata_seen == [{"scale": "0-1"}]
    if reason is None:
        assert answer.answer == {"score": float(value)}


class Passing(LLMCritic):
    def __init__(self) -> None:
        self.calls = 0

    def score(self, *, prompt: str, metadata: dict[str, Any] | None = None) -> float:
        self.calls += 1
        if self.calls < 3:
            raise TimeoutError("busy")
        return 0.5


def test_a_simple_critic_is_retried_after_transient_errors() -> None:
    async def scene() -> Judgement:
        async with JudgeSession(JudgePolicy(backoff=0)) as session:
            return await session.ask(critic, request())

    critic = Passing()
    assert asyncio.run(scene()).scores == {"score": 0.5}
    assert critic.calls == 3


def test_a_bare_number_gets_the_key_of_the_schema() -> None:
    async def scene() -> Judgement:
        schema = {"properties": {"fluency": {"type": "integer", "minimum": 1, "maximum": 5}, "why": {"type": "string"}}}
        async with JudgeSession() as session:
            return await session.ask(Simple(4), JudgeRequest("?", schema))

    assert asyncio.run(scene()).answer == {"fluency": 4.0}


def test_the_numbers_of_a_structured_critic_are_checked_too() -> None:
    answers = {
        "far": Judgement({"score": 1889}, raw="1889"),
        "nan": Judgement({"score": math.nan}),
        "text": "well",
        "list": Judgement([1]),  # type: ignore[arg-type]
    }

    class Careless(StructuredCritic):
        async def judge(self, request: JudgeRequest) -> Judgement:
            return answers[request.prompt]  # type: ignore[return-value]

    got, _ = judged(JudgePolicy(), Careless(), [request(one) for one in answers])
    assert reasons(got) == ["out_of_range", "unparseable", "unparseable", "unparseable"]
    assert got[0].raw == "1889"


# --- telling ---------------------------------------------------------------------------------------------------------


def test_records_and_usage_log() -> None:
    def script(one: JudgeRequest, number: int) -> Any:
        if one.prompt == "bad":
            return JudgeError("unparseable", "no JSON", raw="x" * 5000)
        if one.prompt == "repaired":
            return Judgement({"score": 1}, Usage(200, 40), repaired=True)
        return BROKEN if number == 1 else 0.5

    records: list[JudgementRecord] = []
    progress: list[tuple[int, int]] = []
    policy = JudgePolicy(prices={"model-1": Price(prompt=1.0, completion=10.0)})
    requests = [
        request("good", metric="a", sample_id="1", prompt_id="p/1"),
        request("bad", metric="a", sample_id="2"),
        request("repaired", metric="b", sample_id="1"),
    ]
    _, session = judged(
        policy,
        Scripted(script),
        requests,
        on_record=records.append,
        on_progress=lambda done, begun: progress.append((done, begun)),
    )
    by_prompt = {(one.metric, one.sample_id): one for one in records}
    good, bad, repaired = by_prompt["a", "1"], by_prompt["a", "2"], by_prompt["b", "1"]
    assert (good.answer, good.rationale, good.attempts, good.reason, good.raw) == (
        {"score": 0.5, "rationale": "so"}, "so", 2, None, None,
    )  # fmt: skip
    assert (good.critic, good.model, good.prompt_id) == ("scripted", "model-1", "p/1")
    assert (bad.answer, bad.reason, bad.message) == (None, "unparseable", "no JSON")
    assert bad.raw == "x" * 2000
    assert (repaired.repaired, repaired.calls) == (True, 2)
    assert progress[-1] == (3, 3)
    accounts = session.usage_log.to_dict()
    assert accounts["total"] == {
        "judgements": 3, "calls": 5, "cached": 0, "shared": 0, "retried": 1, "repaired": 1,
        "failed": {"unparseable": 1}, "prompt_tokens": 300, "completion_tokens": 60,
        "cost": pytest.approx((300 * 1 + 60 * 10) / 1e6), "seconds": 0.0,
    }  # fmt: skip
    assert accounts["metrics"]["b"]["calls"] == 2
    assert list(accounts["critics"]) == ["scripted"]


def test_an_exception_in_a_callback_is_raised_at_the_end() -> None:
    def script(record: JudgementRecord) -> None:
        raise OSError("disk full")

    got: list[Any] = []

    async def scene() -> None:
        async with JudgeSession(on_record=script) as session:
            got.extend(await asked(session, Scripted(), [request("a"), request("b")]))

    with pytest.raises(OSError, match="disk full"):
        run_virtually(scene())
    assert reasons(got) == [None, None]


def test_secrets_are_in_no_record_and_no_error(tmp_path: Path) -> None:
    key = "sk-very-secret-key"

    def script(one: JudgeRequest, number: int) -> Any:
        if one.prompt == "raises":
            return ValueError(f"Authorization: Bearer {key}")
        if one.prompt == "says":
            return JudgeError("refused", f"no, {key}", raw=f"my key is {key}")
        return Judgement({"score": 1, "rationale": key}, raw=key)

    records: list[JudgementRecord] = []
    answers, _ = judged(
        JudgePolicy(cache=tmp_path / "c.sqlite"),
        Scripted(script),
        [request("raises"), request("says"), request("leaks")],
        on_record=records.append,
        secrets=Secrets([key]),
    )
    assert key not in repr(records)
    for error in answers[:2]:
        assert key not in f"{error!r} {vars(error)} {error.__cause__!r}"
    assert not any(key.encode() in file.read_bytes() for file in tmp_path.iterdir())


# --- beginning and end -----------------------------------------------------------------------------------------------


def test_a_session_can_be_entered_again_on_another_loop() -> None:
    critic = Scripted()
    session = JudgeSession(JudgePolicy(max_calls=3))

    async def scene(prompts: str) -> list[Any]:
        async with session:
            return await asked(session, critic, [request(one) for one in prompts])

    assert reasons(asyncio.run(scene("ab"))) == [None, None]
    with pytest.warns(AueporaWarning, match=r"max_calls 3\) is spent: 1 request"):
        assert reasons(asyncio.run(scene("cd"))) == [None, "budget_exhausted"]
    assert critic.closed == 2
    assert session.usage_log.total.judgements == 4
    assert reasons(asyncio.run(scene("e"))) == ["budget_exhausted"]  # said once


def test_use_outside_the_context_and_from_two_loops_is_rejected() -> None:
    session = JudgeSession()

    async def outside() -> None:
        with pytest.raises(BadValueError, match="not open"):
            await session.ask(Scripted(), request())

    async def inside() -> None:
        async with session, session:
            await session.ask(Scripted(), request())
            await asyncio.to_thread(other)

    def other() -> None:
        with pytest.raises(BadValueError, match="one evaluation at a time"):
            asyncio.run(session.__aenter__())

    asyncio.run(outside())
    asyncio.run(inside())


def test_exit_cancels_running_calls_and_closes_the_critic() -> None:
    async def scene() -> None:
        critic = Scripted(seconds=1000)
        session = JudgeSession()
        await session.__aenter__()
        waiting = asyncio.ensure_future(asked(session, critic, [request("a"), request("b")]))
        await asyncio.sleep(1)
        assert critic.inside == 2
        await session.__aexit__(None, None, None)
        assert critic.inside == 0
        assert critic.closed == 1
        await asyncio.wait([waiting])
        assert asyncio.get_running_loop().time() < 10

    run_virtually(scene())


HANGING = """
import sys, threading, time
from auepora_eval import EvaluationSample, Response, Score, SystemOutputs, TargetCategory, evaluate
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.judge.critic import JudgeRequest, LLMCritic, StructuredCritic
from auepora_eval.judge.critic import JudgePolicy

class Hanging(LLMCritic):
    def score(self, *, prompt, metadata=None):
        print("asked", flush=True)
        threading.Event().wait()

class HangingToo(StructuredCritic):
    async def judge(self, request):
        import asyncio
        print("asked", flush=True)
        await asyncio.to_thread(threading.Event().wait)

class Judged(JudgedMetric):
    name = "judged"
    target = TargetCategory.GENERATION_FAITHFULNESS
    def __init__(self, critic): self.critic = critic
    async def ascore_one(self, sample, output, judge):
        return Score((await judge.ask(self.critic, JudgeRequest("?", {}))).scores["score"])

policy = JudgePolicy(timeout=TIMEOUT, retries=0)
(result,) = evaluate([EvaluationSample("1", "?")], [SystemOutputs([], Response("x"))], [Judged(CRITIC())], judging=policy)
print(list(result.outcomes), flush=True)
"""


@pytest.mark.parametrize("critic", ["Hanging", "HangingToo"])
@pytest.mark.parametrize("ended_by", ["timeout", "Ctrl-C"])
def test_a_hanging_critic_does_not_block_process_exit(critic: str, ended_by: str) -> None:
    timeout = "0.2" if ended_by == "timeout" else "1000"
    script = textwrap.dedent(HANGING).replace("TIMEOUT", timeout).replace("CRITIC", critic)
    with Process(
        [sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
            if ended_by == "Ctrl-C":
                process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    if ended_by == "timeout":
        assert (out, process.returncode) == ("['measure_failed:timeout']\n", 0), err
    else:
        assert "KeyboardInterrupt" in err
        assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 1), os.fsdecode(err)


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    rows = [EvaluationSample(str(n), "?") for n in range(30)], [SystemOutputs([], Response("x" * n)) for n in range(30)]
    evaluate(*rows, [Judged(Simple(0.5))], judging=JudgePolicy(concurrency=8))
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        thread.join(10)
    assert [thread.name for thread in started if thread.is_alive()] == []


# --- the same numbers with faults and without ------------------------------------------------------------------------


class Judged(JudgedMetric):
    name = "judged"
    target = TargetCategory.GENERATION_FAITHFULNESS

    def __init__(self, critic: Any) -> None:
        self.critic = critic

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        assert output.response is not None
        asked_for = JudgeRequest(output.response.text, SCHEMA, sample_id=sample.sample_id, metric=self.name)
        return Score((await judge.ask(self.critic, asked_for)).scores["score"])


def judged_with_faults(share: float, retries: int) -> Any:
    faults = random.Random(15)
    truth = random.Random(3)
    scores = {f"answer {n}": truth.random() for n in range(400)}

    def script(one: JudgeRequest, number: int) -> Any:
        return (
            random.Random(f"{faults.random()}").choice([BUSY, BROKEN, ConnectionResetError()])
            if faults.random() < share
            else scores[one.prompt]
        )

    samples = [EvaluationSample(str(n), "?") for n in range(len(scores))]
    outputs = [SystemOutputs([], Response(text)) for text in scores]
    policy = JudgePolicy(concurrency=16, retries=retries, backoff=0.001)
    (result,) = evaluate(samples, outputs, [Judged(Scripted(script))], judging=policy)
    return result


def test_transient_faults_change_nothing_and_permanent_ones_give_correct_bounds() -> None:
    truth = judged_with_faults(0.0, 5)
    assert truth.details["num_samples"] == 400
    repeated = judged_with_faults(0.15, 30)
    assert list(repeated.scores) == list(truth.scores)
    assert repeated.value == truth.value
    with pytest.warns(AueporaWarning, match="gave no judgement"):
        failed = judged_with_faults(0.15, 0)
    assert 30 < failed.details["num_measure_failed"] < 90
    low, high = failed.details["bounds"]
    assert low < truth.value < high
    assert all(a is None or a == b for a, b in zip(failed.scores, truth.scores, strict=True))
