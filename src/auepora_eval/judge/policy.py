"""Judge policy: concurrency limit, timeout, retries, cache and budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import BadTypeError, BadValueError

__all__ = ["JudgePolicy", "Price"]


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens of a model, in the user's currency."""

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            _require_number(f"the price of {name} tokens", getattr(self, name))

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The cost of these tokens."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / 1_000_000


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """How judges are called."""

    concurrency: int = 16
    """The most requests in flight to one judge; fewer while the server asks for it."""
    timeout: float = 120.0
    """Seconds one request may take."""
    retries: int = 5
    """How often a request is retried after a transient failure."""
    backoff: float = 0.5
    """Seconds before the first retry; the waiting time doubles with each further one."""
    repeats: int = 1
    """Judgements per item: the score is their mean, and their spread measures the judge's own variance."""
    cache: Path | None = None
    """A SQLite file that keeps judgements; ``None`` keeps none."""
    cache_only: bool = False
    """Make no calls: what is not in the cache is a failed measurement."""
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    """Hard caps: a call that would exceed one is not made and counts as a failed measurement."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices by model."""

    def __post_init__(self) -> None:
        for name, minimum in (("concurrency", 1), ("retries", 0), ("repeats", 1)):
            _require_integer(name, getattr(self, name), minimum)
        for name in ("max_calls", "max_tokens"):
            if getattr(self, name) is not None:
                _require_integer(name, getattr(self, name), 0)
        _require_number("timeout", self.timeout)
        if self.timeout == 0:
            raise BadValueError("timeout must be a number of seconds > 0, not 0")
        _require_number("backoff", self.backoff)
        if self.max_cost is not None:
            _require_number("max_cost", self.max_cost)
        for model, price in self.prices.items():
            if not isinstance(price, Price):
                raise BadTypeError(f"the price of '{model}' must be a Price, not {price!r:.80}")
        if self.cache is not None:
            object.__setattr__(self, "cache", Path(self.cache))
        elif self.cache_only:
            raise BadValueError("cache_only needs a cache: name the file that keeps the judgements")


def _require_integer(name: str, value: object, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise BadValueError(f"{name} must be an integer >= {minimum}, not {value!r}")


def _require_number(name: str, value: object) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    if not fits:
        raise BadValueError(f"{name} must be a number >= 0, not {value!r}")
