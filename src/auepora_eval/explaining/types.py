"""The data types of an explanation: reduction, query derivation and recomputation check."""

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
    """A value recomputed from the store, compared with the stored one."""

    stored: float | None
    computed: float | None
    verdict: Literal["equal", "rounding", "differs", "not computed"]
    """``rounding``: they differ only by a model's last digits or by the order of a sum."""
    why: str = ""
    """Why it differs or was not computed, where known."""


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
    """The explanation of one repeat: the outcome, and the derivation of the score or the reason why there is none."""

    repeat: int
    outcome: str
    words: str
    """The meaning of the outcome; empty where it was scored."""
    needed: str | None
    counts_as: float | None
    """The score that enters the value; ``None`` where it is excluded."""
    derivation: Derivation | None = None


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """The explanation of one query."""

    sample_id: str
    query: str
    outcome: str
    """As stored."""
    answers: tuple[RepeatExplanation, ...]
    """One per repeat."""
    check: RecomputationCheck


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a stored metric, and of one query if requested."""

    run_id: str
    run: str
    dataset: str
    card: Card
    reduction: Reduction | None = None
    query: QueryExplanation | None = None
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as a JSON-compatible dictionary."""
        return {"schema": SCHEMA, **to_json_value(asdict(self))}
