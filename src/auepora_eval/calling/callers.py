"""Callers for plain systems: in the calling thread itself, or in daemon threads."""

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
"""The queue of finished attempts; ``None`` only wakes the reader."""


class Caller(Protocol):
    """Executes attempts and returns each through the inbox. Used by the main thread alone."""

    def start(self, attempt: Attempt) -> None:
        """Start an attempt."""
        ...

    def abandon(self, attempt: Attempt) -> None:
        """Stop waiting for it; if it finishes after all, it arrives in the inbox too."""
        ...

    def stuck_at(self) -> float | None:
        """When, on the monotonic clock, the caller counts as blocked unless it responds; ``None`` if all is well.

        Until then no new attempt is started.
        """
        ...

    def close(self, *, graceful: bool) -> None:
        """Release everything without waiting for calls that hang; ``graceful`` if nothing is in flight."""
        ...


class InlineCaller:
    """Calls in the calling thread, one after the other: objects bound to that thread keep working."""

    def __init__(self, system: System, top_k: int, inbox: Inbox, stop: Stop) -> None:
        self._system, self._top_k, self._inbox, self._stop = system, top_k, inbox, stop

    def start(self, attempt: Attempt) -> None:
        """Execute it in this thread."""
        with self._stop.interrupting():
            attempt.execute(self._system, self._top_k)
        if isinstance(attempt.error, KeyboardInterrupt):
            raise attempt.error  # in this thread it is the user's own
        self._inbox.put(attempt)

    def abandon(self, attempt: Attempt) -> None:
        """Never called: there are no deadlines here."""

    def stuck_at(self) -> float | None:
        """Never."""
        return None

    def close(self, *, graceful: bool) -> None:
        """Nothing to release."""


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
        """Give it to an idle thread, or to a new one."""
        if self._free.empty():
            self._start_thread()
        else:
            self._free.get_nowait()
        self._work.put(attempt)

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._serve, name=f"calling-{self._threads}", daemon=True).start()
        except RuntimeError as error:
            raise BadValueError(
                f"no more than {self._threads} threads can be started here ({error}); lower the concurrency"
            ) from error
        self._threads += 1

    def _serve(self) -> None:
        while (attempt := self._work.get()) is not None and not self._closed:
            attempt.execute(self._system, self._top_k)
            # Read once, so that a thread reports idle exactly if it stays; and reported before the attempt is returned,
            # so that the next attempt uses this thread instead of a new one.
            left_behind = attempt.abandoned
            if not left_behind:
                self._free.put(None)
            self._inbox.put(attempt)
            if left_behind:
                return

    def abandon(self, attempt: Attempt) -> None:
        """Leave its thread behind."""
        attempt.abandoned = True

    def stuck_at(self) -> float | None:
        """Never: a thread that hangs is replaced."""
        return None

    def close(self, *, graceful: bool) -> None:
        """End threads as they become idle."""
        self._closed = True
        for _ in range(self._threads):
            self._work.put(None)
