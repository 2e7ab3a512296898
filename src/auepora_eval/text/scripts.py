"""Scripts without spaces between words: which texts use them, and their tokens."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_TOKEN = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_ASCII_TOKEN = re.compile("[a-z0-9]+")
_UNSPACED_FROM = 0.2
"""The proportion of letters in a script without spaces from which a text counts as written in one."""
_NOT_HAN = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff]")
# In UTF-8 these scripts start with bytes that no Latin, Greek or Cyrillic letter and no curly quote has.
_FIRST_BYTES = bytes(byte in (0xE0, 0xE1, *range(0xE3, 0xEA), 0xEF, 0xF0) for byte in range(256))
_NOT_ASCII_LETTERS = bytes(code for code in range(256) if not (code < 128 and chr(code).isalpha()))


def is_unspaced(text: str) -> bool:
    """Whether a text is written in a script without spaces between words.

    >>> is_unspaced("OpenAI 发布了 GPT-4"), is_unspaced("The city of 北京")
    (True, False)
    """
    if text.isascii() or _UNSPACED_CHARACTER.search(text) is None:
        return False
    letters = "".join([character for character in text if unicodedata.category(character)[0] in "LM"])
    unspaced = len(_UNSPACED_CHARACTER.findall(letters))
    return unspaced > 0 and unspaced >= _UNSPACED_FROM * len(letters)


def auto_tokens(text: str) -> list[str]:
    """The words of a text in lower case; each character of a script without spaces is a token of its own.

    >>> auto_tokens("The train 每周 leaves.")
    ['the', 'train', '每', '周', 'leaves']
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    return _TOKEN.findall(unicodedata.normalize("NFC", text).lower())


@lru_cache(maxsize=256)
def word_bounds(text: str) -> tuple[Sequence[int], Sequence[int]]:
    """Where the words of a text start and end; each character of a script without spaces is a word of its own.

    >>> word_bounds("a new 每周")
    ([0, 2, 6, 7], [1, 5, 7, 8])
    """
    words = [word.span() for word in _TOKEN.finditer(text)]
    return [start for start, _ in words], [end for _, end in words]


def contain_unspaced(texts: Sequence[str]) -> bool:
    """Whether any text may have a character of a script without spaces: false for all Latin text, and fast."""
    if all(text.isascii() for text in texts):
        return False
    return 1 in "".join(texts).encode("utf-8", "surrogatepass").translate(_FIRST_BYTES)


def bleu_tokenization(texts: Iterable[str]) -> str:
    """The tokenizer of sacrebleu for all references together: ``13a``, ``zh``, or ``char`` where ``zh`` is not enough.

    >>> bleu_tokenization(["每周一开行。"]), bleu_tokenization(["月曜日に出ます。"]), bleu_tokenization(["on Mondays"])
    ('zh', 'char', '13a')
    """
    counts, ascii_letters = Counter[str](), 0
    for text in texts:
        if text.isascii():
            ascii_letters += len(text.encode().translate(None, _NOT_ASCII_LETTERS))
        else:
            counts.update(text)
    letters = {character: n for character, n in counts.items() if unicodedata.category(character)[0] in "LM"}
    unspaced = sum(n for character, n in letters.items() if _UNSPACED_CHARACTER.match(character))
    if unspaced == 0 or unspaced < _UNSPACED_FROM * (sum(letters.values()) + ascii_letters):
        return "13a"
    has_others = any(_NOT_HAN.match(character) and character.isalpha() for character in letters)
    return "char" if has_others else "zh"


def script_tokens(text: str) -> list[str]:
    """The words of a text in lower case; each letter of a script without spaces is a token, with its marks.

    >>> script_tokens("The train 每周 leaves."), script_tokens("ที่นี่")
    (['the', 'train', '每', '周', 'leaves'], ['ที่', 'นี่'])
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    tokens: list[str] = []
    in_word = False
    for character in unicodedata.normalize("NFC", text.lower()):
        category = unicodedata.category(character)
        if category == "Cf":  # joiners and direction marks are invisible
            continue
        is_letter = category[0] == "L"
        if category[0] == "M" and tokens:
            tokens[-1] += character
        elif is_letter and _UNSPACED_CHARACTER.match(character):
            tokens.append(character)
            in_word = False
        elif (is_letter or category[0] == "N") and in_word:
            tokens[-1] += character
        elif is_letter or category[0] == "N":
            tokens.append(character)
            in_word = True
        else:
            in_word = False
    return tokens
