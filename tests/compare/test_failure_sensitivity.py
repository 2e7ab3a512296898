"""Verdicts that do not stand: because measurements failed, because a system did, or because nothing bounds them."""

from collections.abc import Callable

import numpy as np
import pytest

from auepora_eval import (
    Document,
    EvaluationSample,
    Response,
    RetrievedDocument,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
)
from auepora_eval.compare.runs import build_leaderboard, compare_metrics, compare_runs
from auepora_eval.compare.types import MetricComparison
from auepora_eval.core.metrics_base import BatchMetric
from auepora_eval.core.registry import Spec, metric
from auepora_eval.core.scores import Scores, Status
from auepora_eval.errors import BadValueError
from auepora_eval.metrics.rubric import RubricScore
from auepora_eval.store.records import RunRecord, RunStatus
from auepora_eval.store.runs import RunStore
from helpers.golden_runs import found as returned, golden, put_run
from helpers.stored_runs import Answer, run, samples, scored

pytestmark = pytest.mark.usefixtures("few_comparison_draws")


def only(store: RunStore, a: RunRecord, b: RunRecord, name: str = "token_f1", **options: object) -> MetricComparison:
    return compare_metrics(store, a, b, **options).by_name[name]


class TestFailedMeasurements:
    def test_verdict_that_they_could_change_is_downgraded(self, store: RunStore) -> None:
        data, lost = samples(40), np.arange(40) < 10
        second = np.where(np.arange(40) % 2, 0.7, 0.6)
        a = scored(store, "a", data, {"token_f1": np.full(40, 0.5)})
        b = scored(store, "b", data, {"token_f1": Scores.of(second, fail={"judge": lost})})
        assert only(store, a, b).doubt == "measure_failures"
        assert only(store, a, b).higher_is_better

    def test_open_verdict_that_could_become_better(self, store: RunStore) -> None:
        data, lost = samples(40), np.arange(40) < 10
        second = np.where(np.arange(40) % 2, 0.6, 0.4)
        a = scored(store, "a", data, {"token_f1": np.full(40, 0.5)})
        b = scored(store, "b", data, {"token_f1": Scores.of(second, fail={"judge": lost})})
        found = only(store, a, b)
        assert (found.verdict, found.doubt) == ("inconclusive", "measure_failures")

    def test_verdict_that_they_cannot_change(self, store: RunStore) -> None:
        data = samples(100)
        second = np.where(np.arange(100) % 2, 0.7, 0.6)
        a = scored(store, "a", data, {"token_f1": np.full(100, 0.5)})
        b = scored(store, "b", data, {"token_f1": Scores.of(second, fail={"judge": np.arange(100) == 0})})
        assert (only(store, a, b).verdict, only(store, a, b).doubt) == ("better", None)

    def test_no_verdict_without_bounds(self, store: RunStore) -> None:
        data = samples(30)
        a = run(store, "a", data, lambda n: "x" * (n + 9), [WordsOrNothing()])
        b = run(store, "b", data, lambda n: "y" * 3 * (n + 9) if n else "bad", [WordsOrNothing()])
        found = only(store, a, b, "words_or_nothing")
        assert found.p_adjusted is not None
        assert found.p_adjusted < 0.001
        assert (found.verdict, found.doubt) == ("inconclusive", "measure_failures")
        assert "unbounded" in found.flags

    def test_failed_measurement_that_the_other_run_skipped(self, store: RunStore) -> None:
        data, apart = samples(40), np.arange(40) < 20
        second = np.where(np.arange(40) % 2, 0.7, 0.6)
        a = scored(store, "a", data, {"token_f1": Scores.of(np.full(40, 0.5), skip={"refused": apart})})
        b = scored(store, "b", data, {"token_f1": Scores.of(second, fail={"judge": apart})})
        found = only(store, a, b)
        # Of B's 40, 20 would lie at 0 or at 1; of A's, 20 have a value.
        assert found.bounds == pytest.approx(((20 * 0.65) / 40 - 0.5, (20 * 0.65 + 20) / 40 - 0.5))
        assert (found.verdict, found.doubt) == ("inconclusive", "measure_failures")

    def test_run_without_any_measurement_has_no_bounds(self, store: RunStore) -> None:
        data, every = samples(6), np.ones(6, dtype=np.bool_)
        a = scored(store, "a", data, {"token_f1": Scores.of(np.ones(6), skip={"refused": every})})
        b = scored(store, "b", data, {"token_f1": Scores.of(np.ones(6), fail={"judge": every})})
        found = only(store, a, b)
        assert (found.delta, found.bounds, found.verdict) == (None, None, "inconclusive")


class WordsOrNothing(SampleMetric):
    """How long an answer is, between bounds that nobody told; nobody registered it."""

    target = TargetCategory.GENERATION_RELEVANCE

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        text = output.response.text
        return Score.fail("bad") if text == "bad" else Score(len(text))


def grounded(right: bool) -> SystemOutputs:
    """An answer from the gold document that says, or does not, what it must; its citation is known, or is not."""
    hit = RetrievedDocument(Document("gold", "text"), 1.0, 1)
    return SystemOutputs([hit], Response("yes" if right else "no"), citations=["gold" if right else "invented"])


def crashing_on(hard: int, *, right: Callable[[int], bool]) -> Callable[[int], Answer]:
    return lambda n: ValueError("too hard") if n < hard else grounded(right(n))


LEAVE_OUT = ["groundedness", "citation_coverage", "quality_given_hit@5"]


class TestFailedAnswers:
    @pytest.fixture
    def data(self) -> list[EvaluationSample]:
        data = samples(200)
        for one in data:
            one.metadata["must_contain"] = ["yes"]
        return data

    @pytest.mark.parametrize("name", LEAVE_OUT)
    def test_crashing_is_not_better_if_failures_are_left_out(
        self, store: RunStore, data: list[EvaluationSample], name: str
    ) -> None:
        # Right on .6 of what both answer, and on all 60 that B crashes on: .72 of all, against .63.
        a = run(store, "steady", data, lambda n: grounded(n < 60 or n % 5 < 3), [name])
        b = run(store, "crashing", data, crashing_on(60, right=lambda n: n % 10 < 9), [name])
        for first, second in ((a, b), (b, a)):
            found = only(store, first, second, name)
            assert found.p_adjusted is not None
            assert found.p_adjusted < 0.05
            assert (found.verdict, found.doubt) == ("inconclusive", "system_failures")
            called = "B" if second is b else "A"
            assert f"60 failed answers of {called} are left out; not so with them at the worst value, 0" in str(
                found.note
            )

    @pytest.mark.parametrize("name", LEAVE_OUT)
    def test_crashing_is_not_equal_either(self, store: RunStore, data: list[EvaluationSample], name: str) -> None:
        a = run(store, "steady", data, lambda n: grounded(n % 10 < 9), [name])
        b = run(store, "crashing", data, crashing_on(60, right=lambda n: n % 10 < 9), [name])
        found = only(store, a, b, name, delta=0.1)
        assert found.delta == 0
        assert (found.verdict, found.doubt) == ("inconclusive", "system_failures")
        assert "'equal' only because" in str(found.note)

    @pytest.mark.parametrize("name", LEAVE_OUT)
    def test_gain_that_outweighs_the_crashes(self, store: RunStore, data: list[EvaluationSample], name: str) -> None:
        a = run(store, "poor", data, lambda n: grounded(n % 5 < 1), [name])
        b = run(store, "crashing", data, crashing_on(5, right=lambda n: True), [name])
        assert (only(store, a, b, name).verdict, only(store, a, b, name).doubt) == ("better", None)
        assert only(store, b, a, name).verdict == "worse"

    def test_run_with_fewer_failures_keeps_its_verdict(self, store: RunStore, data: list[EvaluationSample]) -> None:
        a = run(store, "crashing", data, crashing_on(60, right=lambda n: n % 2 == 0), LEAVE_OUT[:1])
        b = run(store, "steady", data, lambda n: grounded(n % 10 < 9), LEAVE_OUT[:1])
        assert only(store, a, b, LEAVE_OUT[0]).verdict == "better"

    def test_worst_statistics_of_a_failed_output(self, store: RunStore) -> None:
        data = samples(60, reference="the cat sat on the mat and looked at the dog")
        good, poor = "the cat sat on the mat and looked at a dog", "the cat sat on the mat and ate"
        spec: list[Spec] = [{"bleu": {"on_system_failure": "exclude"}}]
        a = run(store, "a", data, lambda n: good if n < 30 or n % 9 == 0 else poor, spec)
        b = run(store, "b", data, lambda n: ValueError("no") if n < 30 else good, spec)
        found = only(store, a, b, "bleu")
        assert found.delta is not None
        assert found.delta > 0
        assert (found.verdict, found.doubt) == ("inconclusive", "system_failures")
        assert "30 failed answers of B are left out" in str(found.note)

    @pytest.mark.parametrize(("status", "doubt"), [(Status.SYSTEM_FAILED, "system_failures"), (Status.SCORED, None)])
    def test_no_verdict_if_failures_without_a_known_worst_value_are_left_out(
        self, store: RunStore, status: Status, doubt: str | None
    ) -> None:
        """The worst value of a rubric depends on the sample, and is not stored where failures are left out."""
        data, lost, half = samples(40), np.arange(40) < 10, np.where(np.arange(40) % 2, -1.6, -1.4)
        stats = np.zeros((40, len(RubricScore().worst_stats)))
        second = Scores.of(half + 1, stats=stats).replaced(
            lost, status, "timeout" if doubt else "", np.nan if doubt else -0.5
        )
        a = scored(store, "a", data, {"rubric_score": Scores.of(half, stats=stats)})
        found = only(store, a, scored(store, "b", data, {"rubric_score": second}), "rubric_score")
        assert (found.verdict, found.doubt) == ("inconclusive" if doubt else "better", doubt)
        assert ("10 failed answers of B are left out" in str(found.note)) == (doubt is not None)

    def test_a_latency_has_no_worst_value(self, store: RunStore) -> None:
        data = samples(40)

        def timed(seconds: float) -> SystemOutputs:
            return SystemOutputs([], Response("yes"), timings={"end_to_end": seconds})

        metrics = ["throughput", "mean_latency[end_to_end]"]
        a = run(store, "a", data, lambda n: timed(2.0 + n % 3), metrics)
        b = run(store, "b", data, lambda n: ValueError("no") if n < 10 else timed(1.0 + n % 3), metrics)
        for name in metrics:
            assert (only(store, a, b, name).verdict, only(store, a, b, name).doubt) == ("better", None)

    def test_metric_that_is_not_a_mean_is_downgraded_with_reason(self, store: RunStore) -> None:
        data = samples(60, reference="it is so")

        def wordy(n: int) -> str:
            return "it is so in many words" if n % 5 else "nothing of the kind in a great many words"

        a = run(store, "a", data, wordy, ["bleu"])
        b = run(store, "b", data, lambda n: wordy(n) if n % 5 else ValueError("too hard"), ["bleu"])
        assert only(store, a, b, "bleu").doubt == "system_failures"


class TestChunks:
    METRICS = ("recall@2", "mrr", "map", "hit_rate@2", "quality_given_hit@2", "recall_doc@2", "empty_result_rate")

    def pair(self, store: RunStore, *versions: object) -> list[RunRecord]:
        return [
            run(store, f"{at}", samples(12), lambda n: ["gold", "b"], self.METRICS, config={"chunker_version": version})
            for at, version in enumerate(versions)
        ]

    def test_ids_of_different_chunks_are_not_compared(self, store: RunStore) -> None:
        found = compare_metrics(store, *self.pair(store, 1, 2))
        assert [one.name for one in found.metrics] == ["recall_doc@2", "empty_result_rate"]
        assert set(found.refused.values()) == {
            "chunks were cut differently (chunker_version 1 and 2), so their ids do not meet; compare recall_doc, "
            "spans, or the golden queries"
        }

    @pytest.mark.parametrize(
        "versions", [(1, "1"), (1, None), (None, None)], ids=["the same", "not said in one", "not said in either"]
    )
    def test_unknown_chunker_versions_are_compared(self, store: RunStore, versions: tuple[object, ...]) -> None:
        assert compare_metrics(store, *self.pair(store, *versions)).refused == {}

    def test_leaderboard_of_different_chunks(self, store: RunStore) -> None:
        found = build_leaderboard(store, self.pair(store, 1, None, 3))
        assert [one.name for one in found.metrics] == ["recall_doc@2", "empty_result_rate"]
        assert "chunker_version 1 and 3" in found.refused["mrr"]

    BY_ID = (
        *("recall@5", "precision@5", "f1@5", "hit_rate@5", "mrr", "mrr@5", "map", "ndcg@5", "r_precision", "bpref"),
        *(
            "rbp",
            "err@5",
            "judged@5",
            "accuracy@5",
            "aqwv",
            "citation_gold_precision",
            "citation_gold_recall",
        ),
        *("quality_given_hit@5", "quality_given_miss@5", "failure_attribution@5"),
    )
    NOT_BY_ID = ("recall_doc@5", "span_recall@5", "span_precision@5", "span_iou@5", "empty_result_rate", "token_f1")

    @pytest.mark.parametrize("name", [*BY_ID, *NOT_BY_ID])
    def test_metrics_that_compare_ids(self, name: str) -> None:
        built = metric({name: {"max_grade": 3}} if name == "err@5" else name)
        assert isinstance(built, BatchMetric)
        assert built.metadata.by_chunk_id == (name in self.BY_ID)

    def test_wrapper_compares_ids_if_its_metric_does(self) -> None:
        for base, want in (("recall@5", True), ("token_f1", False)):
            built = metric({"sliced": {"base": base, "where": {"labels.x": "y"}}})
            assert isinstance(built, BatchMetric)
            assert built.metadata.by_chunk_id is want


class TestUnbounded:
    def test_equal_time_differences_are_unbounded(self, store: RunStore) -> None:
        data, name = samples(50), "mean_latency[x]"
        a, b = (scored(store, f"{at}", data, {name: np.full(50, at)}) for at in (1.0, 1.25))
        found = only(store, a, b, name, delta=0.5)
        assert (found.verdict, found.negligible) == ("worse", False)
        assert "nothing bounds what another sample would show" in str(found.note)

    @pytest.mark.parametrize("size", [1e-200, 1e200, 1e300])
    def test_largest_and_smallest_floats(self, store: RunStore, size: float) -> None:
        rng = np.random.default_rng(0)
        data, name = samples(40), "mean_latency[x]"
        a, b = (scored(store, f"{at}", data, {name: rng.random(40) * size}) for at in (1, 2))
        found = only(store, a, b, name, delta=0.5)
        assert (found.mde, found.n_needed) == (None, None)
        assert found.interval is None or np.isfinite(found.interval).all()


class TestSize:
    def test_enough_samples_and_still_open(self, store: RunStore) -> None:
        data = samples(400)
        noise = np.where(np.arange(400) % 2, 0.1, -0.1)
        a = scored(store, "a", data, {"token_f1": np.full(400, 0.5)})
        b = scored(store, "b", data, {"token_f1": 0.508 + noise})
        found = only(store, a, b, delta=0.015)
        assert (found.verdict, found.n_needed) == ("inconclusive", None)
        assert "as many samples as would detect a difference of 0.015; the interval still straddles it" in str(
            found.note
        )

    def test_no_two_runs_differ_by_more_than_the_range(self, store: RunStore) -> None:
        data = samples(3)
        a = scored(store, "a", data, {"token_f1": [0.0, 1.0, 0.5]})
        b = scored(store, "b", data, {"token_f1": [1.0, 0.0, 0.5]})
        assert only(store, a, b).mde is None

    def test_one_sample_gives_no_verdict(self, store: RunStore) -> None:
        a, b = (scored(store, str(v), samples(1), {"token_f1": [v]}) for v in (0.2, 0.9))
        assert "one sample cannot tell" in str(only(store, a, b).note)
        data = samples(4, clusters=lambda n: "all")
        a, b = (scored(store, f"of {v}", data, {"token_f1": [v] * 4}) for v in (0.2, 0.9))
        assert "one cluster of samples cannot tell" in str(only(store, a, b).note)


class TestRuns:
    def test_note_on_a_stopped_run(self, store: RunStore) -> None:
        queries = [golden(f"q{n}", "gold") for n in range(30)]
        answers = [returned("gold")] * 30
        a = put_run(store, "a", queries, answers)
        b = put_run(store, "b", queries, [*answers[:13], *[None] * 17], status=RunStatus.STOPPED)
        c = put_run(store, "c", queries, answers, status=RunStatus.FAILED)
        for record in (a, b, c):
            built = metric("token_f1")
            assert isinstance(built, BatchMetric)
            store.put_result(record.run_id, built.compute(queries, answers))
        assert compare_runs("run_a", "run_b", store=store).notes[0] == (
            "B is stopped: 17 of 30 were never asked and count as failed"
        )
        assert compare_runs("run_c", "run_a", store=store).notes[0] == "A has failed"
        assert compare_runs("run_a", "run_b", store=store).notes[1:] == []

    def test_a_run_is_not_compared_with_itself(self, store: RunStore) -> None:
        a = scored(store, "a", samples(5), {"token_f1": np.ones(5)})
        with pytest.raises(BadValueError, match=f"{a.run_id} is named twice"):
            compare_runs(a.run_id, "latest", store=store)
