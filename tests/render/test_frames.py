"""Results and comparisons as frames of pandas, polars and Arrow: the same rows, nulls for missing values."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import Document, EvaluationSample, MetricResult, Results, RunStore, TargetCategory, evaluate
from auepora_eval.compare.runs import compare_runs
from auepora_eval.core.frames import FrameColumn, make_frame
from auepora_eval.errors import BadValueError, MissingDependencyError
from auepora_eval.store.runs import results_with_texts
from helpers import stored_runs
from helpers.requirements import need

KINDS = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}
SAMPLES = [
    EvaluationSample("q1", "?", relevant_docs=[Document("a")], labels={"lang": "de"}),
    EvaluationSample("q2", "?", relevant_docs=[Document("b")], labels={"lang": "en"}),
    EvaluationSample("q3", "?", relevant_docs=[], labels={"lang": "en"}),
]


def evaluate_samples() -> Results:
    outputs = [stored_runs.answering(lambda _: ["a"])(EvaluationSample("q0", "?"), top_k=5) for _ in SAMPLES]
    results = evaluate(SAMPLES, outputs, ["recall@5", "mean_latency[end_to_end]"], slices=["labels.lang"])
    results.append(MetricResult("mine", TargetCategory.LATENCY, 2.5))
    return results


def rows_of(made: Any, kind: str) -> list[dict[str, Any]]:
    """The rows of a frame, with None for missing values of any kind."""
    need(KINDS[kind])
    if kind == "pandas":
        import pandas as pd

        return [
            {name: None if pd.isna(value) else value for name, value in row.items()} for row in made.to_dict("records")
        ]
    rows: list[dict[str, Any]] = made.to_dicts() if kind == "polars" else made.to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_row_per_metric(kind: Any) -> None:
    need(KINDS[kind])
    recall, latency, mine = rows_of(evaluate_samples().to_frame(kind), kind)
    low, high = evaluate_samples().by_name["recall@5"].interval or (None, None)
    assert recall == {
        "metric": "recall@5",
        "target": "RETRIEVAL_RELEVANCE",
        "value": 0.5,
        "low": low,
        "high": high,
        "num_samples": 2,
        "coverage": 2 / 3,
        "skipped": 1,
        "failed": 0,
        "signature": "recall@5|empty:skip|v1",
    }
    assert (latency["value"], latency["low"], latency["num_samples"], latency["coverage"]) == (None, None, 0, 0.0)
    assert {name for name, value in mine.items() if value is not None} == {"metric", "target", "value"}


@pytest.mark.parametrize("kind", KINDS)
def test_row_per_sample(kind: Any) -> None:
    need(KINDS[kind])
    rows = rows_of(evaluate_samples().to_frame(kind, per_query=True), kind)
    assert [row["sample_id"] for row in rows] == ["q1", "q2", "q3"]
    assert [row["recall@5"] for row in rows] == [1.0, 0.0, None]
    assert [row["recall@5.outcome"] for row in rows] == ["scored", "scored", "skipped:empty_gold"]
    assert "mine" not in rows[0]  # which has no score of its own for a sample
    assert list(rows[0])[:3] == ["sample_id", "query", "answer"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_slices(kind: Any) -> None:
    need(KINDS[kind])
    rows = rows_of(evaluate_samples().to_frame(kind, slices=True), kind)
    recall = [(row["slice"], row["group"], row["value"]) for row in rows if row["metric"] == "recall@5"]
    assert recall == [(None, None, 0.5), ("labels.lang", "de", 1.0), ("labels.lang", "en", 0.0)]


def test_column_types() -> None:
    pl, pa = need("polars"), need("pyarrow")
    polars = evaluate_samples().to_frame("polars")
    assert polars.schema["value"] == pl.Float64
    assert polars.schema["num_samples"] == pl.Int64
    assert polars.schema["signature"] == pl.String
    arrow = evaluate_samples().to_frame("arrow")
    assert arrow.schema.field("failed").type == pa.int64()
    assert arrow["value"].null_count == 1  # and not a NaN
    need("pandas")
    pandas = evaluate_samples().to_frame()
    assert {name: str(dtype) for name, dtype in pandas.dtypes.items()} == {
        "metric": "string",
        "target": "string",
        "value": "float64",
        "low": "float64",
        "high": "float64",
        "num_samples": "Int64",
        "coverage": "float64",
        "skipped": "Int64",
        "failed": "Int64",
        "signature": "string",
    }
    assert math.isnan(pandas["value"][1])


@pytest.mark.parametrize("kind", KINDS)
def test_empty_results_give_frame_with_columns(kind: Any) -> None:
    need(KINDS[kind])
    assert rows_of(Results().to_frame(kind), kind) == []
    assert rows_of(Results().to_frame(kind, per_query=True), kind) == []
    assert rows_of(make_frame({"n": FrameColumn("number", [math.nan, 1])}, kind), kind) == [{"n": None}, {"n": 1.0}]


def test_scores_without_outcomes_and_scores_without_samples() -> None:
    need("polars")
    own = MetricResult("own", TargetCategory.LATENCY, 0.5, scores=[0.5, None])
    made = Results([own], sample_ids=["a", "b"]).to_frame("polars", per_query=True)
    assert made["own.outcome"].to_list() == ["scored", "skipped"]
    with pytest.raises(BadValueError, match="own has 2 scores for 0 sample ids"):
        Results([own]).to_frame("polars", per_query=True)


def test_invalid_arguments() -> None:
    with pytest.raises(BadValueError, match="choose one of: pandas, polars, arrow"):
        evaluate_samples().to_frame("spark")  # type: ignore[arg-type]
    with pytest.raises(BadValueError, match="slices are of metrics, not of samples"):
        evaluate_samples().to_frame(per_query=True, slices=True)


@pytest.mark.parametrize(("kind", "package"), KINDS.items())
def test_missing_package_is_named(kind: Any, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"needs the package '{package}': pip install"):
        evaluate_samples().to_frame(kind)


# --- stored runs and comparisons ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.sqlite"
    with RunStore.open(path) as opened:
        dataset = stored_runs.samples(6)
        metrics = ["recall@5", "token_f1"]
        stored_runs.run(opened, "one", dataset, lambda n: ["gold"] if n % 2 else ["other"], metrics)
        stored_runs.run(opened, "two", dataset, lambda n: ["gold"] if n else RuntimeError("down"), metrics)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_stored_run_frame(kind: Any, store: Path) -> None:
    need(KINDS[kind])
    with RunStore.open(store) as opened:
        results = results_with_texts(opened, opened.find("two").run_id)
    recall, _ = rows_of(results.to_frame(kind), kind)
    assert (recall["value"], recall["failed"], recall["coverage"]) == (5 / 6, 1, 1.0)
    first = rows_of(results.to_frame(kind, per_query=True), kind)[0]
    assert first["recall@5"] == 0.0  # the worst there is, since the system failed
    assert first["recall@5.outcome"].startswith("system_failed:")
    texts = [(row["query"], row["answer"]) for row in rows_of(results.to_frame(kind, per_query=True), kind)[:2]]
    assert texts == [("question 0?", None), ("question 1?", "")], "the system failed on the first"


@pytest.mark.parametrize("kind", KINDS)
def test_comparison_frame(kind: Any, store: Path) -> None:
    need(KINDS[kind])
    report = compare_runs("one", "two", store=str(store))
    rows = rows_of(report.to_frame(kind), kind)
    (recall,) = [row for row in rows if row["metric"] == "recall@5"]
    comparison = next(one for one in report.metrics if one.name == "recall@5")
    assert (
        (recall["a"], recall["b"], recall["wins"], recall["n"])
        == (comparison.a, comparison.b, comparison.wins, comparison.n)
        == (0.5, 5 / 6, 2, 6)
    )
    assert (recall["low"], recall["high"]) == comparison.interval
    assert recall["verdict"] == comparison.verdict
    assert bool(recall["primary"])
    assert {row["metric"] for row in rows} == {one.name for one in report.metrics} | set(report.refused)
    queries = rows_of(report.to_frame(kind, per_query=True), kind)
    assert [row["query_id"] for row in queries] == [one.query_id for one in report.per_query]
    assert {row["kind"] for row in queries} == {"Win", "Draw"}
    assert queries[0]["a_hit_rank"] is None


def test_refused_metric_has_row_with_reason(store: Path) -> None:
    from dataclasses import replace

    need("polars")
    report = replace(compare_runs("one", "two", store=str(store)), refused={"map": "other rules"})
    last = report.to_frame("polars").to_dicts()[-1]
    assert (last["metric"], last["note"], last["delta"], last["verdict"]) == (
        "map",
        "not compared: other rules",
        None,
        None,
    )


def test_export_writes_parquet(
    store: Path, tmp_path: Path, auepora: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = need("pyarrow.parquet")
    folder = tmp_path / "out"
    code, out, _ = auepora("export", "two", str(folder), "--store", str(store), "--parquet", "--json")
    assert code == 0
    assert json.loads(out)[-2:] == [str(folder / "results.parquet"), str(folder / "scores.parquet")]
    with RunStore.open(store) as opened:
        results = opened.results(opened.find("two").run_id)
    assert parquet.read_table(folder / "results.parquet").equals(results.to_frame("arrow", slices=True))
    assert parquet.read_table(folder / "scores.parquet").equals(results.to_frame("arrow", per_query=True))
    assert auepora("export", "two", str(folder), "--store", str(store), "--parquet")[0] == 2  # they are there already
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = auepora("export", "two", str(tmp_path / "none"), "--store", str(store), "--parquet")
    assert code == 2
    assert "needs the package 'pyarrow'" in err
    assert list((tmp_path / "none").iterdir()) == []
