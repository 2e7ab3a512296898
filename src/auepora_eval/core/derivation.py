"""Derivations: how one sample's score is computed, step by step, as plain data that can be checked by hand.

The plain definition of a metric records its own steps (``add_step``, ``add_table``, ``add_result``, ``add_division``);
they are kept only inside ``record_steps``. So an explanation needs no second copy of a formula.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .scores import MarkedSpan
from .types import EvaluationSample, SystemOutputs

Cell = str | int | float | bool | None
"""A table cell. Numbers are not rounded; the renderer decides about digits."""
_DIGITS = 6
_MAX_QUOTED = 300
"""Number of characters of a string that are quoted within a sentence."""


@dataclass(frozen=True, slots=True)
class StepTable:
    """A table of a step."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """One step: a sentence or a calculation, with an optional table of its inputs and the resulting number."""

    text: str
    table: StepTable | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Derivation:
    """The steps that lead to one sample's score."""

    steps: tuple[DerivationStep, ...]
    value: float | None
    """The result of the steps; ``None`` where it cannot be computed here."""
    general: bool = False
    """Whether it only lists input and output, because the metric has no derivation of its own."""


@dataclass(frozen=True, slots=True)
class SampleJudgement:
    """A stored judgement of the sample for this metric."""

    answer: Mapping[str, Any]
    critic: str = ""
    judge_repeat: int = 0
    request: str = ""
    """A digest of the request."""
    prompt_id: str = ""
    error: str | None = None
    """Why there is no judgement."""
    weighted: float | None = None
    """The score weighted by the probabilities of the labels, where the judge returns them."""
    cached: bool = False
    one_number: bool = False
    """Whether this judge replies with bare numbers."""
    logprobs: bool = False
    decides: bool = False
    """Whether this judge returns probabilities."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the request was about: a text by name, statements by number."""
    panel: Mapping[str, Any] = field(default_factory=dict)
    """The panel that this judge is a member of: its members and how it votes."""


SampleOutputPairs = Sequence[tuple[EvaluationSample, SystemOutputs | None]]


@dataclass(frozen=True)
class ExplainContext:
    """What a derivation may use besides its own sample; loaded on first use."""

    read: Callable[[], SampleOutputPairs] = field(default=lambda: (), repr=False)
    """Returns all samples of the run with their outputs."""
    judgements: tuple[SampleJudgement, ...] = ()
    """The stored judgements of the sample."""
    stored_score: float | None = None
    """The stored score, for metrics that need a judge or a model to compute it again."""
    may_call_models: bool = False
    """Whether embedding and scoring models may be called again."""
    spans: tuple[MarkedSpan, ...] | None = None
    """The stored spans that the metric marks in the answer."""

    @cached_property
    def pairs(self) -> SampleOutputPairs:
        """All samples of the run with their outputs."""
        return list(self.read())

    def find(self, sample_id: str) -> tuple[EvaluationSample, SystemOutputs | None] | None:
        """The sample with this id, and its output."""
        return next((pair for pair in self.pairs if pair[0].sample_id == sample_id), None)


NO_CONTEXT = ExplainContext()
"""No context besides the sample itself."""


class DerivationBuilder:
    """Builds a derivation step by step."""

    def __init__(self) -> None:
        self._steps: list[DerivationStep] = []

    def add_step(self, text: str, value: float | None = None) -> DerivationBuilder:
        """Add a sentence or a calculation."""
        self._steps.append(DerivationStep(text, value=None if value is None else float(value)))
        return self

    def table(self, text: str, headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> DerivationBuilder:
        """Add a sentence with a table below it."""
        self._steps.append(DerivationStep(text, StepTable(tuple(headers), tuple(map(tuple, rows)))))
        return self

    def add_once(self, step: DerivationStep) -> None:
        """Add a step unless it is there: two definitions over the same ranking show it once."""
        if step not in self._steps:
            self._steps.append(step)

    @property
    def steps(self) -> tuple[DerivationStep, ...]:
        """The steps so far."""
        return tuple(self._steps)

    def extend(self, other: Derivation) -> DerivationBuilder:
        """Add all steps of another derivation."""
        self._steps += other.steps
        return self

    def derivation(self, value: float | None) -> Derivation:
        """The derivation of a value by the steps so far."""
        return Derivation(self.steps, value)

    def finish_with_value(self, text: str, value: float) -> Derivation:
        """Add the last step, ``text = value``, and return the derivation."""
        self.add_step(f"{text} = {format_number(value)}" if text else format_number(value), value)
        return Derivation(tuple(self._steps), float(value))

    def finish(self, text: str, value: float | None, *, general: bool = False) -> Derivation:
        """Add the last step as a sentence, without a calculation, and return the derivation."""
        self.add_step(text, value)
        return Derivation(tuple(self._steps), value if value is None else float(value), general)


# --- recording of steps by plain definitions -------------------------------------------------------------------------

_RECORDER: ContextVar[DerivationBuilder | None] = ContextVar("recorder", default=None)


@contextmanager
def record_steps() -> Iterator[DerivationBuilder]:
    """Collect the steps that plain definitions record within the block."""
    steps = DerivationBuilder()
    token = _RECORDER.set(steps)
    try:
        yield steps
    finally:
        _RECORDER.reset(token)


def is_recording() -> bool:
    """Whether steps are collected; checked where it takes time to describe a step."""
    return _RECORDER.get() is not None


def add_step(text: str, value: float | None = None) -> None:
    """Record a sentence or a calculation; one that was recorded before is left out."""
    steps = _RECORDER.get()
    if steps is not None:
        steps.add_once(DerivationStep(text, value=None if value is None else float(value)))


def add_table(text: str, headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Record a sentence with a table below it; one that was recorded before is left out."""
    steps = _RECORDER.get()
    if steps is not None:
        steps.add_once(DerivationStep(text, StepTable(tuple(headers), tuple(map(tuple, rows)))))


def add_result(text: str, value: float) -> float:
    """Record ``text = value`` and return the value."""
    steps = _RECORDER.get()
    if steps is not None:
        steps.finish_with_value(text, value)
    return value


def add_outcome(sentence: str, value: float) -> float:
    """Record a sentence that decides the value, ``sentence: value``, and return the value."""
    steps = _RECORDER.get()
    if steps is not None:
        steps.add_step(f"{sentence}: {format_number(value)}", value)
    return value


def add_division(text: str, top: float, bottom: float) -> float:
    """Record ``text = top / bottom = value`` and return the value."""
    if not is_recording():
        return top / bottom
    return add_result(f"{text} = {format_number(top)} / {format_number(bottom)}", top / bottom)


def format_number(value: float) -> str:
    """A number within a sentence: integers as they are, others with six digits.

    >>> number(2.0), number(2 / 3)
    ('2', '0.666667')
    """
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else f"{value:.{_DIGITS}g}"


def attempt_text(repeat: int) -> str:
    """Which of several judgements of the same request, counted from 0: ``judged again (2nd attempt)``."""
    number = repeat + 1
    suffix = "th" if number // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"judged{' again' * bool(repeat)} ({number}{suffix} attempt)"


def quote_text(text: str) -> str:
    """A string within a sentence: in quotation marks, truncated where it is long."""
    return f"“{text}”" if len(text) <= _MAX_QUOTED else f"“{text[:_MAX_QUOTED]}…” ({len(text):,} characters)"


def yes_no(is_so: bool, yes: str = "yes", no: str = "no") -> str:
    """A cell of a table."""
    return yes if is_so else no


def join_items(things: Iterable[object], *, nothing: str = "none") -> str:
    """Items within a sentence, separated by commas; at most forty are shown."""
    items = [str(thing) for thing in things]
    more = f", … ({len(items)} in all)" if len(items) > 40 else ""
    return (", ".join(items[:40]) + more) or nothing


# --- formats judgements as lines: verdicts are shown next to the statements and sentences they refer to --------------


def format_subject(about: Mapping[str, Any]) -> str:
    """The text that a judgement is about, or that statements were compared with; empty where unknown."""
    name = about.get("of")
    return "" if not name else f"against {name}" if about.get("statements") else f"of {name}"


def format_lines(answer: Mapping[str, Any], about: Mapping[str, Any]) -> list[str]:
    """A line per statement with its verdict and rationale, or per sentence with whether it is needed."""
    statements, sentences = _texts(about, "statements"), _texts(about, "sentences")
    verdicts, needed = answer.get("verdicts"), answer.get("needed")
    if statements and _list(verdicts):
        return [_verdict(verdict, statements) for verdict in verdicts or ()]
    if sentences and _list(needed):
        marked = set(map(str, needed or ()))
        return [
            f"{yes_no(str(number) in marked, 'needed', 'not needed')}: {sentence}"
            for number, sentence in enumerate(sentences, 1)
        ]
    return [f"{plain_value(value)}: {statements[0]}" for value in answer.values()] if len(statements) == 1 else []


def format_one_line(answer: Mapping[str, Any]) -> str:
    """A judgement in one line, without the rationale."""
    return ", ".join(f"{name} {plain_value(value)}" for name, value in answer.items() if name != "rationale")


def _verdict(answer: object, statements: Sequence[str]) -> str:
    if not isinstance(answer, Mapping):
        return plain_value(answer)
    number = answer.get("number")
    known = isinstance(number, int) and 1 <= number <= len(statements)
    statement = statements[number - 1] if known and isinstance(number, int) else f"statement {number}"
    why = f" ({answer['why']})" if answer.get("why") else ""
    return f"{answer.get('verdict')}: {statement}{why}"


def _texts(about: Mapping[str, Any], name: str) -> list[str]:
    texts = about.get(name)
    return [str(text) for text in texts] if isinstance(texts, (list, tuple)) else []


def _list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def plain_value(value: Any) -> str:
    """A text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def add_judgements(steps: DerivationBuilder, judgements: Iterable[SampleJudgement]) -> DerivationBuilder:
    """Add the judgements, one per row."""
    rows = [
        (judgement.judge_repeat + 1, judgement.critic, answer, _reasons(judgement))
        for judgement in judgements
        for answer in _answers(judgement)
    ]
    if not rows:
        return steps.add_step("No judgement is stored for this sample: nobody had to be asked, or they were not kept")
    return steps.table("What the judge said", ("time", "judge", "answer", "why"), rows)


def _answers(judgement: SampleJudgement) -> list[str]:
    """The judgement in one line, or one line for each statement."""
    named = format_subject(judgement.about)
    head = f"{named}: " if named else ""
    if judgement.error is not None:
        return [f"{head}none: {judgement.error}"]
    weighted = "" if judgement.weighted is None else f" (weighted by probability: {format_number(judgement.weighted)})"
    lines = format_lines(judgement.answer, judgement.about) or [format_one_line(judgement.answer) + weighted]
    return [f"{head}{line}" for line in lines]


def _reasons(judgement: SampleJudgement) -> str:
    return str(judgement.answer.get("rationale", "")) if isinstance(judgement.answer, Mapping) else ""
