"""What importing the package and small commands cost: CPU time, and packages loaded. Nothing may run beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def fresh(code: str, folder: Path | None = None) -> str:
    """What a fresh interpreter prints, with byte code allowed so that imports cost what they cost a user."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=folder)
    return done.stdout.strip()


def test_import_loads_no_other_package() -> None:
    loaded = fresh(
        "import sys; before = set(sys.modules); import auepora_eval;"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    assert loaded == "auepora_eval"


def test_import_time() -> None:
    code = "import time; t = time.process_time(); import auepora_eval; print(time.process_time() - t)"
    assert min(float(fresh(code)) for _ in range(5)) < 0.15


def test_help_time() -> None:
    code = (
        "import sys, time\n"
        "from auepora_eval.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(time.process_time(), 'numpy' in sys.modules)"
    )
    runs = [fresh(code).splitlines()[-1].split() for _ in range(5)]
    assert min(float(seconds) for seconds, _ in runs) < 0.3
    assert {loaded for _, loaded in runs} == {"False"}


SYSTEM = """
from auepora_eval import Document, Response, RetrievedDocument, SystemOutputs
def make():
    hit = RetrievedDocument(Document("d", text="Paris is in France."), 1.0, 1)
    return lambda sample, top_k: SystemOutputs([hit], Response("Paris"))
"""
PLAN = """
name: one
dataset: {jsonl: data.jsonl}
system: {python: "one_answer:make"}
metrics: [recall@5, mrr, token_f1]
store: runs.sqlite
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan of one sample, and two runs of it."""
    folder = tmp_path_factory.mktemp("one-sample")
    sample = {"sample_id": "q", "query": "Capital?", "reference_answer": "Paris", "relevant_docs": ["d"]}
    (folder / "data.jsonl").write_text(json.dumps(sample) + "\n")
    (folder / "one_answer.py").write_text(SYSTEM)
    (folder / "plan.yaml").write_text(PLAN)
    for name in ("a", "b"):
        fresh(f"from auepora_eval.cli.main import main; main(['run', 'plan.yaml', '--name', '{name}'])", folder)
    return folder


PEER = "import time, aiohttp, click, jinja2, msgspec, numpy, yaml; print(time.process_time())"
"""Imports the packages of the base install that the small commands need, and nothing of this one."""
PEER_SECONDS = 0.25
"""What the peer takes on the machine for which the limits below are given. A slower machine gets more time in proportion."""


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (["run", "plan.yaml", "--name", "c"], 0.6),
        (["compare", "a", "b", "--store", "runs.sqlite"], 0.5),
        (["show", "a", "--store", "runs.sqlite"], 0.45),
    ],
    ids=["run", "compare", "show"],
)
def test_time_of_a_small_command(arguments: list[str], most: float, folder: Path) -> None:
    code = (
        "import time\n"
        "from auepora_eval.cli.main import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as ended: assert not ended.code\n"
        "print(time.process_time())"
    )
    command, peer = [], []
    for calls in range(1, 16):
        command.append(float(fresh(code, folder).splitlines()[-1]))
        peer.append(float(fresh(PEER)))
        limit = most * max(1.0, min(peer) / PEER_SECONDS)
        if calls >= 3 and min(command) < limit:
            return
    pytest.fail(f"{min(command):.3f} s of {limit:.3f} s, where the peer took {min(peer):.3f} s")
