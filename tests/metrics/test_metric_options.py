"""Options of every registered metric: each number declares its range, and Python, plans and commands refuse alike."""

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest

from auepora_eval import (
    EvaluationSample,
    Metric,
    MetricResult,
    SampleMetric,
    Score,
    SystemOutputs,
    TargetCategory,
    metric,
)
from auepora_eval.cli.options import parse_spec
from auepora_eval.core.registry import metric_infos
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.options import Ge, PositiveInt, check_options, option_types
from helpers.declared_options import unbounded_numbers, wrong_values

REQUIRED: dict[str, Any] = {
    "base": "token_f1",
    "budget": 5,
    "embed_fn": {"python": "helpers.letter_vectors:letters"},
    "k": 5,
    "max_grade": 3,
    "model": "org/name",
    "of": "exact_match",
    "prompt": "Is it right?",
    "where": {"labels.topic": "x"},
}
"""Values of options without a default."""
OF_INNER_METRIC = {"threshold", "correct_from", "faithful_from", "at_least"}
"""Numbers whose range is that of another metric, which is checked when both are known."""


def wrong_options() -> Iterator[tuple[str, str, Any]]:
    """Every metric with every option, and a value outside its declared type."""
    for name, info in metric_infos().items():
        if info.cls.__module__.startswith("auepora_eval."):
            for option in info.options:
                yield from ((name, option, value) for value in wrong_values(option_types(info.cls)[option]))


WRONG = list(wrong_options())


def spec_with(name: str, option: str, value: Any) -> dict[str, Any]:
    parameters = metric_infos()[name].options
    named = {"name": "mine"} if metric_infos()[name].metadata.requires_name else {}
    needed = {key: REQUIRED[key] for key, one in parameters.items() if one.default is inspect.Parameter.empty}
    return {name: {**named, **needed, option: value}}


def test_there_is_a_wrong_value_for_most_options() -> None:
    assert len(WRONG) > 300
    assert {("rbp", "p", 0), ("rbp", "p", 1), ("recall", "k", 0), ("bleu", "smooth_method", "no such choice")} <= {
        row for row in WRONG if not isinstance(row[2], list)
    }


def test_every_number_has_a_range() -> None:
    found = {name: unbounded_numbers(info.cls) - OF_INNER_METRIC for name, info in metric_infos().items()}
    assert {name: options for name, options in found.items() if options} == {}


def test_every_type_can_be_resolved() -> None:
    """A name that is imported for type checkers alone would leave an option unchecked."""
    by_design = {
        "base", "baseline", "claims_prompt", "controls", "correct", "criteria", "critic", "dimensions", "embed", "embed_fn", "examples",
        "faithfulness", "inputs", "judge", "model", "of", "prompt", "refusal", "scale", "support_prompt", "target", "verifier", "weights", "where",
    }  # fmt: skip
    found = {
        option for info in metric_infos().values() for option, hint in option_types(info.cls).items() if hint is Any
    }
    assert found <= by_design


def test_defaults_have_their_declared_types() -> None:
    for info in metric_infos().values():
        defaults = {
            name: one.default for name, one in info.options.items() if one.default is not inspect.Parameter.empty
        }
        check_options(info.cls, defaults)


def test_python_and_commands_refuse_wrong_options() -> None:
    accepted = []
    for name, option, value in WRONG:
        spec = spec_with(name, option, value)
        command = parse_spec(f"{name}:{','.join(f'{key}={json.dumps(one)}' for key, one in spec[name].items())}")
        problems = [problem(metric_infos()[name].cls, **spec[name]), problem(metric, spec), problem(metric, command)]
        accepted += [(name, option, value, found) for found in problems if f"{option} " not in found]
    assert accepted == []


def problem(build: Callable[..., Any], *args: Any, **options: Any) -> str:
    try:
        build(*args, **options)
    except BadValueError as error:
        return str(error)
    return "none"


def test_plans_refuse_wrong_options(tmp_path: Path, auepora: Any) -> None:
    (tmp_path / "data.jsonl").write_text('{"sample_id": "1", "query": "a"}\n')
    (tmp_path / "outputs.jsonl").write_text('{"sample_id": "1", "retrieved": []}\n')
    rows = [
        row for row in WRONG if row[0] in ("rbp", "recall", "bleu", "quantile_latency", "rouge_scores", "nugget_recall")
    ]
    plan = {"dataset": "data.jsonl", "outputs": "outputs.jsonl", "metrics": [spec_with(*row) for row in rows]}
    (tmp_path / "plan.json").write_text(json.dumps(plan, indent=1))
    code, out, _ = auepora("validate", str(tmp_path / "plan.json"))
    lines = out.splitlines()
    assert code == 2
    for place, (name, option, _) in enumerate(rows):
        (line,) = (line for line in lines if f" metrics[{place}]: " in line)
        assert f"metric '{name}': {option} " in line


def test_several_wrong_options_are_one_error() -> None:
    with pytest.raises(BadTypeError) as caught:
        metric({"bleu": {"max_order": 0, "lowercase": "yes", "smooth_method": "floor"}})
    assert (
        str(caught.value)
        == "metric 'bleu': max_order must be an integer >= 1, not 0; lowercase must be true or false, not 'yes'"
    )


class Plain(SampleMetric):
    """A metric of a user, with a constructor."""

    target = TargetCategory.GENERATION_RELEVANCE

    def __init__(
        self,
        words: Annotated[int, Ge(1)] = 20,
        *,
        by: Literal["mean", "min"] = "mean",
        of: int = cast("int", None),  # as ``of: int = None`` in code without a type checker
    ) -> None:
        self.words, self.by, self.of = words, by, of

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        return Score(0.0)


class Inherited(Plain):
    """The same constructor."""


@dataclass(frozen=True)
class Fields(Plain):
    """A metric whose options are fields."""

    words: PositiveInt = 20


class Bare(Metric):
    """A metric that only implements the interface."""

    name, target = "bare", TargetCategory.GENERATION_RELEVANCE

    def __init__(self, words: PositiveInt = 20) -> None:
        self.words = words

    def required_fields(self) -> list[str]:
        return []

    def compute(self, samples: list[EvaluationSample], outputs: list[SystemOutputs]) -> MetricResult:
        return MetricResult(self.name, self.target, 0.0)


@pytest.mark.parametrize("kind", [Plain, Inherited, Fields, Bare])
def test_options_of_user_metrics_are_checked(kind: Any) -> None:
    assert kind(3).words == 3
    for wrong, message in ((0, "not 0"), (True, "not True"), ("3", "not '3'; leave out the quotes")):
        with pytest.raises(BadValueError, match=rf"^words must be an integer >= 1, {message}$"):
            kind(wrong)
        with pytest.raises(BadValueError, match=rf"^words must be an integer >= 1, {message}$"):
            kind(words=wrong)


def test_all_options_of_a_user_metric_are_checked() -> None:
    assert Plain(of=cast("int", None)).of is None  # a default of None makes the option optional
    with pytest.raises(BadValueError, match=r"^words must be .*; by must be one of mean, min; not 'max'$"):
        Plain(0, by="max")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'word'"):
        Plain(word=3)  # type: ignore[call-arg]
    assert list(inspect.signature(Plain).parameters) == ["words", "by", "of"]
