"""Human grades of documents: qrels, a table of query, document and grade, JSON lines, or a journal of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DataFileError
from ..io.codec import LineError
from ..io.grades import Grade, GradeKey, make_grade
from ..io.labels import Label, LabelJournal, iter_labels
from ..io.problems import Problems
from ..io.trec import load_qrels
from ..io.values import errors_at, parse_json
from ..labels.pair_draws import SHOWN, PairDraw, find_pair_draw
from ..runtime.files import read_head, read_lines

_DRAW_FIELDS = ("sample_id", "doc_id", "probability", "position", "shown")
_GRADE_KEYS = ("grade", "label", "relevance")
_HEADER_NAMES = frozenset({"grade", "label", "relevance", "score", "level"})


def read_human_grades(path: str | Path) -> dict[GradeKey, Grade]:
    """Human grades by query and document. Negative grades are ignored.

    The first line shows the format: a journal of labels, ``{"sample_id": ..., "doc_id": ..., "grade": 2}``, three
    columns with tabs between them (query, document, grade; a line of names above them is fine), or the four columns of
    qrels. In JSON lines ``comment``, ``at`` and the fields of a draw are kept, other fields are ignored. A drawn
    document whose grade is null is not graded yet. Of a journal, an adjudicated grade replaces those of the annotators;
    without one they must be equal.
    """
    file = Path(path)
    first = next((line for line in read_head(file).splitlines() if line.strip()), "")
    if first.lstrip().startswith("{"):
        rows = _journal_grades(file) if LabelJournal.format in first else _json_lines(file)
    elif first.count("\t") == 2:
        rows = _table(file)
    elif len(first.split()) == 4:
        rows = _qrels(file)
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
    draw = find_pair_draw(file)
    return grades if draw is None else _with_draw(grades, draw)


def _with_draw(grades: Mapping[GradeKey, Grade], draw: PairDraw) -> dict[GradeKey, Grade]:
    """The grades with how their documents were selected."""
    drawn, name = {pair.key: pair for pair in draw.order}, draw.id
    found = dict(grades)
    for key in grades.keys() & drawn.keys():
        pair = drawn[key]
        found[key] = replace(grades[key], draw=name, probability=pair.probability, position=pair.position, shown=SHOWN)
    return found


def _qrels(path: Path) -> Iterator[tuple[int, Grade]]:
    for query, levels in load_qrels(path).items():
        for doc, level in levels.items():
            yield 0, Grade(query, doc, level)


def _json_lines(path: Path) -> Iterator[tuple[int, Grade]]:
    for number, line in read_lines(path):
        with errors_at(path, number):
            row = parse_json(line)
            if not isinstance(row, dict):
                raise LineError("each line must be one JSON object")
            if "draw" not in row or any(row.get(key) is not None for key in _GRADE_KEYS):
                yield number, _parse_object(row)


def _journal_grades(path: Path) -> Iterator[tuple[int, Grade]]:
    """The grades of people in a journal of labels, one per document; documents that a person picked are left out."""
    by_document: dict[GradeKey, list[tuple[int, Label]]] = {}
    for number, label in iter_labels(path, Problems()):
        if label.doc_id is None:
            raise DataFileError(path, number, "field 'doc_id' is missing: the label is of an answer, not of a document")
        if not label.value.is_integer():
            raise DataFileError(path, number, f"field 'label' must be an integer, not {label.value:g}")
        if not label.chosen and label.provenance != "model":
            by_document.setdefault((label.sample_id, label.doc_id), []).append((number, label))
    for (query, document), found in by_document.items():
        counted = [labelled for labelled in found if labelled[1].adjudicated] or found
        number, label = counted[-1]
        if len({labelled.value for _, labelled in counted}) > 1:
            what = f"document {document!r} of query {query!r}"
            raise DataFileError(path, number, f"annotators graded {what} differently; adjudicate it first")
        yield (
            number,
            Grade(
                query,
                document,
                int(label.value),
                why=label.comment,
                at=label.at,
                draw=label.draw or "",
                probability=label.probability,
                position=label.position,
                shown=label.shown or (),
            ),
        )


def _parse_object(row: Mapping[str, Any]) -> Grade:
    value = next((row[key] for key in _GRADE_KEYS if row.get(key) is not None), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    fields = {name: row[name] for name in _DRAW_FIELDS if name in row}
    texts = {name: row[name] for name in ("at", "draw") if isinstance(row.get(name), str)}
    return make_grade({**fields, **texts, "grade": value, "why": str(row.get("comment") or "")})


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
