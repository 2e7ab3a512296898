"""Derivations of ranking metrics that use relevance judgements: bpref, Judged@k, accuracy, RBP, ERR."""

from __future__ import annotations

from ..core.derivation import Cell, Derivation, format_number, join_items
from .derivations_ranking import RankedQuery, format_fraction
from .judged_ranking import judged_ids

__all__ = ["accuracy_steps", "bpref_steps", "err_steps", "judged_steps", "rbp_steps"]


def bpref_steps(query: RankedQuery) -> Derivation:
    """The number of judged non-relevant documents above each hit."""
    steps, relevant = query.first_steps(None), query.relevant
    other = judged_ids(query.levels) - relevant
    steps.add_step(f"Judged and not relevant: {join_items(sorted(other))}; |N| = {len(other)}", len(other))
    if not relevant:
        return steps.finish("Nothing is relevant: 0", 0.0)
    above, total = 0, 0.0
    rows: list[tuple[Cell, ...]] = []
    for doc_id in dict.fromkeys(query.ranked):
        if doc_id in other:
            above += 1
        elif doc_id in relevant:
            worth = 1.0 - min(above, len(relevant)) / min(len(other), len(relevant)) if above else 1.0
            total += worth
            rows.append((doc_id, above, worth))
    steps.table(
        "Each hit adds 1 − min(n, |G|) / min(|N|, |G|), n being the judged non-relevant documents above it",
        ("document", "n above", "adds"),
        rows,
    )
    return steps.finish_with_value(
        f"bpref: the sum over |G| = {format_fraction(total, len(relevant))}", total / len(relevant)
    )


def judged_steps(query: RankedQuery, k: int) -> Derivation:
    """Judged positions over positions."""
    judged = judged_ids(query.levels)
    seen, rows = set[str](), []
    for rank, doc_id in enumerate(query.ranked[:k], start=1):
        counts = doc_id in judged and doc_id not in seen
        rows.append((rank, doc_id, query.levels.get(doc_id), "judged" if counts else ""))
        if counts:
            seen.add(doc_id)
    steps = query.first_steps(k).table("Which of them were judged", ("rank", "document", "level", "judged"), rows)
    positions = min(k, len(query.ranked))
    if not positions:
        return steps.finish("Nothing was returned: 0", 0.0)
    return steps.finish_with_value(
        f"Judged positions / min(k, returned) = {format_fraction(len(seen), positions)}", len(seen) / positions
    )


def accuracy_steps(query: RankedQuery, k: int) -> Derivation:
    """Right decisions over judged documents."""
    relevant, chosen = query.relevant, set(query.ranked[:k])
    pool = judged_ids(query.levels) | relevant
    rows = [
        (
            doc_id,
            query.levels.get(doc_id),
            "relevant" if doc_id in relevant else "not relevant",
            "within" if doc_id in chosen else "outside",
            "right" if (doc_id in relevant) == (doc_id in chosen) else "wrong",
        )
        for doc_id in sorted(pool)
    ]
    steps = query.first_steps(k).table(
        f"Every judged document: relevant ones belong within {k}, the others outside",
        ("document", "level", "judged", "where", ""),
        rows,
    )
    right = len(relevant & chosen) + len(pool - relevant - chosen)
    if not pool:
        return steps.finish("Nothing was judged: 0", 0.0)
    return steps.finish_with_value(
        f"Right decisions / judged documents = {format_fraction(right, len(pool))}", right / len(pool)
    )


def rbp_steps(query: RankedQuery, p: float) -> Derivation:
    """The weights of the hits."""
    total, rows = 0.0, []
    for rank, doc_id in query.hits(None):
        total += p ** (rank - 1)
        rows.append((rank, doc_id, p ** (rank - 1)))
    steps = query.first_steps(None).table(
        f"Each hit weighs p^(rank − 1), with p = {format_number(p)}", ("rank", "document", "weight"), rows
    )
    steps.add_step(f"Their sum: {format_number(total)}", total)
    return steps.finish_with_value(
        f"RBP: (1 − p) · sum = {format_number(1.0 - p)} · {format_number(total)}", (1.0 - p) * total
    )


def err_steps(query: RankedQuery, k: int | None, max_grade: int) -> Derivation:
    """At which position a reader is satisfied, and how likely."""
    levels = dict(query.levels)
    reading, total = 1.0, 0.0
    rows: list[tuple[Cell, ...]] = []
    for rank, doc_id in enumerate(query.ranked[:k], start=1):
        level = max(levels.pop(doc_id, 0), 0)
        satisfied = (2.0**level - 1.0) / 2.0**max_grade
        total += reading * satisfied / rank
        rows.append((rank, doc_id, level, satisfied, reading, reading * satisfied / rank))
        reading *= 1.0 - satisfied
    steps = query.first_steps(k).table(
        f"s = (2^level − 1) / 2^{max_grade} satisfies a reader who is still reading; each adds reading · s / rank",
        ("rank", "document", "level", "s", "still reading", "adds"),
        rows,
    )
    return steps.finish_with_value("ERR: the sum", total)
