"""Handling of signals and Ctrl-C, and redirection of what the user's system prints."""

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

__all__ = ["TerminationSignal", "raise_on_signals", "stdout_to_stderr", "stop_on_signals"]


class TerminationSignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP. Code that handles Ctrl-C handles it too."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


def _terminating_signals() -> list[signal.Signals]:
    """SIGTERM and, where it exists, SIGHUP; without ignored signals, as SIGHUP is under ``nohup``."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return [one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN]


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise ``TerminationSignal``, so that processes, folders and semaphores are cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return

    def leave(number: int, frame: FrameType | None) -> None:
        for one in before:  # a second signal must not interrupt the clean-up
            signal.signal(one, signal.SIG_IGN)
        raise TerminationSignal(number)

    before: dict[int, Any] = {}
    before.update({one: signal.signal(one, leave) for one in _terminating_signals()})
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stop_on_signals(stop: Stop) -> Iterator[None]:
    """Let the first Ctrl-C (or SIGTERM, SIGHUP) wait for calls in flight; the second one stops at once.

    While no system is called, such as while a plan is read or outputs are scored, the first one stops at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.listening:
            raise KeyboardInterrupt
        if stop.finishing:
            stop.now()
            return
        # os.write, because the interrupted code may hold the lock of the stream.
        with suppress(OSError):
            os.write(2, b"\nFinishing the calls in flight; Ctrl-C again stops at once.\n")
        stop.finish()

    signals = [signal.SIGINT, *_terminating_signals()]
    before: dict[int, Any] = {one: signal.signal(one, handle) for one in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what the user's system prints to stderr, subprocesses included: stdout is for results."""
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
