"""One process that communicates line by line: start, write, read and end it, each with a deadline."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import IO

from .deadlines import Deadline
from .group_guard import GroupGuard

__all__ = ["LineProcess", "LineTooLongError", "ProcessEndedError", "terminate_all"]

_PIECE = 1 << 16
_PIECES_OF_A_PIPE = 32
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

    It handles one request at a time; ``end`` may be called from any thread.
    """

    def __init__(self, command: Sequence[str], cwd: Path | None, env: Mapping[str, str], max_line: int) -> None:
        self._process = subprocess.Popen(  # noqa: S603  to run the user's command is what this is for
            list(command),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)
        self._max_line = max_line
        self._read = bytearray()
        self._searched = 0
        self._words: deque[str] = deque(maxlen=_STDERR_LINES)
        self._listener = Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        self._unsent = memoryview(b"")
        self._reads_no_more = False
        self._reading = Lock()
        self._ending = Lock()
        self.answered = 0
        """How many requests it has answered."""

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
        """Hand it a question; it is written while its answer is waited for."""
        self._unsent = memoryview(question)

    def line(self, deadline: Deadline) -> bytes:
        """The next line it writes, at the end also one without its line break.

        Raises ``ProcessEndedError``, ``LineTooLongError`` or ``TimeoutError`` instead of waiting.
        """
        with self._reading, selectors.DefaultSelector() as ready:
            try:
                ready.register(self._stdout, selectors.EVENT_READ)
                if self._unsent:
                    ready.register(self._stdin, selectors.EVENT_WRITE)
                while (line := self._next_line()) is None:
                    left = deadline.remaining()
                    events = ready.select(_POLL_SECONDS if left is None else min(left, _POLL_SECONDS))
                    if not events and (self._reads_no_more or not self.is_alive):
                        raise ProcessEndedError  # its output may stay open for ever, kept open by itself or by a child
                    for key, _ in events:
                        if key.fileobj is self._stdin:
                            self._write()
                            if not self._unsent:
                                ready.unregister(self._stdin)
                        elif not self._receive():
                            return self._rest()
            except (ValueError, KeyError) as error:  # another thread ended it and closed its pipes
                raise ProcessEndedError from error
        return line

    def unsolicited_lines(self) -> list[bytes]:
        """Lines it wrote without a request."""
        with self._reading:
            # A pipe holds only a few pieces; a process that writes without end is not waited for.
            with contextlib.suppress(BlockingIOError):
                for _ in range(_PIECES_OF_A_PIPE):
                    if not self._receive():
                        break
            lines = []
            while (line := self._next_line()) is not None:
                lines.append(line)
            return lines

    def stderr_tail(self) -> list[str]:
        """The last lines of its error output."""
        if not self.is_alive:
            self._listener.join(_EXIT_SECONDS)  # its last output may still be in the pipe
        return list(self._words)

    def exit_text(self) -> str:
        """How it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
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
        with contextlib.suppress(OSError):
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
        self._signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill it and its child processes."""
        with self._ending:
            self.close_input()
            self._signal(signal.SIGKILL)  # also for children that outlive it
            self._process.wait()
            with self._reading:  # a thread that still waits for a line sees the end of the output first
                self._stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)  # it leads its group

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._stdin.fileno(), self._unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            # What it wrote before that, and how it ended, is on its output.
            self._reads_no_more, self._unsent = True, memoryview(b"")

    def _receive(self) -> bool:
        """Read what is there; ``False`` at the end of its output."""
        piece = os.read(self._stdout.fileno(), _PIECE)
        self._read += piece
        return bool(piece)

    def _rest(self) -> bytes:
        """What stands after the last line break when its output has ended."""
        if not self._read.strip():
            raise ProcessEndedError
        line = bytes(self._read)
        self._read.clear()
        self._searched = 0
        return line

    def _next_line(self) -> bytes | None:
        end = self._read.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._read)
            if self._searched > self._max_line:
                raise LineTooLongError
            return None
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        self._searched = 0
        return line

    def _listen(self, pipe: IO[bytes]) -> None:
        """Keep the last lines of its error output, and keep it from filling up."""
        with pipe:
            rest = b""
            while piece := pipe.read(_PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                self._words.extend(line.decode(errors="replace").rstrip() for line in lines[-_STDERR_LINES:])
                rest = rest[-_PIECE:]
            if rest.strip():
                self._words.append(rest.decode(errors="replace").rstrip())


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
