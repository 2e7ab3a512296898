"""Batches that no worker could score: their samples become failed measurements, and the evaluation continues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.batch import Batch
from ..core.executors import ScoredBatch
from ..core.family import FamilyMetric, with_family_keys
from ..core.judged_metric import pairs_in_worker
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores, Status
from ..core.scoring import apply_failure_policy
from ..core.slices import BatchMembership
from ..core.sources import SourcedBatch
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["SCORING_FAILED", "WORKER_DIED", "BatchFailure", "failed_batch", "unreadable_batch"]

WORKER_DIED, SCORING_FAILED = "worker_died", "scoring_failed"


@dataclass(frozen=True, slots=True)
class BatchFailure:
    """Why a batch could not be scored."""

    reason: str
    """The stored reason, in lower case with underscores."""
    message: str
    """The warning shown to the user."""


def failed_batch(
    batch: Batch | SourcedBatch, metrics: Sequence[BatchMetric], failure: BatchFailure, *, ask_metrics: bool
) -> ScoredBatch:
    """Failed measurements for all samples of a batch, under every metric.

    With ``ask_metrics`` the metrics score samples that have only ids and labels, which gives keys and statistics of the
    usual shape; without it there are none.
    """
    if isinstance(batch, SourcedBatch):
        loaded = replace(batch, joined=False).load()
        outcomes = _failed_outcomes(loaded.batch, metrics, failure, joined=batch.joined, ask_metrics=ask_metrics)
        return replace(outcomes, members=loaded.members)
    return _failed_outcomes(batch, metrics, failure, joined=False, ask_metrics=ask_metrics)


def unreadable_batch(
    batch: Batch | SourcedBatch, number: int, metrics: Sequence[BatchMetric], failure: BatchFailure
) -> ScoredBatch:
    """The same for a batch that cannot be read: only the number of its samples is known."""
    if isinstance(batch, Batch):
        return _failed_outcomes(batch, metrics, failure, joined=False, ask_metrics=False)
    size = batch.source.size
    names = tuple(f"(unread {number}.{row})" for row in range(size))
    unknown = Batch([EvaluationSample(name, "") for name in names], [None] * size)
    outcomes = _failed_outcomes(unknown, metrics, failure, joined=batch.joined, ask_metrics=False)
    return replace(outcomes, members=BatchMembership(size, names if batch.keep else ()))


def _failed_outcomes(
    batch: Batch, metrics: Sequence[BatchMetric], failure: BatchFailure, *, joined: bool, ask_metrics: bool
) -> ScoredBatch:
    bare = Batch(
        [EvaluationSample(one.sample_id, "", labels=one.labels, cluster_id=one.cluster_id) for one in batch.samples],
        [SystemOutputs([], error=failure.reason, repeat=0 if one is None else one.repeat) for one in batch.outputs],
    )
    scores = [_failed_scores(one, bare, failure.reason, joined=joined, ask_metrics=ask_metrics) for one in metrics]
    notes = {failure.message: (len(bare), bare.samples[0].sample_id)} if len(bare) else {}
    return ScoredBatch(len(bare), scores, notes)


def _failed_scores(metric: BatchMetric, bare: Batch, reason: str, *, joined: bool, ask_metrics: bool) -> Scores:
    everyone = np.ones(len(bare), dtype=np.bool_)
    try:
        scores = apply_failure_policy(metric, bare) if ask_metrics else _placeholder_scores(metric, bare)
        if joined and pairs_in_worker(metric):
            scores = metric.pair_samples(scores)
    except Exception:  # any error: these samples count as failed anyway
        scores = _placeholder_scores(metric, bare)
    return scores.replaced(everyone, Status.MEASURE_FAILED, reason, math.nan)


def _placeholder_scores(metric: BatchMetric, bare: Batch) -> Scores:
    scores = Scores.of(np.zeros(len(bare)))
    return with_family_keys(scores, bare) if isinstance(metric, FamilyMetric) else scores
