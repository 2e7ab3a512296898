"""Columns read at once give what rows read one by one give; where they would not, they are not read at once."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval.core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.io.codec import LineError, decode_output_line, decode_sample
from auepora_eval.io.parquet import (
    line_of_row,
    save_parquet_dataset,
    save_parquet_outputs,
    table_schema,
)
from auepora_eval.scale.inputs import column_outputs, column_samples, string_column
from helpers.requirements import examples, need

texts = st.text(st.characters(codec="utf-8"), max_size=6)
ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
free = st.dictionaries(texts, values, max_size=3)
spans = st.none() | st.tuples(st.integers(0, 5), st.integers(5, 9))
documents = st.builds(Document, ids, texts, free, st.none() | texts, spans)
sentences = st.lists(
    st.fixed_dictionaries({"text": texts}, optional={"citations": st.lists(texts, max_size=2)}), max_size=2
)
answers = st.builds(Response, texts, st.none() | free, free, st.none() | sentences)
samples = st.builds(
    EvaluationSample,
    ids,
    texts,
    st.none() | st.lists(documents, max_size=3),
    st.none() | st.lists(documents, max_size=2),
    st.none() | answers,
    free,
    free,
    st.lists(texts, max_size=2),
    st.lists(free, max_size=2),
    st.none() | texts,
    st.lists(st.lists(ids, max_size=2), max_size=3),
)
scores = st.none() | st.floats(-9, 9)
ranked = st.lists(st.tuples(documents, scores, st.none() | st.integers(1, 9)), max_size=4).map(
    lambda found: [
        RetrievedDocument(doc, score, position if rank is None else rank)
        for position, (doc, score, rank) in enumerate(found, start=1)
    ]
)
outputs = st.builds(
    SystemOutputs,
    ranked,
    st.none() | answers,
    st.dictionaries(texts, st.floats(0, 9) | st.integers(0, 9), max_size=2),
    free,
    st.none() | texts,
    st.none() | st.booleans(),
    st.none() | st.lists(texts, max_size=2),
    st.lists(free, max_size=2),
    free,
    st.integers(0, 3),
)


@pytest.fixture(autouse=True)
def pa() -> Any:
    return need("pyarrow")


def read_table(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.read_table(path)


def exact(value: Any) -> str:
    """Told apart by more than ==: 1 from 1.0 and True, 0.0 from -0.0."""
    return repr(value)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(samples, min_size=1, max_size=6, unique_by=lambda one: one.sample_id), st.integers(0, 3), st.integers(0, 6)
)
def test_samples(
    tmp_path_factory: pytest.TempPathFactory, made: list[EvaluationSample], start: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("columns") / "s.parquet"
    save_parquet_dataset(made, path)
    table = read_table(path).slice(start, count)
    want = [decode_sample(line_of_row(row)) for row in table.to_pylist()]
    assert exact(column_samples(table)) == exact(want)


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(ids, outputs, min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 6))
def test_outputs(
    tmp_path_factory: pytest.TempPathFactory, made: dict[str, SystemOutputs], start: int, count: int
) -> None:
    path = tmp_path_factory.mktemp("columns") / "o.parquet"
    save_parquet_outputs(list(made.items()), path)
    table = read_table(path).slice(start, count)
    want = [decode_output_line(line_of_row(row)) for row in table.to_pylist()]
    assert exact(column_outputs(table)) == exact(want)


DOCUMENT = {"doc_id": "d", "text": "t", "metadata": None, "parent_id": None, "span": None}
ROWS = {
    "nothing but what must be there": {},
    "nothing retrieved": {"retrieved": []},
    "not said what was retrieved": {"retrieved": None},
    "a document without a text": {"retrieved": [{"doc": {**DOCUMENT, "text": None}, "score": 1.0, "rank": None}]},
    "no document at a place": {"retrieved": [{"doc": None, "score": 1.0, "rank": None}]},
    "no place": {"retrieved": [None]},
    "an empty id": {"retrieved": [{"doc": {**DOCUMENT, "doc_id": ""}, "score": 1.0, "rank": None}]},
    "a score that is no number": {"retrieved": [{"doc": DOCUMENT, "score": math.nan, "rank": None}]},
    "an infinite score": {"retrieved": [{"doc": DOCUMENT, "score": math.inf, "rank": 3}]},
    "a span backwards": {"retrieved": [{"doc": {**DOCUMENT, "span": [5, 2]}, "score": 1.0, "rank": None}]},
    "half a span": {"retrieved": [{"doc": {**DOCUMENT, "span": [5]}, "score": 1.0, "rank": None}]},
    "an answer without a text": {"response": {"text": None, "structured": None, "metadata": None, "sentences": None}},
    "an answer that is null": {"response": None},
    "structured null": {"response": {"text": "a", "structured": "null", "metadata": None, "sentences": "null"}},
    "sentences of another kind": {"response": {"text": "a", "structured": None, "metadata": None, "sentences": "[3]"}},
    "unknown keys of a sentence": {
        "response": {"text": "a", "structured": None, "metadata": None, "sentences": '[{"text": "a", "x": 1}]'}
    },
    "a citation that is null": {"citations": ["a", None]},
    "no repeat": {"repeat": None},
    **{
        f"extra {text}": {"extra": text}
        for text in (
            "{}", "[]", "null", "3", "", "{", '{"a": -0}', '{"a": -0.0}', '{"a": 1E400}', '{"a": 1e5}', '{"a": NaN}',
            '{"a": Infinity}', '{"a": 1, "a": 2}', '{"a": 123456789012345678901234567890}', '{"a": "\\ud800"}',
            '{"a": "\\ud83d\\ude00"}', '{"a": 0.1000000000000000055511151231257827}', '{"a": 18446744073709551616}',
            '{"a": 1e-400}', '{"a": "\\u0000"}', ' { "a" : [ ] } ', '{"a": 1}x', '{"a": tru}', "[" * 3000,
        )
    },
    **{
        f"timings {text}": {"timings": text}
        for text in ('{"t": 1}', '{"t": 1.5}', '{"t": "1"}', '{"t": null}', '{"t": -0}', '{"t": true}', '{"t": 1e999}')
    },
    "steps": {"steps": '[{"a": 1}, {}]'},
    "steps that are none": {"steps": '[{"a": 1}, 3]'},
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_unsupported_values_are_read_row_by_row(pa: Any, row: dict[str, Any]) -> None:
    table = pa.Table.from_pylist([{"sample_id": "q", **row}], schema=table_schema("outputs"))
    try:
        want = [decode_output_line(line_of_row(one)) for one in table.to_pylist()]
    except LineError:
        assert column_outputs(table) is None
    else:
        assert exact(column_outputs(table)) in (exact(want), "None")


def test_other_schemas_are_read_row_by_row(pa: Any) -> None:
    ours = {"sample_id": ["q"], "query": ["?"]}
    assert column_samples(pa.table(ours)) == [EvaluationSample("q", "?")]
    assert column_samples(pa.table({**ours, "notes": ["x"]})) is None
    assert column_samples(pa.table({"sample_id": [1], "query": ["?"]})) is None
    assert column_samples(pa.table({"sample_id": [None], "query": ["?"]}, schema=None)) is None
    assert column_samples(pa.table({**ours, "labels": [{"lang": "de"}]})) is None
    assert column_samples(pa.table([pa.array(["q"]), pa.array(["q"])], names=["sample_id", "sample_id"])) is None
    assert string_column(pa.table(ours), "query") == ["?"]
    assert string_column(pa.table(ours), "labels") is None
    assert string_column(pa.table({"query": pa.array(["a", None])}), "query") is None


def test_chunks_are_put_together(pa: Any) -> None:
    one = pa.Table.from_pylist([{"sample_id": "a", "query": "?"}], schema=table_schema("samples"))
    two = pa.Table.from_pylist([{"sample_id": "b", "query": "!"}], schema=table_schema("samples"))
    assert column_samples(pa.concat_tables([one, two])) == [EvaluationSample("a", "?"), EvaluationSample("b", "!")]
    assert column_samples(one.slice(0, 0)) == []
