"""Files of labels, draws, grades, nuggets and pools: written with the recorded bytes, and read with the recorded results."""

import io
import json
import re
import shutil
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import AueporaWarning
from helpers.golden import GOLDEN, check_golden, check_golden_text, write_golden
from helpers.golden_store import without

Cli = Callable[..., tuple[int, str, str]]
FILES = "judge/files"
JUDGE = """
from helpers.golden_judge import Answers, overlap


class Judge(Answers):
    def __init__(self, failing=()):
        super().__init__(failing=failing)
"""
PLAN = """name: {name}
dataset: {{jsonl: questions.jsonl}}
outputs: {{jsonl: {name}.jsonl}}
resources:
  judge: {{python: "golden_file_judge:Judge", args: {{failing: {failing}}}}}
  function: {{python: "golden_file_judge:overlap"}}
metrics: [recall@3, token_f1, {{llm_faithfulness: {{critic: {{use: judge}}}}}}]
judge: {{concurrency: 1, cache: false, prices: {{golden-1: {{prompt: 2, completion: 10}}}}}}
store: runs.sqlite
"""
RUNS = {"bm25": "run_00000000000000000000000001", "dense": "run_00000000000000000000000002"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Cli) -> Iterator[Path]:
    """The project with a store of two runs, as it was recorded."""
    place = tmp_path / "project"
    shutil.copytree(GOLDEN / "judge/project", place)
    (place / "golden_file_judge.py").write_text(JUDGE)
    (place / "plan.yaml").write_text(PLAN.format(name="bm25", failing="[]"))
    monkeypatch.chdir(place)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.delitem(sys.modules, "golden_file_judge", raising=False)
    store = GOLDEN / FILES / "runs.db"
    if write_golden() and not store.exists():
        make_store(auepora)
        store.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile("runs.sqlite", store)
    shutil.copyfile(store, "runs.sqlite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        yield place


def make_store(auepora: Cli) -> None:
    """Runs of two systems, with ids that labels and draws can name."""
    for name in RUNS:
        Path(f"{name}.yaml").write_text(PLAN.format(name=name, failing="[q07]"))
        assert auepora("run", f"{name}.yaml", "-q")[0] == 0
    connection = sqlite3.connect("runs.sqlite", isolation_level=None)
    for name, run_id in RUNS.items():
        (before,) = connection.execute("SELECT run_id FROM eval_runs WHERE name = ?", (name,)).fetchone()
        for table in ("eval_runs", "eval_query_results", "eval_scores", "eval_judgements"):
            connection.execute(f"UPDATE {table} SET run_id = ? WHERE run_id = ?", (run_id, before))
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("VACUUM")
    connection.close()


def without_times(text: str) -> str:
    """The text of a file with one time for all: each line says when it was written."""
    return re.sub(r'"at":"[^"]*"', '"at":"2030-01-01T00:00:00+00:00"', text)


def check_file(path: str) -> None:
    """Compare what a command wrote with the golden file of this name, times aside."""
    check_golden_text(f"{FILES}/{path}", without_times(Path(path).read_text(encoding="utf-8")))


def take(*names: str) -> None:
    """Put golden files into the current folder."""
    for name in names:
        shutil.copyfile(GOLDEN / FILES / name, name)


def json_output(auepora: Cli, *arguments: str, code: int = 0) -> Any:
    """The JSON that a command prints; how long judging took is left out."""
    found, out, err = auepora(*arguments)
    assert found == code, err
    value = json.loads(out)
    if isinstance(value, dict) and "judging" in value:
        del value["judging"]["seconds"]
    return value


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


# --- labels and draws ------------------------------------------------------------------------------------------------


def test_labels_are_written(folder: Path, auepora: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "r", "c not quite, 東京", "w", "r", "w", "w", "r")
    stratified = ("--n", "6", "--stratify", "labels.scenario")
    assert auepora("label", "bm25", "--plain", *stratified, "--annotator", "ann", "--labels", "ann.jsonl")[0] == 0
    check_file("ann.jsonl")
    check_file("ann.draw.json")
    typed(monkeypatch, "w", "r", "r", "w", "r", "r")
    assert auepora("label", "bm25", "--plain", *stratified, "--annotator", "bob", "--labels", "bob.jsonl")[0] == 0
    check_file("bob.jsonl")
    typed(monkeypatch, "5", "s", "1", "c", "3")
    scaled = ("--scale", "1-5", "-m", "llm_faithfulness", "--n", "4", "--seed", "3", "--tuning", "--blind")
    assert auepora("label", "dense", "--plain", *scaled, "--annotator", "eve", "--labels", "eve.jsonl")[0] == 0
    check_file("eve.jsonl")
    check_file("eve.draw.json")
    typed(monkeypatch, "r", "r", "w", "r", "w", "r")
    assert auepora("label", "dense", "--plain", "--n", "6", "--annotator", "max", "--labels", "max.jsonl")[0] == 0
    check_file("max.jsonl")
    typed(monkeypatch, "5", "2", "1", "4", "3")
    numbers = ("--scale", "1-5", "--n", "5")
    assert auepora("label", "dense", "--plain", *numbers, "--annotator", "sue", "--labels", "sue.jsonl")[0] == 0
    check_file("sue.jsonl")
    typed(monkeypatch, "r", "w", "r", "w")
    settle = ("--adjudicate", "ann.jsonl", "bob.jsonl", "--labels", "settled.jsonl", "--annotator", "zoe")
    assert auepora("label", "bm25", "--plain", *settle)[0] == 0
    check_file("settled.jsonl")


@pytest.mark.slow
def test_labels_are_read(folder: Path, auepora: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    take("ann.jsonl", "ann.draw.json", "bob.jsonl", "eve.jsonl", "eve.draw.json", "settled.jsonl")
    take("max.jsonl", "sue.jsonl")
    found: dict[str, Any] = {}
    calibrate = ("judge", "calibrate", "--json")
    both = ("--labels", "ann.jsonl", "--labels", "bob.jsonl")
    Path("scores.jsonl").write_text("".join(f'{{"sample_id": "q{n:02}", "score": {n / 11}}}\n' for n in range(12)))
    Path("tuned.jsonl").write_text('{"sample_id": "q04"}\n')
    for name, arguments in {
        "agreement": ("label", "--agreement", "ann.jsonl", "bob.jsonl", "settled.jsonl", "--json"),
        "one annotator": (*calibrate, "bm25", "--labels", "ann.jsonl"),
        "two annotators": (*calibrate, "bm25", *both, "-m", "token_f1", "--threshold", "0.3"),
        "settled": (*calibrate, "bm25", *both, "--labels", "settled.jsonl", "--these-samples", "--seed", "1"),
        "two runs": (*calibrate, "bm25", "dense", "--labels", "ann.jsonl", "--labels", "max.jsonl", "--assume-random"),
        "scale": (*calibrate, "dense", "--labels", "sue.jsonl", "--scale", "1-5", "--assume-random"),
        "labels for tuning": (*calibrate, "dense", "--labels", "eve.jsonl", "--scale", "1-5", "--leave-out-tuned"),
        "scores of a file": (*calibrate, "--labels", "ann.jsonl", "--scores", "scores.jsonl"),
        "tuned on": (*calibrate, "bm25", *both, "--tuned-on", "tuned.jsonl", "--leave-out-tuned"),
    }.items():
        code, out, _ = auepora(*arguments)
        # Labels for tuning measure nothing.
        found[name] = json.loads(out) if code == 0 else {"exit code": code}
    check_golden(f"{FILES}/calibration.json", found)

    # A session that is complete asks nothing, and changes nothing.
    before = Path("ann.jsonl").read_bytes(), Path("ann.draw.json").read_bytes()
    typed(monkeypatch)
    stratified = ("--n", "6", "--stratify", "labels.scenario")
    command = ("label", "bm25", "--plain", *stratified, "--annotator", "ann", "--labels", "ann.jsonl")
    code, out, _ = auepora(*command)
    assert (code, out.splitlines()[-1]) == (0, "ann.jsonl: 6 of 6 labelled by ann: 3 right, 3 wrong")
    assert (Path("ann.jsonl").read_bytes(), Path("ann.draw.json").read_bytes()) == before
    # A larger draw begins with the same samples.
    typed(monkeypatch, "r")
    assert auepora(*command, "--n", "8")[0] == 0
    check_golden_text(f"{FILES}/ann8.draw.json", Path("ann.draw.json").read_text(encoding="utf-8"))


# --- pools and grades ------------------------------------------------------------------------------------------------


def test_pools_and_grades(folder: Path, auepora: Cli) -> None:
    """A pool of two runs, graded by a judge, then by people; and what reads those files."""
    found: dict[str, Any] = {}
    pool = ("pool", "bm25", "dense", "--depth", "2", "-q", "--json")
    found["pool"] = json_output(auepora, *pool)
    check_file("pool.jsonl")
    found["pool without gold"] = json_output(auepora, *pool, "--ignore-gold", "--seed", "4", "-o", "pool_all.jsonl")
    check_file("pool_all.jsonl")
    take("pool.jsonl", "pool_all.jsonl")
    relevance = ("judge", "relevance", "pool_all.jsonl", "-o", "qrels.txt", "--plan", "plan.yaml", "-q", "--json")
    judge = ("--judge", "judge")
    found["preview"] = json_output(auepora, *relevance, *judge, "--preview")
    found["grades"] = json_output(auepora, *relevance, *judge, code=3)  # documents without text have no grade
    check_file("qrels.txt")
    check_file("qrels.txt.provenance.jsonl")

    take("qrels.txt", "qrels.txt.provenance.jsonl")
    found["grades again"] = json_output(auepora, *relevance, *judge, code=3)
    check_file("qrels.txt")
    check_file("qrels.txt.provenance.jsonl")
    found["pool of what is left"] = json_output(
        auepora, *pool, "--qrels", "qrels.txt", "--new-only", "-o", "left.jsonl"
    )
    found["rescored"] = json_output(auepora, "rescore", "bm25", "-m", "ndcg@3", "--qrels", "qrels.txt", "--json", "-q")
    Path("people.tsv").write_text("q00\tg0\t3\nq00\to0\t0\nq01\tc\t2\nq09\tnew\t1\n")
    Path("people.jsonl").write_text('{"sample_id": "q02", "doc_id": "g2", "grade": 1, "comment": "too short"}\n')
    labelled = ("--labels", "people.tsv", "--labels", "people.jsonl")
    found["labels of people"] = json_output(auepora, *relevance, *judge, *labelled, code=3)
    for name in ("qrels.txt", "qrels.txt.provenance.jsonl"):
        Path(name).rename(name.replace("qrels", "people"))
        check_file(name.replace("qrels", "people"))
    alone = ("judge", "relevance", "pool.jsonl", "-o", "alone.txt", *labelled, "-q", "--json")
    found["labels of people alone"] = json_output(auepora, *alone)
    found["repeats"] = json_output(
        auepora, *relevance[:3], "-o", "repeats.txt", *relevance[5:], *judge, "--judge-repeats", "2", code=3
    )
    check_golden(f"{FILES}/grades.json", found)


# --- nuggets ---------------------------------------------------------------------------------------------------------


def test_nuggets(folder: Path, auepora: Cli) -> None:
    found: dict[str, Any] = {}
    make = ("judge", "nuggets", "questions.jsonl", "--plan", "plan.yaml", "--judge", "judge", "-q")
    assert auepora(*make, "-o", "nuggets.jsonl", "--most", "3")[0] == 0
    check_file("nuggets.jsonl")
    assert (
        auepora(*make, "-o", "retrieved.jsonl", "--retrieved", "bm25.jsonl", "--at-a-time", "1", "--most", "2")[0] == 0
    )
    check_file("retrieved.jsonl")
    take("nuggets.jsonl", "retrieved.jsonl")
    assign = (*make[:5], "--judge", "function", "-q", "--assign", "bm25.jsonl")
    assert auepora(*assign, "--nuggets", "nuggets.jsonl", "-o", "assigned.jsonl")[0] == 0
    check_file("assigned.jsonl")
    take("assigned.jsonl")
    score = ("score", "questions.jsonl", "bm25.jsonl", "--plan", "plan.yaml", "-m", "nugget_recall", "--json", "-q")
    for name in ("nuggets.jsonl", "retrieved.jsonl", "assigned.jsonl"):
        value = json_output(auepora, *score, "--nuggets", name)
        for result in value["results"]:
            del result["details"]["judging"]["seconds"]
        found[name] = value
    check_golden(f"{FILES}/nuggets.json", found)


# --- preference and judgements ---------------------------------------------------------------------------------------


def test_preference_and_export(folder: Path, auepora: Cli) -> None:
    found: dict[str, Any] = {}
    prefer = ("prefer", "bm25", "dense", "--plan", "plan.yaml", "--judge", "judge", "--json", "-q")
    found["preference"] = json_output(auepora, *prefer)
    found["two repeats"] = json_output(auepora, *prefer, "--judge-repeats", "2")
    found["few calls"] = json_output(auepora, *prefer, "--max-calls", "5")
    check_golden(f"{FILES}/preference.json", found)
    assert auepora("export", "bm25", "exported", "-q")[0] == 0
    exported = Path("exported/judgements.jsonl").read_text(encoding="utf-8")
    check_golden_text(f"{FILES}/judgements.jsonl", exported)
    # They are replayed in place of a judge, and give what the run has.
    take("judgements.jsonl")
    text = PLAN.format(name="bm25", failing="[]")
    start = text.index('{python: "golden_file_judge:Judge"')
    end = text.index("\n", start)
    Path("replay.yaml").write_text(text[:start] + "{recorded: judgements.jsonl}" + text[end:])
    replayed = json_output(auepora, "rescore", "bm25", "--plan", "replay.yaml", "--json", "-q")
    stored = json_output(auepora, "show", "bm25", "--json")
    for document in (replayed, stored):
        for result in document["results"]:
            result["details"].pop("judging", None)
    assert replayed["results"] == stored["results"]
    check_golden(f"{FILES}/stored.json", without(stored))
