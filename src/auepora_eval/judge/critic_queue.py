"""All that waits for one critic: asked as places and budget allow, and again where that may help."""

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
"""Reasons of failures for which nothing was generated."""


@dataclass(slots=True)
class CallResult:
    """What became of a question that was put to a judge."""

    judgement: Judgement | None = None
    error: JudgeError | None = None
    attempts: int = 0
    calls: int = 0
    """Requests made: a critic may make another one to have an answer repaired."""
    seconds: float = 0.0
    usage: Usage = Usage()  # noqa: RUF009 -- frozen


class CriticQueue:
    """Those who wait for one critic. Belongs to one event loop."""

    def __init__(
        self, critic: Critic, policy: JudgePolicy, *, budget: Budget, waits: Backoff, threads: Executor
    ) -> None:
        self.critic = critic
        self.lasting: JudgeError | None = None
        """Why the critic is not asked any more."""
        self._policy, self._budget, self._waits, self._threads = policy, budget, waits, threads
        self._places = AdaptiveLimiter(policy.concurrency, backoff=policy.backoff)
        self._silence = CircuitBreaker(policy)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def ask(self, request: JudgeRequest) -> CallResult:
        """A judgement, or why there is none."""
        outcome = CallResult()
        try:
            outcome.judgement = await self._repeated(request, outcome)
        except JudgeError as error:
            outcome.error = error
        return outcome

    def close(self) -> None:
        """Send away all who still wait."""
        self._places.close()

    async def _repeated(self, request: JudgeRequest, outcome: CallResult) -> Judgement:
        """Ask until there is a judgement, a failure that will not pass, or it was repeated often enough."""
        in_a_row, failed_at = 0, self._loop.time()
        while True:
            if self.lasting is not None:
                raise copy_error(self.lasting)
            try:
                return await self._attempt(request, outcome)
            except JudgeError as error:
                if not error.retry or outcome.attempts > self._policy.retries:
                    raise
                # An answer to what began after the last failure shows that the server is well: no need to wait longer.
                in_a_row = 1 if self._places.last_success_began > failed_at else in_a_row + 1
                failed_at = self._loop.time()
                wait = self._waits.delay(in_a_row, error)
            await asyncio.wait((self._ended,), timeout=wait)

    async def _attempt(self, request: JudgeRequest, outcome: CallResult) -> Judgement:
        await self._places.acquire(again=outcome.attempts > 0)
        try:
            held = await self._budget.reserve(self.critic, request)
            outcome.attempts += 1
            began = self._loop.time()
            try:
                judgement = await call_critic(
                    self.critic, held.request, timeout=self._policy.timeout, threads=self._threads
                )
            except JudgeError as error:
                self._failed(held, error, outcome, began)
                raise
            except BaseException:
                self._budget.commit(held, None)  # cancelled: nobody knows how far it came
                raise
            finally:
                outcome.seconds += self._loop.time() - began
            if judgement.cached:  # the critic knew it from before, and asked nobody
                self._budget.release(held, calls=0)
            else:
                calls = 1 + judgement.repaired
                self._budget.commit(held, judgement.usage, calls=calls)
                outcome.calls += calls
                outcome.usage += judgement.usage
            self._places.record_success(began)
            self._silence.record_success()
            return judgement
        finally:
            self._places.release()

    def _failed(self, held: Reservation, error: JudgeError, outcome: CallResult, began: float) -> None:
        usage = Usage(*error.tokens)
        outcome.calls += error.calls
        outcome.usage += usage
        if not any(error.tokens) and (not error.calls or error.reason in _UNBILLED):
            self._budget.release(held, calls=error.calls)
        else:
            self._budget.commit(held, usage, calls=error.calls)
        if not error.retry:
            self._silence.record_success()  # it was answered, if not with a judgement
        elif (silent := self._silence.record_failure(error, began, self._loop.time())) is not None:
            told = f"{error.message}; it has answered nobody for {silent:.0f} s and is not asked any more"
            error = JudgeError(error.reason, told, raw=error.raw, lasting=True)
        if error.lasting:
            self.lasting = error
            if not self._ended.done():
                self._ended.set_result(None)
            self._places.close(copy_error(error))
        elif is_overload(error):
            self._places.record_rejection(began, error.retry_after)
        elif error.retry_after is not None:
            self._places.pause(error.retry_after)


def copy_error(error: JudgeError) -> JudgeError:
    """The same error to be raised once more: one that is raised in many places gathers all their traces."""
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
