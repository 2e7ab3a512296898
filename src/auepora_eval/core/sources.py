"""Batches that are not read yet: small enough to be sent to whoever scores them, who then reads them there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .batch import Batch, check_samples
from .slices import Members, Slice, members_of
from .types import EvaluationSample, SystemOutputs

__all__ = ["BatchSource", "Loaded", "SourcedBatch"]

Rows = tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]


@runtime_checkable
class BatchSource(Protocol):
    """Where the samples and outputs of a batch can be read, such as a range of a file.

    It is sent to other processes and machines: it must be small and picklable, and reading it must give the same rows
    each time and everywhere, since a batch whose process died is read again.
    """

    @property
    def size(self) -> int:
        """How many samples it has, or about how many; for progress alone."""
        ...

    def read(self) -> Rows:
        """The samples and their outputs, aligned."""
        ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """A batch that was read, and what is to be known of its samples when it is gone."""

    batch: Batch
    members: Members


@dataclass(frozen=True, slots=True)
class SourcedBatch:
    """A source, and what an evaluation wants to know of its samples."""

    source: BatchSource
    slices: tuple[Slice, ...] = ()
    keep: bool = True
    fields: frozenset[str] = frozenset()

    def load(self, memory: dict[Hashable, Any] | None = None) -> Loaded:
        """Read the batch."""
        samples, outputs = self.source.read()
        check_samples(samples)
        members = members_of(samples, self.slices, keep=self.keep, fields=self.fields)
        return Loaded(Batch(samples, outputs, memory=memory), members)
