"""Answers of the TREC RAG track: citations are converted to document ids, and back to indexes of references."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import Document, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.formats import get_format, guess_format
from auepora_eval.io.join import load_outputs

ROW: dict[str, Any] = {
    "run_id": "mine",
    "topic_id": "2027497",
    "topic": "how long is the rhine",
    "references": ["doc#2", "doc#1", "other#5"],
    "response_length": 8,
    "answer": [
        {"text": "The Rhine is long.", "citations": [1, 0]},
        {"text": "It is.", "citations": []},
        {"text": "Very long.", "citations": [1]},
    ],
}
OF_2025 = {
    "metadata": {"team_id": "us", "narrative_id": 1, "narrative": "how long is the rhine"},
    "references": ["doc#2"],
    "answer": [{"text": "Long.", "citations": ["doc#2"]}],
}


def make_ranking(*ids: str) -> list[RetrievedDocument]:
    return [RetrievedDocument(Document(doc_id), None, rank) for rank, doc_id in enumerate(ids, start=1)]


def save_file(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_answers(tmp_path: Path) -> None:
    path = save_file(tmp_path / "run.jsonl", ROW, OF_2025)
    assert guess_format(path, "outputs").name == "trec_rag"
    sentences = [
        {"text": "The Rhine is long.", "citations": ["doc#1", "doc#2"]},
        {"text": "It is.", "citations": []},
        {"text": "Very long.", "citations": ["doc#1"]},
    ]
    assert load_outputs(path) == {
        "2027497": SystemOutputs(
            make_ranking("doc#2", "doc#1", "other#5"),
            Response("The Rhine is long. It is. Very long.", sentences=sentences),
            extra={"run_id": "mine", "topic": "how long is the rhine", "response_length": 8},
            citations=["doc#1", "doc#2"],
        ),
        "1": SystemOutputs(
            make_ranking("doc#2"),
            Response("Long.", sentences=[{"text": "Long.", "citations": ["doc#2"]}]),
            extra={"metadata": OF_2025["metadata"]},
            citations=["doc#2"],
        ),
    }


def test_empty_answer(tmp_path: Path) -> None:
    path = save_file(tmp_path / "run.jsonl", {"topic_id": 7, "references": [], "answer": []})
    assert load_outputs(path) == {"7": SystemOutputs([], Response("", sentences=[]), citations=[])}


BAD: list[tuple[object, str]] = [
    ({**ROW, "topic_id": None}, "field 'topic_id' is missing"),
    ({**ROW, "topic_id": ""}, "field 'topic_id' is empty; an id needs at least one character"),
    ({**ROW, "topic_id": []}, "field 'topic_id' must be an integer, a string or null, not an array"),
    ({**OF_2025, "metadata": {"narrative_id": True}}, "field 'topic_id' is missing"),
    (
        {**ROW, "references": [3]},
        "field 'references[0]' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    ({**ROW, "answer": "text"}, "field 'answer' must be an array, not a string"),
    ({"topic_id": "1", "references": []}, "field 'answer' is missing"),
    ({**ROW, "answer": [{"citations": []}]}, "field 'answer[0].text' is missing"),
    (
        {**ROW, "answer": [{"text": "x", "citations": [0, 3]}]},
        "field 'answer[0].citations[1]' is 3, but the places of the 3 references are counted from 0",
    ),
    (
        {**ROW, "answer": [{"text": "x", "citations": [-1]}]},
        "field 'answer[0].citations[0]' is -1, but the places of the 3 references are counted from 0",
    ),
    ("[]", "each record must be one JSON object, not an array"),
]


@pytest.mark.parametrize(("row", "message"), BAD, ids=[row[-1][:70] for row in BAD])
def test_bad_answers(tmp_path: Path, row: object, message: str) -> None:
    path = save_file(tmp_path / "run.jsonl", OF_2025, row)
    with pytest.raises(DataFileError) as caught:
        load_outputs(path, "trec_rag")
    assert str(caught.value) == f"{path}:2: {message}"


def test_duplicate_topic(tmp_path: Path) -> None:
    path = save_file(tmp_path / "run.jsonl", ROW, ROW)
    with pytest.raises(DuplicateIdError) as caught:
        load_outputs(path)
    assert str(caught.value) == f"{path}:2: sample_id '2027497' is already on line 1; each id may come once"


IDS = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4, unique=True)


@st.composite
def outputs(draw: st.DrawFn) -> SystemOutputs:
    ids = draw(IDS)
    texts = draw(st.lists(st.text(max_size=5), max_size=3))
    sentences = [{"text": text, "citations": draw(st.lists(st.sampled_from(ids), max_size=2))} for text in texts]
    cited = list(dict.fromkeys(doc_id for one in sentences for doc_id in one["citations"]))
    response = Response(" ".join(texts), sentences=sentences)
    length = sum(len(text.split()) for text in texts)
    return SystemOutputs(
        make_ranking(*ids), response, extra={"response_length": length, "run_id": "r"}, citations=cited
    )


@given(st.dictionaries(st.text(min_size=1, max_size=4), outputs(), min_size=1, max_size=3))
def test_answer_round_trip(tmp_path_factory: pytest.TempPathFactory, made: dict[str, SystemOutputs]) -> None:
    path = tmp_path_factory.getbasetemp() / "run.jsonl.gz"
    write = get_format("trec_rag").write_outputs
    assert write is not None
    write(made.items(), path)
    assert load_outputs(path, "trec_rag") == made


def test_answer_without_sentences(tmp_path: Path) -> None:
    write = get_format("trec_rag").write_outputs
    assert write is not None
    write(
        [("1", SystemOutputs(make_ranking("a", "b"), Response("So it is."), citations=["b"]))], tmp_path / "run.jsonl"
    )
    assert json.loads((tmp_path / "run.jsonl").read_text(encoding="utf-8")) == {
        "topic_id": "1",
        "references": ["a", "b"],
        "response_length": 3,
        "answer": [{"text": "So it is.", "citations": [1]}],
    }


def test_unwritable_values(tmp_path: Path) -> None:
    write = get_format("trec_rag").write_outputs
    assert write is not None
    for output, problem in [
        (SystemOutputs([]), "it has no response"),
        (
            SystemOutputs(make_ranking("a"), Response("x"), citations=["b"]),
            "it cites 'b', which is not among its retrieved",
        ),
    ]:
        with pytest.raises(BadValueError, match=f"the output for sample '1' cannot be written: {problem}"):
            write([("1", output)], tmp_path / "run.jsonl")
    with pytest.raises(DuplicateIdError):
        write([("1", SystemOutputs([], Response("")))] * 2, tmp_path / "run.jsonl")
    assert not list(tmp_path.iterdir())


@given(st.integers(0, 500), st.binary(max_size=3))
def test_damaged_files_raise_only_our_errors(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    data = json.dumps(ROW).encode()
    path.write_bytes(data[: place % len(data)] + change + data[place % len(data) + 1 :])
    for kind in (None, "trec_rag"):
        with contextlib.suppress(AueporaError):
            load_outputs(path, kind)
