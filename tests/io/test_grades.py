"""Grades with provenance: merging of human and model grades, and consistency of both files after interruptions."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from auepora_eval.core.types import Document, EvaluationSample
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.grades import (
    CorrectedGold,
    Correction,
    Grade,
    GradeLog,
    merge_grade,
    provenance_counts,
    provenance_counts_by_query,
    provenance_path,
    read_grades,
    with_gold,
    write_grades,
)
from auepora_eval.io.join import load_dataset
from auepora_eval.io.trec import load_qrels


def model(grade: int) -> Grade:
    return Grade("q", "d", grade, "model", model="m", prompt="p", why="because")


def corrected(grade: int, model_grade: int) -> Grade:
    return Grade("q", "d", grade, "corrected", model="m", prompt="p", model_grade=model_grade)


HUMAN = {grade: Grade("q", "d", grade) for grade in range(4)}
RULES = {
    "no grade before: human": (None, 2, ("human", 2, None)),
    "same as the model: human": (model(2), 2, ("human", 2, 2)),
    "different from the model: corrected": (model(1), 3, ("corrected", 3, 1)),
    "corrected before, and again": (corrected(3, 1), 2, ("corrected", 2, 1)),
    "corrected before, and the model was right after all": (corrected(3, 1), 1, ("human", 1, 1)),
    "another person before: the last one counts": (HUMAN[3], 0, ("human", 0, None)),
}


@pytest.mark.parametrize(("before", "grade", "expected"), RULES.values(), ids=RULES.keys())
def test_provenance_of_grades(before: Grade | None, grade: int, expected: tuple[str, int, int | None]) -> None:
    found = merge_grade(before, HUMAN[grade])
    assert (found.by, found.grade, found.model_grade) == expected
    assert found.model == ("" if before is None else before.model)


EDITED = {
    "unchanged": ("q 0 d 1\n", model(1)),
    "changed by hand": ("q 0 d 3\n", corrected(3, 1)),
    "not written yet": ("other 0 d 1\n", model(1)),
    "taken back by a negative level": ("q 0 d -1\n", None),
}


@pytest.mark.parametrize(("qrels", "expected"), EDITED.values(), ids=EDITED.keys())
def test_edited_qrels_take_precedence(tmp_path: Path, qrels: str, expected: Grade | None) -> None:
    path = tmp_path / "qrels.txt"
    with GradeLog(path) as journal:
        journal.add(model(1))
    path.write_text(qrels)
    assert read_grades(path).get(("q", "d")) == expected


def test_grades_without_provenance_are_human(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("q 0 d 2\nq 0 e 0\nq 0 f -1\n")
    assert read_grades(path) == {("q", "d"): Grade("q", "d", 2), ("q", "e"): Grade("q", "e", 0)}
    assert provenance_counts_by_query(path) is None
    assert read_grades(tmp_path / "nowhere.txt") == {}


def test_qrels_are_readable_by_trec_eval(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    grades = [model(0), Grade("q", "é-2", 3), Grade("q2", "d", 2, "corrected", model_grade=0)]
    write_grades(path, grades)
    assert all(re.fullmatch(r"\S+ 0 \S+ [0-3]", line) for line in path.read_text().splitlines())
    assert load_qrels(path) == {"q": {"é-2": 3, "d": 0}, "q2": {"d": 2}}
    assert set(read_grades(path).values()) == set(grades)
    if find_spec("pytrec_eval"):  # which does not build on every processor
        with path.open() as file:
            assert import_module("pytrec_eval").parse_qrel(file) == load_qrels(path)


def test_samples_have_gold_provenance(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    write_grades(path, [model(1), Grade("q", "e", 3), Grade("q2", "d", 2, "corrected", model_grade=0)])
    assert provenance_counts_by_query(path) == {"q": {"model": 1, "human": 1}, "q2": {"corrected": 1}}
    samples = {one.sample_id: one for one in load_dataset(path)}
    assert samples["q"].metadata == {"gold_by": {"model": 1, "human": 1}}
    provenance_path(path).unlink()
    assert [one.metadata for one in load_dataset(path)] == [{}, {}]


def test_other_gold_keeps_groups_of_its_documents(tmp_path: Path) -> None:
    qrels = tmp_path / "q.qrels"
    qrels.write_text("1 0 a 1\n1 0 b 1\n1 0 c 0\n2 0 b 0\n")
    groups = [["a", "c", "b"], ["c"]]
    samples = [EvaluationSample(name, "?", [Document("c")], relevant_groups=groups) for name in "123"]
    found = [sample.relevant_groups for sample in with_gold(samples, qrels)]
    assert found == [[["a", "b"]], [], []], "relevant ones; none is relevant; no gold"


def test_corrected_gold_keeps_groups_of_its_documents() -> None:
    sample = EvaluationSample("1", "?", [Document("a"), Document("b")], relevant_groups=[["a", "b"], ["b"]])
    lower = Correction("c", "grade", "f", "1", before=1, after=0, doc_id="b")
    found = CorrectedGold.of([lower]).correct(sample)
    assert found.relevant_groups == [["a"]]
    assert sample.relevant_groups == [["a", "b"], ["b"]]


def test_truncated_line_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    with GradeLog(path) as journal:
        journal.add(Grade("q", "a", 1, "model"))
        journal.add(Grade("q", "b", 2, "model"))
    provenance = provenance_path(path)
    whole = provenance.read_bytes()
    for cut in range(whole.index(b"\n") + 1, len(whole)):
        provenance.write_bytes(whole[:cut])
        kept = {("q", "a")} | ({("q", "b")} if cut == len(whole) - 1 else set())
        assert set(read_grades(path)) == kept
        with GradeLog(path) as journal:
            journal.add(Grade("q", "c", 3, "model"))
        assert set(read_grades(path)) == kept | {("q", "c")}


def test_last_line_of_a_document_counts(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    with GradeLog(path) as journal:
        journal.add(Grade("q", "a", 1, "model"))
        journal.add(Grade("q", "a", 2, "model"))
    assert read_grades(path)["q", "a"].grade == 2


BAD = {
    "not JSON": ("nonsense", "not JSON"),
    "a list": ("[]", "each line must be one JSON object, not an array"),
    "no id": ('{"sample_id": "q", "grade": 1, "by": "model"}', "field 'doc_id' is missing"),
    "a grade that is not a number": (
        '{"sample_id": "q", "doc_id": "d", "grade": "1", "by": "model"}',
        "must be an integer",
    ),
    "no source": ('{"sample_id": "q", "doc_id": "d", "grade": 1}', "field 'by' is missing"),
    "a rationale that is not a string": (
        '{"sample_id": "q", "doc_id": "d", "grade": 1, "by": "model", "why": 1}',
        "a string",
    ),
}


@pytest.mark.parametrize(("line", "problem"), BAD.values(), ids=BAD.keys())
def test_invalid_provenance_file(tmp_path: Path, line: str, problem: str) -> None:
    provenance_path(tmp_path / "qrels.txt").write_text(f"{line}\n")
    with pytest.raises(DataFileError, match=problem):
        read_grades(tmp_path / "qrels.txt")


def test_unwritable_grade(tmp_path: Path) -> None:
    with pytest.raises(BadValueError, match="half of a surrogate pair"), GradeLog(tmp_path / "q") as journal:
        journal.add(Grade("q", "d", 1, why="\ud800"))
    with pytest.raises(DataFileError, match="cannot be written"), GradeLog(tmp_path / "no" / "q") as journal:
        journal.add(Grade("q", "d", 1))
    with pytest.raises(BadValueError, match="white space"):
        write_grades(tmp_path / "q", [Grade("q", "two words", 1)])
    assert provenance_counts([]) == {}
