"""Processes and threads: identity of a process, set-up of workers, garbage collection, daemon threads, event loops."""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

# --- identity of a process, to recognize later whether it still exists -----------------------------------------------

_PROCESS_NAME = re.compile(r"(?P<host>.*?):(?P<pid>\d+)(?::(?P<started>\d+))?")
_ENDED_STATES = ("Z", "X")  # ended, but not yet reaped


def process_name() -> str:
    """Return ``host:pid:start`` of this process; ``host:pid`` if the start time is not available."""
    found = _process_state(os.getpid())
    started = "" if found is None else f":{found[1]}"
    return f"{_host()}:{os.getpid()}{started}"


def process_exists(name: str, *, platform: str = sys.platform) -> bool | None:
    """Whether the process with this name exists; ``None`` if it belongs to another host, or if this is Windows.

    Process ids are reused, so the start time is compared too, if it is known.
    """
    known = _PROCESS_NAME.fullmatch(name)
    if known is None:
        return False
    if name == process_name():
        return True
    if known["host"] != _host() or platform == "win32":  # where looking for a process would send it Ctrl-C
        return None
    found = _process_state(int(known["pid"]))
    if found is None:
        return _pid_exists(int(known["pid"]))
    state, started = found
    return state not in _ENDED_STATES and known["started"] in (None, started)


def _host() -> str:
    import socket

    return socket.gethostname()


def _process_state(pid: int) -> tuple[str, str] | None:
    """Return the state and the start time (in ticks since boot) of a process; ``None`` if unavailable."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # preceded by the program name, which may contain any character
    return (fields[0], fields[19]) if len(fields) > 19 else None


def _pid_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it exists and belongs to another user
        return True
    return True


# --- set-up of a worker process ---------------------------------------------------------------------------------------


def available_processors() -> int:
    """The number of processors that this process may use; on macOS and Windows all of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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


def return_free_memory() -> None:
    """Return memory that was freed to the operating system, where the C library can do that (glibc)."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


# --- daemon threads: a call that hangs does not keep the process from exiting ----------------------------------------

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DaemonThreadPool(ThreadPoolExecutor):
    """A ``ThreadPoolExecutor`` with daemon threads; it starts a thread whenever none is idle."""

    def __init__(self, max_workers: int = 1_000_000) -> None:
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
                self._spare.release()
                return
            # Idle before the result is known, so that who waits for it uses this thread next instead of a new one.
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                self._spare.release()
                future.set_exception(error)
            else:
                self._spare.release()
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

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let threads end when they become idle; never waits."""
        for _ in range(self._started):
            self._items.put(None)


# --- an event loop in a thread of its own, so that coroutines can be run from any thread -----------------------------

_log = logging.getLogger(__name__)

_CANCEL_GRACE_S = 3.0
"""Seconds that cancelled coroutines have to clean up; after that they are abandoned."""
_POLL_S = 0.5
"""Polling interval: a Ctrl-C that arrives just before a thread blocks does not wake it."""


class LoopThread(AbstractContextManager["LoopThread"]):
    """Runs coroutines on one loop in the background until it is closed; what is still running is cancelled then.

    All threads are daemons, so that nothing that hangs holds up the end of the process; ``threads`` bounds those of
    ``to_thread``.
    """

    def __init__(self, *, threads: int | None = None) -> None:
        import asyncio  # not at the top: half of the commands need none

        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(DaemonThreadPool() if threads is None else DaemonThreadPool(threads))
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="auepora-loop", daemon=True)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Schedule a coroutine and return its future."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
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
        import asyncio

        asyncio.set_event_loop(self.loop)
        while not self._is_closed:
            try:
                self.loop.run_forever()
            except BaseException as error:  # an exit or interrupt raised in a task that the called code started
                _log.debug("raised in a task of the event loop", exc_info=error)
        self.loop.set_exception_handler(lambda _loop, _context: None)  # errors no longer matter
        with suppress(BaseException):
            self.loop.run_until_complete(_cancel_others())
        self.loop.close()


def wait_for_result(future: Future[_T]) -> _T:
    """The result of a future; Ctrl-C always interrupts the wait."""
    while not wait((future,), _POLL_S).done:
        pass
    return future.result()


async def _cancel_others() -> None:
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_CANCEL_GRACE_S)
    await asyncio.get_running_loop().shutdown_asyncgens()


# --- the loop that synchronous callers share -------------------------------------------------------------------------

_loop_lock = threading.Lock()


def shared_loop() -> LoopThread:
    """The loop thread of this process for synchronous callers; it is closed when the process exits."""
    with _loop_lock:
        return _start_loop(os.getpid())  # a forked process starts its own


@lru_cache(maxsize=1)
def _start_loop(_pid: int) -> LoopThread:
    loop = LoopThread()
    atexit.register(loop.close)
    return loop
