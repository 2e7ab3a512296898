"""Bootstrap intervals of a difference between two runs, for statistics that are not means.

The same units are drawn in both runs, so the difficulty of a sample cancels out of the difference, as in a paired test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..core.errors import AlignmentError, BadValueError
from .bootstrap import bootstrap_interval_of, bootstrap_sums, percentile_interval
from .interval import Interval

__all__ = ["PairedStatistics", "paired_bootstrap", "paired_bootstrap_of", "paired_bootstraps"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class PairedStatistics:
    """One measure of two runs: a row of statistics per sample and run, and how a value follows from their sums."""

    first: Floats
    second: Floats
    of_sums: Callable[[Floats], Floats]
    """Takes a table of column sums and gives a value per row, NaN where there is none."""
    lowest: float = -math.inf
    """The least value there can be; not the least difference."""
    highest: float = math.inf


def paired_bootstrap(
    first: Floats,
    second: Floats,
    of_sums: Callable[[Floats], Floats],
    *,
    clusters: Ints | None = None,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval | None:
    """Interval of the second run's value less the first run's, as ``bootstrap_interval`` makes it of one value."""
    pair = PairedStatistics(first, second, of_sums, lowest, highest)
    return paired_bootstraps([pair], clusters=clusters, draws=draws, seed=seed, level=level)[0]


def paired_bootstraps(
    pairs: Sequence[PairedStatistics],
    *,
    clusters: Ints | None = None,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Interval | None]:
    """The interval of each measure, all from the same draws; they cost hardly more than one.

    A sample that has no statistics for a measure has zeros there. The draws are those of ``paired_bootstrap``.
    """
    tables = [_table(statistics) for pair in pairs for statistics in (pair.first, pair.second)]
    for table in tables[1:]:
        if len(table) != len(tables[0]):
            raise AlignmentError(len(tables[0]), len(table), what=("rows of statistics", "rows of the other run's"))
    if not tables:
        return []
    drawn = bootstrap_sums(np.concatenate(tables, axis=1), clusters=clusters, draws=draws, seed=seed)
    if drawn is None:
        return [None] * len(pairs)
    found: list[Interval | None] = []
    start = 0
    for pair, first, second in zip(pairs, tables[::2], tables[1::2], strict=True):
        middle = start + first.shape[1]
        end = middle + second.shape[1]
        values = _values(pair, drawn.totals[:, middle:end]) - _values(pair, drawn.totals[:, start:middle])
        width = pair.highest - pair.lowest
        found.append(
            percentile_interval(
                values[:-1],
                float(values[-1]),
                drawn.units,
                drawn.informative_units(slice(start, end)),
                level=level,
                lowest=-width,
                highest=width,
            )
        )
        start = end
    return found


def paired_bootstrap_of(
    first: Callable[[Ints], float],
    second: Callable[[Ints], float],
    n: int,
    *,
    clusters: Ints | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval | None:
    """The same for statistics that are not functions of sums; ``first`` and ``second`` take the drawn indices."""
    width = highest - lowest
    return bootstrap_interval_of(
        lambda drawn: second(drawn) - first(drawn),
        n,
        clusters=clusters,
        draws=draws,
        seed=seed,
        level=level,
        lowest=-width,
        highest=width,
    )


def _table(statistics: Floats) -> Floats:
    table = np.asarray(statistics, dtype=np.float64)
    if table.ndim != 2:
        raise BadValueError(f"the statistics must be a table with a row per sample, not of shape {table.shape}")
    return table


def _values(pair: PairedStatistics, totals: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without any positive has no value
        values = np.asarray(pair.of_sums(totals), dtype=np.float64)
    if values.shape != (len(totals),):
        raise BadValueError(
            f"of_sums must give one value for each of {len(totals)} rows, not an array of {values.shape}"
        )
    return values
