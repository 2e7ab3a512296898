"""What the form prints: plain lines with everything about an answer, and nothing that a text could control."""

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.labels.choices import LabelScale
from auepora_eval.labels.form import FormState, GivenLabel, handle_line, restore_labels
from auepora_eval.labels.items import LabelItem, PreviousLabel, ShownDocument, build_item
from auepora_eval.labels.terminal_form import render_state, rubric

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\rb\x00\u202edne\u2066\x7f\n::error::x\n##[error]x\r\n=cmd\u2028> q\ud800"


def item(**more: object) -> LabelItem:
    made = LabelItem(
        "q1",
        "Who wrote it?",
        "Ada did.",
        (
            ShownDocument("d1", "About Ada.", 1, False),
            ShownDocument("d2", "Ada wrote it.", 2, True),
            ShownDocument("d9", "", None, True),
        ),
        ("Ada", "Ada Lovelace"),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def shown(state: FormState) -> str:
    return "\n".join(render_state(state, title="ann, nightly"))


def test_evidence_question_answer_and_rubric() -> None:
    assert render_state(FormState((item(),)), title="ann, nightly") == [
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
def test_rubric_of_a_scale(scale: LabelScale, text: str) -> None:
    assert rubric(scale) == text


def test_the_reference_is_shown_on_demand() -> None:
    state = FormState((item(),))
    assert "Lovelace" not in shown(state)
    state, _ = handle_line(state, "a")
    assert "Reference 2 of 2\n  | Ada Lovelace" in shown(state)


def test_blind_shows_neither_references_nor_what_is_relevant() -> None:
    text = shown(FormState((item(),), blind=True))
    assert "eference" not in text
    assert "elevant" not in text
    assert "d9" not in text
    assert "Document 2 of 2\n" in text
    assert "d2" not in text, "an id may name the source"


def test_previous_labels_and_conversation_are_shown() -> None:
    shown_item = item(
        previous_labels=(PreviousLabel("ann", "right"), PreviousLabel("bob", "wrong", "no source")),
        conversation="user: hello",
    )
    text = shown(FormState((shown_item,)))
    assert "Label of ann\n  | right\nLabel of bob\n  | wrong: no source\n" in text
    assert "Before\n  | user: hello\nQuestion" in text


def test_empty_answer_and_retrieval() -> None:
    text = shown(FormState((LabelItem("q", "?", ""),)))
    assert "Answer\n  | (empty)" in text
    assert "Nothing was retrieved." in text


def test_progress_skips_and_the_end() -> None:
    items = tuple(item(sample_id=f"q{n}") for n in range(4))
    state = restore_labels(FormState(items), {("q0", ""): GivenLabel("right"), ("q1", ""): GivenLabel("wrong")})
    assert "--- 3 of 4, 2 labelled" in shown(state)
    state, _ = handle_line(state, "s")
    assert "--- 4 of 4, 2 labelled, 1 skipped" in shown(state)
    state, _ = handle_line(state, "r")
    assert "3 labelled: 2 right, 1 wrong." in shown(state)
    assert "1 was skipped; s shows it again." in shown(state)


@pytest.mark.slow
@given(st.text(max_size=80))
@settings(max_examples=25)
def test_hostile_texts_begin_no_line_and_contain_no_controls(text: str) -> None:
    hostile = HOSTILE + text
    shown_item = LabelItem(
        hostile,
        hostile,
        hostile,
        (ShownDocument(hostile, hostile, 1, True),),
        (hostile,),
        hostile,
        (PreviousLabel(hostile, hostile, hostile),),
    )
    lines = render_state(FormState((shown_item,), reference_shown=True), title=hostile)
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
