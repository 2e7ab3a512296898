"""Sentences with their citations: every form of a mark, and brackets that are not marks."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import BadTypeError
from auepora_eval.text.sentences import (
    Citation,
    CitedSentence,
    cited_sentences,
    listed_sentences,
    marked_sentences,
    sentence_spans,
    split_sentences,
)
from helpers.texts import TEXT

IDS = ["a", "b", "c", "doc-7", "9"]

Read = list[tuple[str, list[int | None]]]
MARKED: list[tuple[str, str, Read, str]] = [
    ("Cats sleep [1].", "auto", [("Cats sleep.", [0])], "before the full stop"),
    ("Cats sleep. [1] Dogs run.", "auto", [("Cats sleep.", [0]), ("Dogs run.", [])], "after the full stop"),
    ("Cats sleep.[1]Dogs run.", "auto", [("Cats sleep.", [0]), ("Dogs run.", [])], "no space anywhere"),
    ("Cats [2] sleep [1] well.", "auto", [("Cats sleep well.", [1, 0])], "in the order of the marks"),
    ("Cats sleep [1, 3].", "auto", [("Cats sleep.", [0, 2])], "several in one bracket"),
    ("Cats sleep [1;3].", "auto", [("Cats sleep.", [0, 2])], "parted by a semicolon"),
    ("Cats sleep [1][3].", "auto", [("Cats sleep.", [0, 2])], "brackets side by side"),
    ("Cats sleep [1], [3].", "auto", [("Cats sleep.", [0, 2])], "brackets with a comma between"),
    ("Cats sleep [1-3].", "auto", [("Cats sleep.", [0, 1, 2])], "a range"),
    ("Cats sleep [2\u20133, 1].", "auto", [("Cats sleep.", [1, 2, 0])], "a range with a dash, and one more"),
    ("Cats sleep [#1, #2].", "auto", [("Cats sleep.", [0, 1])], "with a hash"),
    ("Cats sleep [#1-#2].", "hash", [("Cats sleep.", [0, 1])], "a range with hashes"),
    ("Cats sleep [^2].", "auto", [("Cats sleep.", [1])], "a footnote"),
    ("Cats sleep \u30102\u3011.", "auto", [("Cats sleep.", [1])], "other brackets"),
    ("Cats sleep [1](https://x.org/a?b=1).", "auto", [("Cats sleep.", [0])], "a link behind the mark"),
    ("Cats sleep [doc-7].", "auto", [("Cats sleep.", [3])], "the id of a document"),
    ("Cats sleep [doc-7, b].", "auto", [("Cats sleep.", [3, 1])], "two ids"),
    (
        "Cats sleep [doc-8].",
        "auto",
        [("Cats sleep [doc-8].", [])],
        "an id that was not retrieved is a word in brackets",
    ),
    ("Cats [sic] sleep [1].", "auto", [("Cats [sic] sleep.", [0])], "a word in brackets"),
    ("Cats sleep [sic] [1].", "auto", [("Cats sleep [sic].", [0])], "a word in brackets beside a mark"),
    ("Cats sleep [1, sic].", "auto", [("Cats sleep [1, sic].", [])], "a number and a word are no mark"),
    ("Cats sleep [6].", "auto", [("Cats sleep.", [None])], "one beyond the last"),
    ("Cats sleep [0].", "auto", [("Cats sleep.", [None])], "counted from 1, there is no 0"),
    ("Cats sleep [4-6].", "auto", [("Cats sleep.", [3, 4, None])], "a range that goes beyond the last"),
    ("Cats sleep [3-1].", "auto", [("Cats sleep.", [None])], "a range backwards names nothing"),
    ("Cats sleep [1-100000000].", "auto", [("Cats sleep.", [None])], "a range over far too many names nothing"),
    ("Cats sleep [9].", "auto", [("Cats sleep.", [4])], "a number beyond the last that is an id"),
    ("Cats sleep [1] and eat [1].", "auto", [("Cats sleep and eat.", [0])], "a document counts once in a sentence"),
    ("Cats sleep [7][8][7].", "auto", [("Cats sleep.", [None, None])], "so does a mark that names nothing"),
    ("[1] Cats sleep.\n[2] Dogs run.", "auto", [("Cats sleep.", [0]), ("Dogs run.", [1])], "marks that open lines"),
    ("Cats sleep.\n[1]\nDogs run.", "auto", [("Cats sleep.", [0]), ("Dogs run.", [])], "a line of nothing but a mark"),
    ("- Cats sleep [1]\n- Dogs run", "auto", [("- Cats sleep", [0]), ("- Dogs run", [])], "a list without full stops"),
    ("猫は眠る[1]。犬は走る。[2]", "auto", [("猫は眠る。", [0]), ("犬は走る。", [1])], "a script without spaces"),
    ("Cats sleep [1]. Dogs run [#2].", "brackets", [("Cats sleep.", [0]), ("Dogs run [#2].", [])], "brackets alone"),
    ("Cats sleep [1]. Dogs run [#2].", "hash", [("Cats sleep [1].", []), ("Dogs run.", [1])], "hashes alone"),
    ("Cats sleep [9]. Dogs run [1].", "ids", [("Cats sleep.", [4]), ("Dogs run [1].", [])], "ids alone"),
    ("[1]", "auto", [], "a mark and no sentence"),
    (" \n", "auto", [], "nothing"),
]


@pytest.mark.parametrize("written", ["Cats sleep [0].", "Cats sleep [0, 0].", "Cats sleep [0-0]."])
def test_a_zero_that_is_an_id_is_that_document_however_it_is_written(written: str) -> None:
    (one,) = marked_sentences(written, ["a", "0"])
    assert [citation.place for citation in one.citations] == [1]


@pytest.mark.parametrize(("text", "style", "want", "why"), MARKED, ids=[row[-1] for row in MARKED])
def test_marks_in_a_text(text: str, style: Any, want: Read, why: str) -> None:
    found = marked_sentences(text, IDS, style)
    assert [(one.text, [citation.place for citation in one.citations]) for one in found] == want


def test_mark_is_kept_as_written() -> None:
    (sentence,) = marked_sentences("Cats sleep [1, 17].", IDS)
    assert sentence == CitedSentence("Cats sleep.", (Citation("1", 0), Citation("17", None)))


def test_small_numbers_are_positions_unless_the_style_is_ids() -> None:
    ids = ["3", "2", "1"]
    (by_place,), (by_id,) = marked_sentences("Cats [3].", ids), marked_sentences("Cats [3].", ids, "ids")
    assert (by_place.citations[0].place, by_id.citations[0].place) == (2, 0)


def test_document_retrieved_twice_counts_at_its_first_position() -> None:
    (sentence,) = marked_sentences("Cats sleep [x].", ["y", "x", "x"])
    assert sentence.citations == (Citation("x", 1),)


def test_a_list_of_sentences_goes_before_marks() -> None:
    listed = [{"text": "Cats sleep.", "citations": ["b", "zzz", "b"]}, {"text": " - "}, {"text": "Dogs [1] run."}]
    found = cited_sentences("Nothing of that [1].", listed, IDS)
    assert found == (
        CitedSentence("Cats sleep.", (Citation("b", 1), Citation("zzz", None))),
        CitedSentence("Dogs [1] run.", ()),
    )
    assert cited_sentences("Nothing of that [1].", listed, IDS, "brackets") == marked_sentences(
        "Nothing of that [1].", IDS
    )


def test_sentences_without_citations_are_not_used() -> None:
    listed = [{"text": "Cats sleep."}]
    assert listed_sentences(listed, IDS) is None
    assert cited_sentences("Cats sleep [1].", listed, IDS) == (CitedSentence("Cats sleep.", (Citation("1", 0),)),)
    assert cited_sentences("Cats sleep [1].", listed, IDS, "sentences") is None
    assert cited_sentences("Cats sleep [1].", None, IDS, "sentences") is None
    assert cited_sentences("Cats sleep [1].", [], IDS) == ()


WRONG: list[tuple[Any, str]] = [
    ("Cats sleep.", "a text"),
    ([["Cats"]], "a list of lists"),
    ([{"text": 5, "citations": []}], "a text that is none"),
    ([{"text": "Cats", "citations": "a"}], "citations that are a text"),
    ([{"text": "Cats", "citations": [1]}], "ids that are numbers"),
]


@pytest.mark.parametrize(("listed", "why"), WRONG, ids=[row[-1] for row in WRONG])
def test_invalid_list_of_sentences(listed: Any, why: str) -> None:
    with pytest.raises(BadTypeError, match=r"sentence|citations are"):
        listed_sentences(listed, IDS)


def test_spans_are_those_of_the_sentences() -> None:
    text = "  Dr. Ito left.  Why?\n\n(Nobody knows.) "
    assert [text[start:end] for start, end in sentence_spans(text)] == split_sentences(text)
    assert split_sentences(text) == ["Dr. Ito left.", "Why?", "(Nobody knows.)"]


@given(TEXT)
def test_without_marks_the_sentences_are_those_of_the_text(text: str) -> None:
    plain = re.sub(r"[\[\]【】]", "", text)
    assert [one.text for one in marked_sentences(plain, IDS)] == split_sentences(plain)


@given(st.lists(st.sampled_from(["[1]", "[2, 9]", "[#3]", "[sic]", "[", "]", ". ", "\n", " ", "Cats", "[1-3]", "a"])))
def test_any_text_is_read(parts: list[str]) -> None:
    text = "".join(parts)
    for one in marked_sentences(text, IDS):
        assert one.text.strip() == one.text != ""
        assert all(citation.place is None or citation.place < len(IDS) for citation in one.citations)
        assert len({citation.place for citation in one.citations} - {None}) == sum(
            citation.place is not None for citation in one.citations
        )


@pytest.mark.slow
def test_long_texts_take_no_square() -> None:
    many = 20_000
    assert len(marked_sentences(" " * 200_000 + "Cats sleep [1].", IDS)) == 1
    found = marked_sentences("Cats sleep [1]. " * many, IDS)
    assert len(found) == many
    assert all(len(one.citations) == 1 for one in found)
