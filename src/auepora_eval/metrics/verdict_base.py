"""What metrics share that count verdicts on statements: by a critic or a function, as often as a session repeats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext
from ..core.errors import BadValueError
from ..core.resources import Use, resolve
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.critic import Critic, JudgeClient
from ..judge.entailment import EntailmentFunction, NliModel
from ..judge.prompting import Prompt, resolve_prompt
from ..judge.ratings import Rating, RatingSet, run_repeats
from ..judge.support import SupportVerdict, check_support, parse_verifier, resolve_verifier, verifier_name
from .derivations_verdicts import verdict_steps
from .shared_judgements import SharedJudgementMixin
from .sources import CheckedStatements, Source, merge_sources

__all__ = ["VerdictMetric", "VerdictResult", "Verify"]

Verify = Callable[[Sequence[Source], Sequence[str]], Awaitable[list[SupportVerdict]]]
"""Evidence, taken together, and statements in, a verdict on each statement out."""


@dataclass(frozen=True, slots=True)
class VerdictResult:
    """What came of judging one sample once."""

    value: float
    counts: tuple[float, ...] = ()
    """What is counted beside, in the order of ``counted_names``."""


@dataclass(frozen=True)
class VerdictMetric(SharedJudgementMixin):
    """A metric that follows from whether texts support statements."""

    # Critics need not be hashable; equality is enough to tell two metrics apart.
    critic: Any = field(default=None, hash=False)
    """Who checks: a critic, a function ``(premise, hypothesis) -> float``, an ``Nli``; in a plan ``{use: NAME}`` or
    ``{nli: PATH}``."""
    prompt: Any = field(default=None, kw_only=True)
    """Another prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """That prompt, read."""

    prompt_names: ClassVar[tuple[str, ...]] = ("support",)
    own_count_names: ClassVar[tuple[str, ...]] = ()
    """What is counted beside the score."""
    formula_text: ClassVar[str]
    """How the score follows from the verdicts."""
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", parse_verifier(self.critic, what="critic"))
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", resolve_prompt(self.prompt, otherwise="support"))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """What a critic is asked with."""
        return self.own_prompt or resolve_prompt(None, otherwise="support")

    @property
    def count_names(self) -> tuple[str, ...]:
        """What is counted; with a model of entailment, how many texts it cut as well."""
        return (
            (*self.own_count_names, "num_truncated")
            if isinstance(self.known_critic, NliModel)
            else self.own_count_names
        )

    @property
    def known_critic(self) -> Any:
        """Who checks, as far as it is known."""
        return parse_verifier(self.critic.thing) if isinstance(self.critic, Use) else self.critic

    @abstractmethod
    def known_outcome(self, sample: EvaluationSample, output: SystemOutputs) -> Score | VerdictResult | None:
        """The outcome where nobody need be asked; ``None`` where somebody must."""

    @abstractmethod
    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> VerdictResult:
        """What comes of judging one sample once."""

    def checker(self) -> Critic | EntailmentFunction | NliModel:
        """Who checks statements."""
        found = resolve(self.critic, what=f"the critic of metric '{self.name}'")
        if found is None:
            raise BadValueError(
                f"metric '{self.name}' needs somebody to ask: give it critic=..., or in a plan "
                f"{{{self.name}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or {{nli: PATH}} for a "
                "model of entailment, or on the command line --judge-model NAME"
            )
        return resolve_verifier(found, what=f"the critic of metric '{self.name}'")

    def require_judges(self) -> None:
        """Raise unless there is somebody to ask."""
        self.checker()

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask."""
        found = self.checker()
        if isinstance(found, NliModel):
            found.require_ready()
        super().require_ready()

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample; what keeps one from being measured is noted."""
        scores = await super().ascore(batch, judge)
        for row in np.flatnonzero(scores.status == Status.MEASURE_FAILED).tolist():
            sample, output = batch.samples[row], batch.outputs[row]
            why = "" if output is None else self.failure_message(sample, output)
            if why:
                batch.note(f"metric '{self.name}': {why}", sample.sample_id)
        return scores

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: JudgeClient) -> Score:
        """The mean over the judgements of one sample."""
        known = self.known_outcome(sample, output)
        if isinstance(known, Score):
            return known
        if known is not None:
            return self.score_without_judge(self._rating(known, 0))
        who = self.checker()

        async def once(repeat: int) -> Rating:
            counted, held = await self.judge_once(sample, output, judge, who, repeat)
            return self._rating(counted, sum(verdict.cut for one in held for verdict in one.verdicts))

        if isinstance(who, (EntailmentFunction, NliModel)):  # which has no moods
            return self.scored(RatingSet((await once(0),), 1))
        came, asked = await run_repeats(judge, once)
        return self.scored(RatingSet(tuple(came), asked))

    async def judge_once(
        self,
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: JudgeClient,
        who: Critic | EntailmentFunction | NliModel,
        repeat: int,
    ) -> tuple[VerdictResult, list[CheckedStatements]]:
        """What comes of judging one sample once, and the verdicts it came from, in the order of asking."""
        asked: list[CheckedStatements] = []

        async def verify(evidence: Sequence[Source], statements: Sequence[str]) -> list[SupportVerdict]:
            held = CheckedStatements(statements, merge_sources(evidence))
            asked.append(held)
            held.verdicts = await check_support(
                judge,
                who,
                held.against.texts,
                statements,
                metric=self.name,
                sample_id=sample.sample_id,
                repeat=repeat,
                prompt=self.own_prompt,
                source_name=held.against.name,
            )
            return held.verdicts

        return await self.count(sample, output, verify), asked

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """What was looked at, the verdicts, and what was counted, from the judgements as they are stored."""
        told = verdict_steps(self, sample, output, around)
        return super().derivation(sample, output, around) if told is None else told

    @abstractmethod
    def add_input_steps(self, steps: DerivationBuilder, sample: EvaluationSample, output: SystemOutputs) -> None:
        """What is judged of a sample, for its derivation."""

    def _rating(self, counted: VerdictResult, cut: int) -> Rating:
        counts = (*counted.counts, float(cut))[: len(self.count_names)]
        return Rating((counted.value,), counts=counts)

    def signature_options(self) -> dict[str, str]:
        """Who judges, and what a critic is asked with."""
        entails = isinstance(self.known_critic, (EntailmentFunction, NliModel))
        return {"critic": verifier_name(self.critic), **({} if entails else {"prompt": self.prompt_used.id})}
