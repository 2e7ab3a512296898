"""An event loop in a thread of its own, so that coroutines can be run from any thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any, TypeVar

from .processes import DaemonThreadPool

T = TypeVar("T")

_MAX_THREADS = 1_000_000
_CANCEL_GRACE_S = 3.0
"""Seconds that cancelled coroutines have to clean up; after that they are abandoned."""
_POLL_S = 0.5
"""Polling interval: a Ctrl-C that arrives just before a thread blocks does not wake it."""


class LoopThread:
    """Runs coroutines on one loop in the background until it is closed; what is still running is cancelled then."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # Daemon threads: a call that hangs in ``to_thread`` must not block the exit of the process.
        self._loop.set_default_executor(DaemonThreadPool(_MAX_THREADS))
        self._thread = threading.Thread(target=self._loop.run_forever, name="auepora-loop", daemon=True)
        self._thread.start()

    def __enter__(self) -> LoopThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; it is cancelled if the wait is interrupted."""
        future = self.start(coroutine)
        try:
            return wait_for_result(future)
        finally:
            future.cancel()  # without effect on one that is done

    def close(self) -> None:
        """Cancel running coroutines and end the thread; never waits long, whatever hangs there."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):  # something blocks the loop itself: its thread is abandoned
            self.start(_cancel_others()).result(2 * _CANCEL_GRACE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CANCEL_GRACE_S)
        if not self._thread.is_alive():
            self._loop.close()


def wait_for_result(future: Future[T]) -> T:
    """The result of a future; Ctrl-C always interrupts the wait."""
    while not wait((future,), _POLL_S).done:
        pass
    return future.result()


async def _cancel_others() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        # Later exceptions are irrelevant.
        loop.set_exception_handler(lambda _loop, _context: None)
        await asyncio.wait(others, timeout=_CANCEL_GRACE_S)
    await loop.shutdown_asyncgens()


# --- the loop that synchronous callers share -------------------------------------------------------------------------

_shared: LoopThread | None = None
_shared_lock = threading.Lock()


def shared_loop() -> LoopThread:
    """The loop thread of this process for synchronous callers; it is closed when the process exits."""
    global _shared  # noqa: PLW0603
    with _shared_lock:
        if _shared is None:
            _shared = LoopThread()
            atexit.register(_shared.close)
        return _shared


def _forget_shared_loop() -> None:
    """In a forked process the thread does not run."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_shared_loop)
