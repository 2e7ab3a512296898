"""Randomised Tukey HSD: counted out by hand, the sign flips for two runs, and what must not change it."""

from itertools import permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats import permutation as tukey
from auepora_eval.stats.permutation import sign_flips, tukey_hsd

Floats = npt.NDArray[np.float64]

TABLES = st.integers(2, 3).flatmap(
    lambda runs: st.lists(st.lists(st.integers(0, 9), min_size=runs, max_size=runs), min_size=1, max_size=4)
)


def test_by_hand() -> None:
    """Two samples, scores 0, 1, 2 in both: 36 ways to deal.

    The best and the worst run are 4 apart where both samples deal alike (6 ways), or 3 apart where two runs change
    places with their neighbour (12 ways), else 2 or less. Runs 1 and 3 were seen 4 apart, neighbours 2.
    """
    found = tukey_hsd(np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]))
    assert found[0, 2] == found[2, 0] == 6 / 36
    assert found[0, 1] == found[1, 2] == 30 / 36
    assert found.diagonal().tolist() == [1.0, 1.0, 1.0]


@given(TABLES)
def test_all_permutations_by_enumeration(rows: list[list[int]]) -> None:
    runs = len(rows[0])
    every = [np.ptp(np.sum(deal, axis=0)) for deal in product(*(list(permutations(row)) for row in rows))]
    means = np.sum(rows, axis=0)
    found = tukey_hsd(np.array(rows) / 10)
    for one, other in permutations(range(runs), 2):
        want = np.mean([spread >= abs(means[one] - means[other]) for spread in every])
        assert found[one, other] == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("n", [8, 40])
def test_two_runs_are_sign_flips(n: int) -> None:
    rng = np.random.default_rng(n)
    scores, codes = rng.random((n, 2)), rng.integers(0, n // 2, n)
    found = tukey_hsd(scores, codes)[0, 1]
    want = sign_flips(scores[:, 1:] - scores[:, :1], codes)
    assert found == pytest.approx(want.p_values[0], abs=1e-12 if want.exact else 0.02)


def test_more_runs_never_lower_a_p_value() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((60, 1)) + rng.normal([0, 0.05, 0.1, 0.3], 0.2, (60, 4))
    pair, four = tukey_hsd(scores[:, [0, 3]])[0, 1], tukey_hsd(scores)
    assert pair <= four[0, 3] < 0.01
    assert (four == four.T).all()


def test_clusters_keep_together() -> None:
    """Each sample four times over is no more evidence than once, if it is said that they belong together."""
    scores = np.random.default_rng(1).random((4, 3))
    alone, together = tukey_hsd(scores), tukey_hsd(np.repeat(scores, 4, axis=0), np.repeat(np.arange(4), 4))
    assert together == pytest.approx(alone, abs=1e-12)


def test_seeds_and_block_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(1).random((30, 3))
    first, other = tukey_hsd(scores, draws=200, seed=1), tukey_hsd(scores, draws=200, seed=2)
    assert not np.array_equal(first, other)
    monkeypatch.setattr(tukey, "_TUKEY_CHUNK", 270)
    assert np.array_equal(tukey_hsd(scores, draws=200, seed=1), first)


def test_many_units_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(1).normal([0, 0.03, 0.1], 1, (2000, 3))
    whole = tukey_hsd(scores, draws=1000)
    monkeypatch.setattr(tukey, "_PERMUTED", 400)
    assert tukey_hsd(scores, draws=1000) == pytest.approx(whole, abs=0.08)


def test_constant_per_sample_does_not_matter() -> None:
    quarters = np.random.default_rng(1).integers(0, 9, (12, 3)) / 4
    level = 2.0 ** np.arange(30, 42)[:, None]
    assert np.array_equal(tukey_hsd(quarters + level, draws=500), tukey_hsd(quarters, draws=500))


def test_runs_that_are_the_same_do_not_differ() -> None:
    scores = np.repeat(np.random.default_rng(1).random((50, 1)), 3, axis=1)
    assert (tukey_hsd(scores) == 1).all()
    assert (tukey_hsd(np.empty((0, 2))) == 1).all()


def test_false_alarms_of_any_pair() -> None:
    """Five equal runs of skewed scores, 400 times: 5 % with any pair below .05, give or take 3 standard errors."""
    rng = np.random.default_rng(5)
    alarms = 0
    for seed in range(400):
        scores = rng.random((25, 1)) * rng.beta(5, 1, (25, 5))
        alarms += bool((tukey_hsd(scores, draws=199, seed=seed) < 0.05).any())
    assert 0.02 <= alarms / 400 <= 0.083


BAD_ROWS: list[tuple[Any, Any, dict[str, Any], str, str]] = [
    (np.ones(3), None, {}, r"a row per sample, not of shape \(3,\)", "a column"),
    (np.ones((3, 1)), None, {}, "two at least, not 1", "one run"),
    (np.array([[1.0, 2.0], [1.0, np.nan]]), None, {}, r"index 1 are \[1.0, nan\]", "a gap"),
    (np.ones((3, 2)), np.array([1, 2]), {}, "3 values but clusters of shape", "too few cluster codes"),
    (np.ones((3, 2)), None, {"draws": 0}, "draws must be at least 1, not 0", "no draws"),
]


@pytest.mark.parametrize(
    ("table", "clusters", "options", "message"), [row[:4] for row in BAD_ROWS], ids=[row[4] for row in BAD_ROWS]
)
def test_bad_input(table: Any, clusters: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tukey_hsd(table, clusters, **options)
