"""Ranking measures: plain functions of one query that record their steps, and the base class of ranking metrics."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import count, groupby, zip_longest
from math import inf, log2
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import RankCutOff, SignatureOption
from ..core.derivation import (
    Cell,
    add_division,
    add_outcome,
    add_result,
    add_step,
    add_table,
    format_number,
    is_recording,
    join_items,
    yes_no,
)
from ..core.metrics_base import NOT_BY_ID, declare, is_defined_by_match
from ..core.registry import ConfiguredMetric
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError, DuplicateIdError
from ..features.hits import (
    Floats,
    MatchedSample,
    RankingView,
    UnitPositions,
    UnitView,
    gold_positions,
    has_groups,
    has_judgement,
    hits,
    match_sample,
    reject_duplicates,
    view_key,
)
from ..features.matching import MATCH_WORDS
from ..features.rankings import highest_levels, rankings
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


def find_hits(gold: Gold, ranked: Sequence[str], k: int | None, min_relevance: int = 1) -> tuple[set[str], list[int]]:
    """The relevant ids and the ranks of the hits within ``k``: the first steps of every ranking measure."""
    relevant = relevant_ids(gold, min_relevance)
    ranks = hit_ranks(relevant, ranked, k)
    if is_recording():
        levels = relevance_levels(gold)
        labels = sorted(relevant)
        if any(levels[doc_id] != 1 for doc_id in relevant):
            labels = [f"{doc_id} (level {levels[doc_id]})" for doc_id in labels]
        threshold = "" if min_relevance == 1 else f" (level {min_relevance} or more)"
        add_step(f"Relevant{threshold}: {join_items(labels)}; |G| = {len(relevant)}", len(relevant))
        positions = list(enumerate(ranked[:k], start=1))
        marks = {rank: "returned before" for rank, doc_id in positions if doc_id in ranked[: rank - 1]}
        marks |= {rank: f"hit {place}" for place, rank in enumerate(ranks, start=1)}
        add_table(
            f"{'All' if k is None else f'The first {k}'} positions ({len(ranked)} returned)",
            ("rank", "document", "level", "hit"),
            ((rank, doc_id, levels.get(doc_id), marks.get(rank, "")) for rank, doc_id in positions),
        )
    return relevant, ranks


def recall_at_k(gold_ids: Gold, ranked_ids: Sequence[str], k: int | None, *, min_relevance: int = 1) -> float:
    """Proportion of the relevant documents that are among the first ``k``."""
    gold, hits = find_hits(gold_ids, ranked_ids, k, min_relevance)
    return add_division("Recall: hits / |G|", len(hits), len(gold)) if gold else add_outcome("Nothing is relevant", 0.0)


def precision_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None,
    *,
    divide_by: Literal["returned", "k"] = "returned",
    min_relevance: int = 1,
) -> float:
    """Proportion of the first ``k`` that is relevant; over min(k, positions returned), or over ``k`` itself."""
    _, hits = find_hits(gold_ids, ranked_ids, k, min_relevance)
    returned = len(ranked_ids)
    positions = returned if k is None else k if divide_by == "k" else min(k, returned)
    if not positions:
        return add_outcome("Nothing was returned", 0.0)
    divisor = "returned" if k is None else "k" if divide_by == "k" else "min(k, returned)"
    return add_division(f"Precision: hits / {divisor}", len(hits), positions)


def hit_rate_at_k(gold_ids: Gold, ranked_ids: Sequence[str], k: int | None, *, min_relevance: int = 1) -> float:
    """1.0 if any relevant document is among the first ``k``."""
    _, ranks = find_hits(gold_ids, ranked_ids, k, min_relevance)
    if not ranks:
        return add_outcome("No relevant document is among them", 0.0)
    return add_outcome(f"{ranked_ids[ranks[0] - 1]} is relevant and stands at rank {ranks[0]}", 1.0)


def mrr_at_k(gold_ids: Gold, ranked_ids: Sequence[str], k: int | None, *, min_relevance: int = 1) -> float:
    """One over the rank of the first relevant document within ``k``; 0.0 if there is none."""
    _, ranks = find_hits(gold_ids, ranked_ids, k, min_relevance)
    if not ranks:
        return add_outcome("No relevant document is among them", 0.0)
    first = ranks[0]
    return add_result(f"The first hit is {ranked_ids[first - 1]} at rank {first}: 1 / {first}", 1.0 / first)


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
    gold, ranks = find_hits(gold_ids, ranked_ids, k, min_relevance)
    if not ranks:
        return add_outcome("No relevant document is among them", 0.0)
    total = 0.0
    for place, rank in enumerate(ranks, start=1):
        total += place / rank
    add_table(
        "Precision at each hit: how many hits up to here, over the rank",
        ("hit", "rank", "document", "i / r"),
        ((place, rank, ranked_ids[rank - 1], place / rank) for place, rank in enumerate(ranks, start=1)),
    )
    add_step(f"Their sum: {format_number(total)}", total)
    capped = len(gold) if k is None else min(len(gold), k)
    divisor, words = {
        "hits": (len(ranks), "the hits themselves"),
        "capped": (capped, "min(|G|, k)"),
        "gold": (len(gold), "|G|, as trec_eval does"),
    }[divide_by]
    return add_result(
        f"Average precision divides by {words} (`ap: {divide_by}`): {format_number(total)} / {divisor}", total / divisor
    )


def f1_at_k(
    gold_ids: Gold,
    ranked_ids: Sequence[str],
    k: int | None,
    *,
    divide_by: Literal["returned", "k"] = "returned",
    min_relevance: int = 1,
    units: tuple[Gold, Sequence[str], int | None] | None = None,
) -> float:
    """Harmonic mean of precision and recall of the first ``k``.

    ``units`` are gold, ranking and cut-off of recall where they are not those of precision.
    """
    precision = precision_at_k(gold_ids, ranked_ids, k, divide_by=divide_by, min_relevance=min_relevance)
    recalled, ranking, cut = units or (gold_ids, ranked_ids, k)
    recall = recall_at_k(recalled, ranking, cut, min_relevance=min_relevance)
    if precision + recall <= 0:
        return add_outcome("Precision and recall are both 0, and so is F1", 0.0)
    return add_division("F1: 2 · P · R / (P + R)", 2 * precision * recall, precision + recall)


def r_precision(gold_ids: Gold, ranked_ids: Sequence[str], *, min_relevance: int = 1) -> float:
    """Proportion of the first |G| positions that hold a relevant document."""
    size = len(relevant_ids(gold_ids, min_relevance))
    _, hits = find_hits(gold_ids, ranked_ids, size or None, min_relevance)
    return add_division("R-precision: hits / |G|", len(hits), size) if size else add_outcome("Nothing is relevant", 0.0)


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
    discount: Literal["log2", "none"] = "log2",
) -> float:
    """Discounted gain of the first ``k`` over that of the best possible ranking, with discount log2(rank + 1) or none.

    With the ``scores`` of the ranked documents, neighbours with equal scores share their gains: the value is the mean
    over all orders of tied documents, as in scikit-learn.
    """
    find_hits(gold_ids, ranked_ids, k, min_relevance)
    gains = {doc_id: relevance_gain(level, gain, min_relevance) for doc_id, level in relevance_levels(gold_ids).items()}
    left = dict(gains)
    counted = ranked_ids[:k] if scores is None else ranked_ids
    ranked_gains = [left.pop(doc_id, 0.0) for doc_id in counted]
    words = {
        "binary": f"1 from level {min_relevance} on, else 0",
        "exponential": "2^level − 1",
        "linear": "the level itself",
    }[gain]
    if scores is not None:
        ranked_gains = average_tied_gains(ranked_gains, scores)[:k]
        words += ", averaged over neighbours with equal scores"
    _add_dcg_table(
        f"What was returned, with the gain {words} and the discount log2(rank + 1)", ranked_ids[:k], ranked_gains
    )
    total = _dcg if discount == "log2" else sum
    dcg = float(total(ranked_gains))
    add_step(f"DCG: {format_number(dcg)}", dcg)
    best = sorted(gains, key=gains.__getitem__, reverse=True)[:k]
    ideal_gains = [gains[doc_id] for doc_id in best]
    up_to = "" if k is None else f" up to rank {k}"
    _add_dcg_table(f"The best possible ranking{up_to}: all gold by falling gain", best, ideal_gains)
    ideal = float(total(ideal_gains))
    add_step(f"Ideal DCG: {format_number(ideal)}", ideal)
    return add_division("nDCG: DCG / ideal DCG", dcg, ideal) if ideal > 0.0 else add_outcome("Nothing to gain", 0.0)


def _add_dcg_table(text: str, ids: Sequence[str], gains: Sequence[float]) -> None:
    """Record gain and discount of each position."""
    add_table(
        text,
        ("rank", "document", "gain", "discount", "gain / discount"),
        (
            (rank, doc_id, gain, log2(rank + 1), gain / log2(rank + 1))
            for rank, doc_id, gain in zip(count(1), ids, gains, strict=False)
        ),
    )


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
    gold, ranks = find_hits(gold_ids, ranked_ids, k, min_relevance)
    hits, returned = len(ranks), len(ranked_ids[:k])
    miss = 1.0 - hits / len(gold) if gold else 0.0
    add_step(f"P_miss: 1 − hits / |G| = {format_number(miss)}", miss)
    pool = returned if corpus_size is None else corpus_size - len(gold)
    false_alarm = (returned - hits) / pool if pool > 0 else 0.0
    among = "returned" if corpus_size is None else f"not relevant in the collection ({corpus_size} − |G|)"
    add_step(f"P_FA: {returned - hits} false alarms, {pool} {among}: {format_number(false_alarm)}", false_alarm)
    costs = f"{format_number(miss)} − {format_number(beta)} · {format_number(false_alarm)}"
    return add_result(f"AQWV: 1 − P_miss − β · P_FA = 1 − {costs}", 1.0 - miss - beta * false_alarm)


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
    find_hits(gold, ranked, k)
    ranks, positions = hit_ranks(judged_ids(gold), ranked, k), min(k, len(ranked))
    add_table("Positions with a judged document", ("rank", "document"), ((rank, ranked[rank - 1]) for rank in ranks))
    if not positions:
        return add_outcome("Nothing was returned", 0.0)
    return add_division("Judged positions / min(k, returned)", len(ranks), positions)


def accuracy_at_k(gold: Gold, ranked: Sequence[str], k: int, *, min_relevance: int = 1) -> float:
    """Proportion of the judged documents on the right side of the cut: relevant within ``k``, non-relevant outside."""
    relevant, _ = find_hits(gold, ranked, k, min_relevance)
    pool, chosen = judged_ids(gold) | relevant, set(ranked[:k])
    right = {doc_id for doc_id in pool if (doc_id in relevant) == (doc_id in chosen)}
    add_table(
        f"Every judged document: relevant ones belong within {k}, the others outside",
        ("document", "judged", "where", ""),
        (
            (
                doc_id,
                yes_no(doc_id in relevant, "relevant", "not relevant"),
                yes_no(doc_id in chosen, "within", "outside"),
                yes_no(doc_id in right, "right", "wrong"),
            )
            for doc_id in sorted(pool)
        ),
    )
    if not pool:
        return add_outcome("Nothing was judged", 0.0)
    return add_division("Right decisions / judged documents", len(right), len(pool))


def bpref(gold: Gold, ranked: Sequence[str], *, min_relevance: int = 1) -> float:
    """Binary preference: penalises judged non-relevant documents above relevant ones; ignores unjudged documents.

    Each relevant document returned adds 1 - min(n, |G|) / min(|N|, |G|) for the n judged non-relevant ones above it.
    """
    relevant, _ = find_hits(gold, ranked, None, min_relevance)
    other = judged_ids(gold) - relevant
    add_step(f"Judged and not relevant: {join_items(sorted(other))}; |N| = {len(other)}", len(other))
    above, total = 0, 0.0
    rows: list[tuple[str, int, float]] = []
    for doc_id in dict.fromkeys(ranked):
        if doc_id in other:
            above += 1
        elif doc_id in relevant:
            preference = 1.0 - min(above, len(relevant)) / min(len(other), len(relevant)) if above else 1.0
            total += preference
            rows.append((doc_id, above, preference))
    add_table(
        "Each hit adds 1 − min(n, |G|) / min(|N|, |G|), n being the judged non-relevant documents above it",
        ("document", "n above", "adds"),
        rows,
    )
    return (
        add_division("bpref: the sum over |G|", total, len(relevant))
        if relevant
        else add_outcome("Nothing is relevant", 0.0)
    )


def rbp(gold: Gold, ranked: Sequence[str], *, p: float = 0.8, min_relevance: int = 1) -> float:
    """Rank-biased precision: the expected gain of a reader who continues to the next position with probability
    ``p``."""
    _, ranks = find_hits(gold, ranked, None, min_relevance)
    total = _rank_weights(ranks, p)
    add_table(
        f"Each hit weighs p^(rank − 1), with p = {format_number(p)}",
        ("rank", "document", "weight"),
        ((rank, ranked[rank - 1], p ** (rank - 1)) for rank in ranks),
    )
    add_step(f"Their sum: {format_number(total)}", total)
    if is_recording():
        residual = rbp_residual(gold, ranked, p=p)
        add_step(f"Residual, what unjudged positions could still add: {format_number(residual)}", residual)
    return add_result(f"RBP: (1 − p) · sum = {format_number(1.0 - p)} · {format_number(total)}", (1.0 - p) * total)


def rbp_residual(gold: Gold, ranked: Sequence[str], *, p: float = 0.8) -> float:
    """The residual of rank-biased precision: the weight of all unjudged positions, the end included."""
    return 1.0 - (1.0 - p) * _rank_weights(hit_ranks(judged_ids(gold), ranked), p)


def _rank_weights(ranks: Iterable[int], p: float) -> float:
    total = 0.0
    for rank in ranks:
        total += p ** (rank - 1)
    return total


def err_at_k(gold: Gold, ranked: Sequence[str], k: int | None, *, max_grade: int) -> float:
    """Expected reciprocal rank at which a reader is satisfied; a document of level g satisfies by (2^g - 1) / 2^max."""
    find_hits(gold, ranked, k)
    levels = relevance_levels(gold)
    too_high = [level for level in levels.values() if level > max_grade]
    if too_high:
        raise BadValueError(f"err: a document has level {max(too_high)}, above max_grade {max_grade}")
    still_reading, total = 1.0, 0.0
    rows: list[tuple[Cell, ...]] = []
    for rank, doc_id in enumerate(ranked[:k], start=1):
        level = max(levels.pop(doc_id, 0), 0)
        satisfied = (2.0**level - 1.0) / 2.0**max_grade
        gained = still_reading * satisfied / rank
        total += gained
        rows.append((rank, doc_id, level, satisfied, still_reading, gained))
        still_reading *= 1.0 - satisfied
    add_table(
        f"s = (2^level − 1) / 2^{max_grade} satisfies a reader who is still reading; each adds reading · s / rank",
        ("rank", "document", "level", "s", "still reading", "adds"),
        rows,
    )
    return add_result("ERR: the sum", total)


@cache
def _parameter_names(definition: Callable[..., float]) -> tuple[str, ...]:
    """The names of the arguments of a plain definition."""
    return tuple(inspect.signature(definition).parameters)


def _add_matches(found: MatchedSample) -> None:
    """Record how gold units are matched, and the rank that reaches each."""
    add_table(
        f"Gold is matched by {MATCH_WORDS[found.match]}; a unit is found at the rank of the chunk that completes it",
        ("gold", "level", "rank", "position"),
        (
            (unit.doc_id, unit.level, rank, place)
            for unit, rank, place in zip_longest(found.units, found.reached, found.placed)
        ),
    )
    for unit in found.units_elsewhere():
        add_step(f"The text of {unit.doc_id} was retrieved in another document, which is no hit")


# --- the base class of metrics over rankings -------------------------------------------------------------------------


@dataclass(frozen=True)
class RankingMetric(ConfiguredMetric):
    """A metric over the ranked ids of each query."""

    target = TargetCategory.RETRIEVAL_ACCURACY
    metadata = declare(
        reads=frozenset({"retrieved"}),
        requires=("relevant_docs",),
        by_chunk_id=True,
        skip_reasons={
            "no_gold": "`relevant_docs` is not annotated",
            "empty_gold": "nothing is relevant, and the conventions skip such queries",
            "unresolved_gold": "the gold has no span, text or id by which it could be found",
            "match": "the metric compares ids of chunks, and gold is not matched by id",
        },
        reads_depth="cut",
        signature={
            "empty": SignatureOption("active_conventions.empty_gold", last=True),
            "rel": SignatureOption("active_conventions.min_relevance", unless=1, last=True),
            "depth": SignatureOption("cut", unless=inf, differs_from="max_rank", last=True),
        },
    )
    ranks_ids: ClassVar[bool] = True
    """Whether returned ids themselves are compared; parents of chunks may repeat, ids may not."""
    view: ClassVar[RankingView] = rankings
    """The ids that are compared."""
    positions: ClassVar[UnitPositions] = "placed"
    """What is read of gold units that are not matched id by id."""
    text_measure: ClassVar[str] = ""
    """What a metric with the option ``contains`` computes from contained texts (``features.contained``)."""
    definition: ClassVar[Callable[..., float]]
    """The plain definition: a function of gold, ranked ids and ``definition_options``."""
    divisor: ClassVar[str] = ""
    """The convention that the plain definition gets as ``divide_by``."""

    def scores(
        self,
        batch: Batch,
        values: Floats,
        *,
        stats: Floats | None = None,
    ) -> Scores:
        """The scores of all queries; queries without gold are skipped as the conventions require."""
        rules = self.active_conventions
        if rules.duplicates == "error":
            reject_duplicates(batch)
        # Cached: every ranking metric with the same conventions skips the same queries.
        view = self.view_of(batch, "reached")
        key = ("gold_outcomes", view_key(batch, view), rules.empty_gold, rules.min_relevance)
        return batch.feature(key, partial(self._gold_outcomes, view=view)).with_values(values, stats)

    def view_of(self, batch: Batch, positions: UnitPositions | None = None) -> RankingView:
        """The view of the rankings that this metric reads: ids, or gold units as the conventions match them."""
        rules = self.active_conventions
        if not self.metadata.matches_gold or (rules.match == "id" and not has_groups(batch)):
            return type(self).view
        return UnitView(rules.match, positions or self.positions, min(1, rules.min_relevance), rules.depth)

    def _gold_outcomes(self, batch: Batch, view: RankingView) -> Scores:
        rules = self.active_conventions
        skips = {"no_gold": ~gold_positions(batch, view).annotated}
        if isinstance(view, UnitView):
            skips["unresolved_gold"] = view.unresolved(batch)
        if rules.empty_gold != "zero":
            empty = hits(batch, rules, view).gold == 0
            skips["empty_gold"] = empty if rules.empty_gold == "skip" else empty & ~has_judgement(batch)
        return Scores.of(np.zeros(len(batch)), skip=skips)

    def reference(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample by the plain definition."""
        if getattr(self, "contains", None) is not None:
            return self.text_score(sample, output)
        if not is_defined_by_match(self):
            return Score.skip(NOT_BY_ID)
        chunks, _ = RankingMetric.reference_ranking(self, sample, output)
        judged = isinstance(chunks, Mapping) and any(level >= 0 for level in chunks.values())
        scores = [item.score for item in output.retrieved]
        found = self.match_units(sample, output)
        if found is not None:
            return self._matched_reference(found, scores, judged=judged)
        return self.score_plain(*self.reference_ranking(sample, output), judged=judged, scores=scores)

    def text_scores(self, batch: Batch) -> Scores:
        """The outcomes where gold is found as a text inside a chunk."""
        pairs = zip(batch.samples, batch.present_outputs(), strict=True)
        return Scores.from_list([self.text_score(*pair) for pair in pairs])

    def text_score(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The outcome of one sample where gold is found as a text inside a chunk."""
        from ..features.contained import text_score

        return text_score(self, sample, output)

    def match_units(self, sample: EvaluationSample, output: SystemOutputs) -> MatchedSample | None:
        """The gold units of one sample; ``None`` where ids are compared one by one."""
        rules = self.active_conventions
        by_id = rules.match == "id" and not sample.relevant_groups
        if by_id or not self.metadata.matches_gold or sample.relevant_docs is None:
            return None
        documents = [item.doc for item in output.retrieved[: rules.depth]]
        return match_sample(sample, documents, rules.match, lowest=min(1, rules.min_relevance))

    def _matched_reference(self, found: MatchedSample, scores: Sequence[float | None], *, judged: bool) -> Score:
        """The outcome of one sample by the plain definition over its matched gold units."""
        if found.unresolved and not found.units:
            return Score.skip("unresolved_gold")
        has_gold = any(unit.level >= self.active_conventions.min_relevance for unit in found.units)
        if self.skips_empty_gold(judged) and not has_gold:
            return Score.skip("empty_gold")
        if is_recording():
            _add_matches(found)
        return Score(self.matched_value(found, scores))

    def matched_value(self, found: MatchedSample, scores: Sequence[float | None]) -> float:
        """The plain definition over gold units, or over the relevant chunks."""
        gold, ranked = found.chunk_ranking() if self.positions == "chunks" else found.unit_ranking()
        beyond = [None] * (len(ranked) - len(found.documents))  # units may be placed beyond the end
        options = self.definition_options(ranked, [*scores[: len(found.documents)], *beyond])
        if self.positions == "reached":
            options["k"] = found.position_within(self.max_rank)
        return type(self).definition(gold, ranked, **options)

    def reference_ranking(self, sample: EvaluationSample, output: SystemOutputs) -> tuple[Gold | None, list[str]]:
        """Judged levels and returned ids of one sample, without the shared features."""
        ranked = [item.doc.doc_id for item in output.retrieved]
        if sample.relevant_docs is None:
            return None, ranked
        candidates = {document.doc_id: 0 for document in sample.candidate_docs or []}
        return candidates | highest_levels(sample), ranked

    def score_plain(
        self,
        gold: Gold | None,
        ranked: Sequence[str],
        *,
        judged: bool | None = None,
        scores: Sequence[float | None] = (),
    ) -> Score:
        """The outcome of one query by the plain definition; tests compare the fast path with it.

        ``judged``: whether the query has any judgement; by default whether any level is 0 or more. ``scores`` are those
        of the ranked ids.
        """
        rules = self.active_conventions
        if gold is None:
            return Score.skip("no_gold")
        if rules.duplicates == "error" and self.ranks_ids and len(set(ranked)) != len(ranked):
            raise DuplicateIdError("an id was returned twice, which the conventions forbid")
        if judged is None:
            judged = any(level >= 0 for level in relevance_levels(gold).values())
        if self.skips_empty_gold(judged) and not relevant_ids(gold, rules.min_relevance):
            return Score.skip("empty_gold")
        if rules.depth is not None:
            add_step(f"The conventions cut the ranking at depth {rules.depth}")
        ranked = ranked[: rules.depth]
        return Score(type(self).definition(gold, ranked, **self.definition_options(ranked, scores[: rules.depth])))

    def definition_options(self, ranked: Sequence[str], scores: Sequence[float | None]) -> dict[str, Any]:
        """The arguments of the plain definition besides gold and ranking: options of the metric, and conventions."""
        rules = self.active_conventions
        known = {"min_relevance": rules.min_relevance, "divide_by": getattr(rules, self.divisor, None), **vars(self)}
        return {name: known[name] for name in _parameter_names(type(self).definition) if name in known}

    def skips_empty_gold(self, judged: bool) -> bool:
        """Whether a query without relevant documents is skipped."""
        return self.active_conventions.empty_gold == "skip" or (
            self.active_conventions.empty_gold == "judged" and not judged
        )

    def plain_k(self, ranked: Sequence[str]) -> int | None:
        """The cut-off of one query: as written, or what the ranking can fill, at least 1."""
        if self.active_conventions.k_policy == "written":
            return self.max_rank
        fillable = max(len(ranked), 1)
        return fillable if self.max_rank is None else min(self.max_rank, fillable)

    @property
    def max_rank(self) -> int | None:
        """The number of positions this metric reads; ``None`` for all."""
        return getattr(self, "k", None)

    def position_cut(self, view: RankingView) -> float:
        """The number of positions of a view that count. Gold units are matched within the depth already."""
        if isinstance(view, UnitView):
            return inf if self.max_rank is None else self.max_rank
        return self.cut

    @property
    def cut(self) -> float:
        """The number of positions that count: by the metric, and by the depth of the conventions."""
        return min(k for k in (self.max_rank, self.active_conventions.depth, inf) if k is not None)
