"""Missing outputs in a comparison: a sample without an output counts like one on which the system failed.

A convention may skip missing outputs in the value of a single run. In a comparison that would let a run win by leaving
out hard samples, so here they count at the metric's worst value, whatever the convention.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..core.scores import Scores, Status
from ..core.types import MetricResult
from ..store.records import RunRecord
from ..store.runs import RunStore
from .metric_meta import MetricMeta

__all__ = ["MissingOutputs", "fill_with_best", "fill_with_worst", "missing_outputs"]

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

REASON = "missing_output"


@dataclass(frozen=True, slots=True, eq=False)
class MissingOutputs:
    """How many outputs a run lacks, sample by sample."""

    counts: npt.NDArray[np.intp]
    """Per sample how many of its repeats have no output."""
    repeats: int = 1

    @property
    def total(self) -> int:
        """How many outputs are missing."""
        return int(self.counts.sum())

    @property
    def expected(self) -> int:
        """How many outputs there would be if none were missing."""
        return len(self.counts) * self.repeats

    def take(self, rows: npt.NDArray[np.intp]) -> MissingOutputs:
        """The same for some of the samples."""
        return MissingOutputs(self.counts[rows], self.repeats)


def missing_outputs(store: RunStore, record: RunRecord, results: Iterable[MetricResult]) -> MissingOutputs:
    """Which samples of a run have no stored output.

    A run without any stored output whose ``results`` report no missing output was scored elsewhere: then none counts
    as missing.
    """
    repeats = max(record.repeats, 1)
    stored = store.done(record.run_id)
    counts = np.full(record.num_samples, repeats, dtype=np.intp)
    if stored:
        np.subtract.at(counts, [position for position, _ in stored], 1)
    elif not any(isinstance(one.scores, Scores) and one.scores.with_reason(REASON).any() for one in results):
        counts[:] = 0
    return MissingOutputs(counts, repeats)


def fill_with_worst(scores: Scores, missing: MissingOutputs, definition: MetricMeta) -> tuple[Scores, Bools]:
    """The scores of a run with missing outputs at the worst value, and a mask of the changed samples.

    Nothing changes for a metric that has no worst value or is not a mean (``MetricMeta.counts_missing``), nor for
    samples that the metric does not apply to.
    """
    nowhere: Bools = np.zeros(len(scores), dtype=np.bool_)
    if definition.worst_failed is None or not definition.counts_missing or not missing.total:
        return scores, nowhere
    missing_rows: Bools = scores.with_reason(REASON)
    if definition.missing == "zero":
        missing_rows |= (scores.status == Status.SCORED) & (missing.counts == missing.repeats)
    partly: Bools = nowhere
    if definition.missing == "skip":
        partly = ~missing_rows & scores.counted & (missing.counts > 0)
    if not missing_rows.any() and not partly.any():
        return scores, nowhere
    worst = definition.worst_failed
    proportion = missing.counts / missing.repeats
    values = np.where(missing_rows, worst, scores.values + proportion * (worst - scores.values))
    filled = scores.replaced(missing_rows, Status.SYSTEM_FAILED, REASON, worst, definition.worst_stats)
    return filled.replaced(partly, Status.SCORED, "", values) if partly.any() else filled, missing_rows | partly


def fill_with_best(scores: Scores, missing: Bools, definition: MetricMeta) -> Scores | None:
    """The scores with missing outputs at the best value instead; ``None`` where there is none."""
    best = definition.range[1 if definition.higher_score_is_better else 0]
    return scores.replaced(missing, Status.SCORED, "", best) if math.isfinite(best) else None
