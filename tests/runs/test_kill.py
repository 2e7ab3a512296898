"""A run that is killed repeatedly ends like one that was not; only calls in flight are repeated."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.store.runs import RunStore
from helpers.processes import Process
from helpers.user_project import Project

CONCURRENCY = 8
SAMPLES = 1000
KILLS = 5
READS_TIMINGS = "mean_latency[end_to_end]"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "auepora_eval", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def killed_at(project: Project, target: int, *arguments: str) -> bool:
    """Start a run and kill it after ``target`` calls in total; returns whether that was before its end."""
    with Process[bytes](
        command(*arguments), cwd=project.folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        log = project.folder / "calls.log"
        while process.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < target):
            time.sleep(0.002)
        killed = process.poll() is None
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
    assert killed or process.returncode == 0, err.decode()
    return killed


def stored(path: Path) -> tuple[dict[str, Any], list[object]]:
    """The results and outputs of the only run, without what time tells."""
    with RunStore.open(path) as store:
        (record,) = store.runs()
        assert record.status == "finished"
        document = store.results(record.run_id).to_dict(per_query=True)
        outputs = [(row.position, row.sample_id, row.output) for row in store.outputs(record.run_id)]
    document["run_id"] = None
    document["results"] = [one for one in document["results"] if one["name"] != READS_TIMINGS]
    for row in document["per_query"]:
        del row["scores"][READS_TIMINGS]
    for _, _, output in outputs:
        output.timings.clear()
    return document, list(outputs)


@pytest.mark.slow
def test_killed_repeatedly_and_resumed(project: Callable[[int], Project]) -> None:
    mine = project(SAMPLES)
    mine.plan(args="{seconds: 0.002}", run=f"{{concurrency: {CONCURRENCY}, retries: 0}}")
    chance = random.Random(7)
    targets = sorted(chance.sample(range(20, SAMPLES - 20), KILLS))
    done: set[str] = set()
    seen = 0
    for attempt, target in enumerate(targets):
        resume = ["--resume"] if attempt else []
        assert killed_at(mine, target + CONCURRENCY * attempt, "run", "plan.yaml", *resume)
        calls = mine.calls()
        again = done & set(calls[seen:])
        assert not again, f"asked again although stored: {sorted(again)[:5]}"
        with RunStore.open(mine.folder / "runs.sqlite") as store:
            (record,) = store.runs()
            done = {str(position) for position, _ in store.done(record.run_id)}
        in_flight = set(calls) - done
        assert len(in_flight) <= CONCURRENCY
        seen = len(calls)
    subprocess.run(
        command("run", "plan.yaml", "--resume"), cwd=mine.folder, env=environment(), check=True, capture_output=True
    )
    times = Counter(mine.calls())
    assert len(times) == SAMPLES
    assert sum(times.values()) - SAMPLES <= KILLS * CONCURRENCY

    (mine.folder / "plan.yaml").rename(mine.folder / "once.yaml")
    subprocess.run(
        command("run", "once.yaml", "--store", "once.sqlite"),
        cwd=mine.folder,
        env=environment(),
        check=True,
        capture_output=True,
    )
    assert stored(mine.folder / "runs.sqlite") == stored(mine.folder / "once.sqlite")


@pytest.mark.slow
def test_killed_run_is_resumed_with_its_settings_only(project: Callable[[int], Project]) -> None:
    mine = project(200)
    mine.plan(args="{seconds: 0.01}", run="{concurrency: 4, retries: 0}")
    settings = ("--set", "run.top_k=3", "--set", "system.config.size=1")
    assert killed_at(mine, 60, "run", "plan.yaml", *settings)
    calls = len(mine.calls())
    others = [("run.top_k=4", "3 -> 4"), ("system.config.size=2", "1 -> 2"), ("system.args.seconds=0", "0.01 -> 0")]
    for other, difference in others:
        refused = run_plan(mine, "--resume", *settings, "--set", other)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "the plan has changed since" in refused.stderr
        assert difference in refused.stderr
    assert run_plan(mine, "--resume").returncode == 2, "the settings are part of the plan of the run"
    assert len(mine.calls()) == calls, "a refused run calls nothing"
    resumed = run_plan(mine, "--resume", *settings)
    assert resumed.returncode == 0, resumed.stderr
    with RunStore.open(mine.folder / "runs.sqlite") as store:
        (record,) = store.runs()
        assert (record.plan["run"]["top_k"], len(store.done(record.run_id))) == (3, 200)


@pytest.mark.slow
def test_interrupted_once_and_twice(project: Callable[[int], Project]) -> None:
    mine = project(400)
    mine.plan(args="{seconds: 0.02}", run="{concurrency: 4, retries: 0}")
    for times, resume in ((1, []), (2, ["--resume"])):
        with Process[bytes](
            command("run", "plan.yaml", *resume),
            cwd=mine.folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            target = len(mine.calls()) + 20
            while process.poll() is None and len(mine.calls()) < target:
                time.sleep(0.005)
            for _ in range(times):
                process.send_signal(signal.SIGINT)
                time.sleep(0.01)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130, err.decode()
        assert out == b""
        assert "auepora run plan.yaml --resume --run run_" in err.decode()
        with RunStore.open(mine.folder / "runs.sqlite") as store:
            (record,) = store.runs()
            assert record.status == "stopped"
            done = store.done(record.run_id)
        if times == 1:  # what was in flight was waited for
            assert len(done) == len(mine.calls())
    code = subprocess.run(
        command("run", "plan.yaml", "--resume", "--json"),
        cwd=mine.folder,
        env=environment(),
        capture_output=True,
        check=True,
    )
    assert json.loads(code.stdout)["results"][0]["details"]["num_samples"] == 400


JUDGE = """
import os, signal
from importlib import import_module
from pathlib import Path
from auepora_eval.judge.critic import LLMCritic

class Judge(LLMCritic):
    def score(self, *, prompt, metadata=None):
        return sum(prompt.encode()) % 11 / 10

def kill_at(name, when, number):
    module, _, path = name.partition(":")
    owner, method = path.split(".")
    owner = Judge if module == "judge_rag" else getattr(import_module(module), owner)
    original, calls = getattr(owner, method), []

    def counted(*given, **options):
        calls.append(None)
        if (when, len(calls)) == ("before", int(number)):
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*given, **options)
        if (when, len(calls)) == ("after", int(number)):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, counted)

if Path("kill_at").exists():
    kill_at(*Path("kill_at").read_text().split())
"""
SCORED_BY = "metrics: [recall@5, mrr, bleu, {llm_faithfulness: {critic: {use: judge}}}]"
MOMENTS = [  # what is called, whether the process is killed before or after it, and at which call
    "auepora_eval.engine.evaluate:CollectingAccumulator.add after 5",
    "auepora_eval.store.runs:RunStore.put_results after 1",
    "judge_rag:Judge.score before 31",
    "judge_rag:Judge.score before 1",
    "judge_rag:Judge.score after 60",
    "auepora_eval.engine.evaluate:CollectingAccumulator.add before 1",
    "auepora_eval.store.runs:RunStore.put_judgements after 1",
    "auepora_eval.store.runs:RunStore.add_usage after 1",
    "auepora_eval.store.runs:RunStore.put_results before 1",
    "auepora_eval.store.runs:RunStore.finish before 1",
]


def judged_results(path: Path) -> tuple[object, object, object]:
    """The results, outputs and judgements of the only run, without what time and the cache tell."""
    with RunStore.open(path) as store:
        (record,) = store.runs()
        assert record.status == "finished"
        document = store.results(record.run_id).to_dict(per_query=True)
        outputs = [(row.position, row.sample_id, row.output) for row in store.outputs(record.run_id)]
        judgements = [
            (row.metric, row.signature, row.position, row.repeat, row.reason, row.body.get("answer"))
            for row in store.judgements(record.run_id)
        ]
    document["run_id"] = None
    for one in document["results"]:
        one["details"].pop("judging", None)
    for _, _, output in outputs:
        output.timings.clear()
    return document, outputs, sorted(judgements, key=repr)


def judged_project(folder: Path) -> Project:
    """A project of 60 samples whose plan has a judge."""
    made = Project(folder, 60)
    (folder / "judge_rag.py").write_text(JUDGE)
    plan = Path(made.plan(more='resources: {judge: {python: "judge_rag:Judge"}}\nscoring: {batch_size: 16}\n'))
    text = plan.read_text()
    plan.write_text(text.replace(text[text.index("metrics:") : text.index("\nslices")], SCORED_BY))
    return made


def run_plan(made: Project, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command("run", "plan.yaml", *arguments),
        cwd=made.folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, object, object]:
    """The results of the same project without a kill."""
    made = judged_project(tmp_path_factory.mktemp("uninterrupted"))
    once = run_plan(made)
    assert once.returncode == 0, once.stderr
    return judged_results(made.folder / "runs.sqlite")


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_scoring_and_resumed(
    tmp_path: Path, uninterrupted: tuple[object, object, object], moment: str
) -> None:
    mine = judged_project(tmp_path)
    (mine.folder / "kill_at").write_text(moment)
    assert run_plan(mine).returncode == -signal.SIGKILL, "it was killed"
    assert len(mine.calls()) == 60, "every sample was answered before"
    (mine.folder / "kill_at").unlink()
    resumed = run_plan(mine, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert len(mine.calls()) == 60, "nothing is asked again"
    assert judged_results(mine.folder / "runs.sqlite") == uninterrupted
