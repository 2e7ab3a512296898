"""Explanations of claims, citations and nuggets: every statement with its verdict, and the fraction that comes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.core.derivation import ExplainContext, SampleJudgement
from auepora_eval.core.errors import AueporaWarning, JudgeError
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.explaining import explain
from auepora_eval.explaining.rendering import explanation_text
from auepora_eval.explaining.types import QueryExplanation
from auepora_eval.judge.critic import JudgeRequest
from auepora_eval.judge.policy import JudgePolicy
from auepora_eval.running.scoring import score_run
from auepora_eval.store import RunStore
from helpers.critics import ScriptedCritic, SteadyBareCritic, SteadyCritic, framed, shares_words
from helpers.golden_runs import put_run

NUGGETS = [{"text": "cats sleep", "importance": "vital"}, {"text": "cats eat", "importance": "okay"}]
SAMPLE = EvaluationSample(
    "one", "What do cats do?", reference_answer=Response("Cats sleep. Cats eat."), metadata={"nuggets": NUGGETS}
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
]


def by_words(request: JudgeRequest) -> dict[str, Any]:
    """Takes sentences for claims, and looks for their words in the evidence."""
    if "claims" in request.schema["properties"]:
        (text,) = framed(request.prompt, "text")
        return {"claims": [one.split(" [")[0].strip(" .") for one in text.split(". ")]}
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


def explained(store: RunStore, one: Any, *, repeats: int = 1, **options: Any) -> tuple[QueryExplanation, str]:
    """What is told of the sample once the metric has scored it."""
    assert isinstance(one, BatchMetric)
    record = put_run(store, "judged", [SAMPLE], [OUTPUT])
    score_run(store, record, [one], conventions=one.active_conventions, judging=JudgePolicy(repeats=repeats, retries=0))
    told = explain(store, "judged", one.name, query="one", metrics={one.name: one}, **options)
    assert told.query is not None
    return told.query, explanation_text(told)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("name", [*CLAIMS, *VERDICTS])
def test_stored_judgements_lead_to_the_stored_score(store: RunStore, name: str, repeats: int) -> None:
    told, _ = explained(store, metric({name: {"critic": SteadyCritic()}}), repeats=repeats)
    (answer,) = told.answers
    if not answer.outcome.startswith("scored"):
        return  # the steady critic found no claims
    assert answer.derivation is not None
    assert (told.check.verdict, answer.derivation.general) == ("equal", False)


@pytest.mark.parametrize(
    "name", ["claim_precision", "noise_sensitivity", "citation_support_precision", "nugget_recall"]
)
def test_so_do_bare_numbers(store: RunStore, name: str) -> None:
    sentences = {} if name in VERDICTS else {"claims": "sentences"}
    told, _ = explained(store, metric({name: {"critic": SteadyBareCritic(), **sentences}}))
    assert told.check.verdict == "equal"
    assert told.answers[0].derivation is not None
    assert not told.answers[0].derivation.general


TOLD: list[tuple[str, dict[str, Any], list[str]]] = [
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
]


@pytest.mark.parametrize(("name", "options", "lines"), TOLD, ids=[row[0] for row in TOLD])
def test_statements_verdicts_and_the_fraction(
    store: RunStore, name: str, options: dict[str, Any], lines: list[str]
) -> None:
    told, text = explained(store, metric({name: {"critic": ScriptedCritic(by_words), **options}}))
    assert told.check.verdict == "equal"
    assert [line for line in lines if line not in text] == []


def test_a_repeat_in_which_the_judge_failed_is_left_out(store: RunStore) -> None:
    def says(request: JudgeRequest) -> Any:
        return JudgeError("unparseable", "hm") if request.repeat == 1 else by_words(request)

    told, text = explained(store, metric({"claim_faithfulness": {"critic": ScriptedCritic(says)}}), repeats=3)
    assert told.check.verdict == "equal"
    assert "Judged for the 3. time" in text
    assert "Judged for the 2. time" not in text
    assert "The mean of 2: (0.666667 + 0.666667) / 2" in text


@pytest.mark.parametrize("name", ["claim_precision", "citation_support_recall"])
def test_a_function_is_asked_again_only_where_models_may_be(store: RunStore, name: str) -> None:
    options = {"critic": shares_words} if name in VERDICTS else {"claims": "sentences", "verifier": shares_words}
    one = metric({name: options})
    told, _ = explained(store, one)
    assert told.answers[0].derivation is not None
    assert told.answers[0].derivation.general
    again = explain(store, "judged", name, query="one", metrics={name: one}, models=True).query
    assert again is not None
    assert again.answers[0].derivation is not None
    assert (again.check.verdict, again.answers[0].derivation.general) == ("equal", False)


def test_judgements_that_are_no_answers_to_what_is_asked_now_are_told_as_they_are() -> None:
    verdicts = [{"number": 1, "why": "not there", "verdict": "none"}, {"number": 9, "verdict": "full"}]
    about = {"of": "the documents", "statements": ["Cats sing"]}
    said = [
        SampleJudgement({"verdicts": verdicts}, "ann", request="?", about=about),
        SampleJudgement(
            {"needed": [2]}, "ann", request="??", about={"of": "d2", "sentences": ["Cats fly.", "Dogs run."]}
        ),
        SampleJudgement({}, "ann", request="???", error="unparseable", about=about),
    ]
    one = metric({"claim_faithfulness": {"critic": ScriptedCritic(by_words)}})
    assert isinstance(one, BatchMetric)
    told = one.derivation(SAMPLE, OUTPUT, ExplainContext(judgements=tuple(said), stored_score=0.5))
    assert (told.general, told.value) == (True, 0.5)
    (table,) = (step.table for step in told.steps if step.table is not None)
    assert [row[2] for row in table.rows] == [
        "against the documents: none: Cats sing (not there)",
        "against the documents: full: statement 9",
        "of d2: not needed: Cats fly.",
        "of d2: needed: Dogs run.",
        "against the documents: none: unparseable",
    ]


def test_what_keeps_a_sample_from_being_measured_is_told(store: RunStore) -> None:
    bad = EvaluationSample("one", "What?", metadata={"nuggets": [{"text": "cats sleep", "importance": "high"}]})
    one = metric({"nugget_recall": {"critic": ScriptedCritic(by_words)}})
    assert isinstance(one, BatchMetric)
    record = put_run(store, "judged", [bad], [OUTPUT])
    with pytest.warns(AueporaWarning, match=r"metadata.nuggets\[0\] has 'high' as 'importance'"):
        score_run(store, record, [one], conventions=one.active_conventions, judging=JudgePolicy())
    told = explain(store, "judged", "nugget_recall", query="one", metrics={"nugget_recall": one}).query
    assert told is not None
    assert "metadata.nuggets[0] has 'high' as 'importance'" in told.answers[0].words


def test_so_is_a_list_of_sentences_that_is_none() -> None:
    answer = Response("Cats sleep.", sentences=[{"text": "Cats sleep.", "citations": "d1"}])
    one = metric({"citation_support_recall": {"critic": ScriptedCritic(by_words)}})
    with pytest.warns(AueporaWarning, match=r"response.sentences: citations are a list of document ids, not 'd1'"):
        (result,) = evaluate([SAMPLE], [SystemOutputs(FOUND, answer)], [one])
    assert list(result.outcomes or ()) == ["measure_failed:bad_citations"]
