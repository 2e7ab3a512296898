"""The pass over ids on the executor's workers: on a cluster many ranges are read in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ..core.errors import AueporaError, WorkerError
from ..core.executors import Executor
from .inputs import RecordRange
from .ray_cluster import cancel_tasks
from .ray_executor import RayExecutor
from .ray_pass import POLL_SECONDS
from .record_index import Mapper
from .records import IdHashes

__all__ = ["make_mapper"]

_AT_ONCE = 8
"""How many ranges are read by one task."""
_AHEAD = 4
"""How many tasks are pending, per processor of the cluster."""


def make_mapper(executor: Executor) -> Mapper:
    """A ``map`` over many ranges: on the workers of a cluster, or else in this process."""
    return partial(_map_on_cluster, executor) if isinstance(executor, RayExecutor) else map


def _map_on_cluster(
    executor: RayExecutor, function: Callable[[RecordRange], IdHashes], runs: Iterable[RecordRange]
) -> Iterator[IdHashes]:
    cluster = executor.start()
    # Reading twice does no harm: Ray itself retries if a worker dies.
    remote = cluster.ray.remote(num_cpus=1)(_call_each)
    workers = min(executor.workers or cluster.processors, cluster.processors)
    # If the whole cluster is used, tasks queue at the workers; else no more are sent than may run.
    most = workers * (_AHEAD if workers == cluster.processors else 1)
    waiting: deque[Any] = deque()
    left = iter(runs)
    try:
        while some := list(islice(left, _AT_ONCE)):
            waiting.append(remote.remote(function, some))
            if len(waiting) >= most:
                yield from _raise_or_yield(_fetch(cluster.ray, waiting.popleft()))
        while waiting:
            yield from _raise_or_yield(_fetch(cluster.ray, waiting.popleft()))
    finally:
        cancel_tasks(cluster.ray, waiting)


def _fetch(ray: Any, reference: Any) -> list[IdHashes | AueporaError]:
    while not ray.wait([reference], timeout=POLL_SECONDS)[0]:
        pass
    try:
        found: list[IdHashes | AueporaError] = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise WorkerError(f"no worker could read the ids of some records: {error}") from error
    return found


def _call_each(
    function: Callable[[RecordRange], IdHashes], runs: Sequence[RecordRange]
) -> list[IdHashes | AueporaError]:
    found: list[IdHashes | AueporaError] = []
    for run in runs:
        try:
            found.append(function(run))
        except AueporaError as error:  # as a value it arrives as it is
            return [*found, error]
    return found


def _raise_or_yield(returned: Sequence[IdHashes | AueporaError]) -> Iterator[IdHashes]:
    for one in returned:
        if isinstance(one, AueporaError):
            raise one
        yield one
