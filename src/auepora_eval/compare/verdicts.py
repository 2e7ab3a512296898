"""Verdicts on a metric: better, worse, equal or inconclusive; margins, failures, metrics that decide nothing alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..core.reduce import SumsReducer
from ..core.results import registered_name
from ..core.scores import Scores, Status
from ..core.types import MetricResult, TargetCategory
from ..errors import BadValueError, UnknownMetricError
from ..options import PositiveFloat, problem_of
from ..stats.intervals import Bools
from .pairing import MetricPair, failed_without_value
from .types import ComparisonInput, DowngradeReason, Verdict

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


def require_known(names: Iterable[str], known: Iterable[str]) -> None:
    """Raise at the first of the names that is no known metric."""
    listed = list(known)
    for name in names:
        if name not in listed:
            raise UnknownMetricError(name, listed)


def require_margin(margin: Margin, known: Iterable[str]) -> None:
    """Raise if a margin is not a positive number, or is for an unknown metric."""
    if margin is None:
        return
    named = margin if isinstance(margin, Mapping) else {"": margin}
    for name, value in named.items():
        if problem_of(PositiveFloat, value):
            where = f" of '{name}'" if name else ""
            raise BadValueError(
                f"delta{where} is the largest difference that does not matter: a number above 0, not {value!r}"
            )
    require_known((name for name in named if name), known)


# --- word overlap with the question, and when it cannot decide a comparison ------------------------------------------

OVERLAP_NOTE = "word overlap of answer and question"
QUESTION_OVERLAP = frozenset({"answer_relevance", "rouge1_query", "rouge2_query", "rougeL_query", "rougeLsum_query"})
"""Metrics that count words that the answer shares with the question."""
_NO_BASIS = QUESTION_OVERLAP | {
    "citation_coverage",
    "empty_result_rate",
    "evidence_overlap",
    "hallucination_rate",
    "support_coverage",
    "support_density",
}
"""Metrics of quality that need neither gold nor a judge."""
_NO_QUALITY = (TargetCategory.LATENCY, TargetCategory.DIVERSITY, TargetCategory.COST)


def missing_basis_reason(results: Iterable[MetricResult]) -> str | None:
    """Why word overlap with the question gives no verdict: no other result rests on gold or a judge; else ``None``.

    An answer that repeats the question has the best overlap there is. With gold or a judge other metrics would show
    how bad it is; without, nothing would.
    """
    defined = (result for result in results if result.defined and result.target not in _NO_QUALITY)
    if any(registered_name(result) not in _NO_BASIS for result in defined):
        return None
    return (
        "no verdict by word overlap with the question alone: no metric of these runs rests on gold or a judge; "
        "`auepora validate` tells how to get there"
    )


# --- sensitivity of a verdict to failures: failed and missing outputs rescored against the winner ---------------------

Change = Callable[[MetricPair], MetricPair]


@dataclass(frozen=True, slots=True, eq=False)
class FailureCheck:
    """How failures are counted against the winner, and the note for a verdict that does not survive it."""

    change: Change | None
    """Changes the scores; ``None`` where failures cannot be counted: then no verdict stands."""
    note: str
    reason: DowngradeReason = "system_failures"
    needs_bonferroni: bool = False
    """Whether the metric's own p-value must pass Bonferroni's level."""


def recheck_with_missing(given: ComparisonInput, verdict: Verdict) -> FailureCheck | None:
    """How missing outputs are counted against the winner; ``None`` where they cannot have helped it.

    * If a missing output has no worst value, there is no verdict.
    * Whether missing outputs would have been equal is unknown.
    * A worst value lowers a mean, but it may also lower the spread of the differences. So the better run must be better
      with its missing outputs at the best value, too, and by its own p-value, whatever the other metrics do.
    """
    pair = given.pair
    if not any(pair.missing):
        return None
    lacking = " and ".join(f"{n} outputs of {run}" for run, n in zip("AB", pair.missing, strict=True) if n)
    if not pair.definition.counts_missing:
        return FailureCheck(None, f"no verdict: {lacking} are missing, and have no worst value here", "missing_outputs")
    if verdict == "equal":
        return FailureCheck(None, f"not 'equal': {lacking} are missing", "missing_outputs")
    second = verdict == "better"
    if verdict == "inconclusive" or pair.at_worst is None or not (missing := pair.at_worst[second]).any():
        return None
    # Where the samples that count depend on the outputs, the value is a ratio, and nothing bounds it.
    bounded = math.isfinite(pair.definition.best) and np.array_equal(pair.first.counted, pair.second.counted)
    return FailureCheck(
        partial(_replace_scores, failed=missing, value=pair.definition.best, second=second) if bounded else None,
        f"'{verdict}' is not certain: {int(missing.sum())} missing outputs of {'B' if second else 'A'} could change it",
        "missing_outputs",
        needs_bonferroni=True,
    )


def recheck_with_failures(given: ComparisonInput, verdict: Verdict) -> FailureCheck | None:
    """How failures are counted against the winner; ``None`` where failing cannot have helped it.

    * Failures that a metric leaves out: the run that failed more is better, or equal, only if that holds with its
      failed outputs at the worst value, too. Otherwise a system could improve by crashing on hard samples. A latency
      has no worst value.
    * Failures that count lower a mean. Metrics that are not means may rise with them, as BLEU does when a wordy system
      fails. So the winner must also win on the samples that it answered.
    """
    if verdict == "inconclusive":
        return None
    pair, worst = given.pair, given.pair.definition.worst
    failed = [_excluded_failures(pair.first), _excluded_failures(pair.second)]
    more = int(failed[1].sum()) - int(failed[0].sum())
    gains = verdict == "equal" or (verdict == "better") == (more > 0)
    excluded = failed[more > 0]
    left_out = f"{int(excluded.sum())} failed answers of {'B' if more > 0 else 'A'} are left out"
    if more and gains and given.pair.definition.worst_varies:
        return FailureCheck(None, f"no verdict: {left_out}, and their worst values are not stored")
    if more and gains and math.isfinite(worst) and given.target != TargetCategory.LATENCY.name:
        note = f"'{verdict}' only because {left_out}; not so with them at the worst value, {worst:g}"
        scores = pair.second if more > 0 else pair.first
        definition = pair.definition
        known = definition.worst_stats is not None or scores.stats is None
        countable = known or not isinstance(definition.reducer, SumsReducer)
        change = partial(_replace_scores, failed=excluded, value=worst, second=more > 0)
        return FailureCheck(change if countable else None, note)
    if verdict == "equal" or pair.definition.is_mean:
        return None
    second = verdict == "better"
    if not ((pair.second if second else pair.first).status == Status.SYSTEM_FAILED).any():
        return None
    note = f"'{verdict}' only because failed answers change it; not so on the samples that were answered"
    return FailureCheck(lambda pair: pair.without_failures(second=second), note)


def _excluded_failures(scores: Scores) -> Bools:
    failed: Bools = failed_without_value(scores) & (scores.status == Status.SYSTEM_FAILED)
    return failed


def _replace_scores(pair: MetricPair, *, failed: Bools, value: float, second: bool) -> MetricPair:
    """The pair with the failed outputs of one run at this value, which is the worst or best there is."""
    definition, scores = pair.definition, pair.second if second else pair.first
    stats = definition.worst_stats if value == definition.worst else None
    filled = scores.replaced(failed, Status.SYSTEM_FAILED, "failed", value, stats)
    return replace(pair, second=filled) if second else replace(pair, first=filled)
