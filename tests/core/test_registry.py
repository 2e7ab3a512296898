"""Metrics by name: specs, options, round trips, suggestions, third parties."""

from typing import Any

import pytest

from auepora_eval import AueporaWarning, Metric, SampleMetric, Score, TargetCategory, metric, register
from auepora_eval.core import registry
from auepora_eval.core.conventions import CONVENTION_NAMES
from auepora_eval.core.registry import Spec, canonical_name, metric_info, metric_infos, spec_of
from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import (
    BadTypeError,
    BadValueError,
    MetricDefinitionError,
    UnknownMetricError,
    UnknownOptionError,
)
from auepora_eval.metrics.additional import IntraListDiversity, MeanLatency, QuantileLatency
from auepora_eval.metrics.retrieval import MeanAveragePrecision, RecallAtK

ROUND_TRIPS: list[Spec] = [
    "recall@5",
    "mrr",
    "mrr@10",
    "ndcg",
    "empty_result_rate",
    "rougeL_answer",
    "mean_latency[retrieval]",
    "quantile_latency[end_to_end,0.99]",
    "intra_list_diversity@3",
    {"intra_list_diversity": {"top_k": None}},
    {"throughput": {"concurrency": 4}},
    {"map@10": {"conventions": "trec"}},
    {"map@10": {"conventions": "trec", "min_relevance": 2, "as": "strict"}},
    {"ndcg@10": {"gain_scheme": "exponential"}},
    {"rougeL_answer": {"use_stemmer": False}},
    {"aqwv": {"beta": 10.0, "p_fa": "collection", "corpus_size": 100, "form": "program"}},
    {"recall@5": {"conventions": "paper", "k_values": [1, 2]}},
]


@pytest.mark.parametrize("spec", ROUND_TRIPS, ids=str)
def test_spec_round_trip(spec: Spec) -> None:
    built = metric(spec)
    assert spec_of(built) == spec
    again = metric(spec_of(built))
    assert again == built
    assert again.name == built.name


def test_classes_and_specs_build_the_same() -> None:
    assert metric("recall@5") == RecallAtK(5) == RecallAtK(k=5)
    assert metric("map@10", conventions="trec") == MeanAveragePrecision(10, conventions="trec")  # type: ignore[arg-type]
    assert metric({"map": {"k": 10}}) == metric("map@10")
    assert metric({"recall@5": None}) == metric("recall@5")
    assert MeanLatency().name == "mean_latency[end_to_end]"
    assert metric("mean_latency") == MeanLatency()
    assert metric("quantile_latency[retrieval]") == QuantileLatency("retrieval", 0.95)
    assert metric("quantile_latency[retrieval,1]") == QuantileLatency("retrieval", 1)
    assert QuantileLatency(quantile=1).name == "quantile_latency[end_to_end,1.0]"
    assert metric("intra_list_diversity@3") == IntraListDiversity(top_k=3)
    assert IntraListDiversity().name == "intra_list_diversity@5"


MISTAKES: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ("recal@5", {}, UnknownMetricError, "unknown metric 'recal'; did you mean 'recall'?"),
    ("zzz", {}, UnknownMetricError, "unknown metric 'zzz'; `auepora metrics` lists them all"),
    ("recall", {}, BadValueError, "metric 'recall' needs its option 'k': write 'recall@5'"),
    ("recall@five", {}, BadValueError, "cannot read the cut-off of 'recall@five': 'five' is not an integer"),
    ("recall@", {}, BadValueError, "cannot read the cut-off of 'recall@': '' is not an integer"),
    ("recall@5@3", {}, BadValueError, "cannot read the metric 'recall@5@3'; write name, name@k, name[key] or module:Class; options in a mapping, as in {'ndcg@10': {'gain_scheme': 'linear'}}"),
    ("llm-rubric", {}, BadValueError, "cannot read the metric 'llm-rubric'; that of promptfoo is closest to 'judge_metric' here"),
    ("rougeL_answer@3", {}, BadValueError, "metric 'rougeL_answer' has no cut-off: write 'rougeL_answer'"),
    ("recall[x]", {}, BadValueError, "cannot read the metric 'recall[x]'; write 'recall@10'"),
    ("quantile_latency[a,b]", {}, BadValueError, "cannot read the metric 'quantile_latency[a,b]': 'b' is not a number"),
    (
        "quantile_latency[a,0.5,c]",
        {},
        BadValueError,
        "cannot read the metric 'quantile_latency[a,0.5,c]'; write 'quantile_latency[end_to_end,0.95]'",
    ),
    ("mean_latency[]", {}, BadValueError, "cannot read the metric 'mean_latency[]'; write 'mean_latency[end_to_end]'"),
    ("recall@5", {"k": 3}, BadValueError, "metric 'recall@5' names 'k' twice, in its name and in its options"),
    ("err@20", {}, BadValueError, "metric 'err@20' needs its option 'max_grade': give 'max_grade', after -m as err@20:max_grade=..."),
    ("recall@5", {"depht": 3}, UnknownOptionError, "metric 'recall' has no option 'depht'; did you mean 'depth'?"),
    (
        "recall@5",
        {"zzz": 3},
        UnknownOptionError,
        "metric 'recall' has no option 'zzz'; its options are: as, conventions, k; and its conventions: "
        + ", ".join(sorted(CONVENTION_NAMES)),
    ),
    ("throughput", {"zzz": 3}, UnknownOptionError, "metric 'throughput' has no option 'zzz'; its options are: as, by, concurrency, conventions, timing_key"),
    ("ndcg@5", {"gain_sheme": "linear"}, UnknownOptionError, "metric 'ndcg' has no option 'gain_sheme'; did you mean 'gain_scheme'?"),
    ("ndcg@5", {"gain_scheme": "cubic"}, BadValueError, "metric 'ndcg@5': gain_scheme must be one of binary, exponential, linear; not 'cubic'"),
    ({"recall@5": 3}, {}, BadTypeError, "the options of metric 'recall@5' must be a mapping, not 3"),
    ({"a": {}, "b": {}}, {}, BadValueError, "a metric spec is one name with its options, not {'a': {}, 'b': {}}"),
    (5, {}, BadTypeError, "a metric is given by name, by {name: options} or as a Metric object, not as 5"),
    ("recall@5", {"as": ""}, BadValueError, "a metric cannot be called ''"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "options", "kind", "message"), MISTAKES, ids=[row[3][:60] for row in MISTAKES])
def test_mistakes_are_explained(spec: Any, options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        metric(spec, **options)
    assert str(caught.value) == message


SPELLINGS = [  # theirs, ours
    ("nDCG@10", "ndcg@10"),
    ("P@5", "precision@5"),
    ("AP", "map"),
    ("AP@100", "map@100"),
    ("AP(rel=2)", {"map": {"min_relevance": 2}}),
    ("RR", "mrr"),
    ("RR(rel=2)@10", {"mrr@10": {"min_relevance": 2}}),
    ("R@5", "recall@5"),
    ("Success@1", "hit_rate@1"),
    ("RBP(p=0.5)", {"rbp": {"p": 0.5}}),
    ("RBP(p=0.5,rel=2)", {"rbp": {"p": 0.5, "min_relevance": 2}}),
    ("Rprec", "r_precision"),
    ("Bpref", "bpref"),
    ("Judged@10", "judged@10"),
    ("P_10", "precision@10"),
    ("ndcg_cut_10", "ndcg@10"),
    ("map_cut_5", "map@5"),
    ("recall_100", "recall@100"),
    ("success_5", "hit_rate@5"),
    ("recip_rank", "mrr"),
    ("F1@5", "f1@5"),
    ("nDCG(dcg='exp-log2')@5", {"ndcg@5": {"gain_scheme": "exponential"}}),
    ("nDCG(dcg=log2)", {"ndcg": {"gain_scheme": "linear"}}),
]
NOT_OURS = ["Accuracy@5", "nDCG(dcg='ln')@5", "AP(rel=two)", "AP(cutoff=5)"]


@pytest.mark.parametrize("theirs", NOT_OURS)
def test_unequal_names_are_not_aliases(theirs: str) -> None:
    assert canonical_name(theirs) is None
    with pytest.raises((UnknownMetricError, BadValueError)):
        metric(theirs)


@pytest.mark.parametrize(("theirs", "ours"), SPELLINGS, ids=[row[0] for row in SPELLINGS])
def test_other_spellings_are_understood(theirs: str, ours: Spec) -> None:
    assert spec_of(metric(theirs)) == ours
    assert metric_info(theirs) == metric_info(metric(ours).name)


def test_a_metric_object_passes_through() -> None:
    built = RecallAtK(5)
    assert metric(built) is built
    with pytest.raises(BadValueError, match="already has its own"):
        metric(built, k=3)


def test_patterns_of_names() -> None:
    patterns = {name: info.pattern for name, info in metric_infos().items()}
    assert patterns["recall"] == "recall@k"
    assert patterns["mrr"] == "mrr[@k]"
    assert patterns["mean_latency"] == "mean_latency[timing_key]"
    assert metric_info("recall@5").cls is RecallAtK


class _Shouting(SampleMetric):
    target = TargetCategory.GENERATION_CORRECTNESS

    def __init__(self, mark: str = "!") -> None:
        self.mark = mark

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        assert output.response is not None
        return Score(self.mark in output.response.text)


def test_registering_one_of_your_own(monkeypatch: pytest.MonkeyPatch) -> None:
    metric_infos()
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))
    register("shouting", keys=("mark",))(_Shouting)
    built = metric({"shouting": {"mark": "?", "conventions": "paper", "as": "asking"}})
    assert (built.name, spec_of(built)) == ("asking", {"shouting[?]": {"conventions": "paper", "as": "asking"}})
    register("shouting")(_Shouting)  # the same class again, as a reloaded module does
    with pytest.raises(MetricDefinitionError, match="two metrics are called 'shouting'"):
        register("shouting")(RecallAtK)


def test_the_registered_name_is_the_metrics_name(monkeypatch: pytest.MonkeyPatch) -> None:
    metric_infos()
    monkeypatch.setattr(registry, "_METRICS", dict(registry._METRICS))

    @register("mentions_source")
    class Mentions(_Shouting):
        def __init__(self, word: str = "source", at_least: int = 1) -> None:
            self.word, self.at_least = word, at_least

    assert metric("mentions_source").name == "mentions_source"
    plain, strict = metric("mentions_source"), metric("mentions_source", at_least=2)
    assert isinstance(plain, SampleMetric)
    assert isinstance(strict, SampleMetric)
    assert plain.signature.differences(strict.signature) == ["at_least"]


def test_invalid_names() -> None:
    with pytest.raises(MetricDefinitionError, match="a metric cannot be called 'dup opt!'"):
        register("dup opt!")
    with pytest.raises(MetricDefinitionError, match="two metrics are called 'recall'"):
        register("recall")(_Shouting)


def test_unregistered_metric_has_no_spec() -> None:
    class Private(RecallAtK):
        pass

    with pytest.raises(MetricDefinitionError, match="Private is not registered"):
        spec_of(Private(5))
    assert (Private(5).name, Private(3).name) == ("private@5", "private@3")


def test_entry_points_are_loaded_once_and_named_on_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        value = "somebody.metrics"

        def load(self) -> None:
            raise ModuleNotFoundError("No module named 'somebody'")

    monkeypatch.setattr(registry, "_loaded", set())
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Entry()])
    with pytest.warns(AueporaWarning, match=r"'somebody\.metrics' cannot be loaded: No module named 'somebody'"):
        assert metric("recall@5").name == "recall@5"  # somebody else's mistake does not take ours down
    metric("recall@5")  # and is said once: warnings are errors here


def test_every_registered_class_is_a_metric() -> None:
    for info in metric_infos().values():
        assert issubclass(info.cls, Metric)
