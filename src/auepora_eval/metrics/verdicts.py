"""What metrics share that count verdicts on statements: by a critic or a function, as often as a session repeats."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.errors import BadValueError
from ..core.judged import JudgedMetric
from ..core.resources import Use, held
from ..core.scores import Score, Scores, Status
from ..core.types import EvaluationSample, SystemOutputs
from ..features.told import part_key
from ..judge.asking import over_repeats
from ..judge.critic import Judgement, JudgeRequest, Judging, LLMCritic, StructuredCritic
from ..judge.entailment import Entailment, Nli
from ..judge.prompting import Prompt, prompt_of
from ..judge.support import Verdict, as_verifier, supports, usable_verifier, verifier_name
from .base import ConfiguredMetric
from .judged_answers import told_of_repeats

__all__ = ["Counted", "VerdictMetric", "Verify"]

_COLUMNS = ("asked", "came", "squares", "cut")
"""What is kept of each sample besides its score, before what the metric keeps itself."""

Verify = Callable[[Sequence[str], Sequence[str]], Awaitable[list[Verdict]]]
"""Evidence and statements in, a verdict on each statement out."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of judging one sample once: its score, and what is kept of it besides."""

    value: float
    kept: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _KeptScore(Score):
    stats: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _InBatch:
    """Asks within a batch, where metrics share what a function said."""

    judge: Judging
    batch: Batch

    @property
    def repeats(self) -> int:
        return self.judge.repeats

    async def ask(self, critic: Any, request: JudgeRequest) -> Judgement:
        return await self.judge.ask(critic, request)


@dataclass(frozen=True)
class VerdictMetric(ConfiguredMetric, JudgedMetric):
    """A metric that follows from whether texts support statements.

    A critic is asked by each metric, so that its verdicts are kept with every metric they belong to; the session sees
    to it that the same question is asked once. What a function of entailment says is shared within the batch.
    """

    # Critics need not be hashable; equality is enough to tell two metrics apart.
    critic: Any = field(default=None, hash=False)
    """Who checks: a critic, a function ``(premise, hypothesis) -> float``, an ``Nli``; in a plan ``{use: NAME}`` or
    ``{nli: PATH}``."""
    prompt: Any = field(default=None, kw_only=True)
    """Another prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """That prompt, read."""

    kept_names: ClassVar[tuple[str, ...]] = ()
    """What is kept of each sample besides its score; of what begins with ``num_`` the details have the total."""
    needs_all: ClassVar[bool] = True  # for the judge's own spread; beside a judge's time, what is kept is nothing
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

    @abstractmethod
    def settled(self, sample: EvaluationSample, output: SystemOutputs) -> Score | None:
        """The outcome where nobody need be asked; ``None`` where somebody must."""

    @abstractmethod
    async def count(self, sample: EvaluationSample, output: SystemOutputs, verify: Verify) -> Counted:
        """What comes of judging one sample once."""

    def unasked(self, counted: Counted) -> Score:
        """An outcome for which nobody was asked."""
        return _KeptScore(counted.value, stats=(0.0,) * len(_COLUMNS) + counted.kept)

    def kept_of_failed(self, sample: EvaluationSample) -> tuple[float, ...]:
        """What is kept of a sample on which the system failed."""
        return (0.0,) * len(self.kept_names)

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask."""
        found = self._who()
        if isinstance(found, Nli):
            found.require_ready()
        super().require_ready()

    def _who(self) -> Any:
        found = held(self.critic, what=f"the critic of metric '{self.name}'")
        if found is None:
            raise BadValueError(
                f"metric '{self.name}' needs somebody to ask: give it critic=..., or in a plan "
                f"{{{self.name}: {{critic: {{use: judge}}}}}} with the judge under 'resources', or {{nli: PATH}} for a "
                "model of entailment, or on the command line --judge-model NAME"
            )
        return usable_verifier(found, what=f"the critic of metric '{self.name}'")

    async def ascore(self, batch: Batch, judge: Judging) -> Scores:
        """One outcome per sample, all asked for at once."""
        self._who()  # a mistake to be told at once, not sample by sample
        rows = list(self.rows(batch))
        within = _InBatch(judge, batch)
        outcomes = await asyncio.gather(
            *(self._awaited(batch, sample, output, within, answered=answered) for sample, output, answered in rows)
        )
        stats = [self._stats(sample, outcome) for (sample, _, _), outcome in zip(rows, outcomes, strict=True)]
        table = np.array(stats, dtype=np.float64).reshape(len(rows), len(_COLUMNS) + len(self.kept_names))
        return replace(Scores.from_list(outcomes), stats=table)

    def _stats(self, sample: EvaluationSample, outcome: Score) -> tuple[float, ...]:
        if isinstance(outcome, _KeptScore):
            return outcome.stats
        kept = self.kept_of_failed(sample) if outcome.status is Status.SYSTEM_FAILED else ()
        return (0.0,) * len(_COLUMNS) + (kept or (0.0,) * len(self.kept_names))

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: Judging) -> Score:
        """The mean over the judgements of one sample."""
        outcome = self.settled(sample, output)
        if outcome is not None:
            return outcome
        who, cut = self._who(), [0]
        asked_anew = isinstance(who, (LLMCritic, StructuredCritic))

        async def once(repeat: int) -> Counted:
            async def verify(evidence: Sequence[str], statements: Sequence[str]) -> list[Verdict]:
                found = await _verdicts(judge, who, self, tuple(evidence), tuple(statements), sample, repeat)
                cut[0] += sum(verdict.cut for verdict in found)
                return found

            return await self.count(sample, output, verify)

        came, asked = await over_repeats(judge, once) if asked_anew else ([await once(0)], 1)
        mean = math.fsum(one.value for one in came) / len(came)
        squares = math.fsum((one.value - mean) ** 2 for one in came)
        columns = zip(*(one.kept for one in came), strict=True)
        kept = [math.fsum(column) / len(came) for column in columns]
        return _KeptScore(mean, stats=(asked, len(came), squares, cut[0], *kept))

    @property
    def worst_stats(self) -> Sequence[float]:
        """Of a failed answer what ``kept_of_failed`` says."""
        return [math.nan] * (len(_COLUMNS) + len(self.kept_names))

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """What was counted, and what the judgements say about the judge."""
        width = len(_COLUMNS) + len(self.kept_names)
        counted = np.zeros((0, width)) if scores.stats is None else scores.stats[scores.counted]
        asked, came, squares, cut = counted.T[: len(_COLUMNS)]
        details = self.kept_details(dict(zip(self.kept_names, counted.T[len(_COLUMNS) :], strict=True)))
        if cut.any():
            details["num_truncated"] = int(cut.sum())
        judge = told_of_repeats(scores.values[scores.counted], asked, came, squares)
        return {**details, "judge": judge} if judge else details

    def kept_details(self, columns: dict[str, npt.NDArray[np.float64]]) -> dict[str, Any]:
        """What the details tell of what was kept."""
        return {name: round(math.fsum(column)) for name, column in columns.items() if name.startswith("num_")}

    def choices(self) -> dict[str, str]:
        """Who judges, and what a critic is asked with."""
        who = self.critic.thing if isinstance(self.critic, Use) else self.critic
        entails = isinstance(as_verifier(who), (Entailment, Nli))
        return {"critic": verifier_name(self.critic), **({} if entails else {"prompt": self.prompt_used.id})}


async def _verdicts(
    judge: Judging,
    who: Any,
    metric: VerdictMetric,
    evidence: tuple[str, ...],
    statements: tuple[str, ...],
    sample: EvaluationSample,
    repeat: int,
) -> list[Verdict]:
    async def ask(_: object = None) -> list[Verdict]:
        return await supports(
            judge,
            who,
            evidence,
            statements,
            metric=metric.name,
            sample_id=sample.sample_id,
            repeat=repeat,
            prompt=metric.own_prompt,
        )

    if isinstance(who, (LLMCritic, StructuredCritic)) or not isinstance(judge, _InBatch):
        return await ask()
    return await judge.batch.afeature(("entailed", part_key(who), evidence, statements), ask)
