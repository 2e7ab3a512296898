"""Evaluation of files of any number and size: split into ranges, scored by an executor."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.conventions import Conventions
from ..core.metrics_base import BatchMetric, Metric, is_judged
from ..core.results import Results
from ..core.slices import Slice, SliceSpec, parse_slices
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.evaluate import BATCH_SIZE, Metrics, Progress, check_batch_size, evaluate_sources, resolve_metrics
from ..engine.executors import Executor, ExecutorName, make_executor, with_judges
from ..engine.suggest import require_retrieved, supported_metrics
from ..errors import AueporaError, AueporaWarning, BadValueError, DataFileError, MetricDefinitionError, WorkerError
from ..io.formats import get_format
from ..io.join import MAX_NAMED_IDS, OutputJoin, require_common_id, require_same_rankings, unmatched_warnings
from ..io.problems import ParsedOutput
from ..options import PositiveInt, check_options
from .checkpoint import CheckpointExecutor, Manifest, manifest_for, open_checkpoint
from .index import (
    Mapper,
    RecordIndex,
    Rows,
    join_by_id,
    outputs_by_file,
    read_outputs,
    read_samples,
)
from .inputs import IdHashes, InputFile, RecordRange, RecordRanges, close_streams, input_files
from .ray_executor import POLL_SECONDS, RayExecutor, cancel_tasks

if TYPE_CHECKING:
    from ..judge.critic import JudgePolicy
    from ..judge.session import JudgeSession

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
        own = [one.sample for one in read_samples(self.samples)]
        paths: dict[str, str] = {}  # of outputs that differ from the others in having a ranking

        def parsed_outputs() -> Iterator[ParsedOutput]:
            for file, some in outputs_by_file(self.outputs):
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

    def __repr__(self) -> str:
        more = ", ..." if len(self._first) < self._count else ""
        return f"<{self._count} ids: {', '.join(map(repr, self._first))}{more}>"


@dataclass(frozen=True, slots=True)
class ShardedInput:
    """Samples and outputs as sources, with their totals and warnings."""

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
        output_index, output_ids = samples.as_outputs(), ids
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
    runs = zip(
        samples.ranges_between(bounds),
        output_index.ranges_between(bounds) if join.in_order else output_index.ranges_of(join.of_batches(bounds)),
        strict=True,
    )
    return ShardedInput(
        sources=[FileSource(own.count, own, theirs, answers_only) for own, theirs in runs],
        total=samples.total,
        bytes=sum(one.size for one in dict.fromkeys([*sample_files, *output_files])),
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
        for one in read_outputs(runs):
            if one.output is not None and one.output.error is None:
                return not one.has_retrieved
    return False


def _fingerprint(samples: Sequence[InputFile], outputs: Sequence[InputFile], batch_size: int) -> str:
    facts = [[(one.path, one.format, one.size, one.mtime) for one in side] for side in (samples, outputs)]
    return hashlib.sha256(json.dumps([facts, batch_size]).encode("utf-8", "surrogateescape")).hexdigest()


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
    for one in found:
        if isinstance(one, AueporaError):
            raise one
        yield one


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
    """
    rules = Conventions.of(conventions)
    chosen = resolve_metrics(metrics, rules)
    with make_executor(executor, workers, address) as scoring:
        split = partial(
            sharded_input,
            dataset,
            outputs,
            dataset_format=dataset_format,
            outputs_format=outputs_format,
            batch_size=batch_size,
            mapper=make_mapper(scoring),
        )
        found = split(chosen)
        if not chosen:
            batches = (source.read() for source in found.sources)
            chosen = supported_metrics(batches, rules, answers_only=found.answers_only)
            found = split(chosen)
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
            batch_size=batch_size,
            named=(dataset, outputs),
            keep_scores=keep_scores,
            judging=judging,
            progress=progress,
        )


def sharded_input(
    dataset: InputPaths,
    outputs: InputPaths | None,
    metrics: Sequence[Metric],
    dataset_format: str | None = None,
    outputs_format: str | None = None,
    *,
    batch_size: int = BATCH_SIZE,
    mapper: Mapper = map,
) -> ShardedInput:
    """The files as sources for these metrics; those that cannot be computed from them are refused."""
    for one in metrics:
        if not isinstance(one, BatchMetric):
            raise MetricDefinitionError(
                f"metric '{one.name}' implements only 'compute', which needs all samples at once; score one file with "
                "the serial executor, or write it as a SampleMetric"
            )
    found = sharded_sources(
        dataset,
        outputs,
        dataset_format=dataset_format,
        outputs_format=outputs_format,
        batch_size=batch_size,
        mapper=mapper,
    )
    if found.answers_only:
        require_retrieved(metrics, _format_paths(dataset if outputs is None else outputs))
    return found


def evaluate_sharded(
    found: ShardedInput,
    metrics: Sequence[Metric],
    *,
    executor: Executor,
    conventions: Conventions,
    slices: Iterable[SliceSpec] | SliceSpec = (),
    parts: str | Path | None = None,
    unit_size: int | None = None,
    batch_size: int = BATCH_SIZE,
    named: tuple[InputPaths, InputPaths | None] = ("", None),
    keep_scores: bool = True,
    judging: JudgeSession | JudgePolicy | None = None,
    progress: Progress | None = None,
    on_checkpoint: Callable[[CheckpointExecutor], None] | None = None,
) -> Results:
    """Score the files of ``sharded_input``; ``on_checkpoint`` gets the executor that counts what is already scored."""
    groups = parse_slices(slices)
    scoring = executor
    if parts is not None:
        policy: Any = getattr(judging, "policy", judging)
        if policy is not None and policy.controls:
            raise BadValueError(
                "control items need all samples in one pass, and a checkpoint leaves finished ones out; score without "
                "the checkpoint folder, or without controls"
            )
        manifest = _manifest(found, metrics, groups, conventions, named, batch_size, unit_size)
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
        )
    finally:
        close_streams()


def _manifest(
    found: ShardedInput,
    metrics: Sequence[Metric],
    slices: Sequence[Slice],
    conventions: Conventions,
    named: tuple[InputPaths, InputPaths | None],
    batch_size: int,
    unit_size: PositiveInt | None,
) -> Manifest:
    check_options(_manifest, {"unit_size": unit_size})
    if unit_size is None:
        unit_size = max(batch_size, min(UNIT_SIZE, found.total // _UNITS))
        if any(isinstance(one, BatchMetric) and is_judged(one) for one in metrics):
            unit_size = batch_size  # judgements that are lost with a unit were paid for
    facts: dict[str, Any] = {
        "dataset": _format_paths(named[0]),
        "outputs": None if named[1] is None else _format_paths(named[1]),
        "samples": found.total,
        "bytes": found.bytes,
        "formats": list(found.formats),
        "batch_size": batch_size,
        "fingerprint": found.fingerprint,
    }
    return manifest_for(
        [one.size for one in found.sources],
        [one for one in metrics if isinstance(one, BatchMetric)],
        slices,
        conventions=conventions,
        input_facts=facts,
        unit_size=unit_size,
    )


def _format_paths(given: InputPaths) -> str:
    return str(given) if isinstance(given, (str, Path)) else ", ".join(map(str, given))
