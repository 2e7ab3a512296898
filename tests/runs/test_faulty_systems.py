"""Endpoints, commands and stores that misbehave: every sample ends scored or with its reason, and nothing is lost."""

import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from auepora_eval.runs.run import run_plan
from auepora_eval.store.runs import RunStore
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]
STALL = 1.5


class Faulty(BaseHTTPRequestHandler):
    """Answers; but one time in ten with 500, in ten with 429, in twenty not in time, in twenty with half a reply."""

    protocol_version = "HTTP/1.1"
    chance = random.Random(11)
    lock = threading.Lock()
    given: Counter[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            fault = self.chance.choices(["500", "429", "stall", "broken", "fine"], [10, 10, 5, 5, 70])[0]
            self.given[fault] += 1
        if fault == "stall":
            time.sleep(STALL)
        reply = {
            "answer": f"it is {body['sample_id']}",
            "documents": [{"id": f"d{body['sample_id']}", "text": "it is"}],
        }
        payload = json.dumps(reply).encode()
        if fault == "broken":
            payload = payload[: len(payload) // 2]
        self.send_response({"500": 500, "429": 429}.get(fault, 200))
        if fault == "429":
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        try:
            self.wfile.write(payload)
        except OSError:
            self.close_connection = True  # whoever asked has left

    def log_message(self, *arguments: object) -> None:
        """Nothing: the test looks at what was recorded."""


@contextmanager
def served(handler: type[Faulty]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ask"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def http_plan(project: Project, url: str, run: str) -> str:
    path = project.folder / "http.yaml"
    path.write_text(
        f"""dataset: data.jsonl
system:
  http:
    url: {url}
    headers: {{Authorization: "Bearer ${{RAG_TOKEN}}"}}
    response: {{answer: answer, retrieved: documents, doc_id: id, text: text}}
metrics: [recall@5, token_f1]
run: {run}
store: runs.sqlite
"""
    )
    return str(path)


def test_faulty_endpoint_leaves_no_sample_without_an_outcome(
    project: Projects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_TOKEN", "very-secret-token")
    mine = project(300)

    class Here(Faulty):
        given = Counter()  # noqa: RUF012

    with served(Here) as url:
        plan = http_plan(mine, url, f"{{concurrency: 32, timeout: {STALL / 3}, retries: 1, backoff: 0.01}}")
        outcome = run_plan(plan)
    assert outcome.ended == "finished"
    assert outcome.results is not None
    scored = outcome.results.by_name["recall@5"]
    outcomes = Counter(scored.outcomes or ())
    assert sum(outcomes.values()) == 300
    assert {one for one in outcomes if one != "scored"} <= {
        "system_failed:server_error",
        "system_failed:rate_limited",
        "system_failed:timeout",
        "system_failed:bad_output",
        "system_failed:connection_error",
    }
    assert outcomes["scored"] > 240  # a fault twice in a row has a chance of .3 * .3
    assert all(Here.given[fault] for fault in ("500", "429", "stall", "broken"))
    assert b"very-secret-token" not in (mine.folder / "runs.sqlite").read_bytes()


def test_endpoint_that_is_down_fails_samples_or_stops_the_run(project: Projects, auepora: Run) -> None:
    mine = project(40)
    os.environ["RAG_TOKEN"] = "x" * 8
    try:
        with served(Faulty) as url:
            pass  # and it is closed again
        http_plan(mine, url, "{concurrency: 4, retries: 0, max_failures: 5}")
        code, _, err = auepora("run", "http.yaml")
    finally:
        del os.environ["RAG_TOKEN"]
    assert code == 3
    assert "connection_error" in err
    assert "--resume" in err


COMMAND = """
import json, os, sys
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    print("thinking about", asked["query"])
    if asked["sample_id"] == "7" and not os.path.exists("revived"):
        open("revived", "w").close()
        os._exit(3)
    print(json.dumps({"sample_id": asked["sample_id"], "retrieved": ["d" + asked["sample_id"]], "response": "it is"}), flush=True)
"""


def test_command_that_dies_is_restarted(project: Projects) -> None:
    mine = project(20)
    (mine.folder / "rag.py").write_text(COMMAND)
    (mine.folder / "command.yaml").write_text(
        f"""dataset: data.jsonl
system: {{command: {{run: [{sys.executable}, rag.py], cwd: .}}}}
metrics: [recall@5]
run: {{concurrency: 2, retries: 1, backoff: 0.01, timeout: 30}}
"""
    )
    outcome = run_plan("command.yaml")
    assert outcome.results is not None
    assert outcome.results[0].value == 1.0
    assert (mine.folder / "revived").exists()


@pytest.mark.slow
def test_full_disk_ends_the_run_which_can_be_resumed(project: Projects, auepora: Run) -> None:
    mine = project(2000)
    mine.plan(run="{concurrency: 4}")

    def small_files_only() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing fails rather than the process
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

    full = subprocess.run(
        [sys.executable, "-m", "auepora_eval", "run", "plan.yaml"],
        cwd=mine.folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=small_files_only,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert full.returncode == 3
    assert b"Traceback" not in full.stderr
    assert b"runs.sqlite" in full.stderr
    assert b"To resume: auepora run plan.yaml --resume" in full.stderr
    before = len(mine.calls())
    assert 0 < before < 2000
    code, out, err = auepora("run", "plan.yaml", "--resume", "--json")
    assert code == 0, err
    assert json.loads(out)["results"][0]["details"]["num_samples"] == 2000
    assert len(mine.calls()) <= 2000 + 4


def test_invalid_store_is_reported_before_any_call(project: Projects, auepora: Run) -> None:
    mine = project(5)
    (mine.folder / "runs.sqlite").write_bytes(b"this is not a database, whatever its name says" * 40)
    code, _, err = auepora("run", "plan.yaml")
    assert code == 2
    assert "runs.sqlite" in err
    assert mine.calls() == []


def test_store_contains_no_secret_of_an_exception(project: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-abcdef-123456")
    mine = project(3)
    source = (mine.folder / "my_rag.py").read_text()
    source = source.replace("def __init__(self,", "def __init__(self, key='',").replace(
        "self.log =", "self.key = key; self.log ="
    )
    (mine.folder / "keyed_rag.py").write_text(
        source.replace("n = int(", "raise ValueError('bad key ' + self.key); n = int(")
    )
    plan = Path(mine.plan(args="{key: '${MY_KEY}'}")).read_text().replace("my_rag:Rag", "keyed_rag:Rag")
    (mine.folder / "plan.yaml").write_text(plan)
    outcome = run_plan("plan.yaml")
    assert outcome.failed == 3
    with RunStore.open("runs.sqlite") as store:
        errors = [row.output.error for row in store.outputs(outcome.record.run_id)]
    assert errors == ["raised: ValueError: bad key ***"] * 3
    for name in ("runs.sqlite", "runs.sqlite-wal"):
        if (mine.folder / name).exists():
            assert b"sk-abcdef-123456" not in (mine.folder / name).read_bytes()
