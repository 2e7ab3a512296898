"""Word overlap with the question, and when it cannot decide a comparison."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.results import registered_name
from ..core.types import MetricResult, TargetCategory

OVERLAP_NOTE = "word overlap of answer and question"
_QUESTION_OVERLAP = frozenset({"answer_relevance", "rouge1_query", "rouge2_query", "rougeL_query", "rougeLsum_query"})
_NO_BASIS = _QUESTION_OVERLAP | {
    "citation_coverage",
    "empty_result_rate",
    "evidence_overlap",
    "hallucination_rate",
    "support_coverage",
    "support_density",
}
"""Metrics of quality that need neither gold nor a judge."""
_NO_QUALITY = (TargetCategory.LATENCY, TargetCategory.DIVERSITY, TargetCategory.COST)


def is_question_overlap(result: MetricResult) -> bool:
    """Whether the metric counts words that the answer shares with the question."""
    return registered_name(result) in _QUESTION_OVERLAP


def missing_basis_reason(results: Iterable[MetricResult]) -> str | None:
    """Why word overlap with the question gives no verdict: no other result rests on gold or a judge; else ``None``.

    An answer that repeats the question has the best overlap there is. With gold or a judge other metrics would show
    how bad it is; without, nothing would.
    """
    if any(one.defined and one.target not in _NO_QUALITY and registered_name(one) not in _NO_BASIS for one in results):
        return None
    return (
        "no verdict by word overlap with the question alone: no metric of these runs rests on gold or a judge; "
        "`auepora validate` tells how to get there"
    )
