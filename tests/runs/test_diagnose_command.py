"""``auepora diagnose``: output formats, preview, errors, and a diagnosis that is killed and resumed."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.store.runs import RunStore
from helpers.browser_page import Watched, chromium
from helpers.report_pages import Page
from helpers.user_project import Project
from runs.test_kill import command, environment, killed_at

Auepora = Callable[..., tuple[int, str, str]]
MODULE = """
import time
from auepora_eval import Document, Response, RetrievedDocument

class Finder:
    def retrieve(self, query, *, top_k=5):
        number = int(query.split()[-1])
        numbers = [number + shift for shift in range(1 if number % 3 == 0 else 0, top_k)]
        return [RetrievedDocument(Document(f"d{one}", f"Item {one} is A{one}."), 1.0, at) for at, one in enumerate(numbers, 1)]

class Reader:
    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def generate(self, query, documents):
        with open("calls.log", "a") as log:
            log.write(query + "\\n")
        time.sleep(self.seconds)
        number = query.split()[-1]
        texts = [one.text for one in documents if one.text.startswith(f"Item {number} is")]
        return Response(texts[0] if texts else "I don't know.")

def build(seconds=0.0):
    return Finder(), Reader(seconds)
"""
PLAN = """
name: items
dataset: {{jsonl: data.jsonl}}
system: {{python: "items:build", args: {{seconds: {seconds}}}}}
metrics: [containment]
run: {{top_k: 3, concurrency: 4}}
store: runs.sqlite
"""


def written(folder: Path, n: int = 12, seconds: float = 0.0) -> None:
    (folder / "items.py").write_text(MODULE)
    rows = [
        {
            "sample_id": f"q{one}", "query": f"item {one}", "reference_answer": f"A{one}",
            "relevant_docs": [{"doc_id": f"d{one}", "text": f"Item {one} is A{one}."}],
        }
        for one in range(n)
    ]  # fmt: skip
    (folder / "data.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    (folder / "plan.yaml").write_text(PLAN.format(seconds=seconds))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "items", raising=False)
    return tmp_path


def test_formats(folder: Path, auepora: Auepora) -> None:
    code, out, err = auepora("diagnose", "plan.yaml", "--all")
    assert code == 0, err
    assert out.startswith("4 of 12 answers are wrong: retrieval limits 100 % of them.\n")
    assert "an answer is right if containment >= 1" in out
    assert "items [arm=oracle retest]" in err
    calls = len((folder / "calls.log").read_text().splitlines())
    assert calls == 6 * 12
    code, out, _ = auepora("diagnose", "plan.yaml", "--resume", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["causes"]["retrieval"]["sample_ids"] == ["q0", "q3", "q6", "q9"]
    assert set(document["runs"]) == {
        "arm=none", "arm=oracle", "arm=oracle retest", "arm=retrieved", "arm=retrieved retest", "arm=mixed",
    }  # fmt: skip
    assert auepora("diagnose", "plan.yaml", "--resume", "-o", "d.md")[0] == 0
    assert "| retrieval | 1.0000 |" in (folder / "d.md").read_text()
    code, out, _ = auepora("diagnose", "plan.yaml", "--resume", "-o", "d.html", "--quiet")
    page = (folder / "d.html").read_text()
    Page(page).require_sound()
    assert "retrieval limits 100 % of them" in page
    assert 'href="#q/q3"' in page
    assert out.startswith("4 of 12")
    assert len((folder / "calls.log").read_text().splitlines()) == calls


def test_preview_counts_calls(folder: Path, auepora: Auepora) -> None:
    code, out, _ = auepora("diagnose", "plan.yaml", "--preview", "--arms", "none,oracle,retrieved,mixed,each", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["calls"] == {"none": 12, "oracle": 24, "retrieved": 24, "mixed": 12, "each": 36}
    assert document["total_calls"] == 108
    assert document["judge_calls"] == 0  # no metric of the plan needs a judge
    assert "108" in auepora("diagnose", "plan.yaml", "--preview", "--arms", "none,oracle,retrieved,mixed,each")[1]
    assert not (folder / "calls.log").exists()
    assert not (folder / "runs.sqlite").exists()


ERRORS: list[tuple[list[str], str]] = [
    (["--arms", "none,mixt,retrieved"], "there is no arm 'mixt'; did you mean 'mixed'"),
    (["--erag", "ndcg@5"], "--erag goes with the arm each: add it to --arms"),
    (
        ["--arms", "retrieved,each", "--erag", "ndcg@3", "--utility", "token_f1"],
        "ndcg@3 cannot be computed from graded",
    ),
    (["--correct", "token_f1"], "give --correct-from"),
    (["--retry-failed"], "--retry-failed goes with --resume"),
    (["-o", "x.csv"], "cannot be written as CSV"),
    (["-o", "data.jsonl"], "data.jsonl"),
    (["--resume"], "there is no run of 'items' with a diagnosis with k=3 and seed 0 to resume"),
]


@pytest.mark.parametrize(("options", "message"), ERRORS, ids=[row[1] for row in ERRORS])
def test_errors_come_before_any_call(folder: Path, auepora: Auepora, options: list[str], message: str) -> None:
    code, out, err = auepora("diagnose", "plan.yaml", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert not (folder / "calls.log").exists()


def test_the_error_for_an_endpoint_names_the_option(folder: Path, auepora: Auepora) -> None:
    plan = (folder / "plan.yaml").read_text()
    (folder / "plan.yaml").write_text(plan.replace(plan.splitlines()[3], "system: {http: 'http://127.0.0.1:1/ask'}"))
    code, _, err = auepora("diagnose", "plan.yaml")
    assert code == 2
    assert "write 'documents: true' in its 'system:' section" in err


@pytest.mark.slow
def test_the_arms_are_side_by_side_in_the_page(folder: Path, auepora: Auepora) -> None:
    assert auepora("diagnose", "plan.yaml", "-o", "d.html", "--quiet")[0] == 0
    with chromium() as browser:
        watched = Watched(browser.new_page())
        page = watched.open(folder / "d.html", "#q/q3")
        names = page.locator(".qb-side .qb-run").all_inner_texts()
        assert [name[3:] for name in names] == [
            f"items [arm={arm}]" for arm in ("retrieved", "none", "oracle", "mixed")
        ]
        assert page.locator(".qb-metrics thead th").all_inner_texts() == ["Metric", "A", "B", "C", "D"]
        watched.check(folder / "d.html")


def numbers(folder: Path, store: str) -> dict[str, Any]:
    """The numbers of the diagnosis, which resuming computes again from the stored runs."""
    done = subprocess.run(
        command("diagnose", "plan.yaml", "--resume", "--json", "--store", store, "--arms", "none,oracle,retrieved,mixed,each"),
        cwd=folder, env=environment(), capture_output=True, check=True,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    del document["runs"]
    return document


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path, project: Callable[[int], Project]) -> None:
    mine = project(1)
    written(mine.folder, 40, 0.005)
    arms = ["--arms", "none,oracle,retrieved,mixed,each"]
    for attempt, target in enumerate((30, 150, 260, 330)):
        assert killed_at(mine, target, "diagnose", "plan.yaml", *arms, *(["--resume"] if attempt else []))
    killed = numbers(mine.folder, "runs.sqlite")
    calls = len((mine.folder / "calls.log").read_text().splitlines())
    assert calls <= 6 * 40 + 3 * 40 + 4 * 4  # at most those in flight are repeated
    subprocess.run(
        command("diagnose", "plan.yaml", *arms, "--store", "once.sqlite"),
        cwd=mine.folder, env=environment(), capture_output=True, check=True,
    )  # fmt: skip
    assert numbers(mine.folder, "once.sqlite") == killed
    with RunStore.open(mine.folder / "runs.sqlite") as store:
        assert len(list(store.runs())) == 7
