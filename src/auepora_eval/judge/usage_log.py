"""What judging took: every judgement as a record, and sums by metric, by critic and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .critic import Usage

__all__ = ["JudgementRecord", "UsageLog", "UsageTotals"]


@dataclass(frozen=True, slots=True)
class JudgementRecord:
    """One thing that was judged, or could not be: what there is to keep about it."""

    metric: str
    sample_id: str
    repeat: int
    critic: str
    model: str
    prompt_id: str
    answer: Mapping[str, Any] | None
    """What the judge said; ``None`` where there is no judgement."""
    reason: str | None = None
    """Why there is none, in a word."""
    message: str = ""
    """Why there is none, in a sentence."""
    rationale: str | None = None
    raw: str | None = None
    """What the judge said that could not be used, cut short."""
    weighted: float | None = None
    mass: float | None = None
    repaired: bool = False
    usage: Usage = Usage()  # noqa: RUF009 -- frozen
    """Of the judgement, also where it was known from before."""
    attempts: int = 0
    """How often the judge was asked for it; 0 where it was known."""
    calls: int = 0
    """Requests made: a critic may make another one to have an answer repaired."""
    cached: bool = False
    shared: bool = False
    """Whether somebody else asked the same at the same time, so that one call served both."""
    seconds: float = 0.0
    """How long the calls took, without waiting for a place or between them."""


@dataclass(slots=True)
class UsageTotals:
    """Sums over judgements."""

    judgements: int = 0
    """All that was asked for, failed ones included."""
    calls: int = 0
    """Requests made, repetitions and repairs included."""
    cached: int = 0
    shared: int = 0
    retried: int = 0
    """Repetitions among the calls."""
    repaired: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """By reason."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """``None`` where no price is known."""
    seconds: float = 0.0

    def add(self, record: JudgementRecord, cost: float | None) -> None:
        """Count one more."""
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
        """As JSON has it."""
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
    """The sums of a session."""

    def __init__(self) -> None:
        self.total = UsageTotals()
        self.metrics: dict[str, UsageTotals] = {}
        """By metric; what several share stands under the empty name."""
        self.critics: dict[str, UsageTotals] = {}

    def add(self, record: JudgementRecord, cost: float | None) -> None:
        """Count one more judgement and what it cost, where a price is known."""
        self.total.add(record, cost)
        _totals_for(self.metrics, record.metric).add(record, cost)
        _totals_for(self.critics, record.critic).add(record, cost)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "total": self.total.to_dict(),
            "metrics": {name: tally.to_dict() for name, tally in self.metrics.items()},
            "critics": {name: tally.to_dict() for name, tally in self.critics.items()},
        }


def _totals_for(tallies: dict[str, UsageTotals], name: str) -> UsageTotals:
    found = tallies.get(name)
    if found is None:
        found = tallies[name] = UsageTotals()
    return found
