"""The generation metrics of the evaluation client: classes over datasets, plain functions of one answer.

The classes are those of the other modules with the ``client`` conventions bound. The functions take the answer and one
or several strings, and return ``None`` if the measure does not apply or the answer is missing:

>>> exact_match("the Eiffel Tower", ["Eiffel Tower"]), hallucination_rate("Paris in 1889", ["Paris, 1889"])
(1.0, 0.33333333333333337)
>>> token_f1("Paris", []), support_density("", ["Paris"]), exact_match(None, ["Paris"])
(None, None, None)
"""

from functools import partial

from ..core.conventions import PRESETS
from . import answer_match, grounding, rouge
from . import semantic as generation_semantic
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

_CLIENT = PRESETS["client"]

ExactMatch = partial(answer_match.ExactMatch, conventions=_CLIENT)
TokenF1 = partial(answer_match.TokenF1, conventions=_CLIENT)
AnswerRelevance = partial(answer_match.AnswerRelevance, conventions=_CLIENT)
RougeL = partial(rouge.RougeL, conventions=_CLIENT)
RougeLAnswer = RougeL
SupportCoverage = partial(grounding.SupportCoverage, conventions=_CLIENT)
SupportDensity = partial(grounding.SupportDensity, conventions=_CLIENT)
HallucinationRate = partial(grounding.HallucinationRate, conventions=_CLIENT)
SbertSimilarity = partial(generation_semantic.SbertSimilarity, conventions=_CLIENT)
CrossEncoderSimilarity = partial(generation_semantic.CrossEncoderSimilarity, conventions=_CLIENT)
