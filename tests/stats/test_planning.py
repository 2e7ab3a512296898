"""The size of a comparison: variance parts, questions for each number of repeats, repeats for a number of questions."""

import math
from functools import partial

import numpy as np
import pytest

from auepora_eval.compare.analysis import compute_comparisons
from auepora_eval.compare.pairing import MetricMeta, MetricPair
from auepora_eval.compare.types import ComparisonInput
from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Scores
from auepora_eval.errors import BadValueError
from auepora_eval.stats.difference import mde, required_n, unit_sd
from auepora_eval.stats.planning import (
    REPEATS,
    VarianceParts,
    cheapest_repeats,
    fewest_questions,
    proportion_variance,
    repeats_needed,
    single_run_variance,
    size_options,
    verdict_factor,
)
from helpers.requirements import need

PARTS = VarianceParts(0.04, 0.12)


def test_questions_for_each_number_of_repeats() -> None:
    options = size_options(PARTS, 0.05)
    assert [one.repeats for one in options] == list(REPEATS)
    assert options[1].questions == required_n(0.05, math.sqrt(0.04 + 0.12 / 2))
    answers = [one.repeats * one.questions for one in options]
    assert answers == sorted(answers)  # one repeat of more questions takes the fewest answers
    assert fewest_questions(PARTS, 0.05) == required_n(0.05, 0.2)


@pytest.mark.parametrize("questions", [130, 200, 502, 503])
def test_repeats_for_the_questions_at_hand(questions: int) -> None:
    """The fewest with which the questions detect the difference; 128 would not with any number."""
    repeats = repeats_needed(PARTS, questions, 0.05)
    assert repeats is not None
    assert mde(PARTS.sd(repeats), questions) <= 0.05
    assert repeats == 1 or mde(PARTS.sd(repeats - 1), questions) > 0.05
    assert repeats_needed(PARTS, 120, 0.05) is None


POWERS = [  # changed, delta, power by the t test's number of units
    (0.25, 0.1, 0.766),
    (0.5, 0.1, 0.779),
    (0.1, 0.05, 0.759),
]


@pytest.mark.parametrize(("changed", "delta", "before"), POWERS)
def test_0_1_scores_reach_the_power_of_the_exact_test(changed: float, delta: float, before: float) -> None:
    sd = math.sqrt(proportion_variance(changed, delta))
    few, enough = required_n(delta, sd), required_n(delta, sd, binary=True)
    assert few is not None
    assert enough is not None
    assert mcnemar_power(few, changed, delta) == pytest.approx(before, abs=0.001)
    assert mcnemar_power(enough, changed, delta) >= 0.799
    assert size_options(VarianceParts(sd**2), delta, repeats=(1, 2), binary=True)[0].questions == enough


def mcnemar_power(n: int, changed: float, delta: float) -> float:
    """The probability that sign flips of ``n`` 0/1 scores have p < .05, which is the exact test of McNemar."""
    binom = need("scipy.stats").binom
    total = 0.0
    for count in range(1, n + 1):
        weight = binom.pmf(count, n, changed)
        if weight > 1e-9:
            losses = binom.ppf(0.025, count, 0.5)  # the first at which the tail reaches half of alpha
            total += weight * binom.cdf(losses - 1, count, (changed - delta) / (2 * changed))
    return float(total)


KINDS = [  # values, probabilities, why
    ([0.25, -0.25, 0.0], [0.175, 0.075, 0.75], "grades that change by one"),
    ([0.5, 0.25, -0.25, -0.5, 0.0], [0.05, 0.2, 0.1, 0.03, 0.62], "grades"),
    ([1.0, 0.5, -0.5, -1.0, 0.0], [0.05, 0.15, 0.08, 0.02, 0.7], "0/1 scores, means of two repeats"),
    ([1.0, -0.05, 0.0], [0.06, 0.2, 0.74], "few large gains"),
    (None, None, "bounded scores"),
]


def _same(pair: MetricPair) -> MetricPair:
    return pair


@pytest.mark.parametrize(("values", "chances", "why"), KINDS, ids=[row[-1] for row in KINDS])
def test_scores_of_other_kinds_reach_the_power(
    values: list[float] | None, chances: list[float] | None, why: str
) -> None:
    """The pilot is as the differences are; four of five comparisons with as many units then have a verdict."""
    if values is None or chances is None:
        differences = np.clip(np.random.default_rng(1).normal(0.04, 0.15, 400), -1, 1)
    else:
        differences = np.repeat(values, np.rint(400 * np.array(chances)).astype(int))
    delta = float(differences.mean())
    alone = required_n(delta, unit_sd(differences))
    assert alone is not None
    units = math.ceil(alone * verdict_factor(differences, delta, alone, most=1.0))
    rng, found = np.random.default_rng(8), 0
    draws = 150 if why == "few large gains" else 300  # bets take their time
    for drawn in rng.choice(differences, (draws, units)):
        first = np.where(drawn < 0, -drawn, 0.0)
        meta = MetricMeta(Mean(), (0.0, 1.0))
        pair = MetricPair("grade", meta, Scores.of(first), Scores.of(first + drawn))
        (one,) = compute_comparisons([ComparisonInput("grade", meta, partial(_same, pair), "")], None)
        found += one.verdict == "better"
    # Standard errors are .033 and .023; with the units of Student's t it was .58 where few large gains decide.
    assert found / draws >= (0.7 if draws == 150 else 0.76), why


COSTS = [  # between, within, question cost, repeat cost, repeats, why
    (0.04, 0.12, 0.0, 1.0, 1, "questions are free"),
    (0.04, 0.0, 9.0, 1.0, 1, "repeats change nothing"),
    (0.04, 0.16, 4.0, 1.0, 4, "sqrt(4 * 4)"),
    (0.04, 0.04, 1.0, 4.0, 1, "a repeat costs more than a question"),
    (0.04, 0.12, 12.0, 1.0, 6, "sqrt(3 * 12)"),
]


@pytest.mark.parametrize(
    ("between", "within", "question", "repeat", "want", "why"), COSTS, ids=[row[-1] for row in COSTS]
)
def test_cheapest_repeats(between: float, within: float, question: float, repeat: float, want: int, why: str) -> None:
    parts = VarianceParts(between, within)
    found = cheapest_repeats(parts, question_cost=question, repeat_cost=repeat)
    assert found == want
    costs = [(between + within / r) * (question + r * repeat) for r in range(1, 50)]
    assert costs[found - 1] == min(costs)


def test_variance_of_simulated_answers_is_split() -> None:
    """Differences of means over three answers, whose spread within a question is known."""
    rng = np.random.default_rng(7)
    n, repeats, between, within = 4000, 3, 0.3, 0.5
    expected = rng.normal(0, between, n)
    first, second = (rng.normal(0, within, (n, repeats)) for _ in range(2))
    differences = expected + second.mean(axis=1) - first.mean(axis=1)
    own = sum(float(one.var(axis=1, ddof=1).mean()) for one in (first, second))
    parts = VarianceParts.split(unit_sd(differences) ** 2, own, repeats)
    assert parts.between == pytest.approx(between**2, rel=0.1)
    assert parts.within == pytest.approx(2 * within**2, rel=0.05)
    assert parts.share_within == pytest.approx(0.5 / 0.59, rel=0.05)
    assert VarianceParts.split(0.01, 0.09, 3) == VarianceParts(0.0, 0.09)  # more chance than was seen


@pytest.mark.slow
def test_power_of_the_planned_number_of_questions() -> None:
    """Four of five comparisons with as many questions detect the difference."""
    rng = np.random.default_rng(3)
    (option,) = size_options(PARTS, 0.08, repeats=(2,))
    draws = rng.normal(0.08, PARTS.sd(2), (4000, option.questions))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(option.questions))
    assert (t > 1.96).mean() == pytest.approx(0.8, abs=0.025)


def test_assumed_variances() -> None:
    assert proportion_variance(0.25, 0.05) == 0.25 - 0.05**2
    assert single_run_variance(0.2, 0.5) == pytest.approx(0.2)
    assert single_run_variance(0.2, 0.0) == pytest.approx(0.4)
    assert single_run_variance(0.2, 0.5, own=0.05) == pytest.approx(2 * 0.5 * 0.15 + 2 * 0.05)


def test_pilot_without_variance() -> None:
    assert size_options(VarianceParts(0.0), 0.05) == []
    assert repeats_needed(VarianceParts(0.0), 100, 0.05) is None
    assert fewest_questions(VarianceParts(0.0, 0.1), 0.05) is None


BAD = [
    (lambda: VarianceParts(-0.1), "a negative variance"),
    (lambda: VarianceParts.split(0.1, 0.1, 0), "no repeat"),
    (lambda: proportion_variance(0.02, 0.05), "a difference above the changed scores"),
    (lambda: proportion_variance(0.0, 0.05), "nothing changed"),
    (lambda: single_run_variance(0.2, 1.0), "a correlation of 1"),
    (lambda: cheapest_repeats(PARTS, question_cost=-1, repeat_cost=1), "a negative cost"),
    (lambda: repeats_needed(PARTS, 0, 0.05), "no questions"),
]


@pytest.mark.parametrize(("call", "why"), BAD, ids=[row[-1] for row in BAD])
def test_bad_values(call: object, why: str) -> None:
    assert callable(call)
    with pytest.raises(BadValueError):
        call()
