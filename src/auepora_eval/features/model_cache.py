"""What a model or a function says of texts, or of pairs of texts: each different one is asked about once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.batch import Batch

__all__ = ["InferenceFailure", "cached_inference", "model_key"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_CACHED_NUMBERS = 1 << 24
"""Numbers held for the batches to come before they begin anew: a stream must not fill the memory."""


@dataclass(frozen=True, slots=True)
class InferenceFailure:
    """In the place of an answer: there is none, for this reason."""

    reason: str
    """In lower case with underscores, as of any outcome."""
    message: str
    """What the user should read about it."""


class _AnswerCache:
    """Answers that later batches may need, thrown away once there are too many."""

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self._numbers = 0

    def keep(self, fresh: Mapping[Any, Any], numbers: int) -> None:
        if self._numbers > _MAX_CACHED_NUMBERS:
            self.answers, self._numbers = {}, 0
        self.answers |= fresh
        self._numbers += numbers


def model_key(part: object) -> Hashable:
    """What tells one model or function from another: itself, where it can be compared; else which object it is."""
    try:
        hash(part)
    except TypeError:
        return id(part)
    return part


def cached_inference(
    batch: Batch,
    key: Hashable,
    rows: Sequence[Sequence[K]],
    ask: Callable[[list[K]], Sequence[V | InferenceFailure]],
    *,
    numbers: Callable[[V], int],
) -> Mapping[K, V | InferenceFailure]:
    """The answer to every question of each row of a batch, and to those that other metrics asked before.

    ``ask`` gets the questions that neither this batch nor one before it has answers to, each once. What was lost is
    remarked upon, and asked again in another batch. ``numbers`` tells how many numbers an answer holds.
    """
    here: dict[K, V | InferenceFailure] = batch.feature(("told", key), lambda _: {})
    memory: _AnswerCache = batch.memory.setdefault(("told", key), _AnswerCache())
    fresh: list[K] = []
    for question in dict.fromkeys(question for these in rows for question in these if question not in here):
        if question in memory.answers:
            here[question] = memory.answers[question]
        else:
            fresh.append(question)
    if not fresh:
        return here
    answers = dict(zip(fresh, ask(fresh), strict=True))
    found = {question: answer for question, answer in answers.items() if not isinstance(answer, InferenceFailure)}
    here |= answers
    memory.keep(found, sum(map(numbers, found.values())))
    lost = {question: answer for question, answer in answers.items() if isinstance(answer, InferenceFailure)}
    if lost:
        for sample, these in zip(batch.samples, rows, strict=True):
            for remark in dict.fromkeys(lost[question].message for question in these if question in lost):
                batch.note(remark, sample.sample_id)
    return here
