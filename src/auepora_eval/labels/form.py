"""The labelling form as a state machine: a line of input gives a new state, and a label to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from ..io.labels import RIGHT, UNCLEAR, WRONG
from .choices import UNCLEAR_KEY, LabelScale
from .items import ItemKey, LabelItem

_LABELS = {"r": RIGHT, RIGHT: RIGHT, "w": WRONG, WRONG: WRONG}


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """The label of one item, with its comment."""

    label: str | int
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.label}, with the comment: {self.comment}" if self.comment else str(self.label)


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A step that can be undone: the position before, and the label given there (``None`` if skipped)."""

    position: int
    comment: str
    skipped: frozenset[int]
    given: GivenLabel | None


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A change of the label file: a new label or skip, or one to take back."""

    sample_id: str
    given: GivenLabel | None
    """The label; ``None`` for a skip."""
    is_removal: bool = False
    run: str = ""
    """The run of the answer, in a session over two runs."""
    shown: tuple[str, ...] = ()
    """What the annotator saw beside question and answer."""
    reason: str = ""
    """The reason of a skip."""


@dataclass(frozen=True, slots=True)
class FormState:
    """The complete state of a session."""

    items: tuple[LabelItem, ...]
    scale: LabelScale | None = None
    position: int = 0
    """Index of the shown item; one past the last when all are done."""
    labels: Mapping[int, GivenLabel] = field(default_factory=dict)
    skipped: frozenset[int] = frozenset()
    steps: tuple[UndoStep, ...] = ()
    comment: str = ""
    """The comment to write with the label of this item."""
    reference_shown: bool = False
    reference_seen: bool = False
    """Whether the reference of this item has been shown, even if it is hidden again."""
    blind: bool = False
    is_over: bool = False
    """Whether the annotator has left."""
    message: str = ""
    """The effect of the last line."""

    @property
    def item(self) -> LabelItem | None:
        """The shown item; ``None`` at the end."""
        return self.items[self.position] if self.position < len(self.items) else None

    @property
    def shown(self) -> tuple[str, ...]:
        """What is shown of the item beside question and answer."""
        item = self.item
        if item is None:
            return ()
        parts = {
            "documents": bool(item.evidence),
            "relevance": not self.blind and any(document.gold for document in item.evidence),
            "reference": self.reference_seen and bool(item.references),
            "labels": bool(item.previous_labels),
        }
        return tuple(name for name, is_shown in parts.items() if is_shown)


def restore_labels(state: FormState, labels: Mapping[ItemKey, GivenLabel | None]) -> FormState:
    """The session with existing labels and skips (``None``) by item, in their order; they can be undone."""
    positions = {item.key: position for position, item in enumerate(state.items)}
    for key, given in labels.items():
        if key in positions:
            current = replace(state, position=positions[key], comment="" if given is None else given.comment)
            skipped = current.skipped | {current.position}
            after = replace(current, skipped=skipped) if given is None else _add_label(current, given)
            state = _advance(after, current, given)
    return state


def handle_line(state: FormState, line: str) -> tuple[FormState, LabelChange | None]:
    """Handle a line of input: the new state with a message, and the change to write."""
    command, _, text = line.strip().partition(" ")
    if command == "c" and state.item is not None:
        return _set_comment(state, text), None
    if command == "s" and (state.item is not None or not text):
        return _skip(state, " ".join(text.split()))
    if not text:
        if command == "q":
            return replace(state, is_over=True, message=""), None
        if command == "u":
            return _undo(state)
        if state.item is not None:
            if command == "a":
                return _toggle_reference(state), None
            if command == UNCLEAR_KEY:
                return _label(state, UNCLEAR)
            label = _LABELS.get(command) if state.scale is None else state.scale.grade(command)
            if label is not None:
                return _label(state, label)
    scale = state.scale
    labels = "r for right or w for wrong" if scale is None else f"a grade from {scale.low} to {scale.high}"
    expected = "q to quit or u to undo" if state.item is None else labels
    return replace(state, message=f"{line.strip()!r} was not understood; type {expected}, or ? for help"), None


def count_labels(given: Iterable[GivenLabel]) -> dict[str, int]:
    """Number of items by label."""
    counts = Counter(str(given_label.label) for given_label in given)
    return dict(sorted(counts.items()))


def _set_comment(state: FormState, text: str) -> FormState:
    comment = " ".join(text.split())
    message = f"comment for the next label: {comment}" if comment else "no comment for the next label"
    return replace(state, comment=comment, message=message)


def _label(state: FormState, label: str | int) -> tuple[FormState, LabelChange | None]:
    assert state.item is not None
    other = _label_of_equal_answer(state, state.item)
    if other not in (None, label):
        return replace(state, message=f"not saved: the other answer has the same text and the label {other}"), None
    given = GivenLabel(label, state.comment)
    after = replace(_advance(_add_label(state, given), state, given), message=f"saved: {given}")
    return after, LabelChange(state.item.sample_id, given, run=state.item.run, shown=state.shown)


def _label_of_equal_answer(state: FormState, item: LabelItem) -> str | int | None:
    """The label of the other run's answer to the same question, if it has the same text."""
    for position, given in state.labels.items():
        other = state.items[position]
        if (other.sample_id, other.answer.strip()) == (item.sample_id, item.answer.strip()) and other.run != item.run:
            return given.label
    return None


def _skip(state: FormState, reason: str) -> tuple[FormState, LabelChange | None]:
    """Skip the item; at the end, show the skipped items again."""
    if state.item is not None:
        message = f"skipped: {reason}" if reason else "skipped"
        change = LabelChange(state.item.sample_id, None, run=state.item.run, reason=reason)
        return _advance(replace(state, skipped=state.skipped | {state.position}, message=message), state, None), change
    if not state.skipped:
        return replace(state, message="no answer was skipped"), None
    return _advance(replace(state, skipped=frozenset(), message="the skipped answers again"), state, None), None


def _add_label(state: FormState, given: GivenLabel) -> FormState:
    return replace(state, labels={**state.labels, state.position: given}, skipped=state.skipped - {state.position})


def _advance(state: FormState, before: FormState, given: GivenLabel | None) -> FormState:
    """The state at the next item, with an undo step back to ``before``."""
    return replace(
        state,
        steps=(*state.steps, UndoStep(before.position, before.comment, before.skipped, given)),
        position=_next(state),
        comment="",
        reference_seen=state.reference_shown,
    )


def _next(state: FormState) -> int:
    """Index of the next item without a label, wrapping around; the end if there is none."""
    n = len(state.items)
    for position in chain(range(state.position + 1, n), range(min(state.position + 1, n))):
        if position not in state.labels and position not in state.skipped:
            return position
    return n


def _undo(state: FormState) -> tuple[FormState, LabelChange | None]:
    if not state.steps:
        return replace(state, message="there is nothing to undo"), None
    step = state.steps[-1]
    labels = {
        position: label for position, label in state.labels.items() if position != step.position or step.given is None
    }
    undone = replace(
        state,
        labels=labels,
        skipped=step.skipped,
        steps=state.steps[:-1],
        position=step.position,
        comment=step.comment,
        reference_seen=state.reference_shown,
        message=f"taken back: {step.given}" if step.given else "the skip is undone",
    )
    if step.position == len(state.items):  # the skipped answers were shown again
        return undone, None
    item = state.items[step.position]
    return undone, LabelChange(item.sample_id, step.given, is_removal=True, run=item.run)


def _toggle_reference(state: FormState) -> FormState:
    if state.blind:
        return replace(state, message="this session is blind: references are not shown")
    assert state.item is not None
    if not state.item.references:
        return replace(state, message="this sample has no reference answer")
    message = "reference hidden" if state.reference_shown else "reference shown"
    return replace(state, reference_shown=not state.reference_shown, reference_seen=True, message=message)
