"""Runs judged by a decision model: previewed, killed and resumed, in two stages, stopped early, by a panel, replayed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.types import MetricResult
from auepora_eval.store import RunStore
from helpers.decision_server import AskedQuestion, DecisionServer
from helpers.judge_server import Reply
from helpers.user_project import Project

Cli = Callable[..., tuple[int, str, str]]
Make = Callable[[int], Project]
FIVE = "\n".join(
    f"  - judge_metric: {{name: m{number}, critic: {{use: judge}}, prompt: Is it {word}?}}"
    for number, word in enumerate(("short", "kind", "true", "plain", "clear"))
)


def write_plan(project: Project, url: str, metrics: str, more: str = "", system: str = "my_rag:Rag") -> None:
    judges = (
        f"  judge: {{decisions: {{model: decider, base_url: '{url}', api: systemone}}}}\n"
        f"  other: {{decisions: {{model: decider-2, base_url: '{url}'}}}}\n"
        "  both: {panel: {judges: [judge, other]}}\n"
    )
    (project.folder / "plan.yaml").write_text(
        "name: nightly\n"
        "dataset: {jsonl: data.jsonl}\n"
        f'system: {{python: "{system}"}}\n'
        f"resources:\n{judges}metrics:\n{metrics}\nstore: runs.sqlite\n{more}"
    )


def chance(question: AskedQuestion) -> dict[str, float]:
    """A probability by the number in the answer."""
    (number,) = re.findall(r"the answer is (\d+)", question.state)[:1]
    yes = 0.9 if int(number) % 10 < 6 else 0.2
    return {"no": 1 - yes, "yes": yes}


def result(name: str, run: str = "latest") -> MetricResult:
    with RunStore.open("runs.sqlite") as store:
        return store.result(store.find(run).run_id, name)


def test_preview_has_the_requests_at_the_server(project: Make, auepora: Cli) -> None:
    with DecisionServer(chance) as server:
        write_plan(project(20), server.base_url, FIVE)
        code, out, err = auepora("run", "plan.yaml", "--preview", "--json")
        assert code == 0, err
        total = json.loads(out)["total"]
        assert (total["judgements"], total["calls"]) == (100, 20)
        assert server.asked == []
        code, _, err = auepora("run", "plan.yaml", "-q")
        assert code == 0, err
        assert len(server.asked) == 20
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        assert len(server.asked) == 20
    assert result("m0").value == pytest.approx(0.6 * 0.9 + 0.4 * 0.2)
    with RunStore.open("runs.sqlite") as store:
        judgements = store.judgements(store.find("latest").run_id)
    assert {one.body["answer"]["served_model"] for one in judgements} == {"decider-1.2"}
    assert all(set(one.body["answer"]["probabilities"]) == {"no", "yes"} for one in judgements)


def test_a_killed_run_asks_no_answered_question_again(project: Make, auepora: Cli) -> None:
    with DecisionServer(chance, at={8: "hang", 9: "hang"}) as server:
        made = project(20)
        write_plan(made, server.base_url, FIVE, "judge: {concurrency: 2}\n")
        command = [sys.executable, "-m", "auepora_eval", "run", "plan.yaml", "-q"]
        process = subprocess.Popen(command, cwd=made.folder, env={**os.environ, "PYTHONPATH": str(made.folder)})
        deadline = time.monotonic() + 60
        while len(server.asked) < 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        code, _, err = auepora("run", "plan.yaml", "-q", "--resume", "--all")
        assert code == 0, err
        raws = [asked.raw for asked in server.asked]
        assert len(set(raws)) == 20
        assert len(raws) == 22, "the two in flight are asked again"
    assert len(result("m4").scores or ()) == 20


def test_two_stages_with_a_decision_model_as_cheap_judge(project: Make, auepora: Cli) -> None:
    metric = "  - judge_metric: {name: right, critic: {use: other}, prompt: Is it right?}"
    with DecisionServer(chance) as server:
        write_plan(
            project(60), server.base_url, metric, "judge: {cheap: {use: judge}, expensive: {use: other}, budget: 20}\n"
        )
        code, _, err = auepora("run", "plan.yaml", "-q", "--all")
        assert code == 0, err
        paths = [asked.path.rpartition("/")[2] for asked in server.asked]
    assert (paths.count("systemone"), paths.count("decisions")) == (60, 20)
    stage = result("right").details["two_stage"]
    assert stage["cap"] == 4
    assert len(set(stage["predictions"])) > 1


@pytest.mark.parametrize("stop", ["threshold: 0.3", "against: base, delta: 0.05"])
def test_early_stopping_on_probabilities(project: Make, auepora: Cli, stop: str) -> None:
    metric = "  - judge_metric: {name: right, critic: {use: judge}, prompt: Is it right?}"
    made = project(200)
    better = (made.folder / "my_rag.py").read_text().replace("the answer is {n}", "the answer is {n - n % 10}")
    (made.folder / "better_rag.py").write_text(better)
    with DecisionServer(chance) as server:
        write_plan(made, server.base_url, metric)
        path = made.folder / "plan.yaml"
        path.write_text(path.read_text().replace("nightly", "base"))
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        asked = len(server.asked)
        write_plan(made, server.base_url, metric, f"judge: {{stop: {{metric: right, {stop}}}}}\n", "better_rag:Rag")
        code, _, err = auepora("run", "plan.yaml", "-q")
        assert code == 0, err
        assert len(server.asked) - asked < 200, "stopped early"
    assert result("right").details["sequential"]["verdict"] in ("better", "pass")


def test_a_panel_with_control_items(project: Make, auepora: Cli) -> None:
    metric = "  - llm_correctness: {critic: {use: both}}"
    with DecisionServer() as server:
        write_plan(project(6), server.base_url, metric, "judge: {controls: 4}\n")
        code, _, err = auepora("run", "plan.yaml", "-q")
        assert code == 0, err
        assert {asked.path.rpartition("/")[2] for asked in server.asked} == {"systemone", "decisions"}
    found = result("llm_correctness")
    assert found.details["panel"]["num_votes"] > 0
    assert found.details["controls"]["items"]


def test_stored_judgements_are_replayed(project: Make, auepora: Cli) -> None:
    with DecisionServer(chance) as server:
        write_plan(project(5), server.base_url, FIVE)
        assert auepora("run", "plan.yaml", "-q")[0] == 0
        assert auepora("export", "latest", "-o", "exported", "--force")[0] == 0
        (recorded,) = Path("exported").rglob("judgements.jsonl")
        text = Path("plan.yaml").read_text()
        start, end = text.index("  judge: "), text.index("  other: ")
        Path("plan.yaml").write_text(f"{text[:start]}  judge: {{recorded: {recorded}}}\n{text[end:]}")
        first = result("m2").value
        code, _, err = auepora("run", "plan.yaml", "-q")
        assert code == 0, err
        assert len(server.asked) == 5
    assert result("m2").value == first


@pytest.mark.parametrize(("status", "body"), [(404, {"detail": "Not Found"}), (501, {"detail": "no decision model"})])
def test_a_server_without_decisions_is_one_line(project: Make, auepora: Cli, status: int, body: Any) -> None:
    with DecisionServer(change=lambda _: Reply(status=status, body=body)) as server:
        write_plan(project(30), server.base_url, FIVE, "judge: {concurrency: 1}\n")
        _, out, err = auepora("run", "plan.yaml")
        assert len(server.asked) == 1
    lines = [line for line in err.splitlines() if "decider" in line]
    assert len(lines) == 1, out + err
    assert f"{server.base_url}/systemone does not answer for model decider" in lines[0]
