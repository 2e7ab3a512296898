"""Base classes of metrics over claims: extraction, verification, counted proportions, and derivations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..core.conventions import RankCutOff
from ..core.derivation import Cell, DerivationBuilder, format_number, join_items, quote_text
from ..core.metrics_base import declare
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.critic import Critic, JudgeClient
from ..judge.nli import EntailmentFunction, NliModel
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import Rating, critic_signature, gather_all, question_frames
from ..judge.support import (
    bound_verifier,
    extract_claims,
    parse_verifier,
    require_extractor,
    resolve_verifier,
    verifier_name,
)
from ..text.sentences import split_sentences
from .judged_base import (
    CheckedStatements,
    Source,
    StatementEvaluation,
    StatementMetric,
    Verdicts,
    capitalise,
    document_sources,
    merge_sources,
    proportion,
)

# --- measures over verdicts on claims: exact, plain functions of one answer ------------------------------------------
# A verdict is true where the evidence supports all of a claim. A table has a row per document and a column per claim.


def supported_by_any(table: Sequence[Verdicts], claims: int) -> list[bool]:
    """Which claims at least one document supports."""
    return [any(row[claim] for row in table) for claim in range(claims)]


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
    wrong = [not one for one in correct]
    relevant_noise = [bad and useful for bad, useful in zip(wrong, from_relevant, strict=True)]
    irrelevant_noise = [
        bad and in_documents and not useful
        for bad, in_documents, useful in zip(wrong, from_any, from_relevant, strict=True)
    ]
    return proportion(relevant_noise), proportion(irrelevant_noise)


# --- evaluation of the claims of one sample: extraction, verification and the counted proportions --------------------


class SampleSkippedError(Exception):
    """Ends the evaluation of a sample that a metric does not apply to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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
        claims = await self._extract(text, of.name)
        self.decomposed.append((of, claims))
        return claims

    async def _extract(self, text: str, name: str) -> list[str]:
        if self._metric.claims == "sentences":
            return list(dict.fromkeys(split_sentences(text)))
        return await extract_claims(
            self._judge,
            self._metric.judging_critic(),
            text,
            question=question_frames(self.sample),
            prompt=self._metric.extraction_prompt,
            source_name=name,
            **self._request_options,
        )

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
        return [one.supported for one in await self.verify(claims, by)]

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
    critic: Any = field(default=None, hash=False)
    """Extracts the claims, and verifies them unless there is a ``verifier``: a critic, or ``{use: NAME}`` in a plan."""
    claims: Literal["extracted", "sentences"] = field(default="extracted", kw_only=True)
    """Claims extracted by the critic, or one claim per sentence."""
    verifier: Any = field(default=None, kw_only=True, hash=False)
    """Verifies claims instead of the critic: another critic, an NLI function, ``{nli: PATH}``."""
    claims_prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt for extracting claims: the path of a file, or a ``Prompt``."""
    support_prompt: Any = field(default=None, kw_only=True, hash=False)
    """A custom prompt for verifying them."""
    prompts_used: tuple[Prompt, Prompt] = field(init=False, repr=False)
    """The prompts for extracting and for verifying claims, loaded."""

    metadata = declare(
        output_skips=frozenset({"no_claims"}),
        skip_reasons={
            "no_response": "no answer was asked for",
            "no_claims": "the answer claims nothing: it is empty, or it declines",
        },
        prompt_names=("claims", "support"),
    )
    own_count_names: ClassVar[tuple[str, ...]] = ("num_claims",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verifier", parse_verifier(self.verifier))
        extraction = resolve_prompt(self.claims_prompt, otherwise="claims")
        verification = resolve_prompt(self.support_prompt, otherwise="support")
        object.__setattr__(self, "prompts_used", (extraction, verification))
        # Sentences need no extraction before they are verified.
        object.__setattr__(self, "asks_follow_ups", self.claims == "extracted")
        super().__post_init__()

    @property
    def prompt_texts(self) -> dict[str, str]:
        """The texts of prompt files, by the options that name them."""
        options = {"claims_prompt": self.claims_prompt, "support_prompt": self.support_prompt}
        prompts = zip(options.items(), self.prompts_used, strict=True)
        return {key: prompt.source for (key, option), prompt in prompts if isinstance(option, (str, Path))}

    def required_fields(self) -> list[str]:
        """A reference answer, if samples without one are skipped."""
        return ["reference_answer"] if "no_reference" in self.metadata.skip_reasons else []

    @property
    def known_verifier(self) -> Any:
        """The verifier, as far as it is resolved."""
        return bound_verifier(self.verifier)

    @property
    def extraction_prompt(self) -> Prompt:
        """The prompt that asks for claims."""
        return self.prompts_used[0]

    @property
    def verification_prompt(self) -> Prompt:
        """The prompt that asks for verdicts."""
        return self.prompts_used[1]

    @property
    def needs_judge(self) -> bool:
        """Whether a judge is called, to extract claims or to verify them."""
        return self.claims == "extracted" or super().needs_judge

    def judging_critic(self) -> Critic:
        """The critic that extracts claims."""
        critic = super().judging_critic()
        require_extractor(critic, self.name)
        return critic

    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """The critic or model that verifies claims."""
        if self.verifier is None:
            return super().judging_critic()
        return resolve_verifier(self.verifier, what=f"the verifier of metric '{self.name}'")

    def require_judges(self) -> None:
        """Raise unless there is a critic that extracts claims and a verifier."""
        if self.claims == "extracted":
            self.judging_critic()
        super().require_judges()

    @abstractmethod
    async def value(self, evaluation: ClaimEvaluation) -> tuple[float, ...]:
        """The values of one judgement."""

    async def evaluate(
        self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient, repeat: int
    ) -> tuple[ClaimEvaluation, Rating | Score]:
        """One judgement of a sample: its claims, and the values with the number of claims, or a skip."""
        evaluation = ClaimEvaluation(self, judge, sample, output, repeat)
        try:
            values = await self.value(evaluation)
        except SampleSkippedError as skipped:
            return evaluation, Score.skip(skipped.reason)
        return evaluation, Rating(tuple(map(float, values)), counts=(float(evaluation.num_scored),))

    def combination_formula(self) -> str:
        """The formula that combines the parts (``dimension_names``)."""
        return ""

    def add_input_steps(
        self,
        steps: DerivationBuilder,
        sample: EvaluationSample,
        output: SystemOutputs,
        evaluations: Sequence[ClaimEvaluation],
    ) -> None:
        """Add the texts that claims were extracted from or compared with."""
        shown: dict[str, Source] = {}
        for one in evaluations:
            sources = (*(of for of, _ in one.decomposed), *(checked.against for checked in one.checked))
            shown |= {source.name: source for source in sources}
        for source in shown.values():
            known = source.name.startswith("the ")
            name = capitalise(source.name) if known else f"Document {source.name}"
            steps.add_step(f"{name}: {join_items(map(quote_text, source.texts))}")

    def add_result_steps(self, steps: DerivationBuilder, evaluation: ClaimEvaluation, rating: Rating) -> None:
        """Add the claims with their verdicts, the proportions and their combination."""
        for of, claims in evaluation.decomposed:
            checked = [one for one in evaluation.checked if one.statements is claims and one.verdicts]
            if checked:
                headers = ("claim", *(one.against.name for one in checked), *(("why",) if len(checked) == 1 else ()))
                rows = [_row(claim, place, checked) for place, claim in enumerate(claims)]
                steps.table(f"The claims of {of.name}, and how far they are supported", headers, rows)
            else:
                steps.table(f"The claims of {of.name}: {len(claims)}", ("claim",), [(claim,) for claim in claims])
        for one in evaluation.proportions:
            value = one.count / one.of
            steps.add_step(f"{capitalise(one.label)}: {one.count} / {one.of} = {format_number(value)}", value)
        if self.dimension_names:
            parts = zip(self.dimension_names, map(format_number, rating.values), strict=True)
            shown = ", ".join(f"{name} = {value}" for name, value in parts)
            steps.add_step(f"{self.combination_formula()}: {shown}")

    def judging_prompts(self) -> dict[str, Prompt]:
        """The prompts that the critic and the verifier answer."""
        verifier = {} if self.uses_nli else {"verifier": self.verification_prompt}
        return {"critic": self.extraction_prompt, **verifier}

    def signature_options(self) -> dict[str, str]:
        """The critic, the verifier and their prompts."""
        extracted = self.claims == "extracted"
        return {
            **({"critic": critic_signature(self.critic)} if extracted or self.verifier is None else {}),
            "claims": self.extraction_prompt.id if extracted else "sentences",
            **({} if self.verifier is None else {"verifier": verifier_name(self.verifier)}),
            **({} if self.uses_nli else {"support": self.verification_prompt.id}),
        }


def _row(claim: str, place: int, checked: Sequence[CheckedStatements]) -> tuple[Cell, ...]:
    verdicts = [one.verdicts[place] for one in checked]
    why = (verdicts[0].rationale,) if len(checked) == 1 else ()
    return (claim, *(one.level.label for one in verdicts), *why)


@dataclass(frozen=True)
class ContextClaimMetric(ClaimMetric):
    """A metric over claims and what the first ``k`` retrieved documents support of them."""

    k: RankCutOff | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""

    metadata = declare(
        reads=frozenset({"response", "retrieved"}),
        skip_reasons={
            **ClaimMetric.metadata.skip_reasons,
            "no_text": "the documents have no text",
        },
    )

    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """Skips documents of which none has text."""
        texts = [item.doc.text or "" for item in output.retrieved[: self.k]]
        return Score.skip("no_text") if texts and not any(map(str.strip, texts)) else None

    def signature_options(self) -> dict[str, str]:
        """The judges, and ``k`` unless the name contains it."""
        named = self.k is None or self.base_name.endswith(f"@{self.k}")
        return {**super().signature_options(), **({} if named else {"k": str(self.k)})}


@dataclass(frozen=True)
class EvidenceClaimMetric(ContextClaimMetric):
    """A metric over claims whose evidence is all documents together, or each document."""

    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    """All documents together in one request; or each document, one of which must support a claim alone."""

    def signature_options(self) -> dict[str, str]:
        """The judges and the kind of evidence."""
        return {**super().signature_options(), "evidence": self.evidence}
