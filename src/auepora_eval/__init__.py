"""auepora_eval: evaluate RAG systems, and test whether a change made one better.

Names are exported lazily: importing the package loads neither numpy nor any optional package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .calibration.calibrate import calibrate as calibrate
    from .client import ClientReport as ClientReport, RAGEvaluationClient as RAGEvaluationClient
    from .compare.runs import compare as compare
    from .core.conventions import Conventions as Conventions
    from .core.dataset import (
        EvaluationDataset as EvaluationDataset,
        InMemoryDataset as InMemoryDataset,
        LazyDataset as LazyDataset,
    )
    from .core.metrics_base import BatchMetric as BatchMetric, Metric as Metric, SampleMetric as SampleMetric
    from .core.plan import EvaluationPlan as EvaluationPlan
    from .core.rag_interface import RAGSystem as RAGSystem
    from .core.registry import metric as metric, register as register
    from .core.results import Results as Results
    from .core.scores import Score as Score, Scores as Scores
    from .core.types import (
        Document as Document,
        EvaluationSample as EvaluationSample,
        MetricResult as MetricResult,
        Response as Response,
        RetrievedDocument as RetrievedDocument,
        SystemOutputs as SystemOutputs,
        TargetCategory as TargetCategory,
    )
    from .engine.evaluate import (
        evaluate as evaluate,
        evaluate_rankings as evaluate_rankings,
        evaluate_stream as evaluate_stream,
    )
    from .errors import AueporaError as AueporaError, AueporaWarning as AueporaWarning
    from .gates import check_gates as check_gates
    from .grades.pool import pool_outputs as pool_outputs
    from .grades.relevance import judge_relevance as judge_relevance
    from .io.grades import with_gold as with_gold
    from .io.join import load_dataset as load_dataset
    from .io.trec_format import evaluate_trec as evaluate_trec
    from .judge.cache import RecordedCritic as RecordedCritic
    from .judge.critic import JudgePolicy as JudgePolicy, LLMCritic as LLMCritic, StructuredCritic as StructuredCritic
    from .judge.decisions import DecisionCritic as DecisionCritic
    from .judge.metric import JudgedMetric as JudgedMetric
    from .judge.openai import OpenAICritic as OpenAICritic
    from .judge.panel import Panel as Panel
    from .judge.preference import prefer as prefer
    from .judge.session import JudgeSession as JudgeSession
    from .metrics.judge_metric import JudgeMetric as JudgeMetric
    from .perturb.documents import PerturbedRetriever as PerturbedRetriever
    from .perturb.queries import perturb_queries as perturb_queries
    from .report.explain import explain as explain
    from .report.pages import write_report as write_report
    from .report.plots import plot_comparison as plot_comparison, plot_results as plot_results
    from .report.stored_plots import plot_runs as plot_runs
    from .runs.diagnose import diagnose as diagnose, diagnose_plan as diagnose_plan
    from .runs.perturbed import noise_curve as noise_curve, run_perturbed as run_perturbed
    from .runs.pilot import plan_size as plan_size
    from .runs.run import run_plan as run_plan, run_system as run_system
    from .runs.scoring import rescore as rescore
    from .scale.sharded import evaluate_files as evaluate_files
    from .store.runs import RunStore as RunStore, open_store as open_store
    from .systems.calls import AueporaEvaluator as AueporaEvaluator
    from .systems.haystack import from_haystack as from_haystack
    from .systems.langchain import from_langchain as from_langchain
    from .systems.llamaindex import from_llamaindex as from_llamaindex

_EXPORTS = {
    "AueporaError": "errors",
    "AueporaEvaluator": "systems.calls",
    "AueporaWarning": "errors",
    "BatchMetric": "core.metrics_base",
    "ClientReport": "client",
    "Conventions": "core.conventions",
    "DecisionCritic": "judge.decisions",
    "Document": "core.types",
    "EvaluationDataset": "core.dataset",
    "EvaluationPlan": "core.plan",
    "EvaluationSample": "core.types",
    "InMemoryDataset": "core.dataset",
    "JudgeMetric": "metrics.judge_metric",
    "JudgePolicy": "judge.critic",
    "JudgeSession": "judge.session",
    "JudgedMetric": "judge.metric",
    "LLMCritic": "judge.critic",
    "LazyDataset": "core.dataset",
    "Metric": "core.metrics_base",
    "MetricResult": "core.types",
    "OpenAICritic": "judge.openai",
    "Panel": "judge.panel",
    "PerturbedRetriever": "perturb.documents",
    "RAGEvaluationClient": "client",
    "RAGSystem": "core.rag_interface",
    "RecordedCritic": "judge.cache",
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
    "calibrate": "calibration.calibrate",
    "check_gates": "gates",
    "compare": "compare",
    "diagnose": "runs.diagnose",
    "diagnose_plan": "runs.diagnose",
    "evaluate": "engine.evaluate",
    "evaluate_files": "scale.sharded",
    "evaluate_rankings": "engine.evaluate",
    "evaluate_trec": "io.trec_format",
    "evaluate_stream": "engine.evaluate",
    "explain": "report.explain",
    "from_haystack": "systems.haystack",
    "from_langchain": "systems.langchain",
    "from_llamaindex": "systems.llamaindex",
    "judge_relevance": "grades.relevance",
    "load_dataset": "io.join",
    "metric": "core.registry",
    "noise_curve": "runs.perturbed",
    "open_store": "store.runs",
    "perturb_queries": "perturb.queries",
    "plan_size": "runs.pilot",
    "plot_comparison": "report.plots",
    "plot_results": "report.plots",
    "plot_runs": "report.stored_plots",
    "pool_outputs": "grades.pool",
    "prefer": "judge.preference",
    "register": "core.registry",
    "rescore": "runs.scoring",
    "run_perturbed": "runs.perturbed",
    "run_plan": "runs.run",
    "run_system": "runs.run",
    "write_report": "report.pages",
    "with_gold": "io.grades",
}

__all__ = ["__version__", *_EXPORTS]  # noqa: PLE0604 -- the names of a dict literal just above


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f".{_EXPORTS[name]}", __name__)
    if name not in globals():  # the import of the package `compare` binds its name, and it can be called
        globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(__all__)
