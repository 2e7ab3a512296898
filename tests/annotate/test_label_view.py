"""The screen of the form: every line fits, for any text and size, without control characters."""

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auepora_eval import Document, EvaluationSample, Response, RetrievedDocument, SystemOutputs
from auepora_eval.annotate.session import (
    FormState,
    GivenLabel,
    LabelItem,
    LabelScale,
    PreviousLabel,
    ShownDocument,
    build_item,
    new_form,
    press,
    restore_labels,
    with_layout,
)
from auepora_eval.annotate.terminal import Screen, Style, cell_width, render_screen, sanitise, truncate, wrap

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\rb\x00\u202edne\u2066\x7f"


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


def texts(screen: Screen) -> list[str]:
    return [line.text for line in screen.lines]


def shown(state: FormState, width: int = 80, height: int = 40) -> str:
    return "\n".join(texts(render_screen(state, width, height)))


WRAPPED = [  # text, width, lines, why
    ("one two three", 7, ["one two", "three"], "between words"),
    ("one two", 3, ["one", "two"], "just so"),
    ("abcdefgh", 3, ["abc", "def", "gh"], "a word too long"),
    ("a abcdefgh", 3, ["a", "abc", "def", "gh"], "a word too long after a short one"),
    ("日本語の文", 4, ["日本", "語の", "文"], "wide characters take two cells"),
    ("日本語", 3, ["日", "本", "語"], "half a wide character does not fit"),
    ("日本", 1, [""], "a wide character in one cell is left out"),
    ("e\u0301e\u0301e\u0301", 2, ["e\u0301e\u0301", "e\u0301"], "accents take none"),
    ("a\n\nb", 5, ["a", "", "b"], "line ends stay"),
    ("a\r\nb\u2028c", 5, ["a", "b", "c"], "line ends of all kinds"),
    ("a\tb", 9, ["a    b"], "tabs are blanks"),
    ("  x", 5, ["  x"], "an indent stays"),
    ("", 5, [""], "nothing is an empty line"),
    ("a\x1b[2Jb", 40, ["a\\u001b[2Jb"], "controls are written out"),
    ("a\ud800b", 40, ["a?b"], "half characters are not shown"),
]


@pytest.mark.parametrize(("text", "width", "lines"), [row[:3] for row in WRAPPED], ids=[row[3] for row in WRAPPED])
def test_wrapping(text: str, width: int, lines: list[str]) -> None:
    assert list(wrap(text, width)) == lines


@given(st.text(), st.integers(2, 30))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cell_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(sanitise(text).split())


def test_a_megabyte_is_wrapped_in_one_pass() -> None:
    assert len(wrap("x" * 1_000_000, 100)) == 10_000
    assert len(wrap("日" * 100_000, 100)) == 2_000


@given(st.text(), st.integers(0, 30))
def test_truncated_text_fits(text: str, width: int) -> None:
    line = sanitise(text).replace("\n", " ")
    assert cell_width(truncate(line, width)) <= width
    assert truncate(line, cell_width(line)) == line


def test_widths() -> None:
    assert cell_width("abc") == 3
    assert cell_width("日本") == 4
    assert cell_width("e\u0301\u200b") == 1
    assert cell_width("soft\u00adhyphen") == 11


def test_question_answer_and_evidence_are_shown_with_what_is_relevant() -> None:
    screen_text = shown(new_form([item()]))
    for part in (
        "Question",
        "Who wrote it?",
        "Answer",
        "Ada did.",
        "Document 1 of 2: d1",
        "Document 2 of 2: d2  * relevant",
    ):
        assert part in screen_text
    assert "relevant, not retrieved: d9" in screen_text
    assert "(its text is not stored)" in screen_text
    assert "1 of 1  0 labelled" in screen_text
    gold = [line.text for line in render_screen(new_form([item()]), 80, 40).lines if line.style is Style.GOLD]
    assert gold == ["Document 2 of 2: d2  * relevant", "relevant, not retrieved: d9"]


def test_the_reference_is_shown_on_demand() -> None:
    state = new_form([item()])
    assert "Lovelace" not in shown(state)
    assert "Reference (a shows it)" in shown(state)
    state, _ = press(state, "a")
    assert "Reference, one of 2" in shown(state)
    assert "Ada Lovelace" in shown(state)


def test_blind_shows_neither_references_nor_what_is_relevant() -> None:
    screen_text = shown(new_form([item()], blind=True))
    assert "eference" not in screen_text
    assert "relevant" not in screen_text
    assert "d9" not in screen_text
    assert "Document 2 of 2: d2" in screen_text


def test_previous_labels_and_conversation_are_shown() -> None:
    shown_item = item(
        previous_labels=(PreviousLabel("ann", "right"), PreviousLabel("bob", "wrong", "no source")),
        conversation="user: hello",
    )
    screen_text = shown(new_form([shown_item]))
    for part in ("ann said", "bob said", "wrong: no source", "Before", "user: hello"):
        assert part in screen_text


def test_empty_answer_and_retrieval() -> None:
    screen_text = shown(new_form([LabelItem("q", "?", "")]))
    assert "(empty)" in screen_text
    assert "Nothing was retrieved." in screen_text


def test_progress_skips_and_the_end() -> None:
    state = restore_labels(
        new_form([item(sample_id=f"q{n}") for n in range(4)]), {"q0": GivenLabel("right"), "q1": GivenLabel("wrong")}
    )
    assert shown(state).startswith(" 3 of 4  2 labelled")
    assert "[##########..........]" in shown(state)
    state, _ = press(state, "s")
    assert "1 skipped" in shown(state)
    state, _ = press(state, "r")
    screen_text = shown(state)
    assert "3 labelled: 2 right, 1 wrong." in screen_text
    assert "1 was skipped; s shows it again." in screen_text


def test_key_hints_of_a_scale() -> None:
    assert "1-5 score" in shown(new_form([item()], scale=LabelScale(1, 5)))
    assert "r right" not in shown(new_form([item()], scale=LabelScale(1, 5)))


def test_help_is_shown_scrolled_and_left() -> None:
    state, _ = press(new_form([item()]), "?")
    assert "taken back" in shown(state)
    small = render_screen(state, 40, 8)
    assert small.last_scroll > 0
    state = with_layout(state, scroll=0, page=small.page, last_scroll=small.last_scroll, anchors=())
    state, _ = press(state, " ")
    assert state.mode == "help"
    state, _ = press(state, "x")
    assert state.mode == "form"


def test_long_evidence_is_paged_and_documents_are_reached_by_tab() -> None:
    docs = tuple(ShownDocument(f"d{n}", f"text {n} " * 60, n, False) for n in range(1, 6))
    state = new_form([item(evidence=docs)])
    seen = set()
    for _ in range(40):
        screen = render_screen(state, 40, 12)
        seen |= {line.strip() for line in texts(screen)[1:-2]}
        state = with_layout(
            state, scroll=screen.scroll, page=screen.page, last_scroll=screen.last_scroll, anchors=screen.anchors
        )
        before = state.scroll
        state, _ = press(state, " ")
        if state.scroll == before:
            break
    assert {f"Document {n} of 5: d{n}" for n in range(1, 6)} <= seen
    assert state.scroll == state.last_scroll
    state, _ = press(state, "g")
    for number in (1, 2, 3):
        state, _ = press(state, "tab")
        assert texts(render_screen(state, 40, 12))[1] == f"Document {number} of 5: d{number}"
    state, _ = press(state, "G")
    state, _ = press(state, "tab")
    assert state.scroll == 0


def test_a_comment_is_seen_where_it_is_typed() -> None:
    state = new_form([item()])
    for key in ["c", *"日本 is far away from here"]:
        state, _ = press(state, key)
    screen = render_screen(state, 80, 10)
    assert texts(screen)[-2] == "comment: 日本 is far away from here"
    assert screen.cursor == (8, 9 + 4 + len(" is far away from here"))
    narrow = render_screen(state, 12, 10)
    assert texts(narrow)[-2].endswith("from here")
    assert narrow.cursor is not None
    assert narrow.cursor[1] < 12


def controls(text: str) -> set[str]:
    return {one for one in text if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") or one in "\u202e\u2066"}


@given(st.text(max_size=80), st.integers(1, 60), st.integers(1, 20), st.lists(st.sampled_from("rsca? q"), max_size=6))
def test_every_screen_fits(text: str, width: int, height: int, keys: list[str]) -> None:
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
    state = new_form([shown_item, shown_item])
    for key in [None, *keys]:
        if key is not None:
            state, _ = press(state, key)
        screen = render_screen(state, width, height, title=hostile[-8:])
        assert len(screen.lines) == (height if height >= 3 else min(height, 2))
        for line in screen.lines:
            assert cell_width(line.text) <= width
            assert not controls(line.text)


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
