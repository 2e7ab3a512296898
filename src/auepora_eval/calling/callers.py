"""Who carries out calls of a plain system: the asking thread itself, or threads of their own."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Protocol

from ..core.errors import BadValueError
from .attempt import Attempt
from .stop import Stop
from .systems import System

__all__ = ["Caller", "Inbox", "InlineCaller", "ThreadCaller"]

Inbox = SimpleQueue[Attempt | None]
"""Where finished attempts arrive; ``None`` only wakes whoever waits."""


class Caller(Protocol):
    """Carries out attempts and hands each back through the inbox. Used by the asking thread alone."""

    def start(self, attempt: Attempt) -> None:
        """Carry out an attempt, soon."""
        ...

    def abandon(self, attempt: Attempt) -> None:
        """Wait no longer for it; if it comes back after all, that is through the inbox too."""
        ...

    def stuck_at(self) -> float | None:
        """When, on the monotonic clock, it is given up unless it gives a sign of life; ``None`` if all is well.

        While there is such a time it is given nothing new.
        """
        ...

    def close(self, *, graceful: bool) -> None:
        """Let go of everything, without waiting for what hangs; ``graceful`` where nothing is in flight."""
        ...


class InlineCaller:
    """Calls in the asking thread, one after the other: objects bound to that thread keep working."""

    def __init__(self, system: System, top_k: int, inbox: Inbox, stop: Stop) -> None:
        self._system, self._top_k, self._inbox, self._stop = system, top_k, inbox, stop

    def start(self, attempt: Attempt) -> None:
        """Carry it out here and now."""
        with self._stop.interrupting():
            attempt.execute(self._system, self._top_k)
        if isinstance(attempt.error, KeyboardInterrupt):
            raise attempt.error  # in this thread it is the user's own
        self._inbox.put(attempt)

    def abandon(self, attempt: Attempt) -> None:
        """Never asked for: nothing here has a deadline."""

    def stuck_at(self) -> float | None:
        """Never."""
        return None

    def close(self, *, graceful: bool) -> None:
        """Nothing to let go of."""


class ThreadCaller:
    """Calls in daemon threads, as many as there are calls in flight.

    A thread cannot be stopped. That of an abandoned call is left behind, ends by itself if the call ever does, and
    holds up neither the others nor the end of the process.
    """

    def __init__(self, system: System, top_k: int, inbox: Inbox) -> None:
        self._system, self._top_k, self._inbox = system, top_k, inbox
        self._work: SimpleQueue[Attempt | None] = SimpleQueue()
        self._free: SimpleQueue[None] = SimpleQueue()
        self._threads = 0
        self._closed = False

    def start(self, attempt: Attempt) -> None:
        """Hand it to a thread that is free, or to a fresh one."""
        if self._free.empty():
            self._start_thread()
        else:
            self._free.get_nowait()
        self._work.put(attempt)

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._serve, name=f"asking-{self._threads}", daemon=True).start()
        except RuntimeError as error:
            raise BadValueError(
                f"no more than {self._threads} threads can be started here ({error}); ask for less concurrency"
            ) from error
        self._threads += 1

    def _serve(self) -> None:
        while (attempt := self._work.get()) is not None and not self._closed:
            attempt.execute(self._system, self._top_k)
            # Looked at once, so that a thread says it is free exactly if it stays; and says so before the attempt is
            # back, so that whoever takes it finds this thread and not a reason for a new one.
            left_behind = attempt.abandoned
            if not left_behind:
                self._free.put(None)
            self._inbox.put(attempt)
            if left_behind:
                return

    def abandon(self, attempt: Attempt) -> None:
        """Its thread is not counted on any more."""
        attempt.abandoned = True

    def stuck_at(self) -> float | None:
        """Never: a thread that hangs is replaced."""
        return None

    def close(self, *, graceful: bool) -> None:
        """Let threads end as they come free."""
        self._closed = True
        for _ in range(self._threads):
            self._work.put(None)
