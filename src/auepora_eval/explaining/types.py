"""What an explanation is made of: a card, how scores become the value, one query's derivation, and what was checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..core.derivation import Derivation
from ..core.results import to_json_value
from .cards import Card

__all__ = ["Explanation", "Influence", "QueryExplanation", "RecomputationCheck", "Reduction", "RepeatExplanation"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RecomputationCheck:
    """A number computed again from what is stored, held against the stored one."""

    stored: float | None
    computed: float | None
    verdict: Literal["equal", "rounding", "differs", "not computed"]
    """``rounding``: they differ by no more than what a model's last digits may come to, or the order of a sum."""
    why: str = ""
    """Why it differs, or was not computed, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Influence:
    """One query and its score."""

    sample_id: str
    score: float
    outcome: str


@dataclass(frozen=True, slots=True)
class Reduction:
    """How the scores of all samples become the value."""

    words: str
    n: int
    """How many scores enter."""
    total: float | None
    """Their sum, where the value is a mean."""
    check: RecomputationCheck
    lowest: tuple[Influence, ...] = ()
    highest: tuple[Influence, ...] = ()


@dataclass(frozen=True, slots=True)
class RepeatExplanation:
    """One answer to the query: its outcome, and the derivation of its score or why it has none."""

    repeat: int
    outcome: str
    words: str
    """What the outcome means; empty where it was simply scored."""
    needed: str | None
    counts_as: float | None
    """The number that enters the value; ``None`` where none does."""
    derivation: Derivation | None = None


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """One query under the metric."""

    sample_id: str
    query: str
    outcome: str
    """As stored."""
    answers: tuple[RepeatExplanation, ...]
    """One per time the system was asked."""
    check: RecomputationCheck


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a stored number is and how it came about."""

    run_id: str
    run: str
    dataset: str
    card: Card
    reduction: Reduction | None = None
    query: QueryExplanation | None = None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"schema": SCHEMA, **to_json_value(asdict(self))}
