"""What a plan keeps secret is neither stored nor shown; what is no secret changes no number."""

import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from auepora_eval import EvaluationSample
from auepora_eval.errors import PlanError
from auepora_eval.runs.run import run_plan, run_system
from auepora_eval.store.runs import RunStore
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]
KEY = "sk-abcdef-123456"


def with_system(mine: Project, source: str, args: str, *, run: str = "{}") -> None:
    """Let the plan ask a class ``Rag`` of this source."""
    (mine.folder / "own_rag.py").write_text(source)
    plan = Path(mine.plan(args=args, run=run)).read_text().replace("my_rag:Rag", "own_rag:Rag")
    (mine.folder / "plan.yaml").write_text(plan.replace("slices: [labels.parity]\n", ""))


CUT_SHORT = """
class Rag:
    def __init__(self, token):
        self.token = token

    def run(self, sample, *, top_k=5):
        start = "raised: ValueError: "
        raise ValueError("x" * (2000 - len(start) - 10) + self.token + "y" * 100)
"""


def test_truncated_message_contains_no_part_of_a_secret(project: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", KEY)
    with_system(project(1), CUT_SHORT, "{token: '${MY_TOKEN}'}")
    outcome = run_plan("plan.yaml")
    with RunStore.open("runs.sqlite") as store:
        (row,) = store.outputs(outcome.record.run_id)
    assert row.output.error is not None
    assert row.output.error[-10:] == "xxxxxx***…"


INDEXED = """
from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs

class Rag:
    def __init__(self, index="", api_key=""):
        self.index, self.key = index, api_key
        self.config = {"index": index}

    def run(self, sample, *, top_k=5):
        name = f"{self.index}{self.key}/{sample.sample_id}"
        found = [RetrievedDocument(Document(name, f"of {self.index}", {}, f"{name}/whole"), 1.0, 1)]
        answer = Response(f"of {self.index} {self.key}", sentences=[{"text": "a", "citations": [name]}])
        return SystemOutputs(found, answer, citations=[name])
"""


def rows(mine: Project, samples: str) -> None:
    (mine.folder / "data.jsonl").write_text(samples)


def test_variable_that_is_not_secret_is_not_masked(project: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEX", "wiki")
    mine = project(1)
    rows(mine, '{"sample_id": "d1", "query": "?", "relevant_docs": ["wiki/d1"], "reference_answer": "of wiki"}\n')
    with_system(mine, INDEXED, "{index: '${INDEX}'}")
    outcome = run_plan("plan.yaml")
    assert outcome.results is not None
    assert outcome.results.by_name["recall@5"].value == 1.0
    assert outcome.results.by_name["token_f1"].value == 1.0
    assert outcome.record.config == {"index": "wiki"}
    assert outcome.record.plan["system"]["args"] == {"index": "${INDEX}"}


def test_ids_are_not_masked(project: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", KEY)
    mine = project(1)
    with_system(mine, INDEXED, "{api_key: '${KEY}'}")
    outcome = run_plan("plan.yaml")
    with RunStore.open("runs.sqlite") as store:
        (row,) = store.outputs(outcome.record.run_id)
    (hit,) = row.output.retrieved
    name = f"{KEY}/0"
    assert (hit.doc.doc_id, hit.doc.parent_id, row.output.citations) == (name, f"{name}/whole", [name])
    assert row.output.response is not None
    assert row.output.response.text == "of  ***"
    assert row.output.response.sentences == [{"text": "a", "citations": [name]}]


WITH_SECRETS = [  # a sample, why
    ('{"sample_id": "1", "query": "what is %s?"}', "the question"),
    ('{"sample_id": "%s", "query": "?"}', "the id"),
    ('{"sample_id": "1", "query": "?", "relevant_docs": ["a/%s"]}', "a document"),
    ('{"sample_id": "1", "query": "?", "reference_answer": "%s"}', "the answer"),
]


@pytest.mark.parametrize(("sample", "why"), WITH_SECRETS, ids=[row[1] for row in WITH_SECRETS])
def test_dataset_with_a_secret_is_refused(
    sample: str, why: str, project: Projects, auepora: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", KEY)
    mine = project(1)
    rows(mine, '{"sample_id": "0", "query": "?", "relevant_docs": ["a"]}\n' + sample % KEY + "\n")
    with_system(mine, INDEXED, "{api_key: '${KEY}'}")
    for command in (("run", "plan.yaml"), ("validate", "plan.yaml")):
        code, out, err = auepora(*command)
        assert code != 0
        assert "sample 2 of the dataset contains a secret of the plan" in out + err
        assert KEY not in out + err
    assert not (mine.folder / "runs.sqlite").exists()
    with pytest.raises(PlanError) as raised:
        run_plan("plan.yaml")
    assert raised.value.key == "dataset"


@dataclass
class Part:
    """A part of a system."""

    model: str
    api_key: str


class Configured:
    """A system whose config has secrets deep within."""

    config = {  # noqa: RUF012
        "llm": {"model": "m", "api_key": KEY, "max_tokens": 5},
        "stores": [{"kind": "a", "password": KEY}, ("b", {"Authorization": f"Bearer {KEY}"})],
        "credentials": [KEY],
        "token": None,
        "reranker": Part("r", KEY),
        "embedding": f"hf_{KEY}-and-more",
    }

    def run(self, sample: EvaluationSample, *, top_k: int = 5) -> list[str]:
        return ["a"]


def test_nested_secrets_of_a_config_are_masked(project: Projects, auepora: Run) -> None:
    project(1)
    samples = [EvaluationSample("1", "?")]
    outcome = run_system(Configured(), samples, store="runs.sqlite", config={"mine": {"client_secret": KEY}})
    assert outcome.record.config == {
        "llm": {"model": "m", "api_key": "***", "max_tokens": 5},
        "stores": [{"kind": "a", "password": "***"}, ["b", {"Authorization": "***"}]],
        "credentials": "***",
        "token": None,
        "reranker": {"model": "r", "api_key": "***"},
        "embedding": "***",
        "mine": {"client_secret": "***"},
    }
    code, out, err = auepora("show", "latest", "--json")
    assert code == 0
    assert json.loads(out)["run"]["config"]["llm"]["model"] == "m"
    assert KEY not in out + err


TALKATIVE = """
import os
from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import BadValueError

class Retriever:
    def retrieve(self, query, *, top_k=5):
        return [RetrievedDocument(Document("d0", "t"), 1.0, 1)]

class Rag:
    def __init__(self, api_key, trouble="answer"):
        self.key, self.retriever = api_key, Retriever()
        self.trouble = os.environ.get("TROUBLE", trouble)

    def _in(self, where):
        if where == self.trouble:
            raise BadValueError(f"{where}: the key {self.key} is refused")
        if where + "!" == self.trouble:
            try:
                raise KeyError(self.key)
            except KeyError as error:
                raise RuntimeError(f"{where}: the key {self.key} is refused") from error

    def config(self):
        self._in("config")
        return {}

    def run(self, sample, *, top_k=5):
        self._in("answer")
        return SystemOutputs(self.retriever.retrieve(sample.query, top_k=top_k), Response("it is"))

    def close(self):
        self._in("close")
"""


@pytest.mark.parametrize("trouble", ["answer", "config", "close"])
def test_output_of_run_contains_no_secret(
    trouble: str, project: Projects, auepora: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", KEY)
    args = f"{{api_key: '${{KEY}}', trouble: {trouble}}}"
    with_system(project(40), TALKATIVE, args, run="{max_failures: 1, concurrency: 1}")
    code, out, err = auepora("run", "plan.yaml")
    assert (code == 0) is (trouble == "close")  # the answers are there all the same
    assert f"{trouble}: the key *** is refused" in err
    assert KEY not in out + err


def test_output_of_replay_contains_no_secret(project: Projects, auepora: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", KEY)
    mine = project(40)
    with_system(mine, TALKATIVE, "{api_key: '${KEY}', trouble: none}", run="{max_failures: 1, concurrency: 1}")
    assert auepora("run", "plan.yaml")[0] == 0
    for trouble in ("answer", "close"):
        monkeypatch.setenv("TROUBLE", trouble)
        code, out, err = auepora("replay", "nightly", "nightly", "plan.yaml", "-m", "token_f1", "--fresh")
        assert (code == 0) is (trouble == "close")
        assert f"{trouble}: the key *** is refused" in err
        assert KEY not in out + err


def test_chained_errors_contain_no_secret(project: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", KEY)
    with_system(project(1), TALKATIVE, "{api_key: '${KEY}', trouble: config!}")
    with pytest.raises(RuntimeError) as raised:
        run_plan("plan.yaml")
    text = "".join(traceback.format_exception(raised.value))
    assert "config: the key *** is refused" in text
    assert "KeyError: '***'" in text
    assert KEY not in text
