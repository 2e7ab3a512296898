"""Judged coverage: the proportion of retrieved documents that are judged, for runs whose gold has provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.batch import Batch
from ..core.metrics_base import BatchMetric, Metric, declare
from ..core.results import Results
from ..core.scores import Scores
from ..core.types import GOLD_BY, EvaluationSample, MetricResult, TargetCategory
from ..features.hits import gold_positions
from ..features.rankings import judged_rankings

_PROVENANCES = ("model", "corrected", "human")
_TARGETS = (TargetCategory.RETRIEVAL_RELEVANCE, TargetCategory.RETRIEVAL_ACCURACY)


def has_gold_provenance(samples: Iterable[EvaluationSample]) -> bool:
    """Whether any sample records the provenance of its grades."""
    return any(GOLD_BY in sample.metadata for sample in samples)


@dataclass(frozen=True)
class JudgedAtDepth(BatchMetric):
    """Judged@k per query, with the number of results and of unjudged ones."""

    depth: int | None = None
    name: str = "judged"

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        counts_system_failures=False,  # a failed sample has no results to judge
        stat_names=("num_results", "num_unjudged"),
    )

    def score(self, batch: Batch) -> Scores:
        """Proportion of judged results; queries without gold or without results are skipped."""
        hits = gold_positions(batch, judged_rankings)
        keep, positions = hits.level >= 0, hits.returned
        if self.depth is not None:
            keep, positions = keep & (hits.rank < self.depth), np.minimum(positions, self.depth)
        judged = np.bincount(hits.row[keep], minlength=len(batch))
        stats = np.column_stack([positions, positions - judged])
        return Scores.of(
            judged / np.maximum(positions, 1),
            skip={"no_gold": ~hits.annotated, "nothing_returned": positions == 0},
            stats=stats * 1.0,
        )


@dataclass(frozen=True)
class GoldProvenance(BatchMetric):
    """Number of grades by provenance, over all samples, whatever their outcome."""

    name: str = "gold"

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        handles_failures=True,
        stat_names=tuple(f"num_{by}" for by in _PROVENANCES),
    )

    def score(self, batch: Batch) -> Scores:
        """Scores of 0 with the counts as statistics."""
        counts = np.array([_counts(sample) for sample in batch.samples], dtype=np.float64)
        return Scores.of(np.zeros(len(batch)), stats=counts.reshape(-1, len(_PROVENANCES)))


def _counts(sample: EvaluationSample) -> list[int]:
    counts = sample.metadata.get(GOLD_BY)
    return [int(counts.get(by, 0)) for by in _PROVENANCES] if isinstance(counts, Mapping) else [0, 0, 0]


class JudgedCoverage:
    """Computes Judged@k at the depth of each retrieval metric in the same pass, and adds it to their results."""

    def __init__(self, metrics: Sequence[Metric], gold: Mapping[str, int] | None = None) -> None:
        """``gold`` is the number of grades by provenance, if the samples do not record it."""
        self._gold = gold
        self._depths = {metric.name: _depth(metric) for metric in metrics if _is_retrieval(metric)}
        used_names = {metric.name for metric in metrics}
        self._judged_metrics = {
            depth: JudgedAtDepth(depth, _unique_name(f"judged within {depth}", used_names)) for depth in self.depths
        }
        self._provenance = (
            GoldProvenance(_unique_name("whose gold", used_names)) if gold is None and self._depths else None
        )

    @property
    def depths(self) -> list[int | None]:
        """The distinct depths of the metrics; ``None`` is the whole ranking."""
        return list(dict.fromkeys(self._depths.values()))

    @property
    def metrics(self) -> list[Metric]:
        """The additional metrics to compute."""
        return [*self._judged_metrics.values(), *([] if self._provenance is None else [self._provenance])]

    def annotate(self, results: Results) -> Results:
        """The results without the additional metrics, with judged coverage in the details of each retrieval metric."""
        depth_by_name = {share.name: depth for depth, share in self._judged_metrics.items()}
        own_names = {metric.name for metric in self.metrics}
        by_depth = {depth_by_name[result.name]: result for result in results if result.name in depth_by_name}
        provenance = None if self._provenance is None else results.by_name[self._provenance.name]
        results[:] = [result for result in results if result.name not in own_names]
        for result in results:
            if result.name in self._depths:
                depth = self._depths[result.name]
                self._annotate_result(result, by_depth[depth], provenance, depth)
        return results

    def _annotate_result(
        self, result: MetricResult, share: MetricResult, provenance: MetricResult | None, depth: int | None
    ) -> None:
        results, unjudged = share.details.num_results, share.details.num_unjudged
        gold = self._gold or {}
        if provenance is not None:
            gold = {by: provenance.details.get(f"num_{by}") or 0 for by in _PROVENANCES}
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
                self._annotate_result(
                    part, inner, None if provenance is None else provenance.slices[name][group], depth
                )


def _is_retrieval(metric: Metric) -> bool:
    """Whether a metric compares the ranking with gold: ids, parents or passages. Only ids are judged."""
    if not isinstance(metric, BatchMetric) or metric.target not in _TARGETS or metric.active_conventions.match != "id":
        return False
    over_parents = not getattr(metric, "ranks_ids", True)
    return over_parents or "relevant_docs" in metric.required_fields()


def _depth(metric: Metric) -> int | None:
    """The cut-off of a metric; ``None`` if it uses the whole ranking."""
    assert isinstance(metric, BatchMetric)
    limits = [
        limit for limit in (getattr(metric, "k", None), metric.active_conventions.depth) if isinstance(limit, int)
    ]
    return min(limits, default=None)


def _unique_name(name: str, used_names: set[str]) -> str:
    while name in used_names:
        name += "'"
    return name
