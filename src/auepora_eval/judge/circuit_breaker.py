"""How long a judge has answered nobody, and when that has been borne for long enough."""

from __future__ import annotations

from ..core.errors import JudgeError
from ..core.retry import MAX_BACKOFF, MAX_RETRY_AFTER
from .policy import JudgePolicy

__all__ = ["CircuitBreaker"]


class CircuitBreaker:
    """Failures that may pass, with no answer among them, on one loop's clock.

    Each question is repeated for its own sake. Where nobody is answered at all, thousands of them would wait for hours,
    each behind the pauses of the others. So it is borne for as long as one question alone could take with all its
    repetitions, at the pace at which calls fail, and for two minutes at least; then the critic is given up.
    """

    def __init__(self, policy: JudgePolicy) -> None:
        self._tries = policy.retries + 1
        self._waits = sum(min(policy.backoff * 2 ** min(number, 60), MAX_BACKOFF) for number in range(self._tries))
        self.record_success()

    def record_success(self) -> None:
        """Somebody was answered."""
        self._since: float | None = None
        self._longest_call = self._longest_pause = 0.0

    def record_failure(self, error: JudgeError, began: float, now: float) -> float | None:
        """Note a failure of what began then; how many seconds it has been silent, once that is too long."""
        self._since = began if self._since is None else min(self._since, began)
        self._longest_call = max(self._longest_call, now - began)
        self._longest_pause = max(self._longest_pause, min(error.retry_after or 0.0, MAX_RETRY_AFTER))
        borne = self._waits + self._tries * (self._longest_call + self._longest_pause)
        seconds = now - self._since
        return seconds if seconds >= max(MAX_RETRY_AFTER, borne) else None
