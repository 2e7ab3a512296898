"""Two runs that cannot be compared, or only in part: refused with a reason, or a clear result."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import EvaluationSample, MetricResult, SampleMetric, Score, SystemOutputs, TargetCategory
from auepora_eval.compare.runs import compare_metrics
from auepora_eval.core.metrics_base import Metric
from auepora_eval.core.registry import Spec
from auepora_eval.core.scores import Scores
from auepora_eval.errors import BadValueError, UnknownMetricError, UnknownRunError
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.records import RunStatus
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import run, samples, scored


class TestRuns:
    def test_a_run_still_going(self, store: RunStore) -> None:
        data = samples(4)
        a = scored(store, "a", data, {"token_f1": np.ones(4)})
        b = store.create_run("b", data, dataset_name="made", plan={})
        with pytest.raises(BadValueError, match=f"{b.run_id} .* is still running"):
            compare_metrics(store, a, b)

    def test_a_run_that_was_never_scored(self, store: RunStore) -> None:
        data = samples(4)
        a = scored(store, "a", data, {"token_f1": np.ones(4)})
        b = store.create_run("b", data, dataset_name="made", plan={})
        store.finish(b.run_id, RunStatus.STOPPED)
        with pytest.raises(BadValueError, match="has no results; it is stopped"):
            compare_metrics(store, a, store.get(b.run_id))

    def test_a_run_deleted_meanwhile(self, store: RunStore) -> None:
        data = samples(4)
        a, b = (scored(store, name, data, {"token_f1": np.ones(4)}) for name in "ab")
        store.delete(a.run_id)
        with pytest.raises(UnknownRunError, match=a.run_id):
            compare_metrics(store, a, b)

    def test_an_ambiguous_beginning(self, store: RunStore) -> None:
        for name in "ab":
            scored(store, name, samples(4), {"token_f1": np.ones(4)})
        with pytest.raises(UnknownRunError, match="may be any of 2 runs"):
            store.find("run_")

    def test_different_datasets_are_refused_by_default(self, store: RunStore) -> None:
        rng = np.random.default_rng(0)
        first, second = samples(50), samples(60)[10:]
        values = rng.random(60)
        a = scored(store, "a", first, {"token_f1": values[:50]})
        b = scored(store, "b", second, {"token_f1": values[10:] * 0.9})
        with pytest.raises(BadValueError, match="ran on different datasets"):
            compare_metrics(store, a, b)
        found = compare_metrics(store, a, b, other_dataset=True)
        assert (found.only_in_a, found.only_in_b) == (10, 10)
        assert found.metrics[0].n == 40
        assert found.metrics[0].delta == pytest.approx(-0.1 * values[10:50].mean())
        assert found.metrics[0].losses == 40

    def test_no_sample_in_common(self, store: RunStore) -> None:
        a = scored(store, "a", samples(5), {"token_f1": np.ones(5)})
        b = scored(store, "b", samples(10)[5:], {"token_f1": np.ones(5)})
        with pytest.raises(BadValueError, match="have no sample in common"):
            compare_metrics(store, a, b, other_dataset=True)

    def test_no_text_of_a_document_is_read(self, store: RunStore, tmp_path: Path) -> None:
        data = samples(20)
        metrics = ["recall@1", "map", "token_f1", "bleu"]
        a = run(store, "a", data, lambda n: ["gold", "b"], metrics)
        b = run(store, "b", data, lambda n: ["b", "gold"] if n % 2 else ["gold", "c"], metrics)
        with sqlite3.connect(tmp_path / "runs.sqlite") as connection:
            assert connection.execute("SELECT count(*) FROM eval_documents").fetchone()[0] > 0
            connection.execute("DELETE FROM eval_documents")
        connection.close()
        found = compare_metrics(store, a, b).by_name
        assert found["recall@1"].delta == -0.5
        assert found["map"].verdict == "worse"


class TestSmall:
    def test_one_sample(self, store: RunStore) -> None:
        data = samples(1)
        a, b = (scored(store, str(v), data, {"token_f1": [v]}) for v in (0.2, 0.9))
        (found,) = compare_metrics(store, a, b, delta=0.1).metrics
        assert (found.n, found.wins, found.verdict) == (1, 1, "inconclusive")
        assert found.delta == pytest.approx(0.7)
        assert (found.interval, found.p_value, found.mde, found.n_needed) == (None, 1.0, None, None)

    def test_all_equal(self, store: RunStore) -> None:
        data = samples(100)
        values = np.linspace(0, 1, 100)
        a, b = (scored(store, name, data, {"token_f1": values, "mean_latency[x]": values}) for name in "ab")
        found = compare_metrics(store, a, b, delta=0.1).by_name
        one = found["token_f1"]
        assert (one.delta, one.p_value, one.draws, one.verdict) == (0.0, 1.0, 100, "equal")
        # Of 100 equal differences none says that the next is one too.
        assert one.interval is not None
        assert one.interval[0] < 0 < one.interval[1]
        assert found["mean_latency[x]"].flags == ("unbounded",)

    def test_scores_that_differ_by_rounding_are_equal(self, store: RunStore) -> None:
        data = samples(40)
        a = scored(store, "a", data, {"token_f1": np.full(40, 0.1 + 0.2)})
        b = scored(store, "b", data, {"token_f1": np.full(40, 0.3)})
        (found,) = compare_metrics(store, a, b).metrics
        assert (found.delta, found.delta_completed, found.p_value, found.draws) == (0.0, 0.0, 1.0, 40)

    def test_all_failed(self, store: RunStore) -> None:
        data = samples(12)
        metrics = ["token_f1", "mean_latency[own]", "bleu"]
        a = run(store, "a", data, lambda n: ValueError("no"), metrics)
        b = run(store, "b", data, lambda n: ValueError("no"), metrics)
        found = compare_metrics(store, a, b).by_name
        assert (found["token_f1"].a, found["token_f1"].b, found["token_f1"].delta_completed) == (0.0, 0.0, None)
        assert found["mean_latency[own]"].delta is None
        assert found["mean_latency[own]"].note == "no sample has a score in both runs"
        assert {one.verdict for one in found.values()} == {"inconclusive"}

    def test_a_run_with_itself(self, store: RunStore) -> None:
        a = scored(store, "a", samples(9), {"token_f1": np.linspace(0, 1, 9)})
        with pytest.raises(BadValueError, match="is named twice"):
            compare_metrics(store, a, a)


class TestMetrics:
    def test_different_signatures_are_named(self, store: RunStore) -> None:
        data = samples(10)
        a = run(store, "a", data, lambda n: ["gold", "b"], ["recall@5", "map@2"], conventions="paper")
        b = run(store, "b", data, lambda n: ["gold", "b"], ["recall@5", "map@2"], conventions="golden")
        found = compare_metrics(store, a, b)
        assert set(found.refused) == {"map@2", "recall@5"}
        assert "computed differently (in: ap, empty)" in found.refused["map@2"]

    def test_newest_results_with_the_same_signature(self, store: RunStore) -> None:
        data = samples(10)
        a = run(store, "a", data, lambda n: ["b", "gold"], ["map@2"], conventions="paper")
        b = run(store, "b", data, lambda n: ["gold", "b"], ["map@2"], conventions="golden")
        rescore(a, ["map@2"], conventions="trec", store=store)
        rescore(b, ["map@2"], conventions="trec", store=store)
        rescore(b, ["map@2"], conventions="client", store=store)
        (found,) = compare_metrics(store, a, b).metrics
        assert (found.a, found.b) == (0.5, 1.0)

    def test_metric_of_one_run_only(self, store: RunStore) -> None:
        data = samples(5)
        a = scored(store, "a", data, {"token_f1": np.ones(5)})
        b = scored(store, "b", data, {"token_f1": np.ones(5), "containment": np.ones(5)})
        assert f"{a.run_id} does not have it" in compare_metrics(store, a, b).refused["containment"]
        with pytest.raises(UnknownMetricError, match="token_f1"):
            compare_metrics(store, a, b, metrics=["token_f2"])
        with pytest.raises(UnknownMetricError):
            compare_metrics(store, a, b, primary=["token_f2"])
        with pytest.raises(BadValueError, match="choose one of: max-t, holm"):
            compare_metrics(store, a, b, adjust="bonferroni")

    def test_average_precision_over_hits_of_different_depth(self, store: RunStore) -> None:
        data = samples(10)
        metrics: list[Spec] = ["map", "map@2", "map@5", {"map": {"ap": "gold", "as": "map_gold"}}]
        a = run(store, "a", data, lambda n: ["x", "gold", "y", "z"], metrics)
        b = run(store, "b", data, lambda n: ["x", "gold"], metrics)
        found = compare_metrics(store, a, b)
        assert [one.name for one in found.metrics] == ["map@2", "map_gold"]
        assert "different numbers of documents (4 and 2 for sample 'q00000')" in found.refused["map"]
        assert "map@5:ap=gold" in found.refused["map@5"]

    def test_another_depth_asked_for_is_compared(self, store: RunStore) -> None:
        data = samples(10)
        a, b = (run(store, str(k), data, lambda n: ["x", "gold"], ["map"], top_k=k) for k in (5, 10))
        found = compare_metrics(store, a, b)
        assert found.refused == {}
        assert found.by_name["map"].delta == 0


class AnswerLength(SampleMetric):
    """How many characters an answer has; nobody registered it."""

    target = TargetCategory.GENERATION_RELEVANCE
    higher_is_better = False
    range = (0.0, float("inf"))

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        return Score(len(output.response.text))


class Longest(Metric):
    """A number that comes without any score."""

    name, target = "longest", TargetCategory.GENERATION_RELEVANCE

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        return MetricResult(self.name, self.target, max(len(one.response.text) for one in outputs if one.response))


class TestUsersOwn:
    def test_metric_with_compute_only(self, store: RunStore) -> None:
        data = samples(8)
        a = run(store, "a", data, lambda n: "x" * (n + 1), [Longest()])
        b = run(store, "b", data, lambda n: "y" * 2 * (n + 1), [Longest()])
        (found,) = compare_metrics(store, a, b, metrics=[Longest()]).metrics
        assert (found.a, found.b, found.delta) == (8, 16, 8)
        assert (found.interval, found.p_value, found.verdict) == (None, None, "inconclusive")
        assert "no scores per sample" in str(found.note)

    def test_direction_of_an_unregistered_metric(self, store: RunStore) -> None:
        data = samples(20)
        a = run(store, "a", data, lambda n: "x" * 2 * (n + 9), [AnswerLength()])
        b = run(store, "b", data, lambda n: "y" * (n + 9), [AnswerLength()])
        (found,) = compare_metrics(store, a, b).metrics
        assert (found.wins, found.verdict) == (20, "better")
        assert found.note == "not known in this process: compared as a mean, lower taken for better"
        (given,) = compare_metrics(store, a, b, metrics=[AnswerLength()]).metrics
        assert (given.verdict, given.note) == ("better", None)

    def test_metric_that_is_not_the_mean_of_its_scores(self, store: RunStore) -> None:
        data = samples(6)
        records = []
        for name in "ab":
            record = store.create_run(name, data, dataset_name="made", plan={})
            result = MetricResult(
                "odd", TargetCategory.DIVERSITY, 7.0, scores=Scores.of(np.ones(6)), signature="odd|v1"
            )
            store.put_result(record.run_id, result)
            store.finish(record.run_id)
            records.append(store.get(record.run_id))
        (found,) = compare_metrics(store, *records).metrics
        assert (found.delta, found.p_value) == (0.0, None)
        assert "not the mean of its scores" in str(found.note)


def test_dependent_samples_have_no_test(store: RunStore) -> None:
    data = samples(10)
    a = run(store, "a", data, lambda n: "the same words", ["distinct_n", "response_diversity"])
    b = run(store, "b", data, lambda n: f"words that differ {n}", ["distinct_n", "response_diversity"])
    for found in compare_metrics(store, a, b).metrics:
        assert found.delta is not None
        assert found.delta > 0
        assert (found.interval, found.p_value, found.verdict) == (None, None, "inconclusive")
        assert "no interval and no test" in str(found.note)
