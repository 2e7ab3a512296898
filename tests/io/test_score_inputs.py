"""Saved outputs as a Python user scores them: the same numbers as those of ``auepora score``."""

import json
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.core.conventions import Conventions
from auepora_eval.core.types import TargetCategory
from auepora_eval.errors import BadValueError
from auepora_eval.io.score_inputs import DataFile, FileInput, ScoreInput, ScoreOptions
from auepora_eval.io.trec_format import TrecInput
from auepora_eval.scale.score_input import ShardInput

SAMPLES = [
    {"sample_id": "q1", "query": "one", "relevant_docs": ["a"]},
    {"sample_id": "q2", "query": "two", "relevant_docs": ["b"]},
]
OUTPUTS = [{"sample_id": "q2", "retrieved": ["a", "b"]}, {"sample_id": "q9", "retrieved": ["a"]}]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("data.jsonl", SAMPLES), ("outputs.jsonl", OUTPUTS)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("qrels").write_text("q1 0 a 1\nq2 0 b 1\n")
    Path("run").write_text("q2 Q0 a 1 2 x\nq2 Q0 b 2 1 x\nq9 Q0 a 1 1 x\n")


def make(kind: str) -> ScoreInput:
    if kind == "trec":
        return TrecInput("qrels", "run")
    files = DataFile("data.jsonl"), DataFile("outputs.jsonl")
    return FileInput(*files) if kind == "files" else ShardInput(*files)


@pytest.mark.parametrize("kind", ["files", "shards", "trec"])
def test_every_input_gives_the_same_numbers(kind: str) -> None:
    data = make(kind)
    results = data.score(["mrr"], ScoreOptions(Conventions.of("auepora", missing="zero")))
    assert results[0].value == 0.25
    assert (list(data.missing), list(data.unknown)) == (["q1"], ["q9"])


OPTIONS: list[tuple[dict[str, Any], list[str], str]] = [
    ({}, ["mrr"], "the metrics alone"),
    ({"targets": (TargetCategory.RETRIEVAL_RELEVANCE,)}, ["mrr", "recall@5"], "those of a target, too"),
]


@pytest.mark.parametrize(("options", "names", "why"), OPTIONS, ids=[row[-1] for row in OPTIONS])
def test_options_choose_metrics(options: dict[str, Any], names: list[str], why: str) -> None:
    results = make("files").score(["mrr"], ScoreOptions(Conventions.of(), **options))
    assert set(names) <= {result.name for result in results}


def test_without_metrics_all_supported_ones_are_computed() -> None:
    assert len(make("files").score()) > 5


def test_a_detected_format_is_noted() -> None:
    noted: list[tuple[str, str]] = []
    FileInput(DataFile("data.jsonl"), DataFile("run", "trec"), note=lambda path, name: noted.append((path, name)))
    assert noted == [("data.jsonl", "jsonl")]


def test_samples_without_outputs_are_refused() -> None:
    with pytest.raises(BadValueError, match="holds samples alone"):
        FileInput(DataFile("data.jsonl"))
