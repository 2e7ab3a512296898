"""Answer correctness by claims: precision, recall and F1 of the answer's claims against the reference's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from ..core.errors import BadValueError
from ..core.registry import register
from ..core.scores import Score
from ..core.types import TargetCategory
from ..judge.ratings import gather_all
from .base import signature_number
from .claim_base import ClaimMetric
from .claim_evaluation import ClaimEvaluation
from .claim_verdicts import claim_f_beta, exact_fraction, proportion

__all__ = ["ClaimF1", "ClaimPrecision", "ClaimRecall", "ReferenceClaimMetric"]

_PRECISION_LABEL = "claims of the answer that the reference supports, over all of them"
_RECALL_LABEL = "claims of the reference that the answer supports, over all of them"
_NO_REFERENCE_CLAIMS = {"no_reference_claims": "the reference claims nothing"}


@dataclass(frozen=True)
class ReferenceClaimMetric(ClaimMetric):
    """A metric that compares claims with the (first) reference answer."""

    target = TargetCategory.GENERATION_CORRECTNESS
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_reference": "the sample has no reference answer",
        **ClaimMetric.skip_reasons,
    }

    def required_fields(self) -> list[str]:
        """A reference answer."""
        return ["reference_answer"]


@register("claim_precision")
@dataclass(frozen=True)
class ClaimPrecision(ReferenceClaimMetric):
    r"""Share of the answer's claims that the reference answer supports.

    .. math:: |\{c \in \text{answer} : \text{reference supports } c\}| / |\text{answer}|

    Is what it says right? The critic lists the claims of the answer, each to be checked by itself, and says which of
    them follow from the reference; only full support counts. `claims: sentences` takes sentences for claims, which any
    critic and any model of entailment can check; `verifier` names who checks, where that is not the critic. What is
    right but not in the reference counts as wrong, so that references must be complete. An answer that claims nothing
    is skipped: RAGChecker's code gives it 0. ragas' `factual_correctness` in its mode `precision` is the same, rounded
    to two digits.
    """

    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of the answer's claims."""
        claims = evaluation.scored_claims = await evaluation.extract_claims(evaluation.answer)
        if not claims:
            return Score.skip("no_claims")
        in_reference = await evaluation.check_support(claims, evaluation.reference)
        return (evaluation.add_proportion(proportion(in_reference), len(claims), _PRECISION_LABEL),)


@register("claim_recall")
@dataclass(frozen=True)
class ClaimRecall(ReferenceClaimMetric):
    r"""Share of the reference's claims that the answer supports.

    .. math:: |\{c \in \text{reference} : \text{answer supports } c\}| / |\text{reference}|

    The critic extracts the claims of the reference and decides which of them follow from the answer; only full support
    counts. An empty answer or a refusal scores 0. ragas' `factual_correctness` in its mode `recall` divides something
    else: the claims of the answer that are right, by these and those of the reference that are missing. The two differ
    wherever answer and reference have different numbers of claims.
    """

    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_reference": "the sample has no reference answer",
        "no_response": "no answer was asked for",
        **_NO_REFERENCE_CLAIMS,
    }

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of the reference's claims."""
        claims = evaluation.scored_claims = await evaluation.extract_claims(evaluation.reference)
        if not claims:
            return Score.skip("no_reference_claims")
        in_answer = await evaluation.check_support(claims, evaluation.answer)
        return (evaluation.add_proportion(proportion(in_answer), len(claims), _RECALL_LABEL),)


@register("claim_f1")
@dataclass(frozen=True)
class ClaimF1(ReferenceClaimMetric):
    r"""Answer correctness: the harmonic mean of claim precision and claim recall.

    .. math:: (1 + \beta^2) \cdot P \cdot R / (\beta^2 \cdot P + R)

    P is `claim_precision`, R `claim_recall` of the same answer; both are in the details (`dimensions`). An answer that
    claims nothing has P = R = 0, and scores 0. ragas' answer correctness is another number: one question sorts the
    claims of both texts into right, wrong and missing, F1 is TP / (TP + (FP + FN) / 2) of those counts, a quarter of
    the score is the cosine of both texts, and where either text has no claims F1 is 1 (in earlier versions where both
    have none). Similarity is a metric of its own here: `embedding_similarity`.
    """

    beta: float = field(default=1.0, kw_only=True)
    """Above 1 recall weighs more, below 1 precision."""

    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"
    skip_reasons: ClassVar[dict[str, str]] = ClaimRecall.skip_reasons

    def __post_init__(self) -> None:
        if isinstance(self.beta, bool) or not isinstance(self.beta, (int, float)) or not 0 < self.beta < math.inf:
            raise BadValueError(f"beta must be a number above 0, not {self.beta!r}")
        object.__setattr__(self, "beta", float(self.beta))
        super().__post_init__()

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The parts of the score."""
        return "precision", "recall"

    def combine(self, values: Sequence[float]) -> float:
        """The harmonic mean of both."""
        precision, recall = map(exact_fraction, values)
        return float(claim_f_beta(precision, recall, Fraction(self.beta)))

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """Precision and recall."""
        answer_claims, reference_claims = await evaluation.extract_both()
        evaluation.scored_claims = [*answer_claims, *reference_claims]
        if not reference_claims:
            return Score.skip("no_reference_claims")
        if not answer_claims:
            return 0.0, 0.0
        in_reference, in_answer = await gather_all(
            [
                evaluation.check_support(answer_claims, evaluation.reference),
                evaluation.check_support(reference_claims, evaluation.answer),
            ]
        )
        return evaluation.add_proportion(
            proportion(in_reference), len(answer_claims), _PRECISION_LABEL
        ), evaluation.add_proportion(proportion(in_answer), len(reference_claims), _RECALL_LABEL)

    def combination_formula(self) -> str:
        """The formula."""
        return f"(1 + β²) · P · R / (β² · P + R), with β = {signature_number(self.beta)}"

    def signature_options(self) -> dict[str, str]:
        """The judges, and ``beta`` if it is not 1."""
        return {**super().signature_options(), **({} if self.beta == 1 else {"beta": signature_number(self.beta)})}
