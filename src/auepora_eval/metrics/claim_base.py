"""Base classes of metrics over claims: who extracts claims, who verifies them, and their scores."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..core.derivation import NO_CONTEXT, Derivation, ExplainContext
from ..core.resources import parse_use
from ..core.scores import Score
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.claims import require_extractor
from ..judge.critic import Critic, JudgeClient
from ..judge.entailment import EntailmentFunction, NliModel
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import Rating, RatingSet, critic_signature, require_critic, resolve_critic, run_repeats
from ..judge.support import parse_verifier, resolve_verifier, verifier_name
from .answer_base import require_choice
from .claim_evaluation import ClaimEvaluation
from .derivations_claims import claim_steps
from .ranking import check_k
from .shared_judgements import SharedJudgementMixin

__all__ = ["ClaimEvaluation", "ClaimMetric", "ContextClaimMetric", "EvidenceClaimMetric"]


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

    prompt_names: ClassVar[tuple[str, ...]] = ("claims", "support")
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    output_skips: ClassVar[frozenset[str]] = frozenset({"no_claims"})
    skip_reasons: ClassVar[dict[str, str]] = {
        "no_response": "no answer was asked for",
        "no_claims": "the answer claims nothing: it is empty, or it declines",
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_use(self.critic))
        require_critic(self.critic)
        require_choice("claims", self.claims, ("extracted", "sentences"))
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

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The claims, their verdicts and the counts, from the stored judgements."""
        derivation = claim_steps(self, sample, output, around)
        return super().derivation(sample, output, around) if derivation is None else derivation

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

    k: int | None = field(default=None, kw_only=True)
    """How many of the returned documents count; all by default."""

    reads: ClassVar[frozenset[str]] = frozenset({"response", "retrieved"})
    skip_reasons: ClassVar[dict[str, str]] = {
        **ClaimMetric.skip_reasons,
        "no_text": "the documents have no text",
    }

    def __post_init__(self) -> None:
        check_k(self.k)
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """The judges, and ``k`` unless the name contains it."""
        named = self.k is None or self.base_name.endswith(f"@{self.k}")
        return {**super().signature_options(), **({} if named else {"k": str(self.k)})}


@dataclass(frozen=True)
class EvidenceClaimMetric(ContextClaimMetric):
    """A metric over claims whose evidence is all documents together, or each document."""

    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    """All documents together in one request; or each document, one of which must support a claim alone."""

    def __post_init__(self) -> None:
        require_choice("evidence", self.evidence, ("joined", "each"))
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """The judges and the kind of evidence."""
        return {**super().signature_options(), "evidence": self.evidence}
