"""Citations and nuggets from a plan to the store: judged, kept under every metric, scored again from what is known."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.runs.run import run_plan
from auepora_eval.runs.scoring import rescore
from auepora_eval.store import RunStore

JUDGE = r'''
import re
from pathlib import Path
from auepora_eval.judge.critic import Judgement, StructuredCritic, Usage

def framed(prompt, name):
    frame = rf"^\[begin ({name}(?: \d+)?) (\w{{16}})\]\n(.*?)\n\[end \1 \2\]$"
    return [found[3] for found in re.finditer(frame, prompt, re.MULTILINE | re.DOTALL)]

class Reader(StructuredCritic):
    """Supported is what stands in the evidence word for word, in part what shares a word with it; keeps a log."""

    name = model = "reader"

    async def judge(self, request):
        with (Path(__file__).parent / "judged.log").open("a") as log:
            log.write(f"{request.sample_id}\n")
        evidence, verdicts = " ".join(framed(request.prompt, "evidence")).lower(), []
        for number, statement in enumerate(framed(request.prompt, "statement"), 1):
            statement = statement.rstrip(".").lower()
            some = any(word in evidence for word in statement.split())
            verdict = "full" if statement in evidence else "partial" if some else "none"
            verdicts.append({"number": number, "why": "read", "verdict": verdict})
        return Judgement({"verdicts": verdicts}, Usage(50, 5))

    def cache_key(self, request):
        return {"version": 1}
'''
PLAN = """
dataset: {jsonl: data.jsonl, nuggets: nuggets.jsonl}
outputs: answers.jsonl
resources: {judge: {python: "a_reading_judge:Reader"}}
metrics:
  - citation_support_recall: {critic: {use: judge}}
  - citation_support_precision: {critic: {use: judge}}
  - citation_support_f1: {critic: {use: judge}}
  - weighted_support_precision: {critic: {use: judge}}
  - weighted_support_recall: {critic: {use: judge}}
  - nugget_recall: {critic: {use: judge}, variant: weighted}
store: runs.sqlite
"""
WANT = {
    # Of q1 one sentence of two is supported, one citation of three is needed; q2 cites nothing.
    "citation_support_recall": (1 / 2 + 0) / 2,
    "citation_support_precision": (1 / 3 + 0) / 2,
    "citation_support_f1": 0.4 / 2,
    # The first citation of the first sentence supports it in full, that of the second in part.
    "weighted_support_precision": (3 / 4 + 0) / 2,
    "weighted_support_recall": (3 / 4 + 0) / 2,
    # q1: vital in full, okay not at all; q2 has a vital nugget in part.
    "nugget_recall": ((1 + 0) / 1.5 + 1 / 2) / 2,
}


def lines(path: Path, *rows: object) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.delitem(sys.modules, "a_reading_judge", raising=False)
    documents = [{"doc_id": "a", "text": "Goethe wrote Faust."}, {"doc_id": "b", "text": "Cats sleep."}]
    retrieved = [{"doc": one, "score": 1.0, "rank": rank} for rank, one in enumerate(documents, 1)]
    lines(tmp_path / "data.jsonl", {"sample_id": "q1", "query": "Who?"}, {"sample_id": "q2", "query": "What?"})
    lines(
        tmp_path / "answers.jsonl",
        {"sample_id": "q1", "retrieved": retrieved, "response": "Goethe wrote Faust [1, 2]. Goethe had cats [1]."},
        {"sample_id": "q2", "retrieved": retrieved, "response": "Nobody knows."},
    )
    lines(
        tmp_path / "nuggets.jsonl",
        {
            "qid": "q1",
            "query": "Who?",
            "nuggets": [
                {"text": "Goethe wrote Faust", "importance": "vital"},
                {"text": "It rains", "importance": "okay"},
            ],
        },
        {"qid": "q2", "query": "What?", "nuggets": [{"text": "Nobody sleeps", "importance": "vital"}]},
    )
    (tmp_path / "a_reading_judge.py").write_text(JUDGE)
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


def test_plan_judges_citations_and_nuggets(folder: Path) -> None:
    outcome = run_plan("plan.yaml")
    assert outcome.results is not None
    assert {one.name: one.value for one in outcome.results} == pytest.approx(WANT)
    # About q1: both documents together, each alone (which is the other one left out); its second sentence; its nuggets.
    asked = sorted((folder / "judged.log").read_text().split())
    assert asked == ["q1"] * 5 + ["q2"]
    with RunStore.open("runs.sqlite") as store:
        kept = [(row.metric, row.position) for row in store.judgements(outcome.record.run_id)]
    assert {name: kept.count((name, 0)) for name in WANT} == {
        "citation_support_recall": 2,
        "citation_support_precision": 4,
        "citation_support_f1": 4,
        "weighted_support_precision": 2,
        "weighted_support_recall": 2,
        "nugget_recall": 1,
    }
    assert [name for name, position in kept if position == 1] == ["nugget_recall"]


def test_rescoring_calls_no_judge(folder: Path) -> None:
    outcome = run_plan("plan.yaml")
    before = (folder / "judged.log").read_text()
    with RunStore.open("runs.sqlite") as store:
        again = rescore(store.find("latest"), store=store)
    assert outcome.results is not None
    assert [one.value for one in again] == [one.value for one in outcome.results]
    assert (folder / "judged.log").read_text() == before


def test_score_judges_files(folder: Path, auepora: Callable[..., tuple[int, str, str]]) -> None:
    auepora("convert", "data.jsonl", "with.jsonl", "--nuggets", "nuggets.jsonl")
    arguments = ("score", "with.jsonl", "answers.jsonl", "--plan", "plan.yaml", "-m", "nugget_recall", "--json")
    code, out, _ = auepora(*arguments)
    assert code == 0
    (result,) = json.loads(out)["results"]
    assert result["value"] == pytest.approx(1 / 2)
    code, out, _ = auepora("run", "plan.yaml", "--preview", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["lower_bound_for"] == ["citation_support_precision", "citation_support_f1"]
