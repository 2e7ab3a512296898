"""Selection among configurations that answered the same questions: which may be the best, and what that costs.

The configurations are columns of one table of scores, so that their means are compared question by question. All
constants come from the same draws of the means under "no differences": the centred scores of each unit, a question or
a cluster of questions, times normal weights (multiplier bootstrap). A column enters the draws by its scores only, so
its place among the others does not matter, and equal columns have equal draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

from ..errors import AlignmentError, BadValueError
from .intervals import (
    Bools,
    Floats,
    Ints,
    pool_units,
    require_finite_table,
    sums_by,
    t_quantile,
    t_tail,
    unit_codes,
)
from .permutation import SignFlips, max_t
from .sequential import spending_boundaries

ALPHA = 0.05
DRAWS = 4_000
LOOKS = 10
MIN_LOOK = 20
"""No configuration is eliminated before this many questions."""
MIN_FUTILITY = 100
_MAX_UNITS = 1 << 14
_DRAWN_AT_ONCE = 1 << 22
_SMALLEST_TAIL = 1e-300
_EXPECTED_ELIMINATIONS = 0.5
_NORMAL = NormalDist()


def _quantile(draws: Floats, alpha: float = ALPHA) -> float:
    """The order statistic that a further draw exceeds with probability ``alpha`` at most."""
    place = math.ceil((len(draws) + 1) * (1 - alpha)) - 1
    return float(np.sort(draws)[min(place, len(draws) - 1)])


def _as_student(boundary: float, freedom: int, *, tail: float = ALPHA) -> float:
    """A normal boundary as one of Student's t with the same tail; at least that of a single comparison.

    Configurations with the same scores have the same draws, whose quantile is 0.
    """
    return t_quantile(min(max(_NORMAL.cdf(-boundary), _SMALLEST_TAIL), tail), freedom)


def _as_normal(statistic: float, freedom: int) -> float:
    """The normal deviate with the tail of a value of Student's t."""
    if not statistic:
        return 0.0
    deviate = -_NORMAL.inv_cdf(max(t_tail(abs(statistic), freedom), _SMALLEST_TAIL))
    return math.copysign(deviate, statistic)


def _draw_means(sums: Floats, n: int, draws: int, seed: int) -> Floats:
    """Means of ``n`` questions under "no differences", a row per draw."""
    pooled = pool_units(sums, _MAX_UNITS)
    units = len(pooled)
    rng = np.random.default_rng(seed)
    at_once = max(1, _DRAWN_AT_ONCE // units)
    parts = [rng.standard_normal((min(at_once, draws - start), units)) @ pooled for start in range(0, draws, at_once)]
    return np.concatenate(parts) * (math.sqrt(len(sums) / (len(sums) - 1)) / n)


@dataclass(frozen=True, slots=True)
class BaselineTest:
    """A configuration compared with the baseline, beside all others that are."""

    difference: float
    low: float
    """The lower end of an interval that holds together with those of all other configurations."""
    high: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class Distance:
    """How far a configuration may be behind the best."""

    most: float
    """The upper bound, at 95 %."""
    n_needed: int | None = None
    """About how many questions would bound it by the margin; ``None`` if it is, or if no number would."""


@dataclass(frozen=True, slots=True)
class MainEffect:
    """How the mean over the configurations with one value of a parameter differs from the mean over all."""

    effect: float
    low: float
    """The lower end of an interval that holds together with those of all values of all parameters."""
    high: float


class ConfigurationScores:
    """The scores of configurations on the same questions, a row per question; higher is better.

    A failed answer has the worst score. ``width`` is the range of a score. ``failed`` marks the answers that failed:
    they lower a mean, and do not widen the standard error by which it is behind, so that nothing is gained by them.
    """

    def __init__(
        self,
        scores: Floats,
        *,
        clusters: Ints | None = None,
        width: float = 1.0,
        failed: Bools | None = None,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        self.scores = require_finite_table(scores)
        self._draws, self._seed = draws, seed
        self.n, self.count = self.scores.shape
        self._codes = unit_codes(clusters, self.n)
        self.units = int(self._codes.max(initial=-1)) + 1
        if self.units < 2 or self.count < 1:
            raise BadValueError("a selection needs the scores of two questions or more, in two clusters or more")
        if failed is not None and failed.shape != self.scores.shape:
            raise AlignmentError(len(self.scores), len(failed), what=("scores", "marks of failed answers"))
        self.means: Floats = self.scores.mean(axis=0)
        self.sums: Floats = sums_by(self._codes, self.scores - self.means)
        self.least = width / self.n
        """The smallest standard error of a difference: that of one question on which two configurations differ."""
        self.errors, self._errors_without_failures = self._errors(failed)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of Student's t."""
        return self.units - 1

    def _errors(self, failed: Bools | None) -> tuple[Floats, Floats]:
        """The standard errors of the differences from each configuration to the others; infinite to itself.

        First those by all questions, then the smaller one of these and of those by the questions that it answered.
        """
        covariance = self.sums.T @ self.sums * (self.units / self.freedom / self.n**2)
        own = np.diag(covariance)
        variances = own[:, None] + own - 2 * covariance
        np.fill_diagonal(variances, np.inf)
        smaller = variances.copy()
        answered: Bools = np.ones(self.scores.shape, dtype=np.bool_) if failed is None else ~failed
        for column in np.flatnonzero(answered.any(axis=0) & ~answered.all(axis=0)).tolist():
            smaller[column] = np.minimum(smaller[column], self._variances_without(column, answered[:, column]))
        np.fill_diagonal(smaller, np.inf)
        least = self.least**2
        return np.sqrt(np.maximum(variances, least)), np.sqrt(np.maximum(smaller, least))

    def _variances_without(self, column: int, answered: Bools) -> Floats:
        """The variances of the differences from a configuration by the questions that it answered."""
        differences = self.scores - self.scores[:, [column]]
        centred = np.where(answered[:, None], differences - differences[answered].mean(axis=0), 0.0)
        sums = sums_by(self._codes, centred)
        variances: Floats = (sums**2).sum(axis=0) * (self.units / self.freedom / self.n**2)
        return variances

    @property
    def spreads(self) -> Floats:
        """The standard error of each mean."""
        found: Floats = np.sqrt((self.sums**2).sum(axis=0) * (self.units / self.freedom)) / self.n
        return found

    @cached_property
    def drawn(self) -> Floats:
        """Means under "no differences", a row per draw."""
        return _draw_means(self.sums, self.n, self._draws, self._seed)

    @cached_property
    def drawn_distances(self) -> Floats:
        """By draw, how far each configuration is behind its farthest rival, in standard errors."""
        columns = [((self.drawn - self.drawn[:, [j]]) / self.errors[j]).max(axis=1) for j in range(self.count)]
        return np.stack(columns, axis=1)

    @property
    def distances(self) -> Floats:
        """How far each configuration is behind its farthest rival, in standard errors."""
        found: Floats = ((self.means - self.means[:, None]) / self._errors_without_failures).max(axis=1)
        return found

    def not_distinguishable(self) -> Bools:
        """Which configurations cannot be distinguished from the best: step-down max-T.

        All that tie for the best are among them with a probability of 95 %. Those that leave stay rivals.
        """
        kept = np.ones(self.count, dtype=np.bool_)
        while True:
            constant = _as_student(_quantile(self.drawn_distances[:, kept].max(axis=1)), self.freedom)
            remaining = kept & (self.distances <= constant)
            if (remaining == kept).all():
                return kept
            kept = remaining

    def level_of_best(self) -> float:
        """The level of a two-sided interval whose lower end holds for the mean of whichever is the best.

        The mean of the best is too high by selection and never too low, so its upper end is that of an ordinary one.
        """
        spreads = np.where(self.spreads > 0, self.spreads, np.inf)
        tail = _NORMAL.cdf(-_quantile((self.drawn / spreads).max(axis=1), ALPHA / 2))
        return 1 - 2 * min(tail, ALPHA / 2)

    def against(self, baseline: int) -> list[BaselineTest]:
        """Each configuration against the baseline: step-down max-T of many to one, two-sided."""
        errors, differences = self.errors[baseline], self.means - self.means[baseline]
        drawn = np.abs(self.drawn - self.drawn[:, [baseline]]) / errors
        tested = differences / np.where(differences < 0, self._errors_without_failures[:, baseline], errors)
        z = np.array([_as_normal(value, self.freedom) for value in tested.tolist()])
        adjusted = max_t(SignFlips(z, z, drawn, exact=False))
        constant = _as_student(_quantile(drawn.max(axis=1)), self.freedom, tail=ALPHA / 2)
        half = constant * np.where(np.isinf(errors), 0.0, errors)
        rows = zip(differences.tolist(), half.tolist(), adjusted.tolist(), strict=True)
        return [BaselineTest(value, value - width, value + width, p) for value, width, p in rows]

    def behind_best(self, margin: float | None = None) -> list[Distance]:
        """How far each configuration may be behind the best, whichever that is; all bounds together hold in 95 %."""
        constant = max(_as_student(_quantile(column), self.freedom) for column in self.drawn_distances.T)
        widths = constant * np.where(np.isinf(self.errors), 0.0, self.errors)
        behind = self.means - self.means[:, None]
        return [self._distance(*row, margin) for row in zip(behind, widths, strict=True)]

    def _distance(self, behind: Floats, widths: Floats, margin: float | None) -> Distance:
        most = float((behind + widths).max())
        if margin is None or most <= margin or float(behind.max()) >= margin:
            return Distance(most)
        ratio = float((widths / (margin - behind)).max())
        return Distance(most, math.ceil(self.n * ratio**2))


# --- successive elimination: the same questions in one random order, and a look after each tenth of them -------------


@lru_cache(maxsize=4096)
def _boundaries(deviate: float) -> Floats:
    """The boundaries of all looks at the level of a normal deviate."""
    fractions = np.arange(1, LOOKS + 1) / LOOKS
    return spending_boundaries(fractions, _NORMAL.cdf(-deviate) * fractions**2)


def look_boundaries(level: float) -> Floats:
    """The boundaries of all looks at a one-sided level that is spent as the square of the proportion of questions."""
    return _boundaries(round(-_NORMAL.inv_cdf(level), 3))


def look_sizes(units: int) -> list[int]:
    """The numbers of units after which a look is made."""
    return [round(units * look / LOOKS) for look in range(1, LOOKS + 1)]


@dataclass(frozen=True, slots=True, eq=False)
class Elimination:
    """What a look decides about the configurations that are still asked."""

    kept: Bools
    is_futile: bool = False
    """Whether less than half a further elimination is expected of all further looks."""


def eliminate(found: ConfigurationScores, *, look: int, total: int, configurations: int) -> Elimination:
    """Which of the living configurations stay after a look, counted from 1; ``total`` questions are asked at the end.

    ``configurations`` is how many there were at the beginning: what left still counts in the error rate.
    """
    living = found.count
    kept = np.ones(living, dtype=np.bool_)
    boundaries = look_boundaries(ALPHA)
    while found.n >= MIN_LOOK and living > 1:
        constant = _quantile(found.drawn_distances[:, kept].max(axis=1))
        comparisons = ALPHA / max(_NORMAL.cdf(-constant), _SMALLEST_TAIL) * (configurations - 1) / (living - 1)
        comparisons = min(max(comparisons, 1.0), int(kept.sum()) * (configurations - 1))
        boundaries = look_boundaries(ALPHA / comparisons)
        remaining = kept & (found.distances <= _as_student(float(boundaries[look - 1]), found.freedom))
        if (remaining == kept).all():
            break
        kept = remaining
    can_stop = MIN_FUTILITY <= found.n < total and int(kept.sum()) > 1
    if not can_stop:
        return Elimination(kept)
    return Elimination(kept, _expected(found, kept, float(boundaries[-1]), total) < _EXPECTED_ELIMINATIONS)


def _expected(found: ConfigurationScores, kept: Bools, boundary: float, total: int) -> float:
    """The expected number of further eliminations against the configuration that leads."""
    leader = int(np.argmax(np.where(kept, found.means, -np.inf)))
    others = [column for column in np.flatnonzero(kept).tolist() if column != leader]
    spreads = found.errors[leader, others] * math.sqrt(found.n)
    remaining = spreads * math.sqrt(1 / found.n - 1 / total)
    behind = found.means[leader] - found.means[others]
    deviates = (boundary * spreads / math.sqrt(total) - behind) / remaining
    return sum(_NORMAL.cdf(-deviate) for deviate in deviates.tolist())


# --- main effects of the parameters of a complete grid ---------------------------------------------------------------


def main_effects(
    scores: Floats,
    parameters: Mapping[str, Sequence[object]],
    *,
    clusters: Ints | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[tuple[str, object], MainEffect]:
    """The effect of each value of each parameter of a complete grid, by both, without interactions.

    ``parameters`` has the values of each parameter by configuration; one with a single value has no effect.
    """
    contrasts: dict[tuple[str, object], Floats] = {}
    for name, values in parameters.items():
        for value in dict.fromkeys(values):
            chosen = np.array([other == value for other in values])
            if not chosen.all():
                contrasts[name, value] = chosen / chosen.sum() - 1 / len(values)
    table = scores @ np.array(list(contrasts.values())).T
    found = ConfigurationScores(table, clusters=clusters, draws=draws, seed=seed)
    spreads = found.spreads
    scaled = np.abs(found.drawn) / np.where(spreads > 0, spreads, np.inf)
    half = _as_student(_quantile(scaled.max(axis=1)), found.freedom) * spreads
    ends = zip(contrasts, found.means.tolist(), half.tolist(), strict=True)
    return {key: MainEffect(mean, mean - width, mean + width) for key, mean, width in ends}
