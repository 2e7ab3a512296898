"""Sources of batches: small objects that are sent to a worker, which reads the batch itself."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .batch import Batch, check_samples
from .errors import BadTypeError
from .slices import BatchMembership, Slice, batch_membership
from .types import EvaluationSample, SystemOutputs

__all__ = ["BatchSource", "FamilySource", "LoadedBatch", "SourcedBatch"]

Rows = tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]


@runtime_checkable
class BatchSource(Protocol):
    """A source of the samples and outputs of a batch, such as a range of a file.

    It is sent to other processes and machines, so it must be small and picklable. Reading it must always give the same
    rows, since a batch whose worker died is read again.
    """

    @property
    def size(self) -> int:
        """The (approximate) number of samples, for progress only."""
        ...

    def read(self) -> Rows:
        """The samples and their outputs, aligned."""
        ...


@runtime_checkable
class FamilySource(BatchSource, Protocol):
    """A source that can also read the parents of its variants, so that the worker can pair them."""

    def read_parents(self) -> Rows:
        """The parents of its samples, and their parents, unless they are among its own samples.

        All of them must be included, with their outputs: then pairs are the same as among all samples.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """A batch that was read, with the membership of its samples."""

    batch: Batch
    members: BatchMembership
    parents: Batch | None = None
    """The parents of its variants, if the source reads them: they are counted elsewhere and only paired here."""


@dataclass(frozen=True, slots=True)
class SourcedBatch:
    """A batch that is read from a source, and what to record about its samples."""

    source: BatchSource
    slices: tuple[Slice, ...] = ()
    keep: bool = True
    fields: frozenset[str] = frozenset()
    joined: bool = False
    """Whether the source also reads the parents of its variants, to be paired by the worker."""

    def load(self, memory: dict[Hashable, Any] | None = None) -> LoadedBatch:
        """Read the batch."""
        samples, outputs = self.source.read()
        check_samples(samples)
        members = batch_membership(samples, self.slices, keep=self.keep, fields=self.fields)
        return LoadedBatch(Batch(samples, outputs, memory=memory), members, self._load_parents(memory))

    def _load_parents(self, memory: dict[Hashable, Any] | None) -> Batch | None:
        if not self.joined:
            return None
        if not isinstance(self.source, FamilySource):
            raise BadTypeError(f"{type(self.source).__name__} has no read_parents(), which pairing needs")
        samples, outputs = self.source.read_parents()
        check_samples(samples)
        return Batch(samples, outputs, memory=memory)
