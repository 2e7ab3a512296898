"""Repeats: a sample's score is the mean of its repeats, and the interval is about samples, not calls."""

import math

import pytest

from auepora_eval import (
    Document,
    EvaluationSample,
    Metric,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
    evaluate,
)
from auepora_eval.core.results import coverage
from auepora_eval.engine.repeats import evaluate_repeats
from auepora_eval.errors import AlignmentError, BadValueError
from auepora_eval.gates import check_gates


def sample(name: str, gold: str, **labels: str) -> EvaluationSample:
    return EvaluationSample(
        name, f"{name}?", [Document(one) for one in gold], reference_answer=Response("yes it is"), labels=dict(labels)
    )


def output(ids: str, text: str = "yes it is", error: str | None = None, seconds: float = 1.0) -> SystemOutputs:
    found = [RetrievedDocument(Document(one), None, rank) for rank, one in enumerate(ids, 1)]
    return SystemOutputs(found, Response(text), {"end_to_end": seconds}, error=error)


SAMPLES = [sample("1", "a", lang="de"), sample("2", "ab", lang="de"), sample("3", "c", lang="en")]
FIRST = [output("a"), output("ax"), output("x")]
SECOND = [output("x"), output("ab"), output("x", "no")]


def test_one_repeat_is_the_same_as_none() -> None:
    metrics = ["recall@2", "token_f1", "bleu", "mean_latency[end_to_end]", "quantile_latency[end_to_end,0.5]"]
    once = evaluate_repeats(SAMPLES, [lambda: FIRST], metrics, slices="labels.lang").to_dict(per_query=True)
    plain = evaluate(SAMPLES, FIRST, metrics, slices="labels.lang").to_dict(per_query=True)
    for result in once["results"]:
        assert result["details"].pop("repeats")["count"] == 1
        for group in result["slices"]["labels.lang"].values():
            del group["details"]["repeats"]
    assert once == plain


def test_scores_are_means_per_sample_and_the_spread_is_reported() -> None:
    result = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: SECOND], ["recall@2"])[0]
    assert list(result.scores or ()) == [1 / 2, 3 / 4, 0]
    assert result.value == (1 / 2 + 3 / 4 + 0) / 3
    assert result.details["num_samples"] == 3
    spread = result.details["repeats"]
    assert spread["values"] == [(1 + 1 / 2 + 0) / 3, (0 + 1 + 0) / 3]
    # Variances of {1, 0}, {1/2, 1} and {0, 0} with n - 1: 1/2, 1/8 and 0.
    assert spread["sd_within_samples"] == pytest.approx(math.sqrt((1 / 2 + 1 / 8) / 3), abs=1e-15)
    assert spread["sd"] == pytest.approx((1 / 2 - 1 / 3) / math.sqrt(2), abs=1e-15)


def test_the_interval_is_that_of_the_means() -> None:
    result = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: SECOND], ["token_f1"])[0]
    import numpy as np

    from auepora_eval.stats.intervals import mean_interval

    interval = mean_interval(np.array(list(result.scores or ())), lowest=0, highest=1)
    assert interval is not None
    assert result.interval == (interval.low, interval.high)


def test_a_failed_repeat_counts_at_the_worst_and_is_counted() -> None:
    failing = [output("a", error="timeout"), SECOND[1], output("", error="timeout")]
    both = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: failing], ["recall@2"])[0]
    assert list(both.scores or ()) == [1 / 2, 3 / 4, 0]
    assert list(both.outcomes or ()) == ["scored", "scored", "scored"]
    assert both.details["repeats"]["num_system_failed"] == 2
    assert both.details["value_completed"] == (1 + 3 / 4 + 0) / 3
    wholly = evaluate_repeats(SAMPLES[:1], [lambda: failing[:1], lambda: failing[:1]], ["recall@2"])[0]
    assert list(wholly.outcomes or ()) == ["system_failed:timeout"]


NO_MEANS = [
    "bleu",
    "chrf",
    "distinct_n",
    "response_diversity",
    "throughput",
    "quantile_latency[end_to_end,0.5]",
    "quantile_latency[end_to_end,0.7]",
]
SPOKEN = [
    output("a", "yes it is indeed so", seconds=1.0),
    output("ax", "it is what it is", seconds=2.0),
    output("x", "no it was never so", seconds=5.0),
]
SPOKEN_AGAIN = [
    output("a", "yes it is", seconds=3.0),
    output("b", "perhaps it is not what it was", seconds=4.0),
    output("x", "yes it is so", seconds=0.5),
]


@pytest.mark.parametrize("name", [*NO_MEANS, "recall@2", "token_f1", "mean_latency[end_to_end]"])
def test_identical_repeat_changes_nothing(name: str) -> None:
    (once,) = evaluate(SAMPLES, SPOKEN, [name], slices="labels.lang")
    (thrice,) = evaluate_repeats(SAMPLES, [lambda: SPOKEN] * 3, [name], slices="labels.lang")
    assert thrice.value == pytest.approx(once.value, rel=1e-15)
    assert thrice.defined
    assert (thrice.interval is None) == (once.interval is None)
    repeats = thrice.details.pop("repeats")
    assert repeats["values"] == [once.value] * 3
    intervals = once.details.pop("interval", None), thrice.details.pop("interval", None)
    assert (intervals[0] is None) == (intervals[1] is None)
    assert thrice.details == pytest.approx(once.details)
    for group, part in thrice.slices["labels.lang"].items():
        assert part.value == pytest.approx(once.slices["labels.lang"][group].value, rel=1e-15)


@pytest.mark.parametrize("name", NO_MEANS)
def test_other_reducers_are_means_of_the_repeats(name: str) -> None:
    (both,) = evaluate_repeats(SAMPLES, [lambda: SPOKEN, lambda: SPOKEN_AGAIN], [name])
    each = [evaluate(SAMPLES, outputs, [name])[0] for outputs in (SPOKEN, SPOKEN_AGAIN)]
    there = [one.value for one in each if one.defined]
    assert both.value == pytest.approx(math.fsum(there) / len(there), rel=1e-15)
    assert len(both.scores or ()) == both.details["num_samples"] + both.details["num_skipped"] == len(SAMPLES)


def test_interval_of_other_reducers_resamples_with_all_repeats() -> None:
    many = [sample(str(n), "a") for n in range(40)]
    words = ["yes", "it", "is", "so", "indeed", "and", "it", "was", "what", "it", "seemed", "to", "be"]
    first, second = (
        [output("a", " ".join(words[n % k :] + words[: n % k]), seconds=1.0 + (n * k) % 7) for n in range(40)]
        for k in (5, 7)
    )
    for name in ("bleu", "quantile_latency[end_to_end,0.5]"):
        (once,) = evaluate(many, first, [name])
        (twice,) = evaluate_repeats(many, [lambda: first, lambda: second], [name])
        assert twice.interval is not None
        assert twice.interval[0] <= twice.value <= twice.interval[1]
        assert twice.details["interval"]["method"] == "bootstrap"
        assert twice.details["interval"]["units"] == 40  # samples, not calls
        (copied,) = evaluate_repeats(many, [lambda: first] * 2, [name])
        if name == "bleu":
            assert copied.interval == pytest.approx(once.interval)
    (none,) = evaluate_repeats(many, [lambda: first, lambda: second], ["distinct_n"])
    assert none.interval is None


def test_details_that_differ_between_repeats_are_means_or_left_out() -> None:
    pair = [sample("base", "a"), sample("noisy", "a", variant_of="base", scenario="typo")]
    repeats = [[output("a"), output("x")], [output("a"), output("a")]]
    spec = {"noise_robustness": {"base": "recall@1"}}
    (result,) = evaluate_repeats(pair, [lambda: repeats[0], lambda: repeats[1]], [spec])
    assert (result.details["base_score"], result.details["noisy_score"]) == (1.0, 0.5)
    assert result.details["scenarios"]["typo"]["value"] == 0.5


def test_proportions_of_differing_repeats_are_not_binary() -> None:
    """A sample right in one of two repeats is 1/2: the interval of zeros and ones does not apply."""
    (mixed,) = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: SECOND], ["hit_rate@1"])
    assert list(mixed.scores or ()) == [1 / 2, 1, 0]
    assert mixed.details["interval"]["method"] == "t"
    (agreed,) = evaluate_repeats(SAMPLES, [lambda: FIRST] * 2, ["hit_rate@1"])
    assert agreed.details["interval"]["method"] == "wilson"


class TestFailedCalls:
    FAILING = [output("", error="timeout: 5 s"), SECOND[1], output("", error="raised: X")]  # noqa: RUF012

    def test_tables_show_failed_calls(self) -> None:
        results = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: self.FAILING], ["recall@2", "mean_latency"])
        assert results[0].details["num_system_failed"] == 0  # every sample was answered at least once
        assert coverage(results[0]) == "6 calls, 2 failed, counted worst (raised 1, timeout 1)"
        assert coverage(results[1]) == "6 calls, 2 failed, left out (raised 1, timeout 1)"
        assert "6 calls, 2 failed" in results.to_markdown()

    def test_failed_calls_together_with_failed_samples(self) -> None:
        (result,) = evaluate_repeats(SAMPLES[:1], [lambda: self.FAILING[:1]] * 2, ["recall@2"])
        assert coverage(result) == (
            "1 of 1; 1 failed, counted worst (timeout); 2 calls, 2 failed, counted worst (timeout)"
        )

    def test_no_failed_calls(self) -> None:
        assert coverage(evaluate_repeats(SAMPLES, [lambda: FIRST] * 2, ["recall@2"])[0]) == ""

    def test_a_gate_on_coverage_counts_calls(self) -> None:
        (result,) = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: self.FAILING], ["recall@2"])
        (coverage,) = check_gates([f"coverage({result.name}) > 0.5"], [result])
        assert coverage.value == 4 / 6


def test_failed_measurements_of_one_repeat_have_bounds() -> None:
    vectors = [
        [Document(str(n), metadata={"embedding": vector}) for n, vector in enumerate(both)]
        for both in ([[1, 0], [0, 1]], [[1, 0], [0, 0]])
    ]
    right, wrong = (SystemOutputs([RetrievedDocument(doc, None, 1) for doc in docs]) for docs in vectors)
    plain = [EvaluationSample("1", "q"), EvaluationSample("2", "q")]
    (result,) = evaluate_repeats(plain, [lambda: [right, right], lambda: [right, wrong]], ["intra_list_diversity@5"])
    assert result.value == 1.0
    assert result.details["bounds"] == [(1 + (1 + 0) / 2) / 2, (1 + (1 + 2) / 2) / 2]


def test_variants_are_paired_within_a_repeat() -> None:
    pair = [sample("base", "a"), sample("noisy", "a", variant_of="base", scenario="typo")]
    spec = {"noise_robustness": {"base": "recall@1"}}
    result = evaluate_repeats(pair, [lambda: [output("a"), output("x")], lambda: [output("a"), output("a")]], [spec])[0]
    assert result.value == (0 + 1) / (1 + 1)


def test_slices_take_means_of_their_rows() -> None:
    result = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: SECOND], ["recall@2"], slices="labels.lang")[0]
    assert result.slices["labels.lang"]["de"].value == (1 / 2 + 3 / 4) / 2


class Longest(Metric):
    name = "longest"
    target = TargetCategory.GENERATION_RELEVANCE

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        return MetricResult(
            self.name, self.target, float(max(len(one.response.text) for one in outputs if one.response))
        )


def test_a_metric_that_only_computes_is_averaged_over_repeats() -> None:
    longer = [output("a", "yes it is indeed"), *FIRST[1:]]
    result = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: longer], [Longest()])[0]
    assert result.value == (9 + 16) / 2
    assert result.details["repeats"]["values"] == [9, 16]
    assert result.interval is None


def test_too_few_or_too_many_outputs_are_an_error() -> None:
    with pytest.raises(AlignmentError):
        evaluate_repeats(SAMPLES, [lambda: FIRST[:2]], ["recall@2"])
    with pytest.raises(AlignmentError):
        evaluate_repeats(SAMPLES[:2], [lambda: FIRST], ["recall@2"])
    with pytest.raises(BadValueError, match="at least one repeat"):
        evaluate_repeats(SAMPLES, [], ["recall@2"])
