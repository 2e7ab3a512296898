"""Human grades: a qrels file, a table of query, document and grade, or JSON lines."""

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
_HEADER_NAMES = frozenset({"grade", "label", "relevance", "score", "level"})


def read_human_grades(path: str | Path) -> dict[GradeKey, Grade]:
    """Human grades by query and document. Negative grades are ignored.

    The first line shows the format: ``{"sample_id": ..., "doc_id": ..., "grade": 2}``, three columns with tabs
    between them (query, document, grade; a line of names above them is fine), or the four columns of qrels. In JSON
    lines ``comment`` and ``at`` are kept, other fields are ignored.
    """
    file = Path(path)
    first = next((line for line in read_head(file).splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        rows = _json_lines(file)
    elif first.count("\t") == 2:
        rows = _table(file)
    elif len(first.split()) == 4:
        rows = (
            (0, Grade(query, doc, level)) for query, each in load_qrels(file).items() for doc, level in each.items()
        )
    else:
        raise DataFileError(
            file,
            1,
            "unknown format; human grades are JSON lines with 'sample_id', 'doc_id' and 'grade', three "
            "columns with tabs between them, or qrels",
        )
    grades: dict[GradeKey, Grade] = {}
    lines: dict[GradeKey, int] = {}
    for number, grade in rows:
        first_line = lines.setdefault(grade.key, number)
        if first_line != number:
            what = f"document {grade.doc_id!r} of query {grade.sample_id!r}"
            raise DataFileError(file, number, f"{what} is already graded on line {first_line}; keep one of them")
        if grade.grade >= 0:
            grades[grade.key] = grade
    return grades


def _json_lines(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        try:
            row = parse_json(line)
            if not isinstance(row, dict):
                raise LineError("each line must be one JSON object")
            yield number, _parse_object(row)
        except LineError as error:
            raise DataFileError(path, number, str(error)) from error


def _parse_object(row: Mapping[str, Any]) -> Grade:
    for key in ("sample_id", "doc_id"):
        if not isinstance(row.get(key), str) or not row[key]:
            raise LineError(f"field '{key}' must be an id, not {json.dumps(row.get(key))[:40]}")
    value = next((row[key] for key in _GRADE_KEYS if row.get(key) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError(f"field 'grade' must be an integer, not {json.dumps(value)[:40]}")
    return Grade(row["sample_id"], row["doc_id"], value, why=str(row.get("comment") or ""), at=_text(row.get("at")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _table(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        cells = [cell.strip() for cell in line.decode("utf-8", "replace").rstrip("\r\n").split("\t")]
        if number == 1 and cells[-1].lower() in _HEADER_NAMES:
            continue
        if len(cells) != 3 or not all(cells):
            raise DataFileError(
                path, number, f"expected query, document and grade with tabs between, found {cells!r:.80}"
            )
        try:
            yield number, Grade(cells[0], cells[1], int(cells[2]))
        except ValueError:
            raise DataFileError(path, number, f"the grade must be an integer, not {cells[2]!r:.40}") from None
