"""Sentences of the seed documents (S0 to S4) and the decisions about them, each quoted above its test."""

import io
import json
import pickle
import pydoc
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    AueporaEvaluator,
    AueporaWarning,
    Document,
    EvaluationSample,
    InMemoryDataset,
    RAGEvaluationClient,
    Response,
    RetrievedDocument,
    SystemOutputs,
    evaluate,
    metric,
    run_system,
)
from auepora_eval.compare import ComparisonKind
from auepora_eval.core.rag_interface import Generator, Retriever, SimpleRAGSystem
from auepora_eval.io.jsonl import load_jsonl_dataset
from auepora_eval.metrics import answer_match, generation_metrics, retrieval, retrieval_metrics
from auepora_eval.metrics.retrieval_eval import dual_evaluate
from auepora_eval.metrics.robustness import NoiseRobustness

Auepora = Callable[..., tuple[int, str, str]]


def answered(text: str, *doc_ids: str) -> SystemOutputs:
    found = [RetrievedDocument(Document(doc_id), None, rank) for rank, doc_id in enumerate(doc_ids, 1)]
    return SystemOutputs(found, Response(text))


# --- S2: "MRR: 1 / rank-of-first-correct-chunk; 0 if not found in top-10." ---------------------------------------------

GOLDEN = "queries:\n- {id: q1, query: why?, expected_chunk_ids: [c11]}\n"


@pytest.mark.parametrize(("conventions", "mrr"), [("auto", 0.0), ("auepora", 1 / 11)])
def test_auto_conventions_of_golden_queries_are_golden(
    tmp_path: Path, auepora: Auepora, conventions: str, mrr: float
) -> None:
    (tmp_path / "golden.yaml").write_text(GOLDEN)
    row = {"sample_id": "q1", "retrieved": [f"c{n}" for n in range(1, 12)]}
    (tmp_path / "out.jsonl").write_text(json.dumps(row))
    files = [str(tmp_path / "golden.yaml"), str(tmp_path / "out.jsonl")]
    code, out, _ = auepora("score", *files, "-m", "mrr", "--conventions", conventions, "--json")
    assert (code, json.loads(out)["results"][0]["value"]) == (0, pytest.approx(mrr))


# --- S0, 6.1: "For all samples with **no** `variant_of` key -> treat as base set ... robustness = noisy_score / ---------
# --- base_score" --------------------------------------------------------------------------------------------------------


def variants() -> tuple[list[EvaluationSample], list[SystemOutputs]]:
    noise = {"variant_of": "a", "scenario": "typo"}
    labels: list[dict[str, Any]] = [{}, noise, {}, {"variant_of": "gone", "scenario": "paraphrase"}]
    samples = [
        EvaluationSample(name, "?", reference_answer=Response("x"), labels=label)
        for name, label in zip("abcd", labels, strict=True)
    ]
    return samples, [answered(text) for text in ("x", "x", "y", "y")]


@pytest.mark.parametrize("base", ["exact_match", {"distinct_n": {"n": 1}}])
def test_noise_robustness_has_the_number_of_the_seed(base: Any) -> None:
    found = NoiseRobustness(base).compute(*variants())
    literal = NoiseRobustness(base, base_set="all").compute(*variants())
    assert found.details["value_all_base"] == literal.value
    assert found.details["base_score_all"] == literal.details["base_score"]


def test_noise_robustness_of_the_seed_by_hand() -> None:
    found = NoiseRobustness("exact_match").compute(*variants())
    assert found.value == 1 / 1  # the pair a, b
    assert found.details["base_score_all"] == 1 / 2  # a and c
    assert found.details["value_all_base"] == (1 / 2) / (1 / 2)  # b and d, over a and c


def test_explain_shows_both_numbers(tmp_path: Path, auepora: Auepora) -> None:
    samples, outputs = variants()
    by_id = {sample.sample_id: output for sample, output in zip(samples, outputs, strict=True)}
    store = str(tmp_path / "runs.sqlite")
    run_system(lambda sample, *, top_k: by_id[sample.sample_id], samples, ["noise_robustness"], store=store)
    code, out, _ = auepora("explain", "latest", "noise_robustness", "--store", store)
    assert code == 0
    assert "Over all samples that are no variants the base metric is 0.5, and the ratio to it 1" in out


# --- S0, 4.1.1: "mean of `em` over samples with non-empty `reference_answer`" -------------------------------------------


@pytest.mark.parametrize("name", ["exact_match", "token_f1", "rougeL_answer", "bleu", "chrf"])
@pytest.mark.parametrize(
    ("labels", "outcome"),
    [
        ({}, "skipped:empty_reference"),
        ({"answerable": True}, "skipped:empty_reference"),
        ({"answerable": False}, "scored"),
        ({"scenario": "unanswerable"}, "scored"),
    ],
    ids=str,
)
def test_empty_reference(name: str, labels: dict[str, Any], outcome: str) -> None:
    samples = [
        EvaluationSample("1", "?", reference_answer=Response(" "), labels=labels),
        EvaluationSample("2", "?", reference_answer=Response("x")),
    ]
    (result,) = evaluate(samples, [answered(""), answered("x")], [name])
    assert list(result.outcomes or ()) == [outcome, "scored"]
    assert result.details.get("skipped_empty_reference", 0) == (outcome != "scored")


# --- S0, 6.2: "`is_rejected = any(pattern in prediction for pattern in refusal_patterns)`" ------------------------------


@pytest.mark.parametrize(
    ("answer", "options", "refused"),
    [
        ("It is unanswerable.", {"refusal_patterns": ["answer"]}, 1),
        ("It is unanswerable.", {"refusal_patterns": ["answer"], "match": "word"}, 0),
        ("Ski don't know.", {}, 0),
        ("Ski don't know.", {"match": "substring"}, 1),
        ("由于文档信息不足，因此我无法基于提供的文档回答该问题。", {}, 1),
    ],
)
def test_refusal_patterns_are_substrings(answer: str, options: dict[str, Any], refused: float) -> None:
    sample = EvaluationSample("1", "?", labels={"scenario": "unanswerable"})
    built = metric("negative_rejection_rate", **options)
    (result,) = evaluate([sample], [answered(answer)], [built])
    assert result.value == refused
    assert str(result.signature).endswith("|v2")
    assert ("phrases:" in str(result.signature)) == ("match" in options)


# --- S4: "All metrics are implemented in `metrics/retrieval_metrics.py` and `metrics/generation_metrics.py`" -------------


class OwnPrecision(retrieval_metrics.PrecisionAtK):
    """Precision of mine."""


def test_classes_of_the_suite_are_classes() -> None:
    precision = retrieval_metrics.PrecisionAtK(5)
    assert isinstance(precision, retrieval.PrecisionAtK)
    assert issubclass(generation_metrics.TokenF1, answer_match.TokenF1)
    assert pickle.loads(pickle.dumps(precision)) == precision
    assert "class PrecisionAtK(" in pydoc.plain(pydoc.render_doc(retrieval_metrics.PrecisionAtK))
    assert (precision.name, OwnPrecision(5).name) == ("precision@5", "own_precision@5")
    assert str(precision.signature) == "precision@5|p:k|empty:skip|v1"
    sample = EvaluationSample("1", "?", relevant_docs=[Document("a")])
    for built in (precision, OwnPrecision(5)):
        assert evaluate([sample], [answered("", "a")], [built])[0].value == 1 / 5


def test_repr_shows_what_is_in_force() -> None:
    assert repr(retrieval.PrecisionAtK(5)) == "PrecisionAtK(k=5, conventions='auepora')"
    assert repr(retrieval_metrics.PrecisionAtK(5)) == "PrecisionAtK(k=5, conventions='client')"
    assert repr(metric("precision@5", min_relevance=2)) == "PrecisionAtK(k=5, conventions='auepora', min_relevance=2)"


# --- S1, 2.2: "Papers must report both modes to avoid metric inflation." S4: "results JSON", "Graceful handling" ---------


def test_client_reports_mrr_in_both_forms_and_saves(tmp_path: Path) -> None:
    samples = [EvaluationSample("1", "?", relevant_docs=[Document("a")]), EvaluationSample("2", "?", relevant_docs=[])]
    report = RAGEvaluationClient(sbert_model=None, cross_encoder_model=None).evaluate(
        samples, [answered("x", "a"), answered("x", "b")]
    )
    assert (report.corpus["mrr"], report.corpus["mrr_all_queries"]) == (1.0, 1 / 2)
    report.save(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == report.to_dict()


def test_client_takes_empty_input() -> None:
    report = RAGEvaluationClient(sbert_model=None, cross_encoder_model=None).evaluate([], [])
    assert set(report.corpus.values()) == {None}
    assert report.per_query == []


# --- S3, 6.3: the loader reads the keys it knows and ignores others ------------------------------------------------------


def test_unknown_keys_of_a_dataset(tmp_path: Path, auepora: Auepora) -> None:
    rows = [{"sample_id": str(n), "query": "?", "refrence_answer": "x", "metadata": {"n": n}} for n in range(3)]
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.warns(AueporaWarning) as caught:
        samples = list(load_jsonl_dataset(path))
    assert [str(one.message) for one in caught] == [
        f"{path}:1: unknown field 'refrence_answer' is kept in the metadata; did you mean 'reference_answer'?"
    ]
    assert samples[2].metadata == {"n": 2, "refrence_answer": "x"}
    code, out, _ = auepora("validate", str(path))
    assert code == 2
    assert out.count("unknown field 'refrence_answer'; did you mean 'reference_answer'?") == 1
    assert "(and in 2 further places)" in out


# --- S1, 1.1: "Set of gold (relevant) sentence UIDs", which may be numbers -----------------------------------------------


def test_dual_evaluate_takes_integer_ids() -> None:
    numbers = dual_evaluate([{"gold_ids": [1, 2], "ranked_ids": [2, 3]}], [3])
    texts = dual_evaluate([{"gold_ids": {"1", "2"}, "ranked_ids": ["2", "3"]}], [3])
    assert numbers == texts
    assert numbers["all_queries"]["recall@3"] == 1 / 2


# --- S2: "pub enum ComparisonKind { Win, Loss, Draw, Regression }". S3, 5.2: "self._retriever = retriever" ---------------


class OneDocument(Retriever):
    def retrieve(self, query: str, *, top_k: int = 5) -> list[RetrievedDocument]:
        return [RetrievedDocument(Document("a"), 1.0, 1)]


class Echo(Generator):
    def generate(self, query: str, context_docs: list[Document]) -> Response:
        return Response(query)


def test_names_of_the_seeds_are_aliases() -> None:
    assert [ComparisonKind.Win, ComparisonKind.Loss, ComparisonKind.Draw, ComparisonKind.Regression] == list(
        ComparisonKind
    )
    system = SimpleRAGSystem(OneDocument(), Echo())
    assert (system._retriever, system._generator) == (system.retriever, system.generator)


# --- S3, 9.2: "out = self.system.run(sample, top_k=self.top_k)", whose exceptions are raised -----------------------------


class NoConnectionError(Exception):
    pass


class Broken:
    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        if sample.sample_id == "2":
            raise NoConnectionError("down")
        return answered("x", "a")


def two() -> list[EvaluationSample]:
    return [EvaluationSample(name, "?", reference_answer=Response("x")) for name in ("1", "2")]


@pytest.mark.parametrize("concurrency", [1, 2])
def test_exceptions_of_the_system_are_raised_on_request(tmp_path: Path, concurrency: int) -> None:
    evaluator = AueporaEvaluator(Broken(), ["exact_match"], on_error="raise", concurrency=concurrency)
    with pytest.raises(NoConnectionError, match="down"):
        evaluator.evaluate(InMemoryDataset("two", two()))
    store = tmp_path / "runs.sqlite"
    with pytest.raises(NoConnectionError, match="down"):
        run_system(Broken(), two(), ["exact_match"], store=store, on_error="raise", concurrency=concurrency)


def test_exceptions_of_the_system_are_recorded_by_default() -> None:
    with pytest.warns(AueporaWarning, match="the system failed on 1 of 2 samples"):
        (result,) = AueporaEvaluator(Broken(), ["exact_match"]).evaluate(InMemoryDataset("two", two()))
    assert result.value == 1 / 2
    with pytest.raises(ValueError, match="on_error must be one of record, raise, not 'stop'"):
        AueporaEvaluator(Broken(), ["exact_match"], on_error="stop")  # type: ignore[arg-type]


# --- S3, 8: "it ensures the dataset provides the required annotations": a table with answers is both ---------------------


@pytest.mark.parametrize(
    ("columns", "code"), [("question,ground_truth,answer\nwho?,Ann,Ann", 0), ("question,ground_truth\nwho?,Ann", 2)]
)
def test_outputs_of_a_plan_are_those_of_the_table(tmp_path: Path, auepora: Auepora, columns: str, code: int) -> None:
    (tmp_path / "table.csv").write_text(columns + "\n")
    (tmp_path / "plan.yaml").write_text("dataset: table.csv\nmetrics: [exact_match]\n")
    done, out, err = auepora("run", str(tmp_path / "plan.yaml"), "--store", str(tmp_path / "runs.sqlite"), "--all")
    assert done == code, err
    assert ("1.0000" in out) == (code == 0)
    assert ("there is neither 'outputs'" in err) == (code == 2)


def test_help_of_a_class_prints() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        help(generation_metrics.TokenF1)
    assert "F1 of the words of answer and reference" in printed.getvalue()
