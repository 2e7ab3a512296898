"""Samples, outputs and outcomes as bytes and back: equal to the last digit, or refused in words."""

import random
import tracemalloc
from enum import Enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval import evaluate
from auepora_eval.core.family import FamilyKey
from auepora_eval.core.scores import Score, Scores
from auepora_eval.core.types import (
    Document,
    EvaluationSample,
    Response,
    RetrievedDocument,
    SystemOutputs,
    UnknownRanking,
)
from auepora_eval.io.codec import LineError, decode_output, decode_sample, encode_output, encode_sample
from auepora_eval.io.golden import canonical_line, dataset_fingerprint
from auepora_eval.runtime.secrets import Secrets
from auepora_eval.store.records import StoredOutput
from auepora_eval.store.rows import encode_output_rows
from auepora_eval.store.score_columns import decode_scores, encode_scores
from auepora_eval.store.texts import (
    TextKeys,
    decode_packed,
    pack_output,
    pack_sample,
    packed_sample_id,
    sample_text_keys,
    unpack_output,
    unpack_sample,
)


def round_trip_output(output: SystemOutputs, sample_id: str = "1") -> tuple[SystemOutputs, bytes]:
    keys = TextKeys(Secrets())
    data = pack_output(sample_id, output, keys)
    return unpack_output(decode_packed(data), {"": "", **keys.texts}), data


def round_trip_sample(sample: EvaluationSample) -> EvaluationSample:
    keys = TextKeys(Secrets())
    line, row = canonical_line(sample)
    data = pack_sample(row, line, keys)
    assert packed_sample_id(data) == sample.sample_id
    assert set(sample_text_keys(data)) == set(keys.texts)
    return unpack_sample(data, keys.texts)


# --- anything that JSONL files can store ------------------------------------------------------------------------------

PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TEXT = PLAIN_TEXT | st.just('\x00\n"\\/\N{SNOWMAN}\U0001f600')
ID = TEXT.filter(bool)
NUMBER = st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.integers(-5, 5).map(np.int64)
SCORE = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.floats(-5, 5, width=32).map(np.float32)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)
DICT = st.dictionaries(TEXT, VALUE, max_size=3)
SPAN = st.none() | st.tuples(st.integers(0, 5), st.integers(5, 9)) | st.just([2, 3])
DOCUMENT = st.builds(Document, ID, TEXT, DICT, st.none() | TEXT, SPAN)
SENTENCE = st.fixed_dictionaries({"text": TEXT}, optional={"citations": st.lists(TEXT, max_size=2)})
RESPONSE = st.builds(Response, TEXT, st.none() | DICT, DICT, st.none() | st.lists(SENTENCE, max_size=2))
HIT = st.builds(RetrievedDocument, DOCUMENT, SCORE, st.integers(0, 9))
RANKING = st.lists(HIT, max_size=4) | st.lists(st.builds(Document, ID), max_size=4).map(
    lambda docs: [RetrievedDocument(doc, 0.5, rank) for rank, doc in enumerate(docs, 1)]
)
OUTPUT = st.builds(
    SystemOutputs,
    RANKING | RANKING.map(tuple),
    st.none() | RESPONSE,
    st.dictionaries(TEXT, st.floats(0, 9) | st.integers(0, 9), max_size=2),
    DICT,
    st.none() | TEXT,
    st.none() | st.booleans(),
    st.none() | st.lists(TEXT, max_size=2),
    st.lists(DICT, max_size=2),
    DICT,
    st.integers(0, 3),
)
DOCUMENTS = st.none() | st.lists(DOCUMENT, max_size=3)
SAMPLE = st.builds(
    EvaluationSample,
    ID,
    TEXT,
    DOCUMENTS,
    DOCUMENTS,
    st.none() | RESPONSE,
    DICT,
    DICT,
    st.lists(TEXT, max_size=2),
    st.lists(DICT, max_size=2),
    st.none() | TEXT,
)


@given(ID, OUTPUT)
def test_output_round_trip_equals_file(sample_id: str, output: SystemOutputs) -> None:
    back, data = round_trip_output(output, sample_id)
    assert (sample_id, back) == decode_output(encode_output(sample_id, output))
    assert decode_packed(data).sample_id == (sample_id if "\x00" in sample_id else None)
    assert round_trip_output(back, sample_id)[0] == back


@given(SAMPLE)
def test_sample_round_trip_equals_file(sample: EvaluationSample) -> None:
    want = decode_sample(encode_sample(sample))
    assert round_trip_sample(sample) == want
    assert canonical_line(want)[0] == canonical_line(sample)[0]


class Chunk(Document):
    """A user's own document."""


class Scenario(str, Enum):  # noqa: UP042 - as users write it
    TYPO = "typo"


ODD_OUTPUTS: list[tuple[SystemOutputs, SystemOutputs, str]] = [  # given, want, why
    (
        SystemOutputs([RetrievedDocument(Chunk("a", "t"), np.float32(0.5), np.int64(1))]),  # type: ignore[arg-type]
        SystemOutputs([RetrievedDocument(Document("a", "t"), 0.5, 1)]),
        "numbers of numpy and a document of the user's own",
    ),
    (SystemOutputs([], extra={"pair": (1, 2)}), SystemOutputs([], extra={"pair": [1, 2]}), "a tuple is a list"),
    (SystemOutputs([], extra={"a": Scenario.TYPO}), SystemOutputs([], extra={"a": "typo"}), "an enum of texts"),
    (SystemOutputs([], Response(None)), SystemOutputs([], Response("")), "no text is an empty one"),  # type: ignore[arg-type]
    (SystemOutputs([], extra={"big": 2**80}), SystemOutputs([], extra={"big": 2**80}), "a number of many digits"),
    (SystemOutputs([], steps=[{"hits": [Document("a")]}]), SystemOutputs([], steps=[{"hits": [{"doc_id": "a"}]}]), "a document within a step"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "want", "why"), ODD_OUTPUTS, ids=[row[-1] for row in ODD_OUTPUTS])
def test_unusual_outputs(output: SystemOutputs, want: SystemOutputs, why: str) -> None:
    back = round_trip_output(output)[0]
    if output.steps:
        assert back == decode_output(encode_output("1", output))[1]
    else:
        assert back == want, why


def one_document_output(**given: Any) -> SystemOutputs:
    return SystemOutputs([RetrievedDocument(Document(given.pop("id", "a"), **given), 0.5, 1)])


REFUSED: list[tuple[SystemOutputs, str]] = [  # output, problem
    (SystemOutputs([RetrievedDocument(Document("a"), float("nan"), 1)]), "field 'retrieved[0].score' is NaN"),
    (SystemOutputs([RetrievedDocument(Document("a"), True, 1)]), "field 'retrieved[0].score' must be a number"),
    (SystemOutputs([], timings={"t": float("inf")}), "field 'timings.t' is Infinity"),
    (SystemOutputs([], extra={"a": [float("nan")]}), "field 'extra.a[0]' is NaN"),
    (SystemOutputs([], extra={1: "x"}), "field 'extra' has a key that is not a string: 1"),  # type: ignore[dict-item]
    (SystemOutputs([], extra={"b": b"x"}), "field 'extra.b' holds a value of type 'bytes'"),
    (SystemOutputs([], Response("\ud800")), "field 'response.text' holds half of a surrogate pair"),
    (one_document_output(text="\ud800"), "field 'retrieved[0].doc.text' holds half of a surrogate pair"),
    (one_document_output(id=""), "field 'retrieved[0].doc.doc_id' is empty"),
    (one_document_output(id=7), "field 'retrieved[0].doc.doc_id' must be a string"),
    (one_document_output(text=7), "field 'retrieved[0].doc.text' must be a string"),
    (one_document_output(text=None), "field 'retrieved[0].doc.text' must be a string"),
    (one_document_output(metadata=None), "field 'retrieved[0].doc.metadata' must be an object"),
    (one_document_output(metadata=[]), "field 'retrieved[0].doc.metadata' must be an object"),
    (SystemOutputs([], extra=[]), "field 'extra' must be an object"),  # type: ignore[arg-type]
    (SystemOutputs([], steps=None), "field 'steps' must be an array"),  # type: ignore[arg-type]
    (one_document_output(span=(9, 3)), "field 'retrieved[0].doc.span' must be [start, end]"),
    (SystemOutputs([], Response("a", sentences=[{"txt": "a"}])), "unknown field 'response.sentences[0].txt'"),
    (SystemOutputs([], refused="no"), "field 'refused' must be true or false or null"),  # type: ignore[arg-type]
    (SystemOutputs(["a"]), ""),  # type: ignore[list-item]
]  # fmt: skip


@pytest.mark.parametrize(("output", "problem"), REFUSED, ids=[problem or "an id alone" for _, problem in REFUSED])
def test_rejected_values(output: SystemOutputs, problem: str) -> None:
    if not problem:  # what a file may leave out may be left out here too
        assert round_trip_output(output)[0] == SystemOutputs([RetrievedDocument(Document("a"), None, 1)])
        return
    with pytest.raises(LineError) as caught:
        round_trip_output(output)
    assert str(caught.value).startswith(f"the output of sample '1': {problem}")


@pytest.mark.parametrize(
    "output",
    [
        SystemOutputs(UnknownRanking(), Response("a")),
        SystemOutputs(UnknownRanking(), Response("a", sentences=[{"text": "a"}])),
    ],
    ids=["plain", "by the careful way"],
)
def test_unknown_ranking_differs_from_empty(output: SystemOutputs) -> None:
    back, data = round_trip_output(output)
    assert isinstance(back.retrieved, UnknownRanking)
    assert b"retrieved" not in encode_output("1", back)
    assert not isinstance(round_trip_output(SystemOutputs([], Response("a")))[0].retrieved, UnknownRanking)
    (row,) = encode_output_rows("r", [StoredOutput(0, 0, "1", output)], Secrets(["a"]), TextKeys(Secrets()))
    assert isinstance(unpack_output(decode_packed(row[-1]), None).retrieved, UnknownRanking)
    assert row[-1] != data  # a secret was taken out


def test_key_cache_is_bounded() -> None:
    keys = TextKeys(Secrets())
    size, number = 200_000, 200
    tracemalloc.start()
    try:
        made = []
        for n in range(number):
            made.append(keys(f"{n:>{size}}"))
            keys.clear()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < size * number / 2  # all of them would be 40 MB
    assert len(set(made)) == number
    assert [keys(f"{n:>{size}}") for n in (0, number - 1)] == [made[0], made[-1]]


def test_texts_are_stored_once() -> None:
    keys = TextKeys(Secrets())
    hits = [RetrievedDocument(Document(name, "the same text"), None, rank) for rank, name in enumerate("ab", 1)]
    data = pack_output("1", SystemOutputs(hits), keys)
    assert b"the same text" not in data
    assert list(keys.texts.values()) == ["the same text"]
    assert unpack_output(decode_packed(data), None).retrieved[0].doc.text == ""


def test_packed_size_of_ten_documents() -> None:
    hits = [RetrievedDocument(Document(f"doc{rank:05}"), rank / 16, rank) for rank in range(1, 11)]
    data = pack_output("1", SystemOutputs(hits, Response("yes"), {"end_to_end": 0.5}), TextKeys(Secrets()))
    assert len(data) < 260


# --- fingerprints ----------------------------------------------------------------------------------------------------


def make_sample(**given: Any) -> EvaluationSample:
    return EvaluationSample(given.pop("sample_id", "1"), given.pop("query", "q"), **given)


def test_fingerprint_is_the_digest_of_canonical_lines() -> None:
    import hashlib
    import json

    rows: list[dict[str, Any]] = [
        {"sample_id": "1", "query": "é?", "relevant_docs": [{"doc_id": "a", "text": "t", "metadata": {"b": 1, "a": 0.5}}]},
        {"sample_id": "2", "query": "q", "relevant_docs": [], "labels": {"z": None, "a": [1]}, "reference_answer": {"text": "x"}},
    ]  # fmt: skip
    lines = [json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() for row in rows]
    want = hashlib.sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
    assert dataset_fingerprint(map(decode_sample, lines)) == want


SAME: list[tuple[EvaluationSample, EvaluationSample, bool, str]] = [  # one, other, same, why
    (make_sample(labels={"a": 1, "b": 2}), make_sample(labels={"b": 2, "a": 1}), True, "the order of keys"),
    (make_sample(metadata={"a": {"x": 1, "y": 2}}), make_sample(metadata={"a": {"y": 2, "x": 1}}), True, "... inside"),
    (make_sample(metadata={"n": np.int64(3)}), make_sample(metadata={"n": 3}), True, "numbers of numpy"),
    (make_sample(metadata={"n": (1, 2)}), make_sample(metadata={"n": [1, 2]}), True, "a tuple is a list"),
    (make_sample(relevant_docs=[]), make_sample(relevant_docs=None), False, "nothing relevant is not unannotated"),
    (make_sample(query="q"), make_sample(query="Q"), False, "another query"),
    (
        make_sample(relevant_docs=[Document("a")]),
        make_sample(relevant_docs=[Document("a", "t")]),
        False,
        "another text",
    ),
]


@pytest.mark.parametrize(("one", "other", "same", "why"), SAME, ids=[row[-1] for row in SAME])
def test_samples_with_equal_fingerprints(one: EvaluationSample, other: EvaluationSample, same: bool, why: str) -> None:
    assert (dataset_fingerprint([one]) == dataset_fingerprint([other])) is same, why


def test_order_of_samples_changes_the_fingerprint() -> None:
    pair = [make_sample(sample_id="1"), make_sample(sample_id="2")]
    assert dataset_fingerprint(pair) != dataset_fingerprint(pair[::-1])
    assert dataset_fingerprint([]) != dataset_fingerprint(pair)


def test_sample_without_a_fingerprint() -> None:
    with pytest.raises(LineError, match=r"sample '1': field 'labels.x' holds a value of type 'object'"):
        dataset_fingerprint([make_sample(labels={"x": object()})])


# --- outcomes --------------------------------------------------------------------------------------------------------

KEYS: list[tuple[tuple[Any, ...] | None, bool, str]] = [  # keys of two rows, kept, why
    (None, True, "no keys"),
    (("a", None), True, "texts and nothing"),
    ((FamilyKey("a", 0, None, ()), FamilyKey("b", 1, "a", ("typo", "noise"), (True, 0.5))), True, "families"),
    (((True, "x"), (False, None)), True, "tuples"),
    (([1, [2, (3,)]], b"\x00\xff"), True, "lists and bytes"),
    ((float("inf"), 2**70), True, "numbers JSON has not, or many digits"),
    ((FamilyKey("a", 0, None, (), Scores.from_list([Score(0.5)])), None), True, "outcomes within a key"),
    ((EvaluationSample("1", "q"), None), False, "samples are not JSON"),
    ((FamilyKey("a", 0, None, (), object()), None), False, "anything within a key"),
    (("\ud800", "a"), False, "half of a surrogate pair"),
]


@pytest.mark.parametrize(("keys", "kept", "why"), KEYS, ids=[row[-1] for row in KEYS])
def test_keys(keys: tuple[Any, ...] | None, kept: bool, why: str) -> None:
    given = Scores.of([0.5, 1.0], keys=keys)
    back = decode_scores(encode_scores(given))
    assert back.keys == (keys if kept else None), why
    if kept:
        assert back == given
        assert [type(key) for key in back.keys or ()] == [type(key) for key in keys or ()]


def test_statistics_and_nan() -> None:
    stats = np.array([[1.0, np.nan, -0.0], [np.inf, 1e-320, 3.0]])
    given = Scores.of([0.5, np.nan], skip={"no_gold": np.array([False, True])}, stats=stats)
    back = decode_scores(encode_scores(given))
    assert back == given
    assert back.stats is not None
    assert back.stats.shape == (2, 3)
    assert np.signbit(back.stats[0, 2])


def test_no_rows_with_statistics() -> None:
    given = Scores.of([], stats=np.zeros((0, 4)))
    assert decode_scores(encode_scores(given)) == given


def test_results_of_every_built_in_metric() -> None:
    rng = random.Random(0)
    samples, outputs = [], []
    for number in range(12):
        labels = {"variant_of": "q0", "scenario": "typo"} if number % 3 == 1 else {}
        docs = [Document(f"d{i}", f"text {i}", span=(i, i + 5), parent_id="p") for i in rng.sample(range(9), 3)]
        samples.append(EvaluationSample(f"q{number}", "why is it?", docs[:2], docs[2:], Response("it is so"), labels))
        hits = [RetrievedDocument(doc, 1 / rank, rank) for rank, doc in enumerate(docs[::-1], 1)]
        error = "timeout" if number == 7 else None
        outputs.append(SystemOutputs(hits, Response(f"it is {number}"), {"end_to_end": rng.random()}, error=error))
    names = ["recall@2", "ndcg", "bleu", "chrf", "rougeL_answer", "distinct_n", "noise_robustness", "throughput"]
    for result in evaluate(samples, outputs, names):
        assert isinstance(result.scores, Scores)
        assert decode_scores(encode_scores(result.scores)) == result.scores, result.name
