"""Queue of requests to one critic: sent within the concurrency limit and the budget, with retries."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from dataclasses import dataclass

from ..core.errors import JudgeError
from ..core.retry import Backoff
from .budget import Budget, Reservation
from .calls import call_critic, is_overload
from .circuit_breaker import CircuitBreaker
from .critic import Critic, Judgement, JudgeRequest, Usage
from .limiter import AdaptiveLimiter
from .policy import JudgePolicy

__all__ = ["CallResult", "CriticQueue", "copy_error"]

_UNBILLED = frozenset(
    {"no_key", "unauthorized", "model_not_found", "unreachable", "rate_limited", "server_error", "context_too_long"}
)
"""Failure reasons for which nothing was generated, so that no tokens are billed."""


@dataclass(slots=True)
class CallResult:
    """The result of a request to a judge: a judgement or an error, and what it used."""

    judgement: Judgement | None = None
    error: JudgeError | None = None
    attempts: int = 0
    calls: int = 0
    """Requests made: a critic may send a second one to have an answer repaired."""
    seconds: float = 0.0
    usage: Usage = Usage()  # noqa: RUF009 -- frozen


class CriticQueue:
    """Requests to one critic. Belongs to one event loop."""

    def __init__(
        self, critic: Critic, policy: JudgePolicy, *, budget: Budget, backoff: Backoff, threads: Executor
    ) -> None:
        self.critic = critic
        self.permanent_error: JudgeError | None = None
        """Why the critic is no longer called."""
        self._policy, self._budget, self._backoff, self._threads = policy, budget, backoff, threads
        self._limiter = AdaptiveLimiter(policy.concurrency, backoff=policy.backoff)
        self._breaker = CircuitBreaker(policy)
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    async def ask(self, request: JudgeRequest) -> CallResult:
        """Call the critic; the result has a judgement or an error."""
        result = CallResult()
        try:
            result.judgement = await self._ask_with_retries(request, result)
        except JudgeError as error:
            result.error = error
        return result

    def close(self) -> None:
        """Cancel all waiting requests."""
        self._limiter.close()

    async def _ask_with_retries(self, request: JudgeRequest, result: CallResult) -> Judgement:
        """Call until there is a judgement, a permanent failure, or no retry left."""
        in_a_row, failed_at = 0, self._loop.time()
        while True:
            if self.permanent_error is not None:
                raise copy_error(self.permanent_error)
            try:
                return await self._attempt(request, result)
            except JudgeError as error:
                if not error.retry or result.attempts > self._policy.retries:
                    raise
                # A success that began after the last failure shows that the server is healthy: restart the backoff.
                in_a_row = 1 if self._limiter.last_success_began > failed_at else in_a_row + 1
                failed_at = self._loop.time()
                wait = self._backoff.delay(in_a_row, error)
            await asyncio.wait((self._stopped,), timeout=wait)

    async def _attempt(self, request: JudgeRequest, result: CallResult) -> Judgement:
        await self._limiter.acquire(is_retry=result.attempts > 0)
        try:
            reservation = await self._budget.reserve(self.critic, request)
            result.attempts += 1
            began = self._loop.time()
            try:
                judgement = await call_critic(
                    self.critic, reservation.request, timeout=self._policy.timeout, threads=self._threads
                )
            except JudgeError as error:
                self._record_failure(reservation, error, result, began)
                raise
            except BaseException:
                self._budget.commit(reservation, None)  # cancelled: the usage is unknown
                raise
            finally:
                result.seconds += self._loop.time() - began
            if judgement.cached:  # from the critic's own cache: no request was made
                self._budget.release(reservation, calls=0)
            else:
                calls = 1 + judgement.repaired
                self._budget.commit(reservation, judgement.usage, calls=calls)
                result.calls += calls
                result.usage += judgement.usage
            self._limiter.record_success(began)
            self._breaker.record_success()
            return judgement
        finally:
            self._limiter.release()

    def _record_failure(self, reservation: Reservation, error: JudgeError, result: CallResult, began: float) -> None:
        usage = Usage(*error.tokens)
        result.calls += error.calls
        result.usage += usage
        if not any(error.tokens) and (not error.calls or error.reason in _UNBILLED):
            self._budget.release(reservation, calls=error.calls)
        else:
            self._budget.commit(reservation, usage, calls=error.calls)
        if not error.retry:
            self._breaker.record_success()  # there was a reply, if not a judgement
        elif (silent_s := self._breaker.record_failure(error, began, self._loop.time())) is not None:
            message = f"{error.message}; it has answered nobody for {silent_s:.0f} s and is not asked any more"
            error = JudgeError(error.reason, message, raw=error.raw, lasting=True)
        if error.lasting:
            self.permanent_error = error
            if not self._stopped.done():
                self._stopped.set_result(None)
            self._limiter.close(copy_error(error))
        elif is_overload(error):
            self._limiter.record_rejection(began, error.retry_after)
        elif error.retry_after is not None:
            self._limiter.pause(error.retry_after)


def copy_error(error: JudgeError) -> JudgeError:
    """A copy of an error: raising one object in many tasks would accumulate their tracebacks."""
    return JudgeError(
        error.reason,
        error.message,
        raw=error.raw,
        retry=error.retry,
        retry_after=error.retry_after,
        lasting=error.lasting,
        tokens=error.tokens,
        calls=error.calls,
    )
