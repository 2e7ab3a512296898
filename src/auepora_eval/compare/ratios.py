"""Ratios of amounts, such as tokens or cost: they differ between runs, but less is not better by itself."""

from __future__ import annotations

from ..core.reduce import Clusters
from ..stats.difference import log_ratio_interval
from .pairing import RunPairScores

NO_VERDICT = "no verdict: an answer that refuses or fails takes less; compare the quality of the answers, too"

Ratio = tuple[float, float, float]
"""A ratio and the ends of its 95 % interval."""


def ratio_of_amounts(reading: RunPairScores, clusters: Clusters | None) -> Ratio | None:
    """The second run's amount over the first's, paired; ``None`` where an amount is 0 or there is one unit."""
    used = reading.used
    if reading.values is not None:
        factors, divisors = [reading.values[1][used]], [reading.values[0][used]]
    elif reading.sums is not None and reading.sums.first.shape[1] == 2:
        first, second = reading.sums.first[used], reading.sums.second[used]
        factors, divisors = [second[:, 0], first[:, 1]], [first[:, 0], second[:, 1]]
    else:
        return None
    return log_ratio_interval(factors, divisors, clusters=None if clusters is None else clusters[used])


def ratio_text(ratio: Ratio) -> str:
    """A ratio in words."""
    return "B takes {:.3g} times as much as A (95 % interval {:.3g} to {:.3g})".format(*ratio)
