"""Runs that return lists of different lengths: which metrics are compared, and which have bounds only."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from auepora_eval import Document, EvaluationSample, RetrievedDocument, SystemOutputs
from auepora_eval.compare.depths import list_depth, with_gold_below
from auepora_eval.compare.rendering import comparison_summary
from auepora_eval.compare.runs import build_leaderboard, compare_metrics
from auepora_eval.compare.types import MetricComparison
from auepora_eval.gates import check_run
from auepora_eval.io.jsonl import save_jsonl_dataset
from auepora_eval.plan.gates import parse_gate
from auepora_eval.runs.run import run_plan
from auepora_eval.store.records import RunRecord
from auepora_eval.store.runs import RunStore
from helpers.stored_runs import run, samples

METRICS = ["recall@3", "recall@5", "ndcg@10", "mrr", "precision@5", "f1@5", "token_f1"]
TOTAL = 120


def ranking(number: int) -> list[str]:
    """The gold document is at ranks 1 to 10 in turn."""
    place = number % 10
    return [*(f"d{number}-{rank}" for rank in range(place)), "gold", *(f"e{rank}" for rank in range(9 - place))]


FULL = np.full(300, 10)
VARIED = np.minimum(10, np.random.default_rng(61).poisson(6, 300) + 1)


@pytest.mark.parametrize(
    ("is_saved", "top_k", "lengths", "cut"),
    [
        (False, 10, FULL, None),
        (False, 3, np.full(300, 3), None),  # a changed top_k
        (False, 10, np.full(300, 5), None),  # a reranker keeps 5
        (True, None, np.full(300, 3), 3),
        (True, 3, np.full(300, 3), None),
        (True, 10, np.array([5] * 294 + [2] * 6), 5),  # fewer than declared, in 98 %
        (True, 10, np.array([5] * 270 + [2] * 30), None),  # in 90 %
        (True, None, VARIED, None),  # filtered by score
        (True, None, FULL, 10),
        (True, None, np.array([5] * 279 + [2] * 21), 5),  # in 93 %
        (True, None, np.array([5] * 100 + [0] * 200), 5),  # half of those with documents
        (True, None, np.zeros(5, np.intp), None),
    ],
)
def test_list_depth(is_saved: bool, top_k: int | None, lengths: np.ndarray, cut: int | None) -> None:
    found = list_depth(lengths.astype(np.intp), is_saved=is_saved, top_k=top_k)
    assert found.cut == cut
    assert found.longest == lengths.max()


def compared(store: RunStore, first: RunRecord, second: RunRecord) -> dict[str, MetricComparison]:
    found = compare_metrics(store, first, second)
    assert found.refused == {}
    return found.by_name


def test_changed_top_k_of_live_runs(store: RunStore) -> None:
    data = samples(TOTAL)
    deep, short = (run(store, f"k{k}", data, ranking, METRICS, top_k=k) for k in (10, 3))
    found = compared(store, deep, short)
    assert found["recall@3"].delta == 0
    assert found["recall@3"].note is None
    recall = found["recall@5"]
    assert (recall.a, recall.b, recall.verdict) == (0.5, 0.3, "worse")
    assert recall.note == "lists of B end at 3 (top_k 10 → 3); ranks 4 to 5 count as no hit"
    assert found["ndcg@10"].verdict == "worse"
    assert found["mrr"].verdict == "worse"
    assert "ranks 4 to 10" in str(found["mrr"].note)


def test_swapping_mirrors_everything_but_what_a_longer_list_counts_for(store: RunStore) -> None:
    data = samples(TOTAL)
    deep, short = (run(store, f"k{k}", data, ranking, METRICS, top_k=k) for k in (10, 3))
    there, back = compared(store, deep, short), compared(store, short, deep)
    opposite = {"better": "worse", "worse": "better", "equal": "equal", "inconclusive": "inconclusive"}
    for name, one in there.items():
        assert back[name].delta == (None if one.delta is None else -one.delta)
        assert back[name].verdict == opposite[one.verdict]
    assert str(back["recall@5"].note).startswith("longer list (top_k 3 → 10); ")
    assert there["recall@5"].longer_list is None
    summary = comparison_summary(build_leaderboard(store, [short, deep]))
    assert summary.outcome == "open"
    assert "higher by a longer list on 3" in summary.sentence
    assert comparison_summary(build_leaderboard(store, [deep, short])).outcome == "worse"


def test_another_ranking_is_better_whatever_its_length(store: RunStore) -> None:
    data = samples(TOTAL)
    short = run(store, "short", data, lambda number: ["x", "y", "z"], METRICS, top_k=3)
    deep = run(store, "deep", data, lambda number: ["gold", "x"], METRICS, top_k=10)
    summary = comparison_summary(build_leaderboard(store, [short, deep]))
    assert summary.outcome == "better"


def test_precision_of_what_is_returned_has_no_verdict(store: RunStore) -> None:
    data = samples(TOTAL)
    deep, short = (run(store, f"k{k}", data, lambda number: ["gold", *"abcdefghi"], METRICS, top_k=k) for k in (10, 3))
    found = compared(store, deep, short)
    for name in ("precision@5", "f1@5"):
        assert found[name].delta is not None
        assert (found[name].verdict, found[name].doubt) == ("inconclusive", "list_length")
        assert "favours short lists" in str(found[name].note)


@pytest.mark.parametrize(
    ("first", "second", "gate", "status"),
    [
        (10, 3, "not worse(recall@5)", "failed"),
        (3, 10, "not worse(recall@5)", "passed"),
        (3, 10, "better(recall@5)", "inconclusive"),
        (3, 10, "better(mrr)", "inconclusive"),
        (10, 3, "better(precision@5)", "inconclusive"),
    ],
)
def test_gates(store: RunStore, first: int, second: int, gate: str, status: str) -> None:
    data = samples(TOTAL)
    baseline, record = (run(store, f"k{k}", data, ranking, METRICS, top_k=k) for k in (first, second))
    results = store.results(record.run_id)
    report = check_run(store, record, results, [parse_gate(gate)], baseline=baseline)
    (outcome,) = report.visible_outcomes
    assert outcome.status == status, outcome.reason


# --- saved outputs ---------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., RunRecord]:
    """Store a run of saved outputs with lists of these lengths."""

    def make(
        name: str,
        lengths: Sequence[int],
        top_k: int | None = None,
        documents: Callable[[int], list[str]] = ranking,
    ) -> RunRecord:
        data = samples(len(lengths))
        save_jsonl_dataset(data, tmp_path / "data.jsonl")
        with (tmp_path / f"{name}.jsonl").open("w") as lines:
            for number, (sample, length) in enumerate(zip(data, lengths, strict=True)):
                row = {"sample_id": sample.sample_id, "retrieved": documents(number)[:length]}
                lines.write(json.dumps(row) + "\n")
        outputs = {"jsonl": f"{name}.jsonl"} | ({} if top_k is None else {"config": {"top_k": top_k}})
        plan = {"name": name, "dataset": {"jsonl": "data.jsonl"}, "outputs": outputs, "store": "runs.sqlite"}
        plan["metrics"] = ["recall@3", "recall@5", "recall@10", "mrr"]
        (tmp_path / f"{name}.json").write_text(json.dumps(plan))
        return run_plan(tmp_path / f"{name}.json").record

    return make


def test_a_cut_export_has_bounds(saved: Callable[..., RunRecord], tmp_path: Path) -> None:
    lengths = [5 if number % 14 else 3 for number in range(TOTAL)]  # 93 % have five documents
    first, second = saved("first", [10] * TOTAL, top_k=10), saved("second", lengths)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        found = compare_metrics(store, first, second)
        summary = comparison_summary(build_leaderboard(store, [first, second]))
    assert list(found.by_name) == ["recall@3", "recall@5"]
    assert list(found.refused) == ["recall@10", "mrr"]
    assert found.refused["recall@10"] == (
        "the saved lists of B end at 5 documents, and no top_k is declared; if the system returns 5, write "
        "`config: {top_k: 5}` under its outputs; B lies between 0.4833 and 0.9583"
    )
    assert summary.sentence.startswith("Of 4 metrics, 2 could not be compared (recall@10, mrr); B (second) against ")


def first(number: int) -> list[str]:
    """The gold document is at rank 1."""
    return ["gold", *"abcdefghi"]


def nowhere(number: int) -> list[str]:
    """The gold document is below the end of a list of five."""
    return list("abcdefghi")


ENDS = [  # lengths of the lists of A and B, what B returns, the metric, its values in A and B, bounds in the note
    ([10] * TOTAL, [5] * TOTAL, nowhere, "mrr", (1.0, 1 / 6), "B lies between 0.0000 and 0.1667", "one is cut"),
    (
        [5] * TOTAL,
        [5, 5, 5, 3] * (TOTAL // 4),
        lambda number: nowhere(number) if number % 4 == 3 else first(number),
        "recall@10",
        (1.0, 0.75),
        "A lies between 1.0000 and 1.0000; the saved lists of B end at 5 documents",
        "both are cut",
    ),
]


@pytest.mark.parametrize(
    ("lengths_a", "lengths_b", "documents", "metric", "values", "note", "why"), ENDS, ids=[row[-1] for row in ENDS]
)
def test_a_verdict_that_holds_at_both_ends(
    saved: Callable[..., RunRecord],
    tmp_path: Path,
    lengths_a: list[int],
    lengths_b: list[int],
    documents: Callable[[int], list[str]],
    metric: str,
    values: tuple[float, float],
    note: str,
    why: str,
) -> None:
    """The smaller difference is shown, with an interval that contains those of both ends, in both directions."""
    a = saved("a", lengths_a, top_k=10 if why == "one is cut" else None, documents=first)
    b = saved("b", lengths_b, documents=documents)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        there, back = compare_metrics(store, a, b), compare_metrics(store, b, a)
        guarded = compare_metrics(store, a, b, guardrails={metric: 0.01}, primary=["recall@5"]).guardrails
        gates = check_run(store, b, store.results(b.run_id), [parse_gate(f"not worse({metric})")], baseline=a)
        board = build_leaderboard(store, [a, b], primary=["recall@3"])
    found, mirrored = there.by_name[metric], back.by_name[metric]
    assert (found.verdict, mirrored.verdict) == ("worse", "better")
    assert (found.a, found.b) == pytest.approx(values)
    assert (mirrored.a, mirrored.b) == pytest.approx(values[::-1])
    assert found.interval is not None
    assert found.interval[0] <= -(values[0] - values[1]) <= found.interval[1] < 0
    assert mirrored.interval == pytest.approx([-end for end in reversed(found.interval)])
    assert found.p_adjusted == mirrored.p_adjusted
    assert note in str(found.note)
    assert str(found.note).endswith("so at both ends, and the smaller difference is shown")
    (outcome,) = guarded
    assert (outcome.metric, outcome.state) == (metric, "worse")
    assert gates.visible_outcomes[0].status == "failed"
    assert metric in board.fallen
    assert metric not in board.refused, "it is named with its values"
    shown = {one.name: one for one in board.metrics}[metric].pairs[0].comparison
    assert f"{metric} {shown.a:.4f} → {shown.b:.4f}" in comparison_summary(board).sentence


def test_guardrails_where_the_ends_disagree(saved: Callable[..., RunRecord], tmp_path: Path) -> None:
    a, b = saved("a", [10] * TOTAL, top_k=10, documents=first), saved("b", [5] * TOTAL, documents=nowhere)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        found = compare_metrics(store, a, b, guardrails={"recall@10": 0.1})
    assert "recall@10" in found.refused
    (outcome,) = found.guardrails
    assert (outcome.metric, outcome.state) == ("recall@10", "inconclusive")
    assert outcome.reason.endswith("B lies between 0.0000 and 1.0000")


def test_bounds_put_the_missing_gold_of_the_highest_level_first() -> None:
    gold = [Document(f"g{level}", metadata={"relevance": level}) for level in (1, 0, 3)]
    sample = EvaluationSample("q", "?", relevant_docs=[*gold, Document("found")])
    output = SystemOutputs([RetrievedDocument(Document(one), None, rank) for rank, one in enumerate(["found", "x"], 1)])
    ((_, filled),) = with_gold_below(iter([(sample, output)]), 2, "id")
    assert filled is not None
    assert [item.doc.doc_id for item in filled.retrieved] == ["found", "x", "g3", "g1"]


def test_a_declared_top_k_makes_lists_complete(saved: Callable[..., RunRecord], tmp_path: Path) -> None:
    first, second = saved("first", [10] * TOTAL, top_k=10), saved("second", [3] * TOTAL, top_k=3)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        found = compared(store, first, second)
    assert found["recall@10"].verdict == "worse"
    assert found["recall@10"].note == "lists of B end at 3 (top_k 10 → 3); ranks 4 to 10 count as no hit"


def test_fewer_documents_than_declared(saved: Callable[..., RunRecord], tmp_path: Path) -> None:
    first, second = saved("first", [10] * TOTAL, top_k=10), saved("second", [5] * TOTAL, top_k=10)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        found = compare_metrics(store, first, second)
    assert "end at 5 documents, fewer than the declared top_k of 10; B lies between" in found.refused["recall@10"]
    assert "recall@5" in found.by_name


def test_two_exports_of_one_length(saved: Callable[..., RunRecord], tmp_path: Path) -> None:
    """What reads the whole list reads as far as both lists go."""
    first, second = saved("first", [5] * TOTAL), saved("second", [5] * TOTAL)
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        found = compare_metrics(store, first, second)
    assert list(found.by_name) == ["recall@3", "recall@5", "mrr"]
    assert "A lies between" in found.refused["recall@10"]
    assert "B lies between" in found.refused["recall@10"]
