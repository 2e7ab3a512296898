"""A program that reads and writes lines, with its child processes, and a guard that ends it with this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import IO, Literal

from ..errors import BadValueError


def require_process_groups(*, platform: str = sys.platform) -> None:
    """Raise where a command as a system cannot be run, which is on Windows; the error says what to do instead."""
    if platform == "win32":
        problem = "a command as a system is not available on Windows, where its child processes could not be ended"
        raise BadValueError(f"{problem} with it; use an HTTP endpoint or a Python system, or run auepora in WSL")


# --- process groups that end with this process, even where it is killed ----------------------------------------------

# Its input ends when the process that started it does. Groups that are left then have as long to leave by themselves,
# and once more after SIGTERM, as ``end_all`` gives them.
_SCRIPT = """
groups=
while read -r sign group; do
    left=
    for one in $groups; do [ "$one" = "$group" ] || left="$left $one"; done
    groups=$left
    [ "$sign" = + ] && groups="$groups $group"
done
for signal in TERM KILL; do
    [ -z "$groups" ] && exit
    sleep 2
    for one in $groups; do kill -$signal "-$one" 2>/dev/null; done
done
"""


class GroupGuard:
    """Ends the process groups that are registered with it when this process is gone, however it ended.

    It is started with the first group. Where there is no shell, groups are not watched.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._shell: subprocess.Popen[bytes] | None = None
        self._closed = False

    def add(self, group: int) -> None:
        """Watch a process group."""
        with self._lock, suppress(OSError):
            if self._shell is None and not self._closed:
                self._shell = subprocess.Popen(  # noqa: S603  a script of our own
                    ["/bin/sh", "-c", _SCRIPT],
                    cwd="/",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C in a terminal must not reach it
                )
            self._write("+", group)

    def discard(self, group: int) -> None:
        """Do not watch a process group any more: it was ended."""
        with self._lock, suppress(OSError):
            self._write("-", group)

    def close(self) -> None:
        """End the guard; groups that are still registered end with it."""
        with self._lock:
            self._closed = True
            if self._shell is None or self._shell.stdin is None:
                return
            with suppress(OSError):
                self._shell.stdin.close()
            self._shell.wait()
            self._shell = None

    def _write(self, sign: str, group: int) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.write(f"{sign} {group}\n".encode())


# --- one process, line by line: start, write, read and end it, each with a deadline ----------------------------------

_PIECE = 1 << 16
_MAX_UNREAD_LINES = 64
_STDERR_LINES = 20
_POLL_SECONDS = 1.0
"""Seconds between two checks whether a process still runs."""
_EXIT_SECONDS = 2.0
"""Seconds a process has to exit once its input is closed, and again after SIGTERM."""


class ProcessEndedError(Exception):
    """The process ended, or closed its output, before it replied."""


class LineTooLongError(Exception):
    """The process wrote a line that exceeds the limit."""


class LineProcess:
    """A process in a session of its own, so that its child processes can be ended with it.

    It handles one request at a time; ``end`` may be called from any thread. Threads of their own write requests, read
    lines and read the error output, so that no pipe blocks another.
    """

    def __init__(self, command: Sequence[str], cwd: Path | None, env: Mapping[str, str], max_line: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603  to run the user's command is what this is for
            list(command),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin = self._process.stdin
        self._max_line = max_line
        self._lines: Queue[bytes | None] = Queue(_MAX_UNREAD_LINES)
        """The lines it wrote; ``None`` is the end of its output."""
        self._words: deque[str] = deque(maxlen=_STDERR_LINES)
        self._reads_no_more = self._ended = False
        self._ending = Lock()
        self.answered = 0
        """How many requests it has answered."""
        self._listener = Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        Thread(target=self._read_lines, args=(self._process.stdout,), daemon=True).start()

    @property
    def group(self) -> int:
        """The process group that it leads."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def exited_cleanly(self) -> bool:
        """Whether it ended with exit code 0."""
        return self._process.poll() == 0

    def send(self, question: bytes) -> None:
        """Write a question, without waiting until it is read."""
        Thread(target=self._write, args=(question,), daemon=True).start()

    def line(self, deadline: float) -> bytes:
        """The next line it writes, at the end also one without its line break.

        Raises ``ProcessEndedError``, ``LineTooLongError`` or ``TimeoutError`` instead of waiting.
        """
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            # Its output may stay open for ever, kept open by itself or by a child.
            has_ended = self._reads_no_more or not self.is_alive
            try:
                line = self._lines.get(timeout=min(left, _POLL_SECONDS))
            except Empty:
                if has_ended:
                    raise ProcessEndedError from None
                continue
            if line is None:
                raise ProcessEndedError
            if len(line.rstrip(b"\n")) > self._max_line:
                raise LineTooLongError
            return line

    def unsolicited_lines(self) -> list[bytes]:
        """Lines it wrote without a request."""
        lines = []
        with suppress(Empty):
            while (line := self._lines.get_nowait()) is not None:
                lines.append(line)
        return lines

    def stderr_tail(self) -> list[str]:
        """The last lines of its error output."""
        if not self.is_alive:
            self._listener.join(_EXIT_SECONDS)  # its last output may still be in the pipe
        return list(self._words)

    def exit_text(self) -> str:
        """How it ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)  # its output closes a little before it is gone
        code = self._process.poll()
        if code is None:
            return "it closed its input" if self._reads_no_more else "it closed its output"
        if code < 0:
            try:
                return f"killed by {signal.Signals(-code).name}"
            except ValueError:
                return f"killed by signal {-code}"
        return f"exit code {code}"

    def close_input(self) -> None:
        """Close its input: no further request comes."""
        with suppress(OSError):
            self._stdin.close()

    def wait_for_exit(self, moment: float) -> bool:
        """Wait until ``moment`` for it to exit; whether it did."""
        try:
            self._process.wait(max(0.0, moment - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        """Send SIGTERM to it and its child processes."""
        self._signal("SIGTERM")

    def end(self) -> None:
        """Kill it and its child processes."""
        with self._ending:
            self.close_input()
            self._signal("SIGKILL")  # also for children that outlive it
            self._process.wait()
            self._ended = True
            self.unsolicited_lines()  # makes room for the thread that reads them
            self._lines.put(None)  # for a thread that still waits for a line

    def _signal(self, name: Literal["SIGTERM", "SIGKILL"]) -> None:
        if sys.platform == "win32":  # no signals and no process groups: its child processes stay
            self._process.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.Signals[name])  # it leads its group

    def _write(self, question: bytes) -> None:
        unsent = memoryview(question)
        try:
            while unsent:
                unsent = unsent[os.write(self._stdin.fileno(), unsent) :]
        except (OSError, ValueError):
            # What it wrote before that, and how it ended, is on its output.
            self._reads_no_more = True

    def _read_lines(self, pipe: IO[bytes]) -> None:
        with pipe, suppress(OSError):
            while (line := pipe.readline(self._max_line + 2)) and not self._ended:
                self._lines.put(line)
        self._lines.put(None)

    def _listen(self, pipe: IO[bytes]) -> None:
        """Keep the last lines of its error output, and keep it from filling up."""
        with pipe:
            while line := pipe.readline(_PIECE):
                self._words.append(line.decode(errors="replace").rstrip())


def terminate_all(processes: set[LineProcess], guard: GroupGuard) -> None:
    """End all processes: close their inputs, then SIGTERM, then SIGKILL; all wait at the same time."""
    ending = list(processes)
    for process in ending:
        process.close_input()
    moment = time.monotonic() + _EXIT_SECONDS
    staying = [process for process in ending if not process.wait_for_exit(moment)]
    for process in staying:
        process.terminate()
    moment = time.monotonic() + _EXIT_SECONDS
    for process in staying:
        process.wait_for_exit(moment)
    for process in ending:
        process.end()
        processes.discard(process)
        guard.discard(process.group)
    guard.close()
