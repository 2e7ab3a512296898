"""A labelling session: items from the store, the form as a state machine, and the label file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..core.slices import parse_slices, require_slice_values
from ..errors import BadValueError, DataFileError
from ..features.hits import gold_documents, gold_ranks
from ..io.labels import RIGHT, WRONG, Label, Provenance, append_label, read_labels, remove_label
from ..judge.ratings import question_frames
from .draws import SINGLE_STRATUM

if TYPE_CHECKING:
    from ..core.types import EvaluationSample, SystemOutputs
    from ..store.runs import RunStore

# --- items to label: question, answer and retrieved documents of a sample, read from the store -----------------------


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A retrieved document, or a relevant one that was not retrieved."""

    doc_id: str
    text: str
    rank: int | None
    """``None`` for a relevant document that was not retrieved."""
    gold: bool


@dataclass(frozen=True, slots=True)
class PreviousLabel:
    """An earlier annotator's label, shown for adjudication."""

    annotator: str
    label: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class LabelItem:
    """One answer to label."""

    sample_id: str
    question: str
    answer: str
    evidence: tuple[ShownDocument, ...] = ()
    references: tuple[str, ...] = ()
    conversation: str = ""
    """The turns before the question."""
    previous_labels: tuple[PreviousLabel, ...] = ()


@dataclass(frozen=True, slots=True)
class Population:
    """The samples of a run with an answer, by stratum, and the number without one, by reason."""

    strata: Mapping[str, str]
    left_out: Mapping[str, int]


def load_population(store: RunStore, run_id: str, stratify: str | None = None) -> Population:
    """The population of a draw from this run: one answer per sample, the first of several repeats."""
    samples = store.samples(run_id, texts=False)
    reasons = {"no_output": len(samples), "failed": 0, "no_answer": 0}
    answered: list[EvaluationSample] = []
    for row in store.outputs(run_id, repeat=0, texts=False):
        reasons["no_output"] -= 1
        if row.output.error is not None:
            reasons["failed"] += 1
        elif row.output.response is None:
            reasons["no_answer"] += 1
        else:
            answered.append(samples[row.position])
    if not answered:
        why = ", ".join(f"{reason} {count}" for reason, count in reasons.items() if count) or "it has no samples"
        raise BadValueError(f"{run_id} has no answer to label: {why}")
    strata = dict.fromkeys((sample.sample_id for sample in answered), SINGLE_STRATUM)
    if stratify is not None:
        (slice_,) = parse_slices([stratify])
        require_slice_values([slice_], answered)
        # A sample is drawn once, so a combination of several labels is its own stratum.
        strata = {sample.sample_id: ", ".join(slice_.groups(sample)) for sample in answered}
    return Population(strata, {reason: count for reason, count in reasons.items() if count})


def read_items(
    store: RunStore,
    run_id: str,
    sample_ids: Sequence[str],
    previous_labels: Mapping[str, Iterable[PreviousLabel]] | None = None,
) -> tuple[LabelItem, ...]:
    """The items of these samples, in order."""
    wanted_ids = dict.fromkeys(sample_ids)
    samples = {sample.sample_id: sample for sample in store.samples(run_id) if sample.sample_id in wanted_ids}
    outputs = {row.sample_id: row.output for row in store.outputs(run_id, repeat=0) if row.sample_id in wanted_ids}
    return tuple(
        build_item(samples[one], outputs[one], (previous_labels or {}).get(one, ()))
        for one in sample_ids
        if one in samples and one in outputs
    )


def build_item(
    sample: EvaluationSample, output: SystemOutputs, previous_labels: Iterable[PreviousLabel] = ()
) -> LabelItem:
    """The item of one sample and its output."""
    gold = {doc.doc_id: doc for doc in sample.relevant_docs or ()}
    golds = gold_documents(sample)
    ranks = gold_ranks(golds, [hit.doc for hit in output.retrieved])
    by_span = {rank.rank: one.doc_id for one, rank in zip(golds, ranks, strict=True) if rank.by == "span"}
    evidence = [
        ShownDocument(hit.doc.doc_id, hit.doc.text, rank, hit.doc.doc_id in gold or rank in by_span)
        for rank, hit in enumerate(output.retrieved, start=1)
    ]
    shown_ids = {one.doc_id for one in evidence} | {*by_span.values()}
    evidence += [
        ShownDocument(doc.doc_id, doc.text, None, True) for doc in gold.values() if doc.doc_id not in shown_ids
    ]
    question = question_frames(sample)
    conversation = question["conversation"] if isinstance(question, Mapping) else ""
    answer = "" if output.response is None else output.response.text
    if not answer and output.response is not None and output.response.structured is not None:
        import json

        answer = json.dumps(output.response.structured, indent=2, ensure_ascii=False)
    return LabelItem(
        sample.sample_id,
        sample.query,
        answer,
        tuple(evidence),
        tuple(sample.references),
        conversation,
        tuple(previous_labels),
    )


# --- the form as a state machine: a key gives a new state and a label to write ---------------------------------------

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


# --- the label file of a session: the labels of one annotator for one run, always up to date on disk -----------------


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class LabelFile:
    """The file of a session's labels, and the fields that all of them share."""

    path: Path
    annotator: str
    run: str
    metric: str | None = None
    adjudicated: bool = False
    tuning: bool = False
    provenance: Provenance = "human"
    clock: Callable[[], str] = _now

    @property
    def display_name(self) -> str:
        """The annotator, marked if it is a model."""
        return f"{self.annotator} (a model)" if self.provenance == "model" else self.annotator

    def labels(self) -> list[Label]:
        """The existing labels of this annotator for this run, in order."""
        if not self.path.exists():
            return []
        own_labels = [one for one in read_labels(self.path) if self._belongs_to_session(one)]
        for one in own_labels:
            if (one.provenance == "model") != (self.provenance == "model"):
                raise DataFileError(
                    self.path,
                    None,
                    f"{self.annotator!r} has labels of provenance {one.provenance!r} in it, and this session would add "
                    f"{self.provenance!r}; name another --annotator, or label into another file",
                )
        return own_labels

    def labels_by_sample(self, scale: LabelScale | None) -> dict[str, GivenLabel]:
        """The existing labels by sample; raises for labels that do not fit the scale."""
        return {one.sample_id: GivenLabel(self._check_value(one, scale), one.comment) for one in self.labels()}

    def apply(self, change: LabelChange) -> None:
        """Write or remove a label; it is on disk on return."""
        label = self._label(change.sample_id, change.given)
        if change.is_removal:
            remove_label(self.path, label.key)
        else:
            append_label(self.path, label)

    def _label(self, sample_id: str, given: GivenLabel) -> Label:
        return Label(
            sample_id,
            given.label,
            self.annotator,
            self.run,
            self.metric,
            self.provenance,
            self.adjudicated,
            tuning=self.tuning,
            comment=given.comment,
            at=self.clock(),
        )

    def _belongs_to_session(self, label: Label) -> bool:
        return (label.annotator, label.run, label.metric, label.adjudicated) == (
            self.annotator,
            self.run,
            self.metric,
            self.adjudicated,
        )

    def _check_value(self, label: Label, scale: LabelScale | None) -> str | int:
        value = label.label
        if isinstance(value, bool):
            value = "right" if value else "wrong"
        if scale is None and isinstance(value, str):
            return value
        if scale is not None and not isinstance(value, str) and value in scale:
            return int(value)
        expected = "right or wrong" if scale is None else f"numbers from {scale.low} to {scale.high}"
        raise DataFileError(
            self.path,
            None,
            f"{self.annotator!r} labelled sample {label.sample_id!r} with {value}, and this session expects "
            f"{expected}; use the same --scale, or label into another file",
        )
