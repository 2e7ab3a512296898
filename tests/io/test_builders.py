"""Objects made field by field are those that the constructors make, with every field there is."""

import json
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.codec import decode_output, decode_sample

DOCUMENT: dict[str, Any] = {"doc_id": "d", "text": "t", "metadata": {"x": 1}, "parent_id": "p", "span": [1, 2]}
ANSWER: dict[str, Any] = {
    "text": "a", "structured": {"k": 1}, "metadata": {"m": 2}, "sentences": [{"text": "a", "citations": ["d"]}, {"text": "b"}],
}  # fmt: skip
MADE = Document("d", "t", {"x": 1}, "p", (1, 2))
ANSWERED = Response("a", {"k": 1}, {"m": 2}, [{"text": "a", "citations": ["d"]}, {"text": "b"}])
SAMPLES: list[tuple[dict[str, Any], EvaluationSample]] = [
    ({}, EvaluationSample("1", "q")),
    (
        {"relevant_docs": [DOCUMENT, "e"], "candidate_docs": [], "reference_answer": ANSWER, "labels": {"l": 1},
         "metadata": {"m": 1}, "reference_answers": ["r"], "history": [{"role": "user"}], "cluster_id": "c",
         "relevant_groups": [["d", "e"]]},
        EvaluationSample("1", "q", [MADE, Document("e")], [], ANSWERED, {"l": 1}, {"m": 1}, ["r"], [{"role": "user"}], "c",
                         [["d", "e"]]),
    ),
    ({"reference_answers": ["r", "s"]}, EvaluationSample("1", "q", reference_answers=["r", "s"])),
    ({"reference_answer": "r"}, EvaluationSample("1", "q", reference_answer=Response("r"))),
    ({"reference_answer": {"text": None}}, EvaluationSample("1", "q", reference_answer=Response(""))),
]  # fmt: skip
OUTPUTS: list[tuple[dict[str, Any], SystemOutputs]] = [
    ({}, SystemOutputs([])),
    (
        {"retrieved": [{"doc": DOCUMENT, "score": 2.5, "rank": 7}, {"doc": "e"}, "f"], "response": ANSWER, "timings": {"t": 1.0},
         "extra": {"e": 1}, "error": "x", "refused": True, "citations": ["d"], "steps": [{"s": 1}], "usage": {"u": 1}, "repeat": 2},
        SystemOutputs(
            [RetrievedDocument(MADE, 2.5, 7), RetrievedDocument(Document("e"), None, 2), RetrievedDocument(Document("f"), None, 3)],
            ANSWERED, {"t": 1.0}, {"e": 1}, "x", True, ["d"], [{"s": 1}], {"u": 1}, 2,
        ),
    ),
]  # fmt: skip


def all_fields(value: Any) -> Any:
    """Return the attributes of a value by name, recursively, without applying defaults."""
    if is_dataclass(value):
        assert list(vars(value)) == [field.name for field in fields(value)], "every field, in the order of the class"
        return {name: all_fields(item) for name, item in vars(value).items()}
    return [all_fields(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("row", "want"), SAMPLES, ids=[str(sorted(row[0])) for row in SAMPLES])
def test_samples(row: dict[str, Any], want: EvaluationSample) -> None:
    made = decode_sample(json.dumps({"sample_id": "1", "query": "q", **row}).encode())
    assert made == want
    assert all_fields(made) == all_fields(want)


@pytest.mark.parametrize(("row", "want"), OUTPUTS, ids=[str(sorted(row[0])) for row in OUTPUTS])
def test_outputs(row: dict[str, Any], want: SystemOutputs) -> None:
    _, made = decode_output(json.dumps({"sample_id": "1", **row}).encode())
    assert made == want
    assert all_fields(made) == all_fields(want)


def test_objects_share_no_state() -> None:
    first, second = (
        decode_output(b'{"sample_id": "1", "retrieved": ["a", {"doc": {"doc_id": "b"}}]}')[1] for _ in "ab"
    )
    for item, other in zip(first.retrieved, second.retrieved, strict=True):
        item.doc.metadata["x"] = 1
        assert other.doc.metadata == {}
    first.timings["t"] = 1.0
    assert second.timings == {}
