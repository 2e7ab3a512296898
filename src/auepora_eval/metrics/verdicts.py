"""What metrics share that count verdicts on statements: by a critic or a function, as often as a session repeats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..core.batch import Batch
from ..core.derivation import ALONE, Derivation, Derived, Surroundings
from ..core.errors import BadValueError
from ..core.resources import Use, held
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.asking import Rating, Ratings, over_repeats
from ..judge.critic import Critic, Judging
from ..judge.entailment import Entailment, Nli
from ..judge.prompting import Prompt, prompt_of
from ..judge.support import Verdict, as_verifier, supports, usable_verifier, verifier_name
from .derivations_verdicts import verdict_steps
from .judged_shared import SharedlyJudged
from .sources import Held, Source, taken_together

__all__ = ["Counted", "VerdictMetric", "Verify"]

Verify = Callable[[Sequence[Source], Sequence[str]], Awaitable[list[Verdict]]]
"""Evidence, taken together, and statements in, a verdict on each statement out."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of judging one sample once."""

    value: float
    counts: tuple[float, ...] = ()
    """What is counted beside, in the order of ``counted_names``."""


@dataclass(frozen=True)
class VerdictMetric(SharedlyJudged):
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
    counted_names: ClassVar[tuple[str, ...]] = ()
    """What is counted beside the score."""
    in_words: ClassVar[str]
    """How the score follows from the verdicts."""
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", as_verifier(self.critic, what="critic"))
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", prompt_of(self.prompt, otherwise="support"))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """What a critic is asked with."""
        return self.own_prompt or prompt_of(None, otherwise="support")

    @property
    def count_names(self) -> tuple[str, ...]:
        """What is counted; with a model of entailment, how many texts it cut as well."""
        return (*self.counted_names, "num_truncated") if isinstance(self.named_critic, Nli) else self.counted_names

    @property
    def named_critic(self) -> Any:
        """Who checks, as far as it is known."""
        return as_verifier(self.critic.thing) if isinstance(self.critic, Use) else self.critic

    @abstractmethod
    def settled(self, sample: EvaluationSample, output: SystemOutputs) -> Score | Counted | None:
        """The outcome where nobody need be asked; ``None`` where somebody must."""

    @abstractmethod
    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> Counted:
        """What comes of judging one sample once."""

    def checker(self) -> Critic | Entailment | Nli:
        """Who checks statements."""
        found = held(self.critic, what=f"the critic of metric '{self.name}'")
        if found is None:
            raise BadValueError(
                f"metric '{self.name}' needs somebody to ask: give it critic=..., or in a plan "
                f"{{{self.name}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or {{nli: PATH}} for a "
                "model of entailment, or on the command line --judge-model NAME"
            )
        return usable_verifier(found, what=f"the critic of metric '{self.name}'")

    def require_somebody(self) -> None:
        """Raise unless there is somebody to ask."""
        self.checker()

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask."""
        found = self.checker()
        if isinstance(found, Nli):
            found.require_ready()
        super().require_ready()

    async def ascore(self, batch: Batch, judge: Judging) -> Scores:
        """One outcome per sample; what keeps one from being measured is noted."""
        scores = await super().ascore(batch, judge)
        for row in np.flatnonzero(scores.status == Status.MEASURE_FAILED).tolist():
            sample, output = batch.samples[row], batch.outputs[row]
            why = "" if output is None else self.why_failed(sample, output)
            if why:
                batch.note(f"metric '{self.name}': {why}", sample.sample_id)
        return scores

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: Judging) -> Score:
        """The mean over the judgements of one sample."""
        known = self.settled(sample, output)
        if isinstance(known, Score):
            return known
        if known is not None:
            return self.unasked(self._rating(known, 0))
        who = self.checker()

        async def once(repeat: int) -> Rating:
            counted, held = await self.judged_once(sample, output, judge, who, repeat)
            return self._rating(counted, sum(verdict.cut for one in held for verdict in one.verdicts))

        if isinstance(who, (Entailment, Nli)):  # which has no moods
            return self.scored(Ratings((await once(0),), 1))
        came, asked = await over_repeats(judge, once)
        return self.scored(Ratings(tuple(came), asked))

    async def judged_once(
        self,
        sample: EvaluationSample,
        output: SystemOutputs,
        judge: Judging,
        who: Critic | Entailment | Nli,
        repeat: int,
    ) -> tuple[Counted, list[Held]]:
        """What comes of judging one sample once, and the verdicts it came from, in the order of asking."""
        asked: list[Held] = []

        async def verify(evidence: Sequence[Source], statements: Sequence[str]) -> list[Verdict]:
            held = Held(statements, taken_together(evidence))
            asked.append(held)
            held.verdicts = await supports(
                judge,
                who,
                held.against.texts,
                statements,
                metric=self.name,
                sample_id=sample.sample_id,
                repeat=repeat,
                prompt=self.own_prompt,
                named=held.against.name,
            )
            return held.verdicts

        return await self.count(sample, output, verify), asked

    def derivation(self, sample: EvaluationSample, output: SystemOutputs, around: Surroundings = ALONE) -> Derivation:
        """What was looked at, the verdicts, and what was counted, from the judgements as they are stored."""
        told = verdict_steps(self, sample, output, around)
        return super().derivation(sample, output, around) if told is None else told

    @abstractmethod
    def say_looked_at(self, steps: Derived, sample: EvaluationSample, output: SystemOutputs) -> None:
        """What is judged of a sample, for its derivation."""

    def _rating(self, counted: Counted, cut: int) -> Rating:
        counts = (*counted.counts, float(cut))[: len(self.count_names)]
        return Rating((counted.value,), counts=counts)

    def choices(self) -> dict[str, str]:
        """Who judges, and what a critic is asked with."""
        entails = isinstance(self.named_critic, (Entailment, Nli))
        return {"critic": verifier_name(self.critic), **({} if entails else {"prompt": self.prompt_used.id})}
