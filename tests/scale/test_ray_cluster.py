"""Which cluster is used, and that it is left as it was found; what is told where there is none."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import evaluate
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.errors import AueporaWarning, BadTypeError, MissingDependencyError, WorkerError
from auepora_eval.scale import ray_executor as ray_cluster
from auepora_eval.scale.ray_executor import RayExecutor, connect, import_ray
from helpers.processes import Process
from helpers.ray_cases import Fragile, ray_or_skip, rows, sources, times

HEAD = """
import sys
from auepora_eval.scale.ray_executor import connect
cluster = connect("local", 2)
print(cluster.ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.readline()
task = cluster.ray.remote(lambda: "still there")
print(cluster.ray.get(task.remote()), flush=True)
cluster.close()
"""


DRIVER = """
import sys
from helpers.ray_cases import rows, sources
from auepora_eval import evaluate
from auepora_eval.engine.evaluate import evaluate_sources
from auepora_eval.errors import WorkerError
from auepora_eval.scale.ray_executor import connect, import_ray
from auepora_eval.scale.ray_executor import RayExecutor
with RayExecutor(sys.argv[1]) as executor:
    got = evaluate_sources(sources(60, 7), ["token_f1", "bleu"], executor=executor)
    try:
        connect("192.0.2.7:6379")
    except WorkerError as error:
        print("connected to a Ray cluster already" in str(error))
print(got == evaluate(*rows(range(60)), ["token_f1", "bleu"]), import_ray().is_initialized())
"""


@pytest.mark.part("ray")
def test_existing_cluster_is_used_and_kept() -> None:
    """Another process started it. Both know its token, which is made here for it alone."""
    ray_or_skip()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with Process(
        [sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as head:
        assert head.stdin is not None
        assert head.stdout is not None
        try:
            driver = [sys.executable, "-c", DRIVER, head.stdout.readline().strip()]
            done = subprocess.run(driver, capture_output=True, text=True, env=environment, timeout=120, check=False)
            assert done.stdout.split() == ["True", "True", "False"], done.stderr[-2000:]
            head.stdin.write("\n")
            head.stdin.flush()
            assert head.stdout.readline() == "still there\n"
        finally:
            head.stdin.close()  # it goes on, and stops its cluster


def test_existing_connection_is_used_and_kept(no_ray_connection: None, tmp_path: Path) -> None:
    """With two GPUs, as far as the cluster knows: two actors load the model, and three share them."""
    ray = import_ray()
    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=2,
        object_store_memory=200 << 20,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
        log_to_driver=False,
        logging_level="ERROR",
    )
    try:
        for models, actors in ((None, 2), (3, 3)):
            folder = tmp_path / str(models)
            folder.mkdir()
            metric = Fragile(folder=str(folder), together=actors)
            with RayExecutor(models=models) as executor:
                got = evaluate_sources(sources(20, 10), [metric], executor=executor)
            assert times(folder, "loaded") == actors
            assert got == evaluate(*rows(range(20)), [metric])
        assert ray.is_initialized()
        from ray._common.usage.usage_lib import usage_stats_enabled

        assert not usage_stats_enabled()
    finally:
        ray.shutdown()


STOPPED = """
import sys
from pathlib import Path
from helpers.ray_cases import Fated, SlowMetric, sources
from auepora_eval.engine.evaluate import evaluate_sources
folder = Path(sys.argv[1])
evaluate_sources(sources(100, 10), [Fated(folder, {"q5": 1}, {}), SlowMetric(folder, "q60")], executor="ray", workers=2)
"""


@pytest.mark.part("ray")
def test_ctrl_c_stops_the_cluster_that_was_started(tmp_path: Path) -> None:
    """And nothing is said on standard output, though a worker died before."""
    ray_or_skip()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("RAY_ADDRESS", None)
    with Process(
        [sys.executable, "-c", STOPPED, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        while not (tmp_path / "pid").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert out == ""
    worker = int((tmp_path / "pid").read_text())
    for _ in range(600):
        if not Path(f"/proc/{worker}/cmdline").exists() or not Path(f"/proc/{worker}/cmdline").read_bytes():
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker that was held up still runs")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'auepora-eval\[ray\]'"):
        evaluate_sources(sources(3, 1), ["token_f1"], executor="ray")


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_no_server_at_an_address(no_ray_connection: None, scheme: str) -> None:
    with pytest.raises(WorkerError, match="no Ray cluster answers at"):
        connect(scheme + nobody())


@pytest.mark.parametrize(
    ("address", "message"), [("somewhere", "is no address"), ("host:port", "is no address"), ("ray://:1", "is no addr")]
)
def test_malformed_address(no_ray_connection: None, address: str, message: str) -> None:
    with pytest.raises(WorkerError, match=message):
        connect(address)


@pytest.mark.parametrize("address", ["", " ", 6379])
def test_address_of_a_wrong_type(address: Any) -> None:
    with pytest.raises(BadTypeError, match="address must be 'auto'"):
        connect(address)


class NoCluster:
    """As Ray is where no cluster runs on this machine; on a busy one somebody else's might."""

    @staticmethod
    def init(**_: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")


def test_auto_where_none_runs() -> None:
    with pytest.raises(WorkerError, match=r"no Ray cluster runs on this machine .*`ray start --head`"):
        ray_cluster._join(NoCluster, "auto")


class Refusing:
    """As Ray is where something keeps it from connecting."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def init(self, **_: Any) -> None:
        raise self.error


def test_error_if_a_cluster_cannot_be_joined() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(WorkerError, match=r"cannot be used: Authentication required"):
            ray_cluster._join(Refusing(PermissionError("Authentication required")), address)
        with pytest.raises(MissingDependencyError, match=r"'ray://127.* pip install 'ray\[client\]'"):
            ray_cluster._join(Refusing(ImportError("No module named 'grpc'")), f"ray://{address}")


@pytest.mark.parametrize(
    ("mode", "address", "has_hint"),
    [
        pytest.param(None, "host:port", True, id="shows no token"),
        pytest.param("token", "host:port", False, id="shows its token already"),
        pytest.param(None, "auto", False, id="shows the token of this machine by itself"),
    ],
)
def test_hint_about_tokens(monkeypatch: pytest.MonkeyPatch, mode: str | None, address: str, has_hint: bool) -> None:
    """A cluster that asks for one looks to Ray as if nobody answered."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}" if address == "host:port" else address
        with pytest.raises(WorkerError, match="Failed to connect") as refused:
            ray_cluster._join(Refusing(ConnectionError("Failed to connect to Ray cluster")), there)
    assert ("RAY_AUTH_MODE=token" in str(refused.value)) is has_hint


HERE = {"Python": "3.11", "auepora-eval": "1.2", "numpy": "2.0.1"}


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ({"Python": "3.12"}, "the worker machine far has Python 3.12, this one 3.11"),
        ({"auepora-eval": "1.3"}, "the worker machine far has auepora-eval 1.3, this one 1.2"),
        ({"auepora-eval": "none (No module named 'auepora_eval')"}, "far has auepora-eval none"),
    ],
)
def test_other_versions_on_workers_are_refused(there: dict[str, str], message: str) -> None:
    with pytest.raises(WorkerError, match=message):
        ray_cluster._compare_versions(HERE, {**HERE, "node": "far", **there})


def test_another_numpy_is_a_warning() -> None:
    ray_cluster._compare_versions(HERE, {**HERE, "node": "far"})
    with pytest.warns(AueporaWarning, match=r"numpy 2\.1\.0, this one 2\.0\.1: last digits may differ"):
        ray_cluster._compare_versions(HERE, {**HERE, "node": "far", "numpy": "2.1.0"})
