"""Metrics over claims: their base classes, faithfulness, correctness, retrieval quality by the reference's claims."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal

from ..core.conventions import RankCutOff, SignatureOption, signature_number
from ..core.derivation import Cell, DerivationBuilder, format_number, join_items, quote_text
from ..core.metric_hooks import base_name
from ..core.metric_metadata import declared_options
from ..core.metrics_base import declare
from ..core.registry import register
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs, TargetCategory
from ..judge.critic import Critic, JudgeClient
from ..judge.nli import EntailmentFunction, NliModel
from ..judge.prompting import Prompt
from ..judge.ratings import Rating, critic_signature, gather_all, question_frames
from ..judge.support import (
    extract_claims,
    parse_verifier,
    require_extractor,
    resolve_verifier,
    split_critic,
    verifier_name,
)
from ..options import PositiveFloat
from ..text.sentences import split_sentences
from .judged_base import Verdicts, exact_fraction, parse_critic, proportion
from .judged_statements import (
    CheckedStatements,
    SampleSkippedError,
    Source,
    StatementEvaluation,
    StatementMetric,
    capitalise,
    document_sources,
    merge_sources,
)

# --- measures over verdicts on claims: exact, plain functions of one answer ------------------------------------------
# A verdict is true where the evidence supports all of a claim. A table has a row per document and a column per claim.


def supported_by_any(table: Sequence[Verdicts], claims: int) -> list[bool]:
    """Which claims at least one document supports."""
    return [any(column) for column in zip(*table, strict=True)] if table else [False] * claims


def relevant_documents(table: Sequence[Verdicts]) -> list[bool]:
    """Which documents support at least one claim of the reference."""
    return [any(row) for row in table]


def claim_f_beta(precision: Fraction, recall: Fraction, beta: Fraction = Fraction(1)) -> Fraction:
    """The weighted harmonic mean; above 1 ``beta`` favours recall. Two zeros give 0."""
    weight = beta * beta
    below = weight * precision + recall
    return (1 + weight) * precision * recall / below if below else Fraction(0)


def context_utilisation(in_context: Verdicts, in_answer: Verdicts) -> Fraction | None:
    """The proportion of the reference's claims in the documents that the answer has; ``None`` if there are none."""
    used = [answered for in_documents, answered in zip(in_context, in_answer, strict=True) if in_documents]
    return proportion(used) if used else None


def unsupported_proportion(correct: Verdicts, in_context: Verdicts, *, is_correct: bool) -> Fraction:
    """The proportion of the answer's claims without support by documents that are correct, or are not."""
    return proportion(
        [
            supported == is_correct and not in_documents
            for supported, in_documents in zip(correct, in_context, strict=True)
        ]
    )


def noise_sensitivity(correct: Verdicts, table: Sequence[Verdicts], relevant: Verdicts) -> tuple[Fraction, Fraction]:
    """The proportions of wrong claims from a relevant document, and from irrelevant ones alone."""
    claims = len(correct)
    from_relevant = supported_by_any([row for row, useful in zip(table, relevant, strict=True) if useful], claims)
    from_any = supported_by_any(table, claims)
    wrong = [not is_correct for is_correct in correct]
    relevant_noise = [bad and useful for bad, useful in zip(wrong, from_relevant, strict=True)]
    irrelevant_noise = [
        bad and in_documents and not useful
        for bad, in_documents, useful in zip(wrong, from_any, from_relevant, strict=True)
    ]
    return proportion(relevant_noise), proportion(irrelevant_noise)


# --- evaluation of the claims of one sample: extraction, verification and the counted proportions --------------------


@dataclass(frozen=True, slots=True)
class CountedProportion:
    """A proportion, with its counts and label."""

    count: int
    of: int
    label: str
    """Label, such as ``claims of the answer that the documents support, over all of them``."""


class ClaimEvaluation(StatementEvaluation):
    """The claims of one sample in one repeat of the judgement: extracts, verifies and counts them."""

    def __init__(
        self, metric: ClaimMetric, judge: JudgeClient, sample: EvaluationSample, output: SystemOutputs, repeat: int
    ) -> None:
        super().__init__(metric, judge, sample, output, repeat)
        self._metric = metric
        self.num_scored = 0
        """The number of claims that the score is about."""
        self.decomposed: list[tuple[Source, list[str]]] = []
        """The decomposed texts with their claims."""
        self.proportions: list[CountedProportion] = []
        """The proportions that make up the score."""

    @property
    def reference(self) -> Source:
        """The first reference answer."""
        reference = self.sample.reference_answer
        return Source("the reference", ("" if reference is None else reference.text,))

    @property
    def documents(self) -> list[Source]:
        """The documents that count as evidence."""
        return document_sources(self.output.retrieved[: getattr(self._metric, "k", None)])

    async def extract_claims(self, of: Source) -> list[str]:
        """The claims of a text."""
        (text,) = of.texts
        if self._metric.claims == "sentences":
            claims = list(dict.fromkeys(split_sentences(text)))
        else:
            claims = await extract_claims(
                self._judge,
                self._metric._resolved_critic(),
                text,
                question=question_frames(self.sample),
                prompt=self._metric.prompts_used[0],
                source_name=of.name,
                **self._request_options,
            )
        self.decomposed.append((of, claims))
        return claims

    async def extract_scored_claims(self, of: Source) -> list[str]:
        """The claims that the score is about; the sample is skipped if there are none."""
        claims = await self.extract_claims(of)
        self.num_scored = len(claims)
        if not claims:
            raise SampleSkippedError("no_reference_claims" if of == self.reference else "no_claims")
        return claims

    async def extract_both(self) -> tuple[list[str], list[str]]:
        """The claims of the answer and those of the reference."""
        answer_claims, reference_claims = await gather_all(
            [self.extract_claims(self.answer), self.extract_claims(self.reference)]
        )
        return answer_claims, reference_claims

    async def check_support(self, claims: Sequence[str], by: Source) -> list[bool]:
        """Which claims a source supports, all its texts together."""
        return [verdict.supported for verdict in await self.verify(claims, by)]

    async def check_by_document(self, claims: Sequence[str]) -> list[list[bool]]:
        """Which claims each document supports by itself."""
        return await gather_all(self.check_support(claims, document) for document in self.documents)

    async def check_in_context(self, claims: Sequence[str]) -> list[bool]:
        """Which claims the documents support: together, or one of them alone."""
        if getattr(self._metric, "evidence", "joined") == "joined":
            return await self.check_support(claims, merge_sources(self.documents, "the documents"))
        return supported_by_any(await self.check_by_document(claims), len(claims))

    async def supported_proportion(self, of: Source, by: Source | None = None) -> float:
        """The proportion of the claims of a text that another one supports, by default the documents."""
        claims = await self.extract_scored_claims(of)
        verdicts = await (self.check_in_context(claims) if by is None else self.check_support(claims, by))
        return self.add_supported(verdicts, of, by)

    def add_supported(self, verdicts: Sequence[bool], of: Source, by: Source | None) -> float:
        """Record the proportion of the claims of a text that another one supports, or the documents."""
        condition = "the documents support" if by is None else f"{by.name} supports"
        label = f"claims of {of.name} that {condition}, over all of them"
        return self.add_proportion(proportion(verdicts), len(verdicts), label)

    def add_proportion(self, value: Fraction, of: int, label: str) -> float:
        """Record a proportion with its label, and return it as a float."""
        self.proportions.append(CountedProportion(int(value * of), of, label))
        return float(value)


# --- base classes of metrics over claims: who extracts claims, who verifies them, and their scores -------------------


@dataclass(frozen=True)
class ClaimMetric(StatementMetric):
    """A metric over the claims of an answer or of its reference, and whether they are supported."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False, metadata={"convert": parse_critic})
    """Extracts the claims, and verifies them unless there is a ``verifier``: a critic, or ``{use: NAME}`` in a plan."""
    claims: Literal["extracted", "sentences"] = field(default="extracted", kw_only=True)
    """Claims extracted by the critic, or one claim per sentence."""
    verifier: Any = field(default=None, kw_only=True, hash=False, metadata={"convert": parse_verifier})
    """Verifies claims instead of the critic: another critic, an NLI function, ``{nli: PATH}``."""
    claims_prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt for extracting claims: the path of a file, or a ``Prompt``."""
    support_prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt for verifying them."""
    _prompt_options: ClassVar[tuple[str, ...]] = ("claims_prompt", "support_prompt")

    metadata = declare(
        output_skips=frozenset({"no_claims"}),
        skip_reasons={
            "no_response": "no answer was asked for",
            "no_claims": "the answer claims nothing: it is empty, or it declines",
        },
        prompt_names=("claims", "support"),
    )
    _own_counts: ClassVar[tuple[str, ...]] = ("num_claims",)
    _evaluation_type: ClassVar[type[StatementEvaluation]] = ClaimEvaluation

    def __post_init__(self) -> None:
        critic, verifier = split_critic(self.critic, self.verifier)
        object.__setattr__(self, "critic", critic)
        object.__setattr__(self, "verifier", verifier)
        # Sentences need no extraction before they are verified.
        object.__setattr__(self, "asks_follow_ups", self.claims == "extracted")
        super().__post_init__()

    def required_fields(self) -> list[str]:
        """A reference answer, if samples without one are skipped."""
        return ["reference_answer"] if "no_reference" in self.metadata.skip_reasons else []

    @property
    def _needs_repeats(self) -> bool:
        """Whether a judge is called, to extract claims or to verify them."""
        return self.claims == "extracted" or super()._needs_repeats

    def _resolved_critic(self) -> Critic:
        """The critic that extracts claims."""
        require_extractor(critic := super()._resolved_critic(), self.name)
        return critic

    def _checker(self) -> Critic | EntailmentFunction | NliModel:
        """The critic or model that verifies claims."""
        if self.verifier is None:
            return super()._resolved_critic()
        return resolve_verifier(self.verifier, what=f"the verifier of metric '{self.name}'")

    def _require_judges(self) -> None:
        """Raise unless there is a critic that extracts claims and a verifier."""
        if self.claims == "extracted":
            self._resolved_critic()
        super()._require_judges()

    @abstractmethod
    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The values of one judgement."""

    async def _rate(self, evaluation: ClaimEvaluation) -> Rating:
        """The values of one judgement, and the number of claims."""
        values = await self.value(evaluation)
        return Rating(tuple(map(float, values)), counts=(float(evaluation.num_scored),))

    def _combination_formula(self) -> str:
        """The formula that combines the parts (``_dimension_names``)."""
        return ""

    def _add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[ClaimEvaluation],
    ) -> None:
        """Add the texts that claims were extracted from or compared with."""
        shown: dict[str, Source] = {}
        for evaluation in evaluations:
            sources = (*(of for of, _ in evaluation.decomposed), *(checked.against for checked in evaluation.checked))
            shown |= {source.name: source for source in sources}
        for source in shown.values():
            name = capitalise(source.name) if source.name.startswith("the ") else f"Document {source.name}"
            steps.add_step(f"{name}: {join_items(map(quote_text, source.texts))}")

    def _add_result_steps(self, steps: DerivationBuilder, evaluation: ClaimEvaluation, rating: Rating) -> None:
        """Add the claims with their verdicts, the proportions and their combination."""
        for of, claims in evaluation.decomposed:
            checked = [part for part in evaluation.checked if part.statements is claims and part.verdicts]
            if checked:
                reasons = ("why",) if len(checked) == 1 else ()
                headers = ("claim", *(part.against.name for part in checked), *reasons)
                rows = [_row(claim, place, checked) for place, claim in enumerate(claims)]
                steps.table(f"The claims of {of.name}, and how far they are supported", headers, rows)
            else:
                steps.table(f"The claims of {of.name}: {len(claims)}", ("claim",), [(claim,) for claim in claims])
        for fraction in evaluation.proportions:
            value = fraction.count / fraction.of
            steps.add_step(
                f"{capitalise(fraction.label)}: {fraction.count} / {fraction.of} = {format_number(value)}", value
            )
        if self._dimension_names:
            parts = zip(self._dimension_names, map(format_number, rating.values), strict=True)
            shown = ", ".join(f"{name} = {value}" for name, value in parts)
            steps.add_step(f"{self._combination_formula()}: {shown}")

    def _judging_prompts(self) -> dict[str, Prompt]:
        """The prompts that the critic and the verifier answer."""
        verifier = {} if self._uses_nli else {"verifier": self.prompts_used[1]}
        return {"critic": self.prompts_used[0], **verifier}

    def signature_options(self) -> dict[str, str]:
        """The critic, the verifier and their prompts, and what the class declares."""
        extracted = self.claims == "extracted"
        return {
            **({"critic": critic_signature(self.critic)} if extracted or self.verifier is None else {}),
            "claims": self.prompts_used[0].id if extracted else "sentences",
            **({} if self.verifier is None else {"verifier": verifier_name(self.verifier)}),
            **({} if self._uses_nli else {"support": self.prompts_used[1].id}),
            **declared_options(self, self.metadata),
        }


def _row(claim: str, place: int, checked: Sequence[CheckedStatements]) -> tuple[Cell, ...]:
    verdicts = [statements.verdicts[place] for statements in checked]
    why = (verdicts[0].rationale,) if len(checked) == 1 else ()
    return (claim, *(verdict.level.label for verdict in verdicts), *why)


@dataclass(frozen=True)
class ContextClaimMetric(ClaimMetric):
    """A metric over claims and what the first ``k`` retrieved documents support of them."""

    target = TargetCategory.GENERATION_FAITHFULNESS
    k: RankCutOff | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""

    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        skip_reasons={
            **ClaimMetric.metadata.skip_reasons,
            "no_text": "the documents have no text",
        },
        signature={"k": "unnamed_k"},
    )

    @property
    def unnamed_k(self) -> int | None:
        """``k``, unless the name contains it."""
        return None if base_name(self).endswith(f"@{self.k}") else self.k

    def _known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """Skips documents of which none has text."""
        texts = [item.doc.text or "" for item in output.retrieved[: self.k]]
        return Score.skip("no_text") if texts and not any(map(str.strip, texts)) else None


@dataclass(frozen=True)
class EvidenceClaimMetric(ContextClaimMetric):
    """A metric over claims whose evidence is all documents together, or each document."""

    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    """All documents together in one request; or each document, one of which must support a claim alone."""

    metadata = declare(signature={"evidence": "evidence"})


# --- faithfulness: claims of the answer that the documents support, and noise sensitivity ----------------------------


@register("claim_faithfulness")
@dataclass(frozen=True)
class ClaimFaithfulness(EvidenceClaimMetric):
    r"""Proportion of the answer's claims that the retrieved documents support.

    .. math:: |\{c \in \text{answer} : \text{documents support } c\}| / |\text{answer}|

    The critic lists the claims of the answer and says which of them follow from the first `k` documents; only full
    support counts. By default documents are taken together in one question, as ragas does; with `evidence: each` one
    document must support a claim alone, as in RAGChecker, at one question per document. Nothing retrieved supports
    nothing. An answer that claims nothing is skipped; ragas gives it NaN, RAGChecker's code 0. In ragas' code the share
    is of the verdicts that the judge returned, however many; here a verdict for every claim is a must.
    """

    metadata = declare(
        reference="Es et al. 2023 (RAGAS); Ru et al. 2024 (RAGChecker)",
    )

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of supported claims."""
        return (await evaluation.supported_proportion(evaluation.answer),)


@dataclass(frozen=True)
class _ReferencedGrounding(EvidenceClaimMetric):
    """A metric over the answer's claims, the documents and the reference."""

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
    r"""Proportion of the answer's claims that neither the reference nor the retrieved documents support: made up.

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
    r"""Proportion of the answer's claims that are right, by the reference, although no retrieved document
    supports them.

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
    r"""Proportion of the answer's claims that are wrong, by the reference, and come from the retrieved documents.

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

    metadata = declare(
        controls={},  # claims that no document supports do not count
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            **ContextClaimMetric.metadata.skip_reasons,
            "no_reference_claims": "the reference claims nothing",
        },
        reference="Ru et al. 2024 (RAGChecker)",
        higher_is_better=False,
        signature={"noise": "noise"},
    )
    _dimension_names = ("relevant", "irrelevant")
    """The parts of the score."""

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

    def _combination_formula(self) -> str:
        """The selected part, or the sum."""
        return "relevant + irrelevant" if self.noise == "both" else f"{self.noise} alone"


async def _reference_row(evaluation: ClaimEvaluation, claims: Sequence[str]) -> list[list[bool]]:
    return [await evaluation.check_support(claims, evaluation.reference)]


# --- answer correctness by claims: precision, recall and F1 of the answer's claims against the reference's -----------


@dataclass(frozen=True)
class ReferenceClaimMetric(ClaimMetric):
    """A metric that compares claims with the (first) reference answer."""

    target = TargetCategory.GENERATION_CORRECTNESS
    metadata = declare(
        skip_reasons={
            "no_reference": "the sample has no reference answer",
            **ClaimMetric.metadata.skip_reasons,
        },
        reference="Ru et al. 2024 (RAGChecker)",
    )


@register("claim_precision")
@dataclass(frozen=True)
class ClaimPrecision(ReferenceClaimMetric):
    r"""Proportion of the answer's claims that the reference answer supports.

    .. math:: |\{c \in \text{answer} : \text{reference supports } c\}| / |\text{answer}|

    Is what it says right? The critic lists the claims of the answer, each to be checked by itself, and says which of
    them follow from the reference; only full support counts. `claims: sentences` takes sentences for claims, which any
    critic and any model of entailment can check; `verifier` names who checks, where that is not the critic. What is
    right but not in the reference counts as wrong, so that references must be complete. An answer that claims nothing
    is skipped: RAGChecker's code gives it 0. ragas' `factual_correctness` in its mode `precision` is the same, rounded
    to two digits.
    """

    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The proportion of the answer's claims."""
        return (await evaluation.supported_proportion(evaluation.answer, by=evaluation.reference),)


@register("claim_recall")
@dataclass(frozen=True)
class ClaimRecall(ReferenceClaimMetric):
    r"""Proportion of the reference's claims that the answer supports.

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
            "no_reference_claims": "the reference claims nothing",
        },
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
        signature={"beta": SignatureOption("beta", unless=1)},
    )
    _dimension_names = ("precision", "recall")
    """The parts of the score."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "beta", float(self.beta))

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

    def _combination_formula(self) -> str:
        """The formula."""
        return f"(1 + β²) · P · R / (β² · P + R), with β = {signature_number(self.beta)}"


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
        reads_depth="k",
    )


@register("claim_context_recall", at="k")
@dataclass(frozen=True)
class ClaimContextRecall(_ReferenceContextMetric, EvidenceClaimMetric):
    r"""Proportion of the reference's claims that the first k retrieved documents support.

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
    r"""Proportion of the first k retrieved documents that support at least one claim of the reference.

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
