"""Writes samples, each with its output, as records in the columns of another tool."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...core.errors import BadValueError, DuplicateIdError
from ...core.types import EvaluationSample, SystemOutputs
from ..codec import LineError, encode_output, encode_sample
from ..files import plain_suffix, write_lines
from ..ids import text_id
from ..problem_messages import quote_text
from ..record_files import is_table
from .columns import ID_COLUMNS, RAGAS, RecordColumns

__all__ = ["write_records"]

_ID_COLUMN = ID_COLUMNS[0]


def write_records(
    columns: RecordColumns, pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]], path: Path
) -> None:
    """Write a record per sample: a JSON array, a table, or (with any other suffix) an object per line."""
    records = _records(columns, pairs)
    if is_table(path):
        lines = _table_lines(list(records), "\t" if plain_suffix(path) == ".tsv" else ",", columns)
    elif plain_suffix(path) == ".json":
        lines = _array_lines(records)
    else:
        lines = map(msgspec.json.encode, records)
    write_lines(path, lines)


def _records(
    columns: RecordColumns, pairs: Iterable[tuple[EvaluationSample, SystemOutputs | None]]
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for sample, output in pairs:
        try:
            record = _record(columns, sample, output)
        except LineError as error:
            raise BadValueError(f"sample {sample.sample_id!r} cannot be written: {error}") from error
        if sample.sample_id in seen:
            raise DuplicateIdError(f"sample_id {sample.sample_id!r} comes twice; each id may come once in a file")
        seen.add(sample.sample_id)
        yield record


def _record(columns: RecordColumns, sample: EvaluationSample, output: SystemOutputs | None) -> dict[str, Any]:
    # Through our own codec: invalid values raise the usual errors, and the rest is plain JSON.
    row = msgspec.json.decode(encode_sample(sample))
    # A failed output is omitted: a sample without output counts as a failure too.
    failed = output is None or output.error is not None
    out = {} if failed or output is None else msgspec.json.decode(encode_output(sample.sample_id, output))
    answer = _answer(out.get("response"))
    record: dict[str, Any] = {str(columns.query): row["query"]}  # first, since format detection uses the first key
    if "history" in row and columns is RAGAS:
        record[str(columns.query)] = _messages(row["history"], row["query"], answer)
        answer = None
    record[_ID_COLUMN] = row["sample_id"]
    retrieved, relevant = _pairs(out.get("retrieved")), _pairs(row.get("relevant_docs"))
    derived = all(doc_id == text_id(text) for doc_id, text in [*(retrieved or ()), *(relevant or ())])
    for name, ids_name, pairs in (
        (columns.retrieved_texts, columns.retrieved_ids, retrieved),
        (columns.relevant_texts, columns.relevant_ids, relevant),
    ):
        if pairs is not None:
            record |= _contexts(str(name), None if derived else ids_name, pairs, texts_only=ids_name is None)
    record[str(columns.response)] = answer
    record[str(columns.reference_answer)] = _answer(row.get("reference_answer"))
    for key, value in row.get("metadata", {}).items():
        if key in columns.names() or key in ID_COLUMNS:
            raise LineError(f"field {quote_text(f'metadata.{key}')} has the name of a column; rename it")
        record[key] = value
    return {key: value for key, value in record.items() if value is not None}


def _answer(response: dict[str, Any] | str | None) -> str | None:
    return response["text"] if isinstance(response, dict) else response


def _messages(history: list[dict[str, Any]], query: str, answer: str | None) -> list[dict[str, Any]]:
    """Return a conversation in the format of ragas, which ends with the answer."""
    kinds = {"user": "human", "assistant": "ai"}
    messages = []
    for index, turn in enumerate(history):
        role, content = turn.get("role", turn.get("type")), turn.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise LineError(f"field 'history[{index}]' needs a string as 'role' and as 'content'")
        rest = {key: value for key, value in turn.items() if key not in ("role", "type", "content")}
        messages.append({"content": content, "type": kinds.get(role, role), **rest})
    messages.append({"content": query, "type": "human"})
    return messages if answer is None else [*messages, {"content": answer, "type": "ai"}]


def _pairs(docs: list[dict[str, Any]] | None) -> list[tuple[str, str]] | None:
    """Return ids and texts of relevant documents, or of positions of a ranking."""
    if docs is None:
        return None
    return [(doc["doc_id"], doc.get("text", "")) for doc in (one.get("doc", one) for one in docs)]


def _contexts(
    texts_name: str, ids_name: str | None, pairs: list[tuple[str, str]], *, texts_only: bool
) -> dict[str, Any]:
    """Return the columns of some documents; without a column for ids, they are omitted."""
    bare = next((doc_id for doc_id, text in pairs if not text), None)
    if texts_only and bare is not None:
        raise LineError(f"document {quote_text(bare)} has no text, and this format has no place for ids")
    columns: dict[str, Any] = {texts_name: [text for _, text in pairs]}
    if ids_name is None or not pairs:
        return columns
    ids = {ids_name: [doc_id for doc_id, _ in pairs]}
    return columns | ids if any(text for _, text in pairs) else ids


def _array_lines(records: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    before = b"["
    for record in records:
        yield before
        before = msgspec.json.encode(record) + b","
    yield before.removesuffix(b",")
    yield b"]"


def _table_lines(records: list[dict[str, Any]], delimiter: str, columns: RecordColumns) -> Iterator[bytes]:
    header = list(dict.fromkeys(name for record in records for name in record))
    yield _csv_line(header, delimiter)
    answers = any(record.get(str(columns.response)) for record in records)
    for record in records:
        unclear = _ambiguous_column(record, columns, answers)
        if unclear is not None:
            problem = f"a table cannot tell an empty {unclear} from none; write a file that ends in '.jsonl'"
            raise BadValueError(f"sample {record[_ID_COLUMN]!r} cannot be written: {problem}")
        yield _csv_line([_cell(record.get(name)) for name in header], delimiter)


def _ambiguous_column(record: dict[str, Any], columns: RecordColumns, answers: bool) -> str | None:
    """Return the column that a reader could not restore; empty answers can be restored if others are not empty."""
    response = str(columns.response)
    empty = [name for name in sorted(columns.names() & record.keys()) if record[name] == "" and name != response]
    if empty:
        return empty[0]
    answer = record.get(response)
    turns = record[str(columns.query)]
    if answer is None and isinstance(turns, list) and turns[-1]["type"] == "ai":
        return None
    has_output = not {columns.retrieved_texts, columns.retrieved_ids}.isdisjoint(record)
    return response if has_output and (answer is None if answers else answer == "") else None


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _csv_line(cells: list[str], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n").encode()
