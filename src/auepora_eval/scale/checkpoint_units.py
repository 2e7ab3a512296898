"""Checkpoint units: several batches that one worker scores and writes as one part."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.executors import ScoredBatch, SourcedBatchGroup, score_batch
from ..core.metrics_base import BatchMetric
from ..core.sources import BatchSource, FamilySource, SourcedBatch
from ..core.types import EvaluationSample, SystemOutputs
from .checkpoint_files import merge_batches, without_ids, write_part
from .manifest import CheckpointUnit

__all__ = ["PartUnit", "UnitSource", "part_unit"]


@dataclass(frozen=True, slots=True)
class UnitSource:
    """Several sources as one."""

    sources: tuple[BatchSource, ...]

    @property
    def size(self) -> int:
        """How many samples they have together."""
        return sum(one.size for one in self.sources)

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """All samples and their outputs."""
        samples: list[EvaluationSample] = []
        outputs: list[SystemOutputs | None] = []
        for one in self.sources:
            more, theirs = one.read()
            samples += more
            outputs += theirs
        return samples, outputs

    def read_parents(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """The bases of all variants, each once, less those that are samples of a unit themselves."""
        known = {sample.sample_id for sample in self.read()[0]}
        samples: list[EvaluationSample] = []
        outputs: list[SystemOutputs | None] = []
        for one in self.sources:
            assert isinstance(one, FamilySource)
            for sample, output in zip(*one.read_parents(), strict=True):
                if sample.sample_id not in known:
                    known.add(sample.sample_id)
                    samples.append(sample)
                    outputs.append(output)
        return samples, outputs


@dataclass(frozen=True, slots=True)
class PartUnit(SourcedBatchGroup):
    """A unit that a worker scores batch by batch and writes to its part. Doing it twice changes nothing."""

    source: UnitSource
    number: int = 0
    first: int = 0
    path: str = ""
    """The path of its part, on a file system that all workers share."""
    job: str = ""
    names: tuple[str, ...] = ()
    """The metrics of a part: a worker that scores only some of them writes no part."""
    lean: bool = False
    """Whether sample ids are needed in the part only."""

    def batches(self) -> list[SourcedBatch]:
        """Its batches."""
        return [SourcedBatch(one, self.slices, self.keep, self.fields, self.joined) for one in self.source.sources]

    def score_all(self, metrics: Sequence[BatchMetric], memory: dict[Hashable, Any] | None) -> ScoredBatch:
        """The scores of all its batches, written to the part."""
        shared = {} if memory is None else memory
        whole = merge_batches([score_batch(one, metrics, shared) for one in self.batches()])
        if tuple(one.name for one in metrics) != self.names:
            return whole
        write_part(Path(self.path), whole, self.names, job=self.job, unit=self.number, first=self.first)
        return without_ids(whole) if self.lean else whole


def part_unit(
    unit: CheckpointUnit, batches: Sequence[SourcedBatch], names: Sequence[str], *, folder: Path, job: str, lean: bool
) -> PartUnit:
    """A unit of these batches."""
    first = replace(batches[0], keep=True)  # parts always contain the sample ids
    return PartUnit(
        source=UnitSource(tuple(one.source for one in batches)),
        slices=first.slices,
        keep=first.keep,
        fields=first.fields,
        joined=first.joined,
        number=unit.number,
        first=unit.first,
        path=os.path.abspath(folder / unit.file),  # workers may have another working directory
        job=job,
        names=tuple(names),
        lean=lean,
    )
