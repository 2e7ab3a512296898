"""Retrieval relevance: recall, precision and hit rate at a cut-off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.registry import register
from ..core.scores import Scores
from ..core.types import TargetCategory
from ..features.hits import hits, hits_within
from .base import RankingMetric
from .ranking import Gold, check_k, hit_rate_at_k, precision_at_k, recall_at_k

__all__ = ["HitRateAtK", "PrecisionAtK", "RecallAtK"]


@dataclass(frozen=True)
class CutOffMetric(RankingMetric):
    """A ranking metric of the first ``k`` positions."""

    k: int
    target = TargetCategory.RETRIEVAL_RELEVANCE

    def __post_init__(self) -> None:
        check_k(self.k, optional=False)
        super().__post_init__()


@register("recall", at="k")
@dataclass(frozen=True)
class RecallAtK(CutOffMetric):
    r"""Share of the relevant documents that are among the first k.

    .. math:: |G \cap R_k| / |G|

    Every school agrees on it for binary gold; they differ only in queries with nothing relevant.
    """

    reference: ClassVar[str] = "trec_eval `recall`"

    def score(self, batch: Batch) -> Scores:
        """Hits over gold."""
        gold = np.maximum(hits(batch, self.rules).gold, 1)
        return self.scores(batch, hits_within(batch, self.rules, self.k) / gold)

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """By definition."""
        return recall_at_k(gold, ranked, self.k, min_relevance=self.rules.min_relevance)


@register("precision", at="k")
@dataclass(frozen=True)
class PrecisionAtK(CutOffMetric):
    r"""Share of the first k positions that hold a relevant document.

    .. math:: |G \cap R_k| / \min(k, |R|)

    Divided by k itself under the presets `golden`, `client` and `trec` (`precision: k`). Returning nothing scores 0. A
    document that is returned twice is one hit and occupies two positions.
    """

    reference: ClassVar[str] = "trec_eval `P` (`precision: k`)"

    def score(self, batch: Batch) -> Scores:
        """Hits over positions."""
        within = hits_within(batch, self.rules, self.k)
        if self.rules.precision == "k" and self.rules.k_policy == "written":
            return self.scores(batch, within / self.k)
        positions = np.minimum(hits(batch, self.rules).returned, self.k)
        return self.scores(batch, within / np.maximum(positions, 1))

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """By definition."""
        rules = self.rules
        k = self.plain_k(self.k, ranked)
        if not k:
            return 0.0
        return precision_at_k(gold, ranked, k, divide_by=rules.precision, min_relevance=rules.min_relevance)

    def choices(self) -> dict[str, str]:
        """Adds what the hits are divided by."""
        shown = self.k_choice() if self.rules.precision == "k" else {}
        return {"p": self.rules.precision, **shown, **self.ranking_choices()}


@register("hit_rate", at="k")
@dataclass(frozen=True)
class HitRateAtK(CutOffMetric):
    r"""1 if any relevant document is among the first k, else 0.

    .. math:: [\,G \cap R_k \ne \emptyset\,]
    """

    reference: ClassVar[str] = "trec_eval `success`"

    def score(self, batch: Batch) -> Scores:
        """Whether there is a hit."""
        return self.scores(batch, (hits_within(batch, self.rules, self.k) > 0).astype(np.float64))

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """By definition."""
        return hit_rate_at_k(gold, ranked, self.k, min_relevance=self.rules.min_relevance)
