"""Limits of judge calls: adaptive concurrency, circuit breaker, budget, and the record of usage."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import BadValueError, JudgeError
from ..net.retry import MAX_BACKOFF, MAX_RETRY_AFTER
from .critic import Critic, JudgePolicy, JudgeRequest, Price, Usage, critic_name

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
        self._max_limit = self.limit = max_limit
        """The current limit."""
        self._successes = 0
        """Since the limit was last raised."""
        self._backoff = backoff
        self.in_flight = 0
        """Number of requests in flight."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._retrying: deque[asyncio.Future[None]] = deque()
        self._paused_at = self._resume_at = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._rejections_in_a_row = 0
        self.last_success_began = -math.inf
        """Latest start time of a request that succeeded."""

    async def acquire(self, *, is_retry: bool = False) -> None:
        """Wait for a free slot and take it; give it back with ``release``.

        Retries go before first attempts: otherwise all retries would come at the very end.
        """
        queue = self._retrying if is_retry else self._waiting
        if not queue and self._has_room():
            self.in_flight += 1
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
        self.in_flight -= 1
        self._admit()

    def record_success(self, began: float) -> None:
        """Record the success of a request that began at this time of the loop's clock."""
        self.last_success_began = max(self.last_success_began, began)
        self._rejections_in_a_row = 0
        self._successes += 1
        if self._successes >= SUCCESSES_PER_INCREASE:
            self._successes = 0
            self.limit = min(self._max_limit, self.limit + 1)
            self._admit()

    def record_rejection(self, began: float, retry_after: float | None = None) -> None:
        """Record the rejection of a request that began at this time of the loop's clock.

        ``retry_after`` is the number of seconds for which the server wants no requests at all.
        """
        if retry_after is not None:
            self.pause(retry_after)
        elif self.limit == 1 and began >= self._paused_at:
            # Even a single request is rejected: further ones would fail at once.
            self.pause(min(self._backoff * 2 ** min(self._rejections_in_a_row, 20), MAX_RETRY_AFTER / 2))
            self._rejections_in_a_row += 1
        self.limit = max(1, self.limit - 1)

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
        return self.in_flight < self.limit and asyncio.get_running_loop().time() >= self._resume_at

    def _admit(self) -> None:
        while (queue := self._retrying or self._waiting) and self._has_room():
            waiter = queue.popleft()
            if not waiter.done():
                self.in_flight += 1
                waiter.set_result(None)
        if queue and self._timer is None and self.in_flight < self.limit:
            self._timer = asyncio.get_running_loop().call_at(self._resume_at, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._admit()


# --- circuit breaker: stop calling a judge that has not replied for too long -----------------------------------------


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


# --- budget: reserved before each call by an estimate, committed when the call is over -------------------------------

_BYTES_PER_TOKEN = 4
_FIRST_COMPLETION = 256
"""Assumed tokens of a reply before any was seen, if the critic sets no limit."""


def model_name(critic: Critic) -> str:
    """The key of a critic in the price list: its model, or its name if it has none."""
    model = getattr(critic, "model", None)
    return model if isinstance(model, str) and model else critic_name(critic)


class TokenEstimator:
    """Estimates the tokens of a request: a quarter of its bytes, corrected by what the server has counted so far.

    The estimate is conservative: it uses the highest ratio and the longest reply seen, and the critic's own limit
    for replies (``max_tokens``) if it has one.
    """

    def __init__(self) -> None:
        self._ratio, self._completion = 1.0, 0
        self.has_observations = False
        """Whether any call has finished."""

    def estimate(self, critic: Critic, request: JudgeRequest) -> Usage:
        """The tokens that the request may use."""
        limit = getattr(critic, "max_tokens", None)
        if request.questions:
            completion = 0  # no text is generated
        elif isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            completion = limit
        else:
            completion = self._completion or _FIRST_COMPLETION
        return Usage(math.ceil(_estimate_prompt_tokens(request) * self._ratio), completion)

    def update(self, request: JudgeRequest, usage: Usage | None) -> None:
        """Correct the estimate by the usage of a finished request; ``None`` if it is unknown."""
        self.has_observations = True
        if usage is not None and usage.prompt_tokens:
            self._ratio = max(self._ratio, usage.prompt_tokens / _estimate_prompt_tokens(request))
            self._completion = max(self._completion, usage.completion_tokens)


def _estimate_prompt_tokens(request: JudgeRequest) -> int:
    texts = (request.system, request.prompt, json.dumps(request.schema, default=str) if request.schema else "")
    return max(1, math.ceil(sum(len(text.encode(errors="replace")) for text in texts) / _BYTES_PER_TOKEN))


@dataclass(slots=True)
class _UsageAmount:
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def add(self, other: _UsageAmount, sign: int = 1) -> None:
        self.calls += sign * other.calls
        self.tokens += sign * other.tokens
        self.cost += sign * other.cost


@dataclass(frozen=True, slots=True)
class Reservation:
    """Calls, tokens and cost set aside for a call in flight."""

    critic: Critic
    request: JudgeRequest
    """The request to send; with the last call of the budget it must not be repaired."""
    amount: _UsageAmount
    estimate: Usage


class Budget:
    """Hard caps on calls, tokens and cost. A call starts only if it fits even if all calls in flight use their maximum.

    A call that fits only if those turn out cheaper waits for them. If tokens or cost are capped, the first call of a
    model runs alone, because there is nothing to estimate from. A critic that may send several requests per question
    states how many in ``calls_at_most``, and sends only one if the request's ``may_repair`` is false.
    """

    def __init__(self, policy: JudgePolicy) -> None:
        self._policy = policy
        self._spent, self._reserved = _UsageAmount(), _UsageAmount()
        self._estimators: dict[str, TokenEstimator] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._caps: dict[str, Any] = {
            name: cap
            for name, cap in (
                ("calls", policy.max_calls),
                ("tokens", policy.max_tokens),
                ("cost", policy.max_cost),
            )
            if cap is not None
        }
        self._counts_tokens = not self._caps.keys().isdisjoint(("tokens", "cost"))
        self.refused = 0
        """Number of calls that did not fit."""

    @property
    def caps(self) -> dict[str, float]:
        """The caps on calls, tokens and cost that are set."""
        return dict(self._caps)

    @property
    def spent(self) -> dict[str, float]:
        """Calls, tokens and cost so far, as they count against the caps."""
        return {"calls": self._spent.calls, "tokens": self._spent.tokens, "cost": self._spent.cost}

    @property
    def exhausted_warning(self) -> str | None:
        """The warning to show if calls were refused; else ``None``."""
        if not self.refused:
            return None
        caps = ", ".join(f"max_{name} {cap:g}" for name, cap in self._caps.items())
        return (
            f"the budget for judging ({caps}) is spent: {self.refused:,} requests were not made, and what they were "
            "about is a failed measurement (budget_exhausted)"
        )

    def price(self, critic: Critic) -> Price | None:
        """The price of the critic's tokens; raises if cost is capped and the price is unknown."""
        model = model_name(critic)
        price = self._policy.prices.get(model)
        if price is None and "cost" in self._caps:
            raise BadValueError(f"max_cost needs the price of '{model}': add it to the prices, 0 if it costs nothing")
        return price

    async def reserve(self, critic: Critic, request: JudgeRequest) -> Reservation:
        """Reserve what a call may use, waiting if needed; ``JudgeError`` if it no longer fits."""
        while True:
            reservation = self._make_reservation(critic, request, getattr(critic, "calls_at_most", 1))
            over = self._over(reservation.amount, self._spent)
            if over == "calls" and reservation.amount.calls > 1:
                reservation = self._make_reservation(critic, replace(request, may_repair=False), 1)
                over = self._over(reservation.amount, self._spent)
            if over:
                self.refused += 1
                raise JudgeError("budget_exhausted", f"the call would go beyond max_{over} ({self._caps[over]:g})")
            alone = self._counts_tokens and not self._estimator(critic).has_observations
            if not self._reserved.calls or not (alone or self._over(reservation.amount, self._spent, self._reserved)):
                self._reserved.add(reservation.amount)
                return reservation
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def commit(self, reservation: Reservation, usage: Usage | None, *, calls: int = 1) -> None:
        """Replace a reservation by the actual usage; if that is unknown (``None``), the full reservation counts."""
        self._reserved.add(reservation.amount, -1)
        if not self._reserved.calls:
            self._reserved = _UsageAmount()  # drops rounding errors
        counted = usage if usage is None or usage.prompt_tokens or usage.completion_tokens else None
        self._spent.add(self._amount(reservation.critic, reservation.estimate if counted is None else counted, calls))
        if self._counts_tokens:
            self._estimator(reservation.critic).update(reservation.request, counted)
        self._wake()

    def release(self, reservation: Reservation, *, calls: int = 1) -> None:
        """Drop the reservation of a call that used no tokens: it was refused, or never arrived."""
        self._reserved.add(reservation.amount, -1)
        self._spent.add(_UsageAmount(calls))
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def _estimator(self, critic: Critic) -> TokenEstimator:
        return self._estimators.setdefault(model_name(critic), TokenEstimator())

    def _make_reservation(self, critic: Critic, request: JudgeRequest, calls: int) -> Reservation:
        estimate = self._estimator(critic).estimate(critic, request) if self._counts_tokens else Usage()
        return Reservation(critic, request, self._amount(critic, estimate, calls), estimate)

    def _amount(self, critic: Critic, usage: Usage, calls: int) -> _UsageAmount:
        price = self.price(critic)
        cost = 0.0 if price is None else price.cost(usage.prompt_tokens, usage.completion_tokens)
        return _UsageAmount(calls, usage.prompt_tokens + usage.completion_tokens, cost)

    def _over(self, *amounts: _UsageAmount) -> str | None:
        """The cap that these amounts together would exceed."""
        for name, cap in self._caps.items():
            if sum(getattr(amount, name) for amount in amounts) > cap * (1 + 1e-12):
                return name
        return None


# --- usage: one record per judgement, and totals by metric, by critic and overall ------------------------------------


@dataclass(frozen=True, slots=True)
class JudgementRecord:
    """One request to a judge and its outcome: a judgement or a failure."""

    metric: str
    sample_id: str
    repeat: int
    critic: str
    model: str
    prompt_id: str
    answer: Mapping[str, Any] | None
    """The judge's answer; ``None`` if the judgement failed."""
    reason: str | None = None
    """The failure reason, a short code."""
    message: str = ""
    """The failure message."""
    rationale: str | None = None
    raw: str | None = None
    """The reply that could not be used, shortened."""
    weighted: float | None = None
    mass: float | None = None
    repaired: bool = False
    usage: Usage = Usage()  # noqa: RUF009 -- frozen
    """Tokens of the judgement, also if it came from the cache."""
    attempts: int = 0
    """Number of attempts; 0 if it came from the cache."""
    calls: int = 0
    """Requests made: a critic may send a second one to have an answer repaired."""
    cached: bool = False
    shared: bool = False
    """Whether an identical concurrent request served this one too."""
    seconds: float = 0.0
    """Duration of the calls, without waiting for the limiter or between retries."""


@dataclass(slots=True)
class UsageTotals:
    """Totals over judgements."""

    judgements: int = 0
    """All requested judgements, failed ones included."""
    calls: int = 0
    """Requests made, retries and repairs included."""
    cached: int = 0
    shared: int = 0
    retried: int = 0
    """Retries among the calls."""
    repaired: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """By reason."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """``None`` where no price is known."""
    seconds: float = 0.0

    def add(self, record: JudgementRecord, cost: float | None) -> None:
        """Add one record."""
        self.judgements += 1
        if record.reason is not None:
            self.failed[record.reason] += 1
        if record.cached or record.shared:
            self.cached += record.cached
            self.shared += record.shared
            return
        self.calls += record.calls
        self.retried += max(0, record.attempts - 1)
        self.repaired += record.repaired
        self.prompt_tokens += record.usage.prompt_tokens
        self.completion_tokens += record.usage.completion_tokens
        self.seconds += record.seconds
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def to_dict(self) -> dict[str, Any]:
        """The totals as a JSON object."""
        return {
            "judgements": self.judgements,
            "calls": self.calls,
            "cached": self.cached,
            "shared": self.shared,
            "retried": self.retried,
            "repaired": self.repaired,
            "failed": dict(sorted(self.failed.items())),
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": self.cost,
            "seconds": round(self.seconds, 3),
        }


class UsageLog:
    """Usage totals of a judge session."""

    def __init__(self) -> None:
        self.total = UsageTotals()
        self.metrics: defaultdict[str, UsageTotals] = defaultdict(UsageTotals)
        """By metric; judgements shared by several metrics are under the empty name."""
        self.critics: defaultdict[str, UsageTotals] = defaultdict(UsageTotals)

    def add(self, record: JudgementRecord, cost: float | None) -> None:
        """Add one judgement and its cost, if a price is known."""
        self.total.add(record, cost)
        self.metrics[record.metric].add(record, cost)
        self.critics[record.critic].add(record, cost)

    def to_dict(self) -> dict[str, Any]:
        """The totals as a JSON object."""
        return {
            "total": self.total.to_dict(),
            "metrics": {name: totals.to_dict() for name, totals in self.metrics.items()},
            "critics": {name: totals.to_dict() for name, totals in self.critics.items()},
        }
