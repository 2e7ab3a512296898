"""Gold found in a run without making a text of every line: documents are compared as Arrow's columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ...features.found_rankings import FoundRankings
from ...features.hits import Found
from ...features.rankings import HIGHEST_LEVEL
from .arrow import ArrowDocs, qrels_lines, run_lines
from .hashing import hashes_of
from .order import Bools, Floats, Ints, Lines, Order, judgements, line_order, rankings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CodedFiles", "coded_files"]


class CodedFiles:
    """Qrels and a run, line by line, both read by Arrow."""

    def __init__(self, judged: Lines[list[int]], run: Lines[Floats], levels: Ints) -> None:
        assert isinstance(run.docs, ArrowDocs)
        self._docs = run.docs
        self._judged, self._run, self._levels = judged, run, levels
        self.judged_queries = judged.queries
        self.run_queries = run.queries

    def found(self) -> FoundRankings:
        """The queries of the qrels, and where their gold was returned."""
        queries = self._judged.queries
        ranked = partial(_all_rankings, queries, self._run)
        return FoundRankings(queries, self._found(), self._gold, ranked, self._all_distinct)

    def _all_distinct(self) -> bool:
        """Whether no query of the run has a document twice, told by hashes: False may be said of what is distinct."""
        mixed = hashes_of(self._docs) + self._run.rows.view(np.uint64) * _ODD
        mixed.sort()
        return not (mixed[1:] == mixed[:-1]).any()

    def _gold(self) -> list[dict[str, int]]:
        return list(judgements(self._judged).values())

    def _found(self) -> Found:
        place = {query: number for number, query in enumerate(self._judged.queries)}
        of_run = np.array([place.get(query, -1) for query in self._run.queries], dtype=np.int64)
        gold = _GoldKeys(self._judged, self._levels)
        lines, order = self._run, line_order(self._run)
        codes = gold.codes_of(self._docs)
        at = np.flatnonzero(codes >= 0 if order.lines is None else (codes >= 0)[order.lines])
        line = at if order.lines is None else order.lines[at]
        query = of_run[lines.rows[line]]
        key, level = gold.looked_up(query, codes[line])
        hit = level > _NO_LEVEL
        at, line, query, key, level = at[hit], line[hit], query[hit], key[hit], level[hit]
        rank = _untied(at, order, self._docs) - order.starts[lines.rows[line]]
        by_rank = np.lexsort((rank, query))
        _, first = np.unique(key[by_rank], return_index=True)  # a document that comes twice counts once
        kept = by_rank[np.sort(first)]
        returned = np.zeros(len(place), dtype=np.int64)
        judged = of_run >= 0
        returned[of_run[judged]] = order.counts[judged]
        graded = not (gold.levels == 1).all()
        return Found(
            row=query[kept],
            rank=rank[kept],
            level=level[kept] if graded else None,
            returned=returned,
            annotated=np.ones(len(place), dtype=np.bool_),
            gold_count=gold.counts,
            gold_level=gold.levels if graded else None,
        )


_NO_LEVEL = -HIGHEST_LEVEL - 1
_ODD = np.uint64(0x5851F42D4C957F2D)
"""Spreads the numbers of queries over all 64 bits."""


class _GoldKeys:
    """Judged documents as numbers, one for each pair of query and document."""

    def __init__(self, judged: Lines[list[int]], levels: Ints) -> None:
        import pyarrow.compute as pc

        assert isinstance(judged.docs, ArrowDocs)
        encoded = judged.docs.column.combine_chunks().dictionary_encode()
        self._documents: pa.Array = encoded.dictionary
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        keys = judged.rows * len(self._documents) + codes
        self._index_in = pc.index_in
        order = np.lexsort((-levels, keys))  # of several levels for one document the highest counts
        self._keys, first = np.unique(keys[order], return_index=True)
        self.levels: Ints = levels[order][first]
        self.counts: Ints = np.bincount(self._keys // len(self._documents), minlength=len(judged.queries))

    def codes_of(self, docs: ArrowDocs) -> Ints:
        """Of each line the number of its document; -1 where no query has it judged."""
        found = self._index_in(docs.column, value_set=self._documents)
        chunks = [chunk.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in found.chunks]
        codes: Ints = np.concatenate(chunks).astype(np.int64)
        return codes

    def looked_up(self, query: Ints, codes: Ints) -> tuple[Ints, Ints]:
        """The key of each pair, and its level; a pair that was not judged has one below all levels."""
        keys = query * len(self._documents) + codes
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        judged = (self._keys[place] == keys) & (query >= 0)
        return keys, np.where(judged, self.levels[place], _NO_LEVEL)


def _untied(at: Ints, order: Order, docs: ArrowDocs) -> Ints:
    """Places in the order of lines, once each stretch of ties is by document id descending."""
    starts, stops = order.ties
    if not len(starts) or not len(at):
        return at
    stretch = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
    inside = (at >= starts[stretch]) & (at < stops[stretch])
    moved = at.copy()
    pairs = inside & (stops[stretch] - starts[stretch] == 2)
    moved[pairs] = _swapped(at[pairs], starts[stretch[pairs]], order, docs)
    longer = np.flatnonzero(inside & ~pairs)
    numbers, firsts = np.unique(stretch[longer], return_index=True)  # places rise, and so do the stretches they are in
    begin, end = starts[numbers], stops[numbers]
    texts = iter(docs.texts(order.lines_at(_each_place(begin, end))) if len(numbers) else ())
    for start, stop, own in zip(begin.tolist(), end.tolist(), np.split(longer, firsts[1:]), strict=len(numbers) > 0):
        here = list(islice(texts, stop - start))
        place = np.empty(len(here), dtype=np.int64)
        place[sorted(range(len(here)), key=here.__getitem__, reverse=True)] = np.arange(start, stop)
        moved[own] = place[at[own] - start]
    return moved


def _each_place(starts: Ints, stops: Ints) -> Ints:
    """All places from each start to its stop."""
    counts = stops - starts
    places: Ints = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    return places


def _swapped(at: Ints, start: Ints, order: Order, docs: ArrowDocs) -> Ints:
    """Places in stretches of two: the other of the two where the first id is the lower."""
    import pyarrow.compute as pc

    # Arrow compares bytes, which for UTF-8 is the order of code points and that of trec_eval's strcmp.
    first, second = (docs.column.take(order.lines_at(one)) for one in (start, start + 1))
    wrong: Bools = pc.less(first, second).to_numpy().astype(np.bool_)
    places: Ints = np.where(wrong, 2 * start + 1 - at, at)
    return places


def _all_rankings(queries: list[str], run: Lines[Floats]) -> list[list[str]]:
    made: Mapping[str, list[str]] = rankings(run)
    return [made.get(query, []) for query in queries]


def coded_files(qrels: bytes, run: bytes) -> CodedFiles | None:
    """Both files as columns; ``None`` where Arrow would not read them as Python does, or levels cannot be meant."""
    judged = qrels_lines(qrels)
    if judged is None or max(map(abs, judged.values), default=HIGHEST_LEVEL + 1) > HIGHEST_LEVEL:
        return None
    lines = run_lines(run)
    return None if lines is None else CodedFiles(judged, lines, np.array(judged.values, dtype=np.int64))
