"""Fast construction of the data types from parsed rows, field by field.

Python constructors take most of the time of reading a file. Rows are already validated, so the objects are created
empty and their fields are set, which takes half the time. A test compares both ways, so that no field is missing.
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
    """Build the sample of a row; the row must not be used again. ``BadSpanError``: a span runs backwards."""
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
    """Build the output of a row; the row must not be used again. ``BadSpanError``: a span runs backwards."""
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
    built = []
    for row in rows:
        if isinstance(row, str):
            built.append(Document(row))
            continue
        document = _new(Document)
        document.doc_id = row.doc_id
        document.text = row.text
        document.metadata = row.metadata
        document.parent_id = row.parent_id
        document.span = row.span
        if row.span is not None and row.has_bad_span:
            raise BadSpanError
        built.append(document)
    return built


def _ranking(rows: Sequence[RetrievedRow[DocumentRow] | str]) -> list[RetrievedDocument]:
    built = []
    for position, row in enumerate(rows, start=1):
        item = _new(RetrievedDocument)
        if isinstance(row, str):
            item.doc = Document(row)
            item.score = None
            item.rank = position
        else:
            document_row = row.doc
            if isinstance(document_row, str):
                item.doc = Document(document_row)
            else:
                # Repeats `_documents`: a function call for each document would take a fifth of the time.
                item.doc = document = _new(Document)
                document.doc_id = document_row.doc_id
                document.text = document_row.text
                document.metadata = document_row.metadata
                document.parent_id = document_row.parent_id
                document.span = document_row.span
                if document_row.span is not None and document_row.has_bad_span:
                    raise BadSpanError
            item.score = row.score
            item.rank = position if row.rank is None else row.rank
        built.append(item)
    return built


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
    """Build a sentence of an answer, as ``Response.sentences`` stores it."""
    if row.citations is msgspec.UNSET:
        return {"text": row.text}
    return {"text": row.text, "citations": row.citations}
