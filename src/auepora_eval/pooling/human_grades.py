"""Grades that people gave: a qrels file, a table of query, document and grade, or JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.errors import DataFileError
from ..io.codec import LineError
from ..io.files import read_head, read_lines
from ..io.grades import Grade, GradeKey
from ..io.json_values import parse_json
from ..io.trec import load_qrels

__all__ = ["read_human_grades"]

_GRADE_KEYS = ("grade", "label", "relevance")
_HEADS = frozenset({"grade", "label", "relevance", "score", "level"})


def read_human_grades(path: str | Path) -> dict[GradeKey, Grade]:
    """What people said, by query and document. A negative grade is none.

    The form is seen from the first line: ``{"sample_id": ..., "doc_id": ..., "grade": 2}``, three columns with tabs
    between them (query, document, grade; a line of names above them is fine), or the four columns of qrels. In JSON
    lines ``comment`` and ``at`` are kept, other fields are not looked at.
    """
    place = Path(path)
    first = next((line for line in read_head(place).splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        rows = _json_lines(place)
    elif first.count("\t") == 2:
        rows = _table(place)
    elif len(first.split()) == 4:
        rows = (
            (0, Grade(query, doc, level)) for query, each in load_qrels(place).items() for doc, level in each.items()
        )
    else:
        raise DataFileError(
            place,
            1,
            "cannot tell what this is; grades of people are JSON lines with 'sample_id', 'doc_id' and 'grade', three "
            "columns with tabs between them, or qrels",
        )
    found: dict[GradeKey, Grade] = {}
    lines: dict[GradeKey, int] = {}
    for number, grade in rows:
        before = lines.setdefault(grade.key, number)
        if before != number:
            what = f"document {grade.doc_id!r} of query {grade.sample_id!r}"
            raise DataFileError(place, number, f"{what} is graded already on line {before}; keep the grade that counts")
        if grade.grade >= 0:
            found[grade.key] = grade
    return found


def _json_lines(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        try:
            row = parse_json(line)
            if not isinstance(row, dict):
                raise LineError("each line must be one JSON object")
            yield number, _of_object(row)
        except LineError as error:
            raise DataFileError(path, number, str(error)) from error


def _of_object(row: Mapping[str, Any]) -> Grade:
    for key in ("sample_id", "doc_id"):
        if not isinstance(row.get(key), str) or not row[key]:
            raise LineError(f"field '{key}' must be an id, not {json.dumps(row.get(key))[:40]}")
    value = next((row[key] for key in _GRADE_KEYS if row.get(key) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError(f"field 'grade' must be a whole number, not {json.dumps(value)[:40]}")
    return Grade(row["sample_id"], row["doc_id"], value, why=str(row.get("comment") or ""), at=_text(row.get("at")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _table(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        cells = [cell.strip() for cell in line.decode("utf-8", "replace").rstrip("\r\n").split("\t")]
        if number == 1 and cells[-1].lower() in _HEADS:
            continue
        if len(cells) != 3 or not all(cells):
            raise DataFileError(
                path, number, f"expected query, document and grade with tabs between, found {cells!r:.80}"
            )
        try:
            yield number, Grade(cells[0], cells[1], int(cells[2]))
        except ValueError:
            raise DataFileError(path, number, f"the grade must be a whole number, not {cells[2]!r:.40}") from None
