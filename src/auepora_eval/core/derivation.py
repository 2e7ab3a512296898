"""Derivations: how one sample's score comes about, step by step, as plain data that anyone can check by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .types import EvaluationSample, SystemOutputs

__all__ = [
    "NO_CONTEXT",
    "Cell",
    "Derivation",
    "DerivationBuilder",
    "DerivationStep",
    "ExplainContext",
    "SampleJudgement",
    "StepTable",
    "format_number",
    "join_items",
    "quote_text",
]

Cell = str | int | float | bool | None
"""What stands in a table: numbers as they are, so that whoever shows them decides about digits."""
_DIGITS = 6
_MAX_QUOTED = 300
"""So many characters of a text are quoted within a sentence."""


@dataclass(frozen=True, slots=True)
class StepTable:
    """A table of a step: what is counted, one thing per row."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """One step: a sentence or a calculation, perhaps with a table of what enters it and the number it gives."""

    text: str
    table: StepTable | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """The steps that lead to one sample's score."""

    steps: tuple[DerivationStep, ...]
    value: float | None
    """The number the steps lead to; ``None`` where they lead to none, because it cannot be computed here."""
    general: bool = False
    """Whether it only tells what went in and what came out, because nothing more is known of the metric."""


@dataclass(frozen=True, slots=True)
class SampleJudgement:
    """What a judge said of the sample for this metric, as it is stored."""

    answer: Mapping[str, Any]
    critic: str = ""
    judge_repeat: int = 0
    request: str = ""
    """A digest of what was asked."""
    prompt_id: str = ""
    error: str | None = None
    """Why there is no judgement."""
    weighted: float | None = None
    """The number weighted by the probabilities of the labels, where the judge told them."""
    cached: bool = False
    one_number: bool = False
    """Whether this judge answers with bare numbers."""
    logprobs: bool = False
    """Whether this judge tells probabilities."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What it was asked about: a text by name, statements by number."""


SampleOutputPairs = Sequence[tuple[EvaluationSample, SystemOutputs | None]]


@dataclass(frozen=True)
class ExplainContext:
    """What a derivation may look at beside its own sample; read only when it is asked for."""

    read: Callable[[], SampleOutputPairs] = field(default=lambda: (), repr=False)
    """Gives all samples of the run with their outputs."""
    judgements: tuple[SampleJudgement, ...] = ()
    """What judges said of the sample."""
    stored_score: float | None = None
    """The score as it is stored, for metrics that cannot be computed again without asking somebody."""
    may_call_models: bool = False
    """Whether models that turn texts into numbers may be asked again."""

    @cached_property
    def pairs(self) -> SampleOutputPairs:
        """All samples of the run with their outputs."""
        return list(self.read())

    def find(self, sample_id: str) -> tuple[EvaluationSample, SystemOutputs | None] | None:
        """Another sample and its output."""
        return next((pair for pair in self.pairs if pair[0].sample_id == sample_id), None)


NO_CONTEXT = ExplainContext()
"""Nothing beside the sample itself."""


class DerivationBuilder:
    """Puts a derivation together, step by step."""

    def __init__(self) -> None:
        self._steps: list[DerivationStep] = []

    def add_step(self, text: str, value: float | None = None) -> DerivationBuilder:
        """A sentence or a calculation."""
        self._steps.append(DerivationStep(text, value=None if value is None else float(value)))
        return self

    def table(self, text: str, headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> DerivationBuilder:
        """A sentence with a table under it."""
        self._steps.append(DerivationStep(text, StepTable(tuple(headers), tuple(map(tuple, rows)))))
        return self

    @property
    def steps(self) -> tuple[DerivationStep, ...]:
        """The steps so far."""
        return tuple(self._steps)

    def extend(self, other: Derivation) -> DerivationBuilder:
        """All the steps of another derivation."""
        self._steps += other.steps
        return self

    def finish_with_value(self, text: str, value: float) -> Derivation:
        """The last step, and with it the whole: the text says how the value follows, the value is put behind it."""
        self.add_step(f"{text} = {format_number(value)}" if text else format_number(value), value)
        return Derivation(tuple(self._steps), float(value))

    def finish(self, text: str, value: float | None, *, general: bool = False) -> Derivation:
        """The last step in words, where no calculation leads to the value."""
        self.add_step(text, value)
        return Derivation(tuple(self._steps), value if value is None else float(value), general)


def format_number(value: float) -> str:
    """A number within a sentence: whole ones as they are, others to six digits.

    >>> number(2.0), number(2 / 3)
    ('2', '0.666667')
    """
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.{_DIGITS}g}"


def quote_text(text: str) -> str:
    """A text within a sentence: in quotation marks, cut where it is long."""
    return f"“{text}”" if len(text) <= _MAX_QUOTED else f"“{text[:_MAX_QUOTED]}…” ({len(text):,} characters)"


def join_items(things: Iterable[object], *, nothing: str = "none") -> str:
    """Things within a sentence, all of them up to forty."""
    items = [str(thing) for thing in things]
    more = f", … ({len(items)} in all)" if len(items) > 40 else ""
    return (", ".join(items[:40]) + more) or nothing
