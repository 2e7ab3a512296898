"""Verdicts at lower cost: error rates, power and savings, by simulation and on public human verdicts.

    python -m benchmarks.verdicts [--only A] [--quick]

Prints Markdown, a table per section, with the figures that have a limit and whether they keep it. The sections are
those of the statistics: A early stopping, B two-stage judging, C labels for a difference, D partly human grades,
E panels, F skewed differences, G sweeps, K failure groups. ``--quick`` uses a tenth of the draws. Data is read from
``../shared/data``; what is absent is left out.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from auepora_eval.stats.sequential import SequentialDesign, Verdict

Floats = npt.NDArray[np.float64]

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


# --- what all sections use -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number, and the limits that it must keep."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure keeps its limits; one without limits does."""
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    def row(self) -> str:
        """A row of a Markdown table."""
        limits = [
            *([f"at most {self.at_most:g}"] if self.at_most is not None else []),
            *([f"at least {self.at_least:g}"] if self.at_least is not None else []),
        ]
        outcome = ("yes" if self.holds else "**no**") if limits else ""
        return f"| {self.name} | {self.value:.4f} | {', '.join(limits)} | {outcome} |"


Section = Callable[[int], Iterator[Figure]]
"""The figures of a section; the argument divides the numbers of draws."""

MODULES = {
    "A": "benchmarks.verdicts",
    "B": "benchmarks.verdicts_labels",
    "C": "benchmarks.verdicts_labels",
    "D": "benchmarks.verdicts_grades",
    "E": "benchmarks.verdicts_labels",
    "F": "benchmarks.verdicts_skew",
    "G": "benchmarks.verdicts_sweep",
    "K": "benchmarks.verdicts_groups",
}
"""The module of each section; its ``SECTIONS`` has a title and the function by letter."""


# --- A: early stopping -----------------------------------------------------------------------------------------------

DELTA = 0.05
KINDS = ("right or wrong", "1 to 5")
SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
SKEWED = "1 in 10 gains"


def draw_differences(kind: str, effect: float, draws: int, n: int, seed: int) -> Floats:
    """Differences of two runs on a scale from 0 to 1, a row of ``n`` per draw.

    * ``right or wrong``: a quarter of the answers differ
    * ``1 to 5``: rounded normal grades with half of their variance in common; clipping reduces the shift
    * ``1 in 10 gains``: a tenth gains .36, the others lose .04; the mean is 0
    """
    rng = np.random.default_rng([seed, n, round(1000 * effect), len(kind)])
    shape = (draws, n)
    if kind == "right or wrong":
        place = rng.random(shape)
        return np.where(place < (0.25 + effect) / 2, 1.0, np.where(place > 1 - (0.25 - effect) / 2, -1.0, 0.0))
    if kind == SKEWED:
        return np.where(rng.random(shape) < 0.1, 0.36, -0.04)
    common = rng.normal(3.6, 0.7, shape)
    first = np.clip(np.rint(common + rng.normal(0.0, 0.7, shape)), 1, 5)
    second = np.clip(np.rint(common + rng.normal(1.15 * 4 * effect, 0.7, shape)), 1, 5)
    return np.asarray((second - first) / 4, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class VerdictRates:
    """How often each verdict was given, and the mean proportion of units used."""

    better: float
    worse: float
    equal: float
    calls: float


def verdict_rates(design: SequentialDesign, paths: Floats) -> VerdictRates:
    """The verdicts of a design over simulated sequences."""
    verdicts, units = design.first_verdicts(paths)
    better, worse, equal = (verdicts.count(name) / len(verdicts) for name in ("better", "worse", "equal"))
    return VerdictRates(better, worse, equal, float(units.mean()) / design.n)


def fixed_design(n: int, delta: float | None = DELTA) -> SequentialDesign:
    """One test at the end."""
    return SequentialDesign(n, (n,), delta)


def acceptance_figures(draws: int, seed: int = 1) -> Iterator[Figure]:
    """Error rates and savings at 200 units, and the savings at 500 units."""
    design = SequentialDesign.plan(200, delta=DELTA)
    for kind in KINDS:
        null = verdict_rates(design, draw_differences(kind, 0.0, draws, 200, seed))
        margin = verdict_rates(design, draw_differences(kind, DELTA, draws, 200, seed))
        yield Figure(f"{kind}, 200 units, no difference: better or worse", null.better + null.worse, 0.057)
        yield Figure(f"{kind}, 200 units, difference of delta: equal", margin.equal, 0.057)
    paths = draw_differences(KINDS[0], 0.1, draws, 200, seed)
    large, fixed = verdict_rates(design, paths), verdict_rates(fixed_design(200), paths)
    yield Figure(f"{KINDS[0]}, 200 units, difference of 0.1: calls", large.calls, 0.70)
    yield Figure("... better", large.better, at_least=fixed.better - 0.06)
    yield Figure("... better, one test of all units", fixed.better)
    paths = draw_differences(KINDS[1], 0.1, draws, 500, seed)
    yield Figure(f"{KINDS[1]}, 500 units, difference of 0.1: calls", verdict_rates(design_of(500), paths).calls, 0.25)


def design_of(n: int) -> SequentialDesign:
    return SequentialDesign.plan(n, delta=DELTA)


def peeking_rate(n: int, draws: int, seed: int = 1) -> float:
    """How often an ordinary test after every look finds a difference where there is none."""
    paths = draw_differences(KINDS[0], 0.0, draws, n, seed)
    found = np.zeros(draws, dtype=np.bool_)
    for count in SequentialDesign.plan(n).looks:
        verdicts, _ = fixed_design(count, None).first_verdicts(paths[:, :count])
        found |= np.array(verdicts) != "inconclusive"
    return float(found.mean())


def gate_figures(draws: int, seed: int = 2) -> Iterator[Figure]:
    """Gates at their threshold: how often they pass, and how often they fail."""
    rng = np.random.default_rng(seed)
    for n in (100, 200, 500):
        for threshold in (0.8, 0.9, 0.95):
            scores = (rng.random((draws, n)) < threshold).astype(np.float64)
            yield from _gate_rates(SequentialDesign.plan(n, threshold=threshold, binary=True), scores, "0/1")
    for threshold in (0.8, 0.9, 0.95):
        scores = rng.beta(8 * threshold, 8 * (1 - threshold), (max(draws // 4, 1), 200))
        yield from _gate_rates(SequentialDesign.plan(200, threshold=threshold), scores, "beta, betting")


def _gate_rates(design: SequentialDesign, scores: Floats, kind: str) -> Iterator[Figure]:
    verdicts, _ = design.first_verdicts(scores)
    for verdict in ("pass", "fail"):
        name = f"gate at {design.threshold:g}, {design.n} units, {kind}: {verdict}"
        yield Figure(name, verdicts.count(verdict) / len(verdicts), 0.027)


def method_figures(draws: int, seed: int = 3) -> Iterator[Figure]:
    """Calls and power of each method by effect."""
    for kind in KINDS:
        for n in (200, 500, 2000):
            designs = {
                "one test": fixed_design(n),
                "sequential": design_of(n),
                "betting": SequentialDesign.plan(n, delta=DELTA, method="betting"),
                "these units": SequentialDesign.plan(n, looks=10, delta=DELTA, finite=True),
            }
            for effect in (0.0, 0.02, 0.05, 0.1):
                paths = draw_differences(kind, effect, draws, n, seed)
                for name, design in designs.items():
                    found = verdict_rates(design, paths)
                    what = f"{kind}, {n} units, difference of {effect:g}, {name}"
                    yield Figure(f"{what}: better {found.better:.3f}, equal {found.equal:.3f}, calls", found.calls)
    for n in (100, 200, 500):
        for method in ("group_sequential", "betting"):
            found = verdict_rates(
                SequentialDesign.plan(n, method=method), draw_differences(SKEWED, 0.0, draws, n, seed)
            )
            yield Figure(f"{SKEWED}, {n} units, {method}: better or worse", found.better + found.worse)


# --- replay of human verdicts ----------------------------------------------------------------------------------------


@lru_cache
def human_verdicts() -> dict[str, Floats]:
    """Human verdicts (0 or 1) of five systems on the same questions (EVOUNA, Natural Questions)."""
    rows = json.loads((DATA / "evouna" / "NQ.json").read_text(encoding="utf-8"))
    kept = [row for row in rows if not row["improper"] and all(row[f"judge_{one}"] is not None for one in SYSTEMS)]
    return {one: np.array([float(row[f"judge_{one}"]) for row in kept]) for one in SYSTEMS}


@dataclass(frozen=True, slots=True)
class Replay:
    """Stopped runs compared with runs in which all units are judged."""

    calls: float
    """The mean proportion of units judged."""
    same: float
    """The proportion with the verdict of all units."""
    opposite: float
    """The proportion with better for worse, or the reverse."""
    decided: float


def replay(differences: Sequence[Floats], n: int, orders: int, seed: int = 4) -> Replay:
    """Judge ``n`` random questions of each pair of systems in random order, and compare with all of them."""
    rng = np.random.default_rng([seed, n])
    stopped: list[Verdict] = []
    full: list[Verdict] = []
    units: list[float] = []
    for values in differences:
        paths = np.array([values[rng.permutation(len(values))[:n]] for _ in range(orders)])
        verdicts, counts = design_of(n).first_verdicts(paths)
        stopped += verdicts
        units += (counts / n).tolist()
        full += fixed_design(n).first_verdicts(paths)[0]
    pairs = list(zip(stopped, full, strict=True))
    return Replay(
        calls=float(np.mean(units)),
        same=sum(one == other for one, other in pairs) / len(pairs),
        opposite=sum({one, other} == {"better", "worse"} for one, other in pairs) / len(pairs),
        decided=sum(one != "inconclusive" for one in stopped) / len(pairs),
    )


def pair_differences() -> dict[tuple[str, str], Floats]:
    """The differences of each pair of systems."""
    verdicts = human_verdicts()
    return {(one, other): verdicts[other] - verdicts[one] for one, other in combinations(SYSTEMS, 2)}


def replay_figures(orders: int) -> Iterator[Figure]:
    """All pairs at three sizes, and the pairs with a difference of about five points at 2,000 units."""
    pairs = pair_differences()
    limits = {500: (0.65, 0.93, 0.005), 2000: (0.5, 0.93, 0.005)}
    for n in (200, 500, 2000):
        yield from _replay_rows(
            f"human verdicts, ten pairs, {n} units", replay(list(pairs.values()), n, orders), limits.get(n)
        )
    name = "human verdicts, chatgpt and gpt4, difference of 5 points, 2000 units"
    yield from _replay_rows(name, replay([five_points(pairs)], 2000, orders), limits[2000])


def five_points(pairs: dict[tuple[str, str], Floats], seed: int = 5) -> Floats:
    """The pair closest to a difference of five points, without some of the questions that only one system got right."""
    values = pairs["chatgpt", "gpt4"]
    gains = np.random.default_rng(seed).permutation(np.flatnonzero(values > 0))
    # k gains are left out so that (sum - k) / (count - k) = 1 / 20.
    excess = round((20 * values.sum() - len(values)) / 19)
    return np.delete(values, gains[:excess])


def _replay_rows(name: str, found: Replay, limits: tuple[float, float, float] | None) -> Iterator[Figure]:
    calls, same, opposite = limits or (None, None, None)
    yield Figure(f"{name}: calls", found.calls, calls)
    yield Figure("... verdict of all units", found.same, at_least=same)
    yield Figure("... opposite verdict", found.opposite, opposite)
    yield Figure("... decided", found.decided)


def early_stopping(divisor: int) -> Iterator[Figure]:
    """Section A."""
    yield from acceptance_figures(4_000 // divisor)
    yield Figure(
        "an ordinary test after each of 20 looks at 200 units: false alarms", peeking_rate(200, 4_000 // divisor)
    )
    yield from gate_figures(20_000 // divisor)
    if (DATA / "evouna" / "NQ.json").exists():
        yield from replay_figures(200 // divisor)
    yield from method_figures(500 // divisor)


SECTIONS: dict[str, tuple[str, Section]] = {"A": ("Early stopping", early_stopping)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=MODULES, help="one section")
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    options = parser.parse_args()
    failed = 0
    for letter in [options.only] if options.only else MODULES:
        if find_spec(MODULES[letter]) is None:
            continue
        title, figures = import_module(MODULES[letter]).SECTIONS[letter]
        start = time.process_time()
        print(f"\n#### {letter}. {title}\n\n| figure | value | limit | holds |\n|---|---|---|---|")
        for figure in figures(10 if options.quick else 1):
            print(figure.row(), flush=True)
            failed += not figure.holds
        print(f"\n{time.process_time() - start:.0f} s of CPU")
    raise SystemExit(f"{failed} figures miss their limits" if failed else 0)


if __name__ == "__main__":
    main()
