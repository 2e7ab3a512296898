"""The data types keep the specification's constructors and add only optional fields."""

import dataclasses
import inspect
import pickle

import pytest

from auepora_eval import errors
from auepora_eval.core.targets import TARGETS, describe_target
from auepora_eval.core.types import (
    Document,
    EvaluationSample,
    MetricResult,
    Response,
    RetrievedDocument,
    SystemOutputs,
    TargetCategory,
)


def test_constructors_of_the_specification() -> None:
    doc = Document("d", "text", {"a": 1})
    assert RetrievedDocument(doc, 0.5, 1).doc is doc
    response = Response("yes", None, {})
    row = EvaluationSample("1", "q", [doc], [doc], response, {"scenario": "typo"}, {"m": 1})
    assert (row.labels, row.metadata) == ({"scenario": "typo"}, {"m": 1})
    assert SystemOutputs([], response, {"end_to_end": 1.0}, {"trace": []}).extra == {"trace": []}
    assert MetricResult("m", TargetCategory.LATENCY, 0.5, {"n": 1}).defined


def test_types_are_plain_and_mutable() -> None:
    for kind in (Document, RetrievedDocument, Response, EvaluationSample, SystemOutputs, MetricResult):
        assert not vars(kind)["__dataclass_params__"].frozen
    row = EvaluationSample("1", "q")
    row.query = "other"
    assert dataclasses.replace(row, sample_id="2").cluster == "2"


def test_parent_and_cluster_defaults() -> None:
    assert (Document("d").parent, Document("d#1", parent_id="d").parent) == ("d", "d")
    assert EvaluationSample("1", "q").cluster == "1"
    assert EvaluationSample("1", "q", labels={"variant_of": "0"}).cluster == "0"
    assert EvaluationSample("1", "q", labels={"variant_of": "0"}, cluster_id="talk").cluster == "talk"


def test_references_are_listed_once_each() -> None:
    row = EvaluationSample("1", "q", reference_answer=Response("a"), reference_answers=["b", "a"])
    assert row.references == ["a", "b"]
    assert EvaluationSample("1", "q").references == []


def test_every_target_is_described() -> None:
    assert set(TARGETS) == set(TargetCategory)
    pairs = {target.name: describe_target(target).pair for target in TargetCategory}
    assert pairs["RETRIEVAL_RELEVANCE"] == "retrieved documents – query"
    assert pairs["RETRIEVAL_ACCURACY"] == "retrieved documents – candidate documents"
    assert pairs["GENERATION_RELEVANCE"] == "response – query"
    assert pairs["GENERATION_FAITHFULNESS"] == "response – documents"
    assert pairs["GENERATION_CORRECTNESS"] == "response – sample response or label"


ERRORS = [
    errors.AlignmentError(1, 2),
    errors.BadValueError("x"),
    errors.BadTypeError("x"),
    errors.BadOptionError("scale", "x"),
    errors.MissingFieldError("f", "m"),
    errors.DuplicateIdError("x"),
    errors.MetricDefinitionError("x"),
    errors.UnknownMetricError("recal", ["recall"]),
    errors.UnknownOptionError("recall", "kk", ["k"]),
    errors.UnknownConventionError("conventions", "x", ["a"]),
    errors.SignatureMismatchError("a", "b", ["ap"]),
    errors.WorkerError("x"),
    errors.DataFileError("f.jsonl", 3, "bad"),
    errors.PlanError("plan.yaml", 3, "run.timeout", "must be positive"),
    errors.SystemCallError("rate_limited", "429", retry=True, retry_after=2.0),
    errors.JudgeError("unparseable", "no JSON", raw="hm", retry=True, retry_after=1.0),
    errors.StoreError("runs.sqlite", "is locked"),
    errors.ConflictError("x"),
    errors.UnknownRunError("x"),
    errors.UnknownBatchError("x"),
    errors.UnknownCorrectionError("x"),
    errors.MissingDependencyError("pandas", purpose="frames", install="pandas"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_errors_derive_from_ours_and_a_builtin_and_are_pickled(error: errors.AueporaError) -> None:
    assert isinstance(error, (ValueError, TypeError, LookupError, ImportError, RuntimeError))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_every_error_class_is_documented() -> None:
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.AueporaError)}
    assert classes - {errors.AueporaError} == {type(error) for error in ERRORS}
    for kind in classes:
        assert kind.__name__ in (errors.__doc__ or "")
