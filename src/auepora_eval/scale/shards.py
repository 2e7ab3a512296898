"""Sharded input: files, directories and globs of JSONL or Parquet as many small sources that can be read anywhere.

Files are scanned once for the offsets of records, and once for ids; both passes decode nothing else. Then each source
is a list of ranges that the worker reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from ..core.conventions import Conventions
from ..core.engine import BATCH_SIZE, check_batch_size
from ..core.errors import BadValueError, DataFileError
from ..core.judged_metric import pairs_in_worker
from ..core.metrics_base import BatchMetric, Metric
from ..core.types import EvaluationSample, SystemOutputs
from ..io.align import MAX_NAMED_IDS, unmatched_warnings
from ..io.formats import get_format
from ..io.reader_types import MISSING_RETRIEVED
from .inputs import InputFile, RecordRanges, input_files, total_bytes
from .record_index import Mapper, RecordIndex, Rows, outputs_by_file, read_outputs, read_samples
from .sample_join import SampleOutputJoin, bases_per_batch, join_by_id

__all__ = ["CountedIds", "FileSource", "ShardedInput", "needs_parents", "sharded_sources"]

InputPaths = str | Path | Sequence[str | Path]
_NO_RANGES = RecordRanges()
_NOW_RANKED = "field 'retrieved' is there, and not on the lines before: write it on all of them"


@dataclass(frozen=True, slots=True)
class FileSource:
    """A batch as ranges of files: its samples and their outputs."""

    size: int
    samples: RecordRanges
    outputs: RecordRanges
    answers_only: bool = False
    """Whether outputs have no rankings; either all or none must have one."""
    bases: RecordRanges = _NO_RANGES
    """The samples that its own are variants of, and the outputs of those."""
    base_outputs: RecordRanges = _NO_RANGES

    def read(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """The samples and their outputs, aligned by their ids."""
        return self._aligned(self.samples, self.outputs)

    def read_parents(self) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        """The bases of its variants, and theirs, with their outputs."""
        return self._aligned(self.bases, self.base_outputs)

    def _aligned(
        self, samples: RecordRanges, outputs: RecordRanges
    ) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
        made = [one.sample for one in read_samples(samples)]
        by_id: dict[str, SystemOutputs] = {}
        odd: dict[str, DataFileError] = {}
        for file, read in outputs_by_file(outputs):
            for line, sample_id, output, has_retrieved in read:
                if output is None:
                    continue
                by_id[sample_id] = output
                if has_retrieved is self.answers_only and output.error is None:
                    message = _NOW_RANKED if has_retrieved else MISSING_RETRIEVED
                    odd[sample_id] = DataFileError(file.path, line, message)
        for sample in made if odd else ():
            if sample.sample_id in odd:
                raise odd[sample.sample_id]
        return made, [by_id.get(sample.sample_id) for sample in made]


class CountedIds(Sequence[str]):
    """A sequence of ids of which only the first are known and the others counted."""

    def __init__(self, count: int, first: Sequence[str]) -> None:
        self._count = count
        self._first = first

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
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
    joined: bool
    """Whether sources bring the bases of their variants, for ``evaluate_sources(..., joined=True)``."""
    missing: CountedIds = field(default_factory=lambda: CountedIds(0, ()))
    """Samples without an output."""
    unknown: CountedIds = field(default_factory=lambda: CountedIds(0, ()))
    """Outputs without a sample, which no source reads."""

    def warnings(self, conventions: str | Conventions = "auepora") -> list[str]:
        """Warnings about samples without an output and outputs without a sample."""
        return unmatched_warnings(self.missing, self.unknown, total=self.total, conventions=Conventions.of(conventions))


def needs_parents(metrics: Iterable[Metric]) -> bool:
    """Whether any of these metrics pairs variants with their bases on the worker."""
    return any(isinstance(one, BatchMetric) and pairs_in_worker(one) for one in metrics)


def sharded_sources(
    dataset: InputPaths,
    outputs: InputPaths | None = None,
    *,
    dataset_format: str | None = None,
    outputs_format: str | None = None,
    batch_size: int = BATCH_SIZE,
    bases: bool = False,
    mapper: Mapper = map,
) -> ShardedInput:
    """Split samples and their outputs into sources of about ``batch_size`` samples, in the order of the files.

    Each is a file, a directory or a glob of JSONL (plain, ``.gz`` or ``.zst``) or Parquet files, or several of these;
    files are in natural order (part-2 before part-10), and samples in the order of the files. Without ``outputs`` the
    dataset must be in a format that keeps both in one record. With ``bases`` each source includes the bases of its
    variants, for metrics that pair them (``needs_parents``). ``mapper`` runs the pass over ids: it calls a function for
    each of many ranges, as ``map`` or the ``map`` of a pool of processes does.
    """
    size = check_batch_size(batch_size)
    sample_files = input_files(dataset, "samples", dataset_format)
    if outputs is None and not get_format(sample_files[0].format).one_file:
        raise BadValueError(f"{sample_files[0].path} holds samples alone; name their outputs, too")
    output_files = sample_files if outputs is None else input_files(outputs, "outputs", outputs_format)

    samples = RecordIndex(sample_files, "samples", size)
    bounds = samples.batches()
    ids = samples.ids(mapper, families=bases)
    collisions = len(samples.require_distinct(ids))
    if outputs is None:
        output_index, output_ids = samples.as_outputs(), ids
    else:
        output_index = RecordIndex(output_files, "outputs", size, cuts=bounds)
        output_ids = output_index.ids(mapper)
        collisions += len(output_index.require_distinct(output_ids))
    join = join_by_id(ids, output_ids, sure=not collisions)
    missing, unknown = _count_ids(samples, join.missing), _count_ids(output_index, join.unknown)
    _require_common_id(samples.total, missing, unknown, output_files[0])
    answers_only = _answers_only(output_index)
    base_rows = bases_per_batch(ids, bounds) if bases else []
    runs = zip(
        samples.ranges_between(bounds),
        output_index.ranges_between(bounds) if join.in_order else output_index.ranges_of(join.of_batches(bounds)),
        *_base_ranges(samples, output_index, join, base_rows, len(bounds) - 1),
        strict=True,
    )
    return ShardedInput(
        sources=[
            FileSource(own.count, own, theirs, answers_only, base, base_outputs)
            for own, theirs, base, base_outputs in runs
        ],
        total=samples.total,
        bytes=total_bytes([*sample_files, *output_files]),
        fingerprint=_fingerprint(sample_files, output_files, size),
        formats=(sample_files[0].format, output_files[0].format),
        answers_only=answers_only,
        joined=bases,
        missing=missing,
        unknown=unknown,
    )


def _base_ranges(
    samples: RecordIndex, answers: RecordIndex, join: SampleOutputJoin, base_rows: Sequence[Rows], count: int
) -> tuple[list[RecordRanges], list[RecordRanges]]:
    if not any(len(one) for one in base_rows):
        return [_NO_RANGES] * count, [_NO_RANGES] * count
    return samples.ranges_of(base_rows), answers.ranges_of([join.of_samples(one) for one in base_rows])


def _count_ids(side: RecordIndex, rows: Rows) -> CountedIds:
    return CountedIds(len(rows), [name for _, _, name in side.names(rows[:MAX_NAMED_IDS])])


def _require_common_id(total: int, missing: CountedIds, unknown: CountedIds, outputs: InputFile) -> None:
    if len(missing) < total:
        return
    if not unknown:
        raise DataFileError(outputs.path, None, "there is no output in it")
    raise BadValueError(
        f"no sample and output share an id: the first sample is {missing[0]!r}, the first output {unknown[0]!r}; do "
        "the two belong together?"
    )


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
