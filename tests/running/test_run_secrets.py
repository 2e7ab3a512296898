"""What a plan keeps secret is neither stored nor shown; what is no secret changes no number."""

from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.running.plans import run_plan
from auepora_eval.store.runs import RunStore
from user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]
KEY = "sk-abcdef-123456"


def with_system(mine: Project, source: str, args: str, *, run: str = "{}") -> None:
    """Let the plan ask a class ``Rag`` of this source."""
    (mine.folder / "own_rag.py").write_text(source)
    plan = Path(mine.plan(args=args, run=run)).read_text().replace("my_rag:Rag", "own_rag:Rag")
    (mine.folder / "plan.yaml").write_text(plan)


CUT_SHORT = """
class Rag:
    def __init__(self, token):
        self.token = token

    def run(self, sample, *, top_k=5):
        start = "raised: ValueError: "
        raise ValueError("x" * (2000 - len(start) - 10) + self.token + "y" * 100)
"""


def test_no_part_of_a_secret_is_stored_where_a_message_was_cut(
    project: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", KEY)
    with_system(project(1), CUT_SHORT, "{token: '${MY_TOKEN}'}")
    outcome = run_plan("plan.yaml")
    with RunStore.open("runs.sqlite") as store:
        (row,) = store.outputs(outcome.record.run_id)
    assert row.output.error is not None
    assert row.output.error[-10:] == "xxxxxx***…"
