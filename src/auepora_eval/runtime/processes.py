"""Worker processes and threads: set-up, garbage collection, and daemon threads."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

# --- set-up of a worker process ---------------------------------------------------------------------------------------


def prepare_worker() -> None:
    """Prepare a process that was started to score.

    Ctrl-C reaches every process of a terminal and is handled by the parent. If the parent is gone, as after SIGKILL,
    this process exits.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


# --- garbage collection, paused while many containers and no cycles are created --------------------------------------


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector and restore its former state afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


# --- daemon threads: a call that hangs does not keep the process from exiting ----------------------------------------

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
