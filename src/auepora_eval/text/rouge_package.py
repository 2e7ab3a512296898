"""ROUGE as the packages rouge and rouge-chinese compute it: sets of n-grams, case and punctuation as written."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from .ngrams import lcs_positions

_ENDS = ("。", "！", "？")
_TINY = 1e-8
"""What these packages add to the denominator of F."""
Counts = tuple[int, int, int]
"""The numbers of common units, of units of the answer, and of units of the reference."""


def rouge_sentences(words: Sequence[str], *, is_cut: bool = False) -> list[list[str]]:
    """The sentences of a text given as words: a full stop ends one, also inside a word, and is no word.

    Of text that was cut into words before (``is_cut``), a sentence ends behind 。, ！ or ？.

    >>> rouge_sentences(["It", "froze.", "Ships", "came."])
    [['It', 'froze'], ['', 'Ships', 'came']]
    """
    sentences: list[list[str]] = [[]]
    for word in words:
        first, *others = [word] if is_cut else word.split(".")
        sentences[-1].append(first)
        sentences.extend([piece] for piece in others)
        if is_cut and word in _ENDS:
            sentences.append([])
    return [sentence for sentence in sentences if any(sentence)]


def _ngram_set(sentences: Sequence[Sequence[str]], n: int) -> set[tuple[str, ...]]:
    words = [word for word in chain.from_iterable(sentences) if word]
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}


def _shared_ngrams(answer: Sequence[Sequence[str]], reference: Sequence[Sequence[str]], n: int) -> Counts:
    given, wanted = _ngram_set(answer, n), _ngram_set(reference, n)
    return len(given & wanted), len(given), len(wanted)


def _shared_sequence(answer: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> Counts:
    """The distinct words on a longest common subsequence of any two sentences."""
    common: set[str] = set()
    for wanted in reference:
        for given in answer:
            common |= {wanted[place] for place in lcs_positions(wanted, given) if wanted[place]}
    return len(common), len(_ngram_set(answer, 1)), len(_ngram_set(reference, 1))


def rouge_package_f1(answer: Sequence[str], reference: Sequence[str], variant: str, *, is_cut: bool = False) -> float:
    """F1 of two texts given as words; ``variant`` is rouge1, rouge2 or rougeL."""
    given, wanted = rouge_sentences(answer, is_cut=is_cut), rouge_sentences(reference, is_cut=is_cut)
    if variant == "rougeL":
        common, in_answer, in_reference = _shared_sequence(given, wanted)
    else:
        common, in_answer, in_reference = _shared_ngrams(given, wanted, int(variant[-1]))
    precision = common / in_answer if in_answer else 0.0
    recall = common / in_reference if in_reference else 0.0
    return 2 * precision * recall / (precision + recall + _TINY)
