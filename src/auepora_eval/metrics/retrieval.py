"""Retrieval metrics over rankings: recall, precision, hit rate, MRR, MAP, nDCG, R-precision, AQWV, empty results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch, checked_outputs
from ..core.conventions import Conventions, RankCutOff, SignatureOption, signature_number
from ..core.derivation import add_outcome
from ..core.metrics_base import declare, set_metadata
from ..core.reduce import Mean, SumsReducer
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.hits import (
    Floats,
    GoldPositions,
    IdealRanking,
    Ints,
    MatchedSample,
    RankingView,
    UnitPositions,
    capped_gold,
    early_hits,
    gold_positions,
    hits,
    hits_within,
    ideal_ranking,
    log_discounts,
    reject_duplicates,
    sum_by_query,
)
from ..features.rankings import document_rankings, highest_levels
from ..options import NonNegativeFloat, PositiveInt
from ..text.norm_names import TextNorm
from .ranking import (
    Gold,
    RankingMetric,
    aqwv_at_k,
    f1_at_k,
    hit_rate_at_k,
    map_at_k,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    r_precision,
    recall_at_k,
)

# --- rank-aware retrieval metrics: MRR, MAP, nDCG, R-precision -------------------------------------------------------

GainScheme = Literal["binary", "exponential", "linear"]

EFFECTIVE_K = SignatureOption("active_conventions.k_policy", unless="written", words={"effective": "eff"})
"""Shows K_eff in the signature of a metric that divides by its cut-off."""
CONTAINS = SignatureOption("contains")
"""How gold texts are normalised that are looked for inside chunks; ``None``: gold is found as the conventions say."""


@dataclass(frozen=True)
class CutOffMetric(RankingMetric):
    """A ranking metric of the first ``k`` positions, or of the whole ranking where ``k`` is ``None``."""

    k: RankCutOff | None
    target = TargetCategory.RETRIEVAL_RELEVANCE

    def definition_options(self, ranked: Sequence[str], scores: Sequence[float | None]) -> dict[str, Any]:
        """Adds the cut-off."""
        return {**super().definition_options(ranked, scores), "k": self.plain_k(ranked)}


@dataclass(frozen=True)
class OrderMetric(CutOffMetric):
    """A metric of the order of the first ``k`` positions; by default of all."""

    k: RankCutOff | None = None
    target = TargetCategory.RETRIEVAL_ACCURACY
    metadata = declare(matches_gold=True)


@register("mrr", at="k")
@dataclass(frozen=True)
class MRRAtK(OrderMetric):
    r"""One over the rank of the first relevant document; 0 if none is returned (within k).

    .. math:: 1 / r_1

    The preset `golden` cuts an `mrr` that names no k at 10. With `match: contains` a gold text is found inside a chunk.
    """

    contains: TextNorm | None = field(default=None, kw_only=True)

    definition = mrr_at_k
    text_measure = "reciprocal_rank"
    metadata = declare(
        reference="trec_eval `recip_rank`; Voorhees 1999",
        examples=(
            "mrr",
            "mrr@2",
            {"mrr": {"conventions": "golden"}},
        ),
        aliases={"ir_measures": ("RR", "MRR"), "trec_eval": ("recip_rank",)},
        peers={"ranx": ("mrr", "mrr@k"), "pytrec_eval": ("recip_rank",)},
        signature={"cut": SignatureOption("max_rank", differs_from="k"), "contains": CONTAINS},
    )

    @property
    def max_rank(self) -> int | None:
        """The effective cut-off."""
        return self.k if self.k is not None else self.active_conventions.mrr_cut

    def score(self, batch: Batch) -> Scores:
        """The reciprocal rank of the first hit."""
        if self.contains is not None:
            return self.text_scores(batch)
        all_hits = hits(batch, self.active_conventions, self.view_of(batch))
        first = np.flatnonzero(all_hits.place == 0)
        row, rank = all_hits.row[first], all_hits.rank[first]
        values = np.zeros(len(batch))
        values[row] = 1.0 / (rank + 1)
        if self.max_rank is not None:
            values[row[rank >= self.max_rank]] = 0.0
        return self.scores(batch, values)


@register("r_precision")
@dataclass(frozen=True)
class RPrecision(RankingMetric):
    r"""Proportion of the first |G| positions that hold a relevant document: precision and recall where they meet.

    .. math:: |G \cap R_{|G|}| / |G|
    """

    definition = r_precision
    metadata = declare(
        matches_gold=True,
        reference="trec_eval `Rprec`",
        examples=("r_precision",),
        aliases={"ir_measures": ("Rprec", "RPrecision"), "trec_eval": ("Rprec",)},
        peers={"ranx": ("r-precision",), "pytrec_eval": ("Rprec",)},
    )

    def score(self, batch: Batch) -> Scores:
        """Hits within as many positions as there is gold."""
        all_hits = hits(batch, self.active_conventions, self.view_of(batch))
        early = all_hits.rank < all_hits.gold[all_hits.row]
        within = np.bincount(all_hits.row[early], minlength=len(batch))
        return self.scores(batch, within / np.maximum(all_hits.gold, 1))


@register("map", at="k")
@dataclass(frozen=True)
class MeanAveragePrecision(OrderMetric):
    r"""Average precision: the precision at each hit, added up over the hits within k and divided.

    .. math:: \frac{\sum_i i / r_i}{d}, \quad r_i = \text{rank of the i-th hit}

    d is the number of hits themselves (`ap: hits`, preset `auepora`, shown as "map (over hits)"), min(|G|, k)
    (`capped`, preset `paper`) or |G| (`gold`, presets `golden`, `client`, `trec`). Over hits it ignores recall, so it
    cannot compare runs of different depth: returning fewer documents raises it. Use `ap: gold` for that. Without a hit
    it is 0. With `match: contains` a gold text is found inside a chunk, and with `ap: new_gold` in addition each rank
    adds the number of texts that are new there over the rank, divided by min(|G|, k), as in MultiHop-RAG's script.
    """

    contains: TextNorm | None = field(default=None, kw_only=True)
    new_gold: bool = field(default=False, kw_only=True)

    definition = map_at_k
    text_measure = "average_precision"
    divisor = "ap"
    metadata = declare(
        reference="trec_eval `map`, `map_cut` (`ap: gold`)",
        examples=(
            "map",
            "map@3",
            {"map@3": {"conventions": "paper"}},
            {"map": {"ap": "gold"}},
        ),
        aliases={"ir_measures": ("AP", "MAP"), "trec_eval": ("map", "map_cut_k")},
        peers={"ranx": ("map", "map@k"), "pytrec_eval": ("map", "map_cut_k")},
        signature={
            "ap": "active_conventions.ap",
            "k": replace(EFFECTIVE_K, where=("active_conventions.ap", "capped")),
            "contains": CONTAINS,
            "new_gold": SignatureOption("new_gold", unless=False),
        },
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.new_gold and self.contains is None:
            raise BadValueError("'ap: new_gold' counts gold texts inside chunks; it needs 'match: contains'")

    def score(self, batch: Batch) -> Scores:
        """The sum of the precisions at the hits over the divisor of the conventions."""
        if self.contains is not None:
            return self.text_scores(batch)
        rules, view = self.active_conventions, self.view_of(batch)
        all_hits = hits(batch, rules, view)
        row, rank, place = all_hits.row, all_hits.rank, all_hits.place
        if self.k is not None:
            early = early_hits(batch, rules, self.k, view)
            row, rank, place = row[early], rank[early], place[early]
        total = sum_by_query(row, (place + 1) / (rank + 1), len(batch))
        if rules.ap == "hits":
            divisor = hits_within(batch, rules, self.k, view)
        elif rules.ap == "capped":
            divisor = capped_gold(all_hits, self.k, rules)
        else:
            divisor = all_hits.gold
        return self.scores(batch, total / np.maximum(divisor, 1))


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
    discount: Literal["log2", "none"] = field(default="log2", kw_only=True)
    """``none``: the gain of the first k over the best possible one, whatever the order."""

    definition = ndcg_at_k
    metadata = declare(
        reference="Järvelin & Kekäläinen 2002; Burges et al. 2005 (exponential); trec_eval `ndcg`, `ndcg_cut` (linear)",
        examples=(
            "ndcg",
            "ndcg@3",
            {"ndcg@3": {"gain_scheme": "linear"}},
            {"ndcg": {"gain_scheme": "exponential"}},
            {"ndcg@3": {"gain_scheme": "linear", "ties": "average"}},
            {"ndcg@3": {"gain_scheme": "linear", "discount": "none"}},
            {"ndcg@2": {"discount": "none"}},
        ),
        aliases={"ir_measures": ("nDCG",), "trec_eval": ("ndcg", "ndcg_cut_k")},
        peers={"ranx": ("ndcg", "ndcg@k"), "pytrec_eval": ("ndcg", "ndcg_cut_k")},
        signature={
            "gain": "gain",
            "ties": SignatureOption("ties", unless="order"),
            "discount": SignatureOption("discount", unless="log2"),
            "k": EFFECTIVE_K,
        },
    )

    @property
    def gain(self) -> GainScheme:
        """The effective gain scheme."""
        return self.gain_scheme or self.active_conventions.gain

    def score(self, batch: Batch) -> Scores:
        """Gain over ideal gain."""
        if self.ties == "average":
            return self._averaged(batch)
        view = self.view_of(batch)
        every = gold_positions(batch, view)
        # With every level at 1 all schemes agree, provided that level 1 is relevant.
        ungraded = self.active_conventions.min_relevance <= 1 and (every.gold_level == 1).all()
        plain = self.gain == "binary" or bool(ungraded)
        dcg, ideal = self._binary(batch, view) if plain else self._graded(every, view, ideal_ranking(batch, view))
        values = np.divide(dcg, ideal, out=np.zeros_like(dcg), where=ideal > 0.0)
        return self.scores(batch, values)

    def definition_options(self, ranked: Sequence[str], scores: Sequence[float | None]) -> dict[str, Any]:
        """Adds the gain scheme, and the scores where ties share their gains."""
        ties = {} if self.ties == "order" else {"scores": scores}
        return {**super().definition_options(ranked, scores), "gain": self.gain, **ties}

    def _discounts(self, *ranks: Ints) -> Floats:
        """The discount of each rank."""
        logs = log_discounts(*ranks)
        return logs if self.discount == "log2" else np.ones_like(logs)

    def _averaged(self, batch: Batch) -> Scores:
        lists = [output.retrieved for output in batch.outputs if output is not None]
        retrieved = list(chain.from_iterable(lists))
        if retrieved and all(item.score is None for item in retrieved):
            raise BadValueError(
                f"metric '{self.name}' averages over documents with equal scores, but no retrieved document has a "
                "score; give the scores in the outputs, or leave out 'ties: average'"
            )
        values = [
            0.0 if output is None else self.reference(sample, output).value or 0.0
            for sample, output in zip(batch.samples, batch.outputs, strict=True)
        ]
        return self.scores(batch, np.array(values, dtype=np.float64))

    def _binary(self, batch: Batch, view: RankingView) -> tuple[Floats, Floats]:
        all_hits = hits(batch, self.active_conventions, view)
        row, rank = all_hits.row, all_hits.rank
        if self.k is not None:
            early = early_hits(batch, self.active_conventions, self.k, view)
            row, rank = row[early], rank[early]
        best = capped_gold(all_hits, self.k, self.active_conventions)
        gains = 1.0 / self._discounts(rank, best)
        ideal = np.concatenate(([0.0], np.cumsum(gains)))[best]
        return sum_by_query(row, gains[rank], len(batch)), ideal

    def _graded(self, every: GoldPositions, view: RankingView, best: IdealRanking) -> tuple[Floats, Floats]:
        queries = len(every.gold_count)
        row, rank, level = every.row, every.rank, every.level
        cut = self.position_cut(view)
        if math.isfinite(cut):
            within = rank < cut
            row, rank, level = row[within], rank[within], level[within]
        best_row, best_rank, best_level = best.row, best.rank, best.level
        if self.k is not None or self.active_conventions.k_policy == "effective":
            within = best_rank < self._ideal_depth(every, view)[best_row]
            best_row, best_rank, best_level = best_row[within], best_rank[within], best_level[within]
        logs = self._discounts(rank, best_rank)
        dcg = sum_by_query(row, self._gains(level) / logs[rank], queries)
        return dcg, sum_by_query(best_row, self._gains(best_level) / logs[best_rank], queries)

    def _ideal_depth(self, every: GoldPositions, view: RankingView) -> Ints:
        """The depth of the ideal ranking per query."""
        depth = np.full(len(every.returned), np.iinfo(np.int64).max if self.k is None else self.k)
        if self.active_conventions.k_policy == "effective":
            depth = np.minimum(depth, np.minimum(every.returned, self.position_cut(view)))
        return depth

    def _gains(self, level: Ints) -> Floats:
        positive = np.maximum(level, 0).astype(np.float64)
        return np.exp2(positive) - 1.0 if self.gain == "exponential" else positive


# --- recall, precision, F1 and hit rate at a cut-off -----------------------------------------------------------------


def precision_values(batch: Batch, k: int | None, rules: Conventions, view: RankingView) -> Floats:
    """Precision per query, with the denominator of the conventions."""
    within = hits_within(batch, rules, k, view)
    if k is not None and rules.precision == "k" and rules.k_policy == "written":
        return within / k
    returned = hits(batch, rules, view).returned
    positions = returned if k is None else np.minimum(returned, k)
    return np.asarray(within / np.maximum(positions, 1), dtype=np.float64)


@register("recall", at="k")
@dataclass(frozen=True)
class RecallAtK(CutOffMetric):
    r"""Proportion of the relevant documents that are among the first k.

    .. math:: |G \cap R_k| / |G|

    The same in all conventions for binary gold; they differ only in queries with nothing relevant.
    """

    positions: ClassVar[UnitPositions] = "reached"
    definition = recall_at_k
    metadata = declare(
        matches_gold=True,
        reference="trec_eval `recall`",
        examples=(
            "recall@1",
            "recall@5",
            {"recall@5": {"conventions": "paper"}},
        ),
        aliases={"ir_measures": ("R", "Recall"), "trec_eval": ("recall_k",)},
        peers={"ranx": ("recall@k",), "pytrec_eval": ("recall_k",)},
    )

    def score(self, batch: Batch) -> Scores:
        """Hits over gold."""
        rules, view = self.active_conventions, self.view_of(batch)
        gold = np.maximum(hits(batch, rules, view).gold, 1)
        return self.scores(batch, hits_within(batch, rules, self.k, view) / gold)


@dataclass(frozen=True)
class _PrecisionMetric(CutOffMetric):
    """A metric with precision in it, whose denominator follows the conventions.

    Where gold is not matched by id, precision counts chunks that contain gold.
    """

    positions: ClassVar[UnitPositions] = "chunks"
    divisor = "precision"
    metadata = declare(
        matches_gold=True,
        signature={
            "p": "active_conventions.precision",
            "k": replace(EFFECTIVE_K, where=("active_conventions.precision", "k")),
        },
    )


@register("precision", at="k")
@dataclass(frozen=True)
class PrecisionAtK(_PrecisionMetric):
    r"""Proportion of the first k positions that hold a relevant document.

    .. math:: |G \cap R_k| / \min(k, |R|)

    Divided by k itself under the presets `golden`, `client` and `trec` (`precision: k`). Returning nothing scores 0. A
    document that is returned twice is one hit and occupies two positions.
    """

    definition = precision_at_k
    metadata = declare(
        reference="trec_eval `P` (`precision: k`)",
        examples=(
            "precision@1",
            "precision@5",
            {"precision@5": {"conventions": "client"}},
        ),
        aliases={"ir_measures": ("P", "Precision"), "trec_eval": ("P_k",)},
        peers={"ranx": ("precision@k",), "pytrec_eval": ("P_k",)},
    )

    def score(self, batch: Batch) -> Scores:
        """Hits over positions."""
        return self.scores(batch, precision_values(batch, self.k, self.active_conventions, self.view_of(batch)))


@register("f1", at="k")
@dataclass(frozen=True)
class F1AtK(_PrecisionMetric):
    r"""Harmonic mean of precision and recall of the first k.

    .. math:: \frac{2 P R}{P + R}

    The denominator of precision follows the conventions.
    """

    definition = f1_at_k
    metadata = declare(
        reference="van Rijsbergen 1979",
        examples=(
            "f1@3",
            {"f1@5": {"conventions": "client"}},
        ),
        aliases={"ir_measures": ("F1",)},
        peers={"ranx": ("f1@k",)},
    )

    def score(self, batch: Batch) -> Scores:
        """The harmonic mean per query."""
        rules, units = self.active_conventions, self.view_of(batch, "reached")
        precision = precision_values(batch, self.k, rules, self.view_of(batch))
        recall = hits_within(batch, rules, self.k, units) / np.maximum(hits(batch, rules, units).gold, 1)
        both = precision + recall
        values = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0.0)
        return self.scores(batch, values)

    def matched_value(self, found: MatchedSample, scores: Sequence[float | None]) -> float:
        """Precision over chunks, recall over gold units."""
        levels, ids = found.chunk_ranking()
        return f1_at_k(
            levels,
            ids,
            **self.definition_options(ids, scores),
            units=(*found.unit_ranking(), found.position_within(self.k)),
        )


@register("hit_rate", at="k")
@dataclass(frozen=True)
class HitRateAtK(CutOffMetric):
    r"""1 if any relevant document is among the first k, else 0.

    .. math:: [\,G \cap R_k \ne \emptyset\,]

    With `match: contains` a document is relevant if it contains the text of a gold document, both normalised as
    `text_norm` says: squad, lower, no_blanks, none.
    """

    contains: TextNorm | None = field(default=None, kw_only=True)

    positions: ClassVar[UnitPositions] = "reached"
    definition = hit_rate_at_k
    text_measure = "hit"
    metadata = declare(
        matches_gold=True,
        binary=True,
        reference="trec_eval `success`",
        examples=(
            "hit_rate@1",
            "hit_rate@5",
        ),
        aliases={"ir_measures": ("Success",), "trec_eval": ("success_k",)},
        peers={"ranx": ("hit_rate@k",), "pytrec_eval": ("success_k",)},
        signature={"contains": CONTAINS},
    )

    def score(self, batch: Batch) -> Scores:
        """Whether there is a hit."""
        if self.contains is not None:
            return self.text_scores(batch)
        within = hits_within(batch, self.active_conventions, self.k, self.view_of(batch))
        return self.scores(batch, (within > 0).astype(np.float64))


@register("recall_doc", at="k")
@dataclass(frozen=True)
class RecallDocAtK(RecallAtK):
    r"""Proportion of the relevant documents of which any chunk is among the first k.

    .. math:: |D \cap \text{parents}(R_k)| / |D|

    Positions count chunks, ids are those of their parent documents. D is `metadata["expected_doc_ids"]` where given,
    else the parents of `relevant_docs`.
    """

    ranks_ids: ClassVar[bool] = False
    view: ClassVar[RankingView] = document_rankings
    metadata = declare(
        requires=(),  # expected documents may be given in the metadata only
        by_chunk_id=False,  # parents do not depend on the chunking
        matches_gold=False,
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
        },
        by_parent_id=True,
        suggested=False,  # the same as recall where nothing has a parent
        suggested_with_spans=frozenset({"gold"}),
        reference="recall over parent documents",
        examples=(
            "recall_doc@1",
            "recall_doc@5",
        ),
    )

    def reference_ranking(self, sample: EvaluationSample, output: SystemOutputs) -> tuple[Gold | None, list[str]]:
        """Judged levels and returned ids of the parent documents."""
        ranked = [item.doc.parent for item in output.retrieved]
        if "expected_doc_ids" in sample.metadata:
            return list(sample.metadata["expected_doc_ids"]), ranked
        if sample.relevant_docs is None:
            return None, ranked
        return highest_levels(sample, key=attrgetter("parent")), ranked


# --- retrieval with costs: AQWV weighs misses against false alarms; empty result rate --------------------------------


class AQWVOverQueries(SumsReducer):
    """1 − mean P_miss − β·mean P_FA, misses averaged over queries with gold and false alarms over all queries.

    Reads the statistics (1 − P_miss or 0, whether there is gold, P_FA, 1).
    """

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.name = f"aqwv_program[{signature_number(beta)}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """The value; NaN if no query has gold."""
        found, with_gold, false_alarm, queries = sums
        return found / with_gold - self.beta * (false_alarm / queries) if with_gold else math.nan


@register("aqwv", at="k")
@dataclass(frozen=True)
class AQWV(RankingMetric):
    r"""Average query weighted value: 1 minus the costs of misses and false alarms.

    .. math:: 1 - P_\text{miss} - \beta \cdot P_\text{FA}

    P_miss is the share of the relevant documents that is not among the first k. P_FA is the share of the first k
    positions that is not a hit (`p_fa: returned`; nothing returned means no false alarm), or, with `p_fa: collection`
    and `corpus_size: N`, (|R_k| − hits)/(N − |G|) as in the MATERIAL program. `form: query` averages the per-query
    value over queries with gold; `form: program` averages P_miss over queries with gold and P_FA over all queries
    first.

    The range is [−β, 1]: do not draw it on an axis from 0 to 1. An empty ranking scores 0, more than most rankings; a
    failed answer therefore counts at −β, so that failing does not pay.
    """

    k: RankCutOff | None = None
    beta: NonNegativeFloat = 40.0
    p_fa: Literal["returned", "collection"] = "returned"
    corpus_size: PositiveInt | None = None
    form: Literal["query", "program"] = "query"

    definition = aqwv_at_k
    metadata = declare(
        suggested=False,  # the user must choose the cost of a false alarm
        reference="the MATERIAL program's AQWV (`form: program`, `p_fa: collection`)",
        examples=(
            "aqwv",
            "aqwv@2",
            {"aqwv": {"form": "program"}},
            {"aqwv": {"p_fa": "collection", "corpus_size": 50}},
        ),
        signature={
            "beta": "beta",
            "fa": "p_fa",
            "corpus": "corpus_size",
            "form": "form",
            "empty": None,  # the form says how empty gold is treated
        },
    )
    worst_stats = (0.0, math.nan, 1.0, 1.0)
    """Everything missed, everything a false alarm; the gold flag is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.corpus_size is not None) != (self.p_fa == "collection"):
            raise BadValueError("aqwv needs 'corpus_size' exactly when 'p_fa' is \"collection\"")
        set_metadata(self, range=(-float(self.beta), 1.0))
        object.__setattr__(self, "reducer", Mean() if self.form == "query" else AQWVOverQueries(self.beta))

    def score(self, batch: Batch) -> Scores:
        """The value of each query, and its P_miss and P_FA as statistics."""
        all_hits = hits(batch, self.active_conventions)
        within = hits_within(batch, self.active_conventions, self.k)
        returned = all_hits.returned if self.k is None else np.minimum(all_hits.returned, self.k)
        has_gold = all_hits.gold > 0
        recall = within / np.maximum(all_hits.gold, 1)
        if self.corpus_size is None:
            pool = returned
        else:
            pool = self.corpus_size - all_hits.gold
            if (gold_positions(batch).annotated & (pool < returned - within)).any():
                raise BadValueError(
                    f"aqwv: corpus_size is {self.corpus_size}, but a query has more relevant and returned documents "
                    "than that; give the size of the whole collection"
                )
        false_alarm = (returned - within) / np.maximum(pool, 1)
        values = 1.0 - np.where(has_gold, 1.0 - recall, 0.0) - self.beta * false_alarm
        if self.active_conventions.duplicates == "error":
            reject_duplicates(batch)
        skips = {"no_gold": ~gold_positions(batch).annotated, "empty_gold": ~has_gold & (self.form == "query")}
        return Scores.of(
            values, skip=skips, stats=np.column_stack([recall, has_gold, false_alarm, np.ones(len(batch))])
        )

    def skips_empty_gold(self, judged: bool) -> bool:
        """Always, except in the program form."""
        return self.form == "query"


@register("empty_result_rate")
@dataclass(frozen=True)
class EmptyResultRate(ConfiguredMetric):
    r"""Proportion of queries for which nothing at all was returned.

    .. math:: [\,|R| = 0\,]

    Over all queries; a failed output counts as empty. Lower is better.
    """

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        reads=frozenset({"retrieved"}),
        binary=True,
        always_counts_failures=True,
        higher_is_better=False,
        examples=("empty_result_rate",),
        signature={},
    )

    def score(self, batch: Batch) -> Scores:
        """Whether the list is empty."""
        checked_outputs(batch)
        return Scores.of(gold_positions(batch).returned == 0)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The plain definition."""
        return Score(add_outcome(f"{len(output.retrieved)} documents were returned", 0.0 if output.retrieved else 1.0))
