"""Terms of questions: words, neighbours, and scripts without spaces."""

import unicodedata

import pytest
from hypothesis import given, strategies as st

from auepora_eval.text.tokenizers import STOP_WORDS, content_terms

ROWS = {
    "stop words are no terms, and pairs go across them": ("the end of the world", {"end", "world", "end world"}),
    "case and punctuation do not matter": ("End, WORLD!", {"end", "world", "end world"}),
    "one word has no pair": ("Why?  Refund", {"refund"}),
    "an empty question": ("", set()),
    "other alphabets with spaces": ("Für wen?  Größe", {"für", "wen", "größe", "für wen", "wen größe"}),
    "Chinese: characters, and two next to each other": ("退款吗", {"退", "款", "吗", "退款", "款吗"}),
    "... with a sign between them: no pair": ("退，款", {"退", "款"}),
    "... and a word in another script": ("GPT 退款", {"gpt", "退", "款", "退款", "gpt 退"}),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS)
def test_terms_of_a_question(text: str, expected: set[str]) -> None:
    assert content_terms(text) == expected


@given(st.text(alphabet="ab é退款，. İß"))
def test_terms_do_not_depend_on_case_and_form(text: str) -> None:
    terms = content_terms(text)
    assert terms == content_terms(unicodedata.normalize("NFD", text))
    assert not terms & STOP_WORDS


@given(st.text(alphabet="ab c.,1", max_size=30))
def test_ascii_is_read_as_other_texts_are(text: str) -> None:
    assert content_terms(f"{text} é") >= content_terms(text)
