"""Set-up of worker processes: keep freed memory, and exit with the parent process."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from .allocator import disable_malloc_trim

__all__ = ["prepare_worker"]


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
