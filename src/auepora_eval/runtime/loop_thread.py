"""An event loop in a thread of its own, so that coroutines can be run from any thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from functools import lru_cache
from types import TracebackType
from typing import Any, TypeVar

from .processes import DaemonThreadPool

T = TypeVar("T")

_log = logging.getLogger(__name__)

_CANCEL_GRACE_S = 3.0
"""Seconds that cancelled coroutines have to clean up; after that they are abandoned."""
_POLL_S = 0.5
"""Polling interval: a Ctrl-C that arrives just before a thread blocks does not wake it."""


class LoopThread:
    """Runs coroutines on one loop in the background until it is closed; what is still running is cancelled then.

    All threads are daemons, so that nothing that hangs holds up the end of the process; ``threads`` bounds those of
    ``to_thread``.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(DaemonThreadPool() if threads is None else DaemonThreadPool(threads))
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="auepora-loop", daemon=True)
        self._thread.start()

    def __enter__(self) -> LoopThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; it is cancelled if the wait is interrupted."""
        future = self.start(coroutine)
        try:
            return wait_for_result(future)
        finally:
            future.cancel()  # without effect on one that is done

    def close(self, *, wait: bool = True) -> None:
        """Cancel running coroutines and end the thread; with ``wait`` gives them a few seconds, whatever hangs."""
        if not self._is_closed:
            self._is_closed = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        if wait:
            self._thread.join(2 * _CANCEL_GRACE_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_closed:
            try:
                self.loop.run_forever()
            except BaseException as error:  # an exit or interrupt raised in a task that the called code started
                _log.debug("raised in a task of the event loop", exc_info=error)
        self.loop.set_exception_handler(lambda _loop, _context: None)  # errors no longer matter
        with contextlib.suppress(BaseException):
            self.loop.run_until_complete(_cancel_others())
        self.loop.close()


def wait_for_result(future: Future[T]) -> T:
    """The result of a future; Ctrl-C always interrupts the wait."""
    while not wait((future,), _POLL_S).done:
        pass
    return future.result()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CANCEL_GRACE_S)
    await asyncio.get_running_loop().shutdown_asyncgens()


# --- the loop that synchronous callers share -------------------------------------------------------------------------

_lock = threading.Lock()


def shared_loop() -> LoopThread:
    """The loop thread of this process for synchronous callers; it is closed when the process exits."""
    with _lock:
        return _start_loop(os.getpid())  # a forked process starts its own


@lru_cache(maxsize=1)
def _start_loop(_pid: int) -> LoopThread:
    loop = LoopThread()
    atexit.register(loop.close)
    return loop
