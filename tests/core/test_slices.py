"""Slices: every result is broken down by label, metadata or function, for every way of computing it."""

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

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
from auepora_eval.core.metrics_base import with_name
from auepora_eval.core.slices import Slice, parse_slices, sample_value, sort_groups
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.metrics.wrappers import SlicedMetric

METRICS: list[Any] = ["token_f1", "bleu", "exact_match", {"noise_robustness": {"base": "exact_match"}}, "distinct_n"]


def made(n: int = 40, seed: int = 0) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    rng = random.Random(seed)
    samples: list[EvaluationSample] = []
    outputs: list[SystemOutputs | None] = []
    for i in range(n):
        labels: dict[str, Any] = {"lang": rng.choice(["de", "en", "fr"]), "tags": rng.sample(["a", "b", "c"], 2)}
        if i % 4:
            labels |= {"variant_of": f"q{i - i % 4}", "scenario": "typo"}
        answer, wanted = (" ".join(rng.choices(["one", "two", "three", "four"], k=4)) for _ in range(2))
        meta = {"source": {"kind": rng.choice(["wiki", "news", None])}, "n.o": i % 2}
        samples.append(EvaluationSample(f"q{i}", "?", reference_answer=Response(wanted), labels=labels, metadata=meta))
        failed = rng.random() < 0.1
        outputs.append(SystemOutputs([], Response(answer), error="timeout" if failed else None))
    return samples, outputs


def subset(data: Any, keep: Any) -> tuple[list[EvaluationSample], list[SystemOutputs | None]]:
    pairs = [(sample, output) for sample, output in zip(*data, strict=True) if keep(sample)]
    return [sample for sample, _ in pairs], [output for _, output in pairs]


def same(one: MetricResult, other: MetricResult) -> None:
    assert (one.value, one.defined, one.details, one.interval) == (
        other.value, other.defined, other.details, other.interval
    )  # fmt: skip


def test_a_slice_equals_the_metric_on_the_subset() -> None:
    data = made()
    specs = ["token_f1", "bleu", "exact_match", "distinct_n"]
    for result in evaluate(*data, specs, slices=["labels.lang"]):
        assert list(result.slices["labels.lang"]) == ["de", "en", "fr"]
        for group, part in result.slices["labels.lang"].items():
            inside = subset(data, lambda sample, group=group: sample.labels["lang"] == group)
            (alone,) = evaluate(*inside, [result.name])
            # Who belongs together is numbered anew; with the same clusters the interval is the same.
            same(part, alone)


@given(st.integers(0, 30), st.integers(0, 10_000))
def test_groups_add_up_to_the_whole(n: int, seed: int) -> None:
    data = made(n, seed)
    (result,) = evaluate(*data, ["exact_match"], slices={"lang": lambda sample: sample.labels["lang"]})
    parts = result.slices["lang"].values()
    assert sum(part.details["num_samples"] for part in parts) == result.details["num_samples"]
    total = sum(part.value * part.details["num_samples"] for part in parts)
    assert total == pytest.approx(result.value * result.details["num_samples"])


def test_slice_of_variants_keeps_their_parents() -> None:
    samples = [
        EvaluationSample("q", "?", reference_answer=Response("x"), labels={"lang": "en"}),
        EvaluationSample("n", "?", reference_answer=Response("x"), labels={"lang": "de", "variant_of": "q", "scenario": "typo"}),
    ]  # fmt: skip
    outputs = [SystemOutputs([], Response("x")), SystemOutputs([], Response("y"))]
    robust = {"noise_robustness": {"base": "exact_match"}}
    (result,) = evaluate(samples, outputs, [robust], slices="labels.lang")
    groups = result.slices["labels.lang"]
    assert (groups["de"].value, groups["de"].defined, groups["de"].details["base_score"]) == (0.0, True, 1.0)
    assert not groups["en"].defined
    (alone,) = evaluate(samples, outputs, [SlicedMetric(robust, {"labels.lang": "de"})])
    assert (alone.value, alone.defined, alone.details["base_score"]) == (0.0, True, 1.0)
    assert list(alone.outcomes or ()) == ["skipped:other_slice", "scored"]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 7},
        pytest.param({"executor": "processes", "workers": 2, "batch_size": 7}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_slices_are_equal_for_all_executors(options: dict[str, Any]) -> None:
    data = made()
    slices: list[Any] = ["labels.lang", "metadata.source.kind", {"late": lambda sample: int(sample.sample_id[1:]) > 20}]
    whole = evaluate(*data, METRICS, slices=slices)
    assert evaluate(*data, METRICS, slices=slices, **options) == whole
    pairs = list(zip(*data, strict=True))
    assert evaluate_stream(pairs, METRICS, slices=slices, **options) == whole
    folded = evaluate_stream(pairs, METRICS, slices=slices, keep_scores=False, **options)
    for one, other in zip(folded, whole, strict=True):
        for name, groups in other.slices.items():
            assert list(one.slices[name]) == list(groups)
            for group, part in groups.items():
                again = one.slices[name][group]
                assert (again.value, again.defined) == (part.value, part.defined)
                assert again.details["num_samples"] == part.details["num_samples"]


def test_every_kind_of_slice() -> None:
    data = made(12)
    slices: list[Any] = [
        "labels.tags",
        "metadata.n.o",
        "metadata.source.kind",
        {"early": lambda s: s.sample_id < "q3", "t": "labels.tags"},
    ]
    (result,) = evaluate(*data, ["exact_match"], slices=[*slices, Slice("one", lambda s: "x")])
    groups = {name: {group: part.details["num_scored"] + part.details["num_failed"] for group, part in found.items()}
              for name, found in result.slices.items()}  # fmt: skip
    assert sum(groups["labels.tags"].values()) == 24  # each sample has two of three tags
    assert groups["t"] == groups["labels.tags"]
    assert groups["metadata.n.o"] == {"0": 6, "1": 6}
    assert set(groups["metadata.source.kind"]) <= {"news", "wiki", "(none)"}
    assert list(groups["metadata.source.kind"])[-1] == "(none)"
    assert set(groups["early"]) == {"false", "true"}
    assert groups["one"] == {"x": 12}


def test_failures_and_skips_per_group() -> None:
    samples = [EvaluationSample(str(i), "?", labels={"lang": "en"}) for i in range(3)]
    samples[0].reference_answer = samples[1].reference_answer = Response("x")
    outputs = [SystemOutputs([], Response("x")), SystemOutputs([], error="timeout"), SystemOutputs([], Response("x"))]
    (result,) = evaluate(samples, outputs, ["exact_match"], slices="labels.lang")
    part = result.slices["labels.lang"]["en"]
    assert part.value == 1 / 2
    assert (part.details["failed_timeout"], part.details["skipped_no_reference"]) == (1, 1)
    assert part.details["value_completed"] == 1
    assert part.interval is not None


def test_json_has_the_slices() -> None:
    results = evaluate(*made(8), ["exact_match"], slices="labels.lang")
    (entry,) = results.to_dict()["results"]
    assert set(entry["slices"]) == {"labels.lang"}
    for part in entry["slices"]["labels.lang"].values():
        assert set(part) == {"value", "interval", "details"}
    assert '"labels.lang"' in results.to_json()


class Count(Metric):
    """A metric that only computes."""

    name, target = "count", TargetCategory.DIVERSITY

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        return MetricResult(self.name, self.target, len(samples))


def test_a_metric_that_only_computes_has_slices_too() -> None:
    samples, outputs = made(12)
    (result,) = evaluate(samples, outputs, [Count()], slices="labels.lang")
    assert sum(part.value for part in result.slices["labels.lang"].values()) == 12
    (alone,) = evaluate(samples, outputs, [SlicedMetric(Count(), {"labels.lang": "de"})])
    assert alone.value == sum(sample.labels["lang"] == "de" for sample in samples)


BAD = [  # slices, message, why
    ("labels.langg", r"no sample has 'labels.langg' to slice by; did you mean 'lang'\?", "misspelt"),
    ("metadata.zzzzz", r"no sample has 'metadata.zzzzz'.*its metadata are n.o, source", "nothing like it"),
    ("lang", "cannot slice by 'lang'; write 'labels.<key>'", "neither label nor metadata"),
    (["labels.lang", "labels.lang"], "two slices are called 'labels.lang'", "twice the same"),
    (len, "a function needs a name to slice by", "a function alone"),
    ([5], "a slice is a path such as 'labels.lang'", "no slice"),
    ({"x": 5}, "slice 'x' needs a name and a path or a function", "no function"),
    ({"x": lambda sample: 1 / 0}, "slice 'x' raised ZeroDivisionError on sample 'q0'", "a function that raises"),
]


@pytest.mark.parametrize(("slices", "message"), [row[:2] for row in BAD], ids=[row[2] for row in BAD])
def test_invalid_slices(slices: Any, message: str) -> None:
    with pytest.raises((BadValueError, BadTypeError), match=message):
        evaluate(*made(4), ["exact_match"], slices=slices)


def test_too_many_groups_are_refused() -> None:
    with pytest.raises(BadValueError, match="more than 500 groups"):
        evaluate(*made(600), ["exact_match"], slices={"id": lambda sample: sample.sample_id})


def test_groups_come_in_order() -> None:
    assert sort_groups(["b", "10", "(none)", "2", "a", "0.5"]) == ["0.5", "2", "10", "a", "b", "(none)"]


def test_paths() -> None:
    one = EvaluationSample("1", "?", labels={"a": 1}, metadata={"b": {"c": 2}, "d.e": 3, "f": [1]})
    paths = ("labels.a", "metadata.b.c", "metadata.d.e", "metadata.f.g", "labels.z")
    assert [sample_value(one, path) for path in paths] == [1, 2, 3, None, None]
    assert [one.name for one in parse_slices("labels.a")] == ["labels.a"]


class TestSlicedMetric:
    def test_it_is_the_metric_on_the_subset(self) -> None:
        data = made()
        (sliced,) = evaluate(*data, [SlicedMetric("token_f1", lambda sample: sample.labels["lang"] == "de")])
        inside = subset(data, lambda sample: sample.labels["lang"] == "de")
        (alone,) = evaluate(*inside, ["token_f1"])
        assert (sliced.value, sliced.interval) == (alone.value, alone.interval)
        assert [score for score in sliced.scores or () if score is not None] == list(alone.scores or ())
        assert sliced.details["skipped_other_slice"] == 40 - len(inside[0])

    def test_conditions(self) -> None:
        data = made()
        conditions = [{"labels.lang": ["de", "fr"]}, {"labels.tags": "a"}, {"labels.lang": "de", "metadata.n.o": 1}]
        by_hand: list[Any] = [
            lambda sample: sample.labels["lang"] in ("de", "fr"),
            lambda sample: "a" in sample.labels["tags"],
            lambda sample: sample.labels["lang"] == "de" and sample.metadata["n.o"] == 1,
        ]
        for where, keep in zip(conditions, by_hand, strict=True):
            (sliced,) = evaluate(*data, [metric("sliced", base="exact_match", where=where)])
            assert sliced.value == evaluate(*subset(data, keep), ["exact_match"])[0].value

    def test_name_of_a_sliced_metric(self) -> None:
        one = metric("sliced", base="recall@5", where={"labels.lang": ["de", "fr"]})
        assert one.name == "sliced[recall@5,labels.lang=de/fr]"
        assert metric({"sliced": {"base": "bleu", "where": {"labels.a": 1}, "as": "mine"}}).name == "mine"

    def test_a_condition_that_raises_names_the_sample(self) -> None:
        with pytest.raises(BadValueError, match="raised KeyError on sample 'q0'"):
            evaluate(*made(4), [SlicedMetric("bleu", lambda sample: sample.labels["no such"])])

    def test_two_functions_have_two_signatures(self) -> None:
        short, long = (SlicedMetric("bleu", lambda sample, n=n: len(sample.query) > n) for n in (1, 2))
        other = SlicedMetric("bleu", lambda sample: len(sample.query) < 5)
        assert str(short.signature) != str(other.signature)
        assert long.name.startswith("sliced[bleu,")

    def test_invalid_arguments(self) -> None:
        with pytest.raises(BadTypeError, match="where must be"):
            SlicedMetric("bleu", 5)
        with pytest.raises(BadValueError, match="cannot select by 'lang'"):
            SlicedMetric("bleu", {"lang": "de"})

    def test_two_functions_do_not_share_their_scores(self) -> None:
        samples, outputs = made(6)
        for sample in samples:
            sample.labels["answerable"] = False
        always, never = (
            SlicedMetric(metric("negative_rejection_rate", judge=judge), {"labels.lang": ["de", "en", "fr"]})
            for judge in (lambda sample, output: True, lambda sample, output: False)
        )
        never = with_name(never, "never")
        answers = [SystemOutputs([], Response("x")) for _ in outputs]
        assert [result.value for result in evaluate(samples, answers, [always, never])] == [1.0, 0.0]

    def test_a_slice_of_it_is_the_metric_on_both_subsets(self) -> None:
        data = made()
        (sliced,) = evaluate(*data, [SlicedMetric("response_diversity", {"labels.tags": "a"})], slices="labels.lang")
        for group, part in sliced.slices["labels.lang"].items():
            inside = subset(data, lambda s, group=group: s.labels["lang"] == group and "a" in s.labels["tags"])
            assert part.value == evaluate(*inside, ["response_diversity"])[0].value

    def test_values_are_compared_as_slices_show_them(self) -> None:
        data = made()
        one, other = (metric("sliced", base="exact_match", where={"metadata.n.o": value}) for value in (1, "1"))
        assert evaluate(*data, [one])[0].value == evaluate(*data, [other])[0].value
        assert evaluate(*data, [one])[0].details["num_scored"] > 0
