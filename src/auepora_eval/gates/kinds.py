"""The kinds of gates, as dataclasses: ``grammar`` parses them, ``check`` decides them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "CoverageGate",
    "DeltaGate",
    "Gate",
    "IntervalPart",
    "Operator",
    "SliceFilter",
    "ValueGate",
    "VerdictGate",
    "needs_baseline",
]

Operator = Literal[">=", ">", "<=", "<"]
IntervalPart = Literal["low", "high", "point"]
"""The number that decides: an end of the 95 % interval, or the value itself."""


@dataclass(frozen=True, slots=True)
class SliceFilter:
    """One group of a slice: ``labels.lang = de``."""

    slice: str
    group: str

    def __str__(self) -> str:
        return f"{self.slice} = {self.group}"


@dataclass(frozen=True, slots=True)
class ValueGate:
    """``recall@5 >= 0.80``, ``low(recall@5) >= 0.75``, ``recall@5 where labels.lang = de >= 0.7``."""

    text: str
    metric: str
    operator: Operator
    threshold: float
    part: IntervalPart = "point"
    where: SliceFilter | None = None


@dataclass(frozen=True, slots=True)
class DeltaGate:
    """``delta(ndcg@10) > -0.01``: the difference to the baseline; without a part, its whole interval decides."""

    text: str
    metric: str
    operator: Operator
    threshold: float
    part: IntervalPart | None = None


@dataclass(frozen=True, slots=True)
class VerdictGate:
    """``better(recall@5)``, ``not worse(token_f1, by=0.02)``: the verdict of a comparison, or a margin to keep."""

    text: str
    metric: str
    expected: Literal["better", "not worse"]
    by: float | None = None


@dataclass(frozen=True, slots=True)
class CoverageGate:
    """``coverage >= 0.99``, ``coverage(recall@5) >= 0.9``: the required proportion of scored answers."""

    text: str
    metric: str | None
    """``None``: every metric that a gate names."""
    operator: Operator
    threshold: float


Gate = ValueGate | DeltaGate | VerdictGate | CoverageGate


def needs_baseline(gate: Gate) -> bool:
    """Whether the gate needs a comparison with a baseline."""
    return isinstance(gate, DeltaGate | VerdictGate)
