"""Verdicts on a metric: better, worse, equal or inconclusive; margins, and metrics that decide nothing alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..core.results import registered_name
from ..core.types import MetricResult, TargetCategory
from ..errors import BadValueError, UnknownMetricError
from ..options import PositiveFloat, problem_of
from .types import Verdict

ALPHA = 0.05
"""The significance level."""

Margin = float | Mapping[str, float] | None
"""The difference that does not matter: one for all metrics, or by the name of a metric."""

Ends = tuple[float, float] | None


def verdict_of(
    delta: float | None,
    *,
    p_adjusted: float | None,
    higher_is_better: bool | None,
    interval_adjusted: Ends = None,
    interval_90: Ends = None,
    margin: float | None = None,
    identical: bool = False,
) -> Verdict:
    """The verdict on one metric.

    ``better`` and ``worse`` need an adjusted p-value below .05 and an adjusted interval without 0: few skewed
    differences can have a small p-value by chance, but not both. ``equal`` needs values that are ``identical`` on all
    samples, or a margin that the user gave and a 90 % interval within it, which is two one-sided tests at 5 %.
    Everything else is inconclusive, and so is a difference of a metric without a direction (``None``).
    """
    if delta is None:
        return "inconclusive"
    if p_adjusted is not None and p_adjusted < ALPHA and delta != 0 and excludes_zero(interval_adjusted):
        if higher_is_better is None:
            return "inconclusive"
        return "better" if (delta > 0) == higher_is_better else "worse"
    return "equal" if identical or is_within(interval_90, margin) else "inconclusive"


def excludes_zero(ends: Ends) -> bool:
    """Whether a whole interval lies on one side of zero."""
    return ends is not None and (ends[0] > 0 or ends[1] < 0)


def is_within(ends: Ends, margin: float | None) -> bool:
    """Whether a whole interval lies within the margin, on both sides of zero."""
    return ends is not None and margin is not None and -margin <= ends[0] and ends[1] <= margin


def margin_of(margin: Margin, name: str) -> float | None:
    """The margin of one metric; ``None`` if it has none."""
    return margin.get(name) if isinstance(margin, Mapping) else margin


def parse_margin(texts: Iterable[str]) -> Margin:
    """The margin that texts give: ``NUMBER`` for all metrics, or ``METRIC=NUMBER`` for each; ``None`` without any."""
    named: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            named[name if equals else ""] = float(number)
        except ValueError:
            raise BadValueError(f"--delta {text}: write a number, or METRIC=NUMBER") from None
    if not named:
        return None
    if "" in named and len(named) > 1:
        raise BadValueError("give --delta one number for all metrics, or METRIC=NUMBER for each, not both")
    return named.get("") or named


def require_margin(margin: Margin, known: Iterable[str]) -> None:
    """Raise if a margin is not a positive number, or is for an unknown metric."""
    if margin is None:
        return
    named = margin if isinstance(margin, Mapping) else {"": margin}
    names = list(known)
    for name, value in named.items():
        if problem_of(PositiveFloat, value):
            where = f" of '{name}'" if name else ""
            raise BadValueError(
                f"delta{where} is the largest difference that does not matter: a number above 0, not {value!r}"
            )
        if name and name not in names:
            raise UnknownMetricError(name, names)


# --- word overlap with the question, and when it cannot decide a comparison ------------------------------------------

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
