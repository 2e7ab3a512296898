"""Judge budgets and previews: caps hold under concurrency and are used as far as possible."""

import asyncio
import random
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, Score, SystemOutputs, TargetCategory, evaluate
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import JudgeClient, Judgement, JudgePolicy, JudgeRequest, Price, Usage
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.judge.preview import preview
from auepora_eval.judge.session import JudgeSession
from helpers.scripted_critic import SCHEMA, Scripted, request
from helpers.virtual_time import run_virtually

SPENT = pytest.mark.filterwarnings("ignore:the budget for judging")


def judged(policy: JudgePolicy, critic: Any, requests: list[JudgeRequest]) -> tuple[Counter[str], JudgeSession]:
    async def scene() -> tuple[Counter[str], JudgeSession]:
        async with JudgeSession(policy) as session:
            asked = (session.ask(critic, one) for one in requests)
            answers = await asyncio.gather(*asked, return_exceptions=True)
        outcomes = (one.reason if isinstance(one, JudgeError) else "judged" for one in answers)
        assert not [one for one in answers if not isinstance(one, (JudgeError, Judgement))]
        return Counter(outcomes), session

    return run_virtually(scene())


@SPENT
@pytest.mark.parametrize("faults", [0.0, 0.3])
def test_calls_are_capped_including_retries(faults: float) -> None:
    chance = random.Random(1)

    def script(one: JudgeRequest, number: int) -> Any:
        return JudgeError("server_error", "", retry=True) if chance.random() < faults else 0.5

    critic = Scripted(script, seconds=1)
    outcomes, session = judged(
        JudgePolicy(concurrency=64, max_calls=100), critic, [request(str(n)) for n in range(500)]
    )
    assert len(critic.asked) == 100 == session.usage_log.total.calls
    assert outcomes["judged"] == 100 if not faults else outcomes["judged"] < 90
    assert outcomes["judged"] + outcomes["budget_exhausted"] == 500


@SPENT
def test_a_repaired_request_counts_its_actual_calls() -> None:
    class Repairing(Scripted):
        calls_at_most = 2

    chance = random.Random(5)

    def script(one: JudgeRequest, number: int) -> Any:
        return Judgement({"score": 1}, Usage(1, 1), repaired=one.may_repair and chance.random() < 0.5)

    _, session = judged(
        JudgePolicy(concurrency=64, max_calls=101), Repairing(script, seconds=1), [request(str(n)) for n in range(500)]
    )
    assert session.usage_log.total.calls == 101


def test_the_calls_of_a_preview_are_sufficient() -> None:
    class Repairing(Scripted):
        calls_at_most = 2

    critic = Repairing(seconds=1)
    outcomes, _ = judged(JudgePolicy(concurrency=8, max_calls=40), critic, [request(str(n)) for n in range(40)])
    assert outcomes == {"judged": 40}
    assert [one.may_repair for one in critic.asked].count(False) == 1, "only the last one goes without a second try"


@SPENT
@pytest.mark.parametrize("cap", [{"max_tokens": 10_000}, {"max_cost": 0.01}], ids=["tokens", "cost"])
def test_tokens_and_cost_are_capped_under_concurrency(cap: dict[str, Any]) -> None:
    """A server that counts more than we guess: three tokens a word, as for some languages."""
    chance = random.Random(2)

    def script(one: JudgeRequest, number: int) -> Any:
        return Judgement({"score": 1}, Usage(3 * len(one.prompt) // 4 + 100, chance.randint(10, 40)))

    class Bounded(Scripted):
        max_tokens = 40

    policy = JudgePolicy(concurrency=64, prices={"model-1": Price(1.0, 1.0)}, **cap)
    _, session = judged(policy, Bounded(script, seconds=1), [request(f"{n:050d}") for n in range(500)])
    spent = session.usage_log.total.prompt_tokens + session.usage_log.total.completion_tokens
    assert 9_500 < spent <= 10_000


@SPENT
def test_the_first_call_of_a_model_runs_alone() -> None:
    critic = Scripted(seconds=1, usage=Usage(4000, 100))
    _, session = judged(JudgePolicy(concurrency=64, max_tokens=10_000), critic, [request(str(n)) for n in range(500)])
    assert session.usage_log.total.prompt_tokens + session.usage_log.total.completion_tokens == 2 * 4100


@SPENT
def test_missing_usage_is_charged_by_the_estimate() -> None:
    outcomes, _ = judged(
        JudgePolicy(max_tokens=10_000), Scripted(usage=Usage()), [request("x" * 400 + f"{n:04d}") for n in range(500)]
    )
    tokens = (
        404
        + len(
            '{"type": "object", "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "rationale": {"type": "string"}}, "required": ["score"]}'
        )
        + 3
    ) // 4 + 256
    assert outcomes["judged"] == 10_000 // tokens


@SPENT
def test_reservations_of_unbilled_calls_are_released() -> None:
    def script(one: JudgeRequest, number: int) -> Any:
        return JudgeError("rate_limited", "", retry=True) if number < 4 else 0.5

    outcomes, _ = judged(JudgePolicy(max_tokens=5 * 120 + 400), Scripted(script), [request(str(n)) for n in range(5)])
    assert outcomes == {"judged": 5}


def test_an_exhausted_budget_warns_once() -> None:
    with pytest.warns(AueporaWarning, match=r"max_calls 2\) is spent: 8 requests were not made") as caught:
        judged(JudgePolicy(max_calls=2), Scripted(), [request(str(n)) for n in range(10)])
    assert len(caught) == 1


def test_a_cap_on_cost_needs_prices() -> None:
    async def scene() -> None:
        async with JudgeSession(JudgePolicy(max_cost=1)) as session:
            with pytest.raises(ValueError, match="max_cost needs the price of 'model-1'"):
                await session.ask(critic, request())

    critic = Scripted()
    run_virtually(scene())
    assert critic.asked == []


def test_cached_judgements_cost_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "c.sqlite"
    requests = [request(str(n)) for n in range(10)]
    judged(JudgePolicy(cache=cache), Scripted(), requests)
    outcomes, _ = judged(JudgePolicy(cache=cache, max_calls=0, max_tokens=0), Scripted(), requests)
    assert outcomes == {"judged": 10}


# --- previews --------------------------------------------------------------------------------------------------------


class Judged(JudgedMetric):
    target = TargetCategory.GENERATION_FAITHFULNESS

    def __init__(self, critic: Any, name: str, *, asks_on: bool = False) -> None:
        self.critic, self.name = critic, name
        self.asks_follow_ups = asks_on

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        assert output.response is not None
        asked = JudgeRequest(output.response.text, SCHEMA, metric=self.name)
        judgement, *_ = await asyncio.gather(
            *(judge.ask(self.critic, replace(asked, repeat=repeat)) for repeat in range(judge.repeats))
        )
        if self.asks_follow_ups:
            judgement = await judge.ask(self.critic, JudgeRequest(f"{judgement}", SCHEMA, metric=self.name))
        return Score(judgement.scores["score"])


def rows(count: int) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    return [EvaluationSample(str(n), "?") for n in range(count)], [
        SystemOutputs([], Response(f"{n:04d}" * 100)) for n in range(count)
    ]


def test_a_preview_counts_requests_and_sends_none(tmp_path: Path) -> None:
    critic = Scripted(usage=Usage(300, 50))
    policy = JudgePolicy(cache=tmp_path / "c.sqlite", prices={"model-1": Price(1.0, 2.0)})
    metrics = [Judged(critic, "one"), Judged(critic, "two"), Judged(critic, "three", asks_on=True)]
    seen = preview(*rows(10), metrics, policy)
    assert critic.asked == []
    assert not (tmp_path / "c.sqlite").exists()
    assert seen.metrics["one"].to_dict() | {"prompt_tokens": 0, "cost": 0} == {
        "judgements": 10, "cached": 0, "shared": 0, "calls": 10,
        "prompt_tokens": 0, "completion_tokens": 10 * 200, "cost": 0,
    }  # fmt: skip
    assert (seen.metrics["two"].calls, seen.metrics["two"].shared) == (0, 10)
    assert (seen.total.judgements, seen.total.calls) == (30, 10)
    assert 10 * 100 < seen.total.prompt_tokens < 10 * 200
    assert seen.total.cost == pytest.approx((seen.total.prompt_tokens + 2 * 2000) / 1e6)
    assert seen.to_dict()["lower_bound_for"] == ["three"]
    text = seen.to_text()
    assert "These ask on after an answer, which is not counted: three." in text
    assert text.splitlines()[0].split()[:2] == ["metric", "judgements"]


def test_a_preview_uses_the_cache(tmp_path: Path) -> None:
    critic = Scripted(usage=Usage(300, 50))
    policy = JudgePolicy(cache=tmp_path / "c.sqlite")
    samples, outputs = rows(10)
    judged(policy, critic, [JudgeRequest(one.response.text, SCHEMA) for one in outputs[:4] if one.response])
    seen = preview(samples, outputs, [Judged(critic, "one")], policy).total
    assert (seen.judgements, seen.cached, seen.calls) == (10, 4, 6)
    assert (seen.prompt_tokens, seen.completion_tokens, seen.cost) == (6 * 300, 6 * 50, None)
    assert len(critic.asked) == 4
    assert "No price is known for model-1." in preview(samples, outputs, [Judged(critic, "one")], policy).to_text()


def test_preview_time_by_assumption() -> None:
    policy = JudgePolicy(concurrency=4)
    seen = preview(*rows(10), [Judged(Scripted(), "one")], policy)
    # 10 calls, four at once: three rounds of a second and 200 tokens at 50 a second.
    assert seen.seconds == pytest.approx(3 * (1 + 200 / 50))
    assert (seen.to_dict()["seconds"], seen.to_dict()["seconds_measured"]) == (15.0, False)
    assert "Time: less than a minute (assumed: 5.0 s a call, 4 at once)." in seen.to_text()
    assert preview([], [], [Judged(Scripted(), "one")], policy).to_dict()["seconds"] == 0.0


def test_preview_time_by_cache(tmp_path: Path) -> None:
    """40 judgements in 20 seconds after an older session: two a second."""
    critic = Scripted(usage=Usage(300, 50))
    policy = JudgePolicy(cache=tmp_path / "c.sqlite")
    samples, outputs = rows(2000)
    judged(policy, critic, [JudgeRequest(one.response.text, SCHEMA) for one in outputs[:45] if one.response])
    with sqlite3.connect(tmp_path / "c.sqlite") as file:
        numbers = [row for (row,) in file.execute("SELECT rowid FROM judgements")]
        for place, number in enumerate(numbers):
            at = f"2030-01-01T12:00:{place // 2:02}+00:00" if place < 41 else f"2029-12-31T12:00:{place:02}+00:00"
            file.execute("UPDATE judgements SET created_at = ? WHERE rowid = ?", (at, number))
    seen = preview(samples, outputs, [Judged(critic, "one")], policy)
    assert seen.total.calls == 1955
    assert seen.seconds == pytest.approx(1955 / (41 / 20))
    assert seen.to_dict()["seconds_measured"] is True
    assert "Time: about 16 min (at 2 judgements a second, as in the cache)." in seen.to_text()


def test_preview_matches_the_actual_usage() -> None:
    critic = Scripted()
    policy = JudgePolicy(repeats=3)
    metrics = [Judged(critic, "one"), Judged(critic, "two")]
    seen = preview(*rows(10), metrics, policy)
    evaluate(*rows(10), metrics, judging=policy)
    assert seen.total.calls == len(critic.asked) == 30
