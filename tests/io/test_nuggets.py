"""Nugget files: reading, writing, attaching to samples, and every error."""

import json
from pathlib import Path
from typing import Any

import pytest

from auepora_eval import EvaluationSample
from auepora_eval.errors import AueporaWarning, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.convert import convert_files
from auepora_eval.io.join import load_dataset
from auepora_eval.io.labels import read_nuggets, with_nuggets, write_nuggets
from auepora_eval.judge.nugget_lists import Nugget, NuggetTopic

LINE = {"query": "Who?", "qid": "q1", "nuggets": [{"text": "Goethe", "importance": "vital"}]}


def write_file(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_round_trip(tmp_path: Path) -> None:
    topics = [
        NuggetTopic(
            "q1", (Nugget("Goethe", "vital", "support"), Nugget("in two parts", "okay", "partial_support")), "Who?"
        ),
        NuggetTopic("q1", (Nugget("Goethe", "vital", "not_support"),), "Who?", {"run_id": "other", "answer_text": "x"}),
        NuggetTopic("2", (), ""),
    ]
    for name in ("nuggets.jsonl", "nuggets.jsonl.gz"):
        write_nuggets(topics, tmp_path / name)
        assert read_nuggets(tmp_path / name) == topics
    first = json.loads((tmp_path / "nuggets.jsonl").read_text().splitlines()[0])
    assert first["nuggets"][0] == {"text": "Goethe", "importance": "vital", "assignment": "support"}


def test_nuggetizer_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "n.jsonl", {**LINE, "qid": 27, "trace": {"tokens": 5}, "nuggets": [
        {"text": " Goethe ", "importance": "Vital", "assignment": "Partial_Support", "reasoning": "so"},
        {"text": "goethe", "importance": "okay"},
    ]})  # fmt: skip
    (topic,) = read_nuggets(path)
    assert topic == NuggetTopic("27", (Nugget("Goethe", "vital", "partial_support"),), "Who?", {"trace": {"tokens": 5}})


WRONG: list[tuple[Any, str, str]] = [
    ("{", "not valid JSON", "no JSON"),
    ([1], "must be one JSON object", "a list"),
    ({"nuggets": []}, "'qid' is missing", "no id"),
    ({**LINE, "qid": True}, "'qid' is True", "an id that is none"),
    ({"qid": "q"}, "'nuggets' is missing", "no nuggets"),
    ({**LINE, "query": 5}, "'query' is 5", "a query that is none"),
    ({**LINE, "nuggets": "x"}, "nuggets are a list", "nuggets that are a text"),
    ({**LINE, "nuggets": ["x"]}, r"nuggets\[0\] is 'x'", "a nugget that is a text"),
    ({**LINE, "nuggets": [{"text": ""}]}, "must be a statement", "an empty nugget"),
    ({**LINE, "nuggets": [{"text": "x"}]}, "has no 'importance'", "no importance"),
    ({**LINE, "nuggets": [{"text": "x", "importance": "failed"}]}, "one of vital, okay", "failed importance"),
    (
        {**LINE, "nuggets": [{"text": "x", "importance": "okay", "assignment": "failed"}]},
        "one of support, partial_support, not_support",
        "failed assignment",
    ),
]


@pytest.mark.parametrize(("line", "match", "why"), WRONG, ids=[row[-1] for row in WRONG])
def test_invalid_nuggets(tmp_path: Path, line: Any, match: str, why: str) -> None:
    path = write_file(tmp_path / "n.jsonl", line)
    with pytest.raises(DataFileError, match=match):
        read_nuggets(path)


def test_duplicate_query(tmp_path: Path) -> None:
    with pytest.raises(DuplicateIdError, match="'q1' occurs twice"):
        read_nuggets(write_file(tmp_path / "n.jsonl", LINE, LINE))
    with pytest.raises(DataFileError, match=r"no record|no nuggets"):
        read_nuggets(write_file(tmp_path / "e.jsonl"))


def test_samples_get_the_nuggets_of_their_ids() -> None:
    samples = [EvaluationSample("q1", "Who?", metadata={"own": 1, "nuggets": "old"}), EvaluationSample("q2", "When?")]
    topic = NuggetTopic("q1", (Nugget("Goethe", "vital", "support"),))
    first, second = with_nuggets(samples, [topic])
    assert first.metadata == {"own": 1, "nuggets": [{"text": "Goethe", "importance": "vital"}]}
    assert (second, samples[0].metadata["nuggets"]) == (samples[1], "old")


def test_unused_nuggets_are_reported() -> None:
    samples = [EvaluationSample("q1", "Who?")]
    topics = [NuggetTopic(f"q{n}", ()) for n in range(1, 6)]
    with pytest.warns(AueporaWarning, match="no sample has the qid 'q2', 'q3', 'q4' and 1 more"):
        list(with_nuggets(samples, topics))
    with pytest.raises(BadValueError, match="no qid is the id of a sample; there are 'q2'"):
        list(with_nuggets(samples, topics[1:2]))
    with pytest.raises(DuplicateIdError):
        list(with_nuggets(samples, [topics[0], topics[0]]))


def test_load_dataset_with_nuggets(tmp_path: Path) -> None:
    data = write_file(tmp_path / "data.jsonl", {"sample_id": "q1", "query": "Who?"})
    nuggets = write_file(tmp_path / "nuggets.jsonl", LINE)
    (sample,) = load_dataset(data, nuggets=nuggets)
    assert sample.metadata["nuggets"] == LINE["nuggets"]


def test_convert_with_nuggets(tmp_path: Path, auepora: Any) -> None:
    data = write_file(tmp_path / "data.jsonl", {"sample_id": "q1", "query": "Who?"})
    nuggets = write_file(tmp_path / "nuggets.jsonl", LINE)
    code, _, _ = auepora("convert", str(data), str(tmp_path / "out.jsonl"), "--nuggets", str(nuggets))
    assert code == 0
    (sample,) = load_dataset(tmp_path / "out.jsonl")
    assert sample.metadata["nuggets"] == LINE["nuggets"]
    outputs = write_file(tmp_path / "outputs.jsonl", {"sample_id": "q1", "retrieved": [], "response": "x"})
    with pytest.raises(BadValueError, match="nuggets go with samples"):
        convert_files(outputs, tmp_path / "o.jsonl", role="outputs", nuggets=nuggets)
    with pytest.raises(BadValueError, match="is the input"):
        convert_files(data, nuggets, nuggets=nuggets)
