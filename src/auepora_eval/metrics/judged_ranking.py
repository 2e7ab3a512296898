"""Ranking measures that use relevance judgements, as plain functions of one query.

A document is judged at a level of 0 or more, relevant at ``min_relevance`` or more. Nothing relevant gives 0.0.
"""

from collections.abc import Mapping, Sequence

from ..core.errors import BadValueError
from .ranking import Gold, check_k, hit_ranks, relevant_ids

__all__ = ["accuracy_at_k", "bpref", "err_at_k", "judged_at_k", "rbp", "rbp_residual", "relevance_levels"]


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
