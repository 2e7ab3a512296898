"""The golden-query metrics of a stored run: each by hand, undefined ones, files whose ids are unknown."""

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.compare import AggregateMetrics, compute_aggregate, golden_report, store_aggregate
from auepora_eval.core.types import EvaluationSample, SystemOutputs
from auepora_eval.errors import (
    AueporaWarning,
    BadValueError,
    DataFileError,
    DuplicateIdError,
    StoreError,
    UnknownRunError,
)
from auepora_eval.io.golden import save_golden
from auepora_eval.store import RunStatus, RunStore
from auepora_eval.store.connect import DatabaseConnection
from helpers.golden_runs import chunk, found, found_at, golden, put_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore.open(tmp_path / "runs.sqlite") as opened:
        yield opened


THREE = [golden("first", "gold"), golden("fourth", "gold"), golden("miss", "gold")]
RANKS = [found_at(1), found_at(4), found_at(None)]


def aggregate(store: RunStore, queries: list[EvaluationSample], *outputs: Any) -> AggregateMetrics:
    put_run(store, "only", queries, *outputs)
    return compute_aggregate("only", store=store)


def test_hit_rates_and_mrr_of_ranks_one_four_and_miss(store: RunStore) -> None:
    agg = aggregate(store, THREE, RANKS)
    assert agg.hit_at_k == {1: 1 / 3, 3: 1 / 3, 5: 2 / 3, 10: 2 / 3}
    assert agg.mrr == pytest.approx((1 + 1 / 4 + 0) / 3, abs=1e-15)
    assert (agg.total_queries, agg.failed_queries, agg.empty_result_rate) == (3, 0, 0.0)


def test_ranks_are_cut_at_ten(store: RunStore) -> None:
    agg = aggregate(store, [golden("deep", "gold")], [found(*(f"other-{n}" for n in range(10)), "gold")])
    assert (agg.hit_at_k[10], agg.mrr) == (0.0, 0.0)


def test_recall_of_documents_counts_chunks_by_position(store: RunStore) -> None:
    hits = found(chunk("A1", "A"), chunk("A2", "A"), chunk("B1", "B"))
    agg = aggregate(store, [golden("q", "A1", expected_doc_ids=["A", "B"])], [hits])
    assert agg.recall_at_k_doc == {1: 1 / 2, 3: 1.0, 5: 1.0, 10: 1.0}


ANSWERS: list[tuple[str, float | None, dict[str, Any], SystemOutputs, str]] = [
    # metric, want, expectation, output, why
    ("citation_coverage", 1.0, {}, found("a", answer="yes", citations=["a"]), "every citation is a known chunk"),
    ("citation_coverage", 0.0, {}, found("a", answer="yes", citations=["a", "gone"]), "one citation is broken"),
    ("citation_coverage", 0.0, {}, found("a", answer="yes", citations=[]), "nothing is cited"),
    ("citation_coverage", None, {}, found("a", answer="no", citations=["x"], refused=True), "a refusal is not grounded"),
    ("citation_coverage", None, {}, found("a", answer="yes"), "the system gives no citations"),
    ("groundedness", 1.0, {"must_contain": ["Paris"]}, found("a", answer="in paris"), "it says what it must"),
    ("groundedness", 0.0, {"must_contain": ["Paris", "Rome"]}, found("a", answer="Paris"), "it says only half"),
    (
        "groundedness",
        0.0,
        {"must_contain": ["Paris"], "forbidden": ["Rome"]},
        found("a", answer="Paris, Rome"),
        "a forbidden text appears",
    ),
    ("groundedness", None, {"must_contain": ["Paris"]}, found(error="timeout"), "errors are left out"),
    ("groundedness", None, {"must_contain": ["Paris"]}, found("a"), "no answer was asked for"),
    ("refusal_correctness", 1.0, {"expected_doc_ids": []}, found("a", answer="?", refused=True), "it refused as it should"),
    ("refusal_correctness", 0.0, {"expected_doc_ids": []}, found("a", answer="Paris"), "it should have refused"),
    ("refusal_correctness", None, {"expected_doc_ids": ["A"]}, found("a", answer="Paris"), "nothing was to be refused"),
    ("empty_result_rate", 1.0, {}, found(answer="Paris"), "nothing was found"),
    ("mrr", None, {}, found("a"), "no chunk is expected"),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "want", "expectation", "output", "why"), ANSWERS, ids=[row[4] for row in ANSWERS])
def test_one_answer(
    store: RunStore, metric: str, want: float | None, expectation: dict[str, Any], output: SystemOutputs, why: str
) -> None:
    agg = aggregate(store, [golden("q", **expectation)], [output])
    assert getattr(agg, metric) == want, why


def test_refusals_are_all_right_when_every_query_that_should_be_refused_is(store: RunStore) -> None:
    queries = [golden(f"q{n}", expected_doc_ids=[]) for n in range(3)] + [golden("other", "gold")]
    refusals = [found("a", answer="I cannot say.", refused=True) for _ in range(3)]
    assert aggregate(store, queries, [*refusals, found("gold", answer="it is so")]).refusal_correctness == 1.0


def test_failed_and_empty_queries_are_counted_over_all(store: RunStore) -> None:
    queries = [golden(f"q{n}", "gold") for n in range(10)]
    agg = aggregate(store, queries, [found(error="timeout"), found(), *(found("gold") for _ in range(8))])
    assert agg.empty_result_rate == 2 / 10
    assert agg.failed_queries == 1
    assert agg.hit_at_k[1] == 8 / 10


def test_undefined_metrics_are_null_in_json(store: RunStore) -> None:
    bare = [EvaluationSample("q", "why?")]
    agg = aggregate(store, bare, [found("a")])
    assert agg.hit_at_k == dict.fromkeys((1, 3, 5, 10))
    assert (agg.mrr, agg.citation_coverage, agg.groundedness, agg.refusal_correctness) == (None, None, None, None)
    store_aggregate("only", replace(agg, mrr=math.nan), store=store)
    with store._database.read() as connection:
        [(text,)] = connection.rows("SELECT aggregate_json FROM eval_runs")
    assert json.loads(text)["mrr"] is None
    assert "NaN" not in text


def test_computing_twice_gives_the_same(store: RunStore) -> None:
    put_run(store, "only", THREE, RANKS)
    assert compute_aggregate("run_only", store=store) == compute_aggregate("latest", store=store)


def test_the_stored_aggregate_has_four_decimals_and_is_replaced(store: RunStore) -> None:
    agg = aggregate(store, THREE, RANKS)
    store_aggregate("run_on", agg, store=store)  # the beginning of an id will do
    stored = store.get("run_only").aggregate
    assert stored is not None
    assert stored["hit_at_k"] == {"1": 0.3333, "3": 0.3333, "5": 0.6667, "10": 0.6667}
    assert stored["mrr"] == 0.4167
    assert AggregateMetrics.from_dict(stored).hit_at_k[5] == 0.6667
    store_aggregate("only", replace(agg, mrr=1.0), store=store)
    assert (store.get("run_only").aggregate or {})["mrr"] == 1.0


def test_repeats_count_by_their_mean(store: RunStore) -> None:
    queries = [golden("q", "gold"), golden("r", "gold")]
    agg = aggregate(store, queries, [found_at(1), found_at(1)], [found_at(2), found(error="timeout")])
    assert agg.hit_at_k == {1: 1 / 2, 3: 3 / 4, 5: 3 / 4, 10: 3 / 4}
    assert agg.mrr == pytest.approx((3 / 4 + 1 / 2) / 2, abs=1e-15)
    assert (agg.total_queries, agg.failed_queries) == (2, 1)


# --- the golden file -------------------------------------------------------------------------------------------------


def test_expectations_come_from_the_golden_file(store: RunStore, tmp_path: Path) -> None:
    put_run(store, "only", THREE, RANKS)
    path = tmp_path / "golden.yaml"
    save_golden([golden("first", "other-2"), golden("fourth", "other-1"), golden("miss", "other-2", "other-3")], path)
    assert compute_aggregate("only", store=store, golden=path).mrr == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)
    assert compute_aggregate("only", store=store, golden=str(path)).hit_at_k[1] == 1 / 3


def test_unknown_ids_are_listed_and_left_out(store: RunStore) -> None:
    put_run(store, "only", THREE, RANKS)
    strange = [golden("first", "gold"), *(golden(f"strange-{n:02}", "gold") for n in range(12))]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg = compute_aggregate("only", store=store, golden=strange)
    messages = [str(one.message) for one in caught if one.category is AueporaWarning]
    assert len(messages) == 2
    assert messages[0].startswith("12 golden queries are unknown to run_only, left out: 'strange-00', 'strange-01'")
    assert messages[0].endswith("'strange-09' and 2 more")
    assert messages[1] == "2 queries are in run_only and not among the golden ones, left out: 'fourth', 'miss'"
    assert (agg.total_queries, agg.mrr) == (1, 1.0)


def test_no_common_id_is_an_error_that_lists_both(store: RunStore) -> None:
    put_run(store, "only", THREE, RANKS)
    with pytest.raises(BadValueError, match=r"no golden query is known to run_only: .*'x'.*'first', 'fourth', 'miss'"):
        compute_aggregate("only", store=store, golden=[golden("x", "gold")])


def test_bad_golden_queries(store: RunStore, tmp_path: Path) -> None:
    put_run(store, "only", THREE, RANKS)
    with pytest.raises(BadValueError, match="there is no golden query"):
        compute_aggregate("only", store=store, golden=[])
    with pytest.raises(DuplicateIdError, match="'first'"):
        compute_aggregate("only", store=store, golden=[THREE[0], THREE[0]])
    with pytest.raises(DataFileError, match="nowhere"):
        compute_aggregate("only", store=store, golden=tmp_path / "nowhere.yaml")


# --- the run ---------------------------------------------------------------------------------------------------------


def test_warning_about_a_running_run(store: RunStore) -> None:
    put_run(store, "only", THREE, [RANKS[0], None, None], status=RunStatus.STOPPED)
    with pytest.warns(AueporaWarning, match="run_only is stopped and lacks 2 answers; they count as failed"):
        agg = compute_aggregate("only", store=store)
    assert (agg.failed_queries, agg.hit_at_k[1], agg.empty_result_rate) == (2, 1 / 3, 2 / 3)


def test_missing_run_or_store(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(UnknownRunError, match="nobody"):
        compute_aggregate("nobody", store=store)
    with pytest.raises(StoreError, match=r"nothing\.sqlite"):
        compute_aggregate("only", store=tmp_path / "nothing.sqlite")
    assert not (tmp_path / "nothing.sqlite").exists()


def test_the_store_is_found_as_everywhere(store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_run(store, "only", THREE, RANKS)
    monkeypatch.delenv("AUEPORA_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    by_default = compute_aggregate("only")
    monkeypatch.chdir("/")
    monkeypatch.setenv("AUEPORA_STORE", str(tmp_path / "runs.sqlite"))
    assert compute_aggregate("only") == by_default == compute_aggregate("only", store=str(tmp_path / "runs.sqlite"))
    store_aggregate("only", by_default)
    assert store.get("run_only").aggregate is not None


def test_no_text_of_a_document_is_read(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [golden("q", chunk("gold", "A", (0, 9), "a long text"))]
    hits = [found(chunk("gold", "A", (0, 9), "a long text"), answer="yes")]
    a, b = put_run(store, "a", queries, hits), put_run(store, "b", queries, hits, config={"chunker_version": "2"})
    statements: list[str] = []
    read = DatabaseConnection.rows

    def record(connection: DatabaseConnection, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        statements.append(statement)
        return read(connection, statement, values)

    monkeypatch.setattr(DatabaseConnection, "rows", record)
    compute_aggregate("a", store=store)
    golden_report(store, a, b)
    assert any("eval_query_results" in one for one in statements)
    assert not [one for one in statements if "eval_documents" in one]
    assert store.samples(a.run_id)[0].relevant_docs == [chunk("gold", "A", (0, 9), "a long text")]
    assert store.samples(a.run_id, texts=False)[0].relevant_docs == [chunk("gold", "A", (0, 9))]
    assert [one for one in statements if "eval_documents" in one], "reading a text would have been seen"
