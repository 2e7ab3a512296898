"""Sources of the answer's claims: faithfulness, self-knowledge, noise sensitivity and hallucination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..core.registry import register
from ..core.scores import Score
from ..core.types import TargetCategory
from ..judge.ratings import gather_all
from .answer_base import require_choice
from .claim_base import ContextClaimMetric, EvidenceClaimMetric
from .claim_evaluation import ClaimEvaluation
from .claim_verdicts import exact_fraction, noise_sensitivity, proportion, relevant_documents, unsupported_proportion

__all__ = ["ClaimFaithfulness", "ClaimHallucination", "NoiseSensitivity", "SelfKnowledge"]


@register("claim_faithfulness")
@dataclass(frozen=True)
class ClaimFaithfulness(EvidenceClaimMetric):
    r"""Share of the answer's claims that the retrieved documents support.

    .. math:: |\{c \in \text{answer} : \text{documents support } c\}| / |\text{answer}|

    The critic lists the claims of the answer and says which of them follow from the first `k` documents; only full
    support counts. By default documents are taken together in one question, as ragas does; with `evidence: each` one
    document must support a claim alone, as in RAGChecker, at one question per document. Nothing retrieved supports
    nothing. An answer that claims nothing is skipped; ragas gives it NaN, RAGChecker's code 0. In ragas' code the share
    is of the verdicts that the judge returned, however many; here a verdict for every claim is a must.
    """

    target = TargetCategory.GENERATION_FAITHFULNESS
    reference: ClassVar[str] = "Es et al. 2023 (RAGAS); Ru et al. 2024 (RAGChecker)"

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of supported claims."""
        claims = await evaluation.extract_scored_claims(evaluation.answer)
        if isinstance(claims, Score):
            return claims
        found = proportion(await evaluation.check_in_context(claims))
        return (
            evaluation.add_proportion(
                found, len(claims), "claims of the answer that the documents support, over all of them"
            ),
        )


@dataclass(frozen=True)
class _ReferencedGrounding(EvidenceClaimMetric):
    """A metric over the answer's claims, the documents and the reference."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_reference": "the sample has no reference answer",
        **ContextClaimMetric.skip_reasons,
    }
    counts_correct: ClassVar[bool]

    def required_fields(self) -> list[str]:
        """A reference answer."""
        return ["reference_answer"]

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of claims without support by documents that the reference supports, or does not."""
        claims = await evaluation.extract_scored_claims(evaluation.answer)
        if isinstance(claims, Score):
            return claims
        correct, in_documents = await gather_all(
            [evaluation.check_support(claims, evaluation.reference), evaluation.check_in_context(claims)]
        )
        found = unsupported_proportion(correct, in_documents, is_correct=self.counts_correct)
        condition = "the reference alone supports" if self.counts_correct else "neither reference nor documents support"
        return (
            evaluation.add_proportion(found, len(claims), f"claims of the answer that {condition}, over all of them"),
        )


@register("claim_hallucination")
@dataclass(frozen=True)
class ClaimHallucination(_ReferencedGrounding):
    r"""Share of the answer's claims that neither the reference nor the retrieved documents support: made up.

    .. math:: |\{c \in \text{answer} : \text{neither reference nor documents support } c\}| / |\text{answer}|

    With `claim_faithfulness` and `self_knowledge` of the same options it adds up to 1. An answer that claims nothing is
    skipped: RAGChecker's code gives it 0, the best there is. `hallucination_rate` compares words instead, and needs no
    judge.
    """

    higher_is_better = False
    counts_correct: ClassVar[bool] = False


@register("self_knowledge")
@dataclass(frozen=True)
class SelfKnowledge(_ReferencedGrounding):
    r"""Share of the answer's claims that are right, by the reference, although no retrieved document supports them.

    .. math:: |\{c \in \text{answer} : \text{reference supports } c, \text{ documents do not}\}| / |\text{answer}|

    The model's own knowledge. Lower is better, since an answer should follow from its documents; elsewhere read it as a
    description. With `claim_faithfulness` and `claim_hallucination` of the same options it adds up to 1. An answer that
    claims nothing is skipped; RAGChecker's code gives it 0.
    """

    higher_is_better = False
    counts_correct: ClassVar[bool] = True


@register("noise_sensitivity")
@dataclass(frozen=True)
class NoiseSensitivity(ContextClaimMetric):
    r"""Share of the answer's claims that are wrong, by the reference, and come from the retrieved documents.

    .. math:: |\{c \in \text{answer} : \text{a document supports } c, \text{ the reference does not}\}| /
        |\text{answer}|

    A document is relevant if it supports a claim of the reference. `noise` selects the documents: `relevant`;
    `irrelevant`, if no relevant one supports the claim as well; or `both`, the sum. Both parts are in the details
    (`dimensions`). Each document is checked by itself. RAGChecker's paper counts a claim that documents of both kinds
    support in both; its code, and ragas', counts it as relevant alone, as is done here. ragas' page gives a formula
    without the documents (wrong claims by all claims), its code is RAGChecker's. Nothing retrieved scores 0. An answer
    that claims nothing is skipped.
    """

    noise: Literal["both", "relevant", "irrelevant"] = field(default="both", kw_only=True)
    """The documents whose noise counts."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    higher_is_better = False
    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_reference": "the sample has no reference answer",
        **ContextClaimMetric.skip_reasons,
        "no_reference_claims": "the reference claims nothing",
    }

    def __post_init__(self) -> None:
        require_choice("noise", self.noise, ("both", "relevant", "irrelevant"))
        super().__post_init__()

    def required_fields(self) -> list[str]:
        """A reference answer."""
        return ["reference_answer"]

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The parts of the score."""
        return "relevant", "irrelevant"

    def combine(self, values: Sequence[float]) -> float:
        """The selected part, or the sum of both."""
        relevant, irrelevant = map(exact_fraction, values)
        return float({"relevant": relevant, "irrelevant": irrelevant}.get(self.noise, relevant + irrelevant))

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportions of wrong claims from relevant and from irrelevant documents."""
        if evaluation.documents_lack_text:
            return Score.skip("no_text")
        answer_claims, reference_claims = await evaluation.extract_both()
        evaluation.scored_claims = answer_claims
        if not answer_claims:
            return Score.skip("no_claims")
        if not reference_claims:
            return Score.skip("no_reference_claims")
        # Each result has one row per text; the reference is one text.
        rows = await gather_all(
            [
                _reference_row(evaluation, answer_claims),
                evaluation.check_by_document(answer_claims),
                evaluation.check_by_document(reference_claims),
            ]
        )
        (correct,), table, gold = rows
        relevant, irrelevant = noise_sensitivity(correct, table, relevant_documents(gold))
        wrong, all_claims = "wrong claims of the answer that {} supports, over all claims", len(answer_claims)
        return (
            evaluation.add_proportion(
                relevant, all_claims, wrong.format("a document with a claim of the reference (relevant)")
            ),
            evaluation.add_proportion(
                irrelevant, all_claims, wrong.format("none of those but another document (irrelevant)")
            ),
        )

    def combination_formula(self) -> str:
        """The selected part, or the sum."""
        return "relevant + irrelevant" if self.noise == "both" else f"{self.noise} alone"

    def signature_options(self) -> dict[str, str]:
        """The judges, and the documents whose noise counts."""
        return {**super().signature_options(), "noise": self.noise}


async def _reference_row(evaluation: ClaimEvaluation, claims: Sequence[str]) -> list[list[bool]]:
    return [await evaluation.check_support(claims, evaluation.reference)]
