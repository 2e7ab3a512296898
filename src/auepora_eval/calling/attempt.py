"""One attempt at one task: when it began, how long it took, what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .policy import Task

if TYPE_CHECKING:
    from .systems import System

__all__ = ["Attempt"]


class Attempt:
    """One call of the system. Filled in by whoever carries it out, read by the asking thread once it is handed back."""

    __slots__ = ("_begun", "abandoned", "deadline", "elapsed", "error", "handle", "number", "started", "task", "value")

    def __init__(self, task: Task, number: int = 1) -> None:
        self.task = task
        self.number = number
        """1 for the first, 2 for the first repetition."""
        self.deadline = float("inf")
        """On the clock of ``time.monotonic``."""
        self.abandoned = False
        """Set by the asking thread once it waits no longer; what comes back after that is dropped."""
        self.started = time.time()
        self.elapsed = 0.0
        self.value: Any = None
        self.error: BaseException | None = None
        self.handle: Any = None
        """What the caller needs to cancel it."""
        self._begun = 0.0

    def next(self) -> Attempt:
        """The repetition of this one."""
        return Attempt(self.task, self.number + 1)

    @property
    def has_begun(self) -> bool:
        """Whether somebody carries it out, or did."""
        return self._begun > 0

    def begin(self) -> None:
        """Note the time."""
        self.started = time.time()
        self._begun = time.perf_counter()

    def end(self) -> None:
        """Note how long it took."""
        self.elapsed = time.perf_counter() - self._begun

    def execute(self, system: System, top_k: int) -> None:
        """Call a system that is not asynchronous; whatever it raises is kept, an exit or an interrupt too."""
        self.begin()
        try:
            self.value = system.call(self.task.sample, top_k)
        except BaseException as error:  # the user's code may raise anything; that is its answer to this sample
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
