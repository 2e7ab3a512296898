"""Records of JSON arrays, JSON lines and tables: positions and errors."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AueporaError, DataFileError
from auepora_eval.io.cells import parse_list_cell
from auepora_eval.io.codec import LineError
from auepora_eval.io.problems import Problems
from auepora_eval.io.tables import read_records


def write_file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_all(path: Path) -> list[tuple[int, int, dict[str, Any]]]:
    return [(record.number, record.line, record.values) for record in read_records(path, Problems())]


READ: list[tuple[str, str, list[tuple[int, dict[str, Any]]], str]] = [  # name, content, line and values, why
    ("a.json", '[{"a": 1}, {"a": 2}]', [(1, {"a": 1}), (1, {"a": 2})], "an array on one line"),
    (
        "a.json",
        '\ufeff[\n {"a": 1},\n\n {"a":\n 2},\n{"a": 1}]',
        [(2, {"a": 1}), (4, {"a": 2}), (6, {"a": 1})],
        "lines",
    ),
    ("a.jsonl", '[{"a": 1}]', [(1, {"a": 1})], "an array whatever its name"),
    ("a.json", '\n{"a": 1}\n\n{"a": 2}\n', [(2, {"a": 1}), (4, {"a": 2})], "lines whatever their name"),
    ("a.jsonl", '{"a": NaN, "b": 1}', [(1, {"b": 1})], "NaN is absent"),
    ("a.json", '[\n{"a": NaN},\n{"b": 1}\n]', [(2, {}), (3, {"b": 1})], "NaN in an array is absent"),
    ("a.json", '[{"a": "[1, 2]"}, {"a": "x, {"}]', [(1, {"a": "[1, 2]"}), (1, {"a": "x, {"})], "brackets in texts"),
    ("a.csv", "a,b\n1,x\n", [(2, {"a": "1", "b": "x"})], "a table"),
    ("a.tsv", "a\tb\n1\tx,y", [(2, {"a": "1", "b": "x,y"})], "a table with tabs"),
    ("a.csv", "a,b\r\n1,x\r\n\r\n2,y", [(2, {"a": "1", "b": "x"}), (4, {"a": "2", "b": "y"})], "Windows, blank line"),
    ("a.csv", "a,b\r1,x\r", [(1, {"a": "1", "b": "x"})], "line ends of old"),
    (
        "a.csv",
        'a,b\n"x\ny","q ""z"""\n2,',
        [(2, {"a": "x\ny", "b": 'q "z"'}), (4, {"a": "2", "b": None})],
        "quotes; an empty cell",
    ),
    ("a.csv", ',a\n0,x\n1,"a ""b"', [(2, {"a": "x"}), (3, {"a": 'a "b'})], "the index of pandas is not a column"),
    ("a.csv", 'a,b\n5" pipe,x', [(2, {"a": '5" pipe', "b": "x"})], "a quotation mark inside"),
    ("a.csv", "a\n" + "x" * 200_000, [(2, {"a": "x" * 200_000})], "longer than the standard library's limit"),
]


@pytest.mark.parametrize(("name", "content", "want", "why"), READ, ids=[row[-1] for row in READ])
def test_reading(tmp_path: Path, name: str, content: str, want: list[tuple[int, dict[str, Any]]], why: str) -> None:
    assert read_all(write_file(tmp_path / name, content)) == [(i, *one) for i, one in enumerate(want, start=1)], why


BAD: list[tuple[str, str, str]] = [  # name, content, the message after the path
    ("a.json", "", ": there is no record in the file"),
    ("a.json", "[]", ": there is no record in the file"),
    ("a.csv", "", ": there is no record in the file"),
    ("a.csv", "a,b\n", ": there is no record in the file"),
    ("a.json", "[1, {}]", ":1: record 1: each record must be one JSON object, not a number"),
    ("a.json", '[{}, {"a": Infinity}]', ":1: record 2: field 'a' is Infinity; numbers must be finite"),
    ("a.json", '[{},\n{"a": 1}, {"a": }]', ":2: record 3: not valid JSON: expecting value near column 17"),
    ("a.json", '[{}, {"a": ', ":1: record 2: not valid JSON: the file ends too early"),
    ("a.json", "[1]", ":1: each record must be one JSON object, not a number"),
    ("a.json", '[{"a": 1},\n[2]]', ":2: each record must be one JSON object, not an array"),
    ("a.json", "[\nNaN]", ":2: each record must be one JSON object, not a number"),
    ("a.json", '[{"a": 1},\n{"a": 2}', ":2: not valid JSON: the file ends before the list does"),
    ("a.json", '[{"a": 1},\n', ":2: not valid JSON: the file ends where a record should be"),
    ("a.json", '[{"a": 1}\n{"a": 2}]', ":2: not valid JSON: a comma is missing"),
    ("a.json", '[{"a": 1}]\n]', ":2: not valid JSON: there is more after the end of the list"),
    ("a.json", '[{"a": x}]', ":1: not valid JSON: expecting value near column 8"),
    ("a.json", '[{"a": "\\ud800"}]', ":1: field 'a' holds half of a surrogate pair, which is not valid text"),
    ("a.json", '[{"a": Infinity}]', ":1: field 'a' is Infinity; numbers must be finite"),
    ("a.json", '[{"a": [NaN]}]', ":1: field 'a[0]' is NaN; numbers must be finite"),
    ("a.json", '[{"a": 1e999}]', ":1: field 'a' is Infinity; numbers must be finite"),
    ("a.json", '[{"a": ' + "1" * 5000 + "}]", ":1: an integer has too many digits"),
    ("a.json", '[{"a": NaN, "b": ' + "1" * 5000 + "}]", ":1: an integer has too many digits"),
    ("a.json", "[" * 100_000, ":1: the values are nested too deeply"),
    ("a.jsonl", '{"a": 1}\n{"a"', ":2: not valid JSON: the line ends too early (each line must hold one whole object)"),
    ("a.jsonl", '{"a": 1}\n7', ":2: each record must be one JSON object, not a number"),
    ("a.csv", "a,b\n1\n", ":2: the row has 1 cells, but there are 2 columns"),
    ("a.csv", "a,b\n1,2,3\n", ":2: the row has 3 cells, but there are 2 columns"),
    ("a.csv", "a,a\n1,2\n", ":1: two columns have the name 'a'"),
    ("a.csv", 'a,b\n1,2\n"x,\n3', ":3: a cell begins with a quotation mark, but has none at its end"),
    ("a.csv", '"a,b\n', ":1: a cell begins with a quotation mark, but has none at its end"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=[f"{row[0]}{row[-1]}"[:70] for row in BAD])
def test_bad_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = write_file(tmp_path / name, content)
    with pytest.raises(DataFileError) as caught:
        read_all(path)
    assert str(caught.value) == f"{path}{message}"


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    for name, want in [("a.jsonl", "2: byte 0xff in column 8"), ("a.csv", "2: byte 0xff"), ("a.json", "2: byte 0xff")]:
        content = b'{"a": 1}\n{"a": "\xff"}' if name == "a.jsonl" else b'[{"a": 1},\n{"a": "\xff"}]'
        path = write_file(tmp_path / name, content)
        with pytest.raises(DataFileError) as caught:
            read_all(path)
        assert str(caught.value) == f"{path}:{want} is not valid UTF-8"


def test_collecting_counts_invalid_records(tmp_path: Path) -> None:
    problems = Problems(collect_all=True)
    path = write_file(tmp_path / "a.json", '[{"a": 1},\n7,\n{"a": 3}]')
    assert [record.number for record in read_records(path, problems)] == [1, 3]
    assert [str(problem) for problem in problems.found] == [
        f"{path}:2: each record must be one JSON object, not a number"
    ]


def test_collecting_continues_after_invalid_json(tmp_path: Path) -> None:
    problems = Problems(collect_all=True)
    path = write_file(tmp_path / "a.json", '[\n {"a": 1},\n {"a": x},\n {"a": 3}\n {"a": 4, "a": 5},\n 6,')
    assert [(record.number, record.values["a"]) for record in read_records(path, problems)] == [(1, 1), (3, 3), (4, 5)]
    assert [str(problem).removeprefix(str(path)) for problem in problems.found] == [
        ":3: not valid JSON: expecting value near column 8",
        ":5: not valid JSON: a comma is missing",
        ":6: each record must be one JSON object, not a number",
        ":6: not valid JSON: the file ends where a record should be",
    ]
    assert [str(one).removeprefix(str(path)) for one in problems.warnings.summarize()] == [
        ":5: field 'a' occurs twice in its object; the last one counts"
    ]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), min_size=1, max_size=5),
    st.sampled_from([None, 1]),
)
def test_array_items_have_lines(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], indent: int | None
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = json.dumps(records, indent=indent, ensure_ascii=False)
    got = read_all(write_file(folder / "rows.json", text))
    assert [values for _, _, values in got] == records
    for number, line, _ in got:
        assert text.split("\n")[line - 1].strip().startswith("[{" if indent is None else "{"), (number, line)
    assert got == [
        (number, line, values) for (number, line, values) in read_all(write_file(folder / "rows.json", text + " \n"))
    ]


@given(st.binary(max_size=60), st.sampled_from(["x.json", "x.jsonl", "x.csv", "x.tsv"]))
def test_any_bytes_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str) -> None:
    path = write_file(tmp_path_factory.getbasetemp() / name, content)
    try:
        assert read_all(path)
    except AueporaError as error:
        assert str(error).startswith(str(path))  # noqa: PT017


LISTS: list[tuple[str, list[Any] | None, str]] = [
    ('["a", "b"]', ["a", "b"], "JSON"),
    ("['a', \"b's\"]", ["a", "b's"], "as Python writes it"),
    ("['a\\\\d', 'b\\d']", ["a\\d", "b\\d"], "a backslash that means nothing"),
    (" [1, 2]\n", [1, 2], "white space around"),
    ("['a','b',]", ["a", "b"], "by hand"),
    ("[]", [], "nothing"),
    ("a, b", None, "just text"),
    ("", None, "no text"),
]


@pytest.mark.parametrize(("cell", "want", "why"), LISTS, ids=[row[-1] for row in LISTS])
def test_lists_in_cells(cell: str, want: list[Any] | None, why: str) -> None:
    assert parse_list_cell(cell) == want, why


BAD_LISTS: list[tuple[str, str]] = [
    ("['a' 'b']", "looks like a NumPy array, whose strings cannot be separated"),
    ("['a'\n 'b']", "looks like a NumPy array"),
    ("['a' 'b' ... 'z']", "is not a list"),
    ("[a]", "is not a list, neither as JSON nor as Python writes it"),
    ("[__import__('os').getcwd()]", "is not a list"),
    ("[1", "is not a list"),
    ("[1].x", "is not a list"),
    ("[" * 5000, "is not a list"),
    ("[\0]", "is not a list"),
]


@pytest.mark.parametrize(("cell", "message"), BAD_LISTS, ids=[row[0][:20] for row in BAD_LISTS])
def test_cells_that_are_not_lists(cell: str, message: str) -> None:
    with pytest.raises(LineError, match=message):
        parse_list_cell(cell)


@given(st.lists(st.text()))
def test_list_round_trip_as_json_and_python(texts: list[str]) -> None:
    assert parse_list_cell(json.dumps(texts)) == texts
    assert parse_list_cell(repr(texts)) == texts


@given(st.text("[]'\"a,\\ \n", max_size=20))
def test_any_cell_raises_only_our_errors(text: str) -> None:
    with contextlib.suppress(LineError):
        parse_list_cell(f"[{text}")
