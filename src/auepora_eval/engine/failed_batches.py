"""Batches that no worker could score: their samples become failed measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.batch import Batch
from ..core.family import FamilyMetric, with_family_keys
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores, Status
from ..core.slices import BatchMembership
from ..core.types import EvaluationSample, SystemOutputs
from .executors import Scorable, ScoredBatch, SourcedBatch

WORKER_DIED, SCORING_FAILED = "worker_died", "scoring_failed"


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """Why a batch could not be scored."""

    reason: str
    """The stored reason, in lower case with underscores."""
    message: str
    """The warning shown to the user."""


def failed_batch(batch: Scorable, metrics: Sequence[BatchMetric], failure: BatchFailure) -> ScoredBatch:
    """Failed measurements for all samples of a batch, under every metric; no metric is called."""
    if isinstance(batch, SourcedBatch):
        loaded, members = batch.load()
        return replace(failed_batch(loaded, metrics, failure), members=members)
    bare = Batch(
        [
            EvaluationSample(sample.sample_id, "", labels=sample.labels, cluster_id=sample.cluster_id)
            for sample in batch.samples
        ],
        [
            SystemOutputs([], error=failure.reason, repeat=0 if output is None else output.repeat)
            for output in batch.outputs
        ],
    )
    everyone = np.ones(len(bare), dtype=np.bool_)
    failed = Scores.of(np.zeros(len(bare))).replaced(everyone, Status.MEASURE_FAILED, failure.reason, math.nan)
    scores = [with_family_keys(failed, bare) if isinstance(metric, FamilyMetric) else failed for metric in metrics]
    notes = {failure.message: (len(bare), bare.samples[0].sample_id)} if len(bare) else {}
    return ScoredBatch(len(bare), scores, notes)


def unreadable_batch(
    batch: Scorable, number: int, metrics: Sequence[BatchMetric], failure: BatchFailure
) -> ScoredBatch:
    """The same for a batch that cannot be read: only the number of its samples is known."""
    if isinstance(batch, Batch):
        return failed_batch(batch, metrics, failure)
    size = batch.source.size
    names = tuple(f"(unread {number}.{row})" for row in range(size))
    unknown = Batch([EvaluationSample(name, "") for name in names], [None] * size)
    members = BatchMembership(size, names if batch.keep else ())
    return replace(failed_batch(unknown, metrics, failure), members=members)
