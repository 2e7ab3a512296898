"""Coverage of the intervals: simulated on data with a known mean, for each method and number of units.

    python -m benchmarks.coverage [--quick]

Prints Markdown: the share of intervals that hold the truth, their mean width, how many carry which flag, and the share
that holds it among those with and without a flag. The intervals are made by the library's own functions, one by one.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.bootstrap import bootstrap_interval, bootstrap_interval_of, quantile_interval
from auepora_eval.stats.calibration import threshold_counts
from auepora_eval.stats.intervals import Interval, mean_interval

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Generator = np.random.Generator

SIZES = (10, 30, 100, 500)
MEAN_FLAGS = ("few", "skewed")
BOOTSTRAP_FLAGS = ("few", "skewed", "unstable")
QUANTILE_FLAGS = ("few", "unbounded")


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of data, the true value, and the interval of one draw of ``n`` units."""

    name: str
    truth: float
    interval: Callable[[Generator, int], Interval | None]


def plain(name: str, truth: float, draw: Callable[[Generator, int], Floats], highest: float = 1.0) -> Case:
    """Scores without clusters."""
    return Case(name, truth, lambda rng, n: mean_interval(draw(rng, n), lowest=0.0, highest=highest))


def share(truth: float) -> Case:
    return Case(
        f"right or wrong, {truth:g} right",
        truth,
        lambda rng, n: mean_interval((rng.random(n) < truth).astype(np.float64), binary=True),
    )


def zero_inflated(rng: Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.4, 0.0, rng.beta(2, 1, n))


def rarely_positive(rng: Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.05, rng.random(n), 0.0)


def fours(n: int) -> Ints:
    return np.repeat(np.arange(n), 4)


def alike(rng: Generator, n: int) -> Floats:
    """Clusters of four: 0.6 of the variance lies between clusters."""
    return math.sqrt(0.6) * np.repeat(rng.normal(size=n), 4) + math.sqrt(0.4) * rng.normal(size=4 * n)


def alike_binary(rng: Generator, n: int) -> Floats:
    """Clusters of four, right or wrong: each has its own chance, of mean 0.7 and such that the correlation is 0.6."""
    together = 1 / 0.6 - 1
    return (rng.random(4 * n) < np.repeat(rng.beta(0.7 * together, 0.3 * together, n), 4)).astype(np.float64)


# Sizes of clusters, how often they come, and the mean score in them: long conversations go worse.
UNEQUAL = np.array([[1, 0.5, 0.9], [2, 0.25, 0.8], [4, 0.15, 0.7], [16, 0.1, 0.6]])


def unequal(rng: Generator, n: int) -> Interval | None:
    kinds = rng.choice(4, n, p=UNEQUAL[:, 1])
    sizes = UNEQUAL[kinds, 0].astype(np.intp)
    means = UNEQUAL[kinds, 2] + rng.normal(0, 0.15, n)
    codes = np.repeat(np.arange(n), sizes)
    return mean_interval(means[codes] + rng.normal(0, 0.15, len(codes)), clusters=codes)


def mean_cases() -> list[Case]:
    by_size, how_often, score = UNEQUAL.T
    return [
        share(0.5),
        share(0.9),
        share(0.99),
        plain("uniform", 0.5, lambda rng, n: rng.random(n)),
        plain("mostly high: beta(5, 1)", 5 / 6, lambda rng, n: rng.beta(5, 1, n)),
        plain("nearly perfect: beta(9, 0.5)", 9 / 9.5, lambda rng, n: rng.beta(9, 0.5, n)),
        plain("0 in 40 %, else beta(2, 1)", 0.4, zero_inflated),
        plain("0 in 95 %, else uniform", 0.025, rarely_positive),
        plain("latency: log-normal, σ 0.5", math.exp(0.125), lambda rng, n: rng.lognormal(0, 0.5, n), math.inf),
        plain("latency: log-normal, σ 1", math.exp(0.5), lambda rng, n: rng.lognormal(0, 1, n), math.inf),
        Case("clusters of four, correlation 0.6", 0.0, lambda rng, n: mean_interval(alike(rng, n), clusters=fours(n))),
        Case("the same, clusters **not** given", 0.0, lambda rng, n: mean_interval(alike(rng, n))),
        Case(
            "clusters of four, right or wrong",
            0.7,
            lambda rng, n: mean_interval(alike_binary(rng, n), clusters=fours(n), binary=True),
        ),
        Case(
            "clusters of 1, 2, 4 or 16, larger ones worse",
            float(np.sum(how_often * by_size * score) / np.sum(how_often * by_size)),
            unequal,
        ),
    ]


def ratio(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])


def citations(rng: Generator, n: int) -> Interval | None:
    """Right citations over all citations, three an answer, the good answers right in most of them."""
    cited = rng.poisson(3, n)
    right = rng.binomial(cited, rng.beta(2, 1, n))
    return bootstrap_interval(np.stack([right, cited], axis=1).astype(np.float64), ratio, lowest=0.0, highest=1.0)


def among_refused(rng: Generator, n: int) -> Interval | None:
    """The unanswerable among the refused, where one question in ten is refused."""
    refused = rng.random(n) < 0.1
    rightly = refused & (rng.random(n) < 0.7)
    return bootstrap_interval(np.stack([rightly, refused], axis=1).astype(np.float64), ratio, lowest=0.0, highest=1.0)


def bleu_of_sums(sums: Floats) -> Floats:
    """Four match counts, four totals, the length of the answers and of the references."""
    precision = np.exp(np.log(sums[:, :4] / sums[:, 4:8]).mean(axis=1))
    return np.asarray(precision * np.exp(np.minimum(0.0, 1 - sums[:, 9] / sums[:, 8])))


def bleu(rng: Generator, n: int) -> Interval | None:
    length, reference = 8 + rng.poisson(12, n), 8 + rng.poisson(13, n)
    totals = length[:, None] - np.arange(4)
    matches = rng.binomial(totals, rng.beta(3, 2, n)[:, None] ** np.arange(1, 5))
    columns = np.column_stack([matches, totals, length, reference]).astype(np.float64)
    return bootstrap_interval(columns, bleu_of_sums, lowest=0.0, highest=1.0)


def bleu_truth() -> float:
    """BLEU of infinitely many answers: the expected counts in place of the counts."""
    moments = [math.prod((3 + i) / (5 + i) for i in range(order)) for order in range(1, 5)]
    return math.exp(sum(map(math.log, moments)) / 4) * math.exp(1 - 21 / 20)


def high_quantile(rng: Generator, n: int) -> Interval | None:
    return quantile_interval(rng.lognormal(0, 0.5, n), 0.95)


def median(rng: Generator, n: int) -> Interval | None:
    return quantile_interval(rng.lognormal(0, 0.5, n), 0.5)


def separation(rng: Generator, n: int) -> Interval | None:
    labels = rng.random(n) < 0.5
    scores = rng.normal(size=n) + 1.5 * labels

    def area(indices: Ints) -> float:
        drawn = labels[indices]
        return threshold_counts(scores[indices], drawn).auroc() if 0 < drawn.sum() < n else math.nan

    return bootstrap_interval_of(area, n, draws=500, lowest=0.0, highest=1.0)


def sum_cases() -> list[Case]:
    return [
        Case("right citations over all", 2 / 3, citations),
        Case("rightly refused among refused (1 in 10)", 0.7, among_refused),
        Case("BLEU", bleu_truth(), bleu),
    ]


def quantile_cases() -> list[Case]:
    return [
        Case("median of log-normal latency", 1.0, median),
        Case("95 % quantile of log-normal latency", math.exp(0.5 * NormalDist().inv_cdf(0.95)), high_quantile),
    ]


def index_cases() -> list[Case]:
    return [
        Case("AUROC", NormalDist().cdf(1.5 / math.sqrt(2)), separation),
    ]


def rows(case: Case, repetitions: int, flags: tuple[str, ...]) -> Iterator[str]:
    for n in SIZES:
        rng = np.random.default_rng([n, *case.name.encode()])
        found = [case.interval(rng, n) for _ in range(repetitions)]
        made = [interval for interval in found if interval is not None]
        covers = np.array([interval.low <= case.truth <= interval.high for interval in made])
        flagged = np.array([bool(interval.flags) for interval in made])
        width = np.mean([interval.high - interval.low for interval in made])
        shares = [percent(np.array([flag in interval.flags for interval in made])) for flag in flags]
        cells = [
            case.name if n == SIZES[0] else "",
            str(n),
            f"**{100 * covers.mean():.1f} %**" + (f" of {len(made):,}" if len(made) < len(found) else ""),
            f"{width:.3g}",
            *shares,
            percent(covers[flagged]),
            percent(covers[~flagged]),
        ]
        yield f"| {' | '.join(cells)} |"


def percent(which: npt.NDArray[np.bool_]) -> str:
    if not len(which):
        return "–"
    return "<1 %" if 0 < which.mean() < 0.005 else f"{100 * which.mean():.0f} %"


def table(title: str, cases: list[Case], repetitions: int, flags: tuple[str, ...]) -> None:
    print(f"\n### {title}: {repetitions:,} repetitions\n")
    header = ["data", "units", "covers", "mean width", *flags, "covers, flagged", "covers, not flagged"]
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for case in cases:
        for row in rows(case, repetitions, flags):
            print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    scale = 10 if parser.parse_args().quick else 1
    table("Means", mean_cases(), 10_000 // scale, MEAN_FLAGS)
    table("Bootstrap from sums, 1,000 draws", sum_cases(), 2_000 // scale, BOOTSTRAP_FLAGS)
    table("Quantiles, 10,000 places drawn", quantile_cases(), 2_000 // scale, QUANTILE_FLAGS)
    table("Bootstrap from indices, 500 draws", index_cases(), 500 // scale, BOOTSTRAP_FLAGS)


if __name__ == "__main__":
    main()
