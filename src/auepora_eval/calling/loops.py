"""The caller for asynchronous systems: one event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time

from ..core.daemon_threads import DaemonThreadPool
from .attempt import Attempt
from .callers import Inbox
from .systems import System

__all__ = ["GRACE", "LoopCaller"]

GRACE = 3.0
"""Seconds after a deadline within which the loop must respond, or counts as blocked.

If calls may take longer than this it has as long as one call: coroutines that compute without yielding delay each
other, but the loop continues.
"""
_CLEANUP_SECONDS = 1.0
"""Seconds that cancelled coroutines have to clean up at the end."""

_log = logging.getLogger(__name__)


class LoopCaller:
    """Calls as coroutines of one event loop, which runs in a daemon thread; thousands may be in flight.

    An abandoned call is cancelled. One that ignores this is left behind. The loop's own threads (``to_thread``) are
    daemons too, so that nothing that hangs holds up the end of the process.
    """

    def __init__(self, system: System, top_k: int, inbox: Inbox, *, threads: int, timeout: float | None) -> None:
        self._system, self._top_k, self._inbox = system, top_k, inbox
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreadPool(threads))
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks only weakly
        self._max_delay = max(GRACE, timeout or 0.0)
        self._alive_at = 0.0
        self._probe_sent_at: float | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="calling-loop", daemon=True)
        self._thread.start()

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
        attempt.abandoned = True
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
        """Cancel remaining tasks and end the loop; waits a moment only if nothing can hang."""
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        if graceful:
            self._thread.join(timeout=2 * _CLEANUP_SECONDS)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._closed:
            try:
                self._loop.run_forever()
            except BaseException as error:  # an exit or interrupt raised by a task that the system started itself
                _log.debug("raised in a task of the system under evaluation", exc_info=error)
        self._wind_down()

    def _wind_down(self) -> None:
        # Errors no longer matter from here on.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        with contextlib.suppress(BaseException):
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=_CLEANUP_SECONDS))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        with contextlib.suppress(BaseException):
            self._loop.close()
