"""The labelling form in a terminal: prints one answer as plain lines, and reads one line.

It needs no terminal, so that it works over pipes and with screen readers as well.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping

import click

from ..render.terminal import printable
from ..runtime.terminals import discard_typed_input
from .batch import LabelBatch
from .batch_items import BatchItem
from .form import LabelForm, count_labels
from .items import ShownDocument

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


def run_form(form: LabelForm, *, lines: Iterator[str], title: str = "") -> None:
    """Run the form until the annotator leaves or the input ends; each label is on disk before the next answer."""
    shown: tuple[int | None, bool] | None = None
    while not form.is_over:
        current = form.number, form.reference_shown
        if shown != current:
            click.echo("\n".join(render_form(form, title=title)))
            discard_typed_input()
            shown = current
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
            form.handle_line(line)
            if form.message:
                click.echo(one_line(form.message))


def read_input_lines() -> Iterator[str]:
    """The lines of stdin, one at a time; none if it is closed. Bytes that are no text are replaced."""
    if sys.stdin is None:
        return iter(())
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return iter(sys.stdin.readline, "")


# --- an answer as lines of text; the texts of data and models never begin a line -------------------------------------


def render_form(form: LabelForm, *, title: str = "") -> list[str]:
    """The lines for the current answer with its rubric, or for the end of the session."""
    n, item = len(form.batch.items), form.item
    given = form.queue.own_entries(form.annotator).values()
    counts = count_labels(given)
    labelled = sum(counts.values())
    skipped = len(given) - labelled
    progress = [f"{n if item is None else item.number} of {n}", f"{labelled} labelled"]
    if skipped:
        progress.append(f"{skipped} skipped")
    if title:
        progress.append(one_line(title))
    head = ["", f"--- {', '.join(progress)}"]
    if item is None:
        return [*head, f"All answers have been shown. {labelled} labelled{describe_counts(counts)}.", *_end(skipped)]
    reference_key = [] if form.batch.blind else ["a reference"]
    keys = ["s skip", "u undo", "c TEXT comment", *reference_key, "q quit", "? help"]
    return [*head, *_item(form, item), "", rubric(form.batch), f"  {', '.join(keys)}"]


def describe_counts(counts: Mapping[str, int]) -> str:
    """How many answers have which label: ``: 2 right, 3 wrong``; empty if there is none."""
    listed = ", ".join(f"{count} {label}" for label, count in counts.items())
    return f": {listed}" if listed else ""


def rubric(batch: LabelBatch) -> str:
    """The question with the labels that can be given, and their meaning."""
    labels = [choice.text.replace(": ", " = ") for choice in batch.choices]
    if batch.scale is None:
        labels = [f"{choice.key} = {choice.name}" for choice in batch.choices]
    return f"{batch.question} {', '.join(labels)}, x = cannot tell"


def _item(form: LabelForm, item: BatchItem) -> Iterator[str]:
    """Documents first, so that question and answer are next to the prompt."""
    (answer,) = item.answers
    retrieved = sum(document.rank is not None for document in answer.documents)
    if not answer.documents:
        yield "Nothing was retrieved."
    for document in answer.documents:
        yield from _section(_document_heading(document, retrieved), document.text or "(its text is not stored)")
    if item.conversation:
        yield from _section("Before", item.conversation)
    yield from _section("Question", item.question)
    yield from _section("Answer", answer.text or "(empty)")
    for previous in form.previous_labels(item):
        comment = f": {previous.comment}" if previous.comment else ""
        yield from _section(f"Label of {previous.annotator}", f"{previous.label}{comment}")
    if item.references and not form.reference_shown:
        yield "Reference: a shows it"
        return
    for number, reference in enumerate(item.references, start=1):
        count = f" {number} of {len(item.references)}" if len(item.references) > 1 else ""
        yield from _section(f"Reference{count}", reference)


def _document_heading(document: ShownDocument, retrieved: int) -> str:
    if document.rank is None:
        return f"Relevant, not retrieved: {document.doc_id}"
    name = f": {document.doc_id}" if document.doc_id else ""
    relevant = "  * relevant" if document.gold else ""
    return f"Document {document.rank} of {retrieved}{name}{relevant}"


def _section(head: str, text: str) -> Iterator[str]:
    yield one_line(head)
    for line in _lines(text):
        yield f"  | {line}".rstrip()


def _end(skipped: int) -> Iterator[str]:
    if skipped:
        was, them = ("was", "it") if skipped == 1 else ("were", "them")
        yield f"{skipped} {was} skipped; s shows {them} again."
    yield "Every label is saved. u undoes the last one, q quits."


def one_line(text: str) -> str:
    """The text on one line, safe to print."""
    return " ".join(_lines(text))


def _lines(text: str) -> list[str]:
    """The lines of a text, safe to print."""
    return printable(text.replace("\r\n", "\n").translate(_LINE_ENDS)).split("\n")
