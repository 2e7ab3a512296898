"""The labelling form in a terminal: prints one answer as plain lines, and reads one line.

It needs no terminal, so that it works over pipes and with screen readers as well.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from ..errors import AueporaError, ConflictError
from ..render.terminal import printable
from ..runtime.terminals import discard_typed_input
from .choices import LabelScale
from .form import FormState, count_labels, handle_line, restore_labels
from .items import LabelItem, ShownDocument
from .label_file import LabelFile


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
