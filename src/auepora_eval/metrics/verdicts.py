"""What metrics share that count verdicts on statements: by a critic or a function, as often as a session repeats."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core.batch import Batch
from ..core.errors import BadValueError
from ..core.resources import Use, held
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.asking import Rating, Ratings, over_repeats
from ..judge.critic import Critic, Judging
from ..judge.entailment import Entailment, Nli
from ..judge.prompting import Prompt, prompt_of
from ..judge.sharing import SharedJudging
from ..judge.support import Verdict, as_verifier, supports, usable_verifier, verifier_name
from .judged_repeats import RepeatedlyJudged
from .semantic_base import note_cut

__all__ = ["Counted", "VerdictMetric", "Verify"]

Verify = Callable[[Sequence[str], Sequence[str]], Awaitable[list[Verdict]]]
"""Evidence and statements in, a verdict on each statement out."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of judging one sample once."""

    value: float
    counts: tuple[float, ...] = ()
    """What is counted beside, in the order of ``counted_names``."""


@dataclass(frozen=True)
class VerdictMetric(RepeatedlyJudged):
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
        return (*self.counted_names, "num_truncated") if isinstance(self._named, Nli) else self.counted_names

    @property
    def _named(self) -> Any:
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

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask."""
        found = self.checker()
        if isinstance(found, Nli):
            found.require_ready()
        super().require_ready()

    async def ascore(self, batch: Batch, judge: Judging) -> Scores:
        """One outcome per sample; what another metric of the batch asked is not asked again."""
        self.checker()  # a mistake to be told at once, not sample by sample
        scores = await super().ascore(batch, SharedJudging(batch, judge, self.name))
        if "num_truncated" in self.count_names:
            note_cut(batch, self.name, self.counted(scores, "num_truncated"))
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
            cut = 0

            async def verify(evidence: Sequence[str], statements: Sequence[str]) -> list[Verdict]:
                nonlocal cut
                told: dict[str, Any] = {"metric": self.name, "sample_id": sample.sample_id, "repeat": repeat}
                found = await supports(judge, who, evidence, statements, prompt=self.own_prompt, **told)
                cut += sum(verdict.cut for verdict in found)
                return found

            return self._rating(await self.count(sample, output, verify), cut)

        if isinstance(who, (Entailment, Nli)):  # which has no moods
            return self.scored(Ratings((await once(0),), 1))
        came, asked = await over_repeats(judge, once)
        return self.scored(Ratings(tuple(came), asked))

    def _rating(self, counted: Counted, cut: int) -> Rating:
        counts = (*counted.counts, float(cut))[: len(self.count_names)]
        return Rating((counted.value,), counts=counts)

    def choices(self) -> dict[str, str]:
        """Who judges, and what a critic is asked with."""
        entails = isinstance(self._named, (Entailment, Nli))
        return {"critic": verifier_name(self.critic), **({} if entails else {"prompt": self.prompt_used.id})}
