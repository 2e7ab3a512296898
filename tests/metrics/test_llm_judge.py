"""Faithfulness and quality as a judge sees them: exact values with scripted critics, failures, repeats, weights."""

import math
from typing import Any

import pytest

from auepora_eval import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    metric,
)
from auepora_eval.core.registry import single_specs, spec_of, use_resources
from auepora_eval.engine.evaluate import evaluate_stream
from auepora_eval.errors import AueporaWarning, BadTypeError, BadValueError, DataFileError, JudgeError
from auepora_eval.judge.critic import Judgement, JudgePolicy, JudgeRequest
from auepora_eval.judge.prompting import Prompt
from auepora_eval.metrics.generation_llm_judge import LLMAnswerQuality, LLMCritic, LLMFaithfulnessScore
from helpers.critics import ScriptedBareCritic, ScriptedCritic, by_repeat, by_sample


def asked(
    number: int, answer: str | None = "Paris.", documents: list[str] | None = None, **fields: Any
) -> tuple[EvaluationSample, SystemOutputs]:
    texts = ["Paris is the capital."] if documents is None else documents
    found = [RetrievedDocument(Document(f"d{rank}", text), None, rank) for rank, text in enumerate(texts, 1)]
    sample = EvaluationSample(str(number), f"What is capital {number}?", **fields)
    return sample, SystemOutputs(found, None if answer is None else Response(answer))


def result_of(judged: Any, *pairs: tuple[EvaluationSample, SystemOutputs | None], repeats: int = 1) -> MetricResult:
    samples, outputs = zip(*pairs, strict=True)
    return evaluate(list(samples), list(outputs), [judged], judging=JudgePolicy(repeats=repeats))[0]


SCALES = [  # scale, the rating, the score
    ("0-1", 0.25, 0.25),
    ("0-1", 1, 1.0),
    ("1-5", 1, 0.0),
    ("1-5", 4, 3 / 4),
    ("1-5", 5, 1.0),
    ("0-10", 7, 0.7),
]


@pytest.mark.parametrize(("scale", "rating", "want"), SCALES)
def test_judgement_becomes_a_score_between_0_and_1(scale: str, rating: float, want: float) -> None:
    structured = LLMFaithfulnessScore(ScriptedCritic(lambda _: rating), scale=scale)
    bare = LLMFaithfulnessScore(ScriptedBareCritic(lambda *_: rating), scale=scale)
    assert result_of(structured, asked(0)).value == want
    assert result_of(bare, asked(0)).value == want


def test_value_is_the_mean_over_samples() -> None:
    critic = ScriptedCritic(by_sample({"0": 5, "1": 2, "2": 2}))
    result = result_of(LLMFaithfulnessScore(critic, scale="1-5"), asked(0), asked(1), asked(2))
    assert list(result.scores or ()) == [1.0, 1 / 4, 1 / 4]
    assert result.value == 1.5 / 3
    assert result.interval is not None


RANGE = [  # the rating, the reason
    (1889, "out_of_range"),
    (0, "out_of_range"),
    (5.0001, "out_of_range"),
    (math.nan, "unparseable"),
    (math.inf, "unparseable"),
    ("four", "unparseable"),
    (None, "unparseable"),
    (True, "unparseable"),
]


@pytest.mark.parametrize(("rating", "reason"), RANGE)
def test_rating_outside_the_scale_is_not_a_judgement(rating: Any, reason: str) -> None:
    critic = ScriptedCritic(lambda request: 5 if request.sample_id == "0" else Judgement({"score": rating}))
    with pytest.warns(AueporaWarning, match=f"no judgement \\({reason}\\)"):
        result = result_of(LLMFaithfulnessScore(critic, scale="1-5"), asked(0), asked(1))
    assert result.outcomes == ["scored", f"measure_failed:{reason}"]
    assert (result.value, result.details["bounds"]) == (1.0, [0.5, 1.0])


def test_bare_critic_that_raises_fails_only_that_sample() -> None:
    def rate(prompt: str, metadata: dict[str, Any]) -> float:
        if metadata["sample_id"] == "1":
            raise RuntimeError("no more credit")
        return 0.5

    with pytest.warns(AueporaWarning, match="critic_raised"):
        result = result_of(LLMFaithfulnessScore(ScriptedBareCritic(rate)), asked(0), asked(1), asked(2))
    assert list(result.scores or ()) == [0.5, None, 0.5]
    assert result.details["failed_critic_raised"] == 1


SETTLED: list[tuple[dict[str, Any], dict[str, Any], str, float | None, str]] = [
    ({}, {"answer": None}, "skipped:no_response", None, "no answer was asked for"),
    ({}, {"answer": " \n"}, "skipped:empty_answer", None, "an empty answer claims nothing"),
    ({}, {"documents": []}, "scored", 0.0, "nothing retrieved supports nothing"),
    ({}, {"documents": ["", " "]}, "skipped:no_text", None, "documents without text"),
    ({"k": 1}, {"documents": ["", "text"]}, "skipped:no_text", None, "no text within the cut"),
    ({"evidence_source": "relevant"}, {}, "skipped:no_gold", None, "relevant documents not annotated"),
    ({"evidence_source": "relevant"}, {"relevant_docs": []}, "skipped:empty_gold", None, "nothing is relevant"),
    ({"evidence_source": "relevant"}, {"relevant_docs": [Document("d")]}, "skipped:no_text", None, "gold by id alone"),
]


@pytest.mark.parametrize(("options", "fields", "outcome", "value", "why"), SETTLED, ids=[row[-1] for row in SETTLED])
def test_no_request_if_the_outcome_is_known(
    options: dict[str, Any], fields: dict[str, Any], outcome: str, value: float | None, why: str
) -> None:
    critic = ScriptedCritic(lambda _: 1)
    sample, output = asked(0, **fields)
    other, answered = asked(1, relevant_docs=[Document("d", "It is Paris.")])
    result = result_of(LLMFaithfulnessScore(critic, **options), (sample, output), (other, answered))
    assert result.outcomes is not None
    assert result.scores is not None
    assert (result.outcomes[0], result.scores[0]) == (outcome, value)
    assert [request.sample_id for request in critic.asked] == ["1"]


def test_failed_system_counts_at_the_worst_value_and_is_not_judged() -> None:
    critic = ScriptedCritic(lambda _: {"relevance": 5, "helpfulness": 5, "clarity": 3})
    sample, _ = asked(1)
    failed = SystemOutputs([], error="timeout")
    result = result_of(LLMAnswerQuality(critic), asked(0), (sample, failed), (EvaluationSample("2", "?"), None))
    assert list(result.scores or ()) == [pytest.approx(5 / 6), 0.0, 0.0]
    assert result.details["dimensions"] == {"relevance": 1 / 3, "helpfulness": 1 / 3, "clarity": 0.5 / 3}
    assert len(critic.asked) == 1


def test_judge_sees_question_answer_and_the_evidence_asked_for() -> None:
    critic = ScriptedCritic(lambda _: 1)
    pair = asked(0, "Paris!", ["one", "two", "three"], history=[{"role": "user", "content": "Hello."}])
    result_of(LLMFaithfulnessScore(critic, k=2), pair)
    (request,) = critic.asked
    for text in ("What is capital 0?", "Paris!", "\none\n", "\ntwo\n", "user: Hello."):
        assert text in request.prompt
    assert "three" not in request.prompt
    assert (request.metric, request.sample_id, request.repeat) == ("llm_faithfulness", "0", 0)
    assert request.schema["properties"]["score"] == {"type": "number", "minimum": 0.0, "maximum": 1.0}
    assert list(request.schema["properties"]) == ["rationale", "score"]
    result_of(LLMFaithfulnessScore(critic, "relevant"), asked(0, relevant_docs=[Document("g", "the gold one")]))
    assert "the gold one" in critic.asked[-1].prompt


def test_bare_critic_gets_instructions_in_the_prompt_and_the_scale_as_metadata() -> None:
    critic = ScriptedBareCritic(lambda *_: 3)
    result_of(LLMAnswerQuality(critic, ["clarity", "relevance"]), asked(0))
    (prompt, metadata), (_, other) = sorted(critic.asked, key=lambda one: str(one[1]["dimension"]))
    assert "You judge answers" in prompt
    assert "Reply with the score alone" in prompt
    assert metadata == {"scale": "1-5", "metric": "llm_answer_quality", "sample_id": "0", "dimension": "clarity"}
    assert other["dimension"] == "relevance"
    assert "- clarity:" in prompt
    assert "- relevance:" not in prompt


def test_bare_critic_gets_one_question_from_0_to_1() -> None:
    for kind in (LLMFaithfulnessScore, LLMAnswerQuality):
        critic = ScriptedBareCritic(lambda *_: 0.25)
        chosen: Any = kind(critic)
        result = result_of(chosen, asked(0))
        assert (result.value, "dimensions" in result.details) == (0.25, False)
        ((prompt, metadata),) = critic.asked
        assert metadata == {"scale": "0-1", "metric": chosen.name, "sample_id": "0"}
        assert "a number from 0 (worst) to 1 (best)" in prompt
    assert "How well does the answer address what was asked?" in prompt
    assert "relevance" not in prompt
    assert str(chosen.signature).split("|")[3:] == ["scale:0-1", "question:one", "v1"]


BY_OPTION: list[tuple[dict[str, Any], str, list[str | None], str]] = [
    ({"scale": "1-5"}, "1-5", [None], "another scale, still one question"),
    ({"dimensions": ["clarity"]}, "1-5", ["clarity"], "a dimension"),
    ({"dimensions": ["relevance", "helpfulness", "clarity"]}, "1-5", ["clarity", "helpfulness", "relevance"], "the usual dimensions"),
    ({"dimensions": ["clarity"], "scale": "0-1"}, "0-1", ["clarity"], "a dimension from 0 to 1"),
    ({"aggregation": "min"}, "1-5", ["clarity", "helpfulness", "relevance"], "the weakest dimension"),
    ({"weights": [1, 1, 2]}, "1-5", ["clarity", "helpfulness", "relevance"], "weights"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "scale", "dimensions", "why"), BY_OPTION, ids=[row[-1] for row in BY_OPTION])
def test_options_request_dimensions_from_a_bare_critic(
    options: Any, scale: str, dimensions: list[str | None], why: str
) -> None:
    critic = ScriptedBareCritic(lambda *_: 1)
    result_of(LLMAnswerQuality(critic, **options), asked(0))
    assert {metadata["scale"] for _, metadata in critic.asked} == {scale}
    assert sorted((metadata.get("dimension") for _, metadata in critic.asked), key=str) == dimensions


def test_scores_that_are_all_the_lowest_hint_at_another_scale() -> None:
    pairs = [asked(place) for place in range(6)]
    samples, outputs = [sample for sample, _ in pairs], [output for _, output in pairs]
    rows: list[tuple[ScriptedBareCritic, dict[str, Any], list[str]]] = [
        (ScriptedBareCritic(lambda *_: 1), {"scale": "1-5"}, ["bottom of the scale 1-5; the critic may use another"]),
        (ScriptedBareCritic(lambda *_: 0), {}, ["bottom of the scale 0-1; the critic may use another"]),
        (ScriptedBareCritic(lambda _, about: float(about["sample_id"] == "3")), {}, []),
    ]
    for critic, options, found in rows:
        warned = evaluate(samples, outputs, [LLMAnswerQuality(critic, **options)]).warnings
        assert [part in text for part, text in zip(found, warned, strict=True)] == [True] * len(found)


ANSWER = {"relevance": 5, "helpfulness": 3, "clarity": 1}
AGGREGATIONS: list[tuple[dict[str, Any], float, str]] = [
    ({}, 0.5, "the mean of 1, 1/2 and 0"),
    ({"aggregation": "min"}, 0.0, "the weakest"),
    ({"weights": [2, 1, 1]}, 2.5 / 4, "weights make it weighted"),
    ({"weights": {"clarity": 0, "relevance": 1, "helpfulness": 1}}, 0.75, "weights by name"),
    ({"weights": [1, 0, 0], "aggregation": "weighted"}, 1.0, "a weight of 0 leaves a dimension out"),
    ({"dimensions": ["helpfulness", "relevance"]}, 0.75, "two dimensions"),
]


@pytest.mark.parametrize(("options", "want", "why"), AGGREGATIONS, ids=[row[-1] for row in AGGREGATIONS])
def test_dimensions_are_put_together(options: dict[str, Any], want: float, why: str) -> None:
    structured = ScriptedCritic(lambda _: ANSWER)
    bare = ScriptedBareCritic(lambda _, metadata: ANSWER[metadata["dimension"]])
    for critic, asks in ((structured, options), (bare, {"dimensions": list(ANSWER), **options})):
        assert result_of(LLMAnswerQuality(critic, **asks), asked(0)).value == want
    assert len(structured.asked) == 1  # all dimensions at once
    assert len(bare.asked) == len(options.get("dimensions", ANSWER))


def test_mean_of_each_dimension_for_slices() -> None:
    critic = ScriptedCritic(by_sample({"0": {"relevance": 5, "clarity": 1}, "1": {"relevance": 3, "clarity": 3}}))
    pairs = [asked(0, labels={"l": "x"}), asked(1, labels={"l": "y"})]
    samples, outputs = zip(*pairs, strict=True)
    quality = LLMAnswerQuality(critic, ["relevance", "clarity"])
    (result,) = evaluate(samples, outputs, [quality], slices=["labels.l"])
    assert result.details["dimensions"] == {"relevance": 0.75, "clarity": 0.25}
    assert result.slices["labels.l"]["x"].details["dimensions"] == {"relevance": 1.0, "clarity": 0.0}
    assert result.slices["labels.l"]["y"].details["dimensions"] == {"relevance": 0.5, "clarity": 0.5}


def test_empty_answer_is_a_bad_one_and_needs_no_judge() -> None:
    critic = ScriptedCritic(lambda _: ANSWER)
    result = result_of(LLMAnswerQuality(critic), asked(0, " "), asked(1))
    assert list(result.scores or ()) == [0.0, 0.5]
    assert result.details["dimensions"]["relevance"] == 0.5
    assert len(critic.asked) == 1


def test_one_dimension_that_fails_fails_the_judgement() -> None:
    def rate(request: JudgeRequest) -> Any:
        return Judgement({"relevance": 5, "clarity": 9})

    with pytest.warns(AueporaWarning, match="out_of_range"):
        result = result_of(LLMAnswerQuality(ScriptedCritic(rate), ["relevance", "clarity"]), asked(0))
    assert result.outcomes == ["measure_failed:out_of_range"]


# --- repeats ----------------------------------------------------------------------------------------------------------


def test_repeats_are_averaged_and_their_spread_is_in_the_details() -> None:
    critic = ScriptedCritic(by_repeat({"0": [0.2, 0.4, 0.6], "1": [0.9, 0.9, 0.9], "2": [0.1, 0.3, 0.2]}))
    result = result_of(LLMFaithfulnessScore(critic), asked(0), asked(1), asked(2), repeats=3)
    assert list(result.scores or ()) == pytest.approx([0.4, 0.9, 0.2])
    # Squared deviations within samples: .04 + 0 + .04, then 0, then .01 + .01 + 0, over 3 * (3 - 1).
    pooled = (0.08 + 0.0 + 0.02) / 6
    # The variance of .4, .9, .2 around .5: .01 + .16 + .09 over 2.
    between = 0.26 / 2
    assert result.details["judge"] == {
        "repeats": 3,
        "num_judgements": 9,
        "num_failed": 0,
        "sd_within_samples": pytest.approx(math.sqrt(pooled)),
        "share_of_variance": pytest.approx(pooled / 3 / between),
        "error_of_mean": pytest.approx(math.sqrt(3 * pooled / 3) / 3),
    }


def test_failed_repeats_are_counted_and_the_others_kept() -> None:
    lost = JudgeError("unparseable")
    critic = ScriptedCritic(by_repeat({"0": [1, lost, 0], "1": [lost, lost, 1], "2": [lost, lost, lost]}))
    with pytest.warns(AueporaWarning, match="unparseable"):
        result = result_of(LLMFaithfulnessScore(critic), asked(0), asked(1), asked(2), repeats=3)
    assert list(result.scores or ()) == [0.5, 1.0, None]
    assert result.outcomes is not None
    assert result.outcomes[2] == "measure_failed:unparseable"
    judge_details = result.details["judge"]
    assert (judge_details["num_judgements"], judge_details["num_failed"]) == (3, 3)
    assert judge_details["sd_within_samples"] == pytest.approx(
        math.sqrt(0.5)
    )  # of 1 and 0, which have one degree of freedom


def test_judge_that_always_agrees_with_itself_has_no_spread() -> None:
    critic = ScriptedCritic(by_sample({"0": 1, "1": 0}))
    judge_details = result_of(LLMFaithfulnessScore(critic), asked(0), asked(1), repeats=2).details["judge"]
    assert (judge_details["sd_within_samples"], judge_details["share_of_variance"], judge_details["error_of_mean"]) == (
        0.0,
        0.0,
        0.0,
    )


def test_each_repeat_is_a_question_of_its_own() -> None:
    critic = ScriptedCritic(lambda _: 1)
    result_of(LLMFaithfulnessScore(critic), asked(0), repeats=3)
    assert sorted(request.repeat for request in critic.asked) == [0, 1, 2]
    assert len({request.prompt for request in critic.asked}) == 1


def test_spread_of_a_slice_and_of_a_stream() -> None:
    critic = ScriptedCritic(by_repeat({"0": [0, 1], "1": [0.5, 0.5]}))
    pairs = [asked(0, labels={"l": "x"}), asked(1, labels={"l": "y"})]
    samples, outputs = zip(*pairs, strict=True)
    policy, judged = JudgePolicy(repeats=2), LLMFaithfulnessScore(critic)
    (result,) = evaluate(samples, outputs, [judged], slices=["labels.l"], judging=policy)
    groups = result.slices["labels.l"]
    assert groups["x"].details["judge"]["sd_within_samples"] == pytest.approx(math.sqrt(0.5))
    assert groups["y"].details["judge"]["sd_within_samples"] == 0.0
    (streamed,) = evaluate_stream(iter(pairs), [judged], batch_size=1, keep_scores=False, judging=policy)
    assert streamed.details == result.details


def test_spread_is_that_of_the_combined_dimensions() -> None:
    critic = ScriptedCritic(by_repeat({"0": [{"relevance": 5, "clarity": 1}, {"relevance": 1, "clarity": 5}]}))
    result = result_of(LLMAnswerQuality(critic, ["relevance", "clarity"]), asked(0), repeats=2)
    assert result.details["dimensions"] == {"relevance": 0.5, "clarity": 0.5}
    assert result.details["judge"]["sd_within_samples"] == 0.0


# --- probabilities ----------------------------------------------------------------------------------------------------


def test_weighted_mean_replaces_the_label() -> None:
    replies = {
        "0": Judgement({"score": 4}, weighted=4.2, mass=0.99),
        "1": Judgement({"score": 2}, weighted=None, mass=0.5),
        "2": Judgement({"score": 5}),
    }
    critic = ScriptedCritic(by_sample({**replies}), logprobs=True)
    result = result_of(LLMFaithfulnessScore(critic, scale="1-5"), asked(0), asked(1), asked(2))
    assert list(result.scores or ()) == [pytest.approx(0.8), 0.25, 1.0]
    assert {request.weighted for request in critic.asked} == {"score"}
    assert result.details["judge"] == {
        "num_weighted": 1,
        "num_unweighted": 2,
        "mean_mass": pytest.approx((0.99 + 0.5) / 2),
    }


def test_judge_with_probabilities_rates_one_dimension_at_a_time() -> None:
    critic = ScriptedCritic(lambda request: Judgement({"score": 3}, weighted=3.4, mass=1.0), logprobs=True)
    result = result_of(LLMAnswerQuality(critic), asked(0))
    assert result.value == pytest.approx(0.6)
    assert [request.metadata["dimension"] for request in critic.asked] == ["relevance", "helpfulness", "clarity"]
    assert result.details["judge"]["num_weighted"] == 3


def test_numbers_between_labels_have_no_probabilities_to_weigh() -> None:
    critic = ScriptedCritic(lambda _: 0.5, logprobs=True)
    result = result_of(LLMFaithfulnessScore(critic, scale="0-1"), asked(0))
    assert critic.asked[0].weighted is None
    assert "judge" not in result.details


# --- options, signatures, errors --------------------------------------------------------------------------------------


def test_signature_shows_the_judge_and_its_options() -> None:
    critic = ScriptedCritic(lambda _: 1, name="model|x")
    shown = LLMFaithfulnessScore(critic, k=3).signature.options
    assert shown["critic"] == "model/x"
    assert shown["prompt"].startswith("faithfulness/1/")
    assert (shown["scale"], shown["evidence"], shown["k"]) == ("0-1", "retrieved", "3")
    quality = LLMAnswerQuality(critic, ["clarity", "tone: is it friendly?"], [1, 0.5], rationale=False)
    other = LLMAnswerQuality(critic, ["clarity", "tone: is it stern?"], [1, 0.5])
    assert quality.signature.options["weights"] == "1,0.5"
    assert quality.signature.differences(other.signature) == ["rationale", "dimensions"]


def test_another_prompt_changes_the_signature(tmp_path: Any) -> None:
    text = "{{question}} {{answer}} {{evidence}} {{scale}} {{form}}"
    path = tmp_path / "mine.md"
    path.write_text(f"---\nname: mine\nversion: 7\n---\n{text}\n")
    one = LLMFaithfulnessScore(prompt=str(path))
    assert one.signature.options["prompt"].startswith("mine/7/")
    assert one.signature.differences(LLMFaithfulnessScore().signature) == ["prompt"]
    assert spec_of(one) == {"llm_faithfulness": {"prompt": str(path)}}
    ((stored, _),) = single_specs({"llm_faithfulness": {"prompt": str(path)}})
    path.write_text(f"---\nname: mine\nversion: 7\n---\n{text} really\n")
    assert LLMFaithfulnessScore(prompt=str(path)) != one
    ((again, built),) = single_specs(stored)
    assert isinstance(built, LLMFaithfulnessScore)
    assert (again, str(built.signature)) == (stored, str(one.signature))  # it has the text, not only the path
    critic = ScriptedCritic(lambda _: 1)
    result_of(LLMFaithfulnessScore(critic, prompt=Prompt.parse(text)), asked(0))
    assert critic.asked[0].prompt_id.startswith("prompt/1/")


def test_metric_without_a_critic_raises_when_used() -> None:
    for name in ("llm_faithfulness", "llm_answer_quality"):
        built = metric(name)
        assert (built.name, "critic:none" in str(built.signature)) == (name, True)  # type: ignore[attr-defined]
        with pytest.raises(BadValueError, match=f"metric '{name}' needs a critic: pass critic="):
            result_of(built, asked(0))


def test_plan_names_its_judge() -> None:
    critic = ScriptedCritic(lambda _: 0.75)
    spec = {"llm_faithfulness": {"critic": {"use": "judge"}}}
    with use_resources({"judge": critic}):
        built = metric(spec)
    assert spec_of(built) == spec
    assert result_of(built, asked(0)).value == 0.75
    assert "critic:scripted" in str(built.signature)  # type: ignore[attr-defined]
    absent = metric(spec)
    assert "critic:resource judge" in str(absent.signature)  # type: ignore[attr-defined]
    with pytest.raises(BadValueError, match="the resource 'judge' of a plan, which is not available"):
        result_of(absent, asked(0))
    with use_resources({"judge": "a text"}), pytest.raises(BadTypeError, match="must be an LLMCritic"):
        result_of(metric(spec), asked(0))


def test_critic_in_python_has_no_spec() -> None:
    with pytest.raises(TypeError, match="as 'critic', which a spec cannot contain"):
        spec_of(LLMFaithfulnessScore(ScriptedCritic(lambda _: 1)))


def test_metric_interface_is_importable() -> None:
    from auepora_eval.judge import critic

    assert LLMCritic is critic.LLMCritic
    with pytest.raises(TypeError):
        LLMCritic()  # type: ignore[abstract]


WRONG: list[tuple[type, dict[str, Any], type[Exception], str]] = [
    (LLMFaithfulnessScore, {"critic": "gpt"}, BadTypeError, "critic must be an LLMCritic"),
    (LLMFaithfulnessScore, {"evidence_source": "relevant", "k": 3}, BadValueError, "means nothing"),
    (LLMFaithfulnessScore, {"scale": "5-1"}, BadValueError, "to a larger one"),
    (LLMFaithfulnessScore, {"scale": "good"}, BadValueError, "written '0-1' or '1-5'"),
    (LLMFaithfulnessScore, {"prompt": "nowhere.md"}, DataFileError, "nowhere.md: the prompt cannot be read"),
    (LLMFaithfulnessScore, {"prompt": 5}, BadTypeError, "the path of a file or a Prompt"),
    (LLMAnswerQuality, {"dimensions": []}, BadValueError, "one name or more"),
    (LLMAnswerQuality, {"dimensions": ["clarity", "clarity"]}, BadValueError, "each once"),
    (LLMAnswerQuality, {"dimensions": ["clraity"]}, BadValueError, "did you mean 'clarity'"),
    (LLMAnswerQuality, {"dimensions": ["score: x"]}, BadValueError, "cannot be called 'score'"),
    (LLMAnswerQuality, {"dimensions": ["Big Word: x"]}, BadValueError, "cannot be called"),
    (LLMAnswerQuality, {"dimensions": [5]}, BadTypeError, "a dimension is a name"),
    (LLMAnswerQuality, {"dimensions": 5}, BadTypeError, "a list of names"),
    (LLMAnswerQuality, {"weights": [1, 2]}, BadValueError, "3 numbers, one per dimension"),
    (LLMAnswerQuality, {"weights": [0, 0, 0]}, BadValueError, "above 0"),
    (LLMAnswerQuality, {"weights": [1, -1, 1]}, BadValueError, ">= 0"),
    (LLMAnswerQuality, {"weights": {"clarity": 1}}, BadValueError, "every dimension once"),
    (LLMAnswerQuality, {"aggregation": "weighted"}, BadValueError, "needs 'weights'"),
    (LLMAnswerQuality, {"aggregation": "min", "weights": [1, 1, 1]}, BadValueError, "mean nothing"),
]


@pytest.mark.parametrize(("cls", "options", "error", "message"), WRONG, ids=[str(row[1]) for row in WRONG])
def test_invalid_options(cls: type, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cls(**options)


def test_dimensions_may_be_a_mapping_or_a_list_of_them() -> None:
    listed = LLMAnswerQuality(dimensions=["clarity", {"tone": "is it friendly?"}])
    assert listed == LLMAnswerQuality(dimensions={"clarity": None, "tone": "is it  friendly?"})
    assert listed.dimensions == ("clarity", "tone: is it friendly?")


def test_they_run_only_if_requested() -> None:
    assert not LLMFaithfulnessScore.metadata.suggested
    assert not LLMAnswerQuality.metadata.suggested


def test_judged_metrics_can_be_wrapped() -> None:
    critic = ScriptedCritic(by_sample({"0": 0.8, "1": 0.2}))
    pairs = [asked(0), asked(1, labels={"variant_of": "0", "scenario": "typo"})]
    faithful = LLMFaithfulnessScore(critic)
    robust = metric({"noise_robustness": {"base": faithful}})
    sliced = metric({"sliced": {"base": faithful, "where": {"labels.scenario": "typo"}}})
    samples, outputs = zip(*pairs, strict=True)
    first, second, third = evaluate(samples, outputs, [faithful, robust, sliced])
    assert [first.value, second.value, third.value] == pytest.approx([0.5, 0.25, 0.2])
    assert len(critic.asked) == 2  # each answer is judged once for all three
