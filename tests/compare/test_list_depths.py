"""Runs that return lists of different lengths: which metrics are compared, and which have bounds only."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from auepora_eval.compare.depths import list_depth
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

    def make(name: str, lengths: Sequence[int], top_k: int | None = None) -> RunRecord:
        data = samples(len(lengths))
        save_jsonl_dataset(data, tmp_path / "data.jsonl")
        with (tmp_path / f"{name}.jsonl").open("w") as lines:
            for number, (sample, length) in enumerate(zip(data, lengths, strict=True)):
                row = {"sample_id": sample.sample_id, "retrieved": ranking(number)[:length]}
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
