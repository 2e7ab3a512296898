"""Executors: score batches in this process or in several, with identical results."""

from __future__ import annotations

import os
import pickle
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np

from .batch import Batch
from .errors import BadValueError, WorkerError, did_you_mean
from .gc_pause import gc_paused
from .judged_metric import pairs_in_worker
from .metrics_base import BatchMetric
from .scores import Scores
from .scoring import apply_failure_policy
from .shm_transfer import SharedMemoryTransfer, SpilledBytes, load, new_folder_name, possible_folders
from .slices import BatchMembership
from .sources import SourcedBatch
from .transport import pack, unpack
from .worker_processes import prepare_worker

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

__all__ = [
    "Executor",
    "ExecutorName",
    "ProcessExecutor",
    "Scorable",
    "ScoredBatch",
    "SerialExecutor",
    "SourcedBatchGroup",
    "available_processors",
    "make_executor",
    "require_workers",
    "score_batch",
]

ExecutorName = Literal["serial", "processes", "ray"]
Notes = dict[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """The outcomes of a batch under each metric, in the order of the metrics."""

    size: int
    scores: list[Scores]
    notes: Notes = field(default_factory=dict)
    members: BatchMembership | None = None
    """Ids, clusters and slices of the samples, where the worker read them."""


Scorable = Batch | SourcedBatch
"""A batch, or a source to read it from."""


@runtime_checkable
class Executor(Protocol):
    """Scores batches in their order. A batch that is not loaded yet is read by the worker."""

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch."""
        ...


_CLUSTER_EXECUTORS = {"ray": "auepora_eval.scale.ray_executor:RayExecutor"}
"""Executors on a cluster by name. They are in a higher layer and imported only when used."""


def make_executor(
    executor: ExecutorName | Executor, workers: int | None, address: str | None = None
) -> AbstractContextManager[Executor]:
    """A context manager for the executor of that name, closed on exit; an executor object is used as it is.

    ``address`` is that of the cluster, for an executor that uses one.
    """
    if isinstance(executor, str) and executor in _CLUSTER_EXECUTORS:
        module, _, name = _CLUSTER_EXECUTORS[executor].partition(":")
        made: AbstractContextManager[Executor] = getattr(import_module(module), name)(address, workers)
        return made
    if address is not None:
        raise BadValueError(f"address={address!r} goes with executor='ray'")
    if isinstance(executor, str):
        if executor == "serial" and workers in (None, 1):
            return nullcontext(SerialExecutor())
        if executor == "processes":
            return ProcessExecutor(workers)
        if executor != "serial":
            hint = did_you_mean(executor, get_args(ExecutorName))
            raise BadValueError(f"executor must be 'serial', 'processes' or 'ray', not {executor!r}{hint}")
    if workers is not None:
        raise BadValueError(f"workers={workers!r} goes with executor='processes' or 'ray'")
    if not isinstance(executor, Executor):
        raise BadValueError(f"executor must be 'serial', 'processes', 'ray' or an Executor, not {executor!r}")
    return nullcontext(executor)


class SourcedBatchGroup(SourcedBatch, ABC):
    """Several batches that are sent to a worker as one task, and that handle their outcomes there."""

    __slots__ = ()

    @abstractmethod
    def score_all(self, metrics: Sequence[BatchMetric], memory: dict[Hashable, Any] | None) -> ScoredBatch:
        """The outcomes of all its batches."""


def require_workers(workers: int | None) -> None:
    """Raise unless this is a valid number of workers; None means one per processor."""
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise BadValueError(f"workers must be an integer >= 1, not {workers!r}")


def available_processors() -> int:
    """Number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def score_batch(
    batch: Scorable, metrics: Sequence[BatchMetric], memory: dict[Hashable, Any] | None = None
) -> ScoredBatch:
    """Score one batch, which is loaded first if necessary."""
    if isinstance(batch, SourcedBatchGroup):
        return batch.score_all(metrics, memory)
    with gc_paused():
        members, parents = None, None
        if isinstance(batch, SourcedBatch):
            loaded = batch.load(memory)
            batch, members, parents = loaded.batch, loaded.members, loaded.parents
        scores = [apply_failure_policy(metric, batch) for metric in metrics]
        if parents is not None:
            scores = [_pair_with_parents(*one, parents) for one in zip(metrics, scores, strict=True)]
    return ScoredBatch(len(batch), scores, batch.notes, members)


def _pair_with_parents(metric: BatchMetric, scores: Scores, parents: Batch) -> Scores:
    """The outcomes of a batch, paired with those of their parents where the metric scores pairs.

    Warnings about a parent are emitted by the batch it belongs to.
    """
    if not pairs_in_worker(metric):
        return scores
    if not len(parents):
        return metric.pair_samples(scores)
    together = Scores.concat([scores, apply_failure_policy(metric, parents)])
    return metric.pair_samples(together).take(np.arange(len(scores)))


class SerialExecutor:
    """Scores one batch after the other in this process."""

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch."""
        memory: dict[Hashable, Any] = {}
        for batch in batches:
            yield score_batch(batch, metrics, memory)


class ProcessExecutor:
    """Scores in this process and in worker processes, which are reused until the executor is closed.

    Processes are spawned, not forked: a script that uses them needs ``if __name__ == "__main__":``, and its own metrics
    must be importable.
    """

    def __init__(self, workers: int | None = None) -> None:
        """``workers`` includes this process; the default is one per processor."""
        require_workers(workers)
        self.workers = workers or available_processors()
        self._pool: ProcessPoolExecutor | None = None
        self._folder = new_folder_name()
        if self.workers > 1:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._pool = ProcessPoolExecutor(
                self.workers - 1,
                mp_context=get_context("spawn"),
                initializer=prepare_worker,
                initargs=(possible_folders(self._folder),),
            )

    def __enter__(self) -> ProcessExecutor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *problem: object) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self.close(at_once=interrupted)

    def close(self, *, at_once: bool = False) -> None:
        """Stop the processes and drop pending batches; ``at_once`` also terminates running ones."""
        if self._pool is None:
            return
        if at_once:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def start(self) -> None:
        """Start all processes now, rather than with the first evaluation, and import what they need."""
        if self._pool is not None:
            for ready in [self._pool.submit(_warm_up) for _ in range(2 * self.workers)]:
                _result(ready)

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch, in order. Workers are kept busy first; this process scores the rest.

        A batch that is scored here is not serialised, which is a good part of the work.
        """
        if self._pool is None:
            yield from SerialExecutor().score(batches, metrics)
            return
        job = _pickle_metrics(metrics)
        other_workers, memory = self.workers - 1, dict[Hashable, Any]()
        pending: deque[Future[ScoredBatch]] = deque()
        with SharedMemoryTransfer(self._folder) as transfer:
            try:
                for batch in batches:
                    under_way = sum(not future.done() for future in pending)
                    rows = _serialise(batch) if under_way < _PREFETCH * other_workers else None
                    if rows is not None:
                        pending.append(self._pool.submit(_score, job, transfer.dump(rows)))
                    else:
                        done: Future[ScoredBatch] = Future()
                        done.set_result(score_batch(batch, metrics, memory))
                        pending.append(done)
                    while pending and (pending[0].done() or len(pending) > _MAX_PENDING * self.workers):
                        yield _result(pending.popleft())
                while pending:
                    yield _result(pending.popleft())
            finally:
                for future in pending:
                    future.cancel()


_PREFETCH = 2
"""Number of batches queued per process, so that none waits for the next."""
_MAX_PENDING = 16
"""Number of finished batches per process that may wait for an earlier one."""


def _serialise(batch: Scorable) -> bytes | None:
    """The batch, or its source, pickled; None where something cannot be pickled."""
    try:
        payload = batch if isinstance(batch, SourcedBatch) else pack(batch.samples, batch.outputs)
        return pickle.dumps(payload, pickle.HIGHEST_PROTOCOL)
    except Exception:  # objects of the user may raise anything: the batch is scored here
        return None


def _pickle_metrics(metrics: Sequence[BatchMetric]) -> bytes:
    try:
        return pickle.dumps(list(metrics))
    except Exception as error:
        raise WorkerError(
            f"a metric cannot be sent to another process ({error}); define it at the top of a module, or use the "
            "serial executor"
        ) from error


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenExecutor as error:
        raise _worker_died_error() from error


def _worker_died_error() -> WorkerError:
    return WorkerError(
        "a scoring process died: out of memory, or the script that called it lacks 'if __name__ == \"__main__\":'; "
        "fewer workers, a smaller batch_size or the serial executor may help"
    )


# In the worker: the metrics of the current evaluation, and the cache shared by its batches.
_jobs: dict[bytes, tuple[list[BatchMetric], dict[Hashable, Any]]] = {}


def _score(job: bytes, rows: bytes | SpilledBytes) -> ScoredBatch:
    if job not in _jobs:
        _jobs.clear()
        _jobs[job] = pickle.loads(job), {}  # noqa: S301 -- our own metrics, from the process that started this one
    metrics, memory = _jobs[job]
    with gc_paused():
        payload = pickle.loads(load(rows))  # noqa: S301 -- as above
        batch = payload if isinstance(payload, SourcedBatch) else Batch(*unpack(payload), memory=memory)
    return score_batch(batch, metrics, memory)


def _warm_up() -> None:
    import time

    from .registry import metric_infos

    metric_infos()
    time.sleep(0.05)  # long enough that the others take the rest
