"""Coverage of intervals of skewed means, with and without a flag, and of other kinds of intervals.

    python -m benchmarks.skewed_means [--quick]

Prints Markdown. The first table is about the library's own interval of a single run's mean, and its flags. The second
compares Student's t with other intervals for the same data: t corrected for skewness (Johnson 1978), bootstrap-t and
BCa (Efron and Tibshirani 1993), and t on logarithms (Cox's method, for positive values alone).
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.intervals import mean_interval, t_quantile

from .coverage import Floats, Generator, rarely_positive, zero_inflated

Draw = Callable[[Generator, int], Floats]
Ends = tuple[float, float]

SIZES = (10, 20, 30, 50, 100)
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Scores:
    """A kind of scores, their true mean, and the range that the metric declares."""

    name: str
    truth: float
    draw: Draw
    lowest: float = 0.0
    highest: float = 1.0


def with_failures(proportion: float, a: float, b: float) -> Scores:
    """Good scores, and 0 where the system failed."""
    return Scores(
        f"beta({a:g}, {b:g}), {100 * proportion:g} % failed",
        (1 - proportion) * a / (a + b),
        lambda rng, n: np.where(rng.random(n) < proportion, 0.0, rng.beta(a, b, n)),
    )


def beta(a: float, b: float) -> Scores:
    return Scores(f"beta({a:g}, {b:g})", a / (a + b), lambda rng, n: rng.beta(a, b, n))


def log_normal(sigma: float, start: float = 0.0) -> Scores:
    name = f"{start:g} + log-normal, σ {sigma:g}" if start else f"log-normal, σ {sigma:g}"
    truth = start + math.exp(sigma**2 / 2)
    return Scores(name, truth, lambda rng, n: start + rng.lognormal(0, sigma, n), 0.0, math.inf)


def kinds() -> list[Scores]:
    return [
        Scores("normal, no range", 0.0, lambda rng, n: rng.normal(size=n), -math.inf, math.inf),
        Scores("uniform", 0.5, lambda rng, n: rng.random(n)),
        Scores("0 in 40 %, else beta(2, 1)", 0.4, zero_inflated),
        beta(5, 5),
        beta(8, 2),
        beta(20, 2),
        beta(80, 9),
        beta(5, 1),
        beta(1, 6),
        beta(9, 0.5),
        beta(0.1, 2),
        Scores("0 in 95 %, else uniform", 0.025, rarely_positive),
        with_failures(0.05, 20, 2),
        with_failures(0.1, 20, 2),
        with_failures(0.05, 8, 2),
        log_normal(0.25),
        log_normal(0.5),
        log_normal(0.75),
        log_normal(1.0),
        log_normal(1.5),
        log_normal(1.0, start=2.0),
        Scores("exponential", 1.0, lambda rng, n: rng.exponential(size=n), 0.0, math.inf),
        Scores("Pareto, 3", 1.5, lambda rng, n: 1 + rng.pareto(3, n), 0.0, math.inf),
        Scores("log-normal, σ 1, no range", math.exp(0.5), lambda rng, n: rng.lognormal(0, 1, n), -math.inf, math.inf),
        Scores(
            "1 in 20 takes 30 times as long",
            0.95 * math.exp(0.045) + 1.5,
            lambda rng, n: np.where(rng.random(n) < 0.05, 30.0, rng.lognormal(0, 0.3, n)),
            0.0,
            math.inf,
        ),
    ]


@dataclass(frozen=True, slots=True)
class Tally:
    """Coverage of the intervals of one kind of scores at one number of samples."""

    covers: npt.NDArray[np.bool_]
    flagged: npt.NDArray[np.bool_]

    @property
    def coverage(self) -> float:
        return float(self.covers.mean())

    @property
    def missed_without_flag(self) -> float:
        """The proportion of all intervals that miss the true mean and carry no flag."""
        return float((~self.covers & ~self.flagged).mean())


def tally(kind: Scores, n: int, repetitions: int, seed: int = 0) -> Tally:
    rng = np.random.default_rng([seed, n, *kind.name.encode()])
    covers, flagged = np.zeros((2, repetitions), dtype=np.bool_)
    for row in range(repetitions):
        found = mean_interval(kind.draw(rng, n), lowest=kind.lowest, highest=kind.highest)
        assert found is not None
        covers[row], flagged[row] = found.low <= kind.truth <= found.high, bool(found.flags)
    return Tally(covers, flagged)


def flag_rows(repetitions: int) -> Iterator[str]:
    for kind in kinds():
        cells = []
        for n in SIZES:
            made = tally(kind, n, repetitions)
            numbers = made.coverage, float(made.flagged.mean()), made.missed_without_flag
            cells.append("**{:.1f}** / {:.0f} / {:.1f}".format(*(100 * one for one in numbers)))
        yield f"| {kind.name} | {' | '.join(cells)} |"


def student(values: Floats) -> Ends:
    half = t_quantile(0.025, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def johnson(values: Floats) -> Ends:
    """Student's t, moved by the skewness of the values."""
    low, high = student(values)
    deviations = values - values.mean()
    move = float((deviations**3).mean() / (6 * len(values) * values.var(ddof=1)))
    return low + move, high + move


def bootstrap_t(values: Floats, resampled: Floats) -> Ends:
    """The t statistics of resamples in place of Student's distribution; a resample of equal values has none."""
    mean, error = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
    errors = resampled.std(axis=1, ddof=1) / math.sqrt(len(values))
    statistics = (resampled.mean(axis=1) - mean)[errors > 0] / errors[errors > 0]
    low, high = np.quantile(statistics, [0.025, 0.975])
    return float(mean - high * error), float(mean - low * error)


def bca(values: Floats, resampled: Floats) -> Ends:
    means = np.sort(resampled.mean(axis=1))
    deviations = values - values.mean()
    acceleration = float((deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5))
    below = float(np.clip((means < values.mean()).mean(), 0.001, 0.999))
    bias = NORMAL.inv_cdf(below)
    ends = []
    for tail in (0.025, 0.975):
        z = bias + NORMAL.inv_cdf(tail)
        ends.append(float(np.quantile(means, NORMAL.cdf(bias + z / (1 - acceleration * z)))))
    return ends[0], ends[1]


def cox(values: Floats) -> Ends:
    """Of the mean of a log-normal distribution; values of 0 have no logarithm."""
    logs, n = np.log(values), len(values)
    variance = float(logs.var(ddof=1))
    half = t_quantile(0.025, n - 1) * math.sqrt(variance / n + variance**2 / (2 * (n - 1)))
    centre = float(logs.mean()) + variance / 2
    return math.exp(centre - half), math.exp(centre + half)


def method_rows(repetitions: int, draws: int = 500) -> Iterator[str]:
    for kind in kinds():
        for n in (30, 100):
            rng = np.random.default_rng([1, n, *kind.name.encode()])
            covered: dict[str, list[bool]] = {name: [] for name in ("t", "Johnson", "bootstrap-t", "BCa", "logarithms")}
            widths: dict[str, list[float]] = {name: [] for name in covered}
            for _ in range(repetitions):
                values = kind.draw(rng, n)
                if values.min() == values.max():
                    continue
                resampled = values[rng.integers(0, n, (draws, n))]
                found = {
                    "t": student(values),
                    "Johnson": johnson(values),
                    "bootstrap-t": bootstrap_t(values, resampled),
                    "BCa": bca(values, resampled),
                }
                if values.min() > 0:
                    found["logarithms"] = cox(values)
                for name, (low, high) in found.items():
                    covered[name].append(low <= kind.truth <= high)
                    widths[name].append(high - low)
            whole = np.median(widths["t"])
            cells = []
            for name in covered:
                width = np.median(widths[name]) / whole if widths[name] else math.inf
                every = len(covered[name]) == len(covered["t"]) and width < 100
                cells.append(f"{100 * np.mean(covered[name]):.1f} % ({width:.2f})" if every else "–")
            yield f"| {kind.name if n == 30 else ''} | {n} | {' | '.join(cells)} |"


def table(title: str, header: list[str], rows: Iterator[str]) -> None:
    print(f"\n#### {title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    scale = 10 if parser.parse_args().quick else 1
    table(
        f"Skewed means: covers / flagged / misses without a flag, in %; {10_000 // scale:,} repetitions",
        ["scores", *(f"{n} samples" for n in SIZES)],
        flag_rows(10_000 // scale),
    )
    table(
        f"Other intervals: {1_000 // scale:,} repetitions, 500 draws; median width relative to t",
        ["scores", "samples", "t", "Johnson", "bootstrap-t", "BCa", "logarithms"],
        method_rows(1_000 // scale),
    )


if __name__ == "__main__":
    main()
