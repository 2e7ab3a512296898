"""The plain definitions of text overlap, one answer at a time: readable, and what the fast paths are held against.

References and documents are texts, one or several. Where the question does not apply (no reference, an answer without
words that needs support) or the answer is missing (``None``) there is no number, and the functions that people call say
``None``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..text.lcs import lcs_length, lcs_positions
from ..text.rouge_tokens import rouge_tokens
from ..text.stopwords import STOP_WORDS
from ..text.tokenizers import plain_words, squad_words

__all__ = [
    "Overlap",
    "answer_relevance",
    "bag_f1",
    "contains_any",
    "drop_empty_references",
    "exact_match",
    "f_measure",
    "hallucination_rate",
    "ngrams",
    "rouge_l",
    "rouge_l_f1",
    "rouge_lsum",
    "rouge_n",
    "support_coverage",
    "support_density",
    "supported_ngrams",
    "token_f1",
]

Tokenize = Callable[[str], list[str]]
Texts = str | Iterable[str]
"""One text, or several: a text alone is not taken for its letters."""


class Overlap(NamedTuple):
    """What two texts have in common, and how much each has."""

    common: int
    given: int
    wanted: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return f_measure(*self)

    @property
    def precision(self) -> float:
        """How much of what was given is common."""
        return self.common / self.given if self.common else 0.0

    @property
    def recall(self) -> float:
        """How much of what was wanted is common."""
        return self.common / self.wanted if self.common else 0.0


def f_measure(common: float, given: float, wanted: float) -> float:
    """The harmonic mean of precision (common / given) and recall (common / wanted)."""
    if not common:
        return 0.0
    precision, recall = common / given, common / wanted
    return 2 * precision * recall / (precision + recall)


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Every run of n words."""
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def drop_empty_references(references: Iterable[list[str]]) -> list[list[str]]:
    """References without those that have no words, as long as one with words remains."""
    listed = list(references)
    return [words for words in listed if words] or listed


def _as_list(texts: Texts | None) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts or ())


def exact_match(answer: str | None, references: Texts | None, words: Tokenize = squad_words) -> float | None:
    """1 if the answer has the same words, in the same order, as a reference."""
    if answer is None:
        return None
    given, listed = words(answer), drop_empty_references(map(words, _as_list(references)))
    return float(given in listed) if listed else None


def bag_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """F1 of two lists of words as bags; 1 if both are empty."""
    if not given or not wanted:
        return float(not given and not wanted)
    return f_measure((Counter(given) & Counter(wanted)).total(), len(given), len(wanted))


def token_f1(answer: str | None, references: Texts | None, words: Tokenize = squad_words) -> float | None:
    """The best F1 of the answer's words against those of a reference."""
    if answer is None:
        return None
    given = words(answer)
    return max(
        (bag_f1(given, wanted) for wanted in drop_empty_references(map(words, _as_list(references)))), default=None
    )


def answer_relevance(answer: str | None, query: str, words: Tokenize = squad_words) -> float | None:
    """F1 of the answer's words against those of the query."""
    asked = words(query)
    return bag_f1(words(answer), asked) if answer is not None and asked else None


def contains_any(answer: str, alternatives: Iterable[str], words: Tokenize) -> bool:
    """Whether the normalised answer holds one of the alternatives; those that normalise to nothing do not count."""
    text = " ".join(words(answer))
    return any(wanted in text for wanted in (" ".join(words(one)) for one in alternatives) if wanted)


def rouge_n(reference: str, answer: str, n: int, words: Tokenize) -> Overlap:
    """ROUGE-N: n-grams in common, each as often as in the text that has it less often."""
    wanted, given = (ngrams(words(text), n) for text in (reference, answer))
    return Overlap((Counter(given) & Counter(wanted)).total(), len(given), len(wanted))


def rouge_l(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-L: the longest sequence of words that both texts hold in the same order."""
    wanted, given = words(reference), words(answer)
    return Overlap(lcs_length(wanted, given), len(given), len(wanted))


def rouge_l_f1(answer: str | None, references: Texts | None, words: Tokenize = rouge_tokens) -> float | None:
    """The best F1 of ROUGE-L against a reference."""
    if answer is None:
        return None
    return max((rouge_l(reference, answer, words).f1 for reference in _as_list(references)), default=None)


def rouge_lsum(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-L of texts with a sentence per line: for each reference sentence the union over the answer's sentences.

    A word counts at most as often as it stands in either text, as in ROUGE 1.5.5 and the rouge-score package.
    """
    wanted, given = ([words(line) for line in text.split("\n") if line] for text in (reference, answer))
    left_wanted, left_given = (Counter(word for sentence in text for word in sentence) for text in (wanted, given))
    totals = left_given.total(), left_wanted.total()
    hits = 0
    for sentence in wanted:
        union: set[int] = set().union(*(lcs_positions(sentence, other) for other in given))
        for place in sorted(union):
            word = sentence[place]
            if left_wanted[word] and left_given[word]:
                hits += 1
                left_wanted[word] -= 1
                left_given[word] -= 1
    return Overlap(hits, *totals)


def supported_ngrams(answer: Sequence[str], documents: Iterable[Sequence[str]], n: int) -> list[bool]:
    """For each n-gram of the answer whether any document holds it."""
    there = {gram for words in documents for gram in ngrams(words, n)}
    return [gram in there for gram in ngrams(answer, n)]


def support_density(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Share of the answer's words that some document holds; 0 without any document."""
    return _supported_proportion(words(answer or ""), documents, words)


def support_coverage(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Share of the answer's content words, those outside the list of function words, that some document holds."""
    return _supported_proportion([word for word in words(answer or "") if word not in STOP_WORDS], documents, words)


def hallucination_rate(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Share of the answer's words that no document holds."""
    density = support_density(answer, documents, words)
    return None if density is None else 1.0 - density


def _supported_proportion(counted: Sequence[str], documents: Texts, words: Tokenize) -> float | None:
    """None where no word counts, and where there are documents but none with a text."""
    listed = _as_list(documents)
    if not counted or (listed and not any(listed)):
        return None
    return sum(supported_ngrams(counted, map(words, listed), 1)) / len(counted)
