"""Section G of ``benchmarks.verdicts``: which configuration of a sweep to ship.

Scores are 0 or 1: normal variables with the stated ("latent") correlation between configurations on one question, cut
at a threshold. Two scores of .65 have a correlation of .19 at .3, .32 at .5, .43 at .64 and .58 at .8; human verdicts
of five systems on the same questions have .32 to .52.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from tempfile import TemporaryDirectory

import numpy as np

from auepora_eval.compare.runs import compare_metrics
from auepora_eval.core.metrics_base import BatchMetric, make_result
from auepora_eval.core.registry import metric
from auepora_eval.core.scores import Scores
from auepora_eval.core.types import EvaluationSample, Response
from auepora_eval.stats.intervals import mean_interval, t_tail, wilson_interval
from auepora_eval.stats.permutation import holm
from auepora_eval.stats.selection import (
    LOOKS,
    ConfigurationScores,
    Elimination,
    eliminate,
    look_sizes,
    main_effects,
)
from auepora_eval.store.runs import RunStore
from auepora_eval.store.sweeps import SWEEP, SWEEP_TAG, SweepPlan, make_configurations, sweep_entry
from benchmarks.verdicts import Figure, Floats, Section

DRAWS = 1_000
THREE = (0.7,) * 3 + (0.6,) * 21
"""Three equally good configurations among 24."""
EQUAL = (0.65,) * 24


def draw_scores(
    proportions: Sequence[float], n: int, correlation: float, rng: np.random.Generator, *, size: int = 1
) -> Floats:
    """0/1 scores, a row per question; questions in clusters of ``size`` share half of what is not common to all."""
    count, within = len(proportions), 0.5 if size > 1 else 0.0
    common = rng.normal(size=(n, 1)) * np.sqrt(correlation)
    own = rng.normal(size=(n, count)) * np.sqrt((1 - correlation) * (1 - within))
    if size > 1:
        own += np.repeat(rng.normal(size=(n // size, count)), size, axis=0) * np.sqrt((1 - correlation) * within)
    thresholds = np.array([NormalDist().inv_cdf(proportion) for proportion in proportions])
    return np.asarray(common + own < thresholds, dtype=np.float64)


def analysed(scores: Floats, seed: int, size: int = 1) -> ConfigurationScores:
    clusters = np.arange(len(scores)) // size if size > 1 else None
    return ConfigurationScores(scores, clusters=clusters, draws=DRAWS, seed=seed)


def set_figures(replays: int) -> Iterator[Figure]:
    """(1): all that tie for the best are in the set, and how large it is."""
    most = {0.3: 7.0, 0.5: 5.0, 0.64: 4.0, 0.8: 3.4}
    for correlation, limit in most.items():
        rng = np.random.default_rng(11)
        kept, sizes = [], []
        for seed in range(replays):
            found = analysed(draw_scores(THREE, 500, correlation, rng), seed).not_distinguishable()
            kept.append(found[:3].all())
            sizes.append(found.sum())
        what = f"3 at .70, 21 at .60, n 500, latent correlation {correlation:g}"
        yield Figure(f"(1) {what}: all three in the set", float(np.mean(kept)), at_least=0.97)
        yield Figure("... mean size of the set", float(np.mean(sizes)), at_most=limit)
    for n, correlation, size in ((500, 0.3, 1), (500, 0.64, 1), (500, 0.8, 1), (100, 0.64, 1), (500, 0.64, 4)):
        rng = np.random.default_rng(12)
        every = [
            analysed(draw_scores(EQUAL, n, correlation, rng, size=size), seed, size).not_distinguishable().all()
            for seed in range(replays)
        ]
        what = f"24 equal, n {n}, latent correlation {correlation:g}" + (f", clusters of {size}" if size > 1 else "")
        yield Figure(f"(1) {what}: all kept", float(np.mean(every)), at_least=0.92)


def winner_figures(replays: int) -> Iterator[Figure]:
    """(2): the interval of the winner's value."""
    for correlation in (0.0, 0.3, 0.64, 0.8):
        rng = np.random.default_rng(13)
        covered, naive, widths = [], [], []
        for seed in range(replays):
            scores = draw_scores(EQUAL, 200, correlation, rng)
            found = analysed(scores, seed)
            winner = scores[:, int(found.means.argmax())]
            plain = wilson_interval(float(winner.sum()), 200)
            wide = mean_interval(winner, binary=True, level=found.level_of_best())
            assert wide is not None
            covered.append(wide.low <= EQUAL[0] <= plain.high)
            naive.append(plain.low <= EQUAL[0] <= plain.high)
            widths.append((plain.high - wide.low) / (plain.high - plain.low))
        what = f"24 equal at .65, n 200, latent correlation {correlation:g}"
        yield Figure(f"(2) {what}: the winner's interval covers", float(np.mean(covered)), at_least=0.95)
        yield Figure("... its width, Wilson's = 1", float(np.mean(widths)), at_most=1.4)
        yield Figure("... Wilson's covers", float(np.mean(naive)))


def baseline_figures(replays: int) -> Iterator[Figure]:
    """(3): against the shipped configuration, which is the first."""
    cases = {
        "3 of 24 at .66, others and shipped at .60": ((0.6,) + (0.66,) * 3 + (0.6,) * 20, 3),
        "1 of 5 at .66, others and shipped at .60": ((0.6, 0.66, 0.6, 0.6, 0.6), 1),
    }
    settings = ((500, 0.3), (500, 0.64), (200, 0.64))
    for name, (proportions, good) in cases.items():
        for n, correlation in settings:
            rng = np.random.default_rng(14)
            ours, by_holm = [], []
            for seed in range(replays):
                found = analysed(draw_scores(proportions, n, correlation, rng), seed)
                better = slice(1, 1 + good)
                tests = found.against(0)[better]
                ours.append(np.mean([test.p_adjusted < 0.05 and test.difference > 0 for test in tests]))
                statistics = (found.means - found.means[0])[1:] / found.errors[0, 1:]
                p_values = np.array([2 * t_tail(abs(value), n - 1) if value else 1.0 for value in statistics.tolist()])
                by_holm.append(np.mean((holm(p_values)[:good] < 0.05) & (statistics[:good] > 0)))
            least = float(np.mean(by_holm))
            what = f"{name}, n {n}, latent correlation {correlation:g}"
            yield Figure(f"(3) {what}: power", float(np.mean(ours)), at_least=least)
            yield Figure("... power of Holm's method", least)
    for n, correlation in settings:
        rng = np.random.default_rng(15)
        wrong = []
        for seed in range(3 * replays):
            tests = analysed(draw_scores((0.6,) * 24, n, correlation, rng), seed).against(0)
            wrong.append(any(test.p_adjusted < 0.05 for test in tests))
        what = f"24 equal, n {n}, latent correlation {correlation:g}"
        yield Figure(f"(3) {what}: any false verdict", float(np.mean(wrong)), at_most=0.065)


def cheapest_figures(replays: int) -> Iterator[Figure]:
    """(4): the cheapest that is not worse than the best by .05; columns are in the order of cost."""
    limit = 0.05 + 2 * (0.05 * 0.95 / replays) ** 0.5
    for n, correlation in ((500, 0.64), (2000, 0.64), (2000, 0.3)):
        rng = np.random.default_rng(16)
        wrong = []
        for seed in range(replays):
            scores = draw_scores((0.65,) * 23 + (0.7,), n, correlation, rng)
            shown = [distance.most <= 0.05 for distance in analysed(scores, seed).behind_best(0.05)]
            wrong.append(True in shown[:-1])
        what = f"23 cheap exactly .05 below 1 dear, n {n}, latent correlation {correlation:g}"
        yield Figure(f"(4) {what}: wrong", float(np.mean(wrong)), at_most=limit)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A simulated sweep with elimination."""

    living: frozenset[int]
    calls: float
    """The proportion of all calls."""


def simulate(scores: Floats, seed: int, *, futility: bool = True) -> Sweep:
    """Eliminate look by look."""
    n, count = scores.shape
    living = list(range(count))
    calls = before = 0
    for look, size in enumerate(look_sizes(n), start=1):
        calls += (size - before) * len(living)
        before = size
        found = analysed(scores[:size][:, living], seed + look)
        outcome: Elimination = eliminate(found, look=look, total=n, configurations=count)
        living = [column for column, kept in zip(living, outcome.kept.tolist(), strict=True) if kept]
        if len(living) == 1 or (futility and outcome.is_futile):
            break
    return Sweep(frozenset(living), calls / (n * count))


def elimination_figures(replays: int) -> Iterator[Figure]:
    """(5): successive elimination in ten looks, with futility."""
    cases = (
        ("3 at .70, 21 at .60", THREE, 500, 0.64, 0.75),
        ("3 at .70, 21 at .60", THREE, 500, 0.3, 0.85),
        ("3 at .70, 21 at .60", THREE, 2000, 0.64, 0.40),
        ("24 equal", EQUAL, 500, 0.64, 0.80),
    )
    for name, proportions, n, correlation, most in cases:
        rng = np.random.default_rng(17)
        best = frozenset(np.flatnonzero(np.array(proportions) == max(proportions)).tolist())
        sweeps = [simulate(draw_scores(proportions, n, correlation, rng), LOOKS * seed) for seed in range(replays)]
        least = 0.92 if len(best) == len(proportions) else 0.95
        what = f"{name}, n {n}, latent correlation {correlation:g}"
        yield Figure(
            f"(5) {what}: all best kept", float(np.mean([best <= sweep.living for sweep in sweeps])), at_least=least
        )
        yield Figure("... calls", float(np.mean([sweep.calls for sweep in sweeps])), at_most=most)
        yield Figure("... mean number that stays", float(np.mean([len(sweep.living) for sweep in sweeps])))


def effect_figures(replays: int) -> Iterator[Figure]:
    """(6): main effects of a 2 x 3 x 4 grid."""
    grid = [(first, second, third) for first in range(2) for second in range(3) for third in range(4)]
    proportions = [0.6 + 0.05 * (first == 1) + 0.03 * (second == 2) for first, second, _ in grid]
    parameters = dict(zip("abc", zip(*grid, strict=True), strict=True))
    for n, correlation, size in ((50, 0.64, 1), (200, 0.64, 1), (200, 0.3, 1), (200, 0.64, 4)):
        rng = np.random.default_rng(18)
        covered = []
        clusters = np.arange(n) // size if size > 1 else None
        for seed in range(replays):
            scores = draw_scores(proportions, n, correlation, rng, size=size)
            effects = main_effects(scores, parameters, clusters=clusters, draws=DRAWS, seed=seed)
            inside = []
            for (name, value), effect in effects.items():
                pairs = zip(proportions, parameters[name], strict=True)
                members = [proportion for proportion, other in pairs if other == value]
                inside.append(effect.low <= np.mean(members) - np.mean(proportions) <= effect.high)
            covered.append(all(inside))
        what = f"grid of 2 x 3 x 4, n {n}, latent correlation {correlation:g}" + (", clusters of 4" if size > 1 else "")
        yield Figure(f"(6) {what}: all nine effects covered", float(np.mean(covered)), at_least=0.93)


def stored_figures(replays: int) -> Iterator[Figure]:
    """Stored sweeps over 24 equal systems, and ``compare`` of the winner with the baseline afterwards."""
    n, count, name = 100, 24, "exact_match"
    built = metric(name)
    assert isinstance(built, BatchMetric)
    configurations = make_configurations([{"run.top_k": number} for number in range(1, count + 1)])
    sweep = SweepPlan(tuple(configurations), name, baseline=0, name="luck")
    questions = [
        EvaluationSample(str(number), f"question {number}?", reference_answer=Response("yes")) for number in range(n)
    ]
    rng = np.random.default_rng(19)
    better, alone = [], []
    for _ in range(replays):
        scores = draw_scores((0.6,) * count, n, 0.0, rng)
        with TemporaryDirectory() as folder, RunStore.open(Path(folder) / "runs.sqlite") as store:
            records = []
            for place, column in enumerate(scores.T):
                plan = {SWEEP: sweep_entry(sweep, place), "metrics": [name]}
                record = store.create_run(
                    "luck", questions, dataset_name="made", plan=plan, tags=[SWEEP_TAG + sweep.name]
                )
                store.put_result(record.run_id, make_result(built, Scores.of(column)))
                store.finish(record.run_id)
                records.append(store.get(record.run_id))
            winner = records[1 + int(scores[:, 1:].sum(axis=0).argmax())]
            found = compare_metrics(store, records[0], winner).by_name[name]
        better.append(found.verdict == "better")
        alone.append(found.p_value is not None and found.p_value < 0.05)
    what = "24 equal, n 100, no correlation"
    yield Figure(f"{what}: `compare` of the winner with the baseline says better", float(np.mean(better)), at_most=0.06)
    yield Figure("... p < .05 without the constant of the sweep", float(np.mean(alone)))


def sweep_verdicts(divisor: int) -> Iterator[Figure]:
    """Section G."""
    replays = max(300 // divisor, 10)
    yield from set_figures(replays)
    yield from winner_figures(2 * replays)
    yield from baseline_figures(replays)
    yield from cheapest_figures(replays)
    yield from elimination_figures(replays)
    yield from effect_figures(replays)
    yield from stored_figures(max(200 // divisor, 10))


SECTIONS: dict[str, tuple[str, Section]] = {"G": ("Sweeps over configurations", sweep_verdicts)}
