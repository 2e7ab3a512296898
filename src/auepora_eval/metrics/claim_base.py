"""What metrics over claims share: who lists them, who checks them, and what becomes of what they say."""

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
    """A metric over the claims of an answer or of its reference, and who supports them."""

    # Neither critics nor functions need be hashable; equality is enough to tell two metrics apart.
    critic: Any = field(default=None, hash=False)
    """Who lists the claims, and checks them unless there is a ``verifier``: a critic, or ``{use: NAME}`` in a plan."""
    claims: Literal["extracted", "sentences"] = field(default="extracted", kw_only=True)
    """Claims listed by the critic, or every sentence for a claim."""
    verifier: Any = field(default=None, kw_only=True, hash=False)
    """Who checks claims in the critic's place: another critic, a function of entailment, ``{nli: PATH}``."""
    claims_prompt: Any = field(default=None, kw_only=True)
    """Another prompt for listing claims: the path of a file, or a ``Prompt``."""
    support_prompt: Any = field(default=None, kw_only=True)
    """Another prompt for checking them."""
    own_prompts: tuple[tuple[str, Prompt], ...] = field(init=False, repr=False, default=())
    """Those prompts, read."""

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
        given = {"claims": self.claims_prompt, "support": self.support_prompt}
        read = [(name, resolve_prompt(one, otherwise=name)) for name, one in given.items() if one is not None]
        object.__setattr__(self, "own_prompts", tuple(read))
        # Sentences need no answer before they are asked about.
        object.__setattr__(self, "asks_follow_ups", self.claims == "extracted")
        super().__post_init__()

    @property
    def count_names(self) -> tuple[str, ...]:
        """How many claims there are in all; with a model of entailment, how many were checked by texts it cut."""
        return ("num_claims", "num_truncated") if isinstance(self.known_verifier, NliModel) else ("num_claims",)

    @property
    def known_verifier(self) -> Any:
        """Who checks in the critic's place, as far as it is known."""
        thing = getattr(self.verifier, "thing", None)
        return self.verifier if thing is None else parse_verifier(thing)

    def prompt_used(self, name: str) -> Prompt:
        """The prompt for listing claims, or for checking them."""
        return dict(self.own_prompts).get(name) or resolve_prompt(None, otherwise=name)

    def extractor(self) -> Critic:
        """Who lists claims."""
        critic = resolve_critic(self.critic, self.name)
        require_extractor(critic, self.name)
        return critic

    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """Who checks claims."""
        if self.verifier is None:
            return resolve_critic(self.critic, self.name)
        return resolve_verifier(self.verifier, what=f"the verifier of metric '{self.name}'")

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask, and a model can be loaded where that is one."""
        self.require_judges()
        ready = getattr(self.checker(), "require_ready", None)
        if ready is not None:
            ready()
        super().require_ready()

    def require_judges(self) -> None:
        """Raise unless there is somebody to list claims, and somebody to check them."""
        if self.claims == "extracted":
            self.extractor()
        self.checker()

    @abstractmethod
    async def value(self, sheet: ClaimEvaluation) -> Score | tuple[float, ...]:
        """The numbers of one judgement, or the outcome where there are none."""

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""

        async def once(repeat: int) -> Rating | Score:
            sheet = ClaimEvaluation(self, judge, sample, output, repeat)
            found = await self.value(sheet)
            if isinstance(found, Score):
                return found
            counts = (len(sheet.counted), sheet.truncated)[: len(self.count_names)]
            return Rating(tuple(map(float, found)), counts=tuple(map(float, counts)))

        if self.claims == "sentences" and isinstance(self.checker(), (EntailmentFunction, NliModel)):
            came, asked = [await once(0)], 1  # no judge is asked, and a function has no moods
        else:
            came, asked = await run_repeats(judge, once)
        ratings = tuple(one for one in came if isinstance(one, Rating))
        without = [one for one in came if isinstance(one, Score)]
        # A judge that finds claims one time and none the next has something to say where it finds some.
        return self.scored(RatingSet(ratings, asked - len(without))) if ratings else without[0]

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The claims, the verdicts on them, and what was counted, from the judgements as they are stored."""
        told = claim_steps(self, sample, output, around)
        return super().derivation(sample, output, around) if told is None else told

    def combination_formula(self) -> str:
        """How the score follows from its parts (``dimension_names``), in words."""
        return ""

    def signature_options(self) -> dict[str, str]:
        """Who lists claims and who checks them, and with which prompts."""
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
    """How many of the returned documents count; all unless told."""

    reads: ClassVar[frozenset[str]] = frozenset({"response", "retrieved"})
    skip_reasons: ClassVar[dict[str, str]] = {
        **ClaimMetric.skip_reasons,
        "no_text": "the documents have no text",
    }

    def __post_init__(self) -> None:
        check_k(self.k)
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """Who decides, and how many documents count, unless the name says so."""
        named = self.k is None or self.base_name.endswith(f"@{self.k}")
        return {**super().signature_options(), **({} if named else {"k": str(self.k)})}


@dataclass(frozen=True)
class EvidenceClaimMetric(ContextClaimMetric):
    """The same, by the documents taken together or one by one."""

    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    """Documents taken together, in one question; or one by one, where one of them must support a claim alone."""

    def __post_init__(self) -> None:
        require_choice("evidence", self.evidence, ("joined", "each"))
        super().__post_init__()

    def signature_options(self) -> dict[str, str]:
        """Who decides, and on what evidence."""
        return {**super().signature_options(), "evidence": self.evidence}
