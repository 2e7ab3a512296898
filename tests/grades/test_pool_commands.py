"""Pooling and grading on the command line: stored runs, files, failures, a kill, human labels."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.grades import read_grades
from auepora_eval.io.trec import load_qrels
from auepora_eval.runs.run import run_system
from auepora_eval.store.runs import RunStore
from helpers.judge_server import Asked, JudgeServer
from helpers.processes import Process

Cli = Callable[..., tuple[int, str, str]]

SAMPLES = [
    EvaluationSample(f"q{n}", f"what is {n}?", [Document("gold", "the gold")] if n == 1 else None) for n in range(3)
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    yield
    sys.modules.pop("my_judge", None)  # the next folder has one of the same name


def stored(**systems: str) -> None:
    """A run per name of a system that returns a document per letter, whatever is asked."""
    with RunStore.open("runs.sqlite") as store:
        for name, letters in systems.items():

            def answer(sample: EvaluationSample, *, top_k: int, letters: str = letters) -> SystemOutputs:
                ids = [f"{sample.sample_id}-{one}" for one in letters] + (["gold"] if "g" in letters else [])
                found = [RetrievedDocument(Document(one, f"level {one[-1]}"), None, n) for n, one in enumerate(ids, 1)]
                return SystemOutputs(found[:top_k], Response("x"))

            run_system(answer, SAMPLES, ["mean_latency[end_to_end]"], store=store, name=name)


def rows(path: str = "pool.jsonl") -> dict[tuple[str, str], dict[str, object]]:
    read = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return {(row["sample_id"], row["doc_id"]): row for row in read}


def test_stored_runs_are_pooled_by_name(auepora: Cli) -> None:
    stored(bm25="01g", dense="12")
    code, out, err = auepora("pool", "bm25", "dense", "--depth", "2", "-o", "p.jsonl")
    assert (code, "wrote p.jsonl" in err) == (0, True)
    assert "3 queries, 9 documents (3.0 a query) of depth 2" in out
    assert rows("p.jsonl")["q1", "q1-1"]["returned"] == {"bm25": 2, "dense": 1}
    code, out, _ = auepora("pool", "bm25", "dense", "--depth", "5", "-q", "--json")
    document = json.loads(out)
    assert (document["documents"], document["judged"], document["to_judge"], document["file"]) == (
        15,
        1,
        14,
        "pool.jsonl",
    )
    assert rows()["q1", "gold"]["judged"] == {"grade": 1, "by": "human"}
    assert json.loads(auepora("pool", "bm25", "dense", "-q", "--json", "--ignore-gold")[1])["judged"] == 0
    Path("qrels.txt").write_text("q0 0 q0-0 3\n")
    code, out, _ = auepora("pool", "bm25", "dense", "--qrels", "qrels.txt", "--new-only", "-q", "--json")
    assert json.loads(out)["left_out"] == 2
    assert {("q0", "q0-0"), ("q1", "gold")} & set(rows()) == set()


def test_files_are_pooled_with_the_texts_of_a_corpus(auepora: Cli) -> None:
    Path("a.run").write_text("q1 Q0 x 1 2.0 t\nq1 Q0 y 2 1.0 t\nq9 Q0 z 1 1.0 t\n")
    Path("b.jsonl").write_text('{"sample_id": "q1", "retrieved": [{"doc": {"doc_id": "y"}, "score": 1, "rank": 1}]}\n')
    Path("topics.tsv").write_text("q1\twhat?\n")
    Path("corpus.jsonl").write_text('{"_id": "x", "text": "text of x"}\n{"_id": "y", "text": "text of y"}\n')
    assert auepora("pool", "a.run", "b.jsonl")[0] == 2  # nobody knows what was asked
    code, _, err = auepora("pool", "a.run", "b.jsonl", "--topics", "topics.tsv")
    assert (code, "2 documents have no text" in err, "1 queries of the runs" in err) == (0, True, True)
    assert auepora("pool", "a.run", "b.jsonl", "--topics", "topics.tsv", "--corpus", "corpus.jsonl")[0] == 0
    assert rows()["q1", "y"] == {
        "sample_id": "q1",
        "query": "what?",
        "doc_id": "y",
        "text": "text of y",
        "returned": {"a.run": 2, "b.jsonl": 1},
    }
    for wrong in (
        ("a.run", "a.run", "--topics", "topics.tsv", "-o", "a.run"),
        ("a.run", "--topics", "t", "--dataset", "d"),
    ):
        assert auepora("pool", *wrong)[0] == 2


def test_runs_about_different_questions_are_rejected(auepora: Cli) -> None:
    stored(one="0")
    with RunStore.open("runs.sqlite") as store:
        other = [EvaluationSample("q0", "something else?")]
        run_system(lambda sample, top_k: SystemOutputs([]), other, [], store=store, name="two")
    code, _, err = auepora("pool", "one", "two")
    assert (code, "the runs are about different questions" in err) == (2, True)
    code, _, err = auepora("pool", "one", "one")
    assert (code, "given twice" in err) == (2, True)


def level(asked: Asked) -> dict[str, object]:
    """Grades by the digit in the text."""
    return {"rationale": "by its digit", "score": int(asked.prompt.split("level ")[1][0])}


def test_failed_documents_are_graded_by_a_second_run(auepora: Cli) -> None:
    stored(bm25="01", dense="23")
    assert auepora("pool", "bm25", "dense", "-q")[0] == 0
    arguments = ("judge", "relevance", "pool.jsonl", "-o", "qrels.txt", "--judge-model", "tiny", "--judge-url")
    expected = {f"q{n}": {f"q{n}-{grade}": grade for grade in range(4)} for n in range(3)}
    with JudgeServer(level) as server:
        code, out, _ = auepora(*arguments, server.base_url, "--preview", "--json")
        assert (code, json.loads(out)["total"]["calls"], server.asked) == (0, 12, [])
    with JudgeServer(level, rates={"refusal": 0.5}, seed=1) as server:
        code, out, err = auepora(*arguments, server.base_url, "--json")
        document = json.loads(out)
        assert code == 3
        assert "have no grade; the same command retries them" in err
        assert document["failed"] == {"refused": 12 - document["graded"]}
        assert 0 < document["graded"] < 12
    for query, levels in load_qrels("qrels.txt").items():
        assert levels.items() <= expected[query].items()  # a failure is not a 0
    with JudgeServer(level, rates={"500": 0.3, "429_wait": 0.2}, seed=2) as server:
        code, out, _ = auepora(*arguments, server.base_url, "--json")
        assert (code, json.loads(out)["asked"]) == (0, 12 - document["graded"])
    assert load_qrels("qrels.txt") == expected
    assert {one.by for one in read_grades("qrels.txt").values()} == {"model"}
    assert auepora(*arguments, "http://127.0.0.1:9/v1")[0] == 0  # nobody need be there any more
    code, out, _ = auepora("score", "--qrels", "qrels.txt", "--run", run_file(), "-m", "ndcg@2", "--json", "-q")
    (result,) = json.loads(out)["results"]
    assert result["value"] == pytest.approx(1 / (3 + 2 / 1.584962500721156) / 1.584962500721156)
    assert (result["details"]["judged"], result["details"]["gold_by"]) == (1.0, {"model": 12})


def run_file() -> str:
    """What returns the documents of grade 0 and 1."""
    Path("bm25.run").write_text(
        "".join(f"q{n} Q0 q{n}-{one} {one + 1} {-one} t\n" for n in range(3) for one in range(2))
    )
    return "bm25.run"


JUDGE = """
import os, time
from auepora_eval.judge.critic import LLMCritic

class Slow(LLMCritic):
    name = "slow"
    def score(self, *, prompt, metadata=None):
        time.sleep(0.05)
        with open("asked.log", "a") as log:
            log.write(metadata["sample_id"] + "/" + metadata["doc_id"] + "\\n")
        return int(metadata["doc_id"][-1])
"""


@pytest.mark.slow
def test_a_killed_run_resumes(auepora: Cli) -> None:
    Path("my_judge.py").write_text(JUDGE)
    Path("judge.yaml").write_text('resources: {judge: {python: "my_judge:Slow"}}\njudge: {concurrency: 2}\n')
    pool = [{"sample_id": f"q{n}", "doc_id": f"d{n % 4}", "query": "?", "text": f"text {n}"} for n in range(60)]
    Path("pool.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in pool))
    arguments = ["judge", "relevance", "pool.jsonl", "--plan", "judge.yaml", "-o", "qrels.txt"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    log = Path("asked.log")
    with Process([sys.executable, "-m", "auepora_eval", *arguments], env=environment) as process:
        while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < 15):
            time.sleep(0.005)
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    done = read_grades("qrels.txt")
    assert 10 <= len(done) < 60
    assert not Path("qrels.txt").exists()
    before = len(log.read_text().split())
    assert before - len(done) <= 4  # only what was in flight is lost
    code, out, _ = auepora(*arguments, "-q", "--json")
    assert (code, json.loads(out)["graded"], json.loads(out)["asked"]) == (0, 60, 60 - len(done))
    again = log.read_text().split()[before:]
    assert not {f"{query}/{doc}" for query, doc in done} & set(again)
    assert load_qrels("qrels.txt") == {f"q{n}": {f"d{n % 4}": n % 4} for n in range(60)}


def test_human_grades_override(auepora: Cli) -> None:
    Path("my_judge.py").write_text(JUDGE)
    Path("judge.yaml").write_text('resources: {judge: {python: "my_judge:Slow"}}\n')
    pool = [{"sample_id": "q", "doc_id": f"d{n}", "query": "?", "text": f"text {n}"} for n in range(4)]
    Path("pool.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in pool))
    arguments = ("judge", "relevance", "pool.jsonl", "-o", "qrels.txt", "-q", "--json")
    assert auepora(*arguments)[0] == 2  # nobody to ask
    Path("human.tsv").write_text("q\td0\t2\n")
    code, out, _ = auepora(*arguments, "--labels", "human.tsv")
    assert (code, json.loads(out)["by"], json.loads(out)["failed"]) == (0, {"human": 1}, {"not_asked": 3})
    assert auepora(*arguments, "--plan", "judge.yaml")[0] == 0
    assert sorted(Path("asked.log").read_text().split()) == ["q/d1", "q/d2", "q/d3"]
    Path("more.jsonl").write_text(
        '{"sample_id": "q", "doc_id": "d1", "grade": 3}\n{"sample_id": "q", "doc_id": "d2", "grade": 2}\n'
    )
    text = Path("qrels.txt").read_text()
    Path("qrels.txt").write_text(text.replace("q 0 d3 3", "q 0 d3 0"))  # by hand
    code, out, _ = auepora(*arguments, "--plan", "judge.yaml", "--labels", "more.jsonl")
    assert json.loads(out)["by"] == {"corrected": 2, "human": 2}
    assert load_qrels("qrels.txt") == {"q": {"d0": 2, "d1": 3, "d2": 2, "d3": 0}}
    whose = {one.doc_id: (one.by, one.model_grade) for one in read_grades("qrels.txt").values()}
    assert whose == {"d0": ("human", None), "d1": ("corrected", 1), "d2": ("human", 2), "d3": ("corrected", 3)}
    assert len(Path("asked.log").read_text().split()) == 3
    code, out, _ = auepora(*arguments[:-2], "--plan", "judge.yaml")
    assert (code, "corrected" in out) == (0, True)


def test_grading_again_keeps_human_grades(auepora: Cli) -> None:
    Path("my_judge.py").write_text(JUDGE)
    Path("judge.yaml").write_text('resources: {judge: {python: "my_judge:Slow"}}\n')
    Path("pool.jsonl").write_text("".join(f'{{"sample_id": "q", "doc_id": "d{n}", "text": "t"}}\n' for n in range(3)))
    Path("qrels.txt").write_text("q 0 d0 2\nq 0 d1 3\n")
    Path("qrels.txt.provenance.jsonl").write_text(
        '{"sample_id":"q","doc_id":"d1","grade":3,"by":"model","model":"older"}\n'
    )
    arguments = ("judge", "relevance", "pool.jsonl", "-o", "qrels.txt", "--plan", "judge.yaml")
    code, _, err = auepora(*arguments)
    assert (code, "1 grades by another model or prompt were kept" in err) == (0, True)
    assert load_qrels("qrels.txt")["q"] == {"d0": 2, "d1": 3, "d2": 2}
    assert auepora(*arguments, "--again", "-q")[0] == 0
    assert load_qrels("qrels.txt")["q"] == {"d0": 2, "d1": 1, "d2": 2}
    assert {one.doc_id: one.by for one in read_grades("qrels.txt").values()} == {
        "d0": "human",
        "d1": "model",
        "d2": "model",
    }


def test_inputs_are_not_overwritten(auepora: Cli) -> None:
    Path("pool.jsonl").write_text('{"sample_id": "q", "doc_id": "d", "text": "t"}\n')
    for output in ("pool.jsonl", "pool"):
        Path("pool.provenance.jsonl").write_bytes(Path("pool.jsonl").read_bytes())
        pool = "pool.jsonl" if output == "pool.jsonl" else "pool.provenance.jsonl"
        code, _, err = auepora("judge", "relevance", pool, "-o", output, "--judge-model", "m")
        assert (code, "is the input" in err) == (2, True)
