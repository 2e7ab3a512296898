"""Terms of a question: its content words, and pairs of neighbouring ones."""

from __future__ import annotations

import unicodedata

from .scripts import is_unspaced, word_bounds
from .tokenizers import STOP_WORDS


def content_terms(text: str) -> set[str]:
    """Words that are no stop words, in lower case, and pairs of neighbours among them.

    In a script without spaces a character is a word, and a pair is two characters next to each other.

    >>> sorted(content_terms("What is the first episode?"))
    ['episode', 'first', 'first episode']
    >>> sorted(content_terms("如何退款？"))
    ['何', '何退', '如', '如何', '款', '退', '退款']
    """
    text = unicodedata.normalize("NFC", text).lower()
    found: set[str] = set()
    before, before_end = "", 0
    for start, end in zip(*word_bounds(text), strict=True):
        word = text[start:end]
        if word in STOP_WORDS:
            continue
        found.add(word)
        if not (is_unspaced(before) and is_unspaced(word)):
            found.add(f"{before} {word}".strip())
        elif start == before_end:
            found.add(f"{before}{word}")
        before, before_end = word, end
    return found
