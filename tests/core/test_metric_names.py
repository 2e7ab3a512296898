"""Names of metrics: given to a constructor, set by a subclass, and made distinct within a plan."""

import copy
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import (
    AueporaEvaluator,
    EvaluationPlan,
    EvaluationSample,
    InMemoryDataset,
    Metric,
    MetricResult,
    Response,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
    evaluate,
    metric,
)
from auepora_eval.core.metric_metadata import REMOVED_HOOKS, REMOVED_SAMPLE_HOOKS
from auepora_eval.core.metrics_base import declare
from auepora_eval.core.other_tools import CLOSEST, ClosestMetric
from auepora_eval.core.registry import metric_info, spec_of
from auepora_eval.errors import BadValueError, MetricDefinitionError, UnknownMetricError, UnknownOptionError
from auepora_eval.metrics.additional import DistinctN
from auepora_eval.metrics.bleu_chrf import BleuScore
from auepora_eval.metrics.retrieval import RecallAtK
from auepora_eval.metrics.retrieval_metrics import PrecisionAtK
from helpers.requirements import REPO

SAMPLES = [EvaluationSample(str(place), "Who?") for place in range(2)]
OUTPUTS = [SystemOutputs([], Response("a b a b")), SystemOutputs([], Response("a b c"))]
VALUES = {1: 3 / 7, 2: 3 / 5}  # a, b, c of seven words; ab, ba, bc of five pairs


class Length(SampleMetric):
    target = TargetCategory.GENERATION_RELEVANCE
    range = (0.0, 100.0)

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        return Score(float(len(output.response.text if output.response else "")))


class LongLength(Length):
    def __init__(self) -> None:
        self.name = "my_length"


class MyRecall(RecallAtK):
    def __init__(self, k: int) -> None:
        super().__init__(k)
        self.name = f"my_recall@{k}"  # type: ignore[misc]  # the built-in class is frozen, its name is not


class Count(Metric):
    def __init__(self) -> None:
        self.name = "count"
        self.target = TargetCategory.DIVERSITY

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        return MetricResult(self.name, self.target, float(len(samples)))


NAMED = [  # metric, name, signature begins with, why
    (RecallAtK(5, name="mine"), "mine", "recall@5|", "a built-in metric"),
    (RecallAtK(k=5, name=""), "recall@5", "recall@5|", "no name is the metric's own"),
    (PrecisionAtK(5, name="mine"), "mine", "precision@5|p:k|", "a metric with conventions bound"),
    (metric("recall@5", name="mine"), "mine", "recall@5|", "by its spec"),
    (metric({"recall": {"k": 5, "as": "mine"}}), "mine", "recall@5|", "as: in a spec"),
    (metric("distinct_n[n=1]"), "distinct_n[n=1]", "distinct_n|", "a name that shows an option"),
    (Length(name="mine"), "mine", "length|", "a user's metric"),
    (LongLength(), "my_length", "my_length|", "a subclass that sets self.name"),
    (MyRecall(5), "my_recall@5", "my_recall@5|", "a subclass of a built-in metric that sets self.name"),
]


@pytest.mark.parametrize(("one", "name", "signature"), [row[:3] for row in NAMED], ids=[row[3] for row in NAMED])
def test_names(one: Any, name: str, signature: str) -> None:
    assert one.name == name
    assert str(one.signature).startswith(signature)
    for twin in (copy.copy(one), pickle.loads(pickle.dumps(one))):
        assert (twin.name, twin.signature) == (name, one.signature)


def test_a_name_changes_neither_signature_nor_equality() -> None:
    assert str(RecallAtK(5, name="mine").signature) == str(RecallAtK(5).signature)
    assert RecallAtK(5, name="mine") == RecallAtK(5)
    assert spec_of(RecallAtK(5, name="mine")) == {"recall@5": {"as": "mine"}}
    assert replace(RecallAtK(5), k=10).name == "recall@10"


@pytest.mark.parametrize("name", [5, ["mine"]])
def test_names_that_are_not_allowed(name: Any) -> None:
    with pytest.raises(BadValueError, match="a metric cannot be called"):
        RecallAtK(5, name=name)


class System:
    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> SystemOutputs:
        return OUTPUTS[int(sample.sample_id)]


def test_metrics_with_the_same_name_get_their_options_in_it() -> None:
    plan = EvaluationPlan([DistinctN(1), DistinctN(2), Count()])
    results = AueporaEvaluator(System(), plan).evaluate(InMemoryDataset("two", SAMPLES))
    assert {result.name: result.value for result in results} == {
        "distinct_n[n=1]": VALUES[1], "distinct_n[n=2]": VALUES[2], "count": 2.0,
    }  # fmt: skip
    again = evaluate(SAMPLES, OUTPUTS, [result.name for result in results if "[" in result.name])
    assert [result.value for result in again] == [VALUES[1], VALUES[2]]  # such a name can be asked for


def test_only_options_that_differ_are_in_the_name() -> None:
    specs: list[Any] = [{"exact_match": {"ignore_case": False, "ignore_articles": flag}} for flag in (True, False)]
    got = evaluate([EvaluationSample("1", "q", reference_answer=Response("a"))], OUTPUTS[:1], specs)
    assert [result.name for result in got] == [
        "exact_match[ignore_articles=true]",
        "exact_match[ignore_articles=false]",
    ]


def test_equal_metrics_stay_an_error() -> None:
    with pytest.raises(BadValueError, match="two metrics are called 'distinct_n'"):
        evaluate(SAMPLES, OUTPUTS, [DistinctN(1), DistinctN(1)])


@pytest.mark.parametrize("spec", ["distinct_n[n=]", "distinct_n[=1]", "distinct_n[n=1,n=2]"])
def test_names_with_invalid_options(spec: str) -> None:
    with pytest.raises(BadValueError, match="cannot read the metric"):
        metric(spec)


def test_a_plan_file_with_metrics_of_one_name(tmp_path: Path, auepora: Callable[..., tuple[int, str, str]]) -> None:
    (tmp_path / "data.jsonl").write_text('{"sample_id": "0", "query": "Who?"}\n{"sample_id": "1", "query": "Why?"}\n')
    (tmp_path / "out.jsonl").write_text(
        '{"sample_id": "0", "response": "a b a b"}\n{"sample_id": "1", "response": "a b c"}\n'
    )
    (tmp_path / "plan.yaml").write_text(
        "version: 1\ndataset: data.jsonl\noutputs: out.jsonl\nprimary: ['distinct_n[n=1]']\n"
        "metrics: [{distinct_n: {n: 1}}, {distinct_n: {n: 2}}]\ngates: ['distinct_n[n=1] >= 0.4']\nstore: runs.sqlite\n"
    )
    for _ in range(2):
        code, out, err = auepora("run", str(tmp_path / "plan.yaml"))
        assert code == 0, err
        assert f"{VALUES[1]:.4f}" in out
    code, out, _ = auepora("compare", "latest~1", "latest", "--all", "--store", str(tmp_path / "runs.sqlite"))
    assert code == 0
    assert "distinct_n[n=1]" in out
    assert "distinct_n[n=2]" in out


@pytest.mark.parametrize(("old", "new"), (REMOVED_HOOKS | REMOVED_SAMPLE_HOOKS).items())
def test_class_that_defines_a_removed_hook_is_refused(old: str, new: str) -> None:
    assert not hasattr(SampleMetric, old)
    with pytest.raises(TypeError, match=f"Mine defines '{old}', which is now called '{new}'") as caught:
        type("Mine", (SampleMetric,), {old: lambda self: {}})
    assert isinstance(caught.value, MetricDefinitionError)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"binary": True}, "Mine defines 'binary', which is now part of its metadata: metadata = declare(binary=...)"),
        ({"reference": "a paper"}, "metadata = declare(reference=...)"),
        ({"metadata": declare(binry=True)}, "declares 'binry', which metadata does not have; did you mean 'binary'?"),
        ({"metadata": {"binary": True}}, "Mine: write metadata = declare(...)"),
        ({"range": (0.0, None)}, "range must be two numbers, not (0.0, None); write float('inf') for no limit"),
    ],
    ids=["class attribute", "citation", "unknown field", "plain mapping", "open range"],
)
def test_invalid_metadata(body: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        type("Mine", (SampleMetric,), body)


def test_metadata_is_inherited_except_what_belongs_to_one_name() -> None:
    class Base(SampleMetric):
        range = (0.0, 5.0)
        metadata = declare(
            binary=True, output_skips=frozenset({"own"}), aliases={"tool": ("Base",)}, examples=("base",)
        )

        def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
            return Score(1.0)

    class Inherited(Base):
        metadata = declare(higher_is_better=False, output_skips=frozenset({"more"}))

    assert (Inherited.range, Inherited.higher_is_better) == ((0.0, 5.0), False)
    assert Inherited.metadata.binary
    assert Inherited.metadata.output_skips >= {"own", "more", "no_response"}
    assert (Base.metadata.examples, Inherited.metadata.examples, Inherited.metadata.aliases) == (("base",), (), {})


def test_page_of_names_in_other_tools_has_the_table() -> None:
    """The page has every name with the metric and the difference of the table, and no other row."""
    page = (REPO / "docs" / "other-tools.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| `([\w-]+)` \| `([\w@]+)` \| (.*) \|$", page, flags=re.MULTILINE)
    expected = [(one.tool, one.name, one.metric, one.differs) for one in CLOSEST]
    assert [(*row[:3], row[3].replace("`", "")) for row in rows] == expected


@pytest.mark.parametrize("closest", CLOSEST, ids=[f"{one.tool} {one.name}" for one in CLOSEST])
def test_a_name_of_another_tool_is_an_error_with_the_closest_metric(closest: ClosestMetric) -> None:
    assert metric_info(closest.metric.removesuffix("@k")).pattern.startswith(closest.metric)
    with pytest.raises(UnknownMetricError, match=f"closest.*'{closest.metric}'"):
        metric_info(closest.name)


def test_tools_that_mean_different_things() -> None:
    with pytest.raises(
        UnknownMetricError, match=r"'reverse_question_relevance' \(ragas\), 'llm_answer_relevance' \(deep"
    ):
        metric_info("answer_relevancy")


SAME_OPTION: list[tuple[str, Callable[[], Metric], Callable[[], Metric]]] = [
    ("in Python, of BLEU", lambda: BleuScore(tokenizer="char"), lambda: BleuScore(tokenize="char")),  # type: ignore[call-arg]
    ("by name, of BLEU", lambda: metric("bleu", tokenizer="char"), lambda: metric("bleu", tokenize="char")),
    (
        "in a plan, of ROUGE",
        lambda: metric({"rougeL_answer": {"tokenize": "unicode"}}),
        lambda: metric({"rougeL_answer": {"tokenizer": "unicode"}}),
    ),
]


@pytest.mark.parametrize(("other", "own"), [row[1:] for row in SAME_OPTION], ids=[row[0] for row in SAME_OPTION])
def test_tokenize_and_tokenizer_are_one_option(other: Callable[[], Metric], own: Callable[[], Metric]) -> None:
    assert other() == own()
    assert spec_of(other()) == spec_of(own())


def test_tokenize_and_tokenizer_are_not_given_together() -> None:
    with pytest.raises(BadValueError, match="'tokenizer' and 'tokenize' are the same option; give one of them"):
        metric("bleu", tokenizer="char", tokenize="13a")
    with pytest.raises(UnknownOptionError, match="no option 'tokenizer'"):
        metric("chrf", tokenizer="char")
