"""Batches that could not be scored, whoever tried: their samples are failed measurements, and the rest stands."""

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
    """Why a batch was given up."""

    reason: str
    """In lower case with underscores, as of any outcome."""
    message: str
    """What the user should read about it."""


def failed_batch(
    batch: Batch | SourcedBatch, metrics: Sequence[BatchMetric], lost: BatchFailure, *, ask_metrics: bool
) -> ScoredBatch:
    """The outcomes of a batch nobody could score: failed measurements for that reason, under every metric.

    The metrics are shown samples that are no more than their ids and labels, and so give keys and statistics of the
    kind that they always give; where even that fails, ``ask_metrics`` is false and there are none.
    """
    if isinstance(batch, SourcedBatch):
        loaded = replace(batch, joined=False).load()
        outcomes = _failed_outcomes(loaded.batch, metrics, lost, joined=batch.joined, ask=ask_metrics)
        return replace(outcomes, members=loaded.members)
    return _failed_outcomes(batch, metrics, lost, joined=False, ask=ask_metrics)


def unreadable_batch(
    batch: Batch | SourcedBatch, number: int, metrics: Sequence[BatchMetric], lost: BatchFailure
) -> ScoredBatch:
    """The same for a batch that cannot even be read: its samples are not known, only how many there should be."""
    if isinstance(batch, Batch):
        return _failed_outcomes(batch, metrics, lost, joined=False, ask=False)
    size = batch.source.size
    names = tuple(f"(unread {number}.{row})" for row in range(size))
    unknown = Batch([EvaluationSample(name, "") for name in names], [None] * size)
    outcomes = _failed_outcomes(unknown, metrics, lost, joined=batch.joined, ask=False)
    return replace(outcomes, members=BatchMembership(size, names if batch.keep else ()))


def _failed_outcomes(
    batch: Batch, metrics: Sequence[BatchMetric], lost: BatchFailure, *, joined: bool, ask: bool
) -> ScoredBatch:
    bare = Batch(
        [EvaluationSample(one.sample_id, "", labels=one.labels, cluster_id=one.cluster_id) for one in batch.samples],
        [SystemOutputs([], error=lost.reason, repeat=0 if one is None else one.repeat) for one in batch.outputs],
    )
    scores = [_failed_scores(one, bare, lost.reason, joined=joined, ask=ask) for one in metrics]
    notes = {lost.message: (len(bare), bare.samples[0].sample_id)} if len(bare) else {}
    return ScoredBatch(len(bare), scores, notes)


def _failed_scores(metric: BatchMetric, bare: Batch, reason: str, *, joined: bool, ask: bool) -> Scores:
    everyone = np.ones(len(bare), dtype=np.bool_)
    try:
        scores = apply_failure_policy(metric, bare) if ask else _placeholder_scores(metric, bare)
        if joined and pairs_in_worker(metric):
            scores = metric.pair_samples(scores)
    except Exception:  # whatever it is: that these samples were not measured is known already
        scores = _placeholder_scores(metric, bare)
    return scores.replaced(everyone, Status.MEASURE_FAILED, reason, math.nan)


def _placeholder_scores(metric: BatchMetric, bare: Batch) -> Scores:
    scores = Scores.of(np.zeros(len(bare)))
    return with_family_keys(scores, bare) if isinstance(metric, FamilyMetric) else scores
