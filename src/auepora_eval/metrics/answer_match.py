"""Lexical match of answer and reference: exact match, token F1, containment, relevance to the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ..core.batch import Batch
from ..core.metrics_base import SampleMetric, declare
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..features.texts import Integers, TokenPairs, best_pairs, select_pairs, shared_ngrams, token_ids, token_pairs
from ..text.tokenizers import Tokenizer, squad_words, word_tokenizer
from .answer_base import AnswerMetric, Floats, ReferencedMetric, overlap_scores
from .overlap import Tokenize, answer_relevance, contains_all, exact_match, token_f1


def bag_f1s(common: Integers, answer: Integers, reference: Integers) -> Floats:
    """``bag_f1`` of each pair."""
    values, _, _ = overlap_scores(common, answer, reference)
    values[(answer == 0) & (reference == 0)] = 1.0
    return values


@dataclass(frozen=True)
class _NormalisedMetric(ReferencedMetric):
    """A comparison after normalisation; options select what is ignored."""

    ignore_case: bool = True
    ignore_punctuation: bool = True
    ignore_articles: bool = True

    metadata = declare(
        reference="Rajpurkar et al. 2016, 2018; the evaluation script of SQuAD 2.0",
    )

    @property
    def words(self) -> Tokenizer:
        """The tokenizer."""
        return word_tokenizer(case=self.ignore_case, punctuation=self.ignore_punctuation, articles=self.ignore_articles)

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
    blank. References that normalise to nothing are left out while another remains; alone they match an answer that does
    too, which is how SQuAD 2.0 writes "no answer". The best over all reference answers counts.
    """

    metadata = declare(
        binary=True,
        examples=(
            "exact_match",
            {"exact_match": {"ignore_articles": False}},
        ),
        aliases={"papers": ("EM",)},
    )

    def score(self, batch: Batch) -> Scores:
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

    Words are what stands between white space after the normalisation of `exact_match`. If one side has no words the
    value is 0, if neither has, 1. The best over all reference answers counts.
    """

    metadata = declare(
        examples=(
            "token_f1",
            {"token_f1": {"ignore_case": False}},
        ),
    )

    def score(self, batch: Batch) -> Scores:
        """F1, pair by pair."""
        sides = token_pairs(batch, self.words, "reference")
        common = shared_ngrams(batch, self.words, "reference", 1)
        return self.best(batch, bag_f1s(common, sides.answers.counts, sides.references.counts), sides)

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        return Score(token_f1(answer, sample.references, self.words.tokenize))


@register("answer_relevance")
@dataclass(frozen=True)
class AnswerRelevance(AnswerMetric):
    r"""Token F1 of answer and query: whether the answer stays with the words of the question.

    .. math:: 2 P R / (P + R), \quad P = \text{common} / |\text{answer}|, \quad R = \text{common} / |\text{query}|

    A lexical stand-in, shown as "answer_relevance (word overlap)": a good answer that uses other words scores low, a
    repeated question scores 1. So it gives no verdict on runs without another metric that uses gold or a judge.
    Normalisation as in `token_f1`.
    """

    target = TargetCategory.GENERATION_RELEVANCE
    norm: ClassVar[str] = "squad"
    metadata = declare(
        skip_reasons={
            "empty_query": "the query has no words",
            **AnswerMetric.metadata.skip_reasons,
        },
        examples=("answer_relevance",),
        signature={"norm": "norm"},
    )

    def score(self, batch: Batch) -> Scores:
        """F1 of each answer with its query."""
        words = word_tokenizer(articles=True)
        given, query = token_ids(batch, words, "answers").counts, token_ids(batch, words, "query").counts
        values = bag_f1s(shared_ngrams(batch, words, "query", 1), given, query)
        return self.outcome(batch, values, skip={"empty_query": query == 0})

    def skips(self, sample: EvaluationSample) -> str | None:
        """A query without words is skipped."""
        return None if squad_words(sample.query) else "empty_query"

    def score_plain(self, sample: EvaluationSample, output: SystemOutputs, answer: str) -> Score:
        """By the plain definition."""
        return Score(answer_relevance(answer, sample.query))


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
        slots, words = _slots(sample), _NORMS[self.norm]
        if slots is None or any(words(name) for names in slots for name in names):
            return None
        return "empty_reference"

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """Whether each slot is filled."""
        assert output.response is not None  # an output without one is skipped before it gets here
        slots = _slots(sample)
        if slots is None:
            return Score.fail("bad_reference")
        return Score(contains_all(output.response.text, slots, _NORMS[self.norm]))


def _as_written(text: str) -> list[str]:
    """The whole string as one token; white space alone gives none."""
    return [text] if text.strip() else []


def _lower_case(text: str) -> list[str]:
    return _as_written(text.lower())


_NORMS: dict[str, Tokenize] = {"squad": squad_words, "lower": _lower_case, "none": _as_written}


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
