"""Circuit breaker: stop calling a judge that has not replied for too long."""

from __future__ import annotations

from ..core.errors import JudgeError
from ..core.retry import MAX_BACKOFF, MAX_RETRY_AFTER
from .policy import JudgePolicy

__all__ = ["CircuitBreaker"]


class CircuitBreaker:
    """Opens after a period of transient failures without any reply, measured on one loop's clock.

    Each request is retried on its own. If no request succeeds at all, thousands of them would wait for hours, each
    behind the pauses of the others. The allowed period is what a single request could take with all its retries, at
    the speed at which calls fail, and at least two minutes; after that the critic is no longer called.
    """

    def __init__(self, policy: JudgePolicy) -> None:
        self._attempts = policy.retries + 1
        self._total_backoff = sum(
            min(policy.backoff * 2 ** min(number, 60), MAX_BACKOFF) for number in range(self._attempts)
        )
        self.record_success()

    def record_success(self) -> None:
        """A request got a reply."""
        self._since: float | None = None
        self._longest_call = self._longest_pause = 0.0

    def record_failure(self, error: JudgeError, began: float, now: float) -> float | None:
        """Record a failed call; returns the seconds without a reply once they exceed the allowed period."""
        self._since = began if self._since is None else min(self._since, began)
        self._longest_call = max(self._longest_call, now - began)
        self._longest_pause = max(self._longest_pause, min(error.retry_after or 0.0, MAX_RETRY_AFTER))
        allowed = self._total_backoff + self._attempts * (self._longest_call + self._longest_pause)
        seconds = now - self._since
        return seconds if seconds >= max(MAX_RETRY_AFTER, allowed) else None
