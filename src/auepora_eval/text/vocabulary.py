"""Vocabularies: tokens of many texts as integer ids, without a Python object per token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """Assigns ids from 0 to keys."""

    def __init__(self) -> None:
        self._tables: list[Ids] = []
        self._keys: Keys = np.empty(0, np.uint64)
        self.count = 0
        """The number of different keys."""

    def get_or_add(self, keys: Keys) -> Ids:
        """The id of each key; new keys are added."""
        if self._tables and 2 * self.count > len(self._tables[0]):
            self._rehash()
        result, pending, level = np.empty(0, np.int32), np.empty(0, np.int64), 0
        while True:
            chunk = keys.take(pending) if level else keys
            if not len(chunk):
                return result
            if level == len(self._tables):
                # Few tables are searched faster than many: the next one has room for a part of the keys to come.
                self._tables.append(_empty_table(max(len(chunk), len(self._tables[0]) >> 4 if level else 0)))
            ids = self._claim_slots(self._tables[level], _slots(chunk, level, self._tables[level]), chunk)
            collisions = np.flatnonzero(self._keys.take(ids) != chunk)
            if level:
                result[pending] = ids
                pending = pending.take(collisions)
            else:
                result, pending = ids, collisions
            level += 1

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


def common_keys(first: Keys, second: Keys) -> tuple[npt.NDArray[np.int64], Ids, npt.NDArray[np.int64], Ids]:
    """The positions of the keys of each array that are in the other one too, with a number, the same for equal keys."""
    marks = np.zeros(1 << (8 * max(len(first), len(second))).bit_length(), np.bool_)
    slots, second_slots = _slots(first, 0, marks), _slots(second, 0, marks)
    # Most keys have no equal: two looks at their hashes leave few to compare.
    marks[second_slots] = True
    kept = np.flatnonzero(marks.take(slots))
    marks[second_slots] = False
    marks[slots.take(kept)] = True
    second_kept = np.flatnonzero(marks.take(second_slots))
    table = IdTable()
    ids, known = table.get_or_add(first.take(kept)), table.count
    second_ids = table.get_or_add(second.take(second_kept))
    seen = np.zeros(table.count, np.bool_)
    seen[second_ids] = True
    both, second_both = np.flatnonzero(seen.take(ids)), np.flatnonzero(second_ids < known)
    return kept.take(both), ids.take(both), second_kept.take(second_both), second_ids.take(second_both)


def _empty_table(keys: int) -> Ids:
    """A table large enough that most of this number of keys have a slot of their own."""
    bits = max(_MIN_BITS, (2 * keys).bit_length())
    return np.full(1 << bits, _FREE, np.int32)


def _slots(keys: Keys, level: int, table: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The slot of each key: the top bits of a product, which depend on every bit of the key."""
    bits = len(table).bit_length() - 1
    hashed = keys * _MULTIPLIERS[level % len(_MULTIPLIERS)]
    # Past the last multiplier the product is mixed again, so that all levels hash differently.
    for _ in range(level // len(_MULTIPLIERS)):
        hashed = (hashed ^ (hashed >> np.uint64(31))) * _MULTIPLIERS[0]
    return (hashed >> np.uint64(64 - bits)).view(np.int64)


# --- vocabularies: tokens of many texts as integer ids, without a Python object per token ----------------------------

Positions = npt.NDArray[np.int64]

_HEAD, _TAIL = 8, 7
_PART = 1 << 20
"""Number of characters that are tokenised at once: the arrays of more do not fit into the caches of a processor."""
_CACHE_SIZE = 1 << 25
"""Number of characters in a cache: with token ids and entries it takes some 60 MB."""
_PAD = bytes([BLANK]) * 16
_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
# The first byte of these is not one of UTF-8, so that the key of a longer token is never that of a short one.
_MEDIUM_KEY, _LONG_KEY = np.uint64(0xFE << 56), np.uint64(0xFD << 56)


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
        if len(texts) and (np.diff(texts) == 1).all():  # neighbours need no copy
            return TokenIds(self.ids[starts[0] : ends[-1]], np.append(starts, ends[-1]) - starts[0])
        every = self.ids.data  # slices of bytes are faster than those of arrays
        parts = [every[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return TokenIds.of(np.frombuffer(b"".join(parts), np.int32), ends - starts)


def character_ids(texts: Sequence[str], tokenizer: CharacterTokenizer) -> TokenIds:
    """The characters of each text as Unicode code points."""
    chosen = [tokenizer.text(text) for text in texts]
    data = "".join(chosen).encode("utf-32-le", "surrogatepass")
    return TokenIds.of(np.frombuffer(data, np.dtype("<i4")), np.fromiter(map(len, chosen), np.int64, len(chosen)))


class Vocabulary:
    """Maps raw tokens of a byte tokenizer to ids.

    Tokens are found by keys of 64 bits. A token of up to eight bytes is its own key. The key of one of up to fifteen
    bytes consists of its last bytes, combined with a hash of the first eight, its head: the same key and the same head
    make the same token, and heads are compared. Longer tokens, and those whose key belongs to a token with another
    head, are looked up in a dictionary.
    """

    def __init__(self, byte_tokenizer: ByteTokenizer, *, remember: bool = True) -> None:
        """Without ``remember`` ids are the same, but cannot be mapped back to tokens."""
        self.byte_tokenizer = byte_tokenizer
        self._remember = remember
        self._words = IdTable()
        self._heads: Keys = np.zeros(1 << 8, np.uint64)
        """The head of each token of nine to fifteen bytes, by its id."""
        self._long: dict[bytes, int] = {}
        self.store = WordStore()
        """The tokens by their ids."""

    @property
    def count(self) -> int:
        """The number of different tokens."""
        return self._words.count

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """The token ids of each text; new tokens are added."""
        parts = [self._encode(part) for part in _split(texts)]
        counts = np.concatenate([part.counts for part in parts])
        return parts[0] if len(parts) == 1 else TokenIds.of(np.concatenate([part.ids for part in parts]), counts)

    def _encode(self, texts: Sequence[str]) -> TokenIds:
        tokenized = _TokenizedBytes.of(self.byte_tokenizer, texts)
        before, starts, lengths = self.count, tokenized.starts, tokenized.lengths
        keys: Keys = tokenized.eights[starts]
        keys &= _LOW_BYTES.take(lengths, mode="clip")
        longer = np.flatnonzero(lengths > _HEAD)
        heads = keys.take(longer)
        rest = lengths.take(longer) - _HEAD
        tails = tokenized.eights[starts.take(longer) + _HEAD] & _LOW_BYTES.take(rest, mode="clip")
        keys[longer] = _medium_keys(heads, tails)
        long = longer[rest > _TAIL]
        keys[long] = self._long_keys(tokenized, long)
        ids = self._words.get_or_add(keys)

        owners = ids.take(longer)
        if self.count > before:  # of several tokens with one key the last one written has it
            self._heads = _grow(self._heads, self.count)
            fresh = np.flatnonzero(owners >= before)
            self._heads[owners[fresh]] = heads[fresh]
        others = longer[self._heads.take(owners) != heads]
        if len(others):
            ids[others] = self._words.get_or_add(self._long_keys(tokenized, others))
        if self._remember and self.count > before:
            place = np.zeros(self.count - before, np.int64)
            new = np.flatnonzero(ids >= before)
            place[ids[new] - before] = new
            self.store.add(np.frombuffer(tokenized.buffer, np.uint8), starts[place], lengths[place])
        return TokenIds(ids, tokenized.bounds)

    def _long_keys(self, tokenized: _TokenizedBytes, tokens: Positions) -> Keys:
        """The keys of some tokens by the dictionary."""
        starts, lengths, known = tokenized.starts[tokens].tolist(), tokenized.lengths[tokens].tolist(), self._long
        words = [tokenized.buffer[start : start + length] for start, length in zip(starts, lengths, strict=True)]
        return _LONG_KEY | np.array([known.setdefault(word, len(known)) for word in words], np.uint64)


class TokenCache:
    """The token ids of texts that are used several times, such as passages: each text is encoded once.

    The cache is emptied when its texts exceed ``_CACHE_SIZE`` characters. A text counts as 256 characters more than it
    has, for its entry.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._clear()

    def _clear(self) -> None:
        self._numbers: dict[str, int] = {}
        self._size = 0
        self._ids = np.empty(0, np.int32)
        self._bounds = np.zeros(1, np.int64)

    def encode(self, texts: Sequence[str]) -> tuple[TokenIds, Positions]:
        """The token ids of all texts in the cache, and the numbers of the given ones, which must be distinct."""
        numbers = list(map(self._numbers.get, texts))
        if None in numbers:
            self._add([text for text, number in zip(texts, numbers, strict=True) if number is None])
            numbers = list(map(self._numbers.get, texts))
        every = TokenIds(self._ids, self._bounds)
        if self._size > _CACHE_SIZE:
            self._clear()
        return every, np.array(numbers, np.int64)

    def _add(self, texts: Sequence[str]) -> None:
        encoded, first = self.vocabulary.encode(texts), len(self._numbers)
        last, start = first + len(texts), int(self._bounds[first])
        self._numbers.update(zip(texts, range(first, last), strict=True))
        self._size += sum(map(len, texts)) + 256 * len(texts)
        self._bounds = _grow(self._bounds, last + 1)
        self._bounds[first : last + 1] = encoded.bounds + start
        self._ids = _grow(self._ids, start + len(encoded.ids))
        self._ids[start : start + len(encoded.ids)] = encoded.ids


def _split(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in parts of about ``_PART`` characters; one part at least."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    start = 0
    while start < len(texts) or not start:
        end = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _PART)) + 1
        yield texts[start:end]
        start = end


def _medium_keys(heads: Keys, tails: Keys) -> Keys:
    """Keys from the first eight bytes of tokens and the rest, of which seven bytes count."""
    keys = _hash_heads(heads)
    keys ^= tails
    keys &= _LOW_BYTES[_TAIL]
    keys |= _MEDIUM_KEY
    return keys


def _hash_heads(heads: Keys) -> Keys:
    hashed: Keys = heads * np.uint64(0x9E3779B97F4A7C15)
    hashed ^= hashed >> np.uint64(32)
    hashed *= np.uint64(0xBF58476D1CE4E5B9)
    hashed ^= hashed >> np.uint64(29)
    return hashed


@dataclass(frozen=True, slots=True)
class _TokenizedBytes:
    """The tokenised bytes of some texts, the starts and lengths of their tokens, and the tokens of each text."""

    buffer: bytes
    starts: Positions
    lengths: Positions
    bounds: Positions

    @classmethod
    def of(cls, byte_tokenizer: ByteTokenizer, texts: Sequence[str]) -> _TokenizedBytes:
        buffer = b"".join((_PAD[:1], byte_tokenizer(texts), _PAD))
        data = np.frombuffer(buffer, np.uint8, len(buffer) - len(_PAD) + 1)
        gaps = np.flatnonzero(data <= NEXT_TEXT)
        starts, lengths = gaps[:-1] + 1, np.diff(gaps) - 1
        bounds = np.zeros(len(texts) + 1, np.int64)
        if texts:
            bounds[1:-1] = np.flatnonzero(data.take(gaps) == NEXT_TEXT)
            bounds[-1] = len(starts)
        if not lengths.all():  # nothing between two blanks
            tokens = np.flatnonzero(lengths)
            starts, lengths, bounds = starts.take(tokens), lengths.take(tokens), np.searchsorted(tokens, bounds)
        return cls(buffer, starts, lengths, bounds)

    @property
    def eights(self) -> Keys:
        """Eight bytes from each position: the buffer as overlapping 64-bit numbers."""
        return np.ndarray((len(self.buffer) - 7,), np.dtype("<u8"), self.buffer, strides=(1,))


class WordStore:
    """The bytes of the tokens, each after a blank, in the order of their ids."""

    def __init__(self) -> None:
        self._bytes = np.empty(1 << 12, np.uint8)
        self._ends = np.zeros(1 << 8, np.int64)
        """Where each token ends; the first entry is 0."""
        self._count = 0

    def add(self, data: npt.NDArray[np.uint8], starts: Positions, lengths: Positions) -> None:
        """Add tokens, copied from these positions of a text."""
        before, after = self._count, self._count + len(starts)
        self._ends = _grow(self._ends, after + 1)
        np.cumsum(lengths + 1, out=self._ends[before + 1 : after + 1])
        self._ends[before + 1 : after + 1] += self._ends[before]
        self._bytes = _grow(self._bytes, int(self._ends[after]))
        # The byte before a token is copied too and set to a blank.
        self._bytes[self._ends[before] : self._ends[after]] = data.take(
            concatenate_ranges(starts - 1, starts + lengths)
        )
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
        return self._bytes.take(concatenate_ranges(self._ends[ids], self._ends[ids + 1]))


def concatenate_ranges(starts: Positions, ends: Positions) -> Positions:
    """The positions of all ranges from a start to its end, one range after the other."""
    lengths = ends - starts
    bounds = np.cumsum(lengths)
    total = int(bounds[-1]) if len(bounds) else 0
    return np.asarray(np.arange(total) + np.repeat(starts - (bounds - lengths), lengths))


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
            else self.vocabulary.store.containing_bytes(fresh, self._tokenizer.changeable_bytes)
        )
        same = fresh if not len(changing) else np.setdiff1d(fresh, changing, assume_unique=True)
        self._counts[same] = 1
        self._first[same] = np.arange(len(self._replacements), len(self._replacements) + len(same))
        self._replacements = np.concatenate((self._replacements, same.astype(np.int32)))
        if len(changing) and self._tokenizer.transform is not None:
            self._set(changing, list(map(self._tokenizer.transform, self.vocabulary.store.words(changing))))

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
