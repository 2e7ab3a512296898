"""A system that is a command: it reads one line of JSON per sample and writes one line of JSON per output."""

from __future__ import annotations

import math
import os
import re
import shlex
import signal
import subprocess
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import IO

from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, SystemCallError
from ..options import PositiveFloat, PositiveInt, check_options
from .json_mapping import default_request, excerpt, json_text, parse_own_reply

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
        self._signal(signal.SIGTERM)

    def end(self) -> None:
        """Kill it and its child processes."""
        with self._ending:
            self.close_input()
            self._signal(signal.SIGKILL)  # also for children that outlive it
            self._process.wait()
            self._ended = True
            self.unsolicited_lines()  # makes room for the thread that reads them
            self._lines.put(None)  # for a thread that still waits for a line

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)  # it leads its group

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


# --- the system ------------------------------------------------------------------------------------------------------

_MAX_STRAY_LINES = 1000
"""How many lines that are not replies one call may produce before the process counts as broken."""
_STDERR_SHOWN = 1000


_ANSWER = re.compile(rb'\s*\{\s*["}]')
"""The beginning of a reply; a dictionary printed by Python has other quotes."""


class _CleanExitError(Exception):
    """A process that had replied before exited with code 0: the call is repeated with a new process."""


class CommandSystem:
    """Calls processes that stay alive between calls: each handles one request at a time, idle ones are reused.

    A request is ``{"sample_id", "query", "top_k", "history"?}``, a reply one line of an outputs file with the same
    ``sample_id``. Other lines are ignored as stray prints. ``command`` is run without a shell; a string is split as a
    shell would. ``env`` is added to this process's environment. ``timeout`` bounds a call in seconds.
    ``documents`` says that the program answers from ``documents`` where a request has that key.
    The first process is started at once, so that a command that cannot run is known before the first question.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        documents: bool = False,
        timeout: PositiveFloat | None = None,
        max_bytes: PositiveInt = 50_000_000,
    ) -> None:
        if os.name != "posix":
            raise BadValueError("a command as a system needs Linux or macOS; use an HTTP endpoint instead")
        self._command = _command_words(command)
        self._cwd = None if cwd is None else Path(cwd)
        self.takes_documents = documents
        """Whether a request may contain the documents to answer from."""
        # A Python program buffers what it prints into a pipe, and its replies would never arrive.
        self._env = {"PYTHONUNBUFFERED": "1", **os.environ, **_checked_env(env or {})}
        check_options(CommandSystem, {"timeout": timeout, "max_bytes": max_bytes})
        self._timeout, self._max_bytes = timeout, max_bytes
        self._lock = Lock()
        self._all: set[LineProcess] = set()
        self._idle: list[LineProcess] = []
        self._closed = False
        self._guard = GroupGuard()
        self._finalizer = weakref.finalize(self, terminate_all, self._all, self._guard)
        try:
            self._idle.append(self._start())
        except OSError as error:
            raise BadValueError(self._start_problem(error)) from None

    def __repr__(self) -> str:
        return f"CommandSystem({shlex.join(self._command)})"

    def run(
        self, sample: EvaluationSample, *, top_k: int = 5, documents: Sequence[Document] | None = None
    ) -> SystemOutputs:
        """Ask a process; ``SystemCallError`` says what went wrong and whether it may pass."""
        request = json_text(default_request(sample, top_k, documents)).encode() + b"\n"
        deadline = math.inf if self._timeout is None else time.monotonic() + self._timeout
        try:
            return self._call(self._take(), sample, request, deadline)
        except _CleanExitError:
            return self._call(self._fresh(), sample, request, deadline)

    def close(self) -> None:
        """End all processes: close their input, then terminate them, then kill them."""
        with self._lock:
            self._closed = True
            self._idle.clear()
        terminate_all(self._all, self._guard)

    def _call(self, process: LineProcess, sample: EvaluationSample, request: bytes, deadline: float) -> SystemOutputs:
        """Call one process; it is reused only if its output is still in step with the requests."""
        stray = _StrayLines()
        try:
            process.send(request)
            while not _ANSWER.match(line := process.line(deadline)):
                stray.add(line)
            output = parse_own_reply(line, sample, echoes_id=True)
        except BaseException as error:
            problem = self._problem(error, process, stray)
            self._end(process)
            raise problem from None
        process.answered += 1
        self._put(process)
        return output

    def _problem(self, error: BaseException, process: LineProcess, stray: _StrayLines) -> BaseException:
        """The exception for a failed call of a process. A retry uses a new process, so it may help."""
        if isinstance(error, ProcessEndedError):
            how = process.exit_text()
            if process.answered and process.exited_cleanly and not stray.count:
                return _CleanExitError()
            return SystemCallError("process_died", f"{how}{_stderr_excerpt(process)}{stray}", retry=True)
        if isinstance(error, TimeoutError):
            limit = f"no answer after {self._timeout:g} s; does it flush its output?"
            return SystemCallError("timeout", f"{limit}{_stderr_excerpt(process)}{stray}", retry=True)
        if isinstance(error, LineTooLongError):
            return SystemCallError("bad_output", f"a line of more than {self._max_bytes} bytes{stray}", retry=True)
        if isinstance(error, SystemCallError):
            return SystemCallError(error.reason, f"{error.message}{stray}", retry=True)
        return error

    def _take(self) -> LineProcess:
        """An idle process that is in step, or a new one."""
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return self._fresh()
            if process.is_alive and not _is_out_of_step(process):
                return process
            self._end(process)

    def _fresh(self) -> LineProcess:
        try:
            process = self._start()
        except OSError as error:
            raise SystemCallError("process_died", self._start_problem(error), retry=True) from None
        with self._lock:
            if not self._closed:
                return process
        self._end(process)
        raise SystemCallError("process_died", "the system was closed")

    def _start(self) -> LineProcess:
        process = LineProcess(self._command, self._cwd, self._env, self._max_bytes)
        self._all.add(process)
        self._guard.add(process.group)
        return process

    def _put(self, process: LineProcess) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(process)
                return
        self._end(process)

    def _end(self, process: LineProcess) -> None:
        process.end()
        self._all.discard(process)
        self._guard.discard(process.group)

    def _start_problem(self, error: OSError) -> str:
        program = self._command[0]
        if self._cwd is not None and not self._cwd.is_dir():
            return f"command: there is no folder {self._cwd} to run it in"
        if isinstance(error, FileNotFoundError):
            place = f"in {self._cwd or Path.cwd()}" if "/" in program else "on the PATH"
            return f"command: there is no program '{program}' {place}, or the interpreter it names is missing"
        if isinstance(error, PermissionError):
            return f"command: '{program}' may not be run; make it executable, or name its interpreter before it"
        return f"command: '{program}' cannot be started: {error.strerror or error}"


class _StrayLines:
    """Counts the lines that are not replies; its string is appended to messages."""

    def __init__(self) -> None:
        self.count, self._last = 0, b""

    def add(self, line: bytes) -> None:
        """Count a line; too many are an error."""
        if not line.strip():
            return
        self.count, self._last = self.count + 1, line
        if self.count > _MAX_STRAY_LINES:
            raise SystemCallError("bad_output", f"more than {_MAX_STRAY_LINES} lines, and no answer among them")

    def __str__(self) -> str:
        if not self.count:
            return ""
        return f" (lines passed over that are no JSON objects: {self.count}, the last: {excerpt(self._last)})"


def _is_out_of_step(process: LineProcess) -> bool:
    """Whether a process wrote unsolicited lines: its next line may belong to an earlier request."""
    try:
        return any(_ANSWER.match(line) for line in process.unsolicited_lines())
    except LineTooLongError:
        return True


def _stderr_excerpt(process: LineProcess) -> str:
    words = "\n".join(process.stderr_tail())
    return f"; last words: {words[-_STDERR_SHOWN:]}" if words else ""


def _command_words(command: object) -> list[str]:
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise BadValueError(f"command: {command!r:.100} cannot be split into words: {error}") from None
    elif isinstance(command, Sequence) and all(isinstance(word, str) for word in command):
        words = list(command)
    else:
        raise BadTypeError(f"command must be a string or a list of strings, not {command!r:.80}")
    if not words or not words[0]:
        raise BadValueError("command is empty; give a program and its arguments, such as 'python my_system.py'")
    if any("\0" in word for word in words):
        raise BadValueError("command holds a null character")
    return words


def _checked_env(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise BadValueError(f"env: {name!r:.80} is not a variable name")
        if not isinstance(value, str) or "\0" in value:
            raise BadTypeError(f"env: '{name}' must be a string; put it in quotes")
    return dict(env)
