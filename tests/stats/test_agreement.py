"""Agreement of raters: Krippendorff's own table, fractions by hand, scikit-learn."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from auepora_eval.stats.agreement import (
    Level,
    agreement,
    agreement_report,
    alpha_report,
    cohen_kappa,
    expected_kappa_half_width,
    kappa_report,
    krippendorff_alpha,
    pearson_report,
)
from helpers.requirements import need

NO = None
FOUR_OBSERVERS: list[list[Any]] = [  # Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011, section C
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NO, NO, NO],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NO, 3],
    [NO, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NO],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NO],
]
PUBLISHED: dict[Level, float] = {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849, "ratio": 0.797}


@pytest.mark.parametrize(("level", "alpha"), PUBLISHED.items())
def test_the_canonical_table(level: Level, alpha: float) -> None:
    assert krippendorff_alpha(FOUR_OBSERVERS, level=level) == pytest.approx(alpha, abs=5e-4)
    as_array = np.array([[np.nan if one is None else one for one in row] for row in FOUR_OBSERVERS], dtype=float)
    report = alpha_report(as_array, level, draws=300)
    assert report.value == krippendorff_alpha(FOUR_OBSERVERS, level)
    assert report.units == 11  # the twelfth was rated once
    assert report.interval is not None
    assert report.interval.low < alpha < report.interval.high
    assert "few" in report.interval.flags


def plain_alpha(ratings: list[list[Any]], level: Level) -> float:
    """By the coincidence matrix, as the paper tells it, in fractions."""
    units = [[one for one in column if one is not None] for column in zip(*ratings, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = sorted({one for unit in units for one in unit})
    coincidences = {(c, k): Fraction(0) for c in values for k in values}
    for unit in units:
        for i, c in enumerate(unit):
            for j, k in enumerate(unit):
                if i != j:
                    coincidences[c, k] += Fraction(1, len(unit) - 1)
    counts = {c: sum(coincidences[c, k] for k in values) for c in values}
    n = sum(counts.values())

    def apart(c: Any, k: Any) -> Fraction:
        if c == k:
            return Fraction(0)
        if level == "nominal":
            return Fraction(1)
        if level == "interval":
            return Fraction(c - k) ** 2
        if level == "ratio":
            return (Fraction(c - k) / Fraction(c + k)) ** 2
        between = sum(counts[g] for g in values if min(c, k) <= g <= max(c, k))
        return (between - Fraction(counts[c] + counts[k]) / 2) ** 2

    observed = sum(coincidences[c, k] * apart(c, k) for c in values for k in values)
    expected = sum(counts[c] * counts[k] * apart(c, k) for c in values for k in values)
    return float(1 - (n - 1) * Fraction(observed) / Fraction(expected)) if expected and len(units) > 1 else math.nan


ratings = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from([None, 0, 1, 2, 5]), min_size=raters, max_size=raters), min_size=1, max_size=9
    )
)


@given(ratings, st.sampled_from(list(PUBLISHED)))
def test_alpha_is_what_the_coincidence_matrix_gives(columns: list[list[Any]], level: Level) -> None:
    table = [list(row) for row in zip(*columns, strict=True)]
    assert krippendorff_alpha(table, level) == pytest.approx(plain_alpha(table, level), abs=1e-12, nan_ok=True)


@given(ratings, st.randoms())
def test_neither_the_order_of_raters_nor_of_things_matters(columns: list[list[Any]], random: Any) -> None:
    before = krippendorff_alpha([list(row) for row in zip(*columns, strict=True)])
    random.shuffle(columns)
    rows = [list(row) for row in zip(*columns, strict=True)]
    random.shuffle(rows)
    assert krippendorff_alpha(rows) == pytest.approx(before, abs=1e-12, nan_ok=True)


UNDEFINED = [
    ([["a", "a"], ["a", "a"]], "same rating", "all agree on one value"),
    ([[1], [2]], "only one thing", "one unit"),
    ([[1, None], [None, 2]], "nothing was rated by two", "no pair"),
    ([[1, 2, 3]], "nothing was rated by two", "one rater"),
    ([], "nothing was rated by two", "nobody"),
    ([[], []], "nothing was rated by two", "nothing"),
]


@pytest.mark.parametrize(("table", "why"), [row[:2] for row in UNDEFINED], ids=[row[2] for row in UNDEFINED])
def test_where_alpha_is_undefined(table: list[list[Any]], why: str) -> None:
    assert math.isnan(krippendorff_alpha(table))
    report = alpha_report(table)
    assert (report.value, report.interval) == (None, None)
    assert why in (report.why_undefined or "")


def test_texts_are_nominal() -> None:
    table: list[list[Any]] = [["right", "wrong", "right", None], ["right", "wrong", "wrong", "right"]]
    # Coincidences: right 2 + 1, wrong 2 + 1 of n = 6; observed 2 of 6, expected 2 * 3 * 3 / 30.
    assert krippendorff_alpha(table) == pytest.approx(float(1 - Fraction(2, 6) / Fraction(18, 30)))
    with pytest.raises(TypeError, match="'ordinal' asks for numbers; the rating 'right' is none"):
        krippendorff_alpha(table, "ordinal")


WRONG = [
    ([[1, 2], [1]], "nominal", ValueError, "rater 1 has 1 ratings and rater 0 has 2"),
    ([[1, 2], [1, 2]], "cardinal", ValueError, "choose one of nominal, ordinal"),
    ([[-1, 2], [1, 2]], "ratio", ValueError, "numbers from 0 on"),
    ([[math.inf, 2], [1, 2]], "interval", ValueError, "finite"),
    (np.zeros(3), "nominal", ValueError, "a table with a row per rater"),
]


@pytest.mark.parametrize(("table", "level", "error", "message"), WRONG)
def test_bad_ratings(table: Any, level: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        krippendorff_alpha(table, level)


def test_large_numbers_close_together() -> None:
    small = [[0, 1, 2, 3], [0, 1, 3, 3]]
    large = [[value + 10**9 for value in row] for row in small]
    assert krippendorff_alpha(large, "interval") == pytest.approx(krippendorff_alpha(small, "interval"), abs=1e-9)


# --- two raters ------------------------------------------------------------------------------------------------------


@given(
    hnp.arrays(np.int64, st.tuples(st.just(2), st.integers(1, 40)), elements=st.integers(0, 4)),
    st.sampled_from([None, "linear", "quadratic"]),
)
def test_kappa_is_that_of_scikit_learn(table: Any, weights: Any) -> None:
    metrics = need("sklearn.metrics")
    a, b = table.tolist()
    ours = cohen_kappa(a, b, weights)
    if len({*a, *b}) == 1:
        assert math.isnan(ours)
    else:
        assert ours == pytest.approx(metrics.cohen_kappa_score(a, b, weights=weights), abs=1e-12)


def test_kappa_by_hand() -> None:
    a = ["right"] * 45 + ["right"] * 15 + ["wrong"] * 25 + ["wrong"] * 15
    b = ["right"] * 45 + ["wrong"] * 15 + ["right"] * 25 + ["wrong"] * 15
    # 60 of 100 are equal; by chance 60 * 70 + 40 * 30 of 10,000 would be.
    assert cohen_kappa(a, b) == pytest.approx(float((Fraction(60, 100) - Fraction(54, 100)) / Fraction(46, 100)))
    report = kappa_report(a, b)
    assert report.interval is not None
    assert report.interval.low < 6 / 46 < report.interval.high
    assert agreement(a, b) == 0.6
    share = agreement_report(a, b)
    assert share.interval is not None
    assert share.interval.method == "wilson"


def test_the_expected_width_of_kappa_by_hand() -> None:
    # Agreement 0.9 and 1/2 by chance: 1.96 * sqrt(0.9 * 0.1 / 100) / (1 - 1/2).
    assert expected_kappa_half_width(100, agreement=0.9, proportion=0.5) == pytest.approx(1.959964 * 0.03 / 0.5)
    assert expected_kappa_half_width(100, agreement=0.9, proportion=1.0) is None
    assert expected_kappa_half_width(1, agreement=0.9, proportion=0.5) is None


KAPPA_ROWS = [
    ([1, 1], [1, 1], "same rating", "one value"),
    ([1, None], [None, 1], "nothing was rated by two", "no common thing"),
    ([], [], "nothing was rated by two", "nothing"),
]


@pytest.mark.parametrize(("a", "b", "why"), [row[:3] for row in KAPPA_ROWS], ids=[row[3] for row in KAPPA_ROWS])
def test_where_kappa_is_undefined(a: list[Any], b: list[Any], why: str) -> None:
    assert math.isnan(cohen_kappa(a, b))
    assert why in (kappa_report(a, b).why_undefined or "")


def test_copies_of_an_item_in_one_cluster_add_no_information() -> None:
    a, b = [1, 1, 0, 0, 1, None], [1, 0, 0, 1, 1, 1]
    copies, clusters = [one for one in a for _ in range(3)], [n for n in range(len(a)) for _ in range(3)]
    others = [one for one in b for _ in range(3)]
    for report in (kappa_report, pearson_report):
        plain, clustered = report(a, b, draws=200), report(copies, others, clusters=clusters, draws=200)
        assert clustered.value == pytest.approx(plain.value)
        assert plain.interval is not None
        assert clustered.interval is not None
        assert (clustered.interval.low, clustered.interval.high) == pytest.approx(
            (plain.interval.low, plain.interval.high)
        )
        assert clustered.units == 5, "the item without a label is left out with its cluster"
    proportion = agreement_report(copies, others, clusters=clusters)
    assert (proportion.value, proportion.units) == (3 / 5, 5)
    assert proportion.interval is not None
    assert proportion.interval.method != "wilson"
    with pytest.raises(ValueError, match="clusters"):
        kappa_report(a, b, clusters=[1])


def test_items_with_one_label_are_left_out() -> None:
    assert agreement([1, 0, None, 1], [1.0, True, 1, math.nan]) == 1 / 2
    assert math.isnan(agreement([None], [1]))
    assert agreement_report([None], [1]).value is None


def test_weights_need_an_order() -> None:
    with pytest.raises(TypeError, match="'right' has none"):
        cohen_kappa(["right", "wrong"], ["right", "right"], "linear")
    with pytest.raises(ValueError, match="choose 'linear'"):
        cohen_kappa([1, 2], [1, 2], "cubic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="labels of the first"):
        cohen_kappa([1], [1, 2])


def test_intervals_are_those_of_the_seed() -> None:
    one, two = alpha_report(FOUR_OBSERVERS, seed=1, draws=200), alpha_report(FOUR_OBSERVERS, seed=1, draws=200)
    assert one == two
    assert alpha_report(FOUR_OBSERVERS, seed=2, draws=200).interval != one.interval


@pytest.mark.slow
def test_the_interval_covers() -> None:
    """Two raters who are each right nine times in ten: alpha of the population is known."""
    rng = np.random.default_rng(3)
    p, noise = 0.5, 0.1
    same = (1 - noise) ** 2 + noise**2
    share = p * (1 - noise) + (1 - p) * noise
    truth = 1 - (1 - same) / (2 * share * (1 - share))
    covered = 0
    for _ in range(200):
        right = rng.random(60) < p
        table = np.where(rng.random((2, 60)) < noise, ~right, right).astype(float)
        interval = alpha_report(table, draws=200).interval
        assert interval is not None
        covered += interval.low <= truth <= interval.high
    assert 0.88 <= covered / 200 <= 0.99
