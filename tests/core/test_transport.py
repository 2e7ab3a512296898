"""Samples and outputs as columns and back: objects are restored exactly."""

import pickle
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.core.batch import pack, unpack
from auepora_eval.core.types import UnknownRanking

VALUE = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.tuples(st.integers()) | st.just({1, 2})
DICT = st.dictionaries(st.text(max_size=3), VALUE, max_size=2)
DOCUMENT = st.builds(
    Document,
    st.text(max_size=3),
    st.text(max_size=5),
    DICT,
    st.none() | st.text(max_size=2),
    st.none() | st.just((1, 4)),
)
RESPONSE = st.none() | st.builds(
    Response, st.text(max_size=5), st.none() | DICT, DICT, st.none() | st.just([{"text": "s"}])
)
SAMPLE = st.builds(
    EvaluationSample,
    st.text(max_size=3),
    st.text(max_size=3),
    st.none() | st.lists(DOCUMENT, max_size=2),
    st.none() | st.lists(DOCUMENT, max_size=2),
    RESPONSE,
    DICT,
    DICT,
    st.lists(st.text(max_size=3), max_size=2),
    st.lists(DICT, max_size=1),
    st.none() | st.text(max_size=2),
)
RETRIEVED = st.builds(RetrievedDocument, DOCUMENT, st.none() | st.floats(0, 1), st.integers(1, 9))
OUTPUT = st.none() | st.builds(
    SystemOutputs,
    st.lists(RETRIEVED, max_size=3),
    RESPONSE,
    st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=2),
    DICT,
    st.none() | st.text(max_size=5),
    st.none() | st.booleans(),
    st.none() | st.lists(st.text(max_size=2), max_size=2),
    st.lists(DICT, max_size=1),
    DICT,
    st.integers(0, 3),
)


def sent(rows: Any) -> Any:
    return unpack(pickle.loads(pickle.dumps(pack(*rows))))


@given(st.lists(st.tuples(SAMPLE, OUTPUT), max_size=4))
def test_round_trip(rows: list[tuple[EvaluationSample, SystemOutputs | None]]) -> None:
    samples, outputs = [s for s, _ in rows], [o for _, o in rows]
    assert sent((samples, outputs)) == (samples, outputs)


def test_shared_document_is_sent_once() -> None:
    document = Document("d", "x" * 10_000)
    samples = [EvaluationSample(str(n), "", relevant_docs=[document]) for n in range(50)]
    outputs = [SystemOutputs([RetrievedDocument(document, 1.0, 1)]) for _ in samples]
    assert len(pickle.dumps(pack(samples, outputs))) < 20_000
    assert sent((samples, outputs)) == (samples, outputs)


def test_unknown_ranking() -> None:
    samples = [EvaluationSample(str(n), "") for n in range(3)]
    outputs = [
        SystemOutputs(UnknownRanking()),
        SystemOutputs([]),
        SystemOutputs([RetrievedDocument(Document("d"), None, 1)]),
    ]
    assert [type(output.retrieved) for output in sent((samples, outputs))[1]] == [UnknownRanking, list, list]
    odd = SystemOutputs(UnknownRanking([RetrievedDocument(Document("d"), None, 1)]))
    assert sent((samples[:1], [odd]))[1] == [odd]


def test_values_that_constructors_would_correct_are_preserved() -> None:
    sample = EvaluationSample("1", "", reference_answer=Response("x"))
    sample.labels = None  # type: ignore[assignment]
    sample.reference_answers, sample.reference_answer = ["a"], None
    answer = Response("y")
    answer.text = None  # type: ignore[assignment]
    output = SystemOutputs([], answer)
    ((arrived,), (answered,)) = sent(([sample], [output]))
    assert (arrived.labels, arrived.reference_answers, arrived.reference_answer) == (None, ["a"], None)
    assert answered.response.text is None


@dataclass
class MySample(EvaluationSample):
    mood: str = "good"


def test_user_subclasses_are_pickled_whole() -> None:
    samples, outputs = [MySample("1", "", mood="bad")], [SystemOutputs([], Response("yes"))]
    arrived, _ = sent((samples, outputs))
    assert type(arrived[0]) is MySample
    assert arrived == samples
