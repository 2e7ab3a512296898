"""Adaptive concurrency limiter: fewer requests in flight while the server rejects some."""

from __future__ import annotations

import asyncio
import math
from collections import deque

from ..core.retry import MAX_RETRY_AFTER

__all__ = ["SUCCESSES_PER_INCREASE", "AdaptiveLimiter"]

SUCCESSES_PER_INCREASE = 6
"""Number of successes after which the limit rises by one again.

A server with a fixed capacity rejects the requests beyond it, and each rejection lowers the limit by one. Random
rejections, up to one in seven, do not lower the limit in the long run. Halving would: with every tenth request
rejected it ends at four, whatever the capacity.
"""


class AdaptiveLimiter:
    """First-in, first-out concurrency limit; a rejection lowers it by one, and successes raise it again.

    ``pause`` admits nothing for a while. Belongs to one event loop.
    """

    def __init__(self, max_limit: int, *, backoff: float = 0.5) -> None:
        self._max_limit, self._limit = max_limit, max_limit
        self._successes = 0
        """Since the limit was last raised."""
        self._backoff = backoff
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._retrying: deque[asyncio.Future[None]] = deque()
        self._paused_at = self._resume_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._rejections_in_a_row = 0
        self.last_success_began = -math.inf
        """Latest start time of a request that succeeded."""

    @property
    def limit(self) -> int:
        """The current limit."""
        return self._limit

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""
        return self._in_flight

    async def acquire(self, *, is_retry: bool = False) -> None:
        """Wait for a free slot and take it; give it back with ``release``.

        Retries go before first attempts: otherwise all retries would come at the very end.
        """
        queue = self._retrying if is_retry else self._waiting
        if not queue and self._has_room():
            self._in_flight += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        self._admit()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release()  # the slot was granted at the same moment: pass it on
            else:
                waiter.cancel()
            raise

    def release(self) -> None:
        """Give a slot back."""
        self._in_flight -= 1
        self._admit()

    def record_success(self, began: float) -> None:
        """Record the success of a request that began at this time of the loop's clock."""
        self.last_success_began = max(self.last_success_began, began)
        self._rejections_in_a_row = 0
        self._successes += 1
        if self._successes >= SUCCESSES_PER_INCREASE:
            self._successes = 0
            self._limit = min(self._max_limit, self._limit + 1)
            self._admit()

    def record_rejection(self, began: float, retry_after: float | None = None) -> None:
        """Record the rejection of a request that began at this time of the loop's clock.

        ``retry_after`` is the number of seconds for which the server wants no requests at all.
        """
        if retry_after is not None:
            self.pause(retry_after)
        elif self._limit == 1 and began >= self._paused_at:
            # Even a single request is rejected: further ones would fail at once.
            self.pause(min(self._backoff * 2 ** min(self._rejections_in_a_row, 20), MAX_RETRY_AFTER / 2))
            self._rejections_in_a_row += 1
        self._limit = max(1, self._limit - 1)

    def pause(self, seconds: float) -> None:
        """Admit nothing for this many seconds."""
        self._paused_at = asyncio.get_running_loop().time()
        self._resume_at = max(self._resume_at, self._paused_at + min(seconds, MAX_RETRY_AFTER))

    def close(self, error: Exception | None = None) -> None:
        """Fail all waiting requests with an error, or cancel them."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in (*self._retrying, *self._waiting):
            if not waiter.done():
                waiter.cancel() if error is None else waiter.set_exception(error)
        self._retrying.clear()
        self._waiting.clear()

    def _has_room(self) -> bool:
        return self._in_flight < self._limit and asyncio.get_running_loop().time() >= self._resume_at

    def _admit(self) -> None:
        while (queue := self._retrying or self._waiting) and self._has_room():
            waiter = queue.popleft()
            if not waiter.done():
                self._in_flight += 1
                waiter.set_result(None)
        if queue and self._timer is None and self._in_flight < self._limit:
            self._timer = asyncio.get_running_loop().call_at(self._resume_at, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._admit()
