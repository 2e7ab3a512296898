"""Rows of a file into the data types, field by field.

A constructor written in Python takes most of the time of reading a file. Rows have been checked already, so that here
the objects are made empty and their fields set, which takes half as long. A test holds the two ways against each other,
so that no field is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.types import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs

if TYPE_CHECKING:
    from .codec import DocumentRow, OutputRow, ResponseRow, RetrievedRow, SampleRow, SentenceRow

__all__ = ["BadSpanError", "build_output", "build_sample", "build_sentence"]

_new = object.__new__


class BadSpanError(ValueError):
    """A document whose span runs backwards."""


def build_sample(row: SampleRow[DocumentRow]) -> EvaluationSample:
    """The sample of a row, which must not be used again; ``BadSpanError`` where a span runs backwards."""
    sample = _new(EvaluationSample)
    sample.sample_id = row.sample_id
    sample.query = row.query
    sample.relevant_docs = None if row.relevant_docs is None else _documents(row.relevant_docs)
    sample.candidate_docs = None if row.candidate_docs is None else _documents(row.candidate_docs)
    sample.reference_answer = None if row.reference_answer is None else _response(row.reference_answer)
    sample.labels = row.labels
    sample.metadata = row.metadata
    sample.reference_answers = row.reference_answers
    sample.history = row.history
    sample.cluster_id = row.cluster_id
    if row.reference_answers:
        sample.__post_init__()
    return sample


def build_output(row: OutputRow[DocumentRow]) -> SystemOutputs:
    """The output of a row, which must not be used again; ``BadSpanError`` where a span runs backwards."""
    output = _new(SystemOutputs)
    output.retrieved = [] if row.retrieved is msgspec.UNSET else _ranking(row.retrieved)
    output.response = None if row.response is None else _response(row.response)
    output.timings = row.timings
    output.extra = row.extra
    output.error = row.error
    output.refused = row.refused
    output.citations = row.citations
    output.steps = row.steps
    output.usage = row.usage
    output.repeat = row.repeat
    return output


def _documents(rows: Sequence[DocumentRow | str]) -> list[Document]:
    made = []
    for row in rows:
        if isinstance(row, str):
            made.append(Document(row))
            continue
        document = _new(Document)
        document.doc_id = row.doc_id
        document.text = row.text
        document.metadata = row.metadata
        document.parent_id = row.parent_id
        document.span = row.span
        if row.span is not None and row.has_bad_span:
            raise BadSpanError
        made.append(document)
    return made


def _ranking(rows: Sequence[RetrievedRow[DocumentRow] | str]) -> list[RetrievedDocument]:
    made = []
    for position, row in enumerate(rows, start=1):
        item = _new(RetrievedDocument)
        if isinstance(row, str):
            item.doc = Document(row)
            item.score = None
            item.rank = position
        else:
            given = row.doc
            if isinstance(given, str):
                item.doc = Document(given)
            else:
                # As in `_documents`, once more: a call for each would take a fifth of the time.
                item.doc = document = _new(Document)
                document.doc_id = given.doc_id
                document.text = given.text
                document.metadata = given.metadata
                document.parent_id = given.parent_id
                document.span = given.span
                if given.span is not None and given.has_bad_span:
                    raise BadSpanError
            item.score = row.score
            item.rank = position if row.rank is None else row.rank
        made.append(item)
    return made


def _response(row: ResponseRow | str) -> Response:
    response = _new(Response)
    if isinstance(row, str):
        response.text = row
        response.structured = None
        response.metadata = {}
        response.sentences = None
        return response
    response.text = row.text or ""
    response.structured = row.structured
    response.metadata = row.metadata
    response.sentences = None if row.sentences is None else [build_sentence(sentence) for sentence in row.sentences]
    return response


def build_sentence(row: SentenceRow) -> dict[str, Any]:
    """A sentence of an answer, as answers keep them."""
    if row.citations is msgspec.UNSET:
        return {"text": row.text}
    return {"text": row.text, "citations": row.citations}
