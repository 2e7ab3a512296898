"""The code that runs on a Ray worker: reads and scores batches, and returns their scores as packed columns."""

from __future__ import annotations

import pickle
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch, unpack
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..engine.executors import BatchFailure, ScoredBatch, failed_batch, score_batch
from ..errors import AueporaError, WorkerError
from ..runtime.processes import disable_malloc_trim, gc_paused

BatchMode = Literal["score", "stand in", "only read"]
"""Whether a batch is scored, or was given up: then metrics give the shape of a failed batch, or it is only read."""


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


BatchResults = tuple[float, list[bytes | RemoteError]]
"""The seconds of the task, and the packed scores or the error of each batch."""

_MOST_JOBS = 2
_jobs: OrderedDict[str, tuple[list[BatchMetric], dict[Hashable, Any]]] = OrderedDict()
"""In the worker: the metrics of the current evaluations, and the memory shared by their batches."""


def run_batches(job: Job, how: BatchMode, failure: BatchFailure | None, *items: Any) -> BatchResults:
    """Score some batches, or make the failed scores of batches that were given up."""
    begun = time.perf_counter()
    try:
        metrics, memory = _load_job(job)
    except Exception as error:
        return 0.0, [_load_error(error) for _ in items]

    def outcome(item: Any) -> ScoredBatch:
        with gc_paused():
            sent = pickle.loads(item) if isinstance(item, bytes) else Batch(*unpack(item), memory=memory)  # noqa: S301 -- from the process that started this task
        if failure is None:
            return score_batch(sent, metrics, memory)
        return failed_batch(sent, metrics, failure, ask_metrics=how == "stand in")

    results = [_run_or_error(outcome, item) for item in items]
    return time.perf_counter() - begun, results


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

    def score(self, item: Any) -> BatchResults:
        """The scores of a batch."""
        return run_batches(self._job, "score", None, item)


def _load_job(job: Job) -> tuple[list[BatchMetric], dict[Hashable, Any]]:
    if job.name not in _jobs:
        import ray

        if not _jobs:
            disable_malloc_trim()
        _jobs[job.name] = list(ray.get(job.metrics[0])), {}
        while len(_jobs) > _MOST_JOBS:
            _jobs.popitem(last=False)
    return _jobs[job.name]


def _load_error(error: Exception) -> RemoteError:
    return RemoteError.of(
        WorkerError(
            f"a worker cannot load the metrics ({type(error).__name__}: {error}); the modules that define them must be "
            "installed on all machines"
        )
    )


def _run_or_error(outcome: Callable[[Any], ScoredBatch], item: Any) -> bytes | RemoteError:
    try:
        return pickle.dumps(pack_scores(outcome(item)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # raised in the process that started the evaluation
        return RemoteError.of(error)


def pack_scores(scored: ScoredBatch) -> tuple[Any, ...]:
    """The scores of a batch packed without loss."""
    return scored.size, [_pack_columns(one) for one in scored.scores], scored.notes, scored.members


def unpack_scores(columns: Sequence[Any]) -> ScoredBatch:
    """The scores of a packed batch."""
    size, scores, notes, members = columns
    return ScoredBatch(size, [_unpack_columns(size, one) for one in scores], notes, members)


def _pack_columns(scores: Scores) -> tuple[Any, ...]:
    return (
        _narrow(scores.values),
        scores.status if scores.status.any() else None,
        scores.reason_codes if scores.reason_codes.any() else None,
        scores.reason_names,
        None if scores.stats is None else _narrow(scores.stats),
        scores.keys,
        None if scores.repeats is None else [_pack_columns(one) for one in scores.repeats],
    )


def _unpack_columns(size: int, columns: Sequence[Any]) -> Scores:
    values, status, codes, names, stats, keys, repeats = columns
    return Scores(
        values.astype(np.float64),
        np.zeros(size, dtype=np.uint8) if status is None else status,
        np.zeros(size, dtype=np.int16) if codes is None else codes,
        names,
        None if stats is None else stats.astype(np.float64),
        keys,
        None if repeats is None else tuple(_unpack_columns(size, one) for one in repeats),
    )


def _narrow(column: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """The numbers as uint8 or float32 if that loses no bit."""
    column = np.ascontiguousarray(column)
    with np.errstate(all="ignore"):
        for kind in (np.uint8, np.float32):
            narrow = column.astype(kind)
            if np.array_equal(narrow.astype(np.float64).view(np.int64), column.view(np.int64)):
                return narrow
    return column
