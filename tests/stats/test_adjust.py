"""Adjusted p-values: max-T counted out by hand and against its definition, Holm's against rows."""

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats.permutation import holm, max_t, sign_flips

Floats = npt.NDArray[np.float64]
NAN = float("nan")


def test_one_metric_is_not_adjusted() -> None:
    flips = sign_flips(np.random.default_rng(1).normal(0.3, 1, (30, 1)))
    assert max_t(flips).tolist() == flips.p_values.tolist()


def test_a_metric_in_two_units_of_measure_is_one_metric() -> None:
    """Metrics that move together cost nothing: seconds and milliseconds are no two questions."""
    seconds = np.random.default_rng(1).normal(0.3, 1, 30)
    flips = sign_flips(np.stack([seconds, 1000 * seconds], axis=1))
    assert max_t(flips) == pytest.approx(flips.p_values, abs=1e-15)


def test_by_hand() -> None:
    """Four samples, two metrics: A gains 1 everywhere, B gains 1 in three and loses 1 in one. Sixteen flips.

    z of A is 2, reached by A itself in ++++ and ----, and by B where the signs make it ±4: in two flips as well. z of
    B is 1, and as the less sure of the two it stands alone: |B| >= 2 in all but the six flips where it is 0.
    """
    flips = sign_flips(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, -1.0]]))
    assert flips.z == pytest.approx([2.0, 1.0], abs=1e-12)
    assert flips.p_values.tolist() == [2 / 16, 10 / 16]
    assert max_t(flips).tolist() == [4 / 16, 10 / 16]
    assert max_t(flips, [0]).tolist()[0] == 2 / 16
    assert np.isnan(max_t(flips, [0])[1])


TABLES = st.integers(1, 4).flatmap(
    lambda m: st.lists(st.lists(st.integers(-9, 9), min_size=m, max_size=m), min_size=1, max_size=6)
)


@given(TABLES)
def test_against_the_definition(rows: list[list[int]]) -> None:
    """Step-down max-T written out: flips enumerated, metrics from the surest to the least sure, maxima over the rest."""
    table = np.array(rows, dtype=np.float64)
    spread = np.sqrt((table * table).sum(axis=0))
    spread[spread == 0] = 1
    every = np.abs([np.array(signs) @ table / spread for signs in product((1, -1), repeat=len(table))])
    seen = np.abs(table.sum(axis=0) / spread)
    order = np.argsort(-np.round(seen, 6), kind="stable")
    want, so_far = np.empty(len(order)), 0.0
    for place, metric in enumerate(order):
        so_far = max(so_far, float((every[:, order[place:]].max(axis=1) >= seen[metric] - 1e-9).mean()))
        want[metric] = so_far
    assert max_t(sign_flips(table)) == pytest.approx(want, abs=1e-12)


@given(TABLES, st.sampled_from([5, 10_000]))
def test_never_below_the_plain_p_and_in_the_order_of_z(rows: list[list[int]], draws: int) -> None:
    flips = sign_flips(np.array(rows, dtype=np.float64), draws=draws)
    adjusted = max_t(flips)
    assert (adjusted >= flips.p_values - 1e-12).all()
    assert (np.diff(adjusted[np.argsort(-np.abs(flips.z), kind="stable")]) >= 0).all()
    single_step = [
        float((flips.flipped.max(axis=1) >= abs(z) - 1e-8).mean()) if flips.exact else 1.0 for z in flips.z.tolist()
    ]
    assert (adjusted <= np.array(single_step) + 1e-12).all()


def test_fewer_metrics_never_raise_a_p() -> None:
    flips = sign_flips(np.random.default_rng(3).normal(0.2, 1, (40, 6)), draws=500)
    every, some = max_t(flips), max_t(flips, [1, 4, 4])
    assert np.isnan(some).tolist() == [True, False, True, True, False, True]
    assert (some[[1, 4]] <= every[[1, 4]]).all()


def test_metrics_without_differences_are_left_out() -> None:
    table = np.random.default_rng(3).normal(0.2, 1, (40, 3))
    table[:, 1] = NAN
    adjusted = max_t(sign_flips(table, draws=500))
    assert np.isnan(adjusted).tolist() == [False, True, False]
    assert adjusted[[0, 2]].tolist() == max_t(sign_flips(table[:, [0, 2]], draws=500)).tolist()


def test_metric_with_few_units_does_not_affect_others() -> None:
    """Three units can never be sure, and their largest z, the root of three, raises nobody else's p."""
    rng = np.random.default_rng(4)
    table = np.full((100, 2), NAN)
    table[:, 0] = rng.normal(0.35, 1, 100)
    table[:3, 1] = [1.0, 1.1, 0.9]
    flips = sign_flips(table)
    assert flips.p_values[0] < 0.01
    assert max_t(flips)[0] == pytest.approx(flips.p_values[0], abs=0.001)


@pytest.mark.parametrize("among", [[2], [-1], [0, 7]])
def test_metrics_that_are_not_there(among: list[int]) -> None:
    with pytest.raises(ValueError, match="there are 2 metrics"):
        max_t(sign_flips(np.ones((3, 2))), among)


HOLM_ROWS: list[tuple[list[float], list[float], str]] = [
    ([0.01], [0.01], "one"),
    ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06], "0.01 times 3, 0.03 times 2, and 0.04 not below the one before"),
    ([0.5, 0.6], [1.0, 1.0], "1 at most"),
    ([0.02, 0.02], [0.04, 0.04], "equal ones stay equal"),
    ([NAN, 0.01, 0.02], [NAN, 0.02, 0.02], "what has no p is not counted"),
    ([], [], "none"),
]


@pytest.mark.parametrize(("given_", "want"), [row[:2] for row in HOLM_ROWS], ids=[row[2] for row in HOLM_ROWS])
def test_holm_by_hand(given_: Any, want: Any) -> None:
    assert holm(np.array(given_)) == pytest.approx(np.array(want), abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("given_", [[1.5], [0.1, -0.1]])
def test_no_p_values(given_: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm(np.array(given_))
