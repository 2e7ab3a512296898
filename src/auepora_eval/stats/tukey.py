"""Randomised Tukey HSD: which of several runs differ, all pairs at once.

If no run differs from another, each unit's scores could as well belong to the runs in any other order. So the scores of
each unit are permuted between the runs, many times, and each time the best run's mean minus the worst run's is noted:
the largest of all pairs. A pair's p-value is how often it reaches the observed difference (B. Carterette, ACM TOIS 30,
2012). All pairs share one 5 %, as metrics do with max-T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from .integer_sums import can_enumerate, integer_sums, pool_units, require_finite_table, tail_proportion

__all__ = ["tukey_hsd"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# More units than this are pooled into this many groups, which are permuted together, so that the cost stops growing.
_PERMUTED = 1 << 12
# How many scores are permuted at a time.
_TUKEY_CHUNK = 1 << 20


def tukey_hsd(scores: Floats, clusters: Ints | None = None, *, draws: int = 10_000, seed: int = 0) -> Floats:
    """The p-value of each pair of runs: a table with a row and a column per run, ones on its diagonal.

    ``scores`` has a row per sample and a column per run, and no gaps: samples that a run lacks are left out. Samples
    of one cluster are permuted alike. If there are no more than ``draws`` permutations, each is taken once and the
    p-value is exact. With two runs it is the p-value of ``sign_flips``.
    """
    scores = require_finite_table(scores)
    runs = scores.shape[1]
    if runs < 2:
        raise BadValueError(f"the scores must have a column per run, two at least, not {runs}")
    if draws < 1:
        raise BadValueError(f"draws must be at least 1, not {draws!r}")
    sums = pool_units(integer_sums(scores - scores.mean(axis=1, keepdims=True), clusters, one_grid=True), _PERMUTED)
    informative = sums[(sums != sums[:, :1]).any(axis=1)]
    exact = can_enumerate(math.factorial(runs), len(informative), draws)
    totals = _all_permutations(informative) if exact else _random_permutations(informative, draws, seed)
    ranges = np.concatenate([np.ptp(part, axis=1) for part in totals])
    means = informative.sum(axis=0)
    spread = math.sqrt(float(np.square(informative).sum())) or 1.0
    p_values = np.ones((runs, runs))
    for one in range(runs):
        for other in range(one):
            observed = abs(means[one] - means[other])
            p_values[one, other] = tail_proportion(ranges / spread, observed / spread, exact=exact)
            p_values[other, one] = p_values[one, other]
    return p_values


def _all_permutations(sums: Floats) -> Iterator[Floats]:
    """The runs' totals under every permutation, unit by unit."""
    totals = np.zeros((1, sums.shape[1]))
    for unit in sums:
        totals = np.concatenate([totals + order for order in permutations(unit)])
    yield totals


def _random_permutations(sums: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """The runs' totals under random permutations, some at a time."""
    rng = np.random.Generator(np.random.PCG64(seed))
    at_once = max(1, _TUKEY_CHUNK // sums.size)
    for start in range(0, draws, at_once):
        rows = min(at_once, draws - start)
        yield rng.permuted(np.broadcast_to(sums, (rows, *sums.shape)), axis=2).sum(axis=1)
