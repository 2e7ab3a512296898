"""Index of the records of a sharded input, and the join of samples and outputs by id hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataFileError, DuplicateIdError
from ..io.formats import Role
from ..io.problems import ParsedSample
from ..runtime.files import is_compressed
from .inputs import (
    Hashes,
    IdHashes,
    InputFile,
    LineOffsets,
    OptionalOutput,
    RecordRange,
    RecordRanges,
    group_sizes,
    index_lines,
    line_ids,
    read_line_outputs,
    read_line_samples,
    read_row_outputs,
    read_row_samples,
    row_ids,
)

Rows = npt.NDArray[np.int64]
Mapper = Callable[[Callable[[RecordRange], IdHashes], Iterable[RecordRange]], Iterable[IdHashes]]
"""Calls a function for each of many ranges, in their order: ``map``, or that of a pool of processes."""
_COMPRESSED_TIMES = 16
"""Ranges of compressed files are this much larger, since a worker may have to decompress what is before one."""


def read_samples(runs: Iterable[RecordRange]) -> list[ParsedSample]:
    """The samples of some ranges."""
    return [one for _, read in samples_by_file(runs) for one in read]


def read_outputs(runs: Iterable[RecordRange]) -> list[OptionalOutput]:
    """The outputs of some ranges."""
    return [one for _, read in outputs_by_file(runs) for one in read]


def samples_by_file(runs: Iterable[RecordRange]) -> Iterator[tuple[InputFile, list[ParsedSample]]]:
    """The samples of some ranges, file by file; each file is opened once."""
    for file, some in groupby(runs, key=_file):
        yield file, (read_row_samples if _is_table(file) else read_line_samples)(list(some))


def outputs_by_file(runs: Iterable[RecordRange]) -> Iterator[tuple[InputFile, list[OptionalOutput]]]:
    """The outputs of some ranges, file by file; each file is opened once."""
    for file, some in groupby(runs, key=_file):
        yield file, (read_row_outputs if _is_table(file) else read_line_outputs)(list(some))


def _ids(run: RecordRange, role: Role) -> IdHashes:
    return (row_ids if _is_table(run.file) else line_ids)(run, role)


def _is_table(file: InputFile) -> bool:
    return file.format == "parquet"


_file = attrgetter("file")


class RecordIndex:
    """The records of several files, numbered consecutively, and the ranges to read them."""

    def __init__(self, files: Sequence[InputFile], role: Role, batch_size: int, cuts: Rows | None = None) -> None:
        """Scan the files once for line ends; ``cuts`` are records at which ranges will begin."""
        self.files = files
        self.role: Role = role
        self._batch_size = batch_size
        self._lines: dict[int, LineOffsets] = {}
        self._groups: dict[int, list[int]] = {}
        firsts = [0]
        for number, file in enumerate(files):
            firsts.append(firsts[-1] + self._look_through(number, file, firsts[-1], cuts))
        self.firsts: Rows = np.array(firsts, dtype=np.int64)
        """The number of each file's first record, and last of all how many there are."""
        if not firsts[-1]:
            what = "there is no sample in it" if role == "samples" else "there is no output in it"
            raise DataFileError(files[0].path, None, what + (", nor in any of the other files" if files[1:] else ""))

    def _look_through(self, number: int, file: InputFile, first: int, cuts: Rows | None) -> int:
        if _is_table(file):
            self._groups[number] = group_sizes(file, self.role)
            total = sum(self._groups[number])
        else:
            self._lines[number] = index_lines(
                file, every=self._every(file), rows=None if cuts is None else cuts[cuts >= first] - first
            )
            total = self._lines[number].total
        return total

    def as_outputs(self) -> RecordIndex:
        """The same records, read for their outputs instead of their samples."""
        twin = copy(self)
        twin.role = "outputs"
        return twin

    def _every(self, file: InputFile) -> int:
        return self._batch_size * (_COMPRESSED_TIMES if is_compressed(Path(file.path)) else 1)

    @property
    def total(self) -> int:
        """How many records there are."""
        return int(self.firsts[-1])

    def batches(self) -> Rows:
        """The first record of each batch, and the end of all. No batch crosses files."""
        cuts: list[int] = []
        for number in range(len(self.files)):
            first = int(self.firsts[number])
            if number in self._lines:
                every = self._every(self.files[number])
                cuts += range(first, int(self.firsts[number + 1]), every)
            else:
                cuts += (first + row for row in _table_cuts(self._groups[number], self._batch_size))
        return np.array([*cuts, self.total], dtype=np.int64)

    def ids(self, mapper: Mapper) -> IdHashes:
        """The ids of all records, by a pass that reads nothing else."""
        units = list(self.id_ranges())
        read = list(mapper(partial(_ids, role=self.role), units))
        firsts = np.cumsum([0, *(unit.count for unit in units)])[:-1]
        return IdHashes(
            np.concatenate([one.ids for one in read]),
            np.concatenate([one.absent + first for one, first in zip(read, firsts, strict=True)]),
        )

    def id_ranges(self) -> Iterator[RecordRange]:
        """All records, in ranges of moderate size."""
        for number in range(len(self.files)):
            if number in self._lines:
                ends = self._lines[number].rows
            else:
                ends = np.cumsum([0, *(size for size in self._groups[number] if size)])
            pieces = np.column_stack([np.full(len(ends) - 1, number), ends[:-1], ends[1:]])
            yield from self._packed(pieces)

    def ranges_between(self, bounds: Rows) -> list[RecordRanges]:
        """The ranges from each bound to the next."""
        return self._runs([np.array([ends]) for ends in pairwise(bounds.tolist())])

    def ranges_of(self, rows: Sequence[Rows]) -> list[RecordRanges]:
        """The ranges of several selections of records, each ascending and without duplicates."""
        return self._runs([_pieces(some) for some in rows])

    def _runs(self, pieces: Sequence[Rows]) -> list[RecordRanges]:
        """The ranges of pieces, each from one record up to another."""
        cut = [self._by_file(some) for some in pieces]
        self._look_up(np.concatenate(cut))
        return [self._packed(some) for some in cut]

    def _by_file(self, pieces: Rows) -> Rows:
        """Pieces cut where files end: of each the number of the file, and its first record and its end in there."""
        starts, stops = pieces[:, 0], pieces[:, 1]
        first, last = (np.searchsorted(self.firsts, ends, side="right") - 1 for ends in (starts, stops - 1))
        counts = last - first + 1
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        number = np.repeat(first, counts) + within
        start = np.maximum(np.repeat(starts, counts), self.firsts[number])
        stop = np.minimum(np.repeat(stops, counts), self.firsts[number + 1])
        some = start < stop  # a file may be empty
        begin = self.firsts[number]
        cut: Rows = np.column_stack([number, start - begin, stop - begin])[some]
        return cut

    def _look_up(self, pieces: Rows) -> None:
        """Scan files again if the byte offsets of these pieces are not known."""
        for number, own in _each_file(pieces):
            if number in self._lines:
                known = self._lines[number].rows
                needed = np.unique(own[:, 1:])
                if not np.isin(needed, known).all():
                    file = self.files[number]
                    self._lines[number] = index_lines(file, every=self._every(file), rows=np.union1d(known, needed))

    def _packed(self, pieces: Rows) -> RecordRanges:
        made = [np.zeros((0, 6), dtype=np.int64)]
        for number, own in _each_file(pieces):
            start, stop = own[:, 1], own[:, 2]
            if number in self._lines:
                found = self._lines[number].pieces(start, stop)
            else:
                nothing = np.zeros(len(own), dtype=np.int64)
                found = np.column_stack([start, stop - start, nothing, nothing, nothing + 1])
            made.append(np.column_stack([own[:, 0], found]))
        return RecordRanges.of(self.files, np.concatenate(made))

    def names(self, rows: Rows) -> list[tuple[str, int, str]]:
        """File, line and id of some records (ascending numbers)."""
        read: list[Any] = []
        by_file = samples_by_file if self.role == "samples" else outputs_by_file
        for file, found in by_file(self.ranges_of([rows])[0]):
            for one in found:
                named = one.sample if isinstance(one, ParsedSample) else one
                read.append((file.path, one.line, named.sample_id))
        return read

    def require_distinct(self, ids: IdHashes) -> Rows:
        """Raise if an id occurs twice; return the records of different ids with equal hashes."""
        order = np.argsort(ids.ids, kind="stable")
        same = np.flatnonzero(ids.ids[order][1:] == ids.ids[order][:-1])
        pairs = np.column_stack([order[same], order[same + 1]])
        pairs = pairs[np.argsort(pairs[:, 1])]  # the first duplicate is reported, without reading all that follows
        seen: dict[str, tuple[str, int]] = {}
        for start in range(0, len(pairs), self._batch_size):
            for path, line, name in self.names(np.unique(pairs[start : start + self._batch_size])):
                before, first = seen.setdefault(name, (path, line))
                if (before, first) != (path, line):
                    where = f"line {first}" if before == path else f"{before}:{first}"
                    on = "is already on" if before == path else "is already at"
                    message = f"{path}:{line}: sample_id {name!r} {on} {where}; each id may come once"
                    raise DuplicateIdError(message, path=path, line=line)
        return np.unique(pairs)


def _pieces(rows: Rows) -> Rows:
    """Rising numbers as pieces that have no gaps: the first and the end of each."""
    if not len(rows):
        return np.zeros((0, 2), dtype=np.int64)
    breaks = np.flatnonzero(np.diff(rows) != 1)
    return np.column_stack([rows[np.concatenate([[0], breaks + 1])], rows[np.concatenate([breaks, [-1]])] + 1])


def _each_file(pieces: Rows) -> Iterator[tuple[int, Rows]]:
    """The pieces of each file, where they come file by file or not."""
    if len(pieces):
        ordered = pieces[np.argsort(pieces[:, 0], kind="stable")]
        numbers, starts = np.unique(ordered[:, 0], return_index=True)
        yield from zip(numbers.tolist(), np.split(ordered, starts[1:]), strict=True)


def _table_cuts(groups: Sequence[int], batch_size: int) -> Iterator[int]:
    """Where batches begin: large row groups are cut into equal parts, small ones are put together."""
    row, room = 0, 0
    for size in groups:
        if size > room:
            parts = -(-size // batch_size)
            yield from (row + size * part // parts for part in range(parts))
            room = batch_size - size if parts == 1 else 0
        else:
            room -= size
        row += size


# --- the join of samples and outputs by id hashes --------------------------------------------------------------------

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
