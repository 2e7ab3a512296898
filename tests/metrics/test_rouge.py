"""ROUGE against hand-made fractions, the rouge-score package and ROUGE 1.5.5."""

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import EvaluationSample, MetricResult, Response, SystemOutputs, evaluate, metric
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.metrics.rouge import RougeL, RougeLQuery, RougeScores
from helpers.requirements import examples, need, need_data
from helpers.texts import TEXT

VARIANTS = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
UNANSWERABLE = {"answerable": False}
"""An empty reference is scored only where the question is marked so."""


def scored(pairs: list[tuple[str, str]], *specs: Any) -> dict[str, MetricResult]:
    samples = [
        EvaluationSample(str(n), "", reference_answer=Response(want), labels=UNANSWERABLE)
        for n, (want, _) in enumerate(pairs)
    ]
    return evaluate(samples, [SystemOutputs([], Response(have)) for _, have in pairs], specs).by_name


ROWS = [  # reference, answer, rouge1, rouge2, rougeL, why
    ("the cat sat", "the cat sat", 1.0, 1.0, 1.0, "identical"),
    ("the cat sat on the mat", "the cat", 1 / 2, 1 / 3, 1 / 2, "all of a short answer: recall 2/6 and 1/5"),
    ("a b c d", "d c b a", 1.0, 0.0, 1 / 4, "order counts, but not for single words"),
    ("a a b", "a a a", 2 / 3, 1 / 2, 2 / 3, "a repeat counts as often as in the text that has it less often"),
    ("police killed the gunman", "police kill the gunman", 1.0, 1.0, 1.0, "stemming makes killed and kill one word"),
    ("cats", "cat", 1.0, 0.0, 1.0, "words longer than three letters are stemmed; one word has no pair"),
    ("his", "hi", 0.0, 0.0, 0.0, "words of three letters are not"),
    ("", "anything", 0.0, 0.0, 0.0, "empty reference"),
    ("anything", "", 0.0, 0.0, 0.0, "empty answer"),
    ("", "", 0.0, 0.0, 0.0, "both empty"),
    ("мир", "мир", 0.0, 0.0, 0.0, "no token of a-z0-9"),
    ("日本", "日本", 1.0, 1.0, 1.0, "a script without spaces, two letters"),
    ("It's 5 o'clock!", "its 5 o clock", 2 / 3, 4 / 7, 2 / 3, "an apostrophe separates"),
]


@pytest.mark.parametrize(
    ("reference", "answer", "one", "two", "long"), [row[:5] for row in ROWS], ids=[r[5] for r in ROWS]
)
def test_by_hand(reference: str, answer: str, one: float, two: float, long: float) -> None:
    found = scored([(reference, answer)], "rouge1_answer", "rouge2_answer", "rougeL_answer")
    assert [result.value for result in found.values()] == pytest.approx([one, two, long], abs=1e-15)


@pytest.mark.parametrize("stem", [True, False])
def test_agrees_with_rouge_score(stem: bool) -> None:
    scorer = need("rouge_score.rouge_scorer").RougeScorer(VARIANTS, use_stemmer=stem)
    options = {"use_stemmer": stem, "tokenizer": "rouge_score"}

    @given(st.lists(st.tuples(TEXT, TEXT) | TEXT.map(lambda text: (text, text + " more")), min_size=1, max_size=6))
    @settings(max_examples=examples(200))
    def agrees(pairs: list[tuple[str, str]]) -> None:
        found = scored(pairs, *({f"{name}_answer": options} for name in VARIANTS))
        for row, (reference, answer) in enumerate(pairs):
            want = scorer.score(reference, answer)
            for name in VARIANTS:
                result = found[f"{name}_answer"]
                stats = result.scores.stats[row].tolist()  # type: ignore[union-attr]
                assert [result.scores[row], *stats] == pytest.approx(  # type: ignore[index]
                    [want[name].fmeasure, want[name].precision, want[name].recall], abs=1e-12
                ), (name, reference, answer)

    agrees()


@given(st.lists(TEXT, min_size=1, max_size=4), TEXT)
def test_best_reference_counts(references: list[str], answer: str) -> None:
    sample = EvaluationSample("1", "", reference_answers=references, labels=UNANSWERABLE)
    scorer = need("rouge_score.rouge_scorer").RougeScorer(VARIANTS, use_stemmer=True)
    want = scorer.score_multi(references, answer)
    for result in evaluate([sample], [SystemOutputs([], Response(answer))], [f"{name}_answer" for name in VARIANTS]):
        best = want[result.name.removesuffix("_answer")]
        assert result.value == pytest.approx(best.fmeasure, abs=1e-12)


def large_pairs() -> list[tuple[str, str]]:
    folder = need_data("rouge_score")
    lines = [
        (folder / f"{name}_large.txt").read_text(encoding="utf-8").splitlines() for name in ("target", "prediction")
    ]
    return list(zip(*lines, strict=True))


@pytest.mark.parametrize(("name", "stem"), [("rouge1", False), ("rouge1", True), ("rougeL", True)])
def test_agrees_with_rouge_1_5_5(name: str, stem: bool) -> None:
    expected = json.loads(need_data("rouge_score", "expected.json").read_text(encoding="utf-8"))
    want = expected[f"{name}_{'stemmer' if stem else 'no_stemmer'}"]
    result = scored(large_pairs(), {f"{name}_answer": {"use_stemmer": stem}})[f"{name}_answer"]
    assert result.value == pytest.approx(want["F"][1], abs=0.0002)
    assert result.details["precision"] == pytest.approx(want["P"][1], abs=0.0002)
    assert result.details["recall"] == pytest.approx(want["R"][1], abs=0.0002)


def test_agrees_with_rouge_score_on_real_summaries() -> None:
    pairs = large_pairs()
    scorer = need("rouge_score.rouge_scorer").RougeScorer(VARIANTS, use_stemmer=True)
    found = scored(pairs, *(f"{name}_answer" for name in VARIANTS))
    for row, (reference, answer) in enumerate(pairs[:300]):
        want = scorer.score(reference, answer)
        for name in VARIANTS:
            assert found[f"{name}_answer"].scores[row] == pytest.approx(want[name].fmeasure, abs=1e-12)  # type: ignore[index]


def test_all_variants_in_one_result() -> None:
    found = scored([("the cat sat", "the cat")], "rouge_scores", "rouge1_answer", "rouge2_answer", "rougeL_answer")
    result = found["rouge_scores"]
    assert result.value == found["rougeL_answer"].value
    for name in ("rouge1", "rouge2", "rougeL"):
        assert result.details[name] == found[f"{name}_answer"].value
    (first,) = scored([("the cat sat", "the cat")], {"rouge_scores": {"variants": ["rouge2", "rouge1"]}}).values()
    assert first.value == found["rouge2_answer"].value
    assert "value:rouge2" in str(first.signature)


def test_against_the_query() -> None:
    sample = EvaluationSample("1", "who sat on the mat")
    output = SystemOutputs([], Response("the cat sat"))
    results = evaluate([sample], [output], ["rouge1_query", "rougeL_query", "rouge2_query", "rougeLsum_query"])
    assert [result.name for result in results] == ["rouge1_query", "rougeL_query", "rouge2_query", "rougeLsum_query"]
    assert [result.value for result in results] == [1 / 2, 1 / 4, 0.0, 1 / 4]  # the, sat; either alone in order
    assert {result.target.name for result in results} == {"GENERATION_RELEVANCE"}
    assert RougeL(compare_to="query").name == RougeLQuery().name == "rougeL_query"
    assert str(RougeL(compare_to="query").signature) == str(RougeLQuery().signature)


def test_name_and_target_follow_from_what_is_compared() -> None:
    back = RougeLQuery(compare_to="reference")
    assert (back.name, back.target) == (RougeL().name, RougeL().target)
    assert str(back.signature) == str(RougeL().signature)
    assert RougeLQuery.target.name == "GENERATION_RELEVANCE"  # what the list of metrics shows
    assert metric("ROUGE-L").name == metric("rougeL").name == "rougeL_answer"
    assert metric("EM").name == "exact_match"
    assert str(metric("chrF++").signature).startswith("chrf|case:mixed|nc:6|nw:2")  # type: ignore[attr-defined]


def test_other_scripts_with_the_unicode_tokenizer() -> None:
    for text in ("مرحبا بالعالم", "Größe über alles", "हिन्दी में"):
        latin, other = scored(
            [(text, text)],
            {"rougeL_answer": {"as": "latin"}},
            {"rougeL_answer": {"tokenizer": "unicode", "as": "other"}},
        ).values()
        assert other.value == 1.0
        assert latin.value == (1.0 if "Gr" in text else 0.0)


@pytest.mark.parametrize("variants", ["rouge1", [], ["rouge3"], [1]])
def test_wrong_variants(variants: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="variants"):
        RougeScores(variants=variants)


@pytest.mark.parametrize("compare_to", ["reference", "query"])
def test_rouge_of_the_package_is_compared_alike_in_batches_and_one_by_one(compare_to: str) -> None:
    sample = EvaluationSample("1", "blue harbour", reference_answer=Response("Green harbour."))
    output = SystemOutputs([], Response("blue harbour"))
    built = metric("rougeL_answer", flavour="rouge_package", compare_to=compare_to)
    assert isinstance(built, BatchMetric)
    (result,) = evaluate([sample], [output], [built])
    want = 1.0 if compare_to == "query" else 1 / 2  # Green and harbour against blue and harbour
    assert result.value == pytest.approx(want, abs=1e-7)
    plain = built.reference(sample, output)
    assert plain is not None
    assert plain.value == result.value
