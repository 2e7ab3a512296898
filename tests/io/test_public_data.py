"""Public datasets that have a layout of their own, brought in by a few lines of the public functions."""

import json

import pytest

from auepora_eval import evaluate
from auepora_eval.io.join import align_outputs, load_outputs
from auepora_eval.io.records import outputs_from_records, samples_from_records
from helpers.requirements import need_data


def test_squad_2() -> None:
    folder = need_data("squad2")
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))["queries"]
    truth = json.loads((folder / "ground_truth.json").read_text(encoding="utf-8"))
    labels = {True: {"scenario": "unanswerable"}, False: {}}
    records = [
        {
            **query,
            **truth[query["id"]],
            "context": [query["context"]],
            "labels": labels[truth[query["id"]]["is_impossible"]],
        }
        for query in queries
    ]
    samples = samples_from_records(
        records,
        {"query": "question", "relevant_texts": "context", "reference_answers": "answers", "labels": "labels"},
    )
    aligned = align_outputs(samples, load_outputs(folder / "predictions" / "BERT.json"))
    assert (len(samples), aligned.missing, aligned.unknown) == (500, [], [])
    match, f1, refused = evaluate(samples, aligned.outputs, ["exact_match", "token_f1", "negative_rejection_rate"])
    assert round(100 * match.value, 2) == 79.60
    assert round(100 * f1.value, 2) == 82.75
    assert refused.value == 228 / 258


@pytest.mark.parametrize("kind", ["answerable", "unanswerable"])
def test_clapnq(kind: str) -> None:
    path = need_data("clapnq", f"clapnq_dev_{kind}.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records = [
        {
            "id": row["id"],
            "input": row["input"],
            "passages": [passage["text"] for passage in row["passages"]],
            "answers": [output["answer"] for output in row["output"]],
            "labels": {"scenario": kind} if kind == "unanswerable" else {},
        }
        for row in rows
    ]
    columns = {"query": "input", "relevant_texts": "passages", "reference_answers": "answers", "labels": "labels"}
    samples = samples_from_records(records, columns)
    assert len(samples) == 300
    # A system that finds the passage and repeats the first answer, which is empty where there is none.
    given = [{**record, "answer": record["answers"][0]} for record in records]
    outputs = outputs_from_records(given, {"response": "answer", "retrieved_texts": "passages"})
    recall, rouge, refused = evaluate(
        samples, align_outputs(samples, outputs).outputs, ["recall@1", "rougeL_answer", "negative_rejection_rate"]
    )
    assert (recall.value, recall.details["num_samples"]) == (1.0, 300)
    if kind == "answerable":
        assert rouge.value == 1.0
        assert not refused.defined
    else:
        assert (refused.value, refused.details["num_samples"]) == (1.0, 300)


def test_evouna() -> None:
    rows = json.loads(need_data("evouna", "NQ.json").read_text(encoding="utf-8"))
    records = [{**row, "answers": row["golden_answer"].split("/")} for row in rows if not row["improper"]]
    samples = samples_from_records(records, {"query": "question", "reference_answers": "answers"})
    outputs = outputs_from_records(records, {"response": "answer_fid"})
    (result,) = evaluate(samples, align_outputs(samples, outputs).outputs, ["containment"])
    judged = [row["judge_fid"] for row in records]
    assert sum(judged) / len(judged) == pytest.approx(0.6894, abs=5e-5)
    same = [score == judge for score, judge in zip(result.scores or (), judged, strict=True)]
    assert sum(same) / len(same) == pytest.approx(0.897, abs=0.002)
