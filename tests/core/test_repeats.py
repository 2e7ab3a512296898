"""Repeats: a sample's score is the mean of its repeats, and the interval speaks of samples, not of calls."""

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
from auepora_eval.core.errors import AlignmentError, BadValueError
from auepora_eval.core.repeats import evaluate_repeats


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
    for result, other in zip(once["results"], plain["results"], strict=True):
        if result["details"].get("interval", {}).get("method") == "bootstrap":
            del result["interval"], other["interval"]  # drawn by sample rather than by row: other draws
    assert {**once, "results": [r["value"] for r in once["results"]]} == {
        **plain,
        "results": [r["value"] for r in plain["results"]],
    }


def test_scores_are_means_per_sample_and_the_spread_is_told() -> None:
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

    from auepora_eval.stats.interval import mean_interval

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


def test_what_is_no_mean_is_computed_over_all_outputs() -> None:
    results = evaluate_repeats(SAMPLES, [lambda: FIRST, lambda: SECOND], ["bleu", "quantile_latency[end_to_end,0.5]"])
    pooled = evaluate([*SAMPLES, *SAMPLES], [*FIRST, *SECOND], ["bleu", "quantile_latency[end_to_end,0.5]"])
    assert [one.value for one in results] == [one.value for one in pooled]
    assert len(results[0].scores or ()) == len(SAMPLES)


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
