"""Judge session: calls critics for metrics with a cache, a budget, a concurrency limit, retries and a timeout."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import logging
import math
import threading
import warnings
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.batch import Batch
from ..errors import AueporaWarning, BadValueError, JudgeError, StoreError
from ..features.embeddings import model_key
from ..net.retry import Backoff, call_with_retries, http_status
from ..runtime.processes import DaemonThreadPool, LoopThread
from ..runtime.secrets import Secrets
from .cache import JudgementCache, critic_cache_key, request_digest, request_key
from .critic import (
    Critic,
    JudgeClient,
    Judgement,
    JudgePolicy,
    JudgeRequest,
    LLMCritic,
    QuestionGroups,
    StructuredCritic,
    Usage,
    answers_all,
    as_judge_error,
    check_number,
    critic_name,
    named_answer,
    read_answer,
)
from .limits import AdaptiveLimiter, Budget, CircuitBreaker, JudgementRecord, Reservation, UsageLog, model_name
from .panel import PanelClient

if TYPE_CHECKING:
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
        raise as_judge_error(outcome) from outcome
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
        name = _number_name(request.schema)
        return Judgement({name: _number(value, _properties(request.schema).get(name, {}))})
    except BaseException as error:
        return error


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
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    return check_number(value, low, high, "the critic returned", repr(value)[:200] if raw is None else raw)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return {key: part for key, part in found.items() if isinstance(part, Mapping)} if isinstance(found, Mapping) else {}


def _number_name(schema: Mapping[str, Any]) -> str:
    """The key of the single number in the answer."""
    properties = _properties(schema)
    numbers = [name for name, inner in properties.items() if inner.get("type") in ("number", "integer")]
    return numbers[0] if "score" not in properties and len(numbers) == 1 else "score"


# --- the queue of one critic: deduplication, limiter, budget, retries, circuit breaker -------------------------------

_UNBILLED = frozenset(
    {
        "no_key",
        "unauthorized",
        "model_not_found",
        "not_supported",
        "redirected",
        "unreachable",
        "rate_limited",
        "server_error",
        "context_too_long",
    }
)
"""Failure reasons for which nothing was generated, so that no tokens are billed."""
_CLAIM_POLL_S = 0.1
"""Seconds between two looks for a judgement that another process is requesting."""


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


@dataclass(slots=True)
class _InFlight:
    """A request in the queue, and the number of callers waiting for it."""

    task: asyncio.Task[CallResult]
    waiting: int = 0


class JudgeQueue:
    """The requests to one critic. Belongs to one event loop.

    Identical requests share one call (``in_flight``). A call starts when the ``limiter`` admits it, the cache grants
    the claim and the ``budget`` has a reservation for it. Transient failures are retried; the ``breaker`` opens if
    nothing succeeds any more.
    """

    def __init__(
        self,
        critic: Critic,
        policy: JudgePolicy,
        *,
        budget: Budget,
        backoff: Backoff,
        cache: JudgementCache | None,
        threads: Executor,
        permanent_error: JudgeError | None = None,
    ) -> None:
        self.critic = critic
        self.permanent_error = permanent_error
        """Why the critic is no longer called."""
        self.is_closed = False
        self.limiter = AdaptiveLimiter(policy.concurrency, backoff=policy.backoff)
        self.breaker = CircuitBreaker(policy)
        self.budget = budget
        self.in_flight: dict[object, _InFlight] = {}
        self._policy, self._backoff, self._cache, self._threads = policy, backoff, cache, threads
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    async def ask(self, request: JudgeRequest, digest: bytes | None, *, cached: bool) -> tuple[CallResult, bool]:
        """The result of a request, and whether it shares the call of an identical one.

        Requests with the same ``digest`` are identical. ``cached``: whether the cache may have the judgement.
        """
        key = object() if digest is None else digest
        entry = self.in_flight.get(key)
        shared = entry is not None
        if entry is None:
            cache = self._cache if cached else None
            entry = _InFlight(self._loop.create_task(self._call(request, digest or b"", cache)))
            entry.task.add_done_callback(lambda _: self.in_flight.pop(key, None))
            self.in_flight[key] = entry
        entry.waiting += 1
        try:
            # Shielded, since others may wait for it; the last one to give up cancels it.
            return await asyncio.shield(entry.task), shared
        finally:
            entry.waiting -= 1
            if not entry.waiting and not entry.task.done():
                entry.task.cancel()

    async def close(self) -> None:
        """Cancel all requests and close the critic."""
        self.is_closed = True
        tasks = [entry.task for entry in self.in_flight.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2 * CANCEL_GRACE_S)
        self.limiter.close()
        if isinstance(self.critic, StructuredCritic):
            try:
                await asyncio.wait_for(self.critic.aclose(), 2 * CANCEL_GRACE_S)
            except Exception as error:  # the session is over
                _log.debug("closing a critic failed", exc_info=error)

    async def _call(self, request: JudgeRequest, digest: bytes, cache: JudgementCache | None) -> CallResult:
        """Call until there is a judgement, a permanent failure, or no retry left."""
        result = CallResult()
        try:
            result.judgement = await call_with_retries(
                lambda: self._attempt(request, result, digest, cache),
                self._policy,
                backoff=self._backoff,
                sleep=self._sleep,
                # A success that began after the last failure shows that the server is healthy.
                has_recovered=lambda failed_at: self.limiter.last_success_began > failed_at,
            )
            if cache is not None:
                # In the file before it counts as answered, so that no request is repeated after a kill. A call that
                # starts now waits for the same transaction, which also writes its claim.
                if len(request.questions) < 2 or answers_all(result.judgement):
                    cache.put(digest, self.critic, request, result.judgement)
                cache.release(digest)
                await cache.commit()
        except JudgeError as error:
            result.error = error
        finally:
            if cache is not None:
                cache.release(digest)
        return result

    async def _sleep(self, seconds: float) -> None:
        """Sleep; a permanent failure ends it early."""
        await asyncio.wait((self._stopped,), timeout=seconds)

    async def _attempt(
        self, request: JudgeRequest, result: CallResult, digest: bytes, cache: JudgementCache | None
    ) -> Judgement:
        """One call; or the judgement of another process that makes the same call."""
        while True:
            if self.permanent_error is not None:
                raise copy_error(self.permanent_error)
            await self.limiter.acquire(is_retry=result.attempts > 0)
            try:
                if cache is None or await cache.claim(digest):
                    return await self._call_critic(request, result)
            finally:
                self.limiter.release()
            if (judgement := cache.get(digest)) is not None:
                return judgement
            await self._sleep(_CLAIM_POLL_S)

    async def _call_critic(self, request: JudgeRequest, result: CallResult) -> Judgement:
        reservation = await self.budget.reserve(self.critic, request)
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
            self.budget.commit(reservation, None)  # cancelled: the usage is unknown
            raise
        finally:
            result.seconds += self._loop.time() - began
        if judgement.cached:  # from the critic's own cache: no request was made
            self.budget.release(reservation, calls=0)
        else:
            calls = 1 + judgement.repaired
            self.budget.commit(reservation, judgement.usage, calls=calls)
            result.calls += calls
            result.usage += judgement.usage
        self.limiter.record_success(began)
        self.breaker.record_success()
        return judgement

    def _record_failure(self, reservation: Reservation, error: JudgeError, result: CallResult, began: float) -> None:
        usage = Usage(*error.tokens)
        result.calls += error.calls
        result.usage += usage
        if not any(error.tokens) and (not error.calls or error.reason in _UNBILLED):
            self.budget.release(reservation, calls=error.calls)
        else:
            self.budget.commit(reservation, usage, calls=error.calls)
        if not error.retry:
            self.breaker.record_success()  # there was a reply, if not a judgement
        elif (silent_s := self.breaker.record_failure(error, began, self._loop.time())) is not None:
            message = f"{error.message}; there was no reply for {silent_s:.0f} s, and no further call is made"
            error = JudgeError(error.reason, message, raw=error.raw, lasting=True)
        if error.lasting:
            self.permanent_error = error
            if not self._stopped.done():
                self._stopped.set_result(None)
            self.limiter.close(copy_error(error))
        elif is_overload(error):
            self.limiter.record_rejection(began, error.retry_after)
        elif error.retry_after is not None:
            self.limiter.pause(error.retry_after)


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


# --- the session: cache, budget, queues and records for all critics --------------------------------------------------

T = TypeVar("T")

_FLUSH_INTERVAL_S = 0.2
"""Seconds between two attempts to write judgements that could not be written at once, and to renew claims."""
_MAX_RAW_CHARS = 2000
"""Characters stored of a reply that could not be parsed."""
_MAX_THREADS = 1_000_000
_ALIASES = ("-latest", ":latest", "-preview")
"""Ends of names that stand for a model that changes."""
NOT_CACHED = "no call is made, and the cache does not have the judgement"
_log = logging.getLogger(__name__)


class JudgeSession(PanelClient):
    """Calls critics within the limits of a policy.

    Use it with ``async with``; it may be entered again later, on another loop, and continues with the same budget and
    usage log. ``on_record`` gets every judgement, successful or failed; ``on_progress`` the number done and the number
    requested. Both are called on the loop's thread. ``secrets`` are masked in records, errors and cache.

    Example:
        >>> session = JudgeSession(JudgePolicy(max_calls=10))
        >>> critic = RecordedCritic({"q1": 1.0, "q2": 0.0})
        >>> evaluate(samples, outputs, [{"llm_faithfulness": {"critic": critic}}], judging=session)[0].value
        0.5
    """

    def __init__(
        self,
        policy: JudgePolicy = JudgePolicy(),
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
        self._queues: dict[int, JudgeQueue] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._depth = 0
        self._cache: JudgementCache | None = None
        self._num_requested = 0
        self._callback_error: Exception | None = None
        self._warnings: dict[str, None] = {}
        self._shown_warnings: set[str] = set()
        self._served: dict[str, dict[str, None]] = {}
        self.separate = False
        """Whether questions to decision models about the same texts are asked one by one."""

    @property
    def repeats(self) -> int:
        """Judgements per item."""
        return self.policy.repeats

    async def __aenter__(self) -> JudgeSession:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise BadValueError("a judging session is used by one evaluation at a time; give each its own")
        if self._loop is None:
            if self.policy.cache is not None:
                self._cache = JudgementCache(self.policy.cache, secrets=self._secrets)
            self._loop = asyncio.get_running_loop()
            self._groups = QuestionGroups(separate=self.separate)
            # The limiters bound how many threads run; hanging ones are abandoned.
            self._threads = DaemonThreadPool(_MAX_THREADS)
            self._writer = self._loop.create_task(self._write_cache())
        self._depth += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth:
            return
        try:
            self._writer.cancel()
            closing = [queue.close() for queue in self._queues.values() if not queue.is_closed]
            await asyncio.gather(self._writer, *closing, return_exceptions=True)
            self._threads.shutdown(wait=False)
        finally:
            self._loop = None
            self._close_cache()
        if kind is None:
            self._show_warnings()
            if self._callback_error is not None:
                failed, self._callback_error = self._callback_error, None
                raise failed

    async def ask_one(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The judgement of a critic that is no panel; ``JudgeError`` on failure."""
        if self._loop is None:
            raise BadValueError("the judging session is not open: use it inside 'async with session'")
        self._budget.price(critic)  # a missing price raises before any call
        self._num_requested += 1
        group = await self._groups.join(critic, request) if request.questions else request
        if group is not request:
            return await self._ask_together(critic, request, group)
        cache_key = critic_cache_key(critic, request)
        digest = request_digest(critic, request, cache_key)
        is_cached = cache_key is not None and digest is not None
        if is_cached and self._cache is not None:
            assert digest is not None
            judgement = self._cache.get(digest)
            if judgement is not None:
                return self._record(critic, request, CallResult(judgement), shared=False)
        if self.policy.cache_only:
            return self._record(critic, request, CallResult(error=JudgeError("not_cached", NOT_CACHED)), shared=False)
        result, shared = await self._queue_for(critic).ask(request, digest, cached=is_cached)
        return self._record(critic, request, result, shared=shared)

    async def _ask_together(self, critic: Critic, request: JudgeRequest, group: JudgeRequest) -> Judgement:
        """The judgement of one question of a group, from the reply to all of them."""
        cache_key = critic_cache_key(critic, group)
        group_digest = request_digest(critic, group, cache_key)
        assert group_digest is not None
        request = replace(request, asked_with=group_digest.hex())
        digest = request_digest(critic, request, cache_key)
        assert digest is not None
        cache = None if cache_key is None else self._cache
        result, shared = CallResult(error=JudgeError("not_cached", NOT_CACHED)), False
        if cache is not None:
            own = cache.get(digest)
            if own is not None:
                return self._record(critic, request, CallResult(own), shared=False)
            result.judgement = cache.get(group_digest)
        if result.judgement is None and not self.policy.cache_only:
            queue = self._queue_for(critic)
            result, shared = await queue.ask(group, group_digest, cached=cache_key is not None)
        reply = result.judgement
        if reply is not None:
            try:
                found = named_answer(reply, group, request)
                answer = read_answer(found, request, json.dumps(found, ensure_ascii=False))
                result = replace(result, judgement=replace(answer, usage=reply.usage, cached=reply.cached), error=None)
            except JudgeError as error:
                result = replace(result, judgement=None, error=error)
            if cache is not None and result.judgement is not None and not answers_all(reply):
                cache.put(digest, critic, request, result.judgement)
                await cache.commit()
        return self._record(critic, request, result, shared=shared)

    def reused(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        """Record that a metric reused the result of another metric's request."""
        self._num_requested += 1
        judgement, error = (None, outcome) if isinstance(outcome, JudgeError) else (outcome, None)
        with contextlib.suppress(JudgeError):
            self._record(critic, request, CallResult(judgement, error), shared=True)

    def _queue_for(self, critic: Critic) -> JudgeQueue:
        queue = self._queues.get(id(critic))
        if queue is None or queue.is_closed:
            queue = self._queues[id(critic)] = JudgeQueue(
                critic,
                self.policy,
                budget=self._budget,
                backoff=self._backoff,
                cache=self._cache,
                threads=self._threads,
                permanent_error=None if queue is None else queue.permanent_error,
            )
        return queue

    # --- records and callbacks ---------------------------------------------------------------------------------------

    def _record(self, critic: Critic, request: JudgeRequest, result: CallResult, *, shared: bool) -> Judgement:
        """Record the result of a request; return the judgement or raise the error."""
        judgement, error = result.judgement, result.error
        outcome: dict[str, Any] = {"answer": None} if judgement is None else self._judgement_fields(judgement)
        if error is not None:
            outcome |= {"reason": error.reason, "message": self._secrets.message(error.message)}
            outcome["raw"] = None if error.raw is None else self._secrets.text(error.raw)[:_MAX_RAW_CHARS]
        usage, is_cached = result.usage, False
        if judgement is not None and judgement.cached:
            usage, is_cached = judgement.usage, True
        record = JudgementRecord(
            metric=request.metric,
            sample_id=request.sample_id,
            repeat=request.repeat,
            critic=critic_name(critic),
            model=model_name(critic),
            prompt_id=request.prompt_id,
            usage=usage,
            attempts=result.attempts,
            calls=result.calls,
            cached=is_cached,
            shared=shared,
            seconds=result.seconds,
            **outcome,
        )
        price = self.policy.prices.get(record.model)
        cost = None if price is None else price.cost(record.usage.prompt_tokens, record.usage.completion_tokens)
        self.usage_log.add(record, cost)
        self._notify(self._on_record, record)
        self._notify(self._on_progress, self.usage_log.total.judgements, self._num_requested)
        if judgement is not None:
            self.keep(critic, request, judgement, shared=shared)
            if request.questions:
                self._note_served(critic, str(judgement.answer.get("served_model") or ""))
            return judgement
        assert error is not None
        copy = copy_error(error)
        if self._secrets:
            self._secrets.redact_error(copy)
        if request.questions and error.lasting:
            self._warnings[f"{critic_name(critic)} is not asked any more: {copy.message}"] = None
        self.keep(critic, request, copy, shared=shared)
        raise copy from error.__cause__ if not self._secrets else None

    def _judgement_fields(self, judgement: Judgement) -> dict[str, Any]:
        rationale = judgement.rationale
        return {
            "answer": self._secrets.value(judgement.answer),
            "rationale": None if rationale is None else self._secrets.text(rationale),
            "weighted": judgement.weighted,
            "mass": judgement.mass,
            "repaired": judgement.repaired,
        }

    def _note_served(self, critic: Critic, served: str) -> None:
        """Note a warning where the model that answers may change: its name is an alias, or has changed already."""
        model, names = model_name(critic), self._served.setdefault(critic_name(critic), {})
        if served in names:
            return
        names[served] = None
        if model.endswith(_ALIASES):
            known = f"; {served} answered" if served not in ("", model) else ""
            self._warnings[f"'{model}' is an alias, and may be another model tomorrow{known}: name a version"] = None
        if len(names) > 1:
            listed = " and ".join(names)
            self._warnings[f"{listed} answered for '{model}': their scores cannot be compared; name a version"] = None

    def keep(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError, *, shared: bool) -> None:
        """Do nothing. Subclasses override this to store the outcome of each request.

        ``shared`` is true where the outcome is that of an equal request.
        """

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

    # --- the cache file ----------------------------------------------------------------------------------------------

    async def _write_cache(self) -> None:
        """Renew claims at an interval, and write judgements that could not be written when they arrived."""
        while self._cache is not None:
            await asyncio.sleep(_FLUSH_INTERVAL_S)
            try:
                self._cache.flush()
            except StoreError as error:
                self._warn_not_cached(error)

    def _close_cache(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            try:
                cache.close()
            except StoreError as error:
                self._warn_not_cached(error)

    def _warn_not_cached(self, error: StoreError) -> None:
        self._warnings[f"judgements are not cached: {error}"] = None


def run_judging(judging: JudgeSession | JudgePolicy | None, work: Callable[[JudgeSession], Awaitable[T]]) -> T:
    """The result of ``work`` with a judge session, on a loop of its own: a given session, or one with this policy."""
    session = judging if isinstance(judging, JudgeSession) else JudgeSession(judging or JudgePolicy())

    async def run() -> T:
        async with session as judge:
            return await work(judge)

    with LoopThread() as loop:
        return loop.run(run())


# --- shared requests: identical requests of several metrics about a sample are sent once -----------------------------


class SharedJudgeClient(PanelClient):
    """The judge session as seen by one metric of a batch: requests of other metrics are reused.

    Failures are shared too. The session records every reuse, so that usage and stored judgements are complete for each
    metric.
    """

    def __init__(self, batch: Batch, judge: JudgeClient, metric: str) -> None:
        self._batch, self._judge, self._metric = batch, judge, metric
        self.exclusions = judge.exclusions if isinstance(judge, PanelClient) else {}

    @property
    def repeats(self) -> int:
        """Judgements per item."""
        return self._judge.repeats

    async def ask_one(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The judgement of a critic that is no panel; ``JudgeError`` on failure."""
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

        return await self._batch.request_batch.afeature(key, build), is_first


def _result_or_raise(outcome: T | JudgeError) -> T:
    if isinstance(outcome, JudgeError):
        raise copy_error(outcome)
    return outcome
