"""Means corrected by labels: by hand, never wider than the labels alone, and covering what all labels would say."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats.calibration import CorrectedMean, corrected_difference, corrected_mean
from auepora_eval.stats.difference import paired_interval
from auepora_eval.stats.intervals import mean_interval
from helpers.evouna import AGREEMENT, judged
from helpers.requirements import examples

NAN = math.nan


def width(interval: Any) -> float:
    assert interval is not None
    return float(interval.high - interval.low)


def made(n: int, labelled: int, seed: int = 0, noise: float = 0.3) -> tuple[Any, Any, Any]:
    """Scores of all, labels of some, labels of all."""
    rng = np.random.default_rng(seed)
    every = rng.random(n)
    scores = every + noise * rng.normal(size=n)
    labels = np.full(n, NAN)
    labels[rng.choice(n, labelled, replace=False)] = 0
    return scores, np.where(np.isnan(labels), NAN, every), every


def test_by_hand() -> None:
    """Sixty samples of which thirty are labelled, and the scores are the labels: all of the scores' mean is believed."""
    scores = np.array([0.0, 1.0, 1.0] * 20)
    labels = np.where(np.arange(60) < 30, scores, NAN)
    found = corrected_mean(scores, labels, binary=True, finite=True)
    assert found.weight == pytest.approx(1.0)
    assert found.value == pytest.approx(float(Fraction(2, 3)))
    # Nothing is left of the variance but what 30 labels leave in doubt: five of thirty.
    left = Fraction(5, 30)
    assert found.narrowing == pytest.approx(math.sqrt(left), abs=0.03)
    assert found.worth == pytest.approx(30 / left, rel=0.15)


def plain(scores: Any, labels: Any) -> tuple[float, float]:
    """Lambda and the estimate as the paper has them: labelled samples, and the others as the unlabelled ones."""
    has = ~np.isnan(labels)
    y, s, others = labels[has], scores[has], scores[~has]
    n, rest = len(y), len(others)
    covariance = float(np.mean((y - y.mean()) * (s - s.mean())))
    # Both means of scores have a variance, s.var() / n and others.var() / rest; the paper takes one for both.
    spread = float(scores.var())
    weight = covariance / ((1 + n / rest) * spread)
    return weight, float(weight * others.mean() + np.mean(y - weight * s))


def written_out(
    scores: Any, labels: Any, *, clusters: Any = None, weights: Any = None, highest: float = math.inf, finite: bool
) -> tuple[float, float, float, float]:
    """Lambda, the estimate and its interval, unit by unit, for labels that are numbers."""
    has = [not math.isnan(label) for label in labels]
    rows, known = range(len(scores)), [row for row in range(len(scores)) if has[row]]
    whole = 1.0 if weights is None else sum(weights[row] for row in known)
    part = {row: 1 / len(known) if weights is None else weights[row] / whole for row in known}
    label_mean = sum(part[row] * labels[row] for row in known)
    seen_mean = sum(part[row] * scores[row] for row in known)
    every_mean = sum(scores) / len(scores)
    even = sum(labels[row] for row in known) / len(known)
    unit = {row: row if clusters is None else int(clusters[row]) for row in rows}
    a, b, evenly = (dict.fromkeys(unit.values(), 0.0) for _ in range(3))
    for row in rows:
        if not finite:
            b[unit[row]] -= (scores[row] - every_mean) / len(scores)
        if has[row]:
            a[unit[row]] += part[row] * (labels[row] - label_mean)
            b[unit[row]] += part[row] * (scores[row] - seen_mean)
            evenly[unit[row]] += (labels[row] - even) / len(known)
    aa, ab, bb = (sum(one[key] * two[key] for key in a) for one, two in ((a, a), (a, b), (b, b)))
    weight = min(max(ab / bb, 0.0), 4.0)
    units = len({unit[row] for row in known})
    left = (1 - (2 * weight * ab - weight**2 * bb) / aa) * (units - 1) / (units - 2) + 5 / units
    spread = aa / sum(one * one for one in evenly.values()) * (1 - len(known) / len(scores) if finite else 1)
    value = min(label_mean + weight * (every_mean - seen_mean), highest)
    alone = mean_interval(
        np.array([labels[row] for row in known]),
        clusters=None if clusters is None else np.array([clusters[row] for row in known]),
    )
    assert alone is not None
    half = math.sqrt(left * spread) * (alone.high - even)
    return weight, value, value - half, min(value + half, highest)


WRITTEN: list[tuple[float, dict[str, Any], str]] = [
    (1.0, {"finite": False}, "numbers"),
    (1.0, {"finite": True}, "of these and no others"),
    (0.2, {"finite": False}, "scores that vary less than the labels: lambda is above 1"),
    (0.1, {"finite": False}, "scores that vary much less: lambda is cut at 4"),
    (3.0, {"finite": False}, "scores that vary more"),
    (1.0, {"finite": False, "clusters": np.arange(90) % 30}, "by cluster"),
    (1.0, {"finite": False, "weights": 1.0 + np.arange(90) % 4}, "by weight"),
    (1.0, {"finite": True, "weights": 1.0 + np.arange(90) % 4, "clusters": np.arange(90) // 2}, "all at once"),
]


@pytest.mark.parametrize(("stretch", "options", "why"), WRITTEN, ids=[row[-1] for row in WRITTEN])
def test_formula_written_out(stretch: float, options: dict[str, Any], why: str) -> None:
    scores, labels, _ = made(90, 40, noise=0.15)
    scores = stretch * (scores - 0.5)
    found = corrected_mean(scores, labels, **options)
    weight, value, low, high = written_out(scores.tolist(), labels.tolist(), **options)
    assert found.interval is not None
    assert [found.weight, found.value] == pytest.approx([weight, value])
    assert [found.interval.low, found.interval.high] == pytest.approx([low, high])
    assert (weight == 4) == (stretch == 0.1)


def test_an_estimate_beyond_the_scale_is_its_end() -> None:
    """All labelled answers but two are right, and those that are not labelled score higher still."""
    labels = np.array([1.0] * 38 + [0.6, 0.7] + [NAN] * 40)
    scores = np.array([0.5] * 38 + [0.1, 0.2] + [0.9] * 40)
    found = corrected_mean(scores, labels, lowest=0.0, highest=1.0, finite=True)
    weight, value, low, high = written_out(scores.tolist(), labels.tolist(), highest=1.0, finite=True)
    assert found.interval is not None
    assert (found.value, found.interval.high) == (value, high) == (1.0, 1.0)
    assert [found.weight, found.interval.low] == pytest.approx([weight, low])


def test_proportion_near_a_half_uses_the_labels_alone() -> None:
    """19 of 20 labelled answers are right, as the scores say too; by the scores hardly any of the others is."""
    labels = np.array([1.0] * 19 + [0.0] + [NAN] * 120)
    scores = np.array([1.0] * 19 + [0.0] + [0.0] * 120)
    found = corrected_mean(scores, labels, binary=True)
    assert found.weight == 0
    assert found.interval == found.labels_interval == mean_interval(labels[:20], binary=True)


def test_it_is_the_estimate_of_the_paper() -> None:
    scores, labels, _ = made(4000, 1000)
    weight, value = plain(scores, labels)
    found = corrected_mean(scores, labels)
    assert found.weight * 3 / 4 == pytest.approx(
        weight, rel=0.03
    )  # of the others the best lambda is (N - n) / N of ours
    assert found.value == pytest.approx(value, abs=1e-3)


def test_lambda_has_the_smallest_variance() -> None:
    scores, labels, _ = made(300, 60, noise=0.2)
    found = corrected_mean(scores, labels)
    has = ~np.isnan(labels)

    def variance(weight: float) -> float:
        parts = weight * (scores - scores.mean()) / 300
        parts[has] += (labels[has] - labels[has].mean() - weight * (scores[has] - scores[has].mean())) / 60
        return float(parts @ parts)

    assert 0 < found.weight < 1
    assert all(variance(found.weight) <= variance(found.weight + step) for step in (-0.05, -0.001, 0.001, 0.05))


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([0.0, 1.0, NAN]), st.integers(0, 9)), min_size=1
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_never_wider_than_the_labels_alone(rows: list[Any], binary: bool, finite: bool, clustered: bool) -> None:
    scores, labels, clusters = (np.array(column) for column in zip(*rows, strict=True))
    if np.isnan(labels).all():
        with pytest.raises(ValueError, match="no sample has a label"):
            corrected_mean(scores, labels)
        return
    codes = clusters if clustered else None
    found = corrected_mean(scores, labels, binary=binary, lowest=0.0, highest=1.0, finite=finite, clusters=codes)
    assert 0 <= found.value <= 1
    if found.interval is None:
        assert found.weight == 0
        return
    assert width(found.interval) <= width(found.labels_interval) + 1e-12
    assert 0 <= found.interval.low <= found.value <= found.interval.high <= 1
    if found.weight == 0:
        assert (found.value, found.interval) == (found.labels_mean, found.labels_interval)
    if not finite:
        known = ~np.isnan(labels)
        inner = None if codes is None else codes[known]
        alone = mean_interval(labels[known], clusters=inner, binary=binary, lowest=0.0, highest=1.0)
        assert found.labels_interval == alone


ALONE = [
    (lambda y, rng: np.full(len(y), 0.7), "scores that are all the same"),
    (lambda y, rng: 1 - y, "scores that say the opposite"),
    (lambda y, rng: rng.permutation(y), "scores that have nothing to do with labels"),
]


@pytest.mark.parametrize("scores", [row[0] for row in ALONE], ids=[row[1] for row in ALONE])
def test_labels_alone(scores: Any) -> None:
    rng = np.random.default_rng(8)
    every = (rng.random(400) < 0.7).astype(float)
    labels = np.where(np.arange(400) < 50, every, NAN)
    found = corrected_mean(scores(every, rng), labels, binary=True)
    assert found.weight == 0
    assert found.interval == found.labels_interval == mean_interval(every[:50], binary=True)


def test_few_judge_errors_keep_the_interval_wide() -> None:
    scores = np.array([0.0, 1.0, 1.0, 1.0] * 60)
    labels = np.where(np.arange(240) < 40, scores, NAN)
    labels[0] = 1.0
    found = corrected_mean(scores, labels, binary=True)
    assert found.weight > 0.8
    assert found.interval is not None
    assert "skewed" in found.interval.flags
    assert found.labels_interval is not None
    assert "skewed" not in found.labels_interval.flags


def test_all_labels_equal() -> None:
    labels = np.array([1.0] * 10 + [NAN] * 20)
    found = corrected_mean(np.linspace(0, 1, 30), labels, binary=True)
    assert (found.weight, found.value) == (0.0, 1.0)
    assert found.interval == mean_interval(np.ones(10), binary=True)


def test_census_has_no_uncertainty() -> None:
    every = np.array([0.0, 1.0, 1.0, 1.0] * 5)
    scores = np.linspace(0, 1, 20)
    these = corrected_mean(scores, every, binary=True, finite=True)
    assert these.interval is not None
    assert (these.value, these.interval.low, these.interval.high) == (0.75, 0.75, 0.75)
    such = corrected_mean(scores, every, binary=True)
    assert such.value == pytest.approx(0.75)
    assert such.interval == mean_interval(every, binary=True)


def test_shifting_the_scores_changes_nothing() -> None:
    scores, labels, _ = made(200, 50)
    one, two = corrected_mean(scores, labels), corrected_mean(scores + 5, labels)
    assert [two.value, two.weight] == pytest.approx([one.value, one.weight])


def test_clusters_of_two_equal_samples_count_once() -> None:
    scores, labels, _ = made(200, 50)
    alone = corrected_mean(scores, labels)
    twins = corrected_mean(np.repeat(scores, 2), np.repeat(labels, 2), clusters=np.repeat(np.arange(200), 2))
    assert twins.value == pytest.approx(alone.value)
    assert width(twins.interval) == pytest.approx(width(alone.interval))
    taken_apart = corrected_mean(np.repeat(scores, 2), np.repeat(labels, 2))
    assert width(taken_apart.interval) < 0.8 * width(twins.interval)


def test_weights_count_represented_samples() -> None:
    """A hundred of one kind, all right, and ten of another, all wrong; ten of the first and ten of the second known."""
    every = np.array([1.0] * 100 + [0.0] * 10)
    known = (np.arange(110) < 10) | (np.arange(110) >= 100)
    labels, weights = np.where(known, every, NAN), np.where(np.arange(110) < 100, 10.0, 1.0)
    scores = np.zeros(110)
    plain_, weighted = (
        corrected_mean(scores, labels, binary=True),
        corrected_mean(scores, labels, weights=weights, binary=True),
    )
    assert plain_.value == 1 / 2
    assert weighted.value == pytest.approx(float(Fraction(100, 110)))
    assert weighted.interval is not None
    assert weighted.interval.low < 100 / 110 < weighted.interval.high
    same = corrected_mean(scores, labels, weights=np.full(110, 7.0), binary=True)
    assert same == plain_
    with pytest.raises(ValueError, match="must be a finite number above zero"):
        corrected_mean(scores, labels, weights=np.zeros(110))
    with pytest.raises(ValueError, match="weights"):
        corrected_mean(scores, labels, weights=np.ones(3))


def test_weighted_means_cover() -> None:
    rng = np.random.default_rng(12)
    kinds = np.repeat([0, 1], [900, 100])
    every = (rng.random(1000) < np.where(kinds == 0, 0.8, 0.2)).astype(float)
    scores = np.where(rng.random(1000) < 0.1, 1 - every, every)
    covered = 0
    for _ in range(400):
        labels = np.full(1000, NAN)
        for kind, n in ((0, 60), (1, 20)):  # the second kind three times as often as it comes
            drawn = rng.choice(np.flatnonzero(kinds == kind), n, replace=False)
            labels[drawn] = every[drawn]
        weights = np.where(kinds == 0, 900 / 60, 100 / 20)
        found = corrected_mean(scores, labels, weights=weights, binary=True, finite=True).interval
        assert found is not None
        covered += found.low <= every.mean() <= found.high
    assert 0.92 <= covered / 400 <= 0.99


def test_a_difference_is_the_mean_of_differences() -> None:
    first_scores, first_labels, _ = made(300, 80, seed=1)
    second_scores, _, every = made(300, 80, seed=2)
    second_labels = np.where(np.isnan(first_labels), NAN, every)
    found = corrected_difference(first_scores, second_scores, first_labels, second_labels)
    whole = corrected_mean(second_scores - first_scores, second_labels - first_labels)
    assert [found.value, found.weight] == pytest.approx([whole.value, whole.weight])
    assert width(found.interval) == pytest.approx(width(whole.interval))
    known = ~np.isnan(first_labels)
    assert found.labels_interval == paired_interval(first_labels[known], second_labels[known])
    back = corrected_difference(second_scores, first_scores, second_labels, first_labels)
    assert back.value == pytest.approx(-found.value)


def test_labels_of_one_run_only_do_not_count() -> None:
    zeros = np.zeros(4)
    one, two = np.array([1.0, 1.0, 0.0, NAN]), np.array([1.0, NAN, 1.0, 1.0])
    found = corrected_difference(zeros, zeros, one, two, binary=True)
    assert (found.labelled, found.value) == (2, 0.5)


WRONG = [
    (([1.0, NAN], [1.0, 0.0]), "the score at index 1 is nan; leave out"),
    (([1.0, 0.0], [1.0, math.inf]), "the label at index 1 is infinite"),
    (([1.0, 0.0], [1.0]), "2 scores"),
    (([1.0, 0.0], [NAN, NAN]), "no sample has a label"),
]


@pytest.mark.parametrize(("given_", "message"), WRONG)
def test_bad_input(given_: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        corrected_mean(*(np.array(one) for one in given_))


def test_one_label_has_no_spread() -> None:
    found = corrected_mean(np.zeros(3), np.array([1.0, NAN, NAN]))
    assert (found.value, found.interval, found.narrowing, found.worth) == (1.0, None, None, None)


# --- what people said of 3,610 questions -----------------------------------------------------------------------------


def draws_of(system: str, n: int, draws: int, *, finite: bool = False) -> list[CorrectedMean]:
    data = judged(system)
    rng = np.random.default_rng(2026)
    found = []
    for _ in range(draws):
        labels = np.full(len(data.labels), NAN)
        drawn = rng.choice(len(labels), n, replace=False)
        labels[drawn] = data.labels[drawn]
        found.append(corrected_mean(data.scores, labels, binary=True, finite=finite))
    return found


@pytest.mark.parametrize("system", AGREEMENT)
def test_coverage_with_a_hundred_labels(system: str) -> None:
    truth = judged(system).labels.mean()
    found = draws_of(system, 100, examples(2000))
    covered = np.mean([one.interval is not None and one.interval.low <= truth <= one.interval.high for one in found])
    assert 0.92 <= covered <= 0.98
    assert np.mean([width(one.interval) for one in found]) < 0.9 * np.mean(
        [width(one.labels_interval) for one in found]
    )
    assert all(width(one.interval) <= width(one.labels_interval) for one in found)
    assert np.mean([one.value for one in found]) == pytest.approx(truth, abs=0.005)


@pytest.mark.parametrize("n", [20, 50, 300])
@pytest.mark.parametrize("system", ["fid", "newbing"])
def test_other_numbers_of_labels_cover_these_questions(system: str, n: int) -> None:
    truth = judged(system).labels.mean()
    found = draws_of(system, n, 400, finite=True)
    covered = np.mean([one.interval is not None and one.interval.low <= truth <= one.interval.high for one in found])
    assert 0.91 <= covered <= 0.99


def test_a_difference_of_two_systems_is_covered() -> None:
    one, two = judged("gpt35"), judged("gpt4")
    truth = float(np.mean(two.labels - one.labels))
    rng = np.random.default_rng(5)
    covered, narrower = 0, 0.0
    for _ in range(400):
        drawn = rng.choice(len(one.labels), 100, replace=False)
        labels = [np.full(len(one.labels), NAN) for _ in range(2)]
        for column, data in zip(labels, (one, two), strict=True):
            column[drawn] = data.labels[drawn]
        found = corrected_difference(one.scores, two.scores, labels[0], labels[1], binary=True)
        assert found.interval is not None
        assert found.narrowing is not None
        covered += found.interval.low <= truth <= found.interval.high
        narrower += found.narrowing / 400
    assert 0.92 <= covered / 400 <= 0.99
    assert narrower < 0.9
