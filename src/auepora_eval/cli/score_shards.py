"""Scoring many files for ``auepora score``: directories and globs, split into ranges that whoever scores them reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from .saying import say

if TYPE_CHECKING:
    from ..core.conventions import Conventions
    from ..core.metrics_base import Metric
    from ..core.registry import Spec
    from ..core.results import Results
    from ..judge.preview import Preview
    from ..planfile.planned_judges import PlannedJudges
    from ..pooling.beside import JudgedBeside
    from ..scale.resuming import PartsExecutor
    from ..scale.shards import ShardedInput
    from ..scale.sides import Mapper
    from .executors import ExecutorChoice

__all__ = ["ShardedFiles", "preview_shards", "score_shards", "wants_shards"]

CHECKED = 1000
"""So many samples are read once more to see whether their data is suspicious."""


@dataclass(frozen=True, slots=True)
class ShardedFiles:
    """A dataset and its outputs in many files, how they are written down, and where scores go."""

    dataset: str
    outputs: str | None
    sample_format: str | None
    outputs_format: str | None
    batch_size: int
    parts: str | None = None

    def found(self, metrics: Sequence[Metric], mapper: Mapper = map) -> ShardedInput:
        """The files, split for these metrics."""
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
    """Whether these files are read in ranges: where there are many, and where others read them or parts are kept."""
    from ..scale.inputs import can_be_split, is_sharded

    sample_format, outputs_format = formats

    given = [one for one in (dataset, outputs) if one is not None]
    many = [one for one in given if is_sharded(one) and not _is_one_dataset(one, sample_format)]
    if (many or parts is not None) and corpus:
        raise click.UsageError("--corpus goes with one DATASET file and one of OUTPUTS, and without --parts")
    if many or parts is not None:
        return True
    if executor != "ray" or corpus:
        return False
    # What has no ranges is read here and travels in batches.
    return can_be_split(dataset, "samples", sample_format) and (
        outputs is None or can_be_split(outputs, "outputs", outputs_format)
    )


def _is_one_dataset(path: str, sample_format: str | None) -> bool:
    """Whether a directory is not many files but one dataset, as BEIR's are."""
    from pathlib import Path

    from ..core.errors import DataFileError
    from ..io.formats import guess_format
    from ..scale.inputs import SPLIT

    if sample_format is not None:
        return sample_format not in SPLIT
    try:
        return Path(path).is_dir() and guess_format(Path(path), "samples").name not in SPLIT
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
    """Score what is in the files; without ``metrics``, by all that it supports."""
    from ..core.mass_failures import mass_failure
    from ..core.slices import slices_of
    from ..scale.mapping import mapper_of
    from ..scale.sharded import evaluate_sharded
    from .judging import ScoringLine, session_of, told_usage
    from .remarks import warn_of_strays
    from .score_files import chosen_metrics

    chosen = chosen_metrics(metrics, conventions, judges)
    wanted = slices_of(list(dict.fromkeys(slices)))
    opened: list[PartsExecutor] = []
    with executor.opened() as scoring, ScoringLine() as line:
        mapper = mapper_of(scoring)
        found = files.found(chosen, mapper)
        _tell_formats(files, found)
        if not chosen:
            chosen = _supported(files, found, conventions)
            found = files.found(chosen, mapper)
        session = None if judges is None else session_of(judges, line)
        beside = _judged_beside(files, found, chosen)
        results = evaluate_sharded(
            found,
            chosen if beside is None else [*chosen, *beside.metrics],
            line.watched(scoring),
            conventions=conventions,
            slices=wanted,
            parts=files.parts,
            batch_size=files.batch_size,
            named=(files.dataset, files.outputs),
            keep_scores=not lean,
            judging=session,
            progress=line.scoring(found.total),
            told=opened.append,
        )
    if beside is not None:
        results = beside.noted(results)
    _check(found, chosen, results)
    if session is not None:
        told_usage(results, session)
    for one in opened:
        if one.read:
            say(f"{one.read:,} of {found.total:,} samples were scored before: {files.parts} had their scores")
    warn_of_strays(found.missing, found.unknown, total=found.total, conventions=conventions)
    outputs = (output for source in found.sources for output in source.read()[1])
    results.failure = mass_failure(results, (one.error for one in outputs if one is not None and one.error is not None))
    return results


def _check(found: ShardedInput, metrics: Sequence[Metric], results: Results) -> None:
    """Put into the results what is suspicious; of the data, only its beginning is read here."""
    from ..core.data_checks import DataCheck

    check, seen = DataCheck(), 0
    for source in found.sources:
        samples, outputs = source.read()
        check.add(samples, outputs)
        seen += len(samples)
        if seen >= CHECKED:
            break
    check.finish(metrics, results)


def _judged_beside(files: ShardedFiles, found: ShardedInput, metrics: Sequence[Metric]) -> JudgedBeside | None:
    """What tells how much of the results was judged, where the gold says who gave it; as for files read whole."""
    from ..io.grades import provenance_path
    from ..pooling.beside import JudgedBeside, gold_is_marked
    from ..scale.sides import read_samples
    from .score_files import GLANCED_AT

    if found.formats[0] != "jsonl":
        return JudgedBeside(metrics) if provenance_path(files.dataset).exists() else None
    runs = chain.from_iterable(source.samples for source in found.sources)
    first = islice((one.sample for run in runs for one in read_samples([run])), GLANCED_AT)
    return JudgedBeside(metrics) if gold_is_marked(first) else None


def _tell_formats(files: ShardedFiles, found: ShardedInput) -> None:
    from ..io.formats import format_named

    named = (files.dataset, files.sample_format), (files.outputs, files.outputs_format)
    for (path, format_name), kind in zip(named, found.formats, strict=True):
        if path is not None and format_name is None and kind != "jsonl":
            say(f"reading {path} as {kind} ({format_named(kind).title})")


def preview_shards(
    files: ShardedFiles, metrics: Sequence[Spec], conventions: Conventions, judges: PlannedJudges | None
) -> Preview:
    """What judging what is in the files would take."""
    from ..judge.policy import JudgePolicy
    from ..judge.preview import preview
    from .judging import policy_of
    from .score_files import chosen_metrics

    chosen = chosen_metrics(metrics, conventions, judges, need_key=False)
    samples: list[Any] = []
    outputs: list[Any] = []
    for source in files.found(chosen).sources:
        own, theirs = source.read()
        samples += own
        outputs += theirs
    return preview(samples, outputs, chosen, JudgePolicy() if judges is None else policy_of(judges))


def _supported(files: ShardedFiles, found: ShardedInput, conventions: Conventions) -> list[Metric]:
    from ..reporting.progress import progress
    from ..scale.sharded import supported_metrics

    with progress(f"looking through {files.dataset}", found.total, rate=True) as advance:
        return supported_metrics(found, conventions, advance)
