"""Saved outputs in many files, scored in ranges that workers read, with an optional checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

from ..core.conventions import Match
from ..core.metrics_base import Metric
from ..core.results import Results
from ..core.types import EvaluationSample, SystemOutputs
from ..engine.data_checks import DataCheck
from ..engine.executors import BatchSource
from ..engine.gold_match import Pair
from ..engine.suggest import require_retrieved
from ..errors import DataFileError
from ..io.formats import SPLIT_FORMATS, guess_format, is_sharded
from ..io.score_inputs import DataFile, NoteFormat, ScoreInput, has_provenance_file, is_graded
from ..render.terminal import progress
from .checkpoint import CheckpointExecutor, Manifest
from .inputs import can_be_split
from .sharded import (
    ShardedInput,
    evaluate_sharded,
    make_mapper,
    read_samples,
    require_batch_metrics,
    sharded_sources,
)

CHECKED_SAMPLES = 1000
"""Number of samples that are read again for data warnings."""


class ShardInput(ScoreInput):
    """A dataset and its outputs in many files, which workers read in ranges."""

    sharded: ShardedInput

    def __init__(
        self,
        dataset: DataFile,
        outputs: DataFile | None = None,
        *,
        parts: str | None = None,
        note: NoteFormat | None = None,
    ) -> None:
        """``parts`` is the folder of a checkpoint."""
        self.parts, self._note = parts, note
        self._files = [dataset] if outputs is None else [dataset, outputs]
        self._dataset = dataset.path
        self._outputs = None if outputs is None else outputs.path

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Split the files into ranges for the metrics."""
        require_batch_metrics(metrics)
        with progress(f"looking through {self._dataset}"):
            self.sharded = sharded_sources(
                self._dataset,
                self._outputs,
                dataset_format=self._files[0].format,
                outputs_format=self._files[-1].format,
                batch_size=self.options.batch_size,
                mapper=make_mapper(self.executor),
            )
        self.total, self.missing, self.unknown = self.sharded.total, self.sharded.missing, self.sharded.unknown
        for file, name in zip(self._files, self.sharded.formats, strict=False):
            if file.format is None and self._note is not None:
                self._note(file.path, name)
        if self.sharded.answers_only:
            require_retrieved(metrics, self.sharded.outputs)
        else:
            metrics = self.match_gold(metrics, self._pairs(self.sharded.sources), stored=self._stored_match())
        if not metrics or self.options.targets:
            with progress(f"looking through {self._dataset}", self.total, rate=True) as advance:
                metrics = self.with_supported(
                    metrics, self.batches(), answers_only=self.sharded.answers_only, advance=advance
                )
        return metrics

    def _stored_match(self) -> Match | None:
        """How the evaluation that the checkpoint folder holds matches gold, where ``auto`` has decided it."""
        if self.parts is None or self.options.match != "auto":
            return None
        manifest = Manifest.load(Path(self.parts))
        return None if manifest is None else cast("Match", manifest.conventions.get("match", "id"))

    def _pairs(self, sources: Iterable[BatchSource]) -> Iterator[Pair]:
        for source in sources:
            yield from zip(*source.read(), strict=True)

    def has_provenance(self) -> bool:
        """Whether gold has provenance."""
        if self.sharded.formats[0] != "jsonl":
            return has_provenance_file(self._dataset)
        runs = chain.from_iterable(source.samples for source in self.sharded.sources)
        return is_graded(chain.from_iterable(read_samples([run]) for run in runs))

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the ranges, with a checkpoint if there is a folder for one."""
        checkpoints: list[CheckpointExecutor] = []
        results = evaluate_sharded(
            self.sharded,
            metrics,
            conventions=self.options.conventions,
            parts=self.parts,
            on_checkpoint=checkpoints.append,
            gold=self.gold,
            **common,
        )
        self.resumed = sum(checkpoint.read for checkpoint in checkpoints)
        return results

    def batches(self) -> Iterator[tuple[Sequence[EvaluationSample], Sequence[SystemOutputs | None]]]:
        """Read the ranges."""
        return (source.read() for source in self.sharded.sources)

    def add_warnings(self, metrics: Sequence[Metric], results: Results) -> None:
        """Add data warnings from the first samples, since workers read them."""
        check, seen = DataCheck(), 0
        for samples, outputs in self.batches():
            check.add(samples, outputs)
            seen += len(samples)
            if seen >= CHECKED_SAMPLES:
                break
        check.finish(metrics, results)


def are_many(files: Iterable[DataFile]) -> bool:
    """Whether a path names many files: a glob, or a directory that is no dataset, as a BEIR folder is one."""
    return any(is_sharded(file.path) and not _is_one_dataset(file) for file in files)


def _is_one_dataset(file: DataFile) -> bool:
    if file.format is not None:
        return file.format not in SPLIT_FORMATS
    try:
        return Path(file.path).is_dir() and guess_format(Path(file.path), "samples").name not in SPLIT_FORMATS
    except DataFileError:
        return False


def can_split(dataset: DataFile, outputs: DataFile | None) -> bool:
    """Whether single files have formats that can be split into ranges."""
    is_splittable = can_be_split(dataset.path, "samples", dataset.format)
    return is_splittable and (outputs is None or can_be_split(outputs.path, "outputs", outputs.format))
