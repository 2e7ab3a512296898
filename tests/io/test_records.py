"""Records of ragas and deepeval, from files and dicts: conversion of each column, and round trips."""

import contextlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval import evaluate
from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, BadValueError, DataFileError, DuplicateIdError
from auepora_eval.io.codec import text_id
from auepora_eval.io.formats import get_format, guess_format
from auepora_eval.io.join import align_outputs, iter_samples, load_dataset, load_outputs, read_outputs_file
from auepora_eval.io.problems import Problems
from auepora_eval.io.records import outputs_from_records, samples_from_records
from helpers.requirements import need

RAGAS: list[dict[str, Any]] = [
    {
        "user_input": "Who wrote Faust?",
        "retrieved_contexts": ["Goethe wrote Faust.", "Schiller wrote Don Carlos."],
        "reference_contexts": ["Goethe wrote Faust."],
        "response": "Goethe",
        "reference": "Johann Wolfgang von Goethe",
        "query_style": "short",
    },
    {"user_input": "And who wrote Don Carlos?", "retrieved_contexts": [], "response": "", "reference": "Schiller"},
]
DEEPEVAL: list[dict[str, Any]] = [
    {
        "input": "Who wrote Faust?",
        "actual_output": "Goethe",
        "expected_output": "Johann Wolfgang von Goethe",
        "context": ["Goethe wrote Faust."],
        "retrieval_context": ["Goethe wrote Faust.", "Schiller wrote Don Carlos."],
        "source_file": "faust.txt",
    }
]
GOETHE, SCHILLER = (Document(text_id(text), text) for text in ("Goethe wrote Faust.", "Schiller wrote Don Carlos."))


def ranked(*docs: Document) -> list[RetrievedDocument]:
    return [RetrievedDocument(doc, None, rank) for rank, doc in enumerate(docs, start=1)]


def faust_sample(**fields: Any) -> EvaluationSample:
    return EvaluationSample("1", "Who wrote Faust?", [GOETHE], None, Response("Johann Wolfgang von Goethe"), **fields)


def sample(record: dict[str, Any], columns: str | Mapping[str, str] = "ragas") -> EvaluationSample:
    (one,) = samples_from_records([record], columns)
    return one


def output(record: dict[str, Any], columns: str | Mapping[str, str] = "ragas") -> SystemOutputs | None:
    return next(iter(outputs_from_records([record], columns).values()), None)


def read_both(records: list[dict[str, Any]]) -> None:
    samples_from_records(records)
    outputs_from_records(records)


def save_file(path: Path, records: list[dict[str, Any]]) -> Path:
    text = json.dumps(records) if path.suffix == ".json" else "\n".join(map(json.dumps, records))
    path.write_text(text, encoding="utf-8")
    return path


# --- columns ---------------------------------------------------------------------------------------------------------


def test_ragas() -> None:
    first, second = samples_from_records(RAGAS)
    assert first == faust_sample(metadata={"query_style": "short"})
    assert second == EvaluationSample("2", "And who wrote Don Carlos?", reference_answer=Response("Schiller"))
    assert outputs_from_records(RAGAS) == {
        "1": SystemOutputs(ranked(GOETHE, SCHILLER), Response("Goethe")),
        "2": SystemOutputs([], Response("")),
    }


def test_deepeval() -> None:
    assert samples_from_records(DEEPEVAL, "deepeval") == [faust_sample(metadata={"source_file": "faust.txt"})]
    assert outputs_from_records(DEEPEVAL, "deepeval") == {
        "1": SystemOutputs(ranked(GOETHE, SCHILLER), Response("Goethe"))
    }


def test_custom_columns() -> None:
    record = {"qid": 7, "question": "q", "answers": ["a", "b"], "ids": ["x"], "got": ["y", "x"], "tag": {"lang": "en"}}
    columns = {
        "sample_id": "qid", "query": "question", "reference_answers": "answers", "relevant_ids": "ids",
        "retrieved_ids": "got", "labels": "tag",
    }  # fmt: skip
    assert sample(record, columns) == EvaluationSample(
        "7", "q", [Document("x")], reference_answers=["a", "b"], labels={"lang": "en"}
    )
    assert outputs_from_records([record], {"sample_id": "qid", "retrieved_ids": "got"}) == {
        "7": SystemOutputs(ranked(Document("y"), Document("x")))
    }


DOCUMENTS: list[tuple[dict[str, Any], list[str] | None, list[str] | None, str]] = [  # columns, relevant, retrieved, why
    ({}, None, None, "no contexts"),
    ({"reference_contexts": []}, [], None, "nothing is relevant"),
    ({"reference_context_ids": []}, [], None, "nothing is relevant, by ids"),
    ({"retrieved_contexts": []}, None, [], "nothing was found"),
    ({"reference_contexts": ["t"], "retrieved_contexts": ["t"]}, [text_id("t")], [text_id("t")], "the same text meets"),
    ({"reference_context_ids": ["a", 2], "retrieved_context_ids": [2]}, ["a", "2"], ["2"], "ids may be numbers"),
    ({"reference_contexts": ["t"], "reference_context_ids": ["a"]}, ["a"], None, "an id goes before a text"),
    (
        {"reference_contexts": ["t", "u"], "retrieved_contexts": ["u", "t"], "retrieved_context_ids": ["b", "a"]},
        ["a", "b"],
        ["b", "a"],
        "a text has the id it has on the other side",
    ),
    (
        {"reference_context_ids": ["a"], "retrieved_contexts": ["t"], "retrieved_context_ids": ["a"]},
        ["a"],
        ["a"],
        "ids on both sides, texts on one",
    ),
    ({"retrieved_contexts": [], "retrieved_context_ids": ["a"]}, None, ["a"], "ids with an empty list of texts"),
    ({"retrieved_contexts": "['t', 't']"}, None, [text_id("t")] * 2, "a list as text"),
]


@pytest.mark.parametrize(("columns", "relevant", "retrieved", "why"), DOCUMENTS, ids=[row[-1] for row in DOCUMENTS])
def test_documents(columns: dict[str, Any], relevant: list[str] | None, retrieved: list[str] | None, why: str) -> None:
    record = {"user_input": "q", **columns}
    docs, found = sample(record).relevant_docs, output(record)
    assert (None if docs is None else [doc.doc_id for doc in docs]) == relevant, why
    assert (None if found is None else [item.doc.doc_id for item in found.retrieved]) == retrieved, why


def test_text_id_is_stable() -> None:
    assert text_id("Goethe wrote Faust.") == "b51343834baed351"
    assert text_id("") != text_id(" ")


IDS: list[tuple[list[dict[str, Any]], list[str], str]] = [  # columns of each record, ids, why
    ([{}, {}], ["1", "2"], "numbered"),
    ([{"id": "b"}, {"id": 3}], ["b", "3"], "a column of ids"),
    ([{"query_id": "x", "question_id": "y"}], ["y"], "the first of the usual names"),
    ([{"id": 1.0}, {"id": 2.0}], ["1", "2"], "integers that a data frame made floats"),
    ([{"id": math.nan}, {"id": "b"}], ["1", "2"], "the first record decides"),
]


@pytest.mark.parametrize(("records", "want", "why"), IDS, ids=[row[-1] for row in IDS])
def test_ids(records: list[dict[str, Any]], want: list[str], why: str) -> None:
    records = [{"user_input": "q", "response": "a", **record} for record in records]
    assert [one.sample_id for one in samples_from_records(records)] == want, why
    assert list(outputs_from_records(records)) == want, why


def test_other_ids_are_metadata() -> None:
    assert sample({"user_input": "q", "id": "a", "query_id": "b"}).metadata == {"query_id": "b"}


# --- conversations ---------------------------------------------------------------------------------------------------

TALK = [
    {"content": "Who wrote Faust?", "type": "human"},
    {"content": "Goethe", "type": "ai", "tool_calls": []},
    {"content": "When?", "type": "human"},
    {"content": "In 1808.", "type": "ai"},
]
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Who wrote Faust?"},
    {"role": "assistant", "content": "Goethe", "tool_calls": []},
]


def test_conversations() -> None:
    record: dict[str, Any] = {"user_input": TALK, "reference": "1808"}
    assert sample(record) == EvaluationSample("1", "When?", reference_answer=Response("1808"), history=HISTORY)
    assert output(record) == SystemOutputs([], Response("In 1808."))
    assert output({**record, "response": "1808"}) == SystemOutputs([], Response("1808"))
    assert output({"user_input": TALK[:3]}) is None
    assert sample({"user_input": repr(TALK)}).history == HISTORY
    assert sample({"user_input": [{"role": "user", "content": "q"}]}) == EvaluationSample("1", "q")


def test_question_that_looks_like_a_conversation() -> None:
    assert sample({"user_input": "[{x}] what is this?"}).query == "[{x}] what is this?"


# --- what is wrong ---------------------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "field 'user_input' is missing"),
    ({"user_input": None}, "field 'user_input' is missing"),
    ({"user_input": 3}, "field 'user_input' must be a string, not a number"),
    ({"user_input": []}, "field 'user_input' has no message of the user (type 'human', or role 'user')"),
    ({"user_input": ["x"]}, "field 'user_input[0]' must be a message: an object with 'content' and 'type' or 'role'"),
    ({"user_input": [{"type": "human"}]}, "field 'user_input[0].content' must be a string, not null"),
    ({"user_input": [{"content": "x"}]}, "field 'user_input[0].type' must be a string, not null"),
    ({"user_input": "\ud800"}, "field 'user_input' holds half of a surrogate pair, which is not valid text"),
    ({"user_input": "q", "response": 1.5}, "field 'response' must be a string, not a number"),
    ({"user_input": "q", "response": ["a"]}, "field 'response' must be a string, not an array"),
    ({"user_input": "q", "reference": {}}, "field 'reference' must be a string, not an object"),
    ({"user_input": "q", "retrieved_contexts": 3}, "field 'retrieved_contexts' must be an array, not a number"),
    (
        {"user_input": "q", "retrieved_contexts": "a text"},
        """field 'retrieved_contexts' must be a list, such as ["first", "second"], not 'a text'""",
    ),
    ({"user_input": "q", "retrieved_contexts": ["a", None]}, "field 'retrieved_contexts[1]' must be a string, not null"),
    ({"user_input": "q", "reference_context_ids": [""]}, "field 'reference_context_ids[0]' is empty; an id needs at least one character"),
    ({"user_input": "q", "reference_context_ids": [True]}, "field 'reference_context_ids[0]' must be a string or an integer, not true or false"),
    ({"user_input": "q", "reference_context_ids": [1.5]}, "field 'reference_context_ids[0]' must be a string or an integer, not a number"),
    ({"user_input": "q", "reference_context_ids": [10**5000]}, "field 'reference_context_ids[0]' is too large a number"),
    (
        {"user_input": "q", "retrieved_contexts": ["a"], "retrieved_context_ids": [1, 2]},
        "there are 1 retrieved_contexts, but 2 retrieved_context_ids",
    ),
    (
        {"user_input": "q", "retrieved_context_ids": [1], "reference_contexts": ["a"]},
        "one of relevant and retrieved contexts has only ids, the other only texts: they cannot meet",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "message"), BAD, ids=[row[-1][:70] for row in BAD])
def test_bad_records(record: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        read_both([{"user_input": "fine"}, record])
    assert str(caught.value) == f"record 2: {message}"


def test_bad_calls() -> None:
    for records, columns, message in [
        ([{}], "rags", "unknown columns 'rags'; choose 'ragas' or 'deepeval', or give a mapping"),
        ([{}], {"quary": "q"}, "no column can hold 'quary'; did you mean 'query'?"),
        ([{}], {"query": 3}, "the column of 'query' must be a name, not 3"),
        ([{}], {}, "the columns must say which one holds the 'query'"),
        (["x"], "ragas", "record 1 must be a dict, not a value of type 'str'"),
        ([{"q": "x", "l": 1}], {"query": "q", "labels": "l"}, "record 1: field 'l' must be an object, not a number"),
        ([{"q": "x"}], {"query": "q", "sample_id": "i"}, "record 1: field 'i' is missing"),
    ]:
        with pytest.raises(BadValueError) as caught:
            samples_from_records(records, columns)  # type: ignore[arg-type]
        assert str(caught.value) == message
    with pytest.raises(DuplicateIdError) as again:
        samples_from_records([{"user_input": "q", "id": "a"}] * 2)
    assert str(again.value) == "record 2: sample_id 'a' is already that of record 1"
    with pytest.raises(BadValueError) as gap:
        samples_from_records([{"user_input": "q", "id": "a"}, {"user_input": "q"}])
    assert str(gap.value) == "record 2: field 'id' is missing; the first record has one"


# --- data frames -----------------------------------------------------------------------------------------------------


def test_data_frames(tmp_path: Path) -> None:
    pandas = need("pandas")
    frame = pandas.DataFrame(RAGAS)
    rows = frame.to_dict("records")
    assert math.isnan(rows[1]["reference_contexts"])
    assert samples_from_records(rows) == samples_from_records(RAGAS)
    assert outputs_from_records(rows) == outputs_from_records(RAGAS)
    assert sample({"user_input": "q", "response": pandas.NA, "when": pandas.NaT}).metadata == {}

    frame.to_csv(tmp_path / "a.csv")
    assert list(load_dataset(tmp_path / "a.csv")) == samples_from_records(RAGAS)
    assert load_outputs(tmp_path / "a.csv") == outputs_from_records(RAGAS)  # an empty answer with contexts is an answer
    again = pandas.read_csv(tmp_path / "a.csv", index_col=0).to_dict("records")
    assert samples_from_records(again) == samples_from_records(RAGAS)


def test_arrays_of_numpy() -> None:
    numpy = need("numpy")
    record = {
        "user_input": "q",
        "retrieved_context_ids": numpy.array([1, 2]),
        "n": numpy.float32(2),
        "id": numpy.int64(5),
    }
    assert [item.doc.doc_id for item in outputs_from_records([record])["5"].retrieved] == ["1", "2"]
    assert (sample(record).sample_id, sample(record).metadata) == ("5", {"n": 2.0})


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize(("kind", "records"), [("ragas", RAGAS), ("deepeval", DEEPEVAL)])
def test_files(tmp_path: Path, kind: str, records: list[dict[str, Any]], name: str) -> None:
    path = save_file(tmp_path / name, records)
    for role in ("samples", "outputs"):
        assert guess_format(path, role).name == kind
    assert list(load_dataset(path)) == samples_from_records(records, kind)
    assert load_outputs(path) == outputs_from_records(records, kind)


def test_score_a_combined_file(tmp_path: Path) -> None:
    path = save_file(tmp_path / "a.json", RAGAS)
    samples = list(load_dataset(path))
    recall, match = evaluate(samples, align_outputs(samples, load_outputs(path)).outputs, ["recall@1", "exact_match"])
    assert (recall.value, recall.details["num_samples"]) == (1.0, 1)
    assert match.value == 0.0


def test_dataset_without_outputs(tmp_path: Path) -> None:
    path = save_file(tmp_path / "a.jsonl", [{"user_input": "q", "reference": "a", "response": None}])
    assert len(load_dataset(path)) == 1
    with pytest.raises(DataFileError, match="there is no output in it"):
        load_outputs(path)


def test_answers_only(tmp_path: Path) -> None:
    assert read_outputs_file(save_file(tmp_path / "a.jsonl", [{"user_input": "q", "response": "a"}])).answers_only
    assert not read_outputs_file(save_file(tmp_path / "a.jsonl", RAGAS)).answers_only


def test_deepeval_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("input,actual_output,expected_output,context\nq,,a,t|u\n", encoding="utf-8")
    (one,) = load_dataset(tmp_path / "a.csv")
    assert [doc.text for doc in one.relevant_docs or ()] == ["t", "u"]


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"user_input": "q", "id": 1},\n {"id": 2},\n {"user_input": "q", "id": 1}]', encoding="utf-8")
    problems = Problems(collect_all=True)
    assert [read.line for read in iter_samples(path, problems=problems)] == [1]
    assert list(map(str, problems.found)) == [
        f"{path}:2: field 'user_input' is missing",
        f"{path}:3: sample_id '1' is already on line 1; each id may come once",
    ]
    with pytest.raises(DataFileError) as caught:
        load_dataset(path)
    assert str(caught.value) == f"{path}:2: field 'user_input' is missing"


# --- the way back ----------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=8)
FILLED = st.text(min_size=1, max_size=8)
DOCS = st.lists(st.builds(Document, FILLED, TEXT) | TEXT.map(lambda text: Document(text_id(text), text)), max_size=3)
JSON = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT | st.lists(st.integers(0, 9), max_size=2)
OWN = st.dictionaries(FILLED.map("my_{}".format), JSON.filter(lambda value: value is not None), max_size=2)
TURNS = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": TEXT}), max_size=2
)
SAMPLES = st.builds(
    EvaluationSample,
    sample_id=FILLED,
    query=TEXT,
    relevant_docs=st.none() | DOCS,
    reference_answer=st.none() | st.builds(Response, TEXT),
    metadata=OWN,
    history=TURNS,
)
OUTPUTS = st.builds(
    lambda docs, answer: SystemOutputs(ranked(*docs), answer), DOCS, st.none() | st.builds(Response, TEXT)
)
PAIRS = st.lists(
    st.tuples(SAMPLES, st.none() | OUTPUTS), min_size=1, max_size=4, unique_by=lambda pair: pair[0].sample_id
)
Pairs = list[tuple[EvaluationSample, SystemOutputs | None]]


def write_and_read(pairs: Pairs, path: Path, kind: str) -> Pairs:
    write = get_format(kind).write_both
    assert write is not None
    write(pairs, path)
    outputs = {read.sample_id: read.output for read in (get_format(kind).read_outputs or _none)(path, Problems())}
    return [(one, outputs.get(one.sample_id)) for one in load_dataset(path, kind)]


def _none(*_: object) -> Any:
    raise AssertionError


@given(PAIRS, st.sampled_from(["r.json", "r.jsonl", "r.jsonl.gz"]))
def test_ragas_round_trip(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, name: str) -> None:
    assert write_and_read(pairs, tmp_path_factory.getbasetemp() / name, "ragas") == pairs


@given(PAIRS, st.sampled_from(["r.csv", "r.tsv"]))
def test_table_round_trip_or_error(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, name: str) -> None:
    for one, _ in pairs:
        one.metadata = {key: value for key, value in one.metadata.items() if isinstance(value, str) and value}
    try:
        got = write_and_read(pairs, tmp_path_factory.getbasetemp() / name, "ragas")
    except BadValueError as error:
        assert "a table cannot tell an empty" in str(error)  # noqa: PT017
        return
    assert got == pairs


@given(PAIRS)
def test_deepeval_keeps_the_texts(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs) -> None:
    try:
        got = write_and_read(pairs, tmp_path_factory.getbasetemp() / "r.json", "deepeval")
    except BadValueError as error:
        assert "has no text, and this format has no place for ids" in str(error)  # noqa: PT017
        return
    for (one, out), (want, want_out) in zip(got, pairs, strict=True):
        assert (one.sample_id, one.query, one.reference_answer) == (want.sample_id, want.query, want.reference_answer)
        assert [doc.text for doc in one.relevant_docs or ()] == [doc.text for doc in want.relevant_docs or ()]
        assert (None if out is None else out.response) == (None if want_out is None else want_out.response)


def test_failed_output_is_omitted(tmp_path: Path) -> None:
    assert write_and_read(
        [(EvaluationSample("a", "q"), SystemOutputs([], error="timeout"))], tmp_path / "a.json", "ragas"
    ) == [(EvaluationSample("a", "q"), None)]


def test_samples_alone(tmp_path: Path) -> None:
    write = get_format("ragas").write_samples
    assert write is not None
    write(samples_from_records(RAGAS), tmp_path / "a.json")
    assert list(load_dataset(tmp_path / "a.json")) == samples_from_records(RAGAS)
    assert "response" not in (tmp_path / "a.json").read_text(encoding="utf-8")


UNWRITABLE: list[tuple[EvaluationSample, str, str, str]] = [
    (EvaluationSample("x", "q", metadata={"response": 1}), "a.json", "ragas", "field 'metadata.response' has the name of a column; rename it"),
    (EvaluationSample("x", "q", metadata={"id": 1}), "a.json", "ragas", "field 'metadata.id' has the name of a column; rename it"),
    (EvaluationSample("x", "q", metadata={"a": math.inf}), "a.json", "ragas", "field 'metadata.a' is Infinity; numbers must be finite"),
    (EvaluationSample("x", "q", history=[{"text": "x"}]), "a.json", "ragas", "field 'history[0]' needs a string as 'role' and as 'content'"),
    (EvaluationSample("x", "q", [Document("d")]), "a.json", "deepeval", "document 'd' has no text, and this format has no place for ids"),
    (EvaluationSample("x", ""), "a.csv", "ragas", "a table cannot tell an empty user_input from none; write a file that ends in '.jsonl'"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "name", "kind", "message"), UNWRITABLE, ids=[row[-1][:60] for row in UNWRITABLE])
def test_unwritable_values(tmp_path: Path, one: EvaluationSample, name: str, kind: str, message: str) -> None:
    with pytest.raises(BadValueError) as caught:
        write_and_read([(EvaluationSample("a", "q"), None), (one, None)], tmp_path / name, kind)
    assert str(caught.value) == f"sample 'x' cannot be written: {message}"
    assert not list(tmp_path.iterdir())
    with pytest.raises(DuplicateIdError):
        write_and_read([(EvaluationSample("a", "q"), None)] * 2, tmp_path / "a.json", kind)


@given(st.integers(0, 400), st.binary(max_size=3), st.sampled_from(["m.json", "m.jsonl", "m.csv"]))
def test_damaged_files_raise_only_our_errors(
    tmp_path_factory: pytest.TempPathFactory, place: int, change: bytes, name: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    write = get_format("ragas").write_samples
    assert write is not None
    write([faust_sample(), EvaluationSample("2", "q", [], metadata={"n": 1})], folder / name)
    data = (folder / name).read_bytes()
    path = folder / f"damaged_{name}"
    path.write_bytes(data[:place] + change + data[place + 1 :])
    for load in (load_dataset, load_outputs):
        for kind in (None, "ragas", "deepeval", "squad", "trec_rag", "jsonl"):
            with contextlib.suppress(AueporaError):
                load(path, kind)


# --- what ragas called its columns before ---------------------------------------------------------------------------

BEFORE = {
    "question": "Who?", "contexts": ["A.", "B."], "answer": "Ada", "ground_truth": "Ada L.",
    "ground_truths": ["Ada L.", "A. L."], "style": "short",
}  # fmt: skip


def test_legacy_ragas_columns(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps([BEFORE, {**BEFORE, "ground_truth": None}]))
    for samples in (list(load_dataset(path)), samples_from_records([BEFORE, {**BEFORE, "ground_truth": None}])):
        assert [(one.query, one.references, one.metadata) for one in samples] == [
            ("Who?", ["Ada L.", "A. L."], {"style": "short"})
        ] * 2
    for outputs in (load_outputs(path), outputs_from_records([BEFORE, BEFORE])):
        assert [[item.doc.text for item in one.retrieved] for one in outputs.values()] == [["A.", "B."]] * 2
        assert [one.response.text for one in outputs.values() if one.response is not None] == ["Ada", "Ada"]


GUESSED: list[tuple[str, str, str]] = [  # name, the first record's keys, format
    ("a.jsonl", "question contexts", "ragas"),
    ("a.json", "question answer ground_truth", "ragas"),
    ("a.csv", "question answer ground_truths", "ragas"),
    ("a.jsonl", "sample_id question contexts", "jsonl"),
    ("a.jsonl", "query question ground_truth", "jsonl"),
    ("a.jsonl", "question answer", "jsonl"),
]


@pytest.mark.parametrize(("name", "keys", "want"), GUESSED, ids=[row[1] for row in GUESSED])
def test_detection_of_legacy_ragas_columns(tmp_path: Path, name: str, keys: str, want: str) -> None:
    path = tmp_path / name
    row = dict.fromkeys(keys.split(), "x")
    path.write_text(",".join(row) + "\nx\n" if name.endswith("csv") else json.dumps(row) + "\n")
    assert guess_format(path, "samples").name == want


def test_legacy_ragas_columns_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (BEFORE, {**BEFORE, "question": 3})))
    with pytest.raises(DataFileError, match=r"old\.jsonl:2: field 'question' must be a string, not a number"):
        load_dataset(path)
