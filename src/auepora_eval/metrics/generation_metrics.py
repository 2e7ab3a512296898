"""The generation metrics of the evaluation client in one place: classes over datasets, plain functions of one answer.

The functions take the answer and one or several texts, and give ``None`` where the question does not apply:

>>> exact_match("the Eiffel Tower", ["Eiffel Tower"]), hallucination_rate("Paris in 1889", ["Paris, 1889"])
(1.0, 0.33333333333333337)
>>> token_f1("Paris", []), support_density("", ["Paris"])
(None, None)
"""

from .answer_match import AnswerRelevance, ExactMatch, TokenF1
from .grounding import HallucinationRate, SupportCoverage, SupportDensity
from .overlap import (
    answer_relevance,
    exact_match,
    hallucination_rate,
    rouge_l_f1,
    support_coverage,
    support_density,
    token_f1,
)
from .rouge import RougeL, RougeLAnswer

__all__ = [
    "AnswerRelevance",
    "ExactMatch",
    "HallucinationRate",
    "RougeL",
    "RougeLAnswer",
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
