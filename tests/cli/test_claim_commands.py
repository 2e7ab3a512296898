"""Claims and nuggets on the command line: statements with verdicts, failed measurements, nugget files."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

JUDGE = """
import re

from auepora_eval.judge.critic import Judgement, StructuredCritic


def frames(prompt, name):
    return re.findall(rf"^\\[begin {name}[ \\d]* \\w+\\]\\n(.*?)\\n\\[end {name}", prompt, re.DOTALL | re.MULTILINE)


class Words(StructuredCritic):
    name = "words"

    async def judge(self, request):
        if "claims" in request.schema["properties"]:
            return Judgement({"claims": frames(request.prompt, "text")[0].strip(".").split(". ")})
        known = " ".join(frames(request.prompt, "evidence"))
        verdicts = [
            {"number": number, "why": "by its words", "verdict": "full" if one.strip(".") in known else "none"}
            for number, one in enumerate(frames(request.prompt, "statement"), 1)
        ]
        return Judgement({"verdicts": verdicts})
"""
PLAN = """
name: claims
dataset: data.jsonl
outputs: answers.jsonl
resources: {judge: {python: "words_judge:Words"}}
metrics:
  - claim_precision: {critic: {use: judge}}
  - claim_hallucination: {critic: {use: judge}}
  - nugget_recall: {critic: {use: judge}}
store: runs.sqlite
"""


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    nuggets = [[{"text": "Cats sleep", "importance": "vital"}], [{"text": "Dogs run", "importance": "high"}]]
    samples = [
        {"sample_id": f"q{n}", "query": "What?", "reference_answer": "Cats sleep.", "metadata": {"nuggets": one}}
        for n, one in enumerate(nuggets, 1)
    ]
    found = [{"doc": {"doc_id": "d1", "text": "Cats fly."}}]
    answers = [{"sample_id": f"q{n}", "retrieved": found, "response": "Cats sleep. Cats sing."} for n in (1, 2)]
    for name, text in {
        "words_judge.py": JUDGE,
        "plan.yaml": PLAN,
        "data.jsonl": lines(*samples),
        "answers.jsonl": lines(*answers),
        "nuggets.jsonl": lines(
            {"qid": "q2", "nuggets": [{"text": "Cats sing", "importance": "vital"}]},
            {"qid": "q7", "nuggets": [{"text": "Dogs run", "importance": "vital"}]},
        ),
        "others.jsonl": lines({"qid": "q7", "nuggets": [{"text": "Dogs run", "importance": "vital"}]}),
        "bad.jsonl": lines({"qid": "q2", "nuggets": [{"text": "Cats sing", "importance": "high"}]}),
    }.items():
        (tmp_path / name).write_text(text)
    yield tmp_path
    sys.modules.pop("words_judge", None)


def test_claims_are_shown_with_verdicts_and_shared_judgements_once(folder: Path, auepora: Run) -> None:
    code, _, err = auepora("run", "plan.yaml", "-q")
    assert code == 0, err
    _, out, _ = auepora("show", "claims", "--sample", "q1")
    lines = out[out.index("judged ") :].splitlines()
    assert lines == [
        'judged     claim_precision, claim_hallucination by words, of the answer: claims ["Cats sleep", "Cats sing"]',
        "judged     claim_precision, claim_hallucination by words, against the reference:",
        "             full: Cats sleep (by its words)",
        "             none: Cats sing (by its words)",
        "judged     claim_hallucination by words, against the documents:",
        "             none: Cats sleep (by its words)",
        "             none: Cats sing (by its words)",
        "judged     nugget_recall by words, against the answer:",
        "             full: Cats sleep (by its words)",
    ]
    _, out, _ = auepora("show", "claims", "--sample", "q1", "--json")
    about = [one["about"] for one in json.loads(out)["judgements"] if one["metric"] == "nugget_recall"]
    assert about == [{"of": "the answer", "statements": ["Cats sleep"]}]
    code, _, _ = auepora("export", "claims", "saved")
    assert code == 0
    rows = [json.loads(line) for line in (folder / "saved" / "judgements.jsonl").read_text().splitlines()]
    assert {"of": "the reference", "statements": ["Cats sleep", "Cats sing"]} in [row.get("about") for row in rows]


def test_invalid_nuggets_are_a_failure_with_a_reason(folder: Path, auepora: Run) -> None:
    _, _, err = auepora("run", "plan.yaml")
    assert "metadata.nuggets[0] has 'high' as 'importance', which must be one of vital, okay" in err
    _, out, _ = auepora("show", "claims", "--failures")
    assert "q2      nugget_recall  bad_nuggets: " in out
    _, out, _ = auepora("explain", "claims", "nugget_recall", "--query", "q2")
    assert "metadata.nuggets[0] has 'high'" in out
    _, out, _ = auepora("validate", "data.jsonl", "answers.jsonl")
    assert "data.jsonl:2: metadata.nuggets[0] has 'high' as 'importance'" in out


def test_score_with_a_nuggets_file(folder: Path, auepora: Run) -> None:
    command = ["score", "data.jsonl", "answers.jsonl", "-m", "nugget_recall", "--plan", "plan.yaml"]
    code, out, err = auepora(*command, "--nuggets", "nuggets.jsonl", "--json")
    assert code == 0, err
    (result,) = json.loads(out)["results"]
    assert (result["value"], result["details"]["num_scored"], result["details"]["num_nuggets"]) == (1.0, 2, 2)
    assert "no sample has the qid 'q7'" in err
    _, out, _ = auepora(*command, "--nuggets", "nuggets.jsonl", "--preview")
    assert "nugget_recall           2" in out
    code, _, err = auepora(*command, "--nuggets", "others.jsonl")
    assert (code, "no qid is the id of a sample" in err) == (2, True)
    code, _, err = auepora("score", "--qrels", "q", "--run", "r", "--nuggets", "nuggets.jsonl")
    assert (code, "leave out --corpus and --nuggets" in err) == (2, True)


def test_validate_with_a_nuggets_file(folder: Path, auepora: Run) -> None:
    code, out, _ = auepora("validate", "data.jsonl", "--nuggets", "nuggets.jsonl")
    assert code == 0
    assert "warning: nuggets.jsonl: no sample has the qid 'q7'" in out
    assert "'high'" not in out  # those of the file stand in the place of the sample's own
    code, out, _ = auepora("validate", "data.jsonl", "--nuggets", "bad.jsonl")
    assert (code, "bad.jsonl:1: nuggets[0] has 'high' as 'importance'" in out) == (2, True)
    code, out, _ = auepora("validate", "data.jsonl", "--nuggets", "others.jsonl")
    assert (code, "no qid is the id of a sample" in out) == (2, True)
