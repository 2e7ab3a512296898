"""What metrics share whose scores are means over judgements: each sample's mean, and what is told of the judge."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.judged_metric import JudgedMetric
from ..core.scores import Score, Scores
from ..judge.critic import JudgeClient
from ..judge.ratings import Rating, RatingSet
from .base import ConfiguredMetric

__all__ = ["RepeatedJudgementMetric", "repeat_summary"]

_COLUMNS = ("asked", "came", "squares", "weighted", "unweighted", "masses", "mass")
"""What is kept of each sample besides its score, before the means of its dimensions and what is counted."""


@dataclass(frozen=True, slots=True)
class _JudgedScore(Score):
    """A score with what it came from."""

    stats: tuple[float, ...] = ()


@dataclass(frozen=True)
class RepeatedJudgementMetric(ConfiguredMetric, JudgedMetric):
    """A metric whose score of a sample is the mean over its judgements."""

    needs_all: ClassVar[bool] = True  # for the judge's own spread; beside a judge's time, what is kept is nothing

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """What is judged apart, where that is more than one thing."""
        return ()

    @property
    def count_names(self) -> tuple[str, ...]:
        """What is counted beside, such as ``num_claims``."""
        return ()

    def combine(self, values: Sequence[float]) -> float:
        """The score of one judgement from its numbers."""
        (value,) = values
        return value

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, all asked for at once."""
        outcomes = await asyncio.gather(
            *(
                self._ascore_checked(batch, sample, output, judge, answered=answered)
                for sample, output, answered in self.rows(batch)
            )
        )
        return self.to_scores(outcomes)

    def to_scores(self, outcomes: Sequence[Score]) -> Scores:
        """The outcomes of all samples, with what each of them came from."""
        nothing = [0.0] * (len(_COLUMNS) + len(self.dimension_names) + len(self.count_names))
        stats = [outcome.stats if isinstance(outcome, _JudgedScore) else nothing for outcome in outcomes]
        table = np.array(stats, dtype=np.float64).reshape(len(outcomes), len(nothing))
        return replace(Scores.from_list(list(outcomes)), stats=table)

    def scored(self, ratings: RatingSet) -> Score:
        """The mean over the judgements of one sample."""
        each = ratings.ratings
        values = [self.combine(rating.values) for rating in each]
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        masses = [mass for rating in each for mass in rating.masses]
        weighted, unweighted = sum(one.num_weighted for one in each), sum(one.num_unweighted for one in each)
        told = [ratings.num_requested, len(each), squares, weighted, unweighted, len(masses), math.fsum(masses)]
        apart = [rating.values if self.dimension_names else () for rating in each]
        beside = [(*own, *rating.counts) for own, rating in zip(apart, each, strict=True)]
        means = [math.fsum(column) / len(each) for column in zip(*beside, strict=True)]
        return _JudgedScore(mean, stats=(*told, *means))

    def score_without_judge(self, rating: Rating) -> Score:
        """A score that nobody had to be asked for."""
        apart = rating.values if self.dimension_names else ()
        return _JudgedScore(self.combine(rating.values), stats=(*[0.0] * len(_COLUMNS), *apart, *rating.counts))

    def counted(self, scores: Scores, name: str) -> npt.NDArray[np.float64]:
        """What was counted under a name, per sample; 0 where nothing was judged."""
        assert scores.stats is not None
        place = len(_COLUMNS) + len(self.dimension_names) + self.count_names.index(name)
        column: npt.NDArray[np.float64] = scores.stats[:, place]
        return column

    def judgements_requested(self, scores: Scores) -> npt.NDArray[np.float64]:
        """How many judgements of each sample were asked for; 0 where nobody had to be asked."""
        assert scores.stats is not None
        column: npt.NDArray[np.float64] = scores.stats[:, _COLUMNS.index("asked")]
        return column

    @property
    def worst_stats(self) -> Sequence[float]:
        """A failed answer is worst in every dimension, and no judge was asked about it."""
        worst = 0.0 if self.higher_is_better else 1.0
        return [math.nan] * len(_COLUMNS) + [worst] * len(self.dimension_names) + [0.0] * len(self.count_names)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of each dimension, what was counted, and what the judgements say about the judge."""
        details: dict[str, Any] = {}
        names = self.dimension_names
        width = len(_COLUMNS) + len(names) + len(self.count_names)
        stats = (np.zeros((0, width)) if scores.stats is None else scores.stats)[scores.counted]
        columns = list(stats.T[len(_COLUMNS) :])
        if names:
            details["dimensions"] = {
                name: math.fsum(column) / len(column) if len(column) else None
                for name, column in zip(names, columns, strict=False)
            }
        for name, column in zip(self.count_names, columns[len(names) :], strict=True):
            total = math.fsum(column)
            details[name] = int(total) if total.is_integer() else total
        judge = _judge_summary(scores.values[scores.counted], stats)
        return {**details, "judge": judge} if judge else details


def _judge_summary(values: npt.NDArray[np.float64], stats: npt.NDArray[np.float64]) -> dict[str, Any]:
    """What judgements say about the judge: how often it was asked, how far it agrees with itself, how sure it was."""
    table = dict(zip(_COLUMNS, stats.T, strict=False))
    told = repeat_summary(values, table["asked"], table["came"], table["squares"])
    weighted, unweighted = int(table["weighted"].sum()), int(table["unweighted"].sum())
    if weighted or unweighted:
        told |= {"num_weighted": weighted, "num_unweighted": unweighted}
        masses = int(table["masses"].sum())
        told["mean_mass"] = math.fsum(table["mass"]) / masses if masses else None
    return told


def repeat_summary(
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
