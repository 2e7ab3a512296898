"""N-grams of many rows at once: how many two texts share, how many occur in some evidence, how many are distinct.

A short n-gram fits into one number with its row, and sorting brings equal ones together. A longer one is the number of
the (n-1)-gram before its last word, together with that word: two 32-bit halves of one exact key. So numbers grow order
by order, n-grams of different rows never mix, and only what matched at one order is looked at in the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from .id_table import Ids, IdTable, Keys
from .vocabulary import TokenIds

__all__ = [
    "DistinctNgramCounter",
    "NgramSupport",
    "count_shared_ngrams",
    "distinct_ngrams",
    "iter_shared_ngrams",
    "ngram_counts",
]

Integers = npt.NDArray[np.int64]
_HALF = np.uint64(32)


def ngram_counts(texts: TokenIds, n: int) -> Integers:
    """How many n-grams each text has."""
    return np.maximum(texts.counts - (n - 1), 0)


def count_shared_ngrams(answers: TokenIds, references: TokenIds, n: int) -> Integers:
    """Per row the number of n-grams its two texts share, each as often as in the text that has it less often.

    Short n-grams fit into one number together with their row: sorted, equal ones are neighbours.
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
    # Counts are far below 2**53, where floating point begins to lose whole numbers.
    rows, shared = keys.take(starts) >> (n * bits), np.minimum(have, want)
    return np.bincount(rows, weights=shared, minlength=len(answers)).astype(np.int64)


def _pack_ngrams(texts: TokenIds, n: int, bits: int) -> Integers:
    """Every n-gram as one number: its row, and then its words."""
    last = len(texts.ids) - n + 1
    keys = texts.rows[: max(last, 0)]
    for word in range(n):
        keys = keys << bits | texts.ids[word : word + max(last, 0)]
    return keys if n == 1 else keys[_remaining_tokens(texts)[: max(last, 0)] >= n]


def iter_shared_ngrams(answers: TokenIds, references: TokenIds, owners: Integers | None = None) -> Iterator[Integers]:
    """``count_shared_ngrams`` for n = 1, 2, ... in turn, and for several wanted texts for one that is given.

    ``owners`` says for every wanted text to which given one it belongs (default: one each, in order); an n-gram counts
    at most as often as in the wanted text that has it most often.
    """
    owners = np.arange(len(answers)) if owners is None else owners
    several = len(np.unique(owners)) < len(owners)
    ngrams = _NgramTable(
        np.concatenate((answers.ids, references.ids)),
        np.concatenate((answers.rows, np.repeat(owners, references.counts))),
        np.concatenate((_remaining_tokens(answers), _remaining_tokens(references))),
    )
    while True:
        # The places are in ascending order, and the given texts come first.
        split = int(np.searchsorted(ngrams.places, len(answers.ids)))
        have, want = ngrams.numbers[:split], ngrams.numbers[split:]
        if several:
            most = _max_per_text(want, references.rows.take(ngrams.places[split:] - len(answers.ids)), ngrams.count)
        else:
            most = np.bincount(want, minlength=ngrams.count)
        shared = np.minimum(np.bincount(have, minlength=ngrams.count), most)
        row = np.zeros(ngrams.count, np.int64)
        row[have] = ngrams.rows[:split]
        # Counts are far below 2**53, where floating point begins to lose whole numbers.
        yield np.bincount(row, weights=shared, minlength=len(answers)).astype(np.int64)
        ngrams = ngrams.extend(shared > 0)


def _max_per_text(numbers: Ids, texts: Integers, count: int) -> Integers:
    """Per number how often it stands in the text that has it most often."""
    per_text = IdTable()
    codes = per_text.get_or_add(_pairs(numbers, texts))
    number_of = np.zeros(per_text.count, np.int64)
    number_of[codes] = numbers
    most = np.zeros(count, np.int64)
    np.maximum.at(most, number_of, np.bincount(codes, minlength=per_text.count))
    return most


class _NgramTable:
    """The n-grams of some texts: where each begins, the row it belongs to, and its number among equals of its row."""

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
        """How many different n-grams there are."""
        return self._numbering.count

    def extend(self, keep: npt.NDArray[np.bool_]) -> _NgramTable:
        """The n-grams that are longer by one, of those whose number is kept and that have a word after them."""
        ngrams = object.__new__(_NgramTable)
        ngrams._ids, ngrams._room, ngrams._order = self._ids, self._room, self._order + 1
        going = np.flatnonzero(keep.take(self.numbers) & (self._room.take(self.places) > self._order))
        ngrams.places, ngrams.rows = self.places.take(going), self.rows.take(going)
        ngrams._numbering = IdTable()
        last = self._ids.take(ngrams.places + self._order)
        ngrams.numbers = ngrams._numbering.get_or_add(_pairs(self.numbers.take(going), last))
        return ngrams


def _pairs(first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Keys:
    """Two numbers below 2**32 as one key."""
    keys: Keys = first.astype(np.uint64)
    keys <<= _HALF
    keys |= second.astype(np.uint64)
    return keys


def _remaining_tokens(texts: TokenIds) -> Integers:
    """Per word how many words its text has from there on."""
    return np.repeat(texts.bounds[1:], texts.counts) - np.arange(len(texts.ids))


class NgramSupport:
    """Which n-grams of given texts occur in the evidence of their row, worked out order by order as it is asked for."""

    def __init__(self, answers: TokenIds, evidence: TokenIds, owners: Integers) -> None:
        """``owners`` says for every evidence text to which given text it belongs. A word of it may be unknown (-1)."""
        self._given, self._evidence = answers, evidence
        # Most evidence does not matter: words that stand in no given text at all go first. The last entry is for -1.
        occurring = np.zeros(max(answers.ids.max(initial=-1), evidence.ids.max(initial=-1)) + 2, np.bool_)
        occurring[answers.ids] = True
        places = np.flatnonzero(occurring[evidence.ids])
        rows = np.repeat(owners, evidence.counts).take(places)
        self._orders = [
            _NgramMatches.of(
                np.arange(len(answers.ids)),
                _pairs(answers.rows, answers.ids),
                places,
                _pairs(rows, evidence.ids.take(places)),
            )
        ]

    def matches(self, n: int) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Where n-grams of the given texts begin, and whether each occurs; without those of which a part does not."""
        while len(self._orders) < n:
            self._orders.append(self._longer(self._orders[-1], len(self._orders)))
        order = self._orders[n - 1]
        return order.places, order.matches

    def counts(self, n: int) -> Integers:
        """Per given text the number of its n-grams that occur, repeats counted."""
        places, found = self.matches(n)
        return np.bincount(self._given.rows.take(places[found]), minlength=len(self._given))

    def _longer(self, order: _NgramMatches, n: int) -> _NgramMatches:
        going = np.flatnonzero(order.matches & (_remaining_tokens(self._given).take(order.places) > n))
        places = order.places.take(going)
        known = np.flatnonzero(_remaining_tokens(self._evidence).take(order.evidence_places) > n)
        evidence_places = order.evidence_places.take(known)
        return _NgramMatches.of(
            places,
            _pairs(order.numbers.take(going), self._given.ids.take(places + n)),
            evidence_places,
            _pairs(order.evidence_numbers.take(known), self._evidence.ids.take(evidence_places + n)),
        )


@dataclass(frozen=True, slots=True)
class _NgramMatches:
    """The n-grams of one order: where they begin, their numbers, and those of the evidence that equal one of them."""

    places: Integers
    numbers: Ids
    matches: npt.NDArray[np.bool_]
    evidence_places: Integers
    evidence_numbers: Ids

    @classmethod
    def of(cls, places: Integers, keys: Keys, evidence_places: Integers, evidence_keys: Keys) -> _NgramMatches:
        numbering = IdTable()
        numbers = numbering.get_or_add(keys)
        evidence_numbers = numbering.find(evidence_keys)
        known = np.flatnonzero(evidence_numbers >= 0)
        evidence_numbers = evidence_numbers.take(known)
        seen = np.zeros(numbering.count, np.bool_)
        seen[evidence_numbers] = True
        return cls(places, numbers, seen.take(numbers), evidence_places.take(known), evidence_numbers)


def distinct_ngrams(texts: TokenIds, n: int) -> Integers:
    """How many different n-grams each text has."""
    ngrams = _NgramTable(texts.ids, texts.rows, _remaining_tokens(texts))
    for _ in range(n - 1):
        ngrams = ngrams.extend(np.ones(ngrams.count, np.bool_))
    row = np.zeros(ngrams.count, np.int64)
    row[ngrams.numbers] = ngrams.rows
    return np.bincount(row, minlength=len(texts))


class DistinctNgramCounter:
    """Counts the n-grams of texts that come in parts, in all and how many of them differ."""

    def __init__(self, n: int) -> None:
        self._orders = [IdTable() for _ in range(n - 1)]
        self._words = 0
        self.total = 0
        """How many there are in all."""

    @property
    def distinct(self) -> int:
        """How many of them differ."""
        return self._orders[-1].count if self._orders else self._words

    def add(self, texts: TokenIds) -> None:
        """Take in further texts, whose words are numbered like those before. No n-gram goes across two texts."""
        room = _remaining_tokens(texts)
        numbers, places = texts.ids, np.arange(len(texts.ids))
        for order, numbering in enumerate(self._orders, 1):
            going = np.flatnonzero(room.take(places) > order)
            places = places.take(going)
            numbers = numbering.get_or_add(_pairs(numbers.take(going), texts.ids.take(places + order)))
        self._words = max(self._words, int(texts.ids.max(initial=-1)) + 1)
        self.total += len(places)
