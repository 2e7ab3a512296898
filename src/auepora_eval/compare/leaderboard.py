"""Two or more runs compared on all their metrics: values on the common samples, and a comparison of each pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.metrics_base import Metric
from ..core.results import empty_answers
from ..core.types import EvaluationSample, TargetCategory
from ..errors import BadValueError
from ..store.records import RunRecord
from ..store.runs import RunStore
from .analysis import LeaderboardAdjustment, Margin, compute_comparisons, require_adjustment
from .chunks import RunOutputsCache
from .metrics import build_comparisons
from .pairing import exclude_rows, failed_without_value, reduce_or_nan
from .types import CompareReport, ComparisonInput, MetricComparison


@dataclass(frozen=True, slots=True)
class LeaderboardPair:
    """Two runs of a leaderboard, by their indices; the verdict is about the second."""

    first: int
    second: int
    comparison: MetricComparison

    @property
    def better_and_worse(self) -> tuple[int, int] | None:
        """The run that is significantly better, and the other one; ``None`` where neither is."""
        if self.comparison.verdict == "better":
            return self.second, self.first
        return (self.first, self.second) if self.comparison.verdict == "worse" else None


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

    @property
    def wins(self) -> list[tuple[int, int]]:
        """Each pair of runs of which the first is significantly better."""
        return [found for pair in self.pairs if (found := pair.better_and_worse) is not None]

    def unbeaten(self) -> list[int]:
        """The indices of the runs that no other run is significantly better than."""
        beaten = {worse for _, worse in self.wins}
        return [run for run in self.ranking if run not in beaten and self.values[run] is not None]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Two or more runs compared with each other on every metric."""

    run_ids: tuple[str, ...]
    names: tuple[str, ...]
    metrics: list[LeaderboardMetric]
    refused: Mapping[str, str] = field(default_factory=dict)
    """Metrics that cannot be compared, and why."""
    samples: int = 0
    """How many samples all runs have."""
    missing: tuple[int, ...] = ()
    """How many outputs each run lacks, of these samples."""
    notes: tuple[str, ...] = ()
    """Further notes on the runs, which are called A, B, ... in them."""
    only: tuple[int, ...] = ()
    """For each run how many of its samples some other run lacks."""

    @classmethod
    def of_pair(cls, report: CompareReport, names: Sequence[str] | None = None) -> Leaderboard:
        """The leaderboard of two runs that were compared; without ``names`` they are called by their ids."""
        run_ids = report.run_a, report.run_b
        return cls(
            run_ids,
            run_ids if names is None else tuple(names),
            [
                LeaderboardMetric(
                    one.name, one.target, one.higher_is_better, (one.a, one.b), (LeaderboardPair(0, 1, one),)
                )
                for one in report.metrics
            ],
            report.refused,
            max((one.n for one in report.metrics), default=0),
            report.missing,
            tuple(report.notes),
        )

    @property
    def labels(self) -> list[str]:
        """The labels of the runs: A, B, ..., Z, 27, ..."""
        return run_labels(len(self.run_ids))

    @property
    def comparisons(self) -> list[MetricComparison]:
        """The comparison of every metric and pair of runs."""
        return [pair.comparison for metric in self.metrics for pair in metric.pairs]

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


def run_labels(count: int) -> list[str]:
    """The labels of runs in a comparison: A, B, ..., Z, 27, ..."""
    return [chr(ord("A") + place) if place < 26 else str(place + 1) for place in range(count)]


def build_leaderboard(
    store: RunStore,
    records: Sequence[RunRecord],
    *,
    metrics: Sequence[str | Metric] | None = None,
    adjust: LeaderboardAdjustment = "max-t",
    delta: Margin = None,
    primary: Sequence[str] | None = None,
    other_dataset: bool = False,
    seed: int = 0,
    golden: Sequence[EvaluationSample] | None = None,
    answers: RunOutputsCache | None = None,
) -> Leaderboard:
    """Compare every two of several runs on the samples that all of them have. No text of a document is read.

    ``delta`` is the largest difference that does not matter, for all metrics or by name; without it no metric is called
    equal. All pairs of all ``primary`` metrics share one 5 %; by default those that the plan of the last run names,
    else of the one before it, ..., else all. With ``tukey`` the pairs of each metric share 5 %, by randomised Tukey
    HSD; metrics that are not means keep max-T. ``metrics`` selects by name; a metric object also defines a metric that
    is not registered.

    Metrics that compare the ids of chunks are refused if the chunks of the runs differ, by their ``chunker_version``
    or by what is stored. Expected chunks come from the ``golden`` queries, else from the samples of the last run;
    ``answers`` is a cache of outputs that were read before.
    """
    require_adjustment(adjust)
    if len(records) < 2:
        raise BadValueError(f"a leaderboard needs at least two runs, not {len(records)}")
    run_ids = tuple(one.run_id for one in records)
    for run_id in run_ids:
        if run_ids.count(run_id) > 1:
            raise BadValueError(f"{run_id} is named twice; name every run once")
    built = build_comparisons(
        store,
        records,
        metrics=metrics,
        delta=delta,
        primary=primary,
        other_dataset=other_dataset,
        golden=golden,
        answers=answers,
    )
    comparisons = compute_comparisons(built.inputs, built.shared.clusters, adjust=adjust, seed=seed)
    compared = _by_metric(built.inputs, comparisons, len(records))
    return Leaderboard(
        run_ids,
        tuple(one.name for one in records),
        compared,
        built.refused,
        len(built.shared.ids),
        tuple(built.missing),
        tuple(_empty_answer_notes(store, run_ids, compared)),
        tuple(built.shared.only),
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
            (pairs[0][1].a, pairs[0][1].b) if runs == 2 else _values([one_input for one_input, _ in pairs], runs),
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


def _empty_answer_notes(store: RunStore, run_ids: Sequence[str], metrics: Iterable[LeaderboardMetric]) -> list[str]:
    """Notes on runs with many empty answers, if abstention metrics are compared."""
    names = [one.name for one in metrics if one.target == TargetCategory.NEGATIVE_REJECTION.name]
    notes = []
    for label, run_id in zip(run_labels(len(run_ids)), run_ids, strict=True):
        found = next(filter(None, (empty_answers(store.result(run_id, name)) for name in names)), None)
        if found is not None:
            notes.append(f"{label}: {found}; abstention metrics count an empty answer as a refusal")
    return notes


# --- two runs: the comparisons of their metrics by name --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetricComparisons:
    """Every metric that two runs can be compared on, and why not on the others."""

    metrics: list[MetricComparison]
    refused: Mapping[str, str] = field(default_factory=dict)
    """Metrics that cannot be compared, and why."""
    only_in_a: int = 0
    """How many samples only the first run has."""
    only_in_b: int = 0
    missing: tuple[int, int] = (0, 0)
    """How many outputs each run lacks, of the samples that both have."""

    @property
    def by_name(self) -> dict[str, MetricComparison]:
        """The comparisons by the name of their metric."""
        return {one.name: one for one in self.metrics}

    def to_dict(self) -> dict[str, Any]:
        """As the comparison document has them."""
        return {
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
            "missing_outputs": dict(zip("ab", self.missing, strict=True)),
            "metrics": {one.name: one.to_dict() for one in self.metrics},
            "refused": dict(self.refused),
        }


def compare_metrics(store: RunStore, record_a: RunRecord, record_b: RunRecord, **options: Any) -> MetricComparisons:
    """Compare two runs on all metrics that both have, over the samples that both have.

    The options are those of ``build_leaderboard``.
    """
    board = build_leaderboard(store, [record_a, record_b], **options)
    (only_in_a, only_in_b), (missing_a, missing_b) = board.only, board.missing
    return MetricComparisons(board.comparisons, board.refused, only_in_a, only_in_b, (missing_a, missing_b))
