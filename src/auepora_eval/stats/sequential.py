"""Sequential designs: when a comparison or a gate may stop before all units are scored, at the stated error rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import BadValueError
from .intervals import Bools, Floats, Ints, t_quantile, t_tail
from .skew import doubtful_ends

# A group-sequential test (Jennison and Turnbull 2000): the units are asked in a random order, and a test is made at
# looks that are fixed in advance. The error rate alpha is spent over the looks as alpha f² (f: the proportion of units
# asked), so that all looks together err as often as one test at the end. All numbers of a look are valid at that look:
# the repeated interval covers at all looks together, and the repeated p-value is the alpha at which the look's boundary
# lies at its statistic.
#
# Skewed differences make Student's t wrong more often than stated: at a look at which they are, betting must agree.
#
# Betting (Waudby-Smith and Ramdas 2024) makes no use of large numbers: a wager against "the mean is m" that keeps its
# expected wealth if that is true, and multiplies it by 40 with a probability of at most 1/40.


Method = Literal["group_sequential", "betting"]
Verdict = Literal["better", "worse", "equal", "pass", "fail", "inconclusive"]
Reason = Literal["boundary", "futility", "end"]

PAIRED_VERDICTS = ("better", "worse", "equal")
GATE_VERDICTS = ("pass", "fail")
NUM_LOOKS = 20
MIN_UNITS = 10
"""No look before this many units."""
MIN_UNITS_FOR_FUTILITY = 20
FUTILITY = 0.05
"""A run stops for futility where the probability of a verdict with all units is below this."""

_NORMAL = NormalDist()
_NUM_BETS = 12
_MAX_LOG_WEALTH = 600.0
_BISECTIONS = 24
# The last boundary in the futility rule of a betting test: about what betting needs at the end, as a normal deviate.
_BETTING_BOUNDARY = 2.7
_LOWEST = -8.0  # normal deviates below this do not occur
_NODES_PER_STEP = 1.5
_MIN_NODES, _MAX_NODES = 64, 4096
# One-sided levels at which boundaries are computed to find a repeated p-value; between them it is interpolated.
_LEVELS = (0.5, 0.4, 0.3, 0.2, 0.12, 0.07, 0.04, 0.025, 0.015, 8e-3, 4e-3, 2e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-8)


# --- boundaries by recursive integration -----------------------------------------------------------------------------


def spending_boundaries(fractions: npt.ArrayLike, spent: npt.ArrayLike) -> Floats:
    """One-sided z boundaries: the first crossing is at look k or before with probability ``spent[k]``.

    ``fractions`` is the information at each look, in ascending order and in any unit. Recursive numerical integration
    of the density of paths that have not crossed (Armitage, McPherson and Rowe 1969). The boundary is infinite at a
    look at which nothing is spent.
    """
    information, levels = np.asarray(fractions, dtype=np.float64), np.asarray(spent, dtype=np.float64)
    if information.ndim != 1 or information.shape != levels.shape or not len(information):
        raise BadValueError("fractions and spent must be two flat arrays of the same length, with at least one look")
    if not information[0] > 0 or not (np.diff(information) > 0).all():
        raise BadValueError(f"fractions must be positive and ascending, not {information.tolist()}")
    if not (np.diff(levels, prepend=0.0) >= 0).all() or not levels[-1] < 1:
        raise BadValueError(f"spent must ascend from 0 or more to below 1, not {levels.tolist()}")
    boundaries: list[float] = []
    points = mass = np.zeros(0)
    for k, (variance, increment) in enumerate(zip(information, np.diff(levels, prepend=0.0), strict=True)):
        sd = math.sqrt(variance)
        if k == 0:
            boundary = -_NORMAL.inv_cdf(increment) if increment > 0 else math.inf
            points, weights = _nodes(sd, boundary, sd)
            density = np.exp(-0.5 * (points / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
        else:
            step = math.sqrt(variance - information[k - 1])
            boundary = _crossing(points / step, mass, sd / step, increment) if increment > 0 else math.inf
            before = points
            points, weights = _nodes(sd, boundary, step)
            density = np.exp(-0.5 * ((points[:, None] - before) / step) ** 2) @ mass / (step * math.sqrt(2 * math.pi))
        mass = weights * density
        boundaries.append(boundary)
    return np.array(boundaries)


def _nodes(sd: float, boundary: float, step: float) -> tuple[Floats, Floats]:
    """Points and weights of a Gauss-Legendre rule from -8 sd to the boundary, dense relative to the step."""
    low, high = _LOWEST * sd, min(boundary, -_LOWEST) * sd
    count = _MIN_NODES * math.ceil(min(_NODES_PER_STEP * (high - low) / step, _MAX_NODES) / _MIN_NODES)
    points, weights = _legendre(count)
    half = (high - low) / 2
    return low + half * (points + 1), half * weights


@lru_cache(maxsize=64)
def _legendre(count: int) -> tuple[Floats, Floats]:
    points, weights = np.polynomial.legendre.leggauss(count)
    return points, weights


def _crossing(points: Floats, mass: Floats, scale: float, increment: float) -> float:
    """The boundary that paths cross for the first time with this probability: Newton's method on its logarithm."""
    boundary = -_NORMAL.inv_cdf(min(increment, 0.5))
    for _ in range(100):
        deviates = boundary * scale - points
        probability = float(mass @ _normal_tail(deviates))
        slope = scale * float(mass @ np.exp(-0.5 * deviates**2)) / math.sqrt(2 * math.pi)
        change = (math.log(probability) - math.log(increment)) * probability / slope
        boundary += min(max(change, -1.0), 1.0)
        if abs(change) < 1e-10:
            break
    return boundary


def _normal_tail(deviates: Floats) -> Floats:
    """The probability that a normal variable exceeds each deviate."""
    flat = (np.asarray(deviates, dtype=np.float64) / math.sqrt(2)).ravel().tolist()
    return np.array([math.erfc(deviate) for deviate in flat]).reshape(np.shape(deviates)) / 2


@lru_cache(maxsize=4096)
def _boundaries(information: tuple[float, ...], proportions: tuple[float, ...], level: float) -> tuple[float, ...]:
    """The boundaries that spend these proportions of a one-sided level."""
    return tuple(spending_boundaries(information, level * np.asarray(proportions)).tolist())


# --- the design: everything that is fixed before the first call ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SequentialDesign:
    """A sequential test of a paired difference, or of a mean against a threshold, fixed before the first call.

    With ``threshold`` it is a gate: a one-sample test whose verdicts are ``pass``, ``fail`` and ``inconclusive``. 0/1
    scores have an exact binomial test at each look (``binary``), other scores are tested by betting.
    """

    n: int
    """The number of units; a cluster of samples is one unit."""
    looks: tuple[int, ...]
    """The numbers of units at which a test is made; the last one is ``n``."""
    delta: float | None = None
    """Differences up to this are "equal"; None: there is no such verdict."""
    method: Method = "group_sequential"
    alpha: float = 0.05
    tests: int = 1
    """The number of primary metrics; each is tested at alpha / tests."""
    stop_on: tuple[str, ...] = PAIRED_VERDICTS
    """The verdicts that end the test before the last look; of a gate ``pass`` and ``fail``."""
    futility: bool = True
    """Whether to stop where a verdict has become improbable. Not binding: units may be added after it."""
    threshold: float | None = None
    binary: bool = False
    """Whether the scores of a gate are 0 or 1, a sample per unit."""
    higher_is_better: bool = True
    lowest: float = 0.0
    """The least score; differences lie within plus and minus the range of scores."""
    highest: float = 1.0
    finite: bool = False
    """Whether the claim is about these ``n`` units only, not about others of their kind."""

    def __post_init__(self) -> None:
        if self.threshold is not None and self.stop_on == PAIRED_VERDICTS:
            object.__setattr__(self, "stop_on", GATE_VERDICTS)
        _check_design(self)

    @classmethod
    def plan(
        cls, n: int, *, looks: int = NUM_LOOKS, threshold: float | None = None, binary: bool = False, **options: Any
    ) -> SequentialDesign:
        """A design with equidistant looks; those below ten units are left out. A gate on other than 0/1 scores bets."""
        if looks < 1:
            raise BadValueError(f"looks must be at least 1, not {looks!r}; 20 is usual")
        units = {round(n * k / looks) for k in range(1, looks + 1)}
        if threshold is not None and not binary:
            options["method"] = "betting"
        kept = tuple(sorted(count for count in units if count >= MIN_UNITS or count == n))
        return cls(n, kept, threshold=threshold, binary=binary, **options)

    @property
    def level(self) -> float:
        """The error rate of this metric: alpha / tests."""
        return self.alpha / self.tests

    @property
    def null(self) -> float:
        """The mean that the test is about: the threshold, or no difference."""
        return 0.0 if self.threshold is None else self.threshold

    @property
    def value_range(self) -> tuple[float, float]:
        """The least and the largest value of a unit."""
        if self.threshold is not None:
            return self.lowest, self.highest
        return self.lowest - self.highest, self.highest - self.lowest

    def boundaries(self, level: float | None = None) -> Floats:
        """The z boundary of each look at a one-sided level, by default alpha / tests / 2; infinite for certainty."""
        information, proportions = _spending(self)
        one_sided = self.level / 2 if level is None else level
        found = _boundaries(information, proportions, one_sided) if information else ()
        return np.array(found + (math.inf,) * (len(self.looks) - len(found)))

    def evaluate(self, values: Sequence[float] | Floats, sizes: Sequence[int] | None = None) -> SequentialResult:
        """Apply every look up to the number of values; the first verdict stands.

        ``values`` has the difference of each unit, or the score for a gate, in the order of the draw; NaN for a unit
        without a score, whose judgement failed for good. ``sizes`` has the number of samples of each unit if
        units are clusters whose values are means; with betting it has all ``n`` units. Stopping for futility is no
        verdict: if more values come, a later look may still decide.
        """
        looks = _paths(self, np.asarray(values, dtype=np.float64).reshape(1, -1), sizes).describe()
        following = self.looks[len(looks)] if len(looks) < len(self.looks) else None
        for place, look in enumerate(looks):
            if look.verdict is not None and (look.verdict in self.stop_on or look.units == self.n):
                return SequentialResult(looks, look.verdict, "boundary", self.looks[place], following)
        reason: Reason | None = None
        if looks and following is None:
            reason = "end"
        elif looks and looks[-1].chance is not None and looks[-1].chance < FUTILITY:
            reason = "futility"
        return SequentialResult(looks, "inconclusive", reason, looks[-1].units if reason else None, following)

    def first_verdicts(self, paths: Floats, sizes: Sequence[int] | None = None) -> tuple[list[Verdict], Ints]:
        """The verdict and the number of units at the stop of many simulated sequences of ``n`` values, a row each."""
        computed = _paths(self, np.asarray(paths, dtype=np.float64), sizes)
        names, codes = self.verdict_names(), computed.codes()
        early = np.isin(codes, [code for code, name in names.items() if name in self.stop_on])
        codes[:, :-1] = np.where(early, codes, _NONE)[:, :-1]
        ends = (codes != _NONE) | (computed.chances() < FUTILITY)
        ends[:, -1] = True
        places = ends.argmax(axis=1)
        decisive = codes[np.arange(len(codes)), places]
        return [names.get(code, "inconclusive") for code in decisive.tolist()], computed.looks[places]

    def expected_units(self, effect: float, sd: float, *, draws: int = 500, seed: int = 0) -> float:
        """The expected number of units at the stop, if the true mean lies ``effect`` above zero or the threshold.

        By simulation of normal values within the range of scores, or of 0/1 scores.
        """
        rng = np.random.default_rng(seed)
        mean = self.null + effect
        if self.binary:
            paths = (rng.random((draws, self.n)) < mean).astype(np.float64)
        else:
            paths = np.clip(rng.normal(mean, sd, (draws, self.n)), *self.value_range)
        return float(self.first_verdicts(paths)[1].mean())

    def verdict_names(self) -> dict[int, Verdict]:
        """The verdict of each code of a look: above the null, below it, equal."""
        good: Verdict = "better" if self.threshold is None else "pass"
        bad: Verdict = "worse" if self.threshold is None else "fail"
        above, below = (good, bad) if self.higher_is_better else (bad, good)
        return {_ABOVE: above, _BELOW: below, _EQUAL: "equal"}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "looks": list(self.looks), "stop_on": list(self.stop_on)}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SequentialDesign:
        """The design of a dictionary that ``to_dict`` made."""
        known = _known_fields(cls, stored)
        known |= {key: tuple(known[key]) for key in ("looks", "stop_on") if key in known}
        return cls(**known)


def _known_fields(kind: type[Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(stored) - {field.name for field in fields(kind)}):
        raise BadValueError(f"{kind.__name__} has no field {unknown[0]!r}; a newer version may have written it")
    return dict(stored)


def _check_design(design: SequentialDesign) -> None:
    """Refuse a design that cannot be meant."""
    looks, low, high = design.looks, *design.value_range
    allowed = PAIRED_VERDICTS if design.threshold is None else GATE_VERDICTS
    problems = {
        f"a sequential design needs at least 2 units, not {design.n!r}": design.n < 2,
        f"looks must be ascending numbers of units that end at {design.n}, not {list(looks)}": (
            not looks or looks[-1] != design.n or looks[0] < 2 or any(a >= b for a, b in pairwise(looks))
        ),
        f"alpha must lie between 0 and 0.5, not at {design.alpha!r}; 0.05 is usual": not 0 < design.alpha < 0.5,
        f"tests must be at least 1, not {design.tests!r}": design.tests < 1,
        f"highest must be larger than lowest, not {design.highest!r} and {design.lowest!r}": not (
            math.isfinite(design.highest - design.lowest) and design.lowest < design.highest
        ),
        f"delta must be positive and below the range of scores, {high:g}, not {design.delta!r}": (
            design.delta is not None and not 0 < design.delta < high
        ),
        f"method must be group_sequential or betting, not {design.method!r}": (
            design.method not in ("group_sequential", "betting")
        ),
        f"stop_on must be among {', '.join(allowed)}, not {list(design.stop_on)}": not set(design.stop_on)
        <= set(allowed),
        "a gate has a threshold and no delta; leave one out": design.threshold is not None and design.delta is not None,
        f"threshold must lie between {low:g} and {high:g}, the ends of the scores, not at {design.threshold!r}": (
            design.threshold is not None and not low < design.threshold < high
        ),
        "binary is for gates: a paired difference has no binomial tail": design.binary and design.threshold is None,
        "binary scores are 0 and 1; leave out lowest and highest": design.binary and (low, high) != (0.0, 1.0),
        "a gate on other than 0/1 scores is tested by betting; set method to betting": (
            design.threshold is not None and not design.binary and design.method != "betting"
        ),
        "finite is for paired differences by the group-sequential method": (
            design.finite and (design.method == "betting" or design.threshold is not None)
        ),
    }
    for problem, applies in problems.items():
        if applies:
            raise BadValueError(problem)


def _spending(design: SequentialDesign) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The information at each look with a boundary, and the proportion of the error rate that is spent until then."""
    n = design.n
    if not design.finite:
        shares = tuple(count / n for count in design.looks)
        return shares, tuple(proportion**2 for proportion in shares)
    inner = design.looks[:-1]  # with all units of a finite population the answer is certain
    return tuple(count * n / (n - count) for count in inner), tuple(count / inner[-1] for count in inner)


@dataclass(frozen=True, slots=True)
class Look:
    """The test at one look."""

    number: int
    """From 1, among the looks of the design."""
    units: int
    mean: float
    low: float
    """The repeated interval: over all looks it covers the true mean with the stated probability."""
    high: float
    p_value: float
    """The repeated p-value, two-sided; not adjusted for the number of primary metrics."""
    statistic: float
    """Student's t, the normal deviate of the exact tail, or the larger wealth of a betting test."""
    boundary: float
    """The absolute value of the statistic that decides."""
    verdict: Verdict | None = None
    """What this look decides by itself."""
    chance: float | None = None
    """The probability of a verdict with all units, from what was seen; None where futility does not apply."""
    skewed: bool = False
    """Whether the differences are so skewed that betting must agree with a verdict."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON; ``skewed`` only where it is so."""
        return {name: value for name, value in asdict(self).items() if name != "skewed" or value}


@dataclass(frozen=True, slots=True)
class SequentialResult:
    """The looks so far, and the verdict."""

    looks: tuple[Look, ...]
    verdict: Verdict
    """``inconclusive`` while there is no verdict."""
    reason: Reason | None
    """Why it ended; None while it goes on."""
    stopped_at: int | None
    """The number of units at which it ended."""
    next_look: int | None
    """The number of units of the next look; None at the last one."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "looks": [look.to_dict() for look in self.looks]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SequentialResult:
        """The result of a dictionary that ``to_dict`` made."""
        known = _known_fields(cls, stored)
        return cls(**{**known, "looks": tuple(Look(**_known_fields(Look, look)) for look in known["looks"])})


# --- the tests at the looks ------------------------------------------------------------------------------------------

_ABOVE, _BELOW, _EQUAL, _NONE = 1, -1, 0, 9


class _Paths:
    """Sequences of values, a row each: what every look that they reach decides. The group-sequential t test."""

    def __init__(self, design: SequentialDesign, table: Floats, sizes: Sequence[int] | None) -> None:
        self.design, self.sizes = design, sizes
        self.table, weights = _checked_values(design, table, sizes)
        self.weights = weights[: table.shape[1]] / weights.max(initial=1.0)
        """Relative to the largest unit of the design."""
        self.looks = np.array([count for count in design.looks if count <= table.shape[1]], dtype=np.intp)
        present = ~np.isnan(self.table)
        weights, values = np.where(present, self.weights, 0.0), np.where(present, self.table - design.null, 0.0)
        squared = weights**2
        self.counts = self.sums(present.astype(np.float64)).astype(np.intp)
        some = np.maximum(self.counts, 1)
        total = np.maximum(self.sums(weights), 1e-300)
        self.means = self.sums(weights * values) / total
        """Relative to the null: a difference, or how far the scores lie above the threshold."""
        residuals = (
            self.sums(squared * values**2)
            - 2 * self.means * self.sums(squared * values)
            + self.means**2 * self.sums(squared)
        )
        squares = np.maximum(residuals, 0.0) * (self.counts / total) ** 2
        self.freedom = np.maximum(total**2 / np.maximum(self.sums(squared), 1e-300) - 1, 1.0)
        """Degrees of freedom: as many units of one size would weigh the same as these."""
        floor = (design.highest - design.lowest) ** 2 / some  # as if one of the units differed from the others
        self.sds = np.sqrt(np.maximum(squares / np.maximum(self.counts - 1, 1), floor))
        self.errors = self._errors(self.sds)

    def _errors(self, sds: Floats) -> Floats:
        """The standard errors of the means."""
        proportion = self.counts / self.design.n if self.design.finite else 0.0
        return sds / np.sqrt(np.maximum(self.counts, 1)) * np.sqrt(1 - proportion)

    @cached_property
    def is_binary(self) -> bool:
        """Whether all differences may be those of 0/1 scores, with a sample per unit."""
        shares = self.table / (self.design.highest - self.design.lowest)
        return bool((self.weights == 1).all() and np.isin(np.nan_to_num(shares), (-1.0, 0.0, 1.0)).all())

    def doubtful_at(self, place: int, rows: Bools) -> tuple[Bools, Bools]:
        """Whether Student's t alone is too uncertain for "above" and for "below" at a look; never of 0/1 scores."""
        design = self.design
        if design.threshold is not None or design.method == "betting" or self.is_binary:
            return rows[rows] & False, rows[rows] & False
        # The farther out a boundary lies, the more skewness moves its probability.
        further = min(float(design.boundaries()[place]), -_LOWEST) / _NORMAL.inv_cdf(0.975)
        values = self.table[rows, : self.looks[place]]
        return doubtful_ends(values, self.weights[: self.looks[place]], design.highest - design.lowest, further)

    def sums(self, values: Floats) -> Floats:
        """The sums of each row up to each look."""
        return np.cumsum(values, axis=1)[:, self.looks - 1]

    def codes(self) -> Ints:
        """What each look of each row decides by itself."""
        design, margin = self.design, self.design.delta
        half = self._half_widths(design.level / 2)
        above, below = self.means > half, self.means < -half
        equal = np.zeros_like(above)
        if margin is not None:
            equal = np.abs(self.means) + self._half_widths(design.level, self._errors_at(margin)) <= margin
        self._require_bets(above, below, equal)
        if design.finite and self.looks.size and self.looks[-1] == design.n:
            certain, last, size = self.counts[:, -1] == design.n, self.means[:, -1], margin or 0.0
            above[:, -1], below[:, -1] = certain & (last > size), certain & (last < -size)
            equal[:, -1] = certain & (np.abs(last) <= size)
        return _codes(above, below, equal)

    def _require_bets(self, above: Bools, below: Bools, equal: Bools) -> None:
        """Take away what is claimed of skewed differences unless bets agree."""
        doubted = np.zeros((3, *above.shape), dtype=np.bool_)
        claimed = above | below | equal
        for place in range(len(self.looks)):
            rows = claimed[:, place]
            low, high = self.doubtful_at(place, rows)
            doubted[:, rows, place] = np.stack([low, high, low | high])
        doubted &= np.stack([above, below, equal])
        rows = np.any(doubted, axis=(0, 2)).ravel()
        if rows.any():
            agreed = _BettingPaths(self.design, self.table[rows], self.sizes).claims()
            for claims, confirmed, doubtful in zip((above, below, equal), agreed, list(doubted), strict=True):
                claims[rows] &= confirmed | ~doubtful[rows]

    def _errors_at(self, margin: float) -> Floats:
        """The standard errors; those of 0/1 scores are not below those of a run that differs by the margin."""
        width = self.design.highest - self.design.lowest
        least = math.sqrt(margin * (width - margin)) if self.is_binary else 0.0
        return self._errors(np.maximum(self.sds, least))

    def _half_widths(self, level: float, errors: Floats | None = None) -> Floats:
        """Boundaries of the mean: those of Student's t with the tails of the z boundaries, times the standard error."""
        errors = self.errors if errors is None else errors
        quantiles = np.full(self.counts.shape, np.inf)
        for place, boundary in enumerate(self.design.boundaries(level)[: len(self.looks)].tolist()):
            tail, several = _tail(boundary), self.counts[:, place] > 1
            for freedom in np.unique(self.freedom[several, place]).tolist() if tail else ():
                quantiles[several & (self.freedom[:, place] == freedom), place] = t_quantile(tail, freedom)
        with np.errstate(invalid="ignore"):
            return np.where(errors > 0, quantiles * errors, 0.0)

    def chances(self) -> Floats:
        """The probability of a verdict with all units, from the mean so far; 1 where futility does not apply."""
        design, n = self.design, self.design.n
        if not design.futility or design.finite:
            return np.ones(self.means.shape)
        last = _BETTING_BOUNDARY if design.method == "betting" else float(design.boundaries()[-1])
        spread = self.sds * np.sqrt(np.maximum(1 / np.maximum(self.counts, 1) - 1 / n, 1e-12))
        end = self.sds / math.sqrt(n)
        chance = _normal_tail((last * end - self.means) / spread) + _normal_tail((last * end + self.means) / spread)
        if design.delta is not None:
            half = np.maximum(design.delta + _NORMAL.inv_cdf(design.level) * end, 0.0)
            inside = _normal_tail((-half - self.means) / spread) - _normal_tail((half - self.means) / spread)
            chance = chance + np.where(half > 0, inside, 0.0)
        applies = (self.looks >= MIN_UNITS_FOR_FUTILITY) & (self.looks < n)
        return np.where(applies, np.minimum(chance, 1.0), 1.0)

    def numbers(self, place: int) -> _Numbers:
        """The statistic of the first row at a look, with its boundary, p-value and interval relative to the null."""
        design, mean, error = self.design, float(self.means[0, place]), float(self.errors[0, place])
        count = int(self.counts[0, place])
        if design.finite and count == design.n:
            return _Numbers(mean, design.delta or 0.0, float(mean == 0), mean, mean)
        half = float(self._half_widths(design.level / 2)[0, place])
        statistic, boundary = mean / error, half / error
        if math.isinf(half):  # fewer than two values, or not all of a finite population
            return _Numbers(statistic, 0.0, 1.0, -half, half)
        tail = t_tail(abs(statistic), float(self.freedom[0, place])) if statistic else 0.5
        return _Numbers(statistic, boundary, _repeated_p_value(design, place, tail), mean - half, mean + half)

    def describe(self) -> tuple[Look, ...]:
        """The looks of the first row."""
        design, names = self.design, self.design.verdict_names()
        codes, chances = self.codes()[0].tolist(), self.chances()[0].tolist()
        lowest, highest = design.value_range
        looks = []
        for place, units in enumerate(self.looks.tolist()):
            found = self.numbers(place)
            looks.append(
                Look(
                    number=place + 1,
                    units=units,
                    mean=float(self.means[0, place]) + design.null,
                    low=max(found.low + design.null, lowest),
                    high=min(found.high + design.null, highest),
                    p_value=found.p_value,
                    statistic=found.statistic,
                    boundary=found.boundary,
                    verdict=names.get(codes[place]),
                    chance=chances[place] if chances[place] < 1 else None,
                    skewed=bool(np.any(self.doubtful_at(place, np.ones(1, dtype=np.bool_)))),
                )
            )
        return tuple(looks)


@dataclass(frozen=True, slots=True)
class _Numbers:
    statistic: float
    boundary: float
    p_value: float
    low: float
    high: float


class _BinomialPaths(_Paths):
    """0/1 scores against a threshold: exact binomial tails, each compared with the tail beyond the z boundary."""

    def codes(self) -> Ints:
        above, below = np.zeros(self.counts.shape, np.bool_), np.zeros(self.counts.shape, np.bool_)
        successes = np.rint((self.means + self.design.null) * self.counts).astype(np.intp)
        levels = _normal_tail(self.design.boundaries())
        for place in range(len(self.looks)):
            for count in np.unique(self.counts[:, place]).tolist():
                lower, upper = _binomial_tails(count, self.design.null)
                rows = self.counts[:, place] == count
                seen = successes[rows, place]
                above[rows, place], below[rows, place] = upper[seen] <= levels[place], lower[seen] <= levels[place]
        return _codes(above, below, np.zeros_like(above))

    def numbers(self, place: int) -> _Numbers:
        design, count = self.design, int(self.counts[0, place])
        successes = round(float(self.means[0, place] + design.null) * count)
        boundary = float(design.boundaries()[place])
        lower, upper = (float(tails[successes]) for tails in _binomial_tails(count, design.null))
        tail, sign = (upper, 1) if upper <= lower else (lower, -1)
        # Clopper and Pearson: the proportions under which this many successes are not too few, and not too many.
        low = _proportion_at(successes - 1, count, 1 - _tail(boundary)) if successes else 0.0
        high = _proportion_at(successes, count, _tail(boundary)) if successes < count else 1.0
        p_value = _repeated_p_value(design, place, tail)
        return _Numbers(sign * max(_deviate(tail), 0.0) + 0.0, boundary, p_value, low - design.null, high - design.null)


class _BettingPaths(_Paths):
    """Bets against a mean: the wealth of a bet against the true mean is rarely large, whatever the distribution."""

    def codes(self) -> Ints:
        return _codes(*self.claims())

    def claims(self) -> tuple[Bools, Bools, Bools]:
        """Where the mean is above, below and equal, each by its own bets."""
        design, margin = self.design, self.design.delta
        decisive, enough = math.log(2 / design.level), math.log(1 / design.level)
        above = self.log_wealth(design.null, 1) >= decisive
        below = self.log_wealth(design.null, -1) >= decisive
        equal = np.zeros_like(above)
        if margin is not None:
            equal = (self.log_wealth(margin, -1) >= enough) & (self.log_wealth(-margin, 1) >= enough)
        return above, below, equal

    def log_wealth(self, mean: float | Floats, sign: int) -> Floats:
        """The largest logarithm of the wealth until each look of bets that the true mean is larger (1) or smaller (-1).

        The wealth is the mean over twelve sizes of bets. ``mean`` is one for all rows, or one for each look of the only
        row, which then gives a row per look.
        """
        design, (lowest, highest) = self.design, self.design.value_range
        width = design.highest - design.lowest
        against = np.asarray(mean, dtype=np.float64).reshape(-1, 1)
        largest = 0.9 / np.maximum((against - lowest if sign > 0 else highest - against) / width, 1e-9)
        smallest = np.minimum(0.5 * math.sqrt(2 * math.log(2 / design.level) / design.n), largest / 2)
        gains = sign * self.weights * (self.table - against) / width
        gains = np.where(np.isnan(gains), 0.0, gains)
        wealth = np.zeros((len(gains), len(self.looks)))
        for place in np.linspace(0.0, 1.0, _NUM_BETS):
            logs = self.sums(np.log1p(smallest * (largest / smallest) ** place * gains))
            wealth += np.exp(np.minimum(logs, _MAX_LOG_WEALTH)) / _NUM_BETS
        return np.maximum.accumulate(np.log(np.maximum(wealth, 1e-300)), axis=1)

    def numbers(self, place: int) -> _Numbers:
        design = self.design
        low, high, log_wealth = (float(numbers[place]) for numbers in self._intervals)
        p_value = min(1.0, 2 * math.exp(-log_wealth))
        return _Numbers(math.exp(log_wealth), 2 / design.level, p_value, low - design.null, high - design.null)

    @cached_property
    def _intervals(self) -> tuple[Floats, Floats, Floats]:
        """The ends of the interval of the first row at each look, and the logarithm of the larger wealth."""
        upper, lower = (self.log_wealth(self.design.null, sign)[0] for sign in (1, -1))
        return self._ends(1), self._ends(-1), np.maximum(upper, lower)

    def _ends(self, sign: int) -> Floats:
        """The lower (1) or upper (-1) end of the interval at each look, by bisection."""
        design, (lowest, highest) = self.design, self.design.value_range
        start = lowest if sign > 0 else highest
        outside, inside = np.full(len(self.looks), start), self.means[0] + design.null
        places = np.arange(len(self.looks))
        for _ in range(_BISECTIONS):
            middle = (outside + inside) / 2
            excluded = self.log_wealth(middle, sign)[places, places] >= math.log(2 / design.level)
            outside, inside = np.where(excluded, middle, outside), np.where(excluded, inside, middle)
        return outside


def _paths(design: SequentialDesign, table: Floats, sizes: Sequence[int] | None) -> _Paths:
    kind = _BettingPaths if design.method == "betting" else _BinomialPaths if design.binary else _Paths
    return kind(design, table, sizes)


def _codes(above: Bools, below: Bools, equal: Bools) -> Ints:
    return np.select([above, below, equal], [_ABOVE, _BELOW, _EQUAL], _NONE).astype(np.intp)


def _checked_values(design: SequentialDesign, table: Floats, sizes: Sequence[int] | None) -> tuple[Floats, Floats]:
    """The values and the weight of each unit; an error for values outside their range."""
    if table.ndim != 2 or table.shape[1] > design.n:
        raise BadValueError(f"there are values of {table.shape[-1]} units, but the design has {design.n}")
    low, high = design.value_range
    rounding = 1e-9 * (high - low)
    given = table[~np.isnan(table)]
    if given.size and (given.min() < low - rounding or given.max() > high + rounding):
        raise BadValueError(f"values must lie between {low:g} and {high:g}; lowest and highest are the range of scores")
    if design.binary and not np.isin(given, (0.0, 1.0)).all():
        raise BadValueError("a binary design has scores of 0 and 1; leave out binary for other scores and for clusters")
    if sizes is None:
        return table, np.ones(table.shape[1])
    weights = np.asarray(sizes, dtype=np.float64)
    lengths = (design.n,) if design.method == "betting" else (table.shape[1], design.n)
    if weights.ndim != 1 or len(weights) not in lengths or (weights <= 0).any():
        raise BadValueError(f"sizes must be {' or '.join(map(str, lengths))} positive numbers, one per unit")
    if design.binary and (weights != 1).any():
        raise BadValueError("a binary design has a sample per unit; leave out binary for clusters")
    return table, weights


@lru_cache(maxsize=512)
def _binomial_tails(count: int, proportion: float) -> tuple[Floats, Floats]:
    """For each number of successes among ``count``: the probability of at most as many, and of at least as many."""
    successes = np.arange(count + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    logs = factorials[-1] - factorials - factorials[::-1]
    logs = logs + successes * math.log(proportion) + (count - successes) * math.log1p(-proportion)
    probabilities = np.exp(logs)
    return np.cumsum(probabilities), np.cumsum(probabilities[::-1])[::-1]


def _proportion_at(successes: int, count: int, probability: float) -> float:
    """The proportion under which at most this many successes have this probability, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _binomial_tails.__wrapped__(count, middle)[0][successes] > probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _tail(deviate: float) -> float:
    return math.erfc(deviate / math.sqrt(2)) / 2


def _deviate(tail: float) -> float:
    return -_NORMAL.inv_cdf(min(max(tail, 1e-300), 1 - 1e-16))


def _repeated_p_value(design: SequentialDesign, look: int, tail: float) -> float:
    """The two-sided alpha at which the boundary of a look has this one-sided tail.

    Boundaries are computed at some levels, the design's own among them. Between them the logarithm of the level is
    interpolated in the logarithm of the tail, which is exact at a first look.
    """
    levels = sorted({*_LEVELS, design.level / 2})
    tails = [_tail(float(design.boundaries(level)[look])) for level in levels]
    if tail >= tails[-1]:
        return 1.0
    if tail <= tails[0]:  # what is spent at a look is at most the tail beyond its boundary
        proportions = (0.0, *_spending(design)[1])
        return 2 * min(levels[0], tail / (proportions[look + 1] - proportions[look]))
    return 2 * math.exp(float(np.interp(math.log(tail), np.log(tails), np.log(levels))))
