"""Judge session: calls critics for metrics with a cache, a budget, a concurrency limit and retries."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..core.daemon_threads import DaemonThreadPool
from ..core.errors import AueporaWarning, BadValueError, JudgeError, StoreError
from ..core.retry import Backoff
from ..core.secrets import Secrets
from .budget import Budget, model_name
from .cache import JudgementCache, critic_cache_key, request_digest
from .calls import CANCEL_GRACE_S
from .critic import Critic, Judgement, JudgeRequest, StructuredCritic, critic_name
from .critic_queue import CallResult, CriticQueue, copy_error
from .policy import JudgePolicy
from .usage_log import JudgementRecord, UsageLog

__all__ = ["JudgeSession"]

_FLUSH_INTERVAL_S = 0.2
"""Longest delay before a judgement is written to the cache file."""
_MAX_RAW_CHARS = 2000
"""Characters stored of a reply that could not be parsed."""
_MAX_THREADS = 1_000_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _InFlight:
    """A running request, and the number of callers waiting for it."""

    task: asyncio.Task[CallResult]
    waiting: int = 0


class _LoopState:
    """State that belongs to one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.depth = 0
        self.queues: dict[int, CriticQueue] = {}
        self.in_flight: dict[tuple[int, bytes], _InFlight] = {}
        self.tasks: set[asyncio.Task[CallResult]] = set()
        self.threads = DaemonThreadPool(_MAX_THREADS)  # the limiter bounds how many run; hanging ones are abandoned
        self.flush_timer: asyncio.TimerHandle | None = None


class JudgeSession:
    """Calls critics within the limits of a policy.

    Use it with ``async with``; it may be entered again later, on another loop, and continues with the same budget and
    usage log. ``on_record`` gets every judgement, successful or failed; ``on_progress`` the number done and the number
    requested. Both are called on the loop's thread. ``secrets`` are masked in records, errors and cache.
    """

    def __init__(
        self,
        policy: JudgePolicy = JudgePolicy(),  # noqa: B008 -- frozen
        *,
        on_record: Callable[[JudgementRecord], None] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self.policy = policy
        self.usage_log = UsageLog()
        self._on_record, self._on_progress = on_record, on_progress
        self._secrets = secrets or Secrets()
        self._budget = Budget(policy)
        self._backoff = Backoff(policy)
        self._permanent_errors: dict[int, tuple[Critic, JudgeError]] = {}
        self._cache: JudgementCache | None = None
        self._state: _LoopState | None = None
        self._num_requested = 0
        self._callback_error: Exception | None = None
        self._warnings: dict[str, None] = {}
        self._shown_warnings: set[str] = set()

    @property
    def repeats(self) -> int:
        """Judgements per item."""
        return self.policy.repeats

    async def __aenter__(self) -> JudgeSession:
        if self._state is not None and self._state.loop is not asyncio.get_running_loop():
            raise BadValueError("a judging session is used by one evaluation at a time; give each its own")
        if self._state is None:
            if self.policy.cache is not None:
                self._cache = JudgementCache(self.policy.cache, secrets=self._secrets)
            self._state = _LoopState()
        self._state.depth += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state = self._current_state()
        state.depth -= 1
        if state.depth:
            return
        try:
            await self._shut_down(state)
        finally:
            self._state = None
            self._close_cache()
        if kind is None:
            self._show_warnings()
            if self._callback_error is not None:
                failed, self._callback_error = self._callback_error, None
                raise failed

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` on failure."""
        state = self._current_state()
        self._budget.price(critic)  # a missing price raises before any call
        self._num_requested += 1
        cache_key = critic_cache_key(critic, request)
        digest = request_digest(critic, request, cache_key)
        cache_digest = digest if cache_key is not None else None
        if cache_digest is not None and self._cache is not None:
            cached = self._cache.get(cache_digest)
            if cached is not None:
                return self._record(critic, request, CallResult(cached), shared=False)
        if self.policy.cache_only:
            error = JudgeError("not_cached", "nobody is asked, and the cache does not have it")
            return self._record(critic, request, CallResult(error=error), shared=False)
        result, shared = await self._ask_deduplicated(state, critic, request, digest, cache_digest)
        return self._record(critic, request, result, shared=shared)

    def reused(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        """Record that a metric reused the result of another metric's request."""
        self._num_requested += 1
        judgement, error = (None, outcome) if isinstance(outcome, JudgeError) else (outcome, None)
        with contextlib.suppress(JudgeError):
            self._record(critic, request, CallResult(judgement, error), shared=True)

    # --- one call for identical requests ------------------------------------------------------------------------------

    async def _ask_deduplicated(
        self, state: _LoopState, critic: Critic, request: JudgeRequest, digest: bytes | None, cache_digest: bytes | None
    ) -> tuple[CallResult, bool]:
        """The result of a request, and whether it shares the call of an identical one."""
        key = None if digest is None else (id(critic), digest)
        entry = None if key is None else state.in_flight.get(key)
        shared = entry is not None
        if entry is None:
            queue = self._queue_for(state, critic)
            entry = _InFlight(state.loop.create_task(self._ask_and_cache(state, queue, request, cache_digest)))
            state.tasks.add(entry.task)
            entry.task.add_done_callback(state.tasks.discard)
            if key is not None:
                state.in_flight[key] = entry
                entry.task.add_done_callback(lambda _: state.in_flight.pop(key, None))
        entry.waiting += 1
        try:
            # Shielded, since others may wait for it; the last one to give up cancels it.
            return await asyncio.shield(entry.task), shared
        finally:
            entry.waiting -= 1
            if not entry.waiting and not entry.task.done():
                entry.task.cancel()

    async def _ask_and_cache(
        self, state: _LoopState, queue: CriticQueue, request: JudgeRequest, cache_digest: bytes | None
    ) -> CallResult:
        result = await queue.ask(request)
        if result.judgement is not None and cache_digest is not None and self._cache is not None:
            self._cache.put(cache_digest, queue.critic, request, result.judgement)
            if state.flush_timer is None:
                state.flush_timer = state.loop.call_later(_FLUSH_INTERVAL_S, self._flush_cache, state)
        if queue.permanent_error is not None:
            self._permanent_errors[id(queue.critic)] = queue.critic, queue.permanent_error
        return result

    def _queue_for(self, state: _LoopState, critic: Critic) -> CriticQueue:
        queue = state.queues.get(id(critic))
        if queue is None:
            queue = CriticQueue(critic, self.policy, budget=self._budget, backoff=self._backoff, threads=state.threads)
            queue.permanent_error = self._permanent_errors.get(id(critic), (critic, None))[1]
            state.queues[id(critic)] = queue
        return queue

    # --- records and callbacks ---------------------------------------------------------------------------------------

    def _record(self, critic: Critic, request: JudgeRequest, result: CallResult, *, shared: bool) -> Judgement:
        """Record the result of a request; return the judgement or raise the error."""
        judgement, error = result.judgement, result.error
        record = JudgementRecord(
            metric=request.metric,
            sample_id=request.sample_id,
            repeat=request.repeat,
            critic=critic_name(critic),
            model=model_name(critic),
            prompt_id=request.prompt_id,
            answer=None if judgement is None else self._secrets.value(judgement.answer),
            reason=None if error is None else error.reason,
            message="" if error is None else self._secrets.message(error.message),
            rationale=None
            if judgement is None or judgement.rationale is None
            else self._secrets.text(judgement.rationale),
            raw=None if error is None or error.raw is None else self._secrets.text(error.raw)[:_MAX_RAW_CHARS],
            weighted=None if judgement is None else judgement.weighted,
            mass=None if judgement is None else judgement.mass,
            repaired=judgement is not None and judgement.repaired,
            usage=result.usage if judgement is None or not judgement.cached else judgement.usage,
            attempts=result.attempts,
            calls=result.calls,
            cached=judgement is not None and judgement.cached,
            shared=shared,
            seconds=result.seconds,
        )
        price = self.policy.prices.get(record.model)
        cost = None if price is None else price.cost(record.usage.prompt_tokens, record.usage.completion_tokens)
        self.usage_log.add(record, cost)
        self._notify(self._on_record, record)
        self._notify(self._on_progress, self.usage_log.total.judgements, self._num_requested)
        if judgement is not None:
            return judgement
        assert error is not None
        copy = copy_error(error)
        if self._secrets:
            self._secrets.redact_error(copy)
        raise copy from error.__cause__ if not self._secrets else None

    def _notify(self, callback: Callable[..., None] | None, *values: Any) -> None:
        if callback is not None and self._callback_error is None:
            try:
                callback(*values)
            except Exception as error:  # raised when the session ends, so that no judgement is lost
                self._callback_error = error

    def _show_warnings(self) -> None:
        if self._budget.exhausted_warning is not None and "budget" not in self._shown_warnings:
            self._shown_warnings.add("budget")
            self._warnings[self._budget.exhausted_warning] = None
        messages, self._warnings = self._warnings, {}
        for message in messages:
            warnings.warn(message, AueporaWarning, stacklevel=3)

    # --- beginning and end -------------------------------------------------------------------------------------------

    def _current_state(self) -> _LoopState:
        if self._state is None:
            raise BadValueError("the judging session is not open: use it inside 'async with session'")
        return self._state

    async def _shut_down(self, state: _LoopState) -> None:
        if state.flush_timer is not None:
            state.flush_timer.cancel()
        for task in state.tasks:
            task.cancel()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=2 * CANCEL_GRACE_S)
        for queue in state.queues.values():
            queue.close()
            if isinstance(queue.critic, StructuredCritic):
                try:
                    await asyncio.wait_for(queue.critic.aclose(), 2 * CANCEL_GRACE_S)
                except Exception as error:  # the session is over
                    _log.debug("closing a critic failed", exc_info=error)
        state.threads.shutdown(wait=False)

    def _flush_cache(self, state: _LoopState) -> None:
        state.flush_timer = None
        if self._cache is None:
            return
        try:
            self._cache.flush()
        except StoreError as error:
            self._warn_not_cached(error)
            return
        if self._cache.num_pending:  # another process writes
            state.flush_timer = state.loop.call_later(_FLUSH_INTERVAL_S, self._flush_cache, state)

    def _close_cache(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            try:
                cache.close()
            except StoreError as error:
                self._warn_not_cached(error)

    def _warn_not_cached(self, error: StoreError) -> None:
        self._warnings[f"judgements are not cached: {error}"] = None
