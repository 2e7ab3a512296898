"""The session that asks judges on behalf of metrics: from the cache, within the budget, not too many at once, again."""

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

_WRITE_EVERY = 0.2
"""Seconds after which a judgement is in the file at the latest."""
_KEPT_RAW = 2000
"""Characters kept of what a judge said that could not be used."""
_MAX_THREADS = 1_000_000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _InFlight:
    """A question under way, and how many wait for it."""

    task: asyncio.Task[CallResult]
    waiting: int = 0


class _LoopState:
    """What belongs to one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.depth = 0
        self.lines: dict[int, CriticQueue] = {}
        self.flights: dict[tuple[int, bytes], _InFlight] = {}
        self.tasks: set[asyncio.Task[CallResult]] = set()
        self.threads = DaemonThreadPool(_MAX_THREADS)  # places say how many run; those that hang are left behind
        self.writing: asyncio.TimerHandle | None = None


class JudgeSession:
    """Asks critics, within what a policy allows.

    Use it as ``async with``; it may be entered again later, on another loop, and goes on with the same budget and
    accounts. ``on_record`` is told of every judgement, made or failed; ``on_progress`` how many are done and how many
    were asked for. Both are called on the loop's thread. What ``secrets`` holds is hidden in records, errors and cache.
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
        self._waits = Backoff(policy)
        self._lasting: dict[int, tuple[Critic, JudgeError]] = {}
        self._cache: JudgementCache | None = None
        self._open: _LoopState | None = None
        self._asked = 0
        self._callback_error: Exception | None = None
        self._remarks: dict[str, None] = {}
        self._said: set[str] = set()

    @property
    def repeats(self) -> int:
        """How often each thing is judged."""
        return self.policy.repeats

    async def __aenter__(self) -> JudgeSession:
        if self._open is not None and self._open.loop is not asyncio.get_running_loop():
            raise BadValueError("a judging session is used by one evaluation at a time; give each its own")
        if self._open is None:
            if self.policy.cache is not None:
                self._cache = JudgementCache(self.policy.cache, secrets=self._secrets)
            self._open = _LoopState()
        self._open.depth += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        here = self._here()
        here.depth -= 1
        if here.depth:
            return
        try:
            await self._end(here)
        finally:
            self._open = None
            self._close_cache()
        if kind is None:
            self._say_remarks()
            if self._callback_error is not None:
                failed, self._callback_error = self._callback_error, None
                raise failed

    async def ask(self, critic: Critic, request: JudgeRequest) -> Judgement:
        """The critic's judgement; ``JudgeError`` where there is none."""
        here = self._here()
        self._budget.price(critic)  # so that a missing price is told before anything is asked
        self._asked += 1
        known = critic_cache_key(critic, request)
        digest = request_digest(critic, request, known)
        kept = digest if known is not None else None
        if kept is not None and self._cache is not None:
            found = self._cache.get(kept)
            if found is not None:
                return self._concluded(critic, request, CallResult(found), shared=False)
        if self.policy.cache_only:
            error = JudgeError("not_cached", "nobody is asked, and the cache does not have it")
            return self._concluded(critic, request, CallResult(error=error), shared=False)
        outcome, shared = await self._flown(here, critic, request, digest, kept)
        return self._concluded(critic, request, outcome, shared=shared)

    def reused(self, critic: Critic, request: JudgeRequest, outcome: Judgement | JudgeError) -> None:
        """Note that a metric learned from what another one asked before."""
        self._asked += 1
        made, error = (None, outcome) if isinstance(outcome, JudgeError) else (outcome, None)
        with contextlib.suppress(JudgeError):
            self._concluded(critic, request, CallResult(made, error), shared=True)

    # --- one call for all who ask the same ---------------------------------------------------------------------------

    async def _flown(
        self, here: _LoopState, critic: Critic, request: JudgeRequest, digest: bytes | None, kept: bytes | None
    ) -> tuple[CallResult, bool]:
        """What becomes of the question, and whether another one's call served this one too."""
        key = None if digest is None else (id(critic), digest)
        flight = None if key is None else here.flights.get(key)
        shared = flight is not None
        if flight is None:
            line = self._line(here, critic)
            flight = _InFlight(here.loop.create_task(self._asked_for(here, line, request, kept)))
            here.tasks.add(flight.task)
            flight.task.add_done_callback(here.tasks.discard)
            if key is not None:
                here.flights[key] = flight
                flight.task.add_done_callback(lambda _: here.flights.pop(key, None))
        flight.waiting += 1
        try:
            # Shielded, since others may wait for the same; whoever gives up last takes it along.
            return await asyncio.shield(flight.task), shared
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                flight.task.cancel()

    async def _asked_for(
        self, here: _LoopState, line: CriticQueue, request: JudgeRequest, kept: bytes | None
    ) -> CallResult:
        outcome = await line.ask(request)
        if outcome.judgement is not None and kept is not None and self._cache is not None:
            self._cache.put(kept, line.critic, request, outcome.judgement)
            if here.writing is None:
                here.writing = here.loop.call_later(_WRITE_EVERY, self._write, here)
        if line.lasting is not None:
            self._lasting[id(line.critic)] = line.critic, line.lasting
        return outcome

    def _line(self, here: _LoopState, critic: Critic) -> CriticQueue:
        line = here.lines.get(id(critic))
        if line is None:
            line = CriticQueue(critic, self.policy, budget=self._budget, waits=self._waits, threads=here.threads)
            line.lasting = self._lasting.get(id(critic), (critic, None))[1]
            here.lines[id(critic)] = line
        return line

    # --- telling ---------------------------------------------------------------------------------------------------

    def _concluded(self, critic: Critic, request: JudgeRequest, outcome: CallResult, *, shared: bool) -> Judgement:
        """Note what became of a question, and hand it on."""
        made, error = outcome.judgement, outcome.error
        record = JudgementRecord(
            metric=request.metric,
            sample_id=request.sample_id,
            repeat=request.repeat,
            critic=critic_name(critic),
            model=model_name(critic),
            prompt_id=request.prompt_id,
            answer=None if made is None else self._secrets.value(made.answer),
            reason=None if error is None else error.reason,
            message="" if error is None else self._secrets.message(error.message),
            rationale=None if made is None or made.rationale is None else self._secrets.text(made.rationale),
            raw=None if error is None or error.raw is None else self._secrets.text(error.raw)[:_KEPT_RAW],
            weighted=None if made is None else made.weighted,
            mass=None if made is None else made.mass,
            repaired=made is not None and made.repaired,
            usage=outcome.usage if made is None or not made.cached else made.usage,
            attempts=outcome.attempts,
            calls=outcome.calls,
            cached=made is not None and made.cached,
            shared=shared,
            seconds=outcome.seconds,
        )
        price = self.policy.prices.get(record.model)
        cost = None if price is None else price.of(record.usage.prompt_tokens, record.usage.completion_tokens)
        self.usage_log.add(record, cost)
        self._tell(self._on_record, record)
        self._tell(self._on_progress, self.usage_log.total.judgements, self._asked)
        if made is not None:
            return made
        assert error is not None
        told = copy_error(error)
        if self._secrets:
            self._secrets.redact_error(told)
        raise told from error.__cause__ if not self._secrets else None

    def _tell(self, callback: Callable[..., None] | None, *values: Any) -> None:
        if callback is not None and self._callback_error is None:
            try:
                callback(*values)
            except Exception as error:  # raised when the session ends: a judgement is not to be lost for it
                self._callback_error = error

    def _say_remarks(self) -> None:
        if self._budget.exhausted_warning is not None and "budget" not in self._said:
            self._said.add("budget")
            self._remarks[self._budget.exhausted_warning] = None
        remarks, self._remarks = self._remarks, {}
        for remark in remarks:
            warnings.warn(remark, AueporaWarning, stacklevel=3)

    # --- beginning and end -------------------------------------------------------------------------------------------

    def _here(self) -> _LoopState:
        if self._open is None:
            raise BadValueError("the judging session is not open: ask inside 'async with session'")
        return self._open

    async def _end(self, here: _LoopState) -> None:
        if here.writing is not None:
            here.writing.cancel()
        for task in here.tasks:
            task.cancel()
        if here.tasks:
            await asyncio.wait(here.tasks, timeout=2 * CANCEL_GRACE_S)
        for line in here.lines.values():
            line.close()
            if isinstance(line.critic, StructuredCritic):
                try:
                    await asyncio.wait_for(line.critic.aclose(), 2 * CANCEL_GRACE_S)
                except Exception as error:  # nothing depends on it any more
                    _log.debug("closing a critic failed", exc_info=error)
        here.threads.shutdown(wait=False)

    def _write(self, here: _LoopState) -> None:
        here.writing = None
        if self._cache is None:
            return
        try:
            self._cache.flush()
        except StoreError as error:
            self._not_kept(error)
            return
        if self._cache.waiting:  # another process writes
            here.writing = here.loop.call_later(_WRITE_EVERY, self._write, here)

    def _close_cache(self) -> None:
        cache, self._cache = self._cache, None
        if cache is not None:
            try:
                cache.close()
            except StoreError as error:
                self._not_kept(error)

    def _not_kept(self, error: StoreError) -> None:
        self._remarks[f"judgements are not kept: {error}"] = None
