"""Words as numbers: many texts at once, equal words equal numbers, without a Python object per word.

The bytes of all texts lie in one buffer. Up to eight bytes of a word are one 64-bit key, which *is* the word; a longer
word is its first eight bytes and then, four at a time, the number of what came before together with what follows. So
keys are exact, whatever the text, and ``Numbering`` makes them dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from .cutting import BLANK, NEXT_TEXT, STAND_INS, CharacterRule, Cut, WordRule
from .numbering import Keys, Numbering, Numbers

__all__ = ["Coded", "RawCoder", "Refiner", "code_characters"]

Positions = npt.NDArray[np.int64]

_HEAD, _STEP, _LONGEST = 8, 4, 64
_PAD = bytes([BLANK]) * 16
_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
# No byte of UTF-8, so that the key of a long word is never that of a short one.
_LONG = np.uint64(0xFE << 56)


@dataclass(frozen=True, slots=True)
class Coded:
    """The words of some texts as numbers: text ``i`` is ``ids[bounds[i] : bounds[i + 1]]``."""

    ids: Numbers
    bounds: Positions

    @classmethod
    def of(cls, ids: Numbers, counts: npt.NDArray[np.int64]) -> Coded:
        """From all words and the number of words of each text."""
        bounds = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=bounds[1:])
        return cls(ids, bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def counts(self) -> Positions:
        """The number of words of each text."""
        return np.diff(self.bounds)

    @property
    def rows(self) -> Positions:
        """For each word the text it stands in."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, texts: npt.NDArray[np.int64]) -> Coded:
        """Some of the texts, in the order asked for, any of them as often as asked for."""
        counts = self.counts[texts]
        taken = Coded.of(self.ids, counts)
        places = np.arange(taken.bounds[-1]) + np.repeat(self.bounds[:-1][texts] - taken.bounds[:-1], counts)
        return Coded(self.ids[places], taken.bounds)


def code_characters(texts: Sequence[str], rule: CharacterRule) -> Coded:
    """The characters of each text, numbered as Unicode does."""
    chosen = [rule.text(text) for text in texts]
    data = "".join(chosen).encode("utf-32-le", "surrogatepass")
    return Coded.of(np.frombuffer(data, np.dtype("<i4")), np.fromiter(map(len, chosen), np.int64, len(chosen)))


class RawCoder:
    """Numbers raw words: what a cut leaves between blanks."""

    def __init__(self, cut: Cut, *, remember: bool = True) -> None:
        """One that does not ``remember`` numbers alike but cannot say which word a number stands for."""
        self.cut = cut
        self._remember = remember
        self._words = Numbering()
        self._prefixes: list[Numbering] = []
        self._tails: dict[bytes, int] = {}
        self._found: list[_Found] = []

    @property
    def count(self) -> int:
        """How many different words have a number."""
        return self._words.count

    def code(self, texts: Sequence[str]) -> Coded:
        """The words of each text."""
        buffer = b"".join((_PAD[:1], self.cut(texts), _PAD))
        data = np.frombuffer(buffer, np.uint8)
        between = data <= NEXT_TEXT
        edges = np.flatnonzero(between[1:] != between[:-1])
        edges += 1
        starts, ends = edges[0::2], edges[1::2]
        bounds = np.zeros(len(texts) + 1, np.int64)
        if texts:
            bounds[1:-1] = np.searchsorted(starts, np.flatnonzero(data == NEXT_TEXT))
            bounds[-1] = len(starts)
        before = self.count
        ids = self._words.number(self._keys(buffer, starts, ends - starts))
        if self._remember and self.count > before:
            place = np.zeros(self.count - before, np.int64)
            fresh = np.flatnonzero(ids >= before)
            place[ids[fresh] - before] = fresh
            self._found.append(_Found(before, buffer, starts[place], ends[place]))
        return Coded(ids, bounds)

    def words(self, ids: Positions) -> list[str]:
        """The words of these numbers, which must be in ascending order."""
        return [word for found in self._found for word in found.words(found.own(ids))]

    def holding(self, ids: Positions, some: bytes) -> Positions:
        """Those of these numbers, in ascending order, whose words hold any of some bytes."""
        return np.concatenate([found.holding(found.own(ids), some) for found in self._found] or [ids[:0]])

    def _keys(self, buffer: bytes, starts: Positions, lengths: Positions) -> Keys:
        # Eight bytes from any position on: the buffer as overlapping 64-bit numbers.
        eights = np.ndarray((len(buffer) - 7,), np.dtype("<u8"), buffer, strides=(1,))
        keys: Keys = eights[starts]
        keys &= _LOW_BYTES.take(np.minimum(lengths, _HEAD))
        long = np.flatnonzero(lengths > _HEAD)
        if len(long):
            keys[long] = self._long_keys(buffer, eights, keys[long], starts[long], lengths[long])
        return keys

    def _long_keys(self, buffer: bytes, eights: Keys, heads: Keys, starts: Positions, lengths: Positions) -> Keys:
        keys = np.empty(len(heads), np.uint64)
        pending = np.arange(len(heads))
        node = self._prefix(0).number(heads)
        for depth, at in enumerate(range(_HEAD, _LONGEST, _STEP), 1):
            rest = lengths[pending] - at
            following = eights[starts[pending] + at] & _LOW_BYTES.take(np.minimum(rest, _STEP))
            node = self._prefix(depth).number((node.astype(np.uint64) << np.uint64(32)) | following)
            done = rest <= _STEP
            # The depth tells words that end here from those that end elsewhere.
            keys[pending[done]] = _LONG | np.uint64(depth << 48) | node[done].astype(np.uint64)
            pending, node = pending[~done], node[~done]
            if not len(pending):
                return keys
        # What is longer still is hardly a word of any language: one by one will do.
        for place in pending.tolist():
            word = buffer[starts[place] : starts[place] + lengths[place]]
            keys[place] = _LONG | np.uint64(0xFF << 48) | np.uint64(self._tails.setdefault(word, len(self._tails)))
        return keys

    def _prefix(self, depth: int) -> Numbering:
        while len(self._prefixes) <= depth:
            self._prefixes.append(Numbering())
        return self._prefixes[depth]


@dataclass(frozen=True, slots=True)
class _Found:
    """The words that got their numbers in one call: from ``first`` on, each somewhere in the buffer."""

    first: int
    buffer: bytes
    starts: Positions
    ends: Positions

    def own(self, ids: Positions) -> Positions:
        """Those of some ascending numbers that are ours."""
        low, high = np.searchsorted(ids, (self.first, self.first + len(self.starts)))
        return ids[low:high]

    def words(self, ids: Positions) -> list[str]:
        """The words of our numbers."""
        if not len(ids):
            return []
        places = ids - self.first
        pairs = zip(self.starts[places].tolist(), self.ends[places].tolist(), strict=True)
        joined = b" ".join([self.buffer[start:end] for start, end in pairs])
        for character, stand_in in STAND_INS.items():
            if not joined.isascii():
                joined = joined.replace(bytes([stand_in]), bytes([character]))
        return joined.decode("utf-8", "surrogatepass").split(" ")

    def holding(self, ids: Positions, some: bytes) -> Positions:
        """Those of our numbers whose words hold any of some bytes."""
        mask = np.zeros(256, np.bool_)
        mask[list(some)] = True
        if not len(ids) or not self.buffer.translate(None, bytes(np.flatnonzero(~mask).tolist())):
            return ids[:0]
        before = np.cumsum(mask.take(np.frombuffer(self.buffer, np.uint8)), dtype=np.int32)
        places = ids - self.first
        return ids[before[self.ends[places] - 1] > before[self.starts[places] - 1]]


class Refiner:
    """Turns raw words into the words of a rule. Both are numbered by the same coder, so that equal stays equal."""

    def __init__(self, rule: WordRule, raw: RawCoder) -> None:
        self._rule = rule
        self._raw = raw
        self._how_many = np.empty(0, np.int32)
        """Per raw word how many words it becomes; -1 while that is not known."""
        self._first = np.empty(0, np.int32)
        """Per raw word where those stand among ``_becomes``."""
        self._becomes = np.empty(0, np.int32)
        if rule.known:
            ids = raw.code([" ".join(rule.known)]).ids
            self._extend()
            self._set(ids, list(rule.known.values()))

    def refine(self, raw: Coded) -> Coded:
        """The words of texts whose raw words are given."""
        if self._rule.refine is None:
            return raw
        self._learn(raw.ids)
        counts = self._how_many.take(raw.ids)
        first = self._first.take(raw.ids)
        if counts.min(initial=1) == counts.max(initial=1) == 1:
            return Coded(self._becomes.take(first), raw.bounds)
        ends = np.cumsum(counts, dtype=np.int64)
        bounds = np.concatenate(([0], ends))[raw.bounds]
        if counts.max() == 1:  # words are dropped, none becomes several
            return Coded(self._becomes.take(first[counts == 1]), bounds)
        within = np.arange(bounds[-1]) - np.repeat(ends - counts, counts)
        return Coded(self._becomes.take(np.repeat(first, counts) + within), bounds)

    def _learn(self, ids: Numbers) -> None:
        """Find out what those words become that were not seen before."""
        self._extend()
        seen = np.zeros(len(self._how_many), np.bool_)
        seen[ids] = True
        fresh = np.flatnonzero(seen & (self._how_many < 0))
        if not len(fresh):
            return
        changing = fresh if self._rule.suspects is None else self._raw.holding(fresh, self._rule.suspects)
        same = fresh if not len(changing) else np.setdiff1d(fresh, changing, assume_unique=True)
        self._how_many[same] = 1
        self._first[same] = np.arange(len(self._becomes), len(self._becomes) + len(same))
        self._becomes = np.concatenate((self._becomes, same.astype(np.int32)))
        if len(changing) and self._rule.refine is not None:
            self._set(changing, list(map(self._rule.refine, self._raw.words(changing))))

    def _set(self, ids: npt.NDArray[np.integer[Any]], becomes: list[tuple[str, ...]]) -> None:
        counts = np.fromiter(map(len, becomes), np.int32, len(becomes))
        self._how_many[ids] = counts
        self._first[ids] = len(self._becomes) + np.cumsum(counts) - counts
        words = self._raw.code([" ".join(chain.from_iterable(becomes))])
        assert len(words.ids) == counts.sum(), "a refined word is cut again"
        self._becomes = np.concatenate((self._becomes, words.ids))

    def _extend(self) -> None:
        fresh = self._raw.count - len(self._how_many)
        if fresh > 0:
            self._how_many = np.concatenate((self._how_many, np.full(fresh, -1, np.int32)))
            self._first = np.concatenate((self._first, np.zeros(fresh, np.int32)))
