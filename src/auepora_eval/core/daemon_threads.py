"""A pool of daemon threads: a call that hangs does not keep the process from exiting."""

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
    """A ``ThreadPoolExecutor`` with daemon threads; it starts a thread whenever none is idle."""

    def __init__(self, max_workers: int) -> None:
        super().__init__(max_workers)
        self._most, self._started = max_workers, 0
        self._items: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._spare = threading.Semaphore(0)
        self._starting = threading.Lock()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Run the function in an idle thread, or in a new one."""
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
            del work  # release its references while this thread waits
            self._spare.release()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let threads end when they become idle; never waits."""
        for _ in range(self._started):
            self._items.put(None)
