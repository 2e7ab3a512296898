"""Splitting of texts into words, stems and sentences for the bundled systems."""

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
    """The stems of the words without stop words, so that ``ranked`` matches ``ranking``."""
    return [porter_stem(word) for word in plain_words(text) if word not in STOP_WORDS]


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return _SENTENCE_END.split(text)


def weights(texts: Iterable[str]) -> dict[str, float]:
    """The inverse document frequency of each stem."""
    documents = [set(stems(text)) for text in texts]
    counts = Counter(stem for document in documents for stem in document)
    return {stem: math.log(1 + len(documents) / count) for stem, count in counts.items()}
