"""What a run may owe to answers it did not give: the same metric read so that failing cannot have helped."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..core.reduce import OfSums
from ..core.scores import Scores, Status
from ..core.types import TargetCategory
from .reading import Pair, failed_without_value
from .types import Verdict

__all__ = ["HeldAgainst", "held_against_failures"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HeldAgainst:
    """A pair read the hard way, and what to say of a verdict that does not stand under it."""

    pair: Pair | None
    """``None`` where it cannot be read so: then no verdict stands."""
    remark: str


def held_against_failures(pair: Pair, verdict: Verdict, target: str) -> HeldAgainst | None:
    """The pair with the winner's failures held against it; ``None`` where failing cannot have won anything.

    * Failures that a metric leaves out: who failed more is better, or equal, only if it is so with its failed answers
      at the worst value, too. Without this a system becomes better by crashing on what is hard. A latency has no worst
      value, and a rate of answers is one.
    * Failures that count lower a mean. What is no mean may rise by them: BLEU by the words that a wordy system does not
      say. So the winner must win on the samples that it answered, too.
    """
    if verdict == "inconclusive":
        return None
    worst = pair.definition.worst
    first, second = _left_out(pair.first), _left_out(pair.second)
    more = int(second.sum()) - int(first.sum())
    gains = verdict == "equal" or (verdict == "better") == (more > 0)
    if more and gains and math.isfinite(worst) and target != TargetCategory.LATENCY.name:
        failed = second if more > 0 else first
        remark = (
            f"'{verdict}' only because {int(failed.sum())} failed answers of {'B' if more > 0 else 'A'} are left out; "
            f"not so with them at the worst value, {worst:g}"
        )
        return HeldAgainst(_at_worst(pair, failed, second=more > 0), remark)
    if verdict == "equal" or pair.definition.is_mean:
        return None
    answered = pair.unless_failed(second=verdict == "better")
    if answered.first is pair.first and answered.second is pair.second:
        return None
    remark = f"'{verdict}' only because failed answers change it; not so on the samples that were answered"
    return HeldAgainst(answered, remark)


def _left_out(scores: Scores) -> Bools:
    failed: Bools = failed_without_value(scores) & (scores.status == Status.SYSTEM_FAILED)
    return failed


def _at_worst(pair: Pair, failed: Bools, *, second: bool) -> Pair | None:
    definition, scores = pair.definition, pair.second if second else pair.first
    if isinstance(definition.reducer, OfSums) and scores.stats is not None and definition.worst_stats is None:
        return None
    filled = scores.replaced(failed, Status.SYSTEM_FAILED, "worst", definition.worst, definition.worst_stats)
    return replace(pair, second=filled) if second else replace(pair, first=filled)
