"""Lexical match of answer and reference: exact match, token F1, containment, relevance to the query."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.conventions import SignatureOption
from ..core.metrics_base import SampleMetric, declare
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory, response_text
from ..features.texts import (
    GoldSide,
    Integers,
    TokenPairs,
    best_pairs,
    select_pairs,
    shared_ngrams,
    text_cuts,
    token_ids,
    token_pairs,
)
from ..text.scripts import is_unspaced
from ..text.tokenizers import (
    Tokenizer,
    squad_words,
    unspaced_word_tokenizer,
    without_wide_punctuation,
    word_tokenizer,
)
from .answer_base import AnswerMetric, Floats, ReferencedMetric, overlap_scores
from .overlap import Tokenize, answer_relevance, contains_all, exact_match, token_f1
from .tokenized import TokenizedMetric, tokenizer_label


def bag_f1s(common: Integers, answer: Integers, reference: Integers) -> Floats:
    """``bag_f1`` of each pair."""
    values, _, _ = overlap_scores(common, answer, reference)
    values[(answer == 0) & (reference == 0)] = 1.0
    return values


@dataclass(frozen=True)
class _NormalisedMetric(TokenizedMetric, ReferencedMetric):
    """A comparison after normalisation; options select what is ignored."""

    ignore_case: bool = True
    ignore_punctuation: bool = True
    ignore_articles: bool = True

    metadata = declare(
        reference="Rajpurkar et al. 2016, 2018; the evaluation script of SQuAD 2.0",
    )

    @property
    def spaced_words(self) -> Tokenizer:
        """The tokenizer for text with spaces between words."""
        return word_tokenizer(case=self.ignore_case, punctuation=self.ignore_punctuation, articles=self.ignore_articles)

    @property
    def words(self) -> Tokenizer:
        """The tokenizer. In scripts without spaces it knows the punctuation of Chinese and Japanese."""
        words = self.spaced_words
        is_wide = self.tokenizer == "char" and self.ignore_punctuation
        return unspaced_word_tokenizer(words) if is_wide else words

    def signature_options(self) -> dict[str, str]:
        """The normalisation."""
        ignored = {
            "case": self.ignore_case,
            "punctuation": self.ignore_punctuation,
            "articles": self.ignore_articles,
        }
        if all(ignored.values()):
            return {"norm": "squad"}
        return {"norm": ",".join(name for name, yes in ignored.items() if yes) or "none"}

    def best(self, batch: Batch, values: Floats, sides: TokenPairs) -> Scores:
        """The best value of each row; empty references are dropped if there are others."""
        empty = sides.references.counts == 0
        if empty.any():
            others = np.zeros(len(batch), np.bool_)
            others[sides.owners[~empty]] = True
            # No value is below 0, so 0 drops them.
            values = np.where(empty & others[sides.owners], 0.0, values)
        best = select_pairs(values, best_pairs(values, sides.owners, len(batch)))
        return self.outcome(batch, best, skip=self.without_reference(batch))


@register("exact_match")
@dataclass(frozen=True)
class ExactMatch(_NormalisedMetric):
    r"""1 if the answer equals a reference after normalisation, else 0.

    .. math:: \max_r [\,\text{norm}(\text{answer}) = \text{norm}(r)\,]

    Normalisation is that of SQuAD: lower case, no ASCII punctuation, no articles (a, an, the), white space as one
    blank. Accents are equal however they are encoded, and where the references are in a script without spaces, `。` and
    `，` are punctuation too. References that normalise to nothing are left out while another remains; alone they match
    an answer that does too, which is how SQuAD 2.0 writes "no answer". The best over all reference answers counts.
    """

    metadata = declare(
        binary=True,
        examples=(
            "exact_match",
            {"exact_match": {"ignore_articles": False}},
        ),
        aliases={"papers": ("EM",)},
    )

    def score_tokens(self, batch: Batch) -> Scores:
        """Whether all words are equal, pair by pair."""
        sides = token_pairs(batch, self.words, "reference")
        given, wanted = sides.answers, sides.references
        alike = given.counts == wanted.counts
        candidates = np.flatnonzero(alike)
        # Tokens are compared only where their numbers agree; two empty texts are equal.
        one, other = given.take(candidates), wanted.take(candidates)
        differing = np.bincount(one.rows[one.ids != other.ids], minlength=len(candidates))
        alike[candidates] = differing == 0
        return self.best(batch, alike.astype(np.float64), sides)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        return Score(exact_match(answer, sample.references, self.words.tokenize))


@register("token_f1")
@dataclass(frozen=True)
class TokenF1(_NormalisedMetric):
    r"""F1 of the words of answer and reference, as bags: how much of each is in the other.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{reference}|

    Words are what stands between white space after the normalisation of `exact_match`; where the references are in a
    script without spaces (Chinese, Japanese, Thai, ...), its letters are the words (`tokenizer: auto`). If one side has
    no words the value is 0, if neither has, 1. The best over all reference answers counts.
    """

    tokenizer: str = field(default="auto", kw_only=True)

    metadata = declare(
        examples=(
            "token_f1",
            {"token_f1": {"ignore_case": False}},
            {"token_f1": {"tokenizer": "char3"}},
        ),
    )

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        return self.tokens(self.spaced_words)

    def signature_options(self) -> dict[str, str]:
        """The normalisation, and the tokenizer if it was chosen."""
        chosen = {} if self.tokenizer == "auto" else {"tok": tokenizer_label(self.tokenizer)}
        return super().signature_options() | chosen

    def score_tokens(self, batch: Batch) -> Scores:
        """F1, pair by pair."""
        sides = token_pairs(batch, self.words, "reference")
        common = shared_ngrams(batch, self.words, "reference", 1)
        return self.best(batch, bag_f1s(common, sides.answers.counts, sides.references.counts), sides)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        return Score(token_f1(answer, sample.references, self.words.tokenize))


@register("answer_relevance")
@dataclass(frozen=True)
class AnswerRelevance(TokenizedMetric, AnswerMetric):
    r"""Token F1 of answer and query: whether the answer stays with the words of the question.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{query}|

    A lexical stand-in, shown as "answer_relevance (word overlap)": a good answer that uses other words scores low, a
    repeated question scores 1. So it gives no verdict on runs without another metric that uses gold or a judge.
    Normalisation as in `token_f1`; the script of the query decides about tokens.
    """

    tokenizer: str = field(default="auto", kw_only=True)

    target = TargetCategory.GENERATION_RELEVANCE
    gold_side: ClassVar[GoldSide] = "query"
    norm: ClassVar[str] = "squad"
    metadata = declare(
        skip_reasons={
            "empty_query": "the query has no words",
            **AnswerMetric.metadata.skip_reasons,
        },
        examples=("answer_relevance",),
        signature={"norm": "norm", "tok": SignatureOption("tokenizer", unless="auto", write=tokenizer_label)},
    )

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        return self.tokens(word_tokenizer(articles=True))

    def score_tokens(self, batch: Batch) -> Scores:
        """F1 of each answer with its query."""
        words = self.words
        given, query = token_ids(batch, words, "answers").counts, token_ids(batch, words, "query").counts
        values = bag_f1s(shared_ngrams(batch, words, "query", 1), given, query)
        return self.outcome(batch, values, skip={"empty_query": query == 0})

    def skips(self, sample: EvaluationSample) -> str | None:
        """A query without words is skipped."""
        return None if self.words.tokenize(sample.query) else "empty_query"

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        return Score(answer_relevance(answer, sample.query, self.words.tokenize))


@register("containment")
@dataclass(frozen=True)
class Containment(ConfiguredMetric, SampleMetric):
    r"""1 if the answer contains a reference, else 0: the reading of "right" for long answers to short questions.

    .. math:: [\,\exists r: \text{norm}(r) \subseteq \text{norm}(\text{answer})\,]

    Both are normalised as in `exact_match` and compared as strings, not as tokens. References that normalise to nothing
    do not count. Where an answer must name several things, `reference_answer.structured["slots"]` lists the spellings
    of each, and all must be contained. With `norm="lower"` nothing but case is ignored, as in RGB's script; with
    `norm="none"` the reference must occur verbatim in the answer, as in RGB's paper.
    """

    norm: Literal["squad", "lower", "none"] = "squad"

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        reads=frozenset({"response"}),
        requires=("reference_answer",),
        binary=True,
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "empty_reference": "every reference normalises to nothing",
            "no_response": "no answer was asked for",
        },
        reference="Chen et al. 2024 (RGB); Wang et al. 2023 (EVOUNA)",
        examples=(
            "containment",
            {"containment": {"norm": "lower"}},
            {"containment": {"norm": "none"}},
        ),
        signature={"norm": "norm"},
    )

    def applies(self, sample: EvaluationSample) -> str | None:
        """Skips samples whose references all normalise to nothing."""
        slots, words = _slots(sample), self._words_of(sample)
        if slots is None or any(words(name) for names in slots for name in names):
            return None
        return "empty_reference"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether each slot is filled."""
        slots = _slots(sample)
        if slots is None:
            return Score.fail("bad_reference")
        return Score(contains_all(response_text(output), slots, self._words_of(sample)))

    @property
    def decides_tokens(self) -> bool:
        """Whether the script of the references decides what punctuation is."""
        return self.norm == "squad"

    def score(self, batch: Batch) -> Scores:
        """Whether each slot is filled, and the script of the references, which decides what punctuation is."""
        scores = super().score(batch)
        cuts = text_cuts(batch, "reference") if self.norm == "squad" else None
        return scores if cuts is None else replace(scores, cuts=cuts)

    def _words_of(self, sample: EvaluationSample) -> Tokenize:
        """The normalisation of the texts of a sample."""
        is_wide = self.norm == "squad" and is_unspaced("\n".join(sample.references))
        return _NORMS["wide" if is_wide else self.norm]


def _as_written(text: str) -> list[str]:
    """The whole string as one token; white space alone gives none."""
    return [unicodedata.normalize("NFC", text)] if text.strip() else []


def _unspaced_squad_words(text: str) -> list[str]:
    return squad_words(without_wide_punctuation(text))


def _lower_case(text: str) -> list[str]:
    return _as_written(text.lower())


_NORMS: dict[str, Tokenize] = {
    "squad": squad_words,
    "wide": _unspaced_squad_words,
    "lower": _lower_case,
    "none": _as_written,
}


def _slots(sample: EvaluationSample) -> list[Sequence[str]] | None:
    """The spellings of each slot; ``None`` if they are not strings."""
    structured: Any = sample.reference_answer.structured if sample.reference_answer is not None else None
    slots = structured.get("slots") if isinstance(structured, dict) else None
    if slots is None:
        slots = [sample.references]
    if not isinstance(slots, (list, tuple)):
        return None
    spellings = [[slot] if isinstance(slot, str) else slot for slot in slots]
    if not all(isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names) for names in spellings):
        return None
    return spellings
