"""Tokens and word bounds that suit every script."""

from hypothesis import given, settings, strategies as st

from auepora_eval.text.scripts import auto_tokens, is_unspaced, word_bounds
from helpers.requirements import examples


def test_characters_of_scripts_without_spaces_are_tokens() -> None:
    assert auto_tokens("Der ICE 3_x fährt 每周。") == ["der", "ice", "3", "x", "fährt", "每", "周"]
    assert auto_tokens("") == []


def test_a_few_characters_do_not_make_a_text_unspaced() -> None:
    assert is_unspaced("東京は日本の首都である")
    assert is_unspaced("กรุงเทพมหานคร")
    assert not is_unspaced("The sign for tree is 木, as every learner knows")
    assert not is_unspaced("123 !?")


@given(text=st.text(alphabet="ab Z_1.é北京\n", max_size=30))
@settings(max_examples=examples(100))
def test_bounds_are_those_of_the_tokens(text: str) -> None:
    starts, ends = word_bounds(text)
    assert [text[start:end].lower() for start, end in zip(starts, ends, strict=True)] == auto_tokens(text)
