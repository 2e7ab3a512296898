"""Latency: mean and quantiles of a timing, and throughput."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np

from ..core.batch import Batch
from ..core.conventions import signature_number
from ..core.derivation import add_outcome, add_table
from ..core.metrics_base import RunInfo, SampleMetric, declare, with_option
from ..core.reduce import Clusters, Fold, Reducer, SumsReducer, counted_values
from ..core.registry import ConfiguredMetric, register
from ..core.scores import Score, Scores
from ..core.types import STARTED, EvaluationSample, SystemOutputs, TargetCategory
from ..errors import BadValueError
from ..options import Gt, Le, PositiveInt
from ..stats.bootstrap import quantile_interval, quantile_of, quantile_rank
from ..stats.intervals import Interval

# Keys that can stand between the brackets of a metric name and be parsed again.
_TIMING_KEY = re.compile(r"[^\s\[\],|@](?:[^\[\],|@]*[^\s\[\],|@])?")


def _finite_number(value: object) -> float | None:
    """The number; ``None`` if it is not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class TimingMetric(ConfiguredMetric, SampleMetric):
    """A metric of one timing of every output."""

    timing_key: str = "end_to_end"

    target = TargetCategory.LATENCY
    metadata = declare(
        reads=frozenset({"timings"}),
        counts_system_failures=False,
        skip_reasons={"no_timing": "the output has no such timing"},
        range=(0.0, math.inf),
        higher_is_better=False,
        signature={},
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _TIMING_KEY.fullmatch(self.timing_key):
            raise BadValueError(f"a timing called {self.timing_key!r} cannot stand in a metric's name; rename it")

    def is_applicable(self, sample: EvaluationSample, output: SystemOutputs) -> bool:
        """Whether the output has this timing."""
        return output.timings.get(self.timing_key) is not None

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The timing."""
        timing = output.timings.get(self.timing_key)
        if timing is None:
            return Score.skip("no_timing")
        seconds = _finite_number(timing)
        if seconds is None or seconds < 0:
            return Score.fail("bad_timing")
        add_table(
            "The timings of the output",
            ("timing", "seconds"),
            ((key, value if isinstance(value, (int, float)) else str(value)) for key, value in output.timings.items()),
        )
        return Score(add_outcome(f"{self.timing_key} in seconds", seconds))

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """The concurrency of the run."""
        return {} if run.concurrency is None else {"concurrency": str(run.concurrency)}

    def _seconds(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> list[float]:
        """The scored timings, for the plain definitions."""
        scores = [self.score_one(sample, output) for sample, output in zip(samples, outputs, strict=True)]
        return [score.value for score in scores if score.value is not None]


@register("mean_latency", keys=("timing_key",))
@dataclass(frozen=True)
class MeanLatency(TimingMetric):
    r"""Mean of one timing, in the unit the system reports (seconds, by our own runner).

    .. math:: t_\text{key}

    Failed outputs are left out: a crash is not a fast answer. The concurrency of the run, where known, is part of the
    signature, since waiting in line is part of the wait. A timing that is negative or not a number is a failed
    measurement (`bad_timing`).
    """

    metadata = declare(
        examples=(
            "mean_latency",
            "mean_latency[retrieval]",
        ),
    )


class Quantile(Reducer):
    """The smallest observed value that a proportion q of all values do not exceed; never interpolated."""

    def __init__(self, q: float) -> None:
        self.q = q
        self.name = f"quantile[{signature_number(q)}]"

    def value(self, scores: Scores) -> float:
        """The quantile; NaN without values."""
        return quantile_of(counted_values(scores), self.q)

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """A bootstrap over samples, or clusters of them; None if every draw gives the same."""
        kept = None if clusters is None else clusters[scores.counted]
        return quantile_interval(counted_values(scores), self.q, clusters=kept)


@register("quantile_latency", keys=("timing_key", "quantile"))
@dataclass(frozen=True)
class QuantileLatency(TimingMetric):
    r"""The time within which a given proportion of the answers came: with `quantile` 0.95, all but the slowest 5 %.

    .. math:: t_{(r)} \quad \text{with} \quad r - 1 < q \cdot n \le r

    The timing at position q·n, rounded up, in ascending order: a measured timing, never interpolated. q is taken as the
    decimal number it is written as, so that 0.55 of 100 timings is the 55th. With q = 1 it is the slowest answer.
    Failed outputs and bad timings are treated as by `mean_latency`, and the concurrency of the run is in the signature
    alike. The interval is a bootstrap; it is marked `unbounded` if too few timings lie beyond the quantile, as with
    0.95 and fewer than 72 answers.
    """

    quantile: Annotated[float, Gt(0), Le(1)] = 0.95

    metadata = declare(
        needs_all=True,
        examples=(
            "quantile_latency",
            "quantile_latency[retrieval,0.5]",
            "quantile_latency[end_to_end,1.0]",
        ),
    )

    def __post_init__(self) -> None:
        if _finite_number(self.quantile) is not None:
            # The decimal number as written, for numbers of lower precision too.
            object.__setattr__(self, "quantile", float(str(self.quantile)))
        super().__post_init__()
        object.__setattr__(self, "reducer", Quantile(self.quantile))

    def further_details(self, scores: Scores, clusters: Clusters | None) -> dict[str, Any]:
        """The quantile."""
        return {"quantile": self.quantile}

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The plain definition."""
        seconds = sorted(self._seconds(samples, outputs))
        return seconds[quantile_rank(self.quantile, len(seconds)) - 1] if seconds else math.nan


class AnswerRate(SumsReducer):
    """Answers per second at a fixed concurrency. Reads (1, seconds)."""

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self.name = f"answer_rate[{concurrency}]"

    def from_sums(self, sums: Sequence[float]) -> float:
        """Answers per second; NaN if they took no time."""
        answers, seconds = sums
        return _rate(self.concurrency * answers, seconds)


class ClockRate(Reducer):
    """Answers over the time from the first start to the last end. Reads (start, end).

    It has no interval: answers that wait for each other are not independent.
    """

    name = "clock_rate"

    def fold(self) -> Fold:
        """Keeps a count, the first start and the last end."""
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
    """Answers per second; NaN if it is not finite."""
    rate = answers / seconds if seconds > 0 else math.inf
    return rate if math.isfinite(rate) else math.nan


@register("throughput")
@dataclass(frozen=True)
class Throughput(TimingMetric):
    r"""Answers per second.

    .. math:: \frac{c \cdot n}{\sum t} \quad \text{or} \quad \frac{n}{\max(\text{start} + t) - \min(\text{start})}

    `by: latency` (the first) uses the time each answer took and assumes that c requests were always in flight: the
    `concurrency` given, else that of the run, else 1. `by: clock` (the second) uses the start of each request,
    `timings["started"]` in seconds of one clock, and needs no assumption; a pause between two requests counts. Failed
    outputs are left out, as are those without the timing. If no time was spent there is no value. The score of a sample
    is its timing, for which lower is better.
    """

    by: Literal["latency", "clock"] = "latency"
    concurrency: PositiveInt | None = None

    metadata = declare(
        output_skips=frozenset({"no_start"}),
        skip_reasons={
            **TimingMetric.metadata.skip_reasons,
            "no_start": "by the clock, and the output does not say when its request began",
        },
        higher_is_better=True,
        examples=(
            "throughput",
            {"throughput": {"timing_key": "retrieval", "concurrency": 3}},
            {"throughput": {"by": "clock"}},
        ),
        signature={"timing": "timing_key", "by": "by", "concurrency": "assumed_concurrency"},
    )
    higher_score_is_better = False
    """False: a score is a timing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.concurrency is not None and self.by == "clock":
            raise BadValueError("'concurrency' cannot be combined with 'by: clock', which measures it")

    @property
    def assumed_concurrency(self) -> int | None:
        """The number of requests in flight; by the clock it is not needed."""
        return (self.concurrency or 1) if self.by == "latency" else None

    @property
    def reducer(self) -> Reducer:  # type: ignore[override]
        """Answers per second, by latency or by the clock."""
        return AnswerRate(self.concurrency or 1) if self.by == "latency" else ClockRate()

    def for_run(self, run: RunInfo) -> Self:
        """A copy with the concurrency of the run, unless it is set."""
        if self.by == "clock" or self.concurrency is not None or run.concurrency is None:
            return self
        return with_option(self, "concurrency", run.concurrency)

    def score_one(self, sample: EvaluationSample, output: SystemOutputs) -> Score:
        """The timing; by the clock only if its start is known."""
        score = super().score_one(sample, output)
        if self.by == "latency" or score.value is None:
            return score
        started = output.timings.get(STARTED)
        if started is None:
            return Score.skip("no_start")
        return Score.fail("bad_timing") if _finite_number(started) is None else score

    def score(self, batch: Batch) -> Scores:
        """The timing of each answer, with the statistics of the reducer."""
        scores = super().score(batch)
        seconds = np.nan_to_num(scores.values)
        if self.by == "latency":
            return replace(scores, stats=np.column_stack([np.ones(len(batch)), seconds]))
        starts = [
            0.0 if output is None or not counted else float(output.timings[STARTED])
            for output, counted in zip(batch.outputs, scores.counted, strict=True)
        ]
        return replace(scores, stats=np.column_stack([starts, starts + seconds]))

    def run_signature_options(self, run: RunInfo) -> dict[str, str]:
        """By the clock the concurrency; by latency it is an option already."""
        return super().run_signature_options(run) if self.by == "clock" else {}

    def reference_value(self, samples: Sequence[EvaluationSample], outputs: Sequence[SystemOutputs]) -> float | None:
        """The plain definition."""
        seconds = self._seconds(samples, outputs)
        if self.by == "latency":
            total = math.fsum(seconds)
            return (self.concurrency or 1) * len(seconds) / total if total else math.nan
        timings = [
            (output.timings[STARTED], output.timings[self.timing_key])
            for sample, output in zip(samples, outputs, strict=True)
            if self.score_one(sample, output).value is not None
        ]
        span = max((start + seconds for start, seconds in timings), default=0) - min(
            (start for start, _ in timings), default=0
        )
        return len(timings) / span if span else math.nan
