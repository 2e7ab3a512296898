"""Control items of judges: how they are built, mixed into batches, counted and compared."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.registry import metric
from auepora_eval.core.results import Results
from auepora_eval.engine.evaluate import evaluate, evaluate_stream
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import BadOptionError, JudgeError
from auepora_eval.judge.controls import ControlSource, compare_controls, control_drift, find_facts
from auepora_eval.judge.critic import JudgePolicy, JudgeRequest
from auepora_eval.judge.metric import JudgedMetric, control_kinds
from auepora_eval.judge.preview import preview
from auepora_eval.render.tables import results_markdown, results_table
from auepora_eval.stats.intervals import wilson_interval
from helpers.critics import ScriptedCritic, framed

FACTS = (
    ("When was the tower built?", "Gustave Eiffel had it built in 1889."),
    ("Who wrote the play?", "It is by William Shakespeare, from about 1600."),
    ("How high is the mountain?", "Its height is 8849 metres."),
    ("Who painted the portrait?", "It was painted by Leonardo da Vinci in 1503."),
    ("When did the war end?", "That was on 8 May 1945 in Berlin."),
    ("How many planets are there?", "Altogether there are 8 planets."),
    ("Where was the treaty signed?", "They signed the document in Lisbon."),
    ("Which river is the longest?", "With 6650 kilometres, people say the Nile."),
)
DOCUMENTS = {f"d{number}": f"{answer} This is known." for number, (_, answer) in enumerate(FACTS)}


def dataset(**changes: Any) -> list[EvaluationSample]:
    return [
        replace(
            EvaluationSample(
                f"q{number}",
                question,
                relevant_docs=[Document(f"d{number}", DOCUMENTS[f"d{number}"])],
                reference_answer=Response(answer),
            ),
            **changes,
        )
        for number, (question, answer) in enumerate(FACTS)
    ]


def answers() -> list[SystemOutputs | None]:
    """Answers of the system, which the scripted judges recognise."""
    return [
        SystemOutputs([RetrievedDocument(Document(f"d{number}", DOCUMENTS[f"d{number}"]), None, 1)], Response("system"))
        for number in range(len(FACTS))
    ]


def judge_of(accepts: Callable[[str, str], bool]) -> ScriptedCritic:
    """A judge that decides by the answer and the evidence it is shown, on any scale."""

    def reply(request: JudgeRequest) -> dict[str, Any]:
        good = accepts(
            "".join(framed(request.prompt, "answer")), " ".join(framed(request.prompt, "(?:evidence|document)"))
        )
        return {
            name: "why" if kind["type"] == "string" else kind["maximum"] if good else kind["minimum"]
            for name, kind in request.schema["properties"].items()
        }

    return ScriptedCritic(reply)


JUDGES = {  # a name, whether an answer is accepted given the evidence, false accepts of 8, false rejects of 8
    "good": (lambda answer, evidence: answer in evidence, 0, 0),
    "accepts everything": (lambda answer, evidence: True, 8, 0),
    "rejects everything": (lambda answer, evidence: False, 0, 8),
    "sees no altered facts": (lambda answer, evidence: answer.split()[0] in evidence, 4, 0),
}


def judged(spec: Any) -> JudgedMetric:
    built = metric(spec)
    assert isinstance(built, JudgedMetric)
    return built


def faithfulness(critic: Any) -> Any:
    return metric({"llm_faithfulness": {"critic": critic, "scale": "1-5"}})


def evaluated(critic: Any, *names: str, controls: int = 16, **policy: Any) -> Results:
    metrics = [faithfulness(critic)] if not names else [metric({name: {"critic": critic}}) for name in names]
    return evaluate(dataset(), answers(), metrics, judging=JudgePolicy(controls=controls, **policy))


# --- rates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JUDGES)
def test_error_rates_of_judges(name: str) -> None:
    accepts, false_accepts, false_rejects = JUDGES[name]
    (result,) = evaluated(judge_of(accepts))
    controls = result.details["controls"]
    for key, errors in (("false_accepts", false_accepts), ("false_rejects", false_rejects)):
        interval = wilson_interval(errors, 8)
        want = {"errors": errors, "n": 8, "rate": errors / 8, "interval": [interval.low, interval.high]}
        assert controls[key] == want
    assert controls["usable"] is (false_accepts / 8 <= 0.2)
    assert controls["accepted"] == "score >= 0.5"
    assert (result.details["num_samples"], len(result.scores or ())) == (8, 8)  # controls are no samples
    unusable = [one for one in evaluated(judge_of(accepts)).warnings if "not usable" in one]
    assert len(unusable) == (not controls["usable"])
    for text in (results_table, results_markdown):
        assert ("not usable" in text(evaluated(judge_of(accepts)))) == (not controls["usable"])


def test_altered_facts_are_counted_by_kind() -> None:
    accepts, _, _ = JUDGES["sees no altered facts"]
    kinds = evaluated(judge_of(accepts))[0].details["controls"]["kinds"]
    assert {kind: (one["errors"], one["n"]) for kind, one in kinds.items()} == {
        "other_answer": (0, 4),
        "altered_fact": (4, 4),
        "reference": (0, 8),
    }


@pytest.mark.parametrize(("bad", "usable"), [(1, True), (2, False)])
def test_limit_of_usable_judges(bad: int, usable: bool) -> None:
    # 1 of 8 is below 20 %, 2 of 8 is above.
    order: list[str] = []

    def accepts(answer: str, evidence: str) -> bool:
        if answer not in evidence and answer != "system":
            order.append(answer)
        return answer in evidence or (answer != "system" and len(order) <= bad)

    assert evaluated(judge_of(accepts))[0].details["controls"]["usable"] is usable


def test_lower_is_better_turns_the_verdict() -> None:
    def reply(request: JudgeRequest) -> dict[str, Any]:
        if "claims" in request.schema["properties"]:
            return {"claims": ["one claim"]}
        return {"verdicts": [{"number": 1, "rationale": "", "verdict": "none"}]}

    details = evaluated(ScriptedCritic(reply), "claim_hallucination")[0].details
    # Nothing is supported, so every claim is made up: the score 1 is the worst, and everything is rejected.
    assert details["controls"]["accepted"] == "score <= 0.5"
    assert details["controls"]["false_rejects"]["rate"] == 1.0
    assert "altered_fact" not in details["controls"]["kinds"]  # one wrong claim among several


def test_failed_controls_are_counted_apart() -> None:
    def reply(request: JudgeRequest) -> dict[str, Any]:
        if framed(request.prompt, "answer") != ["system"]:
            raise JudgeError("unparseable", "no number")
        return {"score": 5, "rationale": ""}

    results = evaluated(ScriptedCritic(reply))
    controls = results[0].details["controls"]
    assert (controls["num_items"], controls["num_failed"], controls["usable"]) == (16, 16, None)
    assert controls["false_accepts"] == {"errors": 0, "n": 0, "rate": None, "interval": None}
    assert results[0].details["num_failed"] == 0
    assert any("16 of 16 control items of llm_faithfulness were not judged" in one for one in results.warnings)


# --- which controls apply --------------------------------------------------------------------------------------------

APPLIES = {
    "llm_faithfulness": {"other_answer", "altered_fact", "reference"},
    "llm_answer_quality": {"other_answer", "reference"},
    "claim_faithfulness": {"other_answer", "reference"},
    "claim_recall": {"other_answer", "reference"},
    "claim_context_recall": {"other_documents", "gold_documents"},
    "judged_context_precision": {"other_documents", "gold_documents"},
    "judged_context_relevance": {"other_documents"},
    "citation_support_recall": set(),
    "self_knowledge": set(),
    "noise_sensitivity": set(),
    "reverse_question_relevance": set(),
    "llm_correctness": {"other_answer", "altered_fact", "reference"},
    "llm_answer_relevance": {"other_answer", "reference"},
    "llm_context_sufficiency": {"other_documents", "gold_documents"},
    "llm_refusal": {"refusal", "reference"},
    "rubric_score": {"other_answer"},
    "rubric_required": set(),
}


@pytest.mark.parametrize("name", APPLIES)
def test_kinds_of_a_metric(name: str) -> None:
    assert set(control_kinds(judged(name))) == APPLIES[name]


def test_metrics_without_controls_give_the_reason() -> None:
    results = evaluated(judge_of(lambda answer, evidence: True), "citation_support_recall")
    assert results[0].details["controls"]["unavailable"] == {
        "all": "no item has a verdict that is certain under this metric"
    }
    assert any("no item has a verdict" in one for one in results.warnings)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"reference_answer": None}, {"other_answer", "altered_fact", "reference"}),
        ({"relevant_docs": None}, {"other_answer", "altered_fact", "reference"}),
        ({"reference_answer": Response("I don't know.")}, {"other_answer", "altered_fact", "reference"}),
    ],
    ids=["no references", "no documents for a metric that reads them", "references that decline"],
)
def test_controls_that_cannot_be_built(changes: dict[str, Any], missing: set[str]) -> None:
    critic = judge_of(lambda answer, evidence: True)
    results = evaluate(dataset(**changes), answers(), [faithfulness(critic)], judging=JudgePolicy(controls=8))
    controls = results[0].details["controls"]
    assert set(controls["unavailable"]) == missing
    assert controls["num_items"] == 0
    assert len(critic.asked) == 8


def test_missing_kinds_are_replaced_by_others() -> None:
    plain = [
        replace(one, reference_answer=Response(f"it is {word}"))
        for one, word in zip(dataset(), "abcdefgh", strict=True)
    ]
    critic = judge_of(lambda answer, evidence: False)
    controls = evaluate(plain, answers(), [faithfulness(critic)], judging=JudgePolicy(controls=8))[0].details[
        "controls"
    ]
    assert {kind: one["n"] for kind, one in controls["kinds"].items()} == {"other_answer": 4, "reference": 4}
    assert controls["unavailable"]["altered_fact"].startswith("none of 2: each needs")


# --- items -----------------------------------------------------------------------------------------------------------

FACT_ROWS = [  # text, facts, why
    ("It opened on 8 May 1945.", [("date", "8 May 1945")], "a date is one fact"),
    ("It was 1889, or 1890.", [("year", "1889"), ("year", "1890")], "years"),
    ("It costs 1,250.50 euros.", [("number", "1,250.50")], "separators belong to a number"),
    ("The A380 has 4 engines.", [("name", "A380"), ("number", "4")], "digits in a name are no number"),
    ("It is by Leonardo da Vinci.", [("name", "Leonardo da Vinci")], "particles belong to a name"),
    ("Paris", [("name", "Paris")], "a short answer is a name"),
    ("Nobody knows.", [], "the first word of a sentence is no name"),
    ("The Nile.", [("name", "Nile")], "an article is no part of a name"),
    ("", [], "nothing"),
    ("今日は東京です", [], "no capitals"),
]


@pytest.mark.parametrize(("text", "facts"), [row[:2] for row in FACT_ROWS], ids=[row[2] for row in FACT_ROWS])
def test_facts_of_a_text(text: str, facts: list[tuple[str, str]]) -> None:
    assert [(one.kind, one.text) for one in find_facts(text)] == facts


def test_items_are_wrong_where_they_must_be() -> None:
    source = ControlSource(dataset())
    references = {one.sample_id: one.reference_answer.text for one in dataset() if one.reference_answer}
    for item in source.items("other_answer"):
        text = item.output.response.text if item.output.response else ""
        assert text in references.values()
        assert text != references[item.base_id]
    altered = list(source.items("altered_fact"))
    assert len(altered) >= 6
    for item in altered:
        assert item.output.response is not None
        text, reference = item.output.response.text, references[item.base_id]
        assert text != reference
        assert sum(a != b for a, b in zip(text.split(), reference.split(), strict=False)) >= 1
        assert not any(text in one.doc.text for one in item.output.retrieved)
    for item in source.items("other_documents"):
        assert {one.doc.doc_id for one in item.output.retrieved}.isdisjoint({f"d{item.base_id[1:]}"})


def test_variants_of_a_question_are_no_other_questions() -> None:
    one, two = dataset()[:2]
    variant = replace(one, sample_id="q0b", labels={"variant_of": "q0"})
    same = replace(two, cluster_id="q0", sample_id="q0c")
    assert list(ControlSource([one, variant, same]).items("other_answer")) == []
    assert len(list(ControlSource([one, variant, two]).items("other_answer"))) == 2


def test_items_depend_on_the_dataset_alone() -> None:
    kinds = ("other_answer", "altered_fact", "reference", "other_documents", "gold_documents", "refusal")
    first, again = ControlSource(dataset()), ControlSource(reversed(dataset()))
    for kind in kinds:
        assert {one.sample.sample_id for one in first.items(kind)} == {
            one.sample.sample_id for one in again.items(kind)
        }
        assert [one.base_id for one in first.items(kind)] == [one.base_id for one in again.items(kind)]


# --- requests --------------------------------------------------------------------------------------------------------


def test_requests_of_controls_look_like_others() -> None:
    critic = judge_of(lambda answer, evidence: True)
    evaluated(critic, "llm_faithfulness")
    own = {one.sample_id for one in dataset()}
    controls = [one for one in critic.asked if one.sample_id not in own]
    assert (len(critic.asked), len(controls)) == (24, 16)
    for item in controls:
        sent = json.dumps([item.system, item.prompt, item.schema, item.prompt_id, item.metric])
        assert "control" not in sent
        assert item.sample_id not in sent
    # Interleaved: among 8 samples, no more than 3 of 16 controls follow each other.
    flags = [one.sample_id in own for one in critic.asked]
    assert sum(a != b for a, b in pairwise(flags)) >= 12


@pytest.mark.parametrize("names", [("llm_faithfulness",), ("llm_answer_quality", "llm_faithfulness", "claim_recall")])
@pytest.mark.parametrize("repeats", [1, 2])
def test_preview_counts_controls(names: tuple[str, ...], repeats: int) -> None:
    critic = judge_of(lambda answer, evidence: True)
    policy = JudgePolicy(controls=6, repeats=repeats)
    metrics = [metric({name: {"critic": critic}}) for name in names if name != "claim_recall"]
    found = preview(dataset(), answers(), metrics, policy)
    evaluate(dataset(), answers(), metrics, judging=policy)
    assert found.total.calls == len(critic.asked) == len(metrics) * (8 + 6) * repeats


def test_batches_streams_and_repeats_ask_the_same_controls() -> None:
    policy = JudgePolicy(controls=6)

    def asked(run: Callable[[Any], Any]) -> tuple[set[str], Any]:
        critic = judge_of(JUDGES["good"][0])
        results = run(faithfulness(critic))
        own = {one.sample_id for one in dataset()}
        controls = [one.sample_id for one in critic.asked if one.sample_id not in own]
        assert len(controls) == 6  # once, however many passes there are
        return set(controls), {**results[0].details["controls"]}

    whole = asked(lambda one: evaluate(dataset(), answers(), [one], judging=policy))
    small = asked(lambda one: evaluate(dataset(), answers(), [one], judging=policy, batch_size=3))
    stream = asked(lambda one: evaluate_stream(zip(dataset(), answers(), strict=True), [one], judging=policy))
    twice = asked(lambda one: evaluate_repeats(dataset(), [answers, answers], [one], judging=policy))
    assert whole == small == stream == twice


def test_metrics_with_other_controls_share_requests() -> None:
    def reply(request: JudgeRequest) -> dict[str, Any]:
        if "claims" in request.schema["properties"]:
            return {"claims": ["one claim"]}
        return {"verdicts": [{"number": 1, "rationale": "", "verdict": "full"}]}

    critic = ScriptedCritic(reply)
    evaluated(critic, "claim_recall", "claim_context_recall", controls=6)  # both take the reference apart
    assert len(critic.asked) == len({one.prompt for one in critic.asked})


# --- drift -----------------------------------------------------------------------------------------------------------


def test_drift_between_two_judges() -> None:
    before, after = (evaluated(judge_of(JUDGES[name][0]))[0] for name in ("good", "sees no altered facts"))
    drift = compare_controls(before.details["controls"], after.details["controls"])
    assert drift is not None
    assert (drift["num_items"], drift["num_changed"]) == (16, 4)
    assert drift["expected"]["reject"]["newly_accepted"] == 4
    assert drift["expected"]["reject"]["difference"] == 4 / 8
    assert drift["expected"]["accept"]["difference"] == 0
    assert {one["kind"] for one in drift["changed"]} == {"altered_fact"}
    assert control_drift(before, after) is None  # the same judge by name, and the same prompt
    after.signature = (after.signature or "").replace("critic:", "critic:new ")
    found = control_drift(before, after)
    assert found is not None
    assert found["judge"].startswith("critic:")


# --- metrics defined in a plan ---------------------------------------------------------------------------------------

ANSWER_KINDS = {"other_answer": False, "altered_fact": False, "reference": True}
OWN_METRICS = [  # options, kinds, why
    ({"inputs": ["question", "answer", "reference"]}, ANSWER_KINDS, "correctness"),
    ({"inputs": ["question", "documents@5", "answer"]}, ANSWER_KINDS, "faithfulness"),
    ({"inputs": ["question", "answer"]}, {"other_answer": False, "reference": True}, "relevance"),
    ({"inputs": ["question", "documents"]}, {"other_documents": False, "gold_documents": True}, "documents alone"),
    ({"inputs": ["question", "documents"], "scale": ["law", "tax"]}, {}, "unordered classes"),
    ({"inputs": ["answer"]}, {}, "nothing that the answer is compared with"),
    ({"inputs": ["question", "answer", "steps"]}, {}, "a control has no steps"),
    ({"inputs": ["answer"], "controls": {"reference": "accept"}}, {"reference": True}, "the user knows better"),
    ({"inputs": ["question", "answer"], "controls": False}, {}, "turned off"),
    ({"inputs": ["question", "answer"], "controls": {"refusal": "accept"}}, {"refusal": True}, "kinds of the user"),
]


@pytest.mark.parametrize(("options", "kinds"), [row[:2] for row in OWN_METRICS], ids=[row[2] for row in OWN_METRICS])
def test_kinds_of_a_judge_metric(options: dict[str, Any], kinds: dict[str, bool]) -> None:
    assert control_kinds(judged({"judge_metric": {"name": "own", "prompt": "Is it good?", **options}})) == kinds


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"other_answr": "reject"}, "did you mean 'other_answer'"),
        ({"reference": "fine"}, "accept or reject, not 'fine'"),
        (["reference"], "write false, or kinds such as"),
    ],
    ids=["unknown kind", "unknown verdict", "a list"],
)
def test_bad_kinds_of_a_judge_metric(option: object, message: str) -> None:
    with pytest.raises(BadOptionError, match=message):
        metric({"judge_metric": {"name": "own", "prompt": "Is it good?", "controls": option}})


PARTLY = [  # metric, label of the judge for everything, false accepts and rejects of 4 items each, why
    ("llm_correctness", {"score": "partly"}, 2, 0, "an altered fact that is found partly right was seen"),
    ("llm_correctness", {"score": "correct"}, 4, 0, "accepts everything"),
    ("llm_refusal", {"score": "yes"}, 0, 4, "takes everything for a refusal"),
    ("llm_refusal", {"score": "no"}, 4, 0, "sees no refusal"),
]


@pytest.mark.parametrize(
    ("name", "reply", "accepts", "rejects"), [row[:4] for row in PARTLY], ids=[row[4] for row in PARTLY]
)
def test_classes_as_verdicts(name: str, reply: dict[str, Any], accepts: int, rejects: int) -> None:
    critic = ScriptedCritic(lambda request: {"rationale": "", **reply})
    controls = evaluated(critic, name, controls=8)[0].details["controls"]
    assert (controls["false_accepts"]["errors"], controls["false_accepts"]["n"]) == (accepts, 4)
    assert (controls["false_rejects"]["errors"], controls["false_rejects"]["n"]) == (rejects, 4)


def test_refusals_as_controls() -> None:
    declines = judge_of(lambda answer, evidence: answer.startswith("I cannot"))
    options = {"name": "declines", "prompt": "Does the answer decline?", "critic": declines, "scale": "0-1"}
    own = metric({"judge_metric": {**options, "controls": {"refusal": "accept", "reference": "reject"}}})
    (result,) = evaluate(dataset(), answers(), [own], judging=JudgePolicy(controls=8))
    controls = result.details["controls"]
    assert (controls["false_accepts"]["rate"], controls["false_rejects"]["rate"]) == (0, 0)
    assert controls["num_items"] == 8
