"""The join of samples and outputs by id hashes, and the bases of each batch's variants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .record_index import Rows
from .records import Hashes, IdHashes

__all__ = ["IdPositions", "SampleOutputJoin", "bases_per_batch", "join_by_id"]

_NONE = np.zeros(0, dtype=np.int64)


class IdPositions:
    """The record positions of ids: usually one per id, more if different ids have equal hashes."""

    def __init__(self, ids: Hashes, usable: Rows | None = None) -> None:
        """``usable`` names the records that count; all, if it is not given."""
        rows = np.arange(len(ids)) if usable is None else usable
        order = np.argsort(ids[rows], kind="stable")
        self._rows = rows[order]
        self._ids = ids[rows][order]

    def of(self, ids: Hashes) -> tuple[Rows, Rows]:
        """The candidate records of these ids, and the index of the id that each is for."""
        first = np.searchsorted(self._ids, ids, side="left")
        counts = np.searchsorted(self._ids, ids, side="right") - first
        which = np.repeat(np.arange(len(ids)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._rows[np.repeat(first, counts) + within], which


@dataclass(frozen=True, slots=True)
class SampleOutputJoin:
    """The join of samples and outputs: which output belongs to which sample."""

    in_order: bool
    """Whether each sample's output has the same number as the sample."""
    missing: Rows
    """Samples without an output."""
    unknown: Rows
    """Outputs without a sample."""
    outputs: Rows
    """Otherwise: records of outputs, and in ``samples`` the sample that each is for, which rises."""
    samples: Rows

    def of_batches(self, bounds: Rows) -> list[Rows]:
        """For each batch of samples the records of their outputs, rising."""
        ends = np.searchsorted(self.samples, bounds)
        return [
            np.unique(self.outputs[start:stop])
            for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]

    def of_samples(self, rows: Rows) -> Rows:
        """The records of the outputs of some samples, rising."""
        if self.in_order:
            return rows
        first, last = (
            np.searchsorted(self.samples, rows, side="left"),
            np.searchsorted(self.samples, rows, side="right"),
        )
        found = [self.outputs[start:stop] for start, stop in zip(first.tolist(), last.tolist(), strict=True)]
        return np.unique(np.concatenate([_NONE, *found]))


def join_by_id(samples: IdHashes, outputs: IdHashes, *, sure: bool = True) -> SampleOutputJoin:
    """Join samples and outputs: by position if their ids are the same in the same order, else by lookup.

    Unless ``sure`` that different ids have different hashes, all candidate records of an id are looked up.
    """
    if sure and np.array_equal(samples.ids, outputs.ids):
        return SampleOutputJoin(True, outputs.absent, _NONE, _NONE, _NONE)
    usable = np.setdiff1d(np.arange(len(outputs.ids)), outputs.absent)
    rows, which = IdPositions(outputs.ids, usable).of(samples.ids)
    return SampleOutputJoin(
        False,
        np.setdiff1d(np.arange(len(samples.ids)), which),
        np.setdiff1d(usable, rows),
        rows,
        which,
    )


def bases_per_batch(samples: IdHashes, bounds: Rows) -> list[Rows]:
    """For each batch the samples that its own are variants of, over any number of steps, less its own.

    An id hash that two samples share stands for both; the worker compares the ids.
    """
    places = IdPositions(samples.ids)
    above, which = places.of(samples.bases)
    below = samples.variants[which]
    order = np.argsort(below, kind="stable")
    below, above = below[order], above[order]
    return [
        _ancestors(below, above, start, stop)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]


def _ancestors(below: Rows, above: Rows, start: int, stop: int) -> Rows:
    first, last = np.searchsorted(below, [start, stop])
    found = np.unique(above[first:last])
    fresh = found
    while len(fresh):
        lower, upper = np.searchsorted(below, fresh, side="left"), np.searchsorted(below, fresh, side="right")
        some = [above[a:b] for a, b in zip(lower.tolist(), upper.tolist(), strict=True) if a < b]
        fresh = np.setdiff1d(np.concatenate([_NONE, *some]), found)
        found = np.union1d(found, fresh)
    return found[(found < start) | (found >= stop)]
