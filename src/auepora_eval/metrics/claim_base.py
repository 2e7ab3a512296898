"""What metrics over claims share: who lists them, who checks them, and what is asked about one answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..core.batch import Batch
from ..core.resources import used
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.asking import (
    Rating,
    Ratings,
    all_done,
    critic_at_hand,
    critic_choice,
    over_repeats,
    question_frames,
    require_critic,
)
from ..judge.claims import claims_of, require_extractor
from ..judge.critic import Critic, Judging
from ..judge.entailment import Entailment, Nli
from ..judge.prompting import Prompt, prompt_of
from ..judge.sharing import SharedJudging
from ..judge.support import as_verifier, supports, usable_verifier, verifier_name
from ..text.sentences import split_sentences
from .answers import require_choice
from .claim_verdicts import by_any
from .judged_repeats import RepeatedlyJudged
from .ranking import check_k
from .semantic_base import note_cut

__all__ = ["ClaimMetric", "ClaimSheet", "ContextClaimMetric", "EvidenceClaimMetric"]


@dataclass(frozen=True)
class ClaimMetric(RepeatedlyJudged):
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
        object.__setattr__(self, "critic", used(self.critic))
        require_critic(self.critic)
        require_choice("claims", self.claims, ("extracted", "sentences"))
        object.__setattr__(self, "verifier", as_verifier(self.verifier))
        given = {"claims": self.claims_prompt, "support": self.support_prompt}
        read = [(name, prompt_of(one, otherwise=name)) for name, one in given.items() if one is not None]
        object.__setattr__(self, "own_prompts", tuple(read))
        # Sentences need no answer before they are asked about.
        object.__setattr__(self, "asks_on", self.claims == "extracted")
        super().__post_init__()

    @property
    def count_names(self) -> tuple[str, ...]:
        """How many claims there are in all; with a model of entailment, how many were checked by texts it cut."""
        return ("num_claims", "num_truncated") if isinstance(self._named_verifier, Nli) else ("num_claims",)

    @property
    def _named_verifier(self) -> Any:
        thing = getattr(self.verifier, "thing", None)
        return self.verifier if thing is None else as_verifier(thing)

    def prompt_used(self, name: str) -> Prompt:
        """The prompt for listing claims, or for checking them."""
        return dict(self.own_prompts).get(name) or prompt_of(None, otherwise=name)

    def extractor(self) -> Critic:
        """Who lists claims."""
        critic = critic_at_hand(self.critic, self.name)
        require_extractor(critic, self.name)
        return critic

    def checker(self) -> Critic | Entailment | Nli:
        """Who checks claims."""
        if self.verifier is None:
            return critic_at_hand(self.critic, self.name)
        return usable_verifier(self.verifier, what=f"the verifier of metric '{self.name}'")

    def require_ready(self) -> None:
        """Raise unless there is somebody to list claims, and somebody to check them."""
        self._require_somebody()
        ready = getattr(self.checker(), "require_ready", None)
        if ready is not None:
            ready()
        super().require_ready()

    def _require_somebody(self) -> None:
        if self.claims == "extracted":
            self.extractor()
        self.checker()

    @abstractmethod
    async def value(self, sheet: ClaimSheet) -> Score | tuple[float, ...]:
        """The numbers of one judgement, or the outcome where there are none."""

    async def ascore(self, batch: Batch, judge: Judging) -> Scores:
        """One outcome per sample; what another metric of the batch asked is not asked again."""
        self._require_somebody()  # a mistake to be told at once, not sample by sample
        scores = await super().ascore(batch, SharedJudging(batch, judge, self.name))
        if "num_truncated" in self.count_names:
            note_cut(batch, self.name, self.counted(scores, "num_truncated"))
        return scores

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: Judging) -> Score:
        """The mean over the judgements of one sample."""

        async def once(repeat: int) -> Rating | Score:
            sheet = ClaimSheet(self, judge, sample, output, repeat)
            found = await self.value(sheet)
            if isinstance(found, Score):
                return found
            counts = (len(sheet.counted), sheet.truncated)[: len(self.count_names)]
            return Rating(tuple(map(float, found)), counts=tuple(map(float, counts)))

        if self.claims == "sentences" and isinstance(self.checker(), (Entailment, Nli)):
            came, asked = [await once(0)], 1  # no judge is asked, and a function has no moods
        else:
            came, asked = await over_repeats(judge, once)
        ratings = tuple(one for one in came if isinstance(one, Rating))
        without = [one for one in came if isinstance(one, Score)]
        # A judge that finds claims one time and none the next has something to say where it finds some.
        return self.scored(Ratings(ratings, asked - len(without))) if ratings else without[0]

    def choices(self) -> dict[str, str]:
        """Who lists claims and who checks them, and with which prompts."""
        extracted, judged = self.claims == "extracted", not isinstance(self._named_verifier, (Entailment, Nli))
        asks = extracted or self.verifier is None
        return {
            **({"critic": critic_choice(self.critic)} if asks else {}),
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

    def choices(self) -> dict[str, str]:
        """Who decides, and how many documents count, unless the name says so."""
        named = self.k is None or self.base_name.endswith(f"@{self.k}")
        return {**super().choices(), **({} if named else {"k": str(self.k)})}

    def documents(self, output: SystemOutputs) -> list[str]:
        """The texts of the documents that count."""
        return [item.doc.text or "" for item in output.retrieved[: self.k]]


@dataclass(frozen=True)
class EvidenceClaimMetric(ContextClaimMetric):
    """The same, by the documents taken together or one by one."""

    evidence: Literal["joined", "each"] = field(default="joined", kw_only=True)
    """Documents taken together, in one question; or one by one, where one of them must support a claim alone."""

    def __post_init__(self) -> None:
        require_choice("evidence", self.evidence, ("joined", "each"))
        super().__post_init__()

    def choices(self) -> dict[str, str]:
        """Who decides, and on what evidence."""
        return {**super().choices(), "evidence": self.evidence}


class ClaimSheet:
    """What is asked about the claims of one answer, in one of several judgements."""

    def __init__(
        self, metric: ClaimMetric, judge: Judging, sample: EvaluationSample, output: SystemOutputs, repeat: int
    ) -> None:
        self.sample, self.output = sample, output
        self.counted: list[str] = []
        """The claims that the metric is about."""
        self.truncated = 0
        self._metric, self._judge, self._repeat = metric, judge, repeat
        self._told: dict[str, Any] = {"metric": metric.name, "sample_id": sample.sample_id, "repeat": repeat}

    @property
    def answer(self) -> str:
        """What the system said."""
        return "" if self.output.response is None else self.output.response.text

    @property
    def reference(self) -> str:
        """The first reference answer."""
        return "" if self.sample.reference_answer is None else self.sample.reference_answer.text

    @property
    def documents(self) -> list[str]:
        """The texts of the documents that count."""
        assert isinstance(self._metric, ContextClaimMetric)
        return self._metric.documents(self.output)

    @property
    def without_text(self) -> bool:
        """Whether there are documents, but none has text."""
        return bool(self.documents) and not any(text.strip() for text in self.documents)

    async def claims(self, text: str) -> list[str]:
        """The claims of a text."""
        if self._metric.claims == "sentences":
            return list(dict.fromkeys(split_sentences(text)))
        return await claims_of(
            self._judge,
            self._metric.extractor(),
            text,
            question=question_frames(self.sample),
            prompt=self._metric.prompt_used("claims"),
            **self._told,
        )

    async def both_claims(self) -> tuple[list[str], list[str]]:
        """The claims of the answer and those of the reference."""
        first, second = await all_done([self.claims(self.answer), self.claims(self.reference)])
        return first, second

    async def supported(self, claims: Sequence[str], evidence: Sequence[str]) -> list[bool]:
        """Which claims the evidence supports, taken together."""
        prompt = self._metric.prompt_used("support")
        who = self._metric.checker()
        verdicts = await supports(self._judge, who, evidence, claims, prompt=prompt, **self._told)
        self.truncated += sum(one.cut for one in verdicts)
        return [one.supported for one in verdicts]

    async def by_document(self, claims: Sequence[str]) -> list[list[bool]]:
        """Which claims each document supports by itself."""
        return await all_done(self.supported(claims, [text]) for text in self.documents)

    async def in_context(self, claims: Sequence[str]) -> list[bool]:
        """Which claims the documents support: together, or one of them alone."""
        assert isinstance(self._metric, EvidenceClaimMetric)
        if self._metric.evidence == "joined":
            return await self.supported(claims, self.documents)
        return by_any(await self.by_document(claims), len(claims))
