"""The plain definitions of text overlap, one answer at a time; tests compare the fast paths with them.

References and documents are one or several strings. The public functions return ``None`` if the measure does not apply
(no reference, an answer without words) or the answer is missing (``None``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..text.ngrams import lcs_length, lcs_positions
from ..text.tokenizers import STOP_WORDS, plain_words, rouge_tokens, squad_words

Tokenize = Callable[[str], list[str]]
Texts = str | Iterable[str]
"""One string, or several."""


class Overlap(NamedTuple):
    """The number of common units of an answer and a reference, and the size of each."""

    common: int
    answer_size: int
    reference_size: int

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return f_measure(*self)

    @property
    def precision(self) -> float:
        """The proportion of the answer that is common."""
        return self.common / self.answer_size if self.common else 0.0

    @property
    def recall(self) -> float:
        """The proportion of the reference that is common."""
        return self.common / self.reference_size if self.common else 0.0


def f_measure(common: float, answer_size: float, reference_size: float) -> float:
    """The harmonic mean of precision (common / answer_size) and recall (common / reference_size)."""
    if not common:
        return 0.0
    precision, recall = common / answer_size, common / reference_size
    return 2 * precision * recall / (precision + recall)


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All n-grams of a sequence of tokens."""
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]


def drop_empty_references(references: Iterable[list[str]]) -> list[list[str]]:
    """The references that have tokens; all of them if none has."""
    listed = list(references)
    return [words for words in listed if words] or listed


def _as_list(texts: Texts | None) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts or ())


def exact_match(answer: str | None, references: Texts | None, words: Tokenize = squad_words) -> float | None:
    """1 if the answer has the same tokens, in the same order, as a reference."""
    if answer is None:
        return None
    tokens, compared = words(answer), drop_empty_references(map(words, _as_list(references)))
    return float(tokens in compared) if compared else None


def bag_f1(answer: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of two bags of tokens; 1 if both are empty."""
    if not answer or not reference:
        return float(not answer and not reference)
    return f_measure((Counter(answer) & Counter(reference)).total(), len(answer), len(reference))


def token_f1(answer: str | None, references: Texts | None, words: Tokenize = squad_words) -> float | None:
    """The best F1 of the answer's tokens with those of a reference."""
    if answer is None:
        return None
    tokens = words(answer)
    return max(
        (bag_f1(tokens, reference) for reference in drop_empty_references(map(words, _as_list(references)))),
        default=None,
    )


def answer_relevance(answer: str | None, query: str, words: Tokenize = squad_words) -> float | None:
    """F1 of the answer's tokens with those of the query."""
    query_tokens = words(query)
    return bag_f1(words(answer), query_tokens) if answer is not None and query_tokens else None


def contains_any(answer: str, alternatives: Iterable[str], words: Tokenize) -> bool:
    """Whether the normalised answer contains one of the alternatives; empty ones do not count."""
    text = " ".join(words(answer))
    return any(phrase in text for phrase in (" ".join(words(one)) for one in alternatives) if phrase)


def rouge_n(reference: str, answer: str, n: int, words: Tokenize) -> Overlap:
    """ROUGE-N: common n-grams, each with the smaller of its two counts."""
    reference_ngrams, answer_ngrams = (ngrams(words(text), n) for text in (reference, answer))
    return Overlap(
        (Counter(answer_ngrams) & Counter(reference_ngrams)).total(), len(answer_ngrams), len(reference_ngrams)
    )


def rouge_l(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-L: the longest common subsequence of tokens."""
    reference_tokens, answer_tokens = words(reference), words(answer)
    return Overlap(lcs_length(reference_tokens, answer_tokens), len(answer_tokens), len(reference_tokens))


def rouge_l_f1(answer: str | None, references: Texts | None, words: Tokenize = rouge_tokens) -> float | None:
    """The best F1 of ROUGE-L with a reference."""
    if answer is None:
        return None
    return max((rouge_l(reference, answer, words).f1 for reference in _as_list(references)), default=None)


def rouge_lsum(reference: str, answer: str, words: Tokenize) -> Overlap:
    """ROUGE-L of texts with a sentence per line: for each reference sentence the union over the answer's sentences.

    A token counts at most as often as it occurs in either text, as in ROUGE 1.5.5 and the rouge-score package.
    """
    reference_sentences, answer_sentences = (
        [words(line) for line in text.split("\n") if line] for text in (reference, answer)
    )
    left_in_reference, left_in_answer = (
        Counter(word for sentence in text for word in sentence) for text in (reference_sentences, answer_sentences)
    )
    totals = left_in_answer.total(), left_in_reference.total()
    hits = 0
    for sentence in reference_sentences:
        union: set[int] = set().union(*(lcs_positions(sentence, other) for other in answer_sentences))
        for position in sorted(union):
            word = sentence[position]
            if left_in_reference[word] and left_in_answer[word]:
                hits += 1
                left_in_reference[word] -= 1
                left_in_answer[word] -= 1
    return Overlap(hits, *totals)


def supported_ngrams(answer: Sequence[str], documents: Iterable[Sequence[str]], n: int) -> list[bool]:
    """For each n-gram of the answer whether any document contains it."""
    document_ngrams = {gram for words in documents for gram in ngrams(words, n)}
    return [gram in document_ngrams for gram in ngrams(answer, n)]


def support_density(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Proportion of the answer's words that occur in a document; 0 without documents."""
    return _supported_proportion(words(answer or ""), documents, words)


def support_coverage(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Proportion of the answer's content words (no stop words) that occur in a document."""
    return _supported_proportion([word for word in words(answer or "") if word not in STOP_WORDS], documents, words)


def hallucination_rate(answer: str | None, documents: Texts, words: Tokenize = plain_words) -> float | None:
    """Proportion of the answer's words that occur in no document."""
    density = support_density(answer, documents, words)
    return None if density is None else 1.0 - density


def _supported_proportion(counted: Sequence[str], documents: Texts, words: Tokenize) -> float | None:
    """``None`` if no word counts, or if no document has a text."""
    listed = _as_list(documents)
    if not counted or (listed and not any(listed)):
        return None
    return sum(supported_ngrams(counted, map(words, listed), 1)) / len(counted)
