"""Retrieval relevance: recall, precision and hit rate at a cut-off. Re-exports the rank-aware measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import Conventions
from ..core.derivation import Derivation
from ..core.registry import register
from ..core.scores import Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.hits import hits, hits_within
from ..features.rankings import document_rankings
from .base import RankingMetric
from .derivations_ranking import RankedQuery, f1_steps, hit_rate_steps, precision_steps, recall_steps
from .ranking import Gold, check_k, f1_at_k, hit_rate_at_k, precision_at_k, recall_at_k
from .retrieval_ranking import MeanAveragePrecision, MRRAtK, NDCGAtK

__all__ = [
    "F1AtK",
    "HitRateAtK",
    "MRRAtK",
    "MeanAveragePrecision",
    "NDCGAtK",
    "PrecisionAtK",
    "RecallAtK",
    "RecallDocAtK",
]


@dataclass(frozen=True)
class CutOffMetric(RankingMetric):
    """A ranking metric of the first ``k`` positions."""

    k: int | None
    target = TargetCategory.RETRIEVAL_RELEVANCE

    def __post_init__(self) -> None:
        check_k(self.k)
        super().__post_init__()

    def precision_signature_options(self) -> dict[str, str]:
        """The denominator of precision, for the signature."""
        return {
            "p": self.active_conventions.precision,
            **(self.k_signature_option() if self.active_conventions.precision == "k" else {}),
        }


def precision_values(batch: Batch, k: int | None, rules: Conventions) -> npt.NDArray[np.float64]:
    """Precision per query, with the denominator of the conventions."""
    within = hits_within(batch, rules, k)
    if k is not None and rules.precision == "k" and rules.k_policy == "written":
        return within / k
    positions = hits(batch, rules).returned if k is None else np.minimum(hits(batch, rules).returned, k)
    return np.asarray(within / np.maximum(positions, 1), dtype=np.float64)


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
        gold = np.maximum(hits(batch, self.active_conventions).gold, 1)
        return self.scores(batch, hits_within(batch, self.active_conventions, self.k) / gold)

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        return recall_at_k(gold, ranked, self.k, min_relevance=self.active_conventions.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return recall_steps(query, self.k)


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
        return self.scores(batch, precision_values(batch, self.k, self.active_conventions))

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        rules = self.active_conventions
        k = self.plain_k(self.k, ranked)
        if not ranked:
            return 0.0
        return precision_at_k(gold, ranked, k, divide_by=rules.precision, min_relevance=rules.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return precision_steps(query, self.plain_k(self.k, query.ranked), self.k, self.active_conventions.precision)

    def signature_options(self) -> dict[str, str]:
        """Adds the denominator."""
        return {**self.precision_signature_options(), **self.ranking_signature_options()}


@register("f1", at="k")
@dataclass(frozen=True)
class F1AtK(CutOffMetric):
    r"""Harmonic mean of precision and recall of the first k.

    .. math:: \frac{2 P R}{P + R}

    The denominator of precision follows the conventions.
    """

    reference: ClassVar[str] = "van Rijsbergen 1979"

    def score(self, batch: Batch) -> Scores:
        """The harmonic mean per query."""
        rules = self.active_conventions
        precision = precision_values(batch, self.k, rules)
        recall = hits_within(batch, rules, self.k) / np.maximum(hits(batch, rules).gold, 1)
        both = precision + recall
        values = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0.0)
        return self.scores(batch, values)

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        rules = self.active_conventions
        k = self.plain_k(self.k, ranked)
        if not ranked:
            return 0.0
        return f1_at_k(gold, ranked, k, divide_by=rules.precision, min_relevance=rules.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return f1_steps(query, self.plain_k(self.k, query.ranked), self.k, self.active_conventions.precision)

    def signature_options(self) -> dict[str, str]:
        """Adds the denominator of precision."""
        return {**self.precision_signature_options(), **self.ranking_signature_options()}


@register("hit_rate", at="k")
@dataclass(frozen=True)
class HitRateAtK(CutOffMetric):
    r"""1 if any relevant document is among the first k, else 0.

    .. math:: [\,G \cap R_k \ne \emptyset\,]
    """

    reference: ClassVar[str] = "trec_eval `success`"
    binary: ClassVar[bool] = True

    def score(self, batch: Batch) -> Scores:
        """Whether there is a hit."""
        return self.scores(batch, (hits_within(batch, self.active_conventions, self.k) > 0).astype(np.float64))

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        return hit_rate_at_k(gold, ranked, self.k, min_relevance=self.active_conventions.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return hit_rate_steps(query, self.k)


@register("recall_doc", at="k")
@dataclass(frozen=True)
class RecallDocAtK(CutOffMetric):
    r"""Share of the relevant documents of which any chunk is among the first k.

    .. math:: |D \cap \text{parents}(R_k)| / |D|

    Positions count chunks, ids are those of their parent documents. D is `metadata["expected_doc_ids"]` where given,
    else the parents of `relevant_docs`.
    """

    ranks_ids: ClassVar[bool] = False
    by_chunk_id: ClassVar[bool] = False  # parents do not depend on the chunking
    by_parent_id: ClassVar[bool] = True
    suggested: ClassVar[bool] = False  # the same as recall where nothing has a parent
    suggested_with_spans: ClassVar[frozenset[str]] = frozenset({"gold"})
    reference: ClassVar[str] = "recall over parent documents"

    def required_fields(self) -> list[str]:
        """None: expected documents may be given in the metadata only."""
        return []

    def score(self, batch: Batch) -> Scores:
        """Hits over gold, both as parents."""
        rules = self.active_conventions
        gold = hits(batch, rules, document_rankings).gold
        values = hits_within(batch, rules, self.k, document_rankings) / np.maximum(gold, 1)
        return self.scores(batch, values, view=document_rankings)

    def reference_ranking(self, sample: EvaluationSample, output: SystemOutputs) -> tuple[Gold | None, list[str]]:
        """Judged levels and returned ids of the parent documents."""
        ranked = [item.doc.parent for item in output.retrieved]
        if "expected_doc_ids" in sample.metadata:
            return list(sample.metadata["expected_doc_ids"]), ranked
        if sample.relevant_docs is None:
            return None, ranked
        levels: dict[str, int] = {}
        for document in sample.relevant_docs:
            level = document.metadata.get("relevance", 1)
            levels[document.parent] = max(level, levels.get(document.parent, level))
        return levels, ranked

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition on parent documents."""
        return recall_at_k(gold, ranked, self.k, min_relevance=self.active_conventions.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return recall_steps(query, self.k)
