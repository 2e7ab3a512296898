"""Sentence splitting: cases with their reasons, and properties of any text."""

import pytest
from hypothesis import given

from auepora_eval.text.sentences import split_sentences
from helpers.texts import TEXT

ROWS = [  # text, want, why
    ("One. Two! Three?", ["One.", "Two!", "Three?"], "each mark ends one"),
    ("Dr. Ito left. So did I.", ["Dr. Ito left.", "So did I."], "an abbreviation does not, and 'I' is no initial"),
    ("J. K. Rowling wrote it.", ["J. K. Rowling wrote it."], "initials"),
    ("1. Open it. 2. Close it.", ["1. Open it.", "2. Close it."], "numbers of items stay with them"),
    ("It rose to 3.5 m. Then it fell.", ["It rose to 3.5 m.", "Then it fell."], "a decimal point"),
    ("It rose in 1999. Then it fell.", ["It rose in 1999.", "Then it fell."], "a number within a sentence may end it"),
    ("at 5 p.m. on Monday", ["at 5 p.m. on Monday"], "a small letter follows"),
    ('He said "Go." Then he left.', ['He said "Go."', "Then he left."], "a quotation mark belongs to what it closes"),
    ("No way... But yes.", ["No way...", "But yes."], "dots"),
    ("東京です。大阪です！", ["東京です。", "大阪です！"], "scripts without spaces"),
    ("यह है। वह है।", ["यह है।", "वह है।"], "a danda"),
    ("- one\n- two\n\nthree", ["- one", "- two", "three"], "lines"),
    ("Äpfel. Über alles.", ["Äpfel.", "Über alles."], "capitals beyond ASCII"),
    ("  \n ... !", [], "no letter, no sentence"),
    ("", [], "nothing"),
    ("no end", ["no end"], "no mark at all"),
]


@pytest.mark.parametrize(("text", "want"), [row[:2] for row in ROWS], ids=[row[2] for row in ROWS])
def test_sentences(text: str, want: list[str]) -> None:
    assert split_sentences(text) == want


@given(TEXT)
def test_sentences_keep_every_letter(text: str) -> None:
    joined = "".join("".join(split_sentences(text)).split())
    assert [c for c in joined if c.isalnum()] == [c for c in text if c.isalnum()]
