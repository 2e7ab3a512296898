"""Two runs on all metrics, through a real store: what is paired, how it is tested, what it comes to."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from auepora_eval import Response, SystemOutputs, evaluate, metric
from auepora_eval.compare.runs import compare_metrics
from auepora_eval.compare.types import MetricComparison
from auepora_eval.core.metric_hooks import score_rounding
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.scores import Scores
from auepora_eval.core.types import EvaluationSample
from auepora_eval.runs.run import run_system
from auepora_eval.stats.difference import newcombe_interval
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.requirements import need
from helpers.stored_runs import answering, run, samples, scored

WORDS = [f"word{n}" for n in range(10)]


def right(k: int) -> str:
    """An answer with so many of the reference's ten words, and as many others as are missing: its F1 is k / 10."""
    return " ".join(WORDS[:k] + [f"other{n}" for n in range(10 - k)])


def only(store: RunStore, a: RunRecord, b: RunRecord, name: str = "token_f1", **options: object) -> MetricComparison:
    return compare_metrics(store, a, b, **options).by_name[name]


class TestFailures:
    def test_crashing_on_the_hardest_fifth_does_not_help(self, store: RunStore) -> None:
        data = samples(200, reference=" ".join(WORDS))

        def steady(n: int) -> str:
            return right(2 if n % 5 == 0 else 8)

        def crashing(n: int) -> str | Exception:
            return ValueError("too hard") if n % 5 == 0 else steady(n)

        a = run(store, "steady", data, steady, ["token_f1"])
        b = run(store, "crashing", data, crashing, ["token_f1"])
        # Who looks at completed samples alone sees .80 after .68 and takes it for progress.
        assert store.result(a.run_id, "token_f1").value == pytest.approx(0.68)
        assert store.result(b.run_id, "token_f1").details["value_completed"] == pytest.approx(0.8)
        found = only(store, a, b)
        assert (found.a, found.b) == pytest.approx((0.68, 0.64))
        assert found.delta == pytest.approx(-0.04)
        assert found.delta_completed == 0
        assert (found.wins, found.losses, found.draws) == (0, 40, 160)
        assert found.verdict == "worse"
        assert found.p_adjusted is not None
        assert found.p_adjusted < 0.001
        assert only(store, b, a).verdict == "better"

    @pytest.mark.slow
    def test_failing_where_precision_is_low_does_not_help(self, store: RunStore) -> None:
        # Of answers that are longer than their references, BLEU forgives the loss: they lower its precision.
        data = samples(60, reference="it is so")

        def wordy(n: int) -> str:
            return "it is so in many words" if n % 5 else "nothing of the kind in a great many words"

        def crashing(n: int) -> str | Exception:
            return wordy(n) if n % 5 else ValueError("too hard")

        a, b = (run(store, one.__name__, data, one, ["bleu", "chrf"]) for one in (wordy, crashing))
        found = only(store, a, b, "bleu")
        assert found.delta is not None
        assert found.delta > 0
        assert found.p_adjusted is not None
        assert found.p_adjusted < 0.05
        assert (found.delta_completed, found.verdict) == (0.0, "inconclusive")
        assert "'better' only because failed answers change it" in str(found.note)
        assert only(store, b, a, "bleu").verdict == "inconclusive"

    def test_crash_is_a_loss_for_metrics_that_are_not_means(self, store: RunStore) -> None:
        data = samples(60, reference="the cat sat on the mat and looked at the dog")
        answer_text = "the cat sat on the mat and looked at a dog"
        a = run(store, "a", data, lambda n: answer_text, ["bleu"])
        b = run(store, "b", data, lambda n: answer_text if n % 3 else ValueError("no"), ["bleu"])
        assert only(store, a, b, "bleu").verdict == "worse"
        assert only(store, b, a, "bleu").verdict == "better"

    def test_failure_without_a_worst_value_excludes_the_sample(self, store: RunStore) -> None:
        data = samples(40)

        def timed(seconds: float) -> SystemOutputs:
            return SystemOutputs([], Response("yes"), timings={"own": seconds})

        a = run(store, "a", data, lambda n: timed(9.0 if n < 10 else 1.0), ["mean_latency[own]"])
        b = run(store, "b", data, lambda n: ValueError("slow") if n < 10 else timed(1.0), ["mean_latency[own]"])
        found = only(store, a, b, "mean_latency[own]")
        assert (found.a, found.b, found.delta, found.n) == (1.0, 1.0, 0.0, 30)

    def test_failed_measurements_that_could_change_the_verdict(self, store: RunStore) -> None:
        data = samples(40)
        lost = np.arange(40) < 10
        first = np.full(40, 0.5)
        second = np.where(np.arange(40) % 2, 0.7, 0.6)
        a = scored(store, "a", data, {"token_f1": first})
        b = scored(store, "b", data, {"token_f1": Scores.of(second, fail={"judge": lost})})
        found = only(store, a, b)
        assert (found.n, found.delta) == pytest.approx((30, 0.15))
        # Ten samples at 0 or 1 instead, the other run being at .5.
        assert found.bounds == pytest.approx(((30 * 0.15 - 10 * 0.5) / 40, (30 * 0.15 + 10 * 0.5) / 40))
        assert found.p_adjusted is not None
        assert found.p_adjusted < 0.001
        assert found.verdict == "inconclusive"
        assert "10 failed measurements could change the verdict from 'better'" in str(found.note)

    def test_few_failed_measurements_keep_the_verdict(self, store: RunStore) -> None:
        data = samples(100)
        second = np.where(np.arange(100) % 2, 0.7, 0.6)
        a = scored(store, "a", data, {"token_f1": np.full(100, 0.5)})
        b = scored(store, "b", data, {"token_f1": Scores.of(second, fail={"judge": np.arange(100) == 0})})
        found = only(store, a, b)
        assert found.bounds is not None
        assert found.bounds[0] < 0.15 < found.bounds[1]
        assert found.verdict == "better"

    def test_a_failed_measurement_without_bounds_is_flagged(self, store: RunStore) -> None:
        data = samples(30)
        one = "mean_latency[end_to_end]"
        a = scored(store, "a", data, {one: np.linspace(1, 2, 30)})
        b = scored(store, "b", data, {one: Scores.of(np.linspace(1, 2, 30), fail={"bad": np.arange(30) == 3})})
        found = only(store, a, b, one)
        assert found.bounds is None
        assert "unbounded" in found.flags
        assert (found.n, found.delta) == (29, 0.0)


class TestNumbers:
    @pytest.mark.slow
    def test_a_mean_against_scipy(self, store: RunStore) -> None:
        stats = need("scipy.stats")
        rng = np.random.default_rng(5)
        first = rng.beta(2, 2, 120)
        second = np.clip(first + rng.normal(0.03, 0.15, 120), 0, 1)
        data = samples(120)
        found = only(
            store, scored(store, "a", data, {"token_f1": first}), scored(store, "b", data, {"token_f1": second})
        )
        test = stats.ttest_rel(second, first)
        ends = test.confidence_interval(0.95)
        assert found.delta == pytest.approx(float(np.mean(second - first)))
        assert found.interval == pytest.approx((ends.low, ends.high))
        assert found.p_value == pytest.approx(test.pvalue, abs=0.01)
        assert found.effect_size == pytest.approx(np.mean(second - first) / np.std(second - first, ddof=1))
        # What so many samples detect with a power of .8, by the noncentral t distribution.
        assert found.mde is not None
        shift = found.mde / np.std(second - first, ddof=1) * math.sqrt(120)
        power = 1 - stats.nct.cdf(stats.t.ppf(0.975, 119), 119, shift)
        assert power == pytest.approx(0.8, abs=0.005)

    def test_newcombe_interval_for_proportions_without_clusters(self, store: RunStore) -> None:
        first = np.repeat([1.0, 1.0, 0.0, 0.0], [30, 5, 15, 10])
        second = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 5, 15, 10])
        single, grouped = samples(60), samples(60, clusters=lambda n: str(n % 20))
        for data, name in ((single, "single"), (grouped, "grouped")):
            a = scored(store, f"{name} a", data, {"exact_match": first})
            b = scored(store, f"{name} b", data, {"exact_match": second})
            found = only(store, a, b, "exact_match")
            want = newcombe_interval(30, 5, 15, 10)
            if name == "single":
                assert found.interval == (want.low, want.high)
                # McNemar's exact test: 20 samples differ, 5 of them one way.
                exact = 2 * sum(math.comb(20, k) for k in range(6)) / 2**20
                assert found.p_value == pytest.approx(exact, abs=0.01)
                assert found.clusters == 60
            else:
                assert found.interval != (want.low, want.high)
                assert found.clusters == 20

    def test_few_clusters_are_tested_exactly(self, store: RunStore) -> None:
        data = samples(24, clusters=lambda n: str(n // 4))
        first = np.full(24, 0.5)
        second = first + np.repeat([0.1, 0.2, 0.1, 0.3, 0.1, 0.2], 4)
        found = only(
            store, scored(store, "a", data, {"token_f1": first}), scored(store, "b", data, {"token_f1": second})
        )
        assert found.p_value == 2 / 2**6
        assert (found.n, found.clusters) == (24, 6)
        assert "few" in found.flags

    def test_metric_where_lower_is_better(self, store: RunStore) -> None:
        names = ["mean_latency[end_to_end]", "quantile_latency[end_to_end,0.5]"]
        data = samples(60)
        rng = np.random.default_rng(0)
        quick = rng.random(60)
        a = scored(store, "a", data, dict.fromkeys(names, quick))
        b = scored(store, "b", data, dict.fromkeys(names, quick + rng.uniform(0.5, 1.5, 60)))
        compared = compare_metrics(store, a, b).by_name
        for name in names:
            found = compared[name]
            assert found.delta == pytest.approx(1, abs=0.2)
            assert (found.wins, found.losses, found.verdict) == (0, 60, "worse")
        c = scored(store, "c", data, {names[0]: quick + 1})
        assert only(store, c, a, names[0]).verdict == "better"
        quantile = found
        assert quantile.interval is not None
        assert quantile.interval[0] < 1 < quantile.interval[1]

    def test_throughput_where_higher_is_better(self, store: RunStore) -> None:
        data = samples(30)

        def timed(seconds: float) -> SystemOutputs:
            return SystemOutputs([], Response("yes"), timings={"end_to_end": seconds})

        a = run(store, "a", data, lambda n: timed(2.0 + n % 3), ["throughput"])
        b = run(store, "b", data, lambda n: timed(1.0 + n % 3), ["throughput"])
        found = only(store, a, b, "throughput")
        assert (found.a, found.b) == pytest.approx((1 / 3, 1 / 2))
        assert (found.wins, found.losses, found.verdict) == (30, 0, "better")

    def test_bleu_by_its_counts(self, store: RunStore) -> None:
        sacrebleu = need("sacrebleu")
        n = 6
        reference = "the cat sat on the mat and looked at the dog"
        answers = [
            [f"the cat sat on {'the mat' if i % 3 else 'a chair'} and slept" for i in range(n)],
            [f"the cat sat on the mat and {'looked at the dog' if i % 2 else 'ate'}" for i in range(n)],
        ]
        data = samples(n, reference=reference)
        a = run(store, "a", data, lambda i: answers[0][i], ["bleu"])
        b = run(store, "b", data, lambda i: answers[1][i], ["bleu"])
        found = only(store, a, b, "bleu")
        whole = [sacrebleu.corpus_bleu(texts, [[reference] * n]).score for texts in answers]
        assert (found.a, found.b) == pytest.approx(tuple(whole))
        assert found.delta == pytest.approx(whole[1] - whole[0])
        assert found.interval is not None
        assert found.interval[0] < whole[1] - whole[0] < found.interval[1]
        assert "few" in found.flags
        # Every way to swap the two answers to some of the questions.
        seen = abs(whole[1] - whole[0])
        reached = 0
        for way in product([False, True], repeat=n):
            one = [answers[swap][i] for i, swap in enumerate(way)]
            other = [answers[not swap][i] for i, swap in enumerate(way)]
            values = [sacrebleu.corpus_bleu(texts, [[reference] * n]).score for texts in (one, other)]
            reached += abs(values[1] - values[0]) >= seen - 1e-9
        assert found.p_value == reached / 2**n

    def test_a_ratio_of_noisy_to_clean(self, store: RunStore) -> None:
        data = samples(60, reference=" ".join(WORDS))
        for number, one in enumerate(data):
            if number % 2:
                one.labels = {"variant_of": f"q{number - 1:05}", "scenario": "typo"}
        a = run(store, "a", data, lambda n: right(8 - n % 2 - n % 3), ["noise_robustness"])
        b = run(store, "b", data, lambda n: right(8 - 5 * (n % 2) - n % 3), ["noise_robustness"])
        found = only(store, a, b, "noise_robustness")
        results = [store.result(one.run_id, "noise_robustness") for one in (a, b)]
        assert (found.a, found.b) == pytest.approx((results[0].value, results[1].value))
        assert found.interval is not None
        assert found.interval[1] < 0
        assert found.verdict == "worse"
        assert found.n == 30

    def test_ratio_if_applicable_samples_depend_on_the_answer(self, store: RunStore) -> None:
        # Of what A refuses, 3 of 4 are rightly refused; of what B refuses, half. No sample tells by itself.
        data = samples(80)
        for number, one in enumerate(data):
            one.labels["answerable"] = number >= 40
        refuse = "I don't know."
        a = run(store, "a", data, lambda n: refuse if n < 30 or 40 <= n < 50 else "yes", ["rejection_precision"])
        b = run(store, "b", data, lambda n: refuse if n < 30 or 40 <= n < 70 else "yes", ["rejection_precision"])
        found = only(store, a, b, "rejection_precision")
        assert (found.a, found.b, found.delta) == (0.75, 0.5, -0.25)
        assert found.interval is not None
        assert found.interval[0] < -0.25 < found.interval[1] < 0
        assert found.verdict == "worse"
        assert "scored on 40 samples in A and 60 in B, 40 of them in both" in str(found.note)


class TestSeveralMetrics:
    def test_primary_metrics_share_one_level_and_others_are_exploratory(self, store: RunStore) -> None:
        rng = np.random.default_rng(2)
        data, first = samples(80), rng.random(80)
        second = np.clip(first + rng.normal(0.04, 0.1, 80), 0, 1)
        names = ["token_f1", "containment", "rougeL_answer"]
        plan = {"primary": ["token_f1", "containment"]}
        a = scored(store, "a", data, dict.fromkeys(names, first))
        b = scored(store, "b", data, dict.fromkeys(names, second), plan=plan)
        found = compare_metrics(store, a, b).by_name
        assert [found[name].primary for name in names] == [True, True, False]
        assert found["rougeL_answer"].p_adjusted is None
        assert found["rougeL_answer"].p_value == found["token_f1"].p_value
        assert found["rougeL_answer"].verdict == "inconclusive"
        # Two columns that are one: max-T knows, Holm doubles.
        assert found["token_f1"].p_adjusted == found["token_f1"].p_value
        by_holm = compare_metrics(store, a, b, adjust="holm").by_name["token_f1"]
        assert by_holm.p_value is not None
        assert by_holm.p_adjusted == pytest.approx(2 * by_holm.p_value)
        named = compare_metrics(store, a, b, primary=["rougeL_answer"]).by_name
        assert [named[name].primary for name in names] == [False, False, True]
        assert [one.name for one in compare_metrics(store, a, b, metrics=["containment"]).metrics] == ["containment"]

    def test_margin_gives_equal_negligible_and_samples_needed(self, store: RunStore) -> None:
        rng = np.random.default_rng(3)
        data, first = samples(100), rng.random(100) * 0.5 + 0.2
        noise = rng.permutation(np.repeat([-0.1, 0.1], 50))
        a = scored(store, "a", data, {"token_f1": first, "containment": first, "rouge1_answer": first})
        b = scored(
            store,
            "b",
            data,
            {"token_f1": first + noise, "containment": first + 0.1 * noise + 0.01, "rouge1_answer": first + noise},
        )
        found = compare_metrics(
            store, a, b, delta={"token_f1": 0.05, "containment": 0.02, "rouge1_answer": 0.01}
        ).by_name
        assert found["token_f1"].verdict == "equal"
        assert (found["containment"].verdict, found["containment"].negligible) == ("better", True)
        assert found["rouge1_answer"].verdict == "inconclusive"
        # From the margin and the spread (.1), never from the difference seen: (1.96 + .84)² · .01 / .0001, and a few.
        assert found["rouge1_answer"].n_needed == pytest.approx(790, abs=8)
        assert found["token_f1"].n_needed is None
        bare = compare_metrics(store, a, b).by_name["token_f1"]
        assert (bare.verdict, bare.n_needed) == ("inconclusive", None)
        assert bare.mde == pytest.approx(0.0285, abs=0.0005)

    def test_the_same_comparison_twice_is_the_same(self, store: RunStore) -> None:
        rng = np.random.default_rng(4)
        data = samples(50)
        a, b = (scored(store, name, data, {"token_f1": rng.random(50)}) for name in "ab")
        assert compare_metrics(store, a, b).to_dict() == compare_metrics(store, a, b).to_dict()
        assert compare_metrics(store, a, b).to_dict() != compare_metrics(store, a, b, seed=1).to_dict()


def test_repeats_give_the_spread_within_samples(store: RunStore) -> None:
    data = samples(40, reference=" ".join(WORDS))
    asked: dict[str, int] = {}

    def varying(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        asked[sample.sample_id] = asked.get(sample.sample_id, 0) + 1
        return SystemOutputs([], Response(right(4 if asked[sample.sample_id] % 2 else 6)))

    a = run_system(varying, data, ["token_f1"], store=store, name="a", repeats=4).record
    b = run_system(answering(lambda n: right(5)), data, ["token_f1"], store=store, name="b", repeats=4).record
    found = only(store, a, b)
    # Two answers at .4 and two at .6: a variance of 4 · .01 / 3.
    assert found.own_spread == pytest.approx((math.sqrt(0.04 / 3), 0.0))
    assert "±0.115 in A and ±0 in B" in str(found.note)
    assert found.delta == pytest.approx(0)


@pytest.mark.usefixtures("few_comparison_draws")
class TestWhatIsNoMeanOverRepeats:
    METRICS = (
        "bleu",
        "chrf",
        "rejection_precision",
        {"quantile_latency": {"timing_key": "total", "quantile": 0.9}},
        {"noise_robustness": {"base": "token_f1"}},
    )
    NAMES = ("bleu", "chrf", "rejection_precision", "quantile_latency[total,0.9]", "noise_robustness")

    @staticmethod
    def answer(shift: int) -> Callable[[int], SystemOutputs]:
        def of(number: int) -> SystemOutputs:
            words = WORDS[: 3 + (number * 7 + shift) % 7]
            text = "I do not know." if (number + shift) % 4 == 0 else " ".join(words)
            return SystemOutputs([], Response(text), timings={"total": 1.0 + (number * 13 + 5 * shift) % 17})

        return of

    @staticmethod
    def data() -> list[EvaluationSample]:
        rows = samples(40, reference=" ".join(WORDS))
        for place, one in enumerate(rows):
            one.labels = {"answerable": place % 3 > 0}
            if place >= 30:
                one.labels |= {"scenario": "typo", "variant_of": rows[place - 30].sample_id}
        return rows

    @pytest.mark.slow
    def test_identical_repeats_change_nothing(self, store: RunStore) -> None:
        data = self.data()
        once, thrice = (
            [
                run(store, f"{name}{repeats}", data, self.answer(shift), self.METRICS, repeats=repeats)
                for name, shift in (("a", 0), ("b", 1))
            ]
            for repeats in (1, 3)
        )
        plain, repeated = (compare_metrics(store, *two) for two in (once, thrice))
        assert set(repeated.by_name) == set(plain.by_name) == set(self.NAMES)
        for name, found in repeated.by_name.items():
            expected = plain.by_name[name]
            assert found.p_value is not None
            numbers = [found.a, found.b, found.delta, found.p_value, *(found.interval or ()), found.verdict, found.n]
            assert numbers == pytest.approx(
                [expected.a, expected.b, expected.delta, expected.p_value, *(expected.interval or ()),
                 expected.verdict, expected.n], abs=1e-12
            ), name  # fmt: skip

    @pytest.mark.slow
    def test_the_mean_of_the_repeats_is_what_is_compared(self, store: RunStore) -> None:
        data, asked = self.data(), Counter[str]()

        def varying(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
            asked[sample.sample_id] += 1
            return self.answer(asked[sample.sample_id])(int(sample.sample_id[1:]))

        a = run(store, "steady", data, self.answer(0), self.METRICS, repeats=2)
        b = run_system(varying, data, list(self.METRICS), store=store, name="varying", repeats=2).record
        outputs = [[self.answer(shift)(number) for number in range(40)] for shift in range(3)]
        values = [[one.value for one in evaluate(data, each, list(self.METRICS))] for each in outputs]
        compared = compare_metrics(store, a, b).by_name
        for place, name in enumerate(self.NAMES):
            found = compared[name]
            assert found.a == pytest.approx(values[0][place], abs=1e-12)
            assert found.b == pytest.approx((values[1][place] + values[2][place]) / 2, abs=1e-12)
            assert found.interval is not None
            assert found.interval[0] < found.delta < found.interval[1]  # type: ignore[operator]

    def test_unequal_repeats(self, store: RunStore) -> None:
        data = self.data()
        a, b = (run(store, str(n), data, self.answer(n), ["bleu", "token_f1"], repeats=n) for n in (1, 2))
        found = compare_metrics(store, a, b)
        assert list(found.by_name) == ["token_f1"]
        assert "the runs asked unequally often (1 and 2 times)" in found.refused["bleu"]

    def test_old_results_without_scores_per_repeat(self, store: RunStore) -> None:
        data = self.data()
        a, b = (run(store, str(n), data, self.answer(n), ["bleu", "token_f1"], repeats=2) for n in (1, 2))
        old = store.result(a.run_id, "bleu")
        assert isinstance(old.scores, Scores)
        old.scores = replace(old.scores, repeats=None)
        store.put_result(a.run_id, old)
        found = compare_metrics(store, a, b)
        assert list(found.by_name) == ["token_f1"]
        assert f"`auepora rescore {a.run_id} -m 'bleu'` does so" in found.refused["bleu"]


class TestRounding:
    def test_rounding_of_model_scores_is_no_difference(self, store: RunStore) -> None:
        data, values = samples(100), np.random.default_rng(5).random(100)
        a = scored(store, "a", data, {"bertscore": values, "token_f1": values})
        b = scored(store, "b", data, {"bertscore": values - 1e-7, "token_f1": values - 1e-7})
        found = only(store, a, b, "bertscore")
        assert (found.delta, found.wins, found.losses, found.verdict) == (0, 0, 0, "equal")
        assert only(store, a, b, "token_f1").losses == 100  # words are counted, and the least of it was meant
        c = scored(store, "c", data, {"bertscore": values - 1e-4})
        assert only(store, a, c, "bertscore").losses == 100

    def test_wrappers_and_vector_metrics_share_the_rounding(self) -> None:
        over = {"counterfactual_consistency": {"base": {"bertscore": {"num_layers": 1}}}}

        def rounding(spec: Any, **options: Any) -> float:
            built = metric(spec, **options)
            assert isinstance(built, BatchMetric)
            return score_rounding(built)

        assert rounding(over) == rounding("bertscore") > 0
        assert rounding("intra_list_diversity@3") == 0
        assert rounding("intra_list_diversity@3", embed="org/name") > 0
