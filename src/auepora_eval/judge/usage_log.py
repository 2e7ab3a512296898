"""Judge usage: one record per judgement, and totals by metric, by critic and overall."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .critic import Usage

__all__ = ["JudgementRecord", "UsageLog", "UsageTotals"]


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
        self.metrics: dict[str, UsageTotals] = {}
        """By metric; judgements shared by several metrics are under the empty name."""
        self.critics: dict[str, UsageTotals] = {}

    def add(self, record: JudgementRecord, cost: float | None) -> None:
        """Add one judgement and its cost, if a price is known."""
        self.total.add(record, cost)
        _totals_for(self.metrics, record.metric).add(record, cost)
        _totals_for(self.critics, record.critic).add(record, cost)

    def to_dict(self) -> dict[str, Any]:
        """The totals as a JSON object."""
        return {
            "total": self.total.to_dict(),
            "metrics": {name: totals.to_dict() for name, totals in self.metrics.items()},
            "critics": {name: totals.to_dict() for name, totals in self.critics.items()},
        }


def _totals_for(totals: dict[str, UsageTotals], name: str) -> UsageTotals:
    existing = totals.get(name)
    if existing is None:
        existing = totals[name] = UsageTotals()
    return existing
