"""Gates in ``auepora run`` and ``auepora gate``: exit codes, reports, and baselines."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from auepora_eval.gates import find_baseline
from auepora_eval.runs.run import run_plan
from auepora_eval.store.records import RunStatus
from auepora_eval.store.runs import RunStore
from helpers.user_project import Project, own_systems

Run = Callable[..., tuple[int, str, str]]

BROKEN = "{broken: [" + ", ".join(f"'{n}'" for n in range(0, 60, 3)) + "]}"  # every sample it would get right
"""A system that fails on the samples whose document it would have found."""


def gates_yaml(*gates: str) -> str:
    return "gates:\n" + "".join(f"- {json.dumps(one)}\n" for one in gates)


MISTAKES = [  # arguments, part of the message, why
    (["-g", "recal@5 >= 0.4"], "did you mean 'recall@5'?", "misspelt metric"),
    (["-g", "chrf >= 0.4"], "-m computes further ones", "metric that was not computed"),
    (["-g", "mrr where labels.x = y > 0"], "did you mean 'labels.parity'?", "no such slice"),
    (["-g", "recall@5 >="], "expected a number, found the end", "cannot be read"),
    (["-g", "better(mrr)", "--against", "nobody"], "nobody", "no such run"),
    (["-g", "better(mrr)", "--against", "good"], "cannot be compared with itself", "itself"),
    (["-g", "mrr > 0", "--junit", "runs.sqlite"], "--junit runs.sqlite is the input", "the store as a report"),
    (["--plan", "plan.yaml", "--junit", "./plan.yaml"], "--junit ./plan.yaml is the input plan.yaml", "the plan as a report"),
    (["--plan", "plan.yaml", "--junit", "data.jsonl"], "--junit data.jsonl is the input", "the data as a report"),
    (["--plan", "plan.yaml", "-o", "plan.yaml"], "-o plan.yaml is the input plan.yaml", "the plan as the output"),
    (["-g", "mrr > 0", "--junit", "x.md", "-o", "./x.md"], "--junit x.md is where ./x.md will be", "two reports in one file"),
    (["-g", "mrr > 0", "-o", "x.csv"], ".json, .md or as a table", "a table of numbers"),
    (["--plan", "nowhere.yaml"], "nowhere.yaml", "no such plan"),
]  # fmt: skip


class TestRun:
    def test_exit_codes(self, project: Project, auepora: Run) -> None:
        # One sample in three has its document among those found.
        for gates, code, message in [
            (["recall@5 >= 0.33"], 0, "1 gate: 1 passed"),
            (["recall@5 >= 0.33", "mrr >= 0.9"], 1, "2 gates: 1 passed, 1 failed"),
            (["recall@5 >= 0.33", "low(bleu) > 0"], 3, "2 gates: 1 passed, 1 inconclusive"),
            (["mrr >= 0.9", "low(bleu) > 0"], 1, "2 gates: 1 failed, 1 inconclusive"),
        ]:
            project.plan(more=gates_yaml(*gates))
            found, out, err = auepora("run", "plan.yaml", "--name", gates[-1])
            assert (found, message in out) == (code, True), (out, err)

    def test_plan_without_gates_prints_no_report(self, project: Project, auepora: Run) -> None:
        code, out, _ = auepora("run", "plan.yaml")
        assert code == 0
        assert "gate" not in out

    def test_report_goes_where_results_go(self, project: Project, auepora: Run) -> None:
        project.plan(more=gates_yaml("recall@5 >= 0.9"))
        code, out, err = auepora("run", "plan.yaml", "--json")
        assert code == 1
        document = json.loads(out)
        assert document["gates"]["gates"][0]["status"] == "failed"
        assert document["results"][0]["name"] == "recall@5"
        assert "1 gate: 1 failed" in err
        code, out, err = auepora("run", "plan.yaml", "-o", "r.csv")
        assert code == 1
        assert "1 gate: 1 failed" in err
        assert "gate" not in Path("r.csv").read_text()
        auepora("run", "plan.yaml", "-o", "r.md")
        assert "| ✗ failed | recall@5 &gt;= 0.9 |" in Path("r.md").read_text()

    def test_system_failures_fail_coverage(self, project: Project, auepora: Run) -> None:
        project.plan(args=BROKEN, more=gates_yaml("recall@5 >= 0"))
        code, out, _ = auepora("run", "plan.yaml", "--all")
        assert code == 1
        assert "40 of 60 answers were scored by recall@5, 0.6667, below 0.95" in out

    def test_no_gates_option(self, project: Project, auepora: Run) -> None:
        project.plan(more=gates_yaml("recall@5 >= 0.9"))
        assert auepora("run", "plan.yaml", "--no-gates")[0] == 0
        code, _, err = auepora("run", "plan.yaml", "-m", "mrr")
        assert code == 2
        assert "gates[0]" in err
        assert auepora("run", "plan.yaml", "-m", "mrr", "--no-gates")[0] == 0
        assert auepora("run", "plan.yaml", "--no-gates", "--junit", "x.xml")[0] == 2

    def test_junit_without_gates_is_rejected_before_the_run(self, project: Project, auepora: Run) -> None:
        code, _, err = auepora("run", "plan.yaml", "--junit", "x.xml")
        assert code == 2
        assert "has none; write them under 'gates:'" in err
        assert not Path("x.xml").exists()
        assert project.calls() == []

    @pytest.mark.parametrize("path", ["runs.sqlite", "plan.yaml", "data.jsonl"])
    def test_junit_does_not_overwrite_inputs(self, project: Project, auepora: Run, path: str) -> None:
        project.plan(more=gates_yaml("mrr > 0"))
        before = Path(path).read_bytes() if Path(path).exists() else None
        code, _, err = auepora("run", "plan.yaml", "--junit", path)
        assert code == 2
        assert f"--junit {path} is " in err
        assert (Path(path).read_bytes() if Path(path).exists() else None) == before
        assert project.calls() == []

    def test_baseline_is_looked_up_before_the_run(self, project: Project, auepora: Run) -> None:
        project.plan(more=gates_yaml("better(mrr)"))
        assert auepora("run", "plan.yaml", "--against", "nobody")[0] == 2
        project.plan(more=gates_yaml("mrr > 0"))
        code, _, err = auepora("run", "plan.yaml", "--against", "nobody")
        assert code == 2
        assert "no gate of plan.yaml compares runs" in err
        assert project.calls() == []

    def test_run_is_compared_with_the_previous_one(self, project: Project, auepora: Run) -> None:
        project.plan(more=gates_yaml("not worse(recall@5)", "delta(recall@5) > -0.2", "coverage >= 0"))
        code, out, _ = auepora("run", "plan.yaml", "--all")
        assert code == 3
        assert "there is no earlier finished run called 'nightly' on the same samples" in out
        code, out, _ = auepora("run", "plan.yaml")
        assert code == 0, out
        with RunStore.open("runs.sqlite") as store:
            first = store.find("latest~1").run_id
        assert f"compared with {first}" in out
        project.plan(args=BROKEN, more=gates_yaml("not worse(recall@5)", "delta(recall@5) > -0.2", "coverage >= 0"))
        code, out, _ = auepora("run", "plan.yaml", "--against", first, "--all")
        assert code == 1
        assert "recall@5 is worse: -0.3333" in out
        assert "none of the interval is above -0.2" in out

    def test_run_that_failed_its_gates_is_no_baseline(self, project: Project, auepora: Run) -> None:
        gates = gates_yaml("not worse(recall@5)", "coverage >= 0")
        project.plan(more=gates)
        assert auepora("run", "plan.yaml")[0] == 3  # the first has nothing to compare with, and is let be compared with
        project.plan(args=BROKEN, more=gates)
        for _ in range(2):
            code, out, _ = auepora("run", "plan.yaml")
            assert code == 1, out
            assert "recall@5 is worse: -0.33" in out
        with RunStore.open("runs.sqlite") as store:
            assert [one.tags for one in store.runs()] == [("gates-failed",), ("gates-failed",), ("gates-open",)]
            store.untag(store.find("latest").run_id, "gates-failed")  # the user accepts it
        code, out, _ = auepora("run", "plan.yaml")
        assert code == 0, out
        with RunStore.open("runs.sqlite") as store:
            assert store.find("latest").tags == ("gates-passed",)

    def test_inconclusive_when_all_earlier_runs_failed(self, project: Project, auepora: Run) -> None:
        project.plan(more=gates_yaml("mrr >= 0.9"))
        assert auepora("run", "plan.yaml")[0] == 1
        project.plan(more=gates_yaml("not worse(recall@5)"))
        code, out, _ = auepora("run", "plan.yaml", "--all")
        assert code == 3
        assert "the one earlier run called 'nightly' on the same samples failed its gates" in out

    def test_run_outcome_has_the_gate_report(self, project: Project) -> None:
        outcome = run_plan(project.plan(more=gates_yaml("recall@5 >= 0.9")))
        assert outcome.gates is not None
        assert outcome.gates.exit_code == 1
        assert outcome.gates.run_id == outcome.record.run_id
        assert outcome.record.tags == ("gates-failed",)
        assert outcome.store == str(project.folder / "runs.sqlite")
        assert outcome.store not in repr(outcome)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a project with two runs, which tests copy, and the ids of the runs."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch, own_systems():
        patch.setattr(sys, "path", sys.path[:])
        project = Project(folder, 60)
        good = run_plan(project.plan(), changes={"name": "good"}).record.run_id
        plan = project.plan(args=BROKEN, more=gates_yaml("recall@5 >= 0.2", "coverage >= 0.5"))
        return folder, good, run_plan(plan, changes={"name": "bad"}).record.run_id


class TestGate:
    @pytest.fixture
    def runs(self, project: Project, made: tuple[Path, str, str]) -> tuple[str, str]:
        """A run, and one of a system that fails where the first is right; the plan of the second has gates."""
        folder, good, bad = made
        shutil.copytree(folder, project.folder, dirs_exist_ok=True)
        return good, bad

    def test_stored_runs_are_checked(self, runs: tuple[str, str], auepora: Run) -> None:
        assert auepora("gate", "good", "-g", "recall@5 >= 0.3", "-g", "mrr <= 1")[0] == 0
        assert auepora("gate", "good", "-g", "recall@5 >= 0.4")[0] == 1
        assert auepora("gate", "good", "-g", "low(bleu) >= 0.4")[0] == 3
        code, out, _ = auepora("gate", "good", "-g", "recall@5 where labels.parity = odd >= 0.3", "--json")
        assert code == 0
        assert json.loads(out)["run_id"] == runs[0]

    def test_gates_default_to_the_runs_plan(self, runs: tuple[str, str], auepora: Run) -> None:
        code, out, _ = auepora("gate")
        assert code == 1
        assert "recall@5 is 0.000, below 0.2" in out
        code, _, err = auepora("gate", "good")
        assert code == 2
        assert "there is no gate to check" in err

    def test_plan_gate_check_tags_the_run(self, runs: tuple[str, str], project: Project, auepora: Run) -> None:
        def tags(run: str) -> list[str]:
            with RunStore.open("runs.sqlite") as store:
                return list(store.get(run).tags)

        good, bad = runs
        assert tags(bad) == ["gates-failed"]
        assert auepora("gate", "bad", "-g", "mrr >= 0", "-g", "coverage >= 0")[0] == 0
        assert tags(bad) == ["gates-failed"]  # its plan has other gates, and they decide
        assert auepora("gate", "good", "-g", "recall@5 >= 0.9")[0] == 1
        assert tags(good) == ["gates-failed"]  # its plan has none
        assert auepora("gate", "good", "-g", "recall@5 >= 0.1")[0] == 0
        assert tags(good) == ["gates-passed"]
        project.plan("other.yaml", more=gates_yaml("recall@5 >= 0", "coverage >= 0"))
        assert auepora("gate", "bad", "--plan", "other.yaml")[0] == 0
        assert tags(bad) == ["gates-passed"]
        assert auepora("gate", "bad")[0] == 1
        assert tags(bad) == ["gates-failed"]

    def test_read_only_store(self, runs: tuple[str, str], auepora: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("auepora_eval.store.connect.is_writable", lambda path: False)
        code, out, err = auepora("gate", "good", "-g", "recall@5 >= 0.9")
        assert code == 1
        assert "1 gate: 1 failed" in out
        assert f"Warning: the outcome of the gates is not stored with {runs[0]}: store" in err
        assert "is read-only" in err

    def test_gates_from_plan_file(self, runs: tuple[str, str], project: Project, auepora: Run) -> None:
        project.plan("other.yaml", more=gates_yaml("recall@5 >= 0.3"))
        assert auepora("gate", "good", "--plan", "other.yaml")[0] == 0
        assert auepora("gate", "good", "--plan", "other.yaml", "-g", "mrr > 0.9")[0] == 1
        project.plan("bare.yaml")
        code, _, err = auepora("gate", "good", "--plan", "bare.yaml")
        assert code == 2
        assert "bare.yaml has no gates" in err

    def test_comparison_of_two_runs(self, runs: tuple[str, str], auepora: Run) -> None:
        gates = ["-g", "not worse(recall@5, by=0.1)", "-g", "coverage >= 0"]
        code, out, _ = auepora("gate", "bad", "--against", "good", *gates)
        assert code == 1
        assert "none of the interval is above -0.1" in out
        assert auepora("gate", "good", "--against", "bad", *gates)[0] == 0
        assert auepora("gate", "good", "--against", "bad", "-g", "better(recall@5)")[0] == 0
        code, out, err = auepora("gate", "good", "--against", "bad", "-g", "point(delta(recall@5)) > 0", "--all")
        assert code == 0
        assert "Warning: 'point(delta(recall@5)) > 0' goes by the bare difference" in err

    def test_only_gated_metrics_share_the_error_rate(
        self, runs: tuple[str, str], project: Project, auepora: Run
    ) -> None:
        """A metric that the plan does not call primary has a verdict all the same once a gate asks for it."""
        plan = project.plan(more="primary: [token_f1]\n" + gates_yaml("not worse(recall@5)"), args=BROKEN)
        code, out, _ = auepora("run", plan, "--against", "good")
        assert code == 1
        assert "recall@5 is worse" in out

    def test_report_files(self, runs: tuple[str, str], auepora: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
        code, out, _ = auepora("gate", "good", "-g", "recall@5 >= 0.4", "--junit", "gates.xml", "-o", "gates.md")
        assert (code, out) == (1, "")
        suite = ElementTree.parse("gates.xml").getroot().find("testsuite")
        assert suite is not None
        assert (suite.get("name"), suite.get("failures")) == ("auepora: good", "1")
        assert "| ✗ failed | recall@5 &gt;= 0.4 |" in Path("gates.md").read_text()
        assert "### Gates of good (run_" in Path("summary.md").read_text()
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/folder.md")
        code, _, err = auepora("gate", "good", "-g", "recall@5 >= 0.3")
        assert code == 0  # the gate status decides
        assert "Warning: no/such/folder.md" in err

    @pytest.mark.parametrize(("arguments", "message"), [row[:2] for row in MISTAKES], ids=[row[2] for row in MISTAKES])
    def test_mistakes(self, runs: tuple[str, str], auepora: Run, arguments: list[str], message: str) -> None:
        code, out, err = auepora("gate", "good", *arguments)
        assert (code, out) == (2, "")
        assert message in err

    def test_input_files_are_not_appended_to(
        self, runs: tuple[str, str], auepora: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = {name: Path(name).read_bytes() for name in ("plan.yaml", "data.jsonl", "my_rag.py")}
        for path, arguments in [
            ("runs.sqlite", ("gate", "good", "-g", "mrr > 0")),
            ("plan.yaml", ("gate", "good", "--plan", "plan.yaml")),
            ("runs.sqlite", ("run", "plan.yaml")),
            ("data.jsonl", ("run", "plan.yaml")),
        ]:
            monkeypatch.setenv("GITHUB_STEP_SUMMARY", path)
            code, _, err = auepora(*arguments)
            assert code == 2
            assert f"$GITHUB_STEP_SUMMARY {path} is the input" in err
        assert {name: Path(name).read_bytes() for name in before} == before
        with RunStore.open("runs.sqlite") as store:
            assert len(store.runs()) == 2

    def test_unused_baseline_gives_warning(self, runs: tuple[str, str], auepora: Run) -> None:
        code, out, err = auepora("gate", "good", "--against", "bad", "-g", "recall@5 >= 0.3")
        assert code == 0
        assert "1 gate: 1 passed" in out
        assert "Warning: no gate compares runs, so --against bad changes nothing" in err
        assert auepora("gate", "good", "--against", "bad", "-g", "recall@5 >= 0.9")[0] == 1

    def test_other_dataset_is_rejected_unless_allowed(
        self, runs: tuple[str, str], project: Project, auepora: Run
    ) -> None:
        run_plan(project.plan(), changes={"name": "half"}, limit=30)
        arguments = ("gate", "half", "--against", "good", "-g", "delta(recall@5) > -0.5")
        code, _, err = auepora(*arguments)
        assert code == 2
        assert "different datasets" in err
        assert auepora(*arguments, "--other-dataset")[0] == 0

    def test_unfinished_baseline_is_rejected(self, runs: tuple[str, str], project: Project, auepora: Run) -> None:
        with RunStore.open("runs.sqlite") as store:
            samples = store.samples(runs[0])
            going = store.create_run("going", samples, dataset_name="d", plan={})
            stopped = store.create_run("stopped", samples, dataset_name="d", plan={})
            store.finish(stopped.run_id, RunStatus.STOPPED)
        for arguments, message in [
            (("going", "-g", "mrr > 0"), f"{going.run_id} is running; let it finish"),
            (("stopped", "-g", "mrr > 0"), f"{stopped.run_id} has no results"),
            (("good", "-g", "better(mrr)", "--against", "going"), f"{going.run_id} is running, not finished"),
        ]:
            code, _, err = auepora("gate", *arguments)
            assert code == 2
            assert message in err


def test_baseline_has_same_name_and_samples(project: Project) -> None:
    plan = project.plan()
    first = run_plan(plan).record
    run_plan(plan, changes={"name": "other"})
    run_plan(plan, limit=20)
    with RunStore.open("runs.sqlite") as store:
        store.create_run("nightly", store.samples(first.run_id), dataset_name="d", plan={})  # not finished
        last = run_plan(plan).record
        found = find_baseline(store, last)
        assert found is not None
        assert found.run_id == first.run_id
        assert find_baseline(store, first) is None
