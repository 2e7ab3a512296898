"""The form as a state machine: a key leads to a new state and a label to write; independent of the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal

from ..core.errors import BadValueError
from ..io.labels import RIGHT, WRONG
from .items import LabelItem

__all__ = [
    "FormState",
    "GivenLabel",
    "LabelChange",
    "LabelScale",
    "UndoStep",
    "count_labels",
    "new_form",
    "paste",
    "press",
    "restore_labels",
    "set_comment",
    "with_layout",
]

Mode = Literal["form", "comment", "help", "over"]
_LABELS = {"r": RIGHT, "w": WRONG}


@dataclass(frozen=True, slots=True)
class LabelScale:
    """The range of integer labels, each of which is one key."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 9:
            raise BadValueError(f"a scale goes from one digit to a higher one, such as 1-5, not {self}")

    @classmethod
    def of(cls, text: str) -> LabelScale:
        """Parse a scale such as ``1-5``."""
        low, dash, high = text.strip().partition("-")
        if not (dash and low.strip().isdecimal() and high.strip().isdecimal()):
            raise BadValueError(f"a scale is written as 1-5, not {text!r}")
        return cls(int(low), int(high))

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and value == int(value) and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class GivenLabel:
    """The label of one item, with its comment."""

    label: str | int
    comment: str = ""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """A step that can be undone: the position before, and the label given there (``None`` if skipped)."""

    position: int
    comment: str
    skipped: frozenset[int]
    given: GivenLabel | None


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A change of the label file: a new label, or one to remove."""

    sample_id: str
    given: GivenLabel
    is_removal: bool = False


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
    draft: str = ""
    """The comment being typed."""
    mode: Mode = "form"
    reference_shown: bool = False
    blind: bool = False
    scroll: int = 0
    page: int = 10
    last_scroll: int = 0
    anchors: tuple[int, ...] = ()
    """Line numbers at which documents begin."""
    message: str = ""

    @property
    def item(self) -> LabelItem | None:
        """The shown item; ``None`` at the end."""
        return self.items[self.position] if self.position < len(self.items) else None

    @property
    def is_over(self) -> bool:
        """Whether the annotator has left."""
        return self.mode == "over"


def new_form(
    items: Sequence[LabelItem], *, scale: LabelScale | None = None, blind: bool = False, reference_shown: bool = False
) -> FormState:
    """A new session without labels."""
    return FormState(tuple(items), scale, blind=blind, reference_shown=reference_shown and not blind)


def restore_labels(state: FormState, labels: Mapping[str, GivenLabel]) -> FormState:
    """The session with existing labels by sample id, in their order; they can be undone."""
    positions = {item.sample_id: position for position, item in enumerate(state.items)}
    for sample_id, given in labels.items():
        if sample_id in positions:
            current = replace(state, position=positions[sample_id], comment=given.comment)
            state = _advance(_add_label(current, given), current, given)
    return replace(state, message="")


def with_layout(state: FormState, *, scroll: int, page: int, last_scroll: int, anchors: tuple[int, ...]) -> FormState:
    """The state with the layout of the screen it was shown on, which limits scrolling."""
    return replace(state, scroll=scroll, page=max(1, page), last_scroll=last_scroll, anchors=anchors)


def press(state: FormState, key: str) -> tuple[FormState, LabelChange | None]:
    """Handle a key: the new state, and the change to write."""
    if state.mode == "comment":
        return _type_comment(state, key), None
    if state.mode == "help":
        moved = _scroll(state, key)
        return (moved if moved.scroll != state.scroll else replace(state, mode="form", scroll=0)), None
    state = replace(state, message="")
    if key in ("q", "ctrl-d"):
        return replace(state, mode="over"), None
    if key in ("?", "h", "f1"):
        return replace(state, mode="help", scroll=0), None
    if key in ("u", "backspace"):
        return _undo(state)
    if state.item is None:
        return _press_at_end(state, key), None
    if key in _LABELS or (len(key) == 1 and key in "0123456789"):
        return _label(state, key)
    if key == "s":
        skipped = replace(state, skipped=state.skipped | {state.position})
        return _advance(skipped, state, None), None
    if key == "c":
        return replace(state, mode="comment", draft=state.comment), None
    if key == "a":
        return _toggle_reference(state), None
    return _scroll(state, key), None


def set_comment(state: FormState, text: str) -> FormState:
    """The state with a complete comment; an empty one removes it."""
    comment = " ".join(text.split())
    return replace(state, comment=comment, message=f"comment: {comment}" if comment else "no comment")


def paste(state: FormState, text: str) -> FormState:
    """Handle pasted text: it can extend a comment, and is never treated as keys."""
    if state.mode == "comment":
        return replace(state, draft=state.draft + " ".join(text.split()))
    return replace(state, message="pasted text was ignored; c opens a comment")


def count_labels(given: Iterable[GivenLabel]) -> dict[str, int]:
    """Number of items by label."""
    counts = Counter(str(one.label) for one in given)
    return dict(sorted(counts.items()))


def _label(state: FormState, key: str) -> tuple[FormState, LabelChange | None]:
    assert state.item is not None
    label = _label_for_key(state.scale, key)
    if label is None:
        scale = state.scale
        wanted = "r for right or w for wrong" if scale is None else f"a number from {scale.low} to {scale.high}"
        return replace(state, message=f"press {wanted}"), None
    given = GivenLabel(label, state.comment)
    return _advance(_add_label(state, given), state, given), LabelChange(state.item.sample_id, given)


def _label_for_key(scale: LabelScale | None, key: str) -> str | int | None:
    if scale is None:
        return _LABELS.get(key)
    return int(key) if key.isdecimal() and int(key) in scale else None


def _add_label(state: FormState, given: GivenLabel) -> FormState:
    return replace(state, labels={**state.labels, state.position: given}, skipped=state.skipped - {state.position})


def _advance(state: FormState, before: FormState, given: GivenLabel | None) -> FormState:
    """The state at the next item, with an undo step back to ``before``."""
    step = UndoStep(before.position, before.comment, before.skipped, given)
    return _move_to(replace(state, steps=(*state.steps, step)), _next(state))


def _move_to(state: FormState, position: int, *, comment: str = "") -> FormState:
    return replace(state, position=position, comment=comment, draft="", scroll=0)


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
        position: one for position, one in state.labels.items() if position != step.position or step.given is None
    }
    previous = replace(state, labels=labels, skipped=step.skipped, steps=state.steps[:-1])
    if step.given is None:
        return _move_to(
            replace(previous, message="back to what was skipped"), step.position, comment=step.comment
        ), None
    sample_id = state.items[step.position].sample_id
    undone = replace(previous, message=f"taken back: {step.given.label}")
    return _move_to(undone, step.position, comment=step.comment), LabelChange(sample_id, step.given, is_removal=True)


def _press_at_end(state: FormState, key: str) -> FormState:
    if key == "s" and state.skipped:
        again = replace(state, skipped=frozenset())
        return _advance(again, state, None)
    return state


def _toggle_reference(state: FormState) -> FormState:
    if state.blind:
        return replace(state, message="this session is blind: references are not shown")
    assert state.item is not None
    if not state.item.references:
        return replace(state, message="this sample has no reference answer")
    return replace(state, reference_shown=not state.reference_shown)


def _type_comment(state: FormState, key: str) -> FormState:
    """Handle a key while a comment is typed."""
    if key == "enter":
        return replace(state, mode="form", comment=state.draft.strip(), draft="")
    if key == "escape":
        return replace(state, mode="form", draft="")
    if key == "backspace":
        return replace(state, draft=state.draft[:-1])
    if key == "ctrl-u":
        return replace(state, draft="")
    if key == "ctrl-w":
        return replace(state, draft=" ".join(state.draft.split()[:-1]))
    return replace(state, draft=state.draft + key) if len(key) == 1 and key.isprintable() else state


def _scroll(state: FormState, key: str) -> FormState:
    moves = {
        "down": 1,
        "j": 1,
        "enter": 1,
        "up": -1,
        "k": -1,
        "pagedown": state.page,
        " ": state.page,
        "f": state.page,
        "pageup": -state.page,
        "b": -state.page,
        "home": -state.scroll,
        "g": -state.scroll,
        "end": state.last_scroll,
        "G": state.last_scroll,
    }
    if key == "tab":
        following = [line for line in state.anchors if line > state.scroll]
        wanted = following[0] if following and state.scroll < state.last_scroll else 0
        return replace(state, scroll=min(wanted, state.last_scroll))
    if key not in moves:
        return replace(state, message=f"{key} does nothing here; ? tells what does") if len(key) == 1 else state
    return replace(state, scroll=max(0, min(state.last_scroll, state.scroll + moves[key])))
