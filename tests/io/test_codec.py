"""Decoding and encoding of samples and outputs as JSON lines, and the messages of errors."""

import json
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.errors import AueporaError
from auepora_eval.io import codec
from auepora_eval.io.codec import LineError, decode_output, decode_sample, encode_output, encode_sample

# --- reading ---------------------------------------------------------------------------------------------------------

S3_EXAMPLE = """
{
  "sample_id": "1",
  "query": "Who wrote 'Attention Is All You Need'?",
  "relevant_docs": [
    {"doc_id": "d1", "text": "... Vaswani et al ...", "metadata": {}}
  ],
  "reference_answer": {
    "text": "Ashish Vaswani et al.",
    "metadata": {}
  }
}
"""


def test_documented_example() -> None:
    assert decode_sample(S3_EXAMPLE.encode()) == EvaluationSample(
        sample_id="1",
        query="Who wrote 'Attention Is All You Need'?",
        relevant_docs=[Document("d1", "... Vaswani et al ...")],
        reference_answer=Response("Ashish Vaswani et al."),
    )


def sample(**given: Any) -> EvaluationSample:
    return EvaluationSample("1", "q", **given)


SAMPLE_ROWS: list[tuple[str, EvaluationSample, str]] = [  # fields after id and query, want, why
    ("", sample(), "only what must be there"),
    ('"relevant_docs": null', sample(relevant_docs=None), "null is not annotated"),
    ('"relevant_docs": []', sample(relevant_docs=[]), "empty is annotated as nothing relevant"),
    ('"relevant_docs": ["a", {"doc_id": "b"}]', sample(relevant_docs=[Document("a"), Document("b")]), "id or object"),
    ('"candidate_docs": ["a"]', sample(candidate_docs=[Document("a")]), "candidates may be ids"),
    (
        '"relevant_docs": [{"doc_id": "c", "parent_id": "p", "span": [3, 9], "metadata": {"relevance": 2}}]',
        sample(relevant_docs=[Document("c", "", {"relevance": 2}, "p", (3, 9))]),
        "a graded chunk",
    ),
    ('"reference_answer": "x"', sample(reference_answer=Response("x")), "an answer may be its text"),
    ('"reference_answer": null', sample(reference_answer=None), "no answer"),
    ('"reference_answer": {"text": null}', sample(reference_answer=Response("")), "a null text is empty"),
    ('"reference_answers": ["x", "y"]', sample(reference_answers=["x", "y"]), "the first becomes the reference answer"),
    (
        '"relevant_docs": ["a", "b"], "relevant_groups": [["a", "b"]]',
        sample(relevant_docs=[Document("a"), Document("b")], relevant_groups=[["a", "b"]]),
        "two documents with the same fact",
    ),
    ('"relevant_groups": []', sample(), "no groups"),
    (
        '"labels": {"scenario": "typo"}, "metadata": {"n": [1, 2.5, null]},'
        ' "history": [{"user": "hi"}], "cluster_id": "c"',
        sample(labels={"scenario": "typo"}, metadata={"n": [1, 2.5, None]}, history=[{"user": "hi"}], cluster_id="c"),
        "the other fields",
    ),
]


@pytest.mark.parametrize(("given_fields", "want", "why"), SAMPLE_ROWS, ids=[row[-1] for row in SAMPLE_ROWS])
def test_samples(given_fields: str, want: EvaluationSample, why: str) -> None:
    line = f'{{"sample_id": "1", "query": "q"{", " if given_fields else ""}{given_fields}}}'
    got = decode_sample(line.encode())
    assert got == want, why
    assert decode_sample(encode_sample(got)) == want, why


def test_first_reference_becomes_reference_answer() -> None:
    got = decode_sample(b'{"sample_id": "1", "query": "q", "reference_answers": ["x", "y"]}')
    assert got.reference_answer == Response("x")


def ranking(*given: RetrievedDocument) -> SystemOutputs:
    return SystemOutputs(list(given))


OUTPUT_ROWS: list[tuple[str, SystemOutputs, str]] = [  # fields after the id, want, why
    ("", SystemOutputs([]), "no fields"),
    ('"retrieved": []', SystemOutputs([]), "nothing came back"),
    (
        '"retrieved": ["a", "b"]',
        ranking(RetrievedDocument(Document("a"), None, 1), RetrievedDocument(Document("b"), None, 2)),
        "plain ids, ranked by position",
    ),
    (
        '"retrieved": [{"doc": {"doc_id": "a", "text": "t"}, "score": 2, "rank": 7}, {"doc": "b", "score": null}]',
        ranking(RetrievedDocument(Document("a", "t"), 2.0, 7), RetrievedDocument(Document("b"), None, 2)),
        "objects, with a rank of their own or by position",
    ),
    ('"response": "x"', SystemOutputs([], Response("x")), "an answer may be its text"),
    ('"response": null', SystemOutputs([], None), "no answer"),
    ('"response": {"text": null}', SystemOutputs([], Response("")), "a null text is an empty answer"),
    (
        '"response": {"text": "A. B.", "structured": {"k": [1]}, "sentences": [{"text": "A.", "citations": ["d"]},'
        ' {"text": "B.", "citations": []}, {"text": "C."}]}',
        SystemOutputs(
            [],
            Response(
                "A. B.",
                structured={"k": [1]},
                sentences=[{"text": "A.", "citations": ["d"]}, {"text": "B.", "citations": []}, {"text": "C."}],
            ),
        ),
        "citations by sentence",
    ),
    (
        '"timings": {"total": 1, "llm": 0.25}, "error": "timed out", "refused": false, "citations": ["d"],'
        ' "steps": [{"query": "q"}], "usage": {"tokens": 5}, "repeat": 2, "extra": {"x": true}',
        SystemOutputs(
            [],
            None,
            timings={"total": 1.0, "llm": 0.25},
            extra={"x": True},
            error="timed out",
            refused=False,
            citations=["d"],
            steps=[{"query": "q"}],
            usage={"tokens": 5},
            repeat=2,
        ),
        "the other fields",
    ),
    ('"citations": []', SystemOutputs([], citations=[]), "citing nothing is not the same as giving no citations"),
]


@pytest.mark.parametrize(("given_fields", "want", "why"), OUTPUT_ROWS, ids=[row[-1] for row in OUTPUT_ROWS])
def test_outputs(given_fields: str, want: SystemOutputs, why: str) -> None:
    line = f'{{"sample_id": "1"{", " if given_fields else ""}{given_fields}}}'
    assert decode_output(line.encode()) == ("1", want), why
    assert decode_output(encode_output("1", want)) == ("1", want), why


def test_every_field_is_encoded() -> None:
    pairs = [
        (Document, codec.DocumentRow),
        (RetrievedDocument, codec.RetrievedRow),
        (Response, codec.ResponseRow),
        (EvaluationSample, codec.SampleRow),
    ]
    for kind, row in pairs:
        assert {one.name for one in fields(kind)} == set(row.__struct_fields__)
    assert {"sample_id", *(one.name for one in fields(SystemOutputs))} == set(codec.OutputRow.__struct_fields__)


# --- what is wrong with a line ---------------------------------------------------------------------------------------

SAMPLE_FIELDS = (
    "sample_id, query, relevant_docs, candidate_docs, reference_answer, labels, metadata, reference_answers, history, "
    "cluster_id, relevant_groups; put keys of your own under 'labels' or 'metadata'"
)
BAD_SAMPLES: list[tuple[bytes, str]] = [  # line, problem
    (
        b'{"sample_id": "1", "query": "q", "relevant_groups": {"a": 1}}',
        "field 'relevant_groups' must be an array, not an object",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_groups": ["a"]}',
        "field 'relevant_groups[0]' must be an array, not a string",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_groups": [["a"], ["b", 7]]}',
        "field 'relevant_groups[1][1]' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_groups": [[""]]}',
        "field 'relevant_groups[0][0]' is empty; an id needs at least one character",
    ),
    (b'{"sample_id": "1"}', "field 'query' is missing"),
    (b'{"query": "q"}', "field 'sample_id' is missing"),
    (
        b'{"sample_id": 1, "query": "q"}',
        "field 'sample_id' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (b'{"sample_id": "", "query": "q"}', "field 'sample_id' is empty; an id needs at least one character"),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": ["a", ""]}',
        "field 'relevant_docs[1]' is empty; an id needs at least one character",
    ),
    (
        b'{"sample_id": "1", "query": "q", "candidate_docs": [{"doc_id": ""}]}',
        "field 'candidate_docs[0].doc_id' is empty; an id needs at least one character",
    ),
    (b'{"sample_id": null, "query": "q"}', "field 'sample_id' must be a string, not null"),
    (b'{"sample_id": "1", "query": ["q"]}', "field 'query' must be a string, not an array"),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": [{"doc_id": 7}]}',
        "field 'relevant_docs[0].doc_id' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": ["a", {"text": "t"}]}',
        "field 'relevant_docs[1].doc_id' is missing",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": [3]}',
        "field 'relevant_docs[0]' must be a string or an object, not a number; ids are strings, so put it in quotes",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": {"d1": 1}}',
        "field 'relevant_docs' must be an array or null, not an object",
    ),
    (
        b'{"sample_id": "1", "query": "q", "reference_answer": true}',
        "field 'reference_answer' must be a string, an object or null, not true or false",
    ),
    (
        b'{"sample_id": "1", "query": "q", "reference_answer": {"txt": "x"}}',
        "unknown field 'reference_answer.txt'; did you mean 'text'?",
    ),
    (b'{"sample_id": "1", "query": "q", "labels": null}', "field 'labels' must be an object, not null"),
    (b'{"sample_id": "1", "query": "q", "history": ["hi"]}', "field 'history[0]' must be an object, not a string"),
    (
        b'{"sample_id": "1", "query": "q", "reference": "x"}',
        "unknown field 'reference'; did you mean 'reference_answer'?",
    ),
    (b'{"out of range": 1}', f"unknown field 'out of range'; known fields: {SAMPLE_FIELDS}"),
    (b'{"Sample_ID": "1"}', "unknown field 'Sample_ID'; did you mean 'sample_id'?"),
    (b'{"zzz": 1}', f"unknown field 'zzz'; known fields: {SAMPLE_FIELDS}"),
    (
        b'{"sample_id": "1", "query": "q", "candidate_docs": [{"doc_id": "a", "id": 1}]}',
        "unknown field 'candidate_docs[0].id'; did you mean 'doc_id'?",
    ),
    (
        b'{"sample_id": "1", "retrieved": []}',
        "unknown field 'retrieved': outputs have it, samples do not (are the two files swapped?)",
    ),
    (
        b'{"' + b"k" * 200 + b'": 1}',
        f"unknown field '{'k' * 77}...'; known fields: {SAMPLE_FIELDS}",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": [{"doc_id": "a", "span": [3]}]}',
        "field 'relevant_docs[0].span' must be [start, end] with 0 <= start <= end",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": [{"doc_id": "a", "span": [3, "x"]}]}',
        "field 'relevant_docs[0].span' must be [start, end] with 0 <= start <= end",
    ),
    (
        b'{"sample_id": "1", "query": "q", "relevant_docs": [{"doc_id": "a", "span": [9, 3]}]}',
        "field 'relevant_docs[0].span' must be [start, end] with 0 <= start <= end",
    ),
    (b"[]", "each line must be one JSON object, not an array"),
    (b'"x"', "each line must be one JSON object, not a string"),
    (b"null", "each line must be one JSON object, not null"),
    (b"{", "not valid JSON: the line ends too early (each line must hold one whole object)"),
    (b"", "not valid JSON: the line ends too early (each line must hold one whole object)"),
    (b"{'sample_id': '1'}", "not valid JSON: object keys must be strings near column 2"),
    ('{"sample_id": "é" "query": "q"}'.encode(), "not valid JSON: expected ',' or '}' near column 19"),
    (b'{"sample_id": "1", "query": "q"} {}', "not valid JSON: trailing characters near column 35"),
    (b'{"sample_id": "1", "query": "caf\xe9"}', "byte 0xe9 in column 33 is not valid UTF-8"),
    (
        b'{"sample_id": "1", "query": "q", "labels": {"a": [0, NaN]}}',
        "field 'labels.a[1]' is NaN; numbers must be finite",
    ),
    (
        b'{"sample_id": "1", "query": "q", "metadata": {"a": -Infinity}}',
        "field 'metadata.a' is -Infinity; numbers must be finite",
    ),
    (
        b'{"sample_id": "1", "query": "q", "metadata": {"a": {"b": [1, 1e999]}}}',
        "field 'metadata.a.b[1]' is too large a number",
    ),
    (
        b'{"sample_id": "1", "query": "q", "metadata": {"a": [{"b": ' + b"9" * 5000 + b"}]}}",
        "field 'metadata' is too large a number",
    ),
    (
        b'{"sample_id": "1", "query": "\\ud800"}',
        "field 'query' holds half of a surrogate pair, which is not valid text",
    ),
    (
        b'{"sample_id": "1", "query": "q", "metadata": {"a": ' + b"[" * 9999 + b"]" * 9999 + b"}}",
        "the values are nested too deeply",
    ),
]


@pytest.mark.parametrize(("line", "problem"), BAD_SAMPLES, ids=[problem[:60] for _, problem in BAD_SAMPLES])
def test_bad_samples(line: bytes, problem: str) -> None:
    with pytest.raises(LineError) as caught:
        decode_sample(line)
    assert str(caught.value) == problem


BAD_OUTPUTS: list[tuple[bytes, str]] = [  # line, problem
    (b"{}", "field 'sample_id' is missing"),
    (b'{"sample_id": ""}', "field 'sample_id' is empty; an id needs at least one character"),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": ""}]}',
        "field 'retrieved[0].doc' is empty; an id needs at least one character",
    ),
    (b'{"sample_id": "1", "retrieved": [""]}', "field 'retrieved[0]' is empty; an id needs at least one character"),
    (
        b'{"sample_id": 17.5}',
        "field 'sample_id' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (
        b'{"sample_id": "1", "query": "q"}',
        "unknown field 'query': samples have it, outputs do not (are the two files swapped?)",
    ),
    (b'{"sample_id": "1", "retrived": []}', "unknown field 'retrived'; did you mean 'retrieved'?"),
    (
        b'{"sample_id": "1", "retrieved": [{"doc_id": "a"}]}',
        """unknown field 'retrieved[0].doc_id': a position of a ranking is {"doc": {"doc_id": "d1", "text": "..."}, """
        '"score": 0.5}, or just the id "d1"',
    ),
    (b'{"sample_id": "1", "retrieved": [{"score": 1}]}', "field 'retrieved[0].doc' is missing"),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": {"doc_id": "a", "txt": "t"}}]}',
        "unknown field 'retrieved[0].doc.txt'; did you mean 'text'?",
    ),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": "a"}, {"doc": "b", "score": "high"}]}',
        "field 'retrieved[1].score' must be a number or null, not a string",
    ),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": "a", "score": NaN}]}',
        "field 'retrieved[0].score' is NaN; numbers must be finite",
    ),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": "a", "score": Infinity}]}',
        "field 'retrieved[0].score' is Infinity; numbers must be finite",
    ),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": "a", "score": -1e999}]}',
        "field 'retrieved[0].score' is too large a number",
    ),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": "a", "score": 1' + b"0" * 400 + b"}]}",
        "field 'retrieved[0].score' is too large a number",
    ),
    (
        b'{"sample_id": "1", "retrieved": [{"doc": "a", "rank": 1.5}]}',
        "field 'retrieved[0].rank' must be an integer or null, not a number with decimals",
    ),
    (b'{"sample_id": "1", "retrieved": null}', "field 'retrieved' must be an array, not null"),
    (b'{"sample_id": "1", "response": {"sentences": []}}', "field 'response.text' is missing"),
    (
        b'{"sample_id": "1", "response": {"text": "x", "sentences": [{"text": "x", "citations": [1]}]}}',
        "field 'response.sentences[0].citations[0]' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (
        b'{"sample_id": "1", "response": {"text": "x", "sentences": [{"text": "x", "cited": []}]}}',
        "unknown field 'response.sentences[0].cited'; known fields: text, citations",
    ),
    (b'{"sample_id": "1", "refused": "no"}', "field 'refused' must be true or false or null, not a string"),
    (
        b'{"sample_id": "1", "timings": {"total": 1, "llm": "2s"}}',
        "field 'timings.llm' must be a number, not a string",
    ),
    (b'{"sample_id": "1", "timings": {"total": null}}', "field 'timings.total' must be a number, not null"),
    (b'{"sample_id": "1", "timings": 3}', "field 'timings' must be an object, not a number"),
    (b'{"sample_id": "1", "repeat": "0"}', "field 'repeat' must be an integer, not a string"),
]


@pytest.mark.parametrize(("line", "problem"), BAD_OUTPUTS, ids=[problem[:60] for _, problem in BAD_OUTPUTS])
def test_bad_outputs(line: bytes, problem: str) -> None:
    with pytest.raises(LineError) as caught:
        decode_output(line)
    assert str(caught.value) == problem


# --- writing ---------------------------------------------------------------------------------------------------------


def test_defaults_are_omitted() -> None:
    assert encode_sample(EvaluationSample("1", "q")) == b'{"sample_id":"1","query":"q"}'
    assert encode_output("1", SystemOutputs([])) == b'{"sample_id":"1","retrieved":[]}'  # nothing found is a result
    hit = RetrievedDocument(Document("a"), None, 1)
    assert encode_output("1", SystemOutputs([hit], Response(""))) == (
        b'{"sample_id":"1","retrieved":[{"doc":{"doc_id":"a"}}],"response":{"text":""}}'
    )
    assert encode_output("1", SystemOutputs([RetrievedDocument(Document("a"), 0.5, 4)])) == (
        b'{"sample_id":"1","retrieved":[{"doc":{"doc_id":"a"},"score":0.5,"rank":4}]}'
    )


def test_numpy_numbers_and_subclasses_are_plain_values() -> None:
    class Chunk(Document):
        """A user's own document."""

    class Scenario(str, Enum):  # noqa: UP042 - as users write it; its str() is not its value
        TYPO = "typo"

    output = SystemOutputs(
        [
            RetrievedDocument(Chunk("a"), np.float32(0.5), 1),  # type: ignore[arg-type]
            RetrievedDocument(Chunk("b"), np.float64(0.25), 2),
        ],
        extra={"n": np.int64(3), "half": Fraction(1, 2), "pair": (1, 2), Scenario.TYPO: Scenario.TYPO},
    )
    assert json.loads(encode_output("1", output)) == {
        "sample_id": "1",
        "retrieved": [{"doc": {"doc_id": "a"}, "score": 0.5}, {"doc": {"doc_id": "b"}, "score": 0.25}],
        "extra": {"n": 3, "half": 0.5, "pair": [1, 2], "typo": "typo"},
    }


def recursive_list() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


UNWRITABLE: list[tuple[Callable[[], bytes], str]] = [  # attempt, problem
    (lambda: encode_sample(sample(labels={"a": [float("nan")]})), "field 'labels.a[0]' is NaN; numbers must be finite"),
    (
        lambda: encode_output("1", ranking(RetrievedDocument(Document("a"), float("inf"), 1))),
        "field 'retrieved[0].score' is Infinity; numbers must be finite",
    ),
    (
        lambda: encode_output("1", ranking(RetrievedDocument(Document("a"), np.float32("-inf"), 1))),  # type: ignore[arg-type]
        "field 'retrieved[0].score' is -Infinity; numbers must be finite",
    ),
    (
        lambda: encode_output("1", ranking(RetrievedDocument(Document("a"), 10**400, 1))),
        "field 'retrieved[0].score' is too large a number",
    ),
    (
        lambda: encode_output("1", SystemOutputs([], extra={"x": Fraction(10**400)})),
        "field 'extra.x' is too large a number",
    ),
    (
        lambda: encode_output("1", SystemOutputs([], timings={"total": "1s"})),  # type: ignore[dict-item]
        "field 'timings.total' must be a number, not a string",
    ),
    (
        lambda: encode_sample(sample(metadata={"a": {1, 2}})),
        "field 'metadata.a' holds a value of type 'set', which JSON cannot carry",
    ),
    (
        lambda: encode_sample(sample(metadata={"a": b"x"})),
        "field 'metadata.a' holds a value of type 'bytes', which JSON cannot carry",
    ),
    (lambda: encode_sample(sample(metadata={"a": {1: 2}})), "field 'metadata.a' has a key that is not a string: 1"),
    (
        lambda: encode_sample(sample(relevant_docs=[Document(5)])),  # type: ignore[arg-type]
        "field 'relevant_docs[0].doc_id' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (
        lambda: encode_sample(sample(relevant_docs=[Document("a", span=(5, 2))])),
        "field 'relevant_docs[0].span' must be [start, end] with 0 <= start <= end",
    ),
    (
        lambda: encode_sample(sample(relevant_docs=[Document("")])),
        "field 'relevant_docs[0].doc_id' is empty; an id needs at least one character",
    ),
    (
        lambda: encode_output(1, SystemOutputs([])),  # type: ignore[arg-type]
        "field 'sample_id' must be a string, not a number; ids are strings, so put it in quotes",
    ),
    (
        lambda: encode_output("1", SystemOutputs(None)),  # type: ignore[arg-type]
        "field 'retrieved' must be an array, not null",
    ),
    (
        lambda: encode_sample(EvaluationSample("1", "\ud800")),
        "field 'query' holds half of a surrogate pair, which is not valid text",
    ),
    (
        lambda: encode_sample(sample(metadata={"a": {"\udfff": 1}})),
        "field 'metadata.a' holds half of a surrogate pair, which is not valid text",
    ),
    (lambda: encode_sample(sample(metadata={"a": recursive_list()})), "the values are nested too deeply"),
]


@pytest.mark.parametrize(("attempt", "problem"), UNWRITABLE, ids=[problem[:60] for _, problem in UNWRITABLE])
def test_unwritable_values(attempt: Callable[[], bytes], problem: str) -> None:
    with pytest.raises(LineError) as caught:
        attempt()
    assert str(caught.value) == problem


def test_integer_with_too_many_digits() -> None:
    with pytest.raises(LineError, match="an integer has too many digits"):
        encode_sample(sample(metadata={"a": 10**5000}))


# --- round trips and fuzz --------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
spans = st.tuples(st.integers(0, 9), st.integers(9, 20))
documents = st.builds(Document, ids, texts, objects, st.none() | texts, st.none() | spans)
sentences = st.builds(lambda text: {"text": text}, texts) | st.builds(
    lambda text, citations: {"text": text, "citations": citations}, texts, st.lists(texts, max_size=2)
)
responses = st.builds(Response, texts, st.none() | objects, objects, st.none() | st.lists(sentences, max_size=2))
samples = st.builds(
    EvaluationSample,
    ids,
    texts,
    relevant_docs=st.none() | st.lists(documents, max_size=3),
    candidate_docs=st.none() | st.lists(documents, max_size=3),
    reference_answer=st.none() | responses,
    labels=objects,
    metadata=objects,
    reference_answers=st.lists(texts, max_size=2),
    history=st.lists(objects, max_size=2),
    cluster_id=st.none() | texts,
    relevant_groups=st.lists(st.lists(ids, max_size=2), max_size=2),
)
outputs = st.builds(
    SystemOutputs,
    retrieved=st.lists(st.builds(RetrievedDocument, documents, st.none() | numbers, st.integers(0, 4)), max_size=3),
    response=st.none() | responses,
    timings=st.dictionaries(texts, numbers, max_size=2),
    extra=objects,
    error=st.none() | texts,
    refused=st.none() | st.booleans(),
    citations=st.none() | st.lists(texts, max_size=2),
    steps=st.lists(objects, max_size=2),
    usage=objects,
    repeat=st.integers(0, 3),
)


@given(samples)
def test_sample_round_trip(one: EvaluationSample) -> None:
    line = encode_sample(one)
    assert b"\n" not in line
    back = decode_sample(line)
    assert repr(back) == repr(one)  # repr distinguishes -0.0 from 0 and 1 from True, == does not
    assert encode_sample(back) == line


@given(ids, outputs)
def test_output_round_trip(sample_id: str, one: SystemOutputs) -> None:
    line = encode_output(sample_id, one)
    assert b"\n" not in line
    back_id, back = decode_output(line)
    assert (back_id, repr(back)) == (sample_id, repr(one))
    assert encode_output(back_id, back) == line


def decode_with_our_errors(line: bytes) -> None:
    for decode in (decode_sample, decode_output):
        problem = "-"
        try:
            decode(line)
        except AueporaError as error:
            problem = str(error)
        assert problem
        assert problem.isprintable()


VALID = [
    encode_sample(
        EvaluationSample(
            "1", "é", [Document("a", span=(1, 2))], [], Response("x", {"a": 1.5}), {"k": True}, history=[{"u": None}]
        )
    ),
    encode_output(
        "1",
        SystemOutputs([RetrievedDocument(Document("a", "t"), -1e-3, 4)], Response("x"), {"total": 1.5}, usage={"n": 3}),
    ),
]


@given(st.binary(max_size=60))
def test_random_bytes_raise_only_our_errors(line: bytes) -> None:
    decode_with_our_errors(line)


@given(st.sampled_from(VALID), st.data())
def test_mutated_lines_raise_only_our_errors(line: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(line)))
        end = min(len(line), start + data.draw(st.integers(0, 4)))
        tokens = [
            b'"',
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"null",
            b"NaN",
            b"1e999",
            b"\\ud800",
            b"\xff",
            b"-",
            b"0",
            b"7",
        ]
        line = line[:start] + data.draw(st.sampled_from(tokens) | st.binary(max_size=3)) + line[end:]
    decode_with_our_errors(line)


@given(st.sampled_from(VALID), st.data())
def test_swapped_values_raise_only_our_errors(line: bytes, data: st.DataObject) -> None:
    row = json.loads(line)
    row[data.draw(st.sampled_from(sorted(row)) | texts)] = data.draw(values)
    decode_with_our_errors(json.dumps(row).encode())
