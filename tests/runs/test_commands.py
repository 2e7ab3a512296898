"""Commands on runs: signals, terminals, resume hints, the demo, comparisons."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from queue import SimpleQueue

import pytest

from auepora_eval.cli.console import stop_on_signals
from auepora_eval.models.loading import find_installed_model
from auepora_eval.store.runs import RunStore
from auepora_eval.systems.calls import Stop
from helpers.processes import Process
from helpers.report_pages import Page
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class TestSignals:
    def test_first_signal_interrupts_while_no_system_is_called(self) -> None:
        with pytest.raises(KeyboardInterrupt), stop_on_signals(Stop()):  # noqa: PT012
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)  # the signal comes first

    def test_first_signal_waits_for_calls_and_second_stops(self, capfd: pytest.CaptureFixture[str]) -> None:
        stop = Stop()
        with stop_on_signals(stop), stop.waking(SimpleQueue()):
            os.kill(os.getpid(), signal.SIGTERM)
            assert (stop.finishing, stop.leaving) == (True, False)
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.leaving
        assert "Ctrl-C again" in capfd.readouterr().err
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    @pytest.mark.slow
    def test_slow_constructor_is_interrupted(self, project: Projects) -> None:
        mine = project(3)
        (mine.folder / "slow_rag.py").write_text(
            "import time\nprint('loading', flush=True)\nclass Rag:\n"
            "    def __init__(self):\n        time.sleep(60)\n    def run(self, sample, *, top_k): ...\n"
        )
        plan = mine.folder / "plan.yaml"
        plan.write_text(plan.read_text().replace("my_rag:Rag", "slow_rag:Rag"))
        with Process[bytes](
            [sys.executable, "-m", "auepora_eval", "run", "plan.yaml"],
            cwd=mine.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            process.stderr.readline()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
        assert process.returncode == 130
        assert not (mine.folder / "runs.sqlite").exists()


class TestStreams:
    @pytest.mark.slow
    def test_closed_stderr_does_not_end_the_run(self, project: Projects) -> None:
        mine = project(20)
        reading, writing = os.pipe()
        os.close(reading)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "auepora_eval", "run", "plan.yaml", "--json"],
                cwd=mine.folder,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=writing,
                check=False,
            )
        finally:
            os.close(writing)
        assert done.returncode == 0
        assert json.loads(done.stdout)["results"][0]["details"]["num_samples"] == 20
        with RunStore.open(mine.folder / "runs.sqlite") as store:
            assert store.find("latest").status == "finished"

    def test_control_characters_of_a_model_are_escaped(self, project: Projects, auepora: Run) -> None:
        mine = project(4)
        source = (mine.folder / "my_rag.py").read_text()
        evil = source.replace("the answer is {n}", "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202eanswer {n}")
        evil = evil.replace("cannot answer", "\\x1b[2Jcannot")
        (mine.folder / "evil_rag.py").write_text(evil)
        plan = Path(mine.plan(args="{broken: ['3']}")).read_text().replace("my_rag:Rag", "evil_rag:Rag")
        (mine.folder / "plan.yaml").write_text(plan)
        calls = [auepora("run", "plan.yaml"), auepora("show", "--sample", "1"), auepora("show", "--failures")]
        calls += [auepora("show", "--sample", "1", "--json"), auepora("runs")]
        for code, out, err in calls:
            assert code == 0
            assert not set("\x1b\x07\x9b\u202e") & set(out + err)
        assert "\\u001b]0;owned" in calls[1][1]
        answer = json.loads(calls[3][1])["outputs"][0]["response"]
        assert "\x9b31m" in (answer if isinstance(answer, str) else answer["text"])


class TestResumeHints:
    def test_printed_command_resumes_the_run(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        mine.plan(args="{broken: ['0', '1', '2']}", run="{concurrency: 1, max_failures: 1}")
        options = [
            "--name",
            "mine",
            "-m",
            "recall@5",
            "--conventions",
            "trec",
            "--limit",
            "8",
            "--store",
            "other.sqlite",
        ]
        code, _, err = auepora("run", "plan.yaml", *options)
        assert code == 3
        command = shlex.split(err.partition("To resume: ")[2])
        (mine.folder / "mended").touch()
        code, out, err = auepora(*command[1:], "--retry-failed", "--json")
        assert code == 0, err
        assert json.loads(out)["results"][0]["details"]["num_samples"] == 8
        assert "auepora show run_" in err
        assert "--store other.sqlite" in err

    def test_limit_is_checked_before_the_system_is_called(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        data = mine.folder / "data.jsonl"
        rows = [json.loads(line) for line in data.read_text().splitlines()]
        for row in rows[:5]:
            del row["reference_answer"]
        data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        code, _, err = auepora("run", "plan.yaml", "--limit", "5")
        assert code == 2
        assert "reference_answer" in err
        assert mine.calls() == []

    def test_quiet_prints_no_messages(self, project: Projects, auepora: Run) -> None:
        mine = project(4)
        mine.plan(run="{top_k: 2}")
        assert auepora("run", "plan.yaml", "--quiet")[2] == ""


class TestDemoInitCompare:
    @pytest.mark.part("models")
    def test_demo_prints_its_comparison(self, project: Projects, auepora: Run) -> None:
        mine = project(1)
        # Twelve questions that the second system answers better: a model looks at each answer. A file that is there
        # is kept.
        better = {f"q{number:02}" for number in (5, 6, 14, 18, 20, 21, 25, 29, 47, 49, 51, 57)}
        bundled = files("auepora_eval.examples.quickstart").joinpath("questions.jsonl").read_text(encoding="utf-8")
        (mine.folder / "auepora-demo").mkdir()
        lines = [line for line in bundled.splitlines(keepends=True) if json.loads(line)["sample_id"] in better]
        (mine.folder / "auepora-demo" / "questions.jsonl").write_text("".join(lines))
        code, out, err = auepora("demo", "--all")
        assert code == 0, err
        comparison = out.removeprefix("Did it get better?\n\n")
        assert comparison != out, "the comparison is first"
        assert comparison.startswith(
            "Of 3 primary metrics, B (quickstart-bm25) against A (quickstart-baseline) is better"
        )
        assert "▲ better" in comparison
        assert ("sbert_similarity" in out) == ("bertscore" in out) == (find_installed_model() is not None)
        assert ("auepora-eval[semantic]" in err) == (find_installed_model() is None)
        assert err.rstrip().endswith(str(Path("auepora-demo", "report.html")))
        page = Page((mine.folder / "auepora-demo" / "report.html").read_text(encoding="utf-8"))
        page.require_sound()
        assert page.headings[0] == (1, "quickstart-bm25 against quickstart-baseline")
        store = str(mine.folder / "auepora-demo" / "runs.sqlite")
        code, out, _ = auepora("compare", "quickstart-baseline", "quickstart-bm25", "--why", "--store", store, "--json")
        assert code == 0
        document = json.loads(out)
        assert document["deltas"]["metrics"]["recall@5"]["verdict"] == "better"
        assert document["judged_by"] == "recall@5", "the first primary metric"
        assert {one["cause"] for one in document["changes"]} <= {
            "failed", "refused", "lost", "ranked_lower", "answer_changed", "ignored", "context_changed", "unexplained",
        }  # fmt: skip
        plan = str(mine.folder / "auepora-demo" / "plan-bm25.yaml")
        code, out, err = auepora(
            "replay", "quickstart-baseline", "quickstart-bm25", plan, "-m", "token_f1", "--store", store, "--json"
        )
        assert code == 0, err
        split = json.loads(out)["metrics"]["token_f1"]
        parts = split["retrieval"]["value"] + split["generation"]["value"]
        assert parts == pytest.approx(split["delta"]["value"], abs=1e-12)

    def test_starter_plan_can_be_run(self, project: Projects, auepora: Run) -> None:
        mine = project(6)
        code, _, err = auepora("init", "data.jsonl", "--system", "my_rag:Rag", "-o", "first.yaml")
        assert code == 0, err
        assert auepora("validate", "first.yaml")[0] == 0
        assert mine.calls() == []
        assert auepora("run", "first.yaml")[0] == 0
        assert auepora("init", "data.jsonl", "-o", "first.yaml")[0] == 2

    def test_compare_errors(self, project: Projects, auepora: Run) -> None:
        project(100)
        auepora("run", "plan.yaml")
        auepora("run", "plan.yaml")
        assert auepora("compare", "latest")[0] == 2
        assert auepora("compare", "latest", "nobody")[0] == 2
        assert auepora("compare", "latest~1", "latest", "--delta", "much")[0] == 2
        code, out, _ = auepora("compare", "latest~1", "latest", "-m", "recall@5", "--delta", "0.1")
        assert code == 0
        assert "= equal" in out

    def test_three_runs_make_a_leaderboard(self, project: Projects, auepora: Run) -> None:
        mine = project(40)
        auepora("run", "plan.yaml", "--name", "one", "--all")
        auepora("run", "plan.yaml", "--name", "two", "--all")
        mine.plan(args="{broken: [" + ", ".join(f"'{n}'" for n in range(0, 40, 2)) + "]}")
        auepora("run", "plan.yaml", "--name", "three", "--all")
        code, out, err = auepora("compare", "one", "two", "three", "-m", "token_f1", "--adjust", "tukey", "--all")
        assert code == 0, err
        assert "A > C" in out
        assert "B > C" in out
        assert auepora("compare", "one", "two", "three", "-m", "token_f1", "-o", "leaderboard.md")[0] == 0
        page = (mine.folder / "leaderboard.md").read_text()
        assert page.startswith("# 3 runs against each other")
        assert "| token_f1 | C − A" in page

    @pytest.mark.slow
    def test_report_explains_changes(self, project: Projects, auepora: Run) -> None:
        mine = project(20)
        auepora("run", "plan.yaml", "--name", "one")
        mine.plan(args="{broken: ['0', '1']}")
        auepora("run", "plan.yaml", "--name", "two")
        code, _, err = auepora("compare", "one", "two", "--why", "-o", "page.md", "--report", "pages")
        assert code == 0, err
        page = (mine.folder / "page.md").read_text()
        (report,) = (mine.folder / "pages").glob("*/report.md")
        assert report.read_text() == page
        assert page.startswith("# two (run_")
        assert "## Why queries got worse" in page
        assert "| failed |" in page
        auepora("compare", "one", "two", "-o", "page.md")
        assert "## Why" not in (mine.folder / "page.md").read_text()


class TestRobustness:
    @pytest.mark.parametrize("target", ["plan.yaml", "data.jsonl", "runs.sqlite"])
    def test_results_do_not_overwrite_inputs_or_the_store(self, project: Projects, auepora: Run, target: str) -> None:
        mine = project(3)
        before = (mine.folder / target).read_bytes() if target != "runs.sqlite" else b""
        code, _, err = auepora("run", "plan.yaml", "-o", target)
        assert code == 2
        assert "write to another file" in err
        assert mine.calls() == []
        if before:
            assert (mine.folder / target).read_bytes() == before
        auepora("run", "plan.yaml")
        code, _, _ = auepora("show", "-o", "runs.sqlite")
        assert code == 2
        assert auepora("show")[0] == 0

    def test_system_cannot_change_the_gold(self, project: Projects, auepora: Run) -> None:
        mine = project(6)
        source = (mine.folder / "my_rag.py").read_text()
        (mine.folder / "mad_rag.py").write_text(source.replace("n = int(", "sample.relevant_docs = []; n = int("))
        plan = mine.folder / "plan.yaml"
        plan.write_text(plan.read_text().replace("my_rag:Rag", "mad_rag:Rag"))
        _, out, _ = auepora("run", "plan.yaml", "-m", "recall@5", "--json")
        assert json.loads(out)["results"][0]["details"]["num_samples"] == 6

    def test_error_in_close_is_a_warning(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        source = (mine.folder / "my_rag.py").read_text()
        (mine.folder / "stuck_rag.py").write_text(f"{source}\n    def close(self):\n        raise OSError('stuck')\n")
        plan = mine.folder / "plan.yaml"
        plan.write_text(plan.read_text().replace("my_rag:Rag", "stuck_rag:Rag"))
        code, out, err = auepora("run", "plan.yaml", "--json")
        assert code == 0
        json.loads(out)
        assert "raised OSError when it was closed: stuck" in err

    def test_plan_that_would_score_nothing_is_refused_before_any_call(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        code, _, err = auepora("run", "plan.yaml", "-m", "label_accuracy", "-m", "negative_rejection_rate")
        assert code == 2
        assert "every sample would be skipped" in err
        code, _, err = auepora("run", "plan.yaml", "-m", "label_accuracy", "-m", "recall@5")
        assert code == 0
        assert "no sample has anything for label_accuracy" in err
        assert len(mine.calls()) == 3

    def test_dataset_without_questions_is_refused(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        (mine.folder / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
        plan = mine.folder / "plan.yaml"
        text = (
            plan.read_text()
            .replace("{jsonl: data.jsonl}", "{trec: qrels.txt}")
            .replace("slices: [labels.parity]\n", "")
        )
        plan.write_text(text.replace("metrics: [recall@5, mrr, token_f1, bleu, ", "metrics: [recall@5, mrr, "))
        code, _, err = auepora("run", "plan.yaml")
        assert code == 2
        assert "no query" in err

    def test_change_of_the_dataset_is_named(self, project: Projects, auepora: Run) -> None:
        mine = project(4)
        auepora("run", "plan.yaml")
        data = mine.folder / "data.jsonl"
        data.write_text(data.read_text().replace("what is 2?", "what was 2?"))
        _, _, err = auepora("run", "plan.yaml", "--resume", "--retry-failed")
        assert "sample '2' has changed" in err

    def test_reserved_names_and_invalid_stores(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        assert auepora("run", "plan.yaml", "--name", "latest~1")[0] == 2
        for store in ("nowhere/runs.sqlite", "mysql://host/runs"):
            plan = mine.folder / "plan.yaml"
            plan.write_text(plan.read_text().replace("store: runs.sqlite", f"store: {store}"))
            code, out, _ = auepora("validate", "plan.yaml")
            assert code == 2
            assert "store: " in out
            plan.write_text(plan.read_text().replace(f"store: {store}", "store: runs.sqlite"))

    def test_export_has_scores_per_sample(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        auepora("run", "plan.yaml", "-m", "recall@5", "-m", "mrr")
        auepora("export", "latest", "out")
        rows = (mine.folder / "out" / "scores.csv").read_text().splitlines()
        assert rows == ["sample_id,recall@5,mrr", "0,1.0,1.0", "1,0.0,0.0", "2,0.0,0.0"]

    def test_quiet_prints_only_results_and_errors(self, project: Projects, auepora: Run) -> None:
        project(4)
        assert auepora("run", "plan.yaml", "--quiet")[2] == ""
        for arguments in (["rescore", "latest", "-m", "chrf"], ["export", "latest", "out"], ["show"], ["runs"]):
            command, *rest = arguments
            code, out, err = auepora(command, "--quiet", *rest)
            assert (code, err) == (0, "")
            assert out
        assert auepora("init", "data.jsonl", "-o", "first.yaml", "--quiet")[2] == ""
        assert "no run" in auepora("show", "nobody", "--quiet")[2]

    def test_table_shows_the_spread_of_repeats(self, project: Projects, auepora: Run) -> None:
        mine = project(5)
        mine.plan(run="{concurrency: 1, repeats: 3}")
        assert "3 repeats, sd 0.0000" in auepora("run", "plan.yaml", "-m", "recall@5")[1]
