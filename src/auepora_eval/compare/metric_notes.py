"""Notes on one metric of a comparison: few units, which samples count, the spread of repeats."""

from __future__ import annotations

from ..stats.interval import Interval
from .comparison_input import ComparisonInput
from .run_pairs import RunPairScores

__all__ = ["is_unbounded", "metric_notes"]


def is_unbounded(interval: Interval | None) -> bool:
    """Whether an interval of equal values gives no bound on further values."""
    return interval is not None and interval.method == "all_equal" and "unbounded" in interval.flags


def metric_notes(one: ComparisonInput, reading: RunPairScores, interval: Interval | None, units: int) -> list[str]:
    """The notes on a metric, with the interval of its difference and the number of independent units."""
    if not reading.used.any() and one.pair.definition.reducer is not None:
        return ["no sample has a score in both runs"]
    notes = []
    if reading.has_test and units == 1:
        what = "sample" if reading.used.sum() == 1 else "cluster of samples"
        notes.append(f"one {what} cannot tell")
    if one.margin is not None and is_unbounded(interval) and not reading.identical:
        notes.append("no two differences are unlike, so nothing bounds what another sample would show")
    if one.pair.definition.reducer is not None and not reading.has_test:
        notes.append("its samples hang together, so there is no interval and no test")
    alone = reading.used & ~reading.both
    if reading.has_test and alone.any():
        notes.append(
            f"scored on {int(reading.first.counted.sum())} samples in A and {int(reading.second.counted.sum())} in "
            f"B, {int(reading.both.sum())} of them in both"
        )
    return notes + _repeat_notes(one, reading)


def _repeat_notes(one: ComparisonInput, reading: RunPairScores) -> list[str]:
    if one.own_spread is None:
        return []
    spreads = " and ".join(
        f"±{spread:.3g} in {run}" for run, spread in zip("AB", one.own_spread, strict=True) if spread is not None
    )
    note = f"repeats: the answers to one sample spread by {spreads}"
    if reading.values is not None and None not in one.own_spread:
        used = reading.used
        differences = reading.differences[used]
        variance = float(differences.var(ddof=1)) if len(differences) > 1 else 0.0
        own = sum((spread or 0.0) ** 2 / n for spread, n in zip(one.own_spread, one.repeats, strict=True))
        if variance > 0:
            note += f"; that makes {min(1.0, own / variance):.0%} of the variance of the differences"
    return [note]
