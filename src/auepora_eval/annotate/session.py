"""A labelling session: items from the store, the form as a state machine, the label file, the form in a terminal.

The form needs no terminal, so that it works over pipes and with screen readers as well.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from ..core.conventions import Match
from ..core.slices import parse_slices, require_slice_values
from ..core.types import EvaluationSample, SystemOutputs
from ..errors import AueporaError, BadValueError, ConflictError, DataFileError
from ..io.jsonl import current_time
from ..io.labels import (
    RIGHT,
    UNCLEAR,
    WRONG,
    Label,
    LabelEvent,
    LabelJournal,
    LabelKey,
    Provenance,
    unclear_reason,
)
from ..judge.ratings import question_frames
from ..perturb.edits import hash_uniform
from ..render.terminal import printable
from ..report.browser.gold_marks import GoldMarks
from ..runtime.terminals import discard_typed_input
from ..store.records import plan_conventions
from ..store.runs import RunStore, iter_samples, packed_outputs
from .draws import SINGLE_STRATUM, Selection

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
    run: str = ""
    """The run of the answer, in a session over two runs."""

    @property
    def key(self) -> ItemKey:
        """What identifies the item in a session."""
        return self.sample_id, self.run


ItemKey = tuple[str, str]
"""Sample and run; the run is ``""`` in a session over one run."""


@dataclass(frozen=True, slots=True)
class Population:
    """The samples of a run with an answer, by stratum, and the number without one, by reason."""

    strata: Mapping[str, str]
    left_out: Mapping[str, int]


def load_population(store: RunStore, run_id: str, stratify: str | None = None) -> Population:
    """The population of a draw from this run: one answer per sample, the first of several repeats."""
    ids = store.sample_ids(run_id)
    reasons = {"no_output": len(ids), "failed": 0, "no_answer": 0}
    answered: list[int] = []
    for position, repeat, output in packed_outputs(store, store.get(run_id)):
        if repeat:
            break  # they are ordered by repeat
        reasons["no_output"] -= 1
        if output.error is not None:
            reasons["failed"] += 1
        elif output.answer is None:
            reasons["no_answer"] += 1
        else:
            answered.append(position)
    if not answered:
        why = ", ".join(f"{reason} {count}" for reason, count in reasons.items() if count) or "it has no samples"
        raise BadValueError(f"{run_id} has no answer to label: {why}")
    strata = dict.fromkeys((ids[position] for position in answered), SINGLE_STRATUM)
    if stratify is not None:
        (slice_,) = parse_slices([stratify])
        samples = list(iter_samples(store, run_id, texts=False, positions=frozenset(answered)))
        require_slice_values([slice_], samples)
        # A sample is drawn once, so a combination of several labels is its own stratum.
        strata = {sample.sample_id: ", ".join(slice_.groups(sample)) for sample in samples}
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
    match = plan_conventions(store.get(run_id)).match
    return tuple(
        build_item(samples[one], outputs[one], (previous_labels or {}).get(one, ()), match=match)
        for one in sample_ids
        if one in samples and one in outputs
    )


def answer_text(text: str, structured: Mapping[str, Any] | None) -> str:
    """The text of an answer; of a structured answer without text its values."""
    if text or structured is None:
        return text
    return json.dumps(structured, indent=2, ensure_ascii=False)


def read_pairs(
    store: RunStore, runs: tuple[str, str], sample_ids: Sequence[str], *, seed: int
) -> tuple[LabelItem, ...]:
    """The answers of two runs to these samples, one after the other, in a random order for each sample."""
    items = {
        (item.sample_id, run): replace(item, run=run) for run in runs for item in read_items(store, run, sample_ids)
    }
    return tuple(
        items[one, run]
        for one in sample_ids
        for run in (runs if hash_uniform(seed, "first answer", one) < 0.5 else runs[::-1])
        if (one, run) in items
    )


def build_item(
    sample: EvaluationSample,
    output: SystemOutputs,
    previous_labels: Iterable[PreviousLabel] = (),
    *,
    match: Match = "id",
) -> LabelItem:
    """The item of one sample and its output; ``match`` is the way in which the run matches gold."""
    gold = {doc.doc_id: doc for doc in sample.relevant_docs or ()}
    marks = GoldMarks(sample, match)
    documents = [hit.doc for hit in output.retrieved]
    by_id = gold.keys() if match == "id" else set()
    evidence = [
        ShownDocument(doc.doc_id, doc.text, rank, mark == "gold" or doc.doc_id in by_id)
        for rank, (doc, mark) in enumerate(zip(documents, marks.marks(documents), strict=True), start=1)
    ]
    shown_ids = marks.gold_ranks(documents).keys() | {one.doc_id for one in evidence if one.doc_id in by_id}
    evidence += [
        ShownDocument(doc.doc_id, doc.text, None, True) for doc in gold.values() if doc.doc_id not in shown_ids
    ]
    question = question_frames(sample)
    conversation = question["conversation"] if isinstance(question, Mapping) else ""
    response = output.response
    return LabelItem(
        sample.sample_id,
        sample.query,
        "" if response is None else answer_text(response.text, response.structured),
        tuple(evidence),
        tuple(sample.references),
        conversation,
        tuple(previous_labels),
    )


# --- the form as a state machine: a line of input gives a new state and a label to write -----------------------------

_LABELS = {"r": RIGHT, RIGHT: RIGHT, "w": WRONG, WRONG: WRONG}
UNCLEAR_KEY = "x"


@dataclass(frozen=True, slots=True)
class LabelScale:
    """The range of integer labels, each of one digit."""

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

    def grade(self, text: str) -> int | None:
        """The grade that a text names; ``None`` if it names none of this scale."""
        return int(text) if text.isdecimal() and int(text) in self else None


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """What an annotator can choose for an item, or on a scale for one answer of it."""

    name: str
    """The value that is sent."""
    key: str
    text: str


CHOICES = {
    "calibrate": (LabelChoice("right", "r", "Right"), LabelChoice("wrong", "w", "Wrong")),
    "compare": (
        LabelChoice("first", "1", "Only the first is right"),
        LabelChoice("second", "2", "Only the second is right"),
        LabelChoice("both", "3", "Both are right"),
        LabelChoice("neither", "4", "Both are wrong"),
    ),
    "drafts": (LabelChoice("accept", "y", "Accept"), LabelChoice("reject", "n", "Reject")),
}
"""The choices for an item by purpose, where there is no scale."""
CHOICE_LABELS: dict[str, tuple[str, ...]] = {
    "right": (RIGHT,),
    "wrong": (WRONG,),
    "first": (RIGHT, WRONG),
    "second": (WRONG, RIGHT),
    "both": (RIGHT, RIGHT),
    "neither": (WRONG, WRONG),
    "accept": (RIGHT,),
    "reject": (WRONG,),
}
"""The labels of the answers of an item, in the order shown, by choice."""
GRADE_TEXTS = {0: "not relevant", 1: "related", 2: "answers in part", 3: "answers the question"}
"""The meaning of the grades of a document."""


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
            "relevance": not self.blind and any(one.gold for one in item.evidence),
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
            after = _add_skip(current) if given is None else _add_label(current, given)
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
    counts = Counter(str(one.label) for one in given)
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
        return _advance(replace(_add_skip(state), message=message), state, None), change
    if not state.skipped:
        return replace(state, message="no answer was skipped"), None
    return _advance(replace(state, skipped=frozenset(), message="the skipped answers again"), state, None), None


def _add_skip(state: FormState) -> FormState:
    return replace(state, skipped=state.skipped | {state.position})


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
        position: one for position, one in state.labels.items() if position != step.position or step.given is None
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


# --- the label file of a session: the labels of one annotator for one run or two, always up to date on disk ----------


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
    clock: Callable[[], str] = current_time
    selections: Mapping[str, Selection] = field(default_factory=dict)
    """How samples were selected, by sample id."""
    other_run: str | None = None
    """The second run of a session over two runs."""
    chosen: bool = False
    """Whether a person picked the samples."""
    journal: LabelJournal = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", LabelJournal(self.path))

    @property
    def display_name(self) -> str:
        """The annotator, marked if it is a model."""
        return f"{self.annotator} (a model)" if self.provenance == "model" else self.annotator

    def labels(self) -> list[Label]:
        """The existing labels of this annotator for this run, in order."""
        return [one for one in self._entries() if isinstance(one, Label)]

    def labels_by_item(self, scale: LabelScale | None) -> dict[ItemKey, GivenLabel | None]:
        """The existing labels by item, ``None`` for a skip.

        Raises for labels that do not fit the scale, and for a file that takes no more labels.
        """
        found: dict[ItemKey, GivenLabel | None] = {}
        entries = self._entries()
        if self.journal.closed is not None:
            raise DataFileError(self.path, None, "labelling is closed; label a new draw into another file")
        for one in entries:
            assert one.key is not None
            run = "" if self.other_run is None else one.key.run or ""
            label = None
            if isinstance(one, Label):
                label = GivenLabel(self._check_value(one, scale), one.comment)
            elif one.is_unclear:
                label = GivenLabel(UNCLEAR, one.comment)
            found[one.key.sample_id, run] = label
        return found

    def _entries(self) -> list[Label | LabelEvent]:
        """The existing labels and skips of this session, in order."""
        self.journal.refresh()
        entries = [one for one in self.journal.entries(self.annotator) if self._belongs_to_session(one)]
        for one in entries:
            if not isinstance(one, Label):
                continue
            if (one.provenance == "model") != (self.provenance == "model"):
                raise DataFileError(
                    self.path,
                    None,
                    f"{self.annotator!r} has labels of provenance {one.provenance!r} in it, and this session would add "
                    f"{self.provenance!r}; name another --annotator, or label into another file",
                )
        return entries

    def apply(self, change: LabelChange) -> None:
        """Append a label, a skip, or the retraction of one; it is on disk on return."""
        at = self.clock()
        run = change.run or self.run
        key = LabelKey(change.sample_id, self.annotator, run, self.metric, self.adjudicated, self.chosen)
        if change.is_removal:
            # The skip of an answer that was labelled later is not in force any more.
            if change.given is not None or isinstance(self.journal.find(key), LabelEvent):
                self.journal.append(LabelEvent("retract", key, at=at))
        elif change.given is None:
            self.journal.append(LabelEvent("skip", key, reason=change.reason, at=at))
        elif change.given.label == UNCLEAR:
            self.journal.append(LabelEvent("skip", key, reason=unclear_reason(change.given.comment), at=at))
        else:
            self.journal.append(self._label(change, change.given, at))

    def _label(self, change: LabelChange, given: GivenLabel, at: str) -> Label:
        selection = self.selections.get(change.sample_id, Selection())
        return Label(
            change.sample_id,
            given.label,
            self.annotator,
            change.run or self.run,
            self.metric,
            self.provenance,
            self.adjudicated,
            tuning=self.tuning,
            comment=given.comment,
            at=at,
            draw=selection.draw,
            probability=selection.probability,
            position=selection.position,
            shown=change.shown,
            chosen=self.chosen,
        )

    def _belongs_to_session(self, entry: Label | LabelEvent) -> bool:
        key = entry.key
        if key is None or key.run not in (self.run, self.other_run or self.run):
            return False
        return (key.metric, key.adjudicated, key.chosen, key.doc_id) == (
            self.metric,
            self.adjudicated,
            self.chosen,
            None,
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


def save_line(state: FormState, label_file: LabelFile, line: str) -> FormState:
    """The state after one line of input, with the label file updated; unchanged if writing failed."""
    next_state, change = handle_line(state, line)
    try:
        if change is not None:
            label_file.apply(change)
        return next_state
    except ConflictError as error:  # the annotator labels in a browser as well
        known = restore_labels(
            replace(state, labels={}, skipped=frozenset(), steps=()), label_file.labels_by_item(state.scale)
        )
        place = known.position if state.position in known.labels else state.position
        comment = "" if state.position in known.labels else state.comment
        return replace(known, position=place, comment=comment, message=f"not saved: {error}")
    except AueporaError as error:
        return replace(state, message=f"not saved: {error}")


# --- the form in a terminal: prints one answer as plain lines, reads one line ----------------------------------------

_HELP = """\
Type one of these and press Enter:
  r, w      the answer is right, is wrong
  0 to 9    a grade, where the session has a scale
  x         cannot tell: saved, and counts as a missing label
  s REASON  skip: the reason is saved, if there is one, and the answer comes again at the end
  u         undo: back to the answer before, whose label is taken back
  c TEXT    a comment, saved with the label that follows; c alone removes it
  a         show or hide the reference answer
  q         quit; every label is saved already
  ?         this help
An empty line shows the answer again."""

_LINE_ENDS = str.maketrans({"\u2028": "\n", "\u2029": "\n", "\t": "    "})


def run_form(state: FormState, label_file: LabelFile, *, lines: Iterator[str], title: str = "") -> FormState:
    """Run the form until the annotator leaves or the input ends; each label is on disk before the next answer."""
    shown: tuple[int, bool] | None = None
    while not state.is_over:
        if shown != (state.position, state.reference_shown):
            click.echo("\n".join(render_state(state, title=title)))
            discard_typed_input()
            shown = state.position, state.reference_shown
        click.echo("> ", nl=False)
        line = next(lines, None)
        if line is None:
            click.echo()
            break
        if not line.strip():
            shown = None
        elif line.strip() == "?":
            click.echo(_HELP)
        else:
            state = save_line(state, label_file, line)
            if state.message:
                click.echo(one_line(state.message))
    return state


def read_input_lines() -> Iterator[str]:
    """The lines of stdin, one at a time; none if it is closed. Bytes that are no text are replaced."""
    if sys.stdin is None:
        return iter(())
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return iter(sys.stdin.readline, "")


# --- an answer as lines of text; the texts of data and models never begin a line -------------------------------------


def render_state(state: FormState, *, title: str = "") -> list[str]:
    """The lines for the current answer with its rubric, or for the end of the session."""
    n, item = len(state.items), state.item
    progress = [f"{min(state.position + 1, n)} of {n}", f"{len(state.labels)} labelled"]
    if state.skipped:
        progress.append(f"{len(state.skipped)} skipped")
    head = ["", f"--- {', '.join([*progress, *([one_line(title)] if title else [])])}"]
    if item is None:
        return [*head, *_end(state)]
    keys = ["s skip", "u undo", "c TEXT comment", *([] if state.blind else ["a reference"]), "q quit", "? help"]
    return [*head, *_item(state, item), "", rubric(state.scale), f"  {', '.join(keys)}"]


def rubric(scale: LabelScale | None) -> str:
    """The labels that can be given, with their meaning."""
    if scale is None:
        return "Is the answer right? r = right, w = wrong, x = cannot tell"
    between = "".join(f", {grade}" for grade in range(scale.low + 1, scale.high))
    return f"How good is the answer? {scale.low} = worst{between}, {scale.high} = best, x = cannot tell"


def _item(state: FormState, item: LabelItem) -> Iterator[str]:
    """Documents first, so that question and answer are next to the prompt."""
    documents = [one for one in item.evidence if one.rank is not None or not state.blind]
    retrieved = sum(one.rank is not None for one in documents)
    if not documents:
        yield "Nothing was retrieved."
    for one in documents:
        yield from _section(_document_heading(one, retrieved, state.blind), one.text or "(its text is not stored)")
    if item.conversation:
        yield from _section("Before", item.conversation)
    yield from _section("Question", item.question)
    yield from _section("Answer", item.answer or "(empty)")
    for previous in item.previous_labels:
        comment = f": {previous.comment}" if previous.comment else ""
        yield from _section(f"Label of {previous.annotator}", f"{previous.label}{comment}")
    if item.references and not state.blind:
        if state.reference_shown:
            for number, reference in enumerate(item.references, start=1):
                count = f" {number} of {len(item.references)}" if len(item.references) > 1 else ""
                yield from _section(f"Reference{count}", reference)
        else:
            yield "Reference: a shows it"


def _document_heading(document: ShownDocument, retrieved: int, blind: bool) -> str:
    if document.rank is None:
        return f"Relevant, not retrieved: {document.doc_id}"
    if blind:
        return f"Document {document.rank} of {retrieved}"
    relevant = "  * relevant" if document.gold else ""
    return f"Document {document.rank} of {retrieved}: {document.doc_id}{relevant}"


def _section(head: str, text: str) -> Iterator[str]:
    yield one_line(head)
    for line in _lines(text):
        yield f"  | {line}".rstrip()


def _end(state: FormState) -> Iterable[str]:
    counts = ", ".join(f"{count} {label}" for label, count in count_labels(state.labels.values()).items())
    yield f"All answers have been shown. {len(state.labels)} labelled{counts and f': {counts}'}."
    if state.skipped:
        n = len(state.skipped)
        yield f"{n} {'was' if n == 1 else 'were'} skipped; s shows {'it' if n == 1 else 'them'} again."
    yield "Every label is saved. u undoes the last one, q quits."


def one_line(text: str) -> str:
    """The text on one line, safe to print."""
    return " ".join(_lines(text))


def _lines(text: str) -> list[str]:
    """The lines of a text, safe to print."""
    return printable(text.replace("\r\n", "\n").translate(_LINE_ENDS)).split("\n")
