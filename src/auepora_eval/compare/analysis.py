"""Statistical comparison of metrics of two runs: tests, intervals and power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from statistics import NormalDist
from typing import Literal, get_args

import numpy as np

from ..core.reduce import Clusters
from ..core.results import CLAIM_ALL, deciding_look, sequential_note
from ..errors import BadValueError
from ..stats.calibration import CorrectedMean, corrected_difference
from ..stats.difference import (
    PairedStatistics,
    effect_size,
    mde,
    paired_bootstrap_of,
    paired_bootstraps,
    paired_interval,
    required_n,
    unit_sd,
)
from ..stats.intervals import Floats, Interval
from ..stats.permutation import (
    SignFlips,
    SwapStatistic,
    difference_sums,
    holm,
    joint_level,
    max_t,
    permutation_test,
    tukey_hsd,
)
from ..stats.sampling import join_empty_strata
from ..stats.skew import bounds_under_skew
from .depths import join_ends
from .pairing import (
    Fill,
    MetricMeta,
    RunPairScores,
    completed_difference,
    kept_results,
    pair_scores,
    ratio_of_amounts,
)
from .types import EXPLORATORY, ComparisonInput, MetricComparison, SequentialComparison, Verdict, join_notes
from .verdicts import (
    ALPHA,
    Ends,
    FailureCheck,
    excludes_zero,
    is_within,
    recheck_with_failures,
    recheck_with_missing,
    verdict_of,
)

# --- notes on a metric: few units, which samples count, the spread of repeats ----------------------------------------


def is_unbounded(interval: Interval | None) -> bool:
    """Whether an interval of equal values gives no bound on further values."""
    return interval is not None and interval.method == "all_equal" and "unbounded" in interval.flags


def metric_notes(given: ComparisonInput, reading: RunPairScores, interval: Interval | None, units: int) -> list[str]:
    """The notes on a metric, with the interval of its difference and the number of independent units."""
    if not reading.used.any() and given.definition.reducer is not None:
        return ["no sample has a score in both runs"]
    notes = []
    if reading.has_test and units == 1:
        what = "sample" if reading.used.sum() == 1 else "cluster of samples"
        notes.append(f"one {what} cannot tell")
    if given.margin is not None and is_unbounded(interval) and not reading.identical:
        notes.append("all differences are equal, so nothing bounds what another sample would show")
    if given.definition.reducer is not None and not reading.has_test:
        notes.append("no interval and no test: the score depends on all samples together")
    alone = reading.used & ~reading.both
    if reading.has_test and alone.any():
        notes.append(
            f"scored on {int(reading.first.counted.sum())} samples in A and {int(reading.second.counted.sum())} in "
            f"B, {int(reading.both.sum())} of them in both"
        )
    return notes + _repeat_notes(given, reading)


def _repeat_notes(given: ComparisonInput, reading: RunPairScores) -> list[str]:
    if given.own_spread is None:
        return []
    spreads = " and ".join(
        f"±{spread:.3g} in {run}" for run, spread in zip("AB", given.own_spread, strict=True) if spread is not None
    )
    note = f"repeats: the answers to one sample spread by {spreads}"
    if reading.values is not None and None not in given.own_spread:
        differences = reading.differences[reading.used]
        variance = float(differences.var(ddof=1)) if len(differences) > 1 else 0.0
        own = sum((spread or 0.0) ** 2 / n for spread, n in zip(given.own_spread, given.repeats, strict=True))
        if variance > 0:
            note += f"; that makes {min(1.0, own / variance):.0%} of the variance of the differences"
    return [note]


# --- the analysis: permutation tests, intervals, power and verdicts --------------------------------------------------

Adjustment = Literal["max-t", "holm"]
"""How the p-values of two runs are adjusted."""
LeaderboardAdjustment = Adjustment | Literal["tukey"]
"""The same for several runs; in randomised Tukey HSD only the pairs of one metric share 5 %."""

_DRAWS = 10_000
_MIN_JUDGED = 4
_SMALLEST_P = 1e-9
_BISECTIONS = 24
_FOLD_DRAWS = 1000
"""Statistics that are not functions of sums are recomputed for each draw, so there are fewer draws."""


def require_adjustment(adjust: str) -> None:
    """Raise if there is no such method to adjust p-values."""
    known = [*get_args(Adjustment), "tukey"]
    if adjust not in known:
        raise BadValueError(f"unknown method to adjust p-values {adjust!r}; choose one of: {', '.join(known)}")


def compute_comparisons(
    inputs: Sequence[ComparisonInput],
    clusters: Clusters | None,
    *,
    adjust: LeaderboardAdjustment = "max-t",
    seed: int = 0,
) -> list[MetricComparison]:
    """The comparison of every metric. Primary metrics share one 5 %; all tests use the same swaps of clusters.

    A metric with a sequential test has its own error rate. It is not among the metrics that share 5 %, and neither is
    one that is exploratory. One of two-stage judging is tested at 5 % divided by the number of primary metrics.
    Where lists are cut, a verdict holds at both ends of what they allow.
    """
    given = list(chain.from_iterable(listed.ends for listed in inputs))
    numbers = np.repeat(np.arange(len(inputs)), [len(listed.ends) for listed in inputs]).tolist()
    tests = max(sum(entered.primary and entered.sequential is None for entered in given), 1)
    inputs = [replace(entered, primary=entered.primary and _shares_rate(entered)) for entered in given]
    analysis = Analysis(inputs, clusters, adjust, seed)
    fills = get_args(Fill) if any(entered.pair.is_fillable for entered in inputs) else ()
    bounds = [Analysis(inputs, clusters, adjust, seed, fill=fill, verdicts_only=True) for fill in fills]
    compared = [_with_ratio(analysis, index, analysis.comparison(index, bounds)) for index in range(len(inputs))]
    compared = _downgrade_verdicts(analysis, compared, recheck_with_missing)
    compared = _downgrade_verdicts(analysis, compared, recheck_with_failures)
    joined: list[list[MetricComparison]] = [[] for _ in range(len({*numbers}))]
    for number, entered, found in zip(numbers, given, compared, strict=True):
        if entered.sequential is not None:
            found = with_sequential(found, entered.sequential)  # noqa: PLW2901
        elif entered.two_stage is not None:
            found = with_two_stage(found, entered, clusters, tests)  # noqa: PLW2901
        joined[number].append(replace(found, primary=entered.primary))
    return [join_ends(ends) for ends in joined]


def _shares_rate(comparison: ComparisonInput) -> bool:
    """Whether a comparison, if it is primary, shares the error rate of the others."""
    withheld = comparison.withheld in EXPLORATORY or (comparison.withheld == "no_direction" and not comparison.is_joint)
    return comparison.sequential is None and comparison.two_stage is None and not withheld


def _with_ratio(analysis: Analysis, place: int, found: MetricComparison) -> MetricComparison:
    """The comparison of an amount, such as tokens, with the ratio of its values."""
    if analysis.inputs[place].withheld != "no_direction":
        return found
    ratio = ratio_of_amounts(analysis.pair(place), analysis.clusters)
    if ratio is None:
        return found
    text = "B takes {:.3g} times as much as A (95 % interval {:.3g} to {:.3g})".format(*ratio)
    return replace(found, ratio=ratio, note=join_notes(text, found.note))


def with_sequential(found: MetricComparison, test: SequentialComparison) -> MetricComparison:
    """The comparison with the verdict and the numbers of a sequential test: those of the look that decided.

    There is no p-value or power of a fixed number of samples: the number of samples depends on the scores.
    """
    stored = test.details
    design, look, note = stored["design"], deciding_look(stored), sequential_note(stored)
    if stored.get("claim") == "all":
        note += f"; {CLAIM_ALL}"
    if stored.get("stopped_at") and stored.get("units", 0) > stored["stopped_at"]:
        note += f"; the difference, its interval and p are those of the look at {stored['stopped_at']} units"
    verdict: Verdict = stored["verdict"]
    if test.is_reversed:
        verdict = {"better": "worse", "worse": "better"}.get(verdict, verdict)  # type: ignore[assignment]
    delta, ends, p_value = None, None, None
    if look is not None:
        delta, ends, p_value = look["mean"], (look["low"], look["high"]), look["p_value"]
        if test.is_reversed:
            delta, ends = -delta, (-ends[1], -ends[0])
    return replace(
        found,
        delta=delta,
        delta_completed=None
        if found.delta_completed == found.delta
        else found.delta_completed,  # a system failed on some
        bounds=None,
        interval=ends,
        interval_adjusted=ends,
        interval_under_skew=None,
        p_value=p_value,
        p_adjusted=None if p_value is None else min(1.0, p_value * design.get("tests", 1)),
        effect_size=None,
        mde=None,
        n_needed=None,
        verdict=verdict,
        primary=True,
        negligible=verdict in ("better", "worse") and is_within(ends, design.get("delta")),
        flags=(),
        doubt=None,
        note=join_notes(note, found.note),
        sequential={"run": "a" if test.is_reversed else "b", **stored},
    )


def with_two_stage(
    found: MetricComparison, given: ComparisonInput, clusters: Clusters | None, tests: int
) -> MetricComparison:
    """The comparison with the corrected difference of two-stage judging, tested at 5 % divided by ``tests``."""
    stage, definition = given.two_stage, given.definition
    assert stage is not None
    inside = stage.strata >= 0
    labelled = inside & ~np.isnan(stage.first) & ~np.isnan(stage.second)
    judged, samples = int(labelled.sum()), int(inside.sum())
    blank = replace(
        found,
        delta=None,
        delta_completed=None,
        bounds=None,
        interval=None,
        interval_adjusted=None,
        interval_under_skew=None,
        p_value=None,
        p_adjusted=None,
        effect_size=None,
        mde=None,
        n_needed=None,
        verdict="inconclusive",
        primary=given.primary,
        negligible=False,
        flags=(),
        doubt=None,
    )
    if judged < _MIN_JUDGED:
        return replace(blank, note=f"two-stage judging: {judged} samples are judged in both runs, too few for a test")
    low, high = definition.range

    strata = join_empty_strata(stage.strata[inside], labelled[inside])

    def corrected(level: float, *, judge_alone: bool = False) -> CorrectedMean:
        shares = np.bincount(strata, labelled[inside]) / np.maximum(np.bincount(strata), 1)
        return corrected_difference(
            stage.first_predictions[inside],
            stage.second_predictions[inside],
            stage.first[inside],
            stage.second[inside],
            strata=None if judge_alone else strata,
            probabilities=shares[strata] if judge_alone else None,
            clusters=None if clusters is None else clusters[inside],
            binary=definition.binary and bool(np.isin([stage.first[labelled], stage.second[labelled]], (0, 1)).all()),
            lowest=low,
            highest=high,
            level=level,
            use_scores=not judge_alone,
        )

    plain, adjusted, narrow = (corrected(level) for level in (1 - ALPHA, 1 - ALPHA / tests, 1 - 2 * ALPHA))
    alone = corrected(1 - ALPHA, judge_alone=True)
    p_value = _inverted_p_value(corrected)
    p_adjusted = None if p_value is None or not given.primary else min(1.0, p_value * tests)
    verdict = verdict_of(
        plain.value,
        p_adjusted=p_adjusted,
        higher_is_better=definition.higher_is_better,
        interval_adjusted=_ends(adjusted.interval),
        interval_90=_bounded_ends(narrow.interval),
        margin=given.margin,
    )
    note = (
        f"two-stage judging: {stage.target}, by {judged:,} of {samples:,} samples judged in both runs and the scores "
        "predicted for all"
    )
    if stage.failed:
        note += f"; {stage.failed} drawn samples have no usable judgement and left the draw"
    a, b = given.stored or (found.a, found.b)
    shown = adjusted if given.is_joint else plain
    ends = _ends(shown.interval)
    return replace(
        blank,
        a=a,
        b=b,
        delta=plain.value,
        interval=ends,
        interval_adjusted=_ends(adjusted.interval) if given.primary else None,
        p_value=p_value,
        p_adjusted=p_adjusted,
        verdict=verdict,
        n=judged,
        clusters=judged if clusters is None else len(np.unique(clusters[labelled])),
        negligible=verdict in ("better", "worse") and is_within(ends, given.margin),
        flags=() if shown.interval is None else shown.interval.flags,
        note=join_notes(note, found.note),
        two_stage={
            "target": f"the difference in {stage.target}",
            "samples": samples,
            "judged": judged,
            "failed": stage.failed,
            "weight": plain.weight,
            "expensive_only": {"delta": alone.value, "interval": _ends(alone.interval)},
            "cheap_only": {"delta": plain.scores_mean},
        },
    )


def _inverted_p_value(corrected: Callable[[float], CorrectedMean]) -> float | None:
    """The largest p for which the interval at the level 1 - p contains 0; ``None`` without an interval."""
    contained, excluded = _SMALLEST_P, 1.0
    if corrected(1 - contained).interval is None:
        return None
    if excludes_zero(_ends(corrected(1 - contained).interval)):
        return contained
    for _ in range(_BISECTIONS):
        middle = math.sqrt(contained * excluded)
        if excludes_zero(_ends(corrected(1 - middle).interval)):
            excluded = middle
        else:
            contained = middle
    return excluded


def _downgrade_verdicts(
    analysis: Analysis,
    compared: list[MetricComparison],
    recheck: Callable[[ComparisonInput, Verdict], FailureCheck | None],
) -> list[MetricComparison]:
    """Downgrade verdicts to inconclusive that hold only because of failed or missing outputs of the winner."""
    found = [recheck(given, before.verdict) for given, before in zip(analysis.inputs, compared, strict=True)]
    if not any(found):
        return compared
    changed = [with_failures(given, check) for given, check in zip(analysis.inputs, found, strict=True)]
    hard = Analysis(changed, analysis.clusters, analysis.adjust, analysis.seed, verdicts_only=True)
    for index, check in enumerate(found):
        before = compared[index]
        if check is None or (
            check.change is not None
            and hard.verdict(index) == before.verdict
            and (not check.needs_bonferroni or analysis.p_values[index] * analysis.num_tested < ALPHA)
        ):
            continue
        compared[index] = replace(
            before,
            verdict="inconclusive",
            negligible=False,
            n_needed=analysis.power(index, open_=True).n_needed,
            doubt=check.reason,
            note=join_notes(before.note, check.note),
        )
    return compared


def with_failures(given: ComparisonInput, check: FailureCheck | None) -> ComparisonInput:
    """The input with failures counted against the winner; unchanged where there is nothing to count."""
    change = None if check is None else check.change
    return given if change is None else replace(given, read=lambda: change(given.pair))


class Analysis:
    """Tests and intervals of all metrics under one assumption about failed measurements (``fill``)."""

    def __init__(
        self,
        inputs: Sequence[ComparisonInput],
        clusters: Clusters | None,
        adjust: LeaderboardAdjustment = "max-t",
        seed: int = 0,
        *,
        fill: Fill | None = None,
        verdicts_only: bool = False,
    ) -> None:
        self.inputs, self.clusters, self.adjust, self.seed = inputs, clusters, adjust, seed
        self._fill: Fill | None = fill
        self._n = len(inputs[0].pair.first) if inputs else 0
        self.pair = lru_cache(kept_results(self._n))(self._read_pair)
        """The paired scores of one metric under this assumption."""
        self.levels = np.full(len(inputs), 1 - ALPHA)
        self.p_values, self.p_adjusted = self._run_tests()
        self.intervals = self._intervals(0.95, () if verdicts_only else None)
        self.adjusted = self._adjusted_intervals(verdicts_only=verdicts_only)
        selected = [place for place, given in enumerate(inputs) if given.margin is not None]
        self.narrow = self._intervals(0.90, selected) if selected else [None] * len(inputs)

    def _read_pair(self, place: int) -> RunPairScores:
        return pair_scores(self.inputs[place].pair, self._fill)

    def _run_tests(self) -> tuple[Floats, Floats]:
        means: list[int] = []
        sums: list[int] = []
        folds: dict[int, SwapStatistic] = {}
        for place in range(len(self.inputs)):
            reading = self.pair(place)
            if reading.values is not None:
                means.append(place)
            elif reading.sums is not None:
                sums.append(place)
            elif reading.fold is not None:
                folds[place] = reading.fold
        p_values = np.full(len(self.inputs), np.nan)
        adjusted = p_values.copy()
        order = [*means, *sums, *folds]
        if not order:
            return p_values, adjusted
        flips: SignFlips = permutation_test(
            difference_sums((self.pair(place).differences for place in means), self._n, self.clusters),
            self.clusters,
            sums=self._tables(sums),
            folds=list(folds.values()),
            draws=_DRAWS,
            seed=self.seed,
        )
        p_values[order] = flips.p_values
        primary = [column for column, place in enumerate(order) if self.inputs[place].primary]
        self.levels[order] = joint_level(flips, primary)
        if self.adjust == "holm":
            self.levels[order] = 1 - ALPHA / max(len(primary), 1)
            only = np.full(len(order), np.nan)
            only[primary] = flips.p_values[primary]
            adjusted[order] = holm(only)
            return p_values, adjusted
        adjusted[order] = max_t(flips, primary)
        if self.adjust == "tukey":
            for name in dict.fromkeys(given.name for given in self.inputs if given.primary):
                places = [place for place, given in enumerate(self.inputs) if given.name == name]
                if (tukey := self._tukey(places)) is not None:
                    adjusted[places] = tukey
                    self.levels[places] = joint_level(flips, [order.index(place) for place in places])
        return p_values, adjusted

    def _tukey(self, places: Sequence[int]) -> list[float] | None:
        """The p-values of all pairs of a metric by Tukey's HSD; ``None`` for a metric that is not a mean."""
        columns: dict[int, Floats] = {}
        for place in places:
            values = self.pair(place).values
            if values is None:
                return None
            columns |= dict(zip(self.inputs[place].runs, values, strict=True))
        table = np.stack([columns[run] for run in sorted(columns)], axis=1)
        complete = ~np.isnan(table).any(axis=1)
        if not complete.any():
            return None
        inside = None if self.clusters is None else self.clusters[complete]
        p_values = tukey_hsd(table[complete], inside, seed=self.seed)
        return [p_values[self.inputs[place].runs] for place in places]

    def _adjusted_intervals(self, *, verdicts_only: bool) -> list[Interval | None]:
        """The interval of each primary metric at its own level; with ``verdicts_only``, where a verdict needs it."""
        found: list[Interval | None] = [None] * len(self.inputs)
        selected = [place for place, given in enumerate(self.inputs) if given.primary]
        if verdicts_only:
            selected = [place for place in selected if self.p_adjusted[place] < ALPHA]
        for level in sorted({float(self.levels[place]) for place in selected}):
            places = [place for place in selected if self.levels[place] == level]
            same = level == 1 - ALPHA and not verdicts_only
            intervals = self.intervals if same else self._intervals(level, places)
            for place in places:
                found[place] = intervals[place]
        return found

    def _intervals(self, level: float, places: Sequence[int] | None = None) -> list[Interval | None]:
        found: list[Interval | None] = [None] * len(self.inputs)
        sums: list[int] = []
        for place in range(len(self.inputs)) if places is None else places:
            reading, definition = self.pair(place), self.inputs[place].definition
            used = reading.used
            inside = None if self.clusters is None else self.clusters[used]
            if reading.values is not None:
                first, second = (values[used] for values in reading.values)
                low, high = definition.range
                found[place] = paired_interval(
                    first, second, clusters=inside, binary=definition.binary, lowest=low, highest=high, level=level
                )
            elif reading.sums is not None:
                sums.append(place)
            elif reading.of_rows is not None:
                found[place] = paired_bootstrap_of(
                    *reading.of_rows, int(used.sum()), clusters=inside, draws=_FOLD_DRAWS, seed=self.seed, level=level
                )
        drawn = paired_bootstraps(self._tables(sums), clusters=self.clusters, draws=_DRAWS, seed=self.seed, level=level)
        for place, interval in zip(sums, drawn, strict=True):
            found[place] = interval
        for place, interval in enumerate(found):
            # If every draw of a metric that is not a mean gives the same, one other sample could still move it far.
            is_empty = interval is not None and interval.method == "all_equal" and self.pair(place).values is None
            if is_empty or interval is None or not np.isfinite([interval.low, interval.high]).all():
                found[place] = None
        return found

    def _tables(self, places: Iterable[int]) -> Iterator[PairedStatistics]:
        """The statistics of metrics that are functions of sums, one by one."""
        return (table for place in places if (table := self.pair(place).sums) is not None)

    def verdict(self, place: int) -> Verdict:
        """The verdict on one metric under this assumption; on skewed differences, other bounds must agree."""
        found = self.verdict_without_skew(place)
        ends = self.skew_bounds(place, found)
        if found == "inconclusive" or ends is None:
            return found
        agrees = is_within(ends, self.inputs[place].margin) if found == "equal" else excludes_zero(ends)
        return found if agrees else "inconclusive"

    def skew_bounds(self, place: int, verdict: Verdict = "inconclusive") -> Ends:
        """Bounds of a difference that hold under skew, at the level of a verdict; ``None`` where it needs none."""
        reading, (low, high) = self.pair(place), self.inputs[place].definition.range
        if reading.values is None:
            return None
        first, second = (values[reading.used] for values in reading.values)
        inside = None if self.clusters is None else self.clusters[reading.used]
        levels: dict[Verdict, float] = {"inconclusive": 1 - ALPHA, "equal": 1 - 2 * ALPHA}
        return bounds_under_skew(
            first,
            second,
            clusters=inside,
            lowest=low,
            highest=high,
            level=levels.get(verdict, 1 - ALPHA / max(self.num_tested, 1)),
        )

    def verdict_without_skew(self, place: int) -> Verdict:
        """The verdict by test and interval alone."""
        if self.inputs[place].withheld is not None:
            return "inconclusive"
        reading = self.pair(place)
        return verdict_of(
            finite_or_none(reading.delta),
            p_adjusted=finite_or_none(self.p_adjusted[place]),
            higher_is_better=self.inputs[place].definition.direction,
            interval_adjusted=_ends(self.adjusted[place]),
            interval_90=_bounded_ends(self.narrow[place]),
            margin=self.inputs[place].margin,
            identical=reading.identical,
        )

    @property
    def num_tested(self) -> int:
        """The number of primary metrics that have a test."""
        return sum(given.primary and not math.isnan(p) for given, p in zip(self.inputs, self.p_values, strict=True))

    def comparison(self, place: int, others: Sequence[Analysis]) -> MetricComparison:
        """The comparison of one metric, with the bounds that failed measurements leave."""
        given, reading = self.inputs[place], self.pair(place)
        pair, interval = given.pair, self.adjusted[place] if given.is_joint else self.intervals[place]
        a, b = reading.a, reading.b
        if math.isnan(a) and math.isnan(b) and given.stored is not None and not reading.has_test:
            a, b = given.stored
        flags, notes = list(() if interval is None else interval.flags), list(given.notes)
        verdict, bounds = self.verdict(place), None
        of_verdict: Verdict = "better" if given.is_joint else "inconclusive"
        downgrade, skew_bounds = given.withheld, self.skew_bounds(place, of_verdict)
        if skew_bounds is not None:
            flags.append("skewed")
        if (plain := self.verdict_without_skew(place)) != verdict:
            low, high = self.skew_bounds(place, plain) or (math.nan, math.nan)
            allowing = f"allowing for that they lie between {low:+.4f} and {high:+.4f} on average"
            notes.append(f"'{plain}' is not certain: the differences are skewed, and {allowing}")
            downgrade = "skewed"
        if pair.definition.direction is None and verdict == "inconclusive" and given.withheld != "no_direction":
            downgrade = downgrade or "no_direction"
            notes.append("classes have no order: its proportion can differ, and no sample is won or lost")
        if pair.is_fillable:
            ends = [look.pair(place).delta for look in others]
            bounds = (min(ends), max(ends)) if np.isfinite(ends).all() else None
            if any(look.verdict(place) != verdict for look in others):
                notes.append(f"{pair.measure_failures} failed measurements could change the verdict from '{verdict}'")
                verdict, downgrade = "inconclusive", "measure_failures"
        elif pair.measure_failures:
            flags.append("unbounded")
            notes.append(f"{pair.measure_failures} failed measurements are left out; what they could change is unknown")
            verdict, downgrade = "inconclusive", "measure_failures"
        notes += metric_notes(given, reading, interval, self._units(place))
        power = self.power(place, open_=verdict == "inconclusive")
        if power.enough and downgrade is None and _straddles(self.intervals[place], given.margin):
            notes.append(
                f"as many samples as would detect a difference of {given.margin:g}; the interval still straddles it"
            )
        delta = finite_or_none(reading.delta if reading.has_test else b - a)
        wins, losses, draws = _count_outcomes(reading, given.definition)
        return MetricComparison(
            name=pair.name,
            label=pair.definition.label,
            target=given.target,
            a=finite_or_none(a),
            b=finite_or_none(b),
            delta=delta,
            delta_completed=finite_or_none(completed_difference(pair)) if reading.has_test else None,
            bounds=bounds,
            interval=_ends(interval),
            p_value=None if given.withheld == "selected_samples" else finite_or_none(self.p_values[place]),
            p_adjusted=finite_or_none(self.p_adjusted[place]),
            effect_size=power.effect_size,
            mde=power.mde,
            wins=wins,
            losses=losses,
            draws=draws,
            verdict=verdict,
            n=int(reading.used.sum()),
            clusters=self._units(place),
            primary=given.primary,
            negligible=verdict in ("better", "worse") and is_within(_bounded_ends(interval), given.margin),
            n_needed=power.n_needed,
            flags=tuple(dict.fromkeys(flags)),
            doubt=downgrade,
            higher_is_better=pair.definition.direction,
            note=join_notes(*notes),
            own_spread=given.own_spread,
            missing=pair.missing,
            interval_adjusted=_ends(self.adjusted[place]),
            interval_under_skew=skew_bounds,
        )

    def _units(self, place: int) -> int:
        used = self.pair(place).used
        return int(used.sum()) if self.clusters is None else len(np.unique(self.clusters[used]))

    def power(self, place: int, *, open_: bool, alpha: float = ALPHA) -> _Power:
        """Effect size, MDE and samples needed; for metrics that are not means, from the width of the interval."""
        reading, interval, units = self.pair(place), self.intervals[place], self._units(place)
        effect, sd = math.nan, math.nan
        if reading.values is not None:
            used = reading.used
            differences = reading.differences[used]
            effect = effect_size(differences)
            sd = unit_sd(differences, None if self.clusters is None else self.clusters[used])
        elif interval is not None and interval.high > interval.low:
            sd = (interval.high - interval.low) / (2 * NormalDist().inv_cdf(0.975)) * math.sqrt(units)
            sd = sd if 0 < sd < math.inf else math.nan
        margin, needed, n = self.inputs[place].margin, None, int(reading.used.sum())
        if open_ and margin is not None:
            needed = required_n(margin, sd, alpha=alpha)
            if needed is not None and units:  # a number of units; users collect samples
                needed = math.ceil(needed * n / units)
        enough = needed is not None and needed <= n
        detects, (low, high) = finite_or_none(mde(sd, units)), self.inputs[place].definition.range
        if detects is not None and detects > high - low:
            detects = None  # no two runs can differ by that much
        return _Power(finite_or_none(effect), detects, None if enough else needed, enough)


@dataclass(frozen=True, slots=True)
class _Power:
    effect_size: float | None
    mde: float | None
    n_needed: int | None
    enough: bool = False
    """Whether there are enough samples to detect the margin."""


def _count_outcomes(reading: RunPairScores, definition: MetricMeta) -> tuple[int, int, int]:
    """How many samples the second run won and lost, and on how many both are equal."""
    if definition.reducer is None or definition.direction is None:
        return 0, 0, 0
    apart = reading.differences[reading.both] * (1 if definition.higher_score_is_better else -1)
    return int((apart > 0).sum()), int((apart < 0).sum()), int((apart == 0).sum())


def finite_or_none(value: float) -> float | None:
    """The number; ``None`` where it is NaN or infinite."""
    value = float(value)
    return value if math.isfinite(value) else None


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)


def _bounded_ends(interval: Interval | None) -> tuple[float, float] | None:
    """The ends of an interval; ``None`` for an interval of equal values without bounds."""
    return None if is_unbounded(interval) else _ends(interval)


def _straddles(interval: Interval | None, margin: float | None) -> bool:
    if interval is None or margin is None:
        return False
    return any(interval.low <= end <= interval.high for end in (-margin, margin))
