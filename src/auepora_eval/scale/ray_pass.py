"""One pass over batches on a Ray cluster: sends tasks, collects results, retries failures or gives up."""

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
"""How many tasks are queued per worker, so that it need not wait for the next."""
_TASK_SECONDS = 0.3
"""The shortest time a task should take, so that sending it costs little: small batches are sent several at a time."""
_MOST_SOURCES, _MOST_BATCHES = 32, 4
"""The most batches of one task: batches that the worker reads, and batches that are sent whole."""
_MAX_PENDING = 4
"""How many tasks' batches may be pending, per worker, while an earlier one is not done."""
POLL_SECONDS = 0.5
"""Seconds between polls. A Ctrl-C that comes just before a thread blocks does not wake it."""
_MAX_CONSECUTIVE_DEATHS = 3
"""After this many batches in a row that kill their actor, the model is at fault and the pool is given up."""


@dataclass(eq=False)
class _MetricGroup:
    """A batch under a group of metrics (with or without models): how it is scored, and its result."""

    job: Job
    places: Sequence[int]
    """The indices of the metrics among all."""
    metrics: Sequence[BatchMetric]
    modelled: bool
    how: BatchMode = "score"
    attempts: int = 0
    failure: BatchFailure | None = None
    result: ScoredBatch | None = None
    error: Exception | None = None


@dataclass(eq=False)
class _PendingBatch:
    """A batch that is not yet scored under all metrics."""

    number: int
    batch: Scorable
    groups: list[_MetricGroup]
    item: Any = None
    """What is sent: a pickled source, or a reference to its rows; None if it cannot be serialised."""

    @property
    def is_done(self) -> bool:
        return all(group.result is not None or group.error is not None for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Task:
    """Batches that one worker scores under the same metrics and in the same mode."""

    pairs: list[tuple[_PendingBatch, _MetricGroup]] = field(default_factory=list)


class RayPass:
    """Sends batches to the cluster, waits for their scores, and yields them in order."""

    def __init__(
        self, cluster: Cluster, metrics: Sequence[BatchMetric], *, workers: int | None, retries: int, models: int | None
    ) -> None:
        self.busy_seconds = 0.0
        self.bytes_returned = 0
        self._ray = cluster.ray
        self._errors = cluster.ray.exceptions
        self._retries = retries
        self._workers = min(workers or cluster.processors, cluster.processors)
        # If the whole cluster is used, tasks queue at the workers; else no more are sent than may run.
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
        self._consecutive_deaths = 0
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
        spare = cluster.processors > count  # or no worker would be left to score the rest
        # If there are more actors than GPUs, several share one; otherwise the last would wait for ever.
        gpu = 1 / -(-count // cluster.gpus) if cluster.gpus else 0.0
        return ModelPool(self._ray, job, count, gpu=gpu, processors=int(spare), retries=self._retries)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def scored(self, batches: Iterator[Scorable]) -> Iterator[ScoredBatch]:
        """The scores, in the order of the batches."""
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
        """Draw batches while there is room for them; return whether there may be more."""
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
            sendable = [(pending, group) for pending in drawn if pending.item is not None for group in pending.groups]
            self._for_models += [pair for pair in sendable if pair[1].modelled]
            plain = [pair for pair in sendable if not pair[1].modelled]
            if plain:
                self._ready.append(_Task(plain))
        return True

    def _at_once(self) -> int:
        """How many batches make a task that takes long enough."""
        if self._seconds_each is None:
            return 1
        return max(1, min(_MOST_SOURCES, round(_TASK_SECONDS / max(self._seconds_each, 1e-4))))

    def _unit(self, batch: Scorable) -> _PendingBatch:
        groups = [
            _MetricGroup(job, places, [self._metrics[place] for place in places], modelled)
            for job, places, modelled in self._kinds
        ]
        pending = _PendingBatch(self._drawn, batch, groups)
        self._drawn += 1
        try:
            if isinstance(batch, SourcedBatch):
                pending.item = self._ray.cloudpickle.dumps(batch)
            else:
                pending.item = self._ray.put(pack(batch.samples, batch.outputs))
        except Exception:  # users' objects may raise anything: they are scored in this process
            for group in groups:
                group.result = score_batch(batch, group.metrics)
        return pending

    def _send(self) -> None:
        if self._pool is not None:
            # A batch whose actor died is retried alone on an actor, so that the cause is known.
            while self._for_models and self._pool.has_room(alone=(alone := self._for_models[0][1].attempts > 0)):
                pending, group = self._for_models.popleft()
                self._pool.submit((pending, group), pending.item, alone=alone)
            if self._pool.unavailable:
                while self._for_models:
                    self._give_up(*self._for_models.popleft(), _NO_MODEL)
        while self._ready and len(self._tasks) < self._most_tasks:
            task = self._ready.popleft()
            first = task.pairs[0][1]
            items = [pending.item for pending, _ in task.pairs]
            self._tasks[self._run.remote(first.job, first.how, first.failure, *items)] = task

    def _await_one(self) -> None:
        waited_for = [*self._tasks, *(self._pool.references() if self._pool is not None else ())]
        ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=POLL_SECONDS)
        for reference in ready:
            if reference in self._tasks:
                self._on_task_done(reference)
            else:
                self._on_model_done(reference)

    def _combine(self, pending: _PendingBatch) -> ScoredBatch:
        scores: list[Scores] = [None] * self._count  # type: ignore[list-item]
        notes: dict[str, tuple[int, str]] = {}
        members, sizes = None, set[int]()
        for group in pending.groups:
            if group.error is not None:
                raise group.error
            assert group.result is not None
            for place, one in zip(group.places, group.result.scores, strict=True):
                scores[place] = one
            notes |= group.result.notes
            members = members or group.result.members
            sizes.add(group.result.size)
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
        for (pending, group), result in zip(pairs, returned[1], strict=True):
            if isinstance(result, RemoteError):
                self._on_error(pending, group, result)
            else:
                self.bytes_returned += len(result)
                group.result = unpack_scores(pickle.loads(result))  # noqa: S301 -- from a worker of ours

    def _on_model_done(self, reference: Any) -> None:
        assert self._pool is not None
        for outcome in self._pool.outcomes(reference):
            pending, group = outcome.task
            if outcome.returned is not None:
                self._consecutive_deaths = 0
                self._take_all([outcome.task], outcome.returned)
            elif outcome.kind == "unavailable":
                self._give_up(pending, group, _NO_MODEL)
            else:
                group.attempts += 1
                if group.attempts > self._retries and outcome.kind == "confirmed":
                    self._consecutive_deaths += 1
                    self._give_up(pending, group, _DIED)
                else:
                    self._retry(pending, group)
        if self._consecutive_deaths >= _MAX_CONSECUTIVE_DEATHS:
            for pending, group in self._pool.abandon():
                self._give_up(pending, group, _DIED)

    def _on_worker_death(self, task: _Task) -> None:
        """Handle the death of a worker: each of its batches is retried in a task of its own."""
        for pending, group in task.pairs:
            group.attempts += 1
            if group.how == "score" and group.attempts > self._retries and len(task.pairs) == 1:
                self._give_up(pending, group, _DIED)
            elif group.how == "only read":
                assert group.failure is not None
                group.result = unreadable_batch(pending.batch, pending.number, group.metrics, group.failure)
            else:
                group.how = "only read" if group.how == "stand in" else group.how
                self._retry(pending, group)

    def _on_error(self, pending: _PendingBatch, group: _MetricGroup, remote_error: RemoteError) -> None:
        if remote_error.error is not None:
            group.error = remote_error.error  # bad input: raised when its turn comes, as the serial executor does
        elif group.how != "score":
            group.error = WorkerError(f"a worker cannot read a batch: {remote_error.text}")
            group.error.add_note(remote_error.trace)
        else:
            group.attempts += 1
            if group.attempts > self._retries:
                self._give_up(
                    pending, group, BatchFailure(SCORING_FAILED, f"not measured: scoring raised {remote_error.text}")
                )
            else:
                self._retry(pending, group)
        self._failing |= group.error is not None

    def _retry(self, pending: _PendingBatch, group: _MetricGroup) -> None:
        """Retry a batch before new ones, since all later results wait for it."""
        if group.modelled and group.how == "score":
            self._for_models.appendleft((pending, group))
        else:
            self._ready.appendleft(_Task([(pending, group)]))

    def _give_up(self, pending: _PendingBatch, group: _MetricGroup, failure: BatchFailure) -> None:
        group.how, group.failure = "stand in", failure
        self._retry(pending, group)


_DIED = BatchFailure(WORKER_DIED, "not measured: every worker that scored these samples died")
_NO_MODEL = BatchFailure(WORKER_DIED, "not measured by the model: every worker that loaded it died")
