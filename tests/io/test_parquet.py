"""Parquet files: round trips of all fields, and clear errors."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError, MissingDependencyError
from auepora_eval.io import parquet as module
from auepora_eval.io.formats import guess_format
from auepora_eval.io.join import iter_samples, load_dataset, load_outputs, read_outputs_file
from auepora_eval.io.parquet import save_parquet_dataset, save_parquet_outputs
from auepora_eval.io.problems import Problems
from helpers.requirements import examples, need

CHUNK = Document("c", "té\u2028xt", {"relevance": 2, "deep": {"a": [1, None]}}, "p", (3, 9))
ANSWER = Response("A.", {"k": [1]}, {"model": "m"}, [{"text": "A.", "citations": ["c"]}, {"text": "B."}])
SAMPLES = [
    EvaluationSample(
        "1",
        "q",
        [CHUNK, Document("d")],
        [Document("e", "")],
        ANSWER,
        {"lang": "de", "n": 1.5, "none": None},
        {"big": 2**70, "": [True]},
        ["A.", "B"],
        [{"role": "user", "content": "hi"}],
        "cluster",
        [["c", "d"], ["c"]],
    ),
    EvaluationSample("2", ""),
    EvaluationSample("3", "q", [], []),
    EvaluationSample("4", "q", reference_answer=Response("", structured={})),
]
OUTPUTS = {
    "1": SystemOutputs(
        [RetrievedDocument(CHUNK, 0.1, 1), RetrievedDocument(Document("d"), None, 7)],
        ANSWER,
        {"end_to_end": 0.25, "started": 1e9},
        {"x": [1, {"y": None}]},
        None,
        False,
        ["c"],
        [{"query": "q", "retrieved": ["c"]}],
        {"tokens": 5, "cost": 0.5},
        2,
    ),
    "2": SystemOutputs([], error="timeout: 30 s", refused=True, citations=[]),
    "3": SystemOutputs([], Response("")),
    "4": SystemOutputs([]),
}


@pytest.fixture(autouse=True)
def pa() -> Any:
    return need("pyarrow")


def table(path: Path, **columns: Any) -> Path:
    need("pyarrow")
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_full_round_trip(tmp_path: Path) -> None:
    save_parquet_dataset(SAMPLES, tmp_path / "data.parquet")
    dataset = load_dataset(tmp_path / "data.parquet")
    assert dataset.name == "data"
    assert list(dataset) == SAMPLES
    save_parquet_outputs(OUTPUTS.items(), tmp_path / "out.parquet")
    assert list(load_outputs(tmp_path / "out.parquet").items()) == list(OUTPUTS.items())
    assert not read_outputs_file(tmp_path / "out.parquet").answers_only


def test_column_types(tmp_path: Path) -> None:
    from pyarrow import parquet

    save_parquet_dataset(SAMPLES, tmp_path / "data.parquet")
    document = "struct<doc_id: string, text: string, metadata: string, parent_id: string, span: list<element: int64>>"
    schema = parquet.read_schema(tmp_path / "data.parquet")
    assert str(schema.field("relevant_docs").type) == f"list<element: {document}>"
    assert str(schema.field("labels").type) == "string"


def test_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    monkeypatch.setattr(module, "ROW_GROUP", 3)
    many = [EvaluationSample(str(number), "q") for number in range(8)]
    save_parquet_dataset(iter(many), tmp_path / "data.parquet")
    assert parquet.ParquetFile(tmp_path / "data.parquet").num_row_groups == 3
    assert list(load_dataset(tmp_path / "data.parquet")) == many


def test_tables_of_other_tools(tmp_path: Path) -> None:
    path = table(
        tmp_path / "data.parquet",
        sample_id=["1", "2"],
        query=["q", "r"],
        relevant_docs=[["a", "b"], None],
        labels=[{"lang": "de"}, {"lang": None}],
        metadata=['{"a": 1}', None],
        reference_answer=["text", None],
        __index_level_0__=[0, 1],
    )
    assert list(load_dataset(path)) == [
        EvaluationSample("1", "q", [Document("a"), Document("b")], None, Response("text"), {"lang": "de"}, {"a": 1}),
        EvaluationSample("2", "r", labels={"lang": None}),
    ]
    path = table(tmp_path / "out.parquet", sample_id=["1"], response=["x"])
    assert read_outputs_file(path).answers_only


BAD: list[tuple[dict[str, Any], str]] = [  # columns, message after the path
    ({"query": ["q"]}, ":1: field 'sample_id' is missing"),
    ({"sample_id": ["1", None], "query": ["q", "q"]}, ":2: field 'sample_id' is missing"),
    ({"sample_id": [1], "query": ["q"]}, ":1: field 'sample_id' must be a string, not a number; ids are strings, so put it in quotes"),
    ({"sample_id": ["1"], "question": ["q"]}, ":1: unknown field 'question'; did you mean 'query'?"),
    ({"sample_id": ["1", "1"], "query": ["q", "q"]}, ":2: sample_id '1' is already on line 1; each id may come once"),
    ({"sample_id": ["1"], "query": ["q"], "labels": ["{"]}, ":1: column 'labels' must be JSON text: Expecting property name enclosed in "
     "double quotes: line 1 column 2 (char 1)"),
    ({"sample_id": ["1"], "query": ["q"], "labels": ["[]"]}, ":1: field 'labels' must be an object, not an array"),
    ({"sample_id": [b"1"], "query": ["q"]}, ":1: a value cannot be represented in JSON: Object of type bytes is not JSON serializable"),
    ({"sample_id": [], "query": []}, ": the table is empty; each row must be one sample, or the output for one"),
    ({"sample_id": ["1"], "query": ["q"], "metadata": ['{"a": NaN}']}, ":1: field 'metadata.a' is NaN; numbers must be finite"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "message"), BAD, ids=[row[-1][:60] for row in BAD])
def test_bad_tables(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = table(tmp_path / "data.parquet", **columns)
    with pytest.raises((DataFileError, DuplicateIdError)) as caught:
        load_dataset(path)
    assert str(caught.value) == f"{path}{message}"


def test_all_invalid_rows_are_reported(tmp_path: Path) -> None:
    path = table(tmp_path / "data.parquet", sample_id=["1", None, "3", "3"], query=["q", None, None, "q"])
    problems = Problems(collect_all=True)
    assert [read.line for read in iter_samples(path, None, problems)] == [1]
    assert [(problem.line, problem.message) for problem in problems.found] == [
        (2, "field 'sample_id' is missing"),
        (2, "field 'query' is missing"),
        (3, "field 'query' is missing"),
        (4, "sample_id '3' is already on line 3; each id may come once"),
    ]


def test_files_that_are_not_parquet(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    for content in (b"", b"PAR1", b"sample_id,query\n1,q\n" * 9):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"data\.parquet: cannot be read as Parquet: "):
            load_dataset(path)
    with pytest.raises(DataFileError, match="no such file"):
        load_dataset(tmp_path / "none.parquet", "parquet")
    with pytest.raises(DataFileError, match="compress what they hold themselves"):
        list(iter_samples(tmp_path / "a.parquet.gz", "parquet"))
    with pytest.raises(DataFileError, match="compress what they hold themselves"):
        save_parquet_dataset(SAMPLES, tmp_path / "a.parquet.gz")


def test_format_detection(tmp_path: Path) -> None:
    save_parquet_dataset(SAMPLES, tmp_path / "a.parquet")
    save_parquet_dataset(SAMPLES, tmp_path / "b")
    for role in ("samples", "outputs"):
        assert guess_format(tmp_path / "a.parquet", role).name == "parquet"
    assert guess_format(tmp_path / "b", "samples").name == "parquet"


def test_without_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name))
    for attempt in (
        lambda: save_parquet_dataset(SAMPLES, tmp_path / "a.parquet"),
        lambda: list(iter_samples(tmp_path / "a.parquet", "parquet")),
    ):
        with pytest.raises(MissingDependencyError) as caught:
            attempt()
        assert str(caught.value) == (
            "reading and writing Parquet needs the package 'pyarrow': pip install 'auepora-eval[parquet]'"
        )


# --- writing ---------------------------------------------------------------------------------------------------------

BAD_OUTPUTS: list[tuple[SystemOutputs, str]] = [  # output, message
    (SystemOutputs([], extra={"a": {1}}), "the output for sample 'x' cannot be written: field 'extra.a' holds a value of type 'set'"),
    (SystemOutputs([], repeat=2**80), "the output for sample 'x' cannot be written: "),
    (SystemOutputs([RetrievedDocument(Document("\ud800"), None, 1)]), "the output for sample 'x' cannot be written: "),
]  # fmt: skip


@pytest.mark.parametrize(("output", "message"), BAD_OUTPUTS, ids=range(len(BAD_OUTPUTS)))
def test_failed_write_keeps_the_old_file(tmp_path: Path, output: SystemOutputs, message: str) -> None:
    path = tmp_path / "out.parquet"
    path.write_bytes(b"old")
    with pytest.raises(BadValueError) as caught:
        save_parquet_outputs([*OUTPUTS.items(), ("x", output)], path)
    assert str(caught.value).startswith(message)
    with pytest.raises(DuplicateIdError, match="sample_id '1' occurs twice"):
        save_parquet_dataset([*SAMPLES, SAMPLES[0]], path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]


def test_errors_of_the_callers_iterable_are_not_translated(tmp_path: Path) -> None:
    def broken() -> Iterator[EvaluationSample]:
        yield SAMPLES[0]
        raise FileNotFoundError("the caller's own file")

    with pytest.raises(FileNotFoundError, match="the caller's own file"):
        save_parquet_dataset(broken(), tmp_path / "data.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the devices of Linux")
def test_full_disk() -> None:
    with pytest.raises(DataFileError, match="cannot be written: "):
        save_parquet_dataset(SAMPLES, "/dev/full")


text = st.text(st.characters(codec="utf-8"), max_size=6)
ids = text.filter(bool)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(text, plain, max_size=2)
documents = st.builds(
    Document, ids, text, objects, st.none() | text, st.none() | st.tuples(st.integers(0, 9), st.integers(9, 99))
)
sentences = st.lists(
    st.fixed_dictionaries({"text": text}, optional={"citations": st.lists(text, max_size=2)}), max_size=2
)
answers = st.builds(Response, text, st.none() | objects, objects, st.none() | sentences)
samples = st.builds(
    EvaluationSample,
    ids,
    text,
    st.none() | st.lists(documents, max_size=2),
    st.none() | st.lists(documents, max_size=2),
    st.none() | answers,
    objects,
    objects,
    st.lists(text, max_size=2),
    st.lists(objects, max_size=2),
    st.none() | text,
    st.lists(st.lists(ids, max_size=2), max_size=3),
)
finite = st.floats(allow_nan=False, allow_infinity=False)
outputs = st.builds(
    SystemOutputs,
    st.lists(st.builds(RetrievedDocument, documents, st.none() | finite, st.integers(-9, 2**62)), max_size=2),
    st.none() | answers,
    st.dictionaries(text, finite, max_size=2),
    objects,
    st.none() | text,
    st.none() | st.booleans(),
    st.none() | st.lists(text, max_size=2),
    st.lists(objects, max_size=2),
    objects,
    st.integers(-9, 2**62),
)


@settings(max_examples=examples(60))
@given(
    st.lists(samples, min_size=1, max_size=3, unique_by=lambda one: one.sample_id),
    st.dictionaries(ids, outputs, min_size=1, max_size=3),
)
def test_any_data_round_trip(
    tmp_path_factory: pytest.TempPathFactory, given: list[EvaluationSample], returned: dict[str, SystemOutputs]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    save_parquet_dataset(given, path)
    assert list(load_dataset(path)) == given
    save_parquet_outputs(returned.items(), path)
    assert list(load_outputs(path).items()) == list(returned.items())


@given(st.data())
def test_damaged_files_raise_only_our_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.parquet"
    save_parquet_dataset(SAMPLES, path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]))
    problem = str(path)
    try:
        load_dataset(path, "parquet")
    except AueporaError as error:
        problem = str(error)
    assert problem.startswith(str(path))
