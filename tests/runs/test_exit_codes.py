"""Exit codes of contract section 7: mass failures, judges that judged nothing, readers of stdout that leave early."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from auepora_eval import Document, EvaluationSample, SystemOutputs
from auepora_eval.engine.data_checks import mass_failure
from auepora_eval.engine.evaluate import evaluate
from helpers.user_project import Project

Projects = Callable[[int], Project]
Run = Callable[..., tuple[int, str, str]]


def broken(count: int) -> str:
    return "{broken: [" + ", ".join(f"'{n}'" for n in range(count)) + "]}"


def errors_in(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("Error: ")]


class TestMassFailures:
    def test_more_than_half_of_the_samples_fail(self, project: Projects, auepora: Run) -> None:
        mine = project(10)
        mine.plan(args=broken(5))
        assert auepora("run", "plan.yaml")[0] == 0, "half is not more than half"
        mine.plan(args=broken(6), more="gates: ['recall@5 >= 0']\n")
        code, out, err = auepora("run", "plan.yaml", "--json")
        assert code == 3
        reason = "6 of 10 samples are system failures (raised 6), such as: raised: ValueError: cannot answer "
        (line,) = errors_in(err)
        assert line.startswith(f"Error: {reason}")
        assert json.loads(out)["failure"].startswith(reason)

    def test_reason_is_one_line(self, project: Projects, auepora: Run) -> None:
        mine = project(4)
        source = (mine.folder / "my_rag.py").read_text()
        (mine.folder / "wordy_rag.py").write_text(source.replace("cannot answer", "first\\nsecond" + "x" * 5000))
        plan = mine.folder / "plan.yaml"
        mine.plan(args=broken(4))
        plan.write_text(plan.read_text().replace("my_rag:Rag", "wordy_rag:Rag"))
        code, _, err = auepora("run", "plan.yaml")
        assert code == 3
        (line,) = errors_in(err)
        assert "first second" in line
        assert len(line) < 500

    @pytest.mark.parametrize("more", [[], ["--lean"], ["--executor", "processes"]], ids=["kept", "lean", "processes"])
    def test_score(self, project: Projects, auepora: Run, more: list[str]) -> None:
        project(5)
        down = [f'{{"sample_id": "{n}", "error": "timeout: 30 s\\nagain"}}\n' for n in range(3)]
        up = [f'{{"sample_id": "{n}", "retrieved": ["d{n}"], "response": "it is {n}"}}\n' for n in range(3, 5)]
        Path("out.jsonl").write_text("".join([*down, *up]))
        code, out, err = auepora(
            "score", "data.jsonl", "out.jsonl", "-m", "recall@5", "-m", "token_f1", "--json", *more
        )
        assert code == 3
        reason = "3 of 5 samples are system failures (timeout 3), such as: timeout: 30 s again"
        assert errors_in(err) == [f"Error: {reason}"]
        document = json.loads(out)
        assert document["failure"] == reason
        assert document["results"][0]["value"] == 2 / 5, "the numbers are printed all the same"
        Path("out.jsonl").write_text("".join(up))
        code, _, err = auepora("score", "data.jsonl", "out.jsonl", "-m", "recall@5", *more)
        assert code == 3
        assert errors_in(err) == ["Error: 3 of 5 samples are system failures (missing_output 3)"]

    def test_score_many_files(self, project: Projects, auepora: Run) -> None:
        project(3)
        Path("parts").mkdir()
        Path("parts/1.jsonl").write_text('{"sample_id": "0", "error": "timeout: 30 s"}\n')
        Path("parts/2.jsonl").write_text(
            '{"sample_id": "1", "error": "timeout: 9 s"}\n{"sample_id": "2", "retrieved": []}\n'
        )
        code, _, err = auepora("score", "data.jsonl", "parts/*.jsonl", "-m", "recall@5")
        assert code == 3
        assert errors_in(err) == ["Error: 2 of 3 samples are system failures (timeout 2), such as: timeout: 30 s"]

    def test_trec(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Run) -> None:
        monkeypatch.chdir(tmp_path)
        Path("qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\nq3 0 c 1\n")
        Path("run.txt").write_text("q1 Q0 a 1 2.0 me\n")
        scored = ("score", "--qrels", "qrels.txt", "--run", "run.txt", "-m", "map")
        assert auepora(*scored)[0] == 0, "these conventions skip missing outputs"
        assert auepora(*scored, "--conventions", "auepora")[0] == 3

    def test_judge_without_a_judgement(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        (mine.folder / "judge_rag.py").write_text(
            "from auepora_eval.judge.critic import LLMCritic\n"
            "class Judge(LLMCritic):\n    def score(self, *, prompt, metadata=None):\n        return 'no idea'\n"
        )
        judged = 'resources: {judge: {python: "judge_rag:Judge"}}\n'
        plan = Path(mine.plan(more=judged))
        metrics = "metrics: [recall@5, {llm_answer_quality: {critic: {use: judge}}}]"
        text = plan.read_text()
        plan.write_text(text.replace(text[text.index("metrics:") : text.index("\nslices")], metrics))
        code, out, err = auepora("run", "plan.yaml", "--json")
        assert code == 3, err
        (line,) = errors_in(err)
        assert line.startswith("Error: llm_answer_quality has no scored sample (failed: ")
        assert json.loads(out)["results"][0]["value"] is not None

    def test_samples_that_no_metric_applies_to_are_not_counted(self) -> None:
        gold = [Document("d1", "A text.")]
        asked = [EvaluationSample(f"q{n}", "what?", relevant_docs=gold if n < 8 else None) for n in range(10)]
        outputs = [SystemOutputs([], error="timeout")] * 5 + [SystemOutputs([])] * 5
        reason = "5 of the 8 samples that a metric applies to, of 10, are system failures (timeout 5)"
        for keep_scores in (True, False):
            assert mass_failure(evaluate(asked, outputs, ["recall@5"], keep_scores=keep_scores)) == reason


class TestSystemsThatAlwaysFail:
    def test_the_first_ten_calls_are_the_trial(self, project: Projects, auepora: Run) -> None:
        mine = project(30)
        mine.plan(args=broken(30), run="{concurrency: 1, retries: 0}")
        code, out, err = auepora("run", "plan.yaml")
        assert (code, out) == (3, ""), "no table of zeros"
        assert mine.calls() == [str(n) for n in range(10)]
        lines = err.splitlines()
        assert lines[0].endswith("(nightly): 30 answers to collect")
        first = "Error: stopped: the first 10 calls all failed in the same way: raised: ValueError: cannot answer 0"
        assert lines[1] == first
        assert lines[2] == "Traceback (most recent call last):"
        assert 'my_rag.py", line ' in err
        assert "/auepora_eval/" not in err, "only the frames of the user's code"
        assert "0 answers and 10 failures are stored" in err
        again = err.partition("To resume: ")[2].splitlines()[0].split()
        (mine.folder / "mended").touch()
        code, out, err = auepora(*again[1:], "--json")
        assert code == 0, err
        assert json.loads(out)["results"][0]["details"]["num_failed"] == 0
        assert len(mine.calls()) == 10 + 30, (
            "after the fix the ten failures are retried, and nothing else is called twice"
        )

    def test_all_calls_of_a_small_dataset(self, project: Projects, auepora: Run) -> None:
        mine = project(3)
        mine.plan(args=broken(3))
        code, out, err = auepora("run", "plan.yaml")
        assert (code, out) == (3, "")
        assert "the first 3 calls all failed in the same way" in err
        assert auepora("runs", "--json")[1].count('"status": "failed"') == 1

    def test_a_run_with_an_answer_is_not_stopped(self, project: Projects, auepora: Run) -> None:
        mine = project(30)
        mine.plan(args=f"{{broken: {[str(n) for n in range(30) if n != 9]}}}", run="{concurrency: 1, retries: 0}")
        code, _, err = auepora("run", "plan.yaml", "--json")
        assert (code, len(mine.calls())) == (3, 30), "29 of 30 failures are a result"
        assert "29 of 30 samples are system failures" in err
        code, _, err = auepora("run", "plan.yaml", "--resume", "--retry-failed")
        assert len(mine.calls()) == 30 + 29, "a run with an answer has passed its trial"

    def test_keep_going(self, project: Projects, auepora: Run) -> None:
        mine = project(12)
        mine.plan(args=broken(12))
        code, out, _ = auepora("run", "plan.yaml", "--keep-going")
        assert (code, len(mine.calls())) == (3, 12)
        assert "12 failed, counted worst" in out

    def test_secrets_are_not_in_the_traceback(
        self, project: Projects, auepora: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAG_KEY", "sesame-1234567890")
        mine = project(2)
        (mine.folder / "leaky_rag.py").write_text(
            "def build(key):\n    def run(sample, *, top_k):\n        raise ValueError(f'no {key}')\n    return run\n"
        )
        plan = mine.folder / "plan.yaml"
        text = (
            plan.read_text().replace("my_rag:Rag", "leaky_rag:build").replace("args: {}", 'args: {key: "${RAG_KEY}"}')
        )
        plan.write_text(text)
        code, _, err = auepora("run", "plan.yaml")
        assert (code, "ValueError: no " in err, "sesame" in err) == (3, True, False), err


class TestConnectionErrors:
    @pytest.fixture
    def down(self, project: Projects) -> Project:
        """A project whose system cannot be reached from its sixth sample on, until it is mended."""
        mine = project(60)
        source = (mine.folder / "my_rag.py").read_text()
        raised = "if int(sample.sample_id) >= 5 and not (HERE / 'mended').exists(): raise ConnectionRefusedError(111, 'refused')"
        (mine.folder / "down_rag.py").write_text(
            source.replace("        n = int", f"        {raised}\n        n = int")
        )
        return mine

    def plan(self, mine: Project, run: str = "{concurrency: 1, retries: 0}") -> None:
        plan = Path(mine.plan(run=run))
        plan.write_text(plan.read_text().replace("my_rag:Rag", "down_rag:Rag"))

    def test_twenty_connection_errors_in_a_row_stop_the_run(self, down: Project, auepora: Run) -> None:
        self.plan(down)
        code, out, err = auepora("run", "plan.yaml")
        assert (code, out) == (3, "")
        assert len(down.calls()) == 25
        message = "stopped after 20 connection errors in a row; the last one: raised: ConnectionRefusedError: "
        (line,) = errors_in(err)
        assert line.startswith(f"Error: {message}")
        assert "--keep-going" in err
        again = err.partition("To resume: ")[2].splitlines()[0].split()
        (down.folder / "mended").touch()
        code, out, err = auepora(*again[1:], "--json")
        assert code == 0, err
        (first, *_) = json.loads(out)["results"]
        assert (first["details"]["num_samples"], first["details"]["num_failed"]) == (60, 0)
        assert len(down.calls()) == 25 + 20 + 35, "what was answered is not asked again"

    def test_keep_going_does_not_stop(self, down: Project, auepora: Run) -> None:
        self.plan(down)
        code, _, err = auepora("run", "plan.yaml", "--keep-going")
        assert (code, len(down.calls())) == (3, 60)
        (line,) = errors_in(err)
        assert line.startswith("Error: 55 of 60 samples are system failures (raised 55), such as: raised: ConnectionRe")
        self.plan(down, "{concurrency: 1, retries: 0, keep_going: true}")
        assert auepora("run", "plan.yaml")[0] == 3
        assert len(down.calls()) == 120

    def test_other_outcomes_reset_the_count(self, down: Project, auepora: Run) -> None:
        source = (down.folder / "down_rag.py").read_text()
        (down.folder / "down_rag.py").write_text(source.replace(">= 5", "% 20 > 0"))
        self.plan(down)
        assert auepora("run", "plan.yaml")[0] == 3
        assert len(down.calls()) == 60

    def test_missing_endpoint(self, project: Projects, auepora: Run) -> None:
        mine = project(60)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            (mine.folder / "http.yaml").write_text(
                f"dataset: {{jsonl: data.jsonl}}\nsystem: {{http: 'http://127.0.0.1:{unused.getsockname()[1]}/ask'}}\n"
                "metrics: [recall@5]\nrun: {concurrency: 8, retries: 0}\n"
            )
            code, _, err = auepora("run", "http.yaml")
        assert code == 3
        assert "Error: stopped: the first 10 calls all failed in the same way: connection_error: " in err
        assert "60 answers to collect" in err
        assert "Traceback" not in err, "no code of the user was involved"


class TestClosedPipes:
    @pytest.mark.slow
    @pytest.mark.parametrize("reader", ["true", "head -c 1"])
    def test_closed_pipe_does_not_hide_a_failed_gate(self, project: Projects, auepora: Run, reader: str) -> None:
        project(6)
        assert auepora("run", "plan.yaml")[0] == 0
        done = piped("gate latest -g 'recall@5 >= 0.99' --junit gates.xml", reader)
        assert done.returncode == 1, done.stderr
        assert ElementTree.parse("gates.xml").getroot().get("failures") == "1"

    @pytest.mark.slow
    def test_closed_pipe_keeps_every_exit_code(self, project: Projects, auepora: Run) -> None:
        mine = project(6)
        mine.plan(more="gates: ['recall@5 >= 0.99']\n")
        done = piped("run plan.yaml --junit run.xml --json", "true")
        assert done.returncode == 1, done.stderr
        assert Path("run.xml").exists()
        assert "stored as run_" in done.stderr, "the command goes on to its end"
        Path("bad.jsonl").write_text('{"sample_id": "q01", "query": 5}\n')
        mine.plan("broken.yaml", args=broken(5))
        for arguments, code in [("validate bad.jsonl", 2), ("run broken.yaml", 3), ("runs", 0), ("show latest", 0)]:
            done = piped(arguments, "true")
            assert (done.returncode, "Traceback" in done.stderr) == (code, False), (arguments, done.stderr)


def piped(arguments: str, reader: str) -> subprocess.CompletedProcess[str]:
    """The command with its output to a reader that leaves, and its own exit code."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"'{sys.executable}' -m auepora_eval {arguments} | {reader}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
