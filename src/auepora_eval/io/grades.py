"""Relevance grades with their provenance: a qrels file, and a provenance file next to it.

Next to ``qrels.txt`` is ``qrels.txt.provenance.jsonl``: a line per grade with its source (a person, a model, or a
person who corrected a model), prompt, rationale and time. A grade of the qrels that is not in the provenance file is a
human grade; one that differs from the model grade there was corrected by a person.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec

from ..core.errors import BadValueError, DataFileError
from ..core.types import EvaluationSample
from .files import read_lines, write_lines
from .labels import Provenance
from .trec import load_qrels
from .trec_write import judged_documents, save_qrels

__all__ = [
    "GOLD_BY",
    "Grade",
    "GradeKey",
    "GradeLog",
    "merge_grade",
    "provenance_counts",
    "provenance_counts_by_query",
    "provenance_path",
    "read_grades",
    "write_grades",
]

GOLD_BY = "gold_by"
"""The key of a sample's metadata with the number of its grades by source: ``{"model": 8, "human": 2}``."""

GradeKey = tuple[str, str]
"""Query and document."""


@dataclass(frozen=True, slots=True)
class Grade:
    """How relevant a document is to a query, with the source of the grade."""

    sample_id: str
    doc_id: str
    grade: int
    by: Provenance = "human"
    model: str = ""
    """The model, if a model graded."""
    prompt: str = ""
    why: str = ""
    at: str | None = None
    model_grade: int | None = None
    """The grade of the model, if a person reviewed it."""
    mean: float | None = None
    """The value before rounding, if repeats or probabilities gave a fraction."""

    @property
    def key(self) -> GradeKey:
        """Query and document."""
        return self.sample_id, self.doc_id

    @property
    def grade_by_model(self) -> int | None:
        """The grade that a model gave, if any."""
        return self.grade if self.by == "model" else self.model_grade

    def to_dict(self) -> dict[str, Any]:
        """Return the line of the provenance file: without empty values."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value is not None and value != ""}


def merge_grade(before: Grade | None, label: Grade) -> Grade:
    """Merge a human grade with the one before: people override models, and later people override earlier ones.

    A person who agrees with the model makes the grade human; one who disagrees makes it corrected.
    """
    if before is None:
        return label
    if before.by != "model" and before.grade == label.grade:
        return before  # the same grade as before
    model_grade = before.grade_by_model
    by: Provenance = "human" if model_grade is None or model_grade == label.grade else "corrected"
    return replace(label, by=by, model=before.model, prompt=before.prompt, model_grade=model_grade)


def provenance_path(qrels: str | Path) -> Path:
    """Return the path of the provenance file of a qrels file."""
    path = Path(qrels)
    return path.with_name(f"{path.name}.provenance.jsonl")


def read_grades(qrels: str | Path) -> dict[GradeKey, Grade]:
    """Read the grades of a qrels file and of its provenance file; either may be missing.

    The qrels take precedence, since people edit them. A grade that only the provenance file has was given before an
    interruption, when the qrels were not yet written. A negative level is not a grade.
    """
    path = Path(qrels)
    grades = _read_provenance(provenance_path(path))
    if path.exists() and path.stat().st_size:
        for query, levels in load_qrels(path).items():
            for doc, level in levels.items():
                before = grades.pop((query, doc), None)
                if before is not None and before.grade == level:  # unchanged: it may be the grade of the model
                    grades[query, doc] = before
                elif level >= 0:
                    grades[query, doc] = merge_grade(before, Grade(query, doc, level))
    return grades


def write_grades(qrels: str | Path, grades: Collection[Grade]) -> None:
    """Write both files, each atomically.

    The qrels are written first: after an interruption between the two, a human grade is still read as one.
    """
    levels: dict[str, dict[str, int]] = {}
    for one in grades:
        levels.setdefault(one.sample_id, {})[one.doc_id] = one.grade
    save_qrels((EvaluationSample(query, "", *judged_documents(each)) for query, each in levels.items()), qrels)
    write_lines(provenance_path(qrels), map(_encode_grade, grades))


class GradeLog:
    """Appends grades to the provenance file as they arrive, so that none is lost by an interruption."""

    def __init__(self, qrels: str | Path) -> None:
        self._path = provenance_path(qrels)
        self._file: int | None = None

    def add(self, grade: Grade) -> None:
        """Append a grade; it is kept if this process is killed."""
        line = _encode_grade(grade) + b"\n"
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
                size = os.fstat(self._file).st_size
                # A killed process may have left half a line.
                if size and os.pread(self._file, 1, size - 1) != b"\n":
                    line = b"\n" + line
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            raise DataFileError(self._path, None, f"cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __enter__(self) -> GradeLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def provenance_counts(grades: Iterable[Grade]) -> dict[str, int]:
    """Count grades by source, in the order model, corrected, human; sources without a grade are omitted."""
    counts = Counter(one.by for one in grades)
    return {by: counts[by] for by in ("model", "corrected", "human") if counts[by]}


def provenance_counts_by_query(qrels: str | Path) -> dict[str, dict[str, int]] | None:
    """Count the grades of each query by source; ``None`` if there is no provenance file."""
    if not provenance_path(qrels).exists():
        return None
    by_query: dict[str, list[Grade]] = {}
    for grade in read_grades(qrels).values():
        by_query.setdefault(grade.sample_id, []).append(grade)
    return {query: provenance_counts(grades) for query, grades in by_query.items()}


def _encode_grade(grade: Grade) -> bytes:
    try:
        return msgspec.json.encode(grade.to_dict())
    except UnicodeEncodeError as error:
        where = f"query {grade.sample_id!r}, document {grade.doc_id!r}"
        raise BadValueError(f"the grade of {where} cannot be written: it holds half of a surrogate pair") from error


def _read_provenance(path: Path) -> dict[GradeKey, Grade]:
    """Read the provenance file. The last line of a document counts; a truncated line is skipped."""
    found: dict[GradeKey, Grade] = {}
    if not path.exists():
        return found
    for number, line in read_lines(path):
        grade = _decode_grade(path, number, line)
        if grade is not None:
            found[grade.key] = grade
    return found


_LINE_START = b'{"sample_id":'
_TEXT_FIELDS = ("model", "prompt", "why", "at")


def _decode_grade(path: Path, number: int, line: bytes) -> Grade | None:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if _is_truncated(line):
            return None
        raise DataFileError(
            path, number, "not JSON; a line is a grade with 'sample_id', 'doc_id', 'grade', 'by'"
        ) from None
    problem = "not an object" if not isinstance(row, Mapping) else next(_validation_errors(row), None)
    if problem is not None:
        raise DataFileError(path, number, problem)
    known = {key: value for key, value in row.items() if key in Grade.__dataclass_fields__}
    return Grade(**known)


def _is_truncated(line: bytes) -> bool:
    """Whether a line may be truncated because the process that wrote it was killed."""
    return line.startswith(_LINE_START) or _LINE_START.startswith(line.strip())


def _validation_errors(row: Mapping[str, Any]) -> Iterator[str]:
    for key in ("sample_id", "doc_id"):
        if not isinstance(row.get(key), str) or not row[key]:
            yield f"'{key}' must be an id, not {row.get(key)!r:.40}"
    for key in ("grade", "model_grade"):
        value = row.get(key)
        if (value is not None or key == "grade") and (isinstance(value, bool) or not isinstance(value, int)):
            yield f"'{key}' must be an integer, not {value!r:.40}"
    if row.get("by") not in get_args(Provenance):
        yield f"'by' must be one of {', '.join(get_args(Provenance))}, not {row.get('by')!r:.40}"
    for key in _TEXT_FIELDS:
        if not isinstance(row.get(key, ""), str):
            yield f"'{key}' must be a string, not {row[key]!r:.40}"
