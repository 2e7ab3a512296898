"""Batches that are not read yet: small enough to be sent to whoever scores them, who then reads them there."""

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


@runtime_checkable
class FamilySource(BatchSource, Protocol):
    """A source that knows where the bases of its variants are, so that pairs are made by whoever scores them."""

    def read_parents(self) -> Rows:
        """The samples that its own are variants of, and those that these are variants of, unless they are its own.

        All of them must be there, with their outputs: then a sample is joined as it would be among all samples.
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadedBatch:
    """A batch that was read, and what is to be known of its samples when it is gone."""

    batch: Batch
    members: BatchMembership
    parents: Batch | None = None
    """The bases of its variants, where the source brings them along: they are scored elsewhere, and paired here."""


@dataclass(frozen=True, slots=True)
class SourcedBatch:
    """A source, and what an evaluation wants to know of its samples."""

    source: BatchSource
    slices: tuple[Slice, ...] = ()
    keep: bool = True
    fields: frozenset[str] = frozenset()
    joined: bool = False
    """Whether the source brings the bases of its variants, to be paired by whoever scores them."""

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
