"""Threads that nobody waits for: what hangs in one of them does not hold up the end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

__all__ = ["DaemonThreadPool"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DaemonThreadPool(ThreadPoolExecutor):
    """A pool whose threads the process does not wait for when it ends; it starts one whenever none is free."""

    def __init__(self, max_workers: int) -> None:
        super().__init__(max_workers)
        self._most, self._started = max_workers, 0
        self._items: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._spare = threading.Semaphore(0)
        self._starting = threading.Lock()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run it in a thread that is free, or in a fresh one."""
        future: Future[_T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        if not self._spare.acquire(blocking=False):
            with self._starting:
                if self._started < self._most:
                    threading.Thread(target=self._serve, name="asking-part", daemon=True).start()
                    self._started += 1
        self._items.put(work)
        return future

    def _serve(self) -> None:
        while (work := self._items.get()) is not None:
            work()
            del work  # what it holds must not live on while this thread waits
            self._spare.release()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let threads end as they come free; never waits."""
        for _ in range(self._started):
            self._items.put(None)
