"""What judging may cost: guessed before each call, held back, and settled when the call is over."""

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
"""Tokens of an answer, as long as none was seen and the critic sets no limit."""


def model_name(critic: Critic) -> str:
    """What prices go by: the critic's model, or its name where it has none."""
    model = getattr(critic, "model", None)
    return model if isinstance(model, str) and model else critic_name(critic)


class TokenEstimator:
    """How many tokens a request will take: a quarter of its bytes, corrected by what the server has counted so far.

    It stays on the safe side: the highest ratio and the longest answer seen count, and the critic's own limit for
    answers (``max_tokens``) where it has one.
    """

    def __init__(self) -> None:
        self._ratio, self._completion = 1.0, 0
        self.has_observations = False
        """Whether any call is over, so that there was something to learn from."""

    def of(self, critic: Critic, request: JudgeRequest) -> Usage:
        """The tokens that the request may take."""
        limit = getattr(critic, "max_tokens", None)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            completion = limit
        else:
            completion = self._completion or _FIRST_COMPLETION
        return Usage(math.ceil(_estimate_prompt_tokens(request) * self._ratio), completion)

    def update(self, request: JudgeRequest, usage: Usage | None) -> None:
        """Take note of what a request took; ``None`` where nobody counted."""
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
    """What is held back for a call that is under way."""

    critic: Critic
    request: JudgeRequest
    """What to ask: the question as it was, or with the last call of the budget one that is not repaired."""
    amount: _UsageAmount
    estimate: Usage


class Budget:
    """Hard caps on calls, tokens and cost. A call begins only if it would fit even if all under way cost their most.

    Where it would fit only if those turn out cheaper, it waits for them. Where tokens or cost are capped, the first
    call of a model goes alone, for there is nothing to guess from before. A critic that may make several requests for
    one question says how many in ``calls_at_most``, and makes just one where ``may_repair`` of the request is false.
    """

    def __init__(self, policy: JudgePolicy) -> None:
        self._policy = policy
        self._spent, self._held = _UsageAmount(), _UsageAmount()
        self._guesses: dict[str, TokenEstimator] = {}
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
        """How many calls did not fit."""

    @property
    def spent(self) -> dict[str, float]:
        """Calls, tokens and cost so far, as they count against the caps."""
        return {"calls": self._spent.calls, "tokens": self._spent.tokens, "cost": self._spent.cost}

    @property
    def exhausted_warning(self) -> str | None:
        """What there is to say about a budget that is spent."""
        if not self.refused:
            return None
        caps = ", ".join(f"max_{name} {cap:g}" for name, cap in self._caps.items())
        return (
            f"the budget for judging ({caps}) is spent: {self.refused:,} requests were not made, and what they were "
            "about is a failed measurement (budget_exhausted)"
        )

    def price(self, critic: Critic) -> Price | None:
        """What the critic's tokens cost; an error where cost is capped and nobody said."""
        model = model_name(critic)
        price = self._policy.prices.get(model)
        if price is None and "cost" in self._caps:
            raise BadValueError(f"max_cost needs the price of '{model}': add it to the prices, 0 if it costs nothing")
        return price

    async def reserve(self, critic: Critic, request: JudgeRequest) -> Reservation:
        """Hold back what a call may take; a ``JudgeError`` where it does not fit any more."""
        while True:
            held = self._guessed(critic, request, getattr(critic, "calls_at_most", 1))
            over = self._over(held.amount, self._spent)
            if over == "calls" and held.amount.calls > 1:
                held = self._guessed(critic, replace(request, may_repair=False), 1)
                over = self._over(held.amount, self._spent)
            if over:
                self.refused += 1
                raise JudgeError("budget_exhausted", f"the call would go beyond max_{over} ({self._caps[over]:g})")
            alone = self._counts_tokens and not self._guess(critic).has_observations
            if not self._held.calls or not (alone or self._over(held.amount, self._spent, self._held)):
                self._held.add(held.amount)
                return held
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def commit(self, held: Reservation, usage: Usage | None, *, calls: int = 1) -> None:
        """Put what a call took in place of what was held back: ``None`` if nobody knows, then it counts in full."""
        self._held.add(held.amount, -1)
        if not self._held.calls:
            self._held = _UsageAmount()  # so that no rounding stays
        counted = usage if usage is None or usage.prompt_tokens or usage.completion_tokens else None
        self._spent.add(self._amount(held.critic, held.estimate if counted is None else counted, calls))
        if self._counts_tokens:
            self._guess(held.critic).update(held.request, counted)
        self._wake()

    def release(self, held: Reservation, *, calls: int = 1) -> None:
        """A call that took no tokens: it was refused, or never arrived."""
        self._held.add(held.amount, -1)
        self._spent.add(_UsageAmount(calls))
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

    def _guess(self, critic: Critic) -> TokenEstimator:
        return self._guesses.setdefault(model_name(critic), TokenEstimator())

    def _guessed(self, critic: Critic, request: JudgeRequest, calls: int) -> Reservation:
        guess = self._guess(critic).of(critic, request) if self._counts_tokens else Usage()
        return Reservation(critic, request, self._amount(critic, guess, calls), guess)

    def _amount(self, critic: Critic, usage: Usage, calls: int) -> _UsageAmount:
        price = self.price(critic)
        cost = 0.0 if price is None else price.of(usage.prompt_tokens, usage.completion_tokens)
        return _UsageAmount(calls, usage.prompt_tokens + usage.completion_tokens, cost)

    def _over(self, *amounts: _UsageAmount) -> str | None:
        """The cap that these amounts together would go beyond."""
        for name, cap in self._caps.items():
            if sum(getattr(one, name) for one in amounts) > cap * (1 + 1e-12):
                return name
        return None
