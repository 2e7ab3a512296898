"""Normalisations of answers by name, as published scripts have them: from a text to its words, or to the whole text."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache

from .norm_names import TextNorm
from .tokenizers import ARTICLE, WITHOUT_PUNCTUATION, Tokenizer, custom_tokenizer, squad_words, visible_token

_TO_BLANKS = str.maketrans(dict.fromkeys(f"{string.punctuation}‘’´`", " "))
_WITHOUT_BLANKS = str.maketrans(dict.fromkeys(" \n"))


def as_written(text: str) -> list[str]:
    """The whole text as one token; white space alone gives none. Accents are equal however they are encoded."""
    return [unicodedata.normalize("NFC", text)] if text.strip() else []


def lower_case(text: str) -> list[str]:
    """``as_written`` in lower case."""
    return as_written(text.lower())


def without_blanks(text: str) -> list[str]:
    """``as_written`` without blanks and line ends."""
    return as_written(text.translate(_WITHOUT_BLANKS))


def nq_words(text: str) -> list[str]:
    """The words of NQ-open's script: accents are letters of their own before SQuAD's normalisation.

    >>> nq_words("The Zürich!") == nq_words("Zu\u0308rich")
    True
    """
    bare = unicodedata.normalize("NFD", text).lower().translate(WITHOUT_PUNCTUATION)
    return ARTICLE.sub(" ", bare).split()


def trivia_words(text: str) -> list[str]:
    """The words of TriviaQA's script.

    >>> trivia_words("A well-known_map: 1,230 km")
    ['well', 'known', 'map', '1', '230', 'km']
    """
    return ARTICLE.sub(" ", text.lower().translate(_TO_BLANKS)).split()


NORMS: Mapping[TextNorm, Callable[[str], list[str]]] = {
    "squad": squad_words,
    "nq": nq_words,
    "trivia": trivia_words,
    "lower": lower_case,
    "no_blanks": without_blanks,
    "none": as_written,
}


@lru_cache
def norm_tokenizer(norm: TextNorm) -> Tokenizer:
    """The tokenizer of a normalisation."""

    def words(text: str) -> list[str]:
        return [visible_token(word) for word in NORMS[norm](text)]

    return custom_tokenizer(f"norm {norm}", words)


def normalized_text(text: str, norm: TextNorm) -> str:
    """A text after normalisation, words separated by a blank."""
    return " ".join(NORMS[norm](text))
