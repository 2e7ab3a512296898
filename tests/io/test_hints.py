"""Unknown keys: what is suggested in their place."""

import json

import pytest

from auepora_eval.io.codec import LineError, decode_output, decode_sample

SAMPLE = {"sample_id": "1", "query": "q"}
OUTPUT = {"sample_id": "1", "retrieved": ["a"]}

MEANT = [  # rows, keys of other tools, the field they mean
    ("sample", "id _id qid query_id ID", "sample_id"),
    ("sample", "question user_input input prompt", "query"),
    ("sample", "answer reference expected_output ground_truth", "reference_answer"),
    ("sample", "answers ground_truths", "reference_answers"),
    ("sample", "reference_contexts relevant_documents", "relevant_docs"),
    ("output", "id _id qid query_id", "sample_id"),
    ("output", "answer prediction output actual_output", "response"),
    ("output", "contexts retrieved_contexts documents retrieval_context", "retrieved"),
]
SYNONYMS = [(rows, key, field) for rows, keys, field in MEANT for key in keys.split()]


def problem(rows: str, row: dict[str, object]) -> str:
    with pytest.raises(LineError) as caught:
        (decode_sample if rows == "sample" else decode_output)(json.dumps(row).encode())
    return str(caught.value)


@pytest.mark.parametrize(("rows", "key", "field"), SYNONYMS, ids=[f"{row[0]}: {row[1]}" for row in SYNONYMS])
def test_names_of_other_tools(rows: str, key: str, field: str) -> None:
    assert problem(rows, {key: "x"}) == f"unknown field '{key}'; did you mean '{field}'?"


POSITION = 'a position of a ranking is {"doc": {"doc_id": "d1", "text": "..."}, "score": 0.5}, or just the id "d1"'
LEVEL = '; did you mean \'metadata.relevance\'? Write {"doc_id": "d1", "metadata": {"relevance": 2}}'
DOC_KEYS = "doc_id, text, metadata, parent_id, span"
OUTPUT_KEYS = "sample_id, retrieved, response, timings, extra, error, refused, citations, steps, usage, repeat"
ROWS: list[tuple[str, dict[str, object], str, str]] = [  # rows, row, the problem after "unknown field ", why
    (
        "output",
        {**OUTPUT, "model": "x"},
        f"'model'; known fields: {OUTPUT_KEYS}; put keys of your own under 'extra'",
        "a key of one's own in an output",
    ),
    (
        "sample",
        {**SAMPLE, "relevant_docs": [{"doc_id": "a", "url": "x"}]},
        f"'relevant_docs[0].url'; known fields: {DOC_KEYS}; put keys of your own under 'metadata'",
        "a key of one's own in a document",
    ),
    (
        "output",
        {"sample_id": "1", "retrieved": [{"doc": "a", "index": "x"}]},
        "'retrieved[0].index'; known fields: doc, score, rank; put keys of your own under 'doc.metadata'",
        "a key of one's own at a position",
    ),
    (
        "sample",
        {**SAMPLE, "relevant_docs": ["a", {"doc_id": "b", "relevance": 2}]},
        f"'relevant_docs[1].relevance'{LEVEL}",
        "a level beside the id",
    ),
    (
        "output",
        {"sample_id": "1", "retrieved": [{"doc": {"id": "a"}}]},
        "'retrieved[0].doc.id'; did you mean 'doc_id'?",
        "an id in a document",
    ),
    (
        "sample",
        {**SAMPLE, "relevant_docs": [{"doc_id": "a", "page_content": "x"}]},
        "'relevant_docs[0].page_content'; did you mean 'text'?",
        "a text in a document",
    ),
    ("output", {"sample_id": "1", "response": {"answer": "x"}}, "'response.answer'; did you mean 'text'?", "an answer"),
    (
        "output",
        {"sample_id": "1", "retrieved": [{"doc_id": "a", "score": 1}]},
        f"'retrieved[0].doc_id': {POSITION}",
        "a document as a position",
    ),
    (
        "output",
        {"sample_id": "1", "retrieved": ["a", {"text": "t", "id": "a"}]},
        f"'retrieved[1].text': {POSITION}",
        "a document as a position, text first",
    ),
    (
        "output",
        {**OUTPUT, "query": "q"},
        "'query': samples have it, outputs do not; leave it out, or put it under 'extra'",
        "the query copied into an output: nothing is swapped",
    ),
    (
        "output",
        {**OUTPUT, "ground_truth": "x"},
        "'ground_truth': that is 'reference_answer' in the file of the samples; leave it out, or put it under 'extra'",
        "a reference in an output",
    ),
    (
        "sample",
        {**SAMPLE, "retrieved_contexts": ["x"]},
        "'retrieved_contexts': that is 'retrieved' in the file of the outputs; leave it out, or put it under 'labels' "
        "or 'metadata'",
        "a ranking in a sample",
    ),
]


@pytest.mark.parametrize(("rows", "row", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_hints(rows: str, row: dict[str, object], want: str, why: str) -> None:
    assert problem(rows, row) == f"unknown field {want}", why
