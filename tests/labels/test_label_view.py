"""What the form prints: plain lines with everything about an answer, and nothing that a text could control."""

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.labels.batch_items import BatchItem, ItemAnswer
from auepora_eval.labels.choices import LabelScale
from auepora_eval.labels.form import LabelForm
from auepora_eval.labels.items import PreviousLabel, ShownDocument, build_item
from auepora_eval.labels.terminal_form import render_form, rubric
from auepora_eval.store.runs import RunStore
from helpers.labelling import open_form

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\rb\x00\u202edne\u2066\x7f\n::error::x\n##[error]x\r\n=cmd\u2028> q\ud800"
ITEM = BatchItem(
    1,
    "Who wrote it?",
    (
        ItemAnswer(
            "Ada did.",
            (
                ShownDocument("d1", "About Ada.", 1, False),
                ShownDocument("d2", "Ada wrote it.", 2, True),
                ShownDocument("d9", "", None, True),
            ),
        ),
    ),
    references=("Ada", "Ada Lovelace"),
)


@pytest.fixture
def form(label_store: RunStore, tmp_path: Path) -> LabelForm:
    """A form for one answer, which shows ``ITEM``."""
    made = open_form(label_store, tmp_path / "labels.jsonl", 1)
    made.item = ITEM
    return made


def shown(form: LabelForm) -> str:
    return "\n".join(render_form(form, title="ann, nightly"))


def test_evidence_question_answer_and_rubric(form: LabelForm) -> None:
    assert render_form(form, title="ann, nightly") == [
        "",
        "--- 1 of 1, 0 labelled, ann, nightly",
        "Document 1 of 2: d1",
        "  | About Ada.",
        "Document 2 of 2: d2  * relevant",
        "  | Ada wrote it.",
        "Relevant, not retrieved: d9",
        "  | (its text is not stored)",
        "Question",
        "  | Who wrote it?",
        "Answer",
        "  | Ada did.",
        "Reference: a shows it",
        "",
        "Is the answer right? r = right, w = wrong, x = cannot tell",
        "  s skip, u undo, c TEXT comment, a reference, q quit, ? help",
    ]


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        (LabelScale(1, 5), "How good is the answer? 1 = worst, 2, 3, 4, 5 = best, x = cannot tell"),
        (LabelScale(0, 1), "How good is the answer? 0 = worst, 1 = best, x = cannot tell"),
    ],
    ids=["grades between", "two grades"],
)
def test_rubric_of_a_scale(label_store: RunStore, tmp_path: Path, scale: LabelScale, text: str) -> None:
    assert rubric(open_form(label_store, tmp_path / "labels.jsonl", scale=scale).batch) == text


def test_the_reference_is_shown_on_demand(form: LabelForm) -> None:
    assert "Lovelace" not in shown(form)
    form.handle_line("a")
    assert "Reference 2 of 2\n  | Ada Lovelace" in shown(form)


def test_blind_shows_neither_references_nor_what_is_relevant(label_store: RunStore, tmp_path: Path) -> None:
    options: list[tuple[dict[str, Any], bool]] = [({}, True), ({"blind": True}, False)]
    for place, (more, is_shown) in enumerate(options):
        text = shown(open_form(label_store, tmp_path / f"{place}.jsonl", **more))
        assert ("eference" in text) is is_shown
        assert ("Document 2 of 2: gold  * relevant" in text) is is_shown
        assert ("Document 2 of 2\n" in text) is not is_shown, "an id may name the source"


def test_previous_labels_and_conversation_are_shown(form: LabelForm) -> None:
    form.previous = {"q00000": [PreviousLabel("ann", "right"), PreviousLabel("bob", "wrong", "no source")]}
    form.item = BatchItem(1, "Who?", ITEM.answers, conversation="user: hello")
    text = shown(form)
    assert "Label of ann\n  | right\nLabel of bob\n  | wrong: no source\n" in text
    assert "Before\n  | user: hello\nQuestion" in text


def test_empty_answer_and_retrieval(form: LabelForm) -> None:
    form.item = BatchItem(1, "?", (ItemAnswer(""),))
    text = shown(form)
    assert "Answer\n  | (empty)" in text
    assert "Nothing was retrieved." in text


def test_progress_skips_and_the_end(label_store: RunStore, tmp_path: Path) -> None:
    form = open_form(label_store, tmp_path / "labels.jsonl", 4)
    for line in "rw":
        form.handle_line(line)
    assert "--- 3 of 4, 2 labelled" in shown(form)
    form.handle_line("s")
    assert "--- 4 of 4, 2 labelled, 1 skipped" in shown(form)
    form.handle_line("r")
    assert "3 labelled: 2 right, 1 wrong." in shown(form)
    assert "1 was skipped; s shows it again." in shown(form)


@pytest.mark.slow
@given(st.text(max_size=80))
@settings(max_examples=25)
def test_hostile_texts_begin_no_line_and_contain_no_controls(
    label_store: RunStore, tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    hostile = HOSTILE + text
    form = open_form(label_store, tmp_path_factory.mktemp("hostile") / "labels.jsonl", 1)
    answer = ItemAnswer(hostile, (ShownDocument(hostile, hostile, 1, True),))
    form.item = BatchItem(1, hostile, (answer,), references=(hostile,), conversation=hostile)
    form.previous, form.reference_shown = {"q00000": [PreviousLabel(hostile, hostile, hostile)]}, True
    lines = render_form(form, title=hostile)
    own = ("---", "Document 1", "Before", "Question", "Answer", "Label of", "Reference", "Is the", "  s skip", "  |")
    for line in lines:
        assert not line or line.startswith(own)
        assert not {
            one for one in line if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in "\u202e\u2066"
        }


def test_items_are_read_from_the_store() -> None:
    sample = EvaluationSample(
        "q1",
        "And who?",
        relevant_docs=[Document("d2", "two"), Document("d3", "three")],
        reference_answer=Response("Ada"),
        reference_answers=["Lovelace"],
        history=[{"role": "user", "content": "Hello"}],
    )
    output = SystemOutputs(
        [RetrievedDocument(Document("d1", "one"), 1.0, 1), RetrievedDocument(Document("d2", "two"), 0.5, 2)],
        Response("Ada", structured={"name": "Ada"}),
    )
    made = build_item(sample, output)
    assert made.evidence == (
        ShownDocument("d1", "one", 1, False),
        ShownDocument("d2", "two", 2, True),
        ShownDocument("d3", "three", None, True),
    )
    assert (made.references, made.conversation, made.answer) == (("Ada", "Lovelace"), "user: Hello", "Ada")
    output.response = Response("", structured={"name": "Ada"})
    assert build_item(sample, output).answer == '{\n  "name": "Ada"\n}'
