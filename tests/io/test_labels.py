"""Label files: parsing, errors, and safe concurrent writing."""

import os
import resource
import signal
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AueporaWarning, BadValueError, ConflictError, DataFileError
from auepora_eval.grades.human_grades import read_human_grades
from auepora_eval.io.labels import Label, LabelEvent, LabelJournal, LabelKey, iter_labels, read_labels, write_labels
from auepora_eval.io.problems import Problems
from auepora_eval.labels.agreement import annotator_agreement, select_labels
from auepora_eval.runtime import files

WHOLE = (
    '{"sample_id": "q1", "label": "right", "annotator": "ann", "run": "r1", "metric": "exact_match", '
    '"provenance": "corrected", "adjudicated": true, "tuning": true, "comment": "née", "at": "2030-01-31T12:00:00Z", '
    '"draw": "d1", "probability": 0.25, "position": 3, "shown": ["documents", "reference"]}'
)


def write_file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    (label,) = read_labels(write_file(tmp_path, WHOLE))
    assert label == Label(
        "q1",
        "right",
        "ann",
        "r1",
        "exact_match",
        provenance="corrected",
        adjudicated=True,
        tuning=True,
        comment="née",
        at="2030-01-31T12:00:00Z",
        draw="d1",
        probability=0.25,
        position=3,
        shown=("documents", "reference"),
    )


def test_minimal_label(tmp_path: Path) -> None:
    (label,) = read_labels(write_file(tmp_path, '{"sample_id": "q1", "label": 3}'))
    assert label == Label("q1", 3)
    assert (label.annotator, label.provenance, label.adjudicated, label.tuning) == ("", "human", False, False)


@pytest.mark.parametrize(
    ("label", "value"),
    [("right", 1.0), ("wrong", 0.0), (True, 1.0), (False, 0.0), (4, 4.0), (0.5, 0.5), (-1, -1.0)],
    ids=str,
)
def test_labels_as_numbers(label: str | float | bool, value: float) -> None:
    assert Label("q1", label).value == value


WRONG = [  # line, message, why
    ('{"sample_id": "q1"}', "field 'label' is missing", "no label"),
    ('{"label": "right"}', "field 'sample_id' is missing", "no sample id"),
    ('{"sample_id": "q1", "label": null}', "field 'label' is missing", "null is not a label"),
    ('{"sample_id": "q1", "label": NaN}', "field 'label' is missing", "NaN is not a label"),
    ('{"sample_id": "q1", "label": "rihgt"}', "did you mean 'right'?", "a slip"),
    ('{"sample_id": "q1", "label": "good"}', "a scale is written in numbers", "another word"),
    (
        '{"sample_id": "q1", "label": []}',
        "field 'label' must be 'right', 'wrong', true, false or a finite number",
        "a list",
    ),
    (
        '{"sample_id": 1, "label": 1}',
        "field 'sample_id' must be a string in quotes, not 1",
        "a number as id",
    ),
    ('{"sample_id": "", "label": 1}', "field 'sample_id' is empty", "an empty id"),
    ('{"sample_id": "q1", "label": 1, "anotator": "x"}', "did you mean 'annotator'?", "a misspelt key"),
    ('{"sample_id": "q1", "score": 1}', "unknown field 'score'; did you mean 'label'?", "another tool's key"),
    ('{"sample_id": "q1", "label": 1, "zzz": 2}', "known fields: sample_id, label, annotator", "a foreign key"),
    (
        '{"sample_id": "q1", "label": 1, "tuning": 1}',
        "field 'tuning' must be true or false, not 1",
        "1 for true",
    ),
    ('{"sample_id": "q1", "label": 1, "provenance": "humane"}', "did you mean 'human'?", "a misspelt provenance"),
    ('{"sample_id": "q1", "label": 1, "at": "yesterday"}', "which is not a time", "not a time"),
    ('{"sample_id": "q1", "label": 1, "draw": "d1"}', "field 'probability' is missing", "a draw without a probability"),
    ('{"sample_id": "q1", "label": 1, "probability": 0.5}', "field 'draw' is missing", "a probability of no draw"),
    (
        '{"sample_id": "q1", "label": 1, "draw": "d1", "probability": 0}',
        "must be an inclusion probability, which is above 0 and at most 1; not 0",
        "what cannot be drawn",
    ),
    (
        '{"sample_id": "q1", "label": 1, "draw": "d1", "probability": true}',
        "field 'probability' must be an inclusion probability, which is above 0 and at most 1; not True",
        "true as a probability",
    ),
    (
        '{"sample_id": "q1", "label": 1, "draw": "d1", "probability": 0.5, "position": 0}',
        "positions start at 1",
        "a position before the first",
    ),
    ('{"sample_id": "q1", "label": 1, "shown": "all"}', "field 'shown' must be a list of strings", "a string as list"),
    (
        '{"sample_id": "q1", "label": 1, "shown": [1]}',
        "field 'shown' at position 1 must be a string, not 1",
        "a list of numbers",
    ),
    (
        '{"sample_id": "q1", "label": 1, "draw": "d1", "probability": 0.5, "chosen": true}',
        "picked by a person, or drawn at random",
        "picked and drawn",
    ),
    ('"sample_id": "q1", "label": 1}', "not valid JSON", "a line without its beginning"),
    ('{"format": "auepora-labels", "version": 3}', "version 3 of the format is newer than 2", "a newer version"),
    ('{"format": "auepora-runs", "version": 1}', "field 'format' is 'auepora-runs'", "another format"),
    ('{"event": "retrac", "sample_id": "q1"}', "did you mean 'retract'?", "an unknown event"),
    ('{"event": "skip"}', "event 'skip' needs a sample", "a skip of nothing"),
    ('{"event": "skip", "sample_id": "q1", "why": "x"}', "unknown field 'why'", "a foreign key of an event"),
    ('{"event": "retract", "sample_id": "q9"}', "there is no label of sample 'q9'", "a retraction of nothing"),
    ("[1]", "each line must be one JSON object, not an array", "no object"),
    (f'{{"sample_id": "q1", "label": 1{"0" * 400}}}', "number", "larger than a number can be"),
]


@pytest.mark.parametrize(("line", "message"), [row[:2] for row in WRONG], ids=[row[2] for row in WRONG])
def test_invalid_labels(tmp_path: Path, line: str, message: str) -> None:
    path = write_file(tmp_path, WHOLE, "", line)
    with pytest.raises(DataFileError) as raised:
        read_labels(path)
    assert str(raised.value).startswith(f"{path}:3: ")
    assert message in str(raised.value)


def test_all_problems_are_collected(tmp_path: Path) -> None:
    problems = Problems(collect_all=True)
    path = write_file(tmp_path, "{}", WHOLE, '{"sample_id": "q2"}')
    assert [line for line, _ in iter_labels(path, problems)] == [2]
    assert [problem.line for problem in problems.found] == [1, 3]


def test_duplicate_label_of_an_annotator(tmp_path: Path) -> None:
    path = write_file(tmp_path, WHOLE, WHOLE.replace('"ann"', '"bob"'), WHOLE.replace('"r1"', '"r2"'), WHOLE)
    with pytest.raises(DataFileError, match="annotator 'ann' labelled sample 'q1' already on line 1"):
        read_labels(path)


def test_invalid_label_values() -> None:
    with pytest.raises(BadValueError, match="neither 'right' nor 'wrong'"):
        Label("q1", "maybe")
    with pytest.raises(BadValueError, match="finite"):
        Label("q1", float("nan"))


LABELS = st.builds(
    Label,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.sampled_from(["right", "wrong"]) | st.booleans() | st.integers(-9, 9) | st.floats(-1e9, 1e9),
    st.text(st.characters(exclude_categories=["Cs"])),
    comment=st.text(st.characters(exclude_categories=["Cs"])),
    provenance=st.sampled_from(["human", "model", "corrected"]),
    adjudicated=st.booleans(),
)


@given(st.lists(LABELS, unique_by=lambda label: label.key))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, labels: list[Label]) -> None:
    folder = tmp_path_factory.mktemp("labels")
    write_labels(folder / "whole.jsonl", labels)
    grown = LabelJournal(folder / "grown.jsonl")
    for label in labels:
        grown.append(label)
    assert read_labels(folder / "whole.jsonl") == labels
    if labels:
        assert (folder / "grown.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()


def test_concurrent_append_and_retract(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    shared = LabelJournal(path)

    def annotate(name: str) -> None:
        journal = shared if name in "ab" else LabelJournal(path)
        for number in range(30):
            label = Label(f"q{number}", "right", name)
            journal.append(label)
            if number % 3 == 0:
                journal.append(LabelEvent("retract", label.key))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(annotate, "abcd"))
    kept = [f"q{number}" for number in range(30) if number % 3]
    found = read_labels(path)
    for name in "abcd":
        assert [one.sample_id for one in found if one.annotator == name] == kept


def test_append_after_a_line_without_newline(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(WHOLE, encoding="utf-8")
    LabelJournal(path).append(Label("q2", "wrong"))
    assert [label.sample_id for label in read_labels(path)] == ["q1", "q2"]


def test_unwritable_labels(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="cannot be written"):
        LabelJournal(tmp_path / "no" / "labels.jsonl").append(Label("q1", 1))
    with pytest.raises(DataFileError, match="compressed"):
        LabelJournal(tmp_path / "labels.jsonl.gz").append(Label("q1", 1))
    with pytest.raises(BadValueError, match="surrogate"):
        LabelJournal(tmp_path / "labels.jsonl").append(Label("q1", 1, comment="\ud800"))
    assert not (tmp_path / "labels.jsonl").exists()


def test_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    path = write_file(tmp_path, WHOLE)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
        with pytest.raises(DataFileError, match="cannot be written"):
            LabelJournal(path).append(Label("q2", "right"))
        with pytest.raises(DataFileError, match="cannot be written"):
            write_labels(path, [replace(Label("q2", "right"), comment="x" * 9999)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["labels.jsonl"]


# --- the journal -----------------------------------------------------------------------------------------------------

RIGHT = Label("q1", "right", "ann", id="s1", at="2030-01-31T12:00:00+00:00")


def journal(tmp_path: Path, *entries: Label | LabelEvent) -> LabelJournal:
    found = LabelJournal(tmp_path / "labels.jsonl")
    for one in entries:
        found.append(one)
    return found


def test_a_new_file_names_its_format_and_an_old_one_is_continued(tmp_path: Path) -> None:
    new = journal(tmp_path, RIGHT)
    assert new.path.read_text().splitlines()[0] == '{"format":"auepora-labels","version":2}'
    old = write_file(tmp_path, '{"sample_id": "q9", "label": 1}')
    LabelJournal(old).append(RIGHT)
    assert old.read_text().startswith('{"sample_id": "q9", "label": 1}\n{"sample_id":"q1"')
    assert [one.sample_id for one in read_labels(old)] == ["q9", "q1"]


def test_undo_takes_back_the_last_submission(tmp_path: Path) -> None:
    skip = LabelEvent("skip", LabelKey("q2", "ann"), reason="cut off", id="s2")
    pair = [Label("q3", value, "ann", run, id="s3") for run, value in (("a", "right"), ("b", "wrong"))]
    found = journal(tmp_path, RIGHT, skip)
    found.append(*pair)
    for expected in (pair, [skip], [RIGHT]):
        assert found.last("ann") == expected
        found.append(*(LabelEvent("retract", one.key) for one in expected))
    assert (found.last("ann"), found.labels, found.skips, read_labels(found.path)) == ([], [], {}, [])
    found.append(replace(RIGHT, label="wrong", id="s4"))
    assert [one.label for one in read_labels(found.path)] == ["wrong"]


def test_a_label_replaces_a_skip_and_an_example_stays_one(tmp_path: Path) -> None:
    found = journal(tmp_path, LabelEvent("skip", RIGHT.key), RIGHT, LabelEvent("tuning", RIGHT.key, by="eve"))
    assert (found.skips, found.labels) == ({}, [replace(RIGHT, tuning=True)])
    found.append(LabelEvent("retract", RIGHT.key), replace(RIGHT, label="wrong", id=None))
    assert [(one.label, one.tuning) for one in read_labels(found.path)] == [("wrong", True)]


CONFLICTS: list[tuple[tuple[Label | LabelEvent, ...], str, str]] = [
    ((replace(RIGHT, label="wrong"),), "another content", "another label with the same submission id"),
    ((replace(RIGHT, id="s9"),), "labelled it already", "the same label with another submission id"),
    ((LabelEvent("skip", RIGHT.key),), "labelled it already", "a skip of what is labelled"),
    ((LabelEvent("retract", LabelKey("q7", "ann")),), "not there any more", "a retraction of nothing"),
    ((LabelEvent("tuning", LabelKey("q7", "ann")),), "not there any more", "an example that is not there"),
    ((Label("q7", 1), Label("q7", 2)), "labelled it already", "two labels at once"),
    ((LabelEvent("close"), Label("q7", 1)), "", "closed"),
]


@pytest.mark.parametrize(("entries", "message"), [row[:2] for row in CONFLICTS], ids=[row[2] for row in CONFLICTS])
def test_conflicts_write_nothing(tmp_path: Path, entries: tuple[Label | LabelEvent, ...], message: str) -> None:
    found = journal(tmp_path, RIGHT)
    if not message:
        found.append(entries[0])
        entries, message = entries[1:], "labelling is closed"
    before = found.path.read_bytes()
    with pytest.raises(ConflictError, match=message):
        LabelJournal(found.path).append(*entries)
    assert found.path.read_bytes() == before
    assert found.append(LabelEvent("tuning", RIGHT.key))  # also when it is closed


def test_a_repeated_submission_is_written_once(tmp_path: Path) -> None:
    found = journal(tmp_path, RIGHT)
    assert not found.append(replace(RIGHT, at="2031-01-31T12:00:00+00:00"))
    found.append(LabelEvent("retract", RIGHT.key))
    assert not LabelJournal(found.path).append(RIGHT)  # a late repetition does not bring it back
    assert read_labels(found.path) == []
    first, second = (Label("q2", "right", "ann", run, id="s2") for run in "ab")
    found.append(first)  # a crash left the first line of two
    assert found.append(first, second)
    assert not found.append(first, second)
    assert read_labels(found.path) == [first, second]

    def check(_: LabelJournal) -> None:
        raise ConflictError("late")

    assert not found.append(first, second, check=check)
    with pytest.raises(ConflictError, match="late"):
        found.append(Label("q3", 1), check=check)


@pytest.mark.parametrize("rest", ['{"sample_id":"q2","lab', '{"sample_id":"q2","label":-', "{", "\0\0\0"])
def test_a_line_that_was_cut_off_is_skipped(tmp_path: Path, rest: str) -> None:
    found = journal(tmp_path, RIGHT)
    with found.path.open("a") as file:
        file.write(rest)
    found.refresh()  # another process may be writing it
    assert found.labels == [RIGHT]
    with pytest.warns(AueporaWarning, match=r"labels\.jsonl:3: the line was cut off"):
        assert found.append(Label("q3", "wrong"))
    assert f'{rest}\n{{"sample_id":"q3"' in found.path.read_text()
    with pytest.warns(AueporaWarning, match=r"labels\.jsonl:3: the line was cut off"):
        assert [one.sample_id for one in read_labels(found.path)] == ["q1", "q3"]


def test_changes_by_others_are_read(tmp_path: Path) -> None:
    found, other = journal(tmp_path, RIGHT), LabelJournal(tmp_path / "labels.jsonl")
    other.append(Label("q2", "right", "bob"))
    found.refresh()
    assert [one.sample_id for one in found.labels] == ["q1", "q2"]
    text = found.path.read_text()
    found.path.write_text(text.replace('"right"', '"wrong"'))  # the same size, in place
    found.refresh()
    assert [one.label for one in found.labels] == ["wrong", "wrong"]
    found.path.write_text(text[: text.index('{"sample_id":"q2"')])  # truncated
    found.append(Label("q3", "right"))
    assert [(one.sample_id, one.label) for one in found.labels] == [("q1", "right"), ("q3", "right")]
    found.path.write_text(text.rstrip("\n"))  # no line break at the end
    found.refresh()
    assert [one.sample_id for one in found.labels] == ["q1", "q2"]
    found.append(Label("q4", "right"))
    assert [one.sample_id for one in read_labels(found.path)] == ["q1", "q2", "q4"]
    found.path.write_text(text + "no label\n")
    with pytest.raises(DataFileError, match=r"labels\.jsonl:4: not valid JSON"):
        found.append(Label("q5", "right"))
    found.path.unlink()
    with pytest.warns(AueporaWarning, match="submissions that it has lost: 1"):  # the label of bob has no id
        found.refresh()
    assert found.labels == []


class _Replaced(LabelJournal):
    """A journal whose file is replaced by an editor just before the write."""

    def _write(self, file: int, lines: Iterable[bytes]) -> None:
        os.replace(self.path.with_name("edited.jsonl"), self.path)
        super()._write(file, lines)


def test_a_label_is_not_saved_in_a_file_that_was_replaced(tmp_path: Path) -> None:
    path = journal(tmp_path, RIGHT).path
    path.with_name("edited.jsonl").write_bytes(path.read_bytes())
    found, label = _Replaced(path), Label("q2", "wrong", id="s2")
    with pytest.raises(DataFileError, match="deleted or replaced"):
        found.append(label)
    assert LabelJournal(path).append(label)
    assert read_labels(path) == [RIGHT, label]


def test_a_file_that_stays_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LOCK_TIMEOUT_S", 0.02)
    found = journal(tmp_path, RIGHT)
    with found.lock(), pytest.raises(DataFileError, match="is locked by another process"):
        LabelJournal(found.path).append(Label("q2", "wrong"))
    assert LabelJournal(found.path).append(Label("q2", "wrong"))


def test_a_line_above_the_limit_is_not_written(tmp_path: Path) -> None:
    found = journal(tmp_path, RIGHT)
    with files.limit_line_size(1000), pytest.raises(DataFileError, match="larger than"):
        found.append(Label("q2", "wrong", comment="x" * 1000))
    assert read_labels(found.path) == [RIGHT]


def test_grades_of_documents_in_a_journal(tmp_path: Path) -> None:
    def grade(value: int, annotator: str, doc_id: str = "d1", **more: Any) -> Label:
        return Label("q1", value, annotator, doc_id=doc_id, **more)

    drawn: dict[str, Any] = {"draw": "d", "probability": 0.5, "position": 1}
    found = journal(
        tmp_path,
        grade(2, "ann", **drawn),
        grade(2, "bob", **drawn),
        grade(0, "ann", "d2"),
        grade(3, "ann", "d3", chosen=True),
    )
    grades = read_human_grades(found.path)
    assert {key: (one.grade, one.probability) for key, one in grades.items()} == {
        ("q1", "d1"): (2, 0.5),
        ("q1", "d2"): (0, None),
    }
    report = annotator_agreement([found.path])
    assert (report.raters.rated, report.disputes) == ({"ann": 2, "bob": 1}, ())
    found.append(grade(1, "bob", "d2"))
    assert [one.unit.doc_id for one in annotator_agreement([found.path]).disputes] == ["d2"]
    with pytest.raises(DataFileError, match="graded document 'd2' of query 'q1' differently; adjudicate it"):
        read_human_grades(found.path)
    found.append(grade(1, "eve", "d2", adjudicated=True))
    assert read_human_grades(found.path)["q1", "d2"].grade == 1
    assert select_labels(found.labels, names=(), metric="m")[0] == []
