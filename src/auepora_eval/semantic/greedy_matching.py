"""Greedy matching of tokens: for every token of one text how near the nearest token of another is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .encoding import run_halving
from .token_encoder import TokenColumn, TokenEncoder, blocks_by_size

if TYPE_CHECKING:
    import torch

__all__ = ["MatchedPairs", "TokenMatches", "match_pairs", "token_weights", "weighted_means"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_VECTOR_BYTES = 1 << 29
"""How much room the vectors of one block of pairs may take."""
_CELLS_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 27}
"""How many pairs of tokens, padding included, are compared together."""


@dataclass(frozen=True, slots=True)
class TokenMatches:
    """The texts of one side of all pairs, token by token."""

    ids: Integers
    ends: Integers
    nearest: npt.NDArray[np.float32]
    """The cosine with the nearest token of the other side; what points the other way is as far as can be. NaN where
    the model gave none."""


@dataclass(frozen=True, slots=True)
class MatchedPairs:
    """Pairs of texts after matching."""

    given: TokenMatches
    wanted: TokenMatches
    cut: Integers
    """Per pair how many of the two texts were cut because the model takes no more."""
    lost: npt.NDArray[np.bool_]
    """Pairs that there was not memory enough for."""


def match_pairs(encoder: TokenEncoder, given: Sequence[str], wanted: Sequence[str]) -> MatchedPairs:
    """Match every given text with the wanted one beside it. Each different text goes through the model once."""
    texts = list(dict.fromkeys([*given, *wanted]))
    number = {text: place for place, text in enumerate(texts)}
    tokens = encoder.tokens(texts)
    left = np.fromiter(map(number.__getitem__, given), np.int64, len(given))
    right = np.fromiter(map(number.__getitem__, wanted), np.int64, len(wanted))
    sides = _Nearest(tokens, left), _Nearest(tokens, right)
    lost = np.zeros(len(given), np.bool_)
    for pairs in _blocks(tokens, left, right, most=_VECTOR_BYTES // (4 * encoder.width)):
        used, places = np.unique(np.concatenate([left[pairs], right[pairs]]), return_inverse=True)
        some = _taken(tokens, used)
        lost[pairs] = _match_block(encoder, some, places[: len(pairs)], places[len(pairs) :], pairs, sides)
    first, second = (side.made() for side in sides)
    return MatchedPairs(first, second, tokens.cut[left].astype(np.int64) + tokens.cut[right], lost)


class _Nearest:
    """Room for one side's cosines, in the order of the pairs."""

    def __init__(self, tokens: TokenColumn, texts: Integers) -> None:
        counts = tokens.counts[texts]
        self.ends = np.cumsum(counts)
        self.starts = self.ends - counts
        self.ids = tokens.ids[_ranges(tokens.starts[texts], counts)]
        self.found = np.zeros(len(self.ids), np.float32)

    def made(self) -> TokenMatches:
        return TokenMatches(self.ids, self.ends, self.found)


def _match_block(
    encoder: TokenEncoder,
    tokens: TokenColumn,
    left: Integers,
    right: Integers,
    pairs: Integers,
    sides: tuple[_Nearest, _Nearest],
) -> npt.NDArray[np.bool_]:
    """Match some pairs; which of them there was not memory enough for."""
    vectors, without = encoder.vectors(tokens)
    missing = without[left] | without[right]
    counts = tokens.counts
    both = np.where((counts[left] > 0) & (counts[right] > 0), np.maximum(counts[left], counts[right]), 0)
    most = _CELLS_AT_ONCE.get(encoder.device.type, _CELLS_AT_ONCE["cpu"])
    # Nothing is read back before everything is under way: a device that must be waited for stands idle meanwhile.
    waiting: list[tuple[Integers, tuple[torch.Tensor, torch.Tensor]]] = []

    def match(rows: Integers) -> None:
        waiting.append((rows, _nearest(vectors, tokens, left[rows], right[rows])))

    def lost(rows: Integers) -> None:
        missing[rows] = True

    for rows in blocks_by_size(both * both, most):
        run_halving(rows, match, lost)
    for rows, nearest in waiting:
        for side, texts, values in zip(sides, (left[rows], right[rows]), nearest, strict=True):
            there = np.arange(values.shape[1]) < counts[texts][:, None]
            nearest_there = np.clip(values.cpu().numpy()[there], 0.0, 1.0)
            side.found[_ranges(side.starts[pairs[rows]], counts[texts])] = nearest_there
    return missing


def _nearest(
    vectors: torch.Tensor, tokens: TokenColumn, left: Integers, right: Integers
) -> tuple[torch.Tensor, torch.Tensor]:
    """Per token of either side the largest cosine with a token of the other; what stands for padding means nothing."""
    import torch

    with torch.inference_mode():
        first, there_first = _padded(vectors, tokens, left)
        second, there_second = _padded(vectors, tokens, right)
        cosines = torch.bmm(first, second.transpose(1, 2)).float()
        forward = cosines.masked_fill(~there_second[:, None, :], -2.0).amax(2)
        backward = cosines.masked_fill(~there_first[:, :, None], -2.0).amax(1)
        return forward, backward


def _padded(vectors: torch.Tensor, tokens: TokenColumn, texts: Integers) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    counts = tokens.counts[texts]
    places = tokens.starts[texts][:, None] + np.arange(counts.max())
    there = torch.from_numpy(np.arange(counts.max()) < counts[:, None]).to(vectors.device, non_blocking=True)
    rows = torch.from_numpy(np.minimum(places, len(vectors) - 1)).to(vectors.device, non_blocking=True)
    return vectors[rows], there


def _blocks(tokens: TokenColumn, left: Integers, right: Integers, *, most: int) -> list[Integers]:
    """Pairs, as many at once as have at most so many tokens between them: their vectors must be held together."""
    # A text that several pairs share counts each time: an upper bound is enough.
    sizes = np.cumsum(tokens.counts[left] + tokens.counts[right])
    if not len(sizes) or sizes[-1] <= most or int(tokens.counts.sum()) <= most:
        return [np.arange(len(left))] if len(left) else []
    blocks, start, before = [], 0, 0
    while start < len(left):
        stop = max(start + 1, int(np.searchsorted(sizes, before + most, side="right")))
        blocks.append(np.arange(start, stop))
        start, before = stop, int(sizes[stop - 1])
    return blocks


def _taken(tokens: TokenColumn, rows: Integers) -> TokenColumn:
    counts = tokens.counts[rows]
    return TokenColumn(tokens.ids[_ranges(tokens.starts[rows], counts)], np.cumsum(counts), tokens.cut[rows])


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """All places of several stretches, one stretch after the other."""
    ends = np.cumsum(counts)
    places: Integers = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return places


def token_weights(side: TokenMatches, weights: Floats) -> Floats:
    """How much the tokens of each text weigh together."""
    owners = np.repeat(np.arange(len(side.ends)), np.diff(side.ends, prepend=0))
    totals: Floats = np.bincount(owners, weights=weights, minlength=len(side.ends)).astype(np.float64)
    return totals


def weighted_means(side: TokenMatches, weights: Floats) -> Floats:
    """The mean of each text's cosines, weighted token by token; 0 where no token has weight."""
    sums, totals = token_weights(side, side.nearest * weights), token_weights(side, weights)
    means: Floats = np.divide(sums, totals, out=np.zeros(len(side.ends)), where=totals > 0)
    return means
