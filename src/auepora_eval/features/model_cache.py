"""Cached inference: a model or function is called once for each different text or pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.batch import Batch

__all__ = ["InferenceFailure", "cached_inference", "model_key"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MAX_CACHED_NUMBERS = 1 << 24
"""Number of cached values after which the cache is cleared, so that a stream does not fill the memory."""


@dataclass(frozen=True, slots=True)
class InferenceFailure:
    """A failed inference."""

    reason: str
    """In lower case with underscores, as for any outcome."""
    message: str
    """The warning for the user."""


class _AnswerCache:
    """Results for later batches, cleared once there are too many."""

    def __init__(self) -> None:
        self.answers: dict[Any, Any] = {}
        self._numbers = 0

    def keep(self, fresh: Mapping[Any, Any], numbers: int) -> None:
        if self._numbers > _MAX_CACHED_NUMBERS:
            self.answers, self._numbers = {}, 0
        self.answers |= fresh
        self._numbers += numbers


def model_key(part: object) -> Hashable:
    """The cache key of a model or function: itself if it is hashable, else its id."""
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
    """The results for all inputs of each row of a batch, including those of earlier calls for the batch.

    ``infer`` is called once with the inputs that are not cached. A failure emits a warning and is not cached for other
    batches. ``count_numbers`` returns the size of a result.
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
