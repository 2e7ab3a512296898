"""An event loop whose clock jumps to the next thing to do, so that tests of waiting wait for nothing."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Where the loop would sleep, the clock moves on instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if found or not timeout:
            if timeout is None and not found:
                raise RuntimeError("nothing will ever happen again")
            return found
        self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only while everybody sleeps, and then at once. For coroutines without threads."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Like ``asyncio.run``, in no time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
