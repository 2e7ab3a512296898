"""The public names: those promised are there, those exported exist, and importing them costs next to nothing."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import auepora_eval
from helpers.requirements import REPO
from helpers.source_tree import MODULES, module_name

PROMISED = {
    "auepora_eval": [
        "RAGEvaluationClient", "evaluate", "evaluate_rankings", "evaluate_stream", "metric", "Results", "Score", "Scores",
    ],
    "auepora_eval.core.types": [
        "TargetCategory", "Document", "RetrievedDocument", "Response", "EvaluationSample", "SystemOutputs", "MetricResult",
    ],
    "auepora_eval.core.rag_interface": [
        "RAGSystem", "RAGSystemProtocol", "Retriever", "Generator", "SimpleRAGSystem", "SystemOutputs",
    ],
    "auepora_eval.core.dataset": ["EvaluationDataset", "InMemoryDataset"],
    "auepora_eval.core.metrics_base": ["Metric", "BatchMetric", "SampleMetric"],
    "auepora_eval.core.plan": ["EvaluationPlan"],
    "auepora_eval.core.runner": ["AueporaEvaluator"],
    "auepora_eval.core.targets": ["TARGETS"],
    "auepora_eval.metrics.retrieval_basic": ["RecallAtK", "PrecisionAtK", "HitRateAtK"],
    "auepora_eval.metrics.retrieval_ranking": ["MRRAtK", "MeanAveragePrecision", "NDCGAtK"],
    "auepora_eval.metrics.retrieval_judged": ["BPref", "JudgedAtK", "AccuracyAtK", "RBP", "ERRAtK"],
    "auepora_eval.metrics.retrieval_spans": ["SpanRecallAtK", "SpanPrecisionAtK", "SpanIoUAtK"],
    "auepora_eval.metrics.k_policy": ["ALL", "OPTIONAL_K", "PRIMARY_K", "compute_k_eff"],
    "auepora_eval.metrics.retrieval_eval": ["evaluate_queries", "dual_evaluate", "paper_evaluate"],
    "auepora_eval.metrics.classification": ["NEGateMetrics"],
    "auepora_eval.metrics.generation_text": ["ExactMatch", "TokenF1", "RougeLAnswer", "BleuScore"],
    "auepora_eval.metrics.generation_overlap": [
        "ExactMatch", "TokenF1", "Rouge1", "Rouge2", "RougeL", "RougeLAnswer", "RougeLsum", "RougeScores", "BleuScore",
        "EvidenceOverlapFaithfulness",
    ],
    "auepora_eval.metrics.generation_llm_judge": ["LLMAnswerQuality", "LLMCritic", "LLMFaithfulnessScore"],
    "auepora_eval.judge.preference": ["prefer"],
    "auepora_eval.stats.agreement": ["agreement", "cohen_kappa", "krippendorff_alpha"],
    "auepora_eval.stats.prediction_powered": ["corrected_difference", "corrected_mean"],
    "auepora_eval.calibrating.measure": ["calibrate"],
    "auepora_eval.pooling.gold": ["with_gold"],
    "auepora_eval.pooling.pool": ["pool_outputs"],
    "auepora_eval.pooling.relevance": ["judge_relevance"],
    "auepora_eval.judge.recorded": ["RecordedCritic", "RecordingCritic"],
    "auepora_eval.judge.prompting": ["Prompt", "read_prompt"],
    "auepora_eval.metrics.generation_metrics": [
        "AnswerRelevance", "ExactMatch", "HallucinationRate", "RougeL", "RougeLAnswer", "SupportCoverage",
        "SupportDensity", "TokenF1", "answer_relevance", "exact_match", "hallucination_rate", "rouge_l_f1",
        "support_coverage", "support_density", "token_f1",
    ],
    "auepora_eval.metrics.retrieval_metrics": [
        "AQWV", "MRRAtK", "MeanAveragePrecision", "NDCGAtK", "PrecisionAtK", "RecallAtK", "aqwv_at_k", "map_at_k",
        "mrr_at_k", "ndcg_at_k", "precision_at_k", "recall_at_k",
    ],
    "auepora_eval.metrics.grounding": ["SupportCoverage", "SupportDensity", "HallucinationRate"],
    "auepora_eval.metrics.answer_match": ["AnswerRelevance", "Containment"],
    "auepora_eval.metrics.citations": ["CitationCoverage", "CitationGoldPrecision", "CitationGoldRecall"],
    "auepora_eval.metrics.expectations": ["Groundedness"],
    "auepora_eval.metrics.structured": ["LabelAccuracy", "FieldAccuracy", "StructuredValidity"],
    "auepora_eval.metrics.abstention": [
        "NegativeRejectionRate", "OverRefusalRate", "RejectionPrecision", "RejectionF1", "RefusalCorrectness",
    ],
    "auepora_eval.metrics.context_robustness": [
        "ContextNoiseAccuracy", "ErrorCorrectionRate", "ErrorDetectionRate", "MisleadingRate", "MistakeReappearanceRate",
    ],
    "auepora_eval.metrics.additional": [
        "DistinctN", "IntraListDiversity", "MeanLatency", "QuantileLatency", "ResponseDiversity", "Throughput",
    ],
    "auepora_eval.metrics.latency": ["MeanLatency", "QuantileLatency", "Throughput"],
    "auepora_eval.metrics.diversity": ["DistinctN", "IntraListDiversity", "ResponseDiversity"],
    "auepora_eval.metrics.ranking": ["recall_at_k", "mrr_at_k", "map_at_k", "ndcg_at_k"],
    "auepora_eval.gates.check": ["check_gates"],
    "auepora_eval.gates.grammar": ["parse_gate", "parse_gates"],
    "auepora_eval.gates.report": ["GateOutcome", "GateReport"],
    "auepora_eval.pytest_plugin": ["assert_gates", "auepora_run"],
    "auepora_eval.io.jsonl": ["load_jsonl_dataset"],
    "auepora_eval.io.records": ["outputs_from_records", "samples_from_records", "text_id"],
    "auepora_eval.reporting.tables": ["results_to_dict", "results_to_markdown"],
}  # fmt: skip


@pytest.mark.parametrize("module", PROMISED)
def test_promised_names_are_there(module: str) -> None:
    loaded = importlib.import_module(module)
    for name in PROMISED[module]:
        assert hasattr(loaded, name), f"{module}.{name}"
        assert name in loaded.__all__


def export_problems(path: Path) -> Iterator[str]:
    name = ".".join(["auepora_eval", *filter(None, [module_name(path)])])
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", ())
    if len(exported) != len(set(exported)):
        yield f"{name}.__all__ has a name twice"
    yield from (f"{name}.__all__ names {attribute}" for attribute in exported if not hasattr(module, attribute))


def test_exported_names_exist() -> None:
    modules = [path for path in MODULES if path.stem != "__main__"]
    assert [problem for path in modules for problem in export_problems(path)] == []


def test_the_packages_names_are_all_reachable_and_typed() -> None:
    for name in auepora_eval.__all__:
        assert getattr(auepora_eval, name) is not None
    assert set(dir(auepora_eval)) == set(auepora_eval.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = auepora_eval.nonsense
    declared = {
        alias.asname
        for node in ast.walk(ast.parse((REPO / "src" / "auepora_eval" / "__init__.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert declared == set(auepora_eval.__all__) - {"__version__"}
