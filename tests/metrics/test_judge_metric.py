"""Metrics defined by a prompt: inputs and frames, scales, examples, signatures, errors of options."""

from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, JudgeMetric, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.types import TargetCategory
from auepora_eval.errors import AueporaWarning, BadOptionError, BadValueError
from auepora_eval.judge.critic import JudgeRequest
from auepora_eval.judge.ratings import ClassScale
from helpers.critics import ScriptedBareCritic, ScriptedCritic, framed

SAMPLE = EvaluationSample(
    "1",
    "What is the notice period?",
    relevant_docs=[Document("g1", "Thirty days."), Document("g0", "Nothing.", {"relevance": 0})],
    reference_answers=["30 days", "a month"],
    labels={"tier": "gold"},
    metadata={"year": 2024},
    history=[{"role": "user", "content": "Hello."}],
)
OUTPUT = SystemOutputs(
    [RetrievedDocument(Document(f"d{n}", text), None, n) for n, text in enumerate(["A.", "", "B.", "C."], 1)],
    Response("30 days."),
    steps=[{"query": "notice"}],
)


def judged(critic: Any = None, **options: Any) -> JudgeMetric:
    given = {"name": "mine", "prompt": "Is it right?", **options}
    return JudgeMetric(critic or ScriptedCritic(lambda _: {"score": "yes", "rationale": "so"}), **given)


def request_of(one: JudgeMetric, sample: EvaluationSample = SAMPLE, output: SystemOutputs = OUTPUT) -> JudgeRequest:
    critic = one.critic
    one.compute([sample], [output])
    (request,) = critic.asked
    assert isinstance(request, JudgeRequest)
    return request


INPUTS = [  # input, the frames it becomes, why
    ("question", {"conversation": ["user: Hello."], "question": [SAMPLE.query]}, "with the conversation so far"),
    ("documents", {"documents": ["A.", "B.", "C."]}, "all documents with a text"),
    ("documents@3", {"documents": ["A.", "B."]}, "among the first three"),
    ("answer", {"answer": ["30 days."]}, "the answer"),
    ("reference", {"reference": ["30 days", "a month"]}, "all references"),
    ("gold_documents", {"gold_documents": ["Thirty days."]}, "only what is relevant"),
    ("labels.tier", {"labels_tier": ["gold"]}, "a label"),
    ("metadata.year", {"metadata_year": ["2024"]}, "a number as text"),
    ("steps", {"steps": ['{"query": "notice"}']}, "steps as JSON"),
]


@pytest.mark.parametrize(("given", "want", "why"), INPUTS, ids=[row[2] for row in INPUTS])
def test_each_input_is_a_frame(given: str, want: dict[str, list[str]], why: str) -> None:
    request = request_of(judged(inputs=[given]))
    assert {name: framed(request.prompt, name) for name in want} == want


SCALES = [  # scale, reply, score, why
    ("yes-no", "yes", 1.0, "yes"),
    ("yes-no", "no", 0.0, "no"),
    ({"poor": 0, "fair": 0.25, "good": 1}, "fair", 1 / 4, "the value of the class"),
    ({"good": 1, "poor": 0}, "poor", 0.0, "values in any order"),
    ({True: 0, False: 1}, "yes", 0.0, "YAML reads yes as true"),
    ("1-5", 4, 3 / 4, "a number"),
]


@pytest.mark.parametrize(("scale", "reply", "want", "why"), SCALES, ids=[row[3] for row in SCALES])
def test_reply_becomes_a_score(scale: Any, reply: Any, want: float, why: str) -> None:
    one = judged(ScriptedCritic(lambda _: {"score": reply}), scale=scale)
    result = one.compute([SAMPLE], [OUTPUT])
    assert (result.value, result.details["num_scored"]) == (want, 1)


def test_unknown_class_is_a_failed_measurement() -> None:
    with pytest.warns(AueporaWarning, match="no judgement"):
        result = judged(ScriptedCritic(lambda _: {"score": "perhaps"})).compute([SAMPLE], [OUTPUT])
    assert (result.defined, list(result.outcomes or ())) == (False, ["measure_failed:unparseable"])


def test_critic_with_a_number_gives_the_value_of_a_class() -> None:
    critic = ScriptedBareCritic(lambda *_: 0.5)
    assert judged(critic, scale={"poor": 0, "fair": 0.5, "good": 1}).compute([SAMPLE], [OUTPUT]).value == 1 / 2
    (prompt, metadata) = critic.asked[0]
    assert '0 for "poor", 0.5 for "fair", 1 for "good"' in prompt
    assert metadata["scale"] == "0-1"


EXAMPLE = {"question": "Who?", "answer": "Me.", "reference": "You.", "score": "no", "rationale": "wrong person"}
SKIPPED = [  # changes of the sample, changes of the output, inputs, outcome
    ({"query": " WHO? ", "reference_answers": ["x"]}, {}, ["question", "answer", "reference"], "skipped:in_examples"),
    ({"reference_answers": ["x", "you."]}, {}, ["question", "answer", "reference"], "skipped:in_examples"),
    ({}, {}, ["question", "answer", "reference"], "skipped:no_reference"),
    ({}, {"response": None}, ["question", "answer"], "skipped:no_response"),
    ({}, {"retrieved": [RetrievedDocument(Document("d"), None, 1)]}, ["question", "documents"], "skipped:no_text"),
    ({}, {}, ["gold_documents"], "skipped:no_gold"),
    ({"relevant_docs": []}, {}, ["gold_documents"], "skipped:empty_gold"),
    ({"relevant_docs": [Document("d")]}, {}, ["gold_documents"], "skipped:no_gold_text"),
    ({}, {}, ["labels.tier"], "skipped:no_label"),
    ({}, {}, ["metadata.tier"], "skipped:no_metadata"),
    ({}, {}, ["steps"], "skipped:no_steps"),
    ({}, {}, ["history", "question"], "scored"),
    ({}, {"response": Response("")}, ["question", "documents", "answer"], "scored"),
]


@pytest.mark.parametrize(("sample", "output", "inputs", "want"), SKIPPED, ids=[row[3] for row in SKIPPED])
def test_outcome_of_a_sample_that_lacks_an_input(
    sample: dict[str, Any], output: dict[str, Any], inputs: list[str], want: str
) -> None:
    examples = [EXAMPLE] if inputs == ["question", "answer", "reference"] else []
    result = judged(inputs=inputs, examples=examples).compute(
        [EvaluationSample(**{"sample_id": "1", "query": "What?", **sample})],
        [SystemOutputs(**{"retrieved": [], "response": Response("It."), **output})],
    )
    assert result.outcomes == [want]


def test_examples_are_framed_with_their_reply() -> None:
    request = request_of(judged(inputs=["question", "answer", "reference"], examples=[EXAMPLE]))
    assert framed(request.prompt, "example 1 answer") == ["Me."]
    assert framed(request.prompt, "example 1 reply") == ['{"rationale": "wrong person", "score": "no"}']


def test_prompt_with_slots_decides_where_inputs_stand() -> None:
    request = request_of(judged(prompt="{{answer}}\nanswers\n{{question}}?", inputs=["question", "answer"]))
    assert request.prompt.index("[begin answer") < request.prompt.index("[begin question")
    assert "This is the item to judge" not in request.prompt


BAD = [  # options, the option named, part of the message
    ({"inputs": ["question", "documnts"]}, "inputs[1]", "did you mean 'documents'?"),
    ({"inputs": ["labels"]}, "inputs[0]", "write labels.NAME"),
    ({"inputs": ["answer@3"]}, "inputs[0]", "may follow 'documents' alone"),
    ({"inputs": ["answer", "answer"]}, "inputs", "'answer' is named twice"),
    ({"inputs": []}, "inputs", "give a list"),
    ({"scale": {"poor": None, "good": 1}}, "scale.poor", "the class 'poor' has no value"),
    ({"scale": {"poor": -1, "good": 1}}, "scale.poor", "must be a number from 0 to 1"),
    ({"scale": {"good": 1}}, "scale", "two classes or more"),
    ({"scale": "good-bad"}, "scale", "'good-bad' is not a scale"),
    ({"target": "generation_corectness"}, "target", "did you mean 'generation_correctness'?"),
    ({"prompt": None}, "prompt", "must be a text"),
    ({"prompt": "{{answer}} {{question}} {{documents}}"}, "prompt", "nothing goes into the slot {{documents}}"),
    ({"prompt": "Only {{answer}}"}, "prompt", "not {{question}}"),
    ({"prompt": "{{answer}} {{answer}}"}, "prompt", "comes 2 times"),
    ({"prompt": {"file": "nowhere.md"}}, "prompt", "nowhere.md"),
    ({"examples": [{"question": "a", "score": "yes"}]}, "examples[0]", "lacks 'answer'"),
    ({"examples": [{"question": "a", "answer": "b"}]}, "examples[0]", "lacks 'score'"),
    ({"examples": [{"question": "a", "answer": "b", "score": "maybe"}]}, "examples[0].score", "not on the scale"),
    ({"examples": [{"question": "a", "anser": "b", "score": "no"}]}, "examples[0].anser", "did you mean 'answer'?"),
    ({"examples": [{"question": "a", "answer": 5, "score": "no"}]}, "examples[0].answer", "must be a text"),
    ({"name": ""}, "name", "is missing"),
]


@pytest.mark.parametrize(("options", "option", "message"), BAD, ids=[f"{row[1]}: {row[2]}" for row in BAD])
def test_bad_option_is_named(options: dict[str, Any], option: str, message: str) -> None:
    with pytest.raises(BadOptionError) as caught:
        judged(**options)
    assert caught.value.option == option
    assert message in str(caught.value)


def test_signature_has_everything_that_changes_the_number() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"prompt": "Is it wrong?"},
        {"inputs": ["question", "documents@3", "answer"]},
        {"inputs": ["question", "documents@4", "answer"]},
        {"scale": {"a": 0, "b": 1}},
        {"scale": {"a": 1, "b": 0}},
        {"examples": [{"question": "a", "answer": "b", "score": "yes"}]},
        {"examples": [{"question": "a", "answer": "b", "score": "no"}]},
        {"rationale": False},
    ]
    signatures = [str(judged(**one).signature) for one in options]
    assert len(set(signatures)) == len(signatures)
    assert signatures[2].endswith("|scale:yes-no|inputs:question,documents@3,answer|v1")


TARGETS = [  # inputs, default target
    (["question", "documents"], TargetCategory.RETRIEVAL_RELEVANCE),
    (["question", "answer"], TargetCategory.GENERATION_RELEVANCE),
    (["documents", "answer"], TargetCategory.GENERATION_FAITHFULNESS),
    (["documents", "answer", "reference"], TargetCategory.GENERATION_CORRECTNESS),
]


@pytest.mark.parametrize(("inputs", "want"), TARGETS)
def test_target_follows_from_the_inputs(inputs: list[str], want: TargetCategory) -> None:
    assert judged(inputs=inputs).target is want


def test_unordered_classes_need_a_critic_that_names_them() -> None:
    with pytest.raises(BadValueError, match="its critic replies with a number"):
        judged(ScriptedBareCritic(lambda *_: 1), scale=["a", "b"]).compute([SAMPLE], [OUTPUT])


def test_class_scale_is_written_as_in_a_plan() -> None:
    for option in ("yes-no", {"poor": 0.0, "good": 1.0}, ["a", "b"]):
        assert ClassScale.parse(option).option == option
