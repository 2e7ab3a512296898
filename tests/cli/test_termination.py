"""A command ended by a signal leaves no process, semaphore or folder behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.conditions import restore_ignored
from helpers.processes import Process

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

SAMPLES, TEXT = 1100, "word " * 240
"""Pairs are read 1024 at a time; a batch is large enough to travel as a file."""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def until(reached: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.02)


def descendants(pid: int) -> set[int]:
    """The processes that a process started, and those that they started."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {one for one, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def has_loaded_numpy(pid: int) -> bool:
    try:
        return "numpy" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def semaphores_of(pid: int) -> set[str]:
    return set(re.findall(r"/dev/shm/sem\.\S+", Path(f"/proc/{pid}/maps").read_text()))


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    """Processes that a test starts do not inherit an ignored SIGHUP."""
    ignored = restore_ignored(signal.SIGHUP)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def scoring(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """``score --executor processes`` that waits for the rest of its dataset, with a worker and texts under way."""
    os.mkfifo(tmp_path / "data.jsonl")
    outputs = [{"sample_id": str(n), "retrieved": [], "response": TEXT} for n in range(SAMPLES)]
    (tmp_path / "out.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in outputs))
    options = [
        "--format",
        "jsonl",
        "--executor",
        "processes",
        "--workers",
        "2",
        "--batch-size",
        "256",
        "-m",
        "token_f1",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "auepora_eval", "score", "data.jsonl", "out.jsonl", *options],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process, (tmp_path / "data.jsonl").open("w") as pipe:
        for n in range(SAMPLES - 1):
            pipe.write(json.dumps({"sample_id": str(n), "query": "?", "reference_answer": TEXT}) + "\n")
        pipe.flush()
        try:
            until(lambda: any(map(has_loaded_numpy, descendants(process.pid))), "a worker")
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_signal_while_scoring_in_processes_leaves_nothing(
    scoring: "subprocess.Popen[bytes]", number: signal.Signals
) -> None:
    started, semaphores = descendants(scoring.pid), semaphores_of(scoring.pid)
    assert semaphores
    scoring.send_signal(number)
    err = scoring.communicate(timeout=60)[1].decode()
    codes = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9, signal.SIGINT: 130}
    assert scoring.returncode == codes[number], err
    if number != signal.SIGKILL:  # a process that is just being started cannot be stopped then
        assert "Traceback" not in err
    until(lambda: not any(map(is_running, started)), f"processes to end after {number.name}")
    assert not [one for one in semaphores if os.path.exists(one)]
    if number is not signal.SIGKILL:
        message = {signal.SIGINT: "Interrupted."}.get(number, f"Stopped by {number.name}.")
        assert err.strip() == message


COMMAND = """
import json, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
with open("pids", "a") as file:
    file.write(f"{child.pid}\\n")
for line in sys.stdin:
    time.sleep(0.02)
    print(json.dumps({"sample_id": json.loads(line)["sample_id"], "retrieved": ["a"], "response": "x"}), flush=True)
"""
PLAN = """
dataset: {jsonl: data.jsonl}
system: {command: "%s command.py"}
metrics: [recall@5]
run: {concurrency: 2}
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signal_ends_processes_of_a_command_system(tmp_path: Path, number: signal.Signals) -> None:
    samples = [{"sample_id": str(n), "query": "?", "relevant_docs": ["a"]} for n in range(3000)]
    (tmp_path / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in samples))
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "plan.yaml").write_text(PLAN % sys.executable)
    with Process[bytes](
        [sys.executable, "-m", "auepora_eval", "run", "plan.yaml"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        pids = tmp_path / "pids"
        until(lambda: pids.exists() and pids.read_text().count("\n") == 2, "both processes of the system")
        started = descendants(process.pid) | set(map(int, pids.read_text().split()))
        process.send_signal(number)
        err = process.communicate(timeout=60)[1].decode()
    until(lambda: not any(map(is_running, started)), f"processes to end after {number.name}")
    assert "Traceback" not in err
    if number is not signal.SIGKILL:
        assert process.returncode == 130, err
        assert "To resume: auepora run plan.yaml --resume" in err
