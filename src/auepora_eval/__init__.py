"""auepora_eval: evaluate RAG systems, and test whether a change made one better.

Names are exported lazily: importing the package loads neither numpy nor any optional package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .adapters.haystack import from_haystack as from_haystack
    from .adapters.langchain import from_langchain as from_langchain
    from .adapters.llamaindex import from_llamaindex as from_llamaindex
    from .calibrating.measure import calibrate as calibrate
    from .client import ClientReport as ClientReport
    from .client import RAGEvaluationClient as RAGEvaluationClient
    from .core.conventions import Conventions as Conventions
    from .core.dataset import EvaluationDataset as EvaluationDataset
    from .core.dataset import InMemoryDataset as InMemoryDataset
    from .core.dataset import LazyDataset as LazyDataset
    from .core.engine import evaluate as evaluate
    from .core.engine import evaluate_stream as evaluate_stream
    from .core.errors import AueporaError as AueporaError
    from .core.errors import AueporaWarning as AueporaWarning
    from .core.evaluate_ids import evaluate_rankings as evaluate_rankings
    from .core.judged_metric import JudgedMetric as JudgedMetric
    from .core.metrics_base import BatchMetric as BatchMetric
    from .core.metrics_base import Metric as Metric
    from .core.metrics_base import SampleMetric as SampleMetric
    from .core.plan import EvaluationPlan as EvaluationPlan
    from .core.rag_interface import RAGSystem as RAGSystem
    from .core.registry import metric as metric
    from .core.registry import register as register
    from .core.results import Results as Results
    from .core.runner import AueporaEvaluator as AueporaEvaluator
    from .core.scores import Score as Score
    from .core.scores import Scores as Scores
    from .core.types import Document as Document
    from .core.types import EvaluationSample as EvaluationSample
    from .core.types import MetricResult as MetricResult
    from .core.types import Response as Response
    from .core.types import RetrievedDocument as RetrievedDocument
    from .core.types import SystemOutputs as SystemOutputs
    from .core.types import TargetCategory as TargetCategory
    from .explaining.explain import explain as explain
    from .io.trec_scores import evaluate_trec as evaluate_trec
    from .judge.critic import LLMCritic as LLMCritic
    from .judge.critic import StructuredCritic as StructuredCritic
    from .judge.openai_compat import OpenAICritic as OpenAICritic
    from .judge.policy import JudgePolicy as JudgePolicy
    from .judge.preference import prefer as prefer
    from .judge.recorded import RecordedCritic as RecordedCritic
    from .judge.session import JudgeSession as JudgeSession
    from .perturb.queries import perturb_queries as perturb_queries
    from .perturb.retriever import PerturbedRetriever as PerturbedRetriever
    from .pooling.gold import with_gold as with_gold
    from .pooling.pool import pool_outputs as pool_outputs
    from .pooling.relevance import judge_relevance as judge_relevance
    from .reporting.html.build import write_report as write_report
    from .reporting.plots.comparisons import plot_comparison as plot_comparison
    from .reporting.plots.results import plot_results as plot_results
    from .reporting.plots.stored_runs import plot_runs as plot_runs
    from .running.perturbed import noise_curve as noise_curve
    from .running.perturbed import run_perturbed as run_perturbed
    from .running.plans import run_plan as run_plan
    from .running.plans import run_system as run_system
    from .scale.sharded import evaluate_files as evaluate_files
    from .store.runs import RunStore as RunStore

_EXPORTS = {
    "AueporaError": "core.errors",
    "AueporaEvaluator": "core.runner",
    "AueporaWarning": "core.errors",
    "BatchMetric": "core.metrics_base",
    "ClientReport": "client",
    "Conventions": "core.conventions",
    "Document": "core.types",
    "EvaluationDataset": "core.dataset",
    "EvaluationPlan": "core.plan",
    "EvaluationSample": "core.types",
    "InMemoryDataset": "core.dataset",
    "JudgePolicy": "judge.policy",
    "JudgeSession": "judge.session",
    "JudgedMetric": "core.judged_metric",
    "LLMCritic": "judge.critic",
    "LazyDataset": "core.dataset",
    "Metric": "core.metrics_base",
    "MetricResult": "core.types",
    "OpenAICritic": "judge.openai_compat",
    "PerturbedRetriever": "perturb.retriever",
    "RAGEvaluationClient": "client",
    "RAGSystem": "core.rag_interface",
    "RecordedCritic": "judge.recorded",
    "Response": "core.types",
    "Results": "core.results",
    "RetrievedDocument": "core.types",
    "RunStore": "store.runs",
    "SampleMetric": "core.metrics_base",
    "Score": "core.scores",
    "Scores": "core.scores",
    "StructuredCritic": "judge.critic",
    "SystemOutputs": "core.types",
    "TargetCategory": "core.types",
    "calibrate": "calibrating.measure",
    "evaluate": "core.engine",
    "evaluate_files": "scale.sharded",
    "evaluate_rankings": "core.evaluate_ids",
    "evaluate_trec": "io.trec_scores",
    "evaluate_stream": "core.engine",
    "explain": "explaining.explain",
    "from_haystack": "adapters.haystack",
    "from_langchain": "adapters.langchain",
    "from_llamaindex": "adapters.llamaindex",
    "judge_relevance": "pooling.relevance",
    "metric": "core.registry",
    "noise_curve": "running.perturbed",
    "perturb_queries": "perturb.queries",
    "plot_comparison": "reporting.plots.comparisons",
    "plot_results": "reporting.plots.results",
    "plot_runs": "reporting.plots.stored_runs",
    "pool_outputs": "pooling.pool",
    "prefer": "judge.preference",
    "register": "core.registry",
    "run_perturbed": "running.perturbed",
    "run_plan": "running.plans",
    "run_system": "running.plans",
    "write_report": "reporting.html.build",
    "with_gold": "pooling.gold",
}

__all__ = ["__version__", *_EXPORTS]  # noqa: PLE0604 -- the names of a dict literal just above


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_EXPORTS[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
