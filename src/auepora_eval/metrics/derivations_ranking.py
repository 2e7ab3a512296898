"""Derivations of the ranking metrics: the hits, what each adds, and the division."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Literal

from ..core.derivation import Cell, Derivation, DerivationBuilder, format_number, join_items
from .ranking import Gold, average_tied_gains, relevance_gain, relevant_ids


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
