"""Leaderboard: several runs ranked on the samples that all of them have, and every pair of them compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from ..core.metrics_base import Metric
from ..core.reduce import Clusters
from ..stats.tukey import tukey_hsd
from ..store.records import RunRecord
from ..store.runs import RunStore
from .analysis import compute_comparisons, require_adjustment
from .comparison_input import ComparisonInput
from .metric_comparisons import build_comparisons
from .report_notes import empty_answer_notes
from .run_pairs import RunPairScores, exclude_rows, failed_without_value, reduce_or_nan
from .types import MetricComparison
from .verdict import Margin

__all__ = ["Leaderboard", "LeaderboardMetric", "LeaderboardPair", "build_leaderboard"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LeaderboardPair:
    """Two runs of a leaderboard, by their indices; the verdict is about the second."""

    first: int
    second: int
    comparison: MetricComparison


@dataclass(frozen=True, slots=True)
class LeaderboardMetric:
    """One metric of a leaderboard: the value of each run and the comparison of each pair."""

    name: str
    target: str
    higher_is_better: bool
    values: tuple[float | None, ...]
    """Each run's value over the samples that all have."""
    pairs: tuple[LeaderboardPair, ...]

    @property
    def primary(self) -> bool:
        """Whether there are verdicts on it; otherwise it is exploratory."""
        return all(pair.comparison.primary for pair in self.pairs)

    @property
    def ranking(self) -> list[int]:
        """The indices of the runs, the best value first, runs without a value last; ties in the order given."""
        sign = -1.0 if self.higher_is_better else 1.0
        return sorted(
            range(len(self.values)), key=lambda run: (self.values[run] is None, sign * (self.values[run] or 0))
        )

    def unbeaten(self) -> list[int]:
        """The indices of the runs that no other run is significantly better than."""
        beaten = {
            pair.first if pair.comparison.verdict == "better" else pair.second
            for pair in self.pairs
            if pair.comparison.verdict in ("better", "worse")
        }
        return [run for run in self.ranking if run not in beaten and self.values[run] is not None]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Several runs compared with each other on every metric."""

    run_ids: tuple[str, ...]
    names: tuple[str, ...]
    metrics: list[LeaderboardMetric]
    refused: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    """How many samples all runs have."""
    missing: tuple[int, ...] = ()
    """How many outputs each run lacks, of these samples."""
    notes: tuple[str, ...] = ()
    """Further notes on the runs, which are called A, B, ... in them."""

    def to_dict(self) -> dict[str, Any]:
        """The leaderboard as a JSON document."""
        return {
            "schema": 1,
            "runs": [
                {"run_id": run_id, "name": name, "missing_outputs": missing}
                for run_id, name, missing in zip(self.run_ids, self.names, self.missing, strict=True)
            ],
            "samples": self.samples,
            "metrics": {
                one.name: {
                    "target": one.target,
                    "primary": one.primary,
                    "values": list(one.values),
                    "ranking": [self.run_ids[run] for run in one.ranking],
                    "unbeaten": [self.run_ids[run] for run in one.unbeaten()],
                    "pairs": [
                        {
                            "run_a": self.run_ids[pair.first],
                            "run_b": self.run_ids[pair.second],
                            **pair.comparison.to_dict(),
                        }
                        for pair in one.pairs
                    ],
                }
                for one in self.metrics
            },
            "refused": dict(self.refused),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


def build_leaderboard(
    store: RunStore,
    records: Sequence[RunRecord],
    *,
    metrics: Sequence[str | Metric] | None = None,
    adjust: Literal["max-t", "holm", "tukey"] = "max-t",
    delta: Margin = None,
    primary: Sequence[str] | None = None,
    other_dataset: bool = False,
    seed: int = 0,
) -> Leaderboard:
    """Compare every two of several runs on the samples that all of them have.

    All pairs of all primary metrics share one 5 %. With ``tukey`` the pairs of each metric do, by randomised Tukey HSD;
    metrics that are not means keep max-T. The other arguments are those of ``compare_metrics``.
    """
    require_adjustment(adjust, ("max-t", "holm", "tukey"))
    if len(records) < 2:
        raise BadValueError(f"a leaderboard needs at least two runs, not {len(records)}")
    repeated = {one.run_id for one in records if sum(other.run_id == one.run_id for other in records) > 1}
    if repeated:
        raise BadValueError(f"{min(repeated)} is named twice; name every run once")
    built = build_comparisons(
        store, records, metrics=metrics, delta=delta, primary=primary, other_dataset=other_dataset
    )

    def adjust_by_tukey(inputs: Sequence[ComparisonInput], pairs: Sequence[RunPairScores]) -> Floats:
        return _tukey(inputs, pairs, built.shared.clusters, seed)

    comparisons = compute_comparisons(
        built.inputs,
        built.shared.clusters,
        adjust=adjust_by_tukey if adjust == "tukey" else adjust,
        seed=seed,
    )
    metrics_compared = _by_metric(built.inputs, comparisons, len(records))
    run_ids = tuple(one.run_id for one in records)
    return Leaderboard(
        run_ids,
        tuple(one.name for one in records),
        metrics_compared,
        built.refused,
        len(built.shared.ids),
        tuple(built.missing),
        tuple(empty_answer_notes(store, run_ids, metrics_compared)),
    )


def _by_metric(
    inputs: Sequence[ComparisonInput], comparisons: Sequence[MetricComparison], runs: int
) -> list[LeaderboardMetric]:
    found: dict[str, list[tuple[ComparisonInput, MetricComparison]]] = {}
    for one_input, comparison in zip(inputs, comparisons, strict=True):
        found.setdefault(comparison.name, []).append((one_input, comparison))
    return [
        LeaderboardMetric(
            name,
            pairs[0][1].target,
            pairs[0][0].pair.definition.higher_is_better,
            _values([one_input for one_input, _ in pairs], runs),
            tuple(LeaderboardPair(*one_input.runs, comparison) for one_input, comparison in pairs),
        )
        for name, pairs in found.items()
    ]


def _values(inputs: Sequence[ComparisonInput], runs: int) -> tuple[float | None, ...]:
    """Each run's value; a sample on which any run has a failure without a score is left out for all."""
    definition = inputs[0].pair.definition
    scores = {run: one.pair.first for one in inputs for run in one.runs[:1]}
    scores |= {one.runs[1]: one.pair.second for one in inputs}
    stored = {run: value for one in inputs if one.stored for run, value in zip(one.runs, one.stored, strict=True)}
    reducer = definition.reducer
    if reducer is None:
        return tuple(stored.get(run) for run in range(runs))
    excluded = np.logical_or.reduce([failed_without_value(one) for one in scores.values()])
    values = [reduce_or_nan(reducer, exclude_rows(scores[run], excluded)) for run in range(runs)]
    return tuple(None if math.isnan(value) else value for value in values)


def _tukey(
    inputs: Sequence[ComparisonInput], pair_scores: Sequence[RunPairScores], clusters: Clusters | None, seed: int
) -> Floats:
    """P-values of all pairs of each primary metric that is a mean; NaN for others."""
    adjusted = np.full(len(inputs), np.nan)
    for name in dict.fromkeys(one.pair.name for one in inputs if one.primary):
        places = [place for place, one in enumerate(inputs) if one.pair.name == name]
        columns: dict[int, Floats] = {}
        for place in places:
            values = pair_scores[place].values
            if values is not None:
                columns |= dict(zip(inputs[place].runs, values, strict=True))
        if any(pair_scores[place].values is None for place in places):
            continue
        table = np.stack([columns[run] for run in sorted(columns)], axis=1)
        complete = ~np.isnan(table).any(axis=1)
        if complete.any():
            p_values = tukey_hsd(table[complete], None if clusters is None else clusters[complete], seed=seed)
            for place in places:
                adjusted[place] = p_values[inputs[place].runs]
    return adjusted
