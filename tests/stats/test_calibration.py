"""Scores against labels of right and wrong: by hand, and as scikit-learn has it."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats.calibration import (
    Confusion,
    auroc_report,
    balanced_accuracy_report,
    brier_score,
    confusion,
    expected_calibration_error,
    reliability_table,
)
from auepora_eval.stats.intervals import wilson_interval
from helpers.requirements import examples, need

SCORES = [0.1, 0.15, 0.3, 0.35, 0.8, 0.85, 0.9, 1.0]
LABELS = [0, 1, 0, 0, 1, 1, 0, 1]


def test_equal_widths_by_hand() -> None:
    table = reliability_table(SCORES, LABELS, bins=2)
    assert [(one.low, one.high, one.count) for one in table] == [(0.0, 0.5, 4), (0.5, 1.0, 4)]
    assert [one.share_right for one in table] == [1 / 4, 3 / 4]
    assert [one.mean_score for one in table] == pytest.approx([0.9 / 4, 3.55 / 4])
    want = (abs(Fraction(1) - Fraction(9, 10)) + abs(Fraction(3) - Fraction(355, 100))) / 8
    assert expected_calibration_error(SCORES, LABELS, bins=2) == pytest.approx(float(want))
    assert table[0].interval == wilson_interval(1, 4)


EDGES = [
    (0.0, 0, "zero is in the first bin"),
    (0.1, 1, "a lower end belongs to its bin"),
    (0.3, 3, "though three times 0.1 is more"),
    (0.7, 7, "though seven times 0.1 is more"),
    (1.0, 9, "one is in the last bin"),
]


@pytest.mark.parametrize(("score", "place"), [row[:2] for row in EDGES], ids=[row[2] for row in EDGES])
def test_where_a_score_falls(score: float, place: int) -> None:
    (found,) = reliability_table([score], [1])
    assert found.low == pytest.approx(place / 10)


def test_equal_mass_keeps_equal_scores_together() -> None:
    scores, labels = [0.0] * 3 + [1.0] * 7, [0, 0, 1] + [1] * 6 + [0]
    table = reliability_table(scores, labels, bins=5, binning="mass")
    assert [(one.count, one.share_right) for one in table] == [(3, 1 / 3), (7, 6 / 7)]
    want = Fraction(3, 10) * Fraction(1, 3) + Fraction(7, 10) * Fraction(1, 7)
    assert expected_calibration_error(scores, labels, bins=5, binning="mass") == pytest.approx(float(want))
    spread = reliability_table(SCORES, LABELS, bins=4, binning="mass")
    assert [one.count for one in spread] == [2, 2, 2, 2]
    assert (spread[0].low, spread[0].high) == (0.1, 0.15)


pairs = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.25, 0.5, 0.99, 1.0]), st.booleans()), min_size=1, max_size=40)


@given(pairs, st.sampled_from(["width", "mass"]), st.integers(1, 12))
def test_every_score_is_in_one_bin(rows: list[tuple[float, bool]], binning: Any, bins: int) -> None:
    scores, labels = [score for score, _ in rows], [label for _, label in rows]
    table = reliability_table(scores, labels, bins=bins, binning=binning)
    assert sum(one.count for one in table) == len(rows)
    assert len(table) <= bins
    assert all(one.low <= one.mean_score + 1e-12 and one.mean_score <= one.high + 1e-12 for one in table)
    error = expected_calibration_error(scores, labels, bins=bins, binning=binning)
    assert 0 <= error <= 1
    # With bins of one score each it is as large as it gets; one bin compares the means.
    assert error >= abs(np.mean(scores) - np.mean(labels)) - 1e-12


@given(pairs)
def test_agrees_with_scikit_learn(rows: list[tuple[float, bool]]) -> None:
    metrics = need("sklearn.metrics")
    scores, labels = np.array([score for score, _ in rows]), np.array([float(label) for _, label in rows])
    assert brier_score(scores, labels) == pytest.approx(float(np.mean((scores - labels) ** 2)), abs=1e-12)
    if len(set(labels)) == 2:
        assert brier_score(scores, labels) == pytest.approx(metrics.brier_score_loss(labels, scores), abs=1e-12)
        found = auroc_report(scores, labels, draws=20)
        assert found.value == pytest.approx(metrics.roc_auc_score(labels, scores), abs=1e-12)
        verdicts = scores >= 0.5
        table = confusion(verdicts, labels)
        (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, verdicts).tolist()
        assert table == Confusion(tp, fp, tn, fn)
        assert balanced_accuracy_report(table).value == pytest.approx(
            metrics.balanced_accuracy_score(labels, verdicts), abs=1e-12
        )


def test_calibration_curve_of_scikit_learn() -> None:
    calibration = need("sklearn.calibration")
    rng = np.random.default_rng(0)
    scores = rng.random(500)
    labels = rng.random(500) < scores**2
    shares, means = calibration.calibration_curve(labels, scores, n_bins=10)
    table = reliability_table(scores, labels)
    assert [one.share_right for one in table] == pytest.approx(list(shares), abs=1e-12)
    assert [one.mean_score for one in table] == pytest.approx(list(means), abs=1e-12)


def test_rates_have_intervals() -> None:
    table = Confusion(true_positives=40, false_positives=5, true_negatives=45, false_negatives=10)
    tpr, tnr, both = table.tpr(), table.tnr(), balanced_accuracy_report(table)
    assert (tpr.value, tnr.value) == (4 / 5, 9 / 10)
    assert both.value == pytest.approx(17 / 20)
    assert tpr.interval == wilson_interval(40, 50)
    assert tnr.interval == wilson_interval(45, 50)
    assert both.interval is not None
    assert both.interval.low < 17 / 20 < both.interval.high
    # Narrower than either: two independent shares each count half.
    assert both.interval.high - both.interval.low < tnr.interval.high - tnr.interval.low


def test_a_class_that_is_absent() -> None:
    table = confusion([1, 0], [1, 1])
    assert (table.tnr().value, table.tnr().why_undefined) == (None, "nothing is labelled wrong")
    assert balanced_accuracy_report(table).why_undefined == "nothing is labelled wrong"
    assert auroc_report([0.1, 0.2], [1, 1]).why_undefined == "nothing is labelled wrong"
    assert auroc_report([0.1, 0.2], [0, 0]).why_undefined == "nothing is labelled right"
    assert confusion([], []).tpr().value is None


def test_nothing_at_all() -> None:
    assert math.isnan(expected_calibration_error([], []))
    assert math.isnan(brier_score([], []))
    assert reliability_table([], []) == ()


WRONG = [
    (([1.5], [1]), {}, "the score at index 0 is 1.5; scores lie between 0 and 1"),
    (([0.5, math.nan], [1, 0]), {}, "the score at index 1 is nan"),
    (([0.5], [2]), {}, "the label at index 0 is 2.0; labels are 0"),
    (([0.5, 0.1], [1]), {}, "2 scores"),
    (([0.5], [1]), {"bins": 0}, "there must be one at least"),
    (([0.5], [1]), {"binning": "depth"}, "choose 'width' or 'mass'"),
]


@pytest.mark.parametrize(("given_", "options", "message"), WRONG)
def test_bad_scores_and_labels(given_: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reliability_table(*given_, **options)
    if not options:
        with pytest.raises(ValueError, match=message):
            brier_score(*given_)


def test_a_verdict_is_zero_or_one() -> None:
    with pytest.raises(ValueError, match="compare scores with a threshold"):
        confusion([0.5], [1])


@pytest.mark.slow
def test_auroc_interval_covers() -> None:
    rng = np.random.default_rng(1)
    repetitions = examples(250)
    truth, covered = 0.7602, 0  # of two normal distributions one apart: Phi(1 / sqrt 2)
    for _ in range(repetitions):
        labels = rng.random(80) < 0.5
        scores = rng.normal(size=80) + labels
        interval = auroc_report(scores, labels, draws=200).interval
        assert interval is not None
        covered += interval.low <= truth <= interval.high
    assert 0.88 <= covered / repetitions <= 0.99
