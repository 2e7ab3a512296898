"""A difference between two runs split into the part from retrieval and the part from generation.

Between run A and run B is a third run, in which B's generator answered from A's documents. On every sample

    B - A = (B - replayed) + (replayed - A)

where the first part differs only in the documents, and the second only in the generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.exact import exact_sum
from ..core.metrics_base import BatchMetric
from ..core.reduce import Clusters, Mean, SumsReducer
from ..core.scores import Scores
from ..stats.difference import paired_differences, paired_interval
from ..stats.interval import Interval, encode_clusters
from ..stats.paired_bootstrap import paired_bootstrap, paired_bootstrap_of
from ..stats.sign_flips import sign_flips

__all__ = ["DifferencePart", "MetricSplit", "split_difference"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DifferencePart:
    """A difference with its interval and p-value."""

    value: float | None
    """``None`` where no sample has a score in all three runs."""
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    """By sign flips; ``None`` for metrics that are not means. Not adjusted for several metrics."""
    flags: tuple[str, ...] = ()
    """Why the coverage of the interval may be below its level."""


@dataclass(frozen=True, slots=True)
class MetricSplit:
    """One metric's difference between two runs, in its parts, over the samples that have a score in all three."""

    name: str
    target: str
    a: float | None
    replayed: float | None
    """B's generator on A's documents."""
    b: float | None
    delta: DifferencePart
    """b - a, which is the sum of the two parts."""
    retrieval: DifferencePart
    """b - replayed: the same generator, other documents."""
    generation: DifferencePart
    """replayed - a: the same documents, another generator."""
    n: int
    units: int
    """Clusters if there are any, samples otherwise."""
    left_out: int
    """Samples without a score in one of the three."""
    scores: Mapping[str, tuple[float, float, float]] = field(repr=False, default_factory=dict)
    """By the id of a sample its scores in A, replayed, and in B."""

    def to_dict(self) -> dict[str, Any]:
        """The split as a JSON object, without the scores."""
        values = asdict(self)
        del values["scores"]
        return values


def split_difference(
    metric: BatchMetric,
    sample_ids: Sequence[str],
    first: Scores,
    replayed: Scores,
    second: Scores,
    clusters: Clusters | None = None,
) -> MetricSplit:
    """Split the difference between two runs, given a metric's scores in both and in the replay, sample by sample."""
    scored = first.counted & replayed.counted & second.counted
    rows = np.flatnonzero(scored)
    a, r, b = (scores.take(rows) for scores in (first, replayed, second))
    inside = None if clusters is None else clusters[rows]
    codes = encode_clusters(inside, len(rows))
    delta, retrieval, generation = (_mean_parts if _is_mean(metric) else _total_parts)(metric, a, r, b, inside)
    names = [sample_ids[row] for row in rows.tolist()]
    columns = zip(a.values.tolist(), r.values.tolist(), b.values.tolist(), strict=True)
    return MetricSplit(
        metric.name,
        metric.target.name,
        a=_number(metric.reducer.value(a)),
        replayed=_number(metric.reducer.value(r)),
        b=_number(metric.reducer.value(b)),
        delta=delta,
        retrieval=retrieval,
        generation=generation,
        n=len(rows),
        units=len(rows) if codes is None else len(np.unique(codes)),
        left_out=len(scored) - len(rows),
        scores=dict(zip(names, columns, strict=True)),
    )


def _is_mean(metric: BatchMetric) -> bool:
    kind = type(metric.reducer)
    return isinstance(metric.reducer, Mean) and kind.value is Mean.value


def _mean_parts(
    metric: BatchMetric, first: Scores, replayed: Scores, second: Scores, clusters: Clusters | None
) -> list[DifferencePart]:
    a, r, b = first.values, replayed.values, second.values
    pairs = ((a, b), (r, b), (a, r))
    if not len(a):
        return [DifferencePart(None) for _ in pairs]
    flips = sign_flips(np.column_stack([paired_differences(before, after) for before, after in pairs]), clusters)
    low, high = metric.range
    return [
        _difference_part(
            # One exact sum: each part is rounded once, so that the parts add up to rounding.
            exact_sum(np.concatenate([after, -before])) / len(a),
            paired_interval(before, after, clusters=clusters, binary=metric.binary, lowest=low, highest=high),
            float(p_value),
        )
        for (before, after), p_value in zip(pairs, flips.p_values, strict=True)
    ]


def _total_parts(
    metric: BatchMetric, first: Scores, replayed: Scores, second: Scores, clusters: Clusters | None
) -> list[DifferencePart]:
    """The parts for metrics that are not means: they add up in total, not sample by sample."""
    parts = []
    for before, after in ((first, second), (replayed, second), (first, replayed)):
        value = metric.reducer.value(after) - metric.reducer.value(before)
        parts.append(_difference_part(value, _bootstrap_interval(metric, before, after, clusters), None))
    return parts


def _bootstrap_interval(
    metric: BatchMetric, before: Scores, after: Scores, clusters: Clusters | None
) -> Interval | None:
    reducer, (low, high) = metric.reducer, metric.range
    if len(before) < 2:
        return None
    if isinstance(reducer, SumsReducer) and before.stats is not None and after.stats is not None:

        def of_sums(table: Floats) -> Floats:
            return np.array([reducer.from_sums(sums) for sums in table.tolist()])

        return paired_bootstrap(before.stats, after.stats, of_sums, clusters=clusters, lowest=low, highest=high)
    return paired_bootstrap_of(
        lambda drawn: reducer.value(before.take(drawn)),
        lambda drawn: reducer.value(after.take(drawn)),
        len(before),
        clusters=clusters,
        lowest=low,
        highest=high,
    )


def _difference_part(value: float, interval: Interval | None, p_value: float | None) -> DifferencePart:
    return DifferencePart(
        _number(value),
        None if interval is None else (interval.low, interval.high),
        p_value,
        () if interval is None else interval.flags,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
