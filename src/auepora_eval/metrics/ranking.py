"""Ranking measures of one query as plain functions: the reference definitions."""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from math import log2
from typing import Literal

from ..errors import BadTypeError, BadValueError

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
MAX_K = 2**40
"""The largest allowed cut-off."""


def check_k(k: int | None, *, optional: bool = True) -> None:
    """Raise unless ``k`` is an integer >= 1, or ``None`` if that is allowed."""
    if k is None and optional:
        return
    if isinstance(k, bool) or not isinstance(k, int):
        raise BadTypeError(f"the cut-off k must be a whole number, not {k!r}")
    if not 1 <= k <= MAX_K:
        raise BadValueError(f"the cut-off k must be at least 1{' and sensible' if k > 1 else ''}, not {k}")


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
    for hits, rank in enumerate(ranks, start=1):
        total += hits / rank
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
