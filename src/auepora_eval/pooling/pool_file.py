"""Pool files: JSON lines, one per query and document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from ..core.errors import BadValueError, DataFileError, did_you_mean
from ..io.codec import LineError
from ..io.files import read_lines, write_lines
from ..io.grades import Grade
from ..io.json_values import parse_json
from ..io.labels import Provenance
from .pool import PooledDocument

__all__ = ["read_pool", "write_pool"]

_KEYS = ("sample_id", "query", "history", "doc_id", "text", "returned", "judged")


def write_pool(path: str | Path, documents: Iterable[PooledDocument]) -> None:
    """Write a pool atomically."""
    write_lines(Path(path), map(_line, documents))


def read_pool(path: str | Path) -> list[PooledDocument]:
    """The documents of a pool, in its order; only ``sample_id`` and ``doc_id`` must be there."""
    file = Path(path)
    lines: dict[tuple[str, str], int] = {}
    documents = []
    for number, line in read_lines(file):
        try:
            document = _parse_document(parse_json(line))
        except LineError as error:
            raise DataFileError(file, number, str(error)) from error
        first_line = lines.setdefault(document.key, number)
        if first_line != number:
            subject = f"document {document.doc_id!r} of query {document.sample_id!r}"
            raise DataFileError(
                file, number, f"{subject} is already on line {first_line}; each document may occur once"
            )
        documents.append(document)
    if not documents:
        raise DataFileError(file, None, "the pool is empty; each line is a document that some run returned")
    return documents


def _line(one: PooledDocument) -> bytes:
    row: dict[str, Any] = {"sample_id": one.sample_id, "query": one.query}
    if one.history:
        row["history"] = list(one.history)
    row |= {"doc_id": one.doc_id, "text": one.text, "returned": dict(one.returned)}
    if one.judged is not None:
        row["judged"] = {"grade": one.judged.grade, "by": one.judged.by}
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError as error:
        where = f"document {one.doc_id!r} of query {one.sample_id!r}"
        raise BadValueError(f"{where} cannot be written: it holds half of a surrogate pair") from error


def _parse_document(row: object) -> PooledDocument:
    if not isinstance(row, dict):
        raise LineError("each line must be one JSON object: a document that some run returned for a query")
    for key in row:
        if key not in _KEYS:
            hint = did_you_mean(str(key)[:80], _KEYS, otherwise=f"; known fields: {', '.join(_KEYS)}")
            raise LineError(f"unknown field {key!r:.80}{hint}")
    given = {key: value for key, value in row.items() if value is not None}
    for key in ("sample_id", "doc_id"):
        if key not in given or given[key] == "":
            raise LineError(f"field '{key}' is missing")
    for key in ("sample_id", "doc_id", "query", "text"):
        if not isinstance(given.get(key, ""), str):
            raise LineError(f"field '{key}' must be a string, not {given[key]!r:.80}")
    returned, history = given.get("returned", {}), given.get("history", [])
    if not isinstance(returned, Mapping) or not all(_is_integer(rank) for rank in returned.values()):
        raise LineError("field 'returned' must map runs to the rank of the document")
    if not isinstance(history, list) or not all(isinstance(turn, Mapping) for turn in history):
        raise LineError("field 'history' must be a list of turns, each an object")
    fields = {key: given[key] for key in ("sample_id", "doc_id", "query", "text") if key in given}
    return PooledDocument(**fields, returned=returned, history=history, judged=_parse_grade(given))


def _parse_grade(row: Mapping[str, Any]) -> Grade | None:
    value = row.get("judged")
    if value is None:
        return None
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    grade: Any = fields.get("grade")
    by: Any = fields.get("by", "human")
    if not _is_integer(grade) or grade < 0 or by not in get_args(Provenance):
        raise LineError(
            f"field 'judged' must be an object with a 'grade' from 0 up and 'by' ({', '.join(get_args(Provenance))})"
        )
    return Grade(row["sample_id"], row["doc_id"], grade, by)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
