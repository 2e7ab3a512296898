"""Section F of ``benchmarks.verdicts``: verdicts on skewed differences, of all units and with early stopping.

A verdict by Student's t alone, and with the bounds of ``stats/skew.py`` where differences are doubted. The product's
sign flips are left out: they can only take verdicts away, so that its rates of false verdicts are at most these.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from auepora_eval.stats.intervals import Bools, t_quantile
from auepora_eval.stats.sequential import SequentialDesign
from auepora_eval.stats.skew import doubtful_ends, log_wealth
from benchmarks.verdicts import Figure, Floats, Section, verdict_rates

Design = tuple[tuple[float, float], ...]
"""Probabilities with their differences; the rest is 0."""

NULLS: dict[str, Design] = {
    "5 % gain 1, 20 % lose .25": ((0.05, 1.0), (0.20, -0.25)),
    "10 % gain .5, 50 % lose .1": ((0.10, 0.5), (0.50, -0.1)),
    "10.1 % gain .4, the others lose .045": ((0.101, 0.4), (0.899, -0.045)),
}
"""The first one may be grades of 1 to 5: 5 % gain four grades, 20 % lose one."""
RARE: Design = ((0.02, 1.0), (0.20, -0.1))
"""A gain so rare that a sample of 50 often has none."""
EFFECTS: dict[str, Design] = {
    "10 % gain 1, 20 % lose .25": ((0.10, 1.0), (0.20, -0.25)),
    "15 % gain 1, 5 % lose 1": ((0.15, 1.0), (0.05, -1.0)),
    "2 % gain 1, 40 % lose .25": ((0.02, 1.0), (0.40, -0.25)),
    "30 % lose .25": ((0.30, -0.25),),
}
RARE_LOSSES: Design = ((0.05, -0.6),)
"""True difference -.03, the margin of the gate."""


def draw(design: Design, draws: int, n: int, seed: int = 1) -> Floats:
    """Differences by a design, a row of ``n`` per draw."""
    rng = np.random.default_rng([seed, n, len(design)])
    probabilities, values = (list(column) for column in zip(*design, strict=True))
    rest = max(1 - sum(probabilities), 0.0)
    found: Floats = rng.choice([*values, 0.0], (draws, n), p=[*probabilities, rest])
    return found


@dataclass(frozen=True, slots=True)
class Decisions:
    """Which rows have a verdict by Student's t alone, which are doubted, and which are confirmed by bets."""

    by_t: Bools
    doubted: Bools
    confirmed: Bools

    @property
    def rate(self) -> float:
        """The proportion with a verdict by both."""
        return float((self.by_t & (self.confirmed | ~self.doubted)).mean())


def decide(paths: Floats, null: float = 0.0, *, above_only: bool = False, tail: float = 0.025) -> Decisions:
    """The verdicts on rows of differences in [-1, 1]: whether the mean is above, or below, the null."""
    n = paths.shape[1]
    means, deviations = paths.mean(axis=1), paths - paths.mean(axis=1, keepdims=True)
    squares = (deviations**2).sum(axis=1)
    low, high = doubtful_ends(paths, np.ones(n), 1.0)
    half = t_quantile(tail, n - 1) * np.sqrt(squares / (n - 1) / n)
    varies, counts, enough = squares > 0, np.ones(n), -np.log(tail)
    above, below = varies & (means - half > null), varies & (means + half < null)
    confirmed = log_wealth(paths - null, counts, -1 - null) >= enough
    if above_only:
        return Decisions(above, low, confirmed)
    other = log_wealth(null - paths, counts, null - 1) >= enough
    return Decisions(above | below, np.where(means > 0, low, high), np.where(above, confirmed, other))


def null_figures(draws: int) -> Iterator[Figure]:
    """False verdicts on all units where there is no difference."""
    for name, design in NULLS.items():
        for n in (50, 80, 100, 200, 500):
            found = decide(draw(design, draws, n))
            yield Figure(f"no difference, {name}, {n} units: by t alone", float(found.by_t.mean()))
            yield Figure("... doubted", float(found.doubted.mean()))
            yield Figure("... verdict", found.rate, 0.06)
    for n in (30, 40, 50, 58, 60, 80, 100, 200, 500):
        found = decide(draw(RARE, draws, n))
        limit = 0.02 if n <= 58 else 0.20
        yield Figure(f"no difference, 2 % gain 1, 20 % lose .1, {n} units: by t alone", float(found.by_t.mean()))
        yield Figure("... verdict", found.rate, limit)


def power_figures(draws: int) -> Iterator[Figure]:
    """What the bounds cost where there is a difference."""
    for name, design in EFFECTS.items():
        for n in (50, 100, 200):
            found = decide(draw(design, draws, n))
            yield Figure(f"{name}, {n} units: by t alone", float(found.by_t.mean()))
            yield Figure("... verdict", found.rate)
    rng = np.random.default_rng(3)
    for sd in (0.05, 0.1, 0.2):
        for n in (30, 50, 100):
            paths = np.clip(rng.normal(2.8 * sd / np.sqrt(n), sd, (draws, n)), -1, 1)
            yield from _cost(f"normal differences, sd {sd:g}, {n} units", decide(paths))
    for step in (0.25, 0.5):
        paths = draw(((0.25, step), (0.10, -step)), draws, 50)
        yield from _cost(f"25 % gain {step:g}, 10 % lose it, 50 units", decide(paths))


def _cost(name: str, found: Decisions) -> Iterator[Figure]:
    alone = float(found.by_t.mean())
    yield Figure(f"{name}: by t alone", alone)
    yield Figure("... lost", alone - found.rate, 0.01)


def margin_figures(draws: int) -> Iterator[Figure]:
    """How often ``not worse(by=0.03)`` passes where 5 % lose .6, and the true difference is the margin."""
    for n in (50, 100, 200, 500):
        paths = draw(RARE_LOSSES, draws, n)
        found = decide(paths, -0.03, above_only=True)
        yield Figure(f"not worse by .03, 5 % lose .6, {n} units: by t alone", float(found.by_t.mean()))
        yield Figure("... passes", found.rate, 0.06)


def sequential_figures(draws: int) -> Iterator[Figure]:
    """False verdicts with early stopping: skewed grades, equal 0/1 scores at the margin, clusters of unlike sizes."""
    for name, design in list(NULLS.items())[:2]:
        for n in (50, 100, 200, 500):
            found = verdict_rates(SequentialDesign.plan(n), draw(design, draws, n))
            yield Figure(f"early stopping, {name}, {n} units", found.better + found.worse, 0.06)
    for n in (100, 200):
        paths = draw(((0.05, 1.0),), draws, n)
        equal = verdict_rates(SequentialDesign.plan(n, delta=0.05), paths).equal
        yield Figure(f"early stopping, 5 % of 0/1 answers gain, {n} units, margin .05: equal", equal, 0.06)
    yield from cluster_figures(draws)


def cluster_figures(draws: int) -> Iterator[Figure]:
    """Sixty clusters of 1 to 10 samples, whose differences have half of their variance in common."""
    rng = np.random.default_rng(6)
    sizes = np.tile(np.arange(1, 11), 6)
    wrong = 0
    repeats = 20
    for _ in range(repeats):
        order = rng.permutation(sizes)
        rows = max(draws // repeats, 1)
        own = rng.normal(0.0, 0.3, (rows, 60)) / np.sqrt(order)
        paths = np.clip(rng.normal(0.0, 0.3, (rows, 60)) + own, -1, 1)
        verdicts, _ = SequentialDesign.plan(60).first_verdicts(paths, order.tolist())
        wrong += sum(one != "inconclusive" for one in verdicts)
    yield Figure("early stopping, 60 clusters of 1 to 10 samples", wrong / (repeats * rows), 0.06)


def skewed_differences(divisor: int) -> Iterator[Figure]:
    """Section F."""
    draws = 20_000 // divisor
    yield from null_figures(draws)
    yield from margin_figures(draws)
    yield from power_figures(draws)
    yield from sequential_figures(draws)


SECTIONS: dict[str, tuple[str, Section]] = {"F": ("Skewed differences", skewed_differences)}
