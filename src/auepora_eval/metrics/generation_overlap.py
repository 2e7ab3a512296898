"""Answer correctness by overlap with reference answers: ROUGE-L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.errors import BadTypeError
from ..core.metrics_base import SampleMetric
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..text.lcs import lcs_length
from ..text.tokens import rouge_tokens
from .base import ConfiguredMetric

__all__ = ["RougeLAnswer", "rouge_l"]


def rouge_l(reference: str, answer: str, *, use_stemmer: bool = True) -> float:
    """ROUGE-L F1 of an answer against one reference, as the rouge-score package computes it."""
    wanted, given = (rouge_tokens(text, stem=use_stemmer) for text in (reference, answer))
    if not wanted or not given:
        return 0.0
    common = lcs_length(wanted, given)
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall) if common else 0.0


@register("rougeL_answer")
@dataclass(frozen=True)
class RougeLAnswer(ConfiguredMetric, SampleMetric):
    r"""ROUGE-L F1: overlap of answer and reference in order, by their longest common subsequence of tokens.

    .. math:: 2 P R / (P + R), \quad P = \text{LCS} / |\text{answer}|, \quad R = \text{LCS} / |\text{reference}|

    Tokens, stemming and value are those of the rouge-score package: lower case, runs of a-z and 0-9, Porter stemming of
    words longer than three letters. Text in other scripts has no tokens there and scores 0. The best over all reference
    answers counts.
    """

    use_stemmer: bool = True

    target = TargetCategory.GENERATION_CORRECTNESS
    reference: ClassVar[str] = "Lin 2004; rouge-score 0.1.2"
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_reference": "the sample has no reference answer",
        "no_response": "no answer was asked for",
    }

    def __post_init__(self) -> None:
        if not isinstance(self.use_stemmer, bool):
            raise BadTypeError(f"use_stemmer must be true or false, not {self.use_stemmer!r}")
        super().__post_init__()

    def required_fields(self) -> list[str]:
        """A reference answer."""
        return ["reference_answer"]

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The best F1 over the references."""
        assert output.response is not None  # an output without one is skipped before it gets here
        answer = output.response.text
        return Score(max(rouge_l(text, answer, use_stemmer=self.use_stemmer) for text in sample.references))

    def choices(self) -> dict[str, str]:
        """Whether words are stemmed."""
        return {"stem": "porter" if self.use_stemmer else "none"}
