"""The verdict on several metrics: how often it is wrong by chance, and what the adjusted interval has to do with it."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.compare.analysis import compute_comparisons
from auepora_eval.compare.pairing import MetricMeta, MetricPair
from auepora_eval.compare.rendering import comparison_page, comparison_summary, render_report_md
from auepora_eval.compare.runs import Leaderboard, compare_metrics, compare_runs
from auepora_eval.compare.types import CompareReport, ComparisonInput, MetricComparison, Verdict
from auepora_eval.core.reduce import Mean
from auepora_eval.core.scores import Scores
from auepora_eval.report.comparison_sections import compare_stored_runs, comparison_verdict
from auepora_eval.report.run_sections import StoredRun
from auepora_eval.stats.permutation import joint_level, sign_flips
from auepora_eval.store.runs import RunStore
from helpers.requirements import examples
from helpers.stored_runs import samples, scored

Floats = npt.NDArray[np.float64]
Generator = np.random.Generator

DRAWS = examples(600)


def compared(differences: Floats) -> list[MetricComparison]:
    """The comparison of runs whose scores differ by this: a column per metric."""

    def question(name: str, column: Floats) -> ComparisonInput:
        pair = MetricPair(name, MetricMeta(Mean(), (-1.0, 1.0)), Scores.of(np.zeros(len(column))), Scores.of(column))
        return ComparisonInput(name, pair.definition, lambda: pair, "")

    return compute_comparisons([question(str(at), column) for at, column in enumerate(differences.T)], None)


def wrong(draw: Callable[[Generator], Floats], verdicts: tuple[str, ...] = ("better", "worse")) -> float:
    """How often any metric has one of these verdicts."""
    rng = np.random.default_rng(0)
    return float(np.mean([any(one.verdict in verdicts for one in compared(draw(rng))) for _ in range(DRAWS)]))


def gains(rng: Generator, n: int) -> Floats:
    """One sample in ten gains .36, the others lose .04: no difference on average."""
    return np.where(rng.random((n, 1)) < 0.1, 0.36, -0.04)


def test_few_skewed_differences_have_no_false_verdict() -> None:
    """One in ten gains much: the p-value alone is wrong in 15 % of cases at n = 30."""
    assert wrong(lambda rng: gains(rng, 30)) <= 0.02


MARGIN = 0.0 if DRAWS == 600 else 0.03  # for the few draws of the fast set


@pytest.mark.slow
@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize(
    ("draw", "most"),
    [
        (lambda rng, n: rng.choice([-1.0, 0.0, 1.0], (n, 1), p=[0.15, 0.7, 0.15]), 0.06),
        (lambda rng, n: rng.random((n, 1)) - rng.random((n, 1)), 0.06),
        (lambda rng, n: rng.normal(0, 0.1, (n, 1)) + rng.normal(0, 0.1, (n, 5)), 0.065),
    ],
    ids=["right or wrong", "uniform", "any of five metrics"],
)
def test_symmetric_differences(draw: Callable[[Generator, int], Floats], most: float, n: int) -> None:
    assert wrong(lambda rng: draw(rng, n)) <= most + MARGIN


@pytest.mark.slow
def test_the_wrong_direction() -> None:
    assert wrong(lambda rng: rng.normal(0.011, 0.1, (30, 1)), ("worse",)) <= 0.015


@pytest.mark.slow
def test_a_true_difference_is_still_found() -> None:
    """.059 with a standard deviation of .4: the p-value alone finds it in about 85 % of cases at n = 500."""
    assert wrong(lambda rng: rng.normal(0.059, 0.44, (500, 1)).clip(-1, 1), ("better",)) >= 0.75


class TestLevels:
    def test_one_metric_keeps_its_level(self) -> None:
        flips = sign_flips(np.random.default_rng(0).normal(size=(40, 1)))
        assert joint_level(flips, [0]) == 0.95

    def test_metrics_that_move_together_cost_less_than_bonferroni(self) -> None:
        rng = np.random.default_rng(0)
        both = rng.normal(size=(60, 1))
        alike = sign_flips(both + 0.1 * rng.normal(size=(60, 4)))
        apart = sign_flips(rng.normal(size=(60, 4)))
        assert 0.95 < joint_level(alike, range(4)) < joint_level(apart, range(4)) <= 1 - 0.05 / 4

    def test_few_flips_give_bonferronis(self) -> None:
        flips = sign_flips(np.random.default_rng(0).normal(size=(5, 3)))
        assert 0.95 <= joint_level(flips, range(3)) <= 1 - 0.05 / 3


class TestIntervals:
    def test_the_adjusted_interval_is_wider_and_the_other_stays(self, store: RunStore) -> None:
        rng, data = np.random.default_rng(1), samples(60)
        names = ["token_f1", "exact_match", "rougeL_answer"]
        a = scored(store, "a", data, {name: rng.random(60) for name in names})
        b = scored(store, "b", data, {name: rng.random(60) for name in names})
        alone = compare_metrics(store, a, b, primary=["token_f1"]).by_name["token_f1"]
        among = compare_metrics(store, a, b, primary=names).by_name["token_f1"]
        assert alone.interval == alone.interval_adjusted == alone.shown_interval == among.interval
        assert among.interval_adjusted is not None
        assert alone.interval is not None
        assert among.interval_adjusted[0] < alone.interval[0] < alone.interval[1] < among.interval_adjusted[1]
        assert among.shown_interval == among.interval_adjusted
        other = compare_metrics(store, a, b, primary=["token_f1"]).by_name["exact_match"]
        assert (other.interval_adjusted, other.shown_interval) == (None, other.interval)
        assert json.loads(json.dumps(among.to_dict()))["interval_adjusted"] == list(among.interval_adjusted)

    @pytest.mark.parametrize("adjust", ["max-t", "holm"])
    def test_a_verdict_has_an_interval_without_zero(self, store: RunStore, adjust: str) -> None:
        for seed in range(examples(50)):
            rng, data = np.random.default_rng(seed), samples(20)
            names = ["token_f1", "rougeL_answer", "mean_latency[x]"]
            shift = rng.random(3) * 0.3
            first = {name: rng.random(20) * 0.5 for name in names}
            second = {
                name: first[name] + rng.normal(move, 0.3, 20).clip(0, 0.5)
                for name, move in zip(names, shift, strict=True)
            }
            a, b = scored(store, f"a{seed}", data, first), scored(store, f"b{seed}", data, second)
            for one in compare_metrics(store, a, b, adjust=adjust).metrics:
                assert one.p_adjusted is not None
                assert one.interval_adjusted is not None
                low, high = one.interval_adjusted
                sure = one.p_adjusted < 0.05 and (low > 0 or high < 0)
                assert (one.verdict in ("better", "worse")) == (sure and one.doubt != "skewed")


def test_identical_values_are_equal(store: RunStore) -> None:
    data, values = samples(12), np.linspace(0, 1, 12)
    a, b = (scored(store, name, data, {"token_f1": values, "mean_latency[x]": values}) for name in "ab")
    assert {one.verdict for one in compare_metrics(store, a, b).metrics} == {"equal"}


class TestSentence:
    @pytest.fixture
    def report(self, store: RunStore) -> CompareReport:
        """Two runs: B is worse on the primary metric and better on two others."""
        rng, data = np.random.default_rng(3), samples(60)
        base = rng.random(60) * 0.5
        metrics = {"recall@5": 0.4, "token_f1": -0.2, "rougeL_answer": 0.4}
        a = scored(store, "first", data, dict.fromkeys(metrics, base + 0.3), plan={"primary": ["token_f1"]})
        noise = rng.normal(0, 0.05, 60)
        moved = {name: base + 0.3 + move + noise for name, move in metrics.items()}
        b = scored(store, "second", data, moved, plan={"primary": ["token_f1"]})
        return compare_runs(a.run_id, b.run_id, store=store)

    def test_summary_covers_the_primary_metrics(self, report: CompareReport) -> None:
        found = comparison_summary(Leaderboard.of_pair(report, ("first", "second")))
        assert found.outcome == "worse"
        assert found.sentence.startswith(
            "Of 1 primary metric, B (second) against A (first) is worse on 1; token_f1 falls from "
        )

    def test_tables_begin_with_it(self, report: CompareReport) -> None:
        sentence = comparison_summary(Leaderboard.of_pair(report, ("first", "second"))).sentence
        assert comparison_page(Leaderboard.of_pair(report, ("first", "second"))).verdict.sentence == sentence
        page = render_report_md(report, names=("first", "second"))
        assert page.splitlines()[2].startswith("**Of 1 primary metric, B")

    def test_the_page_has_the_same_in_the_colour_of_the_primary_metrics(
        self, report: CompareReport, store: RunStore
    ) -> None:
        runs = [StoredRun(store, store.find(name), letter) for name, letter in (("first", "A"), ("second", "B"))]
        verdict = comparison_verdict(compare_stored_runs(runs))
        assert (verdict.sentence, verdict.tone) == (
            comparison_summary(Leaderboard.of_pair(report, ("first", "second"))).sentence,
            "bad",
        )

    def test_better_and_worse_is_open(self, report: CompareReport) -> None:
        both = replace(report, metrics=[replace(one, primary=True) for one in report.metrics])
        verdicts = [replace(one, verdict=verdict) for one, verdict in zip(both.metrics, VERDICTS, strict=False)]
        found = comparison_summary(Leaderboard.of_pair(replace(both, metrics=verdicts)))
        assert found.outcome == "open"
        assert found.sentence.startswith("Of 3 metrics, B against A is better on 1, worse on 1, equal on 1; ")


VERDICTS: tuple[Verdict, ...] = ("better", "worse", "equal")
