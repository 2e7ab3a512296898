"""The labelling form of one annotator: what a line of input does to the queue and to what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import AueporaError, DataFileError, UnknownBatchError
from ..io.labels import UNCLEAR, Label, LabelEvent, LabelJournal, unclear_reason
from .agreement import format_label
from .batch import LabelBatch
from .batch_items import BatchItem
from .choices import UNCLEAR_KEY, LabelScale
from .items import PreviousLabel
from .queue import LabelQueue, Submission

_HIDDEN_PARTS = ("reference",)
"""What is not shown of an item until the annotator asks for it."""


@dataclass(slots=True)
class LabelForm:
    """What an annotator sees of a queue of single answers, and what they have typed so far."""

    queue: LabelQueue
    annotator: str
    previous: Mapping[str, Sequence[PreviousLabel]] = field(default_factory=dict)
    """The labels of others by sample id, which an adjudicator sees."""
    item: BatchItem | None = None
    """The shown item; ``None`` at the end."""
    comment: str = ""
    """The comment to save with the label of this item."""
    reference_shown: bool = False
    reference_seen: bool = False
    """Whether the reference of this item has been shown, even if it is hidden again."""
    skipped_again: Collection[int] = ()
    """The skipped items that are shown again."""
    is_over: bool = False
    """Whether the annotator has left."""
    message: str = ""
    """The effect of the last line."""

    def __post_init__(self) -> None:
        self._show(self._next_number())

    @property
    def batch(self) -> LabelBatch:
        """What is labelled."""
        return self.queue.batch

    @property
    def number(self) -> int | None:
        """The number of the shown item; ``None`` at the end."""
        return None if self.item is None else self.item.number

    def previous_labels(self, item: BatchItem) -> Sequence[PreviousLabel]:
        """The labels of others for an item."""
        return self.previous.get(self.batch.items[item.number - 1].sample_id, ())

    def handle_line(self, line: str) -> None:
        """Do what a line of input says; ``message`` has the effect. What is saved is on disk on return."""
        command, _, text = line.strip().partition(" ")
        words = " ".join(text.split())
        try:
            if command == "q" and not text:
                self.is_over, self.message = True, ""
            elif command == "u" and not text:
                self._undo()
            elif self.item is not None:
                self._handle_item_line(self.item, command, words, line.strip())
            elif command == "s" and not text:
                self._show_skipped()
            else:
                self._refuse(line.strip(), "q to quit or u to undo")
        except UnknownBatchError:  # the next item cannot be shown; what was typed is saved
            raise
        except AueporaError as error:
            self.message = f"not saved: {error}"

    def _handle_item_line(self, item: BatchItem, command: str, words: str, line: str) -> None:
        if command == "c":
            self.comment = words
            self.message = f"comment for the next label: {words}" if words else "no comment for the next label"
        elif command == "s":
            self._skip(item, words, f"skipped: {words}" if words else "skipped")
        elif command == "a" and not words:
            self._toggle_reference(item)
        elif command == UNCLEAR_KEY and not words:
            self._save(item, UNCLEAR)
        else:
            choices = self.batch.choices
            values = [choice.name for choice in choices if line in (choice.key, choice.name)]
            if values:
                self._save(item, values[0])
            elif self.batch.scale is None:
                self._refuse(line, " or ".join(f"{choice.key} for {choice.name}" for choice in choices))
            else:
                self._refuse(line, f"a grade from {choices[0].name} to {choices[-1].name}")

    def _refuse(self, line: str, expected: str) -> None:
        self.message = f"{line!r} was not understood; type {expected}, or ? for help"

    def _save(self, item: BatchItem, value: str) -> None:
        other = self._label_of_equal_answer(item)
        if other not in (None, value):
            self.message = f"not saved: the other answer has the same text and the label {other}"
            return
        message = f"saved: {_with_comment(value, self.comment)}"
        if value == UNCLEAR:
            self._skip(item, unclear_reason(self.comment), message)
            return
        saved = self.queue.submit(
            self.annotator,
            item.number,
            [value],
            comment=self.comment,
            submission="",
            hidden=() if self.reference_seen else _HIDDEN_PARTS,
        )
        self._advance(saved, message)

    def _skip(self, item: BatchItem, reason: str, message: str) -> None:
        self._advance(self.queue.skip(self.annotator, item.number, reason, submission=""), message)

    def _advance(self, saved: Submission, message: str) -> None:
        """Show the next item; where the annotator has labelled the item in a browser as well, say so."""
        is_conflict = saved.outcome == "conflict"
        self.message = f"not saved: {saved.message}" if is_conflict else message
        if is_conflict and saved.number not in self.queue.own_entries(self.annotator):
            return
        self.skipped_again = [number for number in self.skipped_again if number != saved.number]
        self._show(self._next_number())

    def _next_number(self) -> int | None:
        number = self.queue.next(self.annotator)
        return next(iter(self.skipped_again), None) if number is None else number

    def _show(self, number: int | None) -> None:
        self.item = None if number is None else self.queue.item(number)
        self.comment, self.reference_seen = "", self.reference_shown

    def _show_skipped(self) -> None:
        self.skipped_again = self.queue.skipped_items(self.annotator)
        self.message = "the skipped answers again" if self.skipped_again else "no answer was skipped"
        self._show(self._next_number())

    def _undo(self) -> None:
        given = list(self.queue.own_entries(self.annotator).values())
        number = self.queue.undo(self.annotator, submission="")
        if number is None:
            self.message = "there is nothing to undo"
            return
        self._show(number)
        label, self.comment = label_text(given[-1]), given[-1].comment
        self.message = f"taken back: {_with_comment(label, self.comment)}" if label else "the skip is undone"

    def _toggle_reference(self, item: BatchItem) -> None:
        if self.batch.blind:
            self.message = "this session is blind: references are not shown"
        elif not item.references:
            self.message = "this sample has no reference answer"
        else:
            self.message = "reference hidden" if self.reference_shown else "reference shown"
            self.reference_shown, self.reference_seen = not self.reference_shown, True

    def _label_of_equal_answer(self, item: BatchItem) -> str | None:
        """The label of the other run's answer to the same question, if it has the same text."""
        sample_id = self.batch.items[item.number - 1].sample_id
        for number, entry in self.queue.own_entries(self.annotator).items():
            if self.batch.items[number - 1].sample_id == sample_id and number != item.number:
                (other,) = self.queue.item(number).answers
                if other.text.strip() == item.answers[0].text.strip():
                    return label_text(entry) or None
        return None


def label_text(entry: Label | LabelEvent) -> str:
    """What an annotator has said about an answer; empty for a skip."""
    if isinstance(entry, Label):
        return format_label(entry)
    return UNCLEAR if entry.is_unclear else ""


def count_labels(entries: Iterable[Label | LabelEvent]) -> dict[str, int]:
    """Number of answers by label; skips are left out."""
    counts = Counter(label_text(entry) for entry in entries)
    return {label: counts[label] for label in sorted(counts) if label}


def _with_comment(label: str, comment: str) -> str:
    return f"{label}, with the comment: {comment}" if comment else label


def check_label_file(batch: LabelBatch, annotator: str) -> None:
    """Raise unless the file of a session takes labels, and those of the annotator in it are of the same kind."""
    journal = LabelJournal(batch.journal)
    journal.refresh()
    if journal.closed is not None:
        raise DataFileError(journal.path, None, "labelling is closed; label a new draw into another file")
    of_session = (batch.metric, batch.adjudicates, batch.is_chosen, None)
    for label in journal.labels:
        key = label.key
        is_own = key.annotator == annotator and key.run in batch.runs
        if is_own and (key.metric, key.adjudicated, key.chosen, key.doc_id) == of_session:
            problem = _kind_problem(label, batch)
            if problem is not None:
                raise DataFileError(journal.path, None, f"{annotator!r} {problem}, or label into another file")


def _kind_problem(label: Label, batch: LabelBatch) -> str | None:
    """Why a label is not of the kind that a session gives; ``None`` if it is."""
    if (label.provenance == "model") != (batch.provenance == "model"):
        given, added = repr(label.provenance), repr(batch.provenance)
        return f"has labels of provenance {given} in it, and this session would add {added}; name another --annotator"
    scale = None if batch.scale is None else LabelScale.of(batch.scale)
    is_word = isinstance(label.label, str | bool)
    if is_word if scale is None else not is_word and label.value in scale:
        return None
    expected = "right or wrong" if scale is None else f"numbers from {scale.low} to {scale.high}"
    labelled = f"labelled sample {label.sample_id!r} with {format_label(label)}"
    return f"{labelled}, and this session expects {expected}; use the same --scale"
