"""Places at a judge: how many requests may be in flight, fewer while the server asks for it."""

from __future__ import annotations

import asyncio
import math
from collections import deque

from ..core.retry import MAX_RETRY_AFTER

__all__ = ["SUCCESSES_PER_INCREASE", "AdaptiveLimiter"]

SUCCESSES_PER_INCREASE = 6
"""How many answers give a place back that a refusal took.

A server that can serve so many at once refuses the others, and each refusal takes just that place away. Refusals that
come whatever we do, up to one in seven, cost no places in the long run. Halving would: with every tenth request
refused it ends at four places, however many there could be.
"""


class AdaptiveLimiter:
    """So many may be inside, first come, first served; a refusal takes a place away, and answers give it back.

    ``pause`` keeps everybody out for a while. All of it happens on one event loop.
    """

    def __init__(self, most: int, *, backoff: float = 0.5) -> None:
        self._most, self._limit = most, most
        self._answers = 0
        """Since a place was last given back."""
        self._backoff = backoff
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returning: deque[asyncio.Future[None]] = deque()
        self._paused_at = self._open_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._refused_in_a_row = 0
        self.last_success_began = -math.inf
        """The latest beginning of a request that was answered."""

    @property
    def limit(self) -> int:
        """How many may be inside now."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """How many are inside."""
        return self._inside

    async def acquire(self, *, again: bool = False) -> None:
        """Wait for a place and take it; give it back with ``leave``.

        Who was inside before (``again``) goes before those who were not: else all repetitions come at the very end.
        """
        line = self._returning if again else self._waiting
        if not line and self._has_room():
            self._inside += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()  # the place came at the same moment: it is for the next
            else:
                turn.cancel()
            raise

    def release(self) -> None:
        """Give a place back."""
        self._inside -= 1
        self._let_in()

    def record_success(self, began: float) -> None:
        """Tell of an answer to what began then: the server can serve this many, and perhaps more."""
        self.last_success_began = max(self.last_success_began, began)
        self._refused_in_a_row = 0
        self._answers += 1
        if self._answers >= SUCCESSES_PER_INCREASE:
            self._answers = 0
            self._limit = min(self._most, self._limit + 1)
            self._let_in()

    def record_rejection(self, began: float, retry_after: float | None = None) -> None:
        """Tell of a request that was one too many: when it began, by the loop's clock.

        ``retry_after`` is for how many seconds the server wants to be left alone, by everybody.
        """
        if retry_after is not None:
            self.pause(retry_after)
        elif self._limit == 1 and began >= self._paused_at:
            # Not even one at a time is welcome: further ones would all be turned away in no time.
            self.pause(min(self._backoff * 2 ** min(self._refused_in_a_row, 20), MAX_RETRY_AFTER / 2))
            self._refused_in_a_row += 1
        self._limit = max(1, self._limit - 1)

    def pause(self, seconds: float) -> None:
        """Let nobody in for so long, from now."""
        self._paused_at = asyncio.get_running_loop().time()
        self._open_at = max(self._open_at, self._paused_at + min(seconds, MAX_RETRY_AFTER))

    def close(self, error: Exception | None = None) -> None:
        """Send away all who wait: with an error, or cancelled."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for turn in (*self._returning, *self._waiting):
            if not turn.done():
                turn.cancel() if error is None else turn.set_exception(error)
        self._returning.clear()
        self._waiting.clear()

    def _has_room(self) -> bool:
        return self._inside < self._limit and asyncio.get_running_loop().time() >= self._open_at

    def _let_in(self) -> None:
        while (line := self._returning or self._waiting) and self._has_room():
            turn = line.popleft()
            if not turn.done():
                self._inside += 1
                turn.set_result(None)
        if line and self._timer is None and self._inside < self._limit:
            self._timer = asyncio.get_running_loop().call_at(self._open_at, self._open)

    def _open(self) -> None:
        self._timer = None
        self._let_in()
