"""Results as documents and tables."""

import json

import numpy as np
import pytest

from auepora_eval import MetricResult, Results, TargetCategory, evaluate
from auepora_eval.core.results import results_to_dict, results_to_markdown
from auepora_eval.errors import MissingDependencyError, UnknownMetricError
from auepora_eval.render.tables import slices_tables, table
from helpers.builders import output, samples

PLAIN = [
    MetricResult("recall@5", TargetCategory.RETRIEVAL_RELEVANCE, 0.83),
    MetricResult("rougeL_answer", TargetCategory.GENERATION_CORRECTNESS, 0.61),
]


def test_dictionary_by_target() -> None:
    assert results_to_dict(PLAIN) == {
        "RETRIEVAL_RELEVANCE": {"recall@5": 0.83},
        "GENERATION_CORRECTNESS": {"rougeL_answer": 0.61},
    }


def test_markdown_matches_the_specification() -> None:
    assert results_to_markdown(PLAIN) == (
        "| Target | Metric | Value |\n"
        "|--------|--------|-------|\n"
        "| RETRIEVAL_RELEVANCE | recall@5 | 0.8300 |\n"
        "| GENERATION_CORRECTNESS | rougeL_answer | 0.6100 |"
    )


def evaluate_samples() -> Results:
    outputs = [output(["a"]), output(["a"], error="timeout"), output(["b"]), None]
    return evaluate(samples(["a"], ["a"], [], ["a"]), outputs, ["recall@1", "map", "empty_result_rate", "mean_latency"])


def test_markdown_shows_coverage_and_undefined_values() -> None:
    lines = evaluate_samples().to_markdown().splitlines()
    assert lines[0] == "| Target | Metric | Value | Mean of |"
    lost = "3 of 4; 1 missing, 1 failed, counted worst (timeout); 1 skipped (empty_gold)"
    assert lines[2] == f"| RETRIEVAL_RELEVANCE | recall@1 | 0.3333 | {lost} |"
    assert lines[3] == f"| RETRIEVAL_ACCURACY | map (over hits) | 0.3333 | {lost} |"
    assert lines[5].startswith(
        "| LATENCY | mean_latency[end_to_end] | n/a | 0 of 4; 1 missing, 1 failed, left out (timeout)"
    )


def test_results_document() -> None:
    document = json.loads(evaluate_samples().to_json(per_query=True))
    assert (document["schema"], document["run_id"]) == (1, None)
    first = document["results"][0]
    assert set(first) == {"name", "target", "value", "interval", "signature", "details", "slices"}
    assert (first["name"], first["target"], first["value"]) == ("recall@1", "RETRIEVAL_RELEVANCE", pytest.approx(1 / 3))
    assert document["results"][3]["value"] is None  # undefined is null, never a number
    assert [row["sample_id"] for row in document["per_query"]] == ["q0", "q1", "q2", "q3"]
    assert document["per_query"][2]["scores"]["recall@1"] is None
    assert document["per_query"][2]["outcomes"]["recall@1"] == "skipped:empty_gold"
    assert document["per_query"][0]["scores"]["recall@1"] == 1.0
    assert "recall@1" not in document["per_query"][0]["outcomes"]
    assert "per_query" not in json.loads(evaluate_samples().to_json())


def test_by_name() -> None:
    assert evaluate_samples().by_name["map"].name == "map"
    with pytest.raises(UnknownMetricError, match="did you mean 'recall@1'"):
        evaluate_samples().by_name["recal@1"]


def test_any_details_can_be_serialised() -> None:
    odd = MetricResult(
        "mine", TargetCategory.LATENCY, 0.5, {"n": np.int64(3), "low": float("nan"), "array": np.ones(2), "set": {1}}
    )
    assert json.loads(Results([odd]).to_json())["results"][0]["details"] == {
        "n": 3,
        "low": None,
        "array": [1.0, 1.0],
        "set": [1],
    }
    assert results_to_markdown([MetricResult("m", TargetCategory.LATENCY, 0.5, {"skipped_empty_gold": 1})])


def test_undefined_is_none_in_dict_and_repr_is_a_table() -> None:
    undefined = MetricResult("m", TargetCategory.LATENCY, 0.0, defined=False)
    assert results_to_dict([undefined]) == {"LATENCY": {"m": None}}
    assert str(Results([undefined])) == results_to_markdown([undefined])


def test_frame_needs_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match="pip install pandas"):
        evaluate_samples().to_frame()


def test_cell_cannot_break_its_row() -> None:
    lines = table([["a\nb\tc", "x" * 100, "y" * 100]], headers=["one\r", "two", "three"]).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("one\\r ")
    assert lines[2] == f"a\\nb\\tc  {'x' * 79}…  {'y' * 100}"


def test_slice_with_any_name_is_one_row() -> None:
    part = MetricResult("m", TargetCategory.LATENCY, 0.5)
    result = MetricResult("m|x", TargetCategory.LATENCY, 0.5)
    result.slices["by\nkind"] = {"a|b\nc": part}
    (plain,), (page,) = slices_tables(Results([result])), slices_tables(Results([result]), markdown=True)
    assert [len(text.splitlines()) for text in (plain, page)] == [3, 3]
    assert "a|b\\nc" in plain
    assert page.splitlines()[2].startswith("| m\\|x | a\\|b c | 0.5000 | ")
