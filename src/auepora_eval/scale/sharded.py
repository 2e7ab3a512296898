"""Evaluation of files of any number and size: split into ranges, scored by an executor, with an optional checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.conventions import Conventions
from ..core.engine import BATCH_SIZE, Metrics, Progress, evaluate_sources, resolve_metrics
from ..core.errors import AueporaWarning, BadValueError, MetricDefinitionError
from ..core.executors import Executor, ExecutorName, make_executor
from ..core.judged_metric import judged_parts
from ..core.metrics_base import BatchMetric, Metric
from ..core.results import Results
from ..core.slices import Slice, SliceSpec, parse_slices
from ..core.suggest import AvailableFields, metrics_needing_retrieved, require_retrieved
from ..judge.executor import with_judges
from .checkpoint import CheckpointExecutor, open_checkpoint
from .compressed_streams import close_streams
from .manifest import Manifest, manifest_for
from .range_mapper import make_mapper
from .record_index import Mapper
from .shards import InputPaths, ShardedInput, needs_parents, sharded_sources

if TYPE_CHECKING:
    from ..judge.policy import JudgePolicy
    from ..judge.session import JudgeSession

__all__ = ["evaluate_files", "evaluate_sharded", "sharded_input", "supported_metrics"]

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
            chosen = supported_metrics(found, rules)
            found = split(chosen)
        for message in found.warnings(rules):
            warnings.warn(message, AueporaWarning, stacklevel=2)
        return evaluate_sharded(
            found,
            chosen,
            scoring,
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
        bases=needs_parents(metrics),
        mapper=mapper,
    )
    if found.answers_only:
        require_retrieved(metrics, _format_paths(dataset if outputs is None else outputs))
    return found


def supported_metrics(found: ShardedInput, conventions: Conventions, progress: Progress | None = None) -> list[Metric]:
    """All metrics that the data supports; everything is read for it."""
    seen = AvailableFields()
    for source in found.sources:
        samples, outputs = source.read()
        seen.add(samples, outputs)
        if progress is not None:
            progress(len(samples))
    chosen = resolve_metrics(seen.specs(conventions), conventions)
    blind = metrics_needing_retrieved(chosen) if found.answers_only else ()
    return [one for one in chosen if one.name not in blind]


def evaluate_sharded(
    found: ShardedInput,
    metrics: Sequence[Metric],
    executor: Executor,
    *,
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
        manifest = _manifest(found, metrics, groups, conventions, named, batch_size, unit_size)
        folder = Path(parts)
        behind = with_judges(executor, metrics, judging)
        scoring = CheckpointExecutor(
            behind, folder, open_checkpoint(folder, manifest), by_workers=not _scores_in_this_process(metrics)
        )
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
            joined=found.joined,
            judging=judging,
            progress=progress,
        )
    finally:
        close_streams()


def _scores_in_this_process(metrics: Sequence[Metric]) -> bool:
    """Whether the scores of a unit come from several processes: judges run in this one, models in actors."""
    return any(isinstance(one, BatchMetric) and (one.asks_models or any(judged_parts(one))) for one in metrics)


def _manifest(
    found: ShardedInput,
    metrics: Sequence[Metric],
    slices: Sequence[Slice],
    conventions: Conventions,
    named: tuple[InputPaths, InputPaths | None],
    batch_size: int,
    unit_size: int | None,
) -> Manifest:
    if unit_size is not None and (isinstance(unit_size, bool) or not isinstance(unit_size, int) or unit_size < 1):
        raise BadValueError(f"unit_size must be an integer >= 1, not {unit_size!r}")
    if unit_size is None:
        unit_size = max(batch_size, min(UNIT_SIZE, found.total // _UNITS))
        if any(isinstance(one, BatchMetric) and any(judged_parts(one)) for one in metrics):
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
        joined=found.joined,
        unit_size=unit_size,
    )


def _format_paths(given: InputPaths) -> str:
    return str(given) if isinstance(given, (str, Path)) else ", ".join(map(str, given))
