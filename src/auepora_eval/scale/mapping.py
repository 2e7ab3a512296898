"""The pass over ids by those who will score: on a cluster many ranges are read at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ..core.errors import AueporaError
from ..core.executors import Executor
from .inputs import Run
from .ray_executor import RayExecutor
from .records import ReadIds
from .sides import Mapper

__all__ = ["mapper_of"]

_AT_ONCE = 8
"""How many ranges are read by one task."""
_AHEAD = 4
"""How many tasks are under way, per processor of the cluster."""


def mapper_of(executor: Executor) -> Mapper:
    """What calls a function for each of many ranges: the workers of a cluster, or else this process."""
    return partial(_on_cluster, executor) if isinstance(executor, RayExecutor) else map


def _on_cluster(executor: RayExecutor, function: Callable[[Run], ReadIds], runs: Iterable[Run]) -> Iterator[ReadIds]:
    cluster = executor.start()
    # Reading twice does no harm: whoever dies of it is replaced by Ray itself.
    remote = cluster.ray.remote(num_cpus=1)(_each)
    most = _AHEAD * max(executor.workers or cluster.processors, 1)
    waiting: deque[Any] = deque()
    left = iter(runs)
    while some := list(islice(left, _AT_ONCE)):
        waiting.append(remote.remote(function, some))
        if len(waiting) >= most:
            yield from _found(cluster.ray.get(waiting.popleft()))
    while waiting:
        yield from _found(cluster.ray.get(waiting.popleft()))


def _each(function: Callable[[Run], ReadIds], runs: Sequence[Run]) -> list[ReadIds | AueporaError]:
    found: list[ReadIds | AueporaError] = []
    for run in runs:
        try:
            found.append(function(run))
        except AueporaError as error:  # as a value it arrives as it is
            return [*found, error]
    return found


def _found(returned: Sequence[ReadIds | AueporaError]) -> Iterator[ReadIds]:
    for one in returned:
        if isinstance(one, AueporaError):
            raise one
        yield one
