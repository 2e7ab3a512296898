"""``auepora validate --call``: the system of a plan called on a few samples."""

import json
from collections.abc import Callable
from pathlib import Path

from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]


def test_question_documents_answer_and_scores(project: Projects, auepora: Run) -> None:
    mine = project(6)
    code, out, _ = auepora("validate", "plan.yaml", "--call", "2")
    assert (code, sorted(mine.calls())) == (0, ["0", "1"])
    assert "no problems\n\n2 of 2 calls gave an answer\n\n0  what is 0?" in out
    for text in ("d1        document 1", "answer  the answer is 1", "recall@5", "token_f1"):
        assert text in out
    assert not Path("runs.sqlite").exists(), "nothing is stored"


def test_json(project: Projects, auepora: Run) -> None:
    project(3).plan(args="{broken: ['1']}")
    code, out, _ = auepora("validate", "plan.yaml", "--call", "3", "--json")
    calls = json.loads(out)["calls"]
    assert (code, calls["conclusion"], calls["answered"]) == (0, "2 of 3 calls gave an answer", 2)
    assert [one["scores"]["recall@5"] for one in calls["samples"]] == [1.0, 0.0, 0.0]
    assert calls["samples"][1]["outcomes"]["recall@5"] == "system_failed:raised"


def test_no_answer_at_all(project: Projects, auepora: Run) -> None:
    project(3).plan(args="{broken: ['0', '1', '2']}")
    code, out, _ = auepora("validate", "plan.yaml", "--call", "2")
    assert code == 3
    assert "0 of 2 calls gave an answer; stopped: the first 2 calls all failed in the same way" in out
    assert 'my_rag.py", line' in out


def test_judges_are_not_called(project: Projects, auepora: Run) -> None:
    mine = project(3)
    (mine.folder / "judge_rag.py").write_text(
        "from auepora_eval.judge.critic import LLMCritic\n"
        "class Judge(LLMCritic):\n    def score(self, *, prompt, metadata=None):\n        raise SystemExit\n"
    )
    plan = Path(mine.plan(more='resources: {judge: {python: "judge_rag:Judge"}}\n'))
    text = plan.read_text()
    metrics = "metrics: [recall@5, {llm_answer_quality: {critic: {use: judge}}}]"
    plan.write_text(text.replace(text[text.index("metrics:") : text.index("\nslices")], metrics))
    code, out, err = auepora("validate", "plan.yaml", "--call", "1")
    assert code == 0, err
    assert "recall@5  1.0000" in out.replace("    ", "  ")


def test_what_cannot_be_called(project: Projects, auepora: Run) -> None:
    project(2)
    Path("out.jsonl").write_text('{"sample_id": "0", "retrieved": ["d0"]}\n{"sample_id": "1", "retrieved": []}\n')
    Path("saved.yaml").write_text("dataset: {jsonl: data.jsonl}\noutputs: {jsonl: out.jsonl}\nmetrics: [recall@5]\n")
    for arguments, message in (
        (["saved.yaml", "--call", "1"], "saved.yaml has saved outputs and no system to call; leave out --call"),
        (["data.jsonl", "--call", "1"], "--load and --call go with a plan"),
    ):
        code, _, err = auepora("validate", *arguments)
        assert (code, message in err) == (2, True), err
