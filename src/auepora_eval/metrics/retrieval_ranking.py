"""Rank-aware retrieval metrics: MRR, MAP, nDCG, R-precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import Derivation
from ..core.errors import BadValueError, UnknownConventionError
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.hits import (
    GoldPositions,
    IdealRanking,
    capped_gold,
    early_hits,
    gold_positions,
    hits,
    hits_within,
    ideal_ranking,
    log_discounts,
    sum_by_query,
)
from .base import RankingMetric
from .derivations_ranking import RankedQuery, average_precision_steps, mrr_steps, ndcg_steps, r_precision_steps
from .ranking import Gold, check_k, map_at_k, mrr_at_k, ndcg_at_k, r_precision

__all__ = ["MRRAtK", "MeanAveragePrecision", "NDCGAtK", "RPrecision"]

GainScheme = Literal["binary", "exponential", "linear"]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OrderMetric(RankingMetric):
    """A ranking metric over the first ``k`` positions, or over the whole list where ``k`` is ``None``."""

    k: int | None = None
    target = TargetCategory.RETRIEVAL_ACCURACY

    def __post_init__(self) -> None:
        check_k(self.k)
        super().__post_init__()


@register("mrr", at="k")
@dataclass(frozen=True)
class MRRAtK(OrderMetric):
    r"""One over the rank of the first relevant document; 0 if none is returned (within k).

    .. math:: 1 / r_1

    The preset `golden` cuts an `mrr` that names no k at 10.
    """

    reference: ClassVar[str] = "trec_eval `recip_rank`; Voorhees 1999"

    @property
    def max_rank(self) -> int | None:
        """The effective cut-off."""
        return self.k if self.k is not None else self.active_conventions.mrr_cut

    def score(self, batch: Batch) -> Scores:
        """The reciprocal rank of the first hit."""
        all_hits = hits(batch, self.active_conventions)
        first = np.flatnonzero(all_hits.place == 0)
        row, rank = all_hits.row[first], all_hits.rank[first]
        values = np.zeros(len(batch))
        values[row] = 1.0 / (rank + 1)
        if self.max_rank is not None:
            values[row[rank >= self.max_rank]] = 0.0
        return self.scores(batch, values)

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        return mrr_at_k(gold, ranked, self.max_rank, min_relevance=self.active_conventions.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return mrr_steps(query, self.max_rank)

    def signature_options(self) -> dict[str, str]:
        """Adds a cut-off that the name does not contain."""
        cut = {"cut": str(self.max_rank)} if self.k is None and self.max_rank is not None else {}
        return {**cut, **self.ranking_signature_options()}


@register("r_precision")
@dataclass(frozen=True)
class RPrecision(RankingMetric):
    r"""Share of the first |G| positions that hold a relevant document: precision and recall where they meet.

    .. math:: |G \cap R_{|G|}| / |G|
    """

    target = TargetCategory.RETRIEVAL_ACCURACY
    reference: ClassVar[str] = "trec_eval `Rprec`"

    def score(self, batch: Batch) -> Scores:
        """Hits within as many positions as there is gold."""
        all_hits = hits(batch, self.active_conventions)
        early = all_hits.rank < all_hits.gold[all_hits.row]
        within = np.bincount(all_hits.row[early], minlength=len(batch))
        return self.scores(batch, within / np.maximum(all_hits.gold, 1))

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        return r_precision(gold, ranked, min_relevance=self.active_conventions.min_relevance)

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return r_precision_steps(query)


@register("map", at="k")
@dataclass(frozen=True)
class MeanAveragePrecision(OrderMetric):
    r"""Average precision: the precision at each hit, added up over the hits within k and divided.

    .. math:: \frac{\sum_i i / r_i}{d}, \quad r_i = \text{rank of the i-th hit}

    d is the number of hits themselves (`ap: hits`, preset `auepora`, shown as "map (over hits)"), min(|G|, k)
    (`capped`, preset `paper`) or |G| (`gold`, presets `golden`, `client`, `trec`). Over hits it ignores recall, so it
    cannot compare runs of different depth: returning fewer documents raises it. Use `ap: gold` for that. Without a hit
    it is 0.
    """

    reference: ClassVar[str] = "trec_eval `map`, `map_cut` (`ap: gold`)"

    def score(self, batch: Batch) -> Scores:
        """The sum of the precisions at the hits over the divisor of the conventions."""
        all_hits = hits(batch, self.active_conventions)
        row, rank, place = all_hits.row, all_hits.rank, all_hits.place
        if self.k is not None:
            early = early_hits(batch, self.active_conventions, self.k)
            row, rank, place = row[early], rank[early], place[early]
        total = sum_by_query(row, (place + 1) / (rank + 1), len(batch))
        if self.active_conventions.ap == "hits":
            divisor = hits_within(batch, self.active_conventions, self.k)
        elif self.active_conventions.ap == "capped":
            divisor = capped_gold(all_hits, self.k, self.active_conventions)
        else:
            divisor = all_hits.gold
        return self.scores(batch, total / np.maximum(divisor, 1))

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        k = self.plain_k(self.k, ranked)
        if k == 0:
            return 0.0
        return map_at_k(
            gold, ranked, k, divide_by=self.active_conventions.ap, min_relevance=self.active_conventions.min_relevance
        )

    def steps(self, query: RankedQuery) -> Derivation:
        """The calculation, position by position."""
        return average_precision_steps(query, self.plain_k(self.k, query.ranked), self.active_conventions.ap)

    def signature_options(self) -> dict[str, str]:
        """Adds the divisor."""
        shown = self.k_signature_option() if self.active_conventions.ap == "capped" else {}
        return {"ap": self.active_conventions.ap, **shown, **self.ranking_signature_options()}


@register("ndcg", at="k")
@dataclass(frozen=True)
class NDCGAtK(OrderMetric):
    r"""Discounted gain of the first k over that of the best possible ranking.

    .. math:: \frac{\sum_{r \le k} g(r) / \log_2(r + 1)}{\sum_{r \le k} g^*(r) / \log_2(r + 1)}

    The gain of a document is 1 if relevant (`binary`), 2^level − 1 (`exponential`) or its level (`linear`, preset
    `trec`); g* are the gains of all gold, largest first. `gain_scheme` overrides the conventions. Levels are
    `relevant_docs[i].metadata["relevance"]`; only the binary gain looks at `min_relevance`, as in trec_eval. With
    `ties: average` neighbours with equal scores share their gains, so that the value does not depend on the order of
    tied documents, as in scikit-learn; it needs the scores of the retrieved documents.
    """

    gain_scheme: GainScheme | None = None
    ties: Literal["order", "average"] = field(default="order", kw_only=True)
    """Documents with equal scores: in their given order, or the mean over all orders."""

    reference: ClassVar[str] = (
        "Järvelin & Kekäläinen 2002; Burges et al. 2005 (exponential); trec_eval `ndcg`, `ndcg_cut` (linear)"
    )

    def __post_init__(self) -> None:
        if self.gain_scheme is not None and self.gain_scheme not in get_args(GainScheme):
            raise UnknownConventionError("gain_scheme", self.gain_scheme, get_args(GainScheme))
        if self.ties not in ("order", "average"):
            raise UnknownConventionError("ties", self.ties, ("order", "average"))
        super().__post_init__()

    @property
    def gain(self) -> GainScheme:
        """The effective gain scheme."""
        return self.gain_scheme or self.active_conventions.gain

    def score(self, batch: Batch) -> Scores:
        """Gain over ideal gain."""
        if self.ties == "average":
            return self._averaged(batch)
        every = gold_positions(batch)
        # With every level at 1 all schemes agree, provided that level 1 is relevant.
        plain = self.gain == "binary" or (every.level is None and self.active_conventions.min_relevance <= 1)
        dcg, ideal = self._binary(batch) if plain else self._graded(every, ideal_ranking(batch))
        values = np.divide(dcg, ideal, out=np.zeros_like(dcg), where=ideal > 0.0)
        return self.scores(batch, values)

    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The plain definition."""
        k = self.plain_k(self.k, ranked)
        return (
            0.0
            if k == 0
            else ndcg_at_k(gold, ranked, k, gain=self.gain, min_relevance=self.active_conventions.min_relevance)
        )

    def steps(self, query: RankedQuery) -> Derivation | None:
        """The calculation, position by position."""
        return ndcg_steps(
            query,
            self.plain_k(self.k, query.ranked),
            self.gain,
            effective=self.active_conventions.k_policy == "effective",
            average_ties=self.ties == "average",
        )

    def reference_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample by the plain definitions."""
        plain = super().reference_score(sample, output)
        return plain if self.ties == "order" or plain.value is None else Score(self._with_ties(sample, output))

    def _averaged(self, batch: Batch) -> Scores:
        retrieved = [item for output in batch.outputs if output is not None for item in output.retrieved]
        if retrieved and all(item.score is None for item in retrieved):
            raise BadValueError(
                f"metric '{self.name}' averages over documents with equal scores, but no retrieved document has a "
                "score; give the scores in the outputs, or leave out 'ties: average'"
            )
        values = [
            0.0 if output is None else self._with_ties(sample, output)
            for sample, output in zip(batch.samples, batch.outputs, strict=True)
        ]
        return self.scores(batch, np.array(values, dtype=np.float64))

    def _with_ties(self, sample: EvaluationSample, output: SystemOutputs) -> float:
        """The value of one query with averaged gains of tied documents."""
        gold, ranked = self.reference_ranking(sample, output)
        ranked, depth = ranked[: self.active_conventions.depth], self.active_conventions.depth
        k = self.plain_k(self.k, ranked)
        if gold is None or k == 0:
            return 0.0
        scores = [item.score for item in output.retrieved[:depth]]
        return ndcg_at_k(
            gold, ranked, k, gain=self.gain, min_relevance=self.active_conventions.min_relevance, scores=scores
        )

    def _binary(self, batch: Batch) -> tuple[Floats, Floats]:
        all_hits = hits(batch, self.active_conventions)
        row, rank = all_hits.row, all_hits.rank
        if self.k is not None:
            early = early_hits(batch, self.active_conventions, self.k)
            row, rank = row[early], rank[early]
        best = capped_gold(all_hits, self.k, self.active_conventions)
        gains = 1.0 / log_discounts(rank, best)
        ideal = np.concatenate(([0.0], np.cumsum(gains)))[best]
        return sum_by_query(row, gains[rank], len(batch)), ideal

    def _graded(self, every: GoldPositions, best: IdealRanking) -> tuple[Floats, Floats]:
        queries = len(every.gold_count)
        level = np.ones_like(every.row) if every.level is None else every.level
        row, rank = every.row, every.rank
        for cut in (self.k, self.active_conventions.depth):
            if cut is not None:
                within = rank < cut
                row, rank, level = row[within], rank[within], level[within]
        best_row, best_rank, best_level = best.row, best.rank, best.level
        if self.k is not None or self.active_conventions.k_policy == "effective":
            within = best_rank < self._ideal_depth(every)[best_row]
            best_row, best_rank, best_level = best_row[within], best_rank[within], best_level[within]
        logs = log_discounts(rank, best_rank)
        dcg = sum_by_query(row, self._gains(level) / logs[rank], queries)
        return dcg, sum_by_query(best_row, self._gains(best_level) / logs[best_rank], queries)

    def _ideal_depth(self, every: GoldPositions) -> npt.NDArray[np.int64]:
        """The depth of the ideal ranking per query."""
        depth = np.full(len(every.returned), np.iinfo(np.int64).max if self.k is None else self.k)
        if self.active_conventions.k_policy == "effective":
            cut = (
                every.returned
                if self.active_conventions.depth is None
                else np.minimum(every.returned, self.active_conventions.depth)
            )
            depth = np.minimum(depth, cut)
        return depth

    def _gains(self, level: npt.NDArray[np.int64]) -> Floats:
        positive = np.maximum(level, 0).astype(np.float64)
        return np.exp2(positive) - 1.0 if self.gain == "exponential" else positive

    def signature_options(self) -> dict[str, str]:
        """Adds the gain scheme and the treatment of ties."""
        ties = {} if self.ties == "order" else {"ties": self.ties}
        return {"gain": self.gain, **ties, **self.k_signature_option(), **self.ranking_signature_options()}
