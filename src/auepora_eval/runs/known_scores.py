"""An executor for runs that are judged in parts: it has the scores of judge metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.metrics_base import BatchMetric
from ..core.scores import Scores
from ..engine.executors import Executor, Notes, Scorable, ScoredBatch


class JudgedScores(Protocol):
    """Scores of judge metrics for the samples of a run that were judged so far."""

    metrics: list[BatchMetric]
    notes: list[Notes]

    @property
    def controls(self) -> Any:
        """The control items of the judge, and their outcomes."""

    def scores(self, name: str) -> list[Scores]:
        """The scores of all samples in each repeat."""


class KnownScores:
    """An executor that has the scores of judge metrics, and lets another one compute the rest."""

    asks_judges = True

    def __init__(self, executor: Executor, judged: JudgedScores) -> None:
        self._executor, self._judged = executor, judged
        self._columns = {one.name: judged.scores(one.name) for one in judged.metrics}
        self._num_passes = 0
        self.controls = judged.controls

    def score(self, batches: Iterable[Scorable], metrics: Sequence[BatchMetric]) -> Iterator[ScoredBatch]:
        """The outcomes of each batch, in order; each pass over all samples is the next repeat."""
        repeat, self._num_passes = self._num_passes, self._num_passes + 1
        plain = [one for one in metrics if one.name not in self._columns]
        start = 0
        notes, self._judged.notes = self._judged.notes, []
        for scored in self._executor.score(batches, plain):
            rows = np.arange(start, start + scored.size)
            start += scored.size
            computed = iter(scored.scores)
            scores = [
                self._columns[one.name][repeat].take(rows) if one.name in self._columns else next(computed)
                for one in metrics
            ]
            yield ScoredBatch(scored.size, scores, _merge_notes([scored.notes, *notes]), scored.members)
            notes = []


def _merge_notes(notes: Iterable[Notes]) -> Notes:
    merged: Notes = {}
    for one in notes:
        for message, (count, first) in one.items():
            merged[message] = (merged.get(message, (0, first))[0] + count, merged.get(message, (0, first))[1])
    return merged
