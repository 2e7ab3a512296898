"""``auepora replay``: the plan must be the one that run B was made by, and answers are kept by system."""

import json
from collections.abc import Callable

import pytest

from auepora_eval.store.runs import RunStore
from helpers.report_pages import Page
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]

SYSTEM = """
import os
from pathlib import Path
from auepora_eval import Document, Response, RetrievedDocument

HERE = Path(__file__).parent

class Finder:
    config = {"chunker_version": "c1"}

    def close(self):
        with (HERE / "closed.log").open("a") as log:
            log.write("closed\\n")

    def retrieve(self, query, *, top_k=5):
        n = query.split()[-1].rstrip("?")
        return [RetrievedDocument(Document(f"d{n}", f"it is {n}"), 1.0, 1)]

class Sayer:
    config = {"model": "parrot"}

    def __init__(self, prefix):
        self.prefix = prefix

    def generate(self, query, documents):
        with (HERE / "calls.log").open("a") as log:
            log.write(f"{query}\\n")
        return Response(f"{self.prefix}{documents[0].text}")

def build(prefix="", key=None):
    return Finder(), Sayer(prefix)
"""
PLAN = """name: NAME
dataset: {jsonl: data.jsonl}
system: {python: "split_rag:build", args: {prefix: "PREFIX", key: "${REPLAY_KEY}"}}
metrics: [exact_match, recall@1]
store: runs.sqlite
"""


@pytest.fixture
def mine(project: Projects, auepora: Run, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two runs: ``a``, whose answers are wrong, and ``b``."""
    monkeypatch.setenv("REPLAY_KEY", "s3cr3t-of-mine")
    made = project(4)
    (made.folder / "split_rag.py").write_text(SYSTEM)
    for name, prefix in (("a", "no, "), ("b", "")):
        (made.folder / f"{name}.yaml").write_text(PLAN.replace("NAME", name).replace("PREFIX", prefix))
        code, _, err = auepora("run", f"{name}.yaml", "--quiet")
        assert code == 0, err
    return made


def count_calls(mine: Project) -> int:
    return len((mine.folder / "calls.log").read_text().splitlines())


def test_config_of_a_pair_is_stored_and_the_pair_is_closed(mine: Project) -> None:
    with RunStore.open("runs.sqlite") as store:
        assert store.find("b").config == {"chunker_version": "c1", "model": "parrot"}
    assert (mine.folder / "closed.log").read_text().splitlines() == ["closed"] * 2


def test_difference_is_split(mine: Project, auepora: Run) -> None:
    code, out, err = auepora("replay", "a", "b", "b.yaml", "--json")
    assert code == 0, err
    split = json.loads(out)["metrics"]["exact_match"]
    assert (split["delta"]["value"], split["generation"]["value"], split["retrieval"]["value"]) == (1.0, 1.0, 0.0)
    assert count_calls(mine) == 12


def test_plan_of_another_run_is_refused_before_any_call(mine: Project, auepora: Run) -> None:
    code, _, err = auepora("replay", "a", "b", "a.yaml")
    assert code == 2
    assert "(b)" in err
    assert "system.args.prefix:  -> no, " in err
    assert "s3cr3t" not in err
    assert count_calls(mine) == 8


def test_stored_answers_are_reused(mine: Project, auepora: Run) -> None:
    for _ in range(2):
        assert auepora("replay", "a", "b", "b.yaml")[0] == 0
    assert count_calls(mine) == 12


def test_report_shows_a_stored_split(mine: Project, auepora: Run) -> None:
    def page() -> str:
        assert auepora("report", "a", "b", "-o", "report.html")[0] == 0
        made = Page((mine.folder / "report.html").read_text(encoding="utf-8"))
        made.require_sound()
        return made.text

    assert "from retrieval" not in page()
    assert auepora("replay", "a", "b", "b.yaml", "--quiet")[0] == 0
    # The documents are the same in both runs, so that all of the difference is the generator's.
    shown = page()
    assert "exact_match: retrieval 0.0000, generation +1.0000, together +1.0000" in shown
    assert "from retrieval" in shown
