"""Matching of gold documents in a run on columns of Arrow, without creating a string per line."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...features.hits import GoldPositions
from ...features.precomputed_hits import PrecomputedHits
from ...features.rankings import HIGHEST_LEVEL
from .arrow_reader import ArrowDocIds, encode_qrels
from .judged_pairs import GoldPairs, collect_gold_pairs, hash_pairs
from .text_hashing import Hashes, VectorizedTexts
from .trec_lines import Bools, Floats, Ints, LineOrder, TrecLines, ValuesT, judgements, rankings, sort_lines

__all__ = ["EncodedQrels", "find_gold", "read_qrels"]


@dataclass(frozen=True, slots=True)
class EncodedQrels:
    """Qrels line by line, and the pairs of query and document that they judge."""

    lines: TrecLines[Ints]
    docs: VectorizedTexts
    pairs: GoldPairs

    def levels_by_query(self) -> list[dict[str, int]]:
        """Return the judged levels by document for each query."""
        lines = self.lines
        return list(judgements(TrecLines(lines.queries, lines.rows, lines.docs, lines.values.tolist())).values())


def read_qrels(data: bytes, pool: Executor) -> EncodedQrels | None:
    """Read qrels; ``None`` if Arrow would not read them as Python does, a level is too large, or two hashes collide."""
    encoded = encode_qrels(data)
    if encoded is None or max(map(abs, encoded[1])) > HIGHEST_LEVEL:
        return None
    lines, levels = encoded[0], np.array(encoded[1], dtype=np.int64)
    lines = TrecLines(lines.queries, lines.rows, lines.docs, levels[lines.values])
    docs = _hash_column(lines)
    pairs = collect_gold_pairs(lines.rows, docs, lines.values, pool)
    return None if pairs is None else EncodedQrels(lines, docs, pairs)


def find_gold(qrels: EncodedQrels, run: TrecLines[Floats], pool: Executor) -> PrecomputedHits | None:
    """Find the ranks of gold documents for the queries of the qrels; ``None`` if hashes collide."""
    ordering = pool.submit(sort_lines, run)
    queries, gold, docs = qrels.lines.queries, qrels.pairs, _hash_column(run)
    number_of = {query: number for number, query in enumerate(queries)}
    # Queries without judgements get numbers above those of the qrels.
    of_run = np.array(
        [number_of.get(query, new) for new, query in enumerate(run.queries, len(number_of))], dtype=np.int64
    )
    keys = hash_pairs(of_run[run.rows], docs, pool)
    distinct = pool.submit(_all_distinct, keys)
    lines, numbers = gold.match(keys)
    if (of_run[run.rows[lines]] != gold.queries[numbers]).any() or not docs.equal(
        lines, qrels.docs, gold.lines[numbers]
    ):
        return None
    order = ordering.result()
    at, numbers = _positions_in_order(order, lines, numbers, len(keys))
    rank = _break_ties(at, order, docs) - order.starts[run.rows[order.lines_at(at)]]
    found = _build_hits(gold, numbers, rank, _returned_counts(order, of_run, len(queries)))
    return PrecomputedHits(
        queries, found, qrels.levels_by_query, partial(_all_rankings, queries, run), distinct.result()
    )


def _hash_column(lines: TrecLines[ValuesT]) -> VectorizedTexts:
    assert isinstance(lines.docs, ArrowDocIds)
    return VectorizedTexts(lines.docs.column)


def _all_distinct(keys: Hashes) -> bool:
    """Whether no query of the run has a repeated document, by hash; may be false although all are distinct."""
    ordered = np.sort(keys)
    return not (ordered[1:] == ordered[:-1]).any()


def _positions_in_order(order: LineOrder, lines: Ints, numbers: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the ascending positions of these lines in the order of all lines, and the number of each."""
    if order.lines is None:
        return lines, numbers
    number = np.full(count, -1, dtype=np.int64)
    number[lines] = numbers
    ordered = number[order.lines]
    positions = np.flatnonzero(ordered >= 0)
    return positions, ordered[positions]


def _returned_counts(order: LineOrder, of_run: Ints, queries: int) -> Ints:
    """Return the number of lines in the run for each judged query."""
    returned = np.zeros(queries, dtype=np.int64)
    judged = of_run < queries
    returned[of_run[judged]] = order.counts[judged]
    return returned


def _build_hits(gold: GoldPairs, number: Ints, rank: Ints, returned: Ints) -> GoldPositions:
    """Return the hits: judged pairs by their number, and the rank of each."""
    query = gold.queries[number]
    by_rank = np.argsort(query * (rank.max(initial=0) + 1) + rank)
    query, rank, number = query[by_rank], rank[by_rank], number[by_rank]
    first = _first_occurrences(number, len(gold.lines))  # a repeated document counts once
    graded = not (gold.levels == 1).all()
    return GoldPositions(
        row=query[first],
        rank=rank[first],
        level=gold.levels[number[first]] if graded else None,
        returned=returned,
        annotated=np.ones(len(returned), dtype=np.bool_),
        gold_count=np.bincount(gold.queries, minlength=len(returned)),
        gold_level=gold.levels if graded else None,
    )


def _first_occurrences(numbers: Ints, count: int) -> Bools:
    """Return whether each number occurs for the first time."""
    first = np.empty(count, dtype=np.int64)
    positions = np.arange(len(numbers))
    first[numbers[::-1]] = positions[::-1]  # the last assignment wins
    same: Bools = first[numbers] == positions
    return same


def _break_ties(at: Ints, order: LineOrder, docs: VectorizedTexts) -> Ints:
    """Return positions in the order of lines, with each range of ties sorted by document id descending."""
    starts, stops = order.ties
    if not len(starts) or not len(at):
        return at
    tie_range = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
    inside = (at >= starts[tie_range]) & (at < stops[tie_range])
    used, own = np.unique(tie_range[inside], return_inverse=True)  # ranges that contain a hit
    begin, counts = starts[used], (stops - starts)[used]
    placed = docs.descending(order.lines_at(_expand_ranges(begin, counts)), np.repeat(begin, counts))
    moved = at.copy()
    moved[inside] = placed[at[inside] - begin[own] + (np.cumsum(counts) - counts)[own]]
    return moved


def _expand_ranges(starts: Ints, counts: Ints) -> Ints:
    """Return all positions: ``counts`` consecutive ones from each start."""
    positions: Ints = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return positions


def _all_rankings(queries: list[str], run: TrecLines[Floats]) -> list[list[str]]:
    by_query: Mapping[str, list[str]] = rankings(run)
    return [by_query.get(query, []) for query in queries]
