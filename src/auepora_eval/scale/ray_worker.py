"""The code that runs on a Ray worker: reads and scores batches, and returns their scores."""

from __future__ import annotations

import pickle
import time
import traceback
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric
from ..engine.executors import BatchFailure, failed_batch, score_batch
from ..errors import AueporaError, WorkerError
from ..runtime.processes import gc_paused


@dataclass(frozen=True, slots=True)
class Job:
    """The metrics of one evaluation: a name, and a reference from which a worker gets them."""

    name: str
    metrics: list[Any]
    """A reference to them, in a list so that Ray resolves it once per worker and not once per task."""


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An exception raised on a worker, in a form that can always be pickled."""

    error: AueporaError | None
    """The exception if it is an ``AueporaError``, which means bad input."""
    text: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> RemoteError:
        """Wrap an exception."""
        trace = "".join(traceback.format_exception(error))
        return cls(error if isinstance(error, AueporaError) else None, f"{type(error).__name__}: {error}", trace)


TaskResult = tuple[float, bytes | RemoteError]
"""The seconds of the task, and the pickled scores of its batch or the error."""

_MOST_JOBS = 2
_jobs: OrderedDict[str, tuple[list[BatchMetric], dict[Hashable, Any]]] = OrderedDict()
"""In the worker: the metrics of the current evaluations, and the memory shared by their batches."""


def run_task(job: Job, failure: BatchFailure | None, item: Any) -> TaskResult:
    """Score a batch, or make the failed scores of one that was given up."""
    begun = time.perf_counter()
    try:
        metrics, memory = _load_job(job)
    except Exception as error:
        text = (
            f"a worker cannot load the metrics ({type(error).__name__}: {error}); the modules that define them must be"
        )
        return 0.0, RemoteError.of(WorkerError(f"{text} installed on all machines"))
    try:
        with gc_paused():
            batch = pickle.loads(item) if isinstance(item, bytes) else Batch(*item, memory=memory)  # noqa: S301 -- from the process that started this task
        scored = score_batch(batch, metrics, memory) if failure is None else failed_batch(batch, metrics, failure)
        return time.perf_counter() - begun, pickle.dumps(scored, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # raised in the process that started the evaluation
        return time.perf_counter() - begun, RemoteError.of(error)


class ModelActor:
    """A Ray actor that loads models once and scores batches with them."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def load(self) -> None:
        """Load the models. Errors are raised by the first batch that needs the model."""
        try:
            for metric in _load_job(self._job)[0]:
                metric.require_ready()
        except Exception:
            return

    def score(self, item: Any) -> TaskResult:
        """The scores of a batch."""
        return run_task(self._job, None, item)


def _load_job(job: Job) -> tuple[list[BatchMetric], dict[Hashable, Any]]:
    if job.name not in _jobs:
        import ray

        _jobs[job.name] = list(ray.get(job.metrics[0])), {}
        while len(_jobs) > _MOST_JOBS:
            _jobs.popitem(last=False)
    return _jobs[job.name]
