"""Executor on a Ray cluster: batches are read and scored by its workers, and their scores are returned in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..core.errors import BadValueError
from ..core.executors import Scorable, ScoredBatch, SerialExecutor, require_workers
from ..core.metrics_base import BatchMetric
from .ray_cluster import Cluster, connect
from .ray_pass import RayPass

__all__ = ["RayExecutor"]


class RayExecutor:
    """The workers of a Ray cluster, used for any number of evaluations until it is closed.

    ``address`` says which cluster (see ``connect``); with none, one is started on this machine. At most ``workers``
    tasks run at a time. A batch whose worker dies, or that raises an unexpected exception, is retried ``retries`` times
    and then given up: its samples become failed measurements, with the reason, and the evaluation continues.

    Metrics that need a model are scored by actors that load it once: one per GPU, or one without; ``models`` says how
    many actors there are instead.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, *, retries: int = 3, models: int | None = None
    ) -> None:
        require_workers(workers)
        for name, value, least in (("retries", retries, 0), ("models", 1 if models is None else models, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadValueError(f"{name} must be an integer >= {least}, not {value!r}")
        self.address, self.workers, self.retries, self.models = address, workers, retries, models
        self.busy_seconds = 0.0
        """The total time that workers spent on batches."""
        self.bytes_returned = 0
        """The size of all results."""
        self._cluster: Cluster | None = None

    def __enter__(self) -> RayExecutor:
        self.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def start(self) -> Cluster:
        """Connect now, rather than with the first evaluation."""
        if self._cluster is None:
            self._cluster = connect(self.address, self.workers)
        return self._cluster

    def close(self) -> None:
        """Disconnect from the cluster; one that was started here is stopped."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The scores of each batch, in order. A bounded number of batches is pending at any time."""
        if not metrics:  # if all metrics are judged there is nothing to send
            yield from SerialExecutor().score(batches, metrics)
            return
        this = RayPass(self.start(), metrics, workers=self.workers, retries=self.retries, models=self.models)
        try:
            yield from this.scored(iter(batches))
        finally:
            self.busy_seconds += this.busy_seconds
            self.bytes_returned += this.bytes_returned
            this.stop()
