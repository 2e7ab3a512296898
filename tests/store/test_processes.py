"""Who makes a run: known by host, number and beginning, and by number alone where that is all there is."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from auepora_eval.store.records import is_alive, this_process

HOST = socket.gethostname()
needs_start_time = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the start time of processes is not available"
)


def start_child(code: str = "import sys; sys.stdin.read()") -> subprocess.Popen[bytes]:
    script = "from auepora_eval.store.records import this_process; print(this_process(), flush=True);"
    return subprocess.Popen([sys.executable, "-c", script + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_other_process_is_alive_until_it_ends() -> None:
    with start_child() as child:
        assert child.stdout is not None
        assert child.stdin is not None
        name = child.stdout.readline().decode().strip()
        assert is_alive(name)
        assert is_alive(f"{HOST}:{child.pid}")  # as earlier versions wrote it
        assert not is_alive(f"elsewhere:{child.pid}")
        if Path("/proc/self/stat").exists():
            assert name.startswith(f"{HOST}:{child.pid}:")
            assert not is_alive(f"{HOST}:{child.pid}:1")  # it had this number before
        child.stdin.close()
        child.wait()
        assert not is_alive(name)


@needs_start_time
def test_zombie_process_is_not_alive() -> None:
    with start_child("import os; os._exit(0)") as child:
        assert child.stdout is not None
        name = child.stdout.readline().decode().strip()
        child.stdout.read()  # its end of the pipe is closed as it ends; it is not waited for
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(name)


def test_this_process_is_not_another() -> None:
    assert not is_alive(this_process())
    assert not is_alive(f"{HOST}:{os.getpid()}")


@pytest.mark.parametrize("name", [None, "", "unknown", "a:b", f"{HOST}:", f"{HOST}:{'9' * 40}"])
def test_invalid_process_names(name: str | None) -> None:
    assert not is_alive(name)
