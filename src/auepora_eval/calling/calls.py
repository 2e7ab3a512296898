"""Asking a system: tasks go out, answers are delivered as they arrive, whatever the system does."""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty
from typing import Literal

from .attempt import Attempt
from .callers import Caller, Inbox, InlineCaller, ThreadCaller
from .loops import LoopCaller
from .outcome import make_output, timeout_error
from .policy import MAX_CONNECTION_ERRORS, CallPolicy, Task, TaskOutput
from .retry import Backoff, is_connection_error, is_transient
from .stop import Stop
from .systems import System, as_system

__all__ = ["CallSummary", "EndReason", "call_system"]

EndReason = Literal["done", "stopped", "max_failures", "hung", "connection_errors"]

_MAX_WAIT = 1.0  # seconds; some platforms notice Ctrl-C only between two waits
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallSummary:
    """What became of an asking."""

    delivered: int
    """How many answers were delivered, failures included."""
    failed: int
    """How many of them were failures."""
    ended: EndReason
    """``done``: every task was answered. ``stopped``: somebody asked for it. ``max_failures``: too many answers failed.
    ``connection_errors``: so many calls in a row could not connect that the system is taken to be unreachable.
    ``hung``: so many calls hang that going on is hopeless."""
    message: str = ""
    """Why it ended early, in words."""


def call_system(
    system: object,
    tasks: Iterable[Task],
    policy: CallPolicy,
    deliver: Callable[[list[TaskOutput]], None],
    *,
    stop: Stop | None = None,
    total: int | None = None,
) -> CallSummary:
    """Ask the system for every task and deliver the answers as they arrive.

    ``system`` is whatever ``as_system`` takes. A plain one is called in threads, or, where one call at a time is wanted
    and none has a deadline, in this thread; an asynchronous one in an event loop of its own. ``tasks`` are taken as
    places come free. ``deliver`` is called in this thread with everything that arrived since it was last called; places
    are free once it has returned, so that after a crash only calls in flight need to be repeated. What the system
    raises, returns by mistake or never returns is an answer too, with an ``error``. What ``deliver`` raises ends the
    asking. ``total`` says how many tasks there are, where that is known.
    """
    return _CallLoop(as_system(system), iter(tasks), policy, deliver, stop or Stop(), total).run()


class _CallLoop:
    """The state of one asking. All of it belongs to the asking thread; others only put attempts into the inbox."""

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
        self._waits = Backoff(policy)
        self._most_hung = max(64, 8 * policy.concurrency)
        self._in_flight: dict[Attempt, None] = {}  # in the order of their deadlines, since all have the same time
        self._to_repeat: list[tuple[float, int, Attempt]] = []  # what failed; a heap by when, the number settles ties
        self._ticket = itertools.count()
        self._arrived: list[TaskOutput] = []
        self._exhausted = False
        self._broken: Exception | None = None
        self._ended: EndReason | None = None
        self._message = ""
        self._hung = self._delivered = self._failed = self._dropped = self._connection_errors = 0

    def run(self) -> CallSummary:
        """Ask until done or ended."""
        caller = self._caller()
        graceful = False
        try:
            with self._stop.waking(self._inbox):
                self._go_on(caller)
            graceful = not self._in_flight and self._ended != "hung"
        except KeyboardInterrupt:
            if not self._stop.leaving:
                raise
        finally:
            caller.close(graceful=graceful)
        if self._broken is not None:
            raise self._broken
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
        return self._ended is not None or self._broken is not None or self._stop.finishing

    def _go_on(self, caller: Caller) -> None:
        while not self._stop.leaving:
            if self._closing:
                self._dropped += len(self._to_repeat)  # whoever resumes asks them again
                self._to_repeat.clear()
            else:
                self._repeat_what_is_due(caller)
                self._fill(caller)
            if not self._in_flight and not self._to_repeat and (self._exhausted or self._closing):
                return
            self._collect(self._nap(caller))
            self._give_up_what_is_late(caller)
            self._hand_over()
        self._collect(0)
        self._hand_over()

    def _fill(self, caller: Caller) -> None:
        """Take tasks while there are free places."""
        while len(self._in_flight) + len(self._to_repeat) < self._policy.concurrency and caller.stuck_at() is None:
            if self._stop.finishing or self._exhausted:
                return
            try:
                task = next(self._tasks)
            except StopIteration:
                self._exhausted = True
                return
            except Exception as error:  # what is in flight is still delivered before this is raised
                self._broken = error
                return
            self._begin(Attempt(task), caller)

    def _begin(self, attempt: Attempt, caller: Caller) -> None:
        if self._policy.timeout is not None:
            attempt.deadline = time.monotonic() + self._policy.timeout
        self._in_flight[attempt] = None
        caller.start(attempt)

    def _repeat_what_is_due(self, caller: Caller) -> None:
        while self._to_repeat and self._to_repeat[0][0] <= time.monotonic() and caller.stuck_at() is None:
            self._begin(heapq.heappop(self._to_repeat)[2].next(), caller)

    def _nap(self, caller: Caller) -> float:
        """How long to wait for the next arrival before there is something else to do."""
        soonest = time.monotonic() + _MAX_WAIT
        if self._policy.timeout is not None and self._in_flight:
            soonest = min(soonest, next(iter(self._in_flight)).deadline)
        stuck_at = caller.stuck_at()
        if stuck_at is not None:
            soonest = min(soonest, stuck_at)
        elif self._to_repeat:
            soonest = min(soonest, self._to_repeat[0][0])
        return max(0.0, soonest - time.monotonic())

    def _collect(self, nap: float) -> None:
        """Take in everything that has arrived, waiting for the first up to ``nap`` seconds."""
        try:
            attempt = self._inbox.get(timeout=nap)
            while True:
                if attempt is not None:
                    self._take(attempt)
                attempt = self._inbox.get_nowait()
        except Empty:
            return

    def _take(self, attempt: Attempt) -> None:
        if attempt.abandoned:
            self._hung -= 1
            return
        del self._in_flight[attempt]
        if self._policy.timeout is not None and attempt.elapsed > self._policy.timeout:
            attempt.error = timeout_error(self._policy.timeout)
        self._settle(attempt)

    def _settle(self, attempt: Attempt, *, final: bool = False) -> None:
        """Have a finished attempt repeated, or make an answer of it."""
        error = attempt.error
        if error is not None:
            _log.debug("sample %r, attempt %d", attempt.task.sample.sample_id, attempt.number, exc_info=error)
            if self._stop.leaving:  # perhaps because it was told to leave; whoever resumes asks again
                self._dropped += 1
                return
            if not final and attempt.number <= self._policy.retries and is_transient(error):
                due = time.monotonic() + self._waits.delay(attempt.number, error)
                # Where no call is begun any more this is dropped with the others that wait.
                heapq.heappush(self._to_repeat, (due, next(self._ticket), attempt))
                return
        self._arrived.append(TaskOutput(attempt.task, make_output(attempt, self._system.called)))
        self._connection_errors = 0 if error is None or not is_connection_error(error) else self._connection_errors + 1
        if self._connection_errors == MAX_CONNECTION_ERRORS and self._ended is None and not self._policy.keep_going:
            self._ended = "connection_errors"
            self._message = (
                f"stopped after {MAX_CONNECTION_ERRORS} connection errors in a row; the last one: "
                f"{self._arrived[-1].output.error}"
            )

    def _give_up_what_is_late(self, caller: Caller) -> None:
        if self._policy.timeout is None:
            return
        now = time.monotonic()
        stuck_at = caller.stuck_at()
        all_of_them = stuck_at is not None and stuck_at <= now
        while self._in_flight:
            attempt = next(iter(self._in_flight))
            if attempt.deadline > now and not all_of_them:
                break
            del self._in_flight[attempt]
            caller.abandon(attempt)
            self._hung += 1
            attempt.error = timeout_error(self._policy.timeout)
            attempt.elapsed = max(0.0, self._policy.timeout + now - attempt.deadline)
            self._settle(attempt, final=all_of_them)
        if self._ended is not None:
            return
        if all_of_them:
            for *_, attempt in self._to_repeat:  # asked again it would block again
                self._settle(attempt, final=True)
            self._to_repeat.clear()
            self._ended = "hung"
            self._message = (
                "the event loop is blocked by a coroutine that does not yield; nothing can be asked any more"
            )
        elif self._hung > self._most_hung:
            self._ended = "hung"
            self._message = f"{self._hung} calls hang that were given up after {self._policy.timeout:g} s each"

    def _hand_over(self) -> None:
        if not self._arrived:
            return
        answers, self._arrived = self._arrived, []
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
        left_over = bool(self._in_flight or self._to_repeat or self._dropped)
        complete = not left_over and (self._exhausted or self._delivered == self._total)
        if complete:
            return CallSummary(self._delivered, self._failed, "done")
        if self._ended is not None:
            return CallSummary(self._delivered, self._failed, self._ended, self._message)
        of = "" if self._total is None else f" of {self._total}"
        return CallSummary(self._delivered, self._failed, "stopped", f"stopped after {self._delivered}{of} answers")
