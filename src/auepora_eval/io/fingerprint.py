"""The fingerprint of a dataset: a hash of its samples in their order, whatever file they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from ..core.types import Document, EvaluationSample, Response
from .codec import (
    CheckedDocumentRow,
    CheckedSampleRow,
    DocumentRow,
    LineError,
    ResponseRow,
    SampleRow,
    SentenceRow,
    encode_sample,
)

__all__ = ["canonical_line", "dataset_fingerprint", "to_sample_row"]

_SORTED_ENCODER = msgspec.json.Encoder(order="sorted")
_ROW_DECODER: msgspec.json.Decoder[SampleRow[DocumentRow]] = msgspec.json.Decoder(SampleRow[DocumentRow])
_CHECKED_ROW_DECODER: msgspec.json.Decoder[SampleRow[CheckedDocumentRow]] = msgspec.json.Decoder(CheckedSampleRow)


def dataset_fingerprint(samples: Iterable[EvaluationSample]) -> str:
    """Return the SHA-256 of the samples' canonical JSON lines; ``LineError``: a value is not valid JSON."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(canonical_line(sample)[0])
        digest.update(b"\n")
    return digest.hexdigest()


def canonical_line(sample: EvaluationSample) -> tuple[bytes, SampleRow[DocumentRow]]:
    """Return the sample as a JSON line with sorted keys and without defaults; and its row.

    The row is built without checks. The line is read back: if it differs, some value is not plain JSON, and the
    checked encoder of dataset files is used.
    """
    try:
        row = to_sample_row(sample)
        line = _SORTED_ENCODER.encode(row)
        if _decode_row(line) == row:
            return line, row
    except Exception:  # noqa: S110 - the checked encoder reports the problem
        pass
    return _checked_canonical_line(sample)


def _checked_canonical_line(sample: EvaluationSample) -> tuple[bytes, SampleRow[DocumentRow]]:
    try:
        row = _ROW_DECODER.decode(encode_sample(sample))
    except LineError as error:
        raise LineError(f"sample {sample.sample_id!r:.80}: {error}") from error
    return _SORTED_ENCODER.encode(row), row


def _decode_row(line: bytes) -> SampleRow[DocumentRow]:
    if b'"span"' not in line:
        return _ROW_DECODER.decode(line)
    _CHECKED_ROW_DECODER.decode(line)  # rejects a span that runs backwards
    return _ROW_DECODER.decode(line)


def to_sample_row(sample: EvaluationSample) -> SampleRow[DocumentRow]:
    """Return the sample as a row, without checking its values."""
    relevant, candidates = sample.relevant_docs, sample.candidate_docs
    return SampleRow(
        sample.sample_id,
        sample.query,
        None if relevant is None else [_document(doc) for doc in relevant],
        None if candidates is None else [_document(doc) for doc in candidates],
        _response(sample.reference_answer),
        sample.labels,
        sample.metadata,
        sample.reference_answers,
        sample.history,
        sample.cluster_id,
    )


def _document(doc: Document) -> DocumentRow:
    return DocumentRow(doc.doc_id, doc.text, doc.metadata, doc.parent_id, doc.span)


def _response(response: Response | None) -> ResponseRow | None:
    if response is None:
        return None
    sentences = None
    if response.sentences is not None:
        sentences = [SentenceRow(**sentence) for sentence in response.sentences]
    return ResponseRow(response.text, response.structured, response.metadata, sentences)
