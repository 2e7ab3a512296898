"""Semantic metrics: hand-made cosines with their reasons, tiny models, and invalid texts."""

import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auepora_eval import (
    AueporaEvaluator,
    AueporaWarning,
    BatchMetric,
    Document,
    EvaluationSample,
    InMemoryDataset,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
    evaluate,
    metric,
)
from auepora_eval.core.metrics_base import RunInfo
from auepora_eval.core.registry import Spec
from auepora_eval.errors import BadValueError
from auepora_eval.metrics.bertscore import BertScoreMetric
from auepora_eval.metrics.semantic import CrossEncoderSimilarity, EmbeddingSimilarity, SbertSimilarity
from auepora_eval.models.loading import ModelSource, load_classifier
from helpers.letter_vectors import letters
from helpers.requirements import need
from helpers.suggestions import suggest_metrics
from helpers.tiny_models import LONGEST, made
from helpers.user_project import Project

HALF = 2**-0.5
"""The cosine of two directions that share one of two parts."""
TABLE: dict[str, Any] = {
    "nan": [math.nan, 1.0],
    "zero": [0.0, 0.0],
    "wide": [1.0, 0.0, 0.0],
    "text": ["x", "y"],
    "east": [1.0, 0.0],
    "west": [-2.0, 0.0],
    "north": [0.0, 3.0],
}


def by_table(texts: list[str]) -> list[Any]:
    return [TABLE[text] for text in texts]


def one(built: BatchMetric, answer: str | None, references: Sequence[str], query: str = "why?") -> Any:
    """The score of one answer, or how it was not scored."""
    first = Response(references[0]) if references else None
    row = EvaluationSample(
        "q", query, reference_answer=first, reference_answers=list(references), labels={"answerable": False}
    )
    out = SystemOutputs([], None if answer is None else Response(answer))
    return outcome(built, row, out)


def outcome(built: BatchMetric, row: EvaluationSample, out: SystemOutputs) -> Any:
    (result,) = evaluate(
        [row, EvaluationSample("other", "x", reference_answer=Response("east"))],
        [out, SystemOutputs([], None)],
        [built],
    )
    text = (result.outcomes or ())[0]
    score = (result.scores or ())[0]
    plain = built.reference(row, out)
    assert plain is not None
    if text == "scored":
        assert plain.value == pytest.approx(score, abs=1e-6)
        return pytest.approx(score, abs=1e-9)
    assert text == f"{plain.status.name.lower()}:{plain.reason}"
    return text


BAD, ZERO = "measure_failed:bad_embedding", "measure_failed:zero_vector"
COSINES: list[tuple[str | None, list[str], Any, str]] = [
    ("east", ["east"], 1.0, "the same"),
    ("east", ["west"], -1.0, "the opposite, whatever the length"),
    ("east", ["north"], 0.0, "nothing shared"),
    ("east", ["west", "north"], 0.0, "the best of two references"),
    ("", [""], 1.0, "both empty"),
    (" \n", ["\t"], 1.0, "nothing but spaces is empty"),
    ("", ["east"], 0.0, "an empty answer"),
    ("east", [""], 0.0, "an empty reference"),
    ("west", ["", "east"], -1.0, "an empty reference does not count beside another"),
    ("", ["", "east"], 0.0, "nor does it make an empty answer right"),
    ("nan", ["east"], BAD, "NaN in a vector"),
    ("east", ["text"], BAD, "no numbers"),
    ("east", ["wide"], BAD, "vectors of different sizes"),
    ("zero", ["east"], ZERO, "a vector without direction"),
    ("zero", ["nan"], BAD, "the first reason wins"),
    ("east", ["east", "nan"], BAD, "one reference that cannot be measured might have been the best"),
    (None, ["east"], "skipped:no_response", "no answer was asked for"),
    ("east", [], "skipped:no_reference", "nothing to compare to"),
]


@pytest.mark.parametrize(("answer", "references", "want"), [r[:3] for r in COSINES], ids=[r[3] for r in COSINES])
def test_cosines(answer: str | None, references: list[str], want: Any) -> None:
    assert one(EmbeddingSimilarity(by_table), answer, references) == want


def test_against_the_query() -> None:
    built = EmbeddingSimilarity(letters, compare_to="query")
    assert built.target is TargetCategory.GENERATION_RELEVANCE
    assert built.required_fields() == []
    assert "|to:query|" in str(built.signature)
    assert one(built, "ab", [], query="a") == HALF
    assert EmbeddingSimilarity(letters).target is TargetCategory.GENERATION_CORRECTNESS
    with pytest.raises(BadValueError, match="compare_to must be one of reference, query"):
        EmbeddingSimilarity(letters, compare_to="answer")  # type: ignore[arg-type]


def test_failed_answer_counts_at_the_worst_value() -> None:
    row = EvaluationSample("q", "why?", reference_answer=Response("east"))
    (result,) = evaluate([row, row], [SystemOutputs([], error="timeout"), None], [EmbeddingSimilarity(by_table)])
    assert result.value == -1.0
    assert result.details["failed_timeout"] == 1


def listed(*texts: str | None) -> SystemOutputs:
    documents = [Document(f"d{at}", text) for at, text in enumerate(texts)]  # type: ignore[arg-type]
    return SystemOutputs([RetrievedDocument(document, None, rank) for rank, document in enumerate(documents, 1)])


RELEVANCE: list[tuple[str, list[str | None], int | None, Any, str]] = [
    ("a", ["a", "b"], None, 1 / 2, "one of two is about it"),
    ("a", ["a", "b"], 1, 1.0, "only the first is looked at"),
    ("a", ["ab"], None, HALF, "half about it"),
    ("a", ["", "a"], None, 1.0, "a document without text is none"),
    ("a", [], None, 0.0, "nothing returned"),
    ("a", ["", None], None, "skipped:no_text", "no document has text"),
    (" ", ["a"], None, "skipped:empty_query", "no question"),
    ("a", ["a", "?"], None, ZERO, "a document without a vector"),
]


@pytest.mark.parametrize(("query", "texts", "k", "want"), [r[:4] for r in RELEVANCE], ids=[r[4] for r in RELEVANCE])
def test_context_relevance(query: str, texts: list[str | None], k: int | None, want: Any) -> None:
    built: Any = metric("embedding_context_relevance", embed_fn=letters, k=k)
    assert outcome(built, EvaluationSample("q", query), listed(*texts)) == want


REDUNDANCY: list[tuple[list[str | None], int | None, Any, str]] = [
    (["a", "b"], None, 0.0, "nothing is said twice"),
    (["a", "a"], None, 1.0, "everything is"),
    (["a", "b", "a"], None, (0 + 1) / 2, "the third repeats the first"),
    (["a", "b", "ab"], None, (0 + HALF) / 2, "the third repeats half of either, the best of which counts"),
    (["a", "", "a"], 2, "skipped:too_few_documents", "one text among the first two"),
    (["a"], None, "skipped:too_few_documents", "one document"),
    (["a", "a", "?"], None, ZERO, "a document without a vector"),
]


@pytest.mark.parametrize(("texts", "k", "want"), [r[:3] for r in REDUNDANCY], ids=[r[3] for r in REDUNDANCY])
def test_context_redundancy(texts: list[str | None], k: int | None, want: Any) -> None:
    built: Any = metric("embedding_context_redundancy", embed_fn=letters, k=k)
    assert outcome(built, EvaluationSample("q", "a"), listed(*texts)) == want


def test_depth_of_a_run_is_in_the_signature() -> None:
    built: Any = metric("embedding_context_relevance@10", embed_fn=letters)
    assert built.run_signature_options(RunInfo(top_k=5)) == {"top_k": "5"}
    assert built.run_signature_options(RunInfo(top_k=10)) == built.run_signature_options(RunInfo()) == {}
    for wrong in (0, -1, 2.5):
        with pytest.raises(ValueError, match="k"):
            metric("embedding_context_redundancy", embed_fn=letters, k=wrong)


def test_three_metrics_embed_each_text_once() -> None:
    asked: list[str] = []

    def counting(texts: list[str]) -> Any:
        asked.extend(texts)
        return letters(texts)

    rows = [EvaluationSample(f"q{at}", "abc", reference_answer=Response("ab")) for at in range(6)]
    outs: list[SystemOutputs | None] = [listed("ab", "c", "abc") for _ in rows]
    for at, out in enumerate(outs):
        assert out is not None
        out.response = Response("ab" if at % 2 else f"a{at}")
    metrics: list[Any] = [
        metric("embedding_similarity", embed_fn=counting),
        metric("embedding_context_relevance", embed_fn=counting),
        metric("embedding_context_redundancy", embed_fn=counting),
        metric("intra_list_diversity@3", embed=counting),
    ]
    for size in (1, 4, 100):
        asked.clear()
        evaluate(rows, outs, metrics, batch_size=size)
        assert sorted(asked) == sorted(["abc", "ab", "a0", "a2", "a4", "c"])


@pytest.mark.part("models")
def test_same_model_named_twice_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path, asked = made("sbert"), []
    package = need("auepora_eval.models.embedders")
    encode = package.encode_texts

    def counting(loaded: Any, texts: list[str], size: Any) -> Any:
        asked.extend(texts)
        return encode(loaded, texts, size)

    monkeypatch.setattr(package, "encode_texts", counting)
    rows = [EvaluationSample("q", "the cat", reference_answer=Response("a dog"))]
    out = listed("a dog", "the cat")
    out.response = Response("the cat")
    specs: list[Spec] = [
        {"sbert_similarity": {"model": path}},
        {"embedding_similarity": {"embed_fn": {"sentence_transformers": {"model": path}}, "compare_to": "query"}},
        {"embedding_context_relevance": {"embed_fn": path}},
    ]
    evaluate(rows, [out], specs)
    assert sorted(asked) == ["a dog", "the cat"]


@pytest.mark.part("models")
def test_as_the_base_of_other_metrics() -> None:
    base = EvaluationSample("q1", "a?")
    changed = EvaluationSample("q2", "b?", labels={"variant_of": "q1", "scenario": "counterfactual"})
    outs: list[SystemOutputs | None] = [SystemOutputs([], Response("a")), SystemOutputs([], Response("ab"))]
    bases: list[tuple[Any, float | None]] = [
        ({"embedding_similarity": {"embed_fn": {"python": "helpers.letter_vectors:letters"}}}, HALF),
        ({"sbert_similarity": {"model": made("sbert")}}, None),
        ({"cross_encoder_similarity": {"model": made("cross-encoder")}}, None),
        ({"bertscore": {"model_type": made("bert"), "num_layers": 2}}, None),
    ]
    for spec, want in bases:
        (result,) = evaluate([base, changed], outs, [metric("counterfactual_consistency", base=spec)])
        assert result.details["num_scored"] == 1
        assert want is None or result.value == pytest.approx(want)
        (pair,) = evaluate([EvaluationSample("q2", "b?", reference_answer=Response("a"))], outs[1:], [spec])
        assert result.value == pytest.approx(pair.value, abs=1e-6)
    diverse: Any = metric("intra_list_diversity@2", embed={"sentence_transformers": {"model": made("sbert")}})
    (result,) = evaluate([base], [listed("the cat", "the cat")], [diverse])
    assert result.value == pytest.approx(0, abs=1e-6)


# --- models that read two texts -------------------------------------------------------------------------------------


@pytest.mark.part("models")
def test_cross_encoder_gives_what_its_own_package_gives() -> None:
    package = need("sentence_transformers")
    pairs = [("the cat sat", "a dog sat"), ("paris", "london is red"), ("who built it", "eiffel built the tower")]
    for name in ("cross-encoder", "cross-encoder-identity", "cross-encoder-roberta"):
        built: Any = metric("cross_encoder_similarity", model=made(name))
        want = package.CrossEncoder(made(name), device="cpu").predict(pairs).tolist()
        assert [one(built, answer, [text]) for text, answer in pairs] == [pytest.approx(w, abs=1e-5) for w in want]
        assert one(built, "a dog", ["cat", "the cat sat"]) == pytest.approx(
            max(package.CrossEncoder(made(name), device="cpu").predict([("cat", "a dog"), ("the cat sat", "a dog")])),
            abs=1e-5,
        )


@pytest.mark.part("models")
def test_cross_encoder_s_range_follows_from_its_activation() -> None:
    bounded, open_ = (CrossEncoderSimilarity(made(name)) for name in ("cross-encoder", "cross-encoder-identity"))
    assert (bounded.range, bounded.worst) == ((0.0, 1.0), 0.0)
    assert (open_.range, open_.worst) == ((-np.inf, np.inf), None)
    for texts, want in (((" ", ""), 1.0), (("", "cat"), 0.0), (("cat", ""), 0.0)):
        assert one(bounded, texts[0], [texts[1]]) == want
    assert isinstance(one(open_, "", [""]), type(pytest.approx(0.0)))  # the model scores an empty text
    row = EvaluationSample("q", "why?", reference_answer=Response("cat"))
    (result,) = evaluate([row], [SystemOutputs([], error="timeout")], [open_])
    assert not result.defined
    assert CrossEncoderSimilarity("org/unknown").range == (-np.inf, np.inf)
    with pytest.raises(BadValueError, match=r"activation torch\.nn\.modules\.activation\.GELU, which is not supported"):
        CrossEncoderSimilarity(made("cross-encoder-odd"))
    with pytest.raises(BadValueError, match=r"one number per pair, and '.*nli' returns 3; .* use nli_grounding"):
        one(CrossEncoderSimilarity(made("nli")), "cat", ["dog"])


def entailed(name: str, premise: str, sentence: str, label: int) -> float:
    """The probability of a label by transformers alone."""
    torch = need("torch")
    loaded = load_classifier(ModelSource(made(name)), purpose="a test")
    tokens = loaded.tokenizer(premise, sentence, return_tensors="pt", truncation=True, max_length=LONGEST)
    with torch.no_grad():
        return float(loaded.model(**tokens).logits.softmax(dim=-1)[0, label])


DOCUMENTS = ["rain falls every day", "the tower was made of gold", "paris is not london"]
SENTENCES = ["Rain falls.", "The tower was built by Eiffel in Paris!", "It is wet.", "No cat sat on it."]


@pytest.mark.part("models")
@pytest.mark.parametrize(("name", "label"), [("nli", 2), ("nli-roberta", 0), ("nli-deberta", 0)])
@pytest.mark.parametrize("together", ["each", "joined"])
def test_entailment(name: str, label: int, together: str) -> None:
    premises = DOCUMENTS if together == "each" else ["\n".join(DOCUMENTS)]
    shares = [max(entailed(name, premise, sentence, label) for premise in premises) for sentence in SENTENCES]
    bound = float(np.median(shares))  # so that some are, and some are not
    built: Any = metric("nli_grounding", model=made(name), evidence=together, threshold=bound)
    out = listed(*DOCUMENTS)
    out.response = Response(" ".join(SENTENCES))
    assert outcome(built, EvaluationSample("q", "why?"), out) == np.mean(np.array(shares) >= bound)


GROUNDING: list[tuple[str | None, list[str | None], Any, str]] = [
    ("A cat.", [], 0.0, "nothing retrieved"),
    ("A cat.", ["", None, " "], "skipped:no_text", "documents without text"),
    ("...", ["a cat"], "skipped:empty_answer", "no sentence"),
    ("", [], "skipped:empty_answer", "no answer"),
    (None, ["a cat"], "skipped:no_response", "none was asked for"),
]


@pytest.mark.part("models")
@pytest.mark.parametrize(("answer", "texts", "want"), [r[:3] for r in GROUNDING], ids=[r[3] for r in GROUNDING])
def test_grounding_without_a_model_s_help(answer: str | None, texts: list[str | None], want: Any) -> None:
    built: Any = metric("nli_grounding", model=made("nli"))
    out = listed(*texts)
    out.response = None if answer is None else Response(answer)
    assert outcome(built, EvaluationSample("q", "why?"), out) == want


@pytest.mark.part("models")
def test_labels_are_read_from_the_model() -> None:
    unnamed: Any = metric("nli_grounding", model=made("nli-unnamed"))
    with pytest.raises(BadValueError, match=r"does not say which .* LABEL_0, LABEL_1, LABEL_2: name the one with"):
        unnamed.require_ready()
    named: Any = metric("nli_grounding", model=made("nli-unnamed"), entailment_label="label_2")
    named.require_ready()
    assert "|label:label_2|" in str(named.signature)
    with pytest.raises(BadValueError, match="has no label 'yes'"):
        metric("nli_grounding", model=made("nli"), entailment_label="yes").require_ready()  # type: ignore[attr-defined]
    for wrong in (0, 1.5, True, "half"):
        with pytest.raises(BadValueError, match="threshold must be a number"):
            metric("nli_grounding", model="m", threshold=wrong)
    with pytest.raises(BadValueError, match="evidence must be one of each, joined"):
        metric("nli_grounding", model="m", evidence="all")


@pytest.mark.part("models")
def test_truncated_texts_are_counted() -> None:
    out = listed("rain " * 200, "rain falls")
    out.response = Response("Rain falls.")
    rows = [EvaluationSample("q", "why?", reference_answer=Response("rain " * 200))]
    specs: list[tuple[Spec, int]] = [
        ({"nli_grounding": {"model": made("nli")}}, 1),
        ({"sbert_similarity": {"model": made("sbert")}}, 1),
        ({"cross_encoder_similarity": {"model": made("cross-encoder")}}, 1),
        ({"embedding_context_relevance": {"embed_fn": made("sbert")}}, 1),
    ]
    for spec, count in specs:
        with pytest.warns(AueporaWarning, match=r"a text is longer than the model reads.*\(sample 'q'\)"):
            (result,) = evaluate(rows, [out], [spec])
        assert result.details["num_truncated"] == count


@pytest.mark.part("models")
@pytest.mark.filterwarnings("ignore:metric .* a text is longer than the model reads")
def test_difficult_texts_spoil_nothing() -> None:
    texts = ["half \ud800 a character", "\0", "\u202e", "🙂" * 50, "word " * 20_000, "é" * 300, "the cat"]
    rows = [EvaluationSample(f"q{at}", text, reference_answer=Response("the cat")) for at, text in enumerate(texts)]
    outs: list[SystemOutputs | None] = []
    for text in texts:
        outs.append(listed(text, "the cat"))
        outs[-1].response = Response(text)  # type: ignore[union-attr]
    specs: list[Spec] = [
        {"sbert_similarity": {"model": made("sbert")}},
        {"cross_encoder_similarity": {"model": made("cross-encoder")}},
        {"nli_grounding": {"model": made("nli-roberta")}},
        {"embedding_context_relevance": {"embed_fn": made("sbert")}},
    ]
    for result in evaluate(rows, outs, specs):
        assert result.details["num_measure_failed"] == 0
        assert result.details["num_scored"] >= 4  # "\0" and the like are no sentences
        assert (result.outcomes or ())[-1] == "scored"


def test_semantic_metrics_run_only_if_requested() -> None:
    rows = [EvaluationSample("q", "why?", reference_answer=Response("a"))]
    out = listed("a", "b")
    out.response = Response("a")
    chosen = " ".join(suggest_metrics(rows, [out]))
    assert "embedding" not in chosen
    assert "sbert" not in chosen
    assert "nli" not in chosen


@pytest.mark.part("models")
def test_plan_is_checked_before_its_system_is_called(tmp_path: Any, auepora: Any) -> None:
    project = Project(tmp_path, 3)
    plan = Path(project.plan())
    text = plan.read_text(encoding="utf-8")
    for model, code in (("gone/away/model", 2), (made("sbert"), 0)):
        bertscore = f"bertscore: {{model_type: {model}, num_layers: 1}}"
        metrics = f"metrics: [recall@5, {{sbert_similarity: {{model: {model}}}}}, {{{bertscore}}}]"
        plan.write_text(re.sub("metrics: .*", metrics, text), encoding="utf-8")
        ended, out, err = auepora("run", str(plan))
        assert ended == code, err
        if code:
            assert "metrics[1]" in err
            assert "there is no model's folder gone/away/model" in err
            assert not (tmp_path / "calls.log").exists()
            _, out, err = auepora("validate", str(plan))
            assert "metrics[2]: there is no model's folder gone/away/model" in out + err  # all that is missing at once
        else:
            assert "sbert_similarity" in out
    sys.modules.pop("my_rag", None)  # the next project has one of its own


@pytest.mark.part("models")
@pytest.mark.parametrize(
    "spec",
    [
        {"bertscore": {"model_type": "/gone/model", "num_layers": 1}},
        {"counterfactual_consistency": {"base": {"sbert_similarity": {"model": "/gone/model"}}}},
        {"noise_robustness": {"base": {"bertscore": {"model_type": "/gone/model", "num_layers": 1}}}},
    ],
    ids=["by itself", "as a base", "under noise"],
)
def test_system_is_not_called_if_metrics_are_not_ready(spec: Any) -> None:
    need("torch")
    asked: list[str] = []

    def system(sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        asked.append(sample.sample_id)
        return SystemOutputs([], Response("a"))

    labels = {"variant_of": "q", "scenario": "counterfactual"}
    rows = [
        EvaluationSample("q", "why?", reference_answer=Response("a")),
        EvaluationSample("q2", "why not?", reference_answer=Response("a"), labels=labels),
    ]
    with pytest.raises(BadValueError, match="there is no model's folder /gone/model"):
        AueporaEvaluator(system, [spec]).evaluate(InMemoryDataset("two", rows))
    assert asked == []


def test_precision_is_in_the_signature() -> None:
    assert "|precision:float16|" in str(SbertSimilarity("org/name", precision="float16").signature)
    assert str(SbertSimilarity("org/name").signature) == "sbert_similarity|model:org/name|v1"


@pytest.mark.parametrize("kind", [BertScoreMetric, SbertSimilarity, CrossEncoderSimilarity])
def test_nothing_to_score_needs_no_model(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    for one in (kind() if kind is BertScoreMetric else kind("no/model"), kind("no/model")):
        result = one.compute([], [])
        assert (result.value, result.defined, result.details["num_samples"]) == (0.0, False, 0)
        assert [found.defined for found in evaluate([], [], [one])] == [False]


@pytest.mark.parametrize("written", ["f1", "F1", "Precision", "RECALL"])
def test_score_type_of_bertscore_in_any_case(written: Any) -> None:
    one = BertScoreMetric(score_type=written)
    assert one.score_type.lower() == written.lower()
    assert one == BertScoreMetric(score_type=one.score_type)
    assert one.signature == BertScoreMetric(score_type=one.score_type).signature
