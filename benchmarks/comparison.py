"""Sign flips and resamples of two runs on many metrics: ours compared with scipy's permutation_test and bootstrap.

    python -m benchmarks.comparison [--quick]

Prints Markdown. scipy takes one metric at a time and would need the better part of an hour, so it is timed on one
metric with a part of the flips and resamples, in batches of the size that suits it best. Its time grows with both, and
is scaled up.
"""

import argparse
import platform
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.difference import PairedStatistics, paired_bootstraps
from auepora_eval.stats.permutation import max_t, sign_flips

from .timing import best_times

Floats = npt.NDArray[np.float64]

METRICS = 20
DRAWS = 10_000
PEER_DRAWS = 200
BATCHES = (10, 50, 200)


def made_scores(n: int) -> tuple[Floats, Floats]:
    """Scores of two runs: part of each is how hard the sample is, and the second run is a little better."""
    rng = np.random.default_rng(0)
    hard = rng.beta(2, 2, (n, 1))
    first, second = (np.clip(hard + rng.normal(shift, 0.2, (n, METRICS)), 0, 1) for shift in (0.0, 0.002))
    return first, second


def mean_of_sums(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])


def as_statistics(first: Floats, second: Floats) -> list[PairedStatistics]:
    """Each metric as a ratio of sums, as for BLEU; scipy computes the plain mean."""
    ones = np.ones(len(first))
    return [
        PairedStatistics(np.stack([a, ones], axis=1), np.stack([b, ones], axis=1), mean_of_sums)
        for a, b in zip(first.T, second.T, strict=True)
    ]


def peers(differences: Floats) -> dict[str, Callable[[], object]]:
    from scipy import stats

    def flips(batch: int) -> object:
        return stats.permutation_test(
            (differences,), np.mean, permutation_type="samples", vectorized=True, n_resamples=PEER_DRAWS, batch=batch
        )

    def resamples(batch: int) -> object:
        return stats.bootstrap(
            (differences,), np.mean, vectorized=True, n_resamples=PEER_DRAWS, batch=batch, method="percentile"
        )

    return {
        f"{name} by {batch}": lambda call=call, batch=batch: call(batch)  # type: ignore[misc]
        for name, call in (("permutation_test", flips), ("bootstrap", resamples))
        for batch in BATCHES
    }


def check(first: Floats, second: Floats) -> None:
    """Check that the numbers agree."""
    from scipy import stats

    part = slice(0, 2_000)
    differences = second[part] - first[part]
    ours = sign_flips(differences).p_values
    intervals = paired_bootstraps(as_statistics(first[part], second[part]))
    for metric in range(3):
        column = differences[:, metric]
        theirs = stats.permutation_test(
            (column,), np.mean, permutation_type="samples", vectorized=True, n_resamples=5_000, batch=100, rng=1
        )
        assert abs(ours[metric] - theirs.pvalue) < 0.03, (ours[metric], theirs.pvalue)
        bounds = stats.bootstrap((column,), np.mean, n_resamples=5_000, batch=100, method="percentile", rng=1)
        low, high = bounds.confidence_interval
        found = intervals[metric]
        assert found is not None
        assert max(abs(found.low - low), abs(found.high - high)) < 0.1 * (high - low)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    n = 2_000 if parser.parse_args().quick else 20_000
    first, second = made_scores(n)
    check(first, second)
    statistics = as_statistics(first, second)
    ours: dict[str, Callable[[], object]] = {
        "sign flips and max-T": lambda: max_t(sign_flips(second - first, draws=DRAWS)),
        "resamples": lambda: paired_bootstraps(statistics, draws=DRAWS),
    }
    theirs = peers((second - first)[:, 0])
    times = best_times(ours | theirs, dict.fromkeys(ours, 5) | dict.fromkeys(theirs, 3))
    scale = DRAWS / PEER_DRAWS * METRICS
    peer = {
        name: min(times[f"{call} by {batch}"] for batch in BATCHES) * scale
        for name, call in zip(ours, ("permutation_test", "bootstrap"), strict=True)
    }
    print(f"Python {platform.python_version()}, {platform.machine()}, numpy {np.__version__}\n")
    print(f"### {n:,} samples, {METRICS} metrics, {DRAWS:,} flips and {DRAWS:,} resamples\n")
    print(f"scipy: one metric and {PEER_DRAWS} of them, scaled up; the best of batches of {BATCHES}.\n")
    print("| | ours, s | scipy, s (scaled) | times |\n|---|---|---|---|")
    rows = [(name, times[name], peer[name]) for name in ours]
    rows.append(("both", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    for name, mine, other in rows:
        print(f"| {name} | {mine:.2f} | {other:.0f} | {other / mine:.0f} |")


if __name__ == "__main__":
    main()
