"""Metrics by import path: found relative to the plan, stored, scored again and explained; imported only with ``load``."""

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import RunStore, metric
from auepora_eval.core.registry import Spec, metric_infos, spec_of
from auepora_eval.errors import BadValueError, PlanError, UnknownOptionError
from auepora_eval.plan.prepare import check_plan, plan_problems, prepare, read_plan

pytestmark = pytest.mark.usefixtures("systems")

Auepora = Callable[..., tuple[int, str, str]]
METRICS = """\
from auepora_eval import EvaluationSample, Response, SampleMetric, Score, SystemOutputs, TargetCategory
from auepora_eval.metrics.retrieval import RecallAtK

class StartsUpper(SampleMetric):
    "1 if the answer starts with an upper-case letter."
    target = TargetCategory.GENERATION_RELEVANCE
    def score_one(self, sample, output):
        return Score(float(output.response.text[:1].isupper()))

class LongAnswer(SampleMetric):
    "1 if the answer has at least a number of words."
    target = TargetCategory.GENERATION_RELEVANCE
    def __init__(self, threshold: int = 1) -> None:
        if threshold > 100:
            raise LookupError("too long")
        self.threshold = threshold
    def score_one(self, sample, output):
        return Score(float(len(output.response.text.split()) >= self.threshold))

class DeepRecall(RecallAtK):
    "Recall."

class Unfinished(SampleMetric):
    target = TargetCategory.GENERATION_RELEVANCE

class Parts:
    Inner = StartsUpper

def answer(sample, *, top_k):
    return SystemOutputs([], Response("Yes, it is."))

def vectors(texts):
    return [[1.0] for _ in texts]
"""
SAMPLES = [
    {"sample_id": f"q{n}", "query": "Why?", "reference_answer": "x", "labels": {"lang": "en"}} for n in (1, 2, 3)
]
OUTPUTS = [{"sample_id": "q1", "response": "Yes, of course."}, {"sample_id": "q2", "response": "no"},
           {"sample_id": "q3", "response": "No."}]  # fmt: skip


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with metrics in the folder of the plan, which is not the current folder."""
    name = "metrics_of_" + "".join(one if one.isalnum() else "_" for one in tmp_path.name)
    (tmp_path / f"{name}.py").write_text(METRICS)
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SAMPLES))
    (tmp_path / "outputs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in OUTPUTS))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def write_plan(folder: Path, **values: Any) -> Path:
    path = folder / "plan.yaml"
    source = {} if "system" in values else {"outputs": "outputs.jsonl"}
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in
                            {"dataset": "data.jsonl", **source, **values}.items()))  # fmt: skip
    return path


def test_a_plan_names_metrics_by_import_path(module: str, tmp_path: Path) -> None:
    specs: list[Spec] = [f"{module}:StartsUpper", {f"{module}:LongAnswer": {"threshold": 2}}, f"{module}:DeepRecall@5"]
    made = prepare(read_plan(write_plan(tmp_path, metrics=specs[:2], primary=["starts_upper"])))
    assert made.metrics is not None
    assert made.plan.resolved["metrics"] == specs[:2]
    assert [str(one.signature) for one in made.metrics] == [  # type: ignore[attr-defined]
        f"starts_upper|by:{module}.StartsUpper|v1",
        f"long_answer|by:{module}.LongAnswer|threshold:2|v1",
    ]
    assert [spec_of(metric(one)) for one in specs] == specs
    assert metric(specs[2]).name == "deep_recall@5"
    assert pickle.loads(pickle.dumps(made.metrics[1])).threshold == 2
    assert metric(f"{module}:Parts.Inner").name == "starts_upper"
    assert not [name for name in metric_infos() if module in name]  # named, not registered


ERRORS: list[tuple[str, Any, str, str]] = [  # why, spec (M is the module), words
    ("no module", "no_metrics_of_ours:Foo", "metrics[1]", "there is no module 'no_metrics_of_ours' in FOLDER"),
    ("a misspelt module", "Mx:Foo", "metrics[1]", "did you mean 'M'?"),
    ("a misspelt class", "M:StartUpper", "metrics[1]", "'M' has no 'StartUpper'; did you mean 'StartsUpper'?"),
    ("a function", "M:answer", "metrics[1]", "'M:answer' is an object of type function, not a metric class"),
    ("another class", "M:Parts", "metrics[1]", "'M:Parts' is the class Parts, not a metric class"),
    ("an unknown option", {"M:LongAnswer": {"treshold": 1}}, "metrics[1]", "did you mean 'threshold'?"),
    ("an option of another type", {"M:LongAnswer": {"threshold": "2"}}, "metrics[1]", "threshold must be an integer, not '2'"),
    ("a constructor that raises", {"M:LongAnswer": {"threshold": 101}}, "metrics[1]", "cannot be built: LookupError: "),
    ("a cut-off that it lacks", "M:StartsUpper@5", "metrics[1]", "has no cut-off"),
    ("a class that is not complete", "M:Unfinished", "metrics[1]", "cannot be built: Can't instantiate"),
    ("a nested metric", {"noise_robustness": {"base": "M:No"}}, "metrics[1]", "has no 'No'"),
    ("a module that raises", "broken_metrics_of_ours:X", "metrics[1]", "raised ZeroDivisionError: division by zero (broken_metrics_of_ours.py, line 1: 1 / 0)"),
    ("options without '='", "recall:k", "metrics[1]", "an option of the metric 'recall' is written recall:option=value"),
]  # fmt: skip


def test_errors_have_file_line_and_key(module: str, tmp_path: Path) -> None:
    (tmp_path / "broken_metrics_of_ours.py").write_text("1 / 0")
    wrong = []
    for why, written, key, words in ERRORS:
        spec = json.loads(json.dumps(written).replace("M:", f"{module}:").replace("Mx:", f"{module}x:"))
        path = write_plan(tmp_path, metrics=["token_f1", spec])
        (error,) = plan_problems(path)
        assert isinstance(error, PlanError)
        text = str(error).replace(module, "M").replace(str(tmp_path), "FOLDER")
        if (error.key, error.line) != (key, 3) or words not in text:
            wrong.append((why, error.key, error.line, text))
    assert not wrong
    sys.path.insert(0, str(tmp_path))
    with pytest.raises(UnknownOptionError):
        metric(f"{module}:LongAnswer", treshold=1)
    with pytest.raises(BadValueError, match="name\\[key\\] or module:Class"):
        metric(f"{module}:", threshold=1)


def test_a_stored_run_finds_its_metrics(module: str, tmp_path: Path, auepora: Auepora) -> None:
    plan = str(write_plan(
        tmp_path,
        system={"python": f"{module}:answer"},
        metrics=[f"{module}:StartsUpper", {f"{module}:LongAnswer": {"threshold": 3}}],
        primary=["starts_upper"],
        slices=["labels.lang"],
        gates=["starts_upper >= 0.5", "long_answer >= 0.5"],
        store="runs.sqlite",
    ))  # fmt: skip
    store = str(tmp_path / "runs.sqlite")
    for name in ("first", "second"):
        assert auepora("run", plan, "-q", "--name", name, "--all")[0] == 0
    with RunStore.open(store) as opened:
        assert [one.value for one in opened.results(opened.find("first").run_id)] == [1.0, 1.0]
    for command, words in [
        (("rescore", "first"), "long_answer"),
        (("compare", "first", "second", "--all"), "starts_upper stays at 1.0000"),
        (("explain", "first", "long_answer", "--query", "q1"), "equal to the last digit"),
        (("gate", "first"), "2 gates: 2 passed"),
        (("report", "first", "-o", str(tmp_path / "page.html")), ""),
    ]:
        code, out, err = auepora(*command, "--store", store)
        assert (code, words in out) == (0, True), (command, out, err)
        assert "not known in this process" not in out + err


def test_the_command_line_searches_the_current_folder(
    module: str, tmp_path: Path, auepora: Auepora, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [str(tmp_path / "data.jsonl"), str(tmp_path / "outputs.jsonl"), "--json", "-m"]
    code, _, err = auepora("score", *arguments, f"{module}:StartsUpper")
    assert code == 2
    assert f"there is no module '{module}' in {tmp_path / 'elsewhere'}" in err
    monkeypatch.chdir(tmp_path)
    code, out, _ = auepora("score", *arguments, f"{module}:LongAnswer:threshold=2,as=long")
    assert code == 0
    (found,) = json.loads(out)["results"]
    assert (found["name"], found["value"]) == ("long", pytest.approx(1 / 3))


def test_metrics_of_the_command_line_are_searched_in_the_current_folder_too(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere" / "plan.yaml").write_text("dataset: ../data.jsonl\noutputs: ../outputs.jsonl\n")
    monkeypatch.chdir(tmp_path)
    made = prepare(read_plan("elsewhere/plan.yaml", changes={"metrics": [f"{module}:StartsUpper"]}))
    assert [one.name for one in made.metrics or ()] == ["starts_upper"]
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(tmp_path)])
    path = write_plan(tmp_path / "elsewhere", metrics=[f"{module}:StartsUpper"])
    (error,) = plan_problems(path)
    assert f"there is no module '{module}' in {tmp_path / 'elsewhere'}, nor" in str(error)


def test_validate_imports_code_with_load_alone(module: str, tmp_path: Path, auepora: Auepora) -> None:
    path = write_plan(
        tmp_path,
        system={"python": f"{module}:answer"},
        resources={"judge": {"python": f"{module}:judge"}},
        metrics=[
            "token_f1",
            f"{module}:Missing",
            {"embedding_similarity": {"embed_fn": {"python": f"{module}:vectors"}}},
            {"llm_faithfulness": {"critic": {"use": "judge"}}},
        ],
        primary=["missing"],
        gates=["missing >= 0.5"],
    )
    checked = check_plan(path, load=False)
    assert checked.problems == []
    assert module not in sys.modules
    assert checked.notes[0] == (
        f"not imported, so not checked: metrics[1] ({module}:Missing), metrics[2] ({module}:vectors), "
        f"resources.judge.python ({module}:judge), system.python ({module}:answer); --load imports and checks them"
    )
    assert "4 metrics: token_f1, embedding_similarity, llm_faithfulness, 1 not imported" in checked.notes
    code, out, _ = auepora("validate", str(path))
    assert (code, "not imported" in out) == (0, True)
    assert module not in sys.modules
    code, out, _ = auepora("validate", str(path), "--load")
    assert (code, f"metrics[1]: '{module}' has no 'Missing'" in out) == (2, True)
    code, _, err = auepora("validate", str(tmp_path / "data.jsonl"), "--load")
    assert (code, "--load and --call go with a plan" in err) == (2, True)


def test_without_load_the_rest_is_checked(module: str, tmp_path: Path) -> None:
    path = write_plan(tmp_path, metrics=["recal@5", f"{module}:X", "no module:Y"], slices=["labels.lnag"], run={"k": 1})
    assert [getattr(one, "key", None) for one in check_plan(path, load=False).problems] == [
        "metrics[0]",
        "metrics[2]",
        "run.k",
    ]
    path = write_plan(tmp_path, metrics=["token_f1", f"{module}:X"], dataset="nowhere.jsonl")
    (problem,) = check_plan(path, load=False).problems
    assert "no such file" in str(problem)
