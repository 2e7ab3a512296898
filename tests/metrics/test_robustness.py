"""Noise robustness and counterfactual consistency: pairs by hand, outcomes of pairs, any base metric, real figures."""

import json
import random
from typing import Any

import pytest

from auepora_eval import (
    EvaluationSample,
    Metric,
    MetricResult,
    Response,
    SystemOutputs,
    TargetCategory,
    evaluate,
    evaluate_stream,
    metric,
)
from auepora_eval.core.registry import Spec
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.robustness import CounterfactualConsistency, NoiseRobustness
from helpers.requirements import need_data

Row = tuple[str, str | None, str | None, str | None, str | None]
"""Id, whose variant, scenario, reference, answer; an answer of ``!`` is a failure of the system, ``None`` none."""


def pairs(*rows: Row) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    samples: list[EvaluationSample] = []
    outputs: list[SystemOutputs | None] = []
    for sample_id, base, scenario, reference, answer in rows:
        labels: dict[str, Any] = {} if base is None else {"variant_of": base}
        if scenario is not None:
            labels["scenario"] = scenario
        wanted = None if reference is None else Response(reference)
        samples.append(EvaluationSample(sample_id, "?", reference_answer=wanted, labels=labels))
        response = None if answer is None or answer == "!" else Response(answer)
        outputs.append(SystemOutputs([], response, error="timeout" if answer == "!" else None))
    return samples, outputs


def robustness(*rows: Row, **options: Any) -> MetricResult:
    (result,) = evaluate(*pairs(*rows), [metric("noise_robustness", **{"base": "exact_match", **options})])
    return result


RIGHT, WRONG, A, B = ("x", "x"), ("x", "y"), ("a", None, None), ("b", None, None)
ROWS: list[tuple[list[Row], float, float, float, str]] = [  # rows, value, base, noisy, why
    ([(*A, *RIGHT), ("a1", "a", "typo", *RIGHT)], 1, 1, 1, "noise does no harm"),
    ([(*A, *RIGHT), ("a1", "a", "typo", *WRONG)], 0, 1, 0, "noise ruins it"),
    (
        [(*A, *RIGHT), (*B, *WRONG), ("a1", "a", "typo", *RIGHT), ("b1", "b", "typo", *RIGHT)],
        2, 1 / 2, 1, "noise may help",
    ),
    (
        [(*A, *RIGHT), (*B, *WRONG), ("a1", "a", "typo", *WRONG), ("a2", "a", "paraphrase", *RIGHT)],
        1 / 2, 1, 1 / 2, "a base with two variants counts twice, one without any not at all",
    ),
    (
        [(*A, *RIGHT), ("a1", "a", "counterfactual", *WRONG), ("a2", "a", "typo", *RIGHT)],
        1, 1, 1, "other scenarios are not noise",
    ),
    (
        [(*A, *RIGHT), (*B, *RIGHT), ("a1", "a", "typo", *RIGHT), ("b1", "b", "typo", "x", "!")],
        1 / 2, 1, 1 / 2, "a failure on the noisy question counts at the worst value",
    ),
    (
        [(*A, *RIGHT), ("b", None, None, "x", "!"), ("a1", "a", "typo", *RIGHT), ("b1", "b", "typo", *WRONG)],
        1, 1, 1, "a pair whose base failed is left out: counting it at 0 would flatter",
    ),
    (
        [(*A, *RIGHT), (*B, None, "x"), ("a1", "a", "typo", *RIGHT), ("b1", "b", "typo", *WRONG)],
        1, 1, 1, "the base metric must score both",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "value", "base", "noisy"), [r[:4] for r in ROWS], ids=[r[4] for r in ROWS])
def test_by_hand(rows: list[Row], value: float, base: float, noisy: float) -> None:
    result = robustness(*rows)
    assert (result.value, result.defined) == (value, True)
    details = result.details
    assert (details["base_score"], details["noisy_score"]) == (base, noisy)
    assert details["difference"] == noisy - base
    assert details["num_noisy"] == details["num_samples"]


OUTCOMES: list[tuple[list[Row], str, str]] = [  # rows (the last is looked at), outcome, why
    ([(*A, *RIGHT)], "skipped:not_a_variant", "no variant"),
    ([(*A, *RIGHT), ("a1", "a", None, *RIGHT)], "skipped:not_a_variant", "a variant without a scenario"),
    ([("a1", "a", "typo", *RIGHT)], "skipped:no_base", "its base is not there"),
    ([("a", "a", "typo", *RIGHT)], "skipped:variant_cycle", "its own variant"),
    ([("b", "a", "typo", *RIGHT), ("a", "b", "typo", *RIGHT)], "skipped:variant_cycle", "variants of each other"),
    ([(*A, *RIGHT), (*A, *RIGHT), ("a1", "a", "typo", *RIGHT)], "skipped:two_bases", "two samples of that id"),
    ([(*A, None, "x"), (*B, *RIGHT), ("a1", "a", "typo", *RIGHT)], "skipped:base_skipped", "no reference for the base"),
    ([(*A, *RIGHT), ("a1", "a", "typo", None, "x")], "skipped:no_reference", "no reference for the variant"),
    ([("a", None, None, "x", "!"), ("a1", "a", "typo", *RIGHT)], "system_failed:base_failed", "the base failed"),
    ([(*A, *RIGHT), ("a1", "a", "typo", "x", "!")], "system_failed:timeout", "the variant failed"),
    ([(*A, *RIGHT), ("a1", "a", "typo", *RIGHT), ("a2", "a1", "typo", *RIGHT)], "scored", "a variant of a variant"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "outcome"), [r[:2] for r in OUTCOMES], ids=[r[2] for r in OUTCOMES])
def test_outcome_of_a_sample(rows: list[Row], outcome: str) -> None:
    result = robustness(*rows)
    assert result.outcomes is not None
    assert result.outcomes[-1] == outcome


ODD: list[tuple[Any, str]] = [
    ("Typo", "another case"), (" typo ", "blanks around it"), (["noisy", "typo"], "one of several"), (("typo",), "a tuple"),
]  # fmt: skip


@pytest.mark.parametrize("scenario", [row[0] for row in ODD], ids=[row[1] for row in ODD])
def test_scenario_as_string_or_list(scenario: Any) -> None:
    samples, outputs = pairs((*A, *RIGHT), ("a1", "a", "typo", *WRONG))
    samples[1].labels["scenario"] = scenario
    (result,) = evaluate(samples, outputs, [metric("noise_robustness", base="exact_match")])
    assert result.details["num_noisy"] == 1
    assert list(result.details["scenarios"]) == ["typo"]


def test_variant_of_a_variant_is_of_the_same_cluster() -> None:
    samples, outputs = pairs(
        (*A, *RIGHT), ("a1", "a", "typo", *WRONG), ("a2", "a1", "typo", *RIGHT), (*B, *RIGHT), ("c", "d", "x", *RIGHT), ("d", "c", "x", *RIGHT)
    )  # fmt: skip
    (result,) = evaluate(samples, outputs, ["exact_match"])
    assert result.details["interval"]["units"] == 3  # a and what comes of it, b, and two that name each other


def test_base_score_of_zero_gives_no_ratio() -> None:
    result = robustness((*A, *WRONG), ("a1", "a", "typo", *RIGHT))
    assert (result.value, result.defined) == (0.0, False)
    assert (result.details["base_score"], result.details["noisy_score"], result.details["difference"]) == (0, 1, 1)


def test_unused_scenario_gives_no_value() -> None:
    result = robustness((*A, *RIGHT), ("a1", "a", "typo", *RIGHT), noise_scenarios=["shouting"])
    assert (result.value, result.defined, result.details["scenarios"]) == (0.0, False, {})
    assert result.details["skipped_not_a_variant"] == 2


def test_whole_base_set_is_an_option() -> None:
    rows: list[Row] = [(*A, *RIGHT), (*B, *WRONG), ("a1", "a", "typo", *WRONG), ("z1", "z", "typo", *RIGHT)]
    result = robustness(*rows, base_set="all")
    assert (result.details["base_score"], result.details["noisy_score"], result.value) == (1 / 2, 1 / 2, 1)
    assert (result.details["num_base"], result.details["num_noisy"]) == (2, 2)
    assert robustness(*rows).value == 0  # by pairs there is one pair, and it is lost


def test_details_by_scenario() -> None:
    rows: list[Row] = [(*A, *RIGHT), (*B, *RIGHT)]
    rows += [("a1", "a", "typo", *WRONG), ("b1", "b", "typo", *RIGHT), ("a2", "a", "paraphrase", *RIGHT)]
    scenarios = robustness(*rows).details["scenarios"]
    assert {name: (one["value"], one["num_noisy"]) for name, one in scenarios.items()} == {
        "paraphrase": (1, 1),
        "typo": (1 / 2, 2),
    }
    assert scenarios["typo"]["difference"] == -1 / 2
    low, high = scenarios["typo"]["difference_interval"]
    assert low <= -1 / 2 <= high


def test_failed_measurement_excludes_the_pair_with_a_reason() -> None:
    samples, outputs = pairs((*A, *RIGHT), ("a1", "a", "typo", *RIGHT), (*B, *RIGHT), ("b1", "b", "typo", *RIGHT))
    for one in (samples[2], samples[1]):
        one.metadata["must_contain"] = 5  # no text: groundedness cannot be measured
    (result,) = evaluate(samples, outputs, [metric("noise_robustness", base="groundedness")])
    assert list(result.outcomes or ())[1::2] == ["measure_failed:bad_expectation", "measure_failed:base_failed"]
    assert not result.defined


class Longest(Metric):
    """A metric that only computes: the length of the longest answer."""

    name, target = "longest", TargetCategory.DIVERSITY

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        lengths = [len(output.response.text) for output in outputs if output.response is not None]
        return MetricResult(self.name, self.target, max(lengths, default=0))


class TestAnyBaseMetric:
    def test_corpus_bleu_is_computed_on_the_two_lists(self) -> None:
        rng = random.Random(1)
        words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "some", "other", "cats", "run"]
        rows: list[Row] = []
        for i in range(20):
            want = " ".join(rng.choices(words, k=8))
            rows.append((f"q{i}", None, None, want, want.replace("cat", "dog")))
            rows.append((f"n{i}", f"q{i}", "typo", want, " ".join(rng.sample(want.split(), 8))))
        samples, outputs = pairs(*rows)
        clean, noisy = (evaluate(samples[part::2], outputs[part::2], ["bleu"])[0].value for part in (0, 1))
        (result,) = evaluate(samples, outputs, [{"noise_robustness": {"base": "bleu"}}])
        assert result.value == pytest.approx(noisy / clean, abs=1e-12)
        assert result.interval is not None
        assert result.interval[0] < result.value < result.interval[1]

    @pytest.mark.parametrize("base", ["distinct_n", Longest()], ids=["a fold of its own", "compute alone"])
    def test_base_that_is_not_a_sum_is_reduced_on_each_side(self, base: Any) -> None:
        samples, outputs = pairs(
            (*A, "x", "one two two"), (*B, "x", "a b"), ("a1", "a", "typo", "x", "one one one one"), ("b1", "b", "typo", "x", "a")
        )  # fmt: skip
        (result,) = evaluate(samples, outputs, [metric("noise_robustness", base=base)])
        if base == "distinct_n":  # b1 has no bigram, so one pair is left: (1/3) / (2/2)
            assert result.value == pytest.approx(1 / 3)
        else:
            assert result.value == 15 / 11
        assert result.interval is None

    def test_retrieval_metric_follows_the_conventions(self) -> None:
        base = {"noise_robustness": {"base": "map@3"}}
        golden, paper = (metric(base, conventions=name) for name in ("golden", "paper"))
        assert "base.ap:gold" in str(getattr(golden, "signature"))  # noqa: B009 -- the type says Metric
        assert "base.ap:capped" in str(getattr(paper, "signature"))  # noqa: B009

    @pytest.mark.parametrize("base", ["noise_robustness", "counterfactual_consistency"])
    def test_paired_base_is_rejected(self, base: str) -> None:
        with pytest.raises(BadValueError, match="several samples"):
            NoiseRobustness(base)

    def test_invalid_options(self) -> None:
        with pytest.raises(BadTypeError, match="base must be a metric"):
            NoiseRobustness(5)
        with pytest.raises(BadValueError, match="noise_scenarios must name"):
            NoiseRobustness(noise_scenarios=())
        assert NoiseRobustness(noise_scenarios="typo").noise_scenarios == ("typo",)  # type: ignore[arg-type]


def test_variants_find_their_bases_across_batches_processes_and_streams() -> None:
    rng = random.Random(3)
    rows: list[Row] = [(f"q{i}", None, None, "x", rng.choice("xy")) for i in range(30)]
    rows += [(f"n{i}", f"q{i % 30}", "typo", "x", rng.choice("xxy!")) for i in range(60)]
    rng.shuffle(rows)
    samples, outputs = pairs(*rows)
    spec = {"noise_robustness": {"base": "exact_match"}}
    (whole,) = evaluate(samples, outputs, [spec])
    assert evaluate(samples, outputs, [spec], batch_size=7) == [whole]
    assert evaluate(samples, outputs, [spec], batch_size=7, executor="processes", workers=2) == [whole]
    (streamed,) = evaluate_stream(zip(samples, outputs, strict=True), [spec], batch_size=7, keep_scores=False)
    assert (streamed.value, streamed.details, streamed.interval) == (whole.value, whole.details, whole.interval)
    assert streamed.scores is None


def test_repeated_run_is_paired_repeat_by_repeat() -> None:
    samples, outputs = pairs(
        (*A, *RIGHT), (*A, *WRONG), ("a1", "a", "typo", *RIGHT), ("a1", "a", "typo", *RIGHT), ("a1", "a", "typo", *WRONG)
    )  # fmt: skip
    for one, repeat in zip(outputs, (0, 1, 0, 1, 2), strict=True):
        assert one is not None
        one.repeat = repeat
    (result,) = evaluate(samples, outputs, [{"noise_robustness": {"base": "exact_match"}}])
    assert (result.details["base_score"], result.details["noisy_score"]) == (2 / 3, 2 / 3)


class TestCounterfactualConsistency:
    def consistency(self, *rows: Row, **options: Any) -> MetricResult:
        (result,) = evaluate(*pairs(*rows), [metric("counterfactual_consistency", **options)])
        return result

    def test_base_answer_is_the_reference(self) -> None:
        rows: list[Row] = [("a", None, None, None, "red green"), ("a1", "a", "counterfactual", None, "green blue grey")]
        assert self.consistency(*rows).value == pytest.approx(2 / 5)  # one of three given, one of two wanted
        assert self.consistency(*rows, base="exact_match").value == 0
        assert self.consistency(*rows, base={"rouge1_answer": {"use_stemmer": False}}).value == pytest.approx(2 / 5)

    def test_mean_is_over_variants(self) -> None:
        rows: list[Row] = [
            ("a", None, None, None, "x"), ("a1", "a", "counterfactual", None, "x"),
            ("a2", "a", "counterfactual", None, "y"), ("a3", "a", "counterfactual", None, "x"),
            ("a4", "a", "typo", None, "y"),
        ]  # fmt: skip
        assert self.consistency(*rows).value == pytest.approx(2 / 3)
        assert self.consistency(*rows, counterfactual_scenarios=["counterfactual", "typo"]).value == 1 / 2

    @pytest.mark.parametrize(
        ("base", "variant", "outcome", "value"),
        [
            ("x", "!", "system_failed:one_failed", 0.0),
            ("!", "x", "system_failed:one_failed", 0.0),
            ("!", "!", "system_failed:one_failed", 0.0),
            (None, "x", "skipped:no_response", None),
            ("x", None, "skipped:no_response", None),
            ("x", "x", "scored", 1.0),
            ("", "", "scored", 1.0),
        ],
    )
    def test_either_failed_is_failed(
        self, base: str | None, variant: str | None, outcome: str, value: float | None
    ) -> None:
        result = self.consistency(("a", None, None, None, base), ("a1", "a", "counterfactual", None, variant))
        assert result.outcomes is not None
        assert result.scores is not None
        assert (result.outcomes[1], result.scores[1]) == (outcome, value)

    def test_without_its_base_a_variant_is_skipped(self) -> None:
        result = self.consistency(("a1", "a", "counterfactual", None, "x"))
        assert list(result.outcomes or ()) == ["skipped:no_base"]

    def test_metric_that_does_not_compare_answers_is_refused(self) -> None:
        for base in ("recall@5", "answer_relevance", "evidence_overlap", "noise_robustness"):
            with pytest.raises(BadValueError, match="compares answers"):
                CounterfactualConsistency(base)

    def test_user_s_own_similarity_that_only_computes(self) -> None:
        class SameLength(Longest):
            name = "same_length"

            def required_fields(self) -> list[str]:
                return ["reference_answer"]

            def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
                (sample,), (output,) = samples, outputs
                assert sample.reference_answer is not None
                assert output.response is not None
                same = len(sample.reference_answer.text) == len(output.response.text)
                return MetricResult(self.name, self.target, float(same))

        rows: list[Row] = [("a", None, None, None, "xy"), ("a1", "a", "counterfactual", None, "zz")]
        assert self.consistency(*rows, ("a2", "a", "counterfactual", None, "z"), base=SameLength()).value == 1 / 2


# Model, exact match and F1 on clean context, the same with half the documents noise, robustness of exact match by pairs.
RAGEN = [
    ("gemma-3-27b-it", 69.7, 78.0, 62.7, 70.9, 0.9038),
    ("openai_gpt-oss-20b", 73.0, 82.6, 58.0, 72.0, 0.8447),
]


@pytest.mark.parametrize(
    ("model", "clean_em", "clean_f1", "noisy_em", "noisy_f1", "want"), RAGEN, ids=[row[0] for row in RAGEN]
)
def test_language_models_under_noise(
    model: str, clean_em: float, clean_f1: float, noisy_em: float, noisy_f1: float, want: float
) -> None:
    folder = need_data("ragen_eval")
    samples, outputs = [], []
    for name in (f"perfect_context/{model}", f"noise_robustness/noise_0.5_{model}"):
        noisy = name.startswith("noise")
        for row in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["individual_results"]:
            question = row["question_id"]
            labels = {"variant_of": question, "scenario": "noise"} if noisy else {}
            samples.append(
                EvaluationSample(
                    f"{question}-noisy" if noisy else question,
                    row["question"],
                    reference_answer=Response(row["ground_truth"]),
                    labels=labels,
                )
            )
            outputs.append(SystemOutputs([], Response(row["generated_answer"])))
    specs: list[Spec] = [
        "exact_match",
        "token_f1",
        {"noise_robustness": {"base": "exact_match", "noise_scenarios": ["noise"]}},
    ]
    exact, f1, robust = evaluate(samples, outputs, specs, slices="labels.scenario")
    for result, clean, noisy_value in ((exact, clean_em, noisy_em), (f1, clean_f1, noisy_f1)):
        groups = result.slices["labels.scenario"]
        assert round(100 * groups["(none)"].value, 1) == clean
        assert round(100 * groups["noise"].value, 1) == noisy_value
    assert robust.details["num_noisy"] == 150
    assert round(robust.value, 4) == want
    assert robust.interval is not None
    assert robust.interval[0] < robust.value < robust.interval[1]
