"""The generation metrics of the evaluation client: classes over datasets, plain functions of one answer.

The classes are subclasses of those in the other modules, with the ``client`` conventions where none are given. The
functions take the answer and one or several strings, and return ``None`` if the measure does not apply or the answer is
missing:

>>> exact_match("the Eiffel Tower", ["Eiffel Tower"]), hallucination_rate("Paris in 1889", ["Paris, 1889"])
(1.0, 0.33333333333333337)
>>> token_f1("Paris", []), support_density("", ["Paris"]), exact_match(None, ["Paris"])
(None, None, None)
"""

from . import answer_match, grounding, rouge, semantic
from .client_base import ClientMetric
from .overlap import (
    answer_relevance,
    exact_match,
    hallucination_rate,
    rouge_l_f1,
    support_coverage,
    support_density,
    token_f1,
)

__all__ = [
    "AnswerRelevance",
    "CrossEncoderSimilarity",
    "ExactMatch",
    "HallucinationRate",
    "RougeL",
    "RougeLAnswer",
    "SbertSimilarity",
    "SupportCoverage",
    "SupportDensity",
    "TokenF1",
    "answer_relevance",
    "exact_match",
    "hallucination_rate",
    "rouge_l_f1",
    "support_coverage",
    "support_density",
    "token_f1",
]


class ExactMatch(ClientMetric, answer_match.ExactMatch):
    """Whether the answer equals a reference after normalisation."""


class TokenF1(ClientMetric, answer_match.TokenF1):
    """F1 of the words of answer and reference."""


class AnswerRelevance(ClientMetric, answer_match.AnswerRelevance):
    """F1 of the words of answer and query."""


class RougeL(ClientMetric, rouge.RougeL):
    """ROUGE-L F1 of answer and reference."""


RougeLAnswer = RougeL


class SupportCoverage(ClientMetric, grounding.SupportCoverage):
    """Proportion of the answer's content words that the documents have."""


class SupportDensity(ClientMetric, grounding.SupportDensity):
    """Proportion of the answer's words that the documents have."""


class HallucinationRate(ClientMetric, grounding.HallucinationRate):
    """1 - support density."""


class SbertSimilarity(ClientMetric, semantic.SbertSimilarity):
    """Cosine of the embeddings of answer and reference."""


class CrossEncoderSimilarity(ClientMetric, semantic.CrossEncoderSimilarity):
    """Score of a cross-encoder for answer and reference."""
