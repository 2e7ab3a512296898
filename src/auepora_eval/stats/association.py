"""Permutation test of the association between scores and labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..core.errors import AlignmentError

__all__ = ["association_p_value"]

Floats = npt.NDArray[np.float64]

# How many numbers are permuted at a time.
_ASSOCIATION_CHUNK = 1 << 20


def association_p_value(scores: Floats, labels: Floats, *, draws: int = 9_999, seed: int = 0) -> float:
    r"""One-sided p-value of the hypothesis that higher scores do not go with higher labels.

    The ranks of the scores are permuted ``draws`` times by a seed; with b of the permutations as high as the observed
    statistic, p is :math:`(1 + b) / (1 + draws)`. The statistic is the sum of ranks times labels, which for labels of 0
    and 1 is that of Mann and Whitney, so that the test is about AUROC. Equal scores share their mean rank. Where all
    scores or all labels are equal, p is 1.
    """
    scores, labels = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if scores.shape != labels.shape or scores.ndim != 1:
        raise AlignmentError(scores.size, labels.size, what=("scores", "labels"))
    if not len(scores) or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return 1.0
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    ranks -= ranks.mean()
    labels = labels - labels.mean()
    reached = float(ranks @ labels) - 1e-9 * float(np.abs(ranks) @ np.abs(labels))  # ties but for rounding
    rng = np.random.default_rng(seed)
    rows = max(1, _ASSOCIATION_CHUNK // len(ranks))
    as_high = 0
    for start in range(0, draws, rows):
        permuted = rng.permuted(np.tile(ranks, (min(rows, draws - start), 1)), axis=1)
        as_high += int(np.count_nonzero(permuted @ labels >= reached))
    return (1 + as_high) / (1 + draws)
