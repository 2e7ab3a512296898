"""``auepora judge try``, and a plan with judge metrics: run, resumed, explained and rescored without their files."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.decision_server import DecisionServer

JUDGE = r"""
import os
from pathlib import Path
from auepora_eval import Response, SystemOutputs
from auepora_eval.errors import JudgeError
from auepora_eval.judge.critic import Judgement, StructuredCritic, Usage

def answer(sample, *, top_k):
    log("system", sample.query)
    return SystemOutputs([], Response(f"About {sample.query}"))

def log(kind, text):
    with open(Path(__file__).with_name("calls.log"), "a") as file:
        file.write(f"{kind} {text}\n")

class Judge(StructuredCritic):
    name = model = "small"

    async def judge(self, request):
        log("judge", f"{request.sample_id} {request.prompt_id.replace('/', ' ')}")
        if os.environ.get("FAILING_JUDGE"):
            raise JudgeError("refused", "not today", raw="\x1b[2JNo!")
        number = int(request.sample_id[1:])
        values = {
            name: "because" if name == "rationale" else kind["enum"][number % len(kind["enum"])]
            if "enum" in kind else 1 + number % 5
            for name, kind in request.schema["properties"].items()
        }
        return Judgement(values, usage=Usage(100, 20))

    def cache_key(self, request):
        return {"model": "small"}
"""
PLAN = """
dataset: data.jsonl
system: {python: "a_trying_judge:answer"}
resources:
  judge: {python: "a_trying_judge:Judge"}
judge: {prices: {small: {prompt: 10, completion: 100}}}
store: runs.sqlite
metrics:
- mean_latency
- judge_metric:
    name: polite
    critic: {use: judge}
    prompt: {file: polite.md}
    scale: {rude: 0, plain: 0.5, polite: 1}
- judge_metric: {file: tone.yaml}
- judge_metric:
    name: topic
    critic: {use: judge}
    prompt: Which topic is it?
    inputs: [question, labels.lang]
    scale: [billing, other]
"""
TONE = """
name: tone
critic: {use: judge}
prompt: Judge the tone.
scale: 1-5
criteria:
  warm: Is it warm?
  calm: Is it calm?
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])  # plans put their folder there
    monkeypatch.delitem(sys.modules, "a_trying_judge", raising=False)
    rows = [{"sample_id": f"q{n}", "query": f"Question {n}?", "labels": {"lang": "en"} if n else {}} for n in range(8)]
    Path("data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for name, text in {
        "a_trying_judge.py": JUDGE,
        "plan.yaml": PLAN,
        "tone.yaml": TONE,
        "polite.md": "Is it polite?",
    }.items():
        Path(name).write_text(text)
    return tmp_path


def calls() -> list[str]:
    return Path("calls.log").read_text().splitlines() if Path("calls.log").exists() else []


def test_trial_shows_prompts_replies_scores_and_cost(folder: Path, auepora: Run) -> None:
    code, out, _ = auepora("judge", "try", "plan.yaml", "-m", "polite", "-n", "2", "--seed", "5")
    assert code == 0
    systems, judges = ([one for one in calls() if one.startswith(kind)] for kind in ("system", "judge"))
    assert (len(systems), len(judges)) == (2, 2), "the system is called for the drawn samples alone"
    drawn = [one.split()[1] for one in judges]
    for sample_id in drawn:
        number = int(sample_id[1:])
        assert f"{sample_id}  Question {number}?" in out
        assert f"About Question {number}?" in out
        assert f"polite {(number % 3) / 2:.4f}" in out
    assert out.count("Is it polite?") == 2
    assert 'Every score is one of "rude", "plain" or "polite".' in out
    assert '{"rationale": "because", "score":' in out
    assert "Judging: 2 judgements, 2 calls, 200 + 40 tokens, cost 0.006." in out
    assert "The system was called for these samples." in out
    assert not Path("runs.sqlite").exists(), "no run is stored"
    code, again, _ = auepora("judge", "try", "plan.yaml", "-m", "polite", "-n", "2", "--seed", "5")
    assert "Reply from the cache:" in again
    assert len([one for one in calls() if one.startswith("judge")]) == 2
    code, _, err = auepora("run", "plan.yaml", "-q")
    assert code == 0, err
    assert sum(" polite" in one for one in calls() if one.startswith("judge")) == 8, "the run reuses the trial"


def test_trial_as_json_shares_requests_between_parts(folder: Path, auepora: Run) -> None:
    code, out, _ = auepora("judge", "try", "plan.yaml", "-m", "tone", "-m", "topic", "-n", "3", "--json")
    document = json.loads(out)
    assert (code, document["metrics"]) == (0, ["tone[warm]", "tone[calm]", "topic[billing]", "topic[other]"])
    assert [request["metrics"] for request in document["requests"]] == 3 * [
        ["tone[warm]", "tone[calm]"],
        ["topic[billing]", "topic[other]"],
    ]
    assert "q0" not in [one["sample_id"] for one in document["samples"]], "the label of q0 is missing"
    assert (document["usage"]["judgements"], document["usage"]["calls"]) == (12, 6)
    first = document["requests"][0]
    number = int(first["sample_id"][1:])
    assert first["answer"] == {"rationale": "because", "warm": 1 + number % 5, "calm": 1 + number % 5}
    assert document["scores"][0] == {
        "sample_id": first["sample_id"], "metric": "tone[warm]", "score": (number % 5) / 4, "outcome": "scored",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "polit"], "'polit' is not among the judge metrics; did you mean 'polite'?"),
        (["-m", "mean_latency[end_to_end]"], "calls no judge; the judge metrics of the plan are polite, tone[warm]"),
        (["-o", "trial.csv"], "a trial cannot be written as CSV"),
        (["--run", "latest"], "runs.sqlite"),
    ],
)
def test_errors(folder: Path, auepora: Run, arguments: list[str], message: str) -> None:
    code, _, err = auepora("judge", "try", "plan.yaml", *arguments)
    assert (code, message in err) == (2, True), err
    assert calls() == []


def test_failures_are_shown_and_escaped(folder: Path, auepora: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILING_JUDGE", "1")
    code, out, _ = auepora("judge", "try", "plan.yaml", "-m", "polite", "-n", "1")
    assert code == 3
    assert "not usable (refused: not today)" in out
    assert "\\u001b[2JNo!" in out
    assert "measure_failed:refused" in out
    code, out, _ = auepora("judge", "try", "plan.yaml", "-m", "polite", "-n", "2", "--max-calls", "0", "--json")
    assert {one["error"] for one in json.loads(out)["requests"]} == {"budget_exhausted"}


def test_stored_run_needs_no_files_of_its_metrics(folder: Path, auepora: Run) -> None:
    """Preview, run, trial of stored outputs, explanation, one sample, rescoring, report and comparison."""
    code, out, _ = auepora("run", "plan.yaml", "--preview", "--json")
    counted = {name: one["calls"] for name, one in json.loads(out)["metrics"].items()}
    assert counted == {
        "polite": 8, "tone[warm]": 8, "tone[calm]": 0, "topic[billing]": 7, "topic[other]": 0,
    }  # fmt: skip
    assert auepora("run", "plan.yaml", "-q")[0] == 0
    made = [one for one in calls() if one.startswith("judge")]
    assert len(made) == len(set(made)) == 8 + 8 + 7, "as the preview counted"
    assert auepora("judge", "try", "plan.yaml", "-m", "polite", "-n", "2", "--run", "latest")[0] == 0
    Path("polite.md").unlink()
    Path("tone.yaml").unlink()
    for name, words in {
        "polite": "Each class has its value: rude 0, plain 0.5, polite 1",
        "tone[calm]": "Each number x on the scale from 1 to 5",
        "topic[other]": "The class 'other' is 1, any other is 0",
    }.items():
        code, out, _ = auepora("explain", "latest", name, "--query", "q1", "--store", "runs.sqlite")
        assert (code, words in out, "equal to the last digit" in out) == (0, True, True), out
    code, out, _ = auepora("show", "latest", "--sample", "q1", "--store", "runs.sqlite")
    assert "topic[billing], topic[other] by small: score other" in out
    assert auepora("rescore", "latest", "--store", "runs.sqlite", "-q")[0] == 0
    assert auepora("report", "latest", "--store", "runs.sqlite", "-o", "page.html")[0] == 0
    assert [one for one in calls() if one.startswith("judge")] == made, "nothing was asked again"


def test_file_of_a_metric_on_the_command_line(folder: Path, auepora: Run) -> None:
    Path("answers.jsonl").write_text('{"sample_id": "q1", "retrieved": [], "response": "It."}\n')
    Path("data.jsonl").write_text('{"sample_id": "q1", "query": "What?"}\n')
    for text in (TONE, TONE.replace("critic: {use: judge}\n", "")):
        Path("tone.yaml").write_text(text)
        arguments = ("score", "data.jsonl", "answers.jsonl", "-m", "judge_metric:file=tone.yaml")
        code, out, err = auepora(*arguments, "--plan", "plan.yaml", "--json")
        assert code == 0, err
        assert {one["name"]: one["value"] for one in json.loads(out)["results"]} == {
            "tone[warm]": 1 / 4, "tone[calm]": 1 / 4,
        }  # fmt: skip


DECISIONS = """
dataset: data.jsonl
system: {{python: "a_trying_judge:answer"}}
resources:
  judge: {{decisions: {{model: decider, base_url: "{url}", api: systemone}}}}
store: runs.sqlite
metrics:
- judge_metric: {{name: polite, critic: {{use: judge}}, prompt: Is it polite?}}
- judge_metric: {{name: short, critic: {{use: judge}}, prompt: Is it short?}}
"""


def test_decision_models_are_tried_together_and_alone(folder: Path, auepora: Run) -> None:
    def less_alone(body: dict[str, Any]) -> dict[str, Any]:
        if len(body["answers"]) == 1:
            body["answers"]["q1"]["noul"] = 0.5
        return body

    with DecisionServer(change=less_alone) as server:
        Path("plan.yaml").write_text(DECISIONS.format(url=server.base_url))
        code, out, err = auepora("judge", "try", "plan.yaml", "-n", "2", "--repeat", "3", "--separate")
        assert code == 0, err
        assert "polite: asked alone, scores differ by 0.2000 on average and by 0.2000 at most." in out
        assert "short: 3 judgements of the same answer have a standard deviation of 0.0000." in out, out[-900:]
        assert len(server.asked) == 2 * 3 + 2 * 2 * 3
        assert "served_model" in out
        code, out, err = auepora("run", "plan.yaml")
        assert code == 0, err
        assert "polite (mean probability)" in out
        code, out, err = auepora("explain", "latest", "polite", "--query", "q1")
        assert "replies with probabilities and gives no reason" in out, out + err
        code, out, err = auepora("verify", "latest")
        assert code == 0, out + err


def test_separate_needs_a_decision_model(folder: Path, auepora: Run) -> None:
    code, _, err = auepora("judge", "try", "plan.yaml", "-n", "1", "-m", "polite", "--separate")
    assert code == 2
    assert "no judge of these metrics is a decision model" in err
