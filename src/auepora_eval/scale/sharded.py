"""Evaluation of files of any number and size: indexed, joined by id, split into ranges, scored by an executor."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..core.conventions import Conventions
from ..core.dataset import LazyDataset
from ..core.metrics_base import BatchMetric, Metric, is_judged
from ..core.results import Results
from ..core.slices import Slice, SliceSpec, parse_slices
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import BATCH_SIZE, Metrics, Progress, check_batch_size, evaluate_sources, resolve_metrics
from ..engine.executors import Executor, ExecutorName, make_executor, with_judges
from ..engine.suggest import require_retrieved, supported_metrics
from ..errors import (
    AueporaError,
    AueporaWarning,
    BadValueError,
    DataFileError,
    DuplicateIdError,
    MetricDefinitionError,
    WorkerError,
)
from ..io.formats import Role, get_format
from ..io.join import OutputJoin, require_common_id, require_same_rankings, unmatched_warnings
from ..io.problems import MAX_NAMED_IDS, ParsedOutput, ParsedSample
from ..options import PositiveInt, check_options
from ..runtime.files import is_compressed
from .checkpoint import CheckpointExecutor, Manifest, manifest_for, open_checkpoint
from .inputs import (
    Hashes,
    IdHashes,
    InputFile,
    LineOffsets,
    RecordRange,
    RecordRanges,
    group_sizes,
    index_lines,
    input_files,
    line_ids,
    read_line_outputs,
    read_line_samples,
    read_row_outputs,
    read_row_samples,
    row_ids,
)
from .ray_executor import POLL_SECONDS, RayExecutor, cancel_tasks
from .streams import close_streams

if TYPE_CHECKING:
    from ..engine.gold_match import GoldReading
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession


# --- the index of records: their numbers, their ranges in files, their ids -------------------------------------------

Rows = npt.NDArray[np.int64]
Mapper = Callable[[Callable[[RecordRange], IdHashes], Iterable[RecordRange]], Iterable[IdHashes]]
"""Calls a function for each of many ranges, in their order: ``map``, or that of a pool of processes."""
_COMPRESSED_TIMES = 16
"""Ranges of compressed files are this much larger, since a worker may have to decompress what is before one."""


def read_samples(runs: Iterable[RecordRange]) -> list[ParsedSample]:
    """The samples of some ranges."""
    return list(chain.from_iterable(read for _, read in records_by_file(runs, "samples")))


_READERS: dict[tuple[Role, bool], Callable[[list[RecordRange]], list[Any]]] = {
    ("samples", False): read_line_samples,
    ("samples", True): read_row_samples,
    ("outputs", False): read_line_outputs,
    ("outputs", True): read_row_outputs,
}
"""By role, and whether the file is a table."""


def records_by_file(runs: Iterable[RecordRange], role: Role) -> Iterator[tuple[InputFile, list[Any]]]:
    """The samples or outputs of some ranges, file by file; each file is opened once."""
    for file, some in groupby(runs, key=attrgetter("file")):
        yield file, _READERS[role, _is_table(file)](list(some))


def _ids(run: RecordRange, role: Role) -> IdHashes:
    return (row_ids if _is_table(run.file) else line_ids)(run, role)


def _is_table(file: InputFile) -> bool:
    return file.format == "parquet"


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
                cuts += range(first, int(self.firsts[number + 1]), self._every(self.files[number]))
            else:
                cuts += (first + row for row in _table_cuts(self._groups[number], self._batch_size))
        return np.array([*cuts, self.total], dtype=np.int64)

    def ids(self, mapper: Mapper) -> IdHashes:
        """The ids of all records, by a pass that reads nothing else."""
        units = list(self.id_ranges())
        read = list(mapper(partial(_ids, role=self.role), units))
        firsts = np.cumsum([0, *(unit.count for unit in units)])[:-1]
        return IdHashes(
            np.concatenate([hashes.ids for hashes in read]),
            np.concatenate([hashes.absent + first for hashes, first in zip(read, firsts, strict=True)]),
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
        for file, found in records_by_file(self.ranges_of([rows])[0], self.role):
            for record in found:
                named = record.sample if isinstance(record, ParsedSample) else record
                read.append((file.path, record.line, named.sample_id))
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


def _positions_of(wanted: Hashes, ids: Hashes, usable: Rows) -> tuple[Rows, Rows]:
    """The usable records with the wanted ids, and the index of the id that each is for.

    Usually it is one per id; there are more if different ids have equal hashes.
    """
    rows = usable[np.argsort(ids[usable], kind="stable")]
    first = np.searchsorted(ids[rows], wanted, side="left")
    counts = np.searchsorted(ids[rows], wanted, side="right") - first
    which = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rows[np.repeat(first, counts) + within], which


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
        ends = np.searchsorted(self.samples, bounds).tolist()
        return [np.unique(self.outputs[start:stop]) for start, stop in pairwise(ends)]


def join_by_id(samples: IdHashes, outputs: IdHashes, *, sure: bool = True) -> SampleOutputJoin:
    """Join samples and outputs: by position if their ids are the same in the same order, else by lookup.

    Unless ``sure`` that different ids have different hashes, all candidate records of an id are looked up.
    """
    if sure and np.array_equal(samples.ids, outputs.ids):
        return SampleOutputJoin(True, outputs.absent, _NONE, _NONE, _NONE)
    usable = np.setdiff1d(np.arange(len(outputs.ids)), outputs.absent)
    rows, which = _positions_of(samples.ids, outputs.ids, usable)
    return SampleOutputJoin(
        False,
        np.setdiff1d(np.arange(len(samples.ids)), which),
        np.setdiff1d(usable, rows),
        rows,
        which,
    )


# --- sharded input: files, directories and globs as many small sources -----------------------------------------------
# Files are scanned once for the offsets of records, and once for ids; both passes decode nothing else. Then each source
# is a list of ranges that the worker reads.

InputPaths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class FileSource:
    """A batch as ranges of files: its samples and their outputs."""

    size: int
    samples: RecordRanges
    outputs: RecordRanges
    answers_only: bool = False
    """Whether outputs have no rankings; either all or none must have one."""

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """The samples and their outputs, aligned by their ids."""
        own = [sample.sample for sample in read_samples(self.samples)]
        paths: dict[str, str] = {}  # of outputs that differ from the others in having a ranking

        def parsed_outputs() -> Iterator[ParsedOutput]:
            for file, some in records_by_file(self.outputs, "outputs"):
                for line, sample_id, output, has_retrieved in some:
                    if output is not None:
                        if has_retrieved is self.answers_only:
                            paths[sample_id] = file.path
                        yield ParsedOutput(line, sample_id, output, has_retrieved)

        join = OutputJoin(parsed_outputs())
        matches = [join.take(sample.sample_id) for sample in own]
        for read in matches if paths else ():
            if read is not None and read.sample_id in paths:
                require_same_rankings(paths[read.sample_id], read, answers_only=self.answers_only)
        return own, [None if read is None else read.output for read in matches]


class CountedIds(Sequence[str]):
    """A sequence of ids of which only the first are known and the others counted."""

    def __init__(self, count: int, first: Sequence[str]) -> None:
        self._count = count
        self._first = first

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._first[index]


def iter_samples(sources: Iterable[FileSource]) -> Iterator[EvaluationSample]:
    """Read the samples of all sources."""
    for source in sources:
        for parsed in read_samples(source.samples):
            yield parsed.sample


@dataclass(frozen=True, slots=True)
class ShardedInput:
    """Samples and outputs as sources, with their totals and warnings."""

    dataset: str
    """The paths of the samples, as they were given."""
    outputs: str
    """The paths of the outputs."""
    is_one_file: bool
    """Whether the outputs are in the files of the samples."""
    batch_size: int
    sources: Sequence[FileSource]
    total: int
    """How many samples there are."""
    bytes: int
    """The size of the files as stored."""
    fingerprint: str
    """Of the files (their names, sizes, times and formats) and the size of batches: another if any of it changes."""
    formats: tuple[str, str]
    """How samples and outputs are written."""
    answers_only: bool
    """Whether outputs have no rankings: the system answers and retrieves nothing."""
    missing: CountedIds = field(default_factory=lambda: CountedIds(0, ()))
    """Samples without an output."""
    unknown: CountedIds = field(default_factory=lambda: CountedIds(0, ()))
    """Outputs without a sample, which no source reads."""

    def warnings(self, conventions: str | Conventions = "auepora") -> list[str]:
        """Warnings about samples without an output and outputs without a sample."""
        return unmatched_warnings(self.missing, self.unknown, total=self.total, conventions=Conventions.of(conventions))


def sharded_sources(
    dataset: InputPaths,
    outputs: InputPaths | None = None,
    *,
    dataset_format: str | None = None,
    outputs_format: str | None = None,
    batch_size: int = BATCH_SIZE,
    mapper: Mapper = map,
) -> ShardedInput:
    """Split samples and their outputs into sources of about ``batch_size`` samples, in the order of the files.

    Each is a file, a directory or a glob of JSONL (plain, ``.gz`` or ``.zst``) or Parquet files, or several of these;
    files are in natural order (part-2 before part-10), and samples in the order of the files. Without ``outputs`` the
    dataset must be in a format that keeps both in one record. ``mapper`` runs the pass over ids: it calls a function
    for each of many ranges, as ``map`` or the ``map`` of a pool of processes does.
    """
    size = check_batch_size(batch_size)
    sample_files = input_files(dataset, "samples", dataset_format)
    if outputs is None and not get_format(sample_files[0].format).one_file:
        raise BadValueError(f"{sample_files[0].path} holds samples alone; name their outputs, too")
    output_files = sample_files if outputs is None else input_files(outputs, "outputs", outputs_format)

    samples = RecordIndex(sample_files, "samples", size)
    bounds = samples.batches()
    ids = samples.ids(mapper)
    collisions = len(samples.require_distinct(ids))
    if outputs is None:
        output_index, output_ids = copy(samples), ids
        output_index.role = "outputs"
    else:
        output_index = RecordIndex(output_files, "outputs", size, cuts=bounds)
        output_ids = output_index.ids(mapper)
        collisions += len(output_index.require_distinct(output_ids))
    join = join_by_id(ids, output_ids, sure=not collisions)
    missing, unknown = _count_ids(samples, join.missing), _count_ids(output_index, join.unknown)
    if len(missing) == samples.total and not unknown:
        raise DataFileError(output_files[0].path, None, "there is no output in it")
    require_common_id(samples.total, missing, unknown)
    answers_only = _answers_only(output_index)
    if join.in_order:
        output_runs = output_index.ranges_between(bounds)
    else:
        output_runs = output_index.ranges_of(join.of_batches(bounds))
    runs = zip(samples.ranges_between(bounds), output_runs, strict=True)
    return ShardedInput(
        dataset=_format_paths(dataset),
        outputs=_format_paths(dataset if outputs is None else outputs),
        is_one_file=outputs is None,
        batch_size=size,
        sources=[FileSource(own.count, own, theirs, answers_only) for own, theirs in runs],
        total=samples.total,
        bytes=sum(sample_file.size for sample_file in dict.fromkeys([*sample_files, *output_files])),
        fingerprint=_fingerprint(sample_files, output_files, size),
        formats=(sample_files[0].format, output_files[0].format),
        answers_only=answers_only,
        missing=missing,
        unknown=unknown,
    )


def _count_ids(side: RecordIndex, rows: Rows) -> CountedIds:
    return CountedIds(len(rows), [name for _, _, name in side.names(rows[:MAX_NAMED_IDS])])


def _answers_only(answers: RecordIndex) -> bool:
    """Whether outputs have no rankings: the first that did not fail decides for all."""
    for runs in answers.ranges_between(answers.batches()):
        for _, outputs in records_by_file(runs, "outputs"):
            for output in outputs:
                if output.output is not None and output.output.error is None:
                    return not output.has_retrieved
    return False


def _fingerprint(samples: Sequence[InputFile], outputs: Sequence[InputFile], batch_size: int) -> str:
    facts = [(file.path, file.format, file.size, file.mtime) for file in samples]
    facts_of_outputs = [(file.path, file.format, file.size, file.mtime) for file in outputs]
    return hashlib.sha256(
        json.dumps([[facts, facts_of_outputs], batch_size]).encode("utf-8", "surrogateescape")
    ).hexdigest()


# --- the pass over ids, in parallel on the workers of a cluster ------------------------------------------------------

_AT_ONCE = 8
"""How many ranges are read by one task."""
_AHEAD = 4
"""How many tasks are pending, per processor of the cluster."""


def make_mapper(executor: Executor) -> Mapper:
    """A ``map`` over many ranges: on the workers of a cluster, or else in this process."""
    return partial(_map_on_cluster, executor) if isinstance(executor, RayExecutor) else map


def _map_on_cluster(
    executor: RayExecutor, function: Callable[[RecordRange], IdHashes], runs: Iterable[RecordRange]
) -> Iterator[IdHashes]:
    cluster = executor.start()
    # Reading twice does no harm: Ray itself retries if a worker dies.
    remote = cluster.ray.remote(num_cpus=1)(_call_each)
    workers = min(executor.workers or cluster.processors, cluster.processors)
    # If the whole cluster is used, tasks queue at the workers; else no more are sent than may run.
    most = workers * (_AHEAD if workers == cluster.processors else 1)
    waiting: deque[Any] = deque()
    left = iter(runs)
    try:
        while some := list(islice(left, _AT_ONCE)):
            waiting.append(remote.remote(function, some))
            if len(waiting) >= most:
                yield from _fetch(cluster.ray, waiting.popleft())
        while waiting:
            yield from _fetch(cluster.ray, waiting.popleft())
    finally:
        cancel_tasks(cluster.ray, waiting)


def _fetch(ray: Any, reference: Any) -> Iterator[IdHashes]:
    while not ray.wait([reference], timeout=POLL_SECONDS)[0]:
        pass
    try:
        found: list[IdHashes | AueporaError] = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise WorkerError(f"no worker could read the ids of some records: {error}") from error
    for hashes in found:
        if isinstance(hashes, AueporaError):
            raise hashes
        yield hashes


def _call_each(
    function: Callable[[RecordRange], IdHashes], runs: Sequence[RecordRange]
) -> list[IdHashes | AueporaError]:
    found: list[IdHashes | AueporaError] = []
    for run in runs:
        try:
            found.append(function(run))
        except AueporaError as error:  # as a value it arrives as it is
            return [*found, error]
    return found


# --- evaluation: ranges scored by an executor, with an optional checkpoint -------------------------------------------

UNIT_SIZE = 50_000
"""How many samples make a part, where there are many."""
_UNITS = 64
"""About how many parts there are for small data, so that all workers have something to do."""


def evaluate_files(
    dataset: InputPaths,
    outputs: InputPaths | None = None,
    metrics: Metrics = (),
    *,
    parts: str | Path | None = None,
    executor: ExecutorName | Executor = "serial",
    address: str | None = None,
    workers: int | None = None,
    keep_scores: bool = True,
    batch_size: int = BATCH_SIZE,
    unit_size: int | None = None,
    slices: Iterable[SliceSpec] | SliceSpec = (),
    conventions: str | Conventions = "auepora",
    dataset_format: str | None = None,
    outputs_format: str | None = None,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
) -> Results:
    """Score files of samples and outputs: paths, directories or globs of JSONL or Parquet files.

    The worker that scores a batch reads it from the files, so they must have the same path on all machines. The results
    are those of ``evaluate`` on all samples at once, to the last bit, for every executor and split. Without
    ``metrics``, all that the data supports are computed, which takes another pass over it.

    With a folder for ``parts`` the scores of all samples are written there as Parquet, in parts of about ``unit_size``
    samples; the same call resumes after an interruption. With ``keep_scores=False`` memory does not grow with the data.
    ``executor="ray"`` uses the cluster at ``address`` (``auto``, ``host:port``, ``ray://…``), or one of its own on this
    machine.

    Args:
        dataset: Files of samples.
        outputs: Files of outputs; ``dataset_format`` and ``outputs_format`` say in which format.
        progress: Called with the number of newly scored samples; ``conventions``, ``slices``, ``judging``, ``workers``
            and ``batch_size`` are as for ``evaluate``.

    Returns:
        The results, as ``evaluate`` gives them.

    Example:
        >>> evaluate_files("data.jsonl", "outputs.jsonl", ["recall@1"])[0].value
        0.5
    """
    rules = Conventions.of(conventions)
    chosen = resolve_metrics(metrics, rules)
    require_batch_metrics(chosen)
    with make_executor(executor, workers, address) as scoring:
        found = sharded_sources(
            dataset,
            outputs,
            dataset_format=dataset_format,
            outputs_format=outputs_format,
            batch_size=batch_size,
            mapper=make_mapper(scoring),
        )
        if not chosen:
            batches = (source.read() for source in found.sources)
            chosen = supported_metrics(batches, rules, answers_only=found.answers_only)
        elif found.answers_only:
            require_retrieved(chosen, found.outputs)
        for message in found.warnings(rules):
            warnings.warn(message, AueporaWarning, stacklevel=2)
        return evaluate_sharded(
            found,
            chosen,
            executor=scoring,
            conventions=rules,
            slices=slices,
            parts=parts,
            unit_size=unit_size,
            keep_scores=keep_scores,
            judging=judging,
            progress=progress,
        )


def require_batch_metrics(metrics: Iterable[Metric]) -> None:
    """Raise if a metric needs all samples at once."""
    for metric in metrics:
        if not isinstance(metric, BatchMetric):
            raise MetricDefinitionError(
                f"metric '{metric.name}' implements only 'compute', which needs all samples at once; score one file "
                "with the serial executor, or write it as a SampleMetric"
            )


def evaluate_sharded(
    found: ShardedInput,
    metrics: Sequence[Metric],
    *,
    executor: Executor,
    conventions: Conventions,
    slices: Iterable[SliceSpec] | SliceSpec = (),
    parts: str | Path | None = None,
    unit_size: int | None = None,
    keep_scores: bool = True,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
    on_checkpoint: Callable[[CheckpointExecutor], None] | None = None,
    gold: GoldReading | None = None,
) -> Results:
    """Score the files of ``sharded_sources``.

    ``on_checkpoint`` gets the executor that counts what is already scored, ``gold`` the counts of all samples.
    """
    groups = parse_slices(slices)
    scoring = executor
    if parts is not None:
        policy: Any = getattr(judging, "policy", judging)
        if policy is not None and policy.controls:
            raise BadValueError(
                "control items need all samples in one pass, and a checkpoint leaves finished ones out; score without "
                "the checkpoint folder, or without controls"
            )
        manifest = _manifest(found, metrics, groups, conventions, unit_size)
        folder = Path(parts)
        behind = with_judges(executor, metrics, judging)
        scoring = CheckpointExecutor(behind, folder, open_checkpoint(folder, manifest))
        if on_checkpoint is not None:
            on_checkpoint(scoring)
    try:
        return evaluate_sources(
            found.sources,
            metrics,
            conventions=conventions,
            slices=groups,
            executor=scoring,
            keep_scores=keep_scores,
            judging=judging,
            progress=progress,
            gold=gold,
            samples=LazyDataset(found.dataset, partial(iter_samples, found.sources)),
        )
    finally:
        close_streams()


def _manifest(
    found: ShardedInput,
    metrics: Sequence[Metric],
    slices: Sequence[Slice],
    conventions: Conventions,
    unit_size: PositiveInt | None,
) -> Manifest:
    check_options(_manifest, {"unit_size": unit_size})
    if unit_size is None:
        unit_size = max(found.batch_size, min(UNIT_SIZE, found.total // _UNITS))
        if any(isinstance(metric, BatchMetric) and is_judged(metric) for metric in metrics):
            unit_size = found.batch_size  # judgements that are lost with a unit were paid for
    facts: dict[str, Any] = {
        "dataset": found.dataset,
        "outputs": None if found.is_one_file else found.outputs,
        "samples": found.total,
        "bytes": found.bytes,
        "formats": list(found.formats),
        "batch_size": found.batch_size,
        "fingerprint": found.fingerprint,
    }
    return manifest_for(
        [source.size for source in found.sources],
        [metric for metric in metrics if isinstance(metric, BatchMetric)],
        slices,
        conventions=conventions,
        input_facts=facts,
        unit_size=unit_size,
    )


def _format_paths(given: InputPaths) -> str:
    return str(given) if isinstance(given, (str, Path)) else ", ".join(map(str, given))
