"""TREC lines read by Arrow (extra ``parquet``), and matching of gold documents on columns."""

from __future__ import annotations

import codecs
import importlib.util
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..features.hits import GoldPositions, PrecomputedHits
from ..features.rankings import HIGHEST_LEVEL
from .trec_columns import (
    DOCUMENT,
    HASH_FACTOR,
    QRELS,
    QUERY,
    RUN,
    Ints,
    LineOrder,
    TrecLayout,
    TrecLines,
    judgements,
    rankings,
    sort_lines,
)

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 1 << 19
_SPACE = 32


def arrow_is_installed() -> bool:
    """Whether Arrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def read_columns(data: bytes, layout: TrecLayout) -> TrecLines[VectorizedTexts] | None:
    """Read the lines of a file; ``None`` if Arrow would not read them as Python does."""
    import pyarrow as pa

    query, document, value = str(QUERY), str(DOCUMENT), str(layout.value)
    dictionary = pa.dictionary(pa.int32(), pa.string())
    number = pa.float64() if layout is RUN else dictionary
    types = {query: dictionary, document: pa.large_string(), value: number}
    table = _read_table(data, len(layout.names), types)
    if table is None:
        return None
    values = table[value].to_numpy() if layout is RUN else _parse_levels(table[value])
    if values is None or np.isnan(values).any():
        return None
    queries, rows = _dictionary_codes(table[query])
    return TrecLines(queries, rows, VectorizedTexts(table[document]), values)


def _parse_levels(column: pa.ChunkedArray) -> Ints | None:
    texts, codes = _dictionary_codes(column)
    try:
        # Not the integers of Arrow: it accepts 0x10.
        levels: Ints = np.array([QRELS.parse(text.encode()) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return levels[codes]


def _read_table(data: bytes, columns: int, types: dict[str, Any]) -> pa.Table | None:
    """Read columns by their numbers; ``None`` if the lines are not regular, or a number is invalid."""
    import pyarrow as pa
    from pyarrow import csv

    # Arrow treats \r as a line end and drops a second byte order mark, which Python treats as part of the first id.
    if b"\r" in data or data.startswith(codecs.BOM_UTF8):
        return None
    white = _count_single_white_space(data)
    if not white:
        return None
    tab = b"\t" in data[: data.find(b"\n") + 1 or None]
    try:
        table = csv.read_csv(
            pa.py_buffer(data),
            read_options=csv.ReadOptions(column_names=[str(column) for column in range(columns)]),
            parse_options=csv.ParseOptions(
                delimiter="\t" if tab else " ", quote_char=False, double_quote=False, escape_char=False
            ),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], check_utf8=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    # The number of delimiters and line ends that Arrow read; any other white space makes the file irregular.
    return table if white == columns * table.num_rows - (not data.endswith(b"\n")) else None


def _count_single_white_space(data: bytes) -> int:
    """Count the bytes of white space or control characters; 0 if two are adjacent or the first byte is one."""
    whole = np.frombuffer(data, dtype=np.uint8)
    if not data or whole[0] <= _SPACE:
        return 0
    total = 0
    for start in range(0, len(data), _BLOCK_BYTES):
        white = whole[start : start + _BLOCK_BYTES + 1] <= _SPACE  # one more, to see a pair across the block boundary
        if (white[1:] & white[:-1]).any():
            return 0
        total += int(np.count_nonzero(white[:_BLOCK_BYTES]))
    return total


def _dictionary_codes(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Return the distinct strings of a column by first occurrence, and the index of the string of each line."""
    chunks = column.unify_dictionaries().chunks
    indexes = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    return chunks[0].dictionary.to_pylist(), np.concatenate(indexes).astype(np.int64)


# --- columns of strings: vectorised hashing, comparison and sorting --------------------------------------------------

Hashes = npt.NDArray[np.uint64]

_WORD = 8
_CHUNK = 1 << 15
"""The number of strings that are hashed at once: temporary arrays fit into the CPU cache."""
_HALF = np.uint64(32)


class VectorizedTexts:
    """The strings of a column of Arrow, in their order."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._texts = column.combine_chunks()

    def __len__(self) -> int:
        return len(self._texts)

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the strings, in the order of the lines or in another."""
        column = self._texts if order is None else self._texts.take(order)
        texts: list[str] = column.to_numpy(zero_copy_only=False).tolist()
        return texts

    def hashes(self, pool: Executor) -> Hashes:
        """Return a hash for each string. Hashes may collide: equal hashes need a comparison of the strings."""
        words, ends, lengths = self._words()
        hashes = lengths.astype(np.uint64)

        def mix(start: int) -> None:
            chunk = slice(start, start + _CHUNK)
            own = hashes[chunk]
            for which, word in _iter_words(words, ends[chunk], lengths[chunk]):
                mixed = (own[which] ^ word) * HASH_FACTOR
                own[which] = mixed ^ (mixed >> _HALF)

        list(pool.map(mix, range(0, len(hashes), _CHUNK)))
        return hashes

    def equal(self, lines: Ints, other: VectorizedTexts, other_lines: Ints) -> bool:
        """Whether these strings are equal to the other ones, pairwise."""
        return bool(self._texts.take(lines).equals(other._texts.take(other_lines)))

    def descending(self, lines: Ints, groups: Ints) -> Ints:
        """Return the position of each string after sorting every group in descending order of code points.

        ``groups`` is the first position of the group of each line, in ascending order, and a group has as many
        positions as lines. The order of equal strings is undefined.
        """
        import pyarrow as pa
        from pyarrow import compute

        # Arrow compares bytes, and UTF-8 sorts as its code points.
        table = pa.table({"group": groups, "text": self._texts.take(lines)})
        order = compute.sort_indices(table, sort_keys=[("group", "ascending"), ("text", "descending")])
        positions = np.empty(len(lines), dtype=np.int64)
        positions[order.to_numpy()] = groups + np.arange(len(groups)) - np.searchsorted(groups, groups)
        return positions

    def _words(self) -> tuple[Hashes, Ints, Ints]:
        """Return the word that begins at each byte of all strings; and the end and the length of each string."""
        _, offsets, data = self._texts.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int64)[self._texts.offset :][: len(self) + 1]
        content = np.frombuffer(data or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
        # Padding of one word at the start, so that a word can be read before any end.
        padded = np.concatenate((np.zeros(_WORD, dtype=np.uint8), content))
        words: Hashes = np.ndarray(len(padded) - _WORD + 1, dtype="<u8", buffer=padded, strides=(1,))
        return words, bounds[1:] - bounds[0] + _WORD, np.diff(bounds)


def _iter_words(words: Hashes, ends: Ints, lengths: Ints) -> Iterator[tuple[Ints | slice, Hashes]]:
    """Yield words that cover every byte of these strings, with the indexes of the strings."""
    # The last eight bytes come first: only for a shorter string must some bits be removed.
    tail = words[ends - _WORD]
    if lengths.min(initial=_WORD) < _WORD:
        tail >>= (8 * (_WORD - np.clip(lengths, 1, _WORD))).astype(np.uint64)
        tail[lengths == 0] = 0
    yield slice(None), tail
    which: Ints | slice = slice(None)
    at, left = ends - lengths, lengths
    while True:
        further = np.flatnonzero(left > _WORD)
        if not len(further):
            return
        if len(further) < len(left):
            which = further if isinstance(which, slice) else which[further]
            at, left = at[further], left[further]
        yield which, words[at]
        at, left = at + _WORD, left - _WORD


# --- judged pairs: hashes of query and document, and their lookup among retrieved ones -------------------------------

_QUERY_FACTOR = np.uint64(0x5851F42D4C957F2D)
"""Distributes the query numbers over all 64 bits."""
_SLOTS_PER_PAIR = 32
_MAX_SLOT_BITS = 22


def hash_pairs(queries: Ints, docs: VectorizedTexts, pool: Executor) -> Hashes:
    """Return a hash for each line, equal for equal pairs. Collisions are possible but rare."""
    keys = docs.hashes(pool)
    keys += queries.view(np.uint64) * _QUERY_FACTOR
    return keys


@dataclass(frozen=True, slots=True)
class GoldPairs:
    """The judged documents of all queries, each once: by query, then in file order."""

    lines: Ints
    """The line of each pair."""
    queries: Ints
    levels: Ints
    _keys: Hashes
    """The keys in ascending order."""
    _numbers: Ints
    """The number of the pair of each key."""

    def match(self, keys: Hashes) -> tuple[Ints, Ints]:
        """Return the positions of the keys of judged pairs, and the numbers of these pairs."""
        # Most keys belong to no judged pair: a table of their leading bits excludes them without a search.
        bits = min((len(self._keys) * _SLOTS_PER_PAIR).bit_length(), _MAX_SLOT_BITS)
        shift = np.uint64(64 - bits)
        taken = np.zeros(1 << bits, dtype=np.bool_)
        taken[self._keys >> shift] = True
        positions = np.flatnonzero(taken.take((keys >> shift).view(np.int64)))
        candidates = keys[positions]
        nearest = np.minimum(np.searchsorted(self._keys, candidates), len(self._keys) - 1)
        same = self._keys[nearest] == candidates
        return positions[same], self._numbers[nearest[same]]


def collect_gold_pairs(queries: Ints, docs: VectorizedTexts, levels: Ints, pool: Executor) -> GoldPairs | None:
    """Return the judged pairs of some lines; ``None`` if two keys collide. Of several levels the highest counts."""
    keys = hash_pairs(queries, docs, pool)
    order = np.argsort(keys)
    ordered = keys[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if len(again):
        order = np.lexsort((-levels, keys))
        first, second = order[again - 1], order[again]
        if (queries[first] != queries[second]).any() or not docs.equal(first, docs, second):
            return None
        order = np.delete(order, again)
    lines = np.sort(order)
    lines = lines[np.argsort(queries[lines], kind="stable")]
    number = np.empty(len(queries), dtype=np.int64)
    number[lines] = np.arange(len(lines))
    return GoldPairs(lines, queries[lines], levels[lines], keys[order], number[order])


# --- matching of gold documents in a run, without creating a string per line -----------------------------------------


@dataclass(frozen=True, slots=True)
class EncodedQrels:
    """Qrels line by line, and the pairs of query and document that they judge."""

    lines: TrecLines[VectorizedTexts]
    pairs: GoldPairs

    def levels_by_query(self) -> list[dict[str, int]]:
        """Return the judged levels by document for each query."""
        return list(judgements(self.lines).values())


def read_qrels(data: bytes, pool: Executor) -> EncodedQrels | None:
    """Read qrels; ``None`` if Arrow would not read them as Python does, a level is too large, or two hashes collide."""
    lines = read_columns(data, QRELS)
    if lines is None or max(int(lines.values.max()), -int(lines.values.min())) > HIGHEST_LEVEL:
        return None
    pairs = collect_gold_pairs(lines.rows, lines.docs, lines.values, pool)
    return None if pairs is None else EncodedQrels(lines, pairs)


def find_gold(qrels: EncodedQrels, run: TrecLines[VectorizedTexts], pool: Executor) -> PrecomputedHits | None:
    """Find the ranks of gold documents for the queries of the qrels; ``None`` if hashes collide."""
    ordering = pool.submit(sort_lines, run)
    queries, gold = qrels.lines.queries, qrels.pairs
    number_of = {query: number for number, query in enumerate(queries)}
    # Queries without judgements get numbers above those of the qrels.
    of_run = np.array(
        [number_of.get(query, new) for new, query in enumerate(run.queries, len(number_of))], dtype=np.int64
    )
    keys = hash_pairs(of_run[run.rows], run.docs, pool)
    distinct = pool.submit(_all_distinct, keys)
    lines, numbers = gold.match(keys)
    if (of_run[run.rows[lines]] != gold.queries[numbers]).any():
        return None
    if not run.docs.equal(lines, qrels.lines.docs, gold.lines[numbers]):
        return None
    order = ordering.result()
    at, numbers = _positions_in_order(order, lines, numbers, len(keys))
    rank = _break_ties(at, order, run.docs) - order.starts[run.rows[order.lines_at(at)]]
    returned, judged = np.zeros(len(queries), dtype=np.int64), of_run < len(queries)
    returned[of_run[judged]] = order.counts[judged]
    found = _build_hits(gold, numbers, rank, returned)
    return PrecomputedHits(
        queries, found, qrels.levels_by_query, partial(_all_rankings, queries, run), distinct.result()
    )


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


def _build_hits(gold: GoldPairs, number: Ints, rank: Ints, returned: Ints) -> GoldPositions:
    """Return the hits: judged pairs by their number, and the rank of each."""
    query = gold.queries[number]
    by_rank = np.argsort(query * (rank.max(initial=0) + 1) + rank)
    query, rank, number = query[by_rank], rank[by_rank], number[by_rank]
    first = np.sort(np.unique(number, return_index=True)[1])  # a repeated document counts once
    return GoldPositions(
        row=query[first],
        rank=rank[first],
        level=gold.levels[number[first]],
        returned=returned,
        annotated=np.ones(len(returned), dtype=np.bool_),
        gold_count=np.bincount(gold.queries, minlength=len(returned)),
        gold_level=gold.levels,
    )


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
    return np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)


def _all_rankings(queries: list[str], run: TrecLines[VectorizedTexts]) -> list[list[str]]:
    by_query: Mapping[str, list[str]] = rankings(run)
    return [by_query.get(query, []) for query in queries]
