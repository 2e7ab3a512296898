"""Latency: the mean and the quantiles of a timing, and the answers per second that it makes possible."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from ..core.batch import Batch
from ..core.derivation import NO_CONTEXT, Derivation, DerivationBuilder, ExplainContext, format_number
from ..core.errors import BadValueError
from ..core.metrics_base import RunInfo, SampleMetric
from ..core.reduce import Clusters, Fold, Reducer, SumsReducer, counted_values
from ..core.registry import register
from ..core.scores import Score, Scores
from ..core.types import STARTED, EvaluationSample, SystemOutputs, TargetCategory
from ..stats.interval import Interval
from ..stats.quantile import quantile_interval, quantile_of, quantile_rank
from .answer_base import require_choice, require_count
from .base import ConfiguredMetric, signature_number

__all__ = ["AnswerRate", "ClockRate", "MeanLatency", "Quantile", "QuantileLatency", "Throughput"]

# What can stand between the brackets of a name and be read back.
_TIMING_KEY = re.compile(r"[^\s\[\],|@](?:[^\[\],|@]*[^\s\[\],|@])?")


def _finite_number(value: object) -> float | None:
    """The number; ``None`` where it is not a finite one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class _TimingMetric(ConfiguredMetric, SampleMetric):
    """A metric of one timing of every output."""

    timing_key: str = "end_to_end"

    target = TargetCategory.LATENCY
    range = (0.0, math.inf)
    higher_is_better = False
    counts_system_failures: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset({"timings"})
    skip_reasons: ClassVar[dict[str, str]] = {"no_timing": "the output has no such timing"}

    def __post_init__(self) -> None:
        if not isinstance(self.timing_key, str) or not _TIMING_KEY.fullmatch(self.timing_key):
            raise BadValueError(f"a timing called {self.timing_key!r} cannot stand in a metric's name; rename it")
        super().__post_init__()

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether there is such a timing."""
        return output.timings.get(self.timing_key) is not None

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The timing."""
        held = output.timings.get(self.timing_key)
        if held is None:
            return Score.skip("no_timing")
        seconds = _finite_number(held)
        return Score.fail("bad_timing") if seconds is None or seconds < 0 else Score(seconds)

    def derivation(
        self, sample: EvaluationSample, output: SystemOutputs, around: ExplainContext = NO_CONTEXT
    ) -> Derivation:
        """The timing itself."""
        timings = [
            (key, value if isinstance(value, (int, float)) else str(value)) for key, value in output.timings.items()
        ]
        steps = DerivationBuilder().table("The timings of the output", ("timing", "seconds"), timings)
        seconds = float(output.timings[self.timing_key])
        return steps.finish(f"{self.timing_key} took {format_number(seconds)}", seconds)

    def signature_options(self) -> dict[str, str]:
        """The name says it all."""
        return {}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """How many requests were in flight at once."""
        return {} if run.concurrency is None else {"concurrency": str(run.concurrency)}

    def _seconds(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> list[float]:
        """The timings that count, for the plain definitions."""
        scores = [self.score_one(sample, output) for sample, output in zip(samples, outputs, strict=True)]
        return [score.value for score in scores if score.value is not None]


@register("mean_latency", keys=("timing_key",))
@dataclass(frozen=True)
class MeanLatency(_TimingMetric):
    r"""Mean of one timing, in the unit the system reports (seconds, by our own runner).

    .. math:: t_\text{key}

    Failed outputs are left out: a crash is not a fast answer. The concurrency of the run, where known, is part of the
    signature, since waiting in line is part of the wait. A timing that is negative or not a number is a failed
    measurement (`bad_timing`).
    """


class Quantile(Reducer):
    """The value that a share q of all values do not exceed: one that was seen, never one in between."""

    def __init__(self, q: float) -> None:
        self.q = q
        self.name = f"quantile[{signature_number(q)}]"

    def value(self, scores: Scores) -> float:
        """The quantile; NaN of nothing."""
        return quantile_of(counted_values(scores), self.q)

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """By drawing samples, or clusters of them, anew; None where every draw gives the same."""
        kept = None if clusters is None else clusters[scores.counted]
        return quantile_interval(counted_values(scores), self.q, clusters=kept)


@register("quantile_latency", keys=("timing_key", "quantile"))
@dataclass(frozen=True)
class QuantileLatency(_TimingMetric):
    r"""The time within which a share of the answers came: with `quantile` 0.95, all but the slowest 5 %.

    .. math:: t_{(r)} \quad \text{with} \quad r - 1 < q \cdot n \le r

    The timings in ascending order, and of those the one at place q·n, rounded up: a timing that was measured, never a
    mixture of two. q is taken as the decimal number it is written as, so that 0.55 of 100 timings is the 55th. With
    q = 1 it is the slowest answer. Failed outputs and bad timings are treated as by `mean_latency`, and the concurrency
    of the run is in the signature alike. The interval is a bootstrap; it is marked `unbounded` where so few timings lie
    beyond the quantile that the slowest of them bounds nothing, as with 0.95 and fewer than 72 answers.
    """

    quantile: float = 0.95

    needs_all: ClassVar[bool] = True

    def __post_init__(self) -> None:
        q = _finite_number(self.quantile)
        if q is None or not 0 < q <= 1:
            raise BadValueError(f"quantile must be a number above 0 and at most 1, such as 0.95, not {self.quantile!r}")
        q = float(str(self.quantile))  # of a number of lower precision, too, what it is written as
        object.__setattr__(self, "quantile", q)
        object.__setattr__(self, "reducer", Quantile(q))
        super().__post_init__()

    def further_details(self, scores: Scores, clusters: npt.NDArray[np.intp] | None) -> dict[str, Any]:
        """Which quantile it is."""
        return {"quantile": self.quantile}

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """By definition."""
        seconds = sorted(self._seconds(samples, outputs))
        return seconds[quantile_rank(self.quantile, len(seconds)) - 1] if seconds else math.nan


class AnswerRate(SumsReducer):
    """Answers over the seconds they took, with so many requests in flight all the time. Reads (1, seconds)."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.name = f"answer_rate[{concurrency}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """Answers per second; NaN where they took no time."""
        answers, seconds = sums
        return _rate(self.concurrency * answers, seconds)


class ClockRate(Reducer):
    """Answers over the time from the first start to the last end. Reads (start, end).

    It has no interval: answers that wait for each other are not drawn independently.
    """

    name = "clock_rate"

    def value(self, scores: Scores) -> float:
        """Answers per second; NaN where no time went by."""
        fold = self.fold()
        fold.add(scores)
        return fold.value()

    def fold(self) -> Fold:
        """A count and two ends."""
        return _ClockFold()


class _ClockFold(Fold):
    def __init__(self) -> None:
        self._answers, self._first, self._last = 0, math.inf, -math.inf

    def add(self, scores: Scores) -> None:
        if scores.stats is not None and scores.counted.any():
            starts, ends = scores.stats[scores.counted].T
            self._answers += len(starts)
            self._first, self._last = min(self._first, float(starts.min())), max(self._last, float(ends.max()))

    def value(self) -> float:
        return _rate(self._answers, self._last - self._first) if self._answers else math.nan


def _rate(answers: float, seconds: float) -> float:
    """Answers per second, as far as that is a number."""
    rate = answers / seconds if seconds > 0 else math.inf
    return rate if math.isfinite(rate) else math.nan


@register("throughput")
@dataclass(frozen=True)
class Throughput(_TimingMetric):
    r"""Answers per second.

    .. math:: \frac{c \cdot n}{\sum t} \quad \text{or} \quad \frac{n}{\max(\text{start} + t) - \min(\text{start})}

    `by: latency` (the first) takes the time each answer took and supposes that c requests were in flight all the time:
    the `concurrency` given, else that of the run, else 1. `by: clock` (the second) goes by when each request began,
    `timings["started"]` in seconds of any one clock, and needs no supposition; a pause between two requests counts.
    Failed outputs are left out, as are those without the timing. Without any time spent there is no value. The score
    of a sample is its timing, so there lower is better.
    """

    by: Literal["latency", "clock"] = "latency"
    concurrency: int | None = None

    higher_is_better = True
    output_skips: ClassVar[frozenset[str]] = frozenset({"no_start"})
    skip_reasons: ClassVar[dict[str, str]] = {
        **_TimingMetric.skip_reasons,
        "no_start": "by the clock, and the output does not say when its request began",
    }

    def __post_init__(self) -> None:
        require_choice("by", self.by, ("latency", "clock"))
        if self.concurrency is not None:
            require_count("concurrency", self.concurrency)
            if self.by == "clock":
                raise BadValueError("'concurrency' means nothing with 'by: clock': the clock shows what it was")
        super().__post_init__()
        self._choose_reducer()

    @property
    def higher_score_is_better(self) -> bool:
        """A score is a timing."""
        return False

    def _choose_reducer(self) -> None:
        rate = AnswerRate(self.concurrency or 1) if self.by == "latency" else ClockRate()
        object.__setattr__(self, "reducer", rate)

    def for_run(self, run: RunInfo) -> Self:
        """With the concurrency of the run, unless it has one of its own."""
        if self.by == "clock" or self.concurrency is not None or run.concurrency is None:
            return self
        twin = copy.copy(self)
        object.__setattr__(twin, "concurrency", run.concurrency)  # frozen, but this is a fresh copy
        twin._choose_reducer()
        return twin

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The timing, if by the clock it is known when it began."""
        score = super().score_one(sample, output)
        if self.by == "latency" or score.value is None:
            return score
        started = output.timings.get(STARTED)
        if started is None:
            return Score.skip("no_start")
        return Score.fail("bad_timing") if _finite_number(started) is None else score

    def score(self, batch: Batch) -> Scores:
        """The timing of each answer, and what the sums or the clock need of it."""
        scores = super().score(batch)
        seconds = np.nan_to_num(scores.values)
        if self.by == "latency":
            return replace(scores, stats=np.column_stack([np.ones(len(batch)), seconds]))
        starts = [
            0.0 if output is None or not counted else float(output.timings[STARTED])
            for output, counted in zip(batch.outputs, scores.counted, strict=True)
        ]
        return replace(scores, stats=np.column_stack([starts, starts + seconds]))

    def signature_options(self) -> dict[str, str]:
        """The timing, how it is counted, and how many requests that supposes in flight."""
        supposed = {"concurrency": str(self.concurrency or 1)} if self.by == "latency" else {}
        return {"timing": self.timing_key, "by": self.by, **supposed}

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """By the clock how many requests were in flight; by latency it is a choice already."""
        return super().run_signature_options(run) if self.by == "clock" else {}

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """By definition."""
        seconds = self._seconds(samples, outputs)
        if self.by == "latency":
            total = math.fsum(seconds)
            return (self.concurrency or 1) * len(seconds) / total if total else math.nan
        begun = [
            (output.timings[STARTED], output.timings[self.timing_key])
            for sample, output in zip(samples, outputs, strict=True)
            if self.score_one(sample, output).value is not None
        ]
        span = max((start + took for start, took in begun), default=0) - min((start for start, _ in begun), default=0)
        return len(begun) / span if span else math.nan
