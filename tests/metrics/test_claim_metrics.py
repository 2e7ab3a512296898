"""Metrics over claims: a transcript with exact values, shared requests, failures, repeats."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    AueporaWarning,
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    metric,
)
from auepora_eval.core.metrics_base import BatchMetric, RunInfo
from auepora_eval.core.registry import spec_of
from auepora_eval.errors import BadTypeError, BadValueError, DataFileError
from auepora_eval.judge.critic import Judgement, JudgePolicy, JudgeRequest
from auepora_eval.judge.limits import JudgementRecord
from auepora_eval.judge.nli import EntailmentFunction, NliModel
from auepora_eval.judge.preview import preview
from auepora_eval.judge.session import JudgeSession
from auepora_eval.metrics.claims import (
    claim_f_beta,
    context_utilisation,
    noise_sensitivity,
    relevant_documents,
    supported_by_any,
    unsupported_proportion,
)
from auepora_eval.metrics.judged_base import average_precision, exact_fraction, proportion
from helpers.critics import ScriptedBareCritic, ScriptedCritic, framed
from helpers.tiny_models import made
from helpers.transcript import Key, Transcript

F = Fraction

# --- the transcript ---------------------------------------------------------------------------------------------------
#
#                     supported by   reference   d1 (relevant)   d2 (irrelevant)   d3
#   A1  built by Eiffel                 x            x
#   A2  in Paris                        x                                               known without documents
#   A3  in 1887                                      x               x                  wrong, from a relevant one
#   A4  of gold                                                      x                  wrong, from an irrelevant one
#   A5  by night                                                                        wrong, from nowhere
#
#                     supported by   answer      d1              d2                d3
#   R1  built by Eiffel                 x            x
#   R2  in Paris                        x
#   R3  of iron                                      x
#   R4  300 metres high                                                                 d1 and d3 together

A = ["Eiffel built it.", "It is in Paris.", "It was built in 1887.", "It is of gold.", "It was built by night."]
R = ["Gustave Eiffel built it.", "The tower is in Paris.", "It is of iron.", "It is 300 metres high."]
ANSWER = "Eiffel built it in Paris in 1887, of gold and by night."
REFERENCE = "Eiffel built it in Paris, of iron, 300 metres high."
D = ["Eiffel's tower of iron, of 1887. As high as said below.", "A tower of gold, 1887.", "It is said to be 300 m."]
SUPPORTS: dict[Key, Sequence[str]] = {
    (REFERENCE,): [A[0], A[1], f"{A[2]}?"],  # in part, which is not enough
    (ANSWER,): [R[0], R[1], f"{R[2]}?"],
    (D[0],): [A[0], A[2], R[0], R[2]],
    (D[1],): [A[2], A[3]],
    (D[2],): [f"{R[3]}?"],
    tuple(D): [A[0], A[2], A[3], R[0], R[2], R[3]],
    tuple(D[:2]): [A[0], A[2], A[3], R[0], R[2]],
}
NEEDED = ["Eiffel's tower of iron, of 1887.", "It is said to be 300 m."]


def transcript(**changes: Any) -> Transcript:
    made = Transcript(
        claims={ANSWER: A, REFERENCE: R, "I cannot say.": [], "Perhaps.": []},
        supports=SUPPORTS,
        useful=[D[0], D[2]],
        needed=NEEDED,
    )
    return replace(made, asked=[], **changes)


def asked(
    answer: str | None = ANSWER, documents: Sequence[str] = D, reference: str | None = REFERENCE, number: int = 0
) -> tuple[EvaluationSample, SystemOutputs]:
    found = [RetrievedDocument(Document(f"d{rank}", text), None, rank) for rank, text in enumerate(documents, 1)]
    sample = EvaluationSample(
        str(number),
        "Who built the tower, and how?",
        reference_answer=None if reference is None else Response(reference),
    )
    return sample, SystemOutputs(found, None if answer is None else Response(answer))


def result_of(built: Any, *pairs: tuple[EvaluationSample, SystemOutputs | None], repeats: int = 1) -> MetricResult:
    samples, outputs = zip(*(pairs or [asked()]), strict=True)
    return evaluate(list(samples), list(outputs), [built], judging=JudgePolicy(repeats=repeats))[0]


def outcome(built: Any, pair: tuple[EvaluationSample, SystemOutputs] | None = None) -> Any:
    # A second sample, since a field that no sample has is a mistake in the plan.
    result = result_of(built, pair or asked(), asked(number=1))
    assert result.scores is not None
    assert result.outcomes is not None
    return result.scores[0] if result.outcomes[0] == "scored" else result.outcomes[0]


VALUES: list[tuple[str, dict[str, Any], Fraction]] = [
    ("claim_precision", {}, F(2, 5)),
    ("claim_recall", {}, F(2, 4)),
    ("claim_f1", {}, 2 * F(2, 5) * F(1, 2) / (F(2, 5) + F(1, 2))),
    ("claim_f1", {"beta": 2}, 5 * F(2, 5) * F(1, 2) / (4 * F(2, 5) + F(1, 2))),
    ("claim_faithfulness", {}, F(3, 5)),
    ("claim_faithfulness", {"evidence": "each"}, F(3, 5)),
    ("claim_faithfulness", {"evidence": "each", "k": 1}, F(2, 5)),
    ("claim_faithfulness", {"k": 2}, F(3, 5)),
    ("claim_context_recall", {}, F(3, 4)),
    ("claim_context_recall", {"evidence": "each"}, F(2, 4)),
    ("claim_context_recall", {"k": 2}, F(2, 4)),
    ("claim_context_precision", {}, F(1, 3)),
    ("claim_context_precision", {"k": 2}, F(1, 2)),
    ("context_utilisation", {}, F(1, 3)),
    ("context_utilisation", {"evidence": "each"}, F(1, 2)),
    ("noise_sensitivity", {}, F(2, 5)),
    ("noise_sensitivity", {"noise": "relevant"}, F(1, 5)),
    ("noise_sensitivity", {"noise": "irrelevant"}, F(1, 5)),
    ("noise_sensitivity", {"noise": "irrelevant", "k": 1}, F(0)),
    ("self_knowledge", {}, F(1, 5)),
    ("self_knowledge", {"evidence": "each"}, F(1, 5)),
    ("claim_hallucination", {}, F(1, 5)),
    ("claim_hallucination", {"evidence": "each", "k": 1}, F(2, 5)),
    ("judged_context_precision", {}, (1 + F(2, 3)) / 2),
    ("judged_context_precision", {"k": 2}, F(1)),
    ("judged_context_precision", {"against": "answer"}, F(5, 6)),
    ("judged_context_relevance", {}, F(2, 4)),
    ("judged_context_relevance", {"k": 2}, F(1, 3)),
]
IDS = [f"{name} {options}" for name, options, _ in VALUES]


@pytest.mark.parametrize(("name", "options", "want"), VALUES, ids=IDS)
def test_transcript_gives_the_expected_values(name: str, options: dict[str, Any], want: Fraction) -> None:
    built = metric({name: {"critic": transcript(), **options}})
    assert outcome(built) == float(want)


def test_dimensions_are_in_the_details() -> None:
    f1 = result_of(metric({"claim_f1": {"critic": transcript()}}))
    assert f1.details["dimensions"] == {"precision": 2 / 5, "recall": 2 / 4}
    assert f1.details["num_claims"] == len(A) + len(R)
    noise = result_of(metric({"noise_sensitivity": {"critic": transcript(), "noise": "relevant"}}))
    assert noise.details["dimensions"] == {"relevant": 1 / 5, "irrelevant": 1 / 5}
    assert noise.details["num_claims"] == len(A)


@pytest.mark.parametrize("evidence", ["joined", "each"])
def test_sources_of_claims_add_up_to_one(evidence: str) -> None:
    critic = transcript()
    parts = [
        outcome(metric({name: {"critic": critic, "evidence": evidence}}))
        for name in ("claim_faithfulness", "self_knowledge", "claim_hallucination")
    ]
    assert sum(map(exact_fraction, parts)) == 1
    wrong = [outcome(metric({name: {"critic": critic}})) for name in ("claim_precision", "noise_sensitivity")]
    assert sum(map(exact_fraction, [*wrong, parts[2]])) == 1


# --- the arithmetic alone ---------------------------------------------------------------------------------------------


def test_plain_functions() -> None:
    yes, no = True, False
    assert proportion([yes, no, yes]) == F(2, 3)
    assert exact_fraction(37 / 113) == F(37, 113)
    assert exact_fraction(998 / 999) == F(998, 999)
    assert supported_by_any([[yes, no], [no, no]], 2) == [yes, no]
    assert supported_by_any([], 2) == [no, no]
    assert relevant_documents([[no, yes], [no, no], []]) == [yes, no, no]
    assert claim_f_beta(F(0), F(0)) == 0
    assert claim_f_beta(F(1, 3), F(1, 3)) == F(1, 3)
    assert claim_f_beta(F(1), F(1, 2), F(1, 2)) == F(5, 4) * F(1, 2) / (F(1, 4) + F(1, 2))
    assert context_utilisation([yes, yes, no], [yes, no, yes]) == F(1, 2)
    assert context_utilisation([no, no], [yes, no]) is None
    assert unsupported_proportion([yes, no, no], [no, no, yes], is_correct=True) == F(1, 3)
    assert unsupported_proportion([yes, no, no], [no, no, yes], is_correct=False) == F(1, 3)
    # Of four wrong claims one is from the relevant document, one from both, one from the irrelevant one, one of nowhere.
    table = [[yes, yes, no, no], [no, yes, yes, no]]
    assert noise_sensitivity([no] * 4, table, [yes, no]) == (F(2, 4), F(1, 4))
    assert noise_sensitivity([yes] * 4, table, [yes, no]) == (F(0), F(0))
    assert noise_sensitivity([no], [], []) == (F(0), F(0))


PRECISIONS: list[tuple[list[int], Fraction]] = [
    ([], F(0)),
    ([0, 0], F(0)),
    ([1, 1], F(1)),
    ([1, 0, 1], (1 + F(2, 3)) / 2),
    ([0, 0, 1], F(1, 3)),
    ([0, 1, 1, 0, 1], (F(1, 2) + F(2, 3) + F(3, 5)) / 3),
]


@pytest.mark.parametrize(("useful", "want"), PRECISIONS)
def test_average_precision(useful: list[int], want: Fraction) -> None:
    assert average_precision(list(map(bool, useful))) == want


# --- who is asked, and how often --------------------------------------------------------------------------------------

FAMILY = [
    "claim_precision",
    "claim_recall",
    "claim_f1",
    "claim_faithfulness",
    "claim_context_recall",
    "claim_context_precision",
    "context_utilisation",
    "noise_sensitivity",
    "self_knowledge",
    "claim_hallucination",
]


def family(critic: Any, **options: Any) -> list[Any]:
    return [metric({name: {"critic": critic, **options}}) for name in FAMILY]


def test_each_text_is_decomposed_once_and_each_request_made_once_for_the_family() -> None:
    critic = transcript()
    records: list[JudgementRecord] = []
    sample, output = asked()
    results = evaluate([sample], [output], family(critic), judging=JudgeSession(on_record=records.append))
    by_name = {name: want for name, options, want in reversed(VALUES) if not options}
    assert [result.value for result in results] == [float(by_name[name]) for name in FAMILY]
    # Claims of two texts. Both compared with the other text, all documents, and each of three documents.
    assert critic.kinds() == {"claims": 2, "support": 2 * (1 + 1 + 3)}
    # Every metric that uses a judgement has it in its records.
    counts = {name: sum(one.metric == name for one in records) for name in FAMILY}
    assert counts == {
        "claim_precision": 1 + 1,
        "claim_recall": 1 + 1,
        "claim_f1": 2 + 2,
        "claim_faithfulness": 1 + 1,
        "claim_context_recall": 1 + 1,
        "claim_context_precision": 1 + 3,
        "context_utilisation": 1 + 2,
        "noise_sensitivity": 2 + 1 + 3 + 3,
        "self_knowledge": 1 + 2,
        "claim_hallucination": 1 + 2,
    }
    assert sum(not one.shared for one in records) == len(critic.asked)


def test_samples_with_the_same_text_share_its_claims() -> None:
    critic = transcript()
    result = result_of(metric({"claim_precision": {"critic": critic}}), asked(), asked(number=1))
    assert list(result.scores or ()) == [2 / 5, 2 / 5]
    assert critic.kinds() == {"claims": 1, "support": 1}


def test_preview_counts_first_requests_and_reports_a_lower_bound() -> None:
    critic = transcript()
    sample, output = asked()
    extracted = metric({"claim_f1": {"critic": critic}})
    sentences = metric({"claim_precision": {"critic": critic, "claims": "sentences"}})
    found = preview([sample], [output], [*family(critic), sentences], JudgePolicy())
    assert critic.asked == []
    assert found.total.calls == 2 + 1  # the claims of both texts; and the sentences are known
    assert found.metrics["claim_f1"].judgements == 2
    assert "claim_f1" in found.lower_bound_metrics
    alone = preview([sample], [output], [sentences], JudgePolicy())
    assert (alone.total.calls, alone.lower_bound_metrics) == (1, [])
    assert preview([sample], [output], [extracted], JudgePolicy()).lower_bound_metrics == ["claim_f1"]


# --- skips and failures -----------------------------------------------------------------------------------------------

EDGES: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = [
    ("claim_precision", {}, {"answer": "I cannot say."}, "skipped:no_claims"),
    ("claim_precision", {}, {"answer": " "}, "skipped:no_claims"),
    ("claim_precision", {}, {"answer": None}, "skipped:no_response"),
    ("claim_precision", {}, {"reference": None}, "skipped:no_reference"),
    ("claim_recall", {}, {"answer": " "}, 0.0),
    ("claim_recall", {}, {"answer": "I cannot say."}, 0.0),
    ("claim_recall", {}, {"reference": "Perhaps."}, "skipped:no_reference_claims"),
    ("claim_f1", {}, {"answer": "I cannot say."}, 0.0),
    ("claim_f1", {}, {"reference": "Perhaps."}, "skipped:no_reference_claims"),
    ("claim_faithfulness", {}, {"documents": []}, 0.0),
    ("claim_faithfulness", {}, {"documents": ["", " "]}, "skipped:no_text"),
    ("claim_faithfulness", {}, {"answer": "I cannot say.", "documents": []}, "skipped:no_claims"),
    ("claim_context_recall", {}, {"documents": []}, 0.0),
    ("claim_context_recall", {}, {"answer": None}, 3 / 4),
    ("claim_context_recall", {}, {"documents": [""]}, "skipped:no_text"),
    ("claim_context_recall", {}, {"reference": "Perhaps."}, "skipped:no_reference_claims"),
    ("claim_context_precision", {}, {"documents": []}, 0.0),
    ("claim_context_precision", {}, {"documents": [D[0], ""]}, 1 / 2),
    ("context_utilisation", {}, {"documents": [D[1]]}, "skipped:nothing_to_use"),
    ("context_utilisation", {}, {"documents": []}, "skipped:nothing_to_use"),
    ("context_utilisation", {}, {"answer": " "}, 0.0),
    ("noise_sensitivity", {}, {"documents": []}, 0.0),
    ("noise_sensitivity", {}, {"answer": None}, "skipped:no_response"),
    ("noise_sensitivity", {}, {"answer": "I cannot say."}, "skipped:no_claims"),
    ("noise_sensitivity", {}, {"reference": "Perhaps."}, "skipped:no_reference_claims"),
    ("self_knowledge", {}, {"documents": []}, 2 / 5),
    ("claim_hallucination", {}, {"documents": []}, 3 / 5),
    ("claim_hallucination", {}, {"documents": [" "]}, "skipped:no_text"),
    ("judged_context_precision", {}, {"documents": []}, 0.0),
    ("judged_context_precision", {}, {"documents": ["", D[0]]}, 1 / 2),
    ("judged_context_precision", {}, {"documents": ["", ""]}, "skipped:no_text"),
    ("judged_context_precision", {}, {"documents": [D[1]]}, 0.0),
    ("judged_context_precision", {}, {"reference": None}, "skipped:no_reference"),
    ("judged_context_precision", {}, {"reference": " "}, "skipped:no_reference"),
    ("judged_context_precision", {}, {"answer": None}, 5 / 6),
    ("judged_context_precision", {"against": "answer"}, {"answer": None}, "skipped:no_response"),
    ("judged_context_precision", {"against": "answer"}, {"answer": ""}, "skipped:empty_answer"),
    ("judged_context_precision", {"against": "answer"}, {"reference": None}, 5 / 6),
    ("judged_context_relevance", {}, {"documents": []}, 0.0),
    ("judged_context_relevance", {}, {"documents": ["..."]}, "skipped:no_sentences"),
    ("judged_context_relevance", {}, {"documents": [""]}, "skipped:no_text"),
    ("judged_context_relevance", {}, {"answer": None, "reference": None}, 2 / 4),
]


@pytest.mark.parametrize(("name", "options", "fields", "want"), EDGES, ids=[f"{row[0]} {row[2]}" for row in EDGES])
def test_edges(name: str, options: dict[str, Any], fields: dict[str, Any], want: Any) -> None:
    assert outcome(metric({name: {"critic": transcript(), **options}}), asked(**fields)) == want


@pytest.mark.parametrize("name", [*FAMILY, "judged_context_precision", "judged_context_relevance"])
def test_failed_system_counts_at_the_worst_value_without_a_judge(name: str) -> None:
    critic = transcript()
    built = metric({name: {"critic": critic}})
    assert isinstance(built, BatchMetric)
    sample, _ = asked()
    result = result_of(built, (sample, SystemOutputs([], error="timeout")))
    assert list(result.scores or ()) == [0.0 if built.higher_is_better else 1.0]
    assert critic.asked == []


LOST: list[tuple[tuple[str, Key], set[str], str]] = [
    (
        ("claims", (ANSWER,)),
        {
            "claim_precision",
            "claim_f1",
            "claim_faithfulness",
            "noise_sensitivity",
            "self_knowledge",
            "claim_hallucination",
        },
        "the claims of the answer",
    ),
    (
        ("claims", (REFERENCE,)),
        {
            "claim_recall",
            "claim_f1",
            "claim_context_recall",
            "claim_context_precision",
            "context_utilisation",
            "noise_sensitivity",
        },
        "the claims of the reference",
    ),
    (("support", (D[1],)), {"claim_context_precision", "noise_sensitivity"}, "one document"),
    (("support", (ANSWER,)), {"claim_recall", "claim_f1", "context_utilisation"}, "what the answer supports"),
]


@pytest.mark.parametrize(("lost", "failed", "why"), LOST, ids=[row[-1] for row in LOST])
def test_failed_judgement_fails_only_dependent_scores(lost: tuple[str, Key], failed: set[str], why: str) -> None:
    critic = transcript(lost={lost: "content_filter"})
    sample, output = asked()
    with pytest.warns(AueporaWarning, match="no judgement \\(content_filter\\)"):
        results = evaluate([sample], [output], family(critic))
    outcomes = {result.name: (result.outcomes or [""])[0] for result in results}
    assert {name for name, one in outcomes.items() if one == "measure_failed:content_filter"} == failed
    assert {one for name, one in outcomes.items() if name not in failed} == {"scored"}


# --- repeats ----------------------------------------------------------------------------------------------------------


class Moody(Transcript):
    """Finds other claims, and other support, each time."""

    async def judge(self, request: JudgeRequest) -> Judgement:
        self.asked.append(request)
        if request.prompt_id.startswith("claims/"):
            # Four claims, then two, then none.
            return Judgement({"claims": [f"c{number}" for number in range((4, 2, 0)[request.repeat])]})
        statements = framed(request.prompt, "statement")
        # Of four one is supported, of two both are.
        full = 1 if len(statements) == 4 else 2
        words = ["full"] * full + ["none"] * (len(statements) - full)
        return Judgement({"verdicts": [{"number": n, "why": "", "verdict": w} for n, w in enumerate(words, 1)]})


def test_repeats_are_judged_from_the_claims_on_and_averaged() -> None:
    critic = Moody()
    result = result_of(metric({"claim_faithfulness": {"critic": critic}}), repeats=2)
    assert list(result.scores or ()) == [float((F(1, 4) + 1) / 2)]
    assert result.details["num_claims"] == (4 + 2) / 2
    assert result.details["judge"]["num_judgements"] == 2
    assert critic.kinds() == {"claims": 2, "support": 2}
    # The third repeat finds no claims: the other repeats count.
    third = result_of(metric({"claim_faithfulness": {"critic": Moody()}}), repeats=3)
    assert list(third.scores or ()) == [float((F(1, 4) + 1) / 2)]
    assert third.details["judge"]["num_failed"] == 0


# --- sentences, functions, models -------------------------------------------------------------------------------------

RAIN_AND_CAT = "Rain falls. The cat sat. Rain falls."


def contains(premise: str, hypothesis: str) -> bool:
    return hypothesis.rstrip(".").lower() in premise.lower()


def test_sentences_need_no_extraction() -> None:
    pair = asked(RAIN_AND_CAT, ["rain falls every day", "a dog"], "The cat sat. It rains. A dog.")
    built = metric({"claim_faithfulness": {"claims": "sentences", "verifier": contains}})
    assert outcome(built, pair) == 1 / 2  # two different sentences
    assert outcome(metric({"claim_recall": {"claims": "sentences", "verifier": contains}}), pair) == 1 / 3
    assert outcome(metric({"claim_precision": {"claims": "sentences", "verifier": contains}}), pair) == 1 / 2
    recall = metric({"claim_context_recall": {"claims": "sentences", "verifier": contains, "evidence": "each"}})
    assert outcome(recall, pair) == 1 / 3
    bare = ScriptedBareCritic(lambda prompt, _: float("[begin statement 1" in prompt and "\nRain falls.\n" in prompt))
    assert outcome(metric({"claim_faithfulness": {"claims": "sentences", "critic": bare}}), pair) == 1 / 2
    assert sum(counts["sample_id"] == "0" for _, counts in bare.asked) == 2


def test_function_is_called_once_for_the_family_without_repeats() -> None:
    seen: list[tuple[str, str]] = []

    def noted(premise: str, hypothesis: str) -> bool:
        seen.append((premise, hypothesis))
        return contains(premise, hypothesis)

    sample, output = asked(RAIN_AND_CAT, ["rain falls every day", "a dog"], "A cat sits. It rains.")
    built = [metric({name: {"claims": "sentences", "verifier": noted}}) for name in FAMILY]
    evaluate([sample], [output], built, judging=JudgePolicy(repeats=3))
    assert len(seen) == len(set(seen)) == 2 * 2 * (1 + 1 + 2)


def test_function_that_fails_is_a_failed_measurement() -> None:
    def broken(premise: str, hypothesis: str) -> float:
        raise RuntimeError("out of order")

    built = metric({"claim_faithfulness": {"claims": "sentences", "verifier": broken}})
    with pytest.warns(AueporaWarning, match="critic_raised"):
        assert outcome(built, asked(RAIN_AND_CAT)) == "measure_failed:critic_raised"


@pytest.mark.part("models")
def test_nli_model_verifies_claims_of_a_judge() -> None:
    nli = NliModel(made("nli"), threshold=0.01)  # so that everything follows
    critic = transcript()
    built = metric({"claim_faithfulness": {"critic": critic, "verifier": nli}})
    result = result_of(built)
    assert result.value == 1.0
    assert critic.kinds() == {"claims": 1}
    assert result.details["num_truncated"] == 0
    with pytest.warns(AueporaWarning, match="longer than the model reads"):
        cut = result_of(built, asked(documents=["rain " * 600]))
    assert cut.details["num_truncated"] == len(A)
    strict = metric(
        {"claim_faithfulness": {"claims": "sentences", "verifier": {"nli": {"model": made("nli"), "threshold": 1}}}}
    )
    assert outcome(strict, asked(RAIN_AND_CAT)) == 0.0


def test_one_critic_extracts_and_another_verifies() -> None:
    lists, checks = transcript(name="lists"), transcript(name="checks")
    built = metric({"claim_precision": {"critic": lists, "verifier": checks}})
    assert outcome(built) == 2 / 5
    assert (lists.kinds(), checks.kinds()) == ({"claims": 1}, {"support": 1})
    shown = str(built.signature)  # type: ignore[attr-defined]
    assert "|critic:lists|claims:claims/1/" in shown
    assert "|verifier:checks|support:support/1/" in shown


# --- reverse questions ------------------------------------------------------------------------------------------------

QUERY = "Who built the tower, and how?"
VECTORS = {QUERY: [1, 0], "same": [2, 0], "half": [3, 4], "across": [0, 1], "against": [-1, 0], "zero": [0, 0]}


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(one) for one in VECTORS[text]] for text in texts]


def relevance(evades: bool, questions: list[str], **options: Any) -> Any:
    critic = transcript(questions={ANSWER: (evades, questions)})
    built = metric(
        {"reverse_question_relevance": {"critic": critic, "embed_fn": embed, "n": len(questions), **options}}
    )
    return outcome(built)


REVERSED: list[tuple[bool, list[str], dict[str, Any], Any]] = [
    (False, ["same", "same", "same"], {}, 1.0),
    (False, ["same", "half", "across"], {}, float((1 + F(3, 5) + 0) / 3)),
    (False, ["against"], {}, -1.0),
    (True, ["same"], {}, 0.0),
    (True, ["zero"], {}, 0.0),
    (True, ["same"], {"noncommittal": "ignore"}, 1.0),
    (True, ["same"], {"noncommittal": "skip"}, "skipped:noncommittal"),
]


@pytest.mark.parametrize(("evades", "questions", "options", "want"), REVERSED)
def test_reverse_questions(evades: bool, questions: list[str], options: dict[str, Any], want: Any) -> None:
    found = relevance(evades, questions, **options)
    assert found == (want if isinstance(want, str) else pytest.approx(want))


def test_question_with_a_zero_vector_is_a_failed_measurement() -> None:
    assert relevance(False, ["same", "zero"]) == "measure_failed:zero_vector"


def test_reverse_questions_at_the_edges() -> None:
    critic = transcript(questions={ANSWER: (True, ["same", "half", "across"])})
    built = metric({"reverse_question_relevance": {"critic": critic, "embed_fn": embed}})
    assert isinstance(built, BatchMetric)
    sample, output = asked()
    empty = replace(sample, query=" ")
    failed = SystemOutputs([], error="timeout")
    result = result_of(built, asked(), asked(" "), asked(None), (empty, output), (sample, failed))
    assert result.outcomes == [
        "scored",
        "scored",
        "skipped:no_response",
        "skipped:empty_query",
        "system_failed:timeout",
    ]
    assert list(result.scores or ()) == [0.0, 0.0, None, None, -1.0]
    assert result.details["num_noncommittal"] == 1
    assert len(critic.asked) == 1
    assert built.compute([sample], [output]).value == 0.0


@pytest.mark.part("models")
def test_reverse_questions_by_the_model_that_is_installed() -> None:
    critic = ScriptedCritic(lambda _: {"noncommittal": False, "questions": [QUERY, "Wie groß ist ein Hund?"]})
    built = metric({"reverse_question_relevance": {"critic": critic, "n": 2}})
    assert isinstance(built, BatchMetric)
    from auepora_eval.models.loading import find_installed_model

    if find_installed_model() is None:
        assert "|embed:none|" in str(built.signature)
        with pytest.raises(BadValueError, match="needs an embedder"):
            built.require_ready()
        return
    built.require_ready()
    assert "|embed:none|" not in str(built.signature)
    found = outcome(built)
    assert 0.4 < found < 0.75  # one is the question itself, the other has nothing to do with it


# --- options, signatures, errors --------------------------------------------------------------------------------------


def test_number_critic_cannot_list_claims() -> None:
    bare = ScriptedBareCritic(lambda *_: 1)
    for name in FAMILY:
        with pytest.raises(
            BadValueError, match=f"metric '{name}' needs a critic that lists claims.* set 'claims: sentences'"
        ):
            result_of(metric({name: {"critic": bare}}))
    with pytest.raises(BadValueError, match="a critic that lists sentences"):
        result_of(metric({"judged_context_relevance": {"critic": bare}}))
    with pytest.raises(BadValueError, match="a critic that lists questions"):
        result_of(metric({"reverse_question_relevance": {"critic": bare, "embed_fn": embed}}))
    built = metric({"claim_precision": {"critic": bare}})
    assert isinstance(built, BatchMetric)
    with pytest.raises(BadValueError, match="claims: sentences"):
        built.require_ready()


def test_number_between_0_and_1_is_not_a_yes_or_no_reply() -> None:
    yes = ScriptedBareCritic(lambda *_: 1)
    assert outcome(metric({"judged_context_precision": {"critic": yes}})) == 1.0
    unsure = ScriptedBareCritic(lambda *_: 0.7)
    with pytest.warns(AueporaWarning, match="no judgement .unparseable"):
        assert outcome(metric({"judged_context_precision": {"critic": unsure}})) == "measure_failed:unparseable"


@pytest.mark.parametrize(
    "name", [*FAMILY, "judged_context_precision", "judged_context_relevance", "reverse_question_relevance"]
)
def test_metric_without_a_critic_raises_when_used(name: str) -> None:
    built = metric(name)
    assert isinstance(built, BatchMetric)
    assert "critic:none" in str(built.signature)
    assert not built.metadata.suggested
    with pytest.raises(BadValueError, match=f"metric '{name}' needs a critic"):
        result_of(built)
    with pytest.raises(BadValueError, match="needs a critic"):
        built.require_ready()


def test_signatures_show_the_judges() -> None:
    def shown(name: str, **options: Any) -> str:
        return str(metric({name: options}).signature)  # type: ignore[attr-defined]

    critic = transcript()
    assert "|evidence:joined|" in shown("claim_faithfulness", critic=critic)
    assert "|k:3|" in shown("claim_faithfulness", critic=critic, k=3)
    assert shown("claim_context_recall@3", critic=critic).startswith("claim_context_recall@3|critic:transcript|")
    assert "|k:" not in shown("claim_context_recall@3", critic=critic)
    assert "|beta:2|" in shown("claim_f1", critic=critic, beta=2)
    assert "|noise:relevant|" in shown("noise_sensitivity", critic=critic, noise="relevant")
    assert "|against:answer|" in shown("judged_context_precision", critic=critic, against="answer")
    alone = shown("claim_precision", claims="sentences", verifier=EntailmentFunction(contains, 0.7))
    assert "critic:" not in alone
    assert "support:" not in alone
    assert "|claims:sentences|" in alone
    assert "contains from 0.7" in alone
    for name in ("claim_context_recall", "judged_context_precision", "judged_context_relevance"):
        built = metric({name: {"critic": critic}})
        assert isinstance(built, BatchMetric)
        assert built.run_signature_options(RunInfo(top_k=5)) == {"top_k": "5"}
        assert built.run_signature_options(RunInfo()) == {}


def test_custom_prompts(tmp_path: Path) -> None:
    path = tmp_path / "mine.md"
    path.write_text("{{evidence}} {{statements}} {{form}}")
    built: Any = metric({"claim_precision": {"support_prompt": str(path)}})
    assert "|support:mine/1/" in str(built.signature)
    assert spec_of(built) == {"claim_precision": {"support_prompt": str(path)}}
    critic = ScriptedCritic(lambda request: {"claims": []} if "text" in request.prompt else {})
    result_of(metric({"claim_precision": {"critic": critic, "support_prompt": str(path)}}))
    with pytest.raises(DataFileError, match="the slots are form, question, text"):
        metric({"claim_precision": {"claims_prompt": str(path)}})


WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("claim_precision", {"critic": "gpt"}, BadTypeError, "critic must be"),
    ("claim_precision", {"verifier": 5}, BadTypeError, "verifier must be"),
    ("reverse_question_relevance", {"embed_fn": 5}, BadTypeError, "embed_fn must be"),
]


@pytest.mark.parametrize(("name", "options", "error", "message"), WRONG, ids=[f"{row[0]} {row[1]}" for row in WRONG])
def test_invalid_options(name: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        metric({name: options})
