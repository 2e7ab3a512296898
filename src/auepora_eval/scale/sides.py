"""One side of a sharded input, samples or outputs: its records by number, over all files, and where they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import DataFileError, DuplicateIdError
from ..io.files import is_compressed
from ..io.formats import Role
from ..io.reading import ReadSample
from .inputs import InputFile, Run
from .ranges_jsonl import LineCuts, cut_lines, line_ids, read_line_outputs, read_line_samples
from .ranges_parquet import group_sizes, read_row_outputs, read_row_samples, row_ids
from .records import ReadIds, ReadMaybe

__all__ = ["Mapper", "Side", "read_outputs", "read_samples"]

Rows = npt.NDArray[np.int64]
Mapper = Callable[[Callable[[Run], ReadIds], Iterable[Run]], Iterable[ReadIds]]
"""What calls a function for each of many ranges, in their order: ``map``, or that of a pool of processes."""
_COMPRESSED_TIMES = 16
"""Ranges of compressed files are so much larger, since each costs decompressing what is before it."""


def read_samples(runs: Sequence[Run]) -> list[ReadSample]:
    """The samples of some runs."""
    return [one for run in runs for one in (read_row_samples if _is_table(run.file) else read_line_samples)(run)]


def read_outputs(runs: Sequence[Run]) -> list[ReadMaybe]:
    """The outputs of some runs."""
    return [one for run in runs for one in (read_row_outputs if _is_table(run.file) else read_line_outputs)(run)]


def _ids(run: Run, role: Role, families: bool) -> ReadIds:
    return (row_ids if _is_table(run.file) else line_ids)(run, role, families=families)


def _is_table(file: InputFile) -> bool:
    return file.format == "parquet"


class Side:
    """The records of several files as one numbered row."""

    def __init__(self, files: Sequence[InputFile], role: Role, batch_size: int, cuts: Rows | None = None) -> None:
        """Files are gone through once for their ends of lines; ``cuts`` are records at which they will be cut."""
        self.files = files
        self.role: Role = role
        self._batch_size = batch_size
        self._lines: dict[int, LineCuts] = {}
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
            self._groups[number] = group_sizes(file)
            total = sum(self._groups[number])
        else:
            self._lines[number] = cut_lines(
                file, every=self._every(file), rows=None if cuts is None else cuts[cuts >= first] - first
            )
            total = self._lines[number].total
        return total

    def as_outputs(self) -> Side:
        """The same records, read for the outputs they hold beside the samples."""
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
        """Where to cut the records into batches: the first of each, and the end of all. None crosses files."""
        cuts: list[int] = []
        for number in range(len(self.files)):
            first = int(self.firsts[number])
            if number in self._lines:
                every = self._every(self.files[number])
                cuts += range(first, int(self.firsts[number + 1]), every)
            else:
                cuts += (first + row for row in _table_cuts(self._groups[number], self._batch_size))
        return np.array([*cuts, self.total], dtype=np.int64)

    def ids(self, mapper: Mapper, *, families: bool = False) -> ReadIds:
        """The ids of all records, by a pass that reads nothing else."""
        units = list(self.units())
        read = list(mapper(partial(_ids, role=self.role, families=families), units))
        firsts = np.cumsum([0, *(unit.count for unit in units)])[:-1]
        return ReadIds(
            np.concatenate([one.ids for one in read]),
            np.concatenate([one.variants + first for one, first in zip(read, firsts, strict=True)]),
            np.concatenate([one.bases for one in read]),
            np.concatenate([one.absent + first for one, first in zip(read, firsts, strict=True)]),
        )

    def units(self) -> Iterator[Run]:
        """All records, in ranges of moderate size."""
        for number, file in enumerate(self.files):
            if number in self._lines:
                cuts = self._lines[number]
                ends = cuts.rows.tolist()
                yield from (cuts.run(file, row, stop) for row, stop in pairwise(ends))
            else:
                row = 0
                for size in self._groups[number]:
                    if size:
                        yield Run(file, row, size)
                    row += size

    def spans(self, bounds: Rows) -> list[tuple[Run, ...]]:
        """The runs from each bound to the next; what lies beyond the last record is not there."""
        return self.runs(list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)))

    def picked(self, rows: Sequence[Rows]) -> list[tuple[Run, ...]]:
        """The runs of some records, several times over: rising numbers, each once."""
        pieces: list[tuple[int, int]] = []
        counts: list[int] = []
        for some in rows:
            breaks = np.flatnonzero(np.diff(some) != 1) + 1 if len(some) else np.zeros(0, dtype=np.int64)
            firsts = some[np.concatenate([[0], breaks])] if len(some) else some
            lasts = some[np.concatenate([breaks - 1, [len(some) - 1]])] + 1 if len(some) else some
            pieces += zip(firsts.tolist(), lasts.tolist(), strict=True)
            counts.append(len(firsts))
        found = iter(self.runs(pieces))
        return [tuple(run for _ in range(count) for run in next(found)) for count in counts]

    def runs(self, pieces: Sequence[tuple[int, int]]) -> list[tuple[Run, ...]]:
        """The runs of each piece, from its first record up to its end, file by file."""
        cut: list[list[tuple[int, int, int]]] = [list(self._by_file(*piece)) for piece in pieces]
        self._look_up([one for some in cut for one in some])
        return [tuple(self._run(*one) for one in some) for some in cut]

    def _by_file(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        stop = min(stop, self.total)
        number = int(np.searchsorted(self.firsts, start, side="right")) - 1
        while start < stop:
            first, end = int(self.firsts[number]), int(self.firsts[number + 1])
            upto = min(stop, end)
            if start < upto:
                yield number, start - first, upto - first
            start, number = max(start, upto), number + 1

    def _look_up(self, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Go through files once more where it is not known at which bytes these pieces begin and end."""
        wanted: dict[int, set[int]] = {}
        for number, start, stop in pieces:
            if number in self._lines:
                wanted.setdefault(number, set()).update((start, stop))
        for number, rows in wanted.items():
            known = self._lines[number].rows
            asked = np.array(sorted(rows), dtype=np.int64)
            if not np.isin(asked, known).all():
                file = self.files[number]
                both = np.union1d(known, asked)
                self._lines[number] = cut_lines(file, every=self._every(file), rows=both)

    def _run(self, number: int, start: int, stop: int) -> Run:
        file = self.files[number]
        return self._lines[number].run(file, start, stop) if number in self._lines else Run(file, start, stop - start)

    def names(self, rows: Rows) -> list[tuple[str, int, str]]:
        """Of some records (rising numbers): file, line and id."""
        read: list[Any] = []
        runs = [run for runs in self.picked([rows]) for run in runs]
        for run in runs:
            found = read_samples([run]) if self.role == "samples" else read_outputs([run])
            read += [(run.file.path, one.line, _id_of(one)) for one in found]
        return read

    def require_distinct(self, ids: ReadIds) -> Rows:
        """Raise where an id comes twice. The records whose ids only look the same (as numbers) are the result."""
        order = np.argsort(ids.ids, kind="stable")
        same = np.flatnonzero(ids.ids[order][1:] == ids.ids[order][:-1])
        suspects = np.unique(np.concatenate([order[same], order[same + 1]]))
        seen: dict[str, tuple[str, int]] = {}
        for start in range(0, len(suspects), self._batch_size):
            for path, line, name in self.names(suspects[start : start + self._batch_size]):
                if name in seen:
                    before, first = seen[name]
                    where = f"line {first}" if before == path else f"{before}:{first}"
                    on = "is already on" if before == path else "is already at"
                    raise DuplicateIdError(f"{path}:{line}: sample_id {name!r} {on} {where}; each id may come once")
                seen[name] = path, line
        return suspects


def _id_of(read: ReadSample | ReadMaybe) -> str:
    return read.sample.sample_id if isinstance(read, ReadSample) else read.sample_id


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
