"""Ranking measures: plain functions of one query, their derivations, and the base class of ranking metrics."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log2
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.conventions import RankCutOff
from ..core.derivation import NO_CONTEXT, Cell, Derivation, DerivationBuilder, ExplainContext, format_number, join_items
from ..core.metrics_base import RunInfo, declare
from ..core.registry import ConfiguredMetric
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import BadValueError, DuplicateIdError
from ..features.hits import RankingView, gold_positions, has_judgement, hits, reject_duplicates, view_key
from ..features.rankings import rankings
from ..options import check_arguments

__all__ = [
    "aqwv_at_k",
    "check_k",
    "f1_at_k",
    "hit_ranks",
    "hit_rate_at_k",
    "map_at_k",
    "mrr_at_k",
    "ndcg_at_k",
    "precision_at_k",
    "r_precision",
    "recall_at_k",
]

Gold = Collection[str] | Mapping[str, int]


@check_arguments
def check_k(k: RankCutOff | None) -> None:
    """Raise unless ``k`` is an integer >= 1 or ``None``."""


def relevant_ids(gold: Gold, min_relevance: int = 1) -> set[str]:
    """G: the ids judged at ``min_relevance`` or above; an id without a level has level 1."""
    if isinstance(gold, Mapping):
        return {doc_id for doc_id, level in gold.items() if level >= min_relevance}
    return set(gold) if min_relevance <= 1 else set()


def hit_ranks(gold: Collection[str], ranked: Sequence[str], k: int | None = None) -> list[int]:
    """The 1-based positions, up to ``k``, at which a gold id appears for the first time."""
    check_k(k)
    left = set(gold)
    ranks = []
    for rank, doc_id in enumerate(ranked[:k], start=1):
        if doc_id in left:
            left.remove(doc_id)
            ranks.append(rank)
    return ranks


def recall_at_k(gold_ids: Gold, ranked_ids: Sequence[str], k: int | None, *, min_relevance: int = 1) -> float:
    """Proportion of the relevant documents that are among the first ``k``."""
    gold = relevant_ids(gold_ids, min_relevance)
    hits = hit_ranks(gold, ranked_ids, k)
    return len(hits) / len(gold) if gold else 0.0


def precision_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None,
    *,
    divide_by: Literal["returned", "k"] = "returned",
    min_relevance: int = 1,
) -> float:
    """Proportion of the first ``k`` that is relevant; over min(k, positions returned), or over ``k`` itself."""
    hits = hit_ranks(relevant_ids(gold_ids, min_relevance), ranked_ids, k)
    returned = len(ranked_ids)
    positions = returned if k is None else k if divide_by == "k" else min(k, returned)
    return len(hits) / positions if positions else 0.0


def hit_rate_at_k(gold_ids: Gold, ranked_ids: Sequence[str], k: int | None, *, min_relevance: int = 1) -> float:
    """1.0 if any relevant document is among the first ``k``."""
    return 1.0 if hit_ranks(relevant_ids(gold_ids, min_relevance), ranked_ids, k) else 0.0


def mrr_at_k(gold_ids: Gold, ranked_ids: Sequence[str], k: int | None, *, min_relevance: int = 1) -> float:
    """One over the rank of the first relevant document within ``k``; 0.0 if there is none."""
    ranks = hit_ranks(relevant_ids(gold_ids, min_relevance), ranked_ids, k)
    return 1.0 / ranks[0] if ranks else 0.0


def map_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None,
    *,
    divide_by: Literal["hits", "capped", "gold"] = "capped",
    min_relevance: int = 1,
) -> float:
    """Average precision: the precisions at the hits within ``k``, added up and divided.

    By min(|G|, k) (``capped``), by |G| (``gold``, as trec_eval does), or by the hits themselves (``hits``).
    """
    gold = relevant_ids(gold_ids, min_relevance)
    ranks = hit_ranks(gold, ranked_ids, k)
    if not ranks:
        return 0.0
    total = 0.0
    for count, rank in enumerate(ranks, start=1):
        total += count / rank
    capped = len(gold) if k is None else min(len(gold), k)
    return total / {"hits": len(ranks), "capped": capped, "gold": len(gold)}[divide_by]


def f1_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None,
    *,
    divide_by: Literal["returned", "k"] = "returned",
    min_relevance: int = 1,
) -> float:
    """Harmonic mean of precision and recall of the first ``k``."""
    precision = precision_at_k(gold_ids, ranked_ids, k, divide_by=divide_by, min_relevance=min_relevance)
    recall = recall_at_k(gold_ids, ranked_ids, k, min_relevance=min_relevance)
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0


def r_precision(gold_ids: Gold, ranked_ids: Sequence[str], *, min_relevance: int = 1) -> float:
    """Proportion of the first |G| positions that hold a relevant document."""
    gold = relevant_ids(gold_ids, min_relevance)
    return len(hit_ranks(gold, ranked_ids, len(gold))) / len(gold) if gold else 0.0


def relevance_gain(level: int, scheme: Literal["binary", "exponential", "linear"], min_relevance: int = 1) -> float:
    """The gain of a document of this level, never negative. Only the binary scheme has a threshold."""
    if scheme == "binary":
        return float(level >= min_relevance)
    positive = max(level, 0)
    return 2.0**positive - 1.0 if scheme == "exponential" else float(positive)


def ndcg_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None,
    *,
    gain: Literal["binary", "exponential", "linear"] = "binary",
    min_relevance: int = 1,
    scores: Sequence[float | None] | None = None,
) -> float:
    """Discounted gain of the first ``k`` over that of the best possible ranking, with discount log2(rank + 1).

    With the ``scores`` of the ranked documents, neighbours with equal scores share their gains: the value is the mean
    over all orders of tied documents, as in scikit-learn.
    """
    check_k(k)
    levels = dict(gold_ids) if isinstance(gold_ids, Mapping) else dict.fromkeys(gold_ids, 1)
    gains = {doc_id: relevance_gain(level, gain, min_relevance) for doc_id, level in levels.items()}
    ideal_gains = sorted(gains.values(), reverse=True)
    ideal = _dcg(ideal_gains if k is None else ideal_gains[:k])
    left = dict(gains)
    ranked_gains = [left.pop(doc_id, 0.0) for doc_id in (ranked_ids[:k] if scores is None else ranked_ids)]
    if scores is not None:
        ranked_gains = average_tied_gains(ranked_gains, scores)[:k]
    dcg = _dcg(ranked_gains)
    return dcg / ideal if ideal > 0.0 else 0.0


def average_tied_gains(gains: Sequence[float], scores: Sequence[float | None]) -> list[float]:
    """The gains, averaged over neighbours with equal scores; a score of ``None`` has no ties."""
    averaged: list[float] = []
    for _, group in groupby(
        range(len(scores)), key=lambda position: (scores[position], position if scores[position] is None else None)
    ):
        positions = list(group)
        averaged += [sum(gains[position] for position in positions) / len(positions)] * len(positions)
    return averaged


def _dcg(gains: Sequence[float]) -> float:
    total = 0.0
    for rank, gain in enumerate(gains, start=1):
        total += gain / log2(rank + 1)
    return total


def aqwv_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None = None,
    *,
    beta: float = 40.0,
    corpus_size: int | None = None,
    min_relevance: int = 1,
) -> float:
    """1 − P_miss − β·P_FA of one query; false alarms over what was returned, or over the non-relevant collection."""
    gold = relevant_ids(gold_ids, min_relevance)
    returned = len(ranked_ids[:k])
    hits = len(hit_ranks(gold, ranked_ids, k))
    miss = 1.0 - hits / len(gold) if gold else 0.0
    pool = returned if corpus_size is None else corpus_size - len(gold)
    false_alarm = (returned - hits) / pool if pool > 0 else 0.0
    return 1.0 - miss - beta * false_alarm


# --- ranking measures that use relevance judgements, as plain functions of one query ---------------------------------
# A document is judged at a level of 0 or more, relevant at ``min_relevance`` or more. Nothing relevant gives 0.0.


def relevance_levels(gold: Gold) -> dict[str, int]:
    """The judged level of each id; an id without one has level 1."""
    return dict(gold) if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)


def judged_ids(gold: Gold) -> set[str]:
    """The ids with a judgement."""
    return {doc_id for doc_id, level in relevance_levels(gold).items() if level >= 0}


def judged_at_k(gold: Gold, ranked: Sequence[str], k: int) -> float:
    """Proportion of the first ``k`` positions that holds a judged document, over min(k, positions returned)."""
    positions = min(k, len(ranked))
    return len(hit_ranks(judged_ids(gold), ranked, k)) / positions if positions else 0.0


def accuracy_at_k(gold: Gold, ranked: Sequence[str], k: int, *, min_relevance: int = 1) -> float:
    """Proportion of the judged documents on the right side of the cut: relevant within ``k``, non-relevant outside."""
    check_k(k)
    pool, relevant, chosen = judged_ids(gold), relevant_ids(gold, min_relevance), set(ranked[:k])
    pool |= relevant
    right = len(relevant & chosen) + len(pool - relevant - chosen)
    return right / len(pool) if pool else 0.0


def bpref(gold: Gold, ranked: Sequence[str], *, min_relevance: int = 1) -> float:
    """Binary preference: penalises judged non-relevant documents above relevant ones; ignores unjudged documents.

    Each relevant document returned adds 1 - min(n, |G|) / min(|N|, |G|) for the n judged non-relevant ones above it.
    """
    relevant = relevant_ids(gold, min_relevance)
    other = judged_ids(gold) - relevant
    above, total = 0, 0.0
    for doc_id in dict.fromkeys(ranked):
        if doc_id in other:
            above += 1
        elif doc_id in relevant:
            total += 1.0 - min(above, len(relevant)) / min(len(other), len(relevant)) if above else 1.0
    return total / len(relevant) if relevant else 0.0


def rbp(gold: Gold, ranked: Sequence[str], *, p: float = 0.8, min_relevance: int = 1) -> float:
    """Rank-biased precision: the expected gain of a reader who continues to the next position with probability
    ``p``."""
    total = 0.0
    for rank in hit_ranks(relevant_ids(gold, min_relevance), ranked):
        total += p ** (rank - 1)
    return (1.0 - p) * total


def rbp_residual(gold: Gold, ranked: Sequence[str], *, p: float = 0.8) -> float:
    """The residual of rank-biased precision: the weight of all unjudged positions, the end included."""
    total = 0.0
    for rank in hit_ranks(judged_ids(gold), ranked):
        total += p ** (rank - 1)
    return 1.0 - (1.0 - p) * total


def err_at_k(gold: Gold, ranked: Sequence[str], k: int | None, *, max_grade: int) -> float:
    """Expected reciprocal rank at which a reader is satisfied; a document of level g satisfies by (2^g - 1) / 2^max."""
    check_k(k)
    levels = relevance_levels(gold)
    too_high = [level for level in levels.values() if level > max_grade]
    if too_high:
        raise BadValueError(f"err: a document has level {max(too_high)}, above max_grade {max_grade}")
    still_reading, total = 1.0, 0.0
    for rank, doc_id in enumerate(ranked[:k], start=1):
        satisfied = (2.0 ** max(levels.pop(doc_id, 0), 0) - 1.0) / 2.0**max_grade
        total += still_reading * satisfied / rank
        still_reading *= 1.0 - satisfied
    return total


# --- derivations of the ranking metrics: the hits, what each adds, and the division ----------------------------------


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """One query: judged levels, returned ids, and the relevance threshold."""

    levels: Mapping[str, int]
    ranked: Sequence[str]
    min_relevance: int
    depth: int | None = None
    scores: Sequence[float | None] = ()

    @classmethod
    def of(
        cls,
        gold: Gold,
        ranked: Sequence[str],
        min_relevance: int,
        depth: int | None,
        scores: Sequence[float | None] = (),
    ) -> RankedQuery:
        """From gold as in the plain definitions, cut at the depth of the conventions."""
        levels = dict(gold) if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)
        return cls(levels, ranked[:depth], min_relevance, depth, scores[:depth])

    @property
    def relevant(self) -> set[str]:
        """The ids of the relevant documents, G."""
        return relevant_ids(self.levels, self.min_relevance)

    def hits(self, k: int | None) -> list[tuple[int, str]]:
        """Rank and id of each relevant document within k, at its first position."""
        return self._first_positions(self.relevant, k)

    def _first_positions(self, doc_ids: set[str], k: int | None) -> list[tuple[int, str]]:
        first: dict[str, int] = {}
        for rank, doc_id in enumerate(self.ranked[:k], start=1):
            if doc_id in doc_ids:
                first.setdefault(doc_id, rank)
        return [(rank, doc_id) for doc_id, rank in first.items()]

    def first_steps(self, k: int | None) -> DerivationBuilder:
        """The first steps of every ranking metric: relevant ids and the ranking."""
        gold = sorted(self.relevant)
        threshold = "" if self.min_relevance == 1 else f" (level {self.min_relevance} or more)"
        graded = any(self.levels[doc_id] != 1 for doc_id in gold)
        labels = [f"{doc_id} (level {self.levels[doc_id]})" if graded else doc_id for doc_id in gold]
        steps = DerivationBuilder().add_step(f"Relevant{threshold}: {join_items(labels)}; |G| = {len(gold)}", len(gold))
        place = {rank: number for number, (rank, _) in enumerate(self.hits(k), start=1)}
        rows: list[tuple[Cell, ...]] = [
            (rank, doc_id, self.levels.get(doc_id), self._mark(rank, doc_id, place))
            for rank, doc_id in enumerate(self.ranked[:k], start=1)
        ]
        cut = "" if self.depth is None else f", the list cut at depth {self.depth} by the conventions"
        first = f"The first {k} positions" if k is not None else "All positions"
        return steps.table(f"{first} ({len(self.ranked)} returned{cut})", ("rank", "document", "level", "hit"), rows)

    def _mark(self, rank: int, doc_id: str, place: Mapping[int, int]) -> str:
        if rank in place:
            return f"hit {place[rank]}"
        return "returned before" if doc_id in self.ranked[: rank - 1] else ""


def format_fraction(top: float, bottom: float) -> str:
    """A division within a sentence."""
    return f"{format_number(top)} / {format_number(bottom)}"


def recall_steps(query: RankedQuery, k: int | None) -> Derivation:
    """Hits over gold."""
    steps, hits, gold = query.first_steps(k), len(query.hits(k)), len(query.relevant)
    if not gold:
        return steps.finish("Nothing is relevant: 0", 0.0)
    return steps.finish_with_value(f"Recall: hits / |G| = {format_fraction(hits, gold)}", hits / gold)


def _add_precision_step(
    steps: DerivationBuilder,
    query: RankedQuery,
    k: int | None,
    written: int | None,
    divide_by: Literal["returned", "k"],
) -> float:
    """Add the step of precision and return its value; ``k`` is the effective cut-off, ``written`` the given one."""
    if not query.ranked:
        steps.add_step("Nothing was returned: precision is 0", 0.0)
        return 0.0
    returned, hits = len(query.ranked), len(query.hits(k))
    positions = returned if k is None else k if divide_by == "k" else min(k, returned)
    what = "positions returned" if k is None else "k itself" if divide_by == "k" else "min(k, returned)"
    if k != written:
        what += ", where k is what the list can fill (K_eff)"
    value = hits / positions if positions else 0.0
    steps.add_step(
        f"Precision divides by {what} = {positions}: hits / {positions} = {format_fraction(hits, positions)} = "
        f"{format_number(value)}",
        value,
    )
    return value


def precision_steps(
    query: RankedQuery, k: int | None, written: int | None, divide_by: Literal["returned", "k"]
) -> Derivation:
    """Hits over positions."""
    steps = query.first_steps(k if query.ranked else written)
    value = _add_precision_step(steps, query, k, written, divide_by)
    return steps.finish_with_value("Precision", value)


def f1_steps(query: RankedQuery, k: int | None, written: int | None, divide_by: Literal["returned", "k"]) -> Derivation:
    """The harmonic mean of precision and recall."""
    steps = query.first_steps(k if query.ranked else written)
    precision = _add_precision_step(steps, query, k, written, divide_by)
    hits, gold = len(query.hits(k)) if query.ranked else 0, len(query.relevant)
    recall = hits / gold if gold else 0.0
    steps.add_step(
        f"Recall: {format_fraction(hits, gold)} = {format_number(recall)}"
        if gold
        else "Recall: nothing is relevant, 0",
        recall,
    )
    if precision + recall <= 0:
        return steps.finish("Precision and recall are both 0, and so is F1", 0.0)
    product = f"2 · {format_number(precision)} · {format_number(recall)}"
    text = f"F1: 2 · P · R / (P + R) = {product} / {format_number(precision + recall)}"
    return steps.finish_with_value(text, 2 * precision * recall / (precision + recall))


def hit_rate_steps(query: RankedQuery, k: int | None) -> Derivation:
    """Whether there is a hit."""
    hits = query.hits(k)
    if hits:
        rank, doc_id = hits[0]
        return query.first_steps(k).finish(f"{doc_id} is relevant and stands at rank {rank}: 1", 1.0)
    return query.first_steps(k).finish("No relevant document is among them: 0", 0.0)


def mrr_steps(query: RankedQuery, k: int | None) -> Derivation:
    """One over the rank of the first hit."""
    hits = query.hits(k)
    if not hits:
        return query.first_steps(k).finish("No relevant document is among them: 0", 0.0)
    rank, doc_id = hits[0]
    return query.first_steps(k).finish_with_value(f"The first hit is {doc_id} at rank {rank}: 1 / {rank}", 1.0 / rank)


def r_precision_steps(query: RankedQuery) -> Derivation:
    """Hits within as many positions as there is gold."""
    gold = len(query.relevant)
    if not gold:
        return query.first_steps(None).finish("Nothing is relevant: 0", 0.0)
    hits = len(query.hits(gold))
    return query.first_steps(gold).finish_with_value(
        f"Hits within the first |G| = {gold}: {format_fraction(hits, gold)}", hits / gold
    )


def average_precision_steps(
    query: RankedQuery, k: int | None, divide_by: Literal["hits", "capped", "gold"]
) -> Derivation:
    """The sum of the precisions at the hits, divided as the conventions require."""
    steps, hits, gold = query.first_steps(k), [] if k == 0 else query.hits(k), len(query.relevant)
    if not hits:
        return steps.finish("No relevant document is among them: 0", 0.0)
    total, rows = 0.0, []
    for found, (rank, doc_id) in enumerate(hits, start=1):
        total += found / rank
        rows.append((found, rank, doc_id, found / rank))
    steps.table(
        "Precision at each hit: how many hits up to here, over the rank", ("hit", "rank", "document", "i / r"), rows
    )
    steps.add_step(f"Their sum: {format_number(total)}", total)
    capped = gold if k is None else min(gold, k)
    divisor = {"hits": len(hits), "capped": capped, "gold": gold}[divide_by]
    words = {"hits": "the hits themselves", "capped": "min(|G|, k)", "gold": "|G|, as trec_eval does"}[divide_by]
    return steps.finish_with_value(
        f"Average precision divides by {words} (`ap: {divide_by}`): {format_fraction(total, divisor)}", total / divisor
    )


def ndcg_steps(
    query: RankedQuery,
    k: int | None,
    gain: Literal["binary", "exponential", "linear"],
    *,
    effective: bool,
    average_ties: bool = False,
) -> Derivation:
    """Discounted gain over that of the best ranking."""
    steps = query.first_steps(k)
    if k == 0:
        return steps.finish("Nothing was returned: 0", 0.0)
    words = {
        "binary": f"1 from level {query.min_relevance} on, else 0",
        "exponential": "2^level − 1",
        "linear": "the level itself",
    }[gain]
    gains = {doc_id: relevance_gain(level, gain, query.min_relevance) for doc_id, level in query.levels.items()}
    left = dict(gains)
    got = [(doc_id, left.pop(doc_id, 0.0)) for doc_id in (query.ranked if average_ties else query.ranked[:k])]
    if average_ties:
        shared = average_tied_gains([value for _, value in got], query.scores)
        got = list(zip(query.ranked, shared, strict=True))[:k]
        words += ", averaged over neighbours with equal scores"
    dcg = _add_dcg_table(steps, f"What was returned, with the gain {words} and the discount log2(rank + 1)", got)
    steps.add_step(f"DCG: {format_number(dcg)}", dcg)
    best = sorted(gains.items(), key=lambda item: item[1], reverse=True)
    depth = " as deep as the list is (K_eff)" if effective else "" if k is None else f" up to rank {k}"
    ideal = _add_dcg_table(
        steps, f"The best possible ranking{depth}: all gold by falling gain", best if k is None else best[:k]
    )
    steps.add_step(f"Ideal DCG: {format_number(ideal)}", ideal)
    if ideal <= 0:
        return steps.finish("There is nothing to gain: 0", 0.0)
    return steps.finish_with_value(f"nDCG: DCG / ideal DCG = {format_fraction(dcg, ideal)}", dcg / ideal)


def _add_dcg_table(steps: DerivationBuilder, text: str, gains: Sequence[tuple[str, float]]) -> float:
    total, rows = 0.0, []
    for rank, (doc_id, gain) in enumerate(gains, start=1):
        total += gain / log2(rank + 1)
        rows.append((rank, doc_id, gain, log2(rank + 1), gain / log2(rank + 1)))
    steps.table(text, ("rank", "document", "gain", "discount", "gain / discount"), rows)
    return total


def aqwv_steps(query: RankedQuery, k: int | None, beta: float, corpus_size: int | None) -> Derivation:
    """1 minus the costs of misses and false alarms."""
    steps, gold, hits = query.first_steps(k), len(query.relevant), len(query.hits(k))
    returned = len(query.ranked[:k])
    miss = 1.0 - hits / gold if gold else 0.0
    steps.add_step(
        f"P_miss: 1 − hits / |G| = 1 − {hits} / {gold} = {format_number(miss)}" if gold else "P_miss: no gold, 0", miss
    )
    pool = returned if corpus_size is None else corpus_size - gold
    false_alarm = (returned - hits) / pool if pool > 0 else 0.0
    among = "returned" if corpus_size is None else f"not relevant in the collection ({corpus_size} − {gold})"
    steps.add_step(
        f"P_FA: {returned} − {hits} false alarms among {pool} {among} = {format_number(false_alarm)}"
        if pool > 0
        else "P_FA: nothing returned, no false alarm, 0",
        false_alarm,
    )
    penalty = f"{format_number(beta)} · {format_number(false_alarm)}"
    text = f"AQWV: 1 − P_miss − β · P_FA = 1 − {format_number(miss)} − {penalty}"
    return steps.finish_with_value(text, 1.0 - miss - beta * false_alarm)


# --- the base class of metrics over rankings -------------------------------------------------------------------------


@dataclass(frozen=True)
class RankingMetric(ConfiguredMetric):
    """A metric over the ranked ids of each query."""

    metadata = declare(
        reads=frozenset({"retrieved"}),
        by_chunk_id=True,
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
        },
    )
    ranks_ids: ClassVar[bool] = True
    """Whether returned ids themselves are compared; parents of chunks may repeat, ids may not."""

    def required_fields(self) -> list[str]:
        """Gold documents."""
        return ["relevant_docs"]

    def scores(
        self,
        batch: Batch,
        values: npt.NDArray[np.float64],
        *,
        stats: npt.NDArray[np.float64] | None = None,
        view: RankingView = rankings,
    ) -> Scores:
        """The scores of all queries; queries without gold are skipped as the conventions require."""
        rules = self.active_conventions
        if rules.duplicates == "error":
            reject_duplicates(batch)
        # Cached: every ranking metric with the same conventions skips the same queries.
        key = ("gold_outcomes", view_key(batch, view), rules.empty_gold, rules.min_relevance)
        return batch.feature(key, lambda b: self._gold_outcomes(b, view)).with_values(values, stats)

    def _gold_outcomes(self, batch: Batch, view: RankingView) -> Scores:
        rules = self.active_conventions
        skips = {"no_gold": ~gold_positions(batch, view).annotated}
        if rules.empty_gold != "zero":
            empty = hits(batch, rules, view).gold == 0
            skips["empty_gold"] = empty if rules.empty_gold == "skip" else empty & ~has_judgement(batch)
        return Scores.of(np.zeros(len(batch)), skip=skips)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample by the plain definitions."""
        chunks, _ = RankingMetric.reference_ranking(self, sample, output)
        judged = isinstance(chunks, Mapping) and any(level >= 0 for level in chunks.values())
        return self.score_plain(*self.reference_ranking(sample, output), judged=judged)

    def reference_ranking(self, sample: EvaluationSample, output: SystemOutputs) -> tuple[Gold | None, list[str]]:
        """Judged levels and returned ids of one sample, without the shared features."""
        ranked = [item.doc.doc_id for item in output.retrieved]
        if sample.relevant_docs is None:
            return None, ranked
        levels = {document.doc_id: 0 for document in sample.candidate_docs or []}
        for document in sample.relevant_docs:
            levels.pop(document.doc_id, None)
        for document in sample.relevant_docs:
            level = document.metadata.get("relevance", 1)
            levels[document.doc_id] = max(level, levels.get(document.doc_id, level))
        return levels, ranked

    def score_plain(self, gold: Gold | None, ranked: Sequence[str], *, judged: bool | None = None) -> Score:
        """The outcome of one query by the plain definition; tests compare the fast path with it.

        ``judged``: whether the query has any judgement; by default whether any level is 0 or more.
        """
        rules = self.active_conventions
        if gold is None:
            return Score.skip("no_gold")
        if rules.duplicates == "error" and self.ranks_ids and len(set(ranked)) != len(ranked):
            raise DuplicateIdError("an id was returned twice, which the conventions forbid")
        levels = gold if isinstance(gold, Mapping) else dict.fromkeys(gold, 1)
        if judged is None:
            judged = any(level >= 0 for level in levels.values())
        if self.skips_empty_gold(judged) and not relevant_ids(gold, rules.min_relevance):
            return Score.skip("empty_gold")
        return Score(self.plain(gold, ranked[: rules.depth]))

    def skips_empty_gold(self, judged: bool) -> bool:
        """Whether a query without relevant documents is skipped."""
        return self.active_conventions.empty_gold == "skip" or (
            self.active_conventions.empty_gold == "judged" and not judged
        )

    @abstractmethod
    def plain(self, gold: Gold, ranked: Sequence[str]) -> float:
        """The value of one query by its definition in ``metrics.ranking``."""

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The steps from the ranking to the value."""
        gold, ranked = self.reference_ranking(sample, output)
        scores = [item.score for item in output.retrieved]
        derivation = self.steps(
            RankedQuery.of(
                gold or {}, ranked, self.active_conventions.min_relevance, self.active_conventions.depth, scores
            )
        )
        return super().explain(sample, output, around) if derivation is None else derivation

    def steps(self, one: RankedQuery) -> Derivation | None:
        """The derivation of one query; ``None`` selects the general one."""
        return None

    def k_signature_option(self) -> dict[str, str]:
        """Shows K_eff in the signature of a metric that divides by its cut-off."""
        return {"k": "eff"} if self.active_conventions.k_policy == "effective" else {}

    def plain_k(self, k: int | None, ranked: Sequence[str]) -> int | None:
        """The cut-off of one query under the k policy; 0 where nothing was returned."""
        if self.active_conventions.k_policy == "written":
            return k
        return len(ranked) if k is None else min(k, len(ranked))

    def ranking_signature_options(self) -> dict[str, str]:
        """The signature options of every ranking metric."""
        rules = self.active_conventions
        options: dict[str, str] = {"empty": rules.empty_gold}
        if rules.min_relevance != 1:
            options["rel"] = str(rules.min_relevance)
        if rules.depth is not None and (self.max_rank is None or rules.depth < self.max_rank):
            options["depth"] = str(rules.depth)
        return options

    @property
    def max_rank(self) -> int | None:
        """The number of positions this metric reads; ``None`` for all."""
        return getattr(self, "k", None)

    def signature_options(self) -> dict[str, str]:
        """The options that change this metric's value."""
        return self.ranking_signature_options()

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more positions."""
        deepest = min(k for k in (self.max_rank, self.active_conventions.depth, math.inf) if k is not None)
        return {"top_k": str(run.top_k)} if run.top_k is not None and run.top_k < deepest else {}
