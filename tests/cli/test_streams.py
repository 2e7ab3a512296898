"""The command as a process: narrow encodings, full disks, closed pipes, python -m."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{shlex.quote(sys.executable)} -m auepora_eval"

ROWS = [  # encoding, shell command, exit code, in stdout, in stderr, why
    ("utf-8", "metrics recall", 0, "∩", "", "python -m works"),
    ("cp1252", "metrics recall", 0, "\\u2229", "", "cp1252 has no intersection sign"),
    ("latin-1", "metrics", 0, "\\u2193 lower is better", "", "latin-1 has no arrow"),
    ("ascii", "metrics", 0, "lower is better", "", "neither has ASCII"),
    ("cp1252", "metrics réc→", 2, "", "unknown metric 'réc\\u2192'", "errors on a narrow stderr"),
    ("utf-8", "metrics --json | head -1", 0, "[\n", "", "the reader leaves"),
    ("utf-8", "--help | true", 0, "", "", "the reader was never there"),
    ("utf-8", "metrics > /dev/full", 2, "", "Error: the output cannot be written: No space left on device\n", "full"),
    ("utf-8", "metrics --json > /dev/full", 2, "", "No space left on device\n", "a long text on a full device"),
    ("utf-8", "--help > /dev/full", 2, "", "No space left on device\n", "help on a full device"),
    ("utf-8", "metrics > /dev/full 2> /dev/full", 2, "", "", "nobody left to tell"),
    ("utf-8", "metrics nope 2> /dev/full", 2, "", "", "an error on a full device"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "arguments", "code", "out", "err", "why"), ROWS, ids=[f"{row[0]}: {row[-1]}" for row in ROWS]
)
def test_streams(encoding: str, arguments: str, code: int, out: str, err: str, why: str) -> None:
    if "/dev/full" in arguments and not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{COMMAND} {arguments}"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    shown, message = (
        stream.decode("utf-8" if encoding == "ascii" else encoding) for stream in (done.stdout, done.stderr)
    )
    assert done.returncode == code, f"{why}: {message}"
    assert out in shown
    assert err in message
    assert "Traceback" not in message
    assert "Exception ignored" not in message
