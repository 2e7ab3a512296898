"""The client's metrics in one place: the exports are the metrics, and the functions agree with them."""

import doctest

import pytest
from hypothesis import given, strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric
from auepora_eval.core.registry import spec_of
from auepora_eval.metrics import generation_metrics, ranking, retrieval as retrieval_basic, retrieval_metrics
from auepora_eval.metrics.client_base import ClientMetric
from auepora_eval.metrics.generation_metrics import (
    answer_relevance,
    exact_match,
    hallucination_rate,
    rouge_l_f1,
    support_coverage,
    support_density,
    token_f1,
)

TEXTS = st.lists(
    st.sampled_from(["Ada", "ada", "the", "of", "wrote", "programs", "program,", "42", "?", "é"]), max_size=6
)
TEXT = TEXTS.map(" ".join)


@pytest.mark.parametrize("module", [retrieval_metrics, generation_metrics])
def test_examples_hold(module: object) -> None:
    done = doctest.testmod(module)  # type: ignore[arg-type]
    assert done.attempted
    assert not done.failed


@given(answer=TEXT, query=TEXT, references=st.lists(TEXT, min_size=1, max_size=3), documents=st.lists(TEXT, max_size=3))
def test_functions_agree_with_the_metrics(answer: str, query: str, references: list[str], documents: list[str]) -> None:
    functions = {
        "exact_match": exact_match(answer, references),
        "token_f1": token_f1(answer, references),
        "rougeL_answer": rouge_l_f1(answer, references),
        "answer_relevance": answer_relevance(answer, query),
        "support_coverage": support_coverage(answer, documents),
        "support_density": support_density(answer, documents),
        "hallucination_rate": hallucination_rate(answer, documents),
    }
    sample = EvaluationSample(
        "1", query, reference_answer=Response(references[0]), reference_answers=references, labels={"answerable": False}
    )
    found = [RetrievedDocument(Document(str(rank), text), 1.0, rank) for rank, text in enumerate(documents, 1)]
    results = evaluate([sample], [SystemOutputs(found, Response(answer))], list(functions))
    assert {result.name: next(iter(result.scores or ())) for result in results} == functions


ROWS = [  # got, want, why
    (exact_match("Paris", "The Paris"), 1.0, "one reference is a text, not its letters"),
    (exact_match("", ["", "Paris"]), 0.0, "an empty reference does not count beside another"),
    (exact_match("", ""), 1.0, "alone it asks for an empty answer"),
    (token_f1("Paris France", ["Paris", "London"]), 2 / 3, "the best reference"),
    (rouge_l_f1("b a", "a b"), 1 / 2, "one of two in order"),
    (answer_relevance("Paris", "?"), None, "the query has no words"),
    (exact_match("Paris", []), None, "no reference"),
    (token_f1("Paris", []), None, "no reference"),
    (rouge_l_f1("Paris", []), None, "no reference"),
    (support_density("Paris", []), 0.0, "nothing retrieved"),
    (support_density("Paris", [""]), None, "documents without text"),
    (support_density("paris paris london", "paris"), 2 / 3, "as often as they occur"),
    (support_coverage("of the", ["of the"]), None, "function words alone"),
    (hallucination_rate("...", ["x"]), None, "no words"),
    (hallucination_rate("Paris London", ["Paris."]), 1 / 2, "one of two"),
    (exact_match(None, [""]), None, "exact match: no answer"),
    (token_f1(None, "Paris"), None, "token F1: no answer"),
    (rouge_l_f1(None, "Paris"), None, "ROUGE-L: no answer"),
    (answer_relevance(None, "Paris"), None, "relevance: no answer"),
    (support_coverage(None, ["Paris"]), None, "coverage: no answer"),
    (support_density(None, []), None, "density: no answer"),
    (hallucination_rate(None, []), None, "hallucination: no answer"),
    (token_f1("Paris", None), None, "the reference is None"),
]


@pytest.mark.parametrize(("got", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_functions(got: float | None, want: float | None, why: str) -> None:
    assert got == want


def test_modules_of_the_client_follow_its_conventions_by_default() -> None:
    assert retrieval_metrics.precision_at_k("ab", "a", 5) == 1 / 5  # over k, not over what was returned
    assert retrieval_metrics.map_at_k("abcd", "a", 2) == 1 / 4  # over the gold, not over min(|G|, k)
    assert ranking.precision_at_k("ab", "a", 5) == 1  # other modules keep their own defaults
    suite = [getattr(module, name) for module in (retrieval_metrics, generation_metrics) for name in module.__all__]
    classes = {one for one in suite if isinstance(one, type)}
    assert all(issubclass(one, ClientMetric) for one in classes)
    assert {one.__name__ for one in classes} == {
        "AQWV", "AnswerRelevance", "CrossEncoderSimilarity", "ExactMatch", "HallucinationRate", "MRRAtK",
        "MeanAveragePrecision", "NDCGAtK", "PrecisionAtK", "RecallAtK", "RougeL", "SbertSimilarity",
        "SupportCoverage", "SupportDensity", "TokenF1",
    }  # fmt: skip
    chosen = retrieval_metrics.PrecisionAtK(5)
    assert isinstance(chosen, retrieval_basic.PrecisionAtK)
    assert spec_of(chosen) == spec_of(metric("precision@5", conventions="client"))
    sample = EvaluationSample("1", "q", relevant_docs=[Document("a", ""), Document("b", "")])
    output = SystemOutputs([RetrievedDocument(Document("a", ""), 1.0, 1)], Response(""))
    results = evaluate([sample], [output], [chosen, retrieval_metrics.MeanAveragePrecision()], conventions="auepora")
    assert [result.value for result in results] == [1 / 5, 1 / 2]
