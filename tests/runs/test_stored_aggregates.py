"""Aggregates of golden queries: stored with a run, again by rescoring, and by a comparison where they are missing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import RunStore
from auepora_eval.compare import compare_runs, compute_aggregate

Command = Callable[..., tuple[int, str, str]]

ROWS = [
    {"sample_id": "q1", "query": "Who?", "relevant_docs": ["a"]},
    {"sample_id": "q2", "query": "When?", "relevant_docs": ["b"]},
]
OUTPUTS = [
    {"sample_id": "q1", "retrieved": ["a"], "response": "Ada", "citations": ["a"]},
    {"sample_id": "q2", "retrieved": ["x", "b"], "response": "1843", "citations": ["far"]},
]
CORPUS = [{"doc_id": doc_id, "text": f"text of {doc_id}"} for doc_id in ("a", "b", "x", "far")]
PLAN = (
    "version: 1\nname: one\ndataset: {jsonl: data.jsonl%s}\noutputs: out.jsonl\n"
    "metrics: [recall@5, citation_coverage]\nstore: runs.sqlite\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("data", ROWS), ("out", OUTPUTS), ("corpus", CORPUS)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("plan.yaml").write_text(PLAN % "")
    Path("cited.yaml").write_text(PLAN % ", corpus: corpus.jsonl")
    return tmp_path


def aggregates(project: Path) -> list[Any]:
    with RunStore.open(project / "runs.sqlite") as store:
        return [record.aggregate for record in sorted(store.runs(), key=lambda one: one.run_id)]


def forget(project: Path) -> None:
    with RunStore.open(project / "runs.sqlite") as store:
        for record in store.runs():
            store.set_aggregate(record.run_id, None)


def test_run_and_rescore_store_the_aggregate(project: Path, auepora: Command) -> None:
    assert auepora("run", "plan.yaml")[0] == 0
    (stored,) = aggregates(project)
    assert (stored["hit_at_k"]["1"], stored["mrr"], stored["citation_coverage"]) == (0.5, 0.75, 0.5)
    forget(project)
    assert auepora("rescore", "latest", "-m", "mrr")[0] == 0
    assert aggregates(project) == [stored]


def test_comparison_stores_missing_aggregates(project: Path, auepora: Command) -> None:
    assert auepora("run", "plan.yaml")[0] == auepora("run", "plan.yaml")[0] == 0
    before = aggregates(project)
    forget(project)
    assert auepora("compare", "latest~1", "latest")[0] == 0
    assert aggregates(project) == before


def test_run_without_expected_chunks_has_no_aggregate(project: Path, auepora: Command) -> None:
    Path("data.jsonl").write_text('{"sample_id": "q1", "query": "Who?"}\n{"sample_id": "q2", "query": "When?"}\n')
    Path("plan.yaml").write_text((PLAN % "").replace("recall@5, ", ""))
    assert auepora("run", "plan.yaml")[0] == 0
    assert aggregates(project) == [None]


def test_any_document_of_the_corpus_may_be_cited(project: Path, auepora: Command) -> None:
    def coverage(*arguments: str) -> float:
        code, out, err = auepora(*arguments, "--json")
        assert code == 0, err
        return next(float(one["value"]) for one in json.loads(out)["results"] if one["name"] == "citation_coverage")

    score = ("score", "data.jsonl", "out.jsonl", "-m", "citation_coverage")
    assert (coverage(*score), coverage(*score, "--corpus", "corpus.jsonl")) == (0.5, 1.0)
    assert coverage("score", "data.jsonl", "out.jsonl", "--corpus", "corpus.jsonl") == 1.0  # without -m, too
    assert (coverage("run", "plan.yaml"), coverage("run", "cited.yaml")) == (0.5, 1.0)
    assert [one["citation_coverage"] for one in aggregates(project)] == [0.5, 1.0]
    assert (coverage("rescore", "latest~1"), coverage("rescore", "latest")) == (0.5, 1.0)
    assert coverage("rescore", "latest~1", "--corpus", "corpus.jsonl") == 1.0

    ids = [row["doc_id"] for row in CORPUS]
    for corpus, want in ((None, 0.5), ("corpus.jsonl", 1.0), (ids, 1.0), (["a"], 0.5)):
        assert compute_aggregate("latest", store="runs.sqlite", corpus=corpus).citation_coverage == want
        report = compare_runs("latest~1", "latest", store="runs.sqlite", corpus=corpus, other_dataset=True)
        assert (report.aggregate_a.citation_coverage, report.aggregate_b.citation_coverage) == (want, want)
    compared = json.loads(
        auepora("compare", "latest~1", "latest", "--corpus", "corpus.jsonl", "--other-dataset", "--json")[1]
    )
    assert compared["aggregate_a"]["citation_coverage"] == 1.0
