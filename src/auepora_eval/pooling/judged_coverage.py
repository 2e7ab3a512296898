"""How much of what was returned is judged at all, beside every retrieval metric whose gold is made of grades."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric, Metric
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import EvaluationSample, MetricResult, TargetCategory
from ..features.hits import gold_positions
from ..features.rankings import judged_rankings
from ..io.grades import GOLD_BY

__all__ = ["GoldProvenance", "JudgedAtDepth", "JudgedCoverage", "has_gold_provenance"]

_GIVERS = ("model", "corrected", "human")
_TARGETS = (TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY)


def has_gold_provenance(samples: Iterable[EvaluationSample]) -> bool:
    """Whether any sample says who gave its grades."""
    return any(GOLD_BY in sample.metadata for sample in samples)


@dataclass(frozen=True)
class JudgedAtDepth(BatchMetric):
    """Judged@k per query, with how many results there were and how many of them nobody judged."""

    depth: int | None = None
    name: str = "judged"

    target = TargetCategory.RETRIEVAL_RELEVANCE
    counts_system_failures: ClassVar[bool] = False  # what failed returned nothing that could be judged
    stat_names: ClassVar[tuple[str, ...]] = ("num_results", "num_unjudged")

    def score(self, batch: Batch) -> Scores:
        """Judged positions over positions; queries without gold, and those that nothing was returned for, aside."""
        every = gold_positions(batch, judged_rankings)
        level = np.ones_like(every.row) if every.level is None else every.level
        keep, positions = level >= 0, every.returned
        if self.depth is not None:
            keep, positions = keep & (every.rank < self.depth), np.minimum(positions, self.depth)
        judged = np.bincount(every.row[keep], minlength=len(batch))
        stats = np.column_stack([positions, positions - judged])
        return Scores.of(
            judged / np.maximum(positions, 1),
            skip={"no_gold": ~every.annotated, "nothing_returned": positions == 0},
            stats=stats * 1.0,
        )


@dataclass(frozen=True)
class GoldProvenance(BatchMetric):
    """How many grades are whose, counted over all samples, whatever became of their answers."""

    name: str = "gold"

    target = TargetCategory.RETRIEVAL_RELEVANCE
    handles_failures: ClassVar[bool] = True
    stat_names: ClassVar[tuple[str, ...]] = tuple(f"num_{by}" for by in _GIVERS)

    def score(self, batch: Batch) -> Scores:
        """No score worth the name; the statistics are what is wanted."""
        counts = np.array([_counts(sample) for sample in batch.samples], dtype=np.float64)
        return Scores.of(np.zeros(len(batch)), stats=counts.reshape(-1, len(_GIVERS)))


def _counts(sample: EvaluationSample) -> list[int]:
    held = sample.metadata.get(GOLD_BY)
    return [int(held.get(by, 0)) for by in _GIVERS] if isinstance(held, Mapping) else [0, 0, 0]


class JudgedCoverage:
    """Has Judged@k computed at the depth of each retrieval metric, in the same pass, and notes it in their results."""

    def __init__(self, metrics: Sequence[Metric], gold: Mapping[str, int] | None = None) -> None:
        """``gold`` says how many grades are whose, where the samples do not say so themselves."""
        self._gold = gold
        self._depths = {one.name: _depth(one) for one in metrics if _is_retrieval(one)}
        taken = {one.name for one in metrics}
        self._shares = {depth: JudgedAtDepth(depth, _unused(f"judged within {depth}", taken)) for depth in self.depths}
        self._whose = GoldProvenance(_unused("whose gold", taken)) if gold is None and self._depths else None

    @property
    def depths(self) -> list[int | None]:
        """The depths of the metrics, each once; ``None`` is all that was returned."""
        return list(dict.fromkeys(self._depths.values()))

    @property
    def metrics(self) -> list[Metric]:
        """What is to be computed beside the metrics."""
        return [*self._shares.values(), *([] if self._whose is None else [self._whose])]

    def annotate(self, results: Results) -> Results:
        """The results of the metrics alone, with how much of what they look at is judged in their details."""
        shares = {share.name: depth for depth, share in self._shares.items()}
        ours = {one.name for one in self.metrics}
        held = {shares[one.name]: one for one in results if one.name in shares}
        whose = None if self._whose is None else results.by_name[self._whose.name]
        rest = [one for one in results if one.name not in ours]
        for one in rest:
            if one.name in self._depths:
                depth = self._depths[one.name]
                self._note(one, held[depth], whose, depth)
        alone = Results(rest, sample_ids=results.sample_ids, run_id=results.run_id)
        alone.failure, alone.warnings = results.failure, results.warnings
        return alone

    def _note(self, result: MetricResult, share: MetricResult, whose: MetricResult | None, depth: int | None) -> None:
        told = share.details
        results, unjudged = told.get("num_results") or 0, told.get("num_unjudged") or 0
        gold = self._gold or {}
        if whose is not None:
            gold = {by: whose.details.get(f"num_{by}") or 0 for by in _GIVERS}
        details: dict[str, Any] = {
            "judged": share.value if share.defined else None,
            "judged_depth": depth,
            "unjudged_share": unjudged / results if results else None,
            "num_unjudged": unjudged,
            "gold_by": {by: count for by, count in gold.items() if count},
        }
        result.details |= details
        for name, groups in result.slices.items():
            for group, part in groups.items():
                inner = share.slices[name][group]
                self._note(part, inner, None if whose is None else whose.slices[name][group], depth)


def _is_retrieval(metric: Metric) -> bool:
    """Whether a metric looks for gold in what was returned: for its ids, their parents, or passages."""
    if not isinstance(metric, BatchMetric) or metric.target not in _TARGETS:
        return False
    over_parents = not getattr(metric, "ranks_ids", True)
    return over_parents or "relevant_docs" in metric.required_fields()


def _depth(metric: Metric) -> int | None:
    """How far down a metric looks; ``None`` where it looks at all that was returned."""
    assert isinstance(metric, BatchMetric)
    limits = [one for one in (getattr(metric, "k", None), metric.active_conventions.depth) if isinstance(one, int)]
    return min(limits, default=None)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name
