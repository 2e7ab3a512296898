"""One pass over batches on a Ray cluster: what is under way, what came back, what is tried again or given up."""

from __future__ import annotations

import pickle
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import WorkerError
from ..core.executors import Scorable, ScoredBatch, score_batch
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..core.sources import SourcedBatch
from ..core.transport import pack
from .failed_batches import SCORING_FAILED, WORKER_DIED, BatchFailure, unreadable_batch
from .ray_actors import ModelPool
from .ray_cluster import Cluster, cancel_tasks
from .ray_worker import BatchMode, BatchResults, Job, RemoteError, run_batches, unpack_scores

__all__ = ["RayPass"]

_PREFETCH = 2
"""How many tasks each worker has before it, so that it need not wait for the next."""
_TASK_SECONDS = 0.3
"""So long a task shall take at least, so that sending it costs next to nothing: small batches go several at a time."""
_MOST_SOURCES, _MOST_BATCHES = 32, 4
"""How many batches a task has at most: of such as are read there, and of such as travel whole."""
_MAX_PENDING = 4
"""How many tasks' batches may be drawn, per worker, while an earlier one is not done."""
POLL_SECONDS = 0.5
"""Seconds after which who waits looks up. A Ctrl-C that comes just before a thread blocks does not wake it."""
_MAX_CONSECUTIVE_DEATHS = 3
"""So many batches one after the other that kill whoever asks a model about them mean that it is the model."""


@dataclass(eq=False)
class _MetricGroup:
    """A batch under some of the metrics: how it is scored, and what came of it."""

    job: Job
    places: Sequence[int]
    """Where the metrics stand among all."""
    metrics: Sequence[BatchMetric]
    modelled: bool
    how: BatchMode = "score"
    attempts: int = 0
    failure: BatchFailure | None = None
    result: ScoredBatch | None = None
    error: Exception | None = None


@dataclass(eq=False)
class _PendingBatch:
    """A batch on its way."""

    number: int
    batch: Scorable
    groups: list[_MetricGroup]
    item: Any = None
    """What is sent: where to read it, as bytes, or a reference to its rows; None where it cannot leave this process."""

    @property
    def is_done(self) -> bool:
        return all(side.result is not None or side.error is not None for side in self.groups)


@dataclass(frozen=True, slots=True)
class _Task:
    """Some batches that one worker scores, under the same metrics and in the same way."""

    pairs: list[tuple[_PendingBatch, _MetricGroup]] = field(default_factory=list)


class RayPass:
    """Sends batches, waits for outcomes, and hands them out in order."""

    def __init__(
        self, cluster: Cluster, metrics: Sequence[BatchMetric], *, workers: int | None, retries: int, models: int | None
    ) -> None:
        self.busy_seconds = 0.0
        self.bytes_returned = 0
        self._ray = cluster.ray
        self._errors = cluster.ray.exceptions
        self._retries = retries
        self._workers = min(workers or cluster.processors, cluster.processors)
        # Where all of the cluster is used, tasks wait at the workers; else no more are sent than shall run.
        self._most_tasks = self._workers * (_PREFETCH if self._workers == cluster.processors else 1)
        self._count = len(metrics)
        self._kinds = [
            (self._job([metrics[place] for place in places]), places, modelled)
            for modelled in (False, True)
            if (places := [place for place, one in enumerate(metrics) if one.asks_models is modelled])
        ]
        self._metrics = metrics
        self._run = self._ray.remote(num_cpus=1, max_retries=0)(run_batches)
        self._units: deque[_PendingBatch] = deque()
        self._tasks: dict[Any, _Task] = {}
        self._ready: deque[_Task] = deque()
        self._for_models: deque[tuple[_PendingBatch, _MetricGroup]] = deque()
        self._seconds_each: float | None = None
        self._drawn = 0
        self._failing = False
        self._killers = 0
        self._pool: ModelPool | None = None
        for job, _, modelled in self._kinds:
            if modelled:
                self._pool = self._pool_of(cluster, job, models)

    def _job(self, metrics: list[BatchMetric]) -> Job:
        try:
            return Job(uuid.uuid4().hex, [self._ray.put(metrics)])
        except Exception as error:
            raise WorkerError(f"a metric cannot be sent to a worker ({error}); use the serial executor") from error

    def _pool_of(self, cluster: Cluster, job: Job, models: int | None) -> ModelPool:
        count = models or max(cluster.gpus, 1)
        spare = cluster.processors > count  # or nobody would be left to score the rest
        # Where there are more than GPUs, several share one: who waits for one of its own would wait for ever.
        gpu = 1 / -(-count // cluster.gpus) if cluster.gpus else 0.0
        return ModelPool(self._ray, job, count, gpu=gpu, processors=int(spare), retries=self._retries)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def scored(self, batches: Iterator[Scorable]) -> Iterator[ScoredBatch]:
        """The outcomes, in the order of the batches."""
        more = True
        while more or self._units:
            more = more and not self._failing and self._draw(batches)
            self._send()
            while self._units and self._units[0].is_done:
                yield self._combine(self._units.popleft())
            if self._units:
                self._await_one()

    def stop(self) -> None:
        """Leave nothing running."""
        cancel_tasks(self._ray, self._tasks)
        if self._pool is not None:
            with suppress(Exception):
                self._pool.close()

    def _draw(self, batches: Iterator[Scorable]) -> bool:
        """Draw batches while there is room for them; whether there may be more."""
        while len(self._tasks) + len(self._ready) < self._most_tasks:
            at_once = self._at_once()
            if len(self._units) >= _MAX_PENDING * self._workers * at_once:
                break
            drawn: list[_PendingBatch] = []
            for batch in batches:
                drawn.append(self._unit(batch))
                if len(drawn) >= (at_once if isinstance(batch, SourcedBatch) else min(at_once, _MOST_BATCHES)):
                    break
            if not drawn:
                return False
            self._units += drawn
            travelling = [(unit, side) for unit in drawn if unit.item is not None for side in unit.groups]
            self._for_models += [pair for pair in travelling if pair[1].modelled]
            plain = [pair for pair in travelling if not pair[1].modelled]
            if plain:
                self._ready.append(_Task(plain))
        return True

    def _at_once(self) -> int:
        """How many batches make a task that is worth its way."""
        if self._seconds_each is None:
            return 1
        return max(1, min(_MOST_SOURCES, round(_TASK_SECONDS / max(self._seconds_each, 1e-4))))

    def _unit(self, batch: Scorable) -> _PendingBatch:
        sides = [
            _MetricGroup(job, places, [self._metrics[place] for place in places], modelled)
            for job, places, modelled in self._kinds
        ]
        unit = _PendingBatch(self._drawn, batch, sides)
        self._drawn += 1
        try:
            if isinstance(batch, SourcedBatch):
                unit.item = self._ray.cloudpickle.dumps(batch)
            else:
                unit.item = self._ray.put(pack(batch.samples, batch.outputs))
        except Exception:  # whatever the user's own objects raise: they are scored here
            for side in sides:
                side.result = score_batch(batch, side.metrics)
        return unit

    def _send(self) -> None:
        if self._pool is not None:
            # What an actor died with once is an actor's only one from then on, so that it is known who is to blame.
            while self._for_models and self._pool.has_room(alone=(alone := self._for_models[0][1].attempts > 0)):
                unit, side = self._for_models.popleft()
                self._pool.submit((unit, side), unit.item, alone=alone)
            if self._pool.unavailable:
                while self._for_models:
                    self._give_up(*self._for_models.popleft(), _NO_MODEL)
        while self._ready and len(self._tasks) < self._most_tasks:
            task = self._ready.popleft()
            first = task.pairs[0][1]
            items = [unit.item for unit, _ in task.pairs]
            self._tasks[self._run.remote(first.job, first.how, first.failure, *items)] = task

    def _await_one(self) -> None:
        waited_for = [*self._tasks, *(self._pool.references() if self._pool is not None else ())]
        ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=POLL_SECONDS)
        for reference in ready:
            if reference in self._tasks:
                self._on_task_done(reference)
            else:
                self._on_model_done(reference)

    def _combine(self, unit: _PendingBatch) -> ScoredBatch:
        scores: list[Scores] = [None] * self._count  # type: ignore[list-item]
        notes: dict[str, tuple[int, str]] = {}
        members, sizes = None, set[int]()
        for side in unit.groups:
            if side.error is not None:
                raise side.error
            assert side.result is not None
            for place, one in zip(side.places, side.result.scores, strict=True):
                scores[place] = one
            notes |= side.result.notes
            members = members or side.result.members
            sizes.add(side.result.size)
        if len(sizes) > 1:
            raise WorkerError(f"a batch had {min(sizes)} samples when read once, and {max(sizes)} when read again")
        return ScoredBatch(sizes.pop(), scores, notes, members)

    # --- what came back ----------------------------------------------------------------------------------------------

    def _on_task_done(self, reference: Any) -> None:
        task = self._tasks.pop(reference)
        try:
            returned: BatchResults = self._ray.get(reference)
        except (self._errors.RayTaskError, self._errors.TaskUnschedulableError) as error:
            raise WorkerError(f"a worker cannot do its work: {error}") from error
        except self._errors.LocalRayletDiedError as error:
            raise WorkerError("the Ray cluster is gone: the process that stands for this machine in it died") from error
        except self._errors.RayError:
            self._on_worker_death(task)
            return
        seconds, results = returned
        if task.pairs[0][1].how == "score":
            each, before = seconds / len(results), self._seconds_each
            self._seconds_each = each if before is None else 0.7 * before + 0.3 * each
        self._take_all(task.pairs, returned)

    def _take_all(self, pairs: Sequence[tuple[_PendingBatch, _MetricGroup]], returned: BatchResults) -> None:
        self.busy_seconds += returned[0]
        for (unit, side), result in zip(pairs, returned[1], strict=True):
            if isinstance(result, RemoteError):
                self._on_error(unit, side, result)
            else:
                self.bytes_returned += len(result)
                side.result = unpack_scores(pickle.loads(result))  # noqa: S301 -- from a worker of ours

    def _on_model_done(self, reference: Any) -> None:
        assert self._pool is not None
        for verdict in self._pool.outcomes(reference):
            unit, side = verdict.given
            if verdict.returned is not None:
                self._killers = 0
                self._take_all([verdict.given], verdict.returned)
            elif verdict.kind == "hopeless":
                self._give_up(unit, side, _NO_MODEL)
            else:
                side.attempts += 1
                if side.attempts > self._retries and verdict.kind == "blamed":
                    self._killers += 1
                    self._give_up(unit, side, _DIED)
                else:
                    self._retry(unit, side)
        if self._killers >= _MAX_CONSECUTIVE_DEATHS:
            for unit, side in self._pool.abandon():
                self._give_up(unit, side, _DIED)

    def _on_worker_death(self, task: _Task) -> None:
        """A worker died of one of these, or was killed; each is tried by itself from now on."""
        for unit, side in task.pairs:
            side.attempts += 1
            if side.how == "score" and side.attempts > self._retries and len(task.pairs) == 1:
                self._give_up(unit, side, _DIED)
            elif side.how == "only read":
                assert side.failure is not None
                side.result = unreadable_batch(unit.batch, unit.number, side.metrics, side.failure)
            else:
                side.how = "only read" if side.how == "stand in" else side.how
                self._retry(unit, side)

    def _on_error(self, unit: _PendingBatch, side: _MetricGroup, raised: RemoteError) -> None:
        if raised.error is not None:
            side.error = raised.error  # something is wrong with what was given: told when its turn comes, as in serial
        elif side.how != "score":
            side.error = WorkerError(f"a worker cannot read a batch: {raised.text}")
            side.error.add_note(raised.trace)
        else:
            side.attempts += 1
            if side.attempts > self._retries:
                self._give_up(unit, side, BatchFailure(SCORING_FAILED, f"not measured: scoring raised {raised.text}"))
            else:
                self._retry(unit, side)
        self._failing |= side.error is not None

    def _retry(self, unit: _PendingBatch, side: _MetricGroup) -> None:
        """Before what is new, since everybody waits for it."""
        if side.modelled and side.how == "score":
            self._for_models.appendleft((unit, side))
        else:
            self._ready.appendleft(_Task([(unit, side)]))

    def _give_up(self, unit: _PendingBatch, side: _MetricGroup, lost: BatchFailure) -> None:
        side.how, side.failure = "stand in", lost
        self._retry(unit, side)


_DIED = BatchFailure(WORKER_DIED, "not measured: every worker that scored these samples died")
_NO_MODEL = BatchFailure(WORKER_DIED, "not measured by the model: every worker that loaded it died")
