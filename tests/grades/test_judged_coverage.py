"""Judged coverage of retrieval metrics: by hand, in every kind of evaluation, and only with graded gold."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.core.results import Results, judged_coverage
from auepora_eval.core.types import MetricResult, TargetCategory
from auepora_eval.engine.evaluate import resolve_metrics
from auepora_eval.errors import BadValueError
from auepora_eval.io.grades import Grade, gold_signature, provenance_path, with_gold, write_grades
from auepora_eval.io.jsonl import save_jsonl_dataset
from auepora_eval.render.html import results_html
from auepora_eval.report.score_sections import coverage_lines
from auepora_eval.runs.coverage import JudgedCoverage
from auepora_eval.runs.run import run_system
from auepora_eval.runs.scoring import rescore
from auepora_eval.store.runs import RunStore

Cli = Callable[..., tuple[int, str, str]]

# q1: a 3, b 0, c 1; d is not judged. q2: a 2. q3 was never graded.
GRADES = [
    Grade("q1", "a", 3, "model"),
    Grade("q1", "b", 0, "human"),
    Grade("q1", "c", 1, "corrected", model_grade=3),
    Grade("q2", "a", 2, "model"),
]
RANKED = {"q1": ["d", "c", "b", "a"], "q2": ["a", "x"], "q3": ["a"]}
SAMPLES = [
    EvaluationSample(one, f"what is {one}?", labels={"half": "first" if one == "q1" else "second"}) for one in RANKED
]


def log2(rank: int) -> float:
    return math.log2(rank + 1)


# Linear gains, as trec_eval has them: at depth 2 of q1 only c (1) at rank 2; ideally 3 and 1.
NDCG = {
    "q1": (1 / log2(2)) / (3 / log2(1) + 1 / log2(2)),
    "q2": 1.0,
}
JUDGED = {
    "ndcg@2": Fraction(1, 2) * (Fraction(1, 2) + Fraction(1, 2)),
    "mrr": Fraction(1, 2) * (Fraction(3, 4) + Fraction(1, 2)),
}
UNJUDGED = {"ndcg@2": Fraction(2, 4), "mrr": Fraction(2, 6)}
WHOSE = {"model": 2, "corrected": 1, "human": 1}


@pytest.fixture
def qrels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    write_grades("qrels.txt", GRADES)
    return "qrels.txt"


def output(ids: list[str]) -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(Document(one), 1 / rank, rank) for rank, one in enumerate(ids, 1)])


def answers(sample: EvaluationSample, *, top_k: int) -> SystemOutputs:
    return output(RANKED[sample.sample_id])


def check(results: dict[str, Any]) -> None:
    by_name = {one["name"]: one for one in results["results"]}
    assert by_name["ndcg@2"]["value"] == pytest.approx((NDCG["q1"] + NDCG["q2"]) / 2)
    assert set(by_name) == {"ndcg@2", "mrr"}  # additional metrics are not results
    for name, depth in (("ndcg@2", 2), ("mrr", None)):
        details = by_name[name]["details"]
        assert details["judged"] == pytest.approx(float(JUDGED[name]))
        assert details["unjudged_share"] == pytest.approx(float(UNJUDGED[name]))
        assert (details["judged_depth"], details["gold_by"]) == (depth, WHOSE)


def test_a_trec_run(qrels: str, auepora: Cli) -> None:
    lines = [f"{query} Q0 {doc} {rank} {-rank} t" for query, docs in RANKED.items() for rank, doc in enumerate(docs, 1)]
    Path("run.txt").write_text("\n".join(lines))
    arguments = ("score", "--qrels", qrels, "--run", "run.txt", "-m", "ndcg@2", "-m", "mrr")
    check(json.loads(auepora(*arguments, "-q", "--json")[1]))
    code, out, _ = auepora(*arguments, "--all")
    assert code == 0
    assert "judged 50 % of top 2; gold by model 2, corrected 1, human 1" in out
    assert "judged 62 % of all returned; gold by" in out
    provenance_path(qrels).unlink()
    code, out, _ = auepora(*arguments, "--all")
    assert (code, "judged" in out) == (0, False)


@pytest.mark.parametrize(
    "more",
    [(), ("--lean",), pytest.param(("--executor", "processes", "--workers", "2"), marks=pytest.mark.slow)],
    ids=str,
)
def test_qrels_as_a_dataset(qrels: str, auepora: Cli, more: tuple[str, ...]) -> None:
    rows = [
        {
            "sample_id": one,
            "retrieved": [{"doc": {"doc_id": doc}, "score": None, "rank": n} for n, doc in enumerate(docs, 1)],
        }
        for one, docs in RANKED.items()
    ]
    Path("out.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    code, out, err = auepora("score", qrels, "out.jsonl", "-q", "--json", "-m", "ndcg@2", "-m", "mrr", *more)
    assert (code, err) == (0, "")
    check(json.loads(out))
    save_jsonl_dataset(with_gold(SAMPLES, qrels), "data.jsonl")
    arguments = ("data.jsonl", "out.jsonl", "-q", "--json", "-m", "ndcg@2", "-m", "mrr", "--conventions", "trec")
    code, out, err = auepora("score", *arguments, *more)
    assert (code, err) == (0, "")
    check(json.loads(out))


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_stored_run_scored_by_other_gold(qrels: str, auepora: Cli, repeats: int) -> None:
    with RunStore.open("runs.sqlite") as store:
        own = [
            EvaluationSample(one.sample_id, one.query, [Document("a", "text of a")], labels=one.labels)
            for one in SAMPLES
        ]
        run = run_system(
            answers,
            own,
            ["ndcg@2", "mrr", "mean_latency[end_to_end]"],
            store=store,
            conventions="trec",
            repeats=repeats,
        )
        assert run.results is not None
        assert "judged" not in run.results.by_name["mrr"].details
    code, out, err = auepora("rescore", "latest", "--qrels", qrels, "-q", "--json", "--slice", "labels.half")
    assert (code, err) == (0, "")
    document = json.loads(out)
    check(document)
    first = document["results"][0]["slices"]["labels.half"]["first"]["details"]
    assert (first["judged"], first["gold_by"]) == (0.5, {"model": 1, "corrected": 1, "human": 1})
    name = gold_signature(qrels)
    assert all(f"|gold:{name}|" in one["signature"] for one in document["results"])
    with RunStore.open("runs.sqlite") as store:
        found = store.find("latest")
        every = store.results(found.run_id, every_signature=True)
        assert [one.name for one in every if f"gold:{name}" in str(one.signature)] == ["ndcg@2", "mrr"]
        assert len(every) == 5  # the old ones stay
        assert store.result(found.run_id, "mrr").details["gold_by"] == WHOSE
    assert "judged 50 % of top 2; gold by model 2" in auepora("show", "latest", "--all")[1]


def test_two_runs_scored_by_the_same_gold_can_be_compared(qrels: str, auepora: Cli) -> None:
    with RunStore.open("runs.sqlite") as store:
        for name in ("before", "after"):
            run_system(answers, SAMPLES, ["mean_latency[end_to_end]"], store=store, name=name)
    for name in ("before", "after"):
        code, out, _ = auepora("rescore", name, "--qrels", qrels)
        assert (code, "ndcg" in out, "judged" in out) == (0, True, True)  # all that gold allows, where none is named
    code, out, _ = auepora("compare", "before", "after", "-m", "ndcg@10")
    assert code == 0
    assert "ndcg@10" in out


def test_gold_of_other_samples_is_rejected(qrels: str, auepora: Cli) -> None:
    with RunStore.open("runs.sqlite") as store:
        record = run_system(answers, SAMPLES, ["mean_latency[end_to_end]"], store=store).record
        write_grades("other.txt", [Grade("nobody", "a", 1)])
        with pytest.raises(BadValueError, match="no grade for any of the 3 samples"):
            rescore(record, ["mrr"], qrels="other.txt", store=store)
    assert auepora("rescore", "latest", "--qrels", qrels, "--preview")[0] == 2
    assert auepora("rescore", "latest", "--qrels", qrels, "-o", qrels)[0] == 2


def test_samples_with_other_gold(qrels: str) -> None:
    own = EvaluationSample(
        "q1",
        "?",
        [Document("a", "text of a", {"relevance": 1, "page": 4})],
        [Document("b", "text of b")],
        metadata={"x": 1},
    )
    graded, empty = with_gold([own, SAMPLES[2]], qrels)
    assert graded.relevant_docs == [
        Document("a", "text of a", {"relevance": 3, "page": 4}),
        Document("c", metadata={"relevance": 1}),
    ]
    assert graded.candidate_docs == [Document("b", "text of b")]
    assert graded.metadata == {"x": 1, "gold_by": {"model": 1, "corrected": 1, "human": 1}}
    assert (empty.relevant_docs, empty.candidate_docs, empty.metadata) == (None, None, {})
    assert own.metadata == {"x": 1}


def test_the_same_grades_are_the_same_gold(qrels: str) -> None:
    before = gold_signature(qrels)
    write_grades("again.txt", GRADES[::-1])
    assert gold_signature("again.txt") == before
    write_grades("again.txt", GRADES[1:])
    assert gold_signature("again.txt") != before


def test_only_retrieval_metrics_report_coverage() -> None:
    chosen = resolve_metrics(
        ["recall@5", "ndcg@10", "recall_doc@3", "token_f1", "mean_latency[end_to_end]", "map"], "auepora"
    )
    coverage = JudgedCoverage(chosen)
    judged = [f"judged within {depth}" for depth in (5, 10, 3, None)]
    assert [metric.name for metric in coverage.metrics] == [*judged, "whose gold"]
    assert len(coverage.metrics) == 5
    assert JudgedCoverage(resolve_metrics(["token_f1"])).metrics == []


SHARES = {
    "some": (
        {"judged": 0.834, "judged_depth": 10, "gold_by": {"model": 120, "human": 14}},
        "judged 83 % of top 10; gold by model 120, human 14",
    ),
    "all of all": (
        {"judged": 1.0, "judged_depth": None, "gold_by": {"human": 1}},
        "judged 100 % of all returned; gold by human 1",
    ),
    "nearly all is not all": ({"judged": 0.9996, "judged_depth": 1, "gold_by": {}}, "judged over 99 % of top 1"),
    "hardly any is not none": ({"judged": 0.0004, "judged_depth": 1, "gold_by": {}}, "judged under 1 % of top 1"),
    "none": ({"judged": 0.0, "judged_depth": 1, "gold_by": {}}, "judged 0 % of top 1"),
    "nothing came back": ({"judged": None, "judged_depth": 1, "gold_by": {}}, "judged nothing of top 1"),
    "gold like any other": ({"judged": 0.5}, ""),
}


@pytest.mark.parametrize(("details", "expected"), SHARES.values(), ids=SHARES.keys())
def test_coverage_lines(details: dict[str, Any], expected: str) -> None:
    assert judged_coverage(MetricResult("m", TargetCategory.RETRIEVAL_ACCURACY, 0.5, details)) == expected


def test_coverage_in_reports_and_notebooks() -> None:
    details = {"judged": 0.5, "judged_depth": 5, "gold_by": {"model": 2}}
    result = MetricResult("recall@5", TargetCategory.RETRIEVAL_RELEVANCE, 0.5, details)
    line = "judged 50 % of top 5; gold by model 2"
    assert line in coverage_lines(result)
    assert line in results_html(Results([result]))
