"""Scoring of many files for ``auepora score``: directories and globs, split into ranges that workers read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from .console import echo_err

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.metrics_base import Metric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..judge.preview import Preview
    from ..planfile.planned_judges import PlannedJudges
    from ..pooling.judged_coverage import JudgedCoverage
    from ..scale.checkpoint import CheckpointExecutor
    from ..scale.record_index import Mapper
    from ..scale.shards import ShardedInput
    from .executors import ExecutorChoice

__all__ = ["ShardedFiles", "preview_shards", "score_shards", "wants_shards"]

CHECKED_SAMPLES = 1000
"""Number of samples read again for data warnings."""


@dataclass(frozen=True, slots=True)
class ShardedFiles:
    """A dataset and its outputs in many files, their formats, and the checkpoint folder."""

    dataset: str
    outputs: str | None
    sample_format: str | None
    outputs_format: str | None
    batch_size: int
    parts: str | None = None

    def split_for(self, metrics: Sequence[Metric], mapper: Mapper = map) -> ShardedInput:
        """Split the files into ranges for these metrics."""
        from ..reporting.progress import progress
        from ..scale.sharded import sharded_input

        with progress(f"looking through {self.dataset}"):
            return sharded_input(
                self.dataset,
                self.outputs,
                metrics,
                self.sample_format,
                self.outputs_format,
                batch_size=self.batch_size,
                mapper=mapper,
            )


def wants_shards(
    dataset: str,
    outputs: str | None,
    formats: tuple[str | None, str | None],
    executor: str | None,
    parts: str | None,
    corpus: bool,
) -> bool:
    """Whether to read these files in ranges: if there are many, with a checkpoint, or with Ray workers."""
    from ..scale.inputs import can_be_split, is_sharded

    sample_format, outputs_format = formats

    paths = [one for one in (dataset, outputs) if one is not None]
    many = [one for one in paths if is_sharded(one) and not _is_one_dataset(one, sample_format)]
    if (many or parts is not None) and corpus:
        raise click.UsageError("--corpus goes with one DATASET file and one of OUTPUTS, and without --parts")
    if many or parts is not None:
        return True
    if executor != "ray" or corpus:
        return False
    # A file that cannot be split is read here and sent in batches.
    return can_be_split(dataset, "samples", sample_format) and (
        outputs is None or can_be_split(outputs, "outputs", outputs_format)
    )


def _is_one_dataset(path: str, sample_format: str | None) -> bool:
    """Whether a directory is one dataset, such as a BEIR folder, and not many files."""
    from pathlib import Path

    from ..core.errors import DataFileError
    from ..io.formats import guess_format
    from ..scale.inputs import SPLIT_FORMATS

    if sample_format is not None:
        return sample_format not in SPLIT_FORMATS
    try:
        return Path(path).is_dir() and guess_format(Path(path), "samples").name not in SPLIT_FORMATS
    except DataFileError:
        return False


def score_shards(
    files: ShardedFiles,
    metrics: Sequence[Spec],
    conventions: Conventions,
    executor: ExecutorChoice,
    slices: Sequence[str],
    *,
    lean: bool = False,
    judges: PlannedJudges | None = None,
) -> Results:
    """Score the files; without ``metrics``, compute all that the data supports."""
    from ..core.mass_failures import mass_failure
    from ..core.slices import parse_slices
    from ..scale.range_mapper import make_mapper
    from ..scale.sharded import evaluate_sharded
    from .data_warnings import warn_unmatched_ids
    from .judge_options import ScoringProgress, attach_usage, make_judge_session
    from .score_files import metrics_with_judges

    chosen = metrics_with_judges(metrics, conventions, judges)
    groups = parse_slices(list(dict.fromkeys(slices)))
    opened: list[CheckpointExecutor] = []
    with executor.open_executor() as scoring, ScoringProgress() as line:
        mapper = make_mapper(scoring)
        found = files.split_for(chosen, mapper)
        _echo_formats(files, found)
        if not chosen:
            chosen = _supported_metrics(files, found, conventions)
            found = files.split_for(chosen, mapper)
        session = None if judges is None else make_judge_session(judges, line)
        coverage = _judged_coverage(files, found, chosen)
        results = evaluate_sharded(
            found,
            chosen if coverage is None else [*chosen, *coverage.metrics],
            line.counting_executor(scoring),
            conventions=conventions,
            slices=groups,
            parts=files.parts,
            batch_size=files.batch_size,
            named=(files.dataset, files.outputs),
            keep_scores=not lean,
            judging=session,
            progress=line.start_scoring(found.total),
            on_checkpoint=opened.append,
        )
    if coverage is not None:
        results = coverage.annotate(results)
    _add_data_warnings(found, chosen, results)
    if session is not None:
        attach_usage(results, session)
    for one in opened:
        if one.read:
            echo_err(f"{one.read:,} of {found.total:,} samples were read from the checkpoint {files.parts}")
    warn_unmatched_ids(found.missing, found.unknown, total=found.total, conventions=conventions)
    outputs = (output for source in found.sources for output in source.read()[1])
    results.failure = mass_failure(results, (one.error for one in outputs if one is not None and one.error is not None))
    return results


def _add_data_warnings(found: ShardedInput, metrics: Sequence[Metric], results: Results) -> None:
    """Add data warnings to the results, from the first samples."""
    from ..core.data_checks import DataCheck

    check, seen = DataCheck(), 0
    for source in found.sources:
        samples, outputs = source.read()
        check.add(samples, outputs)
        seen += len(samples)
        if seen >= CHECKED_SAMPLES:
            break
    check.finish(metrics, results)


def _judged_coverage(files: ShardedFiles, found: ShardedInput, metrics: Sequence[Metric]) -> JudgedCoverage | None:
    """The coverage of judged documents, if gold has provenance; as for single files."""
    from ..io.grades import provenance_path
    from ..pooling.judged_coverage import JudgedCoverage, has_gold_provenance
    from ..scale.record_index import read_samples
    from .score_files import PROBE_SAMPLES

    if found.formats[0] != "jsonl":
        return JudgedCoverage(metrics) if provenance_path(files.dataset).exists() else None
    runs = chain.from_iterable(source.samples for source in found.sources)
    first = islice((one.sample for run in runs for one in read_samples([run])), PROBE_SAMPLES)
    return JudgedCoverage(metrics) if has_gold_provenance(first) else None


def _echo_formats(files: ShardedFiles, found: ShardedInput) -> None:
    from ..io.formats import get_format

    named = (files.dataset, files.sample_format), (files.outputs, files.outputs_format)
    for (path, format_name), kind in zip(named, found.formats, strict=True):
        if path is not None and format_name is None and kind != "jsonl":
            echo_err(f"reading {path} as {kind} ({get_format(kind).title})")


def preview_shards(
    files: ShardedFiles, metrics: Sequence[Spec], conventions: Conventions, judges: PlannedJudges | None
) -> Preview:
    """Estimate the judge calls and cost for the files."""
    from ..judge.policy import JudgePolicy
    from ..judge.preview import preview
    from .judge_options import judge_policy
    from .score_files import metrics_with_judges

    chosen = metrics_with_judges(metrics, conventions, judges, need_key=False)
    samples: list[Any] = []
    outputs: list[Any] = []
    for source in files.split_for(chosen).sources:
        own, theirs = source.read()
        samples += own
        outputs += theirs
    return preview(samples, outputs, chosen, JudgePolicy() if judges is None else judge_policy(judges))


def _supported_metrics(files: ShardedFiles, found: ShardedInput, conventions: Conventions) -> list[Metric]:
    from ..reporting.progress import progress
    from ..scale.sharded import supported_metrics

    with progress(f"looking through {files.dataset}", found.total, rate=True) as advance:
        return supported_metrics(found, conventions, advance)
