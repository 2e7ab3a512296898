"""Recorded and replayed judgements: the same results, and failures for unrecorded requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.errors import AueporaWarning, BadTypeError, DataFileError, JudgeError
from auepora_eval.judge.cache import RecordedCritic, RecordingCritic
from auepora_eval.judge.critic import Critic, Judgement, JudgePolicy, Price, Usage
from auepora_eval.judge.limits import model_name
from auepora_eval.judge.openai import OpenAICritic
from auepora_eval.judge.session import JudgeSession
from auepora_eval.metrics.generation_llm_judge import LLMAnswerQuality, LLMFaithfulnessScore
from helpers.critics import ScriptedBareCritic, ScriptedCritic, SteadyBareCritic, SteadyCritic

SAMPLES = [EvaluationSample(str(number), f"question {number}\ud800\u2028") for number in range(6)]
OUTPUTS: list[SystemOutputs | None] = [
    SystemOutputs([RetrievedDocument(Document("d", "text"), None, 1)], Response(f"answer {number}"))
    for number in range(6)
]


def judged(critic: Any, repeats: int = 2) -> Any:
    metrics = [LLMFaithfulnessScore(critic), LLMAnswerQuality(critic)]
    return evaluate(SAMPLES, OUTPUTS, metrics, judging=JudgePolicy(repeats=repeats))


@pytest.mark.parametrize("critic", [SteadyCritic(), SteadyBareCritic()], ids=["object", "bare"])
def test_a_replay_gives_the_same_results_and_name(critic: Critic, tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    first = judged(RecordingCritic(critic, path))
    replayed = RecordedCritic(path)
    second = judged(replayed)
    assert list(second) == list(first) == list(judged(critic))
    assert [one.signature for one in second] == [one.signature for one in judged(critic)]
    assert len(replayed) == len(path.read_text().splitlines()) == 6 * 2 * 2


def test_a_replay_makes_no_calls(tmp_path: Path) -> None:
    def reply_to(request: Any) -> Any:
        if request.sample_id == "3":
            return JudgeError("content_filter", "not for me")
        return Judgement({"score": 0.5}, usage=Usage(7, 3), repaired=True)

    path = tmp_path / "recorded.jsonl"
    prices = {"scripted": Price(1, 1)}
    rows: list[tuple[Any, dict[str, Any], int]] = [
        (lambda: RecordingCritic(ScriptedCritic(reply_to), path), {}, 11),
        (lambda: RecordedCritic(path), {"max_calls": 1, "max_cost": 0.001}, 0),
    ]
    for make, caps, calls in rows:
        session = JudgeSession(JudgePolicy(prices=prices, **caps))
        with pytest.warns(AueporaWarning, match="content_filter"):
            (result,) = evaluate(SAMPLES, OUTPUTS, [LLMFaithfulnessScore(make())], judging=session)
        assert result.details["num_samples"] == 5
        total = session.usage_log.total
        assert (total.calls, total.prompt_tokens, total.cached) == (calls, 7 * 5 * bool(calls), 5 * (not calls))


def test_a_recording_critic_has_the_price_of_its_critic(tmp_path: Path) -> None:
    inner = OpenAICritic("small", base_url="http://127.0.0.1:9/v1", max_tokens=77)
    recording = RecordingCritic(inner, tmp_path / "recorded.jsonl")
    assert (model_name(recording), recording.max_tokens, recording.calls_at_most) == ("small", 77, 2)


def test_failures_are_replayed_with_their_reason(tmp_path: Path) -> None:
    def reply_to(request: Any) -> Any:
        if request.sample_id == "3":
            return JudgeError("content_filter", "not for me", raw="no")
        return Judgement({"score": 0.5}, usage=Usage(7, 3), raw="0.5", repaired=True)

    path = tmp_path / "recorded.jsonl"
    metric = [LLMFaithfulnessScore(RecordingCritic(ScriptedCritic(reply_to), path))]
    with pytest.warns(AueporaWarning, match="content_filter"):
        (first,) = evaluate(SAMPLES, OUTPUTS, metric)
    with pytest.warns(AueporaWarning, match="content_filter"):
        (second,) = evaluate(SAMPLES, OUTPUTS, [LLMFaithfulnessScore(RecordedCritic(str(path)))])
    assert second == first
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert next(row for row in rows if "answer" in row)["usage"] == [7, 3]
    assert next(row for row in rows if "error" in row)["error"]["raw"] == "no"


def test_the_last_recording_of_a_request_counts(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    for answer in ({"score": 0.1}, {"score": 0.9}):
        recording = RecordingCritic(RecordedCritic({"0": answer}), path)
        evaluate(SAMPLES[:1], OUTPUTS[:1], [LLMFaithfulnessScore(recording)])
    assert evaluate(SAMPLES[:1], OUTPUTS[:1], [LLMFaithfulnessScore(RecordedCritic(path))])[0].value == 0.9


def test_an_unrecorded_request_fails() -> None:
    critic = RecordedCritic({"0": 0.25, "1": {"score": 0.75}, "2": JudgeError("refused"), "3": Judgement({"score": 1})})
    with pytest.warns(AueporaWarning):
        (result,) = evaluate(SAMPLES, OUTPUTS, [LLMFaithfulnessScore(critic)])
    assert list(result.scores or ()) == [0.25, 0.75, None, 1.0, None, None]
    assert result.details["failed_not_recorded"] == 2
    assert result.details["failed_refused"] == 1
    assert critic.name == "recorded"


def test_another_prompt_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    judged(RecordingCritic(SteadyCritic(), path))
    with pytest.warns(AueporaWarning, match="not_recorded"):
        (result,) = evaluate(SAMPLES, OUTPUTS, [LLMFaithfulnessScore(RecordedCritic(path), scale="1-5")])
    assert result.details["failed_not_recorded"] == 6


def test_exceptions_of_a_simple_critic_are_recorded(tmp_path: Path) -> None:
    critic = ScriptedBareCritic(lambda *_: 1 / 0)
    with pytest.warns(AueporaWarning, match="critic_raised"):
        evaluate(SAMPLES[:1], OUTPUTS[:1], [LLMFaithfulnessScore(RecordingCritic(critic, tmp_path / "recorded.jsonl"))])
    assert json.loads((tmp_path / "recorded.jsonl").read_text())["error"]["reason"] == "critic_raised"


BAD = [("{", "not JSON"), ("[]", "an object with 'key'"), ('{"key": "x"}', "an object with 'key'")]


@pytest.mark.parametrize(("line", "message"), BAD)
def test_invalid_recordings(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recorded.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(DataFileError, match=f"recorded.jsonl:2: .*{message}"):
        RecordedCritic(path)
    with pytest.raises(DataFileError, match="no such file"):
        RecordedCritic(tmp_path / "nowhere.jsonl")


def test_only_judgements_can_be_replayed() -> None:
    with pytest.raises(BadTypeError, match="a file or a mapping"):
        RecordedCritic(5)  # type: ignore[arg-type]
    with pytest.raises(BadTypeError, match="an answer or a score"):
        RecordedCritic({"0": "good"})
