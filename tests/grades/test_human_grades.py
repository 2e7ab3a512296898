"""Human grades in all file formats."""

from pathlib import Path

import pytest

from auepora_eval.errors import DataFileError
from auepora_eval.grades.human_grades import read_human_grades
from auepora_eval.io.grades import Grade

FORMS = {
    "qrels": "q1 0 a 3\nq1 0 b 0\nq2 0 c -1\n",
    "a table": "q1\ta\t3\nq1\tb\t0\nq2\tc\t-1\n",
    "a table with names": "query\tdocument\tgrade\nq1\ta\t3\nq1\tb\t0\n",
    "JSON lines": '{"sample_id": "q1", "doc_id": "a", "grade": 3, "annotator": "ann"}\n'
    '{"sample_id": "q1", "doc_id": "b", "label": 0.0}\n',
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_all_formats_give_the_same_grades(tmp_path: Path, text: str) -> None:
    (tmp_path / "human").write_text(text)
    assert read_human_grades(tmp_path / "human") == {
        ("q1", "a"): Grade("q1", "a", 3),
        ("q1", "b"): Grade("q1", "b", 0),
    }


def test_comments_are_kept(tmp_path: Path) -> None:
    row = '{"sample_id": "q", "doc_id": "d", "grade": 1, "comment": "hm", "at": "2030-01-01T00:00:00+00:00"}\n'
    (tmp_path / "human").write_text(row)
    assert read_human_grades(tmp_path / "human")["q", "d"] == Grade(
        "q", "d", 1, why="hm", at="2030-01-01T00:00:00+00:00"
    )


BAD = {
    "prose": ("these are my grades\n \n", "must be an integer"),
    "two columns": ("q1 a\n", "unknown format"),
    "a word for a grade": ("q1\ta\tgood\n", "an integer"),
    "a column too few": ("q1\ta\t1\nq1\tb\n", "with tabs between"),
    "a grade between two": ('{"sample_id": "q", "doc_id": "d", "grade": 1.5}\n', "an integer"),
    "no grade": ('{"sample_id": "q", "doc_id": "d"}\n', "field 'grade' is missing"),
    "no document": ('{"sample_id": "q", "grade": 1}\n', "field 'doc_id' is missing"),
    "not an object": ('{"sample_id": "q", "doc_id": "d", "grade": 1}\n[]\n', "one JSON object"),
    "two grades for one document": ("q1\ta\t1\nq1\ta\t2\n", "already graded on line 1"),
}


@pytest.mark.parametrize(("text", "problem"), BAD.values(), ids=BAD.keys())
def test_invalid_files(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "human").write_text(text)
    with pytest.raises(DataFileError, match=problem):
        read_human_grades(tmp_path / "human")
