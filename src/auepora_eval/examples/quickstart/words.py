"""Words as the bundled systems compare them, and sentences as they quote them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from ...text.stem import porter_stem
from ...text.stopwords import STOP_WORDS

__all__ = ["plain_words", "sentences", "stems", "weights"]

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")


def plain_words(text: str) -> list[str]:
    """All words in lower case."""
    return _WORD.findall(text.lower())


def stems(text: str) -> list[str]:
    """The stems of the words that carry meaning, so that ``ranked`` meets ``ranking``."""
    return [porter_stem(word) for word in plain_words(text) if word not in STOP_WORDS]


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return _SENTENCE_END.split(text)


def weights(texts: Iterable[str]) -> dict[str, float]:
    """How telling each stem is: the fewer texts have it, the more (its inverse document frequency)."""
    held = [set(stems(text)) for text in texts]
    counts = Counter(stem for one in held for stem in one)
    return {stem: math.log(1 + len(held) / count) for stem, count in counts.items()}
