"""Calls of a system with concurrency, timeouts and retries, in threads or as coroutines, and the evaluator."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
import logging
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, Literal

from ..core.batch import check_samples, output_problem, require_distinct_ids
from ..core.conventions import Conventions
from ..core.dataset import EvaluationDataset
from ..core.metrics_base import BatchMetric, Metric, RunInfo
from ..core.plan import EvaluationPlan
from ..core.registry import Spec
from ..core.results import Results
from ..core.slices import Slice, SliceSpec, parse_slices, require_slice_values
from ..core.types import STARTED, EvaluationSample, SystemOutputs, UnknownRanking
from ..engine.evaluate import Progress, evaluate, resolve_metrics
from ..engine.gold_match import MatchChoice, resolve_gold_match
from ..errors import AueporaWarning, BadValueError, SystemCallError
from ..features.rankings import retrieved_problem
from ..net.retry import Backoff, is_connection_error, is_transient
from ..runtime.processes import DaemonThreadPool, LoopThread
from ..runtime.secrets import ELLIPSIS
from .interfaces import GenerationFailedError, System, as_system
from .policy import CallPolicy, FirstCalls, policy_class, without_wrapper

# --- stopping from outside: from another thread, or by a signal ------------------------------------------------------


class Stop:
    """Stops ``call_system``: gracefully with ``finish``, at once with ``now``. Usable from any thread or signal.

    It holds no lock, so that a handler which interrupts one of its own methods cannot wait for itself.
    """

    __slots__ = ("_inboxes", "_inline_thread", "finishing", "leaving")

    def __init__(self) -> None:
        self.finishing = False
        """Whether no new call may be started."""
        self.leaving = False
        """Whether calls in flight are not waited for either."""
        self._inboxes: tuple[SimpleQueue[Any], ...] = ()
        self._inline_thread: int | None = None

    @property
    def listening(self) -> bool:
        """Whether a ``call_system`` is running that could be stopped."""
        return bool(self._inboxes) or self._inline_thread is not None

    def finish(self) -> None:
        """Start no new call; wait for those in flight and deliver them."""
        self.finishing = True
        self._wake()

    def now(self) -> None:
        """Stop at once; calls in flight are abandoned.

        A call in the calling thread itself can only be interrupted from there: a signal handler that stops during one
        raises ``KeyboardInterrupt`` through it, which ``call_system`` handles.
        """
        self.finishing = self.leaving = True
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
            self._inboxes = tuple(known for known in self._inboxes if known is not inbox)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """While inside, ``now`` from a signal handler of this thread raises ``KeyboardInterrupt``."""
        self._inline_thread = threading.get_ident()
        try:
            yield
        finally:
            self._inline_thread = None


# --- tasks and their outputs ------------------------------------------------------------------------------------------

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


# --- one attempt at one task: start time, duration, and result or error ----------------------------------------------


class Attempt:
    """One call of the system. Filled in by the caller's thread, read by the main thread once it is in the inbox."""

    __slots__ = ("abandoned", "begun", "deadline", "elapsed", "error", "handle", "number", "started", "task", "value")

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
        self.begun = 0.0
        """When the call was started, on the clock of ``time.perf_counter``; 0 before."""

    @contextmanager
    def _measure(self) -> Iterator[None]:
        """Record the start time, the duration and any exception, an exit or an interrupt too."""
        self.started = time.time()
        self.begun = time.perf_counter()
        try:
            yield
        except BaseException as error:  # the user's code may raise anything; it is recorded as the output
            self.error = error
        self.elapsed = time.perf_counter() - self.begun

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
        if not attempt.begun:  # then it never will, and is back already
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


# --- the loop over all tasks: outputs are delivered as they arrive, whatever the system does -------------------------

EndReason = Literal["done", "stopped", "max_failures", "hung", "connection_errors", "same_error"]

_MAX_WAIT = 1.0  # seconds; some platforms handle Ctrl-C only between two waits
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallSummary:
    """The outcome of ``call_system``."""

    delivered: int
    """How many outputs were delivered, failures included."""
    failed: int
    """How many of them were failures."""
    ended: EndReason
    """``done``: every task has an output. ``stopped``: by the caller. ``max_failures``: too many outputs failed.
    ``connection_errors``: too many calls in a row could not connect, so the system counts as unreachable.
    ``hung``: too many calls hang. ``same_error``: the first calls all failed in the same way."""
    message: str = ""
    """Why it ended early."""
    traceback: str = ""
    """The traceback of the user's code, where the first calls all failed in the same way."""


def call_system(
    system: object,
    tasks: Iterable[Task],
    policy: CallPolicy,
    deliver: Callable[[list[TaskOutput]], None],
    *,
    stop: Stop | None = None,
    total: int | None = None,
    first_calls: int = 0,
) -> CallSummary:
    """Call the system for every task and deliver the outputs as they arrive.

    ``system`` is whatever ``as_system`` takes. A plain one is called in threads, or, with a concurrency of 1 and no
    timeout, in this thread; an asynchronous one in an event loop of its own. ``tasks`` are drawn up to the concurrency
    limit. ``deliver`` is called in this thread with all outputs that arrived since its last call; only then are new
    tasks drawn, so that after a crash only calls in flight need to be repeated. Exceptions, invalid return values and
    timeouts of the system are outputs with an ``error``. An exception of ``deliver`` ends the calls. ``total`` is the
    number of tasks, if known. The calls end early if the first ``first_calls`` of them all fail in the same way.
    """
    loop = _CallLoop(as_system(system), iter(tasks), policy, deliver, stop=stop or Stop(), total=total)
    loop.first_calls = FirstCalls(first_calls)
    return loop.run()


class _CallLoop:
    """The state of one ``call_system``. It belongs to the calling thread; others only put attempts into the inbox."""

    def __init__(
        self,
        system: System,
        tasks: Iterator[Task],
        policy: CallPolicy,
        deliver: Callable[[list[TaskOutput]], None],
        stop: Stop,
        total: int | None,
    ) -> None:
        self._system, self._tasks, self._policy, self._deliver = system, tasks, policy, deliver
        self._stop, self._total, self.first_calls = stop, total, FirstCalls(0)
        self._inbox: Inbox = Inbox()
        self._backoff = Backoff(policy)
        self._most_hung = max(64, 8 * policy.concurrency)
        self._in_flight: dict[Attempt, None] = {}  # in the order of their deadlines, since all have the same timeout
        self._retries_due: list[tuple[float, int, Attempt]] = []  # a heap by due time; the number breaks ties
        self._sequence = itertools.count()
        self._undelivered: list[TaskOutput] = []
        self._exhausted = False
        self._task_error: BaseException | None = None
        self._ended: EndReason | None = None
        self._message = ""
        self._hung = self._delivered = self._failed = self._dropped = self._connection_errors = 0

    def run(self) -> CallSummary:
        """Call the system until all tasks are done or the loop ends early."""
        caller = self._caller()
        graceful = False
        try:
            with self._stop.waking(self._inbox):
                self._loop(caller)
            graceful = not self._in_flight and self._ended != "hung"
        except KeyboardInterrupt:
            if not self._stop.leaving:
                raise
        finally:
            caller.close(graceful=graceful)
        if self._task_error is not None:
            raise self._task_error
        return self._summary()

    def _caller(self) -> Caller:
        policy = self._policy
        if self._system.load is not None:
            self._system.load()
        if self._system.is_async:
            threads = self._most_hung + max(32, policy.concurrency)
            return LoopCaller(self._system, policy.top_k, self._inbox, threads=threads, timeout=policy.timeout)
        if policy.concurrency == 1 and policy.timeout is None:
            return InlineCaller(self._system, policy.top_k, self._inbox, self._stop)
        return ThreadCaller(self._system, policy.top_k, self._inbox)

    @property
    def _closing(self) -> bool:
        return self._ended is not None or self._task_error is not None or self._stop.finishing

    def _loop(self, caller: Caller) -> None:
        while not self._stop.leaving:
            if self._closing:
                self._dropped += len(self._retries_due)  # called again when the run resumes
                self._retries_due.clear()
            else:
                while self._retries_due and self._retries_due[0][0] <= time.monotonic() and caller.stuck_at() is None:
                    failed = heapq.heappop(self._retries_due)[2]
                    self._begin(Attempt(failed.task, failed.number + 1), caller)
                self._start_tasks(caller)
            if not self._in_flight and not self._retries_due and (self._exhausted or self._closing):
                return
            self._collect(self._wait_seconds(caller))
            self._abandon_late_calls(caller)
            self._deliver_answers()
        self._collect(0)
        self._deliver_answers()

    def _start_tasks(self, caller: Caller) -> None:
        """Start tasks up to the concurrency limit."""
        while len(self._in_flight) + len(self._retries_due) < self._policy.concurrency and caller.stuck_at() is None:
            if self._stop.finishing or self._exhausted:
                return
            try:
                task = next(self._tasks)
            except StopIteration:
                self._exhausted = True
                return
            except Exception as error:  # raised after the calls in flight were delivered
                self._task_error = error
                return
            self._begin(Attempt(task), caller)

    def _begin(self, attempt: Attempt, caller: Caller) -> None:
        if self._policy.timeout is not None:
            attempt.deadline = time.monotonic() + self._policy.timeout
        self._in_flight[attempt] = None
        caller.start(attempt)

    def _wait_seconds(self, caller: Caller) -> float:
        """How long to wait for the next finished attempt before there is something else to do."""
        soonest = time.monotonic() + _MAX_WAIT
        if self._policy.timeout is not None and self._in_flight:
            soonest = min(soonest, next(iter(self._in_flight)).deadline)
        stuck_at = caller.stuck_at()
        if stuck_at is not None:
            soonest = min(soonest, stuck_at)
        elif self._retries_due:
            soonest = min(soonest, self._retries_due[0][0])
        return max(0.0, soonest - time.monotonic())

    def _collect(self, nap: float) -> None:
        """Take all finished attempts, waiting up to ``nap`` seconds for the first."""
        try:
            attempt = self._inbox.get(timeout=nap)
            while True:
                if attempt is not None:
                    self._take_attempt(attempt)
                attempt = self._inbox.get_nowait()
        except Empty:
            return

    def _take_attempt(self, attempt: Attempt) -> None:
        if attempt.abandoned:
            self._hung -= 1
            return
        del self._in_flight[attempt]
        if self._policy.timeout is not None and attempt.elapsed > self._policy.timeout:
            attempt.error = timeout_error(self._policy.timeout)
        self._finish_attempt(attempt)

    def _finish_attempt(self, attempt: Attempt, *, final: bool = False) -> None:
        """Retry a finished attempt, or make an output of it."""
        error = attempt.error
        if error is not None:
            _log.debug("sample %r, attempt %d", attempt.task.sample.sample_id, attempt.number, exc_info=error)
            if self._stop.leaving:  # perhaps because of the stop; called again when the run resumes
                self._dropped += 1
                return
            if not final and attempt.number <= self._policy.retries and is_transient(error):
                due = time.monotonic() + self._backoff.delay(attempt.number, error)
                # If no new call is started any more, this is dropped with the other retries.
                heapq.heappush(self._retries_due, (due, next(self._sequence), attempt))
                return
        output = make_output(attempt, self._system.called)
        self._undelivered.append(TaskOutput(attempt.task, output))
        if self._policy.raises and error is not None and self._task_error is None:
            self._task_error = without_wrapper(error)
        if self.first_calls.all_fail(output, error) and self._ended is None:
            self._ended, self._message = "same_error", f"stopped: {self.first_calls.message}"
        self._connection_errors = 0 if error is None or not is_connection_error(error) else self._connection_errors + 1
        if self._connection_errors == MAX_CONNECTION_ERRORS and self._ended is None and not self._policy.keep_going:
            self._ended = "connection_errors"
            self._message = (
                f"stopped after {MAX_CONNECTION_ERRORS} connection errors in a row; the last one: "
                f"{self._undelivered[-1].output.error}"
            )

    def _abandon_late_calls(self, caller: Caller) -> None:
        if self._policy.timeout is None:
            return
        now = time.monotonic()
        stuck_at = caller.stuck_at()
        loop_is_blocked = stuck_at is not None and stuck_at <= now
        while self._in_flight:
            attempt = next(iter(self._in_flight))
            if attempt.deadline > now and not loop_is_blocked:
                break
            del self._in_flight[attempt]
            caller.abandon(attempt)
            self._hung += 1
            attempt.error = timeout_error(self._policy.timeout)
            attempt.elapsed = max(0.0, self._policy.timeout + now - attempt.deadline)
            self._finish_attempt(attempt, final=loop_is_blocked)
        if self._ended is not None:
            return
        if loop_is_blocked:
            for *_, attempt in self._retries_due:  # a retry would block again
                self._finish_attempt(attempt, final=True)
            self._retries_due.clear()
            self._ended = "hung"
            self._message = (
                "the event loop is blocked by a coroutine that does not yield; the system cannot be called any more"
            )
        elif self._hung > self._most_hung:
            self._ended = "hung"
            self._message = f"{self._hung} calls hang that were given up after {self._policy.timeout:g} s each"

    def _deliver_answers(self) -> None:
        if not self._undelivered:
            return
        answers, self._undelivered = self._undelivered, []
        self._deliver(answers)
        self._delivered += len(answers)
        self._failed += sum(answer.output.error is not None for answer in answers)
        most = self._policy.max_failures
        if self._ended is None and most is not None and self._failed > most:
            self._ended = "max_failures"
            last = next(a.output.error for a in reversed(answers) if a.output.error is not None)
            self._message = (
                f"stopped after {self._failed} of {self._delivered} answers failed (max_failures is {most}); "
                f"the last error: {last}"
            )

    def _summary(self) -> CallSummary:
        left_over = bool(self._in_flight or self._retries_due or self._dropped)
        complete = not left_over and (self._exhausted or self._delivered == self._total)
        if complete and self._ended != "same_error":
            return CallSummary(self._delivered, self._failed, "done")
        if self._ended is not None:
            found = self.first_calls.traceback if self._ended == "same_error" else ""
            return CallSummary(self._delivered, self._failed, self._ended, self._message, found)
        of = "" if self._total is None else f" of {self._total}"
        return CallSummary(self._delivered, self._failed, "stopped", f"stopped after {self._delivered}{of} answers")


# --- the evaluator: calls a system for each sample of a dataset and scores the outputs by a plan ---------------------


class AueporaEvaluator:
    """Runs a system on a dataset and evaluates a plan on the outputs.

    ``system`` is an object with ``run(sample, *, top_k)``, plain or ``async def``, with ``arun``, with ``retrieve`` and
    ``generate``, a pair of a retriever and a generator, or a function like ``run``. Up to ``concurrency`` calls are in
    flight; one that takes longer than ``timeout`` seconds has failed; one that fails with a transient error
    is repeated up to ``retries`` times; after more than ``max_failures`` failures no further calls are made. With a
    concurrency of 1 and no timeout a plain system is called in the thread that evaluates. ``match``: see ``evaluate``.

    After ``evaluate`` the samples, outputs and results are attributes of the evaluator.

    Example:
        >>> evaluator = AueporaEvaluator(system, ["recall@1", "token_f1"], top_k=1)
        >>> evaluator.evaluate(InMemoryDataset("two", samples)).by_name["recall@1"].value
        0.5
        >>> [output.response.text for output in evaluator.outputs]
        ['Ada Lovelace', 'Ada Lovelace']
    """

    def __init__(
        self,
        system: object,
        plan: EvaluationPlan | Sequence[Spec | Metric],
        *,
        top_k: int = 5,
        conventions: str | Conventions = "auepora",
        concurrency: int = 1,
        timeout: float | None = None,
        retries: int = 0,
        max_failures: int | None = None,
        match: MatchChoice | None = None,
        on_error: Literal["record", "raise"] = "record",
    ) -> None:
        self.policy = policy_class(on_error)(
            top_k=top_k, concurrency=concurrency, timeout=timeout, retries=retries, max_failures=max_failures
        )
        resolve_gold_match((), Conventions.of(conventions), match or "id")  # an impossible choice is an error
        self.match = match
        self.system = system
        self._asked = as_system(system)
        self.plan = plan
        self.top_k = top_k
        self.conventions = conventions
        self.samples: list[EvaluationSample] = []
        self.outputs: list[SystemOutputs] = []
        self.results: Results = Results()

    def evaluate(
        self,
        dataset: EvaluationDataset,
        *,
        slices: Iterable[SliceSpec] | SliceSpec = (),
        progress: Progress | None = None,
    ) -> Results:
        """Check the plan against the dataset, run the system on every sample, score.

        A sample on which the system raises, or returns something else than ``SystemOutputs``, is a recorded failure,
        and the run continues; with ``on_error="raise"`` the exception is raised. ``progress`` is called with 1 after
        each sample.
        """
        samples = list(dataset)
        metrics = resolve_metrics(self.plan, self.conventions)
        groups = check_before_calls(samples, metrics, slices)
        _warn_if_too_deep(metrics, self.top_k)
        self.samples, self.outputs, self.results = samples, [], Results()
        self.outputs = self._ask(samples, progress)
        failed = [output.error for output in self.outputs if output.error is not None]
        if failed:
            warnings.warn(
                f"the system failed on {len(failed)} of {len(samples)} samples; the first error: {failed[0]}",
                AueporaWarning,
                stacklevel=2,
            )
        self.results = evaluate(
            samples,
            self.outputs,
            metrics,
            conventions=self.conventions,
            slices=groups,
            run=RunInfo(top_k=self.top_k, concurrency=self.policy.concurrency),
            match=self.match,
        )
        return self.results

    def _ask(self, samples: Sequence[EvaluationSample], progress: Progress | None) -> list[SystemOutputs]:
        """The output of the system for each sample, in the order of the samples."""
        outputs: dict[int, SystemOutputs] = {}

        def keep(answers: list[TaskOutput]) -> None:
            for answer in answers:
                outputs[answer.task.position] = answer.output
                if progress is not None:
                    progress(1)

        tasks = (Task(position, sample) for position, sample in enumerate(samples))
        summary = call_system(self._asked, tasks, self.policy, keep, total=len(samples))
        if summary.ended != "done":
            warnings.warn(f"not every sample was asked: {summary.message}", AueporaWarning, stacklevel=3)
        why = f"stopped after {summary.failed} failures" if summary.ended == "max_failures" else summary.message
        every = range(len(samples))
        outputs |= {place: SystemOutputs([], error=f"not_asked: {why}") for place in every if place not in outputs}
        return [outputs[place] for place in every]


def check_before_calls(
    samples: Sequence[EvaluationSample], metrics: Sequence[Metric], slices: Iterable[SliceSpec] | SliceSpec
) -> list[Slice]:
    """Check samples and metrics before the first call of a system; returns the slices."""
    check_samples(samples)
    require_distinct_ids(samples)
    groups = parse_slices(slices)
    EvaluationPlan(list(metrics)).validate_dataset(samples)
    require_slice_values(groups, samples)
    require_ready(metrics)
    return groups


def require_ready(metrics: Iterable[Metric]) -> None:
    """Raise where a package or a model that a metric needs is missing, before any call of the system."""
    for metric in metrics:
        if isinstance(metric, BatchMetric):
            metric.require_ready()


def _warn_if_too_deep(metrics: Sequence[Metric], top_k: int) -> None:
    deep = [metric.name for metric in metrics if isinstance(k := getattr(metric, "k", None), int) and k > top_k]
    if deep:
        warnings.warn(
            f"{', '.join(deep)}: the system is asked for top_k={top_k} documents, fewer than the cut-off; "
            "the signature carries the depth. Raise top_k to measure as named.",
            AueporaWarning,
            stacklevel=3,
        )
