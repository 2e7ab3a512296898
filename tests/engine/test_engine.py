"""The engine: outcomes never mix, failures count, users' own metrics fit in, and no path changes a number."""

import gc
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import (
    AueporaWarning,
    BatchMetric,
    Conventions,
    EvaluationPlan,
    EvaluationSample,
    InMemoryDataset,
    Metric,
    MetricResult,
    SampleMetric,
    Score,
    Scores,
    SystemOutputs,
    TargetCategory,
    evaluate,
    evaluate_rankings,
    evaluate_stream,
    metric,
)
from auepora_eval.core.batch import Batch
from auepora_eval.core.metrics_base import declare
from auepora_eval.core.types import Response
from auepora_eval.errors import AlignmentError, BadTypeError, BadValueError, MetricDefinitionError, MissingFieldError
from helpers.builders import output, sample, samples
from helpers.requirements import examples


def outcome(result: MetricResult) -> list[str]:
    assert result.outcomes is not None
    return list(result.outcomes)


class TestSystemFailures:
    def test_a_failure_counts_at_the_worst_value(self) -> None:
        (got,) = evaluate(samples(["a"], ["a"]), [output(["a"]), output(error="timeout: 30 s")], ["recall@5"])
        assert got.value == 1 / 2
        assert outcome(got) == ["scored", "system_failed:timeout"]
        assert list(got.scores or ()) == [1.0, 0.0]
        want = {
            "num_samples": 2, "num_scored": 1, "num_skipped": 0, "num_system_failed": 1, "num_measure_failed": 0,
            "num_failed": 1, "failed_timeout": 1, "skipped_empty_gold": 0, "value_completed": 1.0,
            "interval": {"method": "t", "units": 2, "flags": ["few"]},
        }  # fmt: skip
        assert got.details == want

    def test_excluding_failures_is_in_the_signature(self) -> None:
        (got,) = evaluate(
            samples(["a"], ["a"]),
            [output(["a"]), output(error="timeout")],
            [{"recall@5": {"on_system_failure": "exclude"}}],
        )
        assert (got.value, got.details["num_samples"], got.details["num_failed"]) == (1.0, 1, 1)
        assert got.signature == "recall@5|empty:skip|failed:exclude|v1"

    def test_skip_caused_by_the_sample_wins(self) -> None:
        """A question that does not apply is not failed."""
        (got,) = evaluate(samples([], ["a"]), [output(error="x"), output(["a"])], ["recall@5"])
        assert outcome(got) == ["skipped:empty_gold", "scored"]

    def test_skip_caused_by_the_output_does_not_hide_a_failure(self) -> None:
        """A crashed system has no response; that must not take its zero out of the mean."""
        rows = [sample(sample_id=str(i), answer="yes") for i in range(3)]
        (got,) = evaluate(rows, [output(answer="yes"), output(error="raised: E"), output()], ["rougeL_answer"])
        assert outcome(got) == ["scored", "system_failed:raised", "skipped:no_response"]
        assert got.value == 1 / 2

    def test_latency_has_no_worst_value(self) -> None:
        outputs = [output(timings={"end_to_end": 2.0}), output(error="timeout", timings={"end_to_end": 30.0}), output()]
        (got,) = evaluate(samples(None, None, None), outputs, ["mean_latency"])
        assert (got.value, got.details["num_samples"]) == (2.0, 1)
        assert outcome(got) == ["scored", "system_failed:timeout", "skipped:no_timing"]
        assert got.details["value_completed"] == 2.0

    def test_empty_rankings_are_counted_with_the_failures(self) -> None:
        outputs = [output(error="HTTP 500"), output([]), *[output(["a"])] * 8]
        (got,) = evaluate(samples(*[["a"]] * 10), outputs, ["empty_result_rate"])
        assert got.value == 2 / 10
        assert outcome(got)[:3] == ["system_failed:error", "scored", "scored"]

    def test_failing_on_hard_samples_does_not_raise_the_score(self) -> None:
        gold = samples(*[["a"]] * 4)
        honest = [output(["a"])] * 2 + [output(["x", "a"])] * 2
        crashing = [output(["a"])] * 2 + [output(error="boom")] * 2
        assert evaluate(gold, honest, ["mrr"])[0].value == 3 / 4
        assert evaluate(gold, crashing, ["mrr"])[0].value == 1 / 2

    def test_empty_rankings_are_counted_under_all_conventions(self) -> None:
        spec = {"empty_result_rate": {"on_system_failure": "exclude"}}
        (got,) = evaluate(samples(["a"], ["a"]), [output(["a"]), output(error="x")], [spec])
        assert (got.value, got.signature) == (1 / 2, "empty_result_rate|v1")

    def test_inapplicable_sample_is_skipped_though_the_system_failed(self) -> None:
        class OnlyUnanswerable(SampleMetric):
            target = TargetCategory.NEGATIVE_REJECTION
            metadata = declare(
                output_skips=frozenset({"no_citation"}),
            )

            def applies(self, sample: EvaluationSample) -> str | None:
                return None if sample.labels.get("scenario") == "unanswerable" else "answerable"

            def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
                return Score(1.0) if output.response is not None else Score.skip("no_citation")

        rows = [
            sample(sample_id=str(i), labels={"scenario": s}) for i, s in enumerate(["unanswerable", "", "unanswerable"])
        ]
        for last in (output(error="timeout"), None):
            (got,) = evaluate(rows, [output(answer="no"), output(error="timeout"), last], [OnlyUnanswerable()])
            assert outcome(got)[:2] == ["scored", "skipped:answerable"]
            assert outcome(got)[2].startswith("system_failed:")
            assert got.value == 1 / 2
        assert OnlyUnanswerable.metadata.output_skips >= {"no_response", "no_citation"}

    def test_a_failed_row_is_not_looked_at(self) -> None:
        """Neither a NaN nor a repeated id in what a failed system left behind stops the others."""
        odd = output(["a", "a"], error="timeout")
        odd.retrieved[0].score = float("nan")
        (got,) = evaluate(samples(["a"], ["a"]), [output(["a"]), odd], ["recall@5"], conventions="trec")
        assert got.value == 1 / 2


class TestMissingOutputs:
    ROWS = (
        ("fail", ["scored", "system_failed:missing_output"], 1 / 2),
        ("skip", ["scored", "skipped:missing_output"], 1.0),
        ("zero", ["scored", "scored"], 1 / 2),
    )

    @pytest.mark.parametrize(("missing", "outcomes", "value"), ROWS, ids=[row[0] for row in ROWS])
    def test_policy(self, missing: str, outcomes: list[str], value: float) -> None:
        spec: dict[str, Any] = {"recall@5": {"missing": missing}}
        for got in (
            evaluate(samples(["a"], ["a"]), [output(["a"]), None], [spec])[0],
            evaluate_rankings([["a"], ["a"]], [["a"], None], [spec])[0],
        ):
            assert (outcome(got), got.value) == (outcomes, value)

    def test_missing_answers_score_zero(self) -> None:
        rows = [sample(sample_id=str(i), answer="yes") for i in range(2)]
        (got,) = evaluate(rows, [output(answer="yes"), None], [{"rougeL_answer": {"missing": "zero"}}])
        assert got.value == 1 / 2

    def test_zero_means_nothing_returned_and_fail_means_worst(self) -> None:
        values = [
            evaluate_rankings([["a"]], [None], [{"aqwv": {"missing": missing}}])[0].value
            for missing in ("zero", "fail")
        ]
        assert values == [0.0, -40.0]


class TestMeasureFailures:
    class Judge(SampleMetric):
        target = TargetCategory.GENERATION_CORRECTNESS

        def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
            assert output.response is not None
            return Score.fail("unparseable") if output.response.text == "?" else Score(float(output.response.text))

    def test_failed_measurements_leave_the_mean_and_give_bounds(self) -> None:
        outputs = [output(answer=text) for text in ("0.5", "0.7", "?", "?")]
        (got,) = evaluate(samples(None, None, None, None), outputs, [self.Judge()])
        assert got.value == pytest.approx(0.6)
        assert got.details["num_measure_failed"] == got.details["failed_unparseable"] == 2
        assert got.details["bounds"] == pytest.approx([1.2 / 4, 3.2 / 4])

    def test_bounds_without_keeping_scores(self) -> None:
        pairs = [(sample(sample_id=t), output(answer=t)) for t in ("0.5", "?")]
        kept, folded = (evaluate_stream(pairs, [self.Judge()], keep_scores=keep)[0] for keep in (True, False))
        assert kept.details == folded.details
        assert kept.details["bounds"] == [0.25, 0.75]

    def test_all_failed_is_undefined(self) -> None:
        (got,) = evaluate(samples(None), [output(answer="?")], [self.Judge()])
        assert (got.value, got.defined, got.details["num_samples"]) == (0.0, False, 0)


def test_an_empty_dataset() -> None:
    for got in evaluate([], [], ["recall@5", "map", "rougeL_answer", "mean_latency", "empty_result_rate", "aqwv"]):
        assert (got.value, got.defined, got.details["num_samples"]) == (0.0, False, 0)
        assert list(got.scores or ()) == []
    assert [r.defined for r in evaluate_rankings([], [], ["ndcg@3"])] == [False]
    assert [r.defined for r in evaluate_stream([], ["ndcg@3"])] == [False]


def test_no_metric_at_all() -> None:
    assert list(evaluate(samples(["a"]), [output(["a"])], [])) == []


def test_lengths_that_differ() -> None:
    with pytest.raises(AlignmentError):
        evaluate(samples(["a"]), [], ["recall@5"])
    with pytest.raises(AlignmentError, match="1 gold entries but 2 rankings"):
        evaluate_rankings([["a"]], [["a"], ["b"]], ["recall@5"])
    with pytest.raises(AlignmentError, match="1 gold entries but 2 ids"):
        evaluate_rankings([["a"]], [["a"]], ["recall@5"], ids=["x", "y"])
    built = metric("recall@5")
    with pytest.raises(AssertionError):
        built.compute(samples(["a"]), [])


def test_a_field_no_sample_has() -> None:
    message = "Dataset missing required field 'reference_answer' for metric 'rougeL_answer'"
    with pytest.raises(MissingFieldError, match=message):
        evaluate(samples(["a"]), [output(["a"])], ["recall@5", "rougeL_answer"])
    with pytest.raises(MissingFieldError, match=message):
        evaluate_stream(zip(samples(["a"]), [output(["a"])], strict=True), ["recall@5", "rougeL_answer"])
    with pytest.raises(ValueError, match="relevant_docs"):
        evaluate_rankings([None], [["a"]], ["recall@5"])


BAD_COLUMNS: list[tuple[Any, Any, str]] = [
    (["a"], [["a"]], "the gold of query '0' is a single string; pass a list of ids"),
    ([["a"]], ["a"], "the ranking of query '0' is a single string; pass a list of ids"),
    ([5], [["a"]], "the gold of query '0' is 5; pass a collection of ids"),
    ([["a"]], [[5]], "sample '0': the returned id 5 is of type int; document ids must be strings"),
    ([[5]], [["a"]], "sample '0': the gold id 5 is of type int; document ids must be strings"),
    ([["a"]], [["a", None]], "sample '0': the returned id None is of type NoneType; document ids must be strings"),
    ([{"a": "x"}], [["a"]], "sample '0': the relevance of 'a' is 'x'; it must be an integer"),
    ([["a"]], [[["a"]]], "sample '0': the returned id ['a'] is of type list; document ids must be strings"),
]


@pytest.mark.parametrize(("gold", "ranked", "message"), BAD_COLUMNS, ids=[row[2][:50] for row in BAD_COLUMNS])
def test_invalid_columns(gold: Any, ranked: Any, message: str) -> None:
    with pytest.raises(BadTypeError) as caught:
        evaluate_rankings(gold, ranked, ["recall@5"])
    assert str(caught.value) == message


def test_two_metrics_of_one_name() -> None:
    with pytest.raises(BadValueError, match="two metrics are called 'map@10'; give one of them another name with 'as'"):
        evaluate(samples(["a"]), [output(["a"])], ["map@10", {"map": {"k": 10}}])
    apart = evaluate(samples(["a"]), [output(["a"])], ["map@10", {"map@10": {"conventions": "trec"}}])
    assert [r.name for r in apart] == ["map@10", "map@10[conventions=trec]"]
    named = evaluate(samples(["a"]), [output(["a"])], ["map@10", {"map@10": {"conventions": "trec", "as": "map_trec"}}])
    assert [r.name for r in named] == ["map@10", "map_trec"]


def test_a_metrics_own_conventions_win_over_the_plans() -> None:
    results = evaluate_rankings(
        [[]], [["a"]], ["recall@1", {"recall@2": {"conventions": "auepora"}}], conventions="paper"
    )
    assert [r.defined for r in results] == [True, False]


def test_single_convention_overrides_those_of_the_plan() -> None:
    (got,) = evaluate_rankings([{"a": 1, "b": 2}], [["b"]], [{"map": {"min_relevance": 2}}], conventions="trec")
    assert (got.value, got.signature) == (1.0, "map|ap:gold|empty:judged|rel:2|missing:skip|v1")


def test_plans_objects_and_single_specs_are_accepted() -> None:
    rows, outs = samples(["a"]), [output(["a"])]
    for metrics in (
        "recall@5",
        ["recall@5"],
        metric("recall@5"),
        EvaluationPlan([metric("recall@5")]),
        {"recall": {"k": 5}},
    ):
        assert evaluate(rows, outs, metrics)[0].value == 1.0


def test_the_batch_size_must_be_positive() -> None:
    with pytest.raises(BadValueError, match="batch_size must be an integer >= 1, not 0"):
        evaluate(samples(["a"]), [output(["a"])], ["recall@5"], batch_size=0)


def test_garbage_collection_is_restored() -> None:
    evaluate_rankings([["a"]], [["a"]], ["recall@1"])
    assert gc.isenabled()
    with pytest.raises(BadTypeError):
        evaluate_rankings([["a"]], [[5]], ["recall@1"])  # type: ignore[list-item]
    assert gc.isenabled()


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.lists(st.sampled_from("abc"), max_size=3)),
        st.one_of(st.none(), st.lists(st.sampled_from("abcd"), max_size=4)),
        st.sampled_from([None, "timeout", "raised: x"]),
        st.sampled_from([None, "", "the cat sat", "a dog"]),
    ),
    min_size=1,
    max_size=12,
)
METRICS: list[Any] = [
    "recall@2",
    "precision@2",
    "map",
    "ndcg@3",
    "aqwv",
    "empty_result_rate",
    "rougeL_answer",
    "mean_latency",
]


@given(rows=ROWS, size=st.integers(1, 5))
@settings(max_examples=examples(80))
def test_every_path_gives_the_same_bits(rows: list[Any], size: int) -> None:
    """Whole, in batches of any size, streamed, and streamed without keeping scores."""
    data = [sample(g, sample_id=str(i), answer="the cat") for i, (g, *_) in enumerate(rows)]
    if all(row.relevant_docs is None for row in data):
        data[0].relevant_docs = []
    outs = [
        None if ranked is None else output(ranked, answer=answer, error=error, timings={"end_to_end": 0.1 * i})
        for i, (_, ranked, error, answer) in enumerate(rows)
    ]
    whole = evaluate(data, outs, METRICS)
    assert evaluate(data, outs, METRICS, batch_size=size) == whole
    assert evaluate_stream(zip(data, outs, strict=True), METRICS, batch_size=size) == whole
    folded = evaluate_stream(zip(data, outs, strict=True), METRICS, batch_size=size, keep_scores=False)
    for full, lean in zip(whole, folded, strict=True):
        assert (full.value, full.defined, full.details, full.signature) == (
            lean.value,
            lean.defined,
            lean.details,
            lean.signature,
        )
        assert lean.scores is None
        numbers = [x for x in full.scores or () if x is not None]
        assert len(numbers) == full.details["num_samples"]
        assert full.value == (math.fsum(numbers) / len(numbers) if numbers else 0.0)
        d = full.details
        assert d["num_scored"] + d["num_skipped"] + d["num_failed"] == len(rows)


def test_arguments_come_in_many_shapes() -> None:
    rows, outs = samples(["a"], ["b"]), [output(["a"]), output(["x"])]
    want = evaluate(rows, outs, ["recall@1"])
    assert evaluate(InMemoryDataset("d", rows), iter(outs), ["recall@1"]) == want
    assert evaluate(rows, {"q1": outs[1], "q0": outs[0]}, ["recall@1"]) == want
    assert evaluate(rows, {"q0": outs[0]}, ["recall@1"])[0].outcomes == ["scored", "system_failed:missing_output"]
    mapped = evaluate_rankings({"x": ["a"], "y": ["b"]}, {"y": ["q"], "x": ["a"], "z": []}, ["recall@1"])
    assert (mapped.sample_ids, list(mapped[0].scores or ())) == (["x", "y"], [1.0, 0.0])
    array = np.array([["a", "b"], ["b", "a"]])
    assert evaluate_rankings(np.array([["a"], ["a"]]), array, ["mrr"], ids=np.arange(2))[0].value == 3 / 4


BAD_ARGUMENTS: list[tuple[Any, str]] = [
    (lambda: evaluate([{"sample_id": "1"}], [output()], ["mrr"]), "samples[0] is a dict, not an EvaluationSample"),  # type: ignore[list-item]
    (lambda: evaluate([sample(["a"], sample_id=5)], [output()], ["mrr"]), "samples[0] has the id 5; sample ids must be strings"),  # type: ignore[arg-type]
    (lambda: evaluate(5, [], ["mrr"]), "samples must be a list, not a int"),  # type: ignore[arg-type]
    (lambda: evaluate([], [], None), "metrics must be a list, not a NoneType"),  # type: ignore[arg-type]
    (lambda: evaluate_stream(samples(["a"]), ["mrr"]), "a stream is made of pairs of a sample and its output (or None)"),  # type: ignore[arg-type]
    (lambda: evaluate_rankings([["a"]], [{"a": 0.5}], ["mrr"]), "the ranking of query '0' is a dict, which has no order; pass a list of ids, best first"),  # type: ignore[list-item]
    (lambda: evaluate_rankings([["a"]], [{"a"}], ["mrr"]), "the ranking of query '0' is a set, which has no order; pass a list of ids, best first"),  # type: ignore[list-item]
    (lambda: evaluate_rankings([["a"]], [5], ["mrr"]), "the ranking of query '0' is 5; pass a list of ids, best first"),  # type: ignore[list-item]
    (lambda: evaluate_rankings({"q": ["a"]}, [["a"]], ["mrr"]), "gold and rankings must both be mappings from query id, or both be sequences"),
    (lambda: evaluate([EvaluationSample("1", "q", relevant_docs=["a"])], [output()], ["mrr"]), "sample '1': 'relevant_docs' holds a str, not a Document"),  # type: ignore[list-item]
    (lambda: evaluate(samples(["a"]), [SystemOutputs(None)], ["mrr"]), "the output for sample 'q0' has a NoneType as 'retrieved', not a list of RetrievedDocument"),  # type: ignore[arg-type]
    (lambda: evaluate([], [], ["mrr"], conventions=5), "conventions are the name of a preset or a Conventions object, not 5"),  # type: ignore[arg-type]
    (lambda: metric({"recall": {5: 1}}), "the options of metric 'recall' must have names, not [5]"),  # type: ignore[dict-item]
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD_ARGUMENTS, ids=[row[1][:60] for row in BAD_ARGUMENTS])
def test_invalid_arguments_of_evaluate(call: Any, message: str) -> None:
    with pytest.raises(BadTypeError) as caught:
        call()
    assert str(caught.value) == message


def test_levels_out_of_range() -> None:
    for gold in ({"a": 10**30}, {"a": 1100}):
        with pytest.raises(BadValueError, match="is out of range"):
            evaluate_rankings([gold], [["a"]], [{"ndcg@3": {"gain_scheme": "exponential"}}])


def test_bare_ids_cannot_feed_an_answer_metric() -> None:
    with pytest.raises(MissingFieldError, match="'reference_answer' for metric 'rougeL_answer'"):
        evaluate_rankings([["a"]], [["a"]], ["rougeL_answer"])


@pytest.fixture
def usual_collection() -> Iterator[None]:
    """Garbage is collected as often as in a program, which is more often than in tests."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("usual_collection")
def test_stream_does_not_pause_collection_for_the_caller() -> None:
    import weakref

    class Cyclic:
        def __init__(self) -> None:
            self.me = self

    seen: list[weakref.ref[Cyclic]] = []

    def pairs() -> Iterator[tuple[EvaluationSample, SystemOutputs]]:
        for i in range(3000):
            seen.append(weakref.ref(Cyclic()))
            yield sample(["a"], sample_id=str(i)), output(["a"])

    evaluate_stream(pairs(), ["recall@5"], batch_size=50, keep_scores=False)
    assert sum(ref() is not None for ref in seen) < 2500


def test_streaming_releases_samples() -> None:
    alive = 0

    class Counted(EvaluationSample):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0

    def pairs() -> Iterator[tuple[EvaluationSample, SystemOutputs]]:
        nonlocal alive, most
        for i in range(200):
            alive += 1
            most = max(most, alive)
            yield Counted(str(i), "q", relevant_docs=[]), output(["a"])

    evaluate_stream(pairs(), ["recall@5"], batch_size=10, keep_scores=False)
    assert most <= 30  # a batch being made, the one before it, and the pair in hand


class OnlyCompute(Metric):
    """What S3 asks of a metric, and no more."""

    def __init__(self) -> None:
        self.name = "answer_length"
        self.target = TargetCategory.GENERATION_RELEVANCE

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        lengths = [len(o.response.text) for o in outputs if o.response is not None]
        return MetricResult(self.name, self.target, sum(lengths) / len(lengths), {"num_samples": len(lengths)})


class OnlyScoreOne(SampleMetric):
    target = TargetCategory.GENERATION_RELEVANCE

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        return Score(sample.query in output.response.text)


class TestUsersOwnMetrics:
    def test_compute_alone_is_enough(self) -> None:
        rows = samples(["a"], ["a"], ["a"])
        results = evaluate(rows, [output(["a"], answer="yes"), output(error="x"), None], ["recall@1", OnlyCompute()])
        assert [r.name for r in results] == ["recall@1", "answer_length"]
        assert results[1].value == 1.0  # a failed answer stands there as an empty one
        assert results[1].scores is None
        assert results[1].signature == "answer_length|by:test_engine.OnlyCompute|v1"

    def test_score_one_alone_is_enough(self) -> None:
        (got,) = evaluate(samples(None, None), [output(answer="why? because"), output(answer="so")], [OnlyScoreOne()])
        assert (got.name, got.value, list(got.scores or ())) == ("only_score_one", 0.5, [1.0, 0.0])

    def test_metric_that_raises_on_one_sample_warns_and_fails_there(self) -> None:
        class Fragile(SampleMetric):
            target = TargetCategory.DIVERSITY

            def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
                return Score(1 / len(output.retrieved))

        with pytest.warns(AueporaWarning, match=r"metric 'fragile' raised ZeroDivisionError: .* \(sample 'q1'\)"):
            (got,) = evaluate(samples(None, None), [output(["a"]), output([])], [Fragile()])
        assert outcome(got) == ["scored", "measure_failed:raised_zero_division_error"]

    def test_compute_that_raises_leaves_other_metrics_alone(self) -> None:
        class Broken(OnlyCompute):
            def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
                raise KeyError("oops")

        with pytest.warns(AueporaWarning, match="metric 'answer_length' raised KeyError: 'oops'; it has no value"):
            results = evaluate(samples(["a"]), [output(["a"])], [Broken(), "recall@1"])
        assert [r.defined for r in results] == [False, True]

    def test_scores_a_compute_returns_become_outcomes(self) -> None:
        class WithScores(OnlyCompute):
            def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
                return MetricResult(self.name, self.target, 0.5, scores=[0.5, None])

        (got,) = evaluate(samples(None, None), [output(), output()], [WithScores()])
        assert isinstance(got.scores, Scores)
        assert outcome(got) == ["scored", "skipped:not_scored"]
        with pytest.raises(MetricDefinitionError, match="returned 2 scores for 1 samples"):
            evaluate(samples(None), [output()], [WithScores()])

    def test_a_compute_that_gives_nan_is_undefined(self) -> None:
        class Nan(OnlyCompute):
            def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
                return MetricResult(self.name, self.target, math.nan)

        (got,) = evaluate(samples(None), [output()], [Nan()])
        assert (got.value, got.defined) == (0.0, False)

    def test_return_values_of_compute(self) -> None:
        class Odd(OnlyCompute):
            def __init__(self, value: Any, scores: Any = None) -> None:
                super().__init__()
                self.value, self.scores = value, scores

            def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
                return MetricResult(self.name, self.target, self.value, {"skipped_empty_gold": 1}, scores=self.scores)

        (array,) = evaluate(samples(None, None), [output()] * 2, [Odd(np.float32(0.5), np.array([0.25, 0.75]))])
        assert (array.value, type(array.value), list(array.scores or ())) == (0.5, float, [0.25, 0.75])
        for value in (None, math.inf):
            (nothing,) = evaluate(samples(None), [output()], [Odd(value)])
            assert (nothing.value, nothing.defined) == (0.0, False)

    def test_a_batch_metric_that_raises_fails_alone(self) -> None:
        class Http404Error(Exception):
            pass

        class Broken(BatchMetric):
            target = TargetCategory.DIVERSITY

            def score(self, batch: Batch) -> Scores:
                raise Http404Error("gone")

        with pytest.warns(
            AueporaWarning, match=r"metric 'broken' raised Http404Error: gone \(sample 'q0' and 1 more\)"
        ):
            results = evaluate(samples(["a"], ["a"]), [output(["a"])] * 2, [Broken(), "recall@1"])
        assert outcome(results[0]) == ["measure_failed:raised_http_error"] * 2
        assert results[1].value == 1.0

    def test_options_and_conventions_show_in_the_signature_of_ones_own_metric(self) -> None:
        class Mine(BatchMetric):
            target = TargetCategory.DIVERSITY

            def __init__(self, n: int = 3) -> None:
                self.n = n

            def score(self, batch: Batch) -> Scores:
                return Scores.of(np.full(len(batch), self.active_conventions.min_relevance / 10 + self.n / 100))

        signatures = {
            evaluate(samples(None), [output()], [Mine(n)], conventions=Conventions.of(min_relevance=level))[0].signature
            for n in (3, 5)
            for level in (1, 2)
        }
        assert len(signatures) == 4

    def test_a_stream_cannot_feed_compute(self) -> None:
        with pytest.raises(MetricDefinitionError, match="needs all samples at once"):
            evaluate_stream([], [OnlyCompute()])

    def test_invalid_definitions(self) -> None:
        class NoTarget(SampleMetric):
            def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
                return Score(1.0)

        class BareNumber(NoTarget):
            target = TargetCategory.DIVERSITY

            def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
                return 1.0  # type: ignore[return-value]

        class TooFew(BatchMetric):
            target = TargetCategory.DIVERSITY

            def score(self, batch: Batch) -> Scores:
                return Scores.of([1.0])

        class NotAResult(OnlyCompute):
            def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
                return 0.5  # type: ignore[return-value]

        class WrongTarget(TooFew):
            target = "LATENCY"  # type: ignore[assignment]

        class NotScores(TooFew):
            def score(self, batch: Batch) -> Scores:
                return [1.0, 1.0]  # type: ignore[return-value]

        rows: list[tuple[Metric, str]] = [
            (WrongTarget(), "the target of metric 'wrong_target' is 'LATENCY', not a TargetCategory"),
            (NotScores(), "NotScores.score returned a list, not Scores"),
            (NoTarget(), "NoTarget has no 'target'"),
            (BareNumber(), r"score_one returned 1.0; return Score\(number\)"),
            (TooFew(), "metric 'too_few' gave 1 scores for 2 samples"),
            (NotAResult(), "compute returned 0.5, not a MetricResult"),
        ]
        for built, message in rows:
            with pytest.raises(MetricDefinitionError, match=message):
                evaluate(samples(None, None), [output(), output()], [built])

    def test_required_fields_of_a_sample_metric_become_skips(self) -> None:
        class NeedsReference(OnlyScoreOne):
            def required_fields(self) -> list[str]:
                return ["reference_answer"]

        rows = [sample(sample_id="a", answer="x"), sample(sample_id="b")]
        (got,) = evaluate(rows, [output(answer="why?")] * 2, [NeedsReference()])
        assert outcome(got) == ["scored", "skipped:no_reference"]


def test_further_references_and_null_text() -> None:
    """A reference list alone sets the reference answer; the best of all counts; text null is an empty text."""
    row = EvaluationSample("1", "q", reference_answers=["a cat", "the dog sat"])
    assert row.reference_answer == Response("a cat")
    outs = [output(answer="the dog sat")]
    assert evaluate([row], outs, ["rougeL_answer"])[0].value == 1.0
    empty = SystemOutputs(retrieved=[], response=Response(None))  # type: ignore[arg-type]
    assert evaluate([row], [empty], ["rougeL_answer"])[0].value == 0.0


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("gold", [frozenset, set], ids=["frozenset", "set"])
def test_behaviour_of_isdisjoint_used_by_the_lookup(kind: type, gold: type) -> None:
    """``isdisjoint`` stops at the first common id, and the iterator knows what is to come after it."""
    rest = iter(kind(["a", "b", "c", "b", "d"]))
    known, left = gold(["b", "d"]), []
    while not known.isdisjoint(rest):
        left.append(rest.__length_hint__())
    assert left == [3, 1, 0]


class Backwards(list[str]):
    """A list of its own kind."""

    def __iter__(self) -> Iterator[str]:
        return reversed(self)


def test_lists_of_another_kind_are_read_as_they_iterate() -> None:
    (got,) = evaluate_rankings([["a"]], [Backwards(["b", "c", "a"])], ["mrr"])
    assert got.value == 1.0
