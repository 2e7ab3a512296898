"""Skewed differences: no verdict without bounds that allow for skew; sentence, table, gates and JSON say so."""

import json

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.compare.analysis import compute_comparisons
from auepora_eval.compare.pairing import MetricMeta, MetricPair
from auepora_eval.compare.rendering import comparison_summary, metrics_table
from auepora_eval.compare.runs import Leaderboard, compare_runs
from auepora_eval.compare.types import CompareReport, ComparisonInput, MetricComparison
from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Scores
from auepora_eval.gates import check_gates
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import samples, scored

Floats = npt.NDArray[np.float64]

FEW_GAIN = np.repeat([0.4, -0.045], [2, 48])
"""Two of fifty questions gain .40, the others lose .045. If one of ten gained, the mean would be 0."""

MANY_LOSE = np.repeat([1.0, -0.25, 0.0], [3, 60, 137])
"""Skewed, and worse nevertheless."""


def compared(*columns: Floats, margin: float | None = None, binary: bool = False) -> list[MetricComparison]:
    """The comparison of scores between 0 and 1 that differ by these columns, each a primary metric."""

    def question(name: str, column: Floats) -> ComparisonInput:
        base = np.where(column < 0, -column, 0.0)
        meta = MetricMeta(Mean(), (0.0, 1.0), binary=binary)
        pair = MetricPair(name, meta, Scores.of(base), Scores.of(base + column))
        return ComparisonInput(name, meta, lambda: pair, "", margin=margin)

    return compute_comparisons([question(str(place), column) for place, column in enumerate(columns)], None)


@pytest.fixture
def report(store: RunStore) -> CompareReport:
    """The comparison of two runs on fifty questions."""
    data = samples(50)
    first = scored(store, "first", data, {"token_f1": np.full(50, 0.5)})
    second = scored(store, "second", data, {"token_f1": 0.5 + FEW_GAIN})
    return compare_runs(first.run_id, second.run_id, store=store)


def test_few_large_gains_among_small_losses_are_no_verdict(report: CompareReport) -> None:
    (found,) = report.metrics
    assert (found.verdict, found.doubt, found.flags) == ("inconclusive", "skewed", ("skewed",))
    assert found.p_adjusted is not None
    assert found.p_adjusted < 0.05
    assert found.interval is not None
    assert found.interval[1] < 0, "by test and interval it would be worse"
    assert "'worse' is not certain: the differences are skewed" in str(found.note)


def test_sentence_table_and_json_name_it(report: CompareReport) -> None:
    board = Leaderboard.of_pair(report)
    assert comparison_summary(board).sentence.endswith("p 0.0166; skewed differences, so not certain).")
    cells = str(metrics_table(board))
    assert "the differences are skewed" in cells
    assert "−0.0522 to −0.0022 ?" in cells
    entry = json.loads(report.to_json())["deltas"]["metrics"]["token_f1"]
    assert (entry["doubt"], entry["flags"]) == ("skewed", ["skewed"])
    low, high = entry["interval_under_skew"]
    assert low < 0 < high


GATES = [  # gate, few gain or few lose, outcome, why
    ("not worse(token_f1)", 1, "inconclusive", "it may be worse"),
    ("better(token_f1)", 1, "inconclusive", "nothing is certain"),
    ("not worse(token_f1, by=0.06)", 1, "passed", "the t interval ends at -.0522, and rare gains are no risk"),
    ("not worse(token_f1, by=0.05)", 1, "inconclusive", "the same"),
    ("low(delta(token_f1)) > -0.06", 1, "passed", "the same"),
    ("high(delta(token_f1)) < 0", 1, "failed", "the upper end that holds is above 0"),
    ("better(token_f1)", -1, "inconclusive", "nothing is certain"),
    ("delta(token_f1) > 0", -1, "inconclusive", "the t interval begins at .0022"),
    ("not worse(token_f1, by=0.02)", -1, "inconclusive", "rare losses may be more than the sample has"),
    ("not worse(token_f1, by=0.1)", -1, "passed", "not that much more"),
]


@pytest.mark.parametrize(
    ("gate", "sign", "status"), [row[:3] for row in GATES], ids=[f"{row[0]}: {row[3]}" for row in GATES]
)
def test_gates(store: RunStore, gate: str, sign: int, status: str) -> None:
    data = samples(50)
    first = scored(store, "first", data, {"token_f1": np.full(50, 0.5)})
    second = scored(store, "second", data, {"token_f1": 0.5 + sign * FEW_GAIN})
    comparison = {one.name: one for one in compare_runs(first.run_id, second.run_id, store=store).metrics}
    (outcome,) = check_gates([gate], [], comparison=comparison).outcomes
    assert outcome.status == status
    assert "skew" in outcome.reason or status == "failed" or gate.startswith("low")


def test_a_skewed_gain_does_not_fail_not_worse(store: RunStore) -> None:
    data = samples(50)
    first = scored(store, "first", data, {"token_f1": np.full(50, 0.5)})
    second = scored(store, "second", data, {"token_f1": 0.5 - FEW_GAIN})
    comparison = {one.name: one for one in compare_runs(first.run_id, second.run_id, store=store).metrics}
    statuses = [
        one.status for one in check_gates(["not worse(token_f1)", "better(token_f1)"], [], comparison=comparison)
    ]
    assert comparison["token_f1"].doubt == "skewed"
    assert statuses == ["passed", "inconclusive"]


def test_seven_gains_and_no_loss_of_a_hundred_stay_better() -> None:
    for binary in (True, False):
        (found,) = compared(np.repeat([1.0, 0.0], [7, 93]), binary=binary)
        assert (found.verdict, found.interval_under_skew) == ("better", None)


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    shuffled = [compared(rng.permutation(MANY_LOSE))[0] for _ in range(5)]
    assert {one.verdict for one in shuffled} == {"worse"}
    assert len({one.interval_under_skew for one in shuffled}) == 1


def test_several_primary_metrics_need_more_wealth() -> None:
    """The wealth of the bets must reach 40 for one metric, and 200 for five."""
    alone = compared(MANY_LOSE)[0]
    rng = np.random.default_rng(0)
    five = compared(MANY_LOSE, *(rng.normal(0, 0.2, 200).clip(-1, 1) for _ in range(4)))[0]
    assert "skewed" in alone.flags
    assert alone.verdict == "worse"
    assert five.doubt == "skewed"


def test_equal_needs_bounds_within_the_margin() -> None:
    """Rare losses of .6 may be more than the sample has: 't' is within the margin of .05, bets are not."""
    (found,) = compared(np.repeat([-0.6, 0.0], [2, 98]), margin=0.05)
    assert (found.verdict, found.doubt) == ("inconclusive", "skewed")
    assert str(found.note).startswith("'equal' is not certain")
    assert compared(np.repeat([-0.1, 0.1, 0.0], [15, 15, 70]), margin=0.05)[0].verdict == "equal"
