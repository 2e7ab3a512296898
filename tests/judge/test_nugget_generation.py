"""Nugget generation and assignment: requests, results and failures."""

from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.errors import AlignmentError, BadValueError, JudgeError
from auepora_eval.judge.critic import JudgePolicy, JudgeRequest
from auepora_eval.judge.nugget_lists import ASSIGNMENTS, Nugget
from auepora_eval.judge.nuggets import assign_nuggets, make_nuggets
from auepora_eval.metrics.citation_support import NuggetRecall, nugget_scores
from helpers.critics import ScriptedBareCritic, ScriptedCritic, framed

NO_RETRY = JudgePolicy(retries=0)


def reply_to(request: JudgeRequest) -> Any:
    """Every document is a fact; those with an exclamation mark are vital. An answer has what it contains."""
    if "nuggets" in request.schema["properties"]:
        return {"nuggets": [*framed(request.prompt, "fact"), *framed(request.prompt, "documents")]}
    if "grades" in request.schema["properties"]:
        facts = enumerate(framed(request.prompt, "fact"), 1)
        return {"grades": [{"number": n, "importance": "vital" if "!" in one else "okay"} for n, one in facts]}
    (answer,) = framed(request.prompt, "evidence")
    numbered = enumerate(framed(request.prompt, "statement"), 1)
    return {"verdicts": [{"number": n, "why": "", "verdict": "full" if s in answer else "none"} for n, s in numbered]}


def asked(number: int, *texts: str, levels: dict[int, int] | None = None) -> EvaluationSample:
    levels = levels or {}
    found = [Document(f"d{n}", text, {"relevance": levels.get(n, 1)}) for n, text in enumerate(texts)]
    return EvaluationSample(str(number), f"What of {number}?", relevant_docs=found)


def test_documents_are_processed_in_batches_and_vital_facts_come_first() -> None:
    critic = ScriptedCritic(reply_to)
    made = make_nuggets([asked(1, "a", "b!", " A ", "c", "")], critic, at_a_time=2)
    (topic,) = made.topics
    assert topic.nuggets == (Nugget("b!", "vital"), Nugget("a", "okay"), Nugget("c", "okay"))
    assert (topic.qid, topic.query, made.failed) == ("1", "What of 1?", {})
    lists = [one for one in critic.asked if one.prompt_id.startswith("nuggets/1/")]
    assert [framed(one.prompt, "documents") for one in lists] == [["a", "b!"], [" A ", "c"]]
    assert [framed(one.prompt, "fact") for one in lists] == [[], ["a", "b!"]]
    grades = [one for one in critic.asked if one.prompt_id.startswith("nugget_importance/1/")]
    assert sorted(framed(one.prompt, "fact") for one in grades) == [["a", "b!"], ["c"]]
    assert {one.sample_id for one in critic.asked} == {"1"}


def test_no_more_facts_than_asked_for_are_kept() -> None:
    (topic,) = make_nuggets([asked(1, "a", "b", "c!")], ScriptedCritic(reply_to), most=2).topics
    assert [one.text for one in topic.nuggets] == ["a", "b"]


def test_irrelevant_and_empty_documents_are_ignored() -> None:
    samples = [asked(1, "a", "b", levels={1: 0}), asked(2, " "), EvaluationSample("3", "?")]
    made = make_nuggets(samples, ScriptedCritic(reply_to))
    assert [(one.qid, [n.text for n in one.nuggets]) for one in made.topics] == [("1", ["a"])]


def test_nuggets_from_retrieved_documents() -> None:
    output = SystemOutputs([RetrievedDocument(Document("x", "found!"), None, 1)])
    (topic,) = make_nuggets([asked(1, "a")], ScriptedCritic(reply_to), outputs=[output]).topics
    assert topic.nuggets == (Nugget("found!", "vital"),)


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"nuggets": "a"}, "no list of facts"),
    ({"nuggets": [1]}, "facts that are no texts"),
    ({"grades": []}, "too few grades"),
    ({"grades": [{"number": 2, "importance": "vital"}]}, "a grade of another fact"),
    ({"grades": [{"number": 1, "importance": "big"}]}, "no grade"),
    ({"grades": ["vital"]}, "grades without numbers"),
]


@pytest.mark.parametrize(("reply", "why"), BROKEN, ids=[row[-1] for row in BROKEN])
def test_a_failed_question_does_not_affect_the_others(reply: dict[str, Any], why: str) -> None:
    def sometimes(request: JudgeRequest) -> Any:
        broken = request.sample_id == "1" and set(reply) <= set(request.schema["properties"])
        return reply if broken else reply_to(request)

    made = make_nuggets([asked(1, "a"), asked(2, "b")], ScriptedCritic(sometimes), judging=NO_RETRY)
    assert ([one.qid for one in made.topics], made.failed) == (["2"], {"1": "unparseable"})


def test_invalid_arguments() -> None:
    with pytest.raises(BadValueError, match="replies with objects"):
        make_nuggets([asked(1, "a")], ScriptedBareCritic(lambda *_: 1.0))
    with pytest.raises(BadValueError, match="most must be"):
        make_nuggets([asked(1, "a")], ScriptedCritic(reply_to), most=0)
    with pytest.raises(AlignmentError):
        make_nuggets([asked(1, "a")], ScriptedCritic(reply_to), outputs=[])
    with pytest.raises(AlignmentError):
        assign_nuggets([asked(1, "a")], [], ScriptedCritic(reply_to))


def with_facts(number: int, *facts: str) -> EvaluationSample:
    nuggets = [{"text": one, "importance": "vital" if "!" in one else "okay"} for one in facts]
    return EvaluationSample(str(number), f"What of {number}?", metadata={"nuggets": nuggets} if facts else {})


def test_nuggets_are_assigned_as_by_the_metric() -> None:
    samples = [with_facts(1, "a!", "b", "c!"), with_facts(2, "d!"), with_facts(3), with_facts(4, "e!")]
    answers = [
        SystemOutputs([], Response("It is a! and b.")),
        SystemOutputs([], error="timeout"),
        SystemOutputs([], Response("x")),
        None,
    ]
    critic = ScriptedCritic(reply_to)
    found = assign_nuggets(samples, answers, critic, run_id="r1", at_a_time=2)
    assert [(one.qid, [n.assignment for n in one.nuggets]) for one in found.topics] == [
        ("1", ["support", "support", "not_support"]),
        ("2", ["not_support"]),
        ("4", ["not_support"]),
    ]
    assert dict(found.topics[0].extra) == {"answer_text": "It is a! and b.", "response_length": 5, "run_id": "r1"}
    assert len(critic.asked) == 2
    (result,) = evaluate(samples, answers, [NuggetRecall(critic)])
    scores = [
        nugget_scores([(n.importance, ASSIGNMENTS[n.assignment or ""]) for n in one.nuggets])["vital_strict"]
        for one in found.topics
    ]
    assert [score for score in result.scores or () if score is not None] == scores == [0.5, 0.0, 0.0]


def test_failed_assignments_are_named() -> None:
    samples = [with_facts(1, "a!"), with_facts(2, "b!")]
    answers = [SystemOutputs([], Response("a!")), SystemOutputs([], Response("b!"))]

    def sometimes(request: JudgeRequest) -> Any:
        return JudgeError("refused", "no") if request.sample_id == "2" else reply_to(request)

    found = assign_nuggets(samples, answers, ScriptedCritic(sometimes), judging=NO_RETRY)
    assert ([one.qid for one in found.topics], found.failed) == (["1"], {"2": "refused"})
