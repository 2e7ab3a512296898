"""The lines of a TREC file, column by column, and what becomes of them: rankings and judged levels by query."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Docs", "Lines", "judgements", "rankings"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Values = TypeVar("Values")


class Docs(Protocol):
    """The document ids of all lines, not yet made into texts."""

    def texts(self, order: Ints | None = None) -> list[str]:
        """The ids in the order of the lines, or in another."""
        ...


@dataclass(frozen=True, slots=True)
class Lines(Generic[Values]):
    """The lines of a file in their order, and the names of their queries by first appearance."""

    queries: list[str]
    rows: Ints
    """Per line its query, as a place in ``queries``."""
    docs: Docs
    values: Values
    """Per line its score or its level."""


def rankings(lines: Lines[Floats]) -> dict[str, list[str]]:
    """Documents by query, best first: by score descending, ties by id descending. No score is NaN."""
    rows, scores = lines.rows, lines.values
    counts = np.bincount(rows, minlength=len(lines.queries))
    bounds = [0, *np.cumsum(counts).tolist()]
    order = None
    same = rows[1:] == rows[:-1]
    if not (rows[1:] >= rows[:-1]).all() or (same & (scores[1:] > scores[:-1])).any():
        order = _stable_order(rows, len(lines.queries), np.argsort(-scores))
        scores = scores[order]
        same = np.ones(len(same), dtype=np.bool_)
        same[np.cumsum(counts)[:-1] - 1] = False
    docs = _texts_by_tie(lines.docs, order, np.flatnonzero(same & (scores[1:] == scores[:-1])))
    return {query: docs[start:stop] for query, (start, stop) in zip(lines.queries, pairwise(bounds), strict=True)}


def judgements(lines: Lines[list[int]]) -> dict[str, dict[str, int]]:
    """Levels by query and document, in file order. Of several levels for one document the highest counts."""
    rows, levels = lines.rows, lines.values
    order = None
    if not (rows[1:] >= rows[:-1]).all():
        order = _stable_order(rows, len(lines.queries), np.arange(len(rows)))
        levels = [levels[place] for place in order.tolist()]
    docs = lines.docs.texts(order)
    pairs = zip(docs, levels, strict=True)
    judged = [dict(islice(pairs, count)) for count in np.bincount(rows, minlength=len(lines.queries)).tolist()]
    if sum(map(len, judged)) < len(docs):
        _raise_to_highest(judged, np.sort(rows).tolist(), docs, levels)
    return dict(zip(lines.queries, judged, strict=True))


def _raise_to_highest(judged: list[dict[str, int]], rows: list[int], docs: list[str], levels: list[int]) -> None:
    for row, doc, level in zip(rows, docs, levels, strict=True):
        if judged[row][doc] < level:
            judged[row][doc] = level


def _stable_order(rows: Ints, queries: int, order: Ints) -> Ints:
    """``order`` brought into the order of the rows, and kept within each row."""
    # NumPy sorts 16-bit numbers by radix, many times faster than longer ones; least significant digits first.
    for shift in range(0, max(queries - 1, 1).bit_length(), 16):
        digits = (rows >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _texts_by_tie(docs: Docs, order: Ints | None, tied: Ints) -> list[str]:
    """The ids in that order, each stretch of ties by id descending; ``tied`` are the places that tie with the next."""
    texts = docs.texts(order)
    if not len(tied):
        return texts
    breaks = np.flatnonzero(np.diff(tied) > 1)
    starts = tied[np.concatenate(([0], breaks + 1))]
    stops = tied[np.concatenate((breaks, [len(tied) - 1]))] + 2
    # Texts compare by code points, which is the order of their UTF-8 bytes and of trec_eval's strcmp.
    pairs = stops - starts == 2  # most ties are of two, for which swapping is several times faster than sorting
    for place in starts[pairs].tolist():
        first, second = texts[place], texts[place + 1]
        if first < second:
            texts[place], texts[place + 1] = second, first
    for start, stop in zip(starts[~pairs].tolist(), stops[~pairs].tolist(), strict=True):
        texts[start:stop] = sorted(texts[start:stop], reverse=True)
    return texts
