"""Answers against their evidence: hand-made fractions with their reasons."""

from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, metric

SKIP = "skipped:"


def outcome(spec: Any, answer: str | None, *texts: str | None, relevant: list[str] | None = None) -> Any:
    """The score of one answer with these documents retrieved, or how it was not scored."""
    gold = None if relevant is None else [Document(f"g{n}", text) for n, text in enumerate(relevant)]
    sample = EvaluationSample("1", "why?", relevant_docs=gold)
    docs = [RetrievedDocument(Document(f"d{n}", text), None, n) for n, text in enumerate(texts, 1)]  # type: ignore[arg-type]
    output = SystemOutputs(docs, None if answer is None else Response(answer))
    (result,) = [metric(spec).compute([sample], [output])]
    (score,), (text,) = list(result.scores or ()), list(result.outcomes or ())
    return score if text == "scored" else text


DENSITY = [  # answer, documents, want, why
    ("paris paris london", ["paris"], 2 / 3, "each occurrence counts, and none is clipped"),
    ("Paris!", ["in paris."], 1, "case and punctuation do not count"),
    ("the cat", ["a cat"], 1 / 2, "articles count"),
    ("a b", ["a", "b"], 1, "any document will do"),
    ("a b", [], 0, "nothing retrieved"),
    ("a b", [""], f"{SKIP}no_text", "only ids are known"),
    ("a b", ["", "b"], 1 / 2, "one document without text beside one with"),
    ("", ["a"], f"{SKIP}empty_answer", "no words"),
    ("...", ["a"], f"{SKIP}empty_answer", "punctuation alone is no word"),
    (None, ["a"], f"{SKIP}no_response", "no answer was asked for"),
    ("日本 語", ["日本 語"], 1, "another script"),
    ("a b", [None, "a"], 1 / 2, "a text of None is no text"),
]


@pytest.mark.parametrize(("answer", "texts", "want"), [r[:3] for r in DENSITY], ids=[r[3] for r in DENSITY])
def test_support_density(answer: str | None, texts: list[str], want: Any) -> None:
    assert outcome("support_density", answer, *texts) == want
    assert outcome("evidence_overlap", answer, *texts) == want
    assert outcome("hallucination_rate", answer, *texts) == (want if isinstance(want, str) else 1 - want)


def test_bigrams_lie_within_one_document() -> None:
    spec = {"evidence_overlap": {"n": 2}}
    assert outcome(spec, "the cat sat", "the cat", "cat sat down") == 1
    assert outcome(spec, "the cat sat", "the cat", "sat down") == 1 / 2
    assert outcome(spec, "cat", "cat") == f"{SKIP}too_short"
    assert outcome({"evidence_overlap": {"n": 3}}, "a b c d", "b c d a b c") == 1


def test_only_the_first_k_documents() -> None:
    assert outcome({"support_density": {"k": 1}}, "a b", "a", "b") == 1 / 2
    assert outcome({"evidence_overlap": {"k": 2}}, "a b", "a", "b") == 1


def test_relevant_documents_as_evidence() -> None:
    spec = {"evidence_overlap": {"evidence_source": "relevant"}}
    assert outcome(spec, "a b", "b", relevant=["a"]) == 1 / 2
    assert outcome(spec, "a b", "b", relevant=[]) == f"{SKIP}empty_gold"
    assert outcome(spec, "a b", "b") == f"{SKIP}no_gold"
    assert outcome(spec, "a b", "b", relevant=[""]) == f"{SKIP}no_text"


COVERAGE = [  # answer, documents, want, why
    ("the capital is paris", ["paris"], 1 / 2, "capital and paris are content, the and is are not"),
    ("it is the", ["it is the"], f"{SKIP}no_content", "function words alone"),
    ("paris paris rome", ["paris"], 2 / 3, "each occurrence counts"),
    ("paris", [], 0, "nothing retrieved"),
    ("", ["paris"], f"{SKIP}empty_answer", "no words"),
]


@pytest.mark.parametrize(("answer", "texts", "want"), [r[:3] for r in COVERAGE], ids=[r[3] for r in COVERAGE])
def test_support_coverage(answer: str, texts: list[str], want: Any) -> None:
    assert outcome("support_coverage", answer, *texts) == want


def test_documents_shared_by_many_answers() -> None:
    shared = Document("d", "the cat sat on the mat")
    samples = [EvaluationSample(str(n), "") for n in range(3)]
    outputs = [SystemOutputs([RetrievedDocument(shared, 1.0, 1)], Response(text)) for text in ("cat", "dog", "mat dog")]
    (result,) = evaluate(samples, outputs, ["support_density"])
    assert list(result.scores or ()) == [1, 0, 1 / 2]


def test_failure_counts_at_the_worst() -> None:
    sample = EvaluationSample("1", "")
    failed = SystemOutputs([], error="timeout")
    density, rate = evaluate([sample], [failed], ["support_density", "hallucination_rate"])
    assert (density.value, rate.value) == (0.0, 1.0)


def test_options_that_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="'k' counts retrieved documents"):
        metric("evidence_overlap", evidence_source="relevant", k=3)


def test_document_whose_text_is_not_a_string() -> None:
    output = SystemOutputs([RetrievedDocument(Document("d", 5), 1.0, 1)], Response("x"))  # type: ignore[arg-type]
    none = SystemOutputs([RetrievedDocument(Document("d", None), 1.0, 1)], Response("x"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sample '1': the text of a document is 5, not a string"):
        evaluate([EvaluationSample("0", ""), EvaluationSample("1", "")], [none, output], ["support_density"])
    sample = EvaluationSample("7", "", relevant_docs=["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="sample '7': 'relevant_docs' holds a str, not a Document"):
        evaluate([sample], [none], [{"evidence_overlap": {"evidence_source": "relevant"}}])
