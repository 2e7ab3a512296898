"""Control items of judges in stored runs: requests, results, reports, comparisons and drift."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auepora_eval.store import RunStore
from helpers.critics import framed
from helpers.judge_server import Asked, JudgeServer

Cli = Callable[..., tuple[int, str, str]]
FACTS = ("built in 1889", "made in 1600", "as high as 8849 metres", "painted in 1503", "over since 1945", "8 of them")
PLAN = """
version: 1
name: controlled
dataset: data.jsonl
outputs: outputs.jsonl
store: runs.sqlite
resources: {judge: {openai: {model: %s, base_url: '%s'}}}
judge: {controls: 8}
metrics: [{llm_faithfulness: {critic: {use: judge}, scale: 1-5}}]
"""
MODELS: dict[str, Callable[[str, str], bool]] = {  # whether an answer is accepted, given the evidence
    "careful": lambda answer, evidence: answer in evidence,
    "lenient": lambda answer, evidence: True,
}


def reply(asked: Asked) -> dict[str, object]:
    answer, evidence = "".join(framed(asked.prompt, "answer")), " ".join(framed(asked.prompt, "(?:evidence|document)"))
    good = MODELS[asked.body["model"]](answer, evidence)
    return {"rationale": "seen", "score": 5 if good else 1}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Writes a plan for a model at a server, with saved outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-key-of-controls")
    documents = [
        {"doc_id": f"d{n}", "text": f"The thing number {'abcdef'[n]} is {fact}."} for n, fact in enumerate(FACTS)
    ]
    samples = [
        {
            "sample_id": f"q{n}",
            "query": f"What about thing {'abcdef'[n]}?",
            "reference_answer": one["text"],
            "relevant_docs": [one],
        }
        for n, one in enumerate(documents)
    ]
    outputs = [
        {"sample_id": f"q{n}", "response": f"Some system says {n}.", "retrieved": [{"doc": one}]}
        for n, one in enumerate(documents)
    ]
    for name, rows in (("data.jsonl", samples), ("outputs.jsonl", outputs)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def write(model: str, url: str) -> None:
        Path("plan.yaml").write_text(PLAN % (model, url))

    return write


def test_runs_with_controls(plan: Callable[[str, str], None], auepora: Cli) -> None:
    with JudgeServer(reply) as server:
        plan("careful", server.base_url)
        code, out, _ = auepora("run", "plan.yaml", "--preview", "--json")
        assert (code, json.loads(out)["total"]["calls"]) == (0, 14)
        code, out, err = auepora("run", "plan.yaml", "--json")
        assert code == 0, err
        assert len(server.asked) == 14
        (result,) = json.loads(out)["results"]
        controls = result["details"]["controls"]
        assert (controls["false_accepts"]["n"], controls["false_accepts"]["errors"], controls["usable"]) == (4, 0, True)
        assert (result["details"]["num_samples"], result["details"]["judging"]["calls"]) == (6, 14)
        with RunStore.open("runs.sqlite") as store:  # control items are no samples
            assert store.judgement_counts(store.find("latest").run_id) == (6, 0)
        assert auepora("rescore", "latest", "-q")[0] == 0
        assert len(server.asked) == 14  # nothing is asked twice
        plan("lenient", server.base_url)
        code, out, err = auepora("run", "plan.yaml", "--all")
        assert code == 0, err
        assert "is not usable: it accepts 4 of 4 control items" in err
        assert "4 of 8 verdicts on control items differ from" in out
        assert "of 4 to be rejected, 4 newly accepted and 0 newly rejected (difference +1.0000" in out
        code, out, _ = auepora("compare", "latest~1", "latest", "--all")
        assert "B: the judge of llm_faithfulness is not usable" in out
        assert "llm_faithfulness: 4 of 8 verdicts on control items differ from A" in out
        assert auepora("report", "latest", "-o", "report.md")[0] == 0
        page = Path("report.md").read_text()
        assert "The judge of llm_faithfulness is not usable" in page
        assert "altered fact" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [("controls: -1", "controls"), ("controls: many", "controls"), ("control: 3", "did you mean 'controls'")],
)
def test_bad_values_in_a_plan(plan: Callable[[str, str], None], auepora: Cli, change: str, message: str) -> None:
    plan("careful", "http://127.0.0.1:1/v1")
    path = Path("plan.yaml")
    path.write_text(path.read_text().replace("controls: 8", change))
    code, _, err = auepora("run", "plan.yaml")
    assert code == 2
    assert "plan.yaml:8" in err
    assert message in err


def test_option_of_score(plan: Callable[[str, str], None], auepora: Cli) -> None:
    with JudgeServer(reply) as server:
        judge = ["--judge-model", "careful", "--judge-url", server.base_url, "-m", "llm_faithfulness:scale=1-5"]
        code, out, err = auepora("score", "data.jsonl", "outputs.jsonl", *judge, "--controls", "4", "--json")
        assert code == 0, err
        assert json.loads(out)["results"][0]["details"]["controls"]["num_items"] == 4
        code, _, err = auepora("score", "data.jsonl", "outputs.jsonl", *judge, "--controls", "4", "--parts", "parts")
        assert (code, "checkpoint" in err) == (2, True)
