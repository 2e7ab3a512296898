"""What ``auepora score`` reads from many files: ranges that workers read, with an optional checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from ..core.conventions import Match
from ..core.metrics_base import Metric
from ..core.results import Results
from ..core.types import GOLD_BY, EvaluationSample, SystemOutputs
from ..engine.data_checks import DataCheck
from ..engine.executors import BatchSource
from ..engine.gold_match import Pair
from ..render.terminal import progress
from ..scale.checkpoint import CheckpointExecutor, Manifest
from ..scale.sharded import ShardedInput, evaluate_sharded, make_mapper, read_samples, sharded_input
from .console import echo_err
from .score_inputs import PROBE_SAMPLES, ScoreInput, has_provenance_file, note_format

CHECKED_SAMPLES = 1000
"""Number of samples that are read again for data warnings."""


class ShardInput(ScoreInput):
    """A dataset and its outputs in many files, which workers read in ranges."""

    sharded: ShardedInput

    def __init__(
        self,
        dataset: str,
        outputs: str | None,
        sample_format: str | None,
        outputs_format: str | None,
        parts: str | None,
    ) -> None:
        self.dataset, self.outputs = dataset, outputs
        self.sample_format, self.outputs_format = sample_format, outputs_format
        self.parts = parts

    def prepare(self, metrics: list[Metric]) -> list[Metric]:
        """Split the files into ranges for the metrics."""
        self._split(metrics)
        note_format(self.dataset, self.sample_format, self.sharded.formats[0])
        note_format(self.outputs, self.outputs_format, self.sharded.formats[1])
        if not self.sharded.answers_only:
            metrics = self.match_gold(metrics, self._pairs(self.sharded.sources), stored=self._stored_match())
        if not metrics or self.options.targets:
            with progress(f"looking through {self.dataset}", self.total, rate=True) as advance:
                metrics = self.with_supported(
                    metrics, self.batches(), answers_only=self.sharded.answers_only, advance=advance
                )
            self._split(metrics)
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

    def _split(self, metrics: Sequence[Metric]) -> None:
        with progress(f"looking through {self.dataset}"):
            self.sharded = sharded_input(
                self.dataset,
                self.outputs,
                metrics,
                self.sample_format,
                self.outputs_format,
                batch_size=self.options.batch_size,
                mapper=make_mapper(self.executor),
            )
        self.total, self.missing, self.unknown = self.sharded.total, self.sharded.missing, self.sharded.unknown

    def has_provenance(self) -> bool:
        """Whether gold has provenance."""
        if self.sharded.formats[0] != "jsonl":
            return has_provenance_file(self.dataset)
        runs = chain.from_iterable(source.samples for source in self.sharded.sources)
        first = islice((sample.sample for run in runs for sample in read_samples([run])), PROBE_SAMPLES)
        return any(GOLD_BY in sample.metadata for sample in first)

    def evaluate(self, metrics: list[Metric], **common: Any) -> Results:
        """Evaluate the ranges, with a checkpoint if there is a folder for one."""
        opened: list[CheckpointExecutor] = []
        results = evaluate_sharded(
            self.sharded,
            metrics,
            conventions=self.options.conventions,
            parts=self.parts,
            batch_size=self.options.batch_size,
            named=(self.dataset, self.outputs),
            on_checkpoint=opened.append,
            gold=self.gold,
            **common,
        )
        for checkpoint in opened:
            if checkpoint.read:
                echo_err(f"{checkpoint.read:,} of {self.total:,} samples were read from the checkpoint {self.parts}")
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
