"""The form as a state machine: keys in, states and changes out, without a terminal."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auepora_eval.annotate.session import (
    FormState,
    GivenLabel,
    LabelFile,
    LabelItem,
    LabelScale,
    new_form,
    paste,
    press,
    restore_labels,
)
from auepora_eval.annotate.terminal import PastedText, handle_key
from auepora_eval.errors import BadValueError, DataFileError
from auepora_eval.io.labels import Label, append_label, read_labels
from helpers.requirements import examples


def items(n: int) -> list[LabelItem]:
    return [
        LabelItem(f"q{number}", f"question {number}?", f"answer {number}", references=("gold",)) for number in range(n)
    ]


def typed(state: FormState, *keys: str) -> FormState:
    for key in keys:
        state, _ = press(state, key)
    return state


def labels_of(state: FormState) -> dict[str, GivenLabel]:
    return {state.items[place].sample_id: one for place, one in state.labels.items()}


def core(state: FormState) -> tuple[Any, ...]:
    """What a session is about, less what is only shown."""
    return state.position, dict(state.labels), state.skipped, state.steps, state.comment, state.mode


def test_a_label_advances_to_the_next_item() -> None:
    state, change = press(new_form(items(3)), "r")
    assert change is not None
    assert (change.sample_id, change.given, change.is_removal) == ("q0", GivenLabel("right"), False)
    state, change = press(state, "w")
    assert change is not None
    assert (change.sample_id, change.given) == ("q1", GivenLabel("wrong"))
    assert state.item is not None
    assert state.item.sample_id == "q2"


def test_a_scale_takes_its_digits_and_nothing_else() -> None:
    state = new_form(items(3), scale=LabelScale(1, 5))
    for key in ("r", "0", "6"):
        after, change = press(state, key)
        assert change is None
        assert (after.position, after.message) == (0, "press a number from 1 to 5")
    state, change = press(state, "4")
    assert change is not None
    assert change.given == GivenLabel(4)


def test_digits_are_no_labels_without_a_scale() -> None:
    state, change = press(new_form(items(3)), "1")
    assert change is None
    assert state.message == "press r for right or w for wrong"


@pytest.mark.parametrize("text", ["5", "1-", "a-b", "5-1", "1-10", "3-3", "-1-3", "1-5-9"])
def test_invalid_scales(text: str) -> None:
    with pytest.raises(BadValueError, match="scale"):
        LabelScale.of(text)


def test_a_comment_goes_with_the_label_that_follows() -> None:
    state = typed(new_form(items(2)), "c", *"too shprt", "backspace", "backspace", "backspace", *"ort", "enter")
    assert state.comment == "too short"
    state, change = press(state, "w")
    assert change is not None
    assert change.given == GivenLabel("wrong", "too short")
    assert state.comment == ""


def test_a_comment_can_be_cancelled() -> None:
    state = typed(new_form(items(2)), "c", *"kept", "enter", "c", *" not", "escape")
    assert state.comment == "kept"
    assert typed(state, "c", "ctrl-u", "enter").comment == ""
    assert typed(state, "c", *" it is", "ctrl-w", "enter").comment == "kept it"
    assert typed(state, "c", "q", "r", "up", "enter").comment == "keptqr"  # letters, not keys


def test_pasted_text_is_never_a_label() -> None:
    state = new_form(items(2))
    assert core(paste(state, "rrrwwwq")) == core(state)
    assert paste(typed(state, "c"), "two\nlines\x1b[2J").draft.startswith("two lines")


def test_skipped_ones_come_again_at_the_end() -> None:
    state = typed(new_form(items(3)), "s", "r", "s")
    assert state.item is None
    assert state.skipped == {0, 2}
    state = typed(state, "s")
    assert (state.position, state.skipped) == (0, frozenset())
    state = typed(state, "r", "w")
    assert state.item is None
    assert {name: one.label for name, one in labels_of(state).items()} == {"q0": "right", "q1": "right", "q2": "wrong"}


def test_undo_reverts_labels_and_skips() -> None:
    state = typed(new_form(items(3)), "r", "s", "c", *"why", "enter", "w")
    assert state.item is None
    state, change = press(state, "u")
    assert change is not None
    assert (change.sample_id, change.is_removal) == ("q2", True)
    assert (state.position, state.comment) == (2, "why")
    state, change = press(state, "u")
    assert change is None
    assert (state.position, state.skipped) == (1, frozenset())
    state, change = press(state, "u")
    assert change is not None
    assert change.sample_id == "q0"
    state, change = press(state, "u")
    assert change is None
    assert state.message == "there is nothing to undo"


def test_only_undo_and_quit_work_at_the_end() -> None:
    end = typed(new_form(items(1)), "r")
    for key in ("r", "w", "s", "c", "a", "down", "5"):
        assert core(typed(end, key)) == core(end)
    assert typed(end, "q").is_over
    assert typed(end, "u").position == 0


def test_no_items_is_the_end_at_once() -> None:
    assert new_form([]).item is None
    assert typed(new_form([]), "r", "s", "u", "q").is_over


def test_references_are_hidden_until_asked_for_and_always_where_blind() -> None:
    assert typed(new_form(items(1)), "a").reference_shown
    assert not typed(new_form(items(1)), "a", "a").reference_shown
    blind = typed(new_form(items(1), blind=True, reference_shown=True), "a")
    assert not blind.reference_shown
    assert "blind" in blind.message


KEYS = st.sampled_from(["r", "w", "s", "u", "c", "enter", "escape", "a", "?", "down", " ", "tab", "x", "é", "5"])
LABELLING = st.sampled_from(["r", "w", "u", "c", "enter", "x", "down"])


@given(st.integers(0, 5), st.lists(KEYS, max_size=40))
def test_undo_restores_the_state(n: int, keys: list[str]) -> None:
    state = typed(new_form(items(n)), *keys)
    if state.mode != "form":
        return
    for key in ("r", "w", "s"):
        after, _ = press(state, key)
        if len(after.steps) > len(state.steps):
            assert core(typed(after, "u")) == core(state)


@given(st.integers(0, 5), st.lists(KEYS, max_size=60))
def test_the_changes_make_up_the_file(n: int, keys: list[str]) -> None:
    state, file = new_form(items(n)), dict[str, GivenLabel]()
    for key in keys:
        state, change = press(state, key)
        if change is not None and change.is_removal:
            assert file.pop(change.sample_id) == change.given
        elif change is not None:
            assert change.sample_id not in file
            file[change.sample_id] = change.given
        assert file == labels_of(state)
        assert 0 <= state.position <= n
        assert state.position not in state.labels
        assert state.position not in state.skipped


@given(st.integers(1, 5), st.lists(LABELLING, max_size=30), st.lists(LABELLING, max_size=30))
def test_a_resumed_session_equals_an_uninterrupted_one(n: int, first: list[str], then: list[str]) -> None:
    left = typed(new_form(items(n)), *first)
    if left.mode != "form" or left.comment:
        return  # what is typed and not submitted yet is not in the file
    again = restore_labels(new_form(items(n)), labels_of(left))
    assert core(again) == core(left)
    assert core(typed(again, *then)) == core(typed(left, *then))


@given(st.integers(1, 5), st.lists(KEYS, max_size=40))
def test_resume_after_skips(n: int, keys: list[str]) -> None:
    left = typed(new_form(items(n)), *keys)
    again = restore_labels(new_form(items(n)), labels_of(left))
    assert again.labels == left.labels
    asked = set()
    while again.item is not None:
        asked.add(again.position)
        again = typed(again, "r")
    assert asked == set(range(n)) - set(left.labels)


def test_labels_of_other_samples_are_ignored() -> None:
    state = restore_labels(new_form(items(2)), {"elsewhere": GivenLabel("right"), "q0": GivenLabel("wrong")})
    assert labels_of(state) == {"q0": GivenLabel("wrong")}


# --- the file --------------------------------------------------------------------------------------------------------


def sheet(path: Path, **more: Any) -> LabelFile:
    return LabelFile(path, "ann", "run_1", clock=lambda: "2030-01-01T00:00:00+00:00", **more)


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from(["r", "w", "s", "u"]), max_size=25))
def test_the_file_always_equals_the_state(tmp_path_factory: pytest.TempPathFactory, keys: list[str]) -> None:
    ours = sheet(tmp_path_factory.mktemp("sheet") / "labels.jsonl")
    append_label(ours.path, Label("q1", "wrong", "bob", "run_1"))
    state = new_form(items(4))
    for key in keys:
        state = handle_key(state, ours, key)
        assert ours.labels_by_sample(None) == labels_of(state)
        assert [one.sample_id for one in ours.labels()] == [
            state.items[step.position].sample_id for step in state.steps if step.given is not None
        ]
    assert [one for one in read_labels(ours.path) if one.annotator == "bob"] == [Label("q1", "wrong", "bob", "run_1")]


def test_fields_of_a_label(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl", metric="exact_match", adjudicated=True, tuning=True)
    handle_key(typed(new_form(items(1), scale=LabelScale(0, 3)), "c", "x", "enter"), ours, "2")
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
        )
    ]


def test_labels_of_other_annotators_runs_and_metrics_are_ignored(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    for label in (
        Label("q0", "right", "bob", "run_1"),
        Label("q0", "right", "ann", "run_2"),
        Label("q0", "right", "ann", "run_1", "exact_match"),
        Label("q0", "right", "ann", "run_1", adjudicated=True),
    ):
        append_label(ours.path, label)
    assert ours.labels_by_sample(None) == {}


def test_a_write_error_leaves_the_state_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.mkdir()
    state = handle_key(new_form(items(2)), sheet(path), "r")
    assert (state.position, dict(state.labels)) == (0, {})
    assert state.message.startswith(f"not written: {path}: cannot be written")


def test_a_missing_label_cannot_be_removed(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    state = handle_key(new_form(items(2)), ours, "r")
    ours.path.write_text("")
    state = handle_key(state, ours, "u")
    assert "the label of sample 'q0' is not there any more" in state.message
    assert state.position == 1


def test_a_paste_reaches_the_comment_alone(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    state = handle_key(new_form(items(2)), ours, PastedText("rwrwrw"))
    assert "ignored" in state.message
    assert not ours.path.exists()


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
    append_label(ours.path, Label("q0", label, "ann", "run_1"))
    with pytest.raises(DataFileError, match=f"this session expects {message}"):
        ours.labels_by_sample(scale)


def test_booleans_and_integers_are_accepted(tmp_path: Path) -> None:
    ours = sheet(tmp_path / "labels.jsonl")
    append_label(ours.path, Label("q0", True, "ann", "run_1"))
    assert ours.labels_by_sample(None) == {"q0": GivenLabel("right")}
    ours.path.unlink()
    append_label(ours.path, Label("q0", 4.0, "ann", "run_1"))
    assert ours.labels_by_sample(LabelScale(1, 5)) == {"q0": GivenLabel(4)}
