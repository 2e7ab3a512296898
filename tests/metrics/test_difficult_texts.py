"""Texts that break tools: every text metric gives a number or a reason, never a crash or a NaN."""

import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import BatchMetric, Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate
from auepora_eval.core.family import FamilyMetric
from auepora_eval.core.registry import metric, metric_infos
from auepora_eval.judge.metric import JudgedMetric
from helpers.requirements import examples
from helpers.texts import ATOMS, TEXT

METRICS = [
    name
    for name, info in metric_infos().items()
    if issubclass(info.cls, BatchMetric)
    and "response" in info.cls.metadata.reads
    and "citations" not in info.cls.metadata.reads
    if not issubclass(info.cls, FamilyMetric)  # they have no score of a sample by itself
    if not issubclass(info.cls, JudgedMetric)  # they need a judge
    if name not in ("answer_agreement", "edited_answer")  # they need several answers, and another metric
    if not {"model", "model_type", "embed_fn"}
    & set(info.options)  # they need a model; difficult texts are put to it elsewhere
]
OVERLAP = {
    *(f"rouge{variant}_{side}" for variant in ("1", "2", "L", "Lsum") for side in ("answer", "query")),
    "answer_relevance", "bleu", "chrf", "containment", "distinct_n", "evidence_overlap", "exact_match", "hallucination_rate",
    "rouge_scores", "support_coverage", "support_density", "token_f1",
}  # fmt: skip


def test_these_are_the_text_metrics() -> None:
    assert set(METRICS) >= OVERLAP


def pair(answer: str, reference: str, document: str = "") -> tuple[EvaluationSample, SystemOutputs]:
    sample = EvaluationSample("1", reference, relevant_docs=[Document("d")], reference_answer=Response(reference))
    return sample, SystemOutputs([RetrievedDocument(Document("d", document or reference), None, 1)], Response(answer))


def scored(*pairs: tuple[EvaluationSample, SystemOutputs], metrics: Any = tuple(METRICS)) -> dict[str, Any]:
    samples, outputs = zip(*pairs, strict=True)
    return {r.name: r for r in evaluate(samples, outputs, metrics)}


@pytest.mark.slow
@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=5))
@settings(max_examples=examples(150))
def test_number_or_a_reason(rows: list[tuple[str, str, str]]) -> None:
    for result in scored(*(pair(*row) for row in rows)).values():
        low, high = metric(result.name).range  # type: ignore[attr-defined]
        for score, outcome in zip(result.scores, result.outcomes, strict=True):
            assert (score is not None and low <= score <= high + 1e-9) or outcome.startswith("skipped:")
        assert math.isfinite(result.value)


@pytest.mark.slow
@given(
    st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3), TEXT), min_size=1, max_size=4), st.integers(1, 3)
)
@settings(max_examples=examples(100))
def test_batch_path_is_the_plain_definition(rows: list[tuple[str, list[str], str]], size: int) -> None:
    gold = [Document("d")]
    samples = [
        EvaluationSample(str(n), document, relevant_docs=gold, reference_answers=refs)
        for n, (_, refs, document) in enumerate(rows)
    ]
    outputs = [pair(answer, "x", document)[1] for answer, _, document in rows]
    for name, result in {r.name: r for r in evaluate(samples, outputs, METRICS, batch_size=size)}.items():
        built = metric(name)
        assert isinstance(built, BatchMetric)
        value = built.reference_value(samples, outputs) if hasattr(built, "reference_value") else None
        if value is not None:
            assert (result.value if result.defined else math.nan) == pytest.approx(value, abs=1e-12, nan_ok=True)
        if built.metadata.needs_all:
            continue  # no sample has a score without the others
        for row, (sample, output) in enumerate(zip(samples, outputs, strict=True)):
            plain = built.reference(sample, output)
            assert plain is not None
            assert result.scores is not None
            assert result.outcomes is not None
            assert result.scores[row] == plain.value, (name, sample, output)  # to the last bit
            assert result.outcomes[row] == (f"skipped:{plain.reason}" if plain.reason else "scored")


SAME = [
    "日本語の答えです",
    "مرحبا بالعالم",
    "Größenwahn à la carte",
    "Ωμέγα και άλφα",
    "हिन्दी में उत्तर",
    "שלום עולם",
    "ответ на вопрос",
]
PERFECT = {"bleu": 100.0, "chrf": 100.0, "hallucination_rate": 0.0}


@pytest.mark.parametrize("text", SAME)
def test_same_text_is_perfect_in_every_script(text: str) -> None:
    names = sorted(OVERLAP - {"distinct_n"})
    for name, result in scored(pair(text, text), metrics=names).items():
        if name.startswith("rouge"):
            continue
        assert result.scores[0] == pytest.approx(PERFECT.get(name, 1.0)), name
    rouge = [{name: {"tokenizer": "unicode"}} for name in names if name.startswith("rouge") and name != "rouge_scores"]
    for name, result in scored(pair(text, text), metrics=rouge).items():
        assert result.value == 1.0 or ("2" in name and len(text.split()) < 2), name


def test_reference_page_names_the_scripts_of_rouge() -> None:
    from auepora_eval.metrics.rouge import Rouge1, RougeL

    for cls in (Rouge1, RougeL):
        assert "other scripts" in (cls.__doc__ or "")
        assert "`tokenizer: auto`" in " ".join((cls.__doc__ or "").split())


@pytest.mark.slow
def test_answers_of_thirty_thousand_words() -> None:
    long = " ".join(f"w{n % 5000}" for n in range(30_000))
    found = scored(pair(long, long), pair(long + " more", long), pair("short", long))
    for name in OVERLAP - {"distinct_n", "rougeLsum_query"}:
        assert found[name].scores[0] == pytest.approx(PERFECT.get(name, 1.0)), name
    assert found["rougeL_answer"].scores[2] + 1e-9 > 0
    assert found["bleu"].scores[2] == 0.0


@pytest.mark.parametrize("atom", ATOMS, ids=ascii)
def test_one_difficult_word_equals_itself(atom: str) -> None:
    text = f"x {atom} y"
    found = scored(
        pair(text, text), metrics=["exact_match", "token_f1", "bleu", "chrf", "containment", "support_density"]
    )
    for name, result in found.items():
        # The score, not the value: BLEU of all answers together is 0 where none has four tokens.
        assert result.scores[0] == pytest.approx(PERFECT.get(name, 1.0)), name


def test_text_none_is_empty() -> None:
    sample = EvaluationSample("1", "q", reference_answer=Response(None), labels={"answerable": False})  # type: ignore[arg-type]
    output = SystemOutputs([], Response(None))  # type: ignore[arg-type]
    (match,) = evaluate([sample], [output], ["exact_match"])
    assert match.value == 1.0
