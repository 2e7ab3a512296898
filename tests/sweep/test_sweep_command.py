"""``auepora sweep`` and ``sweep show``: output, exit codes, files, a sweep that is killed and resumed."""

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
from auepora_eval.store.sweeps import find_sweep
from auepora_eval.sweep.answer import answer_sweep
from auepora_eval.sweep.rendering import answer_document
from helpers.processes import Process
from helpers.swept_project import SweepProject

Auepora = Callable[..., tuple[int, str, str]]
GRID = {"system.args.right": [0.2, 0.8], "system.args.model": ["small", "large"]}
MAX_LINES = 25


def test_the_command(project: Callable[..., SweepProject], auepora: Auepora) -> None:
    mine = project(30)
    mine.source({"grid": GRID, "baseline": {"right": 0.2, "model": "small"}, "delta": 0.1})
    code, out, _ = auepora("sweep", "plan.yaml", "--preview")
    assert code == 0
    assert "4 configurations on 30 questions: 120 calls to the system; the judge calls are those of one\n" in out
    assert not mine.calls()
    code, out, err = auepora("sweep", "plan.yaml", "--parallel", "2")
    assert code == 0
    assert out.startswith("Ship (0.8, small): the cheapest of 4 configurations that is not worse than the best")
    assert len(out.splitlines()) <= MAX_LINES
    assert err.count(": finished") == 4
    code, shown, _ = auepora("sweep", "show", "choice")
    assert (code, shown) == (0, out)
    code, listed, _ = auepora("sweep", "show", "choice", "--json")
    document = json.loads(listed)
    assert document["complete"]
    assert document["cheapest_not_worse"] == ["0.8, small"]
    assert {row["status"] for row in document["configurations"]} == {"finished"}
    code, _, err = auepora("sweep", "show", "choice", "-o", "choice.html")
    assert code == 0
    page = Path("choice.html").read_text()
    assert "Sweep choice" in page
    assert "no other is at least as good, cheap and fast" in page
    code, out, _ = auepora("show", "choice [0.8, small]")
    assert "picked among 4 configurations on these questions (sweep choice)" in out
    code, _, err = auepora("sweep", "plan.yaml")
    assert code == 2
    assert "resume it with --resume" in err
    code, again, _ = auepora("sweep", "plan.yaml", "--resume", "--quiet")
    assert (code, again) == (0, shown)
    code, out, _ = auepora("sweep", "plan.yaml", "--preview")
    # Of the 120 answers 60 are of the model `small`, at 0.00011 each, and 60 of `large`, which costs ten times as much.
    assert "called 120 times: about 0.0726, by the usage of earlier runs of 4 of 4 configurations\n" in out
    mine.source({"grid": {**GRID, "system.args.right": [0.2, 0.8, 0.9]}})
    code, out, _ = auepora("sweep", "plan.yaml", "--preview")
    # The two new ones are estimated by the mean of the four earlier runs, 0.000605 an answer.
    estimate = "called 180 times: about 0.1089, by the usage of earlier runs of 4 of 6 configurations, and their mean"
    assert f"{estimate} for the others\n" in out
    code, out, _ = auepora("run", "plan.yaml", "--preview")
    assert "called 30 times: about 0.01815, by the usage of 4 earlier runs on average\n" in out
    assert len(mine.calls()) == 120


def test_exit_codes(project: Callable[..., SweepProject], auepora: Auepora) -> None:
    mine = project(20)
    mine.source({"grid": GRID, "budget": {"tokens": 3000}})
    code, out, err = auepora("sweep", "plan.yaml")
    assert code == 3
    assert out.startswith("Not complete: ")
    assert "Stopped: the budget of 3000 tokens does not suffice for the next configuration: 2200 are used" in err
    assert "To resume: auepora sweep plan.yaml --resume" in err
    code, _, err = auepora("sweep", "plan.yaml", "--resume", "--set", "sweep.budget.tokens=5000")
    assert (code, "the budget of 5000 tokens does not suffice" in err) == (3, True)
    assert auepora("sweep", "plan.yaml", "--name", "failing", "--set", "system.args.crash=1.0", "-q")[0] == 3
    code, out, _ = auepora("sweep", "show", "failing")
    assert (code, out.partition("\n")[0]) == (0, "No configuration finished, so that there is no conclusion.")
    assert "failed: (0.2, small), (0.2, large), (0.8, small) and 1 more: stopped: the first 10 calls" in out
    for arguments in (["plan.yaml", "name"], ["show"], ["plan.yaml", "--retry-failed"]):
        assert auepora("sweep", *arguments)[0] == 2
    code, _, err = auepora("sweep", "show", "other")
    assert code == 2
    assert "there is no sweep 'other'; there are failing, choice" in err
    code, _, err = auepora("sweep", "plan.yaml", "-o", "answer.csv")
    assert code == 2
    assert "cannot be written as CSV" in err


def test_many_configurations_fit_on_a_screen(project: Callable[..., SweepProject], auepora: Auepora) -> None:
    mine = project(20)
    mine.source({"grid": {"system.args.right": [number / 30 for number in range(1, 25)]}})
    code, out, _ = auepora("sweep", "plan.yaml", "--quiet")
    assert code == 0
    assert len(out.splitlines()) <= MAX_LINES
    assert "12 more configurations: `auepora sweep show choice --all`" in out
    _, whole, _ = auepora("sweep", "show", "choice", "--all")
    assert len(whole.splitlines()) > 48


def test_a_diagnosis_uses_the_values_of_a_run(project: Callable[..., SweepProject], auepora: Auepora) -> None:
    mine = project(12)
    mine.source({"grid": GRID})
    assert auepora("sweep", "plan.yaml", "--quiet")[0] == 0
    code, _, err = auepora("diagnose", "plan.yaml", "--config", "choice [0.8, large]", "--correct", "exact_match")
    assert code == 2  # this system takes no documents; what is built is that of the run
    assert "documents" in err
    code, _, err = auepora("diagnose", "plan.yaml", "--config", "nothing")
    assert code == 2
    assert "no run is called 'nothing'" in err


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "auepora_eval", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def document(folder: Path, name: str) -> dict[str, Any]:
    """The answer of a sweep, without ids and times."""
    with RunStore.open(folder / "runs.sqlite") as store:
        store.records_decisions = False
        found = answer_document(answer_sweep(store, find_sweep(store, name)))
    for row in found["configurations"]:
        del row["run_id"], row["latency"], row["setup_s"], row["pareto"]
    return {**found, "sweep": "", "notes": []}


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--eliminate"], ["--parallel", "3"]], ids=["whole", "eliminate", "parallel"])
def test_killed_three_times_and_resumed(project: Callable[..., SweepProject], more: list[str]) -> None:
    mine = project(80)
    grid = {"system.args.right": [0.2, 0.3, 0.7, 0.75], "system.args.seconds": [0.004]}
    mine.source({"grid": grid, "baseline": {"right": 0.2}, "delta": 0.05})
    seen = 0
    for attempt in range(3):
        resume = ["--resume"] if attempt else []
        with Process[bytes](
            command("sweep", "plan.yaml", *more, *resume), cwd=mine.folder, env=environment(), stderr=subprocess.PIPE
        ) as process:
            while process.poll() is None and len(mine.calls()) < seen + 45:
                time.sleep(0.005)
            assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.communicate()
        seen = len(mine.calls())
    for name, resume in (("choice", ["--resume"]), ("once", ["--name", "once"])):
        done = subprocess.run(
            command("sweep", "plan.yaml", *more, *resume),
            cwd=mine.folder,
            env=environment(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert document(mine.folder, name)["complete"]
    assert document(mine.folder, "choice") == document(mine.folder, "once")
