"""The labelling form in a terminal: prints one answer as plain lines, and reads one line.

It needs no terminal, so that it works over pipes and with screen readers as well.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from ..errors import AueporaError, ConflictError, DataFileError
from ..io.jsonl import current_time
from ..io.labels import UNCLEAR, Label, LabelEvent, LabelJournal, LabelKey, Provenance, unclear_reason
from ..render.terminal import printable
from ..runtime.terminals import discard_typed_input
from .choices import LabelScale
from .draws import Selection
from .form import FormState, GivenLabel, LabelChange, count_labels, handle_line, restore_labels
from .items import ItemKey, LabelItem, ShownDocument

# --- the label file of a session: the labels of one annotator for one run or two, always up to date on disk -----------


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
        return [entry for entry in self._entries() if isinstance(entry, Label)]

    def labels_by_item(self, scale: LabelScale | None) -> dict[ItemKey, GivenLabel | None]:
        """The existing labels by item, ``None`` for a skip.

        Raises for labels that do not fit the scale, and for a file that takes no more labels.
        """
        found: dict[ItemKey, GivenLabel | None] = {}
        entries = self._entries()
        if self.journal.closed is not None:
            raise DataFileError(self.path, None, "labelling is closed; label a new draw into another file")
        for entry in entries:
            assert entry.key is not None
            run = "" if self.other_run is None else entry.key.run or ""
            label = None
            if isinstance(entry, Label):
                label = GivenLabel(self._check_value(entry, scale), entry.comment)
            elif entry.is_unclear:
                label = GivenLabel(UNCLEAR, entry.comment)
            found[entry.key.sample_id, run] = label
        return found

    def _entries(self) -> list[Label | LabelEvent]:
        """The existing labels and skips of this session, in order."""
        self.journal.refresh()
        entries = [entry for entry in self.journal.entries(self.annotator) if self._belongs_to_session(entry)]
        for entry in entries:
            if not isinstance(entry, Label):
                continue
            if (entry.provenance == "model") != (self.provenance == "model"):
                raise DataFileError(
                    self.path,
                    None,
                    f"{self.annotator!r} has labels of provenance {entry.provenance!r} in it, and this session would "
                    f"add {self.provenance!r}; name another --annotator, or label into another file",
                )
        return entries

    def apply(self, change: LabelChange) -> None:
        """Append a label, a skip, or the retraction of one; it is on disk on return."""
        at = self.clock()
        run = change.run or self.run
        key = LabelKey(
            change.sample_id,
            self.annotator,
            run=run,
            metric=self.metric,
            adjudicated=self.adjudicated,
            chosen=self.chosen,
        )
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
            annotator=self.annotator,
            run=change.run or self.run,
            metric=self.metric,
            provenance=self.provenance,
            adjudicated=self.adjudicated,
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
    documents = [document for document in item.evidence if document.rank is not None or not state.blind]
    retrieved = sum(document.rank is not None for document in documents)
    if not documents:
        yield "Nothing was retrieved."
    for document in documents:
        yield from _section(
            _document_heading(document, retrieved, state.blind), document.text or "(its text is not stored)"
        )
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
