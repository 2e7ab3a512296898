"""Executors: score batches in this process or in several, or ahead of a judge, with identical results."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor as ProcessPool, Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args, runtime_checkable

from ..core.batch import Batch, check_samples
from ..core.metrics_base import BatchMetric, Metric, apply_failure_policy, is_judged
from ..core.scores import Scores
from ..core.slices import BatchMembership, Slice, batch_membership
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, WorkerError, did_you_mean
from ..options import PositiveInt, check_arguments
from ..runtime.processes import LoopThread, available_processors, gc_paused, prepare_worker, wait_for_result
from ..runtime.signals import hold_signals
from .gold_match import count_gold

if TYPE_CHECKING:
    from ..judge.controls import JudgeControls
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession

# --- sources of batches: small objects that are sent to a worker, which reads the batch itself -----------------------

Rows = tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]


@runtime_checkable
class BatchSource(Protocol):
    """A source of the samples and outputs of a batch, such as a range of a file.

    It is sent to other processes and machines, so it must be small and picklable. Reading it must always give the same
    rows, since a batch whose worker died is read again.
    """

    @property
    def size(self) -> int:
        """The (approximate) number of samples, for progress only."""

    def read(self) -> Rows:
        """The samples and their outputs, aligned."""


@dataclass(frozen=True, slots=True)
class SourcedBatch:
    """A batch that is read from a source, and what to record about its samples."""

    source: BatchSource
    slices: tuple[Slice, ...] = ()
    keep: bool = True
    fields: frozenset[str] = frozenset()
    count_gold: bool = False
    """Whether to count how gold occurs in rankings."""

    def load(self, memory: dict[Hashable, Any] | None = None) -> tuple[Batch, BatchMembership]:
        """Read the batch; the second value is the membership of its samples."""
        samples, outputs = self.source.read()
        check_samples(samples)
        members = batch_membership(samples, self.slices, keep=self.keep, fields=self.fields, outputs=outputs)
        if self.count_gold:
            members = replace(members, gold_sums=count_gold(samples, outputs))
        return Batch(samples, outputs, memory=memory), members


# --- executors of this process and of several processes --------------------------------------------------------------

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
        return cast("AbstractContextManager[Executor]", getattr(import_module(module), name)(address, workers))
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


@check_arguments
def require_workers(workers: PositiveInt | None) -> None:
    """Raise unless this is a valid number of workers; None means one per processor."""


def score_batch(
    batch: Scorable, metrics: Sequence[BatchMetric], memory: dict[Hashable, Any] | None = None
) -> ScoredBatch:
    """Score one batch, which is loaded first if necessary."""
    with gc_paused():
        members = None
        if isinstance(batch, SourcedBatch):
            batch, members = batch.load(memory)
        scores = [apply_failure_policy(metric, batch) for metric in metrics]
    return ScoredBatch(len(batch), scores, batch.notes, members)


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
        self._pool: ProcessPool | None = None
        if self.workers > 1:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            self._pool = ProcessPoolExecutor(
                self.workers - 1,
                mp_context=get_context("spawn"),
                initializer=prepare_worker,
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
        try:
            for batch in batches:
                under_way = sum(not future.done() for future in pending)
                rows = _serialise(batch) if under_way < _PREFETCH * other_workers else None
                if rows is not None:
                    with hold_signals():  # the pool may start a process
                        future = self._pool.submit(_score, job, rows)
                    pending.append(future)
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
        payload = batch if isinstance(batch, SourcedBatch) else (batch.samples, batch.outputs)
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
        raise WorkerError(
            "a scoring process died: out of memory, or the script that called it lacks 'if __name__ == \"__main__\":'; "
            "fewer workers, a smaller batch_size or the serial executor may help"
        ) from error


# In the worker: the metrics of the current evaluation, and the cache shared by its batches.
_jobs: dict[bytes, tuple[list[BatchMetric], dict[Hashable, Any]]] = {}


def _score(job: bytes, rows: bytes) -> ScoredBatch:
    if job not in _jobs:
        _jobs.clear()
        _jobs[job] = pickle.loads(job), {}  # noqa: S301 -- our own metrics, from the process that started this one
    metrics, memory = _jobs[job]
    with gc_paused():
        payload = pickle.loads(rows)  # noqa: S301 -- as above
        batch = payload if isinstance(payload, SourcedBatch) else Batch(*payload, memory=memory)
    return score_batch(batch, metrics, memory)


# --- the executor for judged metrics: judges work several batches ahead ----------------------------------------------

PREFETCH_BATCHES = 2
"""Number of batches judged ahead of the current one."""


class JudgingExecutor:
    """Lets another executor score what needs no judge, while judges score the rest."""

    def __init__(self, executor: Executor, session: JudgeSession) -> None:
        self._executor = executor
        self._session = session
        self.controls: JudgeControls | None = None
        """The control items and their outcomes, where the policy has any; they are asked in the first pass only."""

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch, in order."""
        from ..judge.metric import judge_batch, judged_parts

        parts = [list(judged_parts(metric)) for metric in metrics]
        judged = list(chain.from_iterable(parts))
        if not judged:
            yield from self._executor.score(batches, metrics)
            return
        plain = [metric for metric, some in zip(metrics, parts, strict=True) if not some]
        with LoopThread() as loop:
            judge = loop.run(self._session.__aenter__())
            try:
                waiting: deque[tuple[Batch, Future[None]]] = deque()

                def start_judging() -> Iterator[Scorable]:
                    loaded_batches, controls = self._with_controls(_load(batches), metrics)
                    start = 0
                    for batch, loaded in loaded_batches:
                        work = (
                            judge_batch(loaded, judged, judge)
                            if controls is None
                            else controls.judge(loaded, start, judged, judge)
                        )
                        start += len(loaded)
                        waiting.append((loaded, loop.start(work)))
                        yield batch

                for scored in self._executor.score(_prefetch(start_judging(), PREFETCH_BATCHES), plain):
                    batch, answers = waiting.popleft()
                    wait_for_result(answers)
                    plain_scores = iter(scored.scores)
                    scores = [
                        apply_failure_policy(metric, batch) if some else next(plain_scores)
                        for metric, some in zip(metrics, parts, strict=True)
                    ]
                    yield ScoredBatch(scored.size, scores, {**scored.notes, **batch.notes}, scored.members)
            finally:
                loop.run(self._session.__aexit__(None, None, None))

    def _with_controls(
        self, batches: Iterator[tuple[Scorable, Batch]], metrics: Sequence[BatchMetric]
    ) -> tuple[Iterator[tuple[Scorable, Batch]], JudgeControls | None]:
        """The batches, and the control items to mix into the first of them, if any."""
        count = self._session.policy.controls
        if not count or self.controls is not None:
            return batches, None
        from ..judge.controls import SOURCE_SAMPLES, JudgeControls
        from ..judge.metric import JudgedMetric

        first: list[tuple[Scorable, Batch]] = []
        samples: list[EvaluationSample] = []
        for batch, loaded in batches:
            first.append((batch, loaded))
            samples += loaded.samples
            if len(samples) >= SOURCE_SAMPLES:
                break
        self.controls = JudgeControls(
            [metric for metric in metrics if isinstance(metric, JudgedMetric)], samples, count
        )
        return chain(first, batches), self.controls


def _load(batches: Iterable[Scorable]) -> Iterator[tuple[Scorable, Batch]]:
    """Each batch as given and loaded: judges are called from this process, whatever executor scores the rest."""
    for batch in batches:
        yield batch, batch.load()[0] if isinstance(batch, SourcedBatch) else batch


def with_judges(executor: Executor, metrics: Sequence[Metric], judging: JudgeSession | JudgePolicy | None) -> Executor:
    """The executor, wrapped to call judges if a metric needs one and the executor does not do so itself."""
    judged = any(isinstance(metric, BatchMetric) and is_judged(metric) for metric in metrics)
    if not judged or getattr(executor, "asks_judges", False):
        return executor
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession

    session = judging if isinstance(judging, JudgeSession) else JudgeSession(judging or JudgePolicy())
    return JudgingExecutor(executor, session)


def _prefetch(batches: Iterator[Scorable], ahead: int) -> Iterator[Scorable]:
    """The same batches, each yielded after ``ahead`` further ones have been read."""
    buffer: deque[Scorable] = deque()
    for batch in batches:
        buffer.append(batch)
        if len(buffer) > ahead:
            yield buffer.popleft()
    yield from buffer
