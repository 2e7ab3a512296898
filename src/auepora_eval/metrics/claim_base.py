"""Base classes of metrics over claims: extraction, verification, counted proportions, and derivations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from ..core.conventions import RankCutOff
from ..core.derivation import (
    NO_CONTEXT,
    Cell,
    Derivation,
    DerivationBuilder,
    ExplainContext,
    format_number,
    join_items,
    quote_text,
)
from ..core.metrics_base import declare
from ..core.registry import parse_use
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.critic import Critic, JudgeClient
from ..judge.extraction import extract_claims, require_extractor
from ..judge.nli import EntailmentFunction, NliModel
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import (
    Rating,
    RatingSet,
    critic_signature,
    gather_all,
    question_frames,
    require_critic,
    resolve_critic,
    run_repeats,
)
from ..judge.support import check_support, parse_verifier, resolve_verifier, verifier_name
from ..text.sentences import split_sentences
from .judged_base import (
    CheckedStatements,
    SharedJudgementMixin,
    Source,
    add_mean_step,
    document_sources,
    make_replay_critic,
    merge_sources,
    replay_repeats,
    supported_by_any,
)

if TYPE_CHECKING:
    from ..judge.critic import JudgeClient

# --- evaluation of the claims of one sample: extraction, verification and the counted proportions --------------------


@dataclass(frozen=True, slots=True)
class CountedProportion:
    """A proportion, with its counts and label."""

    count: int
    of: int
    label: str
    """Label, such as ``claims of the answer that the documents support, over all of them``."""


class ClaimEvaluation:
    """The claims of one sample in one repeat of the judgement: extracts, verifies and counts them."""

    def __init__(
        self,
        metric: ClaimMetric,
        judge: JudgeClient,
        sample: EvaluationSample,
        output: SystemOutputs,
        repeat: int,
        *,
        extractor: Critic | None = None,
        checker: Critic | EntailmentFunction | NliModel | None = None,
    ) -> None:
        """``extractor`` and ``checker`` replace those of the metric, which then need not be available."""
        self.sample, self.output = sample, output
        self.scored_claims: list[str] = []
        """The claims that the score is about."""
        self.truncated = 0
        self.decomposed: list[tuple[Source, list[str]]] = []
        """The decomposed texts with their claims."""
        self.checked: list[CheckedStatements] = []
        """The verified statements, in the order of requests."""
        self.proportions: list[CountedProportion] = []
        """The proportions that make up the score."""
        self._metric, self._judge, self._extractor, self._checker = metric, judge, extractor, checker
        self._request_options: dict[str, Any] = {"metric": metric.name, "sample_id": sample.sample_id, "repeat": repeat}

    @property
    def answer(self) -> Source:
        """The answer of the system."""
        return Source("the answer", ("" if self.output.response is None else self.output.response.text,))

    @property
    def reference(self) -> Source:
        """The first reference answer."""
        reference = self.sample.reference_answer
        return Source("the reference", ("" if reference is None else reference.text,))

    @property
    def documents(self) -> list[Source]:
        """The documents that count as evidence."""
        return document_sources(self.output.retrieved[: getattr(self._metric, "k", None)])

    @property
    def documents_lack_text(self) -> bool:
        """Whether there are documents, but none has text."""
        return bool(self.documents) and not any(one.has_text for one in self.documents)

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
            self._extractor or self._metric.extractor(),
            text,
            question=question_frames(self.sample),
            prompt=self._metric.prompt_used("claims"),
            source_name=name,
            **self._request_options,
        )

    async def extract_scored_claims(self, of: Source) -> list[str] | Score:
        """The claims that the score is about; a skip if there are none, or no text to compare them with."""
        if self.documents_lack_text:
            return Score.skip("no_text")
        self.scored_claims = await self.extract_claims(of)
        return self.scored_claims or Score.skip("no_reference_claims" if of == self.reference else "no_claims")

    async def extract_both(self) -> tuple[list[str], list[str]]:
        """The claims of the answer and those of the reference."""
        answer_claims, reference_claims = await gather_all(
            [self.extract_claims(self.answer), self.extract_claims(self.reference)]
        )
        return answer_claims, reference_claims

    async def check_support(self, claims: Sequence[str], by: Source) -> list[bool]:
        """Which claims a source supports, all its texts together."""
        statements = CheckedStatements(claims, by)
        self.checked.append(statements)
        prompt, verifier = self._metric.prompt_used("support"), self._checker or self._metric.checker()
        statements.verdicts = await check_support(
            self._judge, verifier, by.texts, claims, prompt=prompt, source_name=by.name, **self._request_options
        )
        self.truncated += sum(one.cut for one in statements.verdicts)
        return [one.supported for one in statements.verdicts]

    async def check_by_document(self, claims: Sequence[str]) -> list[list[bool]]:
        """Which claims each document supports by itself."""
        return await gather_all(self.check_support(claims, document) for document in self.documents)

    async def check_in_context(self, claims: Sequence[str]) -> list[bool]:
        """Which claims the documents support: together, or one of them alone."""
        if getattr(self._metric, "evidence", "joined") == "joined":
            return await self.check_support(claims, merge_sources(self.documents, "the documents"))
        return supported_by_any(await self.check_by_document(claims), len(claims))

    def add_proportion(self, value: Fraction, of: int, label: str) -> float:
        """Record a proportion with its label, and return it as a float."""
        self.proportions.append(CountedProportion(int(value * of), of, label))
        return float(value)


# --- derivations of metrics over claims: claims, verdicts, proportions and the mean ----------------------------------

Evaluations = Sequence[tuple[int, ClaimEvaluation, tuple[float, ...]]]


def claim_steps(
    metric: ClaimMetric, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext
) -> Derivation | None:
    """The steps from the stored judgements to the score; ``None`` if these do not match the present requests."""
    uses_nli = isinstance(metric.known_verifier, (EntailmentFunction, NliModel))
    if uses_nli and not around.may_call_models:
        return None
    checker = None if uses_nli else make_replay_critic(around.judgements, metric.prompt_used("support").id)
    extractor = make_replay_critic(around.judgements, metric.prompt_used("claims").id)

    async def once(judge: JudgeClient, repeat: int) -> tuple[ClaimEvaluation, Score | tuple[float, ...]]:
        evaluation = ClaimEvaluation(metric, judge, sample, output, repeat, extractor=extractor, checker=checker)
        return evaluation, await metric.value(evaluation)

    repeats = replay_repeats(around.judgements, once)
    evaluations = [
        (repeat, evaluation, value) for repeat, (evaluation, value) in repeats or () if not isinstance(value, Score)
    ]
    return _steps(metric, sample, evaluations) if evaluations else None


def _steps(metric: ClaimMetric, sample: EvaluationSample, evaluations: Evaluations) -> Derivation:
    steps = DerivationBuilder().add_step(f"The question: {quote_text(sample.query)}")
    shown: dict[str, Source] = {}
    for _, evaluation, _ in evaluations:
        shown |= {
            one.name: one
            for one in (
                *(of for of, _ in evaluation.decomposed),
                *(statements.against for statements in evaluation.checked),
            )
        }
    add_source_steps(steps, shown.values())
    for repeat, evaluation, values in evaluations:
        if len(evaluations) > 1:
            steps.add_step(f"Judged for the {repeat + 1}. time:")
        _add_claim_steps(steps, evaluation)
        if metric.dimension_names:
            parts = ", ".join(
                f"{name} = {format_number(one)}" for name, one in zip(metric.dimension_names, values, strict=True)
            )
            steps.add_step(f"{metric.combination_formula()}: {parts}")
    return add_mean_step(steps, metric.name, [metric.combine(values) for _, _, values in evaluations])


def _add_claim_steps(steps: DerivationBuilder, evaluation: ClaimEvaluation) -> None:
    for of, claims in evaluation.decomposed:
        checked = [one for one in evaluation.checked if one.statements is claims and one.verdicts]
        if not checked:
            steps.table(f"The claims of {of.name}: {len(claims)}", ("claim",), [(claim,) for claim in claims])
            continue
        headers = ("claim", *(one.against.name for one in checked), *(("why",) if len(checked) == 1 else ()))
        rows = [_row(claim, place, checked) for place, claim in enumerate(claims)]
        steps.table(f"The claims of {of.name}, and how far they are supported", headers, rows)
    for one in evaluation.proportions:
        value = one.count / one.of
        steps.add_step(f"{_capitalise(one.label)}: {one.count} / {one.of} = {format_number(value)}", value)


def _row(claim: str, place: int, checked: Sequence[CheckedStatements]) -> tuple[Cell, ...]:
    verdicts = [one.verdicts[place] for one in checked]
    why = (verdicts[0].rationale,) if len(checked) == 1 else ()
    return (claim, *(one.level.label for one in verdicts), *why)


def add_source_steps(steps: DerivationBuilder, sources: Iterable[Source]) -> None:
    """Add the texts with their names."""
    for one in sources:
        known = one.name.startswith("the ")
        steps.add_step(
            f"{_capitalise(one.name) if known else f'Document {one.name}'}: {join_items(map(quote_text, one.texts))}"
        )


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


# --- base classes of metrics over claims: who extracts claims, who verifies them, and their scores -------------------


@dataclass(frozen=True)
class ClaimMetric(SharedJudgementMixin):
    """A metric over the claims of an answer or of its reference, and whether they are supported."""

    # Critics and functions need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """Extracts the claims, and verifies them unless there is a ``verifier``: a critic, or ``{use: NAME}`` in a plan."""
    claims: Literal["extracted", "sentences"] = field(default="extracted", kw_only=True)
    """Claims extracted by the critic, or one claim per sentence."""
    verifier: Any = field(default=None, kw_only=True, hash=False)
    """Verifies claims instead of the critic: another critic, an NLI function, ``{nli: PATH}``."""
    claims_prompt: Any = field(default=None, kw_only=True)
    """A custom prompt for extracting claims: the path of a file, or a ``Prompt``."""
    support_prompt: Any = field(default=None, kw_only=True)
    """A custom prompt for verifying them."""
    own_prompts: tuple[tuple[str, Prompt], ...] = field(init=False, repr=False, default=())
    """The custom prompts by name."""

    metadata = declare(
        reads=frozenset({"response"}),
        output_skips=frozenset({"no_claims"}),
        python_options=frozenset({"critic"}),  # on the command line --judge-model names it
        skip_reasons={
            "no_response": "no answer was asked for",
            "no_claims": "the answer claims nothing: it is empty, or it declines",
        },
        prompt_names=("claims", "support"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_use(self.critic))
        require_critic(self.critic)
        object.__setattr__(self, "verifier", parse_verifier(self.verifier))
        custom = {"claims": self.claims_prompt, "support": self.support_prompt}
        prompts = [(name, resolve_prompt(one, otherwise=name)) for name, one in custom.items() if one is not None]
        object.__setattr__(self, "own_prompts", tuple(prompts))
        # Sentences need no extraction before they are verified.
        object.__setattr__(self, "asks_follow_ups", self.claims == "extracted")
        super().__post_init__()

    @property
    def count_names(self) -> tuple[str, ...]:
        """The number of claims; with an NLI model also the number of truncated texts."""
        return ("num_claims", "num_truncated") if isinstance(self.known_verifier, NliModel) else ("num_claims",)

    @property
    def known_verifier(self) -> Any:
        """The verifier, as far as it is resolved."""
        thing = getattr(self.verifier, "thing", None)
        return self.verifier if thing is None else parse_verifier(thing)

    def prompt_used(self, name: str) -> Prompt:
        """The prompt for extracting claims, or for verifying them."""
        return dict(self.own_prompts).get(name) or resolve_prompt(None, otherwise=name)

    def extractor(self) -> Critic:
        """The critic that extracts claims."""
        critic = resolve_critic(self.critic, self.name)
        require_extractor(critic, self.name)
        return critic

    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """The critic or model that verifies claims."""
        if self.verifier is None:
            return resolve_critic(self.critic, self.name)
        return resolve_verifier(self.verifier, what=f"the verifier of metric '{self.name}'")

    def require_ready(self) -> None:
        """Raise unless the judges are configured and a verifier model can be loaded."""
        self.require_judges()
        ready = getattr(self.checker(), "require_ready", None)
        if ready is not None:
            ready()
        super().require_ready()

    def require_judges(self) -> None:
        """Raise unless there is a critic that extracts claims and a verifier."""
        if self.claims == "extracted":
            self.extractor()
        self.checker()

    @abstractmethod
    async def value(self, evaluation: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The values of one judgement, or an outcome without values."""

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""

        async def once(repeat: int) -> Rating | Score:
            evaluation = ClaimEvaluation(self, judge, sample, output, repeat)
            values = await self.value(evaluation)
            if isinstance(values, Score):
                return values
            counts = (len(evaluation.scored_claims), evaluation.truncated)[: len(self.count_names)]
            return Rating(tuple(map(float, values)), counts=tuple(map(float, counts)))

        if self.claims == "sentences" and isinstance(self.checker(), (EntailmentFunction, NliModel)):
            results, requested = [await once(0)], 1  # no judge is called, and a function is deterministic
        else:
            results, requested = await run_repeats(judge, once)
        ratings = tuple(one for one in results if isinstance(one, Rating))
        skips = [one for one in results if isinstance(one, Score)]
        # If only some repeats find claims, the score is the mean over those.
        return self.score_ratings(RatingSet(ratings, requested - len(skips))) if ratings else skips[0]

    def explain(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The claims, their verdicts and the counts, from the stored judgements."""
        derivation = claim_steps(self, sample, output, around)
        return super().explain(sample, output, around) if derivation is None else derivation

    def combination_formula(self) -> str:
        """The formula that combines the parts (``dimension_names``)."""
        return ""

    def signature_options(self) -> dict[str, str]:
        """The critic, the verifier and their prompts."""
        extracted, judged = (
            self.claims == "extracted",
            not isinstance(self.known_verifier, (EntailmentFunction, NliModel)),
        )
        asks = extracted or self.verifier is None
        return {
            **({"critic": critic_signature(self.critic)} if asks else {}),
            "claims": self.prompt_used("claims").id if extracted else "sentences",
            **({} if self.verifier is None else {"verifier": verifier_name(self.verifier)}),
            **({"support": self.prompt_used("support").id} if judged else {}),
        }


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
