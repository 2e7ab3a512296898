"""Relevance grades with their provenance: a qrels file, a provenance file, and samples with these grades as gold."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import msgspec

from ..core.types import GOLD_BY, Document, EvaluationSample
from ..errors import BadValueError, DataFileError
from ..runtime.files import read_lines, translate_write_errors, write_lines
from .labels import Provenance
from .trec import judged_documents, load_qrels, save_qrels

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
    draw: str = ""
    """The id of the draw that selected the document for a person."""
    probability: float | None = None
    """The probability with which that draw selected it."""
    position: int | None = None
    """Its position in the order of the draw, from 1."""
    shown: tuple[str, ...] = ()
    """What the person saw."""

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
        return {name: value for name, value in values.items() if value is not None and value not in ("", ())}


def merge_grade(before: Grade | None, label: Grade) -> Grade:
    """Merge a human grade with the one before: people override models, and later people override earlier ones.

    A person who agrees with the model makes the grade human; one who disagrees makes it corrected.
    """
    if before is None:
        return label
    if before.by != "model" and before.grade == label.grade and label.probability is None:
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
        with translate_write_errors(self._path):
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
                size = os.fstat(self._file).st_size
                # A killed process may have left half a line.
                if size and os.pread(self._file, 1, size - 1) != b"\n":
                    line = b"\n" + line
            while line:
                line = line[os.write(self._file, line) :]

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
    return {query: provenance_counts(grades) for query, grades in _grades_by_query(qrels).items()}


def _grades_by_query(qrels: str | Path) -> dict[str, list[Grade]]:
    by_query: dict[str, list[Grade]] = {}
    for grade in read_grades(qrels).values():
        by_query.setdefault(grade.sample_id, []).append(grade)
    return by_query


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
_TEXT_FIELDS = ("model", "prompt", "why", "at", "draw")


def _decode_grade(path: Path, number: int, line: bytes) -> Grade | None:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if line.startswith(_LINE_START) or _LINE_START.startswith(line.strip()):
            return None  # the process that wrote it was killed
        raise DataFileError(
            path, number, "not JSON; a line is a grade with 'sample_id', 'doc_id', 'grade', 'by'"
        ) from None
    problem = "not an object" if not isinstance(row, Mapping) else next(_validation_errors(row), None)
    if problem is not None:
        raise DataFileError(path, number, problem)
    known = {key: value for key, value in row.items() if key in Grade.__dataclass_fields__}
    return Grade(**known | ({"shown": tuple(known["shown"])} if "shown" in known else {}))


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
    yield from draw_errors(row)


def draw_errors(row: Mapping[str, Any]) -> Iterator[str]:
    """The errors in the fields that record how a document was selected for a person."""
    probability, position, shown = row.get("probability"), row.get("position"), row.get("shown", [])
    if probability is not None and not (
        isinstance(probability, int | float) and not isinstance(probability, bool) and 0 < probability <= 1
    ):
        yield f"'probability' must be a number above 0 and at most 1, not {probability!r:.40}"
    if position is not None and (isinstance(position, bool) or not isinstance(position, int) or position < 1):
        yield f"'position' must be an integer from 1 up, not {position!r:.40}"
    if not isinstance(shown, list) or not all(isinstance(one, str) for one in shown):
        yield f"'shown' must be a list of strings, not {shown!r:.40}"


# --- samples with these grades as their gold, and with their provenance ----------------------------------------------


def with_gold(samples: Iterable[EvaluationSample], qrels: str | Path) -> list[EvaluationSample]:
    """The samples with the graded documents of a qrels file as gold, and those of grade 0 as candidates.

    A sample that is not in the file has no gold. Existing documents of a sample keep their texts.
    """
    rows, by_query = list(samples), _grades_by_query(qrels)
    if rows and not any(sample.sample_id in by_query for sample in rows):
        raise BadValueError(f"'{qrels}' has no grade for any of the {len(rows)} samples; are the ids the same?")
    return [_with_grades(sample, by_query.get(sample.sample_id)) for sample in rows]


def _with_grades(sample: EvaluationSample, grades: Sequence[Grade] | None) -> EvaluationSample:
    metadata = {key: value for key, value in sample.metadata.items() if key != GOLD_BY}
    if grades is None:
        return replace(sample, relevant_docs=None, candidate_docs=None, metadata=metadata)
    known_documents = {one.doc_id: one for some in (sample.candidate_docs, sample.relevant_docs) for one in some or ()}

    def document(grade: Grade) -> Document:
        known = known_documents.get(grade.doc_id) or Document(grade.doc_id)
        rest = {key: value for key, value in known.metadata.items() if key != "relevance"}
        return replace(known, metadata={**rest, "relevance": grade.grade} if grade.grade else rest)

    relevant = [document(grade) for grade in grades if grade.grade > 0]
    others = [document(grade) for grade in grades if grade.grade == 0]
    return replace(
        sample,
        relevant_docs=relevant,
        candidate_docs=others or None,
        metadata={**metadata, GOLD_BY: provenance_counts(grades)},
    )


def gold_signature(qrels: str | Path) -> str:
    """The gold of a qrels file in a signature: two files with the same grades are the same gold."""
    levels = sorted((*key, grade.grade) for key, grade in read_grades(qrels).items())
    return f"qrels-{hashlib.sha256(repr(levels).encode()).hexdigest()[:8]}"
