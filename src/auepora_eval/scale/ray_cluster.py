"""Connection to a Ray cluster: an existing one, or a temporary one on this machine."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..core.errors import AueporaWarning, BadTypeError, MissingDependencyError, WorkerError
from ..core.executors import available_processors, require_workers

__all__ = ["Cluster", "cancel_tasks", "connect", "import_ray"]

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
            from auepora_eval._version import __version__ as version
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
