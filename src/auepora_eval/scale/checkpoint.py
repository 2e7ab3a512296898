"""Scoring with a checkpoint folder: units that are already there are read, the others are scored and written."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.errors import AueporaWarning, BadValueError
from ..core.executors import Executor, Scorable, ScoredBatch
from ..core.judged_metric import judged_parts
from ..core.metrics_base import BatchMetric
from ..core.scores import Status
from ..core.sources import SourcedBatch
from .checkpoint_files import PartFacts, merge_batches, read_part, read_part_facts, without_ids, write_part
from .checkpoint_units import part_unit
from .failed_batches import SCORING_FAILED, WORKER_DIED
from .manifest import CheckpointUnit, Manifest

__all__ = ["RETRIED_REASONS", "CheckpointExecutor", "open_checkpoint"]

RETRIED_REASONS = (WORKER_DIED, SCORING_FAILED)
"""Failure reasons that are not due to the sample: such a unit is tried again when the evaluation resumes."""
_Waiting = tuple[CheckpointUnit, list[SourcedBatch], PartFacts | None]


def open_checkpoint(folder: Path, wanted: Manifest) -> Manifest:
    """The manifest of a checkpoint folder: the existing one if it is of the same evaluation, else a new one.

    A folder of another evaluation, or with other files in it, is refused.
    """
    found = Manifest.load(folder) if folder.exists() else None
    if found is not None:
        wanted.require_same(found, folder)
        return found
    if folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
        raise BadValueError(f"{folder} is not a folder of parts; name a new folder, or an empty one")
    folder.mkdir(parents=True, exist_ok=True)
    wanted.save(folder)
    return wanted


class CheckpointExecutor:
    """An executor that reads finished units from a folder, scores the others with another executor, and writes them."""

    asks_judges = True  # by the inner executor, so that units in the folder are not judged again

    def __init__(self, others: Executor, folder: Path, manifest: Manifest, *, by_workers: bool) -> None:
        """With ``by_workers`` the worker writes its unit; else it is written by this process."""
        self._others = others
        self._folder = folder
        self._manifest = manifest
        self._job = manifest.job
        self._lean = False  # whether sample ids are not needed; set by the batches
        self._by_workers = by_workers
        self.read = 0
        """How many samples were read from the folder."""
        self._facts: dict[int, PartFacts] = {}
        self._unjudged = 0

    def existing_checkpoint(self, unit: CheckpointUnit) -> PartFacts | None:
        """The metadata of a unit's part, if it exists and belongs to this job."""
        facts = read_part_facts(self._folder / unit.file)
        if facts is None or facts.job != self._job or facts.unit != unit.number:
            return None
        return facts

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The scores of each unit, in order."""
        names = [one.name for one in metrics]
        waiting: deque[_Waiting] = deque()

        def to_score() -> Iterator[Scorable]:
            for unit, members in self._units(batches):
                facts = self.existing_checkpoint(unit)
                if facts is not None and not facts.given_up:
                    waiting.append((unit, [], facts))
                    continue
                waiting.append((unit, members, None))
                if self._by_workers:
                    yield part_unit(unit, members, names, folder=self._folder, job=self._job, lean=self._lean)
                else:
                    yield from (_keep_ids(one) for one in members)

        scored = iter(self._others.score(to_score(), metrics))
        for first in scored:
            yield from self._read_existing(waiting, names)
            unit, members, _ = waiting.popleft()
            if self._by_workers:
                yield self._write_remote(unit, members, first, metrics)
            else:
                whole = merge_batches([first, *islice(scored, len(members) - 1)])
                yield self._write_local(unit, whole, metrics)
        yield from self._read_existing(waiting, names)
        assert not waiting
        if self._unjudged:
            warnings.warn(
                f"{self._unjudged} samples could not be judged; the same command asks about them again",
                AueporaWarning,
                stacklevel=2,
            )
        self._manifest.save(self._folder, self._facts)

    def _units(self, batches: Iterable[Scorable]) -> Iterator[tuple[CheckpointUnit, list[SourcedBatch]]]:
        drawn = iter(batches)
        for unit in self._manifest.units:
            members = [one for one in islice(drawn, unit.batches) if isinstance(one, SourcedBatch)]
            assert len(members) == unit.batches
            self._lean = not members[0].keep
            yield unit, members

    def _read_existing(self, waiting: deque[_Waiting], names: Sequence[str]) -> Iterator[ScoredBatch]:
        while waiting and waiting[0][2] is not None:
            unit = waiting.popleft()[0]
            part = read_part(self._folder / unit.file)
            self.read += unit.rows
            yield self._emit(unit, part.select_metrics(names), part.facts)

    def _write_remote(
        self, unit: CheckpointUnit, members: list[SourcedBatch], scored: ScoredBatch, metrics: Sequence[BatchMetric]
    ) -> ScoredBatch:
        facts = self.existing_checkpoint(unit)
        if facts is not None and not facts.given_up:
            if _has_given_up(scored):  # the worker died after writing it
                scored = read_part(self._folder / unit.file).select_metrics([one.name for one in metrics])
            return self._emit(unit, scored, facts)
        if _has_given_up(scored):
            # Some batch in it kills its worker. Scored one by one, only that batch is lost.
            scored = merge_batches(list(self._others.score(map(_keep_ids, members), metrics)))
        return self._write_local(unit, scored, metrics)

    def _write_local(self, unit: CheckpointUnit, scored: ScoredBatch, metrics: Sequence[BatchMetric]) -> ScoredBatch:
        gave_up, unjudged = _has_given_up(scored), _count_unjudged(scored, metrics)
        self._unjudged += unjudged
        if gave_up:
            warnings.warn(
                f"{unit.file} has samples whose workers died; the same command scores them again",
                AueporaWarning,
                stacklevel=2,
            )
        facts = write_part(
            self._folder / unit.file,
            scored,
            [one.name for one in metrics],
            job=self._job,
            unit=unit.number,
            first=unit.first,
            given_up=gave_up or unjudged > 0,
        )
        return self._emit(unit, scored, facts)

    def _emit(self, unit: CheckpointUnit, scored: ScoredBatch, facts: PartFacts) -> ScoredBatch:
        if scored.size != unit.rows:
            raise BadValueError(
                f"{unit.file} has {scored.size} samples where {unit.rows} were counted; start again with a new folder"
            )
        self._facts[unit.number] = facts
        return without_ids(scored) if self._lean else scored


def _keep_ids(batch: SourcedBatch) -> SourcedBatch:
    return replace(batch, keep=True)


def _has_given_up(scored: ScoredBatch) -> bool:
    return any(scores.with_reason(reason).any() for scores in scored.scores for reason in RETRIED_REASONS)


def _count_unjudged(scored: ScoredBatch, metrics: Sequence[BatchMetric]) -> int:
    """How many samples a judge did not judge, because it was unreachable or the budget was spent."""
    failed = [
        scores.status == Status.MEASURE_FAILED
        for scores, metric in zip(scored.scores, metrics, strict=True)
        if any(judged_parts(metric))
    ]
    return int(np.logical_or.reduce(failed).sum()) if failed else 0
