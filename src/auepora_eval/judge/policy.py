"""How judges are asked: how many at once, how long, how often, and what it may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import BadValueError

__all__ = ["JudgePolicy", "Price"]


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, in whatever currency the user counts."""

    prompt: float
    completion: float


@dataclass(frozen=True, slots=True)
class JudgePolicy:
    """The rules for asking judges."""

    concurrency: int = 16
    """The most requests in flight; fewer while the server asks for it."""
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
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
