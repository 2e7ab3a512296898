"""Questions to decision models about the same texts travel in one call; cache, failures and refusals are per question."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, JudgeMetric, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.core.types import MetricResult
from auepora_eval.errors import AueporaWarning, BadValueError
from auepora_eval.judge.critic import JudgePolicy
from auepora_eval.judge.decisions import DecisionCritic
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.judge.preview import preview
from auepora_eval.judge.prompting import Prompt
from auepora_eval.judge.questions import _IDLE_TURNS, QuestionGroups, decision_request
from auepora_eval.judge.session import JudgeSession
from auepora_eval.metrics.claims import ClaimFaithfulness
from auepora_eval.metrics.rubric import RubricRequired, RubricScore
from helpers.decision_server import AskedQuestion, DecisionServer
from helpers.judge_server import JudgeServer

PROMPTS = ("Is it polite?", "Is it short?", "Is it true?", "Is it kind?", "Does it name a source?")


def metrics(critic: Any, prompts: Sequence[str] = PROMPTS) -> list[JudgeMetric]:
    found = []
    for number, prompt in enumerate(prompts):
        found.append(JudgeMetric(critic, prompt=prompt, name=f"m{number}", rationale=False))
    return found


def rows(count: int) -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    samples = [EvaluationSample(f"s{number}", f"question {number}") for number in range(count)]
    return samples, [SystemOutputs([], Response(f"answer {number}")) for number in range(count)]


def values(results: Sequence[MetricResult]) -> list[list[float | None]]:
    return [list(result.scores or ()) for result in results]


def by_instructions(question: AskedQuestion) -> dict[str, float]:
    """Each question has an own probability, which does not depend on what it was asked with."""
    number = next(place for place, prompt in enumerate(PROMPTS, 1) if prompt in question.instructions)
    return {"no": 1 - number / 8, "yes": number / 8}


def reversed_answers(body: dict[str, Any]) -> dict[str, Any]:
    answers = body["answers"]
    turned = answers[::-1] if isinstance(answers, list) else dict(reversed(answers.items()))
    return {**body, "answers": turned}


@pytest.mark.parametrize("api", ["openai", "systemone"])
def test_one_call_per_answer_joined_by_name(api: Any) -> None:
    with DecisionServer(by_instructions, change=reversed_answers) as server:
        critic = DecisionCritic("decider", base_url=server.base_url, api=api)
        results = evaluate(*rows(100), metrics(critic))
        assert len(server.asked) == 100
        assert {len(questions) for questions in server.questions} == {5}
    assert values(results) == [[number / 8] * 100 for number in range(1, 6)]


def test_a_text_judge_gets_a_call_for_each_question() -> None:
    with JudgeServer('{"score": "yes"}') as server:
        evaluate(*rows(20), metrics(OpenAICritic("judge", base_url=server.base_url)))
        assert len(server.asked) == 100


def test_the_group_does_not_depend_on_the_order_of_metrics() -> None:
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        for seed in range(3):
            evaluate(*rows(2), random.Random(seed).sample(metrics(critic), 5))
        assert len({asked.raw for asked in server.asked}) == 2
        assert len(server.asked) == 6


def test_a_run_that_is_resumed_asks_nothing_again(tmp_path: Path) -> None:
    policy = JudgePolicy(cache=tmp_path / "cache.sqlite", max_calls=7)
    again = JudgePolicy(cache=tmp_path / "cache.sqlite")
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        with pytest.warns(AueporaWarning):
            evaluate(*rows(20), metrics(critic), judging=policy)
        assert len(server.asked) == 7
        would = preview(*rows(20), metrics(critic), again)
        results = evaluate(*rows(20), metrics(critic), judging=again)
        assert len(server.asked) == 20
        assert would.total.calls == 13
        assert len({asked.raw for asked in server.asked}) == 20
        evaluate(*rows(20), metrics(critic), judging=again)
        assert len(server.asked) == 20
    assert values(results) == [[number / 8] * 20 for number in range(1, 6)]


def test_preview_has_the_calls_at_the_server() -> None:
    policy = JudgePolicy(repeats=2)
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        would = preview(*rows(10), metrics(critic), policy)
        assert not server.asked
        session = JudgeSession(policy)
        evaluate(*rows(10), metrics(critic), judging=session)
        total = session.usage_log.total
        assert len(server.asked) == would.total.calls == total.calls == 20
        assert would.total.judgements == total.judgements == 100
        assert total.prompt_tokens == sum(len(asked.raw) // 4 for asked in server.asked)


def test_a_refusal_fails_its_question_only_and_is_asked_with_the_same_group(tmp_path: Path) -> None:
    refusing = True

    def refuse(body: dict[str, Any]) -> dict[str, Any]:
        if refusing:
            row = body["answers"][1]
            body["answers"][1] = {"type": "refusal", "name": row["name"], "refusal": "no"}
        return body

    policy = JudgePolicy(cache=tmp_path / "cache.sqlite")
    with DecisionServer(by_instructions, change=refuse) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        with pytest.warns(AueporaWarning, match="refused"):
            first = evaluate(*rows(1), metrics(critic), judging=policy)
        refusing = False
        second = evaluate(*rows(1), metrics(critic), judging=policy)
        assert len({asked.raw for asked in server.asked}) == 1
        assert len(server.asked) == 2
    outcomes = [(result.outcomes or [""])[0] for result in first]
    assert sorted(outcomes) == ["measure_failed:refused", *["scored"] * 4]
    assert values(second) == [[number / 8] for number in range(1, 6)]


def test_a_question_of_another_group_is_asked_again(tmp_path: Path) -> None:
    policy = JudgePolicy(cache=tmp_path / "cache.sqlite")
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        evaluate(*rows(1), metrics(critic), judging=policy)
        evaluate(*rows(1), metrics(critic, PROMPTS[:2]), judging=policy)
        evaluate(*rows(1), metrics(critic, PROMPTS[:1]), judging=policy)
        assert [len(questions) for questions in server.questions] == [5, 2, 1]


def test_groups_are_split_where_they_exceed_the_tokens() -> None:
    long = [f"{prompt} {'word ' * 600}" for prompt in PROMPTS]
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url, max_tokens=2000)
        results = evaluate(*rows(1), metrics(critic, long))
        sizes = [len(questions) for questions in server.questions]
    assert sum(sizes) == 5
    assert 1 < len(sizes) < 5
    assert values(results) == [[number / 8] for number in range(1, 6)]


def test_metrics_that_show_other_texts_are_asked_apart() -> None:
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        other = JudgeMetric(critic, prompt=PROMPTS[0], inputs=["answer"], name="other")
        same = JudgeMetric(critic, prompt=PROMPTS[1], inputs=["answer", "question"], name="same")
        evaluate(*rows(1), [*metrics(critic, PROMPTS[2:]), other, same])
        assert sorted(len(questions) for questions in server.questions) == [1, 4]


def test_questions_that_arrive_late_still_join() -> None:
    prompt = Prompt.parse("{{answer}}\n\nIs it {{scale}}?")

    async def scene(critic: DecisionCritic) -> list[int]:
        groups = QuestionGroups()

        async def join(number: int) -> int:
            for _ in range(number * (_IDLE_TURNS // 4)):
                await asyncio.sleep(0)
            words = {"scale": str(number)}
            asked = decision_request(prompt, {"answer": "a"}, ("no", "yes"), {"no": 0, "yes": 1}, words=words)
            return len((await groups.join(critic, asked)).questions)

        return await asyncio.gather(*map(join, range(6)))

    assert asyncio.run(scene(DecisionCritic("m", base_url="http://127.0.0.1:1/v1"))) == [6] * 6


RUBRIC = [
    {"item": "names the author", "weight": 2},
    {"item": "is rude", "weight": -1},
    {"item": "has a date", "required": True},
]
SHARES = {
    "names the author": {"met": 0.5, "partly": 0.5, "not met": 0.0},
    "is rude": {"met": 0.25, "partly": 0.0, "not met": 0.75},
    "has a date": {"met": 0.75, "partly": 0.0, "not met": 0.25},
}


def rubric_shares(question: AskedQuestion) -> dict[str, float]:
    frame = question.instructions.rpartition('the frame "')[2].partition('"')[0]
    text = question.state.partition(f"[begin {frame} ")[2].partition("]\n")[2]
    return next(shares for item, shares in SHARES.items() if text.startswith(item))


def test_rubric_items_are_questions_about_the_same_texts() -> None:
    samples, outputs = rows(1)
    samples[0].labels["rubric"] = RUBRIC
    with DecisionServer(rubric_shares) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        score, required = evaluate(samples, outputs, [RubricScore(critic), RubricRequired(critic)])
        assert [len(questions) for questions in server.questions] == [3]
    assert score.value == pytest.approx((2 * (0.5 + 0.5 * 0.5) - 0.25) / 2)
    assert required.value == 1.0


def test_claims_are_extracted_by_one_judge_and_decided_by_another() -> None:
    samples, _ = rows(1)
    outputs = [SystemOutputs([RetrievedDocument(Document("d1", "It rains."), 1.0, 1)], Response("It rains. It snows."))]

    def decide(question: AskedQuestion) -> dict[str, float]:
        first = 'the frame "statement 1"' in question.instructions.rpartition("verdict on")[2]
        return {"full": 0.9, "partial": 0.1, "none": 0.0} if first else {"full": 0.1, "partial": 0.2, "none": 0.7}

    with JudgeServer('{"claims": ["It rains.", "It snows."]}') as writer, DecisionServer(decide) as server:
        judge = DecisionCritic("decider", base_url=server.base_url)
        both = {"extract": OpenAICritic("writer", base_url=writer.base_url), "decide": judge}
        (result,) = evaluate(samples, outputs, [ClaimFaithfulness(both)])
        assert len(writer.asked) == 1
        assert [len(questions) for questions in server.questions] == [2]
        assert result.value == 0.5
        with pytest.raises(BadValueError, match=r"writes no text.*extract"):
            evaluate(samples, outputs, [ClaimFaithfulness(judge)])
        assert len(writer.asked) == len(server.asked) == 1


# --- served models, scores and their names ---------------------------------------------------------------------------


def test_two_served_models_or_an_alias_are_a_warning() -> None:
    served = iter(["decider-1", "decider-2"])
    with DecisionServer(by_instructions, change=lambda body: {**body, "model": next(served)}) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        with pytest.warns(AueporaWarning, match="decider-1 and decider-2 answered|decider-2 and decider-1 answered"):
            evaluate(*rows(2), metrics(critic))
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider-latest", base_url=server.base_url)
        with pytest.warns(AueporaWarning, match=r"'decider-latest' is an alias.*; decider-1.2 answered"):
            evaluate(*rows(1), metrics(critic))


def test_a_mean_probability_is_called_so_and_a_rate_needs_a_threshold() -> None:
    from auepora_eval.core.results import display_name

    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        mean = JudgeMetric(critic, prompt=PROMPTS[4], name="m")
        rate = JudgeMetric(critic, prompt=PROMPTS[4], name="rate", threshold=0.5)
        first, second = evaluate(*rows(3), [mean, rate])
        assert {len(questions) for questions in server.questions} == {1}
    assert (first.value, display_name(first)) == (5 / 8, "m (mean probability)")
    assert (second.value, display_name(second)) == (1.0, "rate")
    assert "|threshold:0.5|" in (second.signature or "")
    assert "threshold" not in (first.signature or "")


def test_a_scale_with_too_many_options_is_refused_before_anything_is_asked() -> None:
    with DecisionServer(by_instructions) as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        with pytest.raises(BadValueError, match="chooses from 2 to 255 options"):
            evaluate(*rows(1), [JudgeMetric(critic, prompt="?", name="m", scale="0-300")])
        assert not server.asked


# --- wherever a critic is used ---------------------------------------------------------------------------------------

USABLE = [
    "llm_faithfulness",
    "llm_answer_quality",
    "llm_answer_relevance",
    "llm_correctness",
    "llm_context_sufficiency",
    "llm_refusal",
    "judged_context_precision",
    "citation_support_precision",
    {"claim_faithfulness": {"claims": "sentences"}},
]
REFUSED = ["claim_faithfulness", "judged_context_relevance", "reverse_question_relevance"]


def answered_sample() -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    document = Document("d1", "Paris is the capital of France.")
    sample = EvaluationSample(
        "s1", "What is the capital?", relevant_docs=[document], reference_answer=Response("Paris")
    )
    return [sample], [
        SystemOutputs([RetrievedDocument(document, 1.0, 1)], Response("It is Paris [1]. It is large [1]."))
    ]


def with_critic(spec: Any, critic: Any) -> Any:
    name, options = (spec, {}) if isinstance(spec, str) else next(iter(spec.items()))
    return {name: {**options, "critic": critic}}


@pytest.mark.parametrize("spec", USABLE, ids=str)
def test_metrics_that_choose_take_a_decision_model(spec: Any) -> None:
    with DecisionServer() as server:
        critic = DecisionCritic("decider", base_url=server.base_url, api="systemone")
        (result,) = evaluate(*answered_sample(), [with_critic(spec, critic)])
        assert server.asked
    assert result.outcomes == ["scored"], result.outcomes
    assert 0 <= result.value <= 1


@pytest.mark.parametrize("spec", REFUSED)
def test_metrics_that_write_refuse_it_before_anything_is_asked(spec: str) -> None:
    with DecisionServer() as server:
        critic = DecisionCritic("decider", base_url=server.base_url)
        with pytest.raises(BadValueError, match="writes no text"):
            evaluate(*answered_sample(), [with_critic(spec, critic)])
        assert not server.asked


def test_preference_by_a_decision_model() -> None:
    from auepora_eval import prefer

    def decide(question: AskedQuestion) -> dict[str, float]:
        good_first = question.state.index("good") < question.state.index("bad")
        return {"first": 0.8, "tie": 0.1, "second": 0.1} if good_first else {"first": 0.1, "tie": 0.1, "second": 0.8}

    samples, _ = rows(1)
    good, bad = (SystemOutputs([], Response(text)) for text in ("good", "bad"))
    with DecisionServer(decide) as server:
        report = prefer(samples, [good], [bad], DecisionCritic("decider", base_url=server.base_url))
        assert len(server.asked) == 2
    assert [query.verdict for query in report.queries] == ["a"]
