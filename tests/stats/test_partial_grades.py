"""Ranking measures from human grades for some pairs: exact cases, unbiasedness, refusals and simulated coverage."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from auepora_eval.errors import AlignmentError, BadValueError
from auepora_eval.metrics.ranking import ndcg_at_k, precision_at_k, recall_at_k
from auepora_eval.stats.partial_grades import (
    PooledPairs,
    RankedMeasure,
    expected_measure,
    graded_measure,
    grading_probabilities,
    relevance_probabilities,
)
from benchmarks.verdicts_grades import MEASURES, NDCG, PRECISION, RECALL, one_draw, simulate_collection, summarise

DEFINITIONS = {"precision": precision_at_k, "recall": recall_at_k, "ndcg": ndcg_at_k}
NAN = float("nan")


def small_pairs(grades: list[float], probability: list[float] | None = None) -> PooledPairs:
    """Three queries with two documents each, all in the ranking."""
    return PooledPairs(
        np.array([0, 0, 1, 1, 2, 2]),
        np.array([0.9, 0.2, 0.7, 0.4, 0.3, 0.1]),
        np.array([0, 1, 0, 1, 0, 1]),
        np.array([0, 1, 0, 1, 0, 1]),
        np.ones(6) if probability is None else np.array(probability),
        np.array(grades),
        np.array([2, 2, 2]),
    )


@pytest.mark.parametrize("measure", MEASURES, ids=lambda one: one.name)
def test_all_pairs_graded_give_the_measure_itself(measure: RankedMeasure) -> None:
    collection = simulate_collection(np.random.default_rng(1), 12)
    found = graded_measure(collection.pairs(), measure)
    for query in range(12):
        order = np.argsort(np.where(collection.ranks[0][query] < 0, 99, collection.ranks[0][query]))
        gold = {str(document) for document in np.flatnonzero(collection.relevant[query])}
        want = DEFINITIONS[measure.name](gold, [str(document) for document in order[:40]], measure.k)
        assert found.by_query[query] == pytest.approx(want, abs=1e-12)
    assert found.value == pytest.approx(found.by_query.mean())


def test_the_corrected_precision_is_unbiased_over_all_draws() -> None:
    """The mean over all draws of the first two queries, weighted by their probabilities, is the precision."""
    truth, probability = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.2, 0.5, 0.8, 0.3, 1.0, 1.0]
    measure, total = RankedMeasure("precision", 2), 0.0
    for draw in itertools.product(*[[False, True]] * 4, [True], [True]):
        weight = float(np.prod([p if drawn else 1 - p for p, drawn in zip(probability, draw, strict=True)]))
        pairs = small_pairs([grade if drawn else NAN for grade, drawn in zip(truth, draw, strict=True)], probability)
        total += weight * float(graded_measure(pairs, measure).by_query.mean())
    assert total == pytest.approx(4 / 6, abs=1e-12)


EXPECTED = [  # measure, relevance, expected value, effect of each document, why
    (RankedMeasure("precision", 2), [0.5, 0.25], 3 / 8, [1 / 2, 1 / 2], "precision: the mean probability"),
    (RankedMeasure("precision", 5), [0.5, 0.25], 3 / 20, [1 / 5, 1 / 5], "precision: divided by k"),
    (RankedMeasure("precision", 5, "returned"), [0.5, 0.25], 3 / 8, [1 / 2, 1 / 2], "precision: divided by returned"),
    (RankedMeasure("recall", 1), [1.0, 0.0], 1.0, [1.0, -1 / 2], "recall: another relevant document lowers it"),
    (RankedMeasure("recall", 1), [0.0, 0.0], 0.0, [1.0, 0.0], "recall: nothing relevant is 0"),
    (RankedMeasure("ndcg", 1), [1.0, 1.0], 1.0, [1.0, 0.0], "nDCG: a document below the cut changes nothing"),
]


@pytest.mark.parametrize(
    ("measure", "relevance", "value", "effect"), [row[:4] for row in EXPECTED], ids=[row[4] for row in EXPECTED]
)
def test_expected_values_and_effects(
    measure: RankedMeasure, relevance: list[float], value: float, effect: list[float]
) -> None:
    found, effects = expected_measure(measure, np.array(relevance), np.full(2, NAN), np.array([0, 1]), 2)
    assert found == pytest.approx(value)
    assert effects == pytest.approx(effect)


def test_a_model_does_not_see_the_grade_that_it_predicts() -> None:
    grades = [1.0, 0.0, NAN, 1.0, 0.0, NAN]
    for measure in (RankedMeasure("precision", 2), RankedMeasure("recall", 2)):
        first = relevance_probabilities(small_pairs(grades, [0.5] * 6), measure)
        other = relevance_probabilities(small_pairs([0.0, *grades[1:]], [0.5] * 6), measure)
        assert first[0] == other[0]
        assert (first != other).any()


def test_probabilities_of_a_draw() -> None:
    collection = simulate_collection(np.random.default_rng(2), 10)
    none = np.zeros(collection.relevant.size, dtype=np.bool_)
    rankings = [collection.pairs(one, graded=none) for one in (0, 1)]
    inside = (rankings[0].rank >= 0) & (rankings[0].rank < 10)
    precision = grading_probabilities(rankings[:1], [PRECISION], 50)
    assert precision.sum() == pytest.approx(50)
    assert (precision > 0).tolist() == inside.tolist()  # other documents do not change precision
    both = grading_probabilities(rankings, [RECALL, NDCG], 100)
    assert both.sum() == pytest.approx(100)
    assert both.min() >= 0.3 * 100 / 740 * 0.99
    known = replace(rankings[0], grade=np.where(np.arange(740) < 7, 1.0, NAN))
    with_known = grading_probabilities([known], [RECALL], 100)
    assert with_known[:7].tolist() == [1.0] * 7
    assert with_known.sum() == pytest.approx(107)


def test_grades_outside_a_draw_are_refused() -> None:
    with pytest.raises(BadValueError, match="it was not part of the draw"):
        small_pairs([1.0] * 6, [0.0, *[1.0] * 5])
    with pytest.raises(BadValueError, match="between 0 and 1"):
        small_pairs([NAN] * 6, [1.5, *[1.0] * 5])
    pairs = small_pairs([NAN, *[1.0] * 5], [0.0, *[1.0] * 5])
    with pytest.raises(BadValueError, match="depends on documents that could not be drawn"):
        graded_measure(pairs, RankedMeasure("recall", 2))
    with pytest.raises(BadValueError, match="has no grade"):
        graded_measure(replace(pairs, probability=np.ones(6)), RankedMeasure("recall", 2))
    with pytest.raises(AlignmentError):
        replace(pairs, score=np.ones(5))
    with pytest.raises(BadValueError, match="order of their queries"):
        replace(pairs, query=pairs.query[::-1])
    with pytest.raises(BadValueError, match="no query"):
        graded_measure(replace(pairs, **{name: getattr(pairs, name)[:0] for name in pairs.__slots__}), PRECISION)


LIMITS = [  # measure, pairs, draws, truth, largest bias, largest width relative to the other estimate, the other one
    (PRECISION, 300, 40, 0.534, 0.02, 0.80, "human only, whole queries"),
    (RECALL, 1000, 15, 0.701, 0.03, 0.60, "PPI++ by query"),
    (NDCG, 1000, 15, 0.658, 0.03, 0.60, "PPI++ by query"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "pairs", "draws", "truth", "bias", "share", "other"), LIMITS, ids=[row[0].name for row in LIMITS]
)
def test_simulated_collection(
    measure: RankedMeasure, pairs: int, draws: int, truth: float, bias: float, share: float, other: str
) -> None:
    """Few draws: the limits of bias and coverage allow for their error; ``benchmarks.verdicts_grades`` has more."""
    found = [one_draw(measure, pairs, truth, seed) for seed in range(draws)]
    corrected = summarise([one["corrected"] for one in found])
    against = summarise([one[other] for one in found])
    census = summarise([one["census"] for one in found])
    assert abs(corrected[0] - census[0]) <= bias
    assert corrected[2] >= 0.80
    assert corrected[3] <= share * against[3]
