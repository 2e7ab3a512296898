"""Leaderboard: several runs ranked on their common samples, every pair compared; and notes on failures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.metrics_base import Metric
from ..core.reduce import Clusters
from ..core.results import empty_answers
from ..core.types import TargetCategory
from ..errors import BadValueError
from ..render.tables import format_value
from ..stats.permutation import tukey_hsd
from ..store.records import RunRecord
from ..store.runs import RunStore
from .analysis import Margin, compute_comparisons, require_adjustment
from .metrics import build_comparisons
from .pairing import RunPairScores, exclude_rows, failed_without_value, reduce_or_nan
from .types import CompareReport, ComparisonInput, MetricComparison

# --- notes on failures in a comparison: how many there are, and the difference without them --------------------------

_ROUNDING = 1e-9


def signed(value: float) -> str:
    """A difference with its sign."""
    return format_value(value) if value < 0 else f"+{format_value(value or 0.0)}"  # without negative zero


def alternative_differences(one: MetricComparison) -> str | None:
    """The difference without system failures, if it is another, and its bounds if measurements failed."""
    parts = []
    completed = one.delta_completed
    if completed is not None and one.delta is not None and not math.isclose(completed, one.delta, abs_tol=_ROUNDING):
        parts.append(f"{signed(completed)} over the samples that both systems answered")
    if one.bounds is not None:
        low, high = one.bounds
        parts.append(f"with failed measurements at their worst and best: {signed(low)} … {signed(high)}")
    return "; ".join(parts) or None


def missing_note(missing: Sequence[int], names: Sequence[str] = "AB") -> str | None:
    """A note with the number of missing outputs of each run; ``None`` if none is missing."""
    if not any(missing):
        return None
    counts = ", ".join(f"{count} in {name}" for name, count in zip(names, missing, strict=True))
    return f"missing outputs: {counts}; in a comparison they count as failed, at the worst value of a metric"


def empty_answer_notes(
    store: RunStore, run_ids: Sequence[str], metrics: Sequence[MetricComparison | LeaderboardMetric]
) -> list[str]:
    """Notes on runs (named A, B, ...) with many empty answers, if abstention metrics are compared."""
    names = [one.name for one in metrics if one.target == TargetCategory.NEGATIVE_REJECTION.name]
    notes = []
    for label, run_id in zip(run_labels(len(run_ids)), run_ids, strict=True):
        found = next(filter(None, (empty_answers(store.result(run_id, name)) for name in names)), None)
        if found is not None:
            notes.append(f"{label}: {found}; abstention metrics count an empty answer as a refusal")
    return notes


def run_labels(count: int) -> list[str]:
    """The labels of runs in a comparison: A, B, ..., Z, 27, ..."""
    return [chr(ord("A") + place) if place < 26 else str(place + 1) for place in range(count)]


def failure_notes(report: CompareReport) -> list[str]:
    """How many queries failed in each run; empty if none did."""
    counts = {"A": report.aggregate_a, "B": report.aggregate_b}
    if not any(one.failed_queries for one in counts.values()):
        return []
    failed = " and ".join(f"{one.failed_queries} of {one.total_queries} in {run}" for run, one in counts.items())
    lines = [f"failed: {failed}"]
    for run, one in counts.items():
        if one.failed_queries and one.failed_queries == one.total_queries:
            lines.append(f"{run} failed on every sample: these numbers say nothing about its answers")
    return lines


# --- the leaderboard: runs ranked on the samples that all of them have, and every pair compared ----------------------

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

    def adjust_by_tukey(inputs: Sequence[ComparisonInput], pairs: Callable[[int], RunPairScores]) -> Floats:
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
            pairs[0][0].definition.higher_is_better,
            _values([one_input for one_input, _ in pairs], runs),
            tuple(LeaderboardPair(*one_input.runs, comparison) for one_input, comparison in pairs),
        )
        for name, pairs in found.items()
    ]


def _values(inputs: Sequence[ComparisonInput], runs: int) -> tuple[float | None, ...]:
    """Each run's value; a sample on which any run has a failure without a score is left out for all."""
    definition = inputs[0].definition
    read = [(one.runs, one.pair) for one in inputs]
    scores = {runs[0]: pair.first for runs, pair in read} | {runs[1]: pair.second for runs, pair in read}
    stored = {run: value for one in inputs if one.stored for run, value in zip(one.runs, one.stored, strict=True)}
    reducer = definition.reducer
    if reducer is None:
        return tuple(stored.get(run) for run in range(runs))
    excluded = np.logical_or.reduce([failed_without_value(one) for one in scores.values()])
    values = [reduce_or_nan(reducer, exclude_rows(scores[run], excluded)) for run in range(runs)]
    return tuple(None if math.isnan(value) else value for value in values)


def _tukey(
    inputs: Sequence[ComparisonInput],
    pair_scores: Callable[[int], RunPairScores],
    clusters: Clusters | None,
    seed: int,
) -> Floats:
    """P-values of all pairs of each primary metric that is a mean; NaN for others."""
    adjusted = np.full(len(inputs), np.nan)
    for name in dict.fromkeys(one.name for one in inputs if one.primary):
        places = [place for place, one in enumerate(inputs) if one.name == name]
        columns: dict[int, Floats] = {}
        for place in places:
            values = pair_scores(place).values
            columns |= {} if values is None else dict(zip(inputs[place].runs, values, strict=True))
        if any(pair_scores(place).values is None for place in places):
            continue
        table = np.stack([columns[run] for run in sorted(columns)], axis=1)
        complete = ~np.isnan(table).any(axis=1)
        if complete.any():
            p_values = tukey_hsd(table[complete], None if clusters is None else clusters[complete], seed=seed)
            for place in places:
                adjusted[place] = p_values[inputs[place].runs]
    return adjusted
