"""Metrics have the label of tables in lists of queries, on pages of samples, in effects of corrections and in errors."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

SAMPLES = [
    {"sample_id": "1", "query": "Who wrote it?", "relevant_docs": ["a", "c"], "reference_answer": "Ada"},
    {"sample_id": "2", "query": "When was it?", "relevant_docs": ["b"], "reference_answer": "1843"},
]
PLAN = """\
dataset: data.jsonl
outputs: out.jsonl
name: labelled
store: runs.sqlite
metrics: ["map@10", answer_relevance, "mean_latency[end_to_end]"]
"""
OVER_HITS = "map@10 (over hits)"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Run) -> Path:
    """A run whose metrics have labels that differ from their names."""
    monkeypatch.chdir(tmp_path)
    Path("data.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in SAMPLES))
    answer = {"retrieved": ["a", "b", "c"], "response": "Ada wrote it", "timings": {"end_to_end": 0.5}}
    Path("out.jsonl").write_text("".join(f"{json.dumps({'sample_id': number, **answer})}\n" for number in "12"))
    Path("plan.yaml").write_text(PLAN)
    assert auepora("run", "plan.yaml")[0] == 0
    return tmp_path


def test_queries(stored: Path, auepora: Run) -> None:
    """Headings are labels, conditions and sort keys are names."""
    code, out, err = auepora("queries", "latest", "--where", "map@10<0.9", "--sort", "map@10")
    assert code == 0, err
    (heading,) = [line for line in out.splitlines() if line.startswith("query ")]
    assert OVER_HITS in heading
    code, out, err = auepora("queries", "latest", "--where", "mean_latency[end_to_end]<9")
    assert "mean_latency[end_to_end] (s)" in out, err
    assert auepora("run", "plan.yaml", "--name", "linear", "--conventions", "golden")[0] == 0
    code, _, err = auepora("queries", "linear", "labelled", "--where", "diff.map@10>0")
    assert code == 2
    assert f"'{OVER_HITS}' was computed differently in the two runs" in err, err


def test_sample(stored: Path, auepora: Run) -> None:
    code, out, err = auepora("show", "latest", "--sample", "1")
    assert code == 0, err
    assert {OVER_HITS, "answer_relevance (word overlap)"} <= {line.split("  ")[0] for line in out.splitlines()}
    scores = json.loads(auepora("show", "latest", "--sample", "1", "--json")[1])["scores"]
    assert {"map@10", "answer_relevance"} <= set(scores), "documents have names"


def test_effect_of_corrections(stored: Path, auepora: Run) -> None:
    proposal = ("gold", "propose", "latest", "1", "--document", "b", "--grade", "1", "--why", "it does")
    assert auepora(*proposal, "--by", "eva")[0] == 0
    code, out, err = auepora("gold", "preview")
    assert code == 0, err
    assert f" {OVER_HITS} " in out
    effects = json.loads(auepora("gold", "preview", "--json")[1])["runs"][0]["metrics"]
    assert "map@10" in {effect["metric"] for effect in effects}
