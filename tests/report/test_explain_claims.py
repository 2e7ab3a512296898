"""Explanations of claims, citations and nuggets: every statement with its verdict, and the resulting fraction."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.core.derivation import ExplainContext, SampleJudgement
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.errors import AueporaWarning, JudgeError
from auepora_eval.judge.critic import JudgePolicy, JudgeRequest
from auepora_eval.report.explain import QueryExplanation, explain
from auepora_eval.runs.job import ScoringJob
from auepora_eval.runs.scoring import score_run
from auepora_eval.store import RunStore
from helpers.critics import ScriptedCritic, SteadyBareCritic, SteadyCritic, framed, shares_words
from helpers.explanations import explanation_text
from helpers.golden_runs import put_run

NUGGETS = [{"text": "cats sleep", "importance": "vital"}, {"text": "cats eat", "importance": "okay"}]
RUBRIC = [
    {"item": "says that cats sleep", "weight": 2},
    {"item": "says that cats eat"},
    {"item": "says that cats fly", "weight": -1},
    {"item": "is about cats", "required": True},
]
SAMPLE = EvaluationSample(
    "one",
    "What do cats do?",
    reference_answer=Response("Cats sleep. Cats eat."),
    labels={"rubric": RUBRIC},
    metadata={"nuggets": NUGGETS},
)
FOUND = [
    RetrievedDocument(Document(f"d{rank}", text), None, rank)
    for rank, text in enumerate(["Cats sleep.", "Cats fly. Dogs run."], 1)
]
OUTPUT = SystemOutputs(FOUND, Response("Cats sleep [1][2]. Cats fly [2]. Cats sing [7]."))
CLAIMS = [
    "claim_precision",
    "claim_recall",
    "claim_f1",
    "claim_faithfulness",
    "claim_hallucination",
    "self_knowledge",
    "noise_sensitivity",
    "claim_context_recall",
    "claim_context_precision",
    "context_utilisation",
]
VERDICTS = [
    "citation_support_recall",
    "citation_support_precision",
    "citation_support_f1",
    "weighted_support_precision",
    "weighted_support_recall",
    "nugget_recall",
    "rubric_score",
    "rubric_required",
]


def reply_by_words(request: JudgeRequest) -> dict[str, Any]:
    """Takes sentences for claims, and looks for their words in the evidence."""
    if "claims" in request.schema["properties"]:
        (text,) = framed(request.prompt, "text")
        return {"claims": [one.split(" [")[0].strip(" .") for one in text.split(". ")]}
    if request.prompt_id.startswith("rubric/"):
        (answer,) = framed(request.prompt, "answer")
        items = enumerate(framed(request.prompt, "item"), 1)
        return {
            "verdicts": [
                {"number": n, "why": "looked", "verdict": "met" if one[-4:] in answer.lower() else "not met"}
                for n, one in items
            ]
        }
    known = " ".join(framed(request.prompt, "evidence")).lower()
    statements = enumerate(framed(request.prompt, "statement"), 1)
    return {
        "verdicts": [
            {
                "number": number,
                "why": f"looked for {one}",
                "verdict": "full" if one.lower().strip(".") in known else "none",
            }
            for number, one in statements
        ]
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


def score_and_explain(store: RunStore, one: Any, *, repeats: int = 1, **options: Any) -> tuple[QueryExplanation, str]:
    """Score the sample with the metric and explain it."""
    assert isinstance(one, BatchMetric)
    record = put_run(store, "judged", [SAMPLE], [OUTPUT])
    score_run(
        ScoringJob(
            store, record, [one], conventions=one.active_conventions, policy=JudgePolicy(repeats=repeats, retries=0)
        )
    )
    explanation = explain(store, "judged", one.name, query="one", metrics={one.name: one}, **options)
    assert explanation.query is not None
    return explanation.query, explanation_text(explanation)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("name", [*CLAIMS, *VERDICTS])
def test_stored_judgements_reproduce_the_score(store: RunStore, name: str, repeats: int) -> None:
    explanation, _ = score_and_explain(store, metric({name: {"critic": SteadyCritic()}}), repeats=repeats)
    (answer,) = explanation.answers
    if not answer.outcome.startswith("scored"):
        return  # the steady critic found no claims
    assert answer.derivation is not None
    assert (explanation.check.verdict, answer.derivation.general) == ("equal", False)


@pytest.mark.parametrize(
    "name", ["claim_precision", "noise_sensitivity", "citation_support_precision", "nugget_recall"]
)
def test_bare_numbers_reproduce_the_score(store: RunStore, name: str) -> None:
    sentences = {} if name in VERDICTS else {"claims": "sentences"}
    explanation, _ = score_and_explain(store, metric({name: {"critic": SteadyBareCritic(), **sentences}}))
    assert explanation.check.verdict == "equal"
    assert explanation.answers[0].derivation is not None
    assert not explanation.answers[0].derivation.general


STEP_ROWS: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "claim_faithfulness",
        {},
        [
            "Cats sleep  full           looked for Cats sleep",
            "Cats sing   none           looked for Cats sing",
            "Claims of the answer that the documents support, over all of them: 2 / 3 = 0.666667",
        ],
    ),
    (
        "claim_f1",
        {"beta": 2},
        [
            "over all of them: 1 / 3 = 0.333333",
            "over all of them: 1 / 2 = 0.5",
            "(1 + β²) · P · R / (β² · P + R), with β = 2: precision = 0.333333, recall = 0.5",
        ],
    ),
    (
        "noise_sensitivity",
        {},
        ["claim       the reference  d1    d2", "Cats fly    none           none  full", ": 1 / 3"],
    ),
    ("claim_hallucination", {}, ["neither reference nor documents support, over all of them: 1 / 3"]),
    ("context_utilisation", {}, ["documents and answer support, over those that the documents support: 1 / 1 = 1"]),
    (
        "citation_support_precision",
        {},
        ["Cats sing.   7 (not there)", "Cats sleep.  d1, d2  full", "over all citations: 1/2 = 0.5"],
    ),
    ("nugget_recall", {"variant": "all"}, ["cats eat    okay", "cats sleep  the answer  full", ": 1/2 = 0.5"]),
    (
        "rubric_score",
        {},
        ["says that cats fly    -1      met      1  looked", "(2 · 1 + 1 · 0 − 1 · 1) / (2 + 1) = 1/3 = 0.333333"],
    ),
    ("rubric_required", {"per_item": True}, ["is about cats  1       met", "items that are satisfied: 1 of 1"]),
]


@pytest.mark.parametrize(("name", "options", "lines"), STEP_ROWS, ids=[row[0] for row in STEP_ROWS])
def test_steps_show_statements_verdicts_and_fraction(
    store: RunStore, name: str, options: dict[str, Any], lines: list[str]
) -> None:
    explanation, text = score_and_explain(store, metric({name: {"critic": ScriptedCritic(reply_by_words), **options}}))
    assert explanation.check.verdict == "equal"
    assert [line for line in lines if line not in text] == []


def test_repeat_with_failed_judge_is_left_out(store: RunStore) -> None:
    def reply(request: JudgeRequest) -> Any:
        return JudgeError("unparseable", "hm") if request.repeat == 1 else reply_by_words(request)

    explanation, text = score_and_explain(
        store, metric({"claim_faithfulness": {"critic": ScriptedCritic(reply)}}), repeats=3
    )
    assert explanation.check.verdict == "equal"
    assert "Judged again (3rd attempt)" in text
    assert "Judged again (2nd attempt)" not in text
    assert "The mean of 2: (0.666667 + 0.666667) / 2" in text


@pytest.mark.parametrize("name", ["claim_precision", "citation_support_recall"])
def test_nli_function_is_called_only_with_models(store: RunStore, name: str) -> None:
    options = {"critic": shares_words} if name in VERDICTS else {"claims": "sentences", "verifier": shares_words}
    one = metric({name: options})
    explanation, _ = score_and_explain(store, one)
    assert explanation.answers[0].derivation is not None
    assert explanation.answers[0].derivation.general
    again = explain(store, "judged", name, query="one", metrics={name: one}, models=True).query
    assert again is not None
    assert again.answers[0].derivation is not None
    assert (again.check.verdict, again.answers[0].derivation.general) == ("equal", False)


def test_judgements_of_another_prompt_are_shown_unchanged() -> None:
    verdicts = [{"number": 1, "why": "not there", "verdict": "none"}, {"number": 9, "verdict": "full"}]
    about = {"of": "the documents", "statements": ["Cats sing"]}
    judgements = [
        SampleJudgement({"verdicts": verdicts}, "ann", request="?", about=about),
        SampleJudgement(
            {"needed": [2]}, "ann", request="??", about={"of": "d2", "sentences": ["Cats fly.", "Dogs run."]}
        ),
        SampleJudgement({}, "ann", request="???", error="unparseable", about=about),
    ]
    one = metric({"claim_faithfulness": {"critic": ScriptedCritic(reply_by_words)}})
    assert isinstance(one, BatchMetric)
    derivation = one.explain(SAMPLE, OUTPUT, ExplainContext(judgements=tuple(judgements), stored_score=0.5))
    assert (derivation.general, derivation.value) == (True, 0.5)
    (table,) = (step.table for step in derivation.steps if step.table is not None)
    assert [row[2] for row in table.rows] == [
        "against the documents: none: Cats sing (not there)",
        "against the documents: full: statement 9",
        "of d2: not needed: Cats fly.",
        "of d2: needed: Dogs run.",
        "against the documents: none: unparseable",
    ]


def test_measurement_failure_is_explained(store: RunStore) -> None:
    bad = EvaluationSample("one", "What?", metadata={"nuggets": [{"text": "cats sleep", "importance": "high"}]})
    one = metric({"nugget_recall": {"critic": ScriptedCritic(reply_by_words)}})
    assert isinstance(one, BatchMetric)
    record = put_run(store, "judged", [bad], [OUTPUT])
    with pytest.warns(AueporaWarning, match=r"metadata.nuggets\[0\] has 'high' as 'importance'"):
        score_run(ScoringJob(store, record, [one], conventions=one.active_conventions, policy=JudgePolicy()))
    explanation = explain(store, "judged", "nugget_recall", query="one", metrics={"nugget_recall": one}).query
    assert explanation is not None
    assert "metadata.nuggets[0] has 'high' as 'importance'" in explanation.answers[0].words


def test_malformed_sentence_list_is_explained() -> None:
    answer = Response("Cats sleep.", sentences=[{"text": "Cats sleep.", "citations": "d1"}])
    one = metric({"citation_support_recall": {"critic": ScriptedCritic(reply_by_words)}})
    with pytest.warns(AueporaWarning, match=r"response.sentences: citations are a list of document ids, not 'd1'"):
        (result,) = evaluate([SAMPLE], [SystemOutputs(FOUND, answer)], [one])
    assert list(result.outcomes or ()) == ["measure_failed:bad_citations"]
