"""Golden public names: exports, call signatures and fields of the data types."""

import dataclasses
import importlib
import inspect
from enum import Enum
from typing import Any

import auepora_eval
import auepora_eval.compare as compare
from auepora_eval import store
from auepora_eval.compare.types import MetricComparison
from auepora_eval.gates import GateOutcome, GateReport
from auepora_eval.judge.critic import Judgement, JudgeRequest, Usage
from auepora_eval.report.cards import MetricCard
from helpers.golden import check_golden

PROMISED: dict[str, tuple[str, ...]] = {
    "core.types": (
        "TargetCategory", "Document", "RetrievedDocument", "Response", "EvaluationSample", "SystemOutputs", "MetricResult",
    ),
    "core.targets": ("TARGETS",),
    "core.rag_interface": ("RAGSystem", "RAGSystemProtocol", "Retriever", "Generator", "SimpleRAGSystem", "SystemOutputs"),
    "core.dataset": ("EvaluationDataset", "InMemoryDataset"),
    "core.metrics_base": ("Metric", "BatchMetric", "SampleMetric"),
    "core.plan": ("EvaluationPlan",),
    "core.runner": ("AueporaEvaluator",),
    "metrics.retrieval_basic": ("RecallAtK", "PrecisionAtK", "HitRateAtK"),
    "metrics.retrieval_ranking": ("MRRAtK", "MeanAveragePrecision", "NDCGAtK"),
    "metrics.generation_overlap": (
        "ExactMatch", "TokenF1", "Rouge1", "Rouge2", "RougeL", "RougeLAnswer", "RougeLsum", "RougeScores", "BleuScore",
        "EvidenceOverlapFaithfulness",
    ),
    "metrics.generation_text": ("ExactMatch", "TokenF1", "RougeLAnswer", "BleuScore"),
    "metrics.generation_semantic": ("BertScoreMetric", "EmbeddingSimilarity"),
    "metrics.generation_llm_judge": ("LLMAnswerQuality", "LLMCritic", "LLMFaithfulnessScore"),
    "metrics.robustness": ("NoiseRobustness", "NegativeRejectionRate", "CounterfactualConsistency"),
    "metrics.additional": ("MeanLatency", "QuantileLatency", "DistinctN", "IntraListDiversity"),
    "metrics.ranking": ("recall_at_k", "mrr_at_k", "map_at_k", "ndcg_at_k"),
    "metrics.k_policy": ("compute_k_eff", "ALL", "OPTIONAL_K", "PRIMARY_K"),
    "metrics.retrieval_eval": ("evaluate_queries", "dual_evaluate", "paper_evaluate"),
    "metrics.classification": ("NEGateMetrics",),
    "metrics.retrieval_metrics": (
        "AQWV", "MRRAtK", "MeanAveragePrecision", "NDCGAtK", "PrecisionAtK", "RecallAtK", "aqwv_at_k", "map_at_k", "mrr_at_k", "ndcg_at_k",
        "precision_at_k", "recall_at_k",
    ),
    "metrics.generation_metrics": (
        "AnswerRelevance", "ExactMatch", "HallucinationRate", "RougeL", "RougeLAnswer", "SupportCoverage", "SupportDensity", "TokenF1",
        "answer_relevance", "exact_match", "hallucination_rate", "rouge_l_f1",
        "support_coverage", "support_density", "token_f1",
    ),
    "io.jsonl": ("load_jsonl_dataset",),
    "reporting.tables": ("results_to_dict", "results_to_markdown"),
    "compare": (
        "AggregateMetrics", "CompareReport", "QueryComparison", "ComparisonKind", "compute_aggregate", "store_aggregate", "compare_runs",
        "render_report_md",
    ),
}  # fmt: skip
"""What the seeds and the contract name, by module below ``auepora_eval``."""

OTHER_MODULES = (
    "io.parquet",
    "reporting.plots",
    "examples.simple_rag",
    "examples.example_plan",
    "client",
    "pytest_plugin",
)
"""Modules that are named without their contents."""

METRIC_HOOKS = (
    "name",
    "target",
    "required_fields",
    "compute",
    "score",
    "score_one",
    "ascore",
    "reducer",
    "signature",
    "range",
    "worst",
)
"""The attributes of metric bases that the contract names; other hooks may be renamed, with an error for the old name."""

DATA_TYPES: tuple[type, ...] = (
    auepora_eval.Document,
    auepora_eval.RetrievedDocument,
    auepora_eval.Response,
    auepora_eval.EvaluationSample,
    auepora_eval.SystemOutputs,
    auepora_eval.MetricResult,
    auepora_eval.Conventions,
    auepora_eval.EvaluationPlan,
    auepora_eval.Score,
    auepora_eval.JudgePolicy,
    compare.AggregateMetrics,
    compare.QueryComparison,
    compare.CompareReport,
    MetricComparison,
    store.RunRecord,
    store.StoredOutput,
    store.StoredJudgement,
    GateOutcome,
    GateReport,
    Judgement,
    JudgeRequest,
    Usage,
    MetricCard,
)
"""Data types whose fields are public, or become keys of JSON."""


def test_exports() -> None:
    """The lazy exports of the package, in their order, with their call signatures and public methods."""
    assert dir(auepora_eval) == sorted(auepora_eval.__all__)
    check_golden(
        "metrics/exports.json",
        {name: described(getattr(auepora_eval, name)) for name in auepora_eval.__all__ if name != "__version__"},
    )


def test_promised_names() -> None:
    """Names at the module paths of the seeds and the contract, with their call signatures."""
    found = {}
    for module, names in PROMISED.items():
        loaded = importlib.import_module(f"auepora_eval.{module}")
        found[module] = {name: call_signature(getattr(loaded, name)) for name in names}
    check_golden("metrics/promised_names.json", found)


def test_other_names_of_promised_modules() -> None:
    """Everything else that those modules export."""
    found = {}
    for module in (*PROMISED, *OTHER_MODULES):
        loaded = importlib.import_module(f"auepora_eval.{module}")
        found[module] = " ".join(sorted(set(loaded.__all__) - set(PROMISED.get(module, ()))))
    check_golden("metrics/other_names.json", found)


def test_fields_of_data_types() -> None:
    found: dict[str, Any] = {}
    for kind in DATA_TYPES:
        found[kind.__name__] = {field.name: default_text(_default(field)) for field in dataclasses.fields(kind)}
    check_golden("metrics/fields.json", found)


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default


def described(value: Any) -> Any:
    """A call signature; of a class also its public methods and properties, or of a metric base the promised hooks."""
    if not inspect.isclass(value) or issubclass(value, (BaseException, Enum)):
        return call_signature(value)
    is_metric = issubclass(value, auepora_eval.Metric)
    inherited = {name for base in (list, dict) if issubclass(value, base) for name in dir(base)}
    found = {"()": call_signature(value)}
    for name in METRIC_HOOKS if is_metric else dir(value):
        if name.startswith("_") or name in inherited or not hasattr(value, name):
            continue
        member = inspect.getattr_static(value, name)
        if isinstance(member, property):
            found[name] = "property"
        elif callable(getattr(value, name)):
            found[name] = call_signature(getattr(value, name))
        elif is_metric:  # fields of data types are recorded apart
            found[name] = "attribute"
    return found


def call_signature(value: Any) -> str:
    """The parameters of a callable with their defaults, without annotations."""
    if not callable(value):
        return "value"
    if inspect.isclass(value) and issubclass(value, Enum):
        return " ".join(member.name for member in value)
    if inspect.isclass(value) and issubclass(value, BaseException):
        return "exception"  # whether these have a signature depends on the version of Python
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty, default=_Text.of(parameter.default))
        for parameter in inspect.signature(value).parameters.values()
    ]
    return str(inspect.Signature(bare))


class _Text:
    """A default that prints as its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    @classmethod
    def of(cls, value: Any) -> Any:
        return value if value is inspect.Parameter.empty else cls(default_text(value))


def default_text(value: Any) -> str:
    """A default as text: plain values as they are, other objects as ``...``, since their names may change."""
    if value is inspect.Parameter.empty:
        return "required"
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return repr(value)
    if isinstance(value, list | tuple | dict | frozenset | set) and not value:
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(default_text, value))})"
    return "..."
