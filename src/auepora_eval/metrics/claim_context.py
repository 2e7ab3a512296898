"""Retrieval quality by the claims of the reference: recall and precision of documents, and their use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.metrics_base import RunInfo
from ..core.registry import register
from ..core.scores import Score
from ..core.types import TargetCategory
from ..judge.ratings import gather_all
from .claim_base import ContextClaimMetric, EvidenceClaimMetric
from .claim_evaluation import ClaimEvaluation
from .claim_verdicts import context_utilisation, proportion, relevant_documents

__all__ = ["ClaimContextPrecision", "ClaimContextRecall", "ContextUtilisation"]

_SKIPS = {
    "no_reference": "the sample has no reference answer",
    "no_reference_claims": "the reference claims nothing",
    "no_text": "the documents have no text",
}


@dataclass(frozen=True)
class _ReferenceContextMetric(ContextClaimMetric):
    """A metric over the reference's claims and the documents."""

    target = TargetCategory.RETRIEVAL_RELEVANCE
    reads: ClassVar[frozenset[str]] = frozenset({"retrieved"})
    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"
    skip_reasons: ClassVar[dict[str, str]] = _SKIPS

    def required_fields(self) -> list[str]:
        """A reference answer."""
        return ["reference_answer"]

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more documents."""
        deep = self.k is None or (run.top_k is not None and run.top_k < self.k)
        return {"top_k": str(run.top_k)} if run.top_k is not None and deep else {}


@register("claim_context_recall", at="k")
@dataclass(frozen=True)
class ClaimContextRecall(_ReferenceContextMetric, EvidenceClaimMetric):
    r"""Share of the reference's claims that the first k retrieved documents support.

    .. math:: |\{c \in \text{reference} : \text{documents support } c\}| / |\text{reference}|

    Needs no gold documents, only a reference answer. By default all documents are checked together in one request; with
    `evidence: each` one document must support a claim alone, as in RAGChecker, where this is called claim recall. In
    ragas the same request splits the reference into statements and checks them, so its denominator may change from call
    to call. Nothing retrieved scores 0.
    """

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of the reference's claims."""
        claims = await evaluation.extract_scored_claims(evaluation.reference)
        if isinstance(claims, Score):
            return claims
        found = proportion(await evaluation.check_in_context(claims))
        return (
            evaluation.add_proportion(
                found, len(claims), "claims of the reference that the documents support, over all of them"
            ),
        )


@register("claim_context_precision", at="k")
@dataclass(frozen=True)
class ClaimContextPrecision(_ReferenceContextMetric):
    r"""Share of the first k retrieved documents that support at least one claim of the reference.

    .. math:: |\{d : d \text{ supports a claim of the reference}\}| / |\text{documents}|

    RAGChecker's context precision: order does not matter. It divides by the documents there are, k at most. ragas calls
    something else by that name, the average precision over judged documents: `judged_context_precision`. A document
    without text supports nothing. Nothing retrieved scores 0.
    """

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of documents."""
        claims = await evaluation.extract_scored_claims(evaluation.reference)
        if isinstance(claims, Score):
            return claims
        useful = relevant_documents(await evaluation.check_by_document(claims))
        words = "documents that support a claim of the reference, over all of them"
        return (evaluation.add_proportion(proportion(useful), len(useful), words) if useful else 0.0,)


@register("context_utilisation")
@dataclass(frozen=True)
class ContextUtilisation(EvidenceClaimMetric):
    r"""Of the reference's claims that the retrieved documents support, the share that the answer has as well.

    .. math:: |\{c \in \text{reference} : \text{documents and answer support } c\}| \;/\;
        |\{c \in \text{reference} : \text{documents support } c\}|

    How well the generator uses the retrieved documents. If they support none of the reference's claims, the sample is
    skipped (`nothing_to_use`): RAGChecker's code gives it 0, which blames the generator for the search. What ragas
    calls `context_utilization` is the average precision of the documents by their use for the answer:
    `judged_context_precision` with `against: answer`.
    """

    target = TargetCategory.GENERATION_FAITHFULNESS
    reference: ClassVar[str] = "Ru et al. 2024 (RAGChecker)"
    output_skips: ClassVar[frozenset[str]] = frozenset({"nothing_to_use"})
    skip_reasons: ClassVar[dict[str, str]] = {
        **_SKIPS,
        "no_response": "no answer was asked for",
        "nothing_to_use": "the documents support no claim of the reference",
    }

    def required_fields(self) -> list[str]:
        """A reference answer."""
        return ["reference_answer"]

    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The proportion of the claims that could be used."""
        claims = await evaluation.extract_scored_claims(evaluation.reference)
        if isinstance(claims, Score):
            return claims
        in_documents, in_answer = await gather_all(
            [evaluation.check_in_context(claims), evaluation.check_support(claims, evaluation.answer)]
        )
        found = context_utilisation(in_documents, in_answer)
        if found is None:
            return Score.skip("nothing_to_use")
        words = "claims of the reference that documents and answer support, over those that the documents support"
        return (evaluation.add_proportion(found, sum(in_documents), words),)
