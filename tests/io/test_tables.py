"""Any table as input: columns that a user names, delimiters, Excel, Parquet, records under a key, descriptions of files."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auepora_eval.errors import BadValueError, DataFileError, MissingDependencyError
from auepora_eval.io.convert import convert_files
from auepora_eval.io.formats import guess_format
from auepora_eval.io.join import load_dataset, load_outputs, open_dataset
from auepora_eval.io.validate import validate_files
from helpers.requirements import need

COLUMNS = {"query": "Question", "response": "Answer", "contexts": "Contexts", "reference": "Expected"}
HOSTILE = "=cmd|' /C calc'!A0 <script>::error ##[ | [x](javascript:1) \u202e"


def write_file(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read_first(
    path: Path, columns: dict[str, str] | None = None, **options: Any
) -> tuple[str, str, list[str], list[str]]:
    """Query, answer, contexts and references of the first record."""
    sample = next(iter(load_dataset(path, columns=columns, **options)))
    output = load_outputs(path, columns=columns, **options)[sample.sample_id]
    answer = "" if output.response is None else output.response.text
    return sample.query, answer, [one.doc.text for one in output.retrieved], sample.references


CSV: list[tuple[str, bytes, dict[str, str], tuple[str, str, list[str], list[str]], str]] = [
    ("a.csv", b'Question,Answer,Contexts,Expected\nq,a,"[""c"", ""d""]",e\n', {}, ("q", "a", ["c", "d"], ["e"]), "comma"),
    ("a.csv", b"Question;Answer;Contexts;Expected\nq, r;a;['c'];e\n", {}, ("q, r", "a", ["c"], ["e"]), "semicolon"),
    ("a.csv", b"Question\tAnswer\tContexts\tExpected\nq,\ta\tc\te\n", {}, ("q,", "a", ["c"], ["e"]), "tab in .csv"),
    ("a.csv", b"Question|Answer|Contexts|Expected\nq|a|c|e\n", {}, ("q", "a", ["c"], ["e"]), "bar"),
    ("a.csv", b"Question~Answer~Contexts~Expected\nq~a~c~e\n", {"delimiter": "~"}, ("q", "a", ["c"], ["e"]), "any other, by name"),
    ("a.csv", b'\xef\xbb\xbfQuestion,Answer,Contexts,Expected\r\n"q\r\n2","a ""b""",one text,e\r\n', {}, ("q\r\n2", 'a "b"', ["one text"], ["e"]), "byte order mark, quoted line end"),
    ("a.csv", b"Question,Answer,Contexts,Expected\nq,a,c;d,e\n", {"separator": ";"}, ("q", "a", ["c", "d"], ["e"]), "a separator of texts"),
    ("a.csv", b"Question,Answer,Contexts,Expected\nq,a,,e\nr,,c,e\n", {}, ("q", "a", [], ["e"]), "an empty cell is missing"),
    ("a.csv", b"Question, long;Answer;Contexts;Expected\nq, r;a;c;e\nx;a;c;e\n", {"query": "Question, long"}, ("q, r", "a", ["c"], ["e"]), "commas in cells of a file with semicolons"),
    ("a.tsv", b"Question\tAnswer\tContexts\tExpected\nq;\ta\tc\te\n", {}, ("q;", "a", ["c"], ["e"]), "tsv"),
    ("a.jsonl", b'{"Question": "q", "Answer": "a", "Contexts": "c", "Expected": ["e", "f"]}\n', {}, ("q", "a", ["c"], ["e", "f"]), "JSON: one text as a list, a list of references"),
    ("a.json", b'{"v": 1,\n "data": [{"Question": "q", "Answer": "a", "Contexts": ["c"], "Expected": "e"}]}', {}, ("q", "a", ["c"], ["e"]), "records under the only key"),
    ("a.json", b'{"a": [{"x": 1}], "b": [{"Question": "q", "Answer": "a", "Contexts": ["c"], "Expected": "e"}]}', {"rows": "b"}, ("q", "a", ["c"], ["e"]), "records under a named key"),
    ("a.jsonl", b'{"Question": "q", "Answer": "a", "Contexts": [{"t": "c"}, {"t": "d"}], "Expected": {"x": {"y": "e"}}}\n', {"contexts": "Contexts.t", "reference": "Expected.x.y"}, ("q", "a", ["c", "d"], ["e"]), "nested"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "more", "want", "why"), CSV, ids=[row[-1] for row in CSV])
def test_named_columns(
    tmp_path: Path,
    name: str,
    content: bytes,
    more: dict[str, str],
    want: tuple[str, str, list[str], list[str]],
    why: str,
) -> None:
    path = write_file(tmp_path / name, content)
    assert read_first(path, {**COLUMNS, **more}) == want, why


def test_other_columns_are_metadata_and_ids_are_found(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.csv", f'id,Question,Note\nx7,q,"{HOSTILE}"\nx8,r,\n')
    samples = list(load_dataset(path, columns={"query": "Question"}))
    assert [(one.sample_id, one.metadata) for one in samples] == [("x7", {"Note": HOSTILE}), ("x8", {})]
    assert list(open_dataset(path, columns={"question": "Question"})) == samples


KNOWN: list[tuple[dict[str, Any], tuple[str, str, list[str], list[str]], str, str]] = [
    ({"user_input": "q", "response": "a", "retrieved_contexts": ["c"], "reference": "e"}, ("q", "a", ["c"], ["e"]), "ragas", "ragas"),
    ({"question": "q", "answer": "a", "contexts": ["c"], "ground_truths": ["e", "f"]}, ("q", "a", ["c"], ["e", "f"]), "ragas", "ragas before 0.2"),
    ({"input": "q", "actual_output": "a", "retrieval_context": ["c"], "expected_output": "e"}, ("q", "a", ["c"], ["e"]), "deepeval", "deepeval"),
    ({"question": "q", "documents": ["c"], "response": "a"}, ("q", "a", ["c"], []), "table", "RAGBench"),
    ({"query": "q", "contexts": ["c"], "response": "a", "reference": "e"}, ("q", "a", ["c"], ["e"]), "table", "our short names"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "want", "found", "why"), KNOWN, ids=[row[-1] for row in KNOWN])
def test_well_known_columns_of_parquet(
    tmp_path: Path, row: dict[str, Any], want: tuple[str, str, list[str], list[str]], found: str, why: str
) -> None:
    arrow, parquet = need("pyarrow"), need("pyarrow.parquet")
    table = arrow.Table.from_pylist([{**row, "__index_level_0__": 7}])
    parquet.write_table(table, tmp_path / "a.parquet")
    assert guess_format(tmp_path / "a.parquet", "samples").name == found
    assert read_first(tmp_path / "a.parquet") == want, why
    assert not next(iter(load_dataset(tmp_path / "a.parquet"))).metadata


def test_squad_as_hugging_face_stores_it(tmp_path: Path) -> None:
    arrow, parquet = need("pyarrow"), need("pyarrow.parquet")
    row = {"id": "s1", "question": "q", "context": "c", "answers": {"text": ["e", "f"], "answer_start": [1, 2]}}
    parquet.write_table(arrow.Table.from_pylist([row]), tmp_path / "a.parquet")
    write_file(tmp_path / "a.jsonl", json.dumps(row))
    for name in ("a.parquet", "a.jsonl"):
        [sample] = load_dataset(tmp_path / name)
        assert (sample.sample_id, sample.references) == ("s1", ["e", "f"])
        assert [one.text for one in sample.relevant_docs or ()] == ["c"]


# --- Excel -----------------------------------------------------------------------------------------------------------


def save_workbook(path: Path, rows: list[list[Any]], title: str = "Sheet") -> Path:
    book = need("openpyxl").Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.create_sheet("Second").append(["query", "response"])
    book["Second"].append(["other", "b"])
    book.save(path)
    return path


def test_excel(tmp_path: Path) -> None:
    from datetime import datetime

    header = ["Question", "Answer", "Contexts", "Expected", "Nr", "Day", None]
    first = ["q\n2", 42, '["c"]', True, 7.0, datetime(2030, 1, 31)]
    path = save_workbook(tmp_path / "a.xlsx", [header, first, [None] * 6, ["r", "b", "c d", None]])
    samples, outputs = load_dataset(path, columns=COLUMNS), load_outputs(path, columns=COLUMNS)
    assert read_first(path, COLUMNS) == ("q\n2", "42", ["c"], ["true"])
    assert [one.metadata for one in samples] == [{"Nr": "7", "Day": "2030-01-31T00:00:00"}, {}]
    assert [one.doc.text for one in outputs["2"].retrieved] == ["c d"]
    assert load_outputs(path, columns={"query": "query", "response": "response", "sheet": "Second"}).keys() == {"1"}
    assert read_first(save_workbook(tmp_path / "b.xlsx", [["query", "response"], ["q", "a"]]))[:2] == ("q", "a")


BAD_EXCEL: list[tuple[str, dict[str, str] | None, str]] = [
    ("missing.xlsx", None, "no such file"),
    ("a.xlsx", {"query": "Question", "sheet": "Third"}, "there is no sheet 'Third'; the sheets are 'Sheet', 'Second'"),
    ("a.xlsx", None, "this is Excel with the columns 'Question', 'Wide'; say which is which"),
    ("a.xlsx", {"query": "Question"}, ":3: the row has 3 cells, but there are 2 columns"),
    ("text.xlsx", {"query": "Question"}, "cannot be read as Excel: File is not a zip file"),
    ("a.xlsx.gz", {"query": "Question"}, "Excel files are compressed already"),
]


@pytest.mark.parametrize(("name", "columns", "message"), BAD_EXCEL, ids=[row[-1][:40] for row in BAD_EXCEL])
def test_bad_excel(tmp_path: Path, name: str, columns: dict[str, str] | None, message: str) -> None:
    save_workbook(tmp_path / "a.xlsx", [["Question", "Wide"], ["q"], ["q", None, "x"]])
    write_file(tmp_path / "text.xlsx", "hello")
    write_file(tmp_path / "a.xlsx.gz", (tmp_path / "a.xlsx").read_bytes())
    with pytest.raises(DataFileError) as caught:
        list(load_dataset(tmp_path / name, columns=columns))
    assert message in str(caught.value)


def test_workbook_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_workbook(tmp_path / "a.xlsx", [["query", "response"], ["q", "x" * 20_000]])
    monkeypatch.setenv("AUEPORA_MAX_LINE_SIZE", "10KB")
    with pytest.raises(DataFileError, match="the workbook is larger than 10KB"):
        load_dataset(path, columns={"query": "query"})


def test_excel_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    path = write_file(tmp_path / "a.xlsx", "anything")
    for columns in (None, COLUMNS):
        with pytest.raises(MissingDependencyError, match=r"pip install 'auepora-eval\[excel\]'"):
            load_dataset(path, columns=columns)


GROUPS: list[tuple[str, str, list[list[str]], str]] = [  # name, content, want, why
    ("a.csv", 'q,ids,g\nx,"[""a"", ""b"", ""c""]","[[""a"", ""b""], [""c""]]"\n', [["a", "b"], ["c"]], "a list of lists"),
    ("a.csv", "q,ids,g\nx,\"['a', 'b']\",\"[['a', 'b']]\"\n", [["a", "b"]], "as Python writes it"),
    ("a.csv", 'q,ids,g\nx,"[1, 2, 3]","[[1, 2], ""3""]"\n', [["1", "2"], ["3"]], "integers, and a bare string as a group of one"),
    ("a.csv", "q,ids,g\nx,a,\ny,b,[[]]\n", [], "an empty cell is no group"),
    ("a.jsonl", '{"q": "x", "ids": ["a", "b"], "g": [["a", "b"]]}', [["a", "b"]], "JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "want", "why"), GROUPS, ids=[row[-1] for row in GROUPS])
def test_groups(tmp_path: Path, name: str, content: str, want: list[list[str]], why: str) -> None:
    columns = {"query": "q", "relevant_ids": "ids", "relevant_groups": "g"}
    sample = next(iter(load_dataset(write_file(tmp_path / name, content), columns=columns)))
    assert sample.relevant_groups == want, why


def test_groups_of_parquet_columns(tmp_path: Path) -> None:
    pa = need("pyarrow")
    from pyarrow import parquet

    rows = {"q": ["x", "y"], "ids": [["a", "b"], ["c"]], "g": [[["a", "b"]], None]}
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    columns = {"query": "q", "relevant_ids": "ids", "relevant_groups": "g"}
    samples = list(load_dataset(tmp_path / "a.parquet", columns=columns))
    assert [sample.relevant_groups for sample in samples] == [[["a", "b"]], []]


# --- errors ----------------------------------------------------------------------------------------------------------

TWO = "Question,Answer\nq,a\n"
BAD: list[tuple[str, str | bytes, dict[str, str], str | None, str]] = [  # name, content, columns, format, message
    ("a.csv", TWO, {"query": "Qestion"}, None, "there is no column 'Qestion'; the columns are 'Question', 'Answer'; did you mean 'Question'?"),
    ("a.jsonl", '{"q": "x"}\n{"r": "y"}', {"query": "z"}, None, "there is no column 'z'; the columns are 'q', 'r'"),
    ("a.csv", TWO, {"respnse": "Answer"}, None, "no column can hold 'respnse'; did you mean 'response'?"),
    ("a.csv", TWO, {"colour": "Answer"}, None, "no column can hold 'colour'; known are delimiter, sheet, rows, query,"),
    ("a.csv", TWO, {"query": "Question", "response": "Answer", "reference": "Answer"}, None, "the column 'Answer' cannot be both"),
    ("a.csv", TWO, {"contexts": "Answer", "retrieved_texts": "Question"}, None, "the field 'retrieved_texts' has two columns"),
    ("a.csv", TWO, {"query": ""}, None, "the column of 'query' must be a name"),
    ("a.csv", TWO, {"query": "Question", "delimiter": "::"}, None, "a delimiter is one character, not '::'"),
    ("a.csv", TWO, {"response": "Answer"}, None, "the columns must say which one holds the 'query'"),
    ("a.csv", TWO, {"query": "Question"}, "ragas", "the format 'ragas' has columns of its own"),
    ("a.csv", b"Question,Answer\nq,a\nq,\xff\n", {"query": "Question"}, None, ":3: byte 0xff is not valid UTF-8"),
    ("a.csv", 'Question,Answer\n"q\nr",\n"x', {"query": "Question"}, None, ":4: a cell begins with a quotation mark"),
    ("a.csv", "Question,Contexts\nq,\"['a' 'b']\"\n", {"query": "Question", "contexts": "Contexts"}, None, ":2: \"['a' 'b']\" looks like a NumPy array"),
    ("a.csv", 'q,g\nx,"[[""a"", """"]]"\n', {"query": "q", "relevant_groups": "g"}, None, ":2: field 'g[0][1]' is empty; an id needs"),
    ("a.jsonl", '{"q": "x", "g": [["a"], [["b"]]]}', {"query": "q", "relevant_groups": "g"}, None, ":1: field 'g[1][0]' must be a string or an integer, not an array"),
    ("a.jsonl", '{"q": "x", "g": {"a": 1}}', {"query": "q", "relevant_groups": "g"}, None, ":1: field 'g' must be an array, not an object"),
    ("a.json", '{"a": [{"q": 1}], "b": [{"q": 1}]}', {"query": "q"}, None, "there are records under the keys 'a', 'b'; name one, as in --columns rows=a"),
    ("a.json", '{"a": [{"q": 1}]}', {"query": "q", "rows": "c"}, None, "there are no records under 'c'; there are records 'a'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "columns", "kind", "message"), BAD, ids=[row[-1][:50] for row in BAD])
def test_bad_columns(
    tmp_path: Path, name: str, content: str | bytes, columns: dict[str, str], kind: str | None, message: str
) -> None:
    path = write_file(tmp_path / name, content)
    with pytest.raises((DataFileError, BadValueError)) as caught:
        load_dataset(path, kind, columns=columns)
    assert message in str(caught.value)


WRONG_FORMAT: list[tuple[str, str, str, str]] = [
    ("a.csv", TWO, "jsonl", "this is CSV with the columns 'Question', 'Answer'; use --format csv and say which is which"),
    ("a.csv", TWO, "ragas", "this is CSV with the columns 'Question', 'Answer'; use --format csv"),
    ("a.txt", "Question;Answer\nq;a\n", "jsonl", "this is CSV with the columns 'Question', 'Answer'; use --format csv"),
    ("a.csv", "user_input,response\nq,a\n", "jsonl", "the file looks like ragas (records of ragas: JSON, JSONL or CSV): use --format ragas"),
    ("a.jsonl", '{"sample_id": "1", "query": "q"}', "ragas", "the file looks like jsonl"),
    ("a.txt", "q1 0 d1 1\n", "jsonl", "the file looks like trec"),
    ("a.json", '{"user_input": "q"}', "csv", "this is JSON, not CSV; the file looks like ragas"),
    ("a.csv", f'"{HOSTILE}",\x1b[31m\n1,2\n', "jsonl", "\\x1b[31m"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"), WRONG_FORMAT, ids=[row[-1][:50] for row in WRONG_FORMAT]
)
def test_wrong_format_is_described(tmp_path: Path, name: str, content: str, kind: str, message: str) -> None:
    path = write_file(tmp_path / name, content)
    with pytest.raises(DataFileError) as caught:
        load_dataset(path, kind)
    assert message in str(caught.value)
    assert any(message in one.message for one in validate_files(path, dataset_format=kind).problems)


def test_format_names_of_tables(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.txt", "query;response\nq;a\n")
    assert read_first(path, format="csv")[:2] == ("q", "a")
    path = write_file(tmp_path / "b.txt", "query\tresponse\nq;,\ta\n")
    assert read_first(path, format="tsv")[:2] == ("q;,", "a")
    assert read_first(path, {"query": "query", "response": "response"}, format="tsv")[:2] == ("q;,", "a")


# --- commands and plans ----------------------------------------------------------------------------------------------


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auepora: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "a.csv", "Nr,Question,Answer,Expected\n1,q,x y,x y\n2,r,z,w\n")
    write_file(tmp_path / "data.jsonl", '{"sample_id": "1", "query": "q", "reference_answer": "x y"}\n')
    named = "id=Nr,query=Question,response=Answer,reference=Expected"
    as_json = json.dumps({"query": "Question", "response": "Answer", "reference": "Expected"})
    for arguments, value in [
        (["a.csv", "--columns", named], 1 / 2),
        (["a.csv", "--columns", as_json], 1 / 2),
        (["data.jsonl", "a.csv", "--outputs-columns", "id=Nr,response=Answer"], 1.0),
    ]:
        code, out, _ = auepora("score", *arguments, "-m", "exact_match", "--json")
        assert code == 0
        assert json.loads(out)["results"][0]["value"] == value
    code, out, _ = auepora("validate", "a.csv", "--columns", named)
    assert code == 0
    assert "2 outputs in a.csv (table)" in out
    done = convert_files("a.csv", "s.jsonl", columns={"query": "Question", "response": "Answer"}, outputs_out="o.jsonl")
    assert done.counts == {"samples": 2, "outputs": 2}
    for bad, message in [
        (["score", "a.csv", "--columns", "query"], "write field=column,field=column"),
        (["score", "a.csv", "--columns", "query=q,metadata.wrong=fake"], "no column can hold 'metadata.wrong'"),
        (["score", "a.csv", "--columns", "query=a, b,labels.x=y"], "no column can hold 'labels.x'"),
        (["score", "a.csv", "--columns", "query=Question,query=Answer"], "'query' is given twice"),
        (["score", "a.csv", "--columns", '{"query": '], "cannot read the columns"),
        (["score", "a.csv", "--outputs-columns", "response=Answer"], "--outputs-columns goes with OUTPUTS"),
        (["score", "*.csv", "--columns", named], "--columns goes with one DATASET file"),
        (["validate", "a.csv", "--outputs-columns", "response=Answer"], "--outputs-columns goes with OUTPUTS"),
    ]:
        code, _, err = auepora(*bad)
        assert code == 2
        assert message in err


def test_columns_of_a_plan(tmp_path: Path) -> None:
    from auepora_eval.plan.prepare import check_plan, read_plan

    write_file(tmp_path / "a.csv", "Question,Answer,Expected\nq,x,x\n")
    plan = "dataset: {csv: a.csv, columns: {query: Question, reference: Expected}}\noutputs: {auto: a.csv, columns: {response: Answer}}\nmetrics: [exact_match]\n"
    path = write_file(tmp_path / "plan.yaml", plan)
    assert not check_plan(path).problems
    assert read_plan(path).dataset.columns == {"query": "Question", "reference": "Expected"}
    for old, new, message in [
        ("query: Q", "qery: Q", "plan.yaml:1: dataset.columns: no column can hold 'qery'; did you mean 'query'?"),
        ("query: Question", "query: Text", "a.csv: there is no column 'Text'; the columns are 'Question'"),
        ("csv: a", "ragas: a", "the format 'ragas' has columns of its own"),
    ]:
        problems = check_plan(write_file(path, plan.replace(old, new))).problems
        assert any(message in str(one) for one in problems), problems


def test_warnings_of_openpyxl_are_not_shown(tmp_path: Path) -> None:
    path = save_workbook(tmp_path / "a.xlsx", [["query", "response"], ["q", "a"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_first(path)[0] == "q"


@pytest.mark.parametrize(
    ("header", "proposed"),
    [
        ("Frage,Antwort", "query=Frage,response=Antwort"),
        ("Nr,Frage,Expected answer", "'query=Nr,reference=Expected answer'"),
        ("Passages,Asked question,Reply", "'query=Asked question,contexts=Passages'"),
        ("text", "query=text"),
        ("id,question", "query=question"),
    ],
)
def test_proposed_columns_are_those_of_the_file(tmp_path: Path, header: str, proposed: str) -> None:
    path = write_file(tmp_path / "a.csv", f"{header}\n{','.join('x' for _ in header.split(','))}\n")
    with pytest.raises(DataFileError) as caught:
        load_dataset(path)
    assert str(caught.value).endswith(f"--columns {proposed}")
