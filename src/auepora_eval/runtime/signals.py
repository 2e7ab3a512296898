"""Ctrl-C, SIGTERM and SIGHUP: handled for a block, held until its end, or raised as an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


class TerminationSignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP. Code that handles Ctrl-C handles it too."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(signal.Signals(number).name)


def _available(*names: str) -> list[signal.Signals]:
    """The signals with these names; Windows has no SIGHUP."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _terminating_signals() -> list[signal.Signals]:
    """SIGTERM and SIGHUP; without ignored signals, as SIGHUP is under ``nohup``."""
    return [number for number in _available("SIGTERM", "SIGHUP") if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def _call_on(numbers: Iterable[int], handle: Callable[[int], None]) -> Iterator[None]:
    """Call ``handle`` on these signals; does nothing outside the main thread, which gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: FrameType | None) -> None:
        handle(number)

    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, original in before.items():
            signal.signal(number, original)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise ``TerminationSignal``, so that processes, folders and semaphores are cleaned up."""

    def leave(number: int) -> None:
        for other in _terminating_signals():  # a second signal must not interrupt the clean-up
            signal.signal(other, signal.SIG_IGN)
        raise TerminationSignal(number)

    with _call_on(_terminating_signals(), leave):
        yield


@contextmanager
def handle_signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Call ``handle`` on Ctrl-C, SIGTERM and SIGHUP instead of what they do."""
    with _call_on([signal.SIGINT, *_terminating_signals()], handle):
        yield


@contextmanager
def hold_signals() -> Iterator[None]:
    """Handle Ctrl-C, SIGTERM and SIGHUP after the block: a process that is started only halfway prints a traceback."""
    received: list[int] = []
    numbers = _available("SIGINT", "SIGTERM", "SIGHUP")
    handled = [number for number in numbers if callable(signal.getsignal(number))]
    try:
        with _call_on(handled, received.append):
            yield
    finally:
        for number in received:
            signal.raise_signal(number)
