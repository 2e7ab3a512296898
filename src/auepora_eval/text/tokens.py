"""ROUGE's words: a text in lower case, cut at everything outside a-z and 0-9, longer words stemmed."""

import re

from auepora_eval.text.stem import porter_stem

__all__ = ["rouge_tokens"]

_WORD = re.compile(r"[a-z0-9]+")


def rouge_tokens(text: str, *, stem: bool = True) -> list[str]:
    """The words of ``text`` as ``rouge_score.tokenizers.DefaultTokenizer(use_stemmer=stem)`` gives them.

    Any other script is separator only: a text without Latin letters or digits has no tokens, and ``café`` is ``caf``.
    """
    # Lower case comes first, and may turn a foreign character into one of ours: the Kelvin sign is a k.
    words = _WORD.findall(text.lower())
    if not stem:
        return words
    # The stemmer leaves at least one letter of a word and adds only letters, so that nothing needs dropping after it.
    return [porter_stem(word) if len(word) > 3 else word for word in words]
