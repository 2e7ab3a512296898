"""The form as a client of the queue: a line of input in, a label on the disk and the next item out."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval.cli.label_sessions import LabelSession
from auepora_eval.errors import BadValueError, DataFileError, UnknownBatchError
from auepora_eval.io.labels import Label, LabelEvent, LabelJournal, LabelKey, read_labels, write_labels
from auepora_eval.labels.choices import LabelScale
from auepora_eval.labels.draws import Selection
from auepora_eval.labels.form import LabelForm, label_text
from auepora_eval.store.runs import RunStore
from helpers import stored_runs
from helpers.labelling import open_form
from helpers.requirements import examples


def typed(form: LabelForm, *lines: str) -> LabelForm:
    for line in lines:
        form.handle_line(line)
    return form


def labels_of(form: LabelForm) -> dict[int, tuple[str, str]]:
    """The label and comment of each item."""
    entries = form.queue.own_entries(form.annotator).items()
    return {number: (label_text(entry), entry.comment) for number, entry in entries if label_text(entry)}


def core(form: LabelForm) -> tuple[Any, ...]:
    """What a session is about, less what is only shown."""
    return form.number, labels_of(form), form.comment, form.is_over


def in_file(path: Path) -> list[tuple[str, Any]]:
    return [(label.sample_id, label.label) for label in read_labels(path)]


def test_a_label_advances_to_the_next_item(label_store: RunStore, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    form = open_form(label_store, path)
    assert not path.exists(), "a file is made with the first label"
    form.handle_line("r")
    assert (form.number, form.message, in_file(path)) == (2, "saved: right", [("q00000", "right")])
    form.handle_line("w")
    assert (form.number, in_file(path)) == (3, [("q00000", "right"), ("q00001", "wrong")])
    assert sorted(found.name for found in tmp_path.iterdir()) == ["labels.jsonl"], "a session has no leases"


def test_a_scale_takes_its_digits_and_nothing_else(label_store: RunStore, tmp_path: Path) -> None:
    form = open_form(label_store, tmp_path / "labels.jsonl", scale=LabelScale(1, 5))
    for line in ("r", "0", "6", "44", "4 5", "-1", "4.0"):
        form.handle_line(line)
        assert (form.number, labels_of(form)) == (1, {})
        assert form.message == f"{line!r} was not understood; type a grade from 1 to 5, or ? for help"
    form.handle_line("4")
    assert in_file(form.batch.journal) == [("q00000", 4)]


def test_equal_answers_of_two_runs_have_one_label(label_store: RunStore, tmp_path: Path) -> None:
    session = LabelSession(label_store, tmp_path / "labels.jsonl", "ann")
    records = [label_store.find("first"), label_store.find("second")]
    both = [session.entries(records, ["q00000", "q00001"], place) for place in (0, 1)]
    form = session.form(session.batch(records), [both[0][0], both[1][0], both[0][1], both[1][1]], {})
    typed(form, "r", "w")
    assert (form.number, form.message) == (2, "not saved: the other answer has the same text and the label right")
    assert labels_of(typed(form, "r", "r", "w")) == {
        1: ("right", ""),
        2: ("right", ""),
        3: ("right", ""),
        4: ("wrong", ""),
    }
    assert [label.run for label in read_labels(session.labels)] == [record.run_id for record in records] * 2


def test_digits_are_no_labels_without_a_scale(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "1")
    assert form.message == "'1' was not understood; type r for right or w for wrong, or ? for help"


def test_labels_may_be_written_out(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), " right ", "wrong", "correct")
    assert labels_of(form) == {1: ("right", ""), 2: ("wrong", "")}


@pytest.mark.parametrize("text", ["5", "1-", "a-b", "5-1", "1-10", "3-3", "-1-3", "1-5-9"])
def test_invalid_scales(text: str) -> None:
    with pytest.raises(BadValueError, match="scale"):
        LabelScale.of(text)


def test_a_comment_goes_with_the_label_that_follows(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "c too  short")
    assert form.comment == "too short"
    form.handle_line("w")
    assert labels_of(form) == {1: ("wrong", "too short")}
    assert (form.message, form.comment) == ("saved: wrong, with the comment: too short", "")
    assert typed(form, "c kept", "c").comment == ""


def test_skipped_ones_come_again_at_the_end(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "s", "r", "s")
    assert (form.item, form.queue.skipped_items("ann")) == (None, [1, 3])
    form.handle_line("s")
    assert (form.number, form.message) == (1, "the skipped answers again")
    form.handle_line("s still unclear")
    assert form.number == 3
    typed(form, "w", "s", "r")
    assert form.item is None
    assert labels_of(form) == {1: ("right", ""), 2: ("right", ""), 3: ("wrong", "")}
    assert typed(form, "s").message == "no answer was skipped"


def test_undo_reverts_labels_and_skips(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "r", "s", "c why", "w")
    assert form.item is None
    form.handle_line("u")
    assert (form.number, form.comment, form.message) == (3, "why", "taken back: wrong, with the comment: why")
    form.handle_line("u")
    assert (form.number, form.message, form.queue.skipped_items("ann")) == (2, "the skip is undone", [])
    form.handle_line("u")
    assert (form.number, form.message) == (1, "taken back: right")
    form.handle_line("u")
    assert (form.number, form.message) == (1, "there is nothing to undo")


def test_undo_takes_back_labels_of_this_session_alone(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "r")
    LabelJournal(form.batch.journal).append(Label("q00000", "wrong", "ann", "another run", id="later"))
    form.handle_line("u")
    assert (form.number, form.message) == (1, "taken back: right")
    assert [label.run for label in read_labels(form.batch.journal)] == ["another run"]
    assert typed(form, "u").message == "there is nothing to undo"


def test_only_undo_and_quit_work_at_the_end(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl", 1), "r")
    before = core(form)
    for key in ("r", "w", "s", "c x", "a", "?", "5"):
        assert core(typed(form, key)) == before
    assert typed(form, "u").number == 1
    assert typed(form, "r", "q").is_over


def test_no_items_is_the_end_at_once(label_store: RunStore, tmp_path: Path) -> None:
    form = open_form(label_store, tmp_path / "labels.jsonl", 0)
    assert form.item is None
    assert typed(form, "r", "s", "u", "q").is_over


def test_references_are_hidden_until_asked_for_and_always_where_blind(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "a")
    assert form.reference_shown
    assert not typed(form, "a").reference_shown
    blind = typed(open_form(label_store, tmp_path / "blind.jsonl", blind=True), "a")
    assert not blind.reference_shown
    assert "blind" in blind.message


LINES = st.sampled_from(["r", "w", "s", "u", "c", "c why", "a", "?", "", "x", "é", "5", "r r"])
LABELLING = st.sampled_from(["r", "w", "u", "c", "c why", "x", ""])


@settings(max_examples=examples(40))
@given(st.integers(0, 5), st.lists(LINES, max_size=25), st.sampled_from(["r", "w"]))
def test_undo_restores_the_state(
    label_store: RunStore, tmp_path_factory: pytest.TempPathFactory, n: int, keys: list[str], last: str
) -> None:
    form = typed(open_form(label_store, tmp_path_factory.mktemp("undo") / "labels.jsonl", n), *keys)
    before = core(form)
    form.handle_line(last)
    if form.message.startswith("saved"):
        assert core(typed(form, "u")) == before


@settings(max_examples=examples(40))
@given(st.integers(1, 5), st.lists(LABELLING, max_size=15), st.lists(LABELLING, max_size=15))
def test_a_resumed_session_equals_an_uninterrupted_one(
    label_store: RunStore, tmp_path_factory: pytest.TempPathFactory, n: int, first: list[str], then: list[str]
) -> None:
    path = tmp_path_factory.mktemp("resumed") / "labels.jsonl"
    left = typed(open_form(label_store, path, n), *first)
    if left.comment:
        return  # a comment without a label is not in the file
    again = open_form(label_store, path, n)
    assert core(again) == core(left)
    whole = open_form(label_store, path.with_name("whole.jsonl"), n)
    assert core(typed(again, *then)) == core(typed(whole, *first, *then))


def test_labels_of_other_samples_annotators_runs_and_metrics_are_ignored(label_store: RunStore, tmp_path: Path) -> None:
    path, run = tmp_path / "labels.jsonl", label_store.find("first").run_id
    others = [
        Label("elsewhere", "right", "ann", run),
        Label("q00000", "right", "bob", run),
        Label("q00000", "right", "ann", "run_2"),
        Label("q00000", "right", "ann", run, "exact_match"),
        Label("q00000", "right", "ann", run, chosen=True),
        Label("q00000", 3, "ann", run, doc_id="d1"),
    ]
    write_labels(path, others)
    form = open_form(label_store, path)
    assert (form.number, labels_of(form)) == (1, {})
    assert labels_of(typed(form, "w")) == {1: ("wrong", "")}
    assert read_labels(path)[:-1] == others


def test_a_skip_is_kept_with_its_reason(label_store: RunStore, tmp_path: Path) -> None:
    path, run = tmp_path / "labels.jsonl", label_store.find("first").run_id
    form = typed(open_form(label_store, path), "s the text  is cut off", "r", "s", "u")
    journal = LabelJournal(path)
    journal.refresh()
    (skip,) = journal.skips.values()
    assert (skip.key, skip.reason) == (LabelKey("q00000", "ann", run), "the text is cut off")
    again = open_form(label_store, path)
    assert core(again) == core(form)
    typed(again, "w", "s", "w")  # the skipped answer again
    journal.refresh()
    assert not journal.skips
    assert [sample_id for sample_id, _ in in_file(path)] == ["q00001", "q00002", "q00000"]


def test_unclear_is_saved_as_a_missing_label(label_store: RunStore, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    form = typed(open_form(label_store, path), "c the text is cut off", "x", "r", "s", "s")
    assert form.number == 3, "the skipped answer comes again, the other one does not"
    assert labels_of(form) == {1: ("cannot tell", "the text is cut off"), 2: ("right", "")}
    assert in_file(path) == [("q00001", "right")]
    again = open_form(label_store, path)
    assert labels_of(again) == labels_of(form)
    typed(again, "u", "u", "u")
    assert (again.number, again.comment) == (1, "the text is cut off")
    assert in_file(path) == []
    assert in_file(typed(again, "w").batch.journal) == [("q00000", "wrong")]


def test_fields_of_a_label(label_store: RunStore, tmp_path: Path) -> None:
    session = LabelSession(
        label_store, tmp_path / "labels.jsonl", "ann", metric="exact_match", scale=LabelScale(0, 3), tuning=True
    )
    records = [label_store.find("first")]
    batch = session.batch(records, adjudicates=True)
    form = session.form(batch, session.entries(records, ["q00000"]), {"q00000": Selection("d1", 0.25, 3)})
    typed(form, "c x", "a", "a", "2")
    (label,) = read_labels(session.labels)
    assert label == Label(
        "q00000",
        2,
        "ann",
        records[0].run_id,
        "exact_match",
        adjudicated=True,
        tuning=True,
        comment="x",
        at=label.at,
        draw="d1",
        probability=0.25,
        position=3,
        shown=("documents", "relevance", "reference", "labels"),  # it was seen, although it is hidden again
        id=label.id,
    )
    assert label.id is None


WHAT_IS_SHOWN: list[tuple[dict[str, Any], list[str], tuple[str, ...], str]] = [
    ({}, [], ("documents", "relevance"), "the reference is not shown"),
    ({}, ["a"], ("documents", "relevance", "reference"), "the reference is shown"),
    ({"blind": True}, ["a"], ("documents",), "a blind session"),
]


@pytest.mark.parametrize(
    ("options", "lines", "want"), [row[:3] for row in WHAT_IS_SHOWN], ids=[row[3] for row in WHAT_IS_SHOWN]
)
def test_what_the_annotator_saw(
    label_store: RunStore, tmp_path: Path, options: dict[str, Any], lines: list[str], want: tuple[str, ...]
) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl", **options), *lines, "r")
    (label,) = read_labels(form.batch.journal)
    assert label.shown == want


def test_a_write_error_leaves_the_state_unchanged(label_store: RunStore, tmp_path: Path) -> None:
    form = open_form(label_store, tmp_path / "missing" / "labels.jsonl")
    form.handle_line("r")
    assert (form.number, labels_of(form)) == (1, {})
    assert form.message.startswith(f"not saved: {form.batch.journal}: cannot be written")


def test_labels_that_were_given_in_a_browser_meanwhile(label_store: RunStore, tmp_path: Path) -> None:
    path, run = tmp_path / "labels.jsonl", label_store.find("first").run_id
    form, browser = typed(open_form(label_store, path, 4), "r"), LabelJournal(path)
    browser.append(LabelEvent("retract", LabelKey("q00000", "ann", run)))
    browser.append(*(Label(sample_id, "wrong", "ann", run) for sample_id in ("q00001", "q00002")))
    typed(form, "c why", "r")
    conflict = "not saved: this annotator has labelled it already; undo that label to change it"
    assert (form.message, form.comment, form.number) == (conflict, "", 1)
    assert labels_of(form) == {2: ("wrong", ""), 3: ("wrong", "")}
    typed(form, "w", "r", "u")
    assert in_file(path) == [("q00001", "wrong"), ("q00002", "wrong"), ("q00000", "wrong")]
    browser.append(LabelEvent("close", by="eve"))
    assert typed(form, "r").message == "not saved: labelling is closed"
    assert typed(form, "u").message == "not saved: labelling is closed"


def test_a_missing_label_cannot_be_removed(label_store: RunStore, tmp_path: Path) -> None:
    form = typed(open_form(label_store, tmp_path / "labels.jsonl"), "r")
    form.batch.journal.write_text("")
    form.handle_line("u")
    assert (form.message, form.number) == ("there is nothing to undo", 2)


def test_a_run_that_is_deleted_ends_the_session_and_keeps_the_label(tmp_path: Path) -> None:
    with RunStore.open(tmp_path / "runs.sqlite") as store:
        record = stored_runs.run(store, "first", stored_runs.samples(5), lambda number: "yes", ["mrr"])
        form = open_form(store, tmp_path / "labels.jsonl")
        store.delete(record.run_id)
        with pytest.raises(UnknownBatchError, match="was deleted from the store"):
            form.handle_line("r")
    assert in_file(form.batch.journal) == [("q00000", "right")]


OTHER_KINDS: list[tuple[Any, dict[str, Any], str, str]] = [
    ("right", {"scale": LabelScale(1, 5)}, "expects numbers from 1 to 5", "words in a scale"),
    (True, {"scale": LabelScale(0, 5)}, "expects numbers from 0 to 5", "true in a scale"),
    (3, {}, "expects right or wrong", "numbers without"),
    (7, {"scale": LabelScale(1, 5)}, "expects numbers from 1 to 5", "beyond the scale"),
    ("right", {"provenance": "model"}, "this session would add 'model'", "labels of a person"),
]


@pytest.mark.parametrize(
    ("label", "options", "message"), [row[:3] for row in OTHER_KINDS], ids=[row[3] for row in OTHER_KINDS]
)
def test_labels_of_another_kind_are_not_mixed(
    label_store: RunStore, tmp_path: Path, label: Any, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "labels.jsonl"
    write_labels(path, [Label("q00000", label, "ann", label_store.find("first").run_id)])
    with pytest.raises(DataFileError, match=message):
        open_form(label_store, path, **options)


def test_booleans_and_integers_are_accepted(label_store: RunStore, tmp_path: Path) -> None:
    run = label_store.find("first").run_id
    write_labels(tmp_path / "words.jsonl", [Label("q00000", True, "ann", run)])
    assert labels_of(open_form(label_store, tmp_path / "words.jsonl")) == {1: ("right", "")}
    write_labels(tmp_path / "grades.jsonl", [Label("q00000", 4.0, "ann", run)])
    form = open_form(label_store, tmp_path / "grades.jsonl", scale=LabelScale(1, 5))
    assert labels_of(form) == {1: ("4", "")}
