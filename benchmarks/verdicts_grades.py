"""Ranking measures from partly human grades, simulated: bias, coverage and width against other estimators.

    python -m benchmarks.verdicts --only D [--quick]

A collection has 74 pooled documents a query. Queries differ in how much is relevant; two rankings follow relevance with
noise; a model grades with an error that depends on the length and the position of a document and on the query. In each
draw 60 new queries are drawn, and pairs of them are graded by people. The truth is the mean over 20,000 queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.calibration import corrected_mean
from auepora_eval.stats.intervals import Interval, mean_interval
from auepora_eval.stats.partial_grades import PooledPairs, RankedMeasure, graded_measure, grading_probabilities
from auepora_eval.stats.sampling import systematic_draw
from benchmarks.verdicts import Figure, Section

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

DOCUMENTS = 74
QUERIES = 60
DEPTH = 40
PRECISION, RECALL, NDCG = RankedMeasure("precision", 10), RankedMeasure("recall", 20), RankedMeasure("ndcg", 10)
MEASURES = (PRECISION, RECALL, NDCG)


@dataclass(frozen=True, slots=True)
class Collection:
    """Queries with pooled documents: relevance, scores of a model, and the positions in two rankings."""

    relevant: Floats
    score: Floats
    ranks: tuple[Ints, Ints]

    def pairs(
        self, ranking: int = 0, *, graded: npt.NDArray[np.bool_] | None = None, probability: Floats | None = None
    ) -> PooledPairs:
        """The pairs with one of the rankings; by default with all grades."""
        queries, documents = self.relevant.shape
        everywhere = (
            np.where(self.ranks[0] < 0, DEPTH, self.ranks[0]),
            np.where(self.ranks[1] < 0, DEPTH, self.ranks[1]),
        )
        grade = self.relevant.ravel()
        return PooledPairs(
            np.repeat(np.arange(queries), documents),
            self.score.ravel(),
            self.ranks[ranking].ravel(),
            np.minimum(*everywhere).ravel(),
            np.ones(len(grade)) if probability is None else probability,
            grade if graded is None else np.where(graded, grade, np.nan),
            np.full(queries, DEPTH),
        )


def simulate_collection(rng: np.random.Generator, queries: int = QUERIES) -> Collection:
    """Draw queries with their documents."""
    size = queries, DOCUMENTS
    topic = rng.normal(size=size)
    logits = rng.normal(-2.2, 1.0, size=(queries, 1)) + 1.2 * topic
    relevant = (rng.random(size) < 1 / (1 + np.exp(-logits))).astype(np.float64)
    first = _positions(topic + relevant + rng.normal(size=size))
    second = _positions(topic + 0.8 * relevant + rng.normal(scale=1.1, size=size))
    error = 0.5 * rng.normal(size=size) + 0.7 * rng.normal(size=(queries, 1)) + 0.8 * rng.normal(size=size)
    logits = -1.6 + 3.0 * relevant + 0.6 * ((first >= 0) & (first < 10)) + error
    return Collection(relevant, 1 / (1 + np.exp(-logits)), (first, second))


def _positions(scores: Floats) -> Ints:
    places = np.argsort(np.argsort(-scores, axis=1), axis=1)
    return np.where(places < DEPTH, places, -1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An estimate of one draw, compared with the truth."""

    error: float
    covered: bool
    width: float

    @classmethod
    def of(cls, value: float, interval: Interval | None, truth: float) -> "Outcome":
        assert interval is not None
        return cls(value - truth, interval.low <= truth <= interval.high, interval.high - interval.low)


def one_draw(measure: RankedMeasure, n: int, truth: float, seed: int) -> dict[str, Outcome]:
    """The estimates of one draw of queries and of ``n`` graded pairs; those by query grade whole queries."""
    rng = np.random.default_rng([seed, 34])
    collection = simulate_collection(rng)
    census = graded_measure(collection.pairs(), measure)
    ungraded = collection.pairs(graded=np.zeros(collection.relevant.size, dtype=np.bool_))
    model = graded_measure(ungraded.with_grades_of_model(), measure)
    probability = grading_probabilities([ungraded], [measure], n)
    graded = np.zeros(len(probability), dtype=np.bool_)
    graded[systematic_draw(probability, seed)] = True
    pairs = collection.pairs(graded=graded, probability=probability)
    found = {"census": census, "model only": model, "corrected": graded_measure(pairs, measure)}
    outcomes = {name: Outcome.of(one.value, one.interval, truth) for name, one in found.items()}
    of_query = measure.k if measure.is_linear else DOCUMENTS
    labels = np.full(QUERIES, np.nan)
    chosen = rng.permutation(QUERIES)[: max(2, min(QUERIES, n // of_query))]
    labels[chosen] = census.by_query[chosen]
    by_query = corrected_mean(model.by_query, labels, lowest=0.0, highest=1.0)
    outcomes["human only, whole queries"] = Outcome.of(by_query.labels_mean, by_query.labels_interval, truth)
    outcomes["PPI++ by query"] = Outcome.of(by_query.value, by_query.interval, truth)
    return outcomes


def one_difference(measure: RankedMeasure, n: int, truth: float, seed: int) -> dict[str, Outcome]:
    """The difference of the two rankings from the same graded pairs."""
    collection = simulate_collection(np.random.default_rng([seed, 34]))
    none = np.zeros(collection.relevant.size, dtype=np.bool_)
    probability = grading_probabilities([collection.pairs(one, graded=none) for one in (0, 1)], [measure], n)
    graded = none.copy()
    graded[systematic_draw(probability, seed)] = True
    first, second = (
        graded_measure(collection.pairs(one, graded=graded, probability=probability), measure).by_query
        for one in (0, 1)
    )
    difference = second - first
    return {"difference": Outcome.of(float(difference.mean()), mean_interval(difference), truth)}


def true_values(queries: int = 20_000) -> dict[RankedMeasure, tuple[float, float]]:
    """The mean of each measure for the two rankings."""
    collection = simulate_collection(np.random.default_rng(99), queries)
    return {
        measure: (
            graded_measure(collection.pairs(0), measure).value,
            graded_measure(collection.pairs(1), measure).value,
        )
        for measure in MEASURES
    }


def summarise(outcomes: list[Outcome]) -> tuple[float, float, float, float]:
    """Bias, its standard error, coverage and mean width."""
    errors = [one.error for one in outcomes]
    return (
        fmean(errors),
        stdev(errors) / len(errors) ** 0.5,
        fmean(one.covered for one in outcomes),
        fmean(one.width for one in outcomes),
    )


def measure_figures(measure: RankedMeasure, n: int, draws: int, truth: tuple[float, float]) -> Iterator[Figure]:
    """Bias, coverage and width of the corrected measure and of a difference, with ``n`` graded pairs."""
    found = [one_draw(measure, n, truth[0], seed) for seed in range(draws)]
    bias, error, coverage, width = summarise([one["corrected"] for one in found])
    name = f"{measure.name}@{measure.k}, {n} pairs"
    yield Figure(f"{name}: bias, absolute", abs(bias), 0.005 if measure.is_linear else 0.02)
    yield Figure("... its standard error", error)
    yield Figure("... coverage", coverage, at_least=0.93)
    yield Figure("... width", width)
    by_query = {
        name: summarise([one[name] for one in found]) for name in ("human only, whole queries", "PPI++ by query")
    }
    if measure.is_linear:
        yield Figure("... width relative to people alone", width / by_query["human only, whole queries"][3], 0.80)
    elif n >= 1000:
        yield Figure("... width relative to PPI++ by query", width / by_query["PPI++ by query"][3], 0.60)
    for other in ("census", "model only"):
        bias, _, coverage, width = summarise([one[other] for one in found])
        yield Figure(f"... {other}: bias", bias)
        yield Figure(f"... {other}: coverage", coverage)
        yield Figure(f"... {other}: width", width)
    differences = [one_difference(measure, n, truth[1] - truth[0], seed)["difference"] for seed in range(draws)]
    bias, _, coverage, width = summarise(differences)
    yield Figure("... difference of two rankings: bias, absolute", abs(bias))
    yield Figure("... difference of two rankings: coverage", coverage)
    yield Figure("... difference of two rankings: width", width)


def partial_grades(divisor: int) -> Iterator[Figure]:
    """Section D."""
    truths = true_values()
    for measure, n in ((PRECISION, 300), (RECALL, 300), (NDCG, 300), (RECALL, 1000), (NDCG, 1000)):
        yield from measure_figures(measure, n, 400 // divisor, truths[measure])


SECTIONS: dict[str, tuple[str, Section]] = {"D": ("Partly human grades", partial_grades)}
