"""ROUGE tokens: lower case, split at everything but letters and digits, longer tokens stemmed."""

from __future__ import annotations

import re
import unicodedata

from .stem import porter_stem

__all__ = ["rouge_tokens", "unicode_tokens"]

_LATIN_WORD = re.compile(r"[a-z0-9]+")
# Scripts written without blanks, in which a character is the nearest thing to a word: Chinese characters and kana.
_WORD_BY_ITSELF = re.compile(
    r"[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003fffd]"
)


def rouge_tokens(text: str, *, stem: bool = True) -> list[str]:
    """The tokens of ``text`` as ``rouge_score.tokenizers.DefaultTokenizer(use_stemmer=stem)`` gives them.

    Any other script is separator only: a text without Latin letters or digits has no tokens, and ``café`` is ``caf``.
    """
    # Lower case comes first, and may turn another character into a Latin one: the Kelvin sign is a k.
    words = _LATIN_WORD.findall(text.lower())
    # The stemmer leaves at least one letter of a word and adds only letters, so that nothing needs dropping after it.
    return [_stem(word) for word in words] if stem else words


def unicode_tokens(text: str, *, stem: bool = True) -> list[str]:
    """Tokens in any script: runs of letters, digits and combining marks; each Chinese character or kana is one.

    Invisible characters (zero-width joiners, direction marks) are dropped, and accents are equal
    however they are encoded. Words of a-z and 0-9 are stemmed like ROUGE's own, others stay as they are.
    """
    tokens: list[str] = []
    inside = False
    for character in unicodedata.normalize("NFC", text.lower()):
        category = unicodedata.category(character)
        if category == "Cf":
            continue
        if _WORD_BY_ITSELF.fullmatch(character):
            tokens.append(character)
            inside = False
        elif category[0] in "LN" or (category[0] == "M" and inside):
            if inside:
                tokens[-1] += character
            else:
                tokens.append(character)
            inside = True
        elif category[0] == "M" and tokens and _WORD_BY_ITSELF.match(tokens[-1]):
            tokens[-1] += character
        else:
            inside = False
    return [_stem(word) if word.isascii() else word for word in tokens] if stem else tokens


def _stem(word: str) -> str:
    return porter_stem(word) if len(word) > 3 else word
