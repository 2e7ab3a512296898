"""Workers that call a system: threads or an event loop, one attempt each, with a policy and a way to stop."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ..core.batch import output_problem
from ..core.types import STARTED, EvaluationSample, SystemOutputs, UnknownRanking
from ..errors import BadValueError, SystemCallError
from ..features.rankings import retrieved_problem
from ..options import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, check_options
from ..runtime.loop_thread import LoopThread
from ..runtime.processes import DaemonThreadPool
from ..runtime.secrets import ELLIPSIS
from .interfaces import GenerationFailedError, System

if TYPE_CHECKING:
    from .interfaces import System

# --- stopping from outside: from another thread, or by a signal ------------------------------------------------------


class Stop:
    """Stops ``call_system``: gracefully with ``finish``, at once with ``now``. Usable from any thread or signal.

    It holds no lock, so that a handler which interrupts one of its own methods cannot wait for itself.
    """

    __slots__ = ("_finishing", "_inboxes", "_inline_thread", "_leaving")

    def __init__(self) -> None:
        self._finishing = self._leaving = False
        self._inboxes: tuple[SimpleQueue[Any], ...] = ()
        self._inline_thread: int | None = None

    @property
    def finishing(self) -> bool:
        """Whether no new call may be started."""
        return self._finishing

    @property
    def listening(self) -> bool:
        """Whether a ``call_system`` is running that could be stopped."""
        return bool(self._inboxes) or self._inline_thread is not None

    @property
    def leaving(self) -> bool:
        """Whether calls in flight are not waited for either."""
        return self._leaving

    def finish(self) -> None:
        """Start no new call; wait for those in flight and deliver them."""
        self._finishing = True
        self._wake()

    def now(self) -> None:
        """Stop at once; calls in flight are abandoned.

        A call in the calling thread itself can only be interrupted from there: a signal handler that stops during one
        raises ``KeyboardInterrupt`` through it, which ``call_system`` handles.
        """
        self._finishing = self._leaving = True
        self._wake()
        if self._inline_thread == threading.get_ident():
            raise KeyboardInterrupt

    def _wake(self) -> None:
        for inbox in self._inboxes:
            inbox.put(None)

    @contextmanager
    def waking(self, inbox: SimpleQueue[Any]) -> Iterator[None]:
        """While inside, ``None`` is put into the inbox when the calls are to stop."""
        self._inboxes = (*self._inboxes, inbox)
        try:
            yield
        finally:
            self._inboxes = tuple(one for one in self._inboxes if one is not inbox)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """While inside, ``now`` from a signal handler of this thread raises ``KeyboardInterrupt``."""
        self._inline_thread = threading.get_ident()
        try:
            yield
        finally:
            self._inline_thread = None


# --- tasks, their outputs, and the call policy: concurrency, timeout, retries ----------------------------------------

MAX_CONNECTION_ERRORS = 20
"""After this many connection errors in a row the system counts as unreachable."""


@dataclass(frozen=True, slots=True)
class Task:
    """One call to make: a sample, its position in the dataset, and the number of the repeat."""

    position: int
    sample: EvaluationSample
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The output for a task. A failure is an output with an ``error``."""

    task: Task
    output: SystemOutputs


@dataclass(frozen=True, slots=True)
class CallPolicy:
    """How a system is called."""

    top_k: PositiveInt = 5
    """How many documents to retrieve."""
    concurrency: PositiveInt = 1
    """How many calls may be in flight."""
    timeout: PositiveFloat | None = None
    """Seconds one call may take; ``None`` waits for ever."""
    retries: NonNegativeInt = 0
    """How often a call that failed for a transient reason is retried."""
    backoff: NonNegativeFloat = 0.5
    """Seconds before the first retry; each further one waits twice as long, up to a minute."""
    max_failures: NonNegativeInt | None = None
    """Stop once more samples than this have failed; ``None`` never stops."""
    keep_going: bool = True
    """Go on after ``CONNECTION_ERRORS`` connection errors in a row. Runs that can be resumed stop by default."""

    def __post_init__(self) -> None:
        check_options(self)

    def stored(self) -> dict[str, Any]:
        """The policy as a plan stores it; ``keep_going`` is left out where it is not set."""
        return {key: value for key, value in asdict(self).items() if key != "keep_going" or value}


# --- one attempt at one task: start time, duration, and result or error ----------------------------------------------


class Attempt:
    """One call of the system. Filled in by the caller's thread, read by the main thread once it is in the inbox."""

    __slots__ = ("_begun", "abandoned", "deadline", "elapsed", "error", "handle", "number", "started", "task", "value")

    def __init__(self, task: Task, number: int = 1) -> None:
        self.task = task
        self.number = number
        """1 for the first call, 2 for the first retry."""
        self.deadline = float("inf")
        """On the clock of ``time.monotonic``."""
        self.abandoned = False
        """Set by the main thread once it no longer waits; a later result is dropped."""
        self.started = time.time()
        self.elapsed = 0.0
        self.value: Any = None
        self.error: BaseException | None = None
        self.handle: Any = None
        """What the caller needs to cancel it."""
        self._begun = 0.0

    def next(self) -> Attempt:
        """The retry of this attempt."""
        return Attempt(self.task, self.number + 1)

    @property
    def has_begun(self) -> bool:
        """Whether the call was started."""
        return self._begun > 0

    @contextmanager
    def _measure(self) -> Iterator[None]:
        """Record the start time, the duration and any exception, an exit or an interrupt too."""
        self.started = time.time()
        self._begun = time.perf_counter()
        try:
            yield
        except BaseException as error:  # the user's code may raise anything; it is recorded as the output
            self.error = error
        self.elapsed = time.perf_counter() - self._begun

    def execute(self, system: System, top_k: int) -> None:
        """Call a system that is not asynchronous."""
        with self._measure():
            self.value = system.call(self.task.sample, top_k)

    async def execute_async(self, system: System, top_k: int) -> None:
        """The same for an asynchronous system."""
        with self._measure():
            self.value = await system.call(self.task.sample, top_k)


# --- callers for plain systems: in the calling thread itself, or in daemon threads -----------------------------------

Inbox = SimpleQueue[Attempt | None]
"""The queue of finished attempts; ``None`` only wakes the reader."""


class Caller(ABC):
    """Executes attempts and returns each through the inbox. Used by the main thread alone."""

    def __init__(self, system: System, top_k: int, inbox: Inbox) -> None:
        self._system, self._top_k, self._inbox = system, top_k, inbox

    @abstractmethod
    def start(self, attempt: Attempt) -> None:
        """Start an attempt."""

    def abandon(self, attempt: Attempt) -> None:
        """Stop waiting for it; if it finishes after all, it arrives in the inbox too."""
        attempt.abandoned = True

    def stuck_at(self) -> float | None:
        """When, on the monotonic clock, the caller counts as blocked unless it responds; ``None`` if all is well.

        Until then no new attempt is started.
        """
        return None

    def close(self, *, graceful: bool) -> None:  # noqa: B027 -- most callers have something to release
        """Release everything without waiting for calls that hang; ``graceful`` if nothing is in flight."""


class InlineCaller(Caller):
    """Calls in the calling thread, one after the other: objects bound to that thread keep working."""

    def __init__(self, system: System, top_k: int, inbox: Inbox, stop: Stop) -> None:
        super().__init__(system, top_k, inbox)
        self._stop = stop

    def start(self, attempt: Attempt) -> None:
        """Execute it in this thread."""
        with self._stop.interrupting():
            attempt.execute(self._system, self._top_k)
        if isinstance(attempt.error, KeyboardInterrupt):
            raise attempt.error  # in this thread it is the user's own
        self._inbox.put(attempt)


class ThreadCaller(Caller):
    """Calls in daemon threads, as many as there are calls in flight.

    A thread cannot be stopped. That of an abandoned call is left behind until the call ends, and holds up neither the
    others nor the end of the process.
    """

    def __init__(self, system: System, top_k: int, inbox: Inbox) -> None:
        super().__init__(system, top_k, inbox)
        self._pool = DaemonThreadPool()

    def start(self, attempt: Attempt) -> None:
        """Give it to an idle thread, or to a new one."""
        try:
            done = self._pool.submit(attempt.execute, self._system, self._top_k)
        except RuntimeError as error:
            raise BadValueError(f"no more threads can be started here ({error}); lower the concurrency") from error
        done.add_done_callback(lambda _: self._inbox.put(attempt))

    def close(self, *, graceful: bool) -> None:
        """End threads as they become idle."""
        self._pool.shutdown()


# --- the caller for asynchronous systems: one event loop in a thread of its own --------------------------------------

GRACE = 3.0
"""Seconds after a deadline within which the loop must respond, or counts as blocked.

If calls may take longer than this it has as long as one call: coroutines that compute without yielding delay each
other, but the loop continues.
"""


class LoopCaller(Caller):
    """Calls as coroutines of one event loop, which runs in a thread of its own; thousands may be in flight.

    An abandoned call is cancelled. One that ignores this is left behind.
    """

    def __init__(self, system: System, top_k: int, inbox: Inbox, *, threads: int, timeout: float | None) -> None:
        super().__init__(system, top_k, inbox)
        self._thread = LoopThread(threads=threads)
        self._loop = self._thread.loop
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks only weakly
        self._max_delay = max(GRACE, timeout or 0.0)
        self._alive_at = 0.0
        self._probe_sent_at: float | None = None

    def start(self, attempt: Attempt) -> None:
        """Have the loop make a task of it."""
        self._loop.call_soon_threadsafe(self._launch, attempt)

    def _launch(self, attempt: Attempt) -> None:
        if not attempt.abandoned:
            task = self._loop.create_task(self._carry_out(attempt))
            attempt.handle = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, attempt: Attempt) -> None:
        self._alive_at = time.monotonic()
        await attempt.execute_async(self._system, self._top_k)
        self._alive_at = time.monotonic()
        self._inbox.put(attempt)

    def abandon(self, attempt: Attempt) -> None:
        """Cancel it, and check whether the loop still responds."""
        super().abandon(attempt)
        if self._probe_sent_at is None:
            self._probe_sent_at = time.monotonic()
        self._loop.call_soon_threadsafe(self._cancel, attempt)

    def _cancel(self, attempt: Attempt) -> None:
        if self._probe_sent_at is not None:
            self._probe_sent_at = None
            self._inbox.put(None)
        if attempt.handle is not None:
            attempt.handle.cancel()
        if not attempt.has_begun:  # then it never will, and is back already
            self._inbox.put(attempt)

    def stuck_at(self) -> float | None:
        """The time at which the loop counts as blocked; ``None`` if it has answered the last probe."""
        sent_at = self._probe_sent_at
        return None if sent_at is None else max(sent_at, self._alive_at) + self._max_delay

    def close(self, *, graceful: bool) -> None:
        """Cancel remaining tasks and end the loop; waits only if nothing can hang."""
        self._thread.close(wait=graceful)


# --- the recorded output of an attempt: the system's output, checked and completed, or the error ---------------------

_LONGEST_MESSAGE = 2_000


def timeout_error(seconds: float) -> SystemCallError:
    """The error of a call past its deadline; a retry may help."""
    return SystemCallError("timeout", f"no answer within {seconds:g} s", retry=True)


def make_output(attempt: Attempt, called: str) -> SystemOutputs:
    """The output of a finished attempt, as a copy; a failure has an ``error``."""
    output = _check_output(attempt, called) if attempt.error is None else _failure(attempt.error)
    timings = {"end_to_end": attempt.elapsed, STARTED: attempt.started, **output.timings}
    extra = dict(output.extra)
    if attempt.number > 1:
        extra["attempts"] = attempt.number
    # A system may return the same object twice, or change it later.
    retrieved = UnknownRanking() if isinstance(output.retrieved, UnknownRanking) else list(output.retrieved)
    return replace(output, retrieved=retrieved, timings=timings, extra=extra, repeat=attempt.task.repeat)


def _check_output(attempt: Attempt, called: str) -> SystemOutputs:
    output = attempt.value
    problem = output_problem(output) or retrieved_problem(output) or _further_problem(output)
    if problem is None:
        owner = output.extra.get("sample_id")
        if owner is None or str(owner) == attempt.task.sample.sample_id:
            return output  # type: ignore[no-any-return]
        problem = f"is the result of sample {str(owner)!r:.200}"
    if inspect.iscoroutine(output):
        output.close()  # or Python would warn that it was never awaited
        problem += "; what gives a coroutine must be an 'async def'"
    return SystemOutputs([], error=_storable_text(f"bad_output: what {called} returned {problem}"))


def _further_problem(output: SystemOutputs) -> str | None:
    for name, kinds, expected in (
        ("extra", Mapping, "a dict"),
        ("usage", Mapping, "a dict"),
        ("steps", (list, tuple), "a list"),
        ("citations", (list, tuple, type(None)), "a list of ids (or None)"),
        ("refused", (bool, type(None)), "a bool (or None)"),
    ):
        value: Any = getattr(output, name)
        if not isinstance(value, kinds):
            return f"has {value!r:.200} as '{name}', not {expected}"
    return None


def _failure(error: BaseException) -> SystemOutputs:
    if isinstance(error, GenerationFailedError):
        return replace(error.output, error=_failure(error.cause).error)
    if isinstance(error, SystemCallError):
        return SystemOutputs([], error=_storable_text(_message(error)))
    message = _message(error)
    return SystemOutputs([], error=_storable_text(f"raised: {type(error).__name__}{': ' if message else ''}{message}"))


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as trouble:  # an exception whose message raises must not become a second one
        return f"(its message cannot be had: {type(trouble).__name__})"


def _storable_text(text: str) -> str:
    """A string that every store accepts, cut to a maximal length."""
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + ELLIPSIS
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
