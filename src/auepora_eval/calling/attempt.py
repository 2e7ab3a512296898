"""One attempt at one task: start time, duration, and result or error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .policy import Task

if TYPE_CHECKING:
    from .systems import System

__all__ = ["Attempt"]


class Attempt:
    """One call of the system. Filled in by the caller's thread, read by the main thread once it is in the inbox."""

    __slots__ = ("_begun", "abandoned", "deadline", "elapsed", "error", "handle", "number", "started", "task", "value")

    def __init__(self, task: Task, number: int = 1) -> None:
        self.task = task
        self.number = number
        """1 for the first call, 2 for the first retry."""
        self.deadline = float("inf")
        """On the clock of ``time.monotonic``."""
        self.abandoned = False
        """Set by the main thread once it no longer waits; a later result is dropped."""
        self.started = time.time()
        self.elapsed = 0.0
        self.value: Any = None
        self.error: BaseException | None = None
        self.handle: Any = None
        """What the caller needs to cancel it."""
        self._begun = 0.0

    def next(self) -> Attempt:
        """The retry of this attempt."""
        return Attempt(self.task, self.number + 1)

    @property
    def has_begun(self) -> bool:
        """Whether the call was started."""
        return self._begun > 0

    def begin(self) -> None:
        """Record the start time."""
        self.started = time.time()
        self._begun = time.perf_counter()

    def end(self) -> None:
        """Record the duration."""
        self.elapsed = time.perf_counter() - self._begun

    def execute(self, system: System, top_k: int) -> None:
        """Call a system that is not asynchronous; any exception is kept, an exit or an interrupt too."""
        self.begin()
        try:
            self.value = system.call(self.task.sample, top_k)
        except BaseException as error:  # the user's code may raise anything; it is recorded as the output
            self.error = error
        self.end()

    async def execute_async(self, system: System, top_k: int) -> None:
        """The same for an asynchronous system."""
        self.begin()
        try:
            self.value = await system.call(self.task.sample, top_k)
        except BaseException as error:
            self.error = error
        self.end()
