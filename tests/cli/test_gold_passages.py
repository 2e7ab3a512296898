"""Gold given as passages: commands and metrics find hits in chunks with any id that cover them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]

GOLD = {"doc_id": "passage-1", "parent_id": "guide", "span": [100, 200]}
CHUNKS = [  # of the guide, cut at 80 characters
    {"doc_id": f"chunk-{n}", "parent_id": "guide", "span": [80 * n, 80 * n + 80], "text": "It takes ten days."}
    for n in range(5)
]
OTHER = {"doc_id": "terms-0", "parent_id": "terms", "span": [0, 80], "text": "Nothing of use."}
RETRIEVED = {  # by the id of the sample
    "both": [OTHER, CHUNKS[1], CHUNKS[2]],  # characters 100 to 160 and 160 to 200: the first covers more than half
    "late": [OTHER, OTHER | {"doc_id": "terms-1"}, CHUNKS[2], CHUNKS[0], CHUNKS[4], CHUNKS[1]],  # half at rank 6
    "never": [OTHER, CHUNKS[0], CHUNKS[2], CHUNKS[4]],  # 40 characters of 100
}
ANSWERS = {"both": "ten days", "late": "a year", "never": "no idea whatever"}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    samples = [
        {"sample_id": name, "query": f"How long, {name}?", "relevant_docs": [GOLD], "reference_answer": "ten days"}
        for name in RETRIEVED
    ]
    outputs = [
        {"sample_id": name, "retrieved": [{"doc": doc} for doc in docs], "response": ANSWERS[name]}
        for name, docs in RETRIEVED.items()
    ]
    for path, rows in (("data.jsonl", samples), ("out.jsonl", outputs)):
        Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def scored(auepora: Call, *arguments: str) -> dict[str, Any]:
    code, out, err = auepora("score", "data.jsonl", "out.jsonl", "--json", "--per-query", *arguments)
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def test_score_validate_and_init_suggest_span_metrics(files: Path, auepora: Call) -> None:
    by_name = {one["name"]: one["value"] for one in scored(auepora)["results"]}
    assert by_name["recall@5"] == pytest.approx(1 / 3), "gold is matched by span"
    assert by_name["recall_doc@5"] == 1.0
    assert by_name["span_recall@10"] == pytest.approx((1.0 + 1.0 + 0.4) / 3)
    assert {"span_precision@5", "span_iou@5"} <= by_name.keys()
    for arguments in (("data.jsonl",), ("data.jsonl", "out.jsonl")):
        code, out, _ = auepora("validate", *arguments)
        assert code == 0
        for name in ("recall_doc@k", "span_recall@k", "span_precision@k", "span_iou@k"):
            assert name in out
    code, out, _ = auepora("init", "data.jsonl", "--for", "everything", "-o", "plan.yaml")
    assert code == 0
    plan = Path("plan.yaml").read_text()
    assert "- span_recall@5" in plan
    assert "- recall_doc@5" in plan


def test_no_span_metrics_without_spans(files: Path, auepora: Call) -> None:
    text = Path("data.jsonl").read_text().replace(', "span": [100, 200]', "")
    Path("data.jsonl").write_text(text)
    names = {one["name"] for one in scored(auepora)["results"]}
    assert not any(name.startswith(("span_", "recall_doc")) for name in names)


def test_parent_ids_without_spans_suggest_document_metrics(files: Path, auepora: Call) -> None:
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    for row in rows:
        for item in row["retrieved"]:
            del item["doc"]["span"]
    Path("out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = {one["name"] for one in scored(auepora)["results"]}
    assert "recall_doc@5" in names
    assert not any(name.startswith("span_") for name in names)


def test_quality_and_causes_use_spans(files: Path, auepora: Call) -> None:
    document = scored(auepora, "-m", "quality_given_hit@5", "-m", "failure_attribution@5", "-m", "hit_rate@5")
    rows = {row["sample_id"]: row for row in document["per_query"]}
    given = {name: row["scores"].get("quality_given_hit@5") for name, row in rows.items()}
    assert given == {"both": 1.0, "late": None, "never": None}
    details = {one["name"]: one["details"] for one in document["results"]}
    causes = {name: one["count"] for name, one in details["failure_attribution@5"]["causes"].items() if one["count"]}
    assert causes == {"below_cut": 1, "not_returned": 1}
    assert {name: row["scores"]["hit_rate@5"] for name, row in rows.items()} == {"both": 1.0, "late": 0.0, "never": 0.0}
    by_id = scored(auepora, "-m", "hit_rate@5", "--match", "id")
    assert {row["scores"]["hit_rate@5"] for row in by_id["per_query"]} == {0.0}
