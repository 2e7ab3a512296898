"""The pages of annotators: the start of a batch, one item at a time, and the labels, skips and undo steps they send.

They are blind: no run, model, plan, file, score or title of a batch is in any response, and no document id unless the
batch shows it. Items and documents are numbers, and an error names neither files nor runs. Every form works without a
script.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from ..errors import AueporaError, BadValueError, ConflictError
from ..io.labels import UNCLEAR, unclear_reason
from ..labels.batch import LabelBatch
from ..labels.batch_items import BatchItem
from ..labels.choices import UNCLEAR_KEY
from ..labels.items import ShownDocument
from ..labels.names import MAX_NAME, MAX_TEXT, check_annotator, release_name
from ..labels.queue import ItemDisagreement, LabelQueue, Submission
from ..queries.marked_texts import ShownText, show_text
from .batch_page import batch_url
from .page_request import Fields, PageRequest, page_route
from .query_page import show_whole_text
from .workbench import describe_error, make_url, render_template

MAX_REASON = 500
ANSWER_LENGTH = 6_000
"""How much of a question or an answer is shown at first."""
DOCUMENT_LENGTH = 1_500

SUMMARIES = {
    "calibrate": "You read answers to questions and label each of them.",
    "compare": "You read two answers to each question and label both. Their order is random.",
    "grade": "You read a question and a document, and grade how relevant the document is.",
    "drafts": "You read drafts of test questions, and accept or reject each of them.",
    "review": "You read answers to questions and label each of them.",
}
INSTRUCTIONS = {
    "drafts": "Accept a draft if the question is clear and the reference answers it. If you reject it, give the "
    "reason in a comment.",
    "grade": "Judge how far the document helps the person who asked. Words that question and document share are no "
    "reason for a grade. Between two grades choose the lower one.",
}
DEFAULT_INSTRUCTIONS = (
    "Judge from the question and the documents. An answer is right if it answers the question and nothing in it is "
    "false. Skip what you cannot read or understand, not what is hard, and give the reason."
)
END_TEXTS = {
    "closed": "This batch is closed. It takes no more labels, and nothing can be undone.",
    "waiting": "Other annotators have the last items at present. Wait for what they leave, or close this page.",
    "done": "There is nothing left for you to label. Every label is saved, and you can close this page.",
}
HEADINGS = {"closed": "Closed", "waiting": "Waiting for others", "done": "Done"}


# --- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """The batch, annotator and item of a request."""

    queue: LabelQueue
    fields: Fields
    """The parameters of the address, or the fields of the form."""
    annotator: str
    number: int | None
    others: Collection[str]
    """The names that this browser has used, for the check that no party decides."""

    @classmethod
    def of(cls, request: PageRequest, fields: Fields) -> LabelRequest:
        """Check the parameters; an error names the parameter and what is allowed."""
        queue, annotator = request.queue, read_name(fields.get("as", ""))
        require_adjudicator(request, fields)
        secret = request.scope["name_secret"]
        queue.claim(annotator, secret)
        number = read_number(queue.batch, fields.get("item", ""))
        return cls(queue, fields, annotator, number, queue.claims.names_of(secret))

    @property
    def item(self) -> int:
        """The number of the item, which must be there."""
        if self.number is None:
            raise HTTPException(400, f"item must be a number from 1 to {len(self.queue.batch.items)}")
        return self.number

    @property
    def adjudicates(self) -> bool:
        """Whether the labels decide between those of other annotators."""
        return self.fields.get("adjudicate", "") == "1"

    @property
    def submission(self) -> str:
        """The id of what is sent, which makes a repeated request the same one."""
        return self.fields.text("submission", MAX_NAME, is_required=True)

    @property
    def comment(self) -> str:
        """The comment, with the line breaks of the journal."""
        return self.fields.text("comment", MAX_TEXT)

    def values(self) -> Sequence[str]:
        """The names of the choices, or the grades."""
        names = ("first", "second") if is_pair_of_grades(self.queue.batch) else ("value",)
        if names[1:] and self.queue.item(self.item).has_equal_answers:
            names = ("first", "first")  # one grade for both
        values = [self.fields.get(name, "") for name in names]
        try:
            self.queue.batch.parse_values(values)
        except BadValueError as error:
            raise HTTPException(400, f"{' and '.join(names)}: {error}") from error
        return values

    def url(self, number: int | None = None, *, page: str = "item", part: str | None = None) -> str:
        """The address of an item, by default of the next one, or of a text of it."""
        adjudicate = "1" if self.adjudicates else None
        fields = {"as": self.annotator, "adjudicate": adjudicate, "item": number, "part": part}
        return make_url(f"/label/{self.queue.batch.id}/{page}", **fields)


def require_adjudicator(request: PageRequest, fields: Fields) -> None:
    """Raise where an annotator asks for the labels of others."""
    if fields.get("adjudicate", "") == "1" and not request.is_organiser:
        raise HTTPException(403, "adjudicate: only the organiser of the batch sees labels of others and decides")


def is_pair_of_grades(batch: LabelBatch) -> bool:
    """Whether both answers of an item get a grade."""
    return batch.scale is not None and batch.answers == 2


def read_name(text: str) -> str:
    """The name of an annotator; an error says what is allowed."""
    try:
        return check_annotator(text)
    except BadValueError as error:
        raise HTTPException(400, f"as: {error}") from error


def read_number(batch: LabelBatch, text: str) -> int | None:
    """The number of an item; ``None`` for an empty text."""
    if not text:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= len(batch.items):
        raise HTTPException(404, f"item: there is no such item; items have numbers from 1 to {len(batch.items)}")
    return number


# --- what a page shows -----------------------------------------------------------------------------------------------


def describe_task(batch: LabelBatch, item: BatchItem | None = None) -> dict[str, Any]:
    """The question to the annotator, what can be chosen, and the instructions; of an item with equal answers, once."""
    has_equal_answers = item is not None and item.has_equal_answers
    choices = batch.choices
    if has_equal_answers and batch.scale is None:
        choices = tuple(choice for choice in choices if choice.name in ("both", "neither"))
    return {
        "summary": SUMMARIES[batch.purpose],
        "question": batch.question,
        "instructions": batch.instructions.strip() or INSTRUCTIONS.get(batch.purpose, DEFAULT_INSTRUCTIONS),
        "choices": choices,
        "unclear": UNCLEAR,
        "offers_unclear": batch.offers_unclear,
        "unclear_key": UNCLEAR_KEY,
        "has_equal_answers": has_equal_answers,
        "is_compact": batch.scale is not None and batch.purpose != "grade",
        "is_pair_of_grades": is_pair_of_grades(batch),
    }


def describe_progress(queue: LabelQueue, annotator: str, disputed: Collection[ItemDisagreement] = ()) -> dict[str, int]:
    """The progress of this annotator alone; where items are ``disputed``, of the decisions about them."""
    if disputed:
        decided = sum(disagreement.adjudicated for disagreement in disputed)
        return {"labelled": decided, "unclear": 0, "skipped": 0, "total": len(disputed), "waiting": 0}
    own = queue.annotator_progress(annotator)
    total = own.labelled + own.unclear + own.skipped + own.remaining
    return {
        "labelled": own.labelled,
        "unclear": own.unclear,
        "skipped": own.skipped,
        "total": total,
        "waiting": own.waiting,
    }


def describe_item(found: LabelRequest, item: BatchItem) -> dict[str, Any]:
    """The texts of an item, each with the address of its whole text."""

    def shown(text: str, part: str, limit: int = ANSWER_LENGTH) -> ShownText | None:
        return show_text(text, found.url(item.number, page="text", part=part), limit=limit) if text else None

    def shown_document(place: int, document: ShownDocument, name: str) -> dict[str, Any]:
        title = f"Document {place}" if document.rank or not item.answers else "Relevant, not retrieved"
        return {
            "title": f"{title}: {document.doc_id}" if document.doc_id else title,
            "note": "● relevant" if document.gold else "",
            "text": shown(document.text, f"{name}-{place}", DOCUMENT_LENGTH),
        }

    return {
        "number": item.number,
        "conversation": shown(item.conversation, "conversation", DOCUMENT_LENGTH),
        "question": shown(item.question, "question"),
        "answers": [shown(answer.text, f"answer-{place}") for place, answer in enumerate(item.answers, start=1)],
        "references": [
            shown(reference, f"reference-{place}") for place, reference in enumerate(item.references, start=1)
        ],
        "documents": [
            (
                _DOCUMENT_TITLES[name],
                [shown_document(place, document, name) for place, document in enumerate(listed, start=1)],
            )
            for name, listed in group_documents(item).items()
        ],
    }


_DOCUMENT_TITLES = {
    "document": "Documents",
    "first": "Documents of the first answer",
    "second": "Documents of the second answer",
}


def group_documents(item: BatchItem) -> dict[str, Sequence[ShownDocument]]:
    """The documents of an item; of two answers those of each apart."""
    names = ("first", "second") if len(item.answers) > 1 else ("document",)
    listed = [answer.documents for answer in item.answers] or [item.documents]
    return {name: documents for name, documents in zip(names, listed, strict=True) if documents}


def find_text(item: BatchItem, part: str) -> str:
    """A text of an item by the name of its part."""
    if part in ("question", "conversation"):
        return item.question if part == "question" else item.conversation
    name, _, number = part.partition("-")
    place = int(number) - 1 if number.isascii() and number.isdigit() and len(number) < 9 else -1
    texts = {name: [document.text for document in documents] for name, documents in group_documents(item).items()}
    texts |= {"answer": [answer.text for answer in item.answers], "reference": list(item.references)}
    if name not in texts or not 0 <= place < len(texts[name]):
        raise HTTPException(404, "part: the item has no such text")
    return texts[name][place]


# --- pages -----------------------------------------------------------------------------------------------------------


def start_page(request: PageRequest) -> Response:
    """The start of an annotator: name, instructions and, with a name, the progress."""
    require_adjudicator(request, request.parameters)
    text = request.parameters.get("as", "")
    annotator = read_name(text) if text else ""
    is_own = bool(annotator) and request.queue.is_free_for(annotator, request.scope["name_secret"])
    return show_start(request, annotator if is_own else "")


def show_start(request: PageRequest, annotator: str, message: str = "") -> Response:
    """The start page; with a message where the name cannot be used."""
    queue = request.queue
    is_adjudication = request.is_organiser and request.parameters.get("adjudicate", "") == "1"
    return render_template(
        request,
        "label.html",
        status=400 if message else 200,
        batch_id=queue.batch.id,
        task=describe_task(queue.batch),
        annotator=annotator,
        disputed=queue.disagreements() if is_adjudication else None,
        progress=describe_progress(queue, annotator) if annotator and not message else None,
        is_closed=queue.is_closed,
        message=message,
        max_name=MAX_NAME,
    )


def item_page(request: PageRequest) -> Response:
    """The item of an address, or the next one of the annotator; the end where there is none."""
    fields = request.parameters
    try:
        found = LabelRequest.of(request, fields)
    except (ConflictError, HTTPException) as error:
        if fields.get("fragment") or (isinstance(error, HTTPException) and error.status_code != 400):
            raise
        message = error.detail if isinstance(error, HTTPException) else f"{str(error).capitalize()}."
        return show_start(request, fields.get("as", "")[:MAX_NAME], message)
    return show_item(request, found, found.number)


def show_item(
    request: PageRequest, found: LabelRequest, number: int | None, *, status: int = 200, message: str = ""
) -> Response:
    """An item with its form, by default the next one; after an error with the message and what was entered."""
    queue, is_closed = found.queue, found.queue.is_closed
    disputed: dict[int, ItemDisagreement] = {}
    if found.adjudicates:
        listed = queue.disagreements(found.annotator, found.others)
        disputed = {item.number: item for item in listed if item.problem is None}
        number = number or next(
            (disagreement.number for disagreement in disputed.values() if not disagreement.adjudicated), None
        )
        if number is not None and not is_closed:
            queue.record_shown_labels(found.annotator, number, found.others)
    elif number is None and not is_closed:
        number = queue.next(found.annotator)
    progress = describe_progress(queue, found.annotator, disputed.values())
    item = None if number is None or is_closed else queue.item(number)
    state = "item" if item else "closed" if is_closed else "waiting" if progress["waiting"] else "done"
    fields = found.fields if message else {}
    return render_template(
        request,
        "label_item.html",
        status=status,
        batch_id=found.queue.batch.id,
        task=describe_task(found.queue.batch, item),
        annotator=found.annotator,
        adjudicates=found.adjudicates,
        state=state,
        heading=HEADINGS.get(state, f"Item {number} of {len(found.queue.batch.items)}"),
        item=None if item is None else describe_item(found, item),
        previous=disputed[number].labels if number in disputed else (),
        progress=progress,
        end_text=END_TEXTS.get(state, ""),
        skipped=queue.skipped_items(found.annotator) if state in ("done", "waiting") and not found.adjudicates else [],
        message=message,
        chosen=fields,
        comment=fields.get("comment", ""),
        submission=(fields.get("submission") if status == 503 else "") or secrets.token_hex(16),
        skip_submission=secrets.token_hex(16),
        undo_submission=secrets.token_hex(16),
        item_url=found.url,
        start_url=make_url(f"/label/{found.queue.batch.id}", adjudicate="1" if found.adjudicates else None),
        max_comment=MAX_TEXT,
        max_reason=MAX_REASON,
    )


def whole_text(request: PageRequest) -> Response:
    """A whole text of an item, as a page or as a fragment."""
    found = LabelRequest.of(request, request.parameters)
    part = request.parameters.get("part", "")
    text = find_text(found.queue.item(found.item), part)
    return show_whole_text(request, text, (), part, found.url(found.item))


# --- what annotators send --------------------------------------------------------------------------------------------


def _save_label(found: LabelRequest) -> tuple[int | None, str]:
    values = found.values()
    try:
        saved = found.queue.submit(
            found.annotator,
            found.item,
            values,
            comment=found.comment,
            submission=found.submission,
            adjudicated=found.adjudicates,
            others=found.others,
        )
    except BadValueError as error:  # it names what was sent, no run and no file
        raise HTTPException(400, str(error)) from error
    _require_saved(saved)
    texts = {choice.name: choice.text for choice in found.queue.batch.choices}
    return None, f"Saved: {' and '.join(texts[value] for value in values)}"


def _save_skip(found: LabelRequest) -> tuple[int | None, str]:
    is_unclear = found.queue.batch.offers_unclear and found.fields.get("answer") == UNCLEAR
    if is_unclear:
        reason, message = unclear_reason(found.comment), "Saved: Cannot tell"
    else:
        reason = found.fields.text("reason", MAX_REASON, is_required=True)
        message = f"Skipped item {found.item}"
    _require_saved(found.queue.skip(found.annotator, found.item, reason, submission=found.submission))
    return None, message


def _undo(found: LabelRequest) -> tuple[int | None, str]:
    if found.comment and not found.fields.get("fragment"):  # a script stores the comment of each item
        raise ConflictError("Your comment is not saved yet. Label the item or remove the comment, then undo.")
    number = found.queue.undo(found.annotator, submission=found.fields.get("undo_submission", "")[:MAX_NAME])
    if number is None:
        raise ConflictError("There is nothing to undo.")
    return number, f"Undone: item {number} has no label"


def _renew(found: LabelRequest) -> tuple[int | None, str]:
    found.queue.renew(found.annotator, found.item)
    return found.item, ""


def _require_saved(saved: Submission) -> None:
    if saved.outcome == "conflict":
        raise ConflictError(saved.message)


LabelAction = Callable[[LabelRequest], tuple[int | None, str]]
"""Handles what was sent: the item to show, ``None`` for the next one, and a message."""
ACTIONS: Mapping[str, LabelAction] = {"label": _save_label, "skip": _save_skip, "undo": _undo, "renew": _renew}


def handle_form(request: PageRequest, action: LabelAction) -> Response:
    """Save what was sent. A script gets JSON, a form the next page."""
    fields = request.form_fields
    found = LabelRequest.of(request, fields)
    is_script = bool(fields.get("fragment")) or request.headers.get("accept", "").startswith("application/json")
    try:
        number, message = action(found)
    except (AueporaError, HTTPException) as error:
        if is_script:
            raise
        status, message = describe_error(request, error)
        return show_item(request, found, found.number, status=status, message=message)  # with what was entered
    if is_script:
        return JSONResponse({"message": message, "item": number})
    return RedirectResponse(found.url(number), 303)


# --- the names that annotators have claimed --------------------------------------------------------------------------


def release(request: PageRequest) -> Response:
    """Let another browser use a name of a batch, for the organiser."""
    batch = request.queue.batch
    name = request.form_fields.text("name", MAX_NAME, is_required=True)
    release_name(batch.journal, check_annotator(name))
    return RedirectResponse(batch_url(batch), 303)


ROUTES = [
    page_route("/batches/{batch_id}/release", release, method="POST"),
    page_route("/label/{batch_id}", start_page),
    page_route("/label/{batch_id}/item", item_page),
    page_route("/label/{batch_id}/text", whole_text),
    *(
        page_route(f"/label/{{batch_id}}/{name}", partial(handle_form, action=action), method="POST")
        for name, action in ACTIONS.items()
    ),
]
