"""What metrics share that have an answer judged by a critic: one score per sample, and what is told of the judge."""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.judged import JudgedMetric
from ..core.resources import used
from ..core.scores import Score, Scores
from ..core.types import EvaluationSample, SystemOutputs
from ..judge.asking import Question, Ratings, critic_at_hand, critic_choice, rated, require_critic
from ..judge.critic import Judging
from ..judge.prompting import Prompt, prompt_of
from ..judge.scale import Scale
from .answers import require_bool
from .base import ConfiguredMetric

__all__ = ["CriticMetric", "told_of_repeats"]

_COLUMNS = ("asked", "came", "squares", "weighted", "unweighted", "masses", "mass")
"""What is kept of each sample besides its score, before the means of its dimensions."""


@dataclass(frozen=True, slots=True)
class _JudgedScore(Score):
    """A score with what it came from."""

    stats: tuple[float, ...] = ()


@dataclass(frozen=True)
class CriticMetric(ConfiguredMetric, JudgedMetric):
    """A metric of the answer that asks a critic for numbers on a scale."""

    # Critics need not be hashable; equality is enough to tell two metrics apart.
    critic: Any = field(default=None, hash=False)
    """Who judges: an ``LLMCritic``, a ``StructuredCritic``, or ``{use: NAME}`` in a plan."""
    scale: str = field(default="1-5", kw_only=True)
    """Between which numbers the critic answers, the worst first."""
    rationale: bool = field(default=True, kw_only=True)
    """Whether a critic that answers with objects is asked for its reasons, before the score."""
    prompt: Any = field(default=None, kw_only=True)
    """Another prompt: the path of a file, or a ``Prompt``."""
    own_prompt: Prompt | None = field(init=False, repr=False, default=None)
    """That prompt, read."""

    prompt_name: ClassVar[str]
    """Which of our prompts is used unless told."""
    needs_all: ClassVar[bool] = True  # for the judge's own spread; beside a judge's time, what is kept is nothing
    python_options: ClassVar[frozenset[str]] = frozenset({"critic"})  # on the command line --judge-model names it
    reads: ClassVar[frozenset[str]] = frozenset({"response"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_response": "no answer was asked for"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "critic", used(self.critic))
        require_critic(self.critic)
        object.__setattr__(self, "scale", str(Scale.parse(self.scale)))
        require_bool("rationale", self.rationale)
        if self.prompt is not None:
            object.__setattr__(self, "own_prompt", prompt_of(self.prompt, otherwise=self.prompt_name))
        super().__post_init__()

    @property
    def prompt_used(self) -> Prompt:
        """What the critic is asked with."""
        return self.own_prompt or prompt_of(None, otherwise=self.prompt_name)

    def require_ready(self) -> None:
        """Raise unless there is somebody to ask."""
        critic_at_hand(self.critic, self.name)
        super().require_ready()

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """What is judged apart, where that is more than one thing."""
        return ()

    @abstractmethod
    def question(self, sample: EvaluationSample, output: SystemOutputs) -> Question | Score:
        """What to ask, or the outcome where there is nothing to ask."""

    def combined(self, values: Sequence[float]) -> float:
        """The score of one judgement from its numbers."""
        (value,) = values
        return value

    async def ascore(self, batch: Batch, judge: Judging) -> Scores:
        """One outcome per sample, all asked for at once."""
        critic_at_hand(self.critic, self.name)  # a mistake to be told at once, not sample by sample
        outcomes = await asyncio.gather(
            *(
                self._awaited(batch, sample, output, judge, answered=answered)
                for sample, output, answered in self.rows(batch)
            )
        )
        nothing = [0.0] * (len(_COLUMNS) + len(self.dimension_names))
        stats = [outcome.stats if isinstance(outcome, _JudgedScore) else nothing for outcome in outcomes]
        table = np.array(stats, dtype=np.float64).reshape(len(outcomes), len(nothing))
        return replace(Scores.from_list(outcomes), stats=table)

    async def ascore_one(self, sample: EvaluationSample, output: SystemOutputs, judge: Judging) -> Score:
        """The mean over the judgements of one sample."""
        question = self.question(sample, output)
        if isinstance(question, Score):
            return question
        return self._scored(await rated(judge, critic_at_hand(self.critic, self.name), question))

    def _scored(self, ratings: Ratings) -> Score:
        each = ratings.each
        values = [self.combined(rating.values) for rating in each]
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        masses = [mass for rating in each for mass in rating.masses]
        weighted, unweighted = sum(one.num_weighted for one in each), sum(one.num_unweighted for one in each)
        by_dimension = [math.fsum(column) / len(each) for column in zip(*(one.values for one in each), strict=True)]
        told = [ratings.asked, len(each), squares, weighted, unweighted, len(masses), math.fsum(masses)]
        return _JudgedScore(mean, stats=(*told, *(by_dimension if self.dimension_names else ())))

    @property
    def worst_stats(self) -> Sequence[float]:
        """A failed answer is worst in every dimension, and no judge was asked about it."""
        return [math.nan] * len(_COLUMNS) + [0.0] * len(self.dimension_names)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of each dimension, and what the judgements say about the judge."""
        details: dict[str, Any] = {}
        stats = np.zeros((0, len(_COLUMNS) + len(self.dimension_names))) if scores.stats is None else scores.stats
        if self.dimension_names:
            columns = stats[scores.counted][:, len(_COLUMNS) :].T
            details["dimensions"] = {
                name: math.fsum(column) / len(column) if len(column) else None
                for name, column in zip(self.dimension_names, columns, strict=True)
            }
        judge = _told_of_judge(scores.values[scores.counted], stats[scores.counted])
        return {**details, "judge": judge} if judge else details

    def choices(self) -> dict[str, str]:
        """Who judges, how it is asked, and on which scale."""
        return {
            "critic": critic_choice(self.critic),
            "prompt": self.prompt_used.id,
            "scale": self.scale,
            **({} if self.rationale else {"rationale": "no"}),
        }


def _told_of_judge(values: npt.NDArray[np.float64], stats: npt.NDArray[np.float64]) -> dict[str, Any]:
    """What judgements say about the judge: how often it was asked, how far it agrees with itself, how sure it was."""
    table = dict(zip(_COLUMNS, stats.T, strict=False))
    told = told_of_repeats(values, table["asked"], table["came"], table["squares"])
    weighted, unweighted = int(table["weighted"].sum()), int(table["unweighted"].sum())
    if weighted or unweighted:
        told |= {"num_weighted": weighted, "num_unweighted": unweighted}
        masses = int(table["masses"].sum())
        told["mean_mass"] = math.fsum(table["mass"]) / masses if masses else None
    return told


def told_of_repeats(
    values: npt.NDArray[np.float64],
    asked: npt.NDArray[np.float64],
    came: npt.NDArray[np.float64],
    squares: npt.NDArray[np.float64],
) -> dict[str, Any]:
    """How often samples were judged and how far that lies apart; nothing where each was judged once.

    Per sample: its score, how many judgements were asked for, how many came, and the sum of their squared deviations.
    """
    if not (asked > 1).any():
        return {}
    return {
        "repeats": int(asked.max()),
        "num_judgements": int(came.sum()),
        "num_failed": int((asked - came).sum()),
        **_spread(values, came, squares),
    }


def _spread(
    values: npt.NDArray[np.float64], came: npt.NDArray[np.float64], squares: npt.NDArray[np.float64]
) -> dict[str, float | None]:
    r"""How far judgements of the same answer lie apart, and how much of what the scores vary by that explains.

    With :math:`s^2` the variance within samples, pooled, and :math:`n_i` judgements of sample i, the judge adds
    :math:`s^2 / n_i` to the variance of its score: a share of the variance of all scores, and
    :math:`\sqrt{\sum_i s^2 / n_i} / N` to the error of their mean.
    """
    free = float((came[came > 0] - 1).sum())
    if free <= 0:  # no sample was judged twice
        return {"sd_within_samples": None, "share_of_variance": None, "error_of_mean": None}
    variance = math.fsum(squares) / free
    added = [variance / n for n in came.tolist() if n]
    total, share = len(values), None
    if total > 1:
        mean = math.fsum(values) / total
        spread = math.fsum((value - mean) ** 2 for value in values.tolist()) / (total - 1)
        share = min(1.0, math.fsum(added) / total / spread) if spread > 0 else None
    return {
        "sd_within_samples": math.sqrt(variance),
        "share_of_variance": share,
        "error_of_mean": math.sqrt(math.fsum(added)) / total,
    }
