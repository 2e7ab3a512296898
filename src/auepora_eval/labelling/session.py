"""The form as a state machine: a key makes a new state, and says what is to be written. It knows no terminal."""

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
    """The whole numbers an answer may get, each of which is one key."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 9:
            raise BadValueError(f"a scale goes from one digit to a higher one, such as 1-5, not {self}")

    @classmethod
    def of(cls, text: str) -> LabelScale:
        """The scale that is written ``1-5``."""
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
    """What was said about one item."""

    label: str | int
    comment: str = ""


@dataclass(frozen=True, slots=True)
class UndoStep:
    """What can be undone: where the form stood before, and what was said there (nothing, where it was passed over)."""

    place: int
    comment: str
    skipped: frozenset[int]
    given: GivenLabel | None


@dataclass(frozen=True, slots=True)
class LabelChange:
    """What the file of labels has to follow: a label that is new, or one that is taken back."""

    sample_id: str
    given: GivenLabel
    is_removal: bool = False


@dataclass(frozen=True, slots=True)
class FormState:
    """All that a session is at one moment."""

    items: tuple[LabelItem, ...]
    scale: LabelScale | None = None
    place: int = 0
    """Which item is shown; one past the last when all are done."""
    given: Mapping[int, GivenLabel] = field(default_factory=dict)
    skipped: frozenset[int] = frozenset()
    steps: tuple[UndoStep, ...] = ()
    comment: str = ""
    """What will be written with the label of this item."""
    draft: str = ""
    """The comment while it is typed."""
    mode: Mode = "form"
    reference_shown: bool = False
    blind: bool = False
    scroll: int = 0
    page: int = 10
    last_scroll: int = 0
    anchors: tuple[int, ...] = ()
    """Lines at which documents begin."""
    message: str = ""

    @property
    def item(self) -> LabelItem | None:
        """What is shown; ``None`` at the end."""
        return self.items[self.place] if self.place < len(self.items) else None

    @property
    def is_over(self) -> bool:
        """Whether the annotator has left."""
        return self.mode == "over"


def new_form(
    items: Sequence[LabelItem], *, scale: LabelScale | None = None, blind: bool = False, reference_shown: bool = False
) -> FormState:
    """A session in which nothing has been said."""
    return FormState(tuple(items), scale, blind=blind, reference_shown=reference_shown and not blind)


def restore_labels(state: FormState, said: Mapping[str, GivenLabel]) -> FormState:
    """The session as it was left: what was said in it, in that order, by sample id. It can be undone as before."""
    places = {item.sample_id: place for place, item in enumerate(state.items)}
    for sample_id, given in said.items():
        if sample_id in places:
            here = replace(state, place=places[sample_id], comment=given.comment)
            state = _on(_with(here, given), here, given)
    return replace(state, message="")


def with_layout(state: FormState, *, scroll: int, page: int, last_scroll: int, anchors: tuple[int, ...]) -> FormState:
    """The state after it was shown: how far one can scroll depends on the size of the screen."""
    return replace(state, scroll=scroll, page=max(1, page), last_scroll=last_scroll, anchors=anchors)


def press(state: FormState, key: str) -> tuple[FormState, LabelChange | None]:
    """What a key does: the new state, and what has to be written."""
    if state.mode == "comment":
        return _typed(state, key), None
    if state.mode == "help":
        moved = _scrolled(state, key)
        return (moved if moved.scroll != state.scroll else replace(state, mode="form", scroll=0)), None
    state = replace(state, message="")
    if key in ("q", "ctrl-d"):
        return replace(state, mode="over"), None
    if key in ("?", "h", "f1"):
        return replace(state, mode="help", scroll=0), None
    if key in ("u", "backspace"):
        return _undone(state)
    if state.item is None:
        return _at_the_end(state, key), None
    if key in _LABELS or (len(key) == 1 and key in "0123456789"):
        return _labelled(state, key)
    if key == "s":
        skipped = replace(state, skipped=state.skipped | {state.place})
        return _on(skipped, state, None), None
    if key == "c":
        return replace(state, mode="comment", draft=state.comment), None
    if key == "a":
        return _reference(state), None
    return _scrolled(state, key), None


def set_comment(state: FormState, text: str) -> FormState:
    """The state with a comment that came in one piece; an empty one takes it away."""
    comment = " ".join(text.split())
    return replace(state, comment=comment, message=f"comment: {comment}" if comment else "no comment")


def paste(state: FormState, text: str) -> FormState:
    """What a paste does: it belongs to a comment, and is never taken for keys."""
    if state.mode == "comment":
        return replace(state, draft=state.draft + " ".join(text.split()))
    return replace(state, message="pasted text was ignored; c opens a comment")


def count_labels(given: Iterable[GivenLabel]) -> dict[str, int]:
    """How often each label was given."""
    counts = Counter(str(one.label) for one in given)
    return dict(sorted(counts.items()))


def _labelled(state: FormState, key: str) -> tuple[FormState, LabelChange | None]:
    assert state.item is not None
    label = _label_of(state.scale, key)
    if label is None:
        scale = state.scale
        wanted = "r for right or w for wrong" if scale is None else f"a number from {scale.low} to {scale.high}"
        return replace(state, message=f"press {wanted}"), None
    given = GivenLabel(label, state.comment)
    return _on(_with(state, given), state, given), LabelChange(state.item.sample_id, given)


def _label_of(scale: LabelScale | None, key: str) -> str | int | None:
    if scale is None:
        return _LABELS.get(key)
    return int(key) if key.isdecimal() and int(key) in scale else None


def _with(state: FormState, given: GivenLabel) -> FormState:
    return replace(state, given={**state.given, state.place: given}, skipped=state.skipped - {state.place})


def _on(state: FormState, before: FormState, given: GivenLabel | None) -> FormState:
    """The next item, with a step that leads back to ``before``."""
    step = UndoStep(before.place, before.comment, before.skipped, given)
    return _at(replace(state, steps=(*state.steps, step)), _next(state))


def _at(state: FormState, place: int, *, comment: str = "") -> FormState:
    return replace(state, place=place, comment=comment, draft="", scroll=0)


def _next(state: FormState) -> int:
    """The next item about which nothing was said; past the end those before it, and then the end."""
    n = len(state.items)
    for place in chain(range(state.place + 1, n), range(min(state.place + 1, n))):
        if place not in state.given and place not in state.skipped:
            return place
    return n


def _undone(state: FormState) -> tuple[FormState, LabelChange | None]:
    if not state.steps:
        return replace(state, message="there is nothing to undo"), None
    step = state.steps[-1]
    given = {place: one for place, one in state.given.items() if place != step.place or step.given is None}
    back = replace(state, given=given, skipped=step.skipped, steps=state.steps[:-1])
    if step.given is None:
        return _at(replace(back, message="back to what was skipped"), step.place, comment=step.comment), None
    sample_id = state.items[step.place].sample_id
    told = replace(back, message=f"taken back: {step.given.label}")
    return _at(told, step.place, comment=step.comment), LabelChange(sample_id, step.given, is_removal=True)


def _at_the_end(state: FormState, key: str) -> FormState:
    if key == "s" and state.skipped:
        again = replace(state, skipped=frozenset())
        return _on(again, state, None)
    return state


def _reference(state: FormState) -> FormState:
    if state.blind:
        return replace(state, message="this session is blind: references are not shown")
    assert state.item is not None
    if not state.item.references:
        return replace(state, message="this sample has no reference answer")
    return replace(state, reference_shown=not state.reference_shown)


def _typed(state: FormState, key: str) -> FormState:
    """A comment, letter by letter."""
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


def _scrolled(state: FormState, key: str) -> FormState:
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
