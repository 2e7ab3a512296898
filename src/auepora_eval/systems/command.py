"""A system that is a command: it reads one line of JSON per sample and writes one line of JSON per output."""

from __future__ import annotations

import math
import os
import re
import shlex
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock

from ..core.types import Document, EvaluationSample, SystemOutputs
from ..errors import BadTypeError, BadValueError, SystemCallError
from ..options import PositiveFloat, PositiveInt, check_options
from ..runtime.line_process import (
    GroupGuard,
    LineProcess,
    LineTooLongError,
    ProcessEndedError,
    require_process_groups,
    terminate_all,
)
from .json_mapping import default_request, excerpt, json_text, parse_own_reply

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
        require_process_groups()
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
