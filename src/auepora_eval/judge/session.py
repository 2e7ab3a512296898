"""Judge session: calls critics for metrics with a cache, a budget, a concurrency limit, retries and a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import math
import threading
import warnings
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

from ..core.batch import Batch
from ..errors import AueporaWarning, BadValueError, JudgeError, StoreError
from ..features.embeddings import model_key
from ..net.retry import Backoff, http_status, is_transient, retry_after
from ..runtime.processes import DaemonThreadPool
from ..runtime.secrets import Secrets
from .cache import JudgementCache, critic_cache_key, request_digest, request_key
from .critic import (
    Critic,
    JudgeClient,
    Judgement,
    JudgePolicy,
    JudgeRequest,
    LLMCritic,
    StructuredCritic,
    Usage,
    critic_name,
)
from .limits import AdaptiveLimiter, Budget, CircuitBreaker, JudgementRecord, Reservation, UsageLog, model_name
from .nli import EntailmentFunction, EntailmentScore, NliModel

# --- one call of a critic, with a timeout that always holds and a check of the reply ---------------------------------

CANCEL_GRACE_S = 1.0
"""Seconds that a cancelled call has to finish; after that it is abandoned."""
_OVERLOAD_REASONS = frozenset({"rate_limited", "timeout"})


async def call_critic(critic: Critic, request: JudgeRequest, *, timeout: float, threads: Executor) -> Judgement:
    """The critic's judgement within ``timeout`` seconds; every failure is a ``JudgeError``."""
    loop = asyncio.get_running_loop()
    work: asyncio.Future[Judgement | BaseException]
    if isinstance(critic, LLMCritic):
        work = loop.run_in_executor(threads, contextvars.copy_context().run, _call_simple, critic, request)
    else:
        work = loop.create_task(_call_structured(critic, request))
    try:
        await asyncio.wait((work,), timeout=timeout)
    except asyncio.CancelledError:
        await _cancel(work)
        raise
    if not work.done():
        await _cancel(work)
    if not work.done() or work.cancelled():
        raise JudgeError("timeout", f"no answer within {timeout:g} s", retry=True)
    outcome = work.result()
    if isinstance(outcome, BaseException):
        raise _as_judge_error(outcome) from outcome
    return outcome


def is_overload(error: JudgeError) -> bool:
    """Whether an error means that the judge is overloaded or rate-limited."""
    return error.reason in _OVERLOAD_REASONS or (error.__cause__ is not None and http_status(error.__cause__) == 429)


async def _cancel(work: asyncio.Future[Any]) -> None:
    """Cancel a call and wait a moment for it to finish."""
    work.cancel()
    if isinstance(work, asyncio.Task):  # a thread cannot be cancelled
        await asyncio.wait((work,), timeout=CANCEL_GRACE_S)


async def _call_structured(critic: Any, request: JudgeRequest) -> Judgement | BaseException:
    """The judgement or exception of a structured critic; returned, since SystemExit in a task would stop the loop."""
    try:
        return _check_judgement(await critic.judge(request), request.schema)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return error
    except KeyboardInterrupt as error:
        if threading.current_thread() is threading.main_thread():  # probably Ctrl-C by the user
            raise
        return error
    except (Exception, SystemExit) as error:
        return error


def _call_simple(critic: LLMCritic, request: JudgeRequest) -> Judgement | BaseException:
    """The judgement or exception of a simple critic; returned, since not every exception crosses threads."""
    try:
        value = critic.score(prompt=request.prompt, metadata=dict(request.metadata))
        return Judgement({_number_name(request.schema): _number(value, _number_schema(request.schema))})
    except BaseException as error:
        return error


def _as_judge_error(error: BaseException) -> JudgeError:
    if isinstance(error, JudgeError):
        return error
    return JudgeError(
        "critic_raised",
        f"{type(error).__name__}: {error}"[:1000],
        retry=is_transient(error),
        retry_after=retry_after(error),
    )


def _check_judgement(judgement: Any, schema: Mapping[str, Any]) -> Judgement:
    """The judgement, if its numbers fit the schema; a user's critic may not have checked that."""
    if not isinstance(judgement, Judgement) or not isinstance(judgement.answer, Mapping):
        raise JudgeError("unparseable", f"the critic returned {judgement!r:.200}, not a Judgement with an object")
    for name, inner in _properties(schema).items():
        value = judgement.answer.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            _number(value, inner, raw=judgement.raw)
    return judgement


def _number(value: Any, schema: Mapping[str, Any], raw: str | None = None) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    excerpt = repr(value)[:200] if raw is None else raw
    if not math.isfinite(number):
        raise JudgeError("unparseable", f"the critic returned {value!r:.80}, not a number", raw=excerpt)
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    if not low <= number <= high:
        raise JudgeError(
            "out_of_range", f"the critic returned {value!r:.80}, not between {low} and {high}", raw=excerpt
        )
    return number


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return {key: one for key, one in found.items() if isinstance(one, Mapping)} if isinstance(found, Mapping) else {}


def _number_name(schema: Mapping[str, Any]) -> str:
    """The key of the single number in the answer."""
    properties = _properties(schema)
    numbers = [name for name, inner in properties.items() if inner.get("type") in ("number", "integer")]
    return numbers[0] if "score" not in properties and len(numbers) == 1 else "score"


def _number_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = _properties(schema).get(_number_name(schema), {})
    return found if isinstance(found, Mapping) else {}


# --- the queue of one critic: concurrency limit, budget, retries -----------------------------------------------------

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


# --- the session: cache, budget, concurrency limit and retries for all critics ---------------------------------------

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


# --- shared requests: identical requests of several metrics about a sample are sent once -----------------------------

T = TypeVar("T")


class SharedJudgeClient:
    """The judge session as seen by one metric of a batch: requests of other metrics are reused.

    Failures are shared too. The session records every reuse, so that usage and stored judgements are complete for each
    metric.
    """

    def __init__(self, batch: Batch, judge: JudgeClient, metric: str) -> None:
        self._batch, self._judge, self._metric = batch, judge, metric

    @property
    def repeats(self) -> int:
        """Judgements per item."""
        return self._judge.repeats

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` on failure."""
        own = replace(request, metric=self._metric)
        key = "asked", model_key(critic), request_key(own)
        outcome, is_first = await self._once(key, lambda: self._judge.ask(critic, own))
        report_reuse = None if is_first else getattr(self._judge, "reused", None)
        if report_reuse is not None:
            report_reuse(critic, own, outcome)
        return _result_or_raise(outcome)

    async def score_entailment(
        self, nli: EntailmentFunction | NliModel, evidence: Sequence[str], statements: Sequence[str]
    ) -> list[EntailmentScore]:
        """NLI scores of statements, computed once for all metrics."""
        key = "entailed", model_key(nli), tuple(evidence), tuple(statements)
        outcome, _ = await self._once(key, lambda: nli.score(evidence, statements))
        return _result_or_raise(outcome)

    async def _once(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T | JudgeError, bool]:
        """The result of a request, and whether it was made here."""
        is_first = False

        async def build(_: Batch) -> T | JudgeError:
            nonlocal is_first
            is_first = True
            try:
                return await ask()
            except JudgeError as error:
                return error

        return await self._batch.afeature(key, build), is_first


def _result_or_raise(outcome: T | JudgeError) -> T:
    if isinstance(outcome, JudgeError):
        raise copy_error(outcome)
    return outcome
