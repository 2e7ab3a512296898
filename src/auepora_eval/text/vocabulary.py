"""Vocabularies: tokens of many texts as integer ids, without a Python object per token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .tokenizers import BLANK, NEXT_TEXT, RESERVED_BYTES, ByteTokenizer, CharacterTokenizer, Tokenizer

# --- hash table from 64-bit keys to consecutive ids: thousands of keys per numpy call --------------------------------
# A dictionary would do the same one key at a time. Here all keys of an array try a slot of a table at once; where two
# different keys collide, the first keeps the slot, and the others try the next table with another hash. Keys are
# compared in full, so that the hash affects only speed.

Keys = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.int32]

_FREE = -1
_MIN_BITS = 10
# Odd multipliers (fractional digits of square roots), one per table; they repeat after the last.
_MULTIPLIERS = tuple(
    np.uint64(m)
    for m in (0x9E3779B97F4A7C15, 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1)
)


class IdTable:
    """Assigns ids from 0 to keys. ``get_or_add`` adds new keys, ``find`` does not."""

    def __init__(self) -> None:
        self._tables: list[Ids] = []
        self._keys: Keys = np.empty(0, np.uint64)
        self.count = 0
        """The number of different keys."""

    def get_or_add(self, keys: Keys) -> Ids:
        """The id of each key; new keys are added."""
        if self._tables and 2 * self.count > len(self._tables[0]):
            self._rehash()
        result, pending, level = np.empty(len(keys), np.int32), None, 0
        while True:
            chunk = keys if pending is None else keys[pending]
            if not len(chunk):
                return result
            if level == len(self._tables):
                self._tables.append(_empty_table(len(chunk)))
            table = self._tables[level]
            slots = _slots(chunk, level, table)
            ids = self._claim_slots(table, slots, chunk)
            pending = _assign(result, ids, self._keys.take(ids) == chunk, pending)
            level += 1

    def find(self, keys: Keys) -> Ids:
        """The id of each key, -1 for an unknown one."""
        result, pending = np.full(len(keys), _FREE, np.int32), None
        for level, table in enumerate(self._tables):
            chunk = keys if pending is None else keys[pending]
            ids = table.take(_slots(chunk, level, table))
            # A free slot ends the search, since the key would have been stored there.
            pending = _assign(result, ids, (self._keys.take(ids) == chunk) | (ids == _FREE), pending)
        if pending is not None:
            result[pending] = _FREE
        return result

    def _rehash(self) -> None:
        """Rebuild with a larger first table; every key keeps its id."""
        result = np.arange(self.count, dtype=np.int32)
        self._tables = []
        while len(result):
            table = _empty_table(2 * len(result))
            keys = self._keys.take(result)
            slots = _slots(keys, len(self._tables), table)
            table[slots] = result
            self._tables.append(table)
            result = result[table.take(slots) != result]

    def _claim_slots(self, table: Ids, slots: npt.NDArray[np.int64], chunk: Keys) -> Ids:
        """The id in each slot, after assigning free slots to one of the keys that hash to them."""
        ids = table.take(slots)
        candidates = np.flatnonzero(ids == _FREE)
        if not len(candidates):
            return ids
        contested = slots.take(candidates)
        table[contested] = candidates  # the last to write stays
        winners = candidates[table.take(contested) == candidates]
        first = self.count
        self.count += len(winners)
        if self.count > len(self._keys):
            self._keys = np.resize(self._keys, max(2 * len(self._keys), self.count, 1 << _MIN_BITS))
        self._keys[first : self.count] = chunk.take(winners)
        table[slots.take(winners)] = np.arange(first, self.count, dtype=np.int32)
        ids[candidates] = table.take(contested)
        return ids


def _assign(
    result: Ids, ids: Ids, same: npt.NDArray[np.bool_], pending: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64]:
    """Store the ids found and return the positions of collisions; a later table overwrites those."""
    wrong = np.flatnonzero(~same)
    if pending is None:
        result[:] = ids
        return wrong
    result[pending] = ids
    return pending[wrong]


def _empty_table(keys: int) -> Ids:
    """A table large enough that most of this number of keys have a slot of their own."""
    bits = max(_MIN_BITS, (2 * keys).bit_length())
    return np.full(1 << bits, _FREE, np.int32)


def _slots(keys: Keys, level: int, table: Ids) -> npt.NDArray[np.int64]:
    """The slot of each key: the top bits of a product, which depend on every bit of the key."""
    bits = len(table).bit_length() - 1
    hashed = keys * _MULTIPLIERS[level % len(_MULTIPLIERS)]
    # Past the last multiplier the product is mixed again, so that all levels hash differently.
    for _ in range(level // len(_MULTIPLIERS)):
        hashed = (hashed ^ (hashed >> np.uint64(31))) * _MULTIPLIERS[0]
    return (hashed >> np.uint64(64 - bits)).view(np.int64)


# --- vocabularies: tokens of many texts as integer ids, without a Python object per token ----------------------------

Positions = npt.NDArray[np.int64]

_HEAD, _STEP, _LONGEST = 8, 4, 64
_PAD = bytes([BLANK]) * 16
_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
# Not a byte of UTF-8, so that the key of a long token is never that of a short one.
_LONG = np.uint64(0xFE << 56)
_COLLISION = np.uint64(0xFD << 56)
_Numbers = Callable[[IdTable, Keys], Ids]
"""How keys get their ids: ``Numbering.number`` or ``Numbering.find``."""


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The token ids of some texts: text ``i`` is ``ids[bounds[i] : bounds[i + 1]]``."""

    ids: Ids
    bounds: Positions

    @classmethod
    def of(cls, ids: Ids, counts: npt.NDArray[np.int64]) -> TokenIds:
        """From all token ids and the number of tokens of each text."""
        bounds = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        return cls(ids, bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def counts(self) -> Positions:
        """The number of tokens of each text."""
        return np.diff(self.bounds)

    @property
    def rows(self) -> Positions:
        """For each token the row of its text."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, texts: npt.NDArray[np.int64]) -> TokenIds:
        """The texts with these rows, in this order; rows may repeat."""
        starts, ends = self.bounds[texts], self.bounds[texts + 1]
        return TokenIds.of(self.ids.take(_concatenate_ranges(starts, ends)), ends - starts)


def character_ids(texts: Sequence[str], tokenizer: CharacterTokenizer) -> TokenIds:
    """The characters of each text as Unicode code points."""
    chosen = [tokenizer.text(text) for text in texts]
    data = "".join(chosen).encode("utf-32-le", "surrogatepass")
    return TokenIds.of(np.frombuffer(data, np.dtype("<i4")), np.fromiter(map(len, chosen), np.int64, len(chosen)))


class Vocabulary:
    """Maps raw tokens of a byte tokenizer to ids."""

    def __init__(self, byte_tokenizer: ByteTokenizer, *, remember: bool = True) -> None:
        """Without ``remember`` ids are the same, but cannot be mapped back to tokens."""
        self.byte_tokenizer = byte_tokenizer
        self._remember = remember
        self._words = IdTable()
        self._prefixes: list[IdTable] = []
        self._medium = _MediumTokenTable()
        self._tails: dict[bytes, int] = {}
        self._store = _WordStore()

    @property
    def count(self) -> int:
        """The number of different tokens."""
        return self._words.count

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """The token ids of each text; new tokens are added."""
        tokenized = _TokenizedBytes.of(self.byte_tokenizer, texts)
        before = self.count
        ids = self._words.get_or_add(self._keys(tokenized, IdTable.get_or_add))
        if self._remember and self.count > before:
            place = np.zeros(self.count - before, np.int64)
            fresh = np.flatnonzero(ids >= before)
            place[ids[fresh] - before] = fresh
            self._store.add(tokenized.data, tokenized.starts[place], tokenized.ends[place])
        return TokenIds(ids, tokenized.bounds)

    def lookup(self, texts: Sequence[str]) -> TokenIds:
        """The token ids of each text, -1 for unknown tokens: cheaper where only known tokens matter."""
        tokenized = _TokenizedBytes.of(self.byte_tokenizer, texts)
        return TokenIds(self._words.find(self._keys(tokenized, IdTable.find)), tokenized.bounds)

    def words(self, ids: Positions) -> list[str]:
        """The tokens with these ids."""
        return self._store.words(ids)

    def containing_bytes(self, ids: Positions, some: bytes) -> Positions:
        """Those of these ids whose tokens contain any of the given bytes."""
        return self._store.containing_bytes(ids, some)

    def _keys(self, tokenized: _TokenizedBytes, numbers: _Numbers) -> Keys:
        """The key of every token; 0, which no token has, for a long one that ``numbers`` does not find."""
        lengths = tokenized.ends - tokenized.starts
        eights = tokenized.eights
        keys: Keys = eights[tokenized.starts]
        keys &= _LOW_BYTES.take(np.minimum(lengths, _HEAD))
        long = np.flatnonzero(lengths > _HEAD)
        if len(long):
            starts, rest, heads = tokenized.starts[long], lengths[long] - _HEAD, keys[long]
            tails = eights[starts + _HEAD] & _LOW_BYTES.take(np.minimum(rest, _HEAD))
            found = self._medium.keys(heads, tails, numbers)
            others = np.flatnonzero((rest > _HEAD) | (found == _COLLISION))
            if len(others):
                found[others] = self._long_keys(
                    tokenized, heads[others], starts[others], lengths[long[others]], numbers
                )
            keys[long] = found
        return keys

    def _long_keys(
        self, tokenized: _TokenizedBytes, heads: Keys, starts: Positions, lengths: Positions, numbers: _Numbers
    ) -> Keys:
        """The keys of tokens of any length, four bytes at a time."""
        keys = np.zeros(len(heads), np.uint64)
        node = numbers(self._prefix(0), heads)
        pending = np.flatnonzero(node >= 0)
        node = node[pending]
        for depth, at in enumerate(range(_HEAD, _LONGEST, _STEP), 1):
            if not len(pending):
                return keys
            rest = lengths[pending] - at
            following = tokenized.eights[starts[pending] + at] & _LOW_BYTES.take(np.minimum(rest, _STEP))
            node = numbers(self._prefix(depth), (node.astype(np.uint64) << np.uint64(32)) | following)
            done = np.flatnonzero((rest <= _STEP) & (node >= 0))
            # The depth distinguishes tokens that end here from those that end elsewhere.
            keys[pending[done]] = _LONG | np.uint64(depth << 48) | node[done].astype(np.uint64)
            going = np.flatnonzero((rest > _STEP) & (node >= 0))
            pending, node = pending[going], node[going]
        # Longer tokens are rare: one by one is fast enough.
        for place in pending.tolist():
            word = tokenized.buffer[starts[place] : starts[place] + lengths[place]]
            if numbers is IdTable.get_or_add:
                self._tails.setdefault(word, len(self._tails))
            if word in self._tails:
                keys[place] = _LONG | np.uint64(0xFF << 48) | np.uint64(self._tails[word])
        return keys

    def _prefix(self, depth: int) -> IdTable:
        while len(self._prefixes) <= depth:
            self._prefixes.append(IdTable())
        return self._prefixes[depth]


@dataclass(frozen=True, slots=True)
class _TokenizedBytes:
    """The tokenised bytes of some texts, the bounds of their tokens, and the tokens of each text."""

    buffer: bytes
    data: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions
    bounds: Positions

    @classmethod
    def of(cls, byte_tokenizer: ByteTokenizer, texts: Sequence[str]) -> _TokenizedBytes:
        buffer = b"".join((_PAD[:1], byte_tokenizer(texts), _PAD))
        data = np.frombuffer(buffer, np.uint8)
        between = data <= NEXT_TEXT
        edges = np.flatnonzero(between[1:] != between[:-1])
        edges += 1
        starts, ends = edges[0::2], edges[1::2]
        bounds = np.zeros(len(texts) + 1, np.int64)
        if texts:
            bounds[1:-1] = np.searchsorted(starts, np.flatnonzero(data == NEXT_TEXT))
            bounds[-1] = len(starts)
        return cls(buffer, data, starts, ends, bounds)

    @property
    def eights(self) -> Keys:
        """Eight bytes from each position: the buffer as overlapping 64-bit numbers."""
        return np.ndarray((len(self.buffer) - 7,), np.dtype("<u8"), self.buffer, strides=(1,))


class _MediumTokenTable:
    """Keys for tokens of nine to sixteen bytes: by a hash of both halves, which are then compared in full.

    A token whose hash belongs to another one is a collision and handled like a longer token.
    """

    def __init__(self) -> None:
        self._hashes = IdTable()
        self._halves = np.zeros((2, 1 << 8), np.uint64)

    def keys(self, heads: Keys, tails: Keys, numbers: _Numbers) -> Keys:
        """Per token a key; 0 where it is unknown, ``_COLLISION`` where the hash belongs to another token."""
        before = self._hashes.count
        hashed = _hash_halves(heads, tails)
        found = numbers(self._hashes, hashed)
        if self._hashes.count > before:
            if self._hashes.count > self._halves.shape[1]:
                grown = np.zeros((2, 2 * self._hashes.count), np.uint64)
                grown[:, :before] = self._halves[:, :before]
                self._halves = grown
            fresh = np.flatnonzero(found >= before)
            # Of several tokens with one hash the last one written is kept, with both its halves.
            self._halves[0, found[fresh]] = heads[fresh]
            self._halves[1, found[fresh]] = tails[fresh]
        same = (self._halves[0].take(found) == heads) & (self._halves[1].take(found) == tails)
        keys = np.where(same, _LONG | np.uint64(0xF0 << 48) | found.astype(np.uint64), _COLLISION)
        keys[found < 0] = 0
        return keys


def _hash_halves(heads: Keys, tails: Keys) -> Keys:
    """A hash of two halves."""
    hashed: Keys = heads * np.uint64(0x9E3779B97F4A7C15)
    hashed ^= hashed >> np.uint64(32)
    hashed += tails
    hashed *= np.uint64(0xBF58476D1CE4E5B9)
    hashed ^= hashed >> np.uint64(29)
    return hashed


class _WordStore:
    """The bytes of the tokens, each after a blank, in the order of their ids."""

    def __init__(self) -> None:
        self._bytes = np.empty(1 << 12, np.uint8)
        self._ends = np.zeros(1 << 8, np.int64)
        """Where each token ends; the first entry is 0."""
        self._count = 0

    def add(self, data: npt.NDArray[np.uint8], starts: Positions, ends: Positions) -> None:
        """Add tokens, copied from these positions of a text."""
        before, after = self._count, self._count + len(starts)
        self._ends = _grow(self._ends, after + 1)
        np.cumsum(ends - starts + 1, out=self._ends[before + 1 : after + 1])
        self._ends[before + 1 : after + 1] += self._ends[before]
        self._bytes = _grow(self._bytes, int(self._ends[after]))
        # The byte before a token is copied too and set to a blank.
        self._bytes[self._ends[before] : self._ends[after]] = data.take(_concatenate_ranges(starts - 1, ends))
        self._bytes[self._ends[before:after]] = BLANK
        self._count = after

    def words(self, ids: Positions) -> list[str]:
        """The tokens with these ids."""
        found = self._taken(ids).tobytes()[1:].replace(bytes([BLANK]), b" ")
        if not found.isascii():
            for character, stand_in in RESERVED_BYTES.items():
                found = found.replace(bytes([stand_in]), bytes([character]))
        return found.decode("utf-8", "surrogatepass").split(" ") if len(ids) else []

    def containing_bytes(self, ids: Positions, some: bytes) -> Positions:
        """Those of these ids whose tokens contain any of the given bytes."""
        if not len(ids):
            return ids
        mask = np.zeros(256, np.bool_)
        mask[list(some)] = True
        lengths = self._ends[ids + 1] - self._ends[ids]
        found: npt.NDArray[np.bool_] = np.logical_or.reduceat(mask.take(self._taken(ids)), np.cumsum(lengths) - lengths)
        return ids[found]

    def _taken(self, ids: Positions) -> npt.NDArray[np.uint8]:
        return self._bytes.take(_concatenate_ranges(self._ends[ids], self._ends[ids + 1]))


def _concatenate_ranges(starts: Positions, ends: Positions) -> Positions:
    """The positions of all ranges from a start to its end, one range after the other."""
    lengths = ends - starts
    bounds = np.cumsum(lengths)
    total = int(bounds[-1]) if len(bounds) else 0
    places: Positions = np.arange(total) + np.repeat(starts - (bounds - lengths), lengths)
    return places


Array = TypeVar("Array", bound=npt.NDArray[Any])


def _grow(array: Array, size: int) -> Array:
    """The array, or a copy of at least this size that begins with it."""
    if size <= len(array):
        return array
    larger = np.zeros(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger  # type: ignore[return-value]


class TokenFilter:
    """Transforms raw token ids into the token ids of a tokenizer, within the same vocabulary."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self._tokenizer = tokenizer
        self.vocabulary = vocabulary
        self._counts = np.empty(0, np.int32)
        """Per raw token the number of its tokens; -1 while unknown."""
        self._first = np.empty(0, np.int32)
        """Per raw token the position of its tokens in ``_replacements``."""
        self._replacements = np.empty(0, np.int32)
        if tokenizer.exceptions:
            ids = vocabulary.encode([" ".join(tokenizer.exceptions)]).ids
            self._extend()
            self._set(ids, list(tokenizer.exceptions.values()))

    def transform(self, raw_ids: TokenIds) -> TokenIds:
        """The words of texts whose raw words are given."""
        if self._tokenizer.transform is None:
            return raw_ids
        self._learn(raw_ids.ids)
        counts = self._counts.take(raw_ids.ids)
        first = self._first.take(raw_ids.ids)
        if counts.min(initial=1) == counts.max(initial=1) == 1:
            return TokenIds(self._replacements.take(first), raw_ids.bounds)
        ends = np.cumsum(counts, dtype=np.int64)
        bounds = np.concatenate(([0], ends))[raw_ids.bounds]
        if counts.max() == 1:  # tokens are dropped, none becomes several
            return TokenIds(self._replacements.take(first[counts == 1]), bounds)
        within = np.arange(bounds[-1]) - np.repeat(ends - counts, counts)
        return TokenIds(self._replacements.take(np.repeat(first, counts) + within), bounds)

    def _learn(self, ids: Ids) -> None:
        """Transform the raw tokens that were not seen before."""
        self._extend()
        seen = np.zeros(len(self._counts), np.bool_)
        seen[ids] = True
        fresh = np.flatnonzero(seen & (self._counts < 0))
        if not len(fresh):
            return
        changing = (
            fresh
            if self._tokenizer.changeable_bytes is None
            else self.vocabulary.containing_bytes(fresh, self._tokenizer.changeable_bytes)
        )
        same = fresh if not len(changing) else np.setdiff1d(fresh, changing, assume_unique=True)
        self._counts[same] = 1
        self._first[same] = np.arange(len(self._replacements), len(self._replacements) + len(same))
        self._replacements = np.concatenate((self._replacements, same.astype(np.int32)))
        if len(changing) and self._tokenizer.transform is not None:
            self._set(changing, list(map(self._tokenizer.transform, self.vocabulary.words(changing))))

    def _set(self, ids: npt.NDArray[np.integer[Any]], becomes: list[tuple[str, ...]]) -> None:
        counts = np.fromiter(map(len, becomes), np.int32, len(becomes))
        self._counts[ids] = counts
        self._first[ids] = len(self._replacements) + np.cumsum(counts) - counts
        words = self.vocabulary.encode([" ".join(chain.from_iterable(becomes))])
        assert len(words.ids) == counts.sum(), "a transformed token is split again"
        self._replacements = np.concatenate((self._replacements, words.ids))

    def _extend(self) -> None:
        known = len(self._counts)
        if self.vocabulary.count > known:
            self._first = _grow(self._first, self.vocabulary.count)
            self._counts = _grow(self._counts, self.vocabulary.count)
            self._counts[known:] = -1
