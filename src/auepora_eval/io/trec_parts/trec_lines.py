"""The lines of a TREC file as columns, and their conversion to rankings and judged levels by query."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["DocIds", "LineOrder", "TrecLines", "judgements", "rankings", "sort_lines"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
ValuesT = TypeVar("ValuesT")


class DocIds(Protocol):
    """The document ids of all lines, converted to strings on demand."""

    def texts(self, order: Ints | None = None) -> list[str]:
        """Return the ids in the order of the lines, or in another."""
        ...


@dataclass(frozen=True, slots=True)
class TrecLines(Generic[ValuesT]):
    """The lines of a file in their order, and the ids of their queries by first occurrence."""

    queries: list[str]
    rows: Ints
    """The query of each line, as an index in ``queries``."""
    docs: DocIds
    values: ValuesT
    """The score or level of each line."""


@dataclass(frozen=True, slots=True)
class LineOrder:
    """The order of the lines of a run: by query, then by score descending."""

    lines: Ints | None
    """The line at each position; ``None`` if the lines are already in order."""
    counts: Ints
    """The number of lines of each query."""
    starts: Ints
    """The position of the first line of each query."""
    ties: tuple[Ints, Ints]
    """The ranges of equal scores within a query: first positions, and positions after the last."""

    def lines_at(self, positions: Ints) -> Ints:
        """Return the lines at some positions."""
        return positions if self.lines is None else self.lines[positions]


def sort_lines(lines: TrecLines[Floats]) -> LineOrder:
    """Return the order of the lines of a run, except within ties. No score is NaN."""
    rows, scores = lines.rows, lines.values
    counts = np.bincount(rows, minlength=len(lines.queries))
    ends = np.cumsum(counts)
    order = None
    same = rows[1:] == rows[:-1]
    if (rows[1:] < rows[:-1]).any() or _has_increase(scores, same):
        same = np.ones(len(same), dtype=np.bool_)
        same[ends[:-1] - 1] = False
        order = _order_by_rounded(rows, len(lines.queries), scores)
        if _has_increase(scores[order], same):
            order = _stable_order(rows, len(lines.queries), np.argsort(-scores))
        scores = scores[order]
    return LineOrder(order, counts, ends - counts, _tie_ranges(np.flatnonzero(same & (scores[1:] == scores[:-1]))))


def _has_increase(scores: Floats, same: Bools) -> bool:
    """Whether a score is above the previous one of its query."""
    return bool((same & (scores[1:] > scores[:-1])).any())


def _order_by_rounded(rows: Ints, queries: int, scores: Floats) -> Ints:
    """Sort the lines by query and score descending, with scores rounded to the remaining bits."""
    # Query, score and line in one integer: NumPy sorts integers many times faster than it computes argsort.
    line_bits = (len(rows) - 1).bit_length()
    score_bits = max(64 - line_bits - (queries - 1).bit_length(), 0)
    below = _steps_below_best(scores)
    below >>= np.uint64(max(int(below.max()).bit_length() - score_bits, 0))
    below <<= np.uint64(line_bits)
    below |= rows.view(np.uint64) << np.uint64(line_bits + score_bits)
    below |= np.arange(len(rows), dtype=np.uint64)
    below.sort()
    below &= np.uint64((1 << line_bits) - 1)
    return below.view(np.int64)


def _steps_below_best(scores: Floats) -> npt.NDArray[np.uint64]:
    """Return the number of floats between each score and the highest."""
    bits = scores.view(np.int64)
    rising = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # the bits of negative numbers are in reverse order
    below: npt.NDArray[np.uint64] = rising.max().view(np.uint64) - rising.view(np.uint64)
    return below


def _tie_ranges(tied: Ints) -> tuple[Ints, Ints]:
    """Return starts and ends of ranges of ties; ``tied`` are the positions that tie with the next."""
    if not len(tied):
        return tied, tied
    breaks = np.flatnonzero(np.diff(tied) > 1)
    return tied[np.concatenate(([0], breaks + 1))], tied[np.concatenate((breaks, [len(tied) - 1]))] + 2


def rankings(lines: TrecLines[Floats]) -> dict[str, list[str]]:
    """Return documents by query, best first: by score descending, ties by id descending. No score is NaN."""
    order = sort_lines(lines)
    docs = _sort_ties(lines.docs, order)
    bounds = [*order.starts.tolist(), len(docs)]
    return {query: docs[start:stop] for query, (start, stop) in zip(lines.queries, pairwise(bounds), strict=True)}


def judgements(lines: TrecLines[list[int]]) -> dict[str, dict[str, int]]:
    """Return levels by query and document, in file order. Of several levels for one document the highest counts."""
    rows, levels = lines.rows, lines.values
    order = None
    if not (rows[1:] >= rows[:-1]).all():
        order = _stable_order(rows, len(lines.queries), np.arange(len(rows)))
        levels = [levels[line] for line in order.tolist()]
    docs = lines.docs.texts(order)
    pairs = zip(docs, levels, strict=True)
    judged = [dict(islice(pairs, count)) for count in np.bincount(rows, minlength=len(lines.queries)).tolist()]
    if sum(map(len, judged)) < len(docs):
        _keep_highest_level(judged, np.sort(rows).tolist(), docs, levels)
    return dict(zip(lines.queries, judged, strict=True))


def _keep_highest_level(judged: list[dict[str, int]], rows: list[int], docs: list[str], levels: list[int]) -> None:
    for row, doc, level in zip(rows, docs, levels, strict=True):
        if judged[row][doc] < level:
            judged[row][doc] = level


def _stable_order(rows: Ints, queries: int, order: Ints) -> Ints:
    """Sort ``order`` by row, stable within each row."""
    # NumPy uses radix sort for 16-bit integers, many times faster than for longer ones; least significant digits first.
    for shift in range(0, max(queries - 1, 1).bit_length(), 16):
        digits = (rows >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _sort_ties(docs: DocIds, order: LineOrder) -> list[str]:
    """Return the ids in that order, each range of ties by id descending."""
    texts = docs.texts(order.lines)
    starts, stops = order.ties
    # Strings compare by code points, which is the order of their UTF-8 bytes and of strcmp in trec_eval.
    pairs = stops - starts == 2  # most ties are pairs, for which swapping is several times faster than sorting
    for position in starts[pairs].tolist():
        first, second = texts[position], texts[position + 1]
        if first < second:
            texts[position], texts[position + 1] = second, first
    for start, stop in zip(starts[~pairs].tolist(), stops[~pairs].tolist(), strict=True):
        texts[start:stop] = sorted(texts[start:stop], reverse=True)
    return texts
