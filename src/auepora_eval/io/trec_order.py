"""The lines of a TREC file, column by column, and what becomes of them: rankings and judged levels by query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Lines", "judgements", "rankings"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Values = TypeVar("Values")


@dataclass(frozen=True, slots=True)
class Lines(Generic[Values]):
    """The lines of a file in their order, and the names of their queries by first appearance."""

    queries: list[str]
    rows: Ints
    """Per line its query, as a place in ``queries``."""
    docs: Callable[[Ints | None], list[str]]
    """Makes the documents' ids, in the order of the lines or in the order that it is given."""
    values: Values
    """Per line its score or its level."""


def rankings(lines: Lines[Floats]) -> dict[str, list[str]]:
    """Documents by query, best first: by score descending, ties by id descending. No score is NaN."""
    rows, scores = lines.rows, lines.values
    order = None
    same = rows[1:] == rows[:-1]
    if not (rows[1:] >= rows[:-1]).all() or (same & (scores[1:] > scores[:-1])).any():
        order = _stable_order(rows, len(lines.queries), np.argsort(-scores))
        rows, scores = rows[order], scores[order]
        same = rows[1:] == rows[:-1]
    docs = lines.docs(order)
    tied = np.flatnonzero(same & (scores[1:] == scores[:-1]))
    if len(tied):
        _sort_ties(docs, tied)
    bounds = [0, *np.cumsum(np.bincount(rows, minlength=len(lines.queries))).tolist()]
    return {query: docs[start:stop] for query, (start, stop) in zip(lines.queries, pairwise(bounds), strict=True)}


def judgements(lines: Lines[list[int]]) -> dict[str, dict[str, int]]:
    """Levels by query and document, in file order. Of several levels for one document the highest counts."""
    rows, levels = lines.rows, lines.values
    order = None
    if not (rows[1:] >= rows[:-1]).all():
        order = _stable_order(rows, len(lines.queries), np.arange(len(rows)))
        levels = [levels[place] for place in order.tolist()]
    docs = lines.docs(order)
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


def _sort_ties(docs: list[str], tied: Ints) -> None:
    """Sort, in place, each stretch of ties by id descending; ``tied`` are the places that tie with the next one."""
    # Texts compare by code points, which is the order of their UTF-8 bytes and of trec_eval's strcmp.
    breaks = np.flatnonzero(np.diff(tied) > 1)
    starts = tied[np.concatenate(([0], breaks + 1))]
    stops = tied[np.concatenate((breaks, [len(tied) - 1]))] + 2
    pairs = stops - starts == 2
    for start, stop in zip(starts[~pairs].tolist(), stops[~pairs].tolist(), strict=True):
        docs[start:stop] = sorted(docs[start:stop], reverse=True)
    for place in starts[pairs].tolist():
        above, below = docs[place], docs[place + 1]
        if above < below:
            docs[place], docs[place + 1] = below, above
