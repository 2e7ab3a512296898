"""Which store a comparison reads, and the queries and answers of one run in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..core.collector import collector_paused
from ..core.types import EvaluationSample, SystemOutputs
from ..store.records import RunRecord
from ..store.runs import RunStore

__all__ = ["RunAnswers", "Store", "opened_store", "read_answers"]

Store = RunStore | str | Path | None
"""A store, the path or URL of one, or ``None`` for ``$AUEPORA_STORE``, else ``runs.sqlite``."""


@contextmanager
def opened_store(store: Store = None) -> Iterator[RunStore]:
    """The store that is meant, which must be there; one that was given open stays open."""
    if isinstance(store, RunStore):
        yield store
        return
    with RunStore.open(store or os.environ.get("AUEPORA_STORE") or "runs.sqlite", create=False) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class RunAnswers:
    """A run with its queries and what came back for them, without any text of a document."""

    record: RunRecord
    samples: list[EvaluationSample]
    """In the order of the dataset."""
    outputs: list[dict[str, SystemOutputs]]
    """For each repeat, the outputs by the id of their sample."""

    @property
    def unanswered(self) -> int:
        """How many answers it never got, failed ones not counted: nobody asked."""
        return self.record.num_samples * len(self.outputs) - sum(map(len, self.outputs))

    @property
    def ids(self) -> set[str]:
        """The ids of its queries."""
        return {sample.sample_id for sample in self.samples}


def read_answers(store: RunStore, record: RunRecord) -> RunAnswers:
    """What a run asked and what came back."""
    outputs: list[dict[str, SystemOutputs]] = [{} for _ in range(max(record.repeats, 1))]
    with collector_paused():
        for row in store.outputs(record.run_id, texts=False):
            outputs[row.repeat][row.sample_id] = row.output
        return RunAnswers(record, store.samples(record.run_id, texts=False), outputs)
