"""Ranking metrics that use relevance judgements: bpref, Judged@k, accuracy, RBP with its residual, ERR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from ..core.batch import Batch
from ..core.conventions import RankCutOff
from ..core.metrics_base import declare
from ..core.registry import register
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..features.hits import Floats, Ints, gold_positions, hits, hits_within, sum_by_query
from ..features.rankings import judged_rankings, rankings
from ..options import Gt, Lt, PositiveInt
from .ranking import (
    Gold,
    RankingMetric,
    accuracy_at_k,
    bpref,
    err_at_k,
    judged_at_k,
    rbp,
    rbp_residual,
    relevance_levels,
)


@register("bpref")
@dataclass(frozen=True)
class BPref(RankingMetric):
    r"""Binary preference: penalises judged non-relevant documents above relevant ones; unjudged documents are ignored.

    .. math:: \frac{\sum_{r} 1 - \min(n_r, |G|) / \min(|N|, |G|)}{|G|}, \quad n_r = \text{non-relevant above r}

    N are the documents judged non-relevant: candidates, or levels from 0 to below `min_relevance`. A relevant document
    with none of them above it adds 1. Without any judged non-relevant document it is recall.
    """

    definition = bpref
    metadata = declare(
        reference="Buckley & Voorhees 2004; trec_eval `bpref`",
        examples=(
            "bpref",
            {"bpref": {"min_relevance": 2}},
        ),
        aliases={"ir_measures": ("Bpref",), "trec_eval": ("bpref",)},
        peers={"pytrec_eval": ("bpref",)},
    )

    def score(self, batch: Batch) -> Scores:
        """By the number of judged non-relevant documents above each hit."""
        every, rules = gold_positions(batch, judged_rankings), self.active_conventions
        level, gold_level = every.level, every.gold_level
        relevant = (level >= rules.min_relevance) & (every.rank < self.cut)
        other = (level >= 0) & (level < rules.min_relevance)
        per_query = np.bincount(every.row[other], minlength=len(batch))
        above = np.cumsum(other, dtype=np.int64) - (np.cumsum(per_query) - per_query)[every.row]
        gold = hits(batch, rules, judged_rankings).gold
        judged_other = (gold_level >= 0) & (gold_level < rules.min_relevance)
        others = np.bincount(every.gold_rows()[judged_other], minlength=len(batch))
        row, above = every.row[relevant], above[relevant]
        most = np.maximum(np.minimum(others, gold), 1)[row]
        preference = 1.0 - np.minimum(above, gold[row]) / most
        return self.scores(batch, sum_by_query(row, preference, len(batch)) / np.maximum(gold, 1))


@register("judged", at="k")
@dataclass(frozen=True)
class JudgedAtK(RankingMetric):
    r"""Proportion of the first k positions that holds a judged document: the coverage of the judgements behind the
    other metrics.

    .. math:: |J \cap R_k| / \min(k, |R|)

    Judged are the relevant documents and the candidates (levels of 0 and above).
    """

    k: RankCutOff

    target = TargetCategory.RETRIEVAL_RELEVANCE
    definition = judged_at_k
    metadata = declare(
        skip_reasons={"no_gold": "`relevant_docs` is not annotated"},
        reference="ir_measures `Judged`; 1 − trec_eval `unj` for full lists",
        examples=(
            "judged@2",
            "judged@5",
        ),
        aliases={"ir_measures": ("Judged",)},
        signature={"empty": None, "rel": None},  # relevance and empty gold do not matter
    )

    def score(self, batch: Batch) -> Scores:
        """Judged positions over positions."""
        every = gold_positions(batch, judged_rankings)
        keep = (every.level >= 0) & (every.rank < self.cut)
        positions = np.minimum(every.returned, self.cut)
        values = np.bincount(every.row[keep], minlength=len(batch)) / np.maximum(positions, 1)
        return Scores.of(values, skip={"no_gold": ~every.annotated})

    def skips_empty_gold(self, judged: bool) -> bool:
        """False: queries without judgements score 0."""
        return False


@register("accuracy", at="k")
@dataclass(frozen=True)
class AccuracyAtK(RankingMetric):
    r"""Proportion of the candidates on the right side of the cut: relevant ones within k, non-relevant ones outside.

    .. math:: \frac{TP + TN}{|C \cup G|}

    Returning the first k is read as calling them relevant. Needs candidates; with few relevant ones among many,
    returning nothing already scores well.
    """

    k: RankCutOff

    definition = accuracy_at_k
    metadata = declare(
        suggested=False,  # large candidate sets inflate it
        skip_reasons={
            **RankingMetric.metadata.skip_reasons,
            "no_candidates": "nothing was judged non-relevant: neither candidates nor levels below `min_relevance`",
        },
        reference="Auepora, retrieval accuracy",
        examples=(
            "accuracy@2",
            "accuracy@5",
        ),
    )

    def score(self, batch: Batch) -> Scores:
        """Right decisions over judged documents."""
        every, rules = gold_positions(batch, judged_rankings), self.active_conventions
        level, gold_level = every.level, every.gold_level
        rows = every.gold_rows()
        gold = hits(batch, rules, judged_rankings).gold
        # Where min_relevance is below 0 an unjudged level may still be gold.
        others = np.bincount(rows[(gold_level >= 0) & (gold_level < rules.min_relevance)], minlength=len(batch))
        wrong = (level >= 0) & (level < rules.min_relevance) & (every.rank < self.cut)
        false_positives = np.bincount(every.row[wrong], minlength=len(batch))
        true_positives = hits_within(batch, rules, self.k, judged_rankings)
        right = true_positives + others - false_positives
        scores = self.scores(batch, right / np.maximum(others + gold, 1))
        unpooled = (others == 0) & (scores.status == Status.SCORED)
        return scores.replaced(unpooled, Status.SKIPPED, "no_candidates", np.nan)

    def score_plain(self, gold: Gold | None, ranked: Sequence[str], **about: Any) -> Score:
        """Skips queries without judged non-relevant documents."""
        score = super().score_plain(gold, ranked, **about)
        others = gold is not None and any(
            0 <= level < self.active_conventions.min_relevance for level in relevance_levels(gold).values()
        )
        return score if others or score.status is not Status.SCORED else Score.skip("no_candidates")


@register("rbp")
@dataclass(frozen=True)
class RBP(RankingMetric):
    r"""Rank-biased precision: the expected gain of a reader who continues to the next position with probability p.

    .. math:: (1 - p) \sum_{i} p^{r_i - 1}, \quad r_i = \text{rank of the i-th hit}

    Relevance is binary. `details["residual"]` is the mean of what unjudged positions, the end of the list included,
    could still add: the value lies between itself and itself plus the residual. trec_eval uses p = 0.9: `p: 0.9` gives
    its values.
    """

    p: Annotated[float, Gt(0), Lt(1)] = 0.8

    definition = rbp
    metadata = declare(
        matches_gold=True,
        stat_names=("residual",),
        reference="Moffat & Zobel 2008; trec_eval 10 `rbp`, `rbp_resid` (binary judgements)",
        examples=(
            "rbp",
            {"rbp": {"p": 0.5}},
        ),
        aliases={"ir_measures": ("RBP",)},
        peers={"ranx": ("rbp.80",)},
        signature={"p": "p"},
    )
    worst_stats = (0.0,)
    """A failed answer has no residual."""

    def score(self, batch: Batch) -> Scores:
        """The weighted sum of the hits, and the residual."""
        rules, view = self.active_conventions, self.view_of(batch)
        if view is rankings:
            view = judged_rankings
        judged = judged_rankings if rules.match == "id" else view
        every, all_hits = gold_positions(batch, judged), hits(batch, rules, view)
        weight = _powers(self.p, np.concatenate([every.rank, all_hits.rank]))
        keep = (every.level >= 0) & (every.rank < self.position_cut(judged))
        row, rank = every.row[keep], every.rank[keep]
        residual = 1.0 - (1.0 - self.p) * sum_by_query(row, weight[rank], len(batch))
        total = sum_by_query(all_hits.row, weight[all_hits.rank], len(batch))
        return self.scores(batch, (1.0 - self.p) * total, stats=residual[:, None])

    def reference_stats(self, sample: EvaluationSample, output: SystemOutputs) -> Sequence[float]:
        """The residual by the plain definition."""
        found = self.match_units(sample, output)
        if found is not None and found.match != "id":
            units, places = found.unit_ranking()
            return [rbp_residual(units, places, p=self.p)]
        gold, ranked = self.reference_ranking(sample, output)
        return [rbp_residual(gold or {}, ranked[: self.active_conventions.depth], p=self.p)]


@lru_cache(maxsize=8)
def _power_table(p: float, size: int) -> Floats:
    return np.array([p**rank for rank in range(size)])


def _powers(p: float, ranks: Ints) -> Floats:
    """The powers of p by 0-based rank, up to the highest rank."""
    return _power_table(p, 1 << (int(ranks.max(initial=0)) + 1).bit_length())


@register("err", at="k")
@dataclass(frozen=True)
class ERRAtK(RankingMetric):
    r"""Expected reciprocal rank: one over the position at which a reader is satisfied, over the first k positions.

    .. math:: \sum_{r} \frac{s_r}{r} \prod_{i < r} (1 - s_i), \quad s_r = \frac{2^{g_r} - 1}{2^{\text{max}}}

    g is the level of the document at rank r. `max_grade`, the highest level there can be, must be given, since the
    value depends on it; a level above it is an error. `min_relevance` does not matter to the gain.
    """

    max_grade: PositiveInt
    k: RankCutOff | None = None

    definition = err_at_k
    metadata = declare(
        matches_gold=True,
        suggested=False,  # the user must set max_grade
        reference="Chapelle et al. 2009",
        examples=(
            {"err": {"max_grade": 3}},
            {"err@3": {"max_grade": 4}},
        ),
        aliases={"ir_measures": ("ERR",)},
        signature={"max": "max_grade"},
    )

    def score(self, batch: Batch) -> Scores:
        """Loops over hit positions: the first hit of every query, then the second, and so on."""
        view = self.view_of(batch)
        every = gold_positions(batch, view)
        level, gold_level = every.level, every.gold_level
        highest = int(gold_level.max(initial=0))
        if highest > self.max_grade:
            query = int(every.gold_rows()[np.argmax(gold_level > self.max_grade)])
            raise BadValueError(
                f"sample '{rankings(batch).ids[query]}': a document has a level above err's max_grade {self.max_grade};"
                f" give the highest level of your scale, {highest} or more"
            )
        keep = every.rank < self.position_cut(view)
        row, rank = every.row[keep], every.rank[keep]
        satisfied = (np.exp2(np.maximum(level[keep], 0).astype(np.float64)) - 1.0) / 2.0**self.max_grade
        per_query = np.bincount(row, minlength=len(batch))
        place = np.arange(len(row)) - (np.cumsum(per_query) - per_query)[row]
        reading, total = np.ones(len(batch)), np.zeros(len(batch))
        for step in range(int(per_query.max(initial=0))):
            now = place == step
            here = row[now]
            total[here] += reading[here] * satisfied[now] / (rank[now] + 1)
            reading[here] *= 1.0 - satisfied[now]
        return self.scores(batch, total)
