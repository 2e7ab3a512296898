"""Cost of judging without the judge's own time: many calls at once compared with the ideal, and reruns.

    python -m benchmarks.judge [--quick]

A server on this machine, in a process of its own, answers in 200 ms and serves 64 at once. The ideal is what it takes
if no place is ever empty. Every judgement goes all the way: ``evaluate``, a metric, the session, the critic, HTTP.
The process's own time is shown beside it: on a busy machine it tells more than the clock.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from auepora_eval import EvaluationSample, Response, Score, SystemOutputs, TargetCategory, evaluate
from auepora_eval.judge.critic import JudgeClient, Judgement, JudgePolicy, JudgeRequest, StructuredCritic, Usage
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.judge.session import JudgeSession

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from helpers.judge_server import Apart, served_apart

LATENCY, AT_ONCE = 0.2, 64
SCHEMA = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "score": {"type": "number", "minimum": 1, "maximum": 5}},
    "required": ["rationale", "score"],
    "additionalProperties": False,
}
ANSWER = '{"rationale": "Each claim stands in the first passage.", "score": 4}'
FAULTS = {"429": 0.10, "500": 0.05}
PASSAGES = "A passage that an answer may lean on, with some words in it. " * 40


class Plain(StructuredCritic):
    """A critic that only sleeps as long as the server does: measures the session itself."""

    name = "plain"

    async def judge(self, request: JudgeRequest) -> Judgement:
        await asyncio.sleep(LATENCY)
        return Judgement({"rationale": "", "score": 4}, Usage(600, 20), ANSWER)

    def cache_key(self, request: JudgeRequest) -> dict[str, Any]:
        return {}


class Judged(JudgedMetric):
    """A minimal judged metric."""

    name = "judged"
    target = TargetCategory.GENERATION_FAITHFULNESS

    def __init__(self, critic: StructuredCritic) -> None:
        self.critic = critic

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        assert output.response is not None
        prompt = f"{PASSAGES}\n\nIs this answer supported by the passages? {output.response.text}"
        asked = JudgeRequest(prompt, SCHEMA, prompt_id="benchmark/1", metric=self.name, sample_id=sample.sample_id)
        return Score(((await judge.ask(self.critic, asked)).scores["score"] - 1) / 4)


def judged(critic: StructuredCritic, count: int, policy: JudgePolicy) -> JudgeSession:
    """Judge `count` answers; each must get a score."""
    samples = [EvaluationSample(str(n), "why?") for n in range(count)]
    outputs = [SystemOutputs([], Response(f"Because of reason number {n}.")) for n in range(count)]
    session = JudgeSession(policy)
    (result,) = evaluate(samples, outputs, [Judged(critic)], judging=session)
    assert list(result.scores or ()) == [0.75] * count, "a judgement was lost"
    return session


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Wall time and CPU time of a call, in seconds."""
    clock, own = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - own


def against_the_ideal(count: int, rounds: int) -> None:
    """Print the time relative to the server's own time."""
    ideal = count / AT_ONCE * LATENCY
    print(f"\n{count:,} judgements, {1000 * LATENCY:.0f} ms each, {AT_ONCE} at once: at best {ideal:.2f} s\n")
    print("| critic, server | seconds | times the ideal | own ms a judgement | requests | repeated |")
    print("|---|---|---|---|---|---|")
    policy = JudgePolicy(concurrency=AT_ONCE)
    for setup, rates in (
        ("no server: the session alone", None),
        ("no server, with a new cache: claimed and written", None),
        ("OpenAICritic", {}),
        ("OpenAICritic, 10 % 429, 5 % 500", FAULTS),
    ):
        taken = []
        for round_number in range(rounds):
            if rates is None:
                with tempfile.TemporaryDirectory() as folder:
                    cache = Path(folder) / "judgements.sqlite" if "cache" in setup else None
                    taken.append((*_one_round(Plain(), count, replace(policy, cache=cache)), count))
                continue
            with served_apart(
                answer=ANSWER, latency=LATENCY, capacity=AT_ONCE, overload="429", rates=rates, seed=round_number
            ) as server:
                critic = OpenAICritic("judge", base_url=server.base_url, api_key_env=None)
                judged(critic, AT_ONCE, policy)  # imports and connections
                before = server.stats["requests"]
                taken.append((*_one_round(critic, count, policy), server.stats["requests"] - before))
        seconds, own, repeated, requests = min(taken)
        times, each = f"{seconds / ideal:.3f}", f"{1000 * own / count:.2f}"
        print(f"| {setup} | {seconds:.2f} | {times} | {each} | {requests:,} | {repeated:,} |", end=" ")
        print(f"all rounds: {', '.join(f'{one[0] / ideal:.2f}' for one in taken)}")


def _one_round(critic: StructuredCritic, count: int, policy: JudgePolicy) -> tuple[float, float, int]:
    kept: list[JudgeSession] = []
    seconds, own = timed(lambda: kept.append(judged(critic, count, policy)))
    return seconds, own, kept[0].usage_log.total.retried


def rerun(count: int, rounds: int) -> None:
    """Print the rate of cached judgements, and check that no request is sent."""
    with tempfile.TemporaryDirectory() as folder, served_apart(answer=ANSWER) as server:
        policy = JudgePolicy(concurrency=AT_ONCE, cache=Path(folder) / "judgements.sqlite")
        critic = OpenAICritic("judge", base_url=server.base_url, api_key_env=None)
        judged(critic, count, policy)
        sent = _sent(server)
        assert sent == count, sent
        taken = [timed(lambda: judged(critic, count, policy)) for _ in range(rounds)]
        assert _sent(server) == sent, "a rerun called the judge"
        seconds, own = min(taken)
    print(f"\n{count:,} judgements from the cache, no request sent: {seconds:.2f} s, {count / seconds:,.0f} a second")
    rates = ", ".join(f"{count / one[0]:,.0f}" for one in taken)
    print(f"(all rounds: {rates}; own time {1000 * own / count:.3f} ms each)")


def _sent(server: Apart) -> int:
    return int(server.stats["requests"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer judgements, one round")
    quick = parser.parse_args().quick
    against_the_ideal(500 if quick else 2_000, 1 if quick else 3)
    rerun(2_000 if quick else 10_000, 1 if quick else 3)


if __name__ == "__main__":
    main()
