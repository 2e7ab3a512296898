"""Stored sweeps: runs of several configurations on the same questions, from which one is picked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ..core.reduce import Clusters
from ..core.results import Results
from ..core.scores import Scores, Status
from ..errors import BadValueError
from ..stats.intervals import Bools, Floats, Ints, mean_interval
from ..stats.selection import ALPHA, ConfigurationScores
from ..store.records import RunRecord, RunStatus
from ..store.runs import RunStore
from ..store.sweeps import SWEEP, SweepPlan, sweep_of_run, sweep_runs
from .metrics import ComparisonInputs, build_comparisons
from .pairing import MetricMeta

# --- the scores of all configurations on the same questions, as one table --------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Scores with a row per question and a column per configuration; a failed answer has the worst score."""

    values: Floats
    failed: Bools
    rows: Ints
    """The positions of the questions; those without a score in some configuration are left out of all."""
    left_out: int
    definition: MetricMeta
    clusters: Clusters | None
    """Those of the questions of the table."""

    @classmethod
    def of(
        cls, columns: Sequence[Scores | None], definition: MetricMeta, n: int, clusters: Clusters | None = None
    ) -> ScoreTable:
        """The table of the scores on ``n`` questions; ``None`` is a configuration whose run failed."""
        values = np.full((n, len(columns)), definition.worst)
        failed = np.ones((n, len(columns)), dtype=np.bool_)
        known = np.ones(n, dtype=np.bool_)
        for place, scores in enumerate(columns):
            if scores is None:
                continue
            failed[:, place] = scores.status == Status.SYSTEM_FAILED
            counted = np.isfinite(scores.values)
            values[counted, place] = scores.values[counted]
            known &= counted | failed[:, place]
        rows = np.flatnonzero(known)
        inside = None if clusters is None else clusters[rows]
        return cls(values[rows], failed[rows], rows, n - len(rows), definition, clusters=inside)

    @property
    def binary(self) -> bool:
        """Whether all scores are 0 or 1."""
        return bool(np.isin(self.values, (0.0, 1.0)).all())

    @property
    def sign(self) -> float:
        """-1 where a lower score is better."""
        return 1.0 if self.definition.higher_score_is_better else -1.0

    def analyse(self) -> ConfigurationScores:
        """The statistics of all configurations together."""
        low, high = self.definition.range
        return ConfigurationScores(
            self.sign * self.values, clusters=self.clusters, width=high - low, failed=self.failed
        )


@dataclass(frozen=True, eq=False)
class SweepScores:
    """The scores of the deciding metric in the runs of a sweep that finished or failed."""

    sweep: SweepPlan
    places: tuple[int, ...]
    """The places of the configurations, in the order of the columns."""
    table: ScoreTable
    label: str
    """The metric, for display."""
    notes: tuple[str, ...]
    refused: Mapping[int, str]
    """By place why a run that finished cannot be compared with the others."""

    @cached_property
    def found(self) -> ConfigurationScores:
        """The statistics of all configurations together."""
        return self.table.analyse()

    @property
    def rivals(self) -> float:
        """How many times as many rivals each configuration had as are left after an elimination."""
        return (len(self.sweep.configurations) - 1) / max(len(self.places) - 1, 1)

    def interval(self, column: int) -> tuple[float, float] | None:
        """The interval of a mean whose end on the side of chance holds for whichever configuration is the best."""
        table, (lowest, highest) = self.table, self.table.definition.range
        level = 1 - (1 - self.found.level_of_best()) / self.rivals
        interval = partial(
            mean_interval,
            table.values[:, column],
            clusters=table.clusters,
            binary=table.binary,
            lowest=lowest,
            highest=highest,
        )
        plain, wide = interval(level=1 - ALPHA), interval(level=level)
        if plain is None or wide is None:
            return None
        return (wide.low, plain.high) if self.table.sign > 0 else (plain.low, wide.high)


def read_sweep_scores(store: RunStore, sweep: SweepPlan, runs: Sequence[RunRecord | None]) -> SweepScores | None:
    """The scores of a sweep, given its runs by configuration; ``None`` if none of them finished."""
    stored = {place: run for place, run in enumerate(runs) if run is not None}
    finished = {place: run for place, run in stored.items() if run.status is RunStatus.FINISHED}
    failed = [place for place, run in stored.items() if run.status is RunStatus.FAILED]
    if not finished:
        return None
    refused: dict[int, str] = {}
    built = _compare_all(store, sweep, finished.values())
    if isinstance(built, str):
        refused = _refusals(store, sweep, finished)
        finished = {place: run for place, run in finished.items() if place not in refused}
        problem, built = built, _compare_all(store, sweep, finished.values())
        if isinstance(built, str):
            raise BadValueError(f"'{sweep.decide}' cannot decide the sweep {sweep.name}: {problem}")
    pairs = {given.runs: given.pair for given in built.inputs}
    columns: list[Scores | None] = [pairs[0, 1].first]
    columns += [pairs[0, place].second for place in range(1, len(finished))]
    columns += [None] * len(failed)
    table = ScoreTable.of(columns, pairs[0, 1].definition, len(built.shared.ids), built.shared.clusters)
    notes = dict.fromkeys([*built.inputs[0].notes, *built.notes])
    label = built.labels.get(sweep.decide, sweep.decide)
    return SweepScores(sweep, (*finished, *failed), table, label, notes=tuple(notes), refused=refused)


def _compare_all(store: RunStore, sweep: SweepPlan, runs: Iterable[RunRecord]) -> ComparisonInputs | str:
    """The deciding metric in all of these runs, or why it cannot be compared."""
    records = list(runs)
    compared = records * 2 if len(records) == 1 else records
    try:
        built = build_comparisons(
            store, compared, metrics=[sweep.decide], delta=None, primary=[sweep.decide], other_dataset=False
        )
    except BadValueError as error:
        return str(error)
    return built.refused.get(sweep.decide, built)


def _refusals(store: RunStore, sweep: SweepPlan, finished: Mapping[int, RunRecord]) -> dict[int, str]:
    """Why runs cannot be compared with the baseline, or with the first run that has the metric, by place."""
    found: dict[int, str] = {}
    first: list[RunRecord] = []
    order = [place for place in (sweep.baseline, *finished) if place is not None and place in finished]
    for place in dict.fromkeys(order):
        built = _compare_all(store, sweep, [*first, finished[place]])
        if isinstance(built, str):
            found[place] = built
        else:
            first = first or [finished[place]]
    return found


# --- a comparison with a run that was picked: all configurations that it was picked among share its error rate -------


@dataclass(frozen=True, slots=True)
class PickedRun:
    """One of the runs of a comparison, which is one of several configurations on the same questions."""

    place: int
    """The place of the run in the comparison."""
    sweep: SweepPlan
    others: tuple[RunRecord, ...]
    """The runs of the other configurations that have results."""

    def note(self, label: str) -> str:
        """Where the run was picked, and what follows."""
        return (
            f"{label}: {picked_text(self.sweep)}; its verdicts are adjusted for all of them, and on another dataset "
            "they need not be"
        )


def picked_text(sweep: SweepPlan) -> str:
    """Where a run of a sweep was picked."""
    return f"picked among {len(sweep.configurations)} configurations on these questions (sweep {sweep.name})"


def sweep_text(record: RunRecord) -> str | None:
    """What a run is in its sweep; ``None`` if it is not of one."""
    sweep = sweep_of_run(record)
    if sweep is None:
        return None
    if record.plan[SWEEP]["place"] == sweep.baseline:
        return f"the baseline of {len(sweep.configurations)} configurations (sweep {sweep.name})"
    return picked_text(sweep)


def picked_runs(store: RunStore, records: Sequence[RunRecord]) -> list[PickedRun]:
    """Those of the compared runs that were picked in a sweep; a baseline that was named before it was not picked."""
    compared = {record.run_id for record in records}
    found: list[PickedRun] = []
    for place, record in enumerate(records):
        sweep = sweep_of_run(record)
        is_one_dataset = all(other.fingerprint == record.fingerprint for other in records)
        if sweep is None or record.plan[SWEEP]["place"] == sweep.baseline or not is_one_dataset:
            continue
        finished = [run for run in sweep_runs(store, sweep) if run is not None and run.status is RunStatus.FINISHED]
        found.append(PickedRun(place, sweep, tuple(run for run in finished if run.run_id not in compared)))
    return found


def with_picked_interval(store: RunStore, record: RunRecord, results: Results) -> Results:
    """The results of a run that was picked in a sweep, with an interval of the deciding metric that allows for it."""
    sweep = sweep_of_run(record)
    if sweep is None or record.plan[SWEEP]["place"] == sweep.baseline or sweep.decide not in results.by_name:
        return results
    scores = read_sweep_scores(store, sweep, sweep_runs(store, sweep))
    place = record.plan[SWEEP]["place"]
    if scores is None or place not in scores.places:
        return results
    changed = copy(results)
    for number, result in enumerate(results):
        if result.name == sweep.decide:
            details = {**result.details, "picked": picked_text(sweep)}
            interval = scores.interval(scores.places.index(place))
            changed[number] = replace(result, interval=interval, details=details)
    return changed
