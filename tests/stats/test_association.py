"""Scores against chance: scipy on small samples, the level under no relation, and what is never better than chance."""

import numpy as np
import pytest

from auepora_eval.stats.permutation import association_p_value, rank_sum_p_value
from helpers.requirements import examples, need


def test_perfect_order_of_four_and_three_is_one_of_35_ways() -> None:
    scores = np.array([0.9, 0.8, 0.9, 0.7, 0.6, 0.3, 0.2])
    labels = np.array([1.0, 1, 1, 1, 0, 0, 0])
    assert association_p_value(scores, labels) == pytest.approx(1 / 35, abs=0.006)
    assert association_p_value(-scores, labels) == pytest.approx(1, abs=0.001)


def test_as_scipy() -> None:
    stats = need("scipy.stats")
    rng = np.random.default_rng(5)
    for shift in (0.0, 0.5, 1.0):
        labels = (np.arange(24) % 2).astype(float)
        scores = rng.normal(size=24) + shift * labels
        want = stats.mannwhitneyu(scores[labels == 1], scores[labels == 0], alternative="greater", method="exact")
        assert association_p_value(scores, labels) == pytest.approx(want.pvalue, abs=0.015)


def test_ties_and_numbers() -> None:
    labels = np.array([0.0, 0.25, 0.25, 0.5, 0.75, 1.0, 1.0, 0.75])
    assert association_p_value(np.round(labels), labels) < 0.05
    assert association_p_value(np.array([1.0, 0.0] * 4), labels) > 0.05


@pytest.mark.parametrize(("scores", "labels"), [([0.5] * 6, [0, 1] * 3), ([0.1, 0.9] * 3, [1] * 6), ([], [])])
def test_constant_scores_or_labels(scores: list[float], labels: list[float]) -> None:
    assert association_p_value(np.array(scores), np.array(labels)) == 1.0


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="scores"):
        association_p_value(np.zeros(3), np.zeros(4))


def test_random_judge_is_significant_in_five_percent() -> None:
    rng = np.random.default_rng(1)
    found = [
        association_p_value(rng.random(40), (rng.random(40) < 0.7).astype(float), draws=399) < 0.05
        for _ in range(examples(2_000))
    ]
    assert 0.03 <= np.mean(found) <= 0.07 or len(found) < 2_000
    assert np.mean(found) <= 0.09


def test_rank_sums_agree_with_scipy() -> None:
    rng = np.random.default_rng(4)
    scores, inside = rng.integers(0, 5, 60).astype(np.float64), np.arange(60) < 25
    stats = need("scipy.stats")
    expected = stats.mannwhitneyu(scores[inside], scores[~inside], use_continuity=False, method="asymptotic").pvalue
    assert rank_sum_p_value(scores, inside) == pytest.approx(expected)
    assert rank_sum_p_value(np.ones(9), np.arange(9) < 3) == 1.0
