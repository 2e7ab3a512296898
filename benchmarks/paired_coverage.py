"""Coverage of paired intervals, and how often sign flips find a difference where there is none.

    python -m benchmarks.paired_coverage [--quick]

Prints the Markdown tables of docs/statistics/appendix.md, "Coverage of comparisons". All is simulated with
data whose true difference is known; intervals and p-values are made by the library's own functions.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from auepora_eval.stats.difference import PairedStatistics, paired_bootstraps, paired_interval
from auepora_eval.stats.intervals import Interval
from auepora_eval.stats.permutation import max_t, sign_flips

from .coverage import (
    BOOTSTRAP_FLAGS,
    MEAN_FLAGS,
    SIZES,
    UNEQUAL,
    Case,
    Floats,
    Generator,
    Ints,
    alike,
    fours,
    ratio,
    table,
)

# Columns of one call are repetitions here: they share the flips, whose own chance is small beside that of the data.
AT_ONCE = 250


def binary_pair(name: str, both: float, first_only: float, second_only: float) -> Case:
    """Right or wrong answers of two runs: the chances of both right, and of one alone."""

    def interval(rng: Generator, n: int) -> Interval | None:
        drawn = rng.random(n)
        first = drawn < both + first_only
        second = (drawn < both) | ((drawn >= both + first_only) & (drawn < both + first_only + second_only))
        return paired_interval(first.astype(np.float64), second.astype(np.float64), binary=True)

    return Case(name, second_only - first_only, interval)


def scores_pair(
    name: str, truth: float, draw: Callable[[Generator, int], tuple[Floats, Floats]], highest: float = 1.0
) -> Case:
    return Case(name, truth, lambda rng, n: paired_interval(*draw(rng, n), lowest=0.0, highest=highest))


def uniform_pair(rng: Generator, n: int) -> tuple[Floats, Floats]:
    """Half of a score is how hard the sample is, for both runs alike."""
    hard = rng.random(n)
    return (hard + rng.random(n)) / 2, (hard + rng.random(n)) / 2


def high_pair(rng: Generator, n: int) -> tuple[Floats, Floats]:
    return rng.beta(5, 1, n), rng.beta(8, 1, n)


def tied_pair(rng: Generator, n: int) -> tuple[Floats, Floats]:
    """Four samples in five score the same; the others lose a half, or gain a half or all: steps as recall@2 has."""
    change = rng.choice([-0.5, 0.0, 0.5, 1.0], n, p=[0.05, 0.8, 0.1, 0.05])
    first = np.where(change < 0, 0.5, 0.0)
    return first, first + change


def rare_pair(rng: Generator, n: int) -> tuple[Floats, Floats]:
    return np.zeros(n), np.where(rng.random(n) < 0.03, rng.random(n), 0.0)


def latency_pair(rng: Generator, n: int) -> tuple[Floats, Floats]:
    """The second run takes 1.2 times as long on average, and each call has its own luck."""
    hard = rng.lognormal(0, 0.5, n)
    return hard * rng.lognormal(0, 0.3, n), 1.2 * hard * rng.lognormal(0, 0.3, n)


def unequal_differences(rng: Generator, n: int) -> tuple[Floats, Ints]:
    """Clusters of 1, 2, 4 or 16; the second run is better in small ones and worse in large ones, equal over all."""
    sizes, how_often, score = UNEQUAL.T
    centred = score - np.sum(how_often * sizes * score) / np.sum(how_often * sizes)
    kinds = rng.choice(4, n, p=how_often)
    codes = np.repeat(np.arange(n), sizes[kinds].astype(np.intp))
    means = centred[kinds] + rng.normal(0, 0.15, n)
    return means[codes] + rng.normal(0, 0.15, len(codes)), codes


def clustered(draw: Callable[[Generator, int], tuple[Floats, Ints]]) -> Callable[[Generator, int], Interval | None]:
    def interval(rng: Generator, n: int) -> Interval | None:
        differences, codes = draw(rng, n)
        return paired_interval(np.zeros(len(codes)), differences, clusters=codes)

    return interval


def interval_cases() -> list[Case]:
    call = math.exp(0.125 + 0.045)
    return [
        binary_pair("right or wrong: 0.5 and 0.55, 70 % alike", 0.375, 0.125, 0.175),
        binary_pair("right or wrong: 0.9 and 0.85, 87 % alike", 0.81, 0.09, 0.04),
        binary_pair("right or wrong: 0.9 and 0.91, 97 % alike", 0.89, 0.01, 0.02),
        scores_pair("uniform, half of it in common", 0.0, uniform_pair),
        scores_pair("mostly high: beta(5, 1), beta(8, 1)", 8 / 9 - 5 / 6, high_pair),
        scores_pair("ties: equal in 80 %, else by a half or all", 0.075, tied_pair),
        scores_pair("ties: equal in 97 %, else uniform gain", 0.015, rare_pair),
        scores_pair("latency: log-normal, 1.2 times", 0.2 * call, latency_pair, math.inf),
        Case("clusters of four, correlation 0.6", 0.0, clustered(lambda r, n: (alike(r, n), fours(n)))),
        Case("clusters of 1, 2, 4 or 16, larger ones worse", 0.0, clustered(unequal_differences)),
    ]


def cited_pair(rng: Generator, n: int) -> Interval | None:
    """Right citations over all citations, of two runs that answer the same questions."""
    good = rng.beta(2, 1, n)
    cited = [rng.poisson(3, n), rng.poisson(4, n)]
    first, second = (np.stack([rng.binomial(c, good), c], axis=1).astype(np.float64) for c in cited)
    return paired_bootstraps([PairedStatistics(first, second, ratio, 0.0, 1.0)], draws=1000)[0]


@dataclass(frozen=True, slots=True)
class Null:
    """Differences whose true mean is zero: a column per repetition, and the clusters of the rows."""

    name: str
    draw: Callable[[Generator, int, int], tuple[Floats, Ints | None]]
    at_once: int = AT_ONCE


def null_cases() -> list[Null]:
    def plain(name: str, draw: Callable[[Generator, tuple[int, int]], Floats]) -> Null:
        return Null(name, lambda rng, n, columns: (draw(rng, (n, columns)), None))

    def together(rng: Generator, n: int, columns: int) -> Floats:
        return np.stack([alike(rng, n) for _ in range(columns)], axis=1)

    def one_unequal(rng: Generator, n: int, columns: int) -> tuple[Floats, Ints | None]:
        differences, codes = unequal_differences(rng, n)
        return differences[:, None], codes

    signs = np.array([-1.0, 0.0, 1.0])
    return [
        plain("right or wrong, 30 % differ", lambda rng, shape: rng.choice(signs, shape, p=[0.15, 0.7, 0.15])),
        plain("right or wrong, 4 % differ", lambda rng, shape: rng.choice(signs, shape, p=[0.02, 0.96, 0.02])),
        plain("uniform less uniform", lambda rng, shape: rng.random(shape) - rng.random(shape)),
        plain("skewed: beta(1, 3) less its mean", lambda rng, shape: rng.beta(1, 3, shape) - 0.25),
        plain("long tail: log-normal, σ 1, less its mean", lambda rng, size: rng.lognormal(size=size) - math.exp(0.5)),
        Null("clusters of four, correlation 0.6", lambda rng, n, columns: (together(rng, n, columns), fours(n))),
        Null("the same, clusters **not** given", lambda rng, n, columns: (together(rng, n, columns), None)),
        Null("clusters of 1, 2, 4 or 16, larger ones worse", one_unequal, at_once=1),
    ]  # fmt: skip


def rejections(case: Null, n: int, repetitions: int) -> float:
    """The proportion of repetitions with p < .05."""
    rng = np.random.default_rng([n, *case.name.encode()])
    rejected = 0
    for seed in range(repetitions // case.at_once):
        differences, clusters = case.draw(rng, n, case.at_once)
        draws = 10_000 if case.at_once > 1 else 1_000
        rejected += int(np.sum(sign_flips(differences, clusters, draws=draws, seed=seed).p_values < 0.05))
    return rejected / repetitions


def family(rng: Generator, n: int, truly: int) -> Floats:
    """Twenty metrics that move together (correlation 0.5); five are right-or-wrong; the first ``truly`` do differ."""
    common = rng.normal(size=(n, 1))
    differences = math.sqrt(0.5) * common + math.sqrt(0.5) * rng.normal(size=(n, 20))
    differences[:, 15:] = np.where(np.abs(differences[:, 15:]) > 1, np.sign(differences[:, 15:]), 0.0)
    differences[:, :truly] += 1.0
    return differences


def family_wise(n: int, truly: int, repetitions: int) -> tuple[float, float]:
    """The proportion of repetitions with a false alarm: by max-T, and by p-values as they are."""
    rng = np.random.default_rng([n, truly])
    alarms = np.zeros(2)
    for seed in range(repetitions):
        flips = sign_flips(family(rng, n, truly), draws=1_000, seed=seed)
        alarms += [(values[truly:] < 0.05).any() for values in (max_t(flips), flips.p_values)]
    return float(alarms[0] / repetitions), float(alarms[1] / repetitions)


def type_one(repetitions: int) -> None:
    print(f"\n### Sign flips where there is no difference: {repetitions:,} repetitions\n")
    header = ["differences", *(f"p < .05 at {n} units" for n in SIZES)]
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for case in null_cases():
        shares = [f"{100 * rejections(case, n, repetitions):.1f} %" for n in SIZES]
        print(f"| {' | '.join([case.name, *shares])} |", flush=True)
    for truly in (0, 5):
        found = [family_wise(n, truly, repetitions) for n in SIZES]
        name = "any of 20 metrics" if not truly else "any of 15 metrics, 5 others do differ"
        for place, how in enumerate(("max-T", "p-values not adjusted")):
            shares = [f"{100 * pair[place]:.1f} %" for pair in found]
            print(f"| {' | '.join([f'{name}: {how}', *shares])} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    scale = 10 if parser.parse_args().quick else 1
    table("Intervals of a difference", interval_cases(), 10_000 // scale, MEAN_FLAGS)
    cases = [Case("right citations over all, two runs", 0.0, cited_pair)]
    table("Paired bootstrap from sums, 1,000 draws", cases, 2_000 // scale, BOOTSTRAP_FLAGS)
    type_one(5_000 // scale)


if __name__ == "__main__":
    main()
