"""The form as a state machine: lines in, states and changes out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.labels import Label, LabelEvent, LabelJournal, LabelKey, read_labels
from auepora_eval.labels.choices import LabelScale
from auepora_eval.labels.draws import Selection
from auepora_eval.labels.form import FormState, GivenLabel, LabelChange, handle_line, restore_labels
from auepora_eval.labels.items import LabelItem, ShownDocument
from auepora_eval.labels.terminal_form import LabelFile, save_line
from helpers.requirements import examples


def items(n: int) -> tuple[LabelItem, ...]:
    return tuple(
        LabelItem(f"q{number}", f"question {number}?", f"answer {number}", references=("gold",)) for number in range(n)
    )


def typed(state: FormState, *lines: str) -> FormState:
    for line in lines:
        state, _ = handle_line(state, line)
    return state


def labels_of(state: FormState) -> dict[tuple[str, str], GivenLabel]:
    return {state.items[place].key: one for place, one in state.labels.items()}


def core(state: FormState) -> tuple[Any, ...]:
    """What a session is about, less what is only shown."""
    return state.position, dict(state.labels), state.skipped, state.steps, state.comment, state.is_over


def test_a_label_advances_to_the_next_item() -> None:
    state, change = handle_line(FormState(items(3)), "r")
    assert change is not None
    assert (change.sample_id, change.given, change.is_removal) == ("q0", GivenLabel("right"), False)
    state, change = handle_line(state, "w")
    assert change is not None
    assert (change.sample_id, change.given) == ("q1", GivenLabel("wrong"))
    assert state.item is not None
    assert state.item.sample_id == "q2"


def test_a_scale_takes_its_digits_and_nothing_else() -> None:
    state = FormState(items(3), scale=LabelScale(1, 5))
    for line in ("r", "0", "6", "44", "4 5", "-1", "4.0"):
        after, change = handle_line(state, line)
        assert change is None
        message = f"{line!r} was not understood; type a grade from 1 to 5, or ? for help"
        assert (after.position, after.message) == (0, message)
    state, change = handle_line(state, "4")
    assert change is not None
    assert change.given == GivenLabel(4)


def test_equal_answers_of_two_runs_have_one_label() -> None:
    pair = tuple(LabelItem("q0", "Who?", answer, run=run) for answer, run in (("Ada did.", "a"), ("Ada did. ", "b")))
    state = typed(FormState(pair), "r")
    refused, change = handle_line(state, "w")
    assert (change, refused.message) == (None, "not saved: the other answer has the same text and the label right")
    assert labels_of(typed(state, "w", "r")).keys() == {("q0", "a"), ("q0", "b")}
    different = (pair[0], LabelItem("q0", "Who?", "Bob did.", run="b"))
    assert len(labels_of(typed(FormState(different), "r", "w"))) == 2


def test_digits_are_no_labels_without_a_scale() -> None:
    state, change = handle_line(FormState(items(3)), "1")
    assert change is None
    assert state.message == "'1' was not understood; type r for right or w for wrong, or ? for help"


def test_labels_may_be_written_out() -> None:
    state = typed(FormState(items(3)), " right ", "wrong", "correct")
    assert [one.label for one in state.labels.values()] == ["right", "wrong"]


@pytest.mark.parametrize("text", ["5", "1-", "a-b", "5-1", "1-10", "3-3", "-1-3", "1-5-9"])
def test_invalid_scales(text: str) -> None:
    with pytest.raises(BadValueError, match="scale"):
        LabelScale.of(text)


def test_a_comment_goes_with_the_label_that_follows() -> None:
    state = typed(FormState(items(2)), "c too  short")
    assert state.comment == "too short"
    state, change = handle_line(state, "w")
    assert change is not None
    assert change.given == GivenLabel("wrong", "too short")
    assert state.message == "saved: wrong, with the comment: too short"
    assert state.comment == ""
    assert typed(FormState(items(2)), "c kept", "c").comment == ""


def test_skipped_ones_come_again_at_the_end() -> None:
    state = typed(FormState(items(3)), "s", "r", "s")
    assert state.item is None
    assert state.skipped == {0, 2}
    state = typed(state, "s")
    assert (state.position, state.skipped) == (0, frozenset())
    state = typed(state, "r", "w")
    assert state.item is None
    assert {name: one.label for (name, _), one in labels_of(state).items()} == {
        "q0": "right",
        "q1": "right",
        "q2": "wrong",
    }


def test_undo_reverts_labels_and_skips() -> None:
    state = typed(FormState(items(3)), "r", "s", "c why", "w")
    assert state.item is None
    state, change = handle_line(state, "u")
    assert change is not None
    assert (change.sample_id, change.is_removal) == ("q2", True)
    assert (state.position, state.comment) == (2, "why")
    state, change = handle_line(state, "u")
    assert change == LabelChange("q1", None, is_removal=True)
    assert (state.position, state.skipped) == (1, frozenset())
    state, change = handle_line(state, "u")
    assert change is not None
    assert change.sample_id == "q0"
    state, change = handle_line(state, "u")
    assert change is None
    assert state.message == "there is nothing to undo"


def test_only_undo_and_quit_work_at_the_end() -> None:
    end = typed(FormState(items(1)), "r")
    for key in ("r", "w", "s", "c x", "a", "?", "5"):
        assert core(typed(end, key)) == core(end)
    assert typed(end, "q").is_over
    assert typed(end, "u").position == 0


def test_no_items_is_the_end_at_once() -> None:
    assert FormState(()).item is None
    assert typed(FormState(()), "r", "s", "u", "q").is_over


def test_references_are_hidden_until_asked_for_and_always_where_blind() -> None:
    assert typed(FormState(items(1)), "a").reference_shown
    assert not typed(FormState(items(1)), "a", "a").reference_shown
    blind = typed(FormState(items(1), blind=True), "a")
    assert not blind.reference_shown
    assert "blind" in blind.message


LINES = st.sampled_from(["r", "w", "s", "u", "c", "c why", "a", "?", "", "x", "é", "5", "r r"])
LABELLING = st.sampled_from(["r", "w", "u", "c", "c why", "x", ""])


@given(st.integers(0, 5), st.lists(LINES, max_size=40))
def test_undo_restores_the_state(n: int, keys: list[str]) -> None:
    state = typed(FormState(items(n)), *keys)
    for key in ("r", "w", "s"):
        after, _ = handle_line(state, key)
        if len(after.steps) > len(state.steps):
            assert core(typed(after, "u")) == core(state)


@given(st.integers(0, 5), st.lists(LINES, max_size=60))
def test_the_changes_make_up_the_file(n: int, keys: list[str]) -> None:
    state, file = FormState(items(n)), dict[tuple[str, str], GivenLabel]()
    for key in keys:
        state, change = handle_line(state, key)
        if change is None or change.given is None:
            pass  # nothing, or a skip
        elif change.is_removal:
            assert file.pop((change.sample_id, change.run)) == change.given
        else:
            assert (change.sample_id, change.run) not in file
            file[change.sample_id, change.run] = change.given
        assert file == labels_of(state)
        assert 0 <= state.position <= n
        assert state.position not in state.labels
        assert state.position not in state.skipped


@given(st.integers(1, 5), st.lists(LABELLING, max_size=30), st.lists(LABELLING, max_size=30))
def test_a_resumed_session_equals_an_uninterrupted_one(n: int, first: list[str], then: list[str]) -> None:
    left = typed(FormState(items(n)), *first)
    if left.comment:
        return  # a comment without a label is not in the file
    again = restore_labels(FormState(items(n)), labels_of(left))
    assert core(again) == core(left)
    assert core(typed(again, *then)) == core(typed(left, *then))


@given(st.integers(1, 5), st.lists(LINES, max_size=40))
def test_resume_after_skips(n: int, keys: list[str]) -> None:
    left = typed(FormState(items(n)), *keys)
    again = restore_labels(FormState(items(n)), labels_of(left))
    assert again.labels == left.labels
    asked = set()
    while again.item is not None:
        asked.add(again.position)
        again = typed(again, "r")
    assert asked == set(range(n)) - set(left.labels)


def test_labels_of_other_samples_are_ignored() -> None:
    state = restore_labels(
        FormState(items(2)), {("elsewhere", ""): GivenLabel("right"), ("q0", ""): GivenLabel("wrong")}
    )
    assert labels_of(state) == {("q0", ""): GivenLabel("wrong")}


# --- the file --------------------------------------------------------------------------------------------------------


def sheet(path: Path, **more: Any) -> LabelFile:
    return LabelFile(path, "ann", "run_1", clock=lambda: "2030-01-01T00:00:00+00:00", **more)


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(["r", "w", "s", "u"]), max_size=25))
def test_the_file_always_equals_the_state(tmp_path_factory: pytest.TempPathFactory, keys: list[str]) -> None:
    ours = sheet(tmp_path_factory.mktemp("sheet") / "labels.jsonl")
    ours.journal.append(Label("q1", "wrong", "bob", "run_1"))
    state = FormState(items(4))
    for key in keys:
        state = save_line(state, ours, key)
        assert not state.message.startswith("not saved")
        assert {item: one for item, one in ours.labels_by_item(None).items() if one} == labels_of(state)
        assert [one.sample_id for one in ours.labels()] == [
            state.items[step.position].sample_id for step in state.steps if step.given is not None
        ]
    assert [one for one in read_labels(ours.path) if one.annotator == "bob"] == [Label("q1", "wrong", "bob", "run_1")]


def test_a_skip_is_kept_with_its_reason(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    state = FormState(items(3))
    for line in ("s the text  is cut off", "r", "s", "u"):
        state = save_line(state, ours, line)
    (skip,) = ours.journal.skips.values()
    assert (skip.key, skip.reason) == (LabelKey("q0", "ann", "run_1"), "the text is cut off")
    again = restore_labels(FormState(items(3)), sheet(ours.path).labels_by_item(None))
    assert core(again) == core(state)
    state = typed(again, "w", "s")  # the skipped answer again
    save_line(state, ours, "w")
    assert not ours.journal.skips
    assert [one.sample_id for one in read_labels(ours.path)] == ["q1", "q0"]


def test_unclear_is_saved_as_a_missing_label(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    state = FormState(items(3))
    for line in ("c the text is cut off", "x", "r", "s", "s"):
        state = save_line(state, ours, line)
    assert state.position == 2, "the skipped answer comes again, the other one does not"
    assert labels_of(state) == {
        ("q0", ""): GivenLabel("cannot tell", "the text is cut off"),
        ("q1", ""): GivenLabel("right"),
    }
    assert [(one.sample_id, one.label) for one in read_labels(ours.path)] == [("q1", "right")]
    again = restore_labels(FormState(items(3)), sheet(ours.path).labels_by_item(None))
    assert labels_of(again) == labels_of(state)
    for line in ("u", "u", "u", "w"):
        again = save_line(again, ours, line)
    assert [(one.sample_id, one.label) for one in read_labels(ours.path)] == [("q0", "wrong")]
    assert not ours.journal.skips


def test_fields_of_a_label(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl", metric="exact_match", adjudicated=True, tuning=True)
    ours = replace(ours, selections={"q0": Selection("d1", 0.25, 3)})
    save_line(typed(FormState(items(1), scale=LabelScale(0, 3)), "c x", "a", "a"), ours, "2")
    assert read_labels(ours.path) == [
        Label(
            "q0",
            2,
            "ann",
            "run_1",
            "exact_match",
            adjudicated=True,
            tuning=True,
            comment="x",
            at="2030-01-01T00:00:00+00:00",
            draw="d1",
            probability=0.25,
            position=3,
            shown=("reference",),  # it was seen, although it is hidden again
        )
    ]


WHAT_IS_SHOWN: list[tuple[dict[str, Any], list[str], tuple[str, ...], str]] = [
    ({}, [], ("documents", "relevance"), "the reference is not shown"),
    ({}, ["a"], ("documents", "relevance", "reference"), "the reference is shown"),
    ({"blind": True}, ["a"], ("documents",), "a blind session"),
]


@pytest.mark.parametrize(
    ("options", "lines", "want"), [row[:3] for row in WHAT_IS_SHOWN], ids=[row[3] for row in WHAT_IS_SHOWN]
)
def test_what_the_annotator_saw(options: dict[str, Any], lines: list[str], want: tuple[str, ...]) -> None:
    documents = (ShownDocument("d1", "text", 1, gold=True),)
    item = LabelItem("q0", "question?", "answer", documents, ("gold",))
    _, change = handle_line(typed(FormState((item,), **options), *lines), "r")
    assert change is not None
    assert change.shown == want


def test_labels_of_other_annotators_runs_and_metrics_are_ignored(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    for label in (
        Label("q0", "right", "bob", "run_1"),
        Label("q0", "right", "ann", "run_2"),
        Label("q0", "right", "ann", "run_1", "exact_match"),
        Label("q0", "right", "ann", "run_1", adjudicated=True),
    ):
        ours.journal.append(label)
    assert ours.labels_by_item(None) == {}


def test_a_write_error_leaves_the_state_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.mkdir()
    state = save_line(FormState(items(2)), sheet(path), "r")
    assert (state.position, dict(state.labels)) == (0, {})
    assert state.message.startswith(f"not saved: {path}: cannot be written")


def test_labels_that_were_given_in_a_browser_meanwhile(tmp_path: Path) -> None:
    ours, browser = sheet(tmp_path / "labels.jsonl"), LabelJournal(tmp_path / "labels.jsonl")
    state = save_line(FormState(items(4)), ours, "r")
    browser.append(LabelEvent("retract", LabelKey("q0", "ann", "run_1")))
    browser.append(*(Label(one, "wrong", "ann", "run_1") for one in ("q1", "q2")))
    state = save_line(typed(state, "c why"), ours, "r")
    assert (state.message, state.comment) == (
        "not saved: this annotator has labelled it already; undo that label to change it",
        "",
    )
    assert labels_of(state) == {("q1", ""): GivenLabel("wrong"), ("q2", ""): GivenLabel("wrong")}
    for line in ("w", "r", "u"):
        state = save_line(state, ours, line)
    assert [(one.sample_id, one.label) for one in read_labels(ours.path)] == [
        ("q1", "wrong"),
        ("q2", "wrong"),
        ("q3", "wrong"),
    ]


def test_a_missing_label_cannot_be_removed(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    state = save_line(FormState(items(2)), ours, "r")
    ours.path.write_text("")
    state = save_line(state, ours, "u")
    assert "the label is not there any more" in state.message
    assert state.position == 1


@pytest.mark.parametrize(
    ("label", "scale", "message"),
    [
        ("right", LabelScale(1, 5), "numbers from 1 to 5"),
        (3, None, "right or wrong"),
        (7, LabelScale(1, 5), "numbers from 1 to 5"),
    ],
    ids=["words in a scale", "numbers without", "beyond the scale"],
)
def test_labels_of_another_kind_are_not_mixed(
    tmp_path: Path, label: str | int, scale: LabelScale | None, message: str
) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    ours.journal.append(Label("q0", label, "ann", "run_1"))
    with pytest.raises(DataFileError, match=f"this session expects {message}"):
        ours.labels_by_item(scale)


def test_booleans_and_integers_are_accepted(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    ours.journal.append(Label("q0", True, "ann", "run_1"))
    assert ours.labels_by_item(None) == {("q0", ""): GivenLabel("right")}
    ours.path.unlink()
    ours.journal.append(Label("q0", 4.0, "ann", "run_1"))
    assert ours.labels_by_item(LabelScale(1, 5)) == {("q0", ""): GivenLabel(4)}
