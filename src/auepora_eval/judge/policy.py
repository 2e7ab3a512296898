"""How judges are asked: how many at once, how long, how often, and what it may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import BadTypeError, BadValueError

__all__ = ["JudgePolicy", "Price"]


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, in whatever currency the user counts."""

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            _require_number(f"the price of {name} tokens", getattr(self, name))

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / 1_000_000


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """The rules for asking judges."""

    concurrency: int = 16
    """The most requests in flight to one judge; fewer while the server asks for it."""
    timeout: float = 120.0
    """Seconds one request may take."""
    retries: int = 5
    """How often a request is repeated that failed for a reason that may pass."""
    backoff: float = 0.5
    """Seconds before the first repetition; each further one waits up to twice as long."""
    repeats: int = 1
    """How often each thing is judged: its score is the mean, and their spread is the judge's own."""
    cache: Path | None = None
    """A SQLite file that keeps judgements; ``None`` keeps none."""
    cache_only: bool = False
    """Ask nobody: what is not in the cache is a failed measurement."""
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    """Hard caps: what would go beyond is not asked, and is a failed measurement."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model, for what things cost."""

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("repeats", 1)):
            _require_whole(name, getattr(self, name), least)
        for name in ("max_calls", "max_tokens"):
            if getattr(self, name) is not None:
                _require_whole(name, getattr(self, name), 0)
        _require_number("timeout", self.timeout)
        if self.timeout == 0:
            raise BadValueError("timeout must be a number of seconds above 0, not 0")
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


def _require_whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _require_number(name: str, value: object) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    if not fits:
        raise BadValueError(f"{name} must be a number of at least 0, not {value!r}")
