"""Hits by span of stored runs: golden queries, causes, curves, rank charts, the query page."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.compare import compare_queries, compute_aggregate
from auepora_eval.compare.queries import Cause, explain_changes
from auepora_eval.labels.items import build_item
from auepora_eval.queries.view import GoldMarks
from auepora_eval.report.browser.query_json import output_json
from auepora_eval.report.run_sections import StoredRun
from auepora_eval.report.score_sections import hits_by_span, retrieval_curves
from auepora_eval.runs.run import run_system
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore

Call = Callable[..., tuple[int, str, str]]
Runs = tuple[RunStore, RunRecord, RunRecord]

GOLD = Document("passage", parent_id="guide", span=(100, 200))
CHUNKS = [Document(f"chunk-{n}", f"text {n}", parent_id="guide", span=(80 * n, 80 * n + 80)) for n in range(5)]
OTHER = Document("terms-0", "other", parent_id="terms", span=(0, 80))
IN_A = {"q1": [CHUNKS[1], OTHER], "q2": [OTHER, CHUNKS[1]], "q3": [OTHER]}
IN_B = {"q1": [OTHER, CHUNKS[1]], "q2": [OTHER, CHUNKS[2]], "q3": [OTHER]}


def output(docs: Sequence[Document], answer: str = "yes") -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(doc, 1.0 / n, n) for n, doc in enumerate(docs, 1)], Response(answer))


def sample(name: str) -> EvaluationSample:
    return EvaluationSample(name, f"what of {name}?", relevant_docs=[GOLD], reference_answer=Response("yes"))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    store = RunStore.open(tmp_path / "runs.sqlite")

    def put(name: str, found: dict[str, list[Document]], answer: str) -> RunRecord:
        def system(asked: EvaluationSample, *, top_k: int) -> SystemOutputs:
            return output(found[asked.sample_id], answer)

        return run_system(system, [sample(one) for one in found], ["token_f1", "mrr"], store=store, name=name).record

    return store, put("a", IN_A, "yes"), put("b", IN_B, "no")


def test_golden_queries_match_by_span(runs: Runs) -> None:
    store, a, b = runs
    compared = compare_queries(store, a, b)
    assert [(one.a_hit_rank, one.b_hit_rank) for one in compared.per_query] == [(1, 2), (2, None), (None, None)]
    aggregate = compute_aggregate(a.run_id, store=store)
    assert aggregate.hit_at_k == {1: 1 / 3, 3: 2 / 3, 5: 2 / 3, 10: 2 / 3}
    assert aggregate.mrr == pytest.approx((1 + 1 / 2 + 0) / 3)


def test_both_runs_are_matched_by_span(tmp_path: Path) -> None:
    """A covering chunk counts in neither run where the other run returns the gold chunk itself, or in both."""
    exact = Document("passage", "gold", parent_id="guide", span=(100, 200))
    asked = [sample("q")]
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        records = [
            run_system(lambda _, *, top_k, docs=docs: output(docs), asked, ["mrr"], store=store, name=name).record
            for name, docs in (("a", [CHUNKS[1]]), ("b", [CHUNKS[1], exact]))
        ]
        (query,) = compare_queries(store, *records).per_query
    assert (query.a_hit_rank, query.b_hit_rank) == (None, 2)


def test_causes_match_by_span(runs: Runs) -> None:
    store, a, b = runs
    found = {one.sample_id: (one.cause, one.a_rank, one.b_rank) for one in explain_changes(store, a, b)}
    assert found == {
        "q1": (Cause.RANKED_LOWER, 1, 2),
        "q2": (Cause.LOST, 2, None),
        "q3": (Cause.ANSWER_CHANGED, None, None),
    }


def test_curves_and_rank_charts_match_by_span(runs: Runs, tmp_path: Path, auepora: Call) -> None:
    store, a, _ = runs
    run = StoredRun(store, a)
    assert hits_by_span(run)
    looked = retrieval_curves(run)
    assert [(one["k"], one["value"]) for one in looked.curves["hit_rate"]] == [(1, 1 / 3), (2, 2 / 3)]
    # 60 of the 100 characters lie in the one chunk.
    assert [one["k"] for one in looked.curves["span_recall"]] == [1, 2]
    assert [one["value"] for one in looked.curves["span_recall"]] == pytest.approx([0.6 / 3, 1.2 / 3])
    assert looked.first_hit.tolist() == [1.0, 2.0, np.inf]
    store.close()
    where = ("--store", str(tmp_path / "runs.sqlite"))
    code, _, _ = auepora("report", "a", "b", "-o", str(tmp_path / "page.html"), *where)
    assert code == 0
    assert "hits are those of spans" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_query_page_marks_hits_by_span() -> None:
    gold = GoldMarks(sample("q"))
    docs = [OTHER, CHUNKS[2], CHUNKS[1], CHUNKS[4]]
    assert gold.marks(docs) == ["", "part", "gold", "part"]
    assert gold.first_rank(docs) == 3
    packed = json.loads(output_json(output(docs), gold, lambda text: 0))
    assert packed["by_span"] == {"passage": 3}
    elsewhere = Document("passage", parent_id="guide", span=(400, 480))
    assert gold.marks([elsewhere]) == ["part"]
    assert "by_span" not in json.loads(output_json(output([GOLD]), gold, lambda text: 0))


def test_show_sample_marks_hits_by_span(runs: Runs, tmp_path: Path, auepora: Call) -> None:
    runs[0].close()
    where = ("--store", str(tmp_path / "runs.sqlite"))
    code, out, _ = auepora("show", "a", "--sample", "q2", *where)
    assert code == 0
    assert ["2", "*", "by", "span", "chunk-1", "text", "1"] in [line.split() for line in out.splitlines()]
    code, out, _ = auepora("show", "a", "--sample", "q2", "--json", *where)
    assert json.loads(out)["gold_ranks"] == [[{"doc_id": "passage", "rank": 2, "by": "span"}]]


def test_annotator_view_marks_hits_by_span() -> None:
    item = build_item(sample("q"), output([OTHER, CHUNKS[1]]))
    assert [(one.doc_id, one.gold) for one in item.evidence] == [("terms-0", False), ("chunk-1", True)]
