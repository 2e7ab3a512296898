"""Every import path and name of the five seed documents, in one table; one test lists all that are missing."""

import importlib
import sqlite3
from dataclasses import fields
from pathlib import Path

from auepora_eval import RunStore, TargetCategory
from auepora_eval.core.targets import TARGETS as TARGETS_BY_CATEGORY
from helpers.requirements import REPO

METRIC_SUITE_FUNCTIONS = ["precision_at_k", "recall_at_k", "mrr_at_k", "ndcg_at_k", "map_at_k", "aqwv_at_k"]
ANSWER_FUNCTIONS = [
    "exact_match", "token_f1", "rouge_l_f1", "answer_relevance", "support_coverage", "support_density", "hallucination_rate",
]  # fmt: skip

NAMES = {
    "S0: metrics": {
        "metrics.retrieval_basic": ["RecallAtK", "PrecisionAtK", "HitRateAtK"],
        "metrics.retrieval_ranking": ["MRRAtK", "MeanAveragePrecision", "NDCGAtK"],
        "metrics.generation_overlap": [
            "ExactMatch", "TokenF1", "RougeScores", "RougeLAnswer", "Rouge1", "Rouge2", "RougeL", "BleuScore",
            "EvidenceOverlapFaithfulness",
        ],
        "metrics.generation_semantic": ["BertScoreMetric", "EmbeddingSimilarity"],
        "metrics.generation_llm_judge": ["LLMCritic", "LLMFaithfulnessScore", "LLMAnswerQuality"],
        "metrics.robustness": ["NoiseRobustness", "NegativeRejectionRate", "CounterfactualConsistency"],
        "metrics.additional": ["MeanLatency", "QuantileLatency", "DistinctN", "IntraListDiversity"],
        "core.metrics_base": ["Metric"],
        "core.types": ["TargetCategory"],
    },
    "S1: metric contract": {
        "metrics.ranking": ["recall_at_k", "mrr_at_k", "map_at_k", "ndcg_at_k"],
        "metrics.k_policy": ["compute_k_eff"],
        "metrics.retrieval_eval": ["dual_evaluate", "paper_evaluate", "evaluate_queries"],
        "metrics.classification": ["NEGateMetrics"],
    },
    "S2: golden runs and comparison": {
        "compare": [
            "AggregateMetrics", "CompareReport", "QueryComparison", "ComparisonKind", "compute_aggregate",
            "store_aggregate", "compare_runs", "render_report_md",
        ],
    },
    "S3: library": {
        "": [],
        "core": [],
        "core.types": [
            "TargetCategory", "Document", "RetrievedDocument", "Response", "EvaluationSample", "SystemOutputs",
            "MetricResult",
        ],
        "core.targets": [],
        "core.rag_interface": [
            "RAGSystem", "RAGSystemProtocol", "Retriever", "Generator", "SimpleRAGSystem", "SystemOutputs",
        ],
        "core.dataset": ["EvaluationDataset", "InMemoryDataset"],
        "core.metrics_base": ["Metric"],
        "core.plan": ["EvaluationPlan"],
        "core.runner": ["AueporaEvaluator"],
        "metrics": [],
        "metrics.retrieval_basic": ["RecallAtK", "MRRAtK", "MeanAveragePrecision", "NDCGAtK"],
        "metrics.generation_text": ["RougeLAnswer", "BleuScore", "BertScoreMetric"],
        "metrics.additional": [
            "MeanLatency", "DistinctN", "NoiseRobustness", "NegativeRejectionRate", "CounterfactualConsistency",
        ],
        "io": [],
        "io.jsonl": ["load_jsonl_dataset"],
        "io.parquet": [],
        "reporting": [],
        "reporting.tables": ["results_to_dict", "results_to_markdown"],
        "reporting.plots": [],
        "examples": [],
        "examples.simple_rag": [],
        "examples.example_plan": [],
    },
    "S4: metric suite": {
        "": ["RAGEvaluationClient"],
        "metrics.retrieval_metrics": [
            "PrecisionAtK", "RecallAtK", "MRRAtK", "NDCGAtK", "MeanAveragePrecision", "AQWV", *METRIC_SUITE_FUNCTIONS,
        ],
        "metrics.generation_metrics": [
            "ExactMatch", "TokenF1", "RougeL", "AnswerRelevance", "SupportCoverage", "SupportDensity",
            "HallucinationRate", "SbertSimilarity", "CrossEncoderSimilarity", *ANSWER_FUNCTIONS,
        ],
    },
}  # fmt: skip

TARGETS = (
    "RETRIEVAL_RELEVANCE RETRIEVAL_ACCURACY GENERATION_RELEVANCE GENERATION_FAITHFULNESS GENERATION_CORRECTNESS LATENCY"
    " DIVERSITY NOISE_ROBUSTNESS NEGATIVE_REJECTION COUNTERFACTUAL_ROBUSTNESS"
)
FIELDS = {
    "Document": "doc_id text metadata",
    "RetrievedDocument": "doc score rank",
    "Response": "text structured metadata",
    "EvaluationSample": "sample_id query relevant_docs candidate_docs reference_answer labels metadata",
    "SystemOutputs": "retrieved response timings extra",
    "MetricResult": "name target value details",
}


def missing_names() -> list[str]:
    problems = []
    for seed, modules in NAMES.items():
        for path, names in modules.items():
            module = importlib.import_module(f"auepora_eval.{path}".rstrip("."))
            exported = getattr(module, "__all__", names)
            problems += [
                f"{seed}: {path}.{name}" for name in names if not hasattr(module, name) or name not in exported
            ]
    return problems


def test_concepts_map_every_target_to_its_category() -> None:
    rows = (REPO / "docs" / "concepts.md").read_text(encoding="utf-8").splitlines()
    named = {tuple(cell.strip(" `") for cell in row.split("|")[1:3]) for row in rows if row.startswith("| ")}
    assert {(target.title, category.name) for category, target in TARGETS_BY_CATEGORY.items()} <= named


def test_every_import_path_and_name_of_the_seeds_is_there(tmp_path: Path) -> None:
    assert missing_names() == []
    # Cost came later: the seeds have no metric of usage.
    assert [target.name for target in TargetCategory] == [*TARGETS.split(), "COST"]
    types = importlib.import_module("auepora_eval.core.types")
    for name, wanted in FIELDS.items():  # S3 writes these constructors with positional arguments, in this order
        assert [field.name for field in fields(getattr(types, name))][: len(wanted.split())] == wanted.split(), name
    compare = importlib.import_module("auepora_eval.compare")
    assert [field.name for field in fields(compare.AggregateMetrics)][:9] == [
        "hit_at_k", "mrr", "recall_at_k_doc", "citation_coverage", "groundedness", "empty_result_rate",
        "refusal_correctness", "total_queries", "failed_queries",
    ]  # fmt: skip
    assert {kind.name.title() for kind in compare.ComparisonKind} == {"Win", "Loss", "Draw", "Regression"}
    RunStore.open(tmp_path / "runs.sqlite").close()
    with sqlite3.connect(tmp_path / "runs.sqlite") as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(eval_runs)")}
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    connection.close()
    assert "aggregate_json" in columns
    assert {"eval_runs", "eval_query_results"} <= tables
