"""AUROC, average precision and TPR at FPR: fractions by hand, and scikit-learn on random, tied and constant scores."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AlignmentError, AueporaError, BadTypeError, BadValueError
from auepora_eval.stats.calibration import threshold_counts
from helpers.requirements import need

AREA_ROWS = [  # scores, labels, auroc, average precision, why
    ([4, 3, 2, 1], [1, 1, 0, 0], 1.0, 1.0, "all positives first"),
    ([4, 3, 2, 1], [0, 0, 1, 1], 0.0, (1 / 3 + 2 / 4) / 2, "all positives last"),
    ([4, 3, 2, 1], [1, 0, 1, 0], 3 / 4, (1 + 2 / 3) / 2, "three of the four pairs in order"),
    ([4, 3, 2, 1], [0, 1, 1, 0], 2 / 4, (1 / 2 + 2 / 3) / 2, "two of the four pairs in order"),
    ([1, 1, 1, 1], [1, 0, 1, 0], 1 / 2, 2 / 4, "one score for all: half, and the prior"),
    ([1, 1, 1, 1], [1, 0, 0, 0], 1 / 2, 1 / 4, "one score for all: the prior is a quarter"),
    ([2, 2, 1, 1], [1, 0, 1, 0], (1 / 2 + 1 + 0 + 1 / 2) / 4, 1 / 2 * 1 / 2 + 1 / 2 * 2 / 4, "ties across classes"),
    ([2, 2, 1], [1, 0, 0], (1 / 2 + 1) / 2, 1 / 2, "a tie at the top counts half"),
    ([0.0, -0.0], [1, 0], 1 / 2, 1 / 2, "zero and minus zero are equal"),
    ([np.inf, 1, -np.inf], [1, 0, 0], 1.0, 1.0, "infinite scores have an order"),
    ([2**62 + 1, 2**62], [1, 0], 1.0, 1.0, "whole numbers that only a float would confuse"),
    ([True, False], [True, False], 1.0, 1.0, "Booleans on both sides"),
    ([Fraction(2, 3), Fraction(1, 3)], [1.0, 0.0], 1.0, 1.0, "fractions, and labels written as floats"),
    ([1, 2, 3], [1, 1, 1], 1 / 2, 1.0, "positives only: half, and the prior"),
    ([1, 2, 3], [0, 0, 0], 1 / 2, 0.0, "negatives only: half, and the prior"),
    ([], [], 1 / 2, 0.0, "nothing at all"),
]


@pytest.mark.parametrize(
    ("scores", "labels", "area", "precision"), [row[:4] for row in AREA_ROWS], ids=[row[4] for row in AREA_ROWS]
)
def test_areas_by_hand(scores: list[Any], labels: list[Any], area: float, precision: float) -> None:
    assert threshold_counts(scores, labels).auroc() == area
    assert threshold_counts(scores, labels).average_precision() == pytest.approx(precision, abs=1e-15)


TPR_ROWS = [  # scores, labels, max_fpr, want, why
    ([4, 3, 2, 1], [1, 0, 1, 0], 0.0, 1 / 2, "before the first false alarm"),
    ([4, 3, 2, 1], [1, 0, 1, 0], 0.49, 1 / 2, "one of two negatives is more than 49 %"),
    ([4, 3, 2, 1], [1, 0, 1, 0], 0.5, 1.0, "exactly at the bound is allowed"),
    ([4, 3, 2, 1], [0, 1, 1, 1], 0.99, 0.0, "the first one is a false alarm: only the threshold above all is left"),
    ([2, 2, 1], [1, 0, 1], 0.0, 0.0, "a tie cannot be split"),
    ([1, 1, 1], [1, 0, 1], 1.0, 1.0, "everything is allowed"),
    ([3, 2, 1], [1, 1, 1], 0.1, 0.0, "positives only"),
    ([3, 2, 1], [0, 0, 0], 0.1, 0.0, "negatives only"),
    ([], [], 0.1, 0.0, "nothing at all"),
    ([9, 8, 7, 6, 5, 4], [1, 1, 0, 1, 0, 1], 0.5, 3 / 4, "the last of several thresholds with the same FPR"),
]


@pytest.mark.parametrize(
    ("scores", "labels", "bound", "want"), [row[:4] for row in TPR_ROWS], ids=[row[4] for row in TPR_ROWS]
)
def test_tpr_at_fpr_by_hand(scores: list[float], labels: list[int], bound: float, want: float) -> None:
    assert threshold_counts(scores, labels).tpr_at_fpr(bound) == want


@pytest.mark.parametrize("percent", range(1, 100))
def test_a_bound_that_is_met_exactly_is_met(percent: int) -> None:
    """``percent`` false alarms of 100, then the positive: 0.07 * 100 > 7 must not shut it out, nor let one more in."""
    labels = [0] * percent + [1] + [0] * (100 - percent)
    scores = list(range(101, 0, -1))
    assert threshold_counts(scores, labels).tpr_at_fpr(percent / 100) == 1.0
    assert threshold_counts(scores, labels).tpr_at_fpr((percent - 1) / 100) == 0.0


SCORES = st.one_of(
    st.integers(0, 3).map(float),  # ties
    st.floats(0, 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
PAIRS = st.lists(st.tuples(SCORES, st.booleans()), min_size=2, max_size=40).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)
CONSTANT = st.tuples(SCORES, st.lists(st.booleans(), min_size=2, max_size=30)).map(
    lambda made: [(made[0], label) for label in (*made[1], True, False)]
)


@given(pairs=PAIRS | CONSTANT, bound=st.sampled_from([0.0, 0.03, 0.05, 0.1, 0.25, 1 / 3, 0.5, 1.0]) | st.floats(0, 1))
def test_agrees_with_scikit_learn(pairs: list[tuple[float, bool]], bound: float) -> None:
    oracle = need("sklearn.metrics")
    scores, labels = [score for score, _ in pairs], [int(label) for _, label in pairs]
    assert threshold_counts(scores, labels).auroc() == pytest.approx(oracle.roc_auc_score(labels, scores), abs=1e-12)
    assert threshold_counts(scores, labels).average_precision() == pytest.approx(
        oracle.average_precision_score(labels, scores), abs=1e-12
    )
    fpr, tpr, _ = oracle.roc_curve(labels, scores, drop_intermediate=False)
    assert threshold_counts(scores, labels).tpr_at_fpr(bound) == pytest.approx(tpr[fpr <= bound].max(), abs=1e-12)


def test_agrees_with_scikit_learn_on_many() -> None:
    oracle = need("sklearn.metrics")
    rng = np.random.default_rng(7)
    for decimals in (2, 17):  # many ties, hardly any
        labels = rng.random(20_000) < 0.07
        scores = np.round(rng.normal(loc=labels, scale=1.5), decimals)
        assert threshold_counts(scores, labels).auroc() == pytest.approx(
            oracle.roc_auc_score(labels, scores), abs=1e-12
        )
        assert threshold_counts(scores, labels).average_precision() == pytest.approx(
            oracle.average_precision_score(labels, scores), abs=1e-12
        )
        fpr, tpr, _ = oracle.roc_curve(labels, scores, drop_intermediate=False)
        for bound in (0.03, 0.05, 0.1):
            assert threshold_counts(scores, labels).tpr_at_fpr(bound) == pytest.approx(
                tpr[fpr <= bound].max(), abs=1e-12
            )


@given(PAIRS)
def test_auroc_is_the_proportion_of_ordered_pairs(pairs: list[tuple[float, bool]]) -> None:
    """The definition, counted out: exact, so equal to the last bit."""
    scores, labels = zip(*pairs, strict=True)
    positives = [score for score, label in pairs if label]
    negatives = [score for score, label in pairs if not label]
    wins = sum((p > n) + Fraction(p == n, 2) for p, n in product(positives, negatives))
    assert threshold_counts(scores, labels).auroc() == float(wins / (len(positives) * len(negatives)))
    assert threshold_counts([-score for score in scores], labels).auroc() == float(
        1 - wins / (len(positives) * len(negatives))
    )


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_changes_no_bit(pairs: list[tuple[float, bool]], rng: Any) -> None:
    shuffled = rng.sample(pairs, len(pairs))
    first, second = (threshold_counts(*zip(*listed, strict=True)) for listed in (pairs, shuffled))
    assert (first.auroc(), first.average_precision()) == (second.auroc(), second.average_precision())


def test_the_counts_hold_every_threshold() -> None:
    counts = threshold_counts([3, 2, 2, 1], [1, 1, 0, 0])
    assert counts.true_positives.tolist() == [0, 1, 2, 2]
    assert counts.false_positives.tolist() == [0, 0, 1, 2]
    assert (counts.positives, counts.negatives, counts.defined) == (2, 2, True)


BAD_ROWS = [  # scores, labels, error, message, why
    ([1, 2], [1], AlignmentError, "2 scores but 1 labels", "lengths differ"),
    ([0.1, float("nan")], [0, 1], BadValueError, "score at index 1 is NaN", "a NaN score"),
    ([0.1, None], [0, 1], BadTypeError, "score at index 1 is None, not a number", "no score"),
    ([0.1, "0.2"], [0, 1], BadTypeError, "score at index 1 is '0.2', not a number", "a score in quotes"),
    ([0.1, 1j], [0, 1], BadTypeError, "score at index 1 is 1j, not a number", "a complex score"),
    ([[0.1, 0.2]], [0, 1], BadTypeError, r"scores must be one flat list, not an array of shape \(1, 2\)", "a table"),
    ([[0.1], [0.2, 0.3]], [0, 1], BadTypeError, "scores must be one flat list", "ragged lists"),
    (0.5, [1], BadTypeError, "scores must be one flat list, not 0.5", "a single number"),
    ([1, 2], [1, -1], BadValueError, "label at index 1 is -1; labels are 0", "labels of -1 and 1"),
    ([1, 2], [1, 2], BadValueError, "label at index 1 is 2; labels are 0", "a third class"),
    ([1, 2], [1, float("nan")], BadValueError, "label at index 1 is nan", "a NaN label"),
    ([1, 2], [1, None], BadValueError, "label at index 1 is None", "no label"),
    ([1, 2], ["1", "0"], BadValueError, "label at index 0 is '1'", "labels in quotes"),
    ([1, 0], [0.2, 0.9], BadValueError, "label at index 0 is 0.2", "scores and labels swapped"),
]


@pytest.mark.parametrize(
    ("scores", "labels", "error", "message"), [row[:4] for row in BAD_ROWS], ids=[row[4] for row in BAD_ROWS]
)
def test_bad_input(scores: Any, labels: Any, error: type[Exception], message: str) -> None:
    assert issubclass(error, AueporaError)
    with pytest.raises(error, match=message):
        threshold_counts(scores, labels)


@pytest.mark.parametrize(("bound", "error"), [(-0.1, BadValueError), (1.5, BadValueError), (float("nan"), BadValueError), ("3%", BadTypeError), (True, BadTypeError)])  # fmt: skip
def test_a_bound_that_is_no_rate(bound: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_fpr must"):
        threshold_counts([1, 2], [0, 1]).tpr_at_fpr(bound)
