"""chrF: overlap of answer and reference in character n-grams, which needs no tokenizer; equal to sacrebleu."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import Derivation
from ..core.errors import BadValueError
from ..core.reduce import SumsReducer
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..features.texts import best_pairs, reference_texts, select_pairs, shared_ngram_orders, token_pairs
from ..text.ngrams import ngram_counts
from ..text.tokenizers import CharacterTokenizer, Tokenizer, chrf_tokenizer
from .answer_base import ReferencedMetric, require_bool, require_count
from .base import signature_number
from .derivations_ngrams import chrf_steps
from .overlap import ngrams

__all__ = ["ChrF", "CorpusChrF", "chrf_counts", "chrf_of_counts"]


def chrf_counts(answer: Sequence[str], reference: Sequence[str], orders: int) -> list[int]:
    """The counts of one pair that chrF sums: per order the n-grams of each text, and the common ones.

    An order in which the reference has no n-gram counts none for the answer either.
    """
    counts = []
    for n in range(1, orders + 1):
        have, want = Counter(ngrams(answer, n)), Counter(ngrams(reference, n))
        counts += [have.total() if want else 0, want.total(), (have & want).total()]
    return counts


def chrf_of_counts(counts: Sequence[float], beta: float) -> float:
    """chrF from the counts of one pair or the sums over many, from 0 to 100.

    Precision and recall are averaged over the orders for which both texts are long enough, then combined.
    """
    precision = recall = 0.0
    used = 0
    for place in range(0, len(counts), 3):
        in_answer, in_reference, common = counts[place : place + 3]
        if in_answer > 0 and in_reference > 0:
            precision += common / in_answer
            recall += common / in_reference
            used += 1
    if not used or not precision + recall:
        return 0.0
    precision, recall, weight = precision / used, recall / used, beta**2
    return 100 * ((1 + weight) * precision * recall / (weight * precision + recall))


class CorpusChrF(SumsReducer):
    """chrF of the summed counts."""

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.name = f"chrf[{signature_number(beta)}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """The corpus value."""
        return chrf_of_counts(sums, self.beta)


@register("chrf")
@dataclass(frozen=True)
class ChrF(ReferencedMetric):
    r"""chrF of all answers together (0 to 100): F-score of character n-grams, up to six characters.

    .. math:: 100 \cdot (1 + \beta^2) P R / (\beta^2 P + R)

    P and R are the shares of common n-grams, averaged over the orders; recall weighs `beta` times as much. White space
    does not count unless `whitespace` is true; `word_order: 2` adds words and pairs of words (chrF++). Value and
    options are those of sacrebleu: of several references the best by F counts, the score of a sample is its sentence
    chrF, and the value is not their mean. A failed answer counts as an empty one.
    """

    char_order: int = 6
    word_order: int = 0
    beta: float = 2
    lowercase: bool = False
    whitespace: bool = False

    range = (0.0, 100.0)
    reference: ClassVar[str] = "Popović 2015, 2017; Post 2018 (sacrebleu 2)"

    def __post_init__(self) -> None:
        require_count("char_order", self.char_order)
        require_count("word_order", self.word_order, least=0)
        require_bool("lowercase", self.lowercase)
        require_bool("whitespace", self.whitespace)
        if isinstance(self.beta, bool) or not isinstance(self.beta, (int, float)) or not 0 < self.beta < math.inf:
            raise BadValueError(f"beta must be a finite number above 0, not {self.beta!r}")
        object.__setattr__(self, "reducer", CorpusChrF(self.beta))
        super().__post_init__()

    @property
    def parts(self) -> list[tuple[Tokenizer | CharacterTokenizer, int]]:
        """The tokenizers and their highest n-gram orders: characters, and optionally words."""
        characters = CharacterTokenizer(lowercase=self.lowercase, whitespace=self.whitespace)
        words = [(chrf_tokenizer(lowercase=self.lowercase), self.word_order)] if self.word_order else []
        return [(characters, self.char_order), *words]

    @property
    def worst_stats(self) -> tuple[float, ...]:
        """Those of an empty answer: a failed answer counts as one."""
        return (math.nan,) * (3 * (self.char_order + self.word_order))

    def signature_options(self) -> dict[str, str]:
        """As in sacrebleu's own signature."""
        return {
            "case": "lc" if self.lowercase else "mixed",
            "nc": str(self.char_order),
            "nw": str(self.word_order),
            "beta": signature_number(self.beta),
            "space": "yes" if self.whitespace else "no",
        }

    def score(self, batch: Batch) -> Scores:
        """Sentence chrF of each answer, and the counts of its best reference."""
        columns = []
        for rule, orders in self.parts:
            sides, common = token_pairs(batch, rule, "reference"), shared_ngram_orders(batch, rule, "reference")
            for n in range(1, orders + 1):
                want = ngram_counts(sides.references, n)
                columns += [np.where(want > 0, ngram_counts(sides.answers, n), 0), want, common[n]]
        owners = reference_texts(batch, "reference").owners
        per_pair = np.column_stack(columns).astype(np.float64)
        values = np.array([chrf_of_counts(row, self.beta) for row in per_pair.tolist()])
        best = best_pairs(values, owners, len(batch))
        counts = np.zeros((len(batch), per_pair.shape[1]))
        counts[best >= 0] = per_pair[best[best >= 0]]
        return self.outcome(batch, select_pairs(values, best), skip=self.without_reference(batch), stats=counts)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """Sentence chrF by the plain definition."""

        return Score(max(chrf_of_counts(self._plain_counts(answer, one), self.beta) for one in sample.references))

    def _plain_counts(self, answer: str, reference: str) -> list[int]:
        counts = []
        for rule, orders in self.parts:
            counts += chrf_counts(rule.tokenize(answer), rule.tokenize(reference), orders)
        return counts

    def steps(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Derivation:
        """Sentence chrF from the counts of the best reference."""
        every = [(self._plain_counts(answer, one), one) for one in sample.references]
        counts, reference = max(every, key=lambda one: chrf_of_counts(one[0], self.beta))
        units = [
            f"{n} {unit}"
            for unit, (_, orders) in zip(("characters", "words"), self.parts, strict=False)
            for n in range(1, orders + 1)
        ]
        value = chrf_of_counts(counts, self.beta)
        return chrf_steps(answer, reference, counts, units, self.beta, value, len(every))
