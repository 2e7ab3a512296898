"""A plan with prices and repeats: what its run costs, where that is shown, and what --preview expects."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.results import system_cost
from auepora_eval.store.runs import RunStore
from helpers.ui_server import ui_server

PLAN = """\
name: priced
dataset: samples.jsonl
system: {python: "priced_app:answer"}
metrics: [exact_match, {"pass_all@2": {of: exact_match}}, total_cost, {cost_per_correct: {of: exact_match}}]
run:
  repeats: 2
  prices:
    large: {prompt: 2, cached_prompt: 0.5, completion: 8}
store: runs.db
report: report.html
gates: ["pass_all@2 >= 0.5", "cost_per_correct <= 1"]
"""
APP = """\
from auepora_eval import Response, SystemOutputs


def answer(sample, *, top_k):
    usage = {"model": "large", "prompt_tokens": 1000, "cached_prompt_tokens": 400, "completion_tokens": 50}
    return SystemOutputs([], Response("yes"), usage=usage)
"""
COST = (2 * 600 + 0.5 * 400 + 8 * 50) / 1e6
"""Of one answer."""


def app_of(folder: Path) -> str:
    """A module name of its own for every folder: a process imports a name once."""
    return f"priced_app_{folder.name}"


def plan_in(folder: Path) -> str:
    return PLAN.replace("priced_app", app_of(folder))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    samples = [{"sample_id": f"q{number}", "query": "?", "reference_answer": "yes"} for number in range(6)]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))
    (tmp_path / f"{app_of(tmp_path)}.py").write_text(APP)
    (tmp_path / "plan.yaml").write_text(plan_in(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_cost_of_a_run_is_shown_and_expected(folder: Path, auepora: Callable[..., Any]) -> None:
    _, before, _ = auepora("run", "plan.yaml", "--preview")
    assert "the system would be called 12 times; what that costs is unknown, as no earlier run of 'priced'" in before
    assert not (folder / "runs.db").exists()
    code, done, _ = auepora("run", "plan.yaml", "--all")
    assert code == 0
    assert "total_cost (per answer)" in done
    assert "Cost" in (folder / "report.html").read_text()
    with RunStore.open(folder / "runs.db") as store:
        results = store.results(store.find("priced").run_id)
    assert results.by_name["total_cost"].value == pytest.approx(COST)
    assert results.by_name["cost_per_correct"].value == pytest.approx(COST)
    assert system_cost(results) == pytest.approx(12 * COST)
    assert system_cost([results.by_name["exact_match"]]) is None
    assert (
        f"cost     {12 * COST:.4g} of the system, without that of judges"
        in auepora("show", "priced", "--store", "runs.db", "--all")[1]
    )
    _, after, _ = auepora("run", "plan.yaml", "--preview")
    assert f"called 12 times: about {12 * COST:.4g}, if an answer takes 1,000 prompt and 50 completion tokens" in after


def test_a_gate_on_the_cost_of_right_answers_alone_stops_a_plan(folder: Path, auepora: Callable[..., Any]) -> None:
    (folder / "plan.yaml").write_text(plan_in(folder).replace('"pass_all@2 >= 0.5", ', ""))
    code, _, refused = auepora("run", "plan.yaml", "--all")
    assert code == 2
    assert not (folder / "runs.db").exists()
    assert "plan.yaml:11: gates: the gate 'cost_per_correct <= 1' alone says nothing" in refused
    (folder / "plan.yaml").write_text(plan_in(folder))
    assert auepora("run", "plan.yaml", "--all")[0] == 0
    assert auepora("gate", "priced", "--store", "runs.db", "-g", "cost_per_correct <= 1", "--all")[0] == 2
    code, _, problem = auepora(
        "gate", "priced", "--store", "runs.db", "-g", "cost_per_correct <= 1", "-g", "exact_match >= 0.5"
    )
    assert (code, problem) == (0, "")


def test_the_page_of_runs_shows_the_cost_of_the_system(folder: Path, auepora: Callable[..., Any]) -> None:
    assert auepora("run", "plan.yaml", "--all")[0] == 0
    with RunStore.open(folder / "runs.db") as store, ui_server(store) as server:
        page = server.get("/runs").text
    assert "system cost" in page
    assert f"{12 * COST:.4g}" in page
