"""Sensitivity of a verdict to failed and missing outputs: rescored so that failing cannot have helped the winner."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..core.reduce import SumsReducer
from ..core.scores import Scores, Status
from ..core.types import TargetCategory
from .missing_outputs import fill_with_best
from .run_pairs import MetricPair, failed_without_value
from .types import DowngradeReason, Verdict

__all__ = ["FailureCheck", "recheck_with_failures", "recheck_with_missing"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class FailureCheck:
    """The pair with failures counted against the winner, and the note for a verdict that does not survive it."""

    pair: MetricPair | None
    """``None`` where failures cannot be counted: then no verdict stands."""
    note: str
    reason: DowngradeReason = "system_failures"
    needs_bonferroni: bool = False
    """Whether the metric's own p-value must pass Bonferroni's level."""


def recheck_with_missing(pair: MetricPair, verdict: Verdict, target: str) -> FailureCheck | None:
    """The pair with missing outputs counted against the winner; ``None`` where they cannot have helped it.

    * If a missing output has no worst value, there is no verdict.
    * Whether missing outputs would have been equal is unknown.
    * A worst value lowers a mean, but it may also lower the spread of the differences. So the better run must be better
      with its missing outputs at the best value, too, and by its own p-value, whatever the other metrics do.
    """
    if not any(pair.missing):
        return None
    lacking = " and ".join(f"{n} outputs of {run}" for run, n in zip("AB", pair.missing, strict=True) if n)
    if not pair.definition.counts_missing:
        return FailureCheck(None, f"no verdict: {lacking} are missing, and have no worst value here", "missing_outputs")
    if verdict == "equal":
        return FailureCheck(None, f"not 'equal': {lacking} are missing", "missing_outputs")
    if verdict == "inconclusive" or pair.at_worst is None:
        return None
    second = verdict == "better"
    missing = pair.at_worst[second]
    if not missing.any():
        return None
    filled = fill_with_best(pair.second if second else pair.first, missing, pair.definition)
    changed = None if filled is None else replace(pair, second=filled) if second else replace(pair, first=filled)
    if not np.array_equal(pair.first.counted, pair.second.counted):
        changed = None  # which samples count depends on the outputs, so the value is a ratio
    lacking = f"{int(missing.sum())} missing outputs of {'B' if second else 'A'}"
    note = f"'{verdict}' is not certain: {lacking} could change it"
    return FailureCheck(changed, note, "missing_outputs", needs_bonferroni=True)


def recheck_with_failures(pair: MetricPair, verdict: Verdict, target: str) -> FailureCheck | None:
    """The pair with failures counted against the winner; ``None`` where failing cannot have helped it.

    * Failures that a metric leaves out: the run that failed more is better, or equal, only if that holds with its
      failed outputs at the worst value, too. Otherwise a system could improve by crashing on hard samples. A latency
      has no worst value.
    * Failures that count lower a mean. Metrics that are not means may rise with them, as BLEU does when a wordy system
      fails. So the winner must also win on the samples that it answered.
    """
    if verdict == "inconclusive":
        return None
    worst = pair.definition.worst
    first, second = _excluded_failures(pair.first), _excluded_failures(pair.second)
    more = int(second.sum()) - int(first.sum())
    gains = verdict == "equal" or (verdict == "better") == (more > 0)
    if more and gains and math.isfinite(worst) and target != TargetCategory.LATENCY.name:
        failed = second if more > 0 else first
        note = (
            f"'{verdict}' only because {int(failed.sum())} failed answers of {'B' if more > 0 else 'A'} are left out; "
            f"not so with them at the worst value, {worst:g}"
        )
        return FailureCheck(_with_failures_at_worst(pair, failed, second=more > 0), note)
    if verdict == "equal" or pair.definition.is_mean:
        return None
    answered = pair.without_failures(second=verdict == "better")
    if answered.first is pair.first and answered.second is pair.second:
        return None
    note = f"'{verdict}' only because failed answers change it; not so on the samples that were answered"
    return FailureCheck(answered, note)


def _excluded_failures(scores: Scores) -> Bools:
    failed: Bools = failed_without_value(scores) & (scores.status == Status.SYSTEM_FAILED)
    return failed


def _with_failures_at_worst(pair: MetricPair, failed: Bools, *, second: bool) -> MetricPair | None:
    definition, scores = pair.definition, pair.second if second else pair.first
    if isinstance(definition.reducer, SumsReducer) and scores.stats is not None and definition.worst_stats is None:
        return None
    filled = scores.replaced(failed, Status.SYSTEM_FAILED, "worst", definition.worst, definition.worst_stats)
    return replace(pair, second=filled) if second else replace(pair, first=filled)
