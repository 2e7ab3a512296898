"""Worker processes and threads: set-up, memory, transfer of large arrays, and daemon threads."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import ParamSpec, TypeVar

# --- transfer of bytes to another process: through the pipe, or through a file in shared memory ----------------------
# A pipe has a small buffer, so that reader and writer of megabytes wait for each other again and again. A file is
# written and read in one go.

_SPILL_FROM_BYTES = 256 << 10
"""From this size on a file is used."""
_SHM = Path("/dev/shm")  # noqa: S108 -- where Linux keeps files in memory; ours have a folder of their own there
_MIN_FREE_BYTES = 1 << 30
"""Required free space; in a small container there is less, and the temporary folder is used."""


@dataclass(frozen=True, slots=True)
class SpilledBytes:
    """The file that contains the bytes."""

    path: str


class SharedMemoryTransfer:
    """A private folder for bytes in transfer, removed on exit."""

    def __init__(self, name: str | None = None) -> None:
        """``name`` is the name of the folder; by default a new one."""
        self._name = name or new_folder_name()
        self._folder: Path | None = None
        self._count = 0

    def __enter__(self) -> SharedMemoryTransfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def dump(self, data: bytes) -> bytes | SpilledBytes:
        """What to send through the pipe: the bytes, or the file that contains them."""
        if len(data) < _SPILL_FROM_BYTES:
            return data
        path = ""
        try:
            if self._folder is None:
                folder = (_shm_with_space() or Path(tempfile.gettempdir())) / self._name
                folder.mkdir(mode=0o700)
                self._folder = folder
            self._count += 1
            path = os.path.join(self._folder, str(self._count))
            with open(path, "xb") as file:
                file.write(data)
        except OSError:  # no space or no permission: use the pipe
            with suppress(OSError):
                os.unlink(path)
            return data
        return SpilledBytes(path)


def new_folder_name() -> str:
    """A unique folder name that contains the process id."""
    return f"auepora-{os.getpid()}-{secrets.token_hex(8)}"


def possible_folders(name: str) -> list[Path]:
    """The possible locations of the folder of that name."""
    return [_SHM / name, Path(tempfile.gettempdir()) / name]


def load(sent: bytes | SpilledBytes) -> bytes:
    """The bytes in the receiving process; a file is removed after reading."""
    if isinstance(sent, bytes):
        return sent
    with open(sent.path, "rb") as file:
        data = file.read()
    with suppress(OSError):
        os.unlink(sent.path)
    return data


def _shm_with_space() -> Path | None:
    with suppress(OSError):
        if _SHM.is_dir() and shutil.disk_usage(_SHM).free >= _MIN_FREE_BYTES and os.access(_SHM, os.W_OK):
            return _SHM
    return None


# --- memory: a worker keeps what it frees (glibc ``mallopt``), because the next batch needs as much again ------------

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_THRESHOLD_BYTES = 1 << 30


def disable_malloc_trim() -> None:
    """Make this process keep the memory it frees, where the C library supports it (glibc).

    By default the arrays of a batch go back to the system and are mapped again, page by page and zeroed, for the next
    batch. That takes a tenth of the time of text metrics, and more with several processes. Call it only in worker
    processes: how a user's process manages its memory is not ours to decide.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _THRESHOLD_BYTES)
        mallopt(_TRIM_THRESHOLD, _THRESHOLD_BYTES)


# --- set-up of a worker process: memory, and exit with the parent process --------------------------------------------


def prepare_worker(folders: Sequence[Path]) -> None:
    """Prepare a process that was started to score.

    Ctrl-C reaches every process of a terminal and is handled by the parent. If the parent is gone, as after SIGKILL,
    this process removes ``folders`` and exits.
    """
    disable_malloc_trim()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(tuple(folders),), daemon=True).start()


def _end_with_parent(folders: Sequence[Path]) -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None
    parent.join()
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
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
