"""Budget for judge calls: reserved before each call by an estimate, committed when the call is over."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import BadValueError, JudgeError
from .critic import Critic, JudgeRequest, Usage, critic_name
from .policy import JudgePolicy, Price

__all__ = ["Budget", "Reservation", "TokenEstimator", "model_name"]

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
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
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
            if sum(getattr(one, name) for one in amounts) > cap * (1 + 1e-12):
                return name
        return None
