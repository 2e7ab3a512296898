"""Base class of metrics whose scores are means over repeated judgements, and statistics of the judge."""

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
"""Statistics of each sample, before the means of its dimensions and its counts."""


@dataclass(frozen=True, slots=True)
class _JudgedScore(Score):
    """A score with the statistics of its judgements."""

    stats: tuple[float, ...] = ()


@dataclass(frozen=True)
class RepeatedJudgementMetric(ConfiguredMetric, JudgedMetric):
    """A metric whose score of a sample is the mean over its judgements."""

    needs_all: ClassVar[bool] = True  # for the spread of the judge; the memory is small

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """The names of the dimensions, if there are several."""
        return ()

    @property
    def count_names(self) -> tuple[str, ...]:
        """The names of the counts, such as ``num_claims``."""
        return ()

    def combine(self, values: Sequence[float]) -> float:
        """The score of one judgement from its values."""
        (value,) = values
        return value

    async def ascore(self, batch: Batch, judge: JudgeClient) -> Scores:
        """One outcome per sample, judged concurrently."""
        outcomes = await asyncio.gather(
            *(
                self._ascore_checked(batch, sample, output, judge, answered=answered)
                for sample, output, answered in self.rows(batch)
            )
        )
        return self.to_scores(outcomes)

    def to_scores(self, outcomes: Sequence[Score]) -> Scores:
        """The scores of all samples, with the statistics of their judgements."""
        empty = [0.0] * (len(_COLUMNS) + len(self.dimension_names) + len(self.count_names))
        stats = [outcome.stats if isinstance(outcome, _JudgedScore) else empty for outcome in outcomes]
        table = np.array(stats, dtype=np.float64).reshape(len(outcomes), len(empty))
        return replace(Scores.from_list(list(outcomes)), stats=table)

    def score_ratings(self, ratings: RatingSet) -> Score:
        """The mean over the judgements of one sample."""
        ratings_list = ratings.ratings
        values = [self.combine(rating.values) for rating in ratings_list]
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        masses = [mass for rating in ratings_list for mass in rating.masses]
        weighted, unweighted = (
            sum(one.num_weighted for one in ratings_list),
            sum(one.num_unweighted for one in ratings_list),
        )
        statistics = [
            ratings.num_requested,
            len(ratings_list),
            squares,
            weighted,
            unweighted,
            len(masses),
            math.fsum(masses),
        ]
        dimensions = [rating.values if self.dimension_names else () for rating in ratings_list]
        columns = [
            (*values_by_dimension, *rating.counts)
            for values_by_dimension, rating in zip(dimensions, ratings_list, strict=True)
        ]
        means = [math.fsum(column) / len(ratings_list) for column in zip(*columns, strict=True)]
        return _JudgedScore(mean, stats=(*statistics, *means))

    def score_without_judge(self, rating: Rating) -> Score:
        """A score that needs no judge."""
        dimensions = rating.values if self.dimension_names else ()
        return _JudgedScore(self.combine(rating.values), stats=(*[0.0] * len(_COLUMNS), *dimensions, *rating.counts))

    def count_column(self, scores: Scores, name: str) -> npt.NDArray[np.float64]:
        """The counts with this name, per sample; 0 if nothing was judged."""
        assert scores.stats is not None
        place = len(_COLUMNS) + len(self.dimension_names) + self.count_names.index(name)
        column: npt.NDArray[np.float64] = scores.stats[:, place]
        return column

    def judgements_requested(self, scores: Scores) -> npt.NDArray[np.float64]:
        """The number of requested judgements of each sample; 0 if no judge was needed."""
        assert scores.stats is not None
        column: npt.NDArray[np.float64] = scores.stats[:, _COLUMNS.index("asked")]
        return column

    @property
    def worst_stats(self) -> Sequence[float]:
        """A failed answer has the worst value in every dimension, and no judgements."""
        worst = 0.0 if self.higher_is_better else 1.0
        return [math.nan] * len(_COLUMNS) + [worst] * len(self.dimension_names) + [0.0] * len(self.count_names)

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """The mean of each dimension, the counts, and statistics of the judge."""
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
    """Statistics of the judge: number of judgements, agreement with itself, probability mass."""
    table = dict(zip(_COLUMNS, stats.T, strict=False))
    summary = repeat_summary(values, table["asked"], table["came"], table["squares"])
    weighted, unweighted = int(table["weighted"].sum()), int(table["unweighted"].sum())
    if weighted or unweighted:
        summary |= {"num_weighted": weighted, "num_unweighted": unweighted}
        masses = int(table["masses"].sum())
        summary["mean_mass"] = math.fsum(table["mass"]) / masses if masses else None
    return summary


def repeat_summary(
    values: npt.NDArray[np.float64],
    requested: npt.NDArray[np.float64],
    received: npt.NDArray[np.float64],
    squares: npt.NDArray[np.float64],
) -> dict[str, Any]:
    """Number and spread of the judgements; empty if each sample was judged once.

    Per sample: its score, the numbers of requested and of received judgements, and the sum of their squared deviations.
    """
    if not (requested > 1).any():
        return {}
    return {
        "repeats": int(requested.max()),
        "num_judgements": int(received.sum()),
        "num_failed": int((requested - received).sum()),
        **_spread(values, received, squares),
    }


def _spread(
    values: npt.NDArray[np.float64], received: npt.NDArray[np.float64], squares: npt.NDArray[np.float64]
) -> dict[str, float | None]:
    r"""The spread of judgements of the same answer, and the proportion of the variance of the scores that it explains.

    With :math:`s^2` the variance within samples, pooled, and :math:`n_i` judgements of sample i, the judge adds
    :math:`s^2 / n_i` to the variance of its score: a proportion of the variance of all scores, and :math:`\sqrt{\sum_i
    s^2 / n_i} / N` to the error of their mean.
    """
    degrees_of_freedom = float((received[received > 0] - 1).sum())
    if degrees_of_freedom <= 0:  # no sample was judged twice
        return {"sd_within_samples": None, "share_of_variance": None, "error_of_mean": None}
    variance = math.fsum(squares) / degrees_of_freedom
    added = [variance / n for n in received.tolist() if n]
    total, proportion = len(values), None
    if total > 1:
        mean = math.fsum(values) / total
        spread = math.fsum((value - mean) ** 2 for value in values.tolist()) / (total - 1)
        proportion = min(1.0, math.fsum(added) / total / spread) if spread > 0 else None
    return {
        "sd_within_samples": math.sqrt(variance),
        "share_of_variance": proportion,
        "error_of_mean": math.sqrt(math.fsum(added)) / total,
    }
