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
    infer: Callable[[list[K]], Sequence[V | InferenceFailure]],
    *,
    count_numbers: Callable[[V], int],
) -> Mapping[K, V | InferenceFailure]:
    """The answer to every question of each row of a batch, and to those that other metrics asked before.

    ``ask`` gets the questions that neither this batch nor one before it has answers to, each once. What was lost is
    remarked upon, and asked again in another batch. ``numbers`` tells how many numbers an answer holds.
    """
    in_batch: dict[K, V | InferenceFailure] = batch.feature(("inference", key), lambda _: {})
    memory: _AnswerCache = batch.memory.setdefault(("inference", key), _AnswerCache())
    fresh: list[K] = []
    for question in dict.fromkeys(question for row in rows for question in row if question not in in_batch):
        if question in memory.answers:
            in_batch[question] = memory.answers[question]
        else:
            fresh.append(question)
    if not fresh:
        return in_batch
    answers = dict(zip(fresh, infer(fresh), strict=True))
    found = {question: answer for question, answer in answers.items() if not isinstance(answer, InferenceFailure)}
    in_batch |= answers
    memory.keep(found, sum(map(count_numbers, found.values())))
    failures = {question: answer for question, answer in answers.items() if isinstance(answer, InferenceFailure)}
    if failures:
        for sample, row in zip(batch.samples, rows, strict=True):
            for message in dict.fromkeys(failures[question].message for question in row if question in failures):
                batch.note(message, sample.sample_id)
    return in_batch
