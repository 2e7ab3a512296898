"""Stopping ``call_system`` from outside: from another thread, or by a signal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

__all__ = ["Stop"]


class Stop:
    """Stops ``call_system``: gracefully with ``finish``, at once with ``now``. Usable from any thread or signal.

    It holds no lock, so that a handler which interrupts one of its own methods cannot wait for itself.
    """

    __slots__ = ("_finishing", "_inboxes", "_inline_thread", "_leaving")

    def __init__(self) -> None:
        self._finishing = self._leaving = False
        self._inboxes: tuple[SimpleQueue[Any], ...] = ()
        self._inline_thread: int | None = None

    @property
    def finishing(self) -> bool:
        """Whether no new call may be started."""
        return self._finishing

    @property
    def listening(self) -> bool:
        """Whether a ``call_system`` is running that could be stopped."""
        return bool(self._inboxes) or self._inline_thread is not None

    @property
    def leaving(self) -> bool:
        """Whether calls in flight are not waited for either."""
        return self._leaving

    def finish(self) -> None:
        """Start no new call; wait for those in flight and deliver them."""
        self._finishing = True
        self._wake()

    def now(self) -> None:
        """Stop at once; calls in flight are abandoned.

        A call in the calling thread itself can only be interrupted from there: a signal handler that stops during one
        raises ``KeyboardInterrupt`` through it, which ``call_system`` handles.
        """
        self._finishing = self._leaving = True
        self._wake()
        if self._inline_thread == threading.get_ident():
            raise KeyboardInterrupt

    def _wake(self) -> None:
        for inbox in self._inboxes:
            inbox.put(None)

    @contextmanager
    def waking(self, inbox: SimpleQueue[Any]) -> Iterator[None]:
        """While inside, ``None`` is put into the inbox when the calls are to stop."""
        self._inboxes = (*self._inboxes, inbox)
        try:
            yield
        finally:
            self._inboxes = tuple(one for one in self._inboxes if one is not inbox)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """While inside, ``now`` from a signal handler of this thread raises ``KeyboardInterrupt``."""
        self._inline_thread = threading.get_ident()
        try:
            yield
        finally:
            self._inline_thread = None
