"""Fuzz tests of every format: a reader yields records or raises our errors, and collecting gives the same result."""

import contextlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError, AueporaWarning, MissingDependencyError
from auepora_eval.io.codec import encode_output, encode_sample
from auepora_eval.io.formats import Role, formats, get_format, guess_format
from auepora_eval.io.join import iter_outputs, iter_samples
from auepora_eval.io.problems import ParsedSample, Problems
from helpers.requirements import missing


class Example(NamedTuple):
    """A tiny valid file, or folder, of a format."""

    files: dict[str, str]
    samples: str = ""
    """What is read as samples: a file, or ``.`` for the folder; empty where the format has none. A file that is not
    among ``files`` is written by the format itself, for formats that are not text."""
    outputs: str = ""


def rows(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


RAGAS = {"user_input": "Who?", "retrieved_contexts": ["Goethe."], "response": "Goethe", "reference": "Goethe"}
DEEPEVAL = {"input": "Who?", "actual_output": "Goethe", "retrieval_context": ["Goethe."], "expected_output": "Goethe"}
SQUAD = {"id": "q1", "question": "Who?", "answers": [{"text": "Goethe", "answer_start": 0}], "is_impossible": False}
SPAN: dict[str, Any] = {
    "context": {"trace_id": "a1", "span_id": "b1"},
    "parent_id": None,
    "start_time": "2025-01-01T00:00:00Z",
    "end_time": "2025-01-01T00:00:01Z",
    "status": {"status_code": "OK"},
    "attributes": {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "Who?",
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.score": 0.5,
        "retrieval.documents.1.document.content": "Goethe wrote it.",
    },
    "events": [],
}
# A new format needs a line here, so that the same tests run for it.
EXAMPLES = {
    "jsonl": Example(
        {
            "data.jsonl": rows(
                {"sample_id": "q1", "query": "Who?", "relevant_docs": ["d1", {"doc_id": "d2", "text": "x"}]},
                {"sample_id": "q2", "query": "When?", "reference_answers": ["1808", "In 1808"], "labels": {"n": 1}},
            ),
            "outputs.jsonl": rows(
                {"sample_id": "q1", "retrieved": [{"doc": {"doc_id": "d1"}, "score": 0.5}], "response": {"text": "x"}},
                {"sample_id": "q2", "retrieved": ["d2"], "response": "1808", "timings": {"total": 0.5}},
            ),
        },
        "data.jsonl",
        "outputs.jsonl",
    ),
    "traces": Example({"t.jsonl": rows(SPAN, SPAN | {"context": {"trace_id": "a2"}})}, "t.jsonl", "t.jsonl"),
    "ragas": Example({"r.jsonl": rows(RAGAS, RAGAS | {"user_input": "When?"})}, "r.jsonl", "r.jsonl"),
    "deepeval": Example({"d.json": json.dumps([DEEPEVAL, DEEPEVAL | {"input": "When?"}])}, "d.json", "d.json"),
    "squad": Example(
        {
            "dev.json": json.dumps({"data": [{"title": "F", "paragraphs": [{"context": "Goethe", "qas": [SQUAD]}]}]}),
            "predictions.json": json.dumps({"q1": "Goethe", "q2": ""}),
        },
        "dev.json",
        "predictions.json",
    ),
    "trec_rag": Example(
        {
            "answers.jsonl": rows(
                {
                    "run_id": "mine",
                    "topic_id": "1",
                    "topic": "Who?",
                    "references": ["d1", "d2"],
                    "response_length": 1,
                    "answer": [{"text": "Goethe.", "citations": [0]}],
                }
            )
        },
        outputs="answers.jsonl",
    ),
    "trec": Example(
        {"qrels.txt": "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n", "run.txt": "q1 Q0 d2 1 9.5 me\nq2 Q0 d3 1 7 me\n"},
        "qrels.txt",
        "run.txt",
    ),
    "beir": Example(
        {
            "corpus.jsonl": rows({"_id": "d1", "title": "Faust", "text": "A play."}, {"_id": "d2", "text": "Another."}),
            "queries.jsonl": rows({"_id": "q1", "text": "Who?"}, {"_id": "q2", "text": "When?"}),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n",
        },
        samples=".",
    ),
    "golden": Example(
        {"golden.yaml": "queries:\n- id: q1\n  query: Who?\n  expected_chunk_ids: [c1, c2]\n  lang: de\n"},
        "golden.yaml",
    ),
}
EXAMPLES["parquet"] = Example({}, "data.parquet", "outputs.parquet")
SAMPLES = [EvaluationSample("q1", "Who?", [Document("d1", "Goethe")]), EvaluationSample("q2", "When?", labels={"n": 1})]
OUTPUTS = [("q1", SystemOutputs([RetrievedDocument(Document("d1"), 0.5, 1)], Response("Goethe"), {"total": 0.5}))]
ROLES: list[tuple[str, Role]] = [
    (name, role) for name, one in formats().items() for role in get_args(Role) if one.reads(role)
]


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def get_example(name: str) -> Example:
    assert name in EXAMPLES, f"give the format '{name}' a tiny valid file in EXAMPLES of {Path(__file__).name}"
    return EXAMPLES[name]


def target(example: Example, role: Role) -> str:
    return example.samples if role == "samples" else example.outputs


def read(path: Path, role: Role, name: str | None, problems: Problems) -> int:
    """How many records there are; each is written as a line too, to see that nothing unwritable came in."""
    found = iter_samples(path, name, problems) if role == "samples" else iter_outputs(path, name, problems)
    count = 0
    for record in found:
        count += 1
        if isinstance(record, ParsedSample):
            encode_sample(record.sample)
        else:
            encode_output(record.sample_id, record.output)
    return count


def check_reader(folder: Path, files: dict[str, bytes], name: str, role: Role) -> None:
    write_files(folder, files)
    path = folder / target(EXAMPLES[name], role)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AueporaWarning)
        try:
            strict: int | None = read(path, role, name, Problems())
        except AueporaError:
            strict = None
        problems = Problems(collect_all=True)
        try:
            collected: int | None = read(path, role, name, problems)
        except AueporaError:
            collected = None
        rejected = collected is None or bool(problems.found)
        assert (strict is None) == rejected, f"strict gives {strict}, collecting {collected}: {problems.found[:1]}"
        assert rejected or strict == collected
        try:
            guess_format(path, role)
        except AueporaError:
            return


@pytest.mark.parametrize(("name", "role"), ROLES)
def test_examples_are_valid(tmp_path: Path, name: str, role: Role) -> None:
    example = get_example(name)
    assert target(example, role), f"name the file of the format '{name}' that contains {role}"
    write_files(tmp_path, example_files(name))
    path = tmp_path / target(example, role)
    for problems in (Problems(), Problems(collect_all=True)):
        assert read(path, role, name, problems)
        assert problems.found == []
    assert guess_format(path, role) == get_format(name)


@cache
def example_files(name: str) -> dict[str, bytes]:
    """The files of an example as bytes."""
    example, made = get_example(name), get_format(name)
    files = {part: content.encode() for part, content in example.files.items()}
    with tempfile.TemporaryDirectory() as folder, optional_packages():
        if example.samples not in ("", ".", *files) and made.write_samples is not None:
            made.write_samples(SAMPLES, Path(folder, example.samples))
        if example.outputs not in ("", ".", *files) and made.write_outputs is not None:
            made.write_outputs(OUTPUTS, Path(folder, example.outputs))
        return files | {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@contextlib.contextmanager
def optional_packages() -> Iterator[None]:
    try:
        yield
    except MissingDependencyError as error:
        missing(str(error))


JSONISH = st.text("{}[]\",:\n\t 01.-eqd_NaN\\u'&*!|>#", max_size=60).map(str.encode)
ANY_BYTES = st.binary(max_size=100) | JSONISH
HARD: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b"\xef\xbb\xbf", "a byte order mark alone"),
    (b"\xff\xfe{\x00", "UTF-16"),
    (b"\x1f\x8b\x08\x00", "gzip under another name"),
    (b"\x00" * 40, "zeros"),
    (b"\xe9\n", "Latin-1"),
    (b"[" * 100_000, "arrays in arrays"),
    (b'{"a":' * 100_000, "objects in objects"),
    (b"- " * 5_000 + b"a", "lists in lists"),
    (b'{"sample_id": ' + b"9" * 5_000 + b"}", "an integer of many digits"),
    (b"q1 0 d1 " + b"9" * 5_000, "a level of many digits"),
    (b'"', "a quote"),
    (b"null", "null"),
    (b"[null, 1, [], {}]", "an array of anything"),
    (b'{"data": {"paragraphs": 1}, "queries": 1, "input": 1, "user_input": 1, "trace_id": 1}', "keys of all formats"),
]


@pytest.mark.parametrize(("name", "role"), ROLES)
@pytest.mark.parametrize(("content", "why"), HARD, ids=[row[-1] for row in HARD])
def test_difficult_files(tmp_path: Path, name: str, role: Role, content: bytes, why: str) -> None:
    files = example_files(name)
    for part in readable_files(name, role):
        check_reader(tmp_path, files | {part: content}, name, role)


def readable_files(name: str, role: Role) -> list[str]:
    """The files that are read for a role: one, or all of a folder."""
    chosen = target(get_example(name), role)
    return list(example_files(name)) if chosen == "." else [chosen]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize(("name", "role"), ROLES)
@given(data=st.data())
def test_bytes(folder: Path, name: str, role: Role, data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(readable_files(name, role)))
    check_reader(folder / name, example_files(name) | {part: data.draw(ANY_BYTES)}, name, role)


@pytest.mark.parametrize(("name", "role"), ROLES)
@given(data=st.data())
def test_mutated_files(folder: Path, name: str, role: Role, data: st.DataObject) -> None:
    files = example_files(name)
    part = data.draw(st.sampled_from(readable_files(name, role)))
    content = files[part]
    for _ in range(data.draw(st.integers(1, 3))):
        content = data.draw(mutate(content))
    check_reader(folder / name, files | {part: content}, name, role)


@st.composite
def mutate(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few bytes cut out, put in or moved; or, where it is JSON, with one value another."""
    values = [value for line in content.splitlines() if (value := parse_line(line)) is not None]
    if draw(st.booleans()) and values:
        holder, key = draw(st.sampled_from(list(iter_positions(values))))
        holder[key] = draw(JUNK)
        return "\n".join(json.dumps(value) for value in values).encode()
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 30)))
    put = draw(st.binary(max_size=4) | JSONISH | st.just(content[start:end] * 2))
    return content[:start] + put + content[end:]


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=4)
    | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "text", "0"]), inner, max_size=2)
    ),
    max_leaves=3,
)


def parse_line(line: bytes) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) and value else None


def iter_positions(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from iter_positions(item)
