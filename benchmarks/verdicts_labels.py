"""Corrected means and differences from few labels: width, coverage and verdicts on public human labels.

    python -m benchmarks.verdicts --only B    (or C, E)

B: the mean of one run, labels drawn at random, by probability or by strata. C: the difference of two runs from 40
labelled samples. E: a stacked panel as the score of a corrected mean. The data is read by tests/helpers/evouna.py and
tests/helpers/nq301.py; without it there are no figures.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.calibration import (
    CorrectedMean,
    corrected_difference,
    corrected_mean,
    expected_calibration_error,
)
from auepora_eval.stats.sampling import (
    expected_errors,
    inclusion_probabilities,
    strata_of,
    stratified_draw,
    systematic_draw,
)
from auepora_eval.stats.stacking import (
    Calibrator,
    cross_fit,
    fit_calibrator,
    fit_stacked_weights,
    stacked_probability,
)

from .verdicts import DATA, Figure, Section

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.evouna import LENGTH_COLUMN, LabelledAnswers, labelled_answers
from helpers.nq301 import nq301

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

LABELS = 100
HISTORY_LABELS = 500
"""Labels of another system on the same questions, from which a calibrator predicts labels."""
PAIR_LABELS = 40
PAIR_HISTORY_LABELS = 300
LARGE_DIFFERENCE = 0.05


def known_labels(labels: Floats, drawn: Ints) -> Floats:
    """The labels of the drawn samples, NaN elsewhere."""
    found = np.full(len(labels), np.nan)
    found[drawn] = labels[drawn]
    return found


def random_draw(samples: int, n: int, seed: int) -> Ints:
    """``n`` positions, all with the same probability."""
    drawn: Ints = np.random.default_rng([seed, n]).choice(samples, n, replace=False)
    return drawn


def width(found: CorrectedMean, *, alone: bool = False) -> float:
    """The width of the interval, or of that of the labels alone."""
    interval = found.labels_interval if alone else found.interval
    assert interval is not None
    return interval.high - interval.low


def covers(found: CorrectedMean, truth: float) -> bool:
    """Whether the interval contains the true value."""
    assert found.interval is not None
    return found.interval.low <= truth <= found.interval.high


# --- B: the mean of one run ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Population:
    """All labels of a run, its cheap features, and labels predicted from them."""

    name: str
    labels: Floats
    cheap: Floats
    """One cheap signal, without a calibrator."""
    features: Floats
    predictions: Floats
    """By a calibrator from labels of another run."""


Design = Callable[[Population, int, int], CorrectedMean]
"""Draws labels of a population and estimates its mean; takes the number of labels and a seed."""


def random_labels(population: Population, n: int, seed: int) -> CorrectedMean:
    """Random labels without scores."""
    labels = known_labels(population.labels, random_draw(len(population.labels), n, seed))
    return corrected_mean(population.cheap, labels, binary=True, finite=True, use_scores=False)


def random_cheap(population: Population, n: int, seed: int) -> CorrectedMean:
    """Random labels with one cheap signal."""
    labels = known_labels(population.labels, random_draw(len(population.labels), n, seed))
    return corrected_mean(population.cheap, labels, binary=True, finite=True)


def random_history(population: Population, n: int, seed: int) -> CorrectedMean:
    """Random labels with predictions from history."""
    labels = known_labels(population.labels, random_draw(len(population.labels), n, seed))
    return corrected_mean(population.predictions, labels, binary=True, finite=True)


def probability_history(population: Population, n: int, seed: int) -> CorrectedMean:
    """Labels drawn by probability, with predictions from history."""
    p = inclusion_probabilities(expected_errors(population.predictions), n)
    labels = known_labels(population.labels, systematic_draw(p, seed))
    return corrected_mean(population.predictions, labels, probabilities=p, binary=True, finite=True)


def strata_history(population: Population, n: int, seed: int) -> CorrectedMean:
    """Labels drawn by strata, with predictions from history."""
    strata = strata_of(population.predictions)
    draw = stratified_draw(strata, expected_errors(population.predictions), n, seed=seed)
    labels = known_labels(population.labels, draw.positions)
    return corrected_mean(population.predictions, labels, strata=strata, binary=True, finite=True)


def probability_cross_fit(population: Population, n: int, seed: int) -> CorrectedMean:
    """Without history: labels drawn by the cheap signals, with predictions from the drawn labels."""
    p = inclusion_probabilities(expected_errors(population.cheap, calibrated=False), n)
    labels = known_labels(population.labels, systematic_draw(p, seed))
    predictions = cross_fit(population.features, labels, probabilities=p, seed=seed)
    return corrected_mean(predictions, labels, probabilities=p, binary=True, finite=True)


DESIGNS: dict[str, Design] = {
    "random labels, containment": random_cheap,
    "random labels, history": random_history,
    "by probability, history": probability_history,
    "by strata, history": strata_history,
    "by probability, no history": probability_cross_fit,
}


@dataclass(frozen=True, slots=True)
class MeanRates:
    """Figures of a design over many draws."""

    coverage: float
    lowest_coverage: float
    """Of the population with the lowest."""
    width: float
    """Relative to as many random labels without scores, the mean over populations."""


def mean_rates(
    design: Design, populations: Sequence[Population], draws: int, n: int = LABELS, base: int = LABELS
) -> MeanRates:
    """Coverage and width of a design with ``n`` labels; widths are relative to ``base`` random labels."""
    coverage: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}
    alone: dict[str, list[float]] = {}
    for seed, population in enumerate(populations):
        truth = float(population.labels.mean())
        for draw in range(draws):
            found = design(population, n, 1000 * seed + draw)
            coverage.setdefault(population.name, []).append(covers(found, truth))
            widths.setdefault(population.name, []).append(width(found))
            alone.setdefault(population.name, []).append(width(random_labels(population, base, 1000 * seed + draw)))
    shares = [float(np.mean(one)) for one in coverage.values()]
    ratios = [float(np.mean(widths[name]) / np.mean(alone[name])) for name in widths]
    return MeanRates(float(np.mean(shares)), min(shares), float(np.mean(ratios)))


def similar_run(answers: dict[str, LabelledAnswers], *names: str) -> LabelledAnswers:
    """The other run whose answers are most similar in length, for a calibrator."""

    def length(name: str) -> float:
        return float(answers[name].features[:, LENGTH_COLUMN].mean())

    target = float(np.mean([length(name) for name in names]))
    return answers[min(answers.keys() - set(names), key=lambda name: (abs(length(name) - target), name))]


def calibrator_of(run: LabelledAnswers, n: int, seed: int) -> Calibrator:
    """A calibrator from ``n`` random labels of a run."""
    drawn = random_draw(len(run.labels), n, seed)
    return fit_calibrator(run.features[drawn], run.labels[drawn])


def evouna_populations(histories: int) -> list[Population]:
    """The answers of five systems, each with so many calibrators from other labels."""
    answers = labelled_answers()
    return [
        Population(
            name,
            run.labels,
            run.containment,
            run.features,
            calibrator_of(similar_run(answers, name), HISTORY_LABELS, history).predict(run.features),
        )
        for name, run in answers.items()
        for history in range(histories)
    ]


def uninformative_populations() -> list[Population]:
    """The same labels with random numbers as the features."""
    rng = np.random.default_rng(0)
    found = []
    for name, run in labelled_answers().items():
        noise = rng.random(len(run.labels))
        found.append(Population(name, run.labels, noise, noise[:, None], noise))
    return found


def nq301_populations() -> dict[str, Population]:
    """Half of the answers with model judges, predictions by a calibrator from 500 labels of the other half."""
    scores, people, questions = nq301()
    gpt4, davinci, lexical = scores[:, 0], scores[:, 1], scores[:, 2:]
    half = questions % 2 == 0
    history = np.flatnonzero(~half)
    found = {}
    for name, labels, features in (
        ("people expensive, GPT-4 cheap", people, np.column_stack([gpt4, lexical])),
        ("GPT-4 expensive, text-davinci-003 cheap", gpt4, np.column_stack([davinci, lexical])),
        ("GPT-4 expensive, BEM and lexical cheap", gpt4, lexical),
    ):
        drawn = history[random_draw(len(history), HISTORY_LABELS, 0)]
        predictions = fit_calibrator(features[drawn], labels[drawn]).predict(features[half])
        found[name] = Population(name, labels[half], features[half, 0], features[half], predictions)
    return found


def two_stage(divisor: int) -> Iterator[Figure]:
    """Section B."""
    if not (DATA / "evouna" / "NQ.json").exists():
        return
    draws, histories = 100 // min(divisor, 5), max(10 // divisor, 2)
    enough = divisor == 1  # fewer draws say little about coverage
    populations = evouna_populations(histories)
    for n in (LABELS, 300):
        for name, design in DESIGNS.items():
            found = mean_rates(design, populations, draws if n == LABELS else draws // 2, n, n)
            limited = n == LABELS and design in (probability_history, strata_history)
            yield Figure(f"{n} labels, {name}: width", found.width, 0.66 if limited else None)
            yield Figure("... coverage", found.coverage, at_least=0.94 if limited and enough else None)
            lowest = 0.925 if limited and enough else None
            yield Figure("... lowest coverage of a system", found.lowest_coverage, at_least=lowest)
    for few, many in ((40, 100), (120, 300)):
        for design in (strata_history, probability_history):
            found = mean_rates(design, populations, draws // 4, few, many)
            yield Figure(f"{few} labels {design.__name__}, width relative to {many} random labels", found.width)
    noise = uninformative_populations()
    for name in ("by probability, history", "by strata, history", "by probability, no history"):
        found = mean_rates(DESIGNS[name], noise, draws * histories // 2)
        yield Figure(f"uninformative signal, {name}: width", found.width, 1.08)
        yield Figure("... coverage", found.coverage)
    for name, population in nq301_populations().items():
        for n in (LABELS, 200):
            designs = {"random": random_history, "probability": probability_history, "strata": strata_history}
            for label, design in designs.items():
                found = mean_rates(design, [population], draws * 5, n, n)
                yield Figure(f"{name}, {n} labels by {label}: labels relative to labels alone", found.width**2)
                yield Figure("... coverage", found.coverage)


# --- C: the difference of two runs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairRates:
    """Verdicts over many draws of the labels of one pair of runs."""

    difference: float
    right: float
    wrong: float
    coverage: float
    width: float


def labelled_difference(
    first: LabelledAnswers, second: LabelledAnswers, calibrator: Calibrator | None, seed: int, n: int = PAIR_LABELS
) -> CorrectedMean:
    """The difference from ``n`` samples: at random with containment, or drawn by probability with a calibrator."""
    if calibrator is None:
        drawn, p = random_draw(len(first.labels), n, seed), None
        scores = [first.containment, second.containment]
    else:
        scores = [calibrator.predict(run.features) for run in (first, second)]
        p = inclusion_probabilities(expected_errors(scores[0]) + expected_errors(scores[1]), n)
        drawn = systematic_draw(p, seed)
    labels = [known_labels(run.labels, drawn) for run in (first, second)]
    return corrected_difference(*scores, *labels, probabilities=p, binary=True)


def pair_rates(draws: int, *, active: bool) -> list[PairRates]:
    """The verdicts of each pair of systems: the interval leaves out 0."""
    answers = labelled_answers()
    found = []
    for pair, (first, second) in enumerate(combinations(answers, 2)):
        difference = float(np.mean(answers[second].labels - answers[first].labels))
        history = similar_run(answers, first, second)
        rows = []
        for seed in range(1000 * pair, 1000 * pair + draws):
            calibrator = calibrator_of(history, PAIR_HISTORY_LABELS, seed // 10) if active else None
            one = labelled_difference(answers[first], answers[second], calibrator, seed)
            assert one.interval is not None
            verdict = ((one.interval.low > 0) - (one.interval.high < 0)) * np.sign(difference)
            rows.append((verdict > 0, verdict < 0, covers(one, difference), width(one)))
        found.append(PairRates(difference, *np.array(rows, dtype=np.float64).mean(axis=0).tolist()))
    return found


def right_verdicts(rates: Sequence[PairRates], *, large: bool = True) -> float:
    """The mean rate of right verdicts over the pairs with a large difference, or with a small one."""
    return float(np.mean([one.right for one in rates if (abs(one.difference) >= LARGE_DIFFERENCE) == large]))


def active_labels(divisor: int) -> Iterator[Figure]:
    """Section C."""
    if not (DATA / "evouna" / "NQ.json").exists():
        return
    random, active = (pair_rates(500 // divisor, active=active) for active in (False, True))
    yield Figure("40 random samples with containment: right verdict", right_verdicts(random))
    yield Figure("40 by probability: right verdict", right_verdicts(active), at_least=right_verdicts(random) + 0.05)
    for name, rates in (("random", random), ("by probability", active)):
        limited = rates is active
        yield Figure(f"{name}, differences below .05: right verdict", right_verdicts(rates, large=False))
        yield Figure("... highest rate of wrong verdicts", max(one.wrong for one in rates), 0.01 if limited else None)
        lowest = min(one.coverage for one in rates)
        yield Figure("... lowest coverage of a pair", lowest, at_least=0.94 if limited else None)


# --- E: panels -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PanelRates:
    """A stacked panel and a majority vote, over many draws of the labels."""

    accuracy: float
    majority_accuracy: float
    calibration_error: float
    coverage: float
    width: float
    """Relative to the labels alone."""
    majority_width: float


def panel_rates(draws: int, n: int = LABELS) -> PanelRates:
    """Five judges of 1,477 answers, stacked by ``n`` labels."""
    scores, labels, _ = nq301()
    majority = ((scores >= 0.5).mean(axis=1) > 0.5).astype(float)
    truth, rows = float(labels.mean()), []
    for seed in range(draws):
        drawn = np.random.default_rng(seed).choice(len(labels), n, replace=False)
        stack = fit_stacked_weights(scores[drawn], labels[drawn], seed=seed)
        p = stacked_probability(stack.coefficients, scores)
        p[drawn] = stack.out_of_fold(scores[drawn])
        known = known_labels(labels, drawn)
        found = corrected_mean(p, known, binary=True, finite=True)
        vote = corrected_mean(majority, known, binary=True, finite=True)
        accuracy = float(((p >= 0.5) == (labels == 1)).mean())
        error = expected_calibration_error(p, labels == 1)
        rows.append((accuracy, error, covers(found, truth), width(found), width(vote), width(found, alone=True)))
    accuracy, error, coverage, stacked, voted, alone = np.array(rows, dtype=np.float64).mean(axis=0).tolist()
    return PanelRates(accuracy, float((majority == labels).mean()), error, coverage, stacked / alone, voted / alone)


def panels(divisor: int) -> Iterator[Figure]:
    """Section E."""
    if not (DATA / "nq301").exists():
        return
    found = panel_rates(500 // divisor)
    yield Figure("100 labels: accuracy", found.accuracy, at_least=found.majority_accuracy + 0.02)
    yield Figure("accuracy of the majority", found.majority_accuracy)
    yield Figure("expected calibration error", found.calibration_error, 0.07)
    yield Figure("coverage of the corrected mean", found.coverage, at_least=0.94)
    yield Figure("width relative to the labels alone", found.width, found.majority_width)


SECTIONS: dict[str, tuple[str, Section]] = {
    "B": ("Two-stage judging: the mean of one run", two_stage),
    "C": ("Labels for a difference", active_labels),
    "E": ("Panels", panels),
}
