"""Ctrl-C while a system is being asked, and what the system prints in the meantime."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..calling.stop import Stop

__all__ = ["stdout_to_stderr", "stopping_on_signals"]


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) lets calls in flight finish, the second one leaves at once.

    Where nothing is being asked, while a plan is read or outputs are scored, the first one ends it as it would anyway.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals go elsewhere
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.listening:
            raise KeyboardInterrupt
        if stop.finishing:
            stop.now()
            return
        # A handler may have interrupted whoever holds the lock of a stream: it writes past them.
        with suppress(OSError):
            os.write(2, b"\nFinishing the calls in flight; Ctrl-C again stops at once.\n")
        stop.finish()

    before: dict[int, Any] = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """What the user's system prints goes to stderr, whoever prints it: stdout is for results."""
    with redirect_stdout(sys.stderr):
        try:
            own = sys.__stdout__ is not None and sys.__stdout__.fileno() == 1
        except (OSError, ValueError):
            own = False
        if not own:
            yield
            return
        assert sys.__stdout__ is not None
        sys.__stdout__.flush()
        kept = os.dup(1)
        try:
            os.dup2(2, 1)
            yield
        finally:
            sys.__stdout__.flush()
            os.dup2(kept, 1)
            os.close(kept)
