"""What holds for every metric of any two runs: turned round, a comparison says the same."""

import math
from pathlib import Path

import pytest

from auepora_eval.compare.runs import MetricComparisons, compare_metrics
from auepora_eval.compare.types import MetricComparison
from auepora_eval.examples import quickstart
from auepora_eval.examples.quickstart.systems import baseline, bm25
from auepora_eval.io.join import load_dataset
from auepora_eval.runs.run import run_system
from auepora_eval.store.runs import RunStore
from helpers.requirements import need

pytestmark = pytest.mark.slow  # all metrics of two systems on all questions, compared twice

OTHER = {"better": "worse", "worse": "better", "equal": "equal", "inconclusive": "inconclusive"}


@pytest.fixture(scope="module")
def both_directions(tmp_path_factory: pytest.TempPathFactory) -> tuple[MetricComparisons, MetricComparisons]:
    """The two bundled systems on everything their data supports, held against each other from either side."""
    need("bm25s")
    data = load_dataset(Path(str(quickstart.__file__)).parent / "questions.jsonl")
    with RunStore.open(tmp_path_factory.mktemp("laws") / "runs.sqlite") as store:
        a, b = (run_system(one(), data, store=store, name=one.__name__).record for one in (baseline, bm25))
        return compare_metrics(store, a, b, delta=0.05), compare_metrics(store, b, a, delta=0.05)


def test_swapped_runs_mirror_the_comparison(both_directions: tuple[MetricComparisons, MetricComparisons]) -> None:
    there, back = both_directions
    assert len(there.metrics) > 40
    assert set(there.refused) == set(back.refused)
    for one in there.metrics:
        other = back.by_name[one.name]
        assert (one.a, one.b, one.p_value) == (other.b, other.a, other.p_value), one.name
        assert (one.wins, one.losses, one.draws) == (other.losses, other.wins, other.draws), one.name
        assert OTHER[one.verdict] == other.verdict, one.name
        assert one.p_adjusted == pytest.approx(other.p_adjusted), one.name
        if one.delta is not None:
            assert other.delta == pytest.approx(-one.delta)
        if one.interval is not None:
            assert other.interval == pytest.approx((-one.interval[1], -one.interval[0])), one.name
            assert other.mde == pytest.approx(one.mde)


def test_numbers_fit_together(both_directions: tuple[MetricComparisons, MetricComparisons]) -> None:
    for one in both_directions[0].metrics:
        check(one)


def check(one: MetricComparison) -> None:
    assert 0 <= one.wins + one.losses + one.draws <= one.n, one.name
    assert one.clusters <= one.n
    if one.delta is not None:
        assert one.a is not None
        assert one.b is not None
        assert one.delta == pytest.approx(one.b - one.a)
    if one.interval is not None and one.delta is not None and "unstable" not in one.flags:
        assert one.interval[0] <= one.delta <= one.interval[1], one.name
    if one.p_value is not None:
        assert 0 < one.p_value <= 1
        assert one.p_adjusted is not None
        assert one.p_adjusted >= one.p_value - 1e-12, one.name
    if one.verdict in ("better", "worse"):
        assert one.p_adjusted is not None
        assert one.p_adjusted < 0.05
    for value in (one.effect_size, one.mde):
        assert value is None or math.isfinite(value)
    assert (one.n_needed is None) or (one.verdict == "inconclusive" and one.n_needed > 1)
