"""Judged metrics: prefetching, order, shared requests and failures."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from auepora_eval import EvaluationSample, Response, Score, SystemOutputs, TargetCategory, evaluate
from auepora_eval.core.batch import Batch
from auepora_eval.core.registry import Use, parse_use, resolve, use_resources
from auepora_eval.core.scores import Scores
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import JudgeClient, Judgement, JudgeRequest, StructuredCritic
from auepora_eval.judge.metric import JudgedMetric


@dataclass
class Lengths(StructuredCritic):
    """Judges by the length of the prompt; notes what it was asked."""

    asked: list[str] = field(default_factory=list)
    name = "lengths"

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked.append(request.sample_id)
        await asyncio.sleep(0)
        if "boom" in request.prompt:
            raise JudgeError("unparseable", "boom")
        return Judgement({"score": len(request.prompt) / 100})


class Judged(JudgedMetric):
    target = TargetCategory.GENERATION_FAITHFULNESS

    def __init__(self, critic: Any, name: str = "judged") -> None:
        self.critic, self.name = critic, name

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        assert output.response is not None
        request = JudgeRequest(output.response.text, {}, sample_id=sample.sample_id)
        return Score((await judge.ask(self.critic, request)).scores["score"])


def rows(texts: Sequence[str | None]) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    samples = [EvaluationSample(str(number), "?") for number in range(len(texts))]
    return samples, [SystemOutputs([], None if text is None else Response(text)) for text in texts]


def test_samples_are_judged_once_in_order_for_any_batch_size() -> None:
    texts = ["x" * number for number in range(50)]
    for size in (1, 7, 1024):
        critic = Lengths()
        (result,) = evaluate(*rows(texts), [Judged(critic)], batch_size=size)
        assert list(result.scores or ()) == [number / 100 for number in range(50)]
        assert sorted(critic.asked, key=int) == [str(number) for number in range(50)]


def test_a_judge_that_fails_is_a_failed_measurement_with_bounds() -> None:
    with pytest.warns(AueporaWarning, match="gave no judgement"):
        (result,) = evaluate(*rows(["x" * 50, "boom", None]), [Judged(Lengths())])
    assert result.outcomes == ["scored", "measure_failed:unparseable", "skipped:no_response"]
    assert result.value == 0.5
    assert result.details["bounds"] == [0.25, 0.75]


def test_judged_and_plain_metrics_keep_the_order_of_the_plan() -> None:
    results = evaluate(*rows(["a b", "c"]), ["distinct_n", Judged(Lengths()), "empty_result_rate"])
    assert [one.name for one in results] == ["distinct_n", "judged", "empty_result_rate"]
    assert results[1].value == pytest.approx(0.02)


def test_a_metric_can_judge_on_its_own() -> None:
    assert Judged(Lengths()).compute(*rows(["x" * 50])).value == 0.5


def test_it_works_inside_a_running_loop() -> None:
    async def inside() -> float:
        return evaluate(*rows(["x" * 50]), [Judged(Lengths())])[0].value

    assert asyncio.run(inside()) == 0.5


class Claims(JudgedMetric):
    """Two of these share one question per batch."""

    target = TargetCategory.GENERATION_FAITHFULNESS

    def __init__(self, critic: Any, name: str) -> None:
        self.critic, self.name = critic, name

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        async def build(batch: Batch) -> float:
            return (await judge.ask(self.critic, JudgeRequest("x" * 10, {}))).scores["score"]

        value = await batch.afeature("claims", build)
        return Scores.of([value] * len(batch))

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        raise NotImplementedError


def test_two_metrics_share_requests() -> None:
    critic = Lengths()
    evaluate(*rows(["a", "b", "c"]), [Claims(critic, "one"), Claims(critic, "two")])
    assert len(critic.asked) == 1


def test_resources_replace_references_of_a_plan() -> None:
    assert parse_use(5) == 5
    assert parse_use({"use": "judge"}) == Use("judge")
    with use_resources({"judge": "it"}):
        assert resolve(parse_use({"use": "judge"}), what="critic") == "it"
        with pytest.raises(ValueError, match="there is no resource 'jugde'; did you mean 'judge'"):
            parse_use({"use": "jugde"})
    with pytest.raises(ValueError, match="which is not available here"):
        resolve(parse_use({"use": "judge"}), what="critic")
