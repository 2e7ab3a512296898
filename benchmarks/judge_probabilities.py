"""Judges that reply with probabilities: width of corrected means, early stopping, and the verdict on calibration.

``python -m benchmarks.judge_probabilities [widths|strata|stopping|calibration|coverage|nq301] [--draws N]`` prints
each table. All but ``nq301`` are simulated: an answer is right with probability p from a beta distribution, and the
judge's probability is p or distorted. ``nq301`` needs the public verdicts of tests/helpers/nq301.py.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.calibration import CorrectedMean, corrected_mean
from auepora_eval.stats.probabilities import ProbabilityCalibration, probability_calibration
from auepora_eval.stats.sampling import expected_errors, neyman_allocation, strata_of
from auepora_eval.stats.sequential import SequentialDesign

Floats = npt.NDArray[np.float64]
Distortion = Callable[[Floats], Floats]

POPULATION = 2000
SHAPES = {"U": (0.5, 0.5), "skewed U": (0.5, 0.2), "even": (1.0, 1.0), "mostly right": (4.0, 1.0)}
"""The beta distributions of p."""


def logit(p: Floats) -> Floats:
    """Log odds."""
    found: Floats = np.log(p / (1 - p))
    return found


def sigmoid(z: Floats) -> Floats:
    """Probability of log odds."""
    found: Floats = 1 / (1 + np.exp(-z))
    return found


def _line(slope: float, intercept: float = 0.0) -> Distortion:
    return lambda p: sigmoid(slope * logit(np.clip(p, 1e-6, 1 - 1e-6)) + intercept)


JUDGES: dict[str, Distortion] = {
    "yes/no": lambda p: np.asarray(p > 0.5, dtype=np.float64),
    "p": lambda p: p,
    "3 logit": _line(3.0),
    "logit / 3": _line(1 / 3),
    "logit + 1": _line(1.0, 1.0),
    "3 logit + 2": _line(3.0, 2.0),
}
"""What the judge says where the true probability is p."""
TRUTHS: dict[str, Distortion] = {
    "calibrated": lambda q: q,
    "overconfident x 2": _line(1 / 2),
    "overconfident x 3": _line(1 / 3),
    "underconfident x 1/2": _line(2.0),
    "shift 1": _line(1.0, -1.0),
}
"""The true probability where the judge says q."""


def true_error(shape: str, truth: str) -> float:
    """The mean distance of the judge's probability from the true one."""
    q = np.clip(np.random.default_rng(1).beta(*SHAPES[shape], 20_000), 0.01, 0.99)
    return float(np.abs(TRUTHS[truth](q) - q).mean())


@dataclass(frozen=True)
class Width:
    """The interval of the corrected mean: its mean width relative to that of the labels alone, and its coverage."""

    width: float
    coverage: float


def _drawn(labels: Floats, rows: npt.NDArray[np.intp]) -> Floats:
    found = np.full(len(labels), np.nan)
    found[rows] = labels[rows]
    return found


def _measure(estimates: list[tuple[CorrectedMean, float]]) -> Width:
    widths, alone, hits = 0.0, 0.0, 0
    for found, truth in estimates:
        assert found.interval is not None
        assert found.labels_interval is not None
        widths += found.interval.high - found.interval.low
        alone += found.labels_interval.high - found.labels_interval.low
        hits += found.interval.low <= truth <= found.interval.high
    return Width(widths / alone, hits / len(estimates))


def widths(shape: str, n: int, draws: int, judges: tuple[str, ...] = tuple(JUDGES)) -> dict[str, Width]:
    """By judge, from the same answers and labels."""
    rng = np.random.default_rng([31, n])
    found: dict[str, list[tuple[CorrectedMean, float]]] = {judge: [] for judge in judges}
    for _ in range(draws):
        p = rng.beta(*SHAPES[shape], POPULATION)
        y = (rng.random(POPULATION) < p).astype(np.float64)
        labels = _drawn(y, rng.choice(POPULATION, n, replace=False))
        for judge in judges:
            estimate = corrected_mean(JUDGES[judge](p), labels, binary=True, finite=True)
            found[judge].append((estimate, float(y.mean())))
    return {judge: _measure(estimates) for judge, estimates in found.items()}


def strata_widths(shape: str, n: int, draws: int, judges: tuple[str, ...] = tuple(JUDGES)[1:]) -> dict[str, Width]:
    """The same with the labels drawn by strata of the judge's probability."""
    rng = np.random.default_rng([32, n])
    found: dict[str, list[tuple[CorrectedMean, float]]] = {judge: [] for judge in judges}
    alone = widths(shape, n, draws, ("p",))["p"]
    assert alone.width > 0
    for _ in range(draws):
        p = rng.beta(*SHAPES[shape], POPULATION)
        y = (rng.random(POPULATION) < p).astype(np.float64)
        for judge in judges:
            q = JUDGES[judge](p)
            strata = strata_of(q)
            sizes = np.bincount(strata)
            spreads = [float(np.sqrt(expected_errors(q[strata == code]).mean())) for code in range(len(sizes))]
            counts = neyman_allocation(sizes.tolist(), spreads, n)
            rows = [rng.choice(np.flatnonzero(strata == code), count, False) for code, count in enumerate(counts)]
            estimate = corrected_mean(q, _drawn(y, np.concatenate(rows)), strata=strata, binary=True, finite=True)
            plain = _drawn(y, rng.choice(POPULATION, n, replace=False))
            bare = corrected_mean(q, plain, binary=True, finite=True, use_scores=False)
            assert estimate.interval is not None
            relative = CorrectedMean(
                estimate.value, estimate.interval, 0.0, 0.0, 0.0, bare.interval, estimate.labelled, POPULATION
            )
            found[judge].append((relative, float(y.mean())))
    return {judge: _measure(estimates) for judge, estimates in found.items()}


def stopping(shape: str, judge: str, n: int, draws: int, effect: float) -> dict[str, float]:
    """The proportion of each verdict, and of calls, of early stopping on the difference of probabilities."""
    from scipy.special import betaincinv, ndtr

    rng = np.random.default_rng([33, n])
    difficulty = np.sqrt(0.6) * rng.normal(size=(draws, n))
    grid = np.linspace(0, 1, 4001)
    quantiles = betaincinv(*SHAPES[shape], grid)
    sides = []
    for _ in range(2):
        ranks = ndtr(difficulty + np.sqrt(0.4) * rng.normal(size=(draws, n)))
        sides.append(JUDGES[judge](np.interp(ranks, grid, quantiles)))
    first, second = sides
    if effect:
        improved = rng.random((draws, n)) < effect / (1 - first.mean())
        second = np.where(improved, 1.0, second)
    names, units = SequentialDesign.plan(n, delta=0.05).first_verdicts(second - first)
    verdicts = np.array(names)
    shares = {name: float((verdicts == name).mean()) for name in ("better", "worse", "equal")}
    return {**shares, "calls": float(units.mean() / n)}


def calibrations(shape: str, truth: str, n: int, draws: int) -> list[ProbabilityCalibration]:
    """The calibration of many samples."""
    rng = np.random.default_rng([34, n])
    found = []
    for number in range(draws):
        q = np.clip(rng.beta(*SHAPES[shape], n), 0.01, 0.99)
        y = rng.random(n) < TRUTHS[truth](q)
        found.append(probability_calibration(q, y.astype(np.float64), seed=number))
    return found


def verdict_rates(found: list[ProbabilityCalibration]) -> tuple[float, float, float]:
    """The proportions of calibrated, not calibrated, and too few labels."""
    names = [one.verdict for one in found]
    calibrated, wrong = names.count("calibrated") / len(names), names.count("not calibrated") / len(names)
    return calibrated, wrong, 1 - calibrated - wrong


def coverage(shape: str, slope: float, intercept: float, n: int, draws: int) -> dict[str, float]:
    """The coverage of the intervals of a judge with this true line."""
    truth = _line(slope, intercept)
    q = np.clip(np.random.default_rng(35).beta(*SHAPES[shape], 400_000), 0.01, 0.99)
    t = truth(q)
    true = {"brier": float(np.mean(t * (1 - q) ** 2 + (1 - t) * q**2)), "bias": float(np.mean(t - q))}
    true |= {"intercept": intercept, "slope": slope}
    rng = np.random.default_rng([36, n])
    hits = dict.fromkeys(true, 0)
    for number in range(draws):
        seen = np.clip(rng.beta(*SHAPES[shape], n), 0.01, 0.99)
        y = (rng.random(n) < truth(seen)).astype(np.float64)
        found = probability_calibration(seen, y, seed=number)
        for name, value in true.items():
            interval = getattr(found, name).interval
            hits[name] += interval.low <= value <= interval.high
    return {name: count / draws for name, count in hits.items()}


def nq301_rows(draws: int) -> list[str]:
    """The probabilities of BEM against human verdicts."""
    from helpers.nq301 import nq301

    scores, labels, _ = nq301()
    bem = np.clip(scores[:, 2], 0.001, 0.999)
    whole = probability_calibration(bem, labels)
    rows = [f"{len(labels)} answers, slope {whole.slope.value:.2f}, intercept {whole.intercept.value:.2f}, "
            f"error {whole.error.value:.3f}, Brier score {whole.brier.value:.3f}"]  # fmt: skip
    rng = np.random.default_rng(36)
    for n in (100, 300):
        found: dict[str, list[tuple[CorrectedMean, float]]] = {"yes/no": [], "p": []}
        verdicts = []
        for number in range(draws):
            drawn = rng.choice(len(labels), n, replace=False)
            known = _drawn(labels, drawn)
            verdicts.append(probability_calibration(bem[drawn], labels[drawn], seed=number))
            for name, estimates in found.items():
                estimate = corrected_mean(JUDGES[name](bem), known, binary=True, finite=True)
                estimates.append((estimate, float(labels.mean())))
        shown = ", ".join(f"{name} {_shown(_measure(estimates))}" for name, estimates in found.items())
        rates = "/".join(f"{rate:.3f}" for rate in verdict_rates(verdicts))
        rows.append(f"n = {n}: {shown}; calibrated/not/too few {rates}")
    return rows


def _shown(width: Width) -> str:
    return f"{width.width:.3f} ({width.coverage:.3f})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--draws", type=int, default=300)
    arguments = parser.parse_args()
    draws: int = arguments.draws
    began = time.monotonic()
    for part in arguments.parts or ("widths", "strata", "stopping", "calibration", "coverage", "nq301"):
        print(f"-- {part}, {draws} draws")
        if part == "nq301":
            print("\n".join(nq301_rows(draws)))
        for shape in SHAPES if part != "nq301" else ():
            if part in ("widths", "strata"):
                measure = widths if part == "widths" else strata_widths
                found = measure(shape, 100, draws)
                print(shape, "; ".join(f"{judge} {_shown(width)}" for judge, width in found.items()), flush=True)
            elif part == "stopping":
                for judge in ("yes/no", "p", "3 logit", "logit / 3"):
                    null, margin, better = (
                        stopping(shape, judge, 200, 10 * draws, effect) for effect in (0.0, 0.05, 0.1)
                    )
                    wrong = null["better"] + null["worse"]
                    print(f"{shape} {judge}: false {wrong:.4f}, equal at delta {margin['equal']:.4f}, "
                          f"power {better['better']:.3f}, calls {better['calls']:.3f}", flush=True)  # fmt: skip
            elif part == "calibration":
                for truth in TRUTHS:
                    rates = [verdict_rates(calibrations(shape, truth, n, draws)) for n in (50, 100, 300)]
                    shown = ", ".join("{:.2f}/{:.2f}/{:.2f}".format(*rate) for rate in rates)
                    print(f"{shape} {truth} ({true_error(shape, truth):.3f}): {shown}", flush=True)
            elif part == "coverage":
                for slope, intercept in ((1.0, 0.0), (1 / 3, 0.0), (1.0, -1.0)):
                    for n in (50, 100, 300):
                        found_at = coverage(shape, slope, intercept, n, draws)
                        shown = ", ".join(f"{name} {value:.3f}" for name, value in found_at.items())
                        print(f"{shape} slope {slope:.2f} intercept {intercept:g} n {n}: {shown}", flush=True)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
