"""Files to score, and the command line as a function, for every test of a command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

DATASET = [
    {
        "sample_id": "1",
        "query": "Who?",
        "relevant_docs": [{"doc_id": "a", "text": "Ada."}],
        "reference_answer": {"text": "Ada"},
    },
    {"sample_id": "2", "query": "When?", "relevant_docs": ["b", "c"], "reference_answer": "1843"},
    {"sample_id": "3", "query": "Why?", "relevant_docs": []},
]
OUTPUTS = [
    {"sample_id": "1", "retrieved": ["a", "x"], "response": "Ada", "timings": {"end_to_end": 0.5}},
    {
        "sample_id": "2",
        "retrieved": [{"doc": {"doc_id": "x"}, "score": 2.0}, {"doc": {"doc_id": "b"}, "score": 1.0}],
        "error": "timeout: 30 s",
    },
]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("data.jsonl", DATASET), ("out.jsonl", OUTPUTS)):
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("qrels.txt").write_text("q1 0 a 1\nq1 0 b 0\nq2 0 c 2\n")
    Path("run.txt").write_text("q1 Q0 b 1 2.0 me\nq1 Q0 a 2 1.0 me\nq9 Q0 a 1 1.0 me\n")
    Path("answers.jsonl").write_text('{"sample_id": "1", "response": "Ada"}\n')
    Path("queries.jsonl").write_text('{"sample_id": "1", "query": "Who?"}\n')
    Path("link.jsonl").symlink_to("data.jsonl")
    return tmp_path


@pytest.fixture
def run(auepora: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    """The command, by the name that tests of commands have for it."""
    return auepora
