"""Executor on a Ray cluster: connection, actors, and one pass over batches."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import uuid
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from .._version import __version__
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..engine.executors import (
    SCORING_FAILED,
    WORKER_DIED,
    BatchFailure,
    Scorable,
    ScoredBatch,
    SerialExecutor,
    SourcedBatch,
    available_processors,
    require_workers,
    score_batch,
    unreadable_batch,
)
from ..errors import AueporaWarning, BadTypeError, MissingDependencyError, WorkerError
from ..options import NonNegativeInt, PositiveInt, check_arguments
from .ray_worker import BatchMode, BatchResults, Job, ModelActor, RemoteError, run_batches

# --- actors that load models once and score batches; an actor that dies is replaced, up to a limit -------------------

_AHEAD = 2
"""How many batches an actor has before it, so that it need not wait for the next."""
_PARTING = 5.0
_Kind = Literal["returned", "suspected", "confirmed", "unavailable"]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a batch that was submitted to an actor."""

    task: Any
    kind: _Kind
    """``returned``: it has results. ``suspected``: its actor died with several batches. ``confirmed``: its actor died
    with this batch alone. ``unavailable``: no actor can be started."""
    returned: BatchResults | None = None


@dataclass(eq=False)
class _ActorHandle:
    """An actor and the batches submitted to it."""

    actor: Any
    loading: Any
    """A reference to the loading of the models; None once they are loaded. Batches are submitted only then."""
    tasks: dict[Any, Any] = field(default_factory=dict)
    """The tasks by the reference to their result, in the order of submission."""
    reserved: bool = False
    """Whether the last submitted batch must be its only one."""

    def can_take(self, *, alone: bool) -> bool:
        """Whether another batch may be submitted to it."""
        may_queue = not (alone or self.reserved) and len(self.tasks) < _AHEAD
        return self.loading is None and (not self.tasks or may_queue)


class ModelPool:
    """A pool of actors with loaded models: one per GPU, or one if there is no GPU."""

    def __init__(self, ray: Any, job: Job, count: int, *, gpu: float, processors: int, retries: int) -> None:
        """For each actor, ``processors`` and this fraction of a ``gpu`` are reserved.

        Actors that die while loading are replaced ``retries`` times in total.
        """
        self._ray = ray
        self._job = job
        self._retries = retries
        self._kind = ray.remote(ModelActor).options(
            num_cpus=processors, num_gpus=gpu, max_restarts=0, max_task_retries=0
        )
        self._died_loading = 0
        self.unavailable = False
        """Whether no actor survives loading the models, after all retries."""
        self._handles = [self._spawn() for _ in range(count)]

    def _spawn(self) -> _ActorHandle:
        actor = self._kind.remote(self._job)
        return _ActorHandle(actor, actor.load.remote())

    def has_room(self, *, alone: bool) -> bool:
        """Whether another batch may be submitted; with ``alone``, to an actor that has no other."""
        return any(one.can_take(alone=alone) for one in self._handles)

    def submit(self, task: Any, item: Any, *, alone: bool) -> None:
        """Submit a batch to the least busy actor; ``task`` is returned with its outcome."""
        handle = min((one for one in self._handles if one.can_take(alone=alone)), key=lambda one: len(one.tasks))
        handle.tasks[handle.actor.score.remote(item)] = task
        handle.reserved = alone

    def references(self) -> Iterator[Any]:
        """The references that are still pending."""
        for handle in self._handles:
            if handle.loading is not None:
                yield handle.loading
            yield from handle.tasks

    def outcomes(self, reference: Any) -> list[TaskOutcome]:
        """The outcome of a finished reference, and of the other batches of its actor if that died."""
        handle = next(one for one in self._handles if reference == one.loading or reference in one.tasks)
        try:
            returned: BatchResults = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            return self._reap(handle)
        if reference == handle.loading:
            handle.loading = None
            return []
        return [TaskOutcome(handle.tasks.pop(reference), "returned", returned)]

    def _reap(self, handle: _ActorHandle) -> list[TaskOutcome]:
        self._handles.remove(handle)
        outcomes, lost_tasks = [], []
        for reference, unit in handle.tasks.items():
            try:
                outcomes.append(TaskOutcome(unit, "returned", self._ray.get(reference, timeout=_PARTING)))
            except self._ray.exceptions.RayError:
                lost_tasks.append(unit)
        self._ray.kill(handle.actor)  # it may only be out of reach
        self._died_loading += handle.loading is not None
        if self._died_loading <= self._retries:
            self._handles.append(self._spawn())
        self.unavailable = not self._handles
        # The first batch need not be the cause: results that were not yet sent are lost as well.
        kind: _Kind = "unavailable" if self.unavailable else "suspected" if len(lost_tasks) > 1 else "confirmed"
        return outcomes + [TaskOutcome(unit, kind) for unit in lost_tasks]

    def abandon(self) -> list[Any]:
        """Stop the pool; return the pending tasks."""
        left = [task for handle in self._handles for task in handle.tasks.values()]
        self.close()
        self.unavailable = True
        return left

    def close(self) -> None:
        """Kill all actors."""
        for handle in self._handles:
            self._ray.kill(handle.actor)
        self._handles.clear()


# --- the cluster: an existing one, or a temporary one on this machine ------------------------------------------------

LOCAL, AUTO, CLIENT = "local", "auto", "ray://"
_STORE_BYTES = 512 << 20
"""The object store of a local cluster: a window of batches, whatever the size of the data."""
_CLIENT_PORT = 10001
_CONNECT_TIMEOUT = 10.0
"""Seconds within which a connection must be accepted."""
_CANCEL_GRACE = 2.0
"""Seconds that tasks have to finish before they are cancelled."""


def import_ray() -> Any:
    """Import Ray without its usage reports; an error with the extra to install if it is missing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which it would else warn about
    # The death of a worker is reported with its batch; Ray would print it on standard output.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed while executing a task")
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError("ray", purpose="executor 'ray'", install="'auepora-eval[ray]'") from error
    return ray


@dataclass
class _SharedConnection:
    """The connection that this module made for the process: there can be only one, shared by all users."""

    address: str | None = None
    users: int = 0


_connection = _SharedConnection()


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that this process is connected to, and its resources."""

    ray: Any
    processors: int
    gpus: int
    is_owned: bool
    """Whether the connection was made by this module, and is closed by its last user."""

    def close(self) -> None:
        """Disconnect; a cluster that was started here is stopped, any other keeps running."""
        if self.is_owned and _connection.users:
            _connection.users -= 1
            if not _connection.users:
                self.ray.shutdown()


def connect(address: str | None = None, workers: int | None = None) -> Cluster:
    """Connect to the cluster at this address.

    ``auto`` is one that runs on this machine, ``ray://host:port`` and ``host:port`` say where it is, ``local`` starts
    one here, with ``workers`` processors. With no address the connection that this process has is used, else what
    ``RAY_ADDRESS`` names, else one is started here.
    """
    if address is not None and (not isinstance(address, str) or not address.strip()):
        raise BadTypeError(f"address must be 'auto', 'local', 'ray://host:port' or 'host:port', not {address!r}")
    require_workers(workers)
    ray = import_ray()
    fresh = not ray.is_initialized()
    if fresh:
        _connection.address, _connection.users = address or os.environ.get("RAY_ADDRESS") or LOCAL, 0
        if _connection.address == LOCAL:
            _start_local(ray, workers)
        else:
            _join(ray, _connection.address)
    elif address not in (None, AUTO) and not (_connection.users and address == _connection.address):
        raise WorkerError(
            f"this process is connected to a Ray cluster already, so that it cannot use the one at {address!r}; leave "
            "the address out to use that one, or call ray.shutdown() first"
        )
    ours = fresh or _connection.users > 0
    _connection.users += ours
    there = ray.cluster_resources()
    cluster = Cluster(ray, max(int(there.get("CPU", 0)), 1), int(there.get("GPU", 0)), ours)
    if not (ours and _connection.address == LOCAL):
        try:
            _require_same_versions(ray)
        except BaseException:
            cluster.close()
            raise
    return cluster


def cancel_tasks(ray: Any, references: Iterable[Any]) -> None:
    """Cancel these tasks.

    Most end by themselves within a moment and are not cancelled: cancelling a task just when its result arrives can
    crash this process, since a check within Ray fails.
    """
    under_way = list(references)
    with suppress(Exception):  # errors no longer matter here
        if under_way:
            _, under_way = ray.wait(under_way, num_returns=len(under_way), timeout=_CANCEL_GRACE, fetch_local=False)
        for reference in under_way:
            ray.cancel(reference)


def _start_local(ray: Any, workers: int | None) -> None:
    before = os.environ.get("PYTHONPATH")
    # Its workers find what this process finds: a user's own metrics may lie anywhere.
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    try:
        ray.init(
            address=LOCAL,
            num_cpus=workers or available_processors(),
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, OSError, RuntimeError, TimeoutError, ValueError) as error:
        raise WorkerError(f"no Ray cluster could be started on this machine: {error}") from error
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _join(ray: Any, address: str) -> None:
    if address != AUTO:
        _require_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except ImportError as error:
        raise MissingDependencyError("grpcio", purpose=f"the address {address!r}", install="'ray[client]'") from error
    except Exception as error:  # no cluster, another version, a token it wants: by Ray, and in its words
        raise WorkerError(f"{_unusable_message(address)}: {error}{_token_hint(address)}") from error


def _token_hint(address: str) -> str:
    """A hint that Ray does not give: for an explicit address it sends no token by default."""
    if address == AUTO or os.environ.get("RAY_AUTH_MODE") == "token":
        return ""
    return (
        "; if it asks for a token, as newer versions of Ray do by default, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN "
        "or RAY_AUTH_TOKEN_PATH to the token of that cluster"
    )


def _unusable_message(address: str) -> str:
    if address == AUTO:
        return (
            "no Ray cluster runs on this machine that could be used (address 'auto'); start one with `ray start "
            "--head`, name its address, or take 'local' for one of our own"
        )
    return f"the Ray cluster at {address!r} cannot be used"


def _require_reachable(address: str) -> None:
    """Raise unless a server listens there: Ray itself would try for minutes, and end the process."""
    host, colon, port = address.removeprefix(CLIENT).strip("/").rpartition(":")
    if not colon and address.startswith(CLIENT):
        host, port = port, str(_CLIENT_PORT)
    if not host or not port.isdecimal():
        raise WorkerError(
            f"{address!r} is no address of a Ray cluster; write 'auto', 'local', 'ray://host:port' or 'host:port'"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise WorkerError(
            f"no Ray cluster answers at {address!r} ({error}); see that it runs (`ray status` there) and that this "
            "machine may reach it"
        ) from error


def _require_same_versions(ray: Any) -> None:
    """Raise if a machine of the cluster has another version of Python or of this package."""

    def facts() -> dict[str, str]:  # travels by value: what it says may be that this package is not there
        import platform
        import sys as its

        found = {"node": platform.node(), "Python": ".".join(map(str, its.version_info[:2]))}
        try:
            from .._version import __version__ as version
        except ImportError as error:
            return {**found, "auepora-eval": f"none ({error})"}
        import numpy

        return {**found, "auepora-eval": version, "numpy": numpy.__version__}

    import numpy
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = {
        "Python": ".".join(map(str, sys.version_info[:2])),
        "auepora-eval": __version__,
        "numpy": numpy.__version__,
    }
    ask = ray.remote(num_cpus=0, max_retries=1)(facts)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    references = [
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)).remote() for node in nodes
    ]
    for there in ray.get(references):
        _compare_versions(here, there)


def _compare_versions(here: dict[str, str], there: dict[str, str]) -> None:
    for name in ("Python", "auepora-eval"):
        if there[name] != here[name]:
            raise WorkerError(
                f"the worker machine {there['node']} has {name} {there[name]}, this one {here[name]}: the numbers "
                "could differ; install the same on all"
            )
    if there["numpy"] != here["numpy"]:
        warnings.warn(
            f"the worker machine {there['node']} has numpy {there['numpy']}, this one {here['numpy']}: last digits may "
            "differ",
            AueporaWarning,
            stacklevel=2,
        )


# --- one pass over batches: sends tasks, collects results, retries failures or gives up ------------------------------

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
                pending.item = self._ray.put((batch.samples, batch.outputs))
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
                group.result = pickle.loads(result)  # noqa: S301 -- from a worker of ours

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


# --- the executor ----------------------------------------------------------------------------------------------------


class RayExecutor:
    """The workers of a Ray cluster, used for any number of evaluations until it is closed.

    ``address`` says which cluster (see ``connect``); with none, one is started on this machine. At most ``workers``
    tasks run at a time. A batch whose worker dies, or that raises an unexpected exception, is retried ``retries`` times
    and then given up: its samples become failed measurements, with the reason, and the evaluation continues.

    Metrics that need a model are scored by actors that load it once: one per GPU, or one without; ``models`` says how
    many actors there are instead.
    """

    @check_arguments
    def __init__(
        self,
        address: str | None = None,
        workers: PositiveInt | None = None,
        *,
        retries: NonNegativeInt = 3,
        models: PositiveInt | None = None,
    ) -> None:
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
