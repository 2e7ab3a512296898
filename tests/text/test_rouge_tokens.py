"""ROUGE's tokens: rows with reasons, and rouge-score's own tokenizer on any text."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, strategies as st

from auepora_eval.text.tokenizers import rouge_tokens
from helpers.requirements import need, need_data

ROWS = [  # text, stemmed, plain, why
    ("", [], [], "no text, no tokens"),
    (" \n\t.,;—", [], [], "separators only"),
    ("The Cat", ["the", "cat"], ["the", "cat"], "lower case"),
    ("dies died", ["die", "die"], ["dies", "died"], "four letters are stemmed"),
    ("was has", ["was", "has"], ["was", "has"], "three letters are not, or they would be wa and ha"),
    ("skies", ["sky"], ["skies"], "nltk's irregular words are in"),
    ("don't", ["don", "t"], ["don", "t"], "an apostrophe separates"),
    ("snake_case", ["snake", "case"], ["snake", "case"], "an underscore separates"),
    ("3.14 v2", ["3", "14", "v2"], ["3", "14", "v2"], "digits are word characters, the point is not"),
    ("café", ["caf"], ["caf"], "an accented letter separates"),
    ("東京 ٣", [], [], "other scripts and their digits separate"),
    ("300\u212a", ["300k"], ["300k"], "the Kelvin sign is a k in lower case"),
    ("İzmir", ["i", "zmir"], ["i", "zmir"], "İ is i and a combining dot in lower case, and the dot separates"),
    ("ﬁnd", ["nd"], ["nd"], "a ligature is one foreign character: no compatibility folding"),
    ("ab\ud800cd\x00ef", ["ab", "cd", "ef"], ["ab", "cd", "ef"], "a lone surrogate or a zero character separates"),
]


@pytest.mark.parametrize(
    ("text", "stemmed", "plain"), [pytest.param(text, stemmed, plain, id=why) for text, stemmed, plain, why in ROWS]
)
def test_row(text: str, stemmed: list[str], plain: list[str]) -> None:
    assert rouge_tokens(text) == stemmed
    assert rouge_tokens(text, stem=False) == plain


Tokenise = Callable[[str], list[str]]


@pytest.fixture(scope="module", params=[True, False], ids=["stemmed", "plain"])
def both(request: pytest.FixtureRequest) -> tuple[Tokenise, Tokenise]:
    """Ours and rouge-score's, with the same choice of stemming."""
    stem: bool = request.param
    theirs: Tokenise = need("rouge_score.tokenizers").DefaultTokenizer(use_stemmer=stem).tokenize
    return (lambda text: rouge_tokens(text, stem=stem)), theirs


# Plain words between arbitrary characters (surrogates too), so that both kinds of text meet in one example.
TEXT = st.lists(st.text(st.characters(), max_size=8) | st.text("aeiknorstyAESY019 '-", max_size=30)).map("".join)


@given(TEXT)
@example("")
@example("\ud800")
@example("ﬃ İs Kelvin \u212aELVINS ſtones ²ion")
def test_equals_rouge_score_on_any_text(both: tuple[Tokenise, Tokenise], text: str) -> None:
    ours, theirs = both
    assert ours(text) == theirs(text)


@pytest.mark.parametrize("name", ["target_large.txt", "prediction_large.txt"])
def test_equals_rouge_score_on_its_own_pairs(both: tuple[Tokenise, Tokenise], name: str) -> None:
    ours, theirs = both
    text = need_data("rouge_score", name).read_text(encoding="utf-8")
    assert ours(text) == theirs(text)


@given(st.text("aeilnosty01", min_size=1))
def test_a_stemmed_word_is_still_a_word(word: str) -> None:
    # rouge-score drops invalid tokens after stemming; we rely on there being none
    (token,) = rouge_tokens(word)
    assert token.isascii()
    assert token.isalnum()
