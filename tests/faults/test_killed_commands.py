"""Sweeps and early stopping that are killed ten times end with the numbers of a run that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.store.runs import RunStore
from helpers.faults import IS_COMPLETE, rounds
from helpers.judge_server import Asked, JudgeServer
from helpers.processes import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SAMPLES, ANSWERS = (60, 60) if IS_COMPLETE else (30, 30)
RAG = """
import time
from pathlib import Path
from auepora_eval import Document, Response, RetrievedDocument

class Rag:
    def retrieve(self, query, *, top_k):
        number = int(query.split()[2].strip("?"))
        return [RetrievedDocument(Document(f"d{n}", f"The answer is {n}."), 1 / rank, rank) for rank, n in enumerate(range(number, number + top_k), 1)]

    def generate(self, query, documents):
        time.sleep(0.004)
        with Path("calls.log").open("a") as log:
            log.write("x\\n")
        return Response(documents[0].text + f" {len(documents)}")
"""
PLAN = """\
name: sweep
dataset: data.jsonl
system: {python: "rag:Rag"}
metrics: [recall@2, token_f1, attack_success_rate]
run: {concurrency: 2, retries: 0}
store: runs.sqlite
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "AUEPORA_STORE": "runs.sqlite"}


def start(folder: Path, *arguments: str) -> "Process[bytes]":
    command = [sys.executable, "-m", "auepora_eval", *arguments]
    return Process(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill_after(folder: Path, count: Callable[[], int], target: int, *arguments: str) -> bool:
    """Start a command and kill it when so many calls were made; returns whether that was before its end."""
    with start(folder, *arguments) as process:
        while process.poll() is None and count() < target:
            time.sleep(0.001)
        killed = process.poll() is None
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
    assert killed or process.returncode in (0, 3), err.decode()
    return killed


def run_whole(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "auepora_eval", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def numbers_of(path: Path) -> dict[str, Any]:
    """Name, value, outcome and scores of every result of every run, by the name of the run."""
    found = {}
    with RunStore.open(path) as store:
        for record in store.runs():
            document = store.results(record.run_id).to_dict(per_query=True)
            values = [(one["name"], one["value"], one["signature"]) for one in document["results"]]
            found[record.name] = (values, [row["scores"] for row in document["per_query"]])
    return found


def test_a_sweep_with_injected_documents(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("killed", "whole")}
    for folder in folders.values():
        folder.mkdir()
        rows = [{"sample_id": f"q{n}", "query": f"what is {n}?", "relevant_docs": [f"d{n}"], "reference_answer": f"{n}"} for n in range(SAMPLES)]  # fmt: skip
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "rag.py").write_text(RAG)
        (folder / "plan.yaml").write_text(PLAN)
    sweep = ("run", "plan.yaml", "--perturb", "inject=0,0.5,1")
    log, killed, calls = folders["killed"] / "calls.log", 0, 3 * SAMPLES
    for number in range(kills := rounds(10, 1)):
        resume = ("--resume",) if number else ()
        target = (number + 1) * (calls - 20) // kills
        killed += kill_after(
            folders["killed"], lambda: log.read_bytes().count(b"\n") if log.exists() else 0, target, *sweep, *resume
        )
    run_whole(folders["killed"], *sweep, "--resume")
    run_whole(folders["whole"], *sweep)
    assert killed >= kills - 1
    assert numbers_of(folders["killed"] / "runs.sqlite") == numbers_of(folders["whole"] / "runs.sqlite")


@pytest.mark.skipif(not IS_COMPLETE, reason="only in the complete form: it starts many processes")
def test_early_stopping(tmp_path: Path) -> None:
    def grade(asked: Asked) -> dict[str, object]:
        is_right = "right" in asked.prompt.rsplit("what is", 1)[-1]
        return {"rationale": "as said", "score": "correct" if is_right else "incorrect"}

    with JudgeServer(grade, latency=0.02 if IS_COMPLETE else 0.005, capacity=2) as server:
        found = {}
        for name, kills in (("killed", rounds(10, 1)), ("whole", 0)):
            folder = tmp_path / name
            folder.mkdir()
            write_judged(folder, server.base_url)
            options = ("rescore", "candidate", "--until-decided", "base", "--delta", "0.05", "--max-calls", "1000")
            run_whole(folder, "run", "base.yaml")
            run_whole(folder, "run", "candidate.yaml")
            before, killed = len(server.asked), 0
            for number in range(kills):
                target = before + 1 + 2 * number
                killed += kill_after(folder, lambda: len(server.asked), target, *options)
            assert killed >= kills - 2
            result = json.loads(run_whole(folder, *options, "--json"))
            judged = next(one for one in result["results"] if one["name"] == "llm_correctness")
            details = judged["details"]
            found[name] = (
                judged["value"],
                details["num_scored"],
                details["sequential"]["verdict"],
                details["sequential"]["path"],
            )
    assert found["killed"] == found["whole"]


def write_judged(folder: Path, url: str) -> None:
    """Answers of two systems: those of the candidate are right more often."""
    rows = [{"sample_id": f"q{n}", "query": f"what is {n}?", "reference_answer": f"it is {n}"} for n in range(ANSWERS)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("base", "candidate"):
        limit, judge = (2, "{cache: false}") if name == "base" else (4, "{cache: false, max_calls: 1}")
        lines = [
            {"sample_id": f"q{n}", "response": f"{name} {n} {'right' if n % 5 < limit else 'wrong'}"}
            for n in range(ANSWERS)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / f"{name}.yaml").write_text(
            f"name: {name}\ndataset: data.jsonl\noutputs: {name}.jsonl\nstore: runs.sqlite\n"
            "metrics: [token_f1, {llm_correctness: {critic: {use: judge}}}]\n"
            f"resources: {{judge: {{openai: {{model: tiny, base_url: '{url}'}}}}}}\njudge: {judge}\n"
        )
