"""A plan with a custom metric, a rubric and a panel of three: faults, SIGKILL, resume, exact previews, a real model."""

import json
import math
import os
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.store import RunStore
from helpers.critics import steady_value
from helpers.fault_server import Asked, Reply, serving
from helpers.local_model import local_model
from helpers.processes import Process

Cli = Callable[..., tuple[int, str, str]]
SAMPLES = 8
CALLS_PER_SAMPLE = 1 + 1 + 3
"""The custom metric and the rubric ask one judge, and the panel has three; its two criteria share a call."""
PLAN = """
name: judged
dataset: judged.jsonl
outputs: answers.jsonl
resources:
  one: {{openai: {{model: one, base_url: '{url}'{options}}}}}
  two: {{openai: {{model: two, base_url: '{url}'{options}}}}}
  three: {{openai: {{model: three, base_url: '{url}'{options}}}}}
  panel: {{panel: {{judges: [one, two, three], vote: majority}}}}
metrics:
  - judge_metric:
      name: names_number
      target: generation_faithfulness
      critic: {{use: one}}
      prompt: Does the answer name a number that one of the documents names?
      inputs: [question, documents@2, answer]
      scale: yes-no
      rationale: false
  - rubric_score: {{critic: {{use: one}}{rubric}}}
  - judge_metric:
      name: style
      critic: {{use: panel}}
      prompt: Judge the style of the answer.
      inputs: [answer, labels.parity]
      scale: {{poor: 0, fair: 0.5, good: 1}}
      criteria: [{{short: Is it short?}}, {{plain: Is it in plain words?}}]
      rationale: false
judge: {{concurrency: 4, backoff: 0.01, retries: 6, timeout: 110}}
store: runs.sqlite
"""
METRICS = ["names_number", "rubric_score", "style[short]", "style[plain]"]


def write_plan(folder: Path, url: str, samples: int, options: str = "", rubric: str = "") -> None:
    """The plan with saved outputs, so that a preview is exact."""
    rubrics = [{"item": "names a number", "weight": 2}, {"item": "apologises", "weight": -1}]
    rows = [
        {
            "sample_id": str(n),
            "query": f"what is {n}?",
            "reference_answer": f"it is {n}",
            "relevant_docs": [{"doc_id": f"d{n}", "text": f"document {n}"}],
            "labels": {"parity": "odd" if n % 2 else "even", "rubric": rubrics},
        }
        for n in range(samples)
    ]
    outputs = [
        {
            "sample_id": str(n),
            "retrieved": [{"doc": {"doc_id": f"d{n}", "text": f"document {n}"}}],
            "response": f"the answer is {n}",
        }
        for n in range(samples)
    ]
    for name, lines in (("judged.jsonl", rows), ("answers.jsonl", outputs)):
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "judged.yaml").write_text(PLAN.format(url=url, options=options, rubric=rubric))


@dataclass
class FaultyJudge:
    """Answers by the schema; fails on the first requests of a kind; a model stalls after a number of its answers."""

    faults: bool = False
    stall_after: dict[str, int] = field(default_factory=dict)
    stalls: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    """The models that stall, as requests to them arrive."""
    asked: Counter[bytes] = field(default_factory=Counter)
    answered: Counter[bytes] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, reply: Reply, asked: Asked) -> None:
        with self.lock:
            self.asked[asked.body] += 1
            time, place = self.asked[asked.body], len(self.asked)
            model = asked.json["model"]
            stall = self.answers_of(model) >= self.stall_after.get(model, math.inf)
            fault = place % 5 if self.faults and time == 1 else 0
            if not stall and fault not in (1, 2, 3):
                self.answered[asked.body] += 1
        if stall:
            self.stalls.put(model)
            reply.stall()
        elif fault == 1:
            reply.send({"error": {"message": "overloaded"}}, 503)
        elif fault == 2:
            reply.hang_up(reset=True)
        elif fault == 3:
            reply.send({"error": {"message": "slow down"}}, 429, Retry_After="0.01")
        else:
            reply.send(completion(asked.json))

    def answers_of(self, model: str) -> int:
        return sum(count for body, count in self.answered.items() if json.loads(body)["model"] == model)


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """A reply that fits the requested schema; the same for the same request."""
    prompt = body["messages"][-1]["content"]
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    answer = {key: steady_value(key, kind, f"{body['model']} {prompt}") for key, kind in properties.items()}
    message = {"role": "assistant", "content": json.dumps(answer)}
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 10}
    return {"choices": [{"message": message, "finish_reason": "stop"}], "model": body["model"], "usage": usage}


def address(server: Any) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def preview(auepora: Cli, *command: str) -> dict[str, Any]:
    code, out, err = auepora(*command, "--preview", "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def scores(run: str = "latest") -> dict[str, list[float | None]]:
    with RunStore.open("runs.sqlite") as store:
        return {one.name: list(one.scores or ()) for one in store.results(store.find(run).run_id)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    return tmp_path


@pytest.mark.parametrize("faults", [pytest.param(False, marks=pytest.mark.slow), True])
def test_preview_counts_the_calls_that_a_server_receives(folder: Path, auepora: Cli, *, faults: bool) -> None:
    judge = FaultyJudge(faults)
    with serving(judge) as server:
        write_plan(folder, address(server), SAMPLES)
        expected = preview(auepora, "run", "judged.yaml")
        assert judge.asked == {}
        assert list(expected["metrics"]) == METRICS
        assert expected["total"]["calls"] == SAMPLES * CALLS_PER_SAMPLE
        assert auepora("run", "judged.yaml", "-q")[0] == 0
        assert sum(judge.answered.values()) == len(judge.asked) == expected["total"]["calls"]
        assert (max(judge.asked.values()) > 1) == faults
        models = Counter(json.loads(body)["model"] for body in judge.asked)
        assert models == {"one": 3 * SAMPLES, "two": SAMPLES, "three": SAMPLES}
        assert list(scores()) == METRICS
        with RunStore.open("runs.sqlite") as store:
            details = {one.name: one.details for one in store.results(store.find("latest").run_id)}
        for name in METRICS:
            assert details[name]["num_measure_failed"] == 0
            if not faults:  # else retries are counted
                assert details[name]["judging"]["calls"] == expected["metrics"][name]["calls"]
        again = preview(auepora, "rescore", "latest")
        assert (again["total"]["calls"], again["total"]["cached"]) == (0, SAMPLES * CALLS_PER_SAMPLE)
        assert auepora("rescore", "latest", "-q")[0] == 0
        assert sum(judge.answered.values()) == expected["total"]["calls"]


@pytest.mark.slow
def test_preview_counts_control_items_and_repeats(folder: Path, auepora: Cli) -> None:
    judge = FaultyJudge()
    with serving(judge) as server:
        write_plan(folder, address(server), SAMPLES)
        options = ("--controls", "6", "--judge-repeats", "2")
        for command in (("run", "judged.yaml"), ("run", "judged.yaml", *options), ("rescore", "latest", *options)):
            before = sum(judge.answered.values())
            expected = preview(auepora, *command)["total"]["calls"]
            assert auepora(*command, "-q")[0] == 0
            assert sum(judge.answered.values()) == before + expected
        assert expected == 0
        assert set(judge.answered.values()) == {1}
        assert len(judge.answered) > 2 * SAMPLES * CALLS_PER_SAMPLE


@pytest.mark.slow
def test_killed_run_repeats_no_request(folder: Path, auepora: Cli) -> None:
    """SIGKILL when each model has a request without a reply: what was answered before, just now too, is on disk."""
    judge = FaultyJudge(faults=True, stall_after={"one": 12, "two": 4, "three": 4})
    with serving(judge) as server:
        write_plan(folder, address(server), SAMPLES)
        plan = folder / "judged.yaml"
        plan.write_text(plan.read_text().replace("concurrency: 4", "concurrency: 1"))
        command = [sys.executable, "-m", "auepora_eval", "run", "judged.yaml", "-q"]
        with Process(command, env=dict(os.environ)) as process:
            try:
                stalled = {judge.stalls.get(timeout=60) for _ in judge.stall_after}
            finally:
                process.kill()
        assert stalled == set(judge.stall_after)
        assert sum(judge.answered.values()) == sum(judge.stall_after.values())
        judge.stall_after.clear()
        with RunStore.open("runs.sqlite") as store:
            interrupted = store.find("latest").run_id
        code, _, err = auepora("run", "judged.yaml", "--resume", "--run", interrupted, "-q")
        assert code == 0, err
        assert set(judge.answered.values()) == {1}
        assert len(judge.answered) == SAMPLES * CALLS_PER_SAMPLE
        resumed = scores(interrupted)
        # As in a run that nothing interrupted, and without a further request.
        assert auepora("run", "judged.yaml", "-q", "--name", "whole")[0] == 0
        assert scores("whole") == resumed
        assert sum(judge.answered.values()) == SAMPLES * CALLS_PER_SAMPLE


@pytest.mark.part("llama")
def test_small_local_model_judges_the_plan(folder: Path, auepora: Cli) -> None:
    with local_model(cache_prompt=True) as model:
        write_plan(folder, model.base_url, 1, ", max_tokens: 60")
        expected = preview(auepora, "run", "judged.yaml")
        assert auepora("run", "judged.yaml", "-q")[0] in (0, 3)  # so small a model may not finish a reply
        asked = Counter(one["messages"][-1]["content"] + one["model"] for one in model.asked)
        assert len(asked) == expected["total"]["calls"] == CALLS_PER_SAMPLE
        with RunStore.open("runs.sqlite") as store:
            results = {one.name: one for one in store.results(store.find("latest").run_id)}
        assert list(results) == METRICS
        for one in results.values():
            for outcome in one.outcomes or ():
                assert outcome == "scored" or outcome.startswith("measure_failed:"), one.name
        assert results["names_number"].details["num_scored"] == 1
        model.asked.clear()
        assert auepora("rescore", "latest", "-q", "--judge-cache-only")[0] in (0, 3)
        assert model.asked == []
