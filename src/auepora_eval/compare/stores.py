"""The store that a comparison reads, and the samples and outputs of one run in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..core.gc_pause import gc_paused
from ..core.types import EvaluationSample, SystemOutputs
from ..store.records import RunRecord
from ..store.runs import RunStore

__all__ = ["RunOutputs", "RunOutputsCache", "Store", "open_store", "read_run_outputs"]

Store = RunStore | str | Path | None
"""A store, the path or URL of one, or ``None`` for ``$AUEPORA_STORE``, else ``runs.sqlite``."""


@contextmanager
def open_store(store: Store = None) -> Iterator[RunStore]:
    """Open the store, which must exist; a store that is passed open stays open."""
    if isinstance(store, RunStore):
        yield store
        return
    with RunStore.open(store or os.environ.get("AUEPORA_STORE") or "runs.sqlite", create=False) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """A run with its samples and outputs, without any text of a document."""

    record: RunRecord
    samples: list[EvaluationSample]
    """In the order of the dataset."""
    outputs: list[dict[str, SystemOutputs]]
    """For each repeat, the outputs by the id of their sample."""
    text_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By the id of a retrieved document the key of its text: equal texts have equal keys. Ids without a text, and ids
    with several texts, are left out."""

    @property
    def unanswered(self) -> int:
        """How many outputs are missing because the system was never called; failed outputs are not counted."""
        return self.record.num_samples * len(self.outputs) - sum(map(len, self.outputs))

    @property
    def ids(self) -> set[str]:
        """The ids of its queries."""
        return {sample.sample_id for sample in self.samples}


def read_run_outputs(store: RunStore, record: RunRecord) -> RunOutputs:
    """The samples and outputs of a run."""
    outputs: list[dict[str, SystemOutputs]] = [{} for _ in range(max(record.repeats, 1))]
    keys: dict[str, str] = {}
    with gc_paused():
        for row in store.outputs(record.run_id, texts=False):
            outputs[row.repeat][row.sample_id] = row.output
            for item, key in zip(row.output.retrieved, row.text_keys or (), strict=False):
                doc_id = item.doc.doc_id
                keys[doc_id] = key if keys.get(doc_id, key) == key else ""
        known = {doc_id: key for doc_id, key in keys.items() if key}
        return RunOutputs(record, store.samples(record.run_id, texts=False), outputs, known)


class RunOutputsCache:
    """The outputs of stored runs, each run read once."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._read: dict[str, RunOutputs] = {}

    def of(self, record: RunRecord) -> RunOutputs:
        """The samples and outputs of a run."""
        if record.run_id not in self._read:
            self._read[record.run_id] = read_run_outputs(self._store, record)
        return self._read[record.run_id]
