"""Runs to pool: stored runs by name, TREC runs and output files by path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import BadValueError
from ..core.types import EvaluationSample, SystemOutputs
from ..io.load import iter_outputs

if TYPE_CHECKING:
    from ..store.records import RunRecord
    from ..store.runs import RunStore

__all__ = ["PooledRuns", "is_outputs_file"]


def is_outputs_file(run: str) -> bool:
    """Whether a run is given as the path of a file rather than by its name in the store."""
    return Path(run).is_file()


@dataclass(slots=True)
class PooledRuns:
    """Runs to pool, in order, and their samples."""

    runs: dict[str, Iterable[tuple[str, SystemOutputs]]] = field(default_factory=dict)
    samples: dict[str, EvaluationSample] = field(default_factory=dict)

    def add_samples(self, samples: Iterable[EvaluationSample], origin: str) -> None:
        """Add samples; raises if one id has two different queries."""
        for sample in samples:
            before = self.samples.setdefault(sample.sample_id, sample)
            if before.query != sample.query:
                raise BadValueError(
                    f"sample {sample.sample_id!r} of {origin} asks {sample.query!r:.60}, but another run's asks "
                    f"{before.query!r:.60}: the runs are about different questions"
                )

    def add_file(self, path: str) -> None:
        """Add a TREC run or a file of outputs."""
        name = Path(path).name
        self._add(name if name not in self.runs else path, _file_outputs(path))

    def add_stored(self, store: RunStore, records: Sequence[RunRecord], *, with_samples: bool = True) -> None:
        """Add stored runs, and their samples unless others are given."""
        names = [record.name for record in records]
        for record in records:
            name = record.name if names.count(record.name) == 1 and record.name not in self.runs else record.run_id
            self._add(name, _stored_outputs(store, record))
            if with_samples:
                self.add_samples(store.samples(record.run_id), record.run_id)

    def _add(self, name: str, outputs: Iterable[tuple[str, SystemOutputs]]) -> None:
        if name in self.runs:
            raise BadValueError(f"{name} is given twice; each run can be pooled once")
        self.runs[name] = outputs


def _file_outputs(path: str) -> Iterator[tuple[str, SystemOutputs]]:
    for read in iter_outputs(path):
        yield read.sample_id, read.output


def _stored_outputs(store: RunStore, record: RunRecord) -> Iterator[tuple[str, SystemOutputs]]:
    for row in store.outputs(record.run_id):
        yield row.sample_id, row.output
