"""``auepora judge nuggets``: nuggets generated from documents, and assigned to answers."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.io.labels import read_nuggets

JUDGE = r"""
import re
from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, StructuredCritic

def framed(prompt, name):
    frame = rf"^\[begin ({name}(?: \d+)?) (\w{{16}})\]\n(.*?)\n\[end \1 \2\]$"
    return [found[3] for found in re.finditer(frame, prompt, re.MULTILINE | re.DOTALL)]

class Gatherer(StructuredCritic):
    name = model = "gatherer"

    def __init__(self, broken=()):
        self.broken = set(broken)

    async def judge(self, request):
        if request.sample_id in self.broken:
            raise JudgeError("refused", "not that one")
        if request.prompt_id.startswith("nuggets/"):
            return Judgement({"nuggets": framed(request.prompt, "fact") + framed(request.prompt, "documents")})
        return Judgement({"grades": [
            {"number": number, "importance": "vital" if "!" in fact else "okay"}
            for number, fact in enumerate(framed(request.prompt, "fact"), 1)
        ]})

def contains(premise, hypothesis):
    return hypothesis in premise
"""
PLAN = """
resources:
  judge: {python: "a_gathering_judge:Gatherer", args: {broken: %s}}
  finder: {python: "a_gathering_judge:contains"}
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.delitem(sys.modules, "a_gathering_judge", raising=False)
    monkeypatch.setenv("AUEPORA_STORE", str(tmp_path / "runs.sqlite"))
    rows = [
        {"sample_id": "q1", "query": "Who?", "relevant_docs": [{"doc_id": "a", "text": "Goethe!"}, "b"]},
        {"sample_id": "q2", "query": "When?", "relevant_docs": [{"doc_id": "c", "text": "1808"}]},
        {"sample_id": "q3", "query": "Why?"},
    ]
    found = [{"doc": {"doc_id": "z", "text": "found!"}, "score": 1.0, "rank": 1}]
    answers = [{"sample_id": f"q{n}", "retrieved": found, "response": f"{n}: Goethe! did."} for n in (1, 2, 3)]
    for name, lines in (("data", rows), ("answers", answers), ("corpus", [{"doc_id": "b", "text": "of Weimar"}])):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "a_gathering_judge.py").write_text(JUDGE)
    (tmp_path / "plan.yaml").write_text(PLAN % "[]")
    return tmp_path


def made(path: str) -> dict[str, list[tuple[str, str, str | None]]]:
    topics = read_nuggets(path)
    return {one.qid: [(n.text, n.importance, n.assignment) for n in one.nuggets] for one in topics}


def test_generate_and_assign_nuggets(folder: Path, auepora: Run) -> None:
    making = (
        "judge",
        "nuggets",
        "data.jsonl",
        "-o",
        "nuggets.jsonl",
        "--corpus",
        "corpus.jsonl",
        "--plan",
        "plan.yaml",
    )
    code, _, err = auepora(*making)
    assert (code, "wrote nuggets.jsonl: 3 nuggets of 2 questions" in err) == (0, True)
    assert made("nuggets.jsonl") == {
        "q1": [("Goethe!", "vital", None), ("of Weimar", "okay", None)],
        "q2": [("1808", "okay", None)],
    }
    holding = ("--assign", "answers.jsonl", "--nuggets", "nuggets.jsonl", "--plan", "plan.yaml", "--judge", "finder")
    code, _, _ = auepora("judge", "nuggets", "data.jsonl", "-o", "assigned.jsonl", *holding)
    assert code == 0
    assert made("assigned.jsonl") == {
        "q1": [("Goethe!", "vital", "support"), ("of Weimar", "okay", "not_support")],
        "q2": [("1808", "okay", "not_support")],
    }
    assert read_nuggets("assigned.jsonl")[0].extra["run_id"] == "answers"


def test_generate_nuggets_from_retrieved_documents(folder: Path, auepora: Run) -> None:
    code, _, _ = auepora(
        "judge", "nuggets", "data.jsonl", "-o", "n.jsonl", "--retrieved", "answers.jsonl", "--plan", "plan.yaml"
    )
    assert code == 0
    assert made("n.jsonl") == {f"q{n}": [("found!", "vital", None)] for n in (1, 2, 3)}


def test_failed_questions_are_reported(folder: Path, auepora: Run) -> None:
    Path("plan.yaml").write_text(PLAN % "[q1]")
    code, _, err = auepora("judge", "nuggets", "data.jsonl", "-o", "n.jsonl", "--plan", "plan.yaml")
    assert (code, list(made("n.jsonl"))) == (0, ["q2"])
    assert "not judged: 1 (refused 1)" in err


MISTAKES: list[tuple[str, list[str], str, str]] = [
    ("[]", [], "no judge is given", "no judge"),
    ("[]", ["--plan", "plan.yaml", "--nuggets", "n.jsonl"], "goes with --assign", "nuggets to make"),
    ("[]", ["--plan", "plan.yaml", "--assign", "a", "--retrieved", "b"], "not both", "both at once"),
    ("[q1, q2]", ["--plan", "plan.yaml"], "failed on every question (refused 2)", "the judge fails on all"),
    ("[]", ["--plan", "plan.yaml", "--assign", "answers.jsonl"], "give a file of nuggets (--nuggets)", "no nuggets"),
    ("[]", ["--plan", "plan.yaml", "--judge", "nobody"], "there is no resource 'nobody'", "an unknown judge"),
]


@pytest.mark.parametrize(("broken", "options", "words", "why"), MISTAKES, ids=[row[-1] for row in MISTAKES])
def test_user_errors_write_nothing(
    broken: str, options: list[str], words: str, why: str, folder: Path, auepora: Run
) -> None:
    Path("plan.yaml").write_text(PLAN % broken)
    code, _, err = auepora("judge", "nuggets", "data.jsonl", "-o", "out.jsonl", *options)
    assert (code, Path("out.jsonl").exists()) == (2, False)
    assert words in err


def test_documents_without_text_are_an_error(folder: Path, auepora: Run) -> None:
    Path("bare.jsonl").write_text('{"sample_id": "q1", "query": "Who?", "relevant_docs": ["b"]}\n')
    code, _, err = auepora("judge", "nuggets", "bare.jsonl", "-o", "n.jsonl", "--plan", "plan.yaml")
    assert (code, "give a corpus (--corpus)" in err) == (2, True)
