"""Metrics over claims: faithfulness, correctness, retrieval quality by the claims of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

from ..core.metrics_base import RunInfo, declare
from ..core.registry import register, signature_number
from ..core.types import TargetCategory
from ..judge.ratings import gather_all
from ..options import PositiveFloat
from .claim_base import (
    ClaimEvaluation,
    ClaimMetric,
    ContextClaimMetric,
    EvidenceClaimMetric,
    SampleSkippedError,
    claim_f_beta,
    context_utilisation,
    noise_sensitivity,
    relevant_documents,
    unsupported_proportion,
)
from .judged_base import exact_fraction, proportion


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
    metadata = declare(
        reference="Es et al. 2023 (RAGAS); Ru et al. 2024 (RAGChecker)",
    )

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of supported claims."""
        return (await evaluation.supported_proportion(evaluation.answer),)


@dataclass(frozen=True)
class _ReferencedGrounding(EvidenceClaimMetric):
    """A metric over the answer's claims, the documents and the reference."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    metadata = declare(
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            **ContextClaimMetric.metadata.skip_reasons,
        },
        reference="Ru et al. 2024 (RAGChecker)",
    )
    counts_correct: ClassVar[bool]

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of claims without support by documents that the reference supports, or does not."""
        claims = await evaluation.extract_scored_claims(evaluation.answer)
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

    metadata = declare(
        higher_is_better=False,
    )
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

    metadata = declare(
        controls={},  # wrong claims are no self-knowledge, so that a wrong answer gets the best score
        higher_is_better=False,
    )
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
    metadata = declare(
        controls={},  # claims that no document supports do not count
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            **ContextClaimMetric.metadata.skip_reasons,
            "no_reference_claims": "the reference claims nothing",
        },
        reference="Ru et al. 2024 (RAGChecker)",
        higher_is_better=False,
    )

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The parts of the score."""
        return "relevant", "irrelevant"

    def combine(self, values: Sequence[float]) -> float:
        """The selected part, or the sum of both."""
        relevant, irrelevant = map(exact_fraction, values)
        return float({"relevant": relevant, "irrelevant": irrelevant}.get(self.noise, relevant + irrelevant))

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportions of wrong claims from relevant and from irrelevant documents."""
        answer_claims, reference_claims = await evaluation.extract_both()
        evaluation.num_scored = len(answer_claims)
        if not answer_claims or not reference_claims:
            raise SampleSkippedError("no_reference_claims" if answer_claims else "no_claims")
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


# --- answer correctness by claims: precision, recall and F1 of the answer's claims against the reference's -----------

_NO_REFERENCE_CLAIMS = {"no_reference_claims": "the reference claims nothing"}


@dataclass(frozen=True)
class ReferenceClaimMetric(ClaimMetric):
    """A metric that compares claims with the (first) reference answer."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            **ClaimMetric.metadata.skip_reasons,
        },
    )


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

    metadata = declare(
        reference="Ru et al. 2024 (RAGChecker)",
    )

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of the answer's claims."""
        return (await evaluation.supported_proportion(evaluation.answer, by=evaluation.reference),)


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

    metadata = declare(
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            "no_response": "no answer was asked for",
            **_NO_REFERENCE_CLAIMS,
        },
        reference="Ru et al. 2024 (RAGChecker)",
    )

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of the reference's claims."""
        return (await evaluation.supported_proportion(evaluation.reference, by=evaluation.answer),)


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

    beta: PositiveFloat = field(default=1.0, kw_only=True)
    """Above 1 recall weighs more, below 1 precision."""

    metadata = declare(
        skip_reasons=ClaimRecall.metadata.skip_reasons,
        reference="Ru et al. 2024 (RAGChecker)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "beta", float(self.beta))

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The parts of the score."""
        return "precision", "recall"

    def combine(self, values: Sequence[float]) -> float:
        """The harmonic mean of both."""
        precision, recall = map(exact_fraction, values)
        return float(claim_f_beta(precision, recall, Fraction(self.beta)))

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """Precision and recall."""
        answer_claims, reference_claims = await evaluation.extract_both()
        evaluation.num_scored = len(answer_claims) + len(reference_claims)
        if not reference_claims:
            raise SampleSkippedError("no_reference_claims")
        if not answer_claims:
            return 0.0, 0.0
        in_reference, in_answer = await gather_all(
            [
                evaluation.check_support(answer_claims, evaluation.reference),
                evaluation.check_support(reference_claims, evaluation.answer),
            ]
        )
        precision = evaluation.add_supported(in_reference, evaluation.answer, by=evaluation.reference)
        return precision, evaluation.add_supported(in_answer, evaluation.reference, by=evaluation.answer)

    def combination_formula(self) -> str:
        """The formula."""
        return f"(1 + β²) · P · R / (β² · P + R), with β = {signature_number(self.beta)}"

    def signature_options(self) -> dict[str, str]:
        """The judges, and ``beta`` if it is not 1."""
        return {**super().signature_options(), **({} if self.beta == 1 else {"beta": signature_number(self.beta)})}


# --- retrieval quality by the claims of the reference: recall and precision of documents, and their use --------------

_SKIPS = {
    "no_reference": "the sample has no reference answer",
    "no_reference_claims": "the reference claims nothing",
    "no_text": "the documents have no text",
}


@dataclass(frozen=True)
class _ReferenceContextMetric(ContextClaimMetric):
    """A metric over the reference's claims and the documents."""

    target = TargetCategory.RETRIEVAL_RELEVANCE
    metadata = declare(
        reads=frozenset({"retrieved"}),
        skip_reasons=_SKIPS,
        reference="Ru et al. 2024 (RAGChecker)",
    )

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The requested ``top_k``, if this metric reads more documents."""
        return run.top_k_option(self.k)


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

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of the reference's claims."""
        return (await evaluation.supported_proportion(evaluation.reference),)


@register("claim_context_precision", at="k")
@dataclass(frozen=True)
class ClaimContextPrecision(_ReferenceContextMetric):
    r"""Share of the first k retrieved documents that support at least one claim of the reference.

    .. math:: |\{d : d \text{ supports a claim of the reference}\}| / |\text{documents}|

    RAGChecker's context precision: order does not matter. It divides by the documents there are, k at most. ragas calls
    something else by that name, the average precision over judged documents: `judged_context_precision`. A document
    without text supports nothing. Nothing retrieved scores 0.
    """

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of documents."""
        claims = await evaluation.extract_scored_claims(evaluation.reference)
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
    metadata = declare(
        output_skips=frozenset({"nothing_to_use"}),
        skip_reasons={
            **_SKIPS,
            "no_response": "no answer was asked for",
            "nothing_to_use": "the documents support no claim of the reference",
        },
        reference="Ru et al. 2024 (RAGChecker)",
    )

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of the claims that could be used."""
        claims = await evaluation.extract_scored_claims(evaluation.reference)
        in_documents, in_answer = await gather_all(
            [evaluation.check_in_context(claims), evaluation.check_support(claims, evaluation.answer)]
        )
        found = context_utilisation(in_documents, in_answer)
        if found is None:
            raise SampleSkippedError("nothing_to_use")
        words = "claims of the reference that documents and answer support, over those that the documents support"
        return (evaluation.add_proportion(found, sum(in_documents), words),)
