"""Base class of metrics in which a critic rates an answer on a scale."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, ExplainContext, SampleJudgement
from ..core.resources import parse_use
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.critic import JudgeClient
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import RatingPrompt, critic_signature, request_ratings, require_critic, resolve_critic
from ..judge.scale import Scale
from .answer_base import require_bool
from .derivations_ratings import judgement_steps
from .judgement_replay import ReplayCritic
from .repeated_judgements import RepeatedJudgementMetric, repeat_summary

__all__ = ["CriticMetric", "repeat_summary"]


@dataclass(frozen=True)
class CriticMetric(RepeatedJudgementMetric):
    """An answer metric from a critic's ratings on a scale."""

    # Critics need not be hashable; metrics are compared by equality.
    critic: Any = field(default=None, hash=False)
    """The judge: an ``LLMCritic``, a ``StructuredCritic``, or ``{use: NAME}`` in a plan."""
    scale: str | None = field(default="1-5", kw_only=True)
    """The rating scale, the worst value first."""
    rationale: bool = field(default=True, kw_only=True)
    """Whether a structured critic is asked for a rationale before the score."""
    prompt: Any = field(default=None, kw_only=True)
    """A custom prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """The custom prompt, loaded."""

    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_use(self.critic))
        require_critic(self.critic)
        if self.scale is not None:
            object.__setattr__(self, "scale", str(Scale.parse(self.scale)))
        require_bool("rationale", self.rationale)
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise=self.prompt_names[0]))
        super().__post_init__()

    @property
    def scale_used(self) -> str:
        """The rating scale in use."""
        assert self.scale is not None
        return self.scale

    @property
    def prompt_used(self) -> Prompt:
        """The prompt in use."""
        return self.own_prompt or resolve_prompt(None, otherwise=self.prompt_names[0])

    def require_ready(self) -> None:
        """Raise unless a judge is configured."""
        resolve_critic(self.critic, self.name)
        super().require_ready()

    @abstractmethod
    def question(self, sample: EvaluationSample, output: SystemOutputs) -> RatingPrompt | Score:
        """The rating prompt, or an outcome that needs no judge."""

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, judged concurrently."""
        resolve_critic(self.critic, self.name)  # raise once, not for every sample
        return await super().ascore(batch, judge)

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        question = self.question(sample, output)
        if isinstance(question, Score):
            return question
        return self.score_ratings(await request_ratings(judge, resolve_critic(self.critic, self.name), question))

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The stored ratings, rescaled to [0, 1], and their mean."""
        metric = self._with_replay_critic(around.judgements)
        question = metric.question(sample, output)
        derivation = judgement_steps(
            question, around.judgements, metric.combine, aggregation=getattr(self, "aggregation", "")
        )
        return super().derivation(sample, output, around) if derivation is None else derivation

    def _with_replay_critic(self, judgements: Iterable[SampleJudgement]) -> CriticMetric:
        """A copy with a critic of the kind that made these judgements: the prompt may depend on it."""
        first = next(iter(judgements), None)
        if first is None:
            return self
        twin = copy.copy(self)
        object.__setattr__(twin, "critic", ReplayCritic(first.one_number, first.logprobs))
        return twin

    def signature_options(self) -> dict[str, str]:
        """The judge, the prompt and the scale."""
        return {
            "critic": critic_signature(self.critic),
            "prompt": self.prompt_used.id,
            "scale": self.scale_used,
            **({} if self.rationale else {"rationale": "no"}),
        }
