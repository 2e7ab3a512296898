"""Whether the process of a run still exists: by host, id and start time, and by the heartbeat on another host."""

import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from auepora_eval.store.records import is_running, is_this_process, this_process, to_iso, utc_now

HOST = socket.gethostname()
needs_start_time = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the start time of processes is not available"
)


def start_child(code: str = "import sys; sys.stdin.read()") -> subprocess.Popen[bytes]:
    script = "from auepora_eval.store.records import this_process; print(this_process(), flush=True);"
    return subprocess.Popen([sys.executable, "-c", script + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_other_process_is_running_until_it_ends() -> None:
    with start_child() as child:
        assert child.stdout is not None
        assert child.stdin is not None
        name = child.stdout.readline().decode().strip()
        assert is_running(name)
        assert is_running(f"{HOST}:{child.pid}")  # as earlier versions wrote it
        if Path("/proc/self/stat").exists():
            assert name.startswith(f"{HOST}:{child.pid}:")
            assert not is_running(f"{HOST}:{child.pid}:1@{to_iso(utc_now())}")  # its id was reused
        child.stdin.close()
        child.wait()
        assert not is_running(name)


@needs_start_time
def test_zombie_process_is_not_running() -> None:
    with start_child("import os; os._exit(0)") as child:
        assert child.stdout is not None
        name = child.stdout.readline().decode().strip()
        child.stdout.read()  # its end of the pipe is closed as it ends; it is not waited for
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(name)


def test_this_process_is_running() -> None:
    assert is_running(this_process())
    assert is_this_process(this_process())
    assert not is_this_process(f"elsewhere:{os.getpid()}")
    assert is_running(f"{HOST}:{os.getpid()}")


AGES = [  # minutes since the last heartbeat, running, why
    (None, False, "an earlier version wrote none"),
    (0, True, "just now"),
    (1, True, "recently"),
    (3, False, "too long ago"),
    (-1, True, "the other clock is ahead"),
]


@pytest.mark.parametrize(("minutes", "running"), [row[:2] for row in AGES], ids=[row[2] for row in AGES])
def test_run_on_another_host_is_known_by_its_heartbeat(minutes: float | None, running: bool) -> None:
    heartbeat = "" if minutes is None else f"@{to_iso(utc_now() - timedelta(minutes=minutes))}"
    # The id exists on this host: that says nothing about the other one.
    assert is_running(f"elsewhere:{os.getpid()}:1{heartbeat}") is running


@pytest.mark.parametrize("name", ["", "unknown", "a:b", f"{HOST}:", f"{HOST}:{'9' * 40}"])
def test_invalid_process_names(name: str) -> None:
    assert not is_running(name)
