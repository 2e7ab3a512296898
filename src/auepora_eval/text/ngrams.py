"""N-grams of many rows at once, and the longest common subsequence."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt

from .vocabulary import Ids, IdTable, Keys, TokenIds, common_keys

Integers = npt.NDArray[np.int64]
_HALF = np.uint64(32)


def ngram_counts(texts: TokenIds, n: int) -> Integers:
    """The number of n-grams of each text."""
    return np.maximum(texts.counts - (n - 1), 0)


def count_shared_ngrams(answers: TokenIds, references: TokenIds, n: int) -> Integers:
    """Per row the number of n-grams its two texts share, each clipped to the smaller count.

    Short n-grams fit into one integer together with their row: sorted, equal ones are neighbours.
    """
    bits = max(int(texts.ids.max(initial=0)) for texts in (answers, references)).bit_length()
    if len(answers).bit_length() + n * bits > 62:
        return next(islice(iter_shared_ngrams(answers, references), n - 1, None))
    keys = np.concatenate((_pack_ngrams(answers, n, bits) << 1, _pack_ngrams(references, n, bits) << 1 | 1))
    keys.sort()
    from_references = keys & 1
    keys >>= 1
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(starts):
        return np.zeros(len(answers), np.int64)
    want = np.add.reduceat(from_references, starts)
    have = np.diff(starts, append=len(keys)) - want
    # Counts are far below 2**53, where floating point begins to lose integers.
    rows, shared = keys.take(starts) >> (n * bits), np.minimum(have, want)
    return np.bincount(rows, weights=shared, minlength=len(answers)).astype(np.int64)


def _pack_ngrams(texts: TokenIds, n: int, bits: int) -> Integers:
    """Every n-gram as one integer: its row, and then its tokens."""
    last = len(texts.ids) - n + 1
    keys = texts.rows[: max(last, 0)]
    for word in range(n):
        keys = keys << bits | texts.ids[word : word + max(last, 0)]
    return keys if n == 1 else keys[_remaining_tokens(texts)[: max(last, 0)] >= n]


def iter_shared_ngrams(answers: TokenIds, references: TokenIds, owners: Integers | None = None) -> Iterator[Integers]:
    """``count_shared_ngrams`` for n = 1, 2, ... in turn, also with several references for one answer.

    ``owners`` is the row of the answer of each reference (default: one each, in order); the count of an n-gram is
    clipped to its highest count in a reference.
    """
    owners = np.arange(len(answers)) if owners is None else owners
    several = len(np.unique(owners)) < len(owners)
    ngrams = _NgramTable(
        np.concatenate((answers.ids, references.ids)),
        np.concatenate((answers.rows, np.repeat(owners, references.counts))),
        np.concatenate((_remaining_tokens(answers), _remaining_tokens(references))),
    )
    while True:
        # Positions are in ascending order, and answers come first.
        split = int(np.searchsorted(ngrams.places, len(answers.ids)))
        have, want = ngrams.numbers[:split], ngrams.numbers[split:]
        if several:
            most = _max_per_text(want, references.rows.take(ngrams.places[split:] - len(answers.ids)), ngrams.count)
        else:
            most = np.bincount(want, minlength=ngrams.count)
        shared = np.minimum(np.bincount(have, minlength=ngrams.count), most)
        row = np.zeros(ngrams.count, np.int64)
        row[have] = ngrams.rows[:split]
        # Counts are far below 2**53, where floating point begins to lose integers.
        yield np.bincount(row, weights=shared, minlength=len(answers)).astype(np.int64)
        ngrams = ngrams.extend(shared > 0)


def _max_per_text(numbers: Ids, texts: Integers, count: int) -> Integers:
    """Per n-gram its highest count in a text."""
    per_text = IdTable()
    codes = per_text.get_or_add(_pairs(numbers, texts))
    number_of = np.zeros(per_text.count, np.int64)
    number_of[codes] = numbers
    most = np.zeros(count, np.int64)
    np.maximum.at(most, number_of, np.bincount(codes, minlength=per_text.count))
    return most


class _NgramTable:
    """The n-grams of some texts: their positions, rows and ids; equal n-grams of a row have equal ids."""

    def __init__(self, ids: Ids, rows: Integers, room: Integers) -> None:
        self._ids = ids
        self._room = room
        self._order = 1
        self.places: Integers = np.arange(len(ids))
        self.rows = rows
        self._numbering = IdTable()
        self.numbers = self._numbering.get_or_add(_pairs(rows, ids))

    @property
    def count(self) -> int:
        """The number of different n-grams."""
        return self._numbering.count

    def extend(self, keep: npt.NDArray[np.bool_]) -> _NgramTable:
        """The n-grams longer by one token, of those whose id is kept and that are followed by a token."""
        ngrams = object.__new__(_NgramTable)
        ngrams._ids, ngrams._room, ngrams._order = self._ids, self._room, self._order + 1
        going = np.flatnonzero(keep.take(self.numbers) & (self._room.take(self.places) > self._order))
        ngrams.places, ngrams.rows = self.places.take(going), self.rows.take(going)
        ngrams._numbering = IdTable()
        last = self._ids.take(ngrams.places + self._order)
        ngrams.numbers = ngrams._numbering.get_or_add(_pairs(self.numbers.take(going), last))
        return ngrams


def _pairs(first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Keys:
    """Two integers below 2**32 as one key."""
    keys: Keys = first.astype(np.uint64)
    keys <<= _HALF
    keys |= second.astype(np.uint64)
    return keys


def _remaining_tokens(texts: TokenIds) -> Integers:
    """Per token the number of tokens from there to the end of its text."""
    return np.repeat(texts.bounds[1:], texts.counts) - np.arange(len(texts.ids))


_PART = 8192
"""Number of answer tokens that are matched at once: the tables of more do not fit into the cache of a processor."""


class NgramSupport:
    """Which n-grams of answers occur in the evidence of their row, computed order by order on request."""

    def __init__(self, answers: TokenIds, documents: TokenIds, uses: Integers, owners: Integers, size: int) -> None:
        """``uses`` are the documents that are evidence, and ``owners`` the row of each, in ascending order.

        ``size`` is that of the vocabulary.
        """
        self._answers = answers
        self._numbers, self._evidence, bounds = _number_by_row(answers, documents, uses, owners, size)
        known = self._evidence >= 0
        seen = np.zeros(len(answers.ids), np.bool_)
        seen[self._evidence.take(np.flatnonzero(known)).astype(np.int64)] = True  # faster than with 32 bits
        self._followed = known
        """Whether a token of the evidence and the next one of its text are in the answer."""
        known[:-1] &= known[1:]
        known[bounds[bounds > 0] - 1] = False
        places, evidence_places = np.flatnonzero(seen.take(self._numbers)), np.flatnonzero(known)
        self._orders = [
            _NgramMatches(places, self._numbers.take(places), evidence_places, self._evidence.take(evidence_places))
        ]

    def places(self, n: int) -> Integers:
        """The positions of the n-grams of answers that occur."""
        while len(self._orders) < n:
            self._orders.append(self._longer(self._orders[-1], len(self._orders)))
        return self._orders[n - 1].places

    def counts(self, n: int) -> Integers:
        """Per answer the number of its n-grams that occur, with repetitions."""
        return np.bincount(self._answers.rows.take(self.places(n)), minlength=len(self._answers))

    def _longer(self, order: _NgramMatches, n: int) -> _NgramMatches:
        """The n-grams longer by one token than those of order ``n``."""
        going = np.flatnonzero(_remaining_tokens(self._answers).take(order.places) > n)
        places = order.places.take(going)
        kept, numbers, evidence_kept, evidence_numbers = common_keys(
            _pairs(order.numbers.take(going), self._numbers.take(places + n)),
            _pairs(order.evidence_numbers, self._evidence.take(order.evidence_places + n)),
        )
        evidence_places = order.evidence_places.take(evidence_kept)
        followed = np.flatnonzero(self._followed.take(evidence_places + n))
        return _NgramMatches(
            places.take(kept), numbers, evidence_places.take(followed), evidence_numbers.take(followed)
        )


@dataclass(frozen=True, slots=True)
class _NgramMatches:
    """The n-grams of one order that an answer and its evidence share. Equal n-grams of a row have the same number.

    Of the evidence only n-grams that are followed by a token of the answer are kept.
    """

    places: Integers
    numbers: Ids
    evidence_places: Integers
    evidence_numbers: Ids


def _number_by_row(
    answers: TokenIds, documents: TokenIds, uses: Integers, owners: Integers, size: int
) -> tuple[Ids, Ids, Integers]:
    """The numbers of the tokens of answers and of the evidence, and the bounds of its texts.

    Equal tokens of a row have the same number, the position of one of them; it is -1 for tokens that are not in the
    answer. A table of rows and tokens is faster than hashing, if it is small: some rows at a time.
    """
    numbers, found, counts = np.empty(len(answers.ids), np.int32), [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    columns = np.zeros(size, np.int64)
    rows = answers.rows
    long = answers.counts > _PART
    parts = (answers.bounds[:-1] + 16 * np.arange(len(answers))) // _PART + 2 * np.cumsum(long) - long
    edges = np.flatnonzero(np.diff(parts, prepend=-1))  # a long answer is a part of its own
    texts = [*np.searchsorted(owners, edges).tolist(), len(owners)]
    for (first, last), (text, end) in zip(pairwise([*edges.tolist(), len(answers)]), pairwise(texts), strict=True):
        part = slice(answers.bounds[first], answers.bounds[last])
        ids, positions = answers.ids[part], np.arange(part.start, part.stop)
        columns[ids] = positions
        distinct = ids[columns.take(ids) == positions]
        width = len(distinct) + 1  # column 0 is for tokens that are in no answer
        columns[distinct] = np.arange(1, width)
        table = np.full((last - first) * width, -1, np.int32)
        cells = (rows[part] - first) * width + columns.take(ids)
        table[cells] = positions
        numbers[part] = table.take(cells)
        evidence = documents.take(uses[text:end])
        counts.append(evidence.counts)
        cells = columns.take(evidence.ids)
        cells += np.repeat((owners[text:end] - first) * width, counts[-1])
        found.append(table.take(cells))
        columns[distinct] = 0
    return numbers, np.concatenate(found), np.concatenate(([0], np.cumsum(np.concatenate(counts))))


def distinct_ngrams(texts: TokenIds, n: int) -> Integers:
    """The number of different n-grams of each text."""
    ngrams = _NgramTable(texts.ids, texts.rows, _remaining_tokens(texts))
    for _ in range(n - 1):
        ngrams = ngrams.extend(np.ones(ngrams.count, np.bool_))
    row = np.zeros(ngrams.count, np.int64)
    row[ngrams.numbers] = ngrams.rows
    return np.bincount(row, minlength=len(texts))


class DistinctNgramCounter:
    """Counts all and distinct n-grams of texts that are added in parts."""

    def __init__(self, n: int) -> None:
        self._orders = [IdTable() for _ in range(n - 1)]
        self._words = 0
        self.total = 0
        """The number of all n-grams."""

    @property
    def distinct(self) -> int:
        """The number of different n-grams."""
        return self._orders[-1].count if self._orders else self._words

    def add(self, texts: TokenIds) -> None:
        """Add texts with token ids of the same vocabulary. No n-gram spans two texts."""
        room = _remaining_tokens(texts)
        numbers, places = texts.ids, np.arange(len(texts.ids))
        for order, numbering in enumerate(self._orders, 1):
            going = np.flatnonzero(room.take(places) > order)
            places = places.take(going)
            numbers = numbering.get_or_add(_pairs(numbers.take(going), texts.ids.take(places + order)))
        self._words = max(self._words, int(texts.ids.max(initial=-1)) + 1)
        self.total += len(places)


# --- longest common subsequence, a whole table row at a time in one integer ------------------------------------------
# The textbook table has a row per item of one sequence and a column per item of the other; a cell holds the LCS length
# of the two prefixes. Along a row the numbers start at 0 and grow by 0 or 1 per column, so a row is known by *where* it
# grows: one bit per column, and the LCS is the number of places where the last row grows. Going to the next row is then
# an addition on long integers (Crochemore et al. 2001; Hyyrö, "Bit-parallel LCS-length computation revisited", 2004),
# some thirty cells per machine operation instead of one per turn of a Python loop.

# Token ids as characters: ids from here on are shifted past the surrogates, which are not characters.
_SURROGATES, _HOW_MANY, _CHARACTERS = 0xD800, 0x800, 0x110000


def lcs_length(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The most items that occur in the same order in ``a`` and in ``b``; items are equal as dictionary keys are."""
    columns, rows = (a, b) if len(a) <= len(b) else (b, a)  # masks cost columns squared: keep them few
    masks: dict[Hashable, int] = {}
    for column, item in enumerate(columns):
        masks[item] = masks.get(item, 0) | 1 << column

    # A set bit is a column where the row does not grow. Before the first item of `rows` none does.
    every = (1 << len(columns)) - 1
    flat = every
    for item in rows:
        if mask := masks.get(item):
            # Cut the row into blocks, each a run of flat columns up to and with the next one that grows. A match in a
            # block lets the row grow at the first matching column instead. The sum does this to all blocks at once:
            # the match's bit turns to 0 and its carry runs up to set the bit that ended the block. The difference
            # brings back the flat columns the carry passed. A carry out of the last block is an LCS longer by one.
            matches = flat & mask
            flat = ((flat + matches) | (flat - matches)) & every
    return len(columns) - flat.bit_count()


def lcs_positions(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[int]:
    """The positions in ``a`` of one longest common subsequence with ``b``.

    Of several, the one that is found by walking back from the end and, at a fork, going down in ``a`` unless a step
    down in ``b`` loses less: the choice of the rouge-score package, whose union over sentences depends on it.
    """
    masks: dict[Hashable, int] = {}
    for column, item in enumerate(b):
        masks[item] = masks.get(item, 0) | 1 << column
    every = flat = (1 << len(b)) - 1
    grows = [0]  # per row the columns where it grows; a cell is the number of those before it
    for item in a:
        if mask := masks.get(item):
            matches = flat & mask
            flat = ((flat + matches) | (flat - matches)) & every
        grows.append(every & ~flat)
    row, column, found = len(a), len(b), []
    while row and column:
        if a[row - 1] == b[column - 1]:
            row, column = row - 1, column - 1
            found.append(row)
        elif _cell(grows[row], column - 1) > _cell(grows[row - 1], column):
            column -= 1
        else:
            row -= 1
    return found[::-1]


def _cell(grows: int, column: int) -> int:
    """The number in a row's table cell: how often the row grows before it."""
    return (grows & ((1 << column) - 1)).bit_count()


def lcs_lengths(first: TokenIds, second: TokenIds) -> npt.NDArray[np.int64]:
    """``lcs_length`` of each text of ``first`` with its counterpart in ``second``.

    Tokens become characters of one string each, on which rapidfuzz runs the same recurrence in compiled code.
    """
    most = max(first.ids.max(initial=0), second.ids.max(initial=0))
    if most >= _CHARACTERS - _HOW_MANY:  # more different tokens than there are characters
        return np.array([lcs_length(a, b) for a, b in zip(_lists(first), _lists(second), strict=True)], np.int64)
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cpdist

    lengths = cpdist(_strings(first), _strings(second), scorer=LCSseq.similarity, dtype=np.int32)
    return np.asarray(lengths, np.int64)


def _lists(texts: TokenIds) -> list[list[int]]:
    ids, bounds = texts.ids.tolist(), texts.bounds.tolist()
    return [ids[start:end] for start, end in pairwise(bounds)]


def _strings(texts: TokenIds) -> list[str]:
    codes = texts.ids.astype("<u4")
    codes[codes >= _SURROGATES] += _HOW_MANY
    joined, bounds = codes.tobytes().decode("utf-32-le"), texts.bounds.tolist()
    return [joined[start:end] for start, end in pairwise(bounds)]
