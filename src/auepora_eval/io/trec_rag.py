"""Answers of the TREC RAG track: sentences that cite a list of references by index, a topic per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..core.types import Document, Response, RetrievedDocument, SystemOutputs
from ..runtime.files import write_lines
from .codec import ErrorCollector, Id, LineError, encode_output, encode_outputs
from .formats import Format, looks_like_trec_rag, register_format
from .problems import ParsedOutput, Problems, RowSchema, UniqueIds, quote_text, value_problem
from .tables import read_records

_SHAPE = RowSchema("answers", {"": ()}, "answers", ())
_FORMAT_KEYS = ("topic_id", "references", "answer")


class _AnswerSentence(msgspec.Struct):
    text: str
    citations: list[int | str] = []


class _AnswerRow(msgspec.Struct):
    references: list[Id]
    answer: list[_AnswerSentence]
    topic_id: Id | int | None = None
    metadata: dict[str, Any] = {}


def iter_answers(path: Path, problems: Problems) -> Iterator[ParsedOutput]:
    """Yield the answers of a file as outputs: the references are the retrieved documents, in their order."""
    unique_ids = UniqueIds(path, problems)
    for record in read_records(path, problems):
        try:
            sample_id, output = _output(record.values)
        except LineError as error:
            problems.add_all(path, record.line, error.messages, record=record.record)
            if (topic := _topic_id(record.values)) and unique_ids.is_new(topic, record.line, record=record.record):
                problems.unreadable_ids.add(topic)
            continue
        if unique_ids.is_new(sample_id, record.line, record=record.record):
            yield ParsedOutput(record.line, sample_id, output, record=record.record)


def _output(values: dict[str, Any]) -> tuple[str, SystemOutputs]:
    try:
        row = msgspec.convert(values, _AnswerRow)
    except msgspec.ValidationError as error:
        from .jsonl import find_struct_problems

        first = value_problem(error, values, _SHAPE)
        raise LineError(*find_struct_problems(msgspec.json.encode(values), _AnswerRow, _SHAPE, first)) from error
    errors = ErrorCollector()
    topic = errors.call(_require_topic_id, values)
    cited = [
        errors.call_each(
            _resolve_citation, [(c, row.references, f"answer[{i}].citations[{n}]") for n, c in enumerate(one.citations)]
        )
        for i, one in enumerate(row.answer)
    ]
    errors.raise_errors()
    sentences = [{"text": one.text, "citations": ids} for one, ids in zip(row.answer, cited, strict=True)]
    return str(topic), SystemOutputs(
        retrieved=[RetrievedDocument(Document(doc_id), None, rank) for rank, doc_id in enumerate(row.references, 1)],
        response=Response(" ".join(one.text for one in row.answer), sentences=sentences),
        extra={key: value for key, value in values.items() if key not in _FORMAT_KEYS},
        citations=list(dict.fromkeys(doc_id for ids in cited for doc_id in ids)),
    )


def _topic_id(values: dict[str, Any]) -> str:
    """Return the id of the topic as a string; empty if there is none."""
    topic, metadata = values.get("topic_id"), values.get("metadata")
    if topic is None and isinstance(metadata, dict):  # as in the track of 2025
        topic = metadata.get("narrative_id")
    return str(topic) if isinstance(topic, str | int) and not isinstance(topic, bool) else ""


def _require_topic_id(values: dict[str, Any]) -> str:
    topic = _topic_id(values)
    if not topic:
        raise LineError("field 'topic_id' is missing")
    return topic


def _resolve_citation(citation: int | str, references: Sequence[str], path: str) -> str:
    if isinstance(citation, str):
        return citation
    if 0 <= citation < len(references):
        return references[citation]
    where = f"field {quote_text(path)} is {citation}"
    raise LineError(f"{where}, but the places of the {len(references)} references are counted from 0")


def write_answers(outputs: Iterable[tuple[str, SystemOutputs]], path: Path) -> None:
    """Write an answer per line; one without sentences is a single sentence with all citations."""

    write_lines(path, map(msgspec.json.encode, encode_outputs(outputs, _row)))


def _row(sample_id: str, output: SystemOutputs) -> dict[str, Any]:
    if output.response is None:
        raise LineError("it has no response")
    row = msgspec.json.decode(encode_output(sample_id, output))  # values that are not JSON raise the usual error
    references = [item["doc"] if isinstance(item["doc"], str) else item["doc"]["doc_id"] for item in row["retrieved"]]
    indexes = {doc_id: index for index, doc_id in reversed(list(enumerate(references)))}
    response = row["response"]
    sentences = response.get("sentences")
    if sentences is None:
        sentences = [{"text": response["text"], "citations": row.get("citations") or []}] if response["text"] else []
    answer = []
    for one in sentences:
        citations = one.get("citations", [])
        for doc_id in citations:
            if doc_id not in indexes:
                raise LineError(f"it cites {quote_text(doc_id)}, which is not among its retrieved documents")
        answer.append({"text": one["text"], "citations": [indexes[doc_id] for doc_id in citations]})
    words = sum(len(one["text"].split()) for one in answer)
    extra = {key: value for key, value in row.get("extra", {}).items() if key not in _FORMAT_KEYS}
    head = {"topic_id": sample_id, "references": references}
    return {**head, "response_length": words, **extra, "answer": answer}


FORMAT = register_format(
    Format(
        "trec_rag",
        "answers of the TREC RAG track, with citations by sentence",
        looks_like_trec_rag,
        read_outputs=iter_answers,
        write_outputs=write_answers,
        output_fields=frozenset({"retrieved", "response", "citations", "extra"}),
        nested_losses=frozenset(
            {"retrieved.score", "retrieved.doc.text", "retrieved.doc.metadata", "response.structured"}
        ),
    )
)
