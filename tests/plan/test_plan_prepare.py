"""``prepare``: data, metrics and system of a plan are read, built and checked; the system is not called."""

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import DataFileError, PlanError
from auepora_eval.plan.prepare import PreparedPlan, check_plan, prepare, read_plan

pytestmark = pytest.mark.usefixtures("systems")

DATA = [
    {"sample_id": "q1", "query": "Who?", "relevant_docs": ["d1"], "reference_answer": "x", "labels": {"lang": "de"}},
    {"sample_id": "q2", "query": "When?", "relevant_docs": ["d2"], "labels": {"lang": "en"}},
]
ANSWERS = [{"sample_id": "q1", "retrieved": ["d1"], "response": "x"}, {"sample_id": "q2", "retrieved": ["d9"]}]
APP = """\
from pathlib import Path
from auepora_eval.core.rag_interface import RAGSystem

class App(RAGSystem):
    closed = 0
    def __init__(self, depth=1):
        if depth < 0:
            raise ValueError("depth below 0")
        self.depth = depth
    def run(self, sample, *, top_k=5):
        Path(__file__).with_name("called").touch()
    def close(self):
        App.closed += 1

def build(depth=1):
    return App(depth)

def nothing():
    return 5
"""


def rows(path: Path, values: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows(tmp_path / "data.jsonl", DATA)
    rows(tmp_path / "answers.jsonl", ANSWERS)
    return tmp_path


@pytest.fixture
def app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "app_of_" + folder.name.replace("[", "_").replace("]", "_").replace("-", "_")
    (folder / f"{name}.py").write_text(APP)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def plan_file(folder: Path, **values: Any) -> Path:
    base = {"dataset": {"jsonl": "data.jsonl"}, "metrics": ["recall@5"]}
    subject = {} if "system" in values else {"outputs": "answers.jsonl"}
    path = folder / "plan.json"
    path.write_text(json.dumps(base | subject | values, indent=0))
    return path


def prepared(folder: Path, **values: Any) -> PreparedPlan:
    return prepare(read_plan(plan_file(folder, **values)))


def test_saved_outputs(folder: Path) -> None:
    made = prepared(folder, slices=["labels.lang"], conventions="golden")
    assert [one.sample_id for one in made.samples] == ["q1", "q2"]
    assert made.metrics is not None
    assert [one.name for one in made.metrics] == ["recall@5"]
    assert made.outputs is not None
    assert list(made.outputs.ids) == ["q1", "q2"]
    assert (made.conventions.name, made.dataset_format, made.system, made.calls) == ("golden", "jsonl", None, 0)
    assert [one.name for one in made.slices] == ["labels.lang"]
    assert made.warnings == []


def test_saved_outputs_that_change_are_refused(folder: Path) -> None:
    made = prepared(folder)
    assert made.outputs is not None
    assert [name for name, _ in made.outputs] == ["q1", "q2"]
    rows(folder / "answers.jsonl", ANSWERS[:1])
    with pytest.raises(DataFileError, match="has changed since it was checked; start again"):
        list(made.outputs)


def test_metrics_are_optional(folder: Path) -> None:
    assert prepared(folder, metrics=None).metrics is None


def test_python_system_is_imported_from_the_folder_of_the_plan(folder: Path, app: str) -> None:
    made = prepared(folder, system={"python": f"{app}:build", "args": {"depth": 3}}, run={"repeats": 4})
    assert made.system is not None
    assert made.system.depth == 3
    assert made.calls == 8
    assert made.outputs is None
    assert not (folder / "called").exists()


def test_system_is_not_built_if_it_is_not_needed(folder: Path) -> None:
    plan = read_plan(plan_file(folder, system={"python": "no_such_module_of_ours:build"}))
    assert prepare(plan, need_system=False).system is None


def test_endpoints_and_commands_are_built(folder: Path) -> None:
    http = prepared(folder, system={"http": {"url": "http://127.0.0.1:9/ask", "headers": {"A": "b"}}})
    assert type(http.system).__name__ == "HttpSystem"
    command = prepared(folder, system={"command": [sys.executable, "-c", "pass"]})
    assert type(command.system).__name__ == "CommandSystem"
    for made in (http, command):
        getattr(made.system, "close", lambda: None)()


@pytest.mark.parametrize(
    ("data_format", "conventions", "rules"),
    [("trec", "auto", "trec"), ("jsonl", "auto", "auepora"), ("trec", "paper", "paper"), ("auto", "auto", "trec")],
)
def test_auto_conventions_follow_the_data(data_format: str, conventions: str, rules: str, folder: Path) -> None:
    if data_format == "jsonl":
        assert prepared(folder, conventions=conventions).conventions.name == rules
        return
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    assert prepared(folder, dataset={data_format: "qrels.txt"}, conventions=conventions).conventions.name == rules


def test_corpus_adds_texts_to_samples_and_outputs(folder: Path) -> None:
    rows(folder / "corpus.jsonl", [{"doc_id": f"d{n}", "text": f"text {n}"} for n in (1, 2, 9)])
    made = prepared(folder, dataset={"jsonl": "data.jsonl", "corpus": "corpus.jsonl"})
    assert made.samples[0].relevant_docs is not None
    assert made.samples[0].relevant_docs[0].text == "text 1"
    assert made.outputs is not None
    assert dict(made.outputs)["q2"].retrieved[0].doc.text == "text 9"


def test_nuggets_are_added_to_samples(folder: Path) -> None:
    nuggets = [{"text": "a fact", "importance": "vital"}]
    rows(folder / "nuggets.jsonl", [{"qid": "q1", "query": "?", "nuggets": nuggets}])
    made = prepared(folder, dataset={"jsonl": "data.jsonl", "nuggets": "nuggets.jsonl"})
    assert [one.metadata.get("nuggets") for one in made.samples] == [nuggets, *[None] * (len(made.samples) - 1)]
    assert made.plan.dataset.nuggets == folder / "nuggets.jsonl"
    assert made.plan.resolved["dataset"] == {"jsonl": "data.jsonl", "nuggets": "nuggets.jsonl"}


PROBLEMS: list[tuple[dict[str, Any], str, str, str]] = [  # plan, key, words, why
    ({"dataset": {"jsonl": "data.jsonl", "nuggets": "no.jsonl"}}, "dataset", "no.jsonl: no such file", "no nuggets"),
    ({"dataset": "nowhere.jsonl"}, "dataset", "nowhere.jsonl: no such file", "no dataset"),
    ({"dataset": "empty.jsonl"}, "dataset", "empty.jsonl", "an empty dataset"),
    ({"dataset": {"jsonl": "data.jsonl", "corpus": "no.jsonl"}}, "dataset", "no.jsonl: no such file", "no corpus"),
    ({"outputs": "nowhere.jsonl"}, "outputs", "nowhere.jsonl: no such file", "no outputs"),
    ({"outputs": "strangers.jsonl"}, "outputs", "no sample and output share an id", "outputs of another dataset"),
    ({"outputs": "silent.jsonl"}, "metrics[0]", "'recall@5' reads the field 'retrieved'", "answers without documents"),
    (
        {"dataset": "bare.jsonl", "metrics": ["recall@5", "token_f1"]},
        "metrics[1]",
        "'reference_answer' for metric 'token_f1'",
        "no annotation",
    ),
    ({"slices": ["labels.lang", "labels.lnag"]}, "slices[1]", "did you mean 'lang'?", "a label nobody has"),
    ({"system": {"python": "no_such_module_of_ours:x"}}, "system.python", "no_such_module_of_ours", "no module"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "key", "message", "why"), PROBLEMS, ids=[row[3] for row in PROBLEMS])
def test_prepare_errors(values: dict[str, Any], key: str, message: str, why: str, folder: Path) -> None:
    (folder / "empty.jsonl").write_text("")
    rows(folder / "bare.jsonl", DATA[1:])
    rows(folder / "strangers.jsonl", [{"sample_id": "z", "retrieved": []}])
    rows(folder / "silent.jsonl", [{"sample_id": "q1", "response": "x"}])
    path = plan_file(folder, **values)
    with pytest.raises(PlanError) as raised:
        prepare(read_plan(path))
    assert raised.value.key == key
    assert raised.value.line is not None
    assert message in str(raised.value)
    assert [str(one) for one in check_plan(path).problems] == [str(raised.value)]


@pytest.mark.parametrize(
    ("name", "args"), [("nothing", {}), ("App", {"depth": -1}), ("missing", {}), ("build", {"no": 1})]
)
def test_system_that_cannot_be_built_or_called(name: str, args: dict[str, Any], folder: Path, app: str) -> None:
    with pytest.raises(PlanError):
        prepared(folder, system={"python": f"{app}:{name}", "args": args})
    assert not (folder / "called").exists()


def test_error_of_a_system_contains_no_secret(folder: Path) -> None:
    (folder / "leaky_app_of_ours.py").write_text(
        "from auepora_eval.errors import BadValueError\n"
        "def build(api_key):\n    raise BadValueError(f'the key {api_key} is refused')\n"
    )
    path = plan_file(folder, system={"python": "leaky_app_of_ours:build", "args": {"api_key": "${KEY}"}})
    plan = read_plan(path, environment={"KEY": "sk-geheim"})
    with pytest.raises(PlanError, match=r"the key \*\*\* is refused") as raised:
        prepare(plan)
    assert "sk-geheim" not in "".join(traceback.format_exception(raised.value))


def test_system_is_not_imported_if_there_are_other_errors(folder: Path) -> None:
    (folder / "noisy_app_of_ours.py").write_text("raise SystemExit('imported')")
    plan = read_plan(plan_file(folder, system={"python": "noisy_app_of_ours:x"}, dataset="nowhere.jsonl"))
    with pytest.raises(PlanError, match="no such file"):
        prepare(plan)


def test_error_in_data_has_the_line_of_the_data(folder: Path) -> None:
    with (folder / "data.jsonl").open("a") as file:
        file.write('{"sample_id": "q3"}\n{"sample_id": "q1", "query": "again"}\n')
    path = plan_file(folder)
    with pytest.raises(DataFileError, match=r"data.jsonl:3: field 'query' is missing"):
        prepare(read_plan(path))
    message = [str(one) for one in check_plan(path).problems]
    assert len(message) == 2, "validating finds all of them"
    assert "data.jsonl:3: field 'query' is missing" in message[0]
    assert "data.jsonl:4: " in message[1]


def test_primary_names_follow_the_conventions(folder: Path) -> None:
    made = prepared(folder, metrics=["map", "mrr"], primary=["mrr"], conventions="golden")
    assert made.plan.primary == ("mrr",)


def test_check_reports_what_would_run(folder: Path, app: str) -> None:
    checked = check_plan(plan_file(folder, system={"python": f"{app}:App"}, run={"repeats": 2, "top_k": 3}))
    assert checked.fine
    assert "recall@5: the system returns run.top_k = 3 documents" in checked.notes[0]
    assert checked.notes[1:] == [
        "2 samples (jsonl) under the conventions auepora",
        "1 metric: recall@5",
        "4 calls to the system (2 samples x 2 repeats), 8 at a time",
    ]
    assert sys.modules[app].App.closed == 1, "what was built only to be checked is closed"
    assert not (folder / "called").exists()


def test_check_reports_unmatched_ids(folder: Path) -> None:
    rows(folder / "answers.jsonl", [*ANSWERS[:1], {"sample_id": "z", "retrieved": []}])
    checked = check_plan(plan_file(folder, run={"top_k": 3}, metrics=None))
    assert checked.fine
    assert checked.notes == [
        "1 of 2 samples has no output and counts as a failure: 'q2'",
        "1 output belongs to no sample and is left out: 'z'",
        "run: has no effect on saved outputs",
        "2 samples (jsonl) under the conventions auepora",
        "every metric that the data supports",
        "2 saved outputs; no system is called",
    ]


def test_check_of_an_invalid_plan(folder: Path) -> None:
    (folder / "plan.yaml").write_text("dataset: [x")
    (problem,) = check_plan(folder / "plan.yaml").problems
    assert "not valid YAML" in str(problem)
    assert check_plan(folder / "plan.yaml").plan is None


def test_check_as_json(folder: Path) -> None:
    path = plan_file(folder, run={"top_k": 0})
    assert check_plan(path).to_dict() == {
        "schema": 1,
        "fine": False,
        "problems": [
            {
                "file": str(path),
                "line": 10,
                "key": "run.top_k",
                "message": "must be an integer >= 1, not the number 0",
            }
        ],
        "remarks": [],
    }


def test_check_finds_plan_errors_before_reading_data(folder: Path) -> None:
    checked = check_plan(plan_file(folder, dataset="nowhere.jsonl", run={"top_k": 0}, scoring={"workers": 0}))
    assert [getattr(one, "key", None) for one in checked.problems] == ["run.top_k", "scoring.workers"]


def test_a_malformed_rubric_is_refused_before_a_judge_is_asked(folder: Path) -> None:
    rubric = [{"item": "It greets.", "weight": -1}]
    rows(
        folder / "data.jsonl",
        [DATA[0] | {"labels": {"rubric": [{"item": "It is polite."}]}}, DATA[1] | {"labels": {"rubric": rubric}}],
    )
    plan = folder / "plan.yaml"
    plan.write_text(
        "dataset: data.jsonl\noutputs: answers.jsonl\nresources: {judge: {recorded: none.jsonl}}\n"
        "metrics:\n  - rubric_score: {critic: {use: judge}}\n"
    )
    (problem,) = map(str, check_plan(plan).problems)
    assert "data.jsonl:2: labels.rubric has no item with a positive weight" in problem
    with pytest.raises(PlanError, match=r"data\.jsonl:2: labels\.rubric"):
        prepare(read_plan(plan))
