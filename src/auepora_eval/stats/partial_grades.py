r"""Ranking measures from model grades of all pooled pairs and human grades of a random part of them.

Relevance is binary. A pair is a query with a document of its pool; documents outside the pool are not relevant. With
the probability :math:`p_d` that document d is relevant and the probability :math:`\pi_d` that people graded it,

.. math:: T_q = E_q + \sum_{d\ \text{graded}} g_d (y_d - p_d) \frac{1 - \pi_d}{\pi_d}

estimates the measure of query q. :math:`E_q` is its expected value if ungraded documents are relevant with probability
p, and :math:`g_d` is the effect of document d: the expected value with d relevant minus the one without. The estimate
is the mean of T over queries, and its interval is the t interval of that mean: queries are the units.

Precision is linear in the grades, so that its estimate is unbiased for any p. Recall and nDCG are not linear; an
intercept per query in the model of p removes most of the bias of second order. For them the deviations of T from their
mean are increased, by 4 to 15 % for most draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Literal

import numpy as np

from ..errors import AlignmentError, BadValueError
from .intervals import Bools, Floats, Interval, Ints, mean_interval
from .sampling import inclusion_probabilities
from .stacking import logistic

MeasureName = Literal["precision", "recall", "ndcg"]

FOLDS = 5
MIN_GRADES = 30
"""Fewer grades do not tell how much the estimate varies: with 10 of 780 pairs, intervals of 95 % cover in 80 %."""
_DRAWS = 60
"""Monte Carlo draws of the ungraded documents of a query."""
_RIDGE = 1.0
_RIDGE_OF_INTERCEPT = 1e-6
_NEWTON_STEPS = 15
_CONVERGED = 1e-9
_COLUMNS = 6
"""Columns of the regression besides the intercepts of queries."""
_MAX_INFLATION = 4.0
_SHRINKAGE = 0.2
"""By how much the variance of T is too small without any grade; measured by ``benchmarks.verdicts_grades``."""
_MAX_WEIGHT = 5.0
"""Largest weight of a graded pair in the fit, relative to the mean weight."""
_UNIFORM_SHARE = 0.3
_UNIFORM_SHARE_LINEAR = 0.5
"""Proportion of equal probabilities in a draw for precision alone."""
_CERTAINTY = 0.005
"""Estimated probabilities lie between this and one minus this."""
_CLOSEST_SCORE = 0.02
"""Scores of the model closer to 0 or 1 than this count as this."""


@dataclass(frozen=True, slots=True)
class RankedMeasure:
    """Precision, recall or nDCG of the first ``k`` documents of a ranking, with binary gain."""

    name: MeasureName
    k: int
    divide_by: Literal["k", "returned"] = "k"
    """Precision divides by k, or by the number of documents returned where it is smaller."""

    @property
    def is_linear(self) -> bool:
        """Whether the measure is a weighted sum of the grades."""
        return self.name == "precision"


@dataclass(frozen=True, slots=True, eq=False)
class PooledPairs:
    """The pooled pairs of all queries and one ranking of each query, as columns."""

    query: Ints
    """The number of the query, from 0; in ascending order."""
    score: Floats
    """Relevance by the model, between 0 and 1; above .5 the model calls the document relevant."""
    rank: Ints
    """Position in the ranking, from 0; -1 for documents that are not in it."""
    best_rank: Ints
    """The best position in any ranking of the pool."""
    probability: Floats
    """The probability with which the pair was drawn for grading; 1 where its grade was known before."""
    grade: Floats
    """1 for relevant, 0 for not relevant, NaN for not graded by a person."""
    returned: Ints
    """Number of documents in the ranking of each query; its length is the number of queries."""

    def __post_init__(self) -> None:
        size = len(self.query)
        for column in (self.score, self.rank, self.best_rank, self.probability, self.grade):
            AlignmentError.check(size, len(column))
        if size and ((np.diff(self.query) < 0).any() or self.query[0] < 0 or self.query[-1] >= self.num_queries):
            raise BadValueError("the pairs must be in the order of their queries, which are numbered from 0")
        if not ((self.probability >= 0) & (self.probability <= 1)).all():
            raise BadValueError("probabilities of a draw lie between 0 and 1")
        if (self.graded & (self.probability == 0)).any():
            raise BadValueError("a graded pair has the probability 0: it was not part of the draw")

    @property
    def num_queries(self) -> int:
        """Number of queries."""
        return len(self.returned)

    @property
    def graded(self) -> Bools:
        """Which pairs have a grade of a person."""
        return np.isfinite(self.grade)

    def by_query(self) -> Iterator[tuple[int, slice]]:
        """The number of each query with pairs, and the rows of its pairs."""
        bounds = np.searchsorted(self.query, np.arange(self.num_queries + 1))
        for number, (first, last) in enumerate(pairwise(bounds.tolist())):
            if last > first:
                yield number, slice(first, last)

    def with_grades_of_model(self) -> PooledPairs:
        """The same pairs, all graded by the model."""
        return replace(self, probability=np.ones(len(self.query)), grade=(self.score > 0.5).astype(np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class GradedMeasure:
    """A measure estimated from human grades and model grades."""

    value: float
    interval: Interval | None
    """About queries of this kind; ``None`` for a single query."""
    by_query: Floats
    """T of each query, the units of the interval, with the deviations increased for recall and nDCG. They may lie
    outside 0 to 1."""
    grading_error: float | None = None
    """Standard error of the grading alone, for the mean of these queries and no others; for precision only."""


def graded_measure(
    pairs: PooledPairs, measure: RankedMeasure, *, use_scores: bool = True, seed: int = 0
) -> GradedMeasure:
    """The estimate of ``measure`` by the formula of this module.

    Without ``use_scores`` the probabilities come from the human grades and the positions alone. With probabilities
    of 1 the estimate is the measure itself. Raises ``BadValueError`` where a document that may change the measure had
    no chance to be drawn.
    """
    if not pairs.num_queries:
        raise BadValueError("there is no query to average over")
    if (pairs.probability[~pairs.graded] == 1).any():
        raise BadValueError("a pair that was drawn with the probability 1 has no grade; grade all drawn pairs")
    if (pairs.probability == 1).all():
        relevance = pairs.grade
    else:
        relevance = relevance_probabilities(pairs, measure, use_scores=use_scores, seed=seed)
    values, variance = np.zeros(pairs.num_queries), 0.0
    for number, rows in pairs.by_query():
        grade, inclusion = pairs.grade[rows], pairs.probability[rows]
        expected, effect = expected_measure(
            measure, relevance[rows], grade, pairs.rank[rows], int(pairs.returned[number]), seed=seed + number
        )
        if (inclusion[affects(measure, pairs.rank[rows])] == 0).any():
            raise BadValueError(
                f"{measure.name}@{measure.k} depends on documents that could not be drawn for grading; draw pairs for "
                "this measure"
            )
        graded = np.isfinite(grade)
        terms = (effect * (grade - relevance[rows]))[graded] / inclusion[graded]
        values[number] = expected + float(terms @ (1 - inclusion[graded]))
        variance += float(terms**2 @ (1 - inclusion[graded]))
    if not measure.is_linear:
        values = values.mean() + math.sqrt(_inflation(pairs)) * (values - values.mean())
    interval = mean_interval(values, lowest=0.0, highest=1.0)
    if interval is not None:
        interval = replace(interval, low=max(interval.low, 0.0), high=min(interval.high, 1.0))
    error = math.sqrt(variance) / pairs.num_queries if measure.is_linear else None
    return GradedMeasure(min(max(float(values.mean()), 0.0), 1.0), interval, values, error)


def require_enough_grades(pairs: PooledPairs, measure: RankedMeasure) -> None:
    """Raise if people graded fewer than 30 of the drawn pairs that change the measure, and fewer than a third."""
    drawn_from = affects(measure, pairs.rank) & (pairs.probability < 1)
    total, graded = int(drawn_from.sum()), int((drawn_from & pairs.graded).sum())
    if 3 * graded < min(total, 3 * MIN_GRADES):
        raise BadValueError(
            f"people graded {graded} of the {total} pairs that change {measure.name}@{measure.k}; an interval needs "
            f"{min(MIN_GRADES, math.ceil(total / 3))}: grade more of the draw"
        )


def expected_measure(
    measure: RankedMeasure, relevance: Floats, grade: Floats, rank: Ints, returned: int, *, seed: int = 0
) -> tuple[float, Floats]:
    """The expected measure of one query, and the effect of each document on it.

    Documents are relevant with the probability ``relevance``, or as graded where ``grade`` is not NaN.
    """
    graded = np.isfinite(grade)
    known = np.where(graded, grade, relevance)
    inside = (rank >= 0) & (rank < measure.k)
    if measure.is_linear:
        divisor = measure.k if measure.divide_by == "k" else min(measure.k, returned)
        effect = inside / max(divisor, 1)
        return float(effect @ known), effect
    draws = 1 if graded.all() else _DRAWS
    uniform = np.random.default_rng(seed).random((draws, len(known)))
    relevant = (uniform < known).astype(np.float64)  # a grade of 1 is above every draw, one of 0 above none
    total = relevant.sum(axis=1, keepdims=True)
    gain = inside / np.log2(np.maximum(rank, 0) + 2) if measure.name == "ndcg" else inside.astype(np.float64)
    gained = relevant @ gain[:, None]
    ideal = _ideal_gains(measure, len(known) + 1)
    value = float((gained / ideal[total.astype(np.intp)]).mean())
    others = (total - relevant).astype(np.intp)
    gained_by_others = gained - relevant * gain
    effect = ((gained_by_others + gain) / ideal[others + 1] - gained_by_others / ideal[others]).mean(axis=0)
    return value, effect


def _inflation(pairs: PooledPairs) -> float:
    """By how much the variance of T over queries is too small for recall and nDCG.

    The model of p was fitted to the same grades, which costs degrees of freedom, and ungraded documents draw T towards
    the mean of all queries.
    """
    drawn = pairs.graded & (pairs.probability < 1)
    n = int(drawn.sum())
    parameters = _COLUMNS + len(np.unique(pairs.query[drawn]))
    ungraded = 1 - float(pairs.graded.mean())
    return max(n / max(n - parameters, n / _MAX_INFLATION) if n else 1.0, 1 + _SHRINKAGE * ungraded)


def affects(measure: RankedMeasure, rank: Ints) -> Bools:
    """Which documents can change the measure, by their positions: those in the top k, or all if they are counted."""
    return (rank >= 0) & (rank < measure.k) if measure.is_linear else np.ones(len(rank), dtype=np.bool_)


def _ideal_gains(measure: RankedMeasure, documents: int) -> Floats:
    """The divisor by number of relevant documents; 1 for none, where the gain is 0."""
    if measure.name == "recall":
        counts: Floats = np.maximum(np.arange(documents + 1.0), 1.0)
        return counts
    gains = np.where(np.arange(documents) < measure.k, 1 / np.log2(np.arange(documents) + 2), 0.0)
    return np.concatenate([[1.0], np.cumsum(gains)])


# --- the probability of relevance: a ridge logistic regression on the human grades, cross-fitted -----------------


def relevance_probabilities(
    pairs: PooledPairs, measure: RankedMeasure, *, use_scores: bool = True, seed: int = 0
) -> Floats:
    """The probability of relevance of each pair, by a model that its own grade did not enter.

    Folds are queries for precision, and documents for recall and nDCG, whose model has an intercept per query.
    """
    features = _features(pairs, measure.k, use_scores=use_scores)
    rng = np.random.default_rng(seed)
    if measure.is_linear:
        groups, num_groups = np.zeros(len(features), dtype=np.intp), 1
        fold = (rng.permutation(pairs.num_queries) % FOLDS)[pairs.query]
    else:
        groups, num_groups = pairs.query, pairs.num_queries
        fold = rng.permutation(len(features)) % FOLDS
    graded = pairs.graded
    found = np.empty(len(graded))
    for number in range(FOLDS):
        train, rest = graded & (fold != number), fold == number
        weights = 1 / pairs.probability[train]
        weights = np.minimum(weights / weights.mean(), _MAX_WEIGHT) if len(weights) else weights
        model = _fit_logistic(features[train], groups[train], pairs.grade[train], weights, num_groups)
        found[rest] = model.probability(features[rest], groups[rest])
    return np.clip(found, _CERTAINTY, 1 - _CERTAINTY)


def _features(pairs: PooledPairs, k: int, *, use_scores: bool) -> Floats:
    """The columns of the regression, the intercept first."""
    columns = [np.ones(len(pairs.score)), pairs.best_rank < 3, (pairs.rank >= 0) & (pairs.rank < k)]
    if use_scores:
        score = np.clip(pairs.score, _CLOSEST_SCORE, 1 - _CLOSEST_SCORE)
        sums = np.bincount(pairs.query, pairs.score, minlength=pairs.num_queries)
        means = sums / np.maximum(np.bincount(pairs.query, minlength=pairs.num_queries), 1)
        columns += [np.log(score / (1 - score)), pairs.score > 0.5, means[pairs.query]]
    return np.column_stack(columns).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _LogisticModel:
    """Coefficients of the columns, and an intercept of each group."""

    coefficients: Floats
    intercepts: Floats

    def probability(self, features: Floats, groups: Ints) -> Floats:
        """The probability of each row."""
        return logistic(features @ self.coefficients + self.intercepts[groups])


def _fit_logistic(features: Floats, groups: Ints, labels: Floats, weights: Floats, num_groups: int) -> _LogisticModel:
    """A weighted logistic regression with a ridge on columns and on group intercepts, by Newton's method.

    The Hessian of the intercepts is diagonal, so that a step solves a system of the size of the columns only.
    """
    columns = features.shape[1]
    ridge = np.array([_RIDGE_OF_INTERCEPT, *[_RIDGE] * (columns - 1)])
    model = _LogisticModel(np.zeros(columns), np.zeros(num_groups))
    for _ in range(_NEWTON_STEPS):
        p = model.probability(features, groups)
        curvature, error = weights * p * (1 - p), weights * (labels - p)
        diagonal = np.bincount(groups, curvature, minlength=num_groups) + _RIDGE
        cross = np.column_stack(
            [np.bincount(groups, curvature * column, minlength=num_groups) for column in features.T]
        )
        of_columns = features.T @ error - ridge * model.coefficients
        of_groups = np.bincount(groups, error, minlength=num_groups) - _RIDGE * model.intercepts
        hessian = features.T @ (features * curvature[:, None]) + np.diag(ridge)
        scaled = cross / diagonal[:, None]
        step = np.linalg.solve(hessian - cross.T @ scaled, of_columns - scaled.T @ of_groups)
        model = _LogisticModel(model.coefficients + step, model.intercepts + (of_groups - cross @ step) / diagonal)
        if float(np.abs(step).max()) < _CONVERGED:
            break
    return model


# --- the design: which pairs people grade ----------------------------------------------------------------------------


def grading_probabilities(rankings: Sequence[PooledPairs], measures: Sequence[RankedMeasure], n: int) -> Floats:
    """The probability with which each pair is drawn for grading by people, ``n`` pairs in total.

    Pairs are drawn where the model is uncertain and the measures depend on the document. ``rankings`` have the same
    pairs in the same order; each measure of each ranking counts alike. Pairs that change no measure have the
    probability 0; pairs with a grade of a person have 1 and do not count among the n.
    """
    known = rankings[0].graded
    affected, errors = np.zeros(len(known), dtype=np.bool_), np.zeros(len(known))
    for ranking, measure in product(rankings, measures):
        affected |= affects(measure, ranking.rank)
        errors += _expected_errors(ranking, measure)
    open_pairs = ~known & affected
    found = known.astype(np.float64)
    uniform = _UNIFORM_SHARE_LINEAR if all(measure.is_linear for measure in measures) else _UNIFORM_SHARE
    found[open_pairs] = inclusion_probabilities(errors[open_pairs], n, uniform=uniform)
    return found


def _expected_errors(pairs: PooledPairs, measure: RankedMeasure) -> Floats:
    """The expected squared error of the measure by leaving each pair to the model; their roots have the mean 1."""
    relevance = 0.1 + 0.8 * pairs.score
    errors = np.zeros(len(relevance))
    for number, rows in pairs.by_query():
        p = relevance[rows]
        _, effect = expected_measure(
            measure, p, pairs.grade[rows], pairs.rank[rows], int(pairs.returned[number]), seed=number
        )
        errors[rows] = effect**2 * p * (1 - p)
    scale = float(np.sqrt(errors).mean())
    return errors / scale**2 if scale > 0 else errors
