"""Where an answer's claims come from: its documents, what it knew itself, noise among the documents, or nowhere."""

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

    async def value(self, sheet: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The share of the answer's claims."""
        claims = await sheet.counted_claims(sheet.answer)
        if isinstance(claims, Score):
            return claims
        found = proportion(await sheet.in_context(claims))
        return (sheet.share(found, len(claims), "claims of the answer that the documents support, over all of them"),)


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

    async def value(self, sheet: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The share of claims that no document supports, and that the reference does, or does not."""
        claims = await sheet.counted_claims(sheet.answer)
        if isinstance(claims, Score):
            return claims
        correct, held = await gather_all([sheet.supported(claims, sheet.reference), sheet.in_context(claims)])
        found = unsupported_proportion(correct, held, is_correct=self.counts_correct)
        whose = "the reference alone supports" if self.counts_correct else "neither reference nor documents support"
        return (sheet.share(found, len(claims), f"claims of the answer that {whose}, over all of them"),)


@register("claim_hallucination")
@dataclass(frozen=True)
class ClaimHallucination(_ReferencedGrounding):
    r"""Share of the answer's claims that neither the reference nor the retrieved documents support: made up.

    .. math:: |\{c \in \text{answer} : \text{neither reference nor documents support } c\}| / |\text{answer}|

    With `claim_faithfulness` and `self_knowledge` of the same options it adds up to 1. An answer that claims nothing is
    skipped: RAGChecker's code gives it 0, the best there is. `hallucination_rate` looks at words instead, and needs no
    judge.
    """

    higher_is_better = False
    counts_correct: ClassVar[bool] = False


@register("self_knowledge")
@dataclass(frozen=True)
class SelfKnowledge(_ReferencedGrounding):
    r"""Share of the answer's claims that are right, by the reference, although no retrieved document supports them.

    .. math:: |\{c \in \text{answer} : \text{reference supports } c, \text{ documents do not}\}| / |\text{answer}|

    What the generator knew by itself. Counted as better the lower, since an answer should follow from its documents;
    where it need not, read it as a description. With `claim_faithfulness` and `claim_hallucination` of the same options
    it adds up to 1. An answer that claims nothing is skipped; RAGChecker's code gives it 0.
    """

    higher_is_better = False
    counts_correct: ClassVar[bool] = True


@register("noise_sensitivity")
@dataclass(frozen=True)
class NoiseSensitivity(ContextClaimMetric):
    r"""Share of the answer's claims that are wrong, by the reference, and come from the retrieved documents.

    .. math:: |\{c \in \text{answer} : \text{a document supports } c, \text{ the reference does not}\}| /
        |\text{answer}|

    A document is relevant if it supports a claim of the reference. `noise` says of which ones it counts: `relevant`,
    where it stands beside what is wanted; `irrelevant`, where no relevant one supports the claim as well; or `both`,
    the sum of these, which are in the details (`dimensions`) whatever is chosen. Each document is asked about by
    itself. RAGChecker's paper counts a claim that documents of both kinds support in both; its code, and ragas', counts
    it as relevant alone, as is done here. ragas' page gives a formula without the documents (wrong claims by all
    claims), its code is RAGChecker's. Nothing retrieved misleads nobody: 0. An answer that claims nothing is skipped.
    """

    noise: Literal["both", "relevant", "irrelevant"] = field(default="both", kw_only=True)
    """Of which documents."""

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
        """What it is made of."""
        return "relevant", "irrelevant"

    def combine(self, values: Sequence[float]) -> float:
        """The part that counts, or the sum of both."""
        relevant, irrelevant = map(exact_fraction, values)
        return float({"relevant": relevant, "irrelevant": irrelevant}.get(self.noise, relevant + irrelevant))

    async def value(self, sheet: ClaimEvaluation) -> Score | tuple[float, ...]:
        """What relevant documents and irrelevant ones led to."""
        if sheet.without_text:
            return Score.skip("no_text")
        said, wanted = await sheet.both_claims()
        sheet.counted = said
        if not said:
            return Score.skip("no_claims")
        if not wanted:
            return Score.skip("no_reference_claims")
        # All three are tables of a row per text: the reference is one.
        rows = await gather_all([_reference_row(sheet, said), sheet.by_document(said), sheet.by_document(wanted)])
        (correct,), table, gold = rows
        relevant, irrelevant = noise_sensitivity(correct, table, relevant_documents(gold))
        wrong, all_claims = "wrong claims of the answer that {} supports, over all claims", len(said)
        return (
            sheet.share(relevant, all_claims, wrong.format("a document with a claim of the reference (relevant)")),
            sheet.share(irrelevant, all_claims, wrong.format("none of those but another document (irrelevant)")),
        )

    def combination_formula(self) -> str:
        """What counts of the two."""
        return "relevant + irrelevant" if self.noise == "both" else f"{self.noise} alone"

    def signature_options(self) -> dict[str, str]:
        """Who decides, and whose noise counts."""
        return {**super().signature_options(), "noise": self.noise}


async def _reference_row(sheet: ClaimEvaluation, said: Sequence[str]) -> list[list[bool]]:
    return [await sheet.supported(said, sheet.reference)]
