"""Successive elimination: all configurations get the same questions in one random order, and the worse ones leave."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from ..compare.pairing import metric_meta
from ..compare.sweeps import ELIMINATED_TAG, ScoreTable
from ..core.clusters import cluster_ids, cluster_key
from ..core.metrics_base import BatchMetric
from ..core.reduce import Clusters
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import SystemOutputs
from ..runs.gold import read_gold
from ..runs.job import ScoringJob
from ..runs.run import RunCallbacks
from ..runs.scoring import score_run
from ..stats.intervals import Ints
from ..stats.selection import ConfigurationScores, eliminate, look_sizes
from ..store.records import RunStatus, plan_conventions
from ..store.runs import iter_samples
from ..systems.calls import Stop
from .run import Announce, PreparedSweep, SweepOptions, SweepRunner, ignore_line


@dataclass(slots=True, eq=False)
class LookJob(ScoringJob):
    """The scoring of the questions that a run was asked so far; nothing of it is stored."""

    asked: Collection[int] = ()

    def open(self) -> None:
        """Read the samples that were asked."""
        self.samples = list(iter_samples(self.store, self.record.run_id, positions=frozenset(self.asked)))
        ScoringJob.open(self)

    def _read_outputs(self, repeat: int) -> Iterator[SystemOutputs | None]:
        chosen = [position in self.asked for position in range(self.record.num_samples)]
        return compress(ScoringJob._read_outputs(self, repeat), chosen)

    def store_judgements(self) -> AbstractContextManager[None]:
        """The judgements are in the cache; the last scoring stores them."""
        return nullcontext()

    def store_results(self, results: Results) -> None:
        """Store nothing."""


class EliminatingRunner(SweepRunner):
    """Runs a sweep whose configurations may leave."""

    def run_all(self) -> None:
        """Run the configurations look by look."""
        _run_in_looks(self)


def make_runner(
    prepared: PreparedSweep,
    options: SweepOptions,
    *,
    stop: Stop | None = None,
    watcher: RunCallbacks = RunCallbacks(),
    announce: Announce = ignore_line,
) -> SweepRunner:
    """The runner of a sweep, with or without elimination."""
    kind = EliminatingRunner if options.eliminate else SweepRunner
    return kind(prepared, options, stop=stop, watcher=watcher, announce=announce)


def _run_in_looks(runner: SweepRunner) -> None:
    """Ask tenths of the questions, and after each let the configurations leave that are worse than another one.

    It ends when one is left, or when less than half a further one is expected to leave. The rest, and the baseline,
    are asked to the end.
    """
    samples = runner.prepared.samples
    families = [cluster_key(sample) for sample in samples]
    clusters = cluster_ids([sample.sample_id for sample in samples], families)
    units = _random_order(clusters, runner.prepared.plans[0].seed)
    every = list(range(len(runner.prepared.plans)))
    living = list(every)
    for look, size in enumerate(look_sizes(len(units)), start=1):
        if not size:
            continue
        asked = frozenset(np.concatenate(units[:size]).tolist())
        runner.announce(f"look {look}: {len(asked)} of {len(samples)} questions, {len(living)} configurations")
        runner.run_each(living, part=asked)
        if runner.stop.finishing:
            return
        found = _analyse(runner, living, asked, clusters)
        if found is None:
            continue
        outcome = eliminate(found, look=look, total=len(samples), configurations=len(every))
        leaving = [place for place, kept in zip(living, outcome.kept.tolist(), strict=True) if not kept]
        for place in leaving:
            _leave(runner, place, len(asked))
        living = [place for place in living if place not in leaving]
        if len(living) == 1 or outcome.is_futile:
            break
    runner.run_each([place for place in every if place in living or place == runner.sweep.baseline])


def _random_order(clusters: Clusters, seed: int) -> list[Ints]:
    """The positions of the samples of each unit, in a random order of units."""
    names = np.unique(clusters)
    order = np.random.default_rng(seed).permutation(names)
    return [np.flatnonzero(clusters == name) for name in order.tolist()]


def _leave(runner: SweepRunner, place: int, asked: int) -> None:
    """Mark that a configuration left; the baseline is asked to the end all the same."""
    record = runner.records[place]
    runner.store.tag(record.run_id, ELIMINATED_TAG)
    label = runner.sweep.configurations[place].label
    runner.announce(f"{label}: eliminated after {asked} questions")
    if place != runner.sweep.baseline and record.status is not RunStatus.FAILED:
        runner.store.finish(record.run_id, RunStatus.ELIMINATED, message=f"eliminated after {asked}")
    runner.records[place] = runner.store.get(record.run_id)


def _analyse(
    runner: SweepRunner, living: list[int], asked: frozenset[int], clusters: Clusters
) -> ConfigurationScores | None:
    """The scores of the living configurations on what was asked; ``None`` where there are too few."""
    metric = runner.prepared.deciding
    assert isinstance(metric, BatchMetric)
    columns = [_look_scores(runner, place, asked) for place in living]
    table = ScoreTable.of(columns, metric_meta(metric, None), len(asked))
    inside = clusters[np.array(sorted(asked))]
    return table.analyse(inside) if len(np.unique(inside[table.rows])) > 1 else None


def _look_scores(runner: SweepRunner, place: int, asked: frozenset[int]) -> Scores | None:
    """The scores of a configuration on what was asked; ``None`` if its run failed."""
    record, plan = runner.records[place], runner.prepared.plans[place]
    if record.status is RunStatus.FAILED:
        return None
    rules = plan_conventions(record)
    reading = None
    if plan.match == "auto":
        reading = read_gold(runner.store, record, runner.prepared.samples, rules, "auto")
        rules = replace(rules, match=reading.resolved.match)
    job = LookJob(
        runner.store,
        record,
        [runner.prepared.deciding],
        conventions=rules,
        reading=reading,
        options=plan.scoring,
        policy=plan.judge.policy_for(runner.prepared.where, plan.folder),
        secrets=plan.secrets,
        asked=asked,
    )
    scores = score_run(job)[0].scores
    assert isinstance(scores, Scores)
    return scores
