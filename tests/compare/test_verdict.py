"""The verdict by table: what it takes to be better, worse, equal or open."""

import math

import pytest

from auepora_eval.compare.types import Verdict
from auepora_eval.compare.verdicts import require_margin, verdict_of
from auepora_eval.errors import BadValueError, UnknownMetricError

ROWS: list[tuple[float | None, float | None, bool | None, tuple[float, float] | None, float | None, Verdict, str]] = [
    (0.1, 0.01, True, (0.05, 0.15), None, "better", "more of what is good"),
    (-0.1, 0.01, True, (-0.15, -0.05), None, "worse", "less of what is good"),
    (0.1, 0.01, False, (0.05, 0.15), None, "worse", "more of what is bad"),
    (-0.1, 0.01, False, (-0.15, -0.05), None, "better", "less of what is bad"),
    (0.1, 0.05, True, (0.0, 0.2), None, "inconclusive", "p must lie below .05, not at it"),
    (0.01, 0.6, True, (-0.01, 0.03), None, "inconclusive", "without a margin nothing is equal"),
    (0.01, 0.6, True, (-0.01, 0.03), 0.05, "equal", "the 90 % interval lies within the margin"),
    (0.01, 0.6, True, (-0.05, 0.05), 0.05, "equal", "its ends may lie on the margin"),
    (0.01, 0.6, True, (-0.01, 0.06), 0.05, "inconclusive", "one end lies outside"),
    (0.01, 0.001, True, (0.005, 0.015), 0.05, "better", "sure and small is still better"),
    (0.1, 0.01, True, (0.0, 0.2), None, "inconclusive", "the adjusted interval must leave out 0"),
    (-0.1, 0.01, True, (-0.2, 0.01), None, "inconclusive", "on the other side, too"),
    (0.1, 0.01, True, None, None, "inconclusive", "without an interval there is no verdict"),
    (0.01, None, True, (0.005, 0.015), 0.05, "equal", "an exploratory metric may be equal"),
    (0.1, None, True, (0.05, 0.15), None, "inconclusive", "an exploratory metric has no adjusted p"),
    (None, 0.01, True, None, 0.05, "inconclusive", "no difference, no verdict"),
    (0.0, 0.01, True, None, None, "inconclusive", "no direction"),
    (0.01, 0.6, True, None, 0.05, "inconclusive", "no interval"),
    (0.1, 0.01, None, (0.05, 0.15), None, "inconclusive", "classes have no order"),
    (0.01, 0.01, None, (0.005, 0.015), 0.05, "inconclusive", "it differs for sure, which is not equal"),
    (0.01, 0.6, None, (-0.01, 0.03), 0.05, "equal", "proportions of a class can be equal"),
]


@pytest.mark.parametrize(("delta", "p", "higher", "ends", "margin", "want", "why"), ROWS, ids=[r[-1] for r in ROWS])
def test_verdict(
    delta: float | None,
    p: float | None,
    higher: bool | None,
    ends: tuple[float, float] | None,
    margin: float | None,
    want: Verdict,
    why: str,
) -> None:
    found = verdict_of(
        delta, p_adjusted=p, higher_is_better=higher, interval_adjusted=ends, interval_90=ends, margin=margin
    )
    assert found == want, why


def test_identical_values_are_equal() -> None:
    assert verdict_of(0.0, p_adjusted=1.0, higher_is_better=True, identical=True) == "equal"
    assert verdict_of(0.0, p_adjusted=1.0, higher_is_better=True) == "inconclusive"


@pytest.mark.parametrize("margin", [0, -0.1, math.inf, math.nan, True, "0.1", {"recall@5": 0}])
def test_a_margin_is_a_positive_number(margin: object) -> None:
    with pytest.raises(BadValueError, match="a number above 0"):
        require_margin(margin, ["recall@5"])  # type: ignore[arg-type]


def test_margin_of_unknown_metric_suggests_the_nearest() -> None:
    with pytest.raises(UnknownMetricError, match="recall@5"):
        require_margin({"recal@5": 0.1}, ["recall@5"])
