"""The pytest plugin: its assertions and messages, and its light import."""

import os
import subprocess
import sys
import tomllib
import warnings
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs, evaluate, run_system
from auepora_eval.core.results import Results
from auepora_eval.errors import AueporaWarning, BadValueError
from auepora_eval.pytest_plugin import assert_gates
from auepora_eval.runs.outcome import RunOutcome
from auepora_eval.store.runs import RunStore
from helpers.requirements import REPO
from helpers.user_project import Project

SAMPLES = [EvaluationSample(str(n), f"question {n}", relevant_docs=[Document(f"d{n}")]) for n in range(40)]


def answering(right: int) -> RunOutcome:
    """A run of a system that finds the documents of the first samples."""

    def system(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
        found = f"d{sample.sample_id}" if int(sample.sample_id) < right else "nothing"
        return SystemOutputs([RetrievedDocument(Document(found), 1.0, 1)], Response("yes"))

    return run_system(system, SAMPLES, ["recall@5", "mrr"], store="runs.sqlite", name="mine")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)


class TestAssertGates:
    def results(self) -> Results:
        outputs = [SystemOutputs([RetrievedDocument(Document(f"d{n}"), 1.0, 1)]) for n in range(0, 80, 2)]
        return evaluate(SAMPLES, outputs, ["recall@5"])  # right for the first alone: 1/40

    def test_value_gates_on_results(self) -> None:
        report = assert_gates(self.results(), "recall@5 >= 0.02", "recall@5 < 0.5")
        assert report.status == "passed"

    def test_assertion_error_is_a_table(self) -> None:
        with pytest.raises(AssertionError) as caught:
            assert_gates(self.results(), "recall@5 >= 0.02", "recall@5 >= 0.5")
        message = str(caught.value)
        assert message.startswith("2 gates: 1 passed, 1 failed\n")
        assert "✗ failed  recall@5 >= 0.5   recall@5 is 0.0250, below 0.5" in message

    def test_inconclusive_does_not_pass(self) -> None:
        with pytest.raises(AssertionError, match="results alone cannot be compared"):
            assert_gates(self.results(), "better(recall@5)")

    def test_input_errors_are_not_assertion_errors(self) -> None:
        with pytest.raises(BadValueError, match="did you mean 'recall@5'"):
            assert_gates(self.results(), "recal@5 > 0")
        with pytest.raises(BadValueError, match="there is no gate to check"):
            assert_gates(self.results())

    def test_comparison_of_stored_runs(self) -> None:
        before, after = answering(20), answering(40)
        assert assert_gates(after, "better(recall@5)", "delta(mrr) > 0.2").against == before.record.run_id
        assert_gates(after, "better(recall@5)", against=before)
        assert_gates(after, "better(recall@5)", against=before.record.run_id, store="runs.sqlite")
        with RunStore.open("runs.sqlite") as store:
            assert_gates(after, "better(recall@5)", against="latest~1", store=store)
        with pytest.raises(AssertionError, match=r"recall@5 is worse: -0\.5000"):
            assert_gates(before, "not worse(recall@5)", against=after)

    def test_plan_gates_with_baseline(self) -> None:
        before, after = answering(40), answering(20)
        planned = replace(after.record, plan={**after.record.plan, "gates": ["not worse(recall@5)", "mrr >= 0.4"]})
        with pytest.raises(AssertionError, match=r"recall@5 is worse: -0\.5000") as caught:
            assert_gates(replace(after, record=planned), against=before)
        assert str(caught.value).startswith("2 gates: 1 passed, 1 failed")
        with pytest.raises(BadValueError, match="there is no gate to check"):
            assert_gates(after, against=before)

    def test_bare_difference_warns(self) -> None:
        before, after = answering(20), answering(40)
        with pytest.warns(AueporaWarning, match="the bare difference"):
            assert_gates(after, "point(delta(recall@5)) > 0", against=before)

    def test_unscored_run_is_rejected(self) -> None:
        outcome = answering(40)
        stopped = RunOutcome(outcome.record, "failed", None, message="it hangs")
        with pytest.raises(AssertionError, match="was not scored: it hangs"):
            assert_gates(stopped, "recall@5 > 0")


TESTS = """
import sys
import pytest
from auepora_eval.pytest_plugin import assert_gates

def test_good(auepora_run, tmp_path):
    path = sys.path[:]
    outcome = auepora_run("plan.yaml")
    assert (tmp_path / "runs.sqlite").exists()
    assert_gates(outcome, "recall@5 >= 0.3")
    assert_gates(outcome)

def test_changed(auepora_run, tmp_path):
    first = auepora_run("plan.yaml", name="first", store=tmp_path / "mine.sqlite", **{"run.concurrency": 1})
    second = auepora_run("plan.yaml", name="second", store=tmp_path / "mine.sqlite", metrics=["recall@5"])
    assert first.record.plan["run"]["concurrency"] == 1
    slow = auepora_run("plan.yaml", limit=2, **{"system.args.seconds": 0.001, "gates": None})
    assert slow.record.plan["system"]["args"] == {"seconds": 0.001}
    assert [one.name for one in second.results] == ["recall@5"]
    assert_gates(second, "not worse(recall@5)", against=first)

def test_bad(auepora_run):
    assert_gates(auepora_run("plan.yaml", limit=30), "recall@5 >= 0.9", "mrr <= 1")

def test_path_is_given_back():
    assert not [one for one in sys.path if one.endswith("user_folder")]
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, with the plugin loaded once: by its entry point where that is installed."""
    installed = any(one.value == "auepora_eval.pytest_plugin" for one in entry_points(group="pytest11"))
    load = [] if installed else ["-p", "auepora_eval.pytest_plugin"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--import-mode=importlib",
        *load,
        *arguments,
    ]
    source = str(REPO / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_fixture_runs_a_plan(tmp_path: Path) -> None:
    folder = tmp_path / "user_folder"
    folder.mkdir()
    Project(folder, 60).plan(more="gates: [recall@5 >= 0.3]\n")
    (folder / "test_mine.py").write_text(TESTS)
    done = pytest_in(tmp_path, str(folder), "-W", "error")
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "✗ failed  recall@5 >= 0.9  recall@5 is 0.3333, below 0.9" in done.stdout
    assert "pytest_plugin.py" not in done.stdout  # the traceback ends in the test
    assert not (folder / "runs.sqlite").exists()


def test_plugin_import_is_light(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert 'auepora_eval.pytest_plugin' in sys.modules\n"
        "    heavy = {'numpy', 'aiohttp', 'msgspec', 'click', 'yaml'} & set(sys.modules)\n"
        "    ours = {one for one in sys.modules if one.startswith('auepora_eval.')}\n"
        "    assert ours <= {'auepora_eval._version', 'auepora_eval.pytest_plugin'}, ours\n"
        "    assert not heavy, heavy\n"
    )
    # Other plugins of this environment may load what they like.
    done = pytest_in(tmp_path, "-p", "no:hypothesispytest", "-p", "no:anyio", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr


def test_entry_point_is_declared() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"auepora": "auepora_eval.pytest_plugin"}


def test_no_warning_when_all_gates_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_gates(answering(40), "recall@5 >= 1")
