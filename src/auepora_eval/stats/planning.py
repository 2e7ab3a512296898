"""Size of a comparison before it is made: questions and repeats that detect a difference, from a pilot's variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import BadValueError
from .difference import mde, required_n
from .intervals import Bools, Floats, smallest_number, t_quantile
from .skew import doubtful_ends, log_wealth

REPEATS = (1, 2, 3, 5, 10)
"""Numbers of repeats that ``size_options`` compares."""
_MOST_REPEATS = 1_000_000
_DRAWS, _FLIPS, _STEP, _MOST_FACTOR, _MOST_UNITS, _FEWEST_OF_PILOT = 1000, 1000, 1.04, 5.0, 5000, 30


@dataclass(frozen=True, slots=True)
class VarianceParts:
    r"""Variance of the difference between two systems on one question, by source.

    With r repeats of each question the differences have the variance :math:`between + within / r`.
    """

    between: float
    """Variance of the expected differences over questions; repeats do not change it."""
    within: float = 0.0
    """Variance that one answer, or one judgement, of each system adds."""

    def __post_init__(self) -> None:
        for name, value in (("between", self.between), ("within", self.within)):
            if not 0 <= value < math.inf:
                raise BadValueError(f"the variance {name} must be a number of at least 0, not {value!r}")

    @classmethod
    def split(cls, variance: float, within: float, repeats: int) -> VarianceParts:
        """The parts of a variance that was observed with this number of repeats.

        ``within`` is the variance of a single repeat, both systems added. Chance may make it larger than the observed
        variance allows; then nothing is left between questions.
        """
        _check_count(repeats, "repeats")
        return cls(max(0.0, variance - within / repeats), within)

    @property
    def share_within(self) -> float:
        """The proportion of the variance, with one repeat, that repeats can reduce."""
        total = self.between + self.within
        return self.within / total if total else 0.0

    def sd(self, repeats: int = 1) -> float:
        """Standard deviation of a difference; NaN where the pilot shows no variance at all."""
        _check_count(repeats, "repeats")
        variance = self.between + self.within / repeats
        return math.sqrt(variance) if variance else math.nan


@dataclass(frozen=True, slots=True)
class SizeOption:
    """A number of repeats and the questions that suffice with it."""

    repeats: int
    questions: int


def size_options(
    parts: VarianceParts,
    delta: float,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    repeats: tuple[int, ...] = REPEATS,
    binary: bool = False,
) -> list[SizeOption]:
    """For each number of repeats, the questions that detect a true difference of ``delta`` with this power.

    ``binary``: a single repeat has scores of 0 or 1, as for ``required_n``. Empty where the pilot shows no variance: it
    does not tell how many questions are needed.
    """
    options = []
    for count in repeats:
        questions = required_n(delta, parts.sd(count), alpha=alpha, power=power, binary=binary and count == 1)
        if questions is not None:
            options.append(SizeOption(count, questions))
    return options


def fewest_questions(parts: VarianceParts, delta: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """The questions needed however often each is repeated; ``None`` where the pilot shows no variance of this kind."""
    return required_n(delta, math.sqrt(parts.between) or math.nan, alpha=alpha, power=power)


def repeats_needed(
    parts: VarianceParts, questions: int, delta: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """The fewest repeats with which so many questions suffice; ``None`` if no number of repeats does."""
    _check_count(questions, "questions")

    def suffices(repeats: int) -> bool:
        return mde(parts.sd(repeats), questions, alpha=alpha, power=power) <= delta

    if math.isnan(parts.sd()) or questions < 2:
        return None
    few, many = 1, 1
    while not suffices(many):
        few, many = many + 1, many * 2
        if many > _MOST_REPEATS:
            return None
    return smallest_number(few, many, suffices)


def verdict_factor(
    differences: Floats, delta: float, units: int, *, most: float, alpha: float = 0.05, power: float = 0.8
) -> float:
    """How many times as many units the rule of a verdict needs as Student's t test, which needs ``units``.

    By simulation: units of a pilot, of which the largest difference there can be is ``most``, drawn with weights that
    rise with the difference so that the mean is ``delta``. 1 for more units than are worth a simulation, and for a
    pilot of so few units that their shape is chance.
    """
    if units > _MOST_UNITS or len(differences) < _FEWEST_OF_PILOT:
        return 1.0
    values = differences if differences.mean() >= 0 else -differences
    apart = values - values.mean()
    weights = np.maximum(1 + (delta - values.mean()) / values.var() * apart, 0.0)
    rng, factor = np.random.default_rng(0), 1.0
    while factor < _MOST_FACTOR:
        rows = rng.choice(values, (_DRAWS, math.ceil(units * factor)), p=weights / weights.sum())
        if _finds_gain(rows, most, alpha, rng).mean() >= power:
            break
        factor *= _STEP
    return factor


def _finds_gain(rows: Floats, most: float, alpha: float, rng: np.random.Generator) -> Bools:
    """Whether each row of differences has the verdict that their mean is above 0: t, sign flips and, in doubt, bets."""
    units, sums = rows.shape[1], rows.sum(axis=1)
    half = t_quantile(alpha / 2, units - 1) * rows.std(axis=1, ddof=1) * math.sqrt(units)
    flipped = np.abs(rows @ rng.choice((-1.0, 1.0), (units, _FLIPS)))
    reached = (flipped >= np.abs(sums)[:, np.newaxis] - 1e-9 * most).sum(axis=1)
    doubtful, _ = doubtful_ends(rows, np.ones(units), most)
    is_sure = ~doubtful | (log_wealth(rows, np.ones(units), -most) >= -math.log(alpha / 2))
    found: Bools = (sums > half) & (1 + reached < alpha * (1 + _FLIPS)) & is_sure
    return found


def cheapest_repeats(parts: VarianceParts, *, question_cost: float, repeat_cost: float) -> int:
    r"""The number of repeats with which a comparison costs least.

    A question costs ``question_cost`` to write and annotate, and ``repeat_cost`` for each repeat. As n questions with r
    repeats need :math:`n \propto between + within / r`, the cost :math:`n (c_q + r c_r)` is least at :math:`r =
    \sqrt{(within / between) (c_q / c_r)}`; of the whole numbers beside it the cheaper one is returned. Without a cost
    of questions it is 1: another question always tells more than another repeat.
    """
    for name, value in (("question_cost", question_cost), ("repeat_cost", repeat_cost)):
        if not 0 <= value < math.inf:
            raise BadValueError(f"{name} must be a number of at least 0, not {value!r}")
    if not parts.within or not question_cost:
        return 1
    if not parts.between or not repeat_cost:
        return max(REPEATS)

    def cost(repeats: int) -> float:
        return (parts.between + parts.within / repeats) * (question_cost + repeats * repeat_cost)

    below = max(1, math.floor(math.sqrt(parts.within / parts.between * question_cost / repeat_cost)))
    return below if cost(below) <= cost(below + 1) else below + 1


def proportion_variance(changed: float, delta: float) -> float:
    """Variance of the differences of 0/1 scores if a proportion ``changed`` of the samples has another score."""
    if not 0 < changed <= 1:
        raise BadValueError(f"the proportion of changed scores must lie between 0 and 1, not at {changed!r}")
    if delta > changed:
        raise BadValueError(f"a difference of {delta:g} needs at least {delta:.0%} changed scores, not {changed:.0%}")
    return changed - delta**2


def single_run_variance(variance: float, correlation: float, *, own: float = 0.0) -> float:
    """Variance of the differences of two systems whose expected scores correlate, from the variance of one run.

    ``own`` is the part of the variance that is chance in single answers. It is independent in the two systems.
    """
    if not -1 <= correlation < 1:
        raise BadValueError(f"the correlation of two systems must be at least -1 and below 1, not {correlation!r}")
    return 2 * (1 - correlation) * max(0.0, variance - own) + 2 * own


def _check_count(count: int, what: str) -> None:
    if count < 1:
        raise BadValueError(f"the number of {what} must be at least 1, not {count!r}")
