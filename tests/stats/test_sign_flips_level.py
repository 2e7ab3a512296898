"""Paired tests and intervals keep what they promise: seeded simulations on data whose true difference is known."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.stats.difference import paired_interval
from auepora_eval.stats.permutation import holm, max_t, sign_flips
from helpers.requirements import examples

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Generator = np.random.Generator

REPETITIONS = 2_000
# The columns of one call are repetitions: they share the flips, whose own chance is small beside that of the data.
AT_ONCE = 250
# Intervals are computed one by one.
INTERVALS = examples(2_000)
MARGIN = 0.02 if INTERVALS == 2_000 else 0.03


def alike(rng: Generator, clusters: int, columns: int) -> Floats:
    """Clusters of four samples, and 0.6 of the variance between clusters."""
    between = np.repeat(rng.normal(size=(clusters, columns)), 4, axis=0)
    return np.asarray(math.sqrt(0.6) * between + math.sqrt(0.4) * rng.normal(size=(4 * clusters, columns)))


SIGNS = np.array([-1.0, 0.0, 1.0])
NULLS: dict[str, Callable[[Generator, int, int], Floats]] = {
    "right or wrong, 30 % differ": lambda rng, n, m: rng.choice(SIGNS, (n, m), p=[0.15, 0.7, 0.15]),
    "uniform less uniform": lambda rng, n, m: rng.random((n, m)) - rng.random((n, m)),
    "two skewed scores": lambda rng, n, m: rng.beta(5, 1, (n, m)) - rng.beta(5, 1, (n, m)),
    "ties in halves": lambda rng, n, m: rng.choice([-1, -0.5, 0, 0.5, 1], (n, m), p=[0.05, 0.1, 0.7, 0.1, 0.05]),
    "heavy tails": lambda rng, n, m: rng.standard_t(2, (n, m)),
}


def false_alarms(draw: Callable[[Generator], Floats], clusters: Ints | None = None) -> float:
    rng = np.random.default_rng(0)
    found = [sign_flips(draw(rng), clusters, draws=2_000, seed=seed) for seed in range(REPETITIONS // AT_ONCE)]
    return float(np.mean(np.concatenate([flips.p_values for flips in found]) < 0.05))


@pytest.mark.parametrize("n", [10, 40, 100])
@pytest.mark.parametrize("name", NULLS)
def test_false_alarms(name: str, n: int) -> None:
    """At most .06 under the null; hardly fewer than .05 either, unless a p-value has few values to take."""
    share = false_alarms(lambda rng: NULLS[name](rng, n, AT_ONCE))
    assert share <= 0.06
    if name in ("uniform less uniform", "two skewed scores", "heavy tails"):
        assert share >= 0.04


@pytest.mark.parametrize("clusters", [12, 60])
def test_false_alarms_with_clusters_of_four(clusters: int) -> None:
    codes = np.repeat(np.arange(clusters), 4)
    assert 0.04 <= false_alarms(lambda rng: alike(rng, clusters, AT_ONCE), codes) <= 0.06
    # Told that paraphrases are questions of their own, the test would be wrong one time in four.
    assert false_alarms(lambda rng: alike(rng, clusters, AT_ONCE)) > 0.2


def test_false_alarms_with_clusters_of_unequal_size() -> None:
    sizes = np.tile([1, 2, 4, 16], 8)
    codes = np.repeat(np.arange(len(sizes)), sizes)

    def draw(rng: Generator) -> Floats:
        return np.asarray(rng.normal(size=(len(sizes), AT_ONCE))[codes] + rng.normal(size=(len(codes), AT_ONCE)))

    assert 0.04 <= false_alarms(draw, codes) <= 0.06


def test_a_real_difference_is_found_as_often_as_the_t_test_would() -> None:
    """A difference of 0.4 sd, 50 samples: the t test has a power of 79 %."""
    assert false_alarms(lambda rng: rng.normal(0.4, 1, (50, AT_ONCE))) == pytest.approx(0.79, abs=0.03)


def family(rng: Generator, n: int, differ: int) -> Floats:
    """Twelve metrics that move together, on scales far apart, some right-or-wrong; the first ones do differ."""
    values = math.sqrt(0.5) * rng.normal(size=(n, 1)) + math.sqrt(0.5) * rng.normal(size=(n, 12))
    values[:, 8:] = np.where(np.abs(values[:, 8:]) > 1, np.sign(values[:, 8:]), 0.0)
    values[:, :differ] += 1.0
    return np.asarray(values * 10.0 ** np.arange(-6, 6))


@pytest.mark.slow
@pytest.mark.parametrize(("differ", "least"), [(0, 0.03), (4, 0.02)], ids=["none differs", "four of twelve differ"])
def test_any_false_alarm_among_many_metrics(differ: int, least: float) -> None:
    rng = np.random.default_rng(differ)
    alarms = np.zeros(3)
    for seed in range(REPETITIONS):
        flips = sign_flips(family(rng, 30, differ), draws=400, seed=seed)
        for place, p in enumerate((max_t(flips), holm(flips.p_values), flips.p_values)):
            alarms[place] += (p[differ:] < 0.05).any()
    by_max_t, by_holm, plain = alarms / REPETITIONS
    assert least <= by_max_t <= 0.06
    assert by_holm <= by_max_t  # Holm's method does not know that the metrics move together
    assert plain > 0.2


def binary(rng: Generator, n: int, both: float, first_only: float, second_only: float) -> tuple[Floats, Floats]:
    kind = rng.choice(4, n, p=[both, first_only, second_only, 1 - both - first_only - second_only])
    return (kind <= 1).astype(np.float64), ((kind == 0) | (kind == 2)).astype(np.float64)


def tied(rng: Generator, n: int) -> tuple[Floats, Floats]:
    change = rng.choice([-0.5, 0.0, 0.5, 1.0], n, p=[0.05, 0.8, 0.1, 0.05])
    first = np.where(change < 0, 0.5, 0.0)
    return first, first + change


DIFFERENCES: dict[str, tuple[float, bool, Callable[[Generator, int], tuple[Floats, Floats]]]] = {
    "right or wrong, 0.5 and 0.55": (0.05, True, lambda rng, n: binary(rng, n, 0.375, 0.125, 0.175)),
    "right or wrong, 0.9 and 0.85": (-0.05, True, lambda rng, n: binary(rng, n, 0.81, 0.09, 0.04)),
    "uniform": (0.0, False, lambda rng, n: (rng.random(n), rng.random(n))),
    "beta(5, 1) and beta(8, 1)": (8 / 9 - 5 / 6, False, lambda rng, n: (rng.beta(5, 1, n), rng.beta(8, 1, n))),
    "ties in four of five": (0.075, False, tied),
}


@pytest.mark.parametrize("n", [100, 500])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_intervals_cover_the_true_difference(name: str, n: int) -> None:
    truth, right_or_wrong, draw = DIFFERENCES[name]
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(INTERVALS):
        found = paired_interval(*draw(rng, n), binary=right_or_wrong, lowest=0.0, highest=1.0)
        assert found is not None
        covered += found.low <= truth <= found.high
    assert abs(covered / INTERVALS - 0.95) <= MARGIN


@pytest.mark.parametrize("clusters", [100, 500])
def test_intervals_over_clusters_of_four_cover_the_true_difference(clusters: int) -> None:
    rng = np.random.default_rng(clusters)
    codes = np.repeat(np.arange(clusters), 4)
    covered = 0
    for _ in range(INTERVALS):
        found = paired_interval(np.zeros(4 * clusters), alike(rng, clusters, 1)[:, 0], clusters=codes)
        assert found is not None
        covered += found.low <= 0 <= found.high
    assert abs(covered / INTERVALS - 0.95) <= MARGIN


def test_equivalence_interval_is_narrower_and_covers_less() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(INTERVALS):
        found = paired_interval(rng.random(60), rng.random(60), level=0.9)
        assert found is not None
        covered += found.low <= 0 <= found.high
    assert abs(covered / INTERVALS - 0.9) <= MARGIN
