"""Log entries of results, independent of the tracker."""

import math
from typing import Any

import pytest

from auepora_eval import MetricResult, Results, TargetCategory
from auepora_eval.errors import BadTypeError, BadValueError
from auepora_eval.loggers import build_entries, flatten, legal_name

NAMES = [  # of a metric, as logged, why
    ("recall@5", "recall_at_5", "a cut-off"),
    ("mrr", "mrr", "legal already"),
    ("rougeL_answer", "rougeL_answer", "capitals stay"),
    ("mean_latency[end_to_end]", "mean_latency_end_to_end", "a key in brackets"),
    ("quantile_latency[end_to_end,0.95]", "quantile_latency_end_to_end_0_95", "two of them, one a number"),
    ("mine: très bon!", "mine_tr_s_bon", "whatever a user calls it"),
    ("2nd", "_2nd", "no digit comes first"),
]


@pytest.mark.parametrize(("name", "logged", "why"), NAMES, ids=[row[2] for row in NAMES])
def test_names(name: str, logged: str, why: str) -> None:
    assert legal_name(name) == logged
    assert legal_name(logged) == logged or name == "2nd"


def result(name: str, value: float = 0.5, **more: Any) -> MetricResult:
    return MetricResult(name, TargetCategory.LATENCY, value, **more)


def test_only_defined_numbers_are_logged() -> None:
    entries = build_entries(
        [
            result("recall@5", interval=(0.25, 0.75), details={"num_samples": 8, "num_skipped": 0, "num_failed": 2}),
            result("token_f1", 0.0, defined=False, details={"num_samples": 0, "num_skipped": 10, "num_failed": 0}),
            result("odd", math.inf),
            result("own", 3, interval=(-math.inf, 4.0), signature="own|v1"),
        ]
    )
    assert entries.metrics == {
        "recall_at_5": 0.5,
        "recall_at_5_low": 0.25,
        "recall_at_5_high": 0.75,
        "recall_at_5_n": 8.0,
        "recall_at_5_failed": 2.0,
        "token_f1_n": 0.0,
        "token_f1_skipped": 10.0,
        "own": 3.0,
        "own_high": 4.0,
    }
    assert entries.undefined == ["token_f1", "odd"]
    assert entries.names["recall_at_5"] == "recall@5"
    assert entries.signatures == {"own": "own|v1"}


def test_secrets_are_not_logged() -> None:
    entries = build_entries(
        [result("m")], params={"api_key": "abc", "model": {"name": "m", "token": "t"}, "none": None}
    )
    assert "abc" not in str(entries.params)
    assert flatten(entries.params)["model.name"] == "m"
    assert "none" not in entries.params


BAD: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ([result("a@1"), result("a_at_1")], {}, BadValueError, "'a@1' and 'a_at_1' would both be logged as 'a_at_1'"),
    ([result("a"), result("a")], {}, BadValueError, "two metrics called 'a' would both be logged"),
    (
        [result("a", interval=(0.0, 1.0)), result("a_low")],
        {},
        BadValueError,
        "two numbers would be logged as 'a_low', one of them of 'a_low'",
    ),
    ([result("???")], {}, BadValueError, "has no letter a to z and no digit"),
    ([result("a")], {"prefix": "dev set:"}, BadValueError, "the prefix 'dev set:' may contain"),
    ([0.5], {}, BadTypeError, "log the results of an evaluation or of a run, not a list"),
    (0.5, {}, BadTypeError, "not a float"),
    (type("Outcome", (), {"results": None})(), {}, BadValueError, "was not scored"),
]


@pytest.mark.parametrize(("given", "options", "error", "message"), BAD, ids=[row[3] for row in BAD])
def test_invalid_input(given: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        build_entries(given, **options)


def test_stored_results_log_their_run_id() -> None:
    assert build_entries(Results([result("m")], run_id="r1")).facts["run_id"] == "r1"
    assert "run_id" not in build_entries(Results([result("m")])).facts
