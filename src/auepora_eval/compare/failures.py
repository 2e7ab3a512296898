"""Sensitivity of a verdict to failures: failed and missing outputs rescored against the winner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..core.reduce import SumsReducer
from ..core.scores import Scores, Status
from ..core.types import TargetCategory
from ..stats.intervals import Bools
from .pairing import MetricPair, failed_without_value
from .types import ComparisonInput, DowngradeReason, Verdict

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


def recheck_with_missing(one: ComparisonInput, verdict: Verdict) -> FailureCheck | None:
    """How missing outputs are counted against the winner; ``None`` where they cannot have helped it.

    * If a missing output has no worst value, there is no verdict.
    * Whether missing outputs would have been equal is unknown.
    * A worst value lowers a mean, but it may also lower the spread of the differences. So the better run must be better
      with its missing outputs at the best value, too, and by its own p-value, whatever the other metrics do.
    """
    pair = one.pair
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


def recheck_with_failures(one: ComparisonInput, verdict: Verdict) -> FailureCheck | None:
    """How failures are counted against the winner; ``None`` where failing cannot have helped it.

    * Failures that a metric leaves out: the run that failed more is better, or equal, only if that holds with its
      failed outputs at the worst value, too. Otherwise a system could improve by crashing on hard samples. A latency
      has no worst value.
    * Failures that count lower a mean. Metrics that are not means may rise with them, as BLEU does when a wordy system
      fails. So the winner must also win on the samples that it answered.
    """
    if verdict == "inconclusive":
        return None
    pair, worst = one.pair, one.pair.definition.worst
    failed = [_excluded_failures(pair.first), _excluded_failures(pair.second)]
    more = int(failed[1].sum()) - int(failed[0].sum())
    gains = verdict == "equal" or (verdict == "better") == (more > 0)
    excluded = failed[more > 0]
    left_out = f"{int(excluded.sum())} failed answers of {'B' if more > 0 else 'A'} are left out"
    if more and gains and one.pair.definition.worst_varies:
        return FailureCheck(None, f"no verdict: {left_out}, and their worst values are not stored")
    if more and gains and math.isfinite(worst) and one.target != TargetCategory.LATENCY.name:
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
