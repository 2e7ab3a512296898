"""How an asking is ended from outside: by another thread, or by a signal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

__all__ = ["Stop"]


class Stop:
    """Ends an asking: politely with ``finish``, at once with ``now``. Any thread and any signal handler may call it.

    It holds no lock, so that a handler which interrupts one of its own methods cannot wait for itself.
    """

    __slots__ = ("_finishing", "_inboxes", "_inline_in", "_leaving")

    def __init__(self) -> None:
        self._finishing = self._leaving = False
        self._inboxes: tuple[SimpleQueue[Any], ...] = ()
        self._inline_in: int | None = None

    @property
    def finishing(self) -> bool:
        """Whether no new call may be started."""
        return self._finishing

    @property
    def listening(self) -> bool:
        """Whether anything is being asked just now that could be stopped."""
        return bool(self._inboxes) or self._inline_in is not None

    @property
    def leaving(self) -> bool:
        """Whether calls in flight are not waited for either."""
        return self._leaving

    def finish(self) -> None:
        """Start no new call; wait for those in flight and deliver them."""
        self._finishing = True
        self._wake()

    def now(self) -> None:
        """Leave at once; what is in flight is given up.

        A call in the asking thread itself can only be left from there: a signal handler that comes here while one is
        under way raises ``KeyboardInterrupt`` through it, and ``ask`` takes that for what it is.
        """
        self._finishing = self._leaving = True
        self._wake()
        if self._inline_in == threading.get_ident():
            raise KeyboardInterrupt

    def _wake(self) -> None:
        for inbox in self._inboxes:
            inbox.put(None)

    @contextmanager
    def waking(self, inbox: SimpleQueue[Any]) -> Iterator[None]:
        """While inside, whoever waits at the inbox is woken with ``None`` when the asking is to end."""
        self._inboxes = (*self._inboxes, inbox)
        try:
            yield
        finally:
            self._inboxes = tuple(one for one in self._inboxes if one is not inbox)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """While inside, ``now`` from a signal handler of this thread interrupts what it does."""
        self._inline_in = threading.get_ident()
        try:
            yield
        finally:
            self._inline_in = None
