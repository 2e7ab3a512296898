"""Calling a system for many tasks: outputs are delivered as they arrive, whatever the system does."""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty
from typing import Literal

from ..net.retry import Backoff, is_connection_error, is_transient
from .interfaces import System, as_system
from .workers import (
    MAX_CONNECTION_ERRORS,
    Attempt,
    Caller,
    CallPolicy,
    Inbox,
    InlineCaller,
    LoopCaller,
    Stop,
    Task,
    TaskOutput,
    ThreadCaller,
    make_output,
    timeout_error,
)

EndReason = Literal["done", "stopped", "max_failures", "hung", "connection_errors"]

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
    ``hung``: too many calls hang."""
    message: str = ""
    """Why it ended early."""


def call_system(
    system: object,
    tasks: Iterable[Task],
    policy: CallPolicy,
    deliver: Callable[[list[TaskOutput]], None],
    *,
    stop: Stop | None = None,
    total: int | None = None,
) -> CallSummary:
    """Call the system for every task and deliver the outputs as they arrive.

    ``system`` is whatever ``as_system`` takes. A plain one is called in threads, or, with a concurrency of 1 and no
    timeout, in this thread; an asynchronous one in an event loop of its own. ``tasks`` are drawn up to the concurrency
    limit. ``deliver`` is called in this thread with all outputs that arrived since its last call; only then are new
    tasks drawn, so that after a crash only calls in flight need to be repeated. Exceptions, invalid return values and
    timeouts of the system are outputs with an ``error``. An exception of ``deliver`` ends the calls. ``total`` is the
    number of tasks, if known.
    """
    return _CallLoop(as_system(system), iter(tasks), policy, deliver, stop or Stop(), total).run()


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
        self._stop, self._total = stop, total
        self._inbox: Inbox = Inbox()
        self._backoff = Backoff(policy)
        self._most_hung = max(64, 8 * policy.concurrency)
        self._in_flight: dict[Attempt, None] = {}  # in the order of their deadlines, since all have the same timeout
        self._retries_due: list[tuple[float, int, Attempt]] = []  # a heap by due time; the number breaks ties
        self._sequence = itertools.count()
        self._undelivered: list[TaskOutput] = []
        self._exhausted = False
        self._task_error: Exception | None = None
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
                self._start_due_retries(caller)
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

    def _start_due_retries(self, caller: Caller) -> None:
        while self._retries_due and self._retries_due[0][0] <= time.monotonic() and caller.stuck_at() is None:
            self._begin(heapq.heappop(self._retries_due)[2].next(), caller)

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
        self._undelivered.append(TaskOutput(attempt.task, make_output(attempt, self._system.called)))
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
        if complete:
            return CallSummary(self._delivered, self._failed, "done")
        if self._ended is not None:
            return CallSummary(self._delivered, self._failed, self._ended, self._message)
        of = "" if self._total is None else f" of {self._total}"
        return CallSummary(self._delivered, self._failed, "stopped", f"stopped after {self._delivered}{of} answers")
