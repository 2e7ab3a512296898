"""Batches that could not be scored, whoever tried: their samples are failed measurements, and the rest stands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.batch import Batch
from ..core.executors import ScoredBatch
from ..core.family import FamilyMetric, keyed
from ..core.judged import joined_where_scored
from ..core.metrics_base import BatchMetric
from ..core.scores import Scores, Status
from ..core.scoring import settled_scores
from ..core.slices import Members
from ..core.sources import SourcedBatch
from ..core.types import EvaluationSample, SystemOutputs

__all__ = ["SCORING_FAILED", "WORKER_DIED", "Lost", "lost_batch", "unread_batch"]

WORKER_DIED, SCORING_FAILED = "worker_died", "scoring_failed"


@dataclass(frozen=True, slots=True)
class Lost:
    """Why a batch was given up."""

    reason: str
    """In lower case with underscores, as of any outcome."""
    remark: str
    """What the user should read about it."""


def lost_batch(
    batch: Batch | SourcedBatch, metrics: Sequence[BatchMetric], lost: Lost, *, ask_metrics: bool
) -> ScoredBatch:
    """The outcomes of a batch nobody could score: failed measurements for that reason, under every metric.

    The metrics are shown samples that are no more than their ids and labels, and so give keys and statistics of the
    kind that they always give; where even that fails, ``ask_metrics`` is false and there are none.
    """
    if isinstance(batch, SourcedBatch):
        loaded = replace(batch, joined=False).load()
        outcomes = _lost(loaded.batch, metrics, lost, joined=batch.joined, ask=ask_metrics)
        return replace(outcomes, members=loaded.members)
    return _lost(batch, metrics, lost, joined=False, ask=ask_metrics)


def unread_batch(batch: Batch | SourcedBatch, number: int, metrics: Sequence[BatchMetric], lost: Lost) -> ScoredBatch:
    """The same for a batch that cannot even be read: its samples are not known, only how many there should be."""
    if isinstance(batch, Batch):
        return _lost(batch, metrics, lost, joined=False, ask=False)
    size = batch.source.size
    names = tuple(f"(unread {number}.{row})" for row in range(size))
    unknown = Batch([EvaluationSample(name, "") for name in names], [None] * size)
    outcomes = _lost(unknown, metrics, lost, joined=batch.joined, ask=False)
    return replace(outcomes, members=Members(size, names if batch.keep else ()))


def _lost(batch: Batch, metrics: Sequence[BatchMetric], lost: Lost, *, joined: bool, ask: bool) -> ScoredBatch:
    bare = Batch(
        [EvaluationSample(one.sample_id, "", labels=one.labels, cluster_id=one.cluster_id) for one in batch.samples],
        [SystemOutputs([], error=lost.reason, repeat=0 if one is None else one.repeat) for one in batch.outputs],
    )
    scores = [_lost_scores(one, bare, lost.reason, joined=joined, ask=ask) for one in metrics]
    notes = {lost.remark: (len(bare), bare.samples[0].sample_id)} if len(bare) else {}
    return ScoredBatch(len(bare), scores, notes)


def _lost_scores(metric: BatchMetric, bare: Batch, reason: str, *, joined: bool, ask: bool) -> Scores:
    everyone = np.ones(len(bare), dtype=np.bool_)
    try:
        scores = settled_scores(metric, bare) if ask else _without_asking(metric, bare)
        if joined and joined_where_scored(metric):
            scores = metric.joined(scores)
    except Exception:  # whatever it is: that these samples were not measured is known already
        scores = _without_asking(metric, bare)
    return scores.replaced(everyone, Status.MEASURE_FAILED, reason, math.nan)


def _without_asking(metric: BatchMetric, bare: Batch) -> Scores:
    scores = Scores.of(np.zeros(len(bare)))
    return keyed(scores, bare) if isinstance(metric, FamilyMetric) else scores
