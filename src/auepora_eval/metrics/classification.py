"""Classification of (query, candidate) pairs by a score: AUROC, AUPRC and the true positives a few alarms buy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from ..stats.roc import threshold_counts

__all__ = ["NEGateMetrics"]


@dataclass(frozen=True, slots=True)
class NEGateMetrics:
    """How well a gate's probabilities tell evidence from no evidence, over all pairs at once.

    With one class only there is nothing to tell apart: ``auroc`` is 0.5, ``auprc`` the class prior, the rates are 0 and
    ``defined`` is False. Without any pair ``auprc`` is 0.
    """

    auroc: float
    """Chance that a positive pair scores above a negative one; equal scores count half."""
    auprc: float
    """Average precision; the share of positives is what guessing gets."""
    tpr_at_fpr_3pct: float
    """The largest share of the positives that can be caught while at most 3 % of the negatives are."""
    tpr_at_fpr_5pct: float
    tpr_at_fpr_10pct: float
    defined: bool
    """Whether both classes are there, so that the numbers mean something."""

    @classmethod
    def compute(cls, y_prob: npt.ArrayLike, y_true: npt.ArrayLike) -> NEGateMetrics:
        """The metrics of scores and labels (0 and 1, or Booleans), in this order: scikit-learn has it the other way.

        Any real score will do, a probability or not: only the order of the scores matters.
        """
        counts = threshold_counts(y_prob, y_true)
        return cls(
            auroc=counts.auroc(),
            auprc=counts.average_precision(),
            tpr_at_fpr_3pct=counts.tpr_at_fpr(0.03),
            tpr_at_fpr_5pct=counts.tpr_at_fpr(0.05),
            tpr_at_fpr_10pct=counts.tpr_at_fpr(0.10),
            defined=counts.defined,
        )
