"""All problems of a line and of a file are reported, not only the first."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import DataFileError
from auepora_eval.io.codec import LineError, decode_output, decode_sample
from auepora_eval.io.formats import Role
from auepora_eval.io.jsonl import find_line_problems, iter_outputs, read_samples
from auepora_eval.io.problems import MAX_PROBLEMS, Problems


def find_problems(line: bytes, role: Role) -> list[str]:
    try:
        (decode_sample if role == "samples" else decode_output)(line)
    except LineError as error:
        return find_line_problems(line, role, str(error))[0]
    return []


SAMPLE_ROWS: list[tuple[bytes, list[str]]] = [
    (b'{"sample_id": "1", "query": "q"}', []),
    (b"{}", ["field 'sample_id' is missing", "field 'query' is missing"]),
    (b"[1]", ["each line must be one JSON object, not an array"]),
    (b'{"sample_id": "1", ', ["not valid JSON: the line ends too early (each line must hold one whole object)"]),
    (
        b'{"sample_id": 7, "query": null, "lables": {}, "history": 3}',
        [
            "field 'sample_id' must be a string, not a number; ids are strings, so put it in quotes",
            "field 'query' must be a string, not null",
            "unknown field 'lables'; did you mean 'labels'?",
            "field 'history' must be an array, not a number",
        ],
    ),
    (
        b'{"sample_id": "", "query": "q", "relevant_docs": [{"doc_id": "a", "span": [3, 1]}, 4, {"text": 5}, "", '
        b'{"doc_id": "b", "span": "x"}]}',
        [
            "field 'sample_id' is empty; an id needs at least one character",
            "field 'relevant_docs[0].span' must be [start, end] with 0 <= start <= end",
            "field 'relevant_docs[1]' must be a string or an object, not a number; ids are strings, so put it in quotes",
            "field 'relevant_docs[2].text' must be a string, not a number",
            "field 'relevant_docs[2].doc_id' is missing",
            "field 'relevant_docs[3]' is empty; an id needs at least one character",
            "field 'relevant_docs[4].span' must be [start, end] with 0 <= start <= end",
        ],
    ),
    (
        b'{"sample_id": "1", "query": "\\ud800", "labels": {"a": NaN, "b": [1e999]}, "metadata": {"\\udfff": -Infinity}}',
        [
            "field 'query' holds half of a surrogate pair, which is not valid text",
            "field 'labels.a' is NaN; numbers must be finite",
            "field 'labels.b[0]' is too large a number",
            "field 'metadata' holds half of a surrogate pair, which is not valid text",
            "field 'metadata.\\udfff' is -Infinity; numbers must be finite",
        ],
    ),
    (
        b'{"sample_id": "\xe9", "query": 1}',
        ["byte 0xe9 in column 16 is not valid UTF-8", "field 'query' must be a string, not a number"],
    ),
    (
        b'{"sample_id": "1", "query": "q", "query": 3, "reference_answer": {"txt": ""}}',
        [
            "field 'query' must be a string, not a number",
            "unknown field 'reference_answer.txt'; did you mean 'text'?",
            "field 'reference_answer.text' is missing",
        ],
    ),
]
OUTPUT_ROWS: list[tuple[bytes, list[str]]] = [
    (
        b'{"sample_id": "1", "retrieved": [{"id": "a"}, {"doc": {"doc_id": 1}, "score": "x"}], "timings": '
        b'{"a": "x", "b": 1, "c": null}, "refused": 1, "response": {"sentences": [3, {"citations": [1]}]}}',
        [
            'unknown field \'retrieved[0].id\': a position of a ranking is {"doc": {"doc_id": "d1", "text": "..."}, '
            '"score": 0.5}, or just the id "d1"',
            "field 'retrieved[0].doc' is missing",
            "field 'retrieved[1].doc.doc_id' must be a string, not a number; ids are strings, so put it in quotes",
            "field 'retrieved[1].score' must be a number or null, not a string",
            "field 'response.sentences[0]' must be an object, not a number",
            "field 'response.sentences[1].citations[0]' must be a string, not a number; ids are strings, so put it in quotes",
            "field 'response.sentences[1].text' is missing",
            "field 'response.text' is missing",
            "field 'timings.a' must be a number, not a string",
            "field 'timings.c' must be a number, not null",
            "field 'refused' must be true or false or null, not a number",
        ],
    ),
]


@pytest.mark.parametrize(
    ("line", "want"), SAMPLE_ROWS, ids=[row[0].decode(errors="replace")[:60] for row in SAMPLE_ROWS]
)
def test_samples(line: bytes, want: list[str]) -> None:
    assert sorted(find_problems(line, "samples")) == sorted(want)


@pytest.mark.parametrize(("line", "want"), OUTPUT_ROWS, ids=[row[0].decode()[:60] for row in OUTPUT_ROWS])
def test_outputs(line: bytes, want: list[str]) -> None:
    assert sorted(find_problems(line, "outputs")) == sorted(want)


def test_number_of_problems_is_limited() -> None:
    row = {"sample_id": "1", "query": "q", "reference_answers": list(range(99))}
    found = find_problems(json.dumps(row).encode(), "samples")
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1] == "there are more problems on this line"


def test_sample_id_of_an_invalid_line() -> None:
    assert find_line_problems(b'{"sample_id": "x"}', "samples", "p")[1] == "x"
    assert find_line_problems(b'{"sample_id": 3}', "samples", "p")[1] is None
    assert find_line_problems(b'{"sample_id": "x"', "samples", "p")[1] is None


def test_invalid_line_keeps_its_sample_id(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"sample_id": "a"}\n{"sample_id": "a", "query": "q"}\n{"sample_id": "b", "query": "q"}\n')
    problems = Problems(collect_all=True)
    assert [read.sample.sample_id for read in read_samples(path, problems)] == ["b"]
    assert problems.unreadable_ids == {"a"}
    assert [str(problem) for problem in problems.found] == [
        f"{path}:1: field 'query' is missing",
        f"{path}:2: sample_id 'a' is already on line 1; each id may come once",
    ]


# --- whatever comes ---------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        "sample_id", "query", "relevant_docs", "doc_id", "doc", "span", "text", "retrieved", "timings", "response",
        "reference_answer", "sentences", "citations", "labels", "history", "score", "rank", "refused", "lables", "\ud800",
    ]
)  # fmt: skip
LEAVES = st.sampled_from([None, True, 0, -1, 1.5, 10**30, 10**400, float("nan"), float("inf"), "", "a", "\udfff"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.sampled_from(["samples", "outputs"]))
def test_all_problems_include_the_first_error(row: dict[str, Any], role: Role) -> None:
    line = json.dumps(row).encode()
    first = ""
    try:
        (decode_sample if role == "samples" else decode_output)(line)
    except LineError as error:
        first = str(error)
    found = find_line_problems(line, role, first)[0] if first else [first]
    assert first in found
    assert len(found) == len(set(found))


@given(st.dictionaries(NAMES, VALUES, max_size=8), st.integers(0, 400), st.binary(max_size=3))
def test_damaged_lines_do_not_raise(
    tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any], at: int, piece: bytes
) -> None:
    line = json.dumps(row).encode()
    path = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    path.write_bytes(line[:at] + piece + line[at + 1 :])
    for read in (read_samples, iter_outputs):
        problems = Problems(collect_all=True)
        try:
            records = list(read(path, problems))
        except DataFileError:  # by chance the beginning is that of UTF-16 or of an archive
            continue
        assert len(records) + len({problem.line for problem in problems.found}) > 0
