"""Classification of (query, candidate) pairs by a score: AUROC, AUPRC and TPR at a fixed FPR."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from ..stats.calibration import threshold_counts

__all__ = ["NEGateMetrics"]


@dataclass(frozen=True, slots=True)
class NEGateMetrics:
    """How well a gate's probabilities separate evidence from no evidence, over all pairs at once.

    With only one class ``auroc`` is 0.5, ``auprc`` the class prior, the rates are 0 and ``defined`` is False. Without
    any pair ``auprc`` is 0.
    """

    auroc: float
    """Chance that a positive pair scores above a negative one; equal scores count half."""
    auprc: float
    """Average precision; guessing gets the proportion of positives."""
    tpr_at_fpr_3pct: float
    """The highest true positive rate at a false positive rate of at most 3 %."""
    tpr_at_fpr_5pct: float
    tpr_at_fpr_10pct: float
    defined: bool
    """Whether both classes occur; otherwise the numbers are placeholders."""

    @classmethod
    def compute(cls, y_prob: npt.ArrayLike, y_true: npt.ArrayLike) -> NEGateMetrics:
        """The metrics of scores and labels (0 and 1, or Booleans), in this order: scikit-learn has it the other way.

        Any real score works: only the order of the scores matters.
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
