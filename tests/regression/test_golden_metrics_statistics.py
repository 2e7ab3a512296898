"""Golden numbers of the statistics at full precision, for three seeds: intervals, tests, adjustments, power, agreement, calibration."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.engine.paper_tables import dual_evaluate, evaluate_queries, paper_evaluate
from auepora_eval.metrics.classification import NEGateMetrics
from auepora_eval.stats.agreement import agreement_report, alpha_report, kappa_report, raters_report
from auepora_eval.stats.bootstrap import bootstrap_interval, bootstrap_interval_of, quantile_interval, quantile_of
from auepora_eval.stats.calibration import (
    CorrectedMean,
    auroc_report,
    balanced_accuracy_report,
    brier_score,
    confusion,
    corrected_difference,
    corrected_mean,
    expected_calibration_error,
    reliability_table,
    threshold_counts,
)
from auepora_eval.stats.difference import (
    effect_size,
    mde,
    newcombe_interval,
    paired_bootstrap_of,
    paired_differences,
    paired_interval,
    required_n,
    unit_sd,
)
from auepora_eval.stats.intervals import Estimate, Interval, Moments, mean_interval, t_quantile, wilson_interval
from auepora_eval.stats.permutation import SignFlips, holm, max_t, sign_flips, tukey_hsd
from helpers.golden import check_golden
from helpers.resampling import paired_bootstrap

Floats = npt.NDArray[np.float64]
SEEDS = (1, 2, 3)
N = 60


class Data:
    """Scores of three runs on the same samples, in clusters of different sizes, with labels of raters."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        level = [rng.random() for _ in range(N)]
        self.runs = [
            np.array([min(1.0, max(0.0, one + rng.gauss(shift, 0.2))) for one in level]) for shift in (0.0, 0.05, 0.1)
        ]
        self.binary = [(run > 0.5).astype(np.float64) for run in self.runs]
        self.clusters = np.array([rng.randrange(18) for _ in range(N)], dtype=np.intp)
        self.ratios = [
            np.array([[rng.randint(0, 4), rng.randint(1, 6)] for _ in range(N)], dtype=np.float64) for _ in range(2)
        ]
        self.times = [np.array([rng.expovariate(1.0 + 0.3 * run) for _ in range(N)]) for run in range(2)]
        self.labels = np.array([float(rng.random() < 0.2 + 0.6 * one) for one in level])
        self.ratings = [[rng.choice([1, 2, 2, 3, None]) for _ in range(20)] for _ in range(3)]
        self.some_labels = np.array([label if rng.random() < 0.4 else np.nan for label in self.labels])
        self.more_labels = np.array([label if not np.isnan(label) else np.nan for label in self.some_labels[::-1]])
        self.weights = np.array([rng.choice([1.0, 2.0, 3.0]) for _ in range(N)])


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed {seed}")
def seed(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


def ratio(sums: Floats) -> Floats:
    quotients: Floats = sums[:, 0] / sums[:, 1]
    return quotients


def test_intervals(seed: int) -> None:
    """Means, proportions, ratios, quantiles and AUROC of one run."""
    data = Data(seed)
    run, hits, clusters, times = data.runs[0], data.binary[0], data.clusters, data.times[0]
    moments = Moments()
    for start in range(0, N, 7):
        moments.add(run[start : start + 7])
    check_golden(
        f"metrics/intervals_{seed}.json",
        {
            "mean": interval(mean_interval(run, lowest=0, highest=1)),
            "mean, 90 %": interval(mean_interval(run, level=0.9)),
            "mean, clusters": interval(mean_interval(run, clusters=clusters, lowest=0, highest=1)),
            "mean, few": interval(mean_interval(run[:6])),
            "mean, in batches": interval(moments.interval()),
            "mean, all equal": interval(mean_interval(np.full(9, 0.25), lowest=0, highest=1)),
            "mean, all equal, unbounded": interval(mean_interval(np.full(9, 0.25))),
            "mean, one": interval(mean_interval(run[:1])),
            "proportion": interval(mean_interval(hits, binary=True)),
            "proportion, clusters": interval(mean_interval(hits, binary=True, clusters=clusters)),
            "proportion, none of 4": interval(wilson_interval(0, 4)),
            "proportion, one of 40": interval(wilson_interval(1, 40)),
            "ratio": interval(bootstrap_interval(data.ratios[0], ratio, seed=seed)),
            "ratio, clusters": interval(bootstrap_interval(data.ratios[0], ratio, clusters=clusters, seed=seed)),
            "quantile": quantile_of(times, 0.9),
            "quantile 0.5, interval": interval(quantile_interval(times, 0.5, seed=seed)),
            "quantile 0.9, interval": interval(quantile_interval(times, 0.9, seed=seed)),
            "quantile 0.9, clusters": interval(quantile_interval(times, 0.9, clusters=clusters, seed=seed)),
            "auroc, bootstrap": interval(
                bootstrap_interval_of(
                    lambda rows: threshold_counts(run[rows], data.labels[rows]).auroc(), N, draws=200, seed=seed
                )
            ),
            "t quantiles": [t_quantile(0.025, freedom) for freedom in (1, 4, 29, 1000)],
        },
    )


def test_differences(seed: int) -> None:
    """Two and three runs on the same samples: intervals, p-values, adjustments, power."""
    data = Data(seed)
    (a, b, c), clusters = data.runs, data.clusters
    differences = paired_differences(a, b)
    table = np.stack(
        [differences, paired_differences(a, c), paired_differences(data.binary[0], data.binary[1])], axis=1
    )
    counts = [int(((data.binary[0] == x) & (data.binary[1] == y)).sum()) for x, y in ((1, 1), (1, 0), (0, 1), (0, 0))]
    check_golden(
        f"metrics/differences_{seed}.json",
        {
            "t": interval(paired_interval(a, b, lowest=0, highest=1)),
            "t, clusters": interval(paired_interval(a, b, clusters=clusters, lowest=0, highest=1)),
            "t, 90 %": interval(paired_interval(a, b, level=0.9)),
            "newcombe": interval(paired_interval(data.binary[0], data.binary[1], binary=True)),
            "newcombe, counts": interval(newcombe_interval(*counts)),
            "newcombe, few": interval(newcombe_interval(3, 0, 2, 1)),
            "binary, clusters": interval(
                paired_interval(data.binary[0], data.binary[1], binary=True, clusters=clusters)
            ),
            "ratio": interval(paired_bootstrap(data.ratios[0], data.ratios[1], ratio, draws=2000, seed=seed)),
            "ratio, clusters": interval(
                paired_bootstrap(data.ratios[0], data.ratios[1], ratio, clusters=clusters, draws=2000, seed=seed)
            ),
            "quantile": interval(
                paired_bootstrap_of(
                    lambda rows: quantile_of(data.times[0][rows], 0.9),
                    lambda rows: quantile_of(data.times[1][rows], 0.9),
                    N,
                    draws=300,
                    seed=seed,
                )
            ),
            "auroc": interval(
                paired_bootstrap_of(
                    lambda rows: threshold_counts(a[rows], data.labels[rows]).auroc(),
                    lambda rows: threshold_counts(b[rows], data.labels[rows]).auroc(),
                    N,
                    draws=200,
                    seed=seed,
                    lowest=0,
                    highest=1,
                )
            ),
            "sign flips": flips(sign_flips(table, seed=seed)),
            "sign flips, clusters": flips(sign_flips(table, clusters, seed=seed)),
            "sign flips, exact": flips(sign_flips(table[:10], seed=seed)),
            "tukey": tukey_hsd(np.stack(data.runs, axis=1), seed=seed).tolist(),
            "tukey, clusters": tukey_hsd(np.stack(data.runs, axis=1), clusters, seed=seed).tolist(),
            "tukey, exact": tukey_hsd(np.stack(data.runs, axis=1)[:4], seed=seed).tolist(),
            "effect size": effect_size(differences),
            "unit sd": unit_sd(differences),
            "unit sd, clusters": unit_sd(differences, clusters),
            "mde": mde(unit_sd(differences), N),
            "mde, few": mde(unit_sd(differences), 5, alpha=0.1, power=0.9),
            "n for": [required_n(delta, unit_sd(differences)) for delta in (0.01, 0.05, 0.2)],
        },
    )


def test_agreement_and_calibration(seed: int) -> None:
    """Raters, scores against labels, and means corrected by labels."""
    data = Data(seed)
    run, labels, clusters = data.runs[0], data.labels, data.clusters
    first, second, _ = data.ratings
    table = confusion(data.binary[0], labels)
    named = {f"rater {number}": ratings for number, ratings in enumerate(data.ratings, start=1)}
    known, other = data.some_labels, data.more_labels
    check_golden(
        f"metrics/agreement_{seed}.json",
        {
            "agreement": measured(agreement_report(first, second)),
            "kappa": {
                str(weights): measured(kappa_report(first, second, weights, draws=200, seed=seed))
                for weights in (None, "linear", "quadratic")
            },
            "alpha": {
                level: measured(alpha_report(data.ratings, level, draws=200, seed=seed))
                for level in ("nominal", "ordinal", "interval", "ratio")
            },
            "raters": raters_report(named, seed=seed).to_dict(),
            "calibration error": [
                expected_calibration_error(run, labels),
                expected_calibration_error(run, labels, bins=5, binning="mass"),
            ],
            "reliability": [
                [one.low, one.high, one.count, one.mean_score, one.share_right, interval(one.interval)]
                for one in reliability_table(run, labels, bins=4)
            ],
            "brier": brier_score(run, labels),
            "auroc": measured(auroc_report(run, labels, draws=200, seed=seed)),
            "confusion": [measured(table.tpr()), measured(table.tnr()), measured(balanced_accuracy_report(table))],
            "roc": [
                threshold_counts(run, labels).auroc(),
                threshold_counts(run, labels).average_precision(),
                threshold_counts(run, labels).tpr_at_fpr(0.05),
            ],
            "ne gate": ne_gate(NEGateMetrics.compute(run, labels)),
            "ne gate, one class": ne_gate(NEGateMetrics.compute(run, np.ones(N))),
            "corrected": corrected(corrected_mean(run, known)),
            "corrected, binary": corrected(corrected_mean(run, known, binary=True)),
            "corrected, weights": corrected(corrected_mean(run, known, weights=data.weights, lowest=0, highest=1)),
            "corrected, clusters": corrected(corrected_mean(run, known, clusters=clusters)),
            "corrected, finite": corrected(corrected_mean(run, known, finite=True)),
            "corrected difference": corrected(corrected_difference(run, data.runs[1], known, other)),
        },
    )


def test_rankings(seed: int) -> None:
    """The functions over rows of gold and ranked ids."""
    rng = random.Random(seed)
    ids = [f"d{number}" for number in range(14)]
    rows = [
        {"gold_ids": rng.sample(ids, rng.choice([0, 1, 2, 5])), "ranked_ids": rng.sample(ids, rng.choice([0, 4, 12]))}
        for _ in range(20)
    ]
    check_golden(
        f"metrics/rankings_{seed}.json",
        {
            "queries": evaluate_queries(rows, [1, 3, 5]),
            "all queries": evaluate_queries(rows, [3], skip_no_positives=False),
            "dual": dual_evaluate(rows, [3, 10]),
            "paper": paper_evaluate(rows),
        },
    )


# --- values as JSON, by name: the record does not depend on the names of fields ---------------------------------------


def interval(found: Interval | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "low": found.low,
        "high": found.high,
        "method": found.method,
        "units": found.units,
        "level": found.level,
        "flags": list(found.flags),
    }


def measured(found: Estimate) -> dict[str, Any]:
    document = found.to_dict()
    # Why there is no value is a sentence.
    return {key: value is not None if key == "why_undefined" else value for key, value in document.items()}


def ne_gate(found: NEGateMetrics) -> list[Any]:
    return [
        found.auroc,
        found.auprc,
        found.tpr_at_fpr_3pct,
        found.tpr_at_fpr_5pct,
        found.tpr_at_fpr_10pct,
        found.defined,
    ]


def flips(found: SignFlips) -> dict[str, Any]:
    p_values: Sequence[float] = found.p_values.tolist()
    return {
        "p": p_values,
        "z": found.z.tolist(),
        "exact": found.exact,
        "max-t": max_t(found).tolist(),
        "max-t of two": max_t(found, [0, 1]).tolist(),
        "holm": holm(found.p_values).tolist(),
    }


def corrected(found: CorrectedMean) -> dict[str, Any]:
    return {
        "value": found.value,
        "interval": interval(found.interval),
        "weight": found.weight,
        "scores_mean": found.scores_mean,
        "labels_mean": found.labels_mean,
        "labels_interval": interval(found.labels_interval),
        "labelled": found.labelled,
        "samples": found.samples,
        "narrowing": found.narrowing,
        "worth": found.worth,
    }
