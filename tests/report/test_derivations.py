"""Derivations: the steps of every metric give exactly its score."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from auepora_eval import (
    BatchMetric,
    Document,
    EvaluationSample,
    Response,
    RetrievedDocument,
    Score,
    SystemOutputs,
    TargetCategory,
    evaluate,
    metric,
)
from auepora_eval.core.derivation import Derivation, ExplainContext, add_division, add_table
from auepora_eval.core.metrics_base import SampleMetric
from auepora_eval.core.registry import Spec, use_resources
from auepora_eval.judge.metric import JudgedMetric
from auepora_eval.report.cards import describe_option, describe_reducer
from helpers.builders import output, sample
from helpers.checks import for_each
from helpers.metric_examples import EXAMPLES, RESOURCES, SPECS, asks_a_model, built, made_data, model_names
from helpers.tiny_models import made

COMPUTED = [spec for spec in SPECS if not asks_a_model(spec) and not isinstance(built(spec), JudgedMetric)]
MODELS = [spec for spec in SPECS if asks_a_model(spec)]
# The output of a model or a judge cannot be derived; everything else can.
ASKED = {name for name, specs in EXAMPLES.items() if not any(spec in COMPUTED for spec in specs)}


@pytest.fixture(autouse=True)
def resources() -> Iterator[None]:
    with use_resources(RESOURCES):
        yield


def derivations(one: BatchMetric, seed: int) -> Iterator[tuple[Derivation, float | None]]:
    """The derivation of every scored sample, and its score."""
    rows, outs = made_data(seed)
    (result,) = evaluate(rows, outs, [one])
    context = ExplainContext(lambda: list(zip(rows, outs, strict=True)), may_call_models=True)
    for row, out, score, outcome in zip(rows, outs, result.scores or (), result.outcomes or (), strict=True):
        if outcome == "scored":
            assert out is not None
            yield one.explain(row, out, context), score


@pytest.mark.parametrize("spec", COMPUTED, ids=str)
def test_derivation_value_equals_the_score(spec: Spec) -> None:
    every = [one for seed in range(4) for one in derivations(built(spec), seed)]
    assert every
    assert not all(derivation.general for derivation, _ in every), "only what goes in and what comes out"
    for derivation, score in every:
        assert derivation.value == score
        assert derivation.general or derivation.steps[-1].value == score
        for step in derivation.steps:
            assert isinstance(step.text, str)
            assert step.text
            for row in () if step.table is None else step.table.rows:
                assert len(row) == len(step.table.headers)  # type: ignore[union-attr]
                assert {type(cell) for cell in row} <= {str, int, float, bool, type(None)}


@pytest.mark.part("models")
@pytest.mark.parametrize("spec", MODELS, ids=str)
def test_derivation_with_models_is_close_to_the_score(spec: Spec) -> None:
    assert isinstance(spec, dict)
    for name in model_names(spec):
        made(name)
    for derivation, score in derivations(built(spec), 0):
        assert derivation.value == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("spec", MODELS, ids=str)
def test_models_are_not_called_by_default(spec: Spec) -> None:
    scored_metric = metric(spec)
    assert isinstance(scored_metric, BatchMetric)
    rows, outs = made_data(0)
    pairs = [(r, o) for r, o in zip(rows, outs, strict=True) if o is not None and o.response is not None]
    context = ExplainContext(lambda: list(pairs), stored_score=0.25)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auepora_eval.models.loading._load_cached", _never)
        for row, out in pairs[:4]:
            if row.reference_answer is not None and row.references[0].strip() and out.response.text.strip():  # type: ignore[union-attr]
                assert scored_metric.explain(row, out, context).value == 0.25


def _never(*_: object) -> None:
    raise AssertionError("a model was loaded")


@for_each([spec for spec in SPECS if not asks_a_model(spec)])
def test_every_option_and_reducer_is_described(spec: Spec) -> None:
    one = built(spec)
    for key, value in one.signature.options.items():
        assert "an option of" not in describe_option(key, value, one.metadata.option_help), key
    assert describe_reducer(one.reducer.name) != one.reducer.name


def last(spec: Spec, row: EvaluationSample, out: SystemOutputs, **options: Any) -> str:
    one = metric(spec)
    assert isinstance(one, BatchMetric)
    return one.explain(row, out, ExplainContext(**options)).steps[-1].text


GRADED = sample({"a": 3, "b": 1, "c": 2})
ROWS: list[tuple[str, Spec, EvaluationSample, SystemOutputs, str]] = [
    (
        "recall: hits over gold",
        "recall@2",
        sample(["a", "b", "c"]),
        output("axb"),
        "Recall: hits / |G| = 1 / 3 = 0.333333",
    ),
    (
        "precision over what was returned",
        "precision@5",
        sample(["a"]),
        output("ax"),
        "Precision: hits / min(k, returned) = 1 / 2 = 0.5",
    ),
    (
        "tied scores below the depth of the conventions do not count",
        {"ndcg": {"ties": "average", "depth": 2}},
        sample(["a"]),
        SystemOutputs([RetrievedDocument(Document(one), 1.0, rank) for rank, one in enumerate("axb", start=1)]),
        f"nDCG: DCG / ideal DCG = 0.815465 / 1 = {(1 / 2 + 1 / 2 / math.log2(3)):.6g}",
    ),
    (
        "average precision by its divisor",
        {"map": {"ap": "gold"}},
        sample(["a", "b"]),
        output("axx"),
        "Average precision divides by |G|, as trec_eval does (`ap: gold`): 1 / 2 = 0.5",
    ),
    (
        "reciprocal rank",
        "mrr",
        sample(["b"]),
        output("axb"),
        "The first hit is b at rank 3: 1 / 3 = 0.333333",
    ),
    (
        "ndcg with levels",
        {"ndcg@3": {"gain_scheme": "linear"}},
        GRADED,
        output("bac"),
        f"nDCG: DCG / ideal DCG = 3.89279 / 4.76186 = {(1 + 3 / math.log2(3) + 1) / (3 + 2 / math.log2(3) + 0.5):.6g}",
    ),
    (
        "token F1 of the better reference",
        "token_f1",
        sample(answer="nothing", reference_answers=["the cat sat"]),
        output(answer="A cat sat down"),
        "The best F1 with P = 2 / 3 = 0.666667 and R = 2 / 2 = 1: 2 · 0.666667 · 1 / (0.666667 + 1) = 0.8",
    ),
    (
        "a refusal by its phrase",
        "negative_rejection_rate",
        sample(labels={"answerable": False}),
        output(answer="Sorry, I don't know."),
        "The system declined: 1",
    ),
    (
        "citations that are relevant",
        "citation_gold_precision",
        sample(["a"]),
        output(answer="so", citations=["a", "x", "a"]),
        "Both / |C| = 1 / 2 = 0.5",
    ),
    (
        "words that no document holds",
        "hallucination_rate",
        sample(),
        output(answer="so so", refused=None),
        "1 − 0 = 1",
    ),
    (
        "a timing",
        "mean_latency",
        sample(),
        output(timings={"end_to_end": 0.25}),
        "end_to_end in seconds: 0.25",
    ),
]


@pytest.mark.parametrize(("spec", "row", "out", "text"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_last_step(spec: Spec, row: EvaluationSample, out: SystemOutputs, text: str) -> None:
    assert last(spec, row, out) == text


def test_ndcg_shows_gain_and_discount_per_position() -> None:
    one = metric({"ndcg@3": {"gain_scheme": "linear"}})
    assert isinstance(one, BatchMetric)
    returned = one.explain(GRADED, output("bxac")).steps[2].table
    assert returned is not None
    assert returned.headers == ("rank", "document", "gain", "discount", "gain / discount")
    assert returned.rows == (
        (1, "b", 1.0, 1.0, 1.0),
        (2, "x", 0.0, math.log2(3), 0.0),
        (3, "a", 3.0, 2.0, 1.5),
    )


def test_duplicate_document_counts_once() -> None:
    one = metric("recall@3")
    assert isinstance(one, BatchMetric)
    table = one.explain(sample(["a"]), output("axa")).steps[1].table
    assert table is not None
    assert [row[3] for row in table.rows] == ["hit 1", "", "returned before"]


def test_variant_shows_its_base() -> None:
    base = sample(sample_id="clean", answer="a cat")
    noisy = sample(sample_id="typo", answer="a cat", labels={"variant_of": "clean", "scenario": "typo"})
    pairs = [(base, output(answer="a cat")), (noisy, output(answer="dog"))]
    one = metric("noise_robustness")
    assert isinstance(one, BatchMetric)
    derivation = one.explain(noisy, pairs[1][1], ExplainContext(lambda: pairs))
    assert derivation.steps[0].text == "Without noise, clean, answered with “a cat”: token_f1 = 1"
    assert derivation.value == 0.0


class Vowels(SampleMetric):
    """Counts vowels."""

    target = TargetCategory.GENERATION_RELEVANCE

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        return Score(sum(output.response.text.count(one) for one in "aeiou") / 10)


def test_custom_metric_shows_inputs_and_score() -> None:
    derivation = Vowels().explain(sample(query="how?"), SystemOutputs([], Response("aha")))
    assert (derivation.value, derivation.general) == (0.2, True)
    assert "The question: “how?”" in [step.text for step in derivation.steps]
    assert derivation.steps[-1].text.endswith("Vowels gives 0.2")


class VowelProportion(SampleMetric):
    """Records its steps while it computes."""

    target = TargetCategory.GENERATION_RELEVANCE

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        text = output.response.text
        add_table("Every letter", ("letter", "vowel"), ((one, one in "aeiou") for one in text))
        return Score(add_division("Vowels / letters", sum(one in "aeiou" for one in text), len(text)))


def test_custom_metric_may_record_its_steps() -> None:
    out = SystemOutputs([], Response("aha"))
    derivation = VowelProportion().explain(sample(), out)
    assert [step.text for step in derivation.steps] == ["Every letter", "Vowels / letters = 2 / 3 = 0.666667"]
    assert (derivation.value, derivation.general) == (2 / 3, False)
    assert VowelProportion().compute([sample()], [out]).value == 2 / 3  # nobody records: the same number, no steps
