"""Scripts without spaces between words: which texts use them, and tokens that suit every script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
ASCII_TOKEN = re.compile("[a-z0-9]+")
UNSPACED_FROM = 0.2
"""The proportion of letters in a script without spaces from which a text counts as written in one."""


def is_unspaced(text: str) -> bool:
    """Whether a text is written in a script without spaces between words.

    >>> is_unspaced("OpenAI 发布了 GPT-4"), is_unspaced("The city of 北京")
    (True, False)
    """
    if text.isascii() or UNSPACED_CHARACTER.search(text) is None:
        return False
    letters = "".join([character for character in text if unicodedata.category(character)[0] in "LM"])
    unspaced = len(UNSPACED_CHARACTER.findall(letters))
    return unspaced > 0 and unspaced >= UNSPACED_FROM * len(letters)


def auto_tokens(text: str) -> list[str]:
    """The words of a text in lower case; each character of a script without spaces is a token of its own.

    >>> auto_tokens("The train 每周 leaves.")
    ['the', 'train', '每', '周', 'leaves']
    """
    if text.isascii():
        return ASCII_TOKEN.findall(text.lower())
    return _TOKEN.findall(unicodedata.normalize("NFC", text).lower())


@lru_cache(maxsize=256)
def word_bounds(text: str) -> tuple[Sequence[int], Sequence[int]]:
    """Where the words of a text start and end; each character of a script without spaces is a word of its own.

    >>> word_bounds("a new 每周")
    ([0, 2, 6, 7], [1, 5, 7, 8])
    """
    words = [word.span() for word in _TOKEN.finditer(text)]
    return [start for start, _ in words], [end for _, end in words]
