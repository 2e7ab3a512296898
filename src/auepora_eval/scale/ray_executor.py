"""Executor on a Ray cluster: connection, actors, and one pass over batches."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
import traceback
import uuid
import warnings
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy

from .._version import __version__
from ..core.batch import Batch
from ..core.metric_hooks import asks_models
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..engine.executors import Scorable, ScoredBatch, SerialExecutor, SourcedBatch, require_workers, score_batch
from ..engine.failed_batches import SCORING_FAILED, WORKER_DIED, BatchFailure, failed_batch, unreadable_batch
from ..errors import AueporaError, AueporaWarning, BadTypeError, MissingDependencyError, WorkerError
from ..options import NonNegativeInt, PositiveInt, check_arguments
from ..runtime.processes import available_processors, gc_paused

# --- the code that runs on a worker: reads and scores batches, and returns their scores ------------------------------


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


# --- actors that load models once and score batches; an actor that dies is replaced, up to a limit -------------------


class ModelPool:
    """A pool of actors with loaded models: one per GPU, or one if there is no GPU. Each scores one batch at a time."""

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
        self._loading: dict[Any, Any] = {}
        """Actors by the reference to the loading of their models."""
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, _Task]] = {}
        """Actors with their tasks, by the reference to the result."""
        for _ in range(count):
            self._spawn()

    def _spawn(self) -> None:
        actor = self._kind.remote(self._job)
        self._loading[actor.load.remote()] = actor

    @property
    def is_lost(self) -> bool:
        """Whether no actor is left, after all retries."""
        return not (self._loading or self._idle or self._busy)

    @property
    def references(self) -> list[Any]:
        """The references that are still pending."""
        return [*self._loading, *self._busy]

    def submit(self, task: _Task) -> bool:
        """Submit a task to an idle actor; whether there is one."""
        if not self._idle:
            return False
        actor = self._idle.pop()
        self._busy[actor.score.remote(task.item)] = actor, task
        return True

    def take(self, reference: Any) -> tuple[_Task | None, TaskResult | None]:
        """The task of a finished reference, and its result: none if the actor was loading, or died."""
        result: TaskResult | None = None
        actor, task = self._busy.pop(reference) if reference in self._busy else (self._loading.pop(reference), None)
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            self._ray.kill(actor)  # it may only be out of reach
            self._died_loading += task is None
            if self._died_loading <= self._retries:
                self._spawn()
        else:
            self._idle.append(actor)
        return task, result

    def close(self) -> list[_Task]:
        """Kill all actors; return their tasks."""
        left = [task for _, task in self._busy.values()]
        for actor in (*self._loading.values(), *self._idle, *(actor for actor, _ in self._busy.values())):
            self._ray.kill(actor)
        self._loading, self._idle, self._busy = {}, [], {}
        return left


# --- the cluster: an existing one, or a temporary one on this machine ------------------------------------------------

LOCAL, AUTO, CLIENT = "local", "auto", "ray://"
_STORE_BYTES = 512 << 20
"""The object store of a local cluster: a window of batches, whatever the size of the data."""
_CLIENT_PORT = 10001
_CONNECT_TIMEOUT = 10.0
"""Seconds within which a connection must be accepted."""
_NONE_RUNS = (
    "no Ray cluster runs on this machine that could be used (address 'auto'); start one with `ray start --head`, name "
    "its address, or take 'local' for one of our own"
)
_CANCEL_GRACE = 2.0
"""Seconds that tasks have to finish before they are cancelled."""


def import_ray() -> Any:
    """Import Ray without its usage reports; an error with the extra to install if it is missing."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # which it would else warn about
    # The death of a worker is reported with its batch; Ray would print it on standard output.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed while executing a task")
    return MissingDependencyError.import_module("ray", purpose="executor 'ray'", install="'auepora-eval[ray]'")


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
        problem = _NONE_RUNS if address == AUTO else f"the Ray cluster at {address!r} cannot be used"
        raise WorkerError(f"{problem}: {error}{_token_hint(address)}") from error


def _token_hint(address: str) -> str:
    """A hint that Ray does not give: for an explicit address it sends no token by default."""
    if address == AUTO or os.environ.get("RAY_AUTH_MODE") == "token":
        return ""
    return (
        "; if it asks for a token, as newer versions of Ray do by default, set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN "
        "or RAY_AUTH_TOKEN_PATH to the token of that cluster"
    )


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
        return {**found, "auepora-eval": version, "numpy": numpy.__version__}

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
_MAX_PENDING = 16
"""How many batches may be pending, per worker, while an earlier one is not done."""
POLL_SECONDS = 0.5
"""Seconds between polls. A Ctrl-C that comes just before a thread blocks does not wake it."""
_MAX_CONSECUTIVE_DEATHS = 3
"""After this many batches in a row that kill their actor, the model is at fault and the pool is given up."""
_DIED = BatchFailure(WORKER_DIED, "not measured: every worker that scored these samples died")
_NO_MODEL = BatchFailure(WORKER_DIED, "not measured by the model: every worker that loaded it died")


@dataclass(frozen=True, slots=True)
class _MetricGroup:
    """The metrics that need models, or all others: a batch is scored under each group in a task of its own."""

    job: Job
    metrics: Sequence[BatchMetric]
    places: Sequence[int]
    """The indices of the metrics among all."""
    modelled: bool


@dataclass(eq=False)
class _Task:
    """A batch under a group of metrics, and its result."""

    number: int
    batch: Scorable
    item: Any
    """What is sent: a pickled source, or a reference to its rows; None if it cannot be serialised."""
    group: _MetricGroup
    attempts: int = 0
    failure: BatchFailure | None = None
    """Why it was given up: then only its failed scores are requested."""
    result: ScoredBatch | None = None
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return self.result is not None or self.error is not None


class RayPass:
    """Sends batches to the cluster, waits for their scores, and yields them in order."""

    def __init__(self, executor: RayExecutor, metrics: Sequence[BatchMetric]) -> None:
        cluster = executor.start()
        self._executor = executor
        self._ray = cluster.ray
        self._count = len(metrics)
        self._workers = min(executor.workers or cluster.processors, cluster.processors)
        # If the whole cluster is used, tasks queue at the workers; else no more are sent than may run.
        self._most_running = self._workers * (_PREFETCH if self._workers == cluster.processors else 1)
        self._run = self._ray.remote(num_cpus=1, max_retries=0)(run_task)
        self._pending: deque[list[_Task]] = deque()
        """The tasks of each batch that is not done, in the order of the batches."""
        self._running: dict[Any, _Task] = {}
        self._ready: deque[_Task] = deque()
        self._for_models: deque[_Task] = deque()
        self._drawn = 0
        self._failing = False
        self._consecutive_deaths = 0
        self._groups: list[_MetricGroup] = []
        self._pool: ModelPool | None = None
        for modelled in (False, True):
            places = [place for place, metric in enumerate(metrics) if asks_models(metric) is modelled]
            if places:
                own = [metrics[place] for place in places]
                self._groups.append(_MetricGroup(self._job(own), own, places, modelled))
                self._pool = self._pool_of(cluster, self._groups[-1].job) if modelled else None

    def _job(self, metrics: list[BatchMetric]) -> Job:
        try:
            return Job(uuid.uuid4().hex, [self._ray.put(metrics)])
        except Exception as error:
            raise WorkerError(f"a metric cannot be sent to a worker ({error}); use the serial executor") from error

    def _pool_of(self, cluster: Cluster, job: Job) -> ModelPool:
        count = self._executor.models or max(cluster.gpus, 1)
        spare = cluster.processors > count  # or no worker would be left to score the rest
        # If there are more actors than GPUs, several share one; otherwise the last would wait for ever.
        gpu = 1 / -(-count // cluster.gpus) if cluster.gpus else 0.0
        return ModelPool(self._ray, job, count, gpu=gpu, processors=int(spare), retries=self._executor.retries)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def scored(self, batches: Iterator[Scorable]) -> Iterator[ScoredBatch]:
        """The scores, in the order of the batches."""
        more = True
        while more or self._pending:
            more = more and not self._failing and self._draw(batches)
            self._send()
            while self._pending and all(task.is_done for task in self._pending[0]):
                yield self._combine(self._pending.popleft())
            if self._pending:
                self._await_one()

    def stop(self) -> None:
        """Leave nothing running."""
        cancel_tasks(self._ray, self._running)
        if self._pool is not None:
            with suppress(Exception):
                self._pool.close()

    def _draw(self, batches: Iterator[Scorable]) -> bool:
        """Draw batches while there is room for them; return whether there may be more."""
        while (
            len(self._running) + len(self._ready) < self._most_running
            and len(self._pending) < _MAX_PENDING * self._workers
        ):
            batch = next(batches, None)
            if batch is None:
                return False
            item = self._serialise(batch)
            tasks = [_Task(self._drawn, batch, item, group) for group in self._groups]
            self._drawn += 1
            self._pending.append(tasks)
            for task in tasks:
                if item is None:
                    task.result = score_batch(batch, task.group.metrics)
                else:
                    (self._for_models if task.group.modelled else self._ready).append(task)
        return True

    def _serialise(self, batch: Scorable) -> Any:
        try:
            if isinstance(batch, SourcedBatch):
                return self._ray.cloudpickle.dumps(batch)
            return self._ray.put((batch.samples, batch.outputs))
        except Exception:  # users' objects may raise anything: they are scored in this process
            return None

    def _send(self) -> None:
        if self._pool is not None:
            while self._for_models and self._pool.submit(self._for_models[0]):
                self._for_models.popleft()
            while self._for_models and self._pool.is_lost:
                self._give_up(self._for_models.popleft(), _NO_MODEL)
        while self._ready and len(self._running) < self._most_running:
            task = self._ready.popleft()
            self._running[self._run.remote(task.group.job, task.failure, task.item)] = task

    def _await_one(self) -> None:
        models = self._pool.references if self._pool is not None else []
        ready, _ = self._ray.wait([*self._running, *models], num_returns=1, timeout=POLL_SECONDS)
        for reference in ready:
            if reference in self._running:
                self._on_task_done(reference)
            else:
                self._on_model_done(reference)

    def _combine(self, tasks: Sequence[_Task]) -> ScoredBatch:
        scores: list[Scores] = [None] * self._count  # type: ignore[list-item]
        notes: dict[str, tuple[int, str]] = {}
        members, sizes = None, set[int]()
        for task in tasks:
            if task.error is not None:
                raise task.error
            assert task.result is not None
            for place, score in zip(task.group.places, task.result.scores, strict=True):
                scores[place] = score
            notes |= task.result.notes
            members = members or task.result.members
            sizes.add(task.result.size)
        if len(sizes) > 1:
            raise WorkerError(f"a batch had {min(sizes)} samples when read once, and {max(sizes)} when read again")
        return ScoredBatch(sizes.pop(), scores, notes, members)

    # --- what came back ----------------------------------------------------------------------------------------------

    def _on_task_done(self, reference: Any) -> None:
        task, errors = self._running.pop(reference), self._ray.exceptions
        try:
            result: TaskResult | None = self._ray.get(reference)
        except (errors.RayTaskError, errors.TaskUnschedulableError) as error:
            raise WorkerError(f"a worker cannot do its work: {error}") from error
        except errors.LocalRayletDiedError as error:
            raise WorkerError("the Ray cluster is gone: the process that stands for this machine in it died") from error
        except errors.RayError:
            result = None
        self._take(task, result)

    def _on_model_done(self, reference: Any) -> None:
        assert self._pool is not None
        task, result = self._pool.take(reference)
        if task is None:
            return
        self._take(task, result)
        if result is not None:
            self._consecutive_deaths = 0
        elif task.failure is not None:
            self._consecutive_deaths += 1
            if self._consecutive_deaths >= _MAX_CONSECUTIVE_DEATHS:
                for other in self._pool.close():
                    self._give_up(other, _DIED)

    def _take(self, task: _Task, result: TaskResult | None) -> None:
        """Use the result of a task; without one its worker died."""
        if result is None:
            if task.failure is not None:  # reading it killed the worker
                task.result = unreadable_batch(task.batch, task.number, task.group.metrics, task.failure)
            else:
                self._retry(task, _DIED)
            return
        self._executor.busy_seconds += result[0]
        if isinstance(result[1], bytes):
            self._executor.bytes_returned += len(result[1])
            task.result = pickle.loads(result[1])  # noqa: S301 -- from a worker of ours
        else:
            self._on_error(task, result[1])

    def _on_error(self, task: _Task, remote_error: RemoteError) -> None:
        if remote_error.error is not None:
            task.error = remote_error.error  # bad input: raised when its turn comes, as the serial executor does
        elif task.failure is not None:
            task.error = WorkerError(f"a worker cannot read a batch: {remote_error.text}")
            task.error.add_note(remote_error.trace)
        else:
            self._retry(task, BatchFailure(SCORING_FAILED, f"not measured: scoring raised {remote_error.text}"))
        self._failing |= task.error is not None

    def _retry(self, task: _Task, failure: BatchFailure) -> None:
        """Retry a task before new ones, since all later results wait for it; give it up after too many attempts."""
        task.attempts += 1
        if task.attempts > self._executor.retries:
            self._give_up(task, failure)
        else:
            (self._for_models if task.group.modelled else self._ready).appendleft(task)

    def _give_up(self, task: _Task, failure: BatchFailure) -> None:
        task.failure = failure
        self._ready.appendleft(task)


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
        this = RayPass(self, metrics)
        try:
            yield from this.scored(iter(batches))
        finally:
            this.stop()
