"""Terms of a question: its content words, and pairs of neighbouring ones."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from .scripts import UNSPACED_CHARACTER, auto_tokens, word_bounds
from .tokenizers import STOP_WORDS


def content_terms(text: str) -> set[str]:
    """Words that are no stop words, in lower case, and pairs of neighbours among them.

    In a script without spaces a character is a word, and a pair is two characters next to each other.

    >>> sorted(content_terms("What is the first episode?"))
    ['episode', 'first', 'first episode']
    >>> sorted(content_terms("如何退款？"))
    ['何', '何退', '如', '如何', '款', '退', '退款']
    """
    if text.isascii():
        words = [word for word in auto_tokens(text) if word not in STOP_WORDS]
        return {*words, *map(" ".join, pairwise(words))}
    return set(_terms(unicodedata.normalize("NFC", text).lower()))


def _terms(text: str) -> Iterator[str]:
    before, before_end = "", 0
    for start, end in zip(*word_bounds(text), strict=True):
        word = text[start:end]
        if word in STOP_WORDS:
            continue
        yield word
        if UNSPACED_CHARACTER.match(before) and UNSPACED_CHARACTER.match(word):
            pair = f"{before}{word}" if start == before_end else ""
        else:
            pair = f"{before} {word}" if before else ""
        if pair:
            yield pair
        before, before_end = word, end
